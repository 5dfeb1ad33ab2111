#!/usr/bin/env python3
"""Bytes of weights that a token reads, Weft's and llama.cpp's, for models quantised by llama.cpp: a table in Markdown.

bytes.py [--native]        computes them from the models' shapes, llama.cpp's rules of quantisation and Weft's layout (shaders/abi.h)
bytes.py --check FILE ...  FILE: what `weft inspect --json` prints; exits with 1 if the bytes by its shapes and types are off by more than 0.2%

--native: the vocabulary table is as the file has it (`--vocab-type native`), not in its basis. The rules are those of llama_tensor_get_type in
llama.cpp's src/llama-quant.cpp, without an importance matrix. Standard library only.
"""
import argparse
import dataclasses
import itertools
import json
import pathlib
import sys

BLOCK, TILE, SUPER, LEADING_WORDS = 32, 64, 256, 3
FILE = {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q8_0": (32, 34), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24),
        "IQ4_NL": (32, 18), "MXFP4": (32, 17), "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
        "IQ4_XS": (256, 136), "IQ3_XXS": (256, 98), "IQ3_S": (256, 110), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ2_S": (256, 82), "IQ1_S": (256, 50),
        "IQ1_M": (256, 56), "TQ1_0": (256, 54), "TQ2_0": (256, 66), "NVFP4": (64, 36), "Q1_0": (128, 18), "Q2_0": (64, 18)}  # elements, bytes
