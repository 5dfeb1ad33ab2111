// The C API's sessions.
#include <algorithm>
#include <tuple>

#include "base/file.h"
#include "capi/handles.h"
#include "session/profile.h"
#include "weft/descriptor.h"
#include "weft/estimates.h"
#include "weft/lens.h"
#include "weft/profile.h"

using namespace weft;
using namespace weft::capi;

WEFT_STRUCT(weft_lens_options, layer_count);

capi::InUse::InUse(const DeviceUser* user, const char* what) : user_(user) {
  need_own(*user->model);
  const auto taken = [&] {  // by a recovery, perhaps, which takes all users for a while and holds this lock
    const auto lock = lock_users(*user->model);
    return user->in_use.exchange(true);
  };
  if (user->in_use.exchange(true) && taken())
    throw Error(Code::invalid_argument, "it is in use", what,
                "call this after the call whose callback this is, and from one thread at a time");
  user->thread = std::this_thread::get_id();
}

capi::InUse::InUse(const weft_session* session) : InUse(session, "session") {}

void capi::with_recovery(const weft_session& session, const std::function<void()>& work) {
  std::optional<size_t> before;
  for (;;) {
    const uint64_t recoveries = session.model->recoveries;
    try {
      return work();
    } catch (const Error& error) {
      if (error.code() != Code::device_lost || !session.model->recovers || before == session.session.ids().size())
        throw;
    }
    before = session.session.ids().size();
    recover(*session.model, recoveries, &session);
  }
}

static constexpr uint32_t kDefaultContext = 4096;

SessionSettings capi::settings_of(const Config& config, const weft_session_options& options) {
  const auto type_of = [](weft_type type, Format otherwise, const char* option) {
    return type == WEFT_TYPE_FILE ? otherwise : format_of(type, option);
  };
  const Format keys = type_of(options.kv, Format::f16, "kv");
  const Format values = type_of(options.kv_values, keys, "kv_values");
  const weft_policy policy = options.policy;
  if (policy != WEFT_POLICY_THROUGHPUT && policy != WEFT_POLICY_POLITE)
    throw Error(Code::invalid_argument, "it is " + std::to_string(policy) + ", no way to schedule", "policy");
  const uint32_t most = config.context;
  const uint32_t asked = options.context;
  if (asked > most)
    throw Error(Code::invalid_argument,
                "it is " + std::to_string(asked) + " tokens, the model was made for " + std::to_string(most),
                "context");
  const uint32_t context = asked ? asked : std::min(most, kDefaultContext);
  require(context >= 2, "context", "it must hold at least 2 tokens");
  return {context, {keys, values}, policy == WEFT_POLICY_POLITE ? Policy::polite : Policy::throughput};
}

weft_status weft_session_create(const weft_model* model, const weft_session_options* options, weft_session** session,
                                weft_error* error) {
  return guard(error, [&] {
    require(model && session, "model or session", "it is NULL");
    const SessionSettings settings = settings_of(model->model.config, read_struct(options));
    const auto lock = lock_users(*model);
    need_weights(*model);
    *session = new weft_session(model, settings.context, settings.cache, settings.policy);
  });
}

void weft_session_free(weft_session* session) { destroy(session); }

weft_status weft_session_get_logprobs(const weft_session* session, float* chosen, uint32_t* ids, float* logprobs,
                                      size_t capacity, size_t* count, weft_error* error) {
  return guard(error, [&] {
    require(session && chosen && count && ((ids && logprobs) || capacity == 0),
            "session, chosen, ids, logprobs or count", "it is NULL");
    const Logprobs& known = session->session.logprobs();
    *chosen = known.chosen;
    *count = known.likeliest.size();
    for (size_t i = 0; i < std::min(capacity, *count); ++i) std::tie(ids[i], logprobs[i]) = known.likeliest[i];
  });
}

weft_status weft_session_prompt(weft_session* session, const uint32_t* ids, size_t count, weft_error* error) {
  return guard(error, [&] {
    require(session && (ids || count == 0), "session or ids", "it is NULL");
    const InUse use(session);
    with_recovery(*session, [&] { session->session.prompt({ids, count}); });
    session->begin_answer();
  });
}

static bool tell(const weft_generate_options& options, uint32_t id, const std::string& text) {
  return !options.callback || options.callback(options.user, id, text.data(), text.size()) == 0;
}

// A control token within the answer. After one that ends it, the rest of the text has no token.
static bool parts_stops(const Tokenizer& tokenizer, uint32_t id) {
  return tokenizer.is_control(id) && !std::ranges::binary_search(tokenizer.stop_ids(), id);
}

