// Each family against Hugging Face Transformers: tiny random models of tests/tools/family_goldens.py, as folders and as
// GGUF.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "support/golden.h"
#include "support/model_test.h"
#include "support/op_inputs.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

std::filesystem::path golden_folder() { return source_folder() / "tests/model/golden"; }

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The same texts with this model's logits.
Golden with_logits_of(const Model& model, Golden golden) {
  std::vector<uint32_t> ids = golden.prompt;
  ids.insert(ids.end(), golden.greedy.begin(), golden.greedy.end());
  Session session(model, 256, {});
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    session.prompt(std::span(ids).first(golden.positions[i] + 1));
    const std::vector<float> logits = session.logits();
    golden.logits[i].assign(logits.begin(), logits.end());
  }
  return golden;
}

class FamiliesTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  // The model's files: the folder, and GGUF if that has the family.
  std::vector<std::filesystem::path> files() const {
    if (const auto gguf = folder_ / "model.gguf"; std::filesystem::exists(gguf)) return {folder_, gguf};
    return {folder_};
  }

  std::filesystem::path folder_ = golden_folder() / GetParam();
  Golden golden_ = read_golden(folder_);
};

TEST_P(FamiliesTest, EqualsTransformersInF16) {
  for (const std::filesystem::path& path : files()) {
    SCOPED_TRACE(path.filename().string());
    const auto model = load_model(open_device(), path, Format::f16);
    const double worst = distance(*model, golden_).logits;
    std::printf("%s: %.1e of the spread\n", path.filename().c_str(), worst);
    EXPECT_LT(worst, kTolerance);
    expect_greedy_ids(*model, golden_);
  }
}

TEST_P(FamiliesTest, StaysCloseInQ8) {
  std::vector<std::vector<uint32_t>> ids;
  for (const std::filesystem::path& path : files()) {
    const auto model = load_model(open_device(), path, Format::q8);
    const double worst = distance(*model, golden_).divergence;
    std::printf("%s: %.1e nats\n", path.filename().c_str(), worst);
    EXPECT_LT(worst, 1e-3);
    ids.push_back(greedy_ids(*model, golden_.prompt, golden_.greedy.size(), VocabHead::Mode::full));
    if (model->weights.logit_bias) continue;  // other heads refuse it
    EXPECT_EQ(greedy_ids(*model, golden_.prompt, golden_.greedy.size(), VocabHead::Mode::certified), ids.back());
  }
  EXPECT_EQ(ids.front(), ids.back()) << "GGUF";
}

// A file's matrices as floats, with the values that a q4 model of it has.
struct RoundedFile {
  RoundedFile(const std::filesystem::path& path, const Weights& weights) : file(open_model(path)) {
    for (TensorView& tensor : file.tensors) {
      const auto is_q4 = [&](const TensorReport& t) { return t.name == tensor.name && t.device_type == "q4"; };
      if (std::ranges::none_of(weights.tensors, is_q4)) continue;
      RowPacker packer(file_type(Format::q4), tensor.shape[1]);
      Rounding ignored;
      std::vector<float>& rounded = values.emplace_back();
      const bool projected = std::ranges::any_of(weights.tensors, [&](const TensorReport& t) {
        return t.name == tensor.name && t.buffer == (weights.tied() ? "vocabulary table" : "output table");
      });
      if (projected) rounded = stored_table(Format::q4, tensor);
      for (uint64_t row = projected ? tensor.shape[0] : 0; row < tensor.shape[0]; ++row) {
        const PackedRow& packed = packer.pack(tensor, row, ignored);
        for (uint64_t i = 0; i < tensor.shape[1]; ++i)
          rounded.push_back(half_to_float(packed.halves[i / BLOCK]) * static_cast<float>(packed.bytes[i]) +
                            half_to_float(packed.minima[i / BLOCK]));
      }
      tensor.dtype = DType::f32;
      tensor.bytes = std::as_bytes(std::span(rounded));
    }
  }
  ModelFile file;
  std::deque<std::vector<float>> values;
};

