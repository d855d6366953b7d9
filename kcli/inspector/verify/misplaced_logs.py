"""The .log files in the directory of another partition: swapped with its .log files, moved there, or copied.

A place is a segment of a partition: its offsets go from the base offset in the name to that of the next segment. A
.log file does not fit its own place if its first batch, its last batch or most entries of the place's indexes
contradict that. A .log file that does not begin where the one before it ends does not fit, either, if another
partition lacks a .log file at these offsets, and one of these shows that it is this one:

    indexes   those that are left of the missing .log file
    snapshot  the producer snapshot at the end of the missing .log file, which has the same base offset
    gap       the missing offsets begin and end with this .log file, and this partition has no gap without it

or if a .log file of another partition, which fits its place, has all its batches at the same bytes, and these have
several timestamps. Only sound batches are compared, so that damage in a .log file does not hide whose it is.

The .log files that do not fit are compared with the places in the other partitions of the log directory:

    keys      the topic is a coordinator's, and the hash of the records' keys is the number of the partition to which
              the file belongs
    swapped   two or more such files fit each other's places
    moved     the file fits a place whose .log file is missing
    copied    another .log file, which fits its own place, has the same bytes

If all .log files of a directory fit their places, the whole directory may be a copy (see copied_partitions), or a
segment behind its first one (see copied_segments).

All other checks of a partition use the .log files that belong to it, so that a misplaced .log file makes one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from formats.file_name import FileKind, FileName, build, build_directory, parse, parse_directory
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.copied_partitions import LEAST_TIMESTAMPS, StoredLog, copied_partitions
from kcli.inspector.verify.copied_segments import CopiedSegment, StoredSegment, copied_segments, equal_logs
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.gaps import Gaps
from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kcli.inspector.verify.missing_log_proofs import fits_snapshot, fits_time_index
from kcli.inspector.verify.segment_names import (
    INDEX_KINDS,
    Header,
    SegmentFiles,
    ends_with,
    headers,
    log_name,
    read_header,
)
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.recovery.exchanged import indexes_fit
from kcli.log.recovery.foreign import bytes_at
from kcli.log.recovery.stray_copies import is_named_copy
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource
from kcli.protocol.topic_partition import TopicPartition

KINDS = (FileKind.LOG, *INDEX_KINDS)


@dataclass(slots=True, eq=False)
class _Place:
    """A segment of a partition's directory (its place), and the .log file that is in that place now.

    until: the base offset of the next segment, None for the last one. files: the files with the base offset in their
    names. is_cleaned: whether the .log file may have gaps. last_entry: the last (relative offset, position) of the
    offset index. last_time_entry: the last (timestamp in ms, relative offset) of the time index. header: the header of
    the .log file's first sound batch. end: one above the last offset of the .log file's last whole batch. is_odd:
    whether the .log file does not fit the place. damage: of a .log file that may be another partition's, the bytes that
    are no sound batch, so that it may have had offsets before the first batch and after the last. reached: the
    partition's recovery point, in its last place only; 0 in others, or if it is not known. is_known_by_keys: whether
    the keys in the .log file show that it belongs to another partition.
    """

    directory: Path
    base: int
    until: int | None
    files: dict[FileKind, Path]
    is_cleaned: bool
    last_entry: tuple[int, int] | None = None
    last_time_entry: tuple[int, int] | None = None
    header: Header | None = None
    end: int = 0
    is_odd: bool = False
    damage: list[range] = field(default_factory=list)
    reached: int = 0
    is_known_by_keys: bool = False

    @property
    def log(self) -> Path:
        """The path of the .log file that is at this place."""
        return self.files[FileKind.LOG]

    @property
    def name(self) -> str:
        """The name of the .log file that belongs to this place: <partition>/<file>."""
        return f"{self.directory.name}/{log_name(self.base)}"

    @property
    def is_damaged(self) -> bool:
        return bool(self.damage)

    @property
    def has_entries(self) -> bool:
        """Whether an index of this place has an entry."""
        return (self.last_entry, self.last_time_entry) != (None, None)

    def indexes(self, log: Path, base: int, damage: Sequence[range] = ()) -> bool:
        """Whether most entries in the index files of this place point to batches of the .log file `log`, assuming that
        `base` is the base offset of that .log file. False if the index files have no entry outside of `damage`."""
        return bool(indexes_fit(self.directory / log_name(self.base), log, base, damage))

    def has_room_for(self, first: int, end: int, *, is_damaged: bool = False) -> bool:
        """Return whether a .log file with the offsets [first, end) fits this place: it has all offsets from the base
        offset to the next segment; a cleaned or damaged .log file may lack some at both ends."""
        if self.is_cleaned or is_damaged:
            return self.base <= first and (self.until is None or end <= self.until)
        return first == self.base and (self.until is None or end == self.until)

    def takes(self, other: _Place) -> bool:
        """Return whether the .log file of `other` belongs to this place: its offsets fit this place, and its batches
        fit the indexes of this place or those of `other`. If this place has no .log file with index entries, it is
        enough that the offsets reach from the base offset of this place to that of the next segment."""
        if other.header is None or not self.has_room_for(other.header.first, other.end, is_damaged=other.is_damaged):
            return False
        if any(each.indexes(other.log, self.base, other.damage) for each in (self, other)):
            return True
        has_indexed_log = self.has_entries and FileKind.LOG in self.files
        return not self.is_cleaned and not other.is_damaged and self.until is not None and not has_indexed_log


@dataclass(slots=True)
class MisplacedLogs:
    """The .log files that are in the wrong partition's directory.

    segments: by directory name and base offset, the partition's own segment with that base offset, wherever its files
    lie; None if only another partition's .log file lies there. copies: by directory name, the names of files that were
    copied from another partition, each with words that name the copied file. moved: by directory name, the names of
    .log files that were moved from another partition, which lacks them now, each with words that name the missing file.
    found: by directory name, the paths of the partition's .log files that lie in other partitions' directories, by the
    names that they should have. twins: by the name of a directory that is a copy of another partition's, the names of
    its files that the other one has, too, each with words that name that one. kept: the findings of copies of which
    salvage keeps batches, as it is not known which directory is the copy, or as they have some that the other lacks.
    """

    segments: dict[str, dict[int, SegmentFiles | None]] = field(default_factory=dict)
    copies: dict[str, dict[str, str]] = field(default_factory=dict)
    moved: dict[str, dict[str, str]] = field(default_factory=dict)
    found: dict[str, dict[str, Path]] = field(default_factory=dict)
    twins: dict[str, Mapping[str, str]] = field(default_factory=dict)
    kept: list[Finding] = field(default_factory=list)
    _findings: list[tuple[Finding, set[str]]] = field(default_factory=list)

    def take(self, directory: str, *, is_alone: bool) -> list[Finding]:
        """Return the findings about a partition's directory, and remove them, so that each is reported once. is_alone:
        whether only this directory is verified; else the finding of a moved .log file is returned only for the
        directory in which it lies."""
        taken = []
        for finding, names in self._findings:
            path = Path(finding.path)
            is_elsewhere = path.parent.name != directory and path.name in self.moved.get(path.parent.name, {})
            if directory in names and (is_alone or not is_elsewhere):
                taken.append(finding)
        self._findings = [each for each in self._findings if each[0] not in taken]
        return taken

    @property
    def foreign(self) -> dict[str, set[str]]:
        """The names of the .log files that are another partition's, by the name of the directory in which they lie."""
        directories = {*self.copies, *self.moved}
        return {each: {*self.copies.get(each, ()), *self.moved.get(each, ())} for each in directories}

    @property
    def findings(self) -> list[Finding]:
        """The findings that `take` has not returned."""
        return [finding for finding, _ in self._findings]

    def add(self, finding: Finding, names: set[str]) -> None:
        """Add a finding about the directories of these names."""
        self._findings.append((finding, names))

    def put(self, place: _Place, segment: SegmentFiles | None) -> None:
        """Set the segment that belongs to a place; None if only another partition's .log file lies there."""
        self.segments.setdefault(place.directory.name, {})[place.base] = segment


