#include "model/adapter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "gpu/upload.h"
#include "model/adapter_file.h"
#include "model/fingerprint.h"
#include "model/parts.h"

namespace weft {
namespace {

constexpr double kLargestHalf = 65504;

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(double{value}));
  return most;
}

}  // namespace

Adapter::Adapter(const Model& model, const ModelFile& base, ModelFile file, float scale)
    : model_(model), file_(std::move(file)) {
  if (!std::isfinite(scale)) throw Error(Code::invalid_argument, "it is not finite", "scale");
  // The products of a Gated DeltaNet and of gated attention have other rows in a folder than here.
  if (model.config.encoder || model.config.layer_kind.sees_all || model.config.traits->gated_delta)
    throw Error(Code::unsupported, "the family '" + model.config.family + "' takes no adapters", file_.path.string(),
                "most decoders do");
  find_products(base, scale);
  enter_device();
}

// Which pairs the file has, for which products of the model: all of its tensors must be of one.
void Adapter::find_products(const ModelFile& base, float scale) {
  Config config = model_.config;
  const std::string place = file_.path.string();
  const AdapterFile described(file_, config);
  Parts parts(base, config);
  std::set<std::string> used;
  const auto need_shape = [&](const TensorView& tensor, uint64_t rows, uint64_t cols, const std::string& expected) {
    if (tensor.shape.size() == 2 && tensor.shape[0] == rows && tensor.shape[1] == cols && rows > 0 && cols > 0) return;
    throw Error(Code::bad_file,
                "tensor '" + tensor.name + "' has the shape " + text_of(tensor.shape) + ", expected " + expected, place,
                "an adapter belongs to the model that it was trained for");
  };
  const auto find_source = [&](const Part& part, uint64_t cols, int layer) -> std::optional<Source> {
    const auto names = described.names(part.role, layer);
    const TensorView *a = file_.find(names.first), *b = file_.find(names.second);
    if (!a && !b) return std::nullopt;
    if (!a || !b)
      throw Error(Code::bad_file, "the tensor '" + (a ? names.second : names.first) + "' is missing", place);
    const uint64_t rank = a->shape.empty() ? 0 : a->shape[0];
    need_shape(*a, rank, cols, "(rank, " + std::to_string(cols) + ")");
    need_shape(*b, part.rows, rank, "(" + std::to_string(part.rows) + ", " + std::to_string(rank) + ")");
    if (rank > kMostRank)
      throw Error(Code::unsupported,
                  "tensor '" + a->name + "' has the rank " + std::to_string(rank) + ", at most " +
                      std::to_string(kMostRank) + " is supported",
                  place);
    used.insert({names.first, names.second});
    return Source{a, b, part.role, 0, static_cast<uint32_t>(part.rows), described.scale(rank) * scale};
  };
  for (uint32_t index = 0; index < config.layers; ++index) {
    Layer layer(config, index);
    const std::vector<const Linear*> linears = layer.linears();
    for (const MatrixSource& matrix : parts.layer(layer, static_cast<int>(index)).matrices) {
      const auto at =
          std::ranges::find_if(linears, [&](const Linear* linear) { return &linear->base == &matrix.matrix; });
      if (at == linears.end()) continue;  // experts have no pairs
      Product product = {index, static_cast<uint32_t>(at - linears.begin()), 0, static_cast<uint32_t>(matrix.cols), 0,
                         {}};
      uint64_t rank = 0;
      for (const Part& part : matrix.parts) {
        if (auto source = find_source(part, matrix.cols, static_cast<int>(index))) {
          source->first_row = product.rows;
          rank += source->a->shape[0];
          product.sources.push_back(*source);
        }
        product.rows += static_cast<uint32_t>(part.rows);
      }
      if (product.sources.empty()) continue;
      if (rank > kMostRank)
        throw Error(Code::unsupported,
                    "tensor '" + product.sources.back().a->name + "' makes the rank of a product " +
                        std::to_string(rank) + ", at most " + std::to_string(kMostRank) + " is supported",
                    place);
      product.rank = stride_of(static_cast<uint32_t>(rank));
      rank_ = std::max(rank_, product.rank);
      products_.push_back(std::move(product));
    }
    parts.forget();
  }
  for (const TensorView& tensor : file_.tensors)
    if (!used.contains(tensor.name))
      throw Error(Code::unsupported, "tensor '" + tensor.name + "' is for no product of the model's layers", place,
                  "adapters of mixers, plain feed-forwards, shared experts and routers are supported");
  if (products_.empty()) throw Error(Code::bad_file, "it has no tensor", place);
}

