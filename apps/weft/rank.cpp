// weft lab rank: the singular values of logits over many contexts, which one softmax limits to the table's width.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "canvas.h"
#include "common.h"
#include "plot.h"
#include "progress_bar.h"
#include "spectrum.h"

namespace weft::cli {
namespace {

constexpr std::size_t kRows = 32768;  // logits of a context that are looked at, evenly spaced
// A singular value counts if it is above this share of the largest. Rounding of fp32 logits and of the sums leaves
// about 1e-8.
constexpr double kCounts = 1e-6;

struct RankArgs {
  ModelArgs model;
  std::string file, plot;
  std::uint32_t contexts = 0;
  bool json = false;
};

struct Spectrum {
  std::vector<double> values;  // singular values as shares of the largest, which is first
  std::size_t rank = 0;
};

Spectrum spectrum_of(const std::vector<double>& products, std::size_t contexts) {
  Spectrum result;
  for (const double value : eigenvalues(products, contexts)) result.values.push_back(std::sqrt(std::max(value, 0.0)));
  const double most = result.values.front();
  for (double& value : result.values) value = most > 0 ? value / most : 0;
  result.rank = static_cast<std::size_t>(
      std::count_if(result.values.begin(), result.values.end(), [](double value) { return value > kCounts; }));
  return result;
}

// The (contexts, columns) logits, and what makes log-probabilities of them.
struct Samples {
  std::vector<float> logits;
  std::vector<double> log_sums;
  std::size_t columns = 0;
};

double log_sum(const std::vector<float>& logits) {
  const double peak = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - peak);
  return peak + std::log(sum);
}

// Logits after each of the first `contexts` ids.
Samples read_samples(const api::Model& model, const std::vector<std::uint32_t>& ids, std::size_t contexts) {
  api::Session session(model, static_cast<std::uint32_t>(contexts + 1));
  const std::size_t vocab = model.info().vocab_size;
  Samples samples;
  samples.columns = std::min(vocab, kRows);
  ProgressBar bar("computing logits");
  for (std::size_t i = 0; i < contexts; ++i) {
    bar.update(static_cast<float>(i) / static_cast<float>(contexts));
    session.prompt({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i) + 1});
    const std::vector<float> logits = session.logits();
    samples.log_sums.push_back(log_sum(logits));
    for (std::size_t j = 0; j < samples.columns; ++j) samples.logits.push_back(logits[j * vocab / samples.columns]);
  }
  return samples;
}

// L L^T of the logits L, and of the log-probabilities. (L - s 1^T)(L - s 1^T)^T = L L^T - s r^T - r s^T + n s s^T, with
// r the sums of L's rows and n its columns.
std::pair<std::vector<double>, std::vector<double>> products_of(const Samples& samples) {
  const std::size_t contexts = samples.log_sums.size(), n = samples.columns;
  std::vector<double> logits(contexts * contexts), log_probs(contexts * contexts), sums(contexts);
  ProgressBar bar("multiplying");
  for (std::size_t i = 0; i < contexts; ++i) {
    bar.update(static_cast<float>(i * i) / static_cast<float>(contexts * contexts));
    const float* const one = &samples.logits[i * n];
    for (std::size_t k = 0; k < n; ++k) sums[i] += one[k];
    for (std::size_t j = 0; j <= i; ++j) {
      const float* const two = &samples.logits[j * n];
      double parts[4] = {};
      for (std::size_t k = 0; k < n; ++k) parts[k % 4] += double{one[k]} * two[k];
      const double product = parts[0] + parts[1] + parts[2] + parts[3], a = samples.log_sums[i],
                   b = samples.log_sums[j];
      logits[i * contexts + j] = logits[j * contexts + i] = product;
      log_probs[i * contexts + j] = log_probs[j * contexts + i] =
          product - a * sums[j] - b * sums[i] + static_cast<double>(n) * a * b;
    }
  }
  return {std::move(logits), std::move(log_probs)};
}

// Ids from a fixed seed (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
std::vector<std::uint32_t> random_ids(std::uint32_t vocab, std::size_t count) {
  std::vector<std::uint32_t> ids;
  for (std::uint64_t i = 1; i <= count; ++i) {
    std::uint64_t z = i * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    ids.push_back(static_cast<std::uint32_t>((z ^ z >> 31) % vocab));
  }
  return ids;
}

