// gpt-oss's folders: of the matrices (experts, rows, columns) of a module
//
//   NAME_blocks (experts, rows, columns / 32, 16) U8: 32 numbers of E2M1, neighbours in a byte, the first in the lower
//     half
//   NAME_scales (experts, rows, columns / 32) U8: the exponents of their powers of two
//
// They become a tensor NAME of MXFP4 (format/quants.h).
#include "format/quantised/folder.h"

namespace weft {
namespace {

constexpr uint64_t kBlock = 32, kPairs = kBlock / 2;

// A block as GGUF has it: the scale, then the numbers, of which the first sixteen are the lower halves of the bytes.
void write_block(std::byte scale, const std::byte* pairs, std::byte* block) {
  const auto number = [&](uint64_t e) { return pairs[e / 2] >> (e % 2 * 4) & std::byte{15}; };
  *block++ = scale;
  for (uint64_t e = 0; e < kPairs; ++e) block[e] = number(e) | number(e + kPairs) << 4;
}

class Mxfp4Rows final : public QuantisedRows {
 public:
  Mxfp4Rows(const TensorView& blocks, const TensorView& scales) : blocks_(blocks), scales_(scales) {}

  const char* method() const override { return name(DType::mxfp4); }
  std::span<const std::byte> stored() const override { return blocks_.bytes; }
  void values(uint64_t row, std::span<float> out) const override {
    std::vector<std::byte> own(out.size() / kBlock * block_bytes(DType::mxfp4));
    blocks(row, DType::mxfp4, own.data());
    to_float({blocks_.name, DType::mxfp4, {out.size()}, own}, 0, out);
  }
  bool has_blocks(DType type) const override { return type == DType::mxfp4; }
  void blocks(uint64_t row, DType type, std::byte* out) const override {
    const uint64_t count = scales_.shape.back();
    for (uint64_t i = row * count; i < (row + 1) * count; ++i, out += block_bytes(type))
      write_block(scales_.bytes[i], &blocks_.bytes[i * kPairs], out);
  }
  bool blocks_are_rounded(DType) const override { return false; }

 private:
  TensorView blocks_, scales_;
};

}  // namespace

void read_mxfp4(QuantisedFolder& folder, const JsonObject&) {
  for (const std::string& module : folder.modules("_blocks")) {
    const TensorView& blocks = *folder.find(module + "_blocks");
    std::vector<uint64_t> shape = blocks.shape;
    if (blocks.dtype != DType::u8 || shape.size() != 4 || shape[3] != kPairs || blocks.bytes.empty())
      folder.refuse(blocks, "is " + std::string(name(blocks.dtype)) + " of the shape " + text_of(shape) +
                                ", expected U8 and (experts, rows, blocks, 16)");
    shape.pop_back();
    const TensorView& scales = folder.need(module + "_scales", {DType::u8}, shape);
    shape[2] *= kBlock;
    folder.put(blocks, module, DType::mxfp4, shape, std::make_shared<Mxfp4Rows>(blocks, scales));
  }
}

}  // namespace weft
