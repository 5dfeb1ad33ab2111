#!/usr/bin/env python3
"""Writes tests/unit/golden/tokenizer/sequences.json: random normalizers and pre-tokenizers in random order, and the ids that Hugging
Face's tokenizers makes of random lines with them.

Only needed to change the golden: python3 -m venv V && V/bin/pip install tokenizers
V/bin/python tests/tools/tokenizer_sequences.py [CASES SEED FILE]
"""
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import Tokenizer, models, trainers

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "unit" / "golden" / "tokenizer"
LINES, LINES_A_CASE = 60, 10
WORDS = "the Don't  we'll x1 42nd 3.14 1234 «été» ÉCOLE naïve Straße İstanbul ΑΣ привет Ёлка שָׁלוֹם مرحبا नमस्ते 你好 世界 こんにちは カタカナ 안녕 ﬁ Ａ １２ ½ Ⅻ ² € © … — ' \" ( ) , ! ¿ ·".split(" ")
BLANKS = [" ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u2581", ""]


def known(code):
    """True if Unicode 3.2 had the character, with today's properties: the libraries' tables are of different versions."""
    c = chr(code)
    old = unicodedata.ucd_3_2_0
    return (old.category(c) not in ("Cn", "Cs", "Co") and old.category(c) == unicodedata.category(c)
            and old.decomposition(c) == unicodedata.decomposition(c))


RANGES = [(0x20, 0x7f), (0x20, 0x7f), (0xa0, 0x17f), (0x1c0, 0x24f), (0x300, 0x36f), (0x370, 0x5ff), (0x600, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f),
          (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x20cf), (0x2100, 0x23ff), (0x2460, 0x27bf), (0x3000, 0x30ff), (0x4e00, 0x9fa5), (0xac00, 0xd7a3),
          (0xf900, 0xfa2d), (0xfe20, 0xffef), (0x10400, 0x1044f), (0x1d400, 0x1d7ff), (0x0, 0x1f), (0x7f, 0x9f)]


def random_character(r):
    while True:
        code = r.randint(*r.choice(RANGES))
        if known(code):
            return chr(code)


def random_line(r):
    parts = [r.choice(BLANKS)] if r.random() < 0.4 else []
    for _ in range(r.randint(1, 5)):
        parts.append(r.choice(WORDS) if r.random() < 0.6 else "".join(random_character(r) for _ in range(r.randint(1, 4))))
        parts.append(r.choice(BLANKS))
    return "".join(parts)


def coin(r):
    return r.random() < 0.5


def pattern(r):
    literals = [" ", "a", "é", "\u2581", "t", "1", "Ġ", "ll", "'", "\u0301", "ˈ"]
    regexes = [r"\s+", r"\d", r"\p{L}+", r"[a-z]+|\d+", r"\p{P}", r"\p{Lu}", r" ?\p{L}+", r"[^\s\p{L}]+", r"(?<=[a-z])(?=x)y|Ġ", r"\p{M}"]
    return {"String": r.choice(literals)} if coin(r) else {"Regex": r.choice(regexes)}


def random_normalizer(r, depth=0):
    kind = r.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Prepend", "Replace", "Replace", "BertNormalizer", "Nmt", "Precompiled",
                     "ByteLevel"] + ["Sequence"] * (6 if depth == 0 else 1))
    out = {"type": kind}
    if kind == "Strip":
        out |= {"strip_left": coin(r), "strip_right": coin(r)}
    elif kind == "Prepend":
        out |= {"prepend": r.choice(["\u2581", "x ", "é", " "])}
    elif kind == "Replace":
        out |= {"pattern": pattern(r), "content": r.choice(["", " ", "\u2581", "ab", "é", "1"])}
    elif kind == "BertNormalizer":
        out |= {"clean_text": coin(r), "handle_chinese_chars": coin(r), "strip_accents": r.choice([None, True, False]), "lowercase": coin(r)}
    elif kind == "Precompiled":
        out |= {"precompiled_charsmap": CHARSMAP}
    elif kind == "Sequence":
        out |= {"normalizers": [random_normalizer(r, depth + 1) for _ in range(r.randint(0, 4))]}
    return out


