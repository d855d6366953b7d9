"""Directories: which file is what, what belongs together, what should not be there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from formats.file_name import DirectoryName, FileKind, FileName, parse, parse_directory
from kcli.errors import UnreadableInput
from kcli.inspector.verify import small_files
from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.kraft_snapshot import verify_kraft_snapshot
from kcli.inspector.verify.partition import INDEX_KINDS, LogVerifier, Segment
from kcli.inspector.verify.small_files import EPOCH_CHECKPOINTS, OFFSET_CHECKPOINTS, LogBounds

SEGMENT_KINDS = (FileKind.LOG, *INDEX_KINDS)
KRAFT_SNAPSHOTS = (FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP)
MARKERS = (FileKind.CLEAN_SHUTDOWN, FileKind.LOCK)
MAX_DEPTH = 32

Entry = tuple[Path, FileName]


class Verification:
    """Files and directories to verify. Run `findings`; the counters say what has been looked at so far.

    advance(bytes) is called as bytes of logs have been read. What could not be read is in `unreadable`, and the rest is
    verified all the same. `kafka_files` counts files of kinds that Kafka writes.
    """

    def __init__(self, paths: list[Path], *, advance: Callable[[int], None] = lambda _: None) -> None:
        self._paths = paths
        self._advance = advance
        self.files = 0
        self.bytes = 0
        self.unreadable: list[UnreadableInput] = []

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong or worth knowing, path by path."""
        for path in self._paths:
            before = self.files
            if os.path.isdir(path):  # noqa: PTH112 (Path.is_dir raises where it may not look)
                yield from self._directory(path, 0, {})
                if self.files == before and not self.unreadable:
                    self.unreadable.append(UnreadableInput(str(path), "no file in it that Kafka writes"))
            else:
                yield from self._guarded(path, self._file)

    def _guarded(self, path: Path, verify: Callable[[Path], Iterator[Finding]]) -> Iterator[Finding]:
        try:
            yield from verify(path)
        except UnreadableInput as error:
            self.unreadable.append(error)

    def _count(self, path: Path) -> None:
        try:
            status = path.stat()
        except OSError as error:
            raise UnreadableInput(str(path), error.strerror or str(error)) from error
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableInput(str(path), "neither a file nor a directory")
        self.bytes += status.st_size
        self.files += 1

    # one file

    def _file(self, path: Path) -> Iterator[Finding]:
        name = parse(path.name)
        self._count(path)
        if name is None:
            raise UnreadableInput(str(path), "not named like any file that Kafka writes")
        kind = name.kind
        if kind is FileKind.LOG:
            segment = Segment(name.base_offset or 0, {kind: path})
            yield from LogVerifier([segment], [], self._advance, is_whole=False).findings()
        elif kind in INDEX_KINDS:
            yield from self._index_alone(path, name)
        elif kind is FileKind.PRODUCER_SNAPSHOT:
            yield from LogVerifier([], [(0, path)], self._advance).findings()
        elif kind in KRAFT_SNAPSHOTS:
            yield from verify_kraft_snapshot(path, self._advance)
        elif kind not in MARKERS:
            yield from self._small(path, kind, {}, None, [])

    def _index_alone(self, path: Path, name: FileName) -> Iterator[Finding]:
        """An index beside its log: what is wrong in the log is not told."""
        log = path.with_name(path.name.replace(name.kind, FileKind.LOG))
        if not log.exists():
            yield _no_log(path, log)
            return
        segment = Segment(name.base_offset or 0, {FileKind.LOG: log, name.kind: path})
        for finding in LogVerifier([segment], [], self._advance, is_whole=False).findings():
            if finding.path == str(path):
                yield finding

    def _small(
        self,
        path: Path,
        kind: FileKind,
        logs: dict[tuple[str, int], LogBounds],
        bounds: LogBounds | None,
        epochs: list[tuple[int, int]],
    ) -> Iterator[Finding]:
        content, findings = small_files.check(kind, path)
        yield from findings
        if content is None:
            return
        if kind in EPOCH_CHECKPOINTS:
            yield from small_files.check_leader_epochs(path, content, bounds, epochs)
        elif kind in OFFSET_CHECKPOINTS:
            yield from small_files.check_offsets(kind, path, content, logs)

    # directories

    def _directory(self, path: Path, depth: int, logs: dict[tuple[str, int], LogBounds]) -> Iterator[Finding]:
        """A directory and those in it. What it learns of its own log goes into the parent's `logs`."""
        try:
            with os.scandir(path) as entries:
                listed = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError as error:
            self.unreadable.append(UnreadableInput(str(path), error.strerror or str(error)))
            return
        here: list[Entry] = []
        unknown: list[Path] = []
        below: dict[tuple[str, int], LogBounds] = {}
        for name, is_directory in listed:
            if is_directory:
                if depth < MAX_DEPTH:
                    yield from self._directory(path / name, depth + 1, below)
            elif (parsed := parse(name)) is None:
                unknown.append(path / name)
            else:
                here.append((path / name, parsed))
        name_says = parse_directory(path.name)
        if name_says is not None and name_says.state in ("delete", "future", "stray"):
            yield _leftover_directory(path, name_says)
        if here or name_says is not None:
            for other in unknown:
                yield _unknown(other)
        yield from self._logs(path, name_says, here, below, logs)

    def _logs(
        self,
        path: Path,
        name_says: DirectoryName | None,
        here: list[Entry],
        below: dict[tuple[str, int], LogBounds],
        logs: dict[tuple[str, int], LogBounds],
    ) -> Iterator[Finding]:
        segments: dict[tuple[int, str | None], Segment] = {}
        snapshots: dict[tuple[int, str | None], Path] = {}
        rest: list[Entry] = []
        for entry, name in here:
            try:
                self._count(entry)
            except UnreadableInput as error:
                self.unreadable.append(error)
                continue
            key = name.base_offset or 0, name.remote_id
            if name.state:
                yield _leftover(entry, name)
            elif name.kind in SEGMENT_KINDS:
                segments.setdefault(key, Segment(key[0])).files[name.kind] = entry
            elif name.kind is FileKind.PRODUCER_SNAPSHOT:
                snapshots[key] = entry
            else:
                rest.append((entry, name))
        whole: list[Segment] = []
        remote: list[tuple[Segment, Path | None]] = []
        is_cache = path.name == "remote-log-index-cache"
        for key in sorted(segments, key=lambda key: (key[0], key[1] or "")):
            segment = segments[key]
            if FileKind.LOG not in segment.files:
                if not is_cache:
                    for entry in segment.files.values():
                        yield _no_log(entry, entry.with_suffix(FileKind.LOG))
            elif key[1] is None:
                whole.append(segment)
            else:
                remote.append((segment, snapshots.pop(key, None)))
        verifier = LogVerifier(whole, sorted((key[0], entry) for key, entry in snapshots.items()), self._advance)
        yield from self._guarded(path, lambda _: verifier.findings())
        for segment, snapshot in remote:
            end = [] if snapshot is None else [(0, snapshot)]
            one = LogVerifier([segment], [], self._advance)
            yield from self._guarded(path, lambda _, one=one: one.findings())  # type: ignore[misc]
            for offset, entry in end:
                alone = LogVerifier([], [(offset, entry)], self._advance)
                yield from self._guarded(path, lambda _, alone=alone: alone.findings())  # type: ignore[misc]
        if name_says is not None and name_says.state in ("", "future") and verifier.bounds is not None:
            logs[name_says.topic, name_says.partition] = verifier.bounds
        for entry, name in rest:
            if name.kind in KRAFT_SNAPSHOTS:
                yield from self._guarded(entry, lambda entry: verify_kraft_snapshot(entry, self._advance))
            elif name.kind not in MARKERS:
                kind, bounds = name.kind, verifier.bounds
                yield from self._guarded(
                    entry, lambda entry, kind=kind, bounds=bounds: self._small(entry, kind, below, bounds, verifier.epochs)  # type: ignore[misc]
                )


def _no_log(path: Path, log: Path) -> Finding:
    action = "nothing to do: Kafka deletes it when it next opens the log"
    return Finding(
        path=str(path), kind="orphan-file", severity="warning", expected=log.name, found="no such file", action=action
    )


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
        "swap": ("output of a cleaning that was to replace segments", "nothing to do: a broker puts it in their place at its start"),
        "tmp": ("a file that was being written", "nothing to do: it is written anew"),
        "part": ("a snapshot that was being written", "nothing to do: a node deletes it at its start"),
    }[name.state]
    return Finding(path=str(path), kind="leftover-file", severity=severity, found=found, action=action)


def _unknown(path: Path) -> Finding:
    action = "nothing to do: Kafka leaves it alone"
    return Finding(
        path=str(path), kind="unknown-file", severity="info", found="not named like any file that Kafka writes", action=action
    )
