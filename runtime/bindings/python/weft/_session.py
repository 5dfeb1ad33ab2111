"""Sessions: conversations, and what they generate."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from . import _c
from ._library import (
    Handle, Lockstep, SupportsFileno, WeftError, at_position, call, call_ids, call_struct, call_text, choice, choose, fill, guarded, library, to_ids,
    to_text,
)
from ._model import Adapter, Message, Model, float_pointer, import_numpy
from ._settings import GRAMMARS, SAVED, SessionOptions, Settings, copied, request_of
from ._user import ModelUser

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack


@dataclasses.dataclass(frozen=True)
class Token:
    """A generated token. str() is its text."""

    id: int | None  # None: no token, but text that was held back for stop strings
    text: str  # what it completes: whole characters, or ""
    logprob: float | None = None  # of this token; with the setting logprobs
    likeliest: tuple[tuple[int, float], ...] = ()  # pairs of id and log-probability, likeliest first
    reasoning: str = ""  # what it completes of the reasoning, which is not part of the text

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Stats:
    """weft_stats of weft.h, which documents the fields. stages: pairs of a name and its share of the device's time.

    drafted_tokens, accepted_tokens: guesses that were checked, and those that were chosen, in so many check_passes.
    """

    context_used: int
    stop_string: int
    prompt_tokens: int
    reused_tokens: int
    decoded_tokens: int
    prompt_seconds: float
    decode_seconds: float
    decode_cpu_seconds: float
    first_token_seconds: float
    readback_bytes: int
    kv_bytes: int
    scratch_bytes: int
    read_gigabytes_per_second: float
    device_read_gigabytes_per_second: float
    head_tokens: int
    head_rows: int
    head_bytes: int
    head_refined: int
    check_passes: int
    drafted_tokens: int
    accepted_tokens: int
    stages: tuple[tuple[str, float], ...]


class Generation:
    """What chat() and generate() return: an iterator of Tokens, which begins when it is iterated over, by `for` or `async for`.

    `async for` does not block the coroutines' loop. Leaving the loop stops the generation after the token that the loop got last. An instance can be iterated over once.
    str() and text() are the whole text: they read what nobody has begun to read.
    """

    def __init__(self, start: Callable[[Generation], Lockstep[Token, None]]) -> None:
        self._start: Callable[[Generation], Lockstep[Token, None]] | None = start
        self._running: Lockstep[Token, None] | None = None
        self.pieces: list[str] = []  # of the text so far
        self.ids: list[int] = []  # of the tokens so far
        self.reasoning = ""  # so far, if it is told apart
        self.stop: str | None = None  # why it ended: "length", "token", "context", "caller", "grammar" or "string"

    def __iter__(self) -> Iterator[Token]:
        start, self._start = self._start, None
        if start is None:
            raise RuntimeError("this generation was read already")
        self._running = start(self)
        yield from self._running

    def __aiter__(self) -> AsyncIterator[Token]:
        return _Awaited(self, lambda: self._running)

    def text(self) -> str:
        """The whole text. If somebody reads it already: the text so far."""
        if self._start:
            for _ in self:
                pass
        return "".join(self.pieces)

    def __str__(self) -> str:
        return self.text()


class _Awaited(AsyncIterator[Token]):
    """Reads a generation for a coroutine without blocking its loop. Leaving the loop or cancelling the task ends the generation."""

    def __init__(self, tokens: Iterable[Token], running: Callable[[], Lockstep[Token, None] | None]) -> None:
        self._tokens, self._running = iter(tokens), running

    async def __anext__(self) -> Token:
        step = asyncio.ensure_future(asyncio.to_thread(next, self._tokens, None))
        try:
            token = await asyncio.shield(step)
        except asyncio.CancelledError:
            if running := self._running():
                await asyncio.to_thread(running.stop)
            await asyncio.wait([step])
            raise
        if token is None:
            raise StopAsyncIteration
        return token

    def __del__(self) -> None:
        if running := self._running():
            running.stop()


class Duty:
    """One limit of the device's time for several sessions and transcribers, whatever models they use: share is 0 to 1.

    It may be used from any thread. weft_duty of weft/duty.h says more.
    """

    def __init__(self, share: float = 1) -> None:
        pointer = ctypes.POINTER(_c.weft_duty)()
        self._handle = Handle(pointer, library.weft_duty_free)
        call("weft_duty_create", ctypes.byref(pointer))
        self.set_share(share)

    def set_share(self, share: float) -> None:
        """Changes the share, for all that use it. 1: no limit. 0: they pause until this is called again."""
        call("weft_duty_set_share", self._handle.pointer, share)

    @property
    def busy_seconds(self) -> float:
        """How long the device was busy with those that use it, while its share was below 1."""
        return float(library.weft_duty_busy_seconds(self._handle.pointer))

    def handle(self) -> Handle:
        """For Session and Transcriber."""
        return self._handle


class Session(ModelUser):
    """A conversation with a model: its context, and what is computed of it.

    context, kv, kv_values and policy are weft_session_options of weft.h; the other options are Settings. messages is what chat()
    has heard and said; it may be changed between calls.

    Calls from several threads take turns. While it generates, a call that would change it is a RuntimeError; statistics,
    ids, cancel() and close() are allowed from any thread.
    """

    def __init__(self, model: Model, **options: Unpack[SessionOptions]) -> None:
        given: dict[str, Any] = dict(options)
        c = _c.weft_session_options_default()
        fill(c, {"context": given.pop("context", 0)})
        c.kv = choose(_c.weft_type, given.pop("kv", "file"))
        c.kv_values = choose(_c.weft_type, given.pop("kv_values", "file"))
        c.policy = choose(_c.weft_policy, given.pop("policy", "throughput"))
        self._settings = copied(given)
        self._running: Lockstep[Token, None] | None = None
        super().__init__(model, "session", ctypes.byref(c))
        self._vocab_size = model.info.vocab_size
        self._apart = False  # reasoning is told apart from the answer
        self._restored: set[str] = set()  # parts of the request that are those of a restored file, until a call gives others
        self._draft: tuple[Model | None, Handle | None] = None, None  # of the last request: a closed model guesses on
        self._adapter: Adapter | None = None
        self.messages: list[Message] = []
        self._conversation: Handle | None = None
        with self._changing() as session:
            self._apply(session, {})  # so that wrong settings are found now

    def close(self) -> None:
        """Ends a running generation, waits for it, and frees the session. Twice is fine."""
        handle = self._handle
        if handle and handle.inherited:
            self._handle = self._running = self._conversation = None
            return
        self.cancel()
        with self._lock:
            self._handle = self._conversation = None  # a generation that has begun in the meantime has the handle too
        self.cancel()
        self._running = None

    def cancel(self) -> None:
        """Ends a running generation after its present token, and waits for that. May be called from any thread.

        What was generated stays in the context.
        """
        running = self._running
        if running:
            running.stop()

    def set_duty(self, share: float) -> None:
        """Limits the share of the time that the device is busy with this session, which has policy="polite": 0 to 1.

        1: no limit. 0: it pauses until this is called again. What is generated stays the same. May be called from any
        thread, and in the loop. weft/duty.h says more.
        """
        handle = self._handle  # without the lock, which a session that pauses has
        if handle is None:
            raise ValueError("the session is closed")
        call("weft_session_set_duty", handle.pointer, share)

    def use_duty(self, duty: Duty | None) -> None:
        """Has this session keep to a duty, in small parts as policy="polite" has them. None: no longer."""
        with self._changing() as session:
            call("weft_session_use_duty", session, duty.handle().pointer if duty else None)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Any]:
        with self._calling() as session:
            if self._running and self._running.running:
                raise RuntimeError("the session generates: leave that loop first, or cancel()")
            yield session

    def _apply(self, session: Any, given: dict[str, Any], apart: bool | None = None) -> None:
        """Has the session generate by its settings and those of the call. If something is wrong with them, nothing changes."""
        wanted = {**self._settings, **given}
        if not GRAMMARS.keys().isdisjoint(given):  # one of a call replaces another of the session
            for name in GRAMMARS.keys() - given.keys():
                wanted.pop(name, None)
        draft, apart = wanted.get("draft"), self._apart if apart is None else apart
        handle = self._draft[1] if draft is self._draft[0] else draft.handle() if draft else None
        kept = {name for name in self._restored if given.keys().isdisjoint(SAVED[name])}
        adapter = wanted.get("adapter")
        pointer = adapter.handle().pointer if adapter and adapter is not self._adapter else None
        call("weft_session_set_request", session, ctypes.byref(request_of(wanted, kept, apart, handle)))
        self._restored, self._draft, self._apart = kept, (draft, handle), apart
        if adapter is not self._adapter:
            call("weft_session_set_adapter", session, pointer)
            self._adapter = adapter

    def chat(self, message: str | Sequence[Message], **settings: Unpack[Settings]) -> Generation:
        """Answers a message, or a list of messages that replaces the conversation.

        The message and the answer, however it ended, are appended to messages; if the call fails, messages is as
        before. An answer at the end of a list is replaced. What the conversation shares with the context is not computed again. The oldest turns that the context
        has no room for are left out of it; weft/conversation.h says more.
        """
        given = copied(settings)

        def start(generation: Generation) -> Lockstep[Token, None]:
            messages: list[Message] = [*self.messages, {"role": "user", "content": message}] if isinstance(message, str) else list(message)
            think = {**self._settings, **given}.get("think")
            think = None if think is None else bool(think)

            def begin(session: Any) -> tuple[Any, ...]:
                conversation = self._talk(session)
                said = json.loads(call_text("weft_conversation_get", conversation))  # a restored one may have tools
                said.pop("forgotten", None)
                call("weft_conversation_set", conversation, json.dumps({**said, "messages": messages, "think": think}).encode())
                return "weft_conversation_answer", conversation

            def ended() -> None:
                if self._conversation:
                    self.messages = json.loads(call_text("weft_conversation_get", self._conversation.pointer))["messages"]

            return self._start(generation, given, True, begin, ended)

        return Generation(start)

    def _talk(self, session: Any) -> Any:
        """The C conversation, which knows where the context begins in messages."""
        if self._conversation is None:
            made = ctypes.POINTER(_c.weft_conversation)()
            handle = Handle(made, library.weft_conversation_free, self._open())
            call("weft_conversation_create", session, None, ctypes.byref(made))
            self._conversation = handle
        return self._conversation.pointer

    def generate(self, prompt: str | Sequence[int] | None = None, **settings: Unpack[Settings]) -> Generation:
        """Continues a prompt: a text, or ids; None: what is in the context."""
        given = copied(settings)

        def start(generation: Generation) -> Lockstep[Token, None]:
            ids = self._model.tokenize(prompt) if isinstance(prompt, str) else prompt
            apart = {**self._settings, **given}.get("think") is not None if ids is not None or "think" in given else None

            def begin(session: Any) -> tuple[Any, ...]:
                if ids is not None:
                    array = to_ids(ids)
                    call("weft_session_prompt", session, array, len(array))
                return "weft_session_generate", session

            return self._start(generation, given, apart, begin, lambda: None)

        return Generation(start)

    def _start(
        self, generation: Generation, given: dict[str, Any], apart: bool | None, begin: Callable[[Any], tuple[Any, ...]],
        ended: Callable[[], None],
    ) -> Lockstep[Token, None]:
        """begin, with the session, returns the function that generates and its arguments before the options. apart: as for _apply."""
        wanted = {**self._settings, **given}
        options = _c.weft_generate_options_default()
        fill(options, {"max_tokens": wanted.get("max_tokens", 0), "ignore_stop_tokens": int(wanted.get("ignore_stop_tokens", False))})
        logprobs, stop, errors = wanted.get("logprobs", 0), ctypes.c_int(), list[BaseException]()
        progress, pieces = wanted.get("prompt_progress"), list[str]()
        with self._changing() as session:
            self._apply(session, given, apart)
            name, *first = begin(session)

            def run(tell: Callable[[Token], int], held: tuple[Handle | None, ...] = (self._handle, self._conversation)) -> None:
                def callback(user: object, id: int, text: int, length: int) -> int:
                    token = self._token(session, id, ctypes.string_at(text, length).decode(), "".join(pieces), logprobs)
                    pieces.clear()
                    if token.id is not None:
                        generation.ids.append(token.id)
                    generation.pieces.append(token.text)
                    return tell(token)

                def reasoning_callback(user: object, text: int, length: int) -> int:
                    pieces.append(ctypes.string_at(text, length).decode())
                    generation.reasoning += pieces[-1]
                    return 0

                def prompt_callback(user: object, done: int, all: int) -> int:
                    if progress:
                        self._lock.release()  # progress may call what the loop may call
                        try:
                            progress(done, all)
                        finally:
                            self._lock.acquire()
                    return 0

                options.callback = _c.weft_token_callback(guarded(errors, callback))
                options.reasoning_callback = _c.weft_reasoning_callback(guarded(errors, reasoning_callback))
                if progress:
                    options.prompt_callback = _c.weft_prompt_callback(guarded(errors, prompt_callback))
                try:
                    call(name, *first, ctypes.byref(options), ctypes.byref(stop))
                finally:
                    if errors:
                        raise errors[0]
                if pieces:  # after the last token
                    tell(Token(None, "", reasoning="".join(pieces)))
                ended()
                generation.stop = choice(_c.weft_stop(stop.value))

            library.weft_session_clear_cancel(session)  # one that came as the call before ended or failed
            self._running = Lockstep(run, self._lock, lambda: library.weft_session_cancel(session))
            return self._running

    def _token(self, session: Any, id: int, text: str, reasoning: str, count: int) -> Token:
        if id == _c.WEFT_NO_TOKEN:
            return Token(None, text, reasoning=reasoning)
        if not count:
            return Token(id, text, reasoning=reasoning)
        chosen, ids, values, found = ctypes.c_float(), (ctypes.c_uint32 * count)(), (ctypes.c_float * count)(), ctypes.c_size_t()
        call("weft_session_get_logprobs", session, ctypes.byref(chosen), ids, values, count, ctypes.byref(found))
        return Token(id, text, chosen.value, tuple(zip(ids[: found.value], values[: found.value])), reasoning)

    def prompt(self, prompt: str | Sequence[int]) -> None:
        """Makes the context this prompt: a text, or ids. Computes nothing yet."""
        ids = to_ids(self._model.tokenize(prompt) if isinstance(prompt, str) else prompt)
        with self._changing() as session:
            call("weft_session_prompt", session, ids, len(ids))

    def prompt_parts(self, parts: Sequence[str | Sequence[int] | NDArray[numpy.float32]]) -> None:
        """Makes the context these parts, one after the other: texts, ids, and rows of soft tokens. Computes nothing yet.

        Rows are a float32 array (tokens, width) such as Model.rows gives. A text is tokenized by itself, only the first
        part with the begin-of-text token. Needs numpy. weft/soft.h says more.
        """
        np, width = import_numpy(), self._model.info.width
        array, kept = (_c.weft_prompt_part * len(parts))(), []
        for index, part in enumerate(parts):
            if isinstance(part, np.ndarray):
                rows = np.ascontiguousarray(part, np.float32)
                if rows.ndim != 2 or rows.shape[1] != width:
                    raise ValueError(f"rows of shape {rows.shape}, expected (tokens, {width})")
                kept.append(rows)
                array[index] = _c.weft_prompt_part(None, float_pointer(rows), len(rows))
            else:
                ids = to_ids(self._model.tokenize(part, add_bos=index == 0) if isinstance(part, str) else cast("Sequence[int]", part))
                kept.append(ids)
                array[index] = _c.weft_prompt_part(ids, None, len(ids))
        with self._changing() as session:
            call("weft_session_prompt_parts", session, array, len(parts))

    def reset(self) -> None:
        """Empties the context, messages and the statistics."""
        with self._changing() as session:
            library.weft_session_reset(session)
            self.messages = []

    @property
    def ids(self) -> list[int]:
        """The ids of the context."""
        with self._calling() as session:
            return call_ids(4096, "weft_session_get_ids", session)

    @property
    def stats(self) -> Stats:
        """Sums since the session was created or reset."""
        with self._calling() as session:
            found = call_struct(_c.weft_stats, library.weft_session_get_stats, session)
            guesses = call_struct(_c.weft_speculation_stats, library.weft_session_get_speculation_stats, session)
        values = {name: getattr(found, name) for name, _ in found._fields_ if not name.startswith("stage")}
        stages = tuple((stage.name.decode(), stage.share) for stage in found.stages[: found.stage_count])
        return Stats(**values, check_passes=guesses.passes, drafted_tokens=guesses.drafted_tokens,
                     accepted_tokens=guesses.accepted_tokens, stages=stages)

    def logits(self) -> NDArray[numpy.float32]:
        """A logit of each token of the vocabulary after the context, before bias and penalties. Needs numpy."""
        np = import_numpy()
        result: NDArray[numpy.float32] = np.empty(self._vocab_size, np.float32)
        with self._changing() as session:
            call("weft_session_logits", session, float_pointer(result), self._vocab_size)
        return result

    def head_logits(self, **settings: Unpack[Settings]) -> tuple[NDArray[numpy.uint32], NDArray[numpy.float32]]:
        """The ids that the head chooses from after the context, in no order, and their logits. Needs numpy."""
        np = import_numpy()
        given = copied(settings)
        ids, logits, count = np.empty(self._vocab_size, np.uint32), np.empty(self._vocab_size, np.float32), ctypes.c_size_t()
        pointer = ids.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32))
        with self._changing() as session:
            self._apply(session, given)
            call("weft_session_head_logits", session, pointer, float_pointer(logits), self._vocab_size, ctypes.byref(count))
        return ids[: count.value], logits[: count.value]

    def score(self, ids: Sequence[int], **settings: Unpack[Settings]) -> NDArray[numpy.float32]:
        """How badly the model predicts each id after the first: -ln p. The ids become the context. Needs numpy."""
        np = import_numpy()
        given, array = copied(settings), to_ids(ids)
        result: NDArray[numpy.float32] = np.empty(max(len(array) - 1, 0), np.float32)
        with self._changing() as session:
            self._apply(session, given)
            call("weft_session_score", session, array, len(array), float_pointer(result))
        return result

    def lens(self, on_row: Callable[[int, int, NDArray[numpy.float32], NDArray[numpy.float32]], object], *, first: int = 0,
             count: int = 0, layers: Sequence[int] = (), tuned: str | os.PathLike[str] | None = None) -> None:
        """The logit lens, or a tuned lens: calls on_row(layer, position, hidden, logits) for tokens of the context, position by position.

        Layer 0 is the embedding. hidden is the residual stream after the layer, logits what the final norm and the
        vocabulary make of it; the arrays are the caller's. first, count: positions, all by default. layers: in which
        order those of a position come; all by default. tuned: the folder of a tuned lens, whose translations of hidden the
        logits are then made of. on_row may raise to end it; it may not use the session. Needs
        numpy. weft/lens.h says more.
        """
        np = import_numpy()
        shapes, array = (self._model.info.width, self._vocab_size), to_ids(layers)
        errors: list[BaseException] = []

        def tell(_: object, row: Any) -> int:
            hidden, logits = row.contents.hidden, row.contents.logits
            on_row(row.contents.layer, row.contents.position, *(np.ctypeslib.as_array(values, (size,)).copy()
                                                                for values, size in zip((hidden, logits), shapes)))
            return 0

        options = _c.weft_lens_options_default()
        fill(options, {"first": first, "count": count, "layers": array if layers else None, "layer_count": len(array)})
        try:
            with self._changing() as session:
                call("weft_session_set_tuned_lens", session, None if tuned is None else os.fsencode(tuned))
                call("weft_session_lens", session, ctypes.byref(options), _c.weft_lens_callback(guarded(errors, tell)), None)
        finally:
            if errors:
                raise errors[0]

    def save(self, path: str | os.PathLike[str] | SupportsFileno | int, note: str | None = None) -> None:
        """Writes the session to a file, from which restore() goes on, also in `weft chat` and in other languages.

        path: a path, which then has the old file or all of the new one; or an open file (an object with fileno(), or a
        descriptor), at its position: a regular file is cut off after the session. note: a text of your own in the file;
        None: messages, as `weft chat` writes and reads them.
        """
        with self._changing() as session:
            if note is None:
                note = json.dumps({"messages": self.messages, "text": ""}, ensure_ascii=False)
                own = call_text("weft_conversation_get", self._conversation.pointer) if self._conversation else note
                if json.loads(own)["messages"] == self.messages:
                    note = own
            text = to_text(note)
            if isinstance(path, (int, SupportsFileno)):
                with at_position(path) as descriptor:
                    call("weft_session_save_fd", session, descriptor, text)
            else:
                call("weft_session_save", session, os.fsencode(path), text)

    def restore(self, path: str | os.PathLike[str] | SupportsFileno | int) -> str:
        """Replaces the context, sampling and logit bias by those of a file, and messages if the file has them.

        path: a path; or an open file, which is read from its position to its end. Returns the file's note. Its sampling
        and logit bias hold until a call names such a setting.
        """
        with self._changing() as session:
            if isinstance(path, (int, SupportsFileno)):
                with at_position(path) as descriptor:
                    note = call_text("weft_session_restore_fd", session, descriptor)
            else:
                note = call_text("weft_session_restore", session, os.fsencode(path))
            self._restored = set(SAVED)
            self.messages = _messages(note)
            if self.messages:
                with contextlib.suppress(WeftError):  # a note that is no conversation, or a model without a template
                    call("weft_conversation_set", self._talk(session), to_text(note))
        return note

    def profile(self, tokens: int = 1, repeat: int = 5) -> dict[str, Any]:
        """Where the device's time goes in a pass of so many tokens; weft_session_profile of weft.h lists the keys.

        repeat: how often it runs; the run of median length is reported.
        """
        with self._changing() as session:
            result: dict[str, Any] = json.loads(call_text("weft_session_profile", session, tokens, repeat))
        return result


def _messages(note: str) -> list[Message]:
    """The conversation of a note; empty if it has none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        messages: list[Message] = json.loads(note)["messages"]
        if all(isinstance(message["role"], str) for message in messages):
            return messages
    return []
