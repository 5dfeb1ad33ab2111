// The tokens of real models with guesses and without them. By default few of pocket; the soak takes 20,000 of pocket
// and of SmolLM2 for each kind of guess and each setting.
//
// WEFT_GUESS_TOKENS: number of tokens. WEFT_GUESS_LOG: a file that gets a line of JSON for each text and kind; texts
// that are there are not computed again, so a run can be done in pieces. WEFT_GUESS_SECONDS: time limit of each test.
// WEFT_GUESS_KINDS: only these of draft, lookup, medusa and trees.
// The tests print the sums of the file.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "grammar/matcher.h"
#include "reference/penalize.h"
#include "reference/sample.h"
#include "session/batch.h"
#include "session/draft_model.h"
#include "session/lookup.h"
#include "session/medusa.h"
#include "support/model_test.h"
#include "support/soak_log.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<uint32_t>;

constexpr uint32_t kContext = 512;
// Rounding alone explains different tokens if their scores differ by at most this many standard deviations of the
// logits' rounding there.
constexpr double kTie = 4;
constexpr double kSure = 1e3;
constexpr size_t kBatch = 8;

// These guess whether it pays or not, so that a text has the same passes on every machine.
class AnyLookup : public Lookup {
 public:
  // Costs of passes as once measured on lavapipe, in one-token passes.
  void passed(uint32_t tokens, double) override {
    Lookup::passed(tokens, tokens == 1 ? 1 : tokens == 2 ? 1.3 : tokens == 4 ? 1.7 : 2.8);
  }
  // A batch uses its own pass costs: it always verifies drafts only if their chances are higher than any real ones.
  std::span<const uint32_t> offer(std::span<double> chances) override {
    const std::span<const uint32_t> guesses = Lookup::offer(chances);
    std::ranges::fill(chances, kSure);
    return guesses;
  }
};

class AnyDraft : public Drafter {
 public:
  AnyDraft(Session& draft, const Session& of, size_t count) : model_(draft, of), count_(count) {}
  void begin(std::span<const uint32_t> ids) override { model_.begin(ids); }
  void append(uint32_t id) override { model_.append(id); }
  std::span<const uint32_t> draft(size_t most) override { return model_.guess(std::min(most, count_)); }
  std::span<const uint32_t> offer(std::span<double> chances) override {
    std::ranges::fill(chances, kSure);
    return draft(chances.size());
  }
  bool guesses_in_batches() const override { return true; }
  void passed(uint32_t, double) override {}

 private:
  DraftModel model_;
  size_t count_;
};

class AnyMedusa : public Drafter {
 public:
  AnyMedusa(Session& of, std::shared_ptr<const ModelFile> file, bool trees)
      : heads_(of, std::move(file)), trees_(trees) {}
  void begin(std::span<const uint32_t> ids) override { heads_.begin(ids); }
  void append(uint32_t id) override { heads_.append(id); }
  std::span<const uint32_t> draft(size_t most) override {
    const std::span<const uint32_t> all = heads_.guess();
    return all.first(std::min(most, all.size()));
  }
  DraftTree draft_tree(size_t most) override { return trees_ ? heads_.guess_tree(most) : DraftTree{draft(most), {}}; }
  void passed(uint32_t, double) override {}
  void leave_device() override { heads_.leave_device(); }

 private:
  Medusa heads_;
  bool trees_;
};

struct Setting {
  const char* name;
  Sampling sampling;
  const char* regex = nullptr;
};
const Setting kSettings[] = {
    {"greedy", greedy()},
    {"penalties", {.temperature = 0, .repeat_penalty = 1.1f, .presence_penalty = 0.2f, .frequency_penalty = 0.1f}},
    {"grammar", greedy(), "([A-Z0-9][A-Za-z0-9 ,':;\"-]{8,70}[.?!] ){3,40}"},
    {"sampled", {.temperature = 0.8f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 1}},
};

