#include "session/draft_model.h"

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

constexpr double kNewWeight = 1.0 / 16;
constexpr double kHoped = 0.8;  // initial probability that a guess is right
// Initial cost estimate of a guess, in one-token passes of the session.
constexpr double kGuessedEach = 0.25;
// A time counts only if at most this many tokens were read before the guesses: more tokens are a prompt.
constexpr size_t kFewTokens = 2;
constexpr size_t kManyTokens = 8;  // to tell the time of reading one
constexpr uint32_t kFewTimes = 2;  // times of a guess that may be missing

}  // namespace

DraftModel::DraftModel(Session& draft, const Session& of) : draft_(draft), of_(of), right_(kHoped) {
  for (const Session* session : std::initializer_list<const Session*>{&draft, &of})
    if (session->model().weights.encoder)
      throw Error(Code::unsupported,
                  "the family '" + session->model().config.family + "' reads its prompt with an encoder", "draft",
                  "a draft and its model must be decoders");
  // A wrong guess costs a little time: the table need not be read whole.
  if (!draft.model().weights.logit_bias) draft_.set_head({.mode = VocabHead::Mode::fast});
  draft_.set_on_prompt([this](size_t, size_t) { return !of_.cancelled(); });
}

void DraftModel::begin(std::span<const uint32_t> ids) {
  ids_.assign(ids.begin(), ids.end());
  guesses_.clear();
  judged_ = 0;
  readable_ = std::ranges::all_of(ids, [this](uint32_t id) { return reads(id); });
  lost_ = false;
  account_.begin();
  draft_.set_sampling(of_.sampling());
}

void DraftModel::append(uint32_t id) {
  if (judged_ < guesses_.size()) {
    const bool is_right = guesses_[judged_] == id;
    right_ += kNewWeight * ((is_right ? 1.0 : 0.0) - right_);
    judged_ = is_right ? judged_ + 1 : guesses_.size();
  }
  account_.append();
  readable_ = readable_ && reads(id);
  ids_.push_back(id);
}

size_t DraftModel::resting() const { return able() ? account_.resting() : SIZE_MAX; }

bool DraftModel::able() const { return !lost_ && readable_ && ids_.size() < draft_.context(); }

// The first time is left out, so two are enough to begin with.
bool DraftModel::timed() const { return each_.untimed() <= kFewTimes && account_.costs().one().known(); }

// Time of one guess, in one-token passes.
double DraftModel::each() const { return timed() ? each_.seconds() / account_.costs().one().seconds() : kGuessedEach; }

// Number of guesses to make. Begins a pause if they do not pay.
size_t DraftModel::wanted(size_t most) {
  // The first tokens are not guessed: their times are needed to tell what a guess may take.
  if (!able() || !account_.may_guess()) return 0;
  // One guess at a time, until the time of one is known.
  const size_t best = account_.overdrawn()
                          ? 0
                          : account_.costs().best_draft(timed() ? most : std::min<size_t>(most, 1),
                                                        [&](size_t) { return right_; }, {.each = each()});
  if (best > 0) return best;
  account_.rest(read_seconds_ / account_.costs().one().seconds());
  right_ = kHoped;
  return 0;
}

std::span<const uint32_t> DraftModel::guess(size_t count) {
  guesses_.clear();
  judged_ = 0;
  if (count == 0 || !able()) return {};
  try {
    generate(count);
  } catch (const Error& error) {
    if (error.code() != Code::device_lost) throw;
    lost_ = true;  // the session can do without guesses
    guesses_.clear();
  }
  return guesses_;
}

void DraftModel::generate(size_t count) {
  const uint32_t vocab = of_.model().config.vocab;
  const uint64_t tokens_before = draft_.stats().prompt_tokens;
  const double seconds_before = draft_.stats().prompt_seconds;
  const Stopwatch guessing = draft_.stopwatch();
  // The draft's context becomes the session's, so it loses the guesses that the session did not take.
  draft_.prompt(ids_);
  draft_.generate(static_cast<uint32_t>(count), false, [&](uint32_t id) {
    if (id >= vocab) return false;  // a row of the draft's table that no token has
    guesses_.push_back(id);
    return true;
  });
  const uint64_t read = draft_.stats().prompt_tokens - tokens_before;
  if (!guesses_.empty() && read <= kFewTokens) each_.add(guessing.seconds() / static_cast<double>(guesses_.size()));
  if (read >= kManyTokens) {
    const double seconds = (draft_.stats().prompt_seconds - seconds_before) / static_cast<double>(read);
    read_seconds_ = read_seconds_ == 0 ? seconds : std::min(read_seconds_, seconds);
  }
  account_.spend(each() * static_cast<double>(guesses_.size()));
}

}  // namespace weft
