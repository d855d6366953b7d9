"""kcli recover: shows what Kafka's start would do to logs, and changes nothing. With --in-place it also makes these
changes in the logs themselves, with --out in a copy."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from errno import ELOOP
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formats.file_name import METADATA_DIRECTORY, FileKind, parse, parse_directory
from kcli.cli.error_report import DiskFailed
from kcli.cli.options import Format, current_ms, not_empty, time_ms
from kcli.cli.output import count_text, json_line, note, on_terminal, write_text
from kcli.cli.progress import Progress
from kcli.cli.recover_transactions import ENDED_AGAIN, StateRecords, ended_again_row
from kcli.cli.recover_transactions import KIND as STATE_END
from kcli.cli.recover_transactions import row as state_end_row
from kcli.cli.recover_transactions import words as state_end_words
from kcli.cli.temporary import spool_for
from kcli.coordinator.machine import TRANSACTIONS_TOPIC
from kcli.errors import StartRefused, UnreadableInput, UsageError
from kcli.printable import names_text, printable

if TYPE_CHECKING:
    from kcli.inspector.tier.coverage import Coverage, Range, TierCoverage
    from kcli.inspector.transactions import StatePartition
    from kcli.inspector.verify.salvageable import KnownTopics
    from kcli.log.recovery.loader import Event
    from kcli.log.recovery.misdirected import Run
    from kcli.log.recovery.plan import PartitionPlan
    from kcli.log.recovery.run import Recovery
    from kcli.log.recovery.salvage import Checked, Lost
    from kcli.metadata_log.placement import MissingPartition
    from kcli.metadata_log.promotion import Compared
    from kcli.metadata_log.recovery import MetadataRecovery

Row = dict[str, Any]

CUTS = ("cut", "emptied")

EPILOG = """
Examples:

kcli recover /var/lib/kafka

kcli recover --salvage --out /mnt/rescue/kafka /var/lib/kafka

kcli recover --in-place /var/lib/kafka/orders-0

kcli recover --salvage --tier s3://bucket/tier --out /mnt/rescue/kafka /var/lib/kafka
"""


def recover(  # noqa: PLR0913, PLR0917 (one parameter an option)
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A partition's directory, or a log directory.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="NEW", help="Write a recovered copy to NEW.")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Recover DIR itself; a tar keeps removed bytes.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show it. The default.")] = False,
    clean: Annotated[bool, typer.Option("--clean", help="A start with the clean-shutdown marker.")] = False,
    unclean: Annotated[bool, typer.Option("--unclean", help="A start without that marker.")] = False,
    salvage: Annotated[bool, typer.Option("--salvage", help="Keep sound batches behind damage.")] = False,
    tier: Annotated[
        str | None,
        typer.Option(
            "--tier",
            metavar="DIR|URL",
            help="Tiered storage: what it has is not lost, and salvage takes it from there.",
            callback=not_empty,
        ),
    ] = None,
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

    A partition with which Kafka does not start is left as it is, unless --salvage mends it. Exit status: 1 if Kafka
    does not start, also with what was recovered, or if a dry run finds records that a start loses, damage that a start
    passes over, something to salvage, or no metadata log; 2 if a file cannot be read.
    """
    from kcli.cli.settings import Settings
    from kcli.inspector.verify.salvageable import KnownTopics, checked, misplaced
    from kcli.log.recovery.run import Recovery

    if sum((out is not None, in_place, dry_run)) > 1:
        raise UsageError("give one of --out, --in-place and --dry-run")
    if clean and unclean:
        raise UsageError("give one of --clean and --unclean")
    now_ms = current_ms() if now is None else time_ms(now, "--now")
    if not directory.is_dir():
        raise UnreadableInput(str(directory), "no such directory")
    settings = Settings(directory, config, option or [])
    if settings.metadata_error is not None:
        note(f"kcli: topics taken as {settings.source_of_topics} them: {settings.metadata_error}")
    copies = ExitStack()
    coverage = None if tier is None else _coverage(tier, directory, copies)
    progress = _Progress(directory)
    metadata = _metadata(directory, settings.server, now_ms, salvage=salvage)
    metadata.clean, metadata.config = True if clean else False if unclean else None, settings.log_config
    topics = KnownTopics(directory, settings.server)
    of_others = metadata.of_others = topics.of_others
    if salvage or out is not None or in_place:
        _refuse_moved_log(metadata, directory)
    records = StateRecords(
        metadata.node.others,
        metadata.other_replicas,
        now_ms,
        settings.producer_expiration_ms,
        topics.copied_groups,
    )
    found = misplaced(directory, settings.server, salvage=salvage)
    recovery = Recovery(
        directory,
        now_ms,
        clean if clean or unclean else None,
        salvage,
        producer_expiration_ms=settings.producer_expiration_ms,
        config=settings.log_config,
        advance=progress.advance,
        metadata=metadata.take,
        identities=metadata.identities,
        in_the_place=metadata.in_the_place,
        node_id=metadata.mended_node_id,
        directory_id=metadata.mended_directory_id,
        properties=_properties(metadata),
        has_new_cluster_id=metadata.known_properties is not None and not metadata.known_properties.cluster_id,
        metadata_log=metadata.begin_anew(),
        left_out=metadata.left_out,
        exchanged_by_keys=metadata.exchanged_by_keys,
        checked=partial(_checked, partial(checked, directory, settings.server), coverage),
        keeps_all=topics.keeps_all,
        finds_gaps=topics.keeps_all if coverage is None else lambda _: False,  # with a tier, its rows report them
        count=topics.partition_count,
        of_others=of_others,
        foreign=found.foreign,
        node=metadata.node,
        complete=records.write if salvage else lambda _: None,
    )
    recovery.passed_over += metadata.abandoned
    if not recovery.is_partition:
        recovery.refusals += metadata.refused_promotions
        recovery.passed_over += metadata.old_marker
    exchanged = {str(place.relative_to(directory)) for place in recovery.exchanged}
    recovery.passed_over += [each for each in found.told if each.file not in exchanged]
    recovery.passed_over += _unserved(topics, recovery, metadata)
    if out is not None:
        plans = recovery.write_to(out)
    elif in_place:
        plans = recovery.in_place(f"kcli-recover-{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}")
    else:
        plans = recovery.plans()
    try:
        with copies:
            show = _Show(
                recovery,
                metadata,
                progress,
                config,
                records,
                coverage,
                found.of_partition,
                as_json=output is Format.JSONL,
                in_place=in_place,
            )
            status = show.run(plans, changes=out is not None or in_place)
    except OSError as error:
        raise DiskFailed(f"{error.filename or directory}: {error.strerror or error}") from None
    raise typer.Exit(status)


def _refuse_moved_log(metadata: MetadataRecovery, directory: Path) -> None:
    """Raise UnreadableInput if the metadata log lies under another name, or in another log directory, than where Kafka
    looks for it."""
    from kcli.inspector.verify.next_steps import move

    if metadata.renamed_log is not None:
        command = move([(metadata.renamed_log, metadata.directory / METADATA_DIRECTORY)])
        raise UnreadableInput(str(metadata.renamed_log), f"the metadata log; give it its name back first: {command}")
    if metadata.misplaced_log is not None and directory.absolute().name != METADATA_DIRECTORY:
        command = move([(metadata.misplaced_log, metadata.home / METADATA_DIRECTORY)])
        reason = f"the metadata log; move it back into {metadata.home} first: {command}"
        raise UnreadableInput(str(metadata.misplaced_log), reason)


def _unserved(topics: KnownTopics, recovery: Recovery, metadata: MetadataRecovery) -> Iterator[StartRefused]:
    """Yield the topics of coordinators in a log directory of which groups or transactional ids are unknown to Kafka,
    unless directories that have exchanged their names, or misplaced .log files, explain it."""
    if recovery.is_partition:
        return
    damaged = [*metadata.exchanged_directories, *recovery.exchanged, *recovery.exchanged.values()]
    damaged += (recovery.directory / each.file for each in recovery.passed_over)
    names = (parse_directory(name) for path in damaged for name in (path.name, path.parent.name))
    yield from topics.unserved({name.topic for name in names if name is not None})


def _coverage(tier: str, directory: Path, copies: ExitStack) -> TierCoverage:
    """Return the coverage of a directory's logs by the tier at a path or a URL. copies: removes the local copies of
    objects when it is closed. Raises UsageError, UnreadableInput."""
    from kcli.inspector.tier.coverage import TierCoverage
    from kcli.log.log_directory import holds_segments, is_log_directory
    from kcli.tier.opening import open_tier
    from kcli.tier.tier import Tier

    name = parse_directory(directory.absolute().name) if holds_segments(directory) else None
    home = directory if name is None else directory.absolute().parent
    if name is not None and not is_log_directory(home):
        raise UsageError("--tier needs the log directory that the partition is in, with its checkpoints")
    store = open_tier(tier, copies.enter_context(spool_for(tier)))
    found = Tier.read(store, home, None if name is None else name.topic)
    for error in (error for each in found.partitions for error in each.unread):  # the plan reports those of `home`
        raise error
    return TierCoverage(found, directory, tier, copies)


def _checked(check: Callable[[], Mapping[Path, Checked]], coverage: TierCoverage | None) -> Mapping[Path, Checked]:
    return check() if coverage is None else coverage.complete(check())


def _metadata(directory: Path, server: Mapping[str, str], now_ms: int, *, salvage: bool) -> MetadataRecovery:
    from kcli.metadata_log.recovery import MetadataRecovery

    is_the_log = directory.absolute().name == METADATA_DIRECTORY
    return MetadataRecovery(directory.absolute().parent if is_the_log else directory, server, now_ms, salvage)


def _properties(metadata: MetadataRecovery) -> str | None:
    """Return the meta.properties that salvage writes in place of a missing or damaged one; None if salvage does not
    write it."""
    from kcli.broker.metadata.format import random_id
    from kcli.metadata_log.known_properties import text_of

    known = metadata.known_properties
    return None if known is None else text_of(known, known.cluster_id or random_id())