// Comparisons so far, by kinds of guesses.
class Log : public SoakLog {
 public:
  explicit Log(Json key) : SoakLog("WEFT_GUESS_LOG", std::move(key)) {}
  size_t texts() const {  // the first ones, which are there
    size_t texts = 0;
    for (const Json& line : lines()) texts = std::max(texts, line["text"].get<size_t>() + 1);
    return texts;
  }
  size_t tokens(const std::string& kind) const {
    size_t tokens = 0;
    for (const Json& line : lines())
      if (line["kind"] == kind) tokens += line["tokens"].get<size_t>();
    return tokens;
  }
  void print() const {
    std::map<std::string, Sum> sums;
    for (const Json& line : lines()) {
      Sum& sum = sums[line["kind"]];
      for (const char* const of : {"tokens", "passes", "drafted", "accepted"}) sum.of[of] += line[of].get<size_t>();
      sum.partings += line["partings"].size();
      for (const Json& parting : line["partings"]) sum.widest = std::max(sum.widest, parting["gap"].get<double>());
    }
    for (auto& [kind, sum] : sums)
      std::cout << key()["model"] << ' ' << key()["setting"] << ' ' << kind << ": " << sum.of["tokens"] << " tokens, "
                << sum.partings << " partings with gaps of at most " << sum.widest << ", " << sum.of["accepted"]
                << " of " << sum.of["drafted"] << " guesses right in " << sum.of["passes"] << " passes" << std::endl;
  }

 private:
  struct Sum {
    std::map<std::string, size_t> of;
    size_t partings = 0;
    double widest = 0;  // gap of scores at a parting
  };
};

struct Real {
  std::string name;
  std::filesystem::path path, heads;  // no path: no Medusa heads
  std::function<std::string(size_t number)> prompt;
  uint32_t tokens;  // of a text, at most
};

class GuessesTest : public GpuTest, public testing::WithParamInterface<Setting> {
 protected:
  // Compares texts one after the other, until each kind of guess has had `tokens` tokens.
  void compare(const Real& real, double tokens);
  // The same for texts in batches of kBatch sessions: half of them guess by lookup, half with a draft model.
  void compare_batches(const Real& real, double tokens);

 private:
  void load(const Real& real);
  std::unique_ptr<Session> session() const;
  Ids prompt(const Real& real, size_t number) const;
  Json parting(const Ids& prompt, const Ids& want, size_t done, uint32_t got);
  Json follow(Session& checked, const Ids& prompt, const Ids& want);
  double gap(const Ids& prompt, std::span<const uint32_t> said, uint32_t one, uint32_t other);
  double rounding(const Ids& prompt, std::span<const uint32_t> said);

  std::unique_ptr<Model> model_, half_;  // the latter's guesses are often right
  std::optional<Tokenizer> tokenizer_;
  std::shared_ptr<const TokenTrie> trie_;
};

std::unique_ptr<Session> GuessesTest::session() const {
  auto made = std::make_unique<Session>(*model_, kContext, Ids());
  made->set_sampling(GetParam().sampling);
  if (GetParam().regex)
    made->set_matcher(std::make_unique<Matcher>(
        std::make_shared<const Grammar>(Grammar::from_regex(GetParam().regex, "test")), trie_, tokenizer_->stop_ids()));
  return made;
}

// Difference of two tokens' scores after `said`, by the plain session.
double GuessesTest::gap(const Ids& prompt, std::span<const uint32_t> said, uint32_t one, uint32_t other) {
  Ids context = prompt;
  context.insert(context.end(), said.begin(), said.end());
  const Sampling& sampling = GetParam().sampling;
  Session scorer(*model_, kContext, {});
  scorer.prompt(context);
  const std::vector<float> logits = scorer.logits();
  std::vector<bool> seen(logits.size());
  for (const uint32_t id : context) seen[id] = true;
  reference::Additions additions = {{}, Ids(logits.size()), sampling.presence_penalty, sampling.frequency_penalty};
  for (const uint32_t id : said) ++additions.counts[id];
  const double inverse = sampling.temperature > 0 ? 1 / double{sampling.temperature} : 0;
  std::vector<double> scores = reference::penalize(logits, seen, sampling.repeat_penalty, inverse, 0, additions);
  if (inverse > 0)
    for (const uint32_t id : {one, other})
      scores[id] += reference::noise(sampling.seed, static_cast<uint32_t>(context.size()), id);
  return scores[one] - scores[other];
}

