"""Deferral of Ctrl-C (SIGINT) while Spark runs a job and while a finished table is renamed into place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Held:
    """Keeps a SIGINT that has arrived until `deliver` raises KeyboardInterrupt for it. then: called in a new thread
    when SIGINT arrives; None for no call."""

    def __init__(self, then: Callable[[], None] | None) -> None:
        self._then = then
        self._came = False

    def take(self, number: int, frame: FrameType | None) -> None:
        """The signal handler: remember the first SIGINT, raise KeyboardInterrupt at the second."""
        if self._came:
            signal.default_int_handler(number, frame)
        self._came = True
        if self._then is not None:
            threading.Thread(target=self._then, daemon=True).start()

    def deliver(self) -> None:
        """Raise KeyboardInterrupt if SIGINT has arrived."""
        if self._came:
            raise KeyboardInterrupt


@contextmanager
def held(then: Callable[[], None] | None = None) -> Iterator[Held]:
    """Defer SIGINT inside the `with` block. The caller calls `deliver` to raise KeyboardInterrupt if SIGINT has
    arrived; without that call the first SIGINT has no effect. then: see Held. Does nothing outside the main thread.

    The previous handler is restored at the end, also if the body installs one of its own, as PySpark does.
    """
    hold = Held(then)
    if threading.current_thread() is not threading.main_thread():
        yield hold
        return
    before = signal.signal(signal.SIGINT, hold.take)
    try:
        yield hold
    finally:
        signal.signal(signal.SIGINT, before)
