"""Loops of agents with `weft serve`: ten turns with calls of functions through real clients. Only a soak of CTest: it needs pip.

    pip install openai anthropic langchain-openai openai-agents "pydantic-ai-slim[openai]"
    tests/apps/serve_loops.py BIN_DIR [LOOP ...]

A turn is a question, a call, its result and a text. The models are too small to call by themselves: calls are forced by tool_choice
(SmolLM2, pocket), or a grammar forces the words (random weights, with the chat templates of Qwen, Mistral and Qwen3-Coder in short). No
request may be refused, every call must be recognised, and ids must come back as they went. Exit code 77: no client is installed.
"""
import asyncio
import json
import re
import sys
import typing

from serving import Server  # takes the folder from sys.argv
from support import model, real_model
from test_serve_agents import HERMES, NINE

TURNS = 10
CODER = HERMES.replace('{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}',
                       "<function={{ c.function.name }}>{% for k, v in c.function.arguments | items %}<parameter={{ k }}>{{ v }}</parameter>{% endfor %}</function>")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a", "b"],
          "additionalProperties": False}
CHAT_TOOL = {"type": "function", "function": {"name": "add", "description": "Adds two numbers.", "parameters": SCHEMA}}
ID = re.compile("[0-9A-Za-z]{9}")


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def literal(text):
    return "root ::= " + json.dumps(text)


class Ids:
    """Of all calls: each new, and of nine letters or digits."""

    def __init__(self):
        self.seen = set()

    def take(self, name):
        assert ID.fullmatch(name) and name not in self.seen, name
        self.seen.add(name)
        return name

    def done(self, calls):
        assert len(self.seen) == calls, self.seen


def url(server, path="/v1"):
    return f"http://127.0.0.1:{server.port}{path}"


def serve(name, template):
    return Server("--sessions", 2, "-m", model(name, "--type", "f16", "--context", 8192, "--chat-template", template))


def openai_chat(server):
    """SmolLM2, or pocket, whose templates know no tools: tool_choice forces the calls; whole answers and streams in turn."""
    import openai
    client, ids, messages = openai.OpenAI(base_url=url(server), api_key="x", max_retries=0), Ids(), []
    ask = dict(model="any", tools=[CHAT_TOOL], temperature=0)
    for turn in range(TURNS):
        messages = messages[-4:] + [{"role": "user", "content": f"What is {turn} + {turn}?"}]
        if turn % 2:
            with client.chat.completions.stream(messages=messages, tool_choice="required", **ask) as stream:
                answer = stream.get_final_completion().choices[0].message
        else:
            answer = client.chat.completions.create(messages=messages, tool_choice="required", **ask).choices[0].message
        call, = answer.tool_calls
        result = add(**json.loads(call.function.arguments))
        messages += [answer, {"role": "tool", "tool_call_id": ids.take(call.id), "content": str(result)}]
        answer = client.chat.completions.create(messages=messages, max_tokens=8, **ask).choices[0].message
        messages.append(answer.model_dump() if turn % 2 else answer)
    ids.done(TURNS)


def openai_responses(server):
    """Qwen3-Coder's tags, in words that are forced; each input has all items before."""
    import openai
    client, ids, items = openai.OpenAI(base_url=url(server), api_key="x", max_retries=0), Ids(), []
    ask = dict(model="any", tools=[{**CHAT_TOOL["function"], "type": "function", "strict": False}], temperature=0)
    for turn in range(TURNS):
        items.append({"role": "user", "content": f"What is {turn} + 1?"})
        words = f"I add.\n<tool_call>\n<function=add>\n<parameter=a>\n{turn}\n</parameter>\n<parameter=b>\n1\n</parameter>\n</function>\n</tool_call>"
        output = client.responses.create(input=items, extra_body={"grammar": literal(words)}, **ask).output
        assert [item.type for item in output] == ["message", "function_call"], output
        result = add(**json.loads(output[1].arguments))
        items += [*output, {"type": "function_call_output", "call_id": ids.take(output[1].call_id), "output": str(result)}]
        with client.responses.stream(input=items, extra_body={"grammar": literal(str(result))}, **ask) as stream:
            final = stream.get_final_response()
        assert final.output_text == str(turn + 1), final
        items += final.output
    ids.done(TURNS)


def anthropic_messages(server):
    """Two calls at once in Hermes's tags; whole messages and streams in turn."""
    import anthropic
    client, ids, messages = anthropic.Anthropic(base_url=url(server, ""), api_key="x", max_retries=0), Ids(), []
    ask = dict(model="any", max_tokens=300, tools=[{"name": "add", "description": "Adds.", "input_schema": SCHEMA}])
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"What is {turn} + 1, and 2 + 2?"})
        words = "".join('<tool_call>{"name": "add", "arguments": {"a": %d, "b": %d}}</tool_call>\n' % pair for pair in ((turn, 1), (2, 2)))
        more = {"extra_body": {"grammar": literal(words), "temperature": 0}}
        if turn % 2:
            with client.messages.stream(messages=messages, **ask, **more) as stream:
                answer = stream.get_final_message()
        else:
            answer = client.messages.create(messages=messages, **ask, **more)
        assert answer.stop_reason == "tool_use" and len(answer.content) == 2, answer
        results = [{"type": "tool_result", "tool_use_id": ids.take(block.id), "content": str(add(**block.input))} for block in answer.content]
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
        answer = client.messages.create(messages=messages, **ask, extra_body={"grammar": literal(f"{turn + 1} and 4"), "temperature": 0})
        assert answer.content[0].text == f"{turn + 1} and 4", answer
        messages.append({"role": "assistant", "content": answer.content})
    ids.done(2 * TURNS)


