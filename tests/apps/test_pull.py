"""weft pull, models and rm against a server made here that speaks the protocol of Hugging Face's hub."""
import hashlib
import http.server
import json
import pathlib
import shutil
import signal
import socketserver
import subprocess
import threading
import time
import unittest

from support import BIN, ENV, FOLDER, plain, weft, weft_json


def blob_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        hub = self.server.hub
        hub.requests.append((self.server.role, self.path, dict(self.headers)))
        answer = hub.api if self.path.startswith("/api/") else hub.resolve if self.server.role == "hub" else hub.content
        answer(self)

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, role, hub):
        super().__init__(("127.0.0.1", 0), Handler)
        self.role, self.hub = role, hub
        self.address = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """Clients that end are part of the tests."""


class Hub:
    """Repositories of files; large ones are at another host, as the hub's are."""

    def __init__(self):
        self.repositories, self.requests, self.token = {}, [], None
        self.cuts = []         # numbers of bytes after which the next contents break off
        self.ranges = True     # whether the contents' host knows ranges
        self.spoil = False     # the contents are wrong
        self.statuses = []     # of the next contents, instead of them
        self.lies = {}         # path -> SHA-256 in the list
        self.gate = None       # an event that contents wait for
        self.etags = False     # whether contents have an ETag, and If-Range is heeded
        self.server, self.host = Server("hub", self), Server("host", self)

    def close(self):
        for server in (self.server, self.host):
            server.shutdown()
            server.server_close()

    def api(self, handler):
        name = handler.path.removeprefix("/api/models/").removesuffix("/tree/main?recursive=true")
        if self.token and handler.headers.get("Authorization") != "Bearer " + self.token:
            return handler.reply(401, b'{"error":"Repository not found"}')
        if name not in self.repositories:
            return handler.reply(404, b'{"error":"Repository not found"}')
        files = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "folder"}]
        for path, data in self.repositories[name].items():
            entry = {"type": "file", "oid": blob_sha1(data), "size": len(data), "path": path}
            if path.endswith((".gguf", ".safetensors")):
                entry["oid"] = "1" * 40  # of the pointer
                entry["lfs"] = {"oid": self.lies.get(path, hashlib.sha256(data).hexdigest()), "size": len(data), "pointerSize": 134}
            files.append(entry)
        return handler.reply(200, json.dumps(files).encode(), [("Content-Type", "application/json")])

    def resolve(self, handler):
        return handler.reply(302, b"over there", [("Location", self.host.address + handler.path + "?signature=1")])

    def content(self, handler):
        if self.gate:
            self.gate.wait(20)
        if self.statuses:
            return handler.reply(self.statuses.pop(0), b"not now")
        owner, repo, _, _, *rest = handler.path.split("?")[0].strip("/").split("/")
        data = self.repositories[f"{owner}/{repo}"].get("/".join(rest))
        if data is None:
            return handler.reply(404)
        if self.spoil:
            data = bytes(len(data))
        start, asked, etag = 0, handler.headers.get("Range"), f'"{blob_sha1(data)}"'
        if handler.headers.get("If-Range", etag) != etag:
            asked = None
        if asked and self.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                return handler.reply(416)
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - start))
        if self.etags:
            handler.send_header("ETag", etag)
        handler.end_headers()
        end = len(data)
        if self.cuts:
            end = min(end, start + self.cuts.pop(0))
        handler.wfile.write(data[start:end])
        if end < len(data):
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.shutdown(2)
        return None


