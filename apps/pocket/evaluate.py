"""Asks a model the 200 prompts of eval/prompts.jsonl through Weft, greedily, and judges the answers by eval/RULES.md."""

import argparse
import json
from collections import Counter
from pathlib import Path

import weft
from judge import right

HERE = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", help="a GGUF file or Hugging Face folder; the installed model if not given")
    parser.add_argument("--type", default="file", choices=("file", "f16", "q8", "q4"))
    parser.add_argument("--prompts", type=Path, default=HERE / "eval/prompts.jsonl")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be right, else the exit status is 1")
    args = parser.parse_args()
    session = weft.Model(args.model, type=args.type).session(temperature=0, max_tokens=160)
    asked, good = Counter(), Counter()
    for line in args.prompts.read_text(encoding="utf-8").splitlines():
        prompt = json.loads(line)
        answer = session.chat(prompt["messages"]).text()
        asked[prompt["topic"]] += 1
        if right(prompt["rule"], prompt["expect"], answer):
            good[prompt["topic"]] += 1
        else:
            said = " / ".join(message["content"] for message in prompt["messages"] if message["role"] == "user")
            print(f"WRONG {prompt['topic']}: {said!r} -> {answer!r}, expected {prompt['expect']}")
    for topic, count in asked.items():
        print(f"{topic:16} {good[topic]:3} of {count}")
    share = good.total() / asked.total()
    print(f"{'all':16} {good.total():3} of {asked.total()}: {share:.1%}")
    raise SystemExit(0 if share >= args.least else 1)


if __name__ == "__main__":
    main()
