"""The heads of `generate`, `bench` and `chat`, and `head-report`."""
import unittest
import zlib

from support import FOLDER, GENERATE_KEYS, ROOT, chatty, plain, weft, weft_json


class Heads(unittest.TestCase):
    HEADS = ["full", "certified", "sure", "sure:1e-6", "fast", "fast:3.5", "keep:ascii", "certified+keep:ascii,!digits",
             "sure+keep:ascii", "fast:8+keep:ascii"]

    def generate(self, head, *options, path=None):
        return weft_json("generate", "-m", path or plain(), "-p", "the cat", "-n", 24, "--head", head,
                         *(options or ("--temperature", 0)))

    def test_every_head_generates(self):
        for head in self.HEADS:
            with self.subTest(head=head):
                result = self.generate(head)
                self.assertEqual(list(result), GENERATE_KEYS)
                self.assertEqual(list(result["head"]), ["name", "bytes_per_token", "rows_per_token"])
                self.assertEqual(result["head"]["name"], head)
                self.assertGreater(result["head"]["bytes_per_token"], 0)
                self.assertGreater(result["head"]["rows_per_token"], 0)

    def test_certified_and_sure_give_what_full_gives(self):
        for path in (plain(), chatty()):
            full = self.generate("full", path=path)
            seeded = ("--temperature", 1, "--top-k", 5, "--seed", 3)
            full_seeded = self.generate("full", *seeded, path=path)
            for head in ("certified", "sure"):
                self.assertEqual(self.generate(head, path=path)["ids"], full["ids"])
                self.assertEqual(self.generate(head, *seeded, path=path)["ids"], full_seeded["ids"])
            self.assertEqual(full["head"]["rows_per_token"], weft_json("inspect", path)["vocab_size"])

    def test_the_first_load_measures_states(self):
        """The first load keeps the statistics in a file and chooses the same tokens as later loads; a damaged file is written again."""
        cache = FOLDER / "cache-of-states"
        env = {"WEFT_CACHE_DIR": str(cache)}
        generate = lambda: weft_json("generate", "-m", chatty(), "-p", "the cat", "-n", 24, "--head", "sure", env=env)["ids"]
        first = generate()
        (states,) = cache.glob("states-*.bin")
        whole = states.read_bytes()
        self.assertEqual((generate(), states.read_bytes()), (first, whole))
        states.write_bytes(whole[:-1])
        self.assertEqual((generate(), states.read_bytes()), (first, whole))

    def test_a_keep_list_keeps(self):
        kept = weft_json("vocab", "show", "digits", "-m", plain())["kept"]
        result = self.generate("keep:digits,!prompt")
        self.assertEqual(result["head"]["rows_per_token"], kept)
        self.assertLess(result["head"]["bytes_per_token"], self.generate("full")["head"]["bytes_per_token"])

    def test_digits_write_digits(self):
        for path in (plain(), ROOT / "apps/pocket/pocket.gguf"):
            for sampling in (("--temperature", 0), ("--temperature", 2, "--seed", 3)):
                made = weft_json("generate", "-m", path, "-p", "set a timer for one", "-n", 12, "--head", "keep:digits,!control", *sampling)
                self.assertRegex(made["text"], r"\A[0-9 ]*\Z")
                self.assertGreater(len(made["text"].strip()) + (made["stop"] == "token"), 0)

    def test_bench(self):
        for head in ("full", "certified", "sure", "fast:8", "auto", "auto:sure"):
            result = weft_json("bench", "-m", plain(), "-p", 4, "-n", 4, "--repeat", 1, "--head", head)
            self.assertEqual(result["head"]["name"], head)
            self.assertGreater(result["head"]["bytes_per_token"], 0)
        out, _ = weft("bench", "-m", plain(), "-p", 4, "-n", 4, "--repeat", 1, "--head", "fast:8")
        self.assertRegex(out, r"(?m)^head +fast:8 [\d.]+ [KM]?i?B/tok \d+ rows$")

    def test_chat(self):
        _, err = weft("chat", "--lines", "--stats", "-m", chatty(), "-n", 4, "--seed", 1, "--head", "certified",
                      stdin="hello\n/head\n/head fast:0\n/head\n/head  fast:8 \nhello\n/stats\n")
        self.assertEqual(err.count("The head is certified.\n"), 3, err)
        self.assertEqual(err.count("The head is fast:8.\n"), 1, err)
        self.assertIn('weft: /head: "fast:0" has "0" for the deviations, expected a number above 0, at most 40\nhint: full, ', err)
        self.assertRegex(err, r"\| certified [\d.]+ [KM]?i?B/tok \d+ rows")
        self.assertRegex(err, r"\| fast:8 [\d.]+ [KM]?i?B/tok \d+ rows")
        self.assertIn("head      fast:8 now", err)

    REPORT_KEYS = ["head", "rows", "bytes", "share_of_full", "refined_rows", "agreement", "recall", "kl", "token_ms",
                   "token_of_full", "head_share", "head_ms", "errors"]

    def report(self, *options, path=None, text="the quick brown fox jumps over the lazy dog " * 4):
        file = FOLDER / "along"
        file.write_text(text)
        result = weft_json("head-report", "-m", path or plain(), "-f", file, *options)
        self.assertEqual(list(result), ["tokens", "ranked", "context", "ranks", "sampling", "device", "driver", "type", "rows", "heads"])
        heads = {head["head"]: head for head in result["heads"]}
        self.assertEqual(len(heads), len(result["heads"]))
        for name, head in heads.items():
            self.assertEqual(list(head), self.REPORT_KEYS)
            for key in ("rows", "bytes"):
                self.assertTrue(0 < head[key]["p50"] <= head[key]["p99"], head)
                self.assertTrue(0 < head[key]["mean"], head)
            for key in ("agreement", "recall"):
                self.assertTrue(0 <= head[key] <= 1, head)
            self.assertGreaterEqual(head["kl"], -1e-6)
            self.assertAlmostEqual(head["share_of_full"], head["bytes"]["mean"] / heads["full"]["bytes"]["mean"])
            self.assertAlmostEqual(head["token_of_full"], head["token_ms"] / heads["full"]["token_ms"])
            if head["head_share"] is not None:  # None where the device has no timestamps
                self.assertTrue(0 < head["head_share"] < 1)
                self.assertAlmostEqual(head["head_ms"], head["head_share"] * head["token_ms"])
        full = heads["full"]
        self.assertEqual((full["agreement"], full["recall"], full["share_of_full"]), (1, 1, 1))
        self.assertEqual(full["rows"], {"mean": result["rows"], "p50": result["rows"], "p99": result["rows"]})
        for name, head in heads.items():
            errors = head["errors"]
            if name == "full" or "keep" in name or "auto" in name:
                self.assertIsNone(errors)
                continue
            self.assertEqual(list(errors), ["estimates", "allowed", "rms", "largest", "beyond"])
            self.assertTrue(0 < errors["rms"] < 2, errors)
            self.assertTrue(1 >= errors["beyond"]["3"] >= errors["beyond"]["4"] >= errors["beyond"]["5"] >= 0, errors)
            if name in ("certified", "sure"):
                self.assertLessEqual(errors["largest"], errors["allowed"])
            if name.startswith("fast:"):
                self.assertLessEqual(errors["allowed"], float(name[5:]) * 1.001)
        for name in heads.keys() & {"certified", "sure"}:
            self.assertEqual((heads[name]["agreement"], heads[name]["recall"]), (1, 1))
            self.assertAlmostEqual(heads[name]["kl"], 0, places=6)
        return result, heads

    def test_report(self):
        for path in (plain(), chatty()):
            result, heads = self.report("--max-tokens", 30, "--heads", "certified", "fast:3", "sure",
                                        "keep:digits,!prompt", "certified", "--top-k", 10, path=path)
            self.assertEqual(list(heads), ["full", "certified", "fast:3", "sure", "keep:digits,!prompt"])
            self.assertEqual((result["tokens"], result["ranked"], result["ranks"], result["sampling"]["temperature"]), (30, 8, 10, 0))
            kept = weft_json("vocab", "show", "digits", "-m", path)["kept"]
            self.assertEqual(heads["keep:digits,!prompt"]["rows"]["p99"], kept)
            self.assertLess(heads["keep:digits,!prompt"]["recall"], 1)
            self.assertGreater(heads["keep:digits,!prompt"]["kl"], 0)

    def test_fast_allows_less_once_bits_are_read(self):
        # 40 deviations leave every row, so it reads all first bits; those it trusts as sure:1e-4 does.
        _, heads = self.report("--max-tokens", 60, "--heads", "sure", "fast:40", path=ROOT / "apps/pocket/pocket.gguf")
        self.assertLess(heads["fast:40"]["bytes"]["mean"], heads["sure"]["bytes"]["mean"])

    def test_report_of_sampling_and_windows(self):
        text = "the quick brown fox"
        whole, _ = self.report("--heads", "certified", "--temperature", 1, "--seed", 5, text=text)
        windows, _ = self.report("--heads", "certified", "--temperature", 1, "--seed", 5, "--ctx", 5, text=text)
        self.assertEqual(windows["tokens"], whole["tokens"])
        self.assertEqual((windows["context"], windows["ranks"]), (5, 40))

    def test_report_table(self):
        file = FOLDER / "along"
        file.write_text("one two three")
        out, _ = weft("head-report", "-m", plain(), "-f", file, "--max-tokens", 5)
        lines = out.splitlines()
        self.assertTrue(lines[0].startswith("5 tokens, greedy; "))
        self.assertEqual([line.split()[0] for line in lines[2:7]], ["head", "full", "certified", "sure", "fast"])
        self.assertEqual(len({len(line) for line in lines[2:7]}), 1, out)
        self.assertTrue(lines[8].startswith("errors of estimates"))
        self.assertEqual([line.split()[0] for line in lines[10:]], ["head", "certified", "sure", "fast", "normal"])
        self.assertEqual(len({len(line) for line in lines[10:]}), 1, out)

    def test_report_plot(self):
        png = FOLDER / "heads.png"
        png.write_text("old")
        errors = FOLDER / "errors.png"
        self.report("--max-tokens", 3, "--plot", png, "--plot-errors", errors, "--heads", "fast:2", "keep:digits")
        for file in (png, errors):
            self.check_png(file.read_bytes())
        self.assertNotEqual(png.read_bytes(), errors.read_bytes())

    def check_png(self, data):
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(data[12:24], b"IHDR" + (960).to_bytes(4, "big") + (640).to_bytes(4, "big"))
        self.assertEqual(data[-8:-4], b"IEND")
        pixels = bytearray()
        at = 8
        while at < len(data):
            length, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
            body = data[at + 8:at + 8 + length]
            self.assertEqual(zlib.crc32(kind + body), int.from_bytes(data[at + 8 + length:at + 12 + length], "big"))
            pixels += body if kind == b"IDAT" else b""
            at += 12 + length
        self.assertEqual(len(zlib.decompress(pixels)), 640 * (1 + 960 * 3))
        self.assertEqual([p.name for p in FOLDER.glob("heads.png*")], ["heads.png"])
