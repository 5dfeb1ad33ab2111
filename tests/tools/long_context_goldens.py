#!/usr/bin/env python3
"""Writes tests/model/golden-long: tiny random models with a sliding window, and the logits that Transformers gives in fp32 at a few
positions, past 4,096 too. Needs what family_goldens.py needs: long_context_goldens.py CHECKOUT
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers

from family_goldens import fill, logits_of
from family_models import rope

WINDOW = 32
SHORT = [31, 32, 33, 167, 200]  # positions whose logits are kept
TINY = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
            vocab_size=67, max_position_embeddings=8192, bos_token_id=1, eos_token_id=2, pad_token_id=0, sliding_window=WINDOW)
MODELS = {
    "mistral": ("Mistral", SHORT, TINY | dict(rope_parameters=rope(1e6))),
    # A layer with a window and one without.
    "gemma3": ("Gemma3Text", SHORT + [4095, 4096, 4139], TINY | dict(
        num_attention_heads=2, num_key_value_heads=1, query_pre_attn_scalar=10, layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"full_attention": rope(1e6), "sliding_attention": rope(10000.0)})),
}


def some_ids(count, vocab):  # as tests/support/model_test.cpp
    return [(i * 2654435761 % 2**32 >> 7) % vocab for i in range(count)]


def make(folder, seed, kind, positions, settings):
    shutil.rmtree(folder, ignore_errors=True)
    config = getattr(transformers, kind + "Config")(**settings)
    class_ = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM")
    model = class_._from_config(config, attn_implementation="eager")
    fill(model, kind.startswith("Gemma"), seed)
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = class_.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    logits = logits_of(model, some_ids(positions[-1] + 1, config.vocab_size))
    rows = ["  [" + ", ".join(f"{value:.8g}" for value in logits[position]) + "]" for position in positions]
    (folder / "reference.json").write_text(f'{{"positions": {json.dumps(positions)},\n "logits": [\n'
                                           + ",\n".join(rows) + "\n ]}\n")
    print(f"{folder.name}: {sum(file.stat().st_size for file in folder.iterdir()) / 1024:.0f} KiB, spread {logits.std():.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1]) / "tests/model/golden-long"
    for number, (name, model) in enumerate(MODELS.items()):
        make(root / name, number, *model)
