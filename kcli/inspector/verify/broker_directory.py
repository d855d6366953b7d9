"""Checks a broker's log directory as a whole: whether Kafka starts with it, and whether all its partitions exist.

    meta.properties                   the broker does not start if this file is missing, or is that of another node
    directories                       the broker does not start if a directory has a name that is no partition's
    .kafka_cleanshutdown              if this file is missing, the broker was not shut down cleanly, or is running. If
                                      a stop before the last one wrote the file, the file or the whole directory is an
                                      old copy, and Kafka's start recovers no log though it should
    partition.metadata, names         the broker renames the directory of an unknown partition to *-stray at its start
    end of the metadata log           if it ends before the record of the broker's registration, the metadata log is an
                                      old copy, or has lost its end
    partitions of the metadata log    each partition that the metadata log places in this directory must be there

Source: MetaPropertiesEnsemble, LogManager (loadLogs, isStrayReplica), UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
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
from kcli.coordinator.machine import TRANSACTIONS_TOPIC
from kcli.errors import KcliError, StartRefused, UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, Severity, offsets_text
from kcli.inspector.verify.segment_names import other_case
from kcli.inspector.verify.small_files import ANEW, ELECTS, mark_text
from kcli.inspector.verify.surroundings import Surroundings
from kcli.inspector.verify.zeros import zeros_text
from kcli.log.linked_files import linked_files, links_text
from kcli.log.log_directory import REMOTE_INDEX_CACHE, LogDirectory, is_removable_marker, partition_named, unusable
from kcli.log.partition_directory import METADATA_TOPIC_ID, is_garbled, is_other_case, topic_id_of
from kcli.log.partition_view import PartitionView, paths_in
from kcli.log.recovery.identity import Exchanged, unidentified_moves, what_was_exchanged
from kcli.log.recovery.node_directories import meta_of, same_path
from kcli.log.recovery.shared import hard_links_text, shared_text
from kcli.log.source import read_whole
from kcli.log.trash import FILES, deleted_from, is_trash
from kcli.metadata.topic_names import fault
from kcli.metadata_log.known_properties import NEW_CLUSTER_ID, text_of
from kcli.metadata_log.lost import has_replica, marked_broker_epoch, other_topic, why_stray
from kcli.metadata_log.recovery import voters
from kcli.printable import names_text
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.inspector.transaction_state import Unfit
    from kcli.inspector.verify.partition import LogBounds
    from kcli.metadata.partition import Topic
    from kcli.metadata_log.placement import MissingPartition

WRITE_ANEW = "stop the broker, and write the file anew"
OFFSETS_LEAST = 3
"""If at least this number of logs end before their offset in a checkpoint, the checkpoint may be wrong; if fewer do,
these logs are too short."""
ASIDE_LEAST = 3
"""The least number of partitions that one start has left aside, for one finding of all."""
PUT_BACK_MAX = 12
"""The maximum number of files in a trash that one command puts back."""
UNUSABLE = ("meta-properties-missing", "meta-properties-version", "meta-properties-content", "meta-properties-node")
"""The kinds of findings about a meta.properties that Kafka cannot use, or cannot use beside others."""
NOT_PUBLISHED = (
    "Kafka starts, and stops at it when it takes over the partitions of the metadata log (metadata publishing fault): "
    "partitions of any topic then answer NOT_LEADER_OR_FOLLOWER"
)


class StoredPartition(NamedTuple):
    """The directory of a partition in the log directory."""

    path: Path
    topic_id: str | None
    """The topic id in the directory's partition.metadata; None if the file is missing or damaged."""
    is_readable: bool = True
    """Whether partition.metadata is sound or missing, not damaged."""


def stored_partition(path: Path) -> StoredPartition:
    """Return the partition's directory `path` with the topic id in its partition.metadata. Raises UnreadableInput."""
    file = path / FileKind.PARTITION_METADATA
    try:
        topic_id = parse_partition_metadata(read_whole(file)).topic_id if file.exists() else None
    except FormatError:
        return StoredPartition(path, None, is_readable=False)
    return StoredPartition(path, topic_id)


def odd_name(path: Path) -> Iterator[Finding]:
    """Yield a finding if the name of a directory in a log directory keeps Kafka from starting."""
    name = parse_directory(path.name)
    is_known = path.name == REMOTE_INDEX_CACHE or is_removable_marker(path)
    if is_known or (name is not None and name.state != "remote"):
        return
    finding = Finding(
        path=str(path),
        kind="directory-name",
        severity="error",
        expected="<topic>-<partition>, or that and .<unique>-delete, -future or -stray",
        found=f"{path.name!r}: Kafka does not start with a directory of that name",
        action="move it out of the log directory",
        command=_move_out(path),
        refuses_start=True,
    )
    if path.name == FileKind.META_PROPERTIES:
        finding = replace(
            finding,
            expected="a file",
            found="a directory: Kafka does not start with it (Is a directory)",
            action="move it out of the log directory, and verify again: what the file must hold is told then",
            command=f"{_move_out(path)} && kcli verify {next_steps.quoted(path.parent)}",
        )
    if is_nested(path) and not any(parse_directory(each.name) for each in path.parent.iterdir()):
        meta = path / FileKind.META_PROPERTIES
        moves = [(meta, meta.with_name(f"{meta.name}.moved")), (path, next_steps.beside(path))]
        finding = replace(
            finding,
            found=f"{finding.found}; it has the partitions of the log directory that it lies in, and the same node",
            action="move what is in it up, and then the rest out of the log directory",
            command=f"{next_steps.move_up(path)} && {next_steps.move(moves)}",
        )
    yield finding


def is_nested(path: Path) -> bool:
    """Whether a directory and its parent are log directories of one node, as where one was restored a level too deep:
    both have a meta.properties, with the same node.id and cluster.id."""
    if not (path / FileKind.META_PROPERTIES).is_file():
        return False
    one, other = meta_of(path), meta_of(path.parent)
    return one is not None and other is not None and (one.node_id, one.cluster_id) == (other.node_id, other.cluster_id)


def _move_out(path: Path) -> str:
    """Return the command that moves a directory out of the log directory, to a path beside the log directory."""
    return next_steps.move([(path, next_steps.beside(path))])


