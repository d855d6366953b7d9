"""Index entries that recovery writes, compared with Kafka's rule in Python."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.batches import BatchTable
from formats.kernels.producers import RECOVERY_MORE, ProducerTable
from formats.kernels.recovery import SegmentRecovery
from formats.kernels.scan import scan
from kcli.log.producer_state import read_control
from tests.log.recovery.test_loader import batch

BASE = 100
batches = st.lists(
    st.tuples(st.integers(70, 900), st.integers(1, 5), st.integers(0, 3), st.integers(-1, 60), st.integers(-1, 6)),
    max_size=60,
)


@given(batches, st.integers(0, 2000), st.integers(61, 5000))
def test_indexes_and_epochs(shapes: list[tuple[int, int, int, int, int]], interval: int, window: int) -> None:
    log, offset, position, last_entry = bytearray(), BASE, 0, 0
    index: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    epochs: list[tuple[int, int]] = []
    largest, largest_offset = -1, BASE
    for size, records, skipped, timestamp, epoch in shapes:
        offset += skipped
        log += batch(offset, records=records, size=size, timestamp=timestamp, epoch=epoch)
        last = offset + records - 1
        if timestamp > largest:
            largest, largest_offset = timestamp, last
        if position - last_entry > interval:
            index.append((last - BASE, position))
            if largest > (times[-1][0] if times else -1):
                times.append((largest, largest_offset - BASE))
            last_entry = position
        if epoch > (epochs[-1][0] if epochs else -1):
            epochs.append((epoch, offset))
        position += size
        offset = last + 1
    if largest > (times[-1][0] if times else -1):
        times.append((largest, largest_offset - BASE))
    recovery = SegmentRecovery(ProducerTable(read_control), BASE, index_interval_bytes=interval)
    at = 0
    while at < len(log):
        rows = BatchTable()
        end, _, needed = scan(log, at, min(len(log), at + window), at, rows)
        if end == at:
            end, _, _ = scan(log, at, at + needed, at, rows)
        assert recovery.batches(rows, log) == RECOVERY_MORE
        at = end if rows.count else at + needed
    assert recovery.end() == RECOVERY_MORE
    assert list(struct.iter_unpack(">ii", bytes(recovery.offset_index))) == index
    assert list(struct.iter_unpack(">qi", bytes(recovery.time_index))) == times
    assert recovery.epochs == epochs
    assert recovery.valid_bytes == len(log)
    assert recovery.next_offset == offset if shapes else recovery.next_offset == BASE
