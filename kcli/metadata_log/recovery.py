"""The metadata log in a recovery of its log directory: what Kafka's start would lose of the cluster's metadata.

alone        this node is the only voter: the records that Kafka's start cuts off are lost, and partitions become
             strays, whose directories the start renames to -stray
in a quorum  the node fetches the records that Kafka's start cuts off from the other voters: no record is lost, and
             salvage changes nothing
elsewhere    the metadata log is in another log directory, which the configuration names
missing      the directory has no metadata log, and the configuration names no other directory for it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats import quorum_state
from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, METADATA_TOPIC, DirectoryName, FileKind, build_directory
from formats.properties import MetaProperties
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.config import LogConfig
from kcli.log.flat_files import flat_partitions
from kcli.log.log_directory import LogDirectory, PartitionDirectory, is_log_directory, unusable
from kcli.log.partition_directory import legible_topic_id
from kcli.log.partition_view import Content, PartitionView
from kcli.log.recovery.exchanged_checkpoints import foreign_checkpoints
from kcli.log.recovery.exchanged_names import ExchangedNames, exchanged_by_keys, exchanged_names
from kcli.log.recovery.identity import Identity, end_offset, mended_identities
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.node_directories import (
    GOES_OFFLINE,
    NodeDirectories,
    directories_beside,
    log_directories_of,
    meta_of,
    metadata_home_of,
    misplaced_metadata_log,
    node_id_of,
    same_path,
    without_leader_text,
)
from kcli.log.recovery.plan import PartitionPlan, plan, with_epochs_put_right, with_magics_put_right, with_view
from kcli.log.recovery.run import no_configs
from kcli.log.recovery.salvage import Checked
from kcli.log.recovery.stray_copies import is_copy
from kcli.log.source import read_whole
from kcli.metadata.difference import differences, lowered_epochs
from kcli.metadata.image import MetadataImage
from kcli.metadata.metadata_version import refused_level
from kcli.metadata.partition import from_uuid, to_uuid
from kcli.metadata_log.bootstrap import bootstrap_refusal
from kcli.metadata_log.directory_ids import directory_ids
from kcli.metadata_log.known_properties import known_properties, voters_of
from kcli.metadata_log.last_used import newer_than, restored_alone
from kcli.metadata_log.lost import LostMetadata, Stray, is_foreign, is_left_aside, is_left_out, why_stray
from kcli.metadata_log.placement import MissingPartition, Placement, aside_in, futures_in, outcome_of_other_id
from kcli.metadata_log.renamed_log import renamed_logs, renamed_metadata_log, renamed_snapshot
from kcli.metadata_log.replay import replay
from kcli.metadata_log.snapshot_end import CutFooter, with_footer
from kcli.metadata_log.stale_marker import blank_marker, stale_marker
from kcli.metadata_log.unserved_state import counts_of_keys, unserved_state
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.metadata_log.promotion import Compared
    from kcli.metadata_log.salvage import MetadataSalvage

UNDECIDED = (
    "nothing tells whether the directories have exchanged their names or their partition.metadata: salvage leaves them "
    "as they are, and kcli verify shows both ways out"
)
BLOCKED = "Kafka cannot make the partition's directory, and takes the log directory for failed"
FOREIGN = "the log is another cluster's: it has neither this directory.id nor the topic ids of the partitions"
SUSPICION = "no record has the ids of the topics that partitions here have, and the broker was not shut down in order"


class _Read(NamedTuple):
    """What the records of a metadata log say. removed: the ids of topics that have a RemoveTopicRecord. other_logs: the
    .log files under other names, if the log has no record that can be read; or the snapshot under another name without
    which Kafka does not start."""

    image: MetadataImage
    removed: Collection[str]
    other_logs: Mapping[str, Content]


class MissingFooter(NamedTuple):
    """A snapshot without its footer. file: its name. cut: the footer. is_all: whether it is known to have all records
    all the same."""

    file: str
    cut: CutFooter
    is_all: bool


@dataclass
class MetadataRecovery:
    """The metadata log in one run of recovery.

    directory          the log directory that is recovered
    server             the entries of server.properties; empty if it is not given
    wants_salvage      whether records after damage are to be kept
    clean              whether the broker was shut down cleanly; None: the clean-shutdown marker decides
    config             returns the configuration of a topic
    of_others          the checkpoints in `directory` that another broker wrote, whose offsets are not of its logs
    lost               the losses of the log; None until `look` is called, and in a quorum
    strays             the partition directories in `directory` that Kafka's start renames to -stray
    starts             whether Kafka starts with the log
    is_loss            whether Kafka does not start, or metadata is lost, or the metadata log is another cluster's; also
                       if `is_doubtful`
    is_doubtful        whether strays are the only sign that records at the end of the metadata log are lost; then the
                       directories may as well be another cluster's
    signs              lines of text: the evidence of lost records except the damage at which Kafka's start cuts the log
    salvage            the metadata that can be saved; None if nothing is lost or node.id is not known
    is_salvaged        whether this run salvages the log
    other_voters       the voters of the quorum but this node
    in_quorum          lines about the damage, if the other voters still have the records
    footer             the latest snapshot that lacks its footer, with which Kafka starts; None if there is none
    refusals           what keeps Kafka from starting
    salvaged           those of `refusals` that are in the metadata log, if this run salvages it
    passed_over        faults with which Kafka starts, though with harm, such as partitions that become strays
    has_looked         whether `look` has set these attributes
    """

    directory: Path
    server: Mapping[str, str]
    now_ms: int
    wants_salvage: bool = False
    clean: bool | None = None
    config: Callable[[str], LogConfig] = no_configs
    of_others: Collection[FileKind] = ()
    lost: LostMetadata | None = None
    strays: list[Stray] = field(default_factory=list)
    is_loss: bool = False
    is_doubtful: bool = False
    signs: Sequence[str] = ()
    starts: bool = True
    salvage: MetadataSalvage | None = None
    is_salvaged: bool = False
    other_voters: Sequence[int] = ()
    in_quorum: Sequence[str] = ()
    footer: MissingFooter | None = None
    refusals: list[StartRefused] = field(default_factory=list)
    salvaged: list[StartRefused] = field(default_factory=list)
    passed_over: list[StartRefused] = field(default_factory=list)
    has_looked: bool = False

    @property
    def misplaced(self) -> list[StartRefused]:
        """An error for each partition.metadata with the id of another topic: what Kafka does with the directory. The
        directories that have, under another name, the records of partitions in `missing` are left out. Raises
        UnreadableInput."""
        found = {} if self.lost is None else self.lost.misplaced
        named = {each.renamed.path.name for each in self.missing if each.renamed is not None}
        unknown = {path.name for path in self.undecided}
        shown = [(file.split("/")[0], each) for file, each in found.items()]
        return [
            StartRefused(each.file, f"{each.reason}; {UNDECIDED}") if name in unknown else each
            for name, each in shown
            if name not in named
        ]

    @property
    def home(self) -> Path:
        """The log directory that holds the metadata log, or should hold it."""
        named = metadata_home_of(self.server)
        return self.directory if named is None or same_path(named, self.directory) else named

    @cached_property
    def misplaced_log(self) -> Path | None:
        """The directory of the metadata log, if it lies in another log directory than `home`, and `home` has none. None
        if there is no such directory, or if the configuration does not list `directory`."""
        directories = [each for each in (self.home, *self.log_directories) if each.is_dir()]
        if not any(same_path(each, self.directory) for each in directories):
            return None
        return misplaced_metadata_log(self.home, directories)

    @property
    def _log(self) -> Path:
        """The directory of the metadata log: `misplaced_log`, or the directory in `home`, which may be missing."""
        return self.misplaced_log or self.home / METADATA_DIRECTORY

    @property
    def log_directories(self) -> list[Path]:
        """The log directories that the configuration names."""
        return log_directories_of(self.server)

    @cached_property
    def node(self) -> NodeDirectories:
        """`directory` and the other log directories of the broker. If the configuration does not list `directory`, the
        others are not known; then the log directories of this node that lie in the parent directory of `directory` are
        looked at for copies of partitions, and for its directory.id."""
        listed, of_partitions = self.log_directories, (self._is_left_out, self._is_placed)
        if not any(same_path(each, self.directory) for each in listed):
            beside = directories_beside(self.directory)
            return NodeDirectories(self.directory, (), None, *of_partitions, None, self._topic_id, beside)
        node_id = node_id_of(self.server)
        return NodeDirectories(self.directory, listed, self.home, *of_partitions, node_id, self._topic_id)

    @property
    def count_of_unnamed(self) -> int:
        """The number of log directories that the node has registered, if it has registered more than one and
        server.properties does not name this log directory; else 0."""
        broker = self._readable.brokers.get(self._node_id() or 0)
        is_named = any(same_path(each, self.directory) for each in self.log_directories)
        return 0 if is_named or broker is None or len(broker.directories) == 1 else len(broker.directories)

    def _topic_id(self, topic: str) -> str | None:
        known = self._readable.topic(topic)
        return None if known is None else from_uuid(known.id)

    def _is_left_out(self, directory: PartitionDirectory) -> bool:
        """Whether Kafka's start renames a directory to -stray, by all records of the metadata log that can be read."""
        return is_left_out(self._readable, directory, self._node_id())

    def _is_placed(self, directory: PartitionDirectory) -> bool:
        """Whether the metadata log places the partition of a directory in the log directory in which the directory
        lies."""
        home = directory.path.parent
        meta = None if home in self.node.directories else meta_of(home)
        right = self._directory_ids_by_log.get(home) if meta is None else meta.directory_id
        return right is not None and right == self._placement(None).directory_id_of(directory.partition)

    @property
    def is_elsewhere(self) -> bool:
        """Whether `directory` has no metadata log, and the configuration says which log directory should have it."""
        return not (self.directory / METADATA_DIRECTORY).is_dir() and bool(
            self.log_directories or self.server.get("metadata.log.dir")
        )

    @property
    def is_log_directory(self) -> bool:
        """Whether `directory` belongs to a node: it has meta.properties, or another file of a log directory."""
        return is_log_directory(self.directory)

    @property
    def is_missing(self) -> bool:
        """Whether there is no metadata log in `home`, nor in another log directory."""
        return not self._log.is_dir()

    @property
    def homes_beside(self) -> list[Path]:
        """The log directories in the parent directory of `directory` that have a metadata log, and a meta.properties
        with the node.id and cluster.id of `directory`: one of them may be the `home` that the configuration names."""
        mine = meta_of(self.directory)
        if mine is None or mine.cluster_id is None or mine.node_id is None:
            return []
        found = self.directory.absolute().parent.glob(f"*/{METADATA_DIRECTORY}")
        theirs = [(each.parent, meta_of(each.parent)) for each in sorted(found) if each.is_dir()]
        ids = mine.cluster_id, mine.node_id
        return [path for path, meta in theirs if meta is not None and (meta.cluster_id, meta.node_id) == ids]

    @property
    def old_marker(self) -> Sequence[StartRefused]:
        """What is wrong with the clean-shutdown marker of `directory`, if an earlier stop than the broker's last one
        wrote it, or if it was made by hand. Empty if there is no marker, or no evidence of this. Raises
        UnreadableInput."""
        is_marked = self.is_log_directory and LogDirectory(self.directory).was_shut_down_cleanly
        if not is_marked:
            return []
        is_known = not (self.is_missing or self.is_foreign)
        blank = blank_marker(self.directory, self._readable if is_known else None, self._node_id())
        if blank is not None:
            return [StartRefused(FileKind.CLEAN_SHUTDOWN, blank)]
        if not is_known:
            return []
        stale = stale_marker(self.directory, self._readable, self._node_id(), self.node.of_one_node[1:])
        return [] if stale is None else [StartRefused(FileKind.CLEAN_SHUTDOWN, stale.reason)]

    @property
    def foreign_checkpoints(self) -> Sequence[StartRefused]:
        """A text about the offset checkpoints in `directory`, if these are the files of another log directory of the
        broker; else empty. Raises UnreadableInput."""
        if not self.is_log_directory:
            return []
        topics = self._readable.topics
        found = foreign_checkpoints(
            self.directory, self.node.of_one_node[1:], lambda each: not topics or each.topic in topics
        )
        return [] if found is None else [StartRefused(found.kinds[0], found.reason)]

    @property
    def identities(self) -> Mapping[Path, Identity]:
        """The right partition and topic id of each directory whose name or topic id salvage changes, by the directory's
        path; empty if salvage is not wanted. Raises UnreadableInput."""
        return self.mended_identities if self.wants_salvage else {}

    @property
    def mended_identities(self) -> Mapping[Path, Identity]:
        """The value that `identities` has if salvage is wanted. Raises UnreadableInput."""
        return self._identities_and_unknown[0]

    @property
    def undecided(self) -> Collection[Path]:
        """The directories that have each other's topic ids, if it cannot be decided whether they have exchanged their
        names or their partition.metadata: salvage does not change them. Raises UnreadableInput."""
        return self._identities_and_unknown[1]

    @cached_property
    def _identities_and_unknown(self) -> tuple[Mapping[Path, Identity], Collection[Path]]:
        """The values of `mended_identities` and `undecided`, which are found together."""
        if not self.is_log_directory:
            return {}, ()
        log_directory = LogDirectory(self.directory)
        high_watermarks = self._offsets(FileKind.REPLICATION_OFFSETS)
        second = {each.path for each, _ in log_directory.duplicates()}
        second |= {each.path for each in self.node.copies if not each.is_kept}
        second |= self._emptied
        directories = [each for each in log_directory.partitions() if each.path not in second]
        recovery_points = self._offsets(FileKind.RECOVERY_POINTS)
        found, unknown = mended_identities(
            directories,
            self._topic_ids(),
            high_watermarks,
            recovery_points,
            is_clean=log_directory.was_shut_down_cleanly,
        )
        taken = {each.partition for each in found.values()}
        renamed = [each for each in self.missing if each.renamed is not None and each.partition not in taken]
        ids = self._topic_ids()
        named = {
            each.renamed.path: Identity(each.partition, ids.get(each.partition) if each.lacks_topic_id else None)
            for each in renamed
            if each.renamed
        }
        flat = {
            self.directory / each.directory_name: Identity(
                each.partition, ids.get(each.partition) if each.lacks_topic_id else None
            )
            for each in self.missing
            if each.flat and each.partition not in taken
        }
        known = taken | {each.partition for each in renamed}
        futures = {path: Identity(each, None) for path, each in self._sole_futures() if each not in known}
        moved = {
            path: Identity(owner, found[path].topic_id if path in found else None)
            for each in self.exchanged_names
            if not any(
                path in named or (path in found and found[path].directory_name != path.name) for path in each.paths
            )
            for path, owner in each.owners.items()
        }
        return found | named | flat | moved | futures, unknown

    def _sole_futures(self) -> Iterator[tuple[Path, TopicPartition]]:
        """Yield each directory of `Placement.abandoned` with its partition, if it is the only directory with -future of
        that partition in all log directories of the node. Yields none if the node has no other log directory, or one
        without meta.properties. Raises UnreadableInput."""
        if self.node.unformatted or not (self.node.others and self._readable.topics):
            return
        placement = self._placement(None)
        futures = [each for each in (*placement.directories, *placement.futures) if each.name.state == "future"]
        counts = Counter(each.partition for each in futures)
        for each, _ in placement.abandoned():
            if counts[each.partition] == 1:
                yield each.path, each.partition

    @cached_property
    def exchanged_names(self) -> Sequence[ExchangedNames]:
        """The directories of one topic that have certainly exchanged their names. Raises UnreadableInput."""
        found = exchanged_names(LogDirectory(self.directory), self._partition_counts)
        return [each for each in found if each.is_certain]

    @property
    def exchanged_directories(self) -> Mapping[Path, TopicPartition]:
        """The directories that have exchanged their names, within one topic or, by their topic ids, between topics;
        each with the partition that its records belong to. Raises UnreadableInput."""
        found = self.mended_identities
        targets = {
            path: path.with_name(build_directory(DirectoryName(*each.partition))) for path, each in found.items()
        }
        return {path: found[path].partition for path, target in targets.items() if target in found and target != path}

    @property
    def exchanged_by_keys(self) -> Mapping[Path, Path]:
        """The .log files of coordinators' partitions that were exchanged, as the keys in them show: path at which a
        file belongs -> path at which it is now. Raises UnreadableInput."""
        return exchanged_by_keys(LogDirectory(self.directory), self._partition_counts) if self.is_log_directory else {}

    @cached_property
    def _partition_counts(self) -> Mapping[str, int]:
        """The numbers of partitions by topic, without topics of coordinators that have grown."""
        found = unserved_state([self.directory, *self.node.others, self.home], self._readable)
        return counts_of_keys(self._readable, found)

    @cached_property
    def registered_node_id(self) -> int | None:
        """The id of the broker whose registration has this directory's directory.id, if meta.properties has another
        node.id. None if node.id is right, if no broker or several have registered the directory, or if meta.properties
        has no directory.id that can be read."""
        meta = meta_of(self.directory)
        if meta is None or meta.directory_id is None:
            return None
        directory_id = to_uuid(meta.directory_id)
        owners = {each.id for each in self._readable.brokers.values() if directory_id in each.directories}
        return owners.pop() if len(owners) == 1 and meta.node_id not in owners else None

    @property
    def mended_node_id(self) -> int | None:
        """The node.id that salvage writes into meta.properties; None if salvage does not change the node.id."""
        return self.registered_node_id if self.wants_salvage and self.is_log_directory else None

    @cached_property
    def registered_directory_id(self) -> str | None:
        """The directory.id that the metadata log has for this directory, if meta.properties has a wrong one. None if
        the id in meta.properties is right, or if the right one is not known. Raises UnreadableInput."""
        return None if self.registered_node_id is not None else self._right_id

    @property
    def _right_id(self) -> str | None:
        """The directory.id that the metadata log has for this directory; None if meta.properties has that id, or if the
        right one is not known."""
        right, meta = self._directory_ids_by_log.get(self.directory), meta_of(self.directory)
        return None if meta is not None and meta.directory_id == right else right

    @cached_property
    def _directory_ids_by_log(self) -> Mapping[Path, str]:
        """The directory.id that each log directory of the node should have, by the directory's path (see
        `directory_ids`). A directory of which it is not known is left out."""
        if not self.is_log_directory:
            return {}
        node_id = self.registered_node_id or self._node_id()
        return directory_ids(self._readable, node_id, self.node.directories)

    @property
    def mended_directory_id(self) -> str | None:
        """The directory.id that salvage writes into meta.properties; None if salvage does not change the
        directory.id."""
        return self.registered_directory_id if self.wants_salvage and self.known_properties is None else None

    @cached_property
    def known_properties(self) -> MetaProperties | None:
        """What meta.properties should have, if it is missing, damaged or foreign (see the module known_properties).
        None if it is none of these, or if the right ids are not known. Raises UnreadableInput."""
        if not self.is_log_directory:
            return None
        alone = [each for each in self._voters if each != self._node_id()]
        return known_properties(self.node, self.server, self._readable, self._right_id, alone)

    @cached_property
    def missing(self) -> Sequence[MissingPartition]:
        """The partitions that the metadata log places in `directory`, and that have no directory with their records
        there (see MissingPartition); none if the metadata has no topic. Raises UnreadableInput."""
        is_known = self.is_log_directory and bool(self._readable.topics)
        return list(self._placement(self.registered_directory_id).missing()) if is_known else []

    @property
    def _emptied(self) -> set[Path]:
        """The directories without a batch whose partitions have their records in another directory: salvage gives that
        one the name, whatever partition.metadata of these says. Raises UnreadableInput."""
        return {each.emptied.path for each in self.missing if each.emptied is not None and each.renamed is not None}

    @property
    def left_aside(self) -> set[Path]:
        """The directories of which Kafka's start serves no record, by all records of the metadata log that can be read.
        Raises UnreadableInput."""
        directories = LogDirectory(self.directory).partitions() if self.is_log_directory else ()
        return {each.path for each in directories if is_left_aside(self._readable, each, self._node_id())}

    def other_replicas(self, partition: TopicPartition) -> list[int]:
        """Return the other nodes on which the metadata log places replicas of a partition. Raises UnreadableInput."""
        topic = self._readable.topics.get(partition.topic) if self.is_log_directory else None
        state = None if topic is None else topic.partitions.get(partition.partition)
        return [] if state is None else [each for each in state.replicas if each != self._node_id()]

    @property
    def abandoned(self) -> Iterator[StartRefused]:
        """The directories with -future that Kafka's start deletes although no other directory has the records of their
        partitions; directories that salvage renames are left out. Yields nothing if no other log directory of the node
        is known. Raises UnreadableInput."""
        if not (self.is_log_directory and self.node.others and self._readable.topics):
            return
        for each, end in self._placement(self.registered_directory_id).abandoned():
            if each.path in self.identities:
                continue
            name = build_directory(DirectoryName(*each.partition))
            outcome = f"Kafka makes an empty {name}, and deletes this, which has the offsets up to {end - 1:,}"
            advice = f"before a start give this, or its copy, the name {name}"
            yield StartRefused(each.path.name, f"no log directory has {name}: {outcome}; {advice}")

    @cached_property
    def promotions(self) -> Mapping[Path, Compared]:
        """The comparisons of future logs with the current logs that Kafka's start replaces by them: by the path of each
        of the two logs that lies in `directory`. Logs that cannot be read, which the recovery reports itself, are not
        compared. Raises UnreadableInput."""
        homes = [self.directory, *self.node.others]
        if not (self.is_log_directory and futures_in(homes) and self._readable.topics):
            return {}
        from kcli.metadata_log.promotion import Comparison

        comparison = Comparison(self.now_ms, clean=self.clean, config=self.config)
        found: dict[Path, Compared] = {}
        for each in self._placement(self.registered_directory_id).promotions():
            logs = [path for path in (each.future, each.current) if path is not None]
            here = [path for path in logs if same_path(path.parent, self.directory)]
            with suppress(UnreadableInput):
                compared = comparison.compare(each) if here else None
                found |= {path: compared for path in here if compared is not None}
        return found

    @property
    def refused_promotions(self) -> list[StartRefused]:
        """The future logs in `directory` that make Kafka's start fail, as their current logs lie in `directory`, too.
        Raises UnreadableInput."""
        refused = [each for path, each in self.promotions.items() if path == each.promotion.future]
        return [
            StartRefused(
                each.promotion.future.name,
                f"Kafka gives it the name {each.promotion.name}, which another directory has (Directory not empty)",
            )
            for each in refused
            if each.promotion.is_refused
        ]

    @property
    def in_the_place(self) -> Collection[Path]:
        """The directories in `directory` that salvage renames to -stray. Some have the name of a `missing` partition
        but not its records, as they belong to a deleted topic or have no batch. The others are the logs in `promotions`
        that `Compared.set_aside` returns. Raises UnreadableInput."""
        missing = {each.in_its_place.path for each in self.missing if each.in_its_place is not None}
        return missing | {path for path, each in self.promotions.items() if each.set_aside == path}

    def _placement(self, directory_id: str | None) -> Placement:
        """Return what the metadata log places in `directory`. directory_id: the id of `directory`; None for that in its
        meta.properties."""
        log_directory, meta = LogDirectory(self.directory), meta_of(self.directory)
        points = self._offsets(FileKind.RECOVERY_POINTS)
        high_watermarks = self._offsets(FileKind.REPLICATION_OFFSETS)
        return Placement(
            self._readable,
            self.registered_node_id or self._node_id(),
            directory_id or (None if meta is None else meta.directory_id),
            log_directory.partitions(),
            {each: max(points.get(each, 0), high_watermarks.get(each, 0)) for each in {*points, *high_watermarks}},
            self._read.removed,
            [*log_directory.misnamed(), *log_directory.adrift()],
            futures=futures_in(self.node.others),
            elsewhere=self.node.elsewhere,
            aside=aside_in(self.node.of_one_node[1:]),
            flat=flat_partitions(self.directory),
        )

    def _offsets(self, kind: FileKind) -> Mapping[TopicPartition, int]:
        """Return the entries of a checkpoint in `directory`; none if it cannot be read, which the recovery reports
        itself, or is another broker's."""
        return {} if kind in self.of_others else LogDirectory(self.directory).legible_offsets(kind)

    @property
    def _readable(self) -> MetadataImage:
        """The metadata of all records that can be read."""
        return self._read.image

    @cached_property
    def _read(self) -> _Read:
        """The result of reading all readable records, also those after damage. If the log has no readable record, those
        of .log files under other names are read; the result is empty if the log cannot be read at all."""
        removed: set[str] = set()
        try:
            image, other_logs = self._replayed(removed)
        except UnreadableInput:  # recovery reports this error when it plans the log
            image, other_logs = MetadataImage(lenient=True), {}
        return _Read(image, removed, other_logs)

    def _replayed(self, removed: set[str]) -> tuple[MetadataImage, Mapping[str, Content]]:
        renamed = {} if self.is_missing else renamed_snapshot(self._log)
        files = {**PartitionView(self._log).original, **renamed}
        image = replay(self._log, files, lambda _: None, around_damage=True, removed=removed)
        if self.is_missing or image.brokers or image.topics or image.metadata_version:
            return image, renamed
        other_logs = renamed_logs(self._log)
        files = {**files, **other_logs}
        image = replay(self._log, files, lambda _: None, around_damage=True, removed=removed)
        return image, other_logs if image.metadata_version else {}

    def _topic_ids(self) -> dict[TopicPartition, str]:
        """The topic ids of the partitions that have a replica on this node by the metadata log, and of those whose
        directory lacks a topic id, if only directories of other partitions tell it."""
        node_id = self._node_id()
        return self._ids_by_directories | {
            TopicPartition(topic.name, number): from_uuid(topic.id)
            for topic in self._readable.topics.values()
            for number, state in topic.partitions.items()
            if node_id is None or node_id in state.replicas
        }

    @cached_property
    def _ids_by_directories(self) -> dict[TopicPartition, str]:
        """The topic ids of the partitions whose directories lack one, if no record that can be read has the topic, and
        the directories of its other partitions agree on an id."""
        directories = [
            (each.partition, legible_topic_id(each.path))
            for home in self._all_directories
            for each in (LogDirectory(home).partitions() if home.is_dir() else ())
            if not each.name.state and each.name.topic not in self._readable.topics
        ]
        ids: dict[str, set[str]] = {}
        for partition, topic_id in directories:
            if topic_id is not None and topic_id not in self._read.removed:
                ids.setdefault(partition.topic, set()).add(topic_id)
        return {
            partition: min(ids[partition.topic])
            for partition, topic_id in directories
            if topic_id is None and len(ids.get(partition.topic, ())) == 1
        }

    @cached_property
    def is_foreign(self) -> bool:
        """Whether the metadata log is that of another cluster. Raises UnreadableInput."""
        metas = [meta_of(each) for each in (self.directory, *self.node.others)]
        ids = [meta.directory_id for meta in metas if meta is not None and meta.directory_id is not None]
        present = (path for path in self._all_directories if path.is_dir())
        directories = [each for path in present for each in LogDirectory(path).partitions()]
        return self.is_log_directory and is_foreign(self._readable, self._read.removed, directories, ids)

    @cached_property
    def bootstrap_refusal(self) -> StartRefused | None:
        """Why Kafka does not start with the file bootstrap.checkpoint; None if Kafka does, or if the path is that of a
        directory, which LogDirectory.refusals reports. Raises UnreadableInput."""
        is_directory = (self.home / FileKind.BOOTSTRAP).is_dir()  # LogDirectory.refusals reports a directory
        return None if is_directory else bootstrap_refusal(self.home)

    @property
    def can_do_without_bootstrap(self) -> bool:
        """Whether bootstrap.checkpoint keeps Kafka from starting, and may be removed so that Kafka starts: the metadata
        log has a metadata.version, so Kafka does not need the records of the file."""
        return self.bootstrap_refusal is not None and bool(self._readable.metadata_version)

    @cached_property
    def left_out(self) -> Sequence[str]:
        """The files of `directory` that salvage does not copy to the recovered directory, or that it removes if it
        recovers `directory` in place; none if salvage is not wanted. This property reads files at its first use: use it
        before files change. Raises UnreadableInput."""
        if not self.wants_salvage:
            return ()
        is_mended = same_path(self.home, self.directory) and self.can_do_without_bootstrap
        bootstrap = (FileKind.BOOTSTRAP,) if is_mended and (self.directory / FileKind.BOOTSTRAP).is_file() else ()
        return (*bootstrap, *(each.file for each in self.blocked if (self.directory / each.file).is_file()))

    @property
    def blocked(self) -> list[StartRefused]:
        """The files and broken symbolic links that have the names of `missing` partitions' directories, so that Kafka
        cannot make these directories. Raises UnreadableInput."""
        found = []
        for each in self.missing:
            path = self.directory / each.directory_name
            if path.is_symlink() and not path.exists():
                found.append(
                    StartRefused(path.name, f"a symbolic link to {path.readlink()}, where nothing is: {BLOCKED}")
                )
            elif path.is_file():
                found.append(StartRefused(path.name, f"a file: {BLOCKED}"))
        return found

    def mended_by(self, refused: StartRefused) -> str | None:
        """Return, in words, how this recovery changes the file that `refused` names, so that Kafka starts; None if it
        does not change the file."""
        path = self.directory / refused.file
        if refused in self.salvaged:
            is_anew = path.name == FileKind.PARTITION_METADATA
            return "written anew" if is_anew else "left out: the metadata is kept in a snapshot"
        if refused.file in self.left_out:
            is_bootstrap = refused.file == FileKind.BOOTSTRAP
            return "left out: the metadata log has what it is for" if is_bootstrap else "left out"
        is_mended = path.name == FileKind.PARTITION_METADATA and path.parent in self.identities
        return "written anew" if is_mended else None

    def take(self, planned: PartitionPlan) -> PartitionPlan:
        """Call `look`, and return the plan to carry out: a plan that salvages the log if salvage is wanted and metadata
        can be saved, otherwise `planned`; if salvage is wanted, with the flipped bits of leader epochs put right, and
        the magics at which Kafka's start would fail. planned: what Kafka's start does to the metadata log in
        `directory`. If this log is a second one, and the broker's own is in `home`, `look` gets the plan of the
        broker's own. Raises UnreadableInput."""
        if self.node.has_second_metadata_log and (self.home / METADATA_DIRECTORY).is_dir():
            self.look_elsewhere()
            return planned
        if self.wants_salvage:
            planned = with_magics_put_right(with_epochs_put_right(planned))
        self.look(planned)
        if not self.wants_salvage or self.salvage is None or self.lost is None:
            return self._with_footer(planned) if self.wants_salvage else planned
        self.is_salvaged = True
        self.salvaged = [each for each in self.refusals if _is_of_log(each)]
        salvaged = with_view(planned, self.salvage.view(self.lost, self.now_ms))
        gaps = plan(
            planned.view.directory,
            planned.options,
            with_salvage=True,
            checked=Checked(removed={name for each in planned.empty_logs for name in each.names}),
            rescue=bool(planned.saved.unread),
        )
        if planned.saved.unread:  # bytes that cannot be read keep Kafka from starting: its start cuts nothing
            salvaged = replace(salvaged, events=gaps.events, lost=gaps.lost)
        return replace(salvaged, saved=gaps.saved)

    def _with_footer(self, planned: PartitionPlan) -> PartitionPlan:
        """Return the plan in which the latest snapshot has its footer again, if it is what Kafka starts with."""
        if self.footer is None or not self.starts:
            return planned
        view, name = planned.view, self.footer.file
        view.put(name, with_footer(view.files[name], self.footer.cut))
        return replace(planned, saved=replace(planned.saved, rebuilt=[*planned.saved.rebuilt, name]))

    def _look_at_footer(self, lost: LostMetadata) -> None:
        """Set `footer`. Add the snapshot to `passed_over` if nothing tells whether it has all records."""
        cut, name = lost.footer, lost.latest
        if cut is None or name is None:
            return
        self.footer = MissingFooter(name, cut, lost.lacks_only_footer)
        if not self.footer.is_all and not lost.contradicted:
            reason = (
                f"{cut.reason}, and nothing tells whether records before it are missing: the log below it is not whole"
                "; Kafka starts with those that are there"
            )
            self.passed_over.append(StartRefused(f"{METADATA_DIRECTORY}/{name}", reason))

    def look(self, planned: PartitionPlan | None) -> None:
        """Find what Kafka's start loses of the metadata and what keeps Kafka from starting, and set the attributes.

        planned: what Kafka's start does to the metadata log; None if the log is missing. Raises UnreadableInput.
        """
        self.has_looked = True
        node_id = self._node_id()
        self._look_at_directory_id()
        self._look_for_directories()
        if self.misplaced_log is not None and not same_path(self.misplaced_log.parent, self.directory):
            reason = f"the metadata log, which belongs in {self.home} (Found unexpected metadata location)"
            self.refusals.append(StartRefused(str(self.misplaced_log), reason))
        if self.bootstrap_refusal is not None:
            self.refusals.append(self.bootstrap_refusal)
        if self.node.may_fail:
            self.passed_over += [StartRefused(each.file, f"{each.reason}: {GOES_OFFLINE}") for each in self.blocked]
        else:
            self.refusals += self.blocked
        self.other_voters = [each for each in self._voters if each != node_id]
        lost = LostMetadata(self.home, planned, self.node.of_one_node, self._read.other_logs)
        self._look_at_footer(lost)
        level = refused_level(lost.image.metadata_version)
        if level is not None:
            self.refusals.append(StartRefused(METADATA_DIRECTORY, level))
        if self.other_voters:
            self.in_quorum = lost.cuts or lost.evidence
            for reason in lost.contradicted:  # the node begins with this snapshot, and fetches no record below it
                self.passed_over.append(StartRefused(METADATA_DIRECTORY, reason))
            self.refusals += lost.unknown_magic()
            self.passed_over += lost.empty_logs()
            if node_id is not None and not lost.signs:
                self._look_for_replicas(lost, node_id)
            self._look_for_topic_ids(lost)
            return
        self.lost = lost
        self.refusals += lost.refusals()
        is_refused = any(map(_is_of_log, self.refusals)) or (planned is not None and planned.refused is not None)
        self._look_at_partitions(lost, node_id, is_refused=is_refused)
        newer = self._newer_partitions(lost, node_id)
        self.is_loss, self.starts = (
            is_refused or bool(newer) or self._is_loss(lost, node_id),
            not is_refused and level is None,
        )
        self.signs = lost.contradicted + ([] if lost.cuts else lost.evidence) + newer
        if self.is_foreign:
            self.is_loss, self.signs = True, [FOREIGN]
        is_suspect = not self.is_loss and self._is_suspect
        is_known = planned is not None or self._can_begin_anew
        if (self.is_loss or is_suspect) and is_known and node_id is not None:
            from kcli.metadata_log.salvage import MetadataSalvage

            directories = [each for path in self._all_directories for each in LogDirectory(path).partitions()]
            strays, ids = self._readable_strays(lost, directories, node_id), self._directory_ids()
            self.salvage = MetadataSalvage(lost, directories, strays, node_id, ids, is_foreign=self.is_foreign)
        if is_suspect:
            self.is_loss = self.is_doubtful = any(map(self.keeps, self.strays))
            if self.is_doubtful:
                self.signs = [SUSPICION]
            else:
                self.salvage = None

    def _readable_strays(
        self, lost: LostMetadata, directories: Sequence[PartitionDirectory], node_id: int
    ) -> list[Stray]:
        """Return those of these directories that Kafka's start would rename to -stray by all records that can be read;
        with them those without a topic id that `_ids_by_directories` tells."""
        found = lost.strays(directories, node_id, lost.readable)
        strays = [each for each in found if isinstance(each, Stray) and not self._is_copy(each)]
        strays = [each for each in strays if each.partition.path not in self._renamed]
        told = self._ids_by_directories
        lacking = [each for each in directories if each.partition in told and not each.name.state]
        return strays + [Stray(each, told[each.partition], "no topic id", is_removed=False) for each in lacking]

    def _look_at_partitions(self, lost: LostMetadata, node_id: int | None, *, is_refused: bool) -> None:
        """Add to `strays` the partitions' directories that Kafka's start renames to -stray, and to `refusals` the
        partition.metadata files that keep Kafka from starting.

        is_refused: whether the metadata log itself keeps Kafka from starting. Then no strays are added: the metadata
        has no topics, so every partition would be a stray.
        """
        directories = LogDirectory(self.directory).partitions()
        if is_refused:
            if node_id is not None:
                self._look_for_replicas(lost, node_id)
            self.refusals += lost.refused_topic_ids(directories)
            return
        for each in lost.strays(directories, node_id):
            if isinstance(each, StartRefused):
                self.refusals.append(each)
            elif each.partition.path not in self._emptied:
                self.strays.append(each)

    def _look_for_topic_ids(self, lost: LostMetadata) -> None:
        """Add to `strays` the directories without a topic id, which Kafka's start renames to -stray whatever the
        metadata is. Used in a quorum, where other voters may have records that this node lacks."""
        directories = LogDirectory(self.directory).partitions()
        found = [each for each in lost.strays(directories, None) if isinstance(each, Stray)]
        self.strays += [each for each in found if each.topic_id is None and each.partition.path not in self._emptied]

    @cached_property
    def _voters(self) -> Collection[int]:
        """The ids of the voters: as configured, or, for voters that can be added and removed, as in quorum-state."""
        return sorted(voters_of(self.server)) or voters(self._log)

    @cached_property
    def renamed_log(self) -> Path | None:
        """The metadata log under another name in `directory`, if the metadata log belongs there, and `directory` has
        none under its own name. None if there is none. Raises UnreadableInput."""
        is_here = same_path(self.home, self.directory) and not (self.directory / METADATA_DIRECTORY).exists()
        return renamed_metadata_log(self.directory) if is_here and self.is_log_directory else None

    @property
    def _can_begin_anew(self) -> bool:
        """Whether salvage can make a metadata log from the partitions' directories: there is no metadata log, not even
        under another name, and the configuration says that this node is a controller and the only voter, and that the
        log belongs in `directory`."""
        is_controller = "controller" in self.server.get("process.roles", "")
        is_here = is_controller and self.is_missing and same_path(self.home, self.directory)
        return is_here and self.renamed_log is None and voters_of(self.server) == {self._node_id()}

    def begin_anew(self) -> Mapping[str, bytes]:
        """The files of the metadata log that this salvage makes from the partitions' directories, by name; empty if
        salvage makes none. Raises UnreadableInput."""
        if not self.wants_salvage or not self._can_begin_anew:
            return {}
        self.look_elsewhere()
        if self.salvage is None or self.lost is None:
            return {}
        self.is_salvaged = True
        return self.salvage.new_log(self.lost, self.now_ms)

    def _newer_partitions(self, lost: LostMetadata, node_id: int | None) -> list[str]:
        """Return, in words, how partitions are newer than the metadata log, by `newer_than`; empty if the log is
        missing, or if other controllers may have the records that the log lacks."""
        image = lost.readable
        if lost.plan is None or any(each != node_id for each in image.controllers):
            return []
        directories = [each for path in self._all_directories for each in LogDirectory(path).partitions()]
        found = list(newer_than(image, directories, node_id))
        return [f"{each}{restored_alone(self.directory)}" for each in found]

    @property
    def _all_directories(self) -> list[Path]:
        """`directory` and the other log directories that the configuration names."""
        return [self.directory, *(each for each in self.log_directories if not same_path(each, self.directory))]

    def _look_for_replicas(self, lost: LostMetadata, node_id: int) -> None:
        """Add to `passed_over` that the metadata has replicas, but none on this node, though `directory` has
        partitions.

        The cause is a wrong node.id: it is unlikely that a log lags so far behind those of other voters that it lacks
        all replicas.
        """
        topics = lost.image.topics.values()
        owners = {each for topic in topics for state in topic.partitions.values() for each in state.replicas}
        partitions = [each for each in LogDirectory(self.directory).partitions() if each.name.topic != METADATA_TOPIC]
        is_refused = self.node.configured_node_id is not None
        if partitions and owners and node_id not in owners and not is_refused:
            owners_text = f"{'nodes' if len(owners) > 1 else 'node'} {', '.join(map(str, sorted(owners)))}"
            reason = f"node.id is {node_id}, and the metadata log knows replicas of {owners_text} only"
            if self.registered_node_id is not None:
                reason += f"; node {self.registered_node_id} has registered this directory.id"
            outcome = "Kafka starts, and renames all partitions to -stray"
            if self.registered_node_id is not None:
                outcome = (
                    "Kafka renames all partitions to -stray, then ends, as the controller refuses its registration"
                )
            self.passed_over.append(StartRefused(FileKind.META_PROPERTIES, f"{reason}: {outcome}"))

    def _look_for_directories(self) -> None:
        """Add to `passed_over` each directory.id in which the metadata log places partitions that have no directory, or
        that have one here and no leader, if no log directory of the configuration has this id."""
        homes = [self.directory, *self.node.others]
        ids = [None if meta is None else meta.directory_id for meta in map(meta_of, homes)]
        is_known = any(same_path(each, self.directory) for each in self.log_directories) and not self.node.unformatted
        if not is_known or None in ids or self.registered_node_id is not None or self.is_foreign:
            return
        known = {each for each in (*ids, self.registered_directory_id) if each is not None}
        placement = self._placement(None)
        for directory_id, partitions in placement.in_absent_directories(known).items():
            names = f"{partitions[0]}" if len(partitions) == 1 else f"{partitions[0]}..{partitions[-1]}"
            reason = f"{_of_lost_directory(directory_id, partitions)} ({names})"
            outcome = "Kafka starts, makes empty directories of them, and those without other replicas have no leader"
            if self.node.same:
                outcome = "its disk may belong in the place of the entry of log.dirs that is no directory of its own"
            self.passed_over.append(StartRefused(METADATA_DIRECTORY, f"{reason}: {outcome}"))
        for directory_id, partitions in placement.without_leader(known).items():
            reason = (
                f"{_of_lost_directory(directory_id, partitions)} that {'is' if len(partitions) == 1 else 'are'} here"
            )
            self.passed_over.append(StartRefused(METADATA_DIRECTORY, f"{reason}: {without_leader_text(partitions)}"))

    def _look_at_directory_id(self) -> None:
        """Add to `passed_over` that meta.properties has another directory.id than the metadata log has for `directory`,
        unless this run writes the right one."""
        registered, meta = self.registered_directory_id, meta_of(self.directory)
        # other checks report a meta.properties with which Kafka does not start
        if meta is None or unusable(meta) is not None or meta.directory_id in self.node.ids_elsewhere:
            return
        if registered is not None and self.mended_directory_id is None:
            found = "is missing" if meta.directory_id is None else f"is {meta.directory_id}"
            reason = f"directory.id {found}, and the metadata log places the partitions in {registered}"
            node_id = self.registered_node_id or self._node_id()
            outcome = f"Kafka starts, and {outcome_of_other_id(self._readable, node_id, registered)}"
            self.passed_over.append(StartRefused(FileKind.META_PROPERTIES, f"{reason}: {outcome}"))

    def look_elsewhere(self) -> None:
        """Plan what Kafka's start does to the metadata log, and call `look` with this plan. The caller uses this method
        in place of `take` if the log is missing, or lies in another log directory than `directory`.

        Raises UnreadableInput.
        """
        options = LoadOptions(now_ms=self.now_ms, is_metadata=True)
        self.look(None if self.is_missing else plan(self._log, options))

    def _is_loss(self, lost: LostMetadata, node_id: int | None) -> bool:
        """Whether lost records matter: partitions with records become strays, in any log directory of the node, or the
        metadata after Kafka's start differs from that of all readable records (`LostMetadata.readable`), or the latest
        snapshot has lost records."""
        if not lost.signs:
            return False
        if lost.is_torn:
            return True
        beside = [each for path in self.node.of_one_node[1:] for each in LogDirectory(path).partitions()]
        strays = [*self.strays, *(each for each in lost.strays(beside, node_id) if isinstance(each, Stray))]
        is_older = any(True for of in (differences, lowered_epochs) for _ in of(lost.readable, lost.image))
        return is_older or any(map(self._is_missed, strays))

    @property
    def _is_suspect(self) -> bool:
        """Whether the end of a sound metadata log may be missing: partitions of topics that the log does not delete
        become strays, and the broker was not shut down cleanly."""
        is_missed = any(self._is_missed(stray) for stray in self.strays)
        return is_missed and not LogDirectory(self.directory).was_shut_down_cleanly

    def _is_missed(self, stray: Stray) -> bool:
        """Whether the stray's directory may hold records of a partition that the cluster had."""
        return stray.is_missed and stray.partition.path not in self._renamed and not self._was_never_here(stray)

    @property
    def _renamed(self) -> set[Path]:
        """The directories that have, under another name, the records of partitions in `missing`: they are no sign of a
        partition that the metadata log lacks. Raises UnreadableInput."""
        return {each.renamed.path for each in self.missing if each.renamed is not None}

    def _was_never_here(self, stray: Stray) -> bool:
        """Whether nothing shows that a broker has served the partition from this directory: it is `_is_unlisted`, and
        has no batch that no other directory of the topic has."""
        return self._is_unlisted(stray) and (not end_offset(stray.partition.path) or self._is_copy(stray))

    def _is_copy(self, stray: Stray) -> bool:
        """Whether the directory is `_is_unlisted`, as a copy of another partition's directory of the topic."""
        topic, path = stray.partition.name.topic, stray.partition.path
        others = (each.path for each in LogDirectory(path.parent).partitions() if each.name.topic == topic)
        return self._is_unlisted(stray) and any(is_copy(path, each) for each in others if each != path)

    def _is_unlisted(self, stray: Stray) -> bool:
        """Whether the metadata has the topic but not the partition, and neither of the two offset checkpoints has the
        partition, though a broker writes them every few seconds: the directory is a copy of another partition's, or the
        partition was added right before a crash. False if one of the checkpoints is empty or cannot be read."""
        if stray.topic_id is None:
            return False
        topic = self._readable.topic_by_id(to_uuid(stray.topic_id))
        if topic is None or stray.partition.name.partition in topic.partitions:
            return False
        log_directory = LogDirectory(stray.partition.path.parent)
        kinds = FileKind.REPLICATION_OFFSETS, FileKind.RECOVERY_POINTS
        known = [log_directory.legible_offsets(kind) for kind in kinds]
        return all(known) and not any(stray.partition.partition in each for each in known)

    def keeps(self, stray: Stray) -> bool:
        """Whether the partition of a stray stays in service after salvage."""
        identity = self.identities.get(stray.partition.path)
        if identity is not None:
            image = self._readable if self.salvage is None else self.salvage.image
            return identity.partition.topic in image.topics
        if self.salvage is None or stray.topic_id is None or stray.partition.name.state:
            return False
        return why_stray(self.salvage.image, stray.partition.name.partition, stray.topic_id, self._node_id()) is None

    def _directory_ids(self) -> dict[Path, str]:
        metas = {each: meta_of(each) for each in [self.directory, *self.log_directories]}
        found = {path: meta.directory_id for path, meta in metas.items() if meta and meta.directory_id}
        return found | ({self.directory: self.mended_directory_id} if self.mended_directory_id else {})

    def _node_id(self) -> int | None:
        if self.mended_node_id is not None:
            return self.mended_node_id
        text = self.server.get("node.id", "")
        if text.isascii() and text.isdecimal():
            return int(text)
        meta = meta_of(self.directory)
        if meta is not None and meta.node_id is not None:
            return meta.node_id
        brokers = self._readable.brokers
        return next(iter(brokers)) if len(brokers) == 1 else None


def _is_of_log(refused: StartRefused) -> bool:
    """Whether the file that `refused` names is in the metadata log's directory: salvage repairs such a file."""
    return refused.file.startswith(f"{METADATA_DIRECTORY}/")


def voters(directory: Path) -> Sequence[int]:
    """Return the ids of the voters in quorum-state; none if the file is missing, is damaged or has no voters."""
    path = directory / FileKind.QUORUM_STATE
    try:
        return quorum_state.parse(read_whole(path)).current_voters or () if path.exists() else ()
    except (FormatError, UnreadableInput):
        return ()


def _of_lost_directory(directory_id: str, partitions: Sequence[TopicPartition]) -> str:
    """Return, in words, that no log directory has an id, and how many partitions the metadata log places there."""
    count = f"{len(partitions):,} partition{'s' if len(partitions) > 1 else ''}"
    return f"no log directory has directory.id {directory_id}, in which the metadata log places {count}"
