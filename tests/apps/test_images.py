"""Pictures in prompts: --image and --mmproj, with the tiny models of tests/tools/image_goldens.py."""
import base64
import json
import math
import unittest

from serving import CHAT, Server
from support import FOLDER, ROOT, plain, weft, weft_json

GOLDEN = ROOT / "tests/model/golden_images"
MODEL = GOLDEN / "idefics3"
PICTURES = GOLDEN / "pictures"
SOFT = 1 << 31


class Images(unittest.TestCase):
    def setUp(self):
        self.cases = json.loads((MODEL / "reference.json").read_text())
        self.image = json.loads((MODEL / "config.json").read_text())["image_token_id"]

    def generate(self, *argv, count=12):
        return weft_json("generate", "--type", "f16", "-n", count, "--temperature", 0, *argv)

    def prompt(self, text="What is in the picture?"):
        return f"<|im_start|>User:<image>{text}<end_of_utterance>\nAssistant:"

    def test_generate_continues_as_transformers(self):
        for case in self.cases:
            result = self.generate("-m", MODEL, "--image", PICTURES / case["picture"], "-p", self.prompt())
            self.assertEqual([self.image if i >= SOFT else i for i in result["prompt_ids"]], case["ids"])
            wanted = case["greedy"][:len(result["ids"])]
            self.assertEqual(result["ids"], wanted)
            self.assertTrue(len(wanted) == 12 or result["stop"] == "token")

    def test_text_model_and_encoder_as_gguf(self):
        text = FOLDER / "idefics3-text.gguf"
        weft("convert", MODEL, text, "--type", "f16")
        for case in self.cases[:2]:
            result = self.generate("-m", text, "--mmproj", MODEL / "mmproj.gguf", "--image", PICTURES / case["picture"], "-p", self.prompt())
            self.assertEqual(result["ids"], case["greedy"][:len(result["ids"])])
        out, err = weft("generate", "-m", text, "--image", PICTURES / "rgb1x1.png", "-p", "a", expect=1)
        self.assertIn("mmproj", err)

    def test_places_of_pictures(self):
        shown = ["-m", MODEL, "--image", PICTURES / "rgb1x1.png", "--image", PICTURES / "rgb70x50.png"]
        first = self.generate(*shown, "-p", "ab")["prompt_ids"]
        self.assertEqual(first, self.generate(*shown, "-p", "<image><image>ab")["prompt_ids"])
        between = self.generate(*shown, "-p", "<image>a<image>b")["prompt_ids"]
        self.assertEqual(sorted(first), sorted(between))
        self.assertNotEqual(first, between)
        _, err = weft("generate", *shown, "-p", "<image>", expect=1)
        self.assertIn("the prompt has 1 places for pictures, there are 2 pictures", err)

    def test_chat(self):
        wanted = self.cases[0]
        options = ["chat", "--lines", "-m", MODEL, "--type", "f16", "--temperature", 0, "-n", 12]
        picture = PICTURES / wanted["picture"]
        out, _ = weft(*options, "--image", picture, stdin="What is in the picture?\n")
        same, err = weft(*options, stdin=f"/image {picture}\nWhat is in the picture?\n")
        self.assertEqual(out, same)
        self.assertIn("goes with the next message", err)
        other, _ = weft(*options, "--image", PICTURES / "rgb30x90.png", stdin="What is in the picture?\n")
        alone, _ = weft(*options, stdin="What is in the picture?\n")
        self.assertEqual(len({out, other, alone}), 3)
        # The second turn still has the picture, and what is computed of it.
        _, err = weft(*options, "--image", picture, stdin="What?\nAnd now?\n/stats\n/save x\n/image nothing.png\n")
        self.assertRegex(err, r"reused +\d{2,} tokens")
        self.assertIn("a conversation with pictures cannot be saved", err)
        self.assertIn("nothing.png", err)

    def test_gemma3(self):
        folder, text = GOLDEN / "gemma3", FOLDER / "gemma3-text.gguf"
        config = json.loads((folder / "config.json").read_text())
        cases = json.loads((folder / "reference.json").read_text())
        weft("convert", folder, text, "--type", "f16")
        for case in (cases[0], cases[2]):
            files = [PICTURES / name for name in [case["picture"], *case["more"]]]
            shown = [argument for file in files for argument in ("--image", file)]
            texts = ["What is in the picture?", "And what is here?"]
            prompt = "".join(text + "<start_of_image>" for text, _ in zip(texts, files))
            prompt = f"<bos><start_of_turn>user\n{prompt}<end_of_turn>\n<start_of_turn>model\n"
            for model in (["-m", folder], ["-m", text, "--mmproj", folder / "mmproj.gguf"]):
                result = self.generate(*model, *shown, "-p", prompt)
                self.assertEqual([config["image_token_index"] if i >= SOFT else i for i in result["prompt_ids"]], case["ids"])
                self.assertEqual(result["ids"], case["greedy"][:len(result["ids"])])
                self.assertTrue(len(result["ids"]) == 12 or result["stop"] == "token")
        options = ["chat", "--lines", "-m", folder, "--type", "f16", "--temperature", 0, "-n", 12]
        shown, alone = (weft(*options, *more, stdin="What is it?\nAnd now?\n")[0] for more in (["--image", files[0]], []))
        self.assertNotEqual(shown, alone)

    def test_qwen3_vl(self):
        folder = GOLDEN / "qwen3-vl"
        config = json.loads((folder / "config.json").read_text())
        cases = json.loads((folder / "reference.json").read_text())
        for case in (cases[1], cases[2]):
            shown = [argument for name in case["pictures"] for argument in ("--image", PICTURES / name)]
            texts = ["What is in the picture?", "And what is here?"]
            prompt = "".join("<|vision_start|><|image_pad|><|vision_end|>" + text for text, _ in zip(texts, case["pictures"]))
            prompt = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
            for model in (["-m", folder], ["-m", folder / "text.gguf", "--mmproj", folder / "mmproj.gguf"]):
                result = self.generate(*model, *shown, "-p", prompt, count=32)
                self.assertEqual([config["image_token_id"] if i >= SOFT else i for i in result["prompt_ids"]], case["ids"])
                self.assertEqual(result["ids"], case["greedy"][:len(result["ids"])])
                self.assertTrue(len(result["ids"]) == 32 or result["stop"] == "token")
        # Without a place of its own the picture comes first.
        placed, first = (self.generate("-m", folder, "--image", PICTURES / "rgb1x1.png", "-p", text, count=4)
                         for text in ("<|vision_start|><|image_pad|><|vision_end|>ab", "ab"))
        self.assertEqual((placed["prompt_ids"], placed["ids"]), (first["prompt_ids"], first["ids"]))
        # Two turns, with a picture and without.
        options = ["chat", "--lines", "-m", folder, "--type", "f16", "--temperature", 0, "-n", 12]
        shown, alone = (weft(*options, *more, stdin="What is it?\nAnd now?\n/stats\n")[0]
                        for more in (["--image", PICTURES / "rgb70x50.png"], []))
        self.assertNotEqual(shown, alone)
        # A text model and an encoder that do not belong together.
        _, err = weft("generate", "-m", GOLDEN / "gemma3", "--mmproj", folder / "mmproj.gguf", "--image", PICTURES / "rgb1x1.png", "-p", "a", expect=1)
        self.assertIn("<|image_pad|>", err)

    def test_qwen3_vl_served(self):
        folder = GOLDEN / "qwen3-vl"
        case = json.loads((folder / "reference.json").read_text())[2]
        code = [base64.b64encode((PICTURES / name).read_bytes()).decode() for name in (*case["pictures"], "rgb64x64.png")]
        shown = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + text}} for text in code]
        texts = [{"type": "text", "text": text} for text in ("What is in the picture?", "And what is here?")]
        asked = dict(temperature=0, max_tokens=12, logprobs=True)
        with Server("-m", folder, "--type", "f16", "--ctx", 256, "--sessions", 2) as server:
            def ask(*content):
                answer = server.post(CHAT, messages=[{"role": "user", "content": list(content)}], **asked)
                return (answer["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens_details"]["cached_tokens"],
                        answer["choices"][0]["logprobs"]["content"][0]["logprob"])

            tokens, _, first = ask(shown[0], texts[0], shown[1], texts[1])
            best = max(case["logits"])
            self.assertEqual(tokens, len(case["ids"]))
            self.assertAlmostEqual(first, -math.log(sum(math.exp(logit - best) for logit in case["logits"])), 2)
            before_second = case["ids"].index(json.loads((folder / "config.json").read_text())["image_token_id"], 45)
            _, cached, other = ask(shown[0], texts[0], shown[2], texts[1])
            self.assertEqual(cached, before_second)
            self.assertNotEqual(other, first)
            _, cached, again = ask(shown[0], texts[0], shown[1], texts[1])
            self.assertGreaterEqual(cached, before_second)
            self.assertAlmostEqual(again, first, 4)
            status, _, refused = server.request("POST", CHAT, {"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "x"}}]}]})
            self.assertEqual(status, 400)
            self.assertIn("video_url", refused["error"]["message"])

    def test_served(self):
        def shown(name):
            code = base64.b64encode((PICTURES / name).read_bytes()).decode()
            return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{code}", "detail": "auto"}}

        folder = GOLDEN / "gemma3"
        case = json.loads((folder / "reference.json").read_text())[2]
        content = []
        for text, name in zip(["What is in the picture?", "And what is here?"], [case["picture"], *case["more"]]):
            content += [{"type": "text", "text": text}, shown(name)]
        asked = dict(temperature=0, max_tokens=12, logprobs=True)
        with Server("-m", folder, "--type", "f16", "--ctx", 512, "--sessions", 2) as server:
            answer = server.post(CHAT, messages=[{"role": "user", "content": content}], **asked)
            self.assertEqual(answer["usage"]["prompt_tokens"], len(case["ids"]))
            best = max(case["logits"])
            likely = -math.log(sum(math.exp(logit - best) for logit in case["logits"]))  # of the first token, by Transformers
            self.assertAlmostEqual(answer["choices"][0]["logprobs"]["content"][0]["logprob"], likely, 2)
            # Another picture in its place: nothing of the first one is reused but what comes before it.
            content[3] = shown("rgb1x1.png")
            other = server.post(CHAT, messages=[{"role": "user", "content": content}], **asked)
            self.assertGreater(other["usage"]["prompt_tokens_details"]["cached_tokens"], 80)
            self.assertLess(other["usage"]["prompt_tokens_details"]["cached_tokens"], len(case["ids"]) - 81)
            first = answer["choices"][0]["logprobs"]["content"][0]["logprob"], other["choices"][0]["logprobs"]["content"][0]["logprob"]
            self.assertNotEqual(*first)
            again = server.post(CHAT, messages=[{"role": "user", "content": content[:2]}, {"role": "assistant", "content": "A cat."},
                                                {"role": "user", "content": "Why?"}], **asked)
            self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 80)
            for url, words in [("https://example.com/a.png", "must be a URL that holds it"), ("data:image/png;base64,AB", "no base64"),
                               ("data:image/png;base64,AAAA", "cannot be read")]:
                part = {"type": "image_url", "image_url": {"url": url}}
                status, _, refused = server.request("POST", CHAT, {"messages": [{"role": "user", "content": [part]}]})
                self.assertEqual(status, 400)
                self.assertIn(words, refused["error"]["message"])
            # More than fit: the rest of them is not even encoded.
            status, _, refused = server.request("POST", CHAT, {"messages": [{"role": "user", "content": [shown("rgb1x1.png")] * 200}]})
            self.assertEqual((status, refused["error"]["code"]), (400, "context_length_exceeded"))
            self.assertIn("the prompt's pictures have more", refused["error"]["message"])
        with Server("-m", plain(), "--ctx", 512) as server:
            status, _, refused = server.request("POST", CHAT, {"messages": [{"role": "user", "content": [shown("rgb1x1.png")]}]})
            self.assertEqual(status, 400)

    def test_refusals(self):
        for place, code, argv in [("LICENSE", 1, ["--image", ROOT / "LICENSE", "-p", "a"]),
                                  ("--image", 2, ["--image", PICTURES / "rgb1x1.png", "--prompt-ids", "1"]),
                                  ("do not fit", 2, ["--image", PICTURES / "rgb70x50.png", "-p", "a", "--ctx", 32])]:
            _, err = weft("generate", "-m", MODEL, *argv, expect=code)
            self.assertIn(place, err)
        _, err = weft("chat", "-m", plain(), "--image", PICTURES / "rgb1x1.png", "what?", expect=1)
        self.assertTrue(err.startswith("weft: "), err)
