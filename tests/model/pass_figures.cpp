// Times of passes of several tokens, by operation, for docs/notes/speculation.md: run by hand with WEFT_FIGURES=1.
// WEFT_FIGURES_MODEL=smollm2 takes that model in place of pocket. Prints a table in Markdown.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>

#include "session/continuous_batch.h"
#include "session/lookup.h"
#include "support/model_test.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

constexpr uint32_t kContext = 160, kRounds = 15, kSizes[] = {1, 2, 4, 8, 16};

// A session whose last tokens are its own: whole drafts are then right, as in a pass of which all is of use.
std::unique_ptr<Session> said(const Model& model) {
  auto made = std::make_unique<Session>(model, kContext + 1, std::vector<uint32_t>());
  made->set_sampling(greedy());
  generate(*made, some_ids(kContext - 30, model.config.vocab), 30);
  return made;
}

PassTimes one_pass(Session& session, uint32_t tokens) {
  const bool checks = std::ranges::find(kDraftPasses, tokens) != std::end(kDraftPasses);
  return (checks ? session.time_checks(tokens, 2) : session.time_passes(tokens, 2)).back();  // the first warms up
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class PassFigures : public GpuTest {};

// Takes the sizes in turn, so that other work of the machine delays all alike.
TEST_F(PassFigures, ByStage) {
  if (!std::getenv("WEFT_FIGURES")) GTEST_SKIP() << "for WEFT_FIGURES=1";
  const char* const asked = std::getenv("WEFT_FIGURES_MODEL");
  const auto path = asked ? real_model(asked) : source_folder() / "apps/pocket/pocket.gguf";
  ASSERT_TRUE(path) << asked;
  if (!open_device()->caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  const auto model = load_model(open_device(), *path, std::nullopt);
  std::map<uint32_t, std::unique_ptr<Session>> sessions;
  std::map<std::string, std::map<uint32_t, std::vector<double>>> times;
  for (const uint32_t tokens : kSizes) sessions[tokens] = said(*model), one_pass(*sessions[tokens], tokens);
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::map<uint32_t, double> whole;
    for (const uint32_t tokens : kSizes) {
      const PassTimes pass = one_pass(*sessions[tokens], tokens);
      for (const Timestamps::Stage& stage : pass.stages) times[stage.name][tokens].push_back(stage.seconds * 1e3);
      whole[tokens] = pass.submitted;
      times["~ in all, from the CPU's side"][tokens].push_back(pass.submitted * 1e3);
      times["~ against one of the same round"][tokens].push_back(pass.submitted / whole[1]);
    }
  }
  std::cout << "| ms | 1 | 2 | 4 | 8 | 16, of a prompt |\n|---|---|---|---|---|---|\n";
  for (const auto& [name, by_size] : times) {
    std::cout << "| " << (name[0] == '~' ? name.substr(2) : name);
    for (const uint32_t tokens : kSizes)
      if (by_size.contains(tokens))
        std::cout << " | " << std::round(median(by_size.at(tokens)) * 100) / 100;
      else
        std::cout << " | -";
    std::cout << " |" << std::endl;
  }
}

constexpr char kStory[] =
    "The old lighthouse stood on a narrow spit of rock at the end of the bay. Every evening at six the keeper climbed "
    "its "
    "one hundred and twelve steps, trimmed the wick, and lit the lamp. Ships that came from the north saw it first as "
    "a "
    "faint star above the water, and then, as they drew nearer, as a slow and steady pulse. In winter the spray froze "
    "on "
    "the windows and had to be chipped away with a knife.";

// Sessions that each rewrite a text with a word of their own.
class Rewriting {
 public:
  Rewriting(const Model& model, const Tokenizer& tokenizer, uint32_t sessions, bool guesses) : batch_(model) {
    for (const char* word : {"tower", "castle", "house", "church", "mill", "barn", "temple", "fort"}) {
      if (sessions_.size() == sessions) break;
      prompts_.push_back(
          tokenizer.encode(std::string("<|im_start|>user\nRepeat this text word for word, but write \"") + word +
                               "\" for \"lighthouse\":\n\n" + kStory + "<|im_end|>\n<|im_start|>assistant\n",
                           Tokenizer::Special::parse));
      sessions_.push_back(std::make_unique<Session>(model, 512, std::vector<uint32_t>()));
      sessions_.back()->set_sampling(greedy());
      if (guesses) sessions_.back()->set_drafter(std::make_unique<Lookup>());
    }
  }
  // Tokens a second of all sessions together, from when each has one until the first has `count`.
  double rate(size_t count) {
    using Clock = std::chrono::steady_clock;
    std::vector<size_t> told(sessions_.size());
    size_t all = 0;
    Clock::time_point begin, end;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      sessions_[i]->prompt(prompts_[i]);
      batch_.add({*sessions_[i], 0, true, [&, i](uint32_t) {
                    ++told[i];
                    if (all > 0) ++all, end = Clock::now();
                    if (all == 0 && std::ranges::min(told) > 0) all = 1, begin = Clock::now();
                    return true;
                  }});
    }
    while (std::ranges::max(told) < count) batch_.step();
    const double seconds = std::chrono::duration<double>(end - begin).count();
    for (const auto& one : sessions_) one->cancel();
    while (batch_.size() > 0) batch_.step();
    for (const auto& one : sessions_) one->clear_cancel();
    return static_cast<double>(all - 1) / seconds;
  }
  // True if the sessions' texts agree with the other's, as far as both have come.
  bool agrees(const Rewriting& other) const {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      const std::vector<uint32_t>&a = sessions_[i]->ids(), &b = other.sessions_[i]->ids();
      const auto [x, y] = std::ranges::mismatch(a, b);
      if (x != a.end() && y != b.end()) return false;
    }
    return true;
  }
  SessionStats stats() const {
    SessionStats sum;
    for (const auto& one : sessions_) {
      sum.checks += one->stats().checks;
      sum.drafted_tokens += one->stats().drafted_tokens;
      sum.accepted_tokens += one->stats().accepted_tokens;
    }
    return sum;
  }

 private:
  std::vector<std::vector<uint32_t>> prompts_;
  std::vector<std::unique_ptr<Session>> sessions_;
  ContinuousBatch batch_;
};

