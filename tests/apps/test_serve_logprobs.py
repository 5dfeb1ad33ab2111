"""Log-probabilities of `weft serve`, with pocket."""
import math
import re
import threading

from serving import CHAT, ServeTest, Stream, text_of, user
from support import FOLDER, weft_json


class ServeLogprobs(ServeTest):
    STORY = dict(messages=user("tell me a story about a cat"), temperature=0, max_tokens=24)

    def check_logprobs(self, content, text, most):
        """OpenAI's form of a chat, and what must hold of any such list."""
        self.assertEqual(b"".join(bytes(token["bytes"]) for token in content).decode(), text)
        for token in content:
            self.assertEqual(set(token), {"token", "logprob", "bytes", "top_logprobs"})
            self.assertLessEqual(token["logprob"], 0)
            top = token["top_logprobs"]
            self.assertEqual(len(top), most)
            values = [other["logprob"] for other in top]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLess(sum(map(math.exp, values)), 1.0001)
            for other in top:
                self.assertEqual(set(other), {"token", "logprob", "bytes"})
                if other["token"] == token["token"]:
                    self.assertEqual(other["logprob"], token["logprob"])

    def test_logprobs_of_a_chat(self):
        plain_choice = self.server.post(CHAT, **self.STORY)["choices"][0]
        text = plain_choice["message"]["content"]
        for most in (0, 1, 20):
            choice = self.server.post(CHAT, **self.STORY, logprobs=True, top_logprobs=most)["choices"][0]
            self.assertEqual(choice["message"], plain_choice["message"])
            self.assertEqual(set(choice["logprobs"]), {"content", "refusal"})
            content = choice["logprobs"]["content"]
            self.check_logprobs(content, text, most)
            self.assertEqual(len(content), 24)
            if most:  # greedy
                self.assertTrue(all(token["token"] == token["top_logprobs"][0]["token"] for token in content))
        self.assertEqual(self.server.post(CHAT, **self.STORY, logprobs=True)["choices"][0]["logprobs"]["content"],
                         self.server.post(CHAT, **self.STORY, logprobs=True, top_logprobs=0)["choices"][0]["logprobs"]["content"])
        # One request's wish does not stay for the next.
        self.assertIsNone(self.server.post(CHAT, **self.STORY)["choices"][0]["logprobs"])

    def test_logprobs_are_the_models(self):
        """The mean over a text is what `weft perplexity` measures, whatever the temperature and the bias that force it."""
        text = FOLDER / "cat.txt"
        text.write_text("The cat sat on the mat and")
        ids = self.server.post("/tokenize", content=text.read_text(), add_special=True)["tokens"]
        total = 0
        for i, temperature in zip(range(1, len(ids)), (0, 0.5, 1, 2) * len(ids)):
            one = self.server.post("/v1/completions", prompt=ids[:i], max_tokens=1, logit_bias={str(ids[i]): 100}, temperature=temperature, logprobs=0)
            total -= one["choices"][0]["logprobs"]["token_logprobs"][0]
        measured = weft_json("perplexity", "-f", text)
        self.assertEqual(measured["tokens"], len(ids) - 1)
        self.assertAlmostEqual(total / (len(ids) - 1), measured["nll"], delta=0.01)

    def test_logprobs_of_a_stream(self):
        for more in ({}, {"seed": 5, "temperature": 1}, {"stop": "the"}, {"stop": "e c"}, {"regex": "[a-z ]{20}"}):
            ask = {**self.STORY, "logprobs": True, "top_logprobs": 3, **more}
            whole = self.server.post(CHAT, **ask)["choices"][0]
            events = list(Stream(self.server, CHAT, **ask).events())[:-1]
            content = [token for event in events if event["choices"][0]["logprobs"] for token in event["choices"][0]["logprobs"]["content"]]
            self.assertEqual(text_of(events), whole["message"]["content"])
            self.assertEqual([token["token"] for token in content], [token["token"] for token in whole["logprobs"]["content"]])
            # A stop string may begin within a token; no token lies after it.
            text, rest = b"".join(bytes(token["bytes"]) for token in content).decode(), len(whole["message"]["content"])
            self.assertTrue(text.startswith(whole["message"]["content"]))
            self.assertGreater(rest, len(text) - len(content[-1]["token"]))
            if "stop" not in more:
                self.check_logprobs(content, whole["message"]["content"], 3)
            # An event's logprobs are those of its text.
            for event in events:
                choice = event["choices"][0]
                self.assertEqual(choice["logprobs"] is not None, bool(choice["delta"].get("content")))
                if choice["logprobs"] and "stop" not in more:
                    self.assertEqual(choice["delta"]["content"], b"".join(bytes(token["bytes"]) for token in choice["logprobs"]["content"]).decode())

    def test_logprobs_of_the_end_and_of_parts_of_characters(self):
        # The token that ends an answer is no part of it, but may be one of the likeliest.
        answer = self.server.chat("hello", temperature=0, logprobs=True, top_logprobs=2)
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        self.check_logprobs(choice["logprobs"]["content"], choice["message"]["content"], 2)
        self.assertEqual(len(choice["logprobs"]["content"]), answer["usage"]["completion_tokens"] - 1)
        tops = [top for token in self.server.chat("hello", temperature=0, logprobs=True, top_logprobs=20)["choices"][0]["logprobs"]["content"]
                for top in token["top_logprobs"]]
        names = {top["token"] for top in tops if top["bytes"] is None}
        self.assertTrue(names)
        self.assertTrue(all(re.fullmatch(r"<\|.*\|>|\[.*\]|<.*>", name) for name in names), names)
        # A character of four bytes comes as one text, with a token for each part.
        for path, ask in ((CHAT, {"messages": user("hello")}), ("/v1/completions", {"prompt": "hello"})):
            many = self.server.post(path, **ask, regex="🙂日🙂!", logprobs=True if path == CHAT else 0)["choices"][0]["logprobs"]
            if path == CHAT:
                self.assertEqual(b"".join(bytes(token["bytes"]) for token in many["content"]).decode(), "🙂日🙂!")
                parts = [token for token in many["content"] if token["token"].startswith("bytes:")]
                self.assertTrue(parts)
                self.assertEqual(parts[0]["token"], "bytes:" + "".join(f"\\x{byte:02x}" for byte in parts[0]["bytes"]))
            else:
                self.assertEqual((many["text_offset"][0], many["text_offset"][-1]), (0, 3))
                self.assertEqual(many["text_offset"], sorted(many["text_offset"]))
                self.assertEqual(set(many["text_offset"]), {0, 1, 2, 3})

    def test_logprobs_of_a_completion(self):
        ask = {"prompt": "The cat", "max_tokens": 12, "temperature": 0.8, "seed": 2}
        choice = self.server.post("/v1/completions", **ask, logprobs=2)["choices"][0]
        lists = choice["logprobs"]
        self.assertEqual(set(lists), {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
        self.assertEqual({len(values) for values in lists.values()}, {12})
        self.assertEqual("".join(lists["tokens"]), choice["text"])
        for i, offset in enumerate(lists["text_offset"]):
            self.assertTrue(choice["text"][offset:].startswith(lists["tokens"][i]))
            top = lists["top_logprobs"][i]
            self.assertEqual(top[lists["tokens"][i]], lists["token_logprobs"][i])
            self.assertEqual(len(top), 2 if lists["tokens"][i] in list(top)[:2] else 3)
        self.assertIsNone(self.server.post("/v1/completions", **ask, logprobs=0)["choices"][0]["logprobs"]["top_logprobs"])
        self.assertIsNone(self.server.post("/v1/completions", **ask)["choices"][0]["logprobs"])
        chunks = [event["choices"][0]["logprobs"] for event in Stream(self.server, "/v1/completions", **ask, logprobs=2).events() if event != "[DONE]"]
        self.assertEqual({name: sum((chunk[name] for chunk in chunks if chunk), []) for name in lists}, lists)

    def test_logprobs_of_many_at_once(self):
        want = [self.server.post(CHAT, messages=user(f"hello {i}"), seed=i, max_tokens=12, logprobs=True, top_logprobs=i)["choices"][0] for i in range(4)]
        got = {}
        def ask(i):
            got[i] = self.server.post(CHAT, messages=user(f"hello {i}"), seed=i, max_tokens=12, logprobs=True, top_logprobs=i)["choices"][0]
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i in range(4):
            self.assertEqual(got[i]["message"], want[i]["message"])
            for one, other in zip(got[i]["logprobs"]["content"], want[i]["logprobs"]["content"], strict=True):
                self.assertEqual(len(one["top_logprobs"]), i)
                self.assertAlmostEqual(one["logprob"], other["logprob"], delta=0.02)