def find_around(around: Surroundings) -> MisplacedLogs:
    """Return the misplaced logs in a log directory."""
    points = around.recovery_points
    ends = points if around.is_clean else {}
    partitions = list(_partitions(around.path, lambda each: around.gaps(each) is not Gaps.LOSS, ends, points))
    equal = _equal([each for each in partitions if _may_place(each, around)], around.partition_count)
    copies = {each.copy.log: each.twin.log for each in equal if each.is_known}
    found = _find(partitions, around.exchanged_by_keys, copies)
    for each in equal:
        if not each.is_known:
            found.kept.append(equal_logs(each))
            found.add(found.kept[-1], {each.copy.log.parent.name, each.twin.log.parent.name})
    stored = [each for each in map(_stored, partitions) if each is not None]
    stored = [each for each in stored if around.may_place(each.partition)]  # strays have a finding of their own
    for copied in copied_partitions(stored, around.topic_id, around.partition_count):
        found.add(copied.finding, copied.names)
        if copied.directory is not None:
            found.twins[copied.directory] = copied.files
        if not copied.is_whole:
            found.kept.append(copied.finding)
    return found


def find(home: Path, is_cleaned: Callable[[TopicPartition], bool], ends: Mapping[TopicPartition, int]) -> MisplacedLogs:
    """Return the misplaced logs in a log directory.

    is_cleaned: returns whether a partition's log may have gaps. ends: known log end offsets, by partition.
    """
    return _find(list(_partitions(home, is_cleaned, ends, ends)))


