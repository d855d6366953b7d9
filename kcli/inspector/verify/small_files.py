"""Checks of small text files: checkpoints, meta.properties, partition.metadata, quorum-state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import BadCount, BadNumber, FormatError, UnknownVersion
from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import REFUSES, Finding, Severity
from kcli.inspector.verify.index_files import read_file
from kcli.inspector.verify.lost_offsets import CHECKPOINT_KINDS
from kcli.inspector.verify.zeros import zeros_text
from kcli.log.log_directory import read_properties
from kcli.log.odd_entries import CUT, is_cut, negative_text, repeated
from kcli.log.recovery.epoch_starts import same_as
from kcli.log.recovery.older_topics import of_older_topic, strays_in
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from formats.checkpoint import OffsetEntry
    from kcli.inspector.verify.partition import LogBounds

MAX_BYTES = 16 << 20

REWRITE = "stop the broker; recovery writes the file anew from the logs, with --in-place for --dry-run"
REMOVE = "stop the broker; recovery removes the file, which the cleaner makes anew, with --in-place for --dry-run"
REBUILD_EPOCHS = "stop the broker; salvage rebuilds the file from the batches, with --in-place for --dry-run"
CLEANER_STARTS = "nothing to do: the cleaner starts again from the log's start"
ANEW = "nothing to do: Kafka writes the file anew while it runs"
LOOK = "look for a lost segment: the log was further than it reaches now"
ELECTS = "nothing to do: the node begins an election in the next epoch"
MOVE_QUORUM_STATE = (
    "stop the controller, and move the file away: a start writes it anew; where there are other voters, start it only "
    "when no election is under way, as it does not know whom it has voted for"
)
ASK_CLUSTER = "restore the file from a backup, or write it anew with the cluster's own id"

OFFSET_CHECKPOINTS = (
    FileKind.RECOVERY_POINTS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.LOG_START_OFFSETS,
    FileKind.CLEANER_OFFSETS,
)
EPOCH_CHECKPOINTS = (FileKind.LEADER_EPOCHS, FileKind.REMOTE_LEADER_EPOCHS)


def check(kind: FileKind, path: Path) -> tuple[Any, list[Finding]]:
    """Return the parsed content of a small file (None if it is damaged), and the findings for which no other file is
    needed."""
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
        parsed = _parser(kind)(data)
        if kind is FileKind.QUORUM_STATE and parsed.refusal:
            expected = f"a leader epoch below {parsed.leader_epoch}"
            finding = _finding(path, f"{prefix}-content", "error", expected, f"{parsed.refusal}{REFUSES}", action)
            return parsed, [replace(finding, refuses_start=True)]
        if kind is FileKind.QUORUM_STATE and (stranger := parsed.stranger) is not None:
            voters = ", ".join(map(str, parsed.current_voters or ()))
            found = f"leader or vote {stranger}, which is none of them: it is another node's, or an older quorum's"
            return parsed, [_finding(path, f"{prefix}-voters", "warning", f"one of the voters {voters}", found, ELECTS)]
        ends_early = kind in OFFSET_CHECKPOINTS and is_cut(data)
        expected = "the number of entries in line 2"
        return parsed, [_finding(path, f"{prefix}-count", "warning", expected, CUT, action)] if ends_early else []
    except FormatError as error:
        suffix = "content"
        if isinstance(error, UnknownVersion):
            suffix = "version"
        elif isinstance(error, BadCount):
            suffix = "count"
        where = f" (byte {error.position:,})" if error.position else ""
        reason = f"{mark_text(data)}{error.reason}" if kind is FileKind.META_PROPERTIES else error.reason
        found = zeros_text(data) or reason + where
        finding = _finding(path, f"{prefix}-{suffix}", "error", f"a sound {prefix} file", found, action)
        if kind is FileKind.META_PROPERTIES and _lacks_cluster_id(data):
            finding = _without_cluster_id(finding, path)
        if _keeps_from_starting(kind, error):
            finding = replace(finding, found=f"{found}{REFUSES}", refuses_start=True)
        return None, [finding]


def mark_text(data: bytes) -> str:
    """Return the words that begin the finding of a properties file with a byte order mark; "" if it has none."""
    from formats.checkpoint import is_utf16
    from formats.properties import BYTE_ORDER_MARK

    if is_utf16(data):
        return "UTF-16, not ISO-8859-1: "
    has_mark = data.startswith(BYTE_ORDER_MARK)
    return "begins with a UTF-8 byte order mark, which Kafka reads as a part of the first key: " if has_mark else ""


def _lacks_cluster_id(data: bytes) -> bool:
    """Whether a meta.properties has a node.id and no cluster.id."""
    from formats import properties

    try:
        entries = properties.parse(data).entries
    except FormatError:
        return False
    return "node.id" in entries and "cluster.id" not in entries


def _without_cluster_id(finding: Finding, path: Path) -> Finding:
    """Return the finding of a meta.properties without cluster.id. If the other log directories of the node, in the same
    parent directory, agree on the cluster.id, the finding has the command that appends the line; no other file of this
    log directory has the cluster.id."""
    mine = read_properties(path)
    beside = [each for each in sorted(path.absolute().parent.parent.glob(f"*/{path.name}")) if each.is_file()]
    ids: dict[str, Path] = {}
    for each in beside:
        try:
            other = read_properties(each)
        except UnreadableInput:
            continue
        if "cluster.id" in other and other.get("node.id") == mine["node.id"]:
            ids.setdefault(other["cluster.id"], each)
    if len(ids) == 1:
        cluster_id, source = ids.popitem()
        action = (
            f"append the cluster.id of {source}, a log directory of the same node; make sure that it is this cluster's"
        )
        command = next_steps.append(path, f"cluster.id={cluster_id}")
        return replace(finding, action=action, command=command)
    action = (
        "append a line cluster.id=ID, which no other file of this directory has: that in meta.properties of another "
        "log directory or node, as kcli cluster shows it, too; in a cluster of this node alone any ID does"
    )
    where = next_steps.quoted(path.absolute().parent.parent)
    return replace(finding, action=action, command=f"grep -rs --include={path.name} '^cluster.id=' {where}")


def _keeps_from_starting(kind: FileKind, error: FormatError) -> bool:
    """Return whether Kafka does not start with a damaged small file. Kafka ignores an offset checkpoint with a bad
    number, and reads the checkpoint of a segment in tiered storage only when a consumer needs the segment."""
    is_passed_over = kind in OFFSET_CHECKPOINTS and isinstance(error, BadNumber)
    return not is_passed_over and kind is not FileKind.REMOTE_LEADER_EPOCHS


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
    FileKind.LEADER_EPOCHS: ("checkpoint", REBUILD_EPOCHS),
    FileKind.REMOTE_LEADER_EPOCHS: ("checkpoint", "copy the segment to tiered storage again, if it is still local"),
    FileKind.META_PROPERTIES: ("meta-properties", ASK_CLUSTER),
    FileKind.PARTITION_METADATA: ("partition-metadata", ASK_CLUSTER),
    FileKind.QUORUM_STATE: ("quorum-state", MOVE_QUORUM_STATE),
    **dict.fromkeys(OFFSET_CHECKPOINTS, ("checkpoint", REWRITE)),
    FileKind.CLEANER_OFFSETS: ("checkpoint", REMOVE),
}


def check_leader_epochs(
    path: Path, entries: Sequence[tuple[int, int]], bounds: LogBounds | None, epochs: Sequence[tuple[int, int]]
) -> Iterator[Finding]:
    """Yield the findings in a leader-epoch-checkpoint: entries out of order, and entries that contradict the log.

    entries: (epoch, start offset). bounds: None if the log is not known. epochs: (epoch, first offset) of the runs of
    batches with one leader epoch.
    """
    for before, entry in pairwise(entries):
        if entry[0] <= before[0] or entry[1] < before[1]:
            expected = f"an epoch above {before[0]} and an offset from {before[1]:,} on"
            yield _finding(
                path, "checkpoint-order", "error", expected, f"epoch {entry[0]}, offset {entry[1]:,}", REBUILD_EPOCHS
            )
    for epoch, offset in entries:
        if epoch < 0 or offset < 0:
            yield _finding(
                path, "checkpoint-negative", "error", "0 or more", f"epoch {epoch}, offset {offset}", REBUILD_EPOCHS
            )
        elif bounds is not None and bounds.is_sound and offset > bounds.end:
            expected = f"a start offset up to {bounds.end:,}, where the log ends"
            found = f"epoch {epoch} from offset {offset:,}"
            yield _finding(path, "checkpoint-offset", "error", expected, found, REBUILD_EPOCHS)
    if not entries:
        if epoch_at := next((each for each in epochs if each[0] >= 0), None):
            expected = f"epoch {epoch_at[0]} from offset {epoch_at[1]:,} on"
            yield _finding(path, "checkpoint-empty", "warning", expected, "no entries", REBUILD_EPOCHS)
        return
    wrong = _wrong_epoch(sorted(entries, key=lambda entry: entry[1]), bounds, epochs)
    if wrong is not None:
        stated, (epoch, offset) = wrong
        expected = f"epoch {epoch} at offset {offset:,}, as its batch says"
        found = f"epoch {stated}"
        starts = {start for _, start in epochs}
        if any(start not in starts for _, start in entries[1:] if bounds is not None and start < bounds.end):
            found += _whose_file(path)
        yield _finding(path, "checkpoint-epoch", "warning", expected, found, REBUILD_EPOCHS)


def _whose_file(path: Path) -> str:
    """Return, in words, of which other directory beside its own a partition's checkpoint is a copy; "" if of none."""
    try:
        other = next(same_as(path), None)
    except OSError:
        return ""
    return "" if other is None else f": the file is that of {other.parent.name}, byte for byte"


