// weft head-report: reads of the vocabulary table by every head along a text, and a comparison of each with `full`.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <set>

#include "canvas.h"
#include "common.h"
#include "head_errors.h"
#include "plot.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

struct ReportArgs {
  ModelArgs model;
  std::string file, plot, plot_errors;
  std::vector<std::string> heads = {"full", "certified", "sure", "fast"};
  std::uint32_t tokens = 1000;
  weft_sampling sampling = weft_sampling_default();
  bool json = false;
};

using Logits = std::vector<std::pair<std::uint32_t, float>>;

constexpr std::uint32_t kDefaultRanks = 40;  // of recall and KL where --top-k is 0
constexpr int kTimed = 32;                   // tokens a head that are timed by operation
constexpr std::size_t kRankedEvery = 4;      // places: the best K are compared at every fourth
constexpr std::uint32_t kEstimated = 64;     // at most: places where the errors of all estimates are counted

// One head: a session that chooses tokens with the sampling asked for, and one that ranks the K best. They are two
// because what a head reads for a token depends on how it fared with the ones before.
struct Subject {
  Subject(const api::Model& model, std::uint32_t context, const ReportArgs& args, std::uint32_t ranks,
          const std::string& name)
      : head(name), choosing(model, context), ranking(model, context) {
    weft_sampling best = weft_sampling_default();
    best.temperature = best.top_p = best.repeat_penalty = 1;
    best.min_p = 0;
    best.top_k = ranks;
    ranking.set_sampling(best);
    choosing.set_sampling(args.sampling);
    for (api::Session* session : {&choosing, &ranking}) set_head(*session, "--heads", name);
  }

  std::string head;
  api::Session choosing, ranking;
  std::vector<double> rows, bytes, seconds;  // a token each
  std::uint64_t agreed = 0, refined = 0;
  double recall = 0, kl = 0;         // sums over the ranked places
  std::optional<double> head_share;  // of the device's time of a token
  HeadErrors errors;
};

// The K best, best first; the lower id among equals.
Logits best_of(Logits logits, std::size_t k) {
  const auto better = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  k = std::min(k, logits.size());
  std::partial_sort(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(k), logits.end(), better);
  logits.resize(k);
  return logits;
}

