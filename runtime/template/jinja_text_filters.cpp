// Filters that make text, as jinja2/filters.py of Jinja 3.1 has them where autoescape is off.
#include <algorithm>
#include <charconv>

#include "base/regex.h"
#include "base/utf8.h"
#include "template/jinja_builtins.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

Value trim(const Value& input, const BoundArguments& in, Context& context) {
  return strip(to_text(input, context), in.find_text("chars"), Side::both, context);
}

template <Text (*convert)(const Text&, Context&)>
Value convert_text(const Value& input, const BoundArguments&, Context& context) {
  return convert(to_text(input, context), context);
}

Value title_words(const Value& input, const BoundArguments&, Context& context) {
  return title(to_text(input, context), true, context);
}

Value string(const Value& input, const BoundArguments&, Context& context) { return to_text(input, context); }

Value replace_text(const Value& input, const BoundArguments& in, Context& context) {
  Text text = to_text(input, context), from = to_text(in.value("old"), context), to = to_text(in.value("new"), context);
  text.markup = from.markup = to.markup = false;
  return replace(text, from, to, in.find_not_none("count") == nullptr ? -1 : in.integer("count"), context);
}

Value indent_lines(const Value& input, const BoundArguments& in, Context& context) {
  if (input.text() == nullptr) in.fail(std::string("is given a ") + input.type_name());
  const Value* const width = in.find("width");
  const Text indention = width != nullptr && width->text() != nullptr
                             ? *width->text()
                             : repeat(Text(" "), in.integer("width", 4), context);
  return indent(*input.text(), indention, in.boolean("first", false), in.boolean("blank", false), context);
}

Value escape(const Value& input, const BoundArguments&, Context& context) {
  const Text text = to_text(input, context);
  return text.markup ? text : escape_html(text, context);
}

Value force_escape(const Value& input, const BoundArguments&, Context& context) {
  return escape_html(to_text(input, context), context);
}

Value safe(const Value& input, const BoundArguments&, Context& context) {
  Text text = to_text(input, context);
  text.markup = true;
  return text;
}

Value center_text(const Value& input, const BoundArguments& in, Context& context) {
  return center(to_text(input, context), in.integer("width", 80), Text(" "), context);
}

Value truncate(const Value& input, const BoundArguments& in, Context& context) {
  const int64_t size = in.integer("length", 255);
  const Text end = in.find("end") == nullptr ? Text("...") : in.text("end");
  const int64_t leeway = in.find_not_none("leeway") == nullptr ? 5 : in.integer("leeway");
  const auto ending = static_cast<int64_t>(length(Value(end), context));
  if (size < ending) in.fail("has a length below that of 'end'");
  if (leeway < 0) in.fail("has a leeway below 0");
  if (static_cast<int64_t>(length(input, context)) - leeway <= size) return input;
  if (input.text() == nullptr) in.fail(std::string("is given a ") + input.type_name());
  const auto offsets = character_offsets(*input.text(), context);
  Text text = input.text()->substr(0, offsets[static_cast<size_t>(size - ending)]);
  const Text space(" ");
  if (!in.boolean("killwords", false)) text = split_right(text, &space, 1, context)[0];
  return arithmetic("+", text, end, context);
}

bool is_word_character(char32_t code) { return code == '_' || is_of_kind(code, CharacterKind::alphanumeric); }

Value count_words(const Value& input, const BoundArguments&, Context& context) {
  int64_t count = 0;
  bool within = false;
  for (const char32_t code : code_points(to_text(input, context), context)) {
    const bool word = is_word_character(code);
    if (word && !within) ++count;
    within = word;
  }
  return count;
}

// ---- wordwrap: Python's textwrap.wrap ----

