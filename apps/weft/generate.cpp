// weft generate: one prompt, one continuation.
#include <charconv>
#include <iostream>

#include "common.h"

namespace weft::cli {
namespace {

struct GenerateArgs {
  ModelArgs model;
  weft_sampling sampling{};
  const CLI::App* command = nullptr;
  std::optional<std::string> text, ids;
  std::string restore, save;
  std::string head = "full";
  GrammarArgs grammar;
  std::uint32_t tokens = 128;
  bool json = false;
};

// "1,147,201" -> ids. The vocabulary is not known yet; check_ids does the rest.
std::vector<std::uint32_t> parse_ids(std::string_view list) {
  std::vector<std::uint32_t> ids;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string_view item = list.substr(at, comma - at);
    std::uint32_t id = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (error != std::errc() || end != item.data() + item.size()) {
      throw UsageError("--prompt-ids",
                       format("item %zu, \"%s\", is not a token id", ids.size() + 1, std::string(item).c_str()));
    }
    ids.push_back(id);
    at = comma + 1;
  }
  return ids;
}

void check_ids(const std::vector<std::uint32_t>& ids, std::uint32_t vocab_size) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocab_size) {
      throw UsageError("--prompt-ids",
                       format("item %zu, %u, is not below the vocabulary's %u", i + 1, ids[i], vocab_size));
    }
  }
}

void check_length(const GenerateArgs& args, const std::vector<std::uint32_t>& prompt, std::uint32_t context) {
  const char* option = args.text ? "-p" : args.ids ? "--prompt-ids" : "--restore";
  if (prompt.empty()) throw UsageError(option, "the prompt is empty");
  if (prompt.size() >= context) {
    throw UsageError(
        option, format("the prompt's %zu tokens and one more do not fit into a context of %u", prompt.size(), context));
  }
}

void generate(const GenerateArgs& args) {
  const bool restored = !args.restore.empty();
  if (args.text && args.ids) throw UsageError("-p, --prompt-ids", "give one of them, not both");
  if (!args.text && !args.ids && !restored) throw UsageError("-p, --prompt-ids", "one of them is needed");
  std::vector<std::uint32_t> prompt;
  if (args.ids) prompt = parse_ids(*args.ids);
  if (args.text) require_utf8("-p", *args.text);

  const api::Model model = load_model(args.model);
  const weft_model_info info = model.info();
  if (args.ids) check_ids(prompt, info.vocab_size);
  if (args.text) prompt = model.tokenize(*args.text, !restored);
  const std::uint32_t context = session_context(args.model, info);

  api::Session session(model, context);
  set_head(session, "--head", args.head);
  set_grammar(session, args.grammar);
  if (restored) {
    session.restore(args.restore);
    const std::vector<std::uint32_t> before = session.ids();
    prompt.insert(prompt.begin(), before.begin(), before.end());
  }
  check_length(args, prompt, context);
  if (!restored || sampling_given(args.command)) session.set_sampling(args.sampling);
  if (args.text || args.ids) session.prompt(prompt);
  std::vector<std::uint32_t> ids;
  std::string text;
  session.generate(args.tokens, [&](std::uint32_t id, std::string_view piece) {
    ids.push_back(id);
    text += piece;
    if (!args.json) std::cout << piece << std::flush;
    return static_cast<bool>(std::cout);
  });

  if (!args.save.empty()) session.save(args.save);
  const weft_stats stats = session.stats();
  const Rates speed = rates(weft_stats{}, stats, ids.size());
  if (!args.json) {
    std::cout << std::endl;
    std::cerr << stats_line(speed, args.head, stats, 0) << '\n';
    return;
  }
  print_json({{"prompt_ids", prompt},
              {"ids", ids},
              {"text", text},
              {"device", info.device},
              {"driver", info.driver},
              {"type", info.type},
              {"load_s", info.load_seconds},
              {"first_token_s", stats.first_token_seconds},
              {"prompt_tokens_per_s", speed.prompt_tokens_per_s},
              {"reused_tokens", stats.reused_tokens},
              {"decode_tokens_per_s", speed.decode_tokens_per_s},
              {"head", head_json(args.head, speed)},
              {"stages", stages_json(stats)},
              {"readback_bytes_per_token", speed.readback_bytes_per_token},
              {"device_bytes", device_bytes_json(info, stats)}});
}

}  // namespace

void add_generate(CLI::App& app) {
  auto args = std::make_shared<GenerateArgs>();
  CLI::App* command = app.add_subcommand("generate", "Continue one prompt");
  add_model_options(command, args->model);
  add_ctx_option(command, args->model);
  command->add_option("-p", args->text, "the text to continue; begin-of-text is put first if the model wants it")
      ->type_name("TEXT");
  command->add_option("--prompt-ids", args->ids, "token ids to continue, as they are: 1,147,201")->type_name("IDS");
  command->add_option("-n", args->tokens, "tokens to generate at most")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(1));
  add_restore_option(command, args->restore);
  command->add_option("--save", args->save, "when done, save the session, for --restore")->type_name("FILE");
  add_head_option(command, args->head);
  add_sampling_options(command, args->sampling);
  add_grammar_options(command, args->grammar);
  add_json_option(command, args->json);
  args->command = command;
  command->callback([args] { generate(*args); });
}

}  // namespace weft::cli
