"""SIGTERM to `weft serve` at random moments: every client gets a whole answer, a reason, or the end of its connection before any answer."""
import concurrent.futures
import http.client
import json
import os
import random
import time
import unittest

from serving import CHAT, Server, user

ROUNDS = 1000 if os.environ.get("WEFT_SOAK") else 6


def asks(some):
    """A random request: (path, body)."""
    words = " ".join(some.choices(["hello", "a", "story", "about", "cats"], k=some.choice([3, 30, 200])))
    tokens = some.choice([1, 8, 200])
    return some.choice([
        (CHAT, {"messages": user(words), "max_tokens": tokens, "stream": True}),
        (CHAT, {"messages": user(words), "max_tokens": tokens}),
        (CHAT, {"messages": user("a"), "max_tokens": 20, "n": 2, "stream": True}),
        (CHAT, {"messages": user("a"), "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "array", "items": {"enum": ["a", "bc", 1]}}}}}),
        ("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": tokens, "regex": "[^!]{8000}", "stream": True}),
        ("/v1/messages", {"messages": user(words), "max_tokens": tokens, "stream": True}),
        ("/v1/responses", {"input": words, "max_output_tokens": tokens, "stream": True}),
        ("/tokenize", {"content": words * some.choice([1, 2000])})])


def has_reason(text):
    return "error" in json.loads(text) and bool(json.loads(text)["error"]["message"])


def outcome(port, path, body):
    """How a request ended. Raises for an answer that is cut without a reason."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        try:
            client.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = client.getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            return "end"
        try:
            text = answer.read().decode()
        except http.client.IncompleteRead as cut:
            raise AssertionError(f"{path} {body} was cut: {answer.status} {cut.partial}") from cut
        if answer.status != 200:
            assert has_reason(text), text
            return "reason"
        if not body.get("stream"):
            json.loads(text)
            return "whole"
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        if events[-1] == "[DONE]" or json.loads(events[-1]).get("type") in ("message_stop", "response.completed", "response.incomplete"):
            return "whole"
        last = json.loads(events[-1])
        assert "error" in last or last.get("type") in ("error", "response.failed"), text[-500:]
        return "reason"
    finally:
        client.close()


class ServeEnds(unittest.TestCase):
    def test_sigterm_at_any_moment(self):
        some, ends, longest = random.Random(int(os.environ.get("WEFT_SEED", 1))), {}, 0
        for number in range(ROUNDS):
            with Server("--sessions", 3, "--queue", 2, "--drain", some.choice([0, 0, 1])) as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
                clients = [pool.submit(outcome, server.port, *asks(some)) for _ in range(8)]
                time.sleep(some.uniform(0, 1.5) ** 2)
                server.stop()
                begin = time.monotonic()
                server.end()
                longest = max(longest, time.monotonic() - begin)
                for client in clients:
                    end = client.result()  # the first that is cut fails the test
                    ends[end] = ends.get(end, 0) + 1
        print(f"{number + 1} SIGTERMs: {ends}, the longest took {longest:.1f} s", end=" ", flush=True)
        self.assertGreater(ends.get("whole", 0), 0)
        self.assertGreater(ends.get("reason", 0), 0)
