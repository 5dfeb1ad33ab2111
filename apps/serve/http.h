// HTTP's requests and answers, and the interface between the server and its handlers.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::serve {

// The limits of a connection, which docs/serving.md lists.
constexpr std::size_t kMostHeadBytes = 32 << 10;   // request line and headers
constexpr std::size_t kMostTargetBytes = 8 << 10;  // path and query
constexpr std::size_t kMostBodyBytes = 4 << 20;    // as sent
constexpr std::size_t kMostFormBytes = 25 << 20;   // of a form, which has a recording: OpenAI's limit
constexpr std::chrono::seconds kIdleTime{15};      // until the first byte of a request
constexpr std::chrono::seconds kReadTime{30};      // from then until its last
constexpr std::chrono::seconds kWriteTime{10};     // in which a client must take kLeastTaken, if there is as much
constexpr std::size_t kLeastTaken = 16 << 10;

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// Header names, schemes and media types have no case (RFC 9110). Compares ASCII only, whatever the locale.
bool same_word(std::string_view a, std::string_view b);

struct HttpRequest {
  std::string method, path, query;  // as they were sent: nothing is decoded
  HttpHeaders headers;
  std::string body;
  std::string client;                                  // its address; "unix": a local socket
  std::chrono::steady_clock::time_point arrived = {};  // its first byte

  // The value of the first header of this name; nullptr: no such header.
  const std::string* header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers;
  std::string type;  // of the content; empty: no content
  std::string body;
  // Writes the content piece by piece instead, with HttpClient::write. False if it is not whole.
  std::function<bool()> stream;
};

// The client of a request that is being answered. May be used by any thread.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // False once its connection has failed or was given up. Closing only the sending half leaves it alive.
  virtual bool alive() const = 0;
  // Sends a piece of a stream. Waits while the client takes much slower than it is written. False: it has gone.
  virtual bool write(std::string_view bytes) = 0;
};

// A request that is refused, and whose connection ends.
class HttpFault : public std::runtime_error {
 public:
  HttpFault(int status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called with the head of a request. Returns an answer that does not depend on the body, or nothing. Runs on the
  // thread of all connections, and must not wait.
  virtual std::optional<HttpResponse> answer_head(const HttpRequest& request) = 0;
  // Called with the whole request, on a thread that may wait. May move the body away.
  virtual HttpResponse answer(HttpRequest& request, HttpClient& client) = 0;
  // The answer to a request that is refused before a handler sees it. path: "" if it has not come.
  virtual HttpResponse refuse(const HttpFault& fault, const std::string& client, const std::string& path) = 0;
};

}  // namespace weft::serve
