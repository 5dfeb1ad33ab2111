#include "common.h"
#include "progress_bar.h"

#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>
#include <weft/text.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace weft::cli {
namespace {

constexpr std::uint32_t kDefaultContext = 4096;  // as weft.h states it

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double per_second(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

// True for the folder of a Gemma 4's drafter, which is no model by itself.
bool is_assistant(const std::string& path) {
  std::ifstream file(std::filesystem::path(path) / "config.json");
  const nlohmann::json config = nlohmann::json::parse(file, nullptr, false);
  const auto type = config.find("model_type");
  return type != config.end() && *type == "gemma4_assistant";
}

}  // namespace

weft_type parse_type(const std::string& type) {
  if (type == "f16") return WEFT_TYPE_F16;
  if (type == "q8") return WEFT_TYPE_Q8;
  if (type == "q4") return WEFT_TYPE_Q4;
  return type == "native" ? WEFT_TYPE_NATIVE : WEFT_TYPE_FILE;
}

weft_policy parse_policy(const std::string& policy) {
  return policy == "polite" ? WEFT_POLICY_POLITE : WEFT_POLICY_THROUGHPUT;
}

weft_session_options session_options(const ModelArgs& args, std::uint32_t context) {
  // The values of --kv-k alone are f16, not of the type of keys.
  const std::string keys = args.kv_k.empty() ? args.kv : args.kv_k;
  const std::string values = !args.kv_v.empty() ? args.kv_v : !args.kv.empty() ? args.kv : "f16";
  return api::session_options(context, parse_type(keys), parse_policy(args.policy), parse_type(values));
}

CLI::Validator type_name(bool native) {
  const auto validate = [native](const std::string& text) -> std::string {
    if (text == "f16" || text == "q8" || text == "q4" || (native && text == "native")) return "";
    return std::string("must be f16, q8") + (native ? ", q4 or native" : " or q4") + ", not \"" + text + "\"";
  };
  return CLI::Validator(validate, "", "type");
}

std::string format(const char* pattern, ...) {
  va_list list, again;
  va_start(list, pattern);
  va_copy(again, list);
  const int length = std::vsnprintf(nullptr, 0, pattern, list);
  va_end(list);
  std::string text(static_cast<std::size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

void print_error(std::string_view place, std::string_view sentence, std::string_view hint) {
  std::cout.flush();  // so that on a terminal the answer so far comes first
  std::cerr << "weft: ";
  if (!place.empty()) std::cerr << place << ": ";
  std::cerr << sentence << '\n';
  if (!hint.empty()) std::cerr << "hint: " << hint << '\n';
}

CLI::Validator whole(std::uint64_t least, std::uint64_t most) {
  const auto validate = [least, most](std::string& text) -> std::string {
    const auto value = parse_number<std::uint64_t>(text);
    if (value && *value >= least && *value <= most) {
      text = std::to_string(*value);  // CLI11 would read 010 as octal
      return {};
    }
    return format("must be a whole number from %llu to %llu, not \"%s\"", static_cast<unsigned long long>(least),
                  static_cast<unsigned long long>(most), text.c_str());
  };
  return CLI::Validator(validate, "", "whole");
}

CLI::Validator real(double least, double most, bool least_excluded) {
  const auto validate = [=](std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    const bool enough = value && (least_excluded ? *value > least : *value >= least);
    if (enough && *value <= most) return {};  // false for NaN
    return format("must be a number %s %g%s, not \"%s\"", least_excluded ? "above" : "from", least,
                  most < 1e9       ? format(" to %g", most).c_str()
                  : least_excluded ? ""
                                   : " up",
                  text.c_str());
  };
  return CLI::Validator(validate, "", "real");
}

static CLI::Validator memory_size() {
  const auto validate = [](std::string& text) -> std::string {
    static constexpr std::pair<std::string_view, unsigned> kUnits[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    for (const auto& [unit, shift] : kUnits) {
      if (!std::string_view(text).ends_with(unit)) continue;
      const auto value = parse_number<std::uint32_t>(std::string_view(text).substr(0, text.size() - unit.size()));
      if (!value || *value == 0) break;
      text = std::to_string(std::uint64_t{*value} << shift);
      return {};
    }
    return "must be a whole number with KiB, MiB or GiB, such as 700MiB, not \"" + text + "\"";
  };
  return CLI::Validator(validate, "", "size");
}

void add_device_option(CLI::App* command, std::string& device) {
  command
      ->add_option("--device", device,
                   "Vulkan device: its index or part of its name (default: $WEFT_DEVICE, else the best)")
      ->type_name("INDEX|NAME");
}

void add_model_options(CLI::App* command, ModelArgs& args) {
  command
      ->add_option("-m,--model", args.model,
                   "GGUF file, Hugging Face folder, or name of a model that weft pull has downloaded: weft models\n"
                   "(default: the installed model)")
      ->type_name("PATH|NAME");
  command
      ->add_option("--type", args.type,
                   "type of the matrices on the device (default: for each matrix the type closest to the file's)")
      ->type_name("f16|q8|q4")
      ->check(type_name());
  command
      ->add_option("--vocab-type", args.vocab_type,
                   "of the vocabulary table (default: as --type); native: the file's own bits, for --head full alone")
      ->type_name("f16|q8|q4|native")
      ->check(type_name(true));
  command
      ->add_option("--tie", args.tie,
                   "auto: two vocabulary tables of a file that differ only by the rounding of their types become one;\n"
                   "never: only two tables of the same bytes (default: auto)")
      ->type_name("auto|never")
      ->check(CLI::IsMember({"auto", "never"}).description(""));
  add_device_option(command, args.device);
  command
      ->add_option(
          "--memory-budget", args.memory_budget,
          "most device memory to use, for example 700MiB or 2GiB; if the weights do not fit, the layers stay in\n"
          "host memory and are copied for every token (default: no limit)")
      ->type_name("SIZE")
      ->transform(memory_size());
  command->add_flag("--int8-inputs", args.int8_inputs,
                    "round the inputs of matrix products to 8 bits, for devices whose int8_dot_fast is true;\n"
                    "changes logits a little");
}

void add_devices_option(CLI::App* command, ModelArgs& args) {
  command
      ->add_option("--devices", args.devices,
                   "devices that share the rows of the vocabulary table, for example 0,1: in proportion to their read\n"
                   "bandwidths, or to shares, 0:3,1:1; all else is on the first one")
      ->type_name("A,B")
      ->excludes(command->get_option("--device"));
}

void add_ctx_option(CLI::App* command, ModelArgs& args) {
  command->add_option("--ctx", args.ctx, "tokens the context can hold (default: the model's maximum, at most 4096)")
      ->type_name("N")
      ->transform(whole(2));
}

void add_kv_options(CLI::App* command, ModelArgs& args) {
  command
      ->add_option("--kv", args.kv,
                   "type of cached keys and values; q8 uses about half the memory, q4 less than a third (default: f16)")
      ->type_name("f16|q8|q4")
      ->check(type_name().description(""));
  command->add_option("--kv-k", args.kv_k, "type of cached keys, if values have another one (default: as --kv)")
      ->type_name("f16|q8|q4")
      ->check(type_name().description(""));
  command->add_option("--kv-v", args.kv_v, "type of cached values, if keys have another one (default: as --kv)")
      ->type_name("f16|q8|q4")
      ->check(type_name().description(""));
}

void add_policy_option(CLI::App* command, ModelArgs& args) {
  command
      ->add_option("--policy", args.policy,
                   "throughput: the fastest; polite: one or two layers at a time, so that other users of the device\n"
                   "get it in between (default: throughput)")
      ->type_name("throughput|polite")
      ->check(CLI::IsMember({"throughput", "polite"}).description(""));
}

void add_duty_option(CLI::App* command, std::uint32_t& percent) {
  command
      ->add_option(
          "--duty", percent,
          "most part of the time, in percent, that the device is busy, with all models together; the work then\n"
          "goes to it in small parts")
      ->type_name("PERCENT")
      ->capture_default_str()
      ->transform(whole(1, 100));
}

void add_sampling_options(CLI::App* command, weft_sampling& sampling) {
  const std::uint64_t largest_seed = std::numeric_limits<std::uint64_t>::max();
  const double largest_float = std::numeric_limits<float>::max();
  const auto add = [command](const char* name, auto& value, const std::string& text, const CLI::Validator& valid) {
    command->add_option(name, value, text)->type_name("X")->capture_default_str()->transform(valid)->group("Sampling");
  };
  add("--temperature", sampling.temperature, "0: always the best token; higher: more varied", real(0, largest_float));
  add("--top-k", sampling.top_k, "only the K best tokens; 0: all", whole(0));
  add("--top-p", sampling.top_p, "only the smallest set of best tokens with this probability; 1: all",
      real(0, 1, true));
  add("--min-p", sampling.min_p, "only tokens with at least this share of the best token's probability; 0: all",
      real(0, 1));
  add("--repeat-penalty", sampling.repeat_penalty, "above 1: avoid tokens that are in the context; 1: none",
      real(0, largest_float, true));
  add("--presence-penalty", sampling.presence_penalty, "above 0: avoid tokens that were generated; 0: none",
      real(-2, 2));
  add("--frequency-penalty", sampling.frequency_penalty,
      "above 0: avoid tokens more each time they were generated; 0: none", real(-2, 2));
  add("--typical-p", sampling.typical_p, "only the most typical tokens with this probability together; 1: all",
      real(0, 1, true));
  add("--seed", sampling.seed, "the same seed, device and prompt give the same text", whole(0, largest_seed));
}

bool sampling_given(const CLI::App* command) {
  const auto options =
      command->get_options([](const CLI::Option* option) { return option->get_group() == "Sampling"; });
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->count() > 0; });
}

void add_restore_option(CLI::App* command, std::string& path) {
  command
      ->add_option("--restore", path,
                   "continue a session that was saved with the same model, types and context; its saved sampling is\n"
                   "used unless a sampling option is given")
      ->type_name("FILE");
}

void add_steering_options(CLI::App* command, SteeringArgs& args) {
  command
      ->add_option("--logit-bias", args.biases,
                   "add BIAS (-100 to 100) to the logit of token ID: 17=-100 forbids it; may be given several times")
      ->type_name("ID=BIAS")
      ->allow_extra_args(false);
  command->add_option("--stop", args.stops, "end before this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

void set_steering(api::Session& session, const SteeringArgs& args, bool all) {
  std::vector<std::pair<std::uint32_t, float>> biases;
  for (const std::string& text : args.biases) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const auto id = parse_number<std::uint32_t>(std::string_view(text).substr(0, equals));
    const auto bias = parse_number<float>(std::string_view(text).substr(std::min(equals + 1, text.size())));
    if (!id || !bias) throw UsageError("--logit-bias", "must be ID=BIAS, two numbers, not \"" + text + "\"");
    biases.emplace_back(*id, *bias);
  }
  const auto refused = [](const char* option, const auto& call) {
    try {
      call();
    } catch (const api::Failure& error) {
      if (error.status() != WEFT_INVALID_ARGUMENT) throw;
      throw UsageError(option, error.sentence(), error.hint());
    }
  };
  if (all || !args.stops.empty()) refused("--stop", [&] { session.set_stops(args.stops); });
  if (all || !biases.empty()) refused("--logit-bias", [&] { session.set_logit_bias(biases); });
}

CLI::Option* add_speculate_option(CLI::App* command, std::string& kind) {
  return command
      ->add_option("--speculate", kind,
                   "guess tokens ahead and check several in a pass, which does not change the text: lookup takes the "
                   "text\n"
                   "to go on as it did where it had the same tokens before; off")
      ->type_name("KIND")
      ->check(CLI::IsMember({"off", "lookup"}).description(""))
      ->capture_default_str();
}

void add_speculate_options(CLI::App* command, SpeculateArgs& args) {
  CLI::Option* const kind = add_speculate_option(command, args.kind);
  CLI::Option* const draft =
      command
          ->add_option(
              "--draft", args.draft,
              "a smaller model with the same tokenizer, or the folder of a Gemma 4's drafter, which guesses tokens\n"
              "ahead; it does not change the text")
          ->type_name("MODEL")
          ->excludes(kind);
  command
      ->add_option("--medusa", args.medusa,
                   "a GGUF file of Medusa heads for the model, which guess tokens ahead; they do not change the text")
      ->type_name("FILE")
      ->excludes(kind)
      ->excludes(draft);
}

void set_speculation(api::Session& session, const SpeculateArgs& args, const ModelArgs& model) {
  const auto set = [](const char* option, const auto& change) {
    try {
      change();
    } catch (const api::Failure& error) {
      if (error.status() != WEFT_INVALID_ARGUMENT) throw;
      throw UsageError(option, error.sentence(), error.hint());
    }
  };
  if (!args.medusa.empty()) return set("--medusa", [&] { session.set_medusa(args.medusa); });
  if (args.draft.empty())
    return session.set_speculation(args.kind == "lookup" ? WEFT_SPECULATE_LOOKUP : WEFT_SPECULATE_OFF);
  const std::string path = model_path(args.draft);
  if (is_assistant(path)) return set("--draft", [&] { session.set_assistant(path); });
  ModelArgs draft;
  draft.model = args.draft;
  draft.device = model.device;
  const api::Model loaded = load_model(draft);
  set("--draft", [&] { session.set_draft(loaded); });
}

void add_lora_option(CLI::App* command, std::string& lora) {
  command
      ->add_option("--lora", lora,
                   "a LoRA adapter for the model: a GGUF file or a folder of PEFT's; SCALE multiplies its own scale")
      ->type_name("FILE[:SCALE]");
}

api::Adapter load_lora(const api::Model& model, const std::string& lora) {
  std::string path = lora;
  float scale = 1;
  const std::size_t colon = lora.rfind(':');
  if (colon != lora.npos && !std::filesystem::exists(lora)) {
    const char* const end = lora.data() + lora.size();
    const auto [rest, wrong] = std::from_chars(lora.data() + colon + 1, end, scale);
    if (wrong != std::errc() || rest != end)
      throw UsageError("--lora", "\"" + lora.substr(colon + 1) + "\" is not a number", "write FILE or FILE:SCALE");
    path = lora.substr(0, colon);
  }
  try {
    return api::Adapter(model, path, scale);
  } catch (const api::Failure& error) {
    if (error.status() != WEFT_INVALID_ARGUMENT) throw;
    throw UsageError("--lora", error.sentence(), error.hint());
  }
}

void set_lora(api::Session& session, const api::Model& model, const std::string& lora) {
  if (lora.empty()) return;
  const api::Adapter adapter = load_lora(model, lora);
  api::set_adapter(session, &adapter);  // the session holds it
}

void add_head_option(CLI::App* command, std::string& head) {
  command
      ->add_option(
          "--head", head,
          "rows of the vocabulary table to read for a token: full; certified (only rows that can matter, proven);\n"
          "sure or sure:P (the same, but that a token differs with the probability P at most, 1e-9 by default);\n"
          "fast or fast:SIGMA (estimates trusted to so many standard deviations, 7 by default; unproven); auto, "
          "auto:sure\n"
          "or auto:fast (full or the one named, certified by default, whichever takes the least time); keep:LIST "
          "(only\n"
          "tokens of presets and files, with commas between them); or one of them and keep, such as sure+keep:LIST")
      ->type_name("HEAD")
      ->capture_default_str();
}

void add_stats_option(CLI::App* command, bool& stats) {
  command->add_flag("--stats", stats, "tell afterwards, on stderr, how long it took and where");
}

void add_json_option(CLI::App* command, bool& json) {
  command->add_flag("--json", json, "print one JSON object on stdout and nothing else there");
}

api::ModelOptions model_options(const ModelArgs& args) {
  api::ModelOptions options;
  options.device = args.device;
  if (!args.devices.empty()) {
    options.device = args.devices;
    std::ranges::replace(options.device, ',', ';');  // names have commas, but a part of a name does without
  }
  options.type = parse_type(args.type);
  options.vocab_type = parse_type(args.vocab_type);
  options.memory_budget = args.memory_budget;
  options.int8_inputs = args.int8_inputs;
  if (args.tie == "never") options.tie = WEFT_TIE_NEVER;
  return options;
}

api::Model load_model(const ModelArgs& args, Load load) {
  const std::string path = model_path(args.model), name = std::filesystem::path(path).filename().string();
  ProgressBar bar("loading " + (name.empty() ? "the model" : name));
  api::ModelOptions options = model_options(args);
  const auto progress = [&bar](float done) {
    bar.update(done);
    return true;
  };
  if (load == Load::whole) options.progress = progress;
  api::Model model(path, options);
  model.set_recovery(true);
  return model;
}

std::uint32_t session_context(const ModelArgs& args, const weft_model_info& info) {
  if (args.ctx == 0) return std::min(info.max_context, kDefaultContext);
  if (args.ctx > info.max_context) {
    throw UsageError("--ctx", format("%u tokens are more than the model's maximum of %u", args.ctx, info.max_context));
  }
  return args.ctx;
}

void set_head(api::Session& session, const std::string& option, const std::string& head) {
  try {
    session.set_head(head);
  } catch (const api::Failure& error) {
    const bool typed = error.status() == WEFT_INVALID_ARGUMENT || error.status() == WEFT_BAD_FILE ||
                       error.status() == WEFT_NOT_FOUND || error.status() == WEFT_IO;
    if (!typed) throw;
    throw UsageError(option, error.place() == "head" ? error.sentence() : error.what(), error.hint());
  }
}

std::string read_text(const std::string& path) {
  struct stat status {};
  const std::string place = "-f " + path;
  if (stat(path.c_str(), &status) != 0) throw api::Failure(WEFT_NOT_FOUND, std::strerror(errno), place);
  if (!S_ISREG(status.st_mode)) throw api::Failure(WEFT_IO, "this is not a file", place);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (status.st_size > 0) text << file.rdbuf();
  if (!file || !text) throw api::Failure(WEFT_IO, "the file could not be read", place);
  if (text.view().empty()) throw api::Failure(WEFT_BAD_FILE, "the file is empty", place);
  return std::move(text).str();
}

void require_utf8(const std::string& option, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t codepoint = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
    const auto length = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &codepoint);
    if (length < 1) throw UsageError(option, format("the text is not UTF-8 at byte %zu", at));
    if (codepoint == 0) throw UsageError(option, format("the text has a zero byte at byte %zu", at));
    at += static_cast<std::size_t>(length);
  }
}

TokenBytes token_bytes(const api::Model& model, std::uint32_t id) {
  char bytes[64];
  std::size_t count = 0;
  int control = 0;
  weft_error error = {};
  if (weft_token_bytes(model.get(), id, bytes, sizeof bytes, &count, &control, &error) != WEFT_OK)
    throw api::Failure(error);
  TokenBytes token = {std::string(bytes, std::min(count, sizeof bytes)), control != 0};
  if (count <= sizeof bytes) return token;
  token.bytes.resize(count);
  if (weft_token_bytes(model.get(), id, token.bytes.data(), count, &count, &control, &error) != WEFT_OK)
    throw api::Failure(error);
  return token;
}

Rates rates(const weft_stats& before, const weft_stats& after, std::uint64_t tokens) {
  Rates result;
  result.prompt_tokens = after.prompt_tokens - before.prompt_tokens;
  result.reused_tokens = after.reused_tokens - before.reused_tokens;
  result.tokens = tokens;
  result.prompt_seconds = after.prompt_seconds - before.prompt_seconds;
  result.decode_seconds = after.decode_seconds - before.decode_seconds;
  result.prompt_tokens_per_s = per_second(static_cast<double>(result.prompt_tokens), result.prompt_seconds);
  if (tokens > 1) result.decode_tokens_per_s = per_second(static_cast<double>(tokens - 1), result.decode_seconds);
  if (tokens > 0) {
    result.readback_bytes_per_token =
        static_cast<double>(after.readback_bytes - before.readback_bytes) / static_cast<double>(tokens);
  }
  if (after.head_tokens > before.head_tokens) {
    const double count = static_cast<double>(after.head_tokens - before.head_tokens);
    result.head_bytes_per_token = static_cast<double>(after.head_bytes - before.head_bytes) / count;
    result.head_rows_per_token = static_cast<double>(after.head_rows - before.head_rows) / count;
  }
  return result;
}

Json stages_json(const weft_stats& stats) {
  Json json = Json::object();
  for (std::size_t i = 0; i < stats.stage_count; ++i) json[stats.stages[i].name] = stats.stages[i].share;
  return json;
}

Json head_json(const std::string& head, const Rates& rates) {
  return {
      {"name", head}, {"bytes_per_token", rates.head_bytes_per_token}, {"rows_per_token", rates.head_rows_per_token}};
}

std::string head_text(const std::string& head, const Rates& rates) {
  constexpr std::size_t kLongest = 32;
  std::string text = head.size() > kLongest ? head.substr(0, kLongest - 3) + "..." : head;
  text += format(" %s/tok %.0f rows", human_bytes(rates.head_bytes_per_token).c_str(), rates.head_rows_per_token);
  return text;
}

// Counts only the tokens after the first, because the first comes with the prompt.
static double tokens_per_pass(const weft_speculation_stats& guesses, const Rates& rates) {
  if (rates.tokens < 2) return 1;
  const double tokens = static_cast<double>(rates.tokens - 1);
  return tokens / (tokens - std::min(static_cast<double>(guesses.accepted_tokens), tokens - 1));
}

Json speculation_json(const std::string& kind, const weft_speculation_stats& guesses, const Rates& rates) {
  return {{"kind", kind},
          {"passes", guesses.passes},
          {"drafted", guesses.drafted_tokens},
          {"accepted", guesses.accepted_tokens},
          {"tokens_per_pass", tokens_per_pass(guesses, rates)}};
}

std::string speculation_text(const weft_speculation_stats& guesses, const Rates& rates) {
  if (guesses.passes == 0) return {};
  return format(" | %llu of %llu guesses right, %.1f tok/pass",
                static_cast<unsigned long long>(guesses.accepted_tokens),
                static_cast<unsigned long long>(guesses.drafted_tokens), tokens_per_pass(guesses, rates));
}

Json device_bytes_json(const weft_model_info& info, const weft_stats& stats) {
  return {{"vocab", info.vocab_bytes},
          {"layers", info.layer_bytes},
          {"kv", stats.kv_bytes},
          {"scratch", stats.scratch_bytes}};
}

void print_json(const Json& json) {
  // Device names and file names need not be UTF-8; JSON must be.
  std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string stats_line(const Rates& rates, const std::string& head, const weft_stats& stats, double device_gb_s) {
  std::string line = format("prompt %llu tok", static_cast<unsigned long long>(rates.prompt_tokens));
  if (rates.prompt_tokens_per_s > 0) line += format(" %.1f tok/s", rates.prompt_tokens_per_s);
  if (rates.reused_tokens > 0) line += format(" (%llu reused)", static_cast<unsigned long long>(rates.reused_tokens));
  line += format(" | decode %llu tok", static_cast<unsigned long long>(rates.tokens));
  if (rates.decode_tokens_per_s > 0) {
    line += format(" %.1f tok/s %.2f ms/tok", rates.decode_tokens_per_s, 1000.0 / rates.decode_tokens_per_s);
  }
  if (rates.head_bytes_per_token > 0) line += " | " + head_text(head, rates);
  for (std::size_t i = 0; i < stats.stage_count; ++i) {
    if (stats.stages[i].share < 0.01) break;  // largest first
    line += format("%s %s %.0f%%", i == 0 ? " |" : "", stats.stages[i].name, stats.stages[i].share * 100.0);
  }
  if (stats.read_gigabytes_per_second > 0) {
    line += format(" | %.2f GB/s", stats.read_gigabytes_per_second);
    if (device_gb_s > 0) {
      line += format(" (%.0f%% of %.1f)", 100.0 * stats.read_gigabytes_per_second / device_gb_s, device_gb_s);
    }
  }
  return line;
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024.0 && unit + 1 < std::size(units)) {
    bytes /= 1024.0;
    ++unit;
  }
  return format(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

}  // namespace weft::cli