// Alternates runs with and without guesses, after a round that learns the costs of passes.
TEST_F(PassFigures, Batches) {
  if (!std::getenv("WEFT_FIGURES")) GTEST_SKIP() << "for WEFT_FIGURES=1";
  const auto path = real_model("smollm2");
  ASSERT_TRUE(path);
  const auto model = load_model(open_device(), *path, std::nullopt);
  const Tokenizer tokenizer = Tokenizer::from_gguf(open_model(*path).metadata, path->string());
  const uint32_t rows = kMostBatchSlots;
  std::cout << activation_bytes(model->config, model->device->plan(), candidate_stride(*model), rows, rows)
            << " bytes of activations for " << rows << " rows\n";
  std::cout << "| sessions | guesses right | tokens/s without | with | ratio |\n|---|---|---|---|---|\n";
  for (const uint32_t sessions : {4u, 8u}) {
    Rewriting without(*model, tokenizer, sessions, false), with(*model, tokenizer, sessions, true);
    std::vector<double> rates[2], ratios;
    for (int round = 0; round < 6; ++round) {
      const double plain = without.rate(48), guessed = with.rate(48);
      EXPECT_TRUE(with.agrees(without));
      if (round == 0) continue;
      rates[0].push_back(plain), rates[1].push_back(guessed), ratios.push_back(guessed / plain);
    }
    const SessionStats stats = with.stats();
    std::cout << "| " << sessions << " | " << stats.accepted_tokens << " of " << stats.drafted_tokens << " | "
              << median(rates[0]) << " | " << median(rates[1]) << " | " << median(ratios) << " |" << std::endl;
  }
}

}  // namespace
}  // namespace weft::test
