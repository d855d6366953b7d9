"""The plan of a partition's recovery: what Kafka's start would do. The log is loaded on a view of the directory, and
nothing is written; `apply` then changes the files to those of the view.

With salvage, all of each .log file is checked, and the sound batches behind damage are kept at their own offsets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from errno import ELOOP
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from formats.checkpoint import EpochEntry, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind, FileName, build, parse, parse_directory
from formats.producer_snapshot import ProducerEntry
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.index_entries import DEFAULT_MAX_INDEX_BYTES
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.partition_view import Content, FileRange, NotRegular, PartitionView, is_as_stored, offset_of, paths_in
from kcli.log.recovery.apply import INDEXES, MOVED
from kcli.log.recovery.batch_epochs import (
    RightEpoch,
    is_in,
    leader_epochs,
    with_right_epochs,
    wrong_epochs,
    wrong_last_epoch,
)
from kcli.log.recovery.batch_magic import RightMagic, with_right_magics, wrong_magics
from kcli.log.recovery.coordinator_load import LoadEnd
from kcli.log.recovery.coordinator_losses import LostState
from kcli.log.recovery.deleted import SUFFIX, MissedLog, lost_swaps, missed_logs
from kcli.log.recovery.displaced_blocks import (
    Displaced,
    displaced_blocks,
    has_damage,
    logs_around,
    with_blocks,
)
from kcli.log.recovery.empty_logs import EmptyLog, empty_logs
from kcli.log.recovery.end_markers import write_end_markers
from kcli.log.recovery.files_beside import files_with, packed_log
from kcli.log.recovery.foreign_blocks import identities, runs_of_others
from kcli.log.recovery.gaps import gaps, lost_begin, overlaps, stop_at
from kcli.log.recovery.load_stops import COORDINATORS
from kcli.log.recovery.loader import Event, EventKind, LoadedOffsets, LoadOptions, LogLoader
from kcli.log.recovery.made_anew import made_anew
from kcli.log.recovery.metadata_start import fit_to_snapshots
from kcli.log.recovery.misdirected import Home, Run, found_in
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.readable import first_unread
from kcli.log.recovery.readable_part import readable_part, unread_bytes
from kcli.log.recovery.salvage import (
    Checked,
    Gap,
    LeftOut,
    LogStart,
    Lost,
    Misdirected,
    Refilled,
    Renamed,
    Salvaged,
    ShiftedBatch,
    Unread,
    begin_offset,
    behind_damage,
    cut_before_copies,
    exchanged_within,
    gaps_between,
    is_log,
    missing,
    named_above,
    own_offsets,
    put_exchanged_in_place,
    salvage,
    topic_of,
    without_offsets,
)
from kcli.log.recovery.segment import OFFSET_MAX, RecoverySegment
from kcli.log.recovery.shifted_batches import in_file
from kcli.log.recovery.snapshots import (
    damaged_snapshots,
    latest_with,
    lost_markers,
    producers_of,
    snapshot_before_transfer,
    transactions_lacking_in,
    unfounded_transactions,
    wrong_snapshots,
)
from kcli.log.recovery.special_files import is_foretold, is_opened, is_snapshot, outcome_of, type_of
from kcli.log.recovery.swap import has_all_batches_of, is_sound, lost_last_values, lost_with_swap
from kcli.log.recovery.text_mode import BeforeTransfer, before_shifts, before_transfer
from kcli.log.recovery.wrong_ages import Expired
from kcli.log.recovery.wrong_log_starts import HiddenOffsets
from kcli.log.whiteouts import is_whiteout
from kcli.printable import names_text

LOG = FileKind.LOG
NOT_CHECKED = Checked()
UNREAD = -2
BESIDE_SHOWN = 2
"""The maximum number of files beside a log that a reason names."""
NO_LOG = "it begins with no batch, and has none that the other logs lack"


class Mended(NamedTuple):
    """What salvage puts right in .log files, by their names. before: the files as they were before a transfer in text
    mode, or before bytes were inserted or lost. blocks: those that lie in other files. epochs: the batches whose leader
    epoch is put right."""

    before: Mapping[str, BeforeTransfer] = MappingProxyType({})
    blocks: Mapping[str, Sequence[Displaced]] = MappingProxyType({})
    epochs: Mapping[str, Sequence[RightEpoch]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LackingTransactions:
    """The transactions that are open in a log, and not in the producer snapshot that a start loads. file: the snapshot.
    transactions: (first offset, producer id) of each."""

    file: str
    transactions: Sequence[tuple[int, int]]


@dataclass
class PartitionPlan:
    """The effects of a start on one partition's directory.

    view: the directory after the start. offsets: those of the log after the start; None if Kafka does not start.
    refused: why Kafka does not start. lost: the batches lost by each of `events`. saved: the changes by salvage.
    ends_below_start: whether the start deletes the whole log because it ends below its log start offset. replaced: the
    content of the .log files that swap files replace, by name. open_transactions: first offset and producer id of each
    transaction that is open after the start. lost_markers: those of the open transactions that, by a transaction index,
    were aborted, but whose abort marker the log has lost, each with the offset of the marker. load_end: where the
    coordinator that keeps its state in the partition stops loading early; None if it loads the whole partition.
    lost_state: the groups or transactional ids of which this coordinator loses records; None if none is known.
    is_salvaged: whether the view and the offsets are those after salvage. misdirected: the batches of other partitions
    that the start keeps, without salvage. hidden: what the log start offset hides, if that is whole segments, or
    records of a coordinator, or if no broker has written that offset; None if salvage sets that offset back.
    deleted_below: the offset below which records were deleted, by the leader epochs, if the start serves some of them
    again; else 0. forgotten: the producers that a clean start forgets, because there is no snapshot of them.
    lacking: the transactions that are open in the log and not after the start, as the producer snapshot lacks them.
    empty_logs: the empty .log files that no broker has made. expired: the offsets that retention.ms deletes soon after
    the start, as a time index is wrong; None if there are none.
    """

    name: str
    view: PartitionView
    options: LoadOptions
    offsets: LoadedOffsets | None
    refused: StartRefused | None
    events: list[Event]
    lost: list[Lost]
    saved: Salvaged = field(default_factory=Salvaged)
    ends_below_start: bool = False
    replaced: dict[str, Content] = field(default_factory=dict)
    open_transactions: list[tuple[int, int]] = field(default_factory=list)
    lost_markers: dict[tuple[int, int], int] = field(default_factory=dict)
    load_end: LoadEnd | None = None
    lost_state: LostState | None = None
    is_salvaged: bool = False
    misdirected: list[Misdirected] = field(default_factory=list)
    hidden: HiddenOffsets | None = None
    deleted_below: int = 0
    forgotten: list[ProducerEntry] = field(default_factory=list)
    lacking: LackingTransactions | None = None
    empty_logs: Sequence[EmptyLog] = ()
    expired: Expired | None = None

    @property
    def lacks_end(self) -> bool:
        """Whether the end of the log is missing from all files: the log ends below an offset that, by the checkpoints
        or a producer snapshot, it had reached, although the start cuts nothing, or salvage keeps what the start
        cuts."""
        name = parse_directory(self.name)
        if name is None or name.state or self.offsets is None or (self.has_losses and not self.is_salvaged):
            return False
        return self.offsets.log_end_offset < self.options.reached

    @property
    def read_end(self) -> tuple[str, int] | None:
        """The .log file, and the byte in it, at which a coordinator stops reading its partition after the start: where
        its load ends, or a clean start takes the end of the log from an offset index. None: it reads the whole log."""
        hidden = next((each.file for each in self.events if each.kind is EventKind.END_HIDDEN), None)
        if hidden is not None:
            return hidden, 0
        return None if self.load_end is None else (self.load_end.file, self.load_end.position)

    @property
    def snapshot_offset(self) -> int:
        """For the metadata log, the log start offset after the start: a snapshot has the metadata of all records below
        this offset. 0 for any other log."""
        return self.offsets.log_start_offset if self.options.is_metadata and self.offsets is not None else 0

    @property
    def has_losses(self) -> bool:
        """Whether the start loses records, or bytes of a .log file, that no snapshot of the metadata log has."""
        losses = ((event, lost) for event, lost in zip(self.events, self.lost, strict=True) if event.is_loss)
        is_metadata = self.options.is_metadata
        return any(not (self.is_in_snapshot(lost) or (is_metadata and not event.bytes)) for event, lost in losses)

    def is_in_snapshot(self, lost: Lost) -> bool:
        """Whether batches are lost, and the latest snapshot of the metadata log has the metadata of all of them."""
        return lost.last_offset is not None and lost.last_offset < self.snapshot_offset

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment after the start."""
        names = (parse(name) for name in self.view.files)
        return min((name.base_offset or 0 for name in names if name and name.kind is FileKind.LOG), default=0)

    def segments_behind(self, file: str) -> int:
        """Return the number of segments behind a .log file that a start which cuts the file keeps, as it reads only
        segments without an index."""
        removed = {event.file for event in self.events if event.kind is EventKind.SEGMENT_REMOVED}
        return sum(is_log(name) and name > file and name not in removed for name in self.view.original)

    def pass_over(self, events: Iterable[Event]) -> None:
        """Add events that lose nothing."""
        self.events = [*self.events, *events]
        self.lost = [*self.lost, *(Lost() for _ in range(len(self.events) - len(self.lost)))]

    def is_changed(self) -> bool:
        """Whether the start or salvage changes a file, the directory's name or the log start offset in the
        checkpoint."""
        return self.view.is_changed() or self.saved.log_start is not None or self.saved.directory is not None


