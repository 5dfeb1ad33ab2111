"""Finding libweft, and what every call of it needs: errors, texts, ids, and callbacks that may raise."""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import enum
import io
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from . import _c

Event = TypeVar("Event")
Result = TypeVar("Result")


class WeftError(Exception):
    """A failure that libweft reported. str() has all of it.

    code is the name of weft.h's status, "WEFT_BAD_FILE" for example; sentence says what is wrong; place is the file,
    tensor, option or function that it concerns, and hint what to do: both may be empty.
    """

    def __init__(self, code: str, sentence: str, place: str = "", hint: str = "") -> None:
        super().__init__(code, sentence, place, hint)
        self.code, self.sentence, self.place, self.hint = code, sentence, place, hint

    def __str__(self) -> str:
        text = f"{self.place}: {self.sentence}" if self.place else self.sentence
        return f"{text} ({self.code}){chr(10) + self.hint if self.hint else ''}"


def _load() -> ctypes.CDLL:
    path = os.environ.get("WEFT_LIBRARY") or Path(__file__).parent / "lib/libweft.so"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"weft: {error}. WEFT_LIBRARY may name a libweft.so of your own") from None
    for name, (result, parameters) in _c.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    return library


library: Any = _load()
PROGRESS: Any = {field[0]: field[1] for field in _c.weft_model_options._fields_}["progress"]


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a weft_status; raises its error as WeftError."""
    error = _c.weft_error()
    status = getattr(library, name)(*arguments, ctypes.byref(error))
    if status != _c.weft_status.WEFT_OK:
        texts = (text.decode(errors="replace") for text in (error.sentence, error.place, error.hint))
        raise WeftError(library.weft_status_name(status).decode(), *texts)


def call_text(name: str, *arguments: Any) -> str:
    """As call, for a function whose last argument before the error is a char ** that the caller frees."""
    pointer = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(pointer))
    try:
        return ctypes.string_at(pointer.value).decode() if pointer.value else ""
    finally:
        library.weft_string_free(pointer)


def call_struct(structure: Any, function: Any, handle: Any) -> Any:
    """What a getter of a struct gives."""
    result = structure()
    function(handle, ctypes.byref(result), ctypes.sizeof(result))
    return result


def call_ids(guess: int, name: str, *arguments: Any) -> list[int]:
    """As call, for a function that ends with ids, capacity and count. Called again if there are more than guess."""
    count = ctypes.c_size_t(guess)
    while True:
        ids = (ctypes.c_uint32 * count.value)()
        call(name, *arguments, ids, len(ids), ctypes.byref(count))
        if count.value <= len(ids):
            return ids[: count.value]


def to_ids(ids: Sequence[int]) -> Any:
    """An array of uint32_t; an id that is none is an OverflowError."""
    values = array.array("I", ids)
    return (ctypes.c_uint32 * len(values)).from_buffer(values) if len(values) else (ctypes.c_uint32 * 0)()


@runtime_checkable
class SupportsFileno(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor."""


def descriptor_of(file: SupportsFileno | int) -> int:
    """The descriptor of an open file."""
    return file if isinstance(file, int) else file.fileno()


@contextlib.contextmanager
def at_position(file: SupportsFileno | int) -> Iterator[int]:
    """The descriptor of an open file that is used up to its end. Python's own buffer of the file holds nothing then."""
    descriptor = descriptor_of(file)
    if isinstance(file, io.IOBase):
        file.flush()
    seekable = file if isinstance(file, io.IOBase) and file.seekable() else None
    if seekable:
        os.lseek(descriptor, seekable.tell(), os.SEEK_SET)
    yield descriptor
    if seekable:
        seekable.seek(0, os.SEEK_END)


def to_text(text: str) -> bytes:
    """A zero-terminated text. Nothing is cut off silently."""
    if "\0" in text:
        raise ValueError("the text has a NUL character, which a C string cannot have")
    return text.encode()


def choose(values: type[enum.IntEnum], name: str) -> int:
    """The value of a C enum by the last part of its name, in lower case."""
    names = {choice(member): member for member in values}
    if name not in names:
        raise ValueError(f"it is {name!r}, and may be {', '.join(map(repr, names))}")
    return names[name].value


def choice(member: enum.IntEnum) -> str:
    """ "q8" for WEFT_TYPE_Q8, "json_schema" for WEFT_GRAMMAR_JSON_SCHEMA."""
    return member.name.split("_", 2)[2].lower()


def fill(structure: Any, values: dict[str, Any]) -> None:
    """Sets fields of a C structure. ctypes itself would wrap numbers that do not fit."""
    types = dict(structure._fields_)
    for name, value in values.items():
        bits = {ctypes.c_uint32: 32, ctypes.c_uint64: 64}.get(types[name])
        if bits and not 0 <= value < 2**bits:
            raise ValueError(f"{name} is {value}, and may be 0 to 2**{bits} - 1")
        setattr(structure, name, value)


# Signals that a fault of the thread itself raises.
_FAULTS = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}


class Handle:
    """Owns a C object, and keeps alive what that object needs. Freed when nobody refers to it any more.

    Made with a null pointer before the call that fills that: an exception such as KeyboardInterrupt may come right after the call.
    A process that os.fork() makes inherits handles of which it can use none: there they do nothing.
    """

    def __init__(self, pointer: Any, free: Callable[[Any], None], needs: object = None) -> None:
        self._pointer, self._free, self._needs = pointer, free, needs
        self._process = os.getpid()

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that made the object."""
        return self._process != os.getpid()

    def check(self) -> None:
        """Raises where it is inherited. Goes before any lock, which a thread of the parent may have held."""
        if self.inherited:
            raise RuntimeError("this process was forked from the one that made this object: use it there, or make it after the fork")

    @property
    def pointer(self) -> Any:
        """For C."""
        self.check()
        return self._pointer

    def __del__(self) -> None:
        if not self.inherited:
            self._free(self._pointer)


@contextlib.contextmanager
def blocked_signals() -> Iterator[None]:
    """A thread that is started here takes no signal of the process: those are for the program's own threads."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The interpreter ends, and daemon threads go on until it is gone: a callback that came after that would crash. So calls are ended
