// The memory that is predicted from a file's header is what the loaded model and its session take.
#include "model/footprint.h"

#include <algorithm>

#include "run/encoder.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

class FootprintTest : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(FootprintTest, IsWhatTheModelTakes) {
  const std::filesystem::path path = source_folder() / "tests/model" / GetParam();
  const auto device = open_device();
  const auto model = load_model(device, path, Format::q8);
  const ModelFile file = open_model(path);
  Config config = read_config(file);
  const uint32_t context = std::min(config.context, 600u);  // if the model allows it, attend needs scratch for it
  const Footprint print = footprint(file, config, Format::q8, device->plan(), context, Format::f16);
  EXPECT_EQ(config.vocab, model->config.vocab);
  EXPECT_EQ(print.vocab_bytes, model->weights.vocab_bytes());
  EXPECT_EQ(print.layer_bytes, model->weights.device_bytes() - model->weights.vocab_bytes());
  EXPECT_EQ(print.streamed_bytes, model->weights.streamed_bytes());
  if (config.layer_kind.sees_all) {
    EXPECT_EQ(print.session_bytes, Encoder(*model, config.context).bytes());
  } else {
    const Session session(*model, context, {});
    EXPECT_EQ(print.session_bytes, session.kv_bytes() + session.scratch_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FootprintTest,
                         testing::Values("golden/gpt2", "golden/gemma3", "golden/gemma4", "golden/gemma4-keys",
                                         "golden/mixtral", "golden/bloom-untied", "golden/lfm2-biased-untied",
                                         "golden_softmaxes/mixture/model.gguf", "golden_softmaxes/adaptive/model.gguf",
                                         "golden_encoders/bert", "golden_seq2seq/bart",
                                         "golden_seq2seq/t5-gated-untied", "golden_whisper/odd"));

}  // namespace
}  // namespace weft::test
