#!/usr/bin/env python3
"""Packs the Android library and the demo app; no Android SDK is needed.

pack.py [--trial] OUTPUT [ABI=FOLDER ...]   For example: pack.py build/android arm64-v8a=build/arm64/lib
Writes OUTPUT/weft-android.aar with its POM, sources and Javadoc beside it, and OUTPUT/weft-demo.apk, signed with a key of OUTPUT's own,
and lists what is in both. A FOLDER holds libweft.so and libweft_jni.so. Without one, both ABIs are built with the NDK of
ANDROID_NDK_HOME. --trial: also packs libraries that
Android would not load, such as Linux's.

Needs a JDK, Maven, and Debian's aapt, zipalign and apksigner; to build with the NDK also what `./run --list-packages`
lists. Exit code 77: Maven could not get what it needs.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ABIS = {"arm64-v8a": "AArch64", "x86_64": "Advanced Micro Devices X86-64"}
LIBRARIES = {"libweft.so": r"weft_\w+|WEFT_[\d.]+", "libweft_jni.so": r"Java_weft_\w+|JNI_OnLoad"}  # and what they may export
PAGE = 16384
MIN_SDK, TARGET_SDK = 28, 36  # Vulkan 1.1 came with Android 9
VERSION = "0.2.0"
COMPONENTS = ("ChatActivity", "AnswerService")  # classes that the app's manifest names
DEMO = HERE / "demo/src/main"
RULES = HERE / "weft-android/consumer-rules.pro"

POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>weft</groupId>
  <artifactId>weft-android</artifactId>
  <version>{version}</version>
  <packaging>aar</packaging>
  <name>Weft for Android</name>
  <description>Runs small language models on any Vulkan GPU</description>
</project>
"""


