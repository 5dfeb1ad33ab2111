#include "support/model_maker.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "support/model_maker_gemma4.h"
#include "support/random_rows.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

using Tensor = MadeTensor;

void check(const LlamaShape& shape) {
  const auto require = [](bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(std::string("not a shape: ") + what);
  };
  require(shape.width > 0 && shape.layers > 0 && shape.heads > 0 && shape.kv_heads > 0 && shape.ffn > 0, "a zero");
  require(shape.vocab >= 3, "a vocabulary has at least 3 tokens");
  require(shape.heads % shape.kv_heads == 0, "heads must be a multiple of KV heads");
  require(shape.head_width() > 0 && shape.head_width() % 2 == 0, "heads must have an even width");
  require(!shape.is_gemma4() || shape.gemma4.shared + shape.gemma4.global_every <= shape.layers,
          "a layer of each kind has a cache of its own");
}

// A layer's mixer that is linear attention.
void add_linear(std::vector<Tensor>& tensors, const LlamaShape& s, const std::string& blk) {
  const LinearLayers& l = s.linear;
  const uint64_t width = s.width, keys = uint64_t{l.key_heads} * l.key_dim, values = uint64_t{l.heads} * l.value_dim;
  const bool delta = l.architecture == "qwen35";
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, std::optional<DType> type = {},
                       float factor = 1) {
    tensors.push_back({blk + name, blk + name, std::move(shape), 0, type, factor});
  };
  add("ssm_conv1d.weight", {2 * keys + values, l.taps}, DType::f32);
  add("ssm_dt.bias", {l.heads});
  add("ssm_out.weight", {width, values});
  if (delta) {
    add("attn_qkv.weight", {2 * keys + values, width});
    add("attn_gate.weight", {values, width});
    add("ssm_alpha.weight", {l.heads, width});
    add("ssm_beta.weight", {l.heads, width});
    add("ssm_a", {l.heads}, {}, -0.05f);
    add("ssm_norm.weight", {l.value_dim});
  } else {
    add("ssm_in.weight", {2 * keys + 2 * values + l.heads, width});
    add("ssm_conv1d.bias", {2 * keys + values}, {}, 0.1f);
    add("ssm_a", {l.heads, 1}, DType::f32, -0.05f);
    add("ssm_d", {l.heads, 1}, DType::f32);
    add("ssm_norm.weight", {l.key_heads, values / l.key_heads}, DType::f32);
  }
}

// A layer's mixer that is a short convolution.
void add_convolution(std::vector<Tensor>& tensors, const LlamaShape& s, const std::string& blk) {
  const uint64_t width = s.width;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, std::optional<DType> type = {}) {
    tensors.push_back({blk + name, blk + name, std::move(shape), 0, type});
  };
  add("shortconv.in_proj.weight", {3 * width, width});
  add("shortconv.conv.weight", {width, s.linear.taps}, DType::f32);
  add("shortconv.out_proj.weight", {width, width});
}

// A layer's experts in place of a feed-forward.
void add_experts(std::vector<Tensor>& tensors, const LlamaShape& s, const std::string& blk) {
  const ExpertLayers& e = s.experts;
  const uint64_t width = s.width;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, std::optional<DType> type = {},
                       float factor = 1) {
    tensors.push_back({blk + name, blk + name, std::move(shape), 0, type, factor});
  };
  add("ffn_gate_inp.weight", {e.count, width}, DType::f32);
  for (const char* kind : {"gate", "up", "down"}) {
    const bool down = std::string_view(kind) == "down";
    const std::string name = std::string("ffn_") + kind;
    add(name + "_exps.weight", {e.count, down ? width : e.ffn, down ? e.ffn : width});
    if (e.architecture == "gpt-oss") add(name + "_exps.bias", {e.count, down ? width : e.ffn}, DType::f32, 0.1f);
    if (e.shared_ffn > 0) add(name + "_shexp.weight", {down ? width : e.shared_ffn, down ? e.shared_ffn : width});
  }
  if (e.architecture == "qwen35moe") add("ffn_gate_inp_shexp.weight", {width}, {}, 0.1f);
  if (e.architecture != "gpt-oss") return;
  const uint64_t queries = uint64_t{s.heads} * s.head_width(), keys = uint64_t{s.kv_heads} * s.head_width();
  add("ffn_gate_inp.bias", {e.count}, {}, 0.1f);
  add("attn_sinks.weight", {s.heads});
  add("attn_q.bias", {queries}, {}, 0.1f);
  add("attn_k.bias", {keys}, {}, 0.1f);
  add("attn_v.bias", {keys}, {}, 0.1f);
  add("attn_output.bias", {width}, {}, 0.1f);
}

