#include "service.h"

#include <arpa/inet.h>
#include <weft/text.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "../weft/common.h"
#include "exchange.h"
#include "fields.h"
#include "page.html.h"
#include "responses.h"

namespace weft::serve {
namespace {

// Takes as long for every wrong key of any length.
bool same_key(const std::string& given, const std::string& key) {
  volatile unsigned char difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    difference = static_cast<unsigned char>(difference | (other ^ key[i]));
  }
  return difference == 0;
}

// "[::1]:8080" -> "::1", "localhost:80" -> "localhost"
std::string host_of(std::string text) {
  if (text.starts_with('[')) return text.substr(1, std::min(text.find(']'), text.size()) - 1);
  return text.substr(0, text.find(':'));
}

bool is_address(const std::string& host) {
  in6_addr address;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

void answer_json(httplib::Response& response, const Json& json) {
  response.status = 200;
  response.set_content(bytes_of(json), "application/json");
}

std::vector<std::uint32_t> chat_ids(const api::Model& model, const CompletionRequest& request) {
  const std::string conversation = bytes_of({{"messages", request.messages}, {"tools", request.tools}});
  return api::detail::ids(
      conversation.size() + 256, [&](std::uint32_t* out, std::size_t capacity, std::size_t* count, weft_error* error) {
        return weft_apply_chat_template_json(model.get(), conversation.c_str(), out, capacity, count, error);
      });
}

RequestError bad_request(int status, const std::string& code, const std::string& message) {
  return RequestError(status, "invalid_request_error", code, message);
}

// What the body will be is refused before it is read.
void check_body_headers(const httplib::Request& request) {
  const std::string type = request.get_header_value("Content-Type");
  if (type.substr(0, type.find(';')) != "application/json")
    throw bad_request(415, "unsupported_media_type", "The Content-Type must be application/json.");
  if (request.has_header("Content-Encoding"))
    throw bad_request(415, "unsupported_encoding", "A Content-Encoding is not supported.");
  const std::size_t lengths = request.get_header_value_count("Content-Length");
  const std::size_t codings = request.get_header_value_count("Transfer-Encoding");
  if (lengths + codings != 1)
    throw bad_request(400, "invalid_length", "One Content-Length or one Transfer-Encoding is required.");
  if (codings == 1 && request.get_header_value("Transfer-Encoding") != "chunked")
    throw bad_request(400, "invalid_length", "The Transfer-Encoding must be chunked.");
  const std::string length = request.get_header_value("Content-Length");
  if (lengths == 1 && (length.empty() || length.find_first_not_of("0123456789") != length.npos))
    throw bad_request(400, "invalid_length", "The Content-Length must be a number.");
  if (lengths == 1 && (length.size() > 9 || std::stoul(length) > kMostBodyBytes))
    throw bad_request(413, "body_too_large", cli::format("The body is larger than %zu bytes.", kMostBodyBytes));
}

}  // namespace

Service::Service(HttpServer& server, Metrics& metrics, Access access)
    : metrics_(metrics), access_(std::move(access)), started_(std::time(nullptr)) {
  server.set_pre_routing_handler([this](const Request& request, Response& response) {
    try {
      return before_routing(request, response);
    } catch (...) {
      HttpServer::connection().close_after();  // its body is not read
      answer_error(response, current_error());
      return Done::Handled;
    }
  });
  const auto post = [&](const char* path, auto handler) {
    server.Post(path, [handler](const Request& request, Response& response) {
      try {
        handler(request, response);
      } catch (...) {
        answer_error(response, current_error());
      }
    });
  };
  post("/v1/chat/completions", [this](const Request& q, Response& r) { complete(q, r, Form::chat); });
  post("/v1/completions", [this](const Request& q, Response& r) { complete(q, r, Form::completion); });
  post("/v1/responses", [this](const Request& q, Response& r) { complete(q, r, Form::response); });
  post("/v1/embeddings", [this](const Request& q, Response& r) { embed(q, r); });
  post("/slots/[0-9]{1,3}", [this](const Request& q, Response& r) { change_slot(q, r); });
  post("/tokenize", [this](const Request& q, Response& r) { tokenize(q, r); });
  post("/detokenize", [this](const Request& q, Response& r) { detokenize(q, r); });
  post("/apply-template", [this](const Request& q, Response& r) { apply_template(q, r); });
  // What httplib itself refuses.
  const httplib::Server::HandlerWithResponse on_error = [](const Request& request, Response& response) {
    if (!response.body.empty()) return Done::Unhandled;
    Connection& connection = HttpServer::connection();
    connection.close_after();
    if (connection.too_large()) response.status = request.method.empty() || request.body.empty() ? 431 : 413;
    const char* sentence = response.status == 431   ? "The headers or the body are too large."
                           : response.status == 414 ? "The path is too long."
                           : response.status == 413 ? "The body is too large."
                           : response.status == 404 ? "There is nothing at this path for this method."
                                                    : "The request is not well-formed HTTP.";
    answer_error(response, bad_request(response.status, "bad_request", sentence));
    return Done::Handled;
  };
  server.set_error_handler(on_error);
  server.set_post_routing_handler([this](const Request&, Response& response) {
    response.set_header("X-Content-Type-Options", "nosniff");
    if (!access_.cors.empty()) response.set_header("Access-Control-Allow-Origin", access_.cors);
    if (!HttpServer::connection().closing()) return;
    response.headers.erase("Keep-Alive");
    response.headers.erase("Connection");
    response.set_header("Connection", "close");
  });
}

const Loaded& Service::loaded() const {
  const Loaded* loaded = loaded_;
  if (!loaded) throw RequestError(503, "unavailable_error", "loading", "The model is being loaded.");
  return *loaded;
}

// Throws for a request that is not allowed. open: without a key.
void Service::admit(const Request& request, bool open) const {
  if (access_.key.empty()) {
    // Without a key, a page of another site must not reach the server through a name that leads here.
    const std::string host = host_of(request.get_header_value("Host"));
    if (!is_address(host) && host != "localhost" && std::ranges::find(access_.hosts, host) == access_.hosts.end())
      throw bad_request(403, "wrong_host", "The Host must be an address, localhost or the server's --host.");
    return;
  }
  if (open) return;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string given = request.get_header_value("Authorization");
  if (given.empty()) throw bad_request(401, "missing_api_key", "An API key is required: Authorization: Bearer KEY.");
  if (!given.starts_with(kScheme) || !same_key(given.substr(kScheme.size()), access_.key))
    throw bad_request(401, "invalid_api_key", "The API key is wrong.");
}

Service::Done Service::before_routing(const Request& request, Response& response) {
  static constexpr std::string_view kPosts[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                                                "/v1/embeddings",       "/tokenize",       "/detokenize",
                                                "/apply-template"};
  const std::string& path = request.path;
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (allow_origin(request, response)) return Done::Handled;
  admit(request, reads && (path == "/" || path == "/health"));
  if (reads && path == "/") return show_page(response), Done::Handled;
  if (reads && path == "/health") return show_health(response), Done::Handled;
  if (reads && path == "/metrics") return show_metrics(response), Done::Handled;
  if (reads && (path == "/v1/models" || path.starts_with("/v1/models/")))
    return show_models(request, response), Done::Handled;
  if (reads && path == "/slots") return show_slots(response), Done::Handled;
  const bool posts = std::ranges::find(kPosts, path) != std::end(kPosts) || path.starts_with("/slots/");
  if (posts && request.method == "POST") {
    check_body_headers(request);
    return Done::Unhandled;
  }
  const bool known = posts || path == "/" || path == "/health" || path == "/metrics" || path == "/slots" ||
                     path == "/v1/models" || path.starts_with("/v1/models/");
  if (known) response.set_header("Allow", posts ? "POST" : "GET, HEAD");
  throw bad_request(known ? 405 : 404, known ? "method_not_allowed" : "not_found",
                    "There is no " + request.method + " " + path.substr(0, 80) + " here.");
}

// Answers what a browser asks before it lets another site's page call (a CORS preflight), which never has the key.
bool Service::allow_origin(const Request& request, Response& response) const {
  if (access_.cors.empty() || request.method != "OPTIONS" || !request.has_header("Access-Control-Request-Method"))
    return false;
  admit(request, true);
  const std::string names = request.get_header_value("Access-Control-Request-Headers");
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ',' ||
           c == ' ';
  };
  if (!names.empty() && std::ranges::all_of(names, good)) response.set_header("Access-Control-Allow-Headers", names);
  response.set_header("Access-Control-Allow-Methods", "GET, POST");
  response.set_header("Access-Control-Max-Age", "600");
  response.status = 204;
  return true;
}

