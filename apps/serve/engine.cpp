#include "engine.h"

#include <exception>
#include <weft/batch.hpp>

#include "job_state.h"

namespace weft::serve {

Engine::Engine(api::Model& model, Metrics& metrics, States* states, std::uint32_t sessions, std::uint32_t queue,
               const weft_session_options& session, weft_speculation speculation, const api::Adapter* adapter,
               double token_share, const api::Duty* duty)
    : model_(model),
      metrics_(metrics),
      states_(states),
      most_sessions_(sessions),
      asked_sessions_(sessions),
      most_waiting_(queue),
      session_(session),
      speculation_(speculation),
      adapter_(adapter),
      token_share_(token_share),
      duty_(duty) {
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
  const auto end = [](const auto& state) {
    state->slot->session->cancel();
    state->bell->notify_one();
  };
  std::ranges::for_each(running_, end);
  std::ranges::for_each(joining_, end);
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

void Engine::make_session(Slot& slot) {
  const std::lock_guard lock(sessions_mutex_);
  if (unused_.empty()) {
    const std::uint32_t left = asked_sessions_ > sessions_made_ ? asked_sessions_ - sessions_made_ : 1;
    std::uint32_t count = std::clamp(sessions_made_, 1u, left);
    try {
      unused_ = api::make_session_group(model_, count, session_);
    } catch (const api::Failure& error) {
      if (error.status() != WEFT_OUT_OF_MEMORY || count == 1) throw;
      unused_ = api::make_session_group(model_, count = 1, session_);
    }
    sessions_made_ += count;
  }
  api::Session made = std::move(unused_.back());
  unused_.pop_back();
  made.set_speculation(speculation_);
  api::set_adapter(made, adapter_);
  if (duty_) made.use_duty(*duty_);
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
  slot.session->clear_cancel();  // that came too late would end the next request
  slot.busy = false;
  const weft_stats stats = slot.session->stats();
  state.figures.decode_tokens_per_second = cli::rates(state.before, stats, state.figures.tokens).decode_tokens_per_s;
  state.figures.stop_string = stats.stop_string;
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

void Engine::compute() {
  weft_batch* created = nullptr;
  weft_error error = {};
  weft_status made = weft_batch_create(model_.get(), &created, &error);
  const std::unique_ptr<weft_batch, void (*)(weft_batch*)> batch(created, weft_batch_free);
  if (made == WEFT_OK) made = weft_batch_set_token_share(created, token_share_, &error);
  if (made != WEFT_OK) {
    const std::lock_guard lock(mutex_);
    return fail(error.sentence);
  }
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
    count_prompts();
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
      const bool pauses =
          ((*state)->pauses && ended[i].stop == WEFT_STOP_CALLER) || (*state)->ends_early(ended[i].stop);
      if (good && pauses && !(*state)->abandoned) {
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
