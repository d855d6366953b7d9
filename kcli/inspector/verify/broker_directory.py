"""A broker's log directory as a whole: does Kafka start with it, and is every partition there that should be?

    meta.properties                   without it, or with another node's, no broker starts
    directories                       one whose name is no partition's keeps a broker from starting
    .kafka_cleanshutdown              not there: the last stop was no orderly one, or a broker is running
    partition.metadata, names         a partition that the metadata log does not know is renamed to -stray at a start
    partitions of the metadata log    those of this directory must be in it

Source: MetaPropertiesEnsemble, LogManager (loadLogs, isStrayReplica), UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import FormatError
from formats.file_name import (
    METADATA_DIRECTORY,
    METADATA_TOPIC,
    DirectoryName,
    FileKind,
    build_directory,
    parse_directory,
)
from formats.properties import MetaProperties, PartitionMetadata, build_partition_metadata, parse_partition_metadata
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.log_directory import REMOTE_INDEX_CACHE, Partition
from kcli.log.source import read_whole
from kcli.metadata.topic_names import fault

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.inspector.verify.partition import LogBounds
    from kcli.metadata.partition import Topic

WRITE_ANEW = "stop the broker, and write the file anew"


class Here(NamedTuple):
    """A partition's directory that was found in the log directory."""

    path: Path
    topic_id: str | None
    """As its partition.metadata says; None where there is no such file."""
    is_readable: bool = True
    """Is partition.metadata one that can be read, or not there?"""


def here(path: Path) -> Here:
    """A partition's directory. Raises UnreadableInput."""
    file = path / FileKind.PARTITION_METADATA
    try:
        topic_id = parse_partition_metadata(read_whole(file)).topic_id if file.exists() else None
    except FormatError:
        return Here(path, None, is_readable=False)
    return Here(path, topic_id)


def odd_name(path: Path) -> Iterator[Finding]:
    """A directory in a log directory whose name keeps Kafka from starting."""
    name = parse_directory(path.name)
    if path.name == REMOTE_INDEX_CACHE or (name is not None and name.state != "remote"):
        return
    yield Finding(
        path=str(path),
        kind="directory-name",
        severity="error",
        expected="<topic>-<partition>, or that and .<unique>-delete, -future or -stray",
        found=f"{path.name!r}: Kafka does not start with a directory of that name",
        action="move it out of the log directory",
        command=_move_out(path),
    )


def _move_out(path: Path) -> str:
    """Out of the log directory, to beside it."""
    return next_steps.move([(path, next_steps.beside(path))])


def duplicates(directory: Path, names: Iterable[str]) -> Iterator[Finding]:
    """Directories in a log directory whose names say the same partition: `orders-0` and `orders-00`."""
    seen: dict[DirectoryName, str] = {}
    parsed = ((name, parse_directory(name)) for name in names)
    plain = [(name, says) for name, says in parsed if says is not None and not says.state]
    for name, says in sorted(plain, key=lambda each: (each[0] != build_directory(each[1]), each[0])):
        first = seen.setdefault(says, name)
        if first != name:
            yield Finding(
                path=str(directory / name),
                kind="directory-duplicate",
                severity="error",
                expected="one directory a partition",
                found=f"partition {build_directory(says)}, which {first} is, too: Kafka does not start with both",
                action="look at which has the partition's records, and move the other out of the log directory",
                command=_move_out(directory / name),
            )


def broken_link(path: Path) -> Finding:
    """A symbolic link with a partition's name that leads nowhere."""
    return Finding(
        path=str(path),
        kind="directory-link",
        severity="error",
        expected="a directory",
        found=f"a symbolic link to {path.readlink()}, where nothing is",
        action="mount the disk that it leads to: without it the partition is not in this log directory",
        command=f"ls -ld {next_steps.quoted(path)}",
    )


def swapped(
    around: Surroundings, here: Mapping[Partition, Here], logs: Mapping[Partition, LogBounds]
) -> Iterator[tuple[Finding, tuple[str, str]]]:
    """Directories of one topic that have each other's names, with those: each log ends where the other ended, by the
    recovery points."""
    points = around.recovery_points
    odd = {
        (topic, points[topic, number], bounds.end): number
        for (topic, number), bounds in logs.items()
        if (topic, number) in here and points.get((topic, number), bounds.end) != bounds.end
    }
    for (topic, point, end), number in odd.items():
        other = odd.get((topic, end, point), number)
        if number < other:
            one, two = here[topic, number].path, here[topic, other].path
            pairs = [(path, path.with_name(f"{path.name}.moved")) for path in (one, two)]
            finding = Finding(
                path=str(one),
                kind="partition-swapped",
                severity="error",
                expected=f"a log up to {point:,}, the recovery point of {one.name}",
                found=f"one up to {end:,}, the recovery point of {two.name}; that ends at {point:,}: they are swapped",
                action="stop the broker, and give the directories each other's names",
                command=next_steps.move([*pairs, (pairs[0][1], two), (pairs[1][1], one)]),
            )
            yield finding, (one.name, two.name)


