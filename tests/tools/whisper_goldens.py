#!/usr/bin/env python3
"""Writes tests/model/golden_whisper: tiny random Whispers as Hugging Face folders, with the encoder's states, the logits and the greedy ids
that Transformers gives in fp32. "speech" has a tokenizer too, of single bytes and Whisper's control tokens, and the ids that Transformers'
rules for times and suppressed tokens let through. Needs the PyPI packages transformers and torch, and is needed only to make the models anew:
whisper_goldens.py CHECKOUT [NAME ...]

Nothing here is searched for: a model's name is the seed of its weights, by CRC-32.
"""
import json
import math
import pathlib
import shutil
import sys
import zlib

import numpy as np
import torch
import transformers

STEPS = 32
POSITIONS = [0, 1, 31]  # of the decoder, whose logits are kept
BASE = dict(d_model=48, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=72, decoder_ffn_dim=72, encoder_attention_heads=3,
            decoder_attention_heads=3, vocab_size=131, num_mel_bins=80, max_source_positions=70, max_target_positions=60,
            decoder_start_token_id=2, pad_token_id=1, bos_token_id=1, eos_token_id=1)
MODELS = {
    "even": BASE,
    "odd": BASE | dict(d_model=40, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=56, encoder_attention_heads=2, decoder_attention_heads=5,
                       num_mel_bins=13, max_source_positions=33, scale_embedding=True),
    "whole-chunks": BASE | dict(d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=2,
                                num_mel_bins=128, max_source_positions=128),
}
LANGUAGES = ["en", "de", "fr"]
CONTROL = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{language}|>" for language in LANGUAGES), "<|translate|>", "<|transcribe|>",
           "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
IDS = {name: 256 + i for i, name in enumerate(CONTROL)}
SPEECH = BASE | dict(vocab_size=256 + len(CONTROL) + BASE["max_source_positions"] + 1, max_target_positions=100,
                     decoder_start_token_id=IDS["<|startoftranscript|>"], eos_token_id=256, pad_token_id=256, bos_token_id=256)
GENERATION = dict(no_timestamps_token_id=IDS["<|notimestamps|>"], max_initial_timestamp_index=20, suppress_tokens=list(range(100, 140)) + [7],
                  is_multilingual=True)


