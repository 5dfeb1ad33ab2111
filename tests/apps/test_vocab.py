"""`vocab build` and `vocab show`."""
import unittest

from support import FOLDER, model, plain, weft, weft_json


class Vocab(unittest.TestCase):
    CORPUS = "the cat and the dog and the cow\n" * 50 + "a zebra\n"

    def build(self, *options, corpus=CORPUS, **more):
        text = FOLDER / "corpus"
        text.write_bytes(corpus if isinstance(corpus, bytes) else corpus.encode())
        result = weft_json("vocab", "build", "-m", plain(), "-f", text, "-o", FOLDER / "list", *options, **more)
        lines = (FOLDER / "list").read_text().splitlines()
        self.assertRegex(lines[0], r"^# weft-keep fingerprint=[0-9a-f]{16} tokens=\d+$")
        ids = [int(line) for line in lines[1:]]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertEqual(len(ids), result["kept"])
        self.assertAlmostEqual(result["share"], result["kept"] / result["rows"])
        return result, ids

    def test_keeps_what_covers_the_corpus(self):
        whole, everything = self.build("--coverage", 1)
        self.assertEqual(list(whole), ["corpus_tokens", "different_tokens", "kept", "always_kept", "rows", "share",
                                       "coverage", "list"])
        self.assertEqual(whole["coverage"], 1)
        self.assertTrue(set(range(259)) <= set(everything))  # control and byte tokens
        self.assertEqual(whole["always_kept"], 259)
        last = len(everything)
        for coverage in (0.9999, 0.99, 0.9, 0.5):
            part, ids = self.build("--coverage", coverage)
            self.assertGreaterEqual(part["coverage"], coverage)
            self.assertTrue(set(ids) <= set(everything))
            self.assertLessEqual(len(ids), last)
            last = len(ids)
        self.assertLess(last, len(everything))
        few, ids = self.build("--coverage", 1, "--rows", 262)
        self.assertEqual(len(ids), 262)
        self.assertLess(few["coverage"], 1)

    def test_counts_as_the_tokenizer_does(self):
        """The ids of the whole text, wherever it is cut into pieces, and of all files."""
        ids = weft_json("generate", "-m", plain(), "-p", "the cat and the dog", "-n", 1)["prompt_ids"]
        _, kept = self.build("--coverage", 1, corpus="the cat and the dog")
        self.assertTrue(set(ids) <= set(kept))
        self.assertEqual(set(kept) - set(range(259)), set(ids) - set(range(259)))
        line = b"the cat and the dog and the cow\n"
        one, _ = self.build("--coverage", 1, corpus=line)
        many, _ = self.build("--coverage", 1, corpus=line * 100000)  # 3 MB: several pieces
        self.assertAlmostEqual(many["corpus_tokens"] / 100000, one["corpus_tokens"], delta=2)
        twice, _ = self.build("-f", FOLDER / "corpus", "--coverage", 1)
        once, _ = self.build("--coverage", 1)
        self.assertEqual(twice["corpus_tokens"], 2 * once["corpus_tokens"])

    def test_one_long_line_and_bytes_that_are_no_text(self):
        long, _ = self.build(corpus="caf\u00e9 " * 500000)
        self.assertGreater(long["corpus_tokens"], 1000000)
        odd, _ = self.build(corpus=bytes(range(256)) * 20)
        self.assertGreater(odd["corpus_tokens"], 256)

    def test_show(self):
        built, _ = self.build()
        shown = weft_json("vocab", "show", FOLDER / "list", "-m", plain())
        self.assertEqual(list(shown), ["kept", "control", "rows", "share", "first_texts"])
        self.assertEqual((shown["kept"], shown["rows"]), (built["kept"], built["rows"]))
        self.assertEqual((len(shown["first_texts"]), shown["control"]), (12, 3))
        text = weft_json("vocab", "show", FOLDER / "list", "-m", plain(), "-f", FOLDER / "corpus", "-f", FOLDER / "corpus")
        self.assertEqual((text["corpus_tokens"], text["coverage"]), (2 * built["corpus_tokens"], built["coverage"]))
        self.assertIn("% of ", weft("vocab", "show", FOLDER / "list", "-m", plain(), "-f", FOLDER / "corpus")[0])
        more = weft_json("vocab", "show", f"{FOLDER / 'list'},!ascii,ascii,!prompt", "-m", plain())
        self.assertEqual(more["kept"], more["rows"])  # every token of the model is ASCII
        out, _ = weft("vocab", "show", FOLDER / "list", "-m", plain())
        self.assertIn(f"{built['kept']} of {built['rows']} rows kept", out)

    def test_a_list_fits_the_same_tokenizer_only(self):
        self.build()
        folder = model("folder", "--type", "f16", "--hf")  # the same vocabulary as plain()
        self.assertEqual(weft_json("inspect", folder)["tokenizer_fingerprint"],
                         weft_json("inspect", plain())["tokenizer_fingerprint"])
        weft("vocab", "show", FOLDER / "list", "-m", folder)
        other = model("other.gguf", "--vocab", "300")
        _, err = weft("vocab", "show", FOLDER / "list", "-m", other, expect=1)
        self.assertIn("/list:1: the list was made for a tokenizer of fingerprint ", err)

    def test_a_failure_leaves_the_old_list(self):
        _, before = self.build()
        weft("vocab", "build", "-m", plain(), "-f", FOLDER / "corpus", "-f", FOLDER / "no such", "-o", FOLDER / "list",
             expect=1)
        self.assertEqual([int(line) for line in (FOLDER / "list").read_text().splitlines()[1:]], before)
        self.assertEqual([p.name for p in FOLDER.glob("list*")], ["list"])
