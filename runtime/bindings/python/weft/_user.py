"""The base of the classes that a model makes."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _c
from ._library import Handle, call, library

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._model import Model


class ModelUser:
    """Owns a C object of a model, which the model closes too. Calls from several threads take turns.

    kind: what the object is in names of C, "encoder" for example. public: its name in messages, if that is another.
    options: further arguments of the C function that creates it.
    """

    def __init__(self, model: Model, kind: str, *options: Any, public: str = "") -> None:
        owner = model.handle()
        pointer = ctypes.POINTER(getattr(_c, f"weft_{kind}"))()
        self._model, self._name = model, public or kind
        self._handle: Handle | None = Handle(pointer, getattr(library, f"weft_{kind}_free"), owner)
        call(f"weft_{kind}_create", owner.pointer, *options, ctypes.byref(pointer))
        self._lock = threading.Lock()  # whoever has it may call libweft with the object
        model.add_user(self)

    def close(self) -> None:
        """Frees the object, after calls that other threads are in. Twice is fine."""
        if self._handle and self._handle.inherited:
            self._handle = None
            return
        with self._lock:
            self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _calling(self) -> Iterator[Any]:
        handle = self._handle
        if handle:
            handle.check()
        with self._lock:
            yield self._open().pointer

    def _open(self) -> Handle:
        if self._handle is None:
            raise ValueError(f"the {self._name} is closed")
        return self._handle
