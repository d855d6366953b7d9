"""Long work, on the event loop and in threads, so that a long request of one client does not delay those of others.

Turns   work that takes more than a few milliseconds is split into parts, each of which waits for its turn: each
        iteration of the event loop runs only one part, whatever the number of long requests
Parts   a generator with such work: `at_once` does all its parts together, `Turns.run` each part in a turn
apart   runs a function of immutable data (a request's bytes, a response's objects) in the one thread for such work;
        Python switches threads every few milliseconds (sys.setswitchinterval), so that the event loop goes on
checked checks a long batch in threads that only check batches, so that no other work waits for it
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

LONG_BYTES: Final = 16 << 10
"""The size, in bytes, above which a request is decoded in a thread; a Produce request only if it names many partitions,
as its batches are not decoded."""

LONG_ITEMS: Final = 128
"""The greatest number of items of a list in a response that the event loop encodes; a response with a longer list is
encoded in a thread."""
STEPS_AT_ONCE: Final = 500
"""The greatest number of items of a long list that one turn handles; an item takes some microseconds."""

T = TypeVar("T")

Parts = Generator[None, None, T]
"""A generator that does work in parts: it yields between the parts, and returns the result of the work. At each yield,
other code may change any state."""


def at_once(work: Parts[T]) -> T:
    """Do all parts of the work together. Return the result of the work."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def has_long_list(message: Any) -> bool:
    """Whether a message has a list of more than LONG_ITEMS items at any depth; of each list's items only the first one
    is searched for further lists."""
    for name in getattr(message, "__slots__", ()):
        items = getattr(message, name)
        if type(items) is tuple and items and (len(items) > LONG_ITEMS or has_long_list(items[0])):
            return True
    return False


class Turns:
    """Lets several pieces of long work on one event loop take turns: in a turn, one part of one of them runs, and each
    iteration of the event loop has at most one turn. Used only in the event loop's thread."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait for the next turn. The caller's code up to its next await runs in that turn."""
        async with self._lock:
            await asyncio.sleep(0)

    async def run(self, work: Parts[T]) -> T:
        """Do each part of the work in a turn. Return the result of the work."""
        while True:
            await self.next()
            try:
                next(work)
            except StopIteration as done:
                result: T = done.value
                return result

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield the items, STEPS_AT_ONCE of them in each turn."""
        for i, each in enumerate(items):
            if i and not i % STEPS_AT_ONCE:
                await self.next()
            yield each


_ONE_THREAD = ThreadPoolExecutor(1, "long-requests")

_BATCH_THREADS = ThreadPoolExecutor(2, "long-batches")


async def apart(work: Callable[..., T], *arguments: Any) -> T:
    """Run `work` in the thread for long requests. Return the result of `work`, or raise its exception."""
    return await asyncio.get_running_loop().run_in_executor(_ONE_THREAD, work, *arguments)


async def checked(work: Callable[..., T], *arguments: Any) -> T:
    """Run `work`, which checks a batch, in one of the threads that do nothing else. Return the result of `work`, or
    raise its exception."""
    return await asyncio.get_running_loop().run_in_executor(_BATCH_THREADS, work, *arguments)


async def apart_if(is_long: bool, work: Callable[..., T], *arguments: Any) -> T:
    """Return the result of `work`, which runs in the thread for long requests if `is_long`, else at once."""
    return await apart(work, *arguments) if is_long else work(*arguments)
