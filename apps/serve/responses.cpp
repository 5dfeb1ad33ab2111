#include "responses.h"

#include <ctime>

#include "fields.h"
#include "tools.h"

namespace weft::serve {
namespace {

constexpr const char* kLogprobs = "message.output_text.logprobs";

// A turn of the conversation, as chat templates expect it.
Json read_message_item(Fields& item) {
  item.ignore({"id", "status"});
  item.ignore({"phase"});
  Json message = read_role(item);
  message["content"] = content_of(item.need("content"), item.path("content"), {"input_text", "output_text", "refusal"});
  item.refuse_rest();
  return message;
}

Json read_call_item(Fields& item) {
  item.ignore({"id", "status"});
  item.ignore({"namespace", "caller"});
  Json call = {{"id", text_of(item.need("call_id"), item.path("call_id"))},
               {"type", "function"},
               {"function", read_called(item)}};
  item.refuse_rest();
  return call;
}

Json read_output_item(Fields& item) {
  item.ignore({"id", "status"});
  Json message = {{"role", "tool"},
                  {"content", content_of(item.need("output"), item.path("output"), {"input_text"})},
                  {"tool_call_id", text_of(item.need("call_id"), item.path("call_id"))}};
  item.refuse_rest();
  return message;
}

// Reasoning of an earlier answer: its text, or a summary of it.
std::string read_reasoning_item(Fields& item) {
  std::string text;
  for (const char* const name : {"content", "summary"}) {
    const Json* parts = item.take(name);
    if (!parts || !text.empty()) continue;
    text = content_of(*parts, item.path(name), {"reasoning_text", "summary_text"});
  }
  item.ignore({"id", "status", "encrypted_content"});  // the latter is never ours
  item.refuse_rest();
  return text;
}

// The message of the assistant that an item belongs to: items that follow each other are of one.
Json& assistant_message(Json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  return messages.back();
}

void add_item(const Json& value, const std::string& path, Json& messages) {
  Fields item(value, path);
  const std::string type = item.text("type").value_or("message");
  if (type == "message") {
    Json message = read_message_item(item);
    const bool joins = !messages.empty() && message["role"] == "assistant" && messages.back()["role"] == "assistant" &&
                       messages.back()["content"] == "" && !messages.back().contains("tool_calls");
    if (joins) {
      messages.back()["content"] = message["content"];
    } else {
      messages.push_back(std::move(message));
    }
  } else if (type == "reasoning") {
    const std::string text = read_reasoning_item(item);
    if (!text.empty()) messages.push_back({{"role", "assistant"}, {"content", ""}, {"reasoning_content", text}});
  } else if (type == "function_call_output") {
    messages.push_back(read_output_item(item));
  } else if (type == "function_call") {
    assistant_message(messages)["tool_calls"].push_back(read_call_item(item));
  } else {
    throw bad_field(item.path("type"), "Items of the type \"" + type.substr(0, 40) + "\" are not supported.",
                    "unsupported_parameter");
  }
}

Json read_input(Fields& fields) {
  Json messages = Json::array();
  if (const auto instructions = fields.text("instructions"))
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  const Json& input = fields.need("input");
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", text_of(input, "input")}});
    return messages;
  }
  if (!input.is_array() || input.empty())
    throw bad_field("input", "input must be a string or an array with at least one item.", "invalid_type");
  check_count("input", input.size());
  for (std::size_t i = 0; i < input.size(); ++i) add_item(input[i], "input[" + std::to_string(i) + "]", messages);
  return messages;
}

void read_text(Fields& fields, Task& task) {
  const Json* value = fields.take("text");
  if (!value) return;
  Fields text(*value, "text");
  read_format(text, "format", true, task);
  text.only("verbosity", "medium");
  text.refuse_rest();
}

// Log-probabilities are asked for by `include`.
void read_logprobs(Fields& fields, Task& task) {
  bool wanted = false;
  if (const Json* include = fields.take("include")) {
    if (!include->is_array()) throw bad_field("include", "include must be an array.", "invalid_type");
    for (const Json& item : *include) {
      // Nothing is stored, so reasoning comes as it is.
      if (item == "reasoning.encrypted_content") continue;
      if (item != kLogprobs)
        throw bad_field("include", std::string("include may have ") + kLogprobs + " only.", "unsupported_parameter");
      wanted = true;
    }
  }
  read_chat_logprobs(fields, wanted, task);
}

void read_effort(Fields& fields, CompletionRequest& request) {
  const Json* value = fields.take("reasoning");
  if (!value) return;
  Fields reasoning(*value, "reasoning");
  if (const auto effort = reasoning.text("effort")) set_effort(*effort, "reasoning.effort", request);
  reasoning.ignore({"summary", "generate_summary"});
  reasoning.refuse_rest();
}

}  // namespace

