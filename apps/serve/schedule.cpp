// Gives sessions to requests, and decides when a request that has one joins the batch.
//
// Sessions are given by the priorities of keys, then in order of arrival. In the batch the prompt comes first of which
// the least is left, which makes the mean wait short; after one has overtaken the oldest prompt, a pass is that one's,
// so that it is not kept waiting. It needs no name of a client: behind a proxy, or with one key, all are the same one.
#include "job_state.h"

namespace weft::serve {

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

// Finds the parts of a prompt that other sessions have, or will have. Its request is about to join.
Engine::Shared Engine::shared_with(const State& state) const {
  const std::vector<std::uint32_t> prompt = state.slot->session->ids();
  Shared shared;
  shared.computed = shared.expected = state.figures.cached_tokens;
  const auto consider = [&](const Slot& slot, std::size_t computed) {
    if (computed > shared.computed) shared.computed = computed, shared.from = &slot;
  };
  for (const Slot& slot : slots_)
    if (!slot.busy) consider(slot, common_prefix(slot.ids, prompt));
  for (const auto& other : running_) {
    const std::size_t common = common_prefix(other->slot->session->ids(), prompt);
    consider(*other->slot, std::min(common, other->computed_tokens()));
    if (other->figures.tokens > 0 || common <= shared.expected) continue;
    shared.expected = common;
    shared.left = other->prompt_tokens - other->computed_tokens();
  }
  return shared;
}

// True if the request should wait for the prompt of another one rather than compute the part that both share. The other
// one's turn comes first if less is left of it. If more is, shorter prompts may come before it, this one too: then it
// waits for no more tokens than it would have to compute.
bool Engine::waits_for(State& state, const Shared& shared) const {
  if (shared.expected < shared.computed + kLeastShared) return false;
  if (shared.left <= state.prompt_tokens - shared.computed) return true;
  if (!state.patience) state.patience = prompt_clock_ + shared.expected - shared.computed;
  return prompt_clock_ < *state.patience;
}

// Without the copy the prefix is computed once more.
void Engine::share_prefix(State& state, const Slot* from) {
  std::size_t computed = 0;
  weft_error error = {};
  if (from && weft_session_copy_prefix(state.slot->session->get(), from->session->get(), &computed, &error) == WEFT_OK)
    state.figures.cached_tokens = std::max<std::uint64_t>(state.figures.cached_tokens, computed);
  metrics_.count_prompt(state.prompt_tokens, state.figures.cached_tokens);
}

// Adds new jobs to the running ones.
void Engine::join(weft_batch* batch) {
  std::deque<std::shared_ptr<State>> later;
  for (; !joining_.empty(); joining_.pop_front()) {
    const std::shared_ptr<State>& state = joining_.front();
    if (!state->resumed) {
      const Shared shared = shared_with(*state);
      if (waits_for(*state, shared)) {
        later.push_back(state);
        continue;
      }
      share_prefix(*state, shared.computed >= state->figures.cached_tokens + kLeastShared ? shared.from : nullptr);
    }
    state->counted = state->computed_tokens();
    running_.push_back(state);
    weft_error error = {};
    if (weft_batch_add(batch, state->slot->session->get(), &state->options, &error) == WEFT_OK) continue;
    finish(*state, std::nullopt, error);
    running_.pop_back();
  }
  joining_.swap(later);
}

// After a step.
void Engine::count_prompts() {
  for (const auto& state : running_) {
    if (state->figures.tokens > 0) continue;
    const std::size_t computed = state->computed_tokens();
    prompt_clock_ += computed - std::min(computed, state->counted);
    state->counted = computed;
  }
}

}  // namespace weft::serve
