#!/usr/bin/env python3
"""kernel_arguments.py COMPILER INCLUDE_FOLDER...: wrong arguments of a kernel do not compile, and the compiler names the mistake.

COMPILER is GCC or Clang; kernel_arguments.cpp has the cases.
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).with_suffix(".cpp")
MESSAGES = {  # by case: what GCC or Clang says
    0: None,
    1: r"\bweight\b.*(missing|omitted) initializer|(missing|omitted) initializer.*\bweight\b",
    2: r"\bkind\b.*(missing|omitted) initializer|(missing|omitted) initializer.*\bkind\b",
    3: r"\bout\b",
    4: r"ByName",
    5: r"no matching (member )?function",
    6: r"the shader has other push constants",
}


def errors(case):
    command = [sys.argv[1], "-std=c++20", "-fsyntax-only", "-Wextra", f"-DCASE={case}", *(f"-I{folder}" for folder in sys.argv[2:]), SOURCE]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stderr if result.returncode else None


def main():
    with concurrent.futures.ThreadPoolExecutor() as pool:
        got = dict(zip(MESSAGES, pool.map(errors, MESSAGES)))
    wrong = 0
    for case, pattern in MESSAGES.items():
        text = got[case]
        if (text is None) != (pattern is None) or (pattern and not re.search(pattern, text)):
            wrong += 1
            print(f"case {case}: {'it compiles' if text is None else f'expected {pattern!r} in:{chr(10)}{text}'}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