TEST_P(FamiliesTest, StaysCloseInQ4) {
  const auto model = load_model(open_device(), files().back(), Format::q4);
  const double worst = distance(*model, golden_).divergence;
  std::printf("%.1e nats\n", worst);
  EXPECT_LT(worst, 2e-2);
}

// The divergence says little about mistakes: four bits move the logits by a tenth of their spread. A model of the
// rounded numbers must give the same logits but for their rounding to f16.
TEST_F(GpuTest, Q4IsItsRoundedNumbers) {
  for (const char* family : {"gpt2", "qwen3-untied", "cohere-untied"}) {
    const std::filesystem::path folder = golden_folder() / family, file = folder / "model.gguf";
    const auto model = load_model(open_device(), file, Format::q4);
    const RoundedFile rounded(file, model->weights);
    Config config = read_config(rounded.file);
    Weights weights = load_weights(open_device(), rounded.file, config, Format::f16, [](float) {});
    const Model twin = {open_device(), config, std::move(weights)};
    EXPECT_LT(distance(*model, with_logits_of(twin, read_golden(folder))).logits, 2 * kTolerance) << family;
  }
}

void put_in_place(ModelFile& file) {
  file.index.clear();
  for (size_t place = 0; place < file.tensors.size(); ++place) file.index[file.tensors[place].name] = place;
}

