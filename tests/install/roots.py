"""Installs what `./run package` made in fresh roots of distributions, and uses it there as its users do.

roots.py PACKAGES FOLDER [SUITE ...]   PACKAGES: build/packages. FOLDER keeps the roots as debootstrap makes them. SUITE: bookworm, trixie, noble.
Needs root, debootstrap and the network. Without Ubuntu's keyring, which Debian 12 does not have, noble's signature is not checked. Exit code 77: one of them is not there.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
SUITES = {"bookworm": DEBIAN, "trixie": DEBIAN, "noble": UBUNTU}
QUESTION = "set a timer for 10 minutes"
ANSWER = 'Timer set for 10 minutes.\n{"action":"set_timer","minutes":10}'


def need(found, what):
    if not found:
        print(f"NOT RUN: packages in fresh roots. {what}")
        sys.exit(77)


def base_root(folder, suite):
    """A minimal root, kept as an archive."""
    archive, root = folder / f"{suite}.tar", folder / f"{suite}-base"
    if not archive.exists():
        shutil.rmtree(root, ignore_errors=True)
        ubuntu = SUITES[suite] == UBUNTU  # "gutsy" is the script of all its later suites
        done = subprocess.run(["debootstrap", "--variant=minbase", *(["--components=main,universe"] if ubuntu else []), suite, root, SUITES[suite],
                               *(["gutsy"] if ubuntu else [])], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        need(done.returncode == 0, f"debootstrap {suite} failed:\n{done.stdout[-2000:]}")
        subprocess.run(["tar", "-C", root, "-cf", archive.with_suffix(".part"), "."], check=True)
        archive.with_suffix(".part").rename(archive)
        shutil.rmtree(root)
    return archive


class Root:
    """A fresh root with the packages in /packages."""

    def __init__(self, folder, suite, packages):
        self.path = folder / f"{suite}-root"
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir()
        subprocess.run(["tar", "-C", self.path, "-xf", base_root(folder, suite)], check=True)
        shutil.copytree(packages, self.path / "packages")
        shutil.copy("/etc/resolv.conf", self.path / "etc/resolv.conf")

    def run(self, command, expect=0):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
               **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}}
        start = time.monotonic()
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.path}/proc", "chroot", self.path, "bash", "-c", command], env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200)
        print(f"$ {command}\n{done.stdout[-600:].rstrip()}\n[{time.monotonic() - start:.1f} s]", flush=True)
        assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}"
        return done.stdout

    def files(self):
        """Everything outside the folders of apt, of caches and of logs."""
        skipped = ("packages", "var", "proc", "tmp", "root", "run", "dev")
        return {str(path.relative_to(self.path)) for top in self.path.iterdir() if top.name not in skipped for path in top.rglob("*") if not path.is_dir()}


def check(root, suite):
    install = "apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends"
    root.run("apt-get -qq update")
    root.run(f"{install} libvulkan1 libcurl4 libedit2 libpcre2-8-0 libsndfile1 >/dev/null")  # what stays when Weft goes
    before = root.files()
    root.run(f"{install} /packages/libweft0_*.deb /packages/weft_*.deb >/dev/null")
    said = root.run("weft chat hello", expect=1)
    assert re.match(r"weft: .*[Vv]ulkan", said) and "mesa-vulkan-drivers" in said, said
    root.run(f"{install} mesa-vulkan-drivers python3-venv default-jre-headless gcc libc6-dev pkg-config >/dev/null")
    assert root.run("weft chat hello").startswith("Hello!")
    assert root.run(f"weft chat --temperature 0 '{QUESTION}'").strip() == ANSWER
    assert "weft" in root.run("weft --version")

    root.run("python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index /packages/weft-*.whl")
    ask = f"import weft; print(weft.__version__); print(weft.Model().session(temperature=0).chat('{QUESTION}'))"
    assert root.run(f'/opt/venv/bin/python -c "{ask}"').split("\n", 1)[1].strip() == ANSWER

    assert "Timer" in root.run(f"java -jar $(ls /packages/weft-[0-9]*.jar | grep -v -e -sources -e -javadoc) {QUESTION}")
    assert not list((root.path / "tmp").glob("weft-*")), "the jar's libraries stay in /tmp"

    root.run(f"{install} /packages/libweft-dev_*.deb >/dev/null")
    (root.path / "tmp/version.c").write_text('#include <stdio.h>\n#include <weft/weft.h>\nint main(void) { return puts(weft_version()) < 0; }\n')
    root.run("cd /tmp && cc version.c -o version $(pkg-config --cflags --libs weft) && ./version")
    root.run("apt-get -qq -o Dpkg::Use-Pty=0 purge -y weft libweft-dev libweft0 >/dev/null")
    left = [file for file in root.files() - before if "weft" in file and not file.startswith("opt/")]
    assert not left, left
    print(f"passed: {suite}", flush=True)


def main():
    packages, folder, *suites = sys.argv[1:]
    need(os.geteuid() == 0 and shutil.which("debootstrap"), "It needs root, and debootstrap")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for suite in suites or SUITES:
        root = Root(folder, suite, pathlib.Path(packages))
        check(root, suite)
        shutil.rmtree(root.path)


main()
