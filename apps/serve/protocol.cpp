#include "protocol.h"

#include <algorithm>
#include <charconv>
#include <random>

#include "../weft/common.h"
#include "fields.h"
#include "pictures.h"
#include "tools.h"

namespace weft::serve {
namespace {

// Fields of earlier answers that clients send back.
void read_answer(Fields& message, Json& json) {
  message.ignore(
      {"refusal", "annotations", "parsed", "thinking_blocks", "reasoning_details", "provider_specific_fields"});
  message.only("audio", nullptr);
  message.only("function_call", nullptr);
  const auto other = message.text("reasoning");
  if (const auto reasoning = message.text("reasoning_content"); reasoning || other)
    json["reasoning_content"] = reasoning ? *reasoning : *other;
  const Json* calls = message.take("tool_calls");
  if (calls && *calls != Json::array()) json["tool_calls"] = read_tool_calls(*calls, message.path("tool_calls"));
}

// Texts and pictures, as chat templates want them.
Json read_parts(const Json& content, const std::string& path, std::vector<std::string>& pictures) {
  Json parts = Json::array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string place = path + "[" + std::to_string(i) + "]";
    if (!content[i].is_object() || content[i].value("type", Json()) != "image_url") {
      parts.push_back({{"type", "text"}, {"text", content_of(Json::array({content[i]}), path, {"text"})}});
      continue;
    }
    Fields part(content[i], place);
    part.need("type");
    const Json& image = part.need("image_url");
    Fields url(image, part.path("image_url"));
    pictures.push_back(read_data_url(text_of(url.need("url"), url.path("url")), url.path("url")));
    url.ignore({"detail"});
    url.refuse_rest();
    part.ignore({"cache_control"});
    part.refuse_rest();
    parts.push_back({{"type", "image"}});
  }
  return parts;
}

bool shows_pictures(const Json& content) {
  return content.is_array() && std::ranges::any_of(content, [](const Json& part) {
           return part.is_object() && part.value("type", Json()) == "image_url";
         });
}

// A message of any role.
Json read_message(Fields& message, std::vector<std::string>& pictures) {
  Json json = read_role(message);
  const auto role = json["role"].get<std::string>();
  if (role == "assistant") read_answer(message, json);
  const Json* content = role == "assistant" ? message.take("content") : &message.need("content");
  if (content && role == "user" && shows_pictures(*content))
    json["content"] = read_parts(*content, message.path("content"), pictures);
  else if (content)
    json["content"] = content_of(*content, message.path("content"), {"text", "refusal"});
  if (role == "tool") json["tool_call_id"] = text_of(message.need("tool_call_id"), message.path("tool_call_id"));
  if (const auto name = message.text("name")) json["name"] = *name;
  message.ignore({"cache_control"});
  message.refuse_rest();
  return json;
}

Json messages_of(Fields& fields, std::vector<std::string>& pictures) {
  const Json& list = fields.need("messages");
  if (!list.is_array() || list.empty())
    throw bad_field("messages", "messages must be an array with at least one message.", "invalid_type");
  check_count("messages", list.size());
  Json messages = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    Fields message(list[i], "messages[" + std::to_string(i) + "]");
    messages.push_back(read_message(message, pictures));
  }
  return messages;
}

// Heads as weft_request.head names them, but without files: a request must not name a path.
void check_head(const std::string& head) {
  static constexpr std::string_view kTerms[] = {"ascii",  "latin",      "greek", "cyrillic", "arabic",
                                                "hebrew", "devanagari", "cjk",   "digits",   "punctuation",
                                                "bytes",  "control",    "prompt"};
  constexpr std::size_t kLongest = 256;  // each term of a list goes through the whole vocabulary
  if (head.size() > kLongest) throw bad_field("head", cli::format("head is longer than %zu bytes.", kLongest));
  const std::size_t keep = head.find("keep:");
  if (keep == head.npos) return;
  for (std::size_t at = keep + 5; at <= head.size();) {
    const std::size_t comma = std::min(head.find(',', at), head.size());
    std::string_view term = std::string_view(head).substr(at, comma - at);
    if (term.starts_with('!')) term.remove_prefix(1);
    if (std::ranges::find(kTerms, term) == std::end(kTerms))
      throw bad_field("head",
                      "A list of head may have presets only; \"" + std::string(term.substr(0, 40)) + "\" is none.");
    at = comma + 1;
  }
}

