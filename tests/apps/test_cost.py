"""weft inspect --cost: the published sizes of tables, shapes counted from their layers, and the devices of apps/bench/roofline.py."""
import sys
import unittest

from support import FOLDER, ROOT, real_model, weft, weft_json
from test_lens import POCKET, pixels_of

sys.path.append(str(ROOT / "apps/bench"))  # which has a serving.py, too
import roofline  # noqa: E402


def llama(rows, width, layers, inner, heads, kv_heads, head_dim, tied, norms=2, biases=0):
    """Parameters of a Llama: products, norms of a layer (with Gemma's of heads in `norms` and `biases`), the last norm."""
    layer = width * head_dim * (2 * heads + 2 * kv_heads) + 3 * width * inner + norms * width + biases
    return rows * width * (1 if tied else 2) + layers * layer + width


# The parameters counted from the published configurations.
COUNTED = {
    "gpt2": 50257 * 768 + 1024 * 768 + 12 * (768 * 3 * 768 + 3 * 768 + 768 * 768 + 768 + 2 * 768 * 3072 + 3072 + 768 + 4 * 768) + 2 * 768,
    "gpt2-xl": 50257 * 1600 + 1024 * 1600 + 48 * (1600 * 4800 + 4800 + 1600 * 1600 + 1600 + 2 * 1600 * 6400 + 6400 + 1600 + 4 * 1600) + 2 * 1600,
    "smollm2-135m": llama(49152, 576, 30, 1536, 9, 3, 64, True),
    "gemma3-270m": llama(262144, 640, 18, 2048, 4, 1, 256, True, norms=4, biases=2 * 256),
    "qwen2.5-0.5b": llama(151936, 896, 24, 4864, 14, 2, 64, True, biases=896 + 2 * 128),
    "llama3.2-1b": llama(128256, 2048, 16, 8192, 32, 8, 64, True),
    "llama2-7b": llama(32000, 4096, 32, 11008, 32, 32, 128, False),
    "llama3-8b": llama(128256, 4096, 32, 14336, 32, 8, 128, False),
    "llama3-70b": llama(128256, 8192, 80, 28672, 64, 8, 128, False),
}


