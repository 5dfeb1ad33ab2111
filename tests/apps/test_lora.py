"""`--lora` of `generate`, `chat` and `serve`, with random adapters of weft-make-model."""
import shutil
import unittest

from serving import Server
from support import FOLDER, chatty, model, plain, weft, weft_json

PROMPT = "the cat"


class Lora(unittest.TestCase):
    def generate(self, *options, count=12):
        return weft_json("generate", "-m", plain(), "-p", PROMPT, "-n", count, "--temperature", 0, *options)["ids"]

    def test_generate(self):
        one, other = model("lora1", "--lora", 2), model("lora2", "--lora", 3, "--seed", 9)
        without = self.generate()
        texts = [self.generate("--lora", adapter) for adapter in (one, other, f"{one}:-1")]
        self.assertEqual(len(set(map(tuple, [without, *texts]))), 4)
        self.assertEqual(self.generate("--lora", f"{one}:1.0"), texts[0])
        self.assertEqual(self.generate("--lora", f"{one}:0"), without)
        self.assertEqual(self.generate("--lora", one, "--speculate", "lookup"), texts[0])
        named = FOLDER / "lora:2"  # a name, not a scale
        shutil.copytree(one, named, dirs_exist_ok=True)
        self.assertEqual(self.generate("--lora", named), texts[0])

    def test_saved_sessions(self):
        one = model("lora1", "--lora", 2)
        saved = FOLDER / "lora.session"
        first = self.generate("--lora", one, "--save", saved, count=5)
        whole = self.generate("--lora", one)
        rest = weft_json("generate", "-m", plain(), "--restore", saved, "-n", 7, "--temperature", 0, "--lora", one)["ids"]
        self.assertEqual(first + rest, whole)
        _, err = weft("generate", "-m", plain(), "--restore", saved, "-n", 7, expect=1)
        self.assertIn("it was saved with the adapter", err)

    def test_chat(self):
        one = model("lora1", "--lora", 2)
        options = ("chat", "-m", chatty(), "-n", 12, "--temperature", 0, "hello")
        self.assertNotEqual(weft(*options)[0], weft(*options, "--lora", one)[0])

    def test_serve(self):
        one = model("lora1", "--lora", 2)
        ask = dict(prompt=PROMPT, max_tokens=12, temperature=0)
        texts = []
        for options in ((), ("--lora", one)):
            with Server("-m", plain(), *options) as server:
                texts.append(server.post("/v1/completions", **ask)["choices"][0]["text"])
        self.assertNotEqual(*texts)
        self.assertEqual(texts[1], weft("generate", "-m", plain(), "-p", PROMPT, "-n", 12, "--temperature", 0, "--lora", one)[0]
                         .removeprefix(PROMPT).removesuffix("\n"))

    def test_what_is_refused(self):
        wide = model("lora-wide", "--lora", 2, "--width", 128)
        for lora, said, code in (
                (wide, "tensor 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight' has the shape (2, 128), expected (rank, 64)", 1),
                (plain(), "it is not a LoRA adapter", 1), (FOLDER / "none", "none", 1), (f"{wide}:x", '"x" is not a number', 2)):
            _, err = weft("generate", "-m", plain(), "-p", "x", "--lora", lora, expect=code)
            self.assertIn(said, err)
