"""Builds the library and the tests that need no device for aarch64 with musl, a C library that is not glibc, and runs these tests under
QEMU. The compiler is PyPI's ziglang: clang with libc++ and musl.

musl.py FOLDER [ctest arguments]   The build in FOLDER may stay from an earlier run. The first one takes half an hour of a core, the tests take minutes.
Exit code 77: ziglang or Debian's qemu-user-static is not installed.
"""
import importlib.util
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "apps/android"))
import pack

TARGET = "aarch64-linux-musl"
TESTS = ["format", "tokenizer", "template", "grammar", "text_libraries", "keep", "convert", "model_config", "tied_tables"]


def need(found, what):
    if not found:
        print(f"NOT RUN: the tests with musl. {what} is not installed")
        sys.exit(77)


def tools(folder):
    """CMake wants one file for each tool."""
    folder.mkdir(parents=True, exist_ok=True)
    options = {}
    for variable, name, words in (("CMAKE_C_COMPILER", "cc", f"cc -target {TARGET}"), ("CMAKE_CXX_COMPILER", "c++", f"c++ -target {TARGET}"),
                                  ("CMAKE_AR", "ar", "ar"), ("CMAKE_RANLIB", "ranlib", "ranlib")):
        file = folder / name
        text = f'#!/bin/sh\nexec {sys.executable} -m ziglang {words} "$@"\n'
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            file.chmod(0o755)
        options[variable] = file
    return options


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    need(importlib.util.find_spec("ziglang"), "ziglang (PyPI)")
    qemu = shutil.which("qemu-aarch64-static")
    need(qemu, "qemu-user-static (Debian)")
    folder = pathlib.Path(sys.argv[1]).resolve()
    options = {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": "aarch64", "CMAKE_CROSSCOMPILING_EMULATOR": qemu, "CMAKE_BUILD_TYPE": "Release",
               "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON", "WEFT_BUNDLED": "ON", "WEFT_APPS": "OFF", "WEFT_TESTS": "ON", "WEFT_WERROR": "ON", **tools(folder / "tools")}
    for command in (["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *(f"-D{name}={value}" for name, value in options.items())],
                    ["cmake", "--build", folder, "--target", "weft", *(f"{name}_test" for name in TESTS)]):
        subprocess.run(list(map(str, command)), check=True)
    # Android's requirements of a library, which hold here too: pages of 16 KiB, no text relocations, no other exports.
    wrong = pack.complaints(folder / "lib/libweft.so", "AArch64")
    assert not wrong, wrong
    needed = subprocess.run(["readelf", "-d", folder / "lib/libweft.so"], check=True, text=True, stdout=subprocess.PIPE).stdout
    assert "[libc.so]" in needed and "libc.so.6" not in needed and "libstdc++" not in needed, needed
    sys.exit(subprocess.run(["ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error", "-R", f"^({'|'.join(TESTS)})$", *sys.argv[2:]]).returncode)


main()
