"""What salvage takes from a check of all files: .log files under other names, offsets that no .log file has, and the
indexes and leader-epoch checkpoints that contradict the batches beside them. Below the recovery point, Kafka's start
does not rebuild such files."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from formats.file_name import FileKind, build, parse
from kcli.errors import StartRefused, UnreadableInput
from kcli.inspector.verify import misplaced_logs
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.gaps import Gaps
from kcli.inspector.verify.lost_offsets import SERVED
from kcli.inspector.verify.segment_names import INDEX_KINDS, file_beside, log_name
from kcli.inspector.verify.split_logs import content_of
from kcli.inspector.verify.surroundings import Surroundings
from kcli.inspector.verify.swap_file import INDEXES
from kcli.inspector.verify.verification import LogsFound, Verification
from kcli.log.inflated import inflated_size
from kcli.log.log_directory import is_log_directory
from kcli.log.partition_view import Content, FileRange, InflatedRange
from kcli.log.recovery.others_checkpoints import OthersCheckpoint, names_absent_partitions
from kcli.log.recovery.salvage import Checked, LeftOut
from kcli.protocol.topic_partition import TopicPartition

KINDS = ("index-", "timeindex-", "txnindex-", "checkpoint-", "more-findings")
"""The prefixes of the kinds of findings about the content of such an index or checkpoint; other kinds are about a
file's name, type or permissions."""


def checked(directory: Path, server: Mapping[str, str]) -> dict[Path, Checked]:
    """Verify all files, and return the facts that salvage needs from this, by the directory of the partition.

    directory: a partition's, or a log directory, all of whose .log files are read. server: the entries of
    server.properties. Files that cannot be read are left out. Wrong indexes and checkpoints are included even if verify
    reports only the cause of their findings, such as a .log file that was cut: Kafka's start does not correct them in
    that case either.
    """
    contradictions: list[Finding] = []

    def note(finding: Finding) -> None:
        if finding.severity != "info" and finding.kind.startswith(KINDS):
            contradictions.append(finding)
        elif finding.kind == "swap-index":
            log = Path(finding.path)
            contradictions.extend(replace(finding, path=str(file_beside(log, kind))) for kind in INDEXES)

    verification = Verification([directory], server=server, tell=note)
    for finding in verification.findings():
        note(finding)
    logs = verification.logs_found
    contradicted: dict[Path, set[str]] = {}
    for path in (Path(finding.path) for finding in contradictions):
        right = logs.get(path.parent, LogsFound()).right_names.get(path.name)
        name = path.name if right is None else build(right)
        if _is_rebuildable(name):
            contradicted.setdefault(path.parent, set()).add(name)
    return {
        path: _checked(path, contradicted.get(path, set()), logs.get(path, LogsFound()))
        for path in {*contradicted, *logs}
    }


class Misplaced(NamedTuple):
    """The .log files that lie in the directory of another partition. told: each as a StartRefused with its path
    relative to the log directory and the reason; unlike other StartRefused, these do not keep Kafka from starting.
    of_partition: the paths of those that a partition lacks, by the name of its directory. foreign: the names of those
    that lie in a directory, by its name."""

    told: Sequence[StartRefused] = ()
    of_partition: Mapping[str, Sequence[Path]] = {}
    foreign: Mapping[str, Collection[str]] = {}


def misplaced(directory: Path, server: Mapping[str, str], *, salvage: bool) -> Misplaced:
    """Return the .log files that lie in the directory of another partition.

    directory: a partition's, or a log directory. server: the entries of server.properties. salvage: whether to tell
    only of those that salvage keeps there.
    """
    is_home = is_log_directory(directory)
    home = directory if is_home else directory.absolute().parent
    if not is_log_directory(home):
        return Misplaced()
    around = misplaced_logs.find_around(Surroundings(home, server, [directory]))
    found = []
    for finding in around.kept if salvage else around.findings:
        path = Path(finding.path)
        if finding.severity != "error":
            continue
        if is_home or path.parent.name == directory.absolute().name:
            outcome = "Kafka starts, and serves another partition's records here"
            found.append(StartRefused(str(path.relative_to(home)), f"{finding.found}: {outcome}"))
    of_partition = {} if salvage else {name: [*logs.values()] for name, logs in around.found.items()}
    return Misplaced(found, of_partition, around.foreign)


