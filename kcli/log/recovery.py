"""Recovery of a partition or of a log directory: what a start would do, and doing it in a copy or in place.

    plan            the start is played on a view: nothing is written
    write_copy      the view becomes a new directory
    apply_in_place  the view becomes true, in an order that a crash at any point leaves to the next recovery: logs that
                    are put together, removals, renames, cuts, leader epochs, indexes, snapshots; backup comes first

With `salvage` the sound batches behind damage stay, at their own offsets. Source for the order: LogLoader, LocalLog.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from formats.file_name import FileKind, parse
from kcli.log.disk import COPY_BYTES, Disk
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.loader import Event, LoadedOffsets, LoadOptions, LogLoader
from kcli.log.metadata_start import fit_to_snapshots
from kcli.log.recovery_backup import Backup
from kcli.log.recovery_salvage import Lost, Salvaged, behind_damage, salvage
from kcli.log.recovery_view import Content, ContentSource, FileRange, PartitionView, StartRefused

INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


@dataclass
class PartitionPlan:
    """What a start makes of one partition's directory. offsets is None where it is refused.

    lost: what is lost with each of the events, counted before anything is changed. saved: what salvage makes of it.
    """

    name: str
    view: PartitionView
    options: LoadOptions
    offsets: LoadedOffsets | None
    refused: StartRefused | None
    events: list[Event]
    lost: list[Lost]
    saved: Salvaged = field(default_factory=Salvaged)

    @property
    def has_losses(self) -> bool:
        """Would records, or bytes of a log, be lost?"""
        return any(event.is_loss for event in self.events)

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment there would be."""
        names = (parse(name) for name in self.view.files)
        return min((name.base_offset or 0 for name in names if name and name.kind is FileKind.LOG), default=0)

    def is_changed(self) -> bool:
        """Does the directory differ from what would be?"""
        return any(True for _ in self.view.changed()) or bool(self.view.removed())


