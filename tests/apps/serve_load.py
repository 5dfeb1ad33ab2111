"""Measures a running server of OpenAI's protocol under load. Not a test: it checks only that every stream ends well.

    tests/apps/serve_load.py URL [--clients 1 4 16] [--seconds 30] [--tokens 64] [--model NAME]

Each client streams one answer after another to a prompt of its own. Prints a line for each number of clients: tokens a second of all,
seconds to the first token and between events (median and 99th percentile), and the slowest client's tokens over the mean.
"""
import argparse
import http.client
import json
import statistics
import threading
import time
import urllib.parse

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("url", help="for example http://127.0.0.1:8080")
parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
parser.add_argument("--seconds", type=float, default=30)
parser.add_argument("--tokens", type=int, default=64, help="of an answer, at most")
parser.add_argument("--model")
arguments = parser.parse_args()
ADDRESS = urllib.parse.urlsplit(arguments.url).netloc


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else float("nan")


class Client(threading.Thread):
    def __init__(self, number, until):
        super().__init__()
        self.number, self.until = number, until
        self.tokens, self.firsts, self.gaps, self.problem = 0, [], [], None

    def run(self):
        try:
            asked = 0
            while time.monotonic() < self.until:
                asked += 1
                self.ask(f"This is question {asked} of client {self.number}. Tell me a story about {self.number + asked} cats.")
        except Exception as problem:  # told at the end
            self.problem = problem

    def ask(self, text):
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": arguments.tokens, "stream": True, "temperature": 0.8,
                "seed": self.number, "stream_options": {"include_usage": True}}
        if arguments.model:
            body["model"] = arguments.model
        begin = last = time.monotonic()
        client = http.client.HTTPConnection(ADDRESS, timeout=600)
        client.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = client.getresponse()
        assert answer.status == 200, answer.read()
        first = True
        while (line := answer.readline()) and line != b"data: [DONE]\n":
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            assert "error" not in event, event
            if event.get("usage") and not event["choices"]:
                self.tokens += event["usage"]["completion_tokens"]
            elif event["choices"] and event["choices"][0]["delta"].get("content"):
                now = time.monotonic()
                (self.firsts if first else self.gaps).append(now - (begin if first else last))
                first, last = False, now
        assert line, "the stream has no end"
        client.close()


print("clients  tokens/s  first token p50 p99 (s)  gap p50 p99 (ms)  slowest/mean")
for count in arguments.clients:
    begin = time.monotonic()
    clients = [Client(number, begin + arguments.seconds) for number in range(count)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
        if client.problem:
            raise client.problem
    seconds = time.monotonic() - begin
    tokens = [client.tokens for client in clients]
    firsts = [value for client in clients for value in client.firsts]
    gaps = [1000 * value for client in clients for value in client.gaps]
    print(f"{count:7d}  {sum(tokens) / seconds:8.1f}  {percentile(firsts, 0.5):15.3f} {percentile(firsts, 0.99):7.3f}  "
          f"{percentile(gaps, 0.5):8.1f} {percentile(gaps, 0.99):7.1f}  {min(tokens) / statistics.mean(tokens):12.2f}", flush=True)
