"""Reads of an open log: the batches of a Fetch, offsets by timestamp, and what read_committed consumers see."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random

import pytest

from formats.errors import Truncated
from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.kernels.scan import SCAN_END, scan
from formats.txn_index import parse as parse_txn_index
from kcli.log.batch_records import decode
from kcli.log.disk import DiskFile
from kcli.log.live.partition_log import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Isolation,
    OffsetOutOfRange,
    PartitionLog,
)
from kcli.log.live.segment import HEADER_CHUNK_BYTES
from kcli.log.live.segments import LogRead
from kcli.log.segment_reader import Window
from tests.conftest import GOLDEN, read_jsonl
from tests.log.batches import NOW_MS, batch
from tests.log.live.test_partition_log import STORED, Stored, every_partition, open_log

OFFSETS = json.loads((GOLDEN / "codecs/expected/offsets.json").read_text())

ABORTED = Path(__file__).with_name("fetch_aborted.jsonl.gz")
"""The response of Kafka 4.3 to a read_committed Fetch: at each offset of the golden logs with transactions, with
several partition_max_bytes, [producer id, first offset] of each aborted transaction."""


def opened(stored: Stored, tmp_path: Path) -> PartitionLog:
    """Open the log in a copy of the directory, with everything replicated."""
    directory = tmp_path / stored.directory.name
    shutil.copytree(stored.directory, directory)
    log = open_log(directory, stored.config)
    log.update_high_watermark(log.log_end_offset)
    return log


def content(found: LogRead) -> bytes:
    """The bytes of the region."""
    return os.pread(found.region.fd, found.region.length, found.region.position) if found.region else b""


def headers(data: bytes) -> list[BatchRow]:
    """Return the batches in `data`, which must be whole."""
    table = BatchTable()
    _, how, _ = scan(data, 0, len(data), 0, table)
    assert how == SCAN_END
    return [BatchRow._make(table.row(i)) for i in range(table.count)]


@every_partition
def test_opening_and_closing_a_clean_log_removes_old_snapshots_only(stored: Stored, tmp_path: Path) -> None:
    log = opened(stored, tmp_path)
    kept = {f"{offset:020}.snapshot" for offset in [*log.base_offsets, log.log_end_offset]}
    log.close(0)
    copy = tmp_path / stored.directory.name
    for path in stored.directory.iterdir():
        if path.suffix == ".snapshot" and path.name not in kept:
            assert not (copy / path.name).exists()
        else:
            assert (copy / path.name).read_bytes() == path.read_bytes()
    assert {path.name for path in copy.iterdir()} <= {path.name for path in stored.directory.iterdir()}


SEGMENTED = next(each for each in STORED if len(list(each.directory.glob("*.log"))) > 1)


@pytest.mark.parametrize("kept", [10, 30, 70])
def test_a_fetch_goes_on_behind_a_segment_that_is_cut_within_a_batch(tmp_path: Path, kept: int) -> None:
    """A cut batch is never returned, as in Kafka: a reader that reaches it continues in the next segment."""
    directory = tmp_path / SEGMENTED.directory.name
    shutil.copytree(SEGMENTED.directory, directory)
    first, second, *_ = sorted(directory.glob("*.log"))
    row = headers(first.read_bytes())[-1]
    os.truncate(first, row.position + kept)
    log = open_log(directory, SEGMENTED.config)
    log.update_high_watermark(log.log_end_offset)
    found = content(log.read(row.base_offset, 1 << 20))
    assert found == second.read_bytes()[: len(found)]
    assert headers(found)[0].base_offset == int(second.stem)
    log.close_handles()


def test_a_segment_without_a_whole_batch_has_no_first_timestamp(tmp_path: Path) -> None:
    """Kafka computes its age from the time when the broker created it."""
    directory = tmp_path / SEGMENTED.directory.name
    shutil.copytree(SEGMENTED.directory, directory)
    last = max(directory.glob("*.log"))
    os.truncate(last, 70)
    log = open_log(directory, SEGMENTED.config)
    assert log._segments.active.first_timestamp == -1
    log.close_handles()


@every_partition
def test_a_fetch_gets_whole_batches_from_the_offset_on(stored: Stored, tmp_path: Path) -> None:
    log = opened(stored, tmp_path)
    batches = list(stored.batches())
    draw = Random(7)
    for i, (row, data) in enumerate(batches):
        offset = draw.randint(row.base_offset, row.last_offset)
        max_bytes = draw.choice([0, 1, len(data), len(data) + 1, 5000, 1 << 20])
        limit = draw.choice([log.log_end_offset, draw.randint(row.last_offset + 1, log.log_end_offset)])
        log.update_high_watermark(limit)
        found = content(log.read(offset, max_bytes))
        rows = headers(found)
        assert rows[0].base_offset == row.base_offset
        assert rows[-1].last_offset < limit or rows[-1].base_offset < limit
        assert found == b"".join(each for _, each in batches[i : i + len(rows)])
        assert len(found) <= max(max_bytes, len(data))
        end = i + len(rows)
        if end < len(batches) and batches[end][0].last_offset < limit and batches[end][0].position:
            assert len(found) + len(batches[end][1]) > max_bytes, "one more would have fitted"
    log.close_handles()


@every_partition
def test_a_log_is_read_to_its_end_however_little_is_asked_for(stored: Stored, tmp_path: Path) -> None:
    log = opened(stored, tmp_path)
    for max_bytes in (1, 3000, 1 << 30):
        offset, data = 0, b""
        while (found := content(log.read(offset, max_bytes, Isolation.LOG_END))) != b"":
            data += found
            offset = headers(found)[-1].last_offset + 1
        assert data == b"".join(each for _, each in stored.batches())
    assert log.read(0, 1, min_one_batch=False) == LogRead(None, cut_short=True)
    log.close_handles()


def test_offsets_that_the_log_does_not_have_are_refused(tmp_path: Path) -> None:
    log = opened(STORED[0], tmp_path)
    log.delete_records(5)
    for offset in (-1, 4, log.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1)
    assert log.read(log.log_end_offset, 1) == LogRead(None)
    log.close_handles()


@pytest.mark.parametrize("stored", [each for each in STORED if each.directory.name[:-2] in OFFSETS], ids=str)
def test_offsets_by_time_are_those_kafka_told(stored: Stored, tmp_path: Path) -> None:
    topic, partition = stored.directory.name.rsplit("-", 1)
    expected = OFFSETS[topic]
    log = opened(stored, tmp_path)
    for asked, offset, timestamp in expected["for_time"][partition]:
        found = log.offset_for_timestamp(asked)
        assert (found.offset, found.timestamp) == (offset, timestamp) if found else (offset, timestamp) == (-1, -1)
    largest = log.offset_for_timestamp(MAX_TIMESTAMP)
    assert largest is not None
    assert [largest.offset, largest.timestamp] == expected["max_timestamp"][int(partition)]
    earliest, latest = log.offset_for_timestamp(EARLIEST), log.offset_for_timestamp(LATEST)
    assert earliest is not None
    assert latest is not None
    assert earliest.offset == expected["earliest_read_uncommitted"][int(partition)]
    assert latest.offset == expected["latest_read_uncommitted"][int(partition)]
    log.close_handles()


TRANSACTIONAL = [each for each in STORED if each.directory.name.startswith("t-")]


@pytest.mark.parametrize(
    "stored", TRANSACTIONAL, ids=lambda each: f"{each.directory.parent.name}/{each.directory.name}"
)
@pytest.mark.parametrize("max_bytes", [1, 2000, 1 << 20])
def test_consumers_of_committed_records_see_what_kafkas_saw(stored: Stored, max_bytes: int, tmp_path: Path) -> None:
    topic, partition = stored.directory.name.rsplit("-", 1)
    expected = GOLDEN / "txn/expected" / stored.directory.parent.name
    offsets = json.loads((expected / "offsets.json").read_text())[topic]
    log = opened(stored, tmp_path)
    assert log.last_stable_offset == offsets["last_stable_offset"][int(partition)]
    seen: list[int] = []
    offset = 0
    while True:
        found = log.read(offset, max_bytes, Isolation.TXN_COMMITTED)
        rows = headers(content(found))
        if not rows:
            break
        seen += committed(found, offset)
        offset = rows[-1].last_offset + 1
    truth = read_jsonl(expected / f"{topic}.read_committed.jsonl.gz")
    assert seen == [record["offset"] for record in truth if record["partition"] == int(partition)]
    log.close_handles()


@pytest.mark.parametrize(
    "stored", TRANSACTIONAL, ids=lambda each: f"{each.directory.parent.name}/{each.directory.name}"
)
def test_a_fetch_lists_the_aborted_transactions_that_kafka_lists(stored: Stored, tmp_path: Path) -> None:
    name = f"{stored.directory.parent.name}/{stored.directory.name}"
    mine = [each for each in read_jsonl(ABORTED) if each["partition"] == name]
    assert len(mine) > 20
    log = opened(stored, tmp_path)
    for each in mine:
        found = log.read(each["offset"], each["max_bytes"], Isolation.TXN_COMMITTED)
        assert [[entry.producer_id, entry.first_offset] for entry in found.aborted] == each["aborted"], each
    log.close_handles()


def test_the_index_of_a_cut_segment_aborts_nothing_of_the_next_one(tmp_path: Path) -> None:
    """Kafka reads the index of the batches' segment, and those of the segments behind it."""
    (stored,) = (each for each in TRANSACTIONAL if str(each.directory).endswith("data/t-txn-0"))
    directory = tmp_path / stored.directory.name
    shutil.copytree(stored.directory, directory)
    first, cut, *_ = sorted(directory.glob("*.log"))
    last = parse_txn_index(cut.with_suffix(".txnindex").read_bytes())[-1]
    behind = next(row for row in headers(cut.read_bytes()) if row.base_offset == last.first_offset)
    os.truncate(cut, behind.position)
    log = open_log(directory, stored.config)
    log.update_high_watermark(log.log_end_offset)
    found = log.read(last.first_offset, 1, Isolation.TXN_COMMITTED)
    assert found.region is not None
    assert found.region.path > cut > first
    assert last.first_offset not in {each.first_offset for each in found.aborted}
    log.close_handles()


