"""Installs a build into a fresh prefix, moves the prefix, and builds and runs consumer/ against it.

install_test.py BUILD_DIR find_package|static|pkg-config MAKE_MODEL
install_test.py BUILD_DIR source MAKE_MODEL FOLDER [CMAKE_OPTION ...]

With `source`, consumer/ has this checkout as a part of itself and is built in FOLDER, which may stay from an earlier run. The programs
and commands of docs/embedding.md are taken from the page and run with find_package.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "apps"))
import pages


def call(*argv, env=None, expect=0, timeout=600):
    done = subprocess.run([str(a) for a in argv], env=env, text=True, errors="replace", timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != expect:
        sys.exit(f"{' '.join(map(str, argv))}: exit {done.returncode}, not {expect}\n{done.stdout}")
    return done.stdout


def check_layout(prefix):
    wanted = ["bin/weft", "lib/libweft.so", "lib/libweft.so.0", "lib/libweft.a", "lib/pkgconfig/weft-static.pc", "include/weft/weft.h", "include/weft/weft.hpp",
              "lib/libweft_convert.so", "lib/pkgconfig/weft-convert.pc", "include/weft/convert.h", "include/weft/convert.hpp",
              "lib/cmake/Weft/WeftConfig.cmake", "lib/pkgconfig/weft.pc", "share/weft/pocket.gguf",
              "share/weft/pocket.md"]
    missing = [path for path in wanted if not (prefix / path).exists()]
    assert not missing, f"not installed: {missing}"
    for text in [*prefix.glob("lib/cmake/Weft/*"), *prefix.glob("lib/pkgconfig/*")]:
        for place in (str(ROOT), str(prefix)):
            assert place not in text.read_text(), f"{text} names {place}: the prefix cannot be moved"


def check_links(build, way):
    """The programs need the shared library, or have all of it and keep its names to themselves."""
    static = way in ("static", "source")
    for name in ("consumer_c", "consumer_cpp"):
        assert ("libweft.so" in call("readelf", "-d", build / name)) != static, f"{name}: {way}"
        symbols = call("nm", "-C", build / name).splitlines()
        assert any(line.endswith(" T weft_model_load") for line in symbols) == static, f"{name}: {way}"
        shared = [line for line in symbols if re.search(r" [TDB] (vk[A-Z]|volk|weft::(?!api::))", line)]
        assert not shared, f"{name}: names that an application may have too: {shared[:5]}"


def check_runs(build, prefix, model):
    assert call(build / "consumer_c").startswith("weft 0.")
    assert "WEFT_NOT_FOUND: " in call(build / "consumer_cpp")
    # A machine without a Vulkan driver: one clear sentence or an empty list, never a crash.
    bare = dict(os.environ, VK_DRIVER_FILES="/nonexistent", VK_ICD_FILENAMES="/nonexistent")
    done = subprocess.run([build / "consumer_c"], env=bare, text=True, stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("[]") or \
        done.returncode == 3 and "WEFT_NO_DEVICE" in done.stdout, f"exit {done.returncode}\n{done.stdout}"
    call(prefix / "bin/weft", "devices")
    out = call(prefix / "bin/weft", "generate", "-m", model, "--prompt-ids", "1", "-n", "2", "--json", env=bare, expect=1)
    assert out.startswith("weft: "), out
    assert "4 tokens, 42 thrown" in call(build / "consumer_cpp", model)
    converted = model.with_name("converted.gguf")
    call(build / "consumer_convert", model, converted)
    assert "4 tokens, 42 thrown" in call(build / "consumer_cpp", converted)
    said = subprocess.run([prefix / "bin/weft", "chat", "--temperature", "0"], input="hello\n", text=True, timeout=120,
                          stdout=subprocess.PIPE, check=True).stdout
    assert said.startswith("Hello!"), said


def check_page(prefix, folder, model):
    """docs/embedding.md: its files and commands, with PREFIX set as the page says."""
    folder.mkdir()
    (folder / "prefix").symlink_to(prefix)  # a shell's $(pkg-config ...) splits a path at blanks
    prefix = folder / "prefix"
    page = ROOT / "docs/embedding.md"
    assert pages.run(page, folder, dict(os.environ, PREFIX=str(prefix))) >= 3
    programs = [block for block in pages.blocks(page) if "main(" in block.text]
    assert len(programs) >= 4 and all(block.file for block in programs), "a program of the page has no file name"
    assert "tokens on" in call(folder / "out/story"), "the installed model is not found"
    call(folder / "out/story", model)
    assert "Timer set" in call(folder / "ask", "set a timer for 10 minutes", env=dict(os.environ, LD_LIBRARY_PATH=str(prefix / "lib")))


def main():
    build_dir, way, make_model, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        call("cmake", "--install", build_dir, "--prefix", folder / "first")
        prefix = folder / "moved here"
        (folder / "first").rename(prefix)
        check_layout(prefix)
        source, build = HERE / "consumer", pathlib.Path(rest[0]) if rest else folder / "build"
        if way == "source":
            options = [f"-DWEFT_SOURCE={ROOT}", *rest[1:]]
        else:  # nothing of the checkout is near
            source, options = folder / "consumer", [f"-DCMAKE_PREFIX_PATH={prefix}"]
            shutil.copytree(HERE / "consumer", source)
        env = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
        call("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DWAY={way}", *options, env=env)
        call("cmake", "--build", build, env=env, timeout=3000)
        check_links(build, way)
        model = folder / "tiny.gguf"
        call(make_model, model, "--shape", "tiny", "--type", "q8_0")
        check_runs(build, prefix, model)
        if way == "find_package":
            check_page(prefix, folder / "page", model)


main()
