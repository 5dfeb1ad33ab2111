#include "grammar/json_tree.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"

namespace weft {
namespace {

constexpr size_t kMaxText = 1 << 20;
constexpr size_t kMaxDepth = 64;

// How far the parser has read. It reads one character past a number.
struct Progress {
  const char* counted = nullptr;  // line counts the line ends before it
  const char* read = nullptr;
  uint32_t line = 1;
};

// The text, noting how far it was read.
struct Reader {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  Progress* progress;

  const char& operator*() const { return *at; }
  Reader& operator++() {
    progress->read = ++at;
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

class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(const std::string& place, Progress& progress) : place_(place), progress_(progress) {}

  JsonTree take() { return std::move(root_); }

  bool null() override { return add(JsonTree::Type::null, "null"); }
  bool boolean(bool value) override { return add(JsonTree::Type::boolean, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return add(JsonTree::Type::integer, std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(JsonTree::Type::integer, std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return add(JsonTree::Type::number, text); }
  bool string(string_t& value) override { return add(JsonTree::Type::string, std::move(value)); }
  bool binary(binary_t&) override { return false; }  // never in text
  bool start_object(size_t) override { return open(JsonTree::Type::object); }
  bool start_array(size_t) override { return open(JsonTree::Type::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second) fail("key " + in_quotes(name) + " is in one object twice");
    open_.back().tree->members.push_back({std::move(name), {}});
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // what() is "[json.exception...] parse error at line L, column C: what is wrong"; the line is known.
    std::string_view reason = error.what();
    if (const size_t end = reason.find("column "); end != std::string_view::npos) {
      if (const size_t colon = reason.find(": ", end); colon != std::string_view::npos) reason.remove_prefix(colon + 2);
    } else if (const size_t bracket = reason.find("] "); bracket != std::string_view::npos) {
      reason.remove_prefix(bracket + 2);
    }
    fail("this is no valid JSON: " + replace_invalid_utf8(reason));
  }

 private:
  struct Open {
    JsonTree* tree;
    std::unordered_set<std::string> keys;
  };

  uint32_t line() {
    for (; progress_.counted + 1 < progress_.read; ++progress_.counted)
      progress_.line += *progress_.counted == '\n' ? 1u : 0u;
    return progress_.line;
  }
  [[noreturn]] void fail(const std::string& sentence) {
    throw Error(Code::bad_file, sentence, place_ + ":" + std::to_string(line()));
  }

  JsonTree* slot() {
    if (open_.empty()) return &root_;
    JsonTree& parent = *open_.back().tree;
    return parent.is(JsonTree::Type::array) ? &parent.items.emplace_back() : &parent.members.back().value;
  }

  bool add(JsonTree::Type type, std::string text) {
    JsonTree* tree = slot();
    tree->type = type;
    tree->line = line();
    tree->text = std::move(text);
    return true;
  }

  bool open(JsonTree::Type type) {
    if (open_.size() == kMaxDepth)
      fail("arrays and objects are nested more than " + std::to_string(kMaxDepth) + " deep");
    JsonTree* tree = slot();
    tree->type = type;
    tree->line = line();
    // A parent's list does not grow while one of its values is open, so tree stays where it is.
    open_.push_back({tree, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& place_;
  Progress& progress_;
  JsonTree root_;
  std::vector<Open> open_;
};

}  // namespace

const JsonTree* JsonTree::find(std::string_view key) const {
  const auto it = std::find_if(members.begin(), members.end(), [&](const Member& member) { return member.key == key; });
  return it == members.end() ? nullptr : &it->value;
}

std::string type_name(JsonTree::Type type) {
  switch (type) {
    case JsonTree::Type::null:
      return "null";
    case JsonTree::Type::boolean:
      return "true or false";
    case JsonTree::Type::integer:
    case JsonTree::Type::number:
      return "a number";
    case JsonTree::Type::string:
      return "a string";
    case JsonTree::Type::array:
      return "an array";
    case JsonTree::Type::object:
      return "an object";
  }
  return {};
}

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

JsonTree parse_json_tree(std::string_view text, const std::string& place) {
  if (text.size() > kMaxText) {
    throw Error(
        Code::bad_file,
        "the JSON text has " + std::to_string(text.size()) + " bytes; Weft reads at most " + std::to_string(kMaxText),
        place);
  }
  Progress progress{text.data(), text.data(), 1};
  Builder builder(place, progress);
  nlohmann::json::sax_parse(Reader{text.data(), &progress}, Reader{text.data() + text.size(), &progress}, &builder);
  return builder.take();
}

}  // namespace weft
