// The device's layout of matrices: packing from every type, and slices. No device needed.
#include "ops/matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "format/model_file.h"
#include "format/quants.h"
#include "support/native_blocks.h"
#include "support/random_rows.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

constexpr int kOfIq4[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Column c of a super-block of three bits. byte: of a word of it.
template <class Byte>
float element_of_three(Format format, const Byte& byte, uint32_t c) {
  const uint32_t e = c % 32, lower = byte(2 + c / 64 + c / 128, c % 64 / 16 * 4 + c % 4) >> (c % 16 / 4 * 2) & 3,
                 upper = byte(1 + c / 128 * 3, c / 32 % 4 * 4 + e % 4) >> (e / 4) & 1;
  uint32_t word = 0;
  for (uint32_t k = 0; k < 4; ++k) word |= byte(0, c / 64 * 4 + k) << 8 * k;
  const uint32_t six = word >> (c / 16 % 4 * 6) & 63;
  const float scale = half_to_float(static_cast<uint16_t>(byte(0, c < 128 ? 3 : 11) | byte(0, c < 128 ? 7 : 15) << 8)) *
                      static_cast<float>(six < 32 ? static_cast<int>(six) : static_cast<int>(six) - 64);
  if (format == Format::q3k) return scale * (static_cast<float>(lower) - (upper > 0 ? 4 : 0));
  constexpr float kOfIq2[] = {8, 25, 43, 0}, kOfIq1[] = {1, 7, 9, 0};
  const float size = (format == Format::iq2 ? kOfIq2 : kOfIq1)[lower] / 8;
  return scale * (upper > 0 ? -size : size);
}

// Element (row, col) of packed tiles, by the description in shaders/abi.h.
float element(const Matrix& matrix, const std::vector<std::byte>& packed, uint32_t row, uint32_t col) {
  const std::byte* tile = packed.data() + row / TILE_ROWS * matrix.tile_bytes();
  const uint32_t r = row % TILE_ROWS;
  const auto half_at = [&](size_t byte) {
    uint16_t half;
    std::memcpy(&half, tile + byte, 2);
    return half_to_float(half);
  };
  if (is_native(matrix.format) && block_elements(file_type(matrix.format)) == BLOCK) {
    const uint32_t block = col / BLOCK, e = col % BLOCK, blocks = matrix.blocks();
    const auto byte = [&](size_t at) { return std::to_integer<uint32_t>(tile[at]); };
    const uint32_t lower = byte(place_in_tile(r, block, blocks) * 16 + e / 8 * 4 + e % 4) >> (e % 8 / 4 * 4) & 15;
    size_t notes = size_t{blocks} * 1024;
    uint32_t fifth = 0;
    if (matrix.format == Format::q5_0 || matrix.format == Format::q5_1) {
      fifth = byte(notes + place_in_tile(r, block, blocks) * 4 + e % 4) >> (7 - e / 4) & 1;
      notes += size_t{blocks} * 256;
    }
    if (matrix.format == Format::q5_1) {
      notes += place_in_tile(r, block, blocks) * 4;
      volatile float product = half_at(notes) * static_cast<float>(lower | fifth << 4);  // no fused sum
      return product + half_at(notes + 2);
    }
    notes += place_in_tile(r, block / 2, (blocks + 1) / 2) * 4 + block % 2 * 2;
    if (matrix.format == Format::mxfp4) {
      constexpr float kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12};
      const float power = std::bit_cast<float>(byte(notes) << 16 | byte(notes + 1) << 24);
      return power * (lower < 8 ? kTwice[lower] : -kTwice[lower - 8]);
    }
    const float scale = half_at(notes);
    if (matrix.format == Format::iq4_nl) return scale * static_cast<float>(kOfIq4[lower]);
    const int spare = matrix.format == Format::q4_0 ? 16 : 8;  // two's complement of fewer than 8 bits
    return scale * static_cast<float>(static_cast<int8_t>((lower | fifth << 4) * spare) / spare);
  }
  if (is_native(matrix.format)) {
    if (matrix.format == Format::q2k) {
      const uint32_t supers = matrix.cols / 256, super = col / 256, c = col % 256, words = supers * 5;
      const auto byte = [&](uint32_t k, uint32_t at) {
        return std::to_integer<uint32_t>(tile[place_in_tile(r, super * 5 + k, words) * 16 + at]);
      };
      const uint32_t quant = byte(1 + c / 64, c % 64 / 16 * 4 + c % 4) >> (c % 16 / 4 * 2) & 3,
                     scales = byte(0, c / 16);
      const size_t halves = size_t{words} * 1024 + place_in_tile(r, super, supers) * 4;
      const float scale = half_at(halves) * static_cast<float>(scales & 15);
      volatile float product = scale * static_cast<float>(quant),
                     minimum = half_at(halves + 2) * static_cast<float>(scales >> 4);
      return product - minimum;
    }
    const bool three = matrix.format == Format::q3k || matrix.format == Format::iq2 || matrix.format == Format::iq1;
    const uint32_t own = matrix.format == Format::q6 ? 13 : matrix.format == Format::q5k ? 11 : three ? 7 : 9;
    const uint32_t supers = matrix.cols / 256, super = col / 256, c = col % 256, words = supers * own;
    const auto byte = [&](uint32_t k, uint32_t at) {
      return std::to_integer<uint32_t>(tile[place_in_tile(r, super * own + k, words) * 16 + at]);
    };
    if (three) return element_of_three(matrix.format, byte, c);
    // Words of upper bits before that of these lower bits, one for every so many blocks.
    const uint32_t of_upper = matrix.format == Format::q6 ? 2 : 4, uppers = own == 9 ? 0 : c / 32 / of_upper + 1;
    const uint32_t lower = byte(1 + uppers + c / 32, c % 32 / 8 * 4 + c % 4) >> (c % 8 / 4 * 4) & 15;
    if (matrix.format != Format::q6) {
      const uint32_t b = c / 32, e = c % 32;
      const uint32_t upper = own == 9 ? 0 : byte(1 + b / 4 * 5, b % 4 * 4 + e % 4) >> (e / 4) & 1;
      const auto six = [&](uint32_t which) {  // 0: the scale, 1: the minimum
        const uint32_t low = byte(0, which * 4 + b / 2) >> (b % 2 * 4) & 15;
        return low | (byte(0, 8 + which * 2 + b / 4) >> (b % 4 * 2) & 3) << 4;
      };
      const size_t halves = place_in_tile(r, super * own, words) * 16 + 12;
      const float scale = half_at(halves) * static_cast<float>(six(0)),
                  minimum = half_at(halves + 2) * static_cast<float>(six(1));
      if (matrix.format != Format::q5k && matrix.format != Format::q4k) {
        constexpr float kOfIq3[] = {2, 6, 10, 14, 18, 22, 26, 31};
        const float factor = half_at(halves) * (static_cast<float>(six(0)) - 32);
        if (matrix.format == Format::iq4_xs) return factor * static_cast<float>(kOfIq4[lower]);
        if (matrix.format == Format::iq3_xxs) return 0.5f * factor * (lower < 8 ? kOfIq3[lower] : -kOfIq3[lower - 8]);
        return factor *
               static_cast<float>(2 * (lower < 8 ? static_cast<int>(lower) : static_cast<int>(lower) - 16) + 1);
      }
      volatile float product = scale * static_cast<float>(lower | upper << 4);  // no fused difference
      return product - minimum;
    }
    const uint32_t upper = byte(1 + c / 64 * 3, c % 64 / 16 * 4 + c % 4) >> (6 - c % 16 / 4 * 2) & 3;
    const auto scale = static_cast<float>(static_cast<int8_t>(byte(0, c / 16)));
    const float d = half_at(size_t{words} * 1024 + place_in_tile(r, super / 2, (supers + 1) / 2) * 4 + super % 2 * 2);
    return d * scale * static_cast<float>(static_cast<int8_t>(lower << 2 | upper << 6) / 4);
  }
  if (matrix.format == Format::q4) {
    const uint32_t block = col / BLOCK, e = col % BLOCK;
    const auto byte = static_cast<uint32_t>(tile[place_in_tile(r, block, matrix.blocks()) * 16 + e / 2]);
    const size_t line = size_t{matrix.blocks()} * TILE_ROWS * 16 + place_in_tile(r, block, matrix.blocks()) * 4;
    return half_at(line) * static_cast<float>(byte >> (e % 2 * 4) & 15) + half_at(line + 2);
  }
  if (matrix.format == Format::f16) return half_at(place_in_tile(r, col / 8, matrix.blocks() * 4) * 16 + col % 8 * 2);
  const auto value = static_cast<int8_t>(tile[place_in_tile(r, col / 16, matrix.blocks() * 2) * 16 + col % 16]);
  const uint32_t block = col / BLOCK;
  const size_t scales = size_t{matrix.blocks()} * 2 * TILE_ROWS * 16;
  return half_at(scales + place_in_tile(r, block / 2, (matrix.blocks() + 1) / 2) * 4 + block % 2 * 2) *
         static_cast<float>(value);
}

