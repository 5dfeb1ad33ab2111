"""Models of sentence-transformers, with prompts, dense layers and shortened vectors: `weft embed` and `/v1/embeddings`."""
import json
import unittest

from serving import Server, ServeTest
from support import ROOT, weft, weft_json

FOLDER = ROOT / "tests/model/golden_sentences"


def cases(name):
    """What sentence-transformers makes of texts, by prompt and dimensions."""
    found = {}
    for case in json.loads((FOLDER / name / "reference.json").read_text()):
        found.setdefault((case["prompt"], case["dimensions"]), []).append(case)
    return found


class Sentences(unittest.TestCase):
    def near(self, got, want, places=2):
        for one, other in zip(got, want, strict=True):
            self.assertLess(max(abs(a - b) for a, b in zip(one, other, strict=True)), 10**-places)

    def test_embed(self):
        for name in "gemma3", "qwen3":
            for (prompt, dimensions), some in cases(name).items():
                with self.subTest(name=name, prompt=prompt, dimensions=dimensions):
                    options = (*(["--prompt", prompt] if prompt else []), *(["--dimensions", dimensions] if dimensions else []))
                    answer = weft_json("embed", "-m", FOLDER / name, "--type", "f16", *options, *[case["text"] for case in some])
                    self.near(answer["embeddings"], [case["embedding"] for case in some], 3)
                    self.assertEqual(answer["width"], len(some[0]["embedding"]))

    def test_pooling(self):
        said = weft("embed", "-m", FOLDER / "qwen3", "tea")[0]
        self.assertEqual(weft("embed", "-m", FOLDER / "qwen3", "tea", "--pool", "last")[0], said)
        self.assertNotEqual(weft("embed", "-m", FOLDER / "qwen3", "tea", "--pool", "mean")[0], said)

    def test_what_is_refused(self):
        err = weft("embed", "-m", FOLDER / "gemma3", "tea", "--prompt", "quary", expect=1)[1]
        self.assertIn('the model has no prompt "quary"', err)
        self.assertIn("it has document, query", err)
        err = weft("embed", "-m", FOLDER / "gemma3", "tea", "--dimensions", "25", expect=2)[1]
        self.assertIn("24 numbers", err)
        weft("embed", "-m", FOLDER / "gemma3", "tea", "--dimensions", "0", expect=2)
        # It writes no text: its tokens see later ones.
        self.assertNotEqual(weft("generate", "-m", FOLDER / "gemma3", "-p", "tea", expect=1)[1], "")


class ServeSentences(ServeTest):
    @classmethod
    def options(cls):
        return "-m", FOLDER / "gemma3", "--type", "f16"

    def test_embeddings(self):
        for (prompt, dimensions), some in cases("gemma3").items():
            more = ({"prompt_name": prompt} if prompt else {}) | ({"dimensions": dimensions} if dimensions else {})
            some = [case for case in some if case["text"] or prompt]
            answer = self.server.post("/v1/embeddings", input=[case["text"] for case in some], **more)
            for item, case in zip(answer["data"], some, strict=True):
                self.assertLess(max(abs(a - b) for a, b in zip(item["embedding"], case["embedding"], strict=True)), 1e-3)

    def test_what_is_refused(self):
        for param, body in [("prompt_name", {"prompt_name": "quary"}), ("prompt_name", {"prompt_name": 1}), ("dimensions", {"dimensions": 25}),
                            ("dimensions", {"dimensions": 0}), ("dimensions", {"dimensions": 1.5})]:
            with self.subTest(body=body):
                status, _, answer = self.server.request("POST", "/v1/embeddings", {"input": "tea"} | body)
                self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
