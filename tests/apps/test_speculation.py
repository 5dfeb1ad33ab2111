"""`--speculate lookup` and `--draft` of `generate`, `bench` and `chat`."""
import json
import shutil
import unittest

from support import FOLDER, GENERATE_KEYS, ROOT, chatty, model, plain, weft, weft_json


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
        _, err = weft("generate", "-p", "the cat the cat the cat", "-n", 48, "--stats", *options)
        self.assertRegex(err, guesses)
        _, err = weft("chat", "--lines", "--stats", "-n", 48, *options, stdin="the cat the cat the cat\n/stats\n")
        self.assertRegex(err, guesses)
        self.assertRegex(err, r"(?m)^guesses   \d+ of \d+ right, checked in \d+ passes$")
        for _ in range(5):  # other programs may delay passes until guesses do not pay
            out, _ = weft("bench", "-m", plain(), "-p", 4, "-n", 48, "--repeat", 1, "--speculate", "lookup")
            if "guesses" in out:
                break
        self.assertRegex(out, r"(?m)^head .* guesses right, \d\.\d tok/pass$")

    def test_a_draft_model(self):
        for options in (("--temperature", 0), ("--temperature", 0.8, "--seed", 5), ("--temperature", 0, "--stop", "b", "--save", FOLDER / "saved")):
            with self.subTest(options=options):
                without, guessed = (self.generate(*options, *draft) for draft in ((), ("--draft", plain())))
                self.assertEqual(guessed["ids"], without["ids"])
                self.assertEqual(guessed["text"], without["text"])
                result = guessed["speculation"]
                self.assertEqual(result["kind"], "draft")
                self.assertLessEqual(result["accepted"], result["drafted"])
        options = ("-m", plain(), "--draft", plain())
        report = weft_json("bench", *options, "-p", 4, "-n", 24, "--repeat", 1)
        self.assertEqual(report["speculation"]["kind"], "draft")

    def test_drafts_that_are_refused(self):
        other = model("other-tokens.gguf", "--vocab", 600)
        _, err = weft("generate", "-m", plain(), "-p", "x", "--draft", other, expect=2)
        self.assertIn("weft: --draft: its tokenizer is not that of the session's model\n", err)
        weft("generate", "-m", plain(), "-p", "x", "--draft", FOLDER / "none.gguf", expect=1)
        _, err = weft("generate", "-m", plain(), "-p", "x", "--draft", plain(), "--speculate", "lookup", expect=2)
        self.assertIn("--draft", err)

    def test_with_a_grammar(self):
        options = ("--temperature", 0, "--regex", "[a-z ]{70}")
        without, guessed = (self.generate(*options, "--speculate", kind) for kind in ("off", "lookup"))
        self.assertEqual(guessed["ids"], without["ids"])
        self.assertEqual(guessed["stop"], without["stop"])
        self.assertGreater(guessed["speculation"]["accepted"], 0)
        kept = self.generate(*options, "--head", "keep:ascii", "--speculate", "lookup")
        self.assertEqual(kept["speculation"]["passes"], 0)

    def test_the_drafter_of_a_gemma4(self):
        target, drafter = FOLDER / "gemma4", ROOT / "tests/model/golden_assistants/gemma4"
        shutil.copytree(ROOT / "tests/model/golden/gemma4", target, ignore=shutil.ignore_patterns("*.gguf"), dirs_exist_ok=True)
        letters = [chr(letter) for letter in (*range(33, 127), *range(161, 173), *range(174, 198), 288)]
        (target / "tokenizer.json").write_text(json.dumps(dict(
            model=dict(type="BPE", vocab={letter: i for i, letter in enumerate(letters)}, merges=[]),
            pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False), decoder=dict(type="ByteLevel"))))
        for options in (("--temperature", 0), ("--temperature", 0.8, "--seed", 5)):
            with self.subTest(options=options):
                without, guessed = (self.generate(*options, *draft, path=target) for draft in ((), ("--draft", drafter)))
                self.assertEqual(guessed["ids"], without["ids"])
                self.assertEqual(guessed["speculation"]["kind"], "draft")
        report = weft_json("bench", "-m", target, "--draft", drafter, "-p", 4, "-n", 24, "--repeat", 1)
        self.assertEqual(report["speculation"]["kind"], "draft")
        _, err = weft("generate", "-m", plain(), "-p", "x", "--draft", drafter, expect=2)
        self.assertIn("weft: --draft: 'model_type' is 'gemma4_assistant', which guesses for a Gemma 4", err)
        _, err = weft("generate", "-m", drafter, "-p", "x", expect=1)
        self.assertIn("guesses for a Gemma 4", err)

    def test_medusa_heads(self):
        heads = model("heads.gguf", "--medusa", 3)
        for options in (("--temperature", 0), ("--temperature", 0.8, "--seed", 5), ("--temperature", 0, "--regex", "[a-z ]{70}")):
            with self.subTest(options=options):
                without, guessed = (self.generate(*options, *more) for more in ((), ("--medusa", heads)))
                self.assertEqual(guessed["ids"], without["ids"])
                self.assertEqual(guessed["speculation"]["kind"], "medusa")
        pocket = ROOT / "apps/pocket/pocket.gguf"
        asked = "<|im_start|>user\ntell me a story about a fox in a forest<|im_end|>\n<|im_start|>assistant\n"
        medusa = ("--medusa", ROOT / "apps/pocket/pocket-medusa.gguf")
        without, guessed = (weft_json("generate", "-m", pocket, "-p", asked, "--temperature", 0, *more) for more in ((), medusa))
        self.assertEqual(guessed["ids"], without["ids"])
        # An answer may end before a second trial. Within 300 tokens there are some.
        for _ in range(5):  # other programs may delay passes until guesses do not pay
            told = weft_json("bench", "-m", pocket, *medusa, "-p", 36, "-n", 300, "--repeat", 1)["speculation"]
            if told["accepted"]:
                break
        self.assertGreater(told["accepted"], 0)
        self.assertLessEqual(told["accepted"], told["drafted"])

    def test_medusa_heads_that_are_refused(self):
        other = model("other-heads.gguf", "--medusa", 3, "--width", 96)
        _, err = weft("generate", "-m", plain(), "-p", "x", "--medusa", other, expect=2)
        self.assertIn("weft: --medusa: its heads are of a model of width 96, the session's model has 64\n", err)
        _, err = weft("generate", "-m", plain(), "-p", "x", "--medusa", plain(), expect=1)
        self.assertIn("it has no Medusa heads", err)
        weft("generate", "-m", plain(), "-p", "x", "--medusa", FOLDER / "none.gguf", expect=1)
        for also in (("--draft", plain()), ("--speculate", "lookup")):
            _, err = weft("generate", "-m", plain(), "-p", "x", "--medusa", other, *also, expect=2)
            self.assertIn("--medusa", err)

    def test_unknown_kinds_are_refused(self):
        _, err = weft("generate", "-m", plain(), "-p", "x", "--speculate", "medusa", expect=2)
        self.assertIn("--speculate", err)
