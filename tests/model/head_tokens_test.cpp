// The tokens of real models by heads that promise those of `full`, in batches of 16 sessions along the pages of docs/.
// By default few; the soak takes 20,000 of each model, head and sampling.
//
// WEFT_HEAD_STEPS: number of tokens. WEFT_HEAD_LOG: a file that gets a line of JSON for each batch and head; batches
// that are there are not computed again, so a run can be done in pieces. WEFT_HEAD_SECONDS: time limit of each test.
// The tests print the sums of the file.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "run/hidden_states.h"
#include "session/batch.h"
#include "support/model_test.h"
#include "support/soak_log.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<uint32_t>;

constexpr uint32_t kSessions = 16, kPrompt = 32, kTokens = 64, kContext = 128;

struct Setting {
  const char* name;
  Sampling sampling;
};
const Setting kSettings[] = {
    {"greedy", greedy()},
    {"sampled", {.temperature = 1, .top_k = 40, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .seed = 1}},
};
const std::map<std::string, VocabHead::Mode> kHeads = {{"certified", VocabHead::Mode::certified},
                                                       {"sure", VocabHead::Mode::sure}};

// Comparisons so far, by heads.
class Log : public SoakLog {
 public:
  explicit Log(Json key) : SoakLog("WEFT_HEAD_LOG", std::move(key)) {}
  uint32_t batches() const {  // the first ones, which are there
    uint32_t batches = 0;
    for (const Json& line : lines()) batches = std::max(batches, line["batch"].get<uint32_t>() + 1);
    return batches;
  }
  size_t tokens() const {  // of each head
    size_t least = SIZE_MAX;
    for (const auto& [head, mode] : kHeads) least = std::min(least, static_cast<size_t>(sum(head, "tokens")));
    return least;
  }
  void print() const {
    for (const auto& [head, mode] : kHeads)
      std::cout << key()["device"] << ' ' << key()["model"] << ' ' << key()["setting"] << ' ' << head << ": "
                << sum(head, "tokens") << " tokens, " << sum(head, "parted") << " texts parted, "
                << sum(head, "bytes") / sum(head, "full") * 100 << "% of full's bytes" << std::endl;
  }

 private:
  double sum(const std::string& head, const char* what) const {
    double sum = 0;
    for (const Json& line : lines())
      if (line["head"] == head) sum += line[what].get<double>();
    return sum;
  }
};

