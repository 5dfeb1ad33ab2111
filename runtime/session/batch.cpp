#include "session/batch.h"

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.h"

namespace weft {
namespace {

using Generation = Session::Generation;

void require_valid(const std::vector<BatchEntry>& entries) {
  const auto refuse = [](Code code, size_t index, const std::string& what) {
    throw Error(code, "session " + std::to_string(index) + " " + what, "batch");
  };
  if (entries.empty() || entries.size() > kMostBatchSlots)
    throw Error(
        Code::invalid_argument,
        "it has " + std::to_string(entries.size()) + " sessions, expected 1 to " + std::to_string(kMostBatchSlots),
        "batch");
  for (size_t i = 0; i < entries.size(); ++i) {
    const Session& session = entries[i].session;
    if (session.ids().empty()) refuse(Code::invalid_argument, i, "has no prompt");
    if (&session.model() != &entries[0].session.model()) refuse(Code::invalid_argument, i, "is of another model");
    for (size_t j = 0; j < i; ++j)
      if (&session == &entries[j].session) refuse(Code::invalid_argument, i, "was given twice");
    if (session.model().config.layer_kind.sees_source) refuse(Code::unsupported, i, "is of an encoder-decoder");
    if (session.has_grammar()) refuse(Code::unsupported, i, "has a grammar, which must see each token before the next");
  }
}

std::vector<Batch::Member> slots_of(const std::vector<Generation*>& running) {
  std::vector<Batch::Member> members;
  for (const Generation* one : running) members.push_back(one->member());
  return members;
}

Policy policy_of(const std::vector<Generation*>& running) {
  const bool polite =
      std::ranges::any_of(running, [](const auto* one) { return one->session().policy() == Policy::polite; });
  return polite ? Policy::polite : Policy::throughput;
}

std::vector<Duty*> duties_of(const std::vector<Generation*>& running) {
  std::vector<Duty*> duties;
  for (const Generation* one : running) duties.push_back(&one->session().duty());
  return duties;
}

}  // namespace

SharedPasses::SharedPasses(std::vector<Generation*> running, BatchCosts& costs)
    : running_(std::move(running)),
      duties_(duties_of(running_)),
      batch_(running_.front()->session().model(), slots_of(running_), policy_of(running_), duties_),
      costs_(costs[running_.size()]),
      most_tokens_(1),
      drafts_(running_.size()),
      appended_(running_.size(), 1) {
  if (std::ranges::any_of(running_, &Generation::guesses_in_batches)) most_tokens_ = batch_.most_tokens();
}

// Tokens that all sessions still want.
size_t SharedPasses::left() const {
  size_t left = SIZE_MAX;
  for (const Generation* one : running_) left = std::min(left, one->left());
  return left;
}

// The first passes may tell that others must not run ahead.
void SharedPasses::submit(bool ahead) {
  while (left() > 0 && pending_ <= (ahead ? batch_.run_ahead() : 0)) {
    batch_.submit();
    ++pending_;
    for (Generation* one : running_) one->note_submitted();
  }
}

// Tokens for each reading of the weights, in a pass with `rows` rows that brings `tokens` tokens. Products read the
// weights once for a group of rows.
double SharedPasses::sharing(size_t rows, size_t tokens) const {
  const Plan& plan = running_.front()->session().model().device->plan();
  const size_t group = std::max(plan.block_tokens, plan.tile_tokens), reads = (rows + group - 1) / group;
  return static_cast<double>(tokens) / static_cast<double>(reads);
}

double SharedPasses::compute(bool ahead) {
  const uint32_t tokens = tokens_worth_checking();
  const bool idle = pending_ == 0;
  if (tokens > 1 && idle) {
    if (batch_.prepare_check(tokens)) return check(tokens);
    most_tokens_ = tokens / 2;  // the next smaller of kDraftPasses, or 1: the batch continues without guesses
  }
  // Passes ahead would be in the way of a check, and of timing a pass by itself.
  const bool waits = most_tokens_ > 1 && (tokens > 1 || !costs_.one().known());
  const Stopwatch pass(duties_);
  submit(ahead && !waits);
  const double sharing = wait();
  if (idle) costs_.passed(1, pass.seconds());
  return sharing;
}

// Waits for the oldest pass in flight. Returns its tokens for each reading of the weights.
double SharedPasses::wait() {
  while (batch_.in_flight() >= pending_) batch_.wait_oldest();
  --pending_;
  std::ranges::fill(appended_, 1u);
  return sharing(running_.size(), running_.size());
}

// Checks the drafts of all sessions in a pass of `tokens` tokens of each.
double SharedPasses::check(uint32_t tokens) {
  const Stopwatch pass(duties_);
  for (size_t i = 0; i < running_.size(); ++i)
    running_[i]->begin_check({drafts_[i].first(std::min<size_t>(drafts_[i].size(), tokens - 1)), {}});
  batch_.submit_check(tokens);
  batch_.wait_oldest();
  size_t all = 0;
  for (size_t i = 0; i < running_.size(); ++i) all += appended_[i] = running_[i]->end_check();
  costs_.passed(tokens, pass.seconds());
  return sharing(running_.size() * tokens, all);
}

// Asks the sessions for their guesses. A pass of several tokens a session takes longer for all of them, whether they
// guess or not, so what counts are the tokens that it brings all of them.
uint32_t SharedPasses::tokens_worth_checking() {
  if (most_tokens_ == 1 || !costs_.one().known()) return 1;
  std::array<double, kMostDrafted + 1> expected = {};  // [n]: tokens of a pass of n + 1 of each session
  for (size_t i = 0; i < running_.size(); ++i) {
    std::array<double, kMostDrafted> chances;
    drafts_[i] = running_[i]->offer(std::span(chances).first(most_tokens_ - 1));
    double tokens = 1, all_right = 1;
    for (size_t n = 0; n <= kMostDrafted; ++n) {
      expected[n] += tokens;
      if (n < drafts_[i].size()) tokens += all_right *= chances[n];
    }
  }
  return costs_.best_pass(most_tokens_, [&](uint32_t tokens) { return expected[tokens - 1]; });
}

std::vector<Stop> generate_batch(const std::vector<BatchEntry>& entries) {
  require_valid(entries);
  std::deque<Generation> all;
  for (const BatchEntry& entry : entries)
    all.emplace_back(entry.session, entry.max_tokens, entry.ignore_stop_tokens, entry.on_token);
  // The prompts, each by itself, and the first tokens.
  for (Generation& one : all) one.start(true);
  for (Generation& one : all) one.receive_first();
  BatchCosts costs;
  for (;;) {
    std::vector<Generation*> running;
    for (Generation& one : all)
      if (!one.stopped()) running.push_back(&one);
    if (running.empty()) break;
    if (!running.front()->session().model().weights.shards.empty()) {
      for (Generation* one : running) one->compute_tokens();
      continue;
    }
    SharedPasses passes(running, costs);
    const auto receive = [](Generation& one, double sharing) { one.receive(sharing); };
    while (!passes.closed()) passes.step(receive);
    passes.catch_up(receive);
  }
  std::vector<Stop> stops;
  for (const Generation& one : all) stops.push_back(*one.stopped());
  return stops;
}

}  // namespace weft
