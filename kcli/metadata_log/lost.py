"""What Kafka's start loses of a damaged metadata log, and which partition directories it then renames to -stray.

    signs      evidence of lost records: Kafka's start cuts the log; the log is missing or empty; it ends before the
               offset of its last leader epoch in leader-epoch-checkpoint, or of the broker epoch in the clean-shutdown
               marker; the latest snapshot, which Kafka reads in place of the log below its offset, contradicts that
               log; Kafka reads no record of the latest snapshot, as it is the one with which a quorum begins
    image      the metadata after Kafka's start: the records up to the first damage
    readable   the metadata of all records that can be read, also after the damage
    strays     directories of partitions that have no replica on this node in `image`: Kafka renames them to -stray

If the log itself removes the topic of a stray, nothing is lost: Kafka would have deleted the directory. Source:
LogManager.loadLog and isStrayReplica, ReplicaManager; KIP-966 (the broker's epoch in the marker).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind
from formats.quorum_state import parse as parse_quorum_state
from kcli.errors import KcliError, StartRefused, UnreadableInput
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.log_directory import LogDirectory, PartitionDirectory
from kcli.log.partition_directory import METADATA_TOPIC_ID, is_garbled, metadata_topic_id_refusal, topic_id_of
from kcli.log.partition_view import Content, ContentSource
from kcli.log.source import Source
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import Topic, from_uuid, to_uuid
from kcli.metadata_log.bootstrap import read_bootstrap
from kcli.metadata_log.replay import (
    BadRecord,
    UnknownMagic,
    contradiction,
    lacks_only_footer,
    latest_snapshot,
    offset_beyond_end,
    replay,
    snapshot_refusal,
    unread_snapshot,
    why_not_whole,
)
from kcli.metadata_log.snapshot_end import CutFooter, cut_footer, whole_batches
from kcli.metadata_log.snapshot_file import BOOTSTRAP_SNAPSHOT
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.log.recovery.plan import PartitionPlan  # not imported when a broker starts, as only salvage needs it

PARTITION_MAX = 99_999
"""The highest number that a partition of a lost topic may have: a directory with a higher number is a copy with a date
after its name."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A partition directory that Kafka's start renames to -stray. topic_id: from partition.metadata; None if the
    directory lacks this file. reason: why Kafka renames it. is_removed: the metadata log has a RemoveTopicRecord for
    topic_id. is_renewed: the metadata has a topic with the name in the directory's name, but with another id.
    is_garbled: it is that id, changed by damage to the file."""

    partition: PartitionDirectory
    topic_id: str | None
    reason: str
    is_removed: bool
    is_renewed: bool = False
    is_garbled: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether the directory may hold records of a topic that was not deleted.

        It is false for a directory without a topic id, which has no records, as Kafka writes partition.metadata before
        it appends the first record. It is also false for a copy of a partition's directory with a date behind its name
        (`orders-0-20261127`), which looks like a partition with a number above PARTITION_MAX, for a copy of the
        metadata log, and for a directory whose topic id is that of its topic, changed by damage.
        """
        is_partition = self.partition.name.partition <= PARTITION_MAX
        is_known = self.is_removed or self.is_garbled
        return is_partition and self.topic_id not in (None, METADATA_TOPIC_ID) and not is_known


