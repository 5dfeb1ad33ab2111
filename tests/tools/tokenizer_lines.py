#!/usr/bin/env python3
"""Writes tests/unit/golden/tokenizer/mixed*: 2,000 lines of mixed scripts, emoji, combining marks, white space and invalid
UTF-8, and what Hugging Face's tokenizers make of them: small ones trained here, one for each pre-tokeniser of a family of
models, and the real vocabularies in ../shared (SHARED names the folder).

Only needed to change the goldens: python3 -m venv V && V/bin/pip install tokenizers sentencepiece
SHARED=... V/bin/python tests/tools/tokenizer_lines.py
"""
import base64
import io
import json
import os
import pathlib
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).resolve().parent.parent / "unit" / "golden" / "tokenizer"
SEED, COUNT = 20261121, 2000
END = b"\x1e"  # after every line

WORDS = """the weft crossed every warp Thread by thread don't I'LL we've it's THEY'RE o'clock x'ſ naïve café Straße Größe
Ångström œuvre İstanbul ǅungla Быстрая лиса прыгает ἄνθρωπος ὦ Ωmega Αθήνα հայերեն ქართული שלום עולם مرحبا بالعالم ۱۲۳ नमस्ते
क्षत्रिय বাংলা தமிழ் ไทยแลนด์ ខ្មែរ မြန်မာ 你好世界 快速的棕色狐狸 漢字 ひらがな カタカナ ｶﾀｶﾅ 한국어 조선말 ᄒᆞᆫ ꦗꦮ 𐐀𐐨 𝔘𝔫𝔦 ﬁnal ﬀ ŉ Ⅷ x² ½
print(f"{a[i]:>3}") for(int i=0;i<10;++i){} a->b::c #include <x.h> http://a.b/c?d=e&f=%20 user@example.com C++20 $9.99 €5 #tag
snake_case camelCase HTMLParser v1.2.3-rc4 __init__ 0xFF 1e-9 1,234,567.89 2024-05-17T12:34:56Z ١٢٣ ४५६ ①②③ ㊀""".split()
EMOJI = "😀 😁😂 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ 🧙‍♂️ ❤️ ☃ 🫠 ™️".split()
MARKS = ["\u0301", "\u0308", "\u0327\u0301", "\u0345", "\u05b0", "\u064b", "\u093c", "\u0e38", "\u20dd", "\u3099", "\ufe0f"]
BASES = list("aeinouAEOyzæαωкйאبनกかは한") + ["q\u0323", "\u1100\u1161", "ﬁ"]
SPACES = [" ", " ", " ", "  ", "   ", " " * 9, "\t", "\t\t", " \t ", "\n", "\r\n", "\n\n\n", " \n ", "\r", "\x0b", "\x0c", "\x85",
          "\u00a0", "\u1680", "\u180e", "\u2003", "\u2028", "\u202f", "\u3000", "\u200b", "\ufeff", "\x1c", "\x1f", "\x00", "\u00ad"]
PUNCTUATION = list("!?.,;:-_'\"()[]{}<>/\\|@#$%^&*+=~`") + ["...", "—", "…", "“", "”", "‘", "’", "«", "。", "、", "！", "؟", "،", "।", "---", "```", "|>", "^_^", "¿", "§", "°", "±"]
DIGITS = ["7", "42", "365", "1234", "98765", "000000", "3.14", "٣٤٥", "४५", "½", "Ⅻ", "²³", "𝟙𝟚"]
INVALID = [b"\xff", b"\xfe\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xbf\xbf\xbf"]


def make_lines():
    chance = random.Random(SEED)
    lines = []
    while len(lines) < COUNT:
        parts = []
        broken = chance.random() < 0.15
        for _ in range(chance.choice([1, 2, 3, 4, 6, 8, 11])):
            kind = chance.random()
            if kind < 0.45:
                part = chance.choice(WORDS)
                if chance.random() < 0.1:
                    part = chance.choice([part.upper(), part.title(), part[::-1]])
            elif kind < 0.55:
                part = chance.choice(EMOJI)
            elif kind < 0.65:
                part = "".join(chance.choice(BASES) + (chance.choice(MARKS) if chance.random() < 0.6 else "") for _ in range(chance.randint(1, 4)))
            elif kind < 0.75:
                part = chance.choice(DIGITS)
            elif kind < 0.9:
                part = chance.choice(PUNCTUATION) * chance.choice([1, 1, 1, 2])
            else:
                part = chance.choice(SPACES)
            parts.append(part.encode())
            if broken and chance.random() < 0.3:
                parts.append(chance.choice(INVALID))
            if chance.random() < 0.55:
                parts.append(chance.choice(SPACES).encode())
        line = b"".join(parts)
        if END not in line:
            lines.append(line)
    return lines


def text_of(line):
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


