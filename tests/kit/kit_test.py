"""The kit for bare machines: the driver that it finds, what it keeps of programs and tests, and the tables of the results.

`./run kit --run --quick` rehearses the whole.
"""
import argparse
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "apps/kit"), str(SOURCE / "apps/bench")]
import kit_report
import measure
import pack


class WithKit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        measure.KIT = pathlib.Path(self.folder.name)
        (measure.KIT / "commit").write_text("abc")
        for name in ("bin", "loader"):
            (measure.KIT / name).mkdir()
        (measure.KIT / "loader/libweft-nowhere.so.1").write_text("")
        (measure.KIT / "loader/libc.so.6").write_text("")
        self.messages = io.StringIO()
        silence = contextlib.redirect_stderr(self.messages)
        silence.__enter__()
        self.addCleanup(silence.__exit__, None, None, None)
        self.kit = self.new_kit()

    def new_kit(self, device=None):
        kit = measure.Kit(argparse.Namespace(out=measure.KIT, minutes=1, quick=True, device=device, part="all"))
        self.addCleanup(kit.close)
        return kit

    def program(self, name, text):
        path = measure.KIT / "bin" / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def saved(self):
        return json.loads((measure.KIT / "weft-kit.json").read_text())["steps"]

    def assert_ends(self, pid):
        """A process that nobody waits for may stay as a zombie."""
        for _ in range(100):
            try:
                if pathlib.Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.05)
        self.fail(f"process {pid} goes on")


class Steps(WithKit):
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


    def test_the_children_of_a_slow_step_end_with_it(self):
        self.kit.step("slow", 1, ["sh", "-c", "sleep 60 & echo $!; wait"])
        step = self.saved()[0]
        self.assertEqual(step["exit"], "timeout")
        self.assertLess(step["seconds"], 5)
        self.assert_ends(step["output"])

    def test_stop_ends_what_runs_and_nothing_begins(self):
        thread = threading.Thread(target=self.kit.step, args=("long", 50, ["sh", "-c", "sleep 60 & echo $!; wait"]))
        thread.start()
        while not self.kit.running:
            time.sleep(0.01)
        time.sleep(0.3)
        self.kit.stop()
        thread.join(10)
        self.assertFalse(thread.is_alive())
        self.kit.step("next", 10, ["echo"])
        self.assertEqual((self.saved()[0]["exit"], self.saved()[1].get("left_out")), (-9, "no time"))
        self.assert_ends(self.saved()[0]["output"])

    def test_libraries_that_the_machine_lacks_are_lent(self):
        self.assertEqual([file.name for file in self.kit.loader.iterdir()], ["libweft-nowhere.so.1"])
        self.assertIn(str(self.kit.loader), self.kit.environment["LD_LIBRARY_PATH"].split(":"))

    def test_libraries_are_those_of_this_architecture(self):
        listing = "\tlibX11.so.6 (libc6) => /lib/i386/libX11.so.6\n\tlibX11.so.6 (libc6,x86-64) => /lib/x86/libX11.so.6\n\tlibX11.so (libc6,x86-64) => /x\n"
        self.assertEqual(pack.path_in(listing, "libX11.so.6"), "/lib/x86/libX11.so.6")
        self.assertIsNone(pack.path_in(listing, "libXext.so.6"))

    def test_the_work_lies_beside_the_kit(self):
        self.assertEqual(self.kit.work.parent, measure.KIT.parent)
        with unittest.mock.patch("os.access", return_value=False), unittest.mock.patch("tempfile.tempdir", self.folder.name):
            self.assertEqual(self.new_kit().work.parent, measure.KIT)  # here the temporary folder

    def test_models_are_made_in_the_background_and_waited_for(self):
        self.program("weft-make-model", 'sleep 0.5; [ "$3" = bad ] && { echo "no such shape" >&2; exit 1; }; echo model > "$1"\n')
        begin = time.monotonic()
        self.kit.prepare("tiny", "q8_0")
        self.kit.prepare("bad", "q8_0")
        self.assertLess(time.monotonic() - begin, 0.4)
        self.assertEqual(self.kit.model("tiny", "q8_0").read_text(), "model\n")
        self.assertFalse(self.kit.model("bad", "q8_0").exists())
        self.kit.wait_for_models()
        good, bad = self.saved()
        self.assertEqual((good["name"], good["exit"], good["result"]), ("model, tiny q8_0", 0, 6))
        self.assertEqual((bad["name"], bad["exit"], bad["errors"]), ("model, bad q8_0", 1, "no such shape\n"))