class BrokerDirectory:
    """The checks of one log directory; `partitions` are those found in it."""

    def __init__(self, around: Surroundings, partitions: Mapping[Partition, Here], *, is_metadata_sound: bool) -> None:
        self._around = around
        self._partitions = partitions
        self._is_metadata_sound = is_metadata_sound

    def findings(self) -> Iterator[Finding]:
        """All of them."""
        path = self._around.path
        if not self._partitions:
            return
        if self._around.is_broker and not (path / FileKind.CLEAN_SHUTDOWN).exists():
            yield Finding(
                path=str(path),
                kind="unclean-shutdown",
                severity="info",
                expected=FileKind.CLEAN_SHUTDOWN,
                found="no such file: the broker did not end in order, or is running",
                action="nothing to do: Kafka checks the logs from their recovery points on when it starts",
            )
        elif self._around.is_broker:
            yield from self._absent_checkpoints()
        if self._around.is_broker and self._around.metadata is None:
            yield Finding(
                path=str(path),
                kind="metadata-log-absent",
                severity="info",
                expected=f"{METADATA_DIRECTORY} here, or in metadata.log.dir",
                found="no metadata log: what partitions there should be is not known, nor how they are cleaned up",
                action="name the directory that has it, too, or the broker's server.properties with --config",
            )
        yield from self._meta_properties(path / FileKind.META_PROPERTIES)
        for partition, found in sorted(self._partitions.items()):
            yield from self._partition(partition, found)
        yield from self._absent()

    def _absent_checkpoints(self) -> Iterator[Finding]:
        """An orderly stop writes both."""
        for kind, what in (
            (FileKind.RECOVERY_POINTS, "recovery points: a start takes all of each log for not flushed"),
            (FileKind.REPLICATION_OFFSETS, "high watermarks: consumers see nothing until replicas have agreed again"),
        ):
            path = self._around.path / kind
            if not path.exists():
                yield Finding(
                    path=str(path),
                    kind="checkpoint-missing",
                    severity="warning",
                    expected="a file",
                    found=f"no such file, and no {what}",
                    action="stop the broker; recovery writes the recovery points anew",
                    command=next_steps.recover_log_directory(self._around.path),
                )

    def _meta_properties(self, path: Path) -> Iterator[Finding]:
        properties, image = self._around.properties, self._around.image
        if not path.exists():
            if self._around.is_broker:
                yield _meta("missing", path, "a file", "no such file: no broker starts with this directory")
            return
        if properties is not None and properties.node_id is None:
            yield _meta(
                "version",
                path,
                "version=1",
                "version 0, or no version line, which is read as version 0: that "
                "has broker.id for node.id, and Kafka does not start",
            )
            return
        if properties is None or image is None or not self._is_metadata_sound or not image.brokers:
            return
        node = properties.node_id
        if node not in image.brokers and node not in image.controllers and self._around.is_broker:
            nodes = ", ".join(map(str, sorted(image.brokers)))
            yield _meta("node", path, f"the id of a node that the metadata log knows: {nodes}", f"node.id {node}")
        elif node in image.brokers and properties.directory_id is not None and image.brokers[node].directories:
            yield from self._directory_id(path, properties)

    def _directory_id(self, path: Path, properties: MetaProperties) -> Iterator[Finding]:
        from kcli.metadata.partition import from_uuid

        image = self._around.image
        assert image is not None, "there is a broker in it"
        known = [from_uuid(each) for each in image.brokers[properties.node_id or 0].directories]
        if properties.directory_id not in known:
            expected = f"a directory of node {properties.node_id} in the metadata log: {', '.join(known)}"
            yield _meta("node", path, expected, f"directory.id {properties.directory_id}")

    def _partition(self, partition: Partition, found: Here) -> Iterator[Finding]:
        topic, number = partition
        image, path = self._around.image, found.path / FileKind.PARTITION_METADATA
        if not found.is_readable or not self._around.is_broker or topic == METADATA_TOPIC:
            return
        right = self._around.topic_id(topic)
        if fault(topic) is not None:
            stray = _stray_finding(found.path, "warning", "a name that no topic can have")
            yield replace(stray, command=_move_out(found.path))
        elif found.topic_id is None:
            yield _partition_metadata("missing", path, right, "no such file")
        elif right is not None and found.topic_id != right:
            other = self._around.topic_of(found.topic_id)
            whose = "" if other is None else f", that of {other}"
            yield _partition_metadata("topic", path, right, f"topic id {found.topic_id}{whose}", is_others=bool(other))
        elif image is not None:
            yield from self._stray(found.path, image.topic(topic), topic, number)

    def _stray(self, path: Path, known: Topic | None, topic: str, number: int) -> Iterator[Finding]:
        metadata, node = self._around.metadata, self._around.node_id
        assert metadata is not None, "there is an image"
        if known is None:
            is_removed = topic in metadata.removed
            severity: Severity = "warning" if is_removed else "error"
            why = "deleted" if is_removed else "not known to the metadata log"
            yield _stray_finding(path, severity, f"a topic that is {why}")
        elif number not in known.partitions:
            yield _stray_finding(path, "error", f"partition {number} of a topic that has {len(known.partitions)}")
        elif node is not None and node not in known.partitions[number].replicas:
            replicas = ", ".join(map(str, known.partitions[number].replicas))
            yield _stray_finding(path, "warning", f"not a replica of node {node}: they are on {replicas}")

    def _absent(self) -> Iterator[Finding]:
        """Partitions that the metadata log places here and that are not."""
        image, node = self._around.image, self._around.node_id
        if image is None or not self._around.is_broker:
            return
        if node not in image.brokers and len(image.brokers) == 1:
            (node,) = image.brokers  # meta.properties is wrong, which is told
        for topic in image.topics.values():
            for number, partition in topic.partitions.items():
                where = (topic.name, number)
                is_link = (self._around.path / f"{topic.name}-{number}").is_symlink()  # it is told where it leads
                if where in self._partitions or is_link or node not in partition.replicas:
                    continue
                if self._is_in(partition.directory(node), where):
                    yield self._missing(where)

    def _is_in(self, directory: UUID, partition: Partition) -> bool:
        """Is that directory's id this directory's? A node's only directory need not be named; where this one's id is
        not known, its checkpoints say what was in it."""
        from kcli.metadata.partition import MIGRATING, UNASSIGNED, to_uuid

        properties, image = self._around.properties, self._around.image
        if properties is None or properties.directory_id is None:
            return self._reached(partition) > 0
        if directory not in (MIGRATING, UNASSIGNED):
            return directory == to_uuid(properties.directory_id)
        broker = None if image is None else image.brokers.get(properties.node_id or 0)
        return broker is not None and len(broker.directories) == 1

    def _reached(self, partition: Partition) -> int:
        """How far the partition's log had come, by the checkpoints."""
        return max(self._around.high_watermarks.get(partition, 0), self._around.recovery_points.get(partition, 0))

    def _missing(self, partition: Partition) -> Finding:
        name = f"{partition[0]}-{partition[1]}"
        reached = self._reached(partition)
        lost = f": offsets up to {reached - 1:,} are lost" if reached else ""
        return Finding(
            path=str(self._around.path / name),
            kind="partition-missing",
            severity="error" if reached else "warning",
            expected="a directory: the metadata log places the partition here",
            found=f"no such directory{lost}",
            lost_last_offset=reached - 1 if reached else None,
            action="look for the directory; a start makes an empty one, and fetches what other replicas have",
            command=next_steps.search(self._around.path.parent, name),
        )


