#include "support/model_maker_gemma4.h"

#include <cmath>

#include "format/gguf.h"

namespace weft {

std::vector<MadeTensor> gemma4_tensors(const LlamaShape& s) {
  const uint64_t width = s.width, inputs = uint64_t{s.layers} * s.gemma4.input;
  std::vector<MadeTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    tensors.push_back({name, name, std::move(shape)});
  };
  add("token_embd.weight", {s.vocab, width});
  add("per_layer_token_embd.weight", {s.vocab, inputs});
  add("per_layer_model_proj.weight", {inputs, width});
  add("per_layer_proj_norm.weight", {s.gemma4.input});
  for (uint32_t i = 0; i < s.layers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    const bool shares = i + s.gemma4.shared >= s.layers;
    const uint64_t dim = s.is_global(i) ? s.gemma4.global_dim : s.head_width(), ffn = (shares ? 2 : 1) * s.ffn;
    for (const char* norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm"})
      add(blk + norm + ".weight", {width});
    add(blk + "attn_q.weight", {s.heads * dim, width});
    add(blk + "attn_q_norm.weight", {dim});
    tensors.back().factor = 1 / std::sqrt(static_cast<float>(dim));
    if (!shares) {
      add(blk + "attn_k.weight", {s.kv_heads * dim, width});
      add(blk + "attn_v.weight", {s.kv_heads * dim, width});
      add(blk + "attn_k_norm.weight", {dim});
    }
    add(blk + "attn_output.weight", {width, s.heads * dim});
    add(blk + "ffn_gate.weight", {ffn, width});
    add(blk + "ffn_up.weight", {ffn, width});
    add(blk + "ffn_down.weight", {width, ffn});
    add(blk + "inp_gate.weight", {s.gemma4.input, width});
    add(blk + "proj.weight", {width, s.gemma4.input});
    add(blk + "layer_output_scale.weight", {1});
  }
  add("output_norm.weight", {width});
  return tensors;
}

void write_gemma4_keys(GgufWriter& writer, const LlamaShape& s, const std::string& p) {
  std::vector<int32_t> ffn;
  std::string local = le<uint32_t>(kGgufBool) + writer.length(s.layers);
  for (uint32_t i = 0; i < s.layers; ++i) {
    ffn.push_back(static_cast<int32_t>((i + s.gemma4.shared >= s.layers ? 2 : 1) * s.ffn));
    local += le<uint8_t>(!s.is_global(i));
  }
  writer.key(p + "feed_forward_length", ffn);
  writer.key(p + "attention.key_length", s.gemma4.global_dim);
  writer.key(p + "attention.value_length", s.gemma4.global_dim);
  writer.key(p + "attention.key_length_swa", s.head_width());
  writer.key(p + "attention.value_length_swa", s.head_width());
  writer.key(p + "rope.dimension_count", s.gemma4.global_dim);
  writer.key(p + "rope.dimension_count_swa", s.head_width());
  writer.key(p + "rope.freq_base_swa", 10000.0f);
  writer.key(p + "attention.sliding_window", s.gemma4.window);
  writer.key(p + "attention.sliding_window_pattern", kGgufArray, local);
  writer.key(p + "attention.shared_kv_layers", s.gemma4.shared);
  writer.key(p + "embedding_length_per_layer_input", s.gemma4.input);
  writer.key(p + "final_logit_softcapping", 30.0f);
}

}  // namespace weft