CompletionRequest parse_response(const std::string& body, const ModelFacts& model) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  CompletionRequest request;
  request.form = Form::response;
  request.messages = read_input(fields);
  read_generation(fields, model, request);
  read_text(fields, request.task);
  read_logprobs(fields, request.task);
  read_tools(fields, request);
  if (const auto most = fields.whole("max_output_tokens", 1, UINT32_MAX))
    request.task.max_tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(*most, model.context));
  request.stream = fields.boolean("stream").value_or(false);
  if (const Json* options = fields.take("stream_options")) {
    Fields list(*options, "stream_options");
    list.ignore({"include_obfuscation"});
    list.refuse_rest();
  }
  read_effort(fields, request);
  fields.only("background", false);
  fields.only("truncation", "disabled");
  fields.refuse_rest();
  // The answer repeats these.
  for (const char* name :
       {"instructions", "max_output_tokens", "metadata", "reasoning", "tools", "tool_choice", "text", "user"})
    if (const Json* value = fields.take(name)) request.echo[name] = *value;
  return request;
}

ResponseForm::ResponseForm(const CompletionRequest& request, std::string model)
    : request_(request), id_("resp_" + random_name()), model_(std::move(model)), created_(std::time(nullptr)) {}

std::string ResponseForm::event(const std::string& type, const Json& fields) {
  Json json = {{"type", type}, {"sequence_number", sequence_++}};
  json.update(fields);
  return "event: " + type + "\ndata: " + bytes_of(json) + "\n\n";
}

Json ResponseForm::content() const {
  return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
}

// The item that is open.
Json ResponseForm::item(const char* status) const {
  switch (*open_) {
    case AnswerPart::Kind::reasoning: {
      Json parts = Json::array();
      if (!text_.empty()) parts.push_back({{"type", "reasoning_text"}, {"text", text_}});
      return {
          {"type", "reasoning"}, {"id", item_id_}, {"status", status}, {"summary", Json::array()}, {"content", parts}};
    }
    case AnswerPart::Kind::call:
      return {{"type", "function_call"}, {"id", item_id_},     {"call_id", call_id_},
              {"name", name_},           {"arguments", text_}, {"status", status}};
    default:
      return {{"type", "message"},
              {"id", item_id_},
              {"status", status},
              {"role", "assistant"},
              {"content", Json::array({content()})}};
  }
}

Json ResponseForm::usage(const Figures& figures) const {
  const std::size_t prompt = request_.task.prompt.size();
  return {{"input_tokens", prompt},
          {"input_tokens_details", {{"cached_tokens", figures.cached_tokens}}},
          {"output_tokens", figures.tokens},
          {"output_tokens_details", {{"reasoning_tokens", figures.reasoning_tokens}}},
          {"total_tokens", prompt + figures.tokens},
          {"weft", weft_figures(request_, figures)}};
}

Json ResponseForm::response(const char* status) const {
  Json json = {{"id", id_},
               {"object", "response"},
               {"created_at", created_},
               {"status", status},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"instructions", nullptr},
               {"max_output_tokens", nullptr},
               {"metadata", Json::object()},
               {"model", model_},
               {"output", output_},
               {"parallel_tool_calls", request_.several_calls},
               {"previous_response_id", nullptr},
               {"store", false},
               {"temperature", request_.task.sampling.temperature},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"top_p", request_.task.sampling.top_p},
               {"truncation", "disabled"},
               {"usage", nullptr},
               {"user", nullptr}};
  json.update(request_.echo);
  return json;
}

Json ResponseForm::finished(const Figures& figures) const {
  Json json = response(cut_ ? "incomplete" : "completed");
  if (cut_) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["usage"] = usage(figures);
  return json;
}

