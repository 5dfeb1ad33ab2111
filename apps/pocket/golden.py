"""PyTorch's results for the held-out dialogues, token by token, and how far Weft agrees with them.

`golden.py FOLDER --write FILE` keeps the first 2,000 positions for tests/model/pocket_test.cpp;
`golden.py FOLDER` runs Weft over all held-out dialogues and prints the agreement.
"""

import argparse
import json
import math
from pathlib import Path

import gguf
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

import weft
from model import Llama, Shape

HERE = Path(__file__).parent
POSITIONS = 2000


def rounded(weight):
    """The weight as a Q8_0 file holds it."""
    kind = gguf.GGMLQuantizationType.Q8_0
    return torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), kind), kind))


def load(folder, recipe, q8=False):
    weights = {name.removeprefix("model."): weight for name, weight in load_file(folder / "hf/model.safetensors").items()}
    if q8:
        weights = {name: rounded(weight) if weight.dim() == 2 else weight for name, weight in weights.items()}
    model = Llama(Shape(vocab=recipe["vocab"], **recipe["shape"]))
    model.load_state_dict(weights)
    return model.eval()


def predict(model, ids):
    """-> after each id the best next one, and the nats of every id after the first, summed."""
    with torch.no_grad():
        logits = model.logits(model(torch.tensor([ids])))[0]
    return logits.argmax(1).tolist(), F.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="sum").item()


def best_next(session, ids):
    generation = session.generate(ids, max_tokens=1)
    generation.text()
    return generation.ids[0]


def measure(reference, path, type, dialogues):
    session = weft.Model(path, type=type).session(temperature=0)
    same = positions = 0
    nats = wanted = 0.0
    size = sum(len(text.encode()) for text, _ in dialogues)
    for _, ids in dialogues:
        best, some = predict(reference, ids)
        wanted += some
        nats += sum(session.score(ids).tolist())
        got = [best_next(session, ids[:end]) for end in range(1, len(ids) + 1)] if positions < POSITIONS else []
        same += sum(x == y for x, y in zip(got, best))
        positions += len(got)
    return same / positions, positions, nats / math.log(2) / size, wanted / math.log(2) / size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds hf/, pocket.gguf, pocket-f16.gguf and heldout.txt")
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.json")
    parser.add_argument("--write", type=Path, metavar="FILE")
    args = parser.parse_args()
    recipe = json.loads(args.recipe.read_text())
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    texts = (args.folder / "heldout.txt").read_text(encoding="utf-8").split("<|endoftext|>\n")[:-1]
    dialogues = [(text, tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    exact, q8 = load(args.folder, recipe), load(args.folder, recipe, q8=True)
    if not args.write:
        for name, type, reference, against in [("pocket.gguf", "q8", exact, "fp32"), ("pocket.gguf", "f16", q8, "fp32 of Q8_0"),
                                               ("pocket-f16.gguf", "f16", exact, "fp32")]:
            share, positions, bits, wanted = measure(reference, args.folder / name, type, dialogues)
            print(f"{name} as {type} against PyTorch {against}: {share:.2%} of {positions} greedy ids alike; "
                  f"{bits:.4f} bits per byte, PyTorch {wanted:.4f} ({bits / wanted - 1:+.3%})")
        return
    sequences, positions = [], 0
    for text, ids in dialogues:
        if positions >= POSITIONS:
            break
        best, nats = predict(exact, ids)
        sequences.append({"ids": ids, "best": best, "best_q8": predict(q8, ids)[0], "nats": round(nats, 4)})
        positions += len(ids)
    lines = ",\n".join(json.dumps(sequence, separators=(",", ":")) for sequence in sequences)
    args.write.write_text(f"[\n{lines}\n]\n")
    print(f"{positions} positions in {len(sequences)} dialogues")


if __name__ == "__main__":
    main()
