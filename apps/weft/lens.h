// The logit lens over a session's context, for `weft lens` and `weft generate --lens`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common.h"

namespace weft::cli {

// After one layer, at one token.
struct LensCell {
  struct Choice {
    std::uint32_t id;
    double probability;
  };
  std::vector<Choice> top;      // the likeliest first
  double entropy = 0;           // of the next token's distribution, nats
  double kl = 0;                // Kullback and Leibler's divergence of it from that after the last layer, nats
  std::uint64_t next_rank = 0;  // of the token that follows in the context, from 1; 0: none follows
  double next_logprob = 0;      // of that token, natural
};

struct LensText {
  std::vector<std::uint32_t> ids;            // of the whole context
  std::uint32_t first = 0;                   // position of the first token that has cells
  std::vector<std::vector<LensCell>> cells;  // (tokens, layers + 1): by token, then by layer; 0 is the embedding
  std::vector<std::string> texts;            // of the tokens, from `first` on; a last one may follow that has no cells

  static constexpr int kNever = -1;
  // First layer from which on a token stays the likeliest: the token that follows, or the last layer's likeliest.
  int settled_next(std::size_t token) const;
  int settled_best(std::size_t token) const;
};

// Reads the session's lens: the tuned lens if one is set, else the logit lens.
LensText read_lens(const api::Model& model, api::Session& session, std::uint32_t first, std::uint32_t count);

// Layer at which each token of `text` was settled: the generated tokens at the end of the context.
Json settled_json(const api::Model& model, const LensText& text);
std::string settled_table(const LensText& text);

// A token as one line of a table shows it, in quotes: control characters and bytes that are no UTF-8 are escaped.
std::string shown_token(const api::Model& model, std::uint32_t id);

enum class LensColour { entropy, kl };
// Tokens to the right, layers upwards; cells have the likeliest token and a colour. Throws api::Failure.
void write_lens_plot(const api::Model& model, const LensText& text, LensColour colour, const std::string& title,
                     const std::string& path);
inline constexpr std::size_t kMostLensColumns = 128;  // of a picture

// weft lens --fit: makes translators from a text's states, and prints how far off the lens is without and with them.
struct FitArgs {
  std::string file, out, base;                                    // the text, the folder, the model's name in it
  weft_session_options session = weft_session_options_default();  // its context: tokens of a window
  bool json = false;
};
void fit_lens(const api::Model& model, const FitArgs& args);

}  // namespace weft::cli
