// Methods of Python's str.
#include <algorithm>

#include "template/jinja_builtins.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

const Text& self(const Value& input) { return *input.text(); }

Value list_of(std::vector<Text> texts, Context& context, ListKind kind = ListKind::list) {
  std::vector<Value> items;
  for (Text& text : texts) items.emplace_back(std::move(text));
  return make_list(std::move(items), context, kind);
}

// The bytes between the arguments "start" and "end", which count characters. nullopt if start is behind the end.
std::optional<std::pair<size_t, size_t>> window(const Text& text, const BoundArguments& in, Context& context) {
  if (in.find_not_none("start") == nullptr && in.find_not_none("end") == nullptr)
    return std::pair{size_t{0}, text.size()};
  const std::vector<size_t> offsets = character_offsets(text, context);
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  const auto bound = [&](std::string_view name, int64_t fallback) {
    const int64_t given = in.find_not_none(name) == nullptr ? fallback : in.integer(name);
    return given < 0 ? std::max<int64_t>(0, given + size) : given;
  };
  const int64_t begin = bound("start", 0), end = std::min(bound("end", size), size);
  if (begin > end) return {};
  return std::pair{offsets[static_cast<size_t>(begin)], offsets[static_cast<size_t>(end)]};
}

bool has_affix(std::string_view text, const Value& affix, bool at_start, const BoundArguments& in, Context& context) {
  if (affix.text() == nullptr) in.wrong_type("prefix", affix, "a string or a tuple of strings");
  context.spend_bytes(affix.text()->size());
  return at_start ? text.starts_with(affix.text()->bytes) : text.ends_with(affix.text()->bytes);
}

template <bool at_start>
Value has_affix_of(const Value& input, const BoundArguments& in, Context& context) {
  const Value& affix = in.value("prefix");
  const auto range = window(self(input), in, context);
  const auto has = [&](const Value& one) {
    const std::string_view text =
        range ? std::string_view(self(input).bytes).substr(range->first, range->second - range->first) : "";
    return has_affix(text, one, at_start, in, context) && range;
  };
  if (!affix.is_tuple()) return has(affix);
  return std::any_of(affix.list()->items.begin(), affix.list()->items.end(), has);
}

// The position in characters, -1 for none.
int64_t find_position(const Value& input, const BoundArguments& in, bool from_right, Context& context) {
  const Text& text = self(input);
  const std::string& wanted = in.text("sub").bytes;
  const auto range = window(text, in, context);
  if (!range) return -1;
  context.spend_bytes(text.size());
  const std::string_view within = std::string_view(text.bytes).substr(range->first, range->second - range->first);
  const size_t hit = from_right ? rfind_bytes(within, wanted) : find_bytes(within, wanted);
  if (hit == std::string::npos) return -1;
  return static_cast<int64_t>(length(Value(text.substr(0, range->first + hit)), context));
}

template <bool from_right>
Value find(const Value& input, const BoundArguments& in, Context& context) {
  return find_position(input, in, from_right, context);
}

template <bool from_right>
Value index(const Value& input, const BoundArguments& in, Context& context) {
  const int64_t found = find_position(input, in, from_right, context);
  if (found < 0) in.fail("looks for a text that is not there");
  return found;
}

Value count(const Value& input, const BoundArguments& in, Context& context) {
  const std::string& wanted = in.text("sub").bytes;
  const auto range = window(self(input), in, context);
  if (!range) return int64_t{0};
  const Text text = self(input).substr(range->first, range->second - range->first);
  if (wanted.empty()) return static_cast<int64_t>(length(Value(text), context)) + 1;
  context.spend_bytes(text.size());
  int64_t count = 0;
  for (size_t at = 0; (at = find_bytes(text.bytes, wanted, at)) != std::string::npos; at += wanted.size()) ++count;
  return count;
}

Value replace_text(const Value& input, const BoundArguments& in, Context& context) {
  const Text& to = in.text("new");
  return replace(self(input), in.text("old"), self(input).markup ? escaped(to, context) : to, in.integer("count", -1),
                 context);
}

template <bool from_right>
Value split_text(const Value& input, const BoundArguments& in, Context& context) {
  const int64_t limit = in.integer("maxsplit", -1);
  const auto cut = from_right ? split_right : split;
  return list_of(cut(self(input), in.find_text("sep"), limit, context), context);
}

