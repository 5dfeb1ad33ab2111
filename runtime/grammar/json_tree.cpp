#include "grammar/json_tree.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/json_events.h"
#include "base/utf8.h"

namespace weft {
namespace {

using Type = JsonTree::Type;

constexpr size_t kMaxText = 1 << 20;
constexpr size_t kMaxDepth = 64;

class Builder : public JsonEvents {
 public:
  explicit Builder(const std::string& place) : place_(place) {}

  JsonTree build(std::string_view text) {
    parse(text, kMaxDepth);
    return std::move(root_);
  }

 private:
  struct Open {
    JsonTree* tree;
    std::unordered_set<std::string> keys;
  };

  void begin(JsonValue value, const std::string& spelling) override {
    JsonTree* tree = &root_;
    if (!open_.empty()) {
      JsonTree& parent = *open_.back().tree;
      tree = parent.is(Type::array) ? &parent.items.emplace_back() : &parent.members.back().value;
    }
    tree->line = line();
    tree->type = type_of(value);
    if (value.is_string())
      tree->text = std::move(value.text());
    else if (!value.is_structured())
      tree->text = value.is_number_float() ? spelling : value.dump();
    else
      open_.push_back({tree, {}});  // tree stays where it is: the parent's list does not grow while tree is open
  }
  void key(std::string& name) override {
    if (!open_.back().keys.insert(name).second) fail("key " + in_quotes(name) + " is in one object twice");
    open_.back().tree->members.push_back({std::move(name), {}});
  }
  void end() override { open_.pop_back(); }

  static Type type_of(const JsonValue& value) {
    if (value.is_structured()) return value.is_array() ? Type::array : Type::object;
    if (value.is_number()) return value.is_number_integer() ? Type::integer : Type::number;
    return value.is_string() ? Type::string : value.is_boolean() ? Type::boolean : Type::null;
  }

  [[noreturn]] void fail(const std::string& sentence) override { refuse(sentence); }
  [[noreturn]] void malformed(size_t, const std::string& reason) override {
    refuse("this is no valid JSON: " + replace_invalid_utf8(reason));
  }
  // Not virtual: gcc 12 with -fsanitize=thread takes a call of a virtual function for one that returns.
  [[noreturn]] void refuse(const std::string& sentence) {
    throw Error(Code::bad_file, sentence, place_ + ":" + std::to_string(line()));
  }

  const std::string& place_;
  JsonTree root_;
  std::vector<Open> open_;
};

}  // namespace

const JsonTree* JsonTree::find(std::string_view key) const {
  const auto it = std::find_if(members.begin(), members.end(), [&](const Member& member) { return member.key == key; });
  return it == members.end() ? nullptr : &it->value;
}

std::string type_name(JsonTree::Type type) {
  constexpr const char* kNames[] = {"null",     "true or false", "a number", "a number",
                                    "a string", "an array",      "an object"};
  return kNames[static_cast<size_t>(type)];
}

std::string json_string(std::string_view text) { return JsonValue(text).dump(); }

JsonTree parse_json_tree(std::string_view text, const std::string& place) {
  if (text.size() > kMaxText) {
    throw Error(
        Code::bad_file,
        "the JSON text has " + std::to_string(text.size()) + " bytes; Weft reads at most " + std::to_string(kMaxText),
        place);
  }
  return Builder(place).build(text);
}

}  // namespace weft
