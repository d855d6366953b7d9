"""Directories: which file is what, what belongs together, what should not be there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import (
    METADATA_DIRECTORY,
    METADATA_TOPIC,
    DirectoryName,
    FileKind,
    FileName,
    parse,
    parse_directory,
)
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.broker_directory import (
    WRITE_ANEW,
    BrokerDirectory,
    Here,
    broken_link,
    duplicates,
    here,
    odd_name,
    partition_metadata_command,
    swapped,
)
from kcli.inspector.verify.causes import Causes
from kcli.inspector.verify.file_names import odd_files, odd_type
from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.lost_offsets import Known
from kcli.inspector.verify.partition import LogBounds, LogVerifier, no_log
from kcli.inspector.verify.segment_names import INDEX_KINDS, Segment
from kcli.inspector.verify.small_files import REMOVE_EPOCHS
from kcli.inspector.verify.surroundings import Gaps, Surroundings
from kcli.inspector.verify.swap_file import harmful
from kcli.log.log_directory import REMOTE_INDEX_CACHE, Partition, is_log_directory
from kcli.log.source import read_whole

SEGMENT_KINDS = (FileKind.LOG, *INDEX_KINDS)
KRAFT_SNAPSHOTS = (FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP)
MARKERS = (FileKind.CLEAN_SHUTDOWN, FileKind.LOCK)
MAX_DEPTH = 32

Entry = tuple[Path, FileName]
Key = tuple[int, str]  # base offset; id in tiered storage or ""
Logs = dict[Partition, LogBounds]


class Verification:
    """Files and directories to verify. Run `findings`; the counters say what has been looked at so far.

    server: the broker's own properties, of which log.cleanup.policy and metadata.log.dir matter. advance(bytes) is
    called as bytes of logs have been read. What could not be read is in `unreadable`, and the rest is verified all the
    same. `files` counts files of kinds that Kafka writes, `unclean` log directories that no orderly stop has left,
    `unknown` those of which no metadata log says what should be in them.
    """

    def __init__(
        self,
        paths: list[Path],
        *,
        server: Mapping[str, str] | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._paths = paths
        self._server = server or {}
        self._advance = advance
        self._seen: set[tuple[int, int]] = set()
        self.files = 0
        self.bytes = 0
        self.unclean = 0
        self.unknown = 0
        self.unreadable: list[UnreadableInput] = []

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong or worth knowing, path by path; in a partition, causes before what they leave."""
        for path in self._paths:
            before = self.files, len(self.unreadable)
            self._seen.clear()
            if os.path.isdir(path):  # noqa: PTH112 (Path.is_dir raises where it may not look)
                yield from self._directory(path, 0, _Inside(self._around_partition(path)))
                if (self.files, len(self.unreadable)) == before:
                    self.unreadable.append(UnreadableInput(str(path), "no file in it that Kafka writes"))
            else:
                yield from self._guarded(path, self._file)

    def _around_partition(self, path: Path) -> Surroundings | None:
        """What surrounds a partition's directory that is looked at alone."""
        absolute = path.absolute()
        if parse_directory(absolute.name) is None:
            return None
        return self._around(absolute.parent)

    def _around(self, path: Path) -> Surroundings | None:
        """What a log directory says of its partitions; None where the directory is none."""
        try:
            is_one = is_log_directory(path) or (path / METADATA_DIRECTORY).is_dir()
        except (UnreadableInput, OSError):
            return None
        return Surroundings(path, self._server, self._paths) if is_one else None

    def _guarded(self, path: Path, verify: Callable[[Path], Iterator[Finding]]) -> Iterator[Finding]:
        try:
            yield from verify(path)
        except UnreadableInput as error:
            self.unreadable.append(error)

    def _run(self, path: Path, verifier: LogVerifier) -> Iterator[Finding]:
        yield from self._guarded(path, lambda _: verifier.findings())
        self.unreadable += verifier.unreadable

    def _count(self, size: int) -> None:
        self.files += 1
        self.bytes += size

    # one file

    def _file(self, path: Path) -> Iterator[Finding]:
        name = parse(path.name)
        size = _status(path).st_size
        if name is None:
            raise UnreadableInput(str(path), "not named like any file that Kafka writes")
        self._count(size)
        kind = name.kind
        if kind is FileKind.LOG:
            segment = Segment(name.base_offset or 0, {kind: path})
            yield from LogVerifier([segment], [], self._advance, is_whole=False).findings()
        elif kind in INDEX_KINDS:
            yield from self._index_alone(path, name)
        elif kind is FileKind.PRODUCER_SNAPSHOT:
            yield from LogVerifier([], [(0, path)], self._advance).findings()
        elif kind in KRAFT_SNAPSHOTS:
            yield from self._kraft_snapshot(path)
        elif kind not in MARKERS:
            yield from self._small(path, kind, {}, None, [])

    def _index_alone(self, path: Path, name: FileName) -> Iterator[Finding]:
        """An index beside its log: what is wrong in the log is not told."""
        log = path.with_name(path.name.replace(name.kind, FileKind.LOG))
        if not log.exists():
            yield no_log(path, log)
            return
        segment = Segment(name.base_offset or 0, {FileKind.LOG: log, name.kind: path})
        for finding in LogVerifier([segment], [], self._advance, is_whole=False).findings():
            if finding.path == str(path):
                yield finding

    def _kraft_snapshot(self, path: Path) -> Iterator[Finding]:
        from kcli.inspector.verify.kraft_snapshot import verify_kraft_snapshot  # message schemas: only where needed

        yield from verify_kraft_snapshot(path, self._advance)

    def _small(
        self,
        path: Path,
        kind: FileKind,
        logs: Logs,
        bounds: LogBounds | None,
        epochs: list[tuple[int, int]],
    ) -> Iterator[Finding]:
        from kcli.inspector.verify import small_files

        content, findings = small_files.check(kind, path)
        yield from findings
        if content is None:
            return
        if kind in small_files.EPOCH_CHECKPOINTS:
            yield from small_files.check_leader_epochs(path, content, bounds, epochs)
        elif kind in small_files.OFFSET_CHECKPOINTS:
            yield from small_files.check_offsets(kind, path, content, logs)

    # directories

    def _directory(self, path: Path, depth: int, inside: _Inside) -> Iterator[Finding]:
        """A directory and those in it. inside: the one that it is in, which takes what is learnt of the log here."""
        try:
            with os.scandir(path) as entries:
                listed = sorted(self._listed(entries))
            status = path.stat()
        except OSError as error:
            self.unreadable.append(UnreadableInput(str(path), error.strerror or str(error)))
            return
        if (status.st_dev, status.st_ino) in self._seen:
            return  # a symbolic link back to it
        self._seen.add((status.st_dev, status.st_ino))
        mine: list[Entry] = []
        unknown: list[Path] = []
        around = self._around(path)
        below = _Inside(around)
        found: list[Finding] = []
        if around is not None and around.is_broker:
            found += duplicates(path, (name for name, is_directory, _ in listed if is_directory))
        name_says = parse_directory(path.absolute().name)
        is_kafkas = name_says is not None and name_says.state != "remote"
        if is_kafkas:
            odd = odd_files(path, [name for name, _, _ in listed])
            found += (finding for finding, _ in odd.values())
            mine += ((path / name, target) for name, (_, target) in odd.items() if target is not None)
            listed = [each for each in listed if each[0] not in odd]
        # The metadata log comes first: what it says, or no longer says, is about the others.
        for name, is_directory, is_link in sorted(listed, key=lambda each: each[0] != METADATA_DIRECTORY):
            parsed = parse(name)
            if is_directory and not (is_kafkas and parsed is not None):
                if depth < MAX_DEPTH:
                    yield from self._directory(path / name, depth + 1, below)
                if around is not None and around.is_broker:
                    found += odd_name(path / name)
            elif parsed is not None:
                mine.append((path / name, parsed))
            elif is_link and parse_directory(name) is not None:
                found.append(broken_link(path / name))
            else:
                unknown.append(path / name)
        if name_says is not None and name_says.state in ("delete", "future", "stray"):
            found.append(_leftover_directory(path, name_says))
        if mine or name_says is not None:
            found += map(_unknown, unknown)
        found += self._logs(path, name_says, mine, below, inside)
        if around is not None:
            yield from self._as_broker(around, below, found)
        else:
            yield from found

    def _listed(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, bool, bool]]:
        """Each entry's name, whether it is a directory, and whether it is a link; not links that lead in a circle."""
        for entry in entries:
            try:
                yield entry.name, entry.is_dir(), entry.is_symlink()
            except OSError as error:
                self.unreadable.append(UnreadableInput(entry.path, error.strerror or str(error)))

    def _as_broker(self, around: Surroundings, below: _Inside, found: list[Finding]) -> Iterator[Finding]:
        """What shows in a log directory as a whole, and what of it follows from damage in the metadata log."""
        damage = below.metadata_damage
        broker = BrokerDirectory(around, below.partitions, is_metadata_sound=damage is None)
        exchanged = list(swapped(around, below.partitions, below.logs))
        names = {name for _, both in exchanged for name in both}
        whole = [*broker.findings(), *found, *(each for each, _ in exchanged)]
        whole += (each for each in below.short if Path(each.path).parent.name not in names)
        self.unclean += any(each.kind == "unclean-shutdown" for each in whole)
        self.unknown += any(each.kind == "metadata-log-absent" for each in whole)
        missing = [each for each in whole if each.kind == "partition-missing"]
        causes = Causes()
        if damage is not None:
            causes.add(damage, lambda other: other.kind in ("partition-stray", "partition-missing"))
        for cause in whole:
            if cause.kind == "meta-properties-node":
                causes.add(cause, lambda other: other.kind == "partition-stray")
            elif cause.kind == "partition-metadata-topic":
                name = Path(cause.path).parent.name
                causes.add(cause, lambda other, name=name: f"{name}: " in f"{other.expected}")  # type: ignore[misc]
        for cause in missing:
            name = Path(cause.path).name
            causes.add(cause, lambda other, name=name: f"{name}: " in f"{other.expected}")  # type: ignore[misc]
        alone = ("partition-missing", "meta-properties-node", "partition-metadata-topic")
        yield from causes.settle(each for each in whole if each.kind not in alone)

    def _logs(
        self, path: Path, name_says: DirectoryName | None, mine: list[Entry], below: _Inside, inside: _Inside
    ) -> Iterator[Finding]:
        """The files of one directory; `below` has the logs in its directories, `inside` takes its own."""
        contents, own = self._sorted_out(mine, is_partition=name_says is not None)
        orphans = [] if path.name == REMOTE_INDEX_CACHE else contents.orphans()
        known = self._known(path, name_says, contents, inside.around)
        segments = contents.local_segments()
        verifier = LogVerifier(segments, contents.local_snapshots(), self._advance, orphans=orphans, known=known)
        own += self._run(path, verifier)
        for swap in contents.swaps():
            own += self._guarded(path, partial(self._swap, swap=swap, segments=segments, gaps=known.gaps))
        for one in contents.remote(self._advance):
            own += self._run(path, one)
        for entry, name in contents.rest:
            if name.kind in KRAFT_SNAPSHOTS:
                own += self._guarded(entry, self._kraft_snapshot)
            elif name.kind not in MARKERS:
                bounds = verifier.bounds
                small = partial(self._small, kind=name.kind, logs=below.logs, bounds=bounds, epochs=verifier.epochs)
                own += self._guarded(entry, small)
        if name_says is not None:
            own = self._as_partition(path, name_says, own, verifier, contents, inside)
        causes = Causes()
        for cause in own:
            if cause.kind == "leader-epoch":
                causes.add(cause, lambda other: other.kind == "checkpoint-epoch")
            elif cause.kind == "file-type":
                causes.add(cause, partial(_is_about, Path(cause.path)))
            elif cause.kind == "swap-log":
                causes.add(cause, partial(_is_swap, Path(cause.path)))
        yield from causes.settle(each for each in own if each.kind not in ("leader-epoch", "file-type", "swap-log"))

    def _swap(self, _: Path, *, swap: Segment, segments: Sequence[Segment], gaps: Gaps) -> Iterator[Finding]:
        finding = harmful(swap, segments, gaps, self._advance)
        if finding is not None:
            yield finding

    def _sorted_out(self, mine: list[Entry], *, is_partition: bool) -> tuple[_Contents, list[Finding]]:
        """The files by what they are, and what shows without opening them."""
        contents = _Contents()
        found: list[Finding] = []
        for entry, name in mine:
            if is_partition and (odd := odd_type(entry, name.kind)) is not None:
                found.append(odd)
                continue
            try:
                status = _status(entry)
            except UnreadableInput as error:
                self.unreadable.append(error)
                continue
            self._count(status.st_size)
            contents.add(entry, name)
            if is_partition and (lacks := _lacking(status, name)):
                found.append(_mode(entry, status, lacks))
        found += (_leftover(entry, name) for entry, name in contents.leftovers)
        return contents, found

    def _as_partition(
        self,
        path: Path,
        name: DirectoryName,
        own: list[Finding],
        verifier: LogVerifier,
        contents: _Contents,
        inside: _Inside,
    ) -> list[Finding]:
        """The findings of a partition's directory, which the log directory around it learns of."""
        if name.state in ("", "future") and verifier.bounds is not None:
            inside.logs.setdefault((name.topic, name.partition), verifier.bounds)
        if name.state != "":
            return own
        if inside.around is not None:
            own += _absent_files(path, name, contents, verifier)
            own = [_with_topic_id(each, inside.around, name) for each in own]
        try:
            inside.partitions.setdefault((name.topic, name.partition), here(path))
        except UnreadableInput as error:
            self.unreadable.append(error)
        return inside.keep_damage(own) if name.topic == METADATA_TOPIC else inside.keep_short(own)

    def _known(self, path: Path, name: DirectoryName | None, contents: _Contents, around: Surroundings | None) -> Known:
        """What is known of a partition's log before it is looked at."""
        if name is None or name.state == "remote":
            return Known(is_tiered=True)
        partition = name.topic, name.partition
        epochs = contents.leader_epochs()
        is_metadata = name.topic == METADATA_TOPIC
        if around is None:
            gaps = Gaps.LOSS if is_metadata else Gaps.UNKNOWN
            return Known(gaps, epochs=epochs, is_tiered=True if is_metadata else None)
        ends = {
            kind: offsets[partition]
            for kind, offsets in (
                (FileKind.RECOVERY_POINTS, around.recovery_points),
                (FileKind.REPLICATION_OFFSETS, around.high_watermarks),
            )
            if partition in offsets and name.state == "" and _is_own(path, name, around)
        }
        is_tiered = True if is_metadata else around.is_tiered(name.topic)
        directory = path if name.state == "" else None
        return Known(around.gaps(partition), ends, epochs, is_tiered, around.path, directory, around.is_clean)


