// One completion: from its request to the last byte of its answer.
#pragma once

#include "answers.h"
#include "connection.h"
#include "logprobs.h"
#include "tools.h"

namespace weft::serve {

struct Loaded;

// Turns the exception in flight into the error that the client gets.
RequestError current_error();
Outcome outcome_of(const RequestError& error);
// Writes it as the answer.
void answer_error(httplib::Response& response, const RequestError& error);

class Exchange {
 public:
  // Joins the queue. Throws as Job does.
  Exchange(const Loaded& loaded, CompletionRequest request, const Connection& connection, std::chrono::seconds deadline,
           std::shared_ptr<CountedRequest> counted);

  // Waits for the whole answer. Throws RequestError and what Job throws.
  Json whole();
  // Waits until the request has begun, but no longer than so: what is wrong with it is then an answer of its own.
  void await_begin(std::chrono::seconds wait);
  // Writes the answer as a stream. False if the client is gone.
  bool stream(httplib::DataSink& sink);

 private:
  using Clock = std::chrono::steady_clock;
  void check() const;
  bool send(httplib::DataSink& sink, Json chunk, const Figures& figures);
  bool send_end(httplib::DataSink& sink, weft_stop stop, const Figures& figures);
  bool keep_alive(httplib::DataSink& sink);
  void count_end(weft_stop stop);
  bool send_answer(httplib::DataSink& sink);

  const CompletionRequest request_;
  AnswerHead head_;
  LogprobWriter logprobs_;
  ToolReader tools_;
  const Connection& connection_;
  const Clock::time_point deadline_;
  Clock::time_point sent_;  // the last bytes of a stream
  bool begun_ = false;
  const std::shared_ptr<CountedRequest> counted_;
  Job job_;
};

}  // namespace weft::serve