def plan(
    directory: Path,
    options: LoadOptions,
    *,
    with_salvage: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> PartitionPlan:
    """Play a start on a partition's directory. Raises UnreadableInput.

    with_salvage: where Kafka would lose records or refuse, keep the sound batches instead, and list the gaps between
    them; the events are then those of the start that Kafka would make without it.
    """
    planned = _load(directory, PartitionView(directory), options, advance)
    if not with_salvage:
        return planned
    logs: dict[str, int] = {}
    last = planned
    while (more := _to_salvage(last)).keys() - logs.keys():
        logs = more | logs
        view = PartitionView(directory)
        loader = LogLoader(view, options)
        try:
            loader.tidy()
        except StartRefused:  # a swap that cannot be read: what it replaces may be there, or may not
            return planned
        saved = salvage(view, logs, loader.replaced)
        last = replace(_load(directory, view, replace(options, clean=False), advance), saved=saved)
    return replace(last, events=planned.events, lost=planned.lost)


def with_view(
    planned: PartitionPlan, view: PartitionView, advance: Callable[[int], None] = lambda _: None
) -> PartitionPlan:
    """The same plan with another view than that of Kafka's start; its events stay. Raises UnreadableInput."""
    last = _load(view.directory, view, replace(planned.options, clean=False), advance)
    return replace(last, events=planned.events, lost=planned.lost)


def _to_salvage(planned: PartitionPlan) -> dict[str, int]:
    """The files in which Kafka would lose something, or at which it would stop, each with the bytes that it keeps."""
    names = {event.file: event.position or 0 for event in planned.events if event.is_loss}
    return names | ({planned.refused.file: 0} if planned.refused else {})


def _load(directory: Path, view: PartitionView, options: LoadOptions, advance: Callable[[int], None]) -> PartitionPlan:
    loader = LogLoader(view, options, advance)
    offsets, refused = None, None
    try:
        offsets = loader.load()
        if options.is_metadata:
            offsets = fit_to_snapshots(loader, offsets)
    except StartRefused as error:
        offsets, refused = None, error
    lost = [_lost_with(event) for event in loader.events]
    return PartitionPlan(directory.name, view, options, offsets, refused, loader.events, lost)


def _lost_with(event: Event) -> Lost:
    if event.content is None:
        return Lost()
    return behind_damage(event.file, event.content, event.position or 0, event.from_offset)


def start_in_place(directory: Path, disk: Disk, options: LoadOptions) -> tuple[LogLoader, LoadedOffsets]:
    """Play the start on a partition's directory, and make true what it changes: for a log that is opened. Raises
    StartRefused, UnreadableInput, OSError."""
    view = PartitionView(directory)
    loader = LogLoader(view, options)
    offsets = loader.load()
    done = PartitionPlan(directory.name, view, options, offsets, None, loader.events, [])
    if not options.clean or done.is_changed():
        apply_in_place(done, disk)
    return loader, offsets


def write_copy(plan: PartitionPlan, disk: Disk, target: Path) -> None:
    """Write what would be to a new directory, durably. A refused partition is copied as it is. Raises OSError."""
    disk.make_directory(target)
    files = plan.view.files if plan.refused is None else plan.view.original
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


def back_up(plan: PartitionPlan, backup: Backup) -> None:
    """Write to the backup every byte that goes: not those of indexes, which can be built anew. Raises OSError."""
    kept: dict[Path, list[tuple[int, int]]] = {}
    for content in plan.view.files.values():
        for part in content.parts:
            if isinstance(part, FileRange):
                kept.setdefault(part.path, []).append((part.start, part.start + part.length))
    for name, content in sorted(plan.view.original.items()):
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
                backup.add(f"{plan.name}/{member}", FileRange(part.path, at, start - at))
            at = max(at, end)


def apply_in_place(plan: PartitionPlan, disk: Disk) -> None:
    """Make the view true. A crash leaves a directory of which recovery makes the same. Raises OSError.

    A swap file that a log was put together from goes last: while it is there, what it stands for goes too.
    """
    if plan.refused is not None:
        return
    view, directory = plan.view, plan.view.directory
    changed = {name: view.files[name] for name in view.changed()}
    renames = {_origin(content): name for name, content in changed.items() if _origin(content) not in (None, name)}
    composed = [name for name, content in changed.items() if _origin(content) is None and not _in_memory(content)]
    gone = [name for name in view.removed() if name not in renames]
    in_memory = sorted((name for name in changed if _in_memory(changed[name])), key=_write_order)
    for name in [each for each in in_memory if each.endswith(FileKind.KRAFT_SNAPSHOT)]:  # it stands for what goes
        _write_file(disk, directory / name, changed[name])
    _compose(plan, disk, composed)
    used = {part.path.name for name in composed for part in changed[name].parts if isinstance(part, FileRange)}
    for name in sorted(gone, key=lambda name: (name in used and name.endswith(".swap"), _removal_order(name))):
        if not name.endswith(".snapshot"):
            disk.remove(directory / name)
    for old, name in renames.items():
        disk.rename(directory / str(old), directory / name)
    disk.sync_directory(directory)
    _cut_and_sync(plan, disk, changed)
    for name in [each for each in in_memory if not each.endswith(FileKind.KRAFT_SNAPSHOT)]:
        _write_file(disk, directory / name, changed[name])
    for name in gone:
        if name.endswith(".snapshot"):
            disk.remove(directory / name)
    disk.sync_directory(directory)


def _compose(plan: PartitionPlan, disk: Disk, logs: list[str]) -> None:
    """Write logs that are put together, then give them their names, the last first. Their old indexes are void."""
    directory = plan.view.directory
    for name in logs:
        _write_content(disk, plan.view.files[name], directory / f"{name}.cleaned")
    for name in logs:
        for kind in INDEXES:
            disk.remove(directory / name.replace(FileKind.LOG, kind))
    if logs:
        disk.sync_directory(directory)
    for name in sorted(logs, reverse=True):
        disk.rename(directory / f"{name}.cleaned", directory / name)


def _cut_and_sync(plan: PartitionPlan, disk: Disk, changed: dict[str, Content]) -> None:
    """Cut logs, the last first, and make durable what recovery has vouched for: the recovery point moves past it."""
    logs = [name for name in plan.view.files if name.endswith(".log")]
    for name in sorted(logs, reverse=True):
        path, size = plan.view.directory / name, plan.view.files[name].size
        if _in_memory(plan.view.files[name]) and name in changed:
            continue
        with disk.open(path) as file:
            if file.size() > size:
                file.truncate(size)
            file.sync()


def _origin(content: Content) -> str | None:
    """The name of the file that this is, or the start of; None where it is put together."""
    if len(content.parts) == 1 and isinstance(content.parts[0], FileRange) and content.parts[0].start == 0:
        return content.parts[0].path.name
    return None


def _write_file(disk: Disk, path: Path, content: Content) -> None:
    disk.write_file(path, b"".join(part for part in content.parts if isinstance(part, bytes)))


def _in_memory(content: Content) -> bool:
    return all(isinstance(part, bytes) for part in content.parts)


def _write_order(name: str) -> tuple[int, str]:
    """Leader epochs first: a start that finds some indexes already built looks at fewer batches. Snapshots last."""
    return 0 if name == LEADER_EPOCHS else 2 if name.endswith(".snapshot") else 1, name


def _removal_order(name: str) -> tuple[int, str]:
    """Swap files that are not valid before the cleaned files that tell so; then segments, the last first."""
    rank = 0 if name.endswith(".swap") else 1 if name.endswith(".cleaned") else 2
    inverted = "".join(chr(0x10FFFF - ord(char)) for char in name[:20])
    return rank, inverted + name[20:]
