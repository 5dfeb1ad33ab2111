#!/usr/bin/env python3
"""Measures heads along texts with real models: heads.py WEFT OUT_FOLDER -m MODEL ... -t NAME=FILE ... [--tokens N]

Runs `weft head-report` for each model and text, greedy and with top-k 40, and writes OUT_FOLDER/MODEL-NAME-SAMPLING.json with
the report, the text's SHA-256 and the date, and for greedy two pictures. A report that is there already is kept, so a run that
was stopped goes on. Prints the table of all.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import subprocess

SAMPLINGS = {
    "greedy": [],
    "top-k": "--temperature 1 --top-k 40 --top-p 1 --min-p 0 --seed 7".split(),
}


def measure(weft: str, folder: pathlib.Path, model: str, name: str, text: str, sampling: str, tokens: int) -> dict:
    stem = folder / f"{model}-{name}-{sampling}"
    path = stem.with_suffix(".json")
    if path.exists():
        return json.loads(path.read_text())
    command = [weft, "head-report", "-m", model, "-f", text, "--ctx", "512", "--max-tokens", str(tokens), "--json"]
    if sampling == "greedy":
        command += ["--plot", f"{stem}.png", "--plot-errors", f"{stem}-errors.png"]
    done = subprocess.run([*command, *SAMPLINGS[sampling]], check=True, stdout=subprocess.PIPE)
    report = {
        "date": datetime.date.today().isoformat(),
        "model": model,
        "text": name,
        "text_sha256": hashlib.sha256(pathlib.Path(text).read_bytes()).hexdigest(),
        **json.loads(done.stdout),
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("-m", "--models", nargs="+", required=True)
    parser.add_argument("-t", "--texts", nargs="+", required=True, metavar="NAME=FILE")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--samplings", nargs="+", choices=SAMPLINGS, default=list(SAMPLINGS))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print("| model | text | sampling | places | head | of full | same | rows | allowed | largest | rms | beyond 3, 4, 5 |")
    print("|---" * 12 + "|")
    for sampling in args.samplings:
        for model in args.models:
            for name, text in (one.split("=", 1) for one in args.texts):
                report = measure(args.weft, args.folder, model, name, text, sampling, args.tokens)
                for head in report["heads"][1:]:
                    errors = head["errors"]
                    beyond = ", ".join(f"{errors['beyond'][d]:.1e}" for d in "345")
                    print(
                        f"| {model} | {name} | {sampling} | {report['tokens']} | {head['head']} "
                        f"| {head['share_of_full']:.1%} | {head['agreement']:.2%} | {head['rows']['mean']:.0f} "
                        f"| {errors['allowed']:.2f} | {errors['largest']:.2f} | {errors['rms']:.2f} | {beyond} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
