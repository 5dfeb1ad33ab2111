#include "session/draft_model.h"

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

// Initial cost estimate of a guess, in one-token passes of the session.
constexpr double kGuessedEach = 0.25;
// A time counts only if at most this many tokens were read before the guesses: more tokens are a prompt.
constexpr size_t kFewTokens = 2;
constexpr size_t kManyTokens = 8;  // to tell the time of reading one

}  // namespace

DraftModel::DraftModel(Session& draft, const Session& of) : ChainDrafter(kGuessedEach), draft_(draft), of_(of) {
  for (const Session* session : std::initializer_list<const Session*>{&draft, &of})
    if (session->model().weights.encoder)
      throw Error(Code::unsupported,
                  "the family '" + session->model().config.family + "' reads its prompt with an encoder", "draft",
                  "a draft and its model must be decoders");
  // A wrong guess costs a little time: the table need not be read whole, where it can be read in part.
  const Weights& weights = draft.model().weights;
  const bool in_part = weights.output_table().matrix().layout == Layout::planes && !draft.model().config.head;
  if (in_part && !weights.logit_bias) draft_.set_head({.mode = VocabHead::Mode::fast});
  draft_.set_on_prompt([this](size_t, size_t) { return !of_.cancelled(); });
}

void DraftModel::begin(std::span<const uint32_t> ids) {
  begin_answer();
  ids_.assign(ids.begin(), ids.end());
  readable_ = std::ranges::all_of(ids, [this](uint32_t id) { return reads(id); });
  lost_ = failed_ = false;
  draft_.set_sampling(of_.sampling());
}

void DraftModel::append(uint32_t id) {
  ChainDrafter::append(id);
  readable_ = readable_ && reads(id);
  ids_.push_back(id);
}

bool DraftModel::able() const { return !failed_ && readable_ && ids_.size() < draft_.context(); }

void DraftModel::make(size_t count) {
  try {
    generate(count);
  } catch (const Error& error) {
    // The session can do without guesses; those of a draft without a finite logit are an internal error.
    if (error.code() != Code::device_lost && error.code() != Code::internal) throw;
    failed_ = true;
    lost_ = error.code() == Code::device_lost;
    guesses_.clear();
  }
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
}

}  // namespace weft