class _Show:
    """Shows the result of a recovery, row by row. A row is a dict about one finding or one change, with the fields
    `partition`, `kind` and `file`, and further fields that depend on the kind. It is written as a JSON object or as
    text."""

    def __init__(  # noqa: PLR0913 (one parameter a collaborator)
        self,
        recovery: Recovery,
        metadata: MetadataRecovery,
        progress: _Progress,
        config: Path | None,
        records: StateRecords,
        coverage: TierCoverage | None,
        moved_logs: Mapping[str, Sequence[Path]],
        *,
        as_json: bool,
        in_place: bool,
    ) -> None:
        """moved_logs: the .log files that lie in another partition's directory, by the partition that lacks them."""
        self._config, self._in_place = config, in_place
        self._records, self._coverage, self._moved_logs = records, coverage, moved_logs
        self._recovery, self._metadata, self._progress, self._as_json = recovery, metadata, progress, as_json
        self._totals = _Totals()
        self._is_bad = self._has_next = self._is_unknown = False
        self._ends: dict[str, Row] = {}
        self._exchanged = {} if recovery.is_partition else dict(metadata.exchanged_directories)
        """The directories that have exchanged their names, each with the partition that its records belong to."""
        self._promotions = {} if recovery.is_partition else metadata.promotions
        """The future logs that the start puts in the place of current logs, by the path of each of the two."""
        node = recovery.node
        left_out = {} if recovery.is_partition or node is None else node.left_out
        self._superseded = {path for path, copy in left_out.items() if not copy.is_kept}
        """The directories that become strays, while Kafka serves their partitions from other log directories: nothing
        that happens to their logs is a loss."""
        self._left_aside = set() if recovery.is_partition or recovery.salvage else metadata.left_aside
        """The directories that Kafka's start leaves as they are, or makes strays: it serves no record of them."""
        self._open: list[Row] = []
        """The rows of transactions that the start leaves open, as it cuts their end markers or may have cut them."""
        self._harmed: list[str] = []
        self._shortened: list[str] = []
        """The partitions whose logs lose sound batches."""
        self._state_partitions: dict[int, StatePartition] = {}
        """The partitions of __transaction_state that lose records or that their coordinator does not load as a whole,
        by number, as they are after the start."""
        self._is_state_unknown = False
        """Whether there is a partition of __transaction_state with which Kafka does not start."""

    def run(self, plans: Iterator[PartitionPlan], *, changes: bool) -> int:
        """Show the rows of the plans, and a line with their sums. Return the exit status. changes: whether the plans
        are carried out.

        An error that `plans` raises is not caught.
        """
        recovery, totals = self._recovery, self._totals
        began = time.monotonic()
        self._of_directory(changes=changes)
        for plan in plans:
            goes_offline = recovery.goes_offline(plan)  # with the log directory, as the rows of that say
            rows = [] if goes_offline else list(_rows(plan, salvage=recovery.salvage))
            if self._coverage is not None:
                rows = self._with_tier(plan, rows, self._coverage)
            if plan.lacks_end:
                rows = [row | self._of_end(plan) if row["kind"] == "end-missing" else row for row in rows]
            rows = self._without_consequences(plan, rows)
            if plan.view.directory in self._superseded:
                self._ends.update((row["partition"], row) for row in rows if row["kind"] == "partition")
                continue
            totals.add(plan, rows, is_refused=plan.refused is not None and not goes_offline)
            self._is_bad = self._is_bad or any(row["kind"] in GOES_ON_WITH for row in rows)
            self._has_next = self._has_next or any(row["kind"] in SALVAGEABLE for row in rows)
            self._open += [row for row in rows if row["kind"] == "transaction-open"]
            is_harmed = plan.has_losses or plan.saved.gaps or plan.refused is not None or plan.lacks_end
            self._harmed += [plan.name] if is_harmed else []
            is_shortened = not recovery.salvage and any(row.get("lost_batches") for row in rows)
            self._shortened += [plan.name] if is_shortened else []
            if _is_of_coordinator(plan.name) and (is_harmed or plan.load_end is not None):
                self._add_state_partition(plan, is_done=changes and self._in_place)
            promoted = self._promotions.get(plan.view.directory)
            if promoted is not None:
                aside = promoted.set_aside if recovery.salvage else None
                rows = [row | _end_of_promoted(row, promoted, plan.view.directory, aside) for row in rows]
            self._ends.update((row["partition"], row) for row in rows if row["kind"] == "partition")
            shown = [row for row in rows if row["kind"] not in ("partition", "transaction-open")]
            self._write(shown if self._as_json else _summed_up(shown))
        self._of_promotions()
        self._of_metadata(changes=changes)
        self._of_transactions(changes=changes)
        self._of_unreadable()
        if self._as_json:
            self._write(list(self._ends.values()))
        elif not changes:
            self._write_next()
        self._progress.clear()
        if not self._as_json:
            seconds = time.monotonic() - began
            write_text(totals.text(recovery, changes=changes, seconds=seconds))
            if recovery.backup is not None:
                write_text(f"What was cut is in {printable(recovery.backup)}\n")
        elif recovery.backup is not None:
            write_text(_line(True, {"partition": "", "kind": "backup", "file": str(recovery.backup)}))
        if recovery.unreadable or totals.unread:
            return 2
        is_bad = totals.losses or totals.is_salvaged or self._metadata.is_loss or self._is_bad or self._is_unknown
        return 1 if totals.refused or self._metadata.undecided or (is_bad and not changes) else 0

    def _without_consequences(self, plan: PartitionPlan, rows: list[Row]) -> list[Row]:
        """Return the rows of a directory without those that follow from its name. If it has exchanged its name, the log
        does not reach the other partition's end, and the open transactions are known to their own one's coordinator. If
        Kafka leaves it aside, no deleted record of it is served again."""
        if plan.view.directory in self._left_aside:
            rows = [row for row in rows if row["kind"] != "start-forgotten"]
        if plan.view.directory not in self._exchanged:
            return rows
        is_cut = plan.has_losses or plan.saved.gaps
        kept = [row for row in rows if row["kind"] != "end-missing"]
        return [row for row in kept if is_cut or row["kind"] != "transaction-open" or row["marker_offset"] is not None]

    def _with_tier(self, plan: PartitionPlan, rows: list[Row], tier: TierCoverage) -> list[Row]:
        """Return the rows of a plan, with fields and further rows that say which of the offsets that the log lacks the
        tier has."""
        from kcli.log.recovery.salvage import is_log

        found = tier.after(plan)
        if found is None:
            return rows
        shown: list[Row] = []
        for row in rows:
            if row["kind"] == "passed-over" and is_log(row["file"]) and int(row["file"][:20]) < found.local_first:
                continue  # a row from `_tier_rows` says whether the tier serves its offsets
            if row["kind"] == "partition":
                shown += _tier_rows(plan, found, tier.address, salvage=self._recovery.salvage)
            shown.append(row | _in_tier(row, found) | _taken(row, plan, tier))
        return shown

    def _write(self, rows: list[Row]) -> None:
        self._progress.clear()
        for row in rows:
            write_text(_line(self._as_json, row))

    def _refuse(
        self, refusals: list[StartRefused], mended_by: Callable[[StartRefused], str | None], *, changes: bool
    ) -> None:
        """Show what keeps Kafka from starting. mended_by: returns, in words, what the recovery changes so that Kafka
        starts; None if it changes nothing."""
        for each in refusals:
            how = mended_by(each) if changes or self._recovery.salvage else None
            self._totals.refused += how is None
            self._totals.mended += how is not None
            self._is_bad = self._is_bad or how is not None
            self._write([_refusal("", each, how)])

    def _pass_over(self, found: list[StartRefused]) -> None:
        """Show the damage with which Kafka starts, although it then does not serve all partitions as it should."""
        self._is_bad = self._is_bad or bool(found)
        for each in found:
            row = {"partition": "", "kind": "passed-over", "file": each.file, "position": each.position}
            self._write([row | {"reason": each.reason}])

    def _of_directory(self, *, changes: bool) -> None:
        recovery = self._recovery
        self._refuse(recovery.refusals, partial(recovery.mended_by, in_place=self._in_place), changes=changes)
        found = (*recovery.refusals, *recovery.failures, *recovery.passed_over)
        is_copied = not recovery.is_partition and bool(self._records.copied_groups())
        self._has_next = is_copied or any(map(recovery.could_mend, found))
        self._pass_over(recovery.passed_over)
        self._pass_over([] if recovery.is_partition else list(self._metadata.foreign_checkpoints))
        if recovery.lacks_points:
            row = {"partition": "", "kind": LACKS, "file": str(FileKind.RECOVERY_POINTS)}
            outcome = "they are written" if changes else "a recovery writes them"
            reason = f"no such file, and no recovery points: Kafka takes all of each log for not flushed; {outcome}"
            self._write([row | {"reason": reason}])
        if recovery.node_id is not None:
            row = {"partition": "", "kind": "node-id", "file": str(FileKind.META_PROPERTIES)}
            self._write([row | {"node_id": recovery.node_id}])
            self._is_bad = self._has_next = True
        if recovery.directory_id is not None:
            row = {"partition": "", "kind": "directory-id", "file": str(FileKind.META_PROPERTIES)}
            self._write([row | {"directory_id": recovery.directory_id}])
            self._is_bad = self._has_next = True
        for place, log in recovery.exchanged.items():
            row = {"partition": place.parent.name, "kind": "exchanged", "file": place.name}
            self._write([row | {"owner": f"{log.parent.name}/{log.name}"}])
            self._is_bad = self._has_next = True
        for path, owner in self._exchanged.items():
            self._write([{"partition": f"{owner}", "kind": "exchanged", "file": "", "owner": path.name}])
            self._is_bad = self._has_next = True
        if recovery.lacks_marker and self._as_json:
            self._write([{"partition": "", "kind": "unclean-shutdown", "file": str(FileKind.CLEAN_SHUTDOWN)}])

    def _of_end(self, plan: PartitionPlan) -> Row:
        """Return the fields of the row about a log's missing end that say why its offsets may not be lost: a .log file
        with them lies in another partition's directory, or has a name that Kafka does not read, or the end offset in a
        checkpoint is wrong."""
        from kcli.log.partition_view import is_unread_log, offset_of
        from kcli.log.recovery.files_beside import files_with

        assert plan.offsets is not None, "the log has an end"
        end = plan.offsets.log_end_offset
        moved = [each for each in self._moved_logs.get(plan.name, ()) if int(each.stem) >= end]
        if moved:
            return {"moved": [f"{each.parent.name}/{each.name}" for each in moved]}
        passed = {each.file for each in plan.events if each.kind == "passed-over" and is_unread_log(each.file)}
        unread = sorted(each for each in passed if offset_of(each) >= end)
        unread += [each.before for each in plan.empty_logs if each.hides_end and each.base_offset == end]
        unread = unread or [path.name for path in files_with(plan.view.directory, end, plan.options.reached)]
        if unread and not plan.is_salvaged:
            return {"unread": [f"{plan.name}/{each}" for each in unread]}
        return {"doubtful": True} if self._recovery.doubts_end(plan) else {}

    def _of_promotions(self) -> None:
        """Show which future logs Kafka's start puts in the place of current logs, and which offsets are lost because of
        this."""
        for path, each in self._promotions.items():
            promotion, is_future = each.promotion, path == each.promotion.future
            if promotion.is_refused and not self._recovery.salvage:  # `_refuse` has shown this one already
                self._has_next = True
                continue
            aside = each.set_aside if self._recovery.salvage else None
            if promotion.is_resumed and not each.lost and aside is None:
                continue
            kind = "promoted" if is_future else "current-deleted"
            if aside is not None:
                kind = "set-aside" if path == aside else "kept"
            row: Row = {"partition": path.name if path == aside else promotion.name, "kind": kind, "file": ""}
            current = None if promotion.current is None else str(promotion.current)
            row |= {"future": str(promotion.future), "current": current, "log_end_offset": each.end}
            row |= {"resumed": promotion.is_resumed}
            row |= {"current_end_offset": each.current_end, "lost": [[*ends] for ends in each.lost]}
            row |= {"lost_offsets": each.lost_offsets, "set_aside": None if aside is None else str(aside)}
            row |= {"salvage_sets_aside": None if each.set_aside is None else str(each.set_aside)}
            self._write([row])
            self._is_bad = self._is_bad or bool(each.lost)
            self._has_next = self._has_next or each.set_aside is not None or bool(each.lost and current)

    def _of_transactions(self, *, changes: bool) -> None:
        """Show each transaction for which __transaction_state, as it is after the start, contradicts the producer state
        of a partition: a producer whose epoch is lost; and an open transaction. If the start itself leaves it open, the
        row also has the transactional id and the state by which the coordinator ends it. Partitions that have exchanged
        their directories or .log files are left out: each has the producers of another."""
        if self._recovery.is_partition or self._is_state_unknown:
            self._write(self._open)
            return
        from kcli.inspector.transaction_state import CoordinatorCheck

        node, salvage = self._recovery.node, self._recovery.salvage
        own = {each.path.name for each in self._recovery.partitions}
        after_start = self._state_partitions | self._created_state_partitions()
        homes = [self._recovery.directory, *([] if node is None else node.others)]
        check = CoordinatorCheck(homes, after_start, self._recovery.now_ms, self._recovery.producer_expiration_ms)
        ended = check.ended() if self._open else {}
        self._write([row | ended.get((row["producer_id"], row["partition"]), {}) for row in self._open])
        again = list(check.ended_again()) if after_start else []
        self._is_bad = self._is_bad or bool(again)
        self._write([ended_again_row(each) for each in again])
        told_open = {row["partition"] for row in self._open}
        own -= {path.name for path in (*self._exchanged, *(log.parent for log in self._recovery.exchanged))}
        found = [each for each in check.unfit(self._shortened) if str(each.partition) in own]
        if changes and salvage:  # `write` has appended the records already, by the recovered logs
            found = [each for each in found if not (each.transactional_id and self._records.mends(each))]
            found += self._records.written
        for each in found:
            name = str(each.partition)
            if each.transactional_id and not each.error:
                continue  # the producer continues without an error
            if each.transactional_id:
                mends = self._records.mends(each)
                self._is_bad = True
                self._has_next = self._has_next or mends
                self._write([state_end_row(each, mends=mends, salvage=salvage)])
            elif each.kind != "transaction-open":
                if not after_start:
                    self._pass_over([StartRefused(name, f"{each.found}: {each.outcome}")])
            elif name not in told_open and name not in self._harmed:
                self._is_bad = True
                fields: Row = {"partition": name, "kind": each.kind, "file": "", "producer_id": each.producer_id}
                self._write([fields | {"first_offset": each.offset, "marker_offset": None, "outcome": each.outcome}])

    def _add_state_partition(self, plan: PartitionPlan, *, is_done: bool) -> None:
        """Note how a partition of __transaction_state is after the start. is_done: whether the start was carried out in
        place, so that the partition is as the directory now has it; else it is as the plan's view has it."""
        from kcli.inspector.transactions import StatePartition
        from kcli.log.partition_view import PartitionView

        name = parse_directory(plan.name)
        self._is_state_unknown = self._is_state_unknown or plan.refused is not None
        if name is not None and not name.state:
            view = PartitionView(plan.view.directory) if is_done else plan.view
            self._state_partitions[name.partition] = StatePartition(view, plan.read_end)

    def _created_state_partitions(self) -> dict[int, StatePartition]:
        """Return the partitions of __transaction_state that Kafka's next start creates empty: no other node has any."""
        from kcli.inspector.transactions import StatePartition

        missing = (each.partition for each in self._metadata.missing if not each.others and each.renamed is None)
        return {number: StatePartition(None) for topic, number in missing if topic == TRANSACTIONS_TOPIC}

    def _of_metadata(self, *, changes: bool) -> None:
        """Show what Kafka's start with this metadata log means for the cluster, also if the metadata log lies in
        another log directory."""
        from kcli.cli.recover_metadata import metadata_rows, metadata_text

        metadata, recovery = self._metadata, self._recovery
        if not recovery.is_partition and metadata.is_elsewhere and not metadata.has_looked:
            metadata.look_elsewhere()
        self._refuse(list(filter(recovery.is_reached, metadata.refusals)), metadata.mended_by, changes=changes)
        self._has_next = self._has_next or metadata.can_do_without_bootstrap
        known_paths = (*(each.path for each in recovery.unreadable), *self._totals.unread)
        more = () if metadata.lost is None else metadata.lost.unreadable
        recovery.unreadable += [each for each in more if not each.path.startswith(known_paths)]
        misplaced = metadata.misplaced
        self._pass_over([*metadata.passed_over, *misplaced])
        if not recovery.is_partition:
            blocked = {each.file for each in metadata.blocked}
            self._of_missing([each for each in metadata.missing if each.directory_name not in blocked])
        if metadata.passed_over or any(each.file == FileKind.META_PROPERTIES for each in recovery.refusals):
            registered = metadata.registered_node_id, metadata.registered_directory_id
            self._has_next = self._has_next or registered != (None, None)
        rows = list(metadata_rows(metadata, has_partitions=bool(recovery.partitions)))
        for row in [row for row in rows if row["kind"] == "stray"]:
            self._of_stray(row)
        self._is_unknown = any(row["kind"] == "metadata-missing" for row in rows)
        self._has_next = self._has_next or (metadata.footer is not None and metadata.starts)
        if misplaced or metadata.refusals or metadata.strays:
            self._has_next = self._has_next or bool(metadata.mended_identities)
        if self._as_json:
            self._write(rows)
            return
        self._progress.clear()
        for kind, place, words in metadata_text(metadata, rows, self._config, changes=changes):
            write_text(_text_line(kind, place, words))

    def _of_missing(self, missing: Sequence[MissingPartition]) -> None:
        """Show the partitions that the metadata log assigns to this log directory but whose directory is missing, is
        that of a deleted topic, or has no batch while another directory has the partition's records."""
        from kcli.inspector.verify.next_steps import unpack
        from kcli.log.packed_directories import packed_directories

        home = self._recovery.directory
        packed = packed_directories(home, {each.directory_name for each in missing})
        for each in missing:
            row: Row = {"partition": each.directory_name, "kind": "partition-missing", "file": ""}
            directory = None if each.renamed is None else os.path.relpath(each.renamed.path, self._recovery.directory)
            is_left = self._in_place and each.renamed is not None and each.renamed.path in self._recovery.from_others
            is_made = bool(each.flat) and not self._in_place
            if (directory is None and not is_made) or is_left or not self._recovery.salvage:
                self._is_bad = True
                future = None if each.future is None or not each.future_end else str(each.future.path)
                row |= {"future": future, "future_end_offset": each.future_end}
                row |= {"directory": directory, "reached_offset": each.reached, "others": [*each.others]}
                row |= {"log_directories": self._metadata.count_of_unnamed}
                row |= self._of_missing_in_tier(each)
                row |= {"flat": sorted(path.name for path in each.flat.values())} if each.flat else {}
                if (archive := packed.get(each.directory_name)) is not None:
                    row |= {"archive": archive.path.name, "command": unpack(archive, home / each.directory_name)}
                self._write([row | {"deleted": each.deleted is not None, "emptied": each.emptied is not None}])
                self._ends.setdefault(each.directory_name, _empty_log(each.directory_name))
            is_there = directory is not None or bool(each.flat)
            self._is_bad = self._is_bad or is_there
            self._has_next = self._has_next or is_there

    def _of_missing_in_tier(self, each: MissingPartition) -> Row:
        """Return the fields of a missing partition's row that name the offsets that the tier has of it."""
        from kcli.inspector.verify.next_steps import fetch_from_tier

        ranges = [] if self._coverage is None else self._coverage.alone(*each.partition)
        if self._coverage is None or not ranges:
            return {}
        command = fetch_from_tier(self._recovery.directory, self._coverage.address, *each.partition)
        return {"in_tier": ranges, "command": command}

    def _of_unreadable(self) -> None:
        """Show a row for each file or directory that could not be read."""
        recovery = self._recovery
        directories = {each.path for each in recovery.partitions}
        for error in recovery.unreadable:
            path = Path(error.path)
            if path in directories or (path.parent == recovery.directory and not recovery.is_partition):
                self._write([_unread_row(path.name, "", error)])
            elif path.parent in directories:
                self._write([_unread_row(path.parent.name, path.name, error)])
                self._has_next = self._has_next or not error.is_denied
            else:
                self._write([_unread_row("", error.path, error)])

    def _of_stray(self, row: Row) -> None:
        """Set `offsets` in a stray's row to the number of offsets that Kafka no longer serves because the directory is
        a stray. Unless salvage keeps the stray, set the offsets in the row of kind `partition` to those of an empty
        log."""
        end = self._ends.get(row["partition"])
        if end is None:
            return
        row["offsets"] = end["log_end_offset"] - end["log_start_offset"]
        if row["not_served"] is not None:
            row["offsets"] = sum(last - first + 1 for first, last in row["not_served"])
        self._is_bad = self._is_bad or (row["offsets"] > 0 and not row["deleted"])
        if not (row["kept"] and self._recovery.salvage):
            end |= {"log_start_offset": 0, "log_end_offset": 0, "recovery_point": 0, "stray": True}

    def _write_next(self) -> None:
        """Write a line with the next command: the one that salvages, if salvage would change something; else, if Kafka
        would not start, `kcli verify`, which tells an operator what to do. Write nothing if there is nothing to do."""
        from kcli.inspector.verify.next_steps import move, salvage_to

        recovery, metadata = self._recovery, self._metadata
        is_shown = metadata.lost is not None and metadata.salvage is not None and not metadata.is_salvaged
        totals = self._totals
        if metadata.renamed_log is not None and not recovery.is_partition:
            command = move([(metadata.renamed_log, metadata.directory / METADATA_DIRECTORY)])
            write_text(
                _text_line("next", command, "gives the metadata log its name back, without which Kafka knows no topic")
            )
            return
        if metadata.misplaced_log is not None and not recovery.is_partition:
            command = move([(metadata.misplaced_log, metadata.home / METADATA_DIRECTORY)])
            write_text(_text_line("next", command, "moves the metadata log back to where Kafka looks for it"))
            return
        if is_shown:
            return
        is_mended = totals.is_salvaged or totals.mended > 0
        if not (self._has_next or totals.losses or totals.refused_partitions or is_mended):
            if totals.refused or self._is_bad:
                command = self._verify_command
                why = ": salvage does not mend this" if recovery.salvage else ""
                write_text(_text_line("next", command, f"tells what to do by hand{why}"))
            return
        options = self._config_options
        if recovery.clean is not None and not recovery.finds_marker:
            options.append("--clean" if recovery.clean else "--unclean")
        options += [] if self._coverage is None else ["--tier", self._coverage.address]
        command = salvage_to(self._new, recovery.directory, recovery.home, options)
        words = "keeps in a copy what is sound" if recovery.salvage else NEXT
        write_text(_text_line("next", command, f"{words}{self._left_to_do()}"))

    @property
    def _new(self) -> str:
        """The placeholder for the copy's path in the next command. Each partition of a log directory and each log
        directory of a broker with several has its own, so that the commands of several can be pasted one after the
        other."""
        from kcli.log.log_directory import is_log_directory

        directory = self._recovery.directory.absolute()
        is_one_of_many = self._recovery.is_partition and is_log_directory(directory.parent)
        is_one_of_many = is_one_of_many or (self._recovery.node is not None and bool(self._recovery.node.others))
        return f"NEW-{directory.name}" if is_one_of_many else "NEW"

    @property
    def _config_options(self) -> list[str]:
        return [] if self._config is None else ["--config", str(self._config)]

    @property
    def _verify_command(self) -> str:
        from kcli.inspector.verify.next_steps import quoted

        command = shlex.join(["kcli", "verify", *self._config_options])
        return f"{command} {quoted(self._recovery.directory)}"

    def _left_to_do(self) -> str:
        """Return the end of a sentence that names the files which salvage cannot repair, because of which Kafka would
        not start with the salvaged copy either, or the partitions in whose place is a broken link or a file, which the
        copy lacks; "" if there are none."""
        recovery = self._recovery
        metadata = self._metadata
        is_mended = (metadata.registered_node_id, metadata.registered_directory_id) != (None, None)
        left = [
            each.file
            for each in recovery.refusals
            if not recovery.could_mend(each) and not (is_mended and each.file == FileKind.META_PROPERTIES)
        ]
        command = self._verify_command
        if metadata.blocked:
            names = printable(", ".join(each.file for each in metadata.blocked))
            return f"; without {names}: {command} tells what to do before"
        if not left:
            return ""
        return f"; {printable(', '.join(left))} stays as it is: {command} tells what to do by hand"


