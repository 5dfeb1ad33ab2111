"""What agents need of `weft serve`: bodies that clients send, ids that go round, calls in any notation. The models have random weights
and the chat templates of real ones in short; a grammar forces what they say."""
import json
import pathlib

from serving import CHAT, Server, ServeTest, Stream, user
from support import model

BODIES = pathlib.Path(__file__).resolve().parent / "client_bodies"
F = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {}}}}}
HERMES = """{%- if tools %}<|im_start|>system
Tools:
{%- for t in tools %}
{{ t | tojson }}
{%- endfor %}
<|im_end|>
{% endif %}
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' }}{{ m.content }}
{%- for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
ALTERNATES = """{%- set ns = namespace(turn=0) %}
{%- for m in messages %}
{%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
{%- if (m.role == 'user') != (ns.turn % 2 == 0) %}{{ raise_exception('user and assistant must take turns') }}{% endif %}
{%- set ns.turn = ns.turn + 1 %}
{%- endif %}
{%- endfor %}
{%- if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}
{%- for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}
{%- endfor %}"""
NINE = """{%- if tools %}[TOOLS]{{ tools | tojson }}{% endif %}
{%- for m in messages %}
{%- for c in m.tool_calls or [] %}{% if c.id|length != 9 %}{{ raise_exception('a call id has 9 letters or digits') }}{% endif %}[CALL]{{ c.function.name }}{% endfor %}
{%- if m.role == 'tool' and m.tool_call_id|length != 9 %}{{ raise_exception('a call id has 9 letters or digits') }}{% endif %}
{{- '[' + m.role + ']' + m.content }}
{%- endfor %}"""


def call(name="f", arguments="{}", id="abcdefghi"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def literal(text):
    """A grammar of this text alone."""
    return "root ::= " + json.dumps(text, ensure_ascii=False)


def serve(name, template):
    return Server("--sessions", 2, "-m", model(name, "--type", "f16", "--context", 4096, "--chat-template", template))


def prompt(server, **body):
    return server.post("/detokenize", tokens=server.post("/apply-template", **body)["tokens"])["content"].strip()


class ServeAgents(ServeTest):
    @classmethod
    def options(cls):
        return "--sessions", 2, "-m", model("hermes.gguf", "--type", "f16", "--context", 4096, "--chat-template", HERMES)

    def say(self, text, **more):
        """The message and the finish reason; a stream must say the same."""
        ask = {"messages": user("a"), "tools": [F], "temperature": 0, "max_tokens": 400, "grammar": literal(text), **more}
        choice = self.server.post(CHAT, **ask)["choices"][0]
        content, reasoning, calls = "", "", []
        for event in list(Stream(self.server, CHAT, **ask).events())[:-1]:
            delta = event["choices"][0]["delta"]
            content += delta.get("content") or ""
            reasoning += delta.get("reasoning_content") or ""
            for part in delta.get("tool_calls", []):
                if "id" in part:
                    calls.append(part["function"])
                else:
                    calls[part["index"]]["arguments"] += part["function"]["arguments"]
        message = choice["message"]
        self.assertEqual((message["content"] or "", message.get("reasoning_content", ""), [one["function"] for one in message.get("tool_calls", [])]),
                         (content, reasoning, calls))
        return message["content"], [(one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls", [])]

    def test_what_clients_send(self):
        count = 0
        for file in sorted(BODIES.glob("*.json")):
            for one in json.loads(file.read_text()):
                if one["path"] not in ("/v1/chat/completions", "/v1/responses"):
                    continue
                body = {**one["body"], "stream": False, "max_tokens" if "messages" in one["body"] else "max_output_tokens": 2}
                body.pop("stream_options", None)
                with self.subTest(file=file.name, path=one["path"]):
                    self.server.post(one["path"], **body)
                    count += 1
        self.assertGreater(count, 30)

    def test_fields_that_change_nothing(self):
        said = lambda **more: self.server.post(CHAT, **{"messages": user("hi"), "max_tokens": 4, "temperature": 0, **more})["choices"][0]["message"]["content"]
        plain = said()
        for more in ({"store": True}, {"metadata": {"a": "b"}}, {"service_tier": "auto"}, {"user": "ada"}, {"prompt_cache_key": "a"}, {"safety_identifier": "x"},
                     {"modalities": ["text"]}, {"parallel_tool_calls": True}, {"prediction": {"type": "content", "content": "x"}}, {"tools": []}, {"tool_choice": "auto"},
                     {"repetition_penalty": 1.0}, {"length_penalty": 1}, {"min_tokens": 0}, {"ignore_eos": False}, {"stop_token_ids": []}, {"skip_special_tokens": True}, {"cache_prompt": True},
                     {"include_stop_str_in_output": False}, {"add_generation_prompt": True}, {"continue_final_message": False}, {"use_beam_search": False}, {"echo": False}):
            self.assertEqual(said(**more), plain, more)
        for name, value in (("repetition_penalty", 1.1), ("min_tokens", 3), ("ignore_eos", True), ("skip_special_tokens", False), ("continue_final_message", True), ("use_beam_search", True)):
            self.refused(400, "unsupported_parameter", name, messages=user("hi"), **{name: value})
        ask = lambda answer: said(messages=[*user("hi"), {"role": "assistant", "content": "x", **answer}, *user("hi")])
        plain = ask({})
        for more in ({"annotations": []}, {"name": "agent_1"}, {"refusal": None}, {"audio": None}, {"function_call": None}, {"tool_calls": None}, {"tool_calls": []},
                     {"reasoning_content": "r"}, {"reasoning": "r"}, {"provider_specific_fields": {"a": 1}}, {"parsed": {"x": 1}}, {"parsed": None}, {"content": [{"type": "text", "text": "x", "annotations": []}]}):
            self.assertEqual(ask(more), plain, more)
        for one in (call(), {**call(), "index": 0}, call(arguments=""), {**call(), "function": {"name": "f", "arguments": {}}},
                    {**call(), "function": {"name": "f", "arguments": "{}", "parsed_arguments": {"x": 1}}}):
            for result in ({}, {"name": "f"}, {"content": [{"type": "text", "text": "1"}]}):
                said(messages=[*user("hi"), {"role": "assistant", "content": None, "tool_calls": [one]}, {"role": "tool", "tool_call_id": one["id"], "content": "1", **result}])

    def test_json_is_read_to_where_it_ends(self):
        for arguments in ('{"x": "a</tool_call>b"}', '{"x": "<tool_call>{\\"name\\": \\"f\\"}</tool_call>"}', '{"x": "}}]\\" \\\\"}', '{"x": {"y": [{}, "[{"]}}', '{ "x" : [1 ,2]}',
                          '{"x": "caf\\u00e9 \\ud83d\\ude00"}'):
            self.assertEqual(self.say('<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>' % arguments), (None, [("f", arguments)]))
        self.assertEqual(self.say('<tool_call>\n{"name": "f"}\n</tool_call>'), (None, [("f", "{}")]))

    def test_arguments_are_the_models_own_bytes(self):
        for arguments in ('{"x": 12345678901234567891234}', '{"x": 1.0}', '{"x":1e3,  "y": -0.0}', '{"x": 0.1000000000000000055511151231257827}', '{"b": 1, "a": 2, "b2": 1E+2}',
                          '{"x": "\\u0041\\/"}'):
            self.assertEqual(self.say('<tool_call>{"name": "f", "arguments": %s}</tool_call>' % arguments), (None, [("f", arguments)]))
            item = self.server.post("/v1/responses", input="a", temperature=0, tools=[{"type": "function", **F["function"]}],
                                    grammar=literal('<tool_call>{"name": "f", "arguments": %s}</tool_call>' % arguments))["output"][0]
            self.assertEqual(item["arguments"], arguments)

    def test_long_numbers_that_come_back_keep_their_digits(self):
        """In the prompt, as Python's integers do; and in the bounds of a schema."""
        for number in (2**63, 2**64, -2**63 - 1, 12345678901234567891234, 10**41 + 1):
            arguments = {"x": {"y": [number]}}
            for given in (json.dumps(arguments), arguments):
                one = {**call(), "function": {"name": "f", "arguments": given}}
                turns = [*user("a"), {"role": "assistant", "content": None, "tool_calls": [one]}, {"role": "tool", "tool_call_id": one["id"], "content": "b"}]
                self.assertIn(str(number), prompt(self.server, messages=turns, tools=[F]), given)
            turns = [*user("a"), {"role": "assistant", "content": [{"type": "tool_use", "id": "123456789", "name": "f", "input": arguments}]},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "123456789", "content": "b"}]}]
            self.server.post("/v1/messages", model="m", max_tokens=1, messages=turns)
            schema = {"type": "integer", "minimum": number, "maximum": number}
            said = self.server.post(CHAT, messages=user("a"), response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}})
            self.assertEqual(said["choices"][0]["message"]["content"], str(number))

    def test_bounds_of_many_digits(self):
        """Schemas that one number meets, as clients write them: the bytes of the request, not what a double makes of them."""
        for schema, number in (
                ('{"type":"integer","minimum":9007199254740993,"maximum":9007199254740993}', "9007199254740993"), ('{"const":12345678901234567890123}', "12345678901234567890123"),
                ('{"enum":[18446744073709551616]}', "18446744073709551616"), ('{"type":"integer","minimum":9223372036854775807,"maximum":9223372036854775807}', "9223372036854775807"),
                ('{"type":"integer","minimum":-9223372036854775808,"maximum":-9223372036854775808}', "-9223372036854775808"),
                ('{"type":"integer","exclusiveMinimum":18446744073709551614,"maximum":18446744073709551615}', "18446744073709551615"),
                ('{"type":"integer","minimum":1764230400123456789,"exclusiveMaximum":1764230400123456790}', "1764230400123456789"),
                ('{"type":"integer","multipleOf":1000000000000000000,"minimum":1,"maximum":1000000000000000000}', "1000000000000000000"),
                ('{"type":"integer","minimum":1e18,"maximum":1E+18}', "1000000000000000000"), ('{"type":"integer","minimum":9.007199254740993e15,"maximum":9007199254740993.0}', "9007199254740993"),
                ('{"type":"integer","minimum":1e23,"maximum":1E+23}', "100000000000000000000000"), ('{"type":"integer","minimum":9007199254740993.0,"maximum":90071992547409.93e2}', "9007199254740993"),
                ('{"const":0.12345678901234567890123}', "0.12345678901234567890123"), ('{"const":1e23}', "1e23"), ('{"enum":[123456789012345678901234567890.50]}', "123456789012345678901234567890.50"),
                ('{"allOf":[{"type":"integer","minimum":10000000000000001},{"maximum":10000000000000001}]}', "10000000000000001"),
                ('{"type":"integer","exclusiveMinimum":-1e30,"maximum":-999999999999999999999999999999}', "-999999999999999999999999999999")):
            body = '{"messages":[{"role":"user","content":"a"}],"temperature":1,"seed":5,"max_tokens":100,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":%s}}}' % schema
            status, _, answer = self.server.request("POST", CHAT, body.encode())
            self.assertEqual((status, answer["choices"][0]["message"]["content"]) if status == 200 else answer, (200, number), schema)
            tool = '{"type":"object","properties":{"x":%s},"required":["x"],"additionalProperties":false}' % schema
            body = '{"messages":[{"role":"user","content":"a"}],"max_tokens":100,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":%s}}]}' % tool
            status, _, answer = self.server.request("POST", CHAT, body.encode())
            said = answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] if status == 200 else str(answer)
            self.assertEqual(said.replace(" ", ""), '{"x":%s}' % number, schema)
        for number in ("0.70000000000000001", "0.0001e-99999999999999999999", "0e99999999999999999999", "0.7000000000000000000000001", "7e-1", "0.1000000000000000055511151231257827"):
            self.assertEqual(self.server.request("POST", CHAT, b'{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"temperature":%s}' % number.encode())[0], 200, number)
        for number in ("99999999999999999999", "2.0000000000000000001e2"):
            self.assertEqual(self.server.request("POST", CHAT, b'{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"temperature":%s}' % number.encode())[0], 400, number)

    def test_notations(self):
        one = [("f", '{"x": 1}')]
        for text in ('{"name": "f", "arguments": {"x": 1}}', '```json\n{"name": "f", "arguments": {"x": 1}}\n```', '<function=f>{"x": 1}</function>',
                     "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>", '[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}}]',
                     '[TOOL_CALLS]f[ARGS]{"x": 1}', '<|python_tag|>{"name": "f", "parameters": {"x": 1}}', "<|tool_call_start|>[f(x=1)]<|tool_call_end|>", "<|tool_call>call:f{x:1}<tool_call|>",
                     '<|tool_call|>[{"name": "f", "arguments": {"x": 1}}]<|/tool_call|>', '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
                     '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"x": 1}}]<|END_ACTION|>',
                     '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"x": 1}<|tool_call_end|><|tool_calls_section_end|>',
                     '<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>\n</minimax:tool_call>',
                     '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="x" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
                     '<|tools_prefix|>[{"f": {"x": 1}}]<|tools_suffix|>', '<function name="f"><param name="x">1</param></function>'):
            self.assertEqual(self.say(text), (None, one), text)
            self.assertEqual(self.say("I look.\n" + text), ("I look.", one), text)
        self.assertEqual(self.say('{"name": "g", "arguments": {"x": 1}}'), ('{"name": "g", "arguments": {"x": 1}}', []))

    def test_a_stream_tells_arguments_as_they_come(self):
        arguments = json.dumps({"x": "word " * 60})
        text = '<tool_call>{"name": "f", "arguments": %s}</tool_call>' % arguments
        self.assertEqual(self.say(text), (None, [("f", arguments)]))
        events = list(Stream(self.server, CHAT, messages=user("a"), tools=[F], temperature=0, max_tokens=400, grammar=literal(text)).events())[:-1]
        deltas = [event["choices"][0]["delta"]["tool_calls"][0] for event in events if "tool_calls" in event["choices"][0]["delta"]]
        self.assertGreater(len(deltas), 5)
        self.assertEqual("".join(delta["function"]["arguments"] for delta in deltas), arguments)

    def test_no_made_up_conversation_refuses_a_real_one(self):
        turns = [*user("a"), {"role": "assistant", "content": None, "tool_calls": [call()]}, {"role": "tool", "tool_call_id": "abcdefghi", "content": "1"},
                 {"role": "assistant", "content": "b"}, *user("c")]
        with serve("alternates.gguf", ALTERNATES) as server:
            tool = {"type": "function", "function": {"name": "f"}}
            self.assertTrue(prompt(server, messages=turns, tools=[tool]).startswith('[TOOLS][{"type": "function", "function": {"name": "f"}}][/TOOLS][user]a[assistant][{'))
            server.post(CHAT, messages=turns, tools=[tool], max_tokens=1)
        needs_tools = "{% if not tools %}{{ raise_exception('no tools') }}{% endif %}{{ tools | tojson }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        with serve("needs-tools.gguf", needs_tools) as server:
            self.assertEqual(prompt(server, messages=user("a"), tools=[F]), json.dumps([F]) + "[user]a")
        no_empty = ("{% for m in messages %}{% if m.role == 'assistant' and not m.content and not m.tool_calls %}{{ raise_exception('an empty answer') }}{% endif %}"
                    "[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments.x }}{% endfor %}{% endfor %}{{ tools | tojson }}")
        with serve("no-empty.gguf", no_empty) as server:
            self.assertTrue(prompt(server, messages=[*turns[:1], {**turns[1], "tool_calls": [call(arguments='{"x": 7}')]}, *turns[2:]], tools=[F]).startswith("[user]a[assistant]7[tool]1[assistant]b"))
        no_parts = "{% if messages[0].content is not string %}{{ raise_exception('no parts') }}{% endif %}hello {{ messages | length }}"
        with serve("no-parts.gguf", no_parts) as server:
            self.assertEqual(prompt(server, messages=user("a")), "hello 1")
        xml = "{% if xml_tools %}{{ xml_tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        with serve("xml-tools.gguf", xml) as server:
            self.assertEqual(prompt(server, messages=user("a"), tools=[F]), json.dumps([F]) + "[user]a")

    def test_ids_go_round(self):
        with serve("nine.gguf", NINE) as server:
            ask = {"messages": user("a"), "tools": [F], "tool_choice": "required", "temperature": 0, "max_tokens": 100, "n": 2}
            for choice in server.post(CHAT, **ask)["choices"]:
                answer = choice["message"]
                name = answer["tool_calls"][0]["id"]
                self.assertRegex(name, "^[0-9A-Za-z]{9}$")
                server.post(CHAT, messages=[*user("a"), answer, {"role": "tool", "tool_call_id": name, "content": "1"}], tools=[F], max_tokens=1)
            item = server.post("/v1/responses", input="a", tools=[{"type": "function", **F["function"]}], tool_choice="required", temperature=0)["output"][0]
            server.post("/v1/responses", input=[*user("a"), item, {"type": "function_call_output", "call_id": item["call_id"], "output": "1"}], max_output_tokens=1)
            streamed = [part for event in list(Stream(server, CHAT, **dict(ask, n=1)).events())[:-1] for part in event["choices"][0]["delta"].get("tool_calls", []) if "id" in part]
            self.assertRegex(streamed[0]["id"], "^[0-9A-Za-z]{9}$")
            # Ids of another server, too.
            for name in ("call_0123456789abcdefghijklmn", "toolu_1", "0", "chatcmpl-tool-1"):
                turns = [*user("a"), {"role": "assistant", "tool_calls": [call(id=name)]}, {"role": "tool", "tool_call_id": name, "content": "1"}]
                self.assertEqual(prompt(server, messages=turns), "[user]a[CALL]f[assistant][tool]1")

    def test_ids_tell_the_function(self):
        """Kimi's templates show a call's id and no other name of its function."""
        kimi = ("{% if tools %}[tools]{% endif %}{% for m in messages %}[{{ m.role }}]{% if m.role == 'tool' %}## Return of {{ m.tool_call_id }}\n{% endif %}{{ m.content or '' }}"
                "{% for c in m.tool_calls or [] %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}{% endfor %}")
        with serve("kimi.gguf", kimi) as server:
            turn = lambda *calls: [{"role": "assistant", "content": None, "tool_calls": list(calls)}, *({"role": "tool", "tool_call_id": one["id"], "content": "1"} for one in calls)]
            turns = [*user("a"), *turn(call("f"), call("g", id="b")), *turn(call("g"))]  # the first id again
            self.assertEqual(prompt(server, messages=turns, tools=[F]),
                             "[tools][user]a[assistant]<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}"
                             "<|tool_call_end|>[tool]## Return of functions.f:0\n1[tool]## Return of functions.g:1\n1[assistant]<|tool_call_begin|>functions.g:2<|tool_call_argument_begin|>{}"
                             "<|tool_call_end|>[tool]## Return of functions.g:2\n1")
            said = server.post(CHAT, messages=user("a"), tools=[F], tool_choice="required", max_tokens=200, temperature=0)["choices"][0]["message"]["tool_calls"][0]
            self.assertEqual(said["function"]["name"], "f")
