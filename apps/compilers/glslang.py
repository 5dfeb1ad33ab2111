#!/usr/bin/env python3
"""glslangValidator of Debian 13, for what this machine's is too old for: cmake -DWEFT_NEWER_GLSLANG=$PWD/apps/compilers/glslang.py ...

Takes glslangValidator's arguments. The package is fetched at the first use and unpacked as root.py does it; nothing is installed. Exit code
77: it is not available.
"""
import os
import sys

sys.dont_write_bytecode = True
import root


def main():
    try:
        made = root.make(root.cache(), "amd64", root.GLSLANG)
    except root.Unavailable as problem:
        print(f"NOTICE: a newer glslang is not available: {problem}", file=sys.stderr)
        return 77
    command = [*made.command(made.folder / "usr/bin/glslangValidator"), *sys.argv[1:]]
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
