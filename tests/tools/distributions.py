"""Builds the libraries and `weft` in fresh roots of Debian's releases, with their compilers, and for other architectures, warnings being
errors, and prints a table of what was built where.

distributions.py [--roots FOLDER] [--libraries] [NAME ...]

Without names: all of them; --list prints them. --libraries: without `weft`. Roots are made by debootstrap in FOLDER (the user's cache) and used again;
delete one to make it anew. The compilers of other architectures are this machine's, of the packages g++-ARCHITECTURE. It takes an hour of a
core the first time. Needs root and debootstrap. Exit code 77: they are not there; 1: something was not built.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIRROR = "http://deb.debian.org/debian"
# The other packages that CMake looks for when it builds the apps; ./run --list-packages lists them.
SUITES = {"12": "bookworm", "13": "trixie", "sid": "sid"}
COMPILERS = {"12": ("gcc-12", "clang-14", "clang-16"), "13": ("gcc-13", "gcc-14", "clang-17", "clang-19"), "sid": ("gcc-15", "clang-20", "clang-21")}
# Debian's triplet, and what its CMake calls the processor.
CROSS = {"arm64": ("aarch64-linux-gnu", "aarch64"), "armhf": ("arm-linux-gnueabihf", "armv7l"), "riscv64": ("riscv64-linux-gnu", "riscv64")}


@dataclasses.dataclass
class Row:
    system: str
    compiler: str
    architecture: str
    libc: str
    result: str


class Failed(Exception):
    """A command's output, shortened."""


def run(*argv, **options):
    done = subprocess.run(list(map(str, argv)), text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise Failed(done.stdout)
    return done.stdout.strip()


def wanted_packages():
    """Packages for a build, without those that run it."""
    return [name for name in run(ROOT / "run", "--list-packages").split() if re.fullmatch(r"g\+\+|cmake|ninja-build|pkg-config|lib\S+-dev|glslang-tools|spirv-cross|python3", name)]


def make_root(folder, release):
    """A root with what `./run` would install for a build."""
    root = folder / release
    if not (root / ".complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        run("debootstrap", "--variant=minbase", SUITES[release], root, MIRROR)
        (root / ".complete").touch()
    inside(root, "apt-get", "update", "-qq")
    inside(root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted_packages())
    return root


def inside(root, *argv):
    return run("chroot", root, "/usr/bin/env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *argv)


def copy_sources(to):
    """The files that git knows, with their changes."""
    shutil.rmtree(to, ignore_errors=True)
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, stdout=subprocess.PIPE).stdout
    for name in filter(None, files.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def first_error(text):
    """The first line with an error, as a person would look for it."""
    lines = [line for line in text.splitlines() if re.search(r"\berror\b|CMake Error|FAILED|E: ", line)]
    return re.sub(r"\s+", " ", (lines or text.splitlines()[-1:] or ["?"])[0])[:160]


def build(call, source, folder, targets, *options):
    """Configures and builds; call runs a command where the compiler is."""
    configure = ["-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O0", "-DCMAKE_C_FLAGS=-O0",
                 "-DWEFT_WERROR=ON", "-DWEFT_TESTS=OFF", *options]
    warnings = [line for line in call("cmake", *configure).splitlines() if "Warning" in line]
    call("cmake", "--build", folder, "--parallel", os.cpu_count(), "--target", *targets)
    return f"built; CMake warns: {warnings[0]}" if warnings else "built"


def on_release(roots, release, compiler, targets):
    kind, version = compiler.split("-")
    row = Row(f"Debian {release}", compiler, "amd64", "glibc", "")
    try:
        root = make_root(roots, release)
        inside(root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", f"g++-{version}" if kind == "gcc" else compiler)
        row.compiler = inside(root, compiler, "--version").splitlines()[0]
        row.libc = "glibc " + inside(root, "ldd", "--version").splitlines()[0].split()[-1]
        row.system += f", CMake {inside(root, 'cmake', '--version').split()[2]}"
        copy_sources(root / "weft")
        cxx = f"g++-{version}" if kind == "gcc" else f"clang++-{version}"
        row.result = build(lambda *argv: inside(root, *argv), "/weft", f"/build-{compiler}", targets, f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_CXX_COMPILER={cxx}")
        row.result += f"; {inside(root, f'/build-{compiler}/bin/weft', '--version')} starts" if "weft_program" in targets else ""
    except Failed as failure:
        row.result = f"FAILED: {first_error(str(failure))}"
    return row


def on_architecture(roots, architecture, clang):
    """With PCRE2 and utf8proc from their sources."""
    triplet, processor = CROSS[architecture]
    cc, cxx = ("clang-14", "clang++-14") if clang else (f"{triplet}-gcc", f"{triplet}-g++")
    row = Row("Debian's cross compilers", cc, architecture, "glibc", "")
    options = ["-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={processor}", f"-DCMAKE_C_COMPILER={cc}", f"-DCMAKE_CXX_COMPILER={cxx}",
               "-DWEFT_BUNDLED=ON", "-DWEFT_APPS=OFF"]
    if clang:
        options += [f"-DCMAKE_{language}_COMPILER_TARGET={triplet}" for language in ("C", "CXX")]
    try:
        row.compiler = run(cc, "--version").splitlines()[0]
        row.result = build(run, ROOT, roots / f"{architecture}-{'clang' if clang else 'gcc'}", ["weft"], *options)
    except FileNotFoundError:
        row.result = f"NOT RUN: {cc} is not installed"
    except Failed as failure:
        row.result = f"FAILED: {first_error(str(failure))}"
    return row


def names():
    return [f"{release}/{compiler}" for release in SUITES for compiler in COMPILERS[release]] + [f"{name}/{kind}" for name in CROSS for kind in ("gcc", "clang")]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--roots", type=pathlib.Path, default=pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "weft/roots")
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    if asked.list:
        return print(*names(), sep="\n")
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        print("NOT RUN: fresh roots need debootstrap and root")
        return 77
    targets = ["weft", "weft_convert_library"] + ([] if asked.libraries else ["weft_program"])
    rows = []
    print("| system | compiler | architecture | libc | result |\n|---|---|---|---|---|")
    for name in asked.names or names():
        where, compiler = name.split("/")
        rows.append(on_release(asked.roots, where, compiler, targets) if where in SUITES else on_architecture(asked.roots, where, compiler == "clang"))
        print("| " + " | ".join(text.replace("|", "/") for text in dataclasses.astuple(rows[-1])) + " |", flush=True)
    return 1 if any(row.result.startswith("FAILED") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
