#!/usr/bin/env python3
"""Writes a Whisper of CTranslate2's format (model.bin) as a Hugging Face folder, for the tests only:

    ctranslate2_whisper.py FOLDER|PACKAGES OUTPUT

FOLDER holds model.bin, config.json and tokenizer.json; model.bin may lie in parts (model.bin.part1, ...), and the files in several folders, joined
by commas. Needs numpy and safetensors. generation_config.json gets the tokens that OpenAI's program suppresses.
"""
import json
import pathlib
import shutil
import struct
import sys

import numpy as np
from safetensors.numpy import save_file

TYPES = [np.float32, np.int8, np.int16, np.int32, np.float16]


def read_variables(data):
    place = 0

    def take(form):
        nonlocal place
        value = struct.unpack_from("<" + form, data, place)[0]
        place += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal place
        length = take("H")
        place += length
        return data[place - length:place].rstrip(b"\0").decode()

    version = take("I")
    assert version >= 5, version
    assert text() == "WhisperSpec"
    take("I")
    variables = {}
    for _ in range(take("I")):
        name = text()
        shape = [take("I") for _ in range(take("B"))]
        kind, size = TYPES[take("B")], take("I")
        variables[name] = np.frombuffer(data, kind, size // np.dtype(kind).itemsize, place).reshape(shape)
        place += size
    for _ in range(take("I")):
        alias = text()
        variables[alias] = variables[text()]
    return variables


def tensors_of(variables):
    names = {"layer_norm": "norm"}

    def plain(name):
        value = variables[name]
        if value.dtype == np.int8:
            scale = variables[name + "_scale"]
            return value.astype(np.float32) / scale.reshape(-1, *[1] * (value.ndim - 1))
        return value.astype(np.float32)

    tensors = {}

    def linear(to, name):
        tensors[to + ".weight"] = plain(name + "/weight")
        if name + "/bias" in variables:
            tensors[to + ".bias"] = plain(name + "/bias")

    def norm(to, name):
        tensors[to + ".weight"], tensors[to + ".bias"] = plain(name + "/gamma"), plain(name + "/beta")

    def split(name, parts):
        weights = np.split(plain(name + "/weight"), len(parts))
        biases = np.split(plain(name + "/bias"), len(parts))
        for part, weight, bias in zip(parts, weights, biases):
            tensors[part + ".weight"] = weight
            if part.endswith("k_proj"):
                assert not bias.any()
            else:
                tensors[part + ".bias"] = bias

    for half in ("encoder", "decoder"):
        layers = sum(f"{half}/layer_{i}/ffn/linear_0/weight" in variables for i in range(64))
        for i in range(layers):
            own, to = f"{half}/layer_{i}", f"model.{half}.layers.{i}"
            norm(to + ".self_attn_layer_norm", own + "/self_attention/layer_norm")
            split(own + "/self_attention/linear_0", [f"{to}.self_attn.{p}_proj" for p in "qkv"])
            linear(to + ".self_attn.out_proj", own + "/self_attention/linear_1")
            if half == "decoder":
                norm(to + ".encoder_attn_layer_norm", own + "/attention/layer_norm")
                linear(to + ".encoder_attn.q_proj", own + "/attention/linear_0")
                split(own + "/attention/linear_1", [f"{to}.encoder_attn.{p}_proj" for p in "kv"])
                linear(to + ".encoder_attn.out_proj", own + "/attention/linear_2")
            norm(to + ".final_layer_norm", own + "/ffn/layer_norm")
            linear(to + ".fc1", own + "/ffn/linear_0")
            linear(to + ".fc2", own + "/ffn/linear_1")
        norm(f"model.{half}.layer_norm", f"{half}/layer_norm")
        tensors[f"model.{half}.embed_positions.weight"] = plain(f"{half}/position_encodings/encodings")
    for conv in ("conv1", "conv2"):
        linear("model.encoder." + conv, "encoder/" + conv)
    tensors["model.decoder.embed_tokens.weight"] = plain("decoder/embeddings/weight")
    return {name: np.ascontiguousarray(value).astype(np.float16) for name, value in tensors.items()}


def convert(folders, output):
    output.mkdir(parents=True, exist_ok=True)
    files = {file.name: file for folder in folders for file in folder.rglob("*") if file.is_file()}
    parts = [files[name] for name in sorted(files) if name.startswith("model.bin")]
    variables = read_variables(b"".join(part.read_bytes() for part in parts))
    tensors = tensors_of(variables)
    save_file(tensors, output / "model.safetensors", {"format": "pt"})
    table, conv = tensors["model.decoder.embed_tokens.weight"], tensors["model.encoder.conv1.weight"]
    layers = {half: sum(f"model.{half}.layers.{i}.fc1.weight" in tensors for i in range(64)) for half in ("encoder", "decoder")}
    heads = int(variables["encoder/num_heads"]) if "encoder/num_heads" in variables else table.shape[1] // 64
    config = {"model_type": "whisper", "d_model": table.shape[1], "vocab_size": table.shape[0], "num_mel_bins": conv.shape[1],
              "activation_function": "gelu", "decoder_start_token_id": 50258 if table.shape[0] >= 51865 else 50257, "tie_word_embeddings": True}
    for half in ("encoder", "decoder"):
        config |= {f"{half}_layers": layers[half], f"{half}_attention_heads": heads,
                   f"{half}_ffn_dim": tensors[f"model.{half}.layers.0.fc1.weight"].shape[0]}
    config |= {"max_source_positions": tensors["model.encoder.embed_positions.weight"].shape[0],
               "max_target_positions": tensors["model.decoder.embed_positions.weight"].shape[0]}
    (output / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    own = json.loads(files["config.json"].read_text())
    (output / "generation_config.json").write_text(json.dumps({
        "alignment_heads": own["alignment_heads"], "suppress_tokens": own["suppress_ids"], "begin_suppress_tokens": own["suppress_ids_begin"],
        "decoder_start_token_id": config["decoder_start_token_id"]}) + "\n")
    shutil.copy(files["tokenizer.json"], output / "tokenizer.json")


if __name__ == "__main__":
    convert([pathlib.Path(folder) for folder in sys.argv[1].split(",")], pathlib.Path(sys.argv[2]))
