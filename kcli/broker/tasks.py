"""Tasks in the background: each ends in one place, whatever it raises.

    it is cancelled   nothing is said
    it raises         one line is logged, with the trace at level DEBUG

What then goes on is for who begins it. One that must not end catches by itself what it can go on after (a follower's
fetches, the log cleaner); another is begun again with its next event (an exchange of raft, a change of in-sync
replicas); of others the node stops in order (heartbeats, the metadata log). No exception is left for the event loop to
find.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("kcli.broker")

_running: set[asyncio.Task[None]] = set()
"""The event loop itself keeps only weak references."""


def in_background(what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run something to its end on the running loop; `what` names it in the log. The task never raises."""
    task = asyncio.get_running_loop().create_task(_guarded(what, work), name=what)
    _running.add(task)

    def ended(_: object) -> None:
        _running.discard(task)
        work.close()  # the task may have been cancelled before it came to it

    task.add_done_callback(ended)
    return task


async def _guarded(what: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:
        log.error("%s failed: %s: %s", what, type(error).__name__, error)  # noqa: TRY400  (one line; the trace below)
        log.debug("%s", what, exc_info=error)
