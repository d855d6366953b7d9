"""Log directories and metadata logs for tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from formats.file_name import METADATA_DIRECTORY
from kcli.broker.metadata.alone import LoneMetadataLog
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.format import format_directories
from kcli.broker.process.clock import Clock
from kcli.log.disk import Disk
from kcli.metadata.features import first_levels
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.snapshot import snapshot
from kcli.metadata_log.records import Replayed, read_batches
from kcli.metadata_log.snapshot_file import read_snapshot
from tests.conftest import GOLDEN

NOW_MS = 1_795_000_000_000
KAFKAS_LEVELS = {**first_levels(), "share.version": 1, "streams.version": 1}
"""The features that `kafka-storage format` of 4.3 writes."""
KRAFT_DIRECTORIES = [
    "kraft/controller-100",
    "kraft/controller-101",
    "kraft/controller-102",
    "kraft/broker-1",
    "kraft/broker-2",
    "kraft/broker-3",
    "kraft/dynamic-quorum",
]


class FakeClock(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms


def open_metadata(directory: Path, **more: Any) -> LoneMetadataLog:
    """Open the metadata log of a log directory, and format it where needed. more: `disk`, `clock`, settings."""
    disk: Disk = more.pop("disk", None) or Disk()
    clock: Clock = more.pop("clock", None) or FakeClock()
    found = format_directories([directory], now_ms=clock.now_ms(), levels=KAFKAS_LEVELS, disk=disk)
    return LoneMetadataLog(
        directory,
        node_id=found.node_id,
        directory_id=found.directory_ids[directory],
        config=MetadataLogConfig(**more),
        disk=disk,
        clock=clock,
    )


def golden_copy(name: str, to: Path) -> Path:
    """Return a writable copy of a log directory of real Kafka."""
    copy = to / name.replace("/", "-")
    shutil.copytree(GOLDEN / name, copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o600)
    return copy


def crash_copy(directory: Path, to: Path) -> Path:
    """Return the directory as a crash of the process would leave it now: the page cache survives."""
    shutil.copytree(directory, to)
    return to


def segments(directory: Path) -> list[Path]:
    """Return the segments of the metadata log in a log directory."""
    return sorted((directory / METADATA_DIRECTORY).glob("*.log"))


def batches(directory: Path) -> list[Replayed]:
    """Return all batches of the metadata log in a log directory."""
    return [batch for path in segments(directory) for batch in read_batches(path)]


def names(records: Iterable[Record]) -> list[str]:
    """The names of records."""
    return [name for name, _, _ in records]


def state(image: MetadataImage) -> list[str]:
    """Return the image as text: the records of its snapshot, sorted, also a node's features."""

    def text(record: Record) -> str:
        name, version, value = record
        features = sorted(value.get("features", ()), key=lambda each: str(each["name"]))
        return repr((name, version, {**value, "features": features} if features else value))

    return sorted(map(text, snapshot(image)))


def image_of_snapshot(path: Path) -> MetadataImage:
    """The image that a snapshot makes."""
    image = MetadataImage()
    for batch in read_snapshot(path):
        for name, _, value in batch.records:
            image.apply(name, value, 0)
    return image


def untimed(data: bytes) -> bytes:
    """Return batches without what differs between runs: timestamps, and the checksums that cover them."""
    out = bytearray(data)
    at = 0
    while at < len(out):
        out[at + 17 : at + 21] = bytes(4)
        out[at + 27 : at + 43] = bytes(16)
        at += 12 + int.from_bytes(out[at + 8 : at + 12])
    return bytes(out)


def config(name: str, value: str, topic: str = "t") -> Record:
    """A topic's configuration."""
    return "ConfigRecord", 0, {"resourceType": 2, "resourceName": topic, "name": name, "value": value}


def topic_records(name: str, topic_id: str, directory_id: str, partitions: int = 1) -> list[Record]:
    """Return the records of a topic whose partitions are on node 1."""
    shared = {"topicId": topic_id, "replicas": [1], "isr": [1], "leader": 1, "directories": [directory_id]}
    found: list[Record] = [("TopicRecord", 0, {"name": name, "topicId": topic_id})]
    return found + [
        ("PartitionRecord", 2, {**shared, "partitionId": i, "leaderEpoch": 0, "partitionEpoch": 0})
        for i in range(partitions)
    ]
