// AWQ (Lin et al. 2023, arXiv 2306.00978), as AutoAWQ writes it in version "gemm": of a module with `columns` inputs
// and `rows` outputs
//
//   qweight (columns, rows / 8) I32: integers of eight rows in a word
//   qzeros (groups, rows / 8) I32: zero points in the same order
//   scales (groups, rows)
//
// The four bits of a word, from the lowest on, are those of rows 0, 2, 4, 6, 1, 3, 5, 7.
#include "base/ascii.h"
#include "base/quote.h"
#include "format/quantised/integers.h"

namespace weft {
namespace {

constexpr uint64_t kInWord = 8;

class AwqRows final : public IntegerRows {
 public:
  AwqRows(IntegerLayout layout, const TensorView& weights, const TensorView& zeros, const TensorView& scales)
      : IntegerRows(std::move(layout)), weights_(weights), zeros_(zeros), scales_(scales) {}

  const char* method() const override { return "AWQ4"; }
  std::span<const std::byte> stored() const override { return weights_.bytes; }

 private:
  void integers(uint64_t row, std::span<uint8_t> out) const override {
    for (uint64_t column = 0; column < out.size(); ++column) out[column] = field(weights_, column, row);
  }
  float scale(uint64_t row, uint64_t group) const override { return float_at(scales_, group * layout().rows + row); }
  int zero(uint64_t row, uint64_t group) const override { return field(zeros_, group, row); }
  const TensorView& scales() const override { return scales_; }

  // The integer of a row of the matrix in line `line` of a tensor.
  uint8_t field(const TensorView& tensor, uint64_t line, uint64_t row) const {
    const uint64_t place = row % kInWord, shift = (place % 2 * 4 + place / 2) * 4;
    const auto word = static_cast<uint32_t>(integer_at(tensor, line * (layout().rows / kInWord) + row / kInWord));
    return static_cast<uint8_t>(word >> shift & 15);
  }

  TensorView weights_, zeros_, scales_;
};

}  // namespace

void read_awq(QuantisedFolder& folder, const JsonObject& config) {
  if (bits_of(config) != 4)
    throw Error(Code::unsupported, "not supported: AWQ of 8 bits", config.place(),
                "Weft reads AWQ's integers of 4 bits");
  std::string version = config.text(config.either({"version", "format"}), "gemm");
  for (char& c : version) c = ascii_lower(c);
  const bool packed_otherwise = config.text("backend", "") == "llm-awq";
  if (version != "gemm" || packed_otherwise)
    throw Error(Code::unsupported,
                "not supported: the version '" + printable(packed_otherwise ? "llm-awq" : version) + "'",
                config.place(), "Weft reads gemm");
  for (const std::string& module : folder.modules(".qweight")) {
    const TensorView& weights = folder.need_matrix(module + ".qweight", {DType::i32});
    IntegerLayout layout = {weights.shape[1] * kInWord, weights.shape[0], 0, 4};
    layout.group = group_of(config, layout.columns);
    const TensorView& zeros = folder.need(module + ".qzeros", {DType::i32}, {layout.groups(), weights.shape[1]});
    const TensorView& scales =
        folder.need(module + ".scales", {DType::f16, DType::bf16, DType::f32}, {layout.groups(), layout.rows});
    put_integers(folder, weights, module, layout, std::make_shared<AwqRows>(layout, weights, zeros, scales));
  }
}

}  // namespace weft