def _may_place(places: Sequence[_Place], around: Surroundings) -> bool:
    """Whether a partition's directory is no stray, by its name: strays have a finding of their own."""
    name = parse_directory(places[0].directory.name) if places else None
    return name is not None and around.may_place(TopicPartition(name.topic, name.partition))


def _equal(partitions: Sequence[Sequence[_Place]], count: Callable[[str], int]) -> list[CopiedSegment]:
    """Return the equal .log files of two partitions behind their first segments. count: as in copied_segments. Returns
    none if a file cannot be read, which other checks report."""
    logs = [[place for place in places if FileKind.LOG in place.files] for places in partitions]
    stored = [
        StoredSegment(place.log, place.base, place.end, place.header, before.log)
        for before, place in (each for places in logs for each in pairwise(places))
        if place.header is not None and not place.is_odd
    ]
    try:
        return list(copied_segments(stored, count))
    except (OSError, UnreadableInput):
        return []


def _find(
    partitions: Sequence[Sequence[_Place]],
    by_keys: Mapping[Path, Path] = MappingProxyType({}),
    equal: Mapping[Path, Path] = MappingProxyType({}),
) -> MisplacedLogs:
    """Return the misplaced .log files among these places. by_keys: the .log files of coordinators' topics whose keys
    show that they belong to another partition: for each path at which a file belongs, the path at which it lies. equal:
    by the path of a .log file that is known to be a copy, the path of the other partition's."""
    found = MisplacedLogs()
    places = {place.log: place for each in partitions for place in each if FileKind.LOG in place.files}
    for place in (places[path] for path in {*by_keys, *by_keys.values()} if path in places):
        place.is_odd = place.is_known_by_keys = True
    copies = {places[copy]: places[log] for copy, log in equal.items()}
    for place in copies:
        place.is_odd = True
    holes = [hole for places in partitions for hole in _holes(places)]
    places = {hole.directory / log_name(hole.base): hole for hole in holes} | places
    targets: dict[_Place, _Place] = {}
    for before, place in (each for places in partitions for each in _strangers(places, targets, copies)):
        takers = [hole for hole in holes if _are_apart(hole, place) and _is_missing_in(hole, place, before)]
        twin = _twin(place, partitions, LEAST_TIMESTAMPS) if not takers else None
        if len(takers) == 1:
            targets[place] = takers[0]
        elif twin is not None:
            copies[place] = twin
        place.is_odd = place in targets or place in copies
        if place.is_odd and before is not None:
            before.until = place.until
            before.is_odd = before.has_entries and not before.indexes(before.log, before.base)
    odd = [place for places in partitions for place in places if place.is_odd]
    if not odd:
        return found
    open_places = [*odd, *holes]
    targets |= {places[log]: places[path] for path, log in by_keys.items() if path in places and log in places}
    for place in (each for each in odd if not each.is_known_by_keys and each not in targets and each not in copies):
        takers = [each for each in open_places if _are_apart(each, place) and each.takes(place)]
        if len(takers) == 1:
            targets[place] = takers[0]
    for chain in _chains(targets):
        _move(found, chain, targets)
    for place in odd:
        twin = None if place in targets else copies.get(place) or _twin(place, partitions)
        if twin is not None:
            _set_aside(found, place, twin)
    return found


