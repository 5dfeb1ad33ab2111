"""The Python package as its users use it, on pocket and on tiny models.

python_test.py BIN_DIR [unittest arguments]. WEFT_LIBRARY names the library; without, it is the installed wheel's. The tests of
arrays need numpy, and the last one mypy: they are skipped without.
"""
import contextlib
import ctypes
import dataclasses
import gc
import importlib.util
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "runtime/bindings/python"
sys.path.insert(0, str(ROOT / "tests/apps"))
if os.environ.get("WEFT_LIBRARY"):
    sys.path.insert(0, str(PACKAGE))
import pages
from support import BIN, ENV, FOLDER, SHARED, bert, chatty

os.environ["WEFT_CACHE_DIR"] = ENV["WEFT_CACHE_DIR"]
import weft
from weft import _c

needs_numpy = unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
TIMER = 'Timer set for 10 minutes.\n{"action":"set_timer","minutes":10}'


def run_script(script, *arguments, expect=0, timeout=120):
    """Runs a script in a Python of its own; returns its stdout and stderr together."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], env=env, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}"
    return done.stdout


class Declarations(unittest.TestCase):
    """The ctypes declarations are what the headers say."""

    def test_they_are_those_of_the_headers(self):
        subprocess.run([sys.executable, PACKAGE / "declare.py", "--check"], check=True)

    def test_another_header_is_seen(self):
        for old, new in (("", ""), ("uint32_t top_k;", "uint64_t top_k;"), ("size_t count, float* nll", "float* nll"),
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
        source = "#include <stdio.h>\n#include <weft/batch.h>\n#include <weft/speculate.h>\n#include <weft/probe.h>\n#include <weft/descriptor.h>\n#include <weft/progress.h>\n#include <weft/lens.h>\n#include <weft/estimates.h>\n#include <weft/soft.h>\n#include <weft/geometry.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"
        subprocess.run(["cc", "-x", "c", "-", "-I", ROOT / "runtime/include", "-o", program], input=source.encode(), check=True)
        self.assertEqual([int(line) for line in subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout.split()], expected)

    def test_public_classes_have_all_fields(self):
        def names(kind):
            return [field[0] for field in kind._fields_]
        self.assertEqual([field.name for field in dataclasses.fields(weft.ModelInfo)], names(_c.weft_model_info))
        self.assertEqual([field.name for field in dataclasses.fields(weft.Stats)],
                         [name for name in names(_c.weft_stats) if name != "stage_count"])
        self.assertLessEqual(set(names(_c.weft_sampling)), set(weft.Settings.__annotations__))
        self.assertEqual(weft.version(), f"{_c.WEFT_VERSION_MAJOR}.{_c.WEFT_VERSION_MINOR}.{_c.WEFT_VERSION_PATCH}")

    @unittest.skipUnless(importlib.util.find_spec("mypy") and importlib.util.find_spec("numpy"), "mypy or numpy is not installed")
    def test_types(self):
        subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", FOLDER / "mypy", "weft"], cwd=PACKAGE, check=True, stdout=sys.stderr)


class WithPocket(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = weft.Model()

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    @contextlib.contextmanager
    def session(self, **options):
        with self.model.session(**{"temperature": 0, **options}) as session:
            yield session


class Models(WithPocket):
    def test_info(self):
        info = self.model.info
        self.assertEqual((info.family, info.vocab_size, info.tied, info.mask_token), ("llama", 8192, True, None))
        self.assertTrue(info.has_chat_template)
        self.assertIn(info.device, [device["name"] for device in weft.devices()])
        self.assertIn([8192, 256], [tensor["shape"] for tensor in self.model.describe()["tensors"]])

    def test_probe(self):
        found = weft.probe("", context=100, bytes=1000)
        self.assertIs(found["fits"], True)
        about, info = found["model"], self.model.info
        self.assertEqual((about["context"], about["vocab_bytes"], about["layer_bytes"]), (100, info.vocab_bytes, info.layer_bytes))
        self.assertEqual(found["needed_bytes"], info.vocab_bytes + info.layer_bytes + about["session_bytes"] + 1000)
        self.assertEqual(weft.probe("", context=100, kv="q8")["model"]["family"], "llama")
        self.assertLess(weft.probe("", context=100, type="q4")["needed_bytes"], found["needed_bytes"] - 1000)
        self.assertIsNone(weft.probe()["fits"])
        self.assertEqual(weft.probe(FOLDER / "none.gguf")["model"]["error"]["code"], "WEFT_NOT_FOUND")
        self.assertEqual(weft.probe(device="nothing is called this")["error"]["code"], "WEFT_NO_DEVICE")
        self.assertRaises(ValueError, weft.probe, type="q7")
        self.assertRaises(TypeError, weft.probe, colour="red")

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
        self.assertGreater(len(self.model.tokenize("a\0b")), len(self.model.tokenize("a")))
        self.assertEqual(self.model.detokenize([]), "")
        long = "set a timer " * 500
        self.assertEqual(self.model.detokenize(self.model.tokenize(long)), long)
        messages = [{"role": "user", "content": "hello"}]
        self.assertEqual(len(self.model.apply_chat_template(messages)), 9)
        self.assertIn("hello", self.model.detokenize(self.model.apply_chat_template(messages)))

    def test_keep_lists(self):
        always, ascii_ids = self.model.keep(), self.model.keep("ascii")
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
        cycles(100)
        before = resident()
        cycles(300)
        self.assertLess(resident() - before, 3 << 20)  # a session has 160 KiB of keys and values


class Generating(WithPocket):
    def test_chat(self):
        with self.session() as session:
            self.assertEqual("".join(map(str, session.chat("set a timer for 10 minutes"))), TIMER)
            answer = session.chat("hello")
            text = answer.text()
            self.assertEqual(answer.stop, "token")
            self.assertEqual(self.model.detokenize(answer.ids), text)
            self.assertEqual([message["role"] for message in session.messages], ["user", "assistant"] * 2)
            self.assertEqual([message["content"] for message in session.messages][1::2], [TIMER, text])
            self.assertGreater(session.stats.reused_tokens, 0)
            self.assertRaisesRegex(RuntimeError, "read already", answer.text)
            messages = [{"role": "user", "content": "set a timer for 10 minutes"}]
            self.assertEqual(session.chat(messages).text(), TIMER)
            self.assertEqual(len(session.messages), 2)
            self.assertEqual(len(messages), 1)

    def test_why_it_ended(self):
        def stop(**settings):
            with self.session() as session:
                generation = session.chat("set a timer for 10 minutes", **settings)
                text = generation.text()
                return text, generation.stop
        self.assertEqual(stop(), (TIMER, "token"))
        text, why = stop(max_tokens=3)
        self.assertEqual((TIMER.startswith(text), why), (True, "length"))
        self.assertEqual(stop(stop="min"), ("Timer set for 10 ", "string"))
        self.assertEqual(stop(stop=["utes", "xyz"]), ("Timer set for 10 min", "string"))
        # "minutes.xyz" does not come: what was held back does.
        self.assertEqual(stop(stop='}xyz'), (TIMER, "token"))
        self.assertEqual(stop(regex="[0-9]{3}")[1], "grammar")
        self.assertRegex(stop(regex="[0-9]{3}")[0], "^[0-9]{3}$")
        self.assertRegex(stop(grammar='root ::= "yes" | "no"')[0], "^(yes|no)$")
        with self.session(context=16) as session:
            generation = session.generate("set a timer", ignore_stop_tokens=True)
            generation.text()
            self.assertEqual((generation.stop, len(session.ids)), ("context", 16))

    def test_json_schema(self):
        schema = {"type": "object", "properties": {"minutes": {"type": "integer", "minimum": 0, "maximum": 99}},
                  "required": ["minutes"], "additionalProperties": False}
        with self.session(json_schema=schema, max_tokens=60) as session:
            answer = json.loads(session.chat("set a timer for 10 minutes").text())
            self.assertEqual(list(answer), ["minutes"])
            self.assertIn(session.chat("hello", regex="a|b").text(), ("a", "b"))  # instead of the session's
            self.assertEqual(list(json.loads(session.chat("hello", json_schema=json.dumps(schema)).text())), ["minutes"])
            self.assertRaises(ValueError, session.chat("a", regex="a", grammar="b").text)
        with self.session() as session, self.assertRaises(weft.WeftError) as caught:
            session.chat("a", json_schema={"type": "nothing"}).text()
        self.assertEqual(caught.exception.code, "WEFT_BAD_FILE")
        self.assertEqual(session.messages, [])

    def test_heads(self):
        rows = {}
        with self.session() as session:
            for head in ("full", "certified", "sure", "fast:7", "keep:ascii", "fast:7+keep:ascii"):
                session.reset()
                self.assertEqual(session.chat("set a timer for 10 minutes", head=head).text(), TIMER)
                rows[head] = session.stats.head_rows
        self.assertEqual(rows["full"] % 8192, 0)
        self.assertLess(rows["fast:7"], rows["full"])

    def test_speculation(self):
        with self.session(max_tokens=60, ignore_stop_tokens=True) as session:
            plain = session.generate("one two one two one two").text()
            self.assertEqual(session.generate("one two one two one two", speculate="lookup").text(), plain)
            self.assertRaises(ValueError, session.generate("a", speculate="nope").text)
            self.assertEqual(session.generate("one two one two one two", draft=self.model).text(), plain)
            self.assertEqual(session.generate("one two one two one two", draft=None).text(), plain)

    def test_settings_of_a_call_do_not_stay(self):
        with self.session(max_tokens=12, ignore_stop_tokens=True) as session:
            greedy = session.generate("hello").text()
            drawn = [session.generate("hello", temperature=2, top_k=0, top_p=1, min_p=0, seed=seed).text() for seed in (1, 2, 1)]
            self.assertEqual(drawn[0], drawn[2])
            self.assertEqual(len({greedy, *drawn}), 3)
            self.assertEqual(session.generate("hello").text(), greedy)
            first = session.generate("hello", max_tokens=1)
            first.text()
            other = session.generate("hello", max_tokens=1, logit_bias={first.ids[0]: -100})
            other.text()
            self.assertNotEqual(first.ids, other.ids)
            self.assertEqual(session.generate("hello").text(), greedy)
            self.assertRaisesRegex(TypeError, "temprature", session.generate, "a", temprature=0)
            self.assertRaisesRegex(ValueError, "top_k is -1", session.generate("a", top_k=-1).text)
            self.assertRaisesRegex(ValueError, "max_tokens is -1", session.generate("a", max_tokens=-1).text)
        self.assertRaisesRegex(ValueError, "context is -1", self.model.session, context=-1)
        self.assertRaises(weft.WeftError, self.model.session, temperature=-1)

    def test_logprobs(self):
        with self.session(logprobs=3) as session:
            for token in session.chat("set a timer for 10 minutes"):
                self.assertEqual(len(token.likeliest), 3)
                self.assertEqual(token.likeliest[0], (token.id, token.logprob))  # greedy
                self.assertLess(sum(math.exp(value) for _, value in token.likeliest), 1.001)
            self.assertIsNone(next(iter(session.chat("hello", logprobs=0))).logprob)

    def test_leaving_the_loop(self):
        with self.session() as session:
            whole = session.chat("set a timer for 10 minutes")
            whole.text()
            session.reset()
            part = session.chat("set a timer for 10 minutes")
            for token in part:
                # The call is never ahead of the loop.
                self.assertEqual(session.ids[-len(part.ids):], part.ids)
                if len(part.ids) == 4:
                    break
            self.assertEqual((part.ids, part.stop), (whole.ids[:4], "caller"))
            self.assertEqual(session.messages[-1]["content"], self.model.detokenize(part.ids))
            rest = session.generate()
            rest.text()
            self.assertEqual(part.ids + rest.ids, whole.ids)
            with self.assertRaisesRegex(KeyError, "mine"):
                for token in session.chat("hello"):
                    raise KeyError("mine")
            self.assertEqual(len(session.messages), 4)
            session.reset()
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)

    def test_a_failing_callback(self):
        """What goes wrong in a callback, such as memory that runs out, is raised by the loop and does not go through C."""
        with self.session() as session:
            def fail(*arguments):
                raise MemoryError("in the callback")
            session._token = fail
            with self.assertRaisesRegex(MemoryError, "in the callback"):
                session.chat("hello").text()
            del session._token
            self.assertEqual(session.messages, [])
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)

    def test_while_it_generates(self):
        with self.session() as session:
            loop = iter(session.chat("set a timer for 10 minutes"))
            next(loop)
            for change in (session.reset, lambda: session.prompt("a"), session.chat("b").text, lambda: session.save(FOLDER / "x")):
                self.assertRaisesRegex(RuntimeError, "generates", change)
            self.assertGreater(session.stats.context_used, 0)
            session.cancel()
            self.assertEqual(list(loop), [])
            self.assertEqual(session.messages[-1]["content"], "Timer")
            session.reset()
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)

    def test_cancel_from_another_thread(self):
        with self.session(ignore_stop_tokens=True) as session:
            for tokens in range(20):
                generation = session.generate("hello")
                timer = threading.Timer(0.001 * tokens, session.cancel)
                timer.start()
                ended = generation.text()
                timer.join()
                self.assertIn(generation.stop, ("caller", "context"), ended)
            self.assertEqual(session.chat("set a timer for 10 minutes", ignore_stop_tokens=False).text(), TIMER)

    def test_cancel_in_the_prompt(self):
        unfinished = 0
        with self.session(max_tokens=1) as session:
            for delay in range(40):
                session.reset()
                generation = session.generate([1000] * 480)
                timer = threading.Timer(0.002 * delay, session.cancel)
                timer.start()
                generation.text()
                timer.join()
                self.assertEqual(len(session.ids), 480 + len(generation.ids))
                if not generation.ids:
                    self.assertEqual(generation.stop, "caller")
                    unfinished += 1
                    break
            self.assertEqual(unfinished, 1)
            self.assertEqual(session.chat("set a timer for 10 minutes", max_tokens=0).text(), TIMER)

    def test_progress_in_the_prompt(self):
        seen, ids = [], [1000] * 480
        tell = lambda done, all: seen.append((done, all))
        with self.session(max_tokens=3) as session:
            want = session.generate(ids)
            want.text()
            session.reset()
            session.generate(ids, prompt_progress=tell).text()
            self.assertEqual((seen[0], seen[-1]), ((0, 480), (480, 480)))
            self.assertEqual(seen, sorted(seen))
            told = len(seen)
            self.assertGreater(told, 3)
            session.generate().text()  # the setting was for that call only
            self.assertEqual(len(seen), told)

            def give_up(done, all):
                if done >= 100:
                    raise ArithmeticError("enough")

            session.reset()
            with self.assertRaisesRegex(ArithmeticError, "enough"):
                session.generate(ids, prompt_progress=give_up).text()
            self.assertEqual(session.ids, ids)
            again = session.generate(prompt_progress=tell)  # goes on where it ended
            again.text()
            self.assertEqual(again.ids, want.ids)
            self.assertLessEqual(seen[-1][1], 380)

    def test_close_from_another_thread(self):
        for delay in range(10):
            session = self.model.session(temperature=0, ignore_stop_tokens=True)
            generation = session.generate("hello")
            closers = [threading.Timer(0.005 * delay, session.close) for _ in range(2)]
            for closer in closers:
                closer.start()
            with contextlib.suppress(ValueError):  # closed before it began
                generation.text()
            for closer in closers:
                closer.join()
            self.assertRaisesRegex(ValueError, "closed", session.prompt, "a")

    def test_sessions_in_threads(self):
        texts, gate = [], threading.Barrier(4)

        def chat():
            with self.session() as session:
                gate.wait()
                texts.extend(session.chat([{"role": "user", "content": "set a timer for 10 minutes"}]).text() for _ in range(3))
        threads = [threading.Thread(target=chat) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(texts), 12)
        self.assertEqual(texts.count(TIMER), 12)

    def test_ctrl_c(self):
        script = """
