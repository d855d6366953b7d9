"""The checks of a tier: the metadata log, each segment with its objects, and the offsets that no segment has.

    objects    each kind that a segment must have is there; the .log object has the size that the metadata says
    batches    all checks of `kcli verify` for one segment, its indexes, and the producers at its end
    metadata   start, end and leader epochs of the segment are those of its batches, and of leader_epoch_checkpoint
    lineage    from the first offset in the tier to the local log, or to the tier's last offset, none is missing

A contradiction between metadata and .log object is the cause of whatever else is wrong in the segment's objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from formats.checkpoint import EpochEntry, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind
from formats.kernels.columns import LAST_OFFSET
from kcli.errors import KcliError, UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.causes import Causes
from kcli.inspector.verify.findings import Finding, Severity, offsets_text
from kcli.inspector.verify.partition import LogVerifier
from kcli.inspector.verify.segment_names import SegmentFiles, read_header
from kcli.inspector.verify.tier_objects import of_object
from kcli.inspector.verify.unread_file import unread_file
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource
from kcli.tier.chunks import Beginning
from kcli.tier.layout import KINDS, SegmentObjects, directory_name
from kcli.tier.lineage import is_within
from kcli.tier.metadata_log import Trouble
from kcli.tier.segment import RemoteSegment, SegmentState, TieredPartition
from kcli.tier.store import DamagedObject, NewerObject, StoreFailed
from kcli.tier.stored_segment import CHECKPOINT_BYTES_MAX, read_object
from kcli.tier.tier import PartitionTier, Tier

SEGMENT_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
NO_OBJECTS = "none of its objects"
TROUBLES_MAX = 1_000
"""The largest number of damaged or unknown records of which each makes a finding."""
DROPPED = ("refused", "implausible")
"""The kinds of records that can be read, and have no effect."""
_TROUBLES: dict[str, tuple[str, Severity, str, str]] = {
    "unreadable": (
        "tier-metadata-damaged",
        "error",
        "a record that can be read",
        "a broker goes on without these records, or stops reading: read another replica of the metadata log",
    ),
    "unknown": (
        "tier-metadata-version",
        "error",
        "a record of Kafka 4.3",
        "a newer Kafka wrote it: what it says of a segment is not known here",
    ),
    "refused": (
        "tier-metadata-state",
        "warning",
        "a record that agrees with those before it",
        "brokers drop the record, as kcli does",
    ),
    "implausible": (
        "tier-metadata-implausible",
        "warning",
        "a record as brokers write them",
        "kcli drops the record, but Kafka's brokers act on it: find out who may write to __remote_log_metadata",
    ),
}


class TierVerification:
    """A verification of a tier. advance: called with the number of bytes read.

    Attributes that `findings` sets: files, bytes: the number and size of the objects that were checked. unreadable: the
    objects that could not be read. unclean, unknown: always 0, as they count log directories.
    """

    def __init__(self, tier: Tier, advance: Callable[[int], None] = lambda _: None) -> None:
        self._tier = tier
        self._advance = advance
        self.files = 0
        self.bytes = 0
        self.unclean = 0
        self.unknown = 0
        self.is_partial = False
        self.unreadable: list[UnreadableInput] = []
        self._commands: dict[TieredPartition, str | None] = {}
        self._told: set[str] = set()

    def findings(self) -> Iterator[Finding]:
        """Yield all findings: those of the metadata log, then partition by partition; causes first."""
        for error in self._tier.all_unread():
            yield from self._unread(error)
        yield from metadata_causes(self._tier).settle(self._findings())

    def _findings(self) -> Iterator[Finding]:
        if self._tier.log is not None:
            yield from (of_metadata(each) for each in self._tier.log.troubles if each.kind in DROPPED)
        for each in self._tier.partitions:
            yield from self._partition(each)

    def _partition(self, each: PartitionTier) -> Iterator[Finding]:
        is_left_behind = self._tier.log is not None and self._tier.log.is_left_behind(each.partition)
        if self._tier.log is not None and not each.has_metadata and not self._tier.log.unread:
            yield self._unknown(each)
        for segment in each.cache.segments():
            # A deleted topic's segment without objects is no finding: a command of kcli tier orphans has removed the
            # objects.
            if not (is_left_behind and not self._tier.objects(segment).sizes):
                yield from self._segment(each, segment)
        causes = Causes()
        for objects in each.lost:
            causes.add(self._without_log(each, objects), partial(_begins_at, objects.start_offset))
        is_deleted = self._tier.log is not None and each.partition in self._tier.log.metadata.deleting
        is_hidden = bool(self._tier.unread or each.unread)  # what could not be read may have these offsets
        yield from causes.settle([] if is_deleted or is_hidden else self._gaps(each))

    def _unread(self, error: UnreadableInput) -> Iterator[Finding]:
        """Add an error to `unreadable`. Yield the finding of a file or object that the system does not let kcli read:
        `kcli.cli.verify` writes a line about any other error."""
        if str(error) not in self._told:
            self._told.add(str(error))
            self.unreadable.append(error)
            yield from of_unread(self._tier, error)

    def _segment(self, each: PartitionTier, segment: RemoteSegment) -> Iterator[Finding]:
        objects = self._tier.objects(segment)
        if segment.state not in (None, SegmentState.COPY_SEGMENT_FINISHED):
            yield self._unfinished(segment, objects)
            return
        self.files += len(objects.sizes)
        self.bytes += sum(objects.sizes.values())
        if objects.told is not None and objects.told.damage is not None:
            yield self._without_manifest(each, objects.told.damage, (segment.start_offset, segment.end_offset))
            return
        causes = Causes()
        missing = objects.missing(has_txn_index=False)  # older releases do not store whether there is a .txnindex
        if missing:
            paths = {self._path(objects, kind) for kind in missing}
            causes.add(self._missing(each, segment, objects, missing), lambda other: other.path in paths)
        found: list[Finding] = []
        if objects.told is not None and objects.told.surplus:
            found.append(self._surplus(segment, objects, objects.told.surplus))
        if FileKind.LOG not in missing:
            try:
                found += self._batches(each, segment, objects)
            except StoreFailed:
                raise
            except UnreadableInput as error:
                found += self._unread(error)
            except KcliError as error:
                found += self._unread(self._unreadable(objects, FileKind.LOG, error))
        found += self._epochs_object(each, segment, objects)
        if each.lineage and not is_within(segment, each.lineage):
            found.append(self._outside(segment, objects))
        yield from causes.settle(found)

    # the objects of a segment

    def _path(self, objects: SegmentObjects, kind: FileKind) -> str:
        return self._tier.store.place(objects.name(kind))

    def _unreadable(self, objects: SegmentObjects, kind: FileKind, error: KcliError) -> UnreadableInput:
        """Return `error`, about an object of a segment, as an UnreadableInput with the object's path. The path is
        removed from the beginning of the error's text, which has it if the object is gone."""
        path = self._path(objects, kind)
        return UnreadableInput(path, str(error).removeprefix(f"{path}: "))

    def _address(self, objects: SegmentObjects, kind: FileKind) -> str:
        """Return the path or URL that a file of a segment has, or would have in the layout of LocalTieredStorage."""
        return f"{self._tier.store.address}/{objects.name(kind)}"

    def _placed(self, finding: Finding, each: PartitionTier, objects: SegmentObjects) -> Finding:
        """Return a finding about a file of a segment, changed to be about the object that has the file's bytes. In the
        layout of Aiven's plugin, a position in the file is not one in the object: the text `found` then names the
        position."""
        kinds = {self._address(objects, kind): kind for kind in KINDS}
        if not self._tier.store.is_plugin or finding.path not in kinds:
            return finding
        kind = kinds[finding.path]
        byte = "" if finding.position is None else f"byte {finding.position:,} of the "
        what = "segment" if kind is FileKind.LOG else f"{kind}"
        found = f"{byte}{what}{'' if finding.found is None else f': {finding.found}'}"
        path = self._path(objects, kind)
        return replace(
            finding, path=path, position=None, next_valid_position=None, found=found, command=self._fetch(each)
        )

    def _batches(self, each: PartitionTier, segment: RemoteSegment, objects: SegmentObjects) -> Iterator[Finding]:
        kinds = [kind for kind in (*SEGMENT_KINDS, FileKind.PRODUCER_SNAPSHOT) if kind in objects.sizes]
        damaged: dict[FileKind, DamagedObject] = {}
        with ExitStack() as copies:
            files = {}
            for kind in kinds:
                try:
                    files[kind] = copies.enter_context(self._tier.store.as_file(objects.name(kind)))
                except DamagedObject as error:
                    damaged[kind] = error
                    yield self._damaged(each, segment, objects, kind, error)
            if FileKind.LOG in damaged:
                return
            addresses = {str(path): self._address(objects, kind) for kind, path in files.items()}
            for kind in SEGMENT_KINDS:  # also the addresses of missing indexes, as findings name them
                addresses.setdefault(str(files[FileKind.LOG].with_suffix(kind)), self._address(objects, kind))
            snapshot = files.pop(FileKind.PRODUCER_SNAPSHOT, None)
            snapshots = [] if snapshot is None else [(segment.end_offset + 1, snapshot)]
            verifier = LogVerifier([SegmentFiles(segment.start_offset, files)], snapshots, self._advance)
            found = [of_object(_at(finding, addresses)) for finding in verifier.findings()]
            hidden = {self._address(objects, kind) for kind in damaged}
            found = [self._placed(finding, each, objects) for finding in found if finding.path not in hidden]
            for each_error in verifier.unreadable:
                place = addresses.get(each_error.path, each_error.path)
                found += self._unread(UnreadableInput(place, each_error.reason, each_error.errno))
            first, last = _ends(files[FileKind.LOG], verifier)
        has_errors = any(finding.severity == "error" for finding in found)
        cause = self._contradiction(each, segment, objects, (first, last), has_errors=has_errors)
        if cause is None and not has_errors:
            found += self._wrong_epochs(segment, objects, verifier.epochs)
        causes = Causes()
        if cause is not None:
            causes.add(cause, lambda _: True)
        yield from causes.settle(found)

    def _contradiction(
        self,
        each: PartitionTier,
        segment: RemoteSegment,
        objects: SegmentObjects,
        offsets: tuple[int | None, int | None],
        *,
        has_errors: bool,
    ) -> Finding | None:
        """Return the finding that the .log object differs in size or offsets from what the metadata says; None if it
        does not. offsets: the first and the last offset in the object; None if it has no sound batch. has_errors:
        whether the checks of the batches explain wrong offsets."""
        size, said = objects.sizes[FileKind.LOG], (segment.start_offset, segment.end_offset)
        first, last = offsets
        if size == segment.size and offsets == said:
            return None
        other = None if first is None or last is None else self._copied.get((size, first, last))
        if size == segment.size and other is None and has_errors:
            return None
        if other is not None:
            found = f"the batches of segment {other.id} of {other.partition}, {_range(first, last)}"
            kind = "tier-segment-foreign"
        elif size < segment.size and first in (None, segment.start_offset):
            found = f"{size:,} bytes of {segment.size:,}: the end is cut off"
            kind = "tier-segment-cut"
        else:
            found = f"{size:,} bytes with {_range(first, last)}"
            kind = "tier-segment-other"
        lost = said
        if kind == "tier-segment-cut" and last is not None:
            lost = min(last + 1, said[1]), said[1]
        return self._of_segment(
            each,
            segment,
            self._path(objects, FileKind.LOG),
            kind,
            f"{segment.size:,} bytes with {_range(*said)}, as the metadata says",
            f"{found}; {offsets_text(*lost)} lost",
            lost,
        )

    @cached_property
    def _copied(self) -> dict[tuple[int, int, int], RemoteSegment]:
        """The copied segments by size, start and end offset."""
        segments = (segment for each in self._tier.partitions for segment in each.copied())
        return {(each.size, each.start_offset, each.end_offset): each for each in segments}

    def _missing(
        self, each: PartitionTier, segment: RemoteSegment, objects: SegmentObjects, missing: list[FileKind]
    ) -> Finding:
        is_log = FileKind.LOG in missing
        found = f"no {', '.join(missing)}" if objects.sizes else NO_OBJECTS
        odds = {kind: odd for kind in missing if (odd := self._tier.inventory.in_place_of(objects.name(kind)))}
        found += "".join(f"; {kind} is {odd}" for kind, odd in odds.items())
        lost = (segment.start_offset, segment.end_offset) if is_log else None
        if lost:
            found += f"; {offsets_text(*lost)} lost"
        expected = "all objects" if segment.state is None else f"all objects, as the state is {segment.state.name}"
        path = self._path(objects, missing[0])
        finding = self._of_segment(each, segment, path, "tier-object-missing", expected, found, lost)
        return self._look_at(finding, self._path(objects, next(iter(odds)))) if odds else finding

    @staticmethod
    def _look_at(finding: Finding, path: str) -> Finding:
        """Return the finding of a missing object with a next step for what the store has in place of it."""
        action = "see what it is: an object is a regular file, and a link is not followed"
        return replace(finding, action=action, command=next_steps.list_file(path))

    def _of_segment(
        self,
        each: PartitionTier,
        segment: RemoteSegment,
        path: str,
        kind: str,
        expected: str,
        found: str,
        lost: tuple[int, int] | None,
    ) -> Finding:
        """Return the finding about a missing or faulty object of a segment. each: the partition of the segment. lost:
        the first and the last offset that the fault loses; None if it loses none."""
        local = each.local_part(segment)
        if lost is None:
            action = "brokers fail where they need the object; kcli tier fetch makes an index that is missing"
        elif local == "yes":
            action = f"the local log has these offsets: {each.local.directory if each.local else ''}"
        else:
            action = "look for these offsets in other replicas' local logs, and in copies of the tier"
        return Finding(
            path=path,
            kind=kind,
            severity="error",
            offset=segment.start_offset,
            expected=expected,
            found=found,
            lost_first_offset=lost[0] if lost else None,
            lost_last_offset=lost[1] if lost else None,
            action=action,
            command=self._fetch(each),
        )

    def _fetch(self, each: PartitionTier) -> str | None:
        """Return the command that fetches a partition; None if neither the tier nor a local log has any of it."""
        whose = each.partition
        if whose not in self._commands:
            self._commands[whose] = self._fetch_command(each)
        return self._commands[whose]

    def _fetch_command(self, each: PartitionTier) -> str | None:
        whose = each.partition
        if each.local is None and not any(self._tier.objects(part.segment).sizes for part in each.plan().parts):
            return None
        store = self._tier.store
        return next_steps.fetch_from_tier(
            self._tier.log_directory, store.address, whose.topic, whose.partition, store.options
        )

    def _wrong_epochs(
        self, segment: RemoteSegment, objects: SegmentObjects, epochs: list[tuple[int, int]]
    ) -> Iterator[Finding]:
        """Yield a finding if the leader epoch of a batch is not the one that the metadata has at its offset. Batches
        below the first leader epoch in the metadata are not compared: it begins at the log start offset at the time of
        the copy, which may lie within the segment."""
        begin = segment.leader_epochs[0].start_offset if segment.leader_epochs else 0
        below = [epoch for epoch, offset in epochs if offset <= begin][-1:]
        for epoch, offset in [*((each, begin) for each in below), *(each for each in epochs if each[1] > begin)]:
            said = max((each.epoch for each in segment.leader_epochs if each.start_offset <= offset), default=None)
            if epoch >= 0 and segment.leader_epochs and said != epoch:
                path = self._path(objects, FileKind.LOG)
                yield Finding(
                    path=path,
                    kind="tier-segment-epochs",
                    severity="error",
                    offset=offset,
                    expected=f"leader epoch {'none' if said is None else f'{said:,}'}, as the metadata says",
                    found=f"leader epoch {epoch:,}",
                    action="brokers look for offsets by leader epoch, and may not find these",
                    command=None if self._tier.store.is_plugin else next_steps.dump(path, offset),
                )
                return

    def _epochs_object(self, each: PartitionTier, segment: RemoteSegment, objects: SegmentObjects) -> Iterator[Finding]:
        """Yield a finding if leader_epoch_checkpoint cannot be read, or does not have the segment's leader epochs."""
        kind = FileKind.REMOTE_LEADER_EPOCHS
        if kind not in objects.sizes:
            return
        try:
            entries = parse_leader_epochs(read_object(self._tier.store, objects.name(kind), CHECKPOINT_BYTES_MAX))
            own = LeaderEpochCache(entries)
        except (FormatError, ValueError) as error:
            reason = error.reason if isinstance(error, FormatError) else str(error)
            yield self._wrong_epochs_object(each, objects, "leader epochs that can be read", reason)
            return
        except DamagedObject as error:
            yield self._damaged(each, segment, objects, kind, error)
            return
        except StoreFailed:
            raise
        except UnreadableInput as error:
            yield from self._unread(error)
            return
        except KcliError as error:
            yield from self._unread(self._unreadable(objects, kind, error))
            return
        own.truncate_from_start(segment.start_offset)
        own.truncate_from_end(segment.end_offset + 1)
        if segment.leader_epochs and own.entries != segment.leader_epochs:
            expected, found = _epochs_text(segment.leader_epochs), _epochs_text(own.entries)
            source = "the batches have" if segment.state is None else "the metadata says"
            yield self._wrong_epochs_object(each, objects, f"{expected}, as {source}", found)

    def _wrong_epochs_object(self, each: PartitionTier, objects: SegmentObjects, expected: str, found: str) -> Finding:
        path = self._address(objects, FileKind.REMOTE_LEADER_EPOCHS)
        finding = Finding(
            path=path,
            kind="tier-epochs",
            severity="error",
            expected=expected,
            found=found,
            action="",
        )
        return self._placed(of_object(finding), each, objects)

    # objects of Aiven's plugin

    def _damaged(
        self, each: PartitionTier, segment: RemoteSegment, objects: SegmentObjects, kind: FileKind, error: DamagedObject
    ) -> Finding:
        """Return the finding of an object that is cut off, or does not decompress or decrypt. kind: the file of the
        segment whose bytes it has."""
        lost = None
        found = error.fault
        if kind is FileKind.LOG:
            lost = self._first_lost(segment, objects, error.sound), segment.end_offset
            found += f"; {offsets_text(*lost)} lost, or some of them"
        expected = "bytes of the segment, as the manifest says"
        finding = self._of_segment(each, segment, error.path, "tier-object-damaged", expected, found, lost)
        return replace(finding, position=error.position)

    def _surplus(self, segment: RemoteSegment, objects: SegmentObjects, surplus: int) -> Finding:
        return Finding(
            path=self._path(objects, FileKind.LOG),
            kind="tier-object-damaged",
            severity="warning",
            offset=segment.start_offset,
            expected="the end of the object, as the manifest says",
            found=f"{surplus:,} bytes behind the last chunk",
            action="nothing reads them: see what has written to the object",
        )

    def _first_lost(self, segment: RemoteSegment, objects: SegmentObjects, sound: int) -> int:
        """Return the first offset of a segment that is not in a whole batch before the damage of its .log object.
        sound: the number of the segment's bytes before the damage."""
        first = segment.start_offset
        if not sound:
            return first
        with suppress(KcliError), closing(self._tier.store.open(objects.name(FileKind.LOG))) as source:
            for part in read_segment(Beginning(source, sound), check_crc=False, resync=False):
                if not isinstance(part, Window):
                    break
                first = part.batches.field(part.batches.count - 1, LAST_OFFSET) + 1
                part.release()
        return min(max(first, segment.start_offset), segment.end_offset)

    def _without_manifest(self, each: PartitionTier, error: DamagedObject, offsets: tuple[int, int | None]) -> Finding:
        """Return the finding of a segment whose manifest cannot be read. offsets: the first and the last offset of the
        segment; the last is None if it is not known."""
        is_newer = isinstance(error, NewerObject)
        found = error.fault if is_newer else f"{error.fault}; {offsets_text(*offsets)} lost"
        action = "brokers need the manifest for each read: look for these offsets in other replicas' local logs"
        return Finding(
            path=error.path,
            kind="tier-manifest-version" if is_newer else "tier-manifest",
            severity="error",
            position=error.position,
            offset=offsets[0],
            expected="a manifest that says where the segment's bytes are",
            found=found,
            lost_first_offset=None if is_newer else offsets[0],
            lost_last_offset=None if is_newer else offsets[1],
            action="nothing is known to be lost: a newer kcli may read it" if is_newer else action,
            command=None if is_newer else self._fetch(each),
        )

    # findings about a segment or a partition as a whole

    def _unfinished(self, segment: RemoteSegment, objects: SegmentObjects) -> Finding:
        assert segment.state is not None, "a segment that metadata describes"
        is_copy = segment.state is SegmentState.COPY_SEGMENT_STARTED
        return Finding(
            path=self._path(objects, FileKind.LOG),
            kind="tier-copy-unfinished" if is_copy else "tier-delete-unfinished",
            severity="info",
            offset=segment.start_offset,
            found=f"{segment.state.name}, {len(objects.sizes):,} objects: no read uses it",
            action="a broker is at it, or was when it stopped; brokers go on with deletions",
        )

    def _outside(self, segment: RemoteSegment, objects: SegmentObjects) -> Finding:
        return Finding(
            path=self._path(objects, FileKind.LOG),
            kind="tier-lineage",
            severity="info",
            offset=segment.start_offset,
            expected="leader epochs and offsets as in the lineage",
            found=f"{_epochs_text(segment.leader_epochs)} to {segment.end_offset:,}",
            action="nothing to do: its records were truncated by a later leader, or are expired; no read uses them",
        )

    def _unknown(self, each: PartitionTier) -> Finding:
        return Finding(
            path=self._tier.store.place(directory_name(each.partition)),
            kind="tier-metadata-elsewhere",
            severity="info",
            found="the log directory has no record of this partition: it is read from the store alone",
            action="give the log directory of a broker with a replica of the metadata log's partition",
        )

    def _without_log(self, each: PartitionTier, objects: SegmentObjects) -> Finding:
        """Return the finding of objects that no metadata describes, and whose offsets no batch shows."""
        if objects.told is not None and objects.told.damage is not None:
            return self._without_manifest(each, objects.told.damage, (objects.start_offset, None))
        size = objects.sizes.get(FileKind.LOG)
        odd = self._tier.inventory.in_place_of(objects.name(FileKind.LOG))
        nothing = f"no {FileKind.LOG}" if odd is None else f"no {FileKind.LOG}; {FileKind.LOG} is {odd}"
        path = self._path(objects, FileKind.LOG)
        finding = Finding(
            path=path,
            kind="tier-object-missing",
            severity="error",
            offset=objects.start_offset,
            expected="batches, which tell what the segment has",
            found=nothing if size is None else f"{size:,} bytes without a sound batch",
            action="look for these offsets in other replicas' local logs, and in copies of the tier",
            command=self._fetch(each),
        )
        return finding if odd is None else self._look_at(finding, path)

    def _gaps(self, each: PartitionTier) -> Iterator[Finding]:
        for first, last in each.plan().gaps:
            yield Finding(
                path=self._tier.store.place(directory_name(each.partition)),
                kind="tier-gap",
                severity="error",
                offset=first,
                expected="a segment with the leader epoch that the log has there",
                found=f"{offsets_text(first, last)} in no copied segment",
                lost_first_offset=first,
                lost_last_offset=last,
                action="consumers get OFFSET_OUT_OF_RANGE there; look for these offsets in other replicas' local logs",
                command=self._fetch(each),
            )


