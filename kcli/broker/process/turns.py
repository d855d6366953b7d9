"""Long work, on the event loop and in threads, so that a long request of one client does not delay those of others.

Turns   work that takes more than a few milliseconds waits for its turn before each part: in each round of the event
        loop one part runs, of all long work together
Parts   work written once for both: `at_once` does all its parts together, `Turns.run` each part in a turn
apart   runs a function of immutable data (a request's bytes, a response's objects) in the one thread for such work;
        Python switches threads every few milliseconds (sys.setswitchinterval), so that the event loop goes on
checked checks a long batch in threads for batches alone, so that no other work waits for it
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

LONG_BYTES: Final = 16 << 10
"""The size in bytes above which a request is decoded in a thread, except Produce."""

LONG_ITEMS: Final = 128
"""A response with a list above this length is encoded in a thread."""
STEPS_AT_ONCE: Final = 500
"""The greatest number of items of a long list that one turn handles, at some microseconds each."""

T = TypeVar("T")

Parts = Generator[None, None, T]
"""Work that yields between its parts, and returns its result. Where it yields, anything else may change."""


def at_once(work: Parts[T]) -> T:
    """Do all parts of the work together; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def has_long_list(message: Any) -> bool:
    """Whether a message has a list of more than LONG_ITEMS items, or the first item of one of its lists has such a
    list."""
    for name in getattr(message, "__slots__", ()):
        items = getattr(message, name)
        if type(items) is tuple and items and (len(items) > LONG_ITEMS or has_long_list(items[0])):
            return True
    return False


class Turns:
    """The turns of long work on one event loop, whose thread alone uses them."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait for the next turn: the caller's code up to its next await runs in it."""
        async with self._lock:
            await asyncio.sleep(0)

    async def run(self, work: Parts[T]) -> T:
        """Do each part of the work in a turn; return its result."""
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
    """Run `work` in the thread for long requests. Return its result, or raise its exception."""
    return await asyncio.get_running_loop().run_in_executor(_ONE_THREAD, work, *arguments)


async def checked(work: Callable[..., T], *arguments: Any) -> T:
    """Run `work` on a batch in a thread for batches. Return its result, or raise its exception."""
    return await asyncio.get_running_loop().run_in_executor(_BATCH_THREADS, work, *arguments)


async def apart_if(is_long: bool, work: Callable[..., T], *arguments: Any) -> T:
    """The result of `work`, which runs in the thread for long requests if it is long, else at once."""
    return await apart(work, *arguments) if is_long else work(*arguments)
