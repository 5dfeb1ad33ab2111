#!/usr/bin/env python3
"""Writes tests/model/golden: a tiny random model of each family as a Hugging Face folder and as GGUF, with the logits and the greedy
ids that Transformers gives in fp32. Needs the PyPI packages transformers, torch, safetensors and gguf, and is needed only to make the
models anew: family_goldens.py CHECKOUT [NAME ...]

Nothing here is searched for: a model's name is the seed of its weights and of its prompt, by CRC-32.

The GGUF files are what llama.cpp's convert_hf_to_gguf.py makes of such folders: its names, metadata and order of rows.
"""
import json
import math
import pathlib
import re
import shutil
import sys
import zlib

import gguf
import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

PROMPT, STEPS = 90, 64
CONTEXT = 256  # of the sessions that are compared
POSITIONS = [0, 1, 23, 24, 63, 64, 89, 153]  # whose logits are kept

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
    "llama-yarn": ("llama", "Llama", tiny(rope_parameters=rope(10000.0, rope_type="yarn", factor=4.0,
                                                               original_max_position_embeddings=64))),
    "phi3-longrope": ("phi3", "Phi3", tiny(original_max_position_embeddings=64, rope_parameters=rope(
        10000.0, rope_type="longrope", short_factor=[1.0, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6],
        long_factor=[1.0, 1.3, 1.8, 2.5, 3.0, 3.5, 4.0, 4.5]))),
    "qwen2-dynamic": ("", "Qwen2", tiny(max_position_embeddings=64, tie_word_embeddings=True,
                                        rope_parameters=rope(10000.0, rope_type="dynamic", factor=2.0))),
    "xglm-untied": ("", "XGLM", XGLM | dict(d_model=40, attention_heads=5, scale_embedding=False, tie_word_embeddings=False)),
}


def fill(model, gemma, seed):
    """One rule for all: logits spread by about a half, as GPT-2's first ones do, so tables have the deviation 0.5 / sqrt(width); matrices
    have 1 / sqrt(columns), so that sizes stay; norms are about 1, and biases about 0, by 0.2. What ends a branch is less by sqrt(2
    layers), as GPT-2 begins, and by what the embedding is less than 1, so that all branches together weigh as much as that. The last
    norm's weights are of either sign: a tied head would else answer each token with itself."""
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    table = 0.5 / math.sqrt(config.hidden_size)
    scaled = gemma or getattr(config, "scale_embedding", False)
    embedding = 1 if config.model_type == "bloom" else table * math.sqrt(config.hidden_size) if scaled else table
    gain = math.sqrt(0.5 / config.num_hidden_layers) * embedding
    zero_centred = gemma and config.model_type != "gemma4_text" or config.model_type in ("qwen3_5_text", "qwen3_5_moe_text")
    branch_norms = any("pre_feedforward" in name for name, _ in model.named_parameters())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            adds = any(part in name for part in ("o_proj", "out_proj", "down_proj", "c_proj", "attention.dense", "4h_to_h", "fc2",
                                            "feed_forward.w2"))
            if name.endswith("proj_bias"):
                weight.copy_(values * 0.2 * (gain if adds else 1))
            elif name.endswith("A_log"):  # decays of 10 to 500 tokens
                weight.copy_(values - 4)
            elif weight.dim() > 1:
                transposed = config.model_type == "gpt_oss" and "experts" in name
                columns = weight.shape[0] if ".c_" in name else weight.shape[-2 if transposed else -1]
                is_table = any(part in name for part in ("embed", "wte", "wpe", "lm_head"))
                weight.copy_(values * (table if is_table else (gain if adds else 1) / math.sqrt(columns)))
            elif not name.endswith("weight"):
                weight.copy_(values * 0.2 * (gain if adds else 1))
            else:
                last = name.split(".")[1] in ("norm", "ln_f", "final_layer_norm", "layer_norm", "embedding_norm")
                # Gemma 4 does not scale its scores: the norm of its queries does.
                if config.model_type == "gemma4_text" and "q_norm" in name:
                    weight.copy_((1 + values * 0.2) / math.sqrt(weight.shape[0]))
                    continue
                ends = branch_norms and ("post_attention" in name or "post_feedforward" in name or "post_per_layer" in name)
                weight.copy_((values * 0.2 + (values.sign() if last else 1)) * (gain if ends else 1)
                             - (1 if zero_centred and "linear_attn.norm" not in name else 0))
        for name, weight in model.named_buffers():
            if name.endswith("expert_bias"):
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)


