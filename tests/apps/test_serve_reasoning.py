"""Reasoning of `weft serve`, forced calls in the template's notation, and Anthropic's protocol. Random weights: a grammar forces what the
model says, and a budget ends its reasoning."""
import json

from serving import CHAT, Server, ServeTest, Stream, user
from support import model
from test_serve_agents import F, HERMES, call, literal, prompt, serve

# The prompt ends within the reasoning, as DeepSeek's and Qwen's do.
OPEN = """{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content is defined %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% else %}<think>
{% endif %}{% endif %}"""
# The model begins it by itself, as Qwen 3's does.
BY_ITSELF = OPEN.replace("{% else %}<think>\n{% endif %}", "{% endif %}")
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}}}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 6}}
TYPED = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}, "b": {"type": "boolean"}},
                                                                       "required": ["n", "b"], "additionalProperties": False}}}
OTHER = {"type": "function", "function": {"name": "g"}}
MESSAGES = "/v1/messages"


class ServeReasoning(ServeTest):
    @classmethod
    def options(cls):
        return "--sessions", 2, "-m", model("open.gguf", "--type", "f16", "--context", 2048, "--chat-template", OPEN)

    def both(self, server=None, **body):
        """The choice and the usage of a whole answer; a stream must say the same."""
        server = server or self.server
        ask = {"messages": user("hello"), "temperature": 0, "max_tokens": 200, **body}
        answer = server.post(CHAT, **ask)
        message = answer["choices"][0]["message"]
        told = {"content": "", "reasoning_content": ""}
        for event in list(Stream(server, CHAT, **ask).events())[:-1]:
            for name in told:
                told[name] += event["choices"][0]["delta"].get(name) or ""
        self.assertEqual(told, {"content": message["content"] or "", "reasoning_content": message.get("reasoning_content", "")})
        return answer["choices"][0], answer["usage"]

    def test_it_is_separated(self):
        for text, reasoning, content in (("Oh.\n</think>\n\nYes.", "Oh.", "Yes."), ("a < b </thin </think>{\"n\": 1}", "a < b </thin", "{\"n\": 1}"), ("</think>Yes.", None, "Yes."),
                                         ("no end", "no end", "")):
            choice, usage = self.both(grammar=literal(text))
            self.assertEqual((choice["message"].get("reasoning_content"), choice["message"]["content"]), (reasoning, content))
            self.assertGreater(usage["completion_tokens_details"]["reasoning_tokens"], 0)
            self.assertLessEqual(usage["completion_tokens_details"]["reasoning_tokens"], usage["completion_tokens"])
        choice, _ = self.both(grammar=literal("</think>Yes."), chat_template_kwargs={"enable_thinking": False})
        self.assertEqual((choice["message"].get("reasoning_content"), choice["message"]["content"]), (None, "</think>Yes."))

    def test_it_is_switched(self):
        closed = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>"
        for more in ({"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}):
            self.assertEqual(prompt(self.server, messages=user("hello"), **more), closed)
        for more in ({}, {"chat_template_kwargs": {"enable_thinking": True}}, {"reasoning_effort": "high"}):
            self.assertTrue(prompt(self.server, messages=user("hello"), **more).endswith("assistant\n<think>"))
        turns = [*user("hello"), {"role": "assistant", "content": "Yes.", "reasoning_content": "Oh."}, *user("and?")]
        self.assertIn("<think>Oh.</think>Yes.", prompt(self.server, messages=turns))

    def test_a_schema_is_the_answers(self):
        for server in (self.server, serve("by-itself.gguf", BY_ITSELF)):
            choice, usage = self.both(server, response_format=SCHEMA, **BUDGET)
            self.assertIn(json.loads(choice["message"]["content"]), ({"n": 1}, {"n": 2}))
            self.assertTrue(choice["message"]["reasoning_content"])
            self.assertEqual((usage["completion_tokens_details"]["reasoning_tokens"], choice["finish_reason"]), (6, "stop"))
            choice, _ = self.both(server, response_format=SCHEMA, chat_template_kwargs={"enable_thinking": False})
            self.assertIn(json.loads(choice["message"]["content"]), ({"n": 1}, {"n": 2}))
            self.assertNotIn("reasoning_content", choice["message"])
            choice, _ = self.both(server, response_format=SCHEMA, max_tokens=6, **BUDGET)  # no token is left for the answer
            self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("length", ""))
            # A call, too.
            choice = server.post(CHAT, messages=user("x"), tools=[TYPED, OTHER], tool_choice={"type": "function", "function": {"name": "f"}}, temperature=0, **BUDGET)["choices"][0]
            self.assertIn(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["n"], range(1, 10))
            self.assertTrue(choice["message"]["reasoning_content"])
            refused = server.request("POST", CHAT, {"messages": user("x"), "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}})
            self.assertEqual((refused[0], refused[2]["error"]["param"]), (400, "response_format.json_schema.schema"))
            if server is not self.server:
                server.end()

    def test_many_reason_at_once(self):
        """Those that pause between reasoning and answer do not stop the others."""
        choices = self.server.post(CHAT, messages=user("x"), n=2, response_format=SCHEMA, temperature=1, seed=3, **BUDGET)["choices"]
        self.assertTrue(all(json.loads(choice["message"]["content"])["n"] in (1, 2) for choice in choices))
        stream = Stream(self.server, CHAT, messages=user("x"), response_format=SCHEMA, temperature=1, **BUDGET)
        next(stream.events())
        stream.close()  # a client that leaves while it reasons
        self.test_it_is_separated()

    def test_calls_are_forced_in_the_templates_notation(self):
        for i, marks in enumerate(("<tool_call>", "<tool_call><function=<parameter=", "[TOOL_CALLS]", "[TOOL_CALLS][ARGS]", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>```json", "<|tool_call>",
                                   "<|tool_call_start|>", "<|START_ACTION|>", "<|tool_call|>", ">>>", "<|python_tag|>", "<|channel|><|message|>")):
            template = "{# " + marks + " #}{{ tools | tojson }}{% for m in messages %}{{ m.role }}{{ m.content }}{{ m.tool_calls }}{% endfor %}"
            template += ">>>" if marks == ">>>" else "<|start|>assistant" if "channel" in marks else ""
            with serve(f"forced-{i}.gguf", template) as server:
                for tools in ([TYPED], [TYPED, OTHER]):
                    ask = {"messages": user("a"), "tools": tools, "tool_choice": "required", "temperature": 1.5, "seed": i, "max_tokens": 150}
                    choice = server.post(CHAT, **ask)["choices"][0]
                    self.assertEqual((choice["finish_reason"], choice["message"]["content"], len(choice["message"].get("tool_calls", []))), ("tool_calls", None, 1), (marks, choice))
                    made = choice["message"]["tool_calls"][0]["function"]
                    arguments = json.loads(made["arguments"])
                    if made["name"] == "f":
                        self.assertEqual((set(arguments), arguments["n"] in range(1, 10), type(arguments["b"])), ({"n", "b"}, True, bool), (marks, made))
                    else:
                        self.assertEqual((made["name"], arguments), ("g", {}), marks)
                    parts = [part for event in list(Stream(server, CHAT, **ask).events())[:-1] for part in event["choices"][0]["delta"].get("tool_calls", [])]
                    self.assertEqual(("".join(part["function"]["arguments"] for part in parts), parts[0]["function"]["name"]), (made["arguments"], made["name"]), marks)


class ServeMessages(ServeTest):
    TOOLS = [{"name": "f", "description": "F.", "input_schema": {"type": "object", "properties": {"x": {}}}}]

    @classmethod
    def options(cls):
        return "--sessions", 2, "-m", model("hermes.gguf", "--type", "f16", "--context", 4096, "--chat-template", HERMES)

    def both(self, server=None, **body):
        """The content of a whole message; a stream must say the same."""
        server, ask = server or self.server, {"model": "m", "messages": user("a"), "max_tokens": 200, "temperature": 0, **body}
        whole = server.post(MESSAGES, **ask)
        blocks, events = [], list(Stream(server, MESSAGES, **ask).events())
        self.assertEqual((events[0]["type"], events[-2]["type"], events[-1]["type"]), ("message_start", "message_delta", "message_stop"))
        for event in events:
            if event["type"] == "content_block_start":
                self.assertEqual(event["index"], len(blocks))
                blocks.append(dict(event["content_block"], json=""))
            elif event["type"] == "content_block_delta":
                for name in ("text", "thinking"):
                    if name in event["delta"]:
                        blocks[event["index"]][name] += event["delta"][name]
                blocks[event["index"]]["json"] += event["delta"].get("partial_json", "")
        for block in blocks:
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(text)
        same = lambda list: [{name: value for name, value in block.items() if name != "id"} for block in list]
        self.assertEqual(same(blocks), same(whole["content"]))
        self.assertEqual(events[-2]["delta"]["stop_reason"], whole["stop_reason"])
        self.assertEqual((whole["type"], whole["role"]), ("message", "assistant"))
        return whole

    def test_texts(self):
        chat = self.server.post(CHAT, messages=[{"role": "system", "content": "Be brief."}, *user("a")], max_tokens=8, temperature=0)
        whole = self.both(system="Be brief.", max_tokens=8)
        self.assertEqual((whole["content"], whole["stop_reason"]), ([{"type": "text", "text": chat["choices"][0]["message"]["content"]}], "max_tokens"))
        self.assertEqual((whole["usage"]["input_tokens"] + whole["usage"]["cache_read_input_tokens"], whole["usage"]["output_tokens"]), (chat["usage"]["prompt_tokens"], 8))
        self.assertEqual(self.server.post(MESSAGES + "/count_tokens", model="m", system=[{"type": "text", "text": "Be brief."}], messages=user("a")),
                         {"input_tokens": chat["usage"]["prompt_tokens"]})
        self.assertEqual(self.both(grammar=literal("abc"))["stop_reason"], "end_turn")
        self.assertEqual(self.both(grammar=literal("a stop b"), stop_sequences=["stop"])["content"][0]["text"], "a ")

    def test_calls(self):
        text = 'I look.\n<tool_call>{"name": "f", "arguments": {"x": "a</tool_call>b"}}</tool_call>\n<tool_call>{"name": "f"}</tool_call>'
        whole = self.both(tools=self.TOOLS, grammar=literal(text))
        first, *calls = whole["content"]
        self.assertEqual((first["text"], [one["input"] for one in calls], whole["stop_reason"]), ("I look.", [{"x": "a</tool_call>b"}, {}], "tool_use"))
        result = [{"type": "tool_result", "tool_use_id": one["id"], "content": [{"type": "text", "text": "1"}]} for one in calls]
        turns = [*user("a"), {"role": "assistant", "content": whole["content"]}, {"role": "user", "content": [*result, {"type": "text", "text": "and?"}]}]
        chat = [*user("a"), {"role": "assistant", "content": "I look.", "tool_calls": [call(arguments='{"x": "a</tool_call>b"}'), call()]},
                {"role": "tool", "tool_call_id": "abcdefghi", "content": "1"}, {"role": "tool", "tool_call_id": "abcdefghi", "content": "1"}, *user("and?")]
        tool = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": self.TOOLS[0]["input_schema"]}}
        self.assertEqual(self.server.post(MESSAGES + "/count_tokens", model="m", messages=turns, tools=self.TOOLS)["input_tokens"],
                         len(self.server.post("/apply-template", messages=chat, tools=[tool])["tokens"]))
        self.both(messages=turns, tools=self.TOOLS, max_tokens=2)
        for choice in ({"type": "any"}, {"type": "tool", "name": "f"}):
            forced = self.both(tools=[{**self.TOOLS[0], "input_schema": TYPED["function"]["parameters"]}], tool_choice=choice)
            self.assertEqual((len(forced["content"]), set(forced["content"][0]["input"]), forced["stop_reason"]), (1, {"n", "b"}, "tool_use"))

    def test_reasoning(self):
        with serve("open-messages.gguf", OPEN) as server:
            whole = self.both(server, grammar=literal("Oh.</think>Yes."))
            self.assertEqual([(block["type"], block.get("thinking", block.get("text"))) for block in whole["content"]], [("thinking", "Oh."), ("text", "Yes.")])
            self.both(server, messages=[*user("a"), {"role": "assistant", "content": whole["content"]}, *user("b")], max_tokens=2)
            self.assertNotIn("thinking", [block["type"] for block in self.both(server, thinking={"type": "disabled"}, max_tokens=3)["content"]])

    def test_what_is_refused(self):
        for param, body in (("max_tokens", {"messages": user("a")}), ("messages", {"max_tokens": 5}), ("messages[0].role", {"messages": [{"role": "tool", "content": "x"}], "max_tokens": 5}),
                            ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}], "max_tokens": 5}),
                            ("mcp_servers", {"messages": user("a"), "max_tokens": 5, "mcp_servers": []}), ("tool_choice.type", {"messages": user("a"), "max_tokens": 5, "tool_choice": {"type": "all"}}),
                            ("tools[0].type", {"messages": user("a"), "max_tokens": 5, "tools": [{"type": "web_search_20250305", "name": "w"}]})):
            status, _, answer = self.server.request("POST", MESSAGES, body)
            self.assertEqual((status, answer["type"], answer["error"]["type"], answer["error"]["param"]), (400, "error", "invalid_request_error", param), answer)

    def test_what_its_client_sends(self):
        from test_serve_agents import BODIES
        for one in json.loads((BODIES / "anthropic.json").read_text()):
            self.server.post(one["path"], **{**one["body"], "max_tokens": 2})

    def test_keys(self):
        with Server("--api-key", "secret") as server:
            ask = {"model": "m", "messages": user("hello"), "max_tokens": 3}
            for headers, status in (({"X-Api-Key": "secret"}, 200), ({"x-api-key": "wrong"}, 401), ({}, 401)):
                self.assertEqual(server.request("POST", MESSAGES, ask, headers)[0], status)
