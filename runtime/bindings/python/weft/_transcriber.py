"""Speech."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Union, cast

from . import _c
from ._library import Handle, Lockstep, call, fill, guarded, library, to_text
from ._user import ModelUser

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ._model import Model
    from ._session import Duty

    # One channel of floats of about -1 to 1: a numpy array, array("f"), or what else has a buffer of them.
    Samples = Union[NDArray[numpy.floating[Any]], array[float], memoryview]


class TranscribeOptions(TypedDict, total=False):
    """What Transcriber takes by keyword: weft_listen_options of weft/audio.h.

    language: a code such as "de"; None: the first 30 seconds that are not silent decide.
    translate: to English.
    prompt: text that comes before the recording, for names and spelling.
    samples_per_second: of the recording; 16000 without it.
    temperatures: tried in turn until a text seems right; None: from 0 to 1.
    words: segments have their words, with times.
    """

    language: str | None
    translate: bool
    prompt: str | None
    samples_per_second: int
    temperatures: Sequence[float] | None
    words: bool


@dataclasses.dataclass(frozen=True)
class Word:
    """A word, with the space before it and the punctuation after it. str() is its text."""

    begin: float
    end: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Segment:
    """A stretch of speech. str() is its text. weft_heard of weft/audio.h documents the fields."""

    begin: float
    end: float
    text: str
    mean_logprob: float
    no_speech: float
    words: tuple[Word, ...] = ()  # if asked for

    def __str__(self) -> str:
        return self.text


class Transcriber(ModelUser):
    """Writes down speech with a Whisper model, one recording at a time; weft_listener of weft/audio.h says more.

    transcribe() hears a recording, or begin(), feed() and finish() do in pieces. cancel() and close() may be called from any thread.
    """

    def __init__(self, model: Model) -> None:
        self._running: Lockstep[Segment, None] | None = None
        super().__init__(model, "listener", public="transcriber")
        # The callback of the C call that runs now. C keeps the one below, which must not keep self.
        self._told: list[Callable[[Any], int]] = []
        told = self._told
        self._callback = _c.weft_heard_callback(lambda _, heard: told[0](heard))

    def close(self) -> None:
        """Ends the recording, and frees the transcriber. Twice is fine."""
        running, self._running = self._running, None
        if self._handle and not self._handle.inherited:
            self.cancel()
            if running:
                running.stop()
        super().close()

    def cancel(self) -> None:
        """Ends the recording: the call that hears it, or its next one, raises WeftError with the code WEFT_CANCELLED.

        Does not wait. Without a recording it does nothing.
        """
        handle = self._handle
        if handle:
            library.weft_listener_cancel(handle.pointer)

    def use_duty(self, duty: Duty | None) -> None:
        """Has its work keep to a duty, in small parts. None: as fast as possible."""
        with self._idle() as listener:
            call("weft_listener_use_duty", listener, duty.handle().pointer if duty else None)

    @property
    def language(self) -> str:
        """The language of the recording, or of the last one, once it is known; "" before."""
        with self._calling() as listener:
            return str(library.weft_listener_language(listener).decode())

    def transcribe(self, recording: Samples | Iterable[Samples], **options: Unpack[TranscribeOptions]) -> Iterator[Segment]:
        """Gives the segments of a recording, each once it is heard: an iterator, which begins when it is iterated over.

        recording: samples, or an iterator of pieces of them, of any lengths. A piece is heard before the next one is
        asked for. Leaving the loop ends the recording.
        """
        self.begin(**options)
        pieces = cast("Iterable[Samples]", [recording] if _has_buffer(recording) else recording)
        for piece in pieces:
            yield from self._hear("feed", piece)
        yield from self._hear("finish")

    def begin(self, **options: Unpack[TranscribeOptions]) -> None:
        """Begins a recording, and gives up the one before if it has not ended."""
        wrong = options.keys() - TranscribeOptions.__annotations__.keys()
        if wrong:
            raise TypeError(f"no options of a recording: {', '.join(sorted(wrong))}")
        given = _c.weft_listen_options_default()
        given.callback, given.translate, given.words = self._callback, int(options.get("translate", False)), int(options.get("words", False))
        fill(given, {"samples_per_second": options.get("samples_per_second", _c.WEFT_SAMPLES_PER_SECOND)})
        if (language := options.get("language")) is not None:
            given.language = to_text(language)
        if (prompt := options.get("prompt")) is not None:
            given.prompt = to_text(prompt)
        if (temperatures := options.get("temperatures")) is not None:
            given.temperatures = (ctypes.c_float * len(temperatures))(*temperatures)
            given.temperature_count = len(temperatures)
        with self._idle() as listener:
            call("weft_listener_begin", listener, ctypes.byref(given))
            library.weft_listener_clear_cancel(listener)

    def feed(self, samples: Samples) -> list[Segment]:
        """Hears the next samples. Returns the segments of the 30 seconds that they complete: none, most of the time."""
        return list(self._hear("feed", samples))

    def finish(self) -> list[Segment]:
        """Hears what is left, and ends the recording."""
        return list(self._hear("finish"))

    @contextlib.contextmanager
    def _idle(self) -> Iterator[Any]:
        with self._calling() as listener:
            if self._running and self._running.running:
                raise RuntimeError("the transcriber hears a recording: leave that loop first, or cancel()")
            yield listener

    def _hear(self, function: str, *samples: Samples) -> Iterator[Segment]:
        arrays = [_to_floats(one) for one in samples]
        arguments = [part for one in arrays for part in (one, len(one))]
        with self._idle() as listener:

            def run(tell: Callable[[Segment], int], handle: Handle | None = self._handle) -> None:
                errors = list[BaseException]()
                self._told[:] = [guarded(errors, lambda heard: tell(_segment(heard.contents)))]
                try:
                    call(f"weft_listener_{function}", listener, *arguments)
                finally:
                    self._told.clear()
                    if errors:
                        raise errors[0]

            self._running = Lockstep(run, self._lock, lambda: library.weft_listener_cancel(listener))
        yield from self._running


def _segment(heard: Any) -> Segment:
    words = tuple(Word(word.begin, word.end, word.text.decode()) for word in heard.words[:heard.word_count])
    return Segment(heard.begin, heard.end, heard.text.decode(), heard.mean_logprob, heard.no_speech, words)


def _has_buffer(recording: object) -> bool:
    try:
        memoryview(cast(Any, recording)).release()
    except TypeError:
        return False
    return True


def _to_floats(samples: Samples) -> Any:
    """An array of C floats; it is the memory of the samples if that can be."""
    if not _has_buffer(samples):
        raise TypeError(f"samples are an array of floats, not {type(samples).__name__}")
    view = memoryview(cast(Any, samples))
    if view.ndim != 1:
        raise ValueError(f"samples are one channel, and have one dimension, not {view.ndim}")
    if view.format not in ("f", "d"):
        raise TypeError(f"samples are floats of about -1 to 1, not of the type {view.format!r}")
    if view.format != "f" or not view.c_contiguous:
        view = memoryview(array("f", view.tolist()))
    kind = ctypes.c_float * len(view)
    return kind.from_buffer_copy(view) if view.readonly or len(view) == 0 else kind.from_buffer(view)
