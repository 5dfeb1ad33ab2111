#include "format/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "format/limits.h"
#include "format/quote.h"

namespace weft {
namespace {

using nlohmann::json;

// Builds the document from the parser's events. nlohmann's own builder has no limits; and as its parser keeps its own
// stack, only the depth of what is built (and one day destroyed) has to be bounded.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // never in text
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [slot, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(name);
    if (!is_new) fail("key \"" + printable(name) + "\" is in one object twice");
    slot_ = &slot->second;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // what() is "[json.exception...] parse error at line L, column C: what is wrong"; lines come from the position
    // instead, as not every error has them.
    std::string reason = error.what();
    if (const size_t end = reason.find("column "); end != std::string::npos) {
      if (const size_t colon = reason.find(": ", end); colon != std::string::npos) reason.erase(0, colon + 2);
    } else if (const size_t bracket = reason.find("] "); bracket != std::string::npos) {
      reason.erase(0, bracket + 2);
    }
    const auto before = text_.substr(0, position == 0 ? 0 : position - 1);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    fail("line " + std::to_string(line) + ", byte " + std::to_string(position) +
         ": this is no valid JSON: " + printable(reason));
  }

 private:
  [[noreturn]] void fail(std::string sentence) const { throw Error(Code::bad_file, std::move(sentence), place_); }

  json* place_value(json value) {
    if (++values_ > kMaxValues) fail("the document has more than " + std::to_string(kMaxValues) + " values");
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (json& parent = *open_.back(); parent.is_array()) {
      parent.get_ref<json::array_t&>().push_back(std::move(value));
      return &parent.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool add(json value) {
    place_value(std::move(value));
    return true;
  }

  bool open(json value) {
    if (open_.size() == kMaxJsonDepth) {
      fail("arrays and objects are nested more than " + std::to_string(kMaxJsonDepth) + " deep");
    }
    open_.push_back(place_value(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& place_;
  json root_;
  std::vector<json*>
      open_;              // the arrays and objects around the next value; none of them moves while a later one is open
  json* slot_ = nullptr;  // where the value of the last key goes
  uint64_t values_ = 0;
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& place) {
  if (text.size() > kMaxJsonBytes) {
    throw Error(Code::bad_file,
                "the JSON text has " + std::to_string(text.size()) + " bytes; Weft reads at most " +
                    std::to_string(kMaxJsonBytes),
                place);
  }
  Builder builder(text, place);
  json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace weft
