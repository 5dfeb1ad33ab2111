// weft chat: a person types, the model answers; or one question is answered.
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>

#include "common.h"
#include "hearing.h"
#include "line_reader.h"
#include "suggest.h"
#include "talk.h"
#include "terminal_text.h"

namespace weft::cli {
namespace {

// Writes to the person, with lines broken between words.
void tell(const std::string& text) { std::cerr << TerminalText().add(text, terminal_columns()); }

class Chat;

struct Command {
  const char* name;
  const char* argument;  // "FILE"; "[TEXT]" may be left out; "" takes none
  const char* help;
  void (Chat::*run)(const std::string& argument);
};

// The limit of the device's time for both models. Without --duty, --policy and /duty nothing uses it.
class CommonDuty {
 public:
  explicit CommonDuty(const ChatArgs& args)
      : used_(args.duty < 100 || parse_policy(args.model.policy) == WEFT_POLICY_POLITE) {
    set(args.duty);
  }
  const api::Duty* get() const { return used_ ? &duty_ : nullptr; }
  void set(std::uint32_t percent) { duty_.set_share(static_cast<float>(percent_ = percent) / 100); }
  void use() { used_ = true; }
  std::uint32_t percent() const { return percent_; }

 private:
  api::Duty duty_;
  std::uint32_t percent_ = 100;
  bool used_;
};

// Reads messages and commands line by line.
class Chat {
 public:
  // ear: nullptr without --listen.
  Chat(const ChatArgs& args, Ear* ear, CommonDuty& duty)
      : args_(args),
        ear_(ear),
        duty_(duty),
        settings_(args.settings),
        talk_(std::make_unique<Talk>(args, args.model.model, settings_.head, true, duty.get())),
        reader_([this](const std::string& line) { return completions(line); }) {
    talk_->begin();
    saved_sampling_ = !args.restore.empty() && !sampling_given(args.command);
  }

  void run();
  void run_by_voice();  // what is said on stdin between pauses is a message
  static std::string help();

 private:
  static const std::vector<Command>& commands();
  void command(const std::string& line);
  void guarded(const std::function<void()>& work);
  std::vector<std::string> completions(const std::string& line) const;

  void regenerate(const std::string&) {
    guarded([&] { talk_->regenerate(); });
  }
  void go_on(const std::string&) {
    guarded([&] { talk_->go_on(); });
  }
  void edit(const std::string& text);
  void undo(const std::string&);
  void reset(const std::string&);
  void save(const std::string& path);
  void load(const std::string& path);
  void model(const std::string& name);
  void set(const std::string& options);
  void head(const std::string& name);
  void image(const std::string& path) {
    guarded([&] { talk_->show_picture(path); });
  }
  void listen(const std::string& path);
  void thoughts(const std::string&) { talk_->show_thoughts(); }
  void duty(const std::string& percent);
  void stats(const std::string&);
  void show_help(const std::string&) { tell(help()); }
  void quit(const std::string&) { leave_ = true; }

