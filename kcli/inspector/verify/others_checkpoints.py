"""The findings of checkpoints that another broker wrote (see kcli.log.recovery.others_checkpoints)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.recovery.others_checkpoints import OthersCheckpoint
from kcli.printable import names_text

NAMES_SHOWN = 3
ABOUT_ENTRIES = ("checkpoint-offset", "checkpoint-duplicate")
"""The kinds of findings about single entries, which follow from a file that is not this broker's."""


def checkpoints_of_others(around: Surroundings) -> Iterator[tuple[Finding, Callable[[Finding], bool]]]:
    """Yield, for each checkpoint file that another broker wrote, a finding, and a function that returns whether another
    finding is a consequence of it."""
    for each in around.of_others.values():
        if each.kind is FileKind.LOG_START_OFFSETS:  # wrong_starts() reports this file
            continue
        finding = _finding(around, each)
        yield finding, partial(_follows, finding)


def _finding(around: Surroundings, found: OthersCheckpoint) -> Finding:
    path = around.path / found.kind
    is_harmful = found.is_harmful(is_clean=around.is_clean)
    if not is_harmful:
        action, command = "nothing to do: Kafka writes the file anew when it starts", next_steps.show(path)
    elif around.harmed_without_points == frozenset():
        action = "set the file aside before a start: Kafka then checks all of each log, and writes the file anew"
        command = next_steps.move([(path, path.with_name(f"{path.name}.moved"))])
    else:
        names = names_text(sorted(around.harmed_without_points or ()), NAMES_SHOWN)
        action = (
            "salvage checks all of each log, keeps the sound records behind damage, and writes the file anew; "
            f"without the file Kafka would lose sound records, or not start: {names or 'files cannot be read'}"
        )
        command = next_steps.salvage_log_directory(around.path)
    return Finding(
        path=str(path),
        kind="checkpoint-foreign",
        severity="error" if is_harmful else "warning",
        position=0,
        expected="partitions of this node, with offsets up to the ends of their logs",
        found=found.reason(is_clean=around.is_clean),
        action=action,
        command=command,
    )


def _follows(cause: Finding, other: Finding) -> bool:
    return other.path == cause.path and other.kind in ABOUT_ENTRIES
