#include "exchange.h"

#include <algorithm>

#include "service.h"

namespace weft::serve {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // how often a request that waits looks after its client

}  // namespace

RequestError current_error() {
  const auto refused = [](const std::string& code, const std::string& message, const std::string& field = {}) {
    return RequestError(400, "invalid_request_error", code, message, field);
  };
  try {
    throw;
  } catch (const RequestError& error) {
    return error;
  } catch (const BadField& error) {
    return refused("invalid_value", error.what(), error.field());
  } catch (const Unavailable& error) {
    if (error.reason() == Unavailable::Reason::queue_full)
      return RequestError(429, "rate_limit_error", "queue_full", error.what());
    return RequestError(503, "unavailable_error", "unavailable", error.what());
  } catch (const api::Failure& error) {
    switch (error.status()) {
      case WEFT_INVALID_ARGUMENT:
        return refused("invalid_value", error.what());
      case WEFT_UNSUPPORTED:
        return refused("unsupported", error.what());
      case WEFT_CONTEXT_FULL:
        return refused("context_length_exceeded", error.what());
      case WEFT_OUT_OF_MEMORY:
        return RequestError(503, "unavailable_error", "out_of_memory", error.what());
      case WEFT_DEVICE_LOST:
        return RequestError(503, "unavailable_error", "device_lost", error.what());
      default:
        return RequestError(500, "server_error", weft_status_name(error.status()), error.what());
    }
  } catch (const std::exception& error) {
    return RequestError(500, "server_error", "internal_error", error.what());
  }
}

Outcome outcome_of(const RequestError& error) {
  if (error.code() == "client_gone") return Outcome::cancelled;
  if (error.code() == "deadline_exceeded") return Outcome::deadline;
  if (error.status() == 429) return Outcome::queue_full;
  return error.status() < 500 ? Outcome::invalid : Outcome::failed;
}

void answer_error(httplib::Response& response, const RequestError& error) {
  response.status = error.status();
  if (error.status() == 429) response.set_header("Retry-After", "1");
  if (error.status() == 401) response.set_header("WWW-Authenticate", "Bearer");
  response.set_content(bytes_of(error.json()), "application/json");
}

Exchange::Exchange(const Loaded& loaded, CompletionRequest request, const Connection& connection,
                   std::chrono::seconds deadline, std::shared_ptr<CountedRequest> counted)
    : request_(std::move(request)),
      head_(request_, loaded.facts.name),
      logprobs_(loaded.model, request_),
      tools_(request_),
      connection_(connection),
      deadline_(Clock::now() + deadline),
      sent_(Clock::now()),
      counted_(std::move(counted)),
      job_(loaded.engine, request_.task) {
  head_.prompt_tokens = request_.task.prompt.size();
}

// Throws if the request need not be answered any more.
void Exchange::check() const {
  if (!connection_.alive()) throw RequestError(400, "invalid_request_error", "client_gone", "The client has gone.");
  if (Clock::now() >= deadline_)
    throw RequestError(503, "unavailable_error", "deadline_exceeded",
                       "The request took longer than this server allows.");
}

Json Exchange::whole() {
  while (!job_.begin(kLook)) check();
  std::string text;
  std::vector<TokenLogprobs> tokens;
  for (;;) {
    Job::News news = job_.next(kLook);
    text += tools_.push(news.text);
    std::ranges::move(news.tokens, std::back_inserter(tokens));
    if (news.stop) {
      count_end(*news.stop);
      const ToolReader::End end = tools_.finish();
      return answer_json(head_, text + end.text, logprobs_.json(tokens), end.calls, *news.stop, news.figures);
    }
    check();
  }
}

void Exchange::await_begin(std::chrono::seconds wait) {
  for (const auto until = Clock::now() + wait; !begun_ && Clock::now() < until; check()) begun_ = job_.begin(kLook);
}

void Exchange::count_end(weft_stop stop) {
  counted_->set(finish_reason(false, stop) == std::string_view("length") ? Outcome::length : Outcome::stop);
}

bool Exchange::send(httplib::DataSink& sink, Json chunk, const Figures& figures) {
  if (request_.continuous_usage) {
    chunk["usage"] = usage_json(head_, figures);
  } else if (request_.include_usage && !chunk.contains("usage")) {
    chunk["usage"] = nullptr;
  }
  const std::string bytes = event(chunk);
  sent_ = Clock::now();
  return sink.write(bytes.data(), bytes.size());
}

// The last chunk, and before it what was held back for calls.
bool Exchange::send_end(httplib::DataSink& sink, weft_stop stop, const Figures& figures) {
  const ToolReader::End end = tools_.finish();
  if (!end.text.empty() && !send(sink, text_chunk(head_, end.text, nullptr), figures)) return false;
  if (!end.calls.empty() && !send(sink, calls_chunk(head_, end.calls), figures)) return false;
  return send(sink, last_chunk(head_, !end.calls.empty(), stop), figures);
}

bool Exchange::keep_alive(httplib::DataSink& sink) {
  constexpr std::string_view kComment = ": keep-alive\n\n";
  if (Clock::now() < sent_ + kSilentTime) return true;
  sent_ = Clock::now();
  return sink.write(kComment.data(), kComment.size());
}

bool Exchange::send_answer(httplib::DataSink& sink) {
  Figures figures;
  std::optional<weft_stop> stop;
  if (head_.chat && !send(sink, first_chunk(head_), figures)) return false;
  for (; !begun_; check()) {
    begun_ = job_.begin(kLook);
    if (!keep_alive(sink)) return false;
  }
  for (;;) {
    const Job::News news = job_.next(kLook);
    figures = news.figures;
    const std::string text = tools_.push(news.text);
    if (!text.empty() && !send(sink, text_chunk(head_, text, logprobs_.json(news.tokens)), figures)) return false;
    if (news.stop) {
      stop = news.stop;
      if (!send_end(sink, *stop, figures)) return false;
      break;
    }
    check();
    if (!keep_alive(sink)) return false;
  }
  if (request_.include_usage && !send(sink, usage_chunk(head_, figures), figures)) return false;
  constexpr std::string_view kDone = "data: [DONE]\n\n";
  if (!sink.write(kDone.data(), kDone.size())) return false;
  count_end(*stop);
  return true;
}

bool Exchange::stream(httplib::DataSink& sink) {
  try {
    if (!send_answer(sink)) return false;
  } catch (...) {
    const RequestError error = current_error();
    counted_->set(outcome_of(error));
    const std::string bytes = event(error.json());
    if (!sink.write(bytes.data(), bytes.size())) return false;
  }
  sink.done();
  return true;
}

}  // namespace weft::serve
