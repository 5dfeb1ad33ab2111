"""Devices, models, encoders and rerankers."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from . import _c
from ._library import Handle, SupportsFileno, call, call_ids, call_struct, call_text, call_with_progress, choose, descriptor_of, fill, library, to_ids, to_text
from ._user import ModelUser

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import NotRequired, Unpack

    from ._session import Session
    from ._settings import SessionOptions
    from ._transcriber import Transcriber

TypeName = Literal["file", "f16", "q8", "q4"]


class Message(TypedDict):
    """One message of a conversation.

    role: "system", "user" or "assistant". content: its text.
    reasoning_content: of an answer: how the model reasoned; its template keeps or drops it.
    """

    role: str
    content: str
    reasoning_content: NotRequired[str]


def version() -> str:
    """The version of libweft."""
    return str(library.weft_version().decode())


def set_cache_folder(folder: str | os.PathLike[str] | None) -> None:
    """Names the folder of the files that Weft makes of its own accord, such as compiled shaders.

    It is made when it is needed. Call this before the others. "": none; None: the one that the environment names.
    """
    call("weft_set_cache_folder", None if folder is None else os.fsencode(folder))


def devices() -> list[dict[str, Any]]:
    """The machine's Vulkan devices; weft_devices of weft.h lists the keys."""
    result: list[dict[str, Any]] = json.loads(call_text("weft_devices"))
    return result


def tune(device: str | int | None = None, progress: Callable[[float], object] | None = None) -> dict[str, Any]:
    """Measures which shapes are fastest on a device, for later loads; weft_tune of weft.h lists the keys.

    progress is called with 0 to 1, and may raise to give up.
    """
    name = _device(device)
    result: dict[str, Any] = json.loads(
        call_with_progress(progress or (lambda done: None), lambda c: call_text("weft_tune", name, c, None))
    )
    return result


class LoadOptions(TypedDict, total=False):
    """How a model is loaded; weft_model_options of weft.h says more.

    device: an index or a part of a name; several share the rows of the vocabulary table.
    type: of the matrices on the device. vocab_type: of the vocabulary table there.
    memory_budget: bytes of device memory; 0: no limit.
    int8_inputs: matrices multiply inputs of 8 bits: faster on some devices, less exact.
    tie: "never": two equal tables of a file stay two.
    """

    device: str | int | Sequence[str | int] | None
    type: TypeName
    vocab_type: Literal["file", "f16", "q8", "q4", "native"]
    memory_budget: int
    int8_inputs: bool
    tie: Literal["auto", "never"]


def probe(
    path: str | os.PathLike[str] | None = None,
    *,
    bytes: int = 0,
    context: int = 0,
    kv: TypeName = "file",
    kv_values: TypeName = "file",
    **load: Unpack[LoadOptions],
) -> dict[str, Any]:
    """Which device would be used, why not the others, and whether a model fits there; loads nothing.

    path: a GGUF file or a Hugging Face folder; "": the model that comes with the package; None: none. bytes: device
    memory that is needed besides. context, kv and kv_values: of a session. What is missing is an answer: weft_probe of
    weft/probe.h lists the keys.
    """
    session = _c.weft_session_options_default()
    fill(session, {"context": context, "kv": choose(_c.weft_type, kv), "kv_values": choose(_c.weft_type, kv_values)})
    file = None if path is None else os.fsencode(path)
    report = _c.weft_probe_report()
    result: dict[str, Any] = json.loads(
        call_text("weft_probe", file, bytes, ctypes.byref(_options(load)), ctypes.byref(session), ctypes.byref(report), ctypes.sizeof(report))
    )
    return result


def _options(load: LoadOptions) -> Any:
    wrong = load.keys() - LoadOptions.__annotations__.keys()
    if wrong:
        raise TypeError(f"no options of a load: {', '.join(sorted(wrong))}")
    options = _c.weft_model_options_default()
    device, memory_budget = _device(load.get("device")), load.get("memory_budget", 0)
    fill(options, {"device": device, "memory_budget": memory_budget, "int8_inputs": int(load.get("int8_inputs", False))})
    options.type = choose(_c.weft_type, load.get("type", "file"))
    options.vocab_type = choose(_c.weft_type, load.get("vocab_type", "file"))
    options.tie = choose(_c.weft_tie, load.get("tie", "auto"))
    return options


