"""What ends the rest of a task, seen from the worker's process: a time, a file that changes, a partition that grows.

A look costs a stat for each file, and for each connector with topics one ListOffsets request to each leader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from kcli.client.log_reading import LATEST, LogReader
from kcli.connect.engine.tasks import FileMark, Rest
from kcli.errors import KcliError
from kcli.pipelines.cluster import Cluster
from kcli.protocol.topic_partition import TopicPartition

DESCRIBE_S = 5.0
"""How often partitions and topics are looked up that have come since."""


def mark_of(path: str) -> FileMark | None:
    """Return how a file looks now; None if it is not there."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return FileMark(found.st_ino, found.st_size, found.st_mtime_ns)


class Watch:
    """Looks for work of a connector. partitions: returns those of the connector's topics among others; None for a
    connector that reads no topics."""

    def __init__(self, partitions: Callable[[Collection[TopicPartition]], Collection[TopicPartition]] | None) -> None:
        self._partitions = partitions
        self._reader: LogReader | None = None
        self._described_s = 0.0
        self._known: frozenset[TopicPartition] | None = None

    def has_new_partitions(self, cluster: Cluster) -> bool:
        """Whether partitions of the connector's topics have come since the last call that has said so."""
        if self._partitions is None or time.monotonic() - self._described_s < DESCRIBE_S:
            return False
        self._described_s = time.monotonic()
        try:
            found = frozenset(self._partitions(self._asked(cluster).describe().leaders))
        except KcliError:
            self.close()
            return False
        known, self._known = self._known, found
        return known is not None and not found <= known

    def has_work(self, rest: Rest, *, committed: bool) -> bool:
        """Whether a rest is over. committed: whether only what is below the last stable offset counts. A cluster that
        does not answer has no work."""
        if rest.until_s is not None and time.time() >= rest.until_s:
            return True
        if any(mark_of(path) != mark for path, mark in rest.files.items()):
            return True
        if rest.cluster is None:
            return rest == Rest()
        if time.time() < rest.not_before_s:
            return False
        try:
            reader = self._asked(rest.cluster)
            now = reader.offsets([*rest.ends], LATEST, committed=committed)
            if now.keys() < rest.ends.keys() and time.monotonic() - self._described_s >= DESCRIBE_S:
                self._described_s = time.monotonic()
                reader.describe()  # partitions without a leader may have one now
        except KcliError:
            self.close()
            return False
        return any(rest.ends[place] < end for place, end in now.items())

    def close(self) -> None:
        """Close the connections."""
        if self._reader is not None:
            self._reader.__exit__()
            self._reader = None

    def _asked(self, cluster: Cluster) -> LogReader:
        if self._reader is None:
            self._reader = cluster.reader()
        return self._reader
