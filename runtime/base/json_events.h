// Reader of untrusted JSON text, for code that builds a document from it: nlohmann's parser with a bound on the depth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_value.h"

namespace weft {

// Takes the parts of a document in the order of the text.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  // A scalar, or an empty array or object whose parts follow until end(). spelling: of a number that is not whole.
  virtual void begin(JsonValue value, const std::string& spelling) = 0;
  // The name of the next value, which may be moved from.
  virtual void key(std::string& name) = 0;
  virtual void end() = 0;
  // Both have to throw. byte: where the parser stopped, from 1. reason: what is wrong; may be no UTF-8.
  [[noreturn]] virtual void fail(const std::string& sentence) = 0;
  [[noreturn]] virtual void malformed(size_t byte, const std::string& reason) = 0;

 protected:
  // One document (RFC 8259), with arrays and objects at most most_depth deep.
  void parse(std::string_view text, size_t most_depth);
  // The line of the text that the parser has come to, from 1.
  uint32_t line();

 private:
  const char* counted_ = nullptr;  // line_ counts the line ends before it
  const char* read_ = nullptr;     // how far the parser has read: one character past a number
  uint32_t line_ = 1;
};

}  // namespace weft
