"""Compares a model's tokens on an emulated arm64, whose lavapipe compiles by other code of LLVM, with this machine's.

arm64.py BUILD_FOLDER MODEL

Builds the library for arm64 into build/arm64, and tests/tools/ids.cpp for both. Needs g++-aarch64-linux-gnu and qemu-user-static; the
libraries and the driver are fetched once (apps/compilers/root.py). The emulator takes minutes. Exit code 77: something is not available.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "apps/compilers"))
import cross  # noqa: E402
import root as roots  # noqa: E402


def compile_ids(compiler, libraries, program, *options):
    subprocess.run([compiler, "-std=c++20", SOURCE / "tests/tools/ids.cpp", "-I", SOURCE / "runtime/include", "-L", libraries, "-lweft", *options,
                    "-o", program], check=True)
    return program


def ids(command, model, **environment):
    done = subprocess.run([*map(str, command), str(model)], env=os.environ | {"WEFT_CACHE_DIR": ""} | environment, stdout=subprocess.PIPE, text=True,
                          check=True)
    return done.stdout.split()


def main(build, model):
    if not pathlib.Path(model).exists():
        print(f"NOTICE: there is no {model}")
        return 77
    libraries = pathlib.Path(build).resolve() / "lib"
    try:
        root = roots.make(roots.cache(), "arm64")
        library = cross.build(SOURCE, root, "lib/libweft.so")
    except roots.Unavailable as problem:
        print(f"NOTICE: arm64 cannot be emulated: {problem}")
        return 77
    with tempfile.TemporaryDirectory() as work:
        here = ids([compile_ids("g++", libraries, pathlib.Path(work) / "here")], model, LD_LIBRARY_PATH=str(libraries))
        program = compile_ids("aarch64-linux-gnu-g++", library.parent, pathlib.Path(work) / "there", "-Wl,--allow-shlib-undefined")
        there = ids(root.command(program, libraries=[library.parent]), model, VK_DRIVER_FILES=str(root.driver("lvp")))
    print(f"here:  {' '.join(here)}\narm64: {' '.join(there)}")
    return 0 if here == there and len(here) == 40 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
