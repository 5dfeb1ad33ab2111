"""Drives the built `weft` as a person and as a script would, on tiny models with random weights.

apps_test.py BIN_DIR [unittest arguments]; the tests of Shared need the models of $WEFT_SHARED.
"""
import importlib.util
import json
import math
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("WEFT_SHARED") or ROOT.parent / "shared")
WORK = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(WORK.name)
TEMPLATE = ("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")
ENV = dict(os.environ, XDG_STATE_HOME=str(FOLDER / "state"), WEFT_CACHE_DIR=str(FOLDER / "cache"), TERM="xterm")
if pathlib.Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json").exists():
    # The layer, with synchronization validation, writes what it has to say to stdout.
    ENV.update(VK_INSTANCE_LAYERS="VK_LAYER_KHRONOS_validation",
               VK_LAYER_ENABLES="VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")

GENERATE_KEYS = ["prompt_ids", "ids", "text", "stop", "device", "driver", "type", "load_s", "first_token_s", "prompt_tokens_per_s",
                 "reused_tokens", "decode_tokens_per_s", "head", "stages", "readback_bytes_per_token", "device_bytes"]


def weft(*argv, stdin="", env=None, expect=0, timeout=300):
    """Runs weft; returns (stdout, stderr). A validation message anywhere fails the test."""
    done = subprocess.run([BIN / "weft", *map(str, argv)], input=stdin.encode(), env=dict(ENV, **(env or {})),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    out, err = done.stdout.decode(), done.stderr.decode(errors="replace")
    if done.returncode != expect:
        raise AssertionError(f"weft {argv}: exit {done.returncode}, not {expect}\n{out}\n{err}")
    if any(word in out + err for word in ("VUID-", "SYNC-HAZARD", "Validation ")):
        raise AssertionError(f"weft {argv}: the validation layer spoke up\n{out}\n{err}")
    return out, err


def weft_json(*argv, **more):
    """Runs weft --json; stdout must be one JSON object and nothing else."""
    out, _ = weft(*argv, "--json", **more)
    result = json.loads(out)
    assert isinstance(result, dict)
    return result


def model(name, *options):
    path = FOLDER / name
    if not path.exists():
        subprocess.run([BIN / "weft-make-model", path, "--shape", "tiny", *map(str, options)], check=True, stdout=subprocess.DEVNULL)
    return path


def plain():
    return model("plain.gguf", "--type", "q8_0")


def chatty():
    return model("chatty.gguf", "--type", "f16", "--chat-template", TEMPLATE)


class Json(unittest.TestCase):
    def check_numbers(self, result):
        self.assertEqual(list(result["device_bytes"]), ["vocab", "layers", "kv", "scratch"])
        self.assertTrue(all(size > 0 for size in result["device_bytes"].values()), result["device_bytes"])
        if result.get("stages"):  # shares of the device's time
            self.assertAlmostEqual(sum(result["stages"].values()), 1, delta=0.02)
        for key in ("load_s", "first_token_s", "prompt_tokens_per_s", "decode_tokens_per_s"):
            if key in result:
                self.assertGreater(result[key], 0, key)

    def test_generate(self):
        result = weft_json("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 6, "--temperature", 0)
        self.assertEqual(list(result), GENERATE_KEYS)
        self.assertEqual(result["prompt_ids"], [1, 5, 9])
        self.assertTrue(1 <= len(result["ids"]) <= 6)
        self.assertEqual(result["type"], "q8")
        self.assertLessEqual(result["readback_bytes_per_token"], 16)
        if len(result["ids"]) > 1:
            self.check_numbers(result)

    def test_logprobs(self):
        wanted = ("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 6, "--temperature", 0)
        without = weft_json(*wanted)
        for head in ("full", "certified"):
            result = weft_json(*wanted, "--logprobs", 3, "--head", head)
            self.assertEqual(result["ids"], without["ids"])
            self.assertEqual([token["id"] for token in result["logprobs"]], result["ids"])
            for token in result["logprobs"]:
                top = [other["logprob"] for other in token["top"]]
                self.assertEqual(top, sorted(top, reverse=True))
                self.assertEqual((len(top), token["top"][0]["id"], top[0]), (3, token["id"], token["logprob"]))
                self.assertLess(top[0], 0)

    def test_bias_and_penalties(self):
        wanted = ("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 5, "--temperature", 0)
        self.assertEqual(weft_json(*wanted, "--logit-bias", "77=100")["ids"], [77] * 5)
        both = weft_json(*wanted, "--logit-bias", "77=50", "--logit-bias", "78=50", "--frequency-penalty", 2)
        self.assertEqual(set(both["ids"]), {77, 78})
        self.assertEqual(len(set(weft_json(*wanted, "--frequency-penalty", "-2")["ids"])), 1)

    def test_type_is_obeyed(self):
        for wanted in ("f16", "q8", "q4"):
            result = weft_json("generate", "-m", plain(), "--prompt-ids", "1", "-n", 1, "--type", wanted)
            self.assertEqual(result["type"], wanted)

    def test_type_of_the_cache(self):
        kv = {}
        for wanted in ("f16", "q8"):
            result = weft_json("generate", "-m", model("wide.gguf", "--head-dim", 64), "--prompt-ids", "1,5,9", "-n", 4, "--kv", wanted)
            kv[wanted] = result["device_bytes"]["kv"]
        self.assertEqual(kv["q8"] * 32, kv["f16"] * 17)

    def test_hugging_face_folder(self):
        result = weft_json("generate", "-m", model("folder", "--type", "f16", "--hf"), "-p", "hello", "-n", 3)
        self.assertEqual(list(result), GENERATE_KEYS)
        self.assertGreater(len(result["prompt_ids"]), 0)

    def test_bench(self):
        result = weft_json("bench", "-m", plain(), "-p", 8, "-n", 4, "--repeat", 2)
        for key in ("prompt_tokens", "decode_tokens", "device", "driver", "type", "bytes_per_token", "read_gb_per_s"):
            self.assertIn(key, result)
        self.assertEqual((result["prompt_tokens"], result["decode_tokens"], len(result["runs"])), (8, 4, 2))
        self.assertGreater(result["device_read_gb_per_s"], 0)
        self.assertGreater(result["cpu_s_per_token"]["process"], result["cpu_s_per_token"]["calling_thread"])
        self.check_numbers(result)

    def test_bench_profile(self):
        profile = weft_json("bench", "-m", plain(), "-p", 8, "-n", 4, "--repeat", 1, "--profile")["profile"]
        self.assertEqual([(p["tokens"], p["position"]) for p in profile.values()], [(1, 9), (8, 0)])
        for name, part in profile.items():
            stages = {stage["name"]: stage for stage in part["stages"]}
            self.assertTrue({"matmul", "attend", "project", "advance"} <= set(stages), (name, stages))
            self.assertEqual(part["dispatches"], sum(stage["dispatches"] for stage in stages.values()))
            self.assertAlmostEqual(part["device_seconds"], sum(stage["seconds"] for stage in stages.values()))
            self.assertGreater(part["submitted_seconds"], part["device_seconds"])
            self.assertTrue(all(stages[stage]["bytes"] > 0 for stage in ("matmul", "attend", "project")))
        out, _ = weft("bench", "-m", plain(), "-p", 8, "-n", 4, "--repeat", 1, "--profile")
        self.assertRegex(out, r"(?m)^profile   1 token from position 9 on: [\d.]+ ms in \d+ dispatches, [\d.]+ us each$")
        self.assertRegex(out, r"(?m)^prompt    8 tokens from position 0 on: ")
        self.assertRegex(out, r"(?m)^          matmul +[\d.]+ +[\d.]+% +\d+ +[\d.]+ +[\d.]+ +[\d.]+$")

    def test_bench_behind_a_context(self):
        result = weft_json("bench", "-m", plain(), "-p", 2, "-n", 2, "--repeat", 1, "--at", "5,40")
        self.assertEqual([one["position"] for one in result["at"]], [5, 40])
        self.assertTrue(all(one["submitted_seconds"] > 0 for one in result["at"]))

    def test_growth(self):
        # apps/bench/growth.py: the fit against a line and a cloud worked out by hand; the plot is a picture.
        spec = importlib.util.spec_from_file_location("growth", ROOT / "apps/bench/growth.py")
        growth = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(growth)
        self.assertEqual(growth.fit([(0, 1), (1, 3), (2, 5)]), (1, 2, 1))
        self.assertEqual(growth.fit([(1, 1), (2, 3), (3, 2)]), (1, 0.5, 0.25))
        data, picture = FOLDER / "plot.json", FOLDER / "plot.png"
        series = [{"label": "a", "points": [[1, 2], [3000, 4.5]], "line": [2, 0.001]}, {"label": "b", "points": [[1, 0]]}]
        data.write_text(json.dumps({"title": "t", "x": "x", "y": "y", "series": series}))
        weft("plot", "-f", data, "-o", picture)
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        for text in ("{}", "no JSON", '{"title": "t", "x": "x", "y": "y", "series": [{"label": "a", "points": [[1]]}]}'):
            data.write_text(text)
            _, err = weft("plot", "-f", data, "-o", picture, expect=1)
            self.assertIn("it is no plot: ", err)

    def test_int8_inputs(self):
        wanted = ("generate", "-m", plain(), "--prompt-ids", ",".join(str(3 + i) for i in range(40)), "-n", 4, "--int8-inputs")
        self.assertTrue(weft_json(*wanted)["ids"])
        _, err = weft(*wanted, env={"WEFT_DISABLE": "int8_dot"}, expect=1)
        self.assertIn("the device has no integer dot products", err)

    def test_tune(self):
        cache = FOLDER / "tune-cache"
        own = {"WEFT_CACHE_DIR": str(cache)}
        wanted = ("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 20, "--temperature", 0)
        plan = lambda **env: weft_json("devices", "--device", 0, env=dict(own, **env))["devices"][0]["plan"]
        if "SwiftShader" in weft_json("devices", "--device", 0)["devices"][0]["name"]:
            self.skipTest("its compiler takes minutes for the candidates")
        usual, before = plan(), weft_json(*wanted, env=own)["ids"]
        report = weft_json("tune", env=own)
        path = pathlib.Path(report["file"])
        self.assertEqual(path.parent, cache)
        self.assertEqual(set(report["chosen"]), {"split", "row_tiles", "block_tokens", "tile_tokens", "reduce_threads"})
        self.assertFalse([trial for trial in report["trials"] if trial["refusal"]])
        tuned = plan()
        self.assertEqual({name: tuned[name] for name in report["chosen"]}, report["chosen"])
        self.assertEqual(tuned["tuning"], f"as measured: {path}")
        self.assertEqual(weft_json(*wanted, env=own)["ids"], before)
        self.assertEqual(plan(WEFT_TUNE="0"), dict(usual, tuning="switched off by WEFT_TUNE=0"))
        path.write_text(path.read_text().replace("split", "spilt"))
        self.assertIn("is damaged or of another version and was ignored", plan()["tuning"])
        self.assertEqual(dict(plan(), tuning=""), dict(usual, tuning=""))
        _, err = weft("tune", env={"WEFT_CACHE_DIR": ""}, expect=1)
        self.assertIn("there is no place to keep what is chosen", err)
        (FOLDER / "a-file").write_text("")
        weft("tune", env={"WEFT_CACHE_DIR": str(FOLDER / "a-file")}, expect=1)

    def test_microbench(self):
        # Each verifies what the device gives before it is timed.
        one_token = "norm|norm_heads|rope|activate|attend/.*/context:128|matmul/.*/q8/out"
        done = subprocess.run([BIN / "weft-microbench", "--weft_model=qwen3-0.6b", "--benchmark_min_time=0.001", "--benchmark_format=json",
                               f"--benchmark_filter=^({one_token})/.*tokens:1/|^(add|adjust|pick|advance|threshold)/"],
                              env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout[done.stdout.index(b"{"):])
        self.assertGreater(float(result["context"]["read GB/s"]), 0)
        names = [run["name"].split("/")[0] for run in result["benchmarks"]]
        self.assertEqual(names, ["matmul", "norm_heads", "rope", "attend", "attend", "norm", "activate", "add", "adjust", "threshold",
                                 "pick", "advance"])
        for run in result["benchmarks"]:
            self.assertNotIn("error_message", run)
            self.assertGreater(run["ms"], 0)
        wrong = subprocess.run([BIN / "weft-microbench", "--weft_model=gpt-5"], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(wrong.returncode, 2)
        self.assertRegex(wrong.stderr.decode(), 'there is no shape "gpt-5"\nhint: smollm-135m, .*, llama3-8b\n')

    def test_perplexity(self):
        text = FOLDER / "text"
        text.write_text("one two three<|cut|><|cut|>four five")
        result = weft_json("perplexity", "-m", plain(), "-f", text, "--split", "<|cut|>")
        self.assertEqual(list(result), ["tokens", "bytes", "parts", "nll", "bits_per_byte", "device", "driver", "type",
                                        "load_s", "device_bytes"])
        self.assertEqual((result["bytes"], result["parts"]), (len("one two three") + len("four five"), 2))
        self.assertAlmostEqual(result["bits_per_byte"],
                               result["nll"] * result["tokens"] / math.log(2) / result["bytes"], places=5)

    def test_perplexity_in_windows(self):
        """Each token counts exactly once, however long the windows are."""
        text = FOLDER / "long"
        text.write_text("the quick brown fox jumps over the lazy dog " * 4)
        whole = weft_json("perplexity", "-m", plain(), "-f", text)
        for ctx in (2, 3, 17, 32):
            windows = weft_json("perplexity", "-m", plain(), "-f", text, "--ctx", ctx)
            self.assertEqual(windows["tokens"], whole["tokens"])
            self.assertGreater(windows["nll"], 0)

    def test_inspect(self):
        result = weft_json("inspect", plain())
        buffers = {buffer["name"]: buffer for buffer in result["buffers"]}
        self.assertTrue(result["tensors"])
        for tensor in result["tensors"]:
            self.assertIn(tensor["buffer"], buffers)
            self.assertTrue(tensor["exact"], tensor)  # Q8_0 to q8, norms to f32
        self.assertTrue(any(len(buffer["users"]) == 2 for buffer in buffers.values() if isinstance(buffer["users"], list)),
                        "the tied table is one buffer with two users")
        self.assertEqual(result["types"], [{"device_type": "f32", "exact": True, "file_type": "F32", "largest_error": 0,
                                            "relative_error": 0, "tensors": 5},
                                           {"device_type": "q8", "exact": True, "file_type": "Q8_0", "largest_error": 0,
                                            "relative_error": 0, "tensors": 15}])
        out, _ = weft("inspect", "-m", plain())
        for tensor in result["tensors"]:
            self.assertIn(tensor["name"], out)

    def test_inspect_states_what_is_rounded(self):
        """Some types become q8 or q4 unchanged; every other type is rounded a little, and says how much."""
        for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"):
            path = model(kind + ".gguf", "--type", kind, "--width", 256, "--ffn", 512)
            result = weft_json("inspect", path)
            wanted = "q4" if kind in ("Q4_0", "Q4_1", "Q4_K") else "q8"
            self.assertEqual(result["type"], wanted)
            kinds = {(entry["file_type"], entry["device_type"]): entry for entry in result["types"]}
            self.assertEqual(set(kinds), {("F32", "f32"), (kind, wanted)})
            entry = kinds[(kind, wanted)]
            self.assertEqual(entry["tensors"], 15)
            self.assertEqual(entry["exact"], kind in ("Q4_0", "Q4_1", "Q5_0"))
            tensors = [tensor for tensor in result["tensors"] if tensor["file_type"] == kind]
            self.assertEqual(entry["largest_error"], max(tensor["largest_error"] for tensor in tensors))
            self.assertEqual(entry["relative_error"], max(tensor["relative_error"] for tensor in tensors))
            if entry["exact"]:
                continue
            # Half a step of 1/127; Q4_K: half a unit in the last place of scale and minimum.
            least, most = (0, 0.001) if wanted == "q4" else (0.0005, 0.0045)
            self.assertTrue(least < entry["relative_error"] < most, entry)
            out, _ = weft("inspect", path)
            self.assertIn(f"{entry['largest_error']:.2g} ({100 * entry['relative_error']:.2g}%)", out)

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "AddressSanitizer keeps what is freed")
    def test_memory_while_loading(self):
        """A load takes the device's copy, which is the process's own where they share memory, and no second one of the file."""
        peaks, sizes = [], []
        for rows in (1000, 1000, 41000):  # the first fills the pipeline cache
            path = model(f"rows{rows}.gguf", "--width", 1024, "--layers", 1, "--vocab", rows, "--type", "q8_0")
            process = subprocess.Popen([BIN / "weft", "generate", "-m", path, "-p", "a", "-n", "1", "--ctx", "64"], env=ENV,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            peaks.append(usage.ru_maxrss * 1024)
            sizes.append(path.stat().st_size)
        # Some room for the longer tokenizer.
        self.assertLess(peaks[2] - peaks[1], 1.1 * (sizes[2] - sizes[1]) + (12 << 20), (peaks, sizes))

    def test_devices(self):
        result = weft_json("devices")
        self.assertEqual(list(result), ["devices"])
        out, _ = weft("devices")
        for device in result["devices"]:
            self.assertIn(device["name"], out)


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
            # More text behind it: only that is computed, and gives what the same context gives from the start.
            more = weft_json("generate", "-m", plain(), "-n", 6, "--restore", file, "--prompt-ids", "4,8", *sampling)
            self.assertEqual(more["reused_tokens"], 3 + 9 - 1)
            fresh = weft_json("generate", "-m", plain(), "-n", 6, "--prompt-ids", ",".join(map(str, more["prompt_ids"])), *sampling)
            self.assertEqual(more["ids"], fresh["ids"])

    def test_a_chat_goes_on(self):
        file = FOLDER / "chat.session"
        options = ("chat", "-m", chatty(), "-n", 8, "--temperature", 0)
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
        refused("it was saved with a context of 2048, here it is 64", "--ctx", 64)
        other.write_bytes(file.read_bytes()[:-100])
        refused("the file was cut or damaged", path=other)
        refused("No such file", path=FOLDER / "none.session")
        refused("it is no session", path=plain())
        _, err = weft("chat", "-m", plain(), "--restore", file, expect=1)
        self.assertIn("has no conversation", err)
        _, err = weft("generate", "-m", plain(), "--prompt-ids", "1", "-n", 2, "--save", FOLDER / "none" / "x", expect=1)
        self.assertIn("none/x", err)


class Text(unittest.TestCase):
    def bert(self):
        """The goldens' BERT with a tokenizer of WordPieces beside it; its 131 rows have no more tokens than that."""
        folder = FOLDER / "bert"
        if not folder.exists():
            shutil.copytree(ROOT / "tests/model/golden_encoders/bert", folder)
            tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "##s", "."]
            special = [dict(id=i, content=t, special=True) for i, t in enumerate(tokens[:5])]
            template = [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "[SEP]"}}]
            (folder / "tokenizer.json").write_text(json.dumps(dict(
                added_tokens=special, normalizer=dict(type="BertNormalizer"), pre_tokenizer=dict(type="BertPreTokenizer"),
                post_processor=dict(type="TemplateProcessing", single=template), decoder=dict(type="WordPiece"),
                model=dict(type="WordPiece", unk_token="[UNK]", vocab={t: i for i, t in enumerate(tokens)}))))
            (folder / "tokenizer_config.json").write_text(json.dumps(dict(mask_token="[MASK]")))
        return folder

    def test_embed(self):
        out, _ = weft("embed", "-m", self.bert(), "The cat sat.", "Cats")
        vectors = [[float(number) for number in line.split()] for line in out.splitlines()]
        self.assertEqual([len(vector) for vector in vectors], [48, 48])
        for vector in vectors:
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
        (FOLDER / "lines.txt").write_text("the CAT sat .\r\ncats\n")
        result = weft_json("embed", "-m", self.bert(), "-f", FOLDER / "lines.txt")
        for mine, theirs in zip(result["embeddings"], vectors):
            self.assertTrue(all(abs(a - b) < 1e-5 for a, b in zip(mine, theirs)))
        first = weft_json("embed", "-m", self.bert(), "--pool", "cls", "cats")["embeddings"][0]
        self.assertNotEqual(first, result["embeddings"][1])
        _, err = weft("embed", "-m", self.bert(), "cats", "the " * 160, expect=1)
        self.assertIn("text 2: 162 tokens were given, the encoder reads 150", err)
        _, err = weft("embed", "-m", plain(), "a", expect=1)
        self.assertIn("has no encoder", err)

    def test_fill(self):
        result = weft_json("fill", "-m", self.bert(), "The [MASK] sat on [MASK]", "-k", 3)
        self.assertEqual(result["ids"], [2, 5, 4, 7, 8, 4, 3])
        self.assertEqual([mask["place"] for mask in result["masks"]], [2, 5])
        for mask in result["masks"]:
            chances = [guess["probability"] for guess in mask["guesses"]]
            self.assertEqual(chances, sorted(chances, reverse=True))
            self.assertTrue(len(chances) == 3 and 0 < sum(chances) < 1)
        out, _ = weft("fill", "-m", self.bert(), "the [MASK]", "-k", 2)
        self.assertEqual(len(out.splitlines()), 2)
        weft("fill", "-m", self.bert(), "no mask", expect=2)
        _, err = weft("generate", "-m", self.bert(), "-p", "the cat", expect=1)
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
        # What was held back comes at the end.
        result = weft_json(*wanted, "--stop", whole[-3:] + "!")
        self.assertEqual((result["text"], result["stop"] in ("length", "token")), (whole, True))

    def t5(self):
        """The goldens' T5 with a unigram tokenizer beside it."""
        folder = FOLDER / "t5"
        if not folder.exists():
            shutil.copytree(ROOT / "tests/model/golden_seq2seq/t5", folder, ignore=shutil.ignore_patterns("*.gguf"))
            tokens = ["<pad>", "</s>", "<unk>", "\u2581the", "\u2581cat", "\u2581sat", "s", "\u2581"]
            special = [dict(id=i, content=t, special=True) for i, t in enumerate(tokens[:3])]
            (folder / "tokenizer.json").write_text(json.dumps(dict(
                added_tokens=special, pre_tokenizer=dict(type="Metaspace", replacement="\u2581", prepend_scheme="always"),
                decoder=dict(type="Metaspace", replacement="\u2581", prepend_scheme="always"),
                post_processor=dict(type="TemplateProcessing", single=[{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}]),
                model=dict(type="Unigram", unk_id=2, vocab=[[t, -1 - i] for i, t in enumerate(tokens)]))))
            (folder / "tokenizer_config.json").write_text(json.dumps(dict(eos_token="</s>")))
        return folder

    def test_encoder_decoder(self):
        def run(*more, count=12):
            return weft_json("generate", "-m", self.t5(), "--temperature", 0, "-n", count, *more)
        result = run("-p", "the cats sat", "--save", FOLDER / "t5.session")
        self.assertEqual(result["prompt_ids"], [3, 4, 6, 5, 1])
        self.assertEqual(run("--prompt-ids", "3,4,6,5,1")["ids"], result["ids"])
        self.assertEqual(run("-p", "the cats sat", "--head", "certified")["ids"], result["ids"])
        more = run("--restore", FOLDER / "t5.session")
        self.assertEqual(result["ids"] + more["ids"], run("-p", "the cats sat", count=24)["ids"])
        self.assertEqual(run("--restore", FOLDER / "t5.session", "-p", "sat")["prompt_ids"], [5, 1])
        run("--prompt-ids", ",".join(["3"] * 32), "--ctx", 32)
        weft("generate", "-m", self.t5(), "--prompt-ids", ",".join(["3"] * 33), "--ctx", 32, expect=2)
        for words in (["chat"], ["perplexity", "-f", ROOT / "LICENSE"]):
            _, err = weft(*words, "-m", self.t5(), expect=1)
            self.assertIn("t5" if words[0] != "chat" else "weft generate uses it", err)
        self.assertEqual(len(weft_json("embed", "-m", self.t5(), "the cat")["embeddings"][0]), 32)
        inspected = weft_json("inspect", "-m", self.t5())
        self.assertIn("encoder layer 1", [buffer["name"] for buffer in inspected["buffers"]])

    def test_same_seed_same_text(self):
        def run(seed):
            return weft_json("generate", "-m", plain(), "-p", "a", "-n", 12, "--temperature", 1, "--top-k", 0, "--top-p", 1,
                             "--min-p", 0, "--seed", seed)["ids"]
        self.assertEqual(run(7), run(7))
        self.assertNotEqual(run(7), run(8))

    def test_streams_what_json_holds(self):
        options = ["generate", "-m", plain(), "-p", "a", "-n", 8, "--temperature", 0]
        out, err = weft(*options)
        self.assertEqual(out, weft_json(*options)["text"] + "\n")
        self.assertIn("tok/s", err)

    def test_help(self):
        for command in ("chat", "generate", "bench", "perplexity", "head-report", "vocab build", "vocab show", "inspect", "devices"):
            out, err = weft(*command.split(), "--help")
            self.assertIn("--device", out)
            self.assertEqual(err, "")


class Heads(unittest.TestCase):
    HEADS = ["full", "certified", "fast", "fast:3", "keep:ascii", "certified+keep:ascii,!digits", "fast:8+keep:ascii"]

    def generate(self, head, *options, path=None):
        return weft_json("generate", "-m", path or plain(), "-p", "the cat", "-n", 24, "--head", head,
                         *(options or ("--temperature", 0)))

    def test_every_head_generates(self):
        for head in self.HEADS:
            with self.subTest(head=head):
                result = self.generate(head)
                self.assertEqual(list(result), GENERATE_KEYS)
                self.assertEqual(list(result["head"]), ["name", "bytes_per_token", "rows_per_token"] +
                                 (["uncertain_share"] if head.startswith("fast") else []))
                self.assertEqual(result["head"]["name"], head)
                self.assertGreater(result["head"]["bytes_per_token"], 0)
                self.assertGreater(result["head"]["rows_per_token"], 0)

    def test_certified_gives_what_full_gives(self):
        for path in (plain(), chatty()):
            full = self.generate("full", path=path)
            self.assertEqual(self.generate("certified", path=path)["ids"], full["ids"])
            seeded = ("--temperature", 1, "--top-k", 5, "--seed", 3)
            self.assertEqual(self.generate("certified", *seeded, path=path)["ids"],
                             self.generate("full", *seeded, path=path)["ids"])
            self.assertEqual(full["head"]["rows_per_token"], weft_json("inspect", path)["vocab_size"])

    def test_a_keep_list_keeps(self):
        kept = weft_json("vocab", "show", "digits", "-m", plain())["kept"]
        result = self.generate("keep:digits,!prompt")
        self.assertEqual(result["head"]["rows_per_token"], kept)
        self.assertLess(result["head"]["bytes_per_token"], self.generate("full")["head"]["bytes_per_token"])

    def test_bench(self):
        for head in ("full", "certified", "fast:8"):
            result = weft_json("bench", "-m", plain(), "-p", 4, "-n", 4, "--repeat", 1, "--head", head)
            self.assertEqual(result["head"]["name"], head)
            self.assertGreater(result["head"]["bytes_per_token"], 0)
        out, _ = weft("bench", "-m", plain(), "-p", 4, "-n", 4, "--repeat", 1, "--head", "fast:8")
        self.assertRegex(out, r"(?m)^head +fast:8 [\d.]+ [KM]?i?B/tok \d+ rows \d+% uncertain$")

    def test_chat(self):
        _, err = weft("chat", "-m", chatty(), "-n", 4, "--seed", 1, "--head", "certified",
                      stdin="hello\n/head\n/head fast:0\n/head\n/head  fast:8 \nhello\n/stats\n")
        self.assertEqual(err.count("The head is certified.\n"), 3, err)
        self.assertEqual(err.count("The head is fast:8.\n"), 1, err)
        self.assertIn('weft: /head: "fast:0" asks for "0" rows, expected 1 to 128\nhint: full, ', err)
        self.assertRegex(err, r"\| certified [\d.]+ [KM]?i?B/tok \d+ rows")
        self.assertRegex(err, r"\| fast:8 [\d.]+ [KM]?i?B/tok \d+ rows \d+% uncertain")
        self.assertIn("head      fast:8 now", err)

    REPORT_KEYS = ["head", "rows", "bytes", "share_of_full", "refined_rows", "agreement", "recall", "kl", "uncertain_share",
                   "token_ms", "token_of_full", "head_share", "head_ms"]

    def report(self, *options, path=None, text="the quick brown fox jumps over the lazy dog " * 4):
        file = FOLDER / "along"
        file.write_text(text)
        result = weft_json("head-report", "-m", path or plain(), "-f", file, *options)
        self.assertEqual(list(result), ["tokens", "context", "ranks", "sampling", "device", "driver", "type", "rows", "heads"])
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
            self.assertEqual(head["uncertain_share"] is None, not name.startswith("fast"))
            if head["head_share"] is not None:  # None where the device has no timestamps
                self.assertTrue(0 < head["head_share"] < 1)
                self.assertAlmostEqual(head["head_ms"], head["head_share"] * head["token_ms"])
        full = heads["full"]
        self.assertEqual((full["agreement"], full["recall"], full["share_of_full"]), (1, 1, 1))
        self.assertEqual(full["rows"], {"mean": result["rows"], "p50": result["rows"], "p99": result["rows"]})
        for name in heads.keys() & {"certified"}:
            self.assertEqual((heads[name]["agreement"], heads[name]["recall"]), (1, 1))
            self.assertAlmostEqual(heads[name]["kl"], 0, places=6)
        return result, heads

    def test_report(self):
        for path in (plain(), chatty()):
            result, heads = self.report("--max-tokens", 30, "--heads", "certified", "fast:3", "keep:digits,!prompt",
                                        "certified", "--top-k", 10, path=path)
            self.assertEqual(list(heads), ["full", "certified", "fast:3", "keep:digits,!prompt"])
            self.assertEqual((result["tokens"], result["ranks"], result["sampling"]["temperature"]), (30, 10, 0))
            kept = weft_json("vocab", "show", "digits", "-m", path)["kept"]
            self.assertEqual(heads["keep:digits,!prompt"]["rows"]["p99"], kept)
            self.assertLess(heads["keep:digits,!prompt"]["recall"], 1)
            self.assertGreater(heads["keep:digits,!prompt"]["kl"], 0)

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
        self.assertEqual([line.split()[0] for line in lines[2:]], ["head", "full", "certified", "fast:16", "fast:64"])
        self.assertEqual(len({len(line) for line in lines[2:]}), 1, out)

    def test_report_plot(self):
        png = FOLDER / "heads.png"
        png.write_text("old")
        self.report("--max-tokens", 3, "--plot", png, "--heads", "fast:2", "keep:digits")
        data = png.read_bytes()
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
        self.assertEqual(list(shown), ["kept", "always_kept", "rows", "share", "first_texts"])
        self.assertEqual((shown["kept"], shown["rows"]), (built["kept"], built["rows"]))
        self.assertEqual(len(shown["first_texts"]), min(12, shown["kept"] - 259))
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


class Convert(unittest.TestCase):
    PROMPT = ["-p", "hello world", "-n", 24, "--temperature", 0]

    def out(self, name):
        folder = FOLDER / "converted"
        folder.mkdir(exist_ok=True)
        return folder / name

    def ids(self, path, *more):
        result = weft_json("generate", "-m", path, *self.PROMPT, *more)
        return result["prompt_ids"], result["ids"]

    def check_same_ids(self, source, name):
        """A model and what it is converted to give the same ids on a device of that type."""
        for kind in ("q8", "f16", "q4"):
            with self.subTest(model=source, type=kind):
                out = self.out(f"{name}-{kind}.gguf")
                weft("convert", source, out, "--type", kind)
                self.assertEqual(self.ids(out, "--type", kind), self.ids(source, "--type", kind))

    def test_runs_as_before(self):
        self.check_same_ids(model("folder32", "--type", "f32", "--hf"), "folder")
        self.check_same_ids(model("plain32.gguf", "--type", "f32"), "plain")
        for kind in ("Q4_0", "Q4_K", "Q6_K"):
            self.check_same_ids(model(kind + ".gguf", "--type", kind, "--width", 256, "--ffn", 512), kind)

    def test_a_vocab_type_needs_no_file(self):
        """A table of another type than the matrices: the same from one file as from one that was converted to it."""
        text = FOLDER / "vocab-type.txt"
        text.write_text("hello world, one two three. " * 8)
        nll = lambda *argv: weft_json("perplexity", "-m", *argv, "-f", text)["nll"]
        for source, kind, table in ((model("plain32.gguf", "--type", "f32"), "q4", "q8"),
                                    (model("untied32.gguf", "--type", "f32", "--untied"), "q8", "q4")):
            with self.subTest(source=source, type=kind, vocab_type=table):
                out, types = self.out(f"{source.stem}-{kind}-{table}.gguf"), ["--type", kind, "--vocab-type", table]
                weft("convert", source, out, *types)
                self.assertEqual(self.ids(source, *types), self.ids(out))
                self.assertEqual(nll(source, *types), nll(out))
                self.assertNotEqual(nll(source, *types), nll(source, "--type", kind))
                inspected = weft_json("inspect", source, *types)
                self.assertEqual(inspected["vocab_bytes"], weft_json("inspect", out)["vocab_bytes"])
                tables = ("token_embd.weight", "output.weight")
                for tensor in inspected["tensors"]:
                    if len(tensor["shape"]) == 2:
                        self.assertEqual(tensor["device_type"], table if tensor["name"] in tables else kind, tensor)
        # Without --type the matrices stay what they are in the file.
        inspected = weft_json("inspect", plain(), "--vocab-type", "q4")
        kinds = {tensor["name"]: tensor["device_type"] for tensor in inspected["tensors"]}
        self.assertEqual((kinds["token_embd.weight"], kinds["blk.0.ffn_up.weight"]), ("q4", "q8"))

    def test_folders_of_other_families_run_as_before(self):
        """Turned and stacked matrices; the families' test models have no tokenizer of their own."""
        tokenizer = model("folder64", "--type", "f16", "--hf", "--vocab", 64)
        for family in ("gpt2", "mixtral"):
            with self.subTest(family=family):
                folder, out = self.out(family), self.out(family + ".gguf")
                shutil.copytree(ROOT / "tests/model/golden" / family, folder, ignore=shutil.ignore_patterns("*.gguf"))
                for name in ("tokenizer.json", "tokenizer_config.json"):
                    shutil.copy(tokenizer / name, folder)
                weft("convert", folder, out, "--type", "f16")
                before, after = (weft_json("generate", "-m", path, "--prompt-ids", "1,40,7,23", "-n", 24, "--temperature", 0)["ids"]
                                 for path in (folder, out))
                self.assertEqual(before, after)
                if importlib.util.find_spec("gguf"):
                    import gguf
                    self.assertIn("tokenizer.ggml.tokens", gguf.GGUFReader(out).fields)

    def test_report(self):
        source, out = model("plain32.gguf", "--type", "f32"), self.out("report.gguf")
        result = weft_json("convert", source, out, "--type", "q8", "--vocab-type", "f16")
        self.assertEqual(list(result), ["tensor_bytes", "tensors", "types", "out"])
        kinds = {tensor["name"]: tensor["to_type"] for tensor in result["tensors"]}
        self.assertEqual((kinds["token_embd.weight"], kinds["blk.0.ffn_up.weight"], kinds["output_norm.weight"]),
                         ("F16", "Q8_0", "F32"))
        text, _ = weft("convert", source, out, "--type", "q8", "--vocab-type", "f16", "--force")
        for entry in result["types"]:
            self.assertRegex(text, f"{entry['from_type']} +{entry['to_type']} +{entry['tensors']} ")
        inspected = weft_json("inspect", out)["tensors"]
        self.assertEqual({tensor["name"]: tensor["file_type"] for tensor in inspected}, kinds)

    def test_what_is_there_stays(self):
        out = self.out("old.gguf")
        out.write_text("old")
        argv = ["convert", plain(), out, "--type", "f16"]
        _, err = weft(*argv, expect=2)
        self.assertEqual(err, f'weft: OUT: "{out}" is there already\nhint: --force replaces it\n')
        self.assertEqual(out.read_text(), "old")
        weft(*argv, "--force")
        self.assertEqual(self.ids(out, "--type", "q8"), self.ids(plain(), "--type", "q8"))

    def test_a_full_disk_leaves_nothing(self):
        """A limit on the file's size stands for the disk; writing past it fails midway."""
        folder = FOLDER / "full"
        folder.mkdir(exist_ok=True)
        for old in (None, "old"):
            if old:
                (folder / "out.gguf").write_text(old)
            before = sorted(path.name for path in folder.iterdir())
            limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))
            done = subprocess.run([BIN / "weft", "convert", plain(), folder / "out.gguf", "--type", "f16", "--force"], env=ENV,
                                  preexec_fn=limit, restore_signals=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
            self.assertEqual(done.stderr.decode(),
                             f"weft: {folder / 'out.gguf'}: cannot write the file: File too large\n")
            self.assertEqual(sorted(path.name for path in folder.iterdir()), before)
        self.assertEqual((folder / "out.gguf").read_text(), "old")

    def test_an_interrupt_leaves_nothing(self):
        folder = FOLDER / "interrupted"
        folder.mkdir(exist_ok=True)
        source = model("larger.gguf", "--type", "f32", "--width", 512, "--ffn", 2048, "--vocab", 40000)
        for signal_ in (signal.SIGINT, signal.SIGTERM):
            running = subprocess.Popen([BIN / "weft", "convert", source, folder / "out.gguf", "--type", "q8"], env=ENV,
                                       stderr=subprocess.PIPE)
            while not list(folder.iterdir()):  # the partial file
                self.assertIsNone(running.poll(), "it ended too soon for this test")
                time.sleep(0.001)
            running.send_signal(signal_)
            _, err = running.communicate(timeout=60)
            self.assertEqual(running.returncode, 1, err)
            self.assertIn(b"converting was given up", err)
            self.assertEqual(list(folder.iterdir()), [])

    @unittest.skipUnless(importlib.util.find_spec("gguf"), "there is no Python package gguf here")
    def test_the_gguf_package_reads_it(self):
        import gguf
        import numpy as np
        source, out = model("folder32", "--type", "f32", "--hf"), self.out("package.gguf")
        weft("convert", source, out, "--type", "q8", "--vocab-type", "q4")
        reader = gguf.GGUFReader(out)
        self.assertEqual(reader.get_field("general.architecture").contents(), "llama")
        self.assertEqual(reader.get_field("llama.block_count").contents(), 2)
        self.assertEqual(len(reader.get_field("tokenizer.ggml.tokens").contents()), 512)
        self.assertEqual(len(reader.get_field("tokenizer.ggml.scores").contents()), 512)
        raw = (source / "model.safetensors").read_bytes()
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + size])
        tensors = {tensor.name: tensor for tensor in reader.tensors}
        for name, hf in [("token_embd.weight", "model.embed_tokens.weight"),
                         ("blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight"),
                         ("blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight")]:
            begin, end = (8 + size + offset for offset in header[hf]["data_offsets"])
            wanted = np.frombuffer(raw[begin:end], np.float32).reshape(header[hf]["shape"])
            got = gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type)
            self.assertEqual(got.shape, wanted.shape)
            step = 1e-12 if "norm" in name else (wanted.max() - wanted.min()) / 15 if "embd" in name else abs(wanted).max() / 127
            self.assertLess(abs(got - wanted).max(), step, name)


