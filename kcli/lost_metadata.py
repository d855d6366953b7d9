"""What a start makes of a damaged metadata log: what it no longer knows, and which partitions on disk become strays.

    signs      why records of the log are known to be lost: it is cut, empty or missing, or ends before an offset that
               something else names (its leader epochs, the broker's epoch in the clean-shutdown marker)
    image      what the log says after the start
    readable   what its files still say, also behind the damage
    strays     directories of partitions that the image does not give to this node: Kafka renames them to -stray

A topic that the log itself removes leaves ordinary strays: its directories were to go. Source: LogManager.loadLog and
isStrayReplica, ReplicaManager; KIP-966 (the broker's epoch in the marker).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind, parse
from formats.quorum_state import parse as parse_quorum_state
from kcli.errors import KcliError, UnreadableInput
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.log_directory import PartitionDirectory
from kcli.log.partition_directory import topic_id_of
from kcli.log.recovery import PartitionPlan
from kcli.log.recovery_view import ContentSource, StartRefused
from kcli.log.source import FileSource, Source
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid, to_uuid
from kcli.metadata_replay import BadRecord, latest_snapshot, offset_jump, replay, snapshot_records, snapshot_refusal

MARKER_BYTES = 1 << 10
"""More than the marker of a clean shutdown has."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A directory that a start renames. is_removed: the metadata log says that its topic was deleted. is_renewed: the
    metadata has a topic of the name with another id."""

    partition: PartitionDirectory
    topic_id: str | None
    reason: str
    is_removed: bool
    is_renewed: bool = False

    @property
    def is_missed(self) -> bool:
        """May it hold records that nobody has deleted? A directory gets its topic's id before the first record."""
        return self.topic_id is not None and not self.is_removed


class LostMetadata:
    """See above. Files are read when they are asked for: ask before anything is changed."""

    def __init__(self, home: Path, plan: PartitionPlan | None) -> None:
        """home: the log directory with the metadata log. plan: of its start; None where it is missing."""
        self.home, self.plan = home, plan
        self.trouble: list[UnreadableInput] = []
        """What is damaged in the log, once `readable` was asked for."""
        self.misplaced: dict[str, StartRefused] = {}
        """Files with the id of another topic, once strays were looked for."""
        self.unreadable: list[UnreadableInput] = []
        """Files with topic ids, once strays were looked for."""
        self._told_of_start: list[UnreadableInput] = []
        self.removed: set[str] = set()
        """The ids of topics that the log removes, once `readable` was asked for."""
        self.cuts = [] if plan is None else list(_cuts(plan))
        self.evidence = ["there is no metadata log"] if plan is None else list(_evidence(home, plan))

    @property
    def signs(self) -> list[str]:
        """Cuts, and where there are none the evidence that records are lost."""
        return self.cuts or self.evidence

    @property
    def end_min(self) -> int:
        """The log cannot have ended before."""
        epoch_start = None if self.plan is None else _epoch_start(self.plan)
        broker_epoch = _broker_epoch(self.home)
        return max(epoch_start or 0, 0 if broker_epoch is None else broker_epoch + 1)

    @cached_property
    def image(self) -> MetadataImage:
        """What the log says after the start. Raises UnreadableInput."""
        if self.plan is None:
            return self._bootstrap(MetadataImage(lenient=True))
        files = self.plan.view.files
        told = self._told_of_start.append
        return self._bootstrap(replay(self.plan.view.directory, files, told, around_damage=False, lenient=False))

    @cached_property
    def readable(self) -> MetadataImage:
        """What the files still say. Raises UnreadableInput."""
        if self.plan is None:
            return self._bootstrap(MetadataImage(lenient=True))
        view, told = self.plan.view, self.trouble.append
        found = replay(view.directory, view.original, told, around_damage=True, removed=self.removed)
        return self._bootstrap(found)

    def _bootstrap(self, image: MetadataImage) -> MetadataImage:
        """A log without a metadata.version begins with what formatting left."""
        path = self.home / FileKind.BOOTSTRAP
        if image.metadata_version or not path.exists():
            return image
        try:
            source = FileSource(path)
            try:
                for message, value in snapshot_records(source):
                    image.apply(message, value, image.offset)
            finally:
                source.close()
        except KcliError as error:
            self.trouble.append(UnreadableInput(str(path), str(error)))
        return image

    def refusals(self) -> Iterator[StartRefused]:
        """What Kafka stops at beside what it cuts: quorum-state, bootstrap.checkpoint, the latest snapshot, offsets
        that are missing, and records that contradict those before them. Raises UnreadableInput."""
        bootstrap = self.home / FileKind.BOOTSTRAP
        if bootstrap.exists():
            reason = _not_whole(FileSource(bootstrap))
            if reason is not None:
                yield StartRefused(FileKind.BOOTSTRAP, reason)
        if self.plan is None:
            return
        view = self.plan.view
        if FileKind.QUORUM_STATE in view:
            try:
                parse_quorum_state(view.read(FileKind.QUORUM_STATE))
            except FormatError as error:
                yield StartRefused(f"{view.directory.name}/{FileKind.QUORUM_STATE}", error.reason, error.position)
        latest = latest_snapshot(view.files)
        if latest is not None:
            source = view.source(latest)
            try:
                reason = snapshot_refusal(source)
            finally:
                source.close()
            if reason is not None:
                yield StartRefused(f"{view.directory.name}/{latest}", reason)
                return
        _ = self.image  # the start of which bad records are told
        bad: UnreadableInput | None = next((each for each in self._told_of_start if isinstance(each, BadRecord)), None)
        bad = bad or offset_jump(view.directory, view.files)
        if bad is not None:
            yield StartRefused(f"{view.directory.name}/{Path(bad.path).name}", bad.reason)

    def strays(
        self, partitions: Iterable[PartitionDirectory], node_id: int | None, image: MetadataImage | None = None
    ) -> Iterator[Stray | StartRefused]:
        """The directories among these that the image does not give to this node, or what Kafka would stop at.

        image: another one than that of the start. Raises UnreadableInput.
        """
        for each in partitions:
            if each.name.topic == METADATA_TOPIC or each.name.state not in ("", "future"):
                continue
            try:
                topic_id = topic_id_of(each.path)
            except StartRefused as refused:
                yield refused
                continue
            except OSError as error:
                path = each.path / FileKind.PARTITION_METADATA
                self.unreadable.append(UnreadableInput(str(path), error.strerror or str(error)))
                continue
            self._compare(each, topic_id)
            reason = why_stray(image or self.image, each.name.partition, topic_id, node_id)
            if reason is not None:
                known = (image or self.image).topics.get(each.name.topic)
                is_renewed = topic_id is not None and known is not None and from_uuid(known.id) != topic_id
                if is_renewed and known is not None:
                    reason += f"; topic {known.name} is {from_uuid(known.id)}"
                yield Stray(each, topic_id, reason, self._is_removed(topic_id), is_renewed)

    def _compare(self, partition: PartitionDirectory, topic_id: str | None) -> None:
        """A directory with the id of another topic is no stray, and yet not what the metadata takes it for."""
        topic = None if topic_id is None else self.image.topic_by_id(to_uuid(topic_id))
        if topic is not None and topic.name != partition.name.topic:
            reason = f"the id of topic {topic.name}: Kafka starts, and does not serve the partition"
            file = f"{partition.path.name}/{FileKind.PARTITION_METADATA}"
            self.misplaced.setdefault(file, StartRefused(file, reason))

    def _is_removed(self, topic_id: str | None) -> bool:
        _ = self.readable  # it is replayed for them
        return topic_id in self.removed