def _device(device: str | int | Sequence[str | int] | None) -> bytes | None:
    if device is None:
        return None
    return to_text(str(device) if isinstance(device, (str, int)) else ";".join(map(str, device)))


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """weft_model_info of weft.h, which documents the fields. mask_token is None where there is none."""

    family: str
    type: str
    device: str
    driver: str
    vocab_size: int
    layers: int
    width: int
    max_context: int
    tied: bool
    has_chat_template: bool
    reads_prompt_apart: bool
    mask_token: int | None
    parameters: int
    vocab_bytes: int
    layer_bytes: int
    bytes_per_token: int
    load_seconds: float
    tokenizer_fingerprint: int
    streamed_bytes: int
    device_bytes: int
    most_device_bytes: int


class Model:
    """A loaded model. Any number of threads may use it at the same time.

    path: a GGUF file or a Hugging Face folder, or the name of a model that `weft pull` has downloaded; None: the small
    model that comes with the package; or an open file (an object with fileno(), or a descriptor) with a GGUF file in
    `length` bytes from `offset` on, length 0: up to its end.
    It may be closed afterwards; its position does not matter. memory: a GGUF file in memory, instead of a path: bytes,
    or what can be written to, such as a bytearray; it is not copied, and must not be changed while there is the model.

    progress is called with 0 to 1 while the model loads, and may raise to give up; without it, loading returns early and
    goes on in the background. load_options: LoadOptions.

    In a `with` statement, or by close(), a model frees its memory; otherwise Python does when nothing refers to it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | SupportsFileno | int | None = None,
        *,
        offset: int = 0,
        length: int = 0,
        memory: bytes | bytearray | memoryview | None = None,
        progress: Callable[[float], object] | None = None,
        **load_options: Unpack[LoadOptions],
    ) -> None:
        options = _options(load_options)
        pointer = ctypes.POINTER(_c.weft_model)()
        rest = ctypes.byref(options), ctypes.byref(pointer)
        file = None
        keep: Any = None  # what the memory of a model is freed with
        if memory is not None:
            if path is not None or offset or length:
                raise ValueError("memory is instead of a path")
            size = memoryview(memory).nbytes
            keep = memory if isinstance(memory, bytes) else (ctypes.c_char * size).from_buffer(memory)
        elif isinstance(path, (int, SupportsFileno)):
            if min(offset, length) < 0 or max(offset, length) >= 1 << 64:
                raise ValueError("offset and length are 0 to 2^64 - 1")
        elif offset or length:
            raise ValueError("offset and length are for an open file")
        elif path is not None:
            file = os.fsencode(path)

        def load() -> None:
            if memory is not None:
                call("weft_model_load_memory", ctypes.cast(keep, ctypes.c_void_p), size, *rest)
            elif isinstance(path, (int, SupportsFileno)):
                call("weft_model_load_fd", descriptor_of(path), offset, length, *rest)
            else:
                call("weft_model_load", file, *rest)

        def load_with(callback: Any) -> None:
            options.progress = callback
            load()

        self._handle: Handle | None = Handle(pointer, library.weft_model_free, keep)
        if progress:
            call_with_progress(progress, load_with)
        else:
            load()
        call("weft_model_set_recovery", pointer, 1)
        self._users: weakref.WeakSet[ModelUser | Adapter] = weakref.WeakSet()

    def add_user(self, user: ModelUser | Adapter) -> None:
        """For what is closed with the model."""
        self._users.add(user)

    def handle(self) -> Handle:
        """For ModelUser and Adapter."""
        if self._handle is None:
            raise ValueError("the model is closed")
        return self._handle

    def close(self) -> None:
        """Closes what the model has made, such as sessions, then frees it. Calls that other threads are in end first."""
        for user in list(self._users):
            user.close()
        self._handle = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def info(self) -> ModelInfo:
        """What is known of the model, and how much device memory is in use now."""
        handle = self.handle()
        found = call_struct(_c.weft_model_info, library.weft_model_get_info, handle.pointer)
        values = {name: getattr(found, name) for name, _ in found._fields_}
        for name, value in values.items():
            if isinstance(value, bytes):
                values[name] = value.decode(errors="replace")
        for name in ("tied", "has_chat_template", "reads_prompt_apart"):
            values[name] = bool(values[name])
        if values["mask_token"] == 2**32 - 1:
            values["mask_token"] = None
        return ModelInfo(**values)

    def recover(self) -> None:
        """Opens the device again and loads the weights, after the device was lost. Its sessions go on.

        Calls that need the device do so by themselves; this tries it at once. weft_model_recover of weft/recover.h says more.
        """
        handle = self.handle()
        call("weft_model_recover", handle.pointer)

    def describe(self) -> dict[str, Any]:
        """Tensors, buffers and rounding errors; weft_model_describe of weft.h lists the keys. Waits for the layers."""
        handle = self.handle()
        result: dict[str, Any] = json.loads(call_text("weft_model_describe", handle.pointer))
        return result

    def measure_bandwidth(self) -> float:
        """The read bandwidth of the model's device in GB/s (10**9 bytes)."""
        handle, result = self.handle(), ctypes.c_double()
        call("weft_model_measure_bandwidth", handle.pointer, ctypes.byref(result))
        return result.value

    def tokenize(self, text: str | bytes, *, add_bos: bool = True, parse_special: bool = False) -> list[int]:
        """The ids of a text. add_bos: with the begin-of-text token, if the model uses one, and an encoder's end token.
        parse_special: texts such as "<|eot|>" become control tokens."""
        handle, data = self.handle(), text.encode() if isinstance(text, str) else text
        arguments = (handle.pointer, data, len(data), int(parse_special), int(add_bos))
        return call_ids(len(data) + 16, "weft_tokenize", *arguments)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of ids. Control tokens have none."""
        handle, array = self.handle(), to_ids(ids)
        pointer, length = ctypes.c_void_p(), ctypes.c_size_t()
        call("weft_detokenize", handle.pointer, array, len(array), ctypes.byref(pointer), ctypes.byref(length))
        try:
            return ctypes.string_at(pointer.value, length.value).decode() if pointer.value else ""
        finally:
            library.weft_string_free(pointer)

    def prompt(self, name: str | None = None) -> str:
        """The text that the model's files want before a text that is embedded; None: the default, often empty."""
        handle, pointer = self.handle(), ctypes.c_void_p()
        call("weft_model_prompt", handle.pointer, None if name is None else to_bytes(name), ctypes.byref(pointer))
        try:
            return ctypes.string_at(pointer.value).decode() if pointer.value else ""
        finally:
            library.weft_string_free(pointer)

    def apply_chat_template(self, messages: Sequence[Message], *, think: bool | None = None) -> list[int]:
        """The ids of the messages of a conversation, up to where the assistant's answer begins: len() of them is what it takes.

        think: has the model reason first, or not; None: as its template has it. weft/reasoning.h says more.
        """
        handle = self.handle()
        if think is not None or any("reasoning_content" in message for message in messages):
            conversation = json.dumps({"messages": list(messages), "think": think}).encode()
            return call_ids(len(conversation) + 256, "weft_apply_chat_template_json", handle.pointer, conversation)
        texts = [(to_text(message["role"]), to_text(message["content"])) for message in messages]
        array = (_c.weft_message * len(texts))(*(_c.weft_message(*pair) for pair in texts))
        guess = 256 + sum(len(content) + 16 for _, content in texts)
        return call_ids(guess, "weft_apply_chat_template", handle.pointer, array, len(array))

    def rows(self, ids: Sequence[int]) -> NDArray[numpy.float32]:
        """A row of the vocabulary table for each of the ids, as the network reads it: what Session.prompt_parts takes."""
        np, handle, array = import_numpy(), self.handle(), to_ids(ids)
        result: NDArray[numpy.float32] = np.empty((len(array), self.info.width), np.float32)
        call("weft_model_rows", handle.pointer, array, len(array), float_pointer(result))
        return result

    def keep(self, terms: str | None = None) -> list[int]:
        """The ids of a keep-list. terms: "ascii,digits" for example; None: control and single-byte tokens. docs/heads.md explains them."""
        handle = self.handle()
        text = None if terms is None else to_text(terms)
        return call_ids(self.info.vocab_size, "weft_vocab_keep", handle.pointer, text)

    def save_keep_list(self, ids: Sequence[int], path: str | os.PathLike[str]) -> None:
        """Writes ids to a file that keep() and the setting head="keep:PATH" read."""
        handle, array = self.handle(), to_ids(ids)
        call("weft_vocab_save", handle.pointer, array, len(array), os.fsencode(path))

    def session(self, **options: Unpack[SessionOptions]) -> Session:
        """A new conversation; see Session."""
        from ._session import Session

        return Session(self, **options)

    def reranker(self) -> Reranker:
        """Rates documents; see Reranker."""
        return Reranker(self)

    def transcriber(self) -> Transcriber:
        """Writes down speech; see Transcriber."""
        from ._transcriber import Transcriber

        return Transcriber(self)

    def encoder(self) -> Encoder:
        """An encoder, for embeddings and masked words; see Encoder."""
        return Encoder(self)


