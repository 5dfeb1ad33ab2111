#!/usr/bin/env python3
"""disabled_soak.py BIN [PROGRAM ...]: the references' tests under every WEFT_DISABLE combination, on the driver that
VK_DRIVER_FILES picks. Combinations that leave a device the same plan run the same kernels: the first of each kind is
run and stands for the others, which are counted. PROGRAM: some of the tests only."""
import itertools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.argv[1])
# Parts of `weft devices` that a program's tests may depend on: operations know nothing of sampling times.
PROGRAMS = {"forward_test": ("plan", "memory_budget"), "session_test": ("plan", "memory_budget"), "ops_test": ("kernels",)}


def devices(disabled):
    return subprocess.run([BIN / "weft", "devices", "--json"], env={**os.environ, "WEFT_DISABLE": disabled}, capture_output=True, text=True)


def device(disabled):
    """Name of the tests' device, the first usable one, and its plan with these features disabled."""
    result = devices(disabled)
    if result.returncode != 0:
        sys.exit(f"weft devices: {result.stderr}")
    one = next(device for device in json.loads(result.stdout)["devices"] if device["usable"])
    kernels = {key: value for key, value in one["plan"].items() if key != "profile_every"}
    return one["name"], {"plan": one["plan"], "kernels": kernels, "memory_budget": one["caps"]["memory_budget"]}


def main():
    # Weft itself says which features there are.
    features = re.search(r"known: ([a-z0-9_, ]+)", devices("no_such_feature").stderr).group(1).strip().split(", ")
    combinations = [",".join(subset) for size in range(len(features) + 1) for subset in itertools.combinations(features, size)]
    seen = {combination: device(combination) for combination in combinations}
    print(f"{seen[''][0]}: {len(combinations)} combinations of {', '.join(features)}", flush=True)
    failed = 0
    for program in sys.argv[2:] or PROGRAMS:
        kinds = {}
        for combination in combinations:
            kinds.setdefault(json.dumps([seen[combination][1][key] for key in PROGRAMS[program]], sort_keys=True), []).append(combination)
        for same in kinds.values():
            start = time.monotonic()
            result = subprocess.run([BIN / program, "--gtest_brief=1"], env={**os.environ, "WEFT_DISABLE": same[0]}, capture_output=True, text=True)
            passed = re.search(r"\[  PASSED  \] (\d+) test", result.stdout)
            good = result.returncode == 0 and passed and int(passed.group(1)) > 0
            print(f"{program:12} {'passed' if good else 'FAILED'} {time.monotonic() - start:6.1f} s without "
                  f"{same[0] or 'nothing'} (stands for {len(same)})", flush=True)
            if not good:
                failed += 1
                print(result.stdout[-3000:], result.stderr[-3000:], flush=True)
    sys.exit(1 if failed else 0)


main()
