"""kcli verify: is every byte as it should be?"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.options import Format
from kcli.cli.output import json_line, note, on_terminal, printable, write_text
from kcli.cli.progress import Progress, size_text

if TYPE_CHECKING:
    from kcli.inspector.verify import Finding, Verification

EPILOG = """
Examples:

kcli verify /var/lib/kafka

kcli verify orders-0/00000000000000368769.log

kcli verify --format jsonl /var/lib/kafka | jq 'select(.severity == "error")'
"""


def verify(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE|DIR...", help="Files, partition directories, log directories.")
    ],
    output: Annotated[Format, typer.Option("--format", help="How to show findings.")] = Format.TABLE,
) -> None:
    """Check logs, and all that Kafka keeps beside them, byte for byte and against each other.

    A directory is checked with everything in it, a file alone (an index beside its log). Goes on behind damage.
    Exit status: 0 sound, 1 errors or warnings, 2 something could not be read. Only standard output is written to.
    """
    from kcli.inspector.verify import Verification

    progress = Progress(lambda: _total_bytes(paths))
    verification = Verification(paths, advance=progress.advance)
    raise typer.Exit(_show(verification, progress, as_json=output is Format.JSONL))


def _show(verification: Verification, progress: Progress, *, as_json: bool) -> int:
    began = time.monotonic()
    found: Counter[str] = Counter()
    coloured = on_terminal()
    repeated = _Repeated()
    for finding in verification.findings():
        found[finding.severity] += 1
        progress.clear()
        if as_json:
            write_text(_json(finding))
        else:
            write_text(repeated.text(finding, _text(finding, coloured=coloured)))
    progress.clear()
    write_text(repeated.rest())
    for error in verification.unreadable:
        note(f"kcli: {error}")
    if not as_json and (verification.files or not verification.unreadable):
        write_text(_summary(found, verification, time.monotonic() - began))
    if verification.unreadable:
        return 2
    return 1 if found["error"] or found["warning"] else 0


class _Repeated:
    """Of many notes of one kind in one file (gaps in a compacted log) people want the first and the number."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None
        self._more = 0

    def text(self, finding: Finding, text: str) -> str:
        """What to print of a finding, whose text is given."""
        this = (finding.path, finding.kind) if finding.severity == "info" else None
        if this is not None and this == self._last:
            self._more += 1
            return ""
        before = self.rest()
        self._last = this
        return before + text

    def rest(self) -> str:
        """What is to be said of the notes left out."""
        more, self._more = self._more, 0
        return f"        and {more:,} more in this file (--format jsonl lists them)\n" if more else ""


def _json(finding: Finding) -> str:
    return json_line(finding.to_dict())


COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[33m", "info": "\x1b[36m"}


def _text(finding: Finding, *, coloured: bool) -> str:
    severity = f"{finding.severity:7}"
    if coloured:
        severity = f"{COLOURS[finding.severity]}{severity}\x1b[0m"
    place = [printable(finding.path)]
    if finding.position is not None:
        place.append(f"byte {finding.position:,}")
    if finding.offset is not None:
        place.append(f"offset {finding.offset:,}")
    lines = [f"{severity} {finding.kind}  {'  '.join(place)}"]
    expected = "" if finding.expected is None else f"; expected {finding.expected}"
    lines.append(f"        {finding.found}{expected}")
    if finding.severity == "error" and finding.valid_batches_before is not None:
        lines.append(f"        {_around(finding)}")
    lines.append(f"        Next: {finding.action}")
    return "\n".join(lines) + "\n"


def _around(finding: Finding) -> str:
    size = size_text(finding.valid_bytes_before or 0)
    before = f"{finding.valid_batches_before or 0:,} sound batches ({size}) before it, "
    if finding.next_valid_position is None:
        return before + "none behind it"
    behind = f"{finding.valid_batches_behind or 0:,} ({size_text(finding.valid_bytes_behind or 0)}) behind it"
    return f"{before}{behind}, the next at byte {finding.next_valid_position:,}"


def _summary(found: Counter[str], verification: Verification, seconds: float) -> str:
    parts = [f"{found[key]:,} {name}{'' if found[key] == 1 else 's'}" for key, name in NAMES.items() if found[key]]
    return (
        f"{', '.join(parts) or 'sound'} in {verification.files:,} file{'' if verification.files == 1 else 's'}, "
        f"{size_text(verification.bytes)}, {seconds:.2f} s\n"
    )


NAMES = {"error": "error", "warning": "warning", "info": "note"}


def _total_bytes(paths: list[Path]) -> int:
    """Bytes of the logs that will be read; what cannot be looked at counts as nothing."""
    total = 0
    for path in paths:
        files = (
            (Path(folder, name) for folder, _, names in os.walk(path) for name in names) if path.is_dir() else [path]
        )
        for file in files:
            if ".log" in file.name or file.name.endswith(".checkpoint"):
                try:
                    total += file.stat().st_size
                except OSError:
                    continue
    return total
