"""The coordinators of a read-only broker: groups and transactional ids as their logs have them.

    loading   at the first request, and at a request after the files have changed, a thread replays the partition's log
              into a new state machine, skipping damage
    requests  only those that change nothing. The machine's method `loaded`, which starts sessions and continues
              unfinished transactions, is never called: no member times out, no group rebalances and no marker is
              written; groups have the state that a coordinator finds in the log when it starts

Without a metadata log the number of partitions of a coordinator's topic is unknown, and assumed to be at least the
configured number. If neither the metadata log nor the disks have the topic __consumer_offsets, there are no groups;
clients that assign partitions to themselves can still read.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import FormatError
from kcli.broker.coordinators.runtime import Coordinator, CoordinatorError
from kcli.errors import UnreadableInput
from kcli.java.hashing import partition_of
from kcli.log.coordinator_records import read_records, segments
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.coordinator.machine import Machine

log = logging.getLogger("kcli.broker")
Mark = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and modification time of each segment of a log. If a log's Mark differs from an earlier one, the
log has changed."""


class ReadOnlyCoordinator(Coordinator):
    """A coordinator for requests that change nothing. It need not be started or stopped."""

    def __init__(self, like: Coordinator, partitions_min: int) -> None:
        """like: the coordinator that this object replaces. partitions_min: the smallest number of partitions that the
        coordinator's topic may have; 0 if the metadata log says how many the topic has."""
        super().__init__(like.context, like.topic, lambda _: like.work)
        self._partitions_min = partitions_min
        self._machines: dict[int, tuple[Mark, Machine]] = {}
        self._replaying = asyncio.Lock()

    @property
    def partition_count(self) -> int:
        """The number of partitions of the coordinator's topic; 0 if neither the metadata log nor the disks have the
        topic."""
        count = super().partition_count
        return max(count, self._partitions_min) if count else 0

    def partition_of(self, key: str) -> int:
        """Return the number of the partition to which a group id or transactional id belongs."""
        return partition_of(key, self.partition_count or 1)

    def led(self) -> list[int]:
        """Return the numbers of the partitions of the coordinator's topic that are on disk."""
        return [each.number for each in self.context.partitions if each.topic == self.topic]

    async def handle_in(self, number: int, request: Any) -> Any:
        """Return the response of the state machine of partition `number` to a request that changes nothing. Raises
        CoordinatorError."""
        partition = self.context.partitions.get(self.topic, number)
        if partition is not None:
            async with self._replaying:
                machine = await self._machine(number, partition.log.directory)
        elif not self.partition_count:
            machine = self.work.make(number)
        else:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
        outcome = machine.handle(0, request, self.context.clock.now_ms())
        assert not outcome.batches, "nothing is changed"
        ((_, answer),) = outcome.answers
        return answer

    async def _machine(self, number: int, directory: Path) -> Machine:
        try:
            mark = _mark(directory)
            known = self._machines.get(number)
            if known is not None and known[0] == mark:
                return known[1]
            machine = self.work.make(number)
            await asyncio.get_running_loop().run_in_executor(None, _replay, machine, directory)
        except (OSError, UnreadableInput) as error:
            log.warning("%s-%d: %s", self.topic, number, error)
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from None
        self._machines[number] = mark, machine
        return machine


def _mark(directory: Path) -> Mark:
    stats = ((path, path.stat()) for _, path in segments(directory))
    return tuple((path.name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def _replay(machine: Machine, directory: Path) -> None:
    for path, record in read_records(directory, lambda line: log.warning("%s", line)):
        try:
            if record.marker is None:
                machine.replay((record.key, record.value), record.offset, record.producer_id, -1)
            else:
                machine.replay_marker(record.producer_id, -1, commit=record.marker)
        except FormatError as error:
            log.warning("%s: offset %d: %s", path, record.offset, error)