def plan(
    directory: Path,
    options: LoadOptions,
    *,
    with_salvage: bool = False,
    advance: Callable[[int], None] = lambda _: None,
    exchanged: Mapping[str, Path] | None = None,
    checked: Checked = NOT_CHECKED,
    rescue: bool = False,
    foretell: bool = False,
) -> PartitionPlan:
    """Return the plan of a start on a partition's directory. Raises UnreadableInput.

    options: what the start is given (see LoadOptions). with_salvage: if Kafka would lose records or refuse to start,
    keep the sound batches, and list the gaps between them; the plan's events are still those of Kafka's start.
    advance(size): called with the number of bytes just checked. exchanged: the paths of the .log files that salvage
    puts into this directory, by the name that they get. checked: the indexes and the leader-epoch checkpoint that
    salvage rebuilds from the batches, and the .log files that it restores from files under other names. rescue: leave
    out the bytes of the directory's files that cannot be read, instead of raising UnreadableInput; `saved.unread` then
    lists these files. Without `rescue`, a circular symbolic link in place of a .log file is left out, as Kafka does.
    foretell: the plan is not carried out; it also says what a start does with a pipe or device in place of a .log file,
    an index or a producer snapshot (see kcli.log.recovery.special_files).
    """
    readable: dict[str, Content | None] = {}
    unread: list[Unread] = []
    circular: list[str] = []
    special: list[Path] = []
    while True:
        try:
            view = PartitionView(directory, readable)
            view.in_the_way.update(path.name for path in special if is_snapshot(path.name) and not path.is_fifo())
            planned = _plan(view, options, with_salvage, advance, exchanged or {}, checked, readable, circular)
        except UnreadableInput as error:
            path = Path(error.path)
            if path.parent != directory or path.name in readable:
                raise
            if isinstance(error, NotRegular) and (is_foretold(path) if foretell else rescue and is_whiteout(path)):
                special += [path] if foretell else []
                readable[path.name] = Content(()) if foretell and is_opened(path) else None
                continue
            if not rescue:
                if error.errno != ELOOP or not is_log(path.name):
                    raise
                circular.append(path.name)
                readable[path.name] = None
                continue
            found = readable_part(path) if is_log(path.name) else Content(())
            unread.append(Unread(path.name, error, found.size - unread_bytes(found)))
            readable |= _in_place_of(path.name, found if unread[-1].readable_bytes else None)
        else:
            planned.saved.unread = unread
            for path in special:
                if is_snapshot(path.name) and path.name in planned.view.files:
                    raise NotRegular(str(path), "a pipe, and a snapshot is to be written to it")
            if special:
                return _with_special(planned, special)
            return _without_losses(planned, readable) if unread and with_salvage else planned


def _with_special(planned: PartitionPlan, special: Sequence[Path]) -> PartitionPlan:
    """Return the plan of a start with its reaction to pipes and devices (`special`) in place of files: the start fails
    at one of them, or ignores them."""
    if planned.refused is not None:
        return planned
    options = planned.options
    recovered_from = options.recovery_point if not options.clean else OFFSET_MAX
    bases = [offset_of(name) for name in planned.view.files if is_log(name)]
    told = [(path, outcome_of(path, bases, recovered_from)) for path in special]
    failing = next(((path, each) for path, each in told if each.fails), None)
    if failing is not None:
        refused = StartRefused(failing[0].name, f"{type_of(failing[0])}; {failing[1].outcome}")
        return replace(planned, offsets=None, refused=refused, events=[], lost=[])
    named = {event.file for event in planned.events if event.kind is EventKind.PASSED_OVER}
    removed = sorted(path.name for path, _ in told if is_whiteout(path))
    told = [(path, each) for path, each in told if path.name not in {*named, *removed[1:]}]
    more = f", as {names_text(removed[1:], BESIDE_SHOWN)}" if removed[1:] else ""
    events = [
        Event(
            EventKind.PASSED_OVER,
            path.name,
            f"{type_of(path)}{more if path.name in removed else ''}; {each.outcome}",
        )
        for path, each in told
    ]
    return replace(planned, events=[*planned.events, *events], lost=[*planned.lost, *(Lost() for _ in events)])


def _in_place_of(name: str, readable: Content | None) -> dict[str, Content | None]:
    """Return, by file name, what a view has in place of the file `name`, which cannot be read as a whole: `readable`,
    its readable part, or None if the view lacks the file. If the view lacks a .log file or an index, it also lacks all
    indexes of that segment: a start rebuilds them."""
    parsed = parse(name)
    if readable is not None or parsed is None or parsed.base_offset is None or parsed.kind not in (LOG, *INDEXES):
        return {name: readable}
    kinds = INDEXES if parsed.kind in INDEXES else (LOG, *INDEXES)
    return dict.fromkeys(build(parsed._replace(kind=kind)) for kind in kinds)


def _without_losses(planned: PartitionPlan, readable: Container[str]) -> PartitionPlan:
    """Return `planned`, a plan with salvage, without the events that lose records and without the events of the
    unreadable files: at bytes that it cannot read, Kafka's start fails and cuts no file, and so loses nothing.
    readable: the names of the unreadable files."""
    events = [
        (event, lost)
        for event, lost in zip(planned.events, planned.lost, strict=True)
        if not event.is_loss and event.file not in readable
    ]
    planned.saved.records = 0
    return replace(planned, events=[event for event, _ in events], lost=[lost for _, lost in events])


def _plan(
    view: PartitionView,
    options: LoadOptions,
    with_salvage: bool,
    advance: Callable[[int], None],
    exchanged: Mapping[str, Path],
    checked: Checked,
    readable: Mapping[str, Content | None],
    circular: Sequence[str],
) -> PartitionPlan:
    """Make the plan that `plan` returns for a view of the directory, with other content in place of unreadable files.
    readable: this content by file name; the view lacks those with None. circular: the files among them that are
    circular symbolic links, without which Kafka starts. The other arguments are those of `plan`."""
    planned = _load(view.directory, view, options, advance)
    planned = _with_empty_logs(_with_circular(_with_logs_gone(planned, circular), circular))
    missed = _missed(planned)
    planned = _with_missed(planned, missed)
    if with_salvage:
        return _salvaged(planned, advance, exchanged, missed, checked, readable)
    if planned.refused is None:
        planned.pass_over(made_anew(planned.view, {event.file for event in planned.events}))
    planned.pass_over(_gaps(planned))
    planned.pass_over(_packed(planned))
    planned.pass_over(_misnamed(planned))
    planned.pass_over(_overlaps(planned))
    planned.pass_over(_unfit_end(planned))
    if planned.refused is None or not options.log_start_offset:
        return planned
    log_start = _salvaged(
        planned, lambda _: None, {}, missed, NOT_CHECKED, readable
    ).saved.log_start  # Kafka reads the log start offset only after the refused file is repaired
    if log_start is None:
        return planned
    reason = f"the log start offset is {log_start.before:,}, and the log ends at {log_start.log_end_offset:,}"
    event = Event(EventKind.PASSED_OVER, "", f"{reason}: once Kafka starts, it deletes all of the log")
    return replace(planned, events=[*planned.events, event], lost=[*planned.lost, Lost()])