def _is_of_coordinator(name: str) -> bool:
    return name.startswith(f"{TRANSACTIONS_TOPIC}-")


def _empty_log(name: str) -> Row:
    """Return the row of a partition whose directory is missing: Kafka creates an empty log for the partition."""
    ends = {"log_start_offset": 0, "log_end_offset": 0, "recovery_point": 0}
    return {"partition": name, "kind": "partition", **ends, "changed": True, "missing": True}


NEXT = "keeps in a copy what is sound, and what Kafka starts with (--dry-run shows it beforehand)"


def _refusal(partition: str, each: StartRefused, mended_by: str | None = None) -> Row:
    row = {"partition": partition, "kind": "refused", "file": each.file, "position": each.position}
    return row | {"reason": each.reason, "mended": mended_by is not None, "mended_by": mended_by}


def _unread_row(partition: str, file: str, error: UnreadableInput) -> Row:
    """Return a row for a file that cannot be read. If the permission is missing or the disk fails, Kafka does not start
    either, and the row says so. A circular symbolic link is no file to Kafka: it starts without a .log file, and does
    not start if it cannot write an index."""
    found = parse(file) if partition and error.errno == ELOOP else None
    kind = None if found is None else found.kind
    if not (error.is_denied or error.is_disk_error or kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)):
        outcome = "; Kafka does without it" if kind is FileKind.LOG else ""
        return {"partition": partition, "kind": "unreadable", "file": file, "reason": f"{error.reason}{outcome}"}
    refused = StartRefused(file, f"cannot be read: {error.reason}")
    return _refusal(partition, refused)


