// Weft in C++: a thin header-only wrapper of weft.h and the smaller headers, in the namespace weft::api. batch.hpp and
// probe.hpp wrap batch.h and probe.h.
//
// Each function calls the function of the C API with a similar name. Preconditions, units, ranges, errors, ownership
// and threads are as documented there; the comments here state only the differences:
//   - A weft_status other than WEFT_OK is thrown as Failure.
//   - Model, Encoder and Session free themselves. They can be moved, not copied.
//   - A callback may throw. The C call then ends, and the C++ call rethrows the exception.
//   - Lists are returned as vectors of the full length, texts and JSON as std::string.
#ifndef WEFT_HPP
#define WEFT_HPP

#include <weft/batch.h>
#include <weft/descriptor.h>
#include <weft/duty.h>
#include <weft/lens.h>
#include <weft/profile.h>
#include <weft/reasoning.h>
#include <weft/recover.h>
#include <weft/speculate.h>
#include <weft/text.h>
#include <weft/weft.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <weft/failure.hpp>

namespace weft::api {

// The library's version, "0.2.0"; see weft_version.
inline std::string version() { return weft_version(); }

// The folder of Weft's own files, "": none; see weft_set_cache_folder.
inline void set_cache_folder(const std::string& folder) {
  detail::check([&](weft_error* error) { return weft_set_cache_folder(folder.c_str(), error); });
}

// The machine's Vulkan devices as JSON; see weft_devices.
inline std::string devices() {
  return detail::text([&](char** json, weft_error* error) { return weft_devices(json, error); });
}

// See weft_model_options.
struct ModelOptions {
  std::string device;  // an index or a part of a name, or several; empty: $WEFT_DEVICE, else the best device
  weft_type type = WEFT_TYPE_FILE;
  weft_type vocab_type = WEFT_TYPE_FILE;  // of the vocabulary table; WEFT_TYPE_FILE: the same as type
  std::uint64_t memory_budget = 0;        // bytes of device memory; 0: no limit
  bool int8_inputs = false;               // round the inputs of matrix products
  weft_tie tie = WEFT_TIE_AUTO;           // make two vocabulary tables one that differ by rounding only
  // Called with 0 to 1; return false to give up (Failure with WEFT_CANCELLED). Empty: the constructor may return before
  // all layers are on the device; see weft_model_load.
  std::function<bool(float done)> progress;
};

namespace detail {
inline weft_model_options c_options(const ModelOptions& options, Progress& state) {
  weft_model_options c = weft_model_options_default();
  if (!options.device.empty()) c.device = options.device.c_str();
  c.type = options.type;
  c.vocab_type = options.vocab_type;
  c.memory_budget = options.memory_budget;
  c.int8_inputs = options.int8_inputs;
  c.tie = options.tie;
  c.user = &state;
  if (options.progress) c.progress = Progress::call;
  return c;
}
}  // namespace detail

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// A loaded model; see weft_model_load. Any number of threads may use it at the same time. It may be destroyed
// before its sessions and encoders.
class Model {
 public:
  // path empty: the model installed in share/weft.
  explicit Model(const std::string& path = {}, const ModelOptions& options = {})
      : Model(options, [&](auto... rest) { return weft_model_load(path.empty() ? nullptr : path.c_str(), rest...); }) {}
  // A GGUF file in a part of an open file, which may be closed afterwards; see weft_model_load_fd.
  static Model from_descriptor(int descriptor, std::uint64_t offset = 0, std::uint64_t length = 0,
                               const ModelOptions& options = {}) {
    return Model(options, [&](auto... rest) { return weft_model_load_fd(descriptor, offset, length, rest...); });
  }
  // A GGUF file in memory, which must stay until the model is freed; see weft_model_load_memory.
  static Model from_memory(std::span<const std::byte> bytes, const ModelOptions& options = {}) {
    return Model(options, [&](auto... rest) { return weft_model_load_memory(bytes.data(), bytes.size(), rest...); });
  }