def _gaps(planned: PartitionPlan) -> Iterator[Event]:
    """Yield an event for each gap between the segments of a topic that was never compacted, unless another event names
    a file of the gap. Raises UnreadableInput."""
    options = planned.options
    if not options.finds_gaps or options.is_compacted or options.is_metadata or options.is_deleted:
        return
    named = {int(each.file[:20]) for each in planned.events if each.file[:20].isdecimal()}
    files = _own_files(planned)
    begin = None if options.is_tiered else lost_begin(files, options.log_start_offset, options.retention)
    for before, following, first, last in [*filter(None, (begin,)), *gaps(files, options.log_start_offset)]:
        if any(first <= each <= last + 1 for each in named):
            continue
        packed = _packed_text(planned, before, last + 1) if before else ""
        beside = [path.name for path in files_with(planned.view.directory, first, last + 1)]
        damage = "" if packed or beside or not before else _damage_text(planned, before)
        if damage:
            yield Event(EventKind.PASSED_OVER, before, f"no sound batch has offsets {first:,}..{last:,}: {damage}")
            continue
        where = f"{'in' if before[:20] == f'{first:020}' else 'behind'} {before}"
        where = f"{where}{packed}" if before else f"before {following}, where its leader epochs begin"
        verb = "have" if len(beside) > 1 else "has"
        found = f"; {names_text(beside, BESIDE_SHOWN)}, beside it, {verb} batches of them" if beside else ""
        what = f"no {'log' if beside else 'file'} has offsets {first:,}..{last:,}, {where}{found}"
        yield Event(EventKind.PASSED_OVER, following, f"{what}: Kafka starts without them")


def _damage_text(planned: PartitionPlan, name: str) -> str:
    """Return, in words, where consumers stop in a .log file, as the start leaves damage in it; "" if they do not, or if
    the start cuts the file. Raises UnreadableInput."""
    is_cut = any(each.file == name and each.is_loss for each in planned.events)
    found = None if is_cut else stop_at(name, planned.view.original[name])
    if found is None:
        return ""
    position, offset = found
    return (
        f"the file is damaged from byte {position:,} on. Kafka starts, and consumers stop at offset {offset:,}; "
        "salvage keeps what can be read"
    )


def _overlaps(planned: PartitionPlan) -> Iterator[Event]:
    """Yield an event for each .log file whose offsets the one before it has, too, as after a segment came back that the
    cleaner had replaced, unless another event says that Kafka passes the file over. Raises UnreadableInput."""
    options = planned.options
    if planned.refused is not None or options.is_metadata or options.is_deleted:
        return
    named = {each.file for each in planned.events if each.kind is EventKind.PASSED_OVER}
    files = {name: each for name, each in planned.view.files.items() if name not in options.foreign}
    for before, name, last in overlaps(files):
        if name not in named:
            reads = f"a Fetch at offset {offset_of(name):,} or above reads this file, and no record of that one"
            reason = (
                f"the offsets of {before} go up to {last:,}, beyond the begin of this file: Kafka starts, and {reads}"
            )
            yield Event(EventKind.PASSED_OVER, name, reason)


def _packed_text(planned: PartitionPlan, name: str, until: int | None) -> str:
    """Return the words which say that a .log file is compressed, or a text of its bytes; "" for any other file. until:
    as in packed_log. Raises UnreadableInput."""
    path = planned.view.directory / name
    packed = packed_log(path, offset_of(name), until) if path.is_file() else None
    if packed is None:
        return ""
    archive, first = packed
    what = f"a text of the log's bytes, as {archive} writes it" if archive.is_text else f"{archive} of the log"
    return f", which is {what}, with batches from offset {first:,} on (kcli verify says how to undo it)"


def _packed(planned: PartitionPlan) -> Iterator[Event]:
    """Yield an event for each .log file that the start cuts to 0 bytes, and that is compressed or a text of its bytes.
    Raises UnreadableInput."""
    for event in planned.events:
        if (
            event.is_loss
            and event.position == 0
            and is_log(event.file)
            and (what := _packed_text(planned, event.file, None))
        ):
            yield Event(EventKind.PASSED_OVER, event.file, f"Kafka reads no batch in it{what}")


def _misnamed(planned: PartitionPlan) -> Iterator[Event]:
    """Yield an event for each .log file that begins with a batch of another segment, unless another event names the
    file, or its name alone is wrong (see named_above). Raises UnreadableInput."""
    options = planned.options
    if planned.refused is not None or options.is_metadata or options.is_deleted:
        return
    named = {each.file for each in planned.events if each.kind is not EventKind.LEFTOVER_REMOVED}
    logs = dict(_logs(planned.view.unchanged()))
    for name, following in pairwise([*logs, None]):
        if name is None or name in named or not logs[name].size:
            continue
        base, until = offset_of(name), OFFSET_MAX if following is None else offset_of(following)
        start = begin_offset(name, logs[name])
        if start is None or base <= start < until:
            continue
        if build(FileName(LOG, start)) in logs or named_above(logs, name) is None:
            reason = f"it begins with offset {start:,}, which is another segment's: Kafka starts, and serves it here"
            yield Event(EventKind.PASSED_OVER, name, reason)


def _unfit_end(planned: PartitionPlan) -> Iterator[Event]:
    """Yield an event if a clean start, which reads the end of the log and cuts nothing, leaves bytes there that are no
    batch, unless another event names the file. Raises UnreadableInput."""
    options, logs = planned.options, _logs(planned.view)
    if planned.refused is not None or not options.clean or options.is_metadata or options.is_deleted or not logs:
        return
    name, content = logs[-1]
    if content.size == options.preallocated_bytes or any(each.file == name for each in planned.events):
        return
    try:
        segment = _segment(planned, name)
        behind = segment.bytes_behind()
    except StartRefused:  # an index with which a clean start fails is another event
        return
    if behind:
        what = f"{behind:,} bytes that are" if behind > 1 else "a byte that is"
        outcome = append_outcome(planned, is_torn=segment.ends_torn(behind))
        yield Event(EventKind.PASSED_OVER, name, f"it ends with {what} no batch: {outcome}")


def append_outcome(planned: PartitionPlan, *, is_torn: bool) -> str:
    """Return, in words, where the first append after a clean start goes if the active segment ends with bytes that are
    no batch, and what these do to consumers. is_torn: whether they are the begin of a batch. Raises StartRefused."""
    behind = "Kafka appends behind, and consumers do not get past it"
    index_bytes = _segment(planned, _logs(planned.view)[-1][0]).full_index_bytes()
    configured = planned.options.max_index_bytes
    anew = f"Kafka appends to a new segment, and consumers {'pass over it' if is_torn else 'do not get past it'}"
    if not index_bytes or (index_bytes < configured != DEFAULT_MAX_INDEX_BYTES):
        return behind
    if index_bytes >= configured:
        return f"its index is full, as no stop has trimmed it: {anew}"
    return f"with segment.index.bytes={index_bytes}, the size of its index, {anew}; with a larger one {behind}"


def _segment(planned: PartitionPlan, name: str) -> RecoverySegment:
    return RecoverySegment(planned.view, offset_of(name), max_index_bytes=planned.options.max_index_bytes)


def _with_circular(planned: PartitionPlan, circular: Sequence[str]) -> PartitionPlan:
    """Return the plan with one more event for each circular symbolic link that no event names yet."""
    named = {event.file for event in planned.events}
    reason = "a circular symbolic link, which Kafka takes for no file: it starts without it"
    events = [Event(EventKind.PASSED_OVER, name, reason) for name in circular if name not in named]
    return replace(planned, events=[*planned.events, *events], lost=[*planned.lost, *(Lost() for _ in events)])


