// GPTQ (Frantar et al. 2022, arXiv 2210.17323), as AutoGPTQ and GPTQModel write it: of a module with `columns` inputs
// and `rows` outputs
//
//   qweight (columns * bits / 32, rows) I32: integers of neighbouring columns in a word, the first lowest
//   qzeros (groups, rows * bits / 32) I32: zero points of neighbouring rows in a word. Format "gptq" has them less by
//     one: GPTQModel subtracts 0x11111111 from the word, or 0x01010101
//   scales (groups, rows)
//   g_idx (columns) I32: the group of each column
//
// With "desc_act" (act-order) a group's columns lie anywhere.
#include "format/quantised/integers.h"

#include "base/quote.h"

namespace weft {
namespace {

struct GptqTensors {
  const TensorView &weights, &zeros, &scales;
  uint32_t offset;  // of the words of zero points
};

class GptqRows final : public IntegerRows {
 public:
  GptqRows(IntegerLayout layout, const GptqTensors& tensors)
      : IntegerRows(std::move(layout)),
        weights_(tensors.weights),
        zeros_(tensors.zeros),
        scales_(tensors.scales),
        offset_(tensors.offset) {}

  const char* method() const override { return layout().bits == 4 ? "GPTQ4" : "GPTQ8"; }
  std::span<const std::byte> stored() const override { return weights_.bytes; }

 private:
  void integers(uint64_t row, std::span<uint8_t> out) const override {
    const uint32_t bits = layout().bits, in_word = 32 / bits, mask = (1u << bits) - 1;
    for (uint64_t first = 0, at = row; first < out.size(); first += in_word, at += layout().rows) {
      const auto word = static_cast<uint32_t>(integer_at(weights_, at));
      for (uint32_t i = 0; i < in_word; ++i) out[first + i] = static_cast<uint8_t>(word >> (i * bits) & mask);
    }
  }
  float scale(uint64_t row, uint64_t group) const override { return float_at(scales_, group * layout().rows + row); }
  int zero(uint64_t row, uint64_t group) const override {
    const uint32_t bits = layout().bits, in_word = 32 / bits;
    const auto word =
        static_cast<uint32_t>(integer_at(zeros_, group * (layout().rows / in_word) + row / in_word)) + offset_;
    return static_cast<int>(word >> (row % in_word * bits) & ((1u << bits) - 1));
  }
  const TensorView& scales() const override { return scales_; }

  TensorView weights_, zeros_, scales_;
  uint32_t offset_;
};

}  // namespace

void read_gptq(QuantisedFolder& folder, const JsonObject& config) {
  const uint32_t bits = bits_of(config), in_word = 32 / bits;
  const std::string format = config.text(config.either({"checkpoint_format", "format"}), "gptq");
  if (format != "gptq" && format != "gptq_v2")
    throw Error(Code::unsupported, "not supported: the format '" + printable(format) + "'", config.place(),
                "Weft reads gptq and gptq_v2");
  for (const std::string& module : folder.modules(".qweight")) {
    const TensorView& weights = folder.need_matrix(module + ".qweight", {DType::i32});
    IntegerLayout layout = {weights.shape[1], weights.shape[0] * in_word, 0, bits};
    layout.group = group_of(config, layout.columns);
    if (layout.rows % in_word != 0)
      folder.refuse(weights,
                    "has " + std::to_string(layout.rows) + " rows, expected a multiple of " + std::to_string(in_word));
    const GptqTensors tensors = {
        weights, folder.need(module + ".qzeros", {DType::i32}, {layout.groups(), layout.rows / in_word}),
        folder.need(module + ".scales", {DType::f16, DType::bf16, DType::f32}, {layout.groups(), layout.rows}),
        format == "gptq_v2" ? 0
        : bits == 4         ? 0x11111111u
                            : 0x01010101u};
    layout.group_of = read_groups(folder, module + ".g_idx", layout, config.flag("desc_act", false));
    put_integers(folder, weights, module, layout, std::make_shared<GptqRows>(layout, tensors));
  }
}

}  // namespace weft
