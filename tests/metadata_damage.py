"""Damage to the metadata log in a copy of a golden log directory, for tests."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from formats.batch_writer import write_batch
from formats.kernels.columns import BatchRow
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource
from kcli.metadata.image import Record
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.records import encode
from kcli.metadata_log.replay import read_records
from tests.broker.metadata_dirs import open_metadata
from tests.conftest import GOLDEN

SET = "codecs/data"
LOG = "__cluster_metadata-0/00000000000000000000.log"
NEW_ID = "AAECAwQFBgcICQoLDA0ODw"


def copied(to: Path, name: str = SET) -> Path:
    """Copy a golden log directory below `to`."""
    shutil.copytree(GOLDEN / name, to / "logs")
    for path in (to / "logs").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return to / "logs"


def byte_of(directory: Path, message: str, name: object) -> int:
    """Return a byte in the batch of the metadata log with such a record."""
    offset = next(at for at, kind, value in read_records(directory / LOG) if kind == message and name in value.values())
    row = next(row for row in batches(directory) if row.base_offset <= offset <= row.last_offset)
    return row.position + row.size - 5


def batch_around(directory: Path, position: int) -> tuple[int, int]:
    """Return the first byte of the metadata log's batch around a byte, and that of the next batch."""
    row = next(row for row in batches(directory) if row.position <= position < row.position + row.size)
    return row.position, row.position + row.size


def batches(directory: Path) -> list[BatchRow]:
    """Return the batches of the metadata log, which is undamaged."""
    return rows_of(directory / LOG)


def rows_of(log: Path) -> list[BatchRow]:
    """The batches of a sound segment."""
    source = FileSource(log)
    found = []
    for part in read_segment(source):
        assert isinstance(part, Window), "nothing is damaged yet"
        found += [BatchRow._make(part.batches.row(i)) for i in range(part.batches.count)]
    source.close()
    return found


def flip(file: Path, position: int) -> None:
    """Flip a bit."""
    data = bytearray(file.read_bytes())
    data[position] ^= 4
    file.write_bytes(data)


def created_again(directory: Path, topic: str, topic_id: str = NEW_ID) -> None:
    """Delete a topic in the metadata log, and create it again with the same partitions, another id, and the former
    leader epochs, since tests give the old logs to the new topic."""

    async def append() -> None:
        metadata = open_metadata(directory)
        known = metadata.image.topics[topic]
        records: list[Record] = [("RemoveTopicRecord", 0, {"topicId": from_uuid(known.id)})]
        records.append(("TopicRecord", 0, {"name": topic, "topicId": topic_id}))
        for number, state in known.partitions.items():
            node = {"replicas": state.replicas, "isr": state.replicas, "leader": state.replicas[0]}
            epochs = {"leaderEpoch": state.leader_epoch, "partitionEpoch": 0, "leaderRecoveryState": 0}
            where = {"partitionId": number, "topicId": topic_id, "directories": [*map(from_uuid, state.directories)]}
            records.append(("PartitionRecord", 1, {**where, **node, **epochs}))
        await metadata.append(records)
        await metadata.close()

    asyncio.run(append())


def appended(directory: Path, *records: Record) -> None:
    """Append a batch of records to the metadata log, which may contradict earlier ones."""
    last = batches(directory)[-1]
    values = ((None, encode(each)) for each in records)
    batch = write_batch(values, last.max_timestamp, base_offset=last.last_offset + 1, leader_epoch=last.leader_epoch)
    with (directory / LOG).open("ab") as log:
        log.write(batch)


def partitions(directory: Path) -> set[str]:
    """Return the directories of partitions, without that of the metadata log."""
    return {each.name for each in directory.iterdir() if each.is_dir() and not each.name.startswith("__cluster")}


def strays(directory: Path) -> set[str]:
    """The partitions that were renamed to -stray."""
    return {name.split(".")[0] for name in partitions(directory) if name.endswith("-stray")}
