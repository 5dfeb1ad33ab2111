#include "model/sentence_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_object.h"
#include "base/utf8.h"
#include "format/huggingface.h"

namespace weft {
namespace {

[[noreturn]] void unsupported(const std::string& what, const std::string& place) {
  throw Error(Code::unsupported, "not supported: " + what, place);
}

// The steps after the model: pooling, dense layers, and to a length of 1, which Weft does for every model.
void check_modules(const ModelFile& file) {
  const std::string place = place_of(file, "modules.json");
  if (!file.sentence_modules.is_array()) return;
  for (const JsonValue& item : file.sentence_modules.items()) {
    const std::string type = JsonObject(item, place).text("type", "");
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name != "Transformer" && name != "Pooling" && name != "Dense" && name != "Normalize" && name != "LogitScore")
      unsupported("the module " + in_quotes(type), place);
  }
}

Pooling pooling_named(const std::string& name, const JsonObject& values) {
  if (name == "mean") return Pooling::mean;
  if (name == "cls") return Pooling::first;
  if (name == "lasttoken") return Pooling::last;
  unsupported("the pooling " + in_quotes(name), values.place());
}

Pooling read_pooling(const ModelFile& file, Pooling usual) {
  if (file.pooling.is_null()) return usual;
  const JsonObject values(file.pooling, place_of(file, "1_Pooling/config.json"));
  if (!values.flag("include_prompt", true)) unsupported("'include_prompt' false", values.place());
  if (values.has("pooling_mode")) return pooling_named(values.text("pooling_mode", ""), values);
  std::optional<Pooling> found;
  constexpr const char* kModes[] = {"cls_token",           "max_tokens", "mean_tokens", "mean_sqrt_len_tokens",
                                    "weightedmean_tokens", "lasttoken"};
  for (const std::string mode : kModes) {
    if (!values.flag("pooling_mode_" + mode, false)) continue;
    if (found) unsupported("two poolings at once", values.place());
    found = pooling_named(mode == "cls_token" ? "cls" : mode == "mean_tokens" ? "mean" : mode, values);
  }
  return found.value_or(Pooling::mean);
}

void read_prompts(const ModelFile& file, SentenceConfig& config) {
  if (file.sentence_prompts.is_null()) return;
  const JsonObject values(file.sentence_prompts, place_of(file, "config_sentence_transformers.json"));
  if (values.has("prompts")) {
    const JsonObject prompts = values.object("prompts");
    for (const auto& [name, prompt] : values.at("prompts").members())
      if (!prompt.is_null()) config.prompts[name] = prompts.text_of(prompt, name);
  }
  const auto name = values.find_text("default_prompt_name");
  if (!name) return;
  const auto found = config.prompts.find(*name);
  if (found == config.prompts.end())
    throw Error(Code::bad_file, "there is no prompt " + in_quotes(*name), values.place());
  config.default_prompt = found->second;
}

std::vector<float> floats_of(const ModelFile& file, const TensorView& tensor) {
  std::vector<float> values(element_count(tensor.shape));
  std::vector<std::byte> bytes;
  to_float(file.read(tensor, bytes), 0, values);
  return values;
}

DenseLayer dense_layer(const ModelFile& file, const TensorView& weights, uint32_t cols, const std::string& place) {
  constexpr uint64_t kMostRows = 1u << 20;
  if (weights.shape.size() != 2 || weights.shape[1] != cols || weights.shape[0] == 0 || weights.shape[0] > kMostRows)
    throw Error(Code::bad_file,
                "tensor '" + weights.name + "' must be a matrix of " + std::to_string(cols) + " columns", place);
  return {static_cast<uint32_t>(weights.shape[0]), cols, floats_of(file, weights), {}, false};
}

DenseLayer read_dense(const ModelFile& file, const SentenceModule& module, uint32_t cols) {
  const JsonObject values(module.config, module.place);
  const auto find = [&](const std::string& name) -> const TensorView* {
    for (const TensorView& tensor : module.tensors)
      if (tensor.name == name) return &tensor;
    return nullptr;
  };
  if (values.flag("use_residual", false)) unsupported("'use_residual'", module.place);
  if (values.text("module_input_name", "sentence_embedding") != "sentence_embedding" ||
      values.text("module_output_name", "sentence_embedding") != "sentence_embedding")
    unsupported("a dense layer of other values than the embedding", module.place);
  const TensorView* const weights = find("linear.weight");
  if (!weights) throw Error(Code::bad_file, "the tensor 'linear.weight' is missing", module.place);
  DenseLayer layer = dense_layer(file, *weights, cols, module.place);
  if (values.flag("bias", true)) {
    const TensorView* const bias = find("linear.bias");
    if (!bias || bias->shape != std::vector<uint64_t>{layer.rows})
      throw Error(Code::bad_file, "the tensor 'linear.bias' of " + std::to_string(layer.rows) + " numbers is missing",
                  module.place);
    layer.bias = floats_of(file, *bias);
  }
  const std::string activation = values.text("activation_function", "torch.nn.modules.activation.Tanh");
  layer.tanh = activation.ends_with(".Tanh");
  if (!layer.tanh && !activation.ends_with(".Identity"))
    unsupported("the activation " + in_quotes(activation), module.place);
  return layer;
}

void read_relevance(const ModelFile& file, SentenceConfig& config) {
  if (file.logit_score.is_null()) return;
  const JsonObject values(file.logit_score, place_of(file, "1_LogitScore/config.json"));
  RelevanceTokens tokens = {values.integer("true_token_id", 0, UINT32_MAX), {}};
  if (values.has("false_token_id")) tokens.no = values.integer("false_token_id", 0, UINT32_MAX);
  config.relevance = tokens;
}

constexpr const char* kGgufRatings = "cls.output.weight";

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

// A reranker's matrix has two rows of the output table: those of "yes" and "no". Files of untied models lack that
// table.
RelevanceTokens read_gguf_relevance(const ModelFile& file, const JsonObject& values, const std::string& architecture,
                                    bool causal, uint32_t width) {
  const TensorView* const rows = file.find(kGgufRatings);
  if (!causal || !rows || rows->shape != std::vector<uint64_t>{2, width})
    unsupported("a reranker that is no decoder with two rows " + in_quotes(kGgufRatings), values.place());
  const auto find = [&](size_t label, const char* text) {
    const std::string labels = architecture + ".classifier.output_labels", tokens = "tokenizer.ggml.tokens";
    if (values.has(labels) && values.array(labels).size() == 2 && values.array(labels)[label] != text)
      unsupported("other labels than \"yes\" and \"no\"", values.place());
    if (!values.has(tokens)) throw Error(Code::bad_file, "there are no tokens", values.place());
    const auto& all = values.array(tokens);
    const auto found = std::ranges::find_if(all, [&](const JsonValue& token) { return token == text; });
    if (found == all.end()) unsupported("a vocabulary without " + in_quotes(text), values.place());
    return static_cast<uint32_t>(found - all.begin());
  };
  std::vector<float> direction = floats_of(file, *rows);
  for (size_t i = 0; i < width; ++i) direction[i] -= direction[width + i];
  direction.resize(width);
  return {find(0, "yes"), find(1, "no"), std::move(direction)};
}

}  // namespace

