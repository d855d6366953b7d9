"""Keeps a node from starting if the directory of one of its partitions has a partition.metadata with the id of another
topic.

Kafka 4.3 starts on such a directory, fails to apply the metadata ("Error applying topics delta"), and serves neither
this partition nor those that come after it. A broker that trusted the directory's name alone would serve one topic's
records as another topic's. Kafka does not notice a wrong id in a directory whose name is no partition of this broker.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from formats.file_name import METADATA_TOPIC, FileKind
from kcli.broker.log_dirs.directories import LogDir, LogDirsRefused
from kcli.errors import KcliError
from kcli.log.partition_directory import topic_id_of
from kcli.protocol.topic_partition import TopicPartition


def check_topic_ids(directory: LogDir, owner_of: Callable[[TopicPartition, str | None], str | None]) -> None:
    """Compare the topic ids in a log directory with the names of its partitions. Nothing is written.

    owner_of(partition by the directory's name, topic id): returns the name of another topic that has this id; None if
    there is no such topic, or no such partition on this broker. Raises LogDirsRefused, UnreadableInput.
    """
    for each in directory.files.partitions():
        topic = each.name.topic
        if each.name.state not in ("", "future") or topic == METADATA_TOPIC:
            continue
        owner = None
        with suppress(OSError, KcliError):  # opening the log raises the same error, and reports it
            owner = owner_of(each.partition, topic_id_of(each.path))
        if owner is not None:
            raise LogDirsRefused(_message(each.path, topic, owner, directory.path))


def _message(path: Path, topic: str, owner: str, home: Path) -> str:
    command = shlex.join(["kcli", "verify", str(home)])
    return (
        f"{path / FileKind.PARTITION_METADATA} has the id of topic {owner}, and the directory the name of {topic}: "
        f"Kafka starts, and serves only some partitions. No partition was opened. Next: {command}"
    )
