"""The effect of a start on a partition's directory: the files of the start's view (kcli.log.partition_view) are written
to a copy, or replace the directory's files.

    start_in_place  what the start of a broker does, before the log is opened
    write_copy      writes the files of the view to a new directory
    apply_in_place  changes the directory's files to those of the view, in an order in which the next recovery can
                    complete the change after a crash at any point: directories with names of Kafka's files are
                    renamed; then follow .log files composed of parts, removals, renames, cuts, leader epochs,
                    indexes, snapshots. The caller has called `back_up`, which saves what is removed

Source for the order: LogLoader, LocalLog.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from formats.file_name import FileKind, parse
from kcli.errors import KcliError
from kcli.log.disk import COPY_BYTES, Disk
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.partition_view import Content, ContentSource, FileRange, PartitionView, is_as_stored
from kcli.log.recovery.loader import LoadedOffsets, LoadOptions, LogLoader

if TYPE_CHECKING:
    from kcli.log.recovery.backup import Backup

EXCHANGED = ".exchanged"
MOVED = ".moved"
"""The suffix that a directory or broken link gets if it has the name of one of Kafka's files. Kafka's start ignores
names with this suffix."""
INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class Started(NamedTuple):
    """A start that was applied. epochs_are_stale: whether leader-epoch-checkpoint still has epochs without batches, of
    leaders to which nothing was written."""

    loader: LogLoader
    offsets: LoadedOffsets
    epochs_are_stale: bool


def start_in_place(directory: Path, disk: Disk, options: LoadOptions) -> Started:
    """Plan the start on a partition's directory and apply it, before the log is opened. After a clean shutdown nothing
    is written if only leader-epoch-checkpoint differs, by epochs without batches: every start removes these.

    Raises StartRefused, UnreadableInput, OSError.
    """
    view = PartitionView(directory)
    loader = LogLoader(view, options)
    offsets = loader.load()
    changes = [*view.changed(), *view.removed(), *view.set_aside] if options.clean else []
    epochs_are_stale = changes == [LEADER_EPOCHS] and LEADER_EPOCHS in view.original
    if not options.clean or (changes and not epochs_are_stale):
        apply_in_place(view, disk)
    return Started(loader, offsets, epochs_are_stale)


def write_copy(files: Mapping[str, Content], disk: Disk, target: Path) -> None:
    """Write files with this content to a new directory, durably. files: the content by file name. Raises OSError."""
    disk.make_directory(target)
    for name in sorted(files):
        _write_content(disk, files[name], target / name)
    disk.sync_directory(target)


def _write_content(disk: Disk, content: Content, target: Path) -> None:
    source = ContentSource(str(target), content)
    try:
        with disk.open(target, create=True, truncate=True) as file:
            buffer = bytearray(min(COPY_BYTES, max(1, content.size)))
            done = 0
            while done < content.size:
                got = source.read_at(done, memoryview(buffer))
                if got == 0:
                    break
                done += file.write([memoryview(buffer)[:got]], done)
            file.sync()
    finally:
        source.close()


class InTheWay(KcliError):
    """A directory, or a link to nothing, has the name of a file that recovery in place is to write."""


def refuse_in_the_way(view: PartitionView) -> None:
    """Raise InTheWay if `apply_in_place` could not write a file of the view."""
    for name in sorted(view.in_the_way & view.files.keys()):
        raise in_the_way(view.directory / name, view.directory / f"{name}{MOVED}")


def in_the_way(path: Path, free: Path) -> InTheWay:
    """Return the error for a directory or broken link at the path of a file that is to be written. free: a free path,
    to which the user may move the directory or link."""
    command = f"mv -nT -- {quote(str(path))} {quote(str(free))}"
    return InTheWay(f"{path}: not a file, where one is to be written; nothing was changed. Next: {command}")


def back_up(view: PartitionView, backup: Backup) -> None:
    """Write to the backup all bytes on disk that the view no longer has, except those of indexes, which can be rebuilt.
    Raises OSError."""
    kept: dict[Path, list[tuple[int, int]]] = {}
    for content in view.files.values():
        for part in content.parts:
            if is_as_stored(part):
                kept.setdefault(part.path, []).append((part.start, part.start + part.length))
    for name, content in sorted(view.original.items()):
        parsed = parse(name)
        if parsed is not None and parsed.kind in INDEXES:
            continue
        part = content.parts[0]
        assert isinstance(part, FileRange), "what is on disk is a range"
        at = 0
        for start, end in [*sorted(kept.get(part.path, [])), (part.length, part.length)]:
            if at < start:
                whole = at == 0 and start == part.length
                member = name if whole else f"{name}.bytes-{at}-{start}"
                backup.add(f"{view.directory.name}/{member}", FileRange(part.path, at, start - at))
            at = max(at, end)


def apply_in_place(view: PartitionView, disk: Disk) -> None:
    """Change the directory's files to those of the view. If a crash interrupts this, another recovery leads to the same
    result.

    A swap file whose bytes are part of a new .log file is removed last: as long as it exists, a start replaces the .log
    files whose offsets it covers. Raises OSError.
    """
    directory = view.directory
    for name in sorted(view.set_aside):
        _set_aside(directory / name, disk)
    changed = {name: view.files[name] for name in view.changed()}
    renames = {_origin(content): name for name, content in changed.items() if _origin(content) not in (None, name)}
    exchanged = {name for name, content in changed.items() if _is_of_another(view, name, content)}
    renames = {old: name for old, name in renames.items() if name not in exchanged}
    composed = [
        name
        for name, content in changed.items()
        if name in exchanged or (_origin(content) is None and not _in_memory(content))
    ]
    removed = [name for name in view.removed() if name not in renames]
    in_memory = sorted((name for name in changed if _in_memory(changed[name])), key=_write_order)
    # A KRaft snapshot is written first: it replaces the .log files of the metadata log that are removed below.
    for name in [each for each in in_memory if each.endswith(FileKind.KRAFT_SNAPSHOT)]:
        _write_file(disk, directory / name, changed[name])
    _compose(view, disk, composed, exchanged)
    used = {part.path.name for name in composed for part in changed[name].parts if isinstance(part, FileRange)}
    for name in sorted(removed, key=lambda name: (name in used and name.endswith(".swap"), _removal_order(name))):
        if not name.endswith(".snapshot"):
            disk.remove(directory / name)
    for old, name in renames.items():
        disk.rename(directory / str(old), directory / name)
    disk.sync_directory(directory)
    _cut_and_sync(view, disk, changed)
    for name in [each for each in in_memory if not each.endswith(FileKind.KRAFT_SNAPSHOT)]:
        _write_file(disk, directory / name, changed[name])
    for name in removed:
        if name.endswith(".snapshot"):
            disk.remove(directory / name)
    disk.sync_directory(directory)


def _set_aside(path: Path, disk: Disk) -> None:
    """Rename the directory or broken link at the path of one of Kafka's files: its name gets the suffix .moved, and
    also a number if that name is taken."""
    moved = path.with_name(f"{path.name}{MOVED}")
    number = 1
    while os.path.lexists(moved):
        number += 1
        moved = path.with_name(f"{path.name}{MOVED}-{number}")
    disk.rename(path, moved)


def _is_of_another(view: PartitionView, name: str, content: Content) -> bool:
    """Return whether, in the view, a file contains bytes that another file of the directory has on disk, and the view
    also has a file with the name of that other one."""
    parts = [part for part in content.parts if isinstance(part, FileRange) and part.path.parent == view.directory]
    return any(part.path.name != name and part.path.name in view.files for part in parts)


def _compose(view: PartitionView, disk: Disk, logs: list[str], exchanged: Collection[str]) -> None:
    """Write the .log files that are composed of parts to temporary files, then rename these into place, the last first.
    Before the renames, the old indexes that the view changes are removed.

    exchanged: those of the .log files that contain bytes of another file whose name stays in use, as after an exchange
    of names. Their temporary files have a suffix other than .cleaned: if there is a crash before the renames, Kafka's
    start deletes files with the suffix .cleaned, and leaves those with another suffix.
    """
    directory = view.directory
    suffixes = {name: EXCHANGED if name in exchanged else ".cleaned" for name in logs}
    for name in logs:
        _write_content(disk, view.files[name], directory / f"{name}{suffixes[name]}")
    for name in logs:
        for index in (name.replace(FileKind.LOG, kind) for kind in INDEXES):
            if view.files.get(index) != view.original.get(index):
                disk.remove(directory / index)
    if logs:
        disk.sync_directory(directory)
    for name in sorted(logs, reverse=True):
        disk.rename(directory / f"{name}{suffixes[name]}", directory / name)


def _cut_and_sync(view: PartitionView, disk: Disk, changed: dict[str, Content]) -> None:
    """Cut .log files to their sizes in the view, the last segment first; and sync all .log files, because the recovery
    point will be the log end offset. changed: the changed files of the view, by name."""
    logs = [name for name in view.files if name.endswith(".log")]
    for name in sorted(logs, reverse=True):
        path, size = view.directory / name, view.files[name].size
        if _in_memory(view.files[name]) and name in changed:
            continue
        with disk.open(path) as file:
            if file.size() > size:
                file.truncate(size)
            file.sync()


def _origin(content: Content) -> str | None:
    """Return the name of the file on disk of which this content is the whole or the beginning. Returns None if the
    content is composed of parts, decompressed, or changed back to what it was before a transfer in text mode."""
    part = content.parts[0] if len(content.parts) == 1 else None
    if part is not None and is_as_stored(part) and part.start == 0:
        return part.path.name
    return None


def _write_file(disk: Disk, path: Path, content: Content) -> None:
    disk.write_file(path, b"".join(part for part in content.parts if isinstance(part, bytes)))


def _in_memory(content: Content) -> bool:
    return all(isinstance(part, bytes) for part in content.parts)


def _write_order(name: str) -> tuple[int, str]:
    """Return a sort key for files to write: first leader epochs, because a start that finds indexes reads fewer
    batches, and so rebuilds fewer leader epochs; then indexes; snapshots last."""
    return 0 if name == LEADER_EPOCHS else 2 if name.endswith(".snapshot") else 1, name


def _removal_order(name: str) -> tuple[int, str]:
    """Return a sort key for files to remove: first .swap files, then the .cleaned files that mark those .swap files as
    invalid; then the files of segments, the last segment first."""
    rank = 0 if name.endswith(".swap") else 1 if name.endswith(".cleaned") else 2
    inverted = "".join(chr(0x10FFFF - ord(char)) for char in name[:20])
    return rank, inverted + name[20:]
