// The block formats against what the gguf package decodes (tests/tools/format_goldens.py), bit for bit.
#include "format/quants.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include "base/error.h"
#include "format/model_file.h"
#include "format/packed_row.h"
#include "format_support.h"
#include "support/source_folder.h"

namespace weft {
namespace {

ModelFile goldens() { return open_model(source_folder() / "tests/unit/golden/format/quants.gguf"); }

TEST(Quants, EveryTypeIsWhatTheGgufPackageDecodes) {
  const ModelFile model = goldens();
  for (const DType dtype : kDTypes) {
    if (!is_quantised(dtype)) continue;
    const TensorView *blocks = model.find(name(dtype)), *floats = model.find(std::string(name(dtype)) + ".floats");
    ASSERT_TRUE(blocks && floats) << name(dtype);
    ASSERT_EQ(blocks->dtype, dtype);
    ASSERT_EQ(blocks->shape, floats->shape) << name(dtype);
    const auto found = floats_of(*blocks), expected = floats_of(*floats);
    std::set<uint32_t> different;
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto bits = std::bit_cast<uint32_t>(expected[i]);
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), bits) << name(dtype) << ", element " << i;
      different.insert(bits);
    }
    const bool ternary = dtype == DType::tq1_0 || dtype == DType::tq2_0 || dtype == DType::q1_0 ||
                         dtype == DType::q2_0;  // few numbers a scale
    EXPECT_GT(different.size(), ternary ? 12u : 30u) << name(dtype) << ": the sample says too little";
  }
}

// A row in parts: from any block on, to anywhere.
TEST(Quants, PartsAreAsTheWhole) {
  const ModelFile model = goldens();
  for (const DType dtype : kDTypes) {
    if (!is_quantised(dtype)) continue;
    const TensorView& tensor = *model.find(name(dtype));
    const auto whole = floats_of(tensor);
    const uint64_t block = block_elements(dtype);
    for (const uint64_t first : {uint64_t{0}, block, 4 * block})
      for (const uint64_t count : {uint64_t{1}, block - 1, block, block + 3, 2 * block + block / 2}) {
        std::vector<float> part(count), expected(whole.begin() + first, whole.begin() + first + count);
        to_float(tensor, first, part);
        EXPECT_EQ(std::memcmp(part.data(), expected.data(), count * sizeof(float)), 0) << name(dtype);
      }
    std::vector<float> one(1);
    expect_error(Code::invalid_argument, {"no multiple of " + std::to_string(block)},
                 [&] { to_float(tensor, block / 2, one); });
  }
}

// Blocks of all 256 scales: numbers that q8 has are kept to the bit, smaller ones rounded, larger ones refused.
TEST(Quants, Mxfp4BecomesQ8) {
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    SCOPED_TRACE(exponent);
    std::string bytes(1, static_cast<char>(exponent));
    for (uint32_t i = 0; i < 16; ++i) bytes += static_cast<char>(i * 16 + (i + 7) % 16);
    const Bytes block(bytes);
    const TensorView tensor = {"x", DType::mxfp4, {1, 32}, block};
    const std::vector<float> want = floats_of(tensor);
    RowPacker packer(DType::q8_0, 32);
    Rounding rounding;
    constexpr uint32_t kLargest = 127 + 19, kLeast = 127 - 23;  // of the scales that q8 has
    if (exponent > kLargest) {
      expect_error(Code::unsupported, {"tensor x", "2^" + std::to_string(static_cast<int>(exponent) - 127), "2^19"},
                   [&] { packer.pack(tensor, 0, rounding); });
      continue;
    }
    const PackedRow& row = packer.pack(tensor, 0, rounding);
    double worst = 0;
    for (uint32_t i = 0; i < 32; ++i)
      worst =
          std::max<double>(worst, std::abs(half_to_float(row.halves[0]) * static_cast<float>(row.bytes[i]) - want[i]));
    EXPECT_EQ(rounding.largest_error, worst);
    EXPECT_LE(worst, exponent >= kLeast ? 0 : 0x1p-25);
  }
  // Zeros have any scale.
  const Bytes zeros("\xff" + std::string(16, '\x80'));
  Rounding rounding;
  RowPacker packer(DType::q8_0, 32);
  const PackedRow& row = packer.pack({"x", DType::mxfp4, {1, 32}, zeros}, 0, rounding);
  EXPECT_TRUE(std::ranges::all_of(row.bytes, [](int8_t value) { return value == 0; }));
}

// AddressSanitizer sees a decoder that reads or writes beside its block.
// In every locale: format_in_tr_TR runs this too.
TEST(Quants, ANumberThatF16DoesNotHoldIsNamed) {
  std::vector<float> values(32, 0);
  values[3] = 65536.5f;
  const TensorView tensor = {"large", DType::f32, {1, 32}, std::as_bytes(std::span<const float>(values))};
  RowPacker packer(DType::f16, 32);
  Rounding rounding;
  try {
    packer.pack(tensor, 0, rounding);
    FAIL() << "it was packed";
  } catch (const Error& error) {
    EXPECT_EQ(error.sentence(), "element (0, 3) is 65536.5, f16 holds finite values up to 65504");
  }
}

TEST(Quants, ADecoderTouchesItsBlockOnly) {
  for (const DType dtype : kDTypes) {
    if (!is_quantised(dtype)) continue;
    const Bytes block(std::string(block_bytes(dtype), '\xff'));
    const std::unique_ptr<float[]> out(new float[block_elements(dtype)]);
    block_decoder(dtype)(std::span<const std::byte>(block).data(), out.get());
  }
}

}  // namespace
}  // namespace weft
