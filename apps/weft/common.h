// Shared code of the subcommands of `weft`: options, loading with a progress bar, JSON and the ways to fail.
// stdout holds results only; progress, statistics and errors go to stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>
#include <weft/adapter.hpp>
#include <weft/weft.hpp>

namespace weft::cli {

using Json = nlohmann::ordered_json;

// A wrong option: exit code 2. `option` is its name as typed, with its dashes.
class UsageError : public std::runtime_error {
 public:
  // hint: what to do about it; empty: --help.
  UsageError(std::string option, std::string sentence, std::string hint = {})
      : std::runtime_error(std::move(sentence)), option_(std::move(option)), hint_(std::move(hint)) {}
  const std::string& option() const { return option_; }
  const std::string& hint() const { return hint_; }

 private:
  std::string option_, hint_;
};

// "weft: place: sentence" and, when there is one, "hint: ..." on stderr.
void print_error(std::string_view place, std::string_view sentence, std::string_view hint = {});

// CLI11 validators that accept only plain decimal numbers in a range, and say so in one sentence.
CLI::Validator whole(std::uint64_t least, std::uint64_t most = std::numeric_limits<std::uint32_t>::max());
CLI::Validator real(double least, double most, bool least_excluded = false);

// "f16", "q8" or "q4", of tables also "native", and what the library calls them; "" is WEFT_TYPE_FILE.
CLI::Validator type_name(bool native = false);
weft_type parse_type(const std::string& type);
weft_policy parse_policy(const std::string& policy);

struct ModelArgs {
  std::string model;                // empty: the installed one
  std::string device;               // empty: $WEFT_DEVICE, else the best
  std::string devices;              // several that share the vocabulary table's rows, with commas between them
  std::string type, vocab_type;     // "", "f16", "q8" or "q4"; of tables also "native"
  std::uint32_t ctx = 0;            // tokens; 0: the default
  std::string kv, kv_k, kv_v;       // "", "f16", "q8" or "q4": of cached keys and values, of keys, of values
  std::string policy;               // "", "throughput" or "polite"
  std::uint64_t memory_budget = 0;  // bytes; 0: what there is
  bool int8_inputs = false;
  std::string tie;  // "", "auto" or "never"
};

weft_session_options session_options(const ModelArgs& args, std::uint32_t context);

void add_device_option(CLI::App* command, std::string& device);
void add_model_options(CLI::App* command, ModelArgs& args);
void add_devices_option(CLI::App* command, ModelArgs& args);  // after add_model_options
void add_ctx_option(CLI::App* command, ModelArgs& args);
void add_kv_options(CLI::App* command, ModelArgs& args);
void add_policy_option(CLI::App* command, ModelArgs& args);
void add_duty_option(CLI::App* command, std::uint32_t& percent);
void add_sampling_options(CLI::App* command, weft_sampling& sampling);  // defaults: what it holds
bool sampling_given(const CLI::App* command);                           // any of them
void add_restore_option(CLI::App* command, std::string& path);
// Options that favour tokens and that end an answer at a text.
struct SteeringArgs {
  std::vector<std::string> biases;  // "ID=BIAS"
  std::vector<std::string> stops;
};
void add_steering_options(CLI::App* command, SteeringArgs& args);
// Sets the options that were given; the others stay, or with `all` are cleared. May throw UsageError after it has set
// the stop strings.
void set_steering(api::Session& session, const SteeringArgs& args, bool all = false);
// Source of drafted tokens.
struct SpeculateArgs {
  std::string kind = "off";  // or "lookup"
  std::string draft;         // a model, or the folder of a Gemma 4's drafter; empty: none
  std::string medusa;        // a file of heads; empty: none
  // "draft" or "medusa" if one is given, else `kind`
  std::string name() const { return !draft.empty() ? "draft" : !medusa.empty() ? "medusa" : kind; }
};
CLI::Option* add_speculate_option(CLI::App* command, std::string& kind);  // --speculate alone
void add_speculate_options(CLI::App* command, SpeculateArgs& args);
// Loads the draft or the heads, if there are any, to the device of `model`. Throws UsageError for a draft with another
// tokenizer, and for heads or a drafter of another model.
void set_speculation(api::Session& session, const SpeculateArgs& args, const ModelArgs& model);
void add_lora_option(CLI::App* command, std::string& lora);  // "FILE" or "FILE:SCALE"
// Throws UsageError if the adapter is for another architecture or the scale is not finite.
api::Adapter load_lora(const api::Model& model, const std::string& lora);
// Loads the adapter for the session, unless `lora` is empty.
void set_lora(api::Session& session, const api::Model& model, const std::string& lora);
void add_head_option(CLI::App* command, std::string& head);
// At most one of them.
struct GrammarArgs {
  std::optional<std::string> gbnf, schema;  // files
  std::optional<std::string> regex;
  bool given() const { return gbnf || schema || regex; }
};
void add_grammar_options(CLI::App* command, GrammarArgs& args);
// Throws UsageError for a file that cannot be read and for what the library refuses.
void set_grammar(api::Session& session, const GrammarArgs& args);
void add_json_option(CLI::App* command, bool& json);
void add_stats_option(CLI::App* command, bool& stats);

// Options of a path take names too: of the user's cache, or what a model was pulled from. Returns the model's path:
// `model` itself if it exists or is a path, else its place in the cache. Throws api::Failure if it is not there.
std::string model_path(const std::string& model);
// A name to show: a path's last part without ".gguf"; "pocket" for the installed model.
std::string model_name(const std::string& model);

// whole: loads all of the model, with a progress bar on stderr when that is a terminal. Else its layers may follow
// while it is used.
enum class Load { whole, begin };
api::ModelOptions model_options(const ModelArgs& args);  // without a progress callback
api::Model load_model(const ModelArgs& args, Load load = Load::whole);

// Tokens a session made with args.ctx holds; weft.h states the default. UsageError when it is more than the model has.
std::uint32_t session_context(const ModelArgs& args, const weft_model_info& info);

// Sets the session's head. Throws UsageError when it is none, or its keep-list is wrong; the session keeps the old one.
void set_head(api::Session& session, const std::string& option, const std::string& head);

// The file of -f. Throws api::Failure when it cannot be read or is empty.
std::string read_text(const std::string& path);

// Throws UsageError unless text is UTF-8 without zero bytes.
void require_utf8(const std::string& option, std::string_view text);

// A token's bytes; control: they are its name, not its text.
struct TokenBytes {
  std::string bytes;
  bool control = false;
};
TokenBytes token_bytes(const api::Model& model, std::uint32_t id);

// Costs of one generate: the difference of two statistics of one session.
struct Rates {
  std::uint64_t prompt_tokens = 0;  // computed, not taken from a kept prefix
  std::uint64_t reused_tokens = 0;  // of the kept prefix
  std::uint64_t tokens = 0;         // generated
  double prompt_seconds = 0;        // up to and with the first token
  double decode_seconds = 0;        // of the tokens after the first
  double prompt_tokens_per_s = 0;
  double decode_tokens_per_s = 0;  // 0 when there was only one token
  double readback_bytes_per_token = 0;
  double head_bytes_per_token = 0, head_rows_per_token = 0;  // of the vocabulary table; rows: logits computed
};
Rates rates(const weft_stats& before, const weft_stats& after, std::uint64_t tokens);

Json stages_json(const weft_stats& stats);
// Reads of the head: {"name", "bytes_per_token", "rows_per_token"}.
Json head_json(const std::string& head, const Rates& rates);
// Results of speculation: {"kind", "passes", "drafted", "accepted", "tokens_per_pass"}.
Json speculation_json(const std::string& kind, const weft_speculation_stats& guesses, const Rates& rates);
// " | 30 of 42 guesses right, 2.1 tok/pass"; empty if nothing was guessed.
std::string speculation_text(const weft_speculation_stats& guesses, const Rates& rates);
Json device_bytes_json(const weft_model_info& info, const weft_stats& stats);
// A table of "types" as weft_model_describe and weft_convert report them, under these two keys.
void print_types(const Json& types, const char* from_key, const char* to_key);
// "exact", or the largest error and its share of the tensor's largest element.
std::string rounding_text(const Json& item);
void print_json(const Json& json);  // one object and a line feed on stdout

// "certified 83.2 KiB/tok 61 rows". A long name is cut.
std::string head_text(const std::string& head, const Rates& rates);

// "prompt 23 tok 41.2 tok/s | decode 120 tok 31.0 tok/s 32.3 ms/tok | full 264.0 KiB/tok 2048 rows | matmul 61% ...
// | 2.1 GB/s (35% of 6.0)"
// device_gb_s: what a pure read kernel reaches; 0: not measured, and left out.
std::string stats_line(const Rates& rates, const std::string& head, const weft_stats& stats, double device_gb_s);

std::string human_bytes(double bytes);  // "1.5 MiB"
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// One function a subcommand: adds it, with its options and what it runs, to the program.
void add_chat(CLI::App& app);
void add_generate(CLI::App& app);
void add_geometry(CLI::App& app);
void add_lab(CLI::App& app);
void add_embed(CLI::App& app);
std::vector<std::string> split_lines(const std::string& text);  // without their ends, CRLF too
void add_rerank(CLI::App& app);
void add_imatrix(CLI::App& app);
void add_fill(CLI::App& app);
void add_listen(CLI::App& app);
void add_bench(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_head_report(CLI::App& app);
void add_lens(CLI::App& app);
void add_vocab(CLI::App& app);
void add_inspect(CLI::App& app);
void add_convert(CLI::App& app);
void add_devices(CLI::App& app);
void add_plot(CLI::App& app);
void add_serve(CLI::App& app);
void add_tune(CLI::App& app);
void add_models(CLI::App& app);  // pull, models and rm

}  // namespace weft::cli
