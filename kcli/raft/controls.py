"""The voters and kraft.version at each offset of the log, from its control records.

A record is in effect as soon as it is in the log, committed or not, until it is truncated. The records of a snapshot
are in effect from the snapshot's end offset less 1 on; those of the snapshot that formatting writes (end offset 0) from
-1 on. Source: KRaftControlRecordStateMachine, VoterSetHistory, TreeMapLogHistory; KIP-853.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from formats import control_record
from formats.batch_writer import Pair, write_batch
from formats.control_record import ControlRecord, ControlType
from formats.message_compiler import read_uvarint
from formats.message_writer import write
from kcli.raft.log import RaftLog
from kcli.raft.messages import Records
from kcli.raft.voters import VoterSet, parse_voters

CONTROL: Final = 0x20
HEADER_BYTES: Final = 61
LENGTH_FROM: Final = 12
_HEADER: Final = struct.Struct(">qi9xh34xi").unpack_from
"""Unpacks the header of a batch: base offset, length, attributes, number of records."""
NOT_LOADED: Final = -1

T = TypeVar("T")


class History(Generic[T]):
    """Values in order, each with the offset from which it is in effect."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, T]] = []

    @property
    def last(self) -> tuple[int, T] | None:
        """The last value, with its offset; None if there is none."""
        return self.entries[-1] if self.entries else None

    def add(self, offset: int, value: T) -> None:
        """Add a value that is in effect from `offset` on, which is above all offsets so far."""
        assert not self.entries or self.entries[-1][0] < offset, "offsets grow"
        self.entries.append((offset, value))

    def at(self, offset: int) -> T | None:
        """Return the value in effect at `offset`; None if there is none."""
        return next((value for begin, value in reversed(self.entries) if begin <= offset), None)

    def truncate_new(self, end_offset: int) -> None:
        """Drop the values from `end_offset` on, where the log now ends."""
        self.entries = [each for each in self.entries if each[0] < end_offset]

    def truncate_old(self, start_offset: int) -> None:
        """Drop the values that are no longer in effect at `start_offset`, where the log now begins."""
        old = [each for each in self.entries if each[0] <= start_offset]
        self.entries = self.entries[max(0, len(old) - 1) :]


