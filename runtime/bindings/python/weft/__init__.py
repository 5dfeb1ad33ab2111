"""Weft: small language models on any Vulkan GPU.

    import weft

    with weft.Model() as model, model.session() as session:
        for token in session.chat("set a timer for 10 minutes"):
            print(token, end="", flush=True)

Everything is thin over the C API: weft.h documents units, ranges and errors. What libweft reports is raised as
WeftError; arguments that cannot be given to it are ValueError or TypeError.

Threads: any number of threads may use a Model, each with its own Session. Calls of one Session or Encoder from several
threads take turns. While a session generates, only statistics, ids, cancel() and close() are allowed.
"""

from ._library import WeftError
from ._model import Adapter, Encoder, LoadOptions, Message, Model, ModelInfo, Reranker, devices, probe, set_cache_folder, tune, version
from ._session import Duty, Generation, Session, Stats, Token
from ._settings import SessionOptions, Settings
from ._transcriber import Segment, TranscribeOptions, Transcriber, Word

__all__ = [
    "Adapter", "Duty", "Encoder", "Generation", "LoadOptions", "Message", "Model", "ModelInfo", "Reranker", "Segment", "Session", "SessionOptions",
    "Settings", "Stats", "Token",
    "TranscribeOptions", "Transcriber", "WeftError", "Word", "devices", "probe", "set_cache_folder", "tune", "version",
]

__version__ = version()
