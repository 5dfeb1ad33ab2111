#include "chat/literals.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace weft {
namespace {

constexpr int kMostDepth = 64;
constexpr std::array<std::string_view, 2> kMarks = {"<|\"|>", "<escape>"};  // that begin and end Gemma's strings

class LiteralReader {
 public:
  LiteralReader(std::string_view text, size_t begin) : text_(text), at_(begin) {}

  Progress value(int depth);
  Progress named_values(char equals, char close, int depth);
  ReadLiteral result(Progress progress) { return {progress, at_, std::move(json_)}; }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  void spaces() { at_ = skip_space(text_, at_); }
  Progress marked_string(std::string_view mark);
  bool ends_string() const;
  Progress quoted_string(char quote);
  Progress escape(std::string& value);
  Progress code_point(size_t digits, std::string& value);
  Progress string();
  Progress word();
  Progress name(char equals);
  Progress list(char close, int depth);

  std::string_view text_;
  size_t at_;
  std::string json_;
};

Progress LiteralReader::marked_string(std::string_view mark) {
  const size_t begin = at_ + mark.size(), end = text_.find(mark, begin);
  if (end == std::string_view::npos) return Progress::more;
  json_ += json_literal(text_.substr(begin, end - begin));
  at_ = end + mark.size();
  return Progress::done;
}

Progress LiteralReader::code_point(size_t digits, std::string& value) {
  if (at_ + digits > text_.size()) return Progress::more;
  char32_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    const size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(text_[at_ + i] | 0x20));
    if (digit == std::string_view::npos) return Progress::wrong;
    code = code * 16 + static_cast<char32_t>(digit);
  }
  at_ += digits;
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return Progress::wrong;
  append_utf8(value, code);
  return Progress::done;
}

Progress LiteralReader::escape(std::string& value) {
  if (++at_; at_end()) return Progress::more;
  const char kind = text_[at_++];
  if (kind == 'x') return code_point(2, value);
  if (kind == 'u') return code_point(4, value);
  if (kind == 'U') return code_point(8, value);
  if (kind == '\n') return Progress::done;  // the line goes on
  constexpr std::string_view kNames = "nrtbf0\\'\"/", kValues{"\n\r\t\b\f\0\\'\"/", 10};
  const size_t known = kNames.find(kind);
  if (known == std::string_view::npos) value += '\\';  // as in Python
  value += known == std::string_view::npos ? kind : kValues[known];
  return Progress::done;
}

// LFM2's template quotes a text that has quotes without escaping them: the last quote has a bracket or a comma after
// it.
bool LiteralReader::ends_string() const {
  const size_t next = skip_space(text_, at_ + 1);
  return next >= text_.size() || std::string_view(",)]}:").find(text_[next]) != std::string_view::npos;
}

Progress LiteralReader::quoted_string(char quote) {
  std::string value;
  for (++at_; !at_end();) {
    if (text_[at_] == quote && ends_string()) {
      ++at_;
      json_ += json_literal(value);
      return Progress::done;
    }
    if (text_[at_] == '\\') {
      if (const Progress escaped = escape(value); escaped != Progress::done) return escaped;
    } else {
      value += text_[at_++];
    }
  }
  return Progress::more;
}

Progress LiteralReader::string() {
  if (text_[at_] == '"' || text_[at_] == '\'') return quoted_string(text_[at_]);
  const std::string_view rest = text_.substr(at_);
  for (const std::string_view mark : kMarks) {
    if (rest.starts_with(mark)) return marked_string(mark);
    if (mark.starts_with(rest)) return Progress::more;
  }
  return Progress::wrong;
}

// A number, or a word that stands for a value.
Progress LiteralReader::word() {
  const size_t end = std::min(text_.find_first_of(",:=)]} \t\r\n", at_), text_.size());
  const std::string_view word = text_.substr(at_, end - at_);
  constexpr std::array<std::array<std::string_view, 2>, 6> kWords = {
      {{"True", "true"}, {"False", "false"}, {"None", "null"}, {"true", "true"}, {"false", "false"}, {"null", "null"}}};
  const auto* const known = std::ranges::find_if(kWords, [&](const auto& pair) { return pair[0] == word; });
  const Extent number = json_extent(word, 0);
  const bool is_number = known == kWords.end() && number.progress == Progress::done && number.end == word.size();
  if (known == kWords.end() && !is_number) return end == text_.size() ? Progress::more : Progress::wrong;
  if (end == text_.size()) return Progress::more;
  json_ += is_number ? word : (*known)[1];
  at_ = end;
  return Progress::done;
}

Progress LiteralReader::list(char close, int depth) {
  json_ += '[';
  ++at_;
  for (bool first = true;; first = false) {
    if (spaces(); at_end()) return Progress::more;
    if (text_[at_] == close) break;
    if (!first) json_ += ", ";
    if (const Progress item = value(depth + 1); item != Progress::done) return item;
    if (spaces(); at_end()) return Progress::more;
    if (text_[at_] == ',') {
      ++at_;
    } else if (text_[at_] != close) {
      return Progress::wrong;
    }
  }
  json_ += ']';
  ++at_;
  return Progress::done;
}

// A member's name and what follows it.
Progress LiteralReader::name(char equals) {
  if (text_[at_] == '"' || text_[at_] == '\'' || text_[at_] == '<') {
    if (const Progress read = string(); read != Progress::done) return read;
  } else {
    const size_t end = std::min(text_.find_first_of("=:,()[]{}\"' \t\r\n", at_), text_.size());
    if (end == text_.size()) return Progress::more;
    if (end == at_) return Progress::wrong;
    json_ += json_literal(text_.substr(at_, end - at_));
    at_ = end;
  }
  if (spaces(); at_end()) return Progress::more;
  if (text_[at_] != equals) return Progress::wrong;
  ++at_;
  json_ += ": ";
  return Progress::done;
}

Progress LiteralReader::named_values(char equals, char close, int depth) {
  if (depth >= kMostDepth) return Progress::wrong;
  json_ += '{';
  for (bool first = true;; first = false) {
    if (spaces(); at_end()) return Progress::more;
    if (text_[at_] == close) break;
    if (!first) json_ += ", ";
    if (const Progress read = name(equals); read != Progress::done) return read;
    if (const Progress read = value(depth + 1); read != Progress::done) return read;
    if (spaces(); at_end()) return Progress::more;
    if (text_[at_] == ',') {
      ++at_;
    } else if (text_[at_] != close) {
      return Progress::wrong;
    }
  }
  json_ += '}';
  ++at_;
  return Progress::done;
}

Progress LiteralReader::value(int depth) {
  if (depth >= kMostDepth) return Progress::wrong;
  if (spaces(); at_end()) return Progress::more;
  switch (text_[at_]) {
    case '[':
      return list(']', depth);
    case '(':
      return list(')', depth);
    case '{':
      ++at_;
      return named_values(':', '}', depth);
    case '"':
    case '\'':
    case '<':
      return string();
    default:
      return word();
  }
}

}  // namespace

ReadLiteral read_literal(std::string_view text, size_t begin) {
  LiteralReader reader(text, begin);
  return reader.result(reader.value(0));
}

ReadLiteral read_named_values(std::string_view text, size_t begin, char equals, char close) {
  LiteralReader reader(text, begin);
  return reader.result(reader.named_values(equals, close, 0));
}

}  // namespace weft
