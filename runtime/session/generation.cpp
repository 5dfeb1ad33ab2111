#include "session/generation.h"

#include <time.h>

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

double thread_cpu_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

constexpr size_t kMeanTokens = 8;

double seconds(std::chrono::steady_clock::duration span) { return std::chrono::duration<double>(span).count(); }

// Guesses before the first soft token. A soft token's row belongs to its place, so it cannot be guessed elsewhere.
std::span<const uint32_t> before_soft(std::span<const uint32_t> draft) {
  return draft.first(static_cast<size_t>(std::ranges::find_if(draft, is_soft) - draft.begin()));
}

// As StepState has it: 0 for a chain.
uint32_t packed(std::span<const uint8_t> parents) {
  uint32_t tree = TREE_MARK;
  bool chain = true;
  for (size_t i = 0; i < parents.size(); ++i) {
    tree |= uint32_t{parents[i]} << (4 * (i + 1));
    chain = chain && parents[i] == i;
  }
  return chain ? 0 : tree;
}

}  // namespace

Session::Generation::~Generation() { s_.drain(); }

Stop Session::Generation::run() {
  const bool drafts = this->drafts();
  const uint32_t every = s_.model_.device->plan().profile_every;
  start(false);
  for (begin_stretch(); !stop_; receive(1)) {
    while (drafts && !stop_ && check_draft()) {
    }
    if (stop_) break;
    if (received_ >= stretch_end_) begin_stretch();
    const Stopwatch pass = s_.stopwatch();
    const size_t in_flight = most_in_flight();
    for (; submitted_ < std::min(wanted_, stretch_end_) && submitted_ - received_ < in_flight; note_submitted()) {
      // Not the first few: they may compile. One at a time: the timestamps are the schedule's own.
      const bool time = every && timed_ == kNone && submitted_ % every == 2;
      if (time) timed_ = submitted_;
      s_.on_device().schedule.submit(1, s_.next_tail(tail_), time);
    }
    while (s_.on_device().schedule.in_flight() > submitted_ - received_ - 1) s_.on_device().schedule.wait_oldest();
    const Clock::time_point now = Clock::now();
    if (drafts && received_ > 0) tell_time(in_flight, pass.seconds());
    if (stretch_end_ != kNone && received_ > 0) {
      s_.on_device().head.trials()->passed(passed_ ? std::optional(seconds(now - *passed_)) : std::nullopt);
      passed_ = now;
    }
  }
  return *stop_;  // extra tokens in flight do not count; failures among them are left to the next call
}

// Number of passes that may be submitted at the same time.
size_t Session::Generation::most_in_flight() const {
  // A grammar's next tokens are known only after the token before, so nothing can run ahead of it.
  const size_t most = s_.matcher_ ? 1 : size_t{1} + s_.queue().run_ahead();
  return drafts() ? std::clamp<size_t>(s_.drafter_->resting(), 1, most) : most;
}

// Tells the drafter the time of a token. Passes in flight end in bursts, so the mean of several is told.
void Session::Generation::tell_time(size_t in_flight, double seconds) {
  if (in_flight == 1) {
    s_.drafter_->passed(1, seconds);
    ahead_ = {};
    return;
  }
  ahead_.seconds += seconds;
  if (++ahead_.tokens < kMeanTokens) return;
  s_.drafter_->passed(1, ahead_.seconds / kMeanTokens);
  ahead_ = {};
}

// During head trials: sets the head of the next trial for the next tokens. No token may be in flight.
void Session::Generation::begin_stretch() {
  VocabHeadSetup& head = s_.on_device().head;
  if (stop_ || tail_.logprobs || !head.trials()) return;
  if (submitted_ > received_) {  // the first token, which was submitted with the prompt
    stretch_end_ = submitted_;
    return;
  }
  tail_ = head.use_tried(tail_);
  stretch_end_ = received_ + head.trials()->left();
  passed_.reset();
}

