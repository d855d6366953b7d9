"""What no broker writes into the offset checkpoints of a log directory, and with which Kafka starts.

    cut         the file ends after its version: Kafka reads it as one without entries
    repeated    a partition has several entries: Kafka takes the last
    negative    an offset below 0: Kafka takes the entry for that of the log's start

Kafka writes the files anew, without them, while it runs or at its stop. Source: OffsetCheckpointFile.read, LogManager,
LogCleanerManager.cleanableOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formats.checkpoint import OffsetEntry, parse_offsets
from formats.file_name import FileKind
from kcli.protocol.topic_partition import TopicPartition

FIRST_LINE = 3
"""The number of the line with the first entry."""
FROM_START = {
    FileKind.RECOVERY_POINTS: "Kafka takes none of the log for flushed",
    FileKind.REPLICATION_OFFSETS: "Kafka begins with the log start offset as high watermark",
    FileKind.LOG_START_OFFSETS: "Kafka lets the log begin with its first segment",
    FileKind.CLEANER_OFFSETS: "the cleaner starts again from the log's start",
}
"""What Kafka does with an offset below 0, by checkpoint."""


CUT = "the version alone: the file was cut, or edited; Kafka reads it as a checkpoint without entries"


def is_cut(data: bytes) -> bool:
    """Whether a checkpoint, which can be parsed, ends after its version."""
    return bool(data) and len(data.splitlines()) < FIRST_LINE - 1


def repeated(entries: Sequence[OffsetEntry]) -> dict[TopicPartition, str]:
    """The partitions that have several entries, each with these entries and the one that Kafka takes, in words."""
    lines: dict[TopicPartition, list[tuple[int, int]]] = {}
    for number, (topic, partition, offset) in enumerate(entries, FIRST_LINE):
        lines.setdefault(TopicPartition(topic, partition), []).append((number, offset))
    return {name: _all_text(name, each) for name, each in lines.items() if len(each) > 1}


def _all_text(name: TopicPartition, lines: Sequence[tuple[int, int]]) -> str:
    shown = ", ".join(f"{offset:,} in line {number:,}" for number, offset in lines[-3:])
    more = f"{len(lines) - 3:,} more, " if len(lines) > 3 else ""
    return f"{name} again: {more}{shown}; Kafka takes the last, {lines[-1][1]:,}"


def negative_text(kind: FileKind, name: TopicPartition, offset: int) -> str:
    """An entry with an offset below 0, or of a partition below 0, and what Kafka does with it, in words."""
    return f"{name}: {offset:,}: {FROM_START[kind] if offset < 0 else 'no partition has this number'}"


def odd_entries(kind: FileKind, data: bytes) -> Iterator[str]:
    """Yield, in words, that a checkpoint with these bytes ends after its version; each partition with several entries
    or a negative offset, and what Kafka does with it. Raises FormatError."""
    entries = parse_offsets(data)
    if is_cut(data):
        yield CUT
    yield from repeated(entries).values()
    last = {TopicPartition(topic, partition): offset for topic, partition, offset in entries}
    for name, offset in last.items():
        if offset < 0 or name.partition < 0:
            yield negative_text(kind, name, offset)