  // See weft_model_get_info. The strings belong to the model.
  weft_model_info info() const {
    weft_model_info info;
    weft_model_get_info(get(), &info, sizeof info);
    return info;
  }

  // The model's tensors on the device, as JSON; see weft_model_describe. Waits until all layers are loaded.
  std::string describe() const {
    return detail::text([&](char** json, weft_error* error) { return weft_model_describe(get(), json, error); });
  }

  // Token ids of a text; see weft_tokenize.
  std::vector<std::uint32_t> tokenize(std::string_view text, bool add_bos, bool parse_special = false) const {
    return detail::ids(
        text.size() + 16, [&](std::uint32_t* out, std::size_t capacity, std::size_t* count, weft_error* error) {
          return weft_tokenize(get(), text.data(), text.size(), parse_special, add_bos, out, capacity, count, error);
        });
  }

  // The text of token ids; see weft_detokenize.
  std::string detokenize(const std::vector<std::uint32_t>& tokens) const {
    char* text = nullptr;
    std::size_t length = 0;
    detail::check(
        [&](weft_error* error) { return weft_detokenize(get(), tokens.data(), tokens.size(), &text, &length, error); });
    return detail::take(text, length);
  }

  // The text that the model's files want before a text that is embedded. name empty: the default; see
  // weft_model_prompt.
  std::string prompt(const std::string& name = {}) const {
    char* text = nullptr;
    detail::check([&](weft_error* error) {
      return weft_model_prompt(get(), name.empty() ? nullptr : name.c_str(), &text, error);
    });
    return detail::take(text, std::strlen(text));
  }

  // Token ids of a conversation; see weft_apply_chat_template. They end where the assistant's answer begins.
  std::vector<std::uint32_t> apply_chat_template(const std::vector<Message>& messages) const {
    std::vector<weft_message> c;
    std::size_t guess = 256;
    for (const Message& message : messages) {
      c.push_back({message.role.c_str(), message.content.c_str()});
      guess += message.content.size() + 16;
    }
    return detail::ids(guess, [&](std::uint32_t* out, std::size_t capacity, std::size_t* count, weft_error* error) {
      return weft_apply_chat_template(get(), c.data(), c.size(), out, capacity, count, error);
    });
  }

  // The same for a conversation with tools, as JSON; see weft_apply_chat_template_json.
  std::vector<std::uint32_t> apply_chat_template_json(const std::string& conversation) const {
    return detail::ids(conversation.size() + 256,
                       [&](auto... out) { return weft_apply_chat_template_json(get(), conversation.c_str(), out...); });
  }

  struct TokenBytes {
    std::string bytes;     // its part of a text, or the name of a control token
    bool control = false;  // it is a control token
  };
  // The text or the name of a token; see weft_token_bytes.
  TokenBytes token_bytes(std::uint32_t id) const {
    TokenBytes result;
    std::size_t count = 0;
    int control = 0;
    const auto read = [&](weft_error* error) {
      return weft_token_bytes(get(), id, result.bytes.data(), result.bytes.size(), &count, &control, error);
    };
    detail::check(read);  // how many there are
    result.bytes.resize(count);
    detail::check(read);
    result.control = control != 0;
    return result;
  }

  // The ids of a keep-list; see weft_vocab_keep.
  std::vector<std::uint32_t> keep(const std::string& list) const { return keep_ids(list.c_str()); }
  // The ids that keep-lists have unless they say otherwise: control and single-byte tokens.
  std::vector<std::uint32_t> always_kept() const { return keep_ids(nullptr); }
  // Writes a keep-list to a file; see weft_vocab_save.
  void save_keep_list(const std::vector<std::uint32_t>& tokens, const std::string& path) const {
    detail::check(
        [&](weft_error* error) { return weft_vocab_save(get(), tokens.data(), tokens.size(), path.c_str(), error); });
  }

