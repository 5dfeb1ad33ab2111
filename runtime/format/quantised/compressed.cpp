// compressed-tensors (https://github.com/vllm-project/compressed-tensors). Its formats, of a module with a matrix
// (rows, columns):
//
//   pack-quantized: weight_packed (rows, words) I32, integers of neighbouring columns in a word, the first lowest, each
//     with 2^(bits - 1) added; weight_shape (2): rows and columns
//   int-quantized: weight (rows, columns) I8
//   float-quantized: weight (rows, columns) F8_E4M3
//
//   weight_scale (rows, groups), or (1) for the whole matrix
//   weight_zero_point, unless all are 0: (rows, groups) I8, or with pack-quantized (words, groups) I32, neighbouring
//     rows in a word
//   weight_g_idx (columns) I32, with act-order: the group of each column. Older folders have -1 for all columns if
//     groups are neighbours
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/quote.h"
#include "format/quantised/fp8.h"
#include "format/quantised/integers.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kScaleTypes = {DType::f16, DType::bf16, DType::f32};

class CompressedRows final : public IntegerRows {
 public:
  // zeros: nullptr if all are 0.
  CompressedRows(IntegerLayout layout, const TensorView& weights, const TensorView& scales, const TensorView* zeros)
      : IntegerRows(std::move(layout)),
        weights_(weights),
        scales_(scales),
        zeros_(zeros ? *zeros : TensorView()),
        has_zeros_(zeros != nullptr),
        one_scale_(element_count(scales.shape) == 1) {}

  const char* method() const override { return layout().bits == 4 ? "INT4" : "INT8"; }
  std::span<const std::byte> stored() const override { return weights_.bytes; }

 private:
  void integers(uint64_t row, std::span<uint8_t> out) const override {
    const uint64_t line = weights_.bytes.size() / layout().rows;
    const std::byte* const from = &weights_.bytes[row * line];
    if (weights_.dtype == DType::i8)
      for (uint64_t i = 0; i < out.size(); ++i) out[i] = std::to_integer<uint8_t>(from[i] ^ std::byte{128});
    else if (layout().bits == 8)
      for (uint64_t i = 0; i < out.size(); ++i) out[i] = std::to_integer<uint8_t>(from[i]);
    else
      for (uint64_t i = 0; i < out.size(); ++i)
        out[i] = std::to_integer<uint8_t>(from[i / 2] >> (i % 2 * 4) & std::byte{15});
  }
  float scale(uint64_t row, uint64_t group) const override {
    return float_at(scales_, one_scale_ ? 0 : row * layout().groups() + group);
  }
  int zero(uint64_t row, uint64_t group) const override {
    const uint32_t bits = layout().bits, in_word = 32 / bits;
    if (!has_zeros_) return 1 << (bits - 1);
    if (zeros_.dtype == DType::i8) {
      const std::byte value = zeros_.bytes[one_scale_ ? 0 : row * layout().groups() + group];
      return static_cast<int8_t>(value) + (1 << (bits - 1));
    }
    const auto word = static_cast<uint32_t>(integer_at(zeros_, row / in_word * layout().groups() + group));
    return static_cast<int>(word >> (row % in_word * bits) & ((1u << bits) - 1));
  }
  const TensorView& scales() const override { return scales_; }

  TensorView weights_, scales_, zeros_;
  bool has_zeros_, one_scale_;
};

// A number of "weight_shape".
uint64_t extent_at(QuantisedFolder& folder, const TensorView& shape, uint64_t index) {
  int64_t value = 0;
  if (shape.dtype == DType::i64)
    std::memcpy(&value, &shape.bytes[index * sizeof value], sizeof value);
  else
    value = integer_at(shape, index);
  if (value <= 0 || value > int64_t{1} << 31)
    folder.refuse(shape, "says that a matrix has the extent " + std::to_string(value));
  return static_cast<uint64_t>(value);
}

IntegerLayout packed_layout(QuantisedFolder& folder, const std::string& module, const TensorView& weights) {
  const TensorView& shape = folder.need(module + ".weight_shape", {DType::i64, DType::i32}, {2});
  IntegerLayout layout = {extent_at(folder, shape, 0), extent_at(folder, shape, 1), 0, 0};
  for (const uint32_t bits : {4u, 8u})
    if (layout.rows == weights.shape[0] && weights.shape[1] == (layout.columns * bits + 31) / 32) layout.bits = bits;
  if (layout.bits == 0)
    folder.refuse(weights, "has the shape " + text_of(weights.shape) +
                               ", which does not hold integers of 4 or 8 bits for a matrix (" +
                               std::to_string(layout.rows) + ", " + std::to_string(layout.columns) + ")");
  return layout;
}

// Throws for a zero point outside the integers. Words cannot have one.
void check_zeros(const QuantisedFolder& folder, const TensorView& zeros, uint32_t bits) {
  const int middle = 1 << (bits - 1);
  for (size_t i = 0; i < zeros.bytes.size(); ++i)
    if (const int zero = static_cast<int8_t>(zeros.bytes[i]); zero < -middle || zero >= middle)
      folder.refuse(zeros, "has the zero point " + std::to_string(zero) + " at element " + std::to_string(i) +
                               ", expected " + std::to_string(-middle) + " to " + std::to_string(middle - 1));
}