def _with_empty_logs(planned: PartitionPlan) -> PartitionPlan:
    """Return the plan with one more event for each empty .log file that no broker has made. Raises UnreadableInput."""
    options = planned.options
    if options.is_deleted or planned.ends_below_start:
        return planned
    is_compacted, is_metadata = options.is_compacted, options.is_metadata
    found = empty_logs(
        planned.view.original, reached=options.checkpointed, is_compacted=is_compacted, is_metadata=is_metadata
    )
    events = [
        Event(EventKind.PASSED_OVER, each.file, f"{each.what}: {each.outcome}")
        for each in found
        if not (is_metadata and each.following is None)  # MetadataRecovery reports these
    ]
    planned.pass_over(events)
    return replace(planned, empty_logs=found)


def _with_logs_gone(planned: PartitionPlan, circular: Sequence[str]) -> PartitionPlan:
    """Return the plan with one more event for each segment before the last whose .log file is missing or a circular
    symbolic link, though its indexes are there. Indexes whose offsets are all in the .log file before them are
    another partition's. If the next .log file begins with the missing offset, it is the missing file under a wrong
    name. Raises UnreadableInput."""
    options, original = planned.options, planned.view.original
    if options.is_compacted or options.is_metadata or options.is_deleted:
        return planned
    logs_by_name = {name: content for name, content in original.items() if is_log(name)}
    logs = {int(name[:20]) for name in logs_by_name}
    removed = (event.file[:20] for event in planned.events if event.kind is EventKind.INDEX_REMOVED)
    gone = {int(each) for each in removed if each.isdecimal()} - logs
    events = []
    before, end = "", -1  # the name of the previous .log file, and its last offset
    for base, following in pairwise(sorted({*logs, *gone})):
        name = build(FileName(LOG, base))
        if base in logs:
            before, end = name, UNREAD
            continue
        is_below_start = following <= options.log_start_offset
        if base > max(logs, default=-1) or is_below_start or f"{name}{SUFFIX}" in original:
            continue
        if end == UNREAD:
            last = behind_damage(before, original[before], 0).last_offset
            end = -1 if last is None else last
        first = max(base, end + 1)
        if first < following:
            found = "a circular symbolic link" if name in circular else "not"
            beside = [path.name for path in files_with(planned.view.directory, first, following)]
            verb = "have" if len(beside) > 1 else "has"
            have = f"; {names_text(beside, BESIDE_SHOWN)}, beside it, {verb} batches of them"
            offsets = f"offsets {first:,}..{following - 1:,}"
            reason = f"its indexes are here and it is {found}: Kafka starts without {offsets}{have if beside else ''}"
            behind = build(FileName(LOG, following))
            if following in logs and named_above(logs_by_name, behind) == first:
                reason = f"its indexes are here, and it has the name {behind}"
            elif options.is_tiered and base < min(logs, default=0):
                reason = f"{reason}, and reads them from tiered storage, if they are there (--tier tells)"
            events.append(Event(EventKind.PASSED_OVER, name, reason))
    return replace(planned, events=[*planned.events, *events], lost=[*planned.lost, *(Lost() for _ in events)])


def misdirected(planned: PartitionPlan) -> list[Misdirected]:
    """Return the batches of other partitions that the log of a coordinator's partition has after a start, without the
    .log files that are known to be another partition's. Raises UnreadableInput."""
    home = planned.options.home
    found = {} if home is None else _misdirected(planned.view, home, planned.options.foreign)
    return [Misdirected(name, tuple(each)) for name, each in found.items()]


def _missed(planned: PartitionPlan) -> list[MissedLog]:
    """Return the missed logs (see kcli.log.recovery.deleted): those that the start deletes though the log lacks their
    offsets; in a compacted topic, only those with records that the topic needs. Raises UnreadableInput."""
    options = planned.options
    if options.is_metadata or options.is_deleted:
        return []
    found = missed_logs(
        _own_files(planned),
        reached=options.reached,
        is_compacted=options.is_compacted,
        log_start_offset=options.log_start_offset,
        is_tiered=options.is_tiered,
        retention=options.retention,
    )
    return [each for each in found if each.is_lost]


def _own_files(planned: PartitionPlan) -> dict[str, Content]:
    """Return the content of the files of the directory by name, without .log files of another partition."""
    return {name: each for name, each in planned.view.original.items() if name not in planned.options.foreign}


def _with_missed(planned: PartitionPlan, missed: Sequence[MissedLog]) -> PartitionPlan:
    """Return the plan with an event for the loss of each of the `missed` logs, in place of the event for the removal of
    its files. A missed log is a .log file, such as *.log.deleted, that Kafka's start deletes although no other file has
    its offsets. Raises UnreadableInput."""
    by_name = {name: each for each in missed for name in each.names}
    events, losses = [], []
    for event, lost in zip(planned.events, planned.lost, strict=True):
        one = by_name.get(event.file) if event.kind is EventKind.LEFTOVER_REMOVED else None
        if one is None:
            events.append(event)
            losses.append(lost)
        elif event.file.endswith(f"{FileKind.LOG}{one.suffix}"):
            content, needed = planned.view.original[event.file], one.needed
            reason = "the log lacks its offsets, and Kafka deletes it"
            if needed is None:
                losses.append(behind_damage(event.file, content, 0))
            else:
                reason = "the log has no later records of some of its keys, and Kafka deletes it"
                losses.append(Lost(needed.batches, needed.records, needed.first_offset, needed.last_offset))
            deleted = replace(event, kind=EventKind.DELETED, reason=reason, position=0, content=content)
            events.append(deleted if needed is None else replace(deleted, offsets=needed.offsets))
    return replace(planned, events=events, lost=losses)


def _salvaged(
    planned: PartitionPlan,
    advance: Callable[[int], None],
    given: Mapping[str, Path],
    missed: Sequence[MissedLog],
    checked: Checked,
    readable: Mapping[str, Content | None],
) -> PartitionPlan:
    """Return the plan with salvage: the sound batches behind damage are kept, and files that contradict them are
    rebuilt, also below the recovery point, where the start checks nothing. planned: the plan without salvage. checked:
    as in `plan`. readable: as in `_plan`. given: the exchanged .log files that belong in this directory. missed: the
    logs to restore that the start would delete though the partition's log lacks their offsets. Raises
    UnreadableInput."""
    directory, options = planned.view.directory, replace(planned.options, clean=False, indexes_swaps=True)
    logs: dict[str, int] = {}
    checked = replace(checked, removed={*checked.removed, *_replaced(planned, missed)})
    last, drops_swaps = planned, _is_swap_at_fault(planned)
    restored, outside = _restored(directory, missed, checked, given)
    exchanged = {**given, **outside}
    anew = _rebuilt(planned, checked)
    view_of = partial(_view, directory, exchanged, restored, anew, checked, readable)
    mended = _mended(view_of, checked.last_epoch)
    view_anew = partial(view_of, mended)
    if (
        exchanged
        or restored
        or anew
        or checked.removed
        or checked.moved
        or checked.made
        or any(mended)
        or planned.view.taken_names
    ):
        last = _load(directory, _with_epochs(view_anew(), anew), options, advance)
    _read_small_files(last.view)
    more = _to_salvage(last)
    view = view_anew()
    home, elsewhere, unread = _first_unread(view, options, but=more)
    more = {name: view.size(name) for name in (*unread, *_incomplete(view, options, checked.copies))} | more
    has_wrong = _has_wrong(view_anew())
    while has_wrong or more.keys() - logs.keys():
        has_wrong = False
        logs = more | logs
        view = view_anew()
        loader = LogLoader(view, options)
        if drops_swaps:
            view.files = {name: content for name, content in view.files.items() if not name.endswith(".swap")}
        try:
            loader.tidy()
        except StartRefused:  # a bad swap file: whether the logs that it replaces are complete is not known
            return planned
        saved = salvage(
            view,
            logs,
            loader.replaced,
            home,
            options.reached or None,
            checked.copies,
            is_compacted=options.is_compacted,
        )
        if drops_swaps:
            _leave_swaps_out(planned, saved)
        _mend_snapshots(view, planned, saved)
        _complete(view, saved)
        kept = dict(_with_epochs(view, anew).files)
        last = replace(_load(directory, view, options, advance), saved=saved)
        if last.ends_below_start and any(content.size for name, content in kept.items() if name.endswith(".log")):
            view.files = kept
            last = _with_log_start_set_back(view, options, saved, advance)
        more = _to_salvage(last)
    if last.refused is not None and checked.has_logs:  # a start may fail at an index that it makes for a restored log
        return _salvaged(planned, advance, given, missed, checked.without_renamed(directory, last.refused), readable)
    indexes = sorted(anew.intersection(checked.contradicted) - {LEADER_EPOCHS})
    if last.refused is not None and indexes:  # rebuilding these indexes may be what makes the start fail
        without = replace(checked, contradicted=anew & {LEADER_EPOCHS})
        kept_indexes = _salvaged(planned, advance, given, missed, without, readable)
        return kept_indexes if kept_indexes.refused else _with_wrong_indexes(kept_indexes, indexes, last.refused)
    last.saved.rebuilt = sorted(name for name in anew if last.view.files.get(name) != _left(planned, name))
    last.saved.restored = [*restored, *_made_of_others(directory, outside, checked)]
    _add_kept(last, planned, mended, logs, outside)
    _add_unused(last, planned, checked)
    last.saved.misdirected = [Misdirected(name, tuple(runs)) for name, runs in elsewhere.items() if name in logs]
    return _as_salvaged(last, planned, _not_looked_at(home, _without_mended(unread, last.saved), elsewhere))


