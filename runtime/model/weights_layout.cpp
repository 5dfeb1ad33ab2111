#include "model/weights_layout.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

// Parts of several types may be rounded.
Format format_of(std::optional<Format> wanted, std::span<const TensorView* const> sources) {
  if (wanted) return *wanted;
  std::vector<DType> types;
  for (const TensorView* source : sources) types.push_back(source->dtype);
  if (const auto format = common_format(types)) return *format;
  const bool halves = std::ranges::any_of(types, [](DType type) { return closest_format(type) == Format::f16; });
  return halves ? Format::f16 : Format::q8;
}

Format table_format(const DeviceFormats& wanted, const TensorView& table, bool projected) {
  if (wanted.tables) return *wanted.tables;
  const Format own = closest_format(table.dtype), rounded = info(own).rounded;
  if (!projected || is_plain(wanted)) return own;
  return rounded == Format::q4 ? Format::q8 : rounded;
}

bool is_plain(const DeviceFormats& wanted) { return wanted.native_table && !wanted.tables; }

Format layer_input_format(std::optional<Format> wanted, const TensorView& table) {
  const Format own = closest_format(table.dtype);
  return wanted ? *wanted : own == Format::f16 ? Format::q8 : own;
}

namespace {

// The matrix of a piece, without its place. Its parts may be in two formats if rows of the second begin a tile: then
// the two with the fewest bytes.
Matrix choose_formats(const MatrixSource& linear, std::span<const TensorView* const> sources,
                      std::optional<Format> wanted) {
  uint32_t rows = 0;
  for (const Part& part : linear.parts) rows += static_cast<uint32_t>(part.rows);
  Matrix best = {linear.format ? *linear.format : format_of(wanted, sources), rows, static_cast<uint32_t>(linear.cols)};
  if (linear.format || linear.experts > 0) return best;  // matmul_expert knows one format
  uint32_t first_rows = 0;
  for (size_t i = 1; i < linear.parts.size(); ++i) {
    first_rows += static_cast<uint32_t>(linear.parts[i - 1].rows);
    if (first_rows % TILE_ROWS != 0) continue;
    Matrix two = best;
    two.format = format_of(wanted, sources.first(i));
    two.second = format_of(wanted, sources.subspan(i));
    two.first_rows = two.format == two.second ? 0 : first_rows;
    if (two.first_rows > 0 && two.bytes() < best.bytes()) best = two;
  }
  return best;
}

}  // namespace

uint64_t set_offsets(const Pieces& pieces, const Parts::Sources& sources, std::optional<Format> wanted) {
  uint64_t bytes = 0;
  const auto put = [&](View& view, uint64_t size) {
    view = View();
    view.offset = bytes;
    view.bytes = size;
    bytes = align_up(bytes + size, kViewAlignment);
  };
  auto source = sources.begin();
  for (const MatrixSource& linear : pieces.matrices) {
    std::vector<const TensorView*> all;
    for (uint32_t copy = 0; copy < linear.copies(); ++copy, ++source)
      all.insert(all.end(), source->begin(), source->end());
    linear.matrix = choose_formats(linear, all, wanted);
    put(linear.matrix.view, linear.copies() * linear.matrix.bytes());
  }
  for (const VectorSource& vector : pieces.vectors) {
    uint64_t count = 0;
    for (const Floats& part : vector.parts) count += part.count();
    put(vector.view, count * 4);
  }
  return bytes;
}

Matrix table_matrix(const TensorView& table, const VocabularyTables& vocabulary, const DeviceFormats& wanted) {
  const bool projected = &table == vocabulary.projected();
  return {table_format(wanted, table, projected),
          static_cast<uint32_t>(table.shape[0]),
          static_cast<uint32_t>(table.shape[1]),
          {},
          projected && !is_plain(wanted) ? Layout::planes : Layout::values};
}

WeightSizes weight_sizes(const Config& config, Parts& parts, const VocabularyTables& vocabulary,
                         const DeviceFormats& wanted) {
  WeightSizes sizes;
  for (const TensorView* const table : {vocabulary.embedding, vocabulary.output}) {
    if (!table) continue;
    Matrix matrix = table_matrix(*table, vocabulary, wanted);
    if (wanted.split) matrix.rows = wanted.split->bounds(matrix.rows)[1];
    const bool projected = matrix.layout == Layout::planes;
    sizes.each_table.push_back(matrix.bytes() + (projected ? uint64_t{BASIS_WORDS(matrix.blocks() * BLOCK)} * 4 : 0));
    sizes.tables += sizes.each_table.back();
  }
  for (int index = 0; index < static_cast<int>(config.layers); ++index) {
    Layer layer(config, static_cast<uint32_t>(index));
    const Pieces pieces = parts.layer(layer, index);
    const uint64_t bytes =
        set_offsets(pieces, parts.sources_of(pieces.matrices, index, Parts::AsStored::yes), wanted.matrices);
    parts.forget();
    sizes.layers += bytes;
    sizes.each_layer.push_back(bytes);
    sizes.largest = std::max(sizes.largest, bytes);
  }
  return sizes;
}

uint64_t layer_buffer_bytes(const Plan& plan, const Config& config, Parts& parts, const VocabularyTables& vocabulary,
                            const DeviceFormats& wanted, const std::string& file) {
  const uint64_t budget = plan.memory_budget;
  if (!budget) return 0;
  const WeightSizes sizes = weight_sizes(config, parts, vocabulary, wanted);
  const uint64_t tables = sizes.tables, layers = sizes.layers, largest = sizes.largest;
  if (tables + layers <= budget / 4 * 3) return 0;
  if (config.layer_kind.sees_all || config.encoder)
    throw Error(Code::unsupported,
                "the weights of " + std::to_string(tables + layers) +
                    " bytes take more than three quarters of the memory budget of " + std::to_string(budget),
                file, "an encoder's are not streamed: give a larger budget");
  if (tables + 2 * largest > budget)
    throw Error(Code::out_of_memory,
                "the memory budget is " + std::to_string(budget) + " bytes, the vocabulary takes " +
                    std::to_string(tables) + " and two layers " + std::to_string(2 * largest),
                file, "sessions need some more than that; fewer bits (--type) need less");
  return largest;
}

}  // namespace weft
