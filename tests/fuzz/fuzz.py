#!/usr/bin/env python3
"""Runs the fuzz targets of a build by turns for so many hours, or one of them alone: `./run fuzz` builds them and starts this.

Targets and their limits are those of CTest's tests fuzz_*. What they learn is kept in the user's cache, weft/fuzz/TARGET: corpus
(minimised at the end) and found (inputs that broke a promise). Prints the executions and findings of each target; ends with 1 if
there were findings."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

SLICE = 600  # seconds of a turn, at most
LEAST = 1
# Gives three times as many executions as the options of CI's short runs, which also look for stack use after return.
ASAN = "detect_stack_use_after_return=0:clear_shadow_mmap_threshold=1000000:malloc_context_size=4"
REPLACED = ("-max_total_time=", "-seed=", "-artifact_prefix=")


def cache_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", "."), ".cache")
    return pathlib.Path(cache) / "weft" / "fuzz"


def tests_of(build):
    """The commands of CTest's tests for fuzzing, with their environments, by name."""
    listing = subprocess.run(["ctest", "--test-dir", build, "-L", "fuzz", "--show-only=json-v1"], check=True, capture_output=True,
                             text=True)
    tests = {}
    for test in json.loads(listing.stdout)["tests"]:
        if "command" not in test:
            sys.exit(f"fuzz.py: {test['name']} is not built")
        values = {one["name"]: one["value"] for one in test.get("properties", [])}
        tests[test["name"].removeprefix("fuzz_")] = (test["command"], dict(pair.split("=", 1) for pair in values.get("ENVIRONMENT", [])))
    return tests


def environment(more):
    env = dict(os.environ) | more
    env.setdefault("ASAN_OPTIONS", ASAN)
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    lavapipe = sorted(pathlib.Path("/usr/share/vulkan/icd.d").glob("lvp_icd.*.json"))
    if lavapipe:  # no GPU is driven with nonsense unless that is asked for
        env.setdefault("VK_DRIVER_FILES", str(lavapipe[0]))
    return env


class Target:
    def __init__(self, name, command, more):
        self.name, self.env = name, environment(more)
        self.program = [part for part in command if not part.startswith(REPLACED)]
        first = next(i for i, part in enumerate(self.program) if i > 0 and os.path.isdir(part))
        self.seeds = self.program[first + 1:]  # folders, but for the one that CTest's run writes to
        self.program = self.program[:first]
        self.options = [part for part in self.seeds if part.startswith("-")]
        self.seeds = [part for part in self.seeds if not part.startswith("-")]
        self.corpus, self.found = cache_folder() / name / "corpus", cache_folder() / name / "found"
        for folder in (self.corpus, self.found):
            folder.mkdir(parents=True, exist_ok=True)
        self.before = set(self.found.iterdir())
        self.executions, self.seconds = 0, 0.0

    def findings(self):
        return sorted(set(self.found.iterdir()) - self.before)

    def run(self, seconds):
        begin = time.monotonic()
        log = self.found.parent / "log"
        with log.open("w") as out:
            subprocess.run(self.program + self.options +
                           [f"-max_total_time={max(LEAST, int(seconds))}", f"-artifact_prefix={self.found}/", "-print_final_stats=1",
                            str(self.corpus)] + self.seeds, stdout=out, stderr=out, env=self.env, check=False)
        text = log.read_text(errors="replace")
        done = re.findall(r"stat::number_of_executed_units:\s*(\d+)", text)
        if not done:
            sys.exit(f"fuzz.py: {self.name} did not run:\n{text[-2000:]}")
        self.executions += int(done[-1])
        self.seconds += time.monotonic() - begin

    def minimise(self):
        """Keeps only what adds coverage."""
        fresh = self.corpus.with_name("minimised")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        done = subprocess.run(self.program + ["-merge=1", str(fresh), str(self.corpus)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=self.env, check=False)
        if done.returncode == 0 and any(fresh.iterdir()):
            shutil.rmtree(self.corpus)
            fresh.rename(self.corpus)

    def line(self):
        return (f"{self.name:14} {self.executions:12,} executions {self.seconds:8.0f} s {len(self.findings()):3} findings "
                f"{sum(1 for _ in self.corpus.iterdir()):6} inputs kept")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", help="the build's folder")
    parser.add_argument("hours", type=float)
    parser.add_argument("target", nargs="?", help="default: all")
    arguments = parser.parse_args()
    if not 0 < arguments.hours < float("inf"):
        parser.error(f"hours: {arguments.hours}, expected a number above 0")
    tests = tests_of(arguments.build)
    if "seeds" in tests:
        command, more = tests.pop("seeds")
        subprocess.run(command, check=True, env=environment(more))
    if arguments.target:
        if arguments.target not in tests:
            parser.error(f"there is no target {arguments.target}: {', '.join(sorted(tests))}")
        tests = {arguments.target: tests[arguments.target]}
    left = arguments.hours * 3600
    targets = [Target(name, *tests[name]) for name in sorted(tests)]
    while left > 0:
        turn = min(SLICE, left / len(targets))
        for target in targets:
            target.run(turn)
            print(target.line(), flush=True)
        left -= max(turn, LEAST) * len(targets)
    for target in targets:
        target.minimise()
    print("\nIn all:")
    for target in targets:
        print(target.line())
    findings = [path for target in targets for path in target.findings()]
    for path in findings:
        print(f"finding: {path}")
    sys.exit(1 if findings else 0)


main()