class Readme(unittest.TestCase):
    """What README.md names is there."""

    TEXT = (ROOT / "README.md").read_text()

    def test_paths(self):
        paths = re.findall(r"`((?:runtime|shaders|apps|tests|cmake)/[\w./-]*)`", self.TEXT)
        self.assertGreater(len(paths), 10)
        for path in paths:
            if not re.search(r"\b(X|NAME)\b", path.replace("X_test", "X")):
                self.assertTrue((ROOT / path).exists(), path)

    def test_operations(self):
        way = self.TEXT.split("## One token's way")[1].split("| folder |")[0]
        steps = "".join(line for line in way.splitlines(True) if re.match(r"\d\. |   ", line))
        for name in re.findall(r"`([a-z]+)`", steps):
            for file in (f"runtime/ops/{name}.cpp", f"shaders/{name}.comp"):
                self.assertTrue((ROOT / file).exists(), file)

    def test_commands(self):
        for command in re.findall(r"^\| `weft ([\w -]+)`", self.TEXT, re.M):
            weft(*command.split(), "--help")


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
            ("-n", [*generate, "-n", "0"]),
            ("-n", [*generate, "-n", "-3"]),
            ("-n", [*generate, "-n", "many"]),
            ("-n", [*generate, "-n", "99999999999999999999"]),
            ("-n", [*generate, "-n"]),
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
            ("--head", [*generate, "--head", "fast:129"]),
            ("--head: keep:klingon: ", [*generate, "--head", "certified+keep:klingon"]),
            ("--head: " + str(FOLDER / "wrong.keep") + ":2: the id 99999", [*generate, "--head",
                                                                             f"keep:{FOLDER / 'wrong.keep'}"]),
            ("--head", ["bench", *m, "--head", "fast:x"]),
            ("--head", ["chat", *m, "--head", "certified:3"]),
            ("-f", ["head-report", *m]),
            ("--max-tokens", ["head-report", *m, "-f", __file__, "--max-tokens", "0"]),
            ('--heads: "full,fast" is no head', ["head-report", *m, "-f", __file__, "--heads", "certified", "full,fast"]),
            ("--heads: keep:klingon: ", ["head-report", *m, "-f", __file__, "--heads", "keep:klingon"]),
            ("--plot", ["head-report", *m, "-f", __file__, "--plot", FOLDER]),
            ("--plot", ["head-report", *m, "-f", __file__, "--plot", "/dev/null"]),
            ("--plot", ["head-report", *m, "-f", __file__, "--plot", FOLDER / "no such" / "x.png"]),
            ("-p", ["bench", *m, "-p", "0"]),
            ("-n", ["bench", *m, "-n", "4000000"]),
            ("--at", ["bench", *m, "-p", "1", "-n", "1", "--at", "5,4000000"]),
            ("-f", ["perplexity", *m]),
            ("subcommand", ["vocab"]),
            ("-f", ["vocab", "build", *m, "-o", "x"]),
            ("-o", ["vocab", "build", *m, "-f", __file__]),
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
            ("keep:greek", ["vocab", "show", "-m", plain(), "greek"]),
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

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BIN / "weft", "devices"], env=ENV, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"weft: stdout: ", done.stderr)