std::vector<std::byte> pack(const Matrix& matrix, const std::vector<const TensorView*>& parts) {
  std::vector<std::byte> packed(matrix.bytes(), std::byte{0xee});
  // In two pieces, as an upload asks for it.
  const uint32_t half = matrix.tiles() / 2;
  pack_tiles(matrix, parts, 0, std::span(packed).first(half * matrix.tile_bytes()));
  pack_tiles(matrix, parts, half, std::span(packed).subspan(half * matrix.tile_bytes()));
  return packed;
}

TEST(MatrixPacking, F32ToF16AndQ8) {
  for (const uint32_t rows : {1u, 3u, 64u, 65u, 200u})
    for (const uint32_t cols : {1u, 31u, 32u, 33u, 65u, 172u}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
      Random random(rows + cols);
      const std::vector<float> values = random.normals(size_t{rows} * cols);
      const TensorView tensor = {"t", DType::f32, {rows, cols}, std::as_bytes(std::span(values))};
      const Matrix f16 = {Format::f16, rows, cols, {}}, q8 = {Format::q8, rows, cols, {}};
      const std::vector<std::byte> halves = pack(f16, {&tensor}), bytes = pack(q8, {&tensor});
      for (uint32_t r = 0; r < f16.tiles() * TILE_ROWS; ++r)
        for (uint32_t c = 0; c < f16.blocks() * BLOCK; ++c) {
          if (r >= rows || c >= cols) {
            ASSERT_EQ(element(f16, halves, r, c), 0) << r << ", " << c;
            ASSERT_EQ(element(q8, bytes, r, c), 0) << r << ", " << c;
            continue;
          }
          const float want = values[size_t{r} * cols + c];
          ASSERT_EQ(element(f16, halves, r, c), half_to_float(float_to_half(want))) << r << ", " << c;
          float largest = 0;
          for (uint32_t i = c / BLOCK * BLOCK; i < std::min(cols, (c / BLOCK + 1) * BLOCK); ++i)
            largest = std::max(largest, std::abs(values[size_t{r} * cols + i]));
          // Half a step, and the rounding of the scale, which counts up to 127 times.
          ASSERT_NEAR(element(q8, bytes, r, c), want, largest / 127 * (0.5 + 127 * 0x1p-11 + 0.001)) << r << ", " << c;
        }
    }
}