std::function<bool(uint32_t)> capi::teller(weft_session& session, const weft_generate_options& options) {
  session.stops.finish();  // an earlier generate may have failed
  return [&](uint32_t id) {
    Reasoning::Told told;
    std::string text;
    try {
      told.answer = session.decoder.push(id);
      if (session.reasoning) told = session.reasoning->push(id, told.answer);
      text = session.stops.push(told.answer);
      if (parts_stops(session.model->tokenizer, id)) text += session.stops.release();
    }
    WEFT_LET_THREAD_END
    catch (...) {
      tell(options, id, "");  // it is in the context
      throw;
    }
    return tell(options, id, text) && told.go_on && !session.stops.stopped();
  };
}

static weft_stop stop_of(Stop reason) {
  switch (reason) {
    case Stop::length:
      return WEFT_STOP_LENGTH;
    case Stop::token:
      return WEFT_STOP_TOKEN;
    case Stop::context:
      return WEFT_STOP_CONTEXT;
    case Stop::caller:
      return WEFT_STOP_CALLER;
    case Stop::grammar:
      return WEFT_STOP_GRAMMAR;
  }
  return WEFT_STOP_CALLER;
}

weft_stop capi::end(weft_session& session, const weft_generate_options& options, Stop reason) {
  std::string rest;
  if (session.reasoning && reason != Stop::length && reason != Stop::caller)
    rest = session.stops.push(session.reasoning->finish().answer);
  const bool stopped = session.stops.stopped();
  session.stop_string = stopped ? static_cast<uint32_t>(session.stops.which()) : UINT32_MAX;
  if (rest += session.stops.finish(); !rest.empty()) tell(options, WEFT_NO_TOKEN, rest);
  return stopped ? WEFT_STOP_STRING : stop_of(reason);
}

Stop capi::generate(weft_session& session, const weft_generate_options& options, uint32_t told,
                    const std::function<bool(uint32_t)>& tell_one) {
  Stop reason = Stop::length;
  with_recovery(session, [&] {
    reason = session.session.generate(options.max_tokens ? options.max_tokens - told : 0,
                                      options.ignore_stop_tokens != 0, [&](uint32_t id) {
                                        ++told;
                                        return tell_one(id);
                                      });
  });
  return reason;
}

capi::GenerateCall::GenerateCall(weft_session& session, const weft_generate_options& options) : session_(session) {
  if (!options.prompt_callback) return;
  session.session.set_on_prompt([callback = options.prompt_callback, user = options.user](size_t done, size_t all) {
    return callback(user, static_cast<uint32_t>(done), static_cast<uint32_t>(all)) == 0;
  });
}

weft_stop capi::generate_answer(weft_session& session, const weft_generate_options& options) {
  const GenerateCall call(session, options);
  if (session.reasoning) session.reasoning->listen(options.reasoning_callback, options.user);
  const std::function<bool(uint32_t)> tell_one = teller(session, options);
  const Stop reason =
      session.reasoning ? generate_reasoned(session, options, tell_one) : generate(session, options, 0, tell_one);
  return end(session, options, reason);
}

weft_status weft_session_generate(weft_session* session, const weft_generate_options* options, weft_stop* stop,
                                  weft_error* error) {
  return guard(error, [&] {
    require(session && options, "session or options", "it is NULL");
    const InUse use(session);
    const weft_generate_options all = read_struct(options);
    if (all.request) with_recovery(*session, [&] { set_request(*session, all.request); });
    const weft_stop ended = generate_answer(*session, all);
    if (stop) *stop = ended;
  });
}

void weft_session_cancel(weft_session* session) {
  if (session) session->session.cancel();
}

void weft_session_clear_cancel(weft_session* session) {
  if (session) session->session.clear_cancel();
}

weft_status weft_session_score(weft_session* session, const uint32_t* ids, size_t count, float* nll,
                               weft_error* error) {
  return guard(error, [&] {
    require(session && ids && nll, "session, ids or nll", "it is NULL");
    const InUse use(session);
    std::vector<float> values;
    with_recovery(*session, [&] { values = session->session.score({ids, count}); });
    session->begin_answer();
    std::copy(values.begin(), values.end(), nll);
  });
}

weft_status weft_session_logits(weft_session* session, float* logits, size_t count, weft_error* error) {
  return guard(error, [&] {
    require(session && logits, "session or logits", "it is NULL");
    const InUse use(session);
    const uint32_t vocab = session->model->model.config.vocab;
    if (count != vocab)
      throw Error(Code::invalid_argument,
                  "it is " + std::to_string(count) + ", the vocabulary has " + std::to_string(vocab), "count");
    std::vector<float> values;
    with_recovery(*session, [&] { values = session->session.logits(); });
    std::copy(values.begin(), values.end(), logits);
  });
}