class LostMetadata:
    """The losses of a damaged metadata log. Each property reads files at its first use: use it before files change."""

    def __init__(
        self,
        home: Path,
        plan: PartitionPlan | None,
        beside: Iterable[Path] = (),
        other_logs: Mapping[str, Content] | None = None,
    ) -> None:
        """home: the log directory with the metadata log. plan: what Kafka's start does to that log; None if the log is
        missing. beside: the node's other log directories. other_logs: the .log files of the metadata log that have
        other names, by their right names: they are read for `readable`."""
        self.home, self.plan = home, plan
        self.other_logs = other_logs or {}
        self._broker_epoch = marked_broker_epoch([home, *beside])
        self.trouble: list[UnreadableInput] = []
        """Damage in the files of the log; filled at the first use of `readable`."""
        self.misplaced: dict[str, StartRefused] = {}
        """What Kafka does with partition.metadata files that have the id of another topic, by path below the log
        directory; filled by `strays`."""
        self.unreadable: list[UnreadableInput] = []
        """partition.metadata files that cannot be read; filled by `strays`."""
        self._start_errors: list[UnreadableInput] = []
        self.removed: set[str] = set()
        """The ids of topics that have a RemoveTopicRecord in the log; filled at the first use of `readable`."""
        self.cuts = [] if plan is None else list(_cuts(plan))
        self.evidence = ["there is no metadata log"] if plan is None else list(_evidence(plan, self._broker_epoch))
        self.contradicted = [] if plan is None else list(_contradicted(plan))

    @property
    def signs(self) -> list[str]:
        """Lines of text: that the latest snapshot contradicts the log, and at which damage Kafka's start cuts the log;
        if it cuts nothing, other evidence that records are lost."""
        return self.contradicted + (self.cuts or self.evidence)

    @property
    def end_min(self) -> int:
        """The lowest offset at which the log can have ended before it was damaged: not below the start of its last
        leader epoch, and after the broker's last registration."""
        epoch_start = None if self.plan is None else _epoch_start(self.plan)
        return max(epoch_start or 0, self._broker_epoch + 1)

    @cached_property
    def footer(self) -> CutFooter | None:
        """The footer that the latest snapshot lacks; None if it has one, or if other batches of it are damaged. Raises
        UnreadableInput."""
        latest = self.latest
        return None if latest is None or self.plan is None else _cut_footer(self.plan, latest)

    @property
    def latest(self) -> str | None:
        """The name of the latest snapshot after Kafka's start; None if there is none."""
        return None if self.plan is None else latest_snapshot(self.plan.view.files)

    @property
    def lacks_only_footer(self) -> bool:
        """Whether it is known that the latest snapshot has all records, if it has no footer. Raises UnreadableInput."""
        assert self.plan is not None, "there is a snapshot"
        view, latest = self.plan.view, self.latest
        return latest is not None and lacks_only_footer(view.directory, view.files, latest) is not None

    @property
    def is_torn(self) -> bool:
        """Whether the latest snapshot, of which Kafka reads the records, ends within a batch of records. Raises
        UnreadableInput."""
        latest = self.latest
        if latest is None or latest == BOOTSTRAP_SNAPSHOT.file_name or self.plan is None or self.footer is not None:
            return False
        content = self.plan.view.files[latest]
        return whole_batches(str(self.plan.view.directory / latest), content).size < content.size

    @cached_property
    def image(self) -> MetadataImage:
        """The metadata after Kafka's start. Raises UnreadableInput."""
        if self.plan is None:
            return self.begun_anew()
        files = self.plan.view.files
        on_error = self._start_errors.append
        return self._bootstrap(replay(self.plan.view.directory, files, on_error, around_damage=False, lenient=False))

    @cached_property
    def readable(self) -> MetadataImage:
        """The metadata of all records that can be read, also after damage. Raises UnreadableInput."""
        if self.plan is None:
            return self.begun_anew()
        view, on_error = self.plan.view, self.trouble.append
        files = {**view.original, **self.other_logs}
        return self._bootstrap(replay(view.directory, files, on_error, around_damage=True, removed=self.removed))

    def begun_anew(self) -> MetadataImage:
        """The metadata of a new log: the records of bootstrap.checkpoint."""
        return self._bootstrap(MetadataImage(lenient=True))

    def _bootstrap(self, image: MetadataImage) -> MetadataImage:
        """Add the records of bootstrap.checkpoint if the log sets no metadata.version. Returns the image."""
        path = self.home / FileKind.BOOTSTRAP
        if image.metadata_version or not path.exists():
            return image
        try:
            for message, _, value in read_bootstrap(self.home):
                image.apply(message, value, image.offset)
        except KcliError as error:
            self.trouble.append(UnreadableInput(str(path), str(error)))
        return image

    def refusals(self) -> Iterator[StartRefused]:
        """Yield the damage in the metadata log's directory that keeps Kafka from starting: in partition.metadata,
        quorum-state or the latest snapshot, an empty .log file, offsets beyond the log end offset, and records that
        contradict earlier ones. Damage that Kafka's start cuts off is not among it. Raises UnreadableInput."""
        if self.plan is None:
            return
        view = self.plan.view
        refused = metadata_topic_id_refusal(view.directory)
        if refused is not None:
            yield refused
        if FileKind.QUORUM_STATE in view:
            try:
                reason = parse_quorum_state(view.read(FileKind.QUORUM_STATE)).refusal
                if reason:
                    yield StartRefused(f"{view.directory.name}/{FileKind.QUORUM_STATE}", reason)
            except FormatError as error:
                yield StartRefused(f"{view.directory.name}/{FileKind.QUORUM_STATE}", error.reason, error.position)
        elif view.exists(FileKind.QUORUM_STATE):
            yield StartRefused(f"{view.directory.name}/{FileKind.QUORUM_STATE}", "is a directory")
        yield from self.empty_logs()
        latest = latest_snapshot(view.files)
        if latest is not None:
            why = _refusal(view.source(latest))
            if why is not None:
                yield StartRefused(f"{view.directory.name}/{latest}", why)
                return
        _ = self.image  # replays the log, which fills _start_errors
        bad: UnreadableInput | None = next((each for each in self._start_errors if isinstance(each, BadRecord)), None)
        bad = bad or offset_beyond_end(view.directory, view.files)
        if bad is not None:
            yield StartRefused(f"{view.directory.name}/{Path(bad.path).name}", bad.reason)

    def empty_logs(self) -> Iterator[StartRefused]:
        """Yield the empty .log files that no broker has made, and at which the log ends in Kafka's eyes: where this
        node is the only voter, its controller does not get ready with them."""
        plan = self.plan
        if plan is None:
            return
        for each in plan.empty_logs:
            if each.following is None:
                outcome = f"Kafka ends the metadata log at {each.base_offset:,}, and its controller does not get ready"
                yield StartRefused(f"{plan.view.directory.name}/{each.file}", f"{each.what}: {outcome}")

    def unknown_magic(self) -> Iterator[StartRefused]:
        """Yield the first batch of an unknown magic at which Kafka's start fails, in a quorum as well, where Kafka
        reads its own log before it asks other voters. Raises UnreadableInput."""
        _ = self.image  # replays the log, which fills _start_errors
        bad = next((each for each in self._start_errors if isinstance(each, UnknownMagic)), None)
        if bad is not None and self.plan is not None:
            yield StartRefused(f"{self.plan.view.directory.name}/{Path(bad.path).name}", bad.reason)

    def refused_topic_ids(self, partitions: Iterable[PartitionDirectory]) -> Iterator[StartRefused]:
        """Yield an error for each partition.metadata of these directories that keeps Kafka from starting. Add the files
        that cannot be read to `unreadable`."""
        for each in partitions:
            if each.name.topic != METADATA_TOPIC and each.name.state in ("", "future"):
                try:
                    topic_id_of(each.path)
                except StartRefused as refused:
                    yield refused
                except OSError as error:
                    path = each.path / FileKind.PARTITION_METADATA
                    self.unreadable.append(UnreadableInput.of(path, error))

    def strays(
        self, partitions: Iterable[PartitionDirectory], node_id: int | None, image: MetadataImage | None = None
    ) -> Iterator[Stray | StartRefused]:
        """Yield each of these directories that Kafka's start renames to -stray, as the metadata has no replica of its
        partition on this node; StartRefused for a partition.metadata that keeps Kafka from starting. Also fill
        `misplaced` and `unreadable`. Only directories with plain names and with -future are looked at.

        node_id: None if it is not known: a replica on any node counts. image: the metadata to compare with; None:
        `self.image`. Raises UnreadableInput.
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
                self.unreadable.append(UnreadableInput.of(path, error))
                continue
            self._compare(each, topic_id, node_id)
            reason = why_stray(image or self.image, each.name.partition, topic_id, node_id)
            if reason is not None:
                known = (image or self.image).topics.get(each.name.topic)
                right = None if known is None else from_uuid(known.id)
                is_renewed = None not in (topic_id, right) and topic_id != right
                is_damaged = topic_id is not None and right is not None and is_garbled(topic_id, right)
                if is_renewed and known is not None:
                    reason += f"; topic {known.name} is {right}"
                yield Stray(each, topic_id, reason, self._is_removed(topic_id), is_renewed, is_damaged)

    def _compare(self, directory: PartitionDirectory, topic_id: str | None, node_id: int | None) -> None:
        """Add the partition.metadata of a directory to `misplaced` if it has the id of another topic of which this node
        has a replica: Kafka does not rename such a directory to -stray, but cannot serve it. topic_id: from
        partition.metadata; None if this file is missing. node_id: as for `other_topic`."""
        topic = other_topic(self.image, directory.partition, topic_id, node_id)
        if topic is None:
            return
        if has_replica(self.image, directory.partition, node_id):
            outcome = (
                "Kafka starts, and fails to apply the topics of the metadata log: it serves neither this partition "
                "nor some of the others, of any topic (NOT_LEADER_OR_FOLLOWER)"
            )
        else:
            outcome = (
                "the metadata places no partition of the directory's name here: Kafka leaves the directory as it is, "
                "and serves nothing of it"
            )
        file = f"{directory.path.name}/{FileKind.PARTITION_METADATA}"
        self.misplaced.setdefault(file, StartRefused(file, f"the id of topic {topic.name}: {outcome}"))

    def _is_removed(self, topic_id: str | None) -> bool:
        _ = self.readable  # replays the log, which fills `removed`
        return topic_id in self.removed


def _refusal(snapshot: Source) -> str | None:
    """Return why Kafka does not start with a snapshot; None if it does. Closes the source."""
    try:
        return snapshot_refusal(snapshot)
    finally:
        snapshot.close()


def why_stray(image: MetadataImage, number: int, topic_id: str | None, node_id: int | None) -> str | None:
    """Return why Kafka's start makes a partition's directory a stray; None if the metadata has a replica on this
    node.

    number: the partition's. topic_id: from partition.metadata; None if this file is missing. node_id: None if it is
    not known: a replica on any node counts as one on this node.
    """
    if topic_id is None:  # Kafka writes the file before the first append: without it the log is empty
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


def is_left_out(image: MetadataImage, directory: PartitionDirectory, node_id: int | None) -> bool:
    """Whether Kafka's start does not open a partition's directory, but renames it to -stray. If the metadata has no
    topic at all, because the metadata log cannot be read, this is true only of directories without a topic id. node_id:
    None if it is not known: a replica on any node counts as one on this node."""
    try:
        topic_id = topic_id_of(directory.path)
    except (StartRefused, OSError):  # Kafka's start then ends, or reports an I/O error: it renames nothing
        return False
    if not image.topics:
        return topic_id is None
    return why_stray(image, directory.name.partition, topic_id, node_id) is not None


def is_left_aside(image: MetadataImage, directory: PartitionDirectory, node_id: int | None) -> bool:
    """Whether Kafka's start serves no record of a partition's directory, as the metadata has no partition of its name,
    or the start renames it to -stray. False if the metadata has no topic at all. node_id: as in is_left_out."""
    if not image.topics:
        return False
    topic = image.topic(directory.name.topic)
    return topic is None or directory.name.partition not in topic.partitions or is_left_out(image, directory, node_id)


def is_foreign(
    image: MetadataImage, removed: Collection[str], directories: Iterable[PartitionDirectory], ids: Collection[str]
) -> bool:
    """Whether a metadata log is that of another cluster: no broker in it has registered one of the node's log
    directories, and it does not know the topic ids of most of the partition directories. False if this is not known:
    no broker in it has registered a log directory, or `ids` is empty.

    removed: the ids of deleted topics. directories: those of the partitions. ids: each directory.id of the node.
    """
    registered = {from_uuid(each) for broker in image.brokers.values() for each in broker.directories}
    if not registered or not ids or registered & set(ids):
        return False
    topic_ids: set[str | None] = set()
    for each in directories:
        if each.name.topic != METADATA_TOPIC and not each.name.state:
            with suppress(KcliError, OSError):  # the checks of that directory report this error
                topic_ids.add(topic_id_of(each.path))
    known = topic_ids - {None}
    unknown = [each for each in known if each and each not in removed and image.topic_by_id(to_uuid(each)) is None]
    return 2 * len(unknown) > len(known)


def other_topic(
    image: MetadataImage, partition: TopicPartition, topic_id: str | None, node_id: int | None
) -> Topic | None:
    """Return the topic to which a directory belongs by its topic id, if the directory's name is that of another topic.
    None if name and id agree, or if the directory is a stray: this node has no replica of that topic's partition.

    Kafka keeps such a directory, and opens its log. If this node has a replica of the partition in the directory's
    name, too (`has_replica`), Kafka cannot apply the metadata of that partition (InconsistentTopicIdException);
    otherwise no request reaches the log. partition: that of the directory's name. topic_id: from partition.metadata.
    node_id: None if it is not known: a replica on any node counts as one on this node. Source: LogManager.loadLog,
    isStrayReplica; Partition.createLogIfNotExists.
    """
    if topic_id is None or why_stray(image, partition.partition, topic_id, node_id) is not None:
        return None
    topic = image.topic_by_id(to_uuid(topic_id))
    return None if topic is None or topic.name == partition.topic else topic


def has_replica(image: MetadataImage, partition: TopicPartition, node_id: int | None) -> bool:
    """Whether the metadata has a replica of a partition on this node. node_id: None if it is not known: a replica on
    any node counts."""
    topic = image.topic(partition.topic)
    return topic is not None and why_stray(image, partition.partition, from_uuid(topic.id), node_id) is None


def _cuts(plan: PartitionPlan) -> Iterator[str]:
    """Yield a line for each damage at which Kafka's start cuts a .log file. If it cuts none, but removes segments,
    yield a line for the first of them. No other removal has a line, as Kafka removes all segments after the damage."""
    from kcli.log.recovery.loader import EventKind  # imported late: starting a broker does not need it

    losses = [event for event in plan.events if event.is_loss]
    cuts = [event for event in losses if event.kind is not EventKind.SEGMENT_REMOVED]
    for event in cuts or losses[:1]:
        yield f"{event.file} is damaged at byte {event.position or 0:,}: {event.reason}"


def _contradicted(plan: PartitionPlan) -> Iterator[str]:
    """Yield a line if the latest snapshot, from which Kafka's start takes the metadata, contradicts the log below the
    snapshot's offset."""
    name = latest_snapshot(plan.view.files)
    if name is None:
        return
    with suppress(UnreadableInput):  # `_evidence` reports a snapshot that is not whole
        wrong = contradiction(plan.view.directory, plan.view.original, name)
        if wrong is not None and _refusal(plan.view.source(name)) is None:
            yield f"Kafka takes {name} in place of the log below its offset, and {wrong.reason}"


