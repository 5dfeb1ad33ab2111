"""Reasoning of `weft serve`, forced calls in the template's notation, and Anthropic's protocol. Random weights: a grammar forces what the
model says, and a budget ends its reasoning."""
import json

from serving import CHAT, Server, ServeTest, Stream, post_bytes, user
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
# No switch and no beginning in the prompt: a grammar is of all that the model writes.
TAUGHT = OPEN[:OPEN.index("{% if enable_thinking")] + "{% endif %}"
# OpenAI's gpt-oss.
HARMONY = """{%- for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}{# <|channel|> #}"""
# Variables of the templates of Granite, Seed-OSS, Command-R, Llama 3.1, gpt-oss and SmolLM3.
VARIABLES = """{{ messages[0].content }}|
{%- if thinking is defined and thinking %}granite|{% endif %}
{%- if thinking_budget is defined %}{% if thinking_budget == 0 %}no budget{% else %}budget {{ thinking_budget }}{% endif %}|{% endif %}
{%- for d in documents or [] %}{{ d.title }}: {{ d['text'] }}|{% endfor %}
{%- if builtin_tools is defined %}{{ builtin_tools | reject('equalto', 'code_interpreter') | join(', ') }}|{% endif %}
{%- if model_identity is defined %}{{ model_identity }}|{% endif %}
{%- if keep is defined %}{{ keep }}|{% endif %}
{%- if reasoning_effort is not defined %}{% set reasoning_effort = "medium" %}{% endif %}effort {{ reasoning_effort }}|
{%- if not date_string is defined %}{% set date_string = "26 Jul 2024" %}{% endif %}d {{ date_string }}|
{%- if not enable_thinking | default(false) %}/no_think|{% endif %}"""
END = 2  # the token that ends an answer
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
        with serve("taught.gguf", TAUGHT) as server:
            for text, reasoning, content in (("<think>Oh.\n</think>\n\nYes.", "Oh.", "Yes."), ("<think>a < b </thin </think>{\"n\": 1}", "a < b </thin", "{\"n\": 1}"), ("<think></think>Yes.", None, "Yes."),
                                             ("<think>no end", "no end", "")):
                choice, usage = self.both(server, grammar=literal(text))
                self.assertEqual((choice["message"].get("reasoning_content"), choice["message"]["content"]), (reasoning, content))
                self.assertGreater(usage["completion_tokens_details"]["reasoning_tokens"], 0)
                self.assertLessEqual(usage["completion_tokens_details"]["reasoning_tokens"], usage["completion_tokens"])
            choice, _ = self.both(server, grammar=literal("</think>Yes."))
            self.assertEqual((choice["message"].get("reasoning_content"), choice["message"]["content"]), (None, "</think>Yes."))

    def test_a_grammar_is_the_answers(self):
        for name, template in (("open.gguf", OPEN), ("by-itself.gguf", BY_ITSELF), ("harmony.gguf", HARMONY)):
            with serve(name, template) as server:
                for said, content in (({"grammar": literal("Yes. <think>")}, "Yes. <think>"), ({"regex": "[7-9]{3}x"}, "[7-9]{3}x"), ({"grammar": 'root ::= %json {"enum": [17]}'}, "17")):
                    choice, usage = self.both(server, **said, **BUDGET)
                    self.assertRegex(choice["message"]["content"], f"^({content})$")
                    self.assertTrue(choice["message"]["reasoning_content"])
                    self.assertEqual((usage["completion_tokens_details"]["reasoning_tokens"], choice["finish_reason"]), (6, "stop"))
                    choice, _ = self.both(server, **said, logit_bias={str(END): 100})
                    self.assertRegex(choice["message"]["content"], f"^({content})$")
                    choice, _ = self.both(server, **said, chat_template_kwargs={"enable_thinking": False})
                    self.assertRegex(choice["message"]["content"], f"^({content})$")
                    self.assertNotIn("reasoning_content", choice["message"])
                refused = server.request("POST", CHAT, {"messages": user("x"), "grammar": "root ::= x"})
                self.assertEqual((refused[0], refused[2]["error"]["param"]), (400, "grammar"))

    def test_log_probabilities_are_the_contents(self):
        """Reasoning and the mark that ends it have none."""
        for server in (self.server, serve("by-itself-logprobs.gguf", BY_ITSELF)):
            for more in (BUDGET, {"logit_bias": {str(END): 100}}):
                ask = {"messages": user("x"), "temperature": 0, "response_format": SCHEMA, "logprobs": True, **more}
                choice = server.post(CHAT, **ask)["choices"][0]
                if more is BUDGET:
                    self.assertTrue(choice["message"]["reasoning_content"])
                joined = lambda content: b"".join(bytes(token["bytes"]) for token in content).decode()
                self.assertEqual(joined(choice["logprobs"]["content"]), choice["message"]["content"])
                content, tokens = "", []
                for event in list(Stream(server, CHAT, **ask).events())[:-1]:
                    content += event["choices"][0]["delta"].get("content") or ""
                    tokens += (event["choices"][0].get("logprobs") or {}).get("content") or []
                self.assertEqual((content, joined(tokens)), (choice["message"]["content"], choice["message"]["content"]))
            if server is not self.server:
                server.end()

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

    def test_an_answer_that_ends_within_the_reasoning(self):
        """The model's end token comes before </think>: the schema gets its answer all the same."""
        ends = {"logit_bias": {str(END): 100}}
        for more in ({}, {"response_format": {"type": "text"}}):
            choice, _ = self.both(**ends, **more)
            self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("stop", ""))
        for server in (self.server, serve("by-itself.gguf", BY_ITSELF), serve("harmony.gguf", HARMONY)):
            for said in (SCHEMA, {"type": "json_schema", "json_schema": {"schema": {"enum": [17]}}}):
                choice, usage = self.both(server, response_format=said, **ends)
                self.assertIn(json.loads(choice["message"]["content"]), ({"n": 1}, {"n": 2}, 17))
                self.assertEqual((choice["finish_reason"], usage["completion_tokens_details"]["reasoning_tokens"]), ("stop", 1))
            if server is not self.server:
                server.end()
        choice = self.server.post(CHAT, messages=user("x"), tools=[TYPED], tool_choice="required", temperature=0, **ends)["choices"][0]
        self.assertIn(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["n"], range(1, 10))
        choice = self.server.post(CHAT, messages=user("x"), n=2, response_format=SCHEMA, **ends)["choices"][1]
        self.assertIn(json.loads(choice["message"]["content"]), ({"n": 1}, {"n": 2}))
        choice, _ = self.both(response_format=SCHEMA, max_tokens=1, **ends)
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("length", ""))

    def test_other_marks(self):
        """A schema, a budget and a text after each model's own marks."""
        for i, (begun, close) in enumerate((("[THINK]", "[/THINK]"), ("<|START_THINKING|>", "<|END_THINKING|>"), ("<|channel>thought\n", "<channel|>"), ("<seed:think>", "</seed:think>"),
                                            ("Here is my thought process:", "Here is my response:"), ("<think>", "</think>"))):
            with serve(f"marks-{i}.gguf", "{{ messages[0].content }}\n{# " + close + " #}{{ " + repr(begun) + " }}") as server:
                choice, _ = self.both(server, response_format=SCHEMA, **BUDGET)
                self.assertIn(json.loads(choice["message"]["content"]), ({"n": 1}, {"n": 2}), begun)
                self.assertTrue(choice["message"]["reasoning_content"])
                choice, _ = self.both(server, response_format=SCHEMA, logit_bias={str(END): 100})
                self.assertIn(json.loads(choice["message"]["content"]), ({"n": 1}, {"n": 2}), begun)
            with serve(f"marks-{i}-taught.gguf", "{{ messages[0].content }}\n{# " + close + " #}") as server:
                choice, _ = self.both(server, grammar=literal(begun + "Oh." + close + "Yes."))
                self.assertEqual((choice["message"]["reasoning_content"], choice["message"]["content"]), ("Oh.", "Yes."), begun)

    def test_channels(self):
        """A schema is the final channel's."""
        with serve("harmony.gguf", HARMONY) as server:
            final = "<|start|>assistant<|channel|>final<|message|>"
            for said in (SCHEMA, {"type": "json_schema", "json_schema": {"schema": {"enum": ["x y"]}}}, {"type": "json_schema", "json_schema": {"schema": {"type": "integer", "minimum": 7, "maximum": 7}}}):
                choice, usage = self.both(server, response_format=said, **BUDGET)
                self.assertIn(json.loads(choice["message"]["content"]), ({"n": 1}, {"n": 2}, "x y", 7))
                self.assertEqual((choice["finish_reason"], usage["completion_tokens_details"]["reasoning_tokens"]), ("stop", 6))
                self.assertTrue(choice["message"]["reasoning_content"])
                for off in ({"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}):
                    choice, usage = self.both(server, response_format=said, **off)
                    self.assertIn(json.loads(choice["message"]["content"]), ({"n": 1}, {"n": 2}, "x y", 7))
                    self.assertNotIn("reasoning_content", choice["message"])
            choice = server.post(CHAT, messages=user("x"), tools=[TYPED], tool_choice="required", temperature=0, max_tokens=100)["choices"][0]
            self.assertIn(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["n"], range(1, 10))
        with serve("harmony-taught.gguf", HARMONY.replace("<|start|>assistant{% endif", "{% endif")) as server:  # the prompt does not begin the header
            choice, usage = self.both(server, grammar=literal("<|channel|>analysis<|message|>Oh.<|end|>" + final + '{"n": 1}'))
            self.assertEqual((choice["message"]["reasoning_content"], choice["message"]["content"]), ("Oh.", '{"n": 1}'))
            self.assertGreater(usage["completion_tokens_details"]["reasoning_tokens"], 0)

    def test_variables_of_templates(self):
        """As templates of these models have them; what Transformers' Jinja makes of them."""
        with serve("variables.gguf", VARIABLES) as server:
            for variables, said in (
                    ({}, "|effort medium|d 26 Jul 2024|/no_think|"), ({"reasoning_effort": "high"}, "|effort high|d 26 Jul 2024|/no_think|"),
                    ({"date_string": "27 Nov 2026"}, "|effort medium|d 27 Nov 2026|/no_think|"), ({"thinking": True}, "|granite|effort medium|d 26 Jul 2024|/no_think|"),
                    ({"thinking": False}, "|effort medium|d 26 Jul 2024|/no_think|"), ({"thinking_budget": 512}, "|budget 512|effort medium|d 26 Jul 2024|/no_think|"),
                    ({"thinking_budget": 0}, "|no budget|effort medium|d 26 Jul 2024|/no_think|"), ({"enable_thinking": True}, "|effort medium|d 26 Jul 2024|"),
                    ({"documents": [{"title": "A", "text": "b"}]}, "|A: b|effort medium|d 26 Jul 2024|/no_think|"), ({"builtin_tools": ["brave_search", "wolfram_alpha"]}, "|brave_search, wolfram_alpha|effort medium|d 26 Jul 2024|/no_think|"),
                    ({"model_identity": "I am <s>"}, "|I am <s>|effort medium|d 26 Jul 2024|/no_think|"), ({"model_identity": None}, "|None|effort medium|d 26 Jul 2024|/no_think|"),
                    ({"keep": 12345678901234567890123, "other": 1.5}, "|12345678901234567890123|effort medium|d 26 Jul 2024|/no_think|")):
                self.assertEqual(prompt(server, messages=user("a"), chat_template_kwargs=variables), "a" + said, variables)
                self.assertEqual(server.post(CHAT, messages=user("a"), chat_template_kwargs=variables, max_tokens=1)["usage"]["prompt_tokens"],
                                 len(server.post("/apply-template", messages=user("a"), chat_template_kwargs=variables)["tokens"]))
            self.assertEqual(prompt(server, messages=user("a"), reasoning_effort="low"), "a|granite|effort low|d 26 Jul 2024|")
            for name in ("messages", "tools", "add_generation_prompt"):
                self.refused(400, "invalid_value", f"chat_template_kwargs.{name}", messages=user("a"), chat_template_kwargs={name: 1})

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
        ended = self.both(grammar=literal("a stop b"), stop_sequences=["z", "stop"])
        self.assertEqual((ended["content"][0]["text"], ended["stop_reason"], ended["stop_sequence"]), ("a ", "stop_sequence", "stop"))
        self.assertIsNone(whole["stop_sequence"])

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

    def test_arguments_keep_their_digits(self):
        for number in ("12345678901234567891234", "-9223372036854775809", "18446744073709551616", "0.12345678901234567890123", "1e23", "9007199254740993.0"):
            text = '<tool_call>{"name": "f", "arguments": {"x": [%s]}}</tool_call>' % number
            self.both(tools=self.TOOLS, grammar=literal(text))
            ask = {"model": "m", "messages": user("a"), "max_tokens": 200, "temperature": 0, "tools": self.TOOLS, "grammar": literal(text)}
            self.assertIn(b'"input":{"x":[%s]}' % number.encode(), self.server.raw(post_bytes(MESSAGES, ask, "Connection: close")))

    def test_reasoning(self):
        with serve("taught-messages.gguf", TAUGHT) as server:
            whole = self.both(server, grammar=literal("<think>Oh.</think>Yes."))
            self.assertEqual([(block["type"], block.get("thinking", block.get("text"))) for block in whole["content"]], [("thinking", "Oh."), ("text", "Yes.")])
            self.both(server, messages=[*user("a"), {"role": "assistant", "content": whole["content"]}, *user("b")], max_tokens=2)
        with serve("open-messages.gguf", OPEN) as server:
            whole = self.both(server, grammar=literal("Yes."), **BUDGET)
            self.assertEqual([block["type"] for block in whole["content"]], ["thinking", "text"])
            self.assertEqual(whole["content"][1]["text"], "Yes.")
            for off in ({"thinking": {"type": "disabled"}}, {"output_config": {"effort": "none"}}):
                self.assertNotIn("thinking", [block["type"] for block in self.both(server, max_tokens=3, **off)["content"]])
            self.assertEqual(self.both(server, max_tokens=3, output_config={"effort": "low"})["content"][0]["type"], "thinking")

    def test_what_is_refused(self):
        for param, body in (("max_tokens", {"messages": user("a")}), ("messages", {"max_tokens": 5}), ("messages[0].role", {"messages": [{"role": "tool", "content": "x"}], "max_tokens": 5}),
                            ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}], "max_tokens": 5}),
                            ("messages[1].role", {"messages": [*user("a"), {"role": "assistant", "content": "{"}], "max_tokens": 5}), ("output_config.effort", {"messages": user("a"), "max_tokens": 5, "output_config": {"effort": "most"}}),
                            ("mcp_servers", {"messages": user("a"), "max_tokens": 5, "mcp_servers": []}), ("tool_choice.type", {"messages": user("a"), "max_tokens": 5, "tool_choice": {"type": "all"}}),
                            ("tools[0].type", {"messages": user("a"), "max_tokens": 5, "tools": [{"type": "web_search_20250305", "name": "w"}]})):
            status, _, answer = self.server.request("POST", MESSAGES, body)
            self.assertEqual((status, answer["type"], answer["error"]["type"], answer["error"]["param"]), (400, "error", "invalid_request_error", param), answer)

    def test_what_its_client_sends(self):
        from test_serve_agents import BODIES
        for one in json.loads((BODIES / "anthropic.json").read_text()):
            self.server.post(one["path"], **{**one["body"], "max_tokens": 2})

    def test_errors_before_the_body(self):
        """They have Anthropic's form, too, wherever the path is known."""
        for headers, status, body in ((b"Content-Type: text/plain\r\nContent-Length: 2", b"415", b"{}"), (b"Content-Type: application/json\r\nTransfer-Encoding: chunked", b"400", b"zz\r\n")):
            answer = self.server.raw(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n" + body)
            self.assertEqual(answer.split()[1], status, answer)
            error = json.loads(answer.partition(b"\r\n\r\n")[2])
            self.assertEqual((error["type"], error["error"]["type"]), ("error", "invalid_request_error"))

    def test_keys(self):
        with Server("--api-key", "secret") as server:
            ask = {"model": "m", "messages": user("hello"), "max_tokens": 3}
            for headers, status in (({"X-Api-Key": "secret"}, 200), ({"x-api-key": "wrong"}, 401), ({}, 401)):
                answered, _, answer = server.request("POST", MESSAGES, ask, headers)
                self.assertEqual((answered, answer["type"]), (status, "message" if status == 200 else "error"))
                if status == 401:
                    self.assertEqual(answer["error"]["type"], "authentication_error")
