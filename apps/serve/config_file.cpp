#include "config_file.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "../weft/suggest.h"

namespace weft::serve {
namespace {

constexpr std::string_view kConfig = "--config";

// An option in the file: each value as a word of the command line has it.
struct Item {
  std::string name;
  std::vector<std::string> values;
  std::string place;  // "FILE, line 3"
};

std::string text_of_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (!in.is_open() || in.bad()) throw cli::UsageError(std::string(kConfig), file + " cannot be read");
  return std::move(text).str();
}

// The part of TOML that options need: `name = value`, where a value is a text in quotes, a number, true, false, or an
// array of them. Everything else is an error.
class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file), text_(text_of_file(file)) {}

  std::vector<Item> items() {
    std::vector<Item> items;
    for (skip_lines(); at_ < text_.size(); skip_lines()) {
      Item item = {name(), {}, place()};
      if (std::ranges::find(items, item.name, &Item::name) != items.end()) fail("it has " + item.name + " twice");
      skip_spaces();
      if (next() != '=') fail("after " + item.name + " there must be = and a value");
      ++at_;
      skip_spaces();
      item.values = next() == '[' ? array() : std::vector{value()};
      skip_spaces();
      if (at_ < text_.size() && next() != '\n') fail("there is more after the value of " + item.name);
      items.push_back(std::move(item));
    }
    return items;
  }

 private:
  static constexpr std::string_view kBare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

  std::string place() const { return cli::format("%s, line %zu", file_.c_str(), line_); }
  [[noreturn]] void fail(const std::string& what) const { throw cli::UsageError(place(), what, "see docs/serving.md"); }
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  // Spaces and a comment.
  void skip_spaces() {
    at_ = std::min(text_.find_first_not_of(" \t\r", at_), text_.size());
    if (next() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
  }
  void skip_lines() {
    for (skip_spaces(); next() == '\n'; skip_spaces()) ++at_, ++line_;
  }

  std::string name() {
    if (next() == '[') fail("it has a section; options have none");
    const std::size_t end = std::min(text_.find_first_not_of(kBare, at_), text_.size());
    if (end == at_) fail("a line must be NAME = VALUE, with an option's name");
    const std::size_t begin = std::exchange(at_, end);
    return text_.substr(begin, end - begin);
  }

  std::vector<std::string> array() {
    std::vector<std::string> values;
    ++at_;
    for (skip_lines(); next() != ']'; skip_lines()) {
      values.push_back(value());
      skip_lines();
      if (next() == ',') {
        ++at_;
      } else if (next() != ']') {
        fail("in an array there must be , or ] after a value");
      }
    }
    ++at_;
    return values;
  }

  std::string value() {
    if (next() == '"' || next() == '\'') return quoted(next());
    const std::size_t end = std::min(text_.find_first_of(" \t\r\n,]#", at_), text_.size());
    const std::size_t begin = std::exchange(at_, end);
    const std::string word = text_.substr(begin, end - begin);
    if (word == "true" || word == "false") return word;
    const std::size_t sign = word.starts_with('-') || word.starts_with('+') ? 1 : 0;
    const bool number = word.size() > sign && word.find_first_not_of("0123456789.", sign) == word.npos;
    if (!number) fail("'" + word + "' is no value: texts stand in quotes");
    return word;
  }

  // In ' everything is as it stands; in " there are escapes.
  std::string quoted(char quote) {
    std::string text;
    for (++at_; next() != quote; ++at_) {
      if (at_ >= text_.size() || next() == '\n') fail("a text has no end on its line");
      if (next() == '\\' && quote == '"') {
        ++at_;
        const std::size_t which = std::string_view("\"\\nt").find(next());
        if (at_ >= text_.size() || which == std::string_view::npos)
          fail("in a text in \" there may be \\\", \\\\, \\n and \\t; in ' a \\ is itself");
        text += "\"\\\n\t"[which];
      } else {
        text += next();
      }
    }
    ++at_;
    if (text.empty() && next() == quote) fail("texts of several lines are not read");
    return text;
  }

  const std::string& file_;
  const std::string text_;
  std::size_t at_ = 0, line_ = 1;
};

// The value of --config, or an empty text without one.
std::string file_of(const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == kConfig && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with("--config=")) return words[i].substr(kConfig.size() + 1);
  }
  return {};
}

bool gives(const std::vector<std::string>& words, const CLI::Option& option) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    for (const std::string& name : option.get_lnames())
      if (word == "--" + name || word.starts_with("--" + name + "=")) return true;
    return std::ranges::any_of(option.get_snames(), [&](const std::string& name) {
      return word.starts_with("-" + name) && !word.starts_with("--");
    });
  });
}

// Appends the words of an item.
void add_words(const Item& item, const CLI::Option& option, std::vector<std::string>& words) {
  const bool flag = option.get_items_expected_max() == 0;
  if (flag && item.values != std::vector<std::string>{"true"} && item.values != std::vector<std::string>{"false"})
    throw cli::UsageError(item.place, item.name + " must be true or false");
  if (item.values.size() > 1 && option.get_items_expected_max() == 1)
    throw cli::UsageError(item.place, item.name + " has one value");
  for (const std::string& value : item.values) {
    if (flag && value == "false") continue;
    words.push_back("--" + item.name);
    if (!flag) words.push_back(value);  // a word of its own: it may be empty
  }
}

}  // namespace

std::vector<std::string> with_config_file(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty() || words[0] != "serve") return words;
  const std::string file = file_of(words);
  if (file.empty()) return words;
  const CLI::App& serve = *app.get_subcommand("serve");
  std::vector<std::string> names;
  for (const CLI::Option* option : serve.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  std::vector<std::string> more;
  for (const Item& item : Reader(file).items()) {
    const CLI::Option* const option = serve.get_option_no_throw("--" + item.name);
    if (!option || option->get_name() == kConfig || option->get_name() == "--help")
      throw cli::UsageError(item.place, "there is no option " + item.name,
                            cli::did_you_mean(cli::nearest(item.name, names)));
    if (!gives(words, *option)) add_words(item, *option, more);
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace weft::serve
