"""Lost offsets: a log should have them, but no batch does, because a segment is missing, was emptied or ends too early.

The evidence is the next segment's name, index entries for offsets after the last batch, index files without their .log
file, producer snapshots, leader epochs, and the checkpoints of the log directory. In a topic that is or was compacted
gaps are normal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from formats.checkpoint import EpochEntry
from formats.file_name import METADATA_DIRECTORY, FileKind, parse
from formats.txn_index import AbortedTxn
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, Severity, offsets_text
from kcli.inspector.verify.foreign_bytes import begin_text
from kcli.inspector.verify.gaps import Gaps
from kcli.inspector.verify.index_files import TIME_ENTRY_BYTES, IndexEvent, IndexFile
from kcli.inspector.verify.segment_names import log_name, other_case, read_any_header
from kcli.inspector.verify.zeros import zeros_in
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.recovery.doubtful_ends import is_doubtful
from kcli.log.recovery.foreign import appended_from
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.older_topics import of_older_topic
from kcli.log.source import FileSource
from kcli.printable import names_text

if TYPE_CHECKING:  # imported at run time for damaged logs, and for a coordinator's topic
    from kcli.inspector.verify.renamed_logs import RenamedLog
    from kcli.log.recovery.deleted import MissedLog
    from kcli.log.recovery.empty_logs import EmptyLog
    from kcli.log.recovery.misdirected import Home
    from kcli.log.recovery.retention import Retention

NO_LOSS = "nothing to do: compaction leaves gaps"
LOOK = "look for the file"
REFETCH = (
    f"{LOOK}; if another replica has these offsets, stop the broker and move the partition's directory away: "
    "the broker then fetches it anew. Without either, consumers read past the gap"
)
WRITE_EPOCHS = "stop the broker, and write the entry as retention leaves it"
REFETCH_END = f"{REFETCH.partition(' Without')[0]} Without either, new records get these offsets"
RENAMED_SHOWN = 4
"""The maximum number of .log files that a finding names, and whose names its command puts right."""
RANGES_SHOWN = 3
"""The maximum number of ranges of lost offsets that a finding names."""
TIMESTAMP_FACTOR = 4
"""An index whose last timestamp is larger than the largest of any batch by more than this factor is not the log's
own."""
CHECKPOINT_KINDS = (FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS)
WITNESS_NAMES = {
    FileKind.RECOVERY_POINTS: "recovery point",
    FileKind.REPLICATION_OFFSETS: "high watermark",
    FileKind.LEADER_EPOCHS: "leader epoch",
    FileKind.PRODUCER_SNAPSHOT: "end by a producer snapshot",
}


@dataclass(frozen=True, slots=True)
class Known:
    """The information in other files about a partition's log.

    gaps: what a gap between offsets means. ends: the offset up to which the log once went (exclusive) according to each
    checkpoint, by kind of checkpoint. epochs: the entries (epoch, start offset) of its leader-epoch-checkpoint.
    is_tiered: whether a part of the log is in tiered storage; None if that is not known. home: the log directory.
    directory: the partition's directory, None if its name has a suffix such as -stray. is_clean: whether the
    clean-shutdown marker exists, so that Kafka's next start recovers no log. is_replicated: whether other brokers have
    replicas of the partition, so that this one may have been a follower. foreign: the base offsets of the .log files in
    the directory that are another partition's. keys: the partition as a Home, if the keys of the records in its log
    show to which partition of the topic the records belong; else None. superseded: first and last offset of each
    .deleted or .swap file of which a compacted topic needs no record. beside: the other known log directories of the
    node. recovery_point: the partition's entry in recovery-point-offset-checkpoint, which Kafka's start uses even if
    another broker wrote the file, and which `ends` lacks then. retention: the topic's; None if it has none, or if its
    configuration is not known. leader_epoch: the partition's in the metadata log; None if it is not known. strays: the
    strays in the log directory whose names contain the name of the partition. preallocated_bytes: the size with which a
    segment begins (preallocate=true); 0 if it is not known to begin with any. cleaned: the offset below which the log
    cleaner has cleaned the log, by cleaner-offset-checkpoint; 0 if it has no entry.
    """

    gaps: Gaps = Gaps.UNKNOWN
    ends: Mapping[FileKind, int] = field(default_factory=dict)
    epochs: Sequence[tuple[int, int]] = ()
    is_tiered: bool | None = None
    home: Path | None = None
    directory: Path | None = None
    is_clean: bool = False
    is_replicated: bool = False
    foreign: Collection[int] = ()
    keys: Home | None = None
    superseded: Sequence[tuple[int, int]] = ()
    beside: Sequence[Path] = ()
    recovery_point: int = 0
    retention: Retention | None = None
    leader_epoch: int | None = None
    strays: Sequence[Path] = ()
    preallocated_bytes: int = 0
    cleaned: int = 0

    def may_be_cleaned(self, last: int | None) -> bool:
        """Whether the log cleaner may have removed all records up to the offset `last`; None if it is not known."""
        return self.gaps is Gaps.NORMAL and last is not None and last < self.cleaned

    def has_superseded(self, first: int, last: int | None) -> bool:
        """Return whether all offsets from `first` to `last` are in the ranges of `superseded`. Return False if `last`
        is None, which means that it is not known."""
        ranges = OffsetRanges(self.superseded)
        return last is not None and not any(True for _ in ranges.lacking(first, last))


def judged(gap: Finding, gaps: Gaps) -> Finding:
    """Return the finding of a gap between batches. It is unchanged if the topic is, or was, compacted; else it becomes
    an error, or a warning if it is not certain that the topic was never compacted."""
    if gaps is Gaps.NORMAL:
        return gap
    directory = Path(gap.path).parent
    severity: Severity = "error" if gaps is Gaps.LOSS else "warning"
    action = f"{gaps.value}: compare with the other replicas"
    return replace(gap, severity=severity, action=action, command=next_steps.dump(directory, gap.lost_first_offset))


SERVED = ": Kafka serves another partition's records here"


def appended(gap: Finding) -> Finding | None:
    """Return the finding that all bytes behind a gap between batches are those of another partition's log, so that no
    offset is missing; None if they are not."""
    log, position = Path(gap.path), gap.position or 0
    owner = appended_from(log, position)
    if owner is None:
        return None
    return Finding(
        path=gap.path,
        kind="log-foreign",
        severity="error",
        position=position,
        offset=gap.offset,
        expected=f"batches of {log.parent.name}",
        found=f"from byte {position:,} on the batches of {owner}, which were appended to this file{SERVED}",
        action=f"stop the broker, and cut the file at that byte: {owner} has all that follows",
        command=f"truncate -s {position} -- {next_steps.quoted(log)}",
    )


def between(log: Path, first: int, last: int) -> Finding:
    """Return a note about the gap between a segment of a compacted topic and the segment before it."""
    return Finding(
        path=str(log),
        kind="offset-gap",
        severity="info",
        position=0,
        offset=first,
        expected=f"{first:,}",
        found=f"{offsets_text(first, last)} in no batch",
        lost_first_offset=first,
        lost_last_offset=last,
        action=NO_LOSS,
    )


def superseded_log(directory: Path, first: int, last: int) -> Finding:
    """Return a note about offsets of a compacted topic that are only in .log files which Kafka's next start deletes,
    since their suffix is .deleted or .swap."""
    return Finding(
        path=str(directory),
        kind="offset-gap",
        severity="info",
        offset=first,
        found=f"{offsets_text(first, last)} only in logs that a start deletes, with superseded records",
        action=NO_LOSS,
    )


def missing_segment(
    directory: Path,
    first: int,
    last: int | None,
    *,
    base: int | None,
    severity: Severity,
    why: str,
    known: Known,
    renamed: Sequence[RenamedLog],
) -> Finding:
    """Return the finding that no segment has these offsets.

    base: the base offset in the name of the missing .log file; None if it is not known: the finding is then about the
    partition's directory. why: the evidence that a segment had the offsets. known: what other files say about the
    log. renamed: the .log files that have these offsets under other names.
    """
    lost = offsets_text(first, last)
    is_doubtful = severity == "warning" and known.may_be_cleaned(last)
    cleaned = ", unless the log cleaner has left none of their records" if is_doubtful else ""
    begin = _names_between(first, last) if base is None else f"{base:020}"
    home = known.home
    command = next_steps.search_log([home or directory, *known.beside], begin, directory.name)
    if home is not None and not any(directory.glob(f"*{FileKind.LOG}")):  # no log is left: search for the directory
        command = next_steps.search(home.absolute().parent, directory.name)
    finding = Finding(
        path=str(directory if base is None else directory / log_name(base)),
        kind="log-missing",
        severity=severity,
        offset=first,
        expected=why,
        found=f"{'no log has them' if base is None else 'no such file'}: {lost} lost{cleaned}{_link_text(directory)}"
        + ("" if base is None or renamed else _illegible_text(directory / log_name(base))),
        lost_first_offset=first,
        lost_last_offset=last,
        action=REFETCH_END if last is None else REFETCH,
        command=command,
    )
    if renamed:
        return with_renamed(finding, directory, renamed)
    return _behind_link(finding, directory) if directory.is_symlink() and base is None else finding


def early_epoch(directory: Path, epochs: Sequence[tuple[int, int]], first: int, why: str, kept: Path | None) -> Finding:
    """Return the finding that the first leader epoch begins below the log's first offset, where retention can have
    deleted the offsets between. When retention deletes offsets, it also moves the start of the first epoch, and a start
    of Kafka does not change it: the entry may come from a copy that is older than the deletion, or may have been
    edited.

    epochs: the entries of leader-epoch-checkpoint, the first one below `first`, the log's first offset. why: what shows
    that retention can have deleted the offsets, in words. kept: a .log file with offsets below `first` that Kafka is
    to delete, as its suffix is .deleted; None if there is none.
    """
    epoch, start = epochs[0]
    cache = LeaderEpochCache(EpochEntry(*each) for each in epochs if min(each) >= 0)
    cache.truncate_from_start(first)
    path, lacking = directory / FileKind.LEADER_EPOCHS, offsets_text(start, first - 1).rpartition(" ")[0]
    action = f"{LOOK} of these offsets, unless retention deleted it; {WRITE_EPOCHS}"
    if kept is not None:
        action = f"{WRITE_EPOCHS}; {kept.name} has offsets below: without its suffix, Kafka serves them until it is due"
    return Finding(
        path=str(path),
        kind="checkpoint-offset",
        severity="warning",
        position=0,
        offset=start,
        expected=f"epoch {cache.entries[0].epoch} from offset {first:,} on, where the log begins",
        found=f"epoch {epoch} from offset {start:,} on; retention can have deleted {lacking}: {why}. The entry is then "
        "a leftover, or was edited",
        action=action,
        command=next_steps.write(path, cache.to_bytes().decode()),
    )


def or_shorter(finding: Finding, before: Path) -> Finding:
    """Return the finding that a .log file is missing, changed to offer a second explanation: the .log file before it
    (`before`) had the missing offsets at its end, and was replaced by an older and shorter version."""
    action = finding.action.replace(LOOK, f"look for the file, and for a longer version of {before.name}", 1)
    return replace(finding, expected=f"{finding.expected}, or these at the end of {before.name}", action=action)


def older_version(finding: Finding, before: Path, homes: Iterable[Path], why: str) -> Finding:
    """Return the finding that a .log file is missing, changed to one about the .log file before it (`before`): that
    file had the missing offsets at its end, and is now an older version.

    homes: the directories in which to look for the newer version. why: the evidence.
    """
    end, last = finding.lost_first_offset or 0, finding.lost_last_offset
    return replace(
        finding,
        path=str(before),
        kind="log-cut",
        position=before.stat().st_size,
        expected=f"batches up to offset {last:,}, where the next segment begins",
        found=f"an older version of the segment, or its beginning, up to offset {end - 1:,}: {why}; "
        f"{offsets_text(end, last)} lost",
        action=finding.action.replace(LOOK, f"look for the newer version of {before.name}", 1),
        command=next_steps.search_log(homes, before.stem, before.parent.name),
    )


def _behind_link(finding: Finding, directory: Path) -> Finding:
    """Return the finding that a partition has no log, changed for a directory that is a symbolic link: the disk that it
    leads to may not be mounted."""
    target = directory.readlink()
    return replace(
        finding,
        found=f"a symbolic link to {target}, which has no log: {finding.found}",
        action=f"mount the disk that it leads to; else {finding.action}",
        command=f"ls -la {next_steps.quoted(directory.parent / target)}",
    )


def returned_segments(logs: Sequence[Path], begin: int) -> Finding:
    """Return the finding of segments that Kafka had deleted, by retention or DeleteRecords, and that are in the
    directory again.

    logs: their .log files. begin: the base offset of the first segment that Kafka had kept.
    """
    others = f" and {len(logs) - 1:,} more" if len(logs) > 1 else ""
    return Finding(
        path=str(logs[0]),
        kind="log-returned",
        severity="error",
        offset=int(logs[0].stem),
        expected=f"a log from offset {begin:,} on, where the leader epochs begin",
        found=f"a segment that Kafka had deleted{others}: their offsets are below {begin:,}",
        action="Kafka serves them again, and consumers meet the gap behind them; stop the broker, and move them away",
        command=next_steps.move_segments(logs[0].parent, [each.stem for each in logs]),
    )


def older_log(log: Path, first: int, until: int, before: int, behind: int) -> Finding:
    """Return the finding that an older log lies behind a newer one, with a gap between: the batches up to the offset
    `first` have a later leader epoch (`before`) than those from `until` on (`behind`). log: the first .log file of the
    older log."""
    return Finding(
        path=str(log),
        kind="log-returned",
        severity="error",
        offset=until,
        expected=f"batches of leader epoch {before:,} or a later one, as before offset {first:,}",
        found=f"an older log from here on, of leader epoch {behind:,}, as where an older copy of the directory was "
        f"restored over a newer log; {offsets_text(first, until - 1)} in neither",
        action="Kafka serves both: keep both until you know which of them is the partition's log",
        command=next_steps.dump(log, until),
    )


def with_renamed(finding: Finding, directory: Path, renamed: Sequence[RenamedLog]) -> Finding:
    """Return the finding of lost offsets, changed to say that the missing .log files were found under other names: then
    nothing is lost, unless only a part of a missing .log file was found.

    directory: the partition's. renamed: the .log files that were found, at least one.
    """
    end, last = renamed[-1].end, finding.lost_last_offset
    ranges: list[tuple[int, int | None]] = [hole for each in renamed for hole in each.holes]
    ranges += [(end, last)] if end is not None and (last is None or end <= last) else []
    lost = "".join(f"; {offsets_text(*each)} lost" for each in ranges[:RANGES_SHOWN])
    more = len(ranges) - RANGES_SHOWN
    lost += f", and {more:,} more range{'s' if more > 1 else ''}" if more > 0 else ""
    finding = replace(
        finding,
        path=str(directory / log_name(renamed[0].base_offset)),
        lost_first_offset=ranges[0][0] if ranges else None,
        lost_last_offset=ranges[-1][1] if ranges else None,
    )
    if end is not None and len(renamed) == 1:
        is_all = not ranges and last is not None
        which = (
            f"it is {renamed[0].text}" if is_all else f"a part of it, up to offset {end - 1:,}, is {renamed[0].text}"
        )
        return replace(
            finding,
            found=f"no such file: {which}{lost}",
            action="salvage puts it in place, in a copy"
            if is_all
            else "look for the whole file; salvage keeps this part in a copy",
            command=renamed[0].command,
        )
    paths = names_text([each.text for each in renamed], RENAMED_SHOWN)
    paths += next(filter(None, (other_case(each.path.name, log_name(each.base_offset)) for each in renamed)), "")
    is_any_part = any(each.end is not None for each in renamed)
    if is_any_part or (len(renamed) > RENAMED_SHOWN and all(each.path.parent == directory for each in renamed)):
        action, command = "salvage gives the files their names, in a copy", next_steps.salvage(directory)
    else:
        action = f"stop the broker, and give the {'file its name' if len(renamed) == 1 else 'files their names'}"
        action = "stop the broker, and join the parts" if any(each.others for each in renamed) else action
        command = " && ".join(each.command for each in renamed)
    return replace(
        finding,
        severity="error",
        found=f"no such file: its batches are in {paths}{lost}",
        action=action,
        command=command,
    )


def empty_segment(directory: Path, *, is_clean: bool) -> Finding:
    """Return the note that a partition lacks its first .log file, which had no batch; a warning after a crash, right
    before which it may have got one. is_clean: whether the shutdown was clean."""
    why = "the recovery point 0 of a clean shutdown"
    if not is_clean:
        why = "a high watermark and a recovery point of 0, unless it got some right before the crash"
    return Finding(
        path=str(directory / log_name(0)),
        kind="log-missing",
        severity="info" if is_clean else "warning",
        offset=0,
        expected="the logs of the index files",
        found=f"no such file: it had no batch, by its indexes and {why}",
        action="nothing to do: Kafka makes it anew",
    )


def empty_log(log: Path, empty: EmptyLog, files: Sequence[Path]) -> Finding:
    """Return the finding of an empty .log file that no broker has made. files: those of the segment for which Kafka
    takes it."""
    expected, outcome = "no such file", empty.outcome
    refuses = empty.following is None and log.absolute().parent.name == METADATA_DIRECTORY
    if refuses:
        outcome = f"Kafka ends the metadata log at {empty.base_offset:,}, and the only voter does not get ready"
    if not empty.is_among:
        expected += f": the log ends at {empty.end:,}"
    return Finding(
        path=str(log),
        kind="log-empty",
        severity="error",
        position=0,
        offset=empty.base_offset,
        expected=expected,
        found=f"0 bytes: {empty.what}; no offset is lost",
        action=f"{outcome}; stop the broker, and move the file away",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved")) for path in sorted(files)]),
        refuses_start=refuses,
    )


def left_over(finding: Finding, partition: Path) -> Finding:
    """Return a finding about a directory that lies inside a partition's directory. If it says that a .log file is
    missing, it becomes a note, as Kafka does not look into such a directory. Offsets that the partition itself lacks
    have a finding of their own."""
    if finding.kind != "log-missing" or finding.lost_first_offset is None:
        return finding
    return replace(
        finding,
        severity="info",
        found=f"{str(finding.found).partition(':')[0]}, in a directory within that of a partition",
        lost_first_offset=None,
        lost_last_offset=None,
        action=f"nothing to do: Kafka does not look into it; remove it when {partition.name} has all records",
        command=None,
    )


def with_own_log(finding: Finding, renamed: Iterable[RenamedLog]) -> Finding:
    """Return the finding. If it says that a .log file belongs to another partition, and `renamed` has the partition's
    own .log file with the same base offset, the path of the own .log file is added, and the command that puts it in its
    place."""
    own = next((each for each in renamed if log_name(each.base_offset) == Path(finding.path).name), None)
    if finding.kind != "log-foreign" or own is None:
        return finding
    return replace(
        finding,
        found=f"{finding.found}; the partition's own is {own.path}",
        action="stop the broker, move this file away, and give the other its name",
        command=f"{finding.command} && {own.command}",
    )


def shorter_log(log: Path, renamed: RenamedLog) -> Finding:
    """Return the finding that a longer version of a .log file lies beside it under another name."""
    size, foreign = log.stat().st_size, begin_text(log)
    kind = "log-cut" if size else "log-empty"
    older = ": an older version" if size else ""
    what = f"{size:,} bytes{older}" if foreign is None else f"{size:,} bytes, {foreign}"
    zeros = zeros_in(log)
    return Finding(
        path=str(log),
        kind=kind if foreign is None else "foreign-bytes",
        severity="error",
        position=size if foreign is None else 0,
        offset=renamed.base_offset,
        expected="all batches of the segment",
        found=f"{zeros or what}; all batches are in {renamed.text}",
        action=f"stop the broker, and put {'the joined parts' if renamed.others else 'that file'} in its place",
        command=renamed.command,
    )


def _link_text(directory: Path) -> str:
    """Return a text which says that a partition's directory is a symbolic link, and to what; "" if it is no link."""
    return f" (the directory is a link to {directory.readlink()})" if directory.is_symlink() else ""