def _begins_at(offset: int, finding: Finding) -> bool:
    return finding.kind == "tier-gap" and finding.lost_first_offset == offset


def metadata_causes(tier: Tier) -> Causes:
    """Return the findings about metadata records that are lost or not understood. Each is a cause: it takes the
    findings that these records may explain as its consequences."""
    causes = Causes()
    troubles = [] if tier.log is None else [each for each in tier.log.troubles if each.kind not in DROPPED]
    for trouble in troubles[:TROUBLES_MAX]:
        causes.add(of_metadata(trouble), _may_follow, is_of_many=True)
    return causes


def of_unread(tier: Tier, error: UnreadableInput) -> Iterator[Finding]:
    """Yield the finding of an object, or of a file in the log directory, if the system does not let kcli read it: for
    lack of a permission, or because the disk fails."""
    if not (error.is_denied or error.is_disk_error):
        return
    finding = unread_file(error)
    if Path(error.path).is_relative_to(tier.store.address):
        finding = replace(finding, expected="an object that can be read", found=error.reason)
        if error.is_disk_error:
            finding = replace(
                finding, action="the disk fails: copy the tier to another one before all else", command=None
            )
    yield finding


def _may_follow(finding: Finding) -> bool:
    """Whether lost records may explain the finding: those of a copied segment, or of its deletion."""
    is_gone = finding.kind == "tier-no-objects" or f"{finding.found}".startswith(NO_OBJECTS)
    return is_gone or finding.kind in ("tier-gap", "tier-metadata-state")