def fill_scalars(model, seed):
    generator = torch.Generator().manual_seed(seed + 1)
    for name, factor in model.named_buffers():
        if name.endswith("layer_scalar"):
            factor.copy_(1 + 0.2 * torch.randn(1, generator=generator))


def logits_of(model, ids):
    # Dynamic RoPE depends on a text's length, so all are as long as the context. No token sees what comes after it.
    dynamic = (getattr(model.config, "rope_parameters", None) or {}).get("rope_type") == "dynamic"
    whole = ids + [0] * (CONTEXT - len(ids)) if dynamic else ids
    with torch.no_grad():
        return model(torch.tensor([whole]), use_cache=False).logits[0, :len(ids)].float().numpy()


def greedy(model, prompt):
    """-> the ids, and the lead of each over the second best, in units of the logits' spread."""
    ids, leads = list(prompt), []
    for _ in range(STEPS):
        logits = logits_of(model, ids)[-1]
        best = np.sort(logits)[-2:]
        leads.append(float((best[1] - best[0]) / logits.std()))
        ids.append(int(logits.argmax()))
    return ids[len(prompt):], leads


def permuted(weight, heads):
    """Rows of q or k in the order that turns neighbours, as llama.cpp wants Llama's."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def tiled(weight, groups, each, dim):
    """Value heads of `dim` rows: (groups, each) as (each, groups)."""
    return weight.reshape(groups, each, dim, *weight.shape[1:]).swapaxes(0, 1).reshape(weight.shape)


def convert_qwen35(config, name, weight):
    if name.endswith("norm.weight") and "linear_attn" not in name:
        return weight + 1
    if name.endswith("A_log"):
        weight = -np.exp(weight)
    groups, dim = config.linear_num_key_heads, config.linear_value_head_dim
    each, keys = config.linear_num_value_heads // groups, 2 * groups * config.linear_key_head_dim
    if "in_proj_qkv" in name or "conv1d" in name:
        return np.concatenate([weight[:keys], tiled(weight[keys:], groups, each, dim)])
    if "in_proj_z" in name:
        return tiled(weight, groups, each, dim)
    if any(part in name for part in ("in_proj_a", "in_proj_b", "A_log", "dt_bias")):
        return tiled(weight, groups, each, 1)
    if "linear_attn.out_proj" in name:
        return tiled(weight.T, groups, each, dim).T
    return weight


def convert(architecture, config, name, weight):
    """A tensor as GGUF has it."""
    heads, kv_heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if architecture in ("llama", "smollm3", "granite", "granitehybrid"):
        if ".q_proj." in name:
            return permuted(weight, heads)
        if ".k_proj." in name:
            return permuted(weight, kv_heads)
    if architecture.startswith("gemma") and architecture != "gemma4" and name.endswith("norm.weight"):
        return weight + 1
    if architecture == "gpt2" and weight.ndim == 2 and ".c_" in name:
        return weight.T
    if architecture.startswith("qwen35"):
        weight = convert_qwen35(config, name, weight)
    if name.endswith("shared_expert_gate.weight"):
        return weight[0]
    if architecture == "granitehybrid":
        if name.endswith("A_log"):
            return -np.exp(weight)[:, None]
        if name.endswith(".D"):
            return weight[:, None]
        if name.endswith("mamba.norm.weight"):
            return weight.reshape(config.mamba_n_groups, -1)
    if (".conv.conv." in name or "conv1d" in name) and weight.ndim == 3:
        return weight.squeeze(1)
    if architecture in ("gptneox", "bloom") and "query_key_value" in name:
        return weight.reshape(heads, 3, -1, *weight.shape[1:]).swapaxes(0, 1).reshape(weight.shape)
    return weight


def llama3_factors(config):
    scaling, factors = config.rope_parameters, []
    for i in range(0, config.head_dim, 2):
        length = 2 * math.pi * scaling["rope_theta"] ** (i / config.head_dim)
        low, high, old = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["original_max_position_embeddings"]
        if length < old / high:
            factors.append(1)
        elif length > old / low:
            factors.append(scaling["factor"])
        else:
            smooth = (old / length - low) / (high - low)
            factors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def write_lfm2_metadata(writer, config):
    width = config.intermediate_size
    if getattr(config, "block_auto_adjust_ff_dim", False):
        step = config.block_multiple_of
        width = -(-int(config.block_ffn_dim_multiplier * int(2 * width / 3)) // step) * step
    writer.add_feed_forward_length(width)
    writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in config.layer_types])
    writer.add_shortconv_l_cache(config.conv_L_cache)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def write_expert_metadata(writer, architecture, config):
    writer.add_expert_count(config.num_local_experts if hasattr(config, "num_local_experts") else config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    if architecture == "lfm2moe":
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
    if architecture in ("qwen3moe", "lfm2moe", "qwen35moe"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if architecture == "gpt-oss":
        writer.add_expert_feed_forward_length(config.intermediate_size)
    if architecture == "qwen35moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if architecture == "granitehybrid":
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def write_qwen35_metadata(writer, config):
    writer.add_full_attention_interval(config.layer_types.index("full_attention") + 1)
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
    writer.add_rope_dimension_sections([1, 1, 1, 0])


def write_granite_metadata(writer, config):
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)
    if config.model_type == "granite":
        return
    writer.add_ssm_conv_kernel(config.mamba_d_conv)
    writer.add_ssm_state_size(config.mamba_d_state)
    writer.add_ssm_group_count(config.mamba_n_groups)
    writer.add_ssm_inner_size(config.mamba_expand * config.hidden_size)
    writer.add_ssm_time_step_rank(config.mamba_n_heads)
    writer.add_rope_scaling_finetuned(False)


def write_gemma4_metadata(writer, config):
    whole, local = (config.per_layer_config[kind] for kind in ("full_attention", "sliding_attention"))
    is_local = [kind == "sliding_attention" for kind in config.layer_types]
    first_shared = config.num_hidden_layers - config.num_kv_shared_layers
    wide = 2 if config.use_double_wide_mlp else 1
    writer.add_feed_forward_length([config.intermediate_size * (1 if i < first_shared else wide) for i in range(config.num_hidden_layers)])
    writer.add_head_count_kv([(local if own else whole).num_key_value_heads for own in is_local])
    writer.add_key_length(whole.head_dim)
    writer.add_value_length(whole.head_dim)
    writer.add_key_length_swa(local.head_dim)
    writer.add_value_length_swa(local.head_dim)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(is_local)
    writer.add_rope_dimension_count(whole.head_dim)
    writer.add_rope_dimension_count_swa(local.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    turning = int(whole.head_dim * config.rope_parameters["full_attention"]["partial_rotary_factor"] / 2)
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (whole.head_dim // 2 - turning), dtype=np.float32))


def write_metadata(writer, architecture, config):
    width, heads = config.hidden_size, config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or width // heads
    writer.add_context_length(getattr(config, "seq_length", None) or config.max_position_embeddings)
    writer.add_embedding_length(width)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(heads)
    if architecture == "bloom":
        writer.add_feed_forward_length(4 * width)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    if architecture == "gpt2":
        writer.add_feed_forward_length(config.n_inner or 4 * width)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    if getattr(config, "num_experts_per_tok", None):
        write_expert_metadata(writer, architecture, config)
    if architecture in ("lfm2", "lfm2moe"):
        write_lfm2_metadata(writer, config)
        return
    if architecture == "gemma4":
        write_gemma4_metadata(writer, config)
        return
    if architecture.startswith("qwen35"):
        write_qwen35_metadata(writer, config)
    if architecture.startswith("granite"):
        write_granite_metadata(writer, config)
    if architecture != "qwen35moe":
        writer.add_feed_forward_length(config.intermediate_size)
    parameters = config.rope_parameters or rope(10000.0)
    rope_ = parameters.get("full_attention", parameters)
    writer.add_rope_dimension_count(int(head_dim * rope_.get("partial_rotary_factor", 1)))
    if architecture == "gptneox":
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_parallel_residual(config.use_parallel_residual)
        return
    if architecture == "granitehybrid":
        kinds = [kind == "full_attention" for kind in config.layer_types]
        writer.add_head_count_kv([config.num_key_value_heads * attends for attends in kinds])
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
    if architecture == "command-r":
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_logit_scale(config.logit_scale)
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope_["rope_theta"])
    if rope_["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope_["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope_["original_max_position_embeddings"])
    if rope_["rope_type"] == "longrope":
        old = rope_["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(old)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(config.max_position_embeddings / old) / math.log(old)))
    if rope_["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope_["factor"])
    if getattr(config, "head_dim", None):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def is_of_experts(name):
    return ".experts." in name or "block_sparse_moe.input_linear" in name or "block_sparse_moe.output_linear" in name


def unpacked(blocks, scales):
    """gpt-oss's blocks, pairs of neighbours in a byte, as GGUF's: (experts, rows, bytes)."""
    numbers = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    halves = numbers[..., :16] | numbers[..., 16:] << 4
    return np.concatenate([scales[..., None], halves], axis=-1).reshape(*blocks.shape[:2], -1)


def write_experts(writer, file, architecture):
    """All experts' matrices of a kind as one tensor, gates and what they gate apart."""
    kinds = dict(w1="gate", w3="up", w2="down", gate_proj="gate", up_proj="up", down_proj="down")
    stacks = {}
    for name in file.keys():
        single = re.search(r"layers\.(\d+)\..*experts\.(\d+)\.(\w+)\.weight", name)
        if single:
            layer, number, kind = single.groups()
            stacks.setdefault(f"blk.{layer}.ffn_{kinds[kind]}_exps.weight", {})[int(number)] = file.get_tensor(name)
        elif is_of_experts(name) and not name.endswith("_scales"):
            write_stack(writer, file, name)
    for name, stack in stacks.items():
        writer.add_tensor(name, np.stack([stack[number] for number in range(len(stack))]))