Value split_into_lines(const Value& input, const BoundArguments& in, Context& context) {
  return list_of(split_lines(self(input), in.integer("keepends", 0) != 0, context), context);
}

template <bool from_right>
Value partition(const Value& input, const BoundArguments& in, Context& context) {
  const Text &text = self(input), &separator = in.text("sep");
  if (separator.size() == 0) in.fail("has an empty separator");
  context.spend_bytes(text.size());
  const size_t hit = from_right ? rfind_bytes(text.bytes, separator.bytes) : find_bytes(text.bytes, separator.bytes);
  const Text empty = text.substr(0, 0);
  if (hit == std::string::npos)
    return list_of(from_right ? std::vector{empty, empty, text} : std::vector{text, empty, empty}, context,
                   ListKind::tuple);
  const size_t end = hit + separator.size();
  return list_of({text.substr(0, hit), text.substr(hit, end - hit), text.substr(end, text.size() - end)}, context,
                 ListKind::tuple);
}

template <Side side>
Value strip_text(const Value& input, const BoundArguments& in, Context& context) {
  return strip(self(input), in.find_text("chars"), side, context);
}

template <bool at_start>
Value remove_affix(const Value& input, const BoundArguments& in, Context& context) {
  const size_t size = in.text("prefix").size();
  if (!has_affix(self(input).bytes, in.value("prefix"), at_start, in, context)) return input;
  return self(input).substr(at_start ? size : 0, self(input).size() - size);
}

Value join(const Value& input, const BoundArguments& in, Context& context) {
  const Text& separator = self(input);
  Text out;
  bool first = true;
  for (const Value& item : iterate(in.value("iterable"), context)) {
    if (item.text() == nullptr && !separator.markup) in.fail(std::string("joins a ") + item.type_name());
    const Text text = separator.markup ? escaped(item, context) : *item.text();
    context.spend_bytes(separator.size() + text.size());
    if (!first) out.append(separator);
    out.append(text);
    first = false;
  }
  out.markup = separator.markup;
  return out;
}

template <Text (*convert)(const Text&, Context&)>
Value convert_text(const Value& input, const BoundArguments&, Context& context) {
  return convert(self(input), context);
}

Value title_words(const Value& input, const BoundArguments&, Context& context) {
  return title(self(input), false, context);
}

Text fill_of(const Value& input, const BoundArguments& in, Context& context) {
  const Text fill = in.find("fillchar") == nullptr ? Text(" ") : in.text("fillchar");
  if (length(Value(fill), context) != 1) in.fail("fills with one character");
  return self(input).markup ? escaped(fill, context) : fill;
}

int64_t room(const Value& input, const BoundArguments& in, Context& context) {
  const int64_t width = in.integer("width"), size = static_cast<int64_t>(length(input, context));
  return width > size ? width - size : 0;
}

Value center_text(const Value& input, const BoundArguments& in, Context& context) {
  return center(self(input), in.integer("width"), fill_of(input, in, context), context);
}
Value fill_right(const Value& input, const BoundArguments& in, Context& context) {
  return pad(self(input), 0, room(input, in, context), fill_of(input, in, context), context);
}
Value fill_left(const Value& input, const BoundArguments& in, Context& context) {
  return pad(self(input), room(input, in, context), 0, fill_of(input, in, context), context);
}

// Zeros between the sign and the digits.
Value fill_zeros(const Value& input, const BoundArguments& in, Context& context) {
  const Text& text = self(input);
  const size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  Text out = text.substr(0, sign);
  out.append(repeat(Text("0"), room(input, in, context), context));
  out.append(text, sign, text.size() - sign);
  return out;
}

Value expand_tabs(const Value& input, const BoundArguments& in, Context& context) {
  const int64_t size = in.integer("tabsize", 8);
  Text out = self(input).substr(0, 0);
  int64_t column = 0;
  const std::vector<size_t> offsets = character_offsets(self(input), context);
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const char c = self(input).bytes[offsets[i]];
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out.append(repeat(Text(" "), spaces, context));
      column += spaces;
    } else {
      out.append(self(input), offsets[i], offsets[i + 1] - offsets[i]);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return out;
}

