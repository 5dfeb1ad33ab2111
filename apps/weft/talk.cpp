#include "talk.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "chat/notations.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

// A device that hangs would keep a cancelled answer: the second Ctrl-C of an answer ends the program.
std::atomic<weft_session*> answering = nullptr;
std::atomic<bool> leave_on_interrupt = false, interrupted_answer = false;
static_assert(std::atomic<weft_session*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  if (weft_session* session = answering.load()) {
    if (interrupted_answer.exchange(true)) _exit(130);
    weft_session_cancel(session);
  } else if (leave_on_interrupt.load()) {
    _exit(130);
  }
}

// Waits until all layers are loaded.
bool reasons(const api::Model& model) {
  const std::string text = nlohmann::json::parse(model.describe()).value("chat_template", "");
  return reasoning_marks(text) || has_channels(text);
}

// The beginning of a sentence about a model without a template that can be used.
std::string missing_template(const api::Model& model) {
  const std::string problem = nlohmann::json::parse(model.describe()).value("chat_template_problem", "");
  if (problem.empty()) return "This model has no chat template";
  return "This model's chat template cannot be used (" + problem + ")";
}

api::Session chat_session(const api::Model& model, const weft_session_options& options) {
  const weft_model_info info = model.info();
  if (info.reads_prompt_apart != 0)
    throw api::Failure(WEFT_UNSUPPORTED, "an encoder-decoder cannot chat: it answers each text alone", "model",
                       std::string_view(info.family) == "whisper" ? "weft listen uses it" : "weft generate uses it");
  return api::Session(model, options);
}

// The hint of a full context names the program's option.
template <class Work>
weft_stop with_context_hint(const Work& work) try {
  return work();
} catch (const api::Failure& failure) {
  if (failure.status() != WEFT_CONTEXT_FULL) throw;
  throw api::Failure(failure.status(), failure.sentence(), failure.place(),
                     "make it shorter, or give more room with --ctx");
}

ModelArgs with_model(ModelArgs args, const std::string& model) {
  args.model = model;
  return args;
}

}  // namespace

bool answer_was_interrupted() { return interrupted_answer; }

