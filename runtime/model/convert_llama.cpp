#include "model/convert_llama.h"

#include <set>

#include "base/error.h"
#include "format/quote.h"
#include "model/config.h"
#include "text/gguf_tokenizer.h"

namespace weft {
namespace {

using nlohmann::json;

std::string config_place(const ModelFile& model) { return (model.path / "config.json").string(); }

// The RoPE of a config that read_config has accepted; scaled ones are not written.
double rope_theta(const ModelFile& model) {
  constexpr double by_default = 10000;
  const json& config = model.metadata;
  const auto number = [](const json& object, const char* key, double fallback) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<double>() : fallback;
  };
  double theta = number(config, "rope_theta", by_default);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = config.find(key);
    if (rope == config.end() || !rope->is_object()) continue;
    for (const char* type : {"rope_type", "type"})
      if (const auto named = rope->find(type); named != rope->end() && *named != "default")
        throw Error(Code::unsupported, "not supported yet: writing the RoPE scaling " + printable(named->dump()),
                    config_place(model));
    theta = number(*rope, "rope_theta", theta);
  }
  return theta;
}

Config llama_config(const ModelFile& model) {
  const auto type = model.metadata.find("model_type");
  if (type == model.metadata.end() || *type != "llama")
    throw Error(Code::unsupported,
                "not supported yet: writing a folder of the model type " +
                    (type == model.metadata.end() ? "''" : printable(type->dump())),
                config_place(model), "folders of the type 'llama' are, and GGUF files of every family");
  return read_config(model);
}

class Collector {
 public:
  explicit Collector(const ModelFile& model) : model_(model), config_(llama_config(model)) {}

  std::vector<ConvertTensor> collect() {
    const uint64_t width = config_.width, ffn = config_.ffn;
    const uint64_t queries = config_.query_dim(), keys = config_.kv_dim();
    const uint32_t heads = config_.heads.heads, kv_heads = config_.heads.kv_heads;
    add_tables(width);
    for (uint32_t i = 0; i < config_.layers; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".", layer = "model.layers." + std::to_string(i) + ".";
      add(blk + "attn_norm", layer + "input_layernorm", {width});
      add(blk + "attn_q", layer + "self_attn.q_proj", {queries, width}, heads);
      add(blk + "attn_k", layer + "self_attn.k_proj", {keys, width}, kv_heads);
      add(blk + "attn_v", layer + "self_attn.v_proj", {keys, width});
      add(blk + "attn_output", layer + "self_attn.o_proj", {width, queries});
      add(blk + "ffn_norm", layer + "post_attention_layernorm", {width});
      add(blk + "ffn_gate", layer + "mlp.gate_proj", {ffn, width});
      add(blk + "ffn_up", layer + "mlp.up_proj", {ffn, width});
      add(blk + "ffn_down", layer + "mlp.down_proj", {width, ffn});
    }
    add("output_norm", "model.norm", {width});
    for (const TensorView& tensor : model_.tensors)
      if (!used_.contains(tensor.name) && !tensor.name.ends_with("rotary_emb.inv_freq"))
        throw Error(Code::unsupported, "tensor '" + printable(tensor.name) + "' is no part of a Llama network",
                    model_.path.string());
    return std::move(tensors_);
  }

 private:
  // A tied table may be stored under either name, or under both; the embedding then counts.
  void add_tables(uint64_t width) {
    const TensorView* embedding = model_.find("model.embed_tokens.weight");
    const TensorView* output = model_.find("lm_head.weight");
    const bool tied = config_.tied.value_or(false);
    const TensorView* table = embedding ? embedding : tied ? output : nullptr;
    if (!table) missing("model.embed_tokens.weight");
    if (table->shape.size() != 2 || table->shape[0] == 0 || table->shape[0] >= 1u << 30) wrong(*table, {0, width});
    const uint64_t rows = table->shape[0];
    add("token_embd", embedding ? "model.embed_tokens" : "lm_head", {rows, width});
    if (!tied) add("output", "lm_head", {rows, width});
    used_.insert("lm_head.weight");
  }

