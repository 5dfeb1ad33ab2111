// One of the server's addresses, and which paths can be reached there.
#pragma once

#include "service.h"

namespace weft::serve {

// May be used by any thread.
class Door final : public HttpHandler {
 public:
  // everything: there is no other door. api: without what `admin` is for, /metrics and /slots. Both have the probes.
  enum class Kind { everything, api, admin };
  Door(Service& service, Kind kind) : service_(service), kind_(kind) {}

  std::optional<HttpResponse> answer_head(const HttpRequest& request) override {
    return leads_to(request.path) ? service_.answer_head(request) : service_.hide(request);
  }
  HttpResponse answer(HttpRequest& request, HttpClient& client) override { return service_.answer(request, client); }
  HttpResponse refuse(const HttpFault& fault, const std::string& client, const std::string& path) override {
    return service_.refuse(fault, client, path);
  }

 private:
  bool leads_to(const std::string& path) const {
    if (kind_ == Kind::everything || path == "/livez" || path == "/readyz" || path == "/health") return true;
    const bool admin = path == "/metrics" || path == "/slots" || path.starts_with("/slots/");
    return admin == (kind_ == Kind::admin);
  }

  Service& service_;
  const Kind kind_;
};

}  // namespace weft::serve
