"""Models, declarations, and the programs of docs/python.md."""
import ctypes
import dataclasses
import gc
import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

from common import FOLDER, PACKAGE, ROOT, SHARED, TIMER, WithPocket, _c, chatty, pages, weft


class Documentation(unittest.TestCase):
    """help() tells of every parameter, in the wheel too."""

    INTERNAL = {"Generation.__init__", "Model.add_user"}

    def public(self):
        """(name, docstring, names of parameters) of everything public that has parameters."""
        for name in weft.__all__:
            thing = getattr(weft, name)
            if not inspect.isclass(thing):
                yield name, thing.__doc__, inspect.signature(thing).parameters.values()
            elif hasattr(thing, "__total__"):  # a TypedDict; SessionOptions has Settings too
                own = thing.__annotations__.keys() - (weft.Settings.__annotations__.keys() if name == "SessionOptions" else set())
                yield name, thing.__doc__, [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY) for key in own]
            else:
                for method, function in inspect.getmembers(thing, inspect.isfunction):
                    if not method.startswith("_") or method == "__init__" and method in vars(thing) and not dataclasses.is_dataclass(thing):
                        yield f"{name}.{method}", f"{thing.__doc__} {function.__doc__}", list(inspect.signature(function).parameters.values())[1:]

    def test_every_parameter_is_documented(self):
        found = list(self.public())
        self.assertGreater(len(found), 50)
        missing = [(name, parameter.name) for name, text, parameters in found if name not in self.INTERNAL for parameter in parameters
                   if parameter.kind != parameter.VAR_KEYWORD and not re.search(rf"\b{parameter.name}\b" + ("[:,]" if hasattr(getattr(weft, name, None), "__total__") else ""), text)]
        self.assertEqual(missing, [])
        for options in (weft.LoadOptions, weft.SessionOptions, weft.TranscribeOptions, weft.Settings):
            self.assertIn(options.__name__, weft.__all__)
        self.assertRegex(weft.__version__, r"^\d+\.\d+\.\d+$")


class Declarations(unittest.TestCase):
    """The ctypes declarations are what the headers say."""

    def test_they_are_those_of_the_headers(self):
        subprocess.run([sys.executable, PACKAGE / "declare.py", "--check"], check=True)

    def test_another_header_is_seen(self):
        for old, new in (("", ""), ("uint32_t top_k;", "uint64_t top_k;"), ("size_t count, float* nll", "float* nll"),
                         ("top_k = 40;", "top_k = 50;"),
                         ("WEFT_STOP_CALLER,", "WEFT_STOP_ELSE, WEFT_STOP_CALLER,"), ("WEFT_MAX_LOGPROBS 20", "WEFT_MAX_LOGPROBS 21")):
            with self.subTest(new), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                (folder / "bindings/python/weft").mkdir(parents=True)
                (folder / "include/weft").mkdir(parents=True)
                for name in ("declare.py", "weft/_c.py"):
                    (folder / "bindings/python" / name).write_text((PACKAGE / name).read_text())
                for path in (ROOT / "runtime/include/weft").glob("*.h"):
                    (folder / "include/weft" / path.name).write_text(path.read_text().replace(old, new))
                done = subprocess.run([sys.executable, folder / "bindings/python/declare.py", "--check"], stderr=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 0 if old == new else 1)

    def test_a_compiler_lays_structures_out_alike(self):
        structures = [kind for kind in vars(_c).values()
                      if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and hasattr(kind, "_fields_")]
        self.assertGreater(len(structures), 10)
        lines, expected = [], []
        for kind in structures:
            lines.append(f'printf("%zu\\n", sizeof({kind.__name__}));')
            expected.append(ctypes.sizeof(kind))
            for name, _ in kind._fields_:
                lines.append(f'printf("%zu\\n", offsetof({kind.__name__}, {name}));')
                expected.append(getattr(kind, name).offset)
        program = FOLDER / "layout"
        source = "#include <stdio.h>\n#include <weft/batch.h>\n#include <weft/speculate.h>\n#include <weft/probe.h>\n#include <weft/descriptor.h>\n#include <weft/lens.h>\n#include <weft/estimates.h>\n#include <weft/soft.h>\n#include <weft/geometry.h>\n#include <weft/image.h>\n#include <weft/duty.h>\n#include <weft/profile.h>\n#include <weft/reasoning.h>\n#include <weft/adapter.h>\n#include <weft/audio.h>\n#include <weft/rerank.h>\n#include <weft/importance.h>\n#include <weft/conversation.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"
        subprocess.run(["cc", "-x", "c", "-", "-I", ROOT / "runtime/include", "-o", program], input=source.encode(), check=True)
        self.assertEqual([int(line) for line in subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout.split()], expected)

    def test_structures_can_grow(self):
        # A field after the last one must not lie in the padding of an older caller's struct, which has no value there.
        growing = [kind for kind in vars(_c).values() if hasattr(_c, f"{getattr(kind, '__name__', '')}_default")]
        self.assertGreater(len(growing), 6)
        for kind in growing + [_c.weft_model_info, _c.weft_stats, _c.weft_speculation_stats, _c.weft_probe_report]:
            last = getattr(kind, kind._fields_[-1][0])
            self.assertEqual(last.offset + last.size, ctypes.sizeof(kind), kind)
        for kind in growing:
            self.assertEqual(kind._fields_[0], ("size", ctypes.c_size_t), kind)
            self.assertEqual(getattr(_c, f"{kind.__name__}_default")().size, ctypes.sizeof(kind))

    def test_every_header_is_plain_c99_and_old_cpp(self):
        for path in (ROOT / "runtime/include/weft").glob("*.h"):
            for compiler, language, standard in (("cc", "c", "c99"), ("c++", "c++", "c++11")):
                subprocess.run([compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
                                "-I", ROOT / "runtime/include", "-"], input=f"#include <weft/{path.name}>\n#include <weft/{path.name}>\n".encode(), check=True)

    def test_public_classes_have_all_fields(self):
        def names(kind):
            return [field[0] for field in kind._fields_]
        self.assertEqual([field.name for field in dataclasses.fields(weft.ModelInfo)], names(_c.weft_model_info))
        guesses = ["check_passes", "drafted_tokens", "accepted_tokens"]
        self.assertEqual([field.name for field in dataclasses.fields(weft.Stats) if field.name not in guesses],
                         [name for name in names(_c.weft_stats) if name != "stage_count"])
        self.assertEqual([name for name in names(_c.weft_speculation_stats)], ["passes", *guesses[1:]])
        self.assertLessEqual(set(names(_c.weft_sampling)) - {"size"}, set(weft.Settings.__annotations__))
        self.assertEqual(weft.version(), f"{_c.WEFT_VERSION_MAJOR}.{_c.WEFT_VERSION_MINOR}.{_c.WEFT_VERSION_PATCH}")

    @unittest.skipUnless(importlib.util.find_spec("mypy") and importlib.util.find_spec("numpy"), "mypy or numpy is not installed")
    def test_types(self):
        subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", FOLDER / "mypy", "weft"], cwd=PACKAGE, check=True, stdout=sys.stderr)


