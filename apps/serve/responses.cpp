#include "responses.h"

#include <ctime>

#include "fields.h"
#include "tools.h"

namespace weft::serve {
namespace {

constexpr const char* kLogprobs = "message.output_text.logprobs";

Json call_item(const Json& call, const char* status, const std::string& arguments) {
  const std::string id = call["id"].get<std::string>();
  return {{"type", "function_call"},          {"id", "fc_" + id},       {"call_id", id},
          {"name", call["function"]["name"]}, {"arguments", arguments}, {"status", status}};
}

// A turn of the conversation, as chat templates expect it.
Json read_message_item(Fields& item) {
  item.text("id");
  item.text("status");
  Json message = read_role(item);
  message["content"] = content_of(item.need("content"), item.path("content"), {"input_text", "output_text"});
  item.refuse_rest();
  return message;
}

Json read_call_item(Fields& item) {
  item.text("id");
  item.text("status");
  Json call = {{"id", text_of(item.need("call_id"), item.path("call_id"))},
               {"type", "function"},
               {"function", read_called(item)}};
  item.refuse_rest();
  return call;
}

Json read_output_item(Fields& item) {
  item.text("id");
  item.text("status");
  Json message = {{"role", "tool"},
                  {"content", content_of(item.need("output"), item.path("output"), {"input_text"})},
                  {"tool_call_id", text_of(item.need("call_id"), item.path("call_id"))}};
  item.refuse_rest();
  return message;
}

void add_item(const Json& value, const std::string& path, Json& messages) {
  Fields item(value, path);
  const std::string type = item.text("type").value_or("message");
  if (type == "message") {
    messages.push_back(read_message_item(item));
  } else if (type == "function_call_output") {
    messages.push_back(read_output_item(item));
  } else if (type == "function_call") {
    // Calls that follow each other, or a text, are of one message.
    if (messages.empty() || messages.back()["role"] != "assistant")
      messages.push_back({{"role", "assistant"}, {"content", ""}});
    messages.back()["tool_calls"].push_back(read_call_item(item));
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
  text.refuse_rest();
}

// Log-probabilities are asked for by `include`.
void read_logprobs(Fields& fields, Task& task) {
  bool wanted = false;
  if (const Json* include = fields.take("include")) {
    if (!include->is_array()) throw bad_field("include", "include must be an array.", "invalid_type");
    for (const Json& item : *include) {
      if (item != kLogprobs)
        throw bad_field("include", std::string("include may have ") + kLogprobs + " only.", "unsupported_parameter");
      wanted = true;
    }
  }
  read_chat_logprobs(fields, wanted, task);
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
    list.only("include_obfuscation", false);
    list.refuse_rest();
  }
  fields.only("store", false);
  fields.only("background", false);
  fields.only("truncation", "disabled");
  fields.refuse_rest();
  // The answer repeats these.
  for (const char* name : {"instructions", "max_output_tokens", "tools", "tool_choice", "text", "user"})
    if (const Json* value = fields.take(name)) request.echo[name] = *value;
  return request;
}

ResponseForm::ResponseForm(const CompletionRequest& request, std::string model)
    : request_(request),
      id_("resp_" + random_name()),
      message_id_("msg_" + random_name()),
      model_(std::move(model)),
      created_(std::time(nullptr)) {}

std::string ResponseForm::event(const std::string& type, const Json& fields) {
  Json json = {{"type", type}, {"sequence_number", sequence_++}};
  json.update(fields);
  return "event: " + type + "\ndata: " + bytes_of(json) + "\n\n";
}

Json ResponseForm::content() const {
  return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
}

Json ResponseForm::message(const char* status) const {
  return {{"type", "message"},
          {"id", message_id_},
          {"status", status},
          {"role", "assistant"},
          {"content", open_ ? Json::array({content()}) : Json::array()}};
}

Json ResponseForm::usage(const Figures& figures) const {
  const std::size_t prompt = request_.task.prompt.size();
  return {{"input_tokens", prompt},
          {"input_tokens_details", {{"cached_tokens", figures.cached_tokens}}},
          {"output_tokens", figures.tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
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
Json ResponseForm::whole(const std::vector<AnswerPart>& choices, const Figures& figures) {
  part(choices.front(), figures);
  return finished(figures);
}

AnswerForm::Events ResponseForm::first() {
  const Json begun = {{"response", response("in_progress")}};
  return {event("response.created", begun), event("response.in_progress", begun)};
}

void ResponseForm::open_message(Events& events) {
  events.push_back(
      event("response.output_item.added", {{"output_index", output_.size()}, {"item", message("in_progress")}}));
  events.push_back(
      event("response.content_part.added",
            {{"item_id", message_id_}, {"output_index", output_.size()}, {"content_index", 0}, {"part", content()}}));
  open_ = true;
}

void ResponseForm::close_message(Events& events, const char* status) {
  const Json place = {{"item_id", message_id_}, {"output_index", output_.size()}, {"content_index", 0}};
  Json text = place, part = place;
  text["text"] = text_;
  text["logprobs"] = logprobs_;
  part["part"] = content();
  events.push_back(event("response.output_text.done", text));
  events.push_back(event("response.content_part.done", part));
  const Json item = message(status);
  events.push_back(event("response.output_item.done", {{"output_index", output_.size()}, {"item", item}}));
  output_.push_back(item);
  open_ = false;
}

void ResponseForm::add_call(Events& events, const Json& call) {
  const std::string arguments = call["function"]["arguments"].get<std::string>();
  const Json item = call_item(call, "completed", arguments);
  const auto place = [&](Json fields) {
    Json json = {{"item_id", item["id"]}, {"output_index", output_.size()}};
    json.update(fields);
    return json;
  };
  events.push_back(event("response.output_item.added",
                         {{"output_index", output_.size()}, {"item", call_item(call, "in_progress", "")}}));
  events.push_back(event("response.function_call_arguments.delta", place({{"delta", arguments}})));
  events.push_back(
      event("response.function_call_arguments.done", place({{"name", item["name"]}, {"arguments", arguments}})));
  events.push_back(event("response.output_item.done", {{"output_index", output_.size()}, {"item", item}}));
  output_.push_back(item);
}

AnswerForm::Events ResponseForm::part(const AnswerPart& part, const Figures&) {
  Events events;
  const bool no_output = part.stop && part.calls.empty() && output_.empty();
  if (!open_ && (!part.text.empty() || no_output)) open_message(events);
  if (!part.text.empty()) {
    Json logprobs = part.logprobs.is_null() ? Json::array() : part.logprobs["content"];
    text_ += part.text;
    logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
    events.push_back(event("response.output_text.delta", {{"item_id", message_id_},
                                                          {"output_index", output_.size()},
                                                          {"content_index", 0},
                                                          {"delta", part.text},
                                                          {"logprobs", logprobs}}));
  }
  if (!part.stop) return events;
  cut_ = part.calls.empty() && is_cut(*part.stop);
  if (open_) close_message(events, cut_ ? "incomplete" : "completed");
  for (const Json& call : part.calls) add_call(events, call);
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