weft_status weft_session_head_logits(weft_session* session, uint32_t* ids, float* logits, size_t capacity,
                                     size_t* count, weft_error* error) {
  return guard(error, [&] {
    require(session && count && ((ids && logits) || capacity == 0), "session, ids, logits or count", "it is NULL");
    const InUse use(session);
    std::vector<TokenLogit> values;
    with_recovery(*session, [&] { values = session->session.head_logits(); });
    *count = values.size();
    for (size_t i = 0; i < std::min(capacity, values.size()); ++i) {
      ids[i] = values[i].id;
      logits[i] = values[i].logit;
    }
  });
}

weft_status weft_session_head_estimates(weft_session* session, weft_head_estimate* rows, size_t count,
                                        float* deviations, weft_error* error) {
  return guard(error, [&] {
    require(session && rows, "session or rows", "it is NULL");
    const InUse use(session);
    const uint32_t vocab = session->model->model.config.vocab;
    if (count != vocab)
      throw Error(Code::invalid_argument,
                  "it is " + std::to_string(count) + ", the vocabulary has " + std::to_string(vocab), "count");
    HeadEstimates known;
    with_recovery(*session, [&] { known = session->session.head_estimates(); });
    for (uint32_t id = 0; id < vocab; ++id) rows[id] = {known.logits[id], known.estimates[id], known.bounds[id]};
    if (deviations) *deviations = known.deviations;
  });
}

static LensRange lens_range(const weft_session& session, const weft_lens_options& options) {
  require((options.layers != nullptr) == (options.layer_count > 0), "layers",
          "only one of layers and layer_count is set");
  const size_t context = session.session.ids().size(), first = std::min<size_t>(options.first, context);
  LensRange range = {options.first, options.count ? options.count : context - first, {}, options.without_logits == 0};
  range.layers.assign(options.layers, options.layers + options.layer_count);
  if (range.layers.empty())
    for (uint32_t layer = 0; layer <= session.model->model.config.layers; ++layer) range.layers.push_back(layer);
  return range;
}

weft_status weft_session_lens(weft_session* session, const weft_lens_options* options, weft_lens_callback callback,
                              void* user, weft_error* error) {
  return guard(error, [&] {
    require(session && callback, "session or callback", "it is NULL");
    const InUse use(session);
    const LensRange range = lens_range(*session, read_struct(options));
    uint64_t told = 0;
    with_recovery(*session, [&] {
      uint64_t row_number = 0;
      const bool ended = !session->session.lens(range, [&](const LensRow& row) {
        if (row_number++ < told) return true;  // before the device was lost
        ++told;
        const weft_lens_row out = {row.layer, row.position, row.hidden.data(), row.logits.data()};
        return callback(user, &out) == 0;
      });
      if (ended) throw Error(Code::cancelled, "the callback ended it", "lens");
    });
  });
}

weft_status weft_session_set_tuned_lens(weft_session* session, const char* folder, weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    require(!folder || *folder, "folder", "it is empty");
    const InUse use(session);
    session->session.set_tuned_lens(folder ? folder : "");
  });
}

weft_status weft_session_get_ids(const weft_session* session, uint32_t* ids, size_t capacity, size_t* count,
                                 weft_error* error) {
  return guard(error, [&] {
    require(session && count && (ids || capacity == 0), "session, ids or count", "it is NULL");
    copy_ids(session->session.ids(), ids, capacity, count);
  });
}

weft_status weft_session_save(const weft_session* session, const char* path, const char* note, weft_error* error) {
  return guard(error, [&] {
    require(session && path, "session or path", "it is NULL");
    const InUse use(session);
    with_recovery(*session, [&] { session->session.save(path, note ? note : ""); });
  });
}

weft_status weft_session_save_fd(const weft_session* session, int descriptor, const char* note, weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    const InUse use(session);
    DescriptorWriter file(descriptor);
    with_recovery(*session, [&] {
      if (!file.restart())
        throw Error(Code::device_lost, "the device was lost when a part had been written", descriptor_name(descriptor));
      session->session.save([&](std::span<const std::byte> part) { file.write(part); }, note ? note : "");
    });
    file.end();
  });
}

// restore() is one of the session's, and returns the note.
template <class Restore>
static void restore_session(weft_session& session, char** note, const Restore& restore) {
  std::string text;
  with_recovery(session, [&] { text = restore(); });
  // The last ids may have begun a character that the next one completes.
  const std::vector<uint32_t>& ids = session.session.ids();
  session.begin_answer();
  for (size_t i = ids.size() - std::min<size_t>(ids.size(), 8); i < ids.size(); ++i) {
    if (is_soft(ids[i]))
      session.decoder.finish();
    else
      session.decoder.push(ids[i]);
  }
  if (note) *note = copy_string(text);
}