  const ChatArgs& args_;
  Ear* ear_;
  CommonDuty& duty_;
  TalkSettings settings_;
  std::unique_ptr<Talk> talk_;
  LineReader reader_;
  bool leave_ = false;
  bool saved_sampling_ = false;  // the session has that of a saved one, until /set changes it
};

const std::vector<Command>& Chat::commands() {
  static const std::vector<Command> all = {
      {"/regenerate", "", "answer the last question anew", &Chat::regenerate},
      {"/continue", "", "go on with an answer that was cut or stopped", &Chat::go_on},
      {"/edit", "[TEXT]", "change the last question, or make it TEXT, and answer it", &Chat::edit},
      {"/undo", "", "take the last question and its answer back", &Chat::undo},
      {"/reset", "", "forget the conversation", &Chat::reset},
      {"/save", "FILE", "write the conversation, and all that is computed of it, to a file", &Chat::save},
      {"/load", "FILE", "continue a saved conversation", &Chat::load},
      {"/model", "[NAME]", "show the model, or go on with another one: a name, a file or a folder", &Chat::model},
      {"/set", "[OPTIONS]", "show what is set, or change sampling, bias and stop options for later answers",
       &Chat::set},
      {"/head", "[HEAD]", "show which rows of the vocabulary table are read, or change it, as --head does",
       &Chat::head},
      {"/image", "FILE", "show a picture with the next message, as --image does with the first", &Chat::image},
      {"/listen", "FILE", "ask what is said in a recording; with --listen", &Chat::listen},
      {"/thoughts", "", "show what the model thought before its last answer", &Chat::thoughts},
      {"/duty", "[PERCENT]", "show how much of the time the device may be busy, or change it, as --duty does",
       &Chat::duty},
      {"/stats", "", "show how long this conversation took, and where", &Chat::stats},
      {"/help", "", "show this list", &Chat::show_help},
      {"/quit", "", "leave; Ctrl-D does the same", &Chat::quit},
  };
  return all;
}

std::string Chat::help() {
  std::string text;
  for (const Command& command : commands())
    text += format("%-18s %s\n", (std::string(command.name) + " " + command.argument).c_str(), command.help);
  return text + "Ctrl-C stops an answer. Ctrl-C twice leaves.\n";
}

void Chat::run() {
  handle_interrupts(reader_.interactive());
  if (reader_.interactive())
    std::cerr << format("%s on %s. /help lists the commands.\n", talk_->name().c_str(), talk_->info().device);
  std::string line;
  for (bool interrupted = false; !leave_;) {
    const LineReader::Event event = reader_.read(line);
    if (event == LineReader::Event::end) return;
    if (event == LineReader::Event::interrupt) {
      if (interrupted) return;
      interrupted = true;
      std::cerr << "Ctrl-C again or Ctrl-D leaves.\n";
      continue;
    }
    interrupted = false;
    if (line.find_first_not_of(" \t\n") == std::string::npos) continue;
    if (line.front() == '/') {
      command(line);
    } else {
      guarded([&] {
        require_utf8("input", line);
        talk_->ask(line);
      });
    }
  }
}

// Shows what was heard, as a person would have typed it.
void show_heard(const std::string& text) {
  std::cerr << (text.empty() ? "[nothing was understood]" : "> " + text) << '\n';
}

void Chat::run_by_voice() {
  handle_interrupts(false);
  ear_->hear_each([&](const std::string& text) {
    show_heard(text);
    if (!text.empty()) guarded([&] { talk_->ask(text); });
  });
}

void Chat::listen(const std::string& path) {
  guarded([&] {
    if (!ear_)
      throw UsageError("/listen", "the chat has no model that hears", "begin it with --listen and a Whisper model");
    const std::string text = ear_->hear(path);
    show_heard(text);
    if (!text.empty()) talk_->ask(text);
  });
}

void Chat::duty(const std::string& percent) {
  if (!percent.empty()) {
    std::uint32_t changed = 0;
    CLI::App parser;
    add_duty_option(&parser, changed);
    try {
      parser.parse("--duty " + percent);
    } catch (const CLI::ParseError& error) {
      return print_error("/duty", error.what());
    }
    duty_.set(changed);
    duty_.use();
    talk_->use_duty(*duty_.get());
    if (ear_) ear_->use_duty(*duty_.get());
  }
  std::cerr << format("The device may be busy for %u%% of the time", duty_.percent())
            << (duty_.get() ? format("; it was for %.3f s.\n", duty_.get()->busy_seconds()) : ".\n");
}

void Chat::stats(const std::string&) {
  talk_->print_stats();
  if (!ear_) return;
  const weft_model_info info = ear_->info();
  const auto bytes = [](std::uint64_t value) { return human_bytes(static_cast<double>(value)); };
  std::cerr << format("listener  %s: vocab %s, layers %s, in all %s\n", info.family, bytes(info.vocab_bytes).c_str(),
                      bytes(info.layer_bytes).c_str(), bytes(info.device_bytes).c_str());
}

// Mistakes in what was typed cost a sentence, not the conversation; a lost device ends the program.
void Chat::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& error) {
    print_error(error.option(), error.what(), error.hint());
  } catch (const api::Failure& error) {
    if (error.status() == WEFT_DEVICE_LOST || error.status() == WEFT_CANCELLED) throw;
    print_error(error.place(), error.sentence(), error.hint());
  }
}