TEST(MatrixPacking, F16AndQ8PassUnchanged) {
  const uint32_t rows = 70, cols = 96;
  Random random(1);
  std::vector<uint16_t> halves(rows * cols);
  for (uint16_t& half : halves) half = float_to_half(random.normal());
  const TensorView f16_tensor = {"t", DType::f16, {rows, cols}, std::as_bytes(std::span(halves))};
  const Matrix f16 = {Format::f16, rows, cols, {}};
  const std::vector<std::byte> packed = pack(f16, {&f16_tensor});
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < cols; ++c) ASSERT_EQ(element(f16, packed, r, c), half_to_float(halves[r * cols + c]));

  std::vector<std::byte> blocks(size_t{rows} * cols / 32 * kQ8BlockBytes);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(random.below(256));
  for (size_t b = 0; b < blocks.size(); b += kQ8BlockBytes) {
    const uint16_t scale = float_to_half(random.uniform(-0.1f, 0.1f));
    std::memcpy(&blocks[b], &scale, 2);
  }
  const TensorView q8_tensor = {"t", DType::q8_0, {rows, cols}, blocks};
  const Matrix q8 = {Format::q8, rows, cols, {}};
  const std::vector<std::byte> q8_packed = pack(q8, {&q8_tensor});
  std::vector<float> want(rows * cols);
  to_float(q8_tensor, 0, want);
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < cols; ++c) ASSERT_EQ(element(q8, q8_packed, r, c), want[r * cols + c]);
}