def _illegible_text(log: Path) -> str:
    """Return a text about a file beside the missing .log file that has its name with something behind it, but no batch
    at its begin, as after ransomware has encrypted it; "" if there is none."""
    beside = (each for each in sorted(log.parent.glob(f"{log.name}?*")) if parse(each.name) is None)
    for path in (each for each in beside if each.is_file()):
        with suppress(UnreadableInput), closing(FileSource(path)) as source:
            if source.size() and read_any_header(source, 0) is None:
                what = f"{path.name} ({source.size():,} bytes), beside it, does not begin with a batch"
                return f"; {what}: it may be encrypted or damaged"
    return ""


def _names_between(first: int, last: int | None) -> str:
    """Return the digits with which the names of all .log files with base offsets from `first` to `last` begin; if
    `last` is None, all digits of `first`."""
    digits = zip(f"{first:020}", f"{first if last is None else last:020}", strict=True)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], digits))


def deleted_log(directory: Path, missed: MissedLog) -> Finding:
    """Return the finding of a .log file that Kafka's next start deletes because of its suffix, although no other file
    has its offsets, and a compacted topic still needs some of its records."""
    name = log_name(missed.base_offset)
    what = f"{offsets_text(missed.base_offset, missed.last_offset)} in no other log"
    if missed.needed is not None:
        number, first, last = missed.needed.records, missed.needed.first_offset, missed.needed.last_offset
        where = f"offset {first:,}" if first == last else f"offsets {first:,}..{last:,}"
        verb, key = ("is", "its key") if number == 1 else ("are", "their keys")
        what = f"{number:,} of its records, at {where}, {verb} in no other log, and neither is a later one of {key}"
    aside = [(directory / file, directory / f"{file}.moved") for file in missed.replaced]
    pairs = aside + [(directory / file, directory / right) for file, right in missed.right_names.items()]
    begin = "0 bytes: its batches are in" if aside else "no such file: it has the name"
    why = ", as a .cleaned file is at or below it" if missed.suffix == ".swap" else ""
    return Finding(
        path=str(directory / name),
        kind="log-deleted",
        severity="error",
        offset=missed.base_offset,
        expected=f"the segment of offsets {missed.base_offset:,}..{missed.last_offset:,}",
        found=f"{begin} {name}{missed.suffix}, and {what}",
        action=f"a start deletes it{why}; stop the broker, and give the files their names back",
        command=next_steps.move(pairs),
    )