std::vector<Tensor> tensors_of(const LlamaShape& s) {
  if (s.is_gemma4()) return gemma4_tensors(s);
  const bool gated = s.linear.architecture == "qwen35", after = gated || s.experts.architecture == "gpt-oss";
  const bool convolves = s.linear.architecture == "lfm2";
  const bool normed_heads = gated || convolves || s.experts.architecture == "qwen3moe";
  const uint64_t width = s.width, queries = uint64_t{s.heads} * s.head_width(),
                 keys = uint64_t{s.kv_heads} * s.head_width();
  std::vector<Tensor> tensors = {{"token_embd.weight", "model.embed_tokens.weight", {s.vocab, width}}};
  for (uint32_t i = 0; i < s.layers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".", layer = "model.layers." + std::to_string(i) + ".";
    tensors.push_back({blk + "attn_norm.weight", layer + "input_layernorm.weight", {width}});
    if (s.attends(i)) {
      const uint64_t rows = (gated ? 2 : 1) * queries;
      tensors.push_back({blk + "attn_q.weight", layer + "self_attn.q_proj.weight", {rows, width}, s.heads});
      tensors.push_back({blk + "attn_k.weight", layer + "self_attn.k_proj.weight", {keys, width}, s.kv_heads});
      tensors.push_back({blk + "attn_v.weight", layer + "self_attn.v_proj.weight", {keys, width}});
      tensors.push_back({blk + "attn_output.weight", layer + "self_attn.o_proj.weight", {width, queries}});
      for (const char* name : {"attn_q_norm.weight", "attn_k_norm.weight"})
        if (normed_heads) tensors.push_back({blk + name, layer + name, {s.head_width()}});
    } else if (convolves) {
      add_convolution(tensors, s, blk);
    } else {
      add_linear(tensors, s, blk);
    }
    const char* const ffn_norm = after ? "post_attention_norm.weight" : "ffn_norm.weight";
    tensors.push_back({blk + ffn_norm, layer + "post_attention_layernorm.weight", {width}});
    if (s.experts.count > 0) {
      add_experts(tensors, s, blk);
      continue;
    }
    tensors.push_back({blk + "ffn_gate.weight", layer + "mlp.gate_proj.weight", {s.ffn, width}});
    tensors.push_back({blk + "ffn_up.weight", layer + "mlp.up_proj.weight", {s.ffn, width}});
    tensors.push_back({blk + "ffn_down.weight", layer + "mlp.down_proj.weight", {width, s.ffn}});
  }
  tensors.push_back({convolves ? "token_embd_norm.weight" : "output_norm.weight", "model.norm.weight", {width}});
  if (!s.tied) tensors.push_back({"output.weight", "lm_head.weight", {s.vocab, width}});
  return tensors;
}

DType type_of(const Tensor& tensor, DType wanted) {
  if (tensor.is_vector()) return DType::f32;
  if (tensor.type) return *tensor.type;
  return tensor.columns() % block_elements(wanted) != 0 ? DType::f16 : wanted;
}

