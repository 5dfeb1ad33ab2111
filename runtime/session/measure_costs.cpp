// Session::measure_costs: times of passes, before a drafter's first guess is checked. So a drafter does not lose time
// in a text to learn what a check costs, and a driver that compiles kernels when they first run has compiled them.
#include <array>
#include <utility>
#include <vector>

#include "base/thread_end.h"
#include "session/pass_costs.h"
#include "session/session.h"

namespace weft {
namespace {

constexpr double kMostSeconds = 1;  // of a rehearsal

// Proposes drafts of fixed sizes. Their tokens do not matter.
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

// In the empty session, which is as before afterwards. Checks are timed when guesses are tried, if there is a context,
// if this fails, for an encoder-decoder, which would need an input, and where passes take long: with a limit of the
// duty, and with streamed layers.
void Session::measure_costs() {
  if (measured_) {
    try {
      drafter_->learn(*measured_);
    }
    WEFT_LET_THREAD_END
    catch (...) {  // the next generate tells of it
    }
    return;
  }
  if (!on_device_ || !ids_.empty() || model_.weights.encoder || model_.weights.stream || duty_->limited()) return;
  struct Aside {  // parts of the session that the rehearsal does not use
    explicit Aside(Session& of)
        : session(of),
          drafter(std::move(of.drafter_)),
          matcher(std::move(of.matcher_)),
          on_prompt(std::exchange(of.on_prompt_, {})) {}
    ~Aside() {
      session.reset();  // the statistics too, which were those of an empty session
      session.logprobs_ = {};
      session.drafter_ = std::move(drafter);
      session.matcher_ = std::move(matcher);
      session.on_prompt_ = std::move(on_prompt);
    }
    Session& session;
    std::unique_ptr<Drafter> drafter;
    std::unique_ptr<TokenRules> matcher;
    OnPrompt on_prompt;
  } aside(*this);
  try {
    auto owned = std::make_unique<Rehearsal>(model_.config.checks_trees());
    const Rehearsal& rehearsal = *owned;
    drafter_ = std::move(owned);
    prompt(std::array{uint32_t{0}});
    const Stopwatch time = stopwatch();
    generate(0, true, [&](uint32_t) { return !rehearsal.done() && time.seconds() < kMostSeconds; });
    if (cancelled()) return;  // the cancel is meant for the next generate
    auto measured = std::make_unique<PassCosts>(rehearsal.costs());
    measured->trust();
    aside.drafter->learn(*measured);
    if (rehearsal.done()) measured_ = std::move(measured);
  }
  WEFT_LET_THREAD_END
  catch (...) {  // the next generate tells of it
  }
}

}  // namespace weft
