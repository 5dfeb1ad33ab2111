#include "chat/json_extent.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_value.h"

namespace weft {
namespace {

constexpr size_t kMostDepth = 64;
constexpr JsonLimits kLiteral = {uint64_t{1} << 28, 1, 1};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Scanner {
 public:
  Scanner(std::string_view text, size_t begin) : text_(text), at_(begin) {}
  Extent run() {
    const Progress progress = value(0);
    return {progress, at_};
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  void spaces() { at_ = skip_space(text_, at_); }

  Progress word(std::string_view expected) {
    for (const char c : expected) {
      if (at_end()) return Progress::more;
      if (text_[at_] != c) return Progress::wrong;
      ++at_;
    }
    return Progress::done;
  }

  Progress string() {
    for (++at_; !at_end(); ++at_) {
      const char c = text_[at_];
      if (c == '"') return ++at_, Progress::done;
      if (static_cast<unsigned char>(c) < 0x20) return Progress::wrong;
      if (c != '\\') continue;
      if (++at_; at_end()) return Progress::more;
      if (std::string_view("\"\\/bfnrtu").find(text_[at_]) == std::string_view::npos) return Progress::wrong;
      for (int digit = 0; text_[at_ - static_cast<size_t>(digit)] == 'u' && digit < 4; ++digit) {
        if (++at_; at_end()) return Progress::more;
        if (!is_hex(text_[at_])) return Progress::wrong;
      }
    }
    return Progress::more;
  }

  // At least one digit.
  Progress digits() {
    if (at_end()) return Progress::more;
    if (!is_digit(text_[at_])) return Progress::wrong;
    while (!at_end() && is_digit(text_[at_])) ++at_;
    return Progress::done;
  }

  Progress number() {
    if (text_[at_] == '-') ++at_;
    const size_t first = at_;
    if (const Progress whole = digits(); whole != Progress::done) return whole;
    if (text_[first] == '0' && at_ > first + 1) return Progress::wrong;
    if (!at_end() && text_[at_] == '.') {
      ++at_;
      if (const Progress fraction = digits(); fraction != Progress::done) return fraction;
    }
    if (at_end() || (text_[at_] != 'e' && text_[at_] != 'E')) return Progress::done;
    if (++at_; !at_end() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    return digits();
  }

  Progress name_and_colon() {
    if (text_[at_] != '"') return Progress::wrong;
    if (const Progress name = string(); name != Progress::done) return name;
    if (spaces(); at_end()) return Progress::more;
    if (text_[at_] != ':') return Progress::wrong;
    ++at_;
    return Progress::done;
  }

  Progress items(char close, size_t depth) {
    if (depth >= kMostDepth) return Progress::wrong;
    ++at_;
    for (bool first = true;; first = false) {
      if (spaces(); at_end()) return Progress::more;
      if (first && text_[at_] == close) return ++at_, Progress::done;
      if (close == '}') {
        if (const Progress name = name_and_colon(); name != Progress::done) return name;
      }
      if (const Progress item = value(depth + 1); item != Progress::done) return item;
      if (spaces(); at_end()) return Progress::more;
      const char next = text_[at_];
      if (next != ',' && next != close) return Progress::wrong;
      ++at_;
      if (next == close) return Progress::done;
    }
  }

  Progress value(size_t depth) {
    if (spaces(); at_end()) return Progress::more;
    switch (text_[at_]) {
      case '{':
        return items('}', depth);
      case '[':
        return items(']', depth);
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return text_[at_] == '-' || is_digit(text_[at_]) ? number() : Progress::wrong;
    }
  }

  std::string_view text_;
  size_t at_;
};

}  // namespace

Extent json_extent(std::string_view text, size_t begin) { return Scanner(text, begin).run(); }

std::optional<std::string> json_text(std::string_view literal) {
  try {
    const JsonValue value = parse_json(literal, kLiteral, Code::invalid_argument, "a string");
    if (value.is_string()) return value.text();
  } catch (const Error&) {
    // Half a surrogate pair, or bytes that are no UTF-8.
  }
  return std::nullopt;
}

std::string json_literal(std::string_view text) { return JsonValue(text).dump(); }

size_t skip_space(std::string_view text, size_t begin) {
  return std::min(text.find_first_not_of(" \t\r\n", begin), text.size());
}

}  // namespace weft
