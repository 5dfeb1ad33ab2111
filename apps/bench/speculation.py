#!/usr/bin/env python3
"""Measures the gain of speculation: four prompts with and without `--speculate lookup`, alternately, greedy.

speculation.py WEFT OUT_FOLDER [-m MODEL] [-n TOKENS] [--repeat N] [--head HEAD]

OUT_FOLDER gets speculation.json, speculation.md and speculation.png: passes by tokens. Ends with 1 if a text is not the same.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

STORY = """The old lighthouse stood on a narrow spit of rock at the end of the bay. Every evening at six the keeper climbed its \
one hundred and twelve steps, trimmed the wick, and lit the lamp. Ships that came from the north saw it first as a faint star \
above the water, and then, as they drew nearer, as a slow and steady pulse. In winter the spray froze on the windows and had to \
be chipped away with a knife. The keeper had lived there for thirty-one years, and he knew every captain by the sound of his horn."""
CODE = """class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise IndexError("pop from an empty stack")
        return self.items.pop()

    def peek(self):
        if not self.items:
            raise IndexError("peek at an empty stack")
        return self.items[-1]

    def __len__(self):
        return len(self.items)


class Queue:
    def __init__(self):
        self.items = []

    def push(self, item):
"""
PAGE = """Opening hours. The museum is open from Tuesday to Sunday, 10 am to 6 pm. On Thursdays it closes at 9 pm. It is closed on \
Mondays, on 1 January and on 25 December. Admission is 12 euros for adults, 6 euros for students and free for children under the \
age of 12. Guided tours in English start at 11 am and at 3 pm and take about ninety minutes. The cafe on the second floor closes \
half an hour before the museum."""
# Message to a chat model, by kind of prompt; None: the prompt is a text to continue, without a message.
PROMPTS = {
    "rewrite a text": f'Repeat this text word for word, but write "tower" for "lighthouse":\n\n{STORY}',
    "continue code": None,
    "answer from a page": f"Answer from this page. When is the museum open, when is it closed, and what does admission cost? Quote the page.\n\n{PAGE}",
    "free prose": "Write a long story about a girl who finds a map in her grandmother's attic.",
}
TURNS = {"chatml": "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
         "gemma": "<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("-m", dest="model", default="smollm2")
    parser.add_argument("-n", dest="tokens", type=int, default=160)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--head", default="full")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    turn = TURNS["gemma" if "gemma" in args.model else "chatml"]

    def generate(prompt, speculate, tokens):
        command = [args.weft, "generate", "-m", args.model, "-p", prompt, "-n", str(tokens), "--temperature", "0", "--head", args.head,
                   "--speculate", speculate, "--json"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    rows, series, same = [], [], True
    for name, question in PROMPTS.items():
        prompt = turn.format(question) if question else CODE
        ratios, rates = [], {"off": [], "lookup": []}
        for _ in range(args.repeat):
            runs = {kind: generate(prompt, kind, args.tokens) for kind in rates}
            for kind, run in runs.items():
                rates[kind].append(run["decode_tokens_per_s"])
            ratios.append(rates["lookup"][-1] / rates["off"][-1])
            same = same and runs["off"]["ids"] == runs["lookup"]["ids"]
        guesses = runs["lookup"]["speculation"]
        rows.append({"prompt": name, "tokens": len(runs["off"]["ids"]), "ratio": statistics.median(ratios), **guesses,
                     **{f"{kind}_tokens_per_s": statistics.median(values) for kind, values in rates.items()}})
        points = [[0, 0]]
        for tokens in range(args.tokens // 4, args.tokens + 1, args.tokens // 4):
            run = generate(prompt, "lookup", tokens)
            points.append([len(run["ids"]), len(run["ids"]) - run["speculation"]["accepted"]])
        series.append({"label": name, "points": points, "line": [0, points[-1][1] / points[-1][0]]})
        print(rows[-1], file=sys.stderr)

    (args.out / "speculation.json").write_text(json.dumps({"model": args.model, "head": args.head, "device": runs["off"]["device"], "rows": rows},
                                                          indent=1) + "\n")
    table = ["| prompt | guesses right | tokens a pass | tokens/s without | with | ratio |", "|---|---|---|---|---|---|"]
    for row in rows:
        table.append(f"| {row['prompt']} | {row['accepted']} of {row['drafted']} | {row['tokens_per_pass']:.2f} | "
                     f"{row['off_tokens_per_s']:.1f} | {row['lookup_tokens_per_s']:.1f} | {row['ratio']:.2f} |")
    (args.out / "speculation.md").write_text("\n".join(table) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "plot.json"
        data.write_text(json.dumps({"title": f"Passes, {args.model}, --speculate lookup", "x": "tokens", "y": "passes", "series": series}))
        subprocess.run([args.weft, "plot", "-f", data, "-o", args.out / "speculation.png"], check=True)
    sys.exit(0 if same else "the texts are not the same")


if __name__ == "__main__":
    main()
