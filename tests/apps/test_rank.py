"""weft lab rank: its singular values against numpy's (tests/tools/rank_goldens.py), and the limit of one softmax."""
import json
import unittest

from support import FOLDER, ROOT, plain, t5, weft, weft_json
from test_lens import POCKET, pixels_of

GOLDEN = json.loads((ROOT / "tests/apps/golden_rank.json").read_text())
SOFTMAXES = ROOT / "tests/model/golden_softmaxes"


class Rank(unittest.TestCase):
    def test_singular_values(self):
        picture = FOLDER / "rank.png"
        found = weft_json("lab", "rank", "-m", POCKET, "--type", "f16", "--vocab-type", "f16", "--plot", picture)
        self.assertEqual((found["contexts"], found["width"]), (GOLDEN["contexts"], GOLDEN["width"]))
        for name, limit in (("logits", 256), ("log-probabilities", 257)):
            self.assertEqual(found[name]["rank"], GOLDEN[name]["rank"])
            self.assertEqual(found[name]["rank"], limit)
            self.assertEqual(len(found[name]["singular_values"]), GOLDEN["contexts"])
            for own, numpys in zip(found[name]["singular_values"][:limit], GOLDEN[name]["singular_values"]):
                self.assertAlmostEqual(own, numpys, delta=0.02 * numpys)
            self.assertLess(found[name]["singular_values"][limit], 1e-7)
        self.assertTrue(pixels_of(picture))

    def test_width_64(self):
        """One softmax has rank 64 and 65, whatever the model; a mixture has no such limit, an adaptive softmax one for each of its own."""
        found = weft_json("lab", "rank", "-m", plain())
        self.assertEqual((found["width"], found["head"]), (64, "plain"))
        self.assertEqual((found["logits"]["rank"], found["log-probabilities"]["rank"]), (64, 65))
        found = weft_json("lab", "rank", "-m", SOFTMAXES / "mixture/model.gguf")
        self.assertEqual((found["width"], found["contexts"], found["head"]), (64, 128, "mixture"))
        self.assertEqual(found["log-probabilities"]["rank"], 128)
        self.assertNotIn("logits", found)

    def test_texts(self):
        text = FOLDER / "rank.txt"
        text.write_text("the harbour was quiet in the morning, two boats came in with the tide")
        out, _ = weft("lab", "rank", "-m", POCKET, "-f", text, "-n", 8)
        self.assertRegex(out, r"^8 contexts, a table of 8192 rows of 256\nlogits +rank 8;")
        self.assertIn("too few contexts", out)

    def test_refusals(self):
        _, err = weft("lab", "rank", "-m", t5(), expect=2)
        self.assertIn("depend on an input", err)
        weft("lab", expect=2)
        _, err = weft("lab", "rank", "-m", POCKET, "--plot", FOLDER, expect=2)
        self.assertIn("--plot", err)