def _wrong_epoch(
    entries: Sequence[tuple[int, int]], bounds: LogBounds | None, epochs: Sequence[tuple[int, int]]
) -> tuple[int, tuple[int, int]] | None:
    """Return the first epoch that the entries of a leader-epoch-checkpoint have for an offset, though the batch there
    has another, with the batch's epoch and that offset; None if there is none. Offsets below the first entry, which
    begins at the log start offset, cannot be compared. For an entry that begins in a gap, the last batch shows whether
    it is right. entries: in the order of their start offsets."""
    last = [(epochs[-1][0], bounds.end - 1)] if epochs and bounds is not None and epochs[-1][1] < bounds.end else []
    for epoch, offset in (*epochs, *last):
        covering = [entry[0] for entry in entries if entry[1] <= offset]
        if epoch >= 0 and covering and covering[-1] != epoch:
            return covering[-1], (epoch, offset)
    end = bounds.end if bounds is not None and bounds.is_dense else 0
    for epoch, start in entries:
        batches = [each[0] for each in epochs if each[1] <= start < end]
        if batches and batches[-1] not in (-1, epoch):
            return epoch, (batches[-1], start)
    return None


def check_offsets(
    kind: FileKind, path: Path, entries: Sequence[OffsetEntry], logs: dict[TopicPartition, LogBounds]
) -> Iterator[Finding]:
    """Yield the findings in an offset checkpoint of a log directory: entries that no broker writes, and those that
    Kafka takes and that contradict the logs of the partitions."""
    absent = 0
    find_strays = cache(partial(strays_in, path.parent))
    anew = REMOVE if kind is FileKind.CLEANER_OFFSETS else REWRITE
    for found in repeated(entries).values():
        yield _finding(path, "checkpoint-duplicate", "warning", "one entry a partition", found, anew)
    last = {TopicPartition(topic, partition): offset for topic, partition, offset in entries}
    for name, offset in last.items():
        topic, partition = name
        bounds = logs.get(name)
        if offset < 0 or partition < 0:
            found = negative_text(kind, name, offset)
            yield _finding(path, "checkpoint-negative", "error", "0 or more", found, anew)
        elif bounds is None:
            absent += 1
        elif offset > bounds.end and kind is FileKind.LOG_START_OFFSETS:
            yield _start_behind_end(path, topic, partition, offset, bounds)
        elif offset > bounds.end and bounds.is_sound and not (bounds.is_short and kind in CHECKPOINT_KINDS):
            expected = f"{name}: an offset up to {bounds.end:,}, where the log ends"
            is_end = kind in CHECKPOINT_KINDS
            older = of_older_topic(path.parent / f"{name}", find_strays().get(name, ()), offset) if is_end else None
            if older is not None:
                found = f"{offset:,}: that of another topic of this name, whose records are in {older.name}"
                yield _finding(path, "checkpoint-older", "warning", expected, f"{found}; no offset is lost", ANEW)
                continue
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
    """Return the finding of a log start offset (`offset`) above the log end offset: either the entry is wrong, or the
    log has lost its end. It has lost its end if another checkpoint has the entry's offset or a higher one for the
    log."""
    if offset <= bounds.reached:
        return Finding(
            path=str(path),
            kind="log-start-offset",
            severity="warning",
            position=0,
            expected=f"{topic}-{partition}: an offset up to {bounds.end:,}, where the log ends",
            found=f"{offset:,}: the log had reached {bounds.reached:,}, and lost its end. Kafka deletes what is left "
            f"when it starts, and begins the log anew at {offset:,}",
            action="nothing to do: what is left was deleted before, as it is below the log start",
        )
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
    command = _command(path, action)
    if action == REBUILD_EPOCHS and path.absolute().parent.name == METADATA_DIRECTORY:  # each start recovers this log
        action = "stop the node, and move the file away: a start rebuilds it from the batches"
        command = next_steps.move([(path, path.with_name(f"{path.name}.moved"))])
    return Finding(
        path=str(path),
        kind=kind,
        severity=severity,
        position=0,
        expected=expected,
        found=found,
        action=action,
        command=command,
    )


def _command(path: Path, action: str) -> str | None:
    if action in (REWRITE, REMOVE):
        return next_steps.recover_log_directory(path.parent)
    if action == REBUILD_EPOCHS:
        return next_steps.salvage(path.parent)
    if action == MOVE_QUORUM_STATE:
        return next_steps.move([(path, path.with_name(f"{path.name}.moved"))])
    if action.startswith("nothing to do"):
        return None
    return next_steps.dump_metadata(path.parent) if path.name == FileKind.META_PROPERTIES else next_steps.show(path)