class _Inside:
    """What is learnt of the logs in one directory. around: what it says of them, where it is a log directory."""

    def __init__(self, around: Surroundings | None) -> None:
        self.around = around
        self.logs: Logs = {}
        self.partitions: dict[Partition, Here] = {}
        self.metadata_damage: Finding | None = None
        self.short: list[Finding] = []

    def keep_damage(self, findings: list[Finding]) -> list[Finding]:
        """Hold back the first damage in the metadata log: what it means for the partitions is not known yet."""
        damage = [each for each in findings if each.severity == "error" and each.path.endswith((".log", ".checkpoint"))]
        if self.around is None or not self.around.is_broker or not damage:
            return findings
        self.metadata_damage = damage[0]
        return [each for each in findings if each is not damage[0]]

    def keep_short(self, findings: list[Finding]) -> list[Finding]:
        """Hold back that a log ends too early: another directory may have the name of this one."""
        if self.around is None or not self.around.is_broker:
            return findings
        self.short += (each for each in findings if each.kind == "log-end")
        return [each for each in findings if each.kind != "log-end"]


class _Contents:
    """The files of one directory, sorted out: what makes up segments, what stands alone, what is left over."""

    def __init__(self) -> None:
        self.leftovers: list[Entry] = []
        self.rest: list[Entry] = []
        self._segments: dict[Key, Segment] = {}
        self._snapshots: dict[Key, Path] = {}

    def add(self, path: Path, name: FileName) -> None:
        key = name.base_offset or 0, name.remote_id or ""
        if name.state:
            self.leftovers.append((path, name))
        elif name.kind in SEGMENT_KINDS:
            self._segments.setdefault(key, Segment(key[0])).files[name.kind] = path
        elif name.kind is FileKind.PRODUCER_SNAPSHOT:
            self._snapshots[key] = path
        else:
            self.rest.append((path, name))

    def orphans(self) -> list[Segment]:
        """Index files without a log."""
        return [segment for segment in self._segments.values() if FileKind.LOG not in segment.files]

    def swaps(self) -> list[Segment]:
        """Segments that are to replace others, those with a log."""
        swaps: dict[int, Segment] = {}
        for path, name in self.leftovers:
            if name.state == "swap" and name.kind in SEGMENT_KINDS:
                base = name.base_offset or 0
                swaps.setdefault(base, Segment(base)).files[name.kind] = path
        return [swap for swap in swaps.values() if FileKind.LOG in swap.files]

    def leader_epochs(self) -> Sequence[tuple[int, int]]:
        """The entries of the leader-epoch-checkpoint; none where it cannot be read, which is told elsewhere."""
        for path, name in self.rest:
            if name.kind is FileKind.LEADER_EPOCHS:
                try:
                    return parse_leader_epochs(read_whole(path))
                except (FormatError, UnreadableInput):
                    break
        return ()

    def local_segments(self) -> list[Segment]:
        """The segments of a broker's log, by base offset."""
        return [segment for (_, remote), segment in self._with_log() if not remote]

    def local_snapshots(self) -> list[tuple[int, Path]]:
        """Its producer snapshots, by offset."""
        return sorted((offset, path) for (offset, remote), path in self._snapshots.items() if not remote)

    def remote(self, advance: Callable[[int], None]) -> Iterator[LogVerifier]:
        """Segments in tiered storage, each with what belongs to it: they may overlap."""
        for key, segment in self._with_log():
            if key[1]:
                yield LogVerifier([segment], [], advance)
        for (offset, remote), path in sorted(self._snapshots.items()):
            if remote:
                yield LogVerifier([], [(offset, path)], advance)

    def _with_log(self) -> list[tuple[Key, Segment]]:
        return sorted(
            (item for item in self._segments.items() if FileKind.LOG in item[1].files), key=lambda item: item[0]
        )


