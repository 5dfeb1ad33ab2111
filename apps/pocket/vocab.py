"""Learns the vocabulary: byte-level BPE over the corpus, cut into words and single digits as Qwen2's tokenizer does."""

import argparse
import json
import re
from collections import Counter
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Published in Qwen2's tokenizer.json; Weft and llama.cpp know it by the name "qwen2".
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SAMPLE = 20_000_000  # characters of the corpus the merges are counted on
WITH_SPACE = 500  # the most frequent words have a token of their own for the word after a space
SPACE = "\u0120"  # how byte-level BPE writes a space


def pieces(corpus):
    with open(corpus, encoding="utf-8", newline="") as file:
        text = file.read(SAMPLE)
    for special in SPECIAL:
        text = text.replace(special, "\0")
    return [piece for piece in text.split("\0") if piece]


def byte_level(merges, vocabulary):
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def learn(corpus, size):
    """Rare words are the same tokens after a space and elsewhere, so that what a user says can be said again between
    quotation marks: merges are learned with every space apart, then the most frequent words get a merge with the space."""
    texts = pieces(corpus)
    apart = Tokenizer(models.BPE())
    apart.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.Split(" ", "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    apart.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size - WITH_SPACE, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    learned = json.loads(apart.to_str())["model"]
    vocabulary, merges = learned["vocab"], [tuple(merge) for merge in learned["merges"]]
    counts = Counter(match[1] for text in texts for match in re.finditer(r" (\w+)", text))
    frequent = sorted((word for word in counts if word in vocabulary), key=lambda word: (-counts[word], word))
    for word in frequent[:WITH_SPACE]:
        vocabulary[SPACE + word] = len(vocabulary)
        merges.append((SPACE, word))
    return byte_level(merges, vocabulary)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds corpus.txt, takes tokenizer.json")
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.json")
    args = parser.parse_args()
    size = json.loads(args.recipe.read_text())["vocab"]
    tokenizer = learn(args.folder / "corpus.txt", size)
    if tokenizer.get_vocab_size() != size:
        raise SystemExit(f"the corpus gives {tokenizer.get_vocab_size()} tokens, the recipe asks for {size}")
    tokenizer.save(str(args.folder / "tokenizer.json"))


if __name__ == "__main__":
    main()
