#include "ops/table_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/half.h"
#include "base/number.h"
#include "base/quote.h"
#include "ops/matrix.h"

namespace weft {
namespace {

constexpr uint32_t kWordBytes = 16;
constexpr float kLargestHalf = 65504;

// The least half that is not below a value of 0 or more; infinity above the largest half.
uint16_t half_above(double value) {
  if (value > kLargestHalf) return 0x7c00;
  uint16_t half = float_to_half(static_cast<float>(value));
  while (half_to_float(half) < value) ++half;
  return half;
}

// Word `k` of a part of a tile: `before` words of a row come before it, it has `count`.
std::byte* word_of(std::byte* tile, uint32_t before, uint32_t row, uint32_t k, uint32_t count) {
  return tile + (size_t{before} * TILE_ROWS + IN_TILE(row, k, count)) * kWordBytes;
}

uint32_t levels(Format format) { return format == Format::q4 ? 4 : format == Format::q8 ? 8 : 16; }

// The nearest whole number to a value of less than 2^22.
float nearest(float value) { return (value + 12582912.0f) - 12582912.0f; }

constexpr size_t kLanes = 8;  // sums side by side, so that loops vectorise

float largest_of(std::span<const float> values) {  // of whole blocks
  float largest[kLanes] = {};
  for (size_t first = 0; first < values.size(); first += kLanes)
    for (size_t i = 0; i < kLanes; ++i) largest[i] = std::max(largest[i], std::abs(values[first + i]));
  return *std::max_element(largest, largest + kLanes);
}

float largest_difference(std::span<const float> a, std::span<const float> b) {  // of whole blocks
  float largest[kLanes] = {};
  for (size_t first = 0; first < a.size(); first += kLanes)
    for (size_t i = 0; i < kLanes; ++i) largest[i] = std::max(largest[i], std::abs(a[first + i] - b[first + i]));
  return *std::max_element(largest, largest + kLanes);
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sums[kLanes] = {};
  for (size_t block = 0; block < a.size(); block += BLOCK) {
    float parts[kLanes] = {};
    for (size_t first = block; first < block + BLOCK; first += kLanes)
      for (size_t i = 0; i < kLanes; ++i) parts[i] += a[first + i] * b[first + i];
    for (size_t i = 0; i < kLanes; ++i) sums[i] += parts[i];
  }
  return std::accumulate(sums, sums + kLanes, 0.0);
}

// Four bytes after one another, the first lowest.
uint32_t load(const int8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}

}  // namespace

uint32_t table_row_bytes(Format format, uint32_t rest) {
  return TABLE_SCALES(static_cast<uint32_t>(format), rest) * kWordBytes + TABLE_PAIRS(rest) * 4;
}

TableRowPacker::TableRowPacker(Format format, const Basis& basis)
    : format_(format),
      basis_(basis),
      values_(basis.width()),
      wanted_(basis.cols()),
      stored_(basis.cols()),
      scales_(basis.rest()),
      high_(basis.rest() * BLOCK),
      guess_(basis.rest() * BLOCK) {}

void TableRowPacker::pack(const TensorView& tensor, uint64_t row, std::byte* tile, uint32_t r, Rounding& rounding) {
  to_float(tensor, row * basis_.width(), values_);
  check_finite(tensor, row);
  basis_.rotate_row(values_, wanted_);
  store_leading(tile, r);
  for (uint32_t block = 0; block < basis_.rest(); ++block) store_block(tile, r, block);
  rounding.largest_error = std::max<double>(rounding.largest_error, largest_difference(stored_, wanted_));
  rounding.largest_value = std::max<double>(rounding.largest_value, largest_of(wanted_));
  const double product = dot(stored_, basis_.mean());
  store_header(tile, r, 1, float_to_half(static_cast<float>(std::clamp<double>(product, -kLargestHalf, kLargestHalf))));
  const double length = dot(std::span(stored_).subspan(LEADING), std::span(wanted_).subspan(LEADING));
  for (uint32_t number = 0; number < ESTIMATE_STAGES(static_cast<uint32_t>(format_)); ++number) {
    Stage made = stage(number, length);
    // A mean product that no half holds: nothing is estimated.
    if (std::abs(product) > kLargestHalf) made.error = 1e9;
    store_header(tile, r, 2 + 2 * number, float_to_half(static_cast<float>(made.factor)));
    store_header(tile, r, 3 + 2 * number, half_above(made.error));
  }
}

// Values that f16 holds.
void TableRowPacker::check_finite(const TensorView& tensor, uint64_t row) const {
  const auto holds = [](float value) { return std::abs(value) <= kLargestHalf; };
  uint32_t held = 0;  // a count has no early end, so the loop vectorises
  for (const float value : values_) held += holds(value) ? 1 : 0;
  if (held == basis_.width()) return;
  const auto found = std::ranges::find_if_not(values_, holds);
  throw Error(Code::unsupported,
              "element (" + std::to_string(tensor.first_row + row) + ", " + std::to_string(found - values_.begin()) +
                  ") is " + number_text(*found) + ", f16 holds finite values up to 65504",
              "tensor " + printable(tensor.name));
}

void TableRowPacker::store_leading(std::byte* tile, uint32_t row) {
  const uint32_t low_at = TABLE_LOW(static_cast<uint32_t>(format_), basis_.rest());
  const uint16_t half = half_above(largest_of(std::span(wanted_).first(LEADING)) / 127.5f);
  const float unit = half_to_float(half) / 256;
  store_header(tile, row, 0, half);
  for (uint32_t i = 0; i < LEADING; ++i) {
    const float exact = unit > 0 ? nearest(wanted_[i] / unit) : 0;
    const auto value = static_cast<int32_t>(std::clamp(exact, -32768.0f, 32767.0f));
    stored_[i] = unit * static_cast<float>(value);
    word_of(tile, TABLE_LEADING, row, i / 16, 2)[i % 16] = static_cast<std::byte>(value >> 8 & 255);
    word_of(tile, low_at, row, i / 16, 2)[i % 16] = static_cast<std::byte>(value & 255);
  }
}

void TableRowPacker::store_block(std::byte* tile, uint32_t row, uint32_t block) {
  const std::span<const float> from = std::span(wanted_).subspan(LEADING + block * BLOCK, BLOCK);
  const uint32_t bits = levels(format_), rest = basis_.rest();
  // The largest positive value is half a step less than 1 << (bits - 1); with 4 bits that matters.
  const float most = static_cast<float>(1u << (bits - 1)) - (bits == 4 ? 0.5f : 1.0f);
  const float one = bits == 16 ? 256 : 1;  // steps of a unit of the scale
  // The rotation can make one number larger than the largest half from many that are not: it is clamped.
  const uint16_t half = half_above(std::min(largest_of(from) / (most / one), kLargestHalf));
  const float scale = half_to_float(half), step = scale / one, least = -static_cast<float>(1u << (bits - 1));
  scales_[block] = scale;
  std::byte* const scales = tile + size_t{TABLE_SCALES(static_cast<uint32_t>(format_), rest)} * TILE_ROWS * kWordBytes;
  std::memcpy(scales + size_t{IN_TILE(row, block / 2, TABLE_PAIRS(rest))} * 4 + block % 2 * 2, &half, 2);
  const float inverse = step > 0 ? 1 / step : 0;
  float values[BLOCK];  // arrays of its own, which nothing else points to, so that the loops vectorise
  int8_t high[BLOCK];
  uint8_t low[BLOCK];
  for (uint32_t e = 0; e < BLOCK; ++e) values[e] = std::clamp(nearest(from[e] * inverse), least, -least - 1);
  for (uint32_t e = 0; e < BLOCK; ++e) {
    const int32_t integer = static_cast<int32_t>(values[e]) * (1 << (16 - bits));
    high[e] = static_cast<int8_t>(integer >> 8);
    low[e] = static_cast<uint8_t>(integer & 255);
  }
  for (uint32_t e = 0; e < BLOCK; ++e) stored_[LEADING + block * BLOCK + e] = step * values[e];
  std::copy_n(high, BLOCK, &high_[size_t{block} * BLOCK]);
  uint32_t planes[2] = {}, two[2] = {}, four[4] = {};
  for (uint32_t j = 0; j < 8; ++j) {  // four elements at once, a byte each
    const uint32_t quad = load(high + 4 * j);
    planes[0] |= (quad & 0x80808080u) >> j;
    planes[1] |= (quad << 1 & 0x80808080u) >> j;
    two[j % 2] |= (quad >> 4 & 0x03030303u) << (6 - 2 * (j / 2));
    four[j % 4] |= (quad & 0x0f0f0f0fu) << (4 - 4 * (j / 4));
  }
  std::memcpy(word_of(tile, TABLE_PLANE_0, row, block / 4, TABLE_QUADS(rest)) + block % 4 * 4, &planes[0], 4);
  std::memcpy(word_of(tile, TABLE_PLANE_1(rest), row, block / 4, TABLE_QUADS(rest)) + block % 4 * 4, &planes[1], 4);
  std::memcpy(word_of(tile, TABLE_PLANE_2(rest), row, block / 2, TABLE_PAIRS(rest)) + block % 2 * 8, two, 8);
  if (format_ == Format::q4) return;
  std::memcpy(word_of(tile, TABLE_PLANE_3(rest), row, block, rest), four, 16);
  if (format_ == Format::q8) return;
  for (uint32_t k : {0u, 1u})
    std::memcpy(word_of(tile, TABLE_PLANE_4(rest), row, 2 * block + k, 2 * rest), low + 16 * k, 16);
}

TableRowPacker::Stage TableRowPacker::stage(uint32_t number, double length) {
  const std::span<const float> wanted = std::span(wanted_).subspan(LEADING),
                               stored = std::span(stored_).subspan(LEADING);
  const int shift = number == 0 ? 7 : number == 1 ? 6 : 4;
  for (uint32_t block = 0; block < basis_.rest(); ++block) {
    const float scale = number == 2 ? scales_[block] : 2;
    int8_t high[BLOCK];
    float guess[BLOCK];
    std::copy_n(&high_[size_t{block} * BLOCK], BLOCK, high);
    for (uint32_t e = 0; e < BLOCK; ++e) guess[e] = scale * (static_cast<float>(high[e] >> shift) + 0.5f);
    std::copy_n(guess, BLOCK, &guess_[size_t{block} * BLOCK]);
  }
  const double along = dot(guess_, wanted);
  double factor = along > 0 ? length / along : 0;
  if (!(factor > 0) || factor > kLargestHalf) factor = 0;
  const float t = half_to_float(float_to_half(static_cast<float>(factor)));
  for (size_t i = 0; i < guess_.size(); ++i) guess_[i] = stored[i] - t * guess_[i];
  return {t, std::sqrt(dot(guess_, guess_)) * (1 + 1e-5)};
}

void TableRowPacker::store_header(std::byte* tile, uint32_t row, uint32_t index, uint16_t half) {
  std::memcpy(word_of(tile, TABLE_HEADER, row, 0, 1) + index * 2, &half, 2);
}

PlaneBytes plane_bytes(Format format, uint32_t cols) {
  const uint32_t rest = std::max((cols + 31) / 32, 1u) - 1;
  const uint32_t bits = TABLE_QUADS(rest) * kWordBytes, two_bits = TABLE_PAIRS(rest) * kWordBytes;
  const uint32_t scales = TABLE_PAIRS(rest) * 4;
  PlaneBytes bytes = {};
  const uint32_t header = kWordBytes, leading = header + 2 * kWordBytes;
  bytes.estimates[HEAD_LEADING] = leading;
  bytes.estimates[HEAD_SIGNS] = leading + bits;
  bytes.estimates[HEAD_TWO_BITS] = leading + 2 * bits;
  bytes.estimates[HEAD_FOUR_BITS] = leading + 2 * bits + two_bits + scales;
  bytes.refine[0] = header + bits;
  bytes.refine[1] = leading + bits;
  bytes.refine[2] = leading + 2 * bits + two_bits + scales;
  bytes.whole = TABLE_SCALES(static_cast<uint32_t>(format), rest) * kWordBytes + scales;
  return bytes;
}

}  // namespace weft
