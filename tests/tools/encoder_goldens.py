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
from safetensors.torch import save_file

LENGTHS = [1, 5, 64, 77, 150]  # of the inputs; chunks are of 64
TINY = dict(hidden_size=48, intermediate_size=72, num_hidden_layers=2, num_attention_heads=3, vocab_size=131,
            max_position_embeddings=150, pad_token_id=0)
# By name: class, settings.
BERT = TINY | dict(layer_norm_eps=1e-12)
MODERN = TINY | dict(num_hidden_layers=4, local_attention=16, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
DECODER = TINY | dict(num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-6,
                      bos_token_id=1, eos_token_id=2)
MODELS = {
    "bert": ("BertForMaskedLM", BERT),
    "bert-untied": ("BertForMaskedLM", BERT | dict(num_hidden_layers=3, num_attention_heads=6, hidden_act="gelu_new", tie_word_embeddings=False)),
    "bert-body": ("BertModel", BERT | dict(hidden_size=40, num_attention_heads=5, hidden_act="relu")),
    "nomic-bert": ("NomicBertModel", BERT | dict(num_hidden_layers=3)),
    "modernbert": ("ModernBertForMaskedLM", MODERN),
    "gemma3-embedding": ("Gemma3TextModel", DECODER | dict(sliding_window=16, sliding_window_pattern=2, query_pre_attn_scalar=16,
                                                            use_bidirectional_attention=True)),
    # Layers of two kinds, each with heads of its own; the projection after the pooling is the model's.
    "embedding-gemma2": ("EmbeddingGemma2TextModel", DECODER | dict(
        num_hidden_layers=4, sliding_window=8, hidden_size_per_layer_input=24, embedding_dim=56, global_head_dim=32, num_global_key_value_heads=1,
        layer_types=["sliding_attention", "full_attention"] * 2)),
    "qwen3-embedding": ("Qwen3Model", DECODER | dict(tie_word_embeddings=True)),
}
ARCHITECTURES = {"BertConfig": gguf.MODEL_ARCH.BERT, "NomicBertConfig": gguf.MODEL_ARCH.NOMIC_BERT, "ModernBertConfig": gguf.MODEL_ARCH.MODERN_BERT,
                 "Gemma3TextConfig": gguf.MODEL_ARCH.GEMMA_EMBEDDING, "Qwen3Config": gguf.MODEL_ARCH.QWEN3}
# Dense layers after the pooling: rows, with a bias and tanh or without. GGUF knows the latter alone.
DENSE = {"gemma3-embedding": [(80, False), (24, False)], "modernbert": [(20, True)]}
POOLING = {"nomic-bert": "mean", "gemma3-embedding": "mean", "qwen3-embedding": "lasttoken", "embedding-gemma2": "mean", "modernbert": "mean", "bert": "cls"}


def fill(model, seed):
    """Weights that make every part of the network matter, and not so much that rounding to f16 is blown up by it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:
                lacks_one = type(model).__name__.startswith("Gemma3")
                weight.copy_(values * 0.2 + (1 if "norm" in name.lower() and name.endswith("weight") and not lacks_one else 0))
                if "q_norm" in name and type(model).__name__.startswith("EmbeddingGemma2"):  # whose scores have no other scale
                    weight.div_(math.sqrt(weight.shape[0]))
            elif "embed" in name or "decoder" in name:
                weight.copy_(values * 0.2)
            else:
                weight.copy_(values / math.sqrt(weight.shape[1]))
        for name, factor in model.named_buffers():
            if name.endswith("layer_scalar"):
                factor.copy_(1 + 0.2 * torch.randn(1, generator=generator))


def write_gguf(folder, config, dense):
    """As llama.cpp's converter does."""
    arch = ARCHITECTURES[type(config).__name__]
    gemma = arch == gguf.MODEL_ARCH.GEMMA_EMBEDDING
    writer = gguf.GGUFWriter(folder / "model.gguf", gguf.MODEL_ARCH_NAMES[arch])
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if gemma or arch == gguf.MODEL_ARCH.QWEN3:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        writer.add_layer_norm_eps(getattr(config, "layer_norm_eps", None) or config.norm_eps)
    if arch != gguf.MODEL_ARCH.QWEN3:
        writer.add_causal_attention(False)
    rope = getattr(config, "rope_parameters", None) or {}
    if "rope_theta" in rope:
        writer.add_rope_freq_base(rope["rope_theta"])
    if "full_attention" in rope:
        writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    if gemma:
        writer.add_sliding_window(json.loads((folder / "config.json").read_text())["sliding_window"])
        writer.add_uint32("gemma-embedding.attention.sliding_window_pattern", 2)
    if arch == gguf.MODEL_ARCH.MODERN_BERT:
        writer.add_sliding_window(config.local_attention)
    pooling = {"mean": gguf.PoolingType.MEAN, "cls": gguf.PoolingType.CLS, "lasttoken": gguf.PoolingType.LAST}
    writer.add_pooling_type(pooling[POOLING[folder.name]])
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            if "cls." in name or "pooler." in name or name.startswith(("head.", "decoder.")):  # as llama.cpp's converter
                continue
            weight = file.get_tensor(name).astype(np.float32)
            if gemma and "norm" in name:
                weight += 1
            matrix = weight.ndim == 2 and "position" not in name and "token_type" not in name
            known = name.removeprefix("bert.").removeprefix("model.") if arch != gguf.MODEL_ARCH.MODERN_BERT else name.removeprefix("model.")
            full = next(found for found in (names.get_name(prefix + known, try_suffixes=(".weight", ".bias")) for prefix in ("", "model.")) if found)
            writer.add_tensor(full, weight.astype(np.float16 if matrix else np.float32))
    for number, layer in enumerate(dense):
        writer.add_tensor(f"dense_{number + 2}.weight", layer["linear.weight"].numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_sentence_files(folder, width):
    """The files of sentence-transformers. Returns the dense layers' tensors."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")] + [(f"{i + 2}_Dense", "Dense") for i in range(len(DENSE.get(folder.name, [])))]
    modules.append((f"{len(modules)}_Normalize", "Normalize"))
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind} for i, (path, kind) in enumerate(modules)]))
    (folder / "1_Pooling").mkdir()
    modes = {mode: mode == POOLING[folder.name] + ("" if POOLING[folder.name] == "lasttoken" else "_tokens")
             for mode in ("cls_tokens", "mean_tokens", "max_tokens", "lasttoken")}
    modes["cls_token"] = modes.pop("cls_tokens")
    (folder / "1_Pooling/config.json").write_text(json.dumps(
        {"word_embedding_dimension": width} | {"pooling_mode_" + mode: on for mode, on in modes.items()}))
    generator = torch.Generator().manual_seed(len(folder.name))
    layers, cols = [], width
    for i, (rows, biased) in enumerate(DENSE.get(folder.name, [])):
        tensors = {"linear.weight": torch.randn((rows, cols), generator=generator) / math.sqrt(cols)}
        if biased:
            tensors["linear.bias"] = torch.randn(rows, generator=generator) * 0.2
        path = folder / f"{i + 2}_Dense"
        path.mkdir()
        save_file(tensors, path / "model.safetensors")
        (path / "config.json").write_text(json.dumps({
            "in_features": cols, "out_features": rows, "bias": biased,
            "activation_function": "torch.nn.modules." + ("activation.Tanh" if biased else "linear.Identity")}))
        layers.append(tensors)
        cols = rows
    return layers


def embedding(folder, states, dense):
    vector = {"mean": states.mean(0), "cls": states[0], "lasttoken": states[-1]}[POOLING[folder.name]]
    for layer in dense:
        vector = layer["linear.weight"].double().numpy() @ vector
        if "linear.bias" in layer:
            vector = np.tanh(vector + layer["linear.bias"].double().numpy())
    return unit(vector)


def unit(vector):
    return (vector / np.linalg.norm(vector)).tolist()


def make(folder, seed, kind, settings):
    shutil.rmtree(folder, ignore_errors=True)
    class_ = getattr(transformers, kind)
    config = class_.config_class(**settings)
    model = class_._from_config(config, attn_implementation="eager")
    fill(model, seed)
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = class_.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    dense = write_sentence_files(folder, getattr(config, "embedding_dim", config.hidden_size)) if not isinstance(config, transformers.BertConfig) or kind == "NomicBertModel" else []
    lines = []
    for length in LENGTHS:
        ids = np.random.default_rng(length).integers(0, config.vocab_size, length).tolist()
        with torch.no_grad():
            out = model(torch.tensor([ids]), output_hidden_states=True)
        states = (out.hidden_states[-1] if kind.endswith("LM") else out.last_hidden_state)[0].double().numpy()
        case = {"ids": ids, "mean": unit(states.mean(0)), "first": unit(states[0])}
        if (folder / "modules.json").exists():
            case = {"ids": ids, "mean": unit(states.mean(0)), "embedding": embedding(folder, states, dense)}
        if kind.endswith("MaskedLM"):
            case["places"] = sorted({0, length // 2, length - 1})
            case["logits"] = [out.logits[0, place].tolist() for place in case["places"]]
        lines.append(json.dumps(json.loads(json.dumps(case), parse_float=lambda text: float(f"{float(text):.8g}"))))
    (folder / "reference.json").write_text("[" + ",\n".join(lines) + "]\n")
    if folder.name in POOLING and type(config).__name__ in ARCHITECTURES:  # for the others GGUF lacks words
        write_gguf(folder, config, dense if not any("linear.bias" in layer for layer in dense) else [])
    print(folder.name, sum(file.stat().st_size for file in folder.rglob("*")) // 1024, "KiB", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden_encoders"
    for number, (name, model) in enumerate(MODELS.items()):
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(root / name, number, *model)
