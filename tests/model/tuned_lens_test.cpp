// The tuned lens: against Hugging Face Transformers (tests/tools/tuned_lens_goldens.py), against the logit lens, and
// invalid folders.
#include "model/tuned_lens.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "support/closeness.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using Ids = std::vector<uint32_t>;

const fs::path kTests = source_folder() / "tests/model";
constexpr double kTolerance = 2e-3;  // of f16's logits, in units of the spread, as tests/model/families_test.cpp has it

// Numbers as in tuned_lens_goldens.py: W, and b after its last column.
float golden_entry(uint32_t layer, uint32_t row, uint32_t col, uint32_t width) {
  return static_cast<float>(col == width ? std::cos(row * 3.7 + layer) * 0.5
                                         : std::sin(row * 12.9898 + col * 78.233 + layer) * 0.2);
}

struct Row {
  uint32_t layer, position;
  std::vector<float> hidden, logits;
};

std::vector<Row> lens(Session& session, size_t first, size_t count, std::vector<uint32_t> layers = {},
                      bool logits = true) {
  const uint32_t last = session.model().config.layers;
  for (uint32_t layer = 0; layers.size() < last + 1; ++layer) layers.push_back(layer);
  std::vector<Row> rows;
  session.lens({first, count, layers, logits}, [&](const LensRow& row) {
    rows.push_back(
        {row.layer, row.position, {row.hidden.begin(), row.hidden.end()}, {row.logits.begin(), row.logits.end()}});
    return true;
  });
  return rows;
}

double far(const std::vector<float>& want, const std::vector<float>& got) {
  return distance({want.begin(), want.end()}, got);
}

class TunedLensTest : public GpuTest {
 protected:
  void make(const Config& config, const LensEntry& entry) {
    make_tuned_lens(folder_.path(), config.width, config.layers, entry);
  }
  TemporaryFolder folder_;
};

class TunedLensFamiliesTest : public TunedLensTest, public testing::WithParamInterface<const char*> {};

TEST_P(TunedLensFamiliesTest, EqualsTransformers) {
  const json golden = json::parse(std::ifstream(kTests / "golden_tuned_lens.json")).at(GetParam());
  const auto model = load_model(open_device(), kTests / "golden" / GetParam(), Format::f16);
  const uint32_t width = model->config.width;
  make(model->config, [&](uint32_t layer, uint32_t row, uint32_t col) { return golden_entry(layer, row, col, width); });
  Session session(*model, 256, {});
  session.prompt(golden["ids"].get<Ids>());
  const std::vector<Row> plain = lens(session, golden["position"], 1);
  session.set_tuned_lens(folder_.path());
  const std::vector<Row> rows = lens(session, golden["position"], 1);
  ASSERT_EQ(rows.size(), golden["logits"].size() + 1);
  double worst = 0;
  for (size_t i = 0; i < golden["logits"].size(); ++i) {
    const double off = distance(golden["logits"][i].get<std::vector<double>>(), rows[i].logits);
    EXPECT_LT(off, kTolerance) << "layer " << i;
    EXPECT_GT(far(plain[i].logits, rows[i].logits), 0.1) << "layer " << i;
    worst = std::max(worst, off);
  }
  EXPECT_EQ(rows.back().logits, plain.back().logits);
  std::printf("%s: %.1e of the spread\n", GetParam(), worst);
}
INSTANTIATE_TEST_SUITE_P(Models, TunedLensFamiliesTest, testing::Values("bloom", "gemma2", "gpt2", "mistral"),
                         [](const auto& model) { return std::string(model.param); });

// Each token gets its own layer's translation, in whatever order and part of the context; states stay as they are.
TEST_F(TunedLensTest, TellsWhatIsAskedFor) {
  const auto model = load_model(open_device(), kTests / "golden/gemma3", Format::q8);  // seven layers
  const uint32_t width = model->config.width;
  make(model->config, [&](uint32_t layer, uint32_t row, uint32_t col) { return golden_entry(layer, row, col, width); });
  Session session(*model, 256, {});
  session.prompt(some_ids(150, model->config.vocab));
  const std::vector<Row> plain = lens(session, 0, 150);
  session.set_tuned_lens(folder_.path());
  const std::vector<Row> all = lens(session, 0, 150);
  ASSERT_EQ(all.size(), 150u * 8);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].hidden, plain[i].hidden) << i;
  const std::vector<uint32_t> layers = {7, 2, 0, 2, 5, 6, 1, 3};
  for (const auto& [first, count] : {std::pair{140u, 10u}, {0u, 3u}, {60u, 70u}, {63u, 2u}}) {
    const std::vector<Row> some = lens(session, first, count, layers);
    ASSERT_EQ(some.size(), count * layers.size());
    for (size_t i = 0; i < some.size(); ++i) {
      const Row& want = all[(first + i / layers.size()) * 8 + layers[i % layers.size()]];
      ASSERT_EQ(some[i].position, want.position);
      ASSERT_EQ(some[i].layer, want.layer);
      ASSERT_LT(far(want.logits, some[i].logits), 1e-5) << first << " " << i;
    }
  }
  for (const Row& row : lens(session, 0, 150, layers, false)) ASSERT_TRUE(row.logits.empty());
  session.set_tuned_lens({});
  const std::vector<Row> again = lens(session, 0, 150);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(again[i].logits, plain[i].logits) << i;
}

