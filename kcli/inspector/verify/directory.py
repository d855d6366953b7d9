"""Directories: which file is what, what belongs together, what should not be there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from formats.file_name import DirectoryName, FileKind, FileName, parse, parse_directory
from kcli.errors import UnreadableInput
from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.partition import INDEX_KINDS, LogBounds, LogVerifier, Segment

SEGMENT_KINDS = (FileKind.LOG, *INDEX_KINDS)
KRAFT_SNAPSHOTS = (FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP)
MARKERS = (FileKind.CLEAN_SHUTDOWN, FileKind.LOCK)
MAX_DEPTH = 32

INDEX_CACHE = "remote-log-index-cache"

Entry = tuple[Path, FileName]
Key = tuple[int, str]  # base offset; id in tiered storage or ""


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
            before = self.files, len(self.unreadable)
            if os.path.isdir(path):  # noqa: PTH112 (Path.is_dir raises where it may not look)
                yield from self._directory(path, 0, {})
                if (self.files, len(self.unreadable)) == before:
                    self.unreadable.append(UnreadableInput(str(path), "no file in it that Kafka writes"))
            else:
                yield from self._guarded(path, self._file)

    def _guarded(self, path: Path, verify: Callable[[Path], Iterator[Finding]]) -> Iterator[Finding]:
        try:
            yield from verify(path)
        except UnreadableInput as error:
            self.unreadable.append(error)

    def _run(self, path: Path, verifier: LogVerifier) -> Iterator[Finding]:
        return self._guarded(path, lambda _: verifier.findings())

    def _count(self, size: int) -> None:
        self.files += 1
        self.bytes += size

    # one file

    def _file(self, path: Path) -> Iterator[Finding]:
        name = parse(path.name)
        size = _size(path)
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
            yield _no_log(path, log)
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
        logs: dict[tuple[str, int], LogBounds],
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
        """The files of one directory; `below` are the logs in its directories, `logs` takes its own."""
        contents = _Contents()
        for entry, name in here:
            try:
                self._count(_size(entry))
            except UnreadableInput as error:
                self.unreadable.append(error)
            else:
                contents.add(entry, name)
        yield from (_leftover(entry, name) for entry, name in contents.leftovers)
        if path.name != INDEX_CACHE:
            for orphan in contents.orphans():
                yield _no_log(orphan, orphan.with_suffix(FileKind.LOG))
        verifier = LogVerifier(contents.local_segments(), contents.local_snapshots(), self._advance)
        yield from self._run(path, verifier)
        for one in contents.remote(self._advance):
            yield from self._run(path, one)
        if name_says is not None and name_says.state in ("", "future") and verifier.bounds is not None:
            logs[name_says.topic, name_says.partition] = verifier.bounds
        for entry, name in contents.rest:
            if name.kind in KRAFT_SNAPSHOTS:
                yield from self._guarded(entry, self._kraft_snapshot)
            elif name.kind not in MARKERS:
                small = partial(self._small, kind=name.kind, logs=below, bounds=verifier.bounds, epochs=verifier.epochs)
                yield from self._guarded(entry, small)


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

    def orphans(self) -> list[Path]:
        """Index files without a log."""
        alone = (segment for segment in self._segments.values() if FileKind.LOG not in segment.files)
        return sorted(path for segment in alone for path in segment.files.values())

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


def _size(path: Path) -> int:
    """Bytes of a file. Raises UnreadableInput: a named pipe would block."""
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableInput(str(path), error.strerror or str(error)) from error
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableInput(str(path), "neither a file nor a directory")
    return status.st_size


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