// Checks a draft and reads its tokens. False if the drafter has none, or a grammar's masks need every row.
bool Session::Generation::check_draft() {
  if (received_ == 0 || received_ != submitted_ || most_drafted() == 0) return false;
  if (s_.matcher_ && s_.on_device().head.masks_all_rows()) return false;
  const DraftTree draft = this->draft();
  if (draft.ids.empty()) return false;
  const Stopwatch pass = s_.stopwatch();
  const uint32_t tokens = *std::ranges::upper_bound(kDraftPasses, draft.ids.size());
  begin_check(draft);
  s_.on_device().schedule.submit_check(tokens, s_.matcher_ ? s_.on_device().head.allow_draft(tail_) : tail_);
  s_.on_device().schedule.wait_all();
  const uint32_t appended = end_check();
  s_.drafter_->passed(tokens, pass.seconds());
  passed_.reset();
  for (uint32_t i = 0; i < appended && !stop_; ++i) receive(appended);
  return true;
}

// False for a grammar with a keep-list: they may have no token in common, and only a pass of one token can tell.
bool Session::Generation::drafts() const { return s_.drafter_ && !(s_.matcher_ && s_.on_device().head.head().keep); }

// The draft that the next pass may check. With a grammar, also writes the masks of its tokens.
DraftTree Session::Generation::draft() {
  if (!s_.matcher_ && s_.model_.config.checks_trees()) {
    const DraftTree tree = s_.drafter_->draft_tree(most_drafted());
    return tree.first(before_soft(tree.ids).size());
  }
  const std::span<const uint32_t> draft = before_soft(s_.drafter_->draft(most_drafted()));
  if (draft.empty() || !s_.matcher_) return {draft, {}};
  const std::span<uint32_t> masks = s_.on_device().schedule.draft_masks();
  const size_t words = masks.size() / (kMostDrafted + 1);
  const size_t length = s_.matcher_->look_ahead(draft, [&](size_t i, const TokenSet& allowed) {
    const std::span<uint32_t> mask = masks.subspan(i * words, words);
    const size_t given = std::min(words, allowed.bits.size());
    std::ranges::copy(std::span(allowed.bits).first(given), mask.begin());
    std::ranges::fill(mask.subspan(given), 0u);  // rows that no token has
  });
  return {draft.first(length), {}};
}

std::span<const uint32_t> Session::Generation::offer(std::span<double> chances) {
  if (!guesses_in_batches()) return {};
  return before_soft(s_.drafter_->offer(chances.first(std::min(chances.size(), most_drafted()))));
}

void Session::Generation::begin_check(const DraftTree& draft) {
  const size_t before = s_.ids_.size();
  std::ranges::copy(draft.ids, s_.on_device().step.history.as<uint32_t>() + before);
  drafted_ = draft.ids.size();
  s_.on_device().step.state.begin_check(before, drafted_, packed(draft.parents));
  s_.on_device().kept.will_write(before + drafted_);
}

// Counts a token that could not be chosen too: receive() throws for it.
uint32_t Session::Generation::end_check() {
  const auto appended = static_cast<uint32_t>(s_.on_device().step.state.end_check(s_.ids_.size()));
  if (appended == 0 || appended > drafted_ + 1)
    throw Error(Code::internal, std::to_string(appended) + " tokens of a draft were appended", "generate");
  submitted_ += appended;
  if (drafted_ == 0) return appended;
  ++s_.stats_.checks;
  s_.stats_.drafted_tokens += drafted_;
  s_.stats_.accepted_tokens += appended - 1;
  return appended;
}

// False if there is a reason to stop.
bool Session::Generation::begin() {
  require(!s_.ids_.empty(), "generate", "the session has no prompt");
  begun_ = true;
  // One more token must fit: the last one may have filled the context.
  if (s_.ids_.size() >= s_.context_) return stop_ = Stop::context, false;
  if (s_.cancelled()) return stop_ = Stop::caller, false;
  begin_ = first_token_ = Clock::now();
  tail_ = s_.begin(ignore_stop_tokens_);
  if (s_.matcher_ && s_.matcher_->finished()) return stop_ = Stop::grammar, false;
  fresh_ = s_.ids_.size() - s_.cached();
  wanted_ = s_.context_ - s_.ids_.size();
  if (max_tokens_ != 0) wanted_ = std::min<size_t>(wanted_, max_tokens_);
  if (s_.drafter_) s_.drafter_->begin(s_.ids_);
  return true;
}

