"""Trains Medusa heads for pocket: guesses for the tokens after the next one (Cai et al. 2024, https://arxiv.org/abs/2401.10774).

`medusa.py FOLDER` trains them on FOLDER/corpus.txt and writes FOLDER/pocket-medusa.gguf. The model itself stays as it is: its states are
computed once, with the weights of the GGUF file that the heads are for. It ends with the share of right guesses on the held-out dialogues.
"""

import argparse
import json
import time
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import data
from export import gguf_name
from model import Llama, Shape

HERE = Path(__file__).parent
MUON_RATE, ADAM_RATE, WARM_UP = 0.02, 0.002, 50  # steps
DISCOUNT = 0.8  # of a head's loss for each head before it: https://arxiv.org/abs/2401.10774, section 2.2.1
BATCH = 256  # states
# Rows of the table that guesses come from, (first, count): the early merges, and the frequent words after a space, which vocab.py puts
# at the end. They are a fifth of the rows and 94% of the answers' tokens.
ROWS = [(0, 1024), (7680, 512)]


class Heads(nn.Module):
    """Head k: h + silu(W_k h + b_k), which the model's own table turns into logits of the token k + 1 places after the next one. With
    zeros a head is the model's own."""

    def __init__(self, width, count):
        super().__init__()
        self.linear = nn.ModuleList(nn.Linear(width, width) for _ in range(count))
        for linear in self.linear:
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, hidden):
        """hidden (states, width) -> (heads, states, width)"""
        return torch.stack([hidden + F.silu(linear(hidden)) for linear in self.linear])


