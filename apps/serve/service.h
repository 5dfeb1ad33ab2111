// What the server answers at each path.
#pragma once

#include <atomic>
#include <memory>

#include "answers.h"
#include "embeddings.h"
#include "http_server.h"

namespace weft::serve {

constexpr std::chrono::seconds kSilentTime{3};  // a stream that waits longer begins, and has a comment each so often

struct Access {
  std::string key;                 // empty: none is needed
  std::string cors;                // whose pages may call besides our own: an origin, or "*"; empty: none
  std::vector<std::string> hosts;  // names, besides addresses and localhost, by which a browser may call without a key
  std::chrono::seconds deadline;   // of a request, from its arrival to the end of its answer
};

// A model that is ready.
struct Loaded {
  const api::Model& model;
  ModelFacts facts;
  Engine* engine;      // nullptr: it does not write
  Embedder* embedder;  // nullptr: it has no encoder
  States* states;      // nullptr: there are no slots

  // Why no request can be answered any more; empty: they can.
  std::string broken() const { return engine ? engine->broken() : embedder->broken(); }
};

class Service {
 public:
  // Adds its handlers to the server, which it must outlive. The metrics outlive both.
  Service(HttpServer& server, Metrics& metrics, Access access);

  // Until there is one, requests are answered with 503. `loaded` lives until the server has ended.
  void set(const Loaded* loaded) { loaded_ = loaded; }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;
  using Done = httplib::Server::HandlerResponse;

  Done before_routing(const Request& request, Response& response);
  void admit(const Request& request, bool open) const;
  bool allow_origin(const Request& request, Response& response) const;
  void show_page(Response& response) const;
  void show_health(Response& response) const;
  void show_metrics(Response& response) const;
  void show_models(const Request& request, Response& response) const;
  void complete(const Request& request, Response& response, Form form) const;
  void complete(const Request& request, Response& response, Form form, std::shared_ptr<CountedRequest> counted) const;
  void embed(const Request& request, Response& response) const;
  void embed(const Request& request, Response& response, CountedRequest& counted) const;
  void show_slots(Response& response) const;
  void change_slot(const Request& request, Response& response) const;
  void tokenize(const Request& request, Response& response) const;
  void detokenize(const Request& request, Response& response) const;
  void apply_template(const Request& request, Response& response) const;
  const Loaded& loaded() const;
  const Loaded& loaded_with_slots() const;

  Metrics& metrics_;
  const Access access_;
  const std::int64_t started_;  // seconds since 1970
  std::atomic<const Loaded*> loaded_ = nullptr;
};

}  // namespace weft::serve
