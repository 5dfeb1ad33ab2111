"""Sessions saved in one process and restored in another."""
import unittest

from support import FOLDER, chatty, losing_device_at, plain, weft, weft_json


class Sessions(unittest.TestCase):
    """Saved in one process, restored in another."""

    def test_goes_on_as_if_never_stopped(self):
        for sampling in (["--temperature", 0], ["--temperature", 1.5, "--top-k", 0, "--seed", 7, "--repeat-penalty", 1.3]):
            whole = weft_json("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 24, *sampling)["ids"]
            self.assertEqual(len(whole), 24)
            file = FOLDER / "half.session"
            half = weft_json("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 9, "--save", file, *sampling)["ids"]
            rest = weft_json("generate", "-m", plain(), "-n", 15, "--restore", file)
            self.assertEqual(half + rest["ids"], whole)
            self.assertEqual(rest["prompt_ids"], [1, 5, 9] + half)
            # More text after it: only that is computed, and gives what the same context gives from the start.
            more = weft_json("generate", "-m", plain(), "-n", 6, "--restore", file, "--prompt-ids", "4,8", *sampling)
            self.assertEqual(more["reused_tokens"], 3 + 9 - 1)
            fresh = weft_json("generate", "-m", plain(), "-n", 6, "--prompt-ids", ",".join(map(str, more["prompt_ids"])), *sampling)
            self.assertEqual(more["ids"], fresh["ids"])

    def test_a_table_on_two_devices(self):
        options = ("generate", "-m", plain(), "--prompt-ids", "1,500,9,300", "--temperature", 1, "--seed", 5)
        whole = weft_json(*options, "-n", 24)["ids"]
        for devices in ("0,0", "0:3,0:1"):
            self.assertEqual(weft_json(*options, "-n", 24, "--devices", devices)["ids"], whole)
        file = FOLDER / "two.session"
        half = weft_json(*options, "-n", 9, "--save", file, "--devices", "0:1,0:1")["ids"]
        self.assertEqual(half + weft_json("generate", "-m", plain(), "-n", 15, "--restore", file)["ids"], whole)
        out, _ = weft("inspect", "-m", plain(), "--devices", "0:3,0:1")
        self.assertRegex(out, r"rows 0 to 383, .*; share 3\n")
        self.assertRegex(out, r"rows 384 to 511, .*; share 1\n")
        self.assertRegex(weft("inspect", "-m", plain(), "--devices", "0,0")[0], r"rows \d+ to 511, .*; reads [\d.]+ GB/s\n")
        weft(*options, "--devices", "0,0", "--device", 0, expect=2)
        _, err = weft(*options, "--devices", "0,nothing is called this", expect=1)
        self.assertIn("no Vulkan device is called 'nothing is called this'", err)
        _, err = weft(*options, "--devices", "0:1,0:1", "--speculate", "lookup", expect=1)
        self.assertIn("the vocabulary table is spread over 2 devices", err)
        for head in ("certified", "sure"):
            self.assertEqual(weft_json(*options, "-n", 24, "--top-k", 5, "--devices", "0:1,0:1", "--head", head)["ids"], weft_json(*options, "-n", 24, "--top-k", 5)["ids"])

    def test_the_device_is_lost(self):
        """A device that is lost in the middle of the answer: it takes longer, and nothing else changes."""
        command = ("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 48, "--temperature", 1, "--seed", 3)
        want = weft_json(*command)["ids"]
        for n in (20, 30, 40):
            self.assertEqual(weft_json(*command, env=losing_device_at(n))["ids"], want)
        weft(*command, env=losing_device_at(1), expect=1)  # while it is loaded: it takes effect

    def test_other_files_are_not_overwritten(self):
        letter, empty, link = FOLDER / "letter.txt", FOLDER / "empty.session", FOLDER / "link.session"
        for name, content in ((letter, b"Dear Ada,\n"), (FOLDER / "short", b"w"), (FOLDER / "almost", b"weft-kv0 and more"), (plain(), None)):
            content = name.read_bytes() if content is None else content
            name.write_bytes(content)
            _, err = weft("chat", "--lines", "-m", chatty(), "-n", 2, stdin=f"a\n/save {name}\n")
            self.assertIn(f"weft: {name}: it exists and is not a saved session\n", err)
            _, err = weft("generate", "-m", plain(), "--prompt-ids", "1,5", "-n", 2, "--save", name, expect=1)
            self.assertIn("it exists and is not a saved session", err)
            self.assertEqual(name.read_bytes(), content)
        empty.write_bytes(b"")
        link.symlink_to(empty)
        for name in (empty, empty, link):
            _, err = weft("chat", "--lines", "-m", chatty(), "-n", 2, stdin=f"a\n/save {name}\n")
            self.assertIn(f"The conversation is in {name}.", err)
        self.assertEqual([file.name for file in FOLDER.iterdir() if ".partial-" in file.name], [])

    def test_a_chat_goes_on(self):
        file = FOLDER / "chat.session"
        options = ("chat", "--lines", "--stats", "-m", chatty(), "-n", 8, "--temperature", 0)
        whole, _ = weft(*options, stdin="one\ntwo\nthree\n")
        first, err = weft(*options, stdin=f"one\ntwo\n/save {file}\n")
        self.assertIn(f"The conversation is in {file}.", err)
        rest, err = weft(*options, "--restore", file, stdin="three\n")
        self.assertRegex(err, r"goes on: \d+ tokens")
        self.assertRegex(err, r"prompt \d+ tok .*\(\d+ reused\)")
        self.assertEqual(first + rest, whole)
        loaded, _ = weft(*options, stdin=f"other\n/load {file}\nthree\n")
        self.assertTrue(loaded.endswith(rest))

    def test_refusals(self):
        file, other = FOLDER / "saved.session", FOLDER / "cut.session"
        weft("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 4, "--save", file)
        def refused(sentence, *options, path=file, name=plain()):
            _, err = weft("generate", "-m", name, "--restore", path, "-n", 2, *options, expect=1)
            self.assertIn(sentence, err)
        refused("it was saved with a model of fingerprint", name=chatty())
        refused("it was saved with weights of type q8, here it is f16", "--type", "f16")
        refused("it was saved with a cache of type f16, here it is q8", "--kv", "q8")
        refused("it was saved with a cache of type f16, here it is f16/q4", "--kv-v", "q4")
        refused("it was saved with a context of 2048, here it is 64", "--ctx", 64)
        other.write_bytes(file.read_bytes()[:-100])
        refused("the file was cut or damaged", path=other)
        refused("No such file", path=FOLDER / "none.session")
        refused("it is no session", path=plain())
        _, err = weft("chat", "-m", plain(), "--restore", file, "more", expect=1)
        self.assertIn("has no conversation", err)
        _, err = weft("generate", "-m", plain(), "--prompt-ids", "1", "-n", 2, "--save", FOLDER / "none" / "x", expect=1)
        self.assertIn("none/x", err)
