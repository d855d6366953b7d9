"""What a tier has of the offsets that a partition's log lacks, for `kcli recover --tier`.

    served    offsets from the log start offset up to the first local segment: brokers read them from the tier, whatever
              the local log has lost there (KIP-405)
    missing   offsets there that the tier does not have either
    in_tier   offsets from the first local segment on that the local log lacks and the tier has: brokers read the local
              log there, and do not serve them, but salvage takes whole segments of the tier

A segment of the tier is the copy of a closed local segment. Salvage puts it in place of the .log file of the same name,
if that has no sound batch that the copy lacks. Where a segment of the tier overlaps a local one with another base
offset, because different brokers have closed them, salvage does not take it; `kcli tier fetch` joins them. A log
without any segment gets the tier's last one, with the producer snapshot at its base offset: brokers serve the offsets
below it from the tier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import FileKind, FileName, build
from kcli.errors import UnreadableInput
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.partition_view import Content, FileRange, PartitionView
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.salvage import Checked, behind_damage, is_log
from kcli.tier.lineage import Part, is_within, plan
from kcli.tier.store import ObjectMissing, StoreFailed

if TYPE_CHECKING:
    from kcli.log.recovery.plan import PartitionPlan
    from kcli.tier.segment import RemoteSegment
    from kcli.tier.tier import PartitionTier, Tier

Range = tuple[int, int]
"""The first and the last of some offsets, both inclusive."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The offsets that a log lacks after a start, and whether a tier has them (see the module). local_first: the base
    offset of the log's first segment. tiered: all offsets in the tier from `local_first` on."""

    local_first: int
    served: list[Range] = field(default_factory=list)
    missing: list[Range] = field(default_factory=list)
    in_tier: list[Range] = field(default_factory=list)
    tiered: OffsetRanges = field(default_factory=OffsetRanges)

    def of(self, first: int, last: int) -> list[Range]:
        """Return those of the offsets `first` to `last` (inclusive) that the tier has."""
        return _common(self.tiered, first, last)


