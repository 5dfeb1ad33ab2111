"""`weft serve`: where a request ends (RFC 9112), to the byte. What one program reads as a body and another as a request is how
requests are smuggled through proxies."""
import concurrent.futures
import re
import socket
import unittest

from serving import Server

HOST, JSON, BODY = b"Host: localhost\r\n", b"Content-Type: application/json\r\n", b'{"content":"a"}'
NEXT = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CODING = b"Transfer-Encoding: chunked\r\n"
CHUNKED = b"f\r\n" + BODY + b"\r\n0\r\n\r\n"


def post(headers, body=BODY, start=b"POST /tokenize HTTP/1.1\r\n"):
    return start + HOST + JSON + headers + b"\r\n" + body


def chunked(size, end=b"0\r\n\r\n"):
    return post(CODING, size + b"\r\n" + BODY + b"\r\n" + end)


def length(headers=b"", start=b"POST /tokenize HTTP/1.1\r\n"):
    return post(headers + b"Content-Length: 15\r\n", start=start)


# Well-formed requests, answered with 200.
GOOD = {
    "a length": length(),
    "the name in capitals": post(b"CONTENT-LENGTH:15\r\n"),
    "chunks": chunked(b"f"),
    "a size with zeros": chunked(b"000000000000000f"),
    "a size in capitals": chunked(b"F"),
    "the coding in capitals": post(b"transfer-encoding: \tCHUNKED \r\n", CHUNKED),
    "a chunk extension": chunked(b'f;a=b;c="d e"'),
    "the last size with zeros": chunked(b"f", b"000\r\n\r\n"),
    "small chunks": post(CODING, b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
    "an empty line before it": b"\r\n" + length(),
    "an absolute target": length(start=b"POST http://localhost/tokenize HTTP/1.1\r\n"),
    "a query": length(start=b"POST /tokenize?a=%00&b HTTP/1.1\r\n"),
    "an empty value": length(b"X:\r\n"),
    "a tab in a value": length(b"X: a\tb\r\n"),
    "Latin-1 in a value": length(b"X: \xe9\r\n"),
    "an odd name": length(b"!#$%&'*+-.^_`|~9: y\r\n"),
    "a media type in capitals": post(b"Content-Length: 15\r\n").replace(b"application/json", b"Application/JSON ; charset=utf-8"),
}
# Requests that RFC 9112 forbids, or this server; the status is 400 where none is given.
BAD = {
    "size: more than hexadecimal": chunked(b"fg"), "size: 0x": chunked(b"0xf"), "size: plus": chunked(b"+f"), "size: minus": chunked(b"-f"),
    "size: space before": chunked(b" f"), "size: space after": chunked(b"f "), "size: tab after": chunked(b"f\t"), "size: none": chunked(b""),
    "size: underscore": chunked(b"0_f"), "size: 65 bits": chunked(b"1000000000000000f"), "size: NUL": chunked(b"f\0"),
    "size: too small": chunked(b"e"), "size: too large": chunked(b"10"),
    "chunk: LF after its size": post(CODING, CHUNKED.replace(b"f\r\n", b"f\n", 1)), "chunk: CR after its size": post(CODING, CHUNKED.replace(b"f\r\n", b"f\r", 1)),
    "chunk: LF after its data": post(CODING, CHUNKED.replace(b"}\r\n", b"}\n")), "chunk: nothing after its data": post(CODING, CHUNKED.replace(b"}\r\n", b"}")),
    "chunk: LF in an extension": chunked(b"f;a\nb"), "chunk: CR in an extension": chunked(b"f;a\rb"), "chunk: an empty extension": chunked(b"f;"),
    "last chunk: 0x0": chunked(b"f", b"0x0\r\n\r\n"), "last chunk: -0": chunked(b"f", b"-0\r\n\r\n"),
    "trailer": chunked(b"f", b"0\r\nX: y\r\n\r\n"), "trailer: a length": chunked(b"f", b"0\r\nContent-Length: 5\r\n\r\n"),
    "trailer: no colon": chunked(b"f", b"0\r\nX\r\n\r\n"), "trailer: folded": chunked(b"f", b"0\r\nX: y\r\n z\r\n\r\n"),
    "trailer: LF": chunked(b"f", b"0\r\nX: y\nZ: w\r\n\r\n"),
    "space before the colon": length(b"X : y\r\n"), "tab before the colon": length(b"X\t: y\r\n"),
    "space before the colon of the coding": post(b"Transfer-Encoding : chunked\r\nContent-Length: 15\r\n"),
    "space before the colon of the length": post(b"Content-Length : 15\r\n"),
    "a coding and a length": post(CODING + b"Content-Length: 5\r\n", CHUNKED), "a length and a coding": post(b"Content-Length: 5\r\n" + CODING, CHUNKED),
    "a coding and a length of 0": post(CODING + b"Content-Length: 0\r\n", CHUNKED),
    "equal lengths": length(b"Content-Length: 15\r\n"), "two lengths": length(b"Content-Length: 14\r\n"), "lengths in a list": post(b"Content-Length: 15, 15\r\n"),
    "length: plus": post(b"Content-Length: +15\r\n"), "length: minus": post(b"Content-Length: -15\r\n"), "length: 0x": post(b"Content-Length: 0xf\r\n"),
    "length: space": post(b"Content-Length: 1 5\r\n"), "length: none": post(b"Content-Length:\r\n"), "length: quoted": post(b'Content-Length: "15"\r\n'),
    "length: a fraction": post(b"Content-Length: 15.0\r\n"), "length: form feed": post(b"Content-Length: \x0c15\r\n"),
    "length: 65 bits": (413, post(b"Content-Length: 18446744073709551631\r\n")), "length: too large": (413, post(b"Content-Length: 4194305\r\n")),
    "folded": length(b"X: a\r\n b\r\n"), "folded with a tab": length(b"X: a\r\n\tb\r\n"), "folded coding": post(b"Transfer-Encoding:\r\n chunked\r\n", CHUNKED),
    "folded length": post(b"Content-Length:\r\n 15\r\n"), "a folded first line": b"POST /tokenize HTTP/1.1\r\n X: y\r\n" + HOST + JSON + b"Content-Length: 15\r\n\r\n" + BODY,
    "no colon": length(b"X\r\n"), "no name": length(b": x\r\n"), "a name with a bracket": length(b"X(y): b\r\n"), "a name with a space": length(b"X y: b\r\n"),
    "NUL in a name": length(b"X\0y: b\r\n"), "Latin-1 in a name": length(b"X\xe9y: b\r\n"), "a name in quotes": length(b'"X": b\r\n'),
    "NUL in a value": length(b"X: a\0b\r\n"), "CR in a value": length(b"X: a\rb\r\n"), "a coding after a CR": length(b"X: a\rTransfer-Encoding: chunked\r\n"),
    "LF in a value": length(b"X: a\nb: c\r\n"), "a control character in a value": length(b"X: a\x01b\r\n"), "DEL in a value": length(b"X: a\x7fb\r\n"),
    "two hosts": length(HOST), "two other hosts": length(b"Host: example.org\r\n"), "no host": length().replace(HOST, b""),
    "host: a space": length().replace(b"localhost", b"local host"), "host: a path": length().replace(b"localhost", b"localhost/x"),
    "host: a user": length().replace(b"localhost", b"x@localhost"), "host: another than the target's": length(start=b"POST http://example.org/tokenize HTTP/1.1\r\n"),
    "coding: gzip, chunked": post(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKED), "coding: identity": post(b"Transfer-Encoding: identity\r\nContent-Length: 15\r\n"),
    "coding: xchunked": post(b"Transfer-Encoding: xchunked\r\n", CHUNKED), "coding: chunked, identity": post(b"Transfer-Encoding: chunked, identity\r\n", CHUNKED),
    "coding: twice": post(CODING + CODING, CHUNKED), "coding: chunked, chunked": post(b"Transfer-Encoding: chunked, chunked\r\n", CHUNKED),
    "coding: quoted": post(b'Transfer-Encoding: "chunked"\r\n', CHUNKED), "coding: a parameter": post(b"Transfer-Encoding: chunked;q=1\r\n", CHUNKED),
    "coding: vertical tab": post(b"Transfer-Encoding: \x0bchunked\r\n", CHUNKED), "coding: none": post(b"Transfer-Encoding:\r\n", CHUNKED),
    "coding: comma": post(b"Transfer-Encoding: chunked,\r\n", CHUNKED), "coding: NBSP": post(b"Transfer-Encoding: \xa0chunked\r\n", CHUNKED),
    "coding in HTTP/1.0": post(CODING, CHUNKED, start=b"POST /tokenize HTTP/1.0\r\n"),
    "LF only": length().replace(b"\r\n", b"\n"), "an LF after a header": length(b"X: y\n"), "an LF at the head's end": length().replace(b"15\r\n\r\n", b"15\r\n\n"),
    "LF CR LF at the head's end": length().replace(b"15\r\n\r\n", b"15\n\r\n"), "CR CR LF": length(b"X: y\r\r\n"),
    "two spaces": length(start=b"POST  /tokenize HTTP/1.1\r\n"), "a tab": length(start=b"POST\t/tokenize HTTP/1.1\r\n"), "a space in the path": length(start=b"POST /tokenize /x HTTP/1.1\r\n"),
    "a space before it": length(start=b" POST /tokenize HTTP/1.1\r\n"), "http/1.1": length(start=b"POST /tokenize http/1.1\r\n"), "HTTP/1.1 and more": length(start=b"POST /tokenize HTTP/1.1 x\r\n"),
    "HTTP/1.10": length(start=b"POST /tokenize HTTP/1.10\r\n"), "HTTP/01.1": length(start=b"POST /tokenize HTTP/01.1\r\n"), "HTTP/2.0": (505, length(start=b"POST /tokenize HTTP/2.0\r\n")),
    "HTTP/1.2": (505, length(start=b"POST /tokenize HTTP/1.2\r\n")), "HTTP/0.9": b"GET /health\r\n\r\n", "no target": length(start=b"POST  HTTP/1.1\r\n"),
    "Latin-1 in the target": length(start=b"POST /tokenize?\xff HTTP/1.1\r\n"), "NUL in the target": length(start=b"POST /tokenize?\0 HTTP/1.1\r\n"),
    "a fragment": length(start=b"POST /tokenize#a HTTP/1.1\r\n"), "a target without a slash": length(start=b"POST tokenize HTTP/1.1\r\n"),
    "an odd method": length(start=b"PO(ST /tokenize HTTP/1.1\r\n"), "a colon in the method": length(start=b"X: POST /tokenize HTTP/1.1\r\n"), "CONNECT": length(start=b"CONNECT localhost:80 HTTP/1.1\r\n"),
    "another expectation": (417, length(b"Expect: 200-ok\r\n")), "two types": length(JSON), "two keys": length(b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
# Requests that are answered without their bodies.
HEADS = {"GET /health": 200, "GET /": 200, "GET /v1/models": 200, "GET /metrics": 200, "GET /slots": 404, "HEAD /health": 200, "HEAD /v1/models/pocket": 200,
         "OPTIONS /v1/models": 204, "OPTIONS /health": 204, "PUT /health": 405, "POST /health": 405, "GET /tokenize": 405, "GET /nothing": 404, "TRACE /": 405,
         "GET /v1/models/none": 404, "GET /%6detrics": 404, "GET //metrics": 404, "PATCH /v1/chat/completions": 405}
PREFLIGHT = b"Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"


def answers(data, head_only=False):
    """The statuses of all answers; all of the data must be theirs."""
    statuses = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        found = re.match(rb"HTTP/1\.1 (\d\d\d) [A-Z]", head)
        assert found and end, data[:200]
        size = re.search(rb"\r\nContent-Length: (\d+)", head)
        size = 0 if head_only or found[1] == b"204" else int(size[1])
        assert len(data) >= size, (head, data)
        data = data[size:]
        statuses.append(int(found[1]))
    return statuses


class ServeFraming(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--sessions", 1, "--cors", "https://app.example")

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def each(self, cases, ask):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            futures = {name: pool.submit(ask, *case) for name, case in cases.items()}
        for name, future in futures.items():
            with self.subTest(name):
                future.result()

    def test_well_formed_requests(self):
        """Each is answered, and so is what follows it: byte by byte too."""
        def ask(data, cut):
            with self.server.socket() as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for at in range(0, len(data), cut):
                    client.sendall(data[at:at + cut])
                got = b""
                while part := client.recv(65536):
                    got += part
            self.assertEqual(answers(got), [200, 200])
        self.each({(name, cut): (data + NEXT, cut) for name, data in GOOD.items() for cut in (10000, 1)}, ask)

    def test_malformed_requests(self):
        """One answer, and the connection ends: what follows is not read."""
        def ask(status, data):
            self.assertEqual(answers(self.server.raw(data + NEXT)), [status])
        self.each({name: case if isinstance(case, tuple) else (400, case) for name, case in BAD.items()}, ask)

    def test_bodies_that_nobody_reads(self):
        """A body that is a request is not answered."""
        def ask(start, status, framing, body):
            data = start.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + PREFLIGHT + framing + b"\r\n" + body
            self.assertEqual(answers(self.server.raw(data + NEXT), start.startswith("HEAD")), [status])
        framings = {"length": (b"Content-Length: %d\r\n" % len(NEXT), NEXT), "chunks": (CODING, b"%x\r\n%s\r\n0\r\n\r\n" % (len(NEXT), NEXT)),
                    "expected": (b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(NEXT), NEXT)}
        self.each({(start, name): (start, status, *framing) for start, status in HEADS.items() for name, framing in framings.items()}, ask)

    def test_bodies_of_requests_that_are_refused(self):
        with Server("--sessions", 1, "--api-key", "k") as server:
            for status, headers in ((401, b""), (401, b"Authorization: Bearer x\r\n"), (415, b"Authorization: bearer k\r\nContent-Encoding: br\r\n"),
                                    (413, b"Authorization: BEARER  k\r\nContent-Length: 5000000\r\n")):
                own = b"" if b"Length" in headers else b"Content-Length: %d\r\n" % len(NEXT)
                self.assertEqual(answers(server.raw(post(headers + own, NEXT))), [status], headers)
            # GET /metrics and what else there is in a body stays what it is.
            self.assertEqual(answers(server.raw(b"GET /health HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello" + NEXT)), [200])

    def test_a_client_that_closes_its_sending_half(self):
        for data in (length(), b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n", post(CODING, CHUNKED)):
            with self.server.socket() as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                got = b""
                while part := client.recv(65536):
                    got += part
            self.assertEqual(answers(got.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")), [200], data)

    def test_http_1_0(self):
        """No chunks, no answer before the answer, and the connection ends."""
        body = b'{"prompt":[5],"max_tokens":3,"temperature":0,"stream":true}'
        start = b"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n" + JSON
        head, _, stream = self.server.raw(start + b"Content-Length: %d\r\n\r\n" % len(body) + body).partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 OK\r\n"))
        self.assertNotIn(b"Transfer-Encoding", head)
        self.assertIn(b"Connection: close", head)
        self.assertTrue(stream.startswith(b"data: {") and stream.endswith(b"data: [DONE]\n\n"), stream)

    def test_a_client_that_asks_before_it_sends_a_body(self):
        with self.server.socket() as client:
            client.sendall(post(b"Expect: 100-Continue\r\nContent-Length: 15\r\n", b""))
            self.assertEqual(client.recv(65536), b"HTTP/1.1 100 Continue\r\n\r\n")
            client.sendall(BODY + NEXT)
            got = b""
            while part := client.recv(65536):
                got += part
            self.assertEqual(answers(got), [200, 200])

    def test_names_without_case(self):
        with Server("--sessions", 1, "--api-key", "k", "--cors", "https://app.example") as server:
            for key, status in (("Bearer k", 200), ("bearer k", 200), ("BEARER k", 200), ("Bearer   k", 200), ("Bearer K", 401), ("Bearerk", 401), ("Basic k", 401)):
                self.assertEqual(server.request("GET", "/v1/models", headers={"authorization": key})[0], status, key)
            for kind, status in (("application/json", 200), ("Application/JSON", 200), ("application/json ; charset=utf-8", 200), ("APPLICATION/JSON;a=b", 200),
                                 ("application/jsonx", 415), ("text/json", 415)):
                self.assertEqual(server.request("POST", "/tokenize", {"content": "a"}, {"Content-Type": kind, "AUTHORIZATION": "Bearer k"})[0], status, kind)
            for names in ("authorization,content-type", "authorization,content-type,x_trace", "X-Stainless-OS, X.Y!"):
                headers = server.request("OPTIONS", "/v1/models", headers={"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": names})[1]
                self.assertEqual(headers["Access-Control-Allow-Headers"], names)


if __name__ == "__main__":
    unittest.main()
