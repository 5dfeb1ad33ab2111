#include "http_server.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <weft/weft.hpp>

namespace weft::serve {
namespace {

namespace asio = boost::asio;

constexpr int kBacklog = 4096;                        // connections that the kernel keeps until they are accepted
constexpr rlim_t kOtherFiles = 256;                   // besides connections: of the model, the driver, the states
constexpr rlim_t kMostFiles = 65536;                  // wanted
constexpr std::chrono::milliseconds kRetryTime{100};  // after the system has accepted none
constexpr std::chrono::seconds kFailTime{10};         // of that, in a row
constexpr std::chrono::milliseconds kEndTime{8000};   // for the last answers, at the end of the server

// Each connection is an open file: raises the limit as far as that is allowed.
std::size_t most_connections() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMostFiles));
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t files = std::min(limit.rlim_cur, kMostFiles);
  return std::max<std::size_t>(files - std::min(files, kOtherFiles), 16);
}

}  // namespace

HttpServer::HttpServer(HttpHandler& handler, std::size_t workers, std::size_t body_bytes)
    : io_(1),
      workers_(workers),
      connections_{handler, [this](std::function<void()> task) { asio::post(workers_, std::move(task)); }, body_bytes},
      acceptor_(io_),
      accepted_(io_),
      retry_(io_),
      most_connections_(most_connections()) {}

HttpServer::~HttpServer() { stop(); }

int HttpServer::bind(const std::string& host, int port) {
  const auto fail = [&](const boost::system::error_code& error) {
    throw api::Failure(WEFT_IO, "the address cannot be used: " + error.message(), host + ":" + std::to_string(port));
  };
  boost::system::error_code error;
  const auto found =
      asio::ip::tcp::resolver(io_).resolve(host, std::to_string(port), asio::ip::resolver_base::passive, error);
  if (error) fail(error);
  for (const auto& entry : found) {
    const asio::ip::tcp::endpoint address = entry.endpoint();
    acceptor_.close(error);
    if (acceptor_.open(address.protocol(), error)) continue;
    acceptor_.set_option(asio::socket_base::reuse_address(true),
                         error);  // not SO_REUSEPORT: two servers must not share
    boost::system::error_code ignored;
    if (address.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(false), ignored);
    if (!acceptor_.bind(address, error) && !acceptor_.listen(kBacklog, error)) break;
  }
  if (error) fail(error);
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  ::getsockname(acceptor_.native_handle(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port) /* the same place in IPv6 */;
}

void HttpServer::bind_unix(const std::string& path) {
  try {
    const asio::local::stream_protocol::endpoint address(path);
    asio::local::stream_protocol::socket other(io_);
    boost::system::error_code error;
    struct stat about = {};
    const bool socket = ::lstat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode);
    if (socket && other.connect(address, error) == asio::error::connection_refused) ::unlink(path.c_str());
    acceptor_.open(asio::local::stream_protocol());
    const mode_t mask = ::umask(0177);
    acceptor_.bind(address, error);
    ::umask(mask);
    if (error) throw boost::system::system_error(error);
    acceptor_.listen(kBacklog);
  } catch (const boost::system::system_error& problem) {
    throw api::Failure(WEFT_IO, "the socket cannot be used: " + problem.code().message(), path);
  }
  unix_path_ = path;
}

bool HttpServer::adopt(int socket) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  int listens = 0;
  socklen_t listens_size = sizeof listens;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0 ||
      ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 || !listens)
    throw api::Failure(WEFT_IO, "it is no socket that listens", "LISTEN_FDS");
  acceptor_.assign(asio::generic::stream_protocol(bound.ss_family, 0), socket);
  if (bound.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(bound).sin6_addr);
  if (bound.ss_family != AF_INET) return true;
  return ntohl(reinterpret_cast<const sockaddr_in&>(bound).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

void HttpServer::start() {
  last_accept_ = std::chrono::steady_clock::now();
  accept();
  thread_ = std::thread([this] { run(); });
}

// A handler that throws, for want of memory, ends its own connection only.
void HttpServer::run() {
  const auto until_stopped = asio::make_work_guard(io_);
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception&) {
      continue;
    }
  }
}

void HttpServer::accept() {
  if (connections_.closing) return;
  acceptor_.async_accept(accepted_, [this](const boost::system::error_code& error) { on_accept(error); });
}

void HttpServer::on_accept(const boost::system::error_code& error) {
  if (connections_.closing) return;
  const auto now = std::chrono::steady_clock::now();
  if (error && error != asio::error::connection_aborted) {
    failed_ = now - last_accept_ > kFailTime;
    make_room();
    return accept_later();
  }
  last_accept_ = now;
  if (!error) {
    boost::system::error_code ignored;
    accepted_.set_option(asio::ip::tcp::no_delay(true), ignored);
    std::make_shared<Connection>(connections_, std::move(accepted_))->start();
    accepted_ = Connection::Socket(io_);
  }
  if (connections_.busy.size() + connections_.idle.size() >= most_connections_ && !make_room()) return accept_later();
  accept();
}

void HttpServer::accept_later() {
  retry_.expires_after(kRetryTime);
  retry_.async_wait([this](const boost::system::error_code&) { accept(); });
}

// Closes the connection that has been idle for longest, if that is a while. Returns whether there was one.
bool HttpServer::make_room() {
  if (connections_.idle.empty() || !connections_.idle.front()->is_long_idle()) return false;
  connections_.idle.front()->close();
  return true;
}

// Runs a task on the thread of the connections.
void HttpServer::call(const std::function<void()>& task) { asio::post(io_, asio::use_future(task)).get(); }

std::size_t HttpServer::busy() {
  std::size_t count = 0;
  call([&] { count = connections_.busy.size(); });
  return count;
}

void HttpServer::stop() {
  if (!thread_.joinable()) return;
  call([this] {
    connections_.closing = true;
    acceptor_.close();
    retry_.cancel();
    for (const auto* list : {&connections_.idle, &connections_.busy})
      for (const auto& connection : std::list(*list)) connection->end_after_answer();
  });
  const auto until = std::chrono::steady_clock::now() + kEndTime;
  for (bool left = true; left;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const bool late = std::chrono::steady_clock::now() >= until;
    call([&] {
      for (const auto* list : {&connections_.idle, &connections_.busy})
        for (const auto& connection : std::list(*list))
          if (late) connection->close();
      left = !connections_.idle.empty() || !connections_.busy.empty();
    });
  }
  workers_.join();
  io_.stop();
  thread_.join();
  if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
}

}  // namespace weft::serve
