"""What Kafka's start does with the metadata log beyond what it does with any log: it fits log and snapshots together.

    .checkpoint.part, .checkpoint.deleted, snapshots below the log start   go
    the log begins above 0 and no snapshot reaches its start               Kafka does not start
    the latest snapshot (by epoch, then offset) is ahead of the log:       the log goes, and begins anew empty at the
    of a later epoch, or of its last epoch and beyond its end              snapshot's offset; older snapshots go too

Source: KafkaRaftLog (createLog, recoverSnapshots, truncateToLatestSnapshot); KIP-630.
"""

from __future__ import annotations

from dataclasses import replace

from formats.file_name import FileKind, FileName, build, parse
from kcli.log.loader import Event, EventKind, LoadedOffsets, LogLoader
from kcli.log.recovery_view import StartRefused

Snapshot = tuple[int, int]  # epoch, offset: so they are ordered


def fit_to_snapshots(loader: LogLoader, offsets: LoadedOffsets) -> LoadedOffsets:
    """Play it behind the start of the log itself. Returns where the log begins and ends then. Raises StartRefused."""
    start = offsets.log_start_offset
    snapshots, unneeded = _find(loader, start)
    latest = max(snapshots, default=None)
    if start > 0 and latest is None:
        name = build(FileName(FileKind.LOG, min(loader.segments)))
        raise StartRefused(name, f"the metadata log begins at {start:,} and no snapshot reaches that far")
    for name in unneeded:
        _remove(loader, name, "a snapshot that was not complete, or no longer needed")
    if latest is None or not _is_ahead(latest, loader, offsets):
        return offsets
    epoch, offset = latest
    reason = f"the latest snapshot, of epoch {epoch:,} and all below {offset:,}, is ahead of the log"
    loader.truncate_fully(offset, reason)
    for older in sorted(snapshots.keys() - {latest}):
        _remove(loader, snapshots[older], f"older than the snapshot of epoch {epoch:,} and all below {offset:,}")
    return replace(offsets, log_start_offset=offset, log_end_offset=offset, recovery_point=offset)


def _find(loader: LogLoader, log_start_offset: int) -> tuple[dict[Snapshot, str], list[str]]:
    """The snapshots to keep, and the names of the other ones."""
    kept: dict[Snapshot, str] = {}
    unneeded = []
    for name in loader.view.names():
        parsed = parse(name)
        if parsed is None or parsed.kind is not FileKind.KRAFT_SNAPSHOT or parsed.base_offset is None:
            continue
        if parsed.state or parsed.base_offset < log_start_offset:
            unneeded.append(name)
        else:
            kept[parsed.epoch or 0, parsed.base_offset] = name
    return kept, unneeded


def _is_ahead(snapshot: Snapshot, loader: LogLoader, offsets: LoadedOffsets) -> bool:
    latest_epoch = loader.epochs.latest_epoch or 0
    return snapshot > (latest_epoch, offsets.log_end_offset)


def _remove(loader: LogLoader, name: str, reason: str) -> None:
    event = Event(EventKind.LEFTOVER_REMOVED, name, reason, bytes=loader.view.size(name))
    loader.events.append(event)
    loader.view.remove(name)