void read_sampling(Fields& fields, Task& task) {
  weft_sampling& sampling = task.sampling;
  const auto real = [&](const char* name, float& value, double least, double most) {
    if (const auto number = fields.number(name, least, most)) value = static_cast<float>(*number);
  };
  constexpr double kAboveZero = 1e-4;
  real("temperature", sampling.temperature, 0, 2);
  if (sampling.temperature > 0 && sampling.temperature < kAboveZero)
    throw bad_field("temperature", "temperature must be 0 or at least 0.0001.");
  real("top_p", sampling.top_p, 0, 1);
  sampling.top_p = std::max(sampling.top_p, static_cast<float>(kAboveZero));  // 0: the likeliest token alone
  real("min_p", sampling.min_p, 0, 1);
  real("typical_p", sampling.typical_p, kAboveZero, 1);
  real("repeat_penalty", sampling.repeat_penalty, 0.01, 100);
  real("presence_penalty", sampling.presence_penalty, -2, 2);
  real("frequency_penalty", sampling.frequency_penalty, -2, 2);
  // -1 is vLLM's name of no limit.
  if (const auto k = fields.whole("top_k", -1, UINT32_MAX))
    sampling.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(*k, 0));
  if (const auto seed = fields.whole("seed", INT64_MIN, INT64_MAX)) {
    sampling.seed = static_cast<std::uint64_t>(*seed);
  } else {
    std::random_device random;
    sampling.seed = (std::uint64_t{random()} << 32) | random();
  }
}

void read_biases(Fields& fields, const ModelFacts& model, Task& task) {
  const Json* biases = fields.take("logit_bias");
  if (!biases) return;
  Fields list(*biases, "logit_bias");
  for (const auto& [name, value] : biases->items()) {
    std::uint32_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id >= model.vocab_size)
      throw bad_field("logit_bias",
                      cli::format("logit_bias has a name that is no token: ids are below %u.", model.vocab_size));
    list.need(name);
    task.biases.emplace_back(id, static_cast<float>(*list.number(name, -100, 100)));
  }
}

void read_stops(Fields& fields, Task& task) {
  const Json* stop = fields.take("stop");
  if (!stop) return;
  if (stop->is_array()) {
    for (const Json& text : *stop) task.stops.push_back(text_of(text, "stop"));
  } else {
    task.stops.push_back(text_of(*stop, "stop"));
  }
}

void set_grammar(Task& task, weft_grammar_kind kind, std::string text, const std::string& field) {
  if (task.grammar_kind != WEFT_GRAMMAR_NONE)
    throw bad_field(field, "Only one of response_format, grammar and regex can be given.");
  task.grammar_kind = kind;
  task.grammar = std::move(text);
  task.grammar_field = field;
}

void read_schema(Fields& wrapper, Task& task) {
  wrapper.text("name");
  wrapper.text("description");
  wrapper.boolean("strict");  // schemas are always followed
  set_grammar(task, WEFT_GRAMMAR_JSON_SCHEMA, bytes_of(wrapper.need("schema")), wrapper.path("schema"));
}

void read_max_tokens(Fields& fields, bool chat, const ModelFacts& model, Task& task) {
  const auto older = fields.whole("max_tokens", 1, UINT32_MAX);
  const auto newer = chat ? fields.whole("max_completion_tokens", 1, UINT32_MAX) : std::nullopt;
  if (older && newer && *older != *newer)
    throw bad_field("max_tokens", "max_tokens and max_completion_tokens differ: give one of them.");
  if (const auto most = newer ? newer : older)
    task.max_tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(*most, model.context));
}

void read_stream(Fields& fields, CompletionRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.take("stream_options");
  if (!options) return;
  if (!request.stream) throw bad_field("stream_options", "stream_options requires stream.");
  Fields list(*options, "stream_options");
  request.include_usage = list.boolean("include_usage").value_or(false);
  request.continuous_usage = list.boolean("continuous_usage_stats").value_or(false);
  list.ignore({"include_obfuscation"});
  list.refuse_rest();
}

// Variables of the chat template, and OpenAI's name for the one about reasoning.
void read_variables(Fields& fields, CompletionRequest& request) {
  if (const auto effort = fields.text("reasoning_effort")) set_effort(*effort, "reasoning_effort", request);
  read_thinking(fields, request);
  const Json* variables = fields.take("chat_template_kwargs");
  if (!variables) return;
  const Fields checked(*variables, "chat_template_kwargs");
  for (const auto& [name, value] : variables->items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt")
      throw bad_field(checked.path(name), "The server sets " + name + " itself.");
    request.variables[name] = value;
  }
}

