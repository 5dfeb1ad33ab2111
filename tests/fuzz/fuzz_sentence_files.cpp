// Files of sentence-transformers beside a model. Input: a JSON object with the documents by the names of ModelFile, a
// zero byte, and the safetensors file of a dense layer, whose config.json is "dense".
#include "format/json.h"
#include "format/safetensors.h"
#include "fuzz_support.h"
#include "model/sentence_config.h"

namespace {

constexpr uint32_t kContext = 64, kWidth = 8;

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  const auto input = at_zero(data, size);
  expect_answer_or_error([&] {
    const JsonValue document = parse_json(input.first, "fuzz.json");
    const auto object = [&](const char* name) {  // open_model makes sure that they are objects
      const JsonValue* found = document.find(name);
      return found && found->is_object() ? *found : JsonValue();
    };
    ModelFile file;
    file.kind = ModelFile::Kind::huggingface;
    file.path = "fuzz";
    file.metadata = object("config");
    file.pooling = object("pooling");
    file.sentence_transformer = object("transformer");
    file.sentence_prompts = object("prompts");
    file.logit_score = object("logit_score");
    if (const JsonValue* modules = document.find("modules"); modules && modules->is_array())
      file.sentence_modules = *modules;
    if (const JsonValue config = object("dense"); !config.is_null())
      file.dense_modules.push_back(
          {"dense", config, parse_safetensors(std::as_bytes(std::span(input.second)), "dense")});
    for (const bool causal : {false, true}) {
      const SentenceConfig config = read_sentence_config(file, causal, kContext, kWidth);
      if (config.most_tokens > kContext || config.size(kWidth) == 0) std::abort();
      if (!config.dense) continue;
      std::vector<double> state(kWidth, 0.5);
      for (const DenseLayer& layer : *config.dense) state = layer.apply(state);
      if (state.size() != config.size(kWidth)) std::abort();
    }
  });
}