class TierCoverage:
    """The tier of a log directory whose partitions are recovered.

    directory: the directory that is recovered, a partition's or a log directory. address: the tier's path or URL, as
    the command line has it. copies: keeps the local copies of objects until it is closed. objects: the objects that
    salvage takes, by the path of their local copy.
    """

    def __init__(self, tier: Tier, directory: Path, address: str, copies: ExitStack) -> None:
        self.address = address
        self._tier, self._directory, self._copies = tier, directory, copies
        self._partitions = {each.local.directory.absolute(): each for each in tier.partitions if each.local is not None}
        self.objects: dict[Path, str] = {}

    def after(self, planned: PartitionPlan) -> Coverage | None:
        """Return what the tier has of the offsets that a log lacks after the planned start or salvage; None if Kafka
        does not start with this log, or the tier does not have the partition. Raises UnreadableInput."""
        each = self._partitions.get(planned.view.directory.absolute())
        if each is None or planned.offsets is None or not each.cache.segments():
            return None
        first = max(planned.first_base_offset, planned.offsets.log_start_offset)
        found = Coverage(first, tiered=OffsetRanges(self._readable(plan(each.cache, each.lineage, first, None).parts)))
        below = each.plan(first)
        found.served.extend(OffsetRanges(self._readable(below.parts)))
        found.missing.extend(OffsetRanges(sorted([*below.gaps, *self._unreadable(below.parts)])))
        have = sound_offsets(planned.view.files)
        for part in found.tiered:
            found.in_tier.extend(have.lacking(*part))
        return found

    def complete(self, checked: Mapping[Path, Checked]) -> dict[Path, Checked]:
        """Return the checks for salvage, in which each log gets the segments of the tier whose offsets it lacks. Raises
        UnreadableInput if the tier cannot be read."""
        completed = dict(checked)
        for path, each in self._partitions.items():
            directory = self._directory if path == self._directory.absolute() else self._directory / path.name
            taken = self._taken(directory, each)
            if taken:
                own = completed.get(directory, Checked())
                indexes = [build(FileName(FileKind.OFFSET_INDEX, _base(name))) for name in taken if is_log(name)]
                contradicted = {*own.contradicted, *(name for name in indexes if (directory / name).is_file())}
                renamed = {**own.renamed, **taken}
                completed[directory] = replace(own, renamed=renamed, contradicted=contradicted)
        return completed

    def alone(self, topic: str, partition: int) -> list[Range]:
        """Return the offsets that the tier has of a partition without a local log."""
        found = (each for each in self._tier.partitions if each.local is None)
        for each in found:
            if each.partition[:2] == (topic, partition):
                return list(OffsetRanges(self._readable(plan(each.cache, each.lineage, None, None).parts)))
        return []

    def _taken(self, directory: Path, each: PartitionTier) -> dict[str, Path]:
        """Return the local copies of the objects that salvage puts into a partition's log, by their file names in that
        log."""
        try:
            logs = {name: each for name, each in PartitionView(directory).original.items() if is_log(name)}
        except UnreadableInput:  # the plan reports this error
            return {}
        have = sound_offsets(logs)
        taken: dict[str, Path] = {}
        parts = plan(each.cache, each.lineage, min(map(_base, logs), default=None), None).parts
        last = None
        for part in parts if logs else parts[-1:]:
            segment = part.segment
            is_fit = is_within(segment, each.lineage) and not _overlaps(segment, logs)
            path = self._copy(segment, have) if is_fit and any(have.lacking(part.first, part.last)) else None
            if path is not None:
                taken[build(FileName(FileKind.LOG, segment.start_offset))] = path
                last = segment
        if last is None:
            return taken
        if not (each.local and each.local.epochs):
            taken |= self._small(last, FileKind.REMOTE_LEADER_EPOCHS, LEADER_EPOCHS)
        if not logs and len(parts) > 1:
            name = build(FileName(FileKind.PRODUCER_SNAPSHOT, last.start_offset))
            taken |= self._small(parts[-2].segment, FileKind.PRODUCER_SNAPSHOT, name)
        return taken

    def _small(self, segment: RemoteSegment, kind: FileKind, name: str) -> dict[str, Path]:
        """Return the local copy of a small object by the name that it gets in a log; {} if there is no such object."""
        address = self._tier.objects(segment).name(kind)
        try:
            path = self._copies.enter_context(self._tier.store.as_file(address))
        except ObjectMissing:
            return {}
        self.objects[path.absolute()] = f"{self._tier.store.address}/{address}"
        return {name: path}

    def _copy(self, segment: RemoteSegment, have: OffsetRanges) -> Path | None:
        """Return the path of a local copy of a segment's .log object; None if the object lacks an offset of `have`, or
        has no offset that `have` lacks. have: the offsets in the local log."""
        if not self._is_there(segment):
            return None
        name = self._tier.objects(segment).name(FileKind.LOG)
        try:
            path = self._copies.enter_context(self._tier.store.as_file(name))
            content = Content((FileRange(path, 0, path.stat().st_size),))
            sound = sound_offsets({name: content})
        except StoreFailed:
            raise
        except UnreadableInput as error:
            if error.is_denied:
                raise
            return None
        except ObjectMissing:
            return None
        first, last = segment.start_offset, segment.end_offset
        has_all = all(not any(sound.lacking(*each)) for each in _common(have, first, last))
        has_more = any(any(have.lacking(*each)) for each in _common(sound, first, last))
        if not (has_all and has_more):
            return None
        self.objects[path.absolute()] = f"{self._tier.store.address}/{name}"
        return path

    def _is_there(self, segment: RemoteSegment) -> bool:
        return self._tier.objects(segment).sizes.get(FileKind.LOG) == segment.size

    def _readable(self, parts: Iterable[Part]) -> Iterator[Range]:
        return ((each.first, each.last) for each in parts if self._is_there(each.segment))

    def _unreadable(self, parts: Iterable[Part]) -> Iterator[Range]:
        return ((each.first, each.last) for each in parts if not self._is_there(each.segment))


def sound_offsets(files: Mapping[str, Content]) -> OffsetRanges:
    """Return the offsets of the sound batches in .log files; of a file that cannot be read, those before the error."""
    found = OffsetRanges()
    for name, content in sorted(files.items()):
        if name.endswith(FileKind.LOG):
            try:
                behind_damage(name, content, 0, known=found)
            except UnreadableInput:  # the plan reports this error
                continue
    return found


def _overlaps(segment: RemoteSegment, logs: Mapping[str, Content]) -> bool:
    """Whether a .log file with another base offset than the segment's has offsets of the segment."""
    first, last = segment.start_offset, segment.end_offset
    before = max((name for name in logs if _base(name) < first), key=_base, default=None)
    if any(first < _base(name) <= last for name in logs):
        return True
    return before is not None and bool(_common(sound_offsets({before: logs[before]}), first, last))


def _common(ranges: OffsetRanges, first: int, last: int) -> list[Range]:
    """Return those of the offsets `first` to `last` (inclusive) that are in the ranges."""
    within = ((max(low, first), min(high, last)) for low, high in ranges)
    return [(low, high) for low, high in within if low <= high]


def _base(name: str) -> int:
    return int(name.partition(".")[0])
