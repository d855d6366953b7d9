"""The finding of wrong entries in a broker's log-start-offset-checkpoint (see kcli.log.recovery.wrong_log_starts)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.recovery.wrong_log_starts import wrong_log_starts

BELOW = ("log-start-offset", "checkpoint-duplicate")
"""The kinds of findings about single entries that follow from a file that is wrong as a whole."""


def wrong_starts(around: Surroundings) -> Iterator[tuple[Finding, Callable[[Finding], bool]]]:
    """Yield the finding of log start offsets that no broker has written, with a predicate for its consequences. Raises
    UnreadableInput."""
    if not around.is_broker:
        return
    wrong = wrong_log_starts(around.path, around.log_config)
    if wrong is None:
        return
    path = around.path / FileKind.LOG_START_OFFSETS
    finding = Finding(
        path=str(path),
        kind="checkpoint-copied" if wrong.is_whole else "log-start-offset",
        severity="error",
        position=0,
        expected="the log start offsets of partitions whose first records were deleted",
        found=wrong.reason,
        action="do not start the broker before the file is mended: salvage leaves out its wrong entries, so that these "
        "logs begin where their leader epochs or their first segments do; with --in-place for --dry-run",
        command=next_steps.salvage_log_directory(around.path),
    )
    yield finding, partial(_follows, finding) if wrong.is_whole else lambda _: False


def _follows(cause: Finding, other: Finding) -> bool:
    return other.path == cause.path and other.kind in BELOW
