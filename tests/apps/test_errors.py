"""Wrong options and failures: exit codes, places and hints."""
import os
import re
import resource
import shutil
import subprocess
import unittest

from support import BIN, ENV, FOLDER, bert, plain, t5, weft


SANITIZED = b"__asan_init" in (BIN / "weft").read_bytes()


class Errors(unittest.TestCase):
    def check(self, exit_code, place, *argv, env=None):
        out, err = weft(*argv, expect=exit_code, env=env)
        self.assertEqual(out, "")
        lines = err.splitlines()
        self.assertTrue(lines[0].startswith("weft: "), err)
        self.assertIn(place, lines[0])
        self.assertTrue(all(line.startswith("hint: ") for line in lines[1:]), err)
        self.assertLessEqual(len(lines), 2, err)

    def test_wrong_options(self):
        (FOLDER / "wrong.keep").write_text("5\n99999\n")
        m = ["-m", str(plain())]
        generate = ["generate", *m, "-p", "a"]
        for place, argv in [
            ("subcommand", []),
            ("nonsense", ["nonsense"]),
            ("--nonsense", [*generate, "--nonsense"]),
            ("--max-tokens", [*generate, "-n", "0"]),
            ("--max-tokens", [*generate, "-n", "-3"]),
            ("--max-tokens", [*generate, "-n", "many"]),
            ("--max-tokens", [*generate, "-n", "99999999999999999999"]),
            ("--max-tokens", [*generate, "-n"]),
            ("--temperature", [*generate, "--temperature", "-1"]),
            ("--temperature", [*generate, "--temperature", "nan"]),
            ("--top-k", [*generate, "--top-k", "1.5"]),
            ("--top-p", [*generate, "--top-p", "0"]),
            ("--min-p", [*generate, "--min-p", "2"]),
            ("--repeat-penalty", [*generate, "--repeat-penalty", "0"]),
            ("--presence-penalty", [*generate, "--presence-penalty", "2.5"]),
            ("--frequency-penalty", [*generate, "--frequency-penalty", "nan"]),
            ("--typical-p", [*generate, "--typical-p", "0"]),
            ("--logit-bias", [*generate, "--logit-bias", "5"]),
            ("--logit-bias", [*generate, "--logit-bias", "x=1"]),
            ("--logit-bias", [*generate, "--logit-bias", "5=101"]),
            ("--logit-bias", [*generate, "--logit-bias", "5=nan"]),
            ("--logit-bias", [*generate, "--logit-bias", "4000000000=1"]),
            ("--stop", [*generate, "--stop", ""]),
            ("--stop", [*generate, "--stop", "x" * 300]),
            ("--logprobs", [*generate, "--json", "--logprobs", "21"]),
            ("--logprobs", [*generate, "--logprobs", "3"]),
            ("--seed", [*generate, "--seed", "-1"]),
            ("--type", [*generate, "--type", "q5"]),
            ("--vocab-type", [*generate, "--vocab-type", "q5"]),
            ("--tie", [*generate, "--tie", "always"]),
            ("--ctx", [*generate, "--ctx", "1"]),
            ("--ctx", [*generate, "--ctx", "1000000"]),
            ("--prompt-ids", ["generate", *m]),
            ("--prompt-ids", [*generate, "--prompt-ids", "1"]),
            ("--prompt-ids", ["generate", *m, "--prompt-ids", ""]),
            ("--prompt-ids", ["generate", *m, "--prompt-ids", "1,,2"]),
            ("--prompt-ids", ["generate", *m, "--prompt-ids", "1,x"]),
            ("--prompt-ids", ["generate", *m, "--prompt-ids", "1,-2"]),
            ("--prompt-ids", ["generate", *m, "--prompt-ids", "1,4000000000"]),
            ("--prompt-ids", ["generate", *m, "--prompt-ids", "1," * 9 + "99999999999"]),
            ("-p", ["generate", *m, "-p", "a " * 50000]),
            ('--head: "no" is no head', [*generate, "--head", "no"]),
            ("--head", [*generate, "--head", ""]),
            ("--head", [*generate, "--head", "fast:41"]),
            ("--head: keep:klingon: ", [*generate, "--head", "certified+keep:klingon"]),
            ("--head: " + str(FOLDER / "wrong.keep") + ":2: the id 99999", [*generate, "--head",
                                                                             f"keep:{FOLDER / 'wrong.keep'}"]),
            ("--head", ["bench", *m, "--head", "fast:x"]),
            ("--head", ["chat", *m, "--head", "certified:3", "hello"]),
            ("--file", ["head-report", *m]),
            ("--max-tokens", ["head-report", *m, "-f", __file__, "--max-tokens", "0"]),
            ('--heads: "full,fast" is no head', ["head-report", *m, "-f", __file__, "--heads", "certified", "full,fast"]),
            ("--heads: keep:klingon: ", ["head-report", *m, "-f", __file__, "--heads", "keep:klingon"]),
            ("--plot", ["head-report", *m, "-f", __file__, "--plot", FOLDER]),
            ("--plot", ["head-report", *m, "-f", __file__, "--plot", "/dev/null"]),
            ("--plot", ["head-report", *m, "-f", __file__, "--plot", FOLDER / "no such" / "x.png"]),
            ("-p: the text is empty", ["lens", *m, "-p", ""]),
            ("tokens and one more do not fit into a context of 20", ["lens", *m, "--ctx", "20", "-p", "a" * 200]),
            ("tokens, a picture shows at most 128", ["lens", *m, "-p", "a" * 400, "--plot", FOLDER / "x.png"]),
            ("--plot", ["lens", *m, "-p", "a", "--plot", FOLDER]),
            ("--colour", ["lens", *m, "-p", "a", "--colour", "red"]),
            ("--prompt-tokens", ["bench", *m, "-p", "0"]),
            ("-n", ["bench", *m, "-n", "4000000"]),
            ("--at", ["bench", *m, "-p", "1", "-n", "1", "--at", "5,4000000"]),
            ("--file", ["perplexity", *m]),
            ("subcommand", ["vocab"]),
            ("--file", ["vocab", "build", *m, "-o", "x"]),
            ("--output", ["vocab", "build", *m, "-f", __file__]),
            ("-o", ["vocab", "build", *m, "-f", __file__, "-o", FOLDER]),
            ("--coverage", ["vocab", "build", *m, "-f", __file__, "-o", "x", "--coverage", "0"]),
            ("--coverage", ["vocab", "build", *m, "-f", __file__, "-o", "x", "--coverage", "1.5"]),
            ("--rows", ["vocab", "build", *m, "-f", __file__, "-o", "x", "--rows", "259"]),
            ("LIST", ["vocab", "show", *m]),
            ("IN", ["convert"]),
            ("OUT", ["convert", "x"]),
            ("--type", ["convert", "x", "y"]),
            ("--type", ["convert", "x", "y", "--type", "q5"]),
            ("--vocab-type", ["convert", "x", "y", "--type", "q8", "--vocab-type", "f32"]),
            ("OUT", ["convert", "x", FOLDER, "--type", "q8"]),
        ]:
            with self.subTest(argv=argv if len(str(argv)) < 200 else place):
                self.check(2, place, *argv)

    def test_did_you_mean(self):
        for argv, sentence, hint in [
            (["chta"], "there is no subcommand chta", "did you mean chat?"),
            (["per"], "there is no subcommand per", "did you mean perplexity?"),
            (["head_report"], "there is no subcommand head_report", "did you mean head-report?"),
            (["vocab", "bild"], "there is no subcommand bild", "did you mean build? weft vocab --help"),
            (["chat", "--temp", "0"], "there is no option --temp", "did you mean --temperature?"),
            (["chat", "--temprature=0"], "there is no option --temprature", "did you mean --temperature?"),
            (["chat", "--top_k", "3"], "there is no option --top_k", "did you mean --top-k"),
            (["chat", "--max-token", "3"], "there is no option --max-token", "did you mean --max-tokens?"),
            (["generate", "--promt", "a"], "there is no option --promt", "did you mean --prompt"),
            (["generate", "-p", "a", "--Model", "a"], "there is no option --Model", "did you mean --model?"),
            (["xyzzyx"], "there is no subcommand xyzzyx", "hint: weft --help lists"),
            (["chat", "--xyzzyx"], "there is no option --xyzzyx", "hint: weft chat --help lists"),
            (["chat", "--" + "x" * 5000], "there is no option --xxx", "hint: weft chat --help lists"),
        ]:
            with self.subTest(argv=argv if len(str(argv)) < 200 else sentence):
                _, err = weft(*argv, expect=2)
                self.assertIn(sentence, err)
                self.assertIn(hint, err)

    def test_long_names(self):
        """A short name has a long one, which is the same in all subcommands that mean the same."""
        meant = {"-m": {"--model"}, "-f": {"--file"}, "-o": {"--output"}, "-s": {"--system"}, "-p": {"--prompt", "--prompt-tokens"},
                 "-n": {"--max-tokens", "--count"}, "-k": {"--count"}, "-t": {"--token"}, "-h": {"--help"}}
        names = re.findall(r"^  ([a-z][\w-]*) ", weft("--help")[0].partition("\nExample")[0], re.M)
        self.assertGreater(len(names), 12)
        for words in [[name] for name in names] + [["vocab", "build"], ["vocab", "show"]]:
            out = weft(*words, "--help")[0]
            for short, long in re.findall(r"^  (-\w)(?:,(--[\w-]+))?", out, re.M):
                self.assertIn(long, meant[short], (words, short))
            if words not in (["vocab"], ["chat"], ["vocab", "show"], ["vocab", "build"]):
                self.assertIn("Example:\n  weft " + words[0], out)

    def test_descriptions_name_every_option(self):
        """The man page and the completions of shells; each is made from the options themselves."""
        texts = {kind: weft("describe", kind)[0] for kind in ("man", "bash", "zsh", "fish")}
        for text in texts.values():
            for word in ("chat", "head-report", "max-tokens", "json-schema"):
                self.assertIn(word.replace("-", "\\-") if text is texts["man"] else word, text)
        if shutil.which("groff"):
            formatted = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=texts["man"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((formatted.returncode, formatted.stderr), (0, ""))
            plain_text = re.sub(".\b|\x1b\\[[0-9]*m", "", formatted.stdout)
            self.assertIn("weft - run small language models", plain_text)
            self.assertIn("--max-tokens N", plain_text)
        for shell in ("zsh", "fish"):
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=texts[shell], text=True, check=True)
        def completed(*words):
            script = texts["bash"] + "\nCOMP_WORDS=(" + " ".join(f"'{word}'" for word in words) + f"); COMP_CWORD={len(words) - 1}; _weft; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            return subprocess.run(["bash", "-uc", script], text=True, stdout=subprocess.PIPE, cwd=FOLDER).stdout.split()
        self.assertEqual(completed("weft", "ch"), ["chat"])
        self.assertEqual(completed("weft", "chat", "--temp"), ["--temperature"])
        self.assertEqual(completed("weft", "chat", "--type", "q"), ["q8", "q4"])
        self.assertEqual(completed("weft", "vocab", "b"), ["build"])
        self.assertEqual(completed("weft", "vocab", "build", "--cov"), ["--coverage"])
        self.assertEqual(completed("weft", "lab", "ran"), ["rank"])
        self.assertEqual(completed("weft", "lab", "rank", "--contexts"), ["--contexts"])
        (FOLDER / "completed.txt").write_text("")
        self.assertEqual(completed("weft", "chat", "-f", "compl"), ["completed.txt"])
        self.assertEqual(completed("weft", "chat", "--temperature", "compl"), [])
        self.assertNotIn("describe", completed("weft", ""))

    def test_wrong_sentences(self):
        """Messages that once misled a new user."""
        err = weft("generate", "hello", expect=2)[1]
        self.assertIn("weft generate takes no argument hello\nhint: --prompt TEXT gives it a text.", err)
        self.assertIn("there is no subcommand biuld", weft("vocab", "biuld", expect=2)[1])
        _, err = weft("fill", "-m", plain(), "the [MASK] sat", expect=2)
        self.assertIn("weft: --model: this model guesses no masked words\nhint: use a model such as BERT", err)
        text = FOLDER / "one part.txt"
        text.write_text("some words")
        self.assertRegex(weft("perplexity", "-m", plain(), "-f", text)[0], r"^1 part, 10 bytes")
        out, err = weft("generate", "-m", plain(), "-p", "a", "-n", 2, "--save", FOLDER / "none" / "x", expect=1)
        self.assertTrue(out.endswith("\n"), out)
        self.assertTrue(err.startswith("weft: "), err)

    def test_bytes_that_are_no_utf8(self):
        done = subprocess.run([os.fsencode(BIN / "weft"), b"generate", b"-m", os.fsencode(plain()), b"-p", b"a\xff"], env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"weft: -p: the text is not UTF-8 at byte 1", done.stderr)

    def test_failures(self):
        empty = FOLDER / "empty"
        empty.mkdir(exist_ok=True)
        garbage = FOLDER / "garbage.gguf"
        garbage.write_bytes(b"GGUF\3\0\0\0" + b"\xff" * 64)
        blank = FOLDER / "blank.txt"
        blank.write_bytes(b"")
        wrong = FOLDER / "wrong.keep"
        wrong.write_text("5\n99999\n")
        for place, argv in [
            ("no such", ["generate", "-m", FOLDER / "no such", "-p", "a"]),
            ("empty", ["generate", "-m", empty, "-p", "a"]),
            ("garbage", ["generate", "-m", garbage, "-p", "a"]),
            ("garbage", ["inspect", garbage]),
            ("reads texts and writes none", ["geometry", "-m", bert()]),
            ("reads texts and writes none", ["lens", "-m", bert(), "-p", "a"]),
            ("the family 't5' writes answers to a text", ["lens", "-m", t5(), "-p", "a"]),
            ("no such", ["perplexity", "-m", plain(), "-f", FOLDER / "no such"]),
            ("blank", ["perplexity", "-m", plain(), "-f", blank]),
            ("empty", ["perplexity", "-m", plain(), "-f", empty]),
            ("no such", ["head-report", "-m", plain(), "-f", FOLDER / "no such"]),
            ("blank", ["head-report", "-m", plain(), "-f", blank]),
            ("no such", ["vocab", "build", "-m", plain(), "-f", FOLDER / "no such", "-o", FOLDER / "x"]),
            ("blank", ["vocab", "build", "-m", plain(), "-f", blank, "-o", FOLDER / "x"]),
            ("empty", ["vocab", "build", "-m", plain(), "-f", empty, "-o", FOLDER / "x"]),
            ("blank.txt/x", ["vocab", "build", "-m", plain(), "-f", __file__, "-o", blank / "x"]),
            ("/dev/null", ["vocab", "build", "-m", plain(), "-f", __file__, "-o", "/dev/null"]),
            ("keep:klingon", ["vocab", "show", "-m", plain(), "klingon"]),
            ("keep:digits,!digits", ["vocab", "show", "-m", plain(), "digits,!digits"]),
            ("blank.txt:1", ["vocab", "show", "-m", plain(), blank]),
            ("wrong.keep:2: the id 99999 is out of range", ["vocab", "show", "-m", plain(), wrong]),
            ("no such", ["convert", FOLDER / "no such", FOLDER / "x.gguf", "--type", "q8"]),
            ("garbage", ["convert", garbage, FOLDER / "x.gguf", "--type", "q8"]),
            ("empty", ["convert", empty, FOLDER / "x.gguf", "--type", "q8"]),
            ("this is a folder", ["convert", plain(), FOLDER, "--type", "q8", "--force"]),
            ("no such/x.gguf", ["convert", plain(), FOLDER / "no such" / "x.gguf", "--type", "q8"]),
            ("no device of this name", ["generate", "-m", plain(), "-p", "a", "--device", "no device of this name"]),
            ("no device of this name", ["devices", "--device", "no device of this name"]),
        ]:
            with self.subTest(argv=argv):
                self.check(1, place, *argv)

    def test_no_vulkan_driver(self):
        none = {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}
        out, err = weft("generate", "-m", plain(), "-p", "a", expect=1, env=none)
        self.assertEqual(out, "")
        self.assertTrue(err.startswith("weft: "), err)
        for argv, said in (((), ""), (("--json",), '{"devices":[]}')):
            out, err = weft("devices", *argv, expect=1, env=none)
            self.assertEqual("".join(out.split()), said)
            self.assertTrue(err.startswith("weft: "), err)

    def limited(self, kind, value):
        """The output of `weft generate` with a limit: None, the answer, or the error, which names the limit."""
        command = [BIN / "weft", "generate", "-m", str(plain()), "-p", "a", "-n", "2"]
        done = subprocess.run(command, env=dict(ENV, WEFT_CACHE_DIR=""), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=300, preexec_fn=lambda: resource.setrlimit(kind, (value, value)))
        return done.returncode, done.stderr

    @unittest.skipIf(SANITIZED, "sanitizers need descriptors and address space of their own")
    def test_few_descriptors(self):
        for count in (4, 5, 6, 8):
            status, said = self.limited(resource.RLIMIT_NOFILE, count)
            self.assertTrue(status == 0 or (status == 1 and f"{count} file descriptors" in said), (count, status, said))

    @unittest.skipIf(SANITIZED, "sanitizers need descriptors and address space of their own")
    def test_little_address_space(self):
        for megabytes in (50, 80, 120, 160, 200):  # with less, libraries cannot be mapped; with more, software drivers crash
            status, said = self.limited(resource.RLIMIT_AS, megabytes << 20)
            self.assertTrue(status == 0 or (status == 1 and "address space is limited" in said), (megabytes, status, said))

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BIN / "weft", "devices"], env=ENV, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"weft: stdout: ", done.stderr)