def _is_about(path: Path, finding: Finding) -> bool:
    """Is it about that file, or about one of the same segment?"""
    other = Path(finding.path)
    return other.parent == path.parent and (other.name == path.name or other.stem == path.stem)


def _is_swap(path: Path, finding: Finding) -> bool:
    """Is it about a file of the same `.swap` segment?"""
    other = Path(finding.path)
    return finding.kind == "leftover-file" and other.suffix == path.suffix and other.name[:20] == path.name[:20]


def _status(path: Path) -> os.stat_result:
    """The status of a file. Raises UnreadableInput: a named pipe would block."""
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableInput(str(path), error.strerror or str(error)) from error
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableInput(str(path), "neither a file nor a directory")
    return status


def _lacking(status: os.stat_result, name: FileName) -> int:
    """The permissions that Kafka needs of a file and its owner lacks. It writes KRaft snapshots read-only."""
    needed = stat.S_IRUSR if name.kind is FileKind.KRAFT_SNAPSHOT else stat.S_IRUSR | stat.S_IWUSR
    return needed & ~status.st_mode


def _mode(path: Path, status: os.stat_result, lacks: int) -> Finding:
    verbs = [verb for bit, verb in ((stat.S_IRUSR, "read"), (stat.S_IWUSR, "write")) if lacks & bit]
    return Finding(
        path=str(path),
        kind="file-mode",
        severity="warning",
        expected="a file that its owner may read and write",
        found=f"mode {stat.S_IMODE(status.st_mode):04o}: the owner may not {' or '.join(verbs)} it",
        action="give the permission back: Kafka does not start without it, but as root",
        command=next_steps.permit(path),
    )


