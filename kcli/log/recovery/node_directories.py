"""A log directory among all those of its broker: what a start checks across them.

    meta.properties       each log directory has one, with the same cluster.id, the node.id of server.properties, and a
                          directory.id of its own
    __cluster_metadata-0  exists only in the directory that metadata.log.dir names, else in the first of log.dirs
    <topic>-<partition>   exists in one log directory only ("Duplicate log directories"); so does the one with -future.
                          Directories that the start renames to -stray do not count: if one of two lacks
                          partition.metadata, because a copy broke off, Kafka serves the other
    I/O errors            the broker runs without a directory whose checkpoints or meta.properties it cannot read
                          (LogDirectory.failures), unless that directory has the metadata log, or no other can be used.
                          It reads recovery-point-offset-checkpoint and log-start-offset-checkpoint before it loads the
                          logs: with an I/O error in one of these it ends if it then loads a log with an open
                          transaction, or one that becomes a stray

Source: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble.verify, LogManager.loadLog and handleLogDirFailure;
KIP-112 (several disks), KIP-858 (ids of directories).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from formats import properties
from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, METADATA_TOPIC, FileKind
from formats.properties import MetaProperties
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.log_directory import LogDirectory, PartitionDirectory, read_meta_properties
from kcli.log.partition_directory import topic_id_of
from kcli.log.recovery.identity import end_offset
from kcli.log.recovery.partition_copies import Copy, compared
from kcli.log.source import read_whole
from kcli.printable import names_text
from kcli.protocol.topic_partition import TopicPartition

GOES_OFFLINE = "Kafka starts without this log directory, and leaves its partitions offline"
MAY_GO_OFFLINE = "; where another log directory has the metadata log, it starts without this one"
"""The end of the sentence that Kafka does not start, if it is not known whether there is another log directory."""

ENDS_START = "; Kafka takes the log directory offline, then loads "
LEADERLESS_SHOWN = 20
"""The maximum number of partitions without a leader that are named."""


def _none_is(_: PartitionDirectory) -> bool:
    return False


def _none_known(_: str) -> None:
    return None


class Beside(NamedTuple):
    """The log directories in the parent directory of a log directory that belong to its node by meta.properties.

    others: those with a directory.id that no other has. twins: those with the directory.id of the log directory that
    are no copies of it: Kafka does not start with both. A copy, such as a backup, has at least half of the partitions
    of the smaller of the two.
    """

    others: Sequence[Path]
    twins: Sequence[Path]


NONE_BESIDE = Beside((), ())


class NodeDirectories:
    """A log directory (directory), and the other log directories of its broker (others: empty if they are not known).

    metadata_home: the log directory in which the metadata log belongs; None if it is not known. is_stray(directory):
    whether a start renames a partition's directory to -stray. is_placed(directory): whether the metadata log assigns
    the partition to the log directory in which this directory lies. node_id: the node.id in server.properties; None if
    it is not known. topic_id(topic): the id of a topic in the metadata log; None if it is not known. beside: if the
    others are not known, the log directories that may be the node's: in `beside.others`, `copies` looks for the
    complete directory of a partition whose directory here lacks partition.metadata; `beside.twins` keep Kafka from
    starting.
    """

    def __init__(
        self,
        directory: Path,
        others: Sequence[Path] = (),
        metadata_home: Path | None = None,
        is_stray: Callable[[PartitionDirectory], bool] = _none_is,
        is_placed: Callable[[PartitionDirectory], bool] = _none_is,
        node_id: int | None = None,
        topic_id: Callable[[str], str | None] = _none_known,
        beside: Beside = NONE_BESIDE,
    ) -> None:
        self.directory = directory
        self._node_id = node_id
        self.others = [each for each in others if each.is_dir() and not same_path(each, directory)]
        listed = [each for each in others if not same_path(each, directory)]
        same = {each.absolute(): each for each in others if same_path(each, directory)}
        self.same = [*same.values()] if len(same) > 1 else []
        """The entries of `others` that are one directory, `directory`, if there is more than one, as by a symbolic
        link."""
        self.unformatted = [each for each in listed if not (each / FileKind.META_PROPERTIES).exists()]
        """The other log directories that have no meta.properties, or do not exist, as when a disk is not mounted."""
        self.metadata_home = metadata_home
        self.is_stray, self._is_placed, self._topic_id = is_stray, is_placed, topic_id
        self._beside, self.twins = beside.others, beside.twins

    @property
    def directories(self) -> Sequence[Path]:
        """All log directories of the broker, also those that do not exist: `directory`, then the others."""
        return [self.directory, *self.others, *(each for each in self.unformatted if each not in self.others)]

    @property
    def may_fail(self) -> bool:
        """Whether the broker starts without `directory` if an I/O error occurs in it: it does not contain the metadata
        log, and another log directory can be used."""
        home = self.metadata_home
        if home is None or same_path(home, self.directory):
            return False
        return any(not LogDirectory(each).failures() for each in self.others)

    @property
    def may_have_others(self) -> bool:
        """Whether the broker may have log directories that are not known: `others` is empty, and neither
        `metadata_home` nor a metadata log in `directory` shows that there are no others."""
        is_known = self.others or self.metadata_home is not None or (self.directory / METADATA_DIRECTORY).exists()
        return not is_known

    def refusals(self) -> Iterator[StartRefused]:
        """Yield the reasons why Kafka does not start with `directory` beside the others, except those in `copies`."""
        yield from (StartRefused(FileKind.META_PROPERTIES, each) for each in self.other_owners())
        for path in self.unformatted:
            yield StartRefused(str(path / FileKind.META_PROPERTIES), f"no such file, and log.dirs names {path}")
        mine = meta_of(self.directory)
        if self.configured_node_id is not None and mine is not None:
            reason = f"node.id is {mine.node_id}, and {self.configured_node_id} in server.properties"
            reason += f" (Stored node id {mine.node_id} doesn't match previous node id {self.configured_node_id})"
            yield StartRefused(FileKind.META_PROPERTIES, reason)
        if self.same:
            yield StartRefused(FileKind.META_PROPERTIES, f"{self.same_text} (Duplicate directory ID)")
        twin = None if mine is None or mine.directory_id is None else self.with_id(mine.directory_id)
        if mine is not None and twin is not None:
            path = twin / FileKind.META_PROPERTIES
            reason = f"directory.id {mine.directory_id} is that of {path}, too (Duplicate directory ID)"
            yield StartRefused(FileKind.META_PROPERTIES, reason)
        elif mine is not None and self.twins:
            reason = f"directory.id {mine.directory_id} is that of {self.twins[0] / FileKind.META_PROPERTIES}, too"
            yield StartRefused(FileKind.META_PROPERTIES, f"{reason}, if log.dirs names both (Duplicate directory ID)")
        if self.has_second_metadata_log:
            reason = f"a metadata log, and that of the broker is in {self.metadata_home}"
            yield StartRefused(METADATA_DIRECTORY, f"{reason} (Found unexpected metadata location)")
        elif self.metadata_log_beside is not None:
            reason = f"a metadata log, and {self.metadata_log_beside} has that of the broker, if log.dirs names both"
            yield StartRefused(METADATA_DIRECTORY, f"{reason} (Found unexpected metadata location)")

    @property
    def link(self) -> Path | None:
        """The first entry in `same` that is a symbolic link; None if the links are above them."""
        return next((each for each in self.same if each.is_symlink()), None)

    @property
    def same_text(self) -> str:
        """Which two entries of `same` are one directory, in words."""
        link = self.link
        if link is None:
            return f"{self.same[0]} and {self.same[1]} are one directory"
        other = next(each for each in self.same if each != link)
        return f"{link} is a symbolic link to {link.readlink()}: it and {other} are one directory"

    @property
    def configured_node_id(self) -> int | None:
        """The node.id in server.properties, if meta.properties of `directory` has a different one; else None."""
        meta = meta_of(self.directory)
        is_other = meta is not None and meta.node_id not in (None, self._node_id)
        return self._node_id if is_other else None

    def other_owners(self) -> Iterator[str]:
        """Yield, for each other log directory that belongs to another cluster or node than `directory`, a text that
        says which id differs."""
        return (words for _, words in self.owners_beside())

    def owners_beside(self) -> Iterator[tuple[Path, str]]:
        """Yield each of the other log directories that belongs to another cluster or node than `directory`, with a text
        that says which id differs."""
        mine = meta_of(self.directory)
        for path in self.others:
            other = meta_of(path)
            if mine is None or other is None:
                continue
            for name, one, two in (
                ("cluster.id", mine.cluster_id, other.cluster_id),
                ("node.id", mine.node_id, other.node_id),
            ):
                if one is not None and two is not None and one != two:
                    yield path, f"{name} is {one}, and {two} in {path / FileKind.META_PROPERTIES}"

    @cached_property
    def of_one_node(self) -> Sequence[Path]:
        """`directory`, and the other log directories that do not belong to another cluster or node."""
        foreign = {path for path, _ in self.owners_beside()}
        return [self.directory, *(each for each in self.others if each not in foreign)]

    @property
    def has_second_metadata_log(self) -> bool:
        """Whether `directory` has a metadata log, although the broker's metadata log belongs in another log
        directory."""
        home = self.metadata_home
        if home is None or same_path(home, self.directory):
            return False
        return bool(self.others) and (self.directory / METADATA_DIRECTORY).exists()

    @cached_property
    def metadata_log_beside(self) -> Path | None:
        """The log directory whose metadata log is the broker's rather than that in `directory`, if neither the others
        nor `metadata_home` are known (see metadata_home_among); None if there is none. A copy of `directory`, such as
        one that salvage has written, does not count."""
        if self.others or self.metadata_home is not None or not (self.directory / METADATA_DIRECTORY).is_dir():
            return None
        beside = []
        for each in self._beside:
            with suppress(UnreadableInput, OSError):  # then it is not known whether this is a copy
                beside += [] if shares_partitions(each, self.directory) else [each]
        home = metadata_home_among([self.directory, *beside]) if beside else None  # else read no log
        return None if home is None or same_path(home, self.directory) else home

    @cached_property
    def second_metadata_log(self) -> Path | None:
        """The metadata log in `directory`, if Kafka does not start because the broker's own is in another log
        directory; None if `directory` has no metadata log, or no other log directory has the broker's."""
        has_own = self.metadata_home is not None and (self.metadata_home / METADATA_DIRECTORY).is_dir()
        is_second = (self.has_second_metadata_log and has_own) or self.metadata_log_beside is not None
        return self.directory / METADATA_DIRECTORY if is_second else None

    def with_id(self, directory_id: str | None) -> Path | None:
        """The other log directory whose meta.properties has this directory.id; None if there is none."""
        known = ((each, meta_of(each)) for each in self.others)
        return next((each for each, meta in known if meta is not None and meta.directory_id == directory_id), None)

    @cached_property
    def doubles(self) -> Sequence[Path]:
        """The other log directories that are copies of `directory`, such as a disk that is mounted at two places: they
        have its directory.id and its partitions. Their partitions are none that
        Kafka has twice: one of the directories is to leave log.dirs."""
        mine = meta_of(self.directory)
        if mine is None or mine.directory_id is None:
            return []
        same = [each for each in self.others if (meta := meta_of(each)) and meta.directory_id == mine.directory_id]
        own = {each.name for each in _opened(self.directory)} if same else set()
        return [path for path in same if own and own == {each.name for each in _opened(path)}]

    def original(self, double: Path) -> Path:
        """Return which of `directory` and a copy of it among `doubles` the broker is to keep: the one in which the
        metadata log belongs, else the first by path."""
        both = sorted((self.directory, double), key=lambda path: str(path.resolve()))
        home = self.metadata_home
        return next((each for each in both if home is not None and same_path(each, home)), both[0])

    @cached_property
    def elsewhere(self) -> Mapping[TopicPartition, Path]:
        """The directories of partitions in the other log directories, by partition; without those with the suffix
        -future."""
        return {found.partition: found.path for each in self.others for found in _opened(each) if not found.name.state}

    @cached_property
    def ids_elsewhere(self) -> Collection[str]:
        """The directory.id of each of the other log directories."""
        metas = map(meta_of, self.others)
        return {meta.directory_id for meta in metas if meta is not None and meta.directory_id is not None}

    @cached_property
    def copies(self) -> Sequence[Copy]:
        """The partitions' directories in `directory` whose partition also has a directory in another log directory of
        the broker, except the copies of `directory` (`doubles`). Strays are not among them, except copies without
        partition.metadata (`Copy.left_out`). If the other log directories are not known, those `beside` are compared
        instead; then only those copies are returned that lack partition.metadata, and whose log ends no later than that
        of the directory in which the metadata log places the partition. Raises UnreadableInput."""
        homes = [each for each in self.others or self._beside if each not in self.doubles]
        if not homes:
            return []
        mine = {_opened_as(each): each for each in _opened(self.directory)}
        there = [found for each in homes for found in _opened(each)]
        both = [(mine[_opened_as(each)], each) for each in there if _opened_as(each) in mine]
        found: list[Copy] = []
        for one, other in both:
            strays = [each for each in (one, other) if self.is_stray(each)]
            if not self.others and not (strays == [other] or (strays == [one] and self._is_placed(other))):
                continue
            if not strays:
                found.append(self._compared(one, other))
            elif len(strays) == 1 and self._is_left_out(strays[0], other if strays[0] is one else one):
                found.append(self._compared(one, other, strays[0].path))
        is_sure = self.others
        return [each for each in found if is_sure or each.completing or each.path == each.left_out != each.kept]

    @property
    def left_out(self) -> Mapping[Path, Copy]:
        """The directories in `directory` without partition.metadata whose partition Kafka serves from another log
        directory, by path. Raises UnreadableInput."""
        return {each.path: each for each in self.copies if each.left_out == each.path}

    def _is_left_out(self, stray: PartitionDirectory, served: PartitionDirectory) -> bool:
        """Whether a start makes `stray` a stray only because it lacks partition.metadata, and `served` has that file,
        with the id of the partition's topic."""
        topic_id = topic_id_of(served.path)
        is_own = topic_id is not None and self._topic_id(served.name.topic) in (None, topic_id)
        return is_own and not stray.name.state and topic_id_of(stray.path) is None

    def _compared(self, here: PartitionDirectory, there: PartitionDirectory, left_out: Path | None = None) -> Copy:
        ends = end_offset(here.path), end_offset(there.path)
        ranked = []
        for each, end in zip((here, there), ends, strict=True):
            place = str(each.path.parent.resolve())  # the same for all spellings of the path
            rank = -1 if end is None else end, each.path != left_out, not each.path.is_symlink()
            ranked.append((*rank, self._is_placed(each), place))
        return compared(here, there, ends, ranked[0] > ranked[1], left_out)