import sys, weft
session = weft.Model().session(temperature=0)
try:
    print("begun", flush=True)
    while True:
        for token in session.generate("hello", ignore_stop_tokens=True):
            pass
except KeyboardInterrupt:
    print("interrupted")
print(session.chat("set a timer for 10 minutes").text())
"""
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        with subprocess.Popen([sys.executable, "-c", script], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            self.assertEqual(process.stdout.readline(), "begun\n")
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.communicate(timeout=60)[0], f"interrupted\n{TIMER}\n")

    def test_an_open_loop_does_not_keep_python_from_ending(self):
        began = time.monotonic()
        self.assertEqual(run_script("""
import weft
session = weft.Model().session(temperature=0)
loop = iter(session.chat("hello"))
print(next(loop))
"""), "Hello\n")
        self.assertLess(time.monotonic() - began, 60)


class Saving(WithPocket):
    def test_it_goes_on(self):
        path = FOLDER / "a.session"
        with self.session(seed=7, temperature=1.5, top_k=0, ignore_stop_tokens=True) as session:
            session.generate("hello", max_tokens=6).text()
            session.save(path, "a note of my own")
            whole = session.generate(max_tokens=12)
            whole.text()
        with self.session(ignore_stop_tokens=True) as session:  # greedy, but for what the file says
            self.assertEqual(session.restore(path), "a note of my own")
            self.assertEqual(session.messages, [])
            rest = session.generate(max_tokens=12)
            rest.text()
            self.assertEqual(rest.ids, whole.ids)
            greedy = session.generate("hello", max_tokens=6, temperature=0)
            greedy.text()
            drawn = session.generate("hello", max_tokens=6)  # the session's own sampling now
            drawn.text()
            self.assertEqual(drawn.ids, greedy.ids)

    def test_open_files(self):
        path, plain = FOLDER / "packed.session", FOLDER / "plain.session"
        path.write_bytes(b"z" * (1 << 20))
        with self.session(seed=7, temperature=1.5, ignore_stop_tokens=True) as session, open(path, "r+b") as file:
            session.chat("hello", max_tokens=6).text()
            file.write(b"mine")  # Python still has it
            session.save(file)
            self.assertEqual(file.tell(), path.stat().st_size)
            session.save(plain)
            whole = session.generate(max_tokens=12)
            whole.text()
        self.assertEqual(path.read_bytes(), b"mine" + plain.read_bytes())
        for through in ("a file", "a pipe"):
            with self.subTest(through), self.session(ignore_stop_tokens=True) as session, contextlib.ExitStack() as stack:
                if through == "a file":
                    file = stack.enter_context(open(path, "rb"))
                    self.assertEqual(file.read(4), b"mine")  # Python has read on
                    session.restore(file)
                    self.assertEqual(file.read(), b"")
                else:
                    cat = stack.enter_context(subprocess.Popen(["cat", plain], stdout=subprocess.PIPE))
                    session.restore(cat.stdout.fileno())
                self.assertEqual(session.messages[0]["content"], "hello")
                rest = session.generate(max_tokens=12)
                rest.text()
                self.assertEqual(rest.ids, whole.ids)
        with self.session() as session, open(path, "rb") as file, self.assertRaises(weft.WeftError) as caught:
            session.restore(file)  # not at the session
        self.assertEqual((caught.exception.code, caught.exception.place[:11]), ("WEFT_BAD_FILE", "descriptor "))

    def test_a_conversation(self):
        path = FOLDER / "b.session"
        with self.session() as session:
            session.chat("hello").text()
            said = session.messages
            session.save(path)
            expected = session.chat("set a timer for 10 minutes").text()
        with self.session() as session:
            session.restore(path)
            self.assertEqual(session.messages, said)
            before = session.stats.prompt_tokens
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), expected)
            self.assertLess(session.stats.prompt_tokens - before, len(session.ids) - 20)

    def test_weft_chat_goes_on(self):
        path = FOLDER / "c.session"
        with self.session() as session:
            session.chat("hello").text()
            session.save(path)
        done = subprocess.run([BIN / "weft", "chat", "--temperature", "0"], input=f"/load {path}\nset a timer for 10 minutes\n/save {path}\n", text=True,
                              env=ENV, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        self.assertIn(TIMER, done.stdout)
        with self.session() as session:
            session.restore(path)
            self.assertEqual([message["content"] for message in session.messages][2:], ["set a timer for 10 minutes", TIMER])

    def test_damage(self):
        path = FOLDER / "d.session"
        path.write_bytes(b"no session")
        with self.session() as session:
            session.chat("hello").text()
            ids, messages = session.ids, session.messages
            with self.assertRaises(weft.WeftError) as caught:
                session.restore(path)
            self.assertEqual(caught.exception.code, "WEFT_BAD_FILE")
            self.assertEqual((session.ids, session.messages), (ids, messages))


class Arrays(WithPocket):
    @needs_numpy
    def test_logits(self):
        import numpy
        with self.session() as session:
            session.prompt("hello")
            logits = session.logits()
            self.assertEqual((logits.dtype, logits.shape), (numpy.float32, (8192,)))
            first = session.generate(max_tokens=1)
            first.text()
            self.assertEqual(int(logits.argmax()), first.ids[0])
            session.prompt("hello")
            ids, some = session.head_logits(head="keep:digits")
            self.assertEqual(sorted(ids.tolist()), sorted({*self.model.keep("digits"), *session.ids}))
            numpy.testing.assert_allclose(some, logits[ids], rtol=1e-4, atol=1e-4)

    @needs_numpy
    def test_score(self):
        import numpy
        with self.session() as session:
            ids = self.model.tokenize("set a timer for 10 minutes")
            nll = session.score(ids)
            session.prompt(ids[:-1])
            logits = session.logits().astype(numpy.float64)
            self.assertEqual(nll.shape, (len(ids) - 1,))
            self.assertAlmostEqual(float(nll[-1]), float(numpy.log(numpy.exp(logits).sum()) - logits[ids[-1]]), places=3)
            self.assertRaises(weft.WeftError, session.score, [])

    @needs_numpy
    def test_lens(self):
        import numpy
        with self.session() as session:
            session.prompt("hello there")
            rows = []
            session.lens(lambda *row: rows.append(row))
            layers, length = self.model.info.layers, len(session.ids)
            self.assertEqual([row[:2] for row in rows], [(layer, at) for at in range(length) for layer in range(layers + 1)])
            self.assertEqual({(row[2].shape, row[3].shape) for row in rows}, {((self.model.info.width,), (8192,))})
            numpy.testing.assert_allclose(rows[-1][3], session.logits(), rtol=1e-4, atol=1e-4)
            some = []
            session.lens(lambda *row: some.append(row), first=length - 1, count=1, layers=(layers, 1))
            self.assertEqual([row[:2] for row in some], [(layers, length - 1), (1, length - 1)])
            numpy.testing.assert_allclose(some[1][2], rows[-layers][2], rtol=1e-4, atol=1e-4)
            self.assertRaises(ZeroDivisionError, session.lens, lambda *row: 1 / 0)
            self.assertRaises(weft.WeftError, session.lens, print, layers=[layers + 1])

    @needs_numpy
    def test_soft_tokens(self):
        import numpy
        with self.session() as session:
            ids = self.model.tokenize("hello there, how are you")
            session.prompt(ids)
            wanted = session.logits()
            rows = self.model.rows(ids)
            self.assertEqual((rows.dtype, rows.shape), (numpy.float32, (len(ids), self.model.info.width)))
            session.prompt_parts([ids[:2], rows[2:4].astype(numpy.float64), ids[4:-1], rows[-1:]])
            numpy.testing.assert_array_equal(session.logits(), wanted)
            self.assertEqual(session.ids[2:4], [_c.WEFT_SOFT_TOKEN, _c.WEFT_SOFT_TOKEN + 1])
            session.prompt_parts(["hello", rows[2:4]])
            self.assertEqual(session.ids[:-2], self.model.tokenize("hello"))
            self.assertRaises(ValueError, session.prompt_parts, [rows[:, :-1]])
            self.assertRaises(weft.WeftError, session.prompt_parts, [rows * numpy.nan])
            self.assertRaises(weft.WeftError, session.prompt_parts, [])
            self.assertRaises(weft.WeftError, self.model.rows, [self.model.info.vocab_size])

    @needs_numpy
    def test_encoder(self):
        import numpy
        with weft.Model(bert()) as model, model.encoder() as encoder:
            texts = ["The cat sat.", "cats"]
            rows = encoder.embed(texts)
            self.assertEqual((rows.dtype, rows.shape), (numpy.float32, (2, 48)))
            numpy.testing.assert_allclose((rows**2).sum(axis=1), 1, rtol=1e-5)
            numpy.testing.assert_array_equal(encoder.embed([model.tokenize(text) for text in texts]), rows)
            self.assertFalse(numpy.array_equal(encoder.embed(texts, pooling="cls"), rows))
            reference = json.loads((ROOT / "tests/model/golden_encoders/bert/reference.json").read_text())[0]
            wanted = numpy.array(reference["mean"])
            got = encoder.embed([reference["ids"]], pooling="mean")[0]
            numpy.testing.assert_allclose(got, wanted / numpy.linalg.norm(wanted), atol=2e-3)
            ids = model.tokenize("the [MASK] sat", parse_special=True)
            logits = encoder.masked_logits(ids, ids.index(model.info.mask_token))
            self.assertEqual(logits.shape, (model.info.vocab_size,))
            self.assertTrue(numpy.isfinite(logits).all())
            self.assertRaises(TypeError, encoder.embed, "one text")
            self.assertRaises(weft.WeftError, encoder.masked_logits, ids, len(ids))
            with self.assertRaises(weft.WeftError) as caught:
                model.session()
            self.assertEqual(caught.exception.code, "WEFT_UNSUPPORTED")
        self.assertRaisesRegex(ValueError, "closed", encoder.embed, ["a"])

    def test_without_numpy(self):
        said = run_script("""
