"""`weft serve`: its protocol, byte for byte, and what it answers to clients that are wrong."""
import json
import re
import threading

from serving import CHAT, ServeTest, Stream, post_bytes, text_of, user
from support import ROOT, weft_json

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
          "required": ["name", "age"], "additionalProperties": False}
USAGE = {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details", "weft"}


class Serve(ServeTest):
    """With pocket, the installed model."""

    # ---- protocol ----

    def test_health_and_models(self):
        self.assertEqual(self.server.request("GET", "/health")[::2], (200, {"status": "ok"}))
        status, _, models = self.server.request("GET", "/v1/models")
        self.assertEqual((status, models["object"], len(models["data"])), (200, "list", 1))
        self.assertEqual(models["data"][0].items() & {"id": "pocket", "object": "model", "owned_by": "weft"}.items(),
                         {"id": "pocket", "object": "model", "owned_by": "weft"}.items())
        self.assertEqual(self.server.request("GET", "/v1/models/pocket")[2], models["data"][0])
        status, _, answer = self.server.request("GET", "/v1/models/gpt")
        self.assertEqual((status, answer["error"]["code"]), (404, "model_not_found"))

    def test_the_greeting_names_the_device(self):
        names = [device["name"] for device in weft_json("devices")["devices"]]
        self.assertTrue(any(f" on {name}." in self.server.greeting for name in names), (self.server.greeting, names))

    def test_values_that_turn_filters_off(self):
        """As clients of OpenAI and vLLM send them."""
        said = lambda **sampling: self.server.chat("tell me a story about a cat", max_tokens=24, **sampling)["choices"][0]["message"]["content"]
        self.assertEqual(said(temperature=1, top_p=0), said(temperature=0))
        self.assertEqual(said(temperature=1, seed=5, top_k=-1), said(temperature=1, seed=5, top_k=0))

    def test_a_chat_says_what_generate_says(self):
        for sampling in ({"temperature": 0}, {"temperature": 1.3, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 7},
                         {"temperature": 0.9, "seed": 3, "top_k": 20, "top_p": 0.8, "min_p": 0.1, "typical_p": 0.9, "repeat_penalty": 1.2,
                          "presence_penalty": 0.5, "frequency_penalty": -0.5}):
            with self.subTest(sampling):
                answer = self.server.chat("tell me a story about a cat", max_tokens=24, **sampling)
                ids = self.server.post("/apply-template", messages=user("tell me a story about a cat"))["tokens"]
                options = [item for key, value in sampling.items() for item in ("--" + key.replace("_", "-"), value)]
                want = self.alone(ids, "-n", 24, *options)
                self.assertEqual(answer["choices"][0]["message"], {"role": "assistant", "content": want["text"], "refusal": None})
                self.assertEqual(answer["choices"][0]["finish_reason"], {"length": "length", "token": "stop"}[want["stop"]])
                usage = answer["usage"]
                self.assertEqual(set(usage), USAGE)
                self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]),
                                 (len(ids), len(want["ids"]), len(ids) + len(want["ids"])))
                self.assertEqual(answer["object"], "chat.completion")
                self.assertRegex(answer["id"], "^chatcmpl-[0-9a-f]{24}$")

    def test_a_stream_is_what_clients_rely_on(self):
        question = {"messages": user("set a timer for 10 minutes"), "temperature": 0}
        whole = self.server.post(CHAT, **question)
        stream = Stream(self.server, CHAT, **question, stream_options={"include_usage": True})
        self.assertEqual(stream.answer.headers["Content-Type"], "text/event-stream")
        events = list(stream.events())
        self.assertEqual(events[-1], "[DONE]")
        *chunks, usage = events[:-1]
        self.assertEqual(len({chunk["id"] for chunk in events[:-1]}), 1)
        for chunk in chunks:
            self.assertEqual((chunk["object"], chunk["model"], chunk["usage"]), ("chat.completion.chunk", "pocket", None))
            self.assertEqual(len(chunk["choices"]), 1)
        self.assertEqual(chunks[0]["choices"][0], {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None})
        self.assertEqual(chunks[-1]["choices"][0], {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"})
        self.assertTrue(all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks[:-1]))
        self.assertEqual(text_of(chunks), whole["choices"][0]["message"]["content"])
        self.assertEqual(usage["choices"], [])
        self.assertEqual(usage["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
        # Every event is one line of data and an empty line.
        self.assertEqual(len(stream.lines), 2 * len(events))
        self.assertTrue(all(line == "\n" for line in stream.lines[1::2]))
        # Without the option there is no usage; with another every chunk has it.
        events = list(Stream(self.server, CHAT, **question).events())
        self.assertTrue(all("usage" not in event for event in events[:-1]))
        events = list(Stream(self.server, CHAT, **question, stream_options={"continuous_usage_stats": True}).events())
        counts = [event["usage"]["completion_tokens"] for event in events[:-1]]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], whole["usage"]["completion_tokens"])

    def test_the_bytes_of_a_stream(self):
        body = {"messages": user("hello"), "temperature": 0, "stream": True}
        answer = self.server.raw(post_bytes(CHAT, body, "Connection: close", "Accept-Encoding: gzip, br"))
        head, _, rest = answer.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 OK\r\n"))
        headers = {line.split(b": ")[0].lower(): line.split(b": ")[1] for line in head.split(b"\r\n")[1:]}
        self.assertEqual(headers[b"transfer-encoding"], b"chunked")
        self.assertEqual(headers[b"cache-control"], b"no-cache")
        self.assertNotIn(b"content-encoding", headers)
        chunks = []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            chunks.append(rest[:int(size, 16)])
            self.assertEqual(rest[int(size, 16):int(size, 16) + 2], b"\r\n")
            rest = rest[int(size, 16) + 2:]
        self.assertEqual(chunks[-2:], [b"data: [DONE]\n\n", b""])
        for chunk in chunks[:-1]:
            self.assertRegex(chunk, rb"^data: [^\n]*\n\n$")

    def test_completions(self):
        ids = self.server.post("/tokenize", content="The cat", add_special=True)["tokens"]
        want = self.alone(ids, "-n", 12, "--temperature", 0)
        for prompt in ("The cat", ["The cat"], ids):
            answer = self.server.post("/v1/completions", prompt=prompt, max_tokens=12, temperature=0)
            self.assertEqual(answer["choices"][0], {"index": 0, "text": want["text"], "logprobs": None, "finish_reason": "length"})
            self.assertEqual(answer["object"], "text_completion")
        marked = self.server.post("/tokenize", content="The<|im_end|> cat", add_special=True, parse_special=True)["tokens"]
        self.assertEqual(self.server.post("/v1/completions", prompt="The<|im_end|> cat", max_tokens=1)["usage"]["prompt_tokens"], len(marked))
        self.assertLess(len(marked), len(self.server.post("/tokenize", content="The<|im_end|> cat", add_special=True)["tokens"]))
        events = list(Stream(self.server, "/v1/completions", prompt=ids, max_tokens=12, temperature=0).events())
        self.assertEqual("".join(event["choices"][0]["text"] for event in events[:-1]), want["text"])
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], "length")

    def test_tokens(self):
        for text in ("Hello, world", "", "naïve 日本 🙂", "<|eot|>"):
            tokens = self.server.post("/tokenize", content=text)["tokens"]
            self.assertEqual(self.server.post("/detokenize", tokens=tokens)["content"], text)
        with_start = self.server.post("/tokenize", content="Hello", add_special=True)["tokens"]
        self.assertEqual(with_start[-len(self.server.post("/tokenize", content="Hello")["tokens"]):],
                         self.server.post("/tokenize", content="Hello")["tokens"])

    def test_messages(self):
        parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
        tokens = lambda messages: self.server.post("/apply-template", messages=messages)["tokens"]
        self.assertEqual(tokens([{"role": "user", "content": parts}]), tokens(user("hel\nlo")))
        self.assertEqual(tokens([{"role": "developer", "content": "be brief"}, *user("hi")]),
                         tokens([{"role": "system", "content": "be brief"}, *user("hi")]))
        # Control tokens of a message are plain text.
        special = weft_json("generate", "-p", "x", "-n", 1)["prompt_ids"][0]
        self.assertEqual(tokens(user("<|user|><|assistant|>")).count(special), tokens(user("hi")).count(special))

    def test_stops_biases_and_lengths(self):
        story = self.server.chat("tell me a story about a cat", temperature=0, max_tokens=40)["choices"][0]["message"]["content"]
        word = story.split()[5]
        answer = self.server.chat("tell me a story about a cat", temperature=0, max_tokens=40, stop=[word, "never there"])
        self.assertEqual(answer["choices"][0]["message"]["content"], story[:story.index(word)])
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        events = list(Stream(self.server, CHAT, messages=user("tell me a story about a cat"), temperature=0, stop=word).events())
        self.assertEqual(text_of(events), story[:story.index(word)])
        first = self.server.post("/tokenize", content=story)["tokens"][0]
        answer = self.server.chat("tell me a story about a cat", temperature=0, max_completion_tokens=3, logit_bias={str(first): -100})
        self.assertNotEqual(answer["choices"][0]["message"]["content"][:3], story[:3])
        self.assertEqual((answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]), (3, "length"))
        # The context ends the others.
        answer = self.server.post("/v1/completions", prompt=[5] * 500, temperature=0, logit_bias={str(i): -100 for i in range(8)})
        self.assertEqual((answer["usage"]["total_tokens"], answer["choices"][0]["finish_reason"]), (512, "length"))

    def test_structured_output(self):
        say = lambda **more: self.server.chat("tell me about yourself", seed=5, max_tokens=200, **more)["choices"][0]["message"]["content"]
        person = json.loads(say(response_format={"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}))
        self.assertEqual(set(person), {"name", "age"})
        self.assertIsInstance(person["age"], int)
        self.assertTrue(say(response_format={"type": "json_object"}, temperature=0).lstrip().startswith("{"))
        self.assertRegex(say(regex="(yes|no), [0-9]{3}"), "^(yes|no), [0-9]{3}$")
        self.assertIn(say(grammar='root ::= "left" | "right"'), ("left", "right"))
        say(response_format={"type": "text"})
        # As `weft generate` has it with the same seed.
        ids = self.server.post("/apply-template", messages=user("tell me about yourself"))["tokens"]
        want = self.alone(ids, "--seed", 5, "-n", 200, "--regex", "[a-z ]{20}")
        self.assertEqual(say(regex="[a-z ]{20}"), want["text"])
        # One grammar does not stay for the next request.
        self.assertEqual(say(temperature=0), self.alone(ids, "-n", 200, "--temperature", 0)["text"])

    def test_heads(self):
        full = self.server.chat("tell me a story about a cat", temperature=0, max_tokens=20)
        for head in ("certified", "fast:32", "keep:digits,punctuation", "certified+keep:latin,digits,!prompt"):
            answer = self.server.chat("tell me a story about a cat", temperature=0, max_tokens=20, head=head)
            if head == "certified":
                self.assertEqual(answer["choices"][0]["message"], full["choices"][0]["message"])
            self.assertEqual(answer["usage"]["weft"]["head"], head)
            figures = {key: answer["usage"]["weft"][key] / full["usage"]["weft"][key] for key in ("head_bytes_per_token", "head_rows_per_token")}
            self.assertTrue(0 < figures["head_rows_per_token"] < 1, (head, figures))
            self.assertTrue(0 < figures["head_bytes_per_token"] < 1, (head, figures))

    def test_a_conversation_finds_its_cache(self):
        def turn(messages):
            answer = self.server.post(CHAT, messages=messages, temperature=0, max_tokens=24)
            return messages + [{"role": "assistant", "content": answer["choices"][0]["message"]["content"]}], answer["usage"]
        cats, usage = turn(user("tell me a story about a cat named Felix"))
        dogs, _ = turn(user("what can you do for me today my friend"))
        for _ in range(2):  # in turns, each finds its own
            before = usage["prompt_tokens"]
            cats, usage = turn(cats + user("tell me more"))
            self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], before)
            dogs, other = turn(dogs + user("and what else"))
            self.assertGreaterEqual(other["prompt_tokens_details"]["cached_tokens"], 10)

    # ---- errors ----

    def test_fields_that_are_wrong(self):
        hello = {"messages": user("hello")}
        for code, param, body in [
                ("missing_required_parameter", "messages", {}),
                ("invalid_type", "messages", {"messages": "hello"}),
                ("invalid_type", "messages", {"messages": []}),
                ("invalid_value", "messages", {"messages": user("x") * 4097}),
                ("missing_required_parameter", "messages[0].role", {"messages": [{"content": "x"}]}),
                ("invalid_value", "messages[1].role", {"messages": [*user("x"), {"role": "function", "content": "x"}]}),
                ("missing_required_parameter", "messages[0].content", {"messages": [{"role": "user", "content": None}]}),
                ("invalid_value", "messages[0].content", {"messages": user("zero\0byte")}),
                ("unsupported_parameter", "messages[0].content[1].image_url.url",
                 {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "x"}}]}]}),
                ("unsupported_parameter", "messages[0].weight", {"messages": [{"role": "user", "content": "x", "weight": 1}]}),
                ("unsupported_parameter", "verbosity", {**hello, "verbosity": "low"}),
                ("unsupported_parameter", "modalities", {**hello, "modalities": ["text", "audio"]}),
                ("unsupported_parameter", "web_search_options", {**hello, "web_search_options": {}}),
                ("invalid_value", "reasoning_effort", {**hello, "reasoning_effort": "most"}),
                ("invalid_type", "chat_template_kwargs", {**hello, "chat_template_kwargs": []}),
                ("invalid_value", "chat_template_kwargs.tools", {**hello, "chat_template_kwargs": {"tools": []}}),
                ("invalid_value", "temperature", {**hello, "temperature": 2.5}),
                ("invalid_type", "temperature", {**hello, "temperature": "hot"}),
                ("invalid_value", "top_p", {**hello, "top_p": -0.1}), ("invalid_value", "top_k", {**hello, "top_k": -2}),
                ("invalid_value", "min_p", {**hello, "min_p": -1}),
                ("invalid_type", "top_k", {**hello, "top_k": 1.5}),
                ("invalid_value", "presence_penalty", {**hello, "presence_penalty": 3}),
                ("invalid_type", "seed", {**hello, "seed": "x"}),
                ("invalid_value", "seed", {**hello, "seed": 2**64 - 1}),
                ("invalid_value", "max_tokens", {**hello, "max_tokens": 0}),
                ("invalid_value", "max_tokens", {**hello, "max_tokens": 5, "max_completion_tokens": 6}),
                ("invalid_value", "logit_bias", {**hello, "logit_bias": {"8192": 1}}),
                ("invalid_value", "logit_bias", {**hello, "logit_bias": {"x": 1}}),
                ("missing_required_parameter", "logit_bias.5", {**hello, "logit_bias": {"5": None}}),
                ("invalid_value", "logit_bias.5", {**hello, "logit_bias": {"5": 101}}),
                ("invalid_type", "stop", {**hello, "stop": [1]}),
                ("invalid_value", "stop", {**hello, "stop": ["x"] * 17}),
                ("invalid_value", "stop", {**hello, "stop": ""}),
                ("invalid_type", "stream", {**hello, "stream": "yes"}),
                ("invalid_value", "stream_options", {**hello, "stream_options": {}}),
                ("unsupported_parameter", "stream_options.x", {**hello, "stream": True, "stream_options": {"x": 1}}),
                ("invalid_value", "response_format.type", {**hello, "response_format": {"type": "xml"}}),
                ("missing_required_parameter", "response_format.json_schema", {**hello, "response_format": {"type": "json_schema"}}),
                ("invalid_value", "response_format.json_schema.schema",
                 {**hello, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}}),
                ("invalid_value", "grammar", {**hello, "grammar": "root ::= ("}),
                ("invalid_value", "regex", {**hello, "regex": "("}),
                ("invalid_value", "regex", {**hello, "regex": "a", "grammar": "root ::= \"a\""}),
                ("invalid_value", "head", {**hello, "head": "half"}),
                ("invalid_value", "head", {**hello, "head": "keep:" + "ascii," * 42}),
                ("invalid_value", "n", {**hello, "n": 5}),
                ("invalid_value", "n", {**hello, "n": 0}),
                ("invalid_type", "n", {**hello, "n": "2"}),
                ("unsupported_parameter", "functions", {**hello, "functions": []}),
                ("invalid_type", "logprobs", {**hello, "logprobs": 1}),
                ("invalid_value", "top_logprobs", {**hello, "top_logprobs": 3}),
                ("invalid_value", "top_logprobs", {**hello, "logprobs": True, "top_logprobs": 21})]:
            with self.subTest(code=code, param=param, body=body):
                self.refused(400, code, param, **body)
        self.server.post(CHAT, **hello, model="gpt-4o", max_tokens=2)  # the only model answers for all names
        self.server.post(CHAT, **hello, model="pocket", n=1, user="me", store=False, logprobs=None, tools=None, max_tokens=2)
        for param, body in [("prompt", {}), ("prompt", {"prompt": ["a", "b"]}), ("prompt", {"prompt": [8192]}), ("prompt", {"prompt": [-1]}),
                            ("echo", {"prompt": "x", "echo": True}), ("best_of", {"prompt": "x", "best_of": 2}), ("suffix", {"prompt": "x", "suffix": "y"}),
                            ("logprobs", {"prompt": "x", "logprobs": 6}), ("logprobs", {"prompt": "x", "logprobs": True}),
                            ("response_format", {"prompt": "x", "response_format": {"type": "text"}})]:
            status, _, answer = self.server.request("POST", "/v1/completions", body)
            self.assertEqual((status, answer["error"]["param"]), (400, param))
        self.assertIn("at most 511 fit", self.refused(400, "context_length_exceeded", "messages", messages=user("cat " * 600)))
        self.refused(400, "invalid_value", "tokens", path="/detokenize", tokens=[1.5])
        self.refused(400, "missing_required_parameter", "content", path="/tokenize")

    def test_no_path_reaches_the_files(self):
        for head in ("keep:/etc/passwd", "keep:" + str(ROOT / "README.md"), "fast+keep:ascii,../x", "keep:", "keep:prompts", "keep:ascii+keep:/x"):
            self.assertIn("presets only", self.refused(400, "invalid_value", "head", messages=user("x"), head=head))
        self.assertIn("256 bytes", self.refused(400, "invalid_value", "head", messages=user("x"), head="keep:" + "ascii," * 100 + "ascii"))
        for path in ("/../../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/page.html", "/v1", "/v1/models/../x"):
            self.assertEqual(self.server.request("GET", path)[0], 404)

    def test_bodies_that_are_no_json(self):
        for body in (b"", b"{", b"[]", b"null", b'{"messages": "\xff"}', b'{"messages": "\\ud800"}', b"{}{}", b"\0", b'{"a":1e999}', b"nan"):
            status, _, answer = self.server.request("POST", CHAT, body)
            self.assertEqual((status, answer["error"]["type"]), (400, "invalid_request_error"), body)
        for body in (b"[" * 200000, b'{"a":' * 200000, b'{"messages":' + b"[" * 200000 + b"]" * 200000 + b"}"):
            status, _, answer = self.server.request("POST", CHAT, body)
            self.assertEqual((status, answer["error"]["code"]), (400, "invalid_json"))
            self.assertIn("64 levels", answer["error"]["message"])

    # ---- HTTP ----

    def status(self, data):
        answer = self.server.raw(data)
        self.assertRegex(answer, rb"^HTTP/1.1 \d\d\d ", data[:200])
        head, _, body = answer.partition(b"\r\n\r\n")
        if body:
            self.assertEqual(set(json.loads(body)), {"error"})
        self.assertIn(b"Connection: close", head)
        return int(answer[9:12])

    def test_limits_of_http(self):
        good = {"messages": user("hello"), "max_tokens": 2}
        start = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
        chunked = start + b"Transfer-Encoding: chunked\r\n\r\n"
        body = json.dumps(good).encode()
        self.assertIn(b"200 OK", self.server.raw(chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) + b"\0"))
        self.assertEqual(self.status(start + b"Content-Length: 4194305\r\n\r\n" + b"x" * 100000), 413)
        self.assertEqual(self.status(start + b"Content-Length: 99999999999999999999\r\n\r\n"), 413)
        self.assertEqual(self.status(chunked + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 80), 413)
        self.assertEqual(self.status(chunked + b"zz\r\n"), 400)
        self.assertEqual(self.status(chunked + b"ffffffffffffffff\r\nxx"), 413)
        self.assertEqual(self.status(start + b"Content-Length: -5\r\n\r\n"), 400)
        self.assertEqual(self.status(start + b"\r\n"), 400)
        self.assertEqual(self.status(start + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), 400)
        self.assertEqual(self.status(start + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello"), 400)
        self.assertEqual(self.status(start + b"Transfer-Encoding: gzip\r\n\r\n"), 400)
        self.assertEqual(self.status(post_bytes(CHAT, good, "Content-Encoding: gzip")), 415)
        self.assertEqual(self.status(post_bytes(CHAT, good).replace(b"application/json", b"text/plain")), 415)
        self.assertEqual(self.status(b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 10000 + b"\r\n"), 431)
        self.assertEqual(self.status(b"GET /health HTTP/1.1\r\nX: " + b"y" * 40000 + b"\r\n\r\n"), 431)
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403)
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\n\r\n"), 400)
        self.assertEqual(self.status(b"GET / HTTP/1.0\r\n\r\n"), 403)
        self.assertEqual(self.status(b"DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405)
        self.assertEqual(self.status(b"GET /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405)
        self.assertEqual(self.server.request("GET", CHAT)[1]["Allow"], "POST")
        self.assertEqual(self.server.request("PUT", "/metrics")[1]["Allow"], "GET, HEAD")
        self.assertEqual(self.status(b"GET /" + b"a/" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"), 414)
        self.assertEqual(self.status(b"nonsense\r\n\r\n"), 400)
        self.assertEqual(self.status(b"\0" * 100000), 400)
        self.assertEqual(self.server.request("GET", "/health")[0], 200)

    def test_the_api_description(self):
        """Its paths and fields are the server's. Schemathesis asks more of it, by hand."""
        api = json.loads((ROOT / "apps/serve/openapi.json").read_text())
        for path, methods in api["paths"].items():
            if path.startswith("/slots"):  # test_serve_slots.py
                continue
            for method, about in methods.items():
                if method == "get":
                    self.assertEqual(self.server.request("GET", path.replace("{name}", "pocket"))[0], 200, path)
                    continue
                name = about["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                for field in [*api["components"]["schemas"][name]["properties"], "surprise"]:
                    if field in ("metadata", "chat_template_kwargs", "cache_control"):  # any object
                        continue
                    body = {"messages": user("x"), "prompt": "x", "content": "x", "tokens": [5], "input": "x", "max_tokens": 5, "query": "x", "documents": ["y"]}
                    required = {key: body[key] for key in api["components"]["schemas"][name]["required"]}
                    status, _, answer = self.server.request("POST", path, {**required, field: {"odd": "x"}})
                    self.assertEqual(status, 400, (path, field, answer))
                    if path != "/v1/embeddings":  # test_serve_embeddings.py
                        self.assertEqual(answer["error"]["message"] == f"{field} is not supported.", field == "surprise", (path, field, answer))

    def test_many_requests_on_one_connection(self):
        with self.server.socket() as client:
            one = post_bytes("/tokenize", {"content": "hello"})
            client.sendall(one * 20)
            data = b""
            while data.count(b'{"tokens":') < 20:
                part = client.recv(65536)
                self.assertTrue(part)
                data += part
        self.assertEqual(data.count(b"HTTP/1.1 200 OK"), 20)

    def test_the_page(self):
        status, headers, page = self.server.request("GET", "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        policy = headers["Content-Security-Policy"]
        nonce = re.search("script-src 'nonce-([0-9a-f]{32})'", policy).group(1)
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertNotEqual(nonce, re.search("nonce-([0-9a-f]{32})", self.server.request("GET", "/")[1]["Content-Security-Policy"]).group(1))
        self.assertEqual(page.count(f'nonce="{nonce}"'), len(re.findall(r"^<(?:script|style)\b", page, re.M)))
        self.assertNotIn("{{nonce}}", page)
        # Text becomes HTML through the sanitiser only; the markup has no handlers or styles. The policy lets nothing be fetched from elsewhere.
        markup, own = page[:page.index("<script")], page[page.rindex("<script nonce"):]
        self.assertEqual(own.count("innerHTML"), own.count(".innerHTML = DOMPurify.sanitize("))
        for word in ("outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            self.assertNotIn(word, own)
        self.assertIn("connect-src 'self'", policy)
        self.assertIsNone(re.search(r"<[^>]* (on[a-z]+|style)=|https?://", markup))

    # ---- many at once ----

    def test_answers_together_are_those_alone(self):
        questions = [("hello", {"temperature": 0}), ("tell me a story about a dog", {"seed": 1}), ("what is 2 + 3?", {"seed": 2, "temperature": 1}),
                     ("who are you", {"temperature": 0, "head": "certified"}), ("what is the capital of France?", {"seed": 4, "regex": "[a-z ]{30}"}),
                     ("set a timer for 5 minutes", {"temperature": 0}), ("tell me a story about a tree", {"seed": 6, "top_k": 5}),
                     ("what time is it", {"seed": 7}), ("hello " * 150, {"temperature": 0}), ("turn on the lamp", {"seed": 9, "min_p": 0.2})]
        got = {}
        def ask(number, text, options):
            if number % 2:
                got[number] = self.server.chat(text, max_tokens=40, **options)["choices"][0]["message"]["content"]
            else:
                got[number] = text_of(Stream(self.server, CHAT, messages=user(text), max_tokens=40, **options).events())
        threads = [threading.Thread(target=ask, args=(i, *question)) for i, question in enumerate(questions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, (text, options) in enumerate(questions):
            ids = self.server.post("/apply-template", messages=user(text))["tokens"]
            words = [item for key, value in options.items() for item in ("--" + key.replace("_", "-"), value)]
            self.assertEqual(got[i], self.alone(ids, "-n", 40, *words)["text"], text)
