#!/usr/bin/env python3
"""fuzz.py with fake targets: its arguments for them, the inputs that it keeps, and its messages."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("fuzz.py")
# Takes libFuzzer's arguments. The target "bad" breaks once.
FAKE = '''
import pathlib, sys
options = [a for a in sys.argv[2:] if a.startswith("-")]
folders = [a for a in sys.argv[2:] if not a.startswith("-")]
if "-merge=1" in options:
    pathlib.Path(folders[0], "small").write_text("x")
    sys.exit(0)
values = dict(a[1:].split("=", 1) for a in options)
assert values["timeout"] == "10" and values["dict"] == "words" and int(values["max_total_time"]) >= 1, options
assert len(folders) == 2 and folders[1].endswith("seeds") and folders[0].endswith(sys.argv[1] + "/corpus"), folders
pathlib.Path(folders[0], "large").write_text("xx")
print("stat::number_of_executed_units: 1000")
if sys.argv[1] == "bad":
    pathlib.Path(values["artifact_prefix"] + "crash-1").write_text("!")
    sys.exit(77)
'''


class FuzzScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "fake.py").write_text(FAKE)
        for name in ("seeds", "found"):
            (self.folder / name).mkdir()
        lines = []
        for name in ("good", "bad"):
            command = [sys.executable, str(self.folder / "fake.py"), name, "-max_total_time=10", "-timeout=10",
                       "-artifact_prefix=elsewhere", str(self.folder / "found"), "-dict=words", str(self.folder / "seeds")]
            lines += [f"add_test(fuzz_{name} " + " ".join(f'"{part}"' for part in command) + ")",
                      f"set_tests_properties(fuzz_{name} PROPERTIES LABELS fuzz)"]
        (self.folder / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")

    def run_script(self, *arguments):
        env = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        return subprocess.run([sys.executable, str(SCRIPT), str(self.folder), *arguments], env=env, capture_output=True, text=True,
                              check=False)

    def test_all_targets_by_turns(self):
        done = self.run_script("0.0008")
        self.assertEqual(done.returncode, 1, done.stderr)
        last = done.stdout[done.stdout.index("In all:"):]
        for name, findings in ("good", 0), ("bad", 1):
            self.assertRegex(last, rf"{name} +[12],000 executions +\d+ s +{findings} findings +1 inputs kept")
        self.assertIn(f"finding: {self.folder}/cache/weft/fuzz/bad/found/crash-1", last)
        self.assertEqual([p.name for p in (self.folder / "cache/weft/fuzz/good/corpus").iterdir()], ["small"])

    def test_one_target(self):
        done = self.run_script("0.0001", "good")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("bad", done.stdout)

    def test_wrong_arguments(self):
        self.assertIn("there is no target none: bad, good", self.run_script("1", "none").stderr)
        for hours, reason in ("0", "expected a number above 0"), ("-1", "expected a number above 0"), ("hours", "invalid float value"):
            self.assertIn(reason, self.run_script(hours).stderr)


unittest.main()
