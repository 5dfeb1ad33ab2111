// The frequencies of rotary positions (Su et al. 2021), and their scaling for contexts longer than trained on.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// YaRN (Peng et al. 2023): frequencies with at least `fast` rotations in old_context stay, those with at most `slow`
// are divided by the factor. Between them a ramp over the dimensions mixes both; whole: it begins and ends at whole
// ones.
struct YarnScaling {
  double old_context = 0, fast = 32, slow = 1;
  bool whole = true;
  // k of a yarn_magnitude that the magnitude was divided by; 0: it was not.
  double divided_by = 0;
};

// Positions of a token. A part of a picture has one each for time, row and column; those of text are the same number
// (M-RoPE: Wang et al. 2024, "Qwen2-VL", section 2.1).
using RopePosition = std::array<uint32_t, 3>;

struct Rope {
  enum class Scaling { none, linear, llama3, yarn, longrope, dynamic, proportional };

  double base = 0;
  std::vector<double> frequencies;  // (rotary_dim / 2) radians a position
  std::vector<uint8_t> axes;        // (rotary_dim / 2) of a RopePosition, by pair; empty: tokens have one position
  double magnitude = 1;             // of rotated vectors; scores are multiplied by its square
  // Frequencies may depend on the length of the text. Keys in a cache are rotated already, so that length is the whole
  // context of the session.
  uint32_t old_context = 0;              // contexts longer than this have other frequencies
  std::vector<double> long_frequencies;  // these, if there are any;
  double growth = 0;                     // or those of a base that grows; 0: it does not

  // The kind of scaling, for code that writes it to a file.
  Scaling scaling = Scaling::none;
  double factor = 1;  // of linear and yarn
  YarnScaling yarn;

  std::vector<double> frequencies_for(uint32_t context) const;
  // Cosines and sines of tokens in a session of that context: (positions, rotary_dim / 2) of both, one after the other.
  std::vector<float> rows(uint32_t context, std::span<const RopePosition> positions) const;
  // Positions that YaRN or dynamic NTK stretch a model to, 0 for others. Configs often state the context before that.
  double reach() const;
};

// base^(-2i / rotary_dim).
Rope plain_rope(double base, uint32_t rotary_dim);

// Axes of the pairs as Qwen3-VL has them: time, row, column, time, row, column, ... as long as a section of rows or
// columns has pairs left; the other pairs are of time. sections: pairs of time, rows and columns.
std::vector<uint8_t> interleaved_axes(const RopePosition& sections, size_t pairs);

// Proportional RoPE (Gemma 4's): the frequencies are those of the whole head, but only the first `share` of them turns;
// the others are 0. share: 0 to 1.
void scale_proportionally(Rope& rope, double share);

// Positions are divided by the factor (Chen et al. 2023, "Extending context window of large language models via
// position interpolation").
void scale_linearly(Rope& rope, double factor);

// Llama 3.1's: waves longer than old_context / low_factor are divided by the factor, those shorter than old_context /
// high_factor stay, and those between are mixed. All above 0, high_factor above low_factor.
struct Llama3Scaling {
  double factor, low_factor, high_factor, old_context;
};
void scale_like_llama3(Rope& rope, const Llama3Scaling& scaling);

// The magnitude is not set: files say it in several ways.
void scale_like_yarn(Rope& rope, double factor, const YarnScaling& scaling);
// 1 + 0.1 k ln(factor), the temperature of YaRN's section 3.4; 1 for factors up to 1.
double yarn_magnitude(double factor, double k = 1);

// LongRoPE (Ding et al. 2024): each frequency is divided by its own factor, by other ones in long contexts. Both have
// rotary_dim / 2 elements above 0.
void scale_like_longrope(Rope& rope, const std::vector<double>& short_factors, const std::vector<double>& long_factors,
                         uint32_t old_context);

// Dynamic NTK (bloc97 and emozilla 2023): in a context longer than old_context, the base grows by
// (factor context / old_context - factor + 1)^(d / (d - 2)).
void scale_dynamically(Rope& rope, double factor, uint32_t old_context);

}  // namespace weft
