"""The committed offsets of all groups of one partition of __consumer_offsets, built from the records of its log.

    committed   group -> topic, partition -> offset: the committed offsets that OffsetFetch returns
    pending     producer id -> group -> topic, partition -> offset: the offsets in the producer's open transaction
    open        group -> topic, partition -> ids of the producers that have a pending offset for the partition

A transaction's pending offset becomes the committed offset when the COMMIT marker is replayed, unless a record with a
higher record offset has committed that partition since: the later record wins. Source: OffsetMetadataManager (replay),
OffsetAndMetadata; KIP-447, KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kcli.group.requests import ZERO_ID
from kcli.protocol.topic_partition import TopicPartition

NONE = -1


class CommittedOffset(NamedTuple):
    """A committed offset and the other fields of its commit. expire_timestamp_ms: NONE if the broker's
    offsets.retention.minutes decides when the offset expires. record_offset: the offset of the commit's record in
    __consumer_offsets, NONE before that record is appended."""

    offset: int
    commit_timestamp_ms: int
    leader_epoch: int = NONE
    metadata: str = ""
    expire_timestamp_ms: int = NONE
    topic_id: str = ZERO_ID
    record_offset: int = NONE


Offsets = dict[TopicPartition, CommittedOffset]
OffsetsByGroup = dict[str, Offsets]


class Committed:
    """The committed and the pending offsets of all groups of the partition. Only `replay` and `end_transaction` change
    them."""

    def __init__(self) -> None:
        self._committed: OffsetsByGroup = {}
        self._pending: dict[int, OffsetsByGroup] = {}
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}

    # queries

    def of_group(self, group_id: str) -> Offsets:
        """The group's committed offsets, without pending ones."""
        return self._committed.get(group_id, {})

    def has_open(self, group_id: str) -> bool:
        """Whether the group has pending offsets, that is, offsets in an open transaction."""
        return group_id in self._open

    def is_open(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether the group has a pending offset for the partition."""
        return partition in self._open.get(group_id, {})

    def partitions(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions for which the group has an offset, committed or pending."""
        return list({**self.of_group(group_id), **self._open.get(group_id, {})})

    def of_topic(self, topic: str, topic_id: str) -> Iterator[tuple[str, TopicPartition]]:
        """Yield the groups and partitions that have an offset, committed or pending, for the topic.

        An offset is included if it was committed with this topic id or without a topic id. Offsets of another topic of
        that name, deleted before or created later, are left out. A pair may be yielded more than once.
        """
        for by_group in (self._committed, *self._pending.values()):
            for group_id, offsets in by_group.items():
                for partition, offset in offsets.items():
                    if partition.topic == topic and offset.topic_id in (ZERO_ID, topic_id):
                        yield group_id, partition

    # replaying the log

    def replay(
        self, group_id: str, partition: TopicPartition, offset: CommittedOffset | None, producer_id: int
    ) -> None:
        """Apply the record of an offset commit. offset: None for a tombstone. producer_id: of the transaction that the
        record belongs to, NONE for a commit outside of transactions."""
        if offset is None:
            self._forget(group_id, partition)
        elif producer_id == NONE:
            self._committed.setdefault(group_id, {})[partition] = offset
        else:
            self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = offset
            self._open.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)

    def _forget(self, group_id: str, partition: TopicPartition) -> None:
        _remove(self._committed, group_id, partition)
        producers = self._open.get(group_id, {}).get(partition, set())
        for producer_id in producers:
            _remove(self._pending[producer_id], group_id, partition)
        if producers:
            self._close(group_id, partition)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction marker: commit the producer's pending offsets, or drop them."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            for partition, offset in offsets.items():
                producers = self._open[group_id][partition]
                producers.discard(producer_id)
                if not producers:
                    self._close(group_id, partition)
                if commit:
                    self._take(group_id, partition, offset)

    def _take(self, group_id: str, partition: TopicPartition, offset: CommittedOffset) -> None:
        known = self._committed.setdefault(group_id, {})
        if partition not in known or offset.record_offset > known[partition].record_offset:
            known[partition] = offset

    def _close(self, group_id: str, partition: TopicPartition) -> None:
        of_group = self._open[group_id]
        del of_group[partition]
        if not of_group:
            del self._open[group_id]


def _remove(by_group: OffsetsByGroup, group_id: str, partition: TopicPartition) -> None:
    offsets = by_group.get(group_id, {})
    if offsets.pop(partition, None) is not None and not offsets:
        del by_group[group_id]