def _absent_file(path: Path, found: str, severity: Severity, action: str, command: str | None) -> Finding:
    """A small file that should be there."""
    kind = "quorum-state-missing" if path.name == FileKind.QUORUM_STATE else "checkpoint-missing"
    return Finding(
        path=str(path),
        kind=kind,
        severity=severity,
        expected="a file",
        found=f"no such file: {found}",
        action=action,
        command=command,
    )


def _is_own(path: Path, name: DirectoryName, around: Surroundings) -> bool:
    """Is the directory of the topic that it is named for, as far as one can tell?"""
    try:
        topic_id = here(path).topic_id
    except UnreadableInput:
        return True
    return topic_id is None or around.topic_id(name.topic) in (None, topic_id)


def _absent_files(path: Path, name: DirectoryName, contents: _Contents, verifier: LogVerifier) -> Iterator[Finding]:
    """Small files that Kafka keeps beside every log."""
    kinds = {each.kind for _, each in contents.rest}
    if any(epoch >= 0 for epoch, _ in verifier.epochs) and FileKind.LEADER_EPOCHS not in kinds:
        found = "the leaders of the batches here are not known, and replicas may be cut at the wrong offsets"
        command = next_steps.recover(path)
        yield _absent_file(path / FileKind.LEADER_EPOCHS, found, "warning", REMOVE_EPOCHS, command)
    if name.topic == METADATA_TOPIC and verifier.bounds is not None and FileKind.QUORUM_STATE not in kinds:
        found = "the node does not know whom it has voted for, and may vote again in the same epoch"
        action = "start the node only when no election is under way; it writes the file anew"
        yield _absent_file(path / FileKind.QUORUM_STATE, found, "warning", action, None)


