"""Partitions with segments in tiered storage: the tier's segments, then the local ones, each offset from one of them.

    option tier, no path        all topics of the tier, without the segments that were never copied to it
    tier and log directories    the partitions in them, completed from the tier; and partitions that only the tier has,
                                if the `__remote_log_metadata` of a log directory names their segments
    tier and partitions' directories     these partitions; the metadata is that in the log directories above them

`kcli.tier.lineage` decides which segment of the tier has an offset, by the leader epochs of the local log, or of the
last segment's checkpoint. Local segments are listed before the tier is read: a broker deletes a segment only after its
copy, so each offset is in one of the two. `Missing` has the offsets that should be in the tier and are not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from formats.file_name import FileKind, parse
from kcli.errors import UnreadableInput, UsageError
from kcli.export import discovery
from kcli.export.discovery import Missing, PartitionFiles, Remote, SegmentFile
from kcli.export.files import FILE_SCHEME, TIER, absolute, is_remote, join, name_of, parent_of, stat, tier_store
from kcli.export.offsets import MAX_OFFSET
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.address import parse_address
from kcli.tier.layout import directory_name
from kcli.tier.lineage import Part, Plan
from kcli.tier.metadata import TOPIC
from kcli.tier.segment import TieredPartition
from kcli.tier.tier import PartitionTier, Tier
from kcli.tier.unread import unread

if TYPE_CHECKING:
    from kcli.export.options import SourceOptions

log = logging.getLogger("kcli.export")
INDEXES = frozenset((FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX))


def discover(options: SourceOptions) -> list[PartitionFiles]:
    """Return the partitions at the paths of a query, and those of its tier, sorted by topic and partition; one
    partition can have several replicas.

    Raises UsageError for a path that cannot be read together with a tier, NotInstalled; UnreadableInput for a path or a
    tier that cannot be read, and for a topic's name that two topics in the tier have.
    """
    if options.tier is None:
        return discovery.discover(options.paths)
    for path in options.paths:
        _check(path)
    found = discovery.discover(options.paths)
    filtered = options.narrowed.topics if options.start.option is options.end.option is None else None
    names = {*(options.subscribe or options.assign or filtered or ())}
    topic = names.pop() if len(names) == 1 else None
    homes: list[str | None] = [*sorted({parent_of(each.directory) for each in found})] or [None]
    with_metadata = {parent_of(each.directory) for each in found if each.topic == TOPIC}
    joined: list[PartitionFiles] = []
    alone: list[PartitionFiles] = []
    for home in homes:
        tier = _read(options.tier, home, topic)
        tiered = {str(each.local.directory): each for each in tier.partitions if each.local is not None}
        for files in found:
            if parent_of(files.directory) == home:
                each = tiered.get(files.directory)
                joined.append(files if each is None else _joined(files, tier, each, options.tier))
        if home is None or home in with_metadata:
            alone += _alone(tier, options)
    present = {TopicPartition(files.topic, files.partition) for files in joined}
    for files in alone:
        if TopicPartition(files.topic, files.partition) not in present:
            present.add(TopicPartition(files.topic, files.partition))
            joined.append(files)
    return sorted(joined, key=lambda files: (files.topic, files.partition, files.directory))


def refresh_with(remote: Remote) -> PartitionFiles:
    """Return the segments, snapshots and offsets of a partition in the tier, and in its local log, now. Raises
    UnreadableInput."""
    files = None if remote.directory is None else discovery.refresh(remote.directory)
    partition = TieredPartition(remote.topic, remote.partition, remote.topic_id)
    tier = _read(remote.store, remote.log_directory, remote.topic, partition)
    for each in tier.partitions:
        if each.partition == partition:
            return _joined(_empty(tier, each) if files is None else files, tier, each, remote.store)
    if files is None:
        raise UnreadableInput(remote.store, f"has no partition {directory_name(partition)}")
    return files


def segments_with(remote: Remote, offset: int) -> Iterator[SegmentFile]:
    """Yield the segment that has an offset, and each one after it, as they were when the tier was read for `remote`. If
    a broker has deleted a local one since, yield in place of it and of those after it the segments that now have their
    offsets. Raises UnreadableInput."""
    for number, (segment, _) in enumerate(_listed(remote).following(offset)):
        if number and not is_remote(segment.address) and stat(segment.address) is None:
            yield from (each for each, _ in refresh_with(remote).following(segment.begin))
            return
        yield segment


@lru_cache(maxsize=8)
def _listed(remote: Remote) -> PartitionFiles:
    return refresh_with(remote)


def _check(path: str) -> None:
    if is_remote(path):
        raise UsageError(f"{path}: a log directory that is read together with a tier must be on this machine")
    if (name := parse(name_of(path))) is not None and name.kind is FileKind.LOG:
        raise UsageError(f"{path}: a tier completes directories, not single segments")


def _read(store: str, log_directory: str | None, topic: str | None, only: TieredPartition | None = None) -> Tier:
    tier = Tier.read(tier_store(store), None if log_directory is None else Path(log_directory), topic, only)
    tier.check_read(())
    troubles = [] if tier.log is None else [each for each in tier.log.troubles if each.kind != "refused"]
    if troubles:
        log.warning("%s: %s; kcli tier verify tells more", troubles[0].path, troubles[0].reason)
    return tier


def _alone(tier: Tier, options: SourceOptions) -> Iterator[PartitionFiles]:
    """Yield the partitions that only the tier has. If a metadata log is read, partitions that it does not name are left
    out: they may be remains of deleted topics."""
    assert options.tier is not None, "a tier is read"
    ids: dict[str, str] = {}
    for each in tier.partitions:
        topic, partition, topic_id = each.partition
        is_known = each.local is None and (each.has_metadata or tier.log is None)
        if not is_known or not (each.copied() or each.unread) or not options.wants(topic, partition):
            continue
        if ids.setdefault(topic, topic_id) != topic_id:
            reason = f"two topics of the tier have this name, with the ids {ids[topic]} and {topic_id}"
            raise UnreadableInput(topic, f"{reason}; kcli tier fetch --topic-id copies one of them")
        yield _joined(_empty(tier, each), tier, each, options.tier)


def _empty(tier: Tier, each: PartitionTier) -> PartitionFiles:
    """Return the files of a partition that has no local log: no segment yet, and its directory in the tier."""
    topic, partition, _ = each.partition
    return PartitionFiles(topic, partition, _address(tier, directory_name(each.partition)), ())


def _address(tier: Tier, name: str) -> str:
    """Return the address of an object, or of a partition's directory in the tier."""
    root = tier.store.address
    if isinstance(parse_address(root), str):
        if not tier.store.is_plugin:
            return join(root, name)
        root = FILE_SCHEME + quote(absolute(root))
    return join(TIER + root, name)


