"""Trains pocket on the CPU. Stopped at any time, it goes on from its last checkpoint when started again."""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import data
from model import Llama, Shape

HERE = Path(__file__).parent
READ_SHARE = 0.15  # of the user's tokens that are learned from; of the model's own all are
CHECKPOINT_SECONDS = 200
MUON_RATE, ADAM_RATE = 0.02, 0.003
WARM_UP, COOL_DOWN = 60, 0.9  # steps; the share of all steps in which the rate falls to zero


def rate(step, steps):
    """Rises, stays, falls: https://arxiv.org/abs/2404.06395"""
    return min(1.0, (step + 1) / WARM_UP, max(steps - step, 1) / (COOL_DOWN * steps))


def optimizers(model):
    """Muon for the matrices between hidden states (https://kellerjordan.github.io/posts/muon/), AdamW for the rest."""
    inner = [weight for name, weight in model.named_parameters() if weight.dim() == 2 and "embed" not in name]
    rest = [weight for name, weight in model.named_parameters() if weight.dim() != 2 or "embed" in name]
    return [torch.optim.Muon(inner, lr=MUON_RATE, weight_decay=0.01, momentum=0.95),
            torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.99), eps=1e-5, weight_decay=0.01, fused=True)]


def losses_of(model, batch, generator=None):
    """-> nats of every token that counts, and whether the model says it. Of what the user says only a share counts, drawn
    by the generator; without one everything counts."""
    ids = torch.from_numpy(batch[0].astype(np.int64))
    kinds = torch.from_numpy(batch[1])[:, 1:]
    counts = kinds != data.PADDING
    if generator is not None:
        counts &= (kinds == data.SAID) | (torch.rand(counts.shape, generator=generator) < READ_SHARE)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.logits(model(ids[:, :-1])[counts])
    return F.cross_entropy(logits.float(), ids[:, 1:][counts], reduction="none"), kinds[counts] == data.SAID


def held_out_losses(model, batches):
    """-> nats per token of the whole dialogues and of the answers."""
    model.eval()
    with torch.no_grad():
        found = [losses_of(model, batch) for batch in batches]
    model.train()
    losses, said = (torch.cat(tensors) for tensors in zip(*found))
    return losses.mean().item(), losses[said].mean().item()


def save(path, content):
    part = path.with_suffix(".part")
    torch.save(content, part)
    part.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds corpus.txt, heldout.txt and tokenizer.json, takes checkpoint.pt")
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.json")
    args = parser.parse_args()
    recipe = json.loads(args.recipe.read_text())
    torch.manual_seed(recipe["seed"])

    tokenizer_file = args.folder / "tokenizer.json"
    row = recipe["batch_tokens"], recipe["shape"]["context"]
    batches = data.load(args.folder / "corpus.txt", tokenizer_file, *row, args.folder / "corpus.npz")
    held_out = data.load(args.folder / "heldout.txt", tokenizer_file, *row, args.folder / "heldout.npz", keep_rest=True)
    model = Llama(Shape(vocab=recipe["vocab"], **recipe["shape"]))
    model.initialise(torch.Generator().manual_seed(recipe["seed"]))
    both = optimizers(model)
    step, seconds = 0, 0.0
    checkpoint = args.folder / "checkpoint.pt"
    if checkpoint.exists():
        kept = torch.load(checkpoint)
        model.load_state_dict(kept["model"])
        for optimizer, state in zip(both, kept["optimizers"]):
            optimizer.load_state_dict(state)
        step, seconds = kept["step"], kept["seconds"]
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"{parameters} parameters, {len(batches)} batches, from step {step} on", flush=True)

    steps, tokens = recipe["steps"], 0
    (args.folder / "pid").write_text(f"{os.getpid()}\n")
    began = shown = saved = time.monotonic()
    while step < steps:
        for optimizer, full in zip(both, (MUON_RATE, ADAM_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = full * rate(step, steps)
        batch = batches[step % len(batches)]
        losses, said = losses_of(model, batch, torch.Generator().manual_seed(recipe["seed"] + step))
        loss = losses.mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in both:
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        tokens += batch[0].size
        now = time.monotonic()
        if step % 20 == 0:
            speed = tokens / (now - shown)
            print(f"step {step} of {steps} loss {loss.item():.4f} answers {losses[said].mean():.4f} {speed:.0f} tok/s", flush=True)
            shown, tokens = now, 0
        if now - saved > CHECKPOINT_SECONDS or step == steps:
            whole, answers = held_out_losses(model, held_out)
            took = seconds + now - began
            print(f"step {step} held out: loss {whole:.4f} answers {answers:.4f}, {took:.0f} s", flush=True)
            save(checkpoint, {"model": model.state_dict(), "optimizers": [optimizer.state_dict() for optimizer in both],
                              "step": step, "seconds": took, "held_out": (whole, answers)})
            saved, shown, tokens = time.monotonic(), time.monotonic(), 0


if __name__ == "__main__":
    main()
