"""HAProxy with apps/serve/deploy/haproxy.cfg before three servers, one of which is killed. Skipped without haproxy."""
import collections
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

from serving import CHAT, Server, user
from support import FOLDER, ROOT

HAPROXY = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")
CLIENTS = 12
ROUNDS = int(os.environ.get("WEFT_HAPROXY_ROUNDS") or (20 if os.environ.get("WEFT_SOAK") else 1))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@unittest.skipUnless(HAPROXY, "haproxy is not installed")
class ServeHaproxy(unittest.TestCase):
    def ask(self, port, number, asked):
        """The name of what came of one request: "whole", or how far it got."""
        streams = asked % 2 == 0
        body = {"messages": user(f"tell me a story about a cat and {number} dogs"), "temperature": 0, "max_tokens": 40, "stream": streams}
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        got = b""
        with contextlib.closing(client):
            try:
                client.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json", "X-Conversation": str(number)})
                answer = client.getresponse()
                if answer.status != 200:
                    return f"status {answer.status}"
                if not streams:
                    return "whole" if json.loads(answer.read())["choices"][0]["finish_reason"] else "no end"
                while line := answer.readline():
                    got += line
                return "whole" if got.endswith(b"data: [DONE]\n\n") else "cut in its stream" if got else "cut before its stream"
            except (OSError, http.client.HTTPException) as problem:
                return "cut in its stream" if got else f"no answer: {problem!r}"

    def load(self, port, until, counts):
        def client(number):
            asked = 0
            while time.monotonic() < until or counts["whole"] <= 20:  # on a slow machine it takes longer
                asked += 1
                counts[self.ask(port, number, asked)] += 1
        threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        return threads

    def one_round(self):
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(Server("--sessions", 4, env={"VK_INSTANCE_LAYERS": ""})) for _ in range(3)]
            port = free_port()
            text = (ROOT / "apps/serve/deploy/haproxy.cfg").read_text()
            for old, new in (("127.0.0.1:8000", f"127.0.0.1:{port}"), *((f"127.0.0.1:{8081 + i}", f"127.0.0.1:{server.port}") for i, server in enumerate(servers))):
                self.assertEqual(len(re.findall(re.escape(old), text)), 1, old)
                text = text.replace(old, new)
            (FOLDER / "haproxy.cfg").write_text(text)
            subprocess.run([HAPROXY, "-c", "-q", "-f", FOLDER / "haproxy.cfg"], check=True)
            proxy = subprocess.Popen([HAPROXY, "-db", "-q", "-f", FOLDER / "haproxy.cfg"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(lambda: (proxy.terminate(), proxy.wait()))
            for _ in range(200):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), timeout=5).close()
                    break
                time.sleep(0.05)
            counts = collections.Counter()
            begin = time.monotonic()
            threads = self.load(port, begin + 5, counts)
            time.sleep(2)
            killed = servers[1]
            killed.process.send_signal(signal.SIGKILL)
            killed.process.wait()
            for thread in threads:
                thread.join()
            killed.process.communicate()
            return counts

    def test_a_server_is_killed_under_load(self):
        """Whatever had not begun to stream is answered by another one."""
        counts = sum((self.one_round() for _ in range(ROUNDS)), collections.Counter())
        print(dict(counts), end=" ", flush=True)
        self.assertGreater(counts["whole"], 20 * ROUNDS)
        self.assertEqual(set(counts) - {"whole", "cut in its stream"}, set(), counts)
        self.assertLessEqual(counts["cut in its stream"], CLIENTS * ROUNDS)