def _joined(files: PartitionFiles, tier: Tier, each: PartitionTier, store: str) -> PartitionFiles:
    """Return a partition's files with the segments of the tier that are before its local ones."""
    tier.check_read([each])
    first = files.segments[0].base_offset if files.segments else None
    plan = each.plan(first)
    if not plan.gaps and not each.copied():
        return files
    home = _address(tier, directory_name(each.partition))
    place = tier.store.place(directory_name(each.partition))
    missing = [Missing(*gap, place, f"no segment has the offsets {_range(*gap)}") for gap in plan.gaps]
    missing += _unread(tier, each, plan)
    segments: list[SegmentFile] = []
    snapshots: list[tuple[int, str]] = []
    for part in plan.parts:
        objects = tier.objects(part.segment)
        address = _address(tier, objects.name(FileKind.LOG))
        if FileKind.LOG not in objects.sizes:
            damage = None if objects.told is None else objects.told.damage
            where = tier.store.place(objects.name(FileKind.LOG)) if damage is None else damage.path
            reason = "no such object" if damage is None else damage.reason
            missing.append(
                Missing(part.first, part.last, where, f"{reason}, of the offsets {_range(part.first, part.last)}")
            )
            continue
        segments.append(_segment(part, address, objects.sizes))
        if FileKind.PRODUCER_SNAPSHOT in objects.sizes and part.last == part.segment.end_offset:
            snapshots.append((part.last + 1, _address(tier, objects.name(FileKind.PRODUCER_SNAPSHOT))))
    start = each.first_offset
    if start is None and plan.parts:
        start = plan.parts[0].first
    local = None if files.directory == home else files.directory
    log_directory = None if tier.log_directory is None else str(tier.log_directory)
    return replace(
        files,
        segments=(*segments, *files.segments),
        snapshots=tuple(sorted((*snapshots, *files.snapshots))),
        log_start_offset=_highest((start, files.log_start_offset)),
        remote=Remote(store, *each.partition, local, log_directory, time.time_ns()),
        missing=tuple(sorted(missing, key=lambda one: one.first)),
    )


def _unread(tier: Tier, each: PartitionTier, planned: Plan) -> Iterator[Missing]:
    """Yield the offsets that the tier has according to names, indexes and leader epochs, but that no readable segment
    has."""
    for one in unread(tier, each, planned):
        place, _, reason = one.reason.partition(": ")
        lost = f"from {one.first:,} on" if one.last is None else _range(one.first, one.last)
        last = MAX_OFFSET if one.last is None else one.last
        yield Missing(one.first, last, place, f"{reason}, of the offsets {lost}")


def _segment(part: Part, address: str, sizes: dict[FileKind, int]) -> SegmentFile:
    return SegmentFile(
        part.segment.start_offset,
        address,
        sizes[FileKind.LOG],
        INDEXES & sizes.keys(),
        part.first,
        part.last + 1,
        part.segment.max_timestamp_ms,
    )


def _range(first: int, last: int) -> str:
    return f"{first:,}..{last:,}"


def _highest(offsets: Iterable[int | None]) -> int | None:
    return max((each for each in offsets if each is not None), default=None)
