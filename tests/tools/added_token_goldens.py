#!/usr/bin/env python3
"""Random added tokens, and the ids that Hugging Face's tokenizers gives with them.

added_token_goldens.py writes tests/unit/golden/tokenizer/added_tokens.json, for the small tokenizers beside it and a unigram model.
added_token_goldens.py FILE SETS TOKENIZER.json ... writes the same for other tokenizers, SETS of them for each file. Needs the package
tokenizers (0.23.3 made the file in the repository).
"""

import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "unit/golden/tokenizer"
CONTENTS = ["<tool>", "</tool>", "COVID-19", "Once", "once", "ONCE", "the", "he", "t", "é", "É", "e\u0301", "ﬁ", " x", "x ", "\n", "  ", "<a>", "<a><b>", "a>", "ü-b", "10", "0", "[X]", "[x]", "naïve", "😀", "中", "中国",
            "▁on", "▁", "Ġa", "under_score", "a b", "A B", "-", "tests", "<s>x", "İ", "ß", "ab", "abc", "bcd", "I", "'", "#"]
PARTS = CONTENTS + ["Hello", " ", "  ", "\t", " a ", "xyz", "9", "_", ".", "Once upon a time", "WORD", "ﬁx", "e", "\u0301", "国", "\u00a0", "<", ">", "b", "cd", "\u200d", "²", "Ⓐ", "\u3000"]


def token(rng, content, base):
    # A token of the model's own that is special is never made of ordinary text by Weft, on purpose.
    special = rng.random() < 0.4 and base.token_to_id(content) is None
    flag = lambda p: rng.random() < p
    return {"content": content, "single_word": flag(0.3), "lstrip": flag(0.25), "rstrip": flag(0.25), "normalized": flag(0.5), "special": special}


def unigram():
    pieces = [("<unk>", 0.0)] + [(p, -float(i) / 3 - 2) for i, p in enumerate(["▁", "▁the", "▁on", "ce", "on", "he", "t", "e", "a", "b", "c", "d", "x", "▁a", "o", "n", "▁t", "s", "tests", "10", "0", "1", "9", "C", "O", "V", "I", "D", "-", "<tool>", "é", "ab"])]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    return tokenizer


def case(rng, base):
    """A tokenizer with a few more tokens, and what it makes of texts that hold them."""
    tokenizer = Tokenizer.from_str(base)
    chosen = [token(rng, content, tokenizer) for content in rng.sample(CONTENTS, rng.randint(1, 8))]
    # The normalizer may write two alike: tokenizers then takes one by chance.
    written = lambda item: tokenizer.normalizer.normalize_str(item["content"]) if tokenizer.normalizer else item["content"]
    chosen = list({written(item): item for item in chosen}.values())
    for item in chosen:
        made = AddedToken(item["content"], **{k: item[k] for k in ("single_word", "lstrip", "rstrip", "normalized")})
        (tokenizer.add_special_tokens if item["special"] else tokenizer.add_tokens)([made])
    added = json.loads(tokenizer.to_str())["added_tokens"]
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    lines = []
    for _ in range(10):
        text = "".join(rng.choice(PARTS if rng.random() < 0.6 else [t["content"] for t in chosen]) for _ in range(rng.randint(1, 9)))
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        lines.append({"text": text, "ids": ids, "plain": tokenizer.encode(text, add_special_tokens=False).ids})
    return {"added": added, "lines": lines}


def write(path, bases, sets):
    rng = random.Random(1)
    out = []
    for name, text in bases:
        out.append({"base": name, **({"tokenizer": json.loads(text)} if name == "unigram" else {}), "cases": [case(rng, text) for _ in range(sets)]})
    lines = ",\n".join(f'{{"base": {json.dumps(o["base"])}, "tokenizer": {json.dumps(o.get("tokenizer"))}, "cases": [\n' + ",\n".join(json.dumps(c) for c in o["cases"]) + "\n]}" for o in out)
    pathlib.Path(path).write_text(f"[\n{lines}\n]\n")


def main():
    if len(sys.argv) > 1:
        return write(sys.argv[1], [(p, pathlib.Path(p).read_text()) for p in sys.argv[3:]] + [("unigram", unigram().to_str())], int(sys.argv[2]))
    names = ["bytelevel-gpt2", "bytelevel-qwen2", "bytelevel-prefix", "sentencepiece", "metaspace", "wordpiece-uncased", "wordpiece-cased"]
    bases = [(n, json.dumps(json.loads((GOLDEN / f"tokenizer-{n}.json").read_text())["tokenizer"])) for n in names]
    write(GOLDEN / "added_tokens.json", bases + [("unigram", unigram().to_str())], 6)


main()
