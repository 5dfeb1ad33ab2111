"""Runs the Java library's tests (java/) with -Xcheck:jni, which must be silent; the programs of docs/java.md; and
a conversation that goes from Python to Java and back.

java_test.py BIN_DIR JAVA_HOME [unittest arguments]. WEFT_LIBRARY names libweft; weft.jar and libweft_jni.so lie beside it. WEFT_WHEEL:
the folder of an installed wheel, whose own libweft Python then uses. WEFT_PRELOAD: the runtime of the sanitizer that libweft is built with.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/apps"), os.environ.get("WEFT_WHEEL", str(ROOT / "runtime/bindings/python"))]
import pages
import test_listen
from support import ENV, FOLDER, bert, chatty, model, thinks, weft

os.environ["WEFT_CACHE_DIR"] = ENV["WEFT_CACHE_DIR"]
LIB = pathlib.Path(os.environ["WEFT_LIBRARY"]).parent
if "WEFT_WHEEL" in os.environ:
    del os.environ["WEFT_LIBRARY"]

JDK = pathlib.Path(sys.argv[2]) / "bin"
CLASSES = f"{LIB / 'weft.jar'}:{FOLDER / 'classes'}"
(FOLDER / "classes").mkdir()
PRELOAD = os.environ.get("WEFT_PRELOAD")


def call(*argv, env=None):
    done = subprocess.run([str(word) for word in argv], cwd=FOLDER, env=env, text=True, timeout=900, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}"
    return done.stdout


def compile_java(*sources):
    call(JDK / "javac", "--release", "11", "-Xlint:all", "-Werror", "-cp", CLASSES, "-d", FOLDER / "classes", *sources)


def command(*words):
    cycles = ["-Dcycles=300"] if PRELOAD else []  # a sanitizer takes its time
    return [JDK / "java", "-Xcheck:jni", *cycles, f"-Djava.library.path={LIB}", "-cp", CLASSES, *words]


def java(*words):
    """Runs a Java program; its output has no word of -Xcheck:jni."""
    said = call(*command(*words), env={**os.environ, "LD_PRELOAD": PRELOAD} if PRELOAD else None)
    assert not any(word in said for word in ("WARNING", "FATAL", "JNI call", "JNI local refs")), said
    return said


class Java(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compile_java(*(ROOT / "tests/bindings/java").glob("*.java"))

    def test_the_library(self):
        bert()
        chatty()
        model("lora", "--lora", 2)
        thinks()
        (FOLDER / "speech").symlink_to(ROOT / "tests/model/golden_whisper/speech")
        said = java("BindingTest", FOLDER)
        print(said)
        self.assertRegex(said, r"\n\d\d tests, 0 failed\n$")

    def test_rules_of_android(self):
        """R8 and ProGuard keep each method that libweft_jni.so finds by name."""
        code = (ROOT / "runtime/bindings/java/weft_jni.cpp").read_text()
        rules = (ROOT / "apps/android/weft-android/consumer-rules.pro").read_text()
        found = re.findall(r'FindClass\("weft/(\w+)"\)\), "(\w+)"', code) + [(name, "<init>") for name in re.findall(r'global_class\(env, "weft/(\w+)"', code)]
        self.assertGreater(len(found), 8)
        for name, method in found:
            self.assertRegex(rules, rf"(class|interface) weft\.{name} {{[^}}]*[ ]{re.escape(method)}\(")

    def test_a_conversation_goes_from_python_to_java_and_back(self):
        """Through descriptors: a pipe to Java, and a file from it."""
        import weft  # here: Python cannot load a libweft with sanitizers
        with open(FOLDER / "java.session", "w+b") as file, weft.Model() as model, model.session(seed=11, temperature=1.5, top_k=0, ignore_stop_tokens=True) as session:
            session.chat("set a timer for 10 minutes", max_tokens=9).text()
            words = list(map(str, command("GoOn", 12)))
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.PIPE, cwd=FOLDER) as process:
                session.save(process.stdin)
                said = process.communicate(timeout=300)[1].decode().splitlines()
            self.assertEqual(process.returncode, 0, said)
            expected = session.generate(max_tokens=12)
            expected.text()
            self.assertEqual(json.loads(said[0])["messages"], session.messages)
            self.assertEqual(json.loads(said[1]), expected.ids)
            rest = session.generate(max_tokens=12)
            rest.text()
            session.reset()
            file.seek(0)
            self.assertEqual(session.restore(file), "from Java")
            again = session.generate(max_tokens=12)
            again.text()
            self.assertEqual(again.ids, rest.ids)

    def test_programs_of_the_page(self):
        blocks = [block for page in ("java", "listening") for block in pages.blocks(ROOT / f"docs/{page}.md") if block.language == "java"]
        self.assertEqual(len(blocks), 3)
        for block in blocks:
            self.assertTrue(block.file, block.place)
            (FOLDER / block.file).write_text(block.text)
            compile_java(FOLDER / block.file)
        said = java("Ask", "set a timer for 10 minutes")
        self.assertRegex(said, r'^Timer set for 10 minutes\.\n\{"action":"set_timer","minutes":10\}\n\d+ tokens, \d+\.\d tokens/s\n$')
        self.assertRegex(java("Keep"), r"^(one|two|three), (one|two|three)\nCALLER\na note of your own, \d+ tokens\n$")
        (FOLDER / "hello.wav").write_bytes(test_listen.wav(test_listen.whistle(seconds=1)))
        whisper = ROOT / "tests/model/golden_whisper/speech"
        heard = json.loads(weft("listen", "-m", whisper, "--format", "json", FOLDER / "hello.wav")[0])["segments"]
        self.assertGreater(len(heard), 0)
        self.assertEqual(java("Hear", whisper, FOLDER / "hello.wav"), "".join(f"{one['start']}{one['text']}\n" for one in heard))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
