// httplib's server over our connections: a bounded number of them, and orderly ends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "connection.h"

namespace weft::serve {

class HttpServer final : public httplib::Server {
 public:
  // connections: served at the same time; more wait in the kernel's queue.
  explicit HttpServer(std::size_t connections);

  // Binds to an address; port 0: any free one. Returns the port. Throws api::Failure if it cannot.
  int bind(const std::string& host, int port);
  // Accepts connections until stop().
  void serve() { listen_after_bind(); }
  // Ends serve(): connections that are idle close at once, others after the present request.
  void shut_down();

  // The connection whose request the calling thread handles.
  static Connection& connection();

 private:
  bool process_and_close_socket(socket_t socket) override;

  std::mutex mutex_;
  std::vector<socket_t> idle_;  // connections that wait for a request
};

}  // namespace weft::serve
