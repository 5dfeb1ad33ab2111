#include "session/continuous_batch.h"

#include <algorithm>

#include "base/error.h"
#include "base/thread_end.h"

namespace weft {

void ContinuousBatch::add(const BatchEntry& entry) {
  const Session& session = entry.session;
  const auto refuse = [](Code code, const std::string& what) { throw Error(code, what, "batch"); };
  if (entries_.size() == kMostBatchSlots)
    refuse(Code::invalid_argument, "it has " + std::to_string(kMostBatchSlots) + " sessions, and that is the most");
  if (session.ids().empty()) refuse(Code::invalid_argument, "the session has no prompt");
  if (&session.model() != &model_) refuse(Code::invalid_argument, "the session is of another model");
  if (std::ranges::any_of(entries_, [&](const Member& member) { return &member.entry.session == &session; }))
    refuse(Code::invalid_argument, "the session is there already");
  if (model_.config.layer_kind.sees_source) refuse(Code::unsupported, "the session is of an encoder-decoder");
  entries_.emplace_back(entry);
}

void ContinuousBatch::set_token_share(double share) {
  if (!(share >= 0 && share <= kMostShare))
    throw Error(Code::invalid_argument, "the tokens' share must be 0 to 0.95", "token_share");
  token_share_ = share;
}

// Runs a part of a member's work. An exception becomes the failure of its session.
template <class Work>
static void attempt(std::exception_ptr& failure, const Work& work) {
  try {
    work();
  }
  WEFT_LET_THREAD_END
  catch (...) {
    failure = std::current_exception();
  }
}

std::vector<ContinuousBatch::Ended> ContinuousBatch::step() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  try {
    end_cancelled_prompts();
    if (prompts_are_next()) {
      catch_up();  // tokens that are there must not wait for a prompt
      begin = Clock::now();
      compute_prompts();  // new members share the next pass
      owed_ += (Clock::now() - begin) * (token_share_ / (1 - token_share_));
      begin = Clock::now();
    }
    compute_shared();
    compute_alone();
  } catch (...) {  // also a thread that ends in a callback
    shared_.reset();
    entries_.clear();
    throw;
  }
  owed_ = std::max<Seconds>(owed_ - (Clock::now() - begin), Seconds());
  std::vector<Ended> ended;
  for (auto member = entries_.begin(); member != entries_.end();) {
    if (!member->ended()) {
      ++member;
      continue;
    }
    ended.push_back({&member->entry.session, member->generation.stopped(), member->failure});
    if (member->failure) ended.back().stop.reset();
    member = entries_.erase(member);
  }
  return ended;
}

// The sessions that are past their prompts and share passes.
std::vector<Session::Generation*> ContinuousBatch::sharing() {
  std::vector<Session::Generation*> sessions;
  for (Member& member : entries_)
    if (member.writes() && !is_alone(member)) sessions.push_back(&member.generation);
  return sessions;
}

// True if the session has passes of its own: a grammar must see each token before the next, and a table's rows on other
// devices are projected for one state at a time.
bool ContinuousBatch::is_alone(const Member& member) const {
  return member.entry.session.has_grammar() || !model_.weights.shards.empty();
}

// True if a prompt is not complete.
bool ContinuousBatch::waiting() const { return !std::ranges::all_of(entries_, &Member::prompted); }

// A prompt that a pass completes may come before tokens have had their time: with its session the next passes of tokens
// are larger, and bring more tokens in that time.
bool ContinuousBatch::prompts_are_next() {
  if (std::ranges::none_of(entries_, &Member::writes)) owed_ = {};
  const Member* const next = next_prompt();
  if (!next) return false;
  const bool completes = next->generation.prompt_tokens_left() <= model_.device->plan().chunk_tokens;
  return owed_ <= (completes ? kMostOwed : Seconds());
}

// They need not wait for their turn.
void ContinuousBatch::end_cancelled_prompts() {
  for (Member& member : entries_)
    if (!member.prompted && member.entry.session.cancelled())
      attempt(member.failure, [&] { member.prompted = member.generation.compute_prompt_pass(); });
}

void ContinuousBatch::receive(Session::Generation& generation, double sharing) {
  const auto member = std::ranges::find_if(entries_, [&](const Member& s) { return &s.generation == &generation; });
  if (member->failure) return;
  attempt(member->failure, [&] { generation.receive(sharing); });
  if (member->failure) shared_->close();
}

void ContinuousBatch::catch_up() {
  if (shared_) shared_->catch_up([this](auto& generation, double sharing) { receive(generation, sharing); });
}

// A pass of them. If one joins or leaves, the passes in flight end first.
void ContinuousBatch::compute_shared() {
  const auto end = [this] { catch_up(), shared_.reset(); };
  if (shared_ && sharing() != shared_->running()) end();
  if (!shared_) {
    const std::vector<Session::Generation*> running = sharing();
    if (running.empty()) return;
    shared_.emplace(running, costs_);
  }
  // Passes ahead of a prompt would make it wait for all of them.
  shared_->step([this](auto& generation, double sharing) { receive(generation, sharing); }, !waiting());
  if (shared_->closed()) end();
}

void ContinuousBatch::compute_alone() {
  for (Member& member : entries_)
    if (member.writes() && is_alone(member)) attempt(member.failure, [&] { member.generation.compute_tokens(); });
}

// The prompts that are not complete, in order of arrival.
std::vector<ContinuousBatch::Member*> ContinuousBatch::prompts() {
  std::vector<Member*> waiting;
  for (Member& member : entries_)
    if (!member.prompted && !member.failure) waiting.push_back(&member);
  return waiting;
}

// The prompt whose turn it is; nullptr: none waits.
ContinuousBatch::Member* ContinuousBatch::next_prompt() {
  const std::vector<Member*> waiting = prompts();
  if (waiting.empty()) return nullptr;
  if (oldest_is_next_) return waiting.front();
  return *std::ranges::min_element(waiting, {}, [](const Member* one) { return one->generation.prompt_tokens_left(); });
}

// As many passes as one may have tokens.
void ContinuousBatch::compute_prompts() {
  size_t left = model_.device->plan().chunk_tokens;
  bool overtakes = false;
  while (Member* const member = next_prompt()) {
    const size_t tokens = member->generation.prompt_pass_tokens();
    if (tokens > left) break;
    left -= tokens;
    overtakes = overtakes || member != prompts().front();
    attempt(member->failure, [&] { member->prompted = member->generation.compute_prompt_pass(); });
  }
  oldest_is_next_ = overtakes;
}

}  // namespace weft
