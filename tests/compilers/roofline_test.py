#!/usr/bin/env python3
"""The plans of described GPUs, held to apps/bench/roofline.py: enough bytes in flight, and no lone workgroup whose work grows.

    tests/compilers/roofline_test.py build/release/bin
"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "apps" / "bench"), str(ROOT / "apps" / "compilers")]
import roofline  # noqa: E402

BINARIES = pathlib.Path(sys.argv.pop()) if len(sys.argv) > 1 else None
MODELS = ("smollm2-135m", "gemma3-270m", "llama3.2-1b")
CONTEXTS = (100, 4000)
LARGE = 1e6  # bytes of a product that must keep the memory busy
SMALL = 65536  # bytes that one workgroup may read
ALONE = 0.05  # of a token, the most that the device may wait for one workgroup


class Arithmetic(unittest.TestCase):
    """On a device and a dispatch that are made up."""

    GPU = roofline.gpu("made up", 10, 1000, 100, 500, 2, 100, 1, (1, 1), kind="discrete")
    PRODUCT = {"name": "matmul", "part": "layer 0", "groups": [1, 2, 1], "threads": 256, "bytes": [10_000_000],
               "constants": [1, 1, 4, 1, 0, 0, 0, 0, 0, 0, 64, 2]}

    def cost(self, groups):
        return roofline.cost_of(self.GPU, {}, "smollm2-135m", dict(self.PRODUCT, groups=[1, groups, 1]), 100)

    def test_few_workgroups_leave_the_memory_idle(self):
        cost = self.cost(2)
        self.assertEqual(cost.in_flight, 512 * 72)
        self.assertAlmostEqual(cost.seconds, 1e7 / (512 * 72 / 500e-9) + 2 * 500e-9 + 2e-6)
        self.assertEqual(cost.bound, "bytes in flight")
        self.assertLess(cost.in_flight, roofline.needed_in_flight(self.GPU, cost))

    def test_many_are_bound_by_bytes(self):
        cost = self.cost(400)
        self.assertEqual((cost.bound, cost.in_flight), ("bytes", 10_000 * 72))
        self.assertAlmostEqual(cost.seconds, 1e-4 + 2 * 500e-9 + 2e-6)

    def test_the_last_workgroup_joins_alone(self):
        dispatch = {"name": "filter", "part": "sampled", "groups": [1, 1, 1], "threads": 256, "bytes": [], "constants": []}
        cost = roofline.cost_of(self.GPU, {}, "smollm2-135m", dispatch, 100)
        self.assertEqual((cost.groups, cost.bytes), (24, 4 * 49152))
        self.assertAlmostEqual(cost.alone, 20 * 500e-9)
        lone = dict(dispatch, name="rotate")
        self.assertEqual(roofline.cost_of(self.GPU, {}, "smollm2-135m", lone, 100).alone, roofline.cost_of(self.GPU, {}, "smollm2-135m", lone, 100).seconds)

    def test_attention_reads_the_cache_once_for_its_heads(self):
        dispatch = {"name": "attend", "part": "layer 0", "groups": [3, 1, 64], "threads": 128, "bytes": [], "constants": [0] * 12 + [3, 4, 64]}
        cost = roofline.cost_of(self.GPU, {"attend_span": 64}, "smollm2-135m", dispatch, 1000)
        self.assertEqual(cost.bytes, 4 * 1000 * 3 * 64)
        self.assertEqual(cost.groups, 3 * 16)


@unittest.skipUnless(BINARIES, "needs weft-compilers")
class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.recorded = {gpu.name: roofline.record(BINARIES, gpu, MODELS) for gpu in roofline.GPUS}

    def each(self, ends=("end", "sampled")):
        for gpu in roofline.GPUS:
            dispatches, plan = self.recorded[gpu.name]
            for model in MODELS:
                for context in CONTEXTS:
                    for end in ends:
                        with self.subTest(gpu=gpu.name, model=model, context=context, end=end):
                            yield gpu, roofline.token(gpu, plan, model, dispatches[model], context, end)

    def test_products_keep_the_memory_busy(self):
        for gpu, costs in self.each():
            for cost in costs:
                if cost.name in ("matmul", "project") and cost.bytes > LARGE:
                    self.assertGreaterEqual(cost.in_flight, roofline.needed_in_flight(gpu, cost), cost)

    def test_no_lone_workgroup_grows(self):
        for _, costs in self.each(roofline.ENDS):
            for cost in costs:
                if cost.groups == 1:
                    self.assertLessEqual(cost.bytes, SMALL, cost)

    def test_no_lone_workgroup_takes_a_twentieth_of_a_token(self):
        for _, costs in self.each(roofline.ENDS):
            seconds = sum(cost.seconds for cost in costs)
            for cost in costs:
                self.assertLessEqual(cost.alone, ALONE * seconds, cost)

    def test_rows_of_a_workgroup_are_the_kernels(self):
        seen = set()
        for _, (dispatches, _) in zip(roofline.GPUS, self.recorded.values()):
            for dispatch in (one for model in MODELS for one in dispatches[model] if one["name"] in roofline.ROWS):
                groups = dispatch["groups"][1 if dispatch["name"] == "log_sum" else 0]
                self.assertEqual(groups, -(-roofline.models.ROWS // roofline.ROWS[dispatch["name"]][0]), dispatch["name"])
                seen.add(dispatch["name"])
        self.assertEqual(seen, set(roofline.ROWS))

    def test_every_kernel_is_known(self):
        known = {"gather", "matmul", "attend", "rotate", "project", "advance", "norm", "activate", "rope", "residual", "add", "norm_heads", *roofline.ROWS}
        for _, costs in self.each(roofline.ENDS):
            self.assertEqual({cost.name for cost in costs} - known, set())


if __name__ == "__main__":
    unittest.main()
