"""The partitions in several log directories, and those that cannot be read.

A file, a broken link or a circular link with the name of a partition counts as a partition that cannot be read, not as
a missing one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from formats.file_name import parse_directory
from kcli.errors import UnreadableInput
from kcli.log.log_directory import LogDirectory
from kcli.protocol.topic_partition import TopicPartition


@dataclass
class PartitionPaths:
    """The partitions in log directories. paths: directories by partition. named: all partitions, readable or not.
    unreadable: an error for each unreadable partition."""

    paths: dict[TopicPartition, Path] = field(default_factory=dict)
    named: set[TopicPartition] = field(default_factory=set)
    unreadable: list[UnreadableInput] = field(default_factory=list)

    @classmethod
    def of(cls, directories: Iterable[Path]) -> PartitionPaths:
        """The partitions of log directories, without those that Kafka is about to delete or move.

        Raises UnreadableInput if none of the log directories can be read.
        """
        found = cls()
        readable = 0
        for directory in directories:
            try:
                found._add(LogDirectory(directory))
                readable += 1
            except UnreadableInput as error:
                found.unreadable.append(error)
        if not readable and found.unreadable:
            raise found.unreadable[0]
        return found

    def of_topic(self, topic: str) -> dict[int, Path]:
        """Return the directories of a topic's readable partitions, by number; {} if the topic has no partition here.
        Raises UnreadableInput if the topic has partitions, but none of them is readable."""
        found = {number: path for (name, number), path in sorted(self.paths.items()) if name == topic}
        if not found and any(name == topic for name, _ in self.named):
            raise next(each for each in self.unreadable if (place := _place(Path(each.path))) and place.topic == topic)
        return found

    def _add(self, directory: LogDirectory) -> None:
        partitions = [each for each in directory.partitions() if not each.name.state]
        unreadable = directory.unreadable()
        self.paths |= {each.partition: each.path for each in partitions}
        self.named |= {each.partition for each in partitions}
        for error in unreadable:
            place = _place(Path(error.path))
            if place is not None:
                self.named.add(place)
                self.unreadable.append(error)


def _place(path: Path) -> TopicPartition | None:
    name = parse_directory(path.name)
    return None if name is None or name.state else TopicPartition(name.topic, name.partition)
