"""Files of a few lines: checkpoints, meta.properties, partition.metadata, quorum-state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import BadCount, FormatError, UnknownVersion
from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.index_files import read_file

if TYPE_CHECKING:
    from kcli.inspector.verify.partition import LogBounds

MAX_BYTES = 16 << 20

REWRITE = "stop the broker; recovery writes the file anew from the logs"
REMOVE_EPOCHS = "stop the broker; recovery rebuilds the file from the batches"
CLEANER_STARTS = "nothing to do: the cleaner starts again from the log's start"
LOOK = "look for a lost segment: the log was further than it reaches now"
ASK_CLUSTER = "restore the file from a backup, or write it anew with the cluster's own id"

OFFSET_CHECKPOINTS = (
    FileKind.RECOVERY_POINTS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.LOG_START_OFFSETS,
    FileKind.CLEANER_OFFSETS,
)
ENDS = (FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS)
EPOCH_CHECKPOINTS = (FileKind.LEADER_EPOCHS, FileKind.REMOTE_LEADER_EPOCHS)


def check(kind: FileKind, path: Path) -> tuple[Any, list[Finding]]:
    """The parsed content of a small file, None where it is not sound, and the findings about it alone."""
    data, size = read_file(path, MAX_BYTES)
    prefix, action = _NAMES[kind]
    if size > MAX_BYTES:
        found = f"{size:,} bytes"
        return None, [_finding(path, f"{prefix}-content", "error", f"{MAX_BYTES:,} bytes or less", found, action)]
    if not data and kind in EPOCH_CHECKPOINTS:
        return (), []
    if not data and kind in OFFSET_CHECKPOINTS:
        action = "nothing to do: Kafka takes it for a checkpoint without entries"
        return (), [_finding(path, f"{prefix}-empty", "info", "a version and a count", "0 bytes", action)]
    try:
        return _parser(kind)(data), []
    except FormatError as error:
        suffix = "content"
        if isinstance(error, UnknownVersion):
            suffix = "version"
        elif isinstance(error, BadCount):
            suffix = "count"
        where = f" (byte {error.position:,})" if error.position else ""
        return None, [
            _finding(path, f"{prefix}-{suffix}", "error", f"a sound {prefix} file", error.reason + where, action)
        ]


def _parser(kind: FileKind) -> Callable[[bytes], Any]:
    from formats import checkpoint, properties, quorum_state

    if kind in EPOCH_CHECKPOINTS:
        return checkpoint.parse_leader_epochs
    if kind is FileKind.META_PROPERTIES:
        return lambda data: properties.meta_properties(properties.parse(data))
    if kind is FileKind.PARTITION_METADATA:
        return properties.parse_partition_metadata
    if kind is FileKind.QUORUM_STATE:
        return quorum_state.parse
    return checkpoint.parse_offsets


_NAMES = {
    FileKind.LEADER_EPOCHS: ("checkpoint", REMOVE_EPOCHS),
    FileKind.REMOTE_LEADER_EPOCHS: ("checkpoint", "copy the segment to tiered storage again, if it is still local"),
    FileKind.META_PROPERTIES: ("meta-properties", ASK_CLUSTER),
    FileKind.PARTITION_METADATA: ("partition-metadata", ASK_CLUSTER),
    FileKind.QUORUM_STATE: (
        "quorum-state",
        "delete the file while the controller is stopped, if the other voters are sound",
    ),
    **dict.fromkeys(OFFSET_CHECKPOINTS, ("checkpoint", REWRITE)),
}


def check_leader_epochs(
    path: Path, entries: Sequence[tuple[int, int]], bounds: LogBounds | None, epochs: Sequence[tuple[int, int]]
) -> Iterator[Finding]:
    """A leader epoch checkpoint: its order, and beside the log. epochs: (epoch, first offset) runs of the batches."""
    for before, entry in pairwise(entries):
        if entry[0] <= before[0] or entry[1] < before[1]:
            expected = f"an epoch above {before[0]} and an offset from {before[1]:,} on"
            yield _finding(
                path, "checkpoint-order", "error", expected, f"epoch {entry[0]}, offset {entry[1]:,}", REMOVE_EPOCHS
            )
    for epoch, offset in entries:
        if epoch < 0 or offset < 0:
            yield _finding(
                path, "checkpoint-negative", "error", "0 or more", f"epoch {epoch}, offset {offset}", REMOVE_EPOCHS
            )
        elif bounds is not None and bounds.is_sound and offset > bounds.end:
            expected = f"a start offset up to {bounds.end:,}, where the log ends"
            found = f"epoch {epoch} from offset {offset:,}"
            yield _finding(path, "checkpoint-offset", "error", expected, found, REMOVE_EPOCHS)
    # Entries begin at the log start offset: batches below the first one say nothing.
    known = sorted(entries, key=lambda entry: entry[1])
    for epoch, offset in epochs:
        if epoch < 0:
            continue
        if not entries:
            expected = f"epoch {epoch} from offset {offset:,} on"
            yield _finding(path, "checkpoint-empty", "warning", expected, "no entries", REMOVE_EPOCHS)
            return
        here = [entry[0] for entry in known if entry[1] <= offset]
        if here and here[-1] != epoch:
            found = f"epoch {here[-1]}"
            expected = f"epoch {epoch} at offset {offset:,}, as its batch says"
            yield _finding(path, "checkpoint-epoch", "warning", expected, found, REMOVE_EPOCHS)
            return


def check_offsets(
    kind: FileKind, path: Path, entries: Sequence[tuple[str, int, int]], logs: dict[tuple[str, int], LogBounds]
) -> Iterator[Finding]:
    """One of the four offset checkpoints of a log directory beside the partitions in it."""
    absent = 0
    seen: set[tuple[str, int]] = set()
    for topic, partition, offset in entries:
        name = f"{topic}-{partition}"
        if (topic, partition) in seen:
            yield _finding(path, "checkpoint-duplicate", "warning", "one entry a partition", f"{name} again", REWRITE)
        seen.add((topic, partition))
        bounds = logs.get((topic, partition))
        if offset < 0 or partition < 0:
            yield _finding(path, "checkpoint-negative", "error", "0 or more", f"{name}: {offset}", REWRITE)
        elif bounds is None:
            absent += 1
        elif offset > bounds.end and kind is FileKind.LOG_START_OFFSETS:
            yield _start_behind_end(path, topic, partition, offset, bounds)
        elif offset > bounds.end and bounds.is_sound and not (bounds.is_short and kind in ENDS):
            expected = f"{name}: an offset up to {bounds.end:,}, where the log ends"
            yield _finding(
                path,
                "checkpoint-offset",
                "warning",
                expected,
                f"{offset:,}",
                CLEANER_STARTS if kind is FileKind.CLEANER_OFFSETS else LOOK,
            )
    if absent and logs:
        found = f"{absent:,} partitions that are not in this directory"
        yield _finding(path, "checkpoint-absent", "info", "partitions of this directory", found, "nothing to do")


def _start_behind_end(path: Path, topic: str, partition: int, offset: int, bounds: LogBounds) -> Finding:
    return Finding(
        path=str(path),
        kind="log-start-offset",
        severity="error",
        position=0,
        expected=f"{topic}-{partition}: an offset up to {bounds.end:,}, where the log ends",
        found=f"{offset:,}: Kafka deletes all of {topic}-{partition} when it starts, and begins it anew there",
        action=f"do not start the broker before the entry is mended: the log begins at {bounds.first:,}",
        command=next_steps.change(path, f"{topic} {partition} {offset}", f"{topic} {partition} {bounds.first}"),
    )


def _finding(path: Path, kind: str, severity: Severity, expected: str, found: str, action: str) -> Finding:
    return Finding(
        path=str(path),
        kind=kind,
        severity=severity,
        position=0,
        expected=expected,
        found=found,
        action=action,
        command=_command(path, action),
    )


def _command(path: Path, action: str) -> str | None:
    if action == REWRITE:
        return next_steps.recover_log_directory(path.parent)
    if action == REMOVE_EPOCHS:
        return next_steps.recover(path.parent)
    if action.startswith("nothing to do"):
        return None
    return next_steps.dump_metadata(path.parent) if path.name == FileKind.META_PROPERTIES else next_steps.show(path)
