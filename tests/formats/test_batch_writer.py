"""The fast writer of batches against the definition of a record batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.batch_writer import Pair, write_batch
from formats.record_batch import CONTROL, TRANSACTIONAL, build_batch, parse_batch

BYTES = st.none() | st.binary(max_size=300)


@given(st.lists(st.tuples(BYTES, BYTES), min_size=1, max_size=200), st.integers(0, 2**50), st.integers(0, 2**62))
def test_writes_what_parses(records: list[Pair], timestamp_ms: int, base_offset: int) -> None:
    data = write_batch(
        records,
        timestamp_ms,
        base_offset=base_offset,
        leader_epoch=3,
        attributes=CONTROL | TRANSACTIONAL,
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
    )
    batch = parse_batch(bytes(data))
    assert build_batch(batch) == data
    assert [(record.key, record.value) for record in batch.records] == records
    assert [record.offset_delta for record in batch.records] == list(range(len(records)))
    header = batch.header
    assert (header.base_offset, header.last_offset_delta) == (base_offset, len(records) - 1)
    assert header.base_timestamp == header.max_timestamp == timestamp_ms
    assert (header.partition_leader_epoch, header.is_control, header.is_transactional) == (3, True, True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 5)


def test_a_large_value_fits() -> None:
    value = bytes(3_000_000)
    assert parse_batch(bytes(write_batch([(None, value)], 1))).records[0].value == value


def test_no_records_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        write_batch([], 1)