// Effect of rounding on the logits after `said`: the root mean square of their difference between the context in passes
// of one token and in passes of many. These add up in another order, and now and then round a key or value of the cache
// the other way.
double GuessesTest::rounding(const Ids& prompt, std::span<const uint32_t> said) {
  Ids context = prompt;
  Session by_ones(*model_, kContext, {}), by_many(*model_, kContext, {});
  by_ones.prompt(context);
  std::vector<float> ones = by_ones.logits();
  for (const uint32_t id : said) {
    context.push_back(id);
    by_ones.prompt(context);
    ones = by_ones.logits();  // computes what the prompt has
  }
  by_many.prompt(context);
  const std::vector<float> many = by_many.logits();
  double squares = 0;
  for (size_t i = 0; i < ones.size(); ++i) squares += std::pow(double{ones[i]} - many[i], 2);
  return std::sqrt(squares / static_cast<double>(ones.size()));
}

// Reports a place where a text with guesses has another token. Both must be equally good, up to rounding.
Json GuessesTest::parting(const Ids& prompt, const Ids& want, size_t done, uint32_t got) {
  const std::span<const uint32_t> said = std::span(want).first(done);
  const double apart = std::abs(gap(prompt, said, want[done], got));
  const double temperature = GetParam().sampling.temperature > 0 ? GetParam().sampling.temperature : 1;
  const double rounded = rounding(prompt, said) / temperature;
  Json parting = {{"after", done}, {"without", want[done]}, {"with", got}, {"gap", apart}, {"rounding", rounded}};
  EXPECT_LE(apart, kTie * rounded) << parting;
  return parting;
}

Json line_of(size_t tokens, const SessionStats& before, const SessionStats& after, const Json& partings) {
  return {{"tokens", tokens},
          {"passes", after.checks - before.checks},
          {"drafted", after.drafted_tokens - before.drafted_tokens},
          {"accepted", after.accepted_tokens - before.accepted_tokens},
          {"partings", partings}};
}

// Generates with guesses, and compares with the text without them. Where the token differs, both scores must be equal
// up to rounding; the session then goes on from the text without guesses, unless penalties or a grammar count from the
// prompt on.
Json GuessesTest::follow(Session& checked, const Ids& prompt, const Ids& want) {
  const SessionStats before = checked.stats();
  Json partings = Json::array();
  size_t done = 0;
  const bool goes_on = !GetParam().regex && GetParam().sampling.presence_penalty == 0;
  while (done < want.size()) {
    Ids context = prompt;
    context.insert(context.end(), want.begin(), want.begin() + static_cast<ptrdiff_t>(done));
    const Ids got = generate(checked, context, static_cast<uint32_t>(want.size() - done));
    size_t same = 0;
    while (same < got.size() && got[same] == want[done + same]) ++same;
    done += same;
    if (same == got.size()) {
      EXPECT_EQ(done, want.size());
      break;
    }
    partings.push_back(parting(prompt, want, done, got[same]));
    if (!goes_on) break;
    ++done;  // the token of the tie itself is no longer compared
  }
  return line_of(done, before, checked.stats(), partings);
}

void GuessesTest::load(const Real& real) {
  model_ = load_model(open_device(), real.path, std::nullopt);
  half_ = load_model(open_device(), real.path, Format::q4);
  tokenizer_.emplace(Tokenizer::from_gguf(open_model(real.path).metadata, real.name));
  trie_ = std::make_shared<const TokenTrie>(tokenizer_->token_bytes());
}

