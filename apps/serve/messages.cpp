#include "messages.h"

#include <algorithm>

#include "fields.h"
#include "tools.h"

namespace weft::serve {
namespace {

std::string event(const std::string& type, Json fields) {
  Json json = {{"type", type}};
  json.update(fields);
  return "event: " + type + "\ndata: " + bytes_of(json) + "\n\n";
}

void append_text(Json& message, const std::string& text) {
  const auto before = message["content"].get<std::string>();
  message["content"] = before.empty() ? text : before + "\n" + text;
}

// A text, or parts that are texts.
std::string texts_of(const Json& content, const std::string& path) { return content_of(content, path, {"text"}); }

// tool_result: a message of its own in the form of OpenAI's chats.
Json read_result(Fields& block) {
  Json message = {{"role", "tool"},
                  {"tool_call_id", text_of(block.need("tool_use_id"), block.path("tool_use_id"))},
                  {"content", ""}};
  if (const Json* content = block.take("content")) message["content"] = texts_of(*content, block.path("content"));
  block.boolean("is_error");  // the content says it
  return message;
}

Json read_call(Fields& block) {
  const Json& input = block.need("input");
  if (!input.is_object()) throw bad_field(block.path("input"), "The input must be an object.", "invalid_type");
  return {{"id", text_of(block.need("id"), block.path("id"))},
          {"type", "function"},
          {"function", {{"name", text_of(block.need("name"), block.path("name"))}, {"arguments", bytes_of(input)}}}};
}

// One block of a message, which is the last of `messages`. Results come before the texts beside them.
void add_block(const Json& value, const std::string& path, bool assistant, Json& messages, Json& message) {
  Fields block(value, path);
  const std::string type = text_of(block.need("type"), block.path("type"));
  if (type == "text") {
    append_text(message, text_of(block.need("text"), block.path("text")));
  } else if (type == "tool_result" && !assistant) {
    messages.push_back(read_result(block));
  } else if (type == "tool_use" && assistant) {
    message["tool_calls"].push_back(read_call(block));
  } else if (type == "thinking" && assistant) {
    message["reasoning_content"] = text_of(block.need("thinking"), block.path("thinking"));
  } else if (type != "redacted_thinking" || !assistant) {
    throw bad_field(block.path("type"), "Blocks of the type \"" + type.substr(0, 40) + "\" are not supported here.",
                    "unsupported_parameter");
  }
  block.ignore({"cache_control", "citations", "signature", "data", "caller"});
  block.refuse_rest();
}

void add_message(const Json& value, const std::string& path, Json& messages) {
  Fields fields(value, path);
  const std::string role = text_of(fields.need("role"), fields.path("role"));
  if (role != "user" && role != "assistant" && role != "system")
    throw bad_field(fields.path("role"), "The role must be user or assistant.");
  Json message = {{"role", role}, {"content", ""}};
  const Json& content = fields.need("content");
  const std::string place = fields.path("content");
  if (content.is_string()) {
    message["content"] = text_of(content, place);
  } else {
    if (!content.is_array()) throw bad_field(place, place + " must be a string or an array.", "invalid_type");
    for (std::size_t i = 0; i < content.size(); ++i)
      add_block(content[i], place + "[" + std::to_string(i) + "]", role == "assistant", messages, message);
  }
  fields.refuse_rest();
  const bool only_results = role == "user" && content.is_array() && !content.empty() && message["content"] == "";
  if (!only_results) messages.push_back(std::move(message));
}

Json read_messages(Fields& fields) {
  Json messages = Json::array();
  if (const Json* system = fields.take("system"))
    messages.push_back({{"role", "system"}, {"content", texts_of(*system, "system")}});
  const Json& list = fields.need("messages");
  if (!list.is_array() || list.empty())
    throw bad_field("messages", "messages must be an array with at least one message.", "invalid_type");
  check_count("messages", list.size());
  for (std::size_t i = 0; i < list.size(); ++i) add_message(list[i], "messages[" + std::to_string(i) + "]", messages);
  if (messages.back()["role"] == "assistant")
    throw bad_field(
        "messages[" + std::to_string(list.size() - 1) + "].role",
        "The last message may not be the assistant's: an answer that the request has begun is not continued.",
        "unsupported_parameter");
  return messages;
}

// Tools and their choice in the form of OpenAI's chats.
void read_message_tools(Fields& fields, CompletionRequest& request) {
  Json chat = Json::object();
  if (const Json* tools = fields.take("tools")) {
    if (!tools->is_array()) throw bad_field("tools", "tools must be an array.", "invalid_type");
    chat["tools"] = Json::array();
    for (std::size_t i = 0; i < tools->size(); ++i) {
      Fields tool((*tools)[i], "tools[" + std::to_string(i) + "]");
      if (const auto type = tool.text("type"); type && *type != "custom")
        throw bad_field(tool.path("type"), "Only tools of the client are supported.", "unsupported_parameter");
      Json function = {{"name", text_of(tool.need("name"), tool.path("name"))}};
      if (const auto description = tool.text("description")) function["description"] = *description;
      function["parameters"] = tool.need("input_schema");
      tool.ignore({"cache_control", "strict", "eager_input_streaming", "input_examples", "defer_loading"});
      tool.refuse_rest();
      chat["tools"].push_back({{"type", "function"}, {"function", function}});
    }
  }
  if (const Json* value = fields.take("tool_choice")) {
    Fields choice(*value, "tool_choice");
    const std::string type = text_of(choice.need("type"), "tool_choice.type");
    if (type == "tool") {
      const std::string name = text_of(choice.need("name"), "tool_choice.name");
      chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
    } else if (type == "auto" || type == "none" || type == "any") {
      chat["tool_choice"] = type == "any" ? "required" : type;
    } else {
      throw bad_field("tool_choice.type", "The type must be auto, any, tool or none.");
    }
    if (const auto one = choice.boolean("disable_parallel_tool_use")) chat["parallel_tool_calls"] = !*one;
    choice.refuse_rest();
  }
  Fields as_chat(chat, "");
  read_tools(as_chat, request);
}

void read_output(Fields& fields, CompletionRequest& request) {
  if (const Json* value = fields.take("output_config")) {
    Fields config(*value, "output_config");
    read_format(config, "format", true, request.task);
    if (const auto effort = config.text("effort")) set_effort(*effort, "output_config.effort", request);
    config.refuse_rest();
  }
}

}  // namespace

CompletionRequest parse_message(const std::string& body, const ModelFacts& model, bool counts) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  CompletionRequest request;
  request.form = Form::message;
  request.messages = read_messages(fields);
  request.task.sampling.temperature = 1;  // Anthropic's
  read_generation(fields, model, request);
  read_output(fields, request);
  read_thinking(fields, request);  // has the last word
  read_message_tools(fields, request);
  if (const Json* stops = fields.take("stop_sequences")) {
    if (!stops->is_array()) throw bad_field("stop_sequences", "stop_sequences must be an array.", "invalid_type");
    for (const Json& stop : *stops) request.task.stops.push_back(text_of(stop, "stop_sequences"));
  }
  if (!counts || fields.take("max_tokens")) {
    fields.need("max_tokens");
    const auto most = fields.whole("max_tokens", 1, UINT32_MAX);
    request.task.max_tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(*most, model.context));
  }
  request.stream = fields.boolean("stream").value_or(false);
  fields.ignore({"cache_control", "betas", "inference_geo"});
  fields.refuse_rest();
  return request;
}