# ---- What is invalid ----
#
# Hugging Face takes valid text only. Weft's rule for the rest: bytes that are no UTF-8 match no pattern and are kept, so
# they part the text into runs that are encoded by themselves; a run of such bytes is a piece of its own.


def runs(line):
    """The text's runs as (bytes, whether they are valid)."""
    text = line.decode("utf-8", errors="surrogateescape")
    out = []
    for char in text:
        valid = not 0xDC80 <= ord(char) <= 0xDCFF
        piece = char.encode("utf-8", errors="surrogateescape")
        if out and out[-1][1] == valid:
            out[-1] = (out[-1][0] + piece, valid)
        else:
            out.append((piece, valid))
    return out


def byte_alphabet():
    printable = [b for b in range(256) if 32 < b < 127 or 160 < b < 256 and b != 173]
    rest = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(rest)) for b in range(256)]


ALPHABET = byte_alphabet()


def byte_level_ids(tokenizer, line):
    ids = []
    for run, valid in runs(line):
        if valid:
            ids += tokenizer.encode(run.decode(), add_special_tokens=False).ids
        else:
            ids += [t.id for t in tokenizer.model.tokenize("".join(ALPHABET[b] for b in run))]
    return ids


def sentencepiece_ids(tokenizer, line):
    ids = []
    for run, valid in runs(b" " + line if line else line):
        if valid:
            ids += [t.id for t in tokenizer.model.tokenize(run.decode().replace(" ", "▁"))]
        else:
            ids += [tokenizer.token_to_id(f"<0x{b:02X}>") for b in run]
    return ids


def hashes(tokenizer, lines, invalid):
    """A hash for each line, FNV-1a over its ids folded to 16 bits; "----" where there is no reference."""
    out = []
    for line in lines:
        text = text_of(line)
        if text is None and invalid is None:
            out.append("----")
            continue
        ids = invalid(tokenizer, line) if text is None else tokenizer.encode(text, add_special_tokens=False).ids
        value = 0x811C9DC5
        for byte in b"".join(i.to_bytes(4, "little") for i in ids):
            value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
        out.append(f"{(value ^ value >> 16) & 0xFFFF:04x}")
    return " ".join(out)


# ---- The pre-tokenisers of the families, as their tokenizer.json has them ----

GPT2_SPLIT = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
FRONT, REST = r"[^\r\n\p{L}\p{N}]?", r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = f"{FRONT}{UPPER}*{LOWER}+|{FRONT}{UPPER}+{LOWER}*|\\p{{N}}{REST}"
GPT4O = f"{FRONT}{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|{FRONT}{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{{N}}{{1,3}}{REST}"
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
CJK = "[一-龥ࠀ-一가-퟿]+"
DEEPSEEK_V3 = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"

SEED_CODER = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"