std::vector<float> Adapter::read(const TensorView& tensor) const {
  std::vector<std::byte> bytes;
  std::vector<float> values(element_count(tensor.shape));
  to_float(file_.read(tensor, bytes), 0, values);
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    throw Error(Code::bad_file, "tensor '" + tensor.name + "' has a number that is not finite", file_.path.string());
  return values;
}

// A and B of a product, with zeros where the file has nothing. The sources lie one after the other along the rank.
Adapter::Numbers Adapter::numbers_of(const Product& product) const {
  Numbers all = {std::vector<float>(size_t{product.rank} * product.cols),
                 std::vector<float>(size_t{product.rows} * product.rank)};
  size_t first = 0;
  for (const Source& source : product.sources) {
    const std::vector<float> a = read(*source.a), b = read(*source.b);
    const size_t rank = source.a->shape[0];
    // f16 has few small numbers: a power of two, which rounds nothing, makes A and B equally large.
    const double most_a = largest(a), most_b = largest(b) * std::abs(source.scale);
    const int shift = most_a > 0 && most_b > 0 ? (std::ilogb(most_b) - std::ilogb(most_a)) / 2 : 0;
    const double scale_a = std::ldexp(1.0, shift), scale_b = std::ldexp(source.scale, -shift);
    if (std::max(most_a * scale_a, largest(b) * std::abs(scale_b)) > kLargestHalf)
      throw Error(Code::unsupported, "tensor '" + source.b->name + "' with its scale has numbers too large for f16",
                  file_.path.string());
    for (size_t i = 0; i < a.size(); ++i) all.a[first * product.cols + i] = static_cast<float>(a[i] * scale_a);
    for (size_t row = 0; row < source.rows; ++row) {
      const size_t from = row_in_file(file_.kind, model_.config, source.role, source.rows, row) * rank;
      float* const to = &all.b[(source.first_row + row) * product.rank + first];
      for (size_t i = 0; i < rank; ++i) to[i] = static_cast<float>(b[from + i] * scale_b);
    }
    first += rank;
  }
  return all;
}

const Adapter::Pair* Adapter::find(const Linear& linear) const {
  const auto found = pairs_.find(&linear);
  return found == pairs_.end() ? nullptr : &found->second;
}

void Adapter::leave_device() {
  pairs_.clear();
  buffer_ = Buffer();
}

void Adapter::enter_device() {
  file_.check_length();
  uint64_t bytes = 0;
  const auto place = [&](uint32_t rows, uint32_t cols) {
    Matrix matrix = {Format::f16, rows, cols, {}};
    matrix.view.offset = bytes;
    matrix.view.bytes = matrix.bytes();
    bytes = align_up(bytes + matrix.view.bytes, kViewAlignment);
    return matrix;
  };
  std::vector<Pair> pairs;
  for (const Product& product : products_)
    pairs.push_back({place(product.rank, product.cols), place(product.rows, product.rank)});
  Buffer buffer(model_.device, "adapter", bytes, Memory::device);
  Uploader uploader(model_.device);
  Fingerprint hash;
  const auto upload = [&](Matrix& matrix, const std::vector<float>& values) {
    hash.add(std::as_bytes(std::span(values)));
    matrix.view.buffer = &buffer;
    const TensorView tensor = {"adapter", DType::f32, {matrix.rows, matrix.cols}, std::as_bytes(std::span(values))};
    const TensorView* const only = &tensor;
    upload_matrix(uploader, matrix, {&only, 1}, [](uint64_t) {});
    matrix.view.buffer = &buffer_;
  };
  for (size_t i = 0; i < products_.size(); ++i) {
    const uint32_t where[] = {products_[i].layer, products_[i].place};
    hash.add(std::as_bytes(std::span(where)));
    const Numbers numbers = numbers_of(products_[i]);
    upload(pairs[i].a, numbers.a);
    upload(pairs[i].b, numbers.b);
  }
  if (fingerprint_ != 0 && hash.value() != fingerprint_)
    throw Error(Code::bad_file, "it is not the adapter that was loaded", file_.path.string(),
                "load it as a new adapter");
  fingerprint_ = hash.value();
  buffer_ = std::move(buffer);
  for (size_t i = 0; i < products_.size(); ++i)
    pairs_[model_.weights.layers[products_[i].layer].linears()[products_[i].place]] = pairs[i];
}

}  // namespace weft
