#!/usr/bin/env python3
"""Writes tests/model/golden_quantised: tiny random models as tools for quantised Hugging Face folders write them, with the logits that
Transformers gives in fp32 for the dequantised weights, and a CRC-32 of the float32 numbers of each dequantised matrix. Needs the PyPI
packages transformers, torch, safetensors, compressed-tensors, accelerate and bitsandbytes, and is needed only to make the models anew:
quantised_goldens.py CHECKOUT [NAME ...]

quantised_packing.py has the published packings, and compares its numbers with what the tool makes of them where that runs on a CPU.
"""
import json
import pathlib
import shutil
import sys
import zlib

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

import quantised_packing as packing
from family_goldens import fill, greedy, logits_of

PROMPT = 40
POSITIONS = [0, 39, 70]
SHAPE = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=32, vocab_size=104,
             max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=True)
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "linear_attn.out_proj", "query_key_value", "attention.dense")


def gptq(bits, group, order=False, version=1, symmetric=True, **more):
    config = dict(quant_method="gptq", bits=bits, group_size=group, desc_act=order, sym=symmetric, true_sequential=True,
                  checkpoint_format="gptq_v2" if version == 2 else "gptq")
    return config | more, lambda name, weight, rng: packing.gptq(weight, bits, group, order, version, symmetric, rng)


def awq(group, **more):
    config = dict(quant_method="awq", bits=4, group_size=group, zero_point=True, version="gemm")
    return config | more, lambda name, weight, rng: packing.awq(weight, group)


def compressed(format, groups, packers):
    """groups: of the configuration. packers: of the first end of a module's name that fits."""
    config = dict(quant_method="compressed-tensors", format=format, config_groups={f"group_{i}": group for i, group in enumerate(groups)},
                  ignore=["lm_head"], quantization_status="compressed", global_compression_ratio=None, kv_cache_scheme=None)
    return config, lambda name, weight, rng: next(pack for end, pack in packers if name.endswith(end))(weight, rng)


def group(targets, bits=8, type="int", strategy="group", group_size=None, symmetric=True, **more):
    return dict(targets=[f"re:.*{target}" for target in targets], output_activations=None, input_activations=None, weights=dict(
        num_bits=bits, type=type, symmetric=symmetric, strategy=strategy, group_size=group_size, dynamic=False, **more))


def integers(*args, **more):
    return lambda weight, rng: packing.compressed(weight, *args, rng=rng, **more)


def floats(*args, **more):
    return lambda weight, rng: packing.fp8(weight, *args, **more)


# Formats of one module each, so that queries, keys and values are one matrix of several types.
INTEGERS = compressed("pack-quantized", [
    group(["q_proj"], 4, group_size=32), group(["k_proj", "gate_proj", "up_proj"], 4, group_size=32, symmetric=False), group(["o_proj"], 4, group_size=32, actorder="group"),
    group(["v_proj", "down_proj"], 8, strategy="channel")], [
        ("q_proj", integers(4, 32, True)), ("k_proj", integers(4, 32, False)), ("v_proj", integers(8, -1, True)), ("o_proj", integers(4, 32, True, order=True)),
        ("down_proj", integers(8, -1, True)), ("proj", integers(4, 32, False))])
W8A8 = compressed("int-quantized", [
    group(["o_proj"], strategy="channel", symmetric=False), group(["down_proj"], strategy="tensor"), group(["[qkvep]_proj"], strategy="channel")], [
        ("o_proj", integers(8, -1, False, packed=False)), ("down_proj", integers(8, 0, True, packed=False)), ("proj", integers(8, -1, True, packed=False))])
FLOATS = compressed("float-quantized", [group(["[qkvo]_proj"], type="float", strategy="channel"), group(["[ep]_proj", "down_proj"], type="float", strategy="tensor")], [
    ("down_proj", floats("tensor", input_scale=True)), ("gate_proj", floats("tensor")), ("up_proj", floats("tensor")), ("proj", floats("channel"))])
BLOCKS = (dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[48, 32]), lambda name, weight, rng: packing.fp8(weight, (48, 32)))
FOUR_BITS = dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False, bnb_4bit_compute_dtype="float32", bnb_4bit_quant_storage="uint8")


