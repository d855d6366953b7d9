"""The kernel's producer state, compared with Kafka's rules in Python; creation and removal of snapshots."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import producer_snapshot
from formats.errors import FormatError
from formats.kernels.batches import BatchTable
from formats.kernels.crc import crc32c
from formats.kernels.producers import RECOVERY_INVALID, RECOVERY_MORE, RECOVERY_REFUSED, ProducerTable
from formats.kernels.scan import scan
from kcli.log.partition_view import PartitionView
from kcli.log.producer_state import ProducerStateManager, read_any_control, read_control, snapshot_name
from tests.log.recovery.test_loader import CONTROL, NOW_MS, TRANSACTIONAL, batch, marker


@dataclass
class Producer:
    """ProducerStateEntry."""

    epoch: int = -1
    coordinator_epoch: int = -1
    timestamp: int = -1
    txn_first: int = -1
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)


class Model:
    """ProducerStateManager.update and ProducerAppendInfo.append, for what replicas append."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.ongoing: dict[int, int] = {}

    def data(self, offset: int, records: int, producer: tuple[int, int, int], *, transactional: bool) -> None:
        number, epoch, sequence = producer
        state = self.producers.setdefault(number, Producer())
        if state.epoch != epoch:
            state.batches.clear()
            state.epoch = epoch
        last = offset + records - 1
        state.batches = [*state.batches, ((sequence + records - 1) % 2**31, last, records - 1, NOW_MS)][-5:]
        state.timestamp = NOW_MS
        if transactional and state.txn_first < 0:
            state.txn_first = offset
            self.ongoing[offset] = number

    def end(self, number: int, epoch: int) -> None:
        state = self.producers.setdefault(number, Producer())
        if state.epoch != epoch:
            state.batches.clear()
            state.epoch = epoch
        state.coordinator_epoch, state.timestamp = 3, NOW_MS
        self.ongoing.pop(state.txn_first, None)
        state.txn_first = -1

    def entries(self) -> list[tuple[int, ...]]:
        none = (-1, -1, 0, -1)
        return [
            (
                number,
                each.epoch,
                *(each.batches or [none])[-1][:3],
                each.timestamp,
                each.coordinator_epoch,
                each.txn_first,
            )
            for number, each in sorted(self.producers.items())
        ]


steps = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(0, 2),
        st.integers(0, 2**31 - 1),
        st.integers(1, 9),
        st.sampled_from(["data", "data", "end"]),
    ),
    max_size=120,
)


@given(steps)
def test_kernel_equals_model(ops: list[tuple[int, int, int, int, str]]) -> None:
    model, log, offset = Model(), bytearray(), 0
    for number, epoch, sequence, records, what in ops:
        transactional = number % 2 == 0
        if what == "end" and transactional:
            log += marker(offset, number, epoch, commit=True)
            model.end(number, epoch)
            offset += 1
        else:
            producer = (number, epoch, sequence)
            attributes = TRANSACTIONAL if transactional else 0
            log += batch(offset, records=records, producer=producer, attributes=attributes, size=70)
            model.data(offset, records, producer, transactional=transactional)
            offset += records
    rows, table = BatchTable(), ProducerTable(read_control)
    scan(log, 0, len(log), 0, rows)
    assert table.batches(rows, log) == RECOVERY_MORE
    assert table.entries() == model.entries()
    assert table.ongoing() == sorted(model.ongoing.items())
    for number, state in model.producers.items():
        assert table.last_batches(number) == state.batches
    again = ProducerTable(read_control)
    for entry in table.entries():
        again.load(entry)
    assert (again.entries(), again.ongoing()) == (table.entries(), table.ongoing())
    again.clear()
    assert (len(again), again.entries(), again.ongoing()) == (0, [], [])


@given(
    st.tuples(st.integers(0, 2**40), st.integers(0, 99), st.integers(0, 9), st.booleans()),
    st.lists(st.tuples(st.integers(0, 77), st.integers(0, 255)), max_size=2),
    st.booleans(),
)
def test_any_marker_is_read_as_by_the_definitions(
    what: tuple[int, int, int, bool], changes: list[tuple[int, int]], mends_crc: bool
) -> None:
    offset, number, epoch, commit = what
    data = bytearray(marker(offset, number, epoch, commit=commit))
    assert read_control(bytes(data))[:2] == (RECOVERY_MORE, int(commit))
    for at, byte in changes:
        data[at] = byte
    if mends_crc:
        data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    assert read_control(bytes(data)) == read_any_control(bytes(data))


