"""The coordinators of a broker that only reads: groups and transactional ids as the files have them.

    machine   replayed from its partition's log, around damage, in a thread; anew where the files have changed since
    asked     for what changes nothing: it is never told that its log is loaded, so that nothing times out, no group
              rebalances and no marker is written; groups are as a coordinator finds them when it starts

Where there is no metadata log, nobody says how many partitions there were: at least as many as are configured. Where
there is no partition at all, there are no groups: clients that assign partitions to themselves are left in peace.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import FormatError
from kcli.broker.coordinators.runtime import Coordinator, CoordinatorError, partition_of
from kcli.broker.network.messages import ErrorCode
from kcli.errors import UnreadableInput
from kcli.log.coordinator_records import read_records, segments

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.coordinator import Machine

log = logging.getLogger("kcli.broker")
Mark = tuple[tuple[str, int, int, int], ...]
"""What tells whether a log has changed: name, inode, size and time of the last change of its segments."""


class ReadOnlyCoordinator(Coordinator):
    """See above. Nobody starts it, and there is nothing to stop."""

    def __init__(self, broker: Broker, like: Coordinator, partitions_min: int) -> None:
        """like: the coordinator that it stands for. partitions_min: of its topic, if there is any."""
        super().__init__(broker, like.topic, lambda: like.work)
        self._partitions_min = partitions_min
        self._machines: dict[int, tuple[Mark, Machine]] = {}
        self._replaying = asyncio.Lock()

    @property
    def partition_count(self) -> int:
        """Partitions of the topic; 0 where nothing is there."""
        count = super().partition_count
        return max(count, self._partitions_min) if count else 0

    def partition_of(self, key: str) -> int:
        """The partition that a group or a transactional id belongs to."""
        return partition_of(key, self.partition_count or 1)

    def led(self) -> list[int]:
        """The partitions that are there."""
        return [each.number for each in self._broker.partitions if each.topic == self.topic]

    async def ask_shard(self, number: int, request: Any) -> Any:
        """The answer of one machine to what changes nothing. Raises CoordinatorError."""
        partition = self._broker.partitions.get(self.topic, number)
        if partition is not None:
            async with self._replaying:
                machine = await self._machine(number, partition.log.directory)
        elif not self.partition_count:
            machine = self.work.make(number)
        else:
            raise CoordinatorError(ErrorCode.not_coordinator)
        outcome = machine.handle(0, request, self._broker.clock.now_ms())
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
            raise CoordinatorError(ErrorCode.coordinator_not_available) from None
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
