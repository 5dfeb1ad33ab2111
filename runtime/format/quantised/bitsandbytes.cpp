// bitsandbytes (https://github.com/bitsandbytes-foundation/bitsandbytes).
//
// 4 bits (Dettmers et al. 2023, arXiv 2305.14314): NAME.weight U8, two numbers in a byte, the first in the upper half,
// row after row; and, each with NAME.weight before it,
//
//   .quant_map (16): the values of the four bits
//   .absmax: a factor for each `blocksize` numbers; F32, or U8 if it is quantised itself: then it is
//     nested_quant_map[absmax] * nested_absmax + nested_offset, with a nested_absmax for each `nested_blocksize` of
//     them
//   .quant_state.bitsandbytes__nf4 or __fp4: these words and "shape", as JSON in bytes
//
// 8 bits (Dettmers et al. 2022, arXiv 2208.07339): NAME.weight (rows, columns) I8 and NAME.SCB (rows): weight * SCB /
// 127.
#include <algorithm>
#include <cmath>

#include "base/quote.h"
#include "format/json.h"
#include "format/quantised/integers.h"

namespace weft {
namespace {

struct FourBitTensors {
  TensorView weights, map, factors;
  TensorView nested_map = {}, nested_factors = {};  // if the factors are quantised
  uint64_t block = 0, nested_block = 0;
  float nested_offset = 0;
};

class FourBitRows final : public QuantisedRows {
 public:
  FourBitRows(FourBitTensors tensors, uint64_t columns, const char* method)
      : tensors_(std::move(tensors)), columns_(columns), method_(method) {}

  const char* method() const override { return method_; }
  std::span<const std::byte> stored() const override { return tensors_.weights.bytes; }
  void values(uint64_t row, std::span<float> out) const override {
    float map[16];
    for (uint64_t i = 0; i < std::size(map); ++i) map[i] = float_at(tensors_.map, i);
    const uint64_t first = row * columns_, end = first + columns_;
    for (uint64_t at = first; at < end;) {
      const uint64_t block = at / tensors_.block, block_end = std::min(end, (block + 1) * tensors_.block);
      const float own = factor(block);
      for (; at < block_end; ++at) {
        const auto pair = std::to_integer<uint32_t>(tensors_.weights.bytes[at / 2]);
        out[at - first] = map[at % 2 == 0 ? pair >> 4 : pair & 15] * own;
      }
    }
  }

  // bitsandbytes rounds the product before it adds the offset: one fused operation would give other numbers, so this
  // file is compiled with -ffp-contract=off.
  float factor(uint64_t block) const {
    if (tensors_.factors.dtype != DType::u8) return float_at(tensors_.factors, block);
    const auto place = std::to_integer<uint64_t>(tensors_.factors.bytes[block]);
    const float scaled =
        float_at(tensors_.nested_map, place) * float_at(tensors_.nested_factors, block / tensors_.nested_block);
    return scaled + tensors_.nested_offset;
  }

 private:
  FourBitTensors tensors_;
  uint64_t columns_;
  const char* method_;
};

class EightBitRows final : public IntegerRows {
 public:
  EightBitRows(IntegerLayout layout, const TensorView& weights, const TensorView& factors)
      : IntegerRows(std::move(layout)), weights_(weights), factors_(factors) {}

  const char* method() const override { return "BNB8"; }
  std::span<const std::byte> stored() const override { return weights_.bytes; }

 private:
  void integers(uint64_t row, std::span<uint8_t> out) const override {
    for (uint64_t i = 0; i < out.size(); ++i)
      out[i] = std::to_integer<uint8_t>(weights_.bytes[row * out.size() + i] ^ std::byte{128});
  }
  float scale(uint64_t row, uint64_t) const override { return float_at(factors_, row) / 127; }
  int zero(uint64_t, uint64_t) const override { return 128; }
  const TensorView& scales() const override { return factors_; }

