#!/usr/bin/env python3
"""Tests and measures Weft on this machine's GPU. It is part of a kit that `./run kit` packs, and needs nothing but Python and a driver.

measure.py [--part a|b|all] [--minutes 10] [--quick] [--device NAME] [--out FOLDER]

Part a: does Weft compute what it should on this driver, how soon is the first token there, what do dispatches and products cost? Part b:
tokens a second, by turns with llama.cpp if the kit has it, at several contexts, with sampling, with each head. Models have the shapes of real
ones and random weights, and are made on the spot in memory (/dev/shm) or beside the kit.

Writes FOLDER/weft-kit.json (default: the present folder), after each step anew: a run that is killed loses nothing but its last step.
`apps/bench/report.py --kit weft-kit.json` makes tables of it. Exit code: 1 if a test failed.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

KIT = pathlib.Path(__file__).resolve().parent
# Programs with a test for each combination of their settings go in so many processes, and once more with the plan of AMD's and NVK's GPUs.
SHARDED = {"ops": 8, "vocab": 2, "forward": 2, "session": 2, "tiles": 2, "head": 2, "batch": 2, "families": 2}
SINGLE = ("gpu", "long_context", "draft", "types", "tuning", "pocket")
TEST_PROGRAMS = (*SHARDED, *SINGLE)


class Kit:
    def __init__(self, args):
        self.out = args.out / "weft-kit.json"
        self.end = time.monotonic() + args.minutes * 60
        self.quick = args.quick
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="weft-kit-work-"))
        shm = pathlib.Path("/dev/shm")
        roomy = shm.is_dir() and shutil.disk_usage(shm).free > 12e9
        self.models = pathlib.Path(tempfile.mkdtemp(prefix="weft-kit-", dir=shm if roomy else self.work))
        libraries = [str(KIT / "lib")]
        if "libvulkan.so.1" not in subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True).stdout:
            libraries.append(str(KIT / "loader"))
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries), "WEFT_CACHE_DIR": str(self.work / "cache"),
                            "WEFT_SOURCE": str(KIT / "source")}
        if args.device:
            self.environment["WEFT_DEVICE"] = args.device
        self.result = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "commit": (KIT / "commit").read_text(),
                       "machine": {"system": platform.platform(), "processor": platform.processor(), "cores": os.cpu_count()},
                       "quick": args.quick, "steps": []}

    def save(self):
        new = self.out.with_suffix(".new")
        new.write_text(json.dumps(self.result, indent=1) + "\n")
        os.replace(new, self.out)

    def step(self, name, limit, command, parse=None, **environment):
        """Runs a command for at most limit seconds and keeps what it printed: JSON if parse is json.loads. Returns that, or None."""
        limit = min(limit, self.end - time.monotonic())
        entry = {"name": name}
        self.result["steps"].append(entry)
        if limit < 1:
            entry["left_out"] = "no time"
            self.save()
            return None
        begin = time.monotonic()
        try:
            done = subprocess.run([*map(str, command)], env={**self.environment, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  timeout=limit, text=True, errors="replace", cwd=self.work)
            entry["exit"], output, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as problem:
            entry["exit"], output, errors = "timeout", (problem.stdout or b"").decode(errors="replace"), (problem.stderr or b"").decode(errors="replace")
        except OSError as problem:
            entry["exit"], output, errors = "not started", "", str(problem)
        entry["seconds"] = round(time.monotonic() - begin, 2)
        value = None
        if entry["exit"] == 0 and parse:
            try:
                value = entry["result"] = parse(output)
            except (ValueError, KeyError) as problem:
                entry["exit"] = f"unreadable: {problem}"
        if value is None and output:
            entry["output"] = output[-4000:]
        if entry["exit"] != 0:
            entry["errors"] = errors[-2000:]
        print(f"{name}: {entry['exit'] if entry['exit'] != 0 else 'done'}, {entry['seconds']} s", file=sys.stderr, flush=True)
        self.save()
        return value

    def bin(self, name):
        return KIT / "bin" / name

    def model(self, shape, kind):
        path = self.models / f"{shape}-{kind}.gguf"
        if not path.exists():
            part = path.with_suffix(".part")
            subprocess.run([self.bin("weft-make-model"), part, "--shape", shape, "--type", kind], env=self.environment, check=True, stdout=subprocess.DEVNULL)
            part.rename(path)
        return path

    def bench(self, name, limit, model, *options, **environment):
        return self.step(name, limit, [self.bin("weft"), "bench", "-m", model, *options, "--json"], json.loads, **environment)

    def microbench(self, name, limit, shape, pattern):
        least = 0.001 if self.quick else 0.02
        return self.step(name, limit, [self.bin("weft-microbench"), f"--weft_model={shape}", f"--benchmark_filter={pattern}",
                                       f"--benchmark_min_time={least}", "--benchmark_format=json"], lambda text: json.loads(text[text.index("{"):]))


def one_test(kit, program, plan, index, count, limit):
    """Runs a shard of a test program; returns its counts and failures."""
    report = kit.work / f"{program}-{plan}-{index}.json"
    environment = {**kit.environment, "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index)}
    if plan:
        environment["WEFT_TEST_PLAN"] = plan
    # The figures of pocket and the statistics of long texts say nothing of a driver; real models are not here.
    command = [str(kit.bin(f"{program}_test")), f"--gtest_output=json:{report}", "--gtest_filter=-*RealModel*"]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=max(limit, 1), text=True, errors="replace",
                              cwd=kit.work)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as problem:
        code, output = "timeout", (problem.stdout or b"").decode(errors="replace")
    entry = {"program": program, "plan": plan or "driver", "shard": index, "exit": code, "seconds": round(time.monotonic() - begin, 1)}
    if not report.exists():  # crashed, or too slow
        return {**entry, "last": output[-600:]}
    tests = json.loads(report.read_text())
    entry["tests"] = tests["tests"]
    cases = [(suite["name"], case) for suite in tests["testsuites"] for case in suite["testsuite"]]
    entry["skipped"] = sum(case.get("result") == "SKIPPED" for _, case in cases)
    entry["failed"] = [f"{name}.{case['name']}: {problem['failure'][:300]}" for name, case in cases for problem in case.get("failures", [])]
    return entry


def run_tests(kit, limit):
    """All test programs, several at once: they are not timed."""
    jobs = [(name, plan, index, count) for plan in ("", "gpu") for name, count in SHARDED.items() for index in range(count)]
    jobs += [(name, "", 0, 1) for name in SINGLE]
    if kit.quick:  # one test of each program or a few
        jobs = [(name, plan, 0, 30) for name, plan, index, _ in jobs if index == 0]
    end = min(time.monotonic() + limit, kit.end)
    entry = {"name": "tests", "exit": 0, "result": []}
    kit.result["steps"].append(entry)
    with concurrent.futures.ThreadPoolExecutor(max(os.cpu_count() - 2, 2)) as pool:
        waiting = [pool.submit(lambda job: one_test(kit, *job, end - time.monotonic()), job) for job in jobs]
        for one in concurrent.futures.as_completed(waiting):
            entry["result"].append(one.result())
            kit.save()
    bad = [run for run in entry["result"] if run["exit"] != 0 or "tests" not in run]
    entry["exit"] = 1 if bad else 0
    count = sum(run.get("tests", 0) for run in entry["result"])
    print(f"tests: {count} in {len(jobs)} runs, {len(bad)} runs failed", file=sys.stderr, flush=True)
    for run in bad:
        print(f"  {run['program']} ({run['plan']}): exit {run['exit']}", *run.get("failed", [run.get("last", "")])[:3], sep="\n    ", file=sys.stderr)
    kit.save()
    return not bad


def environment_of(kit):
    commands = {"nvidia-smi": ["nvidia-smi"], "vulkan drivers": ["sh", "-c", "ls /usr/share/vulkan/icd.d /etc/vulkan/icd.d 2>&1; /sbin/ldconfig -p | grep -i vulkan"]}
    for name, command in commands.items():
        if shutil.which(command[0]):
            kit.step(name, 20, command)


def first_tokens(kit, model):
    """The first run compiles all kernels, the later ones find them in Weft's cache and the driver's."""
    for name in ("cold", "warm 1", "warm 2"):
        kit.bench(f"first token, {name}", 120, model, "-p", 16, "-n", 8, "--repeat", 1)
    pocket = KIT / "source/apps/pocket/pocket.gguf"
    for name in ("cold", "warm"):
        kit.step(f"whole process, {name}", 60, [kit.bin("weft"), "generate", "-m", pocket, "-p", "hello", "-n", 1, "--temperature", 0],
                 WEFT_CACHE_DIR=str(kit.work / "process-cache"))


def part_a(kit):
    environment_of(kit)
    first_tokens(kit, kit.model("tiny" if kit.quick else "135m", "q8_0"))
    good = run_tests(kit, 180)
    kit.microbench("microbenchmarks, 135m", 60, "smollm-135m", "^norm/" if kit.quick else "^(read|matmul|project|gather|attend|norm|filter|sample|advance)/")
    kit.step("tune", 60, [kit.bin("weft"), "tune", "--json"], json.loads)
    return good


def beside_peer(kit, name, model, prompt, tokens):
    """Weft, then llama.cpp, with the same file: their ratio is what counts."""
    repeat = 1 if kit.quick else 3
    kit.bench(f"weft, {name}", 60, model, "-p", prompt, "-n", tokens, "--repeat", repeat, "--profile")
    peer = KIT / "peer"
    if peer.is_dir():
        libraries = ":".join([str(peer / "lib"), "/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu"])
        command = [peer / "ld-linux-x86-64.so.2", "--library-path", libraries, peer / "llama-bench", "-ngl", 99, "-fa", 1, "-p", prompt, "-n", tokens,
                   "-r", repeat, "-o", "json", "-m", model]
        kit.step(f"llama.cpp, {name}", 60, ["sh", "-c", f"cd {peer / 'backends'} && exec \"$@\"", "sh", *command], json.loads, GGML_VK_VISIBLE_DEVICES="0")


def part_b(kit):
    shapes = [("tiny", "q8_0")] if kit.quick else [("135m", "q8_0"), ("1b", "q4_1"), ("8b", "q4_1"), ("1b", "q8_0"), ("135m", "q4_1")]
    prompt, tokens = (16, 8) if kit.quick else (512, 128)
    for shape, kind in shapes:
        beside_peer(kit, f"{shape} {kind}", kit.model(shape, kind), prompt, tokens)
    main = kit.model(*(shapes[0] if kit.quick else ("1b", "q4_1")))
    kit.bench("not tuned", 30, main, "-p", prompt, "-n", tokens, "--repeat", 1, WEFT_TUNE="0")
    kit.bench("without cooperative matrices", 30, main, "-p", prompt, "-n", 16, "--repeat", 1, WEFT_DISABLE="matrices")
    if any(device["caps"]["int8_dot_fast"] for device in kit.devices):
        kit.bench("8-bit inputs", 30, main, "-p", prompt, "-n", 16, "--repeat", 1, "--int8-inputs")
    kit.bench("contexts", 60, main, "-p", 16, "-n", 8, "--repeat", 1, "--at", "100" if kit.quick else "100,1000,4000")
    kit.step("default sampling", 30, [kit.bin("weft"), "generate", "-m", main, "-p", "hello", "-n", tokens, "--temperature", 0.8, "--top-k", 40,
                                      "--top-p", 0.95, "--json"], json.loads)
    kit.bench("16 sessions", 60, main, "-p", 64, "-n", 16 if kit.quick else 64, "--repeat", 1, "--sessions", 16)
    for shape in () if kit.quick else ("gemma3-270m", "llama3.2-1b"):
        kit.microbench(f"heads, {shape}", 60, shape, "^(head/.*/q8|filter/|sample/|project/.*/q8)")
    if not kit.quick:
        kit.microbench("microbenchmarks, 1b", 60, "llama3.2-1b", "^(matmul|attend)/")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=("a", "b", "all"), default="all")
    parser.add_argument("--minutes", type=float, default=10, help="no step begins after so many minutes, and none goes on")
    parser.add_argument("--quick", action="store_true", help="a little of everything: shows that the kit works, measures nothing")
    parser.add_argument("--device", help="WEFT_DEVICE for all programs: index or part of the name")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path.cwd())
    args = parser.parse_args()
    args.out = args.out.resolve()
    kit = Kit(args)
    found = kit.step("devices", 30, [kit.bin("weft"), "devices", "--json"], json.loads)
    kit.devices = [device for device in (found or {}).get("devices", []) if device["usable"]]
    if not kit.devices:
        print(f"kit: Weft can use no Vulkan device here; the step `devices` in {kit.out} says why", file=sys.stderr)
        return 1
    try:
        good = all([part(kit) for name, part in (("a", part_a), ("b", part_b)) if args.part in (name, "all")])
    finally:
        shutil.rmtree(kit.models, ignore_errors=True)
        shutil.rmtree(kit.work, ignore_errors=True)
    failed = [step["name"] for step in kit.result["steps"] if step.get("exit", 0) != 0]
    print(f"{kit.out}: {len(kit.result['steps'])} steps, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}")
    return 0 if good and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
