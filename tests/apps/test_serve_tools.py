"""Tools of `weft serve`, with a model of random weights whose chat template knows them."""
import json

from serving import CHAT, Server, ServeTest, Stream, text_of, user
from support import model

TEMPLATE = ("{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}"
            "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{{ '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")
LAMP = {"type": "function", "function": {"name": "lamp", "parameters": {"$ref": "#/$defs/state", "$defs": {
    "state": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False}}}}}
TIMER = {"type": "function", "function": {"name": "set-timer", "description": "Sets a timer.", "parameters": {
    "type": "object", "properties": {"minutes": {"enum": [1, 5, 10]}}, "required": ["minutes"], "additionalProperties": False}}}
NOW = {"type": "function", "function": {"name": "now"}}
ASK = {"messages": [{"role": "user", "content": "go"}], "max_tokens": 200, "seed": 1}
CALL = '<tool_call>{"name": "lamp", "arguments": {"on": true}}</tool_call>'


class ServeTools(ServeTest):
    @classmethod
    def options(cls):
        return "--sessions", 2, "-m", model("tools.gguf", "--type", "f16", "--context", 2048, "--chat-template", TEMPLATE)

    def prompt(self, **body):
        return self.server.post("/detokenize", tokens=self.server.post("/apply-template", **body)["tokens"])["content"].strip()

    def both(self, **more):
        """The choice of a whole answer; a stream must say the same."""
        choice = self.server.post(CHAT, **ASK, **more)["choices"][0]
        events = list(Stream(self.server, CHAT, **ASK, **more).events())[:-1]
        self.assertEqual(text_of(events), choice["message"]["content"] or "")
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], choice["finish_reason"])
        streamed = []
        for delta in (call for event in events for call in event["choices"][0]["delta"].get("tool_calls", [])):
            if "id" in delta:
                self.assertEqual(delta["index"], len(streamed))
                streamed.append(delta)
            else:
                streamed[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]
        calls = choice["message"].get("tool_calls", [])
        self.assertEqual([call["function"] for call in streamed], [call["function"] for call in calls])
        for call in calls + streamed:
            self.assertEqual(call["type"], "function")
            self.assertRegex(call["id"], "^[0-9A-Za-z]{9}$")
            self.assertIsInstance(call["function"]["arguments"], str)
        return choice, [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]

    def test_the_template_gets_them(self):
        self.assertEqual(self.prompt(messages=ASK["messages"], tools=[NOW]), json.dumps([NOW]) + "\nuser: go\nassistant:")
        self.assertEqual(self.prompt(messages=ASK["messages"], tools=[NOW], tool_choice="none"), "user: go\nassistant:")
        call = {"id": "call_1", "type": "function", "function": {"name": "lamp", "arguments": '{"on":true,"n":[1,2.5,null]}'}}
        messages = [*ASK["messages"], {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "done"}]
        self.assertEqual(self.prompt(messages=messages),
                         'user: go\nassistant: <tool_call>{"name": "lamp", "arguments": {"on": true, "n": [1, 2.5, null]}}</tool_call>'
                         '\ntool: done\nassistant:')

    def test_a_call_that_is_required(self):
        for seed in range(4):
            choice, calls = self.both(tools=[LAMP, TIMER, NOW], tool_choice="required", temperature=1.5 + seed / 10)
            self.assertEqual((choice["finish_reason"], choice["message"]["content"], len(calls)), ("tool_calls", None, 1))
            name, arguments = calls[0]
            self.assertIn((name, set(arguments)), [("lamp", {"on"}), ("set-timer", {"minutes"}), ("now", set())])
        for tool, good in ((LAMP, [{"on": True}, {"on": False}]), (TIMER, [{"minutes": n} for n in (1, 5, 10)]), (NOW, [{}])):
            choice = {"type": "function", "function": {"name": tool["function"]["name"]}}
            _, calls = self.both(tools=[LAMP, TIMER, NOW], tool_choice=choice)
            self.assertEqual(calls[0][0], tool["function"]["name"])
            self.assertIn(calls[0][1], good)

    def test_a_call_that_is_cut(self):
        choice = self.server.post(CHAT, **dict(ASK, max_tokens=3), tools=[LAMP], tool_choice="required")["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")
        self.assertNotIn("tool_calls", choice["message"])
        self.assertTrue(choice["message"]["content"].startswith("{"))

    def test_what_the_model_writes(self):
        say = lambda text, **more: self.both(tools=[LAMP, TIMER], grammar="root ::= " + json.dumps(text), **more)
        choice, calls = say(CALL)
        self.assertEqual((choice["finish_reason"], choice["message"]["content"], calls), ("tool_calls", None, [("lamp", {"on": True})]))
        choice, calls = say("I do.\n" + CALL + "\n" + CALL.replace("lamp", "set-timer"))
        self.assertEqual((choice["message"]["content"], calls), ("I do.", [("lamp", {"on": True}), ("set-timer", {"on": True})]))
        choice, calls = say(CALL + CALL.replace("lamp", "set-timer"), parallel_tool_calls=False)
        self.assertEqual((choice["finish_reason"], calls), ("tool_calls", [("lamp", {"on": True})]))
        choice, calls = say("none", parallel_tool_calls=False)
        self.assertEqual((choice["message"]["content"], calls), ("none", []))
        choice, calls = say(CALL[:-1])  # whole, but for its end mark
        self.assertEqual(calls, [("lamp", {"on": True})])
        # Everything else is text, and other calls are not lost.
        flaws = (CALL.replace("lamp", "door"), CALL.replace("true", "tru"), CALL.replace("{\"on\": true}", "7"))
        for text in ("<tool_cal", "a <b> c ", "<tool_call>", CALL[:-20], *flaws):
            choice, calls = say(text)
            self.assertEqual((choice["finish_reason"], choice["message"]["content"], calls), ("stop", text, []))
        for text in flaws:
            choice, calls = say(CALL + text + CALL + " Done.")
            self.assertEqual((choice["message"]["content"], calls), (text + "\nDone.", 2 * [("lamp", {"on": True})]))
        choice, calls = self.both(tools=[LAMP], tool_choice="none", grammar="root ::= " + json.dumps(CALL))
        self.assertEqual((choice["message"]["content"], calls), (CALL, []))

    def test_logprobs(self):
        """All tokens that the model wrote are there, those of calls too."""
        ask = dict(ASK, tools=[LAMP], logprobs=True, top_logprobs=1)
        for text in ("I do.\n" + CALL, CALL + CALL, "a <tool_b", "no call"):
            ask["grammar"] = "root ::= " + json.dumps(text)
            choice = self.server.post(CHAT, **ask)["choices"][0]
            events = list(Stream(self.server, CHAT, **ask).events())[:-1]
            bytes_of = lambda lists: b"".join(bytes(token["bytes"]) for content in lists for token in content["content"]).decode()
            self.assertEqual(bytes_of([choice["logprobs"]]), text)
            parts = [(event["choices"][0]["delta"], event["choices"][0]["logprobs"]) for event in events]
            end = parts.pop()[1]  # has the marks that come after the last call
            for one, other in zip((token for logprobs in [*(logprobs for _, logprobs in parts), end] if logprobs for token in logprobs["content"]), choice["logprobs"]["content"], strict=True):
                self.assertEqual(one["bytes"], other["bytes"])
                self.assertAlmostEqual(one["logprob"], other["logprob"], delta=0.001)
            for delta, logprobs in parts:
                self.assertEqual(logprobs is not None, bool(delta.get("content") or delta.get("tool_calls")))
            # A token belongs to the event that has its beginning.
            told = bytes_of([logprobs for delta, logprobs in parts if delta.get("content")])
            self.assertTrue(told.startswith(choice["message"]["content"] or ""))
        del ask["grammar"]
        choice = self.server.post(CHAT, **ask, tool_choice="required")["choices"][0]
        self.assertEqual(json.loads(bytes_of([choice["logprobs"]])).keys(), {"name", "arguments"})

    def test_several_choices(self):
        for choice in self.server.post(CHAT, **ASK, tools=[LAMP, TIMER], tool_choice="required", n=2, temperature=1.5)["choices"]:
            self.assertEqual((choice["finish_reason"], len(choice["message"]["tool_calls"])), ("tool_calls", 1))
        events = list(Stream(self.server, CHAT, **ASK, tools=[LAMP], tool_choice="required", n=2).events())[:-1]
        calls = [choice["index"] for event in events for choice in event["choices"] for part in choice["delta"].get("tool_calls", []) if "id" in part]
        self.assertEqual(sorted(calls), [0, 1])

    def test_what_is_refused(self):
        calls = lambda **more: {"messages": [{"role": "assistant", "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "lamp", "arguments": "{}"}, **more}]}]}
        for param, body in [
                ("tools", {"tools": [NOW] * 129}), ("tools[0].type", {"tools": [{"type": "web"}]}),
                ("tools[0].function", {"tools": [{"type": "function"}]}),
                ("tools[0].function.name", {"tools": [{"type": "function", "function": {"name": "a b"}}]}),
                ("tools[1].function.name", {"tools": [NOW, NOW]}),
                ("tools[0].function.parameters", {"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]}),
                ("tools", {"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "nonsense"}}}], "tool_choice": "required"}),
                ("tool_choice", {"tool_choice": "required"}), ("tool_choice", {"tools": [NOW], "tool_choice": "any"}),
                ("tool_choice.function.name", {"tools": [NOW], "tool_choice": {"type": "function", "function": {"name": "lamp"}}}),
                ("tool_choice", {"tools": [NOW], "tool_choice": "required", "regex": "a"}),
                ("parallel_tool_calls", {"tools": [NOW], "parallel_tool_calls": 1}),
                ("messages[0].tool_call_id", {"messages": [{"role": "tool", "content": "x"}]}),
                ("messages[0].tool_calls", {"messages": [{"role": "user", "content": "x", "tool_calls": []}]}),
                ("messages[0].tool_calls[0].type", calls(type="x")),
                ("messages[0].tool_calls[0].function.arguments", calls(function={"name": "lamp", "arguments": "["}))]:
            with self.subTest(param=param, body=body):
                status, _, answer = self.server.request("POST", CHAT, {**ASK, **body})
                self.assertEqual((status, answer.get("error", {}).get("param")), (400, param), answer)

    def test_a_template_that_does_not_know_them(self):
        """It gets them as texts, and turns that alternate."""
        call = {"id": "x", "type": "function", "function": {"name": "lamp", "arguments": '{"on":true}'}}
        turns = [*user("go"), {"role": "assistant", "content": None, "tool_calls": [call, call]}, {"role": "tool", "tool_call_id": "x", "content": "a"},
                 {"role": "tool", "tool_call_id": "x", "content": "b"}, *user("thanks")]
        system = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        for template, first in (("", "system: "), (system, "user: ")):
            template += ("{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('a role') }}{% endif %}"
                         "{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}assistant:")
            with Server("-m", model(f"no-tools-{first[0]}.gguf", "--type", "f16", "--context", 2048, "--chat-template", template)) as server:
                ids = server.post("/apply-template", messages=turns, tools=[NOW])["tokens"]
                prompt = server.post("/detokenize", tokens=ids)["content"].strip()
                self.assertTrue(prompt.startswith(first) and '{"name": "now"}'.replace(" ", "") in prompt.replace(" ", ""), prompt)
                call_text = '<tool_call>{"name": "lamp", "arguments": {"on":true}}</tool_call>'
                self.assertTrue(prompt.endswith(f"assistant: {call_text}\n{call_text}\nuser: <tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>\n"
                                                "thanks\nassistant:"), prompt)
                choice = server.post(CHAT, messages=turns, tools=[LAMP], grammar="root ::= " + json.dumps(CALL))["choices"][0]
                self.assertEqual(choice["message"]["tool_calls"][0]["function"]["arguments"], '{"on": true}')
