// Guesses what a session will generate, so that a pass can check several tokens (Leviathan et al. 2023; Chen et al.
// 2023). A draft is the tokens that are guessed; a check is the pass that compares them with what the model chooses;
// speculation is both.
#pragma once

#include <cstdint>
#include <span>

namespace weft {

class Drafter {
 public:
  virtual ~Drafter() = default;
  // A generate() begins after this context.
  virtual void begin(std::span<const uint32_t> ids) = 0;
  // The context has grown by this token.
  virtual void append(uint32_t id) = 0;
  // What is thought to come next, at most `most` tokens, as many as a pass should check; none: the next token has a
  // pass of its own. Valid until the next call.
  virtual std::span<const uint32_t> draft(size_t most) = 0;
  // The same of a batch, which itself decides how many of the guesses a pass checks. Returns all guesses, at most
  // chances.size(); chances[i] becomes the probability that guess i is right if those before it are. Only of a drafter
  // that guesses in batches, because its guesses take no passes of their own.
  virtual std::span<const uint32_t> offer(std::span<double> /*chances*/) { return {}; }
  virtual bool guesses_in_batches() const { return false; }
  // A pass of so many tokens, 1 or one of kDraftPasses, took so long.
  virtual void passed(uint32_t tokens, double seconds) = 0;
  // The session leaves its device: what lies there is given up until the next begin().
  virtual void leave_device() {}
};

}  // namespace weft
