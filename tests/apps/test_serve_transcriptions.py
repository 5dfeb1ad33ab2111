"""Recordings by `weft serve`, with a tiny random Whisper of tests/tools/whisper_goldens.py."""
import concurrent.futures
import json
import random
import re

from serving import CHAT, Server, ServeTest, user
from support import FOLDER, bert, chatty, weft
from test_listen import MODEL, wav, whistle

PATH = "/v1/audio/transcriptions"
BOUNDARY = "----weft0123456789"


def form(fields, boundary=BOUNDARY):
    """As OpenAI's client (httpx) sends it; a value of bytes is a file."""
    body = b""
    for name, value in fields:
        file = isinstance(value, bytes)
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode()
        body += b'; filename="a;b.wav"\r\nContent-Type: audio/wav' if file else b""
        body += b"\r\n\r\n" + (value if file else value.encode()) + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()


class ServeTranscriptions(ServeTest):
    @classmethod
    def options(cls):
        return "-m", MODEL

    def setUp(self):
        self.recording = wav(whistle(seconds=2))

    def test_pages_of_other_sites_may_not_send_recordings(self):
        """A form of any page needs no preflight."""
        asked = form([("file", self.recording), ("language", "fr")])
        kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        host = f"127.0.0.1:{self.server.port}"
        for origin, status in (("https://evil.example", 403), ("null", 403), ("", 403), ("http://127.0.0.1.evil.example", 403),
                               (f"http://{host}", 200), ("http://localhost:1", 403)):
            answer = self.server.request("POST", PATH, asked, {**kind, "Origin": origin})
            self.assertEqual(answer[0], status, (origin, answer))

    def send(self, *fields, path=PATH, body=None, type=None):
        return self.server.request("POST", path, form(fields) if body is None else body,
                                   {"Content-Type": type or f"multipart/form-data; boundary={BOUNDARY}"})

    def fine(self, *fields, **more):
        status, headers, answer = self.send(*fields, **more)
        self.assertEqual(status, 200, answer)
        return headers["Content-Type"], answer

    def test_a_form_may_be_larger_than_other_bodies(self):
        """25 MiB, as OpenAI's: four seconds of 64 channels have 8 MB."""
        large = wav(whistle(seconds=4), channels=64)
        self.assertGreater(len(large), 8_000_000)
        self.fine(("file", large), ("language", "fr"), ("temperature", "0"))
        for kind, most in ((f"multipart/form-data; boundary={BOUNDARY}", 25 << 20), ("application/json", 4 << 20)):
            head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
            for length in most + 1, 26 << 20:
                answer = self.server.raw(f"{head}Content-Length: {length}\r\n\r\n".encode())
                self.assertIn(f"larger than {most} bytes".encode(), answer)
            chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
            answer = self.server.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * (5 << 4) + b"0\r\n\r\n")
            self.assertIn(b" 400 " if "form" in kind else b" 415 ", answer[:20])  # the form has no part

    def test_they_are_those_of_weft_listen(self):
        path = FOLDER / "transcription.wav"
        path.write_bytes(self.recording)

        def listen(form):
            return weft("listen", "-m", MODEL, "--language", "fr", path, "--format", form)[0]
        asked = [("file", self.recording), ("model", "whisper-1"), ("language", "fr"), ("temperature", "0")]
        want = json.loads(listen("json"))
        self.assertGreater(len(want["segments"]), 1)
        self.assertEqual(self.fine(*asked), ("application/json", {"text": want["text"]}))
        self.assertEqual(self.fine(*asked, ("response_format", "text"))[1], want["text"] + "\n")
        for kind, type in (("srt", "text/plain; charset=utf-8"), ("vtt", "text/vtt; charset=utf-8")):
            self.assertEqual(self.fine(*asked, ("response_format", kind)), (type, listen(kind)))
        answer = self.fine(*asked, ("response_format", "verbose_json"), ("timestamp_granularities[]", "segment"))[1]
        self.assertEqual([answer[key] for key in ("task", "language", "duration", "text")], ["transcribe", "fr", want["duration"], want["text"]])
        self.assertEqual([(one["start"], one["end"], one["text"]) for one in answer["segments"]],
                         [(one["start"], one["end"], one["text"]) for one in want["segments"]])
        self.assertNotIn("words", answer)
        words = json.loads(weft("listen", "-m", MODEL, "--language", "fr", path, "--format", "json", "--words")[0])["segments"]
        words = [(one["start"], one["end"]) for segment in words for one in segment["words"]]
        for more, has in (((), False), ((("timestamp_granularities[]", "segment"),), True)):
            answer = self.fine(*asked, ("response_format", "verbose_json"), ("timestamp_granularities[]", "word"), *more)[1]
            self.assertEqual([(one["start"], one["end"]) for one in answer["words"]], words)
            self.assertEqual("segments" in answer, has)
        translated = self.fine(*asked[:2], ("response_format", "verbose_json"), path="/v1/audio/translations")[1]
        self.assertEqual(translated["task"], "translate")

    def test_streams(self):
        asked = [("file", self.recording), ("language", "fr")]
        text = self.fine(*asked)[1]["text"]
        kind, answer = self.fine(*asked, ("stream", "true"))
        self.assertEqual(kind, "text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in answer.split("\n\n") if line]
        self.assertGreater(len(events), 2)
        self.assertEqual({one["type"] for one in events[:-1]}, {"transcript.text.delta"})
        self.assertEqual(events[-1], {"type": "transcript.text.done", "text": text})
        self.assertEqual(" ".join("".join(one["delta"] for one in events[:-1]).splitlines()).strip(" "), " ".join(text.splitlines()))
        failed = self.fine(("file", self.recording), ("language", "xx"), ("stream", "true"))[1]
        self.assertEqual(json.loads(failed.removeprefix("data: "))["error"]["param"], "language")

    def test_prompts_and_temperatures(self):
        asked = [("file", self.recording), ("language", "fr")]
        plain = self.fine(*asked)
        self.assertEqual(self.fine(*asked, ("temperature", "0.0"), ("stream", "false")), plain)
        self.assertNotEqual(self.fine(*asked, ("temperature", "1")), plain)
        self.fine(*asked, ("prompt", "Ein Gespräch über Wetter"))

    def test_many_at_once(self):
        asked = [("file", self.recording), ("language", "de")]
        want = self.fine(*asked)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(list(pool.map(lambda _: self.fine(*asked), range(6))), [want] * 6)

    def test_what_is_refused(self):
        file = ("file", self.recording)
        for code, param, fields in [
                ("missing_required_parameter", "file", [("model", "x")]),
                ("missing_required_parameter", "file", [("file", b"")]),
                ("invalid_value", "file", [("file", b"no recording")]),
                ("invalid_value", "file", [("file", self.recording[:40])]),
                ("invalid_value", "language", [file, ("language", "xx")]),
                ("invalid_value", "response_format", [file, ("response_format", "doc")]),
                ("invalid_value", "temperature", [file, ("temperature", "1.5")]),
                ("invalid_value", "temperature", [file, ("temperature", "nan")]),
                ("invalid_value", "temperature", [file, ("temperature", "")]),
                ("invalid_value", "prompt", [file, ("prompt", "a" * 16385)]),
                ("invalid_value", "prompt", [file, ("prompt", "a\0b")]),
                ("invalid_value", "stream", [file, ("stream", "yes")]),
                ("invalid_value", "response_format", [file, ("stream", "true"), ("response_format", "srt")]),
                ("unsupported_parameter", "include[]", [file, ("include[]", "logprobs")]),
                ("invalid_value", "timestamp_granularities[]", [file, ("timestamp_granularities[]", "letter")]),
                ("invalid_value", "response_format", [file, ("timestamp_granularities[]", "word")])]:
            with self.subTest(param=param, fields=str(fields)[:60]):
                status, _, answer = self.send(*fields)
                self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, code, param), answer)
        self.assertEqual(self.send(file, type="application/json")[0], 415)
        self.assertEqual(self.server.request("POST", CHAT, {"messages": [{"role": "user", "content": "x"}]})[0], 400)
        self.assertEqual(self.server.request("POST", "/v1/embeddings", {"input": "x"})[0], 400)

    def test_broken_forms(self):
        """Every cut and many changes of a small form are answered: 200 never, as its recording is none, and never 500."""
        whole, dice = form([("model", "m"), ("file", b"RIFF"), ("language", "de")]), random.Random(1)
        bodies = [whole[:cut] for cut in range(0, len(whole), 7)]
        for _ in range(60):
            body = bytearray(whole)
            for _ in range(dice.randrange(1, 4)):
                body[dice.randrange(len(body))] = dice.choice(b"\r\n-;=\"a\0:")
            bodies.append(bytes(body))
        for body in bodies:
            self.assertEqual(self.send(body=body)[0], 400, body)
        for type in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 71,
                     'multipart/form-data; boundary="'):
            self.assertIn(self.send(body=whole, type=type)[0], (400, 415))
        self.assertEqual(self.fine(("file", self.recording), ("language", "de"))[0], "application/json")

    def test_beside_another_model(self):
        with Server("-m", bert(), "-m", MODEL) as server:
            listed = server.request("GET", "/v1/models")[2]["data"]
            self.assertEqual([(one["id"], one.get("hears", False)) for one in listed], [("bert", False), ("speech", True)])
            headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
            for name, want in (("speech", 200), ("bert", 400), ("other", 404)):
                status, _, answer = server.request("POST", PATH, form([("model", name), ("file", self.recording)]), headers)
                self.assertEqual(status, want, answer)
            self.assertEqual(len(server.post("/v1/embeddings", model="bert", input="the cat")["data"]), 1)

    def test_one_duty_for_all_models(self):
        """Of a server that chats, hears and makes embeddings, the time of all counts; what is heard stays the same."""
        asked = [("model", "speech"), ("file", self.recording), ("language", "de"), ("temperature", "0")]
        headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        self.assertEqual(seconds_of(self.server), None)
        with Server("-m", chatty(), "-m", MODEL, "-m", bert(), "--duty", 50) as server:
            times = [seconds_of(server)]
            server.post(CHAT, model="chatty", messages=user("hello"), temperature=0, max_tokens=4)
            times.append(seconds_of(server))
            text = server.request("POST", PATH, form(asked), headers)[2]
            times.append(seconds_of(server))
            server.post("/v1/embeddings", model="bert", input="the cat")
            times.append(seconds_of(server))
        self.assertEqual(text, self.fine(*asked[1:])[1])
        self.assertTrue(0 == times[0] < times[1] < times[2] < times[3], times)


def seconds_of(server):
    """How long the device was busy, by the server's metrics."""
    found = re.search(r"^weft_device_busy_seconds_total ([\d.e-]+)$", server.request("GET", "/metrics")[2], re.M)
    return float(found[1]) if found else None
