// Sessions of the engine's pool, and the jobs' states. For engine.cpp, job.cpp and
// schedule.cpp only.
#pragma once

#include <algorithm>

#include "../weft/common.h"
#include "engine.h"
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
  std::uint32_t priority = 0;
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
  std::uint64_t head_bytes = 0;                // of the session's statistics, at its last token
  std::size_t prompt_tokens = 0, counted = 0;  // counted: computed ones that the engine's clock has
  std::optional<std::uint64_t> patience;       // on that clock: until when it waits for a longer prompt
  Figures figures;
  // Its reasoning: the last of its text, and how it ends. Between reasoning and answer, if more is to be set for the
  // answer, it is paused: its request's thread resumes it.
  Thinking thinking;
  std::string seen;
  // cut: by the budget, or because the model would have ended the answer within it (stopped).
  bool watches = false, reasons = false, cut = false, stopped = false;
  bool answer_waits = false, pauses = false, paused = false, resumed = false;
  bool abandoned = false;  // its request is gone
  const std::chrono::steady_clock::time_point arrival = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point begin_time, last_token;
  weft_generate_options options = weft_generate_options_default();

  std::size_t computed_tokens() const { return weft_session_computed_tokens(slot->session->get()); }

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

  // True if the model has ended its reasoning and its answer at once, where a schema or a call waits: it must pause.
  bool ends_early(weft_stop how) {
    const bool within = cut ? pauses : watches && reasons;
    if (how != WEFT_STOP_TOKEN || !within || !answer_waits) return false;
    watches = false;
    return cut = stopped = true;
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

// A copy takes about as long as so many tokens of a prompt do.
constexpr std::size_t kLeastShared = 16;

inline std::size_t common_prefix(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

inline weft_speculation_stats guesses_since(const weft_speculation_stats& before, const api::Session& session) {
  const weft_speculation_stats now = session.speculation_stats();
  return {now.passes - before.passes, now.drafted_tokens - before.drafted_tokens,
          now.accepted_tokens - before.accepted_tokens};
}

}  // namespace weft::serve