def pre_tokenizer_table():
    """Name in GGUF: the steps, whether NFC goes before them, and whether they leave nothing between their matches."""
    split = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated", False)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {
        "gpt-2": ([gpt2], False, True),
        "mpt": ([gpt2], True, True),
        "llama-bpe": ([split(LLAMA3), plain], False, True),
        "qwen2": ([split(QWEN2), plain], True, True),
        "qwen35": ([split(QWEN35), plain], True, True),
        "smollm": ([digits, gpt2], False, True),
        "tekken": ([split(TEKKEN), plain], False, True),
        "gpt-4o": ([split(GPT4O), plain], False, True),
        "bloom": ([split(BLOOM), plain], False, False),
        "deepseek-coder": ([split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"), split(CJK), digits, plain], False, False),
        "deepseek-v3": ([split("\\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK_V3), plain], False, True),
        "seed-coder": ([split(SEED_CODER), plain], False, True),
    }


# ---- Small tokenizers ----


def trained_byte_level(texts):
    """Merges across words, so that every cut that is made elsewhere shows."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1600, initial_alphabet=ALPHABET, max_token_length=24, show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


def trained_sentencepiece(texts):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1400, special_tokens=specials, show_progress=False))
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:3]  # bytes are part of the vocabulary
    state["pre_tokenizer"] = None
    state["normalizer"] = json.loads(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]).__getstate__())
    return state


# Rules of a SentencePiece normaliser, a part of what T5's NFKC has: full-width forms, ligatures, a few compositions (two
# of them of more than one character), white space, and what is dropped.
def charsmap():
    rules = {chr(c): chr(c - 0xFEE0) for c in range(0xFF01, 0xFF5F)}
    rules |= {c: " " for c in "\t\n\r\x0b\x0c\x85\u00a0\u1680\u2003\u2028\u202f\u3000"}
    rules |= {c: "" for c in "\u200b\ufeff\u00ad"}
    rules |= {"ﬁ": "fi", "ﬀ": "ff", "½": "1⁄2", "²": "2", "³": "3", "™": "TM", "…": "...", "Ⅷ": "VIII", "e\u0301": "é", "a\u0308": "ä", "o\u0308": "ö", "か\u3099": "が", "は\u3099": "ば", "ｶ": "カ"}
    lines = ["\t".join(" ".join(f"{ord(c):X}" for c in side) for side in rule) for rule in rules.items()]
    path = pathlib.Path("/tmp/weft_rules.tsv")
    path.write_text("\n".join(lines) + "\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f g h"] * 50), model_writer=model, vocab_size=20, model_type="unigram",
        normalization_rule_tsv=str(path), hard_vocab_limit=False, minloglevel=2)
    # ModelProto.normalizer_spec (3), NormalizerSpec.precompiled_charsmap (2): walk the protobuf's wire format.
    def fields(data):
        at = 0
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                varint()
            elif key & 7 == 5:
                at += 4
            else:
                size = varint()
                yield key >> 3, data[at:at + size]
                at += size
    spec = next(data for field, data in fields(model.getvalue()) if field == 3)
    return next(data for field, data in fields(spec) if field == 2)


def trained_unigram(texts, byte_fallback):
    """As T5's, and as newer ones with bytes for what is unknown."""
    steps = [normalizers.Precompiled(charsmap()), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    specials = ["<pad>", "</s>", "<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if byte_fallback else [])
    trainer = trainers.UnigramTrainer(vocab_size=900 + (256 if byte_fallback else 0), special_tokens=specials, unk_token="<unk>", show_progress=False, max_piece_length=8)
    tokenizer.train_from_iterator(texts, trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:3]
    state["model"]["byte_fallback"] = byte_fallback
    for piece in state["model"]["vocab"]:
        piece[1] = round(piece[1], 6)
    return state


# ---- Real vocabularies ----


def real_tokenizers(shared):
    def byte_level(folder, split, nfc):
        tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
        tokenizer.pre_tokenizer = split
        if nfc:
            tokenizer.normalizer = normalizers.NFC()
        return tokenizer

    table = pre_tokenizer_table()
    sequence = lambda name: pre_tokenizers.Sequence(table[name][0])
    yield "gpt2", byte_level(shared / "gpt2", sequence("gpt-2"), False), byte_level_ids
    yield "qwen2.5", byte_level(shared / "qwen2.5", sequence("qwen2"), True), byte_level_ids
    state = json.loads((shared / "llama2" / "tokenizer.json").read_text())
    # Pairs, because tokens may hold spaces: the first space that parts two tokens is meant.
    vocab = state["model"]["vocab"]
    cuts = lambda merge: (i for i, c in enumerate(merge) if c == " " and merge[:i] in vocab and merge[i + 1:] in vocab)
    state["model"]["merges"] = [[m[:i], m[i + 1:]] for m in state["model"]["merges"] for i in [next(cuts(m))]]
    yield "llama2", Tokenizer.from_str(json.dumps(state)), sentencepiece_ids
    yield "llama3", llama3(shared / "llama3" / "tokenizer.model", sequence("llama-bpe")), byte_level_ids


def llama3(path, split):
    """tiktoken's ranks as merges: what a token is made of is what is left when only lower ranks merge."""
    ranks = {}
    for line in path.read_text().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    spelled = lambda token: "".join(ALPHABET[b] for b in token)
    merges = []
    for token, rank in ranks.items():
        parts = [token[i:i + 1] for i in range(len(token))]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], rank))
            if ranks.get(parts[best] + parts[best + 1], rank) >= rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append((spelled(parts[0]), spelled(parts[1])))
    tokenizer = Tokenizer(models.BPE({spelled(t): r for t, r in ranks.items()}, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = split
    return tokenizer


def main():
    lines = make_lines()
    (OUT / "mixed-lines.bin").write_bytes(b"".join(line + END for line in lines))
    texts = [t for t in map(text_of, lines) if t is not None]
    golden = {"byte_level": trained_byte_level(texts), "pre_tokenizers": {}}
    for name, (steps, nfc, complete) in pre_tokenizer_table().items():
        state = {"version": "1.0", "model": golden["byte_level"], "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None}
        tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        if nfc:
            tokenizer.normalizer = normalizers.NFC()
        parts = json.loads(tokenizer.to_str())
        golden["pre_tokenizers"][name] = {k: parts[k] for k in ("normalizer", "pre_tokenizer")} | {"hashes": hashes(tokenizer, lines, byte_level_ids if complete else None)}
    golden["tokenizers"] = {}
    for name, state, invalid in [
        ("sentencepiece", trained_sentencepiece(texts), sentencepiece_ids),
        ("unigram", trained_unigram(texts, False), None),
        ("unigram-bytes", trained_unigram(texts, True), None),
    ]:
        golden["tokenizers"][name] = {"tokenizer": state, "hashes": hashes(Tokenizer.from_str(json.dumps(state)), lines, invalid)}
    golden["real"] = {name: hashes(t, lines, invalid) for name, t, invalid in real_tokenizers(pathlib.Path(os.environ["SHARED"]) / "tokenizers")}
    (OUT / "mixed.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
