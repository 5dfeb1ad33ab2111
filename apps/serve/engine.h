// Answers requests with a pool of sessions that generate together. One thread computes; requests wait on threads of
// their own.
#pragma once

#include <weft/batch.h>
#include <weft/speculate.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <weft/adapter.hpp>
#include <weft/image.hpp>
#include <weft/weft.hpp>

#include "metrics.h"
#include "states.h"

namespace weft::serve {

// Reasoning before the answer. A schema applies to the answer only.
struct Thinking {
  std::string open, close;  // its marks; empty: the model has none
  bool begun = false;       // the prompt ends within it
  std::string closing;      // text that ends it where the server does: `close`, line ends, an answer's header
  std::optional<std::uint32_t> budget;  // tokens; then it is closed
  std::string after;                    // how the answer begins, with the names of control tokens
};

// A generation's parameters.
struct Task {
  std::vector<std::uint32_t> prompt;  // where a picture's row stands, an id from WEFT_SOFT_TOKEN on
  std::vector<api::Image> images;     // in order
  std::uint32_t priority = 0;         // of its key: higher ones get a session first
  std::uint32_t max_tokens = 0;       // 0: what the context holds
  weft_sampling sampling = weft_sampling_default();
  std::string head = "full";
  weft_grammar_kind grammar_kind = WEFT_GRAMMAR_NONE;
  std::string grammar;
  std::string grammar_field;  // the request's field that the grammar came from
  Thinking thinking;
  std::vector<std::string> stops;
  std::vector<std::pair<std::uint32_t, float>> biases;
  // Control tokens whose names are in the text that they are in: they mark calls and reasoning.
  std::shared_ptr<const std::map<std::uint32_t, std::string>> marks;
  std::optional<std::uint32_t> logprobs;  // how many likeliest tokens are wanted beside each token's own
};

// A generated token and its log-probabilities.
struct TokenLogprobs {
  std::uint32_t id = 0;
  float chosen = 0;
  std::vector<std::pair<std::uint32_t, float>> likeliest;  // ids and log-probabilities, likeliest first
  std::size_t begin = 0;                                   // bytes of text before it
};

struct Figures {
  std::uint32_t slot = 0;    // of its session
  std::uint32_t tokens = 0;  // generated
  std::uint32_t reasoning_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompt, that an earlier request had computed
  double head_bytes_per_token = 0, head_rows_per_token = 0;
  weft_speculation_stats guesses = {};
  double first_token_seconds = 0;  // from the begin of its prompt
  double decode_tokens_per_second = 0;
  std::uint32_t stop_string = UINT32_MAX;  // of the request's, that ended it
};

// The library refuses the value of a field. `field` is the request's name of it.
class BadField : public std::runtime_error {
 public:
  BadField(std::string field, const std::string& sentence) : std::runtime_error(sentence), field_(std::move(field)) {}
  const std::string& field() const { return field_; }

 private:
  std::string field_;
};

// True if a failure is not the fault of what a request has in a field.
constexpr bool is_no_fields(weft_status status) {
  return status == WEFT_OUT_OF_MEMORY || status == WEFT_DEVICE_LOST || status == WEFT_INTERNAL ||
         status == WEFT_CANCELLED;
}

// The request cannot be answered now.
class Unavailable : public std::runtime_error {
 public:
  enum class Reason { queue_full, slot_busy, closing, failed };
  Unavailable(Reason reason, const std::string& sentence) : std::runtime_error(sentence), reason_(reason) {}
  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

class Engine;
struct Slot;

// Wakes the thread that waits for the news of one or several jobs.
using Bell = std::shared_ptr<std::condition_variable>;

// The way of one answer through the engine. Used by one thread; its destruction frees its place at once.
class Job {
 public:
  Job(Engine& engine, Task task, Bell bell);  // joins the queue; throws Unavailable
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Begins if its turn has come. True once it has begun. Throws BadField, Unavailable, and api::Failure.
  bool begin();

  struct News {
    std::string text;                   // since the last time
    std::vector<TokenLogprobs> tokens;  // that begin in the text, if the task has logprobs
    std::optional<weft_stop> stop;      // it has ended
    Figures figures;
  };
  // The new text, after begin(). Throws Unavailable and api::Failure if the generation failed; text that came before
  // it was returned then.
  News next();
  // Waits until one of the jobs, which have one bell, can begin or has news.
  static void await(const std::vector<Job*>& jobs, std::chrono::milliseconds wait);
  // While their thread does something else (away), jobs that have not begun let those after them begin. One thread's.
  static void set_away(const std::vector<Job*>& jobs, bool away);

