#include "connection.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <cerrno>
#include <ctime>

#include "../weft/common.h"

namespace weft::serve {
namespace {

constexpr std::size_t kMostQueued = 256 << 10;  // bytes of a stream before its writer waits
constexpr std::chrono::milliseconds kLingerTime{1000}, kLastLingerTime{200};  // usually; when the server ends
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return cli::format("%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[parts.tm_wday], parts.tm_mday, kMonths[parts.tm_mon],
                     parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string address_of(const Connection::Socket& socket) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  char text[INET6_ADDRSTRLEN] = "";
  if (!error && peer.data()->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(peer.data())->sin_addr, text, sizeof text);
  else if (!error && peer.data()->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(peer.data())->sin6_addr, text, sizeof text);
  else
    return "unix";
  return text;
}

}  // namespace

Connection::Connection(Connections& all, Socket socket)
    : all_(all), socket_(std::move(socket)), client_(address_of(socket_)), timer_(socket_.get_executor()) {}

void Connection::start() {
  all_.idle.push_back(shared_from_this());
  list_ = &all_.idle;
  place_ = std::prev(all_.idle.end());
  set_timer(kIdleTime);
  await_input();
}

void Connection::move_to(std::list<std::shared_ptr<Connection>>& list) {
  list.splice(list.end(), *list_, place_);
  list_ = &list;
  idle_since_ = Clock::now();
}

void Connection::set_timer(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    // It may have been set anew after this call was on its way.
    if (!error && self->timer_.expiry() <= Clock::now()) self->on_timer();
  });
}

void Connection::on_timer() {
  if (phase_ == Phase::head || phase_ == Phase::body) {
    keep_ = false;
    return respond(
        all_.handler.refuse(HttpFault(408, "The request did not come in time."), client_, reader_.request().path));
  }
  if (phase_ != Phase::answering) return close();
  if (!timed_write_) return;
  const std::uint64_t taken = acknowledged();
  if (taken < taken_ + kLeastTaken) return close();
  taken_ = taken;
  set_timer(kWriteTime);
}

// The kernel tells of room only when a third of its buffer, which may be megabytes, is free: a slow client is known by
// what it has acknowledged.
std::uint64_t Connection::acknowledged() {
  int queued = 0;
  ::ioctl(socket_.native_handle(), SIOCOUTQ, &queued);
  return all_sent_ - static_cast<std::uint64_t>(std::max(queued, 0));
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  count_body(0);
  {
    const std::lock_guard lock(mutex_);  // a writer must not miss it
    gone_ = true;
  }
  drained_.notify_all();
  timer_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  const auto self = shared_from_this();
  list_->erase(place_);
}

void Connection::end_after_answer() {
  keep_ = false;
  if (phase_ != Phase::answering) close();
}

void Connection::await_input() {
  if (std::exchange(awaits_input_, true)) return;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    self->awaits_input_ = false;
    if (self->phase_ == Phase::closed) return;
    if (error) return self->close();
    self->on_input();
  });
}

void Connection::on_input() {
  const ssize_t count = ::recv(socket_.native_handle(), all_.buffer, sizeof all_.buffer, MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR ? await_input() : close();
  if (count == 0) return on_client_end();
  const auto bytes = static_cast<std::size_t>(count);
  if (phase_ == Phase::lingering) {
    lingered_ += bytes;
    return lingered_ < 2 * reader_.most_body() ? await_input() : close();
  }
  input_.append(all_.buffer, bytes);
  if (phase_ != Phase::answering) return read_request();
  if (input_.size() < kMostHeadBytes) await_input();  // the next request must not hide that the client has gone
}

// The client has closed its sending half, or all. A complete request is answered still. An interim answer, which
// clients ignore, makes the kernel of one that has closed all say so.
void Connection::on_client_end() {
  if (phase_ != Phase::answering) return close();
  client_ended_ = true;
  keep_ = false;
  {
    const std::lock_guard lock(mutex_);
    if (!answer_begun_ && !http10_) output_ += kContinue;
  }
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const boost::system::error_code&) {
    if (self->phase_ == Phase::answering) self->close();
  });
  flush();
}

// Takes as much of the next request as has come.
void Connection::read_request() {
  if (phase_ != Phase::idle && phase_ != Phase::head && phase_ != Phase::body) return;
  try {
    if (phase_ == Phase::idle && !input_.empty()) {
      phase_ = Phase::head;
      head_only_ = http10_ = false;
      reader_.reset(client_);
      set_timer(kReadTime);
    }
    if (phase_ == Phase::head && reader_.read_head(input_)) {
      const HttpRequest& request = reader_.request();
      http10_ = reader_.is_http10();
      head_only_ = request.method == "HEAD";
      keep_ = reader_.keep_alive() && !all_.closing;
      const std::optional<HttpResponse> response = all_.handler.answer_head(request);
      // The body of a request that is answered by its head is not waited for: the connection ends.
      if (response && (reader_.has_body() || response->status >= 400)) keep_ = false;
      if (response) return respond(*response);
      phase_ = Phase::body;
      if (reader_.expects_continue() && reader_.has_body() && input_.empty()) queue(kContinue);
    }
    if (phase_ == Phase::body) {
      const bool whole = reader_.read_body(input_);
      count_body(reader_.body_bytes());
      if (all_.body_bytes > all_.most_body_bytes)
        throw HttpFault(429, "Other requests have all the memory for bodies.");
      if (whole) return dispatch();
    }
    await_input();
  } catch (const HttpFault& fault) {
    keep_ = false;
    respond(all_.handler.refuse(fault, client_, reader_.request().path));
  } catch (const std::bad_alloc&) {
    close();
  }
}