def _stored(places: Sequence[_Place]) -> StoredLog | None:
    """Return the .log files of a partition; None if one of them does not fit its place, or if the first .log file does
    not begin with a sound batch."""
    logs = {place.base: place.files[FileKind.LOG] for place in places if FileKind.LOG in place.files}
    first = next((place for place in places if place.base in logs), None)
    if first is None or first.header is None or any(place.is_odd for place in places):
        return None
    name = parse_directory(first.directory.name)
    assert name is not None, "it is the directory of a partition"
    return StoredLog(TopicPartition(name.topic, name.partition), first.directory, logs, first.header)


def _partitions(
    home: Path,
    is_cleaned: Callable[[TopicPartition], bool],
    ends: Mapping[TopicPartition, int],
    recovery_points: Mapping[TopicPartition, int],
) -> Iterator[list[_Place]]:
    """Yield the places of each partition's directory, by base offset. is_cleaned: returns whether a partition's log may
    have gaps. ends: known log end offsets, by partition."""
    try:
        directories = sorted(each for each in home.iterdir() if each.is_dir())
    except OSError:
        return
    for directory in directories:
        name = parse_directory(directory.name)
        if name is None or name.state or build_directory(name) != directory.name:
            continue
        partition = TopicPartition(name.topic, name.partition)
        try:
            places = _places(directory, is_cleaned=is_cleaned(partition), end=ends.get(partition))
            if places:
                places[-1].reached = recovery_points.get(partition, 0)
            yield places
        except (OSError, UnreadableInput):  # the checks of that partition report this error
            continue


def _places(directory: Path, *, is_cleaned: bool, end: int | None) -> list[_Place]:
    files: dict[int, dict[FileKind, Path]] = {}
    for path in directory.iterdir():
        parsed = parse(path.name)
        if parsed is not None and parsed.kind in KINDS and not parsed.state and not parsed.remote_id and path.is_file():
            files.setdefault(parsed.base_offset or 0, {})[parsed.kind] = path
    places = [_Place(directory, base, None, files[base], is_cleaned) for base in sorted(files)]
    for place, following in pairwise(places):
        place.until = following.base
    for place in places:
        _survey(place, end)
    return places


