"""The two log directories of one broker, for tests: a golden log directory with its partitions divided."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify.small_files import OFFSET_CHECKPOINTS
from kcli.metadata.image import Record
from kcli.metadata.partition import from_uuid
from tests.broker.metadata_dirs import open_metadata
from tests.metadata_damage import copied

SECOND_ID = "AAECAwQFBgcICQoLDA0ODw"
MOVED = ("mixed-0", "rdk-zstd-0", "crafted-0")
"""The partitions that lie in the second directory."""


def two_directories(to: Path) -> tuple[Path, Path, Path]:
    """Two log directories below `to`, whose metadata log places each partition where it lies, and a server.properties
    that names both."""
    one, two = copied(to), to / "second"
    two.mkdir()
    first_id = _id_of(one)
    for each in one.iterdir():
        if each.is_file():
            shutil.copy(each, two)
    meta = (one / FileKind.META_PROPERTIES).read_text()
    (two / FileKind.META_PROPERTIES).write_text(meta.replace(first_id, SECOND_ID))
    for name in MOVED:
        shutil.move(one / name, two / name)
    for home in (one, two):
        _keep_own(home)
    asyncio.run(_place(one, first_id))
    server = to / "server.properties"
    server.write_text(f"log.dirs={one},{two}\nmetadata.log.dir={one}\n")
    return one, two, server


def _id_of(directory: Path) -> str:
    text = (directory / FileKind.META_PROPERTIES).read_text()
    return text.split("directory.id=")[1].split()[0]


def _keep_own(home: Path) -> None:
    """Leave in the checkpoints of a log directory only the partitions that lie in it."""
    for kind in OFFSET_CHECKPOINTS:
        path = home / kind
        if path.exists():
            lines = path.read_text().splitlines()[2:]
            kept = [line for line in lines if (home / "-".join(line.split(" ")[:2])).is_dir()]
            path.write_text("\n".join(["0", str(len(kept)), *kept, ""]))


async def _place(home: Path, first_id: str) -> None:
    metadata = open_metadata(home)
    node = next(iter(metadata.image.brokers))
    broker = metadata.image.brokers[node]
    change = {"brokerId": node, "brokerEpoch": broker.epoch, "logDirs": [first_id, SECOND_ID]}
    records: list[Record] = [("BrokerRegistrationChangeRecord", 2, change)]
    for topic in metadata.image.topics.values():
        for number in topic.partitions:
            name = f"{topic.name}-{number}"
            place = {"partitionId": number, "topicId": from_uuid(topic.id)}
            directory = SECOND_ID if name in MOVED else first_id
            records.append(("PartitionChangeRecord", 1, {**place, "directories": [directory]}))
    await metadata.append(records)
    await metadata.close()
