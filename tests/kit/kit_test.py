"""The kit for bare machines: results that a step keeps of a program, and the tables of the results. `./run kit --run --quick` rehearses the whole."""
import argparse
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "apps/kit"), str(SOURCE / "apps/bench")]
import kit_report
import measure


class Steps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        measure.KIT = pathlib.Path(self.folder.name)
        (measure.KIT / "commit").write_text("abc")
        self.kit = measure.Kit(argparse.Namespace(out=measure.KIT, minutes=1, quick=True, device=None))

    def saved(self):
        return json.loads((measure.KIT / "weft-kit.json").read_text())["steps"]

    def test_a_result_is_kept(self):
        value = self.kit.step("one", 10, ["echo", '{"x": 1}'], json.loads)
        self.assertEqual(value, {"x": 1})
        self.assertEqual((self.saved()[0]["exit"], self.saved()[0]["result"]), (0, {"x": 1}))

    def test_what_fails_says_why_and_the_next_step_runs(self):
        self.assertIsNone(self.kit.step("fails", 10, ["sh", "-c", "echo why >&2; exit 3"], json.loads))
        self.assertIsNone(self.kit.step("no json", 10, ["echo", "text"], json.loads))
        self.assertIsNone(self.kit.step("absent", 10, ["/nonexistent"]))
        self.assertIsNone(self.kit.step("slow", 1, ["sh", "-c", "echo began; sleep 30"]))
        fails, no_json, absent, slow = self.saved()
        self.assertEqual((fails["exit"], fails["errors"]), (3, "why\n"))
        self.assertIn("unreadable", no_json["exit"])
        self.assertEqual(no_json["output"], "text\n")
        self.assertEqual(absent["exit"], "not started")
        self.assertEqual((slow["exit"], slow["output"]), ("timeout", "began\n"))

    def test_no_step_begins_after_the_time(self):
        self.kit.end = 0
        self.kit.step("late", 10, ["echo"])
        self.assertEqual(self.saved()[0], {"name": "late", "left_out": "no time"})


class Tables(unittest.TestCase):
    RESULT = {"date": "2026-11-27T09:00:00Z", "commit": "abc", "machine": {"system": "Linux", "cores": 2}, "quick": False, "steps": [
        {"name": "devices", "exit": 0, "seconds": 1, "result": {"devices": [{"name": "A card", "driver": "a driver"}]}},
        {"name": "tests", "exit": 1, "result": [
            {"program": "ops", "plan": "driver", "shard": 0, "exit": 1, "seconds": 3.0, "tests": 10, "skipped": 1, "failed": ["A.B: wrong\nmore"]},
            {"program": "ops", "plan": "driver", "shard": 1, "exit": 0, "seconds": 4.0, "tests": 9, "skipped": 0, "failed": []},
            {"program": "head", "plan": "gpu", "shard": 0, "exit": "timeout", "seconds": 9.0, "last": "x"}]},
        {"name": "weft, 1b q4_1", "exit": 0, "seconds": 2, "result": {
            "prompt_tokens_per_s": 300.0, "decode_tokens_per_s": 30.0, "bytes_per_token": 2**20, "read_gb_per_s": 50.0, "device_read_gb_per_s": 100.0,
            "cpu_s_per_token": {"calling_thread": 1e-5}}},
        {"name": "llama.cpp, 1b q4_1", "exit": 0, "seconds": 2, "result": [{"n_prompt": 512, "n_gen": 0, "avg_ts": 100.0}, {"n_prompt": 0, "n_gen": 128, "avg_ts": 40.0}]},
        {"name": "16 sessions", "exit": "timeout", "seconds": 60, "errors": "first\nlast\n"},
        {"name": "contexts", "left_out": "no time"}]}

    def test_counts_ratios_and_failures_are_there(self):
        text = kit_report.render(self.RESULT)
        self.assertIn("| ops | driver | 19 | 1 | 1 | 4.0 |  |", text)
        self.assertIn("| head | gpu | 0 | 0 | 0 | 9.0 | did not end |", text)
        self.assertIn("- A.B: wrong\n", text)
        self.assertIn("| 1b q4_1 | prompt | 300.0 | 100.0 | 3.00 |", text)
        self.assertIn("| 1b q4_1 | decoding | 30.0 | 40.0 | 0.75 |", text)
        self.assertIn("| 16 sessions | timeout | last |", text)
        self.assertIn("| contexts | no time |", text)

    def test_files_have_the_date_and_the_device(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "weft-kit.json"
            source.write_text(json.dumps(self.RESULT))
            self.assertEqual(kit_report.write(source, pathlib.Path(folder)).name, "2026-11-27-kit-a-card.md")


if __name__ == "__main__":
    unittest.main()
