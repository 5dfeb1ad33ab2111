#include "capi_machine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "device_model.h"
#include "support/capi_options.h"

namespace weft::test {
namespace {

constexpr size_t kMostSteps = 64;  // of a program
constexpr uint32_t kVocab = 300;   // of the model
constexpr uint32_t kWidth = 32;

const std::filesystem::path& model_path() {
  static const std::filesystem::path path = make_device_model();
  return path;
}

weft_model* common_model() {
  static weft_model* const model = load_device_model(model_path());
  return model;
}

[[noreturn]] void fail(const char* what, const char* sentence = "") {
  std::fprintf(stderr, "fuzz_capi: %s: %s\n", what, sentence);
  std::abort();
}

}  // namespace

// ---- the machine ----

weft_status Machine::check(weft_status status) {
  if (status == WEFT_OK) return status;
  if (std::strncmp(weft_status_name(status), "WEFT_", 5) != 0) fail("no status");
  if (has_error_ && (error_.code != status || !error_.sentence[0])) fail("an error without a sentence");
  // Raw floats (soft tokens) in a cache may make logits that are not finite; any other internal error is a defect.
  const bool defect = status == WEFT_INTERNAL || status == WEFT_DEVICE_LOST || status == WEFT_OUT_OF_MEMORY;
  if (has_error_ && defect && !std::strstr(error_.sentence, "finite")) fail(weft_status_name(status), error_.sentence);
  return status;
}

weft_error* Machine::error() {
  error_ = {};
  has_error_ = !program_.rarely();
  return has_error_ ? &error_ : nullptr;
}

float* Machine::room(size_t floats) {
  floats_.assign(floats, 0);
  return floats_.data();
}

void Machine::run() {
  model_ = common_model();
  create(slots_[0]);
  for (size_t steps = 0; !program_.ended() && steps < kMostSteps; ++steps) step();
}

Machine::~Machine() {
  weft_batch_free(batch_);
  for (Slot& slot : slots_) weft_session_free(slot.session);
  weft_model_free(own_);
}

void Machine::step() {
  static constexpr void (Machine::*kCalls[])() = {
      &Machine::call_session, &Machine::call_session,  &Machine::call_generate, &Machine::call_generate,
      &Machine::call_batch,   &Machine::call_batch,    &Machine::call_settings, &Machine::call_settings,
      &Machine::call_results, &Machine::call_files,    &Machine::call_text,     &Machine::call_lists,
      &Machine::call_model,   &Machine::call_insights, &Machine::call_tables};
  (this->*kCalls[program_.byte() % std::size(kCalls)])();
}

void Machine::create(Slot& slot) {
  const weft_session_options options =
      test::session_options(program_.ended() ? kFuzzContext : program_.number(), program_.choice<weft_type>(4),
                            program_.choice<weft_policy>(2));
  weft_session* made = nullptr;
  weft_model* const of = own_ && program_.byte() % 2 ? own_ : model();
  const weft_status status = check(weft_session_create(of, program_.rarely() ? nullptr : &options, &made, error()));
  if ((status == WEFT_OK) != (made != nullptr)) fail("a session of a failure");
  if (status != WEFT_OK) return;
  free(slot);
  if (slot.session) return weft_session_free(made);  // the old one is a batch's
  slot.session = made;
}

void Machine::free(Slot& slot) {
  weft_session_free(slot.session);
  if (!slot.in_batch) slot.session = nullptr;
}

void Machine::leave_batch() {
  for (Slot& slot : slots_) slot.in_batch = false;
}

void Machine::call_session() {
  Slot& used = slot();
  switch (program_.byte() % 8) {
    case 0:
      return create(used);
    case 1:
      return free(used);
    case 2:
      return weft_session_reset(used.session);
    case 3: {
      size_t computed = 0;
      check(weft_session_copy_prefix(used.session, session(), program_.rarely() ? nullptr : &computed, error()));
      if (weft_session_computed_tokens(used.session) > test::stats_of(used.session).context_used)
        fail("more is computed than there is");
      return;
    }
    case 4: {
      const std::vector<uint32_t> ids = program_.ids();
      const std::vector<float> rows(kWidth * 3, program_.real());
      const weft_prompt_part parts[] = {{ids.data(), nullptr, ids.size()},
                                        {program_.rarely() ? ids.data() : nullptr, rows.data(), program_.byte() % 4u},
                                        {ids.data(), nullptr, ids.size()}};
      check(weft_session_prompt_parts(used.session, parts, program_.byte() % 4u, error()));
      return;
    }
    default: {
      const std::vector<uint32_t> ids = program_.ids();
      check(weft_session_prompt(used.session, program_.rarely() ? nullptr : ids.data(), ids.size(), error()));
    }
  }
}

// ---- callbacks ----

int Machine::within_callback(weft_session* session) {
  const uint32_t ids[] = {3, 4};
  const weft_request request = weft_request_default();
  const auto refused = [](weft_status status) {
    if (status != WEFT_INVALID_ARGUMENT) fail("a session was changed in its callback", weft_status_name(status));
  };
  switch (program_.byte() % 16) {
    case 0:
      refused(weft_session_prompt(session, ids, 2, nullptr));
      return 0;
    case 1:
      refused(weft_session_set_request(session, &request, nullptr));
      return 0;
    case 2:
      refused(weft_session_save(session, (scratch_folder() / "within").c_str(), nullptr, nullptr));
      return 0;
    case 3:
      // Refused too, unless the session is of another model.
      if (!own_) static_cast<void>(weft_model_recover(model_, nullptr));
      return 0;
    case 4:
      weft_session_free(session);  // does nothing
      weft_session_reset(session);
      return 0;
    case 5:
      weft_session_cancel(session);
      return 0;
    case 6: {
      weft_generate_options more = test::generate_options(1);
      refused(weft_session_generate(session, &more, nullptr, nullptr));
      return 0;
    }
    case 7:
      static_cast<void>(test::stats_of(session));
      static_cast<void>(test::speculation_stats_of(session));
      return 0;
    case 8:
      return 1;
    default:
      return 0;
  }
}

int Machine::on_token(void* user, uint32_t id, const char* text, size_t length) {
  Machine& self = *static_cast<Machine*>(user);
  if (id >= kVocab && id != WEFT_NO_TOKEN) fail("an id that is none");
  if (length > 0 && !text) fail("no text");
  return self.generating_ ? self.within_callback(self.generating_) : self.program_.byte() > 200;
}

int Machine::on_prompt(void* user, uint32_t done, uint32_t all) {
  if (done > all || all == 0) fail("a progress that is none");
  return static_cast<Machine*>(user)->program_.byte() > 220;
}

int Machine::on_reasoning(void* user, const char* text, size_t length) {
  if (!text || length == 0) fail("no reasoning");
  return static_cast<Machine*>(user)->program_.byte() > 220;
}

int Machine::on_row(void* user, const weft_lens_row* row) {
  if (!row->hidden || row->layer > 1) fail("a row that is none");
  return static_cast<Machine*>(user)->program_.byte() > 220;
}

weft_generate_options Machine::options(weft_session* session) {
  generating_ = session;
  weft_generate_options made = test::generate_options(program_.byte() % 16u, program_.byte() % 2, on_token, this);
  if (program_.rarely()) made.callback = nullptr;
  if (program_.rarely()) made.prompt_callback = on_prompt;
  if (program_.rarely()) made.reasoning_callback = on_reasoning;
  return made;
}

// ---- calls ----

void Machine::call_generate() {
  weft_session* const one = session();
  weft_stop stop = WEFT_STOP_LENGTH;
  weft_generate_options how = options(one);
  if (program_.rarely()) how.request = request();
  const bool in_batch = std::ranges::any_of(slots_, [&](const Slot& s) { return s.session == one && s.in_batch; });
  const weft_status status = check(
      weft_session_generate(one, program_.rarely() ? nullptr : &how, program_.rarely() ? nullptr : &stop, error()));
  generating_ = nullptr;
  if (in_batch && one && status != WEFT_INVALID_ARGUMENT) fail("a session of a batch generates alone");
  if (stop > WEFT_STOP_STRING) fail("no reason to stop");
}

void Machine::call_batch() {
  switch (program_.byte() % 6) {
    case 0:
      if (!batch_) check(weft_batch_create(model(), &batch_, error()));
      check(weft_batch_set_token_share(batch_, program_.real(), error()));
      return;
    case 1:
    case 2: {
      Slot& used = slot();
      const weft_generate_options how = options(nullptr);
      if (check(weft_batch_add(batch_, used.session, program_.rarely() ? nullptr : &how, error())) == WEFT_OK)
        used.in_batch = true;
      return;
    }
    case 3:
      weft_batch_free(batch_);
      batch_ = nullptr;
      return leave_batch();
    case 4: {
      weft_batch_entry entries[3] = {};
      weft_generate_options how[3];
      for (int i = 0; i < 3; ++i) {
        weft_session* const one = session();
        how[i] = options(nullptr);
        entries[i] = {one, program_.rarely() ? nullptr : &how[i], WEFT_STOP_LENGTH};
      }
      check(weft_generate_batch(program_.rarely() ? nullptr : entries, program_.byte() % 4u, error()));
      return;
    }
    default: {
      static weft_batch_end ended[WEFT_MAX_BATCH];
      size_t count = 0;
      const weft_status status = check(weft_batch_step(batch_, ended, &count, error()));
      if (batch_ && status != WEFT_OK) return leave_batch();
      for (size_t i = 0; i < count; ++i) {
        const auto left = std::ranges::find(slots_, ended[i].session, &Slot::session);
        if (left == slots_.end() || !left->in_batch) fail("a session ended that is not of the batch");
        left->in_batch = false;
      }
    }
  }
}

const weft_request* Machine::request() {
  wanted_ = {};
  weft_request& made = wanted_.request = weft_request_default();
  weft_sampling& sampling = wanted_.sampling = weft_sampling_default();
  // Parts of a request; several of them may be there.
  for (uint32_t parts = program_.byte() % 3u + 1; parts > 0; --parts) {
    switch (program_.byte() % 8) {
      case 0: {
        float* const values[] = {&sampling.temperature,      &sampling.top_p,     &sampling.min_p,
                                 &sampling.repeat_penalty,   &sampling.typical_p, &sampling.presence_penalty,
                                 &sampling.frequency_penalty};
        *values[program_.byte() % std::size(values)] = program_.real();
        sampling.top_k = program_.number();
        sampling.seed = program_.number();
        made.sampling = &sampling;
        break;
      }
      case 1:
        wanted_.ids = program_.ids();
        wanted_.biases.assign(wanted_.ids.size(), program_.real() * 10);
        made.bias_ids = wanted_.ids.data();
        made.biases = program_.rarely() ? nullptr : wanted_.biases.data();
        made.bias_count = wanted_.ids.size();
        break;
      case 2:
        wanted_.stop = program_.text({"a", "ab", "\n"});
        wanted_.stops[0] = wanted_.stop.c_str();
        wanted_.stops[1] = program_.rarely() ? nullptr : "b";
        made.stops = wanted_.stops;
        made.stop_count = program_.byte() % 3u;
        break;
      case 3:
        made.logprobs = program_.number();
        break;
      case 4:
        made.speculation = program_.choice<weft_speculation>(3);
        made.draft = model();
        break;
      case 5: {
        const std::string head =
            program_.text({"full", "certified", "sure", "fast", "auto", "keep:ascii", "keep:digits",
                           "certified+keep:!prompt,latin", "sure:0.1", "fast:3", "auto:sure"});
        // Programs must not touch files of the machine.
        if (head.find('/') == head.npos) wanted_.head = head;
        made.head = program_.rarely() ? nullptr : wanted_.head.c_str();
        break;
      }
      case 6:
        made.grammar_kind = program_.choice<weft_grammar_kind>(4);
        wanted_.grammar = program_.text({"[a-p]{3,9}", "root ::= \"a\" | \"b\" root", "{\"type\": \"object\"}",
                                         "{\"enum\": [\"a\", 1]}", "(ab|c)*", "{\"type\": \"integer\"}"});
        made.grammar = program_.rarely() ? nullptr : wanted_.grammar.c_str();
        made.grammar_place = program_.rarely() ? "place" : nullptr;
        break;
      default:
        made.keep_sampling = program_.byte() % 2;
        made.keep_biases = program_.byte() % 2;
        made.separate_reasoning = program_.rarely();
        made.reasoning_tokens = program_.number();
    }
  }
  return &made;
}

void Machine::call_settings() {
  weft_session* const one = session();
  if (program_.byte() % 8 > 0) {
    check(weft_session_set_request(one, program_.rarely() ? nullptr : request(), error()));
  } else if (program_.byte() % 2) {
    weft_session_cancel(one);
  } else {
    weft_session_clear_cancel(one);
  }
}

void Machine::call_results() {
  weft_session* const one = session();
  const size_t capacity = program_.byte() % 2 ? ids_.size() : program_.byte();
  size_t count = 0;
  switch (program_.byte() % 6) {
    case 0:
      check(weft_session_logits(one, room(kVocab), program_.rarely() ? program_.number() % kVocab : kVocab, error()));
      return;
    case 1: {
      const std::vector<uint32_t> ids = program_.ids();
      check(weft_session_score(one, ids.data(), ids.size(), room(ids.size() + 1), error()));
      return;
    }
    case 2:
      check(weft_session_head_logits(one, ids_.data(), room(ids_.size()), capacity, &count, error()));
      break;
    case 3:
      check(weft_session_get_ids(one, program_.rarely() ? nullptr : ids_.data(), capacity, &count, error()));
      return;
    case 4: {
      float chosen = 0;
      check(weft_session_get_logprobs(one, &chosen, ids_.data(), room(ids_.size()), capacity, &count, error()));
      if (count > WEFT_MAX_LOGPROBS) fail("too many log-probabilities");
      return;
    }
    default: {
      const weft_stats stats = test::stats_of(one);
      if (stats.stage_count > WEFT_MAX_STAGES || stats.context_used > 64) fail("statistics that are none");
      static_cast<void>(test::speculation_stats_of(one));
    }
  }
  if (count > kVocab) fail("more logits than tokens");
}

void Machine::call_files() {
  weft_session* const one = session();
  const char* const names[] = {"a", "b", "none", "."};
  const std::filesystem::path path = scratch_folder() / "saved" / names[program_.byte() % 4];
  std::filesystem::create_directory(path.parent_path());
  if (program_.byte() % 2) {
    const std::string note = program_.text();
    check(weft_session_save(one, path.c_str(), program_.rarely() ? nullptr : note.c_str(), error()));
    return;
  }
  char* note = nullptr;
  const bool wanted = !program_.rarely();
  const weft_status status = check(weft_session_restore(one, path.c_str(), wanted ? &note : nullptr, error()));
  if ((status == WEFT_OK && wanted) != (note != nullptr)) fail("a note of a failure");
  weft_string_free(note);
}

void Machine::call_text() {
  size_t count = 0;
  const size_t capacity = program_.byte() % 2 ? ids_.size() : program_.byte();
  switch (program_.byte() % 5) {
    case 0: {
      const std::string text = program_.text();
      check(weft_tokenize(model(), program_.rarely() ? nullptr : text.data(), text.size(), program_.byte() % 2,
                          program_.byte() % 2, ids_.data(), capacity, &count, error()));
      return;
    }
    case 1: {
      const std::vector<uint32_t> ids = program_.ids();
      char* text = nullptr;
      size_t length = 0;
      check(weft_detokenize(model(), ids.data(), ids.size(), &text, &length, error()));
      weft_string_free(text);
      return;
    }
    case 2: {
      const std::string said = program_.text(), role = program_.text({"user", "assistant", "system", "x<y"});
      const weft_message messages[] = {{role.c_str(), said.c_str()}, {"user", program_.rarely() ? nullptr : "b"}};
      check(weft_apply_chat_template(model(), messages, program_.byte() % 3u, ids_.data(), capacity, &count, error()));
      return;
    }
    case 3: {
      const std::string json = program_.text(
          {R"({"messages": [{"role": "user", "content": "a"}]})", R"({"messages": [1], "tools": []})",
           R"({"messages": [{"role": "user", "content": [{"a": 1}], "tool_calls": []}], "tools": [{}]})"});
      check(weft_apply_chat_template_json(model(), json.c_str(), ids_.data(), capacity, &count, error()));
      return;
    }
    default: {
      char bytes[16];
      int control = 0;
      check(weft_token_bytes(model(), program_.id(), bytes, program_.byte() % 16u, &count, &control, error()));
    }
  }
}

void Machine::call_lists() {
  size_t count = 0;
  const std::string path = (scratch_folder() / "list").string();
  if (program_.byte() % 2) {
    const std::vector<uint32_t> ids = program_.ids();
    check(weft_vocab_save(model(), ids.data(), ids.size(), path.c_str(), error()));
    return;
  }
  std::string list = program_.text({"ascii", "!ascii", "latin,!digits", "", "!prompt", "file"});
  if (list == "file") list = path;
  if (list != path && list.find('/') != list.npos) return;
  check(
      weft_vocab_keep(model(), program_.rarely() ? nullptr : list.c_str(), ids_.data(), ids_.size(), &count, error()));
}

void Machine::call_model() {
  switch (program_.byte() % 8) {
    case 0:
      weft_model_free(own_);
      own_ = nullptr;
      return;
    case 1: {
      weft_model_options options = weft_model_options_default();
      options.type = program_.choice<weft_type>(4);
      options.vocab_type = program_.choice<weft_type>(4);
      options.tie = program_.choice<weft_tie>(2);
      options.memory_budget = program_.rarely() ? program_.number() : 0;
      options.int8_inputs = program_.rarely();
      const std::string path = program_.rarely() ? scratch_folder().string() : model_path().string();
      weft_model* made = nullptr;
      weft_error why = {};
      const weft_status status = weft_model_load(path.c_str(), &options, &made, &why);
      if ((status == WEFT_OK) != (made != nullptr)) fail("a model of a failure");
      // A small budget may be too small.
      if (status == WEFT_INTERNAL || status == WEFT_DEVICE_LOST) fail("load", why.sentence);
      if (status != WEFT_OK) return;
      weft_model_free(own_);
      own_ = made;
      return;
    }
    case 2:
      if (program_.byte() % 4 == 0) check(weft_model_recover(own_, error()));
      return;
    case 3:
      check(weft_model_set_recovery(model(), program_.byte() % 2, error()));
      return;
    case 4: {
      weft_encoder* none = nullptr;
      check(weft_encoder_create(model(), &none, error()));
      if (none) fail("an encoder of a model without");
      check(weft_encoder_run(none, ids_.data(), 3, error()));
      return weft_encoder_free(none);
    }
    case 5: {
      char* json = nullptr;
      check(weft_model_describe(model(), &json, error()));
      return weft_string_free(json);
    }
    case 6: {
      const weft_session_options session =
          test::session_options(program_.number(), program_.choice<weft_type>(4), program_.choice<weft_policy>(2));
      weft_probe_report report = {};
      check(weft_probe(model_path().c_str(), program_.number(), nullptr, &session, &report, sizeof report, nullptr,
                       error()));
      return;
    }
    default:
      static_cast<void>(test::info_of(model()));
      static_cast<void>(weft_status_name(program_.choice<weft_status>(12)));
  }
}

void Machine::call_insights() {
  weft_session* const one = session();
  switch (program_.byte() % 4) {
    case 0: {
      const uint32_t layers[] = {program_.byte() % 3u, program_.number()};
      weft_lens_options options = weft_lens_options_default();
      options.first = program_.number();
      options.count = program_.number() % 100;
      options.layers = program_.byte() % 2 ? layers : nullptr;
      options.layer_count = program_.byte() % 3u;
      options.without_logits = program_.byte() % 2;
      if (program_.rarely()) check(weft_session_set_tuned_lens(one, program_.byte() % 2 ? "none" : nullptr, error()));
      check(weft_session_lens(one, program_.rarely() ? nullptr : &options, program_.rarely() ? nullptr : on_row, this,
                              error()));
      return;
    }
    case 1: {
      std::vector<weft_head_estimate> rows(kVocab);
      float deviations = 0;
      check(weft_session_head_estimates(one, rows.data(), kVocab, &deviations, error()));
      return;
    }
    case 2: {
      char* json = nullptr;
      check(weft_session_profile(one, program_.number(), program_.byte() % 3u, &json, error()));
      return weft_string_free(json);
    }
    default: {
      char* json = nullptr;
      check(weft_session_profile_after(one, program_.number(), program_.byte() % 3u, &json, error()));
      weft_string_free(json);
    }
  }
}

void Machine::call_tables() {
  const std::vector<uint32_t> ids = program_.ids();
  switch (program_.byte() % 4) {
    case 0:
      check(weft_model_rows(model(), ids.data(), ids.size(), room(ids.size() * kWidth + 1), error()));
      return;
    case 1:
      check(weft_table_rows(model(), ids.data(), ids.size(), room(ids.size() * kWidth + 1), error()));
      return;
    case 2:
      check(weft_table_states(model(), ids.data(), ids.size(), room(ids.size() * kWidth + 1), error()));
      return;
    default: {
      const std::vector<float> vectors(2 * kWidth, program_.real());
      check(weft_table_dots(model(), vectors.data(), program_.byte() % 3u, room(2 * kVocab), error()));
    }
  }
}

}  // namespace weft::test
