"""The producer state of a partition, and its snapshots: sequences and open transactions up to an offset.

    state     per producer: epoch, its last five batches, first offset of its open transaction (compiled code:
              ProducerTable)
    snapshot  <offset>.snapshot, the state as of the records below the offset; taken at the base offset of the last two
              segments and at the end of the log, so that Kafka's start reads at most the last segment again

A producer that has been silent for producer.id.expiration.ms, with no transaction open, is forgotten when a snapshot is
loaded. Source: ProducerStateManager, ProducerAppendInfo; KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from formats.errors import BadCodec, BadCompression, FormatError, LimitExceeded
from formats.file_name import FileKind, FileName, build
from formats.kernels.batches import BatchTable
from formats.kernels.crc import crc32c
from formats.kernels.producers import RECOVERY_INVALID, RECOVERY_MORE, RECOVERY_REFUSED, ProducerTable, follow_producers
from formats.producer_snapshot import ProducerEntry, ProducerSnapshot
from formats.producer_snapshot import build as build_snapshot
from formats.producer_snapshot import parse as parse_snapshot
from formats.txn_index import AbortedTxn
from kcli.log.partition_view import PartitionView, offset_of

DEFAULT_EXPIRATION_MS = 86_400_000
SUFFIX = ".snapshot"

LENGTH_FROM, CRC_FROM = 12, 21
_END_MARKER = struct.Struct(">8xi5xIh4xq22xi7sh3sis")
"""The layout of a transaction marker's batch. Read from the header: length, CRC, attributes, base timestamp and record
count; from the record: the marker's type and the coordinator epoch, with the constant bytes around them."""
_MARKER_HEAD = b"\x20\0\0\0\x08\0\0"  # a record of 16 bytes: attributes, deltas; a key of 4 bytes, version 0
_MARKER_VALUE_HEAD = b"\x0c\0\0"  # a value of 6 bytes, version 0
_NO_HEADERS = b"\0"
_NOT_PLAIN = 0b1111  # the bits of codec and LogAppendTime in the attributes
_KINDS = (0, 1)  # abort, commit
_BEFORE_KIND = slice(62, 66)
_KIND_AT = 69

OnCorrupt = Callable[[str, FormatError], None]


def snapshot_name(offset: int) -> str:
    """The file name of the snapshot at an offset."""
    return build(FileName(FileKind.PRODUCER_SNAPSHOT, offset))


def read_control(data: bytes) -> tuple[int, int, int, int, str | None]:
    """Read the transaction marker in a control batch as Kafka does when it loads producers. Return RECOVERY_MORE, the
    marker's type (-1 if the batch has no record), its coordinator epoch, its timestamp (ms), and None; for a batch that
    Kafka cannot read, return RECOVERY_INVALID or RECOVERY_REFUSED, three times -1, and the reason. data: the whole
    batch."""
    return _read_end_marker(data) or read_any_control(data)


def marker_kind(batch: bytes) -> int:
    """Return the type of a control batch's record: ABORT, COMMIT, or another number for a record that is no marker."""
    if batch[_BEFORE_KIND] == b"\0\0\0\x08":  # attributes, timestamp delta and offset delta are 0, key length is 4
        return batch[_KIND_AT] if batch[_KIND_AT - 1] == 0 else -1
    return read_control(batch)[1]


def _read_end_marker(data: bytes) -> tuple[int, int, int, int, None] | None:
    """Return the tuple that `read_control` describes, for a batch that has exactly the form in which Kafka writes
    transaction markers; None for any other batch."""
    if len(data) != _END_MARKER.size:
        return None
    length, crc, attributes, base_timestamp, count, head, kind, value_head, epoch, behind = _END_MARKER.unpack(data)
    is_plain = count == 1 and head == _MARKER_HEAD and value_head == _MARKER_VALUE_HEAD and behind == _NO_HEADERS
    if not is_plain or attributes & _NOT_PLAIN or length != len(data) - LENGTH_FROM or kind not in _KINDS:
        return None
    if crc32c(data[CRC_FROM:]) != crc:
        return None
    return RECOVERY_MORE, kind, epoch, base_timestamp, None