// ln of the sum of e^logit.
double log_sum(const Logits& logits) {
  double most = -INFINITY, sum = 0;
  for (const auto& [id, logit] : logits) most = std::max<double>(most, logit);
  for (const auto& [id, logit] : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
}

// How full ranks the vocabulary at one place of the text.
struct Ranking {
  explicit Ranking(const Logits& all, std::size_t k) : best(best_of(all, k)), log_p(all.size()) {
    const double total = log_sum(all);
    for (const auto& [id, logit] : all) log_p[id] = logit - total;
    for (const auto& [id, logit] : best) ids.insert(id);
    own = divergence(best);
  }

  // KL(q || p), nats: q is the softmax of these logits, p full's over the whole vocabulary.
  double divergence(const Logits& logits) const {
    const double total = log_sum(logits);
    double sum = 0;
    for (const auto& [id, logit] : logits) sum += std::exp(logit - total) * (logit - total - log_p[id]);
    return sum;
  }

  Logits best;
  std::set<std::uint32_t> ids;  // of the best
  std::vector<double> log_p;    // by id
  double own = 0;               // what cutting to the best costs by itself
};

std::uint32_t choose(Subject& subject, const std::vector<std::uint32_t>& prefix) {
  const weft_stats before = subject.choosing.stats();
  std::uint32_t chosen = 0;
  subject.choosing.prompt(prefix);
  subject.choosing.generate(
      1, [&chosen](std::uint32_t id, std::string_view) { return chosen = id, true; }, true);
  const weft_stats after = subject.choosing.stats();
  subject.rows.push_back(static_cast<double>(after.head_rows - before.head_rows));
  subject.bytes.push_back(static_cast<double>(after.head_bytes - before.head_bytes));
  subject.seconds.push_back(after.first_token_seconds);
  subject.refined += after.head_refined - before.head_refined;
  return chosen;
}

void rank(Subject& subject, const std::vector<std::uint32_t>& prefix, const Ranking& full, std::size_t ranks) {
  subject.ranking.prompt(prefix);
  const Logits computed = subject.ranking.head_logits();
  const auto found = std::count_if(computed.begin(), computed.end(),
                                   [&full](const auto& token) { return full.ids.contains(token.first); });
  subject.recall += static_cast<double>(found) / static_cast<double>(full.ids.size());
  subject.kl += full.divergence(best_of(computed, ranks)) - full.own;
}

// The subjects; the first is full. At every place of the text all take a turn.
class Report {
 public:
  Report(const ReportArgs& args, const api::Model& model, std::uint32_t context)
      : args_(args),
        context_(context),
        vocab_(model.info().vocab_size),
        ranks_(std::min(args.sampling.top_k > 0 ? args.sampling.top_k : kDefaultRanks, model.info().vocab_size)) {
    std::vector<std::string> names = {"full"};
    for (const std::string& head : args.heads) {
      if (std::find(names.begin(), names.end(), head) == names.end()) names.push_back(head);
    }
    for (const std::string& name : names) subjects_.emplace_back(model, context, args, ranks_, name);
  }

  // Windows of the context's size, begin-of-text first in each, every one half of one further than the last; each token
  // counts in the first window that holds it.
  void run(const std::vector<std::uint32_t>& bos, const std::vector<std::uint32_t>& text) {
    ProgressBar bar("comparing", {static_cast<double>(args_.tokens), "tokens"});
    const std::size_t room = context_ - bos.size();
    std::vector<std::uint32_t> prefix;
    std::size_t done = bos.empty() ? 1 : 0;  // the first token has nothing before it
    for (std::size_t start = 0; done < text.size() && tokens_ < args_.tokens;
         start += std::max<std::size_t>(room / 2, 1)) {
      prefix = bos;
      prefix.insert(prefix.end(), text.begin() + static_cast<std::ptrdiff_t>(start),
                    text.begin() + static_cast<std::ptrdiff_t>(done));
      for (const std::size_t end = std::min(start + room, text.size()); done < end && tokens_ < args_.tokens; ++done) {
        step(prefix);
        prefix.push_back(text[done]);
        bar.update(static_cast<double>(tokens_) / args_.tokens);
      }
    }
    bar.hide();
    if (tokens_ == 0)
      throw api::Failure(WEFT_BAD_FILE, "the text is too short to predict a token of it", "-f " + args_.file);
    prefix.pop_back();
    for (Subject& subject : subjects_) time_stages(subject, prefix);
  }

  Json json(const weft_model_info& info) const;
  void print(const weft_model_info& info) const;
  Plot plot(const weft_model_info& info) const;
  std::vector<NamedErrors> errors() const;

  // Certified heads are proven: when one is wrong, the proof is.
  void check() const {
    for (const Subject& subject : subjects_) {
      if (subject.head == "certified" && subject.agreed != tokens_) {
        throw api::Failure(WEFT_INTERNAL,
                           format("certified chose another token than full %zu times, first at token %zu",
                                  tokens_ - subject.agreed, first_difference_),
                           "head-report", "this is a bug in Weft or in the driver: please report it");
      }
    }
  }

 private:
  void step(const std::vector<std::uint32_t>& prefix) {
    std::uint32_t expected = 0;
    for (Subject& subject : subjects_) {
      const bool first = &subject == &subjects_.front();
      const std::uint32_t chosen = choose(subject, prefix);
      if (first) expected = chosen;
      if (chosen == expected)
        ++subject.agreed;
      else if (subject.head == "certified" && subject.agreed == tokens_)
        first_difference_ = tokens_;
    }
    if (tokens_ % kRankedEvery == 0) rank_all(prefix);
    ++tokens_;
  }

  void rank_all(const std::vector<std::uint32_t>& prefix) {
    subjects_.front().ranking.prompt(prefix);
    const Ranking full(subjects_.front().ranking.head_logits(), ranks_);
    constexpr std::size_t kApart = kEstimated * kRankedEvery;
    const bool estimated = ranked_ % ((args_.tokens + kApart - 1) / kApart) == 0;
    for (std::size_t i = 1; i < subjects_.size(); ++i) {
      rank(subjects_[i], prefix, full, ranks_);
      if (estimated) subjects_[i].errors.add(subjects_[i].ranking, vocab_);
    }
    subjects_.front().recall += 1;
    ++ranked_;
  }

  // A session times an operation of the third token of a generate: some are run from places along the text, the last
  // place first, so that what is cached of the text stays.
  void time_stages(Subject& subject, std::vector<std::uint32_t> prefix) const {
    const std::set<std::string> ours = {"quantise", "estimate", "leaders", "cut",
                                        "select",   "refine",   "project", "project_rows"};
    const std::size_t stride = std::max<std::size_t>(prefix.size() / (kTimed + 1), 1);
    for (int i = 0; i < kTimed && prefix.size() > stride; ++i, prefix.resize(prefix.size() - stride)) {
      if (prefix.size() + 3 > context_) continue;
      subject.choosing.prompt(prefix);
      subject.choosing.generate(3, {}, true);
    }
    const weft_stats stats = subject.choosing.stats();
    if (stats.stage_count == 0) return;
    subject.head_share = 0;
    for (std::size_t i = 0; i < stats.stage_count; ++i) {
      if (ours.contains(stats.stages[i].name)) *subject.head_share += stats.stages[i].share;
    }
  }

  const ReportArgs& args_;
  const std::uint32_t context_, vocab_, ranks_;
  std::vector<Subject> subjects_;
  std::size_t tokens_ = 0, ranked_ = 0;  // places
  std::size_t first_difference_ = 0;     // between full and certified
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The nearest rank.
double percentile(std::vector<double> values, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  std::sort(values.begin(), values.end());
  return values[std::max<std::size_t>(rank, 1) - 1];
}

Json spread_json(const std::vector<double>& values) {
  return {{"mean", mean(values)}, {"p50", percentile(values, 0.5)}, {"p99", percentile(values, 0.99)}};
}

Json Report::json(const weft_model_info& info) const {
  const auto tokens = static_cast<double>(tokens_), ranked = static_cast<double>(ranked_);
  const double full_bytes = mean(subjects_.front().bytes), full_seconds = percentile(subjects_.front().seconds, 0.5);
  Json heads = Json::array();
  for (const Subject& subject : subjects_) {
    const double seconds = percentile(subject.seconds, 0.5);
    Json one = {{"head", subject.head},
                {"rows", spread_json(subject.rows)},
                {"bytes", spread_json(subject.bytes)},
                {"share_of_full", mean(subject.bytes) / full_bytes},
                {"refined_rows", static_cast<double>(subject.refined) / tokens},
                {"agreement", static_cast<double>(subject.agreed) / tokens},
                {"recall", subject.recall / ranked},
                {"kl", subject.kl / ranked},
                {"token_ms", seconds * 1e3},
                {"token_of_full", seconds / full_seconds},
                {"head_share", nullptr},
                {"head_ms", nullptr},
                {"errors", subject.errors.json()}};
    if (subject.head_share) {
      one["head_share"] = *subject.head_share;
      one["head_ms"] = *subject.head_share * seconds * 1e3;
    }
    heads.push_back(one);
  }
  const weft_sampling& s = args_.sampling;
  return {{"tokens", tokens_},
          {"ranked", ranked_},
          {"context", context_},
          {"ranks", ranks_},
          {"sampling",
           {{"temperature", s.temperature},
            {"top_k", s.top_k},
            {"top_p", s.top_p},
            {"min_p", s.min_p},
            {"repeat_penalty", s.repeat_penalty},
            {"seed", s.seed}}},
          {"device", info.device},
          {"driver", info.driver},
          {"type", info.type},
          {"rows", info.vocab_size},
          {"heads", heads}};
}

// The first column to the left, the others to the right.
void print_columns(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string blanks(widths[i] - line[i].size(), ' ');
      std::cout << (i == 0 ? line[i] + blanks : "  " + blanks + line[i]);
    }
    std::cout << '\n';
  }
}

