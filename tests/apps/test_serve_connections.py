"""`weft serve`: connections that are many, idle, half open or slow, and its end while they are there."""
import contextlib
import pathlib
import resource
import signal
import socket
import threading
import time
import unittest

from serving import CHAT, Server, Stream, post_bytes, user
from support import weft

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONG = {"prompt": [5, 6, 7], "temperature": 0.5, "seed": 1, "regex": "[^!]{8000}"}  # until the context is full


def threads_of(server):
    return int(pathlib.Path(f"/proc/{server.process.pid}/status").read_text().partition("Threads:")[2].split()[0])


def resident(server):
    return int(pathlib.Path(f"/proc/{server.process.pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024  # MiB


class ServeConnections(unittest.TestCase):
    def test_ten_thousand_idle_connections(self):
        """They cost neither threads nor time of others."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = min(10000, hard - 1000)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with Server("--sessions", 1, env={"VK_INSTANCE_LAYERS": ""}) as server, contextlib.ExitStack() as stack:
            self.assertEqual(server.request("GET", "/health")[0], 200)
            threads, before = threads_of(server), resident(server)
            begin = time.monotonic()
            for number in range(count):
                # Each has an address of its own loopback network, for there are not so many ports.
                client = stack.enter_context(socket.socket())
                client.bind((f"127.0.{1 + number // 5000}.1", 0))
                client.connect(("127.0.0.1", server.port))
                client.sendall(HEALTH[:number % len(HEALTH)])
            times = []
            for _ in range(20):
                asked = time.monotonic()
                self.assertEqual(server.request("GET", "/health")[0], 200)
                times.append(time.monotonic() - asked)
            took, more = time.monotonic() - begin, resident(server) - before
            print(f"{count} connections in {took:.1f} s, {more:.0f} MiB, /health in {sorted(times)[10] * 1e3:.1f} ms (most {max(times) * 1e3:.1f})", end=" ", flush=True)
            self.assertLess(sorted(times)[10], 0.05)
            self.assertLess(more, 100)
            self.assertLessEqual(threads_of(server), threads)  # the driver may have ended some of its own
            begin = time.monotonic()
            server.end()
            self.assertLess(time.monotonic() - begin, 4)

    def test_more_connections_than_files(self):
        """Beyond the limit the one that has been idle for longest gives way: others are answered."""
        def limited():
            resource.setrlimit(resource.RLIMIT_NOFILE, (320, 320))
        with Server("--sessions", 1, start=limited) as server, contextlib.ExitStack() as stack:
            clients = []
            for _ in range(4):
                clients += [stack.enter_context(server.socket()) for _ in range(30)]
                time.sleep(1.2)
            begin = time.monotonic()
            self.assertEqual(server.request("GET", "/health")[0], 200)
            self.assertLess(time.monotonic() - begin, 5)
            clients[0].settimeout(5)
            self.assertEqual(clients[0].recv(1), b"")
            clients[-1].sendall(HEALTH)
            self.assertTrue(clients[-1].recv(100).startswith(b"HTTP/1.1 200"))

    def test_a_slow_reader_keeps_nobody_waiting(self):
        with Server("--sessions", 4) as server:
            slow = []
            for _ in range(2):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.connect(("127.0.0.1", server.port))
                client.sendall(post_bytes("/v1/completions", {**LONG, "stream": True, "logprobs": 5}))
                slow.append(client)
            time.sleep(0.3)
            begin = time.monotonic()
            alone = list(Stream(server, CHAT, messages=user("hello"), temperature=0).events())
            self.assertEqual(alone[-1], "[DONE]")
            self.assertLess(time.monotonic() - begin, 8)
            for client in slow:
                client.close()

    def test_it_ends_while_requests_are_half_open(self):
        """At once, and whoever has a request gets an answer, or the reason."""
        body = post_bytes(CHAT, {"messages": user("hello")})
        for told in (signal.SIGTERM, signal.SIGINT):
            with Server("--sessions", 1) as server, contextlib.ExitStack() as stack:
                half = []
                for cut in (0, 1, 30, body.index(b"\r\n\r\n") + 4, len(body) - 1):
                    half.append(stack.enter_context(server.socket()))
                    half[-1].sendall(body[:cut])
                stream = Stream(server, "/v1/completions", **LONG)
                events = stream.events()
                next(events)
                waiting = [stack.enter_context(server.socket()) for _ in range(3)]
                for client in waiting:
                    client.sendall(post_bytes("/v1/completions", LONG))
                time.sleep(0.3)
                begin = time.monotonic()
                server.stop(told)
                self.assertEqual([event["error"]["code"] for event in events if "error" in event], ["unavailable"])
                for client in waiting:
                    self.assertTrue(client.recv(65536).startswith(b"HTTP/1.1 503 "))
                for client in half:
                    client.settimeout(5)
                    with contextlib.suppress(ConnectionResetError):
                        self.assertEqual(client.recv(100), b"")
                server.end()
                self.assertLess(time.monotonic() - begin, 4)

    def test_it_ends_at_any_moment(self):
        """Every client gets an end: a whole answer, a reason or a closed connection."""
        for moment in range(6):
            with Server("--sessions", 2) as server:
                ends = []
                def client(number):
                    try:
                        data = server.raw(post_bytes(CHAT, {"messages": user("hello"), "stream": number % 2 == 0, "temperature": 0}, "Connection: close"))
                        whole = data.endswith(b"0\r\n\r\n") if b"chunked" in data else b"\r\n\r\n{" in data and data.endswith(b"}")
                        ends.append("whole" if whole else "closed" if not data else f"cut: {data[-200:]}")
                    except OSError as problem:
                        ends.append("refused" if isinstance(problem, ConnectionError) else repr(problem))
                threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
                for thread in threads:
                    thread.start()
                time.sleep(moment * 0.06)
                server.stop()
                for thread in threads:
                    thread.join()
                self.assertEqual(len(ends), 8)
                self.assertEqual(set(ends) - {"whole", "closed", "refused"}, set())

    def test_addresses_that_cannot_be_used(self):
        for host, words in (("192.0.2.1", "Cannot assign requested address"), ("no-such-host.invalid", "ost not found")):
            _, err = weft("serve", "--host", host, "--port", 0, "--no-key", expect=1)
            self.assertIn("the address cannot be used", err)
            self.assertIn(words, err)
            self.assertNotIn("Success", err)