  TensorView weights_, factors_;
};

void read_four_bits(QuantisedFolder& folder, const std::string& name, const std::string& state_name,
                    const char* method) {
  const TensorView& state = *folder.find(state_name);
  if (state.dtype != DType::u8) folder.refuse(state, "is " + std::string(weft::name(state.dtype)) + ", expected U8");
  const std::string place = folder.file_of(state) + ", tensor " + printable(state.name);
  const JsonValue document = parse_json({reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size()}, place);
  const JsonObject words(document, place);
  constexpr uint32_t kMost = 1u << 30;
  const JsonValue::Array& shape = words.array("shape");
  if (shape.size() != 2) words.refuse("shape", "two numbers");
  const uint64_t rows = words.integer_of(shape[0], "shape", 1, kMost),
                 columns = words.integer_of(shape[1], "shape", 1, kMost);
  FourBitTensors tensors;
  tensors.block = words.integer("blocksize", 1, kMost);
  const uint64_t blocks = (rows * columns + tensors.block - 1) / tensors.block;
  tensors.weights = folder.need_matrix(name, {DType::u8});
  if (tensors.weights.bytes.size() != (rows * columns + 1) / 2)
    folder.refuse(tensors.weights, "has " + std::to_string(tensors.weights.bytes.size()) + " bytes, expected " +
                                       std::to_string((rows * columns + 1) / 2) + " for " + std::to_string(rows) +
                                       " rows of " + std::to_string(columns));
  tensors.map = folder.need(name + ".quant_map", {DType::f32}, {16});
  tensors.factors = folder.need(name + ".absmax", {DType::f32, DType::u8}, {blocks});
  if (tensors.factors.dtype == DType::u8) {
    tensors.nested_block = words.integer("nested_blocksize", 1, kMost);
    tensors.nested_offset = words.real("nested_offset", -1e30, 1e30, 0);
    tensors.nested_map = folder.need(name + ".nested_quant_map", {DType::f32}, {256});
    tensors.nested_factors = folder.need(name + ".nested_absmax", {DType::f32},
                                         {(blocks + tensors.nested_block - 1) / tensors.nested_block});
  }
  const TensorView weights = tensors.weights, factors = tensors.factors;
  auto made = std::make_shared<FourBitRows>(std::move(tensors), columns, method);
  for (uint64_t block = 0; block < blocks; ++block)
    if (!std::isfinite(made->factor(block)))
      folder.refuse(factors,
                    "has the factor " + std::to_string(made->factor(block)) + " of block " + std::to_string(block));
  folder.put(weights, name, DType::dequantised, {rows, columns}, std::move(made));
}

[[gnu::cold]] void read_eight_bits(QuantisedFolder& folder, const std::string& module) {
  const TensorView& weights = folder.need_matrix(module + ".weight", {DType::i8});
  const IntegerLayout layout = {weights.shape[0], weights.shape[1], weights.shape[1], 8};
  const TensorView& factors = folder.need(module + ".SCB", {DType::f32}, {layout.rows});
  const TensorView* order = folder.find(module + ".weight_format");
  if (order && std::ranges::any_of(order->bytes, [](std::byte byte) { return byte != std::byte{}; }))
    folder.refuse(*order, "names another order than that of rows", Code::unsupported);
  put_integers(folder, weights, module, layout, std::make_shared<EightBitRows>(layout, weights, factors));
}

}  // namespace

void read_bitsandbytes(QuantisedFolder& folder, const JsonObject&) {
  for (const std::string& module : folder.modules(".weight")) {
    const std::string name = module + ".weight";
    for (const auto& [end, method] : {std::pair("nf4", "NF4"), {"fp4", "FP4"}})
      if (const std::string state = name + ".quant_state.bitsandbytes__" + end; folder.look(state))
        read_four_bits(folder, name, state, method);
    if (folder.look(module + ".SCB")) read_eight_bits(folder, module);
  }
}

}  // namespace weft