void print_errors(const std::vector<NamedErrors>& heads) {
  if (heads.empty()) return;
  std::cout << "\nerrors of estimates, in standard deviations\n\n";
  std::vector<std::vector<std::string>> lines = {
      {"head", "allowed", "largest", "rms", "above 3", "above 4", "above 5"}};
  for (const NamedErrors& head : heads) {
    const HeadErrors& e = *head.errors;
    lines.push_back({head.head, format("%.2f", e.allowed()), format("%.2f", e.largest()), format("%.2f", e.rms())});
    for (const double deviations : {3, 4, 5}) lines.back().push_back(format("%.1e", e.beyond(deviations)));
  }
  lines.push_back({"normal", "", "", "1.00"});
  for (const double deviations : {3, 4, 5}) lines.back().push_back(format("%.1e", normal_beyond(deviations)));
  print_columns(lines);
}

void Report::print(const weft_model_info& info) const {
  const auto number = [](const Json& value, const char* suffix, int digits, double scale) {
    return value.is_null() ? "-" : format("%.*f%s", digits, value.get<double>() * scale, suffix);
  };
  std::cout << format("%zu tokens, %s; %u rows of %s; %s\n\n", tokens_,
                      args_.sampling.temperature == 0 ? "greedy" : "sampled", info.vocab_size, info.type, info.device);
  std::vector<std::vector<std::string>> lines = {{"head", "rows", "p50", "p99", "KiB", "p50", "p99", "of full", "same",
                                                  format("top %u", ranks_), "KL", "refined", "ms", "x full",
                                                  "head ms"}};
  const Json all = json(info);
  for (const Json& one : all["heads"]) {
    std::vector<std::string> line = {one["head"]};
    for (const char* part : {"mean", "p50", "p99"}) line.push_back(number(one["rows"][part], "", 0, 1));
    for (const char* part : {"mean", "p50", "p99"}) line.push_back(number(one["bytes"][part], "", 1, 1.0 / 1024));
    line.push_back(number(one["share_of_full"], "%", 1, 100));
    line.push_back(number(one["agreement"], "%", 2, 100));
    line.push_back(number(one["recall"], "%", 2, 100));
    line.push_back(number(one["kl"], "", 4, 1));
    line.push_back(number(one["refined_rows"], "", 0, 1));
    line.push_back(number(one["token_ms"], "", 3, 1));
    line.push_back(number(one["token_of_full"], "", 2, 1));
    line.push_back(number(one["head_ms"], "", 3, 1));
    lines.push_back(line);
  }
  print_columns(lines);
  print_errors(errors());
}

