#include "connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>

namespace weft::serve {

Connection::~Connection() {
  // What was not read would make the kernel reset the connection, and the client might lose the answer.
  ::shutdown(socket_, SHUT_WR);
  const auto until = Clock::now() + std::chrono::seconds(1);
  for (std::size_t total = 0; closing_ && total < kMostBodyBytes && Clock::now() < until;) {
    if (!ready(POLLIN, std::chrono::milliseconds(200))) break;
    const ssize_t count = ::recv(socket_, buffer_, sizeof buffer_, MSG_DONTWAIT);
    if (count <= 0) break;
    total += static_cast<std::size_t>(count);
  }
  ::close(socket_);
}

bool Connection::ready(short events, std::chrono::milliseconds wait) const {
  pollfd query = {socket_, events, 0};
  return ::poll(&query, 1, static_cast<int>(wait.count())) > 0;
}

bool Connection::alive() const {
  pollfd query = {socket_, POLLRDHUP, 0};
  return ::poll(&query, 1, 0) == 0;
}

// Receives what there is, and waits for it if there is nothing.
bool Connection::fill(Clock::time_point until) {
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  if (wait.count() <= 0 || !ready(POLLIN, wait)) return false;
  const ssize_t count = ::recv(socket_, buffer_, sizeof buffer_, MSG_DONTWAIT);
  begin_ = 0;
  end_ = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  return count > 0;
}

bool Connection::await_request() {
  too_large_ = false;
  left_ = kMostHeadBytes;
  if (begin_ == end_ && !fill(Clock::now() + kIdleTime)) return false;
  deadline_ = Clock::now() + kReadTime;
  return true;
}

// A chunked body has a few bytes more than its content.
void Connection::begin_body() { left_ = kMostBodyBytes + kMostBodyBytes / 64; }

ssize_t Connection::read(char* bytes, std::size_t size) {
  if (left_ == 0) {
    too_large_ = true;
    return -1;
  }
  if (begin_ == end_ && !fill(deadline_)) return -1;
  const std::size_t count = std::min({size, end_ - begin_, left_});
  std::copy_n(buffer_ + begin_, count, bytes);
  begin_ += count;
  left_ -= count;
  return static_cast<ssize_t>(count);
}

// Waits until more can be sent. The kernel tells only when a third of its buffer, which may be megabytes, is free: a
// slow client is known by what it has taken.
bool Connection::await_room() const {
  int before = 0, now = 0;
  ::ioctl(socket_, SIOCOUTQ, &before);
  for (auto until = Clock::now() + kWriteTime; Clock::now() < until;) {
    if (ready(POLLOUT, std::chrono::milliseconds(500))) return true;
    ::ioctl(socket_, SIOCOUTQ, &now);
    if (now > before - kLeastTaken) continue;
    before = now;
    until = Clock::now() + kWriteTime;
  }
  return false;
}

ssize_t Connection::write(const char* bytes, std::size_t size) {
  if (!await_room()) return -1;
  return ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void read_address(const sockaddr_storage& address, std::string& ip, int& port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    port = ntohs(v6.sin6_port);
  }
  ip = text;
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (::getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0) read_address(address, ip, port);
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0) read_address(address, ip, port);
}

}  // namespace weft::serve