// A new number in each answer lets the page's own script and style run, and no other.
void Service::show_page(Response& response) const {
  std::random_device random;
  const std::string nonce = cli::format("%08x%08x%08x%08x", random(), random(), random(), random());
  std::string page(reinterpret_cast<const char*>(page_html), sizeof page_html);
  constexpr std::string_view kPlace = "{{nonce}}";
  for (std::size_t at = page.find(kPlace); at != page.npos; at = page.find(kPlace, at))
    page.replace(at, kPlace.size(), nonce);
  response.set_header("Content-Security-Policy", "default-src 'none'; script-src 'nonce-" + nonce +
                                                     "'; style-src 'nonce-" + nonce +
                                                     "'; connect-src 'self'; img-src data:; base-uri 'none'; "
                                                     "form-action 'none'; frame-ancestors 'none'");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cache-Control", "no-store");
  response.status = 200;
  response.set_content(page, "text/html; charset=utf-8");
}

void Service::show_health(Response& response) const {
  const std::string broken = loaded().broken();
  if (!broken.empty()) throw RequestError(503, "unavailable_error", "failed", broken);
  answer_json(response, {{"status", "ok"}});
}

// Also while the model loads.
void Service::show_metrics(Response& response) const {
  const Loaded* loaded = loaded_;
  const Engine::Load load = loaded && loaded->engine ? loaded->engine->load() : Engine::Load();
  response.status = 200;
  response.set_content(metrics_.text(load.waiting, load.running, load.most),
                       "text/plain; version=0.0.4; charset=utf-8");
}

