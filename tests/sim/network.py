"""The network between clients and the broker. It loses, repeats and delays requests and responses; a broker that died
answers nothing.

A late request is handled in the state that the broker has then. Clients of transaction version 2 and members of groups
allow for that. Older transactional clients do not (KIP-890 is the remedy): for them a request that has timed out never
arrives, as if its connection were closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.broker.coordinators.runtime import CoordinatorError
from tests.log.crash_disk import Crash

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

PATIENCE_MS = 3_000
LATE_MS = 15_000
REFUSED_MS = 300
Run = Callable[["Node"], Awaitable[Any]]
"""A function that handles a request on a broker."""


class Lost(Exception):
    """A request without a response: it may have been handled or not."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The probabilities that a request or a response is lost, that a request is repeated, and that one is late."""

    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.0


class Network:
    """The network between clients and the broker."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world = world
        self.faults = faults

    async def ask(
        self,
        who: str,
        what: str,
        run: Run,
        *,
        patience_ms: int = PATIENCE_MS,
        in_order: bool = False,
        again_ms: int = 0,
    ) -> Any:
        """Send a request and return its response. again_ms: the request arrives a second time after that time. Raises
        Lost, CoordinatorError."""
        world = self._world
        loop, random = world.loop, world.random
        answer: asyncio.Future[Any] = loop.create_future()
        lates = [self.faults.late]
        if not in_order and random.random() < self.faults.repeated:
            lates.append(0.5)
        for late in lates:
            if random.random() < self.faults.lost:
                world.note(who, f"{what}: lost")
                continue
            delay_ms = random.randrange(1, 30)
            if random.random() < late:
                delay_ms += random.choice([300, 1_000, 3_000, LATE_MS]) + random.randrange(500)
            loop.call_later(delay_ms / 1000, self._deliver, who, what, run, answer, in_order)
        if again_ms:
            loop.call_later(again_ms / 1000, self._deliver, who, what, run, answer, in_order)
        patience = loop.call_later(patience_ms / 1000, lose, answer)
        try:
            return await answer
        finally:
            patience.cancel()

    def _deliver(self, who: str, what: str, run: Run, answer: asyncio.Future[Any], in_order: bool) -> None:
        node = self._world.node
        if in_order and answer.done():
            return
        if node is None or not node.is_alive:
            self._world.loop.call_later(REFUSED_MS / 1000, lose, answer)
            return
        task = self._world.loop.create_task(self._serve(node, who, what, run, answer))
        node.serving[task] = answer
        task.add_done_callback(lambda task: node.serving.pop(task, None))

    async def _serve(self, node: Node, who: str, what: str, run: Run, answer: asyncio.Future[Any]) -> None:
        result: Any = None
        error: CoordinatorError | None = None
        try:
            result = await run(node)
        except CoordinatorError as refused:
            error = refused
        except Crash:
            pass
        except Exception as unexpected:  # noqa: BLE001  (a promise is broken, or the code is)
            self._world.fail(unexpected)
            return
        world = self._world
        if not node.is_alive:
            world.note(who, f"{what}: the broker died")
            world.loop.call_later(world.random.randrange(1, 200) / 1000, lose, answer)
            return
        if world.notes is not None:
            world.note(who, f"{what}: {result if error is None else error.code.name}")
        if world.random.random() < self.faults.lost:
            world.note(who, f"{what}: answer lost")
            return
        delay_s = world.random.randrange(1, 30) / 1000
        world.loop.call_later(delay_s, _answer, answer, result if error is None else error)


def _answer(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, CoordinatorError):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def lose(answer: asyncio.Future[Any]) -> None:
    """End the request with Lost."""
    if not answer.done():
        answer.set_exception(Lost())
