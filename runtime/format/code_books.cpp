// The types of super-blocks whose quants stand for numbers of a list. IQ1 to IQ3 name groups of eight or four numbers
// by their place in a code book, and their signs apart.
#include <bit>
#include <cstring>

#include "format/code_book_tables.h"
#include "format/quant_bits.h"
#include "format/quants.h"

namespace weft {
namespace {

constexpr NumberList kOfIq4 = {1, 32, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
constexpr NumberList kOfIq3Xxs = {0.25f, 32, {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}};
constexpr NumberList kOfIq3S = {1, 32, {1, 3, 5, 7, 9, 11, 13, 15, -15, -13, -11, -9, -7, -5, -3, -1}};
constexpr NumberList kOfIq2 = {0.125f, 16, {8, 25, 43, 0, -8, -25, -43, 0}};
constexpr NumberList kOfIq1 = {0.125f, 16, {1, 7, 9, 0, -1, -7, -9, 0}};
constexpr NumberList kOfQ3K = {1, 16, {0, 1, 2, 3, -4, -3, -2, -1}};

constexpr uint32_t kSign = 4;  // of three bits

uint16_t word_at(const std::byte* at) {
  uint16_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
uint32_t long_at(const std::byte* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
// Half i of bytes, the lower half of a byte first.
uint32_t half_byte(const std::byte* bytes, uint32_t i) { return byte_at(bytes + i / 2) >> i % 2 * 4 & 15; }
int8_t odd(uint32_t scale) { return static_cast<int8_t>(2 * scale + 1); }

// The signs of eight numbers, a bit each, of which a file has seven: there is an even number of minuses.
uint32_t even_signs(uint32_t seven) { return seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7; }

// Numbers 8 * eight to 8 * eight + 7, of two bits each in `entry`.
void set_eight(SuperBlock& block, uint32_t eight, uint32_t entry, uint32_t signs) {
  for (uint32_t e = 0; e < 8; ++e)
    block.quants[eight * 8 + e] = static_cast<uint8_t>((entry >> 2 * e & 3) | (signs >> e & 1) * kSign);
}

// 66 bytes: d, then for each 32 numbers four places in the code book and a word of 4 x 7 signs and, highest, 4 bits of
// scale.
void read_iq2_xxs(SuperBlock& block, const std::byte* from) {
  for (uint32_t b = 0; b < 8; ++b) {
    const std::byte* const places = from + 2 + b * 8;
    const uint32_t notes = long_at(places + 4);
    block.scales[2 * b] = block.scales[2 * b + 1] = odd(notes >> 28);
    for (uint32_t k = 0; k < 4; ++k)
      set_eight(block, b * 4 + k, kIq2Xxs[byte_at(places + k)], even_signs(notes >> 7 * k & 127));
  }
}

// 74 bytes: d, words[32] of 9 bits of place and 7 signs, 16 scales of 4 bits.
void read_iq2_xs(SuperBlock& block, const std::byte* from) {
  for (uint32_t s = 0; s < 16; ++s) block.scales[s] = odd(half_byte(from + 66, s));
  for (uint32_t k = 0; k < 32; ++k) {
    const uint32_t word = word_at(from + 2 + 2 * k);
    set_eight(block, k, kIq2Xs[word & 511], even_signs(word >> 9));
  }
}

// 82 bytes: d, the lower bits of places[32], signs[32], two upper bits of places[8], 16 scales of 4 bits.
void read_iq2_s(SuperBlock& block, const std::byte* from) {
  for (uint32_t s = 0; s < 16; ++s) block.scales[s] = odd(half_byte(from + 74, s));
  for (uint32_t k = 0; k < 32; ++k) {
    const uint32_t upper = byte_at(from + 66 + k / 4) >> k % 4 * 2 & 3;
    set_eight(block, k, kIq2S[byte_at(from + 2 + k) | upper << 8], byte_at(from + 34 + k));
  }
}

// 98 bytes: d, places[64], words[8] as IQ2_XXS has them.
void read_iq3_xxs(SuperBlock& block, const std::byte* from) {
  for (uint32_t b = 0; b < 8; ++b) {
    const uint32_t notes = long_at(from + 66 + b * 4);
    block.scales[b] = odd(notes >> 28);
    for (uint32_t e = 0; e < 32; ++e) {
      const uint32_t entry = kIq3Xxs[byte_at(from + 2 + b * 8 + e / 4)];
      const uint32_t sign = even_signs(notes >> e / 8 * 7 & 127) >> e % 8 & 1;
      block.quants[b * 32 + e] = static_cast<uint8_t>((entry >> e % 4 * 3 & 7) | sign << 3);
    }
  }
}

// 110 bytes: d, the lower bits of places[64], the upper bits[8], signs[32], 8 scales of 4 bits.
void read_iq3_s(SuperBlock& block, const std::byte* from) {
  for (uint32_t b = 0; b < 8; ++b) block.scales[b] = odd(half_byte(from + 106, b));
  for (uint32_t e = 0; e < 256; ++e) {
    const uint32_t k = e / 4, upper = byte_at(from + 66 + k / 8) >> k % 8 & 1;
    const uint32_t size = kIq3S[byte_at(from + 2 + k) | upper << 8] >> e % 4 * 3 & 7;
    const uint32_t sign = byte_at(from + 74 + e / 8) >> e % 8 & 1;
    block.quants[e] = static_cast<uint8_t>(sign > 0 ? 15 - size : size);
  }
}

// The quant of 8 i - 8 plus or minus 1: of -9, -7, -1, 1, 7 or 9.
uint32_t iq1_quant(uint32_t i, bool minus) {
  if (i == 1) return minus ? kSign : 0;
  const bool outer = (i == 0) == minus;
  return (outer ? 2u : 1u) | (i == 0 ? kSign : 0);
}
void set_iq1(SuperBlock& block, uint32_t eight, uint32_t place, bool minus) {
  for (uint32_t e = 0; e < 8; ++e)
    block.quants[eight * 8 + e] = static_cast<uint8_t>(iq1_quant(kIq1S[place] >> 2 * e & 3, minus));
}

// 50 bytes: d, the lower bits of places[32], words[8]: 4 x 3 upper bits of places, 3 bits of scale, a sign of what is
// added to all 32 numbers.
void read_iq1_s(SuperBlock& block, const std::byte* from) {
  for (uint32_t b = 0; b < 8; ++b) {
    const uint32_t notes = word_at(from + 34 + 2 * b);
    block.scales[2 * b] = block.scales[2 * b + 1] = odd(notes >> 12 & 7);
    for (uint32_t k = 0; k < 4; ++k)
      set_iq1(block, b * 4 + k, byte_at(from + 2 + b * 4 + k) | (notes >> 3 * k & 7) << 8, notes >> 15 > 0);
  }
}

// 56 bytes: the lower bits of places[32]; half a byte for each of these, 3 upper bits and a sign as IQ1_S has it[16];
// words[4] of four scales of 3 bits and, highest, 4 bits of d, the lowest first.
void read_iq1_m(SuperBlock& block, const std::byte* from) {
  const std::byte* const words = from + 48;
  block.d = 0;
  for (uint32_t i = 0; i < 4; ++i) block.d = static_cast<uint16_t>(block.d | word_at(words + 2 * i) >> 12 << 4 * i);
  for (uint32_t s = 0; s < 16; ++s) block.scales[s] = odd(word_at(words + s / 4 * 2) >> s % 4 * 3 & 7);
  for (uint32_t k = 0; k < 32; ++k) {
    const uint32_t upper = half_byte(from + 32, k);
    set_iq1(block, k, byte_at(from + k) | (upper & 7) << 8, upper >> 3 > 0);
  }
}

// 136 bytes: d, the upper two bits of 8 scales[2], their lower four bits[4], nibbles[16] for each 32 numbers.
void read_iq4_xs(SuperBlock& block, const std::byte* from) {
  for (uint32_t b = 0; b < 8; ++b) {
    const uint32_t scale = half_byte(from + 4, b) | (word_at(from + 2) >> 2 * b & 3) << 4;
    block.scales[b] = static_cast<int8_t>(static_cast<int>(scale) - 32);
    for (uint32_t e = 0; e < 32; ++e) block.quants[b * 32 + e] = static_cast<uint8_t>(nibble(from + 8 + b * 16, e));
  }
}

// 110 bytes: the third bits[32], two bits[64], 16 scales of 6 bits[12], d. Scales: the low four bits as nibbles of
// bytes 0 .. 7, the high two bits in bytes 8 .. 11, four scales apart; less 32. Numbers less 4.
void read_q3_k(SuperBlock& block, const std::byte* from) {
  const std::byte* const scales = from + 96;
  for (uint32_t s = 0; s < 16; ++s) {
    const uint32_t low = byte_at(scales + s % 8) >> (s < 8 ? 0 : 4) & 15;
    const uint32_t high = byte_at(scales + 8 + s % 4) >> s / 4 * 2 & 3;
    block.scales[s] = static_cast<int8_t>(static_cast<int>(low | high << 4) - 32);
  }
  for (uint32_t e = 0; e < 256; ++e)
    block.quants[e] = static_cast<uint8_t>(two_bits(from + 32, e) | (one_bit(from, e) ^ 1) * kSign);
}

void set_ternary(SuperBlock& block, uint32_t e, uint32_t number) {
  block.quants[e] = static_cast<uint8_t>((number - 1) & 7);
}

// 54 bytes: bytes of five numbers of 0 .. 2 each[48], of four[4], d. A byte is a fraction of 256 whose digits to the
// base of 3 are the numbers. The numbers of a byte are 32 elements apart, then 16, then 4.
void read_tq1_0(SuperBlock& block, const std::byte* from) {
  block.scales.fill(1);
  const auto read = [&](uint32_t first_byte, uint32_t bytes, uint32_t first, uint32_t digits) {
    for (uint32_t i = 0; i < bytes; ++i) {
      uint32_t fraction = byte_at(from + first_byte + i);
      for (uint32_t digit = 0; digit < digits; ++digit, fraction = fraction * 3 & 255)
        set_ternary(block, first + digit * bytes + i, fraction * 3 >> 8);
    }
  };
  read(0, 32, 0, 5);
  read(32, 16, 160, 5);
  read(48, 4, 240, 4);
}

// 66 bytes: two bits[64], d. Less 1.
void read_tq2_0(SuperBlock& block, const std::byte* from) {
  block.scales.fill(1);
  for (uint32_t e = 0; e < 256; ++e) set_ternary(block, e, two_bits(from, e));
}

struct ListedType {
  DType type;
  const NumberList& numbers;
  uint32_t d;                                              // its place in a block
  void (*read)(SuperBlock& block, const std::byte* from);  // all but d; nullptr: not of super-blocks
};
constexpr ListedType kTypes[] = {{DType::q3_k, kOfQ3K, 108, read_q3_k},   {DType::iq4_nl, kOfIq4, 0, nullptr},
                                 {DType::iq4_xs, kOfIq4, 0, read_iq4_xs}, {DType::iq3_xxs, kOfIq3Xxs, 0, read_iq3_xxs},
                                 {DType::iq3_s, kOfIq3S, 0, read_iq3_s},  {DType::iq2_xxs, kOfIq2, 0, read_iq2_xxs},
                                 {DType::iq2_xs, kOfIq2, 0, read_iq2_xs}, {DType::iq2_s, kOfIq2, 0, read_iq2_s},
                                 {DType::iq1_s, kOfIq1, 0, read_iq1_s},   {DType::iq1_m, kOfIq1, 0, read_iq1_m},
                                 {DType::tq1_0, kOfQ3K, 52, read_tq1_0},  {DType::tq2_0, kOfQ3K, 64, read_tq2_0}};

const ListedType* find(DType dtype) {
  for (const ListedType& known : kTypes)
    if (known.type == dtype) return &known;
  return nullptr;
}

}  // namespace

bool has_list(DType dtype) { return find(dtype) != nullptr; }
const NumberList& numbers_of(DType dtype) { return find(dtype)->numbers; }

SuperBlock listed_block(DType dtype, const std::byte* from) {
  const ListedType& type = *find(dtype);
  SuperBlock block = {};
  block.d = word_at(from + type.d);
  type.read(block, from);
  return block;
}

}  // namespace weft