import sys
sys.modules["numpy"] = None
import weft
session = weft.Model().session(temperature=0)
session.prompt("hello")
try:
    session.logits()
except ImportError as error:
    print(error)
print(session.chat("hello").text())
""")
        self.assertRegex(said, "^weft returns arrays of floats as numpy arrays, and numpy is not installed\nHello!")


class OtherModels(unittest.TestCase):
    def test_a_tiny_model(self):
        with weft.Model(chatty(), type="q8") as model, model.session(temperature=0, max_tokens=8, kv="q8", policy="polite") as session:
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
        blocks = [block for block in pages.blocks(ROOT / "docs/embedding.md") if block.language == "python"]
        self.assertGreaterEqual(len(blocks), 2)
        for block in blocks:
            self.assertTrue(block.file, block.place)
            (FOLDER / block.file).write_text(block.text)
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        said = [subprocess.run([sys.executable, block.file, *words], cwd=FOLDER, env=env, text=True, check=True, stdout=subprocess.PIPE).stdout
                for block, words in zip(blocks, (["set a timer for 10 minutes"], []))]
        self.assertEqual(said[0], TIMER + "\n")
        self.assertRegex(said[1], r"^10 minutes\n[^.]+\.[^.]*\n\d+ tokens on .*\nWEFT_INVALID_ARGUMENT\nhead\n.+\n")
        self.assertTrue((FOLDER / "talk.session").exists())


if __name__ == "__main__":
    if not os.environ.get("WEFT_LIBRARY"):
        assert PACKAGE not in pathlib.Path(weft.__file__).parents, "this is not the installed wheel"
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
