#!/usr/bin/env python3
"""Writes a Whisper of a Hugging Face folder as whisper.cpp's ggml-*.bin, for the tests only:

    ggml_whisper.py FOLDER OUTPUT [f16|f32|q8_0|q5_0|q5_1]

Matrices have the type if their rows are whole blocks, else f16; other tensors are f32, as in whisper.cpp's files. The file has no list of
suppressed tokens, and languages have no names: the n-th one is that of OpenAI's list. Quantised types need numpy.
"""
import json
import math
import pathlib
import re
import struct
import sys

TYPES = {"f32": 0, "f16": 1, "q5_0": 6, "q5_1": 7, "q8_0": 8}
LAYER = {"self_attn_layer_norm": "attn_ln", "encoder_attn_layer_norm": "cross_attn_ln", "final_layer_norm": "mlp_ln", "fc1": "mlp.0", "fc2": "mlp.2",
         "self_attn": "attn", "encoder_attn": "cross_attn", "q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "out"}
OTHER = {"encoder.layer_norm": "encoder.ln_post", "decoder.layer_norm": "decoder.ln", "decoder.embed_tokens": "decoder.token_embedding",
         "encoder.embed_positions.weight": "encoder.positional_embedding", "decoder.embed_positions.weight": "decoder.positional_embedding"}


def ggml_name(name):
    name = name.removeprefix("model.")
    found = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.*)\.(weight|bias)", name)
    if found:
        return ".".join([found[1], "blocks", found[2], *(LAYER[part] for part in found[3].split(".")), found[4]])
    for usual, own in OTHER.items():
        name = name.replace(usual, own)
    return name


def byte_of_characters():
    """GPT-2's alphabet of bytes."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = iter(range(256, 512))
    return {chr(byte if byte in plain else next(others)): byte for byte in range(256)}


def text_tokens(tokenizer, end):
    """The bytes of the tokens with the ids below `end`."""
    alphabet = byte_of_characters()
    tokens = {id: bytes(alphabet[c] for c in spelling) for spelling, id in tokenizer["model"]["vocab"].items() if id < end}
    assert sorted(tokens) == list(range(end))
    return [tokens[id] for id in range(end)]


def as_f32(data):
    return struct.pack(f"<{len(data) // 2}f", *struct.unpack(f"<{len(data) // 2}e", data))


def quantised(data, kind):
    import numpy as np
    x = np.frombuffer(data, "<f2").astype(np.float32).reshape(-1, 32)
    if kind == "q5_1":
        low = x.min(1, keepdims=True)
        scale = (x.max(1, keepdims=True) - low) / 31
    else:
        steps = 127 if kind == "q8_0" else -16
        largest = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)
        low, scale = 0 * largest, (np.abs(largest) if kind == "q8_0" else largest) / steps
    q = np.round((x - low) / np.where(scale == 0, 1, scale))
    half = scale.astype("<f2").view(np.uint8)
    if kind == "q8_0":
        return np.hstack([half, q.astype(np.int8).view(np.uint8)]).tobytes()
    q = np.clip(q + (16 if kind == "q5_0" else 0), 0, 31).astype(np.uint32)
    high = ((q >> 4) << np.arange(32, dtype=np.uint32)).sum(1, dtype=np.uint32, keepdims=True).view(np.uint8)
    low_bits = ((q[:, :16] & 15) | (q[:, 16:] & 15) << 4).astype(np.uint8)
    return np.hstack([half, *([low.astype("<f2").view(np.uint8)] if kind == "q5_1" else []), high, low_bits]).tobytes()


def convert(folder, output, kind="f16"):
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    end = next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == "<|endoftext|>")
    bands = config["num_mel_bins"]
    with open(output, "wb") as out:
        sizes = [config["vocab_size"], config["max_source_positions"], config["d_model"], config["encoder_attention_heads"], config["encoder_layers"],
                 config["max_target_positions"], config["d_model"], config["decoder_attention_heads"], config["decoder_layers"], bands, kind != "f32"]
        out.write(struct.pack("<12I", 0x67676d6c, *sizes))
        out.write(struct.pack("<2I", bands, 201) + bytes(4 * 201 * bands))  # the filters, which Weft knows
        out.write(struct.pack("<I", end))
        for token in text_tokens(tokenizer, end):
            out.write(struct.pack("<I", len(token)) + token)
        data = (folder / "model.safetensors").read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        for name, about in json.loads(data[8:start]).items():
            if name in ("__metadata__", "proj_out.weight"):
                continue
            assert about["dtype"] == "F16"
            own, shape = ggml_name(name), about["shape"]
            values = data[start + about["data_offsets"][0]:start + about["data_offsets"][1]]
            if own in ("encoder.conv1.bias", "encoder.conv2.bias"):
                shape = [*shape, 1]
            assert math.prod(shape) * 2 == len(values)
            one = "f32" if kind == "f32" or len(shape) < 2 or shape[1] == 1 or "positional" in own else "f16"
            if one == "f16" and kind.startswith("q") and len(shape) == 2 and shape[1] % 32 == 0:
                one = kind
            values = {"f32": as_f32, "f16": bytes}.get(one, lambda values: quantised(values, kind))(values)
            out.write(struct.pack(f"<3I{len(shape)}I", len(shape), len(own), TYPES[one], *reversed(shape)) + own.encode() + values)


if __name__ == "__main__":
    convert(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:])
