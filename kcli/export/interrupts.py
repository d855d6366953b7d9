"""Ctrl-C where it must not come in between: while Spark works, and while a finished table is put in place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Held:
    """Whether SIGINT came while it was held back; `then` runs when it comes, in a thread."""

    def __init__(self, then: Callable[[], None] | None) -> None:
        self._then = then
        self._came = False

    def take(self, number: int, frame: FrameType | None) -> None:
        """The handler. Who asks twice is in a hurry: the second one is not held."""
        if self._came:
            signal.default_int_handler(number, frame)
        self._came = True
        if self._then is not None:
            threading.Thread(target=self._then, daemon=True).start()

    def deliver(self) -> None:
        """Raise KeyboardInterrupt, if SIGINT came."""
        if self._came:
            raise KeyboardInterrupt


@contextmanager
def held(then: Callable[[], None] | None = None) -> Iterator[Held]:
    """Hold SIGINT back inside the `with`. What becomes of it is the caller's matter. Only the main thread has signals;
    a handler that the block installs, as PySpark does, goes with it."""
    hold = Held(then)
    if threading.current_thread() is not threading.main_thread():
        yield hold
        return
    before = signal.signal(signal.SIGINT, hold.take)
    try:
        yield hold
    finally:
        signal.signal(signal.SIGINT, before)
