"""`weft serve` as an operator sees it: probes, request ids, the log, keys, draining, a local socket."""
import json
import signal
import socket
import stat
import subprocess
import time
import unittest

from serving import CHAT, Server, Stream, post_bytes, user
from support import BIN, ENV, FOLDER, weft

LONG = {"prompt": [5, 6, 7], "temperature": 0.5, "seed": 1, "regex": "[^!]{8000}"}  # until the context is full


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class ServeOperator(unittest.TestCase):
    def test_probes(self):
        with Server("--sessions", 1, "--api-key", "k") as server:
            for path in ("/livez", "/readyz", "/health"):
                for method in ("GET", "HEAD"):
                    self.assertEqual(server.request(method, path)[0], 200)
                self.assertEqual(server.request("POST", path, {}, {"Authorization": "Bearer k"})[0], 405)

    def test_request_ids(self):
        with Server("--sessions", 1) as server:
            ids = set()
            for method, path, body, given, kept in (
                    ("GET", "/livez", None, "abc-123", True), ("GET", "/nothing", None, "x" * 128, True), ("POST", CHAT, {"messages": user("hello"), "max_tokens": 1}, "{a}", True),
                    ("POST", CHAT, {"messages": 1}, "b", True), ("GET", "/livez", None, "x" * 129, False), ("GET", "/livez", None, "a b", False),
                    ("GET", "/livez", None, 'a"b', False), ("GET", "/livez", None, "", False), ("GET", "/livez", None, None, False)):
                got = server.request(method, path, body, {} if given is None else {"X-Request-Id": given})[1]["X-Request-Id"]
                self.assertEqual(got == given, kept, given)
                self.assertRegex(got, r"^[!-~]{1,128}$")
                ids.add(got)
            stream = Stream(server, CHAT, {"X-Request-Id": "s"}, messages=user("hello"), max_tokens=1)
            self.assertEqual(stream.answer.headers["X-Request-Id"], "s")
            list(stream.events())
            self.assertIn(b"\r\nX-Request-Id: ", server.raw(b"GET\r\n\r\n"))
            self.assertEqual(len(ids), 9)

    def test_the_log(self):
        """A line for each request, with its figures and without its texts."""
        log, keys = FOLDER / "log", FOLDER / "keys"
        keys.write_text("# comment\n\nalice one\nbob  two\n")
        with Server("--sessions", 1, "--queue", 0, "--log", log, "--api-keys", keys) as server:
            key = lambda name: {"Authorization": f"Bearer {name}", "X-Request-Id": name}
            question = {"messages": user("please a xylophone"), "temperature": 0, "max_tokens": 5}
            usage = server.request("POST", CHAT, question, key("one"))[2]["usage"]
            list(Stream(server, CHAT, key("two"), **question).events())
            self.assertEqual(server.request("POST", CHAT, question, key("three"))[0], 401)
            self.assertEqual(server.request("POST", CHAT + "?q=xylophone", {"messages": "xylophone"}, key("two"))[0], 400)
            self.assertEqual(server.request("GET", '/xylo"phone', headers=key("one"))[0], 404)
            server.raw(b"xylophone\r\n\r\n")
            leaving = Stream(server, "/v1/completions", key("one"), **LONG)
            next(leaving.events())
            self.assertEqual(server.request("POST", CHAT, question, key("two"))[0], 429)
            leaving.close()
            for _ in range(400):
                if any(line.get("outcome") == "cancelled" for line in lines_of(log)):
                    break
                time.sleep(0.05)
            self.assertEqual(server.request("POST", "/tokenize", {"content": "xylophone"}, key("two"))[0], 200)
        text, lines = log.read_text(), lines_of(log)
        self.assertNotIn("please", text)
        self.assertEqual(text.count("xylo"), 1)  # of the path
        for line in lines:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual(line["client"], "127.0.0.1")
            self.assertGreaterEqual(line["ms"], 0)
        told = lambda line: (line["id"] if line["status"] != 400 or "key" in line else None, line.get("key"), line["method"], line["path"], line["status"], line.get("outcome"))
        want = [("one", "alice", "POST", CHAT, 200, "length"), ("two", "bob", "POST", CHAT, 200, "length"), ("three", None, "POST", CHAT, 401, None),
                ("two", "bob", "POST", CHAT, 400, "invalid"), ("one", None, "GET", '/xylo"phone', 404, None), (None, None, "", "", 400, None),
                ("one", "alice", "POST", "/v1/completions", 200, "cancelled"), ("two", "bob", "POST", CHAT, 429, "queue_full"), ("two", "bob", "POST", "/tokenize", 200, None)]
        self.assertEqual(sorted(map(told, lines), key=str), sorted(want, key=str))
        # The line of a stream comes after its last byte, maybe after the next request's.
        first, second = (line for id in ("one", "two") for line in lines if (line["id"], line.get("outcome")) == (id, "length"))
        self.assertEqual((first["model"], first["prompt_tokens"], first["tokens"], first["cached_tokens"]), ("pocket", usage["prompt_tokens"], usage["completion_tokens"], 0))
        self.assertGreater(second["cached_tokens"], 0)
        self.assertGreater(first["ms"], first["first_token_ms"])
        (left,) = [line for line in lines if line.get("outcome") == "cancelled"]
        self.assertGreater(left["tokens"], 0)
        self.assertEqual(stat.S_IMODE(log.stat().st_mode), 0o600)
        # Lines are appended, or go to stdout.
        with Server("--sessions", 1, "--log", log) as server:
            server.request("GET", "/livez")
        self.assertEqual(lines_of(log)[:-1], lines)
        server = Server("--sessions", 1, "--log", "-")
        server.request("GET", "/livez")
        server.stop()
        self.assertEqual(json.loads(server.process.communicate(timeout=60)[0])["path"], "/livez")

    def test_a_log_that_nobody_reads(self):
        """Requests are answered although the pipe is full."""
        server = Server("--sessions", 1, "--log", "-")
        get = b"GET /" + b"a" * 190 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for _ in range(800):
            self.assertIn(b" 404 ", server.raw(get)[:20])
        server.stop()
        lines = server.process.communicate(timeout=60)[0].splitlines()
        self.assertEqual(len(lines), 800)

    def test_keys_of_a_file(self):
        keys = FOLDER / "keys"
        for text, words in (("alice", "line 1"), ("alice a b", "line 1"), ("\nalice \x7f", "line 2"), ("# nothing\n", "no key")):
            keys.write_text(text)
            self.assertIn(words, weft("serve", "--api-keys", keys, expect=2)[1])
        self.assertIn("cannot be read", weft("serve", "--api-keys", FOLDER / "no-such-file", expect=1)[1])
        self.assertIn("cannot be written", weft("serve", "--log", "/no/such/folder", expect=1)[1])

    def test_draining(self):
        """No new requests, the others go on to their end; then the server ends by itself."""
        with Server("--sessions", 1, "--drain", 60) as server:
            stream = Stream(server, "/v1/completions", **LONG)
            events = stream.events()
            next(events)
            server.stop()
            for _ in range(100):
                if server.request("GET", "/readyz")[0] == 503:
                    break
                time.sleep(0.05)
            self.assertEqual(server.request("GET", "/health")[2]["error"]["code"], "draining")
            self.assertEqual(server.request("GET", "/livez")[0], 200)
            self.assertEqual(server.request("POST", CHAT, {"messages": user("hello")})[2]["error"]["code"], "draining")
            self.assertEqual(list(events)[-1], "[DONE]")
            begin = time.monotonic()
            server.end()
            self.assertLess(time.monotonic() - begin, 10)
        with Server("--sessions", 1, "--drain", 1) as server:
            events = Stream(server, "/v1/completions", **LONG).events()
            next(events)
            begin = time.monotonic()
            server.stop(signal.SIGINT)
            rest = list(events)
            if rest[-1] != "[DONE]":  # it may have been fast enough
                self.assertEqual(rest[-1]["error"]["code"], "unavailable")
                self.assertGreater(time.monotonic() - begin, 0.9)

    def test_a_local_socket(self):
        path = FOLDER / "socket"
        for _ in range(2):
            process = subprocess.Popen([BIN / "weft", "serve", "--unix", path, "--host", "0.0.0.0", "--log", "-"], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            with process:
                self.assertIn(f"at unix:{path} with", process.stderr.readline().decode())
                self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                    client.sendall(post_bytes(CHAT, {"messages": user("hello"), "max_tokens": 2, "stream": True}, "Connection: close"))
                    got = b""
                    while part := client.recv(65536):
                        got += part
                self.assertTrue(got.startswith(b"HTTP/1.1 200 OK") and got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), got)
                self.assertIn("in use", weft("serve", "--unix", path, expect=1)[1])
                process.send_signal(signal.SIGKILL if _ == 0 else signal.SIGTERM)  # a socket that nobody listens on is replaced
                out, _err = process.communicate(timeout=60)
            self.assertEqual(json.loads(out)["client"], "unix")
        self.assertFalse(path.exists())
        (FOLDER / "file").write_text("mine")
        self.assertIn("in use", weft("serve", "--unix", FOLDER / "file", expect=1)[1])
        self.assertEqual((FOLDER / "file").read_text(), "mine")
        self.assertIn("socket cannot be used", weft("serve", "--unix", "/x" * 100, expect=1)[1])
