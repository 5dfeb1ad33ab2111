"""Learns the vocabulary: byte-level BPE over the corpus, cut into words and single digits as Qwen2's tokenizer does."""

import argparse
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Published in Qwen2's tokenizer.json; Weft and llama.cpp know it by the name "qwen2".
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SAMPLE = 20_000_000  # characters of the corpus the merges are counted on


def learn(corpus, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    with open(corpus, encoding="utf-8", newline="") as file:
        text = file.read(SAMPLE)
    for special in SPECIAL:
        text = text.replace(special, "\0")
    tokenizer.train_from_iterator((piece for piece in text.split("\0") if piece), trainer)
    return tokenizer


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