void expect_copied(Format format, const TensorView& tensor) {
  const auto rows = static_cast<uint32_t>(tensor.shape[0]), cols = static_cast<uint32_t>(tensor.shape[1]);
  SCOPED_TRACE(std::string(name(format)) + " " + std::to_string(rows) + " x " + std::to_string(cols));
  const Matrix matrix = {format, rows, cols, {}};
  const std::vector<std::byte> packed = pack(matrix, {&tensor});
  std::vector<float> want(size_t{rows} * cols);
  to_float(tensor, 0, want);
  for (uint32_t r = 0; r < matrix.tiles() * TILE_ROWS; ++r)
    for (uint32_t c = 0; c < cols; ++c)
      ASSERT_EQ(element(matrix, packed, r, c), r < rows ? want[size_t{r} * cols + c] : 0) << r << ", " << c;
}

// Native formats hold the bits of the file, whatever they are: first those of the gguf package's blocks.
TEST(MatrixPacking, NativeFormatsCopyEveryNumber) {
  const ModelFile goldens = open_model(source_folder() / "tests/unit/golden/format/quants.gguf");
  Random random(5);
  for (const Format format : kNativeFormats)
    for (const DType type : info(format).from) {
      SCOPED_TRACE(name(type));
      TensorView golden = *goldens.find(name(type));
      const uint32_t block = block_elements(type);
      golden.shape = {golden.bytes.size() / block_bytes(type), block};
      std::vector<std::byte> bytes(golden.bytes.begin(), golden.bytes.end());
      for (size_t at = 0; type == DType::mxfp4 && at < bytes.size(); at += block_bytes(type))
        if (bytes[at] == std::byte{255}) bytes[at] = std::byte{200};  // NaN, which is refused
      golden.bytes = bytes;
      expect_copied(format, golden);
      for (const uint32_t cols : {block, 2 * block, 3 * block}) {
        const std::string blocks = random_blocks(type, 70, cols, random);
        expect_copied(format, {"t", type, {70, cols}, std::as_bytes(std::span(blocks))});
      }
    }
}

TEST(MatrixPacking, NativeFormatsRefuseScalesThatAreNotFinite) {
  for (const Format format : kNativeFormats)
    for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e01}) {
      const DType type = file_type(format);
      std::string blocks;
      for (int row = 0; row < 3; ++row) append_row(blocks, type, std::vector<float>(512));
      char* const block = &blocks[block_bytes(type) * (1280 / block_elements(type))];
      if (type == DType::mxfp4)
        *block = '\xff';
      else
        std::memcpy(block + places_of_halves(type).back(), &bad, 2);
      const TensorView tensor = {"blk.0.x", type, {3, 512}, std::as_bytes(std::span(blocks))};
      try {
        pack({format, 3, 512, {}}, {&tensor});
        ADD_FAILURE() << bad << " was packed as " << name(format);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::unsupported);
        EXPECT_EQ(error.place(), "tensor blk.0.x");
        EXPECT_NE(error.sentence().find("(2, 256)"), std::string::npos) << error.what();
      }
    }
}

TEST(MatrixPacking, EveryTypeHasAFormat) {
  for (const DType type : kDTypes) {
    const Format format = closest_format(type);
    EXPECT_NE(std::ranges::find(info(format).from, type), info(format).from.end()) << name(type);
    EXPECT_FALSE(is_native(info(format).rounded)) << name(type);
  }
}

// Q4_0, Q5_0 and IQ4_NL are integers times a scale, as q8 is: whatever the scale, subnormal or not, nothing is rounded.
TEST(MatrixPacking, SmallIntegersPassUnchanged) {
  const uint32_t rows = 70, cols = 96;
  Random random(3);
  for (const DType type : {DType::q4_0, DType::q5_0, DType::iq4_nl}) {
    std::vector<std::byte> blocks(bytes_for(type, std::vector<uint64_t>{rows, cols}));
    for (std::byte& byte : blocks) byte = static_cast<std::byte>(random.below(256));
    for (size_t b = 0; b < blocks.size(); b += block_bytes(type)) {
      uint16_t scale = static_cast<uint16_t>(random.below(65536));
      if ((scale & 0x7c00) == 0x7c00) scale &= 0x83ff;  // infinities and NaNs: subnormals instead
      std::memcpy(&blocks[b], &scale, 2);
    }
    const TensorView tensor = {"t", type, {rows, cols}, blocks};
    const Matrix q8 = {Format::q8, rows, cols, {}};
    const std::vector<std::byte> packed = pack(q8, {&tensor});
    std::vector<float> want(rows * cols);
    to_float(tensor, 0, want);
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t c = 0; c < cols; ++c)
        ASSERT_EQ(element(q8, packed, r, c), want[r * cols + c]) << name(type) << " " << r << ", " << c;
  }
}

