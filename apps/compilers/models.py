"""Nine published models as `weft-compilers` needs them: real widths, heads and features, in Hugging Face's format.

What pipelines a model takes depends on its family, its features and its types, not on its numbers, its count of layers or
the rows of its vocabulary or its number of experts. So a file has one layer of each kind, a table of ROWS rows, experts only as many as
a token uses, and a hole where the numbers would be.
"""
import json
import struct

ROWS = 2048
LLAMA = {"model_type": "llama", "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True}
# name: (layers as published, config.json)
MODELS = {
    "smollm2-135m": (30, {**LLAMA, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3,
                          "rope_theta": 100000.0, "max_position_embeddings": 8192}),
    "gemma3-270m": (18, {"model_type": "gemma3_text", "hidden_size": 640, "intermediate_size": 2048, "num_attention_heads": 4,
                         "num_key_value_heads": 1, "head_dim": 256, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
                         "query_pre_attn_scalar": 256, "sliding_window": 512, "sliding_window_pattern": 2, "rope_theta": 1000000.0,
                         "rope_local_base_freq": 10000.0, "max_position_embeddings": 32768, "tie_word_embeddings": True}),
    "qwen3-0.6b": (28, {**LLAMA, "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16,
                        "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
                        "max_position_embeddings": 40960}),
    "llama3.2-1b": (16, {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8,
                         "head_dim": 64, "rope_theta": 500000.0, "max_position_embeddings": 131072,
                         "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                          "original_max_position_embeddings": 8192}}),
    "gemma4-e2b": (35, {"model_type": "gemma4_text", "hidden_size": 1536, "intermediate_size": 6144, "num_attention_heads": 8,
                        "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "rms_norm_eps": 1e-6,
                        "hidden_activation": "gelu_pytorch_tanh", "hidden_size_per_layer_input": 256, "use_double_wide_mlp": True,
                        "num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 512,
                        "rope_parameters": {
                            "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
                        "max_position_embeddings": 131072, "final_logit_softcapping": 30.0, "tie_word_embeddings": True}),
    "gpt-oss-20b": (24, {"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64,
                         "num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5, "num_local_experts": 4, "num_experts_per_tok": 4,
                         "sliding_window": 128, "attention_bias": True, "rope_theta": 150000.0, "max_position_embeddings": 131072,
                         "tie_word_embeddings": False}),
    "whisper-base": (6, {"model_type": "whisper", "d_model": 512, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
                         "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "num_mel_bins": 80, "decoder_start_token_id": 0}),
    "whisper-large-v3-turbo": (4, {"model_type": "whisper", "d_model": 1280, "encoder_attention_heads": 20, "decoder_attention_heads": 20,
                                   "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128, "decoder_start_token_id": 0}),
    "gpt2-124m": (12, {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_ctx": 1024, "n_positions": 1024, "layer_norm_epsilon": 1e-5,
                       "activation_function": "gelu_new"}),
}


def layers_of(config):
    return len(config.get("layer_types", "12"))  # a first and a last one; with a window and without


def llama_tensors(c):
    width, ffn = c["hidden_size"], c["intermediate_size"]
    head = c.get("head_dim", width // c["num_attention_heads"])
    q, kv = head * c["num_attention_heads"], head * c["num_key_value_heads"]
    yield "model.embed_tokens.weight", [ROWS, width]
    yield "model.norm.weight", [width]
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", [ROWS, width]
    norms = ["input_layernorm", "post_attention_layernorm"]
    if c["model_type"] == "gemma3_text":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for layer in range(layers_of(c)):
        at = f"model.layers.{layer}."
        for name in norms:
            yield f"{at}{name}.weight", [width]
        for name, shape in (("q", [q, width]), ("k", [kv, width]), ("v", [kv, width]), ("o", [width, q])):
            yield f"{at}self_attn.{name}_proj.weight", shape
        if c["model_type"] in ("gemma3_text", "qwen3"):
            yield f"{at}self_attn.q_norm.weight", [head]
            yield f"{at}self_attn.k_norm.weight", [head]
        if c["model_type"] == "gpt_oss":
            yield from gpt_oss_tensors(c, at, q, kv)
            continue
        for name, shape in (("gate", [ffn, width]), ("up", [ffn, width]), ("down", [width, ffn])):
            yield f"{at}mlp.{name}_proj.weight", shape


def gemma4_tensors(c):
    width, inputs, layers = c["hidden_size"], c["hidden_size_per_layer_input"], layers_of(c)
    yield "model.embed_tokens.weight", [ROWS, width]
    yield "model.norm.weight", [width]
    yield "model.embed_tokens_per_layer.weight", [ROWS, layers * inputs]
    yield "model.per_layer_model_projection.weight", [layers * inputs, width]
    yield "model.per_layer_projection_norm.weight", [inputs]
    for layer, kind in enumerate(c["layer_types"]):
        at = f"model.layers.{layer}."
        shares = layer + c["num_kv_shared_layers"] >= layers
        head, ffn = c["head_dim" if kind == "sliding_attention" else "global_head_dim"], c["intermediate_size"] * (1 + shares)
        q, kv = head * c["num_attention_heads"], head * c["num_key_value_heads"]
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm",
                     "post_per_layer_input_norm"):
            yield f"{at}{name}.weight", [width]
        yield f"{at}layer_scalar", [1]
        for name, shape in (("q", [q, width]), ("o", [width, q]), *([] if shares else [("k", [kv, width]), ("v", [kv, width])])):
            yield f"{at}self_attn.{name}_proj.weight", shape
        for name in "q" if shares else "qk":
            yield f"{at}self_attn.{name}_norm.weight", [head]
        for name, shape in (("mlp.gate_proj", [ffn, width]), ("mlp.up_proj", [ffn, width]), ("mlp.down_proj", [width, ffn]),
                            ("per_layer_input_gate", [inputs, width]), ("per_layer_projection", [width, inputs])):
            yield f"{at}{name}.weight", shape


def gpt_oss_tensors(c, at, q, kv):
    width, ffn, experts = c["hidden_size"], c["intermediate_size"], c["num_local_experts"]
    yield f"{at}self_attn.sinks", [c["num_attention_heads"]]
    for name, rows in (("q", q), ("k", kv), ("v", kv), ("o", width)):
        yield f"{at}self_attn.{name}_proj.bias", [rows]
    yield f"{at}mlp.router.weight", [experts, width]
    yield f"{at}mlp.router.bias", [experts]
    yield f"{at}mlp.experts.gate_up_proj", [experts, width, 2 * ffn]
    yield f"{at}mlp.experts.gate_up_proj_bias", [experts, 2 * ffn]
    yield f"{at}mlp.experts.down_proj", [experts, ffn, width]
    yield f"{at}mlp.experts.down_proj_bias", [experts, width]


def gpt2_tensors(c):
    width = c["n_embd"]
    yield "transformer.wte.weight", [ROWS, width]
    yield "transformer.wpe.weight", [c["n_positions"], width]
    for name in ("ln_f", *(f"h.{layer}.ln_{i}" for layer in range(layers_of(c)) for i in (1, 2))):
        yield f"transformer.{name}.weight", [width]
        yield f"transformer.{name}.bias", [width]
    for layer in range(layers_of(c)):
        for name, rows, cols in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                 ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            yield f"transformer.h.{layer}.{name}.weight", [rows, cols]
            yield f"transformer.h.{layer}.{name}.bias", [cols]


def whisper_tensors(c):
    width, ffn = c["d_model"], c["encoder_ffn_dim"]

    def both(name, *shape):
        yield f"model.{name}.weight", list(shape)
        yield f"model.{name}.bias", [shape[0]]
    yield from both("encoder.conv1", width, c["num_mel_bins"], 3)
    yield from both("encoder.conv2", width, width, 3)
    yield "model.encoder.embed_positions.weight", [1500, width]
    yield "model.decoder.embed_positions.weight", [448, width]
    yield "model.decoder.embed_tokens.weight", [ROWS, width]
    for half in "encoder", "decoder":
        yield from both(f"{half}.layer_norm", width)
        for layer in range(layers_of(c)):
            at = f"{half}.layers.{layer}."
            for mixer in ("self_attn", "encoder_attn")[:1 + (half == "decoder")]:
                yield from both(f"{at}{mixer}_layer_norm", width)
                yield f"model.{at}{mixer}.k_proj.weight", [width, width]
                for name in "q_proj", "v_proj", "out_proj":
                    yield from both(f"{at}{mixer}.{name}", width, width)
            yield from both(f"{at}final_layer_norm", width)
            yield from both(f"{at}fc1", ffn, width)
            yield from both(f"{at}fc2", width, ffn)


def write(folder):
    """Writes all models below the folder; returns their folders."""
    made = []
    for name, (layers, config) in MODELS.items():
        path = folder / name
        path.mkdir(parents=True, exist_ok=True)
        kind = config["model_type"]
        tensors = {"gpt2": gpt2_tensors, "gemma4_text": gemma4_tensors, "whisper": whisper_tensors}.get(kind, llama_tensors)
        names = {"gpt2": ["n_layer"], "whisper": ["encoder_layers", "decoder_layers"]}.get(kind, ["num_hidden_layers"])
        config = {**config, **dict.fromkeys(names, layers_of(config)), "vocab_size": ROWS, "weft_layers": layers}
        (path / "config.json").write_text(json.dumps(config))
        header, end = {}, 0
        for tensor, shape in tensors(config):
            size = 2
            for extent in shape:
                size *= extent
            header[tensor] = {"dtype": "F16", "shape": shape, "data_offsets": [end, end + size]}
            end += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + end)
        made.append(path)
    return made
