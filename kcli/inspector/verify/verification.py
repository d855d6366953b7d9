"""A verification of the files and directories that the user has named: this module checks files one by one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from formats.file_name import METADATA_DIRECTORY, FileKind, FileName, parse
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.partition import LogBounds, LogVerifier, no_log
from kcli.inspector.verify.segment_names import INDEX_KINDS, SegmentFiles
from kcli.inspector.verify.unread_file import unread_file
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.inspector.verify.directory import DirectoryVerifier
    from kcli.inspector.verify.renamed_logs import RenamedLog
    from kcli.log.recovery.batch_epochs import RightEpoch

METADATA_LOG_END = "metadata-log-end"
"""The kind of the finding that a node's metadata log is older than the partitions of the log directories, or has lost
its end."""
KRAFT = FileKind.KRAFT_SNAPSHOT
KRAFT_SNAPSHOTS = (KRAFT, FileKind.BOOTSTRAP)
MARKERS = (FileKind.CLEAN_SHUTDOWN, FileKind.LOCK)

Logs = dict[TopicPartition, LogBounds]


class LogsFound(NamedTuple):
    """The .log files of a partition that have other names or lie in other directories, and those of other partitions in
    its directory.

    renamed: the partition's .log files under other names. lost: the first and last offset of each range that no .log
    file under its own name has; the last is None if it is not known. right_names: by odd name, the name that Kafka
    would give. outdated: files that Kafka's start has made under such a right name. foreign, moved: by name, the files
    copied and moved from other partitions, each with the other partition's file in words. twins: the same for the files
    of a directory that is a copy of another partition's. elsewhere: by right name, the partition's .log files in other
    directories. replaced: by name, the files of segments that the cleaner has replaced,
    each with words for what it is. appended: by name, the finding that a .log file has only batches of another
    partition from a byte on. last_epoch: the last batch of the log, if a bit of its leader epoch was flipped.
    """

    renamed: Sequence[RenamedLog] = ()
    lost: Sequence[tuple[int, int | None]] = ()
    right_names: Mapping[str, FileName] = MappingProxyType({})
    outdated: Collection[str] = ()
    foreign: Mapping[str, str] = MappingProxyType({})
    moved: Mapping[str, str] = MappingProxyType({})
    twins: Mapping[str, str] = MappingProxyType({})
    elsewhere: Mapping[str, Path] = MappingProxyType({})
    replaced: Mapping[str, str] = MappingProxyType({})
    appended: Mapping[str, Finding] = MappingProxyType({})
    last_epoch: RightEpoch | None = None


class Verification:
    """A verification of files and directories.

    server: the entries of server.properties, of which log.cleanup.policy, metadata.log.dir and log.dirs matter. config:
    the path of server.properties, which is added to the suggested commands. advance: called with the number of bytes
    read. tell: a function that is called with each finding that is not yielded because it is a consequence of another
    one.

    Attributes that `findings` sets: files, bytes: the number and size of files of kinds that Kafka writes. unclean: the
    number of log directories without a clean shutdown. unknown: the number of log directories without a metadata log.
    is_partial: whether the metadata log places partitions in a log directory that is not given.
    unreadable: the files that could not be read, which do not end the verification. logs_found: the .log files found
    under other names or in other directories, by the directory of the partition. metadata_damage: path and byte of the
    first damage in a metadata log, by the log directory that holds it. metadata_homes: for each log directory without a
    metadata log the one that holds the node's.
    """

    def __init__(
        self,
        paths: list[Path],
        *,
        server: Mapping[str, str] | None = None,
        config: Path | None = None,
        advance: Callable[[int], None] = lambda _: None,
        tell: Callable[[Finding], None] = lambda _: None,
    ) -> None:
        self.paths = paths
        self.tell = tell
        self.server = server or {}
        self._config = config
        self.advance = advance
        self.files = 0
        self.bytes = 0
        self.unclean = 0
        self.unknown = 0
        self.is_partial = False
        self.unreadable: list[UnreadableInput] = []
        self.logs_found: dict[Path, LogsFound] = {}
        self.metadata_damage: dict[Path, tuple[str, int | None]] = {}
        self.metadata_homes: dict[Path, Path] = {}
        self._without_files: list[Path] = []
        self._directories: DirectoryVerifier | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield all findings, path by path; in a partition, causes come first."""
        reported: set[Path] = set()
        for each in self._of_node(self._findings()) if len(self.paths) > 1 else self._findings():
            if each.kind == "meta-properties-missing":
                reported.add(Path(each.path).parent)
            if self._config is None or each.command is None:
                yield each
            else:
                yield replace(each, command=next_steps.with_config(each.command, self._config))
        if self._without_files:
            from kcli.log.recovery.node_directories import same_path

            self.unreadable += (
                UnreadableInput(str(path), "no file in it that Kafka writes")
                for path in self._without_files
                if not any(same_path(path, each) for each in reported)
            )

    def _of_node(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings. If the metadata log of a log directory is damaged, findings in the node's other log
        directories may follow from this damage, and are counted in its finding. They are known only when all
        directories are verified, so the findings of the damage come last."""
        from kcli.inspector.verify.causes import Causes

        held = []
        for each in findings:
            is_of_metadata_log = Path(each.path).parent.name == METADATA_DIRECTORY and each.severity != "info"
            if is_of_metadata_log or may_follow_from_metadata(each):
                held.append(each)
            else:
                yield each
        causes, alone = Causes(self.tell), []
        for each in held:
            home = Path(each.path).parent.parent
            if self.metadata_damage.get(home) == (each.path, each.position):
                causes.add(each, partial(self._follows_elsewhere, home), is_of_many=True)
            else:
                alone.append(each)
        yield from causes.settle(alone)

    def _follows_elsewhere(self, home: Path, finding: Finding) -> bool:
        """Whether a finding in another log directory may follow from damage in the metadata log of `home`."""
        from kcli.log.recovery.node_directories import same_path

        if finding.kind == METADATA_LOG_END:
            return same_path(Path(finding.path).parent.parent, home)
        holder = self.metadata_homes.get(Path(finding.path).parent)
        return may_follow_from_metadata(finding) and holder is not None and same_path(holder, home)

    def _findings(self) -> Iterator[Finding]:
        for number, path in enumerate(self.paths):
            if any(os.path.realpath(path) == os.path.realpath(each) for each in self.paths[:number]):
                continue  # the findings of the directory say so, if both paths are log directories of the broker
            if os.path.isdir(path):  # noqa: PTH112 (Path.is_dir raises where it may not look)
                yield from self._directory(path)
            else:
                yield from self.guarded(path, self._file)
        yield from map(unread_file, (each for each in self.unreadable if each.is_denied or each.is_disk_error))

    def _directory(self, path: Path) -> Iterator[Finding]:
        # imported only if a directory is verified, as it imports kcli.log.recovery, too, which takes time
        from kcli.inspector.verify.directory import DirectoryVerifier

        before = self.files, len(self.unreadable)
        if self._directories is None:
            self._directories = DirectoryVerifier(self)
        yield from self._directories.findings(path)
        if (self.files, len(self.unreadable)) == before:
            self._without_files.append(path)

    def guarded(self, path: Path, verify: Callable[[Path], Iterator[Finding]]) -> Iterator[Finding]:
        """Yield the findings of `verify(path)`. If the file, or one beside it, cannot be read, or a running broker has
        deleted it since, it is added to `unreadable`."""
        try:
            yield from verify(path)
        except UnreadableInput as error:
            self.unreadable.append(error)
        except OSError as error:
            self.unreadable.append(UnreadableInput.of(Path(error.filename or path), error))

    def count(self, size: int) -> None:
        """Count a file of `size` bytes."""
        self.files += 1
        self.bytes += size

    # files that the user has named

    def _file(self, path: Path) -> Iterator[Finding]:
        name = parse(path.name)
        size = status_of(path).st_size
        if name is None:
            raise UnreadableInput(str(path), "not named like any file that Kafka writes")
        self.count(size)
        kind = name.kind
        if kind is FileKind.LOG:
            segment = SegmentFiles(name.base_offset or 0, {kind: path})
            yield from LogVerifier([segment], [], self.advance, is_whole=False).findings()
        elif kind in INDEX_KINDS:
            yield from self._index_alone(path, name)
        elif kind is FileKind.PRODUCER_SNAPSHOT:
            yield from LogVerifier([], [(0, path)], self.advance).findings()
        elif kind in KRAFT_SNAPSHOTS:
            yield from self.kraft_snapshot(path)
        elif kind not in MARKERS:
            yield from self.small_file(path, kind, {}, None, [])

    def _index_alone(self, path: Path, name: FileName) -> Iterator[Finding]:
        """Yield the findings in an index, checked against its .log file, without those in the .log file itself."""
        log = path.with_name(path.name.replace(name.kind, FileKind.LOG))
        if not log.exists():
            yield no_log(path, log)
            return
        segment = SegmentFiles(name.base_offset or 0, {FileKind.LOG: log, name.kind: path})
        for finding in LogVerifier([segment], [], self.advance, is_whole=False).findings():
            if finding.path == str(path):
                yield finding

    def kraft_snapshot(self, path: Path) -> Iterator[Finding]:
        """Yield the findings in a snapshot of the metadata log, or in bootstrap.checkpoint. Raises UnreadableInput."""
        from kcli.inspector.verify.kraft_snapshot import (  # imported late: it loads schemas
            verify_bootstrap,
            verify_kraft_snapshot,
        )

        verify = verify_bootstrap if path.name == FileKind.BOOTSTRAP else verify_kraft_snapshot
        yield from verify(path, self.advance)

    def small_file(
        self,
        path: Path,
        kind: FileKind,
        logs: Logs,
        bounds: LogBounds | None,
        epochs: list[tuple[int, int]],
    ) -> Iterator[Finding]:
        """Yield the findings in a checkpoint, in meta.properties or in another small file. logs: the bounds of the
        partitions' logs in the same log directory. bounds, epochs: the bounds of the log in the same directory, and the
        first offset of each of its leader epochs. Raises UnreadableInput."""
        from kcli.inspector.verify import small_files

        content, findings = small_files.check(kind, path)
        yield from findings
        if content is None:
            return
        if kind in small_files.EPOCH_CHECKPOINTS:
            yield from small_files.check_leader_epochs(path, content, bounds, epochs)
        elif kind in small_files.OFFSET_CHECKPOINTS:
            yield from small_files.check_offsets(kind, path, content, logs)


def may_follow_from_metadata(finding: Finding) -> bool:
    """Return whether the finding may be a consequence of damage in the metadata log. Two kinds of findings may be:

    - a stray directory: the damaged records may have created its topic;
    - a missing partition, if the finding is only a warning: the damaged records may have deleted its topic. The finding
      is an error if a checkpoint has an offset of the partition, or if the partition's directory may have another name.
    """
    is_unknown = finding.kind == "partition-missing" and finding.severity == "warning"
    return finding.kind == "partition-stray" or is_unknown


def status_of(path: Path) -> os.stat_result:
    """Return the status of a regular file. Raises UnreadableInput, also for a named pipe, which would block."""
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableInput.of(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableInput(str(path), "neither a file nor a directory")
    return status