Json message_error(const RequestError& error) {
  const Json inner = error.json()["error"];
  std::string type = "invalid_request_error";
  if (error.status() == 401) type = "authentication_error";
  if (error.status() == 403) type = "permission_error";
  if (error.status() == 404) type = "not_found_error";
  if (error.status() == 413) type = "request_too_large";
  if (error.status() == 429) type = "rate_limit_error";
  if (error.status() == 500) type = "api_error";
  if (error.status() == 503) type = "overloaded_error";
  return {
      {"type", "error"},
      {"error", {{"type", type}, {"message", inner["message"]}, {"param", inner["param"]}, {"code", inner["code"]}}}};
}

MessageForm::MessageForm(const CompletionRequest& request, std::string model)
    : request_(request), id_("msg_" + random_name()), model_(std::move(model)) {}

Json MessageForm::message() const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model_},
          {"content", content_},
          {"stop_reason", stop_reason_},
          {"stop_sequence", stop_sequence_}};
}

Json MessageForm::usage(const Figures& figures) const {
  const std::uint64_t prompt = request_.task.prompt.size(),
                      cached = std::min<std::uint64_t>(figures.cached_tokens, prompt);
  return {{"input_tokens", prompt - cached},
          {"cache_read_input_tokens", cached},
          {"cache_creation_input_tokens", 0},
          {"output_tokens", figures.tokens},
          {"weft", weft_figures(request_, figures)}};
}

