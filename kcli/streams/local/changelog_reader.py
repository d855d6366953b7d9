"""The changelogs from which stores are restored.

key-value stores   many records at once, up to the end that the changelog has; then as the others
other stores       record by record: up to the end, and for a standby beyond it
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcli.client.connection import Connection
from kcli.client.processing import Fetched, PartitionReader
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.local.active_task import ActiveTask

if TYPE_CHECKING:
    from kcli.client.bulk_reading import BulkReader, Slice

LONG = 10_000
"""From so many records on a changelog is long."""
TURN_S = 0.1
"""So long a turn takes many records at once, while running tasks wait."""


class ChangelogReader:
    """Reads the changelogs of tasks. One is done when it is read up to the end that it had when it was last added."""

    def __init__(self, connection: Connection, *, committed_only: bool) -> None:
        self._connection, self._committed_only = connection, committed_only
        self._reader = PartitionReader(connection, committed_only=committed_only)
        self._bulks: dict[TopicPartition, tuple[BulkReader, Iterator[Slice], ActiveTask]] = {}

    def add(self, active: ActiveTask) -> None:
        """Read the changelogs of a task; those that are read already go on, and get a new end. Raises Refused,
        Unreachable."""
        new = [place for place in active.changelogs if place not in self._bulks and place not in self._reader]
        many = [place for place in new if active.takes_many(place)]
        for place, end in self._reader.ends(many).items():
            if end >= LONG:
                self._bulks[place] = self._begun(place, active)
        self._reader.add(place for place in active.changelogs if place not in self._bulks)

    def remove(self, places: Iterable[TopicPartition]) -> None:
        """Read changelogs no more."""
        for place in places:
            self._bulks.pop(place, None)
        self._reader.remove(places)

    def is_done(self, place: TopicPartition) -> bool:
        """Whether the changelog is read up to the end that it had."""
        return place not in self._bulks and self._reader.is_done(place)

    def poll(self, timeout_s: float) -> list[Fetched]:
        """Restore stores that take many records at once; return records of the other changelogs. Waits for `timeout_s`
        if there is nothing. Raises StreamsError, and what PartitionReader raises."""
        deadline = time.monotonic() + TURN_S
        found = list(self._bulks)
        for place in found:
            if not self._restore(place, deadline):
                break
        return self._reader.poll(0 if found else timeout_s)

    def close(self) -> None:
        """End."""
        self._bulks.clear()
        self._reader.close()

    def _begun(self, place: TopicPartition, active: ActiveTask) -> tuple[BulkReader, Iterator[Slice], ActiveTask]:
        from kcli.client.bulk_reading import BulkReader  # a start without a long changelog does not wait for it

        bulk = BulkReader(self._connection, place, committed_only=self._committed_only)
        return bulk, bulk.slices(), active

    def _restore(self, place: TopicPartition, deadline: float) -> bool:
        """Restore the store of a changelog. Return False if the time has come and records are left."""
        bulk, slices, active = self._bulks[place]
        for records in slices:
            if not active.restore_all(place, records):
                break
            if time.monotonic() > deadline:
                return False
        del self._bulks[place]
        self._reader.add([place], bulk.position)
        return True