void Chat::command(const std::string& line) {
  const std::size_t space = std::min(line.find_first_of(" \t"), line.size());
  const std::string name = line.substr(0, space) == "/exit" ? "/quit" : line.substr(0, space);
  const std::size_t first = std::min(line.find_first_not_of(" \t", space), line.size());
  const std::string argument = line.substr(first, line.find_last_not_of(" \t") + 1 - first);
  const auto found = std::ranges::find_if(commands(), [&](const Command& command) { return command.name == name; });
  if (found == commands().end()) {
    std::vector<std::string> names;
    for (const Command& command : commands()) names.emplace_back(command.name);
    const std::string meant = did_you_mean(nearest(name, names));
    std::cerr << "There is no command " << name << (meant.empty() ? "; " : ": " + meant + " ") << "/help lists them.\n";
    return;
  }
  const std::string_view takes = found->argument;
  if (takes.empty() && !argument.empty())
    std::cerr << name << " takes nothing after it.\n";
  else if (!takes.empty() && takes.front() != '[' && argument.empty())
    std::cerr << format("%s needs a file: %s %s\n", found->name, found->name, found->argument);
  else
    (this->*found->run)(argument);
}

void Chat::edit(const std::string& text) {
  const std::optional<std::string> question = talk_->undo();
  if (!question) return;
  if (!text.empty() || !reader_.interactive()) {
    guarded([&] {
      require_utf8("/edit", text);
      talk_->ask(text.empty() ? *question : text);
    });
  } else {
    reader_.prefill(*question);
  }
}

void Chat::undo(const std::string&) {
  if (const std::optional<std::string> question = talk_->undo())
    std::cerr << "Taken back: " << question->substr(0, question->find('\n')) << '\n';
}

void Chat::reset(const std::string&) {
  talk_->reset();
  std::cerr << "The conversation is forgotten.\n";
}

void Chat::save(const std::string& path) {
  guarded([&] {
    talk_->save(path);
    std::cerr << format("The conversation is in %s.\n", path.c_str());
  });
}

void Chat::load(const std::string& path) {
  guarded([&] {
    talk_->restore(path);
    saved_sampling_ = true;
  });
}

void Chat::model(const std::string& name) {
  if (!name.empty()) {
    guarded([&] {
      auto other = std::make_unique<Talk>(args_, name, settings_.head, true, duty_.get());
      other->apply(settings_);
      other->adopt(*talk_);
      talk_ = std::move(other);
      saved_sampling_ = false;
    });
  }
  std::cerr << format("The model is %s on %s: context %u tokens.\n", talk_->name().c_str(), talk_->info().device,
                      talk_->context());
}

void Chat::set(const std::string& options) {
  TalkSettings changed = settings_;
  CLI::App parser;
  parser.set_help_flag();
  add_sampling_options(&parser, changed.sampling);
  add_steering_options(&parser, changed.steering);
  if (options.empty()) {
    if (saved_sampling_) std::cerr << "Until one is set, the saved conversation's values are used instead of:\n";
    for (const CLI::Option* option : parser.get_options())
      if (!option->get_default_str().empty())
        std::cerr << format("%-20s %s\n", option->get_name().c_str(), option->get_default_str().c_str());
    for (const std::string& bias : changed.steering.biases) std::cerr << "--logit-bias         " << bias << '\n';
    for (const std::string& stop : changed.steering.stops) std::cerr << "--stop               " << stop << '\n';
    tell("/set --temperature 0.2 changes one; /set default takes all back.\n");
    return;
  }
  try {
    if (options == "default") {
      changed.sampling = args_.settings.sampling;
      changed.steering = args_.settings.steering;
    } else {
      parser.parse(options);
    }
  } catch (const CLI::ParseError& error) {
    return print_error("/set", error.what());
  }
  guarded([&] {
    talk_->apply(changed);
    settings_ = changed;
    saved_sampling_ = false;
  });
}

