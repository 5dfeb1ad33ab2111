"""Sentence templates: `(a|b|)` picks one of the alternatives, `<name>` a line of the part called `@name`, `{slot}` is filled in.

A template file has sections:
    [name]      what follows belongs to it
    Q: ...      a way to ask, for training
    H: ...      a way to ask that is held out: no training dialogue has it
    A: ...      an answer
    K: ...      for the evaluation: the answer holds one of these, divided by |
"""

import re
from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"


def load():
    """All sections of all files, {name: {"Q": [...], "H": [...], "A": [...], "K": [...]}}."""
    sections = {}
    for path in sorted(TEMPLATES.glob("*.txt")):
        section = None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith("["):
                name = line.strip()[1:-1]
                if name in sections:
                    raise ValueError(f"{path}:{number}: the section {name} is there twice")
                section = sections[name] = {"Q": [], "H": [], "A": [], "K": []}
            elif section is not None and re.match("[QHAK]: ", line):
                section[line[0]].append(line[3:].rstrip())
            else:
                raise ValueError(f"{path}:{number}: neither a section nor one of Q: H: A: K:")
    return sections


class Grammar:
    def __init__(self):
        self.sections = load()

    def pick(self, rng, section, kind):
        """One template of the section, written out but for its slots."""
        return self.write_out(rng, rng.choice(self.sections[section][kind]))

    def write_out(self, rng, text):
        while match := re.search(r"<(\w+)>", text):
            part = rng.choice(self.sections["@" + match[1]]["Q"])
            text = text[: match.start()] + part + text[match.end() :]
        while match := re.search(r"\(([^()]*\|[^()]*)\)", text):  # the innermost first
            text = text[: match.start()] + rng.choice(match[1].split("|")) + text[match.end() :]
        return re.sub(r" ([.,?!])", r"\1", re.sub(r" +", " ", text)).strip()


def fill(template, slots):
    return re.sub(r"\{(\w+)\}", lambda match: str(slots[match[1]]), template)


def normal(text):
    """The key by which two ways to ask are the same: the words, without case and punctuation. Slots stay as they are."""
    return " ".join(re.findall(r"[a-z0-9{}_+*/=-]+", text.lower().replace("'", "")))
