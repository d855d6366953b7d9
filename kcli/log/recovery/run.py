"""Recovery of one partition's directory, or of a broker's log directory with its partitions and checkpoints.

    recovery = Recovery(directory, now_ms=...)
    recovery.plans()              yields what a start would do; writes nothing
    recovery.write_to(target)     writes a recovered copy to a new directory
    recovery.in_place(name)       recovers in place, under Kafka's lock, with a backup of the removed bytes

Partitions are read by several threads, like Kafka's recovery threads. Afterwards the recovery points are the log end
offsets, since all is on disk. If the clean-shutdown marker made this start a clean one, it is kept, so that Kafka's
next start treats the logs in the same way. After any other start, and with salvage, there is no marker, so that the
controller learns at the broker's registration that records may be lost (KIP-966). A high watermark changes only if it
is beyond the log end offset.
"""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import (
    INTERNAL_TOPICS,
    METADATA_DIRECTORY,
    METADATA_TOPIC,
    NEVER_TIERED,
    DirectoryName,
    FileKind,
    FileName,
    build,
    build_directory,
    parse_directory,
)
from formats.properties import PartitionMetadata, build_partition_metadata
from formats.properties import build as build_properties
from formats.properties import parse as parse_properties
from kcli.errors import KcliError, StartRefused, UnreadableInput, error_text
from kcli.log.attributes import FAILS_LATER, Sealed, sealed_files
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.flat_files import flat_files
from kcli.log.linked_files import start_with_links
from kcli.log.log_directory import (
    DirectoryLock,
    LogDirectory,
    PartitionDirectory,
    holds_segments,
    is_log_directory,
    partition_named,
    read_meta_properties,
    unusable,
)
from kcli.log.new_directory import TargetExists, new_directory
from kcli.log.partition_directory import name_for_end, rename_for_end
from kcli.log.partition_view import FileRange
from kcli.log.producer_state import DEFAULT_EXPIRATION_MS
from kcli.log.recovery.apply import MOVED, apply_in_place, back_up, in_the_way, refuse_in_the_way, write_copy
from kcli.log.recovery.backup import Backup
from kcli.log.recovery.coordinator_keys import KEYS_OF
from kcli.log.recovery.coordinator_load import Altered, Disorder, load_end
from kcli.log.recovery.coordinator_losses import hidden_state, lost_state, overwritten_state
from kcli.log.recovery.doubtful_ends import is_doubtful
from kcli.log.recovery.entries_elsewhere import entries_elsewhere
from kcli.log.recovery.epoch_starts import may_be_made_anew, start_by_epochs
from kcli.log.recovery.exchanged import exchanged_logs
from kcli.log.recovery.identity import Identity
from kcli.log.recovery.loader import Event, EventKind, LoadOptions
from kcli.log.recovery.misdirected import Home
from kcli.log.recovery.node_directories import (
    GOES_OFFLINE,
    MAY_GO_OFFLINE,
    NodeDirectories,
    ends_after,
    ends_start,
    same_path,
)
from kcli.log.recovery.older_topics import of_older_topic, strays_by_partition
from kcli.log.recovery.others_checkpoints import OthersCheckpoint
from kcli.log.recovery.partition_copies import Copy, Ranges, count
from kcli.log.recovery.plan import NOT_CHECKED, PartitionPlan, misdirected, plan
from kcli.log.recovery.retention import Retention
from kcli.log.recovery.salvage import Checked, LogStart
from kcli.log.recovery.shared import told_directories, told_files
from kcli.log.recovery.snapshots import reached_by_snapshots
from kcli.log.recovery.stray_copies import stray_copies
from kcli.log.recovery.wrong_ages import expired
from kcli.log.recovery.wrong_log_starts import (
    ONLY_COMPACTED,
    WrongLogStarts,
    hidden_offsets,
    wrong_log_starts,
)
from kcli.log.source import read_whole
from kcli.log.threads import in_order, thread_count
from kcli.log.trash import FILES, INFO, is_trash
from kcli.printable import is_utf8
from kcli.protocol.topic_partition import TopicPartition

MAX_THREADS = 8
FOREVER_MS = 2**31 - 1
CHECKPOINTS = (FileKind.RECOVERY_POINTS, FileKind.LOG_START_OFFSETS, FileKind.REPLICATION_OFFSETS)
MENDED = (*CHECKPOINTS, FileKind.CLEANER_OFFSETS)


def _has_swap(directory: Path) -> bool:
    try:
        return any(path.name.endswith(f"{FileKind.LOG}.swap") for path in directory.iterdir())
    except OSError:  # the plan reports this error
        return False


def no_configs(_: str) -> LogConfig:
    """Return Kafka's default configuration, whatever the topic."""
    return LogConfig()