def _without_mended(unread: Mapping[str, int], saved: Salvaged) -> dict[str, int]:
    """Return `unread` (see _not_looked_at) without the batches whose last offset salvage puts right."""
    mended = {(each.file, each.position) for each in saved.last_offsets}
    return {name: position for name, position in unread.items() if (name, position) not in mended}


def _has_wrong(view: PartitionView) -> bool:
    """Return whether salvage has something to repair even if a start loses nothing: .log files with exchanged names,
    damaged or wrong snapshots, lost end markers. The view is changed."""
    return bool(exchanged_within(view) or damaged_snapshots(view) or wrong_snapshots(view) or write_end_markers(view))


def _incomplete(view: PartitionView, options: LoadOptions, copies: Sequence[Path]) -> Iterator[str]:
    """Yield the .log files of a view that `_named_above` returns, and those that lack batches at their ends which one
    of the directories `copies` has. Raises UnreadableInput."""
    yield from _named_above(view)
    if not options.is_compacted:
        yield from cut_before_copies(view, copies)


def _named_above(view: PartitionView) -> list[str]:
    """Return the .log files of a view whose names are above their first offsets, by mistake (see named_above). Raises
    UnreadableInput."""
    logs = {name: view.files[name] for name in view.names() if is_log(name)}
    return [name for name in logs if named_above(logs, name) is not None]


def _replaced(planned: PartitionPlan, missed: Sequence[MissedLog]) -> Iterator[str]:
    """Yield the files that give way to the `missed` logs, and the .swap files that were lost as a whole. Raises
    UnreadableInput."""
    yield from lost_swaps(planned.view.original)
    yield from (name for each in missed for name in each.replaced)


def _complete(view: PartitionView, saved: Salvaged) -> None:
    """Write the lost end markers into the view's .log files, and list them and the .log files with exchanged names in
    `saved`. Raises UnreadableInput, StartRefused."""
    saved.renamed += exchanged_within(view)
    saved.markers = write_end_markers(view)
    saved.gaps = without_offsets(saved.gaps, (each.offset for each in saved.markers))


def _rebuilt(planned: PartitionPlan, checked: Checked) -> set[str]:
    """Return the names of the indexes and of the leader-epoch checkpoint that salvage builds again from the batches."""
    anew = {name for name in checked.contradicted if name != LEADER_EPOCHS or not planned.options.is_tiered}
    is_refused = planned.refused is not None and planned.refused.file == LEADER_EPOCHS
    taken = {name for name in planned.view.taken_names if name == LEADER_EPOCHS or name.endswith(INDEXES)}
    return anew | taken | ({LEADER_EPOCHS} if is_refused else set())


def _no_file(path: Path) -> str:
    """Return, in words, why salvage leaves out a directory or broken link that has the name of one of Kafka's files."""
    found = "a directory" if path.is_dir() else "a link to nothing"
    return f"it is {found}, and Kafka needs a file of this name: --in-place moves it to {path.name}{MOVED}"


def _left(planned: PartitionPlan, name: str) -> Content | None:
    """Return the content of a file before salvage rebuilds it; None if there was no such file. For an index this is the
    content after the start, because the plan's events already report the indexes that the start rebuilds; for the
    leader-epoch checkpoint it is the content on disk."""
    files = planned.view.original if name == LEADER_EPOCHS else planned.view.files
    return files.get(name)


def _restored(
    directory: Path, missed: Sequence[MissedLog], checked: Checked, exchanged: Mapping[str, Path]
) -> tuple[list[Renamed], dict[str, Path]]:
    """Return the files in the directory that are renamed to a segment's file, and, by new name, the paths of the files
    outside of the directory that are put in it. missed: the logs to restore. exchanged: the .log files from other
    directories, by the name that they get here, which no restored file may take."""
    found = [Renamed(file, name) for each in missed for file, name in each.right_names.items()]
    taken = {*exchanged, *(each.name for each in found)}
    renamed = {name: path for name, path in checked.renamed.items() if name not in taken}
    found += [Renamed(path.name, name) for name, path in renamed.items() if path.parent == directory]
    return found, {name: path for name, path in renamed.items() if path.parent != directory}


def _made_of_others(directory: Path, outside: Mapping[str, Path], checked: Checked) -> Iterator[Renamed]:
    """Yield a Renamed for each .log file that salvage takes from outside the directory or makes of other files, not for
    one of which it keeps the begin. outside: the paths of the files from outside, by the name that each gets."""
    made = {
        name: paths_in(content) for name, content in checked.made.items() if not _is_begin(directory / name, content)
    }
    for name, paths in ({name: (path,) for name, path in outside.items()} | made).items():
        file, *others = (os.path.relpath(path, directory) for path in paths)
        yield Renamed(file, name, tuple(others))


def _is_begin(path: Path, content: Content) -> bool:
    """Whether the content is a range of the file at `path` itself."""
    return all(is_as_stored(part) and part.path == path for part in content.parts)


def _leave_swaps_out(planned: PartitionPlan, saved: Salvaged) -> None:
    saved.records += sum(lost.records for lost in planned.lost)
    swaps = [each for each in planned.view.original if each.endswith(".log.swap")]
    saved.left_out += [LeftOut(each, "it lacks records of the logs that it replaces") for each in swaps]


def _add_unused(last: PartitionPlan, planned: PartitionPlan, checked: Checked) -> None:
    """Add to `last.saved` the files that salvage does not use, and the gaps between the .log files after salvage. last,
    planned: the plans with and without salvage. Raises UnreadableInput."""
    options = last.options
    if last.refused is None and not (options.is_compacted or options.is_deleted):
        last.saved.gaps += gaps_between(last.view, last.saved.gaps)
    taken = sorted(planned.view.taken_names)
    swaps = [name for name in sorted(lost_swaps(planned.view.original)) if name.endswith(f"{LOG}.swap")]
    last.saved.left_out += [LeftOut(name, NO_LOG) for name in swaps]
    last.saved.left_out += [LeftOut(name, what) for name, what in checked.moved.items()]
    last.saved.left_out += [*checked.unused, *(LeftOut(name, _no_file(last.view.directory / name)) for name in taken)]
    last.saved.gaps += _missing(last, checked)


def _missing(planned: PartitionPlan, checked: Checked) -> Iterator[Gap]:
    """Yield the gaps for the lost offsets (`checked.lost`) that no batch has after salvage, except a lost end of the
    log, which `lacks_end` reports, and offsets below the local log of a topic with tiered storage, which are read from
    there. Raises UnreadableInput."""
    if planned.offsets is None or not checked.lost:
        return
    until = planned.offsets.log_end_offset if planned.lacks_end else OFFSET_MAX
    start = planned.offsets.log_start_offset
    start = max(start, planned.first_base_offset) if planned.options.is_tiered else start
    lost = [(max(first, start), min(last, until - 1)) for first, last in checked.lost if last is not None]
    yield from missing(planned.view, planned.saved.gaps, lost)


