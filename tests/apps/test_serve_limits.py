"""`weft serve`: queues, deadlines, keys, a lost device, and clients that are rude or many."""
import concurrent.futures
import json
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from serving import CHAT, Server, Stream, parse_metrics, post_bytes, user
from support import ROOT, losing_device_at, model, plain, weft, weft_json


class ServeLimits(unittest.TestCase):
    """Servers of their own: queues, deadlines, keys, and clients that leave."""

    ENDLESS = {"prompt": [5, 6, 7], "temperature": 0.5, "seed": 1, "regex": "[^!]{8000}"}  # until the context is full
    QUICK = {"prompt": [5], "max_tokens": 1}

    def endless(self, server):
        """A stream that has begun."""
        stream = Stream(server, "/v1/completions", **self.ENDLESS)
        next(stream.events())
        return stream

    def until_answered(self, server):
        """The answer of the first quick request that is not refused."""
        for _ in range(600):
            status, _, answer = server.request("POST", "/v1/completions", self.QUICK)
            if status == 200:
                return answer
            self.assertIn(status, (429, 503))
            time.sleep(0.05)
        self.fail("the place is not free")

    def test_the_device_is_lost(self):
        """The requests under way are told so, and the server goes on."""
        request = {"prompt": [5, 6, 7], "max_tokens": 48, "temperature": 1, "seed": 4, "regex": "[^!]{800}"}
        with Server() as server:
            _, _, want = server.request("POST", "/v1/completions", request)
        with Server(env=losing_device_at(60)) as server:
            status, _, answer = server.request("POST", "/v1/completions", request)
            self.assertEqual((status, answer["error"]["code"]), (503, "device_lost"))
            status, _, answer = server.request("POST", "/v1/completions", request)
            self.assertEqual((status, answer.get("choices")), (200, want["choices"]), answer)
            self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_the_system_accepts_no_more_connections(self):
        """The server says so and ends after a while, so that what watches it starts it again."""
        source = """
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <errno.h>
            #include <sys/socket.h>
            static int accepted;
            int accept(int fd, struct sockaddr* address, socklen_t* length) {
              int (*real)(int, struct sockaddr*, socklen_t*) = (int (*)(int, struct sockaddr*, socklen_t*))dlsym(RTLD_NEXT, "accept");
              if (accepted == 0) {
                int got = real(fd, address, length);
                accepted += got >= 0;
                return got;
              }
              errno = ENFILE;
              return -1;
            }
            int accept4(int fd, struct sockaddr* address, socklen_t* length, int flags) {
              (void)flags;
              return accept(fd, address, length);
            }"""
        with tempfile.TemporaryDirectory() as folder:
            library = f"{folder}/accept.so"
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=source, text=True, check=True)
            server = Server(env={"LD_PRELOAD": library})
            self.assertEqual(server.request("GET", "/health")[0], 200)
            _, err = server.process.communicate(timeout=60)
        self.assertEqual(server.process.returncode, 1, err)
        self.assertIn(f"http://127.0.0.1:{server.port}/: the system accepts no more connections", err.decode())

    def test_a_full_queue(self):
        with Server("--sessions", 1, "--queue", 0) as server:
            stream = self.endless(server)
            status, headers, answer = server.request("POST", "/v1/completions", self.QUICK)
            self.assertEqual((status, headers.get("Retry-After"), answer.get("error", {}).get("code")), (429, "1", "queue_full"))
            stream.close()
            self.assertEqual(self.until_answered(server)["usage"]["completion_tokens"], 1)

    def test_clients_that_leave_free_their_places(self):
        with Server("--sessions", 2, "--queue", 100) as server:
            figures = server.post("/v1/completions", **self.ENDLESS)["usage"]
            self.assertEqual(figures["total_tokens"], 512)
            seconds = figures["completion_tokens"] / figures["weft"]["decode_tokens_per_s"]
            begin = time.monotonic()
            for i in range(100):
                client = server.socket()
                client.sendall(post_bytes("/v1/completions", dict(self.ENDLESS, stream=i % 2 == 0)))
                time.sleep(0.01)
                client.close()
            server.post("/v1/completions", **self.QUICK)
            self.assertLess(time.monotonic() - begin, 10 * seconds + 2)  # 50 if each were answered, two at a time

    def test_who_waits_hears_of_it(self):
        with Server("--sessions", 1, "--queue", 100) as server:
            seconds = 0
            begin = time.monotonic()
            server.post("/v1/completions", **self.ENDLESS)
            seconds = time.monotonic() - begin
            clients = []
            for _ in range(3 + int(8 / seconds)):  # longer than the silence that is allowed, twice
                clients.append(server.socket())
                clients[-1].sendall(post_bytes("/v1/completions", self.ENDLESS))
            time.sleep(0.2)
            late = Stream(server, CHAT, messages=user("hello"), max_tokens=1)
            lines = late.events()
            self.assertEqual(next(lines)["choices"][0]["delta"]["role"], "assistant")
            while ": keep-alive\n" not in late.lines:
                late.lines.append(late.answer.readline().decode())
            for client in clients:
                client.close()
            self.assertEqual(list(lines)[-1], "[DONE]")
            # The error then comes in the stream.
            streams = [self.endless(server)]
            for _ in range(3 + int(8 / seconds)):
                clients.append(server.socket())
                clients[-1].sendall(post_bytes("/v1/completions", self.ENDLESS))
            wrong = Stream(server, CHAT, messages=user("hello"), regex="(")
            events = wrong.events()
            next(events)
            for client in (*clients, *streams):
                client.close()
            self.assertEqual([event["error"]["param"] for event in events], ["regex"])

    def test_the_deadline(self):
        with Server("--sessions", 1, "--deadline", 2) as server:
            clients = [server.socket() for _ in range(30)]  # more than anyone can answer in that time
            for client in clients:
                client.sendall(post_bytes("/v1/completions", self.ENDLESS))
            status, _, answer = server.request("POST", "/v1/completions", self.ENDLESS)
            self.assertEqual((status, answer.get("error", {}).get("code")), (503, "deadline_exceeded"))
            for client in clients:
                client.close()
            self.until_answered(server)

    def test_slow_readers_and_senders(self):
        with Server("--sessions", 1) as server:
            # The server does not wait for a client that does not read: the place is free when the text is there.
            lazy = server.socket()
            lazy.sendall(post_bytes("/v1/completions", dict(self.ENDLESS, stream=True)))
            # A client that sends slowly, or nothing, keeps no other one waiting.
            drops = [server.socket() for _ in range(20)]
            for i, client in enumerate(drops):
                client.sendall(post_bytes("/v1/completions", self.QUICK)[:i * 9])
            self.assertEqual(server.post("/v1/completions", **self.QUICK)["usage"]["completion_tokens"], 1)
            for client in (lazy, *drops):
                client.close()

    def test_a_client_that_does_not_read(self):
        """It is given up after 10 s; one that reads slowly gets everything."""
        with Server("--sessions", 1) as server:
            clients = []
            for _ in range(2):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.settimeout(60)
                client.connect(("127.0.0.1", server.port))
                client.sendall(post_bytes("/tokenize", {"content": "a" * 2500000}, "Connection: close"))
                clients.append(client)
            slow, got = clients[1], b""
            for client in clients:
                client.recv(1, socket.MSG_PEEK)  # its answer begins
            begin = time.monotonic()
            while time.monotonic() - begin < 14:
                got += slow.recv(1 << 16)
                time.sleep(0.1)
            server.post("/v1/completions", **self.QUICK)
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            for client in clients:
                rest = got if client is slow else b""
                while part := client.recv(1 << 20):
                    rest += part
                client.close()
                head, _, body = rest.partition(b"\r\n\r\n")
                length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
                if client is slow:
                    self.assertEqual(len(body), length)
                else:
                    self.assertTrue(0 < len(body) < length, (len(body), length))

    def test_metrics_for_prometheus(self):
        """What its own parser makes of them."""
        try:
            from prometheus_client.parser import text_string_to_metric_families
        except ImportError:
            self.skipTest("prometheus_client is not installed")
        with Server() as server:
            server.post("/v1/completions", **self.QUICK)
            text = server.request("GET", "/metrics")[2]
            families = {family.name: family for family in text_string_to_metric_families(text)}
            values, types = parse_metrics(text)
            self.assertEqual({name.removesuffix("_total"): kind for name, kind in types.items()}, {name: family.type for name, family in families.items()})
            self.assertEqual(sum(len(family.samples) for family in families.values()), len(values))
            self.assertEqual({sample.labels["outcome"]: sample.value for sample in families["weft_requests"].samples}["length"], 1)

    def test_keys(self):
        with Server("--host", "0.0.0.0", env={"WEFT_API_KEY": "correct-horse"}) as server:
            ask = lambda key: server.request("POST", CHAT, {"messages": user("hello"), "max_tokens": 1}, key and {"Authorization": key})
            for key in (None, "", "Bearer", "Bearer ", "Bearer correct-hors", "Bearer correct-horses", "correct-horse", "Basic correct-horse"):
                status, headers, answer = ask(key)
                self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"), key)
            self.assertEqual(ask("Bearer correct-horse")[0], 200)
            self.assertEqual(server.request("GET", "/health")[0], 200)
            self.assertEqual(server.request("GET", "/")[0], 200)
            self.assertEqual(server.request("GET", "/v1/models")[0], 401)
            self.assertEqual(server.request("GET", "/nothing")[0], 401)
            # A key lets any name reach it.
            headers = {"Host": "models.example", "Authorization": "Bearer correct-horse"}
            self.assertEqual(server.request("GET", "/v1/models", headers=headers)[0], 200)

    def metrics(self, server):
        status, headers, text = server.request("GET", "/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        return parse_metrics(text)

    def until_metrics(self, server, **wanted):
        """Waits until the metrics have these values, and returns all. A stream is counted after its last byte."""
        for _ in range(600):
            values, _ = self.metrics(server)
            if all(values[name] == value for name, value in wanted.items()):
                return values
            time.sleep(0.05)
        self.fail({name: values[name] for name in wanted})

    def test_guesses(self):
        """The same answers with guesses as without, of several sessions at once; usage and metrics count them."""
        answers = {}
        for kind in ("off", "lookup"):
            with Server("--speculate", kind, "--sessions", 3) as server, concurrent.futures.ThreadPoolExecutor() as pool:
                # The bias has each answer repeat a token of its own.
                ask = lambda id: server.post("/v1/completions", prompt="Once upon a time", temperature=0, max_tokens=60, logit_bias={str(id): 100})
                answers[kind] = list(pool.map(ask, (400, 500, 600)))
                drafted, accepted = (sum(answer["usage"]["weft"][name] for answer in answers[kind]) for name in ("drafted_tokens", "accepted_tokens"))
                self.assertEqual([drafted > 0, accepted > drafted / 2], [kind == "lookup"] * 2)
                self.until_metrics(server, weft_requests_running=0, weft_drafted_tokens_total=drafted, weft_accepted_tokens_total=accepted)
        self.assertEqual(*([answer["choices"][0]["text"] for answer in of] for of in answers.values()))

    def test_metrics(self):
        outcome = lambda name: f'weft_requests_total{{outcome="{name}"}}'
        with Server("--sessions", 2, "--queue", 0) as server:
            values, types = self.metrics(server)
            self.assertEqual(types, {"weft_requests_total": "counter", "weft_requests_waiting": "gauge", "weft_requests_running": "gauge",
                                     "weft_sessions_limit": "gauge", "weft_prompt_tokens_total": "counter", "weft_prompt_cached_tokens_total": "counter",
                                     "weft_generated_tokens_total": "counter", "weft_head_read_bytes_total": "counter",
                                     "weft_drafted_tokens_total": "counter", "weft_accepted_tokens_total": "counter",
                                     "weft_time_to_first_token_seconds": "histogram", "weft_time_between_tokens_seconds": "histogram"})
            self.assertEqual(values.pop("weft_sessions_limit"), 2)
            self.assertEqual(set(values.values()), {0})
            begin = time.monotonic()
            question = {"messages": user("tell me a story about a cat"), "temperature": 0, "max_tokens": 20}
            first, second = (server.post(CHAT, **question)["usage"] for _ in range(2))
            hello = list(Stream(server, CHAT, messages=user("hello"), temperature=0, head="certified",
                                stream_options={"include_usage": True}).events())[-2]["usage"]
            passed = time.monotonic() - begin
            self.assertEqual(server.request("POST", CHAT, {"messages": []})[0], 400)
            self.assertEqual(server.request("POST", "/v1/completions", {"prompt": [5], "regex": "("})[0], 400)
            values = self.until_metrics(server, **{outcome("length"): 2, outcome("stop"): 1, outcome("invalid"): 2, "weft_requests_running": 0})
            usages = (first, second, hello)
            total = lambda pick: sum(map(pick, usages))
            self.assertEqual(values["weft_prompt_tokens_total"], total(lambda usage: usage["prompt_tokens"]))
            cached = total(lambda usage: usage["prompt_tokens_details"]["cached_tokens"])
            self.assertGreater(cached, 0)
            self.assertEqual(values["weft_prompt_cached_tokens_total"], cached)
            tokens = total(lambda usage: usage["completion_tokens"])
            self.assertEqual(values["weft_generated_tokens_total"], tokens)
            read = total(lambda usage: usage["completion_tokens"] * usage["weft"]["head_bytes_per_token"])
            self.assertAlmostEqual(values["weft_head_read_bytes_total"], read, delta=tokens)
            self.assertEqual(values["weft_time_to_first_token_seconds_count"], 3)
            self.assertEqual(values["weft_time_between_tokens_seconds_count"], tokens - 3)
            self.assertGreaterEqual(values["weft_time_to_first_token_seconds_sum"], total(lambda usage: usage["weft"]["first_token_s"]))
            between = total(lambda usage: (usage["completion_tokens"] - 1) / usage["weft"]["decode_tokens_per_s"])
            self.assertAlmostEqual(values["weft_time_between_tokens_seconds_sum"] / between, 1, delta=0.3)
            self.assertLess(values["weft_time_to_first_token_seconds_sum"] + values["weft_time_between_tokens_seconds_sum"], passed)
            # Places that are taken, those who find none, and those who leave.
            streams = [self.endless(server) for _ in range(2)]
            self.assertEqual(server.request("POST", "/v1/completions", self.QUICK)[0], 429)
            self.until_metrics(server, **{"weft_requests_running": 2, outcome("queue_full"): 1, outcome("cancelled"): 0})
            for stream in streams:
                stream.close()
            self.until_metrics(server, **{"weft_requests_running": 0, outcome("cancelled"): 2, outcome("failed"): 0})
        with Server("--sessions", 1, "--queue", 9, "--deadline", 2, "--api-key", "secret") as server:
            self.assertEqual(server.request("GET", "/metrics")[0], 401)
            key = {"Authorization": "Bearer secret"}
            clients = []
            for _ in range(8):
                clients.append(server.socket())
                clients[-1].sendall(post_bytes("/v1/completions", self.ENDLESS, "Authorization: Bearer secret"))
            time.sleep(0.5)
            values, _ = parse_metrics(server.request("GET", "/metrics", headers=key)[2])
            self.assertEqual((values["weft_requests_waiting"] + values["weft_requests_running"] + values[outcome("length")], values["weft_sessions_limit"]), (8, 1))
            self.assertGreater(values["weft_requests_waiting"], 0)
            self.assertGreater(server.request("POST", "/v1/completions", self.ENDLESS, key)[0], 0)
            for client in clients:
                client.recv(10)
                client.close()
            values, _ = parse_metrics(server.request("GET", "/metrics", headers=key)[2])
            self.assertEqual(values[outcome("deadline")] + values[outcome("length")], 9)
            self.assertGreater(values[outcome("deadline")], 0)

    def test_the_dashboard(self):
        """What deploy/ asks for is there."""
        deploy = ROOT / "apps/serve/deploy"
        dashboard = json.loads((deploy / "grafana.json").read_text())
        asked = {name for panel in dashboard["panels"] for target in panel["targets"] for name in re.findall(r"weft_[a-z_]+", target["expr"])}
        with Server("--sessions", 1) as server:
            values, _ = self.metrics(server)
            self.assertEqual(server.request("GET", "/health")[0], 200)
        self.assertEqual(asked - {name.partition("{")[0] for name in values}, set())
        self.assertGreaterEqual(len(asked), 10)
        known = weft("serve", "--help")[0]
        for file in ("Containerfile", "kubernetes.yaml", "weft-serve.service"):
            for option in re.findall(r'(?<=["\s])--[a-z-]+(?=["\s])', "\n".join(line for line in (deploy / file).read_text().splitlines()
                                                                              if re.search(r"args:|ENTRYPOINT|ExecStart", line))):
                self.assertIn(option + " ", known, file)

    def test_cors(self):
        ask = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type,x-own"}
        cors = lambda answer: {name: value for name, value in answer[1].items() if name.startswith("Access-Control")}
        with Server() as server:
            answer = server.request("OPTIONS", CHAT, headers=ask)
            self.assertEqual((answer[0], cors(answer)), (405, {}))
            self.assertEqual(cors(server.request("GET", "/v1/models", headers=ask)), {})
        with Server("--cors", "https://app.example") as server:
            answer = server.request("OPTIONS", CHAT, headers=ask)
            origin = {"Access-Control-Allow-Origin": "https://app.example"}
            self.assertEqual((answer[0], cors(answer)), (204, {**origin, "Access-Control-Allow-Methods": "GET, POST", "Access-Control-Max-Age": "600",
                                                               "Access-Control-Allow-Headers": ask["Access-Control-Request-Headers"]}))
            for method, path, status in (("GET", "/v1/models", 200), ("GET", "/nothing", 404), ("OPTIONS", CHAT, 405)):
                answer = server.request(method, path, headers={"Origin": "https://app.example"})
                self.assertEqual((answer[0], cors(answer)), (status, origin))
            stream = Stream(server, CHAT, messages=user("hello"), max_tokens=1)
            self.assertEqual(stream.answer.headers["Access-Control-Allow-Origin"], "https://app.example")
            list(stream.events())
            self.assertEqual(server.request("OPTIONS", CHAT, headers={**ask, "Host": "evil.example"})[0], 403)
        with Server("--cors", "*", "--api-key", "secret") as server:
            self.assertEqual(cors(server.request("OPTIONS", CHAT, headers=ask))["Access-Control-Allow-Origin"], "*")
            answer = server.request("GET", "/v1/models", headers=ask)  # the page must be able to read why
            self.assertEqual((answer[0], cors(answer)), (401, {"Access-Control-Allow-Origin": "*"}))

    def test_what_it_refuses_to_serve(self):
        for options, word in [(["--host", "0.0.0.0"], "--api-key"), (["--api-key", "x", "--no-key"], "contradicts"),
                              (["--api-key", "a b"], "no spaces"), (["--sessions", 65], "1 to 64"), (["--cors", "app.example"], "origin"),
                              (["--cors", "https://app.example/"], "origin"), (["--cors", "https://"], "origin"), (["--port", 65536], "65535")]:
            _, err = weft("serve", *options, expect=2)
            self.assertIn(word, err)
        for _ in range(5):  # it ends although it has begun to listen
            _, err = weft("serve", "--port", 0, "-m", "/nowhere.gguf", expect=1)
            self.assertIn("/nowhere.gguf", err)
        with Server() as server:
            _, err = weft("serve", "--port", server.port, expect=1)
            self.assertIn("the address cannot be used", err)

    def test_a_model_without_a_template(self):
        with Server("-m", plain()) as server:
            status, _, answer = server.request("POST", CHAT, {"messages": user("hello")})
            self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, "unsupported", "messages"))
            self.assertEqual(server.request("GET", "/v1/models")[2]["data"][0]["id"], "plain")
            ids = ",".join(map(str, [5, 6, 7]))
            want = weft_json("generate", "-m", plain(), "--prompt-ids", ids, "-n", 9, "--temperature", 0)["text"]
            self.assertEqual(server.post("/v1/completions", prompt=[5, 6, 7], max_tokens=9, temperature=0)["choices"][0]["text"], want)

    def test_a_template_that_cannot_be_used(self):
        for number, (template, word) in enumerate((("{% for m in messages %}", "'endfor' is missing"), ("\n{{ messages | nonesuch }}", "line 2: not supported yet: the filter 'nonesuch'"),
                               ("{{ messages[0].content | trim(x=1) }}", "the filter 'trim' has no argument 'x'"))):
            with Server("-m", model(f"template-bad-{number}.gguf", "--chat-template", template)) as server:
                status, _, answer = server.request("POST", CHAT, {"messages": user("hello")})
                self.assertIn(status, (400, 500))
                self.assertIn(word, answer["error"]["message"])

    def test_it_ends_when_told(self):
        with Server("--sessions", 1) as server:
            stream = self.endless(server)
            server.stop(signal.SIGINT)
            self.assertEqual([event["error"]["code"] for event in stream.events() if "error" in event], ["unavailable"])


