"""The child process of a broker: an event loop with Controls, and a thread that reads the test's calls from a pipe."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from kcli.testing.controls import Controls
from kcli.testing.moving import MovingLoop


def main(fd: int) -> None:
    """Serve calls from the socket `fd` until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the test run, which then closes the pipe
    gc.freeze()
    loop = MovingLoop()
    controls = Controls(loop)
    threading.Thread(target=_take_calls, args=(Connection(fd), controls, loop), daemon=True).start()
    loop.run_forever()


def _take_calls(pipe: Connection, controls: Controls, loop: MovingLoop) -> None:
    while True:
        try:
            method, arguments = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)  # the test run has ended: no shutdown in order is needed
        try:
            coroutine = getattr(controls, method)(*arguments)
            answer: tuple[Any, Exception | None] = asyncio.run_coroutine_threadsafe(coroutine, loop).result(), None
        except Exception as error:  # noqa: BLE001  (raised again at the other end)
            answer = None, _portable(error)
        pipe.send(answer)


def _portable(error: Exception) -> Exception:
    """Return the error, or a RuntimeError with its text if it cannot be pickled."""
    import pickle

    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  (our own)
    except Exception:  # noqa: BLE001  (whatever its class does)
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
