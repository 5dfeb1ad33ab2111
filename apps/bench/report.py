#!/usr/bin/env python3
"""Tests, measures and writes the results: `./run bench-report` builds Weft and starts this.

report.py BIN_DIR BUILD_DIR [--quick] [--no-tests] [--out FOLDER]
report.py BIN_DIR BUILD_DIR --kit weft-kit.json [--out FOLDER]    tables of what a kit measured on another machine (`./run kit`)

Writes FOLDER/YYYY-MM-DD-DEVICE.json and .md, and plots with that beginning, of: the tests, weft-microbench over the shapes of
models, `weft bench --profile` of random-weight models, and growth.py. On a CPU's driver the large shapes are left out, which
would take hours and say nothing of a GPU; --quick leaves out more, to see that it works. Standard library only.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = ("smollm-135m", "gemma3-270m", "qwen3-0.6b", "llama3.2-1b", "llama3-8b")


def say(text):
    print(f"bench-report: {text}", file=sys.stderr, flush=True)


def output_of(*argv, check=True):
    done = subprocess.run([*map(str, argv)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if check and done.returncode != 0:
        raise SystemExit(f"bench-report: {' '.join(map(str, argv))} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


def run_tests(build):
    say("tests")
    text = output_of("ctest", "--test-dir", build, "--output-on-failure", "-LE", "soak", check=False)
    closing = re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", text)
    failed = re.findall(r"^\s*\d+ - (\S+) \((?!Skipped|Not Run)", text, re.M)
    return {"result": closing.group(0) if closing else "ctest did not end", "failed": failed}


def microbench(bin_dir, shape, pattern, least):
    say(f"weft-microbench {shape}")
    text = output_of(bin_dir / "weft-microbench", f"--weft_model={shape}", f"--benchmark_filter={pattern}",
                     f"--benchmark_min_time={least}", "--benchmark_format=json")
    result = json.loads(text[text.index("{"):])
    keep = ("ms", "GB/s", "of_read", "GFLOP/s", "error_message")
    runs = [{"name": run["name"].removesuffix("/manual_time"), **{key: run[key] for key in keep if key in run}}
            for run in result["benchmarks"]]
    return {"context": {key: result["context"][key] for key in ("read GB/s", "empty dispatch us", "empty submission us")}, "runs": runs}


def bench(bin_dir, model, tokens, repeat):
    result = json.loads(output_of(bin_dir / "weft", "bench", "-m", model, "-p", 64, "-n", tokens, "--repeat", repeat, "--profile", "--json"))
    result.pop("runs")
    return result


def model_runs(bin_dir, folder, device, quick):
    """`weft bench` of random-weight models: [{shape, type, result}]."""
    models = [("135m", kind) for kind in (("q8_0",) if quick else ("q8_0", "f16", "q4_1"))]
    real = device["kind"] != "cpu"
    if real and not quick:  # bytes: of the device's memory, with room for what else a session needs
        models += [(shape, kind) for shape, kind, size in
                   (("1b", "q8_0", 2e9), ("8b", "q8_0", 11e9), ("8b", "q4_1", 7e9), ("8b", "f16", 20e9)) if size < device["memory_bytes"]]
    list_of = []
    for shape, kind in models:
        say(f"weft bench {shape} {kind}")
        path = folder / "model.gguf"
        output_of(bin_dir / "weft-make-model", path, "--shape", shape, "--type", kind)
        result = bench(bin_dir, path, 8 if quick else 128 if real else 32, 1 if quick else 3)
        list_of.append({"shape": shape, "type": kind, "result": result})
        path.unlink()
    return list_of


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def models_text(runs):
    rows = []
    for run in runs:
        r, token = run["result"], run["result"].get("profile", {}).get("decode")
        count = token["dispatches"] if token else 0
        rows.append((run["shape"], run["type"], number(r["prompt_tokens_per_s"], 1), number(r["decode_tokens_per_s"], 1), number(1e3 / r["decode_tokens_per_s"]),
                     number(r["bytes_per_token"] / 2**20, 1), number(r["read_gb_per_s"]),
                     f"{r['read_gb_per_s'] / r['device_read_gb_per_s']:.0%}", count or "", number(token["device_seconds"] / count * 1e6, 1) if token else "",
                     number(r["cpu_s_per_token"]["calling_thread"] * 1e3, 3)))
    text = table(("shape", "type", "prompt tok/s", "decode tok/s", "ms/token", "MiB/token", "GB/s", "of read", "dispatches", "us each", "ms of Weft's CPU time"), rows)
    for run in runs:
        for name, part in run["result"].get("profile", {}).items():
            total = part["device_seconds"]
            stages = sorted(part["stages"], key=lambda stage: -stage["seconds"])
            rows = [(stage["name"], number(stage["seconds"] * 1e3, 3), f"{stage['seconds'] / total:.1%}", stage["dispatches"],
                     number(stage["bytes"] / stage["seconds"] * 1e-9) if stage["bytes"] and stage["seconds"] else "",
                     number(stage["multiplies"] * 2 / stage["seconds"] * 1e-9) if stage["multiplies"] and stage["seconds"] else "") for stage in stages]
            text += (f"\n{run['shape']} {run['type']}, {'a token' if name == 'decode' else 'a prompt chunk'}: {part['tokens']} from position {part['position']}, "
                     f"{total * 1e3:.2f} ms in {part['dispatches']} dispatches; {part['between_seconds'] * 1e3:.2f} ms between command buffers, "
                     f"{(part['submitted_seconds'] - total) * 1e3:.2f} ms in no stage\n\n" +
                     table(("stage", "ms", "share", "dispatches", "GB/s", "GFLOP/s"), rows))
    return text


def microbench_text(sets):
    text = ""
    for shape, result in sets.items():
        read = float(result["context"]["read GB/s"])
        text += f"\n{shape}: read kernel {read:.2f} GB/s, empty dispatch {float(result['context']['empty dispatch us']):.1f} us\n\n"
        text += table(("operation", "ms", "GB/s", "of read", "GFLOP/s"),
                      [(run["name"], run["error_message"], "", "", "") if "error_message" in run else
                       (run["name"], number(run["ms"], 4), number(run.get("GB/s")), f"{run['of_read']:.0%}" if "of_read" in run else "",
                        number(run.get("GFLOP/s"), 1)) for run in result["runs"]])
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("build_dir", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="little of everything")
    parser.add_argument("--no-tests", action="store_true", help="leave the tests out")
    parser.add_argument("--kit", type=pathlib.Path, help="measure nothing: make tables of this file of a kit")
    parser.add_argument("--note", default="", help="what a reader has to know of this run")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results")
    args = parser.parse_args()
    if args.kit:
        import kit_report
        print(kit_report.write(args.kit, args.out))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        probe = folder / "probe.gguf"
        output_of(args.bin_dir / "weft-make-model", probe, "--shape", "tiny")
        used = json.loads(output_of(args.bin_dir / "weft", "bench", "-m", probe, "-p", 1, "-n", 1, "--repeat", 1, "--json"))
        devices = json.loads(output_of(args.bin_dir / "weft", "devices", "--json"))["devices"]
        device = next(one for one in devices if one["name"] == used["device"])
        real = device["kind"] != "cpu"
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        begin = date + "-" + re.sub(r"[^a-z0-9]+", "-", used["device"].lower()).strip("-")[:40].strip("-")
        report = {"date": date, "device": device, "driver": used["driver"], "quick": args.quick, "note": args.note,
                  "commit": output_of("git", "-C", HERE, "describe", "--always", "--dirty", check=False).strip()}
        if not args.no_tests:
            report["tests"] = run_tests(args.build_dir)
        least = 0.01 if args.quick else 0.5 if real else 0.05
        patterns = {shape: "." if real else "^project/.*/q8" for shape in SHAPES}
        patterns["smollm-135m"] = "^(project|norm|sample)/" if args.quick else "."
        chosen = SHAPES[:1] if args.quick else SHAPES
        report["microbench"] = {shape: microbench(args.bin_dir, shape, patterns[shape], least) for shape in chosen}
        report["models"] = model_runs(args.bin_dir, folder, device, args.quick)
        say("growth")
        growth = folder / "growth"
        subprocess.run([sys.executable, HERE / "growth.py", args.bin_dir, growth, *(["--quick"] if args.quick else [])], check=True, stdout=subprocess.DEVNULL)
        report["growth"] = json.loads((growth / "growth.json").read_text())
        for plot in sorted(growth.glob("*.png")):
            (args.out / f"{begin}-{plot.name}").write_bytes(plot.read_bytes())
        plots = "".join(f"![{plot.stem}]({begin}-{plot.name})\n" for plot in sorted(growth.glob("*.png")))
        text = (f"# {used['device']}, {date}\n\n{used['driver']}, {device['kind']}; commit {report['commit']}"
                f"{'; --quick: the figures say only that it runs' if args.quick else ''}\n\n"
                f"{args.note}{chr(10) * 2 if args.note else ''}Tests: {report.get('tests', {}).get('result', 'left out')} {' '.join(report.get('tests', {}).get('failed', []))}\n\n"
                f"## Models of random weights\n\n{models_text(report['models'])}\n## Growth\n\n{(growth / 'growth.md').read_text()}\n{plots}\n"
                f"## Operations\n{microbench_text(report['microbench'])}")
    (args.out / f"{begin}.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.out / f"{begin}.md").write_text(text)
    print(args.out / f"{begin}.md")


if __name__ == "__main__":
    main()