class Drivers(WithKit):
    """A pretended `weft devices` finds a GPU by good.json, and by itself what the file `alone` says."""

    def setUp(self):
        super().setUp()
        self.program("weft", f"""case "$VK_DRIVER_FILES" in
*good.json) echo '{{"devices":[{{"name":"A card","kind":"discrete","index":0,"usable":true,"driver":"a driver"}}]}}' ;;
*hangs.json) sleep 60 ;;
*) cat {measure.KIT}/alone; echo "weft: there is no Vulkan device" >&2 ;;
esac
""")
        self.alone()
        self.patterns = (f"{measure.KIT}/local/*/share/vulkan/icd.d", f"{measure.KIT}/etc/icd.d")

    def alone(self, *devices):
        (measure.KIT / "alone").write_text(json.dumps({"devices": [
            {"name": name, "kind": kind, "index": index, "usable": True, "driver": "one"} for index, (name, kind) in enumerate(devices)]}))

    def driver(self, path, library="libweft-nowhere.so.7"):
        file = measure.KIT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"ICD": {"library_path": library}}))
        return file

    def search(self, kit=None):
        """Result of the step `vulkan drivers`, after a search for devices."""
        self.found = measure.find_devices(kit or self.kit, self.patterns)
        return next(step for step in self.saved() if step["name"] == "vulkan drivers")["result"]

    def test_a_gpu_that_the_loader_finds_is_taken(self):
        self.alone(("A card", "discrete"))
        self.driver("etc/icd.d/good.json")
        step = self.search()
        self.assertTrue(self.found)
        self.assertEqual((step["chosen"], len(step["tries"])), (None, 1))
        self.assertNotIn("good.json", self.kit.environment.get("VK_DRIVER_FILES", ""))

    def test_drivers_are_found_where_the_loader_does_not_look(self):
        self.driver("etc/icd.d/bad.json")
        good = self.driver("local/nvidia/share/vulkan/icd.d/good.json", "libc.so.6")
        (measure.KIT / "etc/icd.d/good_too.json").symlink_to(good)
        self.alone(("llvmpipe", "cpu"))
        step = self.search()
        self.assertTrue(self.found)
        self.assertEqual(step["chosen"], str(good))
        self.assertEqual(step["tries"][0]["devices"], ["llvmpipe (cpu)"])
        self.assertEqual(step["tries"][1], {"file": str(good), "exit": 0, "devices": ["A card (discrete)"], "library": "libc.so.6", "problem": "", "errors": ""})
        # All programs use it.
        self.kit.step("later", 10, ["sh", "-c", "echo $VK_DRIVER_FILES $VK_ICD_FILENAMES"])
        self.assertEqual(self.saved()[-1]["output"], f"{good} {good}\n")
        self.assertEqual([device["name"] for device in self.kit.devices], ["A card"])
        self.assertNotIn("ONLY", self.messages.getvalue())

    def test_without_a_device_the_step_says_why(self):
        self.driver("etc/icd.d/bad.json")
        step = self.search()
        self.assertFalse(self.found)
        self.assertIn("there is no Vulkan device", step["tries"][0]["errors"])
        self.assertIn("libweft-nowhere.so.7", step["tries"][1]["problem"])
        self.assertIn("can use no Vulkan device", self.messages.getvalue())

    def test_with_a_cpus_driver_alone_it_says_so_and_goes_on(self):
        self.alone(("llvmpipe", "cpu"))
        self.driver("etc/icd.d/bad.json")
        step = self.search()
        self.assertTrue(self.found)
        self.assertIsNone(step["chosen"])
        self.assertIn("ONLY A CPU'S DRIVER was found, llvmpipe", self.messages.getvalue())
        self.assertIn("Only a CPU's driver was found", kit_report.render(self.kit.result))

    def test_llama_cpp_gets_the_device_that_weft_uses(self):
        for device, used, index in ((None, "second card", "2"), ("2", "a card", "2"), ("SECOND", "second card", "2"), (None, None, "0")):
            kit = self.new_kit(device)
            kit.devices = [{"index": 1, "name": "a card"}, {"index": 2, "name": "second card"}]  # device 0 is not usable
            self.assertEqual(measure.device_index(kit, used), index)

    def test_a_device_that_was_asked_for_needs_no_gpu(self):
        self.alone(("llvmpipe", "cpu"))
        self.driver("etc/icd.d/good.json")
        self.assertEqual(len(self.search(self.new_kit("LLVM"))["tries"]), 1)


