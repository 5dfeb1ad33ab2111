"""The tiny models of family_goldens.py: their families and settings."""

TINY = dict(hidden_size=48, intermediate_size=72, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1, vocab_size=131,
            max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)


def rope(base, **more):
    return dict(rope_type="default", rope_theta=base) | more


def tiny(*less, **more):
    for settings in less:
        more = settings | more
    return TINY | more


def layers_attending(count, every):
    return ["linear_attention" if (i + 1) % every else "full_attention" for i in range(count)]


GPT2 = dict(vocab_size=131, n_embd=48, n_layer=2, n_positions=256, bos_token_id=1, eos_token_id=2)
NEOX = tiny(num_attention_heads=3, intermediate_size=100, rope_parameters=rope(10000.0, partial_rotary_factor=0.25))
NEOX.pop("num_key_value_heads")
BLOOM = dict(vocab_size=131, n_layer=2, seq_length=256, bos_token_id=1, eos_token_id=2)
MOE = dict(intermediate_size=40, num_experts_per_tok=2)
LFM2 = tiny(num_hidden_layers=5, block_multiple_of=8, rope_parameters=rope(1e6),
            layer_types=["conv", "conv", "full_attention", "conv", "full_attention"])
LFM3 = tiny(num_hidden_layers=6, head_dim=16, sliding_window=24, conv_L_cache=7, rope_parameters={
    "sliding_attention": rope(10000.0), "full_attention": rope(1e6, rope_type="proportional", partial_rotary_factor=0.5)},
            layer_types=["conv", "conv", "full_attention", "conv", "sliding_attention", "full_attention"])
QWEN35 = tiny(num_hidden_layers=5, num_key_value_heads=1, head_dim=24, linear_num_key_heads=2, linear_num_value_heads=4,
              linear_key_head_dim=20, linear_value_head_dim=12, linear_conv_kernel_dim=4,
              rope_parameters=rope(1e6, partial_rotary_factor=0.25, mrope_section=[1, 1, 1]))
GRANITE = dict(embedding_multiplier=1.3, attention_multiplier=0.2, residual_multiplier=0.7, logits_scaling=2.5)
GRANITE_HYBRID = tiny(GRANITE, num_hidden_layers=5, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=72,
                      mamba_n_heads=4, mamba_d_head=24, mamba_d_state=20, mamba_n_groups=2, mamba_d_conv=4)
QWEN3_MOE = tiny(head_dim=24, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=40, norm_topk_prob=True, rope_parameters=rope(1e6))
LFM2_MOE = tiny(num_hidden_layers=5, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=40, num_dense_layers=2, rope_parameters=rope(1e6),
                layer_types=["conv", "conv", "full_attention", "conv", "full_attention"])
# As many heads of values as of keys: GGUF would sort them otherwise, and q8 then rounds other blocks.
QWEN35_MOE = QWEN35 | dict(linear_num_key_heads=2, linear_num_value_heads=2, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=40, shared_expert_intermediate_size=56)
GRANITE_MOE = GRANITE_HYBRID | dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=40, shared_intermediate_size=56)
GPT_OSS = tiny(num_hidden_layers=3, head_dim=24, num_local_experts=5, num_experts_per_tok=2, intermediate_size=40, sliding_window=24,
               layer_types=["sliding_attention", "full_attention", "sliding_attention"],
               rope_parameters=rope(150000.0, rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                    original_max_position_embeddings=64))
YARN = rope(10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
MINISTRAL3 = dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                  original_max_position_embeddings=24, llama_4_scaling_beta=0.5)
PHI4 = tiny(num_hidden_layers=3, intermediate_size=56, sliding_window=512,
            tie_word_embeddings=True, rope_parameters=rope(10000.0, rope_type="longrope", partial_rotary_factor=0.75,
                                                           short_factor=[1.0, 1.05, 1.1, 1.2, 1.3, 1.5], long_factor=[1.0, 1.3, 1.8, 2.6, 3.4, 4.5]))
XGLM = dict(vocab_size=131, d_model=48, ffn_dim=100, num_layers=2, attention_heads=3, max_position_embeddings=256, bos_token_id=1,
            eos_token_id=2)
