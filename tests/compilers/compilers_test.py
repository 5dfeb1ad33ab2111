#!/usr/bin/env python3
"""compilers_test.py: the report of `./run compilers`, without a driver: what its statistics mean, its budgets, its files.

recorded.json has what each driver of Mesa 26.1.6 (V3DV: 26.2.6) said of one pipeline of Weft's.
"""
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "apps/compilers"))
import drivers
import models
import report
import root as roots

RECORDED = json.loads((HERE / "recorded.json").read_text())

# Stands for weft-compilers: of its three pipelines one never ends and one ends the program. The good one's code has the fingerprint f1.
FAKE = """#!/bin/sh
skipped="$*"
said() { printf '%s\\n' "$1"; }
said '{"device": {"name": "D", "driver": "radv", "driver_info": "Mesa 1", "plan": {"split": 4}}}'
said '{"model": "smollm2-135m", "format": "q8", "layers": 30, "token": {"first_layer": {"dispatches": 14, "barriers": 13}, "layer": {"dispatches": 10, "barriers": 9}, "rest": {"dispatches": 4, "barriers": 5}}}'
said '{"pipelines": {"hang": "f0", "good": "f1", "crash": "f2"}}'
known="$(cat "$(printf '%s' "$1" | sed 's/--known=//')")"
for label in hang good crash; do
  case "$skipped" in *--skip=$label*) continue ;; esac
  case "$label $known" in "good "*f1*) continue ;; esac
  said "{\\"compiling\\": \\"$label\\"}"
  [ $label = hang ] && exec sleep 60
  [ $label = crash ] && kill -9 $$
  said 'a driver says something'
  said "{\\"compiled\\": \\"$label\\", \\"cpu_seconds\\": 0.5, \\"statistics\\": {\\"Instructions\\": 7, \\"VGPRs\\": 8, \\"Spilled VGPRs\\": 0}}"
done
"""


class Statistics(unittest.TestCase):
    def test_each_driver(self):
        expected = {
            "radv": (206, 40, 24, 0, 0, 2753),
            "turnip Mesa driver": (2443, 48, 4, 220, None, 360),
            "NVK": (710, 32, 64, 0, 0, 82726),
            "Honeykrisp": (247, 63, 1024, 0, 0, 272),
            "panvk": (1209, 64, 1, 176, None, 265),
            "Imagination open-source Mesa driver": (793, 48, None, 0, 0, None),
            "V3DV Mesa": (1305, None, 2, 3, 4672, None),
        }
        self.assertEqual(set(RECORDED), set(expected))
        for driver, numbers in expected.items():
            wanted = {name: number for name, number in zip(drivers.COLUMNS, numbers) if number is not None}
            self.assertEqual(drivers.columns_of(driver, RECORDED[driver]), wanted, driver)

    def test_memory_that_a_driver_spills_to(self):
        for driver, name in (("radv", "Spilled SGPRs"), ("NVK", "Fills from memory"), ("Honeykrisp", "Spills"), ("Imagination", "Spill count")):
            recorded = next(values for known, values in RECORDED.items() if known.startswith(driver))
            self.assertEqual(drivers.columns_of(driver, {**recorded, name: 3})["spills"], 3)
        self.assertEqual(drivers.columns_of("NVK", {**RECORDED["NVK"], "SLM size": 32})["scratch"], 32)

    def test_what_is_not_known_is_no_zero(self):
        with self.assertRaises(KeyError):
            drivers.columns_of("a new driver", RECORDED["radv"])
        with self.assertRaises(KeyError):  # a driver has renamed them
            drivers.columns_of("radv", {"Instructions": 1, "Registers spilled": 0})

    def test_ci_has_every_driver_of_its_architecture(self):
        of_ci = {drivers.CHIPS[name].driver for name in drivers.CI}
        self.assertEqual(of_ci, {chip.driver for chip in drivers.CHIPS.values() if chip.architecture == "amd64"})
        self.assertEqual(len(drivers.CI), 6)


