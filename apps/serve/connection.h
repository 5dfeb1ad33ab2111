// A client's connection: the bytes below HTTP, and every limit on them.
#pragma once

#include <httplib.h>
#include <poll.h>

#include <chrono>

namespace weft::serve {

// The limits of a request, which docs/serving.md lists.
constexpr std::size_t kMostHeadBytes = 32 << 10;  // request line and headers
constexpr std::size_t kMostBodyBytes = 4 << 20;   // as sent
constexpr std::chrono::seconds kIdleTime{15};     // until the first byte of a request
constexpr std::chrono::seconds kReadTime{30};     // from then until its last
constexpr std::chrono::seconds kWriteTime{10};    // in which a client must take so many bytes, if there are as many:
constexpr int kLeastTaken = 16 << 10;

// httplib of Debian 12 bounds neither the number nor the length of headers, nor the size of chunked bodies, nor the
// time of a slow sender. This stream does.
class Connection final : public httplib::Stream {
 public:
  explicit Connection(socket_t socket) : socket_(socket) {}
  // Closes the socket, once the client has had a moment to read the answer.
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Waits for the first byte of a request. False if none came within kIdleTime, or after wake().
  bool await_request();
  void begin_body();  // the head has been read
  bool too_large() const { return too_large_; }
  // The client has not closed its end. One that has closed its sending half only counts as gone.
  bool alive() const;
  // No further request is read after this one.
  void close_after() { closing_ = true; }
  bool closing() const { return closing_; }

  bool is_readable() const override { return begin_ < end_ || ready(POLLIN, std::chrono::milliseconds(0)); }
  bool is_writable() const override { return alive(); }
  ssize_t read(char* bytes, std::size_t size) override;
  ssize_t write(const char* bytes, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool ready(short events, std::chrono::milliseconds wait) const;
  bool fill(Clock::time_point until);
  bool await_room() const;

  socket_t socket_;
  char buffer_[4096];
  std::size_t begin_ = 0, end_ = 0;  // of what is in the buffer
  std::size_t left_ = 0;             // bytes of this request that may still be read
  Clock::time_point deadline_{};     // for reading this request
  bool too_large_ = false, closing_ = false;
};

}  // namespace weft::serve
