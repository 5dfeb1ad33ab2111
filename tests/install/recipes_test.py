"""Recipes of package managers (cmake/packaging): what can be checked of them without the managers.

recipes_test.py   Conan and Ruby judge theirs if they are installed.
"""
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ROOT / "cmake/packaging"
VERSION = re.search(r"project\(Weft VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
# A name in the find commands of the build, and in vcpkg, Conan, Homebrew (or a resource there) and Nix.
LIBRARIES = {"nlohmann_json": ("nlohmann-json", "nlohmann_json", "nlohmann-json", "nlohmann_json"), "PCRE2": ("pcre2", "pcre2", "pcre2", "pcre2"),
             "UTF8PROC": ("utf8proc", "utf8proc", "utf8proc", "utf8proc"), "VOLK_INCLUDE_DIR": ("volk", "volk", "vulkan-volk", "vulkan-volk"),
             "VULKAN_INCLUDE_DIR": ("vulkan-headers", "vulkan-headers", "vulkan-headers", "vulkan-headers"), "STB_INCLUDE_DIR": ("stb", "stb", "stb", "stb"),
             "KISSFFT_INCLUDE_DIR": ("kissfft", "kissfft", "kissfft", "kissfft"), "GLSLANG_VALIDATOR": ("glslang", "glslang", "glslang", "glslang"),
             "SPIRV_CROSS": ("spirv-cross", "spirv-cross", "spirv-cross", "spirv-cross"), "PkgConfig": ("pkgconf", "pkgconf", "pkgconf", "pkg-config")}
PROGRAM = {"CLI11": ("cli11", "cli11"), "LIBEDIT": ("libedit", "libedit"), "CAIRO": ("cairo", "cairo"), "CURL": ("curl", "curl"), "CRYPTO": ("openssl@3", "openssl"),
           "SNDFILE": ("libsndfile", "libsndfile"), "Boost": ("boost", "boost"), "benchmark": ("google-benchmark", "gbenchmark"), "Vulkan": ("vulkan-loader", "vulkan-loader")}


def found_by_the_build(*files):
    """Names in commands that end the build if there is no such thing."""
    text = "\n".join((ROOT / file).read_text() for file in files)
    return set(re.findall(r"^ *(?:find_package|find_path|find_program|pkg_check_modules)\((\w+)[^)\n]*REQUIRED", text, re.M)) - {"Threads"}


def check_versions():
    port = json.loads((RECIPES / "vcpkg/weft/vcpkg.json").read_text())
    flake = (RECIPES / "nix/flake.nix").read_text()
    assert port["version"] == VERSION and f'version = "{VERSION}";' in flake, "a recipe has another version than CMakeLists.txt"
    assert f"image: localhost/weft:{VERSION}\n" in (ROOT / "apps/serve/deploy/kubernetes.yaml").read_text(), "kubernetes.yaml names another version's image"
    kotlin = (ROOT / "runtime/bindings/kotlin/pom.xml").read_text()
    assert kotlin.count(f"<version>{VERSION}</version>") == 2, "Kotlin's POM has another version"
    assert f"## {VERSION}" in (ROOT / "docs/CHANGELOG.md").read_text(), "docs/CHANGELOG.md does not name the version"


def check_dependencies():
    """A recipe has all that the build looks for."""
    library = found_by_the_build("CMakeLists.txt", "runtime/CMakeLists.txt", "cmake/shaders.cmake")
    program = found_by_the_build("apps/CMakeLists.txt") - library
    assert library == LIBRARIES.keys(), library ^ LIBRARIES.keys()
    assert program == PROGRAM.keys(), program ^ PROGRAM.keys()
    port = json.loads((RECIPES / "vcpkg/weft/vcpkg.json").read_text())["dependencies"]
    have = [{entry if isinstance(entry, str) else entry["name"] for entry in port},
            set(re.findall(r'"([\w-]+)/', (RECIPES / "conan/conanfile.py").read_text())),
            set(re.findall(r'(?:depends_on|resource) "([\w@-]+)"', (RECIPES / "homebrew/weft.rb").read_text())),
            set(re.findall(r"[\w-]+", " ".join(re.findall(r"with pkgs; \[([^\]]*)\]", (RECIPES / "nix/flake.nix").read_text()))))]
    for names in LIBRARIES.values():
        for name, recipe in zip(names, have):
            assert name in recipe, f"{name} is not in {sorted(recipe)}"
    for names in PROGRAM.values():
        for name, recipe in zip(names, have[2:]):
            assert name in recipe, f"{name} is not in {sorted(recipe)}"


def check_by_tools():
    if shutil.which("ruby"):
        subprocess.run(["ruby", "-c", RECIPES / "homebrew/weft.rb"], check=True)
    else:
        print("NOT RUN: the syntax of the formula. Ruby is not installed")
    if importlib.util.find_spec("conan"):
        with tempfile.TemporaryDirectory() as home:
            said = subprocess.run([sys.executable, "-m", "conans.conan", "export", RECIPES / "conan"], env={"PATH": "/usr/bin:/bin", "CONAN_HOME": home}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert said.returncode == 0 and f"weft/{VERSION}" in said.stdout, said.stdout
    else:
        print("NOT RUN: the export of the Conan recipe. Conan (PyPI) is not installed")


check_versions()
check_dependencies()
check_by_tools()
