"""A stale clean-shutdown marker, which a stop before the broker's last one wrote: Kafka's start trusts the marker, and
recovers no log.

A broker deletes its markers when it loads its logs; a clean shutdown writes new ones with the broker epoch, which the
broker's registration sets. So if a marker's epoch is lower than that of the last registration, somebody put the marker
back, alone or with the whole log directory; or the last start ended before it loaded the logs.

The whole log directory is as old as its marker if it lacks the last leader epoch of every partition that the broker
leads: a broker that becomes leader writes the leader epoch into leader-epoch-checkpoint at once. If the broker leads no
partition in the directory, the directory counts as old if another log directory was used since: the other one has no
marker, or a marker with a higher epoch.

A marker of 0 bytes may have been made by hand: Kafka 4 writes a JSON object, and older versions nothing. It counts as
made by hand if the broker has registered as Kafka 4, or if most active indexes end in preallocated zeros, which a clean
shutdown cuts off.

Source: LogManager.loadLogs, CleanShutdownFileHandler, UnifiedLog.assignEpochStartOffset, LogSegment.close.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, FileKind
from kcli.errors import UnreadableInput
from kcli.log.index_entries import OFFSET_ENTRY_BYTES
from kcli.log.log_directory import LogDirectory
from kcli.log.source import read_whole
from kcli.log.whiteouts import WHITEOUT, is_whiteout

if TYPE_CHECKING:
    from kcli.metadata.image import MetadataImage


KAFKA_4 = 25
"""The level of metadata.version of Kafka 4.0: no earlier version supports it."""


class StaleMarker(NamedTuple):
    """A stale marker. epoch: the broker epoch in the marker. registered: the broker epoch of the last registration.
    is_older: whether the whole log directory is as old as the marker."""

    epoch: int
    registered: int
    is_older: bool

    @property
    def reason(self) -> str:
        """What is wrong with the marker, and what Kafka does because of it, in words."""
        marker = (
            f"broker epoch {self.epoch:,}, of an earlier stop: the broker has registered at {self.registered:,} since"
        )
        if self.is_older:
            return (
                f"{marker}, and the log directory is as old as this file: Kafka takes it as it is, and serves old logs"
            )
        return f"{marker}; Kafka takes the stop for clean, and recovers no log"


def stale_marker(home: Path, image: MetadataImage, node_id: int | None, others: Sequence[Path]) -> StaleMarker | None:
    """Return the clean-shutdown marker in the log directory `home` if it is stale: if its broker epoch is lower than
    that of the broker's last registration. None if there is no marker, if it is not stale, or if this is not known,
    because the marker has no broker epoch or the metadata does not have the broker.

    image: the metadata of all records that can be read. node_id: the broker's id; None if it is not known. others: the
    broker's other log directories, which decide `StaleMarker.is_older` if the partitions in `home` do not. Raises
    UnreadableInput.
    """
    epoch = LogDirectory(home).marked_broker_epoch
    broker = None if node_id is None else image.brokers.get(node_id)
    if epoch is None or epoch < 0 or broker is None or epoch >= broker.epoch:
        return None
    is_older = _is_older(home, image, broker.id)
    if is_older is None:
        is_older = any(_was_used_since(each, epoch) for each in others)
    return StaleMarker(epoch, broker.epoch, is_older)


def blank_marker(home: Path, image: MetadataImage | None, node_id: int | None) -> str | None:
    """Return, in words, why the clean-shutdown marker of 0 bytes in the log directory `home` is not that of an orderly
    stop, and what Kafka does with it. None if there is no marker of 0 bytes, or no evidence that it was made by hand. A
    whiteout counts as such a marker, too.

    image: the metadata of all records; None if it is not known. node_id: the broker's id; None if it is not known.
    Raises UnreadableInput.
    """
    marker = home / FileKind.CLEAN_SHUTDOWN
    if marker.exists() and is_whiteout(marker):
        return f"{WHITEOUT}; Kafka takes the stop for clean, and recovers no log"
    if not marker.is_file() or read_whole(marker).strip():
        return None
    from kcli.metadata.image import METADATA_VERSION  # imported only if the marker of 0 bytes exists

    broker = None if image is None or node_id is None else image.brokers.get(node_id)
    signs = []
    level = None if broker is None else broker.features.get(METADATA_VERSION)
    if level is not None and level.max >= KAFKA_4:
        signs.append("the broker has registered as Kafka 4, which writes its broker epoch into it")
    full, all_logs = _with_room(home)
    if full and 2 * full >= all_logs:
        signs.append(f"{full:,} active indexes have room for more entries, which an orderly stop cuts off")
    if not signs:
        return None
    return (
        f"no content, and {', and '.join(signs)}: it is not of an orderly stop; Kafka takes the stop for clean, and "
        "recovers no log"
    )


def _with_room(home: Path) -> tuple[int, int]:
    """Return the number of active segments whose offset index ends in zeros, and that of all active segments with
    batches. Raises UnreadableInput."""
    full = logs = 0
    for each in LogDirectory(home).partitions():
        if each.name.state or each.name.topic == METADATA_TOPIC:
            continue
        try:
            last = max(each.path.glob(f"{'[0-9]' * 20}{FileKind.LOG}"), default=None)
            if last is None or not last.stat().st_size:
                continue
            logs += 1
            with last.with_suffix(FileKind.OFFSET_INDEX).open("rb") as index:
                size = index.seek(0, 2)
                index.seek(max(0, size - OFFSET_ENTRY_BYTES))
                full += size >= OFFSET_ENTRY_BYTES and not any(index.read(OFFSET_ENTRY_BYTES))
        except OSError:  # the checks of the partition report this error
            continue
    return full, logs


def _is_older(home: Path, image: MetadataImage, node_id: int) -> bool | None:
    """Whether the log directory `home` lacks the last leader epoch of every partition in it that the broker leads. None
    if the broker leads none of the partitions that have a readable leader-epoch-checkpoint."""
    is_known = False
    for each in LogDirectory(home).partitions():
        topic = None if each.name.state else image.topic(each.name.topic)
        state = None if topic is None else topic.partitions.get(each.name.partition)
        epoch = _last_epoch(each.path)
        if state is None or state.leader != node_id or epoch is None:
            continue
        if epoch >= state.leader_epoch:
            return False
        is_known = True
    return True if is_known else None


def _last_epoch(directory: Path) -> int | None:
    """The last leader epoch in a partition's leader-epoch-checkpoint; None if the file is empty or unreadable."""
    try:
        entries = parse_leader_epochs(read_whole(directory / FileKind.LEADER_EPOCHS))
    except (FormatError, UnreadableInput):  # the checks of the partition report this error
        return None
    return max((epoch for epoch, _ in entries), default=None)


def _was_used_since(home: Path, epoch: int) -> bool:
    """Whether a log directory was used after the stop that wrote markers with the broker epoch `epoch`: it has
    partitions and no marker, or a marker with a higher epoch. False if it is missing or cannot be read."""
    directory = LogDirectory(home)
    try:
        if not directory.was_shut_down_cleanly:
            return bool(directory.partitions())
        other = directory.marked_broker_epoch
    except UnreadableInput:  # other checks report this error
        return False
    return other is not None and other > epoch