class Models(WithPocket):
    def test_info(self):
        info = self.model.info
        self.assertEqual((info.family, info.vocab_size, info.tied, info.mask_token), ("llama", 8192, True, None))
        self.assertTrue(info.has_chat_template)
        self.assertIn(info.device, [device["name"] for device in weft.devices()])
        self.assertIn([8192, 256], [tensor["shape"] for tensor in self.model.describe()["tensors"]])

    def test_cache_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            weft.set_cache_folder(pathlib.Path(folder) / "deeper")
            try:
                with weft.Model():
                    pass
            finally:
                weft.set_cache_folder(None)
            self.assertTrue(list((pathlib.Path(folder) / "deeper").iterdir()))

    def test_probe(self):
        found = weft.probe("", context=100, bytes=1000)
        self.assertIs(found["fits"], True)
        about, info = found["model"], self.model.info
        self.assertEqual((about["context"], about["vocab_bytes"], about["layer_bytes"]), (100, info.vocab_bytes, info.layer_bytes))
        self.assertEqual(found["needed_bytes"], info.vocab_bytes + info.layer_bytes + about["session_bytes"] + 1000)
        self.assertEqual(weft.probe("", context=100, kv="q8", kv_values="q4")["model"]["family"], "llama")
        self.assertLess(weft.probe("", context=100, type="q4")["needed_bytes"], found["needed_bytes"] - 1000)
        self.assertIsNone(weft.probe()["fits"])
        self.assertEqual(weft.probe(FOLDER / "none.gguf")["model"]["error"]["code"], "WEFT_NOT_FOUND")
        self.assertEqual(weft.probe(device="nothing is called this")["error"]["code"], "WEFT_NO_DEVICE")
        self.assertRaises(ValueError, weft.probe, type="q7")
        self.assertRaises(TypeError, weft.probe, colour="red")

    def test_a_table_on_several_devices(self):
        for device in (["0:3", "0:1"], "0:3;0:1"):
            with weft.Model(device=device) as model, model.session(temperature=0) as session:
                self.assertEqual([shard["rows"] for shard in model.describe()["shards"]], [6144, 2048])
                self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)
        with self.assertRaises(weft.WeftError) as caught:
            weft.Model(device=[0, "nothing is called this"])
        self.assertEqual(caught.exception.code, "WEFT_NO_DEVICE")

    def test_open_files(self):
        gguf = (ROOT / "apps/pocket/pocket.gguf").read_bytes()
        (FOLDER / "package").write_bytes(b"x" * 4321 + gguf + b"yy")
        with open(FOLDER / "package", "rb") as package:
            package.read(10)
            model = weft.Model(package, offset=4321, length=len(gguf), device=0)
            self.assertEqual(package.tell(), 10)
        with model, model.session(temperature=0) as session:
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)
        with open(ROOT / "apps/pocket/pocket.gguf", "rb") as file, weft.Model(file.fileno()) as model:
            self.assertEqual(model.info.vocab_size, 8192)
        with open(FOLDER / "package", "rb") as package, self.assertRaises(weft.WeftError) as caught:
            weft.Model(package, offset=5, length=1 << 40)
        self.assertEqual(caught.exception.code, "WEFT_INVALID_ARGUMENT")
        self.assertIn("byte 5", caught.exception.place)
        for offset, length in ((-1, 0), (0, 1 << 64)):
            self.assertRaises(ValueError, weft.Model, 0, offset=offset, length=length)
        self.assertRaises(ValueError, weft.Model, "a path", offset=1)

    def test_memory(self):
        gguf = (ROOT / "apps/pocket/pocket.gguf").read_bytes()
        for memory in (gguf, bytearray(gguf), memoryview(bytearray(b"x" + gguf))[1:]):
            with self.subTest(type(memory)):
                session = weft.Model(memory=memory, device=0).session(temperature=0)  # keeps the model, and that the bytes
                if isinstance(memory, bytearray):
                    self.assertRaises(BufferError, memory.clear)
                elif isinstance(memory, bytes):
                    before = sys.getrefcount(memory)
                gc.collect()
                self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)
                session.close()
                del session
                gc.collect()
                if isinstance(memory, bytearray):
                    memory.clear()
                elif isinstance(memory, bytes):
                    self.assertEqual(sys.getrefcount(memory), before - 1)
        with self.assertRaises(weft.WeftError) as caught:
            weft.Model(memory=gguf[:1000])
        self.assertEqual((caught.exception.code, caught.exception.place), ("WEFT_BAD_FILE", "1000 bytes of memory"))
        self.assertRaises(ValueError, weft.Model, "a path", memory=gguf)
        self.assertRaises(TypeError, weft.Model, memory="text")
        self.assertRaises(KeyError, weft.Model, memory=gguf, progress=lambda done: {}["given up"])

    def test_text(self):
        text = "Grüße, 世界! 🙂"
        self.assertEqual(self.model.detokenize(self.model.tokenize(text)), text)
        self.assertEqual(self.model.tokenize(text.encode()), self.model.tokenize(text))
        self.assertEqual(self.model.detokenize(self.model.tokenize("a\0b\0")), "a\0b\0")
        self.assertEqual(self.model.detokenize([]), "")
        long = "set a timer " * 500
        self.assertEqual(self.model.detokenize(self.model.tokenize(long)), long)
        messages = [{"role": "user", "content": "hello"}]
        self.assertEqual(len(self.model.apply_chat_template(messages)), 9)
        self.assertIn("hello", self.model.detokenize(self.model.apply_chat_template(messages)))

    def test_keep_lists(self):
        always, ascii_ids = self.model.keep(), self.model.keep("ascii,bytes")
        self.assertLess(set(always), set(ascii_ids))
        self.model.save_keep_list(ascii_ids, FOLDER / "ascii.list")
        self.assertEqual(self.model.keep(str(FOLDER / "ascii.list")), ascii_ids)

    def test_errors(self):
        with self.assertRaises(weft.WeftError) as caught:
            weft.Model(FOLDER / "none.gguf")
        error = caught.exception
        self.assertEqual((error.code, error.place), ("WEFT_NOT_FOUND", str(FOLDER / "none.gguf")))
        self.assertTrue(error.sentence)
        self.assertIn(error.sentence, str(error))
        with self.session() as session, self.assertRaises(weft.WeftError) as caught:
            session.chat("hello", head="nope").text()
        self.assertEqual((caught.exception.code, caught.exception.place), ("WEFT_INVALID_ARGUMENT", "head"))
        self.assertIn("keep:LIST", caught.exception.hint)
        self.assertRaises(ValueError, weft.Model, type="q5")
        self.assertRaises(ValueError, weft.Model, memory_budget=-1)
        self.assertRaises(OverflowError, self.model.detokenize, [2**32])
        self.assertRaises(OverflowError, self.model.detokenize, [-1])
        self.assertRaises(ValueError, self.model.keep, "ascii\0x")
        with self.assertRaises(weft.WeftError) as caught:
            self.model.encoder()
        self.assertEqual(caught.exception.code, "WEFT_UNSUPPORTED")

    def test_progress(self):
        seen = []
        with weft.Model(progress=lambda done: seen.append((done, threading.current_thread()))):
            self.assertEqual(seen[-1], (1, threading.current_thread()))
            self.assertEqual([done for done, _ in seen], sorted(done for done, _ in seen))

        def raising(done):
            raise KeyError("given up")
        self.assertRaisesRegex(KeyError, "given up", weft.Model, progress=raising)
        self.assertRaises(weft.WeftError, weft.Model, FOLDER / "none.gguf", progress=raising)

    def test_an_exception_right_after_the_load(self):
        """Ctrl-C then, for example: what was made is freed."""
        from weft import _model, _user
        real, freed = _model.call, []

        def interrupted(name, *arguments):
            real(name, *arguments)
            if name in ("weft_model_load", "weft_session_create"):
                raise KeyboardInterrupt

        def noting(kind):
            free = getattr(_model.library, f"weft_{kind}_free")
            return unittest.mock.patch.object(_model.library, f"weft_{kind}_free", lambda pointer: (freed.append((kind, bool(pointer))), free(pointer)))

        with noting("model"), noting("session"):
            with unittest.mock.patch.object(_model, "call", interrupted):
                self.assertRaises(KeyboardInterrupt, weft.Model)
                gc.collect()
            with unittest.mock.patch.object(_user, "call", interrupted):
                self.assertRaises(KeyboardInterrupt, self.model.session)
                gc.collect()
        self.assertEqual(freed, [("model", True), ("session", True)])

    def test_recover(self):
        with weft.Model() as model, model.session(temperature=0) as session:
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)
            model.recover()  # works on a device that was not lost, too
            session.reset()
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)
        self.assertRaisesRegex(ValueError, "closed", model.recover)

    def test_closing(self):
        model = weft.Model()
        session, other = model.session(), model.session(temperature=0)
        loop = iter(other.chat("hello"))
        next(loop)
        model.close()
        model.close()
        self.assertEqual(list(loop), [])
        for call in (model.describe, lambda: model.tokenize("a"), model.session, lambda: session.ids, lambda: other.stats, session.reset):
            self.assertRaisesRegex(ValueError, "is closed", call)

    def test_a_session_keeps_its_model(self):
        session = weft.Model().session(temperature=0)
        gc.collect()
        self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)

    def test_cycles_free_memory(self):
        def resident():
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def cycles(count):
            for _ in range(count):
                with self.model.session(context=64) as session:
                    session.prompt([1, 2, 3])
            gc.collect()
        sizes = [resident()]
        for _ in range(4):
            cycles(100)
            sizes.append(resident())
        # A session has 160 KiB of keys and values. A leak would grow in each round; a driver's threads keep some memory for later.
        self.assertLess(min(after - before for before, after in zip(sizes, sizes[1:])), 1 << 20)