void draw(const std::vector<std::pair<const char*, Spectrum>>& spectra, const weft_model_info& info,
          const RankArgs& args) {
  Plot plot;
  plot.title =
      format("%s: %u rows of %u: singular values", model_name(args.model.model).c_str(), info.vocab_size, info.width);
  const double count = static_cast<double>(spectra.front().second.values.size());
  plot.x = axis_to("number", count);
  plot.y = {"power of ten, of the largest", -10, 0, 2, ""};
  for (std::size_t series = 0; series < spectra.size(); ++series) {
    const std::vector<double>& values = spectra[series].second.values;
    for (std::size_t i = 0; i < values.size(); ++i)
      plot.points.push_back({i == 0 ? spectra[series].first : "", static_cast<double>(i + 1),
                             std::max(std::log10(std::max(values[i], 1e-300)), -10.0), series});
  }
  write_plot(plot, args.plot);
}

void print(const char* name, const Spectrum& spectrum, std::size_t width) {
  std::cout << format("%-18s rank %zu;", name, spectrum.rank);
  const auto show = [&](std::size_t number) {
    if (number >= 1 && number <= spectrum.values.size())
      std::cout << format("  %zu: %.1e", number, spectrum.values[number - 1]);
  };
  for (const std::size_t number : {width / 2, width, width + 1, width + 2}) show(number);
  std::cout << '\n';
}

void run_rank(const RankArgs& args) {
  if (!args.plot.empty()) require_writable("--plot", args.plot);
  const api::Model model = load_model(args.model);
  const weft_model_info info = model.info();
  if (info.reads_prompt_apart)
    throw UsageError("-m", "an encoder-decoder's logits depend on an input", "choose a decoder");
  const std::size_t wanted = args.contexts > 0 ? args.contexts : info.width + 64;
  const std::size_t most = std::min<std::size_t>({wanted, info.max_context - 1, info.vocab_size});
  const std::vector<std::uint32_t> ids =
      args.file.empty() ? random_ids(info.vocab_size, most) : model.tokenize(read_text(args.file), true);
  const std::size_t contexts = std::min(most, ids.size());
  const Json described = Json::parse(model.describe());
  const Json head = described.value("head", Json{{"kind", "plain"}, {"gives_log_probabilities", false}});
  const bool has_logits = !head.at("gives_log_probabilities");
  const auto [logits, log_probs] = products_of(read_samples(model, ids, contexts));
  std::vector<std::pair<const char*, Spectrum>> spectra;
  if (has_logits) spectra.emplace_back("logits", spectrum_of(logits, contexts));
  spectra.emplace_back("log-probabilities", spectrum_of(log_probs, contexts));
  if (!args.plot.empty()) draw(spectra, info, args);
  if (args.json) {
    Json result = {
        {"contexts", contexts}, {"width", info.width}, {"vocab_size", info.vocab_size}, {"head", head.at("kind")}};
    for (const auto& [name, spectrum] : spectra)
      result[name] = {{"rank", spectrum.rank}, {"singular_values", spectrum.values}};
    result.update({{"device", info.device}, {"driver", info.driver}, {"type", info.type}});
    return print_json(result);
  }
  std::cout << format("%zu contexts, a table of %u rows of %u\n", contexts, info.vocab_size, info.width);
  for (const auto& [name, spectrum] : spectra) print(name, spectrum, info.width);
  if (contexts < info.width + 2) {
    std::cout << format("too few contexts to show the limit of the width: it takes %u\n", info.width + 2);
  } else if (has_logits) {
    std::cout << format("one softmax: at most %u and %u\n", info.width, info.width + 1);
  } else {
    std::cout << format("one softmax would have at most %u\n", info.width + 1);
  }
}

}  // namespace

void add_lab(CLI::App& app) {
  CLI::App* lab = app.add_subcommand("lab", "Show what limits a model");
  lab->require_subcommand(1);
  auto args = std::make_shared<RankArgs>();
  CLI::App* command = lab->add_subcommand("rank", "Show the rank of a model's logits over many contexts");
  command->footer(
      "Logits are products of states and the table's rows, so their matrix over contexts has the table's width as its\n"
      "rank at most, and that of log-probabilities one more (Yang et al. 2018, \"Breaking the Softmax Bottleneck\").\n"
      "A mixture of softmaxes has no such limit. A singular value counts if it is above 1e-6 of the largest.");
  add_model_options(command, args->model);
  command->add_option("-f,--file", args->file, "text whose beginnings are the contexts; default: random tokens")
      ->type_name("FILE");
  command->add_option("-n,--contexts", args->contexts, "how many; default: the table's width and 64")
      ->check(whole(2, 4096));
  command->add_option("--plot", args->plot, "draw the singular values as PNG, SVG or PDF")->type_name("PICTURE");
  add_json_option(command, args->json);
  command->callback([args] { run_rank(*args); });
}

}  // namespace weft::cli
