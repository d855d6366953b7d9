"""kcli recover: what would Kafka's start do to these logs, and do it here or in a copy?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.cli.options import Format, current_ms, time_ms
from kcli.cli.output import json_line, note, on_terminal, printable, write_text
from kcli.cli.progress import Progress
from kcli.cli.told import DiskFailed
from kcli.errors import UnreadableInput, UsageError

if TYPE_CHECKING:
    from kcli.log.loader import Event
    from kcli.log.recovery import PartitionPlan
    from kcli.log.recovery_run import Recovery
    from kcli.log.recovery_salvage import Lost
    from kcli.log.recovery_view import StartRefused
    from kcli.metadata_recovery import MetadataRecovery

EPILOG = """
Examples:

kcli recover /var/lib/kafka

kcli recover --salvage --out /mnt/rescue/kafka /var/lib/kafka

kcli recover --in-place /var/lib/kafka/orders-0
"""


def recover(  # noqa: PLR0913, PLR0917 (one parameter an option)
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A partition's directory, or a log directory.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="NEW", help="Write a recovered copy to NEW.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Recover DIR itself; a tar keeps what goes.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell. The default.")] = False,
    clean: Annotated[
        bool | None,
        typer.Option("--clean/--unclean", help="A start with the clean-shutdown marker, or without."),
    ] = None,
    salvage: Annotated[bool, typer.Option("--salvage", help="Keep sound batches behind damage.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="NAME=VALUE", help="A configuration of topics or of the broker.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The broker's server.properties.")
    ] = None,
    now: Annotated[str | None, typer.Option("--now", metavar="TIME", help="The clock, for producers' expiry.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TABLE,
) -> None:
    """Tell what Kafka would cut or rebuild when it starts, and do the same in a copy or in place.

    A partition in which a start fails is left as it is. Exit status: 1 where a dry run finds that records would be cut
    or that Kafka would not start, or where something could not be recovered.
    """
    from kcli.cli.settings import Settings
    from kcli.log.recovery_run import Recovery

    if sum((out is not None, in_place, dry_run)) > 1:
        raise UsageError("give one of --out, --in-place and --dry-run")
    now_ms = current_ms() if now is None else time_ms(now, "--now")
    if not directory.is_dir():
        raise UnreadableInput(str(directory), "no such directory")
    settings = Settings(directory, config, option or [])
    if settings.metadata_error is not None:
        note(f"kcli: topics taken as Kafka's defaults have them: {settings.metadata_error}")
    progress = _Progress(directory)
    metadata = _metadata(directory, settings.server, now_ms, salvage=salvage)
    recovery = Recovery(
        directory,
        now_ms,
        clean,
        salvage,
        producer_expiration_ms=settings.producer_expiration_ms,
        config=settings.log_config,
        advance=progress.advance,
        metadata=metadata.take,
    )
    if out is not None:
        plans = recovery.write_to(out)
    elif in_place:
        plans = recovery.in_place(f"kcli-recover-{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}")
    else:
        plans = recovery.plans()
    changes = out is not None or in_place
    try:
        show = _Show(recovery, metadata, progress, config, as_json=output is Format.JSONL)
        raise typer.Exit(show.run(plans, changes=changes))
    except OSError as error:
        raise DiskFailed(f"{error.filename or directory}: {error.strerror or error}") from None


def _metadata(directory: Path, server: Mapping[str, str], now_ms: int, *, salvage: bool) -> MetadataRecovery:
    from kcli.metadata_recovery import MetadataRecovery

    is_the_log = directory.absolute().name == METADATA_DIRECTORY
    return MetadataRecovery(directory.absolute().parent if is_the_log else directory, server, now_ms, salvage)


class _Show:
    """The result, row by row; `run` returns the exit status."""

    def __init__(
        self,
        recovery: Recovery,
        metadata: MetadataRecovery,
        progress: _Progress,
        config: Path | None,
        *,
        as_json: bool,
    ) -> None:
        self._config = config
        self._recovery, self._metadata, self._progress, self._as_json = recovery, metadata, progress, as_json
        self._totals = _Totals()
        self._is_bad = False

    def run(self, plans: Iterator[PartitionPlan], *, changes: bool) -> int:
        """Take the plans, and show what there is. Raises what they raise."""
        recovery, totals = self._recovery, self._totals
        began = time.monotonic()
        self._of_directory(changes=changes)
        for done in plans:
            rows = list(_rows(done, salvage=recovery.salvage))
            totals.add(done, rows)
            self._is_bad = self._is_bad or any(row["kind"] == "passed-over" for row in rows)
            self._write([row for row in rows if self._as_json or row["kind"] != "partition"])
        self._of_metadata(changes=changes)
        self._progress.clear()
        for error in recovery.unreadable:
            note(f"kcli: {error}")
            if self._as_json:
                write_text(
                    json_line({"partition": "", "kind": "unreadable", "file": error.path, "reason": error.reason})
                )
        if not self._as_json:
            seconds = time.monotonic() - began
            write_text(totals.text(recovery, changes=changes, seconds=seconds))
            if recovery.backup is not None:
                write_text(f"What was cut is in {recovery.backup}\n")
        elif recovery.backup is not None:
            write_text(_line(True, {"partition": "", "kind": "backup", "file": str(recovery.backup)}))
        if recovery.unreadable:
            return 2
        is_bad = totals.losses or self._metadata.is_loss or self._is_bad
        return 1 if totals.refused or (is_bad and not changes) else 0

    def _write(self, rows: list[dict[str, Any]]) -> None:
        self._progress.clear()
        for row in rows:
            write_text(_line(self._as_json, row))

    def _refuse(self, refusals: list[StartRefused]) -> None:
        self._totals.refused += len(refusals)
        self._write([_refusal("", each.file, each.reason, each.position) for each in refusals])

    def _pass_over(self, found: list[StartRefused]) -> None:
        """What does not stop a start, and yet keeps something from being served as it should."""
        self._is_bad = self._is_bad or bool(found)
        for each in found:
            row = {"partition": "", "kind": "passed-over", "file": each.file, "position": each.position}
            self._write([row | {"reason": each.reason}])

    def _of_directory(self, *, changes: bool) -> None:
        recovery = self._recovery
        self._refuse(recovery.refusals)
        if changes:
            self._totals.refused -= sum(map(recovery.mends, recovery.refusals))
        self._pass_over(recovery.passed_over)
        if recovery.lacks_marker and self._as_json:
            self._write([{"partition": "", "kind": "unclean-shutdown", "file": str(FileKind.CLEAN_SHUTDOWN)}])

    def _of_metadata(self, *, changes: bool) -> None:
        """What the start of the metadata log means; where it is not in this directory, as far as that can be told."""
        from kcli.cli.recover_metadata import metadata_rows, metadata_text

        metadata, recovery = self._metadata, self._recovery
        if not recovery.is_partition and metadata.is_elsewhere:
            metadata.look_elsewhere()
        self._refuse(metadata.refusals)
        told = tuple(each.path for each in recovery.unreadable)
        more = () if metadata.lost is None else metadata.lost.unreadable
        recovery.unreadable += [each for each in more if not each.path.startswith(told)]
        misplaced = [] if metadata.lost is None else list(metadata.lost.misplaced.values())
        self._pass_over([*metadata.passed_over, *misplaced])
        rows = list(metadata_rows(metadata, has_partitions=bool(recovery.partitions)))
        if self._as_json:
            self._write(rows)
            return
        self._progress.clear()
        for kind, place, words in metadata_text(metadata, rows, self._config, changes=changes):
            write_text(_text_line(kind, place, words))


def _refusal(partition: str, file: str, reason: str, position: int | None) -> dict[str, Any]:
    return {"partition": partition, "kind": "refused", "file": file, "position": position, "reason": reason}


def _rows(done: PartitionPlan, *, salvage: bool) -> Iterator[dict[str, Any]]:
    """One row for each thing that a start does, then one for the partition as it is left."""
    for event, lost in zip(done.events, done.lost, strict=True):
        yield _event_row(done.name, event, lost)
    if done.refused is not None:
        yield _refusal(done.name, done.refused.file, done.refused.reason, done.refused.position)
        return
    if salvage:
        for out in done.saved.left_out:
            yield {"partition": done.name, "kind": "left-out", "file": out.file, "reason": out.reason}
        for each in done.saved.renamed:
            yield {"partition": done.name, "kind": "renamed", "file": each.file, "name": each.name}
        for gap in done.saved.gaps:
            yield {
                "partition": done.name,
                "kind": "gap",
                "file": gap.file,
                "position": gap.position,
                "bytes": gap.length,
                "first_offset": gap.first_offset,
                "last_offset": gap.last_offset,
            }
    assert done.offsets is not None, "a partition is loaded or refused"
    yield {
        "partition": done.name,
        "kind": "partition",
        "log_start_offset": done.offsets.log_start_offset,
        "log_end_offset": done.offsets.log_end_offset,
        "recovery_point": done.offsets.recovery_point,
        "changed": done.is_changed(),
    }


def _event_row(partition: str, event: Event, lost: Lost) -> dict[str, Any]:
    row: dict[str, Any] = {"partition": partition, "kind": str(event.kind), "file": event.file}
    if event.content is not None:
        row |= {
            "position": event.position,
            "bytes": event.bytes,
            "fault": event.fault,
            "reason": event.reason,
            "log_end_offset": event.offset,
            "lost_batches": lost.batches,
            "lost_records": lost.records,
            "lost_first_offset": lost.first_offset,
            "lost_last_offset": lost.last_offset,
        }
        return row
    return row | {"bytes": event.bytes, "reason": event.reason}


def _line(as_json: bool, row: dict[str, Any]) -> str:
    if as_json:
        return json_line(row)
    place = printable("/".join(filter(None, (row["partition"], row["file"]))))
    if row.get("position"):
        place += f"  byte {row['position']:,}"
    return _text_line(row["kind"], place, _words(row))


def _text_line(kind: str, place: str, words: str) -> str:
    shown = f"{kind:16}"
    if on_terminal():
        shown = f"{RED if kind in BAD else CYAN}{shown}\x1b[0m"
    return f"{shown} {place}\n                 {words}\n"


RED, CYAN = "\x1b[1;31m", "\x1b[36m"
BAD = ("cut", "emptied", "segment-removed", "end-hidden", "refused", "metadata-lost", "stray")


def _words(row: dict[str, Any]) -> str:
    if row["kind"] == "refused":
        return f"Kafka would not start: {row['reason']}"
    if row["kind"] in ("passed-over", "left-out"):
        return str(row["reason"])
    if row["kind"] == "renamed":
        return f"kept as {row['name']}, by the offset of its first batch"
    if row["kind"] == "gap":
        last = row["last_offset"]
        missing = (
            f"nothing from offset {row['first_offset']:,} on"
            if last is None
            else f"no batch for offsets {row['first_offset']:,}..{last:,}"
            if last >= row["first_offset"]
            else "no offset is missing"
        )
        return f"{row['bytes']:,} bytes left out: {missing}"
    if "lost_batches" not in row:
        size = f" ({row['bytes']:,} bytes)" if row["bytes"] else ""
        return f"{row['reason']}{size}"
    words = f"{row['reason']}; {row['bytes']:,} bytes {'are passed over' if row['kind'] == 'end-hidden' else 'go'}"
    if row["kind"] in ("cut", "emptied"):
        words += f", the log then ends at offset {row['log_end_offset']:,}"
    if not row["lost_batches"]:
        return f"{words}; no sound batch is lost"
    first = row["lost_first_offset"] if row["position"] == 0 else min(row["log_end_offset"], row["lost_first_offset"])
    batches = f"{row['lost_batches']:,} sound batch{'' if row['lost_batches'] == 1 else 'es'}"
    records = f"{row['lost_records']:,} record{'' if row['lost_records'] == 1 else 's'}"
    return f"{words}; lost: offsets {first:,}..{row['lost_last_offset']:,}, with {records} in {batches}"


class _Totals:
    """The sums below the rows."""

    def __init__(self) -> None:
        self.refused = self.losses = 0
        self._partitions = self._bytes = self._records = 0
        self._saved_records = self._gaps = self._gap_bytes = 0

    def add(self, done: PartitionPlan, rows: list[dict[str, Any]]) -> None:
        self._partitions += 1
        self.refused += done.refused is not None
        self.losses += done.has_losses
        self._bytes += sum(row["bytes"] for row in rows if "lost_batches" in row)
        self._records += sum(row["lost_records"] for row in rows if "lost_batches" in row)
        self._saved_records += done.saved.records
        self._gaps += len(done.saved.gaps)
        self._gap_bytes += sum(gap.length for gap in done.saved.gaps)

    def text(self, recovery: Recovery, *, changes: bool, seconds: float) -> str:
        verb = "recovered" if changes else "checked"
        parts = [f"{_count(self._partitions, 'partition')} {verb} as in {_start(recovery)}"]
        if self.losses:
            loses = "alone would lose" if recovery.salvage else "loses"
            records = f"{self._bytes:,} bytes with {self._records:,} sound records"
            parts.append(f"Kafka {loses} {records} in {_count(self.losses, 'partition')}")
        if recovery.salvage and (self._gaps or self._saved_records):
            keeps = "kept" if changes else "would keep"
            out = (
                f"{self._gap_bytes:,} bytes in {_count(self._gaps, 'gap')} {'are' if changes else 'would be'} left out"
            )
            parts.append(f"--salvage {keeps} {_count(self._saved_records, 'record')} of them; {out}")
        if self.refused:
            parts.append(f"{self.refused:,} would keep Kafka from starting")
        if recovery.unreadable:
            parts.append(f"{len(recovery.unreadable):,} could not be read")
        if not changes:
            parts.append("nothing was written")
        return f"{'; '.join(parts)}; {seconds:.2f} s\n"


def _start(recovery: Recovery) -> str:
    if recovery.lacks_marker:
        return "a start after a crash (the broker was not shut down in order: no .kafka_cleanshutdown)"
    return "a clean start" if recovery.clean else "a start after a crash"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class _Progress(Progress):
    """The line on stderr, drawn from any thread."""

    def __init__(self, directory: Path) -> None:
        super().__init__(lambda: sum(_log_sizes(directory)))
        self._lock = Lock()

    def advance(self, size: int) -> None:
        """So many more bytes have been checked."""
        with self._lock:
            super().advance(size)

    def clear(self) -> None:
        """Take the line away, so that others can be written."""
        with self._lock:
            super().clear()


def _log_sizes(directory: Path) -> Iterator[int]:
    for folder, _, names in os.walk(directory):
        for name in names:
            if name.endswith(".log"):
                try:
                    yield Path(folder, name).stat().st_size
                except OSError:
                    continue
