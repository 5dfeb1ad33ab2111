// Guesses what a session will generate, so that a pass can check several tokens (Leviathan et al. 2023; Chen et al.
// 2023). A draft is the tokens that are guessed; a check is the pass that compares them with the model's own choice;
// speculation is both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

class PassCosts;

// A draft that is a tree. Guess i comes after guess parents[i] - 1, which is an earlier one, or, with 0, after the
// context. parents: none, if each guess comes after the one before it: a chain.
struct DraftTree {
  std::span<const uint32_t> ids;
  std::span<const uint8_t> parents;
  DraftTree first(size_t count) const { return {ids.first(count), parents.first(parents.empty() ? 0 : count)}; }
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // A generate() begins after this context.
  virtual void begin(std::span<const uint32_t> ids) = 0;
  // The context has grown by this token.
  virtual void append(uint32_t id) = 0;
  // The tokens that probably come next: as many as a pass should check, at most `most`. Empty: the next token has a
  // pass of its own. Valid until the next call.
  virtual std::span<const uint32_t> draft(size_t most) = 0;
  // The same where the session can check trees.
  virtual DraftTree draft_tree(size_t most) { return {draft(most), {}}; }
  // The same for a batch, which decides itself how many of the guesses a pass checks. Returns all guesses, at most
  // chances.size(); chances[i] becomes the probability that guess i is right if those before it are. Only for a drafter
  // that guesses in batches, because its guesses take no passes of their own.
  virtual std::span<const uint32_t> offer(std::span<double> /*chances*/) { return {}; }
  virtual bool guesses_in_batches() const { return false; }
  // Number of tokens for which draft() would return nothing: their passes can run ahead of each other.
  virtual size_t resting() const { return 0; }
  // True for a drafter that wants to know, before its first guess, how long checks take; the session then calls
  // learn().
  virtual bool learns_costs() const { return false; }
  virtual void learn(const PassCosts& /*costs*/) {}
  // Reports the time of a pass of `tokens` tokens, which is 1 or one of kDraftPasses.
  virtual void passed(uint32_t tokens, double seconds) = 0;
  // The session leaves its device: frees everything there until the next begin().
  virtual void leave_device() {}
};

}  // namespace weft
