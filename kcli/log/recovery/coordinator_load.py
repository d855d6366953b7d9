"""Whether a coordinator can load its partition after a start. The group coordinator loads a partition of
__consumer_offsets, the share coordinator one of __share_group_state, the transaction coordinator one of
__transaction_state.

A coordinator reads its partition from the log start to the end, without a check of CRCs. It stops at bytes that are no
batch, at a batch whose records cannot be parsed, and at a record that does not belong in its topic: load_stops says
which records these are. A start after a clean shutdown checks for none of the three, and even a start after a crash
does not check for such records. After a stop, the group or the share coordinator serves nothing of the partition. The
transaction coordinator serves the partition with the records before the stop, as if the later records did not exist.

The group and the share coordinator also stop at a batch that ends at or above the high watermark, if its last offset is
not above that of an earlier such batch: the batch is in the log twice, for example. The high watermark is taken to be
the log end offset, as in a partition without other replicas. A coordinator reads LOAD_BYTES at once; after a read with
a batch that ends at the log end offset it reads no more, and does not see the bytes behind that read.
Source: CoordinatorLoaderImpl, SnapshottableCoordinator.updateLastWrittenOffset, TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from formats.errors import BadChecksum, Truncated
from formats.kernels.batches import FAULT_BAD_CRC, BatchTable
from formats.kernels.columns import BASE_OFFSET, FAULTS, LAST_OFFSET, POSITION, SIZE
from formats.kernels.records import RecordTable
from kcli.log.batch_records import decode, faults_of, is_readable
from kcli.log.partition_view import PartitionView
from kcli.log.recovery.load_stops import COORDINATORS, Stop, stops
from kcli.log.recovery.salvage import is_log
from kcli.log.segment_reader import Damage, Window, read_segment

RECORDS_AT_ONCE = 4096
LOAD_BYTES = 5 << 20
"""Kafka's default of offsets.load.buffer.size, and of the same settings of the other coordinators."""
_OUTCOMES = {
    "group": "fails to load this partition: it serves none of the groups in it",
    "share": "fails to load this partition: it serves none of the share groups in it",
    "transaction": "loads nothing behind: it forgets the transactional ids there, and does not end their transactions",
}


@dataclass(frozen=True, slots=True)
class LoadEnd:
    """Where and why a coordinator's load of a partition ends early. file, position: the .log file, and the byte in it
    at which the batch, or the bytes that are no batch, begin. offset: the offset of the record at which the load ends;
    None if the load ends at a whole batch, or at bytes that are no batch. is_of_order: whether the load ends because of
    the order of the batches, not because of what the batch has in it."""

    coordinator: str
    file: str
    position: int
    reason: str
    offset: int | None = None
    is_of_order: bool = False

    @property
    def outcome(self) -> str:
        """The state of Kafka's coordinator after a load that ends before the last record of its partition, in words."""
        return f"Kafka starts, and its {self.coordinator} coordinator {_OUTCOMES[self.coordinator]}"


@dataclass(frozen=True, slots=True)
class Disorder:
    """A batch that a coordinator loads after batches with higher offsets. file, position: the .log file, and the byte
    in it at which the batch begins. offset: its base offset. highest: the highest offset of the batches before it."""

    coordinator: str
    file: str
    position: int
    offset: int
    highest: int

    @property
    def reason(self) -> str:
        """The reaction of the coordinator to the batch, in words."""
        where = f"the batch of offset {self.offset:,} at byte {self.position:,} lies behind offset {self.highest:,}"
        outcome = "takes it for the later one: an older record may be the last of its key"
        return f"{where}: Kafka keeps it there, and its {self.coordinator} coordinator {outcome}"


@dataclass(frozen=True, slots=True)
class Altered:
    """The batches with a wrong CRC in a .log file that a coordinator loads. file, position: the .log file, and the byte
    in it at which the first of them begins. offset: its base offset. batches: their number."""

    coordinator: str
    file: str
    position: int
    offset: int
    batches: int

    @property
    def reason(self) -> str:
        """What the coordinator makes of the batches, in words."""
        where = f"the batch of offset {self.offset:,} at byte {self.position:,}"
        have = f"{where} has" if self.batches == 1 else f"{where} and {self.batches - 1:,} more have"
        return f"{have} a wrong CRC: Kafka starts, and its {self.coordinator} {LOADS_ALTERED}"


LOADS_ALTERED = "coordinator checks none, and loads the records as they are"