def cut_log(
    log: Path,
    size: int,
    end: int,
    base: int,
    *,
    offsets: IndexFile | None,
    times: IndexFile | None,
    until: int | None,
    is_confirmed: bool,
) -> Finding | None:
    """Return the finding that a .log file was cut or emptied, because entries of its indexes point beyond its end; None
    if there is no such evidence.

    size: the bytes of the .log file. end: one above the last offset of its last batch. base: its base offset. offsets,
    times: the indexes, None if `believed` has found them to be no evidence. until: the base offset of the next segment,
    None for the last one. is_confirmed: whether other files also say that the log had offsets from `end` on. The
    evidence is that the last offset index entry has an offset of `end` or higher and a position of `size` or higher;
    for an empty .log file, the offset of the last time index entry is evidence, too. If the .log file is not empty, one
    of these must confirm the evidence: the first offset index entry, with a position within the .log file; the last
    time index entry, with an offset of `end` or higher; or another file. So neither a flipped bit in an index nor a
    file with byte-swapped numbers can cause this finding.
    """
    if until == end:
        return None
    reached, positions = [], []
    if offsets is not None and offsets.count:
        relative, position = offsets.fields(offsets.count - 1)
        if base + relative >= end and position >= size:
            reached.append(base + relative)
            positions.append(position)
            is_confirmed = is_confirmed or not size or offsets.fields(0)[1] < size
    if times is not None and times.count:
        _, relative = times.fields(times.count - 1)
        if base + relative >= end and (reached or not size):
            reached.append(base + relative)
            is_confirmed = True
    if not reached or (size and not positions) or not is_confirmed or (until is not None and max(reached) >= until):
        return None
    stated = f"its indexes go on to offset {max(reached):,}"
    stated += f" and byte {positions[0]:,}" if positions else ""
    return Finding(
        path=str(log),
        kind="log-cut" if size else "log-empty",
        severity="error",
        position=size,
        offset=end,
        expected=f"batches up to where {stated.removeprefix('its ')}",
        found=f"{size:,} bytes: {'the file is cut' if size else 'the file is empty'}, and {stated}",
        lost_first_offset=end,
        lost_last_offset=max(reached),
        action=REFETCH_END if until is None else REFETCH,
        command=next_steps.recover(log.parent),
    )