# By name: class, settings beside SHAPE, modules that are not quantised, the method.
MODELS = {
    "gptq-4": ("Llama", {}, (), gptq(4, 64)),
    "gptq-4-asymmetric": ("Llama", {}, ("lm_head",), gptq(4, 32, symmetric=False)),
    "gptq-4-order-v2": ("Qwen3", {}, (), gptq(4, 32, order=True, version=2, symmetric=False)),
    "gptq-8": ("Llama", {}, (), gptq(8, -1)),
    "gptq-8-head": ("Llama", dict(tie_word_embeddings=False), ("o_proj",), gptq(8, 128, symmetric=False, lm_head=True)),
    # Its queries and their gates are one matrix, and its convolutions' outputs lie otherwise in GGUF files.
    "gptq-4-qwen35": ("Qwen3_5Text", dict(num_hidden_layers=2, intermediate_size=32, head_dim=32, linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=16,
                                          linear_value_head_dim=32, linear_conv_kernel_dim=4, layer_types=["linear_attention", "full_attention"],
                                          rope_parameters=dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.25, mrope_section=[2, 1, 1])),
                      ("k_proj", "v_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"), gptq(4, 32)),
    # Each head's queries, keys and values lie together.
    "gptq-4-neox": ("GPTNeoX", dict(num_key_value_heads=2, rotary_pct=0.25), (), gptq(4, 32, symmetric=False)),
    # Each expert's matrices are tensors of their own.
    "gptq-4-moe": ("Qwen3Moe", dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True), (), gptq(4, 32)),
    "awq-4": ("Qwen3", {}, ("down_proj",), awq(32, modules_to_not_convert=["down_proj"])),
    "compressed-int": ("Qwen3", {}, (), INTEGERS),
    "compressed-w8a8": ("Llama", {}, (), W8A8),
    "compressed-fp8": ("Llama", {}, (), FLOATS),
    "fp8-blocks": ("Qwen3", {}, (), BLOCKS),
    "nf4-nested": ("Llama", {}, (), (FOUR_BITS | dict(bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
                                     lambda name, weight, rng: packing.four_bits(weight, "nf4", True))),
    "fp4": ("Llama", {}, (), (FOUR_BITS | dict(bnb_4bit_quant_type="fp4", bnb_4bit_use_double_quant=False),
                              lambda name, weight, rng: packing.four_bits(weight, "fp4", False))),
    "bnb-int8": ("Llama", {}, (), (dict(quant_method="bitsandbytes", load_in_4bit=False, load_in_8bit=True, llm_int8_threshold=6.0),
                                   lambda name, weight, rng: packing.eight_bits(weight))),
}


def is_quantised(name, left_out, config):
    module = name.removesuffix(".weight")
    if module == "lm_head":
        return config.get("lm_head", False)
    return module.endswith(LINEAR) and not any(module.endswith(part) for part in left_out)


def experts_apart(tensors):
    """Transformers has all experts' matrices in one tensor, and gates and what they gate in one; folders have them apart."""
    for name, weight in tensors:
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            yield name, weight
            continue
        base = name.rsplit(".", 1)[0]
        for number, own in enumerate(weight.detach()):
            half = len(own) // 2
            parts = dict(down_proj=own) if name.endswith("down_proj") else dict(gate_proj=own[:half], up_proj=own[half:])
            for part, rows in parts.items():
                yield f"{base}.{number}.{part}.weight", rows


def make(folder, kind, settings, left_out, method):
    quantisation, pack = method
    seed = zlib.crc32(folder.name.encode())
    rng = np.random.default_rng(seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = getattr(transformers, kind + "Config")(**(SHAPE | settings))
    model = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM")._from_config(config, attn_implementation="eager")
    fill(model, False, seed)
    model.half().float()
    tensors, crcs = {}, {}
    for name, weight in experts_apart(model.named_parameters()):
        if not is_quantised(name, left_out, quantisation):
            tensors[name] = weight.detach().half()
            continue
        parts, values = pack(name.removesuffix(".weight"), weight.detach().numpy(), rng)
        tensors |= {name.removesuffix("weight") + part: value for part, value in parts.items()}
        crcs[name] = zlib.crc32(values.astype("<f4").tobytes())
        with torch.no_grad():
            weight.copy_(torch.from_numpy(values))
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    config.dtype = "float16"
    text = json.loads(config.to_json_string())
    text["architectures"] = [kind.removesuffix("Text") + "ForCausalLM"]
    text["quantization_config"] = quantisation
    (folder / "config.json").write_text(json.dumps(text, indent=1) + "\n")
    prompt = rng.integers(3, config.vocab_size, PROMPT).tolist()
    model.eval()
    ids, leads = greedy(model, prompt)
    logits = logits_of(model, prompt + ids)
    rows = ["  [" + ", ".join(f"{value:.7g}" for value in logits[position]) + "]" for position in POSITIONS]
    (folder / "reference.json").write_text(
        f'{{"prompt": {json.dumps(prompt)},\n "greedy": {json.dumps(ids)},\n "leads": [{", ".join(f"{lead:.2g}" for lead in leads)}],\n'
        f' "positions": {json.dumps(POSITIONS)},\n "crc": {json.dumps(crcs)},\n "logits": [\n' + ",\n".join(rows) + "\n ]}\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder.name}: {size / 1024:.0f} KiB, {len(set(ids))} different ids, least lead {min(leads):.4f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden_quantised"
    for name, model in MODELS.items():
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(root / name, *model)