def read_any_control(data: bytes) -> tuple[int, int, int, int, str | None]:
    """Return the tuple that `read_control` describes, for a control batch of any form. Construct parses the batch,
    which is slower."""
    from formats import control_record
    from formats.record_batch import parse_batch

    try:
        batch = parse_batch(data[:16] + b"\x02" + data[17:])  # Kafka reads a magic above 2 as 2
    except (BadCodec, BadCompression, LimitExceeded) as error:
        return RECOVERY_REFUSED, -1, -1, -1, f"a control batch that does not decompress: {error.reason}"
    except FormatError as error:
        return RECOVERY_INVALID, -1, -1, -1, f"a control batch with a broken record: {error.reason}"
    if not batch.records:
        return RECOVERY_MORE, -1, -1, -1, None
    record = batch.records[0]
    try:
        kind = control_record.parse_key(record.key).type
    except FormatError as error:
        how = RECOVERY_REFUSED if record.key is None else RECOVERY_INVALID
        return how, -1, -1, -1, f"a control record with a broken key: {error.reason}"
    if kind not in (control_record.ControlType.ABORT, control_record.ControlType.COMMIT):
        return RECOVERY_REFUSED, -1, -1, -1, f"a producer's control record of type {kind}, which ends no transaction"
    value = record.value or b""
    if len(value) >= 2 and value[0] & 0x80:
        return RECOVERY_INVALID, -1, -1, -1, "an end marker of a negative version"
    if len(value) < 6:
        return RECOVERY_REFUSED, -1, -1, -1, "an end marker without a coordinator epoch"
    return RECOVERY_MORE, int(kind), int.from_bytes(value[2:6], signed=True), batch.timestamp_ms(record), None


def check_control(batch: bytes) -> tuple[int, int, str | None]:
    """Return type and coordinator epoch of the last record in a control batch, and None; -1, -1 and the reason if
    the batch cannot be parsed.

    LogCheck calls this function for the control batches that it cannot parse itself.
    """
    from formats import control_record, record_batch

    kind, epoch = -1, -1
    try:
        for record in record_batch.parse_batch(batch).records:
            control = control_record.parse(record.key, record.value)
            kind = int(control.type)
            epoch = int(control.value["coordinatorEpoch"]) if control.type.is_marker else -1
    except FormatError as error:
        return -1, -1, error.reason
    return kind, epoch, None