class Report(unittest.TestCase):
    def test_budgets(self):
        budget, good = report.Budget(), {"instructions": 1, "spills": 0, "scratch": 0, "ms": 9000}
        self.assertEqual(report.over(good, budget), "")
        self.assertEqual(report.over({**good, "spills": 2}, budget), "2 spills")
        self.assertEqual(report.over({**good, "scratch": 64, "ms": 10100}, budget), "64 scratch, 10.1 s to compile")
        self.assertEqual(report.over(good, report.Budget(seconds=8)), "9.0 s to compile")
        self.assertEqual(report.over({"refused": "no"}, budget), "no")

    def test_too_many_commands(self):
        one = {"dispatches": 5, "barriers": 5}
        count = {"layers": 30, "token": {"first_layer": one, "layer": one, "rest": one}}
        self.assertEqual(report.over_commands({"models": {("smollm2-135m", "q8"): count, ("gpt2-124m", "q8"): {**count, "layers": 99}}}), {})
        count["token"] = {**count["token"], "layer": {"dispatches": 5, "barriers": 6}}
        self.assertEqual(report.over_commands({"models": {("smollm2-135m", "q8"): count}}),
                         {"smollm2-135m q8": "155 dispatches and 184 barriers a token"})

    def root(self, folder):
        root = mock.Mock(spec=roots.Root, folder=folder)
        root.command.side_effect = lambda program, shim: [str(program)]
        root.driver.return_value = "none"
        (folder / "packages").write_text("mesa_1.deb")
        return root

    def compiled(self, limit, folder=None, fake=FAKE):
        with tempfile.TemporaryDirectory() as work:
            program = pathlib.Path(work) / "fake"
            program.write_text(fake)
            program.chmod(0o755)
            folder = folder or pathlib.Path(work)
            chip, root = drivers.CHIPS["navi21"], self.root(folder)
            return report.compile_for(chip, program, root, [], report.Budget(limit=limit), report.Known(chip, root, folder))

    def test_a_pipeline_that_does_not_end_or_crashes(self):
        rows = report.rows_of(self.compiled(1))
        self.assertEqual(rows["good"], {"instructions": 7, "registers": 8, "spills": 0, "ms": 500})
        for label in ("hang", "crash"):
            self.assertIn("stopped after 1 s", report.over(rows[label], report.Budget()))

    def test_a_compiler_is_asked_once(self):
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            first = self.compiled(1, folder)
            now = FAKE.replace(": 7,", ": 9,")
            self.assertNotEqual(now, FAKE)
            second = self.compiled(1, folder, now)
            self.assertEqual(report.rows_of(second), report.rows_of(first))  # what failed was asked again
            self.assertEqual(second["pipelines"]["good"]["statistics"]["Instructions"], 7)
            changed = self.compiled(1, folder, now.replace("f1", "f3"))
            self.assertEqual(changed["pipelines"]["good"]["statistics"]["Instructions"], 9)
            self.assertEqual(self.compiled(1, folder, now)["pipelines"]["good"]["statistics"]["Instructions"], 9)  # f1 is forgotten
            kept = next(folder.glob("known/*"))
            kept.write_text("{")
            self.assertEqual(self.compiled(1, folder)["pipelines"]["good"]["statistics"]["Instructions"], 7)
            root = self.root(folder)
            self.assertIn("f1", report.Known(drivers.CHIPS["navi21"], root, folder).results)
            (folder / "packages").write_text("mesa_2.deb")
            self.assertEqual(report.Known(drivers.CHIPS["navi21"], root, folder).results, {})
            slow = self.compiled(1, folder, FAKE.replace(": 0.5", ": 11"))  # may have been the machine's fault
            self.assertEqual(slow["pipelines"]["good"]["cpu_seconds"], 0.5)
            kept.unlink()
            self.compiled(1, folder, FAKE.replace(": 0.5", ": 11"))
            self.assertEqual(json.loads(kept.read_text()), {})

    def test_files(self):
        result = self.compiled(1)
        result["device"]["plan"] |= {"tile_tokens": 64, "block_tokens": 8}
        rows = report.rows_of(result)
        chip = drivers.CHIPS["navi21"]
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            text = report.write([(chip, result, rows)], "amd64", report.Budget(), folder).read_text()
            self.assertIn("| navi21 | D | 64 | 8 | 4 | 3 | 2 | 0.50 | 0.5 | 308 | 279 |", text)
            self.assertEqual(report.read_tables(text)["navi21"]["good"], {"instructions": 7, "registers": 8, "spills": 0})
            old = folder / "2000-01-01-amd64.md"
            old.write_text(text.replace("| `good` | 7 ", "| `good` | 9 ").replace("| `hang` |", "| `old` |"))
            alone = report.write([(chip, result, rows)], "amd64", report.Budget(), folder, ["navi21"])
            self.assertEqual(alone.name, f"{report.today_is()}-amd64-navi21.md")
            self.assertIn("| instructions 9 |", alone.read_text())
            self.assertTrue(old.exists())
            (folder / "2000-01-01-arm64.md").touch()
            text = report.write([(chip, result, rows)], "amd64", report.Budget(), folder).read_text()
            self.assertIn("| instructions 9 |", text)
            self.assertRegex(text, r"`hang`.*\| new \|")
            self.assertIn("No longer selected: `old`", text)
            self.assertFalse(old.exists())
            self.assertTrue(alone.exists() and (folder / "2000-01-01-arm64.md").exists())
            # The other chips have only their pipelines over a budget.
            text = report.write([(drivers.CHIPS["vega10"], result, rows)], "amd64", report.Budget(), folder).read_text()
            self.assertNotIn("## vega10", text)
            self.assertIn("- vega10: `hang`: the compiler crashed", text)

    def test_a_subgroup_variant_is_compared_with_the_plain_one_before_it(self):
        before = {"matmul 1": {"instructions": 9}, "norm 2": {}, "norm subgroup 2": {}}
        self.assertEqual(report.earlier_label("matmul subgroup 1", before), "matmul 1")
        self.assertEqual(report.earlier_label("norm subgroup 2", before), "norm subgroup 2")
        self.assertIsNone(report.earlier_label("project subgroup 1", before))

    def test_models_are_whole(self):
        with tempfile.TemporaryDirectory() as work:
            folders = models.write(pathlib.Path(work))
            self.assertEqual(len(folders), 9)
            for folder in folders:
                size = (folder / "model.safetensors").stat().st_size
                with open(folder / "model.safetensors", "rb") as file:
                    length = int.from_bytes(file.read(8), "little")
                    header = json.loads(file.read(length))
                self.assertEqual(size, 8 + length + max(tensor["data_offsets"][1] for tensor in header.values()))


if __name__ == "__main__":
    unittest.main()
