"""Readers that continue at the end of their last read: they look up no index, and read what a lookup would find."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow
from formats.kernels.indexes import entries_up_to
from formats.kernels.scan import scan
from kcli.log.live.index import OFFSET_ENTRY, LiveOffsetIndex
from kcli.log.live.partition_log import Isolation, OffsetOutOfRange, PartitionLog
from kcli.log.live.segments import LogRead
from kcli.log.live.validator import AppendRefused, Origin
from tests.conftest import is_soak
from tests.log.batches import batch, marker
from tests.log.live.test_partition_log import NOW_MS, open_log

CONFIG = {"internal.segment.bytes": "6000", "index.interval.bytes": "300"}
PRODUCERS = ((-1, -1), (-1, -1), (7, 0), (8, 0))


class Writer:
    """Appends batches, some transactional, half of these aborted, and changes the log in other ways."""

    def __init__(self, log: PartitionLog, random: Random) -> None:
        self.log, self.random = log, random
        self.sequences = {7: 0, 8: 0}

    def append(self) -> None:
        values = [self.random.randbytes(self.random.randrange(300)) for _ in range(self.random.randint(1, 5))]
        producer = self.random.choice(PRODUCERS)
        sent = batch(*values)
        if producer[0] >= 0:
            sent = batch(*values, producer=producer, sequence=self.sequences[producer[0]], transactional=True)
        with suppress(AppendRefused):  # a truncation has removed the producer's last batches
            self.log.append_as_leader(sent, 0, NOW_MS)
            if producer[0] >= 0:
                self.sequences[producer[0]] += len(values)
                if self.random.random() < 0.5:
                    end = marker(producer, commit=self.random.random() < 0.5)
                    self.log.append_as_leader(end, 0, NOW_MS, origin=Origin.COORDINATOR)
        self.log.update_high_watermark(self.log.log_end_offset - self.random.choice((0, 0, 3)))

    def change(self) -> None:
        """Truncate the log, restart it at another offset, roll it, or delete records."""
        log, kind = self.log, self.random.randrange(5)
        offset = self.random.randint(log.log_start_offset, log.log_end_offset)
        if kind == 0:
            removals = log.truncate_to(max(offset, log.log_end_offset - 10), NOW_MS)
        elif kind == 1 and self.random.random() < 0.2:
            removals = log.truncate_fully_and_start_at(log.log_end_offset + 5, NOW_MS)
        elif kind == 2:
            log.roll(NOW_MS)
            removals = []
        else:
            log.delete_records(min(offset, log.high_watermark))
            removals = log.delete_old_segments(NOW_MS)
        for each in removals:
            each.run()


def read(log: PartitionLog, offset: int, max_bytes: int, isolation: Isolation, *, least: bool) -> LogRead | None:
    with suppress(OffsetOutOfRange):
        return log.read(offset, max_bytes, isolation, min_one_batch=least)
    return None


def looked_up(log: PartitionLog, offset: int, max_bytes: int, isolation: Isolation, *, least: bool) -> LogRead | None:
    """Read as a reader whose place the log does not know, which looks up the index."""
    segments = log._segments
    known = dict(segments._places)
    segments.forget_places()
    try:
        return read(log, offset, max_bytes, isolation, least=least)
    finally:
        segments._places.clear()
        segments._places.update(known)


def next_offset(found: LogRead) -> int:
    """Return the offset behind the last batch that was read."""
    assert found.region is not None
    data = found.region.path.read_bytes()[found.region.position : found.region.position + found.region.length]
    table = BatchTable()
    scan(data, 0, len(data), 0, table)
    return BatchRow._make(table.row(table.count - 1)).last_offset + 1


@pytest.mark.parametrize("seed", range(200 if is_soak() else 12))
def test_readers_read_on_what_a_lookup_would_find(seed: int, tmp_path: Path) -> None:
    """Several readers of all isolation levels beside a writer that also rolls, truncates and deletes."""
    random = Random(seed)
    log = open_log(tmp_path / "p-0", CONFIG)
    writer = Writer(log, random)
    places, reads = [0, 0, 0], 0
    for _ in range(600):
        if random.random() < 0.4:
            writer.append()
        elif random.random() < 0.04:
            writer.change()
        i = random.randrange(3)
        terms = places[i], random.choice((1, 400, 900, 3000, 1 << 20)), list(Isolation)[i]
        least = random.random() < 0.8
        expected = looked_up(log, *terms, least=least)
        found = read(log, *terms, least=least)
        assert found == expected, f"seed {seed}: {terms}"
        if found is None:
            places[i] = random.randint(log.log_start_offset, log.log_end_offset)
        elif found.region is not None:
            reads += 1
            places[i] = next_offset(found)
    assert reads > 50
    log.close_handles()


@pytest.mark.parametrize("isolation", Isolation)
def test_a_reader_that_goes_on_looks_up_no_offset(
    isolation: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "p-0", CONFIG | {"internal.segment.bytes": "1048576"})
    for _ in range(50):
        log.append_as_leader(batch(bytes(400)), 0, NOW_MS)
    log.update_high_watermark(50)
    found = log.read(0, 2000, isolation)
    monkeypatch.setattr(LiveOffsetIndex, "lookup", lambda *_: pytest.fail("an offset is looked up"))
    offset = next_offset(found)
    while offset < 50:
        offset = next_offset(log.read(offset, 2000, isolation))
    log.close_handles()


def test_the_entries_of_an_offset_index_up_to_a_value() -> None:
    """The kernel's result equals a count; it refuses a buffer with fewer entries than its caller claims."""
    random = Random(1)
    for _ in range(300):
        count = random.randrange(20)
        offsets, positions = (sorted(random.choices(range(60), k=count)) for _ in range(2))
        entries = list(zip(offsets, positions, strict=True))
        data = b"".join(OFFSET_ENTRY.pack(*each) for each in entries)
        value = random.randint(-2, 62)
        for of_positions in (False, True):
            count = entries_up_to(data, len(entries), value, of_positions=of_positions)
            assert count == sum(each[of_positions] <= value for each in entries)
    for count in (-1, 3):
        with pytest.raises(ValueError, match=f"{count} entries in 16 bytes"):
            entries_up_to(bytes(16), count, 0, of_positions=True)
