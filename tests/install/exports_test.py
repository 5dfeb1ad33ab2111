"""The libraries export the functions that their C headers declare, and nothing else.

exports_test.py LIBWEFT LIBWEFT_CONVERT NM
"""
import pathlib
import re
import subprocess
import sys

HEADERS = pathlib.Path(__file__).resolve().parents[2] / "runtime/include/weft"


def declared(header):
    return set(re.findall(r"^WEFT_API [^;(]*?\b(weft_\w+)\(", (HEADERS / header).read_text(), re.M))


def exported(library, nm):
    lines = subprocess.run([nm, "-D", "--defined-only", library], text=True, check=True, stdout=subprocess.PIPE).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines()}


def main():
    libweft, libweft_convert, nm = sys.argv[1:]
    own = sorted(path.name for path in HEADERS.glob("*.h") if path.name != "convert.h")
    for library, headers in ((libweft, own), (libweft_convert, ("convert.h",))):
        want, got = set(), exported(library, nm)
        for header in headers:
            assert declared(header), f"no function is found in {header}"
            want |= declared(header)
        assert got == want, f"{library}: missing {sorted(want - got)}, too many {sorted(got - want)}"


main()
