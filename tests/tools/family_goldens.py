#!/usr/bin/env python3
"""Writes tests/model/golden: a tiny random model of each family as a Hugging Face folder and as GGUF, with the logits and the greedy
ids that Transformers gives in fp32. Needs the PyPI packages transformers, torch, safetensors and gguf, and is needed only to make the
models anew: family_goldens.py CHECKOUT [NAME ...]

The GGUF files are what llama.cpp's convert_hf_to_gguf.py makes of such folders: its names, metadata and order of rows.
"""
import json
import math
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from safetensors import safe_open

PROMPT, STEPS = 90, 64
LEAD = 0.005  # of a greedy id over the next best, in units of the logits' spread; f16 is good to 0.002
POSITIONS = [0, 1, 23, 24, 63, 64, 89, 153]  # whose logits are kept

TINY = dict(hidden_size=48, intermediate_size=72, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1, vocab_size=131,
            max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)


def rope(base, **more):
    return dict(rope_type="default", rope_theta=base) | more


def tiny(**more):
    return TINY | more


GPT2 = dict(vocab_size=131, n_embd=48, n_layer=2, n_positions=256, bos_token_id=1, eos_token_id=2)
NEOX = tiny(num_attention_heads=3, intermediate_size=100, rope_parameters=rope(10000.0, partial_rotary_factor=0.25))
NEOX.pop("num_key_value_heads")
# By name: architecture of the GGUF file, class, settings.
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
    "phi3": ("phi3", "Phi3", tiny(sliding_window=40)),
    "phi3-tied": ("phi3", "Phi3", tiny(num_attention_heads=6, num_key_value_heads=3, tie_word_embeddings=True)),
    "gpt2": ("gpt2", "GPT2", GPT2 | dict(n_head=3)),
    "gpt2-untied": ("gpt2", "GPT2", GPT2 | dict(n_head=6, n_inner=100, tie_word_embeddings=False)),
    "gpt-neox": ("gptneox", "GPTNeoX", NEOX),
    "gpt-neox-sequential-tied": ("gptneox", "GPTNeoX", NEOX | dict(
        num_attention_heads=4, use_parallel_residual=False, tie_word_embeddings=True,
        rope_parameters=rope(10000.0, partial_rotary_factor=1.0))),
}


def fill(model, gemma, seed):
    """Weights that make every part of the network matter, and not so much that rounding to f16 is blown up by it."""
    generator = torch.Generator().manual_seed(seed)
    gain = math.sqrt(0.5 / model.config.num_hidden_layers)  # of what a branch adds
    branch_norms = any("pre_feedforward" in name for name, _ in model.named_parameters())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:
                is_norm = name.endswith("weight")
                if is_norm and name.split(".")[1] in ("norm", "ln_f", "final_layer_norm"):
                    values = values.sign() + values * 0.2  # of either sign: a tied head would else answer each token with itself
                    weight.copy_(values - (1 if gemma else 0))
                elif branch_norms and ("post_attention" in name or "post_feedforward" in name):
                    weight.copy_((1 + values * 0.2) * gain - 1)
                else:
                    weight.copy_(values * 0.2 + (0 if gemma or not is_norm else 1))
            elif "lm_head" in name or "embed_out" in name:
                weight.copy_(values * (0.12 if gemma else 0.2))
            elif "embed" in name or "wte" in name or "wpe" in name:
                weight.copy_(values * (0.08 if gemma else 0.2))
            else:
                columns = weight.shape[0] if ".c_" in name else weight.shape[1]
                adds = any(part in name for part in ("o_proj", "down_proj", "c_proj", "attention.dense", "4h_to_h"))
                weight.copy_(values * (gain if adds else 1.0) / math.sqrt(columns))


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


def greedy(model, prompt):
    """-> the ids, and the least lead of a best token over the second, in units of the logits' spread."""
    ids, lead = list(prompt), math.inf
    for _ in range(STEPS):
        logits = logits_of(model, ids)[-1]
        best = np.sort(logits)[-2:]
        lead = min(lead, (best[1] - best[0]) / logits.std())
        ids.append(int(logits.argmax()))
        if lead < LEAD or len(set(ids[PROMPT:])) < len(ids[PROMPT:]) // 16:
            break
    return ids[len(prompt):], lead


def choose_prompt(model, vocab):
    """One that leads to several different ids, and to none by a hair's breadth."""
    for wanted in (6, 4, 3):
        for seed in range(200):
            prompt = np.random.default_rng(seed).integers(3, vocab, PROMPT).tolist()
            ids, lead = greedy(model, prompt)
            if lead >= LEAD and len(set(ids)) >= wanted:
                return prompt, ids, lead
    raise SystemExit("no prompt leads far enough")


def permuted(weight, heads):
    """Rows of q or k in the order that turns neighbours, as llama.cpp wants Llama's."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def convert(architecture, config, name, weight):
    """A tensor as GGUF has it."""
    heads, kv_heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if architecture in ("llama", "smollm3"):
        if ".q_proj." in name:
            return permuted(weight, heads)
        if ".k_proj." in name:
            return permuted(weight, kv_heads)
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return weight + 1
    if architecture == "gpt2" and weight.ndim == 2 and ".c_" in name:
        return weight.T
    if architecture == "gptneox" and "query_key_value" in name:
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


def write_metadata(writer, architecture, config):
    width, heads = config.hidden_size, config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or width // heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(width)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(heads)
    if architecture == "gpt2":
        writer.add_feed_forward_length(config.n_inner or 4 * width)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    parameters = config.rope_parameters
    rope_ = parameters.get("full_attention", parameters)
    writer.add_rope_dimension_count(int(head_dim * rope_.get("partial_rotary_factor", 1)))
    if architecture == "gptneox":
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_parallel_residual(config.use_parallel_residual)
        return
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope_["rope_theta"])
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


def write_gguf(folder, architecture, config):
    writer = gguf.GGUFWriter(folder / "model.gguf", architecture)
    write_metadata(writer, architecture, config)
    number = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    if getattr(config, "rope_parameters", {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            weight = convert(architecture, config, name, file.get_tensor(name).astype(np.float32))
            # llama.cpp knows no Gemma without a tied head.
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")) or "output.weight",
                              np.ascontiguousarray(weight, np.float16 if weight.ndim == 2 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(folder, seed, architecture, kind, settings):
    shutil.rmtree(folder, ignore_errors=True)
    config = getattr(transformers, kind + "Config")(**settings)
    class_ = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM") if kind != "GPT2" else transformers.GPT2LMHeadModel
    model = class_._from_config(config, attn_implementation="eager")
    fill(model, architecture.startswith("gemma"), seed)
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = class_.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    prompt, ids, lead = choose_prompt(model, config.vocab_size)
    logits = logits_of(model, prompt + ids)
    lines = [f'{{"prompt": {json.dumps(prompt)},', f' "greedy": {json.dumps(ids)},', f' "positions": {json.dumps(POSITIONS)},', ' "logits": [']
    rows = ["  [" + ", ".join(f"{value:.8g}" for value in logits[position]) + "]" for position in POSITIONS]
    (folder / "reference.json").write_text("\n".join(lines) + "\n" + ",\n".join(rows) + "\n ]}\n")
    write_gguf(folder, architecture, config)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder.name}: {size / 1024:.0f} KiB, {len(set(ids))} different ids, least lead {lead:.4f}, spread {logits.std():.2f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden"
    for number, (name, model) in enumerate(MODELS.items()):
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(root / name, number, *model)