class KnownTopics:
    """Facts about topics that a recovery needs from the metadata log, which is read at the first call of a method.
    Several threads may call the methods.

    directory: a partition's, or a log directory. server: the entries of server.properties.
    """

    def __init__(self, directory: Path, server: Mapping[str, str]) -> None:
        is_home = is_log_directory(directory)
        self._home = directory if is_home else directory.absolute().parent
        self._directory, self._server = directory, server
        self._lock = Lock()
        self._around: Surroundings | None = None

    def keeps_all(self, partition: TopicPartition) -> bool:
        """Return whether a partition's topic was never compacted; False if that is not known."""
        with self._lock:
            around = self._looked_up()
            return around is not None and around.gaps(partition) is Gaps.LOSS

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 if that is not known."""
        with self._lock:
            around = self._looked_up()
            return 0 if around is None else around.partition_count(topic)

    def unserved(self, explained: Collection[str]) -> Iterator[StartRefused]:
        """Yield the coordinators' topics of which groups or transactional ids are unknown to Kafka, as their records
        lie in other partitions than the one in which it looks. None of them keeps Kafka from starting. explained: the
        topics with other damage that explains such records, unless the topic has grown."""
        from kcli.inspector.verify.unserved_records import OUTCOMES, copied_text, unserved_here, unserved_text

        with self._lock:
            around = self._looked_up()
        for each, names in () if around is None else unserved_here(around, explained):
            first = min(each.places[name].directory for name in names)
            copied = self.copied_groups() if each.what == "group" else []
            more = f"; {copied_text(each, copied)}" if copied else ""
            yield StartRefused(first.name, f"{unserved_text(each, names)}: {OUTCOMES[each.what]}{more}")

    def copied_groups(self) -> list[str]:
        """Return the groups whose committed offsets salvage appends to the partition in which Kafka looks for them."""
        from kcli.inspector.verify.unserved_records import copied_groups

        with self._lock:
            around = self._looked_up()
            return [] if around is None else copied_groups(around)

    @property
    def of_others(self) -> Mapping[FileKind, OthersCheckpoint]:
        """The checkpoints of the log directory that another broker wrote."""
        with self._lock:
            is_suspect = is_log_directory(self._home) and names_absent_partitions(self._home)
            around = self._looked_up() if is_suspect else None
            return {} if around is None else around.of_others

    def _looked_up(self) -> Surroundings | None:
        """Return the Surroundings of the log directory, by its files and its metadata log; None if there is no log
        directory."""
        if not is_log_directory(self._home):
            return None
        if self._around is None:
            self._around = Surroundings(self._home, self._server, [self._directory])
        return self._around


def _checked(directory: Path, contradicted: set[str], logs: LogsFound) -> Checked:
    renamed = {build(right): directory / name for name, right in logs.right_names.items()}
    renamed |= {log_name(each.base_offset): each.path for each in logs.renamed if each.is_as_stored}
    renamed |= logs.elsewhere
    made: dict[str, Content] = {}
    damaged: list[LeftOut] = []
    for each in logs.renamed:
        name, path, archive = log_name(each.base_offset), each.path, each.archive
        if each.others:
            made[name] = content_of(each.files)
        elif archive is not None:
            try:
                made[name] = Content((InflatedRange(path, 0, inflated_size(path, archive), archive=archive),))
            except UnreadableInput as error:
                damaged.append(LeftOut(os.path.relpath(path, directory), f"it is {name}, compressed: {error.reason}"))
    for name, finding in logs.appended.items():
        made[name] = Content((FileRange(directory / name, 0, finding.position or 0),))
        damaged.append(LeftOut(name, str(finding.found).removesuffix(SERVED)))
    stems = {name.removesuffix(FileKind.LOG) for name in made}  # the indexes of these logs are unchecked
    contradicted = {name for name in contradicted if name.partition(".")[0] not in stems}
    for each in logs.renamed:
        if each.holes:  # the found file lacks offsets, but its indexes are those of the whole .log file
            contradicted |= {f"{each.base_offset:020}{kind}" for kind in INDEX_KINDS}
    if logs.outdated:  # the start that made these empty logs has also truncated the leader epochs
        contradicted.add(FileKind.LEADER_EPOCHS)
    others = {**logs.foreign, **logs.twins, **logs.replaced}
    foreign = [LeftOut(name, what) for name, what in others.items() if name.endswith(FileKind.LOG)]
    removed = {*logs.outdated, *others}
    unused = [*damaged, *foreign]
    return Checked(contradicted, renamed, removed, made, unused, logs.lost, logs.moved, last_epoch=logs.last_epoch)


def _is_rebuildable(file: str) -> bool:
    name = parse(file)
    return name is not None and not name.state and name.kind in (*INDEX_KINDS, FileKind.LEADER_EPOCHS)