def without_leader_text(partitions: Sequence[TopicPartition]) -> str:
    """Return, in words, that partitions have no leader after a start without the log directory in whose directory.id
    the metadata log places them, although they lie in another one."""
    names = names_text(partitions, LEADERLESS_SHOWN)
    return f"Kafka starts, and has no leader for {names}: the controller takes that log directory as lost"


def ends_start(ending: str) -> str:
    """Return the end of the sentence about an I/O error after which Kafka loads `ending`, and does not start."""
    return f"{ENDS_START}{ending}, and ends (The log dir is already offline)"


def ends_after(ending: str) -> str:
    """Return the end of the sentence that Kafka starts without a log directory, if it may load `ending` later, and then
    does not start."""
    return f"; if it loads {ending}, later than this, it does not start (The log dir is already offline)"


def log_directories_of(server: Mapping[str, str]) -> list[Path]:
    """Return the log directories in log.dirs or log.dir of server.properties. The directory in metadata.log.dir is
    among them only if log.dirs or log.dir lists it, too."""
    names = server.get("log.dirs") or server.get("log.dir") or ""
    return [Path(each.strip()) for each in names.split(",") if each.strip()]


def metadata_home_of(server: Mapping[str, str]) -> Path | None:
    """Return the log directory that the entries of server.properties name for the metadata log; None if they name no
    log directory."""
    named = server.get("metadata.log.dir")
    return Path(named) if named else next(iter(log_directories_of(server)), None)


