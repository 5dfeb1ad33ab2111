// A line of JSON for each request that has ended. It never has a text of the request or of its answer.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "http.h"
#include "keys.h"
#include "metrics.h"

namespace weft::serve {

// Writes lines on a thread of its own: a slow disk or a full pipe keeps no request waiting.
class RequestLog {
 public:
  // path: of a file, to which lines are appended; "-": stdout; empty: nothing is written. Throws api::Failure.
  explicit RequestLog(const std::string& path);
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  bool enabled() const { return file_ >= 0; }
  void write(std::string line);

 private:
  void work();

  int file_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::size_t dropped_ = 0;  // lines, since there were too many
  bool closing_ = false;
  std::thread thread_;
};

// A request from its head to the end of its answer. The last who holds it writes its line and counts it.
class RequestRecord {
 public:
  RequestRecord(RequestLog& log, Metrics& metrics, const HttpRequest& request);
  ~RequestRecord();
  RequestRecord(const RequestRecord&) = delete;
  RequestRecord& operator=(const RequestRecord&) = delete;

  // The client's X-Request-Id, or a new one if that is missing or odd.
  std::string id;
  // The key that counts it, from count_for() on.
  void count_for(std::shared_ptr<KeyUse> use);
  std::uint32_t priority = 0;  // of that key
  std::string model;           // that answered
  int status = 0;              // 0: there was no answer
  // Set for completions and embeddings, which the metrics count; `cancelled` until it is known.
  std::optional<Outcome> outcome;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
  double first_token_seconds = 0;

 private:
  RequestLog& log_;
  Metrics& metrics_;
  std::shared_ptr<KeyUse> use_;
  std::string key_;    // its name
  std::string trace_;  // the trace's id
  const std::string client_, method_, path_;
  const std::chrono::steady_clock::time_point arrived_;
};

}  // namespace weft::serve
