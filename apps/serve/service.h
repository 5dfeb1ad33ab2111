// Answers each path of the interface.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "answers.h"
#include "conversation.h"
#include "embeddings.h"
#include "http.h"
#include "keys.h"
#include "request_log.h"
#include "turns.h"

namespace weft::serve {

constexpr std::chrono::seconds kSilentTime{3};  // a stream that waits longer begins, and has a comment each so often

struct Access {
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

class Service final : public HttpHandler {
 public:
  // keys: one is needed if there are any. They, the metrics and the log outlive it.
  Service(Metrics& metrics, RequestLog& log, const Keys& keys, Access access);

  // Until there is one, requests are answered with 503. `loaded` lives until the server has ended.
  void set(const Loaded* loaded);
  // Refuses requests from now on.
  void drain() { draining_ = true; }
  // Ends requests that wait for something other than the engine.
  void close() { turns_.close(); }

  std::optional<HttpResponse> answer_head(const HttpRequest& request) override;
  HttpResponse answer(HttpRequest& request, HttpClient& client) override;
  HttpResponse refuse(const HttpFault& fault, const std::string& client) override;

 private:
  HttpResponse finish(HttpResponse response, RequestRecord& record) const;
  std::optional<HttpResponse> read_path(const HttpRequest& request) const;
  HttpResponse post_path(HttpRequest& request, HttpClient& client, const std::shared_ptr<RequestRecord>& record);
  void admit(const HttpRequest& request, bool open) const;
  std::shared_ptr<KeyUse> key_of(const HttpRequest& request) const;
  std::optional<HttpResponse> allow_origin(const HttpRequest& request) const;
  HttpResponse show_page() const;
  HttpResponse show_health() const;
  HttpResponse show_metrics() const;
  HttpResponse show_models(const std::string& path) const;
  HttpResponse complete(HttpRequest& request, HttpClient& client, Form form, std::optional<Turn>& turn,
                        const std::shared_ptr<RequestRecord>& record) const;
  HttpResponse embed(const HttpRequest& request, const HttpClient& client, std::optional<Turn>& turn,
                     RequestRecord& record) const;
  HttpResponse show_slots() const;
  HttpResponse change_slot(const HttpRequest& request, std::uint32_t id) const;
  HttpResponse tokenize(const HttpRequest& request) const;
  HttpResponse detokenize(const HttpRequest& request) const;
  void prepare(CompletionRequest& asked) const;
  HttpResponse count_tokens(const HttpRequest& request) const;
  HttpResponse apply_template(const HttpRequest& request) const;
  const Loaded& loaded() const;
  const Loaded& loaded_with_slots() const;

  Metrics& metrics_;
  RequestLog& log_;
  const Keys& keys_;
  const Access access_;
  const std::int64_t started_;                  // seconds since 1970
  std::optional<Conversations> conversations_;  // of a model that writes; set before `loaded_`
  std::atomic<const Loaded*> loaded_ = nullptr;
  std::atomic<bool> draining_ = false;
  Turns turns_;
};

}  // namespace weft::serve