def metadata_home_among(directories: Iterable[Path]) -> Path | None:
    """Guess, without server.properties, which of a broker's log directories has its metadata log: return the one whose
    metadata log has the highest log end offset, of several the first by path; None if none has a metadata log."""
    ends = []
    for each in sorted(directories, key=lambda path: str(path.resolve())):
        with suppress(UnreadableInput, OSError):  # the checks of that directory report this error
            if (end := end_offset(each / METADATA_DIRECTORY)) is not None:
                ends.append((end, each))
    return max(ends, key=lambda known: known[0])[1] if ends else None


def misplaced_metadata_log(home: Path | None, directories: Iterable[Path]) -> Path | None:
    """Return the metadata log that lies in one of `directories`, although it belongs in `home`: Kafka does not start
    with it ("Found unexpected metadata location"). Returns None if there is no such log, if `home` has a metadata log,
    or if `home` is not known."""
    if home is None or not home.is_dir() or (home / METADATA_DIRECTORY).exists():
        return None
    found = (each / METADATA_DIRECTORY for each in directories if not same_path(each, home))
    return next((each for each in found if any(each.glob(f"*{FileKind.LOG}"))), None)


def node_id_of(server: Mapping[str, str]) -> int | None:
    """The node.id in the entries of server.properties; None if there is none."""
    text = server.get("node.id", "").strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(f"{2**31}") else None


