#!/usr/bin/env python3
"""Writes tests/unit/golden/format with other people's writers: the PyPI packages gguf, safetensors
and numpy. Needed only to make them anew: format_goldens.py CHECKOUT
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import safetensors
from gguf.quants import dequantize, quantize

root = pathlib.Path(sys.argv[1])
golden = root / "tests/unit/golden/format"
golden.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(20)


def bits(values):
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).reshape(-1).tolist()


def awkward(shape):
    """Normal values of many magnitudes, and first of all the special ones."""
    values = (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 4, shape)).astype(np.float32)
    special = [0.0, -0.0, 1.0, 65504.0, 6e-8, -6.1e-5, 1e-3]
    values.reshape(-1)[: len(special)] = special
    return values


def make_gguf():
    path = golden / "gguf-package.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_custom_alignment(64)
    writer.add_uint8("t.u8", 255)
    writer.add_int8("t.i8", -128)
    writer.add_uint16("t.u16", 65535)
    writer.add_int16("t.i16", -32768)
    writer.add_uint32("t.u32", 4294967295)
    writer.add_int32("t.i32", -2147483648)
    writer.add_uint64("t.u64", 18446744073709551615)
    writer.add_int64("t.i64", -9223372036854775808)
    writer.add_float32("t.f32", 0.1)
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.bool", True)
    writer.add_string("t.string", "Kettfäden ▁")
    writer.add_array("t.strings", ["<unk>", "", "▁warp"])
    writer.add_array("t.ints", [1, -2, 3])
    writer.add_array("t.floats", [0.5, -1.5])
    tensors = {}
    for name, shape, kind in [("plain", (3, 5), "F32"), ("half", (7, 3), "F16"), ("brain", (2, 2, 9), "BF16"),
                              ("blocks", (4, 64), "Q8_0"), ("vector", (33,), "F32")]:
        type_ = gguf.GGMLQuantizationType[kind]
        values = awkward(shape)
        if kind in ("F32", "F16"):
            data = values.astype(np.float32 if kind == "F32" else np.float16)
            writer.add_tensor(name, data)
            exact = data.astype(np.float32)
        else:
            data = quantize(values, type_)
            writer.add_tensor(name, data, raw_dtype=type_)
            exact = dequantize(data, type_)
        tensors[name] = {"dtype": kind, "shape": list(shape), "bits": bits(exact)}
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (golden / "gguf-package.json").write_text(json.dumps(tensors))


def make_safetensors():
    tensors, entries, kept = {}, {}, []
    for name, shape, kind, long in [("a.plain", (3, 5), "F32", "float32"), ("b.half", (7, 3), "F16", "float16"),
                                    ("c.brain", (2, 9), "BF16", "bfloat16"), ("d.scalar", (), "F32", "float32")]:
        values = awkward(shape) if shape else np.array(2.5, dtype=np.float32)
        if kind == "BF16":
            data = (values.view(np.uint32) >> 16).astype(np.uint16)
            exact = (data.astype(np.uint32) << 16).view(np.float32)
        else:
            data = values.astype(np.float32 if kind == "F32" else np.float16)
            exact = data.astype(np.float32)
        kept.append(data)  # a TensorSpec holds an address
        entries[name] = safetensors.TensorSpec(dtype=long, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
        tensors[name] = {"dtype": kind, "shape": list(shape), "bits": bits(exact)}
    (golden / "safetensors-package.safetensors").write_bytes(safetensors.serialize(entries, {"made": "by a test"}))
    (golden / "safetensors-package.json").write_text(json.dumps(tensors))


Q2_0 = 42
gguf.GGML_QUANT_SIZES[Q2_0] = (64, 18)  # newer than the package


def few_bits(data, kind):
    """Q1_0 and Q2_0, which the package does not decode (0.19); tests/unit/format_quants.cpp says how this was checked."""
    blocks = data.reshape(-1, 18)
    bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").astype(np.float32)
    integers = 2 * bits - 1 if kind == "Q1_0" else bits[:, 0::2] + 2 * bits[:, 1::2] - 1
    return (blocks[:, :2].copy().view(np.float16).astype(np.float32) * integers).reshape(len(data), -1)


def make_quants():
    """Blocks of random bits under random and extreme scales; NAME.floats is what the gguf package makes of NAME."""
    # Where a block's f16 scales are.
    scales = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
              "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "MXFP4": [], "IQ4_NL": [0], "IQ4_XS": [0], "IQ3_XXS": [0], "IQ3_S": [0],
              "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64], "NVFP4": [],
              "Q1_0": [0], "Q2_0": [0]}
    extremes = [0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x7bff, 0xfbff]  # zeros, subnormals, ends
    own = np.random.default_rng(21)
    writer = gguf.GGUFWriter(golden / "quants.gguf", "none")
    for kind, places in scales.items():
        type_ = gguf.GGMLQuantizationType[kind] if kind != "Q2_0" else Q2_0
        elements, size = gguf.GGML_QUANT_SIZES[type_]
        rows = 8 if elements == 32 else 4 if kind in ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K") else 3
        blocks = own.integers(0, 256, (rows * 3, size), dtype=np.uint8)
        for i, block in enumerate(blocks):
            for place in places:
                half = own.choice(extremes) if i % 2 else int(own.standard_normal(1).astype(np.float16).view(np.uint16)[0])
                block[place:place + 2] = [half & 255, half >> 8]
            if kind == "MXFP4":  # the scale's exponent
                block[0] = own.choice([0, 1, 2, 101, 104, 107, 110, 145, 148, 254, 255]) if i % 2 else own.integers(115, 131)
            if kind == "IQ1_M":  # its scale lies in the highest four bits of four words
                half = own.choice(extremes) if i % 2 else int(own.standard_normal(1).astype(np.float16).view(np.uint16)[0])
                for k in range(4):
                    block[49 + 2 * k] = block[49 + 2 * k] & 15 | (half >> 4 * k & 15) << 4
        data = blocks.reshape(rows, 3 * size)
        writer.add_tensor(kind, data, raw_dtype=type_)
        writer.add_tensor(kind + ".floats", few_bits(data, kind) if kind in ("Q1_0", "Q2_0") else dequantize(data, type_))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


make_gguf()
make_safetensors()
make_quants()