// Each word of the layout holds what RowPacker says (tests/unit/format_q4_block.cpp judges that); whole tiles are
// filled with zero rows.
TEST(MatrixPacking, F32ToQ4) {
  for (const uint32_t rows : {1u, 65u, 200u})
    for (const uint32_t cols : {1u, 31u, 32u, 33u, 65u, 172u}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
      Random random(rows + cols);
      const std::vector<float> values = random.normals(size_t{rows} * cols);
      const TensorView tensor = {"t", DType::f32, {rows, cols}, std::as_bytes(std::span(values))};
      const Matrix matrix = {Format::q4, rows, cols, {}};
      const std::vector<std::byte> packed = pack(matrix, {&tensor});
      RowPacker packer(DType::q4_1, cols);
      Rounding ignored;
      for (uint32_t r = 0; r < matrix.tiles() * TILE_ROWS; ++r) {
        const PackedRow* row = r < rows ? &packer.pack(tensor, r, ignored) : nullptr;
        for (uint32_t c = 0; c < matrix.blocks() * BLOCK; ++c) {
          const float want = row ? half_to_float(row->halves[c / BLOCK]) * static_cast<float>(row->bytes[c]) +
                                       half_to_float(row->minima[c / BLOCK])
                                 : 0;
          ASSERT_EQ(element(matrix, packed, r, c), want) << r << ", " << c;
          if (row && c < cols) {
            ASSERT_NEAR(want, values[size_t{r} * cols + c], 0.4) << r << ", " << c;
          }
        }
      }
    }
}

TEST(MatrixPacking, StatesTheLargestErrorOfEachPart) {
  Random random(4);
  const uint32_t cols = 70;
  std::vector<float> rounded = random.normals(size_t{66} * cols), whole(size_t{5} * cols);
  rounded[65 * cols + 40] = -9.0f;  // the largest, in the second tile
  for (float& value : whole) value = static_cast<float>(random.below(9)) - 4.0f;
  const TensorView a = {"a", DType::f32, {66, cols}, std::as_bytes(std::span(rounded))},
                   b = {"b", DType::f32, {5, cols}, std::as_bytes(std::span(whole))};
  const TensorView* const parts[] = {&a, &b};
  for (const Format format : kFormats) {
    const Matrix matrix = {format, 71, cols, {}};
    std::vector<std::byte> packed(matrix.bytes());
    std::vector<Rounding> roundings(2);
    pack_tiles(matrix, parts, 0, packed, roundings);
    double largest[2] = {};
    for (uint32_t r = 0; r < 71; ++r)
      for (uint32_t c = 0; c < cols; ++c) {
        const float want = r < 66 ? rounded[r * cols + c] : whole[(r - 66) * cols + c];
        double& most = largest[r < 66 ? 0 : 1];
        most = std::max<double>(most, std::abs(element(matrix, packed, r, c) - want));
      }
    EXPECT_EQ(roundings[0].largest_error, largest[0]);
    EXPECT_EQ(roundings[1].largest_error, largest[1]);
    EXPECT_EQ(roundings[0].largest_value, 9.0);
    EXPECT_EQ(roundings[0].relative(), largest[0] / 9.0);
    EXPECT_GT(largest[0], 0);
    if (format == Format::f16) {
      EXPECT_EQ(largest[1], 0);
    }
  }
}

TEST(MatrixPacking, PartsStandAfterEachOther) {
  Random random(2);
  const uint32_t cols = 40, counts[] = {3, 64, 1, 80};
  std::vector<std::vector<float>> values;
  std::vector<TensorView> tensors;
  std::vector<float> all;
  for (const uint32_t rows : counts) {
    values.push_back(random.normals(size_t{rows} * cols));
    all.insert(all.end(), values.back().begin(), values.back().end());
    tensors.push_back({"part", DType::f32, {rows, cols}, std::as_bytes(std::span(values.back()))});
  }
  const TensorView whole = {"whole", DType::f32, {148, cols}, std::as_bytes(std::span(all))};
  std::vector<const TensorView*> parts;
  for (const TensorView& tensor : tensors) parts.push_back(&tensor);
  for (const Format format : kFormats) {
    const Matrix matrix = {format, 148, cols, {}};
    EXPECT_EQ(pack(matrix, parts), pack(matrix, {&whole}));
  }
}