def duplicates(directory: Path, names: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each directory of a partition beyond its first, such as `orders-00` beside `orders-0`.

    directory: the log directory. names: the names of the directories in it.
    """
    first_names: dict[DirectoryName, str] = {}
    parsed = ((name, parse_directory(name)) for name in names)
    plain = [(name, partition) for name, partition in parsed if partition is not None and not partition.state]
    for name, partition in sorted(plain, key=lambda each: (each[0] != build_directory(each[1]), each[0])):
        first = first_names.setdefault(partition, name)
        if first != name:
            yield Finding(
                path=str(directory / name),
                kind="directory-duplicate",
                severity="error",
                expected="one directory a partition",
                found=f"partition {build_directory(partition)}, which {first} is, too: Kafka does not start with both",
                action="look at which has the partition's records, and move the other out of the log directory",
                command=_move_out(directory / name),
                refuses_start=True,
            )


def shared_files(home: Path) -> tuple[Finding, Callable[[Finding], bool]] | None:
    """Return one finding for all files of segments in a log directory that are hard links of each other, and a
    predicate for its consequences: the findings in these files, and those in other files that follow from batches of
    another log in a shared .log file. A finding that keeps Kafka from starting, or that names lost records, is no
    consequence. Returns None if there are no such files. Raises UnreadableInput."""
    shared = LogDirectory(home).shared_files()
    if not shared:
        return None
    from kcli.inspector.verify.partition import OF_PRODUCERS  # imported only if files are shared

    unshare = 'cp -p --reflink=never -- "$1" "$1.copy" && mv -- "$1.copy" "$1"'
    finding = Finding(
        path=str(shared[0][0]),
        kind="file-shared",
        severity="error",
        expected="a file of its own",
        found=f"{hard_links_text(home, shared)}: what Kafka writes to one, as to the index of an active segment, "
        "changes all",
        action="stop the broker, and make each a file of its own",
        command=f"find {next_steps.quoted(home)} -type f -links +1 -exec sh -c {shlex.quote(unshare)} - {{}} ';'",
    )
    files = {path for paths in shared for path in paths}
    logs = {path for path in files if path.suffix == FileKind.LOG}
    segments, directories = {path.with_suffix("") for path in logs}, {path.parent for path in logs}

    def follows(other: Finding) -> bool:
        path = Path(other.path)
        is_inside = path in files or path.with_suffix("") in segments
        is_later = path.parent in directories and other.kind in OF_PRODUCERS
        stands_alone = other.refuses_start or other.kind == "log-foreign"
        return (is_inside or is_later) and not stands_alone

    return finding, follows


def linked(home: Path) -> Iterator[Finding]:
    """Yield one finding for all files of a log directory that symbolic links give a second path in that directory."""
    try:
        files = linked_files(home)
    except UnreadableInput:  # the checks of the partitions report this error
        return
    if not files:
        return
    first = files[0]
    yield Finding(
        path=str(first.links[0]),
        kind="file-link",
        severity="error" if first.is_written else "warning",
        expected="a file of its own",
        found=links_text(home, files),
        action="stop the broker, and put a copy in place of each link",
        command=next_steps.copy_in_place_of_links(home, [link for each in files for link in each.links]),
        refuses_start=first.refusal is not None,
    )


def shared_directories(home: Path) -> Iterator[Finding]:
    """Yield a finding for each partition's directory that is at the same time the directory of another partition,
    through a symbolic link or a mount."""
    try:
        shared = LogDirectory(home).shared_directories()
    except UnreadableInput:  # the checks of the partitions report this error
        return
    for path, other in shared.items():
        away = "move the link away" if path.is_symlink() else "unmount this one"
        yield Finding(
            path=str(path),
            kind="directory-shared",
            severity="error",
            expected="a directory of its own",
            found=shared_text(home, path, other),
            action=f"stop the broker, {away}, and look for the directory of {path.name}: its records are not here",
            command=_move_out(path) if path.is_symlink() else f"findmnt -T {next_steps.quoted(path)}",
        )


def metadata_topic_id(around: Surroundings) -> Iterator[Finding]:
    """Yield the finding of a metadata log whose partition.metadata has another id than that of the metadata topic."""
    path = around.path / METADATA_DIRECTORY / FileKind.PARTITION_METADATA
    try:
        found = topic_id_of(path.parent) if path.is_file() else None
    except (KcliError, OSError):  # the check of partition.metadata reports this error
        return
    if found not in (None, METADATA_TOPIC_ID):
        yield Finding(
            path=str(path),
            kind="partition-metadata-topic",
            severity="error",
            position=0,
            expected=f"topic id {METADATA_TOPIC_ID}, that of the metadata log in each cluster",
            found=f"topic id {found}: Kafka does not start with it",
            action=WRITE_ANEW,
            command=partition_metadata_command(path, METADATA_TOPIC_ID),
            refuses_start=True,
        )


def others_quorum_state(around: Surroundings) -> Iterator[Finding]:
    """Yield the finding of a quorum-state whose voters lack this node, which has registered as a controller. Kafka does
    not compare them: it takes the voters that are configured, and waits for no leader that is none of these."""
    from kcli.metadata_log.recovery import voters

    path = around.path / METADATA_DIRECTORY / FileKind.QUORUM_STATE
    known, node_id = voters(path.parent), around.node_id
    if known and around.image is not None and node_id in around.image.controllers and node_id not in known:
        yield Finding(
            path=str(path),
            kind="quorum-state-voters",
            severity="warning",
            position=0,
            expected=f"voters with this node, {node_id}, which is a controller",
            found=f"voters {', '.join(map(str, known))}: it is another node's, or an older quorum's",
            action=ELECTS,
        )


def broken_link(path: Path) -> Finding:
    """Return the finding of a broken symbolic link with a partition's name."""
    return Finding(
        path=str(path),
        kind="directory-link",
        severity="error",
        expected="a directory",
        found=f"a symbolic link to {path.readlink()}, where nothing is: Kafka cannot make the directory, and "
        "takes the log directory for failed",
        action="mount the disk that it leads to: without it the partition is not in this log directory",
        command=f"ls -ld {next_steps.quoted(path)}",
    )


def exchanged_directories(around: Surroundings) -> Iterator[tuple[Finding, set[str]]]:
    """Yield a finding for each set of directories of one topic that have certainly exchanged their names, together with
    these names."""
    for each in around.exchanged_names:
        if each.is_certain:
            finding = Finding(
                path=str(each.paths[0]),
                kind="partition-swapped",
                severity="error",
                expected=each.expected,
                found=f"{each.found}: the directories {_relation(each.paths)}",
                action="stop the broker, and give the directories each other's names",
                command=_give_names_back(each.paths),
            )
            yield finding, {path.name for path in each.paths}


def or_exchanged(short: Finding, around: Surroundings) -> Finding:
    """Return `short`, the finding that a log ends too early. If the log's directory may have exchanged names with
    others, the action of the returned finding says so, too: in that case no offsets are lost."""
    directory = Path(short.path).parent
    for each in around.exchanged_names:
        if not each.is_certain and directory in each.paths and short.kind == "log-end":
            names = " and ".join(path.name for path in each.paths)
            action = f"{short.action}. Or {names} have exchanged their names: their recovery points say so"
            return replace(short, action=action)
    return short


def wrong_checkpoints(
    around: Surroundings, logs: Mapping[TopicPartition, LogBounds]
) -> Iterator[tuple[Finding, set[str]]]:
    """Yield a finding for each checkpoint whose offsets are all above the end offsets of their logs, though no other
    file says that the logs were longer; with the finding, the names of the directories of these logs. logs: the bounds
    of each partition's log.

    If only some offsets of a checkpoint are above the ends, these logs have lost records, and nothing is yielded. After
    an unclean shutdown all logs may have lost unsynced bytes: then the finding is yielded only if each offset is at
    least twice the end offset of its log.
    """
    checkpoints = (
        (FileKind.REPLICATION_OFFSETS, around.high_watermarks),
        (FileKind.RECOVERY_POINTS, around.recovery_points),
    )
    for kind, offsets in checkpoints:
        stated = {each: offset for each, offset in offsets.items() if offset > 0 and each in logs}
        alone = {each for each in stated if logs[each].short_by is kind}
        is_everywhere = all(offset > logs[each].end for each, offset in stated.items())
        is_far = all(stated[each] >= 2 * logs[each].end for each in alone)
        if len(alone) < OFFSETS_LEAST or not is_everywhere or not (around.is_clean or is_far):
            continue
        path = around.path / kind
        finding = Finding(
            path=str(path),
            kind="checkpoint-offset",
            severity="warning",
            position=0,
            expected="offsets up to the ends of the logs",
            found=f"all {len(stated):,} offsets above 0 lie behind the ends of the logs, and no index, producer "
            "snapshot, leader epoch or other checkpoint agrees: the file is wrong, or all logs are older",
            action="nothing to do, unless the logs are an old copy: Kafka lowers the offsets to the ends of the logs",
            command=next_steps.show(path),
        )
        yield finding, {f"{each}" for each in alone}


class BrokerDirectory:
    """Checks one log directory.

    partitions: those found in the directory. logs: the bounds of their logs. is_metadata_sound: whether the metadata
    log has no damage, and no sign that its end is lost.
    """

    def __init__(
        self,
        around: Surroundings,
        partitions: Mapping[TopicPartition, StoredPartition],
        logs: Mapping[TopicPartition, LogBounds],
        *,
        is_metadata_sound: bool,
    ) -> None:
        self._around = around
        self._partitions = partitions
        self._logs = logs
        self._is_metadata_sound = is_metadata_sound
        self.exchanged: list[tuple[Finding, set[str]]] = []
        """The findings so far of directories that have exchanged their names, with these names."""

    def findings(self) -> Iterator[Finding]:
        """Yield all findings about the log directory."""
        path = self._around.path
        if not self._partitions:
            yield from self._absent()
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
        if self._around.is_broker and not self._around.has_metadata_log:
            yield Finding(
                path=str(path),
                kind="metadata-log-absent",
                severity="info",
                expected=f"{METADATA_DIRECTORY} here, or in metadata.log.dir",
                found="no metadata log: what partitions there should be is not known, nor how they are cleaned up",
                action="name the directory that has it, too, or the broker's server.properties with --config",
            )
        yield from self._meta_properties(path / FileKind.META_PROPERTIES)
        yield from self._metadata_version()
        for partition, found in sorted(self._partitions.items()):
            yield from self._partition(partition, found)
        yield from self._absent()

    def _metadata_version(self) -> Iterator[Finding]:
        """Yield a finding if the metadata log has a metadata.version that Kafka 4.3 does not know."""
        from kcli.metadata.metadata_version import refused_level

        image, log = self._around.image, self._around.path / METADATA_DIRECTORY
        reason = None if image is None else refused_level(image.metadata_version)
        if reason is not None and log.is_dir():
            yield Finding(
                path=str(log),
                kind="metadata-version",
                severity="error",
                expected="a level of metadata.version that Kafka 4.3 knows",
                found=f"{reason}: it does not start",
                action="start the release that wrote it: a disk of a newer Kafka is not for an older one",
                command=next_steps.dump(log),
                refuses_start=True,
            )

    def _absent_checkpoints(self) -> Iterator[Finding]:
        """Yield findings for missing checkpoints that a clean shutdown writes."""
        for kind, content, action, command in (
            (
                FileKind.RECOVERY_POINTS,
                "recovery points: a start takes all of each log for not flushed",
                "stop the broker; recovery writes the recovery points anew, with --in-place for --dry-run",
                next_steps.recover_log_directory(self._around.path),
            ),
            (
                FileKind.REPLICATION_OFFSETS,
                "high watermarks: consumers see nothing until replicas have agreed again",
                ANEW,
                None,
            ),
        ):
            path = self._around.path / kind
            if not path.exists():
                yield Finding(
                    path=str(path),
                    kind="checkpoint-missing",
                    severity="warning",
                    expected="a file",
                    found=f"no such file, and no {content}",
                    action=action,
                    command=command,
                )

    def _meta_properties(self, path: Path) -> Iterator[Finding]:
        properties, image = self._around.properties, self._around.image
        if not path.exists():
            if self._around.is_broker:
                yield _meta("missing", path, "a file", "no such file: no broker starts with this directory")
            return
        if properties is not None and properties.node_id is None:
            data = read_whole(path)
            mark = mark_text(data)
            found = f"{mark}no version line" if mark else "version 0, or no version line"
            found += ", which is read as version 0: that has broker.id for node.id"
            if not data.strip(b"\0"):
                found = zeros_text(data) or "an empty file"
            yield _meta("version", path, "version=1", f"{found}: Kafka does not start")
            return
        node, configured = None if properties is None else properties.node_id, self._around.node.configured_node_id
        if node is not None and configured is not None:
            yield self._configured_node(path, node, configured)
            return
        if properties is None or image is None or not self._is_metadata_sound or not image.brokers:
            return
        if node not in image.brokers and node not in image.controllers and self._around.is_broker:
            nodes = ", ".join(map(str, sorted(image.brokers)))
            finding = _meta("node", path, f"the id of a node that the metadata log knows: {nodes}", f"node.id {node}")
            owner = self._owner(properties)
            if owner is not None:
                finding = replace(
                    finding,
                    found=f"node.id {node}: Kafka does not start with it: node {owner} has registered the directory.id",
                    action="stop the broker, and write the node.id that the metadata log has",
                    command=next_steps.change(path, f"node.id={node}", f"node.id={owner}"),
                    refuses_start=True,
                )
            yield finding
        elif node in image.brokers and image.brokers[node].directories:
            yield from self._directory_id(path, properties)

    def _configured_node(self, path: Path, node: int, configured: int) -> Finding:
        """Return the finding of the node.id `node` in the meta.properties at `path`, which is not the node.id
        `configured` of server.properties: Kafka does not start with it."""
        finding = replace(
            _meta("node", path, f"node.id {configured}, as server.properties has it", ""),
            found=f"node.id {node}: Kafka does not start with it",
            action=f"look whose directory it is: then write its node.id into server.properties, or {configured} here",
            command=next_steps.show(path),
            refuses_start=True,
        )
        properties = self._around.properties
        if properties is None or self._owner(properties) != configured:
            return finding
        action = f"stop the broker, and write node.id={configured}: that node has registered the directory.id"
        return replace(
            finding,
            action=action,
            command=next_steps.change(path, f"node.id={node}", f"node.id={configured}"),
        )

    def _owner(self, properties: MetaProperties) -> int | None:
        """Return the id of the broker that has registered the directory.id of `properties` in the metadata log. Returns
        None if no broker has, if several have, or if the metadata log is not sound."""
        from kcli.metadata.partition import to_uuid

        image = self._around.image
        if image is None or properties.directory_id is None or not self._is_metadata_sound:
            return None
        directory_id = to_uuid(properties.directory_id)
        owners = [each.id for each in image.brokers.values() if directory_id in each.directories]
        return owners[0] if len(owners) == 1 else None

    def _directory_id(self, path: Path, properties: MetaProperties) -> Iterator[Finding]:
        from kcli.metadata.partition import from_uuid

        image = self._around.image
        assert image is not None, "there is a broker in it"
        known = [from_uuid(each) for each in image.brokers[properties.node_id or 0].directories]
        registered = self._around.registered_directory_id
        if properties.directory_id is None:
            if registered is not None:
                yield self._without_id(path, registered)
        elif properties.directory_id not in known and not self._is_for_metadata_alone:
            expected = f"a directory of node {properties.node_id} in the metadata log: {', '.join(known)}"
            finding = _meta("node", path, expected, f"directory.id {properties.directory_id}")
            if registered is not None:
                effect = (
                    f"the metadata log places the partitions in another: Kafka starts, and {self._outcome(registered)}"
                )
                finding = replace(
                    finding,
                    found=finding.found if unusable(properties) else f"{finding.found}: {effect}",
                    action="stop the broker, and write the id that the metadata log has",
                    command=next_steps.change(
                        path, f"directory.id={properties.directory_id}", f"directory.id={registered}"
                    ),
                )
            yield finding

    @property
    def _is_for_metadata_alone(self) -> bool:
        """Whether the directory has the metadata log and no partition: that of metadata.log.dir, if log.dirs does not
        have it, too. A broker registers only the directories of log.dirs."""
        names = {each.name.topic for each in LogDirectory(self._around.path).partitions()}
        return (self._around.path / METADATA_DIRECTORY).is_dir() and names <= {METADATA_TOPIC}

    def _outcome(self, registered: str) -> str:
        from kcli.metadata_log.placement import outcome_of_other_id

        properties, image = self._around.properties, self._around.image
        assert image is not None, "there is a broker in it"
        return outcome_of_other_id(image, None if properties is None else properties.node_id, registered)

    @property
    def _version_text(self) -> str:
        properties = self._around.properties
        is_old = properties is not None and properties.version == 0
        return ", and version 0, as brokers with ZooKeeper wrote it" if is_old else ""

    def _without_id(self, path: Path, registered: str) -> Finding:
        effect = f"Kafka gives it a new one when it starts, and {self._outcome(registered)}"
        finding = _meta("node", path, f"directory.id {registered}, in which the metadata log places them", "")
        return replace(
            finding,
            found=f"no directory.id{self._version_text}: {effect}",
            action="stop the broker, and append the id that the metadata log has",
            command=next_steps.append(path, f"directory.id={registered}"),
        )

    def _partition(self, partition: TopicPartition, found: StoredPartition) -> Iterator[Finding]:
        topic, number = partition
        image, path = self._around.image, found.path / FileKind.PARTITION_METADATA
        if not found.is_readable or not self._around.is_broker or topic == METADATA_TOPIC:
            return
        right = self._around.topic_id(topic)
        other = None if image is None else other_topic(image, partition, found.topic_id, self._around.node_id)
        renamed = ((each.renamed, each.emptied) for each in self._around.missing if each.renamed is not None)
        if any(each is not None and each.path == found.path for pair in renamed for each in pair):
            return  # the finding of the missing partition names the directory
        if image is not None and other is not None and not has_replica(image, partition, self._around.node_id):
            yield _aside(found.path, other.name)
        elif fault(topic) is not None:
            stray = _stray_finding(found.path, "warning", "a name that no topic can have")
            yield replace(stray, command=_move_out(found.path))
        elif found.topic_id is None and is_trash(found.path):
            yield _trash(found.path)
        elif partition in self._unidentified and self._exchanged(partition):
            return  # the finding of the directory with the topic id of this one names it
        elif found.topic_id is None:
            yield _partition_metadata("missing", path, right, "no such file")
        elif right is not None and found.topic_id != right:
            yield from self._others_id(partition, found, right)
        elif image is not None:
            yield from self._stray(found.path, image.topic(topic), topic, number)

    def _unknown_id(self, partition: TopicPartition, found: StoredPartition, right: str) -> Finding:
        """Return the finding of a directory whose name is that of a topic in the metadata log, but whose
        partition.metadata has a topic id that no topic in the metadata log has.

        right: the id that the metadata log has for the topic in the directory's name. The id in partition.metadata is
        that of a deleted topic, or of a topic whose creation the metadata log lacks. The finding advises to replace
        this id with `right` if it is that id after damage to the file, or only if all this is true: the metadata log
        has no deletion of a topic with this id, the metadata log is sound, the broker was shut down cleanly, and the
        directory's log ends exactly at the recovery point that the checkpoint has for the partition in the directory's
        name. Else the directory must keep its id: the finding advises to move the directory away, or to find out whose
        records it has.
        """
        metadata, around = self._around.metadata, self._around
        assert metadata is not None, "it has the topic"
        expected = f"topic id {right}, that of topic {partition.topic} in the metadata log"
        if is_garbled(found.topic_id or "", right):
            path = found.path / FileKind.PARTITION_METADATA
            is_cased = is_other_case(found.topic_id or "", right)
            how = (
                "in another letter case" if is_cased else "which is damaged: no topic has it, and few characters differ"
            )
            return _partition_metadata("topic", path, right, f"topic id {found.topic_id}, {how}")
        bounds = self._logs.get(partition)
        if found.topic_id not in metadata.removed:
            is_trusted = self._is_metadata_sound and around.is_clean
            if is_trusted and bounds and bounds.end == around.recovery_points.get(partition):
                path = found.path / FileKind.PARTITION_METADATA
                return _partition_metadata("topic", path, right, f"topic id {found.topic_id}")
            finding = _stray_finding(found.path, "error", f"topic id {found.topic_id}, which no topic has")
            action = "check whose records these are: of a deleted topic, or of one that the metadata log lacks"
            return replace(finding, expected=expected, action=action)
        missing = next((each for each in around.missing if each.partition == partition), None)
        finding = _stray_finding(found.path, "error", f"topic id {found.topic_id}, of a topic that was deleted")
        if missing is not None and missing.renamed is not None:
            other = missing.renamed.path
            return replace(
                finding,
                expected=f"{expected}, which {other.name} has",
                action=f"stop the broker, move it out of the log directory, and give {other.name} its name",
                command=next_steps.move([(found.path, next_steps.beside(found.path)), (other, found.path)]),
            )
        reached = 0 if missing is None else missing.reached
        lost = f", and makes an empty one: offsets up to {reached - 1:,} are lost" if reached else ""
        return replace(
            finding,
            expected=expected,
            found=f"{finding.found}{lost}",
            lost_last_offset=reached - 1 if reached else None,
            action="move it out of the log directory, and look for the directory of the topic that has the name now",
            command=_move_out(found.path),
        )

    def _others_id(self, partition: TopicPartition, found: StoredPartition, right: str) -> Iterator[Finding]:
        """Yield the finding of a directory whose topic id, in partition.metadata, is not that of the topic in its name.

        right: the id that the metadata log has for the topic in the directory's name. The directory's name is taken to
        be wrong if the topic with the id in partition.metadata lacks the directory of the partition with this number;
        else the id in partition.metadata is taken to be wrong.
        """
        image, path = self._around.image, found.path / FileKind.PARTITION_METADATA
        assert image is not None, "the metadata log has another id"
        assert found.topic_id is not None, "the directory has one"
        other = self._around.topic_of(found.topic_id)
        whose = f", that of {other}"
        cycle = self._exchanged(partition)
        is_published = why_stray(image, partition.partition, found.topic_id, self._around.node_id) is None
        if other is None:
            yield self._unknown_id(partition, found, right)
        elif not is_published:
            yield _partition_metadata("topic", path, right, f"topic id {found.topic_id}{whose}")
        elif cycle:
            if partition == min(each for each in cycle if each not in self._unidentified):
                paths = [self._partitions[each].path for each in cycle]
                finding = self._exchange(cycle, paths)
                self.exchanged.append((finding, {each.name for each in paths}))
                yield finding
        elif (own := TopicPartition(other, partition.partition)) in self._partitions or not self._is_missing(own):
            home = self._around.node.elsewhere.get(own)
            where = "" if home is None else f" in {home.parent}"
            yield replace(
                _partition_metadata("topic", path, right, f"topic id {found.topic_id}{whose}"),
                found=f"topic id {found.topic_id}{whose}, which has its own directory{where}: {NOT_PUBLISHED}",
            )
        else:
            target = found.path.with_name(f"{other}-{partition.partition}")
            yield replace(
                _partition_metadata("topic", path, right, f"topic id {found.topic_id}{whose}"),
                found=f"topic id {found.topic_id}{whose}, {has_no_directory(target.name)}: {NOT_PUBLISHED}",
                action="stop the broker, and give the directory its name, unless its records are those of "
                f"{found.path.name}: then only the file is wrong",
                command=next_steps.move([(found.path, target)]),
            )

    def _is_missing(self, partition: TopicPartition) -> bool:
        """Return whether this log directory should have a partition and lacks it, and no other log directory of the
        node has it."""
        return any(each.partition == partition for each in self._around.missing)

    def _exchange(self, cycle: Sequence[TopicPartition], paths: Sequence[Path]) -> Finding:
        """Return the finding of directories that have exchanged their topic ids: each directory has the id that belongs
        to the next one in `cycle`, and the last has the id of the first."""
        around = self._around
        ids = dict(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        ends = {each: self._logs[each].end if each in self._logs else None for each in cycle}
        checkpoints = around.high_watermarks, around.recovery_points
        exchanged = what_was_exchanged(
            ids, ends, *checkpoints, is_clean=around.is_clean, unidentified=self._unidentified
        )
        commands = [
            partition_metadata_command(path / FileKind.PARTITION_METADATA, around.topic_id(each.topic))
            for each, path in zip(cycle, paths, strict=True)
        ]
        rename, lacks = _exchanged_topics(paths), ""
        for last in (each for each in cycle if each in self._unidentified):  # one at most
            is_missing, command = self._partitions[last].is_readable, commands[cycle.index(ids[last])]
            outcome = "and becomes a -stray" if is_missing else "and Kafka does not start with the file"
            lacks = f"; {self._partitions[last].path.name} has no topic id, {outcome}"
            rename = replace(
                rename,
                found=f"{rename.found}{lacks}",
                action=f"{rename.action}; then write the {FileKind.PARTITION_METADATA} that has no topic id",
                command=f"{rename.command} && {command}",
                refuses_start=not is_missing,
            )
        if exchanged is Exchanged.NAMES:
            return rename
        rewrite = " && ".join(filter(None, commands))
        names = " and ".join(path.name for path in paths)
        who = f"the topic id of {paths[1].name}: the directories {names} have exchanged {exchanged.value}"
        found = f"{who}: {NOT_PUBLISHED}{lacks}"
        if exchanged is Exchanged.FILES:
            return replace(rename, found=found, action="stop the broker, and write the files anew", command=rewrite)
        action = (
            f"look at the records, and stop the broker; if those of {paths[0].name} are of topic {cycle[0].topic}, "
            f"write the files anew: {rewrite}; if they are of topic {cycle[1].topic}, give the directories their names "
            f"back: {rename.command}"
        )
        return replace(rename, found=found, action=action, command=next_steps.dump(paths[0]))

    def _exchanged(self, partition: TopicPartition) -> list[TopicPartition]:
        """The partitions whose directories have exchanged their names, by the topic ids in the directories, beginning
        with `partition`.

        Each directory should have the name of the next one in the list. Empty if there is no cycle.
        """
        chain = [partition]
        while (following := self._true(chain[-1])) not in (None, chain[0]):
            if following in chain or following not in self._partitions:
                return []
            chain.append(following)
        return chain if following is not None and len(chain) > 1 else []

    def _true(self, partition: TopicPartition) -> TopicPartition | None:
        """Return the partition to which a directory belongs by its topic id, or by `_unidentified`; None if the id, or
        the topic with the id, is not known. partition: the one in the directory's name."""
        return self._unidentified.get(partition) or self._by_id(partition)

    def _by_id(self, partition: TopicPartition) -> TopicPartition | None:
        topic_id = self._partitions[partition].topic_id
        topic = None if topic_id is None else self._around.topic_of(topic_id)
        return None if topic is None else TopicPartition(topic, partition.partition)

    @cached_property
    def _unidentified(self) -> Mapping[TopicPartition, TopicPartition]:
        """The directories without a topic id that may have exchanged their names with others (`unidentified_moves`)."""
        image, node_id = self._around.image, self._around.node_id
        placed = [each for each in self._partitions if image is not None and has_replica(image, each, node_id)]
        moves = {each: other for each in placed if (other := self._by_id(each)) is not None and other != each}
        return unidentified_moves(moves, [each for each in placed if self._partitions[each].topic_id is None])

    def _stray(self, path: Path, known: Topic | None, topic: str, number: int) -> Iterator[Finding]:
        metadata, node = self._around.metadata, self._around.node_id
        assert metadata is not None, "there is an image"
        if known is None:
            is_removed = topic in metadata.removed.values()
            severity: Severity = "warning" if is_removed else "error"
            why = "deleted" if is_removed else "not known to the metadata log"
            yield _stray_finding(path, severity, f"a topic that is {why}")
        elif number not in known.partitions:
            yield _stray_finding(path, "error", f"partition {number} of a topic that has {len(known.partitions)}")
        elif node is not None and node not in known.partitions[number].replicas:
            replicas = ", ".join(map(str, known.partitions[number].replicas))
            yield _stray_finding(path, "warning", f"not a replica of node {node}: they are on {replicas}")

    def _absent(self) -> Iterator[Finding]:
        """Yield findings for missing partitions, which the metadata log places in this log directory."""
        for each in self._around.missing:
            is_link = (self._around.path / each.directory_name).is_symlink()  # broken_link() reports the link
            is_replaced = each.emptied is not None
            if (each.partition not in self._partitions or is_replaced) and not is_link:
                yield self._missing(each)

    def _missing(self, missing: MissingPartition) -> Finding:
        reached, path = missing.reached, self._around.path / missing.directory_name
        expected = "a directory: the metadata log places the partition here"
        if path.is_file():
            return _blocked(path, reached, expected)
        if missing.future is not None and missing.future_end:
            return _future_finding(path, missing.future.path, missing.future_end, reached, expected)
        if missing.renamed is not None:
            other = missing.renamed.path
            state, is_inside = missing.renamed.name.state, other.parent == self._around.path
            fate = "deletes the latter" if state == "delete" else "leaves the latter aside"
            outcome = f"a start makes an empty one, and {fate}"
            back = "give the directory its name back"
            if is_inside and partition_named(other.name) is None:
                outcome = "Kafka does not start with a directory of that name"
            elif not is_inside and not state:
                outcome = "a start makes an empty one"
            elif not is_inside:  # in another log directory of the node
                back = "move it back here, under its name"
            moves = [(other, path)]
            if missing.emptied is not None:
                moves.insert(0, (path, next_steps.beside(path)))
            command, anew = next_steps.move(moves), ""
            topic_id = self._around.topic_id(missing.partition.topic)
            if missing.lacks_topic_id and topic_id is not None:
                anew = f" and its {FileKind.PARTITION_METADATA}, without which Kafka renames it to -stray"
                command += f" && {partition_metadata_command(path / FileKind.PARTITION_METADATA, topic_id)}"
            return Finding(
                path=str(path),
                kind="partition-missing",
                severity="error",
                expected=expected,
                found=f"{'no batch' if missing.emptied else 'no such directory'}: "
                + (
                    f"it has the name {other.name}{other_case(other.name, path.name)}"
                    if is_inside
                    else f"it is {other}"
                ),
                action=f"{outcome}; stop the broker, and {back}{anew}",
                command=command,
            )
        if missing.flat:
            return _flat_finding(path, missing.flat, expected)
        if missing.adrift:
            names = ", ".join(map(str, missing.adrift))
            return Finding(
                path=str(path),
                kind="partition-missing",
                severity="error",
                expected=expected,
                found=f"no such directory: it is one of {names}, which do not say of which partition they are",
                action="look at the records, stop the broker, and give the directory its name back",
                command=next_steps.dump(missing.adrift[0]),
            )
        packed = self._around.packed.get(missing.directory_name)
        if packed is not None:
            return Finding(
                path=str(path),
                kind="partition-missing",
                severity="error",
                expected=expected,
                found=f"no such directory: its files are in {packed.path.name}, which Kafka does not read",
                action="a start makes an empty one; stop the broker, and unpack the archive",
                command=next_steps.unpack(packed, path),
            )
        lost = f": offsets up to {reached - 1:,} are lost" if reached else ""
        unknown = self._around.count_of_unknown
        if unknown:
            others = f"{unknown:,} other log director{'ies' if unknown > 1 else 'y'}"
            return Finding(
                path=str(path),
                kind="partition-missing",
                severity="error" if reached else "warning",
                expected=expected,
                found=f"no such directory here; the node has {others}, from which Kafka opens the partition if it lies "
                "there, else it makes an empty one",
                action="give all log directories, or --config FILE with log.dirs: these are needed to tell",
                command=next_steps.search(self._around.path.parent, missing.directory_name),
            )
        return Finding(
            path=str(path),
            kind="partition-missing",
            severity="error" if reached else "warning",
            expected=expected,
            found=f"no such directory{lost}",
            lost_last_offset=reached - 1 if reached else None,
            action="look for the directory; a start makes an empty one, and fetches what other replicas have",
            command=next_steps.search(self._around.path.parent, missing.directory_name),
        )


def left_aside(around: Surroundings, missing: Sequence[Finding]) -> tuple[Finding, Callable[[Finding], bool]] | None:
    """Return one finding for all partitions that a start has renamed to -stray though the metadata log places them
    here, and a predicate for the findings of the single ones. Returns None if there are fewer than ASIDE_LEAST.

    missing: the findings of missing partitions.
    """
    strays = {
        str(around.path / each.directory_name)
        for each in around.missing
        if each.renamed is not None and each.renamed.name.state == "stray" and each.renamed.path.parent == around.path
    }
    aside = [each for each in missing if each.path in strays]
    if len(aside) < ASIDE_LEAST:
        return None
    served = [each for each in LogDirectory(around.path).partitions() if not each.name.state]
    is_all = all(str(each.path) in strays or each.name.topic == METADATA_TOPIC for each in served)
    such = f"such as that of {Path(aside[0].path).name}"
    how = f"without this {METADATA_DIRECTORY}" if is_all else f"with an older {METADATA_DIRECTORY}, or another one"
    finding = Finding(
        path=str(around.path),
        kind="partition-missing",
        severity="error",
        expected="the directories of partitions that the metadata log places here",
        found=f"{len(aside):,} of these have names with -stray, {such}: a start {how} has left them aside",
        action="a start makes empty ones, and leaves these aside; stop the broker, and give them their names back",
        command=" && ".join(str(each.command) for each in aside),
    )
    paths = {each.path for each in aside}
    return finding, lambda other: other.kind == "partition-missing" and other.path in paths


def _meta(fault: str, path: Path, expected: str, found: str) -> Finding:
    return Finding(
        path=str(path),
        kind=f"meta-properties-{fault}",
        severity="error",
        expected=expected,
        found=found,
        action="restore the file from a backup, or write it anew: version=1, and the cluster.id, node.id and "
        "directory.id of this directory; another node's meta.properties has the cluster.id, the metadata log the rest",
        command=next_steps.dump_metadata(path.parent),
        refuses_start=fault in ("missing", "version"),
    )


def with_known_properties(finding: Finding, around: Surroundings) -> Finding:
    """Return the finding. If it is about a missing or damaged meta.properties, and other files have the ids that belong
    in it, the finding gets the command that writes the file again."""
    path = around.path / FileKind.META_PROPERTIES
    if finding.path != str(path) or finding.kind not in UNUSABLE or around.known_properties is None:
        return finding
    if around.lacks_metadata_log:
        action = "do not start the broker: the metadata log is missing, too; salvage makes both anew"
        return replace(finding, action=action, command=next_steps.salvage_log_directory(around.path))
    known = around.known_properties
    is_new = known.cluster_id == NEW_CLUSTER_ID
    if is_new and any(each != path.absolute() for each in path.absolute().parent.parent.glob(f"*/{path.name}")):
        return finding  # one of these meta.properties may have the cluster.id
    whose = "a new cluster.id, as no file has it and the node is alone in its cluster" if is_new else "the cluster.id"
    return replace(
        finding,
        action=f"restore the file from a backup, or write it anew, with {whose}, and the node's other ids",
        command=next_steps.write_with_random_id(path, text_of(known, "%s"))
        if is_new
        else next_steps.write(path, text_of(known)),
    )


def _blocked(path: Path, reached: int, expected: str) -> Finding:
    """Return the finding of a file that has the name of a partition's directory. path: the file. reached: the
    partition's log end offset in the checkpoints; 0 if they have no entry. expected: the words of the finding about the
    missing directory."""
    lost = f"; {offsets_text(0, reached - 1)} lost with the directory" if reached else ""
    return Finding(
        path=str(path),
        kind="partition-missing",
        severity="error",
        expected=expected,
        found=f"a file: Kafka cannot make the partition's directory, and takes the log directory for failed{lost}",
        lost_last_offset=reached - 1 if reached else None,
        action="look what it is: an archive of the directory can be unpacked in its place; or move it away: Kafka then "
        "makes an empty directory",
        command=_move_out(path),
    )


def _flat_finding(path: Path, files: Mapping[str, Path], expected: str) -> Finding:
    """Return the finding of a missing partition whose files lie flat in the log directory. path: the missing directory.
    files: the files, by the names that they should have in it. expected: the words of the finding."""
    name, first = min(files.items())
    count = f"its {len(files):,} files lie" if len(files) > 1 else "its file lies"
    return Finding(
        path=str(path),
        kind="partition-missing",
        severity="error",
        expected=expected,
        found=f"no such directory: {count} flat in the log directory, as {first.name}: an archive or an export with "
        f"{first.name[len(path.name) : -len(name)]} in place of a slash was unpacked",
        action="a start makes an empty one; stop the broker, make the directory, and move the files into it",
        command=next_steps.make_of_flat(path, first.name[: -len(name)]),
    )


def _future_finding(path: Path, future: Path, end: int, reached: int, expected: str) -> Finding:
    """Return the finding of a missing partition of which a -future directory has the records below offset `end`.

    path: the missing directory. future: the directory with -future. reached: the partition's log end offset in the
    checkpoints; 0 if they have no entry. expected: the words of the finding about the missing directory.
    """
    lost = f"; {offsets_text(end, reached - 1)} lost" if reached > end else ""
    return Finding(
        path=str(path),
        kind="partition-missing",
        severity="error",
        expected=expected,
        found=f"no such directory: {future}, into which it was moved, has the offsets up to {end - 1:,}{lost}",
        lost_first_offset=end if lost else None,
        lost_last_offset=reached - 1 if lost else None,
        action="a start makes an empty one, and deletes the latter; stop the broker, look for the directory, or else "
        "give the latter the name of the partition",
        command=next_steps.move([(future, future.with_name(path.name))]),
    )


def has_no_directory(name: str) -> str:
    """Return the end of a sentence about a topic id, which says that the directory `name` is missing."""
    return f"of which no directory {name} is here"


def partition_metadata_command(path: Path, topic_id: str | None) -> str | None:
    """The command that writes a partition.metadata; None if the topic id is not known."""
    if topic_id is None:
        return None
    return next_steps.write(path, build_partition_metadata(PartitionMetadata(0, topic_id)).decode())


def _relation(paths: Sequence[Path]) -> str:
    """Return the words which say that these directories have exchanged their names."""
    names = " and ".join(path.name for path in paths)
    return f"{names} have each other's names" if len(paths) == 2 else f"{names} have changed names"


def _give_names_back(paths: Sequence[Path]) -> str:
    """The command that gives each of these directories the name of the next one, and the last one that of the first."""
    aside = [(path, path.with_name(f"{path.name}.moved")) for path in paths]
    targets = [*paths[1:], paths[0]]
    return next_steps.move([*aside, *((away, target) for (_, away), target in zip(aside, targets, strict=True))])


def _exchanged_topics(paths: Sequence[Path]) -> Finding:
    """Return the finding of directories that have exchanged their names, by their topic ids: each directory should have
    the name of the next one in `paths`."""
    return Finding(
        path=str(paths[0]),
        kind="partition-swapped",
        severity="error",
        expected=f"the topic id of {paths[0].name} in its partition.metadata",
        found=f"the topic id of {paths[1].name}: the directories {_relation(paths)}: {NOT_PUBLISHED}",
        action="stop the broker, and give the directories each other's names",
        command=_give_names_back(paths),
    )


def _partition_metadata(fault: str, path: Path, topic_id: str | None, found: str) -> Finding:
    expected = "the topic's id" if topic_id is None else f"topic id {topic_id}, as in the metadata log"
    return Finding(
        path=str(path),
        kind=f"partition-metadata-{fault}",
        severity="error",
        position=None if fault == "missing" else 0,
        expected=expected,
        found=f"{found}: Kafka renames the partition to -stray when it starts",
        action=WRITE_ANEW,
        command=partition_metadata_command(path, topic_id),
    )


def foreign_metadata_log(around: Surroundings) -> Iterator[Finding]:
    """Yield the finding of a metadata log that is another cluster's."""
    if around.has_foreign_metadata_log:
        yield Finding(
            path=str(around.path / METADATA_DIRECTORY),
            kind="metadata-log-foreign",
            severity="error",
            expected="the topic ids of the partitions here, and the directory.id in meta.properties",
            found="another cluster's log, which has neither: Kafka starts, and renames the partitions to -stray",
            action="do not start the broker: look for the metadata log of this cluster, also in backups; salvage makes "
            "one from the directories of the partitions, without configurations, ACLs and users",
            command=next_steps.salvage_log_directory(around.path),
        )


def old_metadata_log(
    around: Surroundings, stored: Mapping[TopicPartition, StoredPartition], logs: Mapping[TopicPartition, LogBounds]
) -> Iterator[Finding]:
    """Yield the finding of a metadata log that ends too early: before the registration of the broker that last shut
    down cleanly with this log directory, before the election for a leader epoch that a partition has, or before the
    record that allocates a producer id that a partition has. There is no finding if other voters have the records."""
    bounds = logs.get(TopicPartition(METADATA_TOPIC, 0))
    holder = around.path if bounds is not None or around.metadata is None else around.metadata.home
    home, end = holder / METADATA_DIRECTORY, around.metadata_log_end if bounds is None else bounds.end
    if end is None or any(each != around.node_id for each in voters(home)):
        return
    closed, expected, alone = [around.path], "", ""
    if bounds is not None:
        closed += [each for each in around.node.of_one_node if not around.is_given(each)]
    elif not any(same_path(each, holder) for each in around.node.of_one_node):
        return
    epoch = marked_broker_epoch(closed)
    if epoch > end:
        expected = f"a log beyond offset {epoch:,}, where the broker has registered before it closed the directory"
    elif bounds is not None:
        expected = next(_missing_elections(around, stored, logs), "") or _missing_records(around)
        alone = _restored_alone(around) if expected else ""
    if not expected:
        return
    yield Finding(
        path=str(max(home.glob(f"*{FileKind.LOG}"), default=home)),
        kind="metadata-log-end",
        severity="error",
        expected=expected,
        found=f"it ends at offset {end:,}: it is older than the partitions, or its end is lost{alone}",
        action="look for the newer metadata log: topics that were created since, and their ids, are not in this one; "
        "salvage makes a copy with producer ids and leader epochs beyond those of the partitions",
        command=next_steps.recover_log_directory(holder),
    )


def _restored_alone(around: Surroundings) -> str:
    from kcli.metadata_log.last_used import restored_alone

    try:
        return restored_alone(around.path)
    except UnreadableInput:  # another check reports this error
        return ""


OF_OLD_DIRECTORY = ("transaction-state-end", "transaction-open", "partition-missing", "partition-stray")
"""The kinds of findings that follow from a log directory that is older than its broker's metadata log."""


def old_marker(around: Surroundings) -> Iterator[tuple[Finding, Callable[[Finding], bool]]]:
    """Yield the finding of a clean-shutdown marker that was not written by the broker's last stop: an earlier stop has
    written it, or it was made in another way. With it comes a predicate that returns whether another finding is its
    consequence. Raises UnreadableInput."""
    if not around.is_broker or not around.is_clean:
        return
    from kcli.metadata_log.stale_marker import blank_marker, stale_marker

    path = around.path / FileKind.CLEAN_SHUTDOWN
    image = None if around.has_foreign_metadata_log else around.image
    blank = blank_marker(around.path, image, around.node_id)
    if blank is not None:
        yield _blank(around, path, blank), lambda _: False
        return
    if around.image is None or image is None:
        return
    stale = stale_marker(around.path, around.image, around.node_id, around.node.of_one_node[1:])
    if stale is None:
        return
    finding = Finding(
        path=str(path),
        kind="clean-shutdown-old",
        severity="warning",
        expected=f"broker epoch {stale.registered:,}, of the broker's last registration in the metadata log",
        found=stale.reason,
        action="stop the broker, and remove the file: Kafka then recovers the logs from their recovery points on",
        command=next_steps.remove(path),
    )
    if not stale.is_older:
        yield _leaving_torn(around, finding), lambda _: False
        return
    yield (
        replace(
            finding,
            severity="error",
            action="do not start the broker: look for the newer state of the log directory, on other disks and in "
            "backups; where there is none, records are lost, unless other replicas have them",
            command=_search_newer(around),
        ),
        lambda other: other.kind in OF_OLD_DIRECTORY,
    )


def _blank(around: Surroundings, path: Path, reason: str) -> Finding:
    """Return the finding of a clean-shutdown marker of 0 bytes that no orderly stop has left."""
    finding = Finding(
        path=str(path),
        kind="clean-shutdown-old",
        severity="warning",
        expected="the broker epoch of an orderly stop, or no such file after a crash",
        found=reason,
        action="stop the broker, and remove the file: Kafka then recovers the logs from their recovery points on",
        command=next_steps.remove(path),
    )
    return _leaving_torn(around, finding)


def _leaving_torn(around: Surroundings, finding: Finding) -> Finding:
    """Return the finding of a clean-shutdown marker that should go: an error if a start with the marker leaves damage
    at the ends of logs, which a start without it would cut off."""
    finding, torn = _harming(around, finding), sorted(around.torn_ends)
    if not torn:
        return finding
    ends = f"end of {torn[0]}" if len(torn) == 1 else f"ends of {names_text(torn, 2)}"
    return replace(finding, severity="error", found=f"{finding.found}, and leaves the damage at the {ends} where it is")


def _harming(around: Surroundings, finding: Finding) -> Finding:
    """Return the finding of a clean-shutdown marker that should go; where a start without it would lose sound batches,
    the finding advises salvage, which mends the logs in a copy that gets no marker."""
    if not around.harmed_without_marker:
        return finding
    action = "salvage what is sound: a start without the file would lose sound batches"
    command = next_steps.salvage_log_directory(around.path)
    return replace(finding, severity="error", action=action, command=command)


def _search_newer(around: Surroundings) -> str:
    """The command that finds log directories with the directory.id of this one; if that id is not known, all log
    directories below the parent directory of this one."""
    properties = around.properties
    if properties is None or properties.directory_id is None:
        return next_steps.search(around.path.absolute().parent, FileKind.META_PROPERTIES)
    return next_steps.search_log_directory(properties.directory_id)


def transaction_findings(
    around: Surroundings,
    logs: Collection[TopicPartition],
    harmed: Collection[TopicPartition],
    unfit: Callable[[Sequence[Path]], Iterable[Unfit]],
) -> Iterator[Finding]:
    """Yield a finding for each contradiction between the transaction coordinator's records and the producers of
    partitions.

    logs: the partitions in this log directory. harmed: the partitions with errors of their own, which may have caused
    the contradictions: these partitions are left out. unfit: returns the contradictions in the log directories of a
    broker.
    """
    states = {each for each in logs if each.topic == TRANSACTIONS_TOPIC}
    others = around.node.others
    if states & set(harmed) or not (states or others):
        return
    for each in unfit(sorted([around.path, *others])):
        if each.partition not in logs or each.partition in harmed:
            continue
        is_open = each.kind == "transaction-open"
        command = next_steps.transactions(around.path, is_open=is_open)
        advice = "abort it" if is_open else f"look for the newer copy of {TRANSACTIONS_TOPIC}"
        if each.mended is not None and not around.is_replicated(each.partition):
            advice += ", or salvage: it writes a record with which the producer goes on, in a copy"
            command = next_steps.salvage_log_directory(around.path)
        yield Finding(
            path=str(around.path / str(each.partition)),
            kind=each.kind,
            severity="warning" if each.transactional_id and not each.error else "error",
            offset=each.offset,
            expected=each.expected,
            found=each.found,
            action=f"{each.outcome}: {advice}",
            command=command,
        )


def _without_begin(home: Path, refused: StartRefused) -> Finding:
    """Return the finding that the metadata log begins above all snapshots. A whole snapshot that only has
    another name gets its own back. home: the directory of the metadata log. refused: why
    Kafka does not start."""
    from kcli.metadata_log.renamed_log import renamed_snapshot

    finding = Finding(
        path=str(home / refused.file),
        kind="metadata-log-start",
        severity="error",
        expected="the records from offset 0 on, or a snapshot of those that are missing",
        found=f"{refused.reason}: Kafka does not start with it",
        action="look for the snapshot; salvage keeps the metadata of all records that are there, in a copy",
        command=next_steps.salvage_log_directory(home.parent),
        refuses_start=True,
    )
    named = [(path, home / name) for name, content in renamed_snapshot(home).items() for path in paths_in(content)]
    if not named:
        return finding
    action = f"{named[0][0].name} is that snapshot, and whole: stop the node, and give it its name"
    return replace(finding, action=action, command=next_steps.move(named))


def contradicting_record(home: Path) -> Iterator[Finding]:
    """Yield at most one finding: that the metadata log begins above the offsets of all snapshots; or else its first
    record that contradicts the records before it. home: the directory __cluster_metadata-0."""
    from kcli.log.recovery.loader import LoadOptions
    from kcli.log.recovery.metadata_start import NO_SNAPSHOT
    from kcli.log.recovery.plan import plan
    from kcli.metadata_log.replay import start_refusal

    try:
        without_begin = plan(home, LoadOptions(now_ms=0, is_metadata=True)).refused
        if without_begin is not None and without_begin.reason.endswith(NO_SNAPSHOT):
            yield _without_begin(home, without_begin)
            return
        refused = start_refusal(home, PartitionView(home).original)
    except KcliError:  # a file that cannot be read is a finding of its own
        return
    if refused is not None:
        yield Finding(
            path=refused.path,
            kind="metadata-record",
            severity="error",
            expected="a record that agrees with those before it",
            found=f"{refused.reason}: Kafka ends at it when it starts",
            action="salvage keeps the metadata of all records in a snapshot, with which Kafka starts",
            command=next_steps.salvage_log_directory(home.parent),
            refuses_start=True,
        )


def _missing_records(around: Surroundings) -> str:
    """Return the text of a finding that says which partition is newer than the metadata log; "" if no partition is
    newer, or if another controller may have the missing records."""
    from kcli.metadata_log.last_used import newer_than

    image = around.image
    if image is None or any(each != around.node_id for each in image.controllers):
        return ""
    newer = next(newer_than(image, LogDirectory(around.path).partitions(), around.node_id), None)
    return "" if newer is None else f"a log that is as new as the partitions: {newer}"


def _missing_elections(
    around: Surroundings, stored: Mapping[TopicPartition, StoredPartition], logs: Mapping[TopicPartition, LogBounds]
) -> Iterator[str]:
    """Yield a text for each partition whose last batch has a higher leader epoch than the metadata log has for the
    partition.

    Yields nothing if the metadata log knows the topic ids of all directories: then the end of the metadata log is
    probably not lost, and a log is in the wrong directory.
    """
    metadata = around.metadata
    if metadata is None:
        return
    ids = {found.topic_id for partition, found in stored.items() if partition.topic != METADATA_TOPIC}
    if all(each is None or each in metadata.removed or around.topic_of(each) is not None for each in ids):
        return
    for partition, found in sorted(stored.items()):
        topic, bounds = metadata.image.topic(partition.topic), logs.get(partition)
        state = None if topic is None else topic.partitions.get(partition.partition)
        if state is None or bounds is None or found.topic_id != around.topic_id(partition.topic):
            continue
        if bounds.leader_epoch > state.leader_epoch:
            yield (
                f"leader epoch {bounds.leader_epoch} of {found.path.name}, which its last batch has: the metadata log "
                f"knows {state.leader_epoch}"
            )


def without_topic_id(finding: Finding) -> Finding:
    """Return a finding about partition.metadata without the command that writes the topic id of the metadata log into
    the file, because that id may be wrong. Any other finding is returned as it is."""
    if not finding.kind.startswith("partition-metadata-"):
        return finding
    command = next_steps.recover_log_directory(Path(finding.path).parents[1])
    return replace(finding, action="mend the metadata log first: it has the topic ids", command=command)


def _trash(path: Path) -> Finding:
    """Return the finding of a file manager's trash, whose name Kafka takes for that of a partition. The command puts
    back what was deleted from partitions' directories and is missing there, if that is not too much."""
    deleted = [*deleted_from(path)]
    missed = [(one, other) for one, other in deleted if other.parent.is_dir() and not os.path.lexists(other)]
    such = f", with {os.path.relpath(deleted[0][1], path.parent)}" if deleted else ""
    such += f" and {len(deleted) - 1:,} more" if len(deleted) > 1 else ""
    finding = replace(
        _stray_finding(path, "warning", f"the trash of a file manager{such}"),
        expected="the directories of partitions",
        action="move it out of the log directory",
        command=_move_out(path),
    )
    if not missed:
        return finding
    return replace(
        finding,
        action="stop the broker, put back what the partitions lack, and move the trash out of the log directory",
        command=next_steps.move(missed) if len(missed) <= PUT_BACK_MAX else next_steps.look(path / FILES),
    )


def _aside(path: Path, topic: str) -> Finding:
    """Return the finding of a directory that has the id of topic `topic`, while its name is that of a partition that
    the metadata log does not place on this node."""
    return Finding(
        path=str(path),
        kind="partition-stray",
        severity="warning",
        expected="a partition that the metadata log places on this node",
        found=f"the topic id of {topic}, which has its own directory: Kafka leaves this one as it is, and serves none",
        action="check whose records these are, and move it out of the log directory",
        command=_move_out(path),
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