def load_end(
    topic: str, view: PartitionView, log_end_offset: int, tell: Callable[[Disorder | Altered], None] = lambda _: None
) -> LoadEnd | None:
    """Return where the load of a coordinator's partition ends before `log_end_offset`. Returns None if the coordinator
    loads the whole partition, or if the topic is not one of a coordinator. tell: called with the first batch that the
    coordinator loads after others with higher offsets, and with the batches of a .log file that have a wrong CRC.
    Raises UnreadableInput."""
    if topic not in COORDINATORS:
        return None
    load, is_told = _Load(topic, log_end_offset), False
    for name in filter(is_log, view.names()):
        load.begin_segment()
        source = view.source(name)
        try:
            for part in read_segment(source, resync=False):
                found = load.end_in(part)
                if load.disordered is not None and not is_told:
                    is_told = True
                    tell(Disorder(COORDINATORS[topic], name, *load.disordered))
                if found is not None:
                    return LoadEnd(COORDINATORS[topic], name, *found, is_of_order=load.is_of_order)
        finally:
            source.close()
        if load.altered:
            tell(Altered(COORDINATORS[topic], name, *load.altered[0], len(load.altered)))
    return None


class _Load:
    """A load of a coordinator's partition: the caller passes the windows and damage of its segments to it, in order."""

    def __init__(self, topic: str, log_end_offset: int) -> None:
        self._topic = topic
        self._log_end_offset = log_end_offset
        self._next_offset = 0
        self._written = 0
        self._read_from = 0
        self._has_all = False
        self.is_of_order = False
        self.disordered: tuple[int, int, int] | None = None
        """Position and base offset of the first batch behind others with higher offsets, and the highest of these."""
        self.altered: list[tuple[int, int]] = []
        """Position and base offset of each batch of the segment with a wrong CRC."""
        self._highest = -1
        self._records = RecordTable(RECORDS_AT_ONCE)

    def begin_segment(self) -> None:
        """Begin the next segment: the windows and damage that `end_in` gets from now on are in that segment."""
        self.altered = []
        self._begin_read(0)

    def _begin_read(self, position: int) -> None:
        self._read_from = position
        self._has_all = self._has_all or self._next_offset >= self._log_end_offset

    def end_in(self, part: Window | Damage) -> tuple[int, str, int | None] | None:
        """Return the byte at which the load ends, the reason, and the offset of the record at which it ends (None: it
        ends at a whole batch, or at bytes that are no batch). Returns None if the load does not end in this window or
        damage."""
        if self._has_all:
            return None
        if isinstance(part, Damage):
            is_behind = isinstance(part.error, Truncated) and self._next_offset >= self._log_end_offset
            return None if is_behind else (part.position, part.error.reason, None)
        stop: Stop | None = None
        for buffer in decode(part, self._records):
            stop = stop or next(stops(self._topic, part, self._records, buffer), None)
        batches = part.batches
        repeated, count = self._repeated(batches)
        if stop is not None and (stop.batch >= count or 0 <= repeated <= stop.batch):
            stop = None
        at = batches.first_fault()
        while 0 <= at < count and (stop is None or at <= stop.batch):
            if not is_readable(part, at, check_crc=False):
                faults = (each for each in faults_of(part, at) if not isinstance(each, BadChecksum))
                return batches.field(at, POSITION), next(faults).reason, None
            if batches.field(at, FAULTS) & FAULT_BAD_CRC:
                self.altered.append((batches.field(at, POSITION), batches.field(at, BASE_OFFSET)))
            at = batches.first_fault(at + 1)
        if stop is not None:
            return batches.field(stop.batch, POSITION), stop.reason, stop.offset
        if repeated >= 0:
            self.is_of_order = True
            end = batches.field(repeated, LAST_OFFSET)
            reason = f"the batch ends at offset {end:,}, and one before it at {self._written - 1:,} (New last written "
            return batches.field(repeated, POSITION), f"{reason}offset must be greater)", None
        part.release()
        return None

    def _repeated(self, batches: BatchTable) -> tuple[int, int]:
        """Return the row of the first batch at which the group or share coordinator stops because an earlier batch ends
        at or above its last offset (-1: none), and the number of batches that the coordinator loads, this one
        included."""
        is_checked = COORDINATORS[self._topic] != "transaction"
        for row in range(batches.count):
            position, behind = batches.field(row, POSITION), batches.field(row, LAST_OFFSET) + 1
            if position + batches.field(row, SIZE) - self._read_from > LOAD_BYTES:
                self._begin_read(position)
                if self._has_all:
                    return -1, row
            if is_checked and behind >= self._log_end_offset:
                if behind <= self._written:
                    return row, row + 1
                self._written = behind
            if self.disordered is None and batches.field(row, BASE_OFFSET) <= self._highest:
                self.disordered = position, batches.field(row, BASE_OFFSET), self._highest
            self._highest = max(self._highest, behind - 1)
            self._next_offset = behind
        return -1, batches.count
