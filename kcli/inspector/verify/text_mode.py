"""The cause of damage in a .log file that a transfer in text mode has changed, such as FTP in ASCII mode, or
a conversion to UTF-8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.log_findings import RECOVER


def as_text_mode(path: Path, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings in a .log file. If the file has more sound batches once a transfer in text mode is undone, a
    single finding, that there was such a transfer, replaces the errors and warnings. Raises UnreadableInput."""
    first = next((each for each in findings if each.severity == "error"), None)
    if first is None or first.kind == "log-compressed":
        return list(findings)
    from kcli.log.partition_view import Content, FileRange  # imported only if a log is damaged
    from kcli.log.recovery.text_mode import before_transfer

    before = before_transfer(path.name, Content((FileRange(path, 0, path.stat().st_size),)))
    if before is None or before.mode is None:
        return list(findings)
    sound = before.sound
    cause = Finding(
        path=str(path),
        kind="log-text-mode",
        severity="error",
        position=first.position or 0,
        offset=first.offset,
        expected="a log as Kafka wrote it",
        found=f"{before.mode.value}: {before.mode.undone} "
        f"{sound.batches:,} batches with {sound.records:,} records are sound, and salvage keeps them",
        action=RECOVER,
        command=next_steps.salvage(path.parent),
        consequences=Counter(each.kind for each in findings if each.severity != "info"),
    )
    return [cause, *(each for each in findings if each.severity == "info")]
