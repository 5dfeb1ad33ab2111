#include "service.h"

#include <arpa/inet.h>
#include <weft/text.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <random>
#include <utility>

#include "../weft/common.h"
#include "exchange.h"
#include "fields.h"
#include "messages.h"
#include "page.html.h"
#include "responses.h"

namespace weft::serve {
namespace {

constexpr std::string_view kRerank = "/v1/rerank";
constexpr std::string_view kTranscriptions = "/v1/audio/transcriptions", kTranslations = "/v1/audio/translations";
constexpr std::string_view kMessages = "/v1/messages", kCountTokens = "/v1/messages/count_tokens";

// "[::1]:8080" -> "::1", "localhost:80" -> "localhost"
std::string host_of(std::string text) {
  if (text.starts_with('[')) return text.substr(1, std::min(text.find(']'), text.size()) - 1);
  return text.substr(0, text.find(':'));
}

bool is_address(const std::string& host) {
  in6_addr address;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

HttpResponse json_response(const Json& json) { return {200, {}, "application/json", bytes_of(json), {}}; }

RequestError bad_request(int status, const std::string& code, const std::string& message) {
  return RequestError(status, "invalid_request_error", code, message);
}

// known: with another method there is.
RequestError no_such_path(const HttpRequest& request, bool known = false) {
  return bad_request(known ? 405 : 404, known ? "method_not_allowed" : "not_found",
                     "There is no " + request.method + " " + request.path.substr(0, 80) + " here.");
}

bool takes_recording(const std::string& path) { return path == kTranscriptions || path == kTranslations; }

// Refuses a body that will be of no use, before it is read.
void check_body_headers(const HttpRequest& request) {
  const std::string* type = request.header("Content-Type");
  std::string_view media = type ? std::string_view(*type).substr(0, type->find(';')) : "";
  media = media.substr(0, media.find_last_not_of(" \t") + 1);
  const std::string wanted = takes_recording(request.path) ? "multipart/form-data" : "application/json";
  if (!same_word(media, wanted))
    throw bad_request(415, "unsupported_media_type", "The Content-Type must be " + wanted + ".");
  if (request.header("Content-Encoding"))
    throw bad_request(415, "unsupported_encoding", "A Content-Encoding is not supported.");
  if (!request.header("Content-Length") && !request.header("Transfer-Encoding"))
    throw bad_request(400, "invalid_length", "A Content-Length or a Transfer-Encoding is required.");
}

// "/slots/7" -> 7. Nothing if the path is none of a slot.
std::optional<std::uint32_t> slot_of(const std::string& path) {
  constexpr std::string_view kSlots = "/slots/";
  if (!path.starts_with(kSlots)) return std::nullopt;
  const std::string number = path.substr(kSlots.size());
  if (number.empty() || number.size() > 3 || number.find_first_not_of("0123456789") != number.npos) return std::nullopt;
  return static_cast<std::uint32_t>(std::stoul(number));
}

// The value of a name in "name=value&other=value"; nothing is decoded.
std::string query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      return std::string(pair.substr(name.size() + 1));
  }
  return {};
}

// "%20" -> " ". Anything else after a "%" stays as it is.
std::string decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    plain += escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return plain;
}

void prepare(CompletionRequest& asked, const Loaded& ready) {
  if (!ready.conversations)
    throw bad_field("model", "The model \"" + ready.facts.name + "\" writes no text.", "unsupported");
  ready.conversations->prepare(asked);
}

}  // namespace

Service::Service(Metrics& metrics, RequestLog& log, const Keys& keys, Access access)
    : metrics_(metrics), log_(log), keys_(keys), access_(std::move(access)), started_(std::time(nullptr)) {}

HttpResponse Service::finish(HttpResponse response, RequestRecord& record) const {
  record.status = response.status;
  response.headers.emplace_back("X-Request-Id", record.id);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  if (!access_.cors.empty()) response.headers.emplace_back("Access-Control-Allow-Origin", access_.cors);
  return response;
}

// In the form of the protocol that the path has.
static HttpResponse error_in_form(const RequestError& error, const std::string& path) {
  HttpResponse response = error_response(error);
  if (path.starts_with(kMessages)) response.body = bytes_of(message_error(error));
  return response;
}

