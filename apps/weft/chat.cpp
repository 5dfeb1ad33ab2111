// weft chat: a person types, the model answers.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <random>

#include "common.h"
#include "conversation.h"
#include "images.h"
#include "line_reader.h"

namespace weft::cli {
namespace {

struct ChatArgs {
  ModelArgs model;
  weft_sampling sampling = weft_sampling_default();
  const CLI::App* command = nullptr;
  std::string system, restore;
  std::string head = "full";
  SpeculateArgs speculate;
  GrammarArgs grammar;
  SteeringArgs steering;
  ImageArgs images;
  std::uint32_t tokens = 512;
};

// Ctrl-C. While an answer is generated it ends the answer, and a second one the program: a device that hangs would keep
// it. Else, with input from a pipe, it ends the program as usual; at a terminal's prompt the line editor sees to it,
// and there is nothing to do in between.
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

void handle_interrupts(bool interactive) {
  leave_on_interrupt = !interactive;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

constexpr const char* kHelp =
    "/reset   forget the conversation\n"
    "/stats   show how long this conversation took, and where\n"
    "/save    /save FILE writes the conversation, and all that is computed of it, to a file\n"
    "/load    /load FILE continues a saved conversation\n"
    "/head    show which rows of the vocabulary table are read; /head HEAD changes it, as --head does\n"
    "/set     /set OPTIONS changes sampling, bias and stop options for later answers; an option that is not given\n"
    "         gets the value that the chat started with\n"
    "/image   /image FILE shows a picture with the next message, as --image does with the first\n"
    "/help    show this list\n"
    "/quit    leave; Ctrl-D does the same\n"
    "Ctrl-C stops an answer. Ctrl-C twice leaves.\n";

class Chat {
 public:
  explicit Chat(const ChatArgs& args)
      : args_(args),
        model_(load_model(args.model, Load::begin)),
        info_(model_.info()),
        context_(session_context(args.model, info_)),
        session_(model_, context_, parse_type(args.model.kv), parse_policy(args.model.policy)),
        conversation_(model_, context_, args.system),
        pictures_(model_, args.model, args.images) {
    if (info_.reads_prompt_apart)
      throw api::Failure(WEFT_UNSUPPORTED, "an encoder-decoder cannot chat: it answers each text alone", "model",
                         "weft generate uses it");
    set_grammar(session_, args.grammar);
    if (!args.restore.empty()) restore(args.restore);
    set_steering(session_, args.steering);
    if (args.restore.empty() || sampling_given(args.command)) set_sampling(args.sampling, *args.command);
    choose_head("--head", args.head);
    set_speculation(session_, args.speculate, args.model);
    shown_ = pictures_.encode_all();
  }

  void run() {
    handle_interrupts(reader_.interactive());
    greet();
    std::string line;
    for (bool interrupted = false;;) {
      const LineReader::Event event = reader_.read(line);
      if (event == LineReader::Event::end) return;
      if (event == LineReader::Event::interrupt) {
        if (interrupted) return;
        interrupted = true;
        std::cerr << "Ctrl-C again or Ctrl-D leaves.\n";
        continue;
      }
      interrupted = false;
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      if (line == "/quit" || line == "/exit") return;
      if (line.front() == '/') {
        command(line);
      } else {
        turn(line);
      }
    }
  }

 private:
  // command: where --seed may have been given.
  void set_sampling(weft_sampling sampling, const CLI::App& command) {
    if (command.get_option("--seed")->count() == 0 && args_.command->get_option("--seed")->count() == 0) {
      std::random_device random;
      sampling.seed = (std::uint64_t{random()} << 32) | random();
    }
    session_.set_sampling(sampling);
  }

  // As if the chat had begun with these options too.
  void set(const std::string& options) {
    weft_sampling sampling = args_.sampling;
    SteeringArgs steering = args_.steering;
    CLI::App parser;
    parser.set_help_flag();
    add_sampling_options(&parser, sampling);
    add_steering_options(&parser, steering);
    try {
      parser.parse(options);
      set_steering(session_, steering, true);
      set_sampling(sampling, parser);
    } catch (const CLI::ParseError& error) {
      print_error("/set", error.what());
    } catch (const UsageError& error) {
      print_error(error.option(), error.what(), error.hint());
    }
  }

  void restore(const std::string& path) {
    const std::string note = session_.restore(path);
    try {
      conversation_.read_note(note);
    } catch (const api::Failure&) {
      session_.reset();
      throw;
    }
    std::cerr << format("The conversation of %s goes on: %u tokens.\n", path.c_str(), session_.stats().context_used);
  }

  void greet() {
    if (!conversation_.templated()) {
      std::cerr << "This model has no chat template: it continues your text.\n";
      if (!args_.system.empty()) std::cerr << "The system message of -s is not used.\n";
    }
    if (reader_.interactive()) {
      std::cerr << format("%s %s on %s. /help lists the commands.\n", info_.family, info_.type, info_.device);
    }
  }

  void command(const std::string& line) {
    if (line == "/reset") {
      session_.reset();
      conversation_.reset();
      shown_.clear();
      std::cerr << "The conversation is forgotten.\n";
    } else if (line == "/stats") {
      print_stats();
    } else if (line == "/head" || line.starts_with("/head ")) {
      show_head(line.substr(5));
    } else if (line == "/set" || line.starts_with("/set ")) {
      set(line.substr(4));
    } else if (line.starts_with("/image ")) {
      show_picture(line.substr(7));
    } else if (line.starts_with("/save ") || line.starts_with("/load ")) {
      save_or_load(line.substr(0, 5), line.substr(6));
    } else if (line == "/help") {
      std::cerr << kHelp;
    } else {
      std::cerr << "There is no command " << line << "; /help lists them.\n";
    }
  }

  void show_picture(const std::string& path) {
    try {
      shown_.push_back(pictures_.encode(path));
      std::cerr << format("%s goes with the next message: %zu tokens.\n", path.c_str(), shown_.back().tokens());
    } catch (const api::Failure& error) {
      if (error.status() == WEFT_DEVICE_LOST) throw;
      print_error(error.place(), error.sentence(), error.hint());
    }
  }

  void save_or_load(const std::string& command, const std::string& path) {
    try {
      if (command == "/load") return restore(path);
      session_.save(path, conversation_.note());
      std::cerr << format("The conversation is in %s.\n", path.c_str());
    } catch (const api::Failure& error) {
      print_error(error.place(), error.sentence(), error.hint());
    }
  }

  void choose_head(const char* option, const std::string& head) {
    set_head(session_, option, head);
    head_ = head;
  }

  void show_head(const std::string& argument) {
    const std::size_t first = argument.find_first_not_of(" \t");
    if (first != std::string::npos) {
      const std::size_t last = argument.find_last_not_of(" \t");
      try {
        choose_head("/head", argument.substr(first, last - first + 1));
      } catch (const UsageError& error) {
        print_error(error.option(), error.what(), error.hint());
      }
    }
    std::cerr << "The head is " << head_ << ".\n";
  }

  // Mistakes in what was typed cost a sentence, not the conversation; what the device did wrong ends the program.
  void turn(const std::string& line) {
    std::vector<std::uint32_t> ids;
    try {
      require_utf8("input", line);
      bool dropped = false;
      ids = conversation_.ask(line, &dropped, shown_);
      shown_.clear();
      if (dropped) std::cerr << "[the context is full: the oldest turns are forgotten]\n";
    } catch (const UsageError& error) {
      return print_error(error.option(), error.what());
    } catch (const api::Failure& error) {
      if (error.status() != WEFT_CONTEXT_FULL) throw;
      return print_error(error.place(), error.sentence(), error.hint());
    }
    answer(ids);
  }

  void answer(const std::vector<std::uint32_t>& ids) {
    const weft_stats before = session_.stats();
    const weft_speculation_stats guessed = session_.speculation_stats();
    const std::vector<api::Image> images = conversation_.images();
    if (images.empty())
      session_.prompt(ids);
    else
      api::prompt(session_, ids, pictures_.token(), images);
    std::string text;
    std::uint64_t tokens = 0;
    interrupted_answer = false;
    answering = session_.get();
    const auto done = [](void*) { answering = nullptr; };
    const std::unique_ptr<void, decltype(done)> guard(this, done);
    const weft_stop stop = session_.generate(args_.tokens, [&](std::uint32_t id, std::string_view piece) {
      if (id != WEFT_NO_TOKEN) ++tokens;
      text += piece;
      std::cout << piece << std::flush;
      return static_cast<bool>(std::cout);
    });
    answering = nullptr;
    std::cout << std::endl;
    conversation_.answered(text, stop == WEFT_STOP_TOKEN);
    if (stop == WEFT_STOP_CALLER) std::cerr << "[stopped]\n";
    if (stop == WEFT_STOP_CONTEXT) std::cerr << "[the context is full: the answer ends here]\n";
    if (bandwidth_ == 0) bandwidth_ = model_.measure_bandwidth();  // after the first answer, which it would delay
    const weft_stats after = session_.stats();
    const weft_speculation_stats all = session_.speculation_stats();
    const weft_speculation_stats guesses = {all.passes - guessed.passes, all.drafted_tokens - guessed.drafted_tokens,
                                            all.accepted_tokens - guessed.accepted_tokens};
    const Rates speed = rates(before, after, tokens);
    std::cerr << stats_line(speed, head_, after, bandwidth_) << speculation_text(guesses, speed) << '\n';
  }

  void print_stats() {
    const weft_stats stats = session_.stats();
    const auto count = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    const auto bytes = [](std::uint64_t value) { return human_bytes(static_cast<double>(value)); };
    std::cerr << format("context   %u of %u tokens\n", stats.context_used, context_)
              << format("prompt    %llu tokens in %.2f s\n", count(stats.prompt_tokens), stats.prompt_seconds)
              << format("reused    %llu tokens of prompts\n", count(stats.reused_tokens))
              << format("decode    %llu tokens in %.2f s\n", count(stats.decoded_tokens), stats.decode_seconds)
              << format("reading   %s/token, %.2f GB/s", bytes(info_.bytes_per_token).c_str(),
                        stats.read_gigabytes_per_second)
              << (bandwidth_ > 0 ? format("; a kernel that only reads reaches %.2f GB/s\n", bandwidth_) : "\n")
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

  const ChatArgs& args_;
  api::Model model_;
  weft_model_info info_;
  std::uint32_t context_;
  api::Session session_;
  Conversation conversation_;
  Pictures pictures_;
  std::vector<api::Image> shown_;  // with the next message
  LineReader reader_;
  std::string head_;
  double bandwidth_ = 0;  // GB/s; 0: not measured yet
};

}  // namespace

void add_chat(CLI::App& app) {
  auto args = std::make_shared<ChatArgs>();
  CLI::App* command = app.add_subcommand("chat", "Talk with a model; each line of piped input is a turn");
  command->footer(std::string("While chatting:\n") + kHelp);
  add_model_options(command, args->model);
  add_devices_option(command, args->model);
  add_ctx_option(command, args->model);
  add_kv_option(command, args->model);
  add_policy_option(command, args->model);
  command->add_option("-s,--system", args->system, "system message at the start of the conversation")
      ->type_name("TEXT");
  command->add_option("-n", args->tokens, "most tokens of an answer; 0: as many as fit")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(0));
  add_restore_option(command, args->restore);
  add_head_option(command, args->head);
  add_speculate_options(command, args->speculate);
  add_sampling_options(command, args->sampling);
  add_steering_options(command, args->steering);
  add_grammar_options(command, args->grammar);
  add_image_options(command, args->images);
  args->command = command;
  command->get_option("--seed")->default_str("random");
  command->callback([args] {
    require_utf8("-s", args->system);
    Chat(*args).run();
  });
}

}  // namespace weft::cli
