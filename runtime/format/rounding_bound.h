// How far rounding to its type can have moved a number.
#pragma once

#include <span>

#include "format/tensor.h"

namespace weft {

// For elements [first, first + values.size()) of a tensor, as to_float decodes them: bounds[i] is the most by which
// values[i] can differ from the number that was rounded to the tensor's type, to the nearest value of its block. first
// and values.size() are multiples of the type's block. A bound is not finite where a block's scale is not.
//
// Types without blocks have their relative precision. A value of a block is minimum + scale * q, with q one of the
// type's levels. One step is the scale. The number was at most half a step away, unless q is the first or the last
// level: such a number may have been beyond the end, and was clipped. How far depends on the quantiser:
//
//   Q8_0, Q5_1      the ends are the block's largest numbers: nothing is clipped
//   Q4_0, Q5_0      one end is the block's largest number, and the levels end one step short of its negative: one step
//   Q4_1            as Q5_1 by ggml; Weft's fit_q4 (format/q4_block.h) clips for the sake of the others: three steps
//   Q2_K ... Q6_K   the search for the best scale clips one step. Then scale and minimum are rounded to multiples of
//                   the superblock's d and dmin: half a d moves the last level by half of levels * d, and saturation of
//                   the largest multiple by as much again
//
//   MXFP4           the scale is a power of two: half the distance to the next of E2M1's numbers, and at their end, 6,
//                   up to 2
//   IQ*, TQ*, NVFP4, Q1_0, Q2_0   0: they have no rule yet, and such tables stay apart
//
// Scales and minima are f16: they are rounded by 2^-11 of their size, or by 2^-25 if they are subnormal. ggml's Q4_0 to
// Q8_0 divide by the scale before it was rounded, which moves all levels.
//
// All this is what ggml's quantisers without an importance matrix do (quantize_row_*_ref in ggml-quants.c,
// https://github.com/ggml-org/ggml/tree/master/src); tests/unit/format_rounding_bound.cpp compares with their results.
bool has_rounding_bounds(DType dtype);  // false: they are 0, for want of a rule
void rounding_bounds(const TensorView& tensor, uint64_t first, std::span<const float> values, std::span<float> bounds);

}  // namespace weft