// The fields that a chat and a completion have in common.
void read_common(Fields& fields, const ModelFacts& model, CompletionRequest& request) {
  const bool chat = request.form == Form::chat;
  if (chat) read_format(fields, "response_format", false, request.task);
  read_generation(fields, model, request);
  read_max_tokens(fields, chat, model, request.task);
  read_stream(fields, request);
  request.choices = static_cast<std::uint32_t>(fields.whole("n", 1, model.choices).value_or(1));
}

}  // namespace

void check_count(const std::string& field, std::size_t messages) {
  if (messages > kMostMessages)
    throw bad_field(
        field, cli::format("%s has %zu messages, at most %zu are allowed.", field.c_str(), messages, kMostMessages));
}

std::string content_of(const Json& content, const std::string& path, const std::set<std::string>& types) {
  if (content.is_string()) return text_of(content, path);
  if (!content.is_array()) throw bad_field(path, path + " must be a string or an array.", "invalid_type");
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    Fields part(content[i], path + "[" + std::to_string(i) + "]");
    const std::string type = part.text("type").value_or("");
    if (!types.contains(type))
      throw bad_field(part.path("type"),
                      "Content of the type \"" + type.substr(0, 40) + "\" is not supported: only text is.",
                      "unsupported_parameter");
    const char* const field = type == "refusal" ? "refusal" : "text";
    text += (i ? "\n" : "") + text_of(part.need(field), part.path(field));
    part.ignore({"annotations", "logprobs", "cache_control", "prompt_cache_breakpoint"});
    part.refuse_rest();
  }
  return text;
}

Json read_role(Fields& message) {
  std::string role = text_of(message.need("role"), message.path("role"));
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    throw bad_field(message.path("role"), "The role \"" + role.substr(0, 40) +
                                              "\" is not supported: system, developer, user, assistant and tool are.");
  return {{"role", role}, {"content", ""}};
}

void read_generation(Fields& fields, const ModelFacts& model, CompletionRequest& request) {
  Task& task = request.task;
  fields.text("model");  // a server of one model answers for every name
  read_sampling(fields, task);
  read_biases(fields, model, task);
  read_stops(fields, task);
  if (auto grammar = fields.text("grammar")) set_grammar(task, WEFT_GRAMMAR_GBNF, std::move(*grammar), "grammar");
  if (auto regex = fields.text("regex")) set_grammar(task, WEFT_GRAMMAR_REGEX, std::move(*regex), "regex");
  if (const auto head = fields.text("head")) {
    check_head(*head);
    task.head = *head;
  }
  // The caller's name and other fields that change no answer.
  for (const char* const name :
       {"user", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"})
    fields.text(name);
  fields.boolean("store");
  if (const Json* metadata = fields.take("metadata")) Fields(*metadata, "metadata");
  fields.ignore({"prompt_cache_options", "cache_prompt"});
  // Fields of other servers, whose clients send the values that change nothing.
  static const std::pair<const char*, Json> kNeutral[] = {{"repetition_penalty", 1},
                                                          {"length_penalty", 1},
                                                          {"min_tokens", 0},
                                                          {"ignore_eos", false},
                                                          {"stop_token_ids", Json::array()},
                                                          {"skip_special_tokens", true},
                                                          {"spaces_between_special_tokens", true},
                                                          {"include_stop_str_in_output", false},
                                                          {"add_generation_prompt", true},
                                                          {"continue_final_message", false},
                                                          {"use_beam_search", false},
                                                          {"mirostat", 0},
                                                          {"echo", false}};
  for (const auto& [name, neutral] : kNeutral) fields.only(name, neutral);
}

void read_format(Fields& fields, const std::string& name, bool flat, Task& task) {
  const Json* value = fields.take(name);
  if (!value) return;
  Fields format(*value, fields.path(name));
  const std::string type = text_of(format.need("type"), format.path("type"));
  if (type == "json_object") {
    set_grammar(task, WEFT_GRAMMAR_JSON_SCHEMA, R"({"type":"object"})", fields.path(name));
  } else if (type == "json_schema" && flat) {
    read_schema(format, task);
  } else if (type == "json_schema") {
    Fields wrapper(format.need("json_schema"), format.path("json_schema"));
    read_schema(wrapper, task);
    wrapper.refuse_rest();
  } else if (type != "text") {
    throw bad_field(format.path("type"), "The type must be text, json_object or json_schema.");
  }
  format.refuse_rest();
}

void read_chat_logprobs(Fields& fields, bool wanted, Task& task) {
  const auto count = fields.whole("top_logprobs", 0, WEFT_MAX_LOGPROBS);
  if (count && !wanted) throw bad_field("top_logprobs", "top_logprobs requires log-probabilities.");
  if (wanted) task.logprobs = static_cast<std::uint32_t>(count.value_or(0));
}

void set_thinking(bool on, CompletionRequest& request) {
  request.variables["enable_thinking"] = on;
  request.variables["thinking"] = on;
}

void read_thinking(Fields& fields, CompletionRequest& request) {
  const Json* value = fields.take("thinking");
  if (!value) return;
  Fields thinking(*value, fields.path("thinking"));
  const std::string type = text_of(thinking.need("type"), thinking.path("type"));
  if (type != "enabled" && type != "disabled" && type != "adaptive")
    throw bad_field(thinking.path("type"), "The type must be enabled, disabled or adaptive.");
  if (type != "adaptive") set_thinking(type == "enabled", request);
  if (const auto budget = thinking.whole("budget_tokens", 1, UINT32_MAX))
    request.task.thinking.budget = static_cast<std::uint32_t>(*budget);
  thinking.ignore({"display"});
  thinking.refuse_rest();
}

void set_effort(const std::string& effort, const std::string& field, CompletionRequest& request) {
  static constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  if (std::ranges::find(kEfforts, effort) == std::end(kEfforts))
    throw bad_field(field, field + " must be none, minimal, low, medium, high, xhigh or max.");
  const bool reasons = effort != "none" && effort != "minimal";
  request.variables["reasoning_effort"] = effort;
  set_thinking(reasons, request);
}

std::vector<std::uint32_t> ids_of(const Json& list, const std::string& field, std::uint32_t vocab_size) {
  std::vector<std::uint32_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocab_size)
      throw bad_field(field,
                      cli::format("%s[%zu] is no token: ids are below %u.", field.c_str(), ids.size(), vocab_size));
    ids.push_back(id.get<std::uint32_t>());
  }
  return ids;
}

