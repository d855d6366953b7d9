"""Partitions of a read-only broker. They poll the files for changes, as other processes write them.

This broker leads all partitions in its directories, whichever broker leads them in the cluster, and accepts any leader
epoch in a request. Each request checks the files for changes; while a Fetch waits, a timer checks them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from kcli.broker.partition.partitions import UNKNOWN_EPOCH, Partition, Watcher
from kcli.log.live.partition_log import PartitionLog
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.log_dirs.directories import LogDir
    from kcli.log.read_only.log import ReadOnlyLog
    from kcli.metadata.partition import Partition as PartitionState

log = logging.getLogger("kcli.broker")
POLL_S = 0.1


class Extent(NamedTuple):
    """An object that stands in for a PartitionLog (see ReadOnlyPartition.opened_log). size: the log's size in bytes.
    high_watermark and log_end_offset are always 0: to find the real offsets, segments would have to be read."""

    size: int
    high_watermark: int = 0
    log_end_offset: int = 0


class Poller:
    """Checks the files of the partitions for which Fetches wait, at the interval of a timer."""

    def __init__(self) -> None:
        self._watched: dict[ReadOnlyPartition, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, partition: ReadOnlyPartition) -> None:
        """Begin to check a partition's files at the timer's interval. Called once for each Fetch that waits for the
        partition."""
        self._watched[partition] = self._watched.get(partition, 0) + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)

    def unwatch(self, partition: ReadOnlyPartition) -> None:
        """Stop checking a partition's files, unless another Fetch waits for the partition. Called once for each call of
        `watch`."""
        count = self._watched.pop(partition, 1)
        if count > 1:
            self._watched[partition] = count - 1

    def _poll(self) -> None:
        for partition in list(self._watched):
            partition.refresh()
        self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll) if self._watched else None

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ReadOnlyPartition(Partition):
    """A partition of a read-only broker: this broker leads it, and its log has the current contents of the files."""

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
        as_log = cast("PartitionLog", opened)  # the ReadOnlyLog has all methods that a read-only broker calls
        super().__init__(topic, number, topic_id, state, node_id, directory, lambda _: as_log)
        self._log = as_log
        self.read_only_log = opened
        self._poller = poller

    def refresh(self) -> None:
        """Check the files. If they have changed, call the watchers."""
        if self.read_only_log.refresh():
            self._wake()

    @property
    def log(self) -> PartitionLog:
        """The log, after a check of the files, so that it has their current contents."""
        self.refresh()
        assert self._log is not None, "there from the beginning"
        return self._log

    @property
    def opened_log(self) -> PartitionLog | None:
        """An Extent with the size of the log in place of the log, as the callers of this property use only the size;
        never None."""
        return cast("PartitionLog", Extent(self.read_only_log.size))

    def failed(self, error: Exception) -> None:
        """Log an I/O error. The partition stays online, as a later request may be able to read the log."""
        log.warning("%s: %s", self, error)

    def check_leader_epoch(
        self,
        epoch: int = UNKNOWN_EPOCH,  # noqa: ARG002  (the signature of Partition)
        *,
        leader_only: bool = True,  # noqa: ARG002  (the signature of Partition)
    ) -> ErrorCode | None:
        """Return None, as every request is served."""
        return None

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` when the files of the log have changed, until `unwatch`."""
        super().watch(watcher)
        self._poller.watch(self)

    def unwatch(self, watcher: Watcher) -> None:
        """Undo one call of `watch`."""
        super().unwatch(watcher)
        self._poller.unwatch(self)