void Connection::count_body(std::size_t bytes) {
  all_.body_bytes += bytes - counted_body_;
  counted_body_ = bytes;
}

void Connection::dispatch() {
  phase_ = Phase::answering;
  move_to(all_.busy);
  timer_.cancel();
  await_input();
  const auto request = std::make_shared<HttpRequest>(reader_.take());
  all_.work([self = shared_from_this(), request] { self->answer_from_worker(*request); });
}

void Connection::answer_from_worker(HttpRequest& request) {
  bool whole = true;
  try {
    const HttpResponse response = all_.handler.answer(request, *this);
    queue(head_of(response) + response.body, true);
    if (response.stream) {
      whole = response.stream();
      if (whole && !http10_) queue("0\r\n\r\n");
    }
  } catch (const std::exception&) {
    whole = false;
  }
  boost::asio::post(socket_.get_executor(), [self = shared_from_this(), whole] { self->end_answer(whole); });
}

// Answers on the connections' thread.
void Connection::respond(const HttpResponse& response) {
  phase_ = Phase::answering;
  move_to(all_.busy);
  timer_.cancel();
  queue(head_of(response) + (head_only_ ? "" : response.body), true);
  end_answer(true);
}

std::string Connection::head_of(const HttpResponse& response) const {
  namespace http = boost::beast::http;
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  std::string head = cli::format("HTTP/1.1 %d %.*s\r\nDate: %s\r\n", response.status, static_cast<int>(reason.size()),
                                 reason.data(), http_date().c_str());
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  if (!response.type.empty()) head += "Content-Type: " + response.type + "\r\n";
  if (response.stream) {
    if (!http10_) head += "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204) {
    head += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  }
  if (!keep_) head += "Connection: close\r\n";
  return head + "\r\n";
}

// By any thread.
void Connection::queue(std::string_view bytes, bool begins_answer) {
  const std::lock_guard lock(mutex_);
  answer_begun_ = answer_begun_ || begins_answer;
  output_ += bytes;
  if (std::exchange(flushing_, true)) return;
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->flush(); });
}

bool Connection::write(std::string_view bytes) {
  if (bytes.empty()) return alive();
  queue(http10_ ? std::string(bytes) : cli::format("%zx\r\n", bytes.size()) + std::string(bytes) + "\r\n");
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return gone_ || output_.size() - sent_ < kMostQueued; });
  return alive();
}

// Sends as much as the kernel takes.
void Connection::flush() {
  if (phase_ == Phase::closed) return;
  bool waits = false, failed = false;
  {
    const std::lock_guard lock(mutex_);
    flushing_ = false;
    while (sent_ < output_.size()) {
      const ssize_t count =
          ::send(socket_.native_handle(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        waits = errno == EAGAIN;
        failed = !waits;
        break;
      }
      sent_ += static_cast<std::size_t>(count);
      all_sent_ += static_cast<std::uint64_t>(count);
    }
    if (sent_ == output_.size()) {
      std::string().swap(output_);
      sent_ = 0;
    }
    drained_.notify_all();
  }
  if (failed) return close();
  if (waits) return await_room();
  if (std::exchange(timed_write_, false)) timer_.cancel();
  if (answer_ended_) next_request();
}

void Connection::await_room() {
  if (!std::exchange(timed_write_, true)) {
    taken_ = acknowledged();
    set_timer(kWriteTime);
  }
  if (std::exchange(awaits_room_, true)) return;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const boost::system::error_code&) {
    self->awaits_room_ = false;
    self->flush();
  });
}

// whole: the client has got, or will get, all of the answer.
void Connection::end_answer(bool whole) {
  if (phase_ != Phase::answering) return;
  answer_ended_ = true;
  if (!whole) keep_ = false;
  flush();
}

void Connection::next_request() {
  answer_ended_ = answer_begun_ = false;
  count_body(0);
  if (!keep_ || all_.closing) return linger();
  phase_ = Phase::idle;
  move_to(all_.idle);
  set_timer(kIdleTime);
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->read_request(); });
}

// The kernel resets a connection that is closed before all of its input was read, and the client might lose the answer.
void Connection::linger() {
  if (client_ended_) return close();
  boost::system::error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) return close();
  phase_ = Phase::lingering;
  move_to(all_.idle);
  set_timer(all_.closing ? kLastLingerTime : kLingerTime);
  await_input();
}

}  // namespace weft::serve