void Service::show_models(const Request& request, Response& response) const {
  const ModelFacts& facts = loaded().facts;
  const Json model = {{"id", facts.name},   {"object", "model"},        {"created", started_},
                      {"owned_by", "weft"}, {"context", facts.context}, {"vocab_size", facts.vocab_size}};
  if (request.path == "/v1/models") return answer_json(response, {{"object", "list"}, {"data", Json::array({model})}});
  const std::string name = request.path.substr(std::string_view("/v1/models/").size());
  if (name != facts.name)
    throw bad_request(404, "model_not_found", "There is no model \"" + name.substr(0, 80) + "\" here.");
  answer_json(response, model);
}

void Service::complete(const Request& request, Response& response, Form form) const {
  const auto counted = std::make_shared<CountedRequest>(metrics_);
  try {
    complete(request, response, form, counted);
  } catch (...) {
    counted->set(outcome_of(current_error()));
    throw;
  }
}

void Service::complete(const Request& request, Response& response, Form form,
                       std::shared_ptr<CountedRequest> counted) const {
  const Loaded& ready = loaded();
  if (!ready.engine) throw bad_field("model", "The model \"" + ready.facts.name + "\" writes no text.", "unsupported");
  CompletionRequest asked = form == Form::chat         ? parse_chat(request.body, ready.facts)
                            : form == Form::completion ? parse_completion(request.body, ready.facts)
                                                       : parse_response(request.body, ready.facts);
  std::vector<std::uint32_t>& ids = asked.task.prompt;
  const char* field = form == Form::chat ? "messages" : form == Form::completion ? "prompt" : "input";
  try {
    if (form != Form::completion) {
      ids = chat_ids(ready.model, asked);
    } else {
      ids = asked.ids.empty() ? ready.model.tokenize(asked.prompt, true) : asked.ids;
    }
  } catch (const api::Failure& error) {
    if (error.status() == WEFT_OUT_OF_MEMORY || error.status() == WEFT_INTERNAL) throw;
    throw bad_field(error.place() == "tools" ? "tools" : field, error.what(), "unsupported");
  }
  if (ids.empty()) throw bad_field(field, "The prompt has no token.");
  if (ids.size() >= ready.facts.context)
    throw bad_field(field,
                    cli::format("The prompt has %zu tokens, and at most %u fit.", ids.size(), ready.facts.context - 1),
                    "context_length_exceeded");
  const bool stream = asked.stream;
  const auto exchange = std::make_shared<Exchange>(ready, *ready.engine, std::move(asked), HttpServer::connection(),
                                                   access_.deadline, std::move(counted));
  if (!stream) return answer_json(response, exchange->whole());
  exchange->await_begin(kSilentTime);
  response.set_header("Cache-Control", "no-cache");
  response.set_header("X-Accel-Buffering", "no");  // proxies pass on each event at once
  response.set_chunked_content_provider(
      "text/event-stream", [exchange](std::size_t, httplib::DataSink& sink) { return exchange->stream(sink); });
}

