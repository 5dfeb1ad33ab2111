"""A folder with Mesa's Vulkan drivers and its drm-shim, which pretends that a GPU is there, as Debian packages them.

The packages are fetched by apt with lists of its own and unpacked: nothing is installed, and no privileges are needed. Programs of
this machine run with the folder's loader and libraries (Root.command), which are newer than the machine's.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

# One version, so that figures change only when Weft does. Where it is not available any more, take a newer one and measure again.
MESA = "26.1.6-1~bpo13+1"
SUITES = ("trixie", "trixie-backports")
PACKAGES = (f"mesa-vulkan-drivers={MESA}", f"mesa-drm-shim={MESA}", "libstdc++6", "libvulkan1", "libpcre2-8-0", "libutf8proc3")
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
LOADERS = {"amd64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}


@dataclasses.dataclass(frozen=True)
class Wanted:
    name: str  # of the folder
    suites: tuple
    packages: tuple


COMPILERS = Wanted(MESA, SUITES, PACKAGES)
# For the chips that the version above cannot pretend to be: drivers.NEWEST.
NEWEST = Wanted("sid", ("sid",), ("mesa-vulkan-drivers", "mesa-drm-shim", *PACKAGES[2:]))
GLSLANG = Wanted("glslang-trixie", SUITES[:1], ("glslang-tools",))
# Debian sid's llama.cpp with its Vulkan backend, and sid's Mesa.
PEER = Wanted("sid-peer", NEWEST.suites, ("llama.cpp-tools", "libggml0-backend-vulkan", *NEWEST.packages))

# The same on CPUs, with OpenBLAS, which multiplies floats: its own products round their inputs to 8 bits.
FLOATS = Wanted("sid-floats", NEWEST.suites, ("llama.cpp-tools-extra", "libggml0-backend-blas", "libopenblas0-pthread"))


class Unavailable(Exception):
    """The packages are not available. str(): why."""


@dataclasses.dataclass(frozen=True)
class Root:
    folder: pathlib.Path
    architecture: str

    @property
    def libraries(self):
        return self.folder / "usr/lib" / TRIPLETS[self.architecture]

    def packages(self, *beginnings):
        """The packages whose names begin so, with their versions."""
        return [name.removesuffix(".deb").replace("%3a", ":") for name in (self.folder / "packages").read_text().split() if name.startswith(beginnings)]

    def driver(self, name):
        """A driver's file for the Vulkan loader, with the library's place in this folder."""
        return self.folder / f"drivers/{name}.json"

    def command(self, program, shim=None, libraries=()):
        """The command that starts a program of this machine, or the folder's, with the folder's libraries; shim: "amdgpu"; libraries: more folders of them."""
        emulator = [] if self.architecture == "amd64" else [f"qemu-{TRIPLETS[self.architecture].split('-')[0]}-static"]
        preload = ["--preload", str(self.libraries / f"lib{shim}_noop_drm_shim.so")] if shim else []
        libraries = ":".join(map(str, (*libraries, self.libraries, self.libraries / "llama")))  # llama.cpp's own, if it is there
        return [*emulator, str(self.libraries / LOADERS[self.architecture]), "--library-path", libraries, *preload, str(program)]


def cache():
    """The user's folder of roots."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "weft/compilers"


def run(*argv, cwd=None):
    try:
        done = subprocess.run([*map(str, argv)], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    except FileNotFoundError:
        raise Unavailable(f"this machine has no {argv[0]}") from None
    if done.returncode != 0:
        raise Unavailable(f"{argv[0]} failed: {done.stdout.strip()[-600:]}")
    return done.stdout


def mirror():
    """The place that this machine's apt takes Debian's packages from."""
    for line in run("apt-get", "indextargets", "--format", "$(ORIGIN)|$(RELEASE)|$(REPO_URI)", "Created-By: Packages").splitlines():
        origin, release, uri = line.split("|")
        if origin == "Debian" and not release.endswith("-security"):
            return uri
    raise Unavailable("this machine's apt knows no repository of Debian")


def fetch(work, architecture, wanted):
    """Downloads the packages and all that they need; returns their files."""
    for folder in ("lists/partial", "archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").write_text("")
    uri, key = mirror(), "/usr/share/keyrings/debian-archive-keyring.gpg"
    (work / "sources.list").write_text("".join(f"deb [arch={architecture} signed-by={key}] {uri} {suite} main\n" for suite in wanted.suites))
    options = {"APT::Architecture": architecture, "APT::Architectures": architecture, "APT::Install-Recommends": "false",
               "APT::Sandbox::User": "root", "Debug::NoLocking": "true", "Dir::State": work, "Dir::State::status": work / "status",
               "Dir::State::lists": work / "lists", "Dir::Cache": work, "Dir::Cache::archives": work / "archives",
               "Dir::Etc::sourcelist": work / "sources.list", "Dir::Etc::sourceparts": work / "none",
               "Dir::Etc::preferences": work / "none", "Dir::Etc::preferencesparts": work / "none"}
    apt = ["apt-get", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    run(*apt, "update")
    run(*apt, "install", "--yes", "--download-only", *wanted.packages)
    return sorted((work / "archives").glob("*.deb"))


def make(folder, architecture, wanted=COMPILERS):
    """The root below the folder, cache(); made at first use, which takes seconds and 350 MB. Throws Unavailable."""
    root = Root(folder / f"{architecture}-{wanted.name}", architecture)
    if root.folder.exists():
        return root
    folder.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(dir=folder))
    try:
        new = Root(work / "root", architecture)
        packages = fetch(work, architecture, wanted)
        for package in packages:
            run("dpkg-deb", "--extract", package, new.folder)
        (new.folder / "packages").write_text("".join(f"{package.name}\n" for package in packages))
        (new.folder / "drivers").mkdir()
        for file in (new.folder / "usr/share/vulkan/icd.d").glob("*_icd.json"):
            driver = json.loads(file.read_text())
            library = pathlib.Path(driver["ICD"]["library_path"]).name
            driver["ICD"]["library_path"] = str(root.libraries / library)
            new.driver(file.name.removesuffix("_icd.json")).write_text(json.dumps(driver))
        try:
            os.rename(new.folder, root.folder)
        except OSError:  # another run was first
            if not root.folder.exists():
                raise
    finally:
        shutil.rmtree(work)
    return root
