"""Encoders, encoder-decoders, stop strings, seeds and help."""
import unittest

from support import FOLDER, ROOT, bert, plain, t5, weft, weft_json


class Text(unittest.TestCase):
    def test_embed(self):
        out, _ = weft("embed", "-m", bert(), "The cat sat.", "Cats")
        vectors = [[float(number) for number in line.split()] for line in out.splitlines()]
        self.assertEqual([len(vector) for vector in vectors], [48, 48])
        for vector in vectors:
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
        (FOLDER / "lines.txt").write_text("the CAT sat .\r\ncats\n")
        result = weft_json("embed", "-m", bert(), "-f", FOLDER / "lines.txt")
        for mine, theirs in zip(result["embeddings"], vectors):
            self.assertTrue(all(abs(a - b) < 1e-5 for a, b in zip(mine, theirs)))
        first = weft_json("embed", "-m", bert(), "--pool", "cls", "cats")["embeddings"][0]
        self.assertNotEqual(first, result["embeddings"][1])
        _, err = weft("embed", "-m", bert(), "cats", "the " * 160, expect=1)
        self.assertIn("text 2: 162 tokens were given, the encoder reads 150", err)
        _, err = weft("embed", "-m", plain(), "a", expect=1)
        self.assertIn("has no encoder", err)

    def test_fill(self):
        result = weft_json("fill", "-m", bert(), "The [MASK] sat on [MASK]", "-k", 3)
        self.assertEqual(result["ids"], [2, 5, 4, 7, 8, 4, 3])
        self.assertEqual([mask["place"] for mask in result["masks"]], [2, 5])
        for mask in result["masks"]:
            chances = [guess["probability"] for guess in mask["guesses"]]
            self.assertEqual(chances, sorted(chances, reverse=True))
            self.assertTrue(len(chances) == 3 and 0 < sum(chances) < 1)
        out, _ = weft("fill", "-m", bert(), "the [MASK]", "-k", 2)
        self.assertEqual(len(out.splitlines()), 2)
        weft("fill", "-m", bert(), "no mask", expect=2)
        _, err = weft("generate", "-p", "the cat", "-m", bert(), expect=1)
        self.assertIn("weft embed and weft fill use it", err)

    def test_stops(self):
        wanted = ("generate", "-m", plain(), "-p", "a", "-n", 24, "--seed", 3, "--temperature", 1)
        whole = weft_json(*wanted)["text"]
        self.assertGreater(len(whole), 12, "the model says enough")
        for begin in range(1, 9):  # wherever tokens end
            stop = whole[begin:begin + 4]
            result = weft_json(*wanted, "--stop", "never \u00e9", "--stop", stop)
            self.assertEqual((result["text"], result["stop"]), (whole[:whole.index(stop)], "string"))
            self.assertEqual(weft(*wanted, "--stop", stop)[0], whole[:whole.index(stop)] + "\n")
        # Text that was held back comes at the end.
        result = weft_json(*wanted, "--stop", whole[-3:] + "!")
        self.assertEqual((result["text"], result["stop"] in ("length", "token")), (whole, True))

    def test_encoder_decoder(self):
        def run(*more, count=12):
            return weft_json("generate", "-m", t5(), "--temperature", 0, "-n", count, *more)
        result = run("-p", "the cats sat", "--save", FOLDER / "t5.session")
        self.assertEqual(result["prompt_ids"], [3, 4, 6, 5, 1])
        self.assertEqual(run("--prompt-ids", "3,4,6,5,1")["ids"], result["ids"])
        self.assertEqual(run("-p", "the cats sat", "--head", "certified")["ids"], result["ids"])
        more = run("--restore", FOLDER / "t5.session")
        self.assertEqual(result["ids"] + more["ids"], run("-p", "the cats sat", count=24)["ids"])
        self.assertEqual(run("--restore", FOLDER / "t5.session", "-p", "sat")["prompt_ids"], [5, 1])
        run("--prompt-ids", ",".join(["3"] * 32), "--ctx", 32)
        weft("generate", "-m", t5(), "--prompt-ids", ",".join(["3"] * 33), "--ctx", 32, expect=2)
        for words in (["chat"], ["serve", "--port", 0], ["perplexity", "-f", ROOT / "LICENSE"]):
            _, err = weft(*words, "-m", t5(), stdin="hello\n", expect=1)
            self.assertIn("t5" if words[0] == "perplexity" else "weft generate uses it", err)
        self.assertEqual(len(weft_json("embed", "-m", t5(), "the cat")["embeddings"][0]), 32)
        inspected = weft_json("inspect", "-m", t5())
        self.assertIn("encoder layer 1", [buffer["name"] for buffer in inspected["buffers"]])

    def test_same_seed_same_text(self):
        def run(seed):
            return weft_json("generate", "-m", plain(), "-p", "a", "-n", 12, "--temperature", 1, "--top-k", 0, "--top-p", 1,
                             "--min-p", 0, "--seed", seed)["ids"]
        self.assertEqual(run(7), run(7))
        self.assertNotEqual(run(7), run(8))

    def test_streams_what_json_holds(self):
        options = ["generate", "-m", plain(), "-p", "a", "-n", 8, "--temperature", 0]
        out, _ = weft(*options)
        self.assertEqual(out, weft_json(*options)["text"] + "\n")
        self.assertIn("tok/s", weft(*options, "--stats")[1])

    def test_help(self):
        for command in ("chat", "generate", "bench", "perplexity", "head-report", "vocab build", "vocab show", "inspect", "devices"):
            out, err = weft(*command.split(), "--help")
            self.assertIn("--device", out)
            self.assertEqual(err, "")