class ProducerStateManager:
    """The producers of a partition, and their snapshots in a view of its directory.

    unreplicated: the ended transactions whose marker may not be below the high watermark yet, as first offset -> offset
    of the marker. loaded: the name of the snapshot that the state was loaded from; None if it was loaded from none.
    now_ms: the time, for expiration.
    on_corrupt(name, error): called for each snapshot that cannot be read, and is removed for that reason.
    """

    def __init__(
        self,
        view: PartitionView,
        now_ms: int,
        *,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
        on_corrupt: OnCorrupt = lambda *_: None,
    ) -> None:
        self.table = ProducerTable(read_control)
        self.unreplicated: dict[int, int] = {}
        self.loaded: str | None = None
        self._last_snapshot_offset = 0
        self._view = view
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self._on_corrupt = on_corrupt
        self._snapshots = self._listed()

    @property
    def map_end_offset(self) -> int:
        """The state includes the batches below this offset."""
        return self.table.end_offset

    @map_end_offset.setter
    def map_end_offset(self, offset: int) -> None:
        self.table.end_offset = offset

    def _listed(self) -> dict[int, str]:
        """Return the names of the snapshots in the view, by offset. As in Kafka, the offset in a name may have any
        number of digits."""
        return {offset_of(name): name for name in self._view.names() if name.endswith(SUFFIX)}

    @property
    def latest_snapshot_offset(self) -> int | None:
        """The offset of the latest snapshot; None if there is none."""
        return max(self._snapshots, default=None)

    @property
    def last_snapshot_offset(self) -> int:
        """The offset of the last snapshot that was taken or loaded; the log start offset if there was none."""
        return self._last_snapshot_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the first transaction that is open, or whose marker is not below the high watermark yet;
        None if there is none."""
        ongoing = self.table.ongoing()
        if not ongoing and not self.unreplicated:  # as mostly
            return None
        return min([*(first for first, _ in ongoing[:1]), *self.unreplicated], default=None)

    def follow(self, batches: BatchTable, data: bytes | bytearray | memoryview) -> list[AbortedTxn] | None:
        """Apply batches of the log, whose bytes are in `data`, to the state, in order, without a leader's checks.
        Returns the transactions that they abort.

        Returns None if the batches contradict the state. The attribute `reason` of `table` then says why, and the state
        must not be used any more.
        """
        how, completed = follow_producers(self.table, batches, data)
        if how != RECOVERY_MORE:
            self.map_end_offset = -1
            return None
        if not completed:
            return []
        self.unreplicated |= {first: marker for _, first, marker, _, _ in completed}
        return [
            AbortedTxn(0, producer_id, first, marker, stable)
            for producer_id, first, marker, stable, aborted in completed
            if aborted
        ]

    def take_snapshot(self) -> None:
        """Write the state to a snapshot at map_end_offset, unless one was taken or loaded at that offset or after
        it."""
        if self.map_end_offset > self._last_snapshot_offset:
            entries = tuple(map(ProducerEntry._make, self.table.entries()))
            name = snapshot_name(self.map_end_offset)
            self._view.write(name, self._bytes_of(entries, name))
            self._snapshots[self.map_end_offset] = name
            self._last_snapshot_offset = self.map_end_offset

    def _bytes_of(self, entries: tuple[ProducerEntry, ...], name: str) -> bytes:
        """Return the bytes of a snapshot. If the snapshot file on disk has the same entries in another order, return
        the bytes of that file, so that the file stays as it is."""
        if name in self._view.original:
            self._view.files.setdefault(name, self._view.original[name])
            try:
                data = self._view.read(name)
                if sorted(parse_snapshot(data).entries) == list(entries):
                    return data
            except FormatError:
                pass
        return build_snapshot(ProducerSnapshot(entries))

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int) -> None:
        """Remove the snapshots that are at or below the log start offset, and those above the log end offset. Then load
        the state of the latest snapshot that is left; but if the state in memory ends at the log end offset already,
        keep that state."""
        for offset in sorted(self._snapshots):
            if offset > log_end_offset or offset <= log_start_offset:
                self.remove_snapshot(offset)
        if log_end_offset != self.map_end_offset:
            self.table.clear()
            self.unreplicated.clear()
            self._load(log_start_offset)
            return
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop the state and all snapshots, because the log now begins, and ends, at `offset`."""
        self.table.clear()
        self.unreplicated.clear()
        for each in sorted(self._snapshots):
            self.remove_snapshot(each)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def remove_snapshot(self, offset: int) -> None:
        """Remove the snapshot at an offset, if there is one."""
        if (name := self._snapshots.pop(offset, None)) is not None:
            self._view.remove(name)

    def remove_stray_snapshots(self, base_offsets: list[int]) -> None:
        """Remove the snapshots that are not at the base offset of a segment; but keep the last of these snapshots if
        its offset is above all base offsets."""
        self._snapshots = self._listed()
        bases = set(base_offsets)
        stray: int | None = None
        for offset in sorted(self._snapshots):
            if offset not in bases:
                if stray is not None:
                    self.remove_snapshot(stray)
                stray = offset
        if stray is not None and bases and stray < max(bases):
            self.remove_snapshot(stray)

    def _load(self, log_start_offset: int) -> None:
        while (offset := self.latest_snapshot_offset) is not None:
            name = self._snapshots[offset]
            try:
                entries = parse_snapshot(self._view.read(name)).entries
            except FormatError as error:
                self._on_corrupt(name, error)
                self.remove_snapshot(offset)
                continue
            for entry in entries:
                if entry.current_txn_first_offset >= 0 or self._now_ms - entry.timestamp < self._expiration_ms:
                    self.table.load(entry)
            self._last_snapshot_offset = self.map_end_offset = offset
            self.loaded = name
            return
        self._last_snapshot_offset = self.map_end_offset = log_start_offset
