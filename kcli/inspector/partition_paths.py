"""The partitions in log directories, for commands that look at several at once; what cannot be read is named.

A name of a partition that is no directory (a link in a circle or to nowhere, a file) is one that cannot be read, not
one that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from formats.file_name import parse_directory
from kcli.errors import UnreadableInput
from kcli.group_view import Place
from kcli.log.log_directory import LogDirectory


@dataclass
class PartitionPaths:
    """paths: where partitions are; named: those that have a name here, readable or not; unreadable: what is not."""

    paths: dict[Place, Path] = field(default_factory=dict)
    named: set[Place] = field(default_factory=set)
    unreadable: list[UnreadableInput] = field(default_factory=list)

    @classmethod
    def of(cls, directories: Iterable[Path]) -> PartitionPaths:
        """Those of log directories, without what Kafka is about to delete or move. Raises UnreadableInput where none of
        the directories can be read."""
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
        """The partitions of a topic, by number. Raises UnreadableInput where they are there and none can be read."""
        found = {number: path for (name, number), path in sorted(self.paths.items()) if name == topic}
        if not found and any(name == topic for name, _ in self.named):
            raise next(each for each in self.unreadable if (place := _place(Path(each.path))) and place[0] == topic)
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


def _place(path: Path) -> Place | None:
    name = parse_directory(path.name)
    return None if name is None or name.state else (name.topic, name.partition)