  void add(const std::string& gguf, const std::string& huggingface, const std::vector<uint64_t>& shape,
           uint32_t rotated_heads = 0) {
    const TensorView* tensor = model_.find(huggingface + ".weight");
    if (!tensor) missing(huggingface + ".weight");
    if (tensor->shape != shape) wrong(*tensor, shape);
    used_.insert(tensor->name);
    tensors_.push_back({tensor, gguf + ".weight", rotated_heads});
  }

  [[noreturn]] void missing(const std::string& name) const {
    throw Error(Code::bad_file, "the tensor '" + name + "' is missing", model_.path.string());
  }
  [[noreturn]] void wrong(const TensorView& tensor, const std::vector<uint64_t>& shape) const {
    throw Error(
        Code::bad_file,
        "tensor '" + tensor.name + "' has the shape " + json(tensor.shape).dump() + ", expected " + json(shape).dump(),
        model_.path.string());
  }

  const ModelFile& model_;
  Config config_;
  std::vector<ConvertTensor> tensors_;
  std::set<std::string> used_;
};

// A key of the tokenizer, by what the JSON value is.
void add_key(GgufWriter& writer, const std::string& name, const json& value) {
  if (value.is_string()) return writer.key(name, std::string_view(value.get_ref<const std::string&>()));
  if (value.is_boolean()) return writer.key(name, value.get<bool>());
  if (value.is_number()) return writer.key(name, value.get<uint32_t>());
  const bool empty = value.empty();
  if (empty || value[0].is_string()) return writer.key(name, value.get<std::vector<std::string>>());
  if (value[0].is_number_float()) return writer.key(name, value.get<std::vector<float>>());
  writer.key(name, value.get<std::vector<int32_t>>());
}

}  // namespace

uint64_t source_row(const ConvertTensor& tensor, uint64_t row) {
  if (tensor.rotated_heads == 0) return row;
  const uint64_t head = tensor.source->shape[0] / tensor.rotated_heads, within = row % head;
  return row - within + within / 2 + within % 2 * (head / 2);
}

std::vector<ConvertTensor> llama_tensors(const ModelFile& model) { return Collector(model).collect(); }

void add_llama_keys(GgufWriter& writer, const ModelFile& model) {
  const Config config = llama_config(model);
  const double theta = rope_theta(model);
  const TensorView* table = model.find("model.embed_tokens.weight");
  if (!table) table = model.find("lm_head.weight");
  const auto rows = static_cast<uint32_t>(table->shape[0]);
  if (model.tokenizer.is_null())
    throw Error(Code::not_found, "the folder has no tokenizer.json", model.path.string(),
                "export the tokenizer as tokenizer.json");
  const json tokenizer =
      gguf_tokenizer(model.tokenizer, model.tokenizer_config, model.generation_config, rows, model.path.string());
  std::error_code ignored;
  writer.key("general.architecture", "llama");
  writer.key("general.type", "model");
  writer.key("general.name", std::filesystem::weakly_canonical(model.path, ignored).filename().string());
  writer.key("llama.vocab_size", rows);
  writer.key("llama.context_length", config.context);
  writer.key("llama.embedding_length", config.width);
  writer.key("llama.block_count", config.layers);
  writer.key("llama.feed_forward_length", config.ffn);
  writer.key("llama.attention.head_count", config.heads.heads);
  writer.key("llama.attention.head_count_kv", config.heads.kv_heads);
  writer.key("llama.attention.key_length", config.heads.head_dim);
  writer.key("llama.attention.value_length", config.heads.head_dim);
  writer.key("llama.attention.layer_norm_rms_epsilon", config.epsilon);
  writer.key("llama.rope.dimension_count", config.heads.head_dim);
  writer.key("llama.rope.freq_base", static_cast<float>(theta));
  for (const auto& [name, value] : tokenizer.items()) add_key(writer, name, value);
}

}  // namespace weft
