// Guesses what Medusa heads say (run/medusa.h): the likeliest tree of their guesses, or a chain of each head's best.
#pragma once

#include <array>
#include <vector>

#include "run/medusa.h"
#include "session/pass_costs.h"
#include "session/session.h"

namespace weft {

class Medusa : public Drafter {
 public:
  // of: the session that it guesses for, which outlives this. Throws as MedusaHeads.
  Medusa(Session& of, std::shared_ptr<const ModelFile> file);

  void begin(std::span<const uint32_t> ids) override;
  void append(uint32_t id) override;
  std::span<const uint32_t> draft(size_t most) override;
  DraftTree draft_tree(size_t most) override;
  bool learns_costs() const override { return true; }
  void learn(const PassCosts& costs) override;
  void passed(uint32_t tokens, double seconds) override { account_.passed(tokens, seconds); }
  size_t resting() const override { return account_.resting(); }
  void leave_device() override { heads_.reset(); }
  // Each head's best guess of what follows the context's last token, which a pass of the session has just given;
  // whether they pay or not.
  std::span<const uint32_t> guess();
  // The same as a tree of at most `most` guesses.
  DraftTree guess_tree(size_t most);

 private:
  // Ranges of the share of the mass that a guess has: what they end with.
  static constexpr std::array<float, 12> kShareEnds = {0.01f, 0.03f, 0.1f, 0.2f, 0.3f, 0.4f,
                                                       0.5f,  0.6f,  0.7f, 0.8f, 0.9f, 1};
  double& chance(float share);
  bool may_draft();
  double spend();
  void ask();
  void grow(size_t most);
  std::span<const abi::Guess> of_head(size_t head) const {
    return std::span(guesses_).subspan(head * MedusaHeads::kRanks, MedusaHeads::kRanks);
  }

  Session& of_;
  std::shared_ptr<const ModelFile> file_;
  std::unique_ptr<MedusaHeads> heads_;  // none: the device was left
  std::vector<abi::Guess> guesses_;     // the last ones: (heads, MedusaHeads::kRanks), of heads that have one
  size_t judged_ = 0;                   // heads of them
  std::array<double, kShareEnds.size()> chances_;  // that a guess is right if those before it are
  // The draft made of them. A tree also has the probability that a guess and all that it follows are right, and the
  // guesses' parents.
  std::vector<uint32_t> ids_;
  std::vector<double> reached_;
  std::vector<uint8_t> parents_;
  MeasuredTime each_;  // ask(), in seconds
  GuessAccount account_;
};

}  // namespace weft