TEST(MatrixPacking, TinyBlocksStayFinite) {
  // Scales below f16's least subnormal, and among its subnormals.
  for (const float magnitude : {1e-12f, 3e-8f, 1e-5f, 1e-3f}) {
    std::vector<float> values(32);
    for (int i = 0; i < 32; ++i) values[i] = magnitude * static_cast<float>(i - 16) / 16;
    const TensorView tensor = {"t", DType::f32, {1, 32}, std::as_bytes(std::span(values))};
    const Matrix matrix = {Format::q8, 1, 32, {}};
    const std::vector<std::byte> packed = pack(matrix, {&tensor});
    for (uint32_t c = 0; c < 32; ++c)
      EXPECT_NEAR(element(matrix, packed, 0, c), values[c], std::max(magnitude / 100, 127 * 0x1p-25f)) << magnitude;
  }
}

TEST(MatrixPacking, RefusesWhatF16CannotHold) {
  for (const Format format : kFormats)
    for (const float bad : {NAN, INFINITY, -INFINITY, 1e30f}) {
      std::vector<float> values(3 * 40, 1.0f);
      values[2 * 40 + 33] = bad;
      const TensorView tensor = {"blk.0.x", DType::f32, {3, 40}, std::as_bytes(std::span(values))};
      const Matrix matrix = {format, 3, 40, {}};
      try {
        pack(matrix, {&tensor});
        ADD_FAILURE() << bad << " was packed as " << name(format);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::unsupported);
        EXPECT_EQ(error.place(), "tensor blk.0.x");
        EXPECT_NE(error.sentence().find("(2, 3"), std::string::npos) << error.what();
      }
    }
}

TEST(MatrixSlices, CoverEveryRowOnce) {
  for (const Format format : kFormats)
    for (const uint32_t rows : {1u, 64u, 65u, 1000u, 70000u})
      for (const uint32_t cols : {1u, 33u, 576u}) {
        const Buffer none;
        Matrix matrix = {format, rows, cols, {}};
        EXPECT_EQ(matrix.tile_bytes() % kViewAlignment, 0u);
        EXPECT_GE(matrix.bytes(), packed_bytes(format, rows, cols));
        matrix.view = View(none, 512, matrix.bytes());
        for (const uint64_t limit :
             {matrix.tile_bytes(), matrix.tile_bytes() * 3 - 1, uint64_t{1} << 20, uint64_t{1} << 40}) {
          if (limit < matrix.tile_bytes()) continue;
          uint64_t row = 0, offset = 512;
          for (const Matrix::Slice& slice : matrix.slices(limit)) {
            EXPECT_EQ(slice.row_base, row);
            EXPECT_EQ(slice.view.offset, offset);
            EXPECT_LE(slice.view.bytes, limit);
            EXPECT_EQ(slice.view.bytes, (slice.rows + TILE_ROWS - 1) / TILE_ROWS * matrix.tile_bytes());
            row += slice.rows;
            offset += slice.view.bytes;
          }
          EXPECT_EQ(row, rows);
          EXPECT_EQ(offset, 512 + matrix.bytes());
        }
        EXPECT_THROW(matrix.slices(matrix.tile_bytes() - 1), Error);
      }
}

TEST(MatrixSlices, PackedBytes) {
  EXPECT_EQ(packed_bytes(Format::f16, 10, 33), 660u);
  EXPECT_EQ(packed_bytes(Format::q8, 10, 33), 10u * 2 * 34);
  EXPECT_EQ(packed_bytes(Format::q4, 10, 33), 10u * 2 * 20);
  EXPECT_EQ(packed_bytes(Format::q8, 49152, 576), uint64_t{49152} * 18 * 34);
  EXPECT_EQ(packed_bytes(Format::q6, 3, 512), uint64_t{3} * 2 * 210);
  EXPECT_EQ(packed_bytes(Format::q5k, 3, 512), uint64_t{3} * 2 * 176);
  EXPECT_EQ(packed_bytes(Format::q4k, 3, 512), uint64_t{3} * 2 * 144);
  EXPECT_EQ(packed_bytes(Format::q3k, 3, 512), uint64_t{3} * 2 * 112);
  EXPECT_EQ(packed_bytes(Format::iq1, 3, 512), uint64_t{3} * 2 * 112);
  EXPECT_EQ(packed_bytes(Format::iq3_xxs, 3, 512), uint64_t{3} * 2 * 144);
}

}  // namespace
}  // namespace weft::test
