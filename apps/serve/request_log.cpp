#include "request_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <weft/weft.hpp>

#include "../weft/common.h"
#include "answers.h"

namespace weft::serve {
namespace {

constexpr std::size_t kMostLines = 10000;  // that wait to be written
constexpr std::size_t kMostIdBytes = 128;

std::string utc_time() {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts = {};
  ::gmtime_r(&now.tv_sec, &parts);
  return cli::format("%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, now.tv_nsec / 1000000);
}

bool is_good_id(const std::string& id) {
  return !id.empty() && id.size() <= kMostIdBytes &&
         std::ranges::all_of(id, [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; });
}

// The id of the trace in a "traceparent" (W3C Trace Context): 00-32 digits-16 digits-2 digits. Empty: it is none.
std::string trace_of(const std::string& parent) {
  constexpr std::string_view kForm = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  const auto fits = [](char c, char form) {
    return form == 'x' ? (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') : c == form;
  };
  return std::ranges::equal(parent, kForm, fits) ? parent.substr(3, 32) : "";
}

double milliseconds(std::chrono::steady_clock::duration time) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(time).count()) / 1000;
}

}  // namespace

RequestLog::RequestLog(const std::string& path) {
  if (path.empty()) return;
  file_ = path == "-" ? ::dup(STDOUT_FILENO) : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) throw api::Failure(WEFT_IO, std::string("cannot be written: ") + std::strerror(errno), path);
  thread_ = std::thread([this] { work(); });
}

RequestLog::~RequestLog() {
  if (file_ < 0) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
  ::close(file_);
}

void RequestLog::write(std::string line) {
  if (file_ < 0) return;
  const std::lock_guard lock(mutex_);
  if (lines_.size() >= kMostLines) {
    ++dropped_;
    return;
  }
  lines_.push_back(std::move(line));
  changed_.notify_one();
}

void RequestLog::work() {
  // If nobody reads a pipe any more, write() fails, and the server goes on.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !lines_.empty(); });
    if (lines_.empty()) return;
    std::string text;
    for (const std::string& line : lines_) text += line;
    lines_.clear();
    if (dropped_ > 0) text += bytes_of({{"time", utc_time()}, {"dropped_lines", std::exchange(dropped_, 0)}}) + "\n";
    lock.unlock();
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t count = ::write(file_, text.data() + at, text.size() - at);
      if (count < 0 && errno != EINTR) break;  // a full disk loses lines, not requests
      at += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    }
    lock.lock();
  }
}

RequestRecord::RequestRecord(RequestLog& log, Metrics& metrics, const HttpRequest& request)
    : log_(log),
      metrics_(metrics),
      client_(request.client),
      method_(request.method),
      path_(request.path.substr(0, 200)),
      arrived_(request.arrived) {
  const std::string* given = request.header("X-Request-Id");
  id = given && is_good_id(*given) ? *given : random_name();
  if (const std::string* parent = request.header("traceparent")) trace_ = trace_of(*parent);
}

void RequestRecord::count_for(std::shared_ptr<KeyUse> use) {
  const ApiKey key = use->key();
  key_ = key.name;
  priority = key.priority;
  use->begin();
  use_ = std::move(use);
}

RequestRecord::~RequestRecord() {
  if (outcome) metrics_.count(*outcome);
  if (use_) use_->end(prompt_tokens + tokens);
  if (!log_.enabled()) return;
  Json line = {{"time", utc_time()},
               {"id", id},
               {"client", client_},
               {"method", method_},
               {"path", path_},
               {"status", status},
               {"ms", milliseconds(std::chrono::steady_clock::now() - arrived_)}};
  if (!key_.empty()) line["key"] = key_;
  if (!trace_.empty()) line["trace"] = trace_;
  if (outcome) {
    line["model"] = model;
    line["outcome"] = kOutcomeNames[static_cast<std::size_t>(*outcome)];
    line["prompt_tokens"] = prompt_tokens;
    line["cached_tokens"] = cached_tokens;
    line["tokens"] = tokens;
    if (tokens > 0) line["first_token_ms"] = first_token_seconds * 1000;
  }
  log_.write(bytes_of(line) + "\n");
}

}  // namespace weft::serve
