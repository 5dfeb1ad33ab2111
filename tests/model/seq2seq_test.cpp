// Encoder-decoders against Hugging Face Transformers: tiny random models of tests/tools/seq2seq_goldens.py.
#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "support/closeness.h"
#include "support/json_value.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using nlohmann::json;
using Ids = std::vector<uint32_t>;

std::filesystem::path golden_folder() { return source_folder() / "tests/model/golden_seq2seq"; }

constexpr uint32_t kContext = 160;
constexpr double kTolerance = 2e-3;  // of f16's logits, in units of the spread

struct Golden {
  Ids source, greedy;               // what the encoder reads; what the decoder writes after its start token
  std::vector<double> leads;        // of each greedy id over the second best, in units of the logits' spread
  std::vector<double> mean;         // of the encoder's states, of length 1
  std::vector<uint32_t> positions;  // of the decoder
  std::vector<std::vector<double>> logits;
};

std::vector<Golden> read_goldens(const std::filesystem::path& folder) {
  std::ifstream file(folder / "reference.json");
  std::vector<Golden> goldens;
  for (const json& item : json::parse(file))
    goldens.push_back({item["source"], item["greedy"], item["leads"], item["mean"], item["positions"], item["logits"]});
  return goldens;
}

Ids generate_after(Session& session, const Ids& source, std::span<const uint32_t> begun, size_t count) {
  session.prompt(source, begun);
  Ids ids;
  session.generate(static_cast<uint32_t>(count), true, [&](uint32_t id) {
    ids.push_back(id);
    return true;
  });
  return ids;
}

// All ids must be the reference's. If its two best are so close that the tolerance allows either, the text goes on with
// the reference's.
void expect_greedy_ids(Session& session, const Golden& golden) {
  session.set_sampling(greedy());
  for (size_t done = 0; done < golden.greedy.size();) {
    const std::span<const uint32_t> all = golden.greedy, want = all.subspan(done);
    const Ids got = generate_after(session, golden.source, all.first(done), want.size());
    ASSERT_EQ(got.size(), want.size());
    const auto same = static_cast<size_t>(std::ranges::mismatch(want, got).in1 - want.begin());
    if (same == want.size()) return;
    EXPECT_LT(golden.leads[done + same], 2 * kTolerance) << "id " << done + same;
    done += same + 1;
  }
}

class Seq2SeqTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  // The model's files: the folder, and GGUF if that has the family.
  std::vector<std::filesystem::path> files() const {
    if (const auto gguf = folder_ / "model.gguf"; std::filesystem::exists(gguf)) return {folder_, gguf};
    return {folder_};
  }

  std::filesystem::path folder_ = golden_folder() / GetParam();
  std::vector<Golden> goldens_ = read_goldens(folder_);
};

TEST_P(Seq2SeqTest, EqualsTransformersInF16) {
  for (const std::filesystem::path& path : files()) {
    SCOPED_TRACE(path.filename().string());
    const auto model = load_model(open_device(), path, Format::f16);
    Session session(*model, kContext, {});
    Encoder encoder(*model->weights.encoder, kContext);
    double worst = 0;
    std::span<const Golden> goldens = goldens_;
    if (path != folder_) goldens = goldens.subspan(1, 1);
    for (const Golden& golden : goldens) {
      SCOPED_TRACE(std::to_string(golden.source.size()) + " tokens");
      encoder.run(golden.source);
      EXPECT_LT(distance(golden.mean, encoder.embedding(Pooling::mean)), kTolerance);
      for (size_t i = 0; i < golden.positions.size(); ++i) {
        session.prompt(golden.source, std::span(golden.greedy).first(golden.positions[i]));
        worst = std::max(worst, distance(golden.logits[i], session.logits()));
      }
    }
    expect_greedy_ids(session, goldens.back());
    std::printf("%s: %.1e of the spread\n", path.filename().c_str(), worst);
    EXPECT_LT(worst, kTolerance);
  }
}

TEST_P(Seq2SeqTest, StaysCloseInQ8) {
  const Golden& golden = goldens_[1];
  std::vector<Ids> ids;
  for (const std::filesystem::path& path : files()) {
    SCOPED_TRACE(path.filename().string());
    const auto model = load_model(open_device(), path, Format::q8);
    Session session(*model, kContext, {});
    double worst = 0;
    for (size_t i = 0; i < golden.positions.size(); ++i) {
      session.prompt(golden.source, std::span(golden.greedy).first(golden.positions[i]));
      worst = std::max(worst, divergence(golden.logits[i], session.logits()));
    }
    std::printf("%s: %.1e nats\n", path.filename().c_str(), worst);
    EXPECT_LT(worst, 1e-3);
    session.set_sampling(greedy());
    for (const VocabHead::Mode mode : {VocabHead::Mode::full, VocabHead::Mode::certified}) {
      if (mode == VocabHead::Mode::certified && model->weights.logit_bias) continue;  // BiasesOfLogits below
      session.set_head({.mode = mode});
      ids.push_back(generate_after(session, golden.source, {}, 24));
    }
    if (model->weights.logit_bias) continue;
    EXPECT_EQ(ids[ids.size() - 2], ids.back()) << "certified";
  }
  EXPECT_EQ(ids.front(), ids.back()) << "GGUF";
}