def _mend_snapshots(view: PartitionView, planned: PartitionPlan, saved: Salvaged) -> None:
    """Put the producer snapshots of a view right that a transfer in text mode has changed, remove others that cannot be
    parsed or that the log contradicts, and list all in `saved`, without those that cannot be parsed and that the start
    removes (`planned`). Raises UnreadableInput, StartRefused."""
    removed = {event.file for event in planned.events if event.kind is EventKind.SNAPSHOT_REMOVED}
    for name, reason in damaged_snapshots(view).items():
        before = snapshot_before_transfer(view, name)
        if before is not None:
            view.write(name, before[0])
            saved.text_mode[name] = before[1]
            continue
        view.remove(name)
        if name not in removed:
            saved.left_out.append(LeftOut(name, f"a producer snapshot that Kafka cannot read: {reason}"))
    saved.left_out += _without_wrong_snapshots(view)


def _without_wrong_snapshots(view: PartitionView) -> Iterator[LeftOut]:
    """Remove the producer snapshots that the log contradicts from the view, and yield each as left out; a start makes
    them again. Raises UnreadableInput, StartRefused.

    A snapshot stays if the log contradicts it only because the log has lost an end marker.
    """
    wrong = wrong_snapshots(view)
    while wrong:
        trial = view.with_changes()
        write_end_markers(trial)
        still = wrong_snapshots(trial)
        if not still:
            return
        removed = [name for name in wrong if name in still] or list(wrong)
        for name in removed:
            view.remove(name)
            yield LeftOut(name, f"it is not a state of this log's producers: {still.get(name, wrong[name])}")
        wrong = {name: reason for name, reason in wrong.items() if name not in removed}


def _first_unread(
    view: PartitionView, options: LoadOptions, but: Container[str]
) -> tuple[Home, dict[str, list[Run]], dict[str, int]]:
    """Return what Kafka's start keeps in the .log files of a view, although salvage leaves it out, as a tuple of

    - the partition, whose `mixed` has the names of the files that also have batches of other partitions
    - the batches of other partitions, by file name
    - the byte of the first batch that belongs to another partition, or that consumers or the topic's coordinator cannot
      read, by file name, without the files in `but`

    Raises UnreadableInput.
    """
    home = Home(topic_of(view.directory)) if options.home is None else options.home
    try:
        LogLoader(view, options).tidy()
    except StartRefused:  # the plan reports the refusal
        return home, {}, {}
    elsewhere = _misdirected(view, home, options.foreign)
    home = replace(home, mixed=frozenset(elsewhere))
    logs = [name for name in view.names() if is_log(name)]
    following = dict(pairwise(map(offset_of, logs)))
    found = {
        name: first_unread(name, view.files[name], home, following.get(offset_of(name)), options.reached or None)
        for name in logs
        if name not in but
    }
    unread = {name: position for name, position in found.items() if position is not None}
    copied = {
        name: runs_of_others(view.directory, name, view.files[name])
        for name in logs
        if name not in elsewhere and (name in unread or name in but)
    }
    copied = {name: runs for name, runs in copied.items() if runs}
    home = replace(home, copied={name: identities(name, view.files[name], runs) for name, runs in copied.items()})
    return home, elsewhere | copied, unread


def _read_small_files(view: PartitionView) -> None:
    """Read all files of a view that are on disk, except .log files, so that an error is raised now: a start may not
    read these files, but a copy does. Raises UnreadableInput, also for an index that is too large."""
    for name, content in view.files.items():
        if not name.endswith(LOG) and content.parts and isinstance(content.parts[0], FileRange):
            try:
                view.read(name)
            except StartRefused as refused:
                raise UnreadableInput(str(view.directory / name), refused.reason) from None


def _as_salvaged(last: PartitionPlan, planned: PartitionPlan, passed: Iterator[Event]) -> PartitionPlan:
    """Return the plan with salvage. Its events are those of Kafka's start without salvage, and those in `passed`, about
    faults that this start does not notice. last, planned: the plans with and without salvage."""
    events = [*planned.events, *passed]
    more = len(events) - len(planned.events)
    return replace(last, events=events, lost=[*planned.lost, *(Lost() for _ in range(more))], is_salvaged=True)


def _misdirected(view: PartitionView, home: Home, foreign: Container[str]) -> dict[str, list[Run]]:
    """Return, by file name, the batches of other partitions in the .log files of a coordinator's partition, without the
    files that are known to be another partition's (`foreign`). Raises UnreadableInput."""
    found = found_in(((name, view.files[name]) for name in view.names() if is_log(name)), home)
    return {name: runs for name, runs in found.items() if name not in foreign}


def _not_looked_at(home: Home, unread: Mapping[str, int], elsewhere: Mapping[str, Sequence[Run]]) -> Iterator[Event]:
    """Yield an event for each .log file with a batch that consumers or the coordinator cannot read, and that a start
    does not check. unread: the byte of that batch, by file name. elsewhere: the batches of other partitions, by file
    name, for which there are other events."""
    coordinator = COORDINATORS.get(home.topic)
    readers = "consumers read" if coordinator is None else f"the {coordinator} coordinator reads"
    for name, position in unread.items():
        if not any(run.position <= position < run.end for run in elsewhere.get(name, ())):
            reason = f"no batch that {readers} at byte {position:,}: a start keeps it"
            yield Event(EventKind.PASSED_OVER, name, reason)


def _view(
    directory: Path,
    exchanged: Mapping[str, Path],
    restored: Sequence[Renamed],
    anew: Collection[str],
    checked: Checked,
    readable: Mapping[str, Content | None],
    mended: Mended,
) -> PartitionView:
    """Return a view of the directory with which salvage begins. exchanged: the paths of the .log files to put into the
    view, by the name that each gets. restored: the files that get another name. anew: the indexes to rebuild; the
    offset indexes of their segments are removed, because a start rebuilds all indexes of a segment without an offset
    index. checked: has the files that are left out, and the .log files that are made of other files. readable: as in
    PartitionView. mended: what is put right in the .log files."""
    view = PartitionView(directory, readable)
    view.make_room()
    for name in (*checked.removed, *checked.moved):
        view.remove(name)
    for each in restored:
        view.rename(each.file, each.name)
    for name, content in checked.made.items():
        for path in paths_in(content):
            if path.parent == directory:
                view.remove(path.name)
        view.put(name, content)
    for name in anew:
        view.remove(f"{name.partition('.')[0]}{FileKind.OFFSET_INDEX}")
    for name, path in exchanged.items():
        view.put(name, Content((FileRange(path, 0, path.stat().st_size),)))
    for name, log in mended.before.items():
        view.put(name, log.content)
    put_exchanged_in_place(view)
    for name, found in mended.blocks.items():
        view.put(name, with_blocks(view.files[name], found, directory))
    for name, wrong in mended.epochs.items():
        view.put(name, with_right_epochs(view.files[name], wrong))
    return view


def _mended(view_of: Callable[[Mended], PartitionView], last: RightEpoch | None) -> Mended:
    """Return what salvage puts right in the .log files. view_of: returns the view of the directory with what is known
    of that. last: the last batch of the log, if a bit of its leader epoch was flipped. Raises UnreadableInput."""
    before = _before_transfer(view_of(Mended()))
    blocks = _displaced_blocks(view_of(Mended(before)))
    return Mended(before, blocks, _wrong_epochs(view_of(Mended(before, blocks)), last))


def _displaced_blocks(view: PartitionView) -> dict[str, list[Displaced]]:
    """Return the blocks of damaged .log files of a view that lie in other files, by the names of the .log files. Raises
    UnreadableInput."""
    logs = dict(_logs(view))
    following = dict(pairwise(map(offset_of, logs)))
    damaged = [name for name, content in logs.items() if has_damage(name, content)]
    others = logs_around(view.directory) if damaged else []
    found: dict[str, list[Displaced]] = {}
    for name in damaged:
        paths = [each for each in others if each not in paths_in(logs[name])]
        base = offset_of(name)
        found[name] = displaced_blocks(name, logs[name], base, following.get(base), paths)
    return {name: blocks for name, blocks in found.items() if blocks}


def _refilled(directory: Path, name: str, block: Displaced) -> Refilled:
    source = block.log.name if block.log.parent == directory else f"{block.log.parent.name}/{block.log.name}"
    return Refilled(name, source, block.batches, block.first_offset, block.last_offset, block.position)


