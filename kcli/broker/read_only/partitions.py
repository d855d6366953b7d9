"""Partitions of a broker that only reads, and the one place in this project that polls.

This broker leads all that lies in its directories, whoever leads it in the cluster; no leader epoch of a client is
refused. Nobody tells when another process has written: each request looks at the files, and while a fetch waits, a
timer does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from kcli.broker.logs.partitions import UNKNOWN_EPOCH, Partition, Watcher
from kcli.broker.network.messages import ErrorCode
from kcli.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from kcli.broker.logs.directories import LogDir
    from kcli.log.read_only_log import ReadOnlyLog
    from kcli.metadata.partition import Partition as PartitionState

log = logging.getLogger("kcli.broker")
POLL_S = 0.1


class Extent(NamedTuple):
    """What is known of a log without a look into its files."""

    size: int
    high_watermark: int = 0
    log_end_offset: int = 0


class Poller:
    """Looks at the files of the partitions that somebody waits for."""

    def __init__(self) -> None:
        self._watched: dict[ReadOnlyPartition, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, partition: ReadOnlyPartition) -> None:
        """One more waits for it."""
        self._watched[partition] = self._watched.get(partition, 0) + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)

    def unwatch(self, partition: ReadOnlyPartition) -> None:
        """One less."""
        count = self._watched.pop(partition, 1)
        if count > 1:
            self._watched[partition] = count - 1

    def _poll(self) -> None:
        for partition in list(self._watched):
            partition.look()
        self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll) if self._watched else None

    def stop(self) -> None:
        """No more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ReadOnlyPartition(Partition):
    """See above."""

    __slots__ = ("_poller", "read_only_log")

    def __init__(
        self,
        topic: str,
        number: int,
        topic_id: UUID,
        state: PartitionState,
        node_id: int,
        directory: LogDir,
        opened: ReadOnlyLog,
        poller: Poller,
    ) -> None:
        as_log = cast("PartitionLog", opened)  # it has all of it that is asked of a broker that only reads
        super().__init__(topic, number, topic_id, state, node_id, directory, lambda _: as_log)
        self._log = as_log
        self.read_only_log = opened
        self._poller = poller

    def look(self) -> None:
        """See what has become of the files; whoever waits for it learns of it."""
        if self.read_only_log.refresh():
            self._wake()

    @property
    def log(self) -> PartitionLog:
        """The log, as it is now."""
        self.look()
        assert self._log is not None, "there from the beginning"
        return self._log

    @property
    def opened_log(self) -> PartitionLog | None:
        """How large the log is: nobody asks more of a log that may not be open."""
        return cast("PartitionLog", Extent(self.read_only_log.size))

    def failed(self, error: Exception) -> None:
        """It cannot be read now; that may pass."""
        log.warning("%s: %s", self, error)

    def check_leader_epoch(
        self,
        epoch: int = UNKNOWN_EPOCH,  # noqa: ARG002  (as in the one it stands for)
        *,
        leader_only: bool = True,  # noqa: ARG002
    ) -> ErrorCode | None:
        """Nothing keeps a client from it."""
        return None

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` when there is more, until `unwatch`."""
        super().watch(watcher)
        self._poller.watch(self)

    def unwatch(self, watcher: Watcher) -> None:
        """Take back one `watch`."""
        super().unwatch(watcher)
        self._poller.unwatch(self)
