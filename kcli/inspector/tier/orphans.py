"""Objects that no metadata names, and metadata that names no objects.

A broker writes the record of a segment before it copies the first object, and the record DELETE_SEGMENT_FINISHED after
it has deleted the last one. So an object without a record was left behind: by a deletion that failed half-way, by a
broker of another cluster, or by a copy that somebody made. Objects are orphans for certain only if the whole metadata
log was read: without that, no command to remove them is given.

The segments of a deleted topic are orphans, too, if no record says that a broker deletes them: its leader was down when
the topic was deleted, or crashed at that moment. No command to remove these is given, either: they are all that is left
of a topic that somebody may have deleted by mistake; or the topic is new, and the cluster metadata at hand is too old
to have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from formats.file_name import FileKind
from kcli.errors import UnreadableInput, UsageError
from kcli.inspector.tier.verification import metadata_causes, of_unread
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, Severity
from kcli.tier.layout import SegmentObjects, directory_name
from kcli.tier.metadata_log import MetadataLog
from kcli.tier.segment import RemoteSegment, SegmentState, TieredPartition
from kcli.tier.tier import PartitionTier, Tier

KEEP = "the metadata log is damaged, and may have named them: keep them; kcli tier verify tells more"
GONE = "no broker deletes them: remove them if the topic was deleted on purpose"


class Orphans:
    """The orphans of a tier. It has the attributes of TierVerification. Raises UsageError if no partition of
    __remote_log_metadata is given."""

    def __init__(self, tier: Tier) -> None:
        if tier.log is None or not tier.log.directories:
            where = (
                "no LOG_DIR: without its" if tier.log_directory is None else f"{tier.log_directory}: no partition of"
            )
            join = "" if tier.log_directory is None else ", without which"
            raise UsageError(f"{where} __remote_log_metadata{join} nothing says what belongs to the tier")
        self._tier = tier
        self._log: MetadataLog = tier.log
        self.files = sum(len(each.sizes) for every in tier.inventory.partitions.values() for each in every.values())
        self.bytes = 0
        self.unclean = 0
        self.unknown = 0
        self.is_partial = False
        self.unreadable: list[UnreadableInput] = []

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each segment with objects that no metadata names, or whose topic is gone, and for each
        segment that lacks all objects. Findings about damage in the metadata log come first."""
        self.unreadable = self._tier.all_unread()
        for error in self.unreadable:
            yield from of_unread(self._tier, error)
        yield from metadata_causes(self._tier).settle(self._findings())

    def _findings(self) -> Iterator[Finding]:
        for each in self._tier.partitions:
            stored = self._tier.inventory.partitions.get(each.partition, {})
            self.bytes += sum(sum(objects.sizes.values()) for objects in stored.values())
            if not each.has_metadata:
                if stored and not self._log.unread:
                    yield self._unknown(each.partition, len(stored))
                continue
            for objects in stored.values():
                if (orphan := self._orphan(each, objects)) is not None:
                    yield orphan
            for segment in [] if self._log.is_left_behind(each.partition) else each.cache.segments():
                if not self._tier.objects(segment).sizes:
                    yield self._without_objects(segment)
        for odd in self._tier.inventory.others:
            yield self._odd(odd.name, odd.odd)

    def _path(self, name: str) -> str:
        return self._tier.store.place(name)

    def _orphan(self, each: PartitionTier, objects: SegmentObjects) -> Finding | None:
        segment = each.cache.segment(objects.id)
        is_named = segment is not None and segment.start_offset == objects.start_offset
        if is_named and not self._log.is_left_behind(each.partition):
            return None
        names = [self._path(name) for name in objects.names]
        size = sum(objects.sizes.values())
        count = f"{len(names):,} {'object' if len(names) == 1 else 'objects'} ({size:,} bytes)"
        is_certain = self._log.is_whole and not is_named
        keep = GONE if is_named else KEEP
        return Finding(
            path=names[0],
            kind="tier-orphan",
            severity="warning",
            offset=objects.start_offset,
            length=size,
            expected="a segment that the metadata names",
            found=f"{count} of {self._why(each, objects, segment)}",
            action="nothing refers to them" if is_certain else keep,
            command=next_steps.remove_all(names) if is_certain else None,
        )

    def _why(self, each: PartitionTier, objects: SegmentObjects, segment: RemoteSegment | None) -> str:
        if segment is not None and segment.start_offset == objects.start_offset:
            return f"segment {objects.id}, whose topic the cluster's metadata does not have"
        if segment is not None:
            return f"segment {objects.id}, which begins at {segment.start_offset:,} by the metadata"
        if each.partition in self._log.metadata.deleting:
            return f"a partition that is deleted ({self._log.metadata.deleting[each.partition].name})"
        return f"segment {objects.id}, which is deleted, or was never copied by this cluster"

    def _without_objects(self, segment: RemoteSegment) -> Finding:
        assert segment.state is not None, "a segment that metadata describes"
        is_copied = segment.state is SegmentState.COPY_SEGMENT_FINISHED
        severity: Severity = "error" if is_copied else "info"
        found = f"segment {segment.id} in state {segment.state.name}, offsets {segment.start_offset:,}.."
        action = "its records are lost: kcli tier verify tells what is" if is_copied else "brokers go on with it"
        store = self._tier.store
        command = next_steps.verify_tier(self._tier.log_directory, store.address, store.options)
        return Finding(
            path=self._path(self._tier.objects(segment).name(FileKind.LOG)),
            kind="tier-no-objects",
            severity=severity,
            offset=segment.start_offset,
            expected="objects",
            found=f"{found}{segment.end_offset:,}, without one",
            action=action,
            command=command if is_copied else None,
        )

    def _unknown(self, partition: TieredPartition, segments: int) -> Finding:
        return Finding(
            path=self._path(directory_name(partition)),
            kind="tier-metadata-elsewhere",
            severity="info",
            found=f"{segments:,} segments; the log directory has no record of this partition",
            action="give the log directory of a broker with a replica of the metadata log's partition",
        )

    def _odd(self, name: str, reason: str | None) -> Finding:
        return Finding(
            path=self._path(name),
            kind="tier-foreign-file",
            severity="warning",
            expected="an object of a segment",
            found=reason or "no name that LocalTieredStorage gives",
            action="nothing of Kafka's or kcli's reads it: see what it is",
            command=next_steps.list_file(self._path(name)),
        )
