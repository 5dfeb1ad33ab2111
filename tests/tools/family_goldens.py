#!/usr/bin/env python3
"""Writes tests/model/golden: a tiny random model of each family as a Hugging Face folder and as GGUF, with the logits and the greedy
ids that Transformers gives in fp32. Needs the PyPI packages transformers, torch, safetensors and gguf, and is needed only to make the
models anew: family_goldens.py CHECKOUT [NAME ...]

Nothing here is searched for: a model's name is the seed of its weights and of its prompt, by CRC-32.

The models are in family_models.py, the writer of GGUF files in family_gguf.py.
"""
import json
import math
import pathlib
import shutil
import sys
import zlib

import numpy as np
import torch
import transformers

from family_gguf import write_gguf, write_mxfp4
from family_models import MODELS

PROMPT, STEPS = 90, 64
CONTEXT = 256  # of the sessions that are compared
POSITIONS = [0, 1, 23, 24, 63, 64, 89, 153]  # whose logits are kept


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
    zero_centred = gemma and config.model_type != "gemma4_text" or config.model_type in ("qwen3_5_text", "qwen3_5_moe_text", "nemotron")
    branch_norms = any(part in name for part in ("post_feedforward", "post_mlp", "post_ffn") for name, _ in model.named_parameters())
    branch_ends = ("post_self_attn", "post_mlp") if config.model_type == "glm4" else (
        "post_attention", "post_feedforward", "post_per_layer", "post_operator", "post_ffn")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            adds = any(part in name for part in ("o_proj", "out_proj", "down_proj", "c_proj", "attention.dense", "self_attn.dense", "4h_to_h", "fc2",
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
                last = name.split(".")[1] in ("norm", "ln_f", "final_layer_norm", "final_layernorm", "layer_norm", "embedding_norm", "norm_f")
                last |= name == "model.decoder.final_layer_norm.weight"
                # Gemma 4 does not scale its scores: the norm of its queries does.
                if config.model_type == "gemma4_text" and "q_norm" in name:
                    weight.copy_((1 + values * 0.2) / math.sqrt(weight.shape[0]))
                    continue
                ends = branch_norms and any(part in name for part in branch_ends)
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


def write_reference(folder, prompt, ids, leads, logits):
    lines = [f'{{"prompt": {json.dumps(prompt)},', f' "greedy": {json.dumps(ids)},', f' "leads": [{", ".join(f"{lead:.2g}" for lead in leads)}],',
             f' "positions": {json.dumps(POSITIONS)},', ' "logits": [']
    rows = ["  [" + ", ".join(f"{value:.8g}" for value in logits[position]) + "]" for position in POSITIONS]
    (folder / "reference.json").write_text("\n".join(lines) + "\n" + ",\n".join(rows) + "\n ]}\n")


def make(folder, architecture, kind, settings):
    seed = zlib.crc32(folder.name.encode())
    shutil.rmtree(folder, ignore_errors=True)
    config = getattr(transformers, kind + "Config")(**settings)
    classes = dict(GPT2="GPT2LMHeadModel", Exaone="LlamaForCausalLM")
    class_ = getattr(transformers, classes.get(kind, kind.removesuffix("Text") + "ForCausalLM"))
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
