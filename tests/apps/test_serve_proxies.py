"""Request smuggling through HAProxy and nginx: nobody gets another's answer, whatever somebody else sends. Skipped where they are not installed."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
import unittest

from serving import Server
from support import FOLDER, ROOT
from test_serve_framing import BAD, CODING, GOOD, HEADS, HOST, NEXT
from test_serve_haproxy import HAPROXY, free_port

NGINX = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
NGINX_CONF = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors; worker_rlimit_nofile 512;
events {{ worker_connections 200; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream weft {{ server 127.0.0.1:{server}; keepalive 4; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://weft; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host localhost; {more} }}
  }}
}}
"""
SECRET = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Rest: "  # whatever comes next is in its header


def with_body(start, framing, body):
    return start.encode() + b" HTTP/1.1\r\n" + HOST + framing + b"\r\n" + body


def attacks():
    """Requests that a proxy and a server may cut differently, each followed by a part of another one."""
    for name, case in {**GOOD, **BAD}.items():
        yield name, (case[1] if isinstance(case, tuple) else case) + SECRET
    for start in HEADS:
        for body in (NEXT, SECRET):
            yield f"{start} with a length", with_body(start, b"Content-Length: %d\r\n" % len(body), body)
            yield f"{start} in chunks", with_body(start, CODING, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            yield f"{start} with an expectation", with_body(start, b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(body), body)


class ServeProxies(unittest.TestCase):
    def run_proxy(self, stack, command, port):
        proxy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(lambda: (proxy.terminate(), proxy.wait()))
        for _ in range(200):
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), timeout=5).close()
            time.sleep(0.05)
        self.fail("the proxy does not listen")

    def victim(self, port, number):
        """A request whose answer nobody else gets."""
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(client):
            client.request("POST", "/detokenize", json.dumps({"tokens": [300 + number % 7000]}), {"Content-Type": "application/json", "Host": "localhost"})
            answer = client.getresponse()
            return answer.status, answer.read()

    def attack(self, port, server):
        wants = {}
        for number, (name, data) in enumerate(attacks()):
            with self.subTest(name), socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.settimeout(0.05)  # some proxies wait for what was announced
                with contextlib.suppress(OSError):
                    client.sendall(data)
                    while client.recv(65536):
                        pass
                for i in (2 * number, 2 * number + 1):
                    wants[i] = self.victim(server.port, i)
                    self.assertEqual(wants[i][0], 200)
                    self.assertEqual(self.victim(port, i), wants[i])
        self.assertGreater(len(wants), 400)
        self.assertEqual(len(set(wants.values())), len(wants))

    @unittest.skipUnless(HAPROXY, "haproxy is not installed")
    def test_haproxy(self):
        text = (ROOT / "apps/serve/deploy/haproxy.cfg").read_text()
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Server("--sessions", 1))
            port = free_port()
            text = text.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
            for old in (8081, 8082, 8083):
                text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{server.port}")
            # One connection to the server for all clients, and what is malformed is passed on: the worst case.
            text = text.replace("    mode http\n", "    mode http\n    http-reuse always\n    option accept-invalid-http-request\n").replace("option http-buffer-request", "no option http-buffer-request")
            (FOLDER / "smuggling.cfg").write_text(text)
            self.run_proxy(stack, [HAPROXY, "-db", "-q", "-f", FOLDER / "smuggling.cfg"], port)
            self.attack(port, server)

    @unittest.skipUnless(NGINX, "nginx is not installed")
    def test_nginx(self):
        for more in ("", "proxy_request_buffering off;"):
            with contextlib.ExitStack() as stack:
                server = stack.enter_context(Server("--sessions", 1))
                port, folder = free_port(), FOLDER / "nginx"
                folder.mkdir(exist_ok=True)
                (folder / "conf").write_text(NGINX_CONF.format(folder=folder, server=server.port, port=port, more=more))
                self.run_proxy(stack, [NGINX, "-e", folder / "errors", "-p", folder, "-c", folder / "conf"], port)
                self.attack(port, server)
