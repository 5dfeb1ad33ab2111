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

// Choice i is the answer to the request's seed plus i.
static Task task_of(const CompletionRequest& request, std::uint32_t index) {
  Task task = request.task;
  task.sampling.seed += index;
  return task;
}

Exchange::Choice::Choice(const Loaded& loaded, Engine& engine, const CompletionRequest& request, std::uint32_t place,
                         Bell bell)
    : index(place),
      logprobs(loaded.model, request),
      tools(request),
      job(engine, task_of(request, place), std::move(bell)) {}

// The tokens that begin before this place of the text.
std::vector<TokenLogprobs> Exchange::Choice::take_tokens(std::size_t bytes) {
  std::vector<TokenLogprobs> taken;
  for (; !tokens.empty() && tokens.front().begin < bytes; tokens.pop_front())
    taken.push_back(std::move(tokens.front()));
  return taken;
}

Exchange::Exchange(const Loaded& loaded, Engine& engine, CompletionRequest request, const Connection& connection,
                   std::chrono::seconds deadline, std::shared_ptr<CountedRequest> counted)
    : request_(std::move(request)),
      head_(request_, loaded.facts.name),
      connection_(connection),
      deadline_(Clock::now() + deadline),
      sent_(Clock::now()),
      counted_(std::move(counted)) {
  head_.prompt_tokens = request_.task.prompt.size();
  const Bell bell = std::make_shared<std::condition_variable>();
  for (std::uint32_t i = 0; i < request_.choices; ++i)
    jobs_.push_back(&choices_.emplace_back(loaded, engine, request_, i, bell).job);
}

void check_wanted(const Connection& connection, std::chrono::steady_clock::time_point deadline) {
  if (!connection.alive()) throw RequestError(400, "invalid_request_error", "client_gone", "The client has gone.");
  if (std::chrono::steady_clock::now() >= deadline)
    throw RequestError(503, "unavailable_error", "deadline_exceeded",
                       "The request took longer than this server allows.");
}

void Exchange::await() {
  Job::await(jobs_, kLook);
  check_wanted(connection_, deadline_);
}

bool Exchange::ended() const { return jobs_.empty(); }

// What there is of a choice that has not ended.
std::optional<Exchange::Part> Exchange::next(Choice& choice) {
  if (choice.stop || !(choice.begun || (choice.begun = choice.job.begin()))) return std::nullopt;
  Job::News news = choice.job.next();
  choice.figures = news.figures;
  std::ranges::move(news.tokens, std::back_inserter(choice.tokens));
  Part part = {choice.tools.push(news.text), {}, {}, Json::array(), news.stop.has_value()};
  if (news.stop) {
    choice.stop = news.stop;
    std::erase(jobs_, &choice.job);
    ToolReader::End end = choice.tools.finish();
    part.text += end.text;
    part.calls = std::move(end.calls);
  }
  choice.taken_bytes += part.text.size();
  const bool all = part.calls.empty() && !choice.tools.holds();
  part.tokens = choice.take_tokens(all ? SIZE_MAX : choice.taken_bytes);
  if (!part.calls.empty()) part.call_tokens = choice.take_tokens(SIZE_MAX);
  return part;
}

// The times are those of the first choice.
Figures Exchange::figures() const {
  Figures figures = choices_.front().figures;
  for (std::size_t i = 1; i < choices_.size(); ++i) figures.tokens += choices_[i].figures.tokens;
  return figures;
}

Json Exchange::whole() {
  std::vector<Part> answers(choices_.size());
  while (!ended()) {
    await();
    for (Choice& choice : choices_) {
      std::optional<Part> part = next(choice);
      if (!part) continue;
      Part& answer = answers[choice.index];
      answer.text += part->text;
      std::ranges::move(part->tokens, std::back_inserter(answer.tokens));
      std::ranges::move(part->call_tokens, std::back_inserter(answer.tokens));
      answer.calls = std::move(part->calls);
    }
  }
  count_end();
  Json choices = Json::array();
  for (Choice& choice : choices_) {
    const Part& answer = answers[choice.index];
    choices.push_back(
        choice_json(head_, choice.index, answer.text, choice.logprobs.json(answer.tokens), answer.calls, *choice.stop));
  }
  return answer_json(head_, choices, figures());
}

void Exchange::await_begin(std::chrono::seconds wait) {
  Choice& first = choices_.front();
  for (const auto until = Clock::now() + wait; !first.begun && Clock::now() < until;) {
    await();
    first.begun = first.job.begin();
  }
}

void Exchange::count_end() {
  const bool cut = std::ranges::any_of(
      choices_, [](const Choice& choice) { return finish_reason(false, *choice.stop) == std::string_view("length"); });
  counted_->set(cut ? Outcome::length : Outcome::stop);
}

// Waits for a client that reads slowly. Its choices that wait must not keep other requests waiting meanwhile.
bool Exchange::write(httplib::DataSink& sink, std::string_view bytes) {
  sent_ = Clock::now();
  Job::set_away(jobs_, true);
  const bool written = sink.write(bytes.data(), bytes.size());
  Job::set_away(jobs_, false);
  return written;
}

bool Exchange::send(httplib::DataSink& sink, Json chunk) {
  if (request_.continuous_usage) {
    chunk["usage"] = usage_json(head_, figures());
  } else if (request_.include_usage && !chunk.contains("usage")) {
    chunk["usage"] = nullptr;
  }
  const std::string bytes = event(chunk);
  return write(sink, bytes);
}

bool Exchange::send_part(httplib::DataSink& sink, Choice& choice, const Part& part) {
  const auto logprobs = [&](const std::vector<TokenLogprobs>& tokens) { return choice.logprobs.json(tokens); };
  if (!part.text.empty() && !send(sink, text_chunk(head_, choice.index, part.text, logprobs(part.tokens))))
    return false;
  if (!part.calls.empty() && !send(sink, calls_chunk(head_, choice.index, part.calls, logprobs(part.call_tokens))))
    return false;
  return !part.last || send(sink, last_chunk(head_, choice.index, !part.calls.empty(), *choice.stop));
}

bool Exchange::keep_alive(httplib::DataSink& sink) {
  return Clock::now() < sent_ + kSilentTime || write(sink, ": keep-alive\n\n");
}

bool Exchange::send_answer(httplib::DataSink& sink) {
  for (const Choice& choice : choices_)
    if (head_.chat && !send(sink, first_chunk(head_, choice.index))) return false;
  while (!ended()) {
    for (Choice& choice : choices_) {
      const std::optional<Part> part = next(choice);
      if (part && !send_part(sink, choice, *part)) return false;
    }
    if (!keep_alive(sink)) return false;
    if (!ended()) await();
  }
  if (request_.include_usage && !send(sink, usage_chunk(head_, figures()))) return false;
  if (!write(sink, "data: [DONE]\n\n")) return false;
  count_end();
  return true;
}

bool Exchange::stream(httplib::DataSink& sink) {
  try {
    if (!send_answer(sink)) return false;
  } catch (...) {
    const RequestError error = current_error();
    counted_->set(outcome_of(error));
    if (!write(sink, event(error.json()))) return false;
  }
  sink.done();
  return true;
}

}  // namespace weft::serve
