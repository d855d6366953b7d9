"""Sound batches between damaged bytes: whose they are, and which offsets they have, if no neighbour tells."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from kcli.log.partition_view import ContentSource
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.plan import PartitionPlan, plan
from kcli.log.segment_reader import sound_batches

COUNT = 20
OWN, OTHER = 3, 7
DAMAGE = bytes(700)
LOG = f"{0:020}.log"
OPTIONS = LoadOptions(0, recovery_point=10**6, clean=True)


def batch(offset: int, producer: int, sequence: int | None = None) -> bytes:
    """Return a batch of COUNT records of a producer whose sequence numbers are the offsets, unless given."""
    seeded = random.Random(offset * 16 + producer)
    records = tuple(Record(0, 0, each, None, seeded.randbytes(20 + producer)) for each in range(COUNT))
    base = offset if sequence is None else sequence
    return build_batch(
        RecordBatch(BatchHeader(offset, 0, 0, 2, 0, 0, COUNT - 1, 5, 5, producer, 0, base, COUNT), records)
    )


def run(first: int, end: int, producer: int) -> bytes:
    return b"".join(batch(offset, producer) for offset in range(first, end, COUNT))


def salvaged(directory: Path, data: bytes) -> tuple[PartitionPlan, list[tuple[int, int]]]:
    """Return the plan of a salvage, and first offset and producer of each batch that is kept."""
    directory.mkdir()
    (directory / LOG).write_bytes(data)
    done = plan(directory, OPTIONS, with_salvage=True)
    source = ContentSource(LOG, done.view.files[LOG])
    try:
        return done, [(row.base_offset, row.producer_id) for row in sound_batches(source)]
    finally:
        source.close()


def own(*ranges: tuple[int, int]) -> list[tuple[int, int]]:
    return [(offset, OWN) for first, end in ranges for offset in range(first, end, COUNT)]


def test_a_batch_between_damage_gets_no_offset_that_only_differs_in_a_bit(tmp_path: Path) -> None:
    """128 differs from 160 in one bit; 160 has a batch of the partition's own."""
    data = run(0, 80, OWN) + DAMAGE + batch(160, OTHER) + DAMAGE + run(160, 400, OWN)
    done, kept = salvaged(tmp_path / "p-0", data)
    assert done.saved.put_back == []
    assert kept == own((0, 80), (160, 400))


def test_a_batch_between_damage_in_sequence_with_its_neighbours_gets_its_offset_back(tmp_path: Path) -> None:
    flipped = bytearray(batch(128, OWN))
    flipped[:8] = (160).to_bytes(8)
    data = run(0, 80, OWN) + DAMAGE + bytes(flipped) + DAMAGE + run(160, 400, OWN)
    done, _ = salvaged(tmp_path / "p-0", data)
    assert [(each.before, each.base_offset) for each in done.saved.put_back] == [(160, 128)]


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_batches_with_the_same_offsets_the_one_in_sequence_is_kept(tmp_path: Path, *, is_first: bool) -> None:
    """And with the other one goes what is adjacent to it."""
    foreign = DAMAGE + run(160, 220, OTHER) + DAMAGE
    data = run(0, 80, OWN) + foreign + run(200, 400, OWN)
    if not is_first:
        data = run(0, 80, OWN) + DAMAGE + run(200, 400, OWN) + foreign
    done, kept = salvaged(tmp_path / "p-0", data)
    assert kept == own((0, 80), (200, 400))
    assert [each.contradicting for each in done.saved.gaps if each.contradicting] == [(160, 219)]


def test_where_no_sequence_tells_the_first_batch_is_kept_and_the_other_told(tmp_path: Path) -> None:
    data = run(0, 80, -1) + DAMAGE + batch(80, -1) + DAMAGE + batch(80, OTHER, 500) + run(100, 200, -1)
    done, kept = salvaged(tmp_path / "p-0", data)
    assert kept == [(offset, -1) for offset in range(0, 200, COUNT)]
    assert [each.contradicting for each in done.saved.gaps if each.contradicting] == [(80, 99)]


@pytest.mark.parametrize("producer", [OWN, -1])
def test_a_batch_between_damage_that_belongs_elsewhere_is_put_in_order(tmp_path: Path, producer: int) -> None:
    """Exchanged pages: the damage beside it has the bytes of the batch whose offsets its neighbours leave."""
    data = run(0, 80, producer) + DAMAGE + batch(140, producer) + DAMAGE + run(100, 140, producer)
    data += DAMAGE + run(160, 400, producer)
    _, kept = salvaged(tmp_path / "p-0", data)
    assert [offset for offset, _ in kept] == [*range(0, 80, COUNT), *range(100, 400, COUNT)]
