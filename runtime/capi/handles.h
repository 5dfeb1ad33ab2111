// The objects behind the C API's handles.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "capi/reasoning.h"
#include "capi/support.h"
#include "gpu/choose_device.h"
#include "grammar/matcher.h"
#include "model/model.h"
#include "run/duty.h"
#include "session/session.h"
#include "template/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace weft::capi {

class DeviceUser;

// The devices of a model: the first one is the model's own, others have rows of the vocabulary table.
struct DeviceList {
  std::vector<std::string> names;  // selectors, at least one
  std::vector<double> shares;      // of the rows, one for each device; none: by their bandwidths
  bool measured = false;           // the shares are bandwidths, bytes a second
};
// Parses weft_model_options.device. Throws Error(invalid_argument) for a text that is not a list of devices.
DeviceList parse_devices(std::string_view text);

// Everything that loading a model again needs: its file, its devices and the options of the load.
struct LoadedFrom {
  std::function<ModelFile()> file;
  DeviceList devices;
  weft_model_options options;  // without pointers
  DeviceFormats formats;       // without a split, which holds devices

  std::shared_ptr<Device> open() const;
  // The devices but the first, opened, and the shares: measured the first time, if none were given. nullptr if there is
  // one device.
  std::shared_ptr<const TableSplit> split(const std::shared_ptr<Device>& first);
};

// Which device has which rows, as weft_model_describe tells it.
JsonValue shards_json(const Model& model, const DeviceList& devices);

}  // namespace weft::capi

struct weft_model {
  mutable weft::Model model;  // changed by recover() alone, while nobody uses it
  weft::Tokenizer tokenizer;
  std::optional<weft::ChatTemplate> chat_template;
  std::optional<weft::ChatTemplate>
      tool_template;                  // for conversations with tools; none: chat_template is for these, too
  std::string chat_template_problem;  // why the file's template cannot be used; empty: no problem
  std::string device, driver, type;
  mutable weft::capi::LoadedFrom loaded_from;
  double load_seconds = 0;
  mutable std::once_flag trie_made;
  mutable std::shared_ptr<const weft::TokenTrie> trie;  // of the tokenizer, once a grammar needs it
  mutable std::mutex bandwidth_mutex;                   // held while it is measured
  mutable std::atomic<double> bandwidth = 0;            // bytes a second; 0: not measured yet
  mutable std::atomic<uint32_t> holders = 1;            // who has loaded it, and the users
  mutable std::recursive_mutex users_mutex;  // held while one is made or goes, and while the device is changed
  mutable std::vector<weft::capi::DeviceUser*> users;  // its sessions, batches, encoders and adapters
  mutable uint32_t uses_of_weights = 0;  // calls of with_weights() under way, in the thread that holds users_mutex
  mutable std::atomic<uint64_t> recoveries = 0;
  std::atomic<bool> recovers = false;  // by itself
  const pid_t process = ::getpid();
};

namespace weft::capi {

// The place of a model: `path` if it is there, or else of the model of this name in the user's cache; null: of the one
// that is installed beside the library. Throws Error(not_found) if none is installed or path is empty.
std::filesystem::path model_path(const char* path);
// Formats that the options of a load ask for. Throws Error(invalid_argument) for an option out of its range.
DeviceFormats formats_of(const weft_model_options& options);
// Throws as make_plan and round_inputs.
Plan plan_for(const Caps& caps, const weft_model_options& options);

// Description of a model from its file, without the weights.
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
  ops::CacheFormat cache;
  Policy policy;
};
// Throws Error(invalid_argument) for an option out of its range.
SessionSettings settings_of(const Config& config, const weft_session_options& options);

// A process that was forked has no threads of the driver's: a call would wait for them for ever.
inline bool is_inherited(const weft_model& model) { return model.process != ::getpid(); }
// Throws Error(invalid_argument) where it is. Goes before any lock, which a thread of the parent may have held.
void need_own(const weft_model& model);
// Locks users_mutex. Throws as need_own.
inline std::unique_lock<std::recursive_mutex> lock_users(const weft_model& model) {
  need_own(model);
  return std::unique_lock(model.users_mutex);
}

// Tells if a model, a session with it and `more` bytes fit on a device. The file must outlive it.
DeviceFits fits_model(const ModelFile& file, const Config& config, const weft_model_options& options,
                      const SessionSettings& session, uint64_t more);