class OtherModels(unittest.TestCase):
    def test_a_tiny_model(self):
        with weft.Model(chatty(), type="q8") as model, model.session(temperature=0, max_tokens=8, kv="q8", kv_values="q4", policy="polite") as session:
            self.assertEqual(model.info.type, "q8")
            answer = session.chat("hello")
            answer.text()
            self.assertEqual(len(answer.ids), 8)
            with self.assertRaises(weft.WeftError) as caught:
                session.chat("hello " * 1000).text()
            self.assertEqual(caught.exception.code, "WEFT_CONTEXT_FULL")
            self.assertEqual(len(session.messages), 2)

    @unittest.skipUnless((SHARED / "models/tinystories-656K").exists(), "there are no shared models")
    def test_a_hugging_face_folder(self):
        with weft.Model(SHARED / "models/tinystories-656K") as model, model.session(temperature=0, max_tokens=30) as session:
            self.assertGreater(len(session.generate("Once upon a time").text()), 40)
            with self.assertRaises(weft.WeftError) as caught:
                session.chat("hello").text()
            self.assertEqual(caught.exception.code, "WEFT_UNSUPPORTED")


class Page(unittest.TestCase):
    def test_programs_of_the_page(self):
        blocks = [block for block in pages.blocks(ROOT / "docs/python.md") if block.language == "python"]
        self.assertEqual(len(blocks), 3)
        for block in blocks:
            self.assertTrue(block.file, block.place)
            (FOLDER / block.file).write_text(block.text)
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        said = [subprocess.run([sys.executable, block.file, *words], cwd=FOLDER, env=env, text=True, check=True, stdout=subprocess.PIPE).stdout
                for block, words in zip(blocks, (["set a timer for 10 minutes"], [], []))]
        self.assertEqual(said[0], TIMER + "\n")
        self.assertRegex(said[1], r"^10 minutes\n[^.]+\.[^.]*\n\d+ tokens on .*\nWEFT_INVALID_ARGUMENT\nhead\n.+\n")
        self.assertTrue((FOLDER / "talk.session").exists())
        self.assertEqual(said[2], TIMER)
