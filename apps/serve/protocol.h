// Requests as JSON, read into plain structs. Unsupported fields are refused by name.
#pragma once

#include <nlohmann/json.hpp>
#include <set>

#include "chat/reader.h"
#include "engine.h"

namespace weft::serve {

using Json = nlohmann::ordered_json;

// An answer that is an error, in OpenAI's form.
class RequestError : public std::runtime_error {
 public:
  // retry_after: seconds after which the same request may be answered, if the status is 429.
  RequestError(int status, std::string type, std::string code, const std::string& message, std::string field = {},
               std::uint32_t retry_after = 1)
      : std::runtime_error(message),
        status_(status),
        type_(std::move(type)),
        code_(std::move(code)),
        field_(std::move(field)),
        retry_after_(retry_after) {}
  int status() const { return status_; }
  std::uint32_t retry_after() const { return retry_after_; }
  const std::string& code() const { return code_; }
  Json json() const;

 private:
  int status_;
  std::string type_, code_, field_;
  std::uint32_t retry_after_;
};

// 400: a field has a wrong value, or is not there.
RequestError bad_field(const std::string& field, const std::string& message, const std::string& code = "invalid_value");

constexpr std::size_t kMostMessages = 4096;

// Facts of the model that requests are checked against.
struct ModelFacts {
  std::string name;
  std::uint32_t vocab_size = 0;
  std::uint32_t context = 0;  // tokens of a session, or of an encoder's input
  std::uint32_t choices = 1;  // of an answer, at most
  std::uint32_t width = 0;    // elements of an embedding
};

enum class Form { chat, completion, response, message };  // the protocol of a request and of its answer
enum class ToolMode { none, automatic, forced };          // whether an answer may or must be a call

struct CompletionRequest {
  Form form = Form::chat;
  Json messages;                           // of a chat or a response, in the form of OpenAI's chats
  std::vector<std::string> pictures = {};  // files that the messages show, in order
  Json tools;                              // that the model may call; null: none
  ToolMode tool_mode = ToolMode::none;
  Json callable;                    // of the tools, those that an answer must call, if it must
  bool several_calls = true;        // else only the first one counts
  Json variables = Json::object();  // of the chat template
  ReaderOptions reader;             // of the answer
  std::string prompt;               // of a completion: a text
  std::vector<std::uint32_t> ids;   // or ids
  std::uint32_t choices = 1;
  bool stream = false;
  bool include_usage = false;     // a last chunk of a stream with the usage
  bool continuous_usage = false;  // each chunk of a stream has the usage so far
  Task task;                      // of the first choice, without its prompt
  Json echo = Json::object();     // fields that the answer repeats
};
struct TokenizeRequest {
  std::string text;
  bool add_special = false, parse_special = false;
};

// All throw RequestError.
class Fields;
std::vector<std::uint32_t> ids_of(const Json& list, const std::string& field, std::uint32_t vocab_size);
CompletionRequest parse_chat(const std::string& body, const ModelFacts& model);
CompletionRequest parse_completion(const std::string& body, const ModelFacts& model);
TokenizeRequest parse_tokenize(const std::string& body);
std::vector<std::uint32_t> parse_detokenize(const std::string& body, const ModelFacts& model);
CompletionRequest parse_apply_template(const std::string& body);

// Shared by several parsers. All throw RequestError.
void check_count(const std::string& field, std::size_t messages);
// A message's content: a text, or parts of these types that are texts.
std::string content_of(const Json& content, const std::string& path, const std::set<std::string>& types);
// A message with its role and an empty content.
Json read_role(Fields& message);
// The model, sampling, stops, the head, and grammars of our own.
void read_generation(Fields& fields, const ModelFacts& model, CompletionRequest& request);
// response_format, or what stands for it. flat: a schema and its name are beside the type.
void read_format(Fields& fields, const std::string& name, bool flat, Task& task);
void read_chat_logprobs(Fields& fields, bool wanted, Task& task);
// Anthropic's `thinking`: turns reasoning on or off, and limits its tokens.
void read_thinking(Fields& fields, CompletionRequest& request);
// The same by OpenAI's names of efforts.
void set_effort(const std::string& effort, const std::string& field, CompletionRequest& request);

}  // namespace weft::serve