std::vector<double> DenseLayer::apply(std::span<const double> x) const {
  std::vector<double> y(rows);
  for (uint32_t row = 0; row < rows; ++row) {
    double sum = bias.empty() ? 0 : bias[row];
    for (uint32_t col = 0; col < cols; ++col) sum += double{weights[size_t{row} * cols + col]} * x[col];
    y[row] = tanh ? std::tanh(sum) : sum;
  }
  return y;
}

SentenceConfig read_sentence_config(const ModelFile& file, bool causal, uint32_t context, uint32_t width,
                                    const TensorView* projection) {
  SentenceConfig config;
  config.given = (!file.sentence_modules.is_null() || !file.pooling.is_null()) && file.logit_score.is_null();
  check_modules(file);
  read_prompts(file, config);
  read_relevance(file, config);
  config.pooling = read_pooling(file, causal && !config.given ? Pooling::last : Pooling::mean);
  config.most_tokens = read_most_tokens(file, context);
  std::vector<DenseLayer> dense;
  if (projection) dense.push_back(dense_layer(file, *projection, width, file.path.string()));
  for (const SentenceModule& module : file.dense_modules)
    dense.push_back(read_dense(file, module, dense.empty() ? width : dense.back().rows));
  if (!dense.empty()) config.dense = std::make_shared<const std::vector<DenseLayer>>(std::move(dense));
  return config;
}

SentenceConfig read_gguf_sentence_config(const ModelFile& file, const std::string& architecture, bool causal,
                                         uint32_t width) {
  const JsonObject values(file.metadata, file.path.string());
  SentenceConfig config;
  const std::string key = architecture + ".pooling_type";
  enum : uint32_t { none, mean, first, last, rank };  // llama.cpp's numbers
  const uint32_t type = values.integer(key, none, rank, none);
  if (type == rank) config.relevance = read_gguf_relevance(file, values, architecture, causal, width);
  config.given = type != none && type != rank;
  config.pooling = type == first                                                ? Pooling::first
                   : type == last || (causal && (type == none || type == rank)) ? Pooling::last
                                                                                : Pooling::mean;
  std::vector<DenseLayer> dense;
  for (const char* const name : kGgufDense)
    if (const TensorView* const tensor = file.find(name))
      dense.push_back(dense_layer(file, *tensor, dense.empty() ? width : dense.back().rows, file.path.string()));
  if (!dense.empty()) config.dense = std::make_shared<const std::vector<DenseLayer>>(std::move(dense));
  return config;
}

}  // namespace weft
