// Bodies of requests to `weft serve`. Input: the path's letter, then the body.
#include "answers.h"
#include "chat/forced.h"
#include "conversation.h"
#include "fields.h"
#include "fuzz_support.h"
#include "responses.h"
#include "tools.h"

namespace {

using namespace weft::serve;

const ModelFacts kModel = {"model", 300, 64, 4, 32};

// Checks the limits that the rest of the server relies on.
void check(const CompletionRequest& request) {
  if (request.choices < 1 || request.choices > kModel.choices) std::abort();
  if (request.task.max_tokens > kModel.context) std::abort();
  for (const uint32_t id : request.ids)
    if (id >= kModel.vocab_size) std::abort();
  for (const auto& [id, bias] : request.task.biases)
    if (id >= kModel.vocab_size || !(bias >= -100 && bias <= 100)) std::abort();
  if (request.form != Form::completion && (!request.messages.is_array() || request.messages.empty())) std::abort();
  const size_t list = std::min(request.task.head.find("keep:"), request.task.head.size());
  if (request.task.head.find_first_of("./", list) != request.task.head.npos) std::abort();  // no file can be named
}

// An answer in pieces, which may be calls.
void answer(const CompletionRequest& request, const std::string& text) {
  weft::Reader reader(reader_options(request, "<think></think><response>"));
  size_t end = 0;
  const auto check = [&](const std::vector<weft::Reader::Event>& events) {
    for (const weft::Reader::Event& event : events) {
      if (event.end < end || event.end > text.size()) std::abort();
      end = event.end;
    }
  };
  for (size_t i = 0; i < text.size(); i += 3) check(reader.push(text.substr(i, 3)));
  check(reader.finish());
}

void read(char path, const std::string& body) {
  switch (path) {
    case 'c':
    case 'r': {
      const CompletionRequest request = path == 'c' ? parse_chat(body, kModel) : parse_response(body, kModel);
      check(request);
      if (request.tools.is_array() && !request.tools.empty()) {
        static_cast<void>(weft::forced_call(reader_options(request, "").tools, "<tool_call><parameter="));
        static_cast<void>(bytes_of(without_tools(request.messages, request.tools, true)));
        answer(request, bytes_of(request.messages.back().value("content", Json())));
        answer(request, R"({"name": "f", "arguments": {"x": [1, "}"]}} <tool_call>{"name": "f"}</tool_call>)");
      }
      return;
    }
    case 'p':
      return check(parse_completion(body, kModel));
    case 't':
      return static_cast<void>(parse_tokenize(body));
    case 'd':
      for (const uint32_t id : parse_detokenize(body, kModel))
        if (id >= kModel.vocab_size) std::abort();
      return;
    case 'a':
      return static_cast<void>(parse_apply_template(body));
    default:
      return;
  }
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  if (size == 0) return;
  try {
    read(static_cast<char>(data[0]), std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  } catch (const serve::RequestError& error) {
    // The answer is JSON, whatever was quoted in it.
    const std::string text = serve::bytes_of(error.json());
    if (error.status() < 400 || error.status() > 499 || !serve::Json::accept(text)) std::abort();
  }
}
