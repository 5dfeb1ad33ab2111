"""Records what clients send to a server of OpenAI's and Anthropic's protocols, in client_bodies/: a file a client, a line a body.

    pip install openai anthropic langchain-openai langchain-anthropic litellm openai-agents "pydantic-ai-slim[openai,anthropic]"
    npm install --prefix FOLDER ai @ai-sdk/openai @ai-sdk/anthropic openai zod
    tests/apps/record_clients.py [FOLDER]

Each client asks, gets a call of a function, and sends its answer back; test_serve_fields.py sends the bodies to `weft serve`. A
client that is not installed is named, and its bodies stay as they are.
"""
import asyncio
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading

FOLDER = pathlib.Path(__file__).resolve().parent / "client_bodies"
SCRIPT = pathlib.Path(__file__).with_suffix(".mjs")
KEYS = {"id": "chatcmpl-1", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
recorded = []


def chat(body):
    called = any(message["role"] == "tool" for message in body["messages"])
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    message = {"role": "assistant", "content": "3", "refusal": None}
    if not called and body.get("tools"):
        message = {"role": "assistant", "content": None, "refusal": None, "reasoning_content": "I add.", "tool_calls": [call]}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    if not body.get("stream"):
        return {**KEYS, "object": "chat.completion", "usage": USAGE, "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}]}
    delta = {**message, "tool_calls": [{"index": 0, **call}]} if message.get("tool_calls") else message
    chunk = lambda delta, reason: {**KEYS, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}
    return [(None, chunk(delta, None)), (None, chunk({}, reason)), (None, {**KEYS, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})]


def response(body):
    called = not isinstance(body["input"], str) and any(item.get("type") == "function_call_output" for item in body["input"])
    text = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "3", "annotations": [], "logprobs": []}]}
    call = {"type": "function_call", "id": "fc_1", "call_id": "abcdefghi", "name": "add", "arguments": '{"a": 1, "b": 2}', "status": "completed"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "I add."}], "status": "completed"}
    output = [text] if called or not body.get("tools") else [reasoning, call]
    whole = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "error": None, "incomplete_details": None, "instructions": None, "model": "m", "output": output,
             "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1, "top_p": 1, "metadata": {},
             "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}}
    if not body.get("stream"):
        return whole
    events = [{"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}}]
    for i, item in enumerate(output):
        events.append({"type": "response.output_item.added", "output_index": i, "item": item})
        events.append({"type": "response.output_item.done", "output_index": i, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return [(event["type"], {**event, "sequence_number": i}) for i, event in enumerate(events)]


def message(body):
    called = any(isinstance(one["content"], list) and any(part["type"] == "tool_result" for part in one["content"]) for one in body["messages"])
    content = [{"type": "text", "text": "3"}] if called or not body.get("tools") else [
        {"type": "text", "text": "I add."}, {"type": "tool_use", "id": "toolu_abcdefghi", "name": "add", "input": {"a": 1, "b": 2}}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": "end_turn" if called else "tool_use", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1}}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        recorded.append((self.path, body))
        answer = chat(body) if self.path.endswith("/chat/completions") else message(body) if self.path.endswith("/messages") else response(body)
        self.send_response(200)
        if isinstance(answer, dict):
            data, kind = json.dumps(answer).encode(), "application/json"
        else:
            data, kind = "".join((f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n" for name, event in answer).encode(), "text/event-stream"
            if answer[0][0] is None:
                data += b"data: [DONE]\n\n"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def openai_python(url):
    import openai
    client = openai.OpenAI(base_url=url, api_key="x", max_retries=0)
    tool = openai.pydantic_function_tool(__import__("pydantic").create_model("add", a=(int, ...), b=(int, ...)))
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "name": "ada", "content": [{"type": "text", "text": "1 + 2?"}]}]
    # The README of the package tells one to append the message as it is.
    answer = client.chat.completions.create(model="m", messages=messages, tools=[tool], store=True, metadata={"a": "b"}).choices[0].message
    messages += [answer, {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "3"}]
    answer = client.chat.completions.create(model="m", messages=messages, tools=[tool], reasoning_effort="low").choices[0].message
    messages += [answer.model_dump(), {"role": "user", "content": "Thanks."}]
    client.chat.completions.create(model="m", messages=messages, tools=[tool], tool_choice="auto", user="ada", service_tier="auto", prompt_cache_key="k", safety_identifier="s",
                                   modalities=["text"], verbosity="medium", parallel_tool_calls=True, stream_options={"include_usage": True, "include_obfuscation": True}, stream=True).close()
    # The result of parse() has more fields.
    helper, number = client.chat.completions.parse, type("Number", (__import__("pydantic").RootModel[int],), {})
    messages = messages[:2]
    for more in ({"tools": [tool]}, {"response_format": number}):
        answer = helper(model="m", messages=messages, **more).choices[0].message
        messages += [answer, *({"role": "tool", "tool_call_id": call.id, "content": "3"} for call in answer.tool_calls or ())]
    client.chat.completions.create(model="m", messages=[*messages, {"role": "user", "content": "Thanks."}], tools=[tool])
    flat = {"type": "function", "name": "add", "strict": True, "parameters": tool["function"]["parameters"]}
    first = client.responses.create(model="m", input="1 + 2?", tools=[flat], include=["reasoning.encrypted_content"], store=False, reasoning={"effort": "low", "summary": "auto"})
    client.responses.create(model="m", tools=[flat], metadata={"a": "b"}, input=[{"role": "user", "content": "1 + 2?"}, *first.output,
                                                                                 {"type": "function_call_output", "call_id": "abcdefghi", "output": "3"}])


def langchain(url):
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    for more in ({}, {"use_responses_api": True}):
        model = ChatOpenAI(model="m", base_url=url, api_key="x", max_retries=0, **more).bind_tools([tool(add)], parallel_tool_calls=False)
        messages = [SystemMessage("Be brief."), HumanMessage("1 + 2?")]
        answer = model.invoke(messages)
        messages += [answer, ToolMessage("3", tool_call_id=answer.tool_calls[0]["id"], name="add")]
        messages += [model.invoke(messages), HumanMessage("Thanks.")]
        for _ in model.stream(messages):
            pass


def litellm(url):
    import litellm
    tool = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}}
    messages = [{"role": "user", "content": "1 + 2?"}]
    ask = dict(model="openai/m", api_base=url, api_key="x", tools=[tool], num_retries=0)
    answer = litellm.completion(messages=messages, **ask).choices[0].message
    messages += [answer, {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "name": "add", "content": "3"}]
    messages += [litellm.completion(messages=messages, **ask, drop_params=True, metadata={"a": "b"}).choices[0].message.model_dump(), {"role": "user", "content": "Thanks."}]
    for _ in litellm.completion(messages=messages, stream=True, tool_choice="auto", **ask):
        pass


def openai_agents(url):
    import agents
    import openai
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    for model in (agents.OpenAIChatCompletionsModel("m", client), agents.OpenAIResponsesModel("m", client)):
        agent = agents.Agent(name="a", instructions="Be brief.", tools=[agents.function_tool(add)], model=model)
        asyncio.run(agents.Runner.run(agent, "1 + 2?"))

        async def stream():
            async for _ in agents.Runner.run_streamed(agent, "1 + 2?").stream_events():
                pass
        asyncio.run(stream())


def pydantic_ai(url):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    provider = OpenAIProvider(base_url=url, api_key="x")
    for model in (OpenAIChatModel("m", provider=provider), OpenAIResponsesModel("m", provider=provider)):
        first = Agent(model, system_prompt="Be brief.", tools=[add])
        result = first.run_sync("1 + 2?")
        first.run_sync("Thanks.", message_history=result.all_messages())


def anthropic(url):
    import anthropic
    client = anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="x", max_retries=0)
    tool = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}, "cache_control": {"type": "ephemeral"}}
    ask = dict(model="m", max_tokens=64, tools=[tool], system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}], metadata={"user_id": "ada"})
    messages = [{"role": "user", "content": "1 + 2?"}]
    answer = client.messages.create(messages=messages, thinking={"type": "enabled", "budget_tokens": 1024}, **dict(ask, max_tokens=2048))
    messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": answer.content[-1].id, "content": "3"}]}]
    client.messages.create(messages=messages, tool_choice={"type": "auto"}, stop_sequences=["x"], extra_body={"temperature": 0.5}, **ask)


def node(name, url):
    subprocess.run([shutil.which("node") or "node", SCRIPT, name, url], check=True, timeout=120)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    if len(sys.argv) > 1:
        os.environ["NODE_PATH"] = str(pathlib.Path(sys.argv[1]) / "node_modules")
    FOLDER.mkdir(exist_ok=True)
    for name, use in [(call.__name__, call) for call in (openai_python, langchain, litellm, openai_agents, pydantic_ai, anthropic)] + [
            (name, lambda url, name=name: node(name, url)) for name in ("ai_sdk", "openai_node")]:
        recorded.clear()
        try:
            use(url)
        except Exception as error:
            print(f"NOT RUN: {name}: {type(error).__name__}: {str(error)[:300]}")
        if recorded:
            lines = ",\n".join(json.dumps({"path": path, "body": body}) for path, body in recorded)
            (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")
        print(f"{name}: {len(recorded)} bodies")


if __name__ == "__main__":
    main()
