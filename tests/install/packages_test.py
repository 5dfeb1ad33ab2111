"""The packages that are made of a build, by `cpack` and by cmake/packaging/package.py (jars): their contents and dependencies, and that they work where
they are unpacked.

packages_test.py BUILD_DIR   lintian judges them if it is installed. Without dpkg it exits with 77.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "apps"), str(HERE.parents[1] / "cmake/packaging")]
import package
import pages

PACKAGES = {
    "libweft0": ["usr/lib/libweft.so.0", "usr/lib/libweft_convert.so.0", "usr/share/weft/pocket.gguf", "usr/share/weft/weft.spdx.json"],
    "libweft-dev": ["usr/lib/libweft.so", "usr/lib/libweft.a", "usr/include/weft/weft.h", "usr/include/weft/weft.hpp",
                    "usr/lib/pkgconfig/weft.pc", "usr/lib/cmake/Weft/WeftConfig.cmake"],
    "weft": ["usr/bin/weft", "usr/share/man/man1/weft.1.gz", "usr/share/bash-completion/completions/weft", "usr/share/zsh/site-functions/_weft",
             "usr/share/fish/vendor_completions.d/weft.fish"],
}


def call(*argv, expect=0, **more):
    done = subprocess.run(list(map(str, argv)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, **more)
    assert done.returncode == expect, f"{argv[0]}: exit {done.returncode}\n{done.stdout}"
    return done.stdout


def check_packages(debs, root):
    """The packages have their files, no file twice, and name each other and the libraries of others."""
    seen = {}
    for name, wanted in PACKAGES.items():
        files = [line.split()[5].removeprefix("./") for line in call("dpkg-deb", "-c", debs[name]).splitlines() if line[0] != "d"]
        missing = set(wanted) - set(files)
        assert not missing, f"{name} has no {missing}, but {files}"
        for file in files:
            assert file not in seen, f"{file} is in {seen[file]} and in {name}"
            seen[file] = name
        call("dpkg-deb", "-x", debs[name], root)
    depends = {name: call("dpkg-deb", "-f", debs[name], "Depends") for name in PACKAGES}
    version = call("dpkg-deb", "-f", debs["weft"], "Version").strip()
    for name in ("weft", "libweft-dev"):
        assert f"libweft0 (= {version})" in depends[name], depends
    for name, needed in (("libweft0", "libpcre2-8-0"), ("libweft0", "libc6"), ("weft", "libedit2"), ("weft", "libsndfile1"), ("libweft-dev", "libpcre2-dev")):
        assert needed in depends[name], depends
    assert "libvulkan" not in depends["libweft0"], "a program that links Weft starts on a machine without Vulkan"


def check_sbom(root):
    """The list of contents has a version and a license for each, and every library that the loader wants."""
    sbom = json.loads((root / "usr/share/weft/weft.spdx.json").read_text())
    packages = {package["SPDXID"]: package for package in sbom["packages"]}
    assert len(packages) == len(sbom["packages"]) and {"SPDXRef-Weft", "SPDXRef-pocket", "SPDXRef-volk"} <= packages.keys(), sbom
    for package in packages.values():
        assert re.match(r"\d", package["versionInfo"]) and package["licenseConcluded"], package
    links = set()
    for relation in sbom["relationships"]:
        assert relation["spdxElementId"] == "SPDXRef-Weft" and relation["relatedSpdxElement"] in packages, relation
        if relation["relationshipType"] == "DYNAMIC_LINK":
            links.add(relation["relatedSpdxElement"])
    assert len(sbom["relationships"]) == len(packages) - 1
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", call("readelf", "-d", root / "usr/bin/weft", root / "usr/lib/libweft.so.0", root / "usr/lib/libweft_convert.so.0"))
    known = {"libpcre2-8": "SPDXRef-PCRE2", "libutf8proc": "SPDXRef-utf8proc", "libedit": "SPDXRef-libedit", "libcairo": "SPDXRef-cairo", "libcurl": "SPDXRef-curl",
             "libcrypto": "SPDXRef-OpenSSL", "libsndfile": "SPDXRef-libsndfile"}
    system = r"ld-linux.*|lib(weft|weft_convert|stdc\+\+|m|gcc_s|c)\.so\..*"
    wanted = {known[name.split(".so")[0]] for name in needed if not re.fullmatch(system, name)}
    assert wanted == links, (wanted, links)


def check_use(root, folder):
    """The program, and the C program of docs/embedding.md, with the files where they were unpacked."""
    env = dict(os.environ, LD_LIBRARY_PATH=str(root / "usr/lib"), PKG_CONFIG_PATH=str(root / "usr/lib/pkgconfig"))
    assert "RUNPATH" not in call("readelf", "-d", root / "usr/bin/weft")
    said = subprocess.run([root / "usr/bin/weft", "chat", "--temperature", "0"], input="hello\n", text=True, env=env, timeout=120,
                          stdout=subprocess.PIPE, check=True).stdout
    assert said.startswith("Hello!"), said
    ask = next(block for block in pages.blocks(pages.ROOT / "docs/embedding.md") if block.file == "ask.c")
    (folder / "ask.c").write_text(ask.text)
    call("bash", "-c", "cc -std=c99 ask.c -o ask $(pkg-config --cflags --libs weft)", cwd=folder, env=env)
    assert "Timer set" in call(folder / "ask", "set a timer for 10 minutes", env=env)


def check_jars(build, folder):
    """The jar has all that it needs, and leaves nothing in the temporary folder."""
    packages = package.Packages(build, folder / "jars")
    packages.stage = folder / "stage"
    packages.install()
    packages.jars()
    assert not packages.missing, packages.missing
    jars = {file.name.removeprefix(f"weft-{package.VERSION}"): file for file in packages.output.iterdir()}
    assert jars.keys() == {".jar", "-sources.jar", "-javadoc.jar", ".pom"}, jars
    assert {"META-INF/LICENSE", "META-INF/copyright"} <= set(zipfile.ZipFile(jars[".jar"]).namelist())
    assert "weft/Native.java" in zipfile.ZipFile(jars["-sources.jar"]).namelist()
    assert "weft/Model.html" in zipfile.ZipFile(jars["-javadoc.jar"]).namelist()
    assert f"<version>{package.VERSION}</version>" in jars[".pom"].read_text()
    (temporary := folder / "temporary").mkdir()
    java = ["java", f"-Djava.io.tmpdir={temporary}", "-jar", jars[".jar"]]
    assert call(*java, "set", "a", "timer", "for", "10", "minutes").startswith("Timer set for 10 minutes.")
    assert call(*java, "-m", jars[".pom"], "hello", expect=1).startswith("weft: ")
    assert call(*java, expect=2).startswith("usage: ")
    assert not list(temporary.glob("weft-*")), list(temporary.iterdir())


def main():
    build = pathlib.Path(sys.argv[1])
    if not shutil.which("dpkg-shlibdeps"):
        print("NOT RUN: no package is made. dpkg-dev is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "build").mkdir()
        (folder / "build/release").symlink_to(build.resolve())
        (command,) = [block for block in pages.blocks(pages.ROOT / "docs/embedding.md") if block.text.startswith("cpack ")]
        pages.shell(command.text, folder, os.environ, command.place)
        debs = {path.name.split("_")[0]: path for path in folder.glob("packages/*.deb")}
        assert debs.keys() == PACKAGES.keys(), debs
        (root := folder / "root").mkdir()
        check_packages(debs, root)
        check_sbom(root)
        check_use(root, folder)
        if (build / "lib/weft.jar").exists():
            check_jars(build, folder)
        (archive,) = folder.glob("packages/*.tar.gz")
        names = {re.sub("^[^/]*/", "", name) for name in tarfile.open(archive).getnames()}
        wanted = {"bin/weft", "lib/libweft.so.0", "lib/libweft.a", "include/weft/weft.h", "share/weft/pocket.gguf", "share/doc/weft/LICENSE",
                  "share/doc/weft/copyright"}
        assert wanted <= names, f"{archive.name} has no {wanted - names}"
        if shutil.which("lintian"):
            user = ["--allow-root"] if os.geteuid() == 0 else []
            print(call("lintian", *user, "--fail-on", "error", *debs.values()))
        else:
            print("NOT RUN: the packages are not judged. lintian is not installed")


main()