def load_model(path, recipe):
    """The model with the weights of a GGUF file of export.py."""
    model = Llama(Shape(vocab=recipe["vocab"], **recipe["shape"]))
    tensors = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(path).tensors}
    weights = {name: tensors[gguf_name(name)] for name in model.state_dict()}
    heads = {"q_proj": recipe["shape"]["heads"], "k_proj": recipe["shape"]["kv_heads"]}
    for name, weight in weights.items():
        for projection, count in heads.items():
            if projection in name:  # export.py's neighbours(), backwards
                rows, columns = weight.shape
                weights[name] = weight.reshape(count, rows // count // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    model.load_state_dict({name: torch.from_numpy(np.array(weight, np.float32)) for name, weight in weights.items()})
    return model.eval()


def states_of(model, batches, count, most):
    """States whose next token the model says, and the tokens that follow: (states, width), (states, count + 1). Tokens after an answer's
    end are -100: nobody guesses them. most: states."""
    hidden, following, found = [], [], 0
    for ids, kinds in batches:
        ids, said = torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(kinds == data.SAID)
        with torch.no_grad():
            states = model(ids)
        length = ids.shape[1]
        labels = torch.full((*ids.shape, count + 1), -100)
        alive = torch.ones(ids.shape, dtype=torch.bool)
        for k in range(count + 1):  # a token of the same answer: all up to it are said
            alive[:, : max(length - k - 1, 0)] &= said[:, k + 1:]
            alive[:, max(length - k - 1, 0):] = False
            labels[..., k][alive] = torch.roll(ids, -k - 1, 1)[alive]
        use = labels[..., 0] >= 0
        hidden.append(states[use])
        following.append(labels[use])
        found += int(use.sum())
        if found >= most:
            break
    return torch.cat(hidden), torch.cat(following)


def train(heads, table, hidden, following, seconds, generator):
    """Muon for the matrices, AdamW for the biases, as in train.py."""
    of = lambda dimensions: [weight for weight in heads.parameters() if weight.dim() == dimensions]
    both = [torch.optim.Muon(of(2), lr=MUON_RATE, weight_decay=0.01, momentum=0.95), torch.optim.AdamW(of(1), lr=ADAM_RATE)]
    began, step = time.monotonic(), 0
    while (done := (time.monotonic() - began) / seconds) < 1:
        for optimizer, full in zip(both, (MUON_RATE, ADAM_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = full * min(1, (step + 1) / WARM_UP, 1.02 - done)
        at = torch.randint(len(hidden), (BATCH,), generator=generator)
        losses = []
        for k, turned in enumerate(heads(hidden[at])):
            labels = following[at, k + 1]
            losses.append(F.cross_entropy(F.linear(turned[labels >= 0], table), labels[labels >= 0]))
        sum(DISCOUNT**k * loss for k, loss in enumerate(losses)).backward()
        for optimizer in both:
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        if step % 200 == 0:
            print(f"step {step}, {done:.0%} of the time: " + " ".join(f"{loss:.3f}" for loss in losses), flush=True)
    print(f"{step} steps, {step * BATCH / len(hidden):.1f} times each of {len(hidden)} states")


def measure(heads, table, hidden, following):
    """Prints how often a guess is right if the head's token is in the answer, and how often all guesses up to it are."""
    with torch.no_grad():
        own = F.linear(hidden, table).argmax(1)
        all_right = own == following[:, 0]
        print(f"the model's own next token: {all_right.float().mean():.1%} of {len(hidden)}")
        expected = 1.0
        for k, turned in enumerate(heads(hidden)):
            labels = following[:, k + 1]
            right = F.linear(turned, table).argmax(1) == labels
            there = labels >= 0
            all_right &= right
            expected += (right & all_right).float().mean().item()
            chance = (all_right & there).float().sum() / there.float().sum()
            print(f"head {k}: right {right[there].float().mean():.1%}, with all before it {chance:.1%}; tokens a pass {expected:.2f}")


def write(path, heads, kind):
    """The layout is in docs/formats.md."""
    writer = gguf.GGUFWriter(path, "medusa")
    writer.add_name("pocket's Medusa heads")
    writer.add_license("apache-2.0")
    writer.add_embedding_length(heads.linear[0].in_features)
    writer.add_uint32("medusa.head_count", len(heads.linear))
    writer.add_array("medusa.rows", [number for pair in ROWS for number in pair])
    for k, linear in enumerate(heads.linear):
        weight, bias = linear.weight.detach().numpy(), linear.bias.detach().numpy()
        writer.add_tensor(f"medusa.{k}.weight", gguf.quants.quantize(np.ascontiguousarray(weight), kind), raw_dtype=kind)
        writer.add_tensor(f"medusa.{k}.bias", bias)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds corpus.txt, heldout.txt and tokenizer.json; takes pocket-medusa.gguf")
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.json")
    parser.add_argument("--model", type=Path, default=HERE / "pocket.gguf")
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--states", type=int, default=400_000)
    parser.add_argument("--seconds", type=float, default=300, help="of training")
    args = parser.parse_args()
    recipe = json.loads(args.recipe.read_text())
    row = recipe["batch_tokens"], recipe["shape"]["context"]
    corpus = data.load(args.folder / "corpus.txt", args.folder / "tokenizer.json", *row, args.folder / "corpus.npz")
    held_out = data.load(args.folder / "heldout.txt", args.folder / "tokenizer.json", *row, args.folder / "heldout.npz", keep_rest=True)
    model = load_model(args.model, recipe)
    table = model.embed_tokens.weight.detach()
    generator = torch.Generator().manual_seed(recipe["seed"])
    order = torch.randperm(len(corpus), generator=generator).tolist()  # they are in the order of their lengths' turn
    states = args.folder / f"states-{args.heads}-{args.states}.pt"
    if not states.exists():
        torch.save(states_of(model, (corpus[i] for i in order), args.heads, args.states), states)
    hidden, following = torch.load(states)
    tests = states_of(model, held_out, args.heads, 10**9)
    heads = Heads(recipe["shape"]["width"], args.heads)
    train(heads, table, hidden, following, args.seconds, generator)
    measure(heads, table, *tests)
    write(args.folder / "pocket-medusa.gguf", heads, gguf.GGMLQuantizationType.Q8_0)


if __name__ == "__main__":
    main()