class TestPrograms(WithKit):
    FAILURES = r"""[==========] Running 4 tests from 1 test suite.
[ RUN      ] A.Good
[       OK ] A.Good (3 ms)
[ RUN      ] A.Skipped
../../a_test.cpp:5: Skipped
no such device
[  SKIPPED ] A.Skipped (0 ms)
[ RUN      ] A.Bad
../../a_test.cpp:7: Failure
Expected: (distance) < (kTolerance), actual: 0.001 vs 0.0005
after 1 tokens
../../a_test.cpp:7: Failure
Expected: (distance) < (kTolerance), actual: 0.003 vs 0.0005
after 2 tokens

[  FAILED  ] A.Bad (5 ms)
[ RUN      ] A.Slow
../../a_test.cpp:9: Failure
The difference between x and y is 2e-05, which exceeds 1e-05, where
"""
    BAD = [{"test": "A.Bad", "text": "../../a_test.cpp:7\nExpected: (distance) < (kTolerance), actual: 0.003 vs 0.0005\nafter 2 tokens", "count": 2}]
    SLOW = [{"test": "A.Slow", "text": "../../a_test.cpp:9\nThe difference between x and y is 2e-05, which exceeds 1e-05, where", "count": 1}]

    def test_an_incomplete_output_shows_what_failed(self):
        self.assertEqual(measure.read_output(self.FAILURES), {"tests": 3, "skipped": 1, "failed": self.BAD + self.SLOW, "running": "A.Slow"})
        self.assertEqual(measure.read_output("[ RUN      ] B.C/0\n[  FAILED  ] B.C/0, where GetParam() = 1 (2 ms)\n[  FAILED  ] B.C/0, where GetParam() = 1\n"),
                         {"tests": 1, "skipped": 0, "failed": [{"test": "B.C/0", "text": "failed", "count": 1}], "running": ""})
        self.assertEqual(measure.read_output(""), {"tests": 0, "skipped": 0, "failed": [], "running": ""})

    def test_failures_that_differ_in_numbers_are_one(self):
        one = measure.merged([("A.B", "x.cpp:1\nx is 3e-5, which exceeds 1e-5"), ("A.B", "x.cpp:1\nx is 0.25, which exceeds 1e-5"), ("A.B", "x.cpp:2\nx is 1, which exceeds 0"),
                              ("A.C", "x.cpp:1\nx is 3e-5, which exceeds 1e-5"), ("A.B", "x.cpp:1\nx is nan, which exceeds 1e-5")])
        self.assertEqual([(entry["test"], entry["count"]) for entry in one], [("A.B", 2), ("A.B", 1), ("A.C", 1), ("A.B", 1)])
        self.assertIn("0.25", one[0]["text"])
        self.assertEqual(measure.error_of("actual: nan vs 1"), float("inf"))

    def test_a_killed_program_keeps_its_failures(self):
        (measure.KIT / "output").write_text(self.FAILURES)
        self.program("a_test", f"cat {measure.KIT}/output; sleep 60\n")
        run = measure.one_test(self.kit, "a", "gpu", 3, 8, 2)
        self.assertEqual((run["exit"], run["ended"], run["tests"], run["running"], run["failed"]), ("timeout", False, 3, "A.Slow", self.BAD + self.SLOW))
        self.assertEqual(measure.one_test(self.kit, "a", "", 0, 8, 0.5)["exit"], "no time")

    def test_a_report_is_read(self):
        report = {"tests": 2, "testsuites": [{"name": "A", "testsuite": [
            {"name": "Bad", "result": "COMPLETED", "failures": [{"failure": "a.cpp:1\nno"}, {"failure": "a.cpp:1\nno"}]}, {"name": "Other", "result": "SKIPPED"}]}]}
        (measure.KIT / "report").write_text(json.dumps(report))
        self.program("a_test", f'cp {measure.KIT}/report "${{1#--gtest_output=json:}}"; echo "$GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS, $WEFT_TEST_PLAN" >{measure.KIT}/shard; exit 1\n')
        run = measure.one_test(self.kit, "a", "gpu", 3, 8, 20)
        self.assertEqual((measure.KIT / "shard").read_text(), "3 of 8, gpu\n")
        self.assertEqual((run["exit"], run["ended"], run["tests"], run["skipped"]), (1, True, 2, 1))
        self.assertEqual(run["failed"], [{"test": "A.Bad", "text": "a.cpp:1\nno", "count": 2}])

    def test_the_most_valuable_are_first(self):
        jobs = measure.test_jobs(False)
        order = list(dict.fromkeys((plan, name) for name, plan, _, _ in jobs))
        self.assertEqual([name for plan, name in order if not plan], ["forward", "session", "batch", "head", "families", "tiles", "types", "pocket", "draft", "tuning",
                                                                      "gpu", "long_context", "ops", "vocab"])
        self.assertEqual([plan for plan, _ in order], sorted(plan for plan, _ in order))
        self.assertEqual([job for job in jobs if job[:2] == ("ops", "")], [("ops", "", index, 16) for index in range(16)])
        self.assertEqual([measure.processes(cores) for cores in (1, 2, 6, 16, 64)], [2, 2, 4, 8, 8])

    def test_all_programs_run_and_the_step_says_how_many_failed(self):
        for name in measure.TEST_PROGRAMS:
            self.program(f"{name}_test", 'echo \'{"tests": 1, "testsuites": []}\' > "${1#--gtest_output=json:}"\n')
        self.program("head_test", "exit 3\n")
        self.assertFalse(measure.run_tests(self.kit, 30))
        step = self.saved()[0]
        self.assertEqual((step["exit"], len(step["result"])), (1, len(measure.TEST_PROGRAMS) + len(measure.AS_GPU)))
        self.assertEqual({run["program"] for run in step["result"] if run["exit"] != 0}, {"head"})
        self.assertIn("2 runs failed or did not end, 0 had no time", self.messages.getvalue())


