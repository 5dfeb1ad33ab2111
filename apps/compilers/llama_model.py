"""A model of the shapes of Llama 3.2 1B for llama.cpp: a layer for each type of its matrices, and a hole where the numbers would be."""
import struct

WIDTH, FFN, KV, HEADS, KV_HEADS, ROWS = 2048, 8192, 512, 32, 8, 256
# name: (number in the file, weights of a block, its bytes)
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q8_0": (8, 32, 34), "q4_K": (12, 256, 144),
         "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q2_K": (10, 256, 84), "q3_K": (11, 256, 110), "q5_K": (13, 256, 176), "q6_K": (14, 256, 210),
         "iq2_xxs": (16, 256, 66), "iq3_xxs": (18, 256, 98), "iq1_s": (19, 256, 50), "iq4_nl": (20, 32, 18), "iq3_s": (21, 256, 110), "iq4_xs": (23, 256, 136),
         "mxfp4": (39, 32, 17)}
LAYERS = tuple(kind for kind in TYPES if kind != "f32")  # their types
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    """A key and its value: u32, f32 or string."""
    kind, data = (8, text(value)) if isinstance(value, str) else (6, struct.pack("<f", value)) if isinstance(value, float) else (4, struct.pack("<I", value))
    return text(key) + struct.pack("<I", kind) + data


def tensors():
    """(name, type, columns, rows); rows 0: a vector."""
    yield "token_embd.weight", "f16", WIDTH, ROWS
    yield "output_norm.weight", "f32", WIDTH, 0
    for layer, kind in enumerate(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", "f32", WIDTH, 0
        for name, columns, rows in (("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH, KV), ("attn_v", WIDTH, KV), ("attn_output", WIDTH, WIDTH),
                                    ("ffn_gate", WIDTH, FFN), ("ffn_up", WIDTH, FFN), ("ffn_down", FFN, WIDTH)):
            yield f"blk.{layer}.{name}.weight", kind, columns, rows


def write(path):
    entries = {"general.architecture": "llama", "llama.context_length": 2048, "llama.embedding_length": WIDTH, "llama.block_count": len(LAYERS),
               "llama.feed_forward_length": FFN, "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV_HEADS,
               "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": ROWS, "tokenizer.ggml.model": "no_vocab"}
    infos, end = [], 0
    for name, kind, columns, rows in tensors():
        number, weights, size = TYPES[kind]
        shape = [columns, rows] if rows else [columns]
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, end))
        end += -(-columns // weights * size * (rows or 1) // ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(entries)) + b"".join(entry(*one) for one in entries.items()) + b"".join(infos)
    head += b"\0" * (-len(head) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + end)