def _rows(plan: PartitionPlan, *, salvage: bool) -> Iterator[Row]:
    """Yield a row for each change that a start or salvage makes, then one with the partition's offsets afterwards."""
    for event, lost in zip(plan.events, plan.lost, strict=True):
        behind = plan.segments_behind(event.file) if event.kind in CUTS else 0
        more: Row = {"segments_behind": behind} if behind else {}
        if event.kind in CUTS and not behind and not salvage:
            more = _reached_fields(plan, event)
        yield _event_row(plan.name, event, lost, plan.snapshot_offset) | more
        if lost.others and not salvage:
            yield from _foreign_rows(plan, event.file, lost.others, is_cut=True)
    if plan.refused is not None:
        yield _refusal(plan.name, plan.refused)
        return
    if salvage:
        yield from _salvage_rows(plan)
    for found in plan.saved.misdirected if salvage else plan.misdirected:
        yield from _foreign_rows(plan, found.file, found.runs, is_left_out=salvage)
    yield from _begin_rows(plan)
    if plan.load_end is not None:
        end = plan.load_end
        row = {"partition": plan.name, "kind": "not-loaded", "file": end.file, "position": end.position}
        row |= {"offset": end.offset, "reason": end.reason}
        yield row | {"coordinator": end.coordinator, "outcome": end.outcome}
    if plan.lost_state is not None:
        state: Row = {"partition": plan.name, "kind": "state-lost", "file": "", "what": plan.lost_state.what}
        if plan.lost_state.offsets is not None:
            first, last = plan.lost_state.offsets
            state |= {"lost_first_offset": first, "lost_last_offset": last}
        yield state | {"count": len(plan.lost_state.names), "names": [*plan.lost_state.names]}
    # if no records are lost, the coordinator ends the open transactions, except those whose markers are lost
    is_damaged = plan.has_losses or plan.saved.gaps or plan.lacks_end
    for first_offset, producer_id in plan.open_transactions if is_damaged else plan.lost_markers:
        transaction: Row = {"partition": plan.name, "kind": "transaction-open", "file": ""}
        marker = plan.lost_markers.get((first_offset, producer_id))
        yield transaction | {"producer_id": producer_id, "first_offset": first_offset, "marker_offset": marker}
    yield from _forgotten_rows(plan)
    assert plan.offsets is not None, "a partition is loaded or refused"
    if plan.lacks_end:
        log_end, reached = plan.offsets.log_end_offset, plan.options.reached
        ends: Row = {"log_end_offset": log_end, "reached_offset": reached, "lost_offsets": reached - log_end}
        ends["reached_by"] = plan.options.reached_by
        yield {"partition": plan.name, "kind": "end-missing", "file": "", **ends}
    yield {
        "partition": plan.name,
        "kind": "partition",
        "log_start_offset": plan.offsets.log_start_offset,
        "log_end_offset": plan.offsets.log_end_offset,
        "recovery_point": plan.offsets.recovery_point,
        "changed": plan.is_changed(),
    }


def _begin_rows(plan: PartitionPlan) -> Iterator[Row]:
    """Yield a row for each reason why the log begins too late or too early after a start."""
    if plan.hidden is not None:
        hidden = plan.hidden
        row = {"partition": plan.name, "kind": "start-hidden", "file": "", "log_start_offset": hidden.start}
        yield row | {"first_offset": hidden.first, "offsets": hidden.start - hidden.first, "segments": hidden.segments}
    if plan.expired is not None:
        row = {"partition": plan.name, "kind": "expired", "file": plan.expired.file}
        yield row | {"reason": plan.expired.reason, **plan.expired.fields}
    if plan.deleted_below:
        from kcli.log.recovery.epoch_starts import may_be_made_anew

        row = {"partition": plan.name, "kind": "start-forgotten", "file": "", "deleted_below": plan.deleted_below}
        start = plan.offsets.log_start_offset if plan.offsets is not None else 0
        row |= {"log_start_offset": start, "offsets": plan.deleted_below - start}
        yield row | ({"doubtful": True} if may_be_made_anew(plan.view.directory, plan.deleted_below) else {})


def _tier_rows(plan: PartitionPlan, found: Coverage, address: str, *, salvage: bool) -> Iterator[Row]:
    """Yield a row for each range of offsets that the log lacks and the tier has, or lacks as well."""
    from kcli.inspector.verify.next_steps import fetch_from_tier, verify_tier

    home = plan.view.directory.parent
    log_end = 0 if plan.offsets is None else plan.offsets.log_end_offset
    for kind, ranges in (("tier-served", found.served), ("tier-gap", found.missing), ("in-tier", found.in_tier)):
        for first, last in ranges:
            row: Row = {"partition": plan.name, "kind": kind, "file": "", "first_offset": first, "last_offset": last}
            if kind == "in-tier" and salvage:
                name = parse_directory(plan.name)
                assert name is not None, "a partition of the tier has a name"
                row["command"] = fetch_from_tier(home, address, name.topic, name.partition)
            if kind == "in-tier":
                row["log_end_offset"] = log_end
            if kind == "tier-gap":
                row["command"] = verify_tier(home, address)
            yield row