// isalpha() and its like: true if all characters are of the kind; of an empty text as it is said.
template <CharacterKind kind, bool of_empty = false>
Value all_of_kind(const Value& input, const BoundArguments&, Context& context) {
  const std::vector<char32_t> codes = code_points(self(input), context);
  if (codes.empty()) return of_empty;
  return std::all_of(codes.begin(), codes.end(), [](char32_t code) { return is_of_kind(code, kind); });
}

template <Case wanted>
Value is_cased(const Value& input, const BoundArguments&, Context& context) {
  return all_cased(self(input), wanted, context);
}

// Words begin with an upper-case letter and go on in lower case.
Value is_title(const Value& input, const BoundArguments&, Context& context) {
  const Text& text = self(input);
  return (all_cased(text, Case::upper, context) || all_cased(text, Case::lower, context) || text.size() > 0) &&
         upper(text, context).bytes != lower(text, context).bytes && title(text, false, context).bytes == text.bytes;
}

Value is_identifier(const Value& input, const BoundArguments&, Context& context) {
  const std::vector<char32_t> codes = code_points(self(input), context);
  if (codes.empty() || is_of_kind(codes[0], CharacterKind::decimal)) return false;
  return std::all_of(codes.begin(), codes.end(), [](char32_t code) {
    return code == '_' || is_of_kind(code, CharacterKind::alphabetic) || is_of_kind(code, CharacterKind::decimal);
  });
}

Value format(const Value& input, const BoundArguments& in, Context& context) {
  return format_braces(self(input), in.all(), context);
}

Value format_map(const Value& input, const BoundArguments& in, Context& context) {
  if (in.value("map").dict() == nullptr) in.wrong_type("map", in.value("map"), "a dict");
  Arguments arguments;
  for (const auto& [key, value] : in.value("map").dict()->items)
    arguments.named.emplace_back(to_text(key, context).bytes, value);
  return format_braces(self(input), arguments, context);
}

constexpr Builtin kMethods[] = {
    {"capitalize", "", convert_text<capitalize>},
    {"center", "width fillchar? /", center_text},
    {"count", "sub start? end? /", count},
    {"endswith", "prefix start? end? /", has_affix_of<false>},
    {"expandtabs", "tabsize?", expand_tabs},
    {"find", "sub start? end? /", find<false>},
    {"format", "*", format},
    {"format_map", "map /", format_map},
    {"index", "sub start? end? /", index<false>},
    {"isalnum", "", all_of_kind<CharacterKind::alphanumeric>},
    {"isalpha", "", all_of_kind<CharacterKind::alphabetic>},
    {"isascii", "", all_of_kind<CharacterKind::ascii, true>},
    {"isdecimal", "", all_of_kind<CharacterKind::decimal>},
    {"isdigit", "", all_of_kind<CharacterKind::digit>},
    {"isidentifier", "", is_identifier},
    {"islower", "", is_cased<Case::lower>},
    {"isnumeric", "", all_of_kind<CharacterKind::numeric>},
    {"isprintable", "", all_of_kind<CharacterKind::printable, true>},
    {"isspace", "", all_of_kind<CharacterKind::space>},
    {"istitle", "", is_title},
    {"isupper", "", is_cased<Case::upper>},
    {"join", "iterable /", join},
    {"ljust", "width fillchar? /", fill_right},
    {"lower", "", convert_text<lower>},
    {"lstrip", "chars? /", strip_text<Side::left>},
    {"partition", "sep /", partition<false>},
    {"removeprefix", "prefix /", remove_affix<true>},
    {"removesuffix", "prefix /", remove_affix<false>},
    {"replace", "old new count? /", replace_text},
    {"rfind", "sub start? end? /", find<true>},
    {"rindex", "sub start? end? /", index<true>},
    {"rjust", "width fillchar? /", fill_left},
    {"rpartition", "sep /", partition<true>},
    {"rsplit", "sep? maxsplit?", split_text<true>},
    {"rstrip", "chars? /", strip_text<Side::right>},
    {"split", "sep? maxsplit?", split_text<false>},
    {"splitlines", "keepends?", split_into_lines},
    {"startswith", "prefix start? end? /", has_affix_of<true>},
    {"strip", "chars? /", strip_text<Side::both>},
    {"swapcase", "", convert_text<swap_case>},
    {"title", "", title_words},
    {"upper", "", convert_text<upper>},
    {"zfill", "width /", fill_zeros},
};

}  // namespace

std::span<const Builtin> string_methods() { return kMethods; }

}  // namespace weft::jinja
