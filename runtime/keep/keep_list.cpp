#include "keep/keep_list.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "keep/presets.h"

namespace weft {

namespace {

constexpr size_t kMaxTerms = 64;
constexpr size_t kMaxFile = size_t{1} << 28;  // bytes
constexpr std::string_view kHeader = "# weft-keep ";
constexpr std::string_view kBlank = " \t\r";

using Tokens = std::vector<bool>;  // by id

bool is_token(const Tokenizer& tokenizer, uint64_t id) {
  return id < tokenizer.size() && !tokenizer.spelling(static_cast<uint32_t>(id)).empty();
}

std::string quote(std::string_view text) { return '"' + printable(text) + '"'; }

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

// The whole of a text as a number; nothing if it is none or does not fit.
std::optional<uint64_t> number(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Ids by the text they stand for.
class TokenTexts {
 public:
  explicit TokenTexts(const Tokenizer& tokenizer) {
    // If another token has the text of a byte token, the text means that one: byte tokens are always kept.
    for (const bool byte_tokens : {false, true}) {
      for (uint32_t id = 0; id < tokenizer.size(); ++id) {
        if (tokenizer.is_byte_token(id) != byte_tokens) continue;
        std::string text = tokenizer.bytes(id);
        if (text.empty()) continue;
        const auto [entry, is_new] = ids_.try_emplace(std::move(text), Ids{id, id});
        if (!is_new && !byte_tokens) entry->second.last = id;
      }
    }
  }

  struct Ids {
    uint32_t first, last;  // different if several tokens have the text
  };
  std::optional<Ids> find(const std::string& text) const {
    const auto entry = ids_.find(text);
    return entry == ids_.end() ? std::nullopt : std::optional(entry->second);
  }

 private:
  std::unordered_map<std::string, Ids> ids_;
};

class FileReader {
 public:
  FileReader(const std::string& path, const Tokenizer& tokenizer)
      : path_(path), tokenizer_(tokenizer), tokens_(tokenizer.size()) {}

  Tokens read() {
    const MappedFile file(path_);
    std::string_view text = file.text();
    if (text.size() > kMaxFile) {
      throw Error(Code::bad_file,
                  "a keep-list of " + std::to_string(text.size()) + " bytes is longer than the limit of " +
                      std::to_string(kMaxFile),
                  path_);
    }
    while (!text.empty()) {
      ++line_;
      const size_t end = text.find('\n');
      read_line(trim(text.substr(0, end)));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    line_ = std::max<size_t>(line_, 1);
    if (std::find(tokens_.begin(), tokens_.end(), true) == tokens_.end()) refuse("the list ends and names no token");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(std::string sentence, std::string hint = {}) const {
    throw Error(Code::bad_file, std::move(sentence), path_ + ":" + std::to_string(line_), std::move(hint));
  }

  void read_line(std::string_view line) {
    if (line.starts_with(kHeader)) {
      check_header(line.substr(kHeader.size()));
    } else if (line.starts_with('"')) {
      read_text(line);
    } else {
      line = trim(line.substr(0, line.find('#')));
      if (!line.empty()) read_id(line);
    }
  }

  void check_header(std::string_view fields) const {
    constexpr std::string_view fingerprint_key = "fingerprint=", tokens_key = "tokens=";
    const size_t space = fields.find(' ');
    const std::string_view first = fields.substr(0, space);
    const std::string_view second = space == std::string_view::npos ? std::string_view() : trim(fields.substr(space));
    std::optional<uint64_t> fingerprint, tokens;
    if (first.starts_with(fingerprint_key)) fingerprint = number(first.substr(fingerprint_key.size()), 16);
    if (second.starts_with(tokens_key)) tokens = number(second.substr(tokens_key.size()), 10);
    if (!fingerprint || !tokens)
      refuse("a line that begins with " + quote(kHeader) + " must go on with fingerprint=HEX tokens=N");
    if (*fingerprint != tokenizer_.fingerprint() || *tokens != tokenizer_.size()) {
      refuse("the list was made for a tokenizer of fingerprint " + fingerprint_text(*fingerprint) + " and " +
                 std::to_string(*tokens) + " tokens, but this model's has fingerprint " +
                 fingerprint_text(tokenizer_.fingerprint()) + " and " + std::to_string(tokenizer_.size()) + " tokens",
             "build one with weft vocab build");
    }
  }

  void read_id(std::string_view text) {
    if (text.find_first_not_of("0123456789") != std::string_view::npos)
      refuse(quote(text) + " is neither a token's id nor its text as a JSON string");
    const std::optional<uint64_t> id = number(text, 10);
    if (!id || *id >= tokenizer_.size()) {
      refuse("the id " + printable(text) + " is out of range: the tokenizer's ids are 0 to " +
             std::to_string(tokenizer_.size() - 1));
    }
    if (!is_token(tokenizer_, *id)) refuse("no token has the id " + std::to_string(*id));
    tokens_[*id] = true;
  }

  std::string string_of(std::string_view literal) const {
    try {
      return parse_json(literal, {literal.size(), 1, 0}, Code::bad_file, "").text();
    } catch (const Error&) {
      refuse(printable(literal) + " is no valid JSON string");
    }
  }

  void read_text(std::string_view line) {
    size_t end = 1;  // of the string, at the quote that no backslash escapes
    while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
    const std::string_view rest = end < line.size() ? trim(line.substr(end + 1)) : std::string_view();
    if (end >= line.size() || (!rest.empty() && rest[0] != '#')) refuse(printable(line) + " is not one JSON string");
    const std::string_view literal = line.substr(0, end + 1);
    const std::string value = string_of(literal);
    if (!texts_) texts_.emplace(tokenizer_);
    const auto ids = texts_->find(value);
    if (!ids) refuse("no token stands for the text " + printable(literal));
    if (ids->first != ids->last) {
      refuse("the tokens " + std::to_string(ids->first) + " and " + std::to_string(ids->last) +
                 " both stand for the text " + printable(literal),
             "name one by its id");
    }
    tokens_[ids->first] = true;
  }

  const std::string& path_;
  const Tokenizer& tokenizer_;
  Tokens tokens_;
  size_t line_ = 0;
  std::optional<TokenTexts> texts_;
};

const KeepPreset* find_preset(std::string_view term) {
  for (const KeepPreset& preset : keep_presets())
    if (preset.name == term) return &preset;
  return nullptr;
}

Tokens file_tokens(const std::string& term, const Tokenizer& tokenizer, const std::string& place) {
  std::string names;
  for (const KeepPreset& preset : keep_presets()) names += std::string(preset.name) + ", ";
  try {
    return FileReader(term, tokenizer).read();
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
    throw Error(Code::invalid_argument,
                quote(term) + " is neither a file nor a preset, which are " + names +
                    "nor one of bytes, control and prompt with ! or without",
                place);
  }
}

bool is_lone_byte(const Tokenizer& tokenizer, uint32_t id) {
  return tokenizer.is_byte_token(id) && valid_utf8_prefix(tokenizer.bytes(id)) == 0;
}

// A list that is being read, term by term.
class ListReader {
 public:
  ListReader(const Tokenizer& tokenizer, const std::string& place)
      : tokenizer_(tokenizer), place_(place), kept_(tokenizer.size()) {}

  void read(std::string_view term) {
    const bool subtract = term.starts_with('!');
    if (subtract) term.remove_prefix(1);
    if (term == "bytes") {
      bytes_ = !subtract;
    } else if (term == "control") {
      control_ = !subtract;
    } else if (term == "prompt") {
      prompt_ = !subtract;
    } else {
      apply(term, subtract);
    }
  }

  KeepList list() {
    const bool exact = adds_ && presets_only_;
    const bool bytes = bytes_.value_or(!exact);
    const auto all = [this](auto&& has) {
      for (uint32_t id = 0; id < tokenizer_.size(); ++id) has(id);
    };
    if (from_all_ && !bytes) all([&](uint32_t id) { kept_[id] = kept_[id] && !is_lone_byte(tokenizer_, id); });
    bool any = false;
    all([&](uint32_t id) { any = any || (kept_[id] && !tokenizer_.is_control(id)); });
    if (!any) throw Error(Code::invalid_argument, "the list keeps no token but control tokens", place_);
    for (const uint32_t id : always_kept(tokenizer_)) {
      if (!tokenizer_.is_control(id)) {
        kept_[id] = kept_[id] || bytes;
      } else {
        kept_[id] = control_ || std::ranges::find(tokenizer_.stop_ids(), id) != tokenizer_.stop_ids().end();
      }
    }
    KeepList result = {{}, prompt_.value_or(!exact)};
    all([&](uint32_t id) {
      if (kept_[id]) result.ids.push_back(id);
    });
    return result;
  }

 private:
  void apply(std::string_view term, bool subtract) {
    if (first_ && subtract) {
      from_all_ = true;
      for (uint32_t id = 0; id < tokenizer_.size(); ++id) kept_[id] = is_token(tokenizer_, id);
    }
    first_ = false;
    const KeepPreset* preset = find_preset(term);
    const Tokens named =
        preset ? preset_tokens(*preset, tokenizer_) : file_tokens(std::string(term), tokenizer_, place_);
    for (uint32_t id = 0; id < tokenizer_.size(); ++id) {
      if (named[id] && !(preset && subtract && is_lone_byte(tokenizer_, id))) kept_[id] = !subtract;
    }
    if (subtract) return;
    adds_ = true;
    presets_only_ = presets_only_ && preset && !from_all_;
  }

  const Tokenizer& tokenizer_;
  const std::string& place_;
  Tokens kept_;
  bool first_ = true, from_all_ = false;
  bool adds_ = false, presets_only_ = true;
  bool control_ = true;
  std::optional<bool> bytes_, prompt_;
};

}  // namespace

std::string fingerprint_text(uint64_t fingerprint) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(fingerprint));
  return text;
}

std::vector<uint32_t> always_kept(const Tokenizer& tokenizer) {
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < tokenizer.size(); ++id) {
    if (is_token(tokenizer, id) && (tokenizer.is_control(id) || tokenizer.is_byte_token(id))) ids.push_back(id);
  }
  return ids;
}

KeepList make_keep_list(std::string_view list, const Tokenizer& tokenizer) {
  const std::string place = "keep:" + printable(list);
  ListReader reader(tokenizer, place);
  size_t terms = 0;
  for (bool more = true; more;) {
    const size_t comma = list.find(',');
    const std::string_view term = list.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) list.remove_prefix(comma + 1);
    if (++terms > kMaxTerms)
      throw Error(Code::invalid_argument, "there are more than " + std::to_string(kMaxTerms) + " terms", place);
    if (term.empty() || term == "!") {
      throw Error(Code::invalid_argument, "term " + std::to_string(terms) + " is empty", place,
                  "terms are presets and files, with one comma between two");
    }
    reader.read(term);
  }
  return reader.list();
}

void write_keep_list(const std::filesystem::path& path, std::span<const uint32_t> ids, const Tokenizer& tokenizer) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);  // renaming would replace a device or a folder's link
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(Code::io, "this is not a regular file", path.string());
  Tokens kept(tokenizer.size());
  for (const uint32_t id : ids) {
    if (!is_token(tokenizer, id))
      throw Error(Code::invalid_argument, "no token has the id " + std::to_string(id), path.string());
    kept[id] = true;
  }
  std::string text(kHeader);
  text +=
      "fingerprint=" + fingerprint_text(tokenizer.fingerprint()) + " tokens=" + std::to_string(tokenizer.size()) + "\n";
  for (uint32_t id = 0; id < tokenizer.size(); ++id)
    if (kept[id]) text += std::to_string(id) + "\n";
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace weft