// As a stream whose events are not sent.
Json ResponseForm::whole(const std::vector<Answer>& choices, const Figures& figures) {
  for (const AnswerPart& one : choices.front().parts) part(one, figures);
  return finished(figures);
}

AnswerForm::Events ResponseForm::first() {
  const Json begun = {{"response", response("in_progress")}};
  return {event("response.created", begun), event("response.in_progress", begun)};
}

// Where the open item and its content are.
Json ResponseForm::place() const {
  Json json = {{"item_id", item_id_}, {"output_index", output_.size()}};
  if (*open_ != AnswerPart::Kind::call) json["content_index"] = 0;
  return json;
}

void ResponseForm::open(Events& events, AnswerPart::Kind kind, const AnswerPart& part) {
  open_ = kind;
  text_.clear();
  logprobs_ = Json::array();
  const bool call = kind == AnswerPart::Kind::call, message = kind == AnswerPart::Kind::text;
  call_id_ = part.id;
  name_ = part.name;
  item_id_ = call ? "fc_" + part.id : (message ? "msg_" : "rs_") + random_name();
  Json begun = item("in_progress");
  if (message) begun["content"] = Json::array();
  events.push_back(event("response.output_item.added", {{"output_index", output_.size()}, {"item", begun}}));
  if (call) return;
  Json fields = place();
  fields["part"] = message ? content() : Json({{"type", "reasoning_text"}, {"text", ""}});
  events.push_back(event("response.content_part.added", fields));
}

// More of the open item.
void ResponseForm::add(Events& events, const AnswerPart& part) {
  if (part.text.empty()) return;
  text_ += part.text;
  Json fields = place();
  fields["delta"] = part.text;
  if (*open_ == AnswerPart::Kind::call) {
    events.push_back(event("response.function_call_arguments.delta", fields));
  } else if (*open_ == AnswerPart::Kind::reasoning) {
    events.push_back(event("response.reasoning_text.delta", fields));
  } else {
    const Json logprobs = part.logprobs.is_null() ? Json::array() : part.logprobs["content"];
    logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
    fields["logprobs"] = logprobs;
    events.push_back(event("response.output_text.delta", fields));
  }
}

void ResponseForm::close(Events& events, const char* status) {
  if (!open_) return;
  Json done = place(), part = place();
  if (*open_ == AnswerPart::Kind::call) {
    done["name"] = name_;
    done["arguments"] = text_;
    events.push_back(event("response.function_call_arguments.done", done));
  } else {
    const bool message = *open_ == AnswerPart::Kind::text;
    done["text"] = text_;
    if (message) done["logprobs"] = logprobs_;
    part["part"] = message ? content() : Json({{"type", "reasoning_text"}, {"text", text_}});
    events.push_back(event(message ? "response.output_text.done" : "response.reasoning_text.done", done));
    events.push_back(event("response.content_part.done", part));
  }
  const Json whole = item(status);
  events.push_back(event("response.output_item.done", {{"output_index", output_.size()}, {"item", whole}}));
  output_.push_back(whole);
  open_.reset();
}

AnswerForm::Events ResponseForm::part(const AnswerPart& part, const Figures&) {
  Events events;
  using Kind = AnswerPart::Kind;
  if (part.kind == Kind::end) {
    if (!open_ && output_.empty()) open(events, Kind::text, part);
    cut_ = is_cut(*part.stop);
    close(events, cut_ ? "incomplete" : "completed");
    return events;
  }
  const Kind kind = part.kind == Kind::arguments ? Kind::call : part.kind;
  if (open_ != kind || part.kind == Kind::call) {
    close(events, "completed");
    open(events, kind, part);
  }
  add(events, part);
  return events;
}

AnswerForm::Events ResponseForm::last(const Figures& figures) {
  return {event(cut_ ? "response.incomplete" : "response.completed", {{"response", finished(figures)}})};
}

AnswerForm::Events ResponseForm::failed(const RequestError& error) {
  const Json json = error.json()["error"];
  return {event("error", {{"code", json["code"]}, {"message", json["message"]}, {"param", json["param"]}})};
}

}  // namespace weft::serve