def without_marker(log: Path, size: int, end: int, entry: AbortedTxn) -> Finding:
    """Return the finding that a .log file was cut, because its transaction index has an entry for an abort marker
    beyond its end.

    size: the bytes of the .log file. end: one above the last offset of its last batch. entry: the one for the marker.
    """
    aborted = f"the abort marker of producer {entry.producer_id:,} at offset {entry.last_offset:,}"
    begun = f"its transaction is open from offset {entry.first_offset:,} on, where read_committed consumers stop"
    return Finding(
        path=str(log),
        kind="log-cut",
        severity="error",
        position=size,
        offset=end,
        expected=f"{aborted}, which the transaction index has",
        found=f"{size:,} bytes, up to offset {end:,}: the file is cut, and {begun}",
        lost_first_offset=end,
        lost_last_offset=entry.last_offset,
        action=REFETCH,
        command=next_steps.recover(log.parent),
    )


def believed(
    index: IndexFile | None, events: Sequence[IndexEvent], base: int, end: int, max_timestamp: int, *, is_sound: bool
) -> IndexFile | None:
    """Return the index if it can be evidence of where its .log file ended before the file was cut; None without an
    index, or if the index contradicts itself or the .log file.

    events: the entries that contradict the .log file, from LogCheck. Such an entry rules the index out if its offset is
    below `end` and the .log file is sound; if the .log file is damaged, the entry may point into the damage, and does
    not rule the index out. base: the segment's base offset. end: the offset after the last batch of the .log file.
    max_timestamp: the largest timestamp of its batches, ms; -1 if it has none. is_sound: whether the .log file is
    undamaged.
    """
    if index is None or not index.ascends():
        return None
    if is_sound and any(index.offset_of(number, base) < end for number, _, _ in events):
        return None
    is_times = index.entry_bytes == TIME_ENTRY_BYTES
    if is_times and index.count and index.fields(index.count - 1)[0] > TIMESTAMP_FACTOR * max_timestamp > 0:
        return None
    return index