def _survey(place: _Place, end: int | None) -> None:
    """Set the attributes of a place by its indexes and the first and last batch of its .log file. end: the log end
    offset of the partition; None if it is not known."""
    if FileKind.OFFSET_INDEX in place.files:
        place.last_entry = _last_entry(place.files[FileKind.OFFSET_INDEX], OFFSET_ENTRY_BYTES)
    if FileKind.TIME_INDEX in place.files:
        place.last_time_entry = _last_entry(place.files[FileKind.TIME_INDEX], TIME_ENTRY_BYTES)
    if place.until is None and place.last_entry is None and end is not None and end > place.base:
        place.until = end
    if FileKind.LOG not in place.files:
        return
    place.header = _header(place.log, 0)
    is_indexed = place.indexes(place.log, place.base)
    if place.header is None:
        place.is_odd = place.has_entries and not is_indexed
    else:
        start = place.last_entry[1] if place.last_entry is not None else 0
        if not is_indexed or _header(place.log, start) is None:
            start = 0
        for header in headers(place.log, start):
            place.end = header.last + 1
        place.is_odd = not place.has_room_for(place.header.first, place.end) or (place.has_entries and not is_indexed)
    if place.is_odd and place.log.stat().st_size:
        _survey_around_damage(place)


def _survey_around_damage(place: _Place) -> None:
    """Set `header`, `end` and `damage` of a place by all sound batches of its .log file, also those after damage.
    Raises UnreadableInput."""
    place.header, end = None, 0
    place.damage.clear()
    with closing(FileSource(place.log)) as source:
        for row in sound_batches(source):
            if row.position > end:
                place.damage.append(range(end, row.position))
            place.header = place.header or read_header(source, row.position)
            place.end, end = row.last_offset + 1, row.position + row.size
        if end < source.size():
            place.damage.append(range(end, source.size()))


def _last_entry(path: Path, entry_bytes: int) -> tuple[int, int] | None:
    """Return the last entry of an index before the zeros at its end; None if there is no entry.

    The entry is found by binary search: the index of an active segment is preallocated, with megabytes of zeros.
    """
    source = FileSource(path)
    entry, last = bytearray(entry_bytes), None
    low, high = 0, source.size() // entry_bytes
    try:
        while low < high:
            middle = (low + high) // 2
            source.read_at(middle * entry_bytes, memoryview(entry))
            if any(entry):
                low = middle + 1
                last = int.from_bytes(entry[:-4], signed=True), int.from_bytes(entry[-4:], signed=True)
            else:
                high = middle
    finally:
        source.close()
    return last


def _header(log: Path, position: int) -> Header | None:
    source = FileSource(log)
    try:
        return read_header(source, position) if 0 <= position < source.size() else None
    finally:
        source.close()


def _holes(places: Sequence[_Place]) -> Iterator[_Place]:
    """Yield the places of a partition that have no .log file: those with index files alone, gaps between two segments,
    and the offsets after the last segment and below the recovery point. The end of a .log file that begins below its
    place is that of another segment, and says nothing."""
    for place in places:
        if FileKind.LOG not in place.files:
            yield place
            continue
        if place.header is None or place.header.first < place.base or place.is_cleaned:
            continue
        if place.end < (place.reached if place.until is None else place.until):
            yield _Place(place.directory, place.end, place.until, {}, is_cleaned=False)


def _strangers(places: Sequence[_Place], *known: Container[_Place]) -> Iterator[tuple[_Place | None, _Place]]:
    """Yield the places whose .log file fits them, but does not begin where the .log file before it ends, each with the
    place before it. The first .log file counts if it does not end where the next one begins; then there is no place
    before it. known: the places, of those yielded before, whose .log files are another partition's."""
    logs = [place for place in places if FileKind.LOG in place.files]
    before = None
    for place, following in zip(logs, [*logs[1:], None], strict=False):
        is_apart = following is not None and place.end != following.base
        if not place.is_odd and (is_apart if before is None else before.end != place.base):
            yield before, place
        if not any(place in each for each in known):
            before = place


def _are_apart(one: _Place, other: _Place) -> bool:
    """Whether two places are of two partitions, and not of one and of a copy of its directory."""
    pair = one.directory, other.directory
    return pair[0] != pair[1] and not (is_named_copy(*pair) or is_named_copy(*reversed(pair)))