HttpResponse Service::refuse(const HttpFault& fault, const std::string& client, const std::string& path) {
  HttpRequest unread;
  unread.client = client;
  unread.arrived = std::chrono::steady_clock::now();
  RequestRecord record(log_, metrics_, unread);
  const RequestError error = fault.status() == 429 ? RequestError(429, "rate_limit_error", "memory_full", fault.what())
                                                   : bad_request(fault.status(), "bad_request", fault.what());
  return finish(error_in_form(error, path), record);
}

std::optional<HttpResponse> Service::answer_head(const HttpRequest& request) {
  std::optional<HttpResponse> response;
  try {
    response = read_path(request);
  } catch (...) {
    response = error_in_form(current_error(), request.path);
  }
  if (!response) return response;
  RequestRecord record(log_, metrics_, request);
  return finish(std::move(*response), record);
}

HttpResponse Service::hide(const HttpRequest& request) {
  RequestRecord record(log_, metrics_, request);
  return finish(error_response(no_such_path(request)), record);
}

HttpResponse Service::answer(HttpRequest& request, HttpClient& client) {
  const auto record = std::make_shared<RequestRecord>(log_, metrics_, request);
  if (request.path.starts_with("/v1/") && request.path != kCountTokens) record->outcome = Outcome::cancelled;
  HttpResponse response;
  try {
    if (std::shared_ptr<KeyUse> key = key_of(request)) record->count_for(std::move(key));
    response = post_path(request, client, record);
  } catch (...) {
    const RequestError error = current_error();
    if (record->outcome) record->outcome = outcome_of(error);
    response = error_in_form(error, request.path);
  }
  return finish(std::move(response), *record);
}

HttpResponse Service::post_path(HttpRequest& request, HttpClient& client,
                                const std::shared_ptr<RequestRecord>& record) {
  const std::string& path = request.path;
  std::optional<Turn> turn;
  if (request.body.size() > kLargeBody) turn.emplace(turns_, client, request.arrived + access_.deadline);
  if (const auto slot = slot_of(path)) return change_slot(request, *slot);
  const std::shared_ptr<const Loaded> ready = asked_model(request, client);
  // From here on: others may wait for the model that this request has loaded.
  const EndsUnwanted ends(client, request.arrived + access_.deadline, closing_);
  try {
    return post_to(ready, request, client, turn, record);
  } catch (...) {
    throw ends.error();
  }
}

HttpResponse Service::post_to(const std::shared_ptr<const Loaded>& ready, HttpRequest& request, HttpClient& client,
                              std::optional<Turn>& turn, const std::shared_ptr<RequestRecord>& record) const {
  const std::string& path = request.path;
  if (path == "/v1/chat/completions") return complete(request, client, Form::chat, turn, ready, record);
  if (path == "/v1/completions") return complete(request, client, Form::completion, turn, ready, record);
  if (path == "/v1/responses") return complete(request, client, Form::response, turn, ready, record);
  if (path == kMessages) return complete(request, client, Form::message, turn, ready, record);
  if (path == kCountTokens) return count_tokens(request, *ready);
  if (takes_recording(path)) return transcribe(request, client, turn, ready, record);
  if (path == "/v1/embeddings") return embed(request, client, turn, *ready, *record);
  if (path == kRerank) return rerank(request, client, turn, *ready, *record);
  if (path == "/tokenize") return tokenize(request, *ready);
  if (path == "/detokenize") return detokenize(request, *ready);
  return apply_template(request, *ready);
}

Models& Service::models() const {
  Models* const models = models_;
  if (!models) throw RequestError(503, "unavailable_error", "loading", "The model is being loaded.");
  return *models;
}

// The model that the body names. If there is only one, any name is accepted.
std::shared_ptr<const Loaded> Service::asked_model(const HttpRequest& request, const HttpClient& client) const {
  Models& all = models();
  std::string name;
  if (all.several() && takes_recording(request.path)) {
    for (const FormPart& part : parse_form(*request.header("Content-Type"), request.body))
      if (part.name == "model") name = part.content.substr(0, 256);
  } else if (all.several()) {
    const Json body = parse_body(request.body);
    Fields fields(body, "");
    name = fields.text("model").value_or("");
  }
  const auto deadline = request.arrived + access_.deadline;
  return all.get(name, [&] { check_wanted(client, deadline); });
}

