#include "model/sentence_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_object.h"
#include "base/utf8.h"

namespace weft {
namespace {

[[noreturn]] void unsupported(const std::string& what, const std::string& place) {
  throw Error(Code::unsupported, "not supported: " + what, place);
}

std::string place_of(const ModelFile& file, const char* name) { return (file.path / name).string(); }

// The steps after the model: pooling, and to a length of 1, which Weft does for every model.
void check_modules(const ModelFile& file) {
  const std::string place = place_of(file, "modules.json");
  if (!file.sentence_modules.is_array()) return;
  for (const JsonValue& item : file.sentence_modules.items()) {
    const std::string type = JsonObject(item, place).text("type", "");
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name != "Transformer" && name != "Pooling" && name != "Normalize")
      unsupported("the module " + in_quotes(type), place);
  }
}

Pooling read_pooling(const ModelFile& file) {
  if (file.pooling.is_null()) return Pooling::mean;
  const JsonObject values(file.pooling, place_of(file, "1_Pooling/config.json"));
  for (const char* other : {"max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"})
    if (values.flag(std::string("pooling_mode_") + other, false))
      unsupported("'pooling_mode_" + std::string(other) + "'", values.place());
  const bool first = values.flag("pooling_mode_cls_token", false);
  if (first && values.flag("pooling_mode_mean_tokens", false)) unsupported("two poolings at once", values.place());
  return first ? Pooling::first : Pooling::mean;
}

// A prompt before every text that nobody asked for.
void check_prompts(const ModelFile& file) {
  if (file.sentence_prompts.is_null()) return;
  const JsonObject values(file.sentence_prompts, place_of(file, "config_sentence_transformers.json"));
  const auto name = values.find_text("default_prompt_name");
  if (!name) return;
  const std::string prompt = values.has("prompts") ? values.object("prompts").text(name->c_str(), "") : "";
  if (!prompt.empty()) unsupported("the default prompt " + in_quotes(*name) + ", " + in_quotes(prompt), values.place());
}

bool lowers_case(const ModelFile& file) {
  const JsonValue* const normalizer = file.tokenizer.find("normalizer");
  const JsonValue* const lowercase = normalizer == nullptr ? nullptr : normalizer->find("lowercase");
  return lowercase != nullptr && lowercase->is_boolean() && lowercase->get<bool>();
}

uint32_t read_most_tokens(const ModelFile& file, uint32_t context) {
  if (file.sentence_transformer.is_null() && file.sentence_modules.is_null()) return 0;
  const JsonObject values(file.sentence_transformer, place_of(file, "sentence_bert_config.json"));
  if (values.flag("do_lower_case", false) && !lowers_case(file))
    unsupported("'do_lower_case' with a tokenizer that keeps the case", values.place());
  if (values.has("max_seq_length")) return std::min(values.integer("max_seq_length", 2, UINT32_MAX, 2), context);
  const JsonValue* const most = file.tokenizer_config.find("model_max_length");
  const bool smaller =
      most != nullptr && most->is_number() && most->get<double>() >= 2 && most->get<double>() < context;
  return smaller ? static_cast<uint32_t>(most->get<double>()) : context;
}

}  // namespace

SentenceConfig read_sentence_config(const ModelFile& file, uint32_t context) {
  check_modules(file);
  check_prompts(file);
  return {read_pooling(file), read_most_tokens(file, context)};
}

}  // namespace weft