void Service::embed(const Request& request, Response& response) const {
  CountedRequest counted(metrics_);
  try {
    embed(request, response, counted);
  } catch (...) {
    counted.set(outcome_of(current_error()));
    throw;
  }
}

void Service::embed(const Request& request, Response& response, CountedRequest& counted) const {
  const auto deadline = std::chrono::steady_clock::now() + access_.deadline;
  const Loaded& ready = loaded();
  if (!ready.embedder)
    throw bad_field("model", "The model \"" + ready.facts.name + "\" has no encoder, and makes no embeddings.",
                    "unsupported");
  const EmbeddingRequest asked = parse_embeddings(request.body, ready.facts, ready.model);
  Embedder::Place place(*ready.embedder);
  Json data = Json::array();
  std::size_t tokens = 0;
  for (const std::vector<std::uint32_t>& ids : asked.inputs) {
    check_wanted(HttpServer::connection(), deadline);
    data.push_back(embedding_json(data.size(), place.embed(ids), asked.base64));
    tokens += ids.size();
  }
  metrics_.count_prompt(tokens, 0);
  answer_json(response, {{"object", "list"},
                         {"data", data},
                         {"model", ready.facts.name},
                         {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
  counted.set(Outcome::stop);
}

const Loaded& Service::loaded_with_slots() const {
  const Loaded& ready = loaded();
  if (!ready.states || !ready.engine)
    throw bad_request(404, "slots_off", "There are no slots: the server was started without --states FOLDER.");
  return ready;
}

void Service::show_slots(Response& response) const {
  const Loaded& ready = loaded_with_slots();
  Json list = Json::array();
  for (const Engine::SlotNews& slot : ready.engine->slots())
    list.push_back({{"id", list.size()},
                    {"n_ctx", ready.facts.context},
                    {"is_processing", slot.busy},
                    {"n_tokens", slot.busy ? Json() : Json(slot.tokens)}});
  answer_json(response, list);
}

// The forms of requests and answers are those of llama.cpp's server.
void Service::change_slot(const Request& request, Response& response) const {
  const Loaded& ready = loaded_with_slots();
  const auto id = static_cast<std::uint32_t>(std::stoul(request.path.substr(std::string_view("/slots/").size())));
  const std::string action = request.get_param_value("action");
  if (action != "save" && action != "restore" && action != "erase")
    throw bad_field("action", "The query must have action=save, action=restore or action=erase.");
  const Json body = parse_body(request.body);
  Fields fields(body, "");
  const std::string name = action == "erase" ? "" : text_of(fields.need("filename"), "filename");
  fields.refuse_rest();
  Json answer = {{"id_slot", id}};
  ready.engine->use_slot(id, [&](api::Session& session) {
    if (action == "erase") {
      answer["n_erased"] = session.stats().context_used;
      return session.reset();
    }
    const bool saves = action == "save";
    if (saves && session.stats().context_used == 0) throw bad_field("id_slot", "The slot is empty.");
    const std::uint64_t bytes = saves ? ready.states->save(session, name) : ready.states->restore(session, name);
    answer["filename"] = name;
    answer[saves ? "n_saved" : "n_restored"] = session.stats().context_used;
    answer[saves ? "n_written" : "n_read"] = bytes;
  });
  answer_json(response, answer);
}

void Service::tokenize(const Request& request, Response& response) const {
  const TokenizeRequest asked = parse_tokenize(request.body);
  answer_json(response, {{"tokens", loaded().model.tokenize(asked.text, asked.add_special, asked.parse_special)}});
}

void Service::detokenize(const Request& request, Response& response) const {
  const Loaded& ready = loaded();
  answer_json(response, {{"content", ready.model.detokenize(parse_detokenize(request.body, ready.facts))}});
}

void Service::apply_template(const Request& request, Response& response) const {
  answer_json(response, {{"tokens", chat_ids(loaded().model, parse_apply_template(request.body))}});
}

}  // namespace weft::serve