// The pages of docs/, one after the other.
std::string own_texts() {
  std::vector<std::filesystem::path> pages;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  std::ranges::sort(pages);
  std::string text;
  for (const auto& page : pages) {
    std::ifstream file(page, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

// With the table in the basis that a user's load gives it.
std::unique_ptr<Model> load_with_states(const std::filesystem::path& path, const Tokenizer& tokenizer) {
  Ids text = tokenizer.encode(kStateText, Tokenizer::Special::plain);
  if (tokenizer.add_bos() && tokenizer.bos()) text.insert(text.begin(), *tokenizer.bos());
  const auto device = open_device();
  const auto first = load_model(device, path, std::nullopt);
  DeviceFormats formats;
  formats.states =
      std::make_shared<const StateStatistics>(statistics_of(hidden_states(*first, text), first->config.width).value());
  return load_model(device, path, formats);
}

class HeadTokensTest : public GpuTest, public testing::WithParamInterface<Setting> {
 protected:
  void compare(const std::string& name, const std::filesystem::path& path, size_t otherwise);

 private:
  std::vector<Ids> run(VocabHead::Mode mode, const std::vector<Ids>& prompts, double& bytes);

  std::unique_ptr<Model> model_;
  std::vector<std::unique_ptr<Session>> sessions_;
  uint32_t batch_ = 0;
};

// Returns the sessions' tokens after the prompts. bytes: set to the bytes that they read of the table.
std::vector<Ids> HeadTokensTest::run(VocabHead::Mode mode, const std::vector<Ids>& prompts, double& bytes) {
  VocabHead head;
  head.mode = mode;
  std::vector<Ids> said(kSessions);
  std::vector<BatchEntry> entries;
  double before = 0, after = 0;
  for (size_t i = 0; i < kSessions; ++i) {
    Session& session = *sessions_[i];
    session.set_head(head);
    Sampling sampling = GetParam().sampling;
    sampling.seed += batch_ * kSessions + i;
    session.set_sampling(sampling);
    // Nothing of the last run's context is kept: it would be computed in other pieces, and rounded differently.
    session.prompt(Ids{(prompts[i][0] + 1) % model_->config.vocab});
    session.prompt(prompts[i]);
    before += session.stats().head_bytes;
    entries.push_back({session, kTokens, true, [&said, i](uint32_t id) { return said[i].push_back(id), true; }});
  }
  generate_batch(entries);
  for (const auto& session : sessions_) after += session->stats().head_bytes;
  bytes = after - before;
  return said;
}

void HeadTokensTest::compare(const std::string& name, const std::filesystem::path& path, size_t otherwise) {
  const Deadline deadline("WEFT_HEAD_SECONDS");
  const char* const steps = std::getenv("WEFT_HEAD_STEPS");
  const size_t wanted = steps ? static_cast<size_t>(std::atoll(steps)) : otherwise;
  if (wanted == 0) GTEST_SKIP() << "for WEFT_HEAD_STEPS tokens";
  const ModelFile file = open_model(path);
  const Tokenizer tokenizer =
      file.kind == ModelFile::Kind::gguf
          ? Tokenizer::from_gguf(file.metadata, name)
          : Tokenizer::from_hf(file.tokenizer, file.tokenizer_config, file.generation_config, name);
  model_ = load_with_states(path, tokenizer);
  const Ids text = tokenizer.encode(own_texts(), Tokenizer::Special::plain);
  for (size_t i = 0; i < kSessions; ++i) sessions_.push_back(std::make_unique<Session>(*model_, kContext, Ids()));
  Log log({{"model", name}, {"device", model_->device->caps().name}, {"setting", GetParam().name}});
  for (batch_ = log.batches(); log.tokens() < wanted && !deadline.passed(); ++batch_) {
    std::vector<Ids> prompts;
    for (size_t i = 0; i < kSessions; ++i) {
      const size_t first = (batch_ * kSessions + i) * kPrompt % (text.size() - kPrompt);
      prompts.emplace_back(text.begin() + static_cast<ptrdiff_t>(first),
                           text.begin() + static_cast<ptrdiff_t>(first + kPrompt));
    }
    double shared = 0;  // full heads of a batch read the table once for all
    const std::vector<Ids> want = run(VocabHead::Mode::full, prompts, shared);
    const double full = static_cast<double>(model_->weights.output_table().bytes()) * kSessions * kTokens;
    for (const auto& [head, mode] : kHeads) {
      double bytes = 0;
      const std::vector<Ids> got = run(mode, prompts, bytes);
      size_t tokens = 0, parted = 0;
      for (size_t i = 0; i < kSessions; ++i) {
        EXPECT_EQ(got[i], want[i]) << head << ", batch " << batch_ << ", session " << i;
        tokens += static_cast<size_t>(std::ranges::mismatch(got[i], want[i]).in1 - got[i].begin());
        parted += got[i] != want[i];
      }
      log.add({{"head", head},
               {"batch", batch_},
               {"tokens", tokens},
               {"bytes", bytes},
               {"full", full},
               {"parted", parted}});
    }
  }
  log.print();
}

TEST_P(HeadTokensTest, Pocket) { compare("pocket", source_folder() / "apps/pocket/pocket.gguf", 1000); }

TEST_P(HeadTokensTest, Tinystories) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "../shared is not there";
  compare("tinystories-656K", *shared / "models/tinystories-656K", 0);
}

TEST_P(HeadTokensTest, SmolLM2) {
  const auto path = real_model("smollm2");
  if (!path) GTEST_SKIP() << "SmolLM2 is not in the user's cache";
  compare("smollm2", *path, 0);
}

TEST_P(HeadTokensTest, Gemma) {
  const auto path = real_model("gemma3-270m");
  if (!path) GTEST_SKIP() << "Gemma 3 270M is not in the user's cache";
  compare("gemma3-270m", *path, 0);
}

INSTANTIATE_TEST_SUITE_P(Settings, HeadTokensTest, testing::ValuesIn(kSettings),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace weft::test
