#include "support/op_inputs.h"

#include <algorithm>

#include <cmath>
#include <cstdlib>

#include "support/random_rows.h"

namespace weft::test {

float Random::normal() {  // Box and Muller 1958
  const double radius = std::sqrt(-2 * std::log((engine_() + 0.5) * 0x1p-32));
  return static_cast<float>(radius * std::cos(2 * M_PI * (engine_() + 0.5) * 0x1p-32));
}

std::vector<float> Random::normals(size_t count, float scale) {
  std::vector<float> values(count);
  for (float& value : values) value = normal() * scale;
  return values;
}

std::vector<std::byte> pack_table(Format format, const TensorView& tensor, std::shared_ptr<const Basis> basis) {
  Matrix matrix = {
      format, static_cast<uint32_t>(tensor.shape[0]), static_cast<uint32_t>(tensor.shape[1]), {}, Layout::planes};
  matrix.basis = std::move(basis);
  std::vector<std::byte> bytes(matrix.bytes(), std::byte{0xee});
  const TensorView* const part = &tensor;
  pack_tiles(matrix, {&part, 1}, 0, bytes);
  return bytes;
}

std::vector<float> stored_table(Format format, const TensorView& tensor) {
  const uint32_t width = static_cast<uint32_t>(tensor.shape[1]);
  const auto basis = std::make_shared<const Basis>(width);
  const std::vector<std::byte> tiles = pack_table(format, tensor, basis);
  const reference::TableBasis turn(basis->words());
  std::vector<float> values;
  for (uint32_t row = 0; row < tensor.shape[0]; ++row)
    for (const double value : turn.row_back(reference::read_table_row(tiles, bits_of(format), width, row).values))
      values.push_back(static_cast<float>(value));
  return values;
}

Tiled tile(const std::shared_ptr<Device>& device, Format format, uint32_t rows, uint32_t cols, const TensorView& tensor,
           Layout layout, std::shared_ptr<const Basis> basis) {
  Tiled tiled;
  tiled.matrix = {format, rows, cols, {}, layout};
  tiled.buffer = std::make_unique<Buffer>(device, "matrix", tiled.matrix.bytes(), Memory::device);
  tiled.matrix.view = *tiled.buffer;
  if (layout == Layout::planes) {
    tiled.matrix.basis = basis ? std::move(basis) : std::make_shared<const Basis>(cols);
    tiled.basis_words = std::make_unique<Buffer>(upload(device, "basis", tiled.matrix.basis->words()));
    tiled.matrix.basis_words = *tiled.basis_words;
    const std::vector<std::byte> bytes = pack_table(format, tensor, tiled.matrix.basis);
    Uploader(device).upload(tiled.matrix.view, std::span<const std::byte>(bytes));
    tiled.values = reference::Rows(rows, tiled.matrix.blocks() * BLOCK);
    for (uint32_t row = 0; row < rows; ++row)
      std::ranges::copy(reference::read_table_row(bytes, bits_of(format), cols, row).values,
                        tiled.values.row(row).begin());
    return tiled;
  }
  const TensorView* part = &tensor;
  const uint64_t tile_bytes = tiled.matrix.tile_bytes();
  Uploader(device).upload(tiled.matrix.view, tile_bytes, [&](uint64_t offset, std::span<std::byte> out) {
    pack_tiles(tiled.matrix, {&part, 1}, static_cast<uint32_t>(offset / tile_bytes), out);
  });
  return tiled;
}

namespace {

Tiled make_native(const std::shared_ptr<Device>& device, Format format, uint32_t rows, uint32_t cols, Random& random) {
  std::string blocks;
  for (uint32_t row = 0; row < rows; ++row) append_row(blocks, file_type(format), random.normals(cols));
  const TensorView tensor = {"random", file_type(format), {rows, cols}, std::as_bytes(std::span(blocks))};
  Tiled tiled = tile(device, format, rows, cols, tensor);
  std::vector<float> values(size_t{rows} * cols);
  to_float(tensor, 0, values);
  tiled.values = reference::Rows(rows, cols);
  tiled.values.values.assign(values.begin(), values.end());
  return tiled;
}

}  // namespace

Tiled make_tiled(const std::shared_ptr<Device>& device, Format format, uint32_t rows, uint32_t cols, uint32_t seed,
                 Layout layout) {
  Random random(seed);
  if (is_native(format)) return make_native(device, format, rows, cols, random);
  std::vector<float> values(size_t{rows} * cols);
  for (size_t row = 0; row < rows; ++row) {
    float scale = 0, minimum = 0;
    for (uint32_t c = 0; c < cols; ++c) {
      float& value = values[row * cols + c];
      if (format == Format::f16) {
        value = half_to_float(float_to_half(random.normal() * 0.1f));
      } else if (format == Format::q4) {  // each block begins with 0 and 15, for the same reason as q8's with 127
        if (c % BLOCK == 0) {
          scale = half_to_float(float_to_half(random.uniform(0.01f, 0.04f)));
          minimum = half_to_float(float_to_half(random.uniform(-0.4f, 0.1f)));
        }
        value = scale * static_cast<float>(c % BLOCK < 2 ? c % BLOCK * 15 : random.below(16)) + minimum;
      } else {  // each block holds a byte of magnitude 127, so that packing finds exactly this scale again
        if (c % BLOCK == 0) scale = half_to_float(float_to_half(random.uniform(0.0005f, 0.002f)));
        value = scale * static_cast<float>(c % BLOCK == 0 ? (random.word() & 1 ? 127 : -127)
                                                          : static_cast<int>(random.below(255)) - 127);
      }
    }
  }
  const TensorView tensor = {"random", DType::f32, {rows, cols}, std::as_bytes(std::span(values))};
  Tiled tiled = tile(device, format, rows, cols, tensor, layout);
  if (layout == Layout::planes) return tiled;
  tiled.values = reference::Rows(rows, cols);
  tiled.values.values.assign(values.begin(), values.end());
  return tiled;
}

Tiled join(const std::shared_ptr<Device>& device, const Tiled& first, const Tiled& second) {
  Tiled joined;
  joined.matrix = first.matrix;
  joined.matrix.rows += second.matrix.rows;
  joined.matrix.first_rows = first.matrix.rows;
  joined.matrix.second = second.matrix.format;
  std::vector<std::byte> bytes = download_as<std::byte>(device, *first.buffer);
  const std::vector<std::byte> rest = download_as<std::byte>(device, *second.buffer);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  EXPECT_EQ(bytes.size(), joined.matrix.bytes());
  joined.buffer = std::make_unique<Buffer>(device, "matrix", bytes.size(), Memory::device);
  joined.matrix.view = *joined.buffer;
  Uploader(device).upload(joined.matrix.view, std::span<const std::byte>(bytes));
  joined.values = first.values;
  joined.values.rows += second.values.rows;
  joined.values.values.insert(joined.values.values.end(), second.values.values.begin(), second.values.values.end());
  return joined;
}

Activations make_activations(const std::shared_ptr<Device>& device, uint32_t tokens, const reference::Rows& values) {
  Activations made = {values, stride_of(values.cols), {}};
  std::vector<float> floats(size_t{tokens} * made.stride, std::numeric_limits<float>::quiet_NaN());
  for (uint32_t t = 0; t < values.rows; ++t)
    for (uint32_t i = 0; i < made.stride; ++i)
      floats[size_t{t} * made.stride + i] = i < values.cols ? static_cast<float>(values.row(t)[i]) : 0.0f;
  made.buffer = upload(device, "activations", floats);
  return made;
}

Activations make_activations(const std::shared_ptr<Device>& device, uint32_t tokens, uint32_t active, uint32_t cols,
                             Random& random, float scale) {
  reference::Rows values(active, cols);
  for (double& value : values.values) value = random.normal() * scale;
  return make_activations(device, tokens, values);
}

std::vector<double> padded(const reference::Rows& rows, uint32_t tokens, uint32_t stride) {
  std::vector<double> want(size_t{tokens} * stride, kUntouched);
  for (uint32_t t = 0; t < rows.rows; ++t) std::ranges::copy(rows.row(t), want.begin() + size_t{t} * stride);
  return want;
}

// With WEFT_TEST_PLAN a run has the plan's own choices; the plain run has the other tunings, and with WEFT_SWEEP they
// run with the plan, too.
static bool runs_a_chips_plan() { return std::getenv("WEFT_TEST_PLAN") && !sweeps(); }

bool sweeps() { return std::getenv("WEFT_SWEEP") != nullptr; }

std::vector<Tuning> reduction_tunings() {
  if (runs_a_chips_plan()) return {{}, {.plain = true}};
  std::vector<Tuning> list;
  for (const bool plain : {false, true})
    for (const uint32_t threads : {64u, 128u, 256u}) {
      if (!sweeps() && plain != (threads == 128)) continue;
      Tuning tuning;
      tuning.plain = plain;
      tuning.reduce_threads = threads;
      list.push_back(tuning);
    }
  return list;
}

std::vector<Tuning> attend_tunings() {
  std::vector<Tuning> list = {{}, {.plain = true, .attend_span = 64, .texel_products = false}};
  if (sweeps()) list.push_back({.texel_products = false});
  return list;
}

std::vector<Tuning> product_tunings(size_t most) {
  if (runs_a_chips_plan()) return {{}};
  std::vector<Tuning> list = {{},  // the device's own: on software drivers four tiles, by texels
                              {.split = 4, .row_tiles = 1, .texel_products = false},
                              {.split = 1, .row_tiles = 4, .texel_products = false},
                              {.split = 2, .row_tiles = 2, .texel_products = false},
                              {.split = 2, .row_tiles = 1, .texel_products = true}};
  if (most == 0) most = sweeps() ? list.size() : 3;
  list.resize(std::min(most, list.size()));
  return list;
}

void run_op(const std::shared_ptr<Device>& device, const std::string& expected,
            const std::function<void(Recorder&)>& record) {
  run_once(device, expected, [&](Recorder& recorder) {
    record(recorder);
    EXPECT_EQ(kernels_of(recorder), expected) << "another variant ran";
  });
}

std::string kernels_of(const Recorder& recorder) {
  std::vector<std::string> names;
  for (const Kernel* kernel : recorder.dispatched()) {
    const Shader& shader = kernel->shader();
    const std::string name = std::string(shader.name) + (*shader.variant ? " " : "") + shader.variant;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string reduction(const std::string& operation, const Plan& plan) {
  return operation + (plan.subgroup ? " subgroup" : "");
}
std::string product(const std::string& operation, const Plan& plan) {
  return operation + (plan.texel_products ? " texel" : "");
}
std::string split_product(const std::string& operation, const Plan& plan) {
  if (plan.texel_products) return operation + " texel";
  return operation + (plan.uniform_parts && plan.split > 1 ? " subgroup" : "");
}

uint32_t tree_of(const std::vector<uint32_t>& parents) {
  uint32_t tree = TREE_MARK;
  for (size_t i = 0; i < parents.size(); ++i) tree |= parents[i] << (4 * (i + 1));
  return tree;
}

std::vector<uint32_t> rows_to(uint32_t tree, uint32_t row) {
  std::vector<uint32_t> rows = {row};
  while (rows.front() != 0) rows.insert(rows.begin(), PARENT_OF(tree, rows.front()));
  return rows;
}

Buffer make_state(const std::shared_ptr<Device>& device, uint32_t pos, uint32_t end, uint32_t context,
                  uint32_t source) {
  return share(device, "state", std::vector<abi::StepState>{{pos, end, 0, context, 0, 0, source, 0, 0, 0, 0, {}}});
}

}  // namespace weft::test