// Gives up one hold on a model; the last holder frees it, so a model may be released before its sessions. Does nothing
// if the model is inherited.
void release(const weft_model* model) noexcept;
class ModelUse {
 public:
  explicit ModelUse(const weft_model* model) : model_(model) { ++model->holders; }
  ~ModelUse() { release(model_); }
  ModelUse(const ModelUse&) = delete;
  ModelUse& operator=(const ModelUse&) = delete;
  const weft_model* operator->() const { return model_; }
  const weft_model& operator*() const { return *model_; }

 private:
  const weft_model* model_;
};

// An object with memory on a model's device, such as a session. It is created again there after the device was lost.
// Made with new and freed by destroy(), both while the model's users_mutex is held.
class DeviceUser {
 public:
  explicit DeviceUser(const weft_model* of);
  virtual ~DeviceUser();
  DeviceUser(const DeviceUser&) = delete;
  DeviceUser& operator=(const DeviceUser&) = delete;
  virtual void leave_device() = 0;
  virtual void enter_device() = 0;
  // True if other users need it on the device before they enter.
  virtual bool enters_first() const { return false; }

  ModelUse model;
  // Calls that only read the object use it too.
  mutable std::atomic<bool> in_use = false;
  mutable std::atomic<std::thread::id> thread;  // of the call that uses it; none: it is free, or about to be used
  mutable bool recovering = false;              // the call that uses it is in recover(); by users_mutex
};

// Held by a call that changes an object, so that one from a callback or another thread is an error.
class InUse {
 public:
  InUse(const DeviceUser* user, const char* what);  // its name in the error
  explicit InUse(const weft_session* session);
  ~InUse() {
    user_->thread = std::thread::id();
    user_->in_use = false;
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  const DeviceUser* user_;
};

// Lock for a getter that reads what a recovery replaces. It is empty in callbacks of the call that uses the object:
// that call keeps recoveries away, and other work with the model may hold users_mutex for long.
inline std::unique_lock<std::recursive_mutex> lock_to_read(const DeviceUser& user) {
  if (user.thread.load() == std::this_thread::get_id()) return {};
  return std::unique_lock(user.model->users_mutex);
}

struct AdapterUser : DeviceUser {
  AdapterUser(const weft_model* of, std::unique_ptr<Adapter> loaded) : DeviceUser(of), adapter(std::move(loaded)) {}
  void leave_device() override { adapter->leave_device(); }
  void enter_device() override { adapter->enter_device(); }
  bool enters_first() const override { return true; }

  const std::unique_ptr<Adapter> adapter;
};

// Frees a user. Does nothing, and leaks, while a call uses it or if it is inherited: better a leak than a crash.
void destroy(DeviceUser* user) noexcept;

// Opens the model's device again and loads the weights; all users leave the old device before and enter the new one
// after it. Does nothing if that was done since `recoveries` were counted. own: the user whose call this is, or
// nullptr. Throws Error(invalid_argument) if another user stays in use for long, or what opening and loading throw.
void recover(const weft_model& model, uint64_t recoveries, const DeviceUser* own);

// Does a session's work that needs the device. If that is lost, it may be opened again and the work be done once more,
// unless no token has come since the time before.
void with_recovery(const weft_session& session, const std::function<void()>& work);

// Throws Error(device_lost) if the weights are not there, because recover() failed.
void need_weights(const weft_model& model);

// Does work on the model's device beside the sessions. If that is lost, it may be opened again and the work be done
// once more.
template <class Work>
auto with_weights(const weft_model& model, const Work& work) {
  struct Use {
    explicit Use(const weft_model& of) : model(of) { ++model.uses_of_weights; }
    ~Use() { --model.uses_of_weights; }
    const weft_model& model;
  };
  for (bool again = false;; again = true) {
    const uint64_t recoveries = model.recoveries;
    try {
      const auto lock = lock_users(model);
      const Use use(model);
      need_weights(model);
      return work();
    } catch (const Error& error) {
      if (error.code() != Code::device_lost || !model.recovers || again) throw;
    }
    recover(model, recoveries, nullptr);
  }
}

}  // namespace weft::capi

struct weft_duty {
  const std::shared_ptr<weft::DutyLimit> limit = std::make_shared<weft::DutyLimit>();
};

namespace weft::capi {

// The duty of an object whose calls cannot be cancelled.
class UncancelledDuty {
 public:
  Duty* get() { return &duty_; }
  void use(const weft_duty* duty) { duty_.keep_to(duty ? duty->limit : nullptr); }

