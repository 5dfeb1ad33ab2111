// The objects behind the C API's handles.
#pragma once

#include <atomic>
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
  mutable std::mutex bandwidth_mutex;                   // held while it is measured
  mutable std::atomic<double> bandwidth = 0;            // bytes a second; 0: not measured yet
  mutable std::atomic<uint32_t> users = 1;              // who has loaded it, its sessions and its encoders
};

namespace weft::capi {

// The model that is installed beside the library.
std::filesystem::path installed_model();
// What the options of a load ask for. Throws Error(invalid_argument) for an option out of its range.
DeviceFormats formats_of(const weft_model_options& options);
// Throws as make_plan and round_inputs.
Plan plan_for(const Caps& caps, const weft_model_options& options);

// What a file says about its model, without the numbers.
struct Described {
  std::shared_ptr<const ModelFile> file;
  Config config;
  Tokenizer tokenizer;
};
Described describe(ModelFile file);
// Throws Error(bad_file) if the tokenizer has ids without rows in the vocabulary table.
void check_sizes(const ModelFile& file, const Tokenizer& tokenizer, const Config& config);

// The options of a session, checked.
struct SessionSettings {
  uint32_t context;
  Format cache;
  Policy policy;
};
// options may be nullptr. Throws Error(invalid_argument) for one out of its range.
SessionSettings settings_of(const Config& config, const weft_session_options* options);

// Who loaded a model may free it before its sessions: the last one frees it.
void release(const weft_model* model) noexcept;
class ModelUse {
 public:
  explicit ModelUse(const weft_model* model) : model_(model) { ++model->users; }
  ~ModelUse() { release(model_); }
  ModelUse(const ModelUse&) = delete;
  ModelUse& operator=(const ModelUse&) = delete;
  const weft_model* operator->() const { return model_; }
  const weft_model& operator*() const { return *model_; }

 private:
  const weft_model* model_;
};

// Held by a call that changes an object, so that one from a callback or another thread is an error.
class InUse {
 public:
  InUse(std::atomic<bool>& in_use, const char* what);
  explicit InUse(weft_session* session);
  ~InUse() { in_use_ = false; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

}  // namespace weft::capi

struct weft_session {
  weft::capi::ModelUse model;
  weft::Session session;
  weft::StreamDecoder decoder;  // holds a character begun by one generate until the next completes it
  weft::StopStrings stops = {};
  std::atomic<bool> in_use = false;
};

namespace weft::capi {

// What tells the caller of each token of a generate to come; false: no more are wanted. Both arguments must outlive it.
std::function<bool(uint32_t)> teller(weft_session& session, const weft_generate_options& options);
// Tells what was held back, and returns why the generate ended.
weft_stop end(weft_session& session, const weft_generate_options& options, Stop reason);

void copy_ids(const std::vector<uint32_t>& from, uint32_t* ids, size_t capacity, size_t* count);

}  // namespace weft::capi
