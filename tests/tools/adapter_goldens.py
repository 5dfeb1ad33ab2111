#!/usr/bin/env python3
"""Writes tests/model/golden_adapters: a random LoRA adapter for some models of tests/model/golden, as PEFT's folder and as GGUF, with the
logits and the greedy ids that PEFT gives in fp32. Needs the PyPI packages of family_goldens.py and peft, and is needed only to make the
adapters anew: adapter_goldens.py CHECKOUT [NAME ...]

A model's name is the seed of its adapter and of its prompt. The GGUF files are what llama.cpp's convert_lora_to_gguf.py makes of such
folders: its names, metadata and order of rows.
"""
import json
import pathlib
import shutil
import sys
import zlib

import family_gguf
import family_goldens
import gguf
import numpy as np
import peft
import torch
import transformers
from safetensors import safe_open

# By the model's name: class, architecture, the rank, and the modules that the adapter has matrices for.
ADAPTERS = {
    "llama3": ("LlamaForCausalLM", "llama", 4, ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", 70, ["q_proj", "v_proj", "down_proj"]),
    "gemma2": ("Gemma2ForCausalLM", "gemma2", 3, ["k_proj", "o_proj", "up_proj"]),
    "lfm2-tied": ("Lfm2ForCausalLM", "lfm2", 5, ["in_proj", "out_proj", "q_proj", "w1", "w2"]),
    "granite-hybrid": ("GraniteMoeHybridForCausalLM", "granitehybrid", 4, ["in_proj", "out_proj", "q_proj"]),
}


def write_gguf(folder, architecture, config, alpha):
    writer = gguf.GGUFWriter(folder / "adapter.gguf", architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(alpha))
    number = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    with safe_open(folder / "adapter_model.safetensors", "np") as file:
        for name in file.keys():
            base, part = name.removeprefix("base_model.model.").removesuffix(".weight").rsplit(".", 1)
            weight = file.get_tensor(name).astype(np.float32)
            if part == "lora_B":
                weight = family_gguf.convert(architecture, config, base + ".weight", weight)
            writer.add_tensor(names.get_name(base) + ".weight." + part.lower(), np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(root, name, class_, architecture, rank, modules):
    seed = zlib.crc32(name.encode())
    folder = root / "tests/model/golden_adapters" / name
    shutil.rmtree(folder, ignore_errors=True)
    base = getattr(transformers, class_).from_pretrained(root / "tests/model/golden" / name, dtype=torch.float32, attn_implementation="eager")
    model = peft.get_peft_model(base, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=modules, bias="none")).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "lora_" not in key:
                continue
            # As much as a third of the product that it is added to, so that the ids change; numbers of f16.
            size = 1 / weight.shape[1] ** 0.5 if "lora_A" in key else 0.15 / rank ** 0.5 * (0.1 if any(m in key for m in ("o_proj", "out_proj", "down_proj", "w2")) else 1)
            weight.copy_((torch.randn(weight.shape, generator=generator) * size).half().float())
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config_file = folder / "adapter_config.json"
    config_file.write_text(json.dumps(json.loads(config_file.read_text()) | {"base_model_name_or_path": name}, indent=1, sort_keys=True) + "\n")
    prompt = np.random.default_rng(seed).integers(3, base.config.vocab_size, family_goldens.PROMPT).tolist()
    ids, leads = family_goldens.greedy(model, prompt)
    logits = family_goldens.logits_of(model, prompt + ids)
    family_goldens.write_reference(folder, prompt, ids, leads, logits)
    write_gguf(folder, architecture, base.config, 2 * rank)
    print(f"{name}: {len(set(ids))} different ids, least lead {min(leads):.4f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, adapter in ADAPTERS.items():
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(pathlib.Path(sys.argv[1]), name, *adapter)
