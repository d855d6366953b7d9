"""kcli compact: cleans logs as Kafka's log cleaner does, or shows what it would do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.options import Format, current_ms, key_bytes, time_ms
from kcli.cli.output import json_line, note, write_text
from kcli.cli.progress import Progress, size_text
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.cli.settings import Settings
    from kcli.log.cleaner.cleaner import Cleaning
    from kcli.log.cleaner.log_cleaner import LogCleaner, PartitionOutcome
    from kcli.log.cleaner.selection import Selection
    from kcli.log.cleaner.why import Fate

EPILOG = """
Examples:

kcli compact /var/lib/kafka

kcli compact /var/lib/kafka/orders-0 --why order-88121

kcli compact backup/orders-0 --out orders-0 -o cleanup.policy=compact -o min.cleanable.dirty.ratio=0
"""


def compact(  # noqa: PLR0913, PLR0917 (one parameter an option)
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A log directory, or a partition in one.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="NEW", help="Write the result to a new directory.")
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Change DIR itself, under Kafka's lock.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed (the default).")] = False,
    why: Annotated[
        str | None, typer.Option(metavar="KEY", help="Tell the fate of each record of a key (0x...: hexadecimal).")
    ] = None,
    now: Annotated[str | None, typer.Option(metavar="TIME", help="The clock: epoch ms, ISO 8601, or -2h.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="The broker's server.properties.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="NAME=VALUE", help="A configuration of topics or of the broker.")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to show the result.")] = Format.TABLE,
) -> None:
    """Compact logs as Kafka's log cleaner does, or show what it would do and why.

    Topics are configured as the directory's own metadata log says, the broker as --config and that log say; -o
    overrides both. Exit status: 0 done, 1 Kafka's cleaner would mark a partition as uncleanable, 2 usage or unreadable
    input.
    """
    from kcli.cli.settings import Settings
    from kcli.log.cleaner.log_cleaner import LogCleaner
    from kcli.log.config import CleanerConfig
    from kcli.log.disk import Disk

    if sum((out is not None, in_place, dry_run or why is not None)) > 1:
        raise UsageError("--out, --in-place and --dry-run (or --why, which is one) exclude each other")
    if not directory.is_dir():
        raise UnreadableInput(str(directory), "no such directory")
    now_ms = time_ms(now, "--now") if now is not None else current_ms()
    settings = Settings(directory, config, option or [])
    if settings.metadata_error is not None:
        raise settings.metadata_error
    progress = Progress(lambda: 2 * sum(path.stat().st_size for path in directory.rglob("*.log")))
    cleaner = LogCleaner(
        directory,
        settings.log_config,
        CleanerConfig.of(settings.broker),
        now_ms=now_ms,
        disk=Disk(),
        progress=progress.advance,
    )
    show = _Show(progress, now_ms, as_json=output is Format.JSONL)
    try:
        if why is not None:
            raise typer.Exit(show.why(cleaner, settings, key_bytes(why, "--why")))
        if out is not None:
            raise typer.Exit(show.outcomes(cleaner.into(out), done=True))
        raise typer.Exit(show.outcomes(cleaner.in_place() if in_place else cleaner.dry_run(), done=in_place))
    except OSError as error:
        progress.clear()
        raise KcliError(f"{error.filename or directory}: {error.strerror}") from error


class _Show:
    """Shows results, partition by partition; each method returns the exit status."""

    def __init__(self, progress: Progress, now_ms: int, *, as_json: bool) -> None:
        self._progress = progress
        self._now_ms = now_ms
        self._as_json = as_json
        self._began = time.monotonic()

    def outcomes(self, outcomes: Any, *, done: bool) -> int:
        """Show the outcome for each partition, then a line of sums. Return the highest exit status of the partitions
        that failed, 0 if none did. done: whether the cleaned logs were written, in place or to a new directory; False
        for a dry run."""
        cleaned = skipped = failed = before = after = status = 0
        for outcome in outcomes:
            self._progress.clear()
            if outcome.error is not None:
                failed += 1
                status = max(status, outcome.error.exit_status)
                note(f"kcli: {outcome.error}")
            elif outcome.cleaning is None:
                skipped += 1
            else:
                changes = bool(outcome.cleaning.passes or outcome.cleaning.retired)
                cleaned += changes
                before += outcome.cleaning.bytes_before
                after += outcome.cleaning.bytes_after
                write_text(_outcome_json(outcome) if self._as_json else _outcome_text(outcome, self._now_ms))
        self._progress.clear()
        if not self._as_json:
            seconds = time.monotonic() - self._began
            verb = "cleaned" if done else "to clean"
            parts = [f"{cleaned:,} {'partition' if cleaned == 1 else 'partitions'} {verb}"]
            parts += [f"{skipped:,} without cleanup.policy=compact"] if skipped else []
            parts += [f"{failed:,} that cannot be cleaned"] if failed else []
            write_text(f"{', '.join(parts)}  {size_text(before)} -> {size_text(after)}  {seconds:.2f} s\n")
        return status

    def why(self, cleaner: LogCleaner, settings: Settings, key: bytes) -> int:
        """Show for each record of a key whether the cleaner keeps it, and why. The exit status is 0 also without such a
        record."""
        from formats.file_name import METADATA_TOPIC
        from kcli.log.cleaner.why import explain_key
        from kcli.log.config import CleanerConfig

        found = 0
        broker = CleanerConfig.of(settings.broker)
        for path, topic, number in cleaner.partitions():
            if topic == METADATA_TOPIC:
                continue
            log, checkpoint = cleaner.open(path, topic, number)
            selection, fates = explain_key(
                log,
                settings.log_config(topic),
                broker,
                key,
                checkpoint=checkpoint,
                now_ms=self._now_ms,
                progress=self._progress.advance,
            )
            self._progress.clear()
            found += len(fates)
            name = f"{topic}-{number}"
            if self._as_json:
                write_text("".join(_fate_json(name, fate) for fate in fates))
            elif fates:
                write_text(f"{printable(name)}  {_standing(selection, self._now_ms)}\n")
                write_text("".join(_fate_text(fate, self._now_ms) for fate in fates))
        if not found:
            note("kcli: no record has this key")
        return 0


def _standing(selection: Selection, now_ms: int) -> str:
    """Return, in words, up to which offset a log is clean, which offsets the cleaner may clean now, and why it cannot
    clean the offsets from the first uncleanable one on."""
    first, stop = selection.first_dirty_offset, selection.first_uncleanable_offset
    held = f"{selection.bound} from {selection.bound_offset:,} on"
    if selection.bound_until_ms is not None:
        held += f" for another {_duration(selection.bound_until_ms - now_ms)}"
    if selection.cleanable_bytes == 0:
        return f"clean up to {first:,}; {held}"
    ratio = f"dirty ratio {selection.ratio:.2f}"
    if not selection.worth_it:
        return f"not cleaned: {ratio} is not above {selection.min_ratio:g}; dirty {first:,}..{stop - 1:,}; {held}"
    due = f", due for {_duration(selection.due_for_ms)}" if selection.due_for_ms else ""
    return f"dirty {first:,}..{stop - 1:,}, {ratio}{due}; {held}"


def _outcome_text(outcome: PartitionOutcome, now_ms: int) -> str:
    cleaning = outcome.cleaning
    assert cleaning is not None, "a partition that was cleaned"
    lines = [f"{printable(outcome.topic)}-{outcome.partition}  {_standing(cleaning.selection, now_ms)}"]
    if cleaning.retired:
        bases = ", ".join(f"{segment.base_offset:,}" for segment in cleaning.retired)
        lines.append(f"  retention    segments from {bases} on go whole")
    if cleaning.passes:
        lines += _pass_lines(cleaning)
    return "\n".join(lines) + "\n"


def _pass_lines(cleaning: Cleaning) -> list[str]:
    counts = cleaning.counts
    first, last = cleaning.passes[0], cleaning.passes[-1]
    lines = [
        f"  segments     {first.segments_before:,} -> {last.segments_after:,}",
        f"  bytes        {counts.bytes_read:,} -> {counts.bytes_written:,}",
        f"  records      {counts.records_read:,} -> {counts.records_kept:,}",
    ]
    lines += [
        f"    {reason:10} {records:,} ({size_text(size)})"
        for reason, (records, size) in counts.dropped.items()
        if records
    ]
    if counts.batches_emptied:
        lines.append(f"  empty        {_batches(counts.batches_emptied)} kept for a producer or the end of the range")
    if counts.horizons_set:
        lines.append(f"  horizons     {_batches(counts.horizons_set)} given a time to go")
    if len(cleaning.passes) > 1:
        lines.append(f"  passes       {len(cleaning.passes):,}")
    if last.map_full:
        lines.append(
            f"  map          full with {last.map_entries:,} keys at {last.end_offset:,}: another pass does the rest"
        )
    return lines


def _batches(count: int) -> str:
    return f"{count:,} {'batch' if count == 1 else 'batches'}"


def _outcome_json(outcome: PartitionOutcome) -> str:
    cleaning = outcome.cleaning
    assert cleaning is not None, "a partition that was cleaned"
    selection, counts = cleaning.selection, cleaning.counts
    return json_line(
        {
            "topic": outcome.topic,
            "partition": outcome.partition,
            "first_dirty_offset": selection.first_dirty_offset,
            "first_uncleanable_offset": selection.first_uncleanable_offset,
            "bound": selection.bound,
            "bound_offset": selection.bound_offset,
            "bound_until_ms": selection.bound_until_ms,
            "dirty_ratio": selection.ratio,
            "due_for_ms": selection.due_for_ms,
            "passes": len(cleaning.passes),
            "map_full": bool(cleaning.passes) and cleaning.passes[-1].map_full,
            "cleaned_to": cleaning.checkpoint,
            "retired": [segment.base_offset for segment in cleaning.retired],
            "bytes_before": cleaning.bytes_before,
            "bytes_after": cleaning.bytes_after,
            "records_read": counts.records_read,
            "records_kept": counts.records_kept,
            "batches_emptied": counts.batches_emptied,
            "horizons_set": counts.horizons_set,
            "gone": {
                reason.replace(" ", "_"): {"records": records, "bytes": size}
                for reason, (records, size) in counts.dropped.items()
            },
        }
    )


def _fate_text(fate: Fate, now_ms: int) -> str:
    from formats.kernels.text.table_lines import iso_time

    if fate.is_dropped:
        verdict = "goes"
    elif fate.held_by is None:
        verdict = "stays"
    else:
        until = "" if fate.until_ms is None else f" for another {_duration(fate.until_ms - now_ms)}"
        verdict = f"stays: {fate.held_by}{until}"
    return f"  offset {fate.record.offset:<12,} {iso_time(fate.record.timestamp)}  {fate.outcome:24}  {verdict}\n"


def _fate_json(name: str, fate: Fate) -> str:
    return json_line(
        {
            "partition": name,
            "offset": fate.record.offset,
            "timestamp": fate.record.timestamp,
            "segment": fate.record.segment,
            "tombstone": fate.record.is_tombstone,
            "aborted": fate.record.is_aborted,
            "what": fate.outcome,
            "goes": fate.is_dropped,
            "held_by": fate.held_by,
            "until_ms": fate.until_ms,
        }
    )


def _duration(ms: int) -> str:
    """Return a duration in its two largest units, as in "3 h 12 min"."""
    seconds, rest = divmod(max(ms, 0), 1000)
    if seconds == 0:
        return f"{rest} ms"
    for name, size, small, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size:,} {name} {seconds % size // part} {small}"
    return f"{seconds} s"