def _meta(what: str, path: Path, expected: str, found: str) -> Finding:
    return Finding(
        path=str(path),
        kind=f"meta-properties-{what}",
        severity="error",
        expected=expected,
        found=found,
        action="restore the file from a backup, or write it anew: version=1, and the cluster.id, node.id and "
        "directory.id of this directory; another node's meta.properties has the cluster.id, the metadata log the rest",
        command=next_steps.dump_metadata(path.parent),
    )


def partition_metadata_command(path: Path, topic_id: str | None) -> str | None:
    """The command that writes a partition.metadata, where the topic's id is known."""
    if topic_id is None:
        return None
    return next_steps.write(path, build_partition_metadata(PartitionMetadata(0, topic_id)).decode())


def _partition_metadata(what: str, path: Path, topic_id: str | None, found: str, *, is_others: bool = False) -> Finding:
    """is_others: the id is that of another topic, and so may be the records."""
    expected = "the topic's id" if topic_id is None else f"topic id {topic_id}, as in the metadata log"
    action = WRITE_ANEW
    if is_others:
        action = "look at the records: the directory may have another's name, or the file be another's"
    return Finding(
        path=str(path),
        kind=f"partition-metadata-{what}",
        severity="error",
        position=None if what == "missing" else 0,
        expected=expected,
        found=f"{found}: Kafka renames the partition to -stray when it starts",
        action=action,
        command=next_steps.dump(path.parent) if is_others else partition_metadata_command(path, topic_id),
    )


def _stray_finding(path: Path, severity: Severity, found: str) -> Finding:
    return Finding(
        path=str(path),
        kind="partition-stray",
        severity=severity,
        expected="a partition that the metadata log places on this node",
        found=f"{found}: Kafka renames the directory to -stray when it starts",
        action="check the directory's name and whose it is",
        command=next_steps.dump(path),
    )