// Before a pass of the prompt: tells the progress. False if no more is wanted.
bool Session::Generation::prompt_goes_on() {
  if (s_.cancelled()) return false;
  if (!s_.on_prompt_) return true;
  while (s_.on_device().schedule.in_flight() > 1) s_.on_device().schedule.wait_oldest();
  const size_t left =
      s_.ids_.size() - s_.cached() + s_.on_device().schedule.in_flight() * s_.on_device().schedule.chunk_tokens();
  return s_.on_prompt_(fresh_ - left, fresh_) && !s_.cancelled();
}

void Session::Generation::start(bool in_batch) {
  if (!begin() || (in_batch && fresh_ == 1 && !s_.ends_soft())) return;
  if (s_.run_prompt(s_.next_tail(tail_), [&] { return prompt_goes_on(); })) {
    submitted_ = 1;
  } else {
    s_.on_device().schedule.wait_all();
    stop_ = Stop::caller;
  }
}

size_t Session::Generation::prompt_tokens_left() const {
  return s_.ids_.size() - std::min(s_.cached(), s_.ids_.size() - 1);
}

size_t Session::Generation::prompt_pass_tokens() const {
  return std::min<size_t>(prompt_tokens_left(), s_.on_device().schedule.chunk_tokens());
}

bool Session::Generation::compute_prompt_pass() {
  if (!begun_ && !begin()) return true;
  if (s_.more_than_a_pass()) {
    if (!prompt_goes_on()) return stop_ = Stop::caller, true;
    s_.run_chunk();
    s_.on_device().schedule.wait_all();
    return false;
  }
  if (!s_.matcher_ && s_.ids_.size() - s_.cached() == 1 && !s_.ends_soft()) return true;  // the batch computes it
  s_.run_prompt(s_.next_tail(tail_), [] { return true; });                                // it is one pass
  submitted_ = 1;
  receive_first();
  return true;
}

void Session::Generation::receive_first() {
  if (submitted_ == 0 || stop_) return;
  s_.on_device().schedule.wait_all();
  receive(1);
}

void Session::Generation::compute_tokens() {
  if (drafts() && check_draft()) return;
  const Stopwatch pass = s_.stopwatch();
  s_.on_device().schedule.submit(1, s_.next_tail(tail_));
  note_submitted();
  s_.on_device().schedule.wait_all();
  if (drafts()) s_.drafter_->passed(1, pass.seconds());
  receive(1);
}

void Session::Generation::note_submitted() {
  ++submitted_;
  s_.on_device().kept.will_write(s_.ids_.size() - received_ + submitted_ - 1);
}

void Session::Generation::receive(double sharing) {
  const abi::RingEntry entry = s_.on_device().step.ring.as<abi::RingEntry>()[s_.ids_.size() % RING];
  s_.stats_.readback_bytes += sizeof entry;
  if (ENTRY_FINISHED(entry.flags) == FINISH_NOT_FINITE)
    throw Error(Code::internal, "no logit is a finite number after token " + std::to_string(s_.ids_.size()), "project",
                "the model's weights may be damaged, or too large for f16");
  s_.on_device().kept.set_tokens(s_.ids_.size());
  // Everything that can fail comes before the token is added: else the caller would never be told of the token.
  if (timed_ == received_) collect_times();
  if (tail_.logprobs) read_logprobs();
  if (s_.drafter_) s_.drafter_->append(entry.id);
  if (s_.ids_.size() == s_.ids_.capacity()) s_.ids_.reserve(2 * s_.ids_.size());
  if (s_.matcher_) s_.matcher_->accept(entry.id);
  s_.ids_.push_back(entry.id);
  count_bytes(entry, sharing);
  bool go_on = true;
  if (received_++ == 0) {
    first_token_ = Clock::now();
    cpu_begin_ = thread_cpu_seconds();
    if (s_.on_prompt_) go_on = s_.on_prompt_(fresh_, fresh_);
  }
  const double before = thread_cpu_seconds();
  go_on = on_token_(entry.id) && go_on;
  cpu_callbacks_ += thread_cpu_seconds() - before;
  if (const std::optional<Stop> stop = reason_to_stop(entry, go_on)) finish(*stop);
}