def of_metadata(trouble: Trouble) -> Finding:
    """Return the finding of a record or a range of bytes in the metadata log."""
    kind, severity, expected, action = _TROUBLES[trouble.kind]
    is_file = trouble.path.suffix == FileKind.LOG
    return Finding(
        path=str(trouble.path),
        kind=kind,
        severity=severity,
        offset=trouble.offset,
        expected=expected,
        found=trouble.reason,
        action=action,
        command=next_steps.dump(trouble.path, trouble.offset) if is_file else next_steps.verify(trouble.path),
    )


def _at(finding: Finding, addresses: Mapping[str, str]) -> Finding:
    """Return the finding with the address of the object in place of the path of the local file. addresses: the object's
    address by the path of the file that was checked."""
    address = addresses.get(finding.path, finding.path)
    return finding if address == finding.path else replace(finding, path=address, command=None)


def _ends(log: Path, verifier: LogVerifier) -> tuple[int | None, int | None]:
    """Return the first and the last offset of a .log object; None for both if the object does not begin with a sound
    batch."""
    source = FileSource(log)
    try:
        header = read_header(source, 0)
    finally:
        source.close()
    if header is None or verifier.bounds is None or verifier.bounds.end <= header.first:
        return None, None
    return header.first, verifier.bounds.end - 1


def _range(first: int | None, last: int | None) -> str:
    return "no sound batch" if first is None or last is None else f"offsets {first:,}..{last:,}"


def _epochs_text(entries: tuple[EpochEntry, ...]) -> str:
    if not entries:
        return "no leader epoch"
    shown = ", ".join(f"{each.epoch:,} from {each.start_offset:,}" for each in entries[:5])
    return f"leader epochs {shown}{f' and {len(entries) - 5:,} more' if len(entries) > 5 else ''}"
