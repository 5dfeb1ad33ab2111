"""Makes the packages twice, in two checkouts of the same commit and without a compiler cache, and compares their bytes.

reproducible.py FOLDER   Half an hour of two cores. The image is left out: it has the base image's and Debian's packages of the day.
"""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CCACHE", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER"))}
    made = []
    for name in ("one", "another checkout"):
        checkout = folder / name
        shutil.rmtree(checkout, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", ROOT, checkout], check=True)
        subprocess.run([sys.executable, checkout / "cmake/packaging/package.py"], check=True, env=env)
        made.append({file.name: file.read_bytes() for file in (checkout / "build/packages").iterdir() if not file.name.endswith("-oci.tar") and file.name != "SHA256SUMS"})
    first, second = made
    assert first.keys() == second.keys() and len(first) > 8, (first.keys(), second.keys())
    other = [name for name in first if first[name] != second[name]]
    print("\n".join(f"{len(first[name]):>10} {'DIFFERS' if name in other else 'equal'}  {name}" for name in sorted(first)))
    assert not other, other


main()
