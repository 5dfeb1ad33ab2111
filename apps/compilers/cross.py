"""Builds weft-compilers or another file for arm64 on amd64, against a root's libraries."""
import subprocess

import root as roots

# libraries that the program links, with the version in the name of the root's file
LIBRARIES = {"PCRE2": ("pcre2-8", "0"), "UTF8PROC": ("utf8proc", "3")}
TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64-static")  # of g++-aarch64-linux-gnu and qemu-user-static


def build(source, root, name="bin/weft-compilers"):
    """The file of that name in the build folder. Throws Unavailable where a tool is not installed."""
    for tool in TOOLS:
        roots.run(tool, "--version")
    folder, links = source / "build/arm64", root.folder / "link"
    links.mkdir(exist_ok=True)
    options = [f"-DCMAKE_EXE_LINKER_FLAGS=-L{links} -Wl,--allow-shlib-undefined"]
    for module, (library, version) in LIBRARIES.items():
        link = links / f"lib{library}.so"
        if not link.exists():
            link.symlink_to(root.libraries / f"lib{library}.so.{version}")
        options.append(f"-Dpkgcfg_lib_{module}_{library}={link}")
    # The program's own libraries are the root's. A package that only programs that are not built need may be this machine's.
    options += [f"-DVulkan_LIBRARY={root.libraries / 'libvulkan.so.1'}", "-DCMAKE_SKIP_RPATH=ON",
                "-Dbenchmark_DIR=/usr/lib/x86_64-linux-gnu/cmake/benchmark"]
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DWEFT_APPS=ON", "-DWEFT_TESTS=OFF",
                    "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc", "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++", *options],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, name], check=True, stdout=subprocess.DEVNULL)
    return folder / name