  // The read bandwidth of the model's device, GB/s (10^9 bytes); see weft_model_measure_bandwidth.
  double measure_bandwidth() const {
    double result = 0;
    detail::check([&](weft_error* error) { return weft_model_measure_bandwidth(get(), &result, error); });
    return result;
  }

  // After the device was lost: opens it again and goes on; see weft_model_recover.
  void recover() {
    detail::check([&](weft_error* error) { return weft_model_recover(handle_.get(), error); });
  }
  // Automatic recovery of sessions; see weft_model_set_recovery.
  void set_recovery(bool automatic) {
    detail::check([&](weft_error* error) { return weft_model_set_recovery(handle_.get(), automatic, error); });
  }

  // The C handle, which this object owns.
  const weft_model* get() const noexcept { return handle_.get(); }

 private:
  // load: a function that loads a model, but for its last three arguments.
  template <typename Load>
  Model(const ModelOptions& options, Load&& load) {
    detail::Progress state{&options.progress, nullptr};
    const weft_model_options c = detail::c_options(options, state);
    weft_model* model = nullptr;
    detail::check(
        [&](weft_error* error) {
          const weft_status status = load(&c, &model, error);
          handle_.reset(model);
          return status;
        },
        state.thrown);
  }

  std::vector<std::uint32_t> keep_ids(const char* list) const {
    return detail::ids(info().vocab_size,
                       [&](std::uint32_t* out, std::size_t capacity, std::size_t* count, weft_error* error) {
                         return weft_vocab_keep(get(), list, out, capacity, count, error);
                       });
  }

  struct Free {
    void operator()(weft_model* model) const noexcept { weft_model_free(model); }
  };
  std::unique_ptr<weft_model, Free> handle_;
};

// A limit for several sessions, listeners and encoders; see weft_duty. May be used by any thread.
class Duty {
 public:
  explicit Duty(float share = 1) {
    weft_duty* duty = nullptr;
    detail::check([&](weft_error* error) { return weft_duty_create(&duty, error); });
    handle_.reset(duty);
    set_share(share);
  }
  void set_share(float share) {
    detail::check([&](weft_error* error) { return weft_duty_set_share(get(), share, error); });
  }
  double busy_seconds() const noexcept { return weft_duty_busy_seconds(get()); }  // see weft_duty_busy_seconds
  // The C handle, which this object owns.
  weft_duty* get() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(weft_duty* duty) const noexcept { weft_duty_free(duty); }
  };
  std::unique_ptr<weft_duty, Free> handle_;
};

// An encoder; see weft_encoder. May be used by one thread at a time.
class Encoder {
 public:
  explicit Encoder(const Model& model)
      : size_(weft_model_embedding_size(model.get())), vocab_size_(model.info().vocab_size) {
    weft_encoder* encoder = nullptr;
    detail::check([&](weft_error* error) { return weft_encoder_create(model.get(), &encoder, error); });
    handle_.reset(encoder);
  }

  // Computes the hidden states of an input: ids of Model::tokenize with add_bos; see weft_encoder_run.
  void run(const std::vector<std::uint32_t>& tokens) {
    detail::check([&](weft_error* error) { return weft_encoder_run(get(), tokens.data(), tokens.size(), error); });
  }

  // See weft_encoder_use_duty.
  void use_duty(const Duty& duty) {
    detail::check([&](weft_error* error) { return weft_encoder_use_duty(get(), duty.get(), error); });
  }
  void use_duty(std::nullptr_t) {  // no longer
    detail::check([&](weft_error* error) { return weft_encoder_use_duty(get(), nullptr, error); });
  }

  std::uint32_t size() const noexcept { return size_; }  // of an embedding; see weft_model_embedding_size

