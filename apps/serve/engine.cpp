#include "engine.h"

#include <algorithm>
#include <exception>
#include <weft/batch.hpp>

#include "../weft/common.h"
#include "logprobs.h"

namespace weft::serve {

// A session of the pool.
struct Slot {
  std::uint32_t id = 0;  // below the most sessions
  std::optional<api::Session> session;
  std::vector<std::uint32_t> ids;  // its context, while it is free
  std::uint64_t used = 0;          // when it was used last, in uses
  bool busy = false;
};

struct Job::State {
  State(Engine& owner, Bell to_ring) : engine(owner), bell(std::move(to_ring)) {}
  Engine& engine;
  const Bell bell;
  Slot* slot = nullptr;  // while it has a session
  bool away = false;     // its thread cannot begin it now
  bool begun = false;    // the engine's thread has it, until `ended`
  bool ended = false;
  std::optional<weft_stop> stop;
  weft_error error = {};
  std::string text;  // that the request has not taken
  std::vector<TokenLogprobs> tokens;
  // The tokens whose text is held back, and the bytes of all texts: of tokens, and of what was told.
  bool wants_logprobs = false;
  std::shared_ptr<const std::map<std::uint32_t, std::string>> marks;
  std::deque<TokenLogprobs> held;
  std::size_t generated = 0, told = 0;
  weft_stats before = {};
  weft_speculation_stats guesses_before = {};
  std::uint64_t head_bytes = 0;  // of the session's statistics, at its last token
  std::size_t prompt_tokens = 0;
  Figures figures;
  // Its reasoning: the last of its text, and how it ends. Between reasoning and answer, if more is to be set for the
  // answer, it is paused: its request's thread resumes it.
  Thinking thinking;
  std::string seen;
  bool watches = false, reasons = false, cut = false;  // cut: by the budget
  bool answer_waits = false, pauses = false, paused = false, resumed = false;
  bool abandoned = false;  // its request is gone
  const std::chrono::steady_clock::time_point arrival = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point begin_time, last_token;
  weft_generate_options options = {};

  // Called before figures.tokens counts the token.
  void count_token(std::uint64_t all_head_bytes) {
    const auto now = std::chrono::steady_clock::now();
    const bool first = figures.tokens == 0;
    const std::chrono::duration<double> passed = now - (first ? arrival : last_token);
    engine.metrics_.count_token(first, passed.count(), all_head_bytes - head_bytes);
    last_token = now;
    head_bytes = all_head_bytes;
  }

  // Follows the reasoning. Called after figures.tokens counts the token. True if the generation must pause.
  bool reason(std::string_view more) {
    if (!watches) return false;
    seen += more;
    if (!reasons) {  // it may begin by itself
      const std::size_t first = std::min(seen.find_first_not_of(" \t\r\n"), seen.size());
      const std::string_view first_words = std::string_view(seen).substr(first);
      reasons = first_words.starts_with(thinking.open);
      watches = reasons || thinking.open.starts_with(first_words);
      if (!reasons) return false;
    }
    figures.reasoning_tokens = figures.tokens;
    if (seen.find(thinking.close) != seen.npos) {
      watches = false;
      return pauses = answer_waits;
    }
    seen.erase(0, seen.size() - std::min(seen.size(), thinking.close.size() - 1));
    if (!thinking.budget || figures.tokens < *thinking.budget) return false;
    watches = false;
    return pauses = cut = true;
  }

  // The name of a control token that the text is to have.
  std::string mark(std::uint32_t id) const {
    if (!marks) return {};
    const auto found = marks->find(id);
    return found == marks->end() ? std::string() : found->second;
  }

