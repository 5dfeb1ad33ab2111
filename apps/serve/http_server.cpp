#include "http_server.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <weft/weft.hpp>

namespace weft::serve {
namespace {

thread_local Connection* current_connection = nullptr;

constexpr int kBacklog = 511;  // connections that the kernel keeps until there is a thread for them

// A fixed number of threads. While all are busy, enqueue() waits, and with it the thread that accepts connections.
class BoundedPool final : public httplib::TaskQueue {
 public:
  explicit BoundedPool(std::size_t threads) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return busy_ + tasks_.size() < threads_.size(); });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      ++busy_;
      lock.unlock();
      task();
      lock.lock();
      --busy_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::size_t busy_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace

HttpServer::HttpServer(std::size_t connections) {
  new_task_queue = [connections] { return new BoundedPool(connections); };
  set_payload_max_length(kMostBodyBytes);
  set_tcp_nodelay(true);
  set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // not SO_REUSEPORT: two servers must not share
  });
}

int HttpServer::bind(const std::string& host, int port) {
  const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
  if (bound < 0)
    throw api::Failure(WEFT_IO, std::string("the address cannot be used: ") + std::strerror(errno),
                       host + ":" + std::to_string(port));
  ::listen(svr_sock_, kBacklog);
  return bound;
}

void HttpServer::shut_down() {
  stop();
  const std::lock_guard lock(mutex_);
  for (const socket_t socket : idle_) ::shutdown(socket, SHUT_RD);
}

Connection& HttpServer::connection() { return *current_connection; }

bool HttpServer::process_and_close_socket(socket_t socket) {
  Connection connection(socket);
  current_connection = &connection;
  const auto await = [&] {
    {
      const std::lock_guard lock(mutex_);
      if (svr_sock_ == INVALID_SOCKET) return false;
      idle_.push_back(socket);
    }
    const bool came = connection.await_request();
    const std::lock_guard lock(mutex_);
    std::erase(idle_, socket);
    return came;
  };
  bool good = true;
  while (good && !connection.closing() && await()) {
    bool closed = false;
    good = process_request(connection, false, closed, [&](httplib::Request& request) {
      connection.begin_body();
      // Answers are neither compressed nor cut into ranges.
      request.headers.erase("Accept-Encoding");
      request.ranges.clear();
    });
    if (closed) break;
  }
  current_connection = nullptr;
  return good;
}

}  // namespace weft::serve