def write_stack(writer, file, name):
    layer, weight = name.split(".")[2], file.get_tensor(name)
    type_ = None
    if name.endswith("_blocks"):
        weight = unpacked(weight, file.get_tensor(name.replace("_blocks", "_scales")))
        type_ = gguf.GGMLQuantizationType.MXFP4
    what = "bias" if name.endswith("_bias") else "weight"
    if ".experts." in name and what == "weight" and type_ is None:  # gpt-oss's
        weight = weight.swapaxes(1, 2)
    if what == "bias":
        weight = weight.astype(np.float32)
    parts = [("down", weight)]
    if "gate_up_proj" in name:
        parts = [("gate", weight[:, ::2]), ("up", weight[:, 1::2])]
    elif "input_linear" in name:
        parts = list(zip(("gate", "up"), np.split(weight, 2, axis=1)))
    for kind, rows in parts:
        writer.add_tensor(f"blk.{layer}.ffn_{kind}_exps.{what}", np.ascontiguousarray(rows), raw_dtype=type_)


def write_mxfp4(folder, config):
    """Experts as blocks of MXFP4, (experts, rows, blocks, 16) bytes of two neighbours each and (experts, rows, blocks) scales."""
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        weight = np.ascontiguousarray(tensors.pop(name).astype(np.float32).swapaxes(1, 2))
        blocks = gguf.quants.quantize(weight, gguf.GGMLQuantizationType.MXFP4).reshape(*weight.shape[:2], -1, 17)
        halves = blocks[..., 1:]
        numbers = np.concatenate([halves & 15, halves >> 4], axis=-1)
        tensors[name + "_blocks"] = np.ascontiguousarray(numbers[..., ::2] | numbers[..., 1::2] << 4)
        tensors[name + "_scales"] = np.ascontiguousarray(blocks[..., 0])
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    settings["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")


