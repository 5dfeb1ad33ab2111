// The device's layout of vocabulary tables: planes of bits, and what each row notes for the bounds. No device needed.
#include "ops/planes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

// A packed table, read by the description in shaders/abi.h.
struct Packed {
  Matrix matrix;
  std::vector<std::byte> bytes;

  Packed(Format format, uint32_t rows, uint32_t cols, const TensorView& tensor)
      : matrix{format, rows, cols, {}, Layout::planes}, bytes(matrix.bytes(), std::byte{0xee}) {
    const TensorView* part = &tensor;
    pack_tiles(matrix, {&part, 1}, 0, bytes);
  }
  template <class T>
  T at(uint32_t row, size_t byte) const {
    T value;
    std::memcpy(&value, bytes.data() + row / TILE_ROWS * matrix.tile_bytes() + byte, sizeof value);
    return value;
  }
  uint32_t two_bits(uint32_t plane, uint32_t row, uint32_t col) const {
    const uint32_t blocks = matrix.blocks(), r = row % TILE_ROWS, pair = col / 64, e = col % 16;
    size_t word = size_t{plane} * 8 * blocks * TILE_ROWS;
    word += pair < blocks / 2 ? place_in_tile(r, pair, blocks / 2) * 16 + col % 64 / 16 * 4
                              : size_t{blocks / 2} * TILE_ROWS * 16 + r * 8 + col % 32 / 16 * 4;
    return at<uint32_t>(row, word) >> (2 * (e / 4) + 8 * (e % 4)) & 3;
  }
  uint32_t four_bits(uint32_t row, uint32_t col) const {
    const uint32_t blocks = matrix.blocks(), e = col % 16;
    const size_t word = size_t{16} * blocks * TILE_ROWS + place_in_tile(row % TILE_ROWS, col / 32, blocks) * 16;
    return at<uint32_t>(row, word + col % 32 / 16 * 8 + e / 8 * 4) >> (4 * (e / 4 % 2) + 8 * (e % 4)) & 15;
  }
  // Of the halves behind the planes.
  uint8_t byte(uint32_t row, uint32_t index) const {
    const uint32_t blocks = matrix.blocks();
    const bool q8 = matrix.format == Format::q8, q4 = matrix.format == Format::q4;
    const uint32_t words = q8 ? Q8_HALF_WORDS(blocks) : q4 ? Q4_HALF_WORDS(blocks) : F16_HALF_WORDS;
    const size_t first = size_t{q8 ? 32u : q4 ? 16u : 64u} * blocks * TILE_ROWS;
    return at<uint8_t>(row, first + place_in_tile(row % TILE_ROWS, index / 4, words) * 4 + index % 4);
  }
  double half(uint32_t row, uint32_t index) const {
    return half_to_float(static_cast<uint16_t>(byte(row, 2 * index) | byte(row, 2 * index + 1) << 8));
  }
  // With only the first `bits` bits of u (columns below `more` two bits more), the middle of what is open else; in
  // units of the scale.
  double level(uint32_t row, uint32_t col, uint32_t bits) const {
    const double u = 64.0 * two_bits(0, row, col), v = 16.0 * two_bits(1, row, col);
    if (bits == 2) return u + 31.5 - 128;
    if (bits == 4) return u + v + 7.5 - 128;
    return u + v + four_bits(row, col) - 128;
  }
  uint16_t f16(uint32_t row, uint32_t col) const {
    static constexpr uint32_t kByteOf[4] = {1, 3, 0, 2};
    const size_t byte =
        place_in_tile(row % TILE_ROWS, col / 16, matrix.blocks() * 2) * 16 + col % 16 / 4 * 4 + kByteOf[col % 4];
    const size_t low = byte + size_t{32} * matrix.blocks() * TILE_ROWS;
    return static_cast<uint16_t>(at<uint8_t>(row, byte) << 8 | at<uint8_t>(row, low));
  }
};

TEST(Planes, Q8HoldsEveryBitAndItsBounds) {
  for (const uint32_t rows : {1u, 65u, 130u})
    for (const uint32_t cols : {1u, 31u, 33u, 64u, 96u, 172u, 576u}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
      Random random(rows * 7 + cols);
      const uint32_t blocks = (cols + 31) / 32;
      std::vector<std::byte> file(size_t{rows} * blocks * kQ8BlockBytes);
      for (std::byte& byte : file) byte = static_cast<std::byte>(random.below(256));  // -128 too
      for (size_t b = 0; b < file.size(); b += kQ8BlockBytes) {
        const uint16_t scale = float_to_half(b % 5 == 0 ? 3e-7f : random.uniform(-0.1f, 0.1f));
        std::memcpy(&file[b], &scale, 2);
      }
      const TensorView tensor = {"t", DType::q8_0, {rows, blocks * 32}, file};
      const Packed packed(Format::q8, rows, blocks * 32, tensor);
      std::vector<float> values(size_t{rows} * blocks * 32);
      to_float(tensor, 0, values);
      for (uint32_t r = 0; r < rows; ++r) {
        double open[2] = {}, left[2] = {};
        for (uint32_t c = 0; c < blocks * 32; ++c) {
          const double scale = packed.half(r, c / 32), value = values[size_t{r} * blocks * 32 + c];
          ASSERT_EQ(scale * packed.level(r, c, 8), value) << r << ", " << c;
          const uint32_t half = c / 32 < blocks / 4 * 2 ? 0 : 1;
          open[half] += std::pow(value - scale * packed.level(r, c, 2), 2);
          left[half] += std::pow(value - scale * packed.level(r, c, 4), 2);
        }
        for (const uint32_t half : {0u, 1u}) {
          const double norm = packed.half(r, blocks + half), part = packed.byte(r, 2 * (blocks + 2) + half) / 255.0;
          ASSERT_GE(norm, std::sqrt(open[half])) << r;
          ASSERT_LE(norm, std::sqrt(open[half]) * (1 + 0x1p-10) + 1e-7) << r;
          ASSERT_GE(part * norm, std::sqrt(left[half])) << r;
          ASSERT_LE(part * norm, std::sqrt(left[half]) + norm / 255) << r;
        }
      }
    }
}

