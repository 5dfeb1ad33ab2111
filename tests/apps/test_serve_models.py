"""Several models in one `weft serve`."""
import threading
import time

from serving import CHAT, Server, ServeTest, Stream, user
from support import FOLDER, TEMPLATE, bert, model, weft, weft_json


def chat_model(name, seed):
    return model(f"{name}.gguf", "--type", "f16", "--context", 1024, "--chat-template", TEMPLATE, "--seed", seed)


class ServeModels(ServeTest):
    @classmethod
    def options(cls):
        return "--sessions", 2, "-m", chat_model("one", 1), "-m", chat_model("two", 2), "-m", bert()

    def loaded(self, server=None):
        return {one["id"]: one["status"]["value"] == "loaded" for one in (server or self.server).request("GET", "/v1/models")[2]["data"]}

    def say(self, server=None, **body):
        return (server or self.server).post(CHAT, messages=user("hello"), temperature=0, max_tokens=6, **body)

    def test_each_answers_when_it_is_named(self):
        self.assertTrue(self.loaded()["one"])
        one, two, first = self.say(model="one"), self.say(model="two"), self.say()
        self.assertEqual((one["model"], two["model"], first["model"]), ("one", "two", "one"))
        self.assertEqual(one["choices"][0]["message"], first["choices"][0]["message"])
        self.assertNotEqual(one["choices"][0]["message"], two["choices"][0]["message"])
        with Server("-m", chat_model("two", 2)) as alone:
            self.assertEqual(self.say(alone, model="any name")["choices"], two["choices"])
        self.assertEqual(len(self.server.post("/v1/embeddings", model="bert", input="the cat")["data"][0]["embedding"]), 48)
        self.assertEqual(self.loaded(), {"one": True, "two": True, "bert": True})
        ids = [self.server.post("/tokenize", model=name, content="abc")["tokens"] for name in ("one", "bert")]
        self.assertNotEqual(*ids)
        self.assertEqual(self.server.request("GET", "/v1/models/two")[2]["id"], "two")
        events = list(Stream(self.server, CHAT, messages=user("hello"), model="two", temperature=0, max_tokens=6).events())
        self.assertEqual("".join(event["choices"][0]["delta"].get("content") or "" for event in events[:-1]), two["choices"][0]["message"]["content"])

    def test_unknown_names(self):
        for path, body in ((CHAT, {"messages": user("a")}), ("/v1/completions", {"prompt": "a"}), ("/v1/responses", {"input": "a"}), ("/v1/embeddings", {"input": "a"}),
                           ("/v1/messages", {"messages": user("a"), "max_tokens": 2}), ("/tokenize", {"content": "a"}), ("/apply-template", {"messages": user("a")})):
            status, _, answer = self.server.request("POST", path, {"model": "three", **body})
            self.assertEqual(status, 404, (path, answer))
            self.assertIn("three", answer["error"]["message"])
        self.assertEqual(self.server.request("GET", "/v1/models/three")[0], 404)
        status, _, answer = self.server.request("POST", CHAT, {"model": "bert", "messages": user("a")})
        self.assertEqual((status, answer["error"]["param"]), (400, "model"))

    def test_many_ask_at_once(self):
        want = {name: self.say(model=name)["choices"] for name in ("one", "two")}
        said = []
        threads = [threading.Thread(target=lambda name=name: said.append((name, self.say(model=name)["choices"]))) for name in ("one", "two") * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(said), 8)
        for name, choices in said:
            self.assertEqual(choices, want[name])

    def test_short_memory_gives_one_back(self):
        """The least recently used one; never one that answers. The budget holds two of three."""
        names = [chat_model(f"m{i}", 10 + i) for i in range(3)]
        with Server("--sessions", 1, "-m", names[0]) as server:
            alone = self.say(server)
        budget = int(2.6 * sum(weft_json("generate", "-m", names[0], "-p", "a", "-n", 1)["device_bytes"].values()))
        with Server("--sessions", 1, "--memory-budget", f"{budget >> 10}KiB", "-m", names[0], "-m", names[1], "-m", names[2]) as server:
            self.assertEqual(self.loaded(server), {"m0": True, "m1": False, "m2": False})
            first = self.say(server, model="m0")["choices"]
            self.assertEqual(first, alone["choices"])
            for asked, there in (("m1", "m0 m1"), ("m2", "m1 m2"), ("m1", "m1 m2"), ("m0", "m0 m1"), ("m2", "m0 m2")):
                self.say(server, model=asked)
                self.assertEqual(" ".join(name for name, loaded in sorted(self.loaded(server).items()) if loaded), there, asked)
            self.assertEqual(self.say(server, model="m0")["choices"], first)
            # m0 and m2 answer: m1 waits for one of them.
            streams = [Stream(server, CHAT, messages=user("hello"), model=name, max_tokens=400, grammar="root ::= [a-z]+") for name in ("m0", "m2")]
            for stream in streams:
                next(stream.events())
            waits = []
            thread = threading.Thread(target=lambda: waits.append(self.say(server, model="m1")["model"]))
            thread.start()
            time.sleep(0.2)
            self.assertEqual([name for name, loaded in self.loaded(server).items() if loaded], ["m0", "m2"])
            for stream in streams:
                stream.close()
            thread.join(60)
            self.assertEqual(waits, ["m1"])

    def test_refusals(self):
        one = chat_model("one", 1)
        for argv, place, code in ((["-m", one, "-m", one], "two models are called", 2), (["-m", one, "-m", FOLDER / "nothing.gguf"], "nothing.gguf", 1),
                                  (["-m", one, "-m", chat_model("two", 2), "--states", FOLDER / "s"], "--states", 2)):
            self.assertIn(place, weft("serve", "--port", 0, *argv, expect=code)[1])
