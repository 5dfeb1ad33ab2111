#include "exchange.h"

#include <weft/text.h>

#include <algorithm>

#include "service.h"

namespace weft::serve {
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
    if (error.reason() == Unavailable::Reason::slot_busy)
      return RequestError(429, "rate_limit_error", "slot_busy", error.what());
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
  if (error.code() == "rate_limited") return Outcome::limited;
  if (error.status() == 429) return Outcome::queue_full;
  return error.status() < 500 ? Outcome::invalid : Outcome::failed;
}

HttpResponse error_response(const RequestError& error) {
  HttpResponse response = {error.status(), {}, "application/json", bytes_of(error.json()), {}};
  if (error.status() == 429) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after()));
  if (error.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

static AnswerPart said_by(const Reader::Event& event) {
  AnswerPart part;
  part.text = event.text;
  part.name = event.name;
  switch (event.kind) {
    case Reader::Kind::text:
      break;
    case Reader::Kind::reasoning:
      part.kind = AnswerPart::Kind::reasoning;
      break;
    case Reader::Kind::call:
      part.kind = AnswerPart::Kind::call;
      part.id = call_id();
      break;
    case Reader::Kind::arguments:
      part.kind = AnswerPart::Kind::arguments;
  }
  return part;
}

// Choice i is the answer to the request's seed plus i.
static Task task_of(const CompletionRequest& request, std::uint32_t index) {
  Task task = request.task;
  task.sampling.seed += index;
  return task;
}

Exchange::Choice::Choice(const Loaded& loaded, const CompletionRequest& request, std::uint32_t place, Bell bell)
    : index(place),
      logprobs(loaded.model, request),
      reader(request.reader),
      job(*loaded.engine, task_of(request, place), std::move(bell)) {}

// The tokens that begin before this place of the text.
std::vector<TokenLogprobs> Exchange::Choice::take_tokens(std::size_t bytes) {
  std::vector<TokenLogprobs> taken;
  for (; !tokens.empty() && tokens.front().begin < bytes; tokens.pop_front())
    taken.push_back(std::move(tokens.front()));
  return taken;
}

// Drops the tokens that end at this place of the text or before it. A mark that the server has written is the next
// token's.
void Exchange::Choice::drop_tokens(std::size_t bytes) {
  while (tokens.size() > 1 && tokens[1].begin <= bytes) tokens.pop_front();
}

Exchange::Exchange(std::shared_ptr<const Loaded> model, CompletionRequest request, HttpClient& client,
                   Clock::time_point deadline, const std::atomic<bool>& closing, std::shared_ptr<RequestRecord> record)
    : model_(std::move(model)),
      request_(std::move(request)),
      form_(answer_form(request_, model_->facts.name)),
      client_(client),
      deadline_(deadline),
      closing_(closing),
      sent_(Clock::now()),
      record_(std::move(record)) {
  const Bell bell = std::make_shared<std::condition_variable>();
  for (std::uint32_t i = 0; i < request_.choices; ++i)
    jobs_.push_back(&choices_.emplace_back(*model_, request_, i, bell).job);
}

Exchange::~Exchange() {
  const Figures all = figures();
  record_->prompt_tokens = request_.task.prompt.size();
  record_->cached_tokens = all.cached_tokens;
  record_->tokens = all.tokens;
  record_->first_token_seconds = all.first_token_seconds;
}

void check_wanted(const HttpClient& client, std::chrono::steady_clock::time_point deadline) {
  if (!client.alive()) throw RequestError(400, "invalid_request_error", "client_gone", "The client has gone.");
  if (std::chrono::steady_clock::now() >= deadline)
    throw RequestError(503, "unavailable_error", "deadline_exceeded",
                       "The request took longer than this server allows.");
}

EndsUnwanted::EndsUnwanted(const HttpClient& client, std::chrono::steady_clock::time_point deadline,
                           const std::atomic<bool>& closing)
    : client_(client), deadline_(deadline), closing_(closing) {
  weft_set_wanted([](void* user) { return static_cast<const EndsUnwanted*>(user)->wanted() ? 1 : 0; }, this);
}

EndsUnwanted::~EndsUnwanted() { weft_set_wanted(nullptr, nullptr); }

bool EndsUnwanted::wanted() const {
  return client_.alive() && !closing_ && std::chrono::steady_clock::now() < deadline_;
}

RequestError EndsUnwanted::error() const {
  try {
    throw;
  } catch (const api::Failure& failure) {
    if (failure.status() != WEFT_CANCELLED) return current_error();
  } catch (...) {
    return current_error();
  }
  try {
    check_wanted(client_, deadline_);
  } catch (const RequestError& why) {
    return why;
  }
  return RequestError(503, "unavailable_error", "unavailable", "the server is shutting down");
}

void Exchange::await() {
  Job::await(jobs_, kLook);
  check_wanted(client_, deadline_);
}

bool Exchange::ended() const { return jobs_.empty(); }

// True if the choice has begun. Its session may be given a grammar now, which takes a while: the other choices, which
// have to wait for this thread, let requests after them begin.
bool Exchange::begin(Choice& choice) {
  if (choice.begun) return true;
  std::vector<Job*> others;
  std::ranges::copy_if(jobs_, std::back_inserter(others), [&](const Job* job) { return job != &choice.job; });
  Job::set_away(others, true);
  try {
    choice.begun = choice.job.begin();
  } catch (...) {
    Job::set_away(others, false);
    throw;
  }
  Job::set_away(others, false);
  return choice.begun;
}

// The new parts of a choice that has not ended.
std::vector<Exchange::Part> Exchange::next(Choice& choice) {
  std::vector<Part> parts;
  if (choice.stop || !begin(choice)) return parts;
  Job::News news = choice.job.next();
  choice.figures = news.figures;
  std::ranges::move(news.tokens, std::back_inserter(choice.tokens));
  std::vector<Reader::Event> events = choice.reader.push(news.text);
  if (news.stop) std::ranges::move(choice.reader.finish(), std::back_inserter(events));
  for (Reader::Event& event : events) {
    Part& part = parts.emplace_back();
    part.said = said_by(event);
    part.said.index = choice.index;
    const bool all = &event == &events.back() && event.kind == Reader::Kind::text && !choice.reader.holds();
    // Log-probabilities are of the content: reasoning and its marks have none.
    const bool reasons = event.kind == Reader::Kind::reasoning;
    if (choice.reasoned && event.kind == Reader::Kind::text)
      choice.drop_tokens(event.end - std::min(event.end, event.text.size()));
    choice.reasoned = reasons;
    part.tokens = choice.take_tokens(all ? SIZE_MAX : event.end);
    if (reasons) part.tokens.clear();
  }
  if (news.stop) {
    choice.stop = news.stop;
    std::erase(jobs_, &choice.job);
    Part& end = parts.emplace_back();
    end.said.kind = AnswerPart::Kind::end;
    end.said.index = choice.index;
    end.said.stop = news.stop;
    end.tokens = choice.take_tokens(SIZE_MAX);  // of marks after the last call
  }
  return parts;
}

// The times are those of the first choice.
Figures Exchange::figures() const {
  Figures figures = choices_.front().figures;
  for (std::size_t i = 1; i < choices_.size(); ++i) {
    figures.tokens += choices_[i].figures.tokens;
    figures.reasoning_tokens += choices_[i].figures.reasoning_tokens;
  }
  return figures;
}

Json Exchange::whole() {
  std::vector<Answer> answers(choices_.size());
  std::vector<std::vector<TokenLogprobs>> tokens(choices_.size());
  while (!ended()) {
    await();
    for (Choice& choice : choices_) {
      for (Part& part : next(choice)) {
        if (request_.form == Form::response) part.said.logprobs = choice.logprobs.json(part.tokens);
        std::ranges::move(part.tokens, std::back_inserter(tokens[choice.index]));
        answers[choice.index].parts.push_back(std::move(part.said));
      }
    }
  }
  count_end();
  for (Choice& choice : choices_) answers[choice.index].logprobs = choice.logprobs.json(tokens[choice.index]);
  return form_->whole(answers, figures());
}

void Exchange::await_begin(std::chrono::seconds wait) {
  Choice& first = choices_.front();
  for (const auto until = Clock::now() + wait; !first.begun && Clock::now() < until;) {
    await();
    begin(first);
  }
}

void Exchange::count_end() {
  const bool cut = std::ranges::any_of(choices_, [](const Choice& choice) { return is_cut(*choice.stop); });
  record_->outcome = cut ? Outcome::length : Outcome::stop;
}

// Waits for a client that reads slowly. Its choices that wait must not keep other requests waiting meanwhile.
bool Exchange::write(std::string_view bytes) {
  sent_ = Clock::now();
  Job::set_away(jobs_, true);
  const bool written = client_.write(bytes);
  Job::set_away(jobs_, false);
  return written;
}

// An event at a time: each is passed on at once.
bool Exchange::send(const AnswerForm::Events& events) {
  return std::ranges::all_of(events, [&](const std::string& event) { return write(event); });
}

bool Exchange::keep_alive() { return Clock::now() < sent_ + kSilentTime || write(": keep-alive\n\n"); }

bool Exchange::send_answer() {
  if (!send(form_->first())) return false;
  while (!ended()) {
    for (Choice& choice : choices_) {
      for (Part& part : next(choice)) {
        if (part.said.kind != AnswerPart::Kind::end || !part.tokens.empty())
          part.said.logprobs = choice.logprobs.json(part.tokens);
        if (!send(form_->part(part.said, figures()))) return false;
      }
    }
    if (!keep_alive()) return false;
    if (!ended()) await();
  }
  if (!send(form_->last(figures()))) return false;
  count_end();
  return true;
}

bool Exchange::stream() {
  const EndsUnwanted ends(client_, deadline_, closing_);
  try {
    if (!send_answer()) return false;
  } catch (...) {
    const RequestError error = ends.error();
    record_->outcome = outcome_of(error);
    if (!send(form_->failed(error))) return false;
  }
  return true;
}

}  // namespace weft::serve