def langchain(server):
    """A template of Mistral's kind, which refuses ids of another form."""
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    ids, messages = Ids(), []
    for turn in range(TURNS):
        words = '[TOOL_CALLS][{"name": "add", "arguments": {"a": %d, "b": 1}}]' % turn
        chat = lambda text: ChatOpenAI(model="any", base_url=url(server), api_key="x", max_retries=0, temperature=0, extra_body={"grammar": literal(text)}).bind_tools([tool(add)])
        messages.append(HumanMessage(f"What is {turn} + 1?"))
        answer = chat(words).invoke(messages)
        call, = answer.tool_calls
        messages += [answer, ToolMessage(str(add(**call["args"])), tool_call_id=ids.take(call["id"]), name="add")]
        final = None
        for chunk in chat(f"It is {turn + 1}.").stream(messages):
            final = chunk if final is None else final + chunk
        assert final.content == f"It is {turn + 1}.", final
        messages.append(final)
    ids.done(TURNS)


def pydantic_ai(server):
    """The agent of the package runs the function itself; its history goes on for ten turns."""
    from pydantic_ai import Agent, ModelSettings
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    ids, history = Ids(), None
    agent = Agent(OpenAIChatModel("any", provider=OpenAIProvider(base_url=url(server), api_key="x")), system_prompt="Add.")
    calls = []

    @agent.tool_plain
    def add_numbers(a: int, b: int) -> int:
        calls.append((a, b))
        return a + b

    for turn in range(TURNS):
        # The words depend on whether the call has been answered, which only the prompt tells: a bias cannot, a choice of both can.
        words = 'root ::= "{\\"name\\": \\"add_numbers\\", \\"arguments\\": {\\"a\\": %d, \\"b\\": 1}}"' % turn
        before = len(calls)
        try:
            result = agent.run_sync(f"What is {turn} + 1?", message_history=history, model_settings=ModelSettings(extra_body={"grammar": words}, temperature=0),
                                    usage_limits=__import__("pydantic_ai").usage.UsageLimits(request_limit=1))
        except Exception as error:  # the limit: the answer would be a call again
            assert "request_limit" in str(error), error
        assert calls[before:] == [(turn, 1)], calls
        result = agent.run_sync(f"And {turn}?", message_history=history, model_settings=ModelSettings(extra_body={"grammar": literal("Done.")}, temperature=0))
        history = result.all_messages()
    for one in history:
        for part in one.parts:
            if isinstance(part, ToolCallPart):
                ids.take(part.tool_call_id)


def openai_agents(server):
    """The runner of the package: a call and a text, in ten turns."""
    import agents
    import openai
    agents.set_tracing_disabled(True)
    import pydantic
    digit = typing.Annotated[int, pydantic.Field(ge=0, le=99)]  # random weights never end a number by themselves

    def bounded(a: digit, b: digit) -> int:
        return a + b

    ids, items = Ids(), []
    loop = asyncio.new_event_loop()  # of all turns, which share connections
    client = openai.AsyncOpenAI(base_url=url(server), api_key="x", max_retries=0)
    for turn in range(TURNS):
        settings = agents.ModelSettings(tool_choice="required", temperature=0)
        agent = agents.Agent(name="a", instructions="Add.", tools=[agents.function_tool(bounded)], tool_use_behavior="stop_on_first_tool",
                             model=agents.OpenAIChatCompletionsModel("any", client), model_settings=settings)
        result = loop.run_until_complete(agents.Runner.run(agent, [*items, {"role": "user", "content": f"What is {turn} + 1?"}]))
        items = result.to_input_list()
        calls = [item for item in items if item.get("type") == "function_call"]
        assert len(calls) == turn + 1, items
        ids.take(calls[-1]["call_id"])
    ids.done(TURNS)


def main():
    smollm2 = real_model("smollm2")
    loops = {"openai_chat, pocket": (openai_chat, lambda: Server("--sessions", 2)),
             "openai_responses": (openai_responses, lambda: serve("coder.gguf", CODER)),
             "anthropic_messages": (anthropic_messages, lambda: serve("loop-hermes.gguf", HERMES)),
             "langchain": (langchain, lambda: serve("loop-nine.gguf", NINE)),
             "openai_agents": (openai_agents, lambda: serve("loop-hermes.gguf", HERMES)),
             "pydantic_ai": (pydantic_ai, lambda: serve("loop-hermes.gguf", HERMES))}
    if smollm2:
        loops["openai_chat, SmolLM2"] = (openai_chat, lambda: Server("--sessions", 2, "-m", smollm2, "--ctx", 2048))
    ran = 0
    for name, (loop, start) in loops.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        try:
            with start() as server:
                loop(server)
            print("passed:", name, flush=True)
            ran += 1
        except ImportError as missing:
            print(f"NOT RUN: {name}: {missing}", flush=True)
    sys.exit(0 if ran else 77)


if __name__ == "__main__":
    main()
