"""Committed offsets of all groups of one partition, as the log tells them.

    committed   group -> topic, partition -> offset: what counts
    pending     producer id -> the same: what it has committed in its open transaction
    open        group -> topic, partition -> producer ids with pending offsets there

A transaction's offsets become committed with its marker, but for those that were overtaken: where a later record of the
log has committed an offset meanwhile, that one stays. Source: OffsetMetadataManager (replay), OffsetAndMetadata;
KIP-447, KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kcli.group.requests import ZERO_ID, Partition

NONE = -1


class CommittedOffset(NamedTuple):
    """An offset and what came with it. expire_timestamp_ms: NONE where the broker's retention counts. record_offset:
    of its record, NONE before it has one."""

    offset: int
    commit_timestamp_ms: int
    leader_epoch: int = NONE
    metadata: str = ""
    expire_timestamp_ms: int = NONE
    topic_id: str = ZERO_ID
    record_offset: int = NONE


Offsets = dict[Partition, CommittedOffset]
OffsetsByGroup = dict[str, Offsets]


class Committed:
    """See above. Only `replay` and `end_transaction` change it."""

    def __init__(self) -> None:
        self._committed: OffsetsByGroup = {}
        self._pending: dict[int, OffsetsByGroup] = {}
        self._open: dict[str, dict[Partition, set[int]]] = {}

    # what there is

    def of_group(self, group_id: str) -> Offsets:
        """The offsets that count."""
        return self._committed.get(group_id, {})

    def has_open(self, group_id: str) -> bool:
        """Are offsets of the group pending?"""
        return group_id in self._open

    def is_open(self, group_id: str, partition: Partition) -> bool:
        """Is an offset of the partition pending?"""
        return partition in self._open.get(group_id, {})

    def partitions(self, group_id: str) -> list[Partition]:
        """All of the group's partitions with offsets, committed or pending."""
        return list({**self.of_group(group_id), **self._open.get(group_id, {})})

    def of_topic(self, topic: str, topic_id: str) -> Iterator[tuple[str, Partition]]:
        """Groups and partitions with offsets of that topic, committed or pending, and not of another of its name."""
        for by_group in (self._committed, *self._pending.values()):
            for group_id, offsets in by_group.items():
                for partition, offset in offsets.items():
                    if partition[0] == topic and offset.topic_id in (ZERO_ID, topic_id):
                        yield group_id, partition

    # what the log says

    def replay(self, group_id: str, partition: Partition, offset: CommittedOffset | None, producer_id: int) -> None:
        """A record: an offset, in a transaction where there is a producer id, or None for a tombstone."""
        if offset is None:
            self._forget(group_id, partition)
        elif producer_id == NONE:
            self._committed.setdefault(group_id, {})[partition] = offset
        else:
            self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = offset
            self._open.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)

    def _forget(self, group_id: str, partition: Partition) -> None:
        _remove(self._committed, group_id, partition)
        producers = self._open.get(group_id, {}).get(partition, set())
        for producer_id in producers:
            _remove(self._pending[producer_id], group_id, partition)
        if producers:
            self._close(group_id, partition)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker: the producer's pending offsets count, or are gone."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            for partition, offset in offsets.items():
                producers = self._open[group_id][partition]
                producers.discard(producer_id)
                if not producers:
                    self._close(group_id, partition)
                if commit:
                    self._take(group_id, partition, offset)

    def _take(self, group_id: str, partition: Partition, offset: CommittedOffset) -> None:
        known = self._committed.setdefault(group_id, {})
        if partition not in known or offset.record_offset > known[partition].record_offset:
            known[partition] = offset

    def _close(self, group_id: str, partition: Partition) -> None:
        of_group = self._open[group_id]
        del of_group[partition]
        if not of_group:
            del self._open[group_id]


def _remove(by_group: OffsetsByGroup, group_id: str, partition: Partition) -> None:
    offsets = by_group.get(group_id, {})
    if offsets.pop(partition, None) is not None and not offsets:
        del by_group[group_id]