CompletionRequest parse_chat(const std::string& body, const ModelFacts& model) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  CompletionRequest request;
  request.messages = messages_of(fields, request.pictures);
  read_common(fields, model, request);
  read_chat_logprobs(fields, fields.boolean("logprobs").value_or(false), request.task);
  read_tools(fields, request);
  read_variables(fields, request);
  fields.ignore({"prediction"});  // a guess of the answer, for speed
  fields.only("modalities", Json::array({"text"}));
  fields.only("verbosity", "medium");
  fields.refuse_rest();
  return request;
}

CompletionRequest parse_completion(const std::string& body, const ModelFacts& model) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  CompletionRequest request;
  request.form = Form::completion;
  const Json* prompt = &fields.need("prompt");
  if (prompt->is_array() && prompt->size() == 1 && !prompt->front().is_number()) prompt = &prompt->front();
  if (prompt->is_array() && !prompt->empty() && prompt->front().is_number()) {
    request.ids = ids_of(*prompt, "prompt", model.vocab_size);
  } else if (prompt->is_string()) {
    request.prompt = text_of(*prompt, "prompt");
  } else {
    throw bad_field("prompt", "prompt must be one string or one array of token ids.", "invalid_type");
  }
  read_common(fields, model, request);
  constexpr std::int64_t kMostLogprobs = 5;  // OpenAI's
  if (const auto count = fields.whole("logprobs", 0, kMostLogprobs))
    request.task.logprobs = static_cast<std::uint32_t>(*count);
  fields.only("best_of", request.choices);
  fields.refuse_rest();
  return request;
}

TokenizeRequest parse_tokenize(const std::string& body) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  fields.text("model");
  TokenizeRequest request;
  request.text = text_of(fields.need("content"), "content");
  request.add_special = fields.boolean("add_special").value_or(false);
  request.parse_special = fields.boolean("parse_special").value_or(false);
  fields.refuse_rest();
  return request;
}

std::vector<std::uint32_t> parse_detokenize(const std::string& body, const ModelFacts& model) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  fields.text("model");
  const Json& tokens = fields.need("tokens");
  if (!tokens.is_array()) throw bad_field("tokens", "tokens must be an array of token ids.", "invalid_type");
  fields.refuse_rest();
  return ids_of(tokens, "tokens", model.vocab_size);
}

CompletionRequest parse_apply_template(const std::string& body) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  fields.text("model");
  CompletionRequest request;
  request.messages = messages_of(fields, request.pictures);
  read_tools(fields, request);
  read_variables(fields, request);
  fields.refuse_rest();
  return request;
}

}  // namespace weft::serve
