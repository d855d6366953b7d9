"""The metadata log within a recovery of its log directory: what its start means for all that the cluster knows.

alone        this node is the only voter: what a start cuts is gone, and partitions become strays
in a quorum  the node fetches from the other voters what is cut: nothing is lost, and nothing is salvaged here
elsewhere    the metadata log is in another directory, of which the configuration tells
missing      there is none, and nothing says that it is elsewhere
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from formats import quorum_state
from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, METADATA_TOPIC, FileKind
from formats.properties import MetaProperties
from kcli.errors import UnreadableInput
from kcli.log.loader import LoadOptions
from kcli.log.log_directory import LogDirectory, read_meta_properties
from kcli.log.recovery import PartitionPlan, plan, with_view
from kcli.log.recovery_view import StartRefused
from kcli.log.source import read_whole
from kcli.lost_metadata import LostMetadata, Stray, why_stray
from kcli.metadata.difference import differences

if TYPE_CHECKING:
    from kcli.metadata_salvage import MetadataSalvage


@dataclass
class MetadataRecovery:
    """Of one run. directory: a log directory; server: the entries of server.properties, as far as there are some.

    lost: what a start makes of the log; None where it is missing, or in a quorum. strays: of this directory's
    partitions. starts: does Kafka start with the log? is_loss: does it not, or does the cluster forget something?
    salvage: what can be saved of that; is_salvaged: it is, in this run. in_quorum: signs of damage that the
    other_voters mend. refusals: what Kafka would stop at; passed_over: what it would not stop at, though it should.
    """

    directory: Path
    server: Mapping[str, str]
    now_ms: int
    wants_salvage: bool = False
    lost: LostMetadata | None = None
    strays: list[Stray] = field(default_factory=list)
    is_loss: bool = False
    starts: bool = True
    salvage: MetadataSalvage | None = None
    is_salvaged: bool = False
    other_voters: Sequence[int] = ()
    in_quorum: Sequence[str] = ()
    refusals: list[StartRefused] = field(default_factory=list)
    passed_over: list[StartRefused] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The log directory that holds the metadata log, or should."""
        named = self.server.get("metadata.log.dir") or next(iter(self.log_directories), None)
        return self.directory if named is None or _same(Path(named), self.directory) else Path(named)

    @property
    def log_directories(self) -> list[Path]:
        """All that the configuration names."""
        names = self.server.get("log.dirs") or self.server.get("log.dir") or ""
        return [Path(each.strip()) for each in names.split(",") if each.strip()]

    @property
    def is_elsewhere(self) -> bool:
        """Is the metadata log not in `directory`, and known to be missing or where the configuration says?"""
        return not (self.directory / METADATA_DIRECTORY).is_dir() and bool(
            self.log_directories or self.server.get("metadata.log.dir")
        )

    @property
    def is_log_directory(self) -> bool:
        """Does `directory` belong to a node?"""
        return (self.directory / FileKind.META_PROPERTIES).is_file()

    @property
    def is_missing(self) -> bool:
        """Is there no metadata log where it should be?"""
        return not (self.home / METADATA_DIRECTORY).is_dir()

    def take(self, planned: PartitionPlan) -> PartitionPlan:
        """The plan of the metadata log's start in `directory`. Returns the one to carry out. Raises UnreadableInput."""
        self.look(planned)
        if not self.wants_salvage or self.salvage is None or self.lost is None:
            return planned
        self.is_salvaged = True
        self.refusals = [each for each in self.refusals if not _is_of_log(each)]
        salvaged = with_view(planned, self.salvage.view(self.lost, self.now_ms))
        gaps = plan(planned.view.directory, planned.options, with_salvage=True)
        return replace(salvaged, saved=gaps.saved)

    def look(self, planned: PartitionPlan | None) -> None:
        """See what the start of the metadata log means. planned: None where the log is missing. Raises
        UnreadableInput."""
        node_id = self._node_id()
        self.other_voters = [each for each in _voters(self.home / METADATA_DIRECTORY) if each != node_id]
        lost = LostMetadata(self.home, planned)
        if self.other_voters:
            self.in_quorum = lost.signs
            if node_id is not None and not lost.signs:
                self._look_for_replicas(lost, node_id)
            return
        self.lost = lost
        self.refusals += lost.refusals()
        is_refused = any(map(_is_of_log, self.refusals)) or (planned is not None and planned.refused is not None)
        if not is_refused:
            for each in lost.strays(LogDirectory(self.directory).partitions(), node_id):
                if isinstance(each, StartRefused):
                    self.refusals.append(each)
                else:
                    self.strays.append(each)
        self.is_loss, self.starts = is_refused or self._is_loss(lost), not is_refused
        if self.is_loss and planned is not None and node_id is not None:
            from kcli.metadata_salvage import MetadataSalvage

            self.salvage = MetadataSalvage(lost, self._unnamed(lost, node_id), node_id, self._directory_ids())

    def _look_for_replicas(self, lost: LostMetadata, node_id: int) -> None:
        """A log may lag behind that of the quorum, but hardly so far that this node has no replica at all."""
        topics = lost.image.topics.values()
        owners = {each for topic in topics for state in topic.partitions.values() for each in state.replicas}
        here = [each for each in LogDirectory(self.directory).partitions() if each.name.topic != METADATA_TOPIC]
        if here and owners and node_id not in owners:
            whose = f"{'nodes' if len(owners) > 1 else 'node'} {', '.join(map(str, sorted(owners)))}"
            reason = f"node.id is {node_id}, and the metadata log knows replicas of {whose} only"
            outcome = "Kafka starts, and renames all partitions to -stray"
            self.passed_over.append(StartRefused(FileKind.META_PROPERTIES, f"{reason}: {outcome}"))

    def look_elsewhere(self) -> None:
        """Where the metadata log is not in `directory`, or missing: play its start by itself. Raises
        UnreadableInput."""
        options = LoadOptions(now_ms=self.now_ms, is_metadata=True)
        self.look(None if self.is_missing else plan(self.home / METADATA_DIRECTORY, options))

    def _is_loss(self, lost: LostMetadata) -> bool:
        """Are records lost that say something?"""
        is_missed = any(stray.is_missed for stray in self.strays)
        return bool(lost.signs) and (is_missed or any(True for _ in differences(lost.readable, lost.image)))

    def keeps(self, stray: Stray) -> bool:
        """Does salvage keep the partition in service?"""
        if self.salvage is None or stray.topic_id is None or stray.partition.name.state:
            return False
        return why_stray(self.salvage.image, stray.partition.name.partition, stray.topic_id, self._node_id()) is None

    def _unnamed(self, lost: LostMetadata, node_id: int) -> list[Stray]:
        """Partitions in any log directory that nothing readable names."""
        others = [each for each in self.log_directories if not _same(each, self.directory)]
        directories = [LogDirectory(each).partitions() for each in (self.directory, *others)]
        found = [lost.strays(each, node_id, lost.readable) for each in directories]
        return [each for strays in found for each in strays if isinstance(each, Stray)]

    def _directory_ids(self) -> dict[Path, str]:
        metas = {each: _meta(each) for each in [self.directory, *self.log_directories]}
        return {path: meta.directory_id for path, meta in metas.items() if meta and meta.directory_id}

    def _node_id(self) -> int | None:
        text = self.server.get("node.id", "")
        if text.isascii() and text.isdecimal():
            return int(text)
        meta = _meta(self.directory)
        return None if meta is None else meta.node_id


def _is_of_log(refused: StartRefused) -> bool:
    """Is it in the metadata log's directory, where salvage mends it?"""
    return refused.file.startswith(f"{METADATA_DIRECTORY}/")


def _same(one: Path, other: Path) -> bool:
    return one.absolute() == other.absolute()


def _meta(directory: Path) -> MetaProperties | None:
    """What meta.properties says; None where it says nothing, which is told elsewhere."""
    try:
        return read_meta_properties(directory)
    except (FormatError, UnreadableInput):
        return None


def _voters(directory: Path) -> Sequence[int]:
    """The voters that quorum-state names; none where it does not."""
    path = directory / FileKind.QUORUM_STATE
    try:
        return quorum_state.parse(read_whole(path)).current_voters or () if path.exists() else ()
    except (FormatError, UnreadableInput):
        return ()
