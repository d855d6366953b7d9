"""Long work on the event loop, and beside it: nothing that one client asks for keeps the others waiting.

Turns   who has more to do than a few milliseconds' worth waits for its turn before each part of it: one part of all
        that is long runs in one round of the loop, whoever asked for it
apart   a function of what never changes (a request's bytes, an answer's objects) runs in a thread, one at a time:
        it is given up every few milliseconds (sys.setswitchinterval), so that the loop goes on
checked a batch that takes long to check: in threads of their own, so that nothing else waits for them
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

LONG_BYTES: Final = 16 << 10
"""A longer request is read by a thread, unless it has batches."""

LONG_ITEMS: Final = 128
"""An answer with a longer list in it is encoded by a thread."""
STEPS_AT_ONCE: Final = 500
"""So many things of a long list, at some microseconds each, are for one turn."""

T = TypeVar("T")


def has_long_list(message: Any) -> bool:
    """Has a message a long list, or the first item of one of its lists?"""
    for name in getattr(message, "__slots__", ()):
        items = getattr(message, name)
        if type(items) is tuple and items and (len(items) > LONG_ITEMS or has_long_list(items[0])):
            return True
    return False


class Turns:
    """See above. All of it belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait until others have had theirs; what follows, up to the next await, is this one's."""
        async with self._lock:
            await asyncio.sleep(0)

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items of a list, so many in each turn."""
        for i, each in enumerate(items):
            if i and not i % STEPS_AT_ONCE:
                await self.next()
            yield each


_ONE_THREAD = ThreadPoolExecutor(1, "long-requests")

_BATCH_THREADS = ThreadPoolExecutor(2, "long-batches")


async def apart(work: Callable[..., T], *arguments: Any) -> T:
    """What `work` returns, or raises, from a thread."""
    return await asyncio.get_running_loop().run_in_executor(_ONE_THREAD, work, *arguments)


async def checked(work: Callable[..., T], *arguments: Any) -> T:
    """What `work` on a batch returns, or raises, from a thread."""
    return await asyncio.get_running_loop().run_in_executor(_BATCH_THREADS, work, *arguments)


async def apart_if(is_long: bool, work: Callable[..., T], *arguments: Any) -> T:
    """What `work` returns; from a thread if it takes long."""
    return await apart(work, *arguments) if is_long else work(*arguments)
