"""Measures the cost of a keep-list: bits per byte of the answers in the held-out dialogues, through Weft, with every row of the
vocabulary and with a quarter of them. As in a chat, the tokens of the context are kept too, so the list holds what the
answers of the corpus use most of the rest."""

import argparse
import json
import math
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer

import data
import weft

HERE = Path(__file__).parent


def build(folder, tokenizer, rows):
    """Counts what the model says in the corpus that was not said before in the dialogue -> the list's file."""
    counts, keep = Counter(), folder / "keep.list"
    for ids, kinds in data.load(folder / "corpus.txt", folder / "tokenizer.json", 0, 0, folder / "corpus.npz"):
        for some, kind in zip(ids.tolist(), kinds.tolist()):
            before = set()
            for id, what in zip(some, kind):
                if what == data.SAID and id not in before:
                    counts[id] += 1
                before.add(id)
    always = {id for text, id in tokenizer.get_vocab().items() if len(text) == 1 or text.startswith("<|")}
    chosen = [id for id, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if id not in always]
    keep.write_text("".join(f"{id}\n" for id in chosen[: rows - len(always)]))
    return keep


def nats(session, tokenizer, ids):
    """Nats of the last id after the others. An id that the head leaves out is spelled with its bytes, which every list keeps."""
    session.prompt(ids[:-1])
    found, values = session.head_logits()
    logits = dict(zip(found.tolist(), values.tolist()))
    if ids[-1] in logits:
        top = max(logits.values())
        return top - logits[ids[-1]] + math.log(sum(math.exp(logit - top) for logit in logits.values())), 0
    spelled = [tokenizer.token_to_id(byte) for byte in tokenizer.id_to_token(ids[-1])]
    return sum(nats(session, tokenizer, ids[:-1] + spelled[: end + 1])[0] for end in range(len(spelled))), 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds pocket.gguf, tokenizer.json, corpus.npz and heldout.txt")
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.json")
    parser.add_argument("--share", type=float, default=0.25, help="of the vocabulary's rows")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    keep = build(args.folder, tokenizer, int(args.share * json.loads(args.recipe.read_text())["vocab"]))
    texts = (args.folder / "heldout.txt").read_text(encoding="utf-8").split("<|endoftext|>\n")[:-1]
    size = sum(len(said.removesuffix("<|im_end|>").encode()) for text in texts for said in data.split(text)[1::2])
    model = weft.Model(args.folder / "pocket.gguf")
    bits = {}
    for head in ("full", f"keep:{keep}"):
        session, total, tokens, spelled = model.session(head=head), 0.0, 0, 0
        for ids, said in data.encode(tokenizer, texts):
            for end in range(1, len(ids)):
                if said[end]:
                    cost, respelled = nats(session, tokenizer, ids[: end + 1])
                    total, tokens, spelled = total + cost, tokens + 1, spelled + respelled
        bits[head] = total / math.log(2) / size
        print(f"{head}: {bits[head]:.4f} bits per byte of {tokens} tokens said, {spelled} spelled with others")
    full, kept = bits.values()
    print(f"the list changes them by {kept / full - 1:+.2%}")


if __name__ == "__main__":
    main()
