"""`--speculate lookup` of `generate`, `bench` and `chat`."""
import unittest

from support import GENERATE_KEYS, chatty, plain, weft, weft_json


class Speculation(unittest.TestCase):
    # The toy model soon repeats itself, so guesses are right.
    def generate(self, *options, path=None):
        return weft_json("generate", "-m", path or plain(), "-p", "the cat the cat the cat", "-n", 48, *options)

    def test_the_text_is_the_same(self):
        for path in (plain(), chatty()):
            for options in (("--temperature", 0), ("--temperature", 0, "--head", "certified"),
                            ("--temperature", 0.3, "--seed", 5, "--repeat-penalty", 1.1)):
                with self.subTest(path=path, options=options):
                    without, guessed = (self.generate("--speculate", kind, *options, path=path) for kind in ("off", "lookup"))
                    self.assertEqual(guessed["ids"], without["ids"])
                    self.assertEqual(list(guessed), GENERATE_KEYS)
                    self.assertEqual(without["speculation"], {"kind": "off", "passes": 0, "drafted": 0, "accepted": 0, "tokens_per_pass": 1})

    def test_what_it_saves_is_told(self):
        result = self.generate("--temperature", 0, "--speculate", "lookup")["speculation"]
        self.assertEqual(list(result), ["kind", "passes", "drafted", "accepted", "tokens_per_pass"])
        self.assertGreater(result["accepted"], 0)
        self.assertLessEqual(result["accepted"], result["drafted"])
        self.assertAlmostEqual(result["tokens_per_pass"], 47 / (47 - result["accepted"]))
        options = ("-m", plain(), "--temperature", 0, "--speculate", "lookup")
        guesses = r"\| \d+ of \d+ guesses right, \d\.\d tok/pass\n"
        _, err = weft("generate", "-p", "the cat the cat the cat", "-n", 48, *options)
        self.assertRegex(err, guesses)
        _, err = weft("chat", "-n", 48, *options, stdin="the cat the cat the cat\n/stats\n")
        self.assertRegex(err, guesses)
        self.assertRegex(err, r"(?m)^guesses   \d+ of \d+ right, checked in \d+ passes$")
        for _ in range(5):  # other programs may delay passes until guesses do not pay
            out, _ = weft("bench", "-m", plain(), "-p", 4, "-n", 48, "--repeat", 1, "--speculate", "lookup")
            if "guesses" in out:
                break
        self.assertRegex(out, r"(?m)^head .* guesses right, \d\.\d tok/pass$")

    def test_with_a_grammar_nothing_is_guessed(self):
        result = self.generate("--temperature", 0, "--speculate", "lookup", "--regex", "[a-z ]{40}")
        self.assertEqual(result["speculation"]["passes"], 0)

    def test_unknown_kinds_are_refused(self):
        _, err = weft("generate", "-m", plain(), "-p", "x", "--speculate", "medusa", expect=2)
        self.assertIn("--speculate", err)
