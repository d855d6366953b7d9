"""A lock that light work gets before heavy work that waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

OVERTAKEN_MAX: Final = 100
"""How often light work may overtake waiting heavy work."""


class Turns:
    """A lock for one event loop. Requests with large schemas may take seconds each, and many may wait. A request with a
    small schema waits only for the request that has the lock, not for all of them."""

    def __init__(self) -> None:
        self.is_taken = False
        self._light: deque[asyncio.Future[None]] = deque()
        self._heavy: deque[asyncio.Future[None]] = deque()
        self._overtaken = 0

    @asynccontextmanager
    async def turn(self, *, is_heavy: bool = False) -> AsyncIterator[None]:
        """Hold the lock."""
        await self._take(self._heavy if is_heavy else self._light)
        try:
            yield
        finally:
            self._pass_on()

    async def _take(self, queue: deque[asyncio.Future[None]]) -> None:
        if not self.is_taken:
            self.is_taken = True
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if not waiting.cancelled():  # the lock was passed on to this one meanwhile
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._light or self._heavy:
            takes_heavy = not self._light or (bool(self._heavy) and self._overtaken >= OVERTAKEN_MAX)
            self._overtaken = 0 if takes_heavy or not self._heavy else self._overtaken + 1
            following = (self._heavy if takes_heavy else self._light).popleft()
            if not following.cancelled():
                following.set_result(None)
                return
        self.is_taken = False