def _not_whole(snapshot: Source) -> str | None:
    """Why a snapshot cannot be read from header to footer. Closes it."""
    try:
        for _ in snapshot_records(snapshot):
            pass
    except UnreadableInput as error:
        return error.reason
    finally:
        snapshot.close()
    return None


def why_stray(image: MetadataImage, number: int, topic_id: str | None, node_id: int | None) -> str | None:
    """Why a start takes a partition's directory for a stray; None where it is this node's.

    topic_id: of partition.metadata. node_id: None where it is not known.
    """
    if topic_id is None:  # the file comes before the first append: there is nothing in the log
        return "partition.metadata is missing"
    topic = image.topic_by_id(to_uuid(topic_id))
    if topic is None:
        return f"the metadata knows no topic {topic_id}"
    state = topic.partitions.get(number)
    if state is None:
        return f"the metadata knows no partition {number} of topic {topic.name}"
    if node_id is not None and node_id not in state.replicas:
        return f"node {node_id} is no replica of it"
    return None


def _cuts(plan: PartitionPlan) -> Iterator[str]:
    """What the start cuts."""
    for event in plan.events:
        if event.is_loss:
            yield f"{event.file} is damaged at byte {event.position or 0:,}: {event.reason}"


def _evidence(home: Path, plan: PartitionPlan) -> Iterator[str]:
    """What tells of records that the log does not have, or will not after the cut."""
    if plan.offsets is None:
        return
    latest = latest_snapshot(plan.view.files)
    if latest is not None and (reason := _not_whole(plan.view.source(latest))) is not None:
        yield f"{latest} is not whole: {reason}"
    kinds = [name.kind for file in plan.view.files if (name := parse(file)) is not None]
    end = plan.offsets.log_end_offset
    if end == 0 and FileKind.KRAFT_SNAPSHOT not in kinds:
        yield "the log is empty"
    for what, offset in (("leader epoch", _epoch_start(plan)), ("the broker's registration", _broker_epoch(home))):
        if offset is not None and offset > end:
            yield f"{what} begins at offset {offset:,}, the log ends at {end:,}"


def _epoch_start(plan: PartitionPlan) -> int | None:
    """Where the last leader epoch that the checkpoint knows begins."""
    content = plan.view.original.get(LEADER_EPOCHS)
    if content is None:
        return None
    source = ContentSource(LEADER_EPOCHS, content)
    try:
        data = bytearray(content.size)
        entries = parse_leader_epochs(bytes(data[: source.read_at(0, memoryview(data))]))
    except FormatError:
        return None
    finally:
        source.close()
    return entries[-1].start_offset if entries else None


def _broker_epoch(home: Path) -> int | None:
    """The broker's epoch at its last clean shutdown: the offset of its registration."""
    try:
        with (home / FileKind.CLEAN_SHUTDOWN).open("rb") as marker:
            epoch = json.loads(marker.read(MARKER_BYTES))["brokerEpoch"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return epoch if isinstance(epoch, int) else None