  // The embedding of the last input, of Euclidean length 1. dimensions: how many of its first elements; 0: all. See
  // weft_encoder_embedding.
  std::vector<float> embedding(weft_pooling pooling = WEFT_POOL_MODEL, std::uint32_t dimensions = 0) {
    std::vector<float> result(dimensions ? dimensions : size_);
    detail::check(
        [&](weft_error* error) { return weft_encoder_embedding(get(), pooling, result.data(), result.size(), error); });
    return result;
  }

  // vocab_size logits for the token at index `place` of the last input; see weft_encoder_masked_logits.
  std::vector<float> masked_logits(std::size_t place) {
    std::vector<float> result(vocab_size_);
    detail::check([&](weft_error* error) {
      return weft_encoder_masked_logits(get(), place, result.data(), result.size(), error);
    });
    return result;
  }

  // The C handle, which this object owns.
  weft_encoder* get() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(weft_encoder* encoder) const noexcept { weft_encoder_free(encoder); }
  };
  std::unique_ptr<weft_encoder, Free> handle_;
  std::uint32_t size_, vocab_size_;
};

// Measures which shapes are fastest on a device and writes them to a file. Returns the report as JSON; see weft_tune.
// progress: as in ModelOptions.
inline std::string tune(const std::string& device = {}, const std::function<bool(float done)>& progress = {}) {
  detail::Progress state{&progress, nullptr};
  char* json = nullptr;
  detail::check(
      [&](weft_error* error) {
        return weft_tune(device.empty() ? nullptr : device.c_str(), progress ? detail::Progress::call : nullptr, &state,
                         &json, error);
      },
      state.thrown);
  return detail::take(json);
}

// Receives a generated token and the text that it completes (may be empty; valid during the call), or WEFT_NO_TOKEN and
// the text that was held back for stop strings. Return false to stop; see weft_token_callback.
using TokenCallback = std::function<bool(std::uint32_t id, std::string_view text)>;

// Receives how many of a prompt's tokens have been computed. Return false to end the call that generates; see
// weft_prompt_callback.
using PromptCallback = std::function<bool(std::uint32_t done, std::uint32_t all)>;

// Receives a piece of the reasoning (valid during the call). Return false to stop; see weft_reasoning_callback.
using ReasoningCallback = std::function<bool(std::string_view text)>;

namespace detail {
// Passes the rows of a lens on to a std::function and stores the exception that it throws.
struct Lens {
  const std::function<bool(const weft_lens_row&)>* tell;
  std::exception_ptr thrown;
  static int call(void* user, const weft_lens_row* row) {
    auto* lens = static_cast<Lens*>(user);
    return callback(lens->thrown, [&] { return (*lens->tell)(*row); });
  }
};

// Passes the C callbacks of a call that generates on, and stores the exception that one of them throws.
struct Callbacks {
  const TokenCallback* token;
  const ReasoningCallback* reasoning;
  const PromptCallback* prompt;
  std::exception_ptr thrown = nullptr;

  // This object must stay where it is while the options are used.
  weft_generate_options options(std::uint32_t max_tokens, bool ignore_stop_tokens) {
    weft_generate_options options = weft_generate_options_default();
    options.max_tokens = max_tokens;
    options.ignore_stop_tokens = ignore_stop_tokens;
    if (*token) options.callback = on_token;
    if (*reasoning) options.reasoning_callback = on_reasoning;
    if (*prompt) options.prompt_callback = on_prompt;
    options.user = this;
    return options;
  }

 private:
  template <typename Call>
  static int tell(void* user, const Call& call) {
    auto& self = *static_cast<Callbacks*>(user);
    return self.thrown ? 1 : detail::callback(self.thrown, [&] { return call(self); });
  }
  static int on_token(void* user, std::uint32_t id, const char* text, std::size_t length) {
    return tell(user, [&](const Callbacks& self) { return (*self.token)(id, std::string_view(text, length)); });
  }
  static int on_reasoning(void* user, const char* text, std::size_t length) {
    return tell(user, [&](const Callbacks& self) { return (*self.reasoning)(std::string_view(text, length)); });
  }
  static int on_prompt(void* user, std::uint32_t done, std::uint32_t all) {
    return tell(user, [&](const Callbacks& self) { return (*self.prompt)(done, all); });
  }
};
}  // namespace detail