void Chat::head(const std::string& name) {
  if (!name.empty()) {
    guarded([&] {
      talk_->apply_head("/head", name);
      settings_.head = name;
    });
  }
  std::cerr << "The head is " << settings_.head << ".\n";
}

// Completions of the line up to the cursor, each as a whole line.
std::vector<std::string> Chat::completions(const std::string& line) const {
  if (line.empty() || line.front() != '/') return {};
  const std::size_t space = line.find(' ');
  std::vector<std::string> found;
  if (space == std::string::npos) {
    for (const Command& command : commands())
      if (std::string(command.name).starts_with(line))
        found.push_back(command.name + std::string(*command.argument ? " " : ""));
    return found;
  }
  const std::string name = line.substr(0, space);
  if (name == "/save" || name == "/load" || name == "/image" || name == "/listen" || name == "/model") {
    for (const std::string& path : paths_that_begin(line.substr(space + 1))) found.push_back(name + " " + path);
  } else if (name == "/set") {
    const std::size_t word = line.rfind(' ') + 1;
    TalkSettings unused;
    CLI::App parser;
    add_sampling_options(&parser, unused.sampling);
    add_steering_options(&parser, unused.steering);
    parser.set_help_flag();
    for (const CLI::Option* option : parser.get_options())
      if (option->get_name().starts_with(line.substr(word)))
        found.push_back(line.substr(0, word) + option->get_name() + " ");
  }
  return found;
}

std::string without_line_feeds(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

// Bytes are waiting in a pipe or a file.
bool stdin_has_bytes() {
  struct stat kind = {};
  if (::fstat(STDIN_FILENO, &kind) != 0 || !(S_ISFIFO(kind.st_mode) || S_ISREG(kind.st_mode))) return false;
  if (S_ISREG(kind.st_mode)) return kind.st_size > 0;
  int waiting = 0;
  return ::ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0;
}

std::string read_stdin() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  require_utf8("stdin", text);
  return without_line_feeds(std::move(text));
}

// The message of the command line: the files, then the words. Nothing: lines are read.
// With an ear, words and stdin are recordings.
std::optional<std::string> message(const ChatArgs& args, Ear* ear) {
  const bool given = !args.words.empty() || !args.files.empty();
  if (args.lines && given) throw UsageError("--lines", "it reads messages from stdin, and one is given");
  if (args.lines || (!given && isatty(STDIN_FILENO) == 1)) return std::nullopt;
  std::string text;
  for (const std::string& file : args.files) {
    const std::string part = file == "-" ? read_stdin() : read_text(file);
    if (file != "-") require_utf8("-f " + file, part);
    text += without_line_feeds(part) + "\n\n";
  }
  if (ear) {
    for (const std::string& path : given ? args.words : std::vector<std::string>{"-"}) {
      const std::string heard = ear->hear(path);
      show_heard(heard);
      text += heard + '\n';
    }
  } else if (!given || args.words == std::vector<std::string>{"-"}) {
    text += read_stdin();
  } else {
    for (std::size_t i = 0; i < args.words.size(); ++i) text += (i > 0 ? " " : "") + args.words[i];
    require_utf8("MESSAGE", text);
    if (args.files.empty() && stdin_has_bytes()) std::cerr << "[stdin is not read: -f - puts it before the message]\n";
  }
  text = without_line_feeds(std::move(text));
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw UsageError("MESSAGE", "the message is empty");
  return text;
}