class Tables(unittest.TestCase):
    RESULT = {"date": "2026-11-27T09:00:00Z", "commit": "abc", "machine": {"system": "Linux", "cores": 2}, "quick": False, "steps": [
        {"name": "devices", "exit": 0, "seconds": 1, "result": {"devices": [{"name": "A card", "driver": "a driver"}]}},
        {"name": "tests", "exit": 1, "result": [
            {"program": "ops", "plan": "driver", "shard": 0, "exit": 1, "seconds": 3.0, "ended": True, "tests": 10, "skipped": 1, "failed": [
                {"test": "A.B", "text": "../../a.cpp:1\nactual: 0.001 vs 0", "count": 3}]},
            {"program": "ops", "plan": "driver", "shard": 1, "exit": "timeout", "seconds": 4.0, "ended": False, "running": "A.D", "tests": 9, "skipped": 0, "failed": [
                {"test": "A.B", "text": "../../a.cpp:1\nactual: 0.002 vs 0", "count": 2}, {"test": "A.C", "text": "failed", "count": 1}]},
            {"program": "vocab", "plan": "driver", "shard": 0, "exit": "no time", "seconds": 0.0, "ended": False, "tests": 0, "failed": []},
            # As kits before 2026-11-28 wrote them.
            {"program": "tiles", "plan": "driver", "shard": 0, "exit": 1, "seconds": 5.0, "tests": 1, "skipped": 0, "failed": ["T.H: wrong\nmore", "T.H: wrong\nmore"]},
            {"program": "head", "plan": "gpu", "shard": 0, "exit": "timeout", "seconds": 9.0, "last": "x"}]},
        {"name": "weft, 1b q4_1", "exit": 0, "seconds": 2, "result": {
            "prompt_tokens_per_s": 300.0, "decode_tokens_per_s": 30.0, "bytes_per_token": 2**20, "read_gb_per_s": 50.0, "device_read_gb_per_s": 100.0,
            "cpu_s_per_token": {"calling_thread": 1e-5}}},
        {"name": "llama.cpp, 1b q4_1", "exit": 0, "seconds": 2, "result": [{"n_prompt": 512, "n_gen": 0, "avg_ts": 100.0}, {"n_prompt": 0, "n_gen": 128, "avg_ts": 40.0}]},
        {"name": "16 sessions", "exit": "timeout", "seconds": 60, "errors": "first\nlast\n"},
        {"name": "tune", "exit": 0, "seconds": 2, "result": {"chosen": {"split": 4}, "trials": [
            {"name": "split", "value": 4, "seconds": 2e-5, "refusal": ""}, {"name": "split", "value": 2, "seconds": 3e-5, "refusal": ""}]}},
        {"name": "contexts", "left_out": "no time"}]}

    def test_counts_ratios_and_failures_are_there(self):
        text = kit_report.render(self.RESULT)
        self.assertIn("| ops | driver | 19 | 1 | 2 | 4.0 | 1 of 2 runs did not end, in A.D |", text)
        self.assertIn("| head | gpu | 0 | 0 | 0 | 9.0 | 1 of 1 runs did not end |", text)
        self.assertIn("| vocab | driver | 0 | 0 | 0 | 0.0 | 1 of 1 had no time |", text)
        self.assertIn("- A.B, a.cpp:1, 5 times, the worst: `actual: 0.002 vs 0`\n", text)
        self.assertIn("- A.C, failed\n", text)
        self.assertIn("- T.H, wrong, 2 times, the worst: `more`\n", text)
        self.assertIn("| 1b q4_1 | prompt | 300.0 | 100.0 | 3.00 |", text)
        self.assertIn("| 1b q4_1 | decoding | 30.0 | 40.0 | 0.75 |", text)
        self.assertIn("| 16 sessions | timeout | last |", text)
        self.assertIn("| contexts | no time |", text)
        self.assertIn("| split | 4 | 20.0 | chosen |\n| split | 2 | 30.0 |  |", text)
        self.assertNotIn("## Settings", text)  # nothing to show
        self.assertNotIn("computed on the CPU", text)

    def test_a_peer_on_the_cpu_is_told(self):
        result = json.loads(json.dumps(self.RESULT))
        step = next(step for step in result["steps"] if step["name"].startswith("llama.cpp"))
        step["result"][0]["backends"] = "CPU"
        self.assertIn("computed on the CPU: 1b q4_1.", kit_report.render(result))

    def test_runs_and_contexts_have_tables(self):
        result = {**self.RESULT, "steps": [
            {"name": "16 sessions", "exit": 0, "seconds": 1, "result": {"prompt_tokens_per_s": 1, "decode_tokens_per_s": 5.0, "batch": {"decode_tokens_per_s": 70.0}}},
            {"name": "contexts", "exit": 0, "seconds": 1, "result": {"at": [
                {"position": 100, "device_seconds": 0.002, "dispatches": 9, "stages": [{"name": "attend", "seconds": 0.001}, {"name": "matmul", "seconds": 0.001}]}]}}]}
        text = kit_report.render(result)
        self.assertIn("| 16 sessions | 1.0 | 70.0 |", text)
        self.assertIn("| 100 | 2.00 | 9 | 1.00 |", text)

    def test_files_have_the_date_and_the_device(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "weft-kit.json"
            source.write_text(json.dumps(self.RESULT))
            self.assertEqual(kit_report.write(source, pathlib.Path(folder)).name, "2026-11-27-kit-a-card.md")


if __name__ == "__main__":
    unittest.main()