// See weft_session_options.
inline weft_session_options session_options(std::uint32_t context = 0, weft_type kv = WEFT_TYPE_FILE,
                                            weft_policy policy = WEFT_POLICY_THROUGHPUT,
                                            weft_type kv_values = WEFT_TYPE_FILE) {
  weft_session_options options = weft_session_options_default();
  options.context = context;
  options.kv = kv;
  options.kv_values = kv_values;
  options.policy = policy;
  return options;
}

// How a session generates; see weft_request. keep_sampling, keep_biases: those of the session stay.
struct Request {
  weft_sampling sampling = weft_sampling_default();
  std::string head = "full";
  weft_grammar_kind grammar_kind = WEFT_GRAMMAR_NONE;
  std::string grammar, grammar_place;
  weft_speculation speculation = WEFT_SPECULATE_OFF;
  const weft_model* draft = nullptr;
  std::string medusa, assistant;
  std::vector<std::string> stops;
  std::vector<std::pair<std::uint32_t, float>> biases;  // ids and what is added to their logits
  std::uint32_t logprobs = 0;
  bool separate_reasoning = false;
  std::uint32_t reasoning_tokens = 0;
  bool keep_sampling = false, keep_biases = false;
};

// One conversation with a model; see weft_session. May be used by one thread at a time, except cancel() and
// clear_cancel().
class Session {
 public:
  // context: tokens it can hold; 0: the model's maximum, but at most 4096. kv: type of the cached keys and values.
  explicit Session(const Model& model, std::uint32_t context = 0, weft_type kv = WEFT_TYPE_FILE,
                   weft_policy policy = WEFT_POLICY_THROUGHPUT)
      : Session(model, session_options(context, kv, policy)) {}
  Session(const Model& model, const weft_session_options& options) : vocab_size_(model.info().vocab_size) {
    weft_session* session = nullptr;
    detail::check([&](weft_error* error) { return weft_session_create(model.get(), &options, &session, error); });
    handle_.reset(session);
  }
  // Owns a session of the model that C functions have made.
  Session(const Model& model, weft_session* made) : handle_(made), vocab_size_(model.info().vocab_size) {}

  // All of it or, if it throws, nothing; see weft_session_set_request.
  void set_request(Request request) {
    std::vector<const char*> stops;
    for (const std::string& stop : request.stops) stops.push_back(stop.c_str());
    std::vector<std::uint32_t> ids;
    std::vector<float> values;
    for (const auto& [id, value] : request.biases) ids.push_back(id), values.push_back(value);
    weft_request c = weft_request_default();
    c.sampling = &request.sampling;
    c.head = request.head.c_str();
    c.grammar = request.grammar.c_str();
    c.grammar_place = request.grammar_place.c_str();
    c.grammar_kind = request.grammar_kind;
    c.speculation = request.speculation;
    c.draft = request.draft;
    c.medusa = request.medusa.c_str();
    c.assistant = request.assistant.c_str();
    c.stops = stops.data();
    c.stop_count = stops.size();
    c.bias_ids = ids.data();
    c.biases = values.data();
    c.bias_count = ids.size();
    c.logprobs = request.logprobs;
    c.separate_reasoning = request.separate_reasoning;
    c.reasoning_tokens = request.reasoning_tokens;
    c.keep_sampling = request.keep_sampling;
    c.keep_biases = request.keep_biases;
    detail::check([&](weft_error* error) { return weft_session_set_request(get(), &c, error); });
    request_ = std::move(request);
  }
  // The last request, with the parts that the setters below have changed.
  const Request& request() const noexcept { return request_; }