def _with_topic_id(finding: Finding, around: Surroundings, name: DirectoryName) -> Finding:
    """A partition.metadata that cannot be read is written anew with the topic's id."""
    if not finding.kind.startswith("partition-metadata-"):
        return finding
    command = partition_metadata_command(Path(finding.path), around.topic_id(name.topic))
    return finding if command is None else replace(finding, command=command, action=WRITE_ANEW)


def _leftover_directory(path: Path, name: DirectoryName) -> Finding:
    partition = f"{name.topic}-{name.partition}"
    severity: Severity = "warning" if name.state == "stray" else "info"
    found, action = {
        "delete": (f"{partition}, deleted", "nothing to do: a broker deletes it file.delete.delay.ms after its start"),
        "future": (f"{partition}, being moved here", "nothing to do: the broker goes on with the move, or drops it"),
        "stray": (f"{partition}, not this broker's", "check that its replicas are elsewhere, then delete it"),
    }[name.state]
    return Finding(path=str(path), kind="leftover-directory", severity=severity, found=found, action=action)


def _leftover(path: Path, name: FileName) -> Finding:
    severity: Severity = "info" if name.state in ("deleted", "tmp", "part") else "warning"
    found, action = {
        "deleted": ("a file that is to be deleted", "nothing to do: a broker deletes it at its start"),
        "cleaned": ("output of a cleaning that was interrupted", "nothing to do: a broker deletes it at its start"),
        "swap": (
            "output of a cleaning that was to replace segments",
            "nothing to do: a broker puts it in their place at its start",
        ),
        "tmp": ("a file that was being written", "nothing to do: it is written anew"),
        "part": ("a snapshot that was being written", "nothing to do: a node deletes it at its start"),
    }[name.state]
    return Finding(path=str(path), kind="leftover-file", severity=severity, found=found, action=action)


def _unknown(path: Path) -> Finding:
    action = "nothing to do: Kafka leaves it alone"
    return Finding(
        path=str(path),
        kind="unknown-file",
        severity="info",
        found="not named like any file that Kafka writes",
        action=action,
    )
