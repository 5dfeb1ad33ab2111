"""Measures how much faster pocket answers held-out prompts with its Medusa heads: the prompts of eval/ with and without them, alternately, greedy.

`guesses.py [MODEL HEADS]` ends with 1 if an answer is not the same.
"""

import argparse
import json
import statistics
from pathlib import Path

import weft

HERE = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=HERE / "pocket.gguf")
    parser.add_argument("heads", nargs="?", default=HERE / "pocket-medusa.gguf")
    parser.add_argument("--prompts", type=Path, default=HERE / "eval/prompts.jsonl")
    parser.add_argument("--every", type=int, default=1, help="ask every N-th prompt only")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    asked = [json.loads(line)["messages"] for line in args.prompts.read_text(encoding="utf-8").splitlines()[:: args.every]]
    model = weft.Model(args.model)
    sessions = {"without": model.session(temperature=0, max_tokens=160), "with": model.session(temperature=0, max_tokens=160, medusa=args.heads)}
    ratios, speeds, same = [], {name: [] for name in sessions}, True
    for session in sessions.values():  # pipelines are compiled, and passes timed
        for messages in asked[:5]:
            session.chat(messages).text()
    for _ in range(args.repeat):
        seconds, tokens = dict.fromkeys(sessions, 0.0), dict.fromkeys(sessions, 0)
        for messages in asked:
            answers = {}
            for name, session in sessions.items():
                session.reset()
                answers[name] = session.chat(messages).text()
                seconds[name] += session.stats.decode_seconds
                tokens[name] += session.stats.decoded_tokens
            same = same and answers["with"] == answers["without"]
        for name in sessions:
            speeds[name].append(tokens[name] / seconds[name])
        ratios.append(speeds["with"][-1] / speeds["without"][-1])
        print(f"{tokens['with']} tokens: {speeds['without'][-1]:.1f} tokens/s, with heads {speeds['with'][-1]:.1f}, ratio {ratios[-1]:.3f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.3f}; the answers are {'the same' if same else 'NOT the same'}")
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