class Output {
 public:
  explicit Output(const fs::path& path) : path_(path), file_(std::fopen(path.c_str(), "wb"), &std::fclose) {
    if (!file_) throw std::runtime_error(path.string() + ": cannot create the file");
  }
  void write(std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail();
  }
  void close() {
    if (std::fclose(file_.release()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(path_.string() + ": cannot write the file"); }
  fs::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// Row of Hugging Face's order that GGUF has at `row`: within each head, element i of the first half and element i of
// the second become neighbours.
uint64_t rotated_row(const Tensor& tensor, uint64_t row) {
  if (tensor.rotated_heads == 0) return row;
  const uint64_t head_width = tensor.rows() / tensor.rotated_heads, within = row % head_width;
  return row - within + within / 2 + (within % 2) * (head_width / 2);
}

void write_tensor(Output& output, const Tensor& tensor, DType type, uint64_t seed, bool gguf_order) {
  std::vector<float> row(tensor.columns());
  std::string bytes;
  for (uint64_t r = 0; r < tensor.rows(); ++r) {
    made_row(tensor.huggingface, tensor.is_vector(), seed, gguf_order ? rotated_row(tensor, r) : r, row);
    for (float& value : row) value *= tensor.factor;
    append_row(bytes, type, row);
    if (bytes.size() < (size_t{1} << 20) && r + 1 < tensor.rows()) continue;
    output.write(bytes);
    bytes.clear();
  }
}

constexpr uint32_t kFirstByte = 3, kFirstWord = 3 + 256;

void write_linear_keys(GgufWriter& writer, const LlamaShape& s, const std::string& p) {
  const LinearLayers& l = s.linear;
  if (l.architecture == "lfm2") return writer.key(p + "shortconv.l_cache", l.taps);
  writer.key(p + "ssm.conv_kernel", l.taps);
  writer.key(p + "ssm.state_size", l.key_dim);
  writer.key(p + "ssm.group_count", l.key_heads);
  writer.key(p + "ssm.time_step_rank", l.heads);
  writer.key(p + "ssm.inner_size", l.heads * l.value_dim);
  if (l.architecture == "qwen35") {
    const auto pairs = static_cast<int32_t>(s.head_width() / 8);
    writer.key(p + "full_attention_interval", l.attend_every);
    writer.key(p + "rope.dimension_sections", std::vector<int32_t>{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
    return;
  }
  writer.key(p + "rope.scaling.finetuned", false);
  writer.key(p + "attention.scale", 1.0f / static_cast<float>(s.head_width()));
  writer.key(p + "embedding_scale", 12.0f);
  writer.key(p + "residual_scale", 0.22f);
  writer.key(p + "logit_scale", 6.0f);
}

void write_expert_keys(GgufWriter& writer, const LlamaShape& s, const std::string& p) {
  const ExpertLayers& e = s.experts;
  writer.key(p + "expert_count", e.count);
  writer.key(p + "expert_used_count", e.used);
  writer.key(p + "expert_feed_forward_length", e.ffn);
  if (e.shared_ffn > 0) writer.key(p + "expert_shared_feed_forward_length", e.shared_ffn);
  if (e.architecture != "gpt-oss") return;
  writer.key(p + "attention.sliding_window", uint32_t{128});
  writer.key(p + "rope.scaling.type", "yarn");
  writer.key(p + "rope.scaling.factor", 32.0f);
  writer.key(p + "rope.scaling.original_context_length", uint32_t{4096});
}

void write_metadata(GgufWriter& writer, const LlamaShape& s, const MakeOptions& options) {
  const std::string p = std::string(s.architecture()) + ".";
  writer.key("general.architecture", s.architecture());
  writer.key("general.name", "made by weft-make-model");
  writer.key("general.alignment", uint32_t{32});
  writer.key(p + "vocab_size", s.vocab);
  writer.key(p + "context_length", s.context);
  writer.key(p + "embedding_length", s.width);
  writer.key(p + "block_count", s.layers);
  writer.key(p + "attention.head_count", s.heads);
  if (s.linear.architecture == "granitehybrid" || s.linear.architecture == "lfm2") {
    std::vector<int32_t> heads;
    for (uint32_t i = 0; i < s.layers; ++i) heads.push_back(s.attends(i) ? static_cast<int32_t>(s.kv_heads) : 0);
    writer.key(p + "attention.head_count_kv", heads);
  } else {
    writer.key(p + "attention.head_count_kv", s.kv_heads);
  }
  writer.key(p + "attention.layer_norm_rms_epsilon", s.rms_epsilon);
  writer.key(p + "rope.freq_base", s.rope_base);
  if (s.is_gemma4()) {
    write_gemma4_keys(writer, s, p);
  } else {
    writer.key(p + "feed_forward_length", s.ffn);
    writer.key(p + "attention.key_length", s.head_width());
    writer.key(p + "attention.value_length", s.head_width());
    writer.key(p + "rope.dimension_count", s.linear.architecture == "qwen35" ? s.head_width() / 4 : s.head_width());
  }
  if (!s.linear.architecture.empty()) write_linear_keys(writer, s, p);
  if (s.experts.count > 0) write_expert_keys(writer, s, p);
  std::vector<float> scores(s.vocab, 0.0f);
  std::vector<int32_t> types(s.vocab, 1);  // normal
  for (uint32_t id = 0; id < s.vocab; ++id) {
    if (id < kFirstWord) types[id] = id == 0 ? 2 : id < kFirstByte ? 3 : 6;  // unknown, control, byte
    if (id >= kFirstWord) scores[id] = -static_cast<float>(id - kFirstWord);
  }
  writer.key("tokenizer.ggml.model", "llama");
  writer.key("tokenizer.ggml.tokens", made_vocabulary(s.vocab));
  writer.key("tokenizer.ggml.scores", scores);
  writer.key("tokenizer.ggml.token_type", types);
  writer.key("tokenizer.ggml.bos_token_id", uint32_t{1});
  writer.key("tokenizer.ggml.eos_token_id", uint32_t{2});
  writer.key("tokenizer.ggml.unknown_token_id", uint32_t{0});
  writer.key("tokenizer.ggml.add_bos_token", true);
  writer.key("tokenizer.ggml.add_eos_token", false);
  if (!options.chat_template.empty()) writer.key("tokenizer.chat_template", std::string_view(options.chat_template));
}

json config_of(const LlamaShape& s, DType type) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"bos_token_id", 1},
          {"eos_token_id", 2},
          {"hidden_act", "silu"},
          {"hidden_size", s.width},
          {"intermediate_size", s.ffn},
          {"max_position_embeddings", s.context},
          {"num_attention_heads", s.heads},
          {"num_key_value_heads", s.kv_heads},
          {"num_hidden_layers", s.layers},
          {"head_dim", s.head_width()},
          {"rms_norm_eps", s.rms_epsilon},
          {"rope_theta", s.rope_base},
          {"rope_scaling", nullptr},
          {"tie_word_embeddings", s.tied},
          {"torch_dtype", type == DType::f32   ? "float32"
                          : type == DType::f16 ? "float16"
                                               : "bfloat16"},
          {"vocab_size", s.vocab}};
}

json added_token(uint32_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// The vocabulary as Hugging Face converts SentencePiece ones: BPE that merges any two tokens that make a third, the one
// with the smallest id first.
json tokenizer_of(uint32_t size) {
  const std::vector<std::string> tokens = made_vocabulary(size);
  json vocabulary = json::object(), merges = json::array(), added = json::array();
  for (uint32_t id = 0; id < size; ++id) vocabulary[tokens[id]] = id;
  for (uint32_t id = 0; id < 3; ++id) added.push_back(added_token(id, tokens[id]));
  for (uint32_t id = kFirstWord; id < size; ++id) {
    const std::string& token = tokens[id];
    for (size_t cut = 1; cut < token.size(); ++cut) {
      if ((token[cut] & 0xc0) == 0x80) continue;  // inside the word mark
      merges.push_back(token.substr(0, cut) + " " + token.substr(cut));
    }
  }
  const json bos = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
             text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {bos, text}},
            {"pair", {bos, text, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

void write_json(const fs::path& path, const json& document) {
  Output output(path);
  output.write(document.dump(2) + "\n");
  output.close();
}

}  // namespace

LlamaShape named_shape(std::string_view name) {
  LlamaShape s;
  const auto set = [&](uint32_t width, uint32_t layers, uint32_t heads, uint32_t kv_heads, uint32_t head_dim,
                       uint32_t ffn, uint32_t vocab) {
    s.width = width, s.layers = layers, s.heads = heads, s.kv_heads = kv_heads, s.head_dim = head_dim, s.ffn = ffn,
    s.vocab = vocab;
  };
  if (name == "tiny") return s;
  if (name == "135m") {
    set(576, 30, 9, 3, 64, 1536, 49152);
  } else if (name == "gemma270m") {
    set(640, 18, 4, 1, 256, 2048, 262144);
  } else if (name == "qwen0.6b") {
    set(1024, 28, 16, 8, 128, 3072, 151936);
  } else if (name == "qwen3.5-0.8b") {
    set(1024, 24, 8, 2, 256, 3584, 248320);
    s.linear = {"qwen35", 16, 16, 128, 128, 4, 4, 3};
  } else if (name == "lfm2.5-1.2b") {
    set(2048, 16, 32, 8, 64, 8192, 65536);
    s.linear = {.architecture = "lfm2", .taps = 3, .attending = 0b0101010100100100};
    s.rope_base = 1e6f;
  } else if (name == "granite-4-h-1b") {
    set(1536, 40, 12, 4, 128, 4096, 100352);
    s.linear = {"granitehybrid", 1, 48, 128, 64, 4, 10, 5};
  } else if (name == "gemma4-e2b") {
    set(1536, 35, 8, 1, 256, 6144, 262144);
    s.gemma4 = {5, 512, 20, 256};
    s.rope_base = 1e6f;
  } else if (name == "qwen3-30b-a3b") {
    set(2048, 48, 32, 4, 128, 6144, 151936);
    s.experts = {"qwen3moe", 128, 8, 768};
    s.tied = false;
  } else if (name == "qwen3.5-35b-a3b") {
    set(2048, 40, 16, 2, 256, 512, 248320);
    s.linear = {"qwen35", 16, 32, 128, 128, 4, 4, 3};
    s.experts = {"qwen35moe", 256, 8, 512, 512};
    s.tied = false;
  } else if (name == "granite-4-h-tiny") {
    set(1536, 40, 12, 4, 128, 512, 100352);
    s.linear = {"granitehybrid", 1, 48, 128, 64, 4, 10, 5};
    s.experts = {"granitehybrid", 64, 6, 512, 1024};
  } else if (name == "gpt-oss-20b") {
    set(2880, 24, 64, 8, 64, 2880, 201088);
    s.experts = {"gpt-oss", 32, 4, 2880};
    s.rope_base = 150000;
    s.tied = false;
  } else if (name == "1b") {
    set(2048, 16, 32, 8, 64, 8192, 128256);
  } else if (name == "8b") {
    set(4096, 32, 32, 8, 128, 14336, 128256);
    s.tied = false;
  } else {
    throw std::invalid_argument("no shape of this name: " + std::string(name));
  }
  return s;
}

std::vector<std::string> made_vocabulary(uint32_t size) {
  std::vector<std::string> alphabet = {"▁"};
  for (char c = 'a'; c <= 'z'; ++c) alphabet.push_back(std::string(1, c));
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    tokens.push_back(text);
  }
  tokens.insert(tokens.end(), alphabet.begin(), alphabet.end());
  for (size_t prefix = kFirstWord; tokens.size() < size; ++prefix) {
    for (const std::string& character : alphabet) tokens.push_back(tokens[prefix] + character);
  }
  tokens.resize(size);
  return tokens;
}

void made_row(std::string_view huggingface_name, bool vector, uint64_t seed, uint64_t row, std::span<float> out) {
  uint64_t key = seed;
  for (const char c : huggingface_name) key = mix_bits(key + static_cast<uint8_t>(c) + 0x9e3779b97f4a7c15u);
  key = mix_bits(key ^ (row + 1) * 0x9e3779b97f4a7c15u);
  // Four uniform 16-bit numbers have the variance 4 * (2^32 - 1) / 12.
  const float deviation = vector ? 0.1f : 1.0f / std::sqrt(static_cast<float>(out.size()));
  const float scale = deviation / std::sqrt(4294967295.0f / 3.0f);
  const float mean = vector ? 1.0f : 0.0f;
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = mix_bits(key + (i + 1) * 0x9e3779b97f4a7c15u);
    const auto sum =
        static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
    out[i] = mean + static_cast<float>(sum - 2 * 65535) * scale;
  }
}

void make_gguf(const fs::path& path, const LlamaShape& shape, const MakeOptions& options) {
  check(shape);
  std::vector<Tensor> tensors = tensors_of(shape);
  if (options.second_table) {
    tensors.push_back(tensors[0]);
    tensors.back().gguf = "output.weight";
    tensors.back().type = options.second_table;
  }
  GgufWriter writer;
  write_metadata(writer, shape, options);
  for (const Tensor& tensor : tensors) {
    const DType type = type_of(tensor, options.type);
    writer.tensor(tensor.gguf, tensor.shape, ggml_type(type), bytes_for(type, tensor.shape));
  }
  Output output(path);
  output.write(writer.header());
  for (const Tensor& tensor : tensors) {
    const DType type = type_of(tensor, options.type);
    write_tensor(output, tensor, type, options.seed, true);
    output.write(std::string(writer.padding(bytes_for(type, tensor.shape)), '\0'));
  }
  output.close();
}

void make_medusa(const fs::path& path, uint32_t width, uint32_t heads, const MakeOptions& options, float scale) {
  GgufWriter writer;
  writer.key("general.architecture", "medusa");
  writer.key("medusa.embedding_length", width);
  writer.key("medusa.head_count", heads);
  if (!options.medusa_rows.empty()) writer.key("medusa.rows", options.medusa_rows);
  const DType type = width % block_elements(options.type) != 0 ? DType::f16 : options.type;
  std::string data;
  std::vector<float> row(width);
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, DType kind) {
    std::string bytes;
    for (uint64_t r = 0; r < (shape.size() == 1 ? 1 : shape[0]); ++r) {
      made_row(name, false, options.seed, r, row);
      for (float& value : row) value *= scale;
      append_row(bytes, kind, row);
    }
    writer.tensor(name, shape, ggml_type(kind), bytes.size());
    bytes.append(writer.padding(bytes.size()), '\0');
    data += bytes;
  };
  if (options.medusa_layers != 1) writer.key("medusa.layer_count", options.medusa_layers);
  for (uint32_t head = 0; head < heads; ++head) {
    const std::string name = "medusa." + std::to_string(head) + ".";
    for (uint32_t layer = 0; layer < options.medusa_layers; ++layer) {
      const std::string own = layer == 0 ? name : name + std::to_string(layer) + ".";
      add(own + "weight", {width, width}, type);
      add(own + "bias", {width}, DType::f32);
    }
    if (options.medusa_vocab > 0) add(name + "output.weight", {options.medusa_vocab, width}, type);
  }
  Output output(path);
  output.write(writer.header());
  output.write(data);
  output.close();
}

// Tensors of floats, gathered for a safetensors file.
class FloatTensors {
 public:
  void add(const std::string& name, const std::vector<uint32_t>& shape, const std::vector<float>& values) {
    const size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header_[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }
  void write(const fs::path& path) const {
    const std::string text = header_.dump();
    const uint64_t length = text.size();
    Output output(path);
    output.write(std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data_);
    output.close();
  }

 private:
  json header_;
  std::string data_;
};

void make_tuned_lens(const fs::path& folder, uint32_t width, uint32_t layers, const LensEntry& entry) {
  FloatTensors tensors;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    std::vector<float> weight, bias;
    for (uint32_t row = 0; row < width; ++row) {
      for (uint32_t col = 0; col < width; ++col) weight.push_back(entry(layer, row, col));
      bias.push_back(entry(layer, row, width));
    }
    tensors.add(std::to_string(layer) + ".weight", {width, width}, weight);
    tensors.add(std::to_string(layer) + ".bias", {width}, bias);
  }
  fs::create_directories(folder);
  tensors.write(folder / "params.safetensors");
  write_json(folder / "config.json",
             {{"d_model", width}, {"num_hidden_layers", layers}, {"bias", true}, {"lens_type", "linear_tuned_lens"}});
}

void make_adapter(const fs::path& folder, const LlamaShape& shape, uint32_t rank, uint64_t seed) {
  FloatTensors tensors;
  std::mt19937 random(static_cast<uint32_t>(seed));
  const auto add = [&](const std::string& name, uint32_t rows, uint32_t cols) {
    std::vector<float> values(size_t{rows} * cols);
    for (float& value : values) value = static_cast<float>(random() % 2001) / 1000 - 1;
    tensors.add("base_model.model." + name + ".weight", {rows, cols}, values);
  };
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string begin = "model.layers." + std::to_string(layer);
    add(begin + ".self_attn.q_proj.lora_A", rank, shape.width);
    add(begin + ".self_attn.q_proj.lora_B", shape.heads * shape.head_width(), rank);
    add(begin + ".mlp.down_proj.lora_A", rank, shape.ffn);
    add(begin + ".mlp.down_proj.lora_B", shape.width, rank);
  }
  fs::create_directories(folder);
  tensors.write(folder / "adapter_model.safetensors");
  write_json(folder / "adapter_config.json", {{"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", 1}});
}

