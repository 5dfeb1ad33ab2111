"""Several choices of one request to `weft serve`, and prompts that requests share."""
import concurrent.futures
import random
import time

from serving import CHAT, Server, ServeTest, Stream, parse_metrics, post_bytes, text_of, user
from support import model

STORY = {"messages": user("tell me a story about a cat"), "max_tokens": 16, "temperature": 1.2}


def texts_of(answer):
    return [choice["message"]["content"] for choice in answer["choices"]]


class ServeChoices(ServeTest):
    def test_choices_of_a_chat(self):
        """Choice i is the answer to the seed plus i."""
        single = [self.server.post(CHAT, **STORY, seed=40 + i) for i in range(4)]
        answer = self.server.post(CHAT, **STORY, seed=40, n=4)
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
        self.assertEqual(texts_of(answer), [texts_of(one)[0] for one in single])
        self.assertGreater(len(set(texts_of(answer))), 1)
        self.assertEqual([choice["finish_reason"] for choice in answer["choices"]], [one["choices"][0]["finish_reason"] for one in single])
        usage = answer["usage"]
        self.assertEqual(usage["prompt_tokens"], single[0]["usage"]["prompt_tokens"])
        self.assertEqual(usage["completion_tokens"], sum(one["usage"]["completion_tokens"] for one in single))
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        # Without a seed they differ too.
        self.assertGreater(len(set(texts_of(self.server.post(CHAT, **STORY, n=4)))), 1)
        # The highest seed has successors.
        self.assertEqual(len(self.server.post(CHAT, **STORY, n=2, seed=2**63 - 1)["choices"]), 2)

    def test_a_stream_of_choices(self):
        ask = dict(STORY, seed=7, n=3, logprobs=True)
        whole = self.server.post(CHAT, **ask)
        stream = Stream(self.server, CHAT, **ask, stream_options={"include_usage": True})
        *events, usage, end = stream.events()
        self.assertEqual(end, "[DONE]")
        self.assertEqual(usage["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
        self.assertTrue(all(len(event["choices"]) == 1 for event in events))
        for index in range(3):
            own = [event["choices"][0] for event in events if event["choices"][0]["index"] == index]
            self.assertEqual(own[0]["delta"], {"role": "assistant", "content": ""})
            self.assertEqual([choice["finish_reason"] for choice in own if choice["finish_reason"]], [whole["choices"][index]["finish_reason"]])
            self.assertEqual(own[-1]["delta"], {})
            self.assertEqual(text_of(events, index), texts_of(whole)[index])
            self.assertEqual([token["token"] for choice in own if choice["logprobs"] for token in choice["logprobs"]["content"]],
                             [token["token"] for token in whole["choices"][index]["logprobs"]["content"]])
        # They are written side by side.
        order = [event["choices"][0]["index"] for event in events if event["choices"][0]["delta"].get("content")]
        self.assertNotEqual(order, sorted(order))

    def test_choices_of_a_completion(self):
        ask = dict(prompt="The cat", max_tokens=8, temperature=1, seed=3)
        single = [self.server.post("/v1/completions", **dict(ask, seed=3 + i))["choices"][0]["text"] for i in range(3)]
        choices = self.server.post("/v1/completions", **ask, n=3, best_of=3)["choices"]
        self.assertEqual([(choice["index"], choice["text"]) for choice in choices], list(enumerate(single)))
        texts = ["", "", ""]
        for event in Stream(self.server, "/v1/completions", **ask, n=3).events():
            if event != "[DONE]":
                texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
        self.assertEqual(texts, single)

    def test_more_choices_than_free_places(self):
        """Those without a place wait for one; all of a request's are given up with it."""
        with Server("--sessions", 2, "--queue", 2) as server:
            stream = Stream(server, "/v1/completions", prompt=[5, 6], regex="[^!]{8000}")
            next(stream.events())
            pool = concurrent.futures.ThreadPoolExecutor()
            waiting = pool.submit(server.post, CHAT, **STORY, seed=1, n=2)
            stream.close()
            self.assertEqual(texts_of(waiting.result()), [texts_of(server.post(CHAT, **STORY, seed=1 + i))[0] for i in range(2)])
            stream = Stream(server, "/v1/completions", prompt=[5, 6], regex="[^!]{8000}", n=2)
            next(stream.events())
            stream.close()
            self.assertEqual(len(server.post(CHAT, **STORY, n=2)["choices"]), 2)
            status, _, answer = server.request("POST", CHAT, dict(STORY, n=3))
            self.assertEqual((status, answer["error"]["param"]), (400, "n"))
        with Server("--sessions", 2, "--queue", 0) as server:
            stream = Stream(server, "/v1/completions", prompt=[5, 6], regex="[^!]{8000}")
            next(stream.events())
            status, _, answer = server.request("POST", CHAT, dict(STORY, n=2))
            self.assertEqual((status, answer["error"]["code"]), (429, "queue_full"))
            stream.close()


class ServeSharedPrompts(ServeTest):
    """With a model of random weights that has a longer context than pocket."""
    SYSTEM = list(range(5, 5 + 300))

    @classmethod
    def options(cls):
        return "--sessions", 6, "--queue", 8, "-m", model("long.gguf", "--type", "f16", "--context", 1024)

    def ask(self, ids, **more):
        return self.server.post("/v1/completions", **{"prompt": ids, "max_tokens": 12, "temperature": 0, **more})

    def computed(self):
        """Tokens of prompts that were computed so far."""
        values, _ = parse_metrics(self.server.request("GET", "/metrics")[2])
        return values["weft_prompt_tokens_total"] - values["weft_prompt_cached_tokens_total"]

    def cached(self, answer):
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_a_shared_beginning_is_computed_once(self):
        first = self.ask(self.SYSTEM + [7, 8, 9])
        self.assertEqual(self.cached(first), 0)
        # Other conversations begin with it, each in a session of its own, which keeps its own cache.
        for i in range(3):
            answer = self.ask(self.SYSTEM + [50 + i] * 350)
            self.assertEqual(self.cached(answer), len(self.SYSTEM))
        self.assertEqual(self.ask(self.SYSTEM + [7, 8, 9])["choices"], first["choices"])
        self.assertGreater(self.cached(self.ask(self.SYSTEM + [51] * 350 + [4])), len(self.SYSTEM) + 349)

    def test_the_answers_are_those_without_it(self):
        system = [id + 1 for id in self.SYSTEM]
        self.ask(system + [3])
        for i, more in enumerate(({}, {"seed": 3, "temperature": 1}, {"regex": "[a-z ]{12}"}, {"logprobs": 2})):
            ids = system + [60 + i] * 320
            shared = self.ask(ids, **more)
            self.assertEqual(self.cached(shared), len(system))
            with Server(*self.options()) as other:
                alone = other.post("/v1/completions", **{"prompt": ids, "max_tokens": 12, "temperature": 0, **more})
            self.assertEqual(alone["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertEqual(shared["choices"][0]["text"], alone["choices"][0]["text"])

    def test_requests_at_the_same_time_share_it(self):
        system = [id + 2 for id in self.SYSTEM]
        before = self.computed()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda i: self.ask(system + [70 + i] * 310), range(5)))
        self.assertLessEqual(self.computed() - before, len(system) + 5 * 310)
        self.assertEqual(sorted(map(self.cached, answers)), [0] + [len(system)] * 4)

    def prompts_begun(self):
        return parse_metrics(self.server.request("GET", "/metrics")[2])[0]["weft_prompt_tokens_total"]

    def first_token(self, ids):
        """The time of its first token."""
        events = Stream(self.server, "/v1/completions", prompt=ids, max_tokens=1).events()
        next(events)
        now = time.monotonic()
        list(events)
        return now

    def test_no_short_prompt_waits_for_a_long_one(self):
        """Neither for its turn nor, if they share their beginning, for more than that."""
        some_ids = random.Random(1)
        for shared in (0, 300):
            for _ in range(3):  # a slow client may come too late
                long = some_ids.choices(range(5, 250), k=1000)
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    begun = self.prompts_begun()
                    first = pool.submit(self.first_token, long)
                    while self.prompts_begun() == begun:
                        pass
                    answer = self.ask(long[:shared] + [3, 4, 5], max_tokens=1)
                    early = time.monotonic() < first.result()
                if early:
                    break
            self.assertTrue(early)
            self.assertIn(self.cached(answer), range(max(shared - 16, 0), shared + 1))

    def test_choices_share_their_prompt(self):
        system = [id + 3 for id in self.SYSTEM]
        before = self.computed()
        answer = self.ask(system, n=4, temperature=1, seed=1)
        self.assertEqual(self.computed() - before, len(system) + 3)
        for i, choice in enumerate(answer["choices"]):
            self.assertEqual(choice["text"], self.ask(system, temperature=1, seed=1 + i)["choices"][0]["text"])

    def test_a_source_that_goes_away(self):
        """Who waits for the prompt of a request that is given up computes it."""
        for _ in range(5):
            system = [id + 4 for id in self.SYSTEM] * 3
            stream = self.server.socket()
            stream.sendall(post_bytes("/v1/completions", {"prompt": system, "max_tokens": 100}))
            with concurrent.futures.ThreadPoolExecutor() as pool:
                other = pool.submit(self.ask, system + [3])
                stream.close()
                self.assertEqual(other.result()["usage"]["completion_tokens"], 12)
