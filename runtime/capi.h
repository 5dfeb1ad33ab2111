// What the C API's files share: the objects behind its handles, and the way from exceptions to weft_error.
#pragma once

#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "grammar/matcher.h"
#include "model/model.h"
#include "template/chat_template.h"
#include "tokenizer/tokenizer.h"
#include "weft/weft.h"

struct weft_model {
  weft::Model model;
  weft::Tokenizer tokenizer;
  std::optional<weft::ChatTemplate> chat_template;
  std::string chat_template_problem;  // why there is none although the file has one
  std::string driver, type;
  double load_seconds = 0;
  mutable std::once_flag trie_made;
  mutable std::shared_ptr<const weft::TokenTrie> trie;  // of the tokenizer, once a grammar needs it
  mutable std::mutex bandwidth_mutex;
  mutable double bandwidth = 0;  // bytes a second; 0: not measured yet
};

namespace weft::capi {

// Turns the exception in flight into a status, and into *error unless that is NULL.
weft_status report(weft_error* error) noexcept;

inline void require(bool holds, const char* argument, const char* sentence) {
  if (!holds) throw Error(Code::invalid_argument, sentence, argument);
}

// Runs the body of an API function: nothing thrown in it gets out.
template <class Body>
weft_status guard(weft_error* error, Body&& body) noexcept {
  try {
    body();
    return WEFT_OK;
  } catch (...) {
    return report(error);
  }
}

// A tensor's way from one type to another.
struct Retyped {
  std::string from, to;
  Rounding rounding;
};
// For each pair of types, in objects with these keys: how many tensors, and the most that rounding did to one.
nlohmann::json types_json(const std::vector<Retyped>& tensors, const char* from_key, const char* to_key);

// The format of that name. Throws Error(invalid_argument) naming the argument for what is none, WEFT_TYPE_FILE too.
Format format_of(weft_type type, const char* argument);

char* copy_string(const std::string& text);  // for weft_string_free
void copy_ids(const std::vector<uint32_t>& from, uint32_t* ids, size_t capacity, size_t* count);

}  // namespace weft::capi