// True if a tensor says of no column which group it is in.
bool names_no_group(const TensorView* groups, uint64_t columns) {
  return groups && groups->dtype == DType::i32 && groups->shape == std::vector<uint64_t>{columns} &&
         std::ranges::all_of(groups->bytes, [](std::byte byte) { return byte == std::byte{255}; });
}

[[gnu::cold]] void read_integers(QuantisedFolder& folder, const std::string& module, const TensorView& weights,
                                 IntegerLayout layout) {
  const std::string scales_name = module + ".weight_scale", zeros_name = module + ".weight_zero_point";
  const TensorView* found = folder.find(scales_name);
  const bool one = found && element_count(found->shape) == 1;
  const uint64_t groups = found && found->shape.size() == 2 && found->shape[1] > 0 ? found->shape[1] : 1;
  const std::vector<uint64_t> by_group = {layout.rows, groups};
  const TensorView& scales = folder.need(scales_name, kScaleTypes, one ? found->shape : by_group);
  if (layout.columns % groups != 0)
    folder.refuse(scales,
                  "has " + std::to_string(groups) + " groups for " + std::to_string(layout.columns) + " columns");
  layout.group = layout.columns / groups;
  const TensorView* zeros = folder.find(zeros_name);
  if (zeros && zeros->dtype == DType::i8) {
    zeros = &folder.need(zeros_name, {DType::i8}, one ? zeros->shape : by_group);
    check_zeros(folder, *zeros, layout.bits);
  } else if (zeros) {
    zeros = &folder.need(zeros_name, {DType::i32}, {(layout.rows * layout.bits + 31) / 32, groups});
  }
  if (zeros && zeros->bytes.empty()) folder.refuse(*zeros, "has no numbers");
  const std::string order = module + ".weight_g_idx";
  if (!names_no_group(folder.find(order), layout.columns)) layout.group_of = read_groups(folder, order, layout, false);
  put_integers(folder, weights, module, layout, std::make_shared<CompressedRows>(layout, weights, scales, zeros));
}

void check_format(const JsonObject& config) {
  const std::string format = config.text("format", "dense");
  for (const char* known :
       {"dense", "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision"})
    if (format == known) return;
  throw Error(Code::unsupported, "not supported: the format '" + printable(format) + "'", config.place(),
              "Weft reads pack-quantized, int-quantized and float-quantized");
}

// Checks the groups' formats and bits. Returns the block of scales that the groups name, which must be the same in all.
std::optional<ScaleBlock> read_config_groups(const JsonObject& config) {
  std::optional<ScaleBlock> block;
  if (!config.has("config_groups")) return block;
  const JsonObject groups = config.object("config_groups");
  for (const JsonValue::Member& group : config.at("config_groups").members()) {
    const JsonObject own = groups.object(group.name);
    check_format(own);
    if (!own.has("weights")) continue;
    const JsonObject weights = own.object("weights");
    if (const uint32_t bits = weights.integer("num_bits", 0, UINT32_MAX, 8); bits != 4 && bits != 8)
      throw Error(Code::unsupported, "not supported: 'num_bits' is " + std::to_string(bits), weights.place(),
                  "Weft reads weights of 4 and 8 bits");
    if (!weights.has("block_structure")) continue;
    const ScaleBlock named = block_of(weights, "block_structure");
    if (block && *block != named)
      throw Error(Code::unsupported, "not supported: another 'block_structure' than that of an earlier group",
                  weights.place());
    block = named;
  }
  return block;
}

}  // namespace

void read_compressed(QuantisedFolder& folder, const JsonObject& config) {
  check_format(config);
  if (config.has("sparsity_config"))
    if (const JsonObject sparsity = config.object("sparsity_config"); sparsity.text("format", "dense") != "dense")
      throw Error(Code::unsupported, "not supported: sparse weights", sparsity.place());
  if (const JsonValue* turns = config.find("transform_config"); turns && !turns->empty())
    if (const JsonObject own = config.object("transform_config");
        own.has("config_groups") && !own.at("config_groups").empty())
      throw Error(Code::unsupported, "not supported: transforms of inputs and outputs", own.place());
  const std::optional<ScaleBlock> block = read_config_groups(config);
  for (const std::string& module : folder.modules(".weight_packed")) {
    const TensorView& weights = folder.need_matrix(module + ".weight_packed", {DType::i32});
    read_integers(folder, module, weights, packed_layout(folder, module, weights));
  }
  for (const std::string& module : folder.modules(".weight")) {
    const std::string name = module + ".weight", scales = module + ".weight_scale";
    const DType type = folder.look(name)->dtype;
    if (type == DType::i8) {
      const TensorView& weights = folder.need_matrix(name, {type});
      read_integers(folder, module, weights, {weights.shape[0], weights.shape[1], 0, 8});
    } else if (type == DType::f8_e4m3) {
      const TensorView& weights = folder.need_matrix(name, {type});
      put_fp8(folder, weights, scales, block_of_shape(folder, weights, scales, block));
    }
  }
  folder.leave_out({".input_scale", ".input_zero_point", ".output_scale", ".output_zero_point", ".k_scale", ".v_scale",
                    ".q_scale", ".weight_shape"});
}

}  // namespace weft
