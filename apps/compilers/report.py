#!/usr/bin/env python3
"""Asks real compilers of GPUs about every pipeline that Weft's plan selects for each: `./run compilers` builds Weft and starts this.

report.py BIN_DIR [--arm64] [--check] [CHIP ...]

Mesa's drivers compile for chips that are not there (root.py, drivers.py); nothing is run. Their figures of a pipeline are kept beside the
drivers, by the fingerprint of its code, which is then not compiled again. Writes results/YYYY-MM-DD-ARCHITECTURE[-CHIP...].md
with a line for each chip, and for one chip of each driver all pipelines and what has changed since the last such file. Exits with 1 if a pipeline is over a budget. --check only
prints what is; CI does so for a few chips. --arm64: the chips whose drivers exist for arm64 only, on an emulator: half an hour or more.
`./run compilers --peer [CHIP ...]` sets llama.cpp's kernels beside ours: peer.py.
Exits with 77 if the drivers cannot be had. Standard library only.
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
import cross
import drivers
import models
import root as roots

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
UNAVAILABLE = 77


@dataclasses.dataclass(frozen=True)
class Budget:
    spills: int = 0
    scratch: int = 0
    seconds: float = 10  # of a processor's time, for one pipeline
    limit: int = 60      # seconds of the clock after which a pipeline is given up


# The emulator takes some ten times as long.
BUDGETS = {"amd64": Budget(), "arm64": Budget(seconds=100, limit=300)}

# Most commands that a token of this model (30 layers) may take with an f16 cache.
COUNTED = "smollm2-135m"
COMMANDS = {"dispatches": 160, "barriers": 155}


def say(text):
    print(f"compilers: {text}", file=sys.stderr, flush=True)


def run_once(command, environment, limit, result):
    """Runs weft-compilers, and adds what it prints to the result; returns the pipeline that it did not come back from, if any."""
    errors, current, watch = [], None, None
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        listener = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        listener.start()
        for line in process.stdout:
            if watch:
                watch.cancel()
            try:
                said = json.loads(line)
            except ValueError:
                continue  # a driver's own words
            if "compiling" in said:
                current = said["compiling"]
                watch = threading.Timer(limit, process.kill)
                watch.start()
            elif "compiled" in said:
                result["pipelines"][said["compiled"]], current = said, None
            elif "model" in said:
                result["models"][said["model"], said["format"]] = said
            elif "device" in said:
                result.update(said)
            else:
                result["labels"].update(said["pipelines"])
        status = process.wait()
        listener.join()
        if watch:
            watch.cancel()
    if status != 0 and not current:
        raise SystemExit(f"compilers: {' '.join(map(str, command[-8:]))}: {errors[0].strip()[-600:]}")
    return current


class Known:
    """Results of a chip's compiler by the fingerprints of the pipelines' code, in a file for this version of the driver and its libraries, of the chip, and
    of the sources that say which features a device has and how a pipeline is made."""

    def __init__(self, chip, root, folder):
        parts = [(root.folder / "packages").read_bytes(), repr(chip).encode(), *((SOURCE / "runtime/gpu" / name).read_bytes() for name in ("device.cpp", "kernel.cpp"))]
        version = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
        self.file, self.results = folder / "known" / f"{chip.name}-{version}.json", {}
        with contextlib.suppress(OSError, ValueError):
            self.results = json.loads(self.file.read_text())

    def write_fingerprints(self, path):
        path.write_text("".join(f"{one}\n" for one in self.results))

    def take(self, result, seconds):
        """Adds what is known to the result, and keeps what the compiler has said now of pipelines that took it no longer than so."""
        for label, fingerprint in result["labels"].items():
            if label not in result["pipelines"] and fingerprint in self.results:
                result["pipelines"][label] = self.results[fingerprint]
        kept = {result["labels"][label]: said for label, said in result["pipelines"].items()
                if "statistics" in said and said["cpu_seconds"] <= seconds and label in result["labels"]}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.file.parent, delete=False) as new:
            json.dump(kept, new)
        os.replace(new.name, self.file)


def environment_of(chip, root):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("WEFT_", "VK_"))}
    return {**kept, "MESA_SHADER_CACHE_DISABLE": "true", "WEFT_CACHE_DIR": "", "VK_DRIVER_FILES": str(root.driver(chip.driver)),
            "VK_LOADER_LAYERS_DISABLE": "~implicit~", **chip.environment}


def compile_for(chip, program, root, folders, budget, known):
    """All results of a chip's compiler: {device, models, labels: {label: fingerprint}, pipelines: {label: {statistics, cpu_seconds} or {refused}}}."""
    environment = environment_of(chip, root)
    result = {"models": {}, "pipelines": {}, "labels": {}}
    with tempfile.TemporaryDirectory() as work:
        fingerprints = pathlib.Path(work) / "known"
        known.write_fingerprints(fingerprints)
        compile_unknown(chip, [*root.command(program, chip.shim), f"--known={fingerprints}"], environment, folders, budget.limit, result)
    known.take(result, budget.seconds)
    missing = set(result["labels"]) ^ set(result["pipelines"])
    assert result["labels"] and not missing, f"{chip.name}: {missing}"
    return result