// Translators of zeros are the logit lens. States as long as some models' leave f16's range: they are not rounded to
// it.
TEST_F(TunedLensTest, ZerosAndLongStates) {
  const auto model = load_model(open_device(), kTests / "golden/llama3", Format::f16);
  const uint32_t width = model->config.width;
  Session session(*model, 256, {});
  session.prompt(some_ids(70, model->config.vocab));
  const std::vector<Row> plain = lens(session, 0, 70);
  make(model->config, [](uint32_t, uint32_t, uint32_t) { return 0.0f; });
  session.set_tuned_lens(folder_.path());
  const std::vector<Row> zeros = lens(session, 0, 70);
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(zeros[i].logits, plain[i].logits) << i;
  // 65000 h: the norm takes the factor away again, but for its epsilon.
  make(model->config,
       [&](uint32_t, uint32_t row, uint32_t col) { return row == col && col < width ? 65000.0f : 0.0f; });
  session.set_tuned_lens(folder_.path());
  const std::vector<Row> longer = lens(session, 0, 70);
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_LT(far(plain[i].logits, longer[i].logits), 1e-2) << i;
}

class TunedLensFilesTest : public TunedLensTest {
 protected:
  void SetUp() override {
    TunedLensTest::SetUp();
    config_.width = 64;
    config_.layers = 2;
    good();
  }
  void good() {
    make(config_, [](uint32_t, uint32_t, uint32_t) { return 0.5f; });
  }
  std::string read(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(folder_.path() / name, std::ios::binary).rdbuf();
    return text.str();
  }
  void write(const char* name, const std::string& text) const {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }
  void replace(const char* name, const std::string& from, const std::string& to) const {
    std::string text = read(name);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write(name, text.replace(at, from.size(), to));
  }
  // Returns the error about the folder, without its path, and makes the folder good again.
  std::string refusal(Code code) {
    std::string what = "none";
    try {
      open_tuned_lens(folder_.path(), config_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      what = error.what();
      const std::string path = folder_.path().string() + "/";
      EXPECT_EQ(what.substr(0, path.size()), path);
      what = what.substr(std::min(path.size(), what.size()));
    }
    good();
    return what;
  }
  Config config_;
};

TEST_F(TunedLensFilesTest, RefusesOtherConfigurations) {
  const char* const kConfig = "config.json";
  EXPECT_EQ(refusal(Code::internal), "none");
  const std::string hint = " (a tuned lens belongs to the model that it was trained for)";
  replace(kConfig, "64", "65");
  EXPECT_EQ(refusal(Code::invalid_argument), "config.json: 'd_model' is 65, the model has 64" + hint);
  replace(kConfig, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  EXPECT_EQ(refusal(Code::invalid_argument), "config.json: 'num_hidden_layers' is 3, the model has 2" + hint);
  replace(kConfig, "d_model", "D_model");
  EXPECT_EQ(refusal(Code::bad_file), "config.json: it has no number 'd_model'");
  replace(kConfig, "true", "1");
  EXPECT_EQ(refusal(Code::bad_file), "config.json: 'bias' is no truth value");
  replace(kConfig, "linear", "cubic");
  EXPECT_EQ(refusal(Code::unsupported),
            "config.json: not supported yet: the lens_type \"cubic_tuned_lens\" (Weft reads \"linear_tuned_lens\")");
  write(kConfig, "[]");
  EXPECT_EQ(refusal(Code::bad_file), "config.json: the document is no JSON object");
  write(kConfig, "{");
  EXPECT_EQ(refusal(Code::bad_file).substr(0, 13), "config.json: ");
  fs::remove(folder_.path() / kConfig);
  EXPECT_EQ(refusal(Code::not_found).substr(0, 13), "config.json: ");
}

TEST_F(TunedLensFilesTest, RefusesOtherTensors) {
  const char* const kParams = "params.safetensors";
  const std::string place = std::string(kParams) + ": ";
  const size_t end = read(kParams).size();
  replace(kParams, "\"1.weight\"", "\"7.weight\"");
  EXPECT_EQ(refusal(Code::bad_file), place + "the tensor '1.weight' is missing");
  replace(kParams, "\"0.bias\"", "\"0.Bias\"");
  EXPECT_EQ(refusal(Code::bad_file), place + "the tensor '0.bias' is missing");
  replace(kParams, "[64,64]", "[32,128]");
  EXPECT_EQ(refusal(Code::bad_file).substr(0, 18), "params.safetensors");  // the header's length is another
  replace(kParams, "[64,64]", "[8,512]");
  EXPECT_EQ(refusal(Code::bad_file), place + "tensor '0.weight' has the shape (8, 512), expected (64, 64)");
  replace(kParams, "F32", "I32");
  EXPECT_EQ(refusal(Code::unsupported),
            place + "not supported yet: I32 in tensor 0.bias (Weft reads F32, F16 and BF16)");
  const auto with_last = [&](float value) {
    std::string text = read(kParams);
    std::memcpy(&text[end - sizeof value], &value, sizeof value);
    write(kParams, text);
  };
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    with_last(value);
    EXPECT_EQ(refusal(Code::bad_file), place + "tensor '1.bias' has a number that is not finite");
  }
  with_last(-65536);
  EXPECT_EQ(refusal(Code::unsupported), place + "tensor '1.bias' has the number -65536, too large for f16");
  write(kParams, read(kParams).substr(0, end - 4));
  EXPECT_EQ(refusal(Code::bad_file).substr(0, place.size()), place);
  replace("config.json", "true", "false");
  EXPECT_EQ(refusal(Code::bad_file), place + "tensor 0.bias is no part of a translator");
  fs::rename(folder_.path() / kParams, folder_.path() / "params.pt");
  EXPECT_EQ(refusal(Code::not_found),
            place + "there is only params.pt (apps/weft/tuned_lens.py makes params.safetensors of it)");
}

}  // namespace
}  // namespace weft::test