def marked_broker_epoch(homes: Iterable[Path]) -> int:
    """The highest broker epoch in the clean-shutdown markers of log directories of one node; -1 if none has one."""
    found = (LogDirectory(each).marked_broker_epoch for each in homes)
    return max((each for each in found if each is not None), default=-1)


def _evidence(plan: PartitionPlan, broker_epoch: int) -> Iterator[str]:
    """Yield, in words, each sign that the metadata log has lost records or will lose them when Kafka's start cuts it.
    broker_epoch: the broker epoch in the clean-shutdown markers; -1 if there is none."""
    if plan.offsets is None:
        return
    latest = latest_snapshot(plan.view.files)
    if latest is not None and (reason := _not_whole(plan, latest)) is not None:
        yield f"{latest} is not whole: {reason}"
    end = plan.offsets.log_end_offset
    is_begun = latest is not None and (latest != BOOTSTRAP_SNAPSHOT.file_name or FileKind.QUORUM_STATE not in plan.view)
    if (unread := unread_snapshot(plan.view.directory, plan.view.files)) is not None:
        yield f"{unread} is the snapshot with which a quorum begins, of which Kafka reads no record"
    elif end == 0 and not is_begun:
        yield "the log is empty"
    for subject, offset in (
        ("leader epoch", _epoch_start(plan)),
        ("the broker's registration", broker_epoch),
    ):
        if offset is not None and offset > end:
            yield f"{subject} begins at offset {offset:,}, the log ends at {end:,}"


def _not_whole(plan: PartitionPlan, latest: str) -> str | None:
    """Return why Kafka's start, by its latest snapshot, does not have all records of the metadata log; None if it has,
    or if nothing tells whether records are missing before the snapshot's footer."""
    with suppress(UnreadableInput):
        if _cut_footer(plan, latest) is not None:
            return None
    return why_not_whole(plan.view.directory, plan.view.files, latest)


def _cut_footer(plan: PartitionPlan, latest: str) -> CutFooter | None:
    return cut_footer(str(plan.view.directory / latest), plan.view.files[latest])


def _epoch_start(plan: PartitionPlan) -> int | None:
    """Return the start offset of the last entry in leader-epoch-checkpoint; None if there is no entry, or if the file
    cannot be parsed."""
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
