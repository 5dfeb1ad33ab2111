// Session::measure_costs: times of passes, before a drafter's first guess is checked. So a drafter does not lose time
// in a text to learn what a check costs, and a driver that compiles kernels when they first run has compiled them.
#include <array>
#include <utility>
#include <vector>

#include "session/pass_costs.h"
#include "session/session.h"

namespace weft {
namespace {

// Drafts whose sizes are given, whatever they say.
class Rehearsal : public Drafter {
 public:
  // The first time of a size may include compiling, so it does not count (MeasuredTime). Passes of one token stand
  // between, because other programs may delay some.
  explicit Rehearsal(bool trees) : sizes_(2, Size{0, false}) {
    for (const bool tree : {false, true})
      for (const uint32_t tokens : kDraftPasses)
        if (!tree || trees)
          sizes_.insert(sizes_.end(), {Size{tokens - 1, tree}, Size{tokens - 1, tree}, Size{0, false}});
  }

  void begin(std::span<const uint32_t>) override {}
  void append(uint32_t) override {}
  std::span<const uint32_t> draft(size_t most) override { return draft_tree(most).ids; }
  DraftTree draft_tree(size_t most) override {
    if (done()) return {};
    const auto [drafted, tree] = sizes_[next_];
    const size_t count = std::min<size_t>(drafted, most);
    return {std::span(kIds).first(count), std::span(kSiblings).first(tree ? count : 0)};
  }
  void passed(uint32_t tokens, double seconds) override {
    costs_.passed(tokens, seconds);
    ++next_;
  }
  bool done() const { return next_ >= sizes_.size(); }
  const PassCosts& costs() const { return costs_; }

 private:
  struct Size {
    uint32_t drafted;
    bool tree;
  };
  static constexpr std::array<uint32_t, kMostDrafted> kIds = {};
  static constexpr std::array<uint8_t, kMostDrafted> kSiblings = {};
  std::vector<Size> sizes_;
  size_t next_ = 0;
  PassCosts costs_;
};

}  // namespace

// In the empty session, whose settings stay as they are. If it fails, or there is a context, checks are timed when
// guesses are tried; so they are for an encoder-decoder, which would need an input.
void Session::measure_costs() {
  if (!on_device_ || !ids_.empty() || model_.weights.encoder) return;
  const SessionStats stats = stats_;
  std::unique_ptr<Drafter> drafter = std::move(drafter_);
  std::unique_ptr<TokenRules> matcher = std::move(matcher_);
  OnPrompt on_prompt = std::exchange(on_prompt_, {});
  try {
    auto owned = std::make_unique<Rehearsal>(model_.config.checks_trees());
    const Rehearsal& rehearsal = *owned;
    drafter_ = std::move(owned);
    prompt(std::array{uint32_t{0}});
    const Stop stop = generate(0, true, [&](uint32_t) { return !rehearsal.done(); });
    if (stop == Stop::caller && !rehearsal.done()) cancel();  // it is meant for the next generate
    PassCosts costs = rehearsal.costs();
    costs.trust();
    drafter->learn(costs);
  } catch (...) {  // the next generate tells of it
  }
  reset();
  stats_ = stats;
  drafter_ = std::move(drafter);
  matcher_ = std::move(matcher);
  on_prompt_ = std::move(on_prompt);
}

}  // namespace weft
