// The tokens of a Jinja template (https://jinja.palletsprojects.com/en/stable/templates/), with white space handled as
// Hugging Face's apply_chat_template sets it: trim_blocks and lstrip_blocks on, one newline at the template's end
// dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::jinja {

enum class TokenType {
  data,  // text outside of tags
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  integer,
  real,
  string,
  op,
  end,
};

struct Token {
  TokenType type = TokenType::end;
  std::string text;  // data, name, op; a string's value with its escapes resolved
  int64_t integer = 0;
  double real = 0;
  uint32_t line = 1;

  bool is_op(std::string_view op) const { return type == TokenType::op && text == op; }
  bool is_name(std::string_view name) const { return type == TokenType::name && text == name; }
};

// Ends with a token of type end. place: for errors. Throws Error(bad_file) naming the line.
std::vector<Token> lex(std::string_view source, const std::string& place);

// The place of an error within a template: "MODEL, chat template line N".
std::string template_place(const std::string& place, uint32_t line);

}  // namespace weft::jinja