def compile_unknown(chip, command, environment, folders, limit, result):
    # A process for two models each: drm-shim crashes in one that has loaded many of them in all formats.
    for first in range(0, max(len(folders), 1), 2):
        lost = ""
        while lost is not None:
            skip = [f"--skip={label}" for label in result["pipelines"]]
            lost = run_once([*command, *skip, *folders[first:first + 2]], environment, limit, result)
            if lost:
                result["pipelines"][lost] = {"refused": f"the compiler crashed, or was stopped after {limit} s", "cpu_seconds": 0}


def rows_of(result):
    """{label: {column: number, "ms": number}}, or {"refused": why}."""
    rows = {}
    for label, said in result["pipelines"].items():
        if "refused" in said:
            rows[label] = {"refused": said["refused"]}
        else:
            rows[label] = {**drivers.columns_of(result["device"]["driver"], said["statistics"]), "ms": said["cpu_seconds"] * 1000}
    return rows


def over(row, budget):
    """How a pipeline exceeds the budget, or why it was refused, in words; "" if neither."""
    if "refused" in row:
        return row["refused"]
    words = [f"{row[name]:.0f} {name}" for name in ("spills", "scratch") if row.get(name, 0) > getattr(budget, name)]
    if row["ms"] > budget.seconds * 1000:
        words.append(f"{row['ms'] / 1000:.1f} s to compile")
    return ", ".join(words)


def commands_of(count):
    """{"dispatches": of a token, "barriers": ...}"""
    parts = count["token"]
    return {kind: parts["first_layer"][kind] + (count["layers"] - 1) * parts["layer"][kind] + parts["rest"][kind] for kind in COMMANDS}


def over_commands(result):
    """{"MODEL FORMAT": what its token takes, in words}, where that is too much."""
    numbers = {f"{model} {kind}": commands_of(count) for (model, kind), count in result["models"].items() if model == COUNTED}
    return {label: f"{number['dispatches']} dispatches and {number['barriers']} barriers a token" for label, number in numbers.items()
            if any(number[kind] > most for kind, most in COMMANDS.items())}


def read_tables(text):
    """A written file again: {chip: {label: {column: number}}}."""
    tables, table = {}, None
    for line in text.splitlines():
        if heading := re.match(r"## (\S+)", line):
            table = tables.setdefault(heading.group(1), {})
        elif table is not None and (cells := [cell.strip() for cell in line.strip("|").split("|")])[0].startswith("`"):
            table[cells[0].strip("`")] = {name: float(cell) for name, cell in zip(drivers.COLUMNS, cells[1:]) if cell}
    return tables


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def changes(row, before):
    """The old values of the columns that have changed."""
    if before is None or "refused" in row:
        return "new" if before is None else ""
    return ", ".join(f"{name} {before[name]:g}" for name in drivers.COLUMNS if name in before and before[name] != round(row.get(name, 0)))


def earlier_label(label, before):
    """A pipeline's name in the earlier table: its plain variant's, if there was no other; None: it was not there."""
    return next((one for one in (label, label.replace(" subgroup", "")) if one in before), None)


def chip_text(chip, result, rows, budget, before):
    driver, device, plan = drivers.driver_of(result["device"]["driver"]), result["device"], result["device"]["plan"]
    head = ("pipeline", *drivers.COLUMNS, "ms", "over the budget", *(["before"] if before else []))
    lines = []
    for label, row in sorted(rows.items()):
        numbers = [f"{row[name]:.0f}" if name in row else "" for name in (*drivers.COLUMNS, "ms")]
        lines.append((f"`{label}`", *numbers, over(row, budget), *([changes(row, before.get(earlier_label(label, before)))] if before else [])))
    gone = sorted(set(before or ()) - {earlier_label(label, before) for label in rows}) if before else []
    return (f"## {chip.name}\n\n{device['name'].strip()}, {device['driver']}, {device['driver_info']}; waves and cycles: {driver.meaning}. "
            f"Plan: {', '.join(f'{key} {value}' for key, value in plan.items())}.\n\n{table(head, lines)}" +
            (f"\nNo longer selected: {', '.join(f'`{label}`' for label in gone)}.\n" if gone else ""))


def summary_text(done, budget):
    rows = []
    for chip, result, table_rows in done:
        plan, count = result["device"]["plan"], result["models"][COUNTED, "q8"]
        bad = sum(bool(over(row, budget)) for row in table_rows.values())
        rows.append((chip.name, result["device"]["name"].strip(), str(plan["tile_tokens"]), str(plan["block_tokens"]), str(plan["split"]), str(len(table_rows)),
                     str(bad), f"{max(row.get('ms', 0) for row in table_rows.values()) / 1000:.2f}",
                     f"{sum(row.get('ms', 0) for row in table_rows.values()) / 1000:.1f}", *map(str, commands_of(count).values())))
    return table(("chip", "device", "tile_tokens", "block_tokens", "split", "pipelines", "over a budget", "slowest, s", "all, s",
                  "dispatches a token (SmolLM2, q8)", "barriers"), rows)