constexpr std::string_view kBreaks =
    R"([\t\n\x0b\x0c\r ]+|(?<=[\w!"'&.,?])-{2,}(?=\w)|[^\t\n\x0b\x0c\r ]+?(?:-(?:(?<=[^\d\W]{2}-)|(?<=[^\d\W]-[\w!"'&.,?]-))(?=[^\d\W]-?[^\d\W])|(?=[\t\n\x0b\x0c\r ]|\z)|(?<=[\w!"'&.,?])(?=-{2,}\w)))";
constexpr std::string_view spaceBreaks = R"([\t\n\x0b\x0c\r ]+)";

// The line cut at the matches, which are pieces too.
std::vector<Text> pieces_of(const Text& line, const Regex& regex, Context& context) {
  context.spend_bytes(16 * line.size());
  std::vector<Text> pieces;
  size_t at = 0;
  for (const Span& span : regex.find_all(line.bytes)) {
    if (span.begin > at) pieces.push_back(line.substr(at, span.begin - at));
    pieces.push_back(line.substr(span.begin, span.end - span.begin));
    at = span.end;
  }
  if (at < line.size()) pieces.push_back(line.substr(at, line.size() - at));
  return pieces;
}

struct Wrapping {
  size_t width;
  bool break_long_words, break_on_hyphens;
};

bool is_blank(const Text& text, Context& context) { return strip(text, nullptr, Side::both, context).size() == 0; }

// Moves as much of a piece that is longer than a line as has room into the line.
void take_long_piece(std::vector<Text>& pieces, std::vector<Text>& line, size_t room, const Wrapping& wrapping,
                     Context& context) {
  if (!wrapping.break_long_words) {
    if (!line.empty()) return;
    line.push_back(std::move(pieces.back()));
    return pieces.pop_back();
  }
  const Text piece = pieces.back();
  const auto offsets = character_offsets(piece, context);
  size_t end = room;
  if (wrapping.break_on_hyphens && offsets.size() - 1 > room) {
    const size_t hyphen = piece.bytes.substr(0, offsets[room]).rfind('-');
    if (hyphen != std::string::npos && hyphen > 0 && piece.bytes.find_first_not_of('-') < hyphen)
      end = static_cast<size_t>(std::find(offsets.begin(), offsets.end(), hyphen + 1) - offsets.begin());
  }
  line.push_back(piece.substr(0, offsets[end]));
  pieces.back() = piece.substr(offsets[end], piece.size() - offsets[end]);
}

std::vector<Text> wrap_line(const Text& text, const Regex& regex, const Wrapping& wrapping, Context& context) {
  std::vector<Text> pieces = pieces_of(text, regex, context), lines;
  std::reverse(pieces.begin(), pieces.end());
  while (!pieces.empty()) {
    std::vector<Text> line;
    size_t size = 0;
    if (!lines.empty() && is_blank(pieces.back(), context)) pieces.pop_back();
    while (!pieces.empty()) {
      const size_t more = length(Value(pieces.back()), context);
      if (size + more > wrapping.width) break;
      size += more;
      line.push_back(std::move(pieces.back()));
      pieces.pop_back();
    }
    if (!pieces.empty() && length(Value(pieces.back()), context) > wrapping.width)
      take_long_piece(pieces, line, wrapping.width - size, wrapping, context);
    if (!line.empty() && is_blank(line.back(), context)) line.pop_back();
    if (line.empty()) continue;
    Text joined;
    for (const Text& piece : line) joined.append(piece);
    lines.push_back(std::move(joined));
  }
  return lines;
}

Value word_wrap(const Value& input, const BoundArguments& in, Context& context) {
  if (input.text() == nullptr) in.fail(std::string("is given a ") + input.type_name());
  const int64_t width = in.integer("width", 79);
  if (width <= 0) in.fail("has a width below 1");
  const Wrapping wrapping{static_cast<size_t>(width), in.boolean("break_long_words", true),
                          in.boolean("break_on_hyphens", true)};
  const Regex regex(wrapping.break_on_hyphens ? kBreaks : spaceBreaks, "wordwrap");
  const Text* const given = in.find_text("wrapstring");
  const Text newline = given == nullptr ? Text("\n") : *given;
  Text out;
  bool first = true;
  for (const Text& line : split_lines(*input.text(), false, context)) {
    std::vector<Text> wrapped = wrap_line(line, regex, wrapping, context);
    if (wrapped.empty()) wrapped.emplace_back();
    for (const Text& part : wrapped) {
      context.spend_bytes(newline.size());
      if (!first) out.append(newline);
      out.append(part);
      first = false;
    }
  }
  return out;
}

// ---- The web ----

Text quote_url(const Value& value, bool query, Context& context) {
  constexpr std::string_view kDigits = "0123456789ABCDEF", kKept = "_.-~";
  const Text text = to_text(value, context);
  context.spend_bytes(4 * text.size());
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes[i];
    const auto byte = static_cast<unsigned char>(c);
    const bool kept = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                      kKept.find(c) != std::string_view::npos || (c == '/' && !query);
    std::string written(1, query && c == ' ' ? '+' : c);
    if (!kept && written != "+") written = std::string("%") + kDigits[byte >> 4] + kDigits[byte & 15];
    if (c == '+') written = "%2B";
    out.append(written, text.taint[i] != 0);
  }
  return out;
}

Value encode_url(const Value& input, const BoundArguments& in, Context& context) {
  if (input.text() != nullptr || !is_iterable(input)) return quote_url(input, false, context);
  std::vector<Value> pairs;
  if (input.dict() == nullptr)
    pairs = iterate(input, context);
  else
    for (const auto& [key, value] : input.dict()->items)
      pairs.push_back(make_list({key, value}, context, ListKind::tuple));
  Text out;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<Value> pair = iterate(pairs[i], context);
    if (pair.size() != 2) in.fail("takes pairs of a name and a value");
    if (i > 0) out.append("&");
    out.append(quote_url(pair[0], true, context));
    out.append("=");
    out.append(quote_url(pair[1], true, context));
  }
  return out;
}

