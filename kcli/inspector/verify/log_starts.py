"""The findings of wrong entries in a broker's log-start-offset-checkpoint (see kcli.log.recovery.wrong_log_starts), and
of such a file that is empty, although records of its partitions were deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from formats.checkpoint import OffsetEntry, build_offsets
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind
from kcli.errors import KcliError, UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.config import InvalidConfig
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.epoch_starts import may_be_made_anew, start_by_epochs
from kcli.log.recovery.wrong_log_starts import wrong_log_starts
from kcli.protocol.topic_partition import TopicPartition

NAMES_SHOWN = 3
WRITE = "before a start, write the file anew with these offsets"
COMPARE = (
    "or a start after a crash has made a lost leader-epoch-checkpoint anew, and nothing was deleted: compare with "
    "another replica, as Kafka deletes what is below such an offset"
)
"""The advice where segments begin where the leader epochs do, and no offset is missing before."""
BELOW = ("log-start-offset", "checkpoint-duplicate")
"""The kinds of findings about single entries that follow from a file that is wrong as a whole."""


def wrong_starts(around: Surroundings) -> Iterator[tuple[Finding, Callable[[Finding], bool]]]:
    """Yield the finding of log start offsets that no broker has written, with a predicate for its consequences. Raises
    UnreadableInput."""
    if not around.is_broker:
        return
    of_other = around.of_others.get(FileKind.LOG_START_OFFSETS)
    wrong = wrong_log_starts(around.path, around.log_config, of_other)
    if wrong is None:
        return
    path = around.path / FileKind.LOG_START_OFFSETS
    whole = "checkpoint-copied" if of_other is None else "checkpoint-foreign"
    kind = whole if wrong.is_whole else "log-start-offset"
    finding = Finding(
        path=str(path),
        kind=kind,
        severity="error" if wrong.is_certain else "warning",
        position=0,
        expected="the log start offsets of partitions whose first records were deleted",
        found=wrong.reason,
        action="do not start the broker before the file is mended: salvage leaves out its wrong entries, so that these "
        "logs begin where their leader epochs or their first segments do; with --in-place for --dry-run",
        command=next_steps.salvage_log_directory(around.path),
    )
    yield finding, partial(_follows, finding) if wrong.is_whole else lambda _: False


class _Start(NamedTuple):
    """The log start offset of a log, by its leader epochs. is_certain: False if a start of Kafka may have made these
    anew."""

    offset: int
    is_certain: bool


def or_forgotten_starts(finding: Finding, around: Surroundings) -> Finding:
    """Return the finding. The note that log-start-offset-checkpoint has no bytes becomes a warning if the leader epochs
    of logs show that their first records were deleted: without entries Kafka serves these records again."""
    is_note = finding.kind == "checkpoint-empty" and Path(finding.path).name == FileKind.LOG_START_OFFSETS
    found = _starts(around) if is_note else {}
    starts = {each: start.offset for each, start in found.items() if start.is_certain}
    if not starts:
        return finding
    text = "0 bytes: the records below, which were deleted, are served again"
    return _with_starts(replace(finding, severity="warning", found=text), starts, starts)


def forgotten_starts(around: Surroundings) -> Iterator[Finding]:
    """Yield a warning for log-start-offset-checkpoint if it has bytes, and lacks the log start offsets of logs whose
    leader epochs show that their first records were deleted: Kafka serves these records again."""
    path = around.path / FileKind.LOG_START_OFFSETS
    try:
        known = LogDirectory(around.path).offsets(FileKind.LOG_START_OFFSETS) if path.stat().st_size else None
    except (FormatError, KcliError, OSError):  # another check reports this error
        return
    if known is None or not around.is_broker:
        return
    found = {each: start for each, start in _starts(around).items() if start.offset > known.get(each, 0)}
    certain = {each: start.offset for each, start in found.items() if start.is_certain}
    doubtful = {each: start.offset for each, start in found.items() if not start.is_certain}
    for starts in filter(None, (certain, doubtful)):
        first = next(iter(starts))
        finding = Finding(
            path=str(path),
            kind="log-start-offset",
            severity="warning",
            position=0,
            found=f"{f'{known[first]:,}' if first in known else 'no entry'} for {first}, as where it was moved here "
            "from another log directory, where deleted segments are there again, or where the file is older: the "
            "records below, which were deleted, are served again",
            action=WRITE,
        )
        finding = _with_starts(finding, starts, known | certain)
        yield replace(finding, action=COMPARE, command=None) if starts is doubtful else finding


def _with_starts(
    finding: Finding, starts: Mapping[TopicPartition, int], entries: Mapping[TopicPartition, int]
) -> Finding:
    """Return the finding with the log start offsets that the file lacks (`starts`), and with the command that writes
    `entries` to the file."""
    logs = ", ".join(f"{each} from {start:,} on" for each, start in list(starts.items())[:NAMES_SHOWN])
    more = f", and {len(starts) - NAMES_SHOWN:,} more logs" if len(starts) > NAMES_SHOWN else ""
    data = build_offsets([OffsetEntry(each.topic, each.partition, offset) for each, offset in entries.items()])
    return replace(
        finding,
        expected=f"the log start offsets of {logs}{more}, where their leader epochs begin",
        action=WRITE,
        command=next_steps.write(finding.path, data.decode()),
    )


def _starts(around: Surroundings) -> dict[TopicPartition, _Start]:
    """Return the log start offsets of the logs whose leader-epoch-checkpoint begins above their first batch, by
    partition; {} if files cannot be read. A directory that has certainly exchanged its name, or has the records of a
    partition whose directory is missing, counts for the partition whose log it has. Left out are one that may have
    exchanged its name, and those of which Kafka serves no record."""
    doubtful = {path for each in around.exchanged_names if not each.is_certain for path in each.paths}
    owners = {path: whose for each in around.exchanged_names if each.is_certain for path, whose in each.owners.items()}
    owners |= {each.renamed.path: each.partition for each in around.missing if each.renamed is not None}
    starts: dict[TopicPartition, _Start] = {}
    try:
        for each in LogDirectory(around.path).partitions():
            partition = owners.get(each.path, each.partition)
            is_served = each.path in owners or not around.leaves_aside(each)
            is_out = each.name.state or each.path in doubtful or not is_served
            if is_out or partition.topic == METADATA_TOPIC or around.log_config(partition.topic).only_compact:
                continue
            if start := start_by_epochs(each.path):
                starts[partition] = _Start(start, is_certain=not may_be_made_anew(each.path, start))
    except (UnreadableInput, InvalidConfig):  # another check reports this error
        return {}
    return starts


def _follows(cause: Finding, other: Finding) -> bool:
    return other.path == cause.path and other.kind in BELOW