def _wrong_epochs(view: PartitionView, last: RightEpoch | None) -> dict[str, list[RightEpoch]]:
    """Return the batches with a flipped bit in their leader epoch, by the name of their .log file. last: the last batch
    of the log, if it is one of them. Raises UnreadableInput."""
    found: dict[str, list[RightEpoch]] = {}
    for each in wrong_epochs(_logs(view)):
        found.setdefault(each.file, []).append(each)
    if last is not None and last.file in view and is_in(last, view.files[last.file]):
        found.setdefault(last.file, []).append(last)
    return found


def _logs(view: PartitionView) -> list[tuple[str, Content]]:
    """Return name and content of each .log file of a view, in the order of their offsets."""
    return [(name, view.files[name]) for name in view.names() if is_log(name)]


def _add_kept(
    last: PartitionPlan,
    planned: PartitionPlan,
    mended: Mended,
    counted: Container[str],
    outside: Collection[str],
) -> None:
    """List in `last.saved` what was put right in the .log files (`mended`). Add to `last.saved.records` the records of
    the .log files and of .deleted files that the start would lose. counted: the .log files whose records are counted
    already. planned: the plan without salvage. outside: the .log files that files from outside the directory replace.
    Raises UnreadableInput."""
    saved = last.saved
    saved.text_mode |= {name: log.mode for name, log in mended.before.items() if log.mode is not None}
    saved.shifted = [ShiftedBatch(name, each) for name, log in mended.before.items() for each in log.shifts]
    saved.text_mode = dict(sorted(saved.text_mode.items()))
    shifts = {name: log.shifts for name, log in mended.before.items() if log.shifts}
    saved.gaps = [
        replace(each, position=in_file(each.position, shifts[each.file])) if each.file in shifts else each
        for each in saved.gaps
    ]
    saved.epochs = [each for wrong in mended.epochs.values() for each in wrong]
    directory = last.view.directory
    saved.refilled += [_refilled(directory, name, each) for name, found in mended.blocks.items() for each in found]
    saved.records += _kept_as_they_are(planned, last, counted)
    saved.records += _in_their_place(planned, {*outside, *(name for name in mended.blocks if name not in counted)})
    deleted = zip(planned.events, planned.lost, strict=True)
    saved.records += sum(lost.records for event, lost in deleted if event.kind is EventKind.DELETED)
    saved.records += sum(
        _saved_before_transfer(planned, name, log) for name, log in mended.before.items() if name not in counted
    )


def _kept_as_they_are(planned: PartitionPlan, last: PartitionPlan, counted: Container[str]) -> int:
    """Return the number of records in .log files that the start would remove or empty, and that salvage leaves as they
    are, such as the .log files after one that the start cuts. planned, last: the plans without and with salvage.
    counted: the .log files whose records are counted already."""
    kept = {content for name, content in last.view.files.items() if is_log(name) and name not in counted}
    return sum(
        lost.records
        for event, lost in zip(planned.events, planned.lost, strict=True)
        if event.kind in (EventKind.SEGMENT_REMOVED, EventKind.EMPTIED)
        and planned.view.original.get(event.file) in kept
    )


def _in_their_place(planned: PartitionPlan, outside: Container[str]) -> int:
    """Return the number of records that the start would cut from .log files, or lose with them, that files from outside
    the directory replace. outside: the names of these .log files."""
    return sum(
        lost.records
        for event, lost in zip(planned.events, planned.lost, strict=True)
        if event.file in outside and event.kind in (EventKind.CUT, EventKind.EMPTIED, EventKind.SEGMENT_REMOVED)
    )


def _before_transfer(view: PartitionView) -> dict[str, BeforeTransfer]:
    """Return, by name, the .log files of a view that a transfer in text mode has changed, or into whose batches bytes
    were inserted, or from which they were lost, as they were before. Raises UnreadableInput."""
    logs = {
        name: before_transfer(name, content) or before_shifts(name, content)
        for name, content in view.files.items()
        if is_log(name)
    }
    return {name: before for name, before in logs.items() if before is not None}


def _saved_before_transfer(planned: PartitionPlan, name: str, before: BeforeTransfer) -> int:
    """Return the number of records that the start would lose of a .log file, as the file was before a transfer in text
    mode. Raises UnreadableInput."""
    content = planned.view.original.get(name)
    if content is None or planned.refused is not None:
        return before.sound.records
    kept = _to_salvage(planned).get(name, content.size)
    behind = behind_damage(name, content, kept).records if kept < content.size else 0
    return before.sound.records - behind_damage(name, content, 0).records + behind


def _with_wrong_indexes(planned: PartitionPlan, indexes: Sequence[str], refused: StartRefused) -> PartitionPlan:
    """Return the plan with one more event for each wrong index that is not rebuilt. refused: the reason why a start
    that rebuilds the indexes fails."""
    reason = f"wrong or missing, and not rebuilt, as Kafka would then not start: {refused.file}: {refused.reason}"
    events = [Event(EventKind.PASSED_OVER, name, reason) for name in indexes]
    return replace(planned, events=[*planned.events, *events], lost=[*planned.lost, *(Lost() for _ in events)])


def _with_epochs(view: PartitionView, anew: Collection[str]) -> PartitionView:
    """Return the view. If `anew` contains the leader-epoch checkpoint, that file is built again from the batches.
    Raises UnreadableInput."""
    if LEADER_EPOCHS in anew:
        view.write(LEADER_EPOCHS, leader_epochs(_logs(view)).to_bytes())
    return view


def _with_log_start_set_back(
    view: PartitionView, options: LoadOptions, saved: Salvaged, advance: Callable[[int], None]
) -> PartitionPlan:
    """Return the plan with salvage of a log whose log end offset is below the log start offset in the checkpoint
    (`options.log_start_offset`). With that log start offset, Kafka's start would delete the whole log: either the
    checkpoint is wrong, or the log has lost the batches from its end up to that offset. The plan sets the log start
    offset to the base offset of the first segment instead.

    view: the directory after salvage. saved: the changes by salvage; gets the new log start offset, and the number of
    records in the log. advance(size): called with the number of bytes just checked. Raises UnreadableInput.
    """
    loaded = _load(view.directory, view, replace(options, log_start_offset=0), advance)
    if loaded.offsets is not None:
        start = loaded.first_base_offset
        loaded.offsets = replace(loaded.offsets, log_start_offset=start)
        saved.log_start = LogStart(options.log_start_offset, start, loaded.offsets.log_end_offset)
        logs = [name for name in loaded.view.files if name.endswith(".log")]
        saved.records = sum(behind_damage(name, loaded.view.files[name], 0).records for name in logs)
    return replace(loaded, saved=saved)


def with_view(
    planned: PartitionPlan, view: PartitionView, advance: Callable[[int], None] = lambda _: None
) -> PartitionPlan:
    """Return a plan for another view, loaded as after a crash, with the events of `planned`. advance(size): called with
    the number of bytes just checked. Raises UnreadableInput."""
    last = _load(view.directory, view, replace(planned.options, clean=False), advance)
    return replace(last, events=planned.events, lost=planned.lost)


def with_epochs_put_right(planned: PartitionPlan) -> PartitionPlan:
    """Return the plan of the metadata log's start on a log in which the batches with a flipped bit in their leader
    epoch, and leader-epoch-checkpoint, have the right epochs. The plan is returned unchanged if there is no such batch,
    or if Kafka does not start with the log. Raises UnreadableInput."""
    if planned.refused is not None:
        return planned
    view = planned.view.unchanged()
    stated = _stated_epochs(view)
    last = wrong_last_epoch(_logs(view), stated[-1]) if stated else None
    wrong = _wrong_epochs(view, last)
    if not wrong:
        return planned
    for name, batches in wrong.items():
        view.put(name, with_right_epochs(view.files[name], batches))
    found = [each for batches in wrong.values() for each in batches]
    if {each.before for each in found} & {epoch for epoch, _ in stated}:
        view = _with_epochs(view, {LEADER_EPOCHS})
    return replace(with_view(planned, view), saved=replace(planned.saved, epochs=found))