class Adapter:
    """A LoRA adapter of a model. path: a GGUF file, or a folder as PEFT writes it. scale multiplies the scale of the file.

    It is the setting `adapter` of sessions and calls. weft/adapter.h says more.
    """

    def __init__(self, model: Model, path: str | os.PathLike[str], scale: float = 1) -> None:
        owner = model.handle()
        pointer = ctypes.POINTER(_c.weft_adapter)()
        self._handle: Handle | None = Handle(pointer, library.weft_adapter_free, owner)
        call("weft_adapter_load", owner.pointer, os.fsencode(path), scale, ctypes.byref(pointer))
        model.add_user(self)

    def handle(self) -> Handle:
        """For Session."""
        if self._handle is None:
            raise ValueError("the adapter is closed")
        return self._handle

    @property
    def bytes(self) -> int:
        """Bytes of device memory."""
        handle = self.handle()
        return int(library.weft_adapter_bytes(handle.pointer))

    def close(self) -> None:
        """Frees the adapter as soon as no session uses it."""
        self._handle = None


class Encoder(ModelUser):
    """Computes embeddings, and logits for masked words, with a model such as BERT. Needs numpy.

    Calls from several threads take turns.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model, "encoder")
        self._size = int(library.weft_model_embedding_size(model.handle().pointer))
        self._vocab_size = model.info.vocab_size

    @contextlib.contextmanager
    def _run(self, text: str | Sequence[int]) -> Iterator[Any]:
        ids = to_ids(self._model.tokenize(text) if isinstance(text, str) else text)
        with self._calling() as encoder:
            call("weft_encoder_run", encoder, ids, len(ids))
            yield encoder

    @property
    def size(self) -> int:
        """Elements of an embedding."""
        return self._size

    def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        pooling: Literal["model", "mean", "cls", "last"] = "model",
        prompt: str | None = None,
        dimensions: int | None = None,
    ) -> NDArray[numpy.float32]:
        """A row for each of the texts (or its ids, of Model.tokenize): its embedding, of Euclidean length 1.

        pooling: "model": as the model's files say; "mean" of all tokens, or the "cls" (first) or "last" one. prompt: the name of one that comes before each text, "query" for example; the model's files have it. None: their
        default, if they have one. dimensions: how many of the first elements; None: all.
        """
        np = import_numpy()
        if isinstance(texts, str):
            raise TypeError("texts is a list of texts, not a text")
        size = self._size if dimensions is None else dimensions
        if not 0 < size <= self._size:
            raise ValueError(f"dimensions is {size}, an embedding has {self._size}")
        result: NDArray[numpy.float32] = np.empty((len(texts), size), np.float32)
        how = choose(_c.weft_pooling, pooling)
        before = self._model.prompt(prompt)
        for row, text in zip(result, texts):
            with self._run(before + text if isinstance(text, str) else text) as encoder:
                call("weft_encoder_embedding", encoder, how, float_pointer(row), size)
        return result

    def masked_logits(self, text: str | Sequence[int], place: int) -> NDArray[numpy.float32]:
        """A logit of each token of the vocabulary for the token at index place of a text, usually ModelInfo.mask_token."""
        np = import_numpy()
        result: NDArray[numpy.float32] = np.empty(self._vocab_size, np.float32)
        if place < 0:
            raise ValueError(f"place is {place}")
        with self._run(text) as encoder:
            call("weft_encoder_masked_logits", encoder, place, float_pointer(result), self._vocab_size)
        return result


class Reranker(ModelUser):
    """Rates how well documents answer a query, with a model such as Qwen3-Reranker; rerank.h says more.

    Calls from several threads take turns.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model, "reranker")

    def score(self, query: str, documents: Sequence[str], instruction: str | None = None) -> list[float]:
        """A number from 0 to 1 for each document. instruction: what is asked for; None: passages that answer the query."""
        if isinstance(documents, str):
            raise TypeError("documents is a list of texts, not a text")
        asked = None if instruction is None else to_bytes(instruction)
        scores = []
        for document in documents:
            score = ctypes.c_float()
            texts = to_bytes(query), to_bytes(document)
            with self._calling() as reranker:
                call("weft_reranker_score", reranker, asked, *texts, ctypes.byref(score), None)
            scores.append(score.value)
        return scores


def to_bytes(text: str) -> bytes:
    """As the C API takes a text that ends with a NUL character."""
    if "\0" in text:
        raise ValueError("the text has a NUL character")
    return text.encode()


def import_numpy() -> Any:
    """numpy, which only arrays of floats need."""
    try:
        import numpy
    except ImportError:
        raise ImportError("weft returns arrays of floats as numpy arrays, and numpy is not installed") from None
    return numpy


def float_pointer(array: Any) -> Any:
    """Where a contiguous float32 array lies."""
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