  // Parts of the request.
  void set_sampling(const weft_sampling& sampling) {
    change([&](Request& request) { request.sampling = sampling, request.keep_sampling = false; });
  }
  void set_head(const std::string& head) {
    change([&](Request& request) { request.head = head; });
  }
  void set_speculation(weft_speculation kind) {
    change([&](Request& request) {
      request.speculation = kind, request.draft = nullptr, request.medusa.clear(), request.assistant.clear();
    });
  }
  void set_draft(const Model& draft) {
    change([&](Request& request) { request.speculation = WEFT_SPECULATE_DRAFT, request.draft = draft.get(); });
  }
  void set_medusa(const std::string& path) {
    change([&](Request& request) { request.speculation = WEFT_SPECULATE_MEDUSA, request.medusa = path; });
  }
  void set_assistant(const std::string& folder) {
    change([&](Request& request) { request.speculation = WEFT_SPECULATE_ASSISTANT, request.assistant = folder; });
  }
  void set_logit_bias(std::vector<std::pair<std::uint32_t, float>> biases) {
    change([&](Request& request) { request.biases = std::move(biases), request.keep_biases = false; });
  }
  void set_stops(std::vector<std::string> stops) {
    change([&](Request& request) { request.stops = std::move(stops); });
  }
  void set_logprobs(std::uint32_t count) {
    change([&](Request& request) { request.logprobs = count; });
  }
  // place: a name for errors.
  void set_grammar(weft_grammar_kind kind, const std::string& text = {}, const std::string& place = {}) {
    change(
        [&](Request& request) { request.grammar_kind = kind, request.grammar = text, request.grammar_place = place; });
  }
  // Tells reasoning apart from the answer. callback: gets the reasoning of later calls that generate; empty: it is text
  // like any other. max_tokens: of the reasoning; 0: no limit.
  void set_reasoning(ReasoningCallback callback, std::uint32_t max_tokens = 0) {
    change([&](Request& request) {
      request.separate_reasoning = static_cast<bool>(callback);
      request.reasoning_tokens = max_tokens;
    });
    reasoning_ = std::move(callback);
  }

  // See weft_session_use_duty.
  void use_duty(const Duty& duty) {
    detail::check([&](weft_error* error) { return weft_session_use_duty(get(), duty.get(), error); });
  }
  void use_duty(std::nullptr_t) {  // no longer
    detail::check([&](weft_error* error) { return weft_session_use_duty(get(), nullptr, error); });
  }
  // How much of the time the device may be busy with a polite session, 0 to 1. From any thread; see
  // weft_session_set_duty.
  void set_duty(float share) {
    detail::check([&](weft_error* error) { return weft_session_set_duty(get(), share, error); });
  }

  weft_speculation_stats speculation_stats() const {
    weft_speculation_stats stats;
    weft_session_get_speculation_stats(get(), &stats, sizeof stats);
    return stats;
  }

  struct Logprobs {
    float chosen = 0;
    std::vector<std::pair<std::uint32_t, float>> likeliest;  // ids and log-probabilities, likeliest first
  };
  // Log-probabilities of the callback's last token; see weft_session_get_logprobs. May be called in the callback.
  Logprobs logprobs() const {
    std::uint32_t ids[WEFT_MAX_LOGPROBS];
    float values[WEFT_MAX_LOGPROBS];
    std::size_t count = 0;
    Logprobs result;
    detail::check([&](weft_error* error) {
      return weft_session_get_logprobs(get(), &result.chosen, ids, values, WEFT_MAX_LOGPROBS, &count, error);
    });
    for (std::size_t i = 0; i < count; ++i) result.likeliest.emplace_back(ids[i], values[i]);
    return result;
  }

  // Makes the context exactly these ids; what is computed of a common prefix is reused; see weft_session_prompt.
  void prompt(const std::vector<std::uint32_t>& tokens) {
    detail::check([&](weft_error* error) { return weft_session_prompt(get(), tokens.data(), tokens.size(), error); });
  }