def _stated_epochs(view: PartitionView) -> Sequence[EpochEntry]:
    """Return the entries of leader-epoch-checkpoint; none if there is no such file, or if it cannot be parsed. Raises
    UnreadableInput."""
    try:
        return parse_leader_epochs(view.read(LEADER_EPOCHS)) if LEADER_EPOCHS in view else ()
    except (FormatError, ValueError):
        return ()


def with_magics_put_right(planned: PartitionPlan) -> PartitionPlan:
    """Return the plan with magic 2 in the batches that the start keeps in .log files, and that are sound but for their
    magic. Raises UnreadableInput."""
    view, found = planned.view, list[RightMagic]()
    for name in [each for each in view.names() if is_log(each)]:
        wrong = wrong_magics(name, view.files[name])
        if wrong:
            view.put(name, with_right_magics(view.files[name], wrong))
            found += wrong
    return replace(planned, saved=replace(planned.saved, magics=[*planned.saved.magics, *found]))


def _to_salvage(planned: PartitionPlan) -> dict[str, int]:
    """Return the files of which Kafka would lose bytes, or at which its start would fail, each with the number of bytes
    that Kafka keeps."""
    original = planned.view.original
    swapped = [event.file for event in planned.events if event.is_loss and event.kind is EventKind.REPLACED]
    exhausted = [event.file for event in planned.events if event.kind is EventKind.OFFSETS_USED_UP]
    names = {file: original[file].size for file in exhausted if file in original}
    cut = [event for event in planned.events if event.is_loss and event.kind is not EventKind.DELETED]
    names |= {event.file: event.position or 0 for event in cut}
    if _is_swap_at_fault(planned):  # salvage keeps the replaced logs as they are
        names |= {file: original[file].size for file in swapped}
    return names | ({planned.refused.file: 0} if planned.refused else {})


def _is_swap_at_fault(planned: PartitionPlan) -> bool:
    """Return whether the start loses records only because swap files replace .log files, and the swap files have no
    batch that the replaced .log files lack: then salvage can do without the swap files.

    Raises UnreadableInput.
    """
    is_lossy = any(event.kind is EventKind.REPLACED and event.content is not None for event in planned.events)
    if not is_lossy or any(event.is_loss and event.kind is not EventKind.REPLACED for event in planned.events):
        return False
    swaps = [content for name, content in planned.view.original.items() if name.endswith(".log.swap")]
    return all(has_all_batches_of(planned.replaced.values(), swap) for swap in swaps)


def _load(directory: Path, view: PartitionView, options: LoadOptions, advance: Callable[[int], None]) -> PartitionPlan:
    loader = LogLoader(view, options, advance)
    offsets, refused = None, None
    try:
        offsets = loader.load()
        loader.events += _of_snapshot_alone(loader)
        if options.is_metadata:
            offsets = fit_to_snapshots(loader, offsets)
    except StartRefused as error:
        offsets, refused = None, error
    known = OffsetRanges()
    logs = {name: content for name, content in view.original.items() if is_log(name)}
    lost = [_lost_with(directory, event, known, logs) for event in loader.events]
    below = loader.ends_below_start
    ongoing = [] if offsets is None else loader.producers.table.ongoing()
    forgotten: list[ProducerEntry] = []
    if offsets is not None and loader.reads_no_producers and not options.is_deleted:
        start, expiration_ms = offsets.log_start_offset, options.producer_expiration_ms
        forgotten = producers_of(view, loader.segments, start, options.now_ms, expiration_ms)
    end = 0 if offsets is None else offsets.log_end_offset
    planned = PartitionPlan(
        directory.name,
        view,
        options,
        offsets,
        refused,
        loader.events,
        lost,
        ends_below_start=below,
        replaced=loader.replaced,
        open_transactions=ongoing,
        lost_markers=lost_markers(view.unchanged(), ongoing, end) if ongoing else {},
        forgotten=forgotten,
        lacking=None if offsets is None else _lacking(loader, offsets.log_start_offset, ongoing),
    )
    return _with_lost_by_swap(planned)


def _lacking(loader: LogLoader, start: int, ongoing: Sequence[tuple[int, int]]) -> LackingTransactions | None:
    """Return the transactions that a start forgets because the producer snapshot lacks them; None if there are none.
    start: the log start offset, below which none counts. Raises UnreadableInput."""
    name = loader.loaded_snapshot
    if name is None or loader.options.is_deleted or loader.options.is_metadata:
        return None
    try:
        found = transactions_lacking_in(loader.view.unchanged(), name, loader.segments, ongoing)
    except StartRefused:  # a clean start does not read these batches
        return None
    found = [each for each in found if each[0] >= start]
    return LackingTransactions(name, found) if found else None


def _of_snapshot_alone(loader: LogLoader) -> Iterator[Event]:
    """Yield an event, at most one, if a transaction is open in a producer snapshot but not in the log. Raises
    UnreadableInput, StartRefused."""
    for first, producer_id in unfounded_transactions(loader.segments, loader.producers.table.ongoing())[:1]:
        begins = f"producer {producer_id:,} has a transaction open from offset {first:,} on in it"
        reason = f"{begins}, and none in the log: Kafka starts, and read_committed consumers stop at that batch"
        name = latest_with(loader.view.unchanged(), producer_id, first)
        if name is not None:
            yield Event(EventKind.SNAPSHOT_WRONG, name, reason)


def _with_lost_by_swap(planned: PartitionPlan) -> PartitionPlan:
    """Return the plan with the batches that the swap files lack of the replaced .log files in `events` and `lost`."""
    if planned.refused is not None or planned.has_losses:
        return planned
    kept = {name: content for name, content in planned.view.files.items() if name.endswith(".log")}
    if not planned.replaced:
        return _with_lost_by_damage(planned, kept)
    found = lost_with_swap(planned.replaced, kept, keeps_all=planned.options.keeps_all)
    for at, event in enumerate(planned.events):
        if event.kind is EventKind.REPLACED and event.file in found:
            lacks = (
                "batches, in a topic that was never compacted"
                if planned.options.keeps_all
                else "the last values of keys"
            )
            reason = f"{event.reason}, which lacks {lacks}"
            planned.events[at] = replace(event, reason=reason, position=0, content=planned.replaced[event.file])
            planned.lost[at] = found[event.file]
    return planned


def _with_lost_by_damage(planned: PartitionPlan, kept: Mapping[str, Content]) -> PartitionPlan:
    """Return the plan with the last values of keys that damaged swap files lack of the .log.deleted files that the
    cleaner has made of the replaced ones. kept: the .log files after the start. Raises UnreadableInput."""
    if not planned.options.is_compacted:
        return planned
    original = planned.view.original
    swaps = (event.file for event in planned.events if event.kind is EventKind.SWAP_COMPLETED)
    logs = (name.removesuffix(".swap") for name in swaps if name.endswith(".log.swap"))
    deleted = {f"{log}{SUFFIX}" for log in logs if f"{log}{SUFFIX}" in original and not is_sound(log, kept[log])}
    for at, event in enumerate(planned.events):
        lost = lost_last_values({event.file: original[event.file]}, kept) if event.file in deleted else []
        if lost:
            reason = "the swap file in its place is damaged, and lacks last values of keys; Kafka deletes it"
            content, offsets = original[event.file], OffsetRanges()
            for offset, _ in lost:
                offsets.add(offset, offset)
            planned.events[at] = replace(
                event, kind=EventKind.DELETED, reason=reason, position=0, content=content, offsets=offsets
            )
            planned.lost[at] = Lost(len({base for _, base in lost}), len(lost), lost[0][0], lost[-1][0])
    return planned


def _lost_with(directory: Path, event: Event, known: OffsetRanges, logs: Mapping[str, Content]) -> Lost:
    """Return what an event loses. Batches whose offsets are in `known`, and batches of another segment or partition, do
    not count. The offsets of the lost batches are added to `known`. directory: that of the partition. logs: the .log
    files before the start, by name."""
    if event.content is None:
        return Lost()
    lowest, highest = own_offsets(logs, event.file) if event.file in logs else (0, OFFSET_MAX)
    others = runs_of_others(directory, event.file, event.content) if event.kind is EventKind.CUT else ()
    return behind_damage(
        event.file,
        event.content,
        event.position or 0,
        max(event.from_offset, lowest),
        event.offset or 0,
        known,
        highest,
        [run for run in others if run.position >= (event.position or 0)],
    )
