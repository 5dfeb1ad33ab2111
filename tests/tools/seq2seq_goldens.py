#!/usr/bin/env python3
"""Writes tests/model/golden_seq2seq: tiny random encoder-decoders as Hugging Face folders and, where llama.cpp knows the family, as GGUF,
with the logits and the greedy ids that Transformers gives in fp32. Needs the PyPI packages transformers, torch, safetensors and gguf, and
is needed only to make the models anew: seq2seq_goldens.py CHECKOUT [NAME ...]

Nothing here is searched for: a model's name is the seed of its weights and of its inputs, by CRC-32.
"""
import json
import math
import pathlib
import shutil
import sys
import zlib

import gguf
import numpy as np
import torch
import transformers
from safetensors import safe_open

LENGTHS, STEPS = [1, 77, 150], 64  # of the inputs; chunks are of 64
POSITIONS = [0, 1, 23, 63]  # of the decoder, whose logits are kept

T5 = dict(d_model=32, d_kv=16, d_ff=64, num_layers=2, num_decoder_layers=3, num_heads=3, vocab_size=131, n_positions=256,
          decoder_start_token_id=0)
BART = dict(d_model=48, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=72, decoder_ffn_dim=72, encoder_attention_heads=3,
            decoder_attention_heads=3, vocab_size=131, max_position_embeddings=200, decoder_start_token_id=2)
# By name: class, settings.
MODELS = {
    "t5": ("T5", T5),
    "t5-gated-untied": ("T5", T5 | dict(d_model=40, d_kv=12, num_heads=5, num_layers=1, num_decoder_layers=2, feed_forward_proj="gated-gelu",
                                        relative_attention_num_buckets=20, tie_word_embeddings=False, decoder_start_token_id=5)),
    "t5-near": ("T5", T5 | dict(d_kv=8, num_heads=4, num_layers=2, num_decoder_layers=2, feed_forward_proj="gated-silu",
                                relative_attention_num_buckets=13, relative_attention_max_distance=40)),
    "bart": ("Bart", BART),
    "bart-untied": ("Bart", BART | dict(d_model=40, encoder_layers=1, decoder_layers=3, encoder_ffn_dim=56, encoder_attention_heads=2,
                                        decoder_attention_heads=5, scale_embedding=True, activation_function="relu", tie_word_embeddings=False)),
}


def fill(model, seed):
    """As family_goldens.py: logits spread by about a half, matrices keep sizes, and all branches together weigh as much as the embedding.
    T5's scores are not divided by sqrt(d_kv), so its queries are. The last norm's weights are of either sign, biases of scores about 1.
    BART norms what its branches add to; the bias of an untied one's logits is about 0 by 0.2, a tied one's is 0, as every trained model's."""
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    if config.model_type == "bart":
        return fill_bart(model, generator)
    table = 0.5 / math.sqrt(config.d_model)
    scaled = config.model_type == "t5" and config.scale_decoder_outputs
    embedding = 0.5 if scaled else table
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            layers = config.num_layers if name.startswith("encoder") else config.num_decoder_layers
            gain = math.sqrt(0.5 / layers) * embedding
            if "relative_attention_bias" in name:
                weight.copy_(values)
            elif name.startswith("shared"):
                weight.copy_(values * embedding)
            elif name.startswith("lm_head"):
                weight.copy_(values * table)
            elif weight.dim() > 1:
                adds = name.endswith((".o.weight", ".wo.weight"))
                less = 1 / math.sqrt(config.d_kv) if name.endswith(".q.weight") else gain if adds else 1
                weight.copy_(values * less / math.sqrt(weight.shape[1]))
            else:
                weight.copy_(values * 0.2 + (values.sign() if name == "decoder.final_layer_norm.weight" else 1))


def fill_bart(model, generator):
    config = model.config
    table = 0.5 / math.sqrt(config.d_model)
    last = f"model.decoder.layers.{config.decoder_layers - 1}.final_layer_norm.weight"
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if any(part in name for part in ("shared", "embed_", "lm_head")):
                scaled = config.scale_embedding and "positions" in name
                weight.copy_(values * table * (math.sqrt(config.d_model) if scaled else 1))
            elif weight.dim() > 1:
                weight.copy_(values / math.sqrt(weight.shape[1]))
            elif name.endswith("bias"):
                weight.copy_(values * 0.2)
            else:
                weight.copy_(values * 0.2 + (values.sign() if name == last else 1))
        if model.lm_head.weight is not model.model.shared.weight:  # Transformers then has three tables more, of which Weft wants one
            for half in (model.model.encoder, model.model.decoder):
                half.embed_tokens.weight.copy_(model.model.shared.weight)
            model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator) * 0.2)


def logits_of(model, source, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()


def rounded(values, digits):
    return [float(f"{value:.{digits}g}") for value in values]


def case(model, start, source):
    ids, leads = [start], []
    for _ in range(STEPS):
        logits = logits_of(model, source, ids)[-1]
        best = np.sort(logits)[-2:]
        leads.append((best[1] - best[0]) / logits.std())
        ids.append(int(logits.argmax()))
    logits = logits_of(model, source, ids)
    with torch.no_grad():
        states = model.get_encoder()(input_ids=torch.tensor([source])).last_hidden_state[0].double().numpy()
    mean = states.mean(0) / np.linalg.norm(states.mean(0))
    print(f"  {len(source)}: {len(set(ids))} different ids, least lead {min(leads):.4f}, spread {logits.std():.2f}")
    return {"source": source, "greedy": ids[1:], "leads": rounded(leads, 2), "mean": rounded(mean, 8), "positions": POSITIONS,
            "logits": [rounded(logits[position], 8) for position in POSITIONS]}


def write_t5_gguf(folder, config):
    """Writes as llama.cpp's convert_hf_to_gguf.py does."""
    writer = gguf.GGUFWriter(folder / "model.gguf", "t5")
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.d_model)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_block_count(config.num_layers)
    writer.add_decoder_block_count(config.num_decoder_layers)
    writer.add_head_count(config.num_heads)
    writer.add_key_length(config.d_kv)
    writer.add_value_length(config.d_kv)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_relative_attn_buckets_count(config.relative_attention_num_buckets)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    writer.add_decoder_start_token_id(config.decoder_start_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.T5, max(config.num_layers, config.num_decoder_layers))
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():
            weight = file.get_tensor(name)
            matrix = weight.ndim == 2 and "relative" not in name
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), weight.astype(np.float16 if matrix else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(folder, kind, settings):
    seed = zlib.crc32(folder.name.encode())
    shutil.rmtree(folder, ignore_errors=True)
    class_ = getattr(transformers, kind + "ForConditionalGeneration")
    start = settings["decoder_start_token_id"]
    model = class_._from_config(getattr(transformers, kind + "Config")(**settings), attn_implementation="eager")
    if kind == "T5" and settings.get("tie_word_embeddings") is False:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    fill(model, seed)
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=start)
    model.half().save_pretrained(folder)
    model = class_.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    print(folder.name)
    random = np.random.default_rng(seed)
    cases = [case(model, start, random.integers(3, model.config.vocab_size, length).tolist()) for length in LENGTHS]
    (folder / "reference.json").write_text("[" + ",\n".join(json.dumps(one) for one in cases) + "]\n")
    if kind == "T5" and model.config.relative_attention_max_distance == 128:  # GGUF cannot say another
        model.config.decoder_start_token_id = start
        write_t5_gguf(folder, model.config)
    print(" ", sum(file.stat().st_size for file in folder.iterdir()) // 1024, "KiB", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden_seq2seq"
    for name, model in MODELS.items():
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(root / name, *model)