class Pull(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.cache = FOLDER / self.id()
        self.cache.mkdir()
        self.folder = self.cache / "models"
        self.env = {"WEFT_CACHE_DIR": str(self.cache), "HF_ENDPOINT": self.hub.server.address, "HOME": str(self.cache), "HF_HOME": "",
                    "HF_TOKEN": "", "no_proxy": "127.0.0.1"}
        self.data = plain().read_bytes()
        self.hub.repositories["maker/tiny-GGUF"] = {"README.md": b"# tiny", "tiny-Q8_0.gguf": self.data, "tiny-F16.gguf": b"other",
                                                    "mmproj-tiny-F16.gguf": b"pictures"}

    def pull(self, name, expect=0, **env):
        return weft("pull", name, env={**self.env, **env}, expect=expect)

    def left(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()) if self.folder.exists() else []

    def asked(self, role):
        return [(path, headers) for who, path, headers in self.hub.requests if who == role]

    def test_a_repository_becomes_a_model_by_name(self):
        out, err = self.pull("hf.co/maker/tiny-GGUF")
        path = pathlib.Path(out.strip())
        self.assertEqual(path, self.folder / "tiny-Q8_0.gguf")  # of the two types the one that serves better
        self.assertEqual(path.read_bytes(), self.data)
        self.assertIn("tiny-Q8_0", err)
        self.assertEqual(self.left(), ["tiny-Q8_0.gguf", "tiny-Q8_0.json"])
        for name in ("tiny-Q8_0", "hf.co/maker/tiny-GGUF"):
            text, _ = weft("inspect", "-m", name, env=self.env)
            self.assertIn("512 vocabulary rows", text)
        asked = len(self.hub.requests)
        self.assertEqual(self.pull("hf.co/maker/tiny-GGUF")[0], out)  # nothing is asked again
        self.assertEqual(len(self.hub.requests), asked)
        listed = {model["name"]: model for model in weft_json("models", env=self.env)["models"]}
        self.assertEqual(listed["tiny-Q8_0"]["bytes"], len(self.data))
        self.assertEqual(listed["tiny-Q8_0"]["source"], "hf.co/maker/tiny-GGUF")
        self.assertIn("tiny-Q8_0", weft("models", env=self.env)[0])
        weft("rm", "tiny-Q8_0", env=self.env)
        self.assertEqual(self.left(), [])
        _, err = weft("rm", "tiny-Q8_0", env=self.env, expect=1)
        self.assertIn("there is no such model", err)

    def test_a_type_is_chosen(self):
        out, _ = self.pull("maker/tiny-GGUF:f16")
        self.assertEqual(pathlib.Path(out.strip()).read_bytes(), b"other")
        _, err = self.pull("maker/tiny-GGUF:Q2_K", expect=1)
        self.assertIn("Q2_K", err)
        self.assertIn("tiny-F16, tiny-Q8_0", err)
        self.assertNotIn("mmproj", err)

    def test_a_broken_download_goes_on(self):
        self.hub.cuts = [1000, 20000]
        self.pull("maker/tiny-GGUF")
        self.assertEqual((self.folder / "tiny-Q8_0.gguf").read_bytes(), self.data)
        self.assertEqual([headers.get("Range") for _, headers in self.asked("host")], [None, "bytes=1000-", "bytes=21000-"])

    def test_an_ended_program_goes_on(self):
        half = self.data[:len(self.data) // 2]
        work = self.folder / ".pulling-tiny-Q8_0"
        work.mkdir(parents=True)
        (work / "tiny-Q8_0.gguf.part").write_bytes(half)
        self.pull("maker/tiny-GGUF")
        self.assertEqual((self.folder / "tiny-Q8_0.gguf").read_bytes(), self.data)
        self.assertEqual([headers.get("Range") for _, headers in self.asked("host")], [f"bytes={len(half)}-"])

    def test_a_killed_program_leaves_its_part(self):
        self.hub.cuts, self.hub.statuses = [5000], []
        gate = threading.Event()
        program = subprocess.Popen([BIN / "weft", "pull", "maker/tiny-GGUF"], env={**ENV, **self.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        part = self.folder / ".pulling-tiny-Q8_0/tiny-Q8_0.gguf.part"
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size >= 5000) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.hub.gate = gate
        program.send_signal(signal.SIGKILL)
        program.communicate()
        gate.set()
        self.assertNotIn("tiny-Q8_0.gguf", self.left())
        self.hub.requests.clear()
        self.pull("maker/tiny-GGUF")
        self.assertEqual((self.folder / "tiny-Q8_0.gguf").read_bytes(), self.data)
        self.assertTrue(self.asked("host")[0][1].get("Range"))

    def test_a_host_without_ranges_begins_anew(self):
        self.hub.cuts, self.hub.ranges = [1000], False
        self.pull("maker/tiny-GGUF")
        self.assertEqual((self.folder / "tiny-Q8_0.gguf").read_bytes(), self.data)

    def test_a_part_of_another_file_is_dropped(self):
        work = self.folder / ".pulling-tiny-Q8_0"
        work.mkdir(parents=True)
        (work / "tiny-Q8_0.gguf.part").write_bytes(b"x" * 5000)
        self.pull("maker/tiny-GGUF")
        self.assertEqual((self.folder / "tiny-Q8_0.gguf").read_bytes(), self.data)

    def test_wrong_sums_leave_nothing(self):
        self.hub.lies["tiny-Q8_0.gguf"] = "a" * 64
        _, err = self.pull("maker/tiny-GGUF", expect=1)
        self.assertIn("SHA-256", err)
        self.assertIn("a" * 64, err)
        self.assertEqual([name for name in self.left() if ".lock" not in name], [])
        self.hub.lies.clear()
        self.hub.spoil = True
        self.hub.repositories["maker/plain"] = {"config.json": b'{"a": 1}', "model.safetensors": b"weights"}
        _, err = self.pull("maker/plain", expect=1)
        self.assertIn("git", err)

    def test_a_busy_server_is_asked_again(self):
        self.hub.statuses = [503, 429]
        self.pull("maker/tiny-GGUF")
        self.assertEqual(len(self.asked("host")), 3)
        self.hub.statuses = [418]
        _, err = self.pull("maker/tiny-GGUF:F16", expect=1)
        self.assertIn("418", err)

    def test_a_token_goes_to_the_hub_alone(self):
        self.hub.token = "secret"
        _, err = self.pull("maker/tiny-GGUF", expect=1)
        self.assertIn("HF_TOKEN", err)
        self.pull("maker/tiny-GGUF", HF_TOKEN="secret")
        for role, wanted in (("hub", "Bearer secret"), ("host", None)):
            with self.subTest(role):
                self.assertEqual({headers.get("Authorization") for _, headers in self.asked(role)[-1:]}, {wanted})
        home = self.cache / "hf"
        home.mkdir()
        (home / "token").write_text("secret\n")
        self.pull("maker/tiny-GGUF:F16", HF_HOME=str(home))

    def test_parts_of_a_file(self):
        self.hub.repositories["maker/large"] = {f"Q8_0/large-Q8_0-0000{i}-of-00002.gguf": bytes([i]) * 3000 for i in (1, 2)}
        out, _ = self.pull("maker/large")
        self.assertEqual(pathlib.Path(out.strip()), self.folder / "large-Q8_0/large-Q8_0-00001-of-00002.gguf")
        self.assertEqual(self.left(), ["large-Q8_0.json"] + [f"large-Q8_0/large-Q8_0-0000{i}-of-00002.gguf" for i in (1, 2)])
        weft("rm", "large-Q8_0", env=self.env)
        self.assertEqual(self.left(), [])

    def test_a_folder_of_hugging_faces_format(self):
        files = {"config.json": b'{"model_type": "nothing"}', "tokenizer.json": b"{}", "model.safetensors": b"weights",
                 "1_Pooling/config.json": b"{}", "onnx/model.onnx": b"no", "pytorch_model.bin": b"no", "README.md": b"no"}
        self.hub.repositories["maker/plain"] = files
        out, _ = self.pull("hf.co/maker/plain")
        self.assertEqual(pathlib.Path(out.strip()), self.folder / "plain")
        self.assertEqual(self.left(), ["plain.json", "plain/1_Pooling/config.json", "plain/config.json", "plain/model.safetensors",
                                       "plain/tokenizer.json"])
        _, err = self.pull("maker/plain:Q4_0", expect=1)
        self.assertIn("no GGUF file", err)
        self.hub.repositories["maker/text"] = {"README.md": b"no"}
        _, err = self.pull("maker/text", expect=1)
        self.assertIn("no GGUF file and no model.safetensors", err)

    def test_hostile_names_stay_outside(self):
        for path in ("../../evil.gguf", "/tmp/evil.gguf", "a/../../evil-Q8_0.gguf", ".pulling/x.gguf", "-\n.gguf"):
            self.hub.repositories["maker/evil"] = {path: self.data}
            with self.subTest(path):
                _, err = self.pull("maker/evil", expect=1)
                self.assertIn("no GGUF file", err)
        self.assertEqual(self.left(), [])

    def test_urls(self):
        url = f"{self.hub.host.address}/maker/tiny-GGUF/resolve/main/tiny-Q8_0.gguf"
        out, err = self.pull(url)
        self.assertEqual(pathlib.Path(out.strip()).read_bytes(), self.data)
        self.assertIn("not checked", err)
        _, err = self.pull(f"{self.hub.host.address}/page.html", expect=2)
        self.assertIn("GGUF", err)

    def test_urls_of_the_hub(self):
        """A page's address is that of its file, and the token goes to the hub alone."""
        out, _ = self.pull(f"{self.hub.server.address}/maker/tiny-GGUF/blob/main/tiny-Q8_0.gguf", HF_TOKEN="secret")
        self.assertEqual(pathlib.Path(out.strip()).read_bytes(), self.data)
        (path, headers), = self.asked("hub")
        self.assertEqual((path, headers.get("Authorization")), ("/maker/tiny-GGUF/resolve/main/tiny-Q8_0.gguf", "Bearer secret"))
        self.assertIsNone(self.asked("host")[0][1].get("Authorization"))
        self.pull(f"{self.hub.host.address}/maker/tiny-GGUF/resolve/main/tiny-F16.gguf", HF_TOKEN="secret")
        self.assertIsNone(self.asked("host")[1][1].get("Authorization"))

    def broken_url(self, etag):
        """Leaves a part of an older file at a URL; returns the headers of the next try."""
        work = self.folder / ".pulling-tiny-Q8_0"
        work.mkdir(parents=True)
        (work / "tiny-Q8_0.gguf.part").write_bytes(self.data[:1000])
        if etag:
            (work / "tiny-Q8_0.gguf.etag").write_text(etag)
        out, _ = self.pull(f"{self.hub.host.address}/maker/tiny-GGUF/resolve/main/tiny-Q8_0.gguf")
        self.assertEqual(pathlib.Path(out.strip()).read_bytes(), self.data)
        self.assertEqual(self.left(), ["tiny-Q8_0.gguf", "tiny-Q8_0.json"])
        return self.asked("host")[0][1]

    def test_a_part_without_sums_is_of_the_same_file(self):
        self.hub.etags = True
        headers = self.broken_url(f'"{blob_sha1(self.data)}"')
        self.assertEqual((headers["Range"], headers["If-Range"]), ("bytes=1000-", f'"{blob_sha1(self.data)}"'))

    def test_a_part_without_sums_of_another_file(self):
        self.hub.etags = True
        self.assertIn("If-Range", self.broken_url('"older"'))

    def test_a_part_of_which_nothing_is_known(self):
        self.assertNotIn("Range", self.broken_url(None))

    def test_rm_of_a_part(self):
        work = self.folder / ".pulling-tiny-Q8_0"
        work.mkdir(parents=True)
        (work / "tiny-Q8_0.gguf.part").write_bytes(b"x")
        self.assertIn("removed what was downloaded of tiny-Q8_0", weft("rm", "tiny-Q8_0", env=self.env)[1])
        self.assertFalse(work.exists())

    def test_more_bytes_than_announced(self):
        small = [{"type": "file", "oid": "1" * 40, "size": 100, "path": "tiny-Q8_0.gguf"}]
        self.hub.api = lambda handler: handler.reply(200, json.dumps(small).encode())
        _, err = self.pull("maker/tiny-GGUF", expect=1)
        self.assertIn("more than the 100 bytes", err)

    def test_what_is_not_there(self):
        _, err = self.pull("maker/nothing", expect=1)
        self.assertIn("404", err)
        _, err = self.pull("qwen3-0.6", expect=2)
        self.assertIn("did you mean qwen3-0.6b", err)
        _, err = self.pull("smollm2", expect=2)
        self.assertIn("weft pull smollm2-135m downloads such a model", err)
        _, err = weft("chat", "-m", "qwen3-0.6b", "hello", env=self.env, expect=1)
        self.assertIn("weft pull qwen3-0.6b", err)
        _, err = weft("chat", "-m", "qwen30.6b", "hello", env=self.env, expect=1)
        self.assertIn("did you mean qwen3-0.6b", err)
        _, err = weft("chat", "-m", "hf.co/maker/tiny-GGUF", "hello", env=self.env, expect=1)
        self.assertIn("weft pull hf.co/maker/tiny-GGUF", err)
        for env in ({"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_ENDPOINT": "nonsense://hub"}):
            _, err = self.pull("maker/tiny-GGUF", expect=1, **env)
            self.assertIn(env["HF_ENDPOINT"], err)
        (self.cache / "file").write_text("")
        _, err = self.pull("maker/tiny-GGUF", expect=1, WEFT_CACHE_DIR=str(self.cache / "file"))
        self.assertIn("file/models", err)

    def test_one_download_of_a_model_at_a_time(self):
        self.hub.gate = threading.Event()
        first = subprocess.Popen([BIN / "weft", "pull", "maker/tiny-GGUF"], env={**ENV, **self.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not self.asked("host") and time.monotonic() < deadline:
            time.sleep(0.01)
        _, err = self.pull("maker/tiny-GGUF", expect=1)
        self.assertIn("another weft pull", err)
        self.hub.gate.set()
        self.assertEqual(first.wait(60), 0)
        first.stdout.close()
        first.stderr.close()
        self.assertEqual((self.folder / "tiny-Q8_0.gguf").read_bytes(), self.data)

    def test_names_of_the_catalogue(self):
        self.hub.repositories["Qwen/Qwen3-0.6B-GGUF"] = {"Qwen3-0.6B-Q8_0.gguf": self.data}
        out, err = self.pull("qwen3-0.6b")
        self.assertEqual(pathlib.Path(out.strip()), self.folder / "qwen3-0.6b.gguf")
        self.assertIn("Apache-2.0", err)
        self.assertEqual(self.pull("qwen3-0.6b")[0], out)
        listed = {model["name"]: model for model in weft_json("models", env=self.env)["models"]}
        self.assertEqual(listed["qwen3-0.6b"]["path"], out.strip())
        self.assertGreaterEqual(len(listed), 30)
        self.assertNotIn("smollm2", listed)  # weft pull cannot download it
        self.assertTrue(listed["qwen3-4b"]["estimated"] and 2 << 30 < listed["qwen3-4b"]["needed_bytes"] < 4 << 30, listed["qwen3-4b"])
        self.assertIsInstance(listed["qwen3-4b"]["fits"], bool)
        self.assertFalse(listed["qwen3-0.6b"]["estimated"])
        head, *lines = weft("models", env=self.env)[0].splitlines()
        self.assertEqual(head.split(), ["NAME", "PARAMETERS", "ON", "DISK", "MEMORY", "FITS", "LICENCE"])
        (line,) = [line for line in lines if line.startswith("qwen3-4b ")]
        self.assertRegex(line, r"^qwen3-4b +4 B +~[\d.]+ GiB +(yes|no) +Apache-2\.0$")
        shutil.rmtree(self.cache)
        listed = {model["name"]: model for model in weft_json("models", env=self.env)["models"]}
        self.assertIsNone(listed["qwen3-0.6b"]["path"])