def over_text(done, budget):
    lines = [f"- {chip.name}: `{label}`: {why}" for chip, _, rows in done for label, row in sorted(rows.items()) if (why := over(row, budget))]
    return "Over a budget: " + ("\n\n" + "\n".join(lines) if lines else "nothing.") + "\n"


def earlier_files(folder, kind):
    """The files of earlier days, oldest first. kind: an architecture, or "peer"."""
    today = f"{today_is()}-{kind}.md"
    return sorted(path for path in folder.glob(f"*-{kind}.md") if path.name < today)


def last_tables(folder, architecture):
    """The figures of the newest file before today's; {} if there is none before."""
    earlier = earlier_files(folder, architecture)
    return read_tables(earlier[-1].read_text()) if earlier else {}


def keep_newest(path, kind):
    """Removes the files of earlier days: Git has them."""
    for earlier in earlier_files(path.parent, kind):
        earlier.unlink()


def today_is():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")


def commit():
    return subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True).stdout.strip()


def write(done, architecture, budget, folder, named=()):
    """named: the chips, if they are not all; their file takes no other's place."""
    today = today_is()
    path = folder / f"{'-'.join([today, architecture, *named])}.md"
    before = last_tables(folder, architecture)
    text = (f"# Compilers, {today}\n\nMesa for {architecture}; commit {commit()}. Nothing was run: docs/devices.md says how. The numbers after a pipeline's name "
            f"are its specialisation constants (`shaders/NAME.comp`), 0 to 17 for f16, q8, q4, q6, q5k, q4k, q4_0, q5_0, q5_1, mxfp4, iq4_nl, q3k, iq4_xs, iq3_xxs, iq3_s, iq2, iq1 and q2k. Registers are those of a thread; ms are a processor's time. Budget: no spills, no scratch, "
            f"{budget.seconds} s.\n\n{summary_text(done, budget)}\n{over_text(done, budget)}\n" +
            "\n".join(chip_text(chip, result, rows, budget, before.get(chip.name)) for chip, result, rows in done if named or chip.name in drivers.DETAILED))
    folder.mkdir(exist_ok=True)
    path.write_text(text)
    if not named:
        keep_newest(path, architecture)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--arm64", action="store_true", help="the chips whose drivers exist for arm64 only")
    parser.add_argument("--check", action="store_true", help="write no file")
    parser.add_argument("chips", nargs="*", metavar="CHIP", help=f"of {', '.join(drivers.CHIPS)}; ci: those of CI; default: all of the architecture")
    args = parser.parse_intermixed_args()
    architecture = "arm64" if args.arm64 else "amd64"
    names = [one for name in args.chips for one in (drivers.CI if name == "ci" else [name])]
    names = names or [name for name, chip in drivers.CHIPS.items() if chip.architecture == architecture]
    for name in names:
        if name not in drivers.CHIPS or drivers.CHIPS[name].architecture != architecture:
            parser.error(f"'{name}' is none of the chips of {architecture}: {', '.join(n for n, c in drivers.CHIPS.items() if c.architecture == architecture)}")
    try:
        root = {name: roots.make(roots.cache(), architecture, roots.NEWEST if name in drivers.NEWEST else roots.COMPILERS) for name in names}
        program = cross.build(SOURCE, roots.make(roots.cache(), architecture)) if args.arm64 else args.bin_dir / "weft-compilers"
    except roots.Unavailable as why:
        say(f"the drivers cannot be had: {why}")
        sys.exit(UNAVAILABLE)
    budget = BUDGETS[architecture]
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = models.write(pathlib.Path(work))

        def one(name):
            chip = drivers.CHIPS[name]
            result = compile_for(chip, program, root[name], folders, budget, Known(chip, root[name], roots.cache()))
            rows = rows_of(result)
            bad = {label: why for label, row in rows.items() if (why := over(row, budget))} | over_commands(result)
            if result["device"]["plan"].get("matrix_side") and not any(label.startswith("matmul matrix") for label in rows):
                say(f"{name}: products by cooperative matrices are missing: this build's glslang does not know them (docs/devices.md)")
            say(f"{name}: {len(rows)} pipelines, {len(bad)} over a budget, {sum(row.get('ms', 0) for row in rows.values()) / 1000:.1f} s of compiling" +
                "".join(f"\n  {label}: {why}" for label, why in sorted(bad.items())))
            return chip, result, rows, bad

        everything = list(pool.map(one, names))
    if not args.check:
        print(write([(chip, result, rows) for chip, result, rows, _ in everything], architecture, budget, HERE / "results", args.chips))
    sys.exit(1 if any(bad for *_, bad in everything) else 0)


if __name__ == "__main__":
    main()