void make_huggingface(const fs::path& folder, const LlamaShape& shape, const MakeOptions& options) {
  check(shape);
  if (is_quantised(options.type))
    throw std::invalid_argument(std::string("a Hugging Face folder has no ") + name(options.type));
  if (shape.architecture() != "llama")
    throw std::invalid_argument("models of this architecture are written as GGUF files");
  const std::vector<Tensor> tensors = tensors_of(shape);
  json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const DType type = type_of(tensor, options.type);
    const uint64_t end = offset + bytes_for(type, tensor.shape);
    header[tensor.huggingface] = {{"dtype", name(type)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  fs::create_directories(folder);
  Output output(folder / "model.safetensors");
  output.write(le(uint64_t{text.size()}) + text);
  for (const Tensor& tensor : tensors) write_tensor(output, tensor, type_of(tensor, options.type), options.seed, false);
  output.close();
  write_json(folder / "config.json", config_of(shape, options.type));
  write_json(folder / "generation_config.json", {{"bos_token_id", 1}, {"eos_token_id", 2}});
  write_json(folder / "tokenizer.json", tokenizer_of(shape.vocab));
  json tokenizer_config = {{"add_bos_token", true}, {"add_eos_token", false}, {"bos_token", "<s>"},
                           {"eos_token", "</s>"},   {"unk_token", "<unk>"},   {"tokenizer_class", "LlamaTokenizer"}};
  if (!options.chat_template.empty()) tokenizer_config["chat_template"] = options.chat_template;
  write_json(folder / "tokenizer_config.json", tokenizer_config);
}

}  // namespace weft
