// An HTTP/1 server: one thread has all connections, and a bounded number of others answer requests.
#pragma once

#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <thread>

#include "connection.h"

namespace weft::serve {

class HttpServer {
 public:
  // workers: requests that may wait for their answers at the same time; body_bytes: of all requests together. The
  // handler outlives the server.
  HttpServer(HttpHandler& handler, std::size_t workers, std::size_t body_bytes);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens on an address; port 0: any free one. Returns the port. Throws api::Failure if it cannot.
  int bind(const std::string& host, int port);
  // Listens on a local socket that only the same user can reach. It takes the place of a socket that nobody listens on.
  void bind_unix(const std::string& path);
  // Takes a socket that listens already. True if only this machine can reach it.
  bool adopt(int socket);
  // Accepts connections from now on.
  void start();
  // Ends connections without a request at once, others after their answers, but at the latest after kEndTime. Then no
  // thread of the server runs any more.
  void stop();
  // The system has accepted no connection for a while, although some want one.
  bool failed() const { return failed_; }
  // Requests that are being answered.
  std::size_t busy();

 private:
  void accept();
  void accept_later();
  void on_accept(const boost::system::error_code& error);
  bool make_room();
  void run();
  void call(const std::function<void()>& task);

  boost::asio::io_context io_;
  boost::asio::thread_pool workers_;
  Connections connections_;
  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol> acceptor_;
  Connection::Socket accepted_;
  std::string unix_path_;  // removed at the end
  boost::asio::steady_timer retry_;
  std::size_t most_connections_ = 0;
  std::chrono::steady_clock::time_point last_accept_;
  std::atomic<bool> failed_ = false;
  std::thread thread_;
};

}  // namespace weft::serve
