"""Dialogues as batches of tokens."""

import re

import numpy as np
from tokenizers import Tokenizer

PARTS = re.compile(r"(<\|im_start\|>assistant\n)(.*?<\|im_end\|>)", re.S)
READ, SAID, PADDING = 0, 1, 2  # what a token is: the user's or the template's, the assistant's, neither
STEP = 16  # lengths of batches are multiples of it


def encode(tokenizer, texts):
    """For each text its ids, and for each id whether the model says it (else it only reads it)."""
    pieces, owners = [], []  # what the user says and what the assistant says, in turn
    for index, text in enumerate(texts):
        for number, piece in enumerate(split(text)):
            pieces.append(piece)
            owners.append((index, number % 2 == 1))
    out = [([], []) for _ in texts]
    for encoding, (index, spoken) in zip(tokenizer.encode_batch(pieces, add_special_tokens=False), owners):
        out[index][0].extend(encoding.ids)
        out[index][1].extend([spoken] * len(encoding.ids))
    return out


def split(text):
    """Cuts a dialogue so that every second piece is an answer with its end mark. Cuts fall beside control tokens or
    line ends where the tokenizer cuts too, so the ids are those of the whole text."""
    pieces, at = [], 0
    for match in PARTS.finditer(text):
        pieces += [text[at: match.start(2)], match[2]]
        at = match.end()
    return pieces + [text[at:]]


def batches(dialogues, tokens, context, keep_rest=False):
    """Puts dialogues of about the same length together, so that little is padded and no token sees another dialogue.
    Yields arrays (dialogues, length) of ids and of what they are; a batch has about `tokens` tokens. The rare dialogue of
    more than `context` tokens is left out."""
    waiting = {}

    def batch(rows, length):
        ids, kinds = np.zeros((len(rows), length), np.uint16), np.full((len(rows), length), PADDING, np.uint8)
        for row, (some, spoken) in enumerate(rows):
            ids[row, : len(some)], kinds[row, : len(some)] = some, spoken
        return ids, kinds

    for dialogue in dialogues:
        length = -(-len(dialogue[0]) // STEP) * STEP
        if length > context:
            continue
        rows = waiting.setdefault(length, [])
        rows.append(dialogue)
        if len(rows) * length >= tokens:
            yield batch(waiting.pop(length), length)
    if keep_rest:
        for length in sorted(waiting):
            yield batch(waiting[length], length)


def load(corpus, tokenizer_file, tokens, context, cache, keep_rest=False):
    """The corpus as a list of batches, kept in a file beside it."""
    if not cache.exists():
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
        texts = corpus.read_text(encoding="utf-8").split("<|endoftext|>\n")[:-1]

        def dialogues():
            for at in range(0, len(texts), 10_000):
                yield from encode(tokenizer, texts[at: at + 10_000])

        found = list(batches(dialogues(), tokens, context, keep_rest))
        part = cache.with_suffix(".part.npz")
        np.savez(part, ids=np.concatenate([ids.ravel() for ids, _ in found]),
                 kinds=np.concatenate([kinds.ravel() for _, kinds in found]), shapes=[ids.shape for ids, _ in found])
        part.rename(cache)
    with np.load(cache) as arrays:
        ids, kinds, shapes = arrays["ids"], arrays["kinds"], arrays["shapes"]
    ends = np.cumsum(shapes.prod(1))
    return [(ids[end - rows * length: end].reshape(rows, length), kinds[end - rows * length: end].reshape(rows, length))
            for end, (rows, length) in zip(ends, shapes)]
