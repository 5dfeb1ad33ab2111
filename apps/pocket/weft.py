"""The part of Weft's C API (runtime/include/weft/weft.h) that these scripts need, through ctypes."""

import ctypes as c
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = Path(os.environ.get("WEFT_LIBRARY", ROOT / "build/release/lib/libweft.so"))
TYPES = {"file": 0, "f16": 1, "q8": 2}


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("sentence", c.c_char * 512), ("place", c.c_char * 512), ("hint", c.c_char * 256)]


class ModelOptions(c.Structure):
    _fields_ = [("device", c.c_char_p), ("type", c.c_int), ("progress", c.c_void_p), ("user", c.c_void_p)]


class SessionOptions(c.Structure):
    _fields_ = [("context", c.c_uint32)]


class Sampling(c.Structure):
    _fields_ = [("temperature", c.c_float), ("top_k", c.c_uint32), ("top_p", c.c_float), ("min_p", c.c_float),
                ("repeat_penalty", c.c_float), ("seed", c.c_uint64)]


class Message(c.Structure):
    _fields_ = [("role", c.c_char_p), ("content", c.c_char_p)]


Callback = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.POINTER(c.c_char), c.c_size_t)


class GenerateOptions(c.Structure):
    _fields_ = [("max_tokens", c.c_uint32), ("ignore_stop_tokens", c.c_int), ("callback", Callback), ("user", c.c_void_p)]


class Model:
    def __init__(self, path=None, type="file"):
        if not LIBRARY.exists():
            raise SystemExit(f"{LIBRARY} is missing: `./run devices` builds it, or name it in WEFT_LIBRARY")
        self.library = c.CDLL(str(LIBRARY))
        self.library.weft_model_options_default.restype = ModelOptions
        self.library.weft_session_options_default.restype = SessionOptions
        self.library.weft_sampling_default.restype = Sampling
        options = self.library.weft_model_options_default()
        options.type = TYPES[type]
        self.model = c.c_void_p()
        self.call("weft_model_load", str(path).encode() if path else None, c.byref(options), c.byref(self.model))

    def call(self, name, *arguments):
        error = Error()
        if getattr(self.library, name)(*arguments, c.byref(error)):
            raise SystemExit(f"{name}: {error.sentence.decode()} {error.place.decode()} {error.hint.decode()}")

    def template(self, messages):
        """-> ids of the conversation up to where the answer begins."""
        array = (Message * len(messages))(*[(m["role"].encode(), m["content"].encode()) for m in messages])
        ids, count = (c.c_uint32 * 4096)(), c.c_size_t()
        self.call("weft_apply_chat_template", self.model, array, c.c_size_t(len(messages)), ids, c.c_size_t(4096),
                  c.byref(count))
        return list(ids[: count.value])


class Session:
    def __init__(self, model):
        self.model, self.session = model, c.c_void_p()
        options = model.library.weft_session_options_default()
        model.call("weft_session_create", model.model, c.byref(options), c.byref(self.session))
        sampling = model.library.weft_sampling_default()
        sampling.temperature = 0.0
        model.call("weft_session_set_sampling", self.session, c.byref(sampling))

    def generate(self, ids, limit=160):
        """-> the greedy ids and the text after these ids."""
        self.model.call("weft_session_prompt", self.session, (c.c_uint32 * len(ids))(*ids), c.c_size_t(len(ids)))
        found, pieces = [], []

        def take(_, id, text, length):
            found.append(id)
            pieces.append(c.string_at(text, length))
            return 0

        callback = Callback(take)
        options = GenerateOptions(limit, 0, callback, None)
        stop = c.c_int()
        self.model.call("weft_session_generate", self.session, c.byref(options), c.byref(stop))
        return found, b"".join(pieces).decode()

    def set_head(self, head):
        self.model.call("weft_session_set_head", self.session, head.encode())

    def head_logits(self, ids, size):
        """-> {id: logit} of what may follow these ids under the session's head; size: of the vocabulary."""
        self.model.call("weft_session_prompt", self.session, (c.c_uint32 * len(ids))(*ids), c.c_size_t(len(ids)))
        count = c.c_size_t()
        found, logits = (c.c_uint32 * size)(), (c.c_float * size)()
        self.model.call("weft_session_head_logits", self.session, found, logits, c.c_size_t(size), c.byref(count))
        return dict(zip(found[: count.value], logits[: count.value]))

    def score(self, ids):
        """-> nats of every id after the first."""
        nll = (c.c_float * len(ids))()
        self.model.call("weft_session_score", self.session, (c.c_uint32 * len(ids))(*ids), c.c_size_t(len(ids)), nll)
        return list(nll[: len(ids) - 1])
