// weft generate: one prompt, one continuation.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iostream>

#include "common.h"
#include "images.h"
#include "lens.h"
#include "progress_bar.h"
#include "terminal_text.h"

namespace weft::cli {
namespace {

struct GenerateArgs {
  ModelArgs model;
  weft_sampling sampling = weft_sampling_default();
  const CLI::App* command = nullptr;
  std::optional<std::string> text, ids;
  std::string restore, save;
  std::string head = "full";
  SpeculateArgs speculate;
  std::string lora;
  GrammarArgs grammar;
  SteeringArgs steering;
  ImageArgs images;
  std::uint32_t logprobs = 0;
  std::uint32_t tokens = 128;
  bool json = false, lens = false, stats = false;
  std::string tuned;
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
                       format("item %zu is %u, the ids of the vocabulary are below %u", i + 1, ids[i], vocab_size));
    }
  }
}

// room: that must be left behind the prompt.
// more: tokens that stand for the pictures of the prompt, beyond those.
void check_length(const GenerateArgs& args, const std::vector<std::uint32_t>& prompt, std::size_t more,
                  std::uint32_t context, std::uint32_t room) {
  const char* option = args.text ? "-p" : args.ids ? "--prompt-ids" : "--restore";
  if (prompt.empty()) throw UsageError(option, "the prompt is empty");
  if (prompt.size() + more + room > context) {
    throw UsageError(option, format("the prompt's %zu tokens%s do not fit into a context of %u", prompt.size() + more,
                                    room ? " and one more" : "", context));
  }
}

// Ids of the text of -p, with the model's place of a picture where one belongs: at its beginning if the text does not
// say where.
std::vector<std::uint32_t> ids_with_images(const api::Model& model, const std::string& text, std::uint32_t token,
                                           std::size_t images) {
  std::vector<std::uint32_t> ids = model.tokenize(text, true, true);
  if (std::count(ids.begin(), ids.end(), token) > 0) return ids;
  std::string place = "<image>";
  for (const char* const other : {"<start_of_image>", "<|vision_start|><|image_pad|><|vision_end|>"}) {
    const std::vector<std::uint32_t> own = model.tokenize(other, false, true);
    if (std::count(own.begin(), own.end(), token) > 0) place = other;
  }
  std::string places;
  for (std::size_t i = 0; i < images; ++i) places += place;
  return model.tokenize(places + text, true, true);
}

Json token_json(const api::Model& model, std::uint32_t id, float logprob) {
  return {{"id", id}, {"text", model.detokenize({id})}, {"logprob", logprob}};
}

// The last token's log-probability, and the likeliest ones'.
Json logprobs_json(const api::Model& model, const api::Session& session, std::uint32_t id) {
  const api::Session::Logprobs known = session.logprobs();
  Json token = token_json(model, id, known.chosen);
  token["top"] = Json::array();
  for (const auto& [other, logprob] : known.likeliest) token["top"].push_back(token_json(model, other, logprob));
  return token;
}

// Returns the name that --json uses.
const char* stop_text(weft_stop stop) {
  switch (stop) {
    case WEFT_STOP_LENGTH:
      return "length";
    case WEFT_STOP_TOKEN:
      return "token";
    case WEFT_STOP_CONTEXT:
      return "context";
    case WEFT_STOP_CALLER:
      return "caller";
    case WEFT_STOP_GRAMMAR:
      return "grammar";
    case WEFT_STOP_STRING:
      return "string";
  }
  return "";
}

// Ends the text's line, and prints why the text is short or not an answer.
void say_ending(const GenerateArgs& args, weft_stop stop, const std::string& text, const weft_model_info& info,
                std::uint32_t context) {
  std::cout << std::endl;
  if (stop == WEFT_STOP_CONTEXT)
    std::cerr << format("[cut: the context of %u tokens is full; --ctx gives more room]\n", context);
  if (stop == WEFT_STOP_TOKEN && text.empty()) std::cerr << "[the model ended its text at once]\n";
  if (args.text && info.has_chat_template)
    std::cerr << "note: generate continues a text and applies no chat template; weft chat \"...\" asks this model\n";
}

