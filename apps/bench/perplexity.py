#!/usr/bin/env python3
"""Perplexity of a model in every type that Debian sid's llama-quantize writes: Weft's beside llama.cpp's, of the same files and the same tokens.

perplexity.py BIN_DIR MODEL TEXT [--chunks 4] [--types Q4_K_M ...]

BIN_DIR: with weft. MODEL is written as F16 first, then as each type, with an importance matrix that `weft imatrix` measures where llama-quantize asks
for one. As llama-perplexity has it, each 512 tokens are read alone and the last 255 of them count; it runs on the CPU, with OpenBLAS, because
ggml's own products round their inputs to 8 bits. Weft measures twice: with the vocabulary table in its basis, where its numbers are rounded once more, and with
`--vocab-type native`. Prints a table. Exits with 1 if a file does not load or a ratio is off by more than 0.5%, with 77 if the packages
cannot be had. A type that llama-quantize refuses to write of this model is a row that says so. Needs numpy, and Weft's Python package or PYTHONPATH=runtime/bindings/python and WEFT_LIBRARY.
"""
import argparse
import math
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compilers"))
import root as roots
import weft

CONTEXT, COUNTED, LIMIT = 512, 255, 0.005
TYPES = ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4_MOE", "Q3_K_L", "Q3_K_M",
         "Q3_K_S", "IQ3_M", "IQ3_S", "IQ3_XS", "IQ3_XXS", "Q2_K", "Q2_K_S", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "TQ2_0", "TQ1_0", "Q2_0", "Q1_0")


class Failed(SystemExit):
    pass


def run(command, folder=None):
    done = subprocess.run([str(word) for word in command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise Failed(f"perplexity: {command[0]} failed: {done.stdout[-1500:]}")
    return done.stdout


def llama(root, program, *arguments):
    command = root.command(root.folder / "usr/bin" / program, libraries=[root.libraries / "openblas-pthread"])
    return run([*command, *arguments], root.libraries / "ggml/backends0")


def theirs(root, model, text, chunks):
    """nats a token"""
    said = llama(root, "llama-perplexity", "-m", model, "-f", text, "-c", CONTEXT, "-b", CONTEXT, "--chunks", chunks, "--no-repack")
    return math.log(float(re.search(r"Final estimate: PPL = ([\d.]+)", said)[1]))


def ours(path, text, chunks, vocab_type):
    model = weft.Model(path, vocab_type=vocab_type)
    begin, ids = model.tokenize(""), model.tokenize(text)
    total = 0.0
    with model.session(context=CONTEXT) as session:
        for i in range(chunks):
            chunk = list(ids[i * CONTEXT:(i + 1) * CONTEXT])
            chunk[:len(begin)] = begin
            total += float(session.score(chunk)[-COUNTED:].sum())
    return total / (chunks * COUNTED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path, help="the folder of the programs")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--chunks", type=int, default=4, help=f"of {CONTEXT} tokens")
    parser.add_argument("--types", nargs="+", default=TYPES)
    args = parser.parse_args()
    try:
        root = roots.make(roots.cache(), "amd64", roots.FLOATS)
    except roots.Unavailable as why:
        print(f"NOTICE: llama.cpp is not available: {why}")
        return 77
    text, program, wrong = args.text.resolve(), args.bin.resolve() / "weft", 0
    print("| | llama.cpp, nats a token | Weft | Weft, table native | perplexity, Weft / llama.cpp | table native |\n|" + "---|" * 6, flush=True)
    with tempfile.TemporaryDirectory() as work:
        whole, file, weights = (pathlib.Path(work) / name for name in ("f16.gguf", "quantised.gguf", "imatrix.gguf"))
        run([program, "convert", args.model, whole, "--type", "f16"])
        end = pathlib.Path(work) / "text"
        end.write_text(text.read_text(encoding="utf-8")[-8000:], encoding="utf-8")
        for kind in args.types:
            extra = ["--imatrix", weights] if kind.startswith(("IQ", "Q2_K_S")) else []
            if extra and not weights.exists():
                run([program, "imatrix", "-m", whole, end, "-o", weights])
            try:
                llama(root, "llama-quantize", *extra, whole, file, kind)
            except Failed as why:
                print(f"| {kind} | llama-quantize: {str(why).splitlines()[-2]} | | | | |", flush=True)
                continue
            other = theirs(root, file, text, args.chunks)
            mine = [ours(file, args.text.read_text(encoding="utf-8"), args.chunks, table) for table in ("file", "native")]
            ratios = [math.exp(nats - other) for nats in mine]
            wrong += any(abs(ratio - 1) > LIMIT for ratio in ratios)
            print(f"| {kind} | {other:.4f} | {mine[0]:.4f} | {mine[1]:.4f} | {ratios[0]:.4f} | {ratios[1]:.4f} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