class Cost(unittest.TestCase):
    def shape(self, name, *options):
        return weft_json("inspect", "--cost", "--shape", name, *options)

    def test_published_table(self):
        """Figures that papers and tutorials give; GPT-2's 31.1% is 38.6 M of 124 M, both rounded."""
        gpt2 = self.shape("gpt2")
        self.assertEqual(gpt2["table_parameters"], 38597376)
        self.assertAlmostEqual(100 * gpt2["share"], 31.02, 2)
        self.assertAlmostEqual(100 * round(gpt2["table_parameters"] / 1e6, 1) / round(gpt2["parameters"] / 1e6), 31.1, 1)
        self.assertEqual(round(self.shape("llama2-7b")["table_parameters"] / 1e6), 131)
        self.assertEqual(round(self.shape("llama3-8b")["table_parameters"] / 1e6), 525)
        self.assertAlmostEqual(self.shape("128000x8192")["table_bytes"] / 1e9, 2.1, 2)
        self.assertNotIn("share", self.shape("128000x8192"))

    def test_shapes(self):
        for name, parameters in COUNTED.items():
            with self.subTest(name):
                found = self.shape(name)
                self.assertEqual(found["parameters"], parameters)
                table = found["rows"] * found["width"]
                self.assertEqual((found["table_parameters"], found["multiplications"], found["table_bytes"]), (table, table, 2 * table))
                self.assertEqual((found["intensity"], found["logits_bytes"]), (0.5, 4 * found["rows"]))
                layers = parameters - table * (1 if found["tied"] else 2)
                self.assertAlmostEqual(found["layers_equal"], table / (layers / found["layers"]))
        names = weft("inspect", "--cost", "--shape", "none", expect=2)[1]
        for name in COUNTED:
            self.assertIn(name, names)

    def test_devices(self):
        """The times are the roofline's of a projection: the larger of bytes and instructions, without the cost of a dispatch."""
        for type, bytes in (("q8", 34 / 32), ("q4", 18 / 32), ("f16", 2)):
            found = self.shape("llama3-8b", "--type", type)
            self.assertEqual([one["name"] for one in found["devices"]], [gpu.name for gpu in roofline.GPUS])
            for one, gpu in zip(found["devices"], roofline.GPUS):
                weights = found["table_parameters"]
                moved = weights * bytes / gpu.bandwidth / 1e3
                computed = weights * gpu.per_weight["q4" if type == "q4" else "q8"] / gpu.rate / 1e3
                self.assertAlmostEqual(one["microseconds"] / max(moved, computed), 1, 9)
                self.assertEqual(one["bound"], "bytes" if moved > computed else "instructions")
                self.assertAlmostEqual(one["tokens_until_instructions"] / (moved / computed), 1, 9)

    def test_a_loaded_model(self):
        found, whole = weft_json("inspect", POCKET, "--cost", "--tokens", 100), weft_json("inspect", POCKET)
        for key in ("parameters", "tied", "layers", "width"):
            self.assertEqual(found[key], whole[key], key)
        (table,) = [one for one in whole["tensors"] if one["shape"] == [whole["vocab_size"], whole["width"]]]
        self.assertEqual((found["rows"], found["table_bytes"], found["type"]),
                         (whole["vocab_size"], table["device_bytes"], table["device_type"]))
        # The first load measures states with a few rows, and then loads the table whole.
        fresh = [weft_json("inspect", POCKET, env={"WEFT_CACHE_DIR": str(FOLDER / "fresh cache")})["tensors"] for _ in range(2)]
        self.assertEqual(fresh, [whole["tensors"]] * 2)
        self.assertEqual((found["tokens"], found["tokens_logits_bytes"]), (100, 400 * whole["vocab_size"]))

    @unittest.skipUnless(real_model("smollm2"), "SmolLM2 is not in the user's cache")
    def test_smollm2(self):
        loaded, shape = weft_json("inspect", "smollm2", "--cost"), self.shape("smollm2-135m", "--type", "q8")
        for key in ("rows", "width", "layers", "tied", "parameters", "table_parameters", "share", "layers_equal", "logits_bytes"):
            self.assertEqual(loaded[key], shape[key], key)
        self.assertEqual(loaded["table_bytes"], 34013184)

    def test_text_and_picture(self):
        path = FOLDER / "cost.png"
        out, _ = weft("inspect", "--cost", "--shape", "llama3-8b", "--plot", path)
        for part in ("525.3 M parameters, 6.5% of 8.03 billion", "tying       would save", "1.05 GB (bf16)", "H100"):
            self.assertIn(part, out)
        rows = pixels_of(path)
        red = sum(pixel == (214, 39, 40) for pixel in rows[90])
        self.assertAlmostEqual(red, 560 * 2 * 525336576 / COUNTED["llama3-8b"], delta=1)
        # Bars grow with the logarithm of the time: each decade takes as many pixels.
        found = {one["name"]: one["microseconds"] for one in self.shape("llama3-8b")["devices"]}
        lengths = [sum(pixel in ((31, 119, 180), (214, 39, 40)) for pixel in rows[190 + 32 * i + 2]) for i in range(len(found))]
        order = sorted(range(len(found)), key=lambda i: list(found.values())[i])
        self.assertEqual([lengths[i] for i in order], sorted(lengths))

    def test_refusals(self):
        for shape in ("0x5", "5x", "x", "5x5x5", "-5x5", "99999999999999999999x1"):
            _, err = weft("inspect", "--cost", "--shape", shape, expect=2)
            self.assertIn("--shape", err)
        weft("inspect", "--shape", "gpt2", expect=2)
