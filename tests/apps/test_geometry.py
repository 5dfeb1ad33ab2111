"""weft geometry: its figures against numpy (tests/tools/geometry_goldens.py), and the picture's pixels."""
import json
import math
import unittest

from support import FOLDER, ROOT, t5, weft, weft_json
from test_lens import POCKET, pixels_of

GOLDEN = json.loads((ROOT / "tests/apps/golden_geometry.json").read_text())
LEFT, TOP, WIDTH, HEIGHT, GAP = 100, 100, 640, 240, 110  # of a panel of the picture
BAR, WHITE = (31, 119, 180), (255, 255, 255)


class Geometry(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.picture = FOLDER / "geometry.png"
        cls.found = weft_json("geometry", "-m", POCKET, "--type", "f16", "--vocab-type", "f16", "-p", GOLDEN["text"], "-n", 5,
                              *[part for one in GOLDEN["neighbours"] for part in ("-t", one["token"])], "--plot", cls.picture)

    def near(self, wanted, found, where="", relative=2e-3):
        """All of numpy's figures are there, with numpy's values."""
        if isinstance(wanted, dict):
            for key in wanted:
                self.near(wanted[key], found[key], f"{where}.{key}")
        elif isinstance(wanted, list):
            for index, (one, other) in enumerate(zip(wanted, found, strict=len(wanted) > 5)):
                self.near(one, other, f"{where}[{index}]")
        elif isinstance(wanted, float):
            self.assertAlmostEqual(wanted, found, delta=relative * max(abs(wanted), 1e-2), msg=where)
        else:
            self.assertEqual(wanted, found, where)

    def test_figures(self):
        wanted = json.loads(json.dumps(GOLDEN))
        equal = wanted["untrained"].pop("equal_rows")
        self.assertEqual(len(self.found["untrained"]["equal_rows"]), equal)
        wanted["neighbours"] = [one["figures"] for one in wanted["neighbours"]]
        for key in ("norms", "isotropy", "untrained", "self", "states", "neighbours"):
            self.near(wanted[key], self.found[key], key)
        self.assertEqual(len(self.found["isotropy"]["spectrum"]), self.found["width"])
        self.assertAlmostEqual(sum(self.found["isotropy"]["spectrum"]), 1, 6)
        self.assertAlmostEqual(sum(self.found["states"]["energy"]), 1, 6)
        shortest = [one["norm"] for one in self.found["untrained"]["shortest"]]
        self.assertEqual(shortest, sorted(shortest))
        self.assertEqual(shortest[0], self.found["norms"]["least"])

    def test_rows_that_look_never_trained(self):
        """Three rows become a fourth one's copies, another one becomes zero."""
        data, offset, size = bytearray(POCKET.read_bytes()), GOLDEN["table"]["offset"], GOLDEN["table"]["row_bytes"]

        def place(row):
            return slice(offset + row * size, offset + (row + 1) * size)

        for row in (5, 6, 4096):
            data[place(row)] = data[place(9)]
        data[place(8191)] = bytes(size)
        path = FOLDER / "untrained.gguf"
        path.write_bytes(data)
        found = weft_json("geometry", "-m", path, "-p", "hello")
        self.assertEqual([one["id"] for one in found["untrained"]["equal_rows"]], [5, 6, 9, 4096])
        self.assertEqual(found["untrained"]["short_rows"], 1)
        self.assertEqual((found["untrained"]["shortest"][0]["id"], found["norms"]["least"]), (8191, 0))
        self.assertAlmostEqual(found["isotropy"]["mean_cosine"], GOLDEN["isotropy"]["mean_cosine"], 2)

    def test_picture(self):
        """The height of every bar is its value's."""
        rows = pixels_of(self.picture)

        def summed(values):
            return [sum(values[:i + 1]) for i in range(len(values))]

        norms = self.found["norms"]["by_id"]
        tick = 10 ** (math.floor(math.log10(max(norms))) - 1)
        tick *= next(factor for factor in (1, 2, 5, 10, 20) if max(norms) / tick / factor <= 10)
        end = math.ceil(max(norms) / tick) * tick  # of the axis
        panels = ([one / end for one in norms], summed(self.found["isotropy"]["spectrum"]), summed(self.found["states"]["energy"]))
        for number, bars in enumerate(panels):
            bottom = TOP + number * (HEIGHT + GAP) + HEIGHT
            for i, share in enumerate(bars):
                column = LEFT + WIDTH * i // len(bars)
                height = sum(rows[y][column] == BAR for y in range(bottom - HEIGHT, bottom))
                self.assertAlmostEqual(height, share * HEIGHT, delta=1, msg=f"panel {number}, bar {i}")
        self.assertEqual(rows[TOP + 4][LEFT + WIDTH + 20], WHITE)

    def test_table(self):
        out, _ = weft("geometry", "-m", POCKET, "-t", GOLDEN["neighbours"][0]["token"], "-n", 3)
        self.assertRegex(out, rf"rows +{self.found['vocab_size']} of {self.found['width']}\n")
        self.assertEqual(len(out.split("by distance\n")[1].splitlines()), 3)
        for what in ("norms", "cosines", "directions", "untrained?", "itself", "states", "winners"):
            self.assertIn(f"\n{what} ", out)

    def test_an_encoder_decoder_has_no_states(self):
        self.assertIsNone(weft_json("geometry", "-m", t5())["states"])

    def test_refusals(self):
        _, err = weft("geometry", "-m", POCKET, "-t", "several words here", expect=2)
        self.assertIn("expected one", err)
        _, err = weft("geometry", "-m", POCKET, "--plot", FOLDER, expect=2)
        self.assertIn("--plot", err)
