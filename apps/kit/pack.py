#!/usr/bin/env python3
"""Packs a kit that tests and measures Weft on a bare machine: `./run kit` builds Weft and starts this.

pack.py BUILD_DIR [--peer] [--run [OPTIONS of measure.py ...]]

Writes BUILD_DIR/kit/weft-kit.tar.xz, some 20 MB: the programs, the tests with their golden files, the libraries that they need, the Vulkan
loader, X11's libraries and measure.py. The other machine needs Python 3.8, glibc as new as this machine's and a Vulkan driver; no compiler,
no network:

    python3 -m tarfile -e weft-kit.tar.xz && python3 weft-kit/measure.py

--peer   adds Debian sid's llama.cpp with its Vulkan backend, another 15 MB, to measure beside Weft
--run    unpacks the kit into a new folder, and runs it there on this machine
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "bench"), str(HERE.parent / "compilers")]
import measure

PROGRAMS = ("weft", "weft-microbench", "weft-make-model")
GOLDENS = ("tests/model", "tests/unit/golden", "apps/pocket/pocket.gguf", "apps/pocket/eval")
HOST = re.compile(r"^(ld-linux.*|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so")  # every Linux machine has them

# For machines that have a driver and not these: the Vulkan loader, and what NVIDIA's driver needs of X11, without a display too.
LENT = ("libvulkan.so.1", "libX11.so.6", "libXext.so.6", "libxcb.so.1", "libXau.so.6", "libXdmcp.so.6", "libbsd.so.0", "libmd.so.0")


def say(text):
    print(f"kit: {text}", file=sys.stderr, flush=True)


def output_of(*argv):
    return subprocess.run([*map(str, argv)], check=True, stdout=subprocess.PIPE, text=True).stdout


def path_in(listing, name):
    """Path of a 64-bit library in the output of `ldconfig -p`, or None."""
    found = re.search(rf"^\s*{re.escape(name)} \(libc6,x86-64.*=> (\S+)", listing, re.M)
    return found.group(1) if found else None


def libraries_of(programs):
    """The libraries that the loader finds for the programs: paths of this machine."""
    found = set()
    for program in programs:
        found |= set(re.findall(r"=> (/\S+)", output_of("ldd", program)))
    return sorted(path for path in map(pathlib.Path, found) if not HOST.match(path.name))


def copy_stripped(source, target):
    shutil.copyfile(source, target)
    target.chmod(0o755)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)


def add_weft(build, kit):
    (kit / "bin").mkdir()
    (kit / "lib").mkdir()
    programs = [*PROGRAMS, *(f"{name}_test" for name in measure.TEST_PROGRAMS)]
    for name in programs:
        copy_stripped(build / "bin" / name, kit / "bin" / name)
    for library in libraries_of(build / "bin" / name for name in programs):
        copy_stripped(library.resolve(), kit / "lib" / library.name)
    (kit / "loader").mkdir()
    listing = output_of("/sbin/ldconfig", "-p")
    for name in LENT:
        library = path_in(listing, name)
        if library:
            shutil.copyfile(library, kit / "loader" / name)
        else:
            say(f"{name} is not here, so the kit cannot lend it")
    for golden in GOLDENS:
        source, target = SOURCE / golden, kit / "source" / golden
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.cpp", "*.h", "__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    shutil.copyfile(HERE / "measure.py", kit / "measure.py")
    commit = subprocess.run(["git", "-C", SOURCE, "describe", "--always", "--dirty"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    (kit / "commit").write_text(commit.stdout.strip() or "unknown")
    if "&matmul_matrix," not in (build / "shaders/spirv/all.spv.h").read_text():
        say("this build has no products by cooperative matrices: its glslang is too old")


def add_peer(kit):
    import llama
    peer = llama.make()
    folder = kit / "peer"
    for name in ("lib", "backends"):
        (folder / name).mkdir(parents=True)
    bench, backends = peer.bin / "llama-bench", peer.backends
    wanted = [backends / f"libggml-{name}.so" for name in ("vulkan", "cpu-x64", "cpu-haswell", "cpu-sapphirerapids")]
    for file in (bench, wanted[0]):
        for library in re.findall(r"=> (/\S+)", output_of(*peer.command(file)[:-1], "--list", file)):
            shutil.copyfile(library, folder / "lib" / pathlib.Path(library).name)
    for file in (peer.root.libraries / "ld-linux-x86-64.so.2", bench):
        shutil.copy(file, folder / file.name)
    for file in wanted:
        shutil.copy(file, folder / "backends" / file.name)
    (folder / "packages").write_text("\n".join(peer.packages))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--peer", action="store_true", help="add Debian sid's llama.cpp")
    parser.add_argument("--run", nargs=argparse.REMAINDER, metavar="OPTION", help="run the kit on this machine; options go to measure.py")
    args = parser.parse_args()
    out = args.build / "kit"
    out.mkdir(parents=True, exist_ok=True)
    archive = out / "weft-kit.tar.xz"
    with tempfile.TemporaryDirectory(dir=out) as work:
        kit = pathlib.Path(work) / "weft-kit"
        kit.mkdir()
        add_weft(args.build, kit)
        if args.peer:
            add_peer(kit)
        say("compressing")
        with tarfile.open(pathlib.Path(work) / "kit.tar.xz", "w:xz", preset=6) as file:
            file.add(kit, "weft-kit")
        os.replace(pathlib.Path(work) / "kit.tar.xz", archive)
    say(f"{archive.stat().st_size / 1e6:.1f} MB")
    print(archive)
    if args.run is None:
        return 0
    folder = tempfile.mkdtemp(prefix="weft-kit-")
    with tarfile.open(archive) as file:
        file.extractall(folder)
    return subprocess.run([sys.executable, f"{folder}/weft-kit/measure.py", "--out", out, *args.run]).returncode


if __name__ == "__main__":
    sys.exit(main())
