"""The further steps of Kafka's start on the metadata log: log and snapshots must fit together.

    .checkpoint.part, .checkpoint.deleted, snapshots below the log start   are deleted
    a directory of such a name that is not empty                           Kafka does not start: it cannot delete it
    the log begins above 0 and no snapshot reaches its start               Kafka does not start
    the latest snapshot is a directory                                     Kafka does not start
    the latest snapshot (by epoch, then offset) is ahead of the log:       the log is deleted, and begins empty at the
    of a later epoch than the log's last, or of the same epoch and         snapshot's offset; older snapshots are
    beyond the log end offset                                              deleted, too

Source: KafkaRaftLog (createLog, recoverSnapshots, truncateToLatestSnapshot); KIP-630.
"""

from __future__ import annotations

from dataclasses import replace

from formats.file_name import FileKind, FileName, build, parse
from kcli.errors import StartRefused
from kcli.log.partition_directory import is_filled_directory
from kcli.log.recovery.loader import Event, EventKind, LoadedOffsets, LogLoader

Snapshot = tuple[int, int]  # epoch, offset: snapshots are compared in this order


NO_SNAPSHOT = "no snapshot reaches that far"
"""The end of the reason for which a start is refused if the metadata log begins above 0, and no snapshot has the
records below its start."""


def fit_to_snapshots(loader: LogLoader, offsets: LoadedOffsets) -> LoadedOffsets:
    """Perform the further steps (see the module) on the loader's view, after `load`. offsets: what `load` returned.
    Returns the log's offsets after these steps. Raises StartRefused."""
    start = offsets.log_start_offset
    snapshots, unneeded = _find(loader, start)
    latest = max(snapshots, default=None)
    if start > 0 and latest is None:
        name = build(FileName(FileKind.LOG, min(loader.segments)))
        raise StartRefused(name, f"the metadata log begins at {start:,} and {NO_SNAPSHOT}")
    if latest is not None and snapshots[latest] not in loader.view:
        raise StartRefused(snapshots[latest], "the latest snapshot is a directory")
    for name in unneeded:
        _remove(loader, name, "a snapshot that was not complete, or no longer needed")
    if latest is None or not _is_ahead(latest, loader, offsets):
        return offsets
    epoch, offset = latest
    reason = f"the latest snapshot, of epoch {epoch:,} and all below {offset:,}, is ahead of the log"
    loader.truncate_fully(offset, reason)
    for older in sorted(snapshots.keys() - {latest}):
        if snapshots[older] in loader.view:
            _remove(loader, snapshots[older], f"older than the snapshot of epoch {epoch:,} and all below {offset:,}")
    return replace(offsets, log_start_offset=offset, log_end_offset=offset, recovery_point=offset)


def _find(loader: LogLoader, log_start_offset: int) -> tuple[dict[Snapshot, str], list[str]]:
    """Return the names of the snapshots to keep, by epoch and offset, and the names of the snapshot files to remove.
    Raises StartRefused."""
    kept: dict[Snapshot, str] = {}
    unneeded = []
    for name in sorted({*loader.view.names(), *loader.view.in_the_way}):
        parsed = parse(name)
        if parsed is None or parsed.kind is not FileKind.KRAFT_SNAPSHOT or parsed.base_offset is None:
            continue
        if not parsed.state and parsed.base_offset >= log_start_offset:
            kept[parsed.epoch or 0, parsed.base_offset] = name
        elif name in loader.view:
            unneeded.append(name)
        elif is_filled_directory(loader.view.directory / name):
            raise StartRefused(name, "a directory that is not empty, where Kafka deletes a snapshot")
    return kept, unneeded


def _is_ahead(snapshot: Snapshot, loader: LogLoader, offsets: LoadedOffsets) -> bool:
    latest_epoch = loader.epochs.latest_epoch or 0
    return snapshot > (latest_epoch, offsets.log_end_offset)


def _remove(loader: LogLoader, name: str, reason: str) -> None:
    event = Event(EventKind.LEFTOVER_REMOVED, name, reason, bytes=loader.view.size(name))
    loader.events.append(event)
    loader.view.remove(name)