def call(*argv):
    done = subprocess.run([str(word) for word in argv], text=True, timeout=3600, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{argv[0]} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(output, abi):
    """Builds the libraries with Google's NDK, and returns their folder."""
    if "ANDROID_NDK_HOME" not in os.environ:
        sys.exit(f"ANDROID_NDK_HOME names no NDK, and no folder of libraries is given.\n{__doc__}")
    folder = output / abi
    toolchain = pathlib.Path(os.environ["ANDROID_NDK_HOME"]) / "build/cmake/android.toolchain.cmake"
    call("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DANDROID_ABI={abi}",
         f"-DANDROID_PLATFORM=android-{MIN_SDK}", "-DANDROID_STL=c++_static", "-DCMAKE_SHARED_LINKER_FLAGS=-s", "-DWEFT_BUNDLED=ON", "-DWEFT_JAVA=ON",
         "-DWEFT_APPS=OFF", "-DWEFT_TESTS=OFF")
    call("cmake", "--build", folder, "--target", "weft", "weft_jni")
    return folder / "lib"


def maven_jars():
    """The jars of pom.xml. The Maven repository is $WEFT_MAVEN, else the user's."""
    command = ["mvn", "-q", "-B", "-f", HERE / "pom.xml", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"]
    command += [f"-Dmaven.repo.local={os.environ['WEFT_MAVEN']}"] if "WEFT_MAVEN" in os.environ else []
    with tempfile.NamedTemporaryFile("r") as names:
        done = subprocess.run(list(map(str, [*command, f"-Dmdep.outputFile={names.name}"])), text=True, timeout=1200, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            print(done.stdout)
            sys.exit(77 if re.search("Could not transfer|offline mode", done.stdout) else 1)
        return [pathlib.Path(jar) for jar in names.read().strip().split(":")]


def complaints(library, machine):
    """Why Android would not load a library, or an app should not have it."""
    exports = LIBRARIES[library.name]
    said = call("readelf", "--wide", "--file-header", "--program-headers", "--dynamic", "--dyn-syms", library)
    result = []
    if f"Machine:                           {machine}\n" not in said:
        result.append(f"is not for {machine}")
    for align in re.findall(r"^  LOAD .* (0x[0-9a-f]+)$", said, re.M):
        if int(align, 16) < PAGE:
            result.append(f"a segment is aligned to {int(align, 16)} bytes instead of {PAGE}")
            break
    if "TEXTREL" in said:
        result.append("has text relocations")
    soname = re.findall(r"\(SONAME\).*\[(.*)\]", said)
    if soname != [library.name]:
        result.append(f"has the soname {soname}")
    for name in re.findall(r"^ +\d+: \w+ +\d+ +\w+ +(?:GLOBAL|WEAK) +\w+ +(?!UND)\w+ (\S+?)(?:@.*)?$", said, re.M):
        if not re.fullmatch(exports, name):
            result.append(f"exports {name}")
    return result


def manifest(file, package):
    """With what Gradle's plugin adds."""
    text = file.read_text()
    opening, kept = '<manifest xmlns:android="http://schemas.android.com/apk/res/android"', "</manifest>"
    assert text.count(opening) == text.count(kept) == 1, file
    sdk = f'  <uses-sdk android:minSdkVersion="{MIN_SDK}" android:targetSdkVersion="{TARGET_SDK}" />\n'
    return text.replace(opening, f'{opening} package="{package}"').replace(kept, sdk + kept)


def compile_java(output, classpath, *sources):
    """Compiles as Java 8, whose classes Android 9 has, and with no later version's bytecode."""
    output.mkdir(exist_ok=True)
    call("javac", "--release", "8", "-Xlint:all,-options,-classfile", "-Werror", "-encoding", "UTF-8", "-cp", ":".join(map(str, [output, *classpath])),
         "-d", output, *sources)


def write_zip(file, members):
    """members: (name, path or bytes, compressed). Always the same bytes for the same members."""
    with zipfile.ZipFile(file, "w") as out:
        for name, content, compressed in members:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
            out.writestr(entry, content if isinstance(content, bytes) else content.read_bytes())


def native_members(folders, prefix):
    return [(f"{prefix}/{abi}/{name}", folder / name, False) for abi, folder in sorted(folders.items()) for name in sorted(LIBRARIES)]


class Pack:
    """Everything that is made lies below `output`."""

    def __init__(self, output, jars):
        self.output, self.jars = pathlib.Path(output), jars
        self.android = next(jar for jar in jars if jar.name.startswith("android-all-14"))
        self.weft, self.demo, self.base = self.output / "weft", self.output / "demo", self.output / "base.apk"
        self.output.mkdir(parents=True, exist_ok=True)

    def classes(self):
        """Compiles the library, and the demo app with its resources."""
        for folder in self.weft, self.demo:
            shutil.rmtree(folder, ignore_errors=True)
        compile_java(self.weft, [], *(ROOT / "runtime/bindings/java/weft").glob("*.java"))
        call("aapt2", "compile", "--dir", DEMO / "res", "-o", self.output / "resources.zip")
        text = self.output / "AndroidManifest.xml"
        # --warn-manifest-validation: Debian 12's aapt2 is older than <property>.
        text.write_text(manifest(DEMO / "AndroidManifest.xml", "weft.demo").replace("<application", '<application android:extractNativeLibs="false"'))
        call("aapt2", "link", "-I", self.android, "--manifest", text, "--warn-manifest-validation", "--java", self.output / "generated",
             "--version-code", 1, "--version-name", VERSION, "-o", self.base, self.output / "resources.zip")
        compile_java(self.demo, [self.weft, self.android], self.output / "generated/weft/demo/R.java", *(DEMO / "java/weft/demo").glob("*.java"))

    def shrink(self, inputs, result, *rules):
        """Does the work of R8 in Android's own build: removes and renames everything that the rules do not keep."""
        call("java", "-cp", ":".join(map(str, self.jars)), "proguard.ProGuard", f"@{RULES}", "-injars", ":".join(map(str, inputs)), "-outjars", result,
             "-libraryjars", "<java.home>/jmods/java.base.jmod(!**.jar;!module-info.class)", "-libraryjars", self.android,
             "-dontnote", *rules)

    def aar(self, folders):
        classes = self.output / "classes.jar"
        write_zip(classes, [(str(file.relative_to(self.weft)), file, True) for file in sorted(self.weft.rglob("*.class"))])
        file = self.output / "weft-android.aar"
        text = manifest(HERE / "weft-android/src/main/AndroidManifest.xml", "weft")
        write_zip(file, [("AndroidManifest.xml", text.encode(), True), ("R.txt", b"", False), ("classes.jar", classes, False),
                         ("proguard.txt", RULES, True), *native_members(folders, "jni")])
        return file

    def beside(self):
        """What a Maven repository has beside the AAR: its POM, sources and Javadoc."""
        pom, sources, javadoc = (self.output / f"weft-android{end}" for end in (".pom", "-sources.jar", "-javadoc.jar"))
        pom.write_text(POM.format(version=VERSION))
        folder, html = ROOT / "runtime/bindings/java", self.output / "javadoc"
        files = sorted((folder / "weft").glob("*.java"))
        write_zip(sources, [(str(file.relative_to(folder)), file, True) for file in files])
        call("javadoc", "-quiet", "--release", "11", "-Xdoclint:all,-missing", "-Werror", "-notimestamp", "-encoding", "UTF-8", "-d", html, *files)
        write_zip(javadoc, [(str(file.relative_to(html)), file, True) for file in sorted(html.rglob("*")) if file.is_file()])
        return pom, sources, javadoc

    def apk(self, folders):
        small, dex, file, key = (self.output / name for name in ("small.jar", "classes.dex", "weft-demo.apk", "debug.keystore"))
        kept = [word for name in COMPONENTS for word in ("-keep", f"class weft.demo.{name}")]
        self.shrink([self.demo, self.weft], small, "-target", "1.7", *kept)  # 1.7: without lambdas
        call("java", "-cp", ":".join(map(str, self.jars)), "com.android.dx.command.Main", "--dex", f"--min-sdk-version={MIN_SDK}", f"--output={dex}", small)
        with zipfile.ZipFile(self.base) as base:
            members = [(entry.filename, base.read(entry), entry.compress_type != zipfile.ZIP_STORED) for entry in base.infolist()]
        unaligned = self.output / "unaligned.apk"
        write_zip(unaligned, [*members, ("classes.dex", dex, True), *native_members(folders, "lib")])
        call("zipalign", "-f", PAGE, unaligned, file)  # libraries are mapped where they lie in the package
        if not key.exists():
            call("keytool", "-genkeypair", "-keystore", key, "-storepass", "android", "-alias", "debug", "-dname", "CN=Debug", "-keyalg", "RSA",
                 "-keysize", 2048, "-validity", 10000)
        call("apksigner", "sign", "--ks", key, "--ks-pass", "pass:android", file)
        return file


def contents(file):
    with zipfile.ZipFile(file) as package:
        lines = [f"{entry.file_size:>10} {entry.compress_size:>10}  {entry.filename}" for entry in package.infolist()]
    return "\n".join([f"{file.name}: {file.stat().st_size} bytes", f"{'bytes':>10} {'packed':>10}", *lines])


def main():
    words = sys.argv[1:]
    trial = "--trial" in words
    words = [word for word in words if word != "--trial"]
    if not words or not all(re.fullmatch(rf"({'|'.join(ABIS)})=.+", word) for word in words[1:]):
        sys.exit(__doc__)
    output = pathlib.Path(words[0])
    folders = {abi: pathlib.Path(folder) for abi, _, folder in (word.partition("=") for word in words[1:])}
    folders = folders or {abi: build(output, abi) for abi in ABIS}
    bad = [f"{folder / name} {complaint}" for abi, folder in folders.items() for name in LIBRARIES for complaint in complaints(folder / name, ABIS[abi])]
    print("\n".join(bad), file=sys.stderr)
    if bad and not trial:
        sys.exit(1)
    pack = Pack(output, maven_jars())
    pack.classes()
    pack.beside()
    for file in pack.aar(folders), pack.apk(folders):
        print(contents(file))


if __name__ == "__main__":
    main()