 private:
  struct State;
  friend class Engine;
  void set_up();
  void set_grammar(api::Session& session) const;
  bool grammar_waits() const;
  void resume();
  void begin_answer();
  void recall(Slot& slot) const;
  bool waits() const;

  Engine& engine_;
  const Task task_;
  std::shared_ptr<State> state_;
  bool told_end_ = false;
};

class Engine {
 public:
  // sessions: that generate at the same time, 1 to WEFT_MAX_BATCH; queue: requests that may wait; session: how sessions
  // are made; states: where conversations go that lose their session; nullptr: nowhere; speculation, adapter: of all
  // sessions; nullptr: no adapter. The model, the metrics, the states, the adapter and the duty outlive the engine.
  // Makes the first session; the others are made when they are needed, as many at once as there are, so that most have
  // their caches side by side. token_share: the least part of the time for tokens while prompts wait, 0 to 0.95. duty:
  // of all sessions; nullptr: none. Throws api::Failure if it cannot.
  Engine(api::Model& model, Metrics& metrics, States* states, std::uint32_t sessions, std::uint32_t queue,
         const weft_session_options& session, weft_speculation speculation, const api::Adapter* adapter,
         double token_share, const api::Duty* duty);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void close();  // ends all requests, and takes no more
  // Why no request can be answered any more; empty: they can.
  std::string broken() const;
  std::uint32_t context() const { return session_.context; }

  struct Load {
    std::size_t waiting = 0, running = 0, most = 0;  // requests; the most that can run together
  };
  Load load() const;

  struct SlotNews {
    bool busy = false;
    std::size_t tokens = 0;  // that a free one has computed
  };
  std::vector<SlotNews> slots() const;
  // Lets the caller change a session that no request has. Throws BadField, Unavailable, and what `use` throws.
  void use_slot(std::uint32_t id, const std::function<void(api::Session&)>& use);

 private:
  friend class Job;
  using State = Job::State;
  void compute();
  void recover();
  void end_set_up();
  void join(weft_batch* batch);
  void share_prefix(State& state, const Slot* from);
  void fail(const std::string& sentence);
  void finish(State& state, std::optional<weft_stop> stop, const weft_error& error);
  State* next() const;
  void ring_next();
  bool turn_of(const State& state) const;
  Slot* choose_slot(const Task& task);
  Slot* find_slot(std::uint32_t id);
  Slot* add_slot();
  void remove_slot(const Slot* slot);
  void make_session(Slot& slot);
  struct Shared {
    const Slot* from = nullptr;  // has most of the prompt
    std::size_t computed = 0;    // so many tokens; without `from` the request's own session
    std::size_t expected = 0;    // that a request computes, of whose prompt
    std::size_t left = 0;        // so many tokens are left
  };
  Shared shared_with(const State& state) const;
  bool waits_for(State& state, const Shared& shared) const;
  void count_prompts();
  static int on_token(void* user, std::uint32_t id, const char* text, std::size_t length);

  api::Model& model_;
  Metrics& metrics_;
  States* const states_;
  std::uint32_t most_sessions_;
  const std::uint32_t asked_sessions_, most_waiting_;
  const weft_session_options session_;
  const weft_speculation speculation_;
  const api::Adapter* const adapter_;
  const double token_share_;
  const api::Duty* const duty_;

  std::mutex sessions_mutex_;  // of these two
  std::vector<api::Session> unused_;
  std::uint32_t sessions_made_ = 0;

  mutable std::mutex mutex_;  // of everything below, and of all Job::States
  std::condition_variable work_;
  std::list<Slot> slots_;
  std::list<State*> waiting_;                   // have not begun; by priority, then in order of arrival
  std::deque<std::shared_ptr<State>> joining_;  // in order of arrival
  std::list<std::shared_ptr<State>> running_;
  std::uint64_t clock_ = 0;         // counts the uses of slots
  std::uint64_t prompt_clock_ = 0;  // counts tokens of prompts that are computed
  bool closing_ = false;
  std::string broken_;
  bool lost_ = false;           // the device; its requests have failed or are about to
  std::size_t setting_up_ = 0;  // requests that give a session their settings
  std::thread thread_;
};

}  // namespace weft::serve