def control(payload: bytes, *, attributes: int = 0, records: int = 1) -> bytes:
    return batch(
        5, records=records, producer=(7, 0, -1), attributes=attributes | CONTROL | TRANSACTIONAL, payload=payload
    )


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (control(b"", records=0), RECOVERY_MORE),
        (control(b"\x10\0\0\0\0\1\2\0\0\0"), RECOVERY_INVALID),  # a key of no bytes
        (control(b"\x01"), RECOVERY_INVALID),  # no record
        (control(b"\x18\0\0\0\x08\0\0\0\7\1\0\0\0"), RECOVERY_INVALID),  # lengths that do not add up
        (control(b"\x14\0\0\0\x08\0\0\0\7\1\0"), RECOVERY_REFUSED),  # type 7
        (control(b"\x14\0\0\0\x08\xff\xff\0\1\1\0"), RECOVERY_INVALID),  # key of version -1
        (control(b"\x14\0\0\0\x08\0\0\0\1\1\0"), RECOVERY_REFUSED),  # no value
        (control(b"gzip it is not", attributes=1), RECOVERY_REFUSED),
    ],
)
def test_broken_control_batches(data: bytes, how: int) -> None:
    rows, table = BatchTable(), ProducerTable(read_control)
    scan(data, 0, len(data), 0, rows)
    assert table.batches(rows, data) == how
    assert (table.reason is None) == (how == RECOVERY_MORE)


def manager(directory: Path, *offsets: int, corrupt: int = -1) -> tuple[ProducerStateManager, list[str]]:
    """Return a manager of a directory with empty snapshots."""
    for offset in offsets:
        (directory / snapshot_name(offset)).write_bytes(producer_snapshot.build(producer_snapshot.ProducerSnapshot(())))
    if corrupt >= 0:
        (directory / snapshot_name(corrupt)).write_bytes(b"\0\1garbage")
    heard: list[str] = []

    def hear(name: str, error: FormatError) -> None:
        heard.append(f"{name} {error.reason}")

    return ProducerStateManager(PartitionView(directory), NOW_MS, on_corrupt=hear), heard


def snapshots(state: ProducerStateManager) -> list[int]:
    return sorted(int(name.partition(".")[0]) for name in state._view.names() if name.endswith(".snapshot"))


def test_strays(tmp_path: Path) -> None:
    """Snapshots at base offsets are kept, and the last other one if it is behind the last segment."""
    state, _ = manager(tmp_path, 0, 5, 10, 12, 20, 25, 30)
    state.remove_stray_snapshots([0, 10, 20])
    assert snapshots(state) == [0, 10, 20, 30]
    state.remove_stray_snapshots([0, 10, 40])
    assert snapshots(state) == [0, 10]


def test_reload_takes_the_last_sound_snapshot(tmp_path: Path) -> None:
    state, heard = manager(tmp_path, 0, 5, 10, 90, corrupt=20)
    state.truncate_and_reload(0, 50)
    assert (state.map_end_offset, snapshots(state)) == (10, [5, 10])
    assert len(heard) == 1
    assert heard[0].startswith(snapshot_name(20))


def test_snapshots_are_taken_once(tmp_path: Path) -> None:
    state, _ = manager(tmp_path)
    state.map_end_offset = 7
    state.take_snapshot()
    state.take_snapshot()
    assert (snapshots(state), state.latest_snapshot_offset) == ([7], 7)
    state.truncate_fully_and_start_at(3)
    assert (snapshots(state), state.map_end_offset) == ([], 3)


def test_snapshot_with_the_same_entries_in_another_order_is_left(tmp_path: Path) -> None:
    found = [producer_snapshot.ProducerEntry(each, 0, 0, 1, 0, NOW_MS, -1, -1) for each in (9, 3)]
    data = producer_snapshot.build(producer_snapshot.ProducerSnapshot(tuple(found)))
    (tmp_path / snapshot_name(2)).write_bytes(data)
    state, _ = manager(tmp_path)
    for entry in found:
        state.table.load(entry)
    state.map_end_offset = 2
    state.take_snapshot()
    assert not list(state._view.changed())