@dataclass
class Recovery:
    """The recovery of one partition's directory, or of a log directory.

    clean        whether the broker was shut down cleanly; None: the clean-shutdown marker decides
    advance      called with the number of bytes checked since the last call, from any thread
    metadata     receives the plan of the metadata log's start, and returns the plan to carry out, which may be salvaged
    identities   the identities that salvage gives to directories whose name and topic id do not agree, by path
    in_the_place the directories that have the name of a partition but not its records: they are of a deleted topic, or
                 have no batch; and, where Kafka's start replaces a current log with a future log, the directory of the
                 worse one of these two. Salvage makes them strays
    node_id      the node.id that salvage writes into meta.properties; None if salvage does not change it
    directory_id the directory.id that salvage writes into meta.properties; None if salvage does not change it
    properties   the text of the meta.properties that salvage writes in place of a missing or damaged one; None if
                 salvage cannot, or need not, write one
    has_new_cluster_id
                 whether its cluster.id is a new one, as no file has that of the cluster
    metadata_log the files of the metadata log that salvage makes anew, by name; empty if it makes none
    left_out     the files of the log directory that salvage leaves out
    exchanged_by_keys  the .log files that two partitions have exchanged, as the keys of their records show: by the path
                 where each file belongs, the path where it is now
    checked      called for salvage: returns the results of a check of all files, by the directory of the partition
    keeps_all    returns whether a partition's topic was never compacted, according to the metadata log
    finds_gaps   returns whether a dry run looks for offsets between two segments of a partition that no file has
    count        returns the number of partitions of a topic in the metadata log; 0 if that is not known
    of_others    the checkpoints that another broker wrote: a start uses them, but they say nothing about the logs
                 here
    finds_points whether there is a recovery-point-offset-checkpoint for the start; False: the file is set aside
    foreign      by the name of a partition's directory, the .log files in it that are another partition's
    node         the other log directories of the broker; None if there are none, or they are not known
    complete     called with the recovered log directory, the copy or the original, once all its files are written;
                 not called if only a partition's directory is recovered
    looks_around whether to look through the whole log directory for `refusals`, `passed_over` and `failures`; without
                 it these stay empty, and a partition's plan is the same
    refusals     what keeps Kafka from starting
    passed_over  files and directories with which Kafka starts, but which it ignores, or uses in a harmful way
    failures     the I/O errors with which Kafka starts, but without the log directory; `passed_over` has these, too
    unreadable   the partitions that cannot be read, or with which kcli fails; complete after the last plan
    backup       the path of the backup of the bytes removed in place; None if there is no backup

    Raises UnreadableInput if the directory is neither a partition's nor a broker's.
    """

    directory: Path
    now_ms: int
    clean: bool | None = None
    salvage: bool = False
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS
    config: Callable[[str], LogConfig] = no_configs
    advance: Callable[[int], None] = lambda _: None
    disk: Disk = field(default_factory=Disk)
    threads: int | None = None
    metadata: Callable[[PartitionPlan], PartitionPlan] = lambda planned: planned
    identities: Mapping[Path, Identity] = field(default_factory=dict)
    in_the_place: Collection[Path] = ()
    node_id: int | None = None
    directory_id: str | None = None
    properties: str | None = None
    has_new_cluster_id: bool = False
    metadata_log: Mapping[str, bytes] = field(default_factory=dict)
    left_out: Collection[str] = ()
    exchanged_by_keys: Mapping[Path, Path] = field(default_factory=dict)
    checked: Callable[[], Mapping[Path, Checked]] = dict
    keeps_all: Callable[[TopicPartition], bool] = lambda _: False
    finds_gaps: Callable[[TopicPartition], bool] = lambda _: False
    count: Callable[[str], int] = lambda _: 0
    of_others: Mapping[FileKind, OthersCheckpoint] = field(default_factory=dict)
    finds_points: bool = True
    foreign: Mapping[str, Collection[str]] = field(default_factory=dict)
    node: NodeDirectories | None = None
    complete: Callable[[Path], None] = lambda _: None
    looks_around: bool = True
    refusals: list[StartRefused] = field(default_factory=list)
    passed_over: list[StartRefused] = field(default_factory=list)
    failures: list[StartRefused] = field(default_factory=list)
    unreadable: list[UnreadableInput] = field(default_factory=list)
    backup: Path | None = None
    _foretells: bool = field(default=False, init=False)
    _ends_later: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.directory.is_dir():
            raise UnreadableInput(str(self.directory), "no such directory")
        self.is_partition = holds_segments(self.directory)
        holder = self.directory.absolute().parent if self.is_partition else self.directory
        self._has_holder = is_log_directory(holder)
        self._holder = LogDirectory(holder)
        if self.is_partition:
            name = parse_directory(self.directory.absolute().name) or DirectoryName(self.directory.absolute().name, -1)
            self.partitions = [PartitionDirectory(self.directory, name)]
        else:
            self.partitions = [self._mended(each) for each in self._holder.expected_partitions()]
            self.partitions += self._under_other_names({each.path for each in self.partitions})
            self.unreadable = self._holder.unreadable()
        self._shared = {} if self.is_partition else self._holder.shared_directories()
        """The partitions' directories that are in fact the directory of another partition, each with that directory:
        nothing is written for them."""
        self._own = [each for each in self.partitions if each.path not in self._shared]
        self._linked, self._sealed = set[str](), set[str]()
        """The files in `refusals` that do not keep Kafka from starting with a copy: the links to files with several
        names, as a copy has a separate file for each name; and the file that stands for all files that no user can
        change, as those of a copy lack the attribute."""
        if self.looks_around:
            self._look_through_holder()
        self._copies = () if self.node is None or self.is_partition else self.node.copies
        if self.node is not None and self._has_holder:
            self._look_at(self.node)
        is_clean = self._has_holder and self._holder.was_shut_down_cleanly
        is_broker = any(each.name.topic != METADATA_TOPIC for each in self.partitions)  # controllers write no marker
        self.lacks_marker = self.clean is None and self._has_holder and is_broker and not is_clean
        """Whether the clean-shutdown marker of a broker is missing."""
        self.finds_marker = self.clean is None
        """Whether the clean-shutdown marker decides about `clean`, because the caller has passed None."""
        self._pass_over_others(starts_clean=is_clean if self.clean is None else self.clean)
        self._keeps_marker = is_clean and self.clean is not False and not self.salvage
        if self.clean is None:  # salvage leaves no marker: the next start then checks the active segments
            self.clean = is_clean and not self.salvage
        self._second = [] if self.is_partition else [each.path for each, _ in self._holder.duplicates()]
        self._second += [each.path for each in self._copies if not each.is_kept]
        self._set_aside = {*self._second, *self.in_the_place} if self.salvage else set()
        """The directories that salvage makes strays: those of deleted topics, as Kafka's start does; those without a
        batch, if another directory has the partition's records; and second directories of a partition, with which Kafka
        does not start."""
        self._completing = {each.path for each in self._copies if each.completing and not each.is_kept}
        """The directories whose files complete a log in another log directory. A recovery in place leaves them as they
        are, since it moves no file to another log directory."""
        self.exchanged = {} if self.is_partition else exchanged_logs(self._own) | dict(self.exchanged_by_keys)
        """The .log files that were exchanged: by the path at which a file belongs, the path at which it is now."""
        self._second_metadata_log = None if self.node is None else self.node.second_metadata_log
        """The metadata log that a copy leaves out: Kafka does not start with it."""
        self._puts_in_place = self._rescues = self.salvage
        self._recovery_points = self._offsets(FileKind.RECOVERY_POINTS) if self.finds_points else {}
        self._high_watermarks = self._offsets(FileKind.REPLICATION_OFFSETS)
        self._log_starts = self._offsets(FileKind.LOG_START_OFFSETS)
        self.wrong_starts, self._cleaned = self._find_wrong_starts(), self._without_elsewhere()
        """The log start offsets that no broker has written, which salvage leaves out; None if there are none. And the
        entries that recovery keeps of cleaner-offset-checkpoint; None if it leaves out none."""
        self._checked = self._with_copies(self._with_completing(self.checked())) if self.salvage else {}

    @property
    def lacks_points(self) -> bool:
        """Whether a broker that was shut down cleanly has left no recovery points: recovery writes them."""
        if self.is_partition or not (self._has_holder and self._holder.was_shut_down_cleanly):
            return False
        is_broker = any(each.name.topic != METADATA_TOPIC for each in self.partitions)
        return is_broker and not (self._holder.path / FileKind.RECOVERY_POINTS).exists()

    def _under_other_names(self, known: Collection[Path]) -> Iterator[PartitionDirectory]:
        """Yield the directories in `identities` besides those that are `known`: their names are no partition's, or they
        lie in another directory."""
        for path, identity in self.identities.items():
            if path not in known:
                yield PartitionDirectory(path, DirectoryName(*identity.partition))

    @cached_property
    def from_others(self) -> Collection[Path]:
        """The directories in other log directories of the broker that have the records of partitions which are missing
        here. A copy gets these partitions; a recovery in place leaves the directories where they are."""
        others = () if self.node is None else self.node.others
        return {each.path for each in self.partitions if any(same_path(each.path.parent, home) for home in others)}

    @cached_property
    def made_of_flat(self) -> Collection[Path]:
        """The directories that a copy gets for partitions whose files lie flat in the log directory; a recovery in
        place leaves these files where they are."""
        return {each.path for each in self.partitions if not self.is_partition and flat_files(each.path)}

    def _pass_over_others(self, *, starts_clean: bool) -> None:
        """Add to `passed_over` the checkpoints of other brokers that make the start do harm. starts_clean: whether the
        start is one after a clean shutdown."""
        if not self.is_partition:
            harmful = [each for each in self.of_others.values() if each.is_harmful(is_clean=starts_clean)]
            self.passed_over += [StartRefused(each.kind, each.reason(is_clean=starts_clean)) for each in harmful]

    def _without_elsewhere(self) -> dict[TopicPartition, int] | None:
        """Return the entries of cleaner-offset-checkpoint that belong in this log directory, and add the file to
        `passed_over`; None if all belong here."""
        if self.is_partition or self.node is None or not self.looks_around:
            return None
        others = [each for each in self.node.of_one_node[1:] if each not in self.node.doubles]
        found = entries_elsewhere(self._holder.path, others, self._set_aside)
        if found is None:
            return None
        self.passed_over.append(StartRefused(FileKind.CLEANER_OFFSETS, found.reason))
        taken_in = {each.partition for each in self.partitions if each.path in self.from_others}
        return {**found.kept, **{each: offset for each, offset in found.entries.items() if each in taken_in}}

    def _with_completing(self, checked: Mapping[Path, Checked]) -> Mapping[Path, Checked]:
        """Return `checked`, with the files of other log directories added that complete the logs here
        (Copy.completing), except indexes and producer snapshots, which recovery makes again."""
        completed = {}
        for each in self._copies:
            if each.completing and each.is_kept:
                own = checked.get(each.path, NOT_CHECKED)
                files = {name: path for name, path in each.completing.items() if path.suffix in {FileKind.LOG, ""}}
                lost = [ends for ends in own.lost if build(FileName(FileKind.LOG, ends[0])) not in files]
                completed[each.path] = replace(own, renamed={**own.renamed, **files}, lost=lost)
        return {**checked, **completed}

    def _with_copies(self, checked: Mapping[Path, Checked]) -> Mapping[Path, Checked]:
        """Return `checked`, with the directories added that may be copies of the partitions' directories."""
        others = () if self.node is None else self.node.others
        copies = stray_copies(self._holder, self.count, others) if self._has_holder else {}
        found = [each for each in self.partitions if each.partition in copies and not each.name.state]
        return {
            **checked,
            **{
                each.path: replace(checked.get(each.path, NOT_CHECKED), copies=copies[each.partition])
                for each in found
                if each.path not in copies[each.partition]
            },
        }

    def _find_wrong_starts(self) -> WrongLogStarts | None:
        """Return the entries of log-start-offset-checkpoint that no broker can have written, and add that file to
        `passed_over`. Return None if there are none, or if `looks_around` is False."""
        if not self._has_holder or not self.looks_around:
            return None
        wrong = wrong_log_starts(self._holder.path, self.config, self.of_others.get(FileKind.LOG_START_OFFSETS))
        if wrong is None or not any(wrong.is_wrong(each.partition) for each in self.partitions):
            return None
        self.passed_over.append(StartRefused(FileKind.LOG_START_OFFSETS, wrong.reason))
        return wrong

    def _leaves_out_start(self, partition: TopicPartition) -> bool:
        """Whether salvage leaves out the partition's log start offset."""
        return self.salvage and self.wrong_starts is not None and self.wrong_starts.is_wrong(partition)

    def _right_start(self, directory: PartitionDirectory) -> int:
        """Return the log start offset with which salvage replaces a wrong one, by the leader epochs; 0, which stands
        for the first segment, if they show no deleted records or the topic is only compacted."""
        is_compacted = self.wrong_starts is not None and directory.partition in self.wrong_starts.impossible
        return 0 if is_compacted else start_by_epochs(directory.path)

    def _look_through_holder(self) -> None:
        """Add to `refusals` the faults of the log directory with which Kafka does not start, and to `passed_over` those
        with which it starts."""
        if self._has_holder or not self.is_partition:
            self.refusals = self._holder.refusals()
        if self._has_holder and any(each.name.topic != METADATA_TOPIC for each in self.partitions):
            self._look_with_partitions()
        if self._has_holder and not (self._holder.path / FileKind.META_PROPERTIES).exists():
            reason = "is missing: nothing says whose log directory this is"
            self.refusals.insert(0, StartRefused(FileKind.META_PROPERTIES, reason))

    def _look_with_partitions(self) -> None:
        """Add to `refusals` and `passed_over` the faults at which a start looks only in a log directory that has
        partitions."""
        self.passed_over = self._holder.passed_over()
        self.passed_over += [
            StartRefused(each.path.name, "Kafka does not see this directory: its name is not UTF-8")
            for each in self.partitions
            if not is_utf8(each.path.name)
        ]
        self.passed_over += told_directories(self._holder, self._shared)
        self.passed_over += told_files(self._holder)
        refused, harmed = start_with_links(self._holder.path)
        self._linked = {each.file for each in refused}
        self.refusals += refused
        self.passed_over += harmed
        self._look_at_attributes()
        try:
            self._holder.offsets(FileKind.REPLICATION_OFFSETS)
        except StartRefused as refused:  # a start reads this checkpoint only if there is a log
            if refused.file not in {each.file for each in self.passed_over}:
                self.refusals.append(refused)

    def _look_at_attributes(self) -> None:
        """Add to `refusals` the files that no user can change, because of an attribute of chattr, if a start writes
        them; to `passed_over` other such files, if there are only these. There is one text for all."""
        found = [each for each in sealed_files(self._holder.path) if not each.is_seldom_written]
        if not found:
            return
        first = min(found, key=lambda each: (not each.refuses, each.path))
        told = StartRefused(str(first.path.relative_to(self._holder.path)), _sealed_text(first, len(found)))
        self._sealed = {told.file}
        (self.refusals if first.refuses else self.passed_over).append(told)

    def _look_at(self, node: NodeDirectories) -> None:
        """Add to `refusals` what keeps Kafka from starting with all log directories of the broker. If the broker can
        start without this log directory, an I/O error in it only takes the directory offline: these errors go from
        `refusals` to `failures`, and a text about each to `passed_over`. If the broker's other log directories are not
        known, these errors stay in `refusals`, with a text that says that Kafka may start without this directory."""
        failing = {each.file for each in self._holder.failures()} | {FileKind.REPLICATION_OFFSETS} | self._sealed
        failing -= self._refuse_loaded(node, failing)
        if node.may_have_others:
            self.refusals = [
                StartRefused(each.file, f"{each.reason}{MAY_GO_OFFLINE}", each.position)
                if each.file in failing
                else each
                for each in self.refusals
            ]
        if node.may_fail:
            self.failures = [each for each in self.refusals if each.file in failing]
            self.refusals = [each for each in self.refusals if each not in self.failures]
            illegible = list(self._illegible_epochs())
            self.failures += illegible
            self._ends_later = self._ending(node) if illegible else None
            self.passed_over += [
                StartRefused(each.file, f"{each.reason}: {self.outcome_of(each)}", each.position)
                for each in self.failures
            ]
        self.refusals += node.refusals()
        for each in self._copies:
            if each.left_out is None:
                self.refusals.append(StartRefused(each.path.name, _copy_text(each)))
            elif each.left_out == each.kept == each.other or (each.completing and each.is_kept and not self.salvage):
                self.passed_over.append(StartRefused(each.path.name, _copy_text(each)))

    def outcome_of(self, failure: StartRefused) -> str:
        """Return, in words, what Kafka's start does with one of `failures`."""
        is_loaded = Path(failure.file).name == FileKind.LEADER_EPOCHS and self._ends_later is not None
        return f"{GOES_OFFLINE}{ends_after(self._ends_later or '') if is_loaded else ''}"

    def _refuse_loaded(self, node: NodeDirectories, failing: Collection[str]) -> set[str]:
        """Return the checkpoints that a start reads before it loads the logs, if their I/O error ends the start, and
        change the text about them in `refusals`. The other log directories do not matter then: Kafka ends where it
        loads a log of a directory that is offline, and has to read or to rename the log."""
        early = (
            {FileKind.RECOVERY_POINTS, FileKind.LOG_START_OFFSETS} & {*failing} & {one.file for one in self.refusals}
        )
        is_loaded = FileKind.META_PROPERTIES not in failing and (node.may_fail or node.may_have_others)
        ending = self._ending(node) if early and is_loaded else None
        if ending is None:
            return set()
        self.refusals = [
            StartRefused(each.file, f"{each.reason}{ends_start(ending)}", each.position) if each.file in early else each
            for each in self.refusals
        ]
        return {*early}

    def _ending(self, node: NodeDirectories) -> str | None:
        """Return, in words, the partition's directory at which a start ends, if it loads it when the log directory is
        already offline; None if there is none. Kafka reads the first record of an open transaction, and renames the
        directory of a stray."""
        for each in self.partitions:
            if each.name.topic == METADATA_TOPIC:
                continue
            if not each.name.state and node.is_stray(each):
                return f"{each.path.name}, which becomes a stray"
            with suppress(KcliError, OSError):  # `unreadable` will have this error
                planned = next(Recovery(each.path, self.now_ms, clean=self.clean, looks_around=False).plans(), None)
                if planned is not None and planned.refused is None and planned.open_transactions:
                    return f"{each.path.name}, which has an open transaction"
        return None

    def _illegible_epochs(self) -> Iterator[StartRefused]:
        """Yield the leader-epoch-checkpoints that Kafka cannot read when it loads the logs: to Kafka each of them is an
        I/O error of the log directory."""
        for directory in self.partitions:
            path = directory.path / FileKind.LEADER_EPOCHS
            name = f"{directory.path.name}/{path.name}"
            try:
                if path.is_file():
                    parse_leader_epochs(read_whole(path))
            except FormatError as error:
                yield StartRefused(name, error.reason, error.position)
            except (UnreadableInput, OSError):  # `unreadable` will have this error
                continue

    def is_reached(self, refused: StartRefused) -> bool:
        """Whether a start gets to the file that `refused` names. It does not if the load of the same partition's log
        fails at its leader-epoch-checkpoint, which takes the log directory offline."""
        failing = {Path(each.file).parent for each in self.failures if Path(each.file).name == FileKind.LEADER_EPOCHS}
        return Path(refused.file).parent not in failing

    def goes_offline(self, planned: PartitionPlan) -> bool:
        """Whether the load of a partition's log fails at a file in `failures`, and so takes only the log directory
        offline."""
        name = "" if planned.refused is None else f"{planned.name}/{planned.refused.file}"
        return name in {each.file for each in self.failures}

    def _mended(self, directory: PartitionDirectory) -> PartitionDirectory:
        """Return the directory with the name that salvage gives to it, or unchanged if salvage gives it none."""
        identity = self.identities.get(directory.path)
        return directory if identity is None else replace(directory, name=DirectoryName(*identity.partition))

    @cached_property
    def _strays(self) -> Mapping[TopicPartition, list[Path]]:
        return strays_by_partition(self._holder.partitions()) if self._has_holder else {}

    @property
    def _homes(self) -> Sequence[Path]:
        """The known log directories of the node."""
        others = () if self.node is None else self.node.others
        return [self._holder.path, *others] if self._has_holder else others

    def _offsets(self, kind: FileKind) -> dict[TopicPartition, int]:
        try:
            return self._holder.offsets(kind) if self._has_holder else {}
        except StartRefused:  # `refusals` or `passed_over` has this error
            return {}

    def plans(self) -> Iterator[PartitionPlan]:
        """Yield the plan of each partition that can be read, by topic and number: what a start does to it, or with
        salvage what salvage does."""
        self._foretells = not self.salvage
        return (planned for _, planned in self._plans(self._own if self.salvage else self.partitions))

    def _plans(self, partitions: Sequence[PartitionDirectory]) -> Iterator[tuple[PartitionDirectory, PartitionPlan]]:
        threads = thread_count(MAX_THREADS) if self.threads is None else self.threads
        for directory, planned in in_order(self._planned, partitions, threads, ahead=threads):
            if isinstance(planned, UnreadableInput):
                self.unreadable.append(planned)
            else:
                yield directory, planned

    def _planned(self, directory: PartitionDirectory) -> tuple[PartitionDirectory, PartitionPlan | UnreadableInput]:
        try:
            return directory, self._plan(directory)
        except UnreadableInput as error:
            return directory, error
        except Exception as error:  # noqa: BLE001 (a bug of ours ends one partition, not the recovery of the others)
            return directory, _failed(directory.path, error)

    def _plan(self, directory: PartitionDirectory) -> PartitionPlan:
        is_metadata = directory.name.topic == METADATA_TOPIC
        is_set_aside = directory.path in self.in_the_place
        config = self.config(directory.name.topic)
        is_out = is_metadata or is_set_aside
        reached, reached_by, checkpointed = (0, "", 0) if is_out else self._reached(directory)
        log_start = 0 if is_metadata else self._log_starts.get(directory.partition, 0)
        leaves_out_start = not is_metadata and self._leaves_out_start(directory.partition)
        right_start = self._right_start(directory) if leaves_out_start else log_start
        is_tiered = config.remote_storage and not config.compact and directory.name.topic not in NEVER_TIERED
        deleted_below = 0
        if not (is_metadata or directory.name.state or leaves_out_start or config.only_compact or is_tiered):
            deleted_below = start_by_epochs(directory.path)
        # A raised log start offset deletes the segments below.
        is_certain = deleted_below > log_start and not may_be_made_anew(directory.path, deleted_below)
        raises_start = self.salvage and is_certain
        right_start = deleted_below if raises_start else right_start
        options = LoadOptions(
            now_ms=self.now_ms,
            clean=bool(self.clean) and not is_metadata,
            recovery_point=0 if is_metadata else self._recovery_points.get(directory.partition, 0),
            log_start_offset=right_start,
            index_interval_bytes=config.index_interval_bytes,
            max_index_bytes=config.max_index_bytes,
            producer_expiration_ms=FOREVER_MS if is_metadata else self.producer_expiration_ms,
            is_metadata=is_metadata,
            reached=reached,
            reached_by=reached_by,
            checkpointed=checkpointed,
            is_compacted=config.compact or directory.name.topic in INTERNAL_TOPICS,
            keeps_all=_has_swap(directory.path) and self.keeps_all(directory.partition),
            finds_gaps=not self.salvage and self.finds_gaps(directory.partition),
            is_deleted=directory.name.state == "delete",
            is_tiered=is_tiered,
            home=self._home(directory),
            retention=Retention.of(config, self._homes),
            foreign=self.foreign.get(directory.path.absolute().name, ()),
            preallocated_bytes=0 if is_metadata else config.preallocated_bytes,
        )
        if is_metadata:
            return self.metadata(plan(directory.path, options, advance=self.advance, rescue=self._rescues))
        planned = self._plan_log(directory, options)
        if planned.offsets is not None and not directory.name.state:
            start, end = planned.offsets.log_start_offset, planned.offsets.log_end_offset
            by_epochs = start == right_start > 0
            if start < deleted_below <= end:
                planned.deleted_below = deleted_below
            if (
                (leaves_out_start or raises_start)
                and planned.saved.log_start is None
                and (start < log_start or by_epochs)
            ):
                planned.saved.log_start = LogStart(log_start, start, end, by_epochs=by_epochs)
            told: list[Disorder | Altered] = []
            planned.load_end = load_end(directory.name.topic, planned.view, planned.offsets.log_end_offset, told.append)
            if planned.load_end is None and not self.salvage:  # salvage mends these batches, or leaves them out
                passed = (Event(EventKind.PASSED_OVER, each.file, each.reason) for each in told)
                planned.pass_over(passed)
            if not self.salvage:
                planned.lost_state = lost_state(directory.name.topic, planned.events, options.home, planned.view.files)
                exchanged = self.exchanged.values()
                found = misdirected(planned)
                planned.misdirected = [each for each in found if directory.path / each.file not in exchanged]
            elif planned.saved.misdirected and options.home is not None:
                planned.lost_state = overwritten_state(
                    options.home, directory.path, planned.saved.misdirected, options.reached
                )
            if not planned.ends_below_start:
                self._hide(directory, planned)
                self._expire(directory, planned)
        return self._with_identity(planned, self.identities.get(directory.path))

    def _hide(self, directory: PartitionDirectory, planned: PartitionPlan) -> None:
        """Set in the plan which offsets the log start offset hides, and of which groups or transactional ids a
        coordinator does not load the hidden records. Raises UnreadableInput."""
        hidden = hidden_offsets(directory.path, planned.options.log_start_offset)
        is_coordinators = directory.name.topic in ONLY_COMPACTED
        if hidden is None or not hidden.has_records:
            return
        is_wrong = self.wrong_starts is not None and self.wrong_starts.is_wrong(directory.partition)
        if not (hidden.segments or is_coordinators or is_wrong):
            return
        planned.hidden = hidden
        if is_coordinators and planned.lost_state is None:
            logs = [directory.path / build(FileName(FileKind.LOG, each)) for each in hidden.below]
            home = planned.options.home or Home(directory.name.topic)
            planned.lost_state = hidden_state(
                home, [each for each in logs if each.is_file()], hidden.start, planned.view.files
            )

    def _expire(self, directory: PartitionDirectory, planned: PartitionPlan) -> None:
        """Set in the plan which offsets retention.ms deletes because of a wrong time index, if it is known which
        configuration the topic has. Raises UnreadableInput."""
        retention, offsets = planned.options.retention, planned.offsets
        if retention is None or retention.max_ms < 0 or offsets is None or planned.options.is_tiered:
            return
        found = expired(planned.view, retention, offsets, self.now_ms)
        if found is not None and self.count(directory.name.topic):
            planned.expired = found

    def _home(self, directory: PartitionDirectory) -> Home | None:
        """Return the partition of the directory if its topic is a coordinator's. Return None for any other topic, if
        all files of the directory may be another partition's, or if the topic's number of partitions is not known."""
        name = directory.name
        is_moved = directory.path in self.identities or directory.path in self.in_the_place
        is_exchanged = any(directory.path in {place.parent, log.parent} for place, log in self.exchanged.items())
        if name.topic not in KEYS_OF or name.state not in {"", "future"} or is_moved or is_exchanged:
            return None
        count = self.count(name.topic)
        return Home(name.topic, name.partition, count) if count else None

    def _reached(self, directory: PartitionDirectory) -> tuple[int, str, int]:
        """Return the offset that the log had reached, the names of the files that show this, as a text, and the offset
        that it had reached according to only the checkpoints; each offset is 0 if no file shows one."""
        ends = FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS
        known = max(self._believed(each).get(directory.partition, 0) for each in ends)
        strays = self._strays.get(directory.partition, ()) if known and not directory.name.state else ()
        if strays:
            stated = [self._believed(each).get(directory.partition, 0) for each in ends]
            known = max(0 if of_older_topic(directory.path, strays, each) else each for each in stated)
        removed = self._checked.get(directory.path, NOT_CHECKED).removed
        reached = reached_by_snapshots(directory.path, known, removed)
        return reached, "a producer snapshot" if reached > known else "the checkpoints", known

    def doubts_end(self, planned: PartitionPlan) -> bool:
        """Whether the offset that a log had reached, by a checkpoint, may be wrong (see doubtful_ends)."""
        name = parse_directory(planned.name)
        if name is None or planned.offsets is None:
            return False
        partition = TopicPartition(name.topic, name.partition)
        kinds = FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS
        ends = [self._believed(each).get(partition, 0) for each in kinds]
        start, end = planned.first_base_offset, planned.offsets.log_end_offset
        return max(ends) == planned.options.reached and is_doubtful(ends, start, end, planned.view.directory)

    def _believed(self, kind: FileKind) -> Mapping[TopicPartition, int]:
        """Return the recovery points or high watermarks (`kind`), by partition; none if another broker wrote them."""
        if kind in self.of_others:
            return {}
        return self._recovery_points if kind is FileKind.RECOVERY_POINTS else self._high_watermarks

    def _plan_log(self, directory: PartitionDirectory, options: LoadOptions) -> PartitionPlan:
        """Return the plan of a partition's log. Kafka's start uses the recovery points even if another broker wrote
        them; salvage then checks the whole log, unless a start that recovers the whole log would fail. Raises
        UnreadableInput."""
        planned = partial(
            plan,
            directory.path,
            with_salvage=self.salvage,
            advance=self.advance,
            exchanged=self._exchanged_in(directory.path) if self._puts_in_place else {},
            checked=NOT_CHECKED
            if directory.path in self.in_the_place
            else self._checked.get(directory.path, NOT_CHECKED),
            rescue=self._rescues,
            foretell=self._foretells,
        )
        if self.salvage and FileKind.RECOVERY_POINTS in self.of_others:
            whole = planned(replace(options, recovery_point=0))
            if whole.refused is None:
                return whole
        return planned(options)

    def _exchanged_in(self, directory: Path) -> dict[str, Path]:
        return {place.name: log for place, log in self.exchanged.items() if place.parent == directory}

    def _with_identity(self, planned: PartitionPlan, identity: Identity | None) -> PartitionPlan:
        if identity is None or planned.refused is not None:
            return planned
        if identity.topic_id is not None:
            data = build_partition_metadata(PartitionMetadata(0, identity.topic_id))
            planned.view.write(FileKind.PARTITION_METADATA, data)
            planned.saved.topic_id = identity.topic_id
        if not self.is_partition and planned.view.directory != self._holder.path / identity.directory_name:
            planned.saved.directory = identity.directory_name
        planned.saved.flat = sorted(each.name for each in flat_files(planned.view.directory).values())
        return planned

    @property
    def home(self) -> Path:
        """The log directory; if only a partition's directory is recovered, that directory."""
        return self._holder.path if self._has_holder else self.directory

    def write_to(self, target: Path) -> Iterator[PartitionPlan]:
        """Write a recovered copy to `target`, and yield the plans. After a failure, no part of the copy is left.

        Raises TargetExists, UnreadableInput, OSError.
        """
        if not target.exists() and target.resolve().is_relative_to(self.home.resolve()):
            raise TargetExists(f"{target}: a directory in there would keep Kafka from starting")
        with new_directory(self.disk, target) as partial:
            yield from self._write_to(partial)

    def _write_to(self, target: Path) -> Iterator[PartitionPlan]:
        ends = _Ends()
        for each, planned in self._plans(self._own):
            if each.path == self._second_metadata_log:
                yield planned
                continue
            files = planned.view.files if planned.refused is None else planned.view.original
            write_copy(files, self.disk, target if self.is_partition else target / self._name_of(each))
            if is_trash(each.path):
                self._copy_trash(each.path, target / self._name_of(each))
            if each.path not in self._set_aside:
                ends.add(each, planned)
            yield planned
        if not self.is_partition:
            self._copy_files(target)
            self._write_meta_properties(target)
            self._write_metadata_log(target)
            self._write_checkpoints(LogDirectory(target), ends)
            self.complete(target)
            self.disk.sync_directory(target)

    def _name_of(self, directory: PartitionDirectory) -> str:
        if directory.path in self._set_aside:
            return name_for_end(*directory.partition, "stray")
        identity = self.identities.get(directory.path)
        return directory.path.name if identity is None else identity.directory_name

    def mended_by(self, refused: StartRefused, *, in_place: bool = False) -> str | None:
        """Return, in words, how this recovery changes the file or directory that `refused` names, so that Kafka starts;
        None if it does not change that file or directory. in_place: whether the recovery is made in place."""
        path = self._holder.path / refused.file
        if in_place and path in self._completing:
            return None
        if (path in self._second or path in self.in_the_place) and not self.salvage:
            return None
        return self._mending(refused, in_place=in_place)

    def could_mend(self, refused: StartRefused) -> bool:
        """Whether a recovery with salvage, to a copy, would repair the file or directory that `refused` names."""
        return self._mending(refused, in_place=False) is not None

    def _mending(self, refused: StartRefused, *, in_place: bool) -> str | None:
        path = self._holder.path / refused.file
        if path.name == FileKind.LEADER_EPOCHS:
            return "written anew"
        if refused.file in self._sealed:
            return None if in_place or self.is_partition else "without the attribute in the copy"
        if refused.file in self._linked:
            return None if in_place or self.is_partition else "a file of its own in the copy"
        if refused.file in MENDED:
            return "removed" if refused.file == FileKind.CLEANER_OFFSETS else "written anew"
        is_known = self.properties is not None and not self.is_partition
        if refused.file == FileKind.META_PROPERTIES and (is_known or self._mends_properties()):
            is_new = is_known and self.has_new_cluster_id
            return f"written anew{', with a new cluster.id, as no file has the old one' if is_new else ''}"
        if path in self._second or path in self.in_the_place:
            return "renamed to -stray"
        if path in self._shared or path == self._second_metadata_log:
            return None if in_place else "left out of the copy"
        if any(path == each.path for each in self._copies):
            return "kept"
        if path in self.identities:
            return f"kept as {self.identities[path].directory_name}"
        is_odd = path.parent == self._holder.path and path.is_dir() and partition_named(path.name) is None
        return "left out of the copy" if is_odd and not in_place and not self.is_partition else None

    def _mends_properties(self) -> bool:
        """Whether a broker starts with the ids that salvage writes into meta.properties."""
        try:
            meta = read_meta_properties(self._holder.path)
        except (FormatError, UnreadableInput):
            return False
        if meta is None or (self.node_id is None and self.directory_id is None):
            return False
        node_id = meta.node_id if self.node_id is None else self.node_id
        directory_id = meta.directory_id if self.directory_id is None else self.directory_id
        return unusable(replace(meta, node_id=node_id, directory_id=directory_id)) is None

    def _copy_files(self, target: Path) -> None:
        refused = {each.file for each in (*self.refusals, *self.passed_over)}
        if self.wrong_starts is not None:  # the file is sound: only its wrong entries are left out
            refused.discard(FileKind.LOG_START_OFFSETS)
        left_out = {FileKind.LOCK, *self.left_out, *(each for each in MENDED if each in refused)}
        if not self._keeps_marker:
            left_out.add(FileKind.CLEAN_SHUTDOWN)
        left_out |= {each.name for path in self.made_of_flat for each in flat_files(path).values()}
        for path in sorted(self.directory.iterdir()):
            if not path.is_file() or path.name in left_out:
                continue
            if os.access(path, os.R_OK):
                self.disk.copy(path, target / path.name)
            else:
                self.unreadable.append(
                    UnreadableInput.of(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
                )
        if self._keeps_marker and self._holder.has_directory_for_marker:
            self.disk.make_directory(target / FileKind.CLEAN_SHUTDOWN)

    def _copy_trash(self, trash: Path, target: Path) -> None:
        """Copy the deleted files in a file manager's trash, which Kafka takes for a partition's directory: some may be
        missed. Raises OSError."""
        for path in sorted(each for top in (FILES, INFO) for each in (trash / top, *(trash / top).rglob("*"))):
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                continue
            copy = target / path.relative_to(trash)
            if path.is_dir():
                self.disk.make_directory(copy)
            elif os.access(path, os.R_OK):
                self.disk.copy(path, copy)
            else:
                error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                self.unreadable.append(UnreadableInput.of(path, error))

    def in_place(self, backup_name: str) -> Iterator[PartitionPlan]:
        """Recover in place, and yield the plans; removed bytes are kept in `<backup_name>.tar`.

        No file is changed before every partition is planned and the backup is on disk. Only exchanged logs are renamed
        before that, as the plans depend on it. Raises DirectoryLocked, UnreadableInput, InTheWay, OSError.
        """
        if self._has_holder:
            with DirectoryLock(self.disk, self._holder.path):
                yield from self._in_place(backup_name)
        else:
            yield from self._in_place(backup_name)

    def _in_place(self, backup_name: str) -> Iterator[PartitionPlan]:
        self._rescues = False  # unreadable bytes stay in their files, since the backup cannot contain them
        self._own = [each for each in self._own if each.path not in {*self.from_others, *self.made_of_flat}]
        self._checked = {path: each.within(path) for path, each in self._checked.items()}
        backup = Backup(self.disk, self._holder.path, backup_name)
        if self.salvage and self.exchanged:
            self._put_in_place()
            self._puts_in_place = False  # the plans below see the renamed logs
        ends, lacks_points = _Ends(), self.lacks_points
        unchanged, changed = [], []
        for each, planned in self._plans(self._own):
            if each.path not in self._set_aside:
                ends.add(each, planned)
            refuse_in_the_way(planned.view)
            if planned.refused is None and (planned.is_changed() or not self.clean):
                changed.append(planned)
            else:
                unchanged.append(planned)
        for planned in changed:
            back_up(planned.view, backup)
        bad = [each.file for each in (*self.refusals, *self.passed_over) if each.file in MENDED]
        changes_meta = [FileKind.META_PROPERTIES] if self._meta_properties or self._writes_properties else []
        changes_meta = [each for each in changes_meta if (self._holder.path / each).exists()]
        taken = {each for each in (*bad, *changes_meta) if not (self._holder.path / each).is_file()}
        in_taken = [name for each in sorted(taken) for name in self._files_in(each)]
        self._back_up_files(
            [*(each for each in (*bad, *changes_meta) if each not in taken), *in_taken, *self.left_out], backup
        )
        backup.close()
        self.backup = backup.path
        if changed and self._has_holder and self._holder.was_shut_down_cleanly and not self._keeps_marker:
            self._holder.remove_marker(self.disk)
        for planned in changed:
            apply_in_place(planned.view, self.disk)
        renamed = self._out_of_the_way([planned for planned in changed if planned.saved.directory is not None])
        for each in self._own:
            if each.path in self._set_aside and each.path not in self._completing:
                rename_for_end(self.disk, each.path, *each.partition, "stray")
        self._rename(renamed)
        self._write_meta_properties(self._holder.path)
        self._write_metadata_log(self._holder.path)
        for name in self.left_out:
            self.disk.remove(self._holder.path / name)
        if self._has_holder and (changed or bad or lacks_points):
            for name in [each for each in taken if (self._holder.path / each).is_dir()]:
                self.disk.remove_tree(self._holder.path / name)
            if FileKind.CLEANER_OFFSETS in bad:
                self.disk.remove(self._holder.path / FileKind.CLEANER_OFFSETS)
            self._write_checkpoints(self._holder, ends)
        self._complete(self._holder.path)
        yield from sorted([*changed, *unchanged], key=lambda planned: planned.name)

    def _complete(self, home: Path) -> None:
        """Call `complete` with the recovered log directory, unless only a partition was recovered."""
        if not self.is_partition:
            self.complete(home)

    def _files_in(self, name: str) -> list[str]:
        """Return the files below the directory `name`, as paths relative to the log directory. Raises InTheWay if a
        file is a link or special file, which the backup cannot store."""
        top = self._holder.path / name
        found = sorted(top.rglob("*"))
        if any(path.is_symlink() or not (path.is_file() or path.is_dir()) for path in (top, *found)):
            raise in_the_way(top, self._holder.path.absolute().parent / f"{name}{MOVED}")
        return [str(path.relative_to(self._holder.path)) for path in found if path.is_file()]

    def _back_up_files(self, names: Iterable[str], backup: Backup) -> None:
        for name in names:
            path = self._holder.path / name
            backup.add(name, FileRange(path, 0, path.stat().st_size))

    def _put_in_place(self) -> None:
        """Rename exchanged .log files to the paths where they belong, beside their own indexes. If a crash interrupts
        the renaming, some of the files lie at these paths with the suffix `.misplaced`. Raises OSError."""
        if self._has_holder and self._holder.was_shut_down_cleanly:
            self._holder.remove_marker(self.disk)
        for place, log in self.exchanged.items():
            self.disk.rename(log, place.with_name(f"{place.name}.misplaced"))
        for place in self.exchanged:
            self.disk.rename(place.with_name(f"{place.name}.misplaced"), place)
        for directory in {place.parent for place in self.exchanged}:
            self.disk.sync_directory(directory)
        self.clean = False

    @property
    def _meta_properties(self) -> dict[str, str]:
        """The entries that salvage changes in meta.properties, with their new values."""
        entries = {} if self.node_id is None else {"node.id": str(self.node_id)}
        return entries if self.directory_id is None else {**entries, "directory.id": self.directory_id}

    @property
    def _writes_properties(self) -> bool:
        """Whether salvage writes a new meta.properties, from `properties`."""
        return self.salvage and self.properties is not None and not self.is_partition

    def _write_meta_properties(self, holder: Path) -> None:
        """Write meta.properties if the recovery changes it: replace the file by the text `properties`, or else set
        node.id to `node_id` and directory.id to `directory_id` in it. holder: the log directory to write to. Raises
        OSError."""
        path = holder / FileKind.META_PROPERTIES
        if self._writes_properties and self.properties is not None:
            if path.is_dir():  # a recovery in place has its files in the backup
                self.disk.remove_tree(path)
            self.disk.write_file(path, self.properties.encode("latin-1"))
            return
        if not self._meta_properties:
            return
        found = parse_properties(read_whole(path))
        entries = {**found.entries, **self._meta_properties}
        self.disk.write_file(path, build_properties(replace(found, entries=entries)))

    def _write_metadata_log(self, holder: Path) -> None:
        """Write the files of `metadata_log`. holder: the log directory to write to. Raises OSError."""
        if self.metadata_log and not self.is_partition:
            directory = holder / METADATA_DIRECTORY
            self.disk.make_directory(directory)
            for name, data in self.metadata_log.items():
                self.disk.write_file(directory / name, data)

    def _out_of_the_way(self, moved: list[PartitionPlan]) -> list[tuple[Path, Identity]]:
        """Rename the directories of the plans `moved` to -stray directories of the right partitions, also one that lies
        in another directory, and return the new paths with the identities. After a crash between this and `_rename`,
        the next recovery finds them under these names. Raises OSError."""
        aside = []
        for planned in moved:
            path, identity = planned.view.directory, self.identities[planned.view.directory]
            target = self._holder.path / name_for_end(*identity.partition, "stray")
            self.disk.rename(path, target)
            for each in {path.parent, target.parent}:
                self.disk.sync_directory(each)
            aside.append((target, identity))
        return aside

    def _rename(self, aside: list[tuple[Path, Identity]]) -> None:
        """Give the directories of `_out_of_the_way` the names that salvage gives them, even two that have exchanged
        their names. Raises OSError."""
        for path, identity in aside:
            self.disk.rename(path, self._holder.path / identity.directory_name)
        if aside:
            self.disk.sync_directory(self._holder.path)

    def _write_checkpoints(self, holder: LogDirectory, ends: _Ends) -> None:
        """Write recovery points and log start offsets as a shutdown does, and lower high watermarks to the log end
        offsets. holder: the log directory to write to."""
        believed = self._recovery_points if self.is_partition else self._believed(FileKind.RECOVERY_POINTS)
        points, starts = dict(believed), dict(self._log_starts)
        starts = {each: offset for each, offset in starts.items() if not self._leaves_out_start(each)}
        for partition, end in ends.log_ends.items():
            points[partition] = end
            starts.pop(partition, None)
        starts.update(ends.log_starts)
        self._write_if_other(holder, FileKind.RECOVERY_POINTS, points)
        self._write_if_other(holder, FileKind.LOG_START_OFFSETS, starts)
        high = self._holder.legible_offsets(FileKind.REPLICATION_OFFSETS)  # no entry: Kafka takes the log start offset
        high = {partition: min(offset, ends.log_ends.get(partition, offset)) for partition, offset in high.items()}
        self._write_if_other(holder, FileKind.REPLICATION_OFFSETS, high)
        if self._cleaned is not None:
            self._write_if_other(holder, FileKind.CLEANER_OFFSETS, self._cleaned)

    def _write_if_other(self, holder: LogDirectory, kind: FileKind, offsets: dict[TopicPartition, int]) -> None:
        right = {each: offset for each, offset in offsets.items() if offset >= 0 and each.partition >= 0}
        if not holder.has_offsets(kind, right):
            holder.write_offsets(self.disk, kind, right)


def _failed(directory: Path, error: Exception) -> UnreadableInput:
    """Return the error for a partition without a plan, because kcli failed with an unexpected exception (a bug)."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    reason = f"kcli fails with it, a bug to report: {type(error).__name__} at {place}: {error_text(error)}"
    return UnreadableInput(str(directory), reason)


def _sealed_text(first: Sealed, count: int) -> str:
    """Return the text which says that no user can change a file or directory, and how many more such files there are.
    count: the number of all of them."""
    more = f", as {count - 1:,} more" if count > 1 else ""
    outcome = "" if first.refuses else f"; {FAILS_LATER}"
    return f"{first.words}: even root may not change it{more}{outcome} (Operation not permitted)"


def _copy_text(copy: Copy) -> str:
    """Return, in words, that `copy.other`, in another log directory, is a directory of the same partition as
    `copy.path`, what Kafka's start does with the two, and which offsets only one of them has."""
    ends = ["no log" if end is None else f"up to {end:,}" for end in (copy.end, copy.other_end)]
    outcome = "Duplicate log directories"
    if copy.left_out is not None:
        outcome = f"without {FileKind.PARTITION_METADATA}: Kafka renames that to -stray, and serves this"
    reason = f"{copy.other} is the same partition ({outcome}); this one has {ends[0]}, that {ends[1]}"
    for which, ranges in (("this", copy.only), ("that", copy.other_only)):
        if ranges:
            reason += f"; only {which} has {_offsets_text(ranges)}"
    if copy.completing:
        return f"{reason}: a move between the two broke off; salvage of {copy.kept.parent} puts the files together"
    if copy.left_out is not None:
        return f"{reason}; salvage of {copy.other.parent} keeps that, and this as a stray"
    return f"{reason}; salvage of {copy.other.parent} makes that a stray" if copy.is_kept else reason


def _offsets_text(ranges: Ranges) -> str:
    """Return, in words, the number of offsets in the ranges, and the first and the last of them."""
    return f"{count(ranges):,} offset{'s' if count(ranges) > 1 else ''} from {ranges[0][0]:,} to {ranges[-1][1]:,}"


class _Ends:
    """The entries for the checkpoints of a log directory: log end offsets as recovery points, and the log start offsets
    that log-start-offset-checkpoint must have."""

    def __init__(self) -> None:
        self.log_ends: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}

    def add(self, directory: PartitionDirectory, planned: PartitionPlan) -> None:
        """Add the offsets of a partition. Nothing is added for the metadata log, for directories with -delete, -future
        or -stray, or for a topic that a checkpoint line cannot contain."""
        if planned.offsets is None or directory.name.topic == METADATA_TOPIC or directory.name.state:
            return
        if parse_directory(build_directory(directory.name)) is None or not _can_stand_in_a_checkpoint(
            directory.name.topic
        ):
            return
        self.log_ends[directory.partition] = planned.offsets.log_end_offset
        if planned.options.is_tiered or planned.offsets.log_start_offset > planned.first_base_offset:
            self.log_starts[directory.partition] = planned.offsets.log_start_offset


def _can_stand_in_a_checkpoint(topic: str) -> bool:
    """Return whether a checkpoint line can contain this topic: checkpoints are UTF-8, with white space between
    fields."""
    return is_utf8(topic) and topic.split() == [topic]