  // Appends up to max_tokens tokens (0: until another reason to stop), with one callback for each. Returns why it
  // ended; see weft_session_generate.
  weft_stop generate(std::uint32_t max_tokens, const TokenCallback& callback = {}, bool ignore_stop_tokens = false) {
    detail::Callbacks state = callbacks(callback);
    const weft_generate_options options = state.options(max_tokens, ignore_stop_tokens);
    weft_stop stop = WEFT_STOP_LENGTH;
    detail::check([&](weft_error* error) { return weft_session_generate(get(), &options, &stop, error); },
                  state.thrown);
    return stop;
  }

  // Callback of later calls that generate, for their progress in the prompt. Empty: none.
  void set_prompt_callback(PromptCallback callback) { prompt_ = std::move(callback); }
  // For the wrappers of functions that generate; the session must stay where it is meanwhile.
  detail::Callbacks callbacks(const TokenCallback& token) const { return {&token, &reasoning_, &prompt_}; }

  // Ends a running generate(), or the next one if none is running. May be called from any thread and from a signal
  // handler.
  void cancel() noexcept { weft_session_cancel(get()); }
  // Forgets a cancel() that came when nothing was running; see weft_session_clear_cancel.
  void clear_cancel() noexcept { weft_session_clear_cancel(get()); }

  // -ln p of each id after the first, given those before it: tokens.size() - 1 values; see weft_session_score. Requires
  // at least two tokens.
  std::vector<float> score(const std::vector<std::uint32_t>& tokens) {
    std::vector<float> nll(tokens.empty() ? 0 : tokens.size() - 1);
    detail::check(
        [&](weft_error* error) { return weft_session_score(get(), tokens.data(), tokens.size(), nll.data(), error); });
    return nll;
  }

  // Candidates for the next token: ids and logits, in no order; see weft_session_head_logits.
  std::vector<std::pair<std::uint32_t, float>> head_logits() {
    std::vector<std::uint32_t> ids(vocab_size_);
    std::vector<float> logits(vocab_size_);
    std::size_t count = 0;
    detail::check([&](weft_error* error) {
      return weft_session_head_logits(get(), ids.data(), logits.data(), ids.size(), &count, error);
    });
    std::vector<std::pair<std::uint32_t, float>> result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = {ids[i], logits[i]};
    return result;
  }

  // The logits after the last token of the context: vocab_size values; see weft_session_logits.
  std::vector<float> logits() {
    std::vector<float> result(vocab_size_);
    detail::check([&](weft_error* error) { return weft_session_logits(get(), result.data(), result.size(), error); });
    return result;
  }

  // The hidden states of the context, and the logits that the model would have after each layer; return false from the
  // callback to end it (Failure with WEFT_CANCELLED); see weft_session_lens.
  void lens(const std::function<bool(const weft_lens_row&)>& callback,
            const weft_lens_options& options = weft_lens_options_default()) {
    detail::Lens state{&callback, nullptr};
    detail::check(
        [&](weft_error* error) { return weft_session_lens(get(), &options, &detail::Lens::call, &state, error); },
        state.thrown);
  }

  // Has lens() translate the hidden states first; an empty path: no longer. See weft_session_set_tuned_lens.
  void set_tuned_lens(const std::string& folder) {
    const char* const path = folder.empty() ? nullptr : folder.c_str();
    detail::check([&](weft_error* error) { return weft_session_set_tuned_lens(get(), path, error); });
  }

  // The ids of the context; see weft_session_get_ids.
  std::vector<std::uint32_t> ids() const {
    return detail::ids(stats().context_used,
                       [&](std::uint32_t* out, std::size_t capacity, std::size_t* count, weft_error* error) {
                         return weft_session_get_ids(get(), out, capacity, count, error);
                       });
  }

