"""Generation by a session, how it ends, and saved sessions."""
import asyncio
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

from common import BIN, ENV, FOLDER, TIMER, WithPocket, chatty, run_script, thinks, weft
from weft._library import library


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
            self.assertEqual((str(answer), answer.text()), (text, text))
            self.assertRaisesRegex(RuntimeError, "read already", next, iter(answer))
            messages = [{"role": "user", "content": "set a timer for 10 minutes"}]
            self.assertEqual(session.chat(messages).text(), TIMER)
            self.assertEqual(len(session.messages), 2)
            self.assertEqual(len(messages), 1)

    def test_coroutines(self):
        """The loop of coroutines goes on meanwhile. Leaving `async for` and cancelling a task end the generation."""
        async def go(session):
            beats, texts = [], []

            async def beat():
                while True:
                    beats.append(time.monotonic())
                    await asyncio.sleep(0.001)

            heart = asyncio.create_task(beat())
            async for token in session.chat("set a timer for 10 minutes"):
                texts.append(token.text)
            heart.cancel()
            self.assertEqual("".join(texts), TIMER)
            self.assertGreater(len(beats), len(texts))
            async for token in session.chat("hello"):
                break
            self.assertEqual(session.messages[-1]["content"], token.text)

            async def endless():
                async for _ in session.generate("Once upon a time", ignore_stop_tokens=True):
                    begun.set()

            begun, task = asyncio.Event(), asyncio.create_task(endless())
            await begun.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            with self.assertRaisesRegex(weft.WeftError, "vocabulary"):
                async for _ in session.generate([2**31]):
                    pass
            self.assertTrue(session.chat("hello").text())

        with self.session() as session:
            asyncio.run(go(session))

    def test_response_format(self):
        timer = {"type": "object", "properties": {"minutes": {"const": 10}}, "required": ["minutes"], "additionalProperties": False}
        with self.session() as session:
            form = {"type": "json_schema", "json_schema": {"name": "timer", "schema": timer}}
            self.assertEqual(json.loads(str(session.chat("set a timer for 10 minutes", response_format=form))), {"minutes": 10})
            self.assertIsInstance(json.loads(str(session.chat("set a timer for 10 minutes", response_format={"type": "json_object"}))), dict)
            self.assertEqual(str(session.chat("set a timer for 10 minutes", response_format={"type": "text"})), TIMER)
            self.assertRaisesRegex(ValueError, "'xml'", session.chat, "hello", response_format={"type": "xml"})
            self.assertRaisesRegex(ValueError, "at most one", session.chat, "hello", response_format=form, regex="a")

    def test_the_oldest_turns_make_room(self):
        with self.session(context=96) as session:
            for _ in range(8):
                self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)
            self.assertEqual(len(session.messages), 16)
            self.assertLess(len(session.ids), 96)
            path = os.path.join(FOLDER, "full.session")
            session.save(path)
            with self.session(context=96) as other:
                other.restore(path)
                self.assertEqual(other.messages, session.messages)
                computed = []
                for one in session, other:  # the context begins where it did
                    before = one.stats.prompt_tokens
                    self.assertEqual(one.chat("set a timer for 10 minutes").text(), TIMER)
                    computed.append(one.stats.prompt_tokens - before)
                self.assertEqual(computed[0], computed[1])
            before = list(session.messages)
            with self.assertRaisesRegex(weft.WeftError, "fit"):
                session.chat("word " * 100).text()
            self.assertEqual(session.messages, before)

    def test_reasoning(self):
        """Apart from the answer, and not bound by a grammar. Random weights: a grammar says what the model says, a budget ends its reasoning."""
        schema = {"enum": [1234, 5678]}
        with weft.Model(thinks()) as model, model.session(temperature=0, json_schema=schema) as session:
            for budget in (1, 6):
                answer = session.chat("hello", think=budget)
                tokens = list(answer)
                self.assertIn("".join(map(str, tokens)), ("1234", "5678"))
                self.assertEqual("".join(token.reasoning for token in tokens), answer.reasoning)
                self.assertEqual(session.messages[-1], {"role": "assistant", "content": "".join(map(str, tokens)), "reasoning_content": answer.reasoning})
                self.assertTrue(answer.reasoning)
            self.assertIn(session.chat([{"role": "user", "content": "hello"}], think=False).text(), ("1234", "5678"))
            self.assertNotIn("reasoning_content", session.messages[-1])
            cut = session.chat("hello", max_tokens=3)
            self.assertEqual((cut.text(), cut.stop), ("", "length"))
            rest = session.generate(think=5)  # goes on within the reasoning
            self.assertIn(rest.text(), ("1234", "5678"))
            self.assertTrue(cut.reasoning and rest.reasoning)
            for said, text, reasoning in (("<think>Oh.</think>Yes.", "Yes.", "Oh."), ("Yes.", "Yes.", ""), ("<think>Oh", "", "Oh")):
                answer = session.generate("x", grammar=f'root ::= "{said}"', think=True)
                self.assertEqual((answer.text(), answer.reasoning), (text, reasoning))
                self.assertEqual(session.generate("x", grammar=f'root ::= "{said}"').text(), said)
            self.assertEqual(model.detokenize(model.apply_chat_template([{"role": "user", "content": "a"}], think=False)), "user: a\nassistant:<think>\n\n</think>\n\n")
            history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "c"}]
            self.assertIn("<think>c</think>b", model.detokenize(model.apply_chat_template(history)))
            with self.assertRaises(ValueError):
                session.chat("a", think=-1).text()

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
            self.assertEqual(session.stats.drafted_tokens, 0)
            self.assertEqual(session.generate("one two one two one two", speculate="lookup").text(), plain)
            stats = session.stats
            self.assertGreater(stats.check_passes, 0)
            self.assertLessEqual(stats.accepted_tokens, stats.drafted_tokens)
            self.assertGreater(stats.drafted_tokens, 0)
            self.assertRaises(ValueError, session.generate("a", speculate="nope").text)
            self.assertEqual(session.generate("one two one two one two", draft=self.model).text(), plain)
            self.assertRaises(ValueError, session.generate("a", draft=self.model, medusa="x").text)
            self.assertRaises(weft.WeftError, session.generate("a", medusa="none.gguf").text)
            heads = os.path.join(os.path.dirname(__file__), "../../../apps/pocket/pocket-medusa.gguf")
            self.assertEqual(session.generate("one two one two one two", medusa=heads).text(), plain)
            self.assertEqual(session.generate("one two one two one two", draft=None).text(), plain)
            with weft.Model() as draft:
                self.assertEqual(session.generate("one two one two one two", draft=draft).text(), plain)
            self.assertEqual(session.generate("one two one two one two", draft=draft).text(), plain)  # the session has it
            self.assertEqual(session.generate("one two one two one two").text(), plain)
            self.assertRaises(ValueError, session.generate("a", draft=draft).text)

    def test_adapters(self):
        lora = FOLDER / "lora"
        subprocess.run([BIN / "weft-make-model", lora, "--lora", "2"], check=True)
        with weft.Model(chatty()) as model, model.session(temperature=0, max_tokens=12, ignore_stop_tokens=True) as session:
            plain = session.generate("one two").text()
            adapter, half = weft.Adapter(model, lora), weft.Adapter(model, lora, 0.5)
            self.assertGreater(adapter.bytes, 0)
            texts = [session.generate("one two", adapter=one).text() for one in (adapter, half, None, adapter)]
            self.assertEqual(texts[2], plain)
            self.assertEqual(texts[0], texts[3])
            self.assertEqual(len(set(texts)), 3)
            with model.session(temperature=0, max_tokens=12, ignore_stop_tokens=True, adapter=adapter) as own:
                adapter.close()  # the session holds it
                self.assertEqual(own.generate("one two").text(), texts[0])
            session.generate("a", adapter=None).text()
            self.assertRaises(ValueError, session.generate("a", adapter=adapter).text)
            with self.assertRaises(weft.WeftError) as raised:
                weft.Adapter(self.model, lora)
            self.assertIn("lora_A", raised.exception.sentence)

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
        """Exceptions in a callback, for example MemoryError, are raised by the loop and do not go through C."""
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

    def test_duty(self):
        with self.session(policy="polite") as session:
            session.set_duty(0.5)
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)
            session.reset()
            texts, times = [], []
            for token in session.chat("set a timer for 10 minutes"):
                texts.append(token.text)
                times.append(time.monotonic())
                if len(texts) == 3:
                    session.set_duty(0)  # until another thread says so
                    threading.Timer(0.1, session.set_duty, [1]).start()
            self.assertEqual("".join(texts), TIMER)
            self.assertGreaterEqual(times[3] - times[2], 0.1)
            session.set_duty(0)
            canceller = threading.Timer(0.05, session.cancel)
            canceller.start()
            ended = session.chat("hello")
            ended.text()
            self.assertEqual(ended.stop, "caller")
            canceller.join()
            self.assertRaises(weft.WeftError, session.set_duty, 1.5)
        self.assertRaisesRegex(ValueError, "closed", session.set_duty, 1)
        with self.session() as session, self.assertRaises(weft.WeftError) as caught:
            session.set_duty(0.5)
        self.assertEqual(caught.exception.hint, "create it with WEFT_POLICY_POLITE")

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

    def test_calls_in_the_prompts_progress(self):
        """Getters, cancel() and close() work there as in the loop."""
        ids = [1000] * 480
        with self.session(max_tokens=3) as session:
            seen = []

            def tell(done, all):
                seen.append((len(session.ids), session.stats.context_used))
                with self.assertRaisesRegex(RuntimeError, "generates"):
                    session.reset()

            session.generate(ids, prompt_progress=tell).text()
            self.assertGreater(len(seen), 3)
            self.assertEqual(set(seen[:-1]), {(480, 480)})  # the last one has the first token already
            session.reset()
            cancelled = session.generate(ids, prompt_progress=lambda done, all: session.cancel())
            self.assertEqual((cancelled.text(), cancelled.stop), ("", "caller"))
            self.assertEqual(session.chat("set a timer for 10 minutes", max_tokens=0).text(), TIMER)
            closed = session.generate(ids, prompt_progress=lambda done, all: session.close())
            self.assertEqual((closed.text(), closed.stop), ("", "caller"))
            self.assertRaisesRegex(ValueError, "closed", session.prompt, "a")

    def test_a_late_cancel_is_forgotten(self):
        with self.session() as session:
            with session._calling() as pointer:
                library.weft_session_cancel(pointer)  # as cancel() does when the call has just failed
            self.assertEqual(session.chat("set a timer for 10 minutes").text(), TIMER)

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
        # A shell's job in the background ignores the signal, and so does what it starts.
        with subprocess.Popen([sys.executable, "-c", script], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
            try:
                self.assertEqual(process.stdout.readline(), "begun\n")
                time.sleep(1)
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.communicate(timeout=60)[0], f"interrupted\n{TIMER}\n")
            finally:
                process.kill()

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
        done = subprocess.run([BIN / "weft", "chat", "--lines", "--temperature", "0"], input=f"/load {path}\nset a timer for 10 minutes\n/save {path}\n", text=True,
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
