"""Embeddings of `weft serve`, with the goldens' BERT."""
import base64
import concurrent.futures
import json
import struct
import time

from serving import CHAT, Server, ServeTest, post_bytes
from support import ROOT, bert, losing_device_at, weft_json

PATH = "/v1/embeddings"


class ServeEmbeddings(ServeTest):
    @classmethod
    def options(cls):
        return "-m", bert()

    def embed(self, input, **more):
        answer = self.server.post(PATH, input=input, **more)
        self.assertEqual((answer["object"], answer["model"]), ("list", "bert"))
        self.assertEqual([(item["object"], item["index"]) for item in answer["data"]], [("embedding", i) for i in range(len(answer["data"]))])
        return [item["embedding"] for item in answer["data"]], answer["usage"]

    def test_they_are_those_of_weft_embed(self):
        texts = ["the cat sat", "cat", "the mat on the cat ."]
        want = weft_json("embed", "-m", bert(), *texts)["embeddings"]
        got, usage = self.embed(texts)
        self.assertEqual(got, want)
        ids = [self.server.post("/tokenize", content=text, add_special=True)["tokens"] for text in texts]
        self.assertEqual(usage, {"prompt_tokens": sum(map(len, ids)), "total_tokens": sum(map(len, ids))})
        self.assertEqual(self.embed(texts[0])[0], want[:1])
        self.assertEqual(self.embed(ids)[0], want)
        self.assertEqual(self.embed(ids[1])[0], want[1:2])
        self.assertEqual(self.embed(texts[0], model="bert", user="me", encoding_format="float", dimensions=len(want[0]))[0], want[:1])

    def test_base64(self):
        texts = ["the cat sat", "mat"]
        for text, want in zip(self.embed(texts, encoding_format="base64")[0], self.embed(texts)[0], strict=True):
            data = base64.b64decode(text, validate=True)
            self.assertEqual(struct.unpack(f"<{len(data) // 4}f", data), struct.unpack(f"<{len(want)}f", struct.pack(f"<{len(want)}f", *want)))

    def test_many_at_once(self):
        texts = [" ".join(["the", "cat", "sat", "on", "mat"][:1 + i % 5]) for i in range(20)]
        want = self.embed(texts)[0]
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            self.assertEqual([found[0][0] for found in pool.map(self.embed, texts)], want)

    def test_what_is_refused(self):
        for code, param, body in [
                ("missing_required_parameter", "input", {}),
                ("invalid_type", "input", {"input": []}),
                ("invalid_type", "input", {"input": {}}),
                ("invalid_type", "input[1]", {"input": ["cat", None]}),
                ("invalid_type", "input[0]", {"input": [[]]}),
                ("invalid_value", "input", {"input": [1, 100000]}),
                ("invalid_value", "input[1]", {"input": [[1], [-1]]}),
                ("invalid_value", "input", {"input": "zero\0byte"}),
                ("invalid_value", "input", {"input": ["cat"] * 2049}),
                ("context_length_exceeded", "input[1]", {"input": ["cat", "cat " * 5000]}),
                ("invalid_value", "encoding_format", {"input": "cat", "encoding_format": "hex"}),
                ("invalid_value", "dimensions", {"input": "cat", "dimensions": 49}),
                ("invalid_value", "prompt_name", {"input": "cat", "prompt_name": "query"}),
                ("unsupported_parameter", "truncate", {"input": "cat", "truncate": True})]:
            with self.subTest(param=param, body=str(body)[:80]):
                self.refused(400, code, param, path=PATH, **body)
        self.server.post(PATH, input="cat", model="ada")
        # A model that does not write, and one that has no encoder.
        self.assertIn("writes no text", self.refused(400, "unsupported", "model", messages=[{"role": "user", "content": "x"}]))
        self.refused(400, "unsupported", "model", path="/v1/completions", prompt="x")
        with Server() as server:
            status, _, answer = server.request("POST", PATH, {"input": "cat"})
            self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, "unsupported", "model"))
            self.assertIn("no encoder", answer["error"]["message"])

    def test_the_api_description(self):
        api = json.loads((ROOT / "apps/serve/openapi.json").read_text())
        for field in (*api["components"]["schemas"]["EmbeddingsRequest"]["properties"], "surprise"):
            status, _, answer = self.server.request("POST", PATH, {"input": "cat", field: {"odd": "x"}})
            self.assertEqual((status, answer["error"]["message"] == f"{field} is not supported."), (400, field == "surprise"), answer)

    def test_the_rest_of_the_server(self):
        self.assertEqual(self.server.request("GET", "/health")[::2], (200, {"status": "ok"}))
        self.assertEqual(self.server.request("GET", "/v1/models")[2]["data"][0]["id"], "bert")
        self.embed("cat")
        text = self.server.request("GET", "/metrics")[2]
        self.assertRegex(text, r'weft_requests_total\{outcome="stop"\} [1-9]')
        self.assertIn('weft_sessions_limit 0', text)

    def test_the_device_is_lost(self):
        want = self.embed("the cat sat")[0]
        with Server("-m", bert(), env=losing_device_at(60)) as server:
            for _ in range(60):
                answer = server.post(PATH, input="the cat sat")
                self.assertEqual([item["embedding"] for item in answer["data"]], want)

    def test_a_full_queue_and_the_end(self):
        with Server("-m", bert(), "--queue", 0) as server:
            for wait in 0.3, 1, 3:  # the many inputs take seconds; on a busy machine it may be a while until they are read
                client = server.socket()
                client.sendall(post_bytes(PATH, {"input": ["the cat sat on the mat"] * 2048}))
                time.sleep(wait)
                status, _, answer = server.request("POST", PATH, {"input": "cat"})
                if status != 200:
                    break
                client.close()  # the cat came first
            self.assertEqual((status, answer["error"]["code"]), (429, "queue_full"))
            # It ends after the present input.
            server.stop()
            answer = b""
            while part := client.recv(1 << 20):
                answer += part
            self.assertIn(b'"code":"unavailable"', answer)
            client.close()

    def test_a_client_that_leaves(self):
        client = self.server.socket()
        client.sendall(post_bytes(PATH, {"input": ["the cat sat on the mat"] * 2048}))
        client.close()
        self.assertEqual(len(self.embed("cat")[0]), 1)