class Controls:
    """The histories of voters and of kraft.version. static_voters: those of controller.quorum.voters."""

    def __init__(self, static_voters: VoterSet, log: RaftLog) -> None:
        self.static_voters = static_voters
        self.voter_history: History[VoterSet] = History()
        self.version_history: History[int] = History()
        self._log = log
        self._next_offset = NOT_LOADED

    @property
    def voters(self) -> VoterSet:
        """The voters at the end of the log."""
        last = self.voter_history.last
        return self.static_voters if last is None else last[1]

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version at the end of the log."""
        last = self.version_history.last
        return 0 if last is None else last[1]

    def load(self) -> None:
        """Read the control records in the part of the log that was not read before. If that part is no longer in the
        log, or if nothing was read before, read the latest snapshot first."""
        latest = self._log.latest_snapshot
        if latest is not None and (self._next_offset == NOT_LOADED or self._next_offset < self._log.start_offset):
            self.voter_history.entries.clear()
            self.version_history.entries.clear()
            for control in self._log.snapshot_controls(latest):
                self._take(latest.offset - 1, control)
            self._next_offset = latest.offset
        self._next_offset = max(self._next_offset, 0)
        if self._next_offset < self._log.end_offset:
            for offset, control in self._log.controls(self._next_offset):
                self._take(offset, control)
            self._next_offset = self._log.end_offset

    def appended(self, records: Records) -> None:
        """Add the control records of batches that a follower has passed to the log. Batches at or above the end of the
        log are left out: the log did not accept them."""
        end_offset = self._log.end_offset
        for offset, control in in_records(records, end_offset):
            if offset >= self._next_offset:
                self._take(offset, control)
        self._next_offset = end_offset

    def skip(self) -> None:
        """Count the log as read to its end. The caller calls this after it appended batches without control records."""
        self._next_offset = self._log.end_offset

    def _take(self, offset: int, control: ControlRecord) -> None:
        if control.type is ControlType.KRAFT_VOTERS:
            self.voter_history.add(offset, parse_voters(control.value))
        elif control.type is ControlType.KRAFT_VERSION:
            self.version_history.add(offset, control.value["kRaftVersion"])

    def truncate_new(self, end_offset: int) -> None:
        """Forget the control records from `end_offset` on, where the log was truncated."""
        self.voter_history.truncate_new(end_offset)
        self.version_history.truncate_new(end_offset)
        self._next_offset = min(self._next_offset, end_offset)

    def truncate_old(self, start_offset: int) -> None:
        """Forget the control records that a snapshot whose end offset is `start_offset` replaces."""
        self.voter_history.truncate_old(start_offset)
        self.version_history.truncate_old(start_offset)

    def snapshot_header(self, offset: int) -> list[Pair]:
        """Return the KRaftVersion and KRaftVoters records that follow the SnapshotHeader record of a snapshot whose end
        offset is `offset`; none if kraft.version is 0 there."""
        version = self.version_history.at(offset - 1) or 0
        voters = self.voter_history.at(offset - 1)
        records = [kraft_version(version)] if version else []
        return [*records, kraft_voters(voters)] if version and voters is not None else records


def in_records(records: Records, end_offset: int | None = None) -> Iterator[tuple[int, ControlRecord]]:
    """Yield the control records of whole batches, with their offsets; of the batches below `end_offset` only, if it is
    given. Raises FormatError for damaged records."""
    data, position = bytes(records), 0
    while position + HEADER_BYTES <= len(data):
        base_offset, length, attributes, count = _HEADER(data, position)
        end = position + LENGTH_FROM + length
        if length < HEADER_BYTES - LENGTH_FROM or end > len(data):
            return
        if end_offset is not None and base_offset >= end_offset:
            return
        if attributes & CONTROL:
            yield from _records(data, position + HEADER_BYTES, base_offset, count)
        position = end


def _records(data: bytes, position: int, base_offset: int, count: int) -> Iterator[tuple[int, ControlRecord]]:
    """Yield the records of a control batch, which is never compressed."""
    for _ in range(count):
        length, position = _varint(data, position)
        behind = position + length
        _, position = _varint(data, position + 1)
        offset_delta, position = _varint(data, position)
        length, position = _varint(data, position)
        key, position = data[position : position + length], position + length
        length, position = _varint(data, position)
        if control_record.parse_key(key).type in control_record.MESSAGES:
            yield base_offset + offset_delta, control_record.parse(key, data[position : position + length])
        position = behind


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, position = read_uvarint(data, position)
    return value >> 1 ^ -(value & 1), position


def of_kinds(controls: Iterable[ControlRecord]) -> list[ControlRecord]:
    """Return only the KRaftVersion and KRaftVoters records among `controls`."""
    return [each for each in controls if each.type in (ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS)]


def batch(records: Sequence[Pair], timestamp_ms: int) -> bytearray:
    """Return a batch of control records, for the leader to append."""
    return write_batch(records, timestamp_ms, attributes=CONTROL)


def leader_change(leader_id: int, voters: Iterable[int], granting_voters: Iterable[int]) -> Pair:
    """Return the LeaderChange record, which begins an epoch. voters: the ids of all voters. granting_voters: the ids of
    those that voted for the leader."""
    fields = {
        "leaderId": leader_id,
        "voters": [{"voterId": each} for each in voters],
        "grantingVoters": [{"voterId": each} for each in granting_voters],
    }
    return _pair(ControlType.LEADER_CHANGE, fields)


def kraft_version(level: int) -> Pair:
    """Return a KRaftVersion record: kraft.version is `level` from the record's offset on."""
    return _pair(ControlType.KRAFT_VERSION, {"kRaftVersion": level})


def kraft_voters(voters: VoterSet) -> Pair:
    """Return a KRaftVoters record: `voters` are the voters from the record's offset on."""
    return _pair(ControlType.KRAFT_VOTERS, voters.value())


def _pair(kind: ControlType, fields: dict[str, Any]) -> Pair:
    key = control_record.KEY.pack((control_record.VERSION, kind))
    return key, write(control_record.MESSAGES[kind], 0, {"version": 0, **fields})
