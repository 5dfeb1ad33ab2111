#!/usr/bin/env python3
"""Measures how the time of a token grows: with the context, the vocabulary under each head, the sessions of a batch, and the CPUs.

growth.py BIN_DIR OUT_FOLDER [--quick] [--only SWEEP ...]

Models of random weights (weft-make-model) go through `weft bench`. For each sweep a straight line is fitted by least squares;
OUT_FOLDER gets growth.json, growth.md and a plot for each sweep. --quick: small models and short sweeps, to see that it works.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def fit(points):
    """Least squares: (intercept, slope, r squared) of y = intercept + slope x."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    xx = sum((x - mean_x) ** 2 for x, _ in points)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    slope = xy / xx if xx else 0.0
    intercept = mean_y - slope * mean_x
    left = sum((y - intercept - slope * x) ** 2 for x, y in points)
    all_of_it = sum((y - mean_y) ** 2 for _, y in points)
    return intercept, slope, 1 - left / all_of_it if all_of_it else 1.0


class Growth:
    def __init__(self, bin_dir, models, quick):
        self.bin, self.models, self.quick = bin_dir, models, quick

    def model(self, name, *options):
        path = self.models / f"{name}.gguf"
        if not path.exists():
            subprocess.run([self.bin / "weft-make-model", path, *map(str, options)], check=True, stdout=subprocess.DEVNULL)
        return path

    def bench(self, *options, **more):
        done = subprocess.run([self.bin / "weft", "bench", "--json", *map(str, options)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **more)
        if done.returncode != 0:
            raise SystemExit(f"weft bench {' '.join(map(str, options))}: {done.stderr.decode().strip()}")
        return json.loads(done.stdout)

    # Each sweep: {title, x, y, unit of the slope and its factor, series: {name: [(x, y), ...]}}.

    def context(self):
        """A decoded token after N others, whose keys and values are there but were not computed (bench --at)."""
        layers, places = (4, (1024, 2048, 4096)) if self.quick else (30, (1024, 2048, 4096, 8192, 16384, 32768))
        model = self.model(f"context-{layers}", "--shape", "135m", "--layers", layers, "--context", 33000, "--type", "q8_0")
        series = {}
        for kv in ("f16", "q8"):
            result = self.bench("-m", model, "-p", 1, "-n", 1, "--repeat", 1, "--kv", kv, "--at", ",".join(map(str, places)))
            series[f"cache {kv}"] = [(one["position"], one["submitted_seconds"] * 1e3) for one in result["at"]]
        return {"title": f"A token after a context: 135M shape, {layers} layers, q8", "x": "tokens before it", "y": "ms a token",
                "slope": "ms for each 1,000 tokens", "factor": 1e3, "series": series}

    def vocabulary(self):
        """A decoded token of a model of two layers, by the rows of its table."""
        sizes = (16384, 32768, 65536) if self.quick else (16384, 32768, 65536, 131072, 196608, 262144)
        kept = self.models / "kept.list"
        kept.write_text("".join(f"{i}\n" for i in range(0, 16384, 4)))
        series = {}
        for rows in sizes:
            model = self.model(f"vocab-{rows}", "--shape", "135m", "--layers", 2, "--vocab", rows, "--type", "q8_0")
            for head in ("full", "certified", "sure", f"keep:{kept}"):
                result = self.bench("-m", model, "-p", 8, "-n", 8 if self.quick else 24, "--repeat", 1 if self.quick else 2, "--head", head)
                series.setdefault("keep (4,096 rows)" if head.startswith("keep") else head, []).append((rows, 1e3 / result["decode_tokens_per_s"]))
        return {"title": "A token by the vocabulary: 135M shape, 2 layers, q8", "x": "rows of the table", "y": "ms a token",
                "slope": "us for each 1,000 rows", "factor": 1e6, "series": series}

    def sessions(self):
        """A pass over a batch: one token of each session."""
        counts = (1, 2, 4) if self.quick else (1, 2, 4, 8, 12, 16)
        layers = 4 if self.quick else 30
        series = {}
        for kind in ("q8_0", "f16"):
            model = self.model(f"135m-{layers}-{kind}", "--shape", "135m", "--layers", layers, "--type", kind)
            points = series[kind] = []
            for count in counts:
                result = self.bench("-m", model, "-p", 16, "-n", 8 if self.quick else 16, "--repeat", 1 if self.quick else 2, "--sessions", count)
                rate = result["batch"]["decode_tokens_per_s"] if count > 1 else result["decode_tokens_per_s"]
                points.append((count, count * 1e3 / rate))
        return {"title": f"A token of each session: 135M shape, {layers} layers", "x": "sessions", "y": "ms a pass",
                "slope": "ms for each session", "factor": 1, "series": series}

    def cpus(self):
        """Loading, which packs weights, and a token, on the first N of the CPUs."""
        model = self.model("135m-30-f16", "--shape", "135m", "--type", "f16")
        every = sorted(os.sched_getaffinity(0))
        counts = sorted({n for n in (1, 2, 4, 8, 16, 32, 64, len(every)) if n <= len(every)})
        series = {"loading f16 as q8": [], "100 tokens": []}
        for count in counts:
            result = self.bench("-m", model, "--type", "q8", "-p", 8, "-n", 8, "--repeat", 1,
                                env=dict(os.environ, LP_NUM_THREADS=str(count)),
                                preexec_fn=lambda n=count: os.sched_setaffinity(0, every[:n]))
            series["loading f16 as q8"].append((count, result["load_s"] * 1e3))
            series["100 tokens"].append((count, 1e5 / result["decode_tokens_per_s"]))
        return {"title": "By the CPUs: 135M shape", "x": "CPUs", "y": "ms", "slope": "ms for each CPU", "factor": 1, "series": series}


SWEEPS = ("context", "vocabulary", "sessions", "cpus")


def table(sweep):
    """Markdown: a row a series, with its line."""
    places = sorted({x for points in sweep["series"].values() for x, _ in points})
    rows = [f"| {sweep['y']} at {sweep['x']} | " + " | ".join(f"{x:,}" for x in places) + f" | slope, {sweep['slope']} | at 0 | r² |",
            "|---" * (len(places) + 4) + "|"]
    for name, points in sweep["series"].items():
        at = dict(points)
        intercept, slope, r2 = sweep["lines"][name]
        rows.append(f"| {name} | " + " | ".join(f"{at[x]:.2f}" if x in at else "" for x in places) +
                    f" | {slope * sweep['factor']:.3g} | {intercept:.3g} | {r2:.3f} |")
    return "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=SWEEPS, default=SWEEPS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    growth, text = {}, []
    with tempfile.TemporaryDirectory() as folder:
        runner = Growth(args.bin_dir.resolve(), pathlib.Path(folder), args.quick)
        for name in args.only:
            print(f"growth: {name}", file=sys.stderr)
            sweep = growth[name] = getattr(runner, name)()
            sweep["lines"] = {label: fit(points) for label, points in sweep["series"].items()}
            plot = {key: sweep[key] for key in ("title", "x", "y")}
            plot["series"] = [{"label": label, "points": points, "line": sweep["lines"][label][:2]}
                              for label, points in sweep["series"].items()]
            data = pathlib.Path(folder) / "plot.json"
            data.write_text(json.dumps(plot))
            subprocess.run([runner.bin / "weft", "plot", "-f", data, "-o", args.out / f"growth-{name}.png"], check=True)
            text.append(f"### {sweep['title']}\n\n{table(sweep)}")
    (args.out / "growth.json").write_text(json.dumps(growth, indent=1) + "\n")
    (args.out / "growth.md").write_text("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
