"""`weft serve --states`: /slots, and conversations that lose their session."""
import json
import pathlib
import tempfile
import threading
import unittest

from serving import Server, Stream
from support import FOLDER, chatty, weft

STORY = "tell me a story about a very small cat and a very large dog who live in a house near the sea with their friends " * 2


class ServeSlots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=FOLDER)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def server(self, *options):
        return Server("--states", self.folder, *options)

    def slot(self, server, action, name=None, slot=0, expect=200):
        status, _, answer = server.request("POST", f"/slots/{slot}?action={action}", {"filename": name} if name is not None else {})
        self.assertEqual(status, expect, answer)
        return answer if status == 200 else (answer["error"]["code"], answer["error"]["param"])

    def slots(self, server):
        status, _, text = server.request("GET", "/slots")
        self.assertEqual(status, 200)
        return [(slot["id"], slot["is_processing"], slot["n_tokens"]) for slot in json.loads(text)]

    def ask(self, server, text=STORY, **more):
        return server.chat(text, temperature=0, max_tokens=8, **more)

    def cached(self, answer):
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_a_slot_is_saved_erased_and_restored(self):
        with self.server("--sessions", 2) as server:
            self.assertEqual(self.slots(server), [(0, False, 0), (1, False, 0)])
            self.assertEqual(self.slot(server, "save", "empty", expect=400), ("invalid_value", "id_slot"))
            first = self.ask(server)
            self.assertEqual((first["usage"]["weft"]["slot"], self.cached(first)), (0, 0))
            tokens = self.slots(server)[0][2]
            self.assertEqual(tokens, first["usage"]["total_tokens"])
            saved = self.slot(server, "save", "story-1")
            self.assertEqual(saved, {"id_slot": 0, "filename": "story-1", "n_saved": tokens, "n_written": (self.folder / "story-1.session").stat().st_size})
            self.assertEqual(self.slot(server, "erase"), {"id_slot": 0, "n_erased": tokens})
            self.assertEqual(self.slots(server)[0], (0, False, 0))
            self.assertEqual(self.cached(self.ask(server)), 0)
            self.slot(server, "erase")
            restored = self.slot(server, "restore", "story-1", slot=1)
            self.assertEqual(restored, {"id_slot": 1, "filename": "story-1", "n_restored": tokens, "n_read": saved["n_written"]})
            again = self.ask(server)
            self.assertEqual(again["choices"], first["choices"])
            self.assertGreaterEqual(self.cached(again), first["usage"]["prompt_tokens"] - 1)
            # A state is replaced, and no other file is left.
            self.slot(server, "save", "story-1", slot=1)
            self.assertEqual([file.name for file in self.folder.iterdir()], ["story-1.session"])
        with self.server("--sessions", 1) as server:  # another process
            self.slot(server, "restore", "story-1")
            again = self.ask(server)
            self.assertEqual(again["choices"], first["choices"])
            self.assertGreaterEqual(self.cached(again), first["usage"]["prompt_tokens"] - 1)

    def test_what_is_refused(self):
        outside = self.folder.parent / "outside.session"
        with self.server("--sessions", 1) as server:
            self.ask(server)
            self.slot(server, "save", "good")
            outside.write_bytes((self.folder / "good.session").read_bytes())
            for name in ("", ".", "..", "../outside", "/etc/passwd", "a/b", "a.b", "good.session", "..%2foutside", "a\\b", "x" * 65, "ä", "a b", "~", "good\n"):
                for action in ("save", "restore"):
                    self.assertEqual(self.slot(server, action, name, expect=400), ("invalid_value", "filename"), name)
            self.assertEqual(self.slot(server, "restore", "none", expect=404), ("state_not_found", "filename"))
            self.assertEqual(self.slot(server, "save", expect=400), ("missing_required_parameter", "filename"))
            self.assertEqual(self.slot(server, "erase", "good", expect=400), ("unsupported_parameter", "filename"))
            self.assertEqual(self.slot(server, "read", "good", expect=400), ("invalid_value", "action"))
            self.assertEqual(self.slot(server, "save", "good", slot=1, expect=400), ("invalid_value", "id_slot"))
            self.assertEqual(server.request("POST", "/slots/0", {})[0], 400)
            for path in ("/slots/-1", "/slots/x", "/slots/1000", "/slots/0/x", "/slots/"):
                self.assertEqual(server.request("POST", path + "?action=erase", {})[0], 404, path)
            self.assertEqual(server.request("POST", "/slots", {})[0], 405)
            # A file that is cut or another model's: the slot keeps what it has.
            whole = (self.folder / "good.session").read_bytes()
            (self.folder / "cut.session").write_bytes(whole[:len(whole) // 2])
            weft("generate", "-m", chatty(), "--prompt-ids", "5,6,7", "-n", 2, "--save", self.folder / "other.session")
            before = self.slots(server)
            for name in ("cut", "other"):
                status, _, answer = server.request("POST", "/slots/0?action=restore", {"filename": name})
                self.assertEqual((status, answer["error"]["param"], answer["error"]["code"]), (400, "filename", "unsupported"))
                self.assertNotIn(str(self.folder), answer["error"]["message"])
            self.assertEqual(self.slots(server), before)
            self.assertEqual({file.name for file in self.folder.iterdir()}, {"good.session", "cut.session", "other.session"})
            # While a request has it.
            stream = Stream(server, "/v1/completions", prompt=[5, 6, 7], regex="[^!]{8000}")
            next(stream.events())
            self.assertEqual(self.slot(server, "save", "good", expect=429), ("slot_busy", None))
            self.assertEqual(self.slots(server), [(0, True, None)])
            stream.close()
        with Server("--sessions", 1) as server:
            for method, path in (("GET", "/slots"), ("POST", "/slots/0?action=erase")):
                status, _, answer = server.request(method, path, {} if method == "POST" else None)
                self.assertEqual((status, answer["error"]["code"]), (404, "slots_off"))
        self.assertIn("/nonexistent", weft("serve", "--port", 0, "--states", "/nonexistent/folder", expect=1)[1])

    def test_a_conversation_comes_back_from_disk(self):
        other = "list many things that a robot can do on a long day in the garden with the tools that it has got there " * 2
        with Server("--sessions", 1) as server:
            want = self.ask(server)["choices"]
            self.ask(server, other)
            self.assertLess(self.cached(self.ask(server)), 16)
        with self.server("--sessions", 1) as server:
            first = self.ask(server)
            self.assertLess(self.cached(self.ask(server, other)), 16)
            again = self.ask(server)
            self.assertEqual((first["choices"], again["choices"]), (want, want))
            self.assertGreaterEqual(self.cached(again), first["usage"]["prompt_tokens"] - 1)
            self.assertGreater(self.cached(self.ask(server, other)), 16)
            self.assertEqual(list(self.folder.iterdir()), [])  # such files have no names
            # The answer does not depend on who asked before.
            warm = {"temperature": 1.2, "seed": 7, "max_tokens": 12}
            said = server.chat(STORY, **warm)["choices"]
            self.ask(server, other)
            self.assertEqual(server.chat(STORY, **warm)["choices"], said)
            texts = [f"{word} {STORY}" for word in ("one", "two", "three")]
            alone = [self.ask(server, text)["choices"] for text in texts]
            for _ in range(2):
                for text, expected in zip(texts, alone):
                    self.assertEqual(self.ask(server, text)["choices"], expected)

    def test_the_limit(self):
        with self.server("--sessions", 1, "--states-limit", 1) as server:
            self.ask(server)
            size = self.slot(server, "save", "a")["n_written"]
            most = (1 << 20) // size
            for number in range(1, most):
                self.slot(server, "save", f"a{number}")
            self.assertEqual(self.slot(server, "save", "more", expect=503), ("storage_full", None))
            self.assertEqual(len(list(self.folder.iterdir())), most)
            self.slot(server, "save", "a")  # the same place
            # Conversations without names have no place now.
            self.ask(server, "something else, which is longer than that " * 4)
            self.assertLess(self.cached(self.ask(server)), 16)

    def test_many_at_once(self):
        with self.server("--sessions", 2, "--queue", 64) as server:
            texts = [f"{number} {STORY}" for number in range(5)]
            want = [self.ask(server, text)["choices"][0]["message"] for text in texts]
            problems = []
            def client(number):
                try:
                    for turn in range(6):
                        at = (number + turn) % len(texts)
                        got = self.ask(server, texts[at])["choices"][0]["message"]
                        self.assertEqual(got, want[at])
                        action = ("save", "restore", "erase")[(number + turn) % 3]
                        status = server.request("POST", f"/slots/{turn % 2}?action={action}", {} if action == "erase" else {"filename": f"n{turn % 2}"})[0]
                        self.assertIn(status, (200, 400, 404, 429))
                except Exception as problem:
                    problems.append(problem)
            threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if problems:
                raise problems[0]