class PipedChat(unittest.TestCase):
    def test_each_line_is_a_turn(self):
        out, err = weft("chat", "-m", chatty(), "-n", 4, "--seed", 1, stdin="hello\n\n/stats\nagain\n/help\n/nonsense\nlast")
        self.assertEqual(err.count("| decode "), 3, err)
        self.assertIn("/reset", err)
        self.assertIn("/nonsense", err)
        self.assertNotIn("> ", out)
        self.assertNotIn("chat template", err)

    def test_set(self):
        """Each /set starts from what the chat began with."""
        def answers(*lines, options=()):
            out, err = weft("chat", "-m", plain(), "-n", 3, "--temperature", 0, *options, stdin="\n".join(lines) + "\n")
            return out.splitlines(), err
        forced = weft_json("generate", "-m", plain(), "--prompt-ids", "1", "-n", 3, "--temperature", 0, "--logit-bias", "77=100")["text"]
        (first, second, third, fourth), err = answers("a", "/set --logit-bias 77=100", "a", "/reset", f"/set --seed 1 --stop {'x' * 300}",
                                                      "/set --top-p 2", "/set -m x", "a", "/reset", "/set", "a")
        self.assertEqual((second, third, fourth), (forced, forced, first))
        self.assertIn("weft: --stop: a stop string has 300 bytes, expected at most 256\n", err)
        self.assertIn("weft: /set: --top-p: must be a number above 0 to 1, not \"2\"", err)
        self.assertIn("weft: /set: ", err.split("--top-p")[1])
        (biased, plain_again), _ = answers("a", "/reset", "/set --logit-bias 77=0", "a", options=("--logit-bias", "77=100"))
        self.assertEqual((biased, plain_again), (forced, first))

    def test_the_earlier_turns_count(self):
        """The second prompt holds the first turn; after /reset it does not."""
        def second_prompt(between):
            _, err = weft("chat", "-m", chatty(), "-n", 1, "--seed", 1, stdin=f"hello there\n{between}x\n/stats\n")
            return int(err.split("context   ")[1].split()[0])
        self.assertGreater(second_prompt(""), second_prompt("/reset\n"))

    def test_without_template(self):
        _, err = weft("chat", "-m", plain(), "-n", 3, stdin="once\nmore\n")
        self.assertEqual(err.count("chat template"), 1, err)

    def test_no_model_named(self):
        """The model that Weft ships chats, and hears the turns before."""
        out, _ = weft("chat", "--temperature", 0, stdin="hello\nset a timer for 10 minutes\nturn it off again\n")
        self.assertTrue(out.startswith("Hello!"), out)
        self.assertIn('{"action":"set_timer","minutes":10}', out)
        self.assertIn('{"action":"cancel_timer"}', out)

    def test_bad_input_costs_a_sentence(self):
        done = subprocess.run([BIN / "weft", "chat", "-m", chatty(), "-n", "2"], input=b"a\xff\nfine\n", env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"not UTF-8", done.stderr)
        self.assertEqual(done.stderr.count(b"| decode "), 1)

    def test_full_context_drops_the_oldest(self):
        lines = "".join(f"turn {i} with some words in it\n" for i in range(12))
        _, err = weft("chat", "-m", chatty(), "--ctx", 128, "-n", 4, stdin=lines)
        self.assertIn("oldest turns are forgotten", err)
        self.assertEqual(err.count("| decode "), 12, err)

    def test_too_long_a_message(self):
        _, err = weft("chat", "-m", chatty(), "--ctx", 64, "-n", 2, stdin="x y " * 500 + "\nshort\n")
        self.assertIn("weft: ", err)
        self.assertEqual(err.count("| decode "), 1, err)


