"""The short way of a plain batch into the log writes the same bytes as the long way, or leaves the batch to it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.append import accept_plain
from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow
from kcli.log.live.validator import AppendRules, validate_in_full
from tests.log.batches import NOW_MS, batch
from tests.log.live.test_validator import sealed

RULES = AppendRules(after_max_ms=1000, before_max_ms=1000, max_message_bytes=400)
OFFSET, EPOCH = 2**40 + 5, 70_000


def accepted(data: bytearray, rules: AppendRules) -> BatchRow | None:
    """The row that the short way leaves."""
    table = BatchTable()
    taken = accept_plain(
        data,
        table,
        OFFSET,
        EPOCH,
        keyed=rules.compacted,
        earliest=NOW_MS - rules.before_max_ms,
        latest=NOW_MS + rules.after_max_ms,
        max_bytes=rules.max_message_bytes,
    )
    return BatchRow._make(table.row(0)) if taken else None


def same_as_in_full(data: bytearray, rules: AppendRules) -> bool:
    """Return whether the batch was accepted. The long way must then give the same; otherwise the batch must be
    unchanged."""
    before = bytearray(data)
    row = accepted(data, rules)
    if row is None:
        assert data == before
        return False
    full = validate_in_full(before, OFFSET, EPOCH, NOW_MS, rules)
    assert data == full.data
    assert row._replace(crc_computed=0) == BatchRow._make(full.batches.row(0))._replace(crc_computed=0)
    assert row.last_offset == full.last_offset
    assert row.max_timestamp == full.max_timestamp
    return True


producers = st.sampled_from([((-1, -1), -1), ((7, 0), 0), ((7, 2), 2**31 - 1)])


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=8),
    producers,
    st.booleans(),
    st.sampled_from([0, 1000, -1000, 1001, -1001]),
    st.booleans(),
)
def test_plain_batches(
    values: list[bytes], producer: tuple[tuple[int, int], int], transactional: bool, late_ms: int, compacted: bool
) -> None:
    data = batch(
        *values,
        producer=producer[0],
        sequence=producer[1],
        transactional=transactional,
        timestamp_ms=NOW_MS + late_ms,
    )
    in_time = late_ms >= -1000 and late_ms + len(values) - 1 <= 1000
    assert same_as_in_full(data, replace(RULES, compacted=compacted)) == (in_time and len(data) <= 400)


@given(st.integers(0, 400), st.integers(0, 255), st.booleans())
def test_batches_with_a_byte_changed(at: int, value: int, seal: bool) -> None:
    data = batch(b"one", b"two", b"three", producer=(7, 0), sequence=0)
    data[at % len(data)] = value
    same_as_in_full(sealed(data) if seal else data, RULES)


@given(st.integers(1, 4))
def test_batches_that_are_compressed_are_left_to_the_long_way(codec: int) -> None:
    assert not same_as_in_full(batch(b"one", codec=codec), RULES)


def test_torn_batches_are_left_to_the_long_way() -> None:
    data = batch(b"one", b"two")
    for size in range(len(data)):
        assert accepted(data[:size], RULES) is None
    assert accepted(data + data, RULES) is None
