"""The finding of partitions without a producer snapshot before a clean start: Kafka then does not read their logs for
producers, and forgets their open transactions and the sequences of idempotent producers.

Each clean stop writes a snapshot. If a partition has a snapshot, a clean start reads the log from the latest snapshot
on. A start after a crash rebuilds the producer state from the log. Source: UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from formats.file_name import METADATA_TOPIC, FileKind, parse, parse_directory
from kcli.errors import UnreadableInput
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.start_outcomes import plan_start, with_marker_step
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.log_directory import LogDirectory
from kcli.log.producer_state import snapshot_name
from kcli.printable import names_text

NAMES_SHOWN = 3
ANEW = (
    f"do not start the broker with {FileKind.CLEAN_SHUTDOWN}: without it Kafka makes the snapshots anew from the logs"
)


def forgotten_producers(around: Surroundings, alone: Path | None = None) -> Iterator[Finding]:
    """Yield at most one finding: that a clean start forgets producers. It is an error if transactions are open, else a
    warning. It is about one of the partitions concerned, and has the number of the others in `consequences`.

    alone: the directory of the only partition to look at; None for all of the log directory.
    """
    if not around.is_clean:
        return
    found: list[tuple[int, int, Path]] = []  # the numbers of open transactions and of producers, and the file
    for directory in _partitions(around, alone):
        plan = plan_start(directory, around) if _lacks_snapshots(directory) else None
        if plan is not None and plan.forgotten and plan.offsets is not None:
            is_open = [each.current_txn_first_offset >= 0 for each in plan.forgotten]
            path = directory / snapshot_name(plan.offsets.log_end_offset)
            found.append((sum(is_open), len(is_open), path))
    if not found:
        return
    found.sort(key=lambda each: (-each[0], each[2]))
    transactions, producers = sum(each[0] for each in found), sum(each[1] for each in found)
    names = [path.parent.absolute().name for *_, path in found]
    where = names_text(names, NAMES_SHOWN)
    forgets = f"{producers:,} producer{'s' if producers != 1 else ''}, whose records, sent again, are written twice"
    if transactions:
        opened = "an open transaction" if transactions == 1 else f"{transactions:,} open transactions"
        forgets = f"{opened}, whose records read_committed consumers then get, committed or not, and {forgets}"
    finding = Finding(
        path=str(found[0][2]),
        kind="snapshot-missing",
        severity="error" if transactions else "warning",
        expected="a producer snapshot, as each clean stop writes it",
        found=f"none in {where}: a clean start then does not read the log for producers, and forgets {forgets}",
        action=ANEW,
        consequences={"snapshot-missing": len(found) - 1} if len(found) > 1 else {},
    )
    yield with_marker_step(finding, around)


def _partitions(around: Surroundings, alone: Path | None) -> Iterable[Path]:
    if alone is not None:
        name = parse_directory(alone.absolute().name)
        return [alone] if name is not None and not name.state else []
    try:
        found = LogDirectory(around.path).partitions()
    except UnreadableInput:  # another check reports this error
        return []
    return [each.path for each in found if not each.name.state and each.name.topic != METADATA_TOPIC]


def _lacks_snapshots(directory: Path) -> bool:
    """Whether a partition has batches, but no producer snapshot that a start keeps: one at the base offset of a
    segment, or above the base offset of the last segment."""
    bases, snapshots, size = set(), set(), 0
    try:
        for path in directory.iterdir():
            name = parse(path.name)
            if name is None or name.state or name.base_offset is None:
                continue
            if name.kind is FileKind.LOG:
                bases.add(name.base_offset)
                size += path.stat().st_size
            elif name.kind is FileKind.PRODUCER_SNAPSHOT:
                snapshots.add(name.base_offset)
    except OSError:  # another check reports this error
        return False
    return size > 0 and not any(each in bases or each >= max(bases) for each in snapshots)