GEMMA4 = tiny(num_attention_heads=4, num_key_value_heads=2, head_dim=16, global_head_dim=32, vocab_size_per_layer_input=131)
# By name: architecture of the GGUF file ("": no file), class, settings.
MODELS = {
    "llama3": ("llama", "Llama", tiny(rope_parameters=LLAMA3, tie_word_embeddings=True)),
    "llama-linear-biased": ("llama", "Llama", tiny(
        hidden_size=40, num_attention_heads=5, num_key_value_heads=5, head_dim=12, rope_parameters=rope(1000.0, rope_type="linear", factor=4.0),
        attention_bias=True, mlp_bias=True)),
    "mistral": ("llama", "Mistral", tiny(num_attention_heads=4, num_key_value_heads=2, head_dim=20, sliding_window=24)),
    "mistral-tied": ("llama", "Mistral", tiny(sliding_window=70, tie_word_embeddings=True)),
    "qwen2": ("qwen2", "Qwen2", tiny(tie_word_embeddings=True, rope_parameters=rope(1e6))),
    "qwen2-untied": ("qwen2", "Qwen2", tiny(num_attention_heads=6, num_key_value_heads=3)),
    "qwen3": ("qwen3", "Qwen3", tiny(head_dim=24, tie_word_embeddings=True, rope_parameters=rope(1e6))),
    "qwen3-untied": ("qwen3", "Qwen3", tiny(hidden_size=40, num_attention_heads=5, num_key_value_heads=5, head_dim=8)),
    "smollm3": ("smollm3", "SmolLM3", tiny(num_hidden_layers=5, intermediate_size=56, tie_word_embeddings=True)),
    "smollm3-untied": ("smollm3", "SmolLM3", tiny(num_hidden_layers=4, num_key_value_heads=3,
                                                  intermediate_size=56, tie_word_embeddings=False)),
    "gemma": ("gemma", "Gemma", tiny(head_dim=24)),
    "gemma-untied": ("gemma", "Gemma", tiny(hidden_size=40, num_attention_heads=5, head_dim=8, tie_word_embeddings=False)),
    "gemma2": ("gemma2", "Gemma2", tiny(num_hidden_layers=3, head_dim=24, query_pre_attn_scalar=24, sliding_window=24,
                                        attn_logit_softcapping=1.0, final_logit_softcapping=1.0)),
    "gemma2-untied": ("gemma2", "Gemma2", tiny(hidden_size=40, num_attention_heads=5, num_key_value_heads=5, head_dim=8, query_pre_attn_scalar=8,
                                               sliding_window=70, final_logit_softcapping=4.0, tie_word_embeddings=False)),
    "gemma3": ("gemma3", "Gemma3Text", tiny(
        hidden_size=40, intermediate_size=48, num_hidden_layers=7, num_attention_heads=5, head_dim=16, query_pre_attn_scalar=16, sliding_window=24,
        rope_parameters={"full_attention": rope(1e6, rope_type="linear", factor=8.0), "sliding_attention": rope(10000.0)})),
    "gemma3-untied": ("gemma3", "Gemma3Text", tiny(
        hidden_size=40, intermediate_size=48, num_hidden_layers=6, num_attention_heads=5, num_key_value_heads=5, head_dim=8,
        query_pre_attn_scalar=8, sliding_window=40, tie_word_embeddings=False)),
    # E2B and E4B: the last layers share caches, and have feed-forwards twice as wide.
    "gemma4": ("gemma4", "Gemma4Text", GEMMA4 | dict(
        intermediate_size=64, num_hidden_layers=7, num_key_value_heads=1, sliding_window=24, hidden_size_per_layer_input=24,
        num_kv_shared_layers=3, use_double_wide_mlp=True, final_logit_softcapping=1.0,
        layer_types=["sliding_attention", "full_attention"] * 2 + ["sliding_attention"] * 2 + ["full_attention"])),
    # 31B: no per-layer embeddings; the keys are the values in layers that see everything, which have fewer of them.
    "gemma4-keys": ("gemma4", "Gemma4Text", GEMMA4 | dict(
        hidden_size=40, num_hidden_layers=6, sliding_window=40, hidden_size_per_layer_input=0, attention_k_eq_v=True,
        num_global_key_value_heads=1, tie_word_embeddings=False, layer_types=(["sliding_attention"] * 2 + ["full_attention"]) * 2)),
    "lfm2-tied": ("lfm2", "Lfm2", LFM2 | dict(num_attention_heads=4, num_key_value_heads=2)),
    "lfm2-biased-untied": ("lfm2", "Lfm2", LFM2 | dict(hidden_size=40, num_attention_heads=5, num_key_value_heads=5, conv_L_cache=4,
                                                      conv_bias=True, block_auto_adjust_ff_dim=False, tie_word_embeddings=False)),
    "lfm3-gated": ("", "Lfm3", LFM3 | dict(num_attention_heads=4, num_key_value_heads=2)),
    "lfm3-plain-untied": ("", "Lfm3", LFM3 | dict(hidden_size=40, num_attention_heads=5, num_key_value_heads=5, head_dim=8, conv_L_cache=3, conv_bias=True,
                                                 use_sandwich_norm=False, use_attention_gate=False, tie_word_embeddings=False)),
    "phi3": ("phi3", "Phi3", tiny(sliding_window=40)),
    "phi3-tied": ("phi3", "Phi3", tiny(num_attention_heads=6, num_key_value_heads=3, tie_word_embeddings=True)),
    "gpt2": ("gpt2", "GPT2", GPT2 | dict(n_head=3)),
    "gpt2-untied": ("gpt2", "GPT2", GPT2 | dict(n_head=6, n_inner=100, tie_word_embeddings=False)),
    "qwen35": ("qwen35", "Qwen3_5Text", QWEN35 | dict(tie_word_embeddings=True, layer_types=layers_attending(5, 4))),
    "qwen35-untied": ("qwen35", "Qwen3_5Text", QWEN35 | dict(
        hidden_size=40, num_attention_heads=5, linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=33,
        linear_value_head_dim=47, linear_conv_kernel_dim=3, layer_types=layers_attending(5, 2))),
    "granite": ("granite", "Granite", tiny(GRANITE, tie_word_embeddings=True, rope_parameters=rope(1e6))),
    "granite-hybrid": ("granitehybrid", "GraniteMoeHybrid", GRANITE_HYBRID | dict(tie_word_embeddings=True, layer_types=layers_attending(5, 4))),
    "granite-hybrid-biased-untied": ("granitehybrid", "GraniteMoeHybrid", GRANITE_HYBRID | dict(
        hidden_size=40, num_attention_heads=5, mamba_n_heads=5, mamba_d_head=16, mamba_d_state=33, mamba_n_groups=1, mamba_d_conv=3,
        mamba_proj_bias=True, layer_types=layers_attending(5, 2))),
    "qwen3-moe": ("qwen3moe", "Qwen3Moe", QWEN3_MOE),
    "qwen3-moe-mixed-tied": ("", "Qwen3Moe", QWEN3_MOE | dict(  # GGUF cannot state it
        num_hidden_layers=4, hidden_size=40, num_attention_heads=5, num_key_value_heads=5, head_dim=8, num_experts=7, num_experts_per_tok=3,
        mlp_only_layers=[1], norm_topk_prob=False, tie_word_embeddings=True)),
    "lfm2-moe-tied": ("lfm2moe", "Lfm2Moe", LFM2_MOE | dict(num_attention_heads=4, num_key_value_heads=2)),
    "lfm2-moe-plain": ("lfm2moe", "Lfm2Moe", LFM2_MOE | dict(num_experts=7, num_experts_per_tok=3, num_dense_layers=1, norm_topk_prob=False,
                                                            use_expert_bias=False, routed_scaling_factor=1.5)),
    "qwen35-moe": ("qwen35moe", "Qwen3_5MoeText", QWEN35_MOE | dict(layer_types=layers_attending(5, 4))),
    "granite-hybrid-moe": ("granitehybrid", "GraniteMoeHybrid", GRANITE_MOE | dict(layer_types=layers_attending(5, 4))),
    "gpt-oss-f16": ("gpt-oss", "GptOss", GPT_OSS),
    "gpt-oss-mxfp4": ("gpt-oss", "GptOss", GPT_OSS | dict(hidden_size=64, intermediate_size=32, num_attention_heads=8, num_key_value_heads=2,
                                                         head_dim=16, num_local_experts=4)),
    "gpt-neox": ("gptneox", "GPTNeoX", NEOX),
    "gpt-neox-sequential-tied": ("gptneox", "GPTNeoX", NEOX | dict(
        num_attention_heads=4, use_parallel_residual=False, tie_word_embeddings=True,
        rope_parameters=rope(10000.0, partial_rotary_factor=1.0))),
    "mini-gpt": ("gpt2", "GPT2", GPT2 | dict(vocab_size=64, n_embd=64, n_head=4, n_layer=1)),  # the 64-row, 64-wide teaching model
    "bloom": ("bloom", "Bloom", BLOOM | dict(hidden_size=48, n_head=3)),
    "bloom-untied": ("bloom", "Bloom", BLOOM | dict(hidden_size=40, n_head=5, tie_word_embeddings=False)),
    "palm": ("command-r", "Cohere", tiny(logit_scale=0.25)),  # with one key/value head, Cohere's block is PaLM's
    "cohere-untied": ("command-r", "Cohere", tiny(hidden_size=40, num_attention_heads=5, num_key_value_heads=5, logit_scale=1.0,
                                                  tie_word_embeddings=False)),
    "xglm": ("", "XGLM", XGLM),
    "mixtral": ("llama", "Mixtral", tiny(MOE, num_local_experts=5)),
    "mixtral-tied": ("llama", "Mixtral", tiny(MOE, num_local_experts=3, num_experts_per_tok=1, num_attention_heads=5, hidden_size=40,
                                              num_key_value_heads=5, sliding_window=24, tie_word_embeddings=True)),
    # The text is longer than the 64 positions that these were made for.
    "llama-yarn": ("llama", "Llama", tiny(rope_parameters=YARN)),
    # Queries grow at the positions 24, 48, ...
    "ministral3": ("mistral3", "Ministral3", tiny(hidden_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=12, num_hidden_layers=3,
                                                  intermediate_size=56, rope_parameters=rope(10000.0, **MINISTRAL3))),
    "ministral3-tied": ("mistral3", "Ministral3", tiny(hidden_size=40, num_attention_heads=5, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
                                                       rope_parameters=rope(1000.0, **MINISTRAL3 | dict(mscale_all_dim=0.5)))),
    # Each layer kind that further families have; odd widths, and few of them.
    "olmo2": ("olmo2", "Olmo2", tiny(num_attention_heads=4, num_key_value_heads=2, intermediate_size=56)),
    "olmo3": ("olmo2", "Olmo3", tiny(hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1, intermediate_size=48, sliding_window=24,
                                     rope_parameters={"sliding_attention": rope(10000.0), "full_attention": YARN})),
    "exaone": ("exaone", "Exaone", tiny(num_attention_heads=4, num_key_value_heads=2, intermediate_size=56, rope_parameters=LLAMA3)),
    "falcon": ("falcon", "Falcon", tiny(ffn_hidden_size=72)),
    "jais2": ("jais2", "Jais2", tiny(num_attention_heads=4, num_key_value_heads=2)),
    "exaone4": ("exaone4", "Exaone4", tiny(hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1, intermediate_size=48,
                                           sliding_window=24)),
    "exaone4-whole-tied": ("exaone4", "Exaone4", tiny(head_dim=12, num_attention_heads=4, num_key_value_heads=2, intermediate_size=56, sliding_window=None,
                                                      layer_types=["full_attention"] * 2, tie_word_embeddings=True)),
    "cohere2": ("cohere2", "Cohere2", tiny(hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1, intermediate_size=48,
                                           sliding_window=24, logit_scale=0.5)),
    "glm4": ("glm4", "Glm4", tiny(num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=56,
                                  rope_parameters=rope(10000.0, partial_rotary_factor=0.5))),
    "glm": ("chatglm", "Glm", tiny(num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=56,
                                   rope_parameters=rope(10000.0, partial_rotary_factor=0.5))),
    "ernie45": ("ernie4_5", "Ernie4_5", tiny(num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=56)),
    "ernie45-biased-untied": ("ernie4_5", "Ernie4_5", tiny(num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=56,
                                                           use_bias=True, tie_word_embeddings=False)),
    "arcee": ("arcee", "Arcee", tiny(num_attention_heads=4, num_key_value_heads=2, rope_parameters=YARN)),
    "nemotron": ("nemotron", "Nemotron", tiny(num_attention_heads=4, num_key_value_heads=2, rope_parameters=rope(10000.0, partial_rotary_factor=0.5))),
    "seed-oss": ("seed_oss", "SeedOss", tiny(num_attention_heads=4, num_key_value_heads=2, head_dim=20, intermediate_size=56)),
    "starcoder2": ("starcoder2", "Starcoder2", tiny(num_attention_heads=4, num_key_value_heads=2, sliding_window=24)),
    "stablelm": ("stablelm", "StableLm", tiny(num_attention_heads=3, num_key_value_heads=1, use_qkv_bias=True, intermediate_size=56,
                                              rope_parameters=rope(10000.0, partial_rotary_factor=0.25))),
    "stablelm-parallel": ("stablelm", "StableLm", tiny(hidden_size=40, num_attention_heads=5, num_key_value_heads=5, use_parallel_residual=True, intermediate_size=56,
                                                       rope_parameters=rope(10000.0, partial_rotary_factor=0.25))),
    "phi2": ("phi2", "Phi", tiny(num_key_value_heads=3, rope_parameters=rope(10000.0, partial_rotary_factor=0.5))),
    "phi3-longrope": ("phi3", "Phi3", tiny(original_max_position_embeddings=64, rope_parameters=rope(
        10000.0, rope_type="longrope", short_factor=[1.0, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6],
        long_factor=[1.0, 1.3, 1.8, 2.5, 3.0, 3.5, 4.0, 4.5]))),
    "hunyuan": ("hunyuan-dense", "HunYuanDenseV1", tiny(num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=56,
                                                        tie_word_embeddings=True, rope_parameters=rope(10000.0, rope_type="dynamic", alpha=50.0, factor=1.0))),
    "olmo": ("olmo", "Olmo", tiny(num_attention_heads=4, num_key_value_heads=2, intermediate_size=56)),
    "olmoe": ("olmoe", "Olmoe", tiny(MOE, num_attention_heads=4, num_key_value_heads=2, num_experts=3)),
    "qwen2-moe": ("qwen2moe", "Qwen2Moe", tiny(num_attention_heads=4, num_key_value_heads=2, num_experts=3, num_experts_per_tok=2,
                                               moe_intermediate_size=40, shared_expert_intermediate_size=56, intermediate_size=56)),
    "granite-moe": ("granitemoe", "GraniteMoe", tiny(GRANITE, MOE, num_local_experts=3)),
    "starcoder": ("starcoder", "GPTBigCode", GPT2 | dict(n_head=3, n_inner=72)),
    "mpt": ("mpt", "Mpt", dict(vocab_size=131, d_model=40, n_heads=5, n_layers=2, max_seq_len=256, bos_token_id=1, eos_token_id=2)),
    "opt": ("", "OPT", tiny(num_key_value_heads=3, ffn_dim=72, word_embed_proj_dim=48)),
    "gptj": ("", "GPTJ", GPT2 | dict(n_head=3, rotary_dim=8, n_inner=72)),
    # Phi-4-mini's layers: three of four dimensions turn. Sessions are longer than what the first was made for, and as long as the second's.
    "phi4-mini-long": ("phi3", "Phi3", PHI4 | dict(original_max_position_embeddings=64)),
    "phi4-mini-short": ("phi3", "Phi3", PHI4 | dict(original_max_position_embeddings=256, max_position_embeddings=1024)),
    "qwen2-dynamic": ("", "Qwen2", tiny(max_position_embeddings=64, tie_word_embeddings=True,
                                        rope_parameters=rope(10000.0, rope_type="dynamic", factor=2.0))),
    "xglm-untied": ("", "XGLM", XGLM | dict(d_model=40, attention_heads=5, scale_embedding=False, tie_word_embeddings=False)),
}
