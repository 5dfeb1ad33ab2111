#!/usr/bin/env python3
"""Weft's speed beside that of Debian sid's llama.cpp (Vulkan backend), on the same Mesa, model and machine: prompts and decoding.

peer.py BIN_DIR [--models smollm2 gemma3-270m] [--prompt 64] [--tokens 32] [--head full] [--rounds 5]

The two programs take turns; after a first round, which compiles, figures are the medians of the rounds, and ratios those of the pairs. Prints a
table. Exit code 77: the packages are not available.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import llama
from root import Unavailable


def run(command, environment, folder=None):
    done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"peer: {' '.join(command)} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def ours(peer, arguments, model):
    """(prompt, decode) in tokens/s."""
    weft = [arguments.bin / "weft", "bench", "-m", llama.model_file(model), "-p", arguments.prompt, "-n", arguments.tokens, "--repeat", 1,
            "--head", arguments.head, "--json"]
    report = run(peer.command(*weft), peer.environment)
    return report["prompt_tokens_per_s"], report["decode_tokens_per_s"]


def theirs(peer, arguments, model):
    bench = [peer.bin / "llama-bench", "-m", llama.model_file(model), "-p", arguments.prompt, "-n", arguments.tokens, "-r", 1, "-ngl", 99,
             "-dev", "Vulkan0", "-o", "json"]
    tests = run(peer.command(*bench), peer.environment, peer.backends)
    for test in tests:
        assert "Vulkan" in test["backends"], test["backends"]
    return tuple(next(test["avg_ts"] for test in tests if test[kind] > 0) for kind in ("n_prompt", "n_gen"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path, help="the folder of the programs")
    parser.add_argument("--models", nargs="+", default=["smollm2", "gemma3-270m"], help="names of ./run model, or GGUF files")
    parser.add_argument("--prompt", type=int, default=64, help="tokens")
    parser.add_argument("--tokens", type=int, default=32, help="decoded")
    parser.add_argument("--head", default="full", help="Weft's rows of the vocabulary table, which llama.cpp always reads whole")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    try:
        peer = llama.make()
    except Unavailable as problem:
        print(f"NOTICE: llama.cpp is not available: {problem}")
        return 77
    print(f"{datetime.date.today()}, {os.cpu_count()} CPUs, {arguments.rounds} rounds, {', '.join(peer.packages)}\n")
    print("| model | | weft tokens/s | llama.cpp tokens/s | ratio | least, most |")
    print("|---|---|---|---|---|---|")
    for model in arguments.models:
        pairs = [(ours(peer, arguments, model), theirs(peer, arguments, model)) for _ in range(arguments.rounds + 1)][1:]
        for index, what in enumerate((f"prompt of {arguments.prompt}", f"decoding {arguments.tokens}")):
            ratios = [weft[index] / other[index] for weft, other in pairs]
            print(f"| {pathlib.Path(model).stem} | {what} | {statistics.median(weft[index] for weft, _ in pairs):.1f} "
                  f"| {statistics.median(other[index] for _, other in pairs):.1f} "
                  f"| {statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