void generate(const GenerateArgs& args) {
  const bool restored = !args.restore.empty();
  if (args.text && args.ids) throw UsageError("-p, --prompt-ids", "give one of them, not both");
  if (!args.text && !args.ids && !restored) throw UsageError("-p, --prompt-ids", "one of them is needed");
  if (!args.images.files.empty() && (!args.text || restored))
    throw UsageError("--image", "it requires -p, and no --restore");
  if (args.logprobs > 0 && !args.json) throw UsageError("--logprobs", "it requires --json");
  if (!args.tuned.empty() && !args.lens) throw UsageError("--tuned", "it requires --lens");
  std::vector<std::uint32_t> prompt;
  if (args.ids) prompt = parse_ids(*args.ids);
  if (args.text) require_utf8("-p", *args.text);

  const api::Model model = load_model(args.model, Load::begin);
  const weft_model_info info = model.info();
  if (args.ids) check_ids(prompt, info.vocab_size);
  const bool apart = info.reads_prompt_apart != 0;  // then what is generated does not stand after the prompt
  if (args.text) prompt = model.tokenize(*args.text, !restored || apart);
  const std::uint32_t context = session_context(args.model, info);

  api::Session session(model, session_options(args.model, context));
  set_lora(session, model, args.lora);
  set_head(session, "--head", args.head);
  session.set_sampling(args.sampling);  // before the guesses, which are tried with it
  set_speculation(session, args.speculate, args.model);
  set_grammar(session, args.grammar);
  if (!args.tuned.empty()) session.set_tuned_lens(args.tuned);
  if (restored) {
    session.restore(args.restore);
    const std::vector<std::uint32_t> before = session.ids();
    if (!apart || prompt.empty()) prompt.insert(prompt.begin(), before.begin(), before.end());
  }
  std::vector<api::Image> images;
  Pictures pictures(model, args.model, args.images);
  std::size_t tokens = 0;
  if (!args.images.files.empty()) {
    images = pictures.encode_all();
    prompt = ids_with_images(model, *args.text, pictures.token(), images.size());
    for (const api::Image& image : images) tokens += image.tokens() - 1;
  }
  check_length(args, prompt, tokens, context, apart ? 0 : 1);
  if (restored && sampling_given(args.command)) session.set_sampling(args.sampling);
  set_steering(session, args.steering);
  session.set_logprobs(args.logprobs);
  if (!images.empty())
    api::prompt(session, prompt, pictures.token(), images);
  else if (args.text || args.ids)
    session.prompt(prompt);
  if (!images.empty()) prompt = session.ids();
  const std::uint32_t begun = session.stats().context_used;
  std::vector<std::uint32_t> ids;
  std::string text;
  Json logprobs = Json::array();
  const PromptBar bar(session);
  TerminalText on_terminal;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const weft_stop stop = session.generate(args.tokens, [&](std::uint32_t id, std::string_view piece) {
    if (id != WEFT_NO_TOKEN) {
      ids.push_back(id);
      if (args.logprobs > 0) logprobs.push_back(logprobs_json(model, session, id));
    }
    text += piece;
    if (!args.json)
      std::cout << (terminal ? on_terminal.add(piece, terminal_columns()) : std::string(piece)) << std::flush;
    return static_cast<bool>(std::cout);
  });

  if (!args.json) say_ending(args, stop, text, info, context);
  if (!args.save.empty()) session.save(args.save);
  const weft_stats stats = session.stats();
  const Rates speed = rates(weft_stats{}, stats, ids.size());
  LensText lens;
  if (args.lens && stats.context_used > begun) lens = read_lens(model, session, begun - 1, stats.context_used - begun);
  if (!args.json) {
    if (!lens.cells.empty()) std::cout << '\n' << settled_table(lens);
    if (args.stats)
      std::cerr << stats_line(speed, args.head, stats, 0) << speculation_text(session.speculation_stats(), speed)
                << '\n';
    return;
  }
  Json result = {{"prompt_ids", prompt}, {"ids", ids}, {"text", text}, {"stop", stop_text(stop)}};
  if (args.logprobs > 0) result["logprobs"] = logprobs;
  if (args.lens) result["lens"] = settled_json(model, lens);
  result.update({{"device", info.device},
                 {"driver", info.driver},
                 {"type", info.type},
                 {"load_s", info.load_seconds},
                 {"first_token_s", stats.first_token_seconds},
                 {"prompt_tokens_per_s", speed.prompt_tokens_per_s},
                 {"reused_tokens", stats.reused_tokens},
                 {"decode_tokens_per_s", speed.decode_tokens_per_s},
                 {"head", head_json(args.head, speed)},
                 {"speculation", speculation_json(args.speculate.name(), session.speculation_stats(), speed)},
                 {"stages", stages_json(stats)},
                 {"readback_bytes_per_token", speed.readback_bytes_per_token},
                 {"device_bytes", device_bytes_json(info, stats)}});
  print_json(result);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto args = std::make_shared<GenerateArgs>();
  CLI::App* command = app.add_subcommand("generate", "Continue one prompt");
  add_model_options(command, args->model);
  add_devices_option(command, args->model);
  add_ctx_option(command, args->model);
  add_kv_options(command, args->model);
  add_policy_option(command, args->model);
  command
      ->add_option(
          "-p,--prompt", args->text,
          "text to continue, or to answer with an encoder-decoder such as T5; the begin-of-text token is added if the\n"
          "model uses one")
      ->type_name("TEXT");
  command->add_option("--prompt-ids", args->ids, "token ids to continue, for example 1,147,201; nothing is added")
      ->type_name("IDS");
  command->add_option("-n,--max-tokens", args->tokens, "most tokens to generate")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(1));
  add_restore_option(command, args->restore);
  command->add_option("--save", args->save, "save the session to a file at the end; --restore continues it")
      ->type_name("FILE");
  add_head_option(command, args->head);
  add_speculate_options(command, args->speculate);
  add_lora_option(command, args->lora);
  add_sampling_options(command, args->sampling);
  add_steering_options(command, args->steering);
  command
      ->add_option("--logprobs", args->logprobs,
                   "with --json: add the log-probability of each token and of the K likeliest tokens, before bias,\n"
                   "penalties, temperature and filters; every head then reads all of its rows")
      ->type_name("K")
      ->transform(whole(1, WEFT_MAX_LOGPROBS));
  command->add_flag(
      "--lens", args->lens,
      "afterwards, tell at which layer each token was settled: the first one from which on the logit lens\n"
      "finds it the likeliest; before bias, penalties, temperature, filters and grammar");
  command
      ->add_option("--tuned", args->tuned,
                   "with --lens: translate the states first, as weft lens --tuned does; a folder")
      ->type_name("FOLDER");
  add_grammar_options(command, args->grammar);
  add_image_options(command, args->images);
  add_stats_option(command, args->stats);
  add_json_option(command, args->json);
  args->command = command;
  command->callback([args] { generate(*args); });
}

}  // namespace weft::cli
