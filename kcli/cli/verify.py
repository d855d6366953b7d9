"""kcli verify: checks every byte of logs and of the files beside them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from kcli.cli.options import Format, not_empty
from kcli.cli.output import count_text, json_line, note, on_terminal, verdict, write_text
from kcli.cli.progress import Progress, size_text
from kcli.errors import UnreadableInput, UsageError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.inspector.verify import Finding

EPILOG = """
Examples:

kcli verify /var/lib/kafka

kcli verify --severity info orders-0/00000000000000368769.log

kcli verify --quiet --severity error --config server.properties /disk1/kafka /disk2/kafka

kcli verify /var/lib/kafka --tier s3://bucket/tier

kcli verify --format jsonl /var/lib/kafka | jq 'select(.severity == "error")'
"""


class Least(StrEnum):
    """The lowest severity of the findings that are shown."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


def verify(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|URL...",
            help="Files, partition directories, log directories; or a tier, or a partition in it, also by URL.",
            callback=not_empty,
        ),
    ],
    tier: Annotated[
        str | None,
        typer.Option(
            "--tier",
            metavar="DIR|URL",
            help="Check this tiered storage against a log directory.",
            callback=not_empty,
        ),
    ] = None,
    severity: Annotated[
        Least | None,
        typer.Option(help="The least that is shown and counts; info is notes. Default: warning, for jsonl info."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only one line a file; nothing if all is sound.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The broker's server.properties.")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to show findings.")] = Format.TABLE,
) -> None:
    """Check logs, and all that Kafka keeps beside them, byte for byte and against each other.

    A directory is checked with everything in it; a file is checked alone, an index also against its .log file. The
    check goes on behind damage. The worst findings come first; a finding that follows from another is only counted.

    Exit status: 0 sound, 1 errors or warnings, 2 something could not be read. Only standard output is written to.
    """
    from kcli.inspector.verify import Verification

    paths = [Path(each) for each in targets]
    if tier is not None or any(_is_url(each) for each in targets) or (config is None and _is_tier(paths)):
        raise typer.Exit(_verify_tier(targets, tier, config, severity, output, quiet=quiet))
    progress = Progress(lambda: _total_bytes(paths))
    server: Mapping[str, str] = {}
    if config is not None:
        from kcli.log.log_directory import read_properties

        server = read_properties(config)
    verification = Verification(paths, server=server, config=config, advance=progress.advance)
    raise typer.Exit(report(verification, progress, severity, output, quiet=quiet))


def _is_url(text: str) -> bool:
    scheme, colon, _ = text.partition("://")
    return bool(colon) and "/" not in scheme


def _is_tier(paths: Sequence[Path]) -> bool:
    """Whether `paths` is a single directory, that of a tier or of a partition in a tier."""
    if len(paths) != 1 or not paths[0].is_dir():
        return False
    from formats.file_name import FileKind, parse_directory

    whose = parse_directory(paths[0].name)
    if (whose is None or whose.state != "remote") and (paths[0] / FileKind.META_PROPERTIES).exists():
        return False  # a log directory: most arguments are one, and the import of the tier's modules takes 20 ms
    from kcli.tier.opening import is_tier_directory

    return is_tier_directory(paths[0])


def _verify_tier(
    targets: Sequence[str],
    tier: str | None,
    config: Path | None,
    severity: Least | None,
    output: Format,
    *,
    quiet: bool,
) -> int:
    """Check a tier as `kcli tier verify` does. With `tier` (--tier), the only argument is a log directory; without it,
    the argument is the tier, or a partition in it."""
    from formats.file_name import parse
    from kcli.cli.tier import verify_store
    from kcli.tier.opening import whose_directory

    if len(targets) != 1 or config is not None or (_is_url(targets[0]) and tier is not None):
        raise UsageError("a tier is checked alone: kcli verify URL, or kcli verify LOG_DIR --tier DIR|URL")
    if tier is not None:
        return verify_store(tier, Path(targets[0]), None, severity, output, quiet=quiet)
    if _is_url(targets[0]) and parse(targets[0].rpartition("/")[2]) is not None:
        raise UsageError("no object is checked alone: kcli verify URL takes a tier or a partition's directory in it")
    store, only = whose_directory(targets[0])
    return verify_store(store, None, None, severity, output, only=only, quiet=quiet)


class Findings(Protocol):
    """The interface of verifications, of files and of a tier. files, bytes: the number and size of the checked files.
    unclean, unknown: the number of log directories without a clean shutdown, and without a metadata log. is_partial:
    whether partitions are placed in a log directory that is not given."""

    files: int
    bytes: int
    unclean: int
    unknown: int
    is_partial: bool
    unreadable: list[UnreadableInput]

    def findings(self) -> Iterator[Finding]:
        """Yield all findings."""


def report(
    verification: Findings, progress: Progress, severity: Least | None, output: Format, *, quiet: bool = False
) -> int:
    """Write the findings. severity: the lowest severity that is shown, and counts for the exit status; None for
    warning, or for info with --format jsonl. Returns the exit status."""
    from kcli.inspector.verify.findings import SEVERITIES

    as_json = output is Format.JSONL
    least = severity or (Least.INFO if as_json else Least.WARNING)
    shown = SEVERITIES[: SEVERITIES.index(least.value) + 1]
    if as_json:
        return _show_lines(verification, progress, shown)
    return _show(verification, progress, shown, quiet=quiet)


def _show_lines(verification: Findings, progress: Progress, shown: Sequence[str]) -> int:
    """Write one JSON object for each finding, as soon as it is found. shown: the severities of the findings to write.
    Return the exit status."""
    is_sound = True
    for finding in verification.findings():
        if finding.severity in shown:
            is_sound = is_sound and finding.severity == "info"
            progress.clear()
            with verdict(_status(verification, is_sound=is_sound)):
                write_text(json_line(finding.to_dict()))
    progress.clear()
    _tell_unreadable(verification)
    return _status(verification, is_sound=is_sound)


def _show(verification: Findings, progress: Progress, shown: Sequence[str], *, quiet: bool) -> int:
    """Write the files with findings, then a line of sums. The file with the worst finding comes first, unless the next
    step of another file must run before its own (see next_order). shown: the severities to write. Return the exit
    status."""
    from kcli.inspector.verify.findings import rank
    from kcli.inspector.verify.next_order import in_order, repeats, with_whole_salvage

    began = time.monotonic()
    found: Counter[str] = Counter()
    files: dict[str, _File] = {}
    for finding in verification.findings():
        found[finding.severity] += 1
        if finding.severity in shown:
            files.setdefault(finding.path, _File()).add(finding)
    progress.clear()
    _tell_unreadable(verification)
    status = _status(verification, is_sound=not any(found[each] for each in shown if each != "info"))
    coloured = on_terminal()
    with verdict(status):
        listed = sorted(files.values(), key=lambda each: (*rank(each.worst), each.worst.path))
        listed = [listed[number] for number in in_order([each.worst for each in listed])]
        worst, is_salvaged = with_whole_salvage([each.worst for each in listed])
        for file, finding, is_done, is_in in zip(listed, worst, repeats(worst), is_salvaged, strict=True):
            done = "a command above does it" if is_done else "the salvage above does it, too" if is_in else ""
            write_text(file.text(finding, coloured=coloured, quiet=quiet, done=done))
        if not quiet and (verification.files or not verification.unreadable):
            write_text(_summary(found, shown, verification, time.monotonic() - began))
    return status


def _tell_unreadable(verification: Findings) -> None:
    for error in verification.unreadable:
        if error.is_denied or error.is_disk_error:
            continue  # such an error is shown as a finding, of the kind unread-file
        note(printable(f"kcli: {error}"))


def _status(verification: Findings, *, is_sound: bool) -> int:
    return 2 if verification.unreadable else 0 if is_sound else 1


class _File:
    """The findings of one file. Only the worst finding is shown in full; of the others only the number is shown."""

    def __init__(self) -> None:
        self._worst: Finding | None = None
        self._count = 0

    @property
    def worst(self) -> Finding:
        """The worst finding of the file."""
        assert self._worst is not None, "a file is made for a finding"
        return self._worst

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        from kcli.inspector.verify.findings import rank

        self._count += 1
        if self._worst is None or rank(finding) < rank(self._worst):
            self._worst = finding

    def text(self, finding: Finding, *, coloured: bool, quiet: bool, done: str) -> str:
        """Return the worst finding as text: a line and, unless `quiet`, below it the sound batches around the damage
        and the next step. finding: the worst one, with the command to show. done: the words to show in place of the
        command, if one of an earlier finding already does the same; else ""."""
        lines = [_headline(finding, coloured=coloured)]
        if not quiet:
            lines += [f"        {printable(line)}" for line in self._details(finding, done)]
        return "\n".join(lines) + "\n"

    def _details(self, finding: Finding, done: str) -> Iterator[str]:
        if finding.severity == "error" and finding.valid_batches_behind is not None:
            yield _around(finding)
        if finding.consequences:
            kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(finding.consequences.items()))
            yield f"{kinds} follow{'' if sum(finding.consequences.values()) > 1 else 's'} from it"
        if self._count > 1:
            yield f"{self._count - 1:,} more in this file (--format jsonl lists them)"
        yield finding.action
        if done:
            yield done
        elif finding.command is not None:
            yield f"Next: {finding.command}"


COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[33m", "info": "\x1b[36m"}


def _headline(finding: Finding, *, coloured: bool) -> str:
    severity = f"{finding.severity:7}"
    if coloured:
        severity = f"{COLOURS[finding.severity]}{severity}\x1b[0m"
    place = [printable(finding.path)]
    if finding.position:
        place.append(f"byte {finding.position:,}")
    if finding.offset is not None:
        place.append(f"offset {finding.offset:,}")
    expected = "" if finding.expected is None else f"; expected {finding.expected}"
    return f"{severity} {finding.kind}  {'  '.join(place)}  {printable(f'{finding.found}{expected}')}"


def _around(finding: Finding) -> str:
    size = size_text(finding.valid_bytes_before or 0)
    before = f"{count_text(finding.valid_batches_before or 0, 'sound batch', 'sound batches')} ({size}) before it, "
    if finding.next_valid_position is None:
        return before + "none behind it in this file"
    # there are batches after the damage, but they are copies, or out of order, so they do not count as sound
    if not finding.valid_batches_behind:
        return f"{before}none behind it in the order of offsets, the next batch at byte {finding.next_valid_position:,}"
    behind = f"{finding.valid_batches_behind:,} ({size_text(finding.valid_bytes_behind or 0)}) behind it"
    return f"{before}{behind}, the next at byte {finding.next_valid_position:,}"


def _summary(found: Counter[str], shown: Sequence[str], verification: Findings, seconds: float) -> str:
    parts = [count_text(found[key], name) for key, name in NAMES.items() if found[key] and key in shown]
    sound = "no errors" if "warning" not in shown else "sound"
    unreadable = len(verification.unreadable)
    if unreadable:
        parts.append(f"{unreadable:,} not readable")
    text = (
        f"{', '.join(parts) or sound} in {count_text(verification.files, 'file')}, "
        f"{size_text(verification.bytes)}, {seconds:.2f} s\n"
    )
    hidden = [count_text(found[key], name) for key, name in NAMES.items() if found[key] and key not in shown]
    if hidden:
        least = [key for key in NAMES if found[key]][-1]
        text += f"{' and '.join(hidden)} not shown (--severity {least} shows them)\n"
    if verification.unclean:
        text += "not shut down in order, or running: Kafka checks the logs when it starts\n"
    if verification.unknown:
        text += "no metadata log: partitions that are gone do not show (--config names metadata.log.dir)\n"
    if verification.is_partial:
        text += "the metadata log places partitions in another log directory, which is not given (--config names all)\n"
    return text


NAMES = {"error": "error", "warning": "warning", "info": "note"}


def _total_bytes(paths: list[Path]) -> int:
    """Return the size in bytes of all .log files and snapshots below these paths; files that cannot be accessed count
    0."""
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