TEST_P(Seq2SeqTest, RefusesAFileThatLacksATensor) {
  for (const std::filesystem::path& path : files()) {
    const size_t count = open_model(path).tensors.size();
    for (size_t i = 0; i < count; ++i) {
      ModelFile file = open_model(path);
      const std::string name = file.tensors[i].name;
      // Without one of these the head is tied, or the table is the head's.
      if (name == "output.weight" || name == "lm_head.weight" || name == "final_logits_bias") continue;
      if (name == "token_embd.weight" || name.ends_with("shared.weight")) continue;
      if (name.ends_with("embed_tokens.weight")) continue;
      file.tensors.erase(file.tensors.begin() + static_cast<ptrdiff_t>(i));
      file.index.clear();
      for (size_t place = 0; place < file.tensors.size(); ++place) file.index[file.tensors[place].name] = place;
      const auto load = [&] {
        Config config = read_config(file);
        load_weights(open_device(), file, config, Format::f16, [&](float) { ADD_FAILURE() << "uploaded " << name; });
      };
      EXPECT_THROW(load(), Error) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Seq2SeqTest,
                         testing::Values("t5", "t5-gated-untied", "t5-near", "bart", "bart-untied"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Seq2SeqSessionTest : public GpuTest {
 protected:
  std::unique_ptr<Model> model_ = load_model(open_device(), golden_folder() / "t5-gated-untied", Format::q8);
  std::vector<Golden> goldens_ = read_goldens(golden_folder() / "t5-gated-untied");
};

// A session's next input gives the same as a new session's first: after shorter and longer ones, and after the same.
TEST_F(Seq2SeqSessionTest, ReadsOneInputAfterAnother) {
  Session session(*model_, kContext, {});
  session.set_sampling(greedy());
  std::optional<size_t> previous;
  for (const size_t i : {2u, 0u, 0u, 1u, 2u}) {
    Session fresh(*model_, kContext, {});
    fresh.set_sampling(greedy());
    const uint64_t before = session.stats().prompt_tokens;
    const Ids begun = {7, 8, 9}, &source = goldens_[i].source;
    for (Session* each : {&session, &fresh}) each->prompt(source, begun);
    // With the same input only the last token is computed again, alone; a GPU's plan rounds that differently from
    // tiles.
    if (previous == i) fresh.logits();
    previous = i;
    EXPECT_EQ(session.logits(), fresh.logits());
    EXPECT_EQ(generate_after(session, source, begun, 12), generate_after(fresh, source, begun, 12));
    EXPECT_EQ(session.ids().front(), model_->config.start_token);
    EXPECT_EQ(session.ids().size(), 16u);
    EXPECT_GE(session.stats().prompt_tokens, before + 1);
  }
  session.reset();
  EXPECT_THROW(session.logits(), Error);
  EXPECT_EQ(generate_after(session, goldens_[2].source, {}, 4).size(), 4u);
}

TEST_F(Seq2SeqSessionTest, HeadsAgreeOnDraws) {
  std::vector<Ids> drawn;
  for (const VocabHead::Mode mode : {VocabHead::Mode::full, VocabHead::Mode::certified}) {
    Session session(*model_, kContext, {});
    session.set_head({.mode = mode});
    session.set_sampling(
        {.temperature = 0.9f, .top_k = 0, .top_p = 1, .min_p = 0.1f, .repeat_penalty = 1.2f, .seed = 7});
    drawn.push_back(generate_after(session, goldens_[1].source, {}, 40));
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  Session session(*model_, kContext, {});
  VocabHead head;
  head.keep = Ids{3, 17, 60, 99};
  head.keep_prompt = false;
  session.set_head(head);
  for (const uint32_t id : generate_after(session, goldens_[1].source, {}, 20))
    EXPECT_TRUE(std::ranges::count(*head.keep, id)) << id;
}

// The keys and values of the input too.
TEST_F(Seq2SeqSessionTest, KeepsKeysAndValuesAsQ8) {
  Session full(*model_, kContext, {}), session(*model_, kContext, {}, Format::q8);
  EXPECT_LT(session.kv_bytes(), full.kv_bytes());
  for (Session* each : {&full, &session}) each->prompt(goldens_[2].source, goldens_[2].greedy);
  const std::vector<float> want = full.logits();
  EXPECT_LT(divergence({want.begin(), want.end()}, session.logits()), 1e-3);
}

// The keys and values of the input are q8 then.
TEST_F(Seq2SeqSessionTest, KeepsOnlyItsOwnKeysAndValuesAsQ4) {
  Session full(*model_, kContext, {}), session(*model_, kContext, {}, Format::q4);
  for (Session* each : {&full, &session}) each->prompt(goldens_[2].source, goldens_[2].greedy);
  const std::vector<float> want = full.logits();
  EXPECT_LT(divergence({want.begin(), want.end()}, session.logits()), 0.05);
}

TEST_F(Seq2SeqSessionTest, IsSavedAndRestored) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "session";
  Session session(*model_, kContext, {}), other(*model_, kContext, {});
  session.set_sampling(greedy());
  const Ids whole = generate_after(session, goldens_[2].source, {}, 40);
  EXPECT_EQ(generate_after(session, goldens_[2].source, {}, 20), Ids(whole.begin(), whole.begin() + 20));
  session.save(path, "note");
  EXPECT_EQ(other.restore(path), "note");
  Ids rest;
  other.generate(20, true, [&](uint32_t id) {
    rest.push_back(id);
    return true;
  });
  EXPECT_EQ(rest, Ids(whole.begin() + 20, whole.end()));
}

TEST_F(Seq2SeqSessionTest, RefusesWhatItCannotRead) {
  Session session(*model_, 64, {});
  EXPECT_THROW(session.prompt(Ids()), Error);
  EXPECT_THROW(session.prompt(Ids{131}), Error);
  EXPECT_THROW(session.prompt(Ids{3}, Ids{131}), Error);
  EXPECT_THROW(session.prompt(some_ids(65, 131)), Error);
  EXPECT_THROW(session.prompt(Ids{3}, some_ids(63, 131)), Error);
  EXPECT_THROW(session.score(some_ids(10, 131)), Error);
  session.prompt(some_ids(64, 131), some_ids(62, 131));
  EXPECT_EQ(session.logits().size(), 131u);
}

// Logits with biases are no products with rows, whose bounds certified heads read.
TEST_F(Seq2SeqSessionTest, BiasesOfLogitsNeedTheFullHead) {
  const auto model = load_model(open_device(), golden_folder() / "bart-untied", Format::q8);
  ASSERT_TRUE(model->weights.logit_bias);
  Session session(*model, kContext, {});
  EXPECT_THROW(session.set_head({.mode = VocabHead::Mode::certified}), Error);
  EXPECT_THROW(session.set_head({.keep = Ids{3}}), Error);
  EXPECT_THROW(Session(*model, 201, {}), Error);  // more than it has positions
}

// An encoder with a table of its own is refused: it would run and talk nonsense.
TEST_F(GpuTest, EncoderDecodersWithSeveralTables) {
  ModelFile file = open_model(golden_folder() / "bart-untied");
  const auto load = [&] {
    Config config = read_config(file);
    load_weights(open_device(), file, config, Format::f16, [](float) {});
  };
  EXPECT_NO_THROW(load());
  const std::string name = "model.encoder.embed_tokens.weight";
  TensorView& copy = file.tensors[file.index.at(name)];
  std::vector<std::byte> bytes(copy.bytes.begin(), copy.bytes.end());
  bytes[100] ^= std::byte{1};
  copy.bytes = bytes;
  EXPECT_THROW(load(), Error);
}

// Files of Transformers 4 describe T5 1.1 in another way than those of 5.
TEST(Seq2Seq, OlderFilesOfT5) {
  ModelFile file = open_model(golden_folder() / "t5-gated-untied");
  EXPECT_EQ(read_config(file).start_token, 5u);
  file.metadata.erase("scale_decoder_outputs");
  EXPECT_FLOAT_EQ(read_config(file).logit_scale, 1 / std::sqrt(40.0f));
  file.metadata["tie_word_embeddings"] = false;
  EXPECT_EQ(read_config(file).logit_scale, 1);
  file.metadata["decoder_start_token_id"] = 9;
  EXPECT_EQ(read_config(file).start_token, 9u);
}

// First distance of each of T5's buckets, by Transformers; all distances beyond 128 are in the last one.
TEST(Seq2Seq, DistancesFallIntoTransformersBuckets) {
  const auto starts = [](bool both_ways) {
    std::vector<int> found;
    for (int distance = -1000; distance <= 1000; ++distance)
      if (bucket_of({32, 128}, distance, both_ways) != bucket_of({32, 128}, distance - 1, both_ways))
        found.push_back(distance);
    return found;
  };
  EXPECT_EQ(starts(true), (std::vector<int>{-90, -63, -45, -31, -22, -15, -11, -7, -6, -5, -4, -3, -2, -1, 0,
                                            1,   2,   3,   4,   5,   6,   7,   8,  12, 16, 23, 32, 46, 64, 91}));
  EXPECT_EQ(starts(false),
            (std::vector<int>{-112, -98, -86, -76, -66, -58, -51, -45, -39, -34, -30, -26, -23, -20, -18, -15,
                              -14,  -13, -12, -11, -10, -9,  -8,  -7,  -6,  -5,  -4,  -3,  -2,  -1,  0}));
}

}  // namespace
}  // namespace weft::test
