"""A real node on a lane of its own. Only sockets, threads and the system's clock are simulated.

start    as a process: recovery, quorum, registration, unfencing; a node that stops by itself is started again
kill     no callback is called any more; finished writes stay, an unfinished one is torn
power    as kill, and bytes that were not synced may be lost
stop     controlled shutdown
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from kcli.broker.config import BrokerConfig
from kcli.broker.log_dirs.directories import LogDirs
from kcli.broker.logs.manager import LogManager
from kcli.broker.metadata.log import MetadataLog
from kcli.broker.network.outbound import Outbound
from kcli.broker.network.peers import Network
from kcli.broker.network.secured import SecuredListener
from kcli.broker.network.server import Server
from kcli.broker.node import Node
from tests.sim.cluster.lanes import Lane, LaneClock
from tests.sim.cluster.network import SimulatedNetwork, SimulatedServer
from tests.sim.disk import DyingDisk

if TYPE_CHECKING:
    from tests.sim.cluster.world import World


class LoopExecutor(Executor):
    """An executor that runs functions on the event loop, a little later, in order."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(function(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  (given to who waits)
                future.set_exception(error)

        self._lane.call_later(0.002, run)
        return future


class SimulatedNode(Node):
    """kcli's node, with simulated sockets, threads and clock."""

    def __init__(
        self,
        config: BrokerConfig,
        lane: Lane,
        network: SimulatedNetwork,
        disk: DyingDisk,
        clock: LaneClock,
        random: Random,
    ) -> None:
        super().__init__(config, disk=disk, clock=clock, chance=random)
        self._lane, self._simulated = lane, network

    def _new_server(
        self,
        loop: asyncio.AbstractEventLoop,  # noqa: ARG002 (the signature of what it stands for)
        secured: Mapping[str, SecuredListener],  # noqa: ARG002 (the signature of what it stands for)
    ) -> Server:
        return SimulatedServer(self.config, self._lane, self._simulated, self.config.node_id)

    def _new_network(self, loop: asyncio.AbstractEventLoop, how: Outbound) -> Network:  # noqa: ARG002 (the signature of what it stands for)
        return self._simulated.host(self.config.node_id, self._lane)

    def _new_logs(self, dirs: LogDirs, journal: MetadataLog) -> LogManager:
        logs = super()._new_logs(dirs, journal)
        logs._maker = LoopExecutor(self._lane)  # type: ignore[assignment]
        return logs

    @property
    def log_dirs(self) -> LogDirs | None:
        """Return the log directories that the node has locked."""
        return self._dirs


class Process:
    """A node's process, which may end and start again. lives: the number of starts."""

    def __init__(self, world: World, node_id: int, directory: Path, properties: dict[str, str]) -> None:
        self.world, self.id, self.directory = world, node_id, directory
        self.properties = properties
        random = world.random
        self.rate = 1.0 + random.choice((0, 0, 1e-4, -1e-4, 2e-2, -2e-2))
        self.wall_offset_ms = random.choice((0, 0, 300, -300, 5_000, -60_000))
        self.lives = 0
        self.node: SimulatedNode | None = None
        self.lane: Lane | None = None
        self.disk: DyingDisk | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._unburied: list[tuple[SimulatedNode, DyingDisk]] = []
        self.is_up = self.is_restarting = False
        self.buried: list[tuple[SimulatedNode, Lane]] = []

    @property
    def is_alive(self) -> bool:
        """Return whether the process exists."""
        return self.node is not None

    @property
    def runs(self) -> bool:
        """Return whether the process exists and is not paused."""
        return self.lane is not None and self.node is not None and not self.lane.is_paused

    def start(self, dies_at: int = 0) -> None:
        """Start the process. dies_at: the number of the disk operation at which it is killed."""
        world = self.world
        assert self.node is None, "one at a time"
        self.lives += 1
        seed = world.random.getrandbits(32)
        lane = self.lane = world.time.lane(Random(seed), begin_s=100.0 * self.id + self.lives, rate=self.rate)
        disk = self.disk = DyingDisk(self._died, seed, dies_at=dies_at, loses=False)
        offset_ms = self.wall_offset_ms - round(lane.time() * 1000 - world.time.now_s * 1000)
        clock = LaneClock(lane, offset_ms)
        world.note(f"node {self.id}", f"starts, life {self.lives}")

        async def live() -> None:
            config = BrokerConfig(self.properties)
            node = self.node = SimulatedNode(config, lane, world.network, disk, clock, Random(seed + 1))
            try:
                await node.start()
                self.is_up = True
                world.note(f"node {self.id}", "is up")
                reason = await node.ended
                world.ended(self, reason)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  (the process ends with it)
                reason = f"{type(error).__name__}: {error}"
                world.stopped(self, error)
            world.note(f"node {self.id}", f"stops by itself: {reason}")
            self.kill()
            world.restart_later(self)

        self._tasks.append(lane.start(live()))

    def stop(self) -> None:
        """Shut the node down in order, then start it again."""
        node, lane = self.node, self.lane
        assert node is not None, "it runs"
        assert lane is not None, "it runs"
        self.is_up = False
        self.world.note(f"node {self.id}", "stops in order")

        async def stop() -> None:
            try:
                await node.stop()
            except Exception as error:  # noqa: BLE001  (as above)
                self.world.stopped(self, error)
            if self.node is node:
                self.world.note(f"node {self.id}", "has stopped")
                self.kill()
                self.world.restart_later(self)

        self._tasks.append(lane.start(stop()))

    def kill(self, *, power: bool = False) -> None:
        """Kill the process now. power: bytes that were not synced may be lost."""
        disk = self.disk
        if self.node is None or disk is None:
            return
        disk._loses = power
        if not disk.is_dead:
            disk.end()
        else:
            self._died()

    def _died(self) -> None:
        """End the process when its disk dies, perhaps in the middle of an operation: no callback is called any more."""
        node, lane, disk = self.node, self.lane, self.disk
        if node is None or lane is None or disk is None:
            return
        self.is_up = False
        self.node = None
        lane.kill()
        self.world.note(f"node {self.id}", "is gone")
        self.world.network.died(self.id)
        self.buried.append((node, lane))
        self._unburied.append((node, disk))
        self.world.outside.call_soon(self.bury)
        self.world.gone(self)

    def bury(self) -> None:
        """Do what the system does for a dead process: close its connections and release its locks."""
        unburied, self._unburied = self._unburied, []
        for node, disk in unburied:
            if node.log_dirs is not None:
                node.log_dirs.unlock()
            disk.close_all()