def same_path(one: Path, other: Path) -> bool:
    """Whether both paths lead to one directory."""
    return one.absolute() == other.absolute() or one.resolve() == other.resolve()


def directories_beside(directory: Path) -> Beside:
    """Return the log directories of the same node beside a log directory; none if the ids in its meta.properties are
    not known."""
    mine = meta_of(directory)
    if mine is None or None in (mine.cluster_id, mine.node_id, mine.directory_id):
        return NONE_BESIDE
    found = directory.absolute().parent.glob(f"*/{FileKind.META_PROPERTIES}")
    metas = {each.parent: meta for each in sorted(found) if (meta := meta_of(each.parent)) is not None}
    same = {
        path: each.directory_id
        for path, each in metas.items()
        if (each.cluster_id, each.node_id) == (mine.cluster_id, mine.node_id)
    }
    count = Counter(same.values())
    others = {path: each for path, each in same.items() if not same_path(path, directory)}
    twins = []
    for path in (path for path, each in others.items() if each == mine.directory_id):
        with suppress(UnreadableInput, OSError):  # then it is not known whether this is a copy
            twins += [] if shares_partitions(path, directory) else [path]
    return Beside([path for path, each in others.items() if count[each] == 1], twins)


def shares_partitions(one: Path, other: Path) -> bool:
    """Whether at least half of the partitions' directories of the smaller of two log directories lie in both, by their
    names without the suffix of a stray, which one of two may have become since; False if none does."""
    names, others = (
        {each.name._replace(state="", unique=None) if each.name.state == "stray" else each.name for each in found}
        for found in (LogDirectory(path).partitions() for path in (one, other))
    )
    return bool(names & others) and 2 * len(names & others) >= min(len(names), len(others))


def meta_of(directory: Path) -> MetaProperties | None:
    """Return the content of a directory's meta.properties; None if there is no such file, or if it cannot be read,
    which other checks report."""
    try:
        return read_meta_properties(directory)
    except (FormatError, UnreadableInput):
        return None


def legible_meta_of(directory: Path) -> MetaProperties:
    """Return the ids that are legible in a directory's meta.properties, even if Kafka cannot use the file; None for
    each other id."""
    try:
        data = read_whole(directory / FileKind.META_PROPERTIES)
    except UnreadableInput:
        data = b""
    return properties.legible_meta_properties(data)


def _opened_as(directory: PartitionDirectory) -> tuple[TopicPartition, str]:
    return directory.partition, directory.name.state


def _opened(log_directory: Path) -> list[PartitionDirectory]:
    """Return the directories of partitions in a log directory that a start opens: those without a suffix and those with
    -future, except the metadata log."""
    try:
        found = LogDirectory(log_directory).partitions()
    except UnreadableInput:  # the checks of that directory report this error
        return []
    return [each for each in found if each.name.state in ("", "future") and each.name.topic != METADATA_TOPIC]