weft_status weft_session_restore(weft_session* session, const char* path, char** note, weft_error* error) {
  return guard(error, [&] {
    require(session && path, "session or path", "it is NULL");
    const InUse use(session);
    restore_session(*session, note, [&] { return session->session.restore(path); });
  });
}

weft_status weft_session_restore_fd(weft_session* session, int descriptor, char** note, weft_error* error) {
  return guard(error, [&] {
    require(session, "session", "it is NULL");
    const std::vector<std::byte> bytes = read_to_end(descriptor);  // may take as long as its sender likes
    const InUse use(session);
    restore_session(*session, note, [&] { return session->session.restore(bytes, descriptor_name(descriptor)); });
  });
}

void weft_session_reset(weft_session* session) {
  if (!session) return;
  guard(nullptr, [&] {
    const InUse use(session);
    session->session.reset();
    session->begin_answer();
  });
}

static char* profile_text(const PassProfile& profile) {
  JsonValue json = {{"tokens", profile.tokens}, {"position", profile.position}};
  double seconds = 0;
  uint32_t dispatches = 0;
  for (const PassProfile::Stage& stage : profile.stages) {
    json["stages"].push_back({{"name", stage.name},
                              {"seconds", stage.seconds},
                              {"dispatches", stage.dispatches},
                              {"bytes", stage.bytes},
                              {"multiplies", stage.multiplies}});
    seconds += stage.seconds;
    dispatches += stage.dispatches;
  }
  json["dispatches"] = dispatches;
  json["device_seconds"] = seconds;
  json["between_seconds"] = profile.between;
  json["submitted_seconds"] = profile.submitted;
  return copy_string(json.dump());
}

weft_status weft_session_profile(weft_session* session, uint32_t tokens, uint32_t repeat, char** json,
                                 weft_error* error) {
  return guard(error, [&] {
    require(session && json, "session or json", "it is NULL");
    const InUse use(session);
    require(repeat >= 1, "repeat", "it is 0, expected at least 1");
    *json = profile_text(profile_pass(session->session, tokens, repeat));
  });
}

weft_status weft_session_profile_after(weft_session* session, uint32_t position, uint32_t repeat, char** json,
                                       weft_error* error) {
  return guard(error, [&] {
    require(session && json, "session or json", "it is NULL");
    const InUse use(session);
    require(repeat >= 1, "repeat", "it is 0, expected at least 1");
    const PassProfile profile = profile_after(session->session, position, repeat);
    session->begin_answer();
    *json = profile_text(profile);
  });
}

// The stages, largest share first. Sorted copies need memory: without it there are none.
static void fill_stages(const SessionStats& from, weft_stats& stats) {
  std::vector<Timestamps::Stage> stages = from.stages;
  std::sort(stages.begin(), stages.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  double total = 0;
  for (const Timestamps::Stage& stage : stages) total += stage.seconds;
  for (const Timestamps::Stage& stage : stages) {
    if (stats.stage_count == WEFT_MAX_STAGES || total <= 0) break;
    stats.stages[stats.stage_count++] = {stage.name, stage.seconds / total};
  }
}

static weft_stats stats_of(const weft_session& session) {
  weft_stats stats = {};
  const SessionStats& from = session.session.stats();
  stats.context_used = static_cast<uint32_t>(session.session.ids().size());
  stats.prompt_tokens = from.prompt_tokens;
  stats.reused_tokens = from.reused_tokens;
  stats.decoded_tokens = from.decoded_tokens;
  stats.prompt_seconds = from.prompt_seconds;
  stats.decode_seconds = from.decode_seconds;
  stats.decode_cpu_seconds = from.decode_cpu_seconds;
  stats.first_token_seconds = from.first_token_seconds;
  stats.readback_bytes = from.readback_bytes;
  stats.kv_bytes = session.session.kv_bytes();
  stats.scratch_bytes = session.session.scratch_bytes();
  stats.head_tokens = from.head_tokens;
  stats.head_rows = from.head_rows;
  stats.head_bytes = static_cast<uint64_t>(from.head_bytes);
  stats.head_refined = from.head_refined;
  if (from.decode_seconds > 0) stats.read_gigabytes_per_second = from.decode_bytes / from.decode_seconds * 1e-9;
  stats.device_read_gigabytes_per_second = session.model->bandwidth * 1e-9;
  stats.stop_string = session.stop_string;
  guard(nullptr, [&] { fill_stages(from, stats); });
  return stats;
}

void weft_session_get_stats(const weft_session* session, weft_stats* stats, size_t size) {
  const auto read = [&] {
    if (!session || is_inherited(*session->model)) return weft_stats{};
    const auto lock = lock_to_read(*session);
    return stats_of(*session);
  };
  write_struct(read(), stats, size);
}
