#!/usr/bin/env python3
"""Trains Medusa heads for a model on its states along texts (Cai et al. 2024, https://arxiv.org/abs/2401.10774, "Medusa-1").

`medusa_heads.py MODEL.gguf OUT.gguf TEXT ...` reads the model with Transformers and writes heads as docs/formats.md has them. It ends with how
often the best one to four guesses of each head have the right token on the last twentieth of the states. Needs torch, transformers,
accelerate and gguf.
"""

import argparse
import time
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

MUON_RATE, ADAM_RATE, WARM_UP = 0.02, 0.002, 50  # steps
DISCOUNT = 0.8  # of a head's loss for each head before it
BATCH, WINDOW, FIRST = 256, 256, 8  # states; tokens; of a window without states


def states_of(model, ids, heads):
    """The states along windows of the text, and the tokens that follow each: (states, width), (states, heads + 1)."""
    windows = ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW)
    with torch.no_grad():
        states = torch.cat([model.model(some).last_hidden_state for some in windows.split(4)])
    last = WINDOW - heads - 1
    following = torch.stack([windows[:, FIRST + k + 1: last + k + 1] for k in range(heads + 1)], -1)
    return states[:, FIRST:last].flatten(0, 1), following.flatten(0, 1)


def train(heads, table, states, following, seconds):
    """Muon for the matrices, AdamW for the biases. Tokens after the table's rows are left out."""
    of = lambda dimensions: [weight for weight in heads.parameters() if weight.dim() == dimensions]
    both = [torch.optim.Muon(of(2), lr=MUON_RATE, weight_decay=0.01, momentum=0.95), torch.optim.AdamW(of(1), lr=ADAM_RATE)]
    generator, began, step = torch.Generator().manual_seed(1), time.monotonic(), 0
    while (done := (time.monotonic() - began) / seconds) < 1:
        for optimizer, full in zip(both, (MUON_RATE, ADAM_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = full * min(1, (step + 1) / WARM_UP, 1.02 - done)
        at, loss = torch.randint(len(states), (BATCH,), generator=generator), 0
        for k, linear in enumerate(heads):
            labels = following[at, k + 1]
            hidden = states[at][labels < len(table)]
            loss += DISCOUNT**k * F.cross_entropy(F.linear(hidden + F.silu(linear(hidden)), table), labels[labels < len(table)])
        loss.backward()
        for optimizer in both:
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        if step % 100 == 0:
            print(f"step {step}, {done:.0%} of the time: {loss.item():.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--rows", type=int, default=12288, help="first rows of the table, a multiple of 64, that guesses come from")
    parser.add_argument("--tokens", type=int, default=20480)
    parser.add_argument("--seconds", type=float, default=600, help="of training")
    args = parser.parse_args()
    torch.manual_seed(1)
    load = dict(pretrained_model_name_or_path=args.model.parent, gguf_file=args.model.name)
    tokenizer, model = AutoTokenizer.from_pretrained(**load), AutoModelForCausalLM.from_pretrained(**load, dtype=torch.float32).eval()
    ids = tokenizer("".join(path.read_text(encoding="utf-8") for path in args.texts)[: args.tokens * 8])["input_ids"][: args.tokens]
    states, following = states_of(model, torch.tensor(ids), args.heads)
    table, width, held_out = model.lm_head.weight.detach()[: args.rows], states.shape[1], len(states) * 19 // 20
    heads = nn.ModuleList(nn.Linear(width, width) for _ in range(args.heads))
    for weight in heads.parameters():
        nn.init.zeros_(weight)
    train(heads, table, states[:held_out], following[:held_out], args.seconds)
    kind = gguf.GGMLQuantizationType.Q8_0
    writer = gguf.GGUFWriter(args.out, "medusa")
    writer.add_embedding_length(width)
    writer.add_uint32("medusa.head_count", args.heads)
    writer.add_array("medusa.rows", [0, args.rows])
    with torch.no_grad():
        for k, linear in enumerate(heads):
            hidden = states[held_out:]
            best = F.linear(hidden + F.silu(linear(hidden)), table).topk(4).indices == following[held_out:, k + 1, None]
            print(f"head {k}: " + ", ".join(f"{best[:, :few].any(1).float().mean():.1%} by {few}" for few in (1, 2, 3, 4)))
            writer.add_tensor(f"medusa.{k}.weight", gguf.quants.quantize(np.ascontiguousarray(linear.weight.numpy()), kind), raw_dtype=kind)
            writer.add_tensor(f"medusa.{k}.bias", linear.bias.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