  // Called with each callback. Tokens wait in `held` until text is told that they begin in: those of a stop string, and
  // the token that ends the answer, never leave it.
  void note_logprobs(std::uint32_t id, std::size_t told_bytes, std::size_t mark_bytes) {
    told += told_bytes + mark_bytes;
    if (id == WEFT_NO_TOKEN) return;
    const api::Session::Logprobs known = slot->session->logprobs();
    held.push_back({id, known.chosen, known.likeliest, generated});
    const cli::TokenBytes token = cli::token_bytes(engine.model_, id);
    generated += token.control ? mark_bytes : token.bytes.size();
  }
};

namespace {

// A copy takes about as long as so many tokens of a prompt do.
constexpr std::size_t kLeastShared = 16;

std::size_t common_prefix(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Less is computed again as fast as it is written.
constexpr std::size_t kLeastKept = 64;

weft_speculation_stats guesses_since(const weft_speculation_stats& before, const api::Session& session) {
  const weft_speculation_stats now = session.speculation_stats();
  return {now.passes - before.passes, now.drafted_tokens - before.drafted_tokens,
          now.accepted_tokens - before.accepted_tokens};
}

// Runs a setter; what the library refuses is the field's fault.
template <class Setter>
void set_field(const std::string& field, const Setter& setter) {
  try {
    setter();
  } catch (const api::Failure& error) {
    if (error.status() == WEFT_OUT_OF_MEMORY || error.status() == WEFT_DEVICE_LOST || error.status() == WEFT_INTERNAL)
      throw;
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
  engine_.waiting_.push_back(state_.get());
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
  set_field("prompt", [&] { session.prompt(task_.prompt); });
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

// A schema is the answer's. Other grammars are of all that the model writes.
bool Job::grammar_waits() const {
  const Thinking& thinking = task_.thinking;
  const bool schema = task_.grammar_kind == WEFT_GRAMMAR_JSON_SCHEMA || task_.forced;
  return schema && thinking.begun && !thinking.close.empty();
}

// After the reasoning: gives the session what the answer needs.
void Job::begin_answer() {
  State& state = *state_;
  api::Session& session = *state.slot->session;
  const std::string begun =
      (state.cut ? "\n" + state.thinking.close + "\n\n" : "") + (state.answer_waits ? state.thinking.after : "");
  if (!begun.empty()) {
    std::vector<std::uint32_t> ids = session.ids();
    const std::vector<std::uint32_t> more = engine_.model_.tokenize(begun, false, true);
    ids.insert(ids.end(), more.begin(), more.end());
    session.prompt(ids);
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
  try {
    begin_answer();
  } catch (...) {
    problem = std::current_exception();
  }
  const std::lock_guard lock(engine_.mutex_);
  --engine_.setting_up_;
  engine_.work_.notify_one();
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
  return told_end_ || (!state_->ended && !state_->paused && state_->text.empty());
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
  if (!state_->ended) return news;
  if (state_->error.code != WEFT_OK || (engine_.closing_ && state_->stop == WEFT_STOP_CALLER)) {
    if (!news.text.empty()) return news;
    if (state_->error.code != WEFT_OK) throw api::Failure(state_->error);
    throw Unavailable(Unavailable::Reason::closing, "the server is shutting down");
  }
  news.stop = state_->stop;
  told_end_ = true;
  return news;
}

Engine::Engine(api::Model& model, Metrics& metrics, States* states, std::uint32_t sessions, std::uint32_t queue,
               std::uint32_t context, weft_speculation speculation, const api::Adapter* adapter)
    : model_(model),
      metrics_(metrics),
      states_(states),
      most_sessions_(sessions),
      asked_sessions_(sessions),
      most_waiting_(queue),
      context_(context),
      speculation_(speculation),
      adapter_(adapter) {
  make_session(slots_.emplace_back());
  thread_ = std::thread([this] { compute(); });
}

Engine::~Engine() {
  close();
  thread_.join();
}

void Engine::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  for (const auto& state : running_) state->slot->session->cancel();
  for (const auto& state : joining_) state->slot->session->cancel();
  for (State* state : waiting_) state->bell->notify_one();
  work_.notify_one();
}

std::string Engine::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

Engine::Load Engine::load() const {
  const std::lock_guard lock(mutex_);
  return {waiting_.size(), static_cast<std::size_t>(std::ranges::count_if(slots_, &Slot::busy)), most_sessions_};
}

std::vector<Engine::SlotNews> Engine::slots() const {
  const std::lock_guard lock(mutex_);
  std::vector<SlotNews> news(most_sessions_);
  for (const Slot& slot : slots_)
    if (slot.id < news.size()) news[slot.id] = {slot.busy, slot.ids.size()};
  return news;
}

void Engine::use_slot(std::uint32_t id, const std::function<void(api::Session&)>& use) {
  std::unique_lock lock(mutex_);
  if (!broken_.empty() || lost_)
    throw Unavailable(Unavailable::Reason::failed, lost_ ? "the device was lost, and is opened again" : broken_);
  if (closing_) throw Unavailable(Unavailable::Reason::closing, "the server is shutting down");
  if (id >= most_sessions_) throw BadField("id_slot", cli::format("slots are below %u", most_sessions_));
  Slot* slot = find_slot(id);
  if (slot && slot->busy)
    throw Unavailable(Unavailable::Reason::slot_busy, cli::format("slot %u is answering a request", id));
  if (!slot) {
    slot = add_slot();
    slot->id = id;
  }
  slot->busy = true;
  ++setting_up_;
  lock.unlock();
  std::exception_ptr problem;
  try {
    if (!slot->session) make_session(*slot);
    use(*slot->session);
  } catch (...) {
    problem = std::current_exception();
  }
  lock.lock();
  --setting_up_;
  slot->busy = false;
  slot->used = ++clock_;
  if (slot->session) {
    slot->ids = slot->session->ids();
  } else {
    remove_slot(slot);
  }
  work_.notify_one();
  ring_next();
  if (problem) std::rethrow_exception(problem);
}

// The waiting job that may begin.
Job::State* Engine::next() const {
  const auto first = std::ranges::find_if(waiting_, [](const State* state) { return !state->away; });
  return first == waiting_.end() ? nullptr : *first;
}

void Engine::ring_next() {
  if (State* const state = next()) state->bell->notify_one();
}

// It can begin, or never will.
bool Engine::turn_of(const State& state) const {
  if (closing_ || !broken_.empty()) return true;
  if (lost_ || next() != &state) return false;
  return slots_.size() < most_sessions_ || !std::ranges::all_of(slots_, &Slot::busy);
}

// The session that has computed the longest part of the prompt, if that is at least half of what it holds: else the
// request starts something new, which must not cost an earlier conversation its cache while there are other places.
// Not all places may be taken.
Slot* Engine::choose_slot(const Task& task) {
  Slot *best = nullptr, *oldest = nullptr;
  std::size_t longest = 0;
  for (Slot& slot : slots_) {
    if (slot.busy) continue;
    const std::size_t common = common_prefix(slot.ids, task.prompt);
    if (2 * common >= slot.ids.size() && (!best || common > longest)) {
      best = &slot;
      longest = common;
    }
    if (!oldest || slot.used < oldest->used) oldest = &slot;
  }
  if (best) return best;
  return slots_.size() < most_sessions_ ? add_slot() : oldest;
}

Slot* Engine::find_slot(std::uint32_t id) {
  const auto found = std::ranges::find(slots_, id, &Slot::id);
  return found == slots_.end() ? nullptr : &*found;
}

// With the lowest id that none has.
Slot* Engine::add_slot() {
  std::uint32_t id = 0;
  while (find_slot(id)) ++id;
  Slot& slot = slots_.emplace_back();
  slot.id = id;
  return &slot;
}

void Engine::remove_slot(const Slot* slot) {
  slots_.remove_if([&](const Slot& other) { return &other == slot; });
}

void Engine::make_session(Slot& slot) {
  const std::lock_guard lock(sessions_mutex_);
  if (unused_.empty()) {
    const std::uint32_t left = asked_sessions_ > sessions_made_ ? asked_sessions_ - sessions_made_ : 1;
    std::uint32_t count = std::clamp(sessions_made_, 1u, left);
    try {
      unused_ = api::make_session_group(model_, count, context_);
    } catch (const api::Failure& error) {
      if (error.status() != WEFT_OUT_OF_MEMORY || count == 1) throw;
      unused_ = api::make_session_group(model_, count = 1, context_);
    }
    sessions_made_ += count;
  }
  api::Session made = std::move(unused_.back());
  unused_.pop_back();
  made.set_speculation(speculation_);
  api::set_adapter(made, adapter_);
  slot.session.emplace(std::move(made));
}

int Engine::on_token(void* user, std::uint32_t id, const char* text, std::size_t length) {
  State& state = *static_cast<State*>(user);
  const weft_stats stats = state.slot->session->stats();
  const cli::Rates rates = cli::rates(state.before, stats, 0);
  if (id != WEFT_NO_TOKEN) state.count_token(stats.head_bytes);
  const std::string mark = state.mark(id);
  if (state.wants_logprobs) state.note_logprobs(id, length, mark.size());
  const std::lock_guard lock(state.engine.mutex_);
  Figures& figures = state.figures;
  if (id != WEFT_NO_TOKEN && figures.tokens++ == 0)
    figures.first_token_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - state.begin_time).count();
  figures.head_bytes_per_token = rates.head_bytes_per_token;
  figures.head_rows_per_token = rates.head_rows_per_token;
  figures.guesses = guesses_since(state.guesses_before, *state.slot->session);
  state.text.append(text, length);
  state.text += mark;
  for (; !state.held.empty() && state.held.front().begin < state.told; state.held.pop_front())
    state.tokens.push_back(std::move(state.held.front()));
  if (length + mark.size() > 0) state.bell->notify_one();
  return state.reason(std::string(text, length) + mark) ? 1 : 0;
}

// The session is free again. Its request may still be reading.
void Engine::finish(State& state, std::optional<weft_stop> stop, const weft_error& error) {
  Slot& slot = *state.slot;
  state.figures.guesses = guesses_since(state.guesses_before, *slot.session);
  metrics_.count_guesses(state.figures.guesses.drafted_tokens, state.figures.guesses.accepted_tokens);
  if (!stop) slot.session->reset();
  slot.ids = slot.session->ids();
  slot.used = ++clock_;
  slot.busy = false;
  state.figures.decode_tokens_per_second =
      cli::rates(state.before, slot.session->stats(), state.figures.tokens).decode_tokens_per_s;
  state.slot = nullptr;
  state.stop = stop;
  state.error = error;
  state.ended = true;
  state.bell->notify_one();
  ring_next();
}

// Nothing can be computed any more.
void Engine::fail(const std::string& sentence) {
  broken_ = sentence;
  for (State* state : waiting_) state->bell->notify_one();
}

void Engine::end_set_up() {
  const std::lock_guard lock(mutex_);
  --setting_up_;
  work_.notify_one();
}

// After the device was lost, and its requests have been told. Waiting jobs keep their places.
void Engine::recover() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return setting_up_ == 0; });
  lock.unlock();
  std::string problem;
  try {
    model_.recover();
  } catch (const api::Failure& failure) {
    problem = failure.what();
  }
  lock.lock();
  lost_ = false;
  if (!problem.empty()) fail(problem);
  ring_next();
}

// The session that shares the longest part of the prompt with a request that is about to join: a free one, or one whose
// request runs, which is ready once its prompt is computed.
Engine::Source Engine::best_source(const State& state) const {
  const std::vector<std::uint32_t> prompt = state.slot->session->ids();
  Source best = {state.figures.cached_tokens + kLeastShared - 1, nullptr, true};
  const auto consider = [&](const Slot& slot, const std::vector<std::uint32_t>& ids, bool ready) {
    const std::size_t tokens = common_prefix(ids, prompt);
    if (tokens > best.tokens || (tokens == best.tokens && best.slot && ready)) best = {tokens, &slot, ready};
  };
  for (const Slot& slot : slots_)
    if (!slot.busy) consider(slot, slot.ids, true);
  for (const auto& other : running_) consider(*other->slot, other->slot->session->ids(), other->figures.tokens > 0);
  return best;
}

// Without the copy the prefix is computed once more.
void Engine::share_prefix(State& state, const Slot* from) {
  std::size_t computed = 0;
  weft_error error = {};
  if (from && weft_session_copy_prefix(state.slot->session->get(), from->session->get(), &computed, &error) == WEFT_OK)
    state.figures.cached_tokens = std::max<std::uint64_t>(state.figures.cached_tokens, computed);
  metrics_.count_prompt(state.prompt_tokens, state.figures.cached_tokens);
}

// Adds new jobs to the running ones. A job that shares a prompt which is being computed waits until it can be copied.
void Engine::join(weft_batch* batch) {
  std::deque<std::shared_ptr<State>> later;
  for (; !joining_.empty(); joining_.pop_front()) {
    const std::shared_ptr<State>& state = joining_.front();
    if (!state->resumed) {
      const Source source = best_source(*state);
      if (!source.ready) {
        later.push_back(state);
        continue;
      }
      share_prefix(*state, source.slot);
    }
    running_.push_back(state);
    weft_error error = {};
    if (weft_batch_add(batch, state->slot->session->get(), &state->options, &error) == WEFT_OK) continue;
    finish(*state, std::nullopt, error);
    running_.pop_back();
  }
  joining_.swap(later);
}

void Engine::compute() {
  weft_batch* created = nullptr;
  weft_error error = {};
  if (weft_batch_create(model_.get(), &created, &error) != WEFT_OK) {
    const std::lock_guard lock(mutex_);
    return fail(error.sentence);
  }
  const std::unique_ptr<weft_batch, void (*)(weft_batch*)> batch(created, weft_batch_free);
  std::vector<weft_batch_end> ended(WEFT_MAX_BATCH);
  for (;;) {
    if (lost_ && running_.empty()) recover();
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return closing_ || !joining_.empty() || !running_.empty(); });
      if (closing_ && joining_.empty() && running_.empty()) return;
      join(batch.get());
    }
    std::size_t count = 0;
    const weft_status status = weft_batch_step(batch.get(), ended.data(), &count, &error);
    const std::lock_guard lock(mutex_);
    if (status != WEFT_OK) {
      lost_ = lost_ || status == WEFT_DEVICE_LOST;
      for (const auto& state : running_) finish(*state, std::nullopt, error);
      running_.clear();
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto state = std::ranges::find_if(
          running_, [&](const auto& one) { return one->slot->session->get() == ended[i].session; });
      const bool good = ended[i].error.code == WEFT_OK;
      lost_ = lost_ || ended[i].error.code == WEFT_DEVICE_LOST;
      if (good && (*state)->pauses && !(*state)->abandoned && ended[i].stop == WEFT_STOP_CALLER) {
        (*state)->pauses = false;
        (*state)->paused = true;
        (*state)->bell->notify_one();
        running_.erase(state);
        continue;
      }
      finish(**state, good ? std::optional(ended[i].stop) : std::nullopt, ended[i].error);
      running_.erase(state);
    }
  }
}

}  // namespace weft::serve