Ids GuessesTest::prompt(const Real& real, size_t number) const {
  const Ids ids = tokenizer_->encode(real.prompt(number), Tokenizer::Special::parse);
  EXPECT_LE(ids.size() + real.tokens, kContext);
  return ids;
}

void GuessesTest::compare_batches(const Real& real, double tokens) {
  const Deadline deadline("WEFT_GUESS_SECONDS");
  load(real);
  const std::unique_ptr<Session> plain = session();
  std::vector<std::unique_ptr<Session>> drafts, checked;
  for (size_t i = 0; i < kBatch; ++i) {
    drafts.push_back(std::make_unique<Session>(*half_, kContext, Ids()));
    checked.push_back(session());
    if (i % 2 == 0) checked[i]->set_drafter(std::make_unique<AnyLookup>());
  }
  Log log({{"model", real.name},
           {"device", model_->device->caps().name},
           {"setting", std::string(GetParam().name) + ", in batches"}});
  const auto kind = [](size_t i) { return i % 2 == 0 ? "lookup" : "draft"; };
  while ((log.tokens("lookup") < tokens || log.tokens("draft") < tokens) && !deadline.passed()) {
    const size_t first = log.texts();
    std::vector<Ids> prompts, wants, said(kBatch);
    std::vector<BatchEntry> entries;
    std::vector<SessionStats> before;
    for (size_t i = 0; i < kBatch; ++i) {
      prompts.push_back(prompt(real, first + i));
      wants.push_back(generate(*plain, prompts[i], real.tokens));
      if (i % 2 == 1)
        checked[i]->set_drafter(
            std::make_unique<AnyDraft>(*drafts[i], *checked[i], 1 + (first / kBatch + i) % kMostDrafted));
      checked[i]->prompt(prompts[i]);
      before.push_back(checked[i]->stats());
      entries.push_back(
          {*checked[i], real.tokens, true, [&said, i](uint32_t id) { return said[i].push_back(id), true; }});
    }
    generate_batch(entries);
    for (size_t i = 0; i < kBatch; ++i) {
      SCOPED_TRACE(std::string(kind(i)) + ", text " + std::to_string(first + i));
      ASSERT_EQ(said[i].size(), wants[i].size());
      const size_t same = static_cast<size_t>(std::ranges::mismatch(said[i], wants[i]).in1 - said[i].begin());
      Json partings = Json::array();
      if (same < wants[i].size()) partings.push_back(parting(prompts[i], wants[i], same, said[i][same]));
      Json line = line_of(same, before[i], checked[i]->stats(), partings);
      line["kind"] = kind(i), line["text"] = first + i;
      log.add(std::move(line));
    }
  }
  log.print();
}

void GuessesTest::compare(const Real& real, double tokens) {
  const Deadline deadline("WEFT_GUESS_SECONDS");
  load(real);
  const std::unique_ptr<Session> plain = session();
  Session draft(*half_, kContext, {});
  std::map<std::string, std::unique_ptr<Session>> checked;
  for (const char* kind : {"lookup", "draft"}) checked[kind] = session();
  for (const char* kind : {"medusa", "trees"}) {
    if (real.heads.empty()) break;
    checked[kind] = session();
    checked[kind]->set_drafter(std::make_unique<AnyMedusa>(
        *checked[kind], std::make_shared<const ModelFile>(open_model(real.heads)), std::string(kind) == "trees"));
  }
  checked["lookup"]->set_drafter(std::make_unique<AnyLookup>());
  if (const char* const wanted = std::getenv("WEFT_GUESS_KINDS"))
    std::erase_if(checked, [&](const auto& one) { return std::string(wanted).find(one.first) == std::string::npos; });
  Log log({{"model", real.name}, {"device", model_->device->caps().name}, {"setting", GetParam().name}});
  const auto enough = [&] {
    return std::ranges::all_of(checked, [&](const auto& one) { return log.tokens(one.first) >= tokens; });
  };
  for (size_t number = log.texts(); !enough(); ++number) {
    if (deadline.passed()) break;
    const Ids prompt = this->prompt(real, number);
    const Ids want = generate(*plain, prompt, real.tokens);
    if (const auto drafted = checked.find("draft"); drafted != checked.end())
      drafted->second->set_drafter(std::make_unique<AnyDraft>(draft, *drafted->second, 1 + number % kMostDrafted));
    for (const auto& [kind, session] : checked) {
      SCOPED_TRACE(kind + ", text " + std::to_string(number));
      Json line = follow(*session, prompt, want);
      line["kind"] = kind, line["text"] = number;
      log.add(std::move(line));
    }
  }
  log.print();
}

