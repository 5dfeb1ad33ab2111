"""`weft serve` as an operator sees it: probes, request ids, the log, keys, draining, a local socket."""
import concurrent.futures
import http.client
import json
import re
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

    def test_a_log_whose_reader_has_gone(self):
        """Lines are lost, not the server."""
        server = Server("--sessions", 1, "--log", "-")
        server.process.stdout.close()
        for _ in range(3):
            server.post("/tokenize", content="a")
            time.sleep(0.1)
        server.stop()
        server.process.stderr.read()
        self.assertEqual(server.process.wait(60), 0)

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
        for text, words in (("alice", "line 1"), ("alice a b", "line 1"), ("alice a tokens=0", "line 1"), ("alice a requests=1x", "line 1"), ("alice a tokens=", "line 1"), ("alice a\nalice b", "line 2"), ("\nalice \x7f", "line 2"), ("# nothing\n", "no key")):
            keys.write_text(text)
            self.assertIn(words, weft("serve", "--api-keys", keys, expect=2)[1])
        self.assertIn("cannot be read", weft("serve", "--api-keys", FOLDER / "no-such-file", expect=1)[1])
        self.assertIn("cannot be written", weft("serve", "--log", "/no/such/folder", expect=1)[1])

    def test_limits_of_a_key(self):
        keys = FOLDER / "keys"
        keys.write_text("alice one requests=30\nbob two tokens=100\ncarol three concurrent=1\ndan four\neve five requests=1 tokens=60\n")
        with Server("--sessions", 2, "--api-keys", keys) as server:
            ask = lambda key, path="/tokenize", **body: server.request("POST", path, body or {"content": "a"}, {"X-Api-Key": key})
            # A minute's requests at once; then one each two seconds, as the answer says.
            status = 200
            asked = 0
            while status == 200:
                status, headers, answer = ask("one")
                asked += 1
            self.assertEqual((status, answer["error"]["code"], answer["error"]["type"]), (429, "rate_limited", "rate_limit_error"))
            self.assertIn(asked, range(31, 45))
            self.assertIn(int(headers["Retry-After"]), (1, 2))
            time.sleep(int(headers["Retry-After"]))
            self.assertEqual(ask("one")[0], 200)
            # Tokens of prompts and answers count when the answer has ended.
            begin = time.monotonic()
            self.assertEqual(ask("two", "/v1/completions", prompt=[5] * 195, max_tokens=5, regex="[a-z]{40}")[0], 200)
            status, headers, answer = ask("two", "/v1/messages", messages=user("a"), max_tokens=1)
            self.assertEqual((status, answer["error"]["type"], answer["error"]["code"]), (429, "rate_limit_error", "rate_limited"))
            wait = (200 + 1 - 100) * 60 / 100
            self.assertIn(int(headers["Retry-After"]), range(int(wait - (time.monotonic() - begin)), int(wait) + 2))
            # Two limits: the longer wait.
            self.assertEqual(ask("five", "/v1/completions", prompt=[5] * 195, max_tokens=5, regex="[a-z]{40}")[0], 200)
            status, headers, answer = ask("five")
            self.assertIn("1 requests a minute", answer["error"]["message"])
            self.assertIn(int(headers["Retry-After"]), range(130, 143))
            stream = Stream(server, "/v1/completions", {"Authorization": "Bearer three"}, **LONG)
            next(stream.events())
            self.assertEqual(ask("three")[0], 429)
            self.assertEqual(ask("four")[0], 200)
            stream.close()
            for _ in range(400):
                if ask("three")[0] == 200:
                    break
                time.sleep(0.05)
            self.assertEqual(ask("three")[0], 200)
            self.assertEqual(ask("four", "/v1/messages/count_tokens", model="m", messages=user("a"))[0], 200)
            self.assertIn('outcome="cancelled"} 1\n', server.request("GET", "/metrics", headers={"X-Api-Key": "four"})[2])  # the stream's alone
            self.assertIn('outcome="limited"} 1\n', server.request("GET", "/metrics", headers={"X-Api-Key": "four"})[2])
            # SIGHUP: other keys; what was used stays; a wrong file changes nothing.
            for text, states in (("alice new\nbob 2 tokens=100\n", {"new": 200, "2": 429, "one": 401, "four": 401}), ("alice\n", {"new": 200, "2": 429}), ("dan five\n", {"five": 200, "new": 401})):
                keys.write_text(text)
                server.process.send_signal(signal.SIGHUP)
                said = server.process.stderr.readline().decode()
                self.assertIn("line 1" if text == "alice\n" else "read again", said)
                if text == "alice\n":
                    self.assertIn("of before", server.process.stderr.readline().decode())
                self.assertEqual({key: ask(key)[0] for key in states}, states)

    def test_priorities_of_keys(self):
        """Whoever waits with a higher priority gets the next session, and in order of arrival among equals."""
        keys = FOLDER / "keys"
        keys.write_text("batch one\nbatch2 two priority=1\nuser three priority=7\nowner four priority=7\n")
        with Server("--sessions", 1, "--api-keys", keys) as server, concurrent.futures.ThreadPoolExecutor(5) as pool:
            stream = Stream(server, "/v1/completions", {"X-Api-Key": "one"}, **LONG)
            next(stream.events())
            ended = []
            def ask(key):
                self.assertEqual(server.request("POST", "/v1/completions", {"prompt": [5], "max_tokens": 30}, {"X-Api-Key": key})[0], 200)
                ended.append(key)
            asked = []
            for count, key in enumerate(("one", "two", "three", "four"), 1):
                asked.append(pool.submit(ask, key))
                while f"weft_requests_waiting {count}\n" not in server.request("GET", "/metrics", headers={"X-Api-Key": "one"})[2]:
                    time.sleep(0.02)
            stream.close()
            for one in asked:
                one.result()
            self.assertEqual(ended, ["three", "four", "two", "one"])

    def test_a_port_for_metrics(self):
        with Server("--sessions", 1, "--admin-port", 0, "--api-key", "secret") as server:
            ports = server.port, int(re.search(r", metrics at http://127.0.0.1:(\d+)/\.", server.greeting)[1])
            for method, path, codes in (("GET", "/metrics", ("not_found", None)), ("GET", "/slots", ("not_found", "slots_off")), ("GET", "/livez", (None, None)),
                                        ("GET", "/readyz", (None, None)), ("GET", "/v1/models", (None, "not_found")), ("GET", "/", (None, "not_found")),
                                        ("POST", "/slots/0?action=erase", ("not_found", "slots_off")), ("POST", "/tokenize", (None, "not_found"))):
                for server.port, code in zip(ports, codes):
                    status, _, answer = server.request(method, path, {"content": "a"} if method == "POST" else None, {"X-Api-Key": "secret"})
                    self.assertEqual((status, answer["error"]["code"] if status != 200 else None), (404 if code else 200, code), (method, path))
            self.assertEqual(server.request("GET", "/metrics")[0], 401)

    def test_options_in_a_file(self):
        config = FOLDER / "serve.toml"
        config.write_text('# ours\nsessions = 3\nallow-host = ["a.example", "b.example"]\nno-key = true\n')
        for options, sessions in (((), 3), (("--sessions", 2), 2), (("--sessions=2", "--allow-host", "c.example"), 2)):
            with Server("--config", config, *options) as server:
                self.assertIn(f"weft_sessions_limit {sessions}\n", server.request("GET", "/metrics")[2])
                hosts = {host: server.request("GET", "/livez", headers={"Host": host})[0] for host in ("a.example", "b.example", "c.example")}
                self.assertEqual(hosts, dict(zip(hosts, (403, 403, 200) if len(options) == 3 else (200, 200, 403))))
        for text, words in (("sesions = 3", "there is no option sesions"), ("no-key = 3", "true or false"), ("[serve]\nsessions = 3", "section"), ("sessions = 0", "--sessions"),
                            ('config = "a"', "there is no option config"), ("sessions = 1.5", "--sessions"), ("sessions = many", "serve.toml, line 1: 'many' is no value"),
                            ("no-key = true\n\nno-key = true", "serve.toml, line 3: it has no-key twice"), ("host = [1, 2]", "line 1: host has one value"),
                            ('host = "a', "no end on its line"), ("host = [", "is no value"), ("a.port = 1", "there must be ="), ("port 1", "there must be ="), ("port = 1 2", "more after"),
                            ('host = """a"""', "several lines"), (r'host = "\x"', "there may be"), ("port =", "is no value")):
            config.write_text(text + "\n")
            self.assertIn(words, weft("serve", "--config", config, expect=2)[1])
        for file in (FOLDER / "no-such-file", FOLDER):
            self.assertIn("cannot be read", weft("serve", "--config", file, expect=2)[1])

    def test_texts_in_a_file_of_options(self):
        config, log = FOLDER / "serve.toml", FOLDER / "a # log"
        config.write_text(f'cors = ""  # none\napi-key = "secret#1" # ours\nallow-host = [ # two\n  "a.example",\n  \'b.example\', # the second\n]\nlog = "{log}"\nsessions = 2')
        with Server("--config", config) as server:
            for key, status in (("secret#1", 200), ("secret", 401), ('"secret', 401)):
                self.assertEqual(server.request("GET", "/metrics", headers={"X-Api-Key": key, "Host": "b.example"})[0], status)
            self.assertIn("weft_sessions_limit 2\n", server.request("GET", "/metrics", headers={"X-Api-Key": "secret#1"})[2])
        self.assertTrue(log.exists())

    def test_the_port_for_metrics_needs_a_key_where_others_reach_it(self):
        for options in (("--unix", FOLDER / "socket"), ()):
            self.assertIn("requires --api-key", weft("serve", *options, "--host", "0.0.0.0", "--admin-port", 0, expect=2)[1])

    def test_hosts_and_traces(self):
        log, trace = FOLDER / "traces", "0af7651916cd43dd8448eb211c80319c"
        with Server("--sessions", 1, "--allow-host", "weft.example", "--allow-host", "b.example", "--log", log) as server:
            for host, status in (("weft.example", 200), ("weft.example:80", 200), ("Weft.EXAMPLE", 200), ("LocalHost", 200), ("b.example", 200), ("c.example", 403), ("weft.example.c", 403)):
                self.assertEqual(server.request("GET", "/livez", headers={"Host": host})[0], status)
            for parent in (f"00-{trace}-b7ad6b7169203331-01", f"00-{trace}-b7ad6b7169203331", f"00-{trace}-b7ad6b7169203331-01-", f"00-{trace.upper()}-b7ad6b7169203331-01", "00"):
                server.request("GET", "/readyz", headers={"traceparent": parent})
        self.assertEqual([line.get("trace") for line in lines_of(log) if line["path"] == "/readyz"], [trace, None, None, None, None])

    def test_memory_for_bodies(self):
        """What other requests have sent so far counts; when they have gone, there is room again."""
        with Server("--sessions", 1, "--memory", 8) as server:
            body = {"content": "a" * 1000000}
            for _ in range(20):  # on a slow machine the two may not be read yet, or be given up
                clients = [server.socket() for _ in range(2)]
                for client in clients:
                    client.sendall(post_bytes("/tokenize", b"x" * 4000000)[:-1])
                time.sleep(0.5)
                status, headers, answer = server.request("POST", "/tokenize", body)
                if status == 429:
                    break
                for client in clients:
                    client.close()
            self.assertEqual((status, headers["Retry-After"], answer["error"]["code"]), (429, "1", "memory_full"))
            self.assertEqual(server.request("POST", "/tokenize", {"content": "a"})[0], 200)
            for client in clients:
                client.close()
            for _ in range(400):
                if server.request("POST", "/tokenize", body)[0] == 200:
                    break
                time.sleep(0.05)
            self.assertEqual(server.request("POST", "/tokenize", body)[0], 200)

    def test_systemd(self):
        """Its socket, which only listens with a key if others can reach it, and its notices."""
        def serve(listener, *options, notify=""):
            return subprocess.Popen(["bash", "-c", f'LISTEN_PID=$$ exec "$0" serve "$@" 3<&{listener.fileno()}', BIN / "weft", *options], pass_fds=(listener.fileno(),),
                                    env=dict(ENV, LISTEN_FDS="1", NOTIFY_SOCKET=notify), stderr=subprocess.PIPE)
        manager = FOLDER / "manager"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices, socket.create_server(("127.0.0.1", 0)) as listener:
            notices.bind(str(manager))
            notices.settimeout(120)
            process = serve(listener, notify=str(manager))
            self.assertEqual(notices.recv(100), b"READY=1")
            client = http.client.HTTPConnection(*listener.getsockname(), timeout=60)
            client.request("GET", "/readyz")
            self.assertEqual(client.getresponse().status, 200)
            client.close()
            process.terminate()
            self.assertEqual(notices.recv(100), b"STOPPING=1")
            self.assertIn("LISTEN_FDS", process.communicate(timeout=60)[1].decode())
            self.assertEqual(process.returncode, 0)
        with socket.create_server(("0.0.0.0", 0)) as listener:
            process = serve(listener)
            self.assertIn("--no-key", process.communicate(timeout=60)[1].decode())
            self.assertEqual(process.returncode, 2)
        with socket.socket() as deaf:
            process = serve(deaf)
            self.assertIn("listens", process.communicate(timeout=60)[1].decode())

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
