"""Threads for calls of a store, which may hang: the numbers of tasks that run and of tasks that wait are limited.

    run     work in a thread; the event loop goes on meanwhile
    full    `run` raises PoolFull at once if all threads are in use and the queue is full
    cancel  a task that is cancelled in `run` leaves the queue; work that a thread has begun goes on, and keeps its
            thread until it ends

The limits may change while tasks run, as they are dynamic configurations in Kafka. The threads are daemons: a store
that hangs does not keep the process from ending. Source: RemoteStorageThreadPool (remote.log.reader.threads,
remote.log.reader.max.pending.tasks).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from kcli.errors import KcliError

T = TypeVar("T")


class PoolFull(KcliError):
    """All threads are in use, and the queue is full."""


class _Task(NamedTuple):
    work: Callable[[], Any]
    future: asyncio.Future[Any]


class ThreadPool:
    """A pool of threads for the tasks of one event loop. threads, pending_max: return the greatest number of tasks that
    run, and of tasks that wait."""

    def __init__(self, name: str, threads: Callable[[], int], pending_max: Callable[[], int]) -> None:
        self._name = name
        self._threads, self._pending_max = threads, pending_max
        self._pending: deque[_Task] = deque()
        self._begun: SimpleQueue[_Task | None] = SimpleQueue()
        self._count = 0  # of threads
        self._running = 0  # tasks that were given to threads and have not ended
        self._is_closed = False

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return the result of `work`, which runs in a thread, or raise its exception. Raises PoolFull."""
        if self._is_closed:
            raise PoolFull(f"{self._name}: closed")
        loop = asyncio.get_running_loop()
        task = _Task(lambda: work(*arguments), loop.create_future())
        if self._running < self._threads():
            self._begin(task)
        else:
            while self._pending and self._pending[0].future.cancelled():
                self._pending.popleft()
            waiting = len(self._pending)
            if waiting >= self._pending_max():
                raise PoolFull(f"{self._name}: {self._running:,} tasks run, and {waiting:,} wait")
            self._pending.append(task)
        try:
            result: T = await task.future
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._pending.remove(task)
            raise
        return result

    def close(self) -> None:
        """End the threads as soon as they have nothing to do. Waiting tasks are cancelled."""
        self._is_closed = True
        for task in self._pending:
            task.future.cancel()
        self._pending.clear()
        for _ in range(self._count):
            self._begun.put(None)

    def _begin(self, task: _Task) -> None:
        self._running += 1
        if self._running > self._count:
            self._count += 1
            loop = task.future.get_loop()
            threading.Thread(target=self._work, args=(loop,), name=f"{self._name}-{self._count}", daemon=True).start()
        self._begun.put(task)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (task := self._begun.get()) is not None:
            result, error = None, None
            try:
                result = task.work()
            except BaseException as raised:  # noqa: BLE001  (it is raised where the task is awaited)
                error = raised
            try:
                loop.call_soon_threadsafe(self._ended, task.future, result, error)
            except RuntimeError:  # the event loop is closed
                return
            del task, result, error  # do not keep the bytes of a read until the next task

    def _ended(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._running -= 1
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        while self._pending and self._running < self._threads():
            task = self._pending.popleft()
            if not task.future.done():
                self._begin(task)