TEST(Planes, Q4HoldsEveryBitAndItsBound) {
  for (const uint32_t rows : {1u, 65u, 130u})
    for (const uint32_t blocks : {1u, 2u, 3u, 18u}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(blocks));
      Random random(rows * 7 + blocks);
      std::vector<std::byte> file(size_t{rows} * blocks * block_bytes(DType::q4_1));
      for (std::byte& byte : file) byte = static_cast<std::byte>(random.below(256));
      for (size_t b = 0; b < file.size(); b += block_bytes(DType::q4_1)) {
        const uint16_t halves[2] = {float_to_half(b % 3 == 0 ? 3e-7f : random.uniform(-0.1f, 0.1f)),
                                    float_to_half(random.uniform(-1, 1))};
        std::memcpy(&file[b], halves, 4);
      }
      const TensorView tensor = {"t", DType::q4_1, {rows, blocks * 32}, file};
      const Packed packed(Format::q4, rows, blocks * 32, tensor);
      std::vector<float> values(size_t{rows} * blocks * 32);
      to_float(tensor, 0, values);
      for (uint32_t r = 0; r < rows; ++r) {
        double open[2] = {};
        for (uint32_t c = 0; c < blocks * 32; ++c) {
          const double scale = packed.half(r, c / 32 * 2), minimum = packed.half(r, c / 32 * 2 + 1);
          const double value = values[size_t{r} * blocks * 32 + c], first = 4.0 * packed.two_bits(0, r, c);
          ASSERT_EQ(static_cast<float>(scale * (first + packed.two_bits(1, r, c)) + minimum), value) << r << ", " << c;
          open[c / 32 < blocks / 4 * 2 ? 0 : 1] += std::pow(scale * (packed.two_bits(1, r, c) - 1.5), 2);
        }
        for (const uint32_t half : {0u, 1u}) {
          ASSERT_GE(packed.half(r, 2 * blocks + half), std::sqrt(open[half])) << r;
          ASSERT_LE(packed.half(r, 2 * blocks + half), std::sqrt(open[half]) * (1 + 0x1p-10) + 1e-7) << r;
        }
      }
    }
}

TEST(Planes, F16HoldsEveryBitAndItsBounds) {
  const uint32_t rows = 70, cols = 72;
  Random random(3);
  std::vector<uint16_t> halves(rows * cols);
  for (uint32_t i = 0; i < halves.size(); ++i) {
    do halves[i] = static_cast<uint16_t>(random.below(65536));
    while ((halves[i] & 0x7c00) == 0x7c00);
    if (i / cols > 2) halves[i] = float_to_half(random.normal());  // rows 0 .. 2: any finite half
  }
  const TensorView tensor = {"t", DType::f16, {rows, cols}, std::as_bytes(std::span(halves))};
  const Packed packed(Format::f16, rows, cols, tensor);
  for (uint32_t r = 0; r < rows; ++r) {
    double residual = 0, norm = 0;
    for (uint32_t c = 0; c < cols; ++c) {
      const uint16_t half = packed.f16(r, c);
      ASSERT_EQ(half, halves[r * cols + c]) << r << ", " << c;
      const double value = half_to_float(half);
      residual += std::pow(value - half_to_float(static_cast<uint16_t>((half & 0xff00) | 0x80)), 2);
      norm += value * value;
    }
    ASSERT_GE(packed.half(r, 0), std::sqrt(residual)) << r;
    ASSERT_GE(packed.half(r, 1), std::sqrt(norm)) << r;
    if (r > 2) {
      ASSERT_LE(packed.half(r, 0), std::sqrt(residual) * 1.01) << r;
      ASSERT_LE(packed.half(r, 1), std::sqrt(norm) * 1.01) << r;
    }
  }
}

TEST(Planes, AtMostThreePercentMoreThanPlainQ8) {
  for (uint32_t cols = 256; cols <= 8192; cols += 32) {
    const Matrix planes = {Format::q8, 6400, cols, {}, Layout::planes};
    EXPECT_LE(static_cast<double>(planes.bytes()), 1.03 * static_cast<double>(packed_bytes(Format::q8, 6400, cols)))
        << cols;
  }
}

TEST(Planes, BytesOfTheStagesAddUp) {
  for (const uint32_t cols : {32u, 96u, 128u, 576u, 640u}) {
    const PlaneBytes bytes = plane_bytes(Format::q8, cols);
    const Matrix whole = {Format::q8, TILE_ROWS, cols, {}, Layout::planes};
    // Planes 0 and 1 with their notes, and plane 2: the whole row (an even number of blocks has half a word to spare).
    EXPECT_EQ(bytes.estimates[2] + whole.blocks() * 16, whole.tile_bytes() / TILE_ROWS) << cols;
    EXPECT_EQ(plane_bytes(Format::f16, cols).estimates[0], whole.blocks() * 32 + 4) << cols;
    const Matrix q4 = {Format::q4, TILE_ROWS, cols, {}, Layout::planes};
    EXPECT_EQ(plane_bytes(Format::q4, cols).estimates[0] + q4.blocks() * 8, q4.tile_bytes() / TILE_ROWS) << cols;
  }
}

}  // namespace
}  // namespace weft::test
