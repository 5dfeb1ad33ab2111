// One completion: from its request to the last byte of its answer, of one choice or several.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>

#include "answers.h"
#include "http.h"
#include "logprobs.h"
#include "request_log.h"
#include "tools.h"

namespace weft::serve {

struct Loaded;

// Turns the exception in flight into the error that the client gets.
RequestError current_error();
Outcome outcome_of(const RequestError& error);
// The answer that has it.
HttpResponse error_response(const RequestError& error);

constexpr std::chrono::milliseconds kLook{100};  // how often a request that waits looks after its client

// Throws if a request need not be answered any more.
void check_wanted(const HttpClient& client, std::chrono::steady_clock::time_point deadline);

// While it lives, the library's work on this thread that needs no device ends with WEFT_CANCELLED once the request need
// not be answered any more, or the server ends. All that it is given outlives it.
class EndsUnwanted {
 public:
  EndsUnwanted(const HttpClient& client, std::chrono::steady_clock::time_point deadline,
               const std::atomic<bool>& closing);
  ~EndsUnwanted();
  EndsUnwanted(const EndsUnwanted&) = delete;
  EndsUnwanted& operator=(const EndsUnwanted&) = delete;
  // The present error as current_error() has it, or why nobody wants the answer, if that has ended the work.
  RequestError error() const;

 private:
  bool wanted() const;

  const HttpClient& client_;
  const std::chrono::steady_clock::time_point deadline_;
  const std::atomic<bool>& closing_;
};

class Exchange {
 public:
  // Joins the queue. Throws as Job does. The client outlives it.
  Exchange(std::shared_ptr<const Loaded> model, CompletionRequest request, HttpClient& client,
           std::chrono::steady_clock::time_point deadline, const std::atomic<bool>& closing,
           std::shared_ptr<RequestRecord> record);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Waits for the whole answer. Throws RequestError and what Job throws.
  Json whole();
  // Waits until its first choice has begun, but no longer than so: what is wrong with it is then an answer of its own.
  void await_begin(std::chrono::seconds wait);
  // Writes the answer as a stream. False if the client is gone.
  bool stream();

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    Choice(const Loaded& loaded, const CompletionRequest& request, std::uint32_t place, Bell bell);
    std::vector<TokenLogprobs> take_tokens(std::size_t bytes);
    void drop_tokens(std::size_t bytes);

    const std::uint32_t index;
    LogprobWriter logprobs;
    Reader reader;
    std::deque<TokenLogprobs> tokens;  // that have not been taken
    Job job;
    bool begun = false;
    bool reasoned = true;  // its last part was reasoning, or it has none yet
    std::optional<weft_stop> stop;
    Figures figures;
  };
  struct Part {
    AnswerPart said;                    // without log-probabilities
    std::vector<TokenLogprobs> tokens;  // that it came with
  };
  void await();
  bool begin(Choice& choice);
  std::vector<Part> next(Choice& choice);
  bool ended() const;
  Figures figures() const;
  bool write(std::string_view bytes);
  bool send(const AnswerForm::Events& events);
  bool keep_alive();
  void count_end();
  bool send_answer();

  const std::shared_ptr<const Loaded> model_;
  const CompletionRequest request_;
  const std::unique_ptr<AnswerForm> form_;
  HttpClient& client_;
  const Clock::time_point deadline_;
  const std::atomic<bool>& closing_;
  Clock::time_point sent_;  // the last bytes of a stream
  const std::shared_ptr<RequestRecord> record_;
  std::deque<Choice> choices_;
  std::vector<Job*> jobs_;  // of the choices that have not ended
};

}  // namespace weft::serve
