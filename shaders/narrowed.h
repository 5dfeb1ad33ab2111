// Scratch of filter, for C++ and GLSL: abi.h says how.
#ifndef WEFT_NARROWED_H
#define WEFT_NARROWED_H

#include "abi.h"

#ifdef __cplusplus
namespace weft::abi {
#endif

#define FILTER_ROWS 2048  // scores that one workgroup of narrow and filter looks at
#define PART_ROWS 2048    // rows that one workgroup of log_sum, logprobs and timestamps looks at
#define PART_WORDS 43     // that it leaves for the one that finishes last
#define FILTER_BINS 512   // by how far a score lies below the peak (lib/narrowed.glsl)

// Zero between tokens, but for the peak that penalize leaves. After it: the scores that the filters still look at
// (rows: floats), or what the workgroups of logprobs and timestamps have found (PART_WORDS each).
struct Narrowed {
  uint peak;          // key of the highest score (lib/narrowed.glsl)
  uint binned, done;  // workgroups of narrow, and of filter, logprobs or timestamps, that have finished
  uint last_bin;      // the scores of this bin and of those before it are enough for the filters
  uint high, low;     // weight of all scores, in two halves as the bins have them
  uint listed;        // scores after this struct
  uint unused;
  uint counts[FILTER_BINS];  // of the scores in a bin; or, in units of 2^-26, their weight:
  uint highs[FILTER_BINS];   // sums of bits 13 and up
  uint lows[FILTER_BINS];    // sums of the lowest 13 bits
};

#ifdef __cplusplus
}  // namespace weft::abi
#endif
#endif  // WEFT_NARROWED_H