std::vector<NamedErrors> Report::errors() const {
  std::vector<NamedErrors> all;
  for (const Subject& subject : subjects_)
    if (!subject.errors.empty()) all.push_back({subject.head, &subject.errors});
  return all;
}

Plot Report::plot(const weft_model_info& info) const {
  Plot plot;
  plot.title = format("%s: %zu tokens, %s, table of %u rows", model_name(args_.model.model).c_str(), tokens_, info.type,
                      info.vocab_size);
  double most = 100, least = 100;
  const double full = mean(subjects_.front().bytes);
  for (const Subject& subject : subjects_) {
    const double agreement = 100 * static_cast<double>(subject.agreed) / static_cast<double>(tokens_);
    plot.points.push_back({subject.head, 100 * mean(subject.bytes) / full, agreement});
    most = std::max(most, plot.points.back().x);
    least = std::min(least, agreement);
  }
  plot.x = {"bytes read, of full's", 0, 20 * std::ceil(most / 20), 20};
  const double from = least >= 90 ? 90 : least >= 50 ? 50 : 0;
  plot.y = {"same token as full", from, 100, from == 90 ? 2.0 : from == 50 ? 10.0 : 20.0};
  return plot;
}

void head_report(const ReportArgs& args) {
  if (!args.plot.empty()) require_writable("--plot", args.plot);
  if (!args.plot_errors.empty()) require_writable("--plot-errors", args.plot_errors);
  const std::string text = read_text(args.file);
  const api::Model model = load_model(args.model);
  const weft_model_info info = model.info();
  Report report(args, model, session_context(args.model, info));
  report.run(model.tokenize({}, true), model.tokenize(text, false, true));
  if (args.json) {
    print_json(report.json(info));
  } else {
    report.print(info);
  }
  if (!args.plot.empty()) write_plot(report.plot(info), args.plot);
  if (!args.plot_errors.empty())
    write_plot(plot_of(report.errors(),
                       format("%s: errors of estimates, %s", model_name(args.model.model).c_str(), info.type)),
               args.plot_errors);
  report.check();
}

}  // namespace