def random_pre_tokenizer(r, depth=0):
    kind = r.choice(["ByteLevel", "ByteLevel", "Metaspace", "Metaspace", "Whitespace", "WhitespaceSplit", "BertPreTokenizer", "Punctuation", "Digits", "Split", "Split",
                     "CharDelimiterSplit", "FixedLength"] + ["Sequence"] * (20 if depth == 0 else 1))
    out = {"type": kind}
    behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    if kind == "ByteLevel":
        out |= {"add_prefix_space": coin(r), "trim_offsets": coin(r), "use_regex": coin(r)}
    elif kind == "Metaspace":
        out |= {"replacement": r.choice(["\u2581", "\u2581", "_", "é"]), "prepend_scheme": r.choice(["always", "first", "first", "never"]), "split": coin(r)}
    elif kind == "Punctuation":
        out |= {"behavior": r.choice(behaviors)}
    elif kind == "Digits":
        out |= {"individual_digits": coin(r)}
    elif kind == "Split":
        out |= {"pattern": pattern(r), "behavior": r.choice(behaviors), "invert": coin(r)}
    elif kind == "CharDelimiterSplit":
        out |= {"delimiter": r.choice([" ", "a", "é", "\u2581", "Ġ"])}
    elif kind == "FixedLength":
        out |= {"length": r.randint(1, 6)}
    elif kind == "Sequence":
        out |= {"pretokenizers": [random_pre_tokenizer(r, depth + 1) for _ in range(r.randint(0, 5))]}
    return out


def tokenizer_of(model, normalizer, pre_tokenizer):
    return Tokenizer.from_str(json.dumps({"version": "1.0", "model": model, "added_tokens": [], "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
                                          "post_processor": None, "decoder": None}))


def trained_model(r, lines):
    """Merges across everything, so that every end of a piece shows in the ids; over characters and over spelled bytes."""
    byte_level = tokenizer_of({"type": "BPE", "vocab": {}, "merges": []}, {"type": "ByteLevel"}, None)
    texts = lines + [byte_level.normalizer.normalize_str(line) for line in lines]
    texts += [line.replace(" ", "\u2581") for line in lines] + [line.lower() for line in lines] + [unicodedata.normalize("NFKD", line) for line in lines]
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.train_from_iterator(texts * 3, trainers.BpeTrainer(vocab_size=2000, min_frequency=2, special_tokens=["[UNK]"], show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


def main():
    count, seed, out = (sys.argv[1:] + ["150", "1", str(GOLDEN / "sequences.json")][len(sys.argv) - 1:])[:3]
    r = random.Random(int(seed))
    lines = [random_line(r) for _ in range(LINES if int(count) < 1000 else 600)]
    model = trained_model(r, lines)
    cases = []
    while len(cases) < int(count):
        normalizer = random_normalizer(r) if coin(r) else None
        pre_tokenizer = random_pre_tokenizer(r)
        tokenizer = tokenizer_of(model, normalizer, pre_tokenizer)
        chosen = r.sample(range(len(lines)), LINES_A_CASE)
        ids = [tokenizer.encode(lines[i], add_special_tokens=False).ids for i in chosen]
        cases.append({"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "lines": chosen, "ids": ids})
    text = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")).replace(json.dumps(CHARSMAP), '""') for case in cases)
    head = json.dumps({"model": model, "lines": lines}, ensure_ascii=False, separators=(",", ":"))
    pathlib.Path(out).write_text(head[:-1] + ',\n"cases":[\n' + text + "\n]}\n")


def charsmap():
    """The map of a committed tokenizer (tokenizer_lines.py); the golden leaves it out."""
    for tokenizer in json.loads((GOLDEN / "mixed.json").read_text())["tokenizers"].values():
        stack = [tokenizer["tokenizer"]["normalizer"]]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                if item.get("precompiled_charsmap"):
                    return item["precompiled_charsmap"]
                stack += item.get("normalizers", [])
    raise SystemExit("mixed.json has no precompiled_charsmap")


CHARSMAP = charsmap()
if __name__ == "__main__":
    main()
