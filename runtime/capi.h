// The objects behind the C API's handles.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "capi_support.h"
#include "grammar/matcher.h"
#include "model/model.h"
#include "session/session.h"
#include "template/chat_template.h"
#include "tokenizer/tokenizer.h"

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

struct weft_session {
  const weft_model* model;
  weft::Session session;
  weft::StreamDecoder decoder;  // holds a character begun by one generate until the next completes it
  weft::StopStrings stops = {};
};

namespace weft::capi {

// What tells the caller of each token of a generate to come; false: no more are wanted. Both arguments must outlive it.
std::function<bool(uint32_t)> teller(weft_session& session, const weft_generate_options& options);
// Tells what was held back, and returns why the generate ended.
weft_stop end(weft_session& session, const weft_generate_options& options, Stop reason);

// Throws Error(unsupported) if there is none.
const ChatTemplate& chat_template_of(const weft_model& model);

void copy_ids(const std::vector<uint32_t>& from, uint32_t* ids, size_t capacity, size_t* count);

}  // namespace weft::capi
