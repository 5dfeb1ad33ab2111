"""Runs tests on the lavapipe of a newer Mesa than this machine's, whose compiler and limits differ.

newer_mesa.py BIN_DIR [PROGRAM ...]   PROGRAM: ops_test, forward_test, ...; default: those of operations, networks and sessions

Mesa and the libraries it needs are fetched once and kept beside those that ./run compilers takes; nothing is installed. GTEST_FILTER and
WEFT_TEST_PLAN work as usual. The validation layer is this machine's and is not used. Exit code 77: the packages are not available.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "apps/compilers"))
import root as mesa  # noqa: E402

PROGRAMS = [f"{name}_test" for name in ("ops", "vocab", "forward", "families", "session", "batch", "continuous_batch", "head", "seq2seq",
                                        "encoders", "policy", "long_context")]


def main(bin_dir, *programs):
    try:
        root = mesa.make(mesa.cache(), "amd64")
    except mesa.Unavailable as problem:
        print(f"NOTICE: Mesa {mesa.MESA} is not available: {problem}")
        return 77
    environment = os.environ | {"VK_DRIVER_FILES": str(root.driver("lvp")), "WEFT_VALIDATION": "0"}
    failed = []
    for program in programs or PROGRAMS:
        command = [*root.command(pathlib.Path(bin_dir).resolve() / program), "--gtest_brief=1"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        good = done.returncode == 0 and f"Mesa {mesa.MESA.partition('-')[0]}" in done.stdout and "[  PASSED  ] 0 tests" not in done.stdout
        print(f"{program}: {'passed' if good else 'FAILED'}\n{done.stdout if not good else done.stdout.splitlines()[0]}", flush=True)
        failed += [] if good else [program]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