// As a stream whose events are not sent.
Json MessageForm::whole(const std::vector<Answer>& choices, const Figures& figures) {
  for (const AnswerPart& one : choices.front().parts) part(one, figures);
  Json json = message();
  json["usage"] = usage(figures);
  return json;
}

AnswerForm::Events MessageForm::first() {
  Json begun = message();
  begun["usage"] = {{"input_tokens", request_.task.prompt.size()}, {"output_tokens", 0}};
  return {event("message_start", {{"message", begun}})};
}

void MessageForm::open(Events& events, AnswerPart::Kind kind, const AnswerPart& part) {
  open_ = kind;
  text_.clear();
  if (kind == AnswerPart::Kind::call) {
    block_ = {{"type", "tool_use"}, {"id", part.id}, {"name", part.name}, {"input", Json::object()}};
  } else if (kind == AnswerPart::Kind::reasoning) {
    block_ = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
  } else {
    block_ = {{"type", "text"}, {"text", ""}};
  }
  events.push_back(event("content_block_start", {{"index", content_.size()}, {"content_block", block_}}));
}

void MessageForm::close(Events& events) {
  if (!open_) return;
  if (*open_ == AnswerPart::Kind::call) {
    try {
      block_["input"] = parse_body(text_);  // whose numbers keep their digits
    } catch (const RequestError&) {
      // A call that was cut has no arguments.
    }
  } else {
    block_[*open_ == AnswerPart::Kind::reasoning ? "thinking" : "text"] = text_;
  }
  events.push_back(event("content_block_stop", {{"index", content_.size()}}));
  content_.push_back(block_);
  open_.reset();
}

AnswerForm::Events MessageForm::part(const AnswerPart& part, const Figures& figures) {
  using Kind = AnswerPart::Kind;
  Events events;
  if (part.kind == Kind::end) {
    close(events);
    const bool calls = std::ranges::any_of(content_, [](const Json& block) { return block["type"] == "tool_use"; });
    const std::vector<std::string>& stops = request_.task.stops;
    if (figures.stop_string < stops.size()) stop_sequence_ = stops[figures.stop_string];
    stop_reason_ = is_cut(*part.stop)               ? "max_tokens"
                   : calls                          ? "tool_use"
                   : *part.stop == WEFT_STOP_STRING ? "stop_sequence"
                                                    : "end_turn";
    return events;
  }
  const Kind kind = part.kind == Kind::arguments ? Kind::call : part.kind;
  if (open_ != kind || part.kind == Kind::call) {
    close(events);
    open(events, kind, part);
  }
  text_ += part.text;
  Json delta = {{"type", "text_delta"}, {"text", part.text}};
  if (kind == Kind::call) delta = {{"type", "input_json_delta"}, {"partial_json", part.text}};
  if (kind == Kind::reasoning) delta = {{"type", "thinking_delta"}, {"thinking", part.text}};
  events.push_back(event("content_block_delta", {{"index", content_.size()}, {"delta", delta}}));
  return events;
}

AnswerForm::Events MessageForm::last(const Figures& figures) {
  return {event("message_delta", {{"delta", {{"stop_reason", stop_reason_}, {"stop_sequence", stop_sequence_}}},
                                  {"usage", usage(figures)}}),
          event("message_stop", Json::object())};
}

AnswerForm::Events MessageForm::failed(const RequestError& error) { return {event("error", message_error(error))}; }

}  // namespace weft::serve