// Returns the refusal's text; nothing may have been uploaded by then.
std::string refusal(const std::shared_ptr<Device>& device, const ModelFile& file) {
  bool uploaded = false;
  try {
    Config config = read_config(file);
    load_weights(device, file, config, Format::f16, [&](float) { uploaded = true; });
  } catch (const Error& error) {
    EXPECT_FALSE(uploaded) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return {};
}

// A network that lacks a part would run and talk nonsense.
TEST_P(FamiliesTest, RefusesAFileThatLacksATensor) {
  for (const std::filesystem::path& path : files()) {
    const size_t count = open_model(path).tensors.size();
    for (size_t i = 0; i < count; ++i) {
      ModelFile file = open_model(path);
      const std::string name = file.tensors[i].name;
      SCOPED_TRACE(name);
      // Without one of these a GGUF file says something else: no scaling, a tied head.
      if (name == "rope_freqs.weight" || name == "output.weight" || name == "token_embd.weight") continue;
      file.tensors.erase(file.tensors.begin() + static_cast<ptrdiff_t>(i));
      put_in_place(file);
      refusal(open_device(), file);
    }
  }
}

TEST_P(FamiliesTest, RefusesATensorOfAWrongShape) {
  for (const std::filesystem::path& path : files()) {
    ModelFile file = open_model(path);
    for (TensorView& tensor : file.tensors) {
      tensor.shape.back() += 1;
      EXPECT_NE(refusal(open_device(), file).find("'" + tensor.name + "'"), std::string::npos) << tensor.name;
      tensor.shape.back() -= 1;
    }
  }
}

TEST_P(FamiliesTest, RefusesAFileWithAnUnknownTensor) {
  for (const std::filesystem::path& path : files()) {
    ModelFile file = open_model(path);
    const std::vector<std::byte> bytes(4);
    file.tensors.push_back({"blk.0.odd.weight", DType::f32, {1}, bytes});
    put_in_place(file);
    EXPECT_NE(refusal(open_device(), file).find("'blk.0.odd.weight'"), std::string::npos);
  }
}

// GPT-2's first files have the body's names without a prefix, and causal masks among the tensors.
TEST_F(GpuTest, FirstFilesOfGpt2) {
  ModelFile file = open_model(golden_folder() / "gpt2");
  constexpr std::string_view kPrefix = "transformer.";
  for (TensorView& tensor : file.tensors) {
    ASSERT_TRUE(tensor.name.starts_with(kPrefix)) << tensor.name;
    tensor.name = tensor.name.substr(kPrefix.size());
  }
  const std::vector<std::byte> mask(16);
  file.tensors.push_back({"h.0.attn.bias", DType::f32, {1, 1, 2, 2}, mask});
  put_in_place(file);
  Config config = read_config(file);
  Weights weights = load_weights(open_device(), file, config, Format::f16, [](float) {});
  const Model model = {open_device(), config, std::move(weights)};
  const Golden golden = read_golden(golden_folder() / "gpt2");
  expect_greedy_ids(model, golden);
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Folders of models that see pictures have the text model's description and tensors inside; Mistral's first ones name
// the head so, too.
TEST_F(GpuTest, TextPartOfAModelWithPictures) {
  const std::string usual = "model.language_model.", whole = "language_model.";
  for (const auto& [name, type, prefix] : {std::tuple{"gemma4", "gemma4", usual},
                                           {"qwen35", "qwen3_5", usual},
                                           {"ministral3", "mistral3", usual},
                                           {"ministral3", "mistral3", whole + "model."}}) {
    SCOPED_TRACE(name);
    const std::filesystem::path from = golden_folder() / name;
    const TemporaryFolder to;
    const nlohmann::json own = nlohmann::json::parse(bytes_of(from / "config.json"));
    std::ofstream(to.path() / "config.json")
        << nlohmann::json{{"model_type", type}, {"text_config", own}, {"vision_config", {{"hidden_size", 8}}}};
    const std::string file = bytes_of(from / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    const nlohmann::json before = nlohmann::json::parse(file.substr(8, length));
    nlohmann::json header = nlohmann::json::object();
    std::string numbers = file.substr(8 + length);
    for (const auto& [tensor, place] : before.items())
      header[tensor.starts_with("model.")                        ? prefix + tensor.substr(6)
             : prefix != usual && tensor.starts_with("lm_head.") ? whole + tensor
                                                                 : tensor] = place;
    header["model.vision_tower.weight"] = {
        {"dtype", "F16"}, {"shape", {4}}, {"data_offsets", {numbers.size(), numbers.size() + 8}}};
    numbers.append(8, '\0');
    const std::string text = header.dump();
    length = text.size();
    std::ofstream out(to.path() / "model.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), 8) << text << numbers;
    out.close();
    expect_greedy_ids(*load_model(open_device(), to.path(), Format::f16), read_golden(from));
  }
}

// llama.cpp's first files of Mixtral have a tensor for each expert.
TEST_F(GpuTest, FirstFilesOfMixtral) {
  ModelFile file = open_model(golden_folder() / "mixtral/model.gguf");
  for (const TensorView& tensor : std::exchange(file.tensors, {})) {
    const size_t at = tensor.name.find("_exps");
    const uint64_t count = at == tensor.name.npos ? 1 : tensor.shape[0], bytes = tensor.bytes.size() / count;
    for (uint64_t number = 0; number < count; ++number) {
      file.tensors.push_back(tensor);
      if (at == tensor.name.npos) continue;
      TensorView& one = file.tensors.back();
      one.name.replace(at, 5, "." + std::to_string(number));
      one.shape = {tensor.shape[1], tensor.shape[2]};
      one.bytes = tensor.bytes.subspan(number * bytes, bytes);
    }
  }
  put_in_place(file);
  const auto device = open_device();
  {
    Config config = read_config(file);
    Weights weights = load_weights(device, file, config, Format::f16, [](float) {});
    Model model = {device, config, std::move(weights)};
    expect_greedy_ids(model, read_golden(golden_folder() / "mixtral"));
    const uint64_t with_two = model.bytes_per_token();
    model.config.experts.used = 1;
    const Experts& experts = std::get<Experts>(model.weights.layers[0].mlp);
    EXPECT_EQ(with_two - model.bytes_per_token(), 2 * (experts.gate_up.bytes() + experts.down.bytes())) << "two layers";
  }
  const auto last = std::ranges::find(file.tensors, "blk.1.ffn_up.4.weight", &TensorView::name);
  ASSERT_NE(last, file.tensors.end());
  file.tensors.erase(last);
  put_in_place(file);
  EXPECT_NE(refusal(device, file).find("'blk.1.ffn_up.4.weight' is missing"), std::string::npos);
}

// Prompts in chunks give what one pass gives.
TEST_F(GpuTest, PromptsAreReadInChunks) {
  constexpr size_t kAt = 4;  // a position in the middle
  for (const char* family : {"qwen3-moe", "lfm2-moe-tied", "gpt-oss-mxfp4", "ministral3", "hunyuan", "olmo3"}) {
    const auto model = load_model(open_device(), golden_folder() / family, Format::f16);
    const Golden golden = read_golden(golden_folder() / family);
    std::vector<uint32_t> ids = golden.prompt;
    ids.insert(ids.end(), golden.greedy.begin(), golden.greedy.end());
    const size_t last = golden.positions[kAt];
    for (const size_t step : {1u, 7u, 64u}) {
      Session session(*model, 256, {});
      for (size_t n = step; n <= last; n += step) {
        session.prompt(std::span(ids).first(n));
        session.logits();
      }
      session.prompt(std::span(ids).first(last + 1));
      const std::vector<float> logits = session.logits();
      EXPECT_LT(distance_of(logits, golden.logits[kAt]), kTolerance) << family << " by " << step;
    }
  }
}

// A text's likelihood is that of the logits that the session gives.
void check_scores(Session& session, std::span<const uint32_t> text) {
  const std::vector<float> scores = session.score({text.begin(), text.end()});
  for (const size_t last : {size_t{0}, text.size() / 2, text.size() - 2}) {
    session.prompt(text.first(last + 1));
    const std::vector<float> logits = session.logits();
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    EXPECT_NEAR(scores[last], std::log(sum) - logits[text[last + 1]], 1e-3) << last;
  }
}

TEST_F(GpuTest, ScoresSeeTheBiasOfTheTable) {
  for (const char* family : {"phi2", "gptj"}) {
    SCOPED_TRACE(family);
    const auto model = load_model(open_device(), golden_folder() / family, Format::f16);
    ASSERT_TRUE(model->weights.logit_bias);
    Session session(*model, 256, {});
    const Golden golden = read_golden(golden_folder() / family);
    check_scores(session, std::span(golden.prompt).first(20));
  }
}

class CappedLogitsTest : public FamiliesTest {};

// Heads must agree on draws and penalties too, and a text's likelihood is that of the capped logits.
TEST_P(CappedLogitsTest, HeadsAndScoresSeeThem) {
  const auto model = load_model(open_device(), folder_, Format::q8);
  ASSERT_GT(model->config.logit_cap, 0);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    std::vector<std::vector<uint32_t>> ids;
    for (const VocabHead::Mode mode : {VocabHead::Mode::full, VocabHead::Mode::certified}) {
      Session session(*model, 256, {});
      VocabHead head;
      head.mode = mode;
      session.set_head(head);
      session.set_sampling({0.9f, seed == 0 ? 10u : 0u, 1, seed == 1 ? 0.1f : 0, 1.2f, seed});
      ids.push_back(generate(session, golden_.prompt, 40));
    }
    EXPECT_EQ(ids[0], ids[1]) << "seed " << seed;
  }
  Session session(*model, 256, {});
  check_scores(session, std::span(golden_.prompt).first(40));
}

std::string underscored(const testing::TestParamInfo<std::string>& model) {
  std::string name = model.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, FamiliesTest, testing::ValuesIn(golden_names()), underscored);
INSTANTIATE_TEST_SUITE_P(Models, CappedLogitsTest, testing::Values("gemma2", "gemma2-untied", "gemma4"), underscored);

}  // namespace
}  // namespace weft::test