def witnesses(end: int, known: Known, snapshots: int, *, is_rolled: bool = False) -> list[tuple[FileKind, int]]:
    """Return the end offsets above `end` that the log once had according to other files, each with the kind of file.

    end: the log end offset now. snapshots: the end offset that the log had according to its producer snapshots. Returns
    an empty list if there is too little evidence: only the last leader epoch begins above `end`; or only one checkpoint
    has an offset above `end`, while the other one has `end` itself. A recovery point of 0 does not agree with an empty
    log: each log has it until Kafka first flushes one of its segments. Nor does one where a segment was begun, unless
    the shutdown was clean: it is there until Kafka begins the next one. is_rolled: whether a segment was begun at
    `end`.
    """
    stated = [(kind, known.ends[kind]) for kind in CHECKPOINT_KINDS if kind in known.ends]
    beyond = [(kind, offset) for kind, offset in stated if offset > end]
    others = [(FileKind.PRODUCER_SNAPSHOT, snapshots)] if snapshots > end else []
    if not beyond and not others:
        return []
    others += [(FileKind.LEADER_EPOCHS, start) for _, start in known.epochs[-1:] if start > end]
    is_point = bool(end) and (known.is_clean or not is_rolled)
    agreed = [offset for kind, offset in stated if offset == end and (is_point or kind is not FileKind.RECOVERY_POINTS)]
    if agreed and not others:
        return []
    return beyond + others