def _is_missing_in(hole: _Place, place: _Place, before: _Place | None) -> bool:
    """Return whether the .log file of `place`, one of the `_strangers`, belongs to `hole`, a place without a .log file.
    before: the place before it. Raises UnreadableInput."""
    is_below = hole.base <= place.base and (hole.until is None or place.base < hole.until)
    if not is_below or not place.log.stat().st_size:
        return False
    if not place.damage:
        _survey_around_damage(place)
    if place.header is None or not hole.has_room_for(place.header.first, place.end, is_damaged=place.is_damaged):
        return False
    if hole.has_entries:
        times = hole.files.get(FileKind.TIME_INDEX)
        is_indexed = hole.last_entry is None or hole.indexes(place.log, hole.base, place.damage)
        return is_indexed and times is not None and fits_time_index(place.log, hole.base, times)
    if hole.base != place.base:
        return False
    if hole.until is not None and fits_snapshot(place.log, hole.base, _snapshot(hole.directory, hole.until)):
        return True
    is_whole_without = before is not None and not before.is_cleaned and place.until in {None, before.end}
    return is_whole_without and place.has_entries and hole.takes(place)


def _chains(targets: Mapping[_Place, _Place]) -> Iterator[list[_Place]]:
    """Yield chains of places in which the .log file of each place belongs to the next one. A chain is a cycle, or ends
    at a place without a .log file."""
    starts = [place for place in targets if place not in targets.values()] + list(targets)
    visited: set[_Place] = set()
    for start in starts:
        chain = [start]
        while (target := targets.get(chain[-1])) is not None and target not in chain:
            chain.append(target)
        if visited.isdisjoint(chain) and (target is chain[0] or FileKind.LOG not in chain[-1].files):
            yield chain
        visited.update(chain)


def _move(found: MisplacedLogs, chain: Sequence[_Place], targets: Mapping[_Place, _Place]) -> None:
    """Add the finding of a chain of .log files that have changed places, and set the segment that belongs to each place
    of the chain."""
    pairs: list[tuple[Path, Path]] = []
    for place in (each for each in chain if each in targets):
        target = targets[place]
        indexes_fit = not place.is_known_by_keys and place.indexes(place.log, target.base)
        kinds = [kind for kind in KINDS if kind in place.files and (indexes_fit or kind is FileKind.LOG)]
        files = {kind: target.files[kind] for kind in INDEX_KINDS if kind in target.files and not indexes_fit}
        files |= {kind: place.files[kind] for kind in kinds}
        found.put(target, SegmentFiles(target.base, files))
        pairs += [(place.files[kind], target.directory / f"{target.base:020}{kind}") for kind in kinds]
    is_cycle = chain[-1] in targets
    if not is_cycle:
        found.put(chain[0], None)
    sources = {source for source, _ in pairs}
    pairs = [(source, target) for source, target in pairs if target in sources or not target.exists()]
    aside = [(source, source.with_name(f"{source.name}.moved")) for source, _ in pairs]
    back = [(away, target) for (_, away), (_, target) in zip(aside, pairs, strict=True)]
    first, second = chain[0], chain[1]
    loss = "what is damaged in them is lost" if any(place.is_damaged for place in chain) else "nothing is lost"
    assert first.header is not None, "its offsets say where it belongs"
    found_text = f"offsets {first.header.first:,}..{first.end - 1:,}, which are the batches of {second.name}"
    if not is_cycle:
        found.moved.setdefault(first.directory.name, {})[first.log.name] = f"its batches are those of {second.name}"
        for place in (each for each in chain if each in targets):
            target = targets[place]
            found.found.setdefault(target.directory.name, {})[log_name(target.base)] = place.log
    if len(chain) == 2 and is_cycle:
        found_text += f": the two files have each other's place, and {loss}"
        action = "stop the broker, and give the files each other's place"
    elif is_cycle:
        found_text += f": it has changed places with {', '.join(each.name for each in chain[1:])}, and {loss}"
        action = "stop the broker, and give the files their places"
    else:
        is_over = first.has_entries and not first.indexes(first.log, first.base)
        why = f", over {first.directory.name}'s own log" if is_over else f", and {loss}"
        found_text += f", where no log is: it was moved{why}"
        action = "stop the broker, and put the file where it belongs"
    finding = _foreign(first, found_text, action, next_steps.move([*aside, *back] if is_cycle else pairs))
    found.add(finding, {each.directory.name for each in chain})


