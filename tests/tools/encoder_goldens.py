#!/usr/bin/env python3
"""Writes tests/model/golden_encoders: tiny random encoders as Hugging Face folders and as GGUF, with the embeddings and the masked tokens'
logits that Transformers gives in fp32. Needs the PyPI packages transformers, torch, safetensors and gguf, and is needed only to make the
models anew: encoder_goldens.py CHECKOUT [NAME ...]
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

LENGTHS = [1, 5, 64, 77, 150]  # of the inputs; chunks are of 64
TINY = dict(hidden_size=48, intermediate_size=72, num_hidden_layers=2, num_attention_heads=3, vocab_size=131,
            max_position_embeddings=150, layer_norm_eps=1e-12, pad_token_id=0)
# By name: class, settings.
MODELS = {
    "bert": ("BertForMaskedLM", TINY),
    "bert-untied": ("BertForMaskedLM", TINY | dict(num_hidden_layers=3, num_attention_heads=6, hidden_act="gelu_new", tie_word_embeddings=False)),
    "bert-body": ("BertModel", TINY | dict(hidden_size=40, num_attention_heads=5, hidden_act="relu")),
}


def fill(model, seed):
    """Weights that make every part of the network matter, and not so much that rounding to f16 is blown up by it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:
                weight.copy_(values * 0.2 + (1 if name.endswith("LayerNorm.weight") else 0))
            elif "embeddings" in name or "decoder" in name:
                weight.copy_(values * 0.2)
            else:
                weight.copy_(values / math.sqrt(weight.shape[1]))


def write_gguf(folder, config):
    writer = gguf.GGUFWriter(folder / "model.gguf", "bert")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.CLS)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config.num_hidden_layers)
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            if "cls." in name or "pooler." in name:  # as llama.cpp's converter
                continue
            weight = file.get_tensor(name)
            matrix = weight.ndim == 2 and "position" not in name and "token_type" not in name
            writer.add_tensor(names.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias")),
                              weight.astype(np.float16 if matrix else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def unit(vector):
    return (vector / np.linalg.norm(vector)).tolist()


def make(folder, seed, kind, settings):
    shutil.rmtree(folder, ignore_errors=True)
    class_ = getattr(transformers, kind)
    config = transformers.BertConfig(**settings)
    model = class_._from_config(config, attn_implementation="eager")
    fill(model, seed)
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = class_.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    lines = []
    for length in LENGTHS:
        ids = np.random.default_rng(length).integers(0, config.vocab_size, length).tolist()
        with torch.no_grad():
            out = model(torch.tensor([ids]), output_hidden_states=True)
        states = out.hidden_states[-1][0].double().numpy()
        case = {"ids": ids, "mean": unit(states.mean(0)), "first": unit(states[0])}
        if kind == "BertForMaskedLM":
            case["places"] = sorted({0, length // 2, length - 1})
            case["logits"] = [out.logits[0, place].tolist() for place in case["places"]]
        lines.append(json.dumps(json.loads(json.dumps(case), parse_float=lambda text: float(f"{float(text):.8g}"))))
    (folder / "reference.json").write_text("[" + ",\n".join(lines) + "]\n")
    if config.hidden_act == "gelu":  # GGUF cannot say another
        write_gguf(folder, config)
    print(folder.name, sum(file.stat().st_size for file in folder.iterdir()) // 1024, "KiB", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden_encoders"
    for number, (name, model) in enumerate(MODELS.items()):
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(root / name, number, *model)