def fill(model, seed):
    """Logits spread by about a half, matrices keep sizes, and all branches together weigh as much as the embedding. The last norm's weights
    are of either sign. Positions are as large as the embedding, so that an error of one shows."""
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    table = 0.5 / math.sqrt(config.d_model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            gain = table * math.sqrt(0.5 / config.decoder_layers) if "decoder" in name else 0.5
            if "embed_tokens" in name or "proj_out" in name:
                weight.copy_(values * table)
            elif "embed_positions" in name:
                scale = math.sqrt(config.d_model) if config.scale_embedding else 1
                weight.copy_(values * (table * scale if "decoder" in name else 0.3))
            elif weight.dim() > 1:
                adds = name.endswith(("out_proj.weight", "fc2.weight"))
                weight.copy_(values * (gain if adds else 1) / math.sqrt(weight[0].numel()))
            elif name.endswith("bias"):
                weight.copy_(values * 0.2 * (gain if "out_proj" in name or "fc2" in name else 1))
            else:
                weight.copy_(values * 0.2 + (values.sign() if name == "model.decoder.layer_norm.weight" else 1))


def frames(config):
    """(bands, frames), as whisper_test.cpp makes them."""
    band, frame = np.arange(config.num_mel_bins)[:, None], np.arange(2 * config.max_source_positions)[None, :]
    return np.sin(0.7 * band + 0.05 * frame * (1 + band % 7)).astype(np.float32)


def rounded(values, digits):
    return [float(f"{value:.{digits}g}") for value in values]


def write_tokenizer(folder):
    """Byte-level BPE without merges, as GPT-2's bytes are spelt."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = iter(range(256, 512))
    spelt = {byte: chr(byte if byte in plain else next(others)) for byte in range(256)}
    tokenizer = {"version": "1.0", "added_tokens": [{"id": id, "content": name, "special": True, "single_word": False, "lstrip": False,
                                                     "rstrip": False, "normalized": False} for name, id in IDS.items()],
                 "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                 "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                           "fuse_unk": False, "vocab": {text: byte for byte, text in spelt.items()}, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False) + "\n")


def spoken(model, features, start):
    """Greedy ids under the rules, the lead of each, and how often the times together won over a likelier text."""
    from transformers.generation.logits_process import SuppressTokensLogitsProcessor, WhisperTimeStampLogitsProcessor
    config = transformers.GenerationConfig(**GENERATION, eos_token_id=256, bos_token_id=256)
    control = [id for id in IDS.values() if id != 256]
    rules = [SuppressTokensLogitsProcessor(GENERATION["suppress_tokens"] + control), WhisperTimeStampLogitsProcessor(config, len(start))]
    ids, leads, won, first = list(start), [], 0, IDS["<|notimestamps|>"] + 1
    with torch.no_grad():
        for _ in range(48):
            logits = model(input_features=features, decoder_input_ids=torch.tensor([ids]), use_cache=False).logits[:, -1].float()
            spread, scores = logits.std().item(), logits.clone()
            for rule in rules:
                scores = rule(torch.tensor([ids]), scores)
            text, times = logits[0, :first].max().item(), torch.logsumexp(logits[0, first:], 0).item()
            won += bool(torch.isinf(scores[0, :256]).all()) and scores[0].max().item() < text < times
            best = torch.sort(scores[0][~torch.isinf(scores[0])]).values[-2:].tolist()
            leads.append(min((best[-1] - best[0]) / spread if len(best) > 1 else 9, abs(times - text) / spread))
            ids.append(int(scores[0].argmax()))
            if ids[-1] == 256:
                break
    return ids[len(start):], leads, won


def attention(model, features, ids):
    """How much the last head of each layer attends to the first half of the encoder's positions, by its tokens at POSITIONS."""
    half = model.config.max_source_positions // 2
    with torch.no_grad():
        layers = model(input_features=features, decoder_input_ids=torch.tensor([ids]), use_cache=False, output_attentions=True).cross_attentions
    weights = [layer[0, -1, POSITIONS, :half] for layer in layers]
    return [[rounded(row, 6) for row in (one / one.sum(-1, keepdim=True)).tolist()] for one in weights]


def make(folder, settings):
    shutil.rmtree(folder, ignore_errors=True)
    model = transformers.WhisperForConditionalGeneration._from_config(transformers.WhisperConfig(**settings), attn_implementation="eager")
    fill(model, zlib.crc32(folder.name.encode()))
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=settings["decoder_start_token_id"])
    model.half().save_pretrained(folder)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    features = torch.tensor(frames(model.config))[None]
    ids, leads = [settings["decoder_start_token_id"]], []
    with torch.no_grad():
        states = model.get_encoder()(features).last_hidden_state[0].numpy()
        for _ in range(STEPS):
            last = model(input_features=features, decoder_input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()
            best = np.sort(last[-1])[-2:]
            leads.append((best[1] - best[0]) / last[-1].std())
            ids.append(int(last[-1].argmax()))
    more = {}
    if folder.name == "speech":
        write_tokenizer(folder)
        settings = json.loads((folder / "generation_config.json").read_text()) | GENERATION
        (folder / "generation_config.json").write_text(json.dumps(settings, indent=1) + "\n")
        start = [IDS["<|startoftranscript|>"], IDS["<|de|>"], IDS["<|transcribe|>"]]
        said, close, won = spoken(model, features, start)
        print("  said", said, f"least lead {min(close):.4f}, times won {won}")
        more = {"spoken_after": start, "spoken": said, "spoken_leads": rounded(close, 2)}
    positions = [0, 1, model.config.max_source_positions // 2, model.config.max_source_positions - 1]
    (folder / "reference.json").write_text(json.dumps({
        "states": {str(position): rounded(states[position], 8) for position in positions}, "greedy": ids[1:], "leads": rounded(leads, 2),
        "positions": POSITIONS, "logits": [rounded(last[position], 8) for position in POSITIONS],
        "attention": attention(model, features, ids[:STEPS])} | more) + "\n")
    print(f"{folder.name}: {len(set(ids))} different ids, least lead {min(leads):.4f}, spread {last.std():.2f}, states {states.std():.2f},",
          sum(file.stat().st_size for file in folder.iterdir()) // 1024, "KiB", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden_whisper"
    for name, model in (MODELS | {"speech": SPEECH}).items():
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(root / name, model)
