"""A snapshot of the metadata log whose name has not its offset or its epoch.

    epoch     that in the name is that of the snapshot's batches
    offset    the batch of the log that ends there has the time in the snapshot's header, and the snapshot's epoch
    ahead     by a name of a later epoch than the log's last, or of the same epoch and an offset beyond its end, Kafka's
              start deletes the log
    beyond    by a name of an earlier epoch, and an offset beyond the log's end, the start reads no record of the log,
              and the controller appends none

A follower may have fetched a snapshot that is ahead of its log: the log then has no batch of its time. Source:
RecordsSnapshotWriter, KafkaRaftLog.truncateToLatestSnapshot, SnapshotRegistry; KIP-630.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from formats import control_record
from formats.control_record import ControlType
from formats.errors import FormatError
from formats.file_name import parse
from formats.kernels.columns import BatchRow
from kcli.errors import UnreadableInput
from kcli.log.partition_view import Content, ContentSource
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.stored_batches import batches_of
from kcli.metadata_log.snapshot_end import whole_batches
from kcli.metadata_log.snapshot_file import SnapshotId


class Misnamed(NamedTuple):
    """How the name of a snapshot contradicts its batches and the log, in words; its right name, None if that is not
    certain; what Kafka's start does by the wrong name, None if it does no harm; and whether Kafka does not start."""

    reason: str
    right: str | None
    harm: str | None
    refuses_start: bool


class _End(NamedTuple):
    """The end of a batch: the offset after it, its leader epoch, its highest timestamp."""

    offset: int
    epoch: int
    timestamp_ms: int


def misnamed(directory: Path, files: Mapping[str, Content], logs: Sequence[str], name: str) -> Misnamed | None:
    """Return how the name of a snapshot is wrong, of which at most the end is missing; None if it is not, or if nothing
    tells it. logs: the names of the segments, in order. Raises UnreadableInput."""
    path = str(directory / name)
    parsed, told = parse(name), _told(ContentSource(path, whole_batches(path, files[name])))
    if parsed is None or told is None:
        return None
    named, (epoch, timestamp_ms) = SnapshotId(parsed.base_offset or 0, parsed.epoch or 0), told
    last = _last(directory, files, logs)
    if named.epoch == epoch and named.offset <= last.offset:  # the log need not be read for most snapshots
        return None
    ends = list(_ends(directory, files, logs))
    fitting = [each.offset for each in ends if (each.epoch, each.timestamp_ms) == (epoch, timestamp_ms)]
    is_older = bool(fitting) and named.offset > last.offset and timestamp_ms < last.timestamp_ms
    if named.epoch == epoch and not is_older:
        return None
    offset = named.offset if named.offset in fitting or not fitting else None
    offset = fitting[0] if offset is None and len(fitting) == 1 else offset
    reasons = [f"its batches are of epoch {epoch:,}, not {named.epoch:,}"] if epoch != named.epoch else []
    if is_older:
        reasons.append(f"it has the time of the log's batch that ends below {fitting[0]:,}, not {named.offset:,}")
    right = None if offset is None else SnapshotId(offset, epoch).file_name
    is_beyond = 0 < last.offset < named.offset and named.epoch < last.epoch
    return Misnamed(", and ".join(reasons), right, _harm(named, last), is_beyond)


def _harm(named: SnapshotId, last: _End) -> str | None:
    """Return what Kafka's start does with a snapshot of this name that is older than it says. last: the log's end."""
    if not last.offset:
        return None
    if (named.epoch, named.offset) > (last.epoch, last.offset):
        return (
            f"Kafka takes it to be ahead of the log, and deletes the log, which has offsets up to {last.offset - 1:,}"
        )
    if named.offset > last.offset:
        return (
            f"Kafka does not get ready: it reads no record of the log, which ends at {last.offset:,}, and appends none"
        )
    return None


def _told(source: ContentSource) -> tuple[int, int] | None:
    """Return the leader epoch of a snapshot's batches, and the time in its header; None if it has no header, or if not
    all batches have one epoch. Closes the source. Raises UnreadableInput."""
    epochs, timestamp_ms = set[int](), None
    try:
        for row, stored in batches_of(source):
            epochs.add(row.leader_epoch)
            if timestamp_ms is None:
                header = control_record.parse(stored[0].key, stored[0].value) if row.is_control and stored else None
                if header is None or header.type is not ControlType.SNAPSHOT_HEADER:
                    return None
                timestamp_ms = int(header.value["lastContainedLogTimestamp"])
    except FormatError as error:
        raise UnreadableInput(source.name, error.reason) from None
    finally:
        source.close()
    return (epochs.pop(), timestamp_ms) if timestamp_ms is not None and len(epochs) == 1 else None


def _last(directory: Path, files: Mapping[str, Content], logs: Sequence[str]) -> _End:
    """Return the end of the log, for which its last segment with a batch is read. Raises UnreadableInput."""
    for name in reversed(logs):
        ends = list(_ends(directory, files, [name]))
        if ends:
            return ends[-1]
    return _End(0, 0, -1)


def _ends(directory: Path, files: Mapping[str, Content], logs: Sequence[str]) -> Iterator[_End]:
    """Yield the end of each batch of the log. Raises UnreadableInput."""
    for name in logs:
        source = ContentSource(str(directory / name), files[name])
        try:
            for part in read_segment(source):
                if isinstance(part, Damage):
                    continue
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    yield _End(row.last_offset + 1, row.leader_epoch, row.max_timestamp)
                part.release()
        finally:
            source.close()