void handle_interrupts(bool interactive) {
  leave_on_interrupt = !interactive;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

Talk::Talk(const ChatArgs& args, const std::string& model, const std::string& head, bool interactive,
           const api::Duty* duty)
    : args_(args),
      model_args_(with_model(args.model, model)),
      model_(load_model(model_args_, Load::begin)),
      info_(model_.info()),
      name_(model_name(model_args_.model)),
      context_(session_context(model_args_, info_)),
      session_(chat_session(model_, session_options(model_args_, context_))),
      conversation_(session_, args.system),
      pictures_(model_, model_args_, args.images),
      interactive_(interactive) {
  if (duty) use_duty(*duty);
  set_lora(session_, model_, args.lora);
  set_grammar(session_, args.grammar);
  set_conversation(conversation_.json());
  if (args.think.on && templated() && !reasons(model_))
    std::cerr << "This model's chat template does not know reasoning: --think changes nothing.\n";
  apply_head("--head", head);
  session_.set_sampling(args.settings.sampling);  // before the guesses, which are tried with it
  set_speculation(session_, args.speculate, model_args_);
  shown_ = pictures_.encode_all();
  if (!templated()) {
    std::cerr << missing_template(model_) << ": it continues your text.\n";
    if (!args.system.empty()) std::cerr << "The system message of -s is not used.\n";
  }
}

void Talk::begin() {
  if (!args_.restore.empty()) restore(args_.restore);
  set_steering(session_, args_.settings.steering);
  if (!args_.restore.empty() && sampling_given(args_.command)) session_.set_sampling(args_.settings.sampling);
}

void Talk::use_duty(const api::Duty& duty) {
  session_.use_duty(duty);
  pictures_.use_duty(duty);
}

void Talk::apply(const TalkSettings& settings) {
  set_steering(session_, settings.steering, true);
  session_.set_sampling(settings.sampling);
}

void Talk::apply_head(const std::string& option, const std::string& head) {
  set_head(session_, option, head);
  head_ = head;
}

void Talk::ask(const std::string& message) {
  const std::vector<api::Image> images = shown_;
  show([&](const api::TokenCallback& token) { return conversation_.ask(message, args_.tokens, token, images); });
  shown_with_.push_back(images);
  shown_.clear();
}

void Talk::regenerate() {
  show([&](const api::TokenCallback& token) { return conversation_.answer(args_.tokens, token); });
}

void Talk::go_on() {
  show([&](const api::TokenCallback& token) { return conversation_.proceed(args_.tokens, token); });
}

std::optional<std::string> Talk::undo() {
  const std::optional<std::string> question = conversation_.undo();
  if (!question) return std::cerr << "There is no question to take back.\n", std::nullopt;
  shown_.clear();
  if (!shown_with_.empty()) shown_ = shown_with_.back(), shown_with_.pop_back();
  return question;
}

void Talk::show_thoughts() const {
  const nlohmann::json said = nlohmann::json::parse(conversation_.json());
  const nlohmann::json& messages = said.at("messages");
  const nlohmann::json text =
      messages.empty() ? nlohmann::json() : messages.back().value("reasoning_content", nlohmann::json());
  if (!text.is_string() || text.get_ref<const std::string&>().empty())
    std::cerr << "The last answer has no reasoning.\n";
  else
    show_dimmed(text.get_ref<const std::string&>());
}

void Talk::say_forgotten() {
  const std::size_t before = std::exchange(forgotten_, conversation_.forgotten());
  if (forgotten_ > before) std::cerr << "[the context is full: the oldest turns are forgotten]\n";
}

void Talk::show(const std::function<weft_stop(const api::TokenCallback&)>& answer) {
  const weft_stats before = session_.stats();
  const weft_speculation_stats guessed = session_.speculation_stats();
  std::uint64_t tokens = 0;
  AnswerWriter writer(args_.think.on.value_or(false), interactive_ ? ": /thoughts shows it" : "");
  bool begun = false;
  const auto begin = [&] {
    if (!std::exchange(begun, true)) say_forgotten();
  };
  if (templated()) {
    session_.set_reasoning(
        [&](std::string_view text) {
          begin();
          return writer.reasoning(text);
        },
        args_.think.tokens);
  }
  interrupted_answer = false;
  answering = session_.get();
  const auto done = [](void*) { answering = nullptr; };
  const std::unique_ptr<void, decltype(done)> guard(this, done);
  const PromptBar bar(session_);
  const weft_stop stop = with_context_hint([&] {
    return answer([&](std::uint32_t id, std::string_view piece) {
      begin();
      if (id != WEFT_NO_TOKEN) ++tokens;
      return writer.answer(piece);
    });
  });
  answering = nullptr;
  begin();
  writer.end();
  if (args_.stats) {
    if (bandwidth_ == 0) bandwidth_ = model_.measure_bandwidth();  // after the first answer, which it would delay
    const weft_stats after = session_.stats();
    const weft_speculation_stats all = session_.speculation_stats();
    const weft_speculation_stats guesses = {all.passes - guessed.passes, all.drafted_tokens - guessed.drafted_tokens,
                                            all.accepted_tokens - guessed.accepted_tokens};
    const Rates speed = rates(before, after, tokens);
    std::cerr << stats_line(speed, head_, after, bandwidth_) << speculation_text(guesses, speed) << '\n';
  }
  say_ending(stop);
}

void Talk::say_ending(weft_stop stop) const {
  const std::string more = interactive_ ? "/continue goes on" : "";
  if (stop == WEFT_STOP_LENGTH)
    std::cerr << format("[cut at %u tokens: %s]\n", args_.tokens,
                        interactive_ ? more.c_str() : "--max-tokens allows more");
  if (stop == WEFT_STOP_CONTEXT)
    std::cerr << format("[cut: the context of %u tokens is full; %s]\n", context_,
                        interactive_ ? more.c_str() : "--ctx gives more room");
  if (stop == WEFT_STOP_CALLER) std::cerr << (interactive_ ? "[stopped: " + more + "]\n" : "[stopped]\n");
  if (stop == WEFT_STOP_STRING) std::cerr << "[ended before a text of --stop]\n";
}

void Talk::set_conversation(const std::string& json) {
  nlohmann::ordered_json said;
  if (args_.think.on) said = nlohmann::ordered_json::parse(json, nullptr, false);
  if (said.is_object()) said["think"] = *args_.think.on;
  conversation_.set(said.is_object() ? said.dump() : json);
  shown_with_.clear();
  forgotten_ = conversation_.forgotten();
}

void Talk::reset() {
  session_.reset();
  conversation_ = api::Conversation(session_, args_.system);
  set_conversation(conversation_.json());
  shown_.clear();
}

void Talk::adopt(const Talk& other) {
  if (!templated() || !other.templated()) return;
  auto said = nlohmann::ordered_json::parse(other.conversation_.json());
  said.erase("forgotten");  // this context may have room for it
  set_conversation(said.dump());
}

void Talk::show_picture(const std::string& path) {
  shown_.push_back(pictures_.encode(path));
  std::cerr << format("%s goes with the next message: %zu tokens.\n", path.c_str(), shown_.back().tokens());
}

void Talk::save(const std::string& path) const {
  const std::string json = conversation_.json();
  const nlohmann::json said = nlohmann::json::parse(json);
  for (const auto& message : said.at("messages"))
    if (message.contains("images"))
      throw api::Failure(WEFT_UNSUPPORTED, "a conversation with pictures cannot be saved");
  session_.save(path, json);
}

void Talk::restore(const std::string& path) {
  const std::string note = session_.restore(path);
  try {
    set_conversation(note);
    const auto said = nlohmann::json::parse(conversation_.json());
    if (said.at("messages").empty() && said.at("text") == "") throw api::Failure(WEFT_BAD_FILE, "it is empty");
  } catch (const api::Failure&) {
    session_.reset();
    throw api::Failure(WEFT_BAD_FILE, "the saved session has no conversation: it was not saved by a chat");
  }
  std::cerr << format("The conversation of %s goes on: %u tokens.\n", path.c_str(), session_.stats().context_used);
}

void Talk::print_stats() {
  if (bandwidth_ == 0) bandwidth_ = model_.measure_bandwidth();
  const weft_stats stats = session_.stats();
  const auto count = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  const auto bytes = [](std::uint64_t value) { return human_bytes(static_cast<double>(value)); };
  std::cerr << format("model     %s: %s, %s, on %s\n", name_.c_str(), info_.family, info_.type, info_.device)
            << format("context   %u of %u tokens\n", stats.context_used, context_)
            << format("prompt    %llu tokens in %.2f s\n", count(stats.prompt_tokens), stats.prompt_seconds)
            << format("reused    %llu tokens of prompts\n", count(stats.reused_tokens))
            << format("decode    %llu tokens in %.2f s\n", count(stats.decoded_tokens), stats.decode_seconds)
            << format("reading   %s/token, %.2f GB/s", bytes(info_.bytes_per_token).c_str(),
                      stats.read_gigabytes_per_second)
            << format("; a kernel that only reads reaches %.2f GB/s\n", bandwidth_)
            << format("memory    vocab %s, layers %s, kv %s, scratch %s\n", bytes(info_.vocab_bytes).c_str(),
                      bytes(info_.layer_bytes).c_str(), bytes(stats.kv_bytes).c_str(),
                      bytes(stats.scratch_bytes).c_str());
  const Rates all = rates(weft_stats{}, stats, stats.decoded_tokens);
  std::cerr << "head      " << head_
            << format(" now; in total %s/tok %.0f rows\n",
                      bytes(static_cast<std::uint64_t>(all.head_bytes_per_token)).c_str(), all.head_rows_per_token);
  const weft_speculation_stats guesses = session_.speculation_stats();
  if (guesses.passes > 0) {
    std::cerr << format("guesses   %llu of %llu right, checked in %llu passes\n", count(guesses.accepted_tokens),
                        count(guesses.drafted_tokens), count(guesses.passes));
  }
  for (std::size_t i = 0; i < stats.stage_count; ++i) {
    std::cerr << format("%s%-14s %5.1f%%\n", i == 0 ? "stages    " : "          ", stats.stages[i].name,
                        stats.stages[i].share * 100);
  }
}

}  // namespace weft::cli
