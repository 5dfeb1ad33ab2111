"""Compiles the Kotlin library, its test (kotlin/FlowTest.kt) and the Kotlin programs of docs/java.md with Maven, and runs them with
-Xcheck:jni. Not a test of CTest: Maven needs the network the first time.

kotlin_test.py LIB_DIR MAVEN_REPOSITORY. LIB_DIR holds weft.jar and libweft_jni.so, ../bin weft-make-model. Exit code 77: Maven could not get what it needs.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/apps"))
import pages
import support

LIB, REPOSITORY = (pathlib.Path(path).resolve() for path in sys.argv[1:])


def call(*argv):
    return subprocess.run([str(word) for word in argv], text=True, timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs, output = folder / "programs", folder / "output"
        programs.mkdir()
        (programs / "FlowTest.kt").write_text((ROOT / "tests/bindings/kotlin/FlowTest.kt").read_text())
        blocks = [block for block in pages.blocks(ROOT / "docs/java.md") if block.language == "kotlin"]
        assert len(blocks) == 1 and blocks[0].file == "Ask.kt", blocks
        (programs / "Ask.kt").write_text(blocks[0].text)
        maven = call("mvn", "-q", "-B", "-f", ROOT / "runtime/bindings/kotlin/pom.xml", f"-Dmaven.repo.local={REPOSITORY}",
                     f"-Dweft.jar={LIB / 'weft.jar'}", f"-Dweft.output={output}", f"-Dweft.programs={programs}", "package")
        if "Could not transfer" in maven.stdout or "offline mode" in maven.stdout:
            print(maven.stdout)
            sys.exit(77)
        assert maven.returncode == 0, maven.stdout
        jars = [LIB / "weft.jar", *output.glob("weft-kotlin-*.jar")]
        pom = (ROOT / "runtime/bindings/kotlin/pom.xml").read_text()
        kotlin, coroutines = re.search(r"<kotlin.version>(.*)<", pom)[1], re.search(r"coroutines-core-jvm</artifactId>\s*<version>(.*)<", pom)[1]
        jars += [REPOSITORY / f"org/jetbrains/kotlin/kotlin-stdlib/{kotlin}/kotlin-stdlib-{kotlin}.jar",
                 REPOSITORY / f"org/jetbrains/kotlinx/kotlinx-coroutines-core-jvm/{coroutines}/kotlinx-coroutines-core-jvm-{coroutines}.jar"]
        support.BIN = LIB.parent / "bin"
        for words, expected in ((["FlowTestKt", str(support.thinks()), str(ROOT / "tests/model/golden_whisper/speech")], r"Kotlin: ok\n"),
                                (["AskKt", "set a timer for 10 minutes"],
                                 r'Timer set for 10 minutes\.\n\{"action":"set_timer","minutes":10\}\n\d+ tokens\n')):
            done = call("java", "-Xcheck:jni", f"-Djava.library.path={LIB}", "-cp", ":".join(map(str, jars)), *words)
            assert done.returncode == 0 and re.fullmatch(expected, done.stdout), done.stdout
            print("passed:", *words)


main()
