// weft bench: how fast a prompt is read and how fast tokens follow.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <weft/batch.hpp>

#include "bench_profile.h"
#include "common.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

struct BenchArgs {
  ModelArgs model;
  std::uint32_t prompt = 64, tokens = 32, repeat = 3, sessions = 1;
  std::uint32_t seed = 1;
  std::string head = "full";
  SpeculateArgs speculate;
  bool profile = false;
  std::vector<std::uint32_t> after;  // positions
  bool json = false;
};

struct Run {
  Rates speed;
  weft_stats stats;
  weft_speculation_stats guesses;
  double process_cpu_seconds;  // of the tokens after the first
};

// One more than the tokens to be timed: the first comes out of the prompt.
Run run_once(api::Session& session, const std::vector<std::uint32_t>& prompt, std::uint32_t tokens) {
  session.reset();
  session.prompt(prompt);
  std::uint64_t count = 0;
  double before = 0;
  const auto on_token = [&](std::uint32_t, std::string_view) {
    if (++count == 1) before = process_cpu_seconds();
    return true;
  };
  session.generate(tokens + 1, on_token, true);
  const double after = process_cpu_seconds();
  const weft_stats stats = session.stats();
  return {rates(weft_stats{}, stats, count), stats, session.speculation_stats(), after - before};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Returns the median of what `of` picks of each run.
template <typename Of>
double median(const std::vector<Run>& runs, Of of) {
  std::vector<double> values;
  for (const Run& run : runs) values.push_back(of(run));
  return median(std::move(values));
}

void prepare(api::Session& session, const BenchArgs& args) {
  weft_sampling greedy = weft_sampling_default();
  greedy.temperature = 0;
  session.set_sampling(greedy);
  set_head(session, "--head", args.head);
  set_speculation(session, args.speculate, args.model);
}

// Tokens per second of all sessions together, which decode as a batch after the same prompt; the median of the
// repeats.
double batched_tokens_per_s(const api::Model& model, const BenchArgs& args, const std::vector<std::uint32_t>& prompt) {
  std::vector<api::Session> sessions =
      api::make_session_group(model, args.sessions, session_options(args.model, args.prompt + args.tokens + 1));
  for (api::Session& session : sessions) prepare(session, args);
  std::vector<double> rates;
  for (std::uint32_t run = 0; run <= args.repeat; ++run) {
    std::vector<api::BatchEntry> entries;
    for (api::Session& session : sessions) {
      session.prompt(prompt);
      session.generate(1, {}, true);
      entries.push_back({session, args.tokens, {}, true});
    }
    const auto start = std::chrono::steady_clock::now();
    api::generate_batch(entries);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (run > 0) rates.push_back(double(args.sessions) * args.tokens / seconds.count());  // the first one warms up
  }
  return median(rates);
}

// A token's profile after each of the lengths asked for.
Json tokens_after(const api::Model& model, const BenchArgs& args) {
  Json list = Json::array();
  if (args.after.empty()) return list;
  const std::uint64_t longest = *std::max_element(args.after.begin(), args.after.end());
  if (longest + 2 > model.info().max_context) {
    throw UsageError("--at", format("%llu tokens and two more are more than the model's context of %u",
                                    static_cast<unsigned long long>(longest), model.info().max_context));
  }
  api::Session session(model, session_options(args.model, static_cast<std::uint32_t>(longest) + 2));
  prepare(session, args);
  for (const std::uint32_t position : args.after) {
    list.push_back(Json::parse(session.profile_after(position, args.repeat)));
  }
  return list;
}

struct Medians {
  double prompt_tokens_per_s, decode_tokens_per_s, first_token_s, gigabytes_per_s;
  double process_cpu_s_per_token, thread_cpu_s_per_token;
};

Medians medians(const std::vector<Run>& runs) {
  const auto a_token = [](const Run& run) {
    return static_cast<double>(std::max<std::uint64_t>(run.stats.decoded_tokens, 1));
  };
  return {median(runs, [](const Run& run) { return run.speed.prompt_tokens_per_s; }),
          median(runs, [](const Run& run) { return run.speed.decode_tokens_per_s; }),
          median(runs, [](const Run& run) { return run.stats.first_token_seconds; }),
          median(runs, [](const Run& run) { return run.stats.read_gigabytes_per_second; }),
          median(runs, [&](const Run& run) { return run.process_cpu_seconds / a_token(run); }),
          median(runs, [&](const Run& run) { return run.stats.decode_cpu_seconds / a_token(run); })};
}

Json report_json(const BenchArgs& args, const weft_model_info& info, const std::vector<Run>& runs, double device_gb_s) {
  const Medians middle = medians(runs);
  Json each = Json::array();
  for (const Run& run : runs) {
    each.push_back({{"prompt_tokens_per_s", run.speed.prompt_tokens_per_s},
                    {"decode_tokens_per_s", run.speed.decode_tokens_per_s},
                    {"first_token_s", run.stats.first_token_seconds}});
  }
  const Run& last = runs.back();
  return {{"prompt_tokens", args.prompt},
          {"decode_tokens", args.tokens},
          {"device", info.device},
          {"driver", info.driver},
          {"type", info.type},
          {"load_s", info.load_seconds},
          {"first_token_s", middle.first_token_s},
          {"prompt_tokens_per_s", middle.prompt_tokens_per_s},
          {"decode_tokens_per_s", middle.decode_tokens_per_s},
          {"cpu_s_per_token",
           {{"process", middle.process_cpu_s_per_token}, {"calling_thread", middle.thread_cpu_s_per_token}}},
          {"head", head_json(args.head, last.speed)},
          {"speculation", speculation_json(args.speculate.name(), last.guesses, last.speed)},
          {"stages", stages_json(last.stats)},
          {"readback_bytes_per_token", last.speed.readback_bytes_per_token},
          {"device_bytes", device_bytes_json(info, last.stats)},
          {"bytes_per_token", info.bytes_per_token},
          {"read_gb_per_s", middle.gigabytes_per_s},
          {"device_read_gb_per_s", device_gb_s},
          {"runs", each}};
}

void report_table(const BenchArgs& args, const weft_model_info& info, const std::vector<Run>& runs,
                  double device_gb_s) {
  const Medians middle = medians(runs);
  const weft_stats& stats = runs.back().stats;
  std::cout
      << format("device    %s, %s\n", info.device, info.driver)
      << format("model     %s %s, %.1f M parameters, loaded in %.2f s\n", info.family, info.type,
                static_cast<double>(info.parameters) / 1e6, info.load_seconds)
      << format("prompt    %u tokens  %10.2f tokens/s  first token after %.1f ms\n", args.prompt,
                middle.prompt_tokens_per_s, middle.first_token_s * 1e3)
      << format("decode    %u tokens  %10.2f tokens/s  %.2f ms/token\n", args.tokens, middle.decode_tokens_per_s,
                middle.decode_tokens_per_s > 0 ? 1e3 / middle.decode_tokens_per_s : 0.0)
      << format(
             "cpu       %.2f ms/token of all threads, including a software driver's; %.3f ms of the calling thread\n",
             middle.process_cpu_s_per_token * 1e3, middle.thread_cpu_s_per_token * 1e3)
      << format("reading   %s/token  %.2f GB/s, %.0f%% of the %.2f GB/s of a kernel that only reads\n",
                human_bytes(static_cast<double>(info.bytes_per_token)).c_str(), middle.gigabytes_per_s,
                device_gb_s > 0 ? 100 * middle.gigabytes_per_s / device_gb_s : 0.0, device_gb_s)
      << "head      " << head_text(args.head, runs.back().speed)
      << speculation_text(runs.back().guesses, runs.back().speed) << '\n'
      << format("memory    vocab %s, layers %s, kv %s, scratch %s\n",
                human_bytes(static_cast<double>(info.vocab_bytes)).c_str(),
                human_bytes(static_cast<double>(info.layer_bytes)).c_str(),
                human_bytes(static_cast<double>(stats.kv_bytes)).c_str(),
                human_bytes(static_cast<double>(stats.scratch_bytes)).c_str());
  for (std::size_t i = 0; i < stats.stage_count; ++i) {
    std::cout << format("%s%-14s %5.1f%%\n", i == 0 ? "stages    " : "          ", stats.stages[i].name,
                        stats.stages[i].share * 100);
  }
}

void bench(const BenchArgs& args) {
  const api::Model model = load_model(args.model);
  const weft_model_info info = model.info();
  const std::uint64_t needed = std::uint64_t{args.prompt} + args.tokens + 1;
  if (needed > info.max_context) {
    throw UsageError("-p, -n", format("%u + %u tokens and one more are more than the model's context of %u",
                                      args.prompt, args.tokens, info.max_context));
  }
  std::mt19937 random(args.seed);
  std::vector<std::uint32_t> prompt(args.prompt);
  for (std::uint32_t& id : prompt) id = static_cast<std::uint32_t>(random() % info.vocab_size);

  api::Session session(model, session_options(args.model, static_cast<std::uint32_t>(needed)));
  prepare(session, args);
  ProgressBar bar("measuring");  // drawn between the runs
  bar.update(0);
  run_once(session, prompt, args.tokens);  // warms up pipelines, caches and clocks
  std::vector<Run> runs;
  for (std::uint32_t i = 0; i < args.repeat; ++i) {
    bar.update((i + 1.0) / (args.repeat + 1.0));
    runs.push_back(run_once(session, prompt, args.tokens));
  }
  bar.hide();
  const double batched = args.sessions > 1 ? batched_tokens_per_s(model, args, prompt) : 0;
  const double device_gb_s = model.measure_bandwidth();
  Profiles profiles;
  if (args.profile) {
    std::vector<std::uint32_t> middle = prompt;  // of what is decoded
    for (std::uint32_t i = 0; i < args.tokens / 2; ++i)
      middle.push_back(static_cast<std::uint32_t>(random() % info.vocab_size));
    profiles = profile_passes(session, middle, prompt, args.repeat);
  }
  const Json after = tokens_after(model, args);
  if (args.json) {
    Json report = report_json(args, info, runs, device_gb_s);
    if (!after.empty()) report["at"] = after;
    if (args.profile) report["profile"] = profiles_json(profiles);
    if (args.sessions > 1) report["batch"] = {{"sessions", args.sessions}, {"decode_tokens_per_s", batched}};
    print_json(report);
    return;
  }
  report_table(args, info, runs, device_gb_s);
  for (const Json& one : after)
    std::cout << format("after     %u tokens %10.3f ms/token\n", one["position"].get<std::uint32_t>(),
                        one["submitted_seconds"].get<double>() * 1e3);
  if (args.profile) print_profiles(profiles, 1 / medians(runs).decode_tokens_per_s);
  if (args.sessions > 1) {
    std::cout << format("batch     %u sessions %9.2f tokens/s in total\n", args.sessions, batched);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto args = std::make_shared<BenchArgs>();
  CLI::App* command = app.add_subcommand(
      "bench",
      "Measure prompt and decode speed with random prompt ids, greedy decoding and stop tokens ignored: one warm-up\n"
      "run, then the median of the timed runs");
  add_model_options(command, args->model);
  add_devices_option(command, args->model);
  add_kv_options(command, args->model);
  add_policy_option(command, args->model);
  const auto add = [command](const char* name, std::uint32_t& value, const char* text, std::uint32_t least) {
    command->add_option(name, value, text)->type_name("N")->capture_default_str()->transform(whole(least));
  };
  add("-p,--prompt-tokens", args->prompt, "tokens of the prompt", 1);
  add("-n,--max-tokens", args->tokens, "tokens to time after the first one", 1);
  add("--repeat", args->repeat, "timed runs", 1);
  command->add_option("--sessions", args->sessions, "also decode this many sessions as a batch")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(1, 64));
  add("--seed", args->seed, "seed of the random prompt", 0);
  add_head_option(command, args->head);
  add_speculate_options(command, args->speculate);
  command->add_flag("--profile", args->profile,
                    "show where the time of a decoded token and of a prompt's last chunk goes, by operation");
  command
      ->add_option("--at", args->after,
                   "also time one token after contexts of these lengths, without computing the contexts")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->transform(whole(0));
  add_json_option(command, args->json);
  command->callback([args] { bench(*args); });
}

}  // namespace weft::cli
