// Encoders against Hugging Face Transformers: tiny random models of tests/tools/encoder_goldens.py.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "run/encoder.h"
#include "support/closeness.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using nlohmann::json;

std::filesystem::path golden_folder() { return source_folder() / "tests/model/golden_encoders"; }

struct Golden {
  std::vector<uint32_t> ids;
  std::vector<double> mean, first;          // embeddings
  std::vector<double> embedding;            // as the files of sentence-transformers have it
  std::vector<uint32_t> places;             // whose logits are kept
  std::vector<std::vector<double>> logits;  // of the masked-token head
};

std::vector<Golden> read_goldens(const std::filesystem::path& folder) {
  std::ifstream file(folder / "reference.json");
  std::vector<Golden> goldens;
  for (const json& item : json::parse(file)) {
    const auto numbers = [&](const char* name) { return item.value(name, std::vector<double>()); };
    Golden golden = {item["ids"], numbers("mean"), numbers("first"), numbers("embedding"), {}, {}};
    if (item.contains("places")) golden.places = item["places"].get<std::vector<uint32_t>>();
    if (item.contains("places")) golden.logits = item["logits"].get<std::vector<std::vector<double>>>();
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

double cosine(const std::vector<double>& want, const std::vector<float>& got) {
  double sum = 0;
  for (size_t i = 0; i < want.size(); ++i) sum += want[i] * got[i];
  return sum;
}

class EncodersTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  std::filesystem::path folder_ = golden_folder() / GetParam();
  std::vector<Golden> goldens_ = read_goldens(folder_);
};

TEST_P(EncodersTest, EqualsTransformersInF16) {
  double worst = 0;
  const auto model = load_model(open_device(), folder_, Format::f16);
  Encoder encoder(*model, model->config.context);
  // Every input twice and in both orders: earlier inputs must leave no trace.
  for (const bool again : {false, true}) {
    for (const Golden& golden : goldens_) {
      SCOPED_TRACE(std::to_string(golden.ids.size()) + " tokens");
      encoder.run(golden.ids);
      worst = std::max({worst, distance(golden.mean, encoder.embedding(Pooling::mean)),
                        distance(golden.first, encoder.embedding(Pooling::first))});
      for (size_t i = 0; i < golden.places.size(); ++i)
        worst = std::max(worst, distance(golden.logits[i], encoder.masked_logits(golden.places[i])));
      ASSERT_LT(worst, 2e-3) << again;
    }
    std::ranges::reverse(goldens_);
  }
  std::printf("%.1e of the spread\n", worst);
}

TEST_P(EncodersTest, StaysCloseInQ8) {
  double worst = 0, least = 1;
  const auto model = load_model(open_device(), folder_, Format::q8);
  Encoder encoder(*model, model->config.context);
  for (const Golden& golden : goldens_) {
    encoder.run(golden.ids);
    least = std::min(least, cosine(golden.mean, encoder.embedding(Pooling::mean)));
    for (size_t i = 0; i < golden.places.size(); ++i)
      worst = std::max(worst, divergence(golden.logits[i], encoder.masked_logits(golden.places[i])));
  }
  std::printf("%.1e nats, cosine %.5f\n", worst, least);
  EXPECT_LT(worst, 1e-3);
  EXPECT_GT(least, 0.999);
}

TEST_P(EncodersTest, RefusesAFileThatLacksATensor) {
  const size_t count = open_model(folder_).tensors.size();
  for (size_t i = 0; i < count; ++i) {
    ModelFile file = open_model(folder_);
    const std::string name = file.tensors[i].name;
    // Without these there is no such type or head, which a file may well lack.
    if (name.find("token_type") != name.npos || name.find("pooler") != name.npos) continue;
    if (name.find("predictions") != name.npos && name.find("LayerNorm") == name.npos) continue;
    file.tensors.erase(file.tensors.begin() + static_cast<ptrdiff_t>(i));
    file.index.clear();
    for (size_t place = 0; place < file.tensors.size(); ++place) file.index[file.tensors[place].name] = place;
    const auto load = [&] {
      Config config = read_config(file);
      load_weights(open_device(), file, config, Format::f16, [](float) {});
    };
    EXPECT_THROW(load(), Error) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EncodersTest, testing::Values("bert", "bert-untied", "bert-body"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Models of today: windows both ways, causal decoders, dense layers after the pooling. As folders and as GGUF.
class SentenceModelsTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  std::filesystem::path path_ = golden_folder() / GetParam();
  std::vector<Golden> goldens_ = read_goldens(path_.extension() == ".gguf" ? path_.parent_path() : path_);
  // GGUF has neither dense layers with a bias nor a head for masked tokens.
  bool has_embeddings_ = GetParam() != "modernbert/model.gguf";
};

TEST_P(SentenceModelsTest, EqualsTransformers) {
  for (const Format format : {Format::f16, Format::q8})
    for (const Tuning& tuning : {Tuning(), Tuning{.plain = true}}) {
      const auto model = load_model(open_device(tuning), path_, format);
      const Config& c = model->config;
      ASSERT_TRUE(c.embeds());
      Encoder encoder(*model, c.context);
      double worst = 0, least = 1, far = 0;
      for (int round = 0; round < 2; ++round) {  // in both orders
        for (const Golden& golden : goldens_) {
          encoder.run(golden.ids);
          if (!c.sentences.dense) {
            worst = std::max(worst, distance(golden.mean, encoder.embedding(Pooling::mean)));
            least = std::min(least, cosine(golden.mean, encoder.embedding(Pooling::mean)));
          }
          if (has_embeddings_) {
            const std::vector<float> got = encoder.embedding(c.sentences.pooling);
            worst = std::max(worst, distance(golden.embedding, got));
            least = std::min(least, cosine(golden.embedding, got));
          }
          for (size_t i = 0; has_embeddings_ && i < golden.places.size(); ++i) {
            const std::vector<float> got = encoder.masked_logits(golden.places[i]);
            if (format == Format::f16) worst = std::max(worst, distance(golden.logits[i], got));
            far = std::max(far, divergence(golden.logits[i], got));
          }
        }
        std::ranges::reverse(goldens_);
      }
      std::printf("%s: %.1e of the spread, cosine %.6f, %.1e nats\n", name(format), worst, least, far);
      EXPECT_LT(format == Format::f16 ? worst : 0, 2e-3);
      EXPECT_GT(least, 0.999);
      EXPECT_LT(far, 1e-3);
    }
}

// The first elements alone, of length 1 again; and memory that grows with the inputs.
TEST_P(SentenceModelsTest, ShortensEmbeddings) {
  const auto model = load_model(open_device(), path_, Format::f16);
  const uint32_t size = model->config.sentences.size(model->config.width);
  Encoder encoder(*model, model->config.context);
  encoder.run(goldens_.back().ids);
  const std::vector<float> all = encoder.embedding(Pooling::mean);
  ASSERT_EQ(all.size(), size);
  const std::vector<float> some = encoder.embedding(Pooling::mean, 7);
  ASSERT_EQ(some.size(), 7u);
  double square = 0, first = 0;
  for (size_t i = 0; i < 7; ++i) square += some[i] * some[i], first += all[i] * all[i];
  EXPECT_NEAR(square, 1, 1e-6);
  for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(some[i], all[i] / std::sqrt(first), 1e-6);
  EXPECT_THROW(encoder.embedding(Pooling::mean, 0), Error);
  EXPECT_THROW(encoder.embedding(Pooling::mean, size + 1), Error);
}

INSTANTIATE_TEST_SUITE_P(Models, SentenceModelsTest,
                         testing::Values("nomic-bert", "nomic-bert/model.gguf", "modernbert", "modernbert/model.gguf",
                                         "gemma3-embedding", "gemma3-embedding/model.gguf", "embedding-gemma2",
                                         "qwen3-embedding", "qwen3-embedding/model.gguf"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace_if(
                               name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// nomic-bert's own config.json, which Transformers 5 reads too.
TEST_F(GpuTest, NomicBertsOwnNames) {
  ModelFile file = open_model(golden_folder() / "nomic-bert");
  const Config native = read_config(file);
  file.metadata = {{"model_type", "nomic_bert"},
                   {"n_embd", 48},
                   {"n_head", 3},
                   {"n_inner", 72},
                   {"n_layer", 3},
                   {"n_positions", 600},
                   {"max_trained_positions", 150},
                   {"activation_function", "swiglu"},
                   {"layer_norm_epsilon", 1e-12},
                   {"rotary_emb_base", 1000},
                   {"rotary_emb_fraction", 1.0},
                   {"qkv_proj_bias", false},
                   {"prenorm", false}};
  const Config own = read_config(file);
  EXPECT_EQ(own.width, native.width);
  EXPECT_EQ(own.ffn, native.ffn);
  EXPECT_EQ(own.context, native.context);
  EXPECT_EQ(own.epsilon, native.epsilon);
  EXPECT_EQ(own.ropes[0].frequencies, native.ropes[0].frequencies);
  EXPECT_EQ(own.layer_kind.activation, native.layer_kind.activation);
  for (const char* odd : {"prenorm", "qkv_proj_bias", "parallel_block"}) {
    ModelFile other = open_model(golden_folder() / "nomic-bert");
    other.metadata[odd] = true;
    EXPECT_THROW(read_config(other), Error) << odd;
  }
}

// A decoder's states must not depend on how long the inputs before were, or be refused beyond the first buffers.
TEST_F(GpuTest, EncodersGrow) {
  const auto model = load_model(open_device(), golden_folder() / "gemma3-embedding/model.gguf", Format::f16);
  Encoder small(*model, 2000), whole(*model, 2000);
  whole.reserve();
  const uint64_t first = small.bytes();
  EXPECT_GT(whole.bytes(), first);
  for (const uint32_t length : {100u, 700u, 100u, 1999u, 5u}) {
    const std::vector<uint32_t> ids = some_ids(length, 131);
    small.run(ids);
    whole.run(ids);
    EXPECT_EQ(small.embedding(Pooling::mean), whole.embedding(Pooling::mean)) << length;
  }
  EXPECT_GT(small.bytes(), first);
  EXPECT_THROW(small.run(some_ids(2001, 131)), Error);
}

// Files of sentence-transformers beside the model.
TEST_F(GpuTest, SentenceTransformersCutTexts) {
  const std::filesystem::path folder = golden_folder() / "bert";
  const auto with = [&](const std::function<void(ModelFile&)>& change) {
    ModelFile file = open_model(folder);
    file.pooling = nullptr;
    change(file);
    return read_config(file).sentences;
  };
  const JsonValue pooling = {{"idx", 1}, {"type", "sentence_transformers.models.Pooling"}, {"path", "1_Pooling"}};
  EXPECT_EQ(with([](ModelFile&) {}).most_tokens, 0u);
  EXPECT_EQ(with([](ModelFile& f) { f.sentence_transformer = {{"max_seq_length", 5}}; }).most_tokens, 5u);
  const uint32_t context = read_config(open_model(folder)).context;
  EXPECT_EQ(with([](ModelFile& f) { f.sentence_transformer = {{"max_seq_length", 100000}}; }).most_tokens, context);
  EXPECT_EQ(with([](ModelFile& f) { f.sentence_transformer = {{"max_seq_length", nullptr}}; }).most_tokens, context);
  EXPECT_EQ(with([&](ModelFile& f) {
              f.sentence_modules = JsonValue::Array({pooling});
              f.tokenizer_config = {{"model_max_length", 7}};
            }).most_tokens,
            7u);
  EXPECT_EQ(with([](ModelFile& f) { f.pooling = {{"pooling_mode_cls_token", true}}; }).pooling, Pooling::first);
  EXPECT_EQ(with([](ModelFile& f) { f.pooling = {{"pooling_mode_lasttoken", true}}; }).pooling, Pooling::last);
  EXPECT_EQ(with([](ModelFile& f) { f.pooling = {{"pooling_mode", "lasttoken"}}; }).pooling, Pooling::last);
  const SentenceConfig prompted = with([](ModelFile& f) {
    f.sentence_prompts = {{"prompts", JsonValue{{"query", "query: "}, {"document", ""}}},
                          {"default_prompt_name", "query"}};
  });
  EXPECT_EQ(prompted.default_prompt, "query: ");
  EXPECT_EQ(prompted.prompts.at("document"), "");
  const std::vector<std::function<void(ModelFile&)>> refused = {
      [](ModelFile& f) {
        f.pooling = {{"pooling_mode_max_tokens", true}};
      },
      [](ModelFile& f) {
        f.pooling = {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}};
      },
      [](ModelFile& f) {
        f.sentence_transformer = {{"max_seq_length", 1}};
      },
      [](ModelFile& f) {
        f.sentence_transformer = {{"max_seq_length", "many"}};
      },
      [](ModelFile& f) {
        f.sentence_transformer = {{"do_lower_case", true}};
      },
      [](ModelFile& f) {
        f.pooling = {{"pooling_mode", "weightedmean"}};
      },
      [](ModelFile& f) {
        f.pooling = {{"pooling_mode_mean_tokens", true}, {"include_prompt", false}};
      },
      [](ModelFile& f) {
        f.sentence_modules = JsonValue::Array({JsonValue{{"type", "sentence_transformers.models.CNN"}, {"path", "2"}}});
      },
      [](ModelFile& f) {
        f.sentence_prompts = {{"prompts", JsonValue{{"query", "query: "}}}, {"default_prompt_name", "document"}};
      },
      [](ModelFile& f) {
        f.dense_modules = {{"2_Dense/config.json", JsonValue::object(), {}}};
      },
      [&](ModelFile& f) {
        f.dense_modules = open_model(golden_folder() / "gemma3-embedding").dense_modules;
        f.dense_modules.erase(f.dense_modules.begin());  // the second one reads 80 columns
      }};
  for (const auto& change : refused) EXPECT_THROW(with(change), Error) << &change - refused.data();

  const TemporaryFolder cut;
  std::filesystem::copy(folder, cut.path(), std::filesystem::copy_options::recursive);
  std::ofstream(cut.path() / "sentence_bert_config.json") << R"({"max_seq_length": 5})";
  const auto model = load_model(open_device(), cut.path(), Format::f16),
             whole = load_model(open_device(), folder, Format::f16);
  Encoder encoder(*model, model->config.context), plain(*whole, whole->config.context);
  std::vector<uint32_t> ids = {1, 5, 6, 7, 8, 9, 10, 2};
  const std::vector<uint32_t> read = {1, 5, 6, 7, 2};
  encoder.run(ids);
  plain.run(read);
  EXPECT_EQ(encoder.embedding(Pooling::mean), plain.embedding(Pooling::mean));
  encoder.run(read);
  EXPECT_EQ(encoder.embedding(Pooling::mean), plain.embedding(Pooling::mean));
  ids.insert(ids.begin() + 1, context, 4);  // longer than the model's own limit
  ids[1] = 5, ids[2] = 6, ids[3] = 7;
  encoder.run(ids);
  EXPECT_EQ(encoder.embedding(Pooling::mean), plain.embedding(Pooling::mean));
  EXPECT_THROW(plain.run(ids), Error);
}

// llama.cpp's files have no masked-token head.
TEST_F(GpuTest, BertAsGguf) {
  const std::filesystem::path folder = golden_folder() / "bert";
  const auto model = load_model(open_device(), folder / "model.gguf", Format::f16);
  EXPECT_EQ(model->config.sentences.pooling, Pooling::first);
  Encoder encoder(*model, model->config.context);
  for (const Golden& golden : read_goldens(folder)) {
    encoder.run(golden.ids);
    EXPECT_LT(distance(golden.mean, encoder.embedding(Pooling::mean)), 2e-3);
  }
  EXPECT_THROW(encoder.masked_logits(0), Error);
}

// The first files of BERT call weights and biases of norms gamma and beta.
TEST_F(GpuTest, FirstFilesOfBert) {
  ModelFile file = open_model(golden_folder() / "bert");
  file.index.clear();
  for (size_t place = 0; place < file.tensors.size(); ++place) {
    std::string& name = file.tensors[place].name;
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
    file.index[name] = place;
  }
  Config config = read_config(file);
  const Weights weights = load_weights(open_device(), file, config, Format::f16, [](float) {});
  EXPECT_TRUE(weights.masked_head);
}

TEST_F(GpuTest, EncodersRefuseWhatTheyCannotRead) {
  const auto model = load_model(open_device(), golden_folder() / "bert", Format::f16);
  EXPECT_THROW(Session(*model, 64, {}), Error);  // it writes nothing
  Encoder encoder(*model, model->config.context);
  EXPECT_THROW(encoder.masked_logits(0), Error);  // nothing was read yet
  EXPECT_THROW(encoder.run({}), Error);
  EXPECT_THROW(encoder.run(some_ids(151, 131)), Error);
  EXPECT_THROW(encoder.run(std::vector<uint32_t>{131}), Error);
  encoder.run(some_ids(150, 131));
  EXPECT_THROW(encoder.masked_logits(150), Error);
}

}  // namespace
}  // namespace weft::test