# first, and their readers, which are daemon threads, wait here for the end.
_running: set[Lockstep[Any, Any]] = set()
_ending = False
_beginning = threading.RLock()  # a call in _running has a thread; none of a daemon thread begins once _ending is set


def _forget_beginnings() -> None:
    global _beginning
    _beginning = threading.RLock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_forget_beginnings)


def _end_calls() -> None:
    global _ending
    with _beginning:
        _ending = True
    until = time.monotonic() + 10
    for lockstep in list(_running):
        lockstep.end_by(until)


atexit.register(_end_calls)


def _wait_for_the_end() -> None:
    if _ending and threading.current_thread().daemon:
        threading.Event().wait()


class Lockstep(Generic[Event, Result]):
    """A C call with a callback, read as an iterator.

    The call runs in a thread of its own. Its callback hands an event to the reader, and returns when the reader wants
    the next one: the call is never ahead of the reader, nothing that the reader raises goes through C, and signals
    such as Ctrl-C reach the reader. Leaving the iteration stops the call and waits for its end.

    call(tell) makes the C call; its callback returns tell(event). lock is held while the call computes, and not while
    the callback waits. interrupt (may be None) stops a call that has no event yet.
    """

    def __init__(
        self,
        call: Callable[[Callable[[Event], int]], Result],
        lock: threading.Lock,
        interrupt: Callable[[], None] | None = None,
    ) -> None:
        self._call: Callable[[Callable[[Event], int]], Result] | None = call
        self._lock, self._interrupt = lock, interrupt
        self._mutex = threading.Lock()  # of the next two
        self._stopped = self._told = False
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()  # (event,), or None when the call has ended
        self._answers: queue.SimpleQueue[bool] = queue.SimpleQueue()  # True: go on
        self._error: BaseException | None = None
        self._reader = threading.current_thread()
        self._thread = threading.Thread(target=self._run, name="weft")
        self.result: Result | None = None
        self.running = True
        self._process = os.getpid()
        with blocked_signals(), _beginning:
            begins = not (_ending and threading.current_thread().daemon)
            if begins:
                self._thread.start()  # raises where the process may have no more threads
                with self._mutex:
                    if self.running:
                        _running.add(self)
        if not begins:
            _wait_for_the_end()

    def __iter__(self) -> Iterator[Event]:
        try:
            while (event := self._events.get()) is not None:
                self._reader = threading.current_thread()
                yield event[0]
                self._answers.put(True)
        finally:
            self.stop()
        _wait_for_the_end()
        if self._error:
            raise self._error

    def stop(self) -> None:
        """Ends the call after its present token, and waits for that. The reader then gets no more events."""
        self._stop(None)

    def end_by(self, time_of_end: float) -> None:
        """The same, but waits no longer than until time.monotonic() is this."""
        self._stop(time_of_end)

    def _stop(self, time_of_end: float | None) -> None:
        if self._process != os.getpid():  # forked: the thread is the parent's
            return
        with self._mutex:
            if self.running and not self._told and self._interrupt:
                self._interrupt()
            self._stopped = True
        self._answers.put(False)
        if self._thread is threading.current_thread():  # in a callback of the call, which ends after that
            return
        self._thread.join(None if time_of_end is None else max(0.0, time_of_end - time.monotonic()))

    def _run(self) -> None:
        try:
            with self._lock:
                assert self._call
                self.result = self._call(self._tell)
        except BaseException as error:
            self._error = error
        with self._mutex:
            self.running, self._call = False, None  # frees what the call needed
        _running.discard(self)
        self._events.put(None)

    def _tell(self, event: Event) -> int:
        """What the callback returns to C: 0 to continue."""
        with self._mutex:
            self._told = True
            if self._stopped:
                return 1
        self._lock.release()
        try:
            self._events.put((event,))
            while True:
                try:
                    return 0 if self._answers.get(timeout=0.5) else 1
                except queue.Empty:
                    # The interpreter ends, and waits for this thread: nobody will read any more.
                    if not (threading.main_thread().is_alive() or self._reader.is_alive()):
                        return 1
        finally:
            self._lock.acquire()


def guarded(errors: list[BaseException], callback: Callable[..., int]) -> Callable[..., int]:
    """A callback from which no exception goes to C, which would print and forget it: it is kept, and ends the call."""

    def run(*arguments: Any) -> int:
        try:
            return callback(*arguments)
        except BaseException as error:
            errors.append(error)
            return 1

    return run


def call_with_progress(progress: Callable[[float], object], call_with: Callable[[Any], Result]) -> Result:
    """call_with(C callback), which reports from 0 to 1; progress is called in this thread, and may raise to give up."""

    def run(tell: Callable[[float], int]) -> Result:
        errors: list[BaseException] = []
        callback = PROGRESS(guarded(errors, lambda _, done: tell(done)))
        try:
            return call_with(callback)
        finally:
            if errors:
                raise errors[0]

    steps: Lockstep[float, Result] = Lockstep(run, threading.Lock())
    for done in steps:
        progress(done)
    return steps.result  # type: ignore[return-value]
