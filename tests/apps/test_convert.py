"""`convert`."""
import contextlib
import importlib.util
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import unittest

from support import BIN, ENV, FOLDER, ROOT, model, plain, weft, weft_json


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
        """A model and its conversion give the same ids on a device of that type. The table, which is rounded
        again in its basis, has 16 bits, so that this changes none."""
        for kind in ("q8", "f16", "q4"):
            with self.subTest(model=source, type=kind):
                out, types = self.out(f"{name}-{kind}.gguf"), ["--type", kind, "--vocab-type", "f16"]
                weft("convert", source, out, *types)
                self.assertEqual(self.ids(out, *types), self.ids(source, *types))

    def test_runs_as_before(self):
        self.check_same_ids(model("folder32", "--type", "f32", "--hf"), "folder")
        self.check_same_ids(model("plain32.gguf", "--type", "f32"), "plain")
        self.check_same_ids(model("twice.gguf", "--type", "q8_0", "--second-table", "f16"), "twice")
        for kind in ("Q4_0", "Q4_K", "Q6_K"):
            self.check_same_ids(model(kind + ".gguf", "--type", kind, "--width", 256, "--ffn", 512), kind)

    def test_a_vocab_type_needs_no_file(self):
        """A table of another type than the matrices: the same from one file as from one that was converted to it."""
        text = FOLDER / "vocab-type.txt"
        text.write_text("hello world, one two three. " * 8)
        nll = lambda *argv: weft_json("perplexity", "-m", *argv, "-f", text)["nll"]
        for source, kind, table in ((model("plain32.gguf", "--type", "f32"), "q4", "f16"),
                                    (model("plain32.gguf", "--type", "f32"), "q4", "q8"),
                                    (model("untied32.gguf", "--type", "f32", "--untied"), "q8", "f16"),
                                    (model("untied32.gguf", "--type", "f32", "--untied"), "q8", "q4")):
            with self.subTest(source=source, type=kind, vocab_type=table):
                out, types = self.out(f"{source.stem}-{kind}-{table}.gguf"), ["--type", kind, "--vocab-type", table]
                weft("convert", source, out, *types)
                if table == "f16":  # fewer bits are rounded once more, in the table's basis, and show
                    self.assertEqual(self.ids(source, *types), self.ids(out))
                self.assertNotEqual(nll(source, *types), nll(source, "--type", kind))
                inspected = weft_json("inspect", source, *types)
                self.assertEqual(inspected["vocab_bytes"], weft_json("inspect", out, "--vocab-type", table)["vocab_bytes"])
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

    def test_a_quantised_folder(self):
        """Its methods are the types of its matrices, and the integers stay what they are."""
        folder = FOLDER / "gptq"
        shutil.copytree(ROOT / "tests/model/golden_quantised/gptq-4", folder)
        vocabulary = {chr(33 + i) if i < 94 else f"<{i}>": i for i in range(104)}
        (folder / "tokenizer.json").write_text(json.dumps(dict(
            model=dict(type="BPE", vocab=vocabulary, merges=[]), pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False),
            decoder=dict(type="ByteLevel"), added_tokens=[dict(id=i, content=f"<{i}>", special=True) for i in range(94, 104)])))
        self.assertRegex(weft("inspect", folder)[0], r"\nGPTQ4 +q4_0 +7  exact\n")
        for kind, type in (("q4", "Q4_1"), ("q8", "Q8_0")):
            self.assertRegex(weft("convert", folder, self.out(f"gptq-{kind}.gguf"), "--type", kind)[0], rf"\nGPTQ4 +{type} +7  exact\n")

    def whole_blocks(self):
        """A model whose rows are whole blocks of 256."""
        return model("whole.gguf", "--type", "f32", "--width", 256, "--ffn", 512)

    KINDS = ("q4_0", "iq4_nl", "mxfp4", "q4_k_s", "q4_k_m", "q5_k_m", "q6_k")

    def test_types_as_llama_quantize_names_them(self):
        types = {}
        for kind in self.KINDS:
            out = self.out(f"named-{kind}.gguf")
            weft("convert", self.whole_blocks(), out, "--type", kind, "--force")
            types[kind] = {tensor["name"]: tensor["file_type"] for tensor in weft_json("inspect", out)["tensors"]}
        self.ids(self.out("named-q4_k_m.gguf"))
        self.assertEqual([types[kind]["blk.0.attn_q.weight"] for kind in self.KINDS], ["Q4_0", "IQ4_NL", "MXFP4", "Q4_K", "Q4_K", "Q5_K", "Q6_K"])
        self.assertEqual([types[kind]["token_embd.weight"] for kind in self.KINDS], ["Q6_K", "Q6_K", "Q8_0", "Q6_K", "Q6_K", "Q6_K", "Q6_K"])
        out = self.out("alias.gguf")
        weft("convert", self.whole_blocks(), out, "--type", "Q4_K", "--vocab-type", "q4_0")
        inspected = {tensor["name"]: tensor["file_type"] for tensor in weft_json("inspect", out)["tensors"]}
        self.assertEqual(inspected, types["q4_k_m"] | {"token_embd.weight": "Q4_0"})

    def test_an_importance_matrix(self):
        """What `imatrix` measures of a model is for that model alone."""
        text, matrix, out = FOLDER / "imatrix.txt", self.out("imatrix.gguf"), self.out("weighted.gguf")
        text.write_text("hello world, one two three. " * 20)
        source = self.whole_blocks()
        measured = weft_json("imatrix", "-m", source, text, "-o", matrix, "--part-tokens", 100)
        self.assertGreater(measured["tokens"], 200)
        report = weft_json("convert", source, out, "--type", "q4_k_s", "--imatrix", matrix)
        weighted = {tensor["name"] for tensor in report["tensors"] if tensor["weighted"]}
        self.assertEqual(weighted, {f"blk.{layer}.{name}.weight" for layer in (0, 1) for name in
                                    ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")})
        said, _ = weft("convert", source, out, "--type", "q4_k_s", "--imatrix", matrix, "--force")
        self.assertRegex(said, r"\n20 tensors, 14 of them with the importance matrix, [\d.]+ KiB, in ")
        _, err = weft("convert", plain(), out, "--type", "q4_0", "--imatrix", matrix, "--force", expect=1)
        self.assertRegex(err, rf"weft: {matrix}, tensor blk\.0\.attn_k\.weight: it has numbers for 256 columns, the model's tensor has 64\nhint: ")
        _, err = weft("imatrix", "-m", source, text, "-o", matrix, expect=2)
        self.assertEqual(err, f'weft: -o: "{matrix}" is there already\nhint: --force replaces it\n')
        _, err = weft("convert", source, out, "--type", "q4_0", "--imatrix", text, "--force", expect=1)
        self.assertIn("importance matrices are GGUF files", err)
        if importlib.util.find_spec("gguf"):
            import gguf
            tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(matrix).tensors}
            self.assertEqual(tensors["blk.1.ffn_down.weight.in_sum2"].shape, (1, 512))
            self.assertEqual(tensors["blk.1.ffn_down.weight.counts"].ravel(), measured["tokens"])

    def test_what_cannot_be_measured(self):
        text, matrix = FOLDER / "measured.txt", self.out("measured.gguf")
        text.write_text("hello world")
        short = {context: model(f"context{context}.gguf", "--type", "f32", "--context", context) for context in (1, 2, 3)}
        measure = lambda context, *argv, expect=1: weft("imatrix", "-m", short[context], *argv, expect=expect)[1]
        self.assertIn("context: it must hold at least 2 tokens", measure(1, text, "-o", matrix))
        self.assertIn("model: its context has 2 tokens, measuring needs 3", measure(2, text, "-o", matrix))
        measure(3, text, "-o", matrix, expect=0)
        if importlib.util.find_spec("gguf"):
            import gguf
            self.assertEqual(gguf.GGUFReader(matrix).get_field("imatrix.chunk_size").contents(), 2)
        # The file is opened before anything is measured.
        self.assertIn("absent/x.gguf: cannot create a file beside it", measure(2, text, "-o", FOLDER / "absent/x.gguf"))
        self.assertIn("File name too long", measure(2, text, "-o", FOLDER / ("x" * 300)))
        for bad, sentence in ((b"hello\0world", "the text has a zero byte at byte 5"), (b"hello\xff", "the text is not UTF-8 at byte 5")):
            text.write_bytes(bad)
            self.assertIn(f"weft: TEXT {text}: {sentence}\n", measure(3, text, "-o", matrix, "--force", expect=2))
        self.assertIn("weft: TEXT no-such: No such file", measure(3, "no-such", "-o", matrix, "--force"))
        _, err = weft("convert", plain(), self.out("none.gguf"), "--type", "q4_0", "--imatrix", "", expect=2)
        self.assertIn("--imatrix: must not be empty", err)

    def test_an_interrupt_of_measuring_leaves_nothing(self):
        folder, text = FOLDER / "interrupted-imatrix", FOLDER / "long.txt"
        folder.mkdir(exist_ok=True)
        text.write_text("hello world, one two three. " * 20000)
        running = subprocess.Popen([BIN / "weft", "imatrix", "-m", self.whole_blocks(), text, "-o", folder / "out.gguf"], env=ENV,
                                   stderr=subprocess.PIPE)
        self.wait_for_writing(running, folder)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 1, err)
        self.assertIn(b"measuring was given up", err)
        self.assertEqual(list(folder.iterdir()), [])

    def test_wrong_names_of_types(self):
        _, err = weft("convert", "x", "y", "--type", "q4_km", expect=2)
        self.assertIn('not "q4_km"; did you mean q4_k_m', err)
        self.assertIn("must be one of f16, q8_0, q4_1, q4_0, iq4_nl, mxfp4, q4_k_s, q4_k_m, q5_k_s, q5_k_m, q6_k", err)

    @unittest.skipUnless(importlib.util.find_spec("gguf"), "there is no Python package gguf here")
    def test_the_gguf_package_decodes_the_same_numbers(self):
        import gguf
        import numpy as np
        for kind in self.KINDS + ("q8_0", "q4_1"):
            with self.subTest(type=kind):
                blocks, halves = self.out(f"blocks-{kind}.gguf"), self.out(f"halves-{kind}.gguf")
                weft("convert", self.whole_blocks(), blocks, "--type", kind)
                weft("convert", blocks, halves, "--type", "f16")
                ours = {tensor.name: tensor.data for tensor in gguf.GGUFReader(halves).tensors}
                for tensor in gguf.GGUFReader(blocks).tensors:
                    numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(ours[tensor.name].dtype)
                    np.testing.assert_array_equal(ours[tensor.name], numbers, tensor.name)

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

    def wait_for_writing(self, running, folder):
        """Until it has a file of the folder open, which need not have a name."""
        def opened():
            for link in pathlib.Path(f"/proc/{running.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    yield os.readlink(link)
        while not any(name.startswith(f"{folder}/") for name in opened()):
            self.assertIsNone(running.poll(), "it ended too soon for this test")
            time.sleep(0.001)

    def test_a_kill_leaves_nothing(self):
        folder = FOLDER / "killed"
        folder.mkdir(exist_ok=True)
        source = model("larger.gguf", "--type", "f32", "--width", 512, "--ffn", 2048, "--vocab", 40000)
        for delay in (0, 0.01, 0.03, 0.1, 0.2):
            running = subprocess.Popen([BIN / "weft", "convert", source, folder / "out.gguf", "--type", "q8"], env=ENV, stderr=subprocess.DEVNULL)
            self.wait_for_writing(running, folder)
            time.sleep(delay)
            running.kill()
            running.wait()
            self.assertLessEqual({file.name for file in folder.iterdir()}, {"out.gguf"})
            (folder / "out.gguf").unlink(missing_ok=True)

    def test_an_interrupt_leaves_nothing(self):
        folder = FOLDER / "interrupted"
        folder.mkdir(exist_ok=True)
        source = model("larger.gguf", "--type", "f32", "--width", 512, "--ffn", 2048, "--vocab", 40000)
        for signal_ in (signal.SIGINT, signal.SIGTERM):
            running = subprocess.Popen([BIN / "weft", "convert", source, folder / "out.gguf", "--type", "q8"], env=ENV,
                                       stderr=subprocess.PIPE)
            self.wait_for_writing(running, folder)
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
