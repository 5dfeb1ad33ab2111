// quant_method "fp8", as DeepSeek, Qwen and Transformers write it: NAME.weight (rows, columns) F8_E4M3 and a scale for
// each "weight_block_size", NAME.weight_scale_inv, or AutoFP8's NAME.weight_scale for all. Numbers are weight * scale.
#include "format/quantised/fp8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/quote.h"
#include "format/quantised/integers.h"

namespace weft {
namespace {

// E4M3 without infinities: a sign, four bits of exponent with the bias 7, three of mantissa; the largest is a NaN.
float from_e4m3(uint32_t bits) {
  const uint32_t exponent = bits >> 3 & 15, mantissa = bits & 7;
  float size = std::ldexp(static_cast<float>(exponent > 0 ? 8 + mantissa : mantissa),
                          static_cast<int>(std::max(exponent, 1u)) - 10);
  if ((bits & 127) == 127) size = std::numeric_limits<float>::quiet_NaN();
  return bits & 128 ? -size : size;
}

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all;
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = from_e4m3(i);
    return all;
  }();
  return values;
}

class Fp8Rows final : public QuantisedRows {
 public:
  Fp8Rows(const TensorView& weights, const TensorView& scales, const ScaleBlock& block)
      : weights_(weights),
        scales_(scales),
        block_(block),
        blocks_((weights.shape[1] + block.columns - 1) / block.columns) {}

  const char* method() const override { return "FP8"; }
  std::span<const std::byte> stored() const override { return weights_.bytes; }
  void values(uint64_t row, std::span<float> out) const override {
    const std::array<float, 256>& of = e4m3_values();
    const std::byte* const from = &weights_.bytes[row * out.size()];
    for (uint64_t block = 0; block < blocks_; ++block) {
      const float scale = float_at(scales_, row / block_.rows * blocks_ + block);
      const uint64_t end = std::min<uint64_t>((block + 1) * block_.columns, out.size());
      for (uint64_t i = block * block_.columns; i < end; ++i) out[i] = of[std::to_integer<uint8_t>(from[i])] * scale;
    }
  }

 private:
  TensorView weights_, scales_;
  ScaleBlock block_;
  uint64_t blocks_;  // of a row
};

}  // namespace

void put_fp8(QuantisedFolder& folder, const TensorView& weights, const std::string& scales_name,
             const ScaleBlock& block) {
  const std::vector<uint64_t>& shape = weights.shape;
  const uint64_t down = (shape[0] + block.rows - 1) / block.rows,
                 across = (shape[1] + block.columns - 1) / block.columns;
  const TensorView* found = folder.find(scales_name);
  // One scale may be a scalar or a vector.
  const bool flat = found && down * across == 1 && element_count(found->shape) == 1;
  const TensorView& scales = folder.need(scales_name, {DType::f32, DType::bf16, DType::f16},
                                         flat ? found->shape : std::vector<uint64_t>{down, across});
  for (uint64_t i = 0; i < down * across; ++i)
    if (const float scale = float_at(scales, i); !std::isfinite(scale))
      folder.refuse(scales, "has the scale " + std::to_string(scale) + " of block (" + std::to_string(i / across) +
                                ", " + std::to_string(i % across) + ")");
  folder.put(weights, weights.name, DType::dequantised, shape, std::make_shared<Fp8Rows>(weights, scales, block));
}

ScaleBlock block_of_shape(QuantisedFolder& folder, const TensorView& weights, const std::string& name,
                          const std::optional<ScaleBlock>& block) {
  const uint64_t rows = weights.shape[0], columns = weights.shape[1];
  const TensorView* scales = folder.find(name);
  const uint64_t count = scales ? element_count(scales->shape) : 1;
  const bool by_row = scales && scales->shape == std::vector<uint64_t>{rows, 1};
  if (block && count != 1 && !by_row) return *block;
  return {count == 1 ? rows : 1, columns};
}

ScaleBlock block_of(const JsonObject& config, const std::string& key) {
  constexpr uint32_t kMost = 1u << 20;
  const JsonValue::Array& sides = config.array(key);
  if (sides.size() != 2) config.refuse(key, "two numbers");
  return {config.integer_of(sides[0], key, 1, kMost), config.integer_of(sides[1], key, 1, kMost)};
}

void read_fp8(QuantisedFolder& folder, const JsonObject& config) {
  const std::string format = config.text("fmt", "e4m3");
  if (format != "e4m3")
    throw Error(Code::unsupported, "not supported: 8-bit floats of the format '" + printable(format) + "'",
                config.place(), "Weft reads e4m3");
  const std::string key = "weight_block_size";
  const std::optional<ScaleBlock> block = config.has(key) ? std::optional(block_of(config, key)) : std::nullopt;
  for (const std::string& module : folder.modules(".weight")) {
    const TensorView* weights = folder.look(module + ".weight");
    if (weights->dtype != DType::f8_e4m3) continue;
    weights = &folder.need_matrix(module + ".weight", {DType::f8_e4m3});
    const bool inverse = block || folder.look(module + ".weight_scale_inv");
    const std::string scales = module + (inverse ? ".weight_scale_inv" : ".weight_scale");
    put_fp8(folder, *weights, scales, block ? *block : block_of_shape(folder, *weights, scales, {}));
  }
  folder.leave_out({".input_scale", ".activation_scale", ".k_scale", ".v_scale"});
}

}  // namespace weft