FALLBACK = {"Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}  # of rows that are no whole blocks
FORMATS = {"F16": "f16", "BF16": "f16", "F32": "f16", "Q4_1": "q4", "Q4_0": "q4_0", "Q5_0": "q5_0", "Q5_1": "q5_1", "Q4_K": "q4k", "Q5_K": "q5k", "Q6_K": "q6", "MXFP4": "mxfp4",
           "Q3_K": "q3k", "IQ4_NL": "iq4_nl", "IQ4_XS": "iq4_xs", "IQ3_XXS": "iq3_xxs", "IQ3_S": "iq3_s", "IQ2_XXS": "iq2", "IQ2_XS": "iq2", "IQ2_S": "iq2",
           "IQ1_S": "iq1", "IQ1_M": "iq1", "Q2_K": "q2k", "TQ1_0": "q2k", "TQ2_0": "q2k", "Q1_0": "q4_0", "Q2_0": "q4_0"}


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    width: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int


MODELS = (Model("Llama 3.2 1B", 2048, 8192, 16, 32, 8, 64, 128256), Model("Llama 3.2 3B", 3072, 8192, 28, 24, 8, 128, 128256),
          Model("Qwen3 0.6B", 1024, 3072, 28, 16, 8, 128, 151936), Model("Gemma 3 1B", 1152, 6912, 26, 4, 1, 256, 262144),
          Model("Gemma 3 4B", 2560, 10240, 34, 8, 4, 256, 262144))
TYPES = ("Q4_K_M", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "Q3_K_M")


def more_bits(layer, layers):
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def file_type(wanted, role, layer, model, cols):
    """The type that llama-quantize gives a tensor."""
    default = wanted.removesuffix("_M")
    kind = default
    if role == "table":
        return "Q8_0" if default == "Q8_0" or cols % SUPER else "Q6_K"  # tied: it is the output, too
    if role in ("v", "down") and wanted in ("Q4_K_M", "Q5_K_M") and more_bits(layer, model.layers):
        kind = "Q6_K"
    if wanted == "Q3_K_M":
        if role == "v":
            kind = "Q5_K" if layer < 2 else "Q4_K"
        elif role == "down":
            kind = "Q5_K" if layer < model.layers // 16 else "Q4_K"
        elif role == "output":
            kind = "Q4_K"
    return FALLBACK[kind] if cols % FILE[kind][0] else kind


def tensors(model, wanted):
    """{matrix of a layer on the device: [(rows, cols, type) of each of its tensors]}, layer by layer; the vocabulary table last."""
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    for layer in range(model.layers):
        def parts(*some):
            return [(rows, cols, file_type(wanted, role, layer, model, cols)) for role, rows, cols in some]  # noqa: B023
        yield parts(("q", q, model.width), ("k", kv, model.width), ("v", kv, model.width))
        yield parts(("output", model.width, q))
        yield parts(("gate", model.ffn, model.width), ("up", model.ffn, model.width))
        yield parts(("down", model.width, model.ffn))
    yield [(model.vocab, model.width, file_type(wanted, "table", 0, model, model.width))]


def file_bytes(rows, cols, kind):
    elements, size = FILE[kind]
    return rows * cols // elements * size


def row_bytes(form, cols):
    """Of a row of a layer's matrix on the device."""
    blocks = -(-cols // BLOCK)
    pairs = -(-blocks // 2) * 4
    supers = cols // SUPER
    return {"f16": blocks * 64, "q8": blocks * 32 + pairs, "q4": blocks * 20, "q4_0": blocks * 16 + pairs, "mxfp4": blocks * 16 + pairs, "iq4_nl": blocks * 16 + pairs,
            "q5_0": blocks * 20 + pairs, "q5_1": blocks * 24, "q4k": supers * 144, "iq4_xs": supers * 144, "iq3_xxs": supers * 144, "iq3_s": supers * 144,
            "q3k": supers * 112, "iq2": supers * 112, "iq1": supers * 112, "q2k": supers * 84, "q5k": supers * 176, "q6": supers * 208 + -(-supers // 2) * 4}[form]


def tile_bytes(form, rows, cols):
    return -(-rows // TILE) * TILE * row_bytes(form, cols)


def format_of(kinds):
    """That of tensors which share one."""
    forms = {FORMATS.get(kind, "q8") for kind in kinds}
    if len(forms) == 1:
        return forms.pop()
    if forms == {"q4k", "q5k"}:
        return "q5k"
    if set(kinds) == {"Q4_0", "Q4_1"}:
        return "q4"
    return "f16" if "f16" in forms else "q8"


def matrix_bytes(parts):
    """Of a layer's matrix: in one format, or in two if the second begins a tile."""
    cols = parts[0][1]

    def one(some):
        return tile_bytes(format_of([kind for _, _, kind in some]), sum(rows for rows, _, _ in some), cols)
    splits = [i for i, rows in enumerate(itertools.accumulate(rows for rows, _, _ in parts), 1) if rows % TILE == 0 and i < len(parts)]
    return min([one(parts)] + [one(parts[:i]) + one(parts[i:]) for i in splits])


def table_bytes(rows, cols):
    """Of a vocabulary table as q8 in its basis."""
    rest = -(-cols // BLOCK) - 1
    quads, pairs = -(-rest // 4), -(-rest // 2)
    words = LEADING_WORDS + 2 * quads + pairs + rest + 2  # header and leading columns, planes 0 to 3, the leading columns' lower bytes
    return -(-rows // TILE) * TILE * (words * 16 + pairs * 4)


def weft_bytes(matrices, native):
    *layers, table = matrices
    return sum(map(matrix_bytes, layers)) + (matrix_bytes(table) if native else table_bytes(*table[0][:2]))


def layers_of(said):
    """{layer: the matrices on the device} of what `weft inspect --json` says of a llama, Qwen or Gemma."""
    layers = {}
    for tensor in said["tensors"]:
        if not tensor["name"].startswith("blk.") or len(tensor["shape"]) != 2:
            continue
        _, layer, name, _ = tensor["name"].split(".")
        matrix = {"attn_q": "qkv", "attn_k": "qkv", "attn_v": "qkv", "ffn_gate": "inner", "ffn_up": "inner"}.get(name, name)
        layers.setdefault(int(layer), {}).setdefault(matrix, []).append((*tensor["shape"], tensor["file_type"]))
    return {layer: list(matrices.values()) for layer, matrices in layers.items()}


def check(path, native):
    """Whether the bytes of a file's tensors, by the rules above, are those that `weft inspect` says."""
    said = json.loads(pathlib.Path(path).read_text())
    table = next(tensor for tensor in said["tensors"] if tensor["name"] == "token_embd.weight")
    matrices = [matrix for layer in layers_of(said).values() for matrix in layer]
    computed, real = weft_bytes([*matrices, [(*table["shape"], table["file_type"])]], native), said["bytes_per_token"]
    print(f"{path}: {computed / 1e6:.1f} MB by shapes and types, {real / 1e6:.1f} MB by weft inspect ({computed / real - 1:+.2%})")
    return abs(computed / real - 1) <= 0.002


def cell(model, wanted, native):
    matrices = list(tensors(model, wanted))
    ours = weft_bytes(matrices, native)
    return f"{ours / sum(file_bytes(*part) for matrix in matrices for part in matrix):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--check", nargs="+", metavar="FILE")
    args = parser.parse_args()
    if args.check:
        sys.exit(0 if all([check(path, args.native) for path in args.check]) else 1)
    print("| Weft / llama.cpp | " + " | ".join(TYPES) + " |\n|" + "---|" * (len(TYPES) + 1))
    for model in MODELS:
        print(f"| {model.name} | " + " | ".join(cell(model, wanted, args.native) for wanted in TYPES) + " |")


if __name__ == "__main__":
    main()