def committed(found: LogRead, from_offset: int) -> list[int]:
    """Return the offsets that a consumer delivers: as Kafka's client, it skips records of aborted transactions."""
    waiting = sorted(found.aborted, key=lambda each: each.first_offset)
    aborted: set[int] = set()
    offsets: list[int] = []
    data = bytearray(content(found))
    table = BatchTable()
    scan(data, 0, len(data), 0, table)
    for i in range(table.count):
        row = BatchRow._make(table.row(i))
        while waiting and waiting[0].first_offset <= row.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if row.is_control:
            aborted.discard(row.producer_id)
        elif not (row.is_transactional and row.producer_id in aborted):
            records = RecordTable(64)
            for _ in decode(Window(data, table, 0, len(data)), records, first=i, last=i + 1):
                offsets += [RecordRow._make(records.row(j)).offset for j in range(records.count)]
    return [offset for offset in offsets if offset >= from_offset]


@pytest.mark.parametrize("sizes", [(20_000,) * 5, (10,) * 300, (10, 9_000, 10, 10, 30_000, 8_000, 10)])
def test_only_headers_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]) -> None:
    """Headers of large batches are read one by one, those of small batches in chunks."""
    log = open_log(tmp_path, {})
    for size in sizes:
        log.append_as_leader(batch(bytes(size)), 0, NOW_MS)
    read_bytes = 0

    def read(file: DiskFile, length: int, position: int) -> bytes:
        nonlocal read_bytes
        data = os.pread(file.fd, length, position)
        read_bytes += len(data)
        return data

    monkeypatch.setattr(DiskFile, "read", read)
    (segment,) = log._segments.all
    assert [head.base_offset for head in segment.heads(0)] == list(range(len(sizes)))
    few = sum(min(size + 100, HEADER_CHUNK_BYTES) for size in sizes) + HEADER_CHUNK_BYTES
    assert read_bytes < (6 * 61 if min(sizes) > HEADER_CHUNK_BYTES else few)
    log.close_handles()


def test_a_log_that_ends_within_a_header_is_an_error(tmp_path: Path) -> None:
    """Another program has cut the file of a running broker."""
    log = open_log(tmp_path, {})
    for _ in range(3):
        log.append_as_leader(batch(b"value"), 0, NOW_MS)
    (segment,) = log._segments.all
    second = list(segment.heads(0))[1]
    os.truncate(segment.log_path, second.position + 30)
    with pytest.raises(Truncated, match="bytes early"):
        list(segment.heads(0))
    log.close_handles()