def _in_tier(row: Row, found: Coverage) -> Row:
    """Return the fields to change in a row about lost offsets because the tier has some of these."""
    if row["kind"] == "end-missing":
        end, reached = row["log_end_offset"], row["reached_offset"]
        ranges = found.of(end, reached - 1)
        return {"in_tier": ranges, "lost_offsets": reached - end - _count(ranges)} if ranges else {}
    if row["kind"] == "gap" and row["last_offset"] is not None:
        ranges = found.of(row["first_offset"], row["last_offset"])
        return {"in_tier": ranges} if ranges else {}
    if row.get("lost_first_offset") is None or "lost_batches" not in row:
        return {}
    ranges = found.of(_first_lost(row), row["lost_last_offset"])
    return {"in_tier": ranges} if ranges else {}


def _taken(row: Row, plan: PartitionPlan, tier: TierCoverage) -> Row:
    """Return the fields to change in a row about a file that salvage takes from the tier."""
    if row["kind"] not in ("restored", "left-out"):
        return {}
    path = Path(os.path.normpath(plan.view.directory.absolute() / row["file"]))
    if path not in tier.objects:
        return {}
    return {"file": row.get("name", tier.objects[path]), "object": tier.objects[path]}


def _count(ranges: Sequence[Range]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _forgotten_rows(plan: PartitionPlan) -> Iterator[Row]:
    """Yield a row for each open transaction that a start forgets, then one row with the number of all producers whose
    state a clean start forgets, because there is no producer snapshot."""
    for each in plan.forgotten:
        if (first := each.current_txn_first_offset) >= 0:
            yield _forgotten_row(plan, "", first, each.producer_id)
    if plan.lacking is not None:
        for first, producer_id in plan.lacking.transactions:
            yield _forgotten_row(plan, plan.lacking.file, first, producer_id)
    if plan.forgotten:
        row: Row = {"partition": plan.name, "kind": "producers-forgotten", "file": "", "producers": len(plan.forgotten)}
        forgets = f"forgets {count_text(len(plan.forgotten), 'producer')}"
        reason = f"there is no producer snapshot: a clean start does not read the log for producers, and {forgets}"
        yield row | {"reason": reason}


def _forgotten_row(plan: PartitionPlan, file: str, first: int, producer_id: int) -> Row:
    """Return the row of an open transaction that a start forgets. file: the producer snapshot that lacks it; empty if
    there is none."""
    row: Row = {"partition": plan.name, "kind": "transaction-forgotten", "file": file}
    begins = f"producer {producer_id} has a transaction open from offset {first:,} on"
    begins += " in the log, which the snapshot that Kafka loads lacks" if file else ""
    outcome = "it is forgotten, and read_committed consumers then get its records, committed or not"
    return row | {"producer_id": producer_id, "first_offset": first, "reason": f"{begins}: {outcome}"}


def _reached_fields(plan: PartitionPlan, event: Event) -> Row:
    """Return the fields of the row about a cut with which the log ends, if it had reached an offset above those of all
    batches that are lost: that offset, and the files that show it."""
    end = max([event.offset or 0, *(each.last_offset + 1 for each in plan.lost if each.last_offset is not None)])
    if plan.offsets is None or plan.offsets.log_end_offset != event.offset or plan.options.reached <= end:
        return {}
    return {"reached_offset": plan.options.reached, "reached_by": plan.options.reached_by}


def _foreign_rows(
    plan: PartitionPlan, file: str, found: Sequence[Run], *, is_left_out: bool = False, is_cut: bool = False
) -> Iterator[Row]:
    """Yield a row for each other partition that has batches in the .log file `file` of this partition. is_cut: whether
    a start cuts them off."""
    for owner in dict.fromkeys(run.owner for run in found):
        runs = [run for run in found if run.owner == owner]
        row: Row = {"partition": plan.name, "kind": "records-foreign", "file": file, "position": runs[0].position}
        row |= {"owner": owner, "owner_log": runs[0].log, "batches": sum(run.batches for run in runs)}
        row |= {"first_offset": runs[0].first_offset, "last_offset": runs[-1].last_offset}
        yield row | {"left_out": is_left_out, "cut": is_cut}


def _header_rows(plan: PartitionPlan) -> Iterator[Row]:
    """Yield a row for each batch header that salvage corrects, and for batches from an older version of a file."""
    for put in plan.saved.put_back:
        row = {"partition": plan.name, "kind": "put-back", "file": put.file, "position": put.position}
        yield row | {"before": put.before, "base_offset": put.base_offset}
    for each in plan.saved.epochs:
        row = {"partition": plan.name, "kind": "leader-epoch", "file": each.file, "position": each.position}
        yield row | {"before": each.before, "leader_epoch": each.leader_epoch}
    for part in plan.saved.refilled:
        row = {"partition": plan.name, "kind": "refilled", "file": part.file, "source": part.source}
        row |= {"first_offset": part.first_offset, "last_offset": part.last_offset}
        yield row | {"batches": part.batches, "block_position": part.position}
    for size in plan.saved.resized:
        row = {"partition": plan.name, "kind": "resized", "file": size.file, "position": size.position}
        yield row | {"before": size.before, "length": size.length}
    for file, batches in groupby(plan.saved.shifted, key=lambda each: each.file):
        shifts = [each.shift for each in batches]
        row = {"partition": plan.name, "kind": "shifted", "file": file, "position": shifts[0].position}
        row |= {"batches": len(shifts), "inserted_bytes": sum(each.by for each in shifts if each.by > 0)}
        yield row | {"lost_crs": sum(len(each.crs) for each in shifts)}
    for counted in plan.saved.recounted:
        row = {"partition": plan.name, "kind": "recounted", "file": counted.file, "position": counted.position}
        yield row | {"before": counted.before, "count": counted.count}
    for stated in plan.saved.last_offsets:
        row = {"partition": plan.name, "kind": "last-offset", "file": stated.file, "position": stated.position}
        yield row | {"before": stated.before, "base_offset": stated.base_offset, "last_offset": stated.last_offset}
    for magic in plan.saved.magics:
        row = {"partition": plan.name, "kind": "magic", "file": magic.file, "position": magic.position}
        yield row | {"before": magic.before, "magic": magic.magic}


def _salvage_rows(plan: PartitionPlan) -> Iterator[Row]:
    """Yield a row for each change that salvage makes to a partition."""
    for unread in plan.saved.unread:
        yield _unread_row(plan.name, unread.file, unread.error) | {"readable_bytes": unread.readable_bytes}
    for out in plan.saved.left_out:
        yield {"partition": plan.name, "kind": "left-out", "file": out.file, "reason": out.reason}
    for each in plan.saved.renamed:
        yield {"partition": plan.name, "kind": "renamed", "file": each.file, "name": each.name}
    for each in plan.saved.restored:
        parts = {"parts": [each.file, *each.others]} if each.others else {}
        yield {"partition": plan.name, "kind": "restored", "file": each.file, "name": each.name, **parts}
    for file, mode in plan.saved.text_mode.items():
        yield {"partition": plan.name, "kind": "text-mode", "file": file, "change": mode.name.lower()}
    for file in plan.saved.rebuilt:
        yield {"partition": plan.name, "kind": "rebuilt", "file": file}
    for moved in plan.saved.reordered:
        yield {"partition": plan.name, "kind": "reordered", "file": moved.file, "batches": moved.batches}
    yield from _header_rows(plan)
    for marker in plan.saved.markers:
        row = {"file": marker.file, "offset": marker.offset, "producer_id": marker.producer_id}
        row |= {"type": marker.type.name.lower(), "first_offset": marker.first_offset, "source": marker.source}
        yield {"partition": plan.name, "kind": "marker", **row}
    if plan.saved.topic_id is not None:
        file = str(FileKind.PARTITION_METADATA)
        yield {"partition": plan.name, "kind": "topic-id", "file": file, "topic_id": plan.saved.topic_id}
    if plan.saved.directory is not None:
        row = {"partition": plan.name, "kind": "renamed", "file": "", "name": plan.saved.directory}
        row |= {} if plan.saved.topic_id is None else {"topic_id": plan.saved.topic_id}
        is_inside = plan.name == plan.saved.directory  # it has its name already, in another directory
        yield row | ({"inside": plan.view.directory.parent.name} if is_inside else {})
    if plan.saved.flat:
        yield {"partition": plan.name, "kind": "restored", "file": "", "name": plan.name, "flat": [*plan.saved.flat]}
    if plan.saved.log_start is not None:
        start = plan.saved.log_start
        row = {"before": start.before, "log_start_offset": start.log_start_offset}
        row |= {"log_end_offset": start.log_end_offset, "by_leader_epochs": start.by_epochs}
        yield {"partition": plan.name, "kind": "log-start", "file": "", **row}
    for gap in plan.saved.gaps:
        yield {
            "partition": plan.name,
            "kind": "gap",
            "file": gap.file,
            "position": gap.position,
            "bytes": gap.length,
            "first_offset": gap.first_offset,
            "last_offset": gap.last_offset,
            **({"contradicting": [*gap.contradicting]} if gap.contradicting is not None else {}),
        }


def _summed_up(rows: list[Row]) -> list[Row]:
    """Return the rows, with one row in place of all leftover files of a partition that are removed for the same reason,
    since no record is lost with them."""
    shown: list[Row] = []
    sums: dict[str, Row] = {}
    for row in rows:
        if row["kind"] != "leftover-removed":
            shown.append(row)
        elif row["reason"] in sums:
            sum_up = sums[row["reason"]]
            sum_up["files"] += 1
            sum_up["bytes"] += row["bytes"]
        else:
            sums[row["reason"]] = {**row, "files": 1}
            shown.append(sums[row["reason"]])
    for row in sums.values():
        if row["files"] > 1:
            row["file"] = f"{row['file']} and {row['files'] - 1:,} more"
    return shown


def _event_row(partition: str, event: Event, lost: Lost, snapshot_offset: int) -> Row:
    row: Row = {"partition": partition, "kind": str(event.kind), "file": event.file}
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
        if lost.first_offset is not None and lost.first_offset < snapshot_offset:
            row["snapshot_offset"] = snapshot_offset
        return row
    return row | {"bytes": event.bytes, "reason": event.reason}


def _line(as_json: bool, row: Row) -> str:
    if as_json:
        return json_line(row)
    place = printable("/".join(filter(None, (row["partition"], row["file"]))))
    if row.get("position"):
        place += f"  byte {row['position']:,}"
    kind = "mended" if row.get("mended") else row["kind"]
    return _text_line(kind, place, printable(_words(row)))


def _text_line(kind: str, place: str, words: str) -> str:
    shown = f"{kind:16}"
    if on_terminal():
        shown = f"{RED if kind in BAD else CYAN}{shown}\x1b[0m"
    return f"{shown} {place}\n                 {words}\n"


LACKS = "checkpoint-missing"
RED, CYAN = "\x1b[1;31m", "\x1b[36m"
GOES_ON_WITH = (
    "passed-over",
    "offsets-used-up",
    "snapshot-wrong",
    "not-loaded",
    "end-missing",
    "transaction-open",
    "transaction-forgotten",
    "records-foreign",
    "expired",
    "in-tier",
    "tier-gap",
)
"""The kinds of rows for damage with which Kafka starts, but does not serve all partitions as it should."""
SALVAGEABLE = (
    "offsets-used-up",
    "snapshot-wrong",
    "gap",
    "records-foreign",
    "not-loaded",
    "passed-over",
    "end-missing",
    "expired",
    "transaction-forgotten",
    "in-tier",
)
"""The kinds of rows for damage in a partition that salvage may repair; it repairs passed-over and end-missing only with
files found under other names, and by leaving out empty .log files that no broker has made."""
NAMES_SHOWN = 5
"""The maximum number of groups or transactional ids on a line of text; --format jsonl lists them all."""
BAD = (
    "exchanged",
    "offsets-used-up",
    "cut",
    "emptied",
    "segment-removed",
    "end-hidden",
    "snapshot-wrong",
    "refused",
    "unreadable",
    "deleted",
    "metadata-lost",
    "not-loaded",
    "records-foreign",
    "partition-missing",
    "end-missing",
    "expired",
    "start-hidden",
    "start-forgotten",
    "state-lost",
    STATE_END,
    ENDED_AGAIN,
    "stray",
    "transaction-forgotten",
    "in-tier",
    "tier-gap",
)


MENDING = (
    "exchanged",
    "transaction-open",
    "node-id",
    "directory-id",
    "topic-id",
    "renamed",
    "restored",
    "text-mode",
    "rebuilt",
    "reordered",
    "put-back",
    "refilled",
    "resized",
    "shifted",
    "recounted",
    "last-offset",
    "magic",
    "leader-epoch",
    "marker",
)


ORDERED = (
    *("reordered", "put-back", "refilled", "resized", "shifted", "recounted", "last-offset"),
    *("magic", "leader-epoch"),
)
"""The kinds of rows about batches that salvage puts in order, or whose headers it puts right."""


def _order_words(row: Row) -> str:
    if row["kind"] == "put-back":
        wrong = f"the base offset of a sound batch is {row['before']:,}, a flipped bit, which no CRC covers"
        return f"{wrong}: {row['base_offset']:,} again, as its neighbours leave no other"
    if row["kind"] == "refilled":
        kept = count_text(row["batches"], "batch is", "batches are")
        offsets = f"{row['first_offset']:,}..{row['last_offset']:,}"
        if row["block_position"] is not None:
            place = f"which has their bytes at byte {row['block_position']:,}, where they belong in this file"
            return f"{kept} whole again with bytes of {row['source']}, {place}: offsets {offsets}"
        is_older = row["source"] == f"{row['file']}.deleted"
        what = "the segment before the log cleaner replaced it" if is_older else "a copy of the log"
        what = what if is_older or "/" in row["source"] else "a file beside the log"
        return f"{kept} taken from {row['source']}, {what}: offsets {offsets}"
    if row["kind"] == "leader-epoch":
        wrong = f"the leader epoch of a sound batch is {row['before']:,}, a flipped bit, which no CRC covers"
        return f"{wrong}: {row['leader_epoch']:,} again, as in the batches beside it"
    if row["kind"] == "resized":
        wrong = f"the length of a batch is {row['before']:,}, which no CRC covers"
        return f"{wrong}: {row['length']:,} again, with which its CRC is right"
    if row["kind"] == "shifted":
        out = f"{row['inserted_bytes']:,} inserted bytes are left out" if row["inserted_bytes"] else ""
        back = f"{row['lost_crs']:,} lost CRs are put back before LFs" if row["lost_crs"] else ""
        where = f"of {count_text(row['batches'], 'batch', 'batches')}, whose CRC is then right"
        return f"{' and '.join(filter(None, (out, back)))} {where}"
    if row["kind"] == "recounted":
        wrong = f"a batch states {count_text(row['before'], 'record')}, and its CRC is right for that"
        return f"{wrong}: {row['count']:,} again, as its payload is that many whole records"
    if row["kind"] == "last-offset":
        wrong = f"a batch from offset {row['base_offset']:,} on states the last offset {row['before']:,}"
        return f"{wrong}, and its CRC is right for that: {row['last_offset']:,} again, that of its last record"
    if row["kind"] == "magic":
        wrong = f"the magic of a batch is {row['before']}, which no CRC covers"
        return f"{wrong}: {row['magic']} again, with which its CRC is right"
    behind = count_text(row["batches"], "batch is", "batches are")
    return f"{behind} behind others with higher offsets, and consumers skip them: put in the order of their offsets"


def _open_words(row: Row) -> str:
    """Return the words of a row about an open transaction."""
    begins = f"producer {row['producer_id']} has a transaction open from offset {row['first_offset']:,} on"
    if "outcome" in row:
        return f"{begins}, and its coordinator has none there: {row['outcome']} (kcli transactions)"
    if "transactional_id" in row:
        ends = f"{row['transactional_id']} is {row['state']} in its last record"
        decision = "commits" if row["state"] == "PrepareCommit" else "aborts"
        return f"{begins}: {ends}, so that its coordinator {decision} the transaction after the start, with a marker"
    if row["marker_offset"] is not None:
        lost = f"its abort marker at offset {row['marker_offset']:,} is lost, by the transaction index"
        return f"{begins}: {lost}, and read_committed consumers stop there (kcli transactions)"
    return f"{begins}: its end may be lost, and read_committed consumers then stop there (kcli transactions)"


def _are_of_one_topic(one: str, other: str) -> bool:
    """Return whether two names of partitions' directories have the same topic."""
    return one.rpartition("-")[0] == other.rpartition("-")[0]


def _mending_words(row: Row) -> str:
    if row["kind"] == "exchanged":
        is_of_topic = row["file"] or _are_of_one_topic(row["owner"], row["partition"])
        outcome = (
            "serves another partition's records here" if is_of_topic else "does not serve it, as its topic id differs"
        )
        return f"what belongs here is {row['owner']}: Kafka starts, and {outcome}"
    if row["kind"] == "transaction-open":
        return _open_words(row)
    if row["kind"] == "node-id":
        return f"node.id is {row['node_id']} again: that node has registered the directory in the metadata log"
    if row["kind"] == "directory-id":
        return f"directory.id is {row['directory_id']} again: the metadata log places the partitions in that"
    if row["kind"] == "topic-id":
        return f"written anew, with the topic's id {row['topic_id']}"
    if row["kind"] in ORDERED:
        return _order_words(row)
    if row["kind"] == "renamed" and not row["file"]:
        is_alike = _are_of_one_topic(row["partition"], row["name"])
        evidence = ", by its log" if is_alike else ", by its topic's id"
        evidence = "" if "topic_id" in row else evidence  # it had none
        which = f"{row['inside']}/{row['partition']}" if "inside" in row else "the directory"
        return f"{which} is kept as {row['name']}{evidence}"
    if row["kind"] == "marker":
        transaction = f"the transaction of producer {row['producer_id']:,} from offset {row['first_offset']:,} on"
        anew = f"written anew at offset {row['offset']:,}, by {row['source']}"
        return f"the {row['type']} marker of {transaction} is lost: {anew}"
    if row["kind"] == "text-mode":
        from kcli.log.text_mode import TextMode

        mode = TextMode[row["change"].upper()]
        return f"{mode.value}: kept {mode.undone}"
    if row["kind"] == "rebuilt" and row["file"].endswith(FileKind.KRAFT_SNAPSHOT):
        return "the footer that it lacked is written anew"
    if row["kind"] == "rebuilt":
        return "wrong or missing, and no start mends it: rebuilt from the batches"
    if row["kind"] == "restored" and "flat" in row:
        return f"made of {_flat_words(row['flat'])}"
    if row["kind"] == "restored":
        last = f", joined with the parts after it, up to {row['parts'][-1]}" if "parts" in row else ""
        return f"kept as {row['name']}{last}: the log lacks its offsets"
    return f"kept as {row['name']}, by the offsets of its batches"


def _end_of_promoted(row: Row, compared: Compared, directory: Path, aside: Path | None) -> Row:
    """Return the fields to change in `row` because the start puts a future log in the place of the current log; {} if
    none change, and for a row that is not of kind `partition`. directory: the directory of the row's log, which is the
    future log or the current log. aside: the one of these two directories that salvage makes a stray; None if salvage
    makes neither a stray."""
    promotion = compared.promotion
    if promotion.is_resumed:
        return {}
    if row["kind"] != "partition" or promotion.future == aside or (promotion.is_refused and aside is None):
        return {}
    if directory == promotion.future:
        return {"partition": promotion.name, "future": str(promotion.future)}
    if aside is not None:
        return {"set_aside": True}
    ends = {"log_start_offset": compared.start, "log_end_offset": compared.end}
    ends["recovery_point"] = min(row["recovery_point"], compared.end)
    return ends | {"changed": True, "replaced_by": str(promotion.future)}


def _promotion_words(row: Row) -> str:
    """Return the words of a row about a future log that the start puts in the place of a current log."""
    future, current = row["future"], row["current"]
    if row["kind"] == "set-aside":
        other = current if row["set_aside"] == future else future
        return f"kept as a -stray, so that Kafka serves {other}"
    if row["kind"] == "kept":
        aside = Path(row["set_aside"])
        return f"Kafka serves this, as salvage of {aside.parent} makes {aside.name} a -stray"
    if row["resumed"]:
        words = f"Kafka goes on with the move, gives {future} the name, and deletes {current}"
        return f"{words}; {_lost_ranges(row)}{_aside_words(row)}"
    words = f"the metadata log places it in the log directory of {future}: Kafka gives that the name"
    if current is not None:
        words += f", and deletes {current}, which ends at {row['current_end_offset']:,}"
    words += f"; the log then ends at {row['log_end_offset']:,}"
    if not row["lost"]:
        return words
    if current is None:
        return f"{words}; {_lost_ranges(row)}, by the checkpoints"
    return f"{words}; {_lost_ranges(row)}{_aside_words(row)}"


def _lost_ranges(row: Row) -> str:
    from kcli.inspector.verify.findings import ranges_text

    return f"lost: offsets {ranges_text(row['lost'], NAMES_SHOWN)}"


def _aside_words(row: Row) -> str:
    """Return the end of a sentence about lost offsets: that only the deleted log has them, and which log, the future or
    the current one, salvage keeps as a stray."""
    words = ", which the deleted log alone has"
    if row["salvage_sets_aside"] is None:
        return words
    aside = Path(row["salvage_sets_aside"])
    return f"{words}; salvage of {aside.parent} makes {aside.name} a -stray"


def _missing_words(row: Row) -> str:
    why = "the directory of its name is of a deleted topic" if row["deleted"] else "no directory has its name"
    words = f"the metadata log places it here, and {why}: Kafka makes an empty one"
    if row["emptied"]:
        words = "the directory of its name has no batch: Kafka serves that"
    if row["directory"] is not None:
        fate = "deletes" if row["directory"].endswith("-delete") else "does not serve"
        return f"{words}, and {fate} {row['directory']}, which has the records; --salvage --out gives it the name"
    if "flat" in row:
        return f"{words}, and does not see {_flat_words(row['flat'])}, which have the records"
    if "archive" in row:
        return f"{words}; its files are in {row['archive']}: {row['command']}"
    if row["future"] is not None:
        end, reached = row["future_end_offset"], row["reached_offset"]
        words += f", and deletes {row['future']}, which has the offsets up to {end - 1:,}"
        return f"{words}; lost: offsets {end:,}..{reached - 1:,}, by the checkpoints" if reached > end else words
    if row["log_directories"]:
        others = count_text(row["log_directories"] - 1, "other log directory", "other log directories")
        words = f"the metadata log places it here, and {why}; the broker has {others}, from which Kafka opens it if it"
        return f"{words} lies there, else it makes an empty one: --config FILE with log.dirs is needed to tell"
    if row["others"]:
        return f"{words}, and fetches what nodes {', '.join(map(str, row['others']))} have"
    if "in_tier" in row:
        from kcli.inspector.verify.findings import ranges_text

        return f"{words}; the tier has offsets {ranges_text(row['in_tier'], NAMES_SHOWN)}: {row['command']}"
    if not row["reached_offset"]:
        return f"{words}; no checkpoint says whether it had records"
    return f"{words}; lost: offsets up to {row['reached_offset'] - 1:,}, by the checkpoints"


def _flat_words(names: Sequence[str]) -> str:
    """Return, in words, the files of a partition that lie flat in the log directory."""
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"the partition's files that lie flat in the log directory: {names[0]}{more}"


def _readable_words(row: Row) -> str:
    """Return, in words, what salvage keeps of a file that cannot be read as a whole."""
    if "readable_bytes" not in row:
        return ""
    if not row["readable_bytes"]:
        return "; the file is left out"
    return f"; the sound batches in the {row['readable_bytes']:,} bytes that can be read are kept"


def _end_words(row: Row) -> str:
    """Return the words of a row about a log that ends below an offset that it had reached."""
    end, reached = row["log_end_offset"], row["reached_offset"]
    lost = _lost_or_tiered(f"offsets {end:,}..{reached - 1:,}", row)
    lost += ", or that number is wrong: only one of the checkpoints has it" if "doubtful" in row else ""
    if "moved" in row:
        lost = f"its offsets from there on are in {', '.join(row['moved'])}, which belongs here"
    if "unread" in row:
        lost = f"its offsets from there on are in {names_text(row['unread'], UNREAD_SHOWN)}, which Kafka does not read"
    return f"the log ends at {end:,}, and had reached {reached:,} by {row['reached_by']}; {lost}"


def _words(row: Row) -> str:
    if row["kind"] == "refused" and row["mended"]:
        return f"{row['mended_by']}: Kafka would not start with it: {row['reason']}"
    if row["kind"] in ("refused", "unreadable"):
        outcome = "Kafka would not start" if row["kind"] == "refused" else "cannot be read"
        return f"{outcome}: {row['reason']}{_readable_words(row)}"
    if row["kind"] in ("passed-over", "left-out", "transaction-forgotten", "producers-forgotten", "expired", LACKS):
        return str(row["reason"])
    if row["kind"] in ("tier-served", "tier-gap", "in-tier") or (row["kind"] == "restored" and "object" in row):
        return _tier_words(row)
    if row["kind"] in ("not-loaded", "state-lost", "records-foreign"):
        return _coordinator_words(row)
    if row["kind"] in (STATE_END, ENDED_AGAIN):
        return state_end_words(row)
    if row["kind"] in MENDING:
        return _mending_words(row)
    if row["kind"] in ("promoted", "current-deleted", "set-aside", "kept"):
        return _promotion_words(row)
    if row["kind"] == "partition-missing":
        return _missing_words(row)
    if row["kind"] == "end-missing":
        return _end_words(row)
    if row["kind"] in ("start-hidden", "start-forgotten", "log-start"):
        return _start_words(row)
    if row["kind"] == "gap":
        return _gap_words(row)
    if "lost_batches" not in row:
        size = f" ({row['bytes']:,} bytes)" if row["bytes"] else ""
        return f"{row['reason']}{size}"
    return _loss_words(row)


def _gap_words(row: Row) -> str:
    """Return the words of a row about what salvage leaves out of a .log file, or about offsets that no file has."""
    last = row["last_offset"]
    missing = (
        f"nothing from offset {row['first_offset']:,} on"
        if last is None
        else f"no batch for offsets {row['first_offset']:,}..{last:,}"
        if last >= row["first_offset"]
        else "no offset is missing"
    )
    if not row["bytes"]:
        return f"{missing}: {_who_has(row)}"
    bounds = row.get("contradicting")
    others = "" if bounds is None else f"; its batches of offsets {bounds[0]:,}..{bounds[1]:,} contradict others"
    return f"{row['bytes']:,} bytes left out: {missing}{others}"


def _tier_words(row: Row) -> str:
    """Return the words of a row about offsets that the local log lacks, and that the tier has or lacks, or about a
    segment that salvage takes from there."""
    if "object" in row:
        return f"taken from the tier, {row['object']}: the log lacks its offsets"
    offsets = f"offsets {row['first_offset']:,}..{row['last_offset']:,}"
    if row["kind"] == "tier-served":
        return f"{offsets} are below the local log and in the tier: consumers read them from there"
    if row["kind"] == "tier-gap":
        return f"{offsets} are below the local log, and no segment of the tier has them: lost ({row['command']})"
    if "command" not in row and row["first_offset"] >= row["log_end_offset"]:
        ends = f"the log ends at {row['log_end_offset']:,}, and the tier has {offsets}"
        return f"{ends}: consumers do not get them, unless another replica leads; salvage takes them"
    if "command" not in row:
        return f"the log lacks {offsets}, so that consumers do not get them; the tier has them, and salvage takes them"
    return f"the log lacks {offsets}, and the tier has them: {row['command']}"


def _start_words(row: Row) -> str:
    """Return the words of a row about a log start offset: one that hides records, one that is missing, so that deleted
    records are served again, or one that salvage sets."""
    start = row["log_start_offset"]
    if row["kind"] == "start-hidden":
        words = f"the log start offset is {start:,}, by {FileKind.LOG_START_OFFSETS}"
        gone = count_text(row["segments"], "segment")
        deleted = f", and Kafka deletes {gone} below" if row["segments"] else ""
        return f"{words}: offsets {row['first_offset']:,}..{start - 1:,} leave service{deleted}"
    if row["kind"] == "start-forgotten":
        below = row["deleted_below"]
        words = f"records below offset {below:,} were deleted, as the leader epochs begin there; the log starts at "
        doubt = ", or a start after a crash has made the leader epochs anew" if "doubtful" in row else ""
        return f"{words}{start:,}: Kafka serves offsets {start:,}..{below - 1:,} again{doubt}"
    set_back = f"the log start offset is {start:,} again"
    begin = "the leader epochs begin" if row["by_leader_epochs"] else "the first segment begins"
    if row["before"] < start:
        return f"{set_back}, where {begin}: the records below were deleted"
    if row["before"] <= row["log_end_offset"]:
        return f"{set_back}, where {begin}: {row['before']:,} is not the log's own"
    return f"{set_back}: the log ends at {row['log_end_offset']:,}, and {row['before']:,} is beyond it"


def _coordinator_words(row: Row) -> str:
    """Return the words for records that a coordinator does not load, that are lost, or that are another partition's."""
    if row["kind"] == "not-loaded":
        where = "" if row["offset"] is None else f"offset {row['offset']:,}: "
        return f"{where}{row['reason']}: {row['outcome']}"
    if row["kind"] == "state-lost":
        from kcli.inspector.verify.findings import offsets_text

        count, names = row["count"], row["names"][:NAMES_SHOWN]
        more = f" and {count - len(names):,} more (--format jsonl)" if count > len(names) else ""
        if "lost_first_offset" in row:
            lost = offsets_text(row["lost_first_offset"], row["lost_last_offset"])
            return (
                f"{lost} overwritten: records of {count_text(count, row['what'])} may be lost: {', '.join(names)}{more}"
            )
        return f"records of {count_text(count, row['what'])} are lost: {', '.join(names)}{more}"
    witness = f"as in {row['owner']}/{row['owner_log']}" if row["owner_log"] else "by key"
    found = f"{count_text(row['batches'], 'batch belongs', 'batches belong')} to {row['owner']}, {witness}"
    offsets = f"offsets {row['first_offset']:,}..{row['last_offset']:,}"
    if row["left_out"] or row["cut"]:
        return f"{found}, {offsets}: {'left out' if row['left_out'] else 'Kafka cuts them off, and loses nothing'}"
    is_of_topic = _are_of_one_topic(row["owner"], row["partition"])
    return f"{found}, {offsets}: Kafka starts, and {'loads them here, too' if is_of_topic else 'ignores them'}"


def _loss_words(row: Row) -> str:
    """Return the words of a row about an event that removes bytes from a log."""
    words = f"{row['reason']}; {row['bytes']:,} bytes {'are passed over' if row['kind'] == 'end-hidden' else 'go'}"
    if row["kind"] in CUTS:
        what = "segment" if "segments_behind" in row else "log"
        words += f", the {what} then ends at offset {row['log_end_offset']:,}"
    reached = row.get("reached_offset", 0)
    if not row["lost_batches"] and reached:
        lost = f"offsets {row['log_end_offset']:,}..{reached - 1:,}"
        return f"{words}; lost: {lost}, which no sound batch has, by {row['reached_by']}"
    if not row["lost_batches"]:
        return f"{words}; no sound batch is lost"
    first = _first_lost(row)
    batches = count_text(row["lost_batches"], "sound batch", "sound batches")
    records = count_text(row["lost_records"], "record")
    lost = f"offsets {first:,}..{row['lost_last_offset']:,}, with {records} in {batches}"
    snapshot_offset = row.get("snapshot_offset", 0)
    if _is_in_snapshot(row):
        return f"{words}; the snapshot has the metadata of {lost}"
    behind = f"; the snapshot has the metadata below {snapshot_offset:,}" if snapshot_offset else ""
    behind += f"; the log had reached {reached:,} by {row['reached_by']}" if reached else ""
    return f"{words}; {_lost_or_tiered(lost, row)}{behind}"


def _who_has(row: Row) -> str:
    """Return, in words, where the offsets of a gap are."""
    if "in_tier" not in row:
        return "no file has them"
    from kcli.inspector.verify.findings import ranges_text

    return f"the tier has offsets {ranges_text(row['in_tier'], NAMES_SHOWN)}"


def _first_lost(row: Row) -> int:
    """Return the first offset that a log lacks because of an event: that of the damaged batch at which the log is cut,
    or of the first sound batch that is lost, whichever is lower."""
    first: int = row["lost_first_offset"]
    return first if row["position"] == 0 else min(row["log_end_offset"], first)


def _lost_or_tiered(lost: str, row: Row) -> str:
    """Return, in words, which of the offsets that the log lacks are lost, and which the tier has. lost: the words for
    all of these offsets."""
    if "in_tier" not in row:
        return f"lost: {lost}"
    from kcli.inspector.verify.findings import ranges_text

    first = row["log_end_offset"] if row["kind"] == "end-missing" else _first_lost(row)
    last = row["reached_offset"] - 1 if row["kind"] == "end-missing" else row["lost_last_offset"]
    if _count(row["in_tier"]) == last - first + 1:
        return f"the tier has what the log lacks then: {lost}"
    return f"the log lacks {lost}; the tier has offsets {ranges_text(row['in_tier'], NAMES_SHOWN)}, the others are lost"


def _is_in_snapshot(row: Row) -> bool:
    """Whether the latest snapshot of the metadata log has all records that the event of this row removes from the
    log."""
    return "snapshot_offset" in row and bool(row["snapshot_offset"] > row["lost_last_offset"])


UNREAD = ", which reads nothing below the recovery points (kcli verify does)"
UNREAD_CLEAN = ", which reads only the ends of the logs (kcli verify reads all)"


UNREAD_SHOWN = 4
"""The maximum number of .log files that a row about a missing end names."""
UNSURE = {"doubtful", "moved", "unread"}
"""The fields of a row about a missing end whose offsets may be there, or lie elsewhere."""


class _Totals:
    """The sums of `kcli recover` over all partitions, shown below the rows of the partitions."""

    def __init__(self) -> None:
        self.refused = self.refused_partitions = self.mended = self.losses = 0
        self._partitions = self._bytes = self._records = 0
        self._saved_records = self._gaps = self._gap_bytes = self._reordered = self._rebuilt = self._restored = 0
        self._put_back = self._resized = self._recounted = self._magics = self._epochs = self._markers = 0
        self._shifted = self._last_offsets = 0
        self._renamed = self._short = self._lost_offsets = 0
        self._is_unread = False
        self.unread: list[str] = []
        self._in_part = 0

    def add(self, plan: PartitionPlan, rows: list[Row], *, is_refused: bool) -> None:
        """Add a partition. rows: the rows that are shown for it. is_refused: whether its log keeps Kafka from
        starting."""
        self._partitions += 1
        self.refused += is_refused
        self.refused_partitions += is_refused
        self.losses += plan.has_losses
        lost = [row for row in rows if "lost_batches" in row and not _is_in_snapshot(row)]
        self._bytes += sum(row["bytes"] for row in lost)
        self._records += sum(row["lost_records"] for row in lost)
        self.unread += [each.error.path for each in plan.saved.unread]
        self._in_part += bool(plan.saved.unread)
        self._saved_records += plan.saved.records
        self._gaps += len(plan.saved.gaps)
        self._gap_bytes += sum(gap.length for gap in plan.saved.gaps)
        self._reordered += len(plan.saved.reordered)
        self._put_back += len(plan.saved.put_back)
        self._resized += len(plan.saved.resized)
        self._shifted += len(plan.saved.shifted)
        self._recounted += len(plan.saved.recounted)
        self._last_offsets += len(plan.saved.last_offsets)
        self._magics += len(plan.saved.magics)
        self._epochs += len(plan.saved.epochs)
        self._markers += len(plan.saved.markers)
        short = [row["lost_offsets"] for row in rows if row["kind"] == "end-missing" and row.keys().isdisjoint(UNSURE)]
        self._short += len(short)
        self._lost_offsets += sum(short)
        self._rebuilt += len(plan.saved.rebuilt)
        self._renamed += len(plan.saved.renamed)
        self._restored += len(plan.saved.restored) + len(plan.saved.text_mode)
        self._is_unread = self._is_unread or plan.options.recovery_point > 0 or plan.options.clean

    @property
    def is_salvaged(self) -> bool:
        """Whether salvage leaves bytes out, sorts batches, corrects headers, rebuilds or renames files, or
        adds transaction markers."""
        headers = self._put_back, self._resized, self._shifted, self._recounted, self._last_offsets, self._magics
        changes = self._gaps, self._reordered, self._rebuilt, self._renamed, self._restored, self._markers
        return any((*headers, self._epochs, *changes))

    def text(self, recovery: Recovery, *, changes: bool, seconds: float) -> str:
        verb = "recovered" if changes else "checked"
        parts = [f"{count_text(self._partitions, 'partition')} {verb} as in {_start(recovery)}"]
        if self._is_unread and not recovery.salvage:
            parts[0] += UNREAD_CLEAN if recovery.clean else UNREAD
        if self.losses:
            loses = "alone would lose" if recovery.salvage else "loses"
            records = f"{self._bytes:,} bytes with {self._records:,} sound records"
            parts.append(f"Kafka {loses} {records} in {count_text(self.losses, 'partition')}")
        if recovery.salvage and (self._saved_records or (self._gaps and self.losses)):
            keeps = "kept" if changes else "would keep"
            which = "of them" if self.losses else "that Kafka alone would not"
            parts.append(f"--salvage {keeps} {count_text(self._saved_records, 'record')} {which}")
        if self._gaps:
            out = "are left out" if changes else "would be left out"
            gaps = count_text(self._gaps, "gap")
            parts.append(f"{self._gap_bytes:,} bytes in {gaps} {out}" if self._gap_bytes else f"{gaps} in the offsets")
        parts += self._ends_text()
        if self._reordered:
            parts.append(f"{count_text(self._reordered, 'log')} {'put' if changes else 'would be put'} in order")
        headers = [(self._put_back, "base offset"), (self._resized, "batch length"), (self._magics, "magic")]
        headers += [(self._shifted, "batch size"), (self._recounted, "record count"), (self._epochs, "leader epoch")]
        headers.append((self._last_offsets, "last offset"))
        verb = "put right" if changes else "would be put right"
        parts += [f"{count_text(count, what)} {verb}" for count, what in headers if count]
        if self._markers:
            verb = "written anew" if changes else "would be written anew"
            parts.append(f"{count_text(self._markers, 'end marker')} {verb}")
        if self._rebuilt:
            parts.append(f"{count_text(self._rebuilt, 'file')} {'rebuilt' if changes else 'would be rebuilt'}")
        if self.refused:
            parts.append(f"{self.refused:,} would keep Kafka from starting")
        if self.mended:
            verb = ("is" if self.mended == 1 else "are") if changes else "would be"
            parts.append(f"{count_text(self.mended, 'obstacle')} to a start of Kafka {verb} mended")
        if self._in_part:
            parts.append(f"{count_text(self._in_part, 'partition')} could be read in part")
        if recovery.unreadable:
            parts.append(f"{len(recovery.unreadable):,} could not be read")
        if not changes:
            parts.append("nothing was written")
        return f"{'; '.join(parts)}; {seconds:.2f} s\n"

    def _ends_text(self) -> list[str]:
        if not self._short:
            return []
        lost = f"{'is' if self._lost_offsets == 1 else 'are'} lost at the {'end' if self._short == 1 else 'ends'}"
        return [f"{count_text(self._lost_offsets, 'offset')} {lost} of {count_text(self._short, 'partition')}"]


def _start(recovery: Recovery) -> str:
    if recovery.lacks_marker:
        return "a start after a crash (the broker was not shut down in order: no .kafka_cleanshutdown)"
    if recovery.clean and any(each.file == FileKind.CLEAN_SHUTDOWN for each in recovery.passed_over):
        from kcli.log.log_directory import LogDirectory

        epoch = LogDirectory(recovery.directory).marked_broker_epoch
        whose = (
            f"a {FileKind.CLEAN_SHUTDOWN} of no" if epoch is None else f"the {FileKind.CLEAN_SHUTDOWN} of an earlier"
        )
        return f"a clean start (by {whose} stop; --unclean shows what recovery does)"
    return "a clean start" if recovery.clean else "a start after a crash"


class _Progress(Progress):
    """A progress line that any thread may draw."""

    def __init__(self, directory: Path) -> None:
        super().__init__(lambda: sum(_log_sizes(directory)))
        self._lock = Lock()

    def advance(self, size: int) -> None:
        """Add `size` to the number of bytes checked. Redraw the line if it was not drawn for INTERVAL_S seconds."""
        with self._lock:
            super().advance(size)

    def clear(self) -> None:
        """Remove the line, so that other lines can be written."""
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
