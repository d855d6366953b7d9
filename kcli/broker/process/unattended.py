"""Logs the failures of background tasks, and of the steps of a stop, which would be lost otherwise.

    begin     runs a background task, logs its failure and calls a function of its owner
    Steps     steps that all run, even after one of them has failed
    attend    logs exceptions of tasks and callbacks on the event loop that no code has handled

A failure of a disk or the network, or a fault in the data of a file or a peer, is one line in the log. A bug is logged
with its traceback.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from formats.errors import FormatError
from kcli.errors import KcliError, error_text

log = logging.getLogger("kcli.broker")
Owner = Callable[[BaseException], None]

_running: set[asyncio.Task[None]] = set()
"""The running tasks. They are referenced here because the event loop keeps only weak references to them."""


def unexpected(error: BaseException) -> BaseException | None:
    """Return the error if it may be a bug, so that its traceback is to be logged; None for an error of the system or of
    data."""
    return None if isinstance(error, KcliError | FormatError | OSError) else error


def report(what: str, error: BaseException) -> None:
    """Log an error. what: the failed operation, with which the log line begins."""
    log.error("%s: %s", what, error_text(error), exc_info=unexpected(error))


def begin(work: Coroutine[Any, Any, None], what: str, failed: Owner = lambda _: None) -> asyncio.Task[None]:
    """Run a coroutine as a task. If the coroutine raises an exception, log the exception, and call `failed` with it.
    what: the beginning of the log line: the failed operation, or its consequence."""
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(partial(_ended, work, what, failed))
    return task


def _ended(work: Coroutine[Any, Any, None], what: str, failed: Owner, task: asyncio.Task[None]) -> None:
    _running.discard(task)
    work.close()  # a task cancelled before its first step leaves its coroutine open
    if not task.cancelled() and (error := task.exception()) is not None:
        report(what, error)
        failed(error)


class Steps:
    """The steps of an operation that continues after a failed step. failures: the exceptions of the failed steps."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Run the body of a `with` statement as one step. An exception in the body is logged and added to `failures`,
        and not raised. what: the beginning of the log line."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (whatever it is, the other steps are to be taken)
            report(what, error)
            self.failures.append(error)


def attend(loop: asyncio.AbstractEventLoop) -> None:
    """Log the exceptions that no code on the event loop has handled, in place of asyncio's own lines on stderr."""

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            log.error("%s", context["message"])
        else:
            report(context["message"], error)

    loop.set_exception_handler(handle)
