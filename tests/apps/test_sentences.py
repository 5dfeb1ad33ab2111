"""Models of sentence-transformers, with prompts, dense layers and shortened vectors: `weft embed` and `/v1/embeddings`."""
import json
import shutil
import unittest

from serving import Server, ServeTest
from support import FOLDER as FOLDERS, ROOT, plain, weft, weft_json

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

    def test_texts_in_brackets_are_not_lists(self):
        embed = lambda *texts: weft_json("embed", "-m", FOLDER / "qwen3", *texts)["embeddings"]
        lines = FOLDERS / "lines-in-brackets.txt"
        texts = ["[a,b]", "c", "[]", "[[1, 2], 3]"]
        lines.write_text("\n".join(texts) + "\n")
        self.assertEqual(embed(*texts), embed("-f", lines))

    def test_what_is_refused(self):
        err = weft("embed", "-m", FOLDER / "gemma3", "tea", "--prompt", "quary", expect=1)[1]
        self.assertIn('the model has no prompt "quary"', err)
        self.assertIn("it has document, query", err)
        err = weft("embed", "-m", FOLDER / "gemma3", "tea", "--dimensions", "25", expect=2)[1]
        self.assertIn("24 numbers", err)
        weft("embed", "-m", FOLDER / "gemma3", "tea", "--dimensions", "0", expect=2)
        # It writes no text: its tokens see later ones.
        self.assertNotEqual(weft("generate", "-m", FOLDER / "gemma3", "-p", "tea", expect=1)[1], "")

    def test_without_an_output_table(self):
        """Qwen3-Embedding-8B says that its tables are not tied, and has one."""
        folder = FOLDERS / "untied"
        shutil.copytree(FOLDER / "qwen3", folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
        embed = lambda path: weft_json("embed", "-m", path, "tea")["embeddings"]
        self.assertEqual(embed(folder), embed(FOLDER / "qwen3"))
        self.assertIn("no output table", weft("generate", "-m", folder, "-p", "tea", expect=1)[1])


RERANKER = FOLDER / "qwen3-reranker"


def ratings():
    """What sentence-transformers makes of documents, by instruction and query."""
    found = {}
    for case in json.loads((RERANKER / "reference.json").read_text()):
        found.setdefault((case["instruction"], case["query"]), []).append(case)
    return found


class Rerank(unittest.TestCase):
    def test_scores(self):
        for (instruction, query), some in ratings().items():
            with self.subTest(instruction=instruction, query=query):
                options = ["--instruction", instruction] if instruction else []
                documents = [case["document"] for case in some]
                results = weft_json("rerank", "-m", RERANKER, "--type", "f16", *options, query, *documents)["results"]
                self.assertEqual([item["document"] for item in results], [documents[item["index"]] for item in results])
                self.assertEqual(sorted(range(len(some)), key=lambda i: -some[i]["score"]), [item["index"] for item in results])
                for item in results:
                    self.assertAlmostEqual(item["score"], some[item["index"]]["score"], places=2)

    def test_gguf(self):
        for (instruction, query), some in ratings().items():
            options = ["--instruction", instruction] if instruction else []
            for item in weft_json("rerank", "-m", RERANKER / "model.gguf", *options, query, *[case["document"] for case in some])["results"]:
                self.assertAlmostEqual(item["score"], some[item["index"]]["score"], places=2)

    def test_the_rows_of_a_gguf_file_rate(self):
        """Files of untied models have no output table. Here the two rows, the last bytes, have changed places."""
        (instruction, query), some = list(ratings().items())[0]
        bytes_of = (RERANKER / "model.gguf").read_bytes()
        half = 48 * 2  # in f16
        (FOLDERS / "changed.gguf").write_bytes(bytes_of[:-2 * half] + bytes_of[-half:] + bytes_of[-2 * half:-half])
        for item in weft_json("rerank", "-m", FOLDERS / "changed.gguf", query, *[case["document"] for case in some])["results"]:
            self.assertAlmostEqual(item["score"], 1 - some[item["index"]]["score"], places=2)

    def test_texts(self):
        (instruction, query), some = list(ratings().items())[1]
        (FOLDERS / "documents.txt").write_text("".join(case["document"] + "\n" for case in some))
        whole = weft("rerank", "-m", RERANKER, "--type", "f16", query, "-f", FOLDERS / "documents.txt")[0].splitlines()
        best = max(some, key=lambda case: case["score"])
        self.assertEqual(whole[0], f"{float(whole[0][:6]):.4f}  {best['document']}")
        top = weft("rerank", "-m", RERANKER, "--type", "f16", query, "-f", FOLDERS / "documents.txt", "--top", "2")[0]
        self.assertEqual(top.splitlines(), whole[:2])

    def test_what_is_refused(self):
        self.assertIn("neither", weft("rerank", "-m", FOLDER / "gemma3", "tea", "tea", expect=1)[1])
        self.assertIn("no tokens", weft("rerank", "-m", plain(), "tea", "tea", expect=1)[1])
        self.assertIn("has no encoder", weft("embed", "-m", RERANKER, "tea", expect=1)[1])
        self.assertIn("document 2", weft("rerank", "-m", RERANKER, "tea", "tea", "tea " * 300, expect=1)[1])
        weft("rerank", "-m", RERANKER, "tea", expect=2)


class ServeRerank(ServeTest):
    @classmethod
    def options(cls):
        return "-m", RERANKER, "--type", "f16"

    def test_scores(self):
        for (instruction, query), some in ratings().items():
            more = {"instruction": instruction} if instruction else {}
            some = [case for case in some if case["document"]]
            answer = self.server.post("/v1/rerank", query=query, documents=[case["document"] for case in some], return_documents=True, **more)
            self.assertEqual(len(answer["results"]), len(some))
            self.assertGreater(answer["usage"]["total_tokens"], len(some))
            for item in answer["results"]:
                case = some[item["index"]]
                self.assertEqual(item["document"], {"text": case["document"]})
                self.assertAlmostEqual(item["relevance_score"], case["score"], places=2)
            scores = [item["relevance_score"] for item in answer["results"]]
            self.assertEqual(scores, sorted(scores, reverse=True))
            short = self.server.post("/v1/rerank", query=query, documents=[{"text": case["document"]} for case in some], top_n=2, **more)
            self.assertEqual([item["index"] for item in short["results"]], [item["index"] for item in answer["results"][:2]])

    def test_what_is_refused(self):
        good = {"query": "tea", "documents": ["tea"]}
        for param, body in [("query", {"query": None}), ("documents", {"documents": "tea"}), ("documents", {"documents": []}),
                            ("documents[1]", {"documents": ["tea", 1]}), ("top_n", {"top_n": 0}), ("return_documents", {"return_documents": 1}),
                            ("documents[1]", {"documents": ["tea", "tea " * 300]}), ("max_chunks", {"max_chunks": 1})]:
            with self.subTest(param=param, body=str(body)[:60]):
                status, _, answer = self.server.request("POST", "/v1/rerank", good | body)
                self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        with Server() as server:
            status, _, answer = server.request("POST", "/v1/rerank", good)
            self.assertEqual((status, answer["error"]["param"], answer["error"]["code"]), (400, "model", "unsupported"), answer)


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
