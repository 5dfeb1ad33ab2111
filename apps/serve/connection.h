// A client's connection: requests are read one after another, and each is answered before the next one is looked at.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>

#include "request_reader.h"

namespace weft::serve {

class Connection;

// State that a server's connections share. Used by their thread only.
struct Connections {
  using Place = std::list<std::shared_ptr<Connection>>::iterator;

  HttpHandler& handler;
  // Runs an answer on a thread that may wait.
  std::function<void(std::function<void()>)> work;
  std::size_t most_body_bytes;  // of all requests together

  std::list<std::shared_ptr<Connection>> busy;  // with a request that is being answered
  std::list<std::shared_ptr<Connection>> idle;  // all others; the one that has been idle for longest is first
  std::size_t body_bytes = 0;                   // of requests that have not been answered
  bool closing = false;                         // no further request is read
  char buffer[64 << 10];                        // for what one receives
};

class Connection final : public HttpClient, public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  Connection(Connections& all, Socket socket);

  // All but these two are for the thread of the connections.
  bool alive() const override { return !gone_; }
  bool write(std::string_view bytes) override;

  void start();
  // It has waited for a request, or for its rest, for a second.
  bool is_long_idle() const { return Clock::now() > idle_since_ + std::chrono::seconds(1); }
  // Closes it, unless a request is being answered: then after that.
  void end_after_answer();
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  // idle: until the first byte of a request. lingering: all is sent, and the client has a moment to read it.
  enum class Phase { idle, head, body, answering, lingering, closed };

  void await_input();
  void on_input();
  void on_client_end();
  void read_request();
  void dispatch();
  void answer_from_worker(HttpRequest& request);
  void respond(const HttpResponse& response);
  void queue(std::string_view bytes, bool begins_answer = false);
  void flush();
  void await_room();
  void end_answer(bool whole);
  void next_request();
  void linger();
  void set_timer(std::chrono::milliseconds time);
  void on_timer();
  std::uint64_t acknowledged();
  void count_body(std::size_t bytes);
  void move_to(std::list<std::shared_ptr<Connection>>& list);
  std::string head_of(const HttpResponse& response) const;

  Connections& all_;
  Socket socket_;
  const std::string client_;  // its address
  boost::asio::steady_timer timer_;
  Connections::Place place_;
  std::list<std::shared_ptr<Connection>>* list_ = nullptr;
  Phase phase_ = Phase::idle;
  Clock::time_point idle_since_ = Clock::now();
  std::string input_;  // that no request has taken
  RequestReader reader_;
  std::size_t counted_body_ = 0;  // in all_.body_bytes
  std::size_t lingered_ = 0;      // bytes that came while lingering
  bool awaits_input_ = false, awaits_room_ = false, client_ended_ = false, answer_ended_ = false;
  bool timed_write_ = false;                 // the timer is the one of a slow client
  std::uint64_t all_sent_ = 0;               // bytes of all answers
  std::uint64_t taken_ = 0;                  // bytes that the client had acknowledged when the timer was set
  bool head_only_ = false, http10_ = false;  // set before a worker has the request

  std::atomic<bool> keep_ = true;  // another request may follow
  std::atomic<bool> gone_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable drained_;
  std::string output_;
  std::size_t sent_ = 0;  // bytes of it
  bool flushing_ = false, answer_begun_ = false;
};

}  // namespace weft::serve
