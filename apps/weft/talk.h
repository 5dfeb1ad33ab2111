// A model, its session and what has been said: `weft chat` without its commands.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <weft/conversation.hpp>

#include "common.h"
#include "images.h"
#include "think.h"

namespace weft::cli {

// Settings of later answers; /set and /head change them.
struct TalkSettings {
  weft_sampling sampling = weft_sampling_default();
  SteeringArgs steering;
  std::string head = "full";
};

struct ChatArgs {
  ModelArgs model;
  TalkSettings settings;
  const CLI::App* command = nullptr;
  std::vector<std::string> words, files;  // of the message
  std::string system, restore, listen;
  SpeculateArgs speculate;
  std::string lora;
  GrammarArgs grammar;
  ThinkArgs think;
  ImageArgs images;
  std::uint32_t tokens = 512, duty = 100;
  bool lines = false, stats = false;
};

// Ctrl-C stops a running answer; a second one during the answer ends the program. Between answers Ctrl-C ends the
// program too, unless `interactive`: the line editor then handles it.
void handle_interrupts(bool interactive);
// Ctrl-C stopped the last answer.
bool answer_was_interrupted();
constexpr int kInterruptedStatus = 130;  // as a shell tells of it

class Talk {
 public:
  // Loads `model` with the other options of args. interactive: remarks may name commands. duty: nullptr: none. args and
  // duty outlive it.
  Talk(const ChatArgs& args, const std::string& model, const std::string& head, bool interactive,
       const api::Duty* duty);
  void begin();  // --restore, and the options' settings

  // Answers on stdout. Throws UsageError or Failure for a message that cannot be answered.
  void ask(const std::string& message);
  void regenerate();
  void go_on();
  std::optional<std::string> undo();  // returns the question; says on stderr that none was asked

  void reset();
  void apply(const TalkSettings& settings);  // throws UsageError; the head stays if it is wrong
  void apply_head(const std::string& option, const std::string& head);
  void use_duty(const api::Duty& duty);        // which outlives it
  void show_picture(const std::string& path);  // with the next message
  void save(const std::string& path) const;
  void restore(const std::string& path);
  void adopt(const Talk& other);  // its conversation, without pictures
  void show_thoughts() const;     // the reasoning of the last answer
  void print_stats();

  const weft_model_info& info() const { return info_; }
  const std::string& name() const { return name_; }
  std::uint32_t context() const { return context_; }
  bool templated() const { return info_.has_chat_template != 0; }

 private:
  // Shows what the model says while `answer` is called, which generates.
  void show(const std::function<weft_stop(const api::TokenCallback&)>& answer);
  void say_forgotten();
  void set_conversation(const std::string& json);
  void say_ending(weft_stop stop) const;

  const ChatArgs& args_;
  ModelArgs model_args_;
  api::Model model_;
  weft_model_info info_;
  std::string name_;
  std::uint32_t context_;
  api::Session session_;
  api::Conversation conversation_;
  Pictures pictures_;
  bool interactive_;
  std::vector<api::Image> shown_;                    // with the next message
  std::vector<std::vector<api::Image>> shown_with_;  // each message so far
  std::size_t forgotten_ = 0;                        // messages, as the user knows
  std::string head_;
  double bandwidth_ = 0;  // GB/s; 0: not measured yet
};

}  // namespace weft::cli
