#include "base/json_events.h"

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/number.h"
#include "base/wanted.h"

namespace weft {

namespace {

using nlohmann::json;

// The text, noting how far it was read.
struct Reader {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** read;

  const char& operator*() const { return *at; }
  Reader& operator++() {
    *read = ++at;
    return *this;
  }
  Reader operator++(int) {
    const Reader before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Reader& other) const { return at == other.at; }
  bool operator!=(const Reader& other) const { return at != other.at; }
};

// The parser keeps a stack of its own, so only the depth of what is built, and one day destroyed, has to be bounded.
class Sax : public nlohmann::json_sax<json> {
 public:
  Sax(JsonEvents& events, size_t most_depth) : events_(events), most_depth_(most_depth) {}

  bool null() override { return begin(nullptr); }
  bool boolean(bool value) override { return begin(value); }
  bool number_integer(number_integer_t value) override { return begin(value); }
  bool number_unsigned(number_unsigned_t value) override { return begin(value); }
  bool number_float(number_float_t value, const string_t& spelling) override { return begin(value, spelling); }
  bool string(string_t& value) override { return begin(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // never in text
  bool start_object(size_t) override { return open(JsonValue::object()); }
  bool start_array(size_t) override { return open(JsonValue::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    events_.key(name);
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    // what() is "[json.exception...] parse error at line L, column C: what is wrong", not always with line and column.
    std::string reason = error.what();
    if (const size_t column = reason.find("column "); column != std::string::npos) {
      if (const size_t colon = reason.find(": ", column); colon != std::string::npos) reason.erase(0, colon + 2);
    } else if (const size_t bracket = reason.find("] "); bracket != std::string::npos) {
      reason.erase(0, bracket + 2);
    }
    events_.malformed(byte, reason);
    return false;
  }

 private:
  bool begin(JsonValue value, const std::string& spelling = {}) {
    rounds_.next();
    events_.begin(std::move(value), spelling);
    return true;
  }
  bool open(JsonValue value) {
    if (depth_++ == most_depth_)
      events_.fail("arrays and objects are nested more than " + std::to_string(most_depth_) + " deep");
    return begin(std::move(value));
  }
  bool close() {
    --depth_;
    events_.end();
    return true;
  }

  JsonEvents& events_;
  size_t most_depth_, depth_ = 0;
  WantedRounds rounds_;
};

}  // namespace

void JsonEvents::parse(std::string_view text, size_t most_depth) {
  const PlainLocale plain;  // nlohmann's lexer reads numbers with strtod, and spells them with the locale's point
  counted_ = read_ = text.data();
  line_ = 1;
  Sax sax(*this, most_depth);
  json::sax_parse(Reader{text.data(), &read_}, Reader{text.data() + text.size(), &read_}, &sax);
}

uint32_t JsonEvents::line() {
  for (; counted_ + 1 < read_; ++counted_) line_ += *counted_ == '\n' ? 1u : 0u;
  return line_;
}

}  // namespace weft
