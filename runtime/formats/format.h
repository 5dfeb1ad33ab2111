// The formats of numbers on the device. Each has a file of this folder: what it is called, which types of files become
// it, and how a row becomes words of a tile. Functions of
// native formats are in shaders/formats/, where like ones share a file. The layouts are described in shaders/abi.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "format/packed_row.h"
#include "format/tensor.h"
#include "shaders/abi.h"

namespace weft {

enum class Format : uint32_t {
  f16 = FORMAT_F16,
  q8 = FORMAT_Q8,
  q4 = FORMAT_Q4,
  q6 = FORMAT_Q6,
  q5k = FORMAT_Q5K,
  q4k = FORMAT_Q4K,
  q4_0 = FORMAT_Q4_0,
  q5_0 = FORMAT_Q5_0,
  q5_1 = FORMAT_Q5_1,
  mxfp4 = FORMAT_MXFP4,
  iq4_nl = FORMAT_IQ4_NL,
  q3k = FORMAT_Q3K,
  iq4_xs = FORMAT_IQ4_XS,
  iq3_xxs = FORMAT_IQ3_XXS,
  iq3_s = FORMAT_IQ3_S,
  iq2 = FORMAT_IQ2,
  iq1 = FORMAT_IQ1,
  q2k = FORMAT_Q2K
};
inline constexpr Format kFormats[] = {Format::f16, Format::q8, Format::q4};  // that any numbers can be rounded to
// Formats that copy a type of files: matrices only, not tables.
inline constexpr Format kNativeFormats[] = {Format::q6,     Format::q5k,     Format::q4k,   Format::q5_1,
                                            Format::q5_0,   Format::q4_0,    Format::mxfp4, Format::iq4_nl,
                                            Format::iq4_xs, Format::iq3_xxs, Format::iq3_s, Format::q3k,
                                            Format::iq2,    Format::iq1,     Format::q2k};
inline constexpr Format kAllFormats[] = {
    Format::f16, Format::q8,   Format::q6,    Format::q5_1,   Format::q5_0,   Format::q5k,     Format::q4k,
    Format::q4,  Format::q4_0, Format::mxfp4, Format::iq4_nl, Format::iq4_xs, Format::iq3_xxs, Format::iq3_s,
    Format::q3k, Format::iq2,  Format::iq1,   Format::q2k};  // finest first: common_format takes the last that fits

// A format's row of the registry.
struct NumberFormat {
  const char* name;  // static
  DType file_type;   // what files call it
  // Types of files whose numbers it holds, except where packed_row.h says otherwise. A matrix of such a type gets the
  // coarsest format that has it here.
  std::span<const DType> from;
  Format rounded;                          // of a table with this type: itself, unless it is native
  bool int8_inputs;                        // inputs can be rounded to 8 bits: 32 numbers have one scale (and minimum)
  uint64_t (*row_bytes)(uint32_t blocks);  // of a row of blocks of 32 numbers, without the filling of its tile
  // Stores a row in its place of a tile. One of the two: the first takes what RowPacker makes; the second, of native
  // formats, a row of a tensor of a type of `from`, and throws Error(unsupported) naming the tensor for a scale that is
  // not finite.
  void (*store)(std::byte* tile, uint32_t place, const PackedRow& from, uint32_t blocks);
  void (*copy)(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row);
};

const NumberFormat& info(Format format);
inline bool is_native(Format format) { return info(format).copy != nullptr; }
inline const char* name(Format format) { return info(format).name; }
inline DType file_type(Format format) { return info(format).file_type; }

// The format that a matrix of this type gets.
Format closest_format(DType type);
// The coarsest format that holds the numbers of all these types; none may do so.
std::optional<Format> common_format(std::span<const DType> types);

// Word k of 16 bytes of a row of a tile, of `words` a row.
inline std::byte* word_of(std::byte* tile, uint32_t row, uint32_t k, uint32_t words) {
  return tile + size_t{IN_TILE(row, k, words)} * 16;
}

}  // namespace weft