  // Writes the session to a file; see weft_session_save.
  void save(const std::string& path, const std::string& note = {}) const {
    detail::check([&](weft_error* error) { return weft_session_save(get(), path.c_str(), note.c_str(), error); });
  }
  // Replaces the context, sampling and biases by those of a file, and returns its note; see weft_session_restore. They
  // hold until set_sampling and set_logit_bias, or another request.
  std::string restore(const std::string& path) {
    return restored(
        [&](char** note, weft_error* error) { return weft_session_restore(get(), path.c_str(), note, error); });
  }

  // The same at the position of an open descriptor; see weft_session_save_fd.
  void save(int descriptor, const std::string& note = {}) const {
    detail::check([&](weft_error* error) { return weft_session_save_fd(get(), descriptor, note.c_str(), error); });
  }
  std::string restore(int descriptor) {
    return restored(
        [&](char** note, weft_error* error) { return weft_session_restore_fd(get(), descriptor, note, error); });
  }

  // Where the device's time goes in one pass, as JSON; see weft_session_profile.
  std::string profile(std::uint32_t tokens, std::uint32_t repeat = 5) {
    return detail::text(
        [&](char** json, weft_error* error) { return weft_session_profile(get(), tokens, repeat, json, error); });
  }

  // The same for one token at `position`; see weft_session_profile_after. Empties the context.
  std::string profile_after(std::uint32_t position, std::uint32_t repeat = 5) {
    return detail::text([&](char** json, weft_error* error) {
      return weft_session_profile_after(get(), position, repeat, json, error);
    });
  }

  // Empties the context and the statistics; see weft_session_reset.
  void reset() noexcept { weft_session_reset(get()); }
  // See weft_stats.
  weft_stats stats() const {
    weft_stats stats;
    weft_session_get_stats(get(), &stats, sizeof stats);
    return stats;
  }
  // The C handle, which this object owns.
  weft_session* get() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(weft_session* session) const noexcept { weft_session_free(session); }
  };
  template <typename Change>
  void change(const Change& change) {
    Request request = request_;
    change(request);
    set_request(std::move(request));
  }
  template <typename Call>
  std::string restored(const Call& call) {
    std::string note = detail::text(call);
    request_.keep_sampling = request_.keep_biases = true;
    return note;
  }

  std::unique_ptr<weft_session, Free> handle_;
  Request request_;
  PromptCallback prompt_;
  ReasoningCallback reasoning_;
  std::size_t vocab_size_ = 0;
};

// A session of a batch; see weft_batch_entry.
struct BatchEntry {
  Session& session;
  std::uint32_t max_tokens = 0;  // 0: until another reason to stop
  TokenCallback callback;
  bool ignore_stop_tokens = false;
};

// Generates with 1 to 64 sessions of one model together. Returns why each ended, in the order of the entries; see
// weft_generate_batch. If callbacks throw, the exception of the first such entry is rethrown.
inline std::vector<weft_stop> generate_batch(const std::vector<BatchEntry>& entries) {
  std::vector<detail::Callbacks> states;
  std::vector<weft_generate_options> options;
  states.reserve(entries.size());  // the options point to them, and the list to the options
  options.reserve(entries.size());
  std::vector<weft_batch_entry> list;
  for (const BatchEntry& entry : entries) {
    states.push_back(entry.session.callbacks(entry.callback));
    options.push_back(states.back().options(entry.max_tokens, entry.ignore_stop_tokens));
    list.push_back({entry.session.get(), &options.back(), {}});
  }
  weft_error error{};
  const weft_status status = weft_generate_batch(list.data(), list.size(), &error);
  for (const detail::Callbacks& state : states)
    if (state.thrown) std::rethrow_exception(state.thrown);
  if (status != WEFT_OK) throw Failure(error);
  std::vector<weft_stop> stops;
  for (const weft_batch_entry& entry : list) stops.push_back(entry.stop);
  return stops;
}

}  // namespace weft::api
#endif