double tokens_asked(double otherwise) {
  const char* const asked = std::getenv("WEFT_GUESS_TOKENS");
  return asked ? std::atof(asked) : otherwise;
}

// The held-out prompts. After an answer, which the stop token does not end here, it makes up more of the dialogue.
Real pocket() {
  std::ifstream file(source_folder() / "apps/pocket/eval/prompts.jsonl");
  std::vector<std::string> prompts;
  for (std::string line; std::getline(file, line);) {
    std::string prompt;
    const Json conversation = Json::parse(line);
    for (const Json& message : conversation.at("messages"))
      prompt += "<|im_start|>" + message["role"].get<std::string>() + "\n" + message["content"].get<std::string>() +
                "<|im_end|>\n";
    prompts.push_back(prompt + "<|im_start|>assistant\n");
  }
  EXPECT_FALSE(prompts.empty());
  const std::filesystem::path folder = source_folder() / "apps/pocket";
  return {"pocket", folder / "pocket.gguf", folder / "pocket-medusa.gguf",
          [prompts](size_t number) { return prompts.at(number % prompts.size()); }, 150};
}

TEST_P(GuessesTest, Pocket) { compare(pocket(), tokens_asked(100)); }

TEST_P(GuessesTest, PocketInBatches) {
  if (GetParam().regex) GTEST_SKIP() << "a session with a grammar has passes of its own";
  compare_batches(pocket(), tokens_asked(100));
}

TEST_P(GuessesTest, SmolLM2) {
  const auto path = real_model("smollm2");
  if (!path || !std::getenv("WEFT_GUESS_TOKENS"))
    GTEST_SKIP() << "for WEFT_GUESS_TOKENS tokens, with SmolLM2 in the user's cache";
  const auto prompt = [](size_t number) {
    const auto ask = [](const std::string& what) {
      return "<|im_start|>user\n" + what + "<|im_end|>\n<|im_start|>assistant\n";
    };
    const std::string n = std::to_string(number);
    switch (number % 6) {
      case 0:
        return "Text " + n + ". Once upon a time there was";
      case 1:
        return "# Exercise " + n + "\nclass Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(";
      case 2:
        return ask("Tell me fact number " + n + " of the history of Rome.");
      case 3:
        return "A list of numbers: " + n + ", " + std::to_string(number + 1) + ", ";
      case 4:
        return ask(
            "Repeat this text and write 'tower' for 'lighthouse': The old lighthouse stood on a narrow spit of "
            "rock. Every evening at " +
            n + " past six the keeper of the lighthouse climbed its steps.");
      default:
        return ask("Write a letter to room " + n + " and thank for the flowers.");
    }
  };
  // Heads are not published for it: those of a file that somebody has put there.
  compare({"smollm2", *path, real_model("smollm2-medusa").value_or(""), prompt, 250}, tokens_asked(0));
}

INSTANTIATE_TEST_SUITE_P(Settings, GuessesTest, testing::ValuesIn(kSettings),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace weft::test
