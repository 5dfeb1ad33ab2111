"""The JSON and the tables of each subcommand, tuning and the microbenchmarks."""
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from support import BIN, ENV, FOLDER, GENERATE_KEYS, ROOT, model, plain, sometimes, weft, weft_json
from test_lens import pixels_of


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
        self.assertLessEqual(result["readback_bytes_per_token"], 24)
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
        for wanted in ("--kv f16", "--kv q8", "--kv q4", "--kv-k q8 --kv-v q4", "--kv q8 --kv-v q4", "--kv-v q4"):
            result = weft_json("generate", "-m", model("wide.gguf", "--head-dim", 64), "--prompt-ids", "1,5,9", "-n", 4, *wanted.split())
            kv[wanted] = result["device_bytes"]["kv"]
        # Bytes of 64 numbers, half of them of keys.
        self.assertEqual([bytes * 128 / kv["--kv f16"] for bytes in kv.values()], [128, 68, 40, 54, 54, 84])

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

    def test_bench_after_a_context(self):
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
        rows = pixels_of(picture)
        # Points are joined, unless there is a straight line. From (0, 0) at (110, 560) up to (2, 4) at (920, 60), where it is blue.
        data.write_text(json.dumps({"title": "Größe", "x": "x", "y": "y", "series": [{"label": "é 中", "points": [[0, 0], [2, 4]]}]}))
        weft("plot", "-f", data, "-o", picture)
        self.assertIn((31, 119, 180), pixels_of(picture)[310][505:525])
        self.assertNotEqual(rows, pixels_of(picture))
        for ending, first, last in ((".svg", b"<?xml", b"</svg>\n"), (".pdf", b"%PDF-", b"%%EOF\n")):
            weft("plot", "-f", data, "-o", other := picture.with_suffix(ending))
            self.assertTrue(other.read_bytes().startswith(first) and other.read_bytes().endswith(last), other.read_bytes()[-50:])
        self.assertEqual(xml.etree.ElementTree.parse(picture.with_suffix(".svg")).getroot().get("viewBox"), "0 0 960 640")
        self.assertIn("ends with none of .png, .svg and .pdf", weft("plot", "-f", data, "-o", FOLDER / "x.gif", expect=2)[1])
        for text in ("{}", "no JSON", '{"title": "t", "x": "x", "y": "y", "series": [{"label": "a", "points": [[1]]}]}'):
            data.write_text(text)
            _, err = weft("plot", "-f", data, "-o", picture, expect=1)
            self.assertIn("it is no plot: ", err)

    def test_int8_inputs(self):
        wanted = ("generate", "-m", plain(), "--prompt-ids", ",".join(str(3 + i) for i in range(40)), "-n", 4, "--int8-inputs")
        slow = [{"WEFT_DISABLE": "int8_dot"}]
        device = weft_json("devices", "--device", 0)["devices"][0]
        if device["name"].startswith(("Mali", "V3D")):
            slow = []
            weft(*wanted, expect=1)
        elif device["caps"]["int8_dot_fast"]:
            self.assertTrue(weft_json(*wanted)["ids"])
        else:
            slow.append({})
        for env in slow:
            _, err = weft(*wanted, env=env, expect=1)
            self.assertIn("the device has no fast integer dot products", err)

    def test_plan_of_the_environment(self):
        plan = lambda **env: weft_json("devices", "--device", 0, env=env)["devices"][0]["plan"]
        changed = plan(WEFT_PLAN="attend_span=128,run_ahead=2", WEFT_TUNE="0")
        self.assertEqual(changed, dict(plan(WEFT_TUNE="0"), attend_span=128, run_ahead=2, tuning=changed["tuning"]))
        self.assertIn("WEFT_PLAN=attend_span=128,run_ahead=2", changed["tuning"])
        _, err = weft("devices", env={"WEFT_PLAN": "splt=2"}, expect=1)
        self.assertIn("the plan has no field 'splt'", err)
        self.assertIn("there are: subgroup,", err)
        wanted = ("generate", "-m", plain(), "--prompt-ids", "1,5,9", "-n", 20, "--temperature", 0)
        self.assertEqual(weft_json(*wanted, env={"WEFT_PLAN": "attend_span=64,chunk_tokens=16"})["ids"], weft_json(*wanted)["ids"])
        _, err = weft(*wanted, env={"WEFT_PLAN": "attend_span=100"}, expect=1)
        self.assertIn("attend_span cannot be 100 on this device", err)
        self.assertIn("a power of two from 64 to 16384", err)

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
        self.assertEqual(set(report["chosen"]), {"split", "row_tiles", "block_tokens", "matrix_side", "tile_tokens", "reduce_threads"})
        self.assertFalse([trial for trial in report["trials"] if trial["refusal"]])
        tuned = plan()
        self.assertEqual({name: tuned[name] for name in report["chosen"]}, report["chosen"])
        self.assertEqual(tuned["tuning"], f"as measured: {path}")
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        path.chmod(0o620)
        self.assertIn("was ignored: others than its user may write it", plan()["tuning"])
        path.chmod(0o600)
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
                               f"--benchmark_filter=^({one_token})/.*tokens:1/|^(add|penalize|sample|advance|filter)/"],
                              env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout[done.stdout.index(b"{"):])
        self.assertGreater(float(result["context"]["read GB/s"]), 0)
        names = [run["name"].split("/")[0] for run in result["benchmarks"]]
        self.assertEqual(names, ["matmul", "norm_heads", "rope", "attend", "attend", "norm", "activate", "add", "penalize", "filter",
                                 "sample", "advance"])
        for run in result["benchmarks"]:
            self.assertNotIn("error_message", run)
            self.assertGreater(run["ms"], 0)
        done = subprocess.run([BIN / "weft-microbench", "--weft_model=smollm-135m", "--benchmark_min_time=0.001", "--benchmark_format=json",
                               "--benchmark_filter=^gather/.*tokens:1/"], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        result = json.loads(done.stdout[done.stdout.index(b"{"):])
        self.assertEqual(len(result["benchmarks"]), 3)  # f16, q8, q4
        for run in result["benchmarks"]:
            self.assertNotIn("error_message", run)
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
            # Q8_0 to q8, norms to f32; the table is rounded once more, in its basis.
            self.assertEqual(tensor["exact"], tensor["name"] != "token_embd.weight", tensor)
        self.assertTrue(any(len(buffer["users"]) == 2 for buffer in buffers.values() if isinstance(buffer["users"], list)),
                        "the tied table is one buffer with two users")
        table = next(tensor for tensor in result["tensors"] if tensor["name"] == "token_embd.weight")
        self.assertTrue(0 < table["relative_error"] < 0.0045, table)
        self.assertEqual(result["types"], [{"device_type": "f32", "exact": True, "file_type": "F32", "largest_error": 0,
                                            "relative_error": 0, "tensors": 5},
                                           {"device_type": "q8", "exact": False, "file_type": "Q8_0", "tensors": 15,
                                            "largest_error": table["largest_error"],
                                            "relative_error": table["relative_error"]}])
        out, _ = weft("inspect", "-m", plain())
        for tensor in result["tensors"]:
            self.assertIn(tensor["name"], out)

    def test_inspect_states_what_is_tied(self):
        """The table twice, as Q8_0 and as F16, is one; two tables are two."""
        twice, untied = model("twice.gguf", "--type", "q8_0", "--second-table", "f16"), model("untied.gguf", "--type", "q8_0", "--untied")
        tables = lambda result: [buffer["users"] for buffer in result["buffers"] if "table" in buffer["name"]]
        result = weft_json("inspect", twice)
        self.assertEqual((result["tied"], tables(result)), (True, [["gather", "project"]]))
        self.assertEqual((result["tie"]["kept"], result["tie"]["left_out"]), ("output.weight", "token_embd.weight"))
        self.assertTrue(0.001 < result["tie"]["difference"] < 0.01, result["tie"])
        tensors = {tensor["name"]: tensor for tensor in result["tensors"]}
        self.assertLess(tensors["output.weight"]["largest_error"], tensors["token_embd.weight"]["largest_error"])
        self.assertEqual(tensors["token_embd.weight"]["device_bytes"], 0)
        out, _ = weft("inspect", twice)
        self.assertRegex(out, r"output.weight is used for embedding and output: token_embd.weight differs from it by rounding only, 0.\d+% of its norm")
        for path, options in ((twice, ["--tie", "never"]), (untied, []), (untied, ["--tie", "auto"])):
            result = weft_json("inspect", path, *options)
            self.assertEqual((result["tied"], tables(result)), (False, [["gather"], ["project"]]))
            self.assertNotIn("tie", result)
            self.assertNotIn("differs from it by rounding", weft("inspect", path, *options)[0])

    def test_inspect_states_what_is_rounded(self):
        """Some types stay what they are; every other type is rounded a little, and the output says how much."""
        spec = importlib.util.spec_from_file_location("bench_bytes", ROOT / "apps/bench/bytes.py")
        bench_bytes = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bench_bytes)
        formats = {"Q4_0": "q4_0", "Q5_0": "q5_0", "Q5_1": "q5_1", "Q4_1": "q4", "Q4_K": "q4k", "Q5_K": "q5k", "Q6_K": "q6", "MXFP4": "mxfp4", "Q3_K": "q3k",
                   "IQ4_NL": "iq4_nl", "IQ4_XS": "iq4_xs", "IQ3_XXS": "iq3_xxs", "IQ3_S": "iq3_s", "IQ2_XS": "iq2", "IQ1_M": "iq1", "Q2_K": "q2k", "TQ1_0": "q2k", "Q1_0": "q4_0"}
        for kind in ("NVFP4", *sometimes(("Q4_K", "IQ3_S", *(formats.keys() - {"Q4_K", "IQ3_S"})), 2)):
            path = model(kind + ".gguf", "--type", kind, "--width", 256, "--ffn", 512)
            result = weft_json("inspect", path)
            wanted = formats.get(kind, "q8")
            self.assertEqual(result["type"], "q8" if wanted == "q8" else "q8+" + wanted)
            kinds = {(entry["file_type"], entry["device_type"]): entry for entry in result["types"]}
            self.assertEqual(set(kinds), {("F32", "f32"), (kind, wanted), (kind, "q8")})
            # A layer's buffer has the bytes that apps/bench/bytes.py computes, and norms.
            floats = sum(tensor["device_bytes"] for tensor in result["tensors"] if tensor["buffer"] == "layer 0" and tensor["file_type"] == "F32")
            self.assertEqual(next(buffer["bytes"] for buffer in result["buffers"] if buffer["name"] == "layer 0"),
                             floats + sum(map(bench_bytes.matrix_bytes, bench_bytes.layers_of(result)[0])))
            entry = kinds[(kind, wanted)]
            self.assertEqual(entry["tensors"], 15 if wanted == "q8" else 14)
            # The vocabulary table is always rounded once more, in its basis, and to 8 bits.
            table = next(tensor for tensor in result["tensors"] if tensor["name"] == "token_embd.weight")
            self.assertEqual(table["device_type"], "q8")
            self.assertTrue(0.0005 < table["relative_error"] < 0.0045, table)
            tensors = [tensor for tensor in result["tensors"] if tensor["file_type"] == kind and tensor["device_type"] == wanted]
            self.assertEqual(all(tensor["exact"] for tensor in tensors if tensor != table), kind in formats)
            self.assertEqual(entry["largest_error"], max(tensor["largest_error"] for tensor in tensors))
            self.assertEqual(entry["relative_error"], max(tensor["relative_error"] for tensor in tensors))
            if entry["exact"]:
                continue
            self.assertTrue(0.0005 < entry["relative_error"] < 0.0045, entry)  # half a step of 1/127
            out, _ = weft("inspect", path)
            self.assertIn(f"{entry['largest_error']:.2g} ({100 * entry['relative_error']:.2g}%)", out)

    def test_bytes_of_made_files(self):
        """apps/bench/bytes.py computes the bytes a token that `weft inspect` says, for K types with their mixtures and whole blocks, with the table in its basis and as it is."""
        whole = model("k_f16.gguf", "--type", "f16", "--width", 512, "--ffn", 3072, "--layers", 2, "--heads", 8, "--kv-heads", 4, "--vocab", 8192)
        for kind in ("q4_k_m", "q5_k_m", "q6_k"):
            path, said = FOLDER / f"{kind}.gguf", FOLDER / f"{kind}.json"
            weft("convert", whole, path, "--type", kind, "--force")
            for options in ([], ["--native"]):
                said.write_text(json.dumps(weft_json("inspect", path, *(["--vocab-type", "native"] if options else []))))
                script = [sys.executable, ROOT / "apps/bench/bytes.py", *options, "--check", said]
                done = subprocess.run(script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                self.assertEqual(done.returncode, 0, done.stdout)
            wrong = subprocess.run([sys.executable, ROOT / "apps/bench/bytes.py", "--check", said], stdout=subprocess.PIPE, text=True)
            self.assertEqual(wrong.returncode, 1, wrong.stdout)  # a table as it is takes fewer bytes than one in its basis

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "AddressSanitizer keeps what is freed")
    def test_memory_while_loading(self):
        """A load takes memory for the device's copy, in the process where they share memory, and not for a second copy of the file."""
        peaks, sizes = {128: [], 1024: []}, {}
        for width in (128, 128, 128, 1024, 1024, 1024):  # first loads fill caches and measure the model's states
            path = model(f"width{width}.gguf", "--width", width, "--layers", 1, "--vocab", 41000, "--type", "q8_0")
            process = subprocess.Popen([BIN / "weft", "generate", "-m", path, "-p", "a", "-n", "1", "--ctx", "64"], env=ENV,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            peaks[width].append(usage.ru_maxrss * 1024)
            sizes[width] = path.stat().st_size
        # Both have the same tokenizer, which takes 15 MB. A second copy of the larger file would be 43 MB more.
        self.assertLess(min(peaks[1024]) - min(peaks[128]), 1.1 * (sizes[1024] - sizes[128]) + (12 << 20), (peaks, sizes))

    def test_whether_a_model_fits(self):
        probe = weft_json("devices", "-m", plain(), "--ctx", 100)
        model = probe["model"]
        self.assertEqual(probe["needed_bytes"], model["vocab_bytes"] + model["layer_bytes"] + model["session_bytes"])
        self.assertIs(probe["fits"], True)
        self.assertEqual(model["context"], 100)
        out, _ = weft("devices", "-m", plain())
        self.assertIn("fits on " + probe["device"]["name"], out)
        # A file that is no model is an answer in JSON, and an error without.
        self.assertEqual(weft_json("devices", "-m", __file__)["model"]["error"]["code"], "WEFT_UNSUPPORTED")
        weft("devices", "-m", __file__, expect=1)

    def test_devices(self):
        result = weft_json("devices")
        self.assertEqual(list(result), ["devices"])
        out, _ = weft("devices")
        for device in result["devices"]:
            self.assertIn(device["name"], out)

    def test_report_of_devices(self):
        report = json.loads(weft("devices", "--report", env={"WEFT_PLAN": "run_ahead=2", "WEFT_API_KEY": "secret"})[0])
        self.assertEqual(list(report), ["weft", "system", "environment", "devices"])
        self.assertEqual(report["environment"]["WEFT_PLAN"], "run_ahead=2")
        self.assertNotIn("WEFT_API_KEY", report["environment"])
        self.assertEqual([one["name"] for one in report["devices"]], [one["name"] for one in weft_json("devices")["devices"]])
        for device in report["devices"]:
            self.assertEqual(device["plan"]["run_ahead"], 2)
            self.assertIn(device["proof"]["state"], ("passed", "not needed"))
            self.assertGreater(device["free_bytes"], 0)