 private:
  const std::atomic<bool> cancelled_ = false;
  Duty duty_{cancelled_};
};

// The fields of a session's request that are compared with those of the next one.
struct RequestState {
  std::string head = "full";
  weft_grammar_kind grammar_kind = WEFT_GRAMMAR_NONE;
  std::string grammar = {};
  weft_speculation speculation = WEFT_SPECULATE_OFF;
  const weft_model* draft = nullptr;  // kept by the drafter
  std::string medusa = {}, assistant = {};
  uint32_t logprobs = 0;
};

Sampling sampling_of(const weft_sampling& sampling);

}  // namespace weft::capi

struct weft_session : weft::capi::DeviceUser {
  weft_session(const weft_model* of, uint32_t context, const weft::ops::CacheFormat& cache, weft::Policy policy,
               weft::Duty* duty = nullptr, weft::StatePlace place = {})
      : DeviceUser(of),
        session(of->model, context, of->tokenizer.stop_ids(), cache, policy, duty, std::move(place)),
        decoder(of->tokenizer) {
    session.set_sampling(weft::capi::sampling_of(weft_sampling_default()));
  }
  void leave_device() override { session.leave_device(); }
  void enter_device() override { session.enter_device(); }

  // The context is another one: the next token begins an answer.
  void begin_answer();

  std::shared_ptr<weft::capi::AdapterUser> adapter;  // nullptr: none
  weft::Session session;
  weft::StreamDecoder decoder;  // holds a character begun by one generate until the next completes it
  weft::capi::RequestState request = {};
  weft::StopStrings stops = {};
  uint32_t stop_string = UINT32_MAX;                 // of them, that ended the last generate; UINT32_MAX: none
  std::shared_ptr<const weft::Grammar> grammar;      // nullptr: none
  std::unique_ptr<weft::capi::Reasoning> reasoning;  // nullptr: it is text like any other
  uint64_t answers = 0;                              // that were begun
};

namespace weft::capi {

// Does what weft_session_set_request does. The session is in use by the caller.
void set_request(weft_session& session, const weft_request* request);

// Held by a call that generates with a session, until it returns. Has the session tell its progress in prompts to the
// caller's callback. Its end forgets a cancel, so that a late one does not stop the next call. Before that, a cancel
// stays: it must also end a generate that begins again, for example after a lost device.
class GenerateCall {
 public:
  GenerateCall(weft_session& session, const weft_generate_options& options);
  ~GenerateCall() {
    session_.session.set_on_prompt(nullptr);
    session_.session.clear_cancel();
  }
  GenerateCall(const GenerateCall&) = delete;
  GenerateCall& operator=(const GenerateCall&) = delete;

 private:
  weft_session& session_;
};

// Generates until a reason to stop, which it returns. The session is in use by the caller.
weft_stop generate_answer(weft_session& session, const weft_generate_options& options);
// Token callback of the next `generate`: passes each token to the caller. It returns false to stop. Both arguments must
// outlive it.
std::function<bool(uint32_t)> teller(weft_session& session, const weft_generate_options& options);
// Passes the text that was held back to the caller, and returns why the generate ended.
weft_stop end(weft_session& session, const weft_generate_options& options, Stop reason);
// Generates until max_tokens, of which `told` are there, or until another reason to stop.
Stop generate(weft_session& session, const weft_generate_options& options, uint32_t told,
              const std::function<bool(uint32_t)>& tell_one);
// weft_session_generate of a session with `reasoning`, without end().
Stop generate_reasoned(weft_session& session, const weft_generate_options& options,
                       const std::function<bool(uint32_t)>& tell_one);
// Throws Error(unsupported) for such a session.
void refuse_reasoning(const weft_session& session);

std::unique_ptr<Matcher> make_matcher(const weft_model& model, std::shared_ptr<const Grammar> grammar);

// The model's chat template. Throws Error(unsupported) if it has none that Weft can use.
const ChatTemplate& chat_template_of(const weft_model& model);

// A JSON text as weft_apply_chat_template_json takes it. Throws Error(invalid_argument) if it is none.
JsonValue parse_conversation(const char* text);
// The ids of such a conversation. Throws as weft_apply_chat_template_json.
std::vector<uint32_t> chat_ids(const weft_model& model, const JsonValue& conversation);

void copy_ids(const std::vector<uint32_t>& from, uint32_t* ids, size_t capacity, size_t* count);

}  // namespace weft::capi