def write_gguf(folder, architecture, config):
    config.allow_global_per_layer_attribute_access = True  # to heads, which differ in Gemma 4's layers
    writer = gguf.GGUFWriter(folder / "model.gguf", architecture)
    write_metadata(writer, architecture, config)
    number = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    if getattr(config, "rope_parameters", {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    if getattr(config, "rope_parameters", {}).get("rope_type") == "longrope":
        for kind in ("long", "short"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(config.rope_parameters[f"{kind}_factor"], dtype=np.float32))
    with safe_open(folder / "model.safetensors", "np") as file:
        write_experts(writer, file, architecture)
        for name in file.keys():
            if is_of_experts(name):
                continue
            weight = convert(architecture, config, name, file.get_tensor(name).astype(np.float32))
            if architecture == "bloom":
                name = name.removeprefix("transformer.")
            # llama.cpp knows no Gemma without a tied head.
            name = name.replace(".dt_bias", ".dt_proj.bias").replace("layer_scalar", "layer_scalar.weight")
            name = name.replace("expert_bias", "expert_bias.bias")
            floats = any(part in name for part in ("moe.gate", "mlp.gate.", "feed_forward.gate", "router", ".conv.conv.", "conv1d", "mamba.norm",
                                                   "A_log", ".D"))
            type_ = np.float16 if weight.ndim == 2 and not floats else np.float32
            if "shared_mlp.input_linear" in name:
                end = "_shexp" if config.num_local_experts else ""
                for half, rows in zip(("ffn_gate", "ffn_up"), np.split(weight, 2)):
                    writer.add_tensor(f"blk.{name.split('.')[2]}.{half}{end}.weight", np.ascontiguousarray(rows, type_))
                continue
            if "shared_mlp.output_linear" in name:
                name = name.replace("shared_mlp.output_linear", "mlp.shared_expert.down_proj" if config.num_local_experts else "mlp.down_proj")
            if name.endswith("self_attn.sinks"):
                name += ".weight"
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")) or "output.weight",
                              np.ascontiguousarray(weight, type_))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_reference(folder, prompt, ids, leads, logits):
    lines = [f'{{"prompt": {json.dumps(prompt)},', f' "greedy": {json.dumps(ids)},', f' "leads": [{", ".join(f"{lead:.2g}" for lead in leads)}],',
             f' "positions": {json.dumps(POSITIONS)},', ' "logits": [']
    rows = ["  [" + ", ".join(f"{value:.8g}" for value in logits[position]) + "]" for position in POSITIONS]
    (folder / "reference.json").write_text("\n".join(lines) + "\n" + ",\n".join(rows) + "\n ]}\n")


def make(folder, architecture, kind, settings):
    seed = zlib.crc32(folder.name.encode())
    shutil.rmtree(folder, ignore_errors=True)
    config = getattr(transformers, kind + "Config")(**settings)
    class_ = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM") if kind != "GPT2" else transformers.GPT2LMHeadModel
    model = class_._from_config(config, attn_implementation="eager")
    fill(model, kind.startswith("Gemma"), seed)
    fill_scalars(model, seed)
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    more = {}
    if folder.name.endswith("mxfp4"):
        write_mxfp4(folder, config)
        more = dict(quantization_config=transformers.Mxfp4Config(dequantize=True))
    model = class_.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **more).eval()
    prompt = np.random.default_rng(seed).integers(3, config.vocab_size, PROMPT).tolist()
    ids, leads = greedy(model, prompt)
    logits = logits_of(model, prompt + ids)
    write_reference(folder, prompt, ids, leads, logits)
    if architecture:
        write_gguf(folder, architecture, config)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder.name}: {size / 1024:.0f} KiB, {len(set(ids))} different ids, least lead {min(leads):.4f}, spread {logits.std():.2f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden"
    for name, model in MODELS.items():
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(root / name, *model)
