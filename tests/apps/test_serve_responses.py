"""`weft serve`: the Responses API, byte for byte. serve_clients.py asks it with PyPI's `openai`."""
import json

from serving import ServeTest, Stream, user
from support import model

PATH = "/v1/responses"
TEMPLATE = ("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}"
            "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}\n{% endfor %}assistant:")
WEATHER = {"type": "function", "name": "weather", "description": "Tells it", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}}


class ServeResponses(ServeTest):
    """With a template that knows tools."""

    def events(self, **body):
        stream = Stream(self.server, PATH, **body)
        events = list(stream.events())
        # Each event has its name before its data, and they are counted.
        names = [line[7:].strip() for line in stream.lines if line.startswith("event: ")]
        self.assertEqual(names, [event["type"] for event in events])
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        return events

    def same(self, one, other):
        """Two responses to one request: all but the names and times."""
        def plain(response):
            response = json.loads(json.dumps(response))
            for name in ("id", "created_at"):
                del response[name]
            response["usage"].pop("weft")
            response["usage"].pop("input_tokens_details")  # the second finds what the first has computed
            for item in response["output"]:
                item.pop("id")
                item.pop("call_id", None)
                for content in item.get("content", []):  # up to rounding: what is cached is not computed again
                    content["logprobs"] = [entry["token"] for entry in content["logprobs"]]
            return response
        self.assertEqual(plain(one), plain(other))

    def built(self, events):
        """The items that a client builds from a stream's parts."""
        items, texts, finished = [], {}, []
        for event in events:
            kind = event["type"].removeprefix("response.")
            if kind == "output_item.added":
                self.assertEqual((event["output_index"], event["item"]["status"]), (len(items), "in_progress"))
                items.append(event["item"])
                texts[event["item"]["id"]] = ""
            elif kind in ("output_text.delta", "function_call_arguments.delta"):
                self.assertEqual(event["item_id"], items[event["output_index"]]["id"])
                texts[event["item_id"]] += event["delta"]
            elif kind == "output_text.done":
                self.assertEqual(event["text"], texts[event["item_id"]])
            elif kind == "function_call_arguments.done":
                self.assertEqual(event["arguments"], texts[event["item_id"]])
            elif kind == "output_item.done":
                item = event["item"]
                self.assertEqual(item["id"], items[event["output_index"]]["id"])
                self.assertEqual(item["content"][0]["text"] if item["type"] == "message" else item["arguments"], texts[item["id"]])
                finished.append(item)
        return finished

    @classmethod
    def options(cls):
        return "-m", model("responses.gguf", "--type", "f16", "--context", 1024, "--chat-template", TEMPLATE), "--sessions", 2

    def ids(self, messages):
        return self.server.post("/apply-template", messages=messages)["tokens"]

    def respond(self, **body):
        return self.server.post(PATH, **body)

    def test_a_response_is_a_chat(self):
        ask = {"max_output_tokens": 12, "temperature": 0.8, "seed": 5}
        response = self.respond(input="hello", instructions="Be brief.", **ask)
        messages = [{"role": "system", "content": "Be brief."}, *user("hello")]
        chat = self.server.post("/v1/chat/completions", messages=messages, max_tokens=12, temperature=0.8, seed=5)
        self.assertEqual(response["output"], [{"type": "message", "id": response["output"][0]["id"], "status": "incomplete", "role": "assistant", "content": [
            {"type": "output_text", "text": chat["choices"][0]["message"]["content"], "annotations": [], "logprobs": []}]}])
        self.assertEqual(response["output"][0]["content"][0]["text"], self.alone(self.ids(messages), "-m", self.options()[1], "-n", 12, "--temperature", 0.8, "--seed", 5)["text"])
        want = {"object": "response", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "error": None, "instructions": "Be brief.",
                "max_output_tokens": 12, "model": "responses", "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "store": False,
                "previous_response_id": None, "text": {"format": {"type": "text"}}}
        self.assertEqual({name: response[name] for name in want}, want)
        usage, tokens = response["usage"], len(self.ids(messages))
        self.assertEqual((usage["input_tokens"], usage["output_tokens"], usage["total_tokens"], usage["output_tokens_details"]), (tokens, 12, tokens + 12, {"reasoning_tokens": 0}))
        self.assertRegex(response["id"], "^resp_[0-9a-f]{24}$")

    def test_a_stream(self):
        ask = {"input": "hello", "max_output_tokens": 12, "seed": 5, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
        events = self.events(**ask)
        kinds = [event["type"].removeprefix("response.") for event in events]
        self.assertEqual([kind for at, kind in enumerate(kinds) if kind != "output_text.delta" or kinds[at - 1] != kind],
                         ["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done",
                          "output_item.done", "incomplete"])
        self.assertEqual((events[0]["response"]["status"], events[0]["response"]["output"], events[0]["response"]["usage"]), ("in_progress", [], None))
        whole, last = self.respond(**ask), events[-1]["response"]
        self.same(last, whole)
        self.assertEqual(self.built(events), last["output"])
        logprobs = whole["output"][0]["content"][0]["logprobs"]
        self.assertEqual([entry for event in events if event["type"].endswith("text.delta") for entry in event["logprobs"]], last["output"][0]["content"][0]["logprobs"])
        self.assertTrue(all(len(entry["top_logprobs"]) == 2 for entry in logprobs) and len(logprobs) > 5)

    def test_the_input_is_a_conversation(self):
        call = {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "weather", "arguments": '{"city": "Rome"}'}
        items = [{"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}, {"type": "message", "role": "user", "content": "weather?"},
                 {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "Wait.", "annotations": [], "logprobs": []}]},
                 call, {**call, "call_id": "c2"}, {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
                 {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "rain"}]}]
        chat_call = lambda name: {"id": name, "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
        messages = [{"role": "system", "content": "Be brief."}, *user("weather?"), {"role": "assistant", "content": "Wait.", "tool_calls": [chat_call("c1"), chat_call("c2")]},
                    {"role": "tool", "tool_call_id": "c1", "content": "sunny"}, {"role": "tool", "tool_call_id": "c2", "content": "rain"}]
        got = self.respond(input=items, max_output_tokens=10, temperature=0)
        want = self.server.post("/v1/chat/completions", messages=messages, max_tokens=10, temperature=0)
        self.assertEqual(got["output"][0]["content"][0]["text"], want["choices"][0]["message"]["content"])
        self.assertEqual(got["usage"]["input_tokens"], want["usage"]["prompt_tokens"])
        # An answer is an input of the next request as it is.
        self.respond(input=[*items, *got["output"], {"role": "user", "content": "and now?"}], max_output_tokens=2)

    def test_schemas(self):
        schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 150}}, "required": ["age"], "additionalProperties": False}
        response = self.respond(input="x", text={"format": {"type": "json_schema", "name": "person", "strict": True, "schema": schema}})
        self.assertEqual(set(json.loads(response["output"][0]["content"][0]["text"])), {"age"})
        self.assertEqual((response["status"], response["incomplete_details"], response["text"]["format"]["name"]), ("completed", None, "person"))
        self.assertEqual(self.events(input="x", regex="abc")[-1]["type"], "response.completed")

    def test_calls(self):
        ask = {"input": "go", "tools": [WEATHER], "tool_choice": {"type": "function", "name": "weather"}, "seed": 1}
        whole, events = self.respond(**ask), self.events(**ask)
        call, = whole["output"]
        self.assertEqual((call["type"], call["name"], call["status"], whole["status"]), ("function_call", "weather", "completed", "completed"))
        self.assertIn(json.loads(call["arguments"])["city"], ("Rome", "Oslo"))
        self.assertEqual((whole["tools"], whole["tool_choice"]), ([WEATHER], ask["tool_choice"]))
        self.same(events[-1]["response"], whole)
        self.assertEqual(self.built(events), events[-1]["response"]["output"])
        kinds = [event["type"].removeprefix("response.") for event in events]
        self.assertEqual([kind for at, kind in enumerate(kinds) if kind != "function_call_arguments.delta" or kinds[at - 1] != kind],
                         ["created", "in_progress", "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed"])
        # A text and a call.
        text = r'Yes <tool_call>\{"name": "weather", "arguments": \{"city": "Oslo"\}\}</tool_call>'
        ask = {"input": "go", "tools": [WEATHER], "regex": text, "temperature": 0}
        events = self.events(**ask)
        message, call = self.built(events)
        self.assertEqual((message["content"][0]["text"], message["status"], call["arguments"]), ("Yes", "completed", '{"city": "Oslo"}'))
        self.same(events[-1]["response"], self.respond(**ask))

    def test_what_is_refused(self):
        hello = {"input": "x", "max_output_tokens": 2}
        self.respond(**hello, store=False, truncation="disabled", background=False, include=[], tools=[], tool_choice="auto", previous_response_id=None)
        wrong = [("missing_required_parameter", "input", {}), ("invalid_type", "input", {"input": []}), ("invalid_type", "input", {"input": 5}),
                 ("unsupported_parameter", "input[0].type", {"input": [{"type": "item_reference", "id": "x"}]}),
                 ("unsupported_parameter", "input[0].content[0].type", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}),
                 ("invalid_value", "input[0].arguments", {"input": [{"type": "function_call", "call_id": "x", "name": "f", "arguments": "{"}]}),
                 ("missing_required_parameter", "input[0].call_id", {"input": [{"type": "function_call_output", "output": "x"}]}),
                 ("invalid_value", "text.format.schema", {**hello, "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}}),
                 ("invalid_value", "text.format.type", {**hello, "text": {"format": {"type": "xml"}}}),
                 ("unsupported_parameter", "text.verbosity", {**hello, "text": {"verbosity": "low"}}),
                 ("unsupported_parameter", "include", {**hello, "include": ["file_search_call.results"]}),
                 ("invalid_value", "reasoning.effort", {**hello, "reasoning": {"effort": "most"}}),
                 ("invalid_value", "top_logprobs", {**hello, "top_logprobs": 2}),
                 ("invalid_value", "tools[0].type", {**hello, "tools": [{"type": "web_search"}]}),
                 ("invalid_value", "tools[0].name", {**hello, "tools": [{**WEATHER, "name": "a b"}]}),
                 ("unsupported_parameter", "tools[0].function", {**hello, "tools": [{**WEATHER, "function": {}}]}),
                 ("invalid_value", "tool_choice.name", {**hello, "tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}),
                 ("invalid_value", "tool_choice", {**hello, "tool_choice": "required"})]
        wrong += [("unsupported_parameter", name, {**hello, name: value}) for name, value in {
            "background": True, "truncation": "auto", "previous_response_id": "resp_1", "conversation": "c",
            "max_tool_calls": 1, "prompt": {"id": "x"}, "n": 2, "max_tokens": 5, "messages": [], "response_format": {}}.items()]
        for code, param, body in wrong:
            with self.subTest(code=code, param=param, body=body):
                self.refused(400, code, param, path=PATH, **body)
        self.refused(400, "context_length_exceeded", "input", path=PATH, input="cat " * 2000)