def _twin(place: _Place, partitions: Sequence[Sequence[_Place]], least: int = 0) -> _Place | None:
    """Return a place of another partition whose .log file fits it and has the sound batches of the .log file of
    `place`; None if there is none. least: the minimum number of different timestamps in these batches."""
    for other in (each for places in partitions for each in places):
        is_other = FileKind.LOG in other.files and not other.is_odd and _are_apart(other, place)
        is_like = place.is_damaged or place.header in (None, other.header)
        if is_other and is_like and _has_batches_of(other.log, place.log, least):
            return other
    return None


def _has_batches_of(log: Path, copy: Path, least: int) -> bool:
    """Whether a .log file has the size of another one, and all of its sound batches at the same bytes; False if that
    one has none, or if a file cannot be read. least: the minimum number of different timestamps in those batches that
    have records and are no control batches: what transactions and the cleaner write may be equal in two partitions."""
    timestamps: set[int] = set()
    is_same = False
    try:
        if log.stat().st_size != copy.stat().st_size:
            return False
        with closing(FileSource(copy)) as source:
            for row in sound_batches(source):
                mine, other = (bytes_at(each, row.position, row.size) for each in (log, copy))
                if mine != other:
                    return False
                is_same = True
                if row.count and not row.is_control and len(timestamps) < least:
                    timestamps.add(row.max_timestamp)
    except (OSError, UnreadableInput):
        return False
    return is_same and len(timestamps) >= least


def _is_same(log: Path, other: Path) -> bool:
    """Whether two files are equal."""
    try:
        return log.stat().st_size == other.stat().st_size and ends_with(log, 0, other)
    except (OSError, UnreadableInput):
        return False


def _snapshot(directory: Path, offset: int) -> Path:
    return directory / build(FileName(FileKind.PRODUCER_SNAPSHOT, offset))


def _set_aside(found: MisplacedLogs, place: _Place, twin: _Place) -> None:
    """Add the finding of a copied .log file. Its command moves the file away with the index and snapshot files that
    were copied with it. Indexes of the partition's own .log file stay: they are evidence of that file."""
    indexes_fit = place.indexes(place.log, twin.base)
    files = [place.files[kind] for kind in KINDS if kind in place.files and (indexes_fit or kind is FileKind.LOG)]
    left = {kind: path for kind, path in place.files.items() if path not in files and place.has_entries}
    found.put(place, SegmentFiles(place.base, left) if left else None)
    snapshot, other = (_snapshot(each.directory, each.base) for each in (place, twin))
    if snapshot.is_file() and other.is_file() and _is_same(snapshot, other):
        files.append(snapshot)
    found_text = f"a copy of {twin.name}, another partition's log"
    found.copies.setdefault(place.directory.name, {}).update((path.name, found_text) for path in files)
    command = next_steps.move([(path, path.with_name(f"{path.name}.copy")) for path in files])
    action = "stop the broker, and move the copy away"
    found.add(_foreign(place, found_text, action, command), {place.directory.name})


def _foreign(place: _Place, found: str, action: str, command: str) -> Finding:
    return Finding(
        path=str(place.log),
        kind="log-foreign",
        severity="error",
        position=0,
        offset=None if place.header is None else place.header.first,
        expected=f"the batches of {place.directory.name} from offset {place.base:,} on",
        found=found,
        action=action,
        command=command,
    )
