"""Work that nobody waits for, and the steps of a stop: where their failures end.

    begin     a task; its failure is logged, and its owner hears of it
    Steps     each is taken, whatever became of those before it
    attend    failures that nobody has looked at, of tasks and of callbacks on the event loop: the last resort

A failure is one line in the log: what the disk or the network refuses, or what an input or a peer has wrong. A bug has
its trace behind that line.
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
"""The event loop itself keeps only weak references to its tasks."""


def unexpected(error: BaseException) -> BaseException | None:
    """The error, where its place in the code is of interest: it is none of those that the world causes."""
    return None if isinstance(error, KcliError | FormatError | OSError) else error


def report(what: str, error: BaseException) -> None:
    """Log that something has failed."""
    log.error("%s: %s", what, error_text(error), exc_info=unexpected(error))


def begin(work: Coroutine[Any, Any, None], what: str, failed: Owner = lambda _: None) -> asyncio.Task[None]:
    """Run something as a task. Where it fails that is logged, as `what`, and `failed` is called."""
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(partial(_ended, work, what, failed))
    return task


def _ended(work: Coroutine[Any, Any, None], what: str, failed: Owner, task: asyncio.Task[None]) -> None:
    _running.discard(task)
    work.close()  # a task that was cancelled before its first step has not begun it
    if not task.cancelled() and (error := task.exception()) is not None:
        report(what, error)
        failed(error)


class Steps:
    """The steps of something that goes on where one fails. failures: what became of those that did."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """One of them: its failure is logged, as `what`, and goes no further."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (whatever it is, the other steps are to be taken)
            report(what, error)
            self.failures.append(error)


def attend(loop: asyncio.AbstractEventLoop) -> None:
    """Log what would else be complained of on stderr, in asyncio's own words. The loop goes on."""

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            log.error("%s", context["message"])
        else:
            report(context["message"], error)

    loop.set_exception_handler(handle)
