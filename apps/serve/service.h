// Answers each path of the interface.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "answers.h"
#include "http.h"
#include "keys.h"
#include "models.h"
#include "request_log.h"
#include "turns.h"

namespace weft::serve {

constexpr std::chrono::seconds kSilentTime{3};  // a stream that waits longer begins, and has a comment each so often

struct Access {
  std::string cors;                // whose pages may call besides our own: an origin, or "*"; empty: none
  std::vector<std::string> hosts;  // names, besides addresses and localhost, by which a browser may call without a key
  std::chrono::seconds deadline;   // of a request, from its arrival to the end of its answer
};

class Service {
 public:
  // keys: one is needed if there are any. They, the metrics and the log outlive it.
  Service(Metrics& metrics, RequestLog& log, const Keys& keys, Access access);

  // Until there are some, requests are answered with 503. They live until the server has ended.
  void set(Models* models) { models_ = models; }
  // Refuses requests from now on.
  void drain() { draining_ = true; }
  // Ends requests that wait for something other than the engine.
  void close() {
    closing_ = true;
    turns_.close();
  }

  // As HttpHandler has them.
  std::optional<HttpResponse> answer_head(const HttpRequest& request);
  HttpResponse answer(HttpRequest& request, HttpClient& client);
  HttpResponse refuse(const HttpFault& fault, const std::string& client, const std::string& path);
  // The answer to a request that is for another address of the server.
  HttpResponse hide(const HttpRequest& request);

 private:
  HttpResponse finish(HttpResponse response, RequestRecord& record) const;
  std::optional<HttpResponse> read_path(const HttpRequest& request) const;
  HttpResponse post_path(HttpRequest& request, HttpClient& client, const std::shared_ptr<RequestRecord>& record);
  HttpResponse post_to(const std::shared_ptr<const Loaded>& ready, HttpRequest& request, HttpClient& client,
                       std::optional<Turn>& turn, const std::shared_ptr<RequestRecord>& record) const;
  void admit(const HttpRequest& request, bool open) const;
  bool is_allowed_host(const std::string& host) const;
  void check_origin(const HttpRequest& request) const;
  std::shared_ptr<KeyUse> key_of(const HttpRequest& request) const;
  std::optional<HttpResponse> allow_origin(const HttpRequest& request) const;
  HttpResponse show_page() const;
  HttpResponse show_health() const;
  HttpResponse show_metrics() const;
  HttpResponse show_models(const std::string& path) const;
  HttpResponse complete(HttpRequest& request, HttpClient& client, Form form, std::optional<Turn>& turn,
                        const std::shared_ptr<const Loaded>& ready, const std::shared_ptr<RequestRecord>& record) const;
  HttpResponse rerank(const HttpRequest& request, const HttpClient& client, std::optional<Turn>& turn,
                      const Loaded& ready, RequestRecord& record) const;
  HttpResponse embed(const HttpRequest& request, const HttpClient& client, std::optional<Turn>& turn,
                     const Loaded& ready, RequestRecord& record) const;
  HttpResponse transcribe(HttpRequest& request, HttpClient& client, std::optional<Turn>& turn,
                          const std::shared_ptr<const Loaded>& ready,
                          const std::shared_ptr<RequestRecord>& record) const;
  HttpResponse show_slots() const;
  HttpResponse change_slot(const HttpRequest& request, std::uint32_t id) const;
  HttpResponse tokenize(const HttpRequest& request, const Loaded& ready) const;
  HttpResponse detokenize(const HttpRequest& request, const Loaded& ready) const;
  HttpResponse count_tokens(const HttpRequest& request, const Loaded& ready) const;
  HttpResponse apply_template(const HttpRequest& request, const Loaded& ready) const;
  Models& models() const;
  std::shared_ptr<const Loaded> asked_model(const HttpRequest& request, const HttpClient& client) const;
  std::shared_ptr<const Loaded> model_with_slots() const;

  Metrics& metrics_;
  RequestLog& log_;
  const Keys& keys_;
  const Access access_;
  const std::int64_t started_;  // seconds since 1970
  std::atomic<Models*> models_ = nullptr;
  std::atomic<bool> draining_ = false, closing_ = false;
  Turns turns_;
};

}  // namespace weft::serve