// Names of hosts have no case (RFC 9110).
bool Service::is_allowed_host(const std::string& host) const {
  return std::ranges::any_of(access_.hosts, [&](const std::string& one) { return same_word(one, host); });
}

// Throws for a request that is not allowed. open: without a key.
void Service::admit(const HttpRequest& request, bool open) const {
  if (keys_.empty()) {
    // Without a key, a page of another site must not reach the server through a name that leads here.
    const std::string* given_host = request.header("Host");
    const std::string host = given_host ? host_of(*given_host) : "";
    if (!is_address(host) && !same_word(host, "localhost") && !is_allowed_host(host))
      throw bad_request(403, "wrong_host",
                        "The Host must be an address, localhost, the server's --host or an --allow-host.");
    return;
  }
  if (open) return;
  const std::string* given = request.header("Authorization");
  const bool none = given ? given->empty() : !request.header("X-Api-Key");
  if (none) throw bad_request(401, "missing_api_key", "An API key is required: Authorization: Bearer KEY.");
  if (!key_of(request)) throw bad_request(401, "invalid_api_key", "The API key is wrong.");
}

// Without a key: a page of any site may have the browser send a form, whose type needs no preflight as JSON's does.
void Service::check_origin(const HttpRequest& request) const {
  const std::string* origin = request.header("Origin");
  if (!keys_.empty() || !origin) return;
  if (access_.cors == "*" || (!access_.cors.empty() && *origin == access_.cors)) return;
  const std::size_t scheme = origin->find("://");
  const std::string site = scheme == origin->npos ? "" : origin->substr(scheme + 3);
  const std::string* host = request.header("Host");
  if ((host && same_word(site, *host)) || is_allowed_host(host_of(site))) return;
  throw bad_request(403, "wrong_origin",
                    "A page of another site may not send recordings: --cors and --allow-host name those that may.");
}

// The key that the request has; nullptr if it is none of ours.
std::shared_ptr<KeyUse> Service::key_of(const HttpRequest& request) const {
  std::string given;
  if (const std::string* bearer = request.header("Authorization")) {
    const std::size_t space = std::min(bearer->find(' '), bearer->size());
    if (!same_word(bearer->substr(0, space), "Bearer")) return nullptr;
    given = bearer->substr(std::min(bearer->find_first_not_of(' ', space), bearer->size()));
  } else if (const std::string* alone = request.header("X-Api-Key")) {  // Anthropic's clients
    given = *alone;
  }
  return keys_.find(given);
}

// An answer that needs no body; nothing: the body decides. Throws RequestError.
std::optional<HttpResponse> Service::read_path(const HttpRequest& request) const {
  static constexpr std::string_view kPosts[] = {
      "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/tokenize",   "/detokenize",
      "/apply-template",      kMessages,         kCountTokens,    kTranscriptions,  kTranslations, kRerank};
  const std::string& path = request.path;
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (std::optional<HttpResponse> allowed = allow_origin(request)) return allowed;
  const bool ready = path == "/health" || path == "/readyz";
  admit(request, reads && (path == "/" || path == "/livez" || ready));
  const bool models = path == "/v1/models" || path.starts_with("/v1/models/");
  if (reads && path == "/") return show_page();
  if (reads && path == "/livez") return json_response({{"status", "ok"}});
  if (reads && ready) return show_health();
  if (reads && path == "/metrics") return show_metrics();
  if (reads && models) return show_models(path);
  if (reads && path == "/slots") return show_slots();
  const bool posts = std::ranges::find(kPosts, path) != std::end(kPosts) || slot_of(path);
  if (posts && request.method == "POST") {
    check_body_headers(request);
    if (takes_recording(path)) check_origin(request);
    if (draining_) throw RequestError(503, "unavailable_error", "draining", "The server is ending.");
    return std::nullopt;
  }
  const bool known =
      posts || path == "/" || path == "/livez" || ready || path == "/metrics" || path == "/slots" || models;
  HttpResponse response = error_response(no_such_path(request, known));
  if (known) response.headers.emplace_back("Allow", posts ? "POST" : "GET, HEAD");
  return response;
}