def without_older_topics(
    beyond: list[tuple[FileKind, int]], directory: Path, strays: Sequence[Path]
) -> list[tuple[FileKind, int]]:
    """Return the `witnesses` without the checkpoints whose offset is that of an older topic of the same name. strays:
    those whose names contain the partition's name."""
    return [
        (kind, offset)
        for kind, offset in beyond
        if kind not in CHECKPOINT_KINDS or not of_older_topic(directory, strays, offset)
    ]


def short_log(log: Path, start: int, end: int, beyond: Sequence[tuple[FileKind, int]], known: Known) -> Finding | None:
    """Return the finding that a log ends below the end offset that it once had according to other files; None if no
    file says so. It is a warning if that may be a wrong number (kcli.log.recovery.doubtful_ends).

    start: the first offset of the log. beyond: see `witnesses`.
    """
    if not beyond:
        return None
    last = max(offset for _, offset in beyond) - 1
    reasons = ", ".join(f"the {WITNESS_NAMES[kind]} is {offset:,}" for kind, offset in beyond)
    is_one = all(kind in CHECKPOINT_KINDS for kind, _ in beyond)
    stated = [known.ends[kind] for kind in CHECKPOINT_KINDS if kind in known.ends]
    doubtful = is_one and is_doubtful(stated, start, end, log.parent)
    homes = [known.home or log.parent, *known.beside]
    empty = "" if log.stat().st_size else "0 bytes: "
    or_wrong = f", or that number is wrong: the log has {end - start:,} offsets" if doubtful else ""
    return Finding(
        path=str(log),
        kind="log-end",
        severity="warning" if doubtful else "error",
        offset=end,
        expected=f"a log up to {last + 1:,}: {reasons}",
        found=f"{empty}the log ends at {end:,}: {offsets_text(end, last)} lost{or_wrong}",
        lost_first_offset=end,
        lost_last_offset=last,
        action=REFETCH_END,
        command=next_steps.search_log(homes, f"{end:020}", log.parent.name),
    )