std::optional<Stop> Session::Generation::reason_to_stop(const abi::RingEntry& entry, bool go_on) {
  if (ENTRY_FINISHED(entry.flags) == FINISH_STOP) return Stop::token;
  if (s_.matcher_ && s_.matcher_->finished()) return Stop::grammar;
  if (!go_on || s_.cancelled()) return Stop::caller;
  if (received_ == wanted_) return wanted_ == max_tokens_ ? Stop::length : Stop::context;
  return std::nullopt;
}

void Session::Generation::finish(Stop stop) {
  stop_ = stop;
  SessionStats& stats = s_.stats_;
  stats.prompt_tokens += fresh_;
  stats.first_token_seconds = seconds(first_token_ - begin_);
  stats.prompt_seconds += stats.first_token_seconds;
  if (received_ < 2) return;
  stats.decode_seconds += seconds(Clock::now() - first_token_);
  stats.decode_cpu_seconds += thread_cpu_seconds() - cpu_begin_ - cpu_callbacks_;
}

// Reads the log-probabilities of the token that comes next in the context.
void Session::Generation::read_logprobs() {
  const abi::TokenLogprobs& entry = s_.on_device().step.logprobs.as<abi::TokenLogprobs>()[s_.ids_.size() % RING];
  s_.stats_.readback_bytes += sizeof entry;
  s_.logprobs_.chosen = entry.chosen;
  s_.logprobs_.likeliest.clear();
  for (uint32_t i = 0; i < std::min<uint32_t>(entry.count, MAX_LOGPROBS); ++i)
    s_.logprobs_.likeliest.emplace_back(entry.ids[i], entry.logprobs[i]);
}

void Session::Generation::collect_times() {
  timed_ = kNone;
  SessionStats& stats = s_.stats_;
  ++stats.timed_tokens;
  stats.gap_seconds += s_.on_device().schedule.read_gaps();
  for (const Timestamps::Stage& stage : s_.on_device().schedule.read_times()) {
    const auto found = std::find_if(stats.stages.begin(), stats.stages.end(),
                                    [&](const Timestamps::Stage& known) { return known.name == stage.name; });
    if (found == stats.stages.end())
      stats.stages.push_back(stage);
    else
      found->seconds += stage.seconds;
  }
}

// Counts the bytes read for the token at the end of the context. sharing: tokens for each reading of the weights.
void Session::Generation::count_bytes(const abi::RingEntry& entry, double sharing) {
  SessionStats& stats = s_.stats_;
  const Matrix& table = s_.model_.weights.output_table().matrix();
  const RowsRead counts = s_.on_device().head.counts(entry);
  const double head_bytes = counts.bytes(table) / (counts.shared ? sharing : 1);
  ++stats.head_tokens;
  stats.head_bytes += head_bytes;
  stats.head_rows += counts.exact;
  // A row that refine reads more than one plane of counts once.
  stats.head_refined += std::max(counts.refined[0], std::max(counts.refined[1], counts.refined[2]));
  if (received_ == 0) return;  // computed with the prompt
  ++stats.decoded_tokens;
  const uint64_t body_bytes = s_.model_.bytes_per_token() - s_.model_.weights.output_table().bytes();
  const double adapter_bytes = s_.adapter_ ? static_cast<double>(s_.adapter_->bytes()) : 0;
  stats.decode_bytes +=
      static_cast<double>(body_bytes) / sharing + adapter_bytes + s_.cache_bytes_at(s_.ids_.size()) + head_bytes;
}

}  // namespace weft