// Answers what a browser asks before it lets another site's page call (a CORS preflight), which never has the key.
std::optional<HttpResponse> Service::allow_origin(const HttpRequest& request) const {
  if (access_.cors.empty() || request.method != "OPTIONS" || !request.header("Access-Control-Request-Method"))
    return std::nullopt;
  admit(request, true);
  HttpResponse response = {204, {}, {}, {}, {}};
  const std::string* names = request.header("Access-Control-Request-Headers");
  const auto good = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (names && std::ranges::all_of(*names, [&](char c) { return c == ' ' || good(c); }))
    response.headers.emplace_back("Access-Control-Allow-Headers", *names);
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

// A new number in each answer lets the page's own script and style run, and no other.
HttpResponse Service::show_page() const {
  std::random_device random;
  const std::string nonce = cli::format("%08x%08x%08x%08x", random(), random(), random(), random());
  std::string page(reinterpret_cast<const char*>(page_html), sizeof page_html);
  constexpr std::string_view kPlace = "{{nonce}}";
  for (std::size_t at = page.find(kPlace); at != page.npos; at = page.find(kPlace, at))
    page.replace(at, kPlace.size(), nonce);
  const std::string policy = "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
                             "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                             "frame-ancestors 'none'";
  return {200,
          {{"Content-Security-Policy", policy}, {"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-store"}},
          "text/html; charset=utf-8",
          page,
          {}};
}

HttpResponse Service::show_health() const {
  if (draining_) throw RequestError(503, "unavailable_error", "draining", "The server is ending.");
  const std::string broken = models().broken();
  if (!broken.empty()) throw RequestError(503, "unavailable_error", "failed", broken);
  return json_response({{"status", "ok"}});
}

// Also while the model loads.
HttpResponse Service::show_metrics() const {
  const Models* const models = models_;
  const Engine::Load load = models ? models->load() : Engine::Load();
  const std::optional<double> busy = models ? models->busy() : std::nullopt;
  std::string text = metrics_.text(load.waiting, load.running, load.most, busy);
  return {200, {}, "text/plain; version=0.0.4; charset=utf-8", std::move(text), {}};
}

// Lists the models. Some fields are there only while a model is loaded.
HttpResponse Service::show_models(const std::string& path) const {
  const std::string name = path == "/v1/models" ? "" : decoded(path.substr(std::string_view("/v1/models/").size()));
  Json list = Json::array();
  for (const Models::Known& known : models().list()) {
    Json model = {{"id", known.name},
                  {"object", "model"},
                  {"created", started_},
                  {"owned_by", "weft"},
                  {"status", {{"value", known.loaded ? "loaded" : "unloaded"}}}};
    if (known.hears) model["hears"] = true;
    if (known.loaded)
      model.update({{"context", known.loaded->facts.context}, {"vocab_size", known.loaded->facts.vocab_size}});
    if (path != "/v1/models" && name == known.name) return json_response(model);
    list.push_back(model);
  }
  if (path == "/v1/models") return json_response({{"object", "list"}, {"data", list}});
  throw bad_request(404, "model_not_found", "There is no model \"" + name.substr(0, 80) + "\" here.");
}

HttpResponse Service::complete(HttpRequest& request, HttpClient& client, Form form, std::optional<Turn>& turn,
                               const std::shared_ptr<const Loaded>& model,
                               const std::shared_ptr<RequestRecord>& record) const {
  const Loaded& ready = *model;
  record->model = ready.facts.name;
  if (!ready.engine) throw bad_field("model", "The model \"" + ready.facts.name + "\" writes no text.", "unsupported");
  CompletionRequest asked = form == Form::chat         ? parse_chat(request.body, ready.facts)
                            : form == Form::completion ? parse_completion(request.body, ready.facts)
                            : form == Form::message    ? parse_message(request.body, ready.facts)
                                                       : parse_response(request.body, ready.facts);
  std::vector<std::uint32_t>& ids = asked.task.prompt;
  const char* field = form == Form::chat || form == Form::message ? "messages"
                      : form == Form::completion                  ? "prompt"
                                                                  : "input";
  try {
    if (form != Form::completion) {
      ready.conversations->prepare(asked);
      const auto deadline = request.arrived + access_.deadline;
      if (!asked.pictures.empty())
        ready.pictures->place(asked, ready.facts.context, [&] { check_wanted(client, deadline); });
    } else {
      ids = asked.ids.empty() ? ready.model.tokenize(asked.prompt, true, true) : asked.ids;
    }
  } catch (const api::Failure& error) {
    if (is_no_fields(error.status())) throw;
    throw bad_field(error.place() == "tools" ? "tools" : field, error.what(), "unsupported");
  }
  if (ids.empty()) throw bad_field(field, "The prompt has no token.");
  if (ids.size() >= ready.facts.context)
    throw bad_field(field,
                    cli::format("The prompt has %zu tokens, and at most %u fit.", ids.size(), ready.facts.context - 1),
                    "context_length_exceeded");
  asked.task.priority = record->priority;
  const bool stream = asked.stream;
  std::string().swap(request.body);
  turn.reset();
  const auto exchange =
      std::make_shared<Exchange>(model, std::move(asked), client, request.arrived + access_.deadline, closing_, record);
  if (!stream) return json_response(exchange->whole());
  exchange->await_begin(kSilentTime);
  // X-Accel-Buffering: proxies pass on each event at once.
  return {200, {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}, "text/event-stream", {}, [exchange] {
            return exchange->stream();
          }};
}

HttpResponse Service::embed(const HttpRequest& request, const HttpClient& client, std::optional<Turn>& turn,
                            const Loaded& ready, RequestRecord& record) const {
  const auto deadline = request.arrived + access_.deadline;
  record.model = ready.facts.name;
  if (!ready.embedder)
    throw bad_field("model", "The model \"" + ready.facts.name + "\" has no encoder, and makes no embeddings.",
                    "unsupported");
  const EmbeddingRequest asked = parse_embeddings(request.body, ready.facts, ready.model);
  turn.reset();
  Embedder::Place place(*ready.embedder);
  Json data = Json::array();
  std::size_t tokens = 0;
  for (const std::vector<std::uint32_t>& ids : asked.inputs) {
    check_wanted(client, deadline);
    const std::string& field = asked.fields[data.size()];
    try {
      data.push_back(embedding_json(data.size(), place.embed(ids, asked.dimensions), asked.base64));
    } catch (const api::Failure& failure) {
      if (failure.status() != WEFT_CONTEXT_FULL) throw;
      throw bad_field(field,
                      cli::format("The input has %zu tokens, and at most %u fit.", ids.size(), ready.facts.context),
                      "context_length_exceeded");
    }
    tokens += ids.size();
  }
  metrics_.count_prompt(tokens, 0);
  record.prompt_tokens = tokens;
  record.outcome = Outcome::stop;
  return json_response({{"object", "list"},
                        {"data", data},
                        {"model", ready.facts.name},
                        {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

HttpResponse Service::rerank(const HttpRequest& request, const HttpClient& client, std::optional<Turn>& turn,
                             const Loaded& ready, RequestRecord& record) const {
  const auto deadline = request.arrived + access_.deadline;
  record.model = ready.facts.name;
  const RerankRequest asked = parse_rerank(request.body);
  turn.reset();
  const auto refuse = [&](const std::string& why) {
    return bad_field("model", "The model \"" + ready.facts.name + "\" rates no documents: " + why + ".", "unsupported");
  };
  if (!ready.rater) throw refuse("it writes no text");
  Rater::Place place(*ready.rater);
  Ratings ratings;
  for (const std::string& document : asked.documents) {
    check_wanted(client, deadline);
    try {
      const api::Reranker::Rating rating = place.rate(asked, document);
      ratings.scores.push_back(rating.score);
      ratings.tokens += rating.tokens;
    } catch (const api::Failure& failure) {
      if (failure.status() == WEFT_UNSUPPORTED) throw refuse(failure.sentence());
      if (failure.status() != WEFT_CONTEXT_FULL) throw;
      throw bad_field(cli::format("documents[%zu]", ratings.scores.size()), failure.sentence() + ".",
                      "context_length_exceeded");
    }
  }
  metrics_.count_prompt(ratings.tokens, 0);
  record.prompt_tokens = ratings.tokens;
  record.outcome = Outcome::stop;
  return json_response(rerank_json(asked, ratings, ready.facts.name));
}

HttpResponse Service::transcribe(HttpRequest& request, HttpClient& client, std::optional<Turn>& turn,
                                 const std::shared_ptr<const Loaded>& ready,
                                 const std::shared_ptr<RequestRecord>& record) const {
  const auto deadline = request.arrived + access_.deadline;
  record->model = ready->facts.name;
  if (!ready->transcriber)
    throw bad_field("model", "The model \"" + ready->facts.name + "\" hears nothing.", "unsupported");
  TranscriptionRequest asked =
      parse_transcription(parse_form(*request.header("Content-Type"), request.body), request.path == kTranslations);
  std::string().swap(request.body);
  turn.reset();
  const auto task = std::make_shared<Transcriber::Task>(*ready->transcriber, std::move(asked));
  if (!task->request().stream) {
    const Transcript transcript = task->hear([](const auto&) {}, [&] { check_wanted(client, deadline); });
    record->outcome = Outcome::stop;
    return transcript_response(task->request(), transcript);
  }
  return {200,
          {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
          "text/event-stream",
          {},
          [task, ready, record, deadline, &client] {
            try {
              const Transcript transcript =
                  task->hear([&](const Transcript::Segment& segment) { client.write(delta_event(segment)); },
                             [&] { check_wanted(client, deadline); });
              record->outcome = Outcome::stop;
              return client.write(done_event(transcript));
            } catch (...) {
              const RequestError error = current_error();
              record->outcome = outcome_of(error);
              return client.write("data: " + bytes_of(error.json()) + "\n\n");
            }
          }};
}

std::shared_ptr<const Loaded> Service::model_with_slots() const {
  std::shared_ptr<const Loaded> ready = models().list().front().loaded;
  if (!ready || !ready->states || !ready->engine)
    throw bad_request(404, "slots_off", "There are no slots: the server was started without --states FOLDER.");
  return ready;
}

HttpResponse Service::show_slots() const {
  const std::shared_ptr<const Loaded> ready = model_with_slots();
  Json list = Json::array();
  for (const Engine::SlotNews& slot : ready->engine->slots())
    list.push_back({{"id", list.size()},
                    {"n_ctx", ready->facts.context},
                    {"is_processing", slot.busy},
                    {"n_tokens", slot.busy ? Json() : Json(slot.tokens)}});
  return json_response(list);
}

// The forms of requests and answers are those of llama.cpp's server.
HttpResponse Service::change_slot(const HttpRequest& request, std::uint32_t id) const {
  const std::shared_ptr<const Loaded> ready = model_with_slots();
  const std::string action = query_value(request.query, "action");
  if (action != "save" && action != "restore" && action != "erase")
    throw bad_field("action", "The query must have action=save, action=restore or action=erase.");
  const Json body = parse_body(request.body);
  Fields fields(body, "");
  const std::string name = action == "erase" ? "" : text_of(fields.need("filename"), "filename");
  fields.refuse_rest();
  Json answer = {{"id_slot", id}};
  ready->engine->use_slot(id, [&](api::Session& session) {
    if (action == "erase") {
      answer["n_erased"] = session.stats().context_used;
      return session.reset();
    }
    const bool saves = action == "save";
    if (saves && session.stats().context_used == 0) throw bad_field("id_slot", "The slot is empty.");
    const std::uint64_t bytes = saves ? ready->states->save(session, name) : ready->states->restore(session, name);
    answer["filename"] = name;
    answer[saves ? "n_saved" : "n_restored"] = session.stats().context_used;
    answer[saves ? "n_written" : "n_read"] = bytes;
  });
  return json_response(answer);
}

HttpResponse Service::tokenize(const HttpRequest& request, const Loaded& ready) const {
  const TokenizeRequest asked = parse_tokenize(request.body);
  return json_response({{"tokens", ready.model.tokenize(asked.text, asked.add_special, asked.parse_special)}});
}

HttpResponse Service::detokenize(const HttpRequest& request, const Loaded& ready) const {
  return json_response({{"content", ready.model.detokenize(parse_detokenize(request.body, ready.facts))}});
}

HttpResponse Service::count_tokens(const HttpRequest& request, const Loaded& ready) const {
  CompletionRequest asked = parse_message(request.body, ready.facts, true);
  prepare(asked, ready);
  return json_response({{"input_tokens", asked.task.prompt.size()}});
}

HttpResponse Service::apply_template(const HttpRequest& request, const Loaded& ready) const {
  CompletionRequest asked = parse_apply_template(request.body);
  prepare(asked, ready);
  return json_response({{"tokens", asked.task.prompt}});
}

}  // namespace weft::serve