void add_head_report(CLI::App& app) {
  auto args = std::make_shared<ReportArgs>();
  CLI::App* command = app.add_subcommand(
      "head-report", "Compare heads along a text: what they read of the vocabulary table, and what they choose");
  add_model_options(command, args->model);
  add_ctx_option(command, args->model);
  command->add_option("-f,--file", args->file, "the text")->type_name("TEXT")->required();
  command
      ->add_option("--heads", args->heads,
                   "heads to compare with full, with blanks between them; generate --help explains them")
      ->type_name("HEAD ...")
      ->default_str("full certified sure fast");
  command->add_option("--max-tokens", args->tokens, "most places of the text to compare")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(1));
  command->add_option("--plot", args->plot, "draw agreement over bytes as PNG, SVG or PDF")->type_name("PICTURE");
  command->add_option("--plot-errors", args->plot_errors, "draw the errors of estimates as PNG, SVG or PDF")
      ->type_name("PICTURE");
  add_sampling_options(command, args->sampling);
  args->sampling.temperature = 0;
  command->get_option("--temperature")->default_str("0");
  add_json_option(command, args->json);
  command->footer(
      "Method: the tokens of the text are given one after the other, whatever the heads choose. At each place\n"
      "every head chooses a token, in sessions of its own. A text of more than --ctx tokens is read in windows,\n"
      "as by perplexity. Rows, KiB and ms are for one token.\n"
      "rows:     rows whose logits are computed for the sampling options; p50 and p99: percentiles\n"
      "KiB:      read of the vocabulary table, estimates included\n"
      "of full:  KiB as a share of what full reads\n"
      "same:     share of the tokens that full also chooses with the same options\n"
      "top K:    share of full's K best logits that the head computes for top-k sampling, at every fourth\n"
      "          place; K: --top-k, or 40 if that is 0\n"
      "KL:       divergence, in nats, of the softmax over the head's K best tokens from full's whole\n"
      "          distribution, less that of full's own K best tokens, at the same places; 0 if they agree\n"
      "refined:  rows whose estimate is refined\n"
      "ms:       median time of a token that is computed alone\n"
      "x full:   ms as a multiple of full's\n"
      "head ms:  ms times the projection's share of the device's time in some timed tokens\n"
      "Errors: how far logits are above what the head estimates by the part of a row that it reads first, at up to\n"
      "64 of those places, in standard deviations of an error at random. allowed: what the head trusts an estimate "
      "to.");
  command->callback([args] { head_report(*args); });
}

}  // namespace weft::cli
