"""The binary interface is that of weft.abi: a program that was built with an earlier version of the headers still runs.

abi_test.py [--write]   --write: makes weft.abi anew, after a change that is meant

weft.abi describes, in the form of libabigail (Debian's abigail-tools), a library with the functions that the public headers declare.
exports_test.py sees that the real libraries have these functions, and their compiler that they are as declared. Without abidw it
exits with 77.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parents[1] / "runtime/include"
DESCRIPTION = HERE / "weft.abi"
ADVICE = {
    True: "Programs that were built before may not run with this, unless it is only a new field at the end of a struct that carries its\n"
          "size. If it is meant, say so in the commit, raise the version in CMakeLists.txt and weft.h if the old one is released, and run\n"
          "tests/install/abi_test.py --write.",
    False: "What is new does not break programs: run tests/install/abi_test.py --write.",
}


def call(*argv, ends=(0,), **more):
    done = subprocess.run(list(map(str, argv)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    assert done.returncode in ends, f"{argv[0]}: exit {done.returncode}\n{done.stdout}"
    return done


def describe(headers, folder):
    """weft.abi of the headers in a folder."""
    source = ["#define WEFT_BUILDING_LIBRARY"]
    for header in sorted((headers / "weft").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        functions = re.findall(r"^WEFT_API [^;]*?\);", text, re.M)
        assert len(functions) == len(re.findall(r"^WEFT_API\b", text, re.M)) > 0, header
        source += [f"#include <weft/{header.name}>", *(function[:-1] + " { __builtin_trap(); }" for function in functions)]
    library, file = folder / "libweft.so", folder / "weft.abi"
    call("cc", "-x", "c", "-std=c99", "-g", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-I", headers, "-o", library, "-",
         input="\n".join(source))
    # No places in files, and no names of machines: what is left changes with the interface only.
    call("abidw", "--no-architecture", "--no-parameter-names", "--no-show-locs", "--no-comp-dir-path", "--no-corpus-path", "--no-elf-needed", "--drop-private-types",
         "--no-write-default-sizes", "--type-id-style", "hash", "--out-file", file, library)
    return file


def compare(old, new):
    """Returns None, or the differences and whether they break old programs."""
    # Exit codes are bits: 4, there is a change; 8, it certainly breaks programs. A new function is no change for old programs.
    added = call("abidiff", old, new, ends=(0, 4, 12))
    if added.returncode == 0:
        return None
    changed = call("abidiff", "--no-added-syms", old, new, ends=(0, 4, 12))
    return added.stdout, changed.returncode != 0


def check(folder):
    found = compare(DESCRIPTION, describe(HEADERS, folder))
    if found:
        sys.exit(f"{found[0]}\n{ADVICE[found[1]]}")


def check_that_changes_are_seen(folder):
    """(header, old text, new text, whether it breaks programs; None: no change that matters)"""
    for name, old, new, breaks in (
            ("weft.h", "uint32_t top_k;", "uint64_t top_k;", True),
            ("weft.h", "WEFT_STOP_CALLER,", "WEFT_STOP_ELSE, WEFT_STOP_CALLER,", True),
            ("weft.h", "size_t count, float* nll", "float* nll", True),
            ("weft.h", "weft_session_clear_cancel(weft_session* session)", "weft_session_clear_cancel(void)", True),
            ("weft.h", "WEFT_API void weft_session_clear_cancel(weft_session* session);", "", True),
            ("recover.h", "WEFT_API weft_status weft_model_recover", "WEFT_API int weft_new(void);\nWEFT_API weft_status weft_model_recover", False),
            ("probe.h", "uint64_t free_bytes;", "uint64_t free_bytes; int more;", True),
            ("weft.h", "  WEFT_CANCELLED, ", "  WEFT_CANCELLED = 20, ", True),
            ("weft.h", "WEFT_POLICY_POLITE\n", "WEFT_POLICY_POLITE, WEFT_POLICY_NEW\n", None),
            ("batch.h", "one thread at a time", "two threads at a time", None)):
        changed = folder / "changed"
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(HEADERS, changed)
        text = (changed / "weft" / name).read_text()
        assert old in text, f"{name} has no '{old}'"
        (changed / "weft" / name).write_text(text.replace(old, new))
        found = compare(DESCRIPTION, describe(changed, folder))
        assert (found and found[1]) == breaks, f"{name}: {new}: {found}"


def main():
    if not shutil.which("abidw"):
        print("NOT RUN: the binary interface is not compared. abigail-tools is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if sys.argv[1:] == ["--write"]:
            DESCRIPTION.write_bytes(describe(HEADERS, folder).read_bytes())
        check(folder)
        check_that_changes_are_seen(folder)


main()
