#include "session/draft_model.h"

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

constexpr double kNewWeight = 1.0 / 16;
constexpr double kHoped = 0.8;  // initial probability that a guess is right
// Initial cost estimate of a guess, in one-token passes of the session.
constexpr double kGuessedEach = 0.25;
// If guesses do not pay, speculation pauses for this many tokens. Then it is tried again: a text may become easier.
constexpr size_t kFirstRest = 64, kLongestRest = 4096;
// After this many drafts since a pause, the next pause is a first one again.
constexpr size_t kManyDrafts = 32;
// A time counts only if at most this many tokens were read before the guesses: more tokens are a prompt.
constexpr size_t kFewTokens = 2;

}  // namespace

DraftModel::DraftModel(Session& draft, const Session& of)
    : draft_(draft), of_(of), right_(kHoped), next_rest_(kFirstRest) {
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
  draft_.set_sampling(of_.sampling());
}

void DraftModel::append(uint32_t id) {
  if (judged_ < guesses_.size()) {
    const bool is_right = guesses_[judged_] == id;
    right_ += kNewWeight * ((is_right ? 1.0 : 0.0) - right_);
    judged_ = is_right ? judged_ + 1 : guesses_.size();
  }
  if (rest_ > 0) --rest_;
  readable_ = readable_ && reads(id);
  ids_.push_back(id);
}

// Number of guesses to make. Begins a pause if they do not pay.
size_t DraftModel::wanted(size_t most) {
  // The first tokens are not guessed: their times are needed to tell what a guess may take.
  if (lost_ || !readable_ || rest_ > 0 || !costs_.one().known()) return 0;
  const double each = each_.known() ? each_.seconds() / costs_.one().seconds() : kGuessedEach;
  const size_t best = costs_.best_draft(most, [&](size_t) { return right_; }, {.each = each});
  if (best > 0) return ++drafts_, best;
  if (drafts_ >= kManyDrafts) next_rest_ = kFirstRest;
  rest_ = next_rest_;
  next_rest_ = std::min(2 * next_rest_, kLongestRest);
  right_ = kHoped;
  drafts_ = 0;
  return 0;
}

std::span<const uint32_t> DraftModel::guess(size_t count) {
  guesses_.clear();
  judged_ = 0;
  if (count == 0 || lost_ || !readable_ || ids_.size() >= draft_.context()) return {};
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
  const uint64_t read = draft_.stats().prompt_tokens;
  const Stopwatch guessing = draft_.stopwatch();
  // The draft's context becomes the session's, so it loses the guesses that the session did not take.
  draft_.prompt(ids_);
  draft_.generate(static_cast<uint32_t>(count), false, [&](uint32_t id) {
    if (id >= vocab) return false;  // a row of the draft's table that no token has
    guesses_.push_back(id);
    return true;
  });
  if (!guesses_.empty() && draft_.stats().prompt_tokens - read <= kFewTokens)
    each_.add(guessing.seconds() / static_cast<double>(guesses_.size()));
}

}  // namespace weft