void chat(ChatArgs& args) {
  require_utf8("-s", args.system);
  if (args.command->get_option("--seed")->count() == 0) {
    std::random_device random;
    args.settings.sampling.seed = (std::uint64_t{random()} << 32) | random();
  }
  CommonDuty duty(args);
  std::optional<Ear> ear;
  if (!args.listen.empty()) {
    ear.emplace(args.model, args.listen);
    if (duty.get()) ear->use_duty(*duty.get());
    if (std::uint64_t& budget = args.model.memory_budget; budget > 0)  // the rest is the other model's
      budget = std::max<std::uint64_t>(budget - std::min(budget, ear->info().device_bytes), 1);
  }
  const std::optional<std::string> question = message(args, ear ? &*ear : nullptr);
  if (!question && ear && args.lines) return Chat(args, &*ear, duty).run_by_voice();
  if (!question) return Chat(args, ear ? &*ear : nullptr, duty).run();
  Talk talk(args, args.model.model, args.settings.head, false, duty.get());
  talk.begin();
  handle_interrupts(false);
  talk.ask(*question);
  if (answer_was_interrupted())
    throw CLI::RuntimeError(kInterruptedStatus);  // a script must not go on with half a text
}

}  // namespace

void add_chat(CLI::App& app) {
  auto args = std::make_shared<ChatArgs>();
  CLI::App* command = app.add_subcommand("chat", "Talk with a model, or ask it one question");
  command->footer(
      "Examples:\n"
      "  weft chat                                          talk\n"
      "  weft chat \"What is the capital of France?\"         ask one question\n"
      "  weft chat -f letter.txt \"Summarise this.\"          ask about a file\n"
      "  git diff | weft chat -f - \"Review this change.\"    ask about what another program writes\n"
      "  weft chat - <letter.txt                            all of stdin is one message; - may be left out in a pipe\n"
      "  weft chat --listen whisper-base question.wav       ask what is said in a recording\n"
      "  arecord -t raw -f S16_LE -r 16000 | weft chat --listen whisper-base --lines    talk by voice\n"
      "While talking:\n" +
      Chat::help());
  command
      ->add_option("MESSAGE", args->words,
                   "a question to answer; -: all of stdin; nothing: talk, or with piped input as -")
      ->type_name("");
  command
      ->add_option("-f,--file", args->files,
                   "a text file that comes before MESSAGE; -: stdin; may be given several times")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_flag("--lines", args->lines,
                    "each line of piped input is a message or a command; with --listen, what is said between pauses");
  command
      ->add_option("--listen", args->listen,
                   "a Whisper model that hears: MESSAGE is a recording, and piped input is one, or samples as for weft "
                   "listen")
      ->type_name("WHISPER");
  add_model_options(command, args->model);
  add_devices_option(command, args->model);
  add_ctx_option(command, args->model);
  add_kv_options(command, args->model);
  add_policy_option(command, args->model);
  add_duty_option(command, args->duty);
  command->add_option("-s,--system", args->system, "system message at the start of the conversation")
      ->type_name("TEXT");
  command->add_option("-n,--max-tokens", args->tokens, "most tokens of an answer; 0: as many as fit")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(0));
  add_think_option(command, args->think);
  add_stats_option(command, args->stats);
  add_restore_option(command, args->restore);
  add_head_option(command, args->settings.head);
  add_speculate_options(command, args->speculate);
  add_lora_option(command, args->lora);
  add_sampling_options(command, args->settings.sampling);
  add_steering_options(command, args->settings.steering);
  add_grammar_options(command, args->grammar);
  add_image_options(command, args->images);
  args->command = command;
  command->get_option("--seed")->default_str("random");
  command->callback([args] { chat(*args); });
}

}  // namespace weft::cli
