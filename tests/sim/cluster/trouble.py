"""The faults of a simulation: one after the other, some at the same time, until the calm begins.

A node that loses power loses the bytes that it has not flushed. Kafka's acks rely on the other replicas, so this fault
happens only while all replicas are in sync, and no other process ends until they are in sync again; or where every
message is flushed. Kafka promises nothing where all replicas fail one after the other and the one that lost its
unflushed bytes is elected (KIP-966's last known leader).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.cluster.network import CLIENT, Faults

if TYPE_CHECKING:
    from tests.sim.cluster.node import Process
    from tests.sim.cluster.world import World


class Trouble:
    """The faults of a simulation."""

    def __init__(self, world: World) -> None:
        self._world = world
        random = world.random
        self._faults = Faults(
            lost=random.choice((0.0, 0.002, 0.02)),
            repeated=random.choice((0.0, 0.02, 0.1)),
            late=random.choice((0.0, 0.02, 0.1)),
            delay_ms=random.choice((1, 4, 20)),
        )
        self._is_recovering = False
        self._pause_ms = random.choice((300, 2_000, 6_000))
        self._kinds = [
            self._kill,
            self._kill,
            self._die_soon,
            self._pause,
            self._isolate,
            self._isolate,
            self._cut,
            self._one_way,
        ]
        self._kinds += [random.choice((self._stop, self._power, self._power))]

    async def run(self, seconds: float) -> None:
        """Cause faults for that time."""
        world, random = self._world, self._world.random
        until_s = world.time.now_s + seconds
        world.network.faults = self._faults
        most_ms = random.choice((2_000, 5_000, 9_000))
        while world.time.now_s < until_s:
            await world.sleep_ms(random.randrange(most_ms // 8, most_ms))
            random.choice(self._kinds)(random.choice(world.processes))

    def end(self) -> None:
        """End all faults."""
        world = self._world
        world.network.faults = Faults()
        world.network.heal(set(world.network.cut))
        for each in world.processes:
            if each.lane is not None and each.lane.is_paused:
                self._go_on(each)
            if each.disk is not None:
                each.disk.dies_at = 0

    @property
    def may_end(self) -> bool:
        """Return whether a process may end: not before replicas that lost bytes are in sync again."""
        if self._is_recovering and self._is_whole:
            self._is_recovering = False
        return not self._is_recovering

    @property
    def _is_whole(self) -> bool:
        return self._world.all_in_sync() and all(each.is_up for each in self._world.processes)

    def _kill(self, process: Process) -> None:
        if process.is_alive and self.may_end:
            self._note(process, "is killed")
            process.kill()

    def _die_soon(self, process: Process) -> None:
        if process.is_alive and process.disk is not None and self.may_end:
            process.disk.dies_at = process.disk.operations + self._world.random.randrange(1, 60)

    def _power(self, process: Process) -> None:
        world = self._world
        if not process.is_alive or not (world.flushes or self._is_whole):
            return
        self._note(process, "loses its power")
        if not world.flushes:
            self._is_recovering = True
            for each in world.processes:
                if each.disk is not None:
                    each.disk.dies_at = 0
        process.kill(power=True)

    def _stop(self, process: Process) -> None:
        if process.is_up and process.runs and self.may_end:
            process.stop()

    def _pause(self, process: Process) -> None:
        if process.runs and process.lane is not None:
            self._note(process, "is paused")
            process.lane.pause()
            delay_s = self._world.random.randrange(50, self._pause_ms) / 1000
            self._world.outside.call_later(delay_s, self._go_on, process)

    def _go_on(self, process: Process) -> None:
        if process.lane is not None and process.lane.is_paused:
            self._note(process, "goes on")
            process.lane.go_on()

    def _isolate(self, process: Process) -> None:
        others = [each.id for each in self._world.processes if each is not process]
        if self._world.random.random() < 0.3:
            others.append(CLIENT)
        self._cut_off(process, others, both=True)

    def _cut(self, process: Process) -> None:
        other = self._world.random.choice([each.id for each in self._world.processes if each is not process])
        self._cut_off(process, [other], both=True)

    def _one_way(self, process: Process) -> None:
        others = [each.id for each in self._world.processes if each is not process]
        self._cut_off(process, others[: self._world.random.randrange(1, len(others) + 1)], both=False)

    def _cut_off(self, process: Process, others: list[int], *, both: bool) -> None:
        network = self._world.network
        pairs = {(process.id, each) for each in others}
        if both or self._world.random.random() < 0.5:
            backwards = {(each, process.id) for each in others}
            pairs = pairs | backwards if both else backwards
        pairs -= network.cut
        self._note(process, f"is cut off: {sorted(pairs)}")
        network.cut |= pairs
        self._world.outside.call_later(self._world.random.randrange(300, 10_000) / 1000, self._heal, process, pairs)

    def _heal(self, process: Process, pairs: set[tuple[int, int]]) -> None:
        self._note(process, f"is reached again: {sorted(pairs)}")
        self._world.network.heal(pairs)

    def _note(self, process: Process, what: str) -> None:
        self._world.note(f"node {process.id}", what)
