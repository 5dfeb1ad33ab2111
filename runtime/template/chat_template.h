// A model's chat template: messages to the prompt the model was trained on.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "base/text_piece.h"

namespace weft {

struct Message {
  std::string role;     // "system", "user", "assistant"
  std::string content;  // any bytes
};

// A Jinja template as transformers' apply_chat_template runs it. Constant after construction: any number of threads may
// render; copies share the parsed template. A template that does not come to an end, or nests without end, is refused.
class ChatTemplate {
 public:
  // source: Jinja. named_tokens: the spellings of bos_token and its like (Tokenizer::named_tokens()). place: the
  // model's name, for errors.
  // Throws Error(bad_file) where the source contradicts Jinja's grammar and Error(unsupported) for a tag Weft does not
  // know, naming line and construct.
  ChatTemplate(const std::string& source, std::map<std::string, std::string> named_tokens, std::string place);

  // The prompt in pieces: what the template wrote is Special::parse, every byte that came out of a message's content is
  // Special::plain (and so is a role, unless it is a plain word). Neighbouring pieces differ in that; none is empty.
  // The template decides if the prompt begins with BOS. Throws Error(invalid_argument) where the template
  // refuses the conversation, Error(unsupported) naming line and filter, test or method it uses that Weft does not
  // know, and Error(bad_file) where it does what no value allows.
  std::vector<TextPiece> render(std::span<const Message> messages, bool add_generation_prompt) const;

  // The same for messages with more than a role and a content, such as tool_calls; tools: an array, or null; variables:
  // more of the template's, an object or null. Every text in them counts as content, names of fields too.
  std::vector<TextPiece> render(const JsonValue& messages, const JsonValue& tools, bool add_generation_prompt,
                                const JsonValue& variables = nullptr) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace weft
