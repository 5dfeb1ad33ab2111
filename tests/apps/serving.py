"""A running `weft serve`, and clients for it that know every byte they send."""
import http.client
import json
import re
import signal
import socket
import subprocess
import unittest

from support import BIN, ENV, weft_json

CHAT = "/v1/chat/completions"


class Server:
    """`weft serve` on a free port, as a context manager. It must end well, and the validation layer must stay silent."""

    def __init__(self, *argv, env=None, start=None):
        self.process = subprocess.Popen([BIN / "weft", "serve", "--port", "0", *map(str, argv)], env=dict(ENV, **(env or {})), preexec_fn=start,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stderr.readline().decode()
        found = re.search(r"at http://(.*):(\d+)/ with", line)
        if not found:
            raise AssertionError(line + self.process.communicate()[1].decode())
        self.port, self.told, self.greeting = int(found.group(2)), False, line

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.end()

    def end(self, expect=0):
        if self.process.returncode is not None:
            return
        self.stop()
        out, err = (text.decode(errors="replace") for text in self.process.communicate(timeout=60))
        assert self.process.returncode == expect, (self.process.returncode, out, err)
        assert not any(word in out + err for word in ("VUID-", "SYNC-HAZARD", "Validation ")), out + err

    def stop(self, how=signal.SIGTERM):
        """Tells it to end, once: a second signal would not wait for what it does."""
        if not self.told:
            self.process.send_signal(how)
        self.told = True

    def request(self, method, path, body=None, headers=None):
        """Returns (status, headers, body as JSON)."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        client.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        answer = client.getresponse()
        text = answer.read()
        client.close()
        return answer.status, dict(answer.getheaders()), json.loads(text) if text.startswith(b"{") else text.decode()

    def post(self, path, **body):
        status, _, answer = self.request("POST", path, body)
        assert status == 200, (status, answer)
        return answer

    def chat(self, text, **more):
        return self.post(CHAT, messages=[{"role": "user", "content": text}], **more)

    def socket(self):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        return client

    def raw(self, data):
        """Sends bytes and returns all that comes until the server closes."""
        with self.socket() as client:
            try:
                client.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may answer before it has read all
            parts = []
            try:
                while part := client.recv(65536):
                    parts.append(part)
            except ConnectionResetError:
                pass
            return b"".join(parts)


class ServeTest(unittest.TestCase):
    """Tests that share a server, which must outlive them all."""

    @classmethod
    def options(cls):
        return "--sessions", 4, "--queue", 8  # of pocket, the installed model

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options())

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def setUp(self):
        if self.server.process.poll() is not None:
            self.fail("the server has ended: " + self.server.process.stderr.read().decode())

    def alone(self, ids, *options):
        """What `weft generate` says to the same tokens."""
        return weft_json("generate", "--prompt-ids", ",".join(map(str, ids)), *options)

    def refused(self, status, code, param, path=CHAT, **body):
        """Returns the message."""
        got, headers, answer = self.server.request("POST", path, body)
        self.assertIn("error", answer)
        self.assertEqual((got, answer["error"]["code"], answer["error"]["param"]), (status, code, param), answer)
        self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
        self.assertEqual(headers["Content-Type"], "application/json")
        return answer["error"]["message"]


def parse_metrics(text):
    """Prometheus's text format, strictly: {name with its labels: value} and {family: type}."""
    number, label = r"(?:[0-9.]+(?:e[-+][0-9]+)?|\+Inf)", r'[a-z_]+="[^"\\\n]*"'
    values, types, helped = {}, {}, []
    assert text.endswith("\n")
    for line in text.splitlines():
        if found := re.fullmatch(r"# HELP ([a-z_]+) \S.*", line):
            assert found[1] not in helped
            helped.append(found[1])
        elif found := re.fullmatch(r"# TYPE ([a-z_]+) (counter|gauge|histogram)", line):
            assert found[1] == helped[-1] and found[1] not in types
            types[found[1]] = found[2]
        else:
            found = re.fullmatch(rf"([a-z_]+)(?:\{{({label}(?:,{label})*)\}})? ({number})", line)
            assert found, line
            name = line.rpartition(" ")[0]
            assert name not in values, name
            family = helped[-1]
            assert found[1] == family or (types[family] == "histogram" and found[1] in (f"{family}_bucket", f"{family}_sum", f"{family}_count")), line
            assert (types[family] == "counter") == family.endswith("_total")
            values[name] = float(found[3])
    for family in (family for family, kind in types.items() if kind == "histogram"):
        buckets = [(float(re.search('le="(.*)"', name)[1].replace("+Inf", "inf")), value) for name, value in values.items()
                   if name.startswith(family + "_bucket{")]
        assert buckets == sorted(buckets) and buckets[-1][0] == float("inf")
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1][1] == values[family + "_count"]
    return values, types


def post_bytes(path, body, *headers):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Stream:
    """A streamed answer, event by event."""

    def __init__(self, server, path, headers=None, /, **body):
        self.client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        self.client.request("POST", path, json.dumps(dict(body, stream=True)).encode(), {"Content-Type": "application/json", **(headers or {})})
        self.answer = self.client.getresponse()
        self.lines = []

    def events(self):
        """The data of all events as JSON; the last is "[DONE]" if that came. self.lines has all lines."""
        assert self.answer.status == 200, self.answer.read()
        while line := self.answer.readline():
            self.lines.append(line.decode())
            if line.startswith(b"data: "):
                yield line[6:].strip().decode() if line == b"data: [DONE]\n" else json.loads(line[6:])
        self.close()

    def close(self):
        self.answer.close()
        self.client.close()


def text_of(events, index=0):
    """What the chunks of a chat say together in one choice."""
    return "".join(choice["delta"].get("content", "") for event in events if event != "[DONE]" for choice in event["choices"] if choice["index"] == index)


def user(text):
    return [{"role": "user", "content": text}]