Value xml_attributes(const Value& input, const BoundArguments& in, Context& context) {
  if (input.dict() == nullptr) in.fail(std::string("is given a ") + input.type_name());
  Text out;
  for (const auto& [key, value] : input.dict()->items) {
    if (value.is<None>() || value.is<Undefined>()) continue;
    if (key.text() == nullptr) in.fail(std::string("has a ") + key.type_name() + " for a name");
    if (key.text()->bytes.find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      in.fail("has the name " + in_quotes(key.text()->bytes));
    if (out.size() > 0 || in.boolean("autospace", true)) out.append(" ");
    out.append(escaped(key, context));
    out.append("=\"");
    out.append(escaped(value, context));
    out.append("\"");
  }
  return out;
}

// Removes what stands from one mark to the next.
Text without_spans(const Text& text, const std::string& open, const std::string& close, Context& context) {
  context.spend_bytes(text.size());
  Text out;
  size_t at = 0;
  while (true) {
    const size_t begin = find_bytes(text.bytes, open, at);
    const size_t end = begin == std::string::npos ? begin : find_bytes(text.bytes, close, begin);
    if (end == std::string::npos) break;
    out.append(text, at, begin - at);
    at = end + close.size();
  }
  out.append(text, at, text.size() - at);
  return out;
}

// The length of the entity at a position ("&amp;") and the text it stands for; Without one, the length is 0.
std::pair<size_t, std::string> entity_at(const std::string& text, size_t at, Context& context) {
  constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", "\u00a0"}};
  for (const auto& [name, meaning] : kNamed)
    if (text.compare(at, name.size(), name) == 0) return {name.size(), std::string(meaning)};
  const size_t end = text.find(';', at);
  if (text.compare(at, 2, "&#") == 0 && end != std::string::npos) {
    const bool hex = at + 2 < text.size() && (text[at + 2] == 'x' || text[at + 2] == 'X');
    const char* const begin = text.data() + at + (hex ? 3 : 2);
    uint32_t code = 0;
    const auto parsed = std::from_chars(begin, text.data() + end, code, hex ? 16 : 10);
    const bool plain = (code >= 0x20 && code < 0x7F) || (code >= 0xA0 && code < 0xD800);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + end && plain) {
      std::string meaning;
      append_utf8(meaning, static_cast<char32_t>(code));
      return {end + 1 - at, meaning};
    }
  }
  const char next = at + 1 < text.size() ? text[at + 1] : ' ';
  const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
  if (letter || next == '#') context.unsupported("the entity " + in_quotes(text.substr(at, 10)) + " in striptags");
  return {0, {}};
}

Value strip_tags(const Value& input, const BoundArguments&, Context& context) {
  const Text no_comments = without_spans(to_text(input, context), "<!--", "-->", context);
  Text words;
  for (const Text& word : split(without_spans(no_comments, "<", ">", context), nullptr, -1, context)) {
    if (words.size() > 0) words.append(" ");
    words.append(word);
  }
  Text out;
  for (size_t at = 0; at < words.size();) {
    context.spend(1);
    const auto [size, meaning] =
        words.bytes[at] == '&' ? entity_at(words.bytes, at, context) : std::pair<size_t, std::string>();
    out.append(size == 0 ? words.bytes.substr(at, 1) : meaning, words.taint[at] != 0);
    at += std::max<size_t>(size, 1);
  }
  return out;
}

Value format_text(const Value& input, const BoundArguments& in, Context& context) {
  const Text format = to_text(input, context);
  const Arguments& all = in.all();
  if (!all.named.empty() && !all.positional.empty()) in.fail("takes arguments either with names or without");
  if (all.named.empty()) return format_percent(format, make_list(all.positional, context, ListKind::tuple), context);
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : all.named) named.emplace_back(Value(name), value);
  return format_percent(format, make_dict(std::move(named), context), context);
}

constexpr Builtin kFilters[] = {
    {"capitalize", "", convert_text<capitalize>},
    {"center", "width?", center_text},
    {"e", "", escape},
    {"escape", "", escape},
    {"forceescape", "", force_escape},
    {"format", "*", format_text},
    {"indent", "width? first? blank?", indent_lines},
    {"lower", "", convert_text<lower>},
    {"replace", "old new count?", replace_text},
    {"safe", "", safe},
    {"string", "", string},
    {"striptags", "", strip_tags},
    {"title", "", title_words},
    {"trim", "chars?", trim},
    {"truncate", "length? killwords? end? leeway?", truncate},
    {"upper", "", convert_text<upper>},
    {"urlencode", "", encode_url},
    {"wordcount", "", count_words},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", word_wrap},
    {"xmlattr", "autospace?", xml_attributes},
};

}  // namespace

std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace weft::jinja
