// The way of an answer through the engine, on its request's thread.
#include <exception>

#include "job_state.h"
#include "pictures.h"

namespace weft::serve {
namespace {

// Less is computed again as fast as it is written.
constexpr std::size_t kLeastKept = 64;

// Runs a setter; what the library refuses is the field's fault.
template <class Setter>
void set_field(const std::string& field, const Setter& setter) {
  try {
    setter();
  } catch (const api::Failure& error) {
    if (is_no_fields(error.status())) throw;
    throw BadField(field, error.place() == field ? error.sentence() : error.what());
  }
}

}  // namespace

Job::Job(Engine& engine, Task task, Bell bell)
    : engine_(engine), task_(std::move(task)), state_(std::make_shared<State>(engine, std::move(bell))) {
  const std::lock_guard lock(engine_.mutex_);
  if (!engine_.broken_.empty()) throw Unavailable(Unavailable::Reason::failed, engine_.broken_);
  if (engine_.closing_) throw Unavailable(Unavailable::Reason::closing, "the server is shutting down");
  const auto busy = static_cast<std::size_t>(std::ranges::count_if(engine_.slots_, &Slot::busy));
  const std::size_t free = engine_.most_sessions_ - std::min<std::size_t>(busy, engine_.most_sessions_);
  if (engine_.waiting_.size() >= engine_.most_waiting_ + free)
    throw Unavailable(Unavailable::Reason::queue_full,
                      cli::format("%u requests are being answered and %u are waiting, which is the most",
                                  engine_.most_sessions_, engine_.most_waiting_));
  state_->priority = task_.priority;
  const auto after =
      std::ranges::find_if(engine_.waiting_, [&](const State* other) { return other->priority < state_->priority; });
  engine_.waiting_.insert(after, state_.get());
}

Job::~Job() {
  const std::lock_guard lock(engine_.mutex_);
  if (state_->begun) {
    if (std::erase(engine_.joining_, state_) > 0)
      engine_.finish(*state_, WEFT_STOP_CALLER, {});
    else if (state_->paused)
      engine_.finish(*state_, WEFT_STOP_CALLER, {});
    else if (!state_->ended)
      state_->slot->session->cancel();
    state_->abandoned = true;
    return;
  }
  engine_.waiting_.remove(state_.get());
  if (Slot* slot = state_->slot) {
    slot->busy = false;
    if (slot->session) {
      slot->ids = slot->session->ids();  // it may have been restored
    } else {
      engine_.remove_slot(slot);
    }
  }
  engine_.ring_next();
}

bool Job::begin() {
  {
    const std::lock_guard lock(engine_.mutex_);
    if (!engine_.turn_of(*state_)) return false;
    if (!engine_.broken_.empty()) throw Unavailable(Unavailable::Reason::failed, engine_.broken_);
    if (engine_.closing_) throw Unavailable(Unavailable::Reason::closing, "the server is shutting down");
    state_->slot = engine_.choose_slot(task_);
    state_->slot->busy = true;
    ++engine_.setting_up_;
    engine_.waiting_.remove(state_.get());
    engine_.ring_next();
  }
  try {
    set_up();
  } catch (...) {
    engine_.end_set_up();
    throw;
  }
  engine_.end_set_up();
  const std::lock_guard lock(engine_.mutex_);
  state_->begun = true;
  engine_.joining_.push_back(state_);
  if (engine_.closing_) state_->slot->session->cancel();
  engine_.work_.notify_one();
  return true;
}

// Gives the session its settings and its prompt, on the request's thread: compiling a grammar may take a while.
void Job::set_up() {
  Slot& slot = *state_->slot;
  if (!slot.session) {
    try {
      engine_.make_session(slot);
    } catch (const api::Failure& error) {
      // The sessions that there are must do.
      const std::lock_guard lock(engine_.mutex_);
      if (error.status() == WEFT_OUT_OF_MEMORY && engine_.slots_.size() > 1)
        engine_.most_sessions_ = static_cast<std::uint32_t>(engine_.slots_.size() - 1);
      throw;
    }
  }
  api::Session& session = *slot.session;
  recall(slot);
  set_field("sampling", [&] { session.set_sampling(task_.sampling); });
  set_field("head", [&] { session.set_head(task_.head); });
  set_field("logit_bias", [&] { session.set_logit_bias(task_.biases); });
  set_field("stop", [&] { session.set_stops(task_.stops); });
  set_grammar(session);
  if (grammar_waits()) session.set_grammar(WEFT_GRAMMAR_NONE, "", "");
  session.set_logprobs(task_.logprobs ? std::max(*task_.logprobs, 1u) : 0);
  state_->wants_logprobs = task_.logprobs.has_value();
  state_->marks = task_.marks;
  state_->thinking = task_.thinking;
  state_->watches = !task_.thinking.close.empty();
  state_->reasons = state_->watches && task_.thinking.begun;
  state_->answer_waits = state_->reasons && (grammar_waits() || !task_.thinking.after.empty());
  state_->before = session.stats();
  state_->guesses_before = session.speculation_stats();
  set_field("prompt", [&] { set_prompt(session, task_.prompt, task_.images); });
  state_->figures.slot = slot.id;
  state_->figures.cached_tokens = session.stats().reused_tokens - state_->before.reused_tokens;
  state_->head_bytes = state_->before.head_bytes;
  state_->prompt_tokens = task_.prompt.size();
  state_->options.max_tokens = task_.max_tokens;
  state_->options.callback = Engine::on_token;
  state_->options.user = state_.get();
  state_->begin_time = std::chrono::steady_clock::now();
}

void Job::set_grammar(api::Session& session) const {
  set_field(task_.grammar_field, [&] { session.set_grammar(task_.grammar_kind, task_.grammar, task_.grammar_field); });
}

// A grammar is the answer's, not the reasoning's.
bool Job::grammar_waits() const {
  const Thinking& thinking = task_.thinking;
  return task_.grammar_kind != WEFT_GRAMMAR_NONE && thinking.begun && !thinking.close.empty();
}

// After the reasoning: gives the session what the answer needs.
void Job::begin_answer() {
  State& state = *state_;
  api::Session& session = *state.slot->session;
  const std::string begun =
      (state.cut ? state.thinking.closing : "") + (state.answer_waits ? state.thinking.after : "");
  if (!begun.empty()) {
    std::vector<std::uint32_t> ids = session.ids();
    if (state.stopped) ids.pop_back();  // the token that would have ended the answer
    const std::vector<std::uint32_t> more = engine_.model_.tokenize(begun, false, true);
    ids.insert(ids.end(), more.begin(), more.end());
    set_prompt(session, ids, task_.images);
  }
  if (state.answer_waits && grammar_waits()) set_grammar(session);
  const std::lock_guard lock(engine_.mutex_);
  state.text += begun;
  state.generated += begun.size();
  state.told += begun.size();
}

// Goes on with a generation that is paused.
void Job::resume() {
  State& state = *state_;
  {
    const std::lock_guard lock(engine_.mutex_);
    if (!state.paused || engine_.lost_) return;
    state.paused = false;
    if (engine_.closing_ || (task_.max_tokens > 0 && state.figures.tokens >= task_.max_tokens))
      return engine_.finish(state, engine_.closing_ ? WEFT_STOP_CALLER : WEFT_STOP_LENGTH, {});
    ++engine_.setting_up_;
  }
  std::exception_ptr problem;
  bool full = false;
  try {
    begin_answer();
  } catch (const api::Failure& failure) {
    full = failure.status() == WEFT_CONTEXT_FULL;  // the reasoning has left no room for the answer's header
    if (!full) problem = std::current_exception();
  } catch (...) {
    problem = std::current_exception();
  }
  const std::lock_guard lock(engine_.mutex_);
  --engine_.setting_up_;
  engine_.work_.notify_one();
  if (full) return engine_.finish(state, WEFT_STOP_CONTEXT, {});
  if (problem) {
    engine_.finish(state, std::nullopt, {});
    std::rethrow_exception(problem);
  }
  state.resumed = true;
  if (task_.max_tokens > 0) state.options.max_tokens = task_.max_tokens - state.figures.tokens;
  engine_.joining_.push_back(state_);
  if (engine_.closing_) state.slot->session->cancel();
}

// Writes to disk what the session forgets for this prompt, and restores a saved prefix of the prompt.
void Job::recall(Slot& slot) const {
  if (!engine_.states_) return;
  const std::size_t common = common_prefix(slot.ids, task_.prompt);
  if (slot.ids.size() >= common + kLeastKept) engine_.states_->keep(*slot.session);
  engine_.states_->recall(*slot.session, task_.prompt, common + kLeastShared);
}

// True if it can begin or has new tokens.
bool Job::waits() const {
  if (!state_->begun) return !engine_.turn_of(*state_);
  return told_end_ || (!engine_.closing_ && !state_->ended && !state_->paused && state_->text.empty());
}

void Job::await(const std::vector<Job*>& jobs, std::chrono::milliseconds wait) {
  std::unique_lock lock(jobs.front()->engine_.mutex_);
  jobs.front()->state_->bell->wait_for(
      lock, wait, [&] { return !std::ranges::all_of(jobs, [](const Job* job) { return job->waits(); }); });
}

void Job::set_away(const std::vector<Job*>& jobs, bool away) {
  if (jobs.empty()) return;
  Engine& engine = jobs.front()->engine_;
  const std::lock_guard lock(engine.mutex_);
  bool waits = false;
  for (const Job* job : jobs) {
    if (job->state_->begun) continue;
    job->state_->away = away;
    waits = true;
  }
  if (waits) engine.ring_next();
}

Job::News Job::next() {
  resume();
  const std::lock_guard lock(engine_.mutex_);
  News news = {std::exchange(state_->text, {}), std::exchange(state_->tokens, {}), std::nullopt, state_->figures};
  const bool closed = engine_.closing_ && (!state_->ended || state_->stop == WEFT_STOP_CALLER);  // waits for no step
  if (!state_->ended && !closed) return news;
  if (state_->error.code != WEFT_OK || closed) {
    if (!news.text.empty()) return news;
    if (state_->error.code != WEFT_OK) throw api::Failure(state_->error);
    throw Unavailable(Unavailable::Reason::closing, "the server is shutting down");
  }
  news.stop = state_->stop;
  told_end_ = true;
  return news;
}

}  // namespace weft::serve
