#include "model/family.h"

#include "base/error.h"
#include "model/family_names.h"

namespace weft {
namespace {

using ops::Activation;
using ops::NormKind;

constexpr LayerKind kQwen2 = {.qkv_bias = true};
constexpr LayerKind kQwen3 = {.norm_heads = true};
constexpr LayerKind kQwen35 = {.norm_heads = true, .attention_gate = AttentionGate::values};
constexpr LayerKind kQwen35Moe = {
    .norm_heads = true, .shared_expert = SharedExpert::gated, .attention_gate = AttentionGate::values};
constexpr LayerKind kLfm3 = {.norm_heads = true, .norm_branches = true, .attention_gate = AttentionGate::heads};
constexpr LayerKind kGraniteHybrid = {.shared_expert = SharedExpert::plain};
constexpr LayerKind kGptOss = {
    .activation = Activation::clamped, .qkv_bias = true, .out_bias = true, .expert_bias = true, .sinks = true};
constexpr LayerKind kGemma = {.activation = Activation::gelu_tanh};
constexpr LayerKind kGemma2 = {.norm_branches = true, .activation = Activation::gelu_tanh};
constexpr LayerKind kGemma3 = {.norm_heads = true, .norm_branches = true, .activation = Activation::gelu_tanh};
constexpr LayerKind kGemma4 = {.norm_heads = true,
                               .norm_values = true,
                               .norm_branches = true,
                               .scaled = true,
                               .activation = Activation::gelu_tanh};
constexpr LayerKind kEmbeddingGemma2 = [] {
  LayerKind kind = kGemma4;
  kind.sees_all = true;
  return kind;
}();
constexpr LayerKind with_biases(LayerKind kind) {
  kind.qkv_bias = kind.out_bias = kind.ffn_bias = true;
  return kind;
}
constexpr LayerKind kGpt2 = with_biases(
    {.norm = NormKind::layer, .positions = Positions::learned, .gated = false, .activation = Activation::gelu_tanh});
constexpr LayerKind kNeox = {
    .norm = NormKind::layer, .parallel = true, .gated = false, .activation = Activation::gelu, .ffn_bias = true};
// Norms of what a branch adds, and none of what it reads: OLMo 2's (OLMo et al. 2025), and EXAONE 4's.
constexpr LayerKind kOlmo2 = {.unnormed = true, .norm_rows = true, .norm_branches = true};
constexpr LayerKind kExaone4 = {.unnormed = true, .norm_heads = true, .norm_branches = true};
constexpr LayerKind kGlm4 = {.norm_branches = true};
constexpr LayerKind kArcee = {.gated = false, .activation = Activation::relu_squared};
constexpr LayerKind kNemotron = {.norm = NormKind::layer, .gated = false, .activation = Activation::relu_squared};
constexpr LayerKind kStarcoder2 =
    with_biases({.norm = NormKind::layer, .gated = false, .activation = Activation::gelu_tanh});
constexpr LayerKind kStableLm = {.norm = NormKind::layer};
constexpr LayerKind kPhi = with_biases({.norm = NormKind::layer,
                                        .parallel = true,
                                        .shared_norm = true,
                                        .gated = false,
                                        .activation = Activation::gelu_tanh});
constexpr LayerKind kHunyuan = {.norm_rotated = true};
constexpr LayerKind kOlmo = {.norm = NormKind::layer, .norm_bias = false, .norm_weights = false};
constexpr LayerKind kOlmoe = {.norm_rows = true};
constexpr LayerKind kQwen2Moe = {.qkv_bias = true, .shared_expert = SharedExpert::gated};
constexpr LayerKind kMpt = {.norm = NormKind::layer,
                            .norm_bias = false,
                            .positions = Positions::alibi,
                            .gated = false,
                            .activation = Activation::gelu};
constexpr LayerKind kOpt = with_biases(
    {.norm = NormKind::layer, .positions = Positions::learned, .gated = false, .activation = Activation::relu});
constexpr LayerKind kFalcon = {
    .norm = NormKind::layer, .parallel = true, .shared_norm = true, .gated = false, .activation = Activation::gelu};
constexpr LayerKind kJais2 = with_biases(kNemotron);
constexpr LayerKind kGptj = {.norm = NormKind::layer,
                             .parallel = true,
                             .shared_norm = true,
                             .gated = false,
                             .activation = Activation::gelu_tanh,
                             .ffn_bias = true};
constexpr LayerKind kBloom = with_biases({.norm = NormKind::layer,
                                          .embedding_norm = true,
                                          .positions = Positions::alibi,
                                          .gated = false,
                                          .activation = Activation::gelu_tanh});
constexpr LayerKind bert(bool decoder) {
  return with_biases({.norm = NormKind::layer,
                      .embedding_norm = true,
                      .norm_after = true,
                      .sees_all = !decoder,
                      .sees_source = decoder,
                      .positions = Positions::learned,
                      .gated = false,
                      .activation = Activation::gelu});
}
constexpr LayerKind kNomicBert = {
    .norm = NormKind::layer, .embedding_norm = true, .typed = true, .norm_after = true, .sees_all = true};
constexpr LayerKind kModernBert = {.norm = NormKind::layer,
                                   .norm_bias = false,
                                   .embedding_norm = true,
                                   .first_unnormed = true,
                                   .sees_all = true,
                                   .activation = Activation::gelu};
constexpr LayerKind kGemmaEmbedding = {
    .norm_heads = true, .norm_branches = true, .sees_all = true, .activation = Activation::gelu_tanh};
constexpr LayerKind kBert = bert(false), kBartDecoder = bert(true);
constexpr LayerKind kSiglip = with_biases({.norm = NormKind::layer,
                                           .sees_all = true,
                                           .positions = Positions::learned,
                                           .gated = false,
                                           .activation = Activation::gelu_tanh});
constexpr LayerKind kQwen3VlImage =
    with_biases({.norm = NormKind::layer, .sees_all = true, .gated = false, .activation = Activation::gelu_tanh});
constexpr LayerKind whisper(bool decoder) {
  LayerKind kind = with_biases({.norm = NormKind::layer,
                                .sees_all = !decoder,
                                .sees_source = decoder,
                                .positions = Positions::learned,
                                .gated = false,
                                .activation = Activation::gelu});
  kind.key_bias = false;
  return kind;
}
constexpr LayerKind kWhisperEncoder = whisper(false), kWhisperDecoder = whisper(true);
constexpr LayerKind kT5Encoder = {
    .sees_all = true, .positions = Positions::bucketed, .gated = false, .activation = Activation::relu};
constexpr LayerKind kT5Decoder = {
    .sees_source = true, .positions = Positions::bucketed, .gated = false, .activation = Activation::relu};
constexpr LayerKind kXglm = with_biases(
    {.norm = NormKind::layer, .positions = Positions::sinusoidal, .gated = false, .activation = Activation::gelu});
// PaLM's (Chowdhery et al. 2022): with one key/value head it is that very layer.
constexpr LayerKind kCohere = {.norm = NormKind::layer, .norm_bias = false, .parallel = true, .shared_norm = true};

// The encoders of encoder-decoders.
constexpr Family kT5EncoderFamily = {.architecture = "t5",
                                     .model_type = "t5",
                                     .layer_kind = kT5Encoder,
                                     .prefix = "",
                                     .layers = "encoder.block.",
                                     .gguf_layers = "enc.blk.",
                                     .names = kT5EncoderNames,
                                     .gguf_names = kT5EncoderGguf};
constexpr Family kBartEncoderFamily = {.architecture = "",
                                       .model_type = "bart",
                                       .layer_kind = kBert,
                                       .layers = "encoder.layers.",
                                       .names = kBartEncoderNames,
                                       .first_position = 2};

constexpr Family kWhisperEncoderFamily = {.architecture = "",
                                          .model_type = "whisper",
                                          .layer_kind = kWhisperEncoder,
                                          .layers = "encoder.layers.",
                                          .names = kWhisperEncoderNames};

constexpr Family kImageFamily = {.architecture = "clip",
                                 .model_type = "idefics3",
                                 .layer_kind = kSiglip,
                                 .prefix = "model.vision_model.",
                                 .layers = "encoder.layers.",
                                 .gguf_layers = "v.blk.",
                                 .names = kSiglipNames,
                                 .gguf_names = kSiglipGguf};

constexpr Family kGemma3ImageFamily = {.architecture = "clip",
                                       .model_type = "gemma3",
                                       .layer_kind = kSiglip,
                                       .prefix = "model.vision_model.",
                                       .layers = "encoder.layers.",
                                       .gguf_layers = "v.blk.",
                                       .names = kGemma3ImageNames,
                                       .gguf_names = kGemma3ImageGguf,
                                       .transposed_output = true};

constexpr Family kQwen3VlImageFamily = {.architecture = "clip",
                                        .model_type = "qwen3_vl",
                                        .layer_kind = kQwen3VlImage,
                                        .prefix = "model.visual.",
                                        .layers = "blocks.",
                                        .gguf_layers = "v.blk.",
                                        .names = kQwen3VlImageNames,
                                        .gguf_names = kQwen3VlImageGguf};

constexpr Family kAssistantFamily = {.architecture = "",
                                     .model_type = "gemma4_assistant",
                                     .layer_kind = kGemma4,
                                     .gemma = true,
                                     .global_every = 6,
                                     .local_rope_base = 10000,
                                     .names = kGemma4Names,
                                     .gemma4 = true,
                                     .assistant = true};

constexpr Family kFamilies[] = {
    {.architecture = "llama", .model_type = "llama", .gguf_pairs = ops::Pairs::adjacent, .experts = true},
    {.architecture = "llama", .model_type = "mistral", .gguf_pairs = ops::Pairs::adjacent},
    {.architecture = "llama",
     .model_type = "mixtral",
     .gguf_pairs = ops::Pairs::adjacent,
     .names = kMixtralNames,
     .experts = true},
    {.architecture = "mistral3", .model_type = "ministral3", .gguf_pairs = ops::Pairs::adjacent, .query_growth = true},
    {.architecture = "qwen2", .model_type = "qwen2", .layer_kind = kQwen2},
    {.architecture = "qwen3", .model_type = "qwen3", .layer_kind = kQwen3},
    {.architecture = "qwen3vl", .model_type = "qwen3_vl_text", .layer_kind = kQwen3},
    {.architecture = "qwen3moe",
     .model_type = "qwen3_moe",
     .layer_kind = kQwen3,
     .names = kQwen3MoeNames,
     .experts = true},
    {.architecture = "gpt-oss",
     .model_type = "gpt_oss",
     .layer_kind = kGptOss,
     .global_every = 2,
     .gguf_window = true,
     .whole_yarn = false,
     .names = kGptOssNames,
     .gguf_names = kPostAttentionGguf,
     .experts = true},
    {.architecture = "qwen35",
     .model_type = "qwen3_5_text",
     .layer_kind = kQwen35,
     .names = kQwen35Names,
     .gguf_names = kQwen35Gguf,
     .norms_lack_one = true,
     .gated_delta = true},
    {.architecture = "qwen35moe",
     .model_type = "qwen3_5_moe_text",
     .layer_kind = kQwen35Moe,
     .names = kQwen35Names,
     .gguf_names = kQwen35Gguf,
     .norms_lack_one = true,
     .gated_delta = true,
     .experts = true},
    {.architecture = "granite",
     .model_type = "granite",
     .gguf_pairs = ops::Pairs::adjacent,
     .gguf_multipliers = true,
     .multipliers = true},
    {.architecture = "granitehybrid",
     .model_type = "granitemoehybrid",
     .layer_kind = kGraniteHybrid,
     .gguf_pairs = ops::Pairs::adjacent,
     .names = kGraniteHybridNames,
     .gguf_names = kGraniteHybridGguf,
     .multipliers = true,
     .mamba2 = true,
     .experts = true},
    {.architecture = "lfm2",
     .model_type = "lfm2",
     .layer_kind = kQwen3,
     .names = kLfm2Names,
     .gguf_names = kLfm2Gguf,
     .short_conv = true},
    {.architecture = "lfm2moe",
     .model_type = "lfm2_moe",
     .layer_kind = kQwen3,
     .names = kLfm2Names,
     .gguf_names = kLfm2Gguf,
     .short_conv = true,
     .experts = true},
    {.architecture = "",
     .model_type = "lfm3",
     .layer_kind = kLfm3,
     .names = kLfm3Names,
     .short_conv = true,
     .lfm3 = true},
    {.architecture = "smollm3", .model_type = "smollm3", .gguf_pairs = ops::Pairs::adjacent, .no_rope_every = 4},
    {.architecture = "gemma", .model_type = "gemma", .layer_kind = kGemma, .gemma = true},
    {.architecture = "gemma2",
     .model_type = "gemma2",
     .layer_kind = kGemma2,
     .gemma = true,
     .global_every = 2,
     .names = kGemma2Names},
    {.architecture = "gemma3",
     .model_type = "gemma3_text",
     .layer_kind = kGemma3,
     .gemma = true,
     .global_every = 6,
     .local_rope_base = 10000,
     .names = kGemma2Names},
    {.architecture = "gemma-embedding",
     .model_type = "",  // a gemma3_text that says so
     .layer_kind = kGemmaEmbedding,
     .gemma = true,
     .global_every = 6,
     .gguf_window = true,
     .local_rope_base = 10000},
    {.architecture = "gemma4",
     .model_type = "gemma4_text",
     .layer_kind = kGemma4,
     .gemma = true,
     .global_every = 6,
     .gguf_window = true,
     .local_rope_base = 10000,
     .names = kGemma4Names,
     .gguf_names = kGemma4Gguf,
     .gemma4 = true},
    {.architecture = "",
     .model_type = "embedding_gemma2_text",
     .layer_kind = kEmbeddingGemma2,
     .gemma = true,
     .global_every = 6,
     .local_rope_base = 10000,
     .names = kEmbeddingGemma2Names,
     .gemma4 = true},
    {.architecture = "phi3", .model_type = "phi3", .names = kPhi3Names},
    {.architecture = "gpt2",
     .model_type = "gpt2",
     .layer_kind = kGpt2,
     .prefix = "transformer.",
     .layers = "h.",
     .names = kGpt2Names,
     .transposed = true},
    {.architecture = "gptneox",
     .model_type = "gpt_neox",
     .layer_kind = kNeox,
     .prefix = "gpt_neox.",
     .names = kNeoxNames,
     .qkv_by_head = true},
    {.architecture = "bloom",
     .model_type = "bloom",
     .layer_kind = kBloom,
     .prefix = "transformer.",
     .layers = "h.",
     .names = kBloomNames,
     .qkv_by_head = true},
    {.architecture = "command-r",
     .model_type = "cohere",
     .layer_kind = kCohere,
     .pairs = ops::Pairs::adjacent,
     .gguf_pairs = ops::Pairs::adjacent,
     .gguf_multipliers = true},
    {.architecture = "cohere2",
     .model_type = "cohere2",
     .layer_kind = kCohere,
     .pairs = ops::Pairs::adjacent,
     .gguf_pairs = ops::Pairs::adjacent,
     .global_every = 4,
     .gguf_window = true,
     .gguf_multipliers = true,
     .window_rope = true},
    {.architecture = "olmo2",
     .model_type = "olmo2",
     .layer_kind = kOlmo2,
     .global_every = 4,
     .local_plain = true,
     .names = kOlmo2Names},
    {.architecture = "olmo2",
     .model_type = "olmo3",
     .layer_kind = kOlmo2,
     .global_every = 4,
     .local_plain = true,
     .names = kOlmo2Names},
    {.architecture = "exaone", .model_type = "exaone", .prefix = "transformer.", .layers = "h.", .names = kExaoneNames},
    {.architecture = "exaone4",
     .model_type = "exaone4",
     .layer_kind = kExaone4,
     .global_every = 4,
     .window_rope = true,
     .names = kOlmo2Names},
    {.architecture = "glm4",
     .model_type = "glm4",
     .layer_kind = kGlm4,
     .pairs = ops::Pairs::adjacent,
     .gguf_pairs = ops::Pairs::adjacent,
     .names = kGlm4Names,
     .qkv_bias_only = true},
    {.architecture = "chatglm",
     .model_type = "glm",
     .pairs = ops::Pairs::adjacent,
     .gguf_pairs = ops::Pairs::adjacent,
     .names = kPhi3Names,
     .qkv_bias_only = true},
    {.architecture = "ernie4_5",
     .model_type = "ernie4_5",
     .pairs = ops::Pairs::adjacent,
     .gguf_pairs = ops::Pairs::adjacent},
    {.architecture = "arcee", .model_type = "arcee", .layer_kind = kArcee, .gguf_pairs = ops::Pairs::adjacent},
    {.architecture = "nemotron", .model_type = "nemotron", .layer_kind = kNemotron, .norms_lack_one = true},
    {.architecture = "seed_oss", .model_type = "seed_oss", .gguf_names = kPostAttentionGguf, .qkv_bias_only = true},
    {.architecture = "starcoder2", .model_type = "starcoder2", .layer_kind = kStarcoder2, .names = kStarcoder2Names},
    {.architecture = "stablelm", .model_type = "stablelm", .layer_kind = kStableLm, .shares_norm = true},
    {.architecture = "phi2", .model_type = "phi", .layer_kind = kPhi, .names = kPhiNames, .output_bias = true},
    {.architecture = "hunyuan-dense", .model_type = "hunyuan_v1_dense", .layer_kind = kHunyuan, .names = kHunyuanNames},
    {.architecture = "olmo", .model_type = "olmo", .layer_kind = kOlmo, .gguf_pairs = ops::Pairs::adjacent},
    {.architecture = "olmoe",
     .model_type = "olmoe",
     .layer_kind = kOlmoe,
     .names = kQwen3MoeNames,
     .raw_gates = true,
     .experts = true},
    {.architecture = "qwen2moe",
     .model_type = "qwen2_moe",
     .layer_kind = kQwen2Moe,
     .names = kQwen35Names,
     .raw_gates = true,
     .experts = true},
    {.architecture = "granitemoe",
     .model_type = "granitemoe",
     .gguf_pairs = ops::Pairs::adjacent,
     .gguf_multipliers = true,
     .names = kGraniteHybridNames,
     .multipliers = true,
     .experts = true},
    {.architecture = "starcoder",
     .model_type = "gpt_bigcode",
     .layer_kind = kGpt2,
     .prefix = "transformer.",
     .layers = "h.",
     .names = kGpt2Names},
    {.architecture = "falcon",
     .model_type = "falcon",
     .layer_kind = kFalcon,
     .prefix = "transformer.",
     .layers = "h.",
     .names = kBloomNames},
    {.architecture = "jais2", .model_type = "jais2", .layer_kind = kJais2},
    {.architecture = "mpt",
     .model_type = "mpt",
     .layer_kind = kMpt,
     .prefix = "transformer.",
     .layers = "blocks.",
     .names = kMptNames},
    {.architecture = "",
     .model_type = "opt",
     .layer_kind = kOpt,
     .prefix = "model.decoder.",
     .names = kOptNames,
     .first_position = 2},
    {.architecture = "",
     .model_type = "gptj",
     .layer_kind = kGptj,
     .pairs = ops::Pairs::adjacent,
     .prefix = "transformer.",
     .layers = "h.",
     .names = kGptjNames,
     .output_bias = true},
    {.architecture = "", .model_type = "xglm", .layer_kind = kXglm, .names = kXglmNames},
    {.architecture = "bert",
     .model_type = "bert",
     .layer_kind = kBert,
     .prefix = "bert.",
     .layers = "encoder.layer.",
     .names = kBertNames},
    {.architecture = "nomic-bert",
     .model_type = "nomic_bert",
     .layer_kind = kNomicBert,
     .prefix = "",
     .layers = "encoder.layers.",
     .names = kNomicBertNames},
    {.architecture = "modern-bert",
     .model_type = "modernbert",
     .layer_kind = kModernBert,
     .global_every = 3,
     .global_first = true,
     .local_rope_base = 10000,
     .names = kModernBertNames},
    {.architecture = "t5",
     .model_type = "t5",
     .layer_kind = kT5Decoder,
     .prefix = "",
     .layers = "decoder.block.",
     .gguf_layers = "dec.blk.",
     .names = kT5DecoderNames,
     .gguf_names = kT5DecoderGguf,
     .encoder = &kT5EncoderFamily},
    {.architecture = "",
     .model_type = "bart",
     .layer_kind = kBartDecoder,
     .layers = "decoder.layers.",
     .names = kBartDecoderNames,
     .first_position = 2,
     .encoder = &kBartEncoderFamily},
    {.architecture = "",
     .model_type = "whisper",
     .layer_kind = kWhisperDecoder,
     .layers = "decoder.layers.",
     .names = kWhisperDecoderNames,
     .encoder = &kWhisperEncoderFamily,
     .sound = true},
};

// The name of a role by the first list that has one; else the role's own.
std::string_view stem(std::initializer_list<TensorNames> lists, std::string_view role) {
  for (const TensorNames names : lists)
    for (const auto& [known, name] : names)
      if (known == role) return name;
  return role;
}

}  // namespace

std::span<const Family> all_families() { return kFamilies; }

const Family& find_family(ModelFile::Kind kind, const std::string& name, const std::string& place) {
  const bool gguf = kind == ModelFile::Kind::gguf;
  std::string all;
  for (const Family& family : kFamilies) {
    const std::string_view known = gguf ? family.architecture : family.model_type;
    if (known.empty()) continue;
    if (known == name) return family;
    if (all.find(std::string(known) + ",") == all.npos) all += (all.empty() ? "" : " ") + std::string(known) + ",";
  }
  all.pop_back();
  if (!gguf && name == kAssistantFamily.model_type)
    throw Error(Code::unsupported, "a model of the type '" + name + "' guesses for a Gemma 4 and writes no text", place,
                "give it to that model as its draft");
  throw Error(Code::unsupported,
              std::string("not supported: ") + (gguf ? "architecture '" : "model type '") + name + "'", place,
              "Weft runs " + all);
}

const Family& image_family(ImageKind kind) {
  if (kind == ImageKind::merged) return kQwen3VlImageFamily;
  return kind == ImageKind::pooled ? kGemma3ImageFamily : kImageFamily;
}

const Family& assistant_family() { return kAssistantFamily; }

std::string tensor_name(ModelFile::Kind kind, const Family& family, std::string_view role, int layer,
                        std::string_view what) {
  std::string name;
  if (role.starts_with("deepstack_")) {
    const bool gguf = kind == ModelFile::Kind::gguf;
    name = (gguf ? "v.deepstack." : std::string(family.prefix) + "deepstack_merger_list.") + std::to_string(layer) +
           "." + std::string(stem({gguf ? family.gguf_names : family.names}, role));
  } else if (kind == ModelFile::Kind::gguf) {
    if (layer >= 0) name += std::string(family.gguf_layers) + std::to_string(layer) + ".";
    name += stem({family.gguf_names}, role);
  } else {
    // The head is no part of the body, nor is what follows an image encoder, or surrounds a drafter.
    if (role != "output" && role != "soft_norm" && !role.starts_with("assistant_")) name += family.prefix;
    if (layer >= 0) name += std::string(family.layers) + std::to_string(layer) + ".";
    name += stem({family.names, kLlamaNames}, role);
  }
  return what.empty() ? name : name + "." + std::string(what);
}

}  // namespace weft
