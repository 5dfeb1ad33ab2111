// Requests as JSON, read into plain structs. What is not supported is refused by name.
#pragma once

#include <nlohmann/json.hpp>

#include "engine.h"

namespace weft::serve {

using Json = nlohmann::ordered_json;

// An answer that is an error, in OpenAI's form.
class RequestError : public std::runtime_error {
 public:
  RequestError(int status, std::string type, std::string code, const std::string& message, std::string field = {})
      : std::runtime_error(message),
        status_(status),
        type_(std::move(type)),
        code_(std::move(code)),
        field_(std::move(field)) {}
  int status() const { return status_; }
  const std::string& code() const { return code_; }
  Json json() const;

 private:
  int status_;
  std::string type_, code_, field_;
};

// 400: a field has a wrong value, or is not there.
RequestError bad_field(const std::string& field, const std::string& message, const std::string& code = "invalid_value");

constexpr std::size_t kMostMessages = 4096;
constexpr int kMostDepth = 64;  // of arrays and objects in a body

// What requests are checked against.
struct ModelFacts {
  std::string name;
  std::uint32_t vocab_size = 0;
  std::uint32_t context = 0;  // tokens of a session, or of an encoder's input
  std::uint32_t choices = 1;  // of an answer, at most
  std::uint32_t width = 0;    // elements of an embedding
};

enum class ToolMode { none, automatic, forced };  // whether an answer may or must be a call

struct CompletionRequest {
  bool chat = true;
  Json messages;  // of a chat, as chat templates expect them
  Json tools;     // that the model may call; null: none
  ToolMode tool_mode = ToolMode::none;
  bool several_calls = true;       // else only the first one counts
  std::string prompt;              // of a completion: a text
  std::vector<std::uint32_t> ids;  // or ids
  std::uint32_t choices = 1;
  bool stream = false;
  bool include_usage = false;     // a last chunk of a stream with the usage
  bool continuous_usage = false;  // each chunk of a stream has the usage so far
  Task task;                      // of the first choice, without its prompt
};
struct TokenizeRequest {
  std::string text;
  bool add_special = false, parse_special = false;
};

// All throw RequestError.
class Fields;
void check_model_name(Fields& fields, const ModelFacts& model);
std::vector<std::uint32_t> ids_of(const Json& list, const std::string& field, std::uint32_t vocab_size);
CompletionRequest parse_chat(const std::string& body, const ModelFacts& model);
CompletionRequest parse_completion(const std::string& body, const ModelFacts& model);
TokenizeRequest parse_tokenize(const std::string& body);
std::vector<std::uint32_t> parse_detokenize(const std::string& body, const ModelFacts& model);
CompletionRequest parse_apply_template(const std::string& body);

}  // namespace weft::serve
