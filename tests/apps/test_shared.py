"""Real models of $WEFT_SHARED."""
import unittest

from support import FOLDER, SHARED, weft, weft_json


@unittest.skipUnless((SHARED / "models").is_dir(), f"no models in {SHARED}")
class Shared(unittest.TestCase):
    MODELS = {"tinystories-656K": ("tinystories-656K", 0.9402, 845, 2.8605),
              "stories260K": ("stories260K/tinyllamas-stories-260k-f32.gguf", 0.8860, 1802, 1.2641)}

    def ids(self, name, path, type_):
        known = [int(x) for x in (SHARED / "models" / name / "greedy-from-bos.ids").read_text().split()]
        got = weft_json("generate", "-m", SHARED / "models" / path, "--prompt-ids", known[0], "-n", 200, "--type", type_,
                        "--temperature", 0)
        return known, got["prompt_ids"] + got["ids"]

    def test_greedy_ids(self):
        for name, (path, *_) in self.MODELS.items():
            with self.subTest(model=name, type="f16"):
                known, got = self.ids(name, path, "f16")
                self.assertEqual(got, known)
            with self.subTest(model=name, type="q8"):
                known, got = self.ids(name, path, "q8")
                self.assertEqual(got[:41], known[:41])

    def test_perplexity(self):
        for name, (path, bits, tokens, nll) in self.MODELS.items():
            with self.subTest(model=name):
                results = {type_: weft_json("perplexity", "-m", SHARED / "models" / path, "--type", type_, "-f",
                                            SHARED / "text/tinystories-4.txt", "--split", "<|endoftext|>")
                           for type_ in ("f16", "q8", "q4")}
                f16, q8, q4 = results["f16"], results["q8"], results["q4"]
                self.assertEqual((f16["bytes"], f16["tokens"], f16["parts"]), (3709, tokens, 5))
                self.assertAlmostEqual(f16["bits_per_byte"], bits, delta=bits * 0.005)
                self.assertAlmostEqual(f16["nll"], nll, delta=nll * 0.005)
                self.assertAlmostEqual(q8["bits_per_byte"], f16["bits_per_byte"], delta=f16["bits_per_byte"] * 0.01)
                self.assertAlmostEqual(q4["bits_per_byte"], f16["bits_per_byte"], delta=f16["bits_per_byte"] * 0.1)

    def test_converted_greedy_ids(self):
        for name, (path, *_) in self.MODELS.items():
            out = FOLDER / (name + ".f16.gguf")
            weft("convert", SHARED / "models" / path, out, "--type", "f16")
            known, _ = self.ids(name, path, "f16")
            got = weft_json("generate", "-m", out, "--prompt-ids", known[0], "-n", 200, "--temperature", 0)
            self.assertEqual(got["prompt_ids"] + got["ids"], known)

    def test_one_vocabulary_buffer(self):
        for name, (path, *_) in self.MODELS.items():
            with self.subTest(model=name):
                buffers = weft_json("inspect", SHARED / "models" / path)["buffers"]
                shared = [b for b in buffers if isinstance(b["users"], list) and len(b["users"]) > 1 and "vocab" in b["name"]]
                self.assertEqual(len(shared), 1, buffers)