class Terminal:
    """weft chat on a pseudo-terminal."""

    def __init__(self, *argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BIN / "weft", ["weft", *map(str, argv)], ENV)
        self.seen = ""

    def expect(self, text, seconds=60):
        """Waits until text comes; returns and forgets what came up to it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {text!r} within {seconds} s, but {self.seen!r}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"the program ended before {text!r}: {self.seen!r}")
            self.seen += data.decode(errors="replace")
        before, self.seen = self.seen.split(text, 1)
        return before

    def type(self, data):
        os.write(self.fd, data)

    def wait(self, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the program did not end")

    def close(self):
        if self.pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


class InteractiveChat(unittest.TestCase):
    def start(self, *argv):
        chat = Terminal("chat", "-m", model("big.gguf", "--type", "f16", "--chat-template", TEMPLATE, "--context", "4096",
                                            "--layers", "12"), *argv)
        self.addCleanup(chat.close)
        chat.expect("/help lists the commands")
        chat.expect("> ")
        return chat

    def test_interrupt_stops_the_answer_and_not_the_program(self):
        chat = self.start("-n", 0, "--repeat-penalty", 2)
        for _ in range(8):  # random weights may end an answer by themselves: some try is long enough
            chat.type(b"hello\n")
            chat.expect("hello")
            time.sleep(0.3)
            chat.type(b"\x03")
            before = chat.expect("| decode ")
            chat.expect("> ")
            if "[stopped]" in before:
                break
        else:
            self.fail("no answer could be stopped")
        chat.type(b"/stats\n")
        chat.expect("context ")
        chat.expect("> ")  # a Ctrl-D before the prompt would be the terminal's, not the line editor's
        chat.type(b"\x04")
        self.assertEqual(chat.wait(), 0)

    def test_two_interrupts_at_the_prompt_leave(self):
        chat = self.start()
        chat.type(b"half a li\x03")
        chat.expect("again or Ctrl-D leaves")
        chat.expect("> ")
        chat.type(b"\x03")
        self.assertEqual(chat.wait(), 0)

    def test_history_is_kept(self):
        chat = self.start("-n", 2)
        chat.type(b"/help\n")
        chat.expect("/reset")
        chat.type(b"/quit\n")
        self.assertEqual(chat.wait(), 0)
        self.assertIn("/help", (FOLDER / "state/weft/history").read_text())
        chat = self.start("-n", 2)
        chat.type(b"\x1b[A\x1b[A\n")  # up, up: /help
        chat.expect("/reset")
        chat.type(b"/quit\n")
        self.assertEqual(chat.wait(), 0)


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


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.testsRun == len(result.skipped) else 0)
