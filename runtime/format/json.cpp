#include "format/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json_events.h"
#include "format/limits.h"
#include "format/quote.h"

namespace weft {
namespace {

using nlohmann::json;

class Builder : public JsonEvents {
 public:
  Builder(std::string_view text, const std::string& place) : text_(text), place_(place) {}
  ~Builder() override { release_json(root_); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  json build() {
    parse(text_, kMaxJsonDepth);
    return std::move(root_);
  }

 private:
  void begin(json value, const std::string&) override {
    if (++values_ > kMaxValues) fail("the document has more than " + std::to_string(kMaxValues) + " values");
    json* slot = open_.empty() ? &root_ : slot_;
    if (!open_.empty() && open_.back()->is_array()) slot = &open_.back()->get_ref<json::array_t&>().emplace_back();
    *slot = std::move(value);
    if (slot->is_structured()) open_.push_back(slot);
  }
  void key(std::string& name) override {
    const auto [slot, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(name);
    if (!is_new) fail("key \"" + printable(name) + "\" is in one object twice");
    slot_ = &slot->second;
  }
  void end() override { open_.pop_back(); }
  [[noreturn]] void fail(const std::string& sentence) override { refuse(sentence); }
  [[noreturn]] void malformed(size_t byte, const std::string& reason) override {
    const auto before = text_.substr(0, byte == 0 ? 0 : byte - 1);
    const auto line_number = 1 + std::count(before.begin(), before.end(), '\n');
    refuse("line " + std::to_string(line_number) + ", byte " + std::to_string(byte) +
           ": this is no valid JSON: " + printable(reason));
  }
  // Not virtual: gcc 12 with -fsanitize=thread takes a call of a virtual function for one that returns.
  [[noreturn]] void refuse(const std::string& sentence) const { throw Error(Code::bad_file, sentence, place_); }

  std::string_view text_;
  const std::string& place_;
  json root_;
  std::vector<json*>
      open_;              // the arrays and objects around the next value; none of them moves while a later one is open
  json* slot_ = nullptr;  // where the value of the last key goes
  uint64_t values_ = 0;
};

}  // namespace

// As deep as the value, so at most kMaxJsonDepth where parse_json made it.
void release_json(nlohmann::json& value) noexcept {
  if (!value.is_structured()) return;
  for (json& part : value) release_json(part);
  value.clear();
}

nlohmann::json parse_json(std::string_view text, const std::string& place) {
  if (text.size() > kMaxJsonBytes) {
    throw Error(Code::bad_file,
                "the JSON text has " + std::to_string(text.size()) + " bytes; Weft reads at most " +
                    std::to_string(kMaxJsonBytes),
                place);
  }
  return Builder(text, place).build();
}

}  // namespace weft
