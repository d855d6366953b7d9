"""A start beyond the golden cases: offsets in disorder or too far apart, log start offsets, leftover files,
producers."""

import random
import struct
from pathlib import Path

import pytest

from formats import producer_snapshot, txn_index
from formats.kernels.crc import crc32c
from kcli.errors import StartRefused
from kcli.log.disk import Disk
from kcli.log.partition_view import PartitionView
from kcli.log.recovery.apply import apply_in_place
from kcli.log.recovery.loader import EventKind, LoadedOffsets, LoadOptions, LogLoader
from kcli.log.recovery.plan import plan
from kcli.log.recovery.salvage import Checked
from tests.log.batches import batch as batch_of

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
TRANSACTIONAL, CONTROL = 16, 32


def batch(
    offset: int,
    *,
    records: int = 1,
    size: int = 200,
    timestamp: int = NOW_MS,
    epoch: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    payload: bytes | None = None,
) -> bytes:
    """Return a batch of magic 2 whose records are noise, or `payload`. producer: id, epoch, first sequence."""
    body = payload if payload is not None else random.Random(offset).randbytes(size - 61)
    covered = struct.pack(">hiqqqhii", attributes, records - 1, timestamp, timestamp, *producer, records) + body
    return struct.pack(">qiibI", offset, 9 + len(covered), epoch, 2, crc32c(covered)) + covered


def marker(offset: int, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 3) -> bytes:
    """The end of a transaction."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch)
    record = b"\0\0\0" + bytes([len(key) * 2]) + key + bytes([len(value) * 2]) + value + b"\0"
    payload = bytes([len(record) * 2]) + record
    return batch(
        offset, producer=(producer_id, epoch, -1), attributes=TRANSACTIONAL | CONTROL, payload=payload, timestamp=NOW_MS
    )


def write(directory: Path, *batches: bytes, base: int = 0) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{base:020}.log"
    path.write_bytes(b"".join(batches))
    path.with_suffix(".index").touch()
    return path


def load(directory: Path, **options: int | bool) -> tuple[LoadedOffsets, LogLoader]:
    loader = LogLoader(PartitionView(directory), LoadOptions(NOW_MS, **options))  # type: ignore[arg-type]
    return loader.load(), loader


def kinds(loader: LogLoader) -> list[EventKind]:
    return [event.kind for event in loader.events]


def test_offsets_that_go_back_empty_the_segment(tmp_path: Path) -> None:
    """Kafka notices them only where an index entry is due, when the index would not grow."""
    write(tmp_path / "t-0", *[batch(each, size=3000) for each in (0, 1, 2, 3, 9, 4, 5, 6)])
    write(tmp_path / "t-0", batch(20), base=20)
    offsets, loader = load(tmp_path / "t-0")
    assert kinds(loader) == [EventKind.EMPTIED, EventKind.SEGMENT_REMOVED]
    assert (offsets.log_start_offset, offsets.log_end_offset) == (0, 0)
    assert loader.view.size("00000000000000000000.log") == 0


def test_a_directory_in_the_place_of_the_snapshot_empties_the_segment(tmp_path: Path) -> None:
    """Kafka treats an IOException in a segment's recovery like offsets that decrease."""
    write(tmp_path / "t-0", *[batch(each) for each in range(4)])
    write(tmp_path / "t-0", *[batch(each) for each in range(4, 8)], base=4)
    (tmp_path / "t-0/00000000000000000008.snapshot").mkdir()
    offsets, loader = load(tmp_path / "t-0")
    assert [(event.kind, event.file) for event in loader.events] == [(EventKind.EMPTIED, f"{4:020}.log")]
    assert offsets.log_end_offset == 4


def test_a_directory_in_the_place_of_an_index(tmp_path: Path) -> None:
    """After a clean shutdown a start opens only the indexes of the active segment."""
    write(tmp_path / "t-0", *[batch(each) for each in range(4)])
    write(tmp_path / "t-0", *[batch(each) for each in range(4, 8)], base=4)
    index = tmp_path / "t-0" / f"{0:020}.index"
    index.unlink()
    index.mkdir()
    offsets, loader = load(tmp_path / "t-0", clean=True, recovery_point=8)
    assert (kinds(loader), offsets.log_end_offset) == ([], 8)
    with pytest.raises(StartRefused, match="no file has its name"):
        load(tmp_path / "t-0")
    index.rmdir()
    index.with_suffix(".txnindex").mkdir()
    with pytest.raises(StartRefused, match="no file has its name"):
        load(tmp_path / "t-0", clean=True, recovery_point=8)


def test_offsets_that_go_back_between_entries_stay(tmp_path: Path) -> None:
    write(tmp_path / "t-0", *[batch(each, size=100) for each in (0, 2, 1, 3)])
    offsets, loader = load(tmp_path / "t-0")
    assert not loader.events
    assert offsets.log_end_offset == 4


def test_overflowing_segment_is_split(tmp_path: Path) -> None:
    far = 5_000_000_000
    path = write(tmp_path / "t-0", batch(0), batch(1), batch(far), batch(far + 1))
    data = path.read_bytes()
    offsets, loader = load(tmp_path / "t-0")
    assert kinds(loader) == [EventKind.SPLIT]
    assert offsets.log_end_offset == far + 2
    assert sorted(loader.segments) == [0, far]
    done = plan(tmp_path / "t-0", LoadOptions(NOW_MS))
    apply_in_place(done.view, Disk())
    assert path.read_bytes() == data[:400]
    assert (tmp_path / f"t-0/{far:020}.log").read_bytes() == data[400:]
    assert not plan(tmp_path / "t-0", LoadOptions(NOW_MS)).is_changed()


@pytest.mark.parametrize("far", [2**31, 5_000_000_000])
def test_salvage_keeps_the_batches_of_a_log_that_a_start_splits(tmp_path: Path, far: int) -> None:
    """The log's name is far below its batches, and the batches are in it twice; its leader-epoch-checkpoint contradicts
    them."""
    one, other = (bytes(batch_of(b"value", base_offset=far + i, leader_epoch=0)) for i in range(2))
    write(tmp_path / "t-0", one, other, one, other)
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 18\n")
    options = LoadOptions(NOW_MS)
    assert plan(tmp_path / "t-0", options).events[0].kind is EventKind.SPLIT
    done = plan(tmp_path / "t-0", options, with_salvage=True, checked=Checked(["leader-epoch-checkpoint"]))
    assert done.offsets is not None
    assert done.offsets.log_end_offset == far + 2
    assert done.view.read("leader-epoch-checkpoint") == f"0\n1\n0 {far}\n".encode()
    assert done.view.read(f"{far:020}.log") == one + other


def test_a_checkpoint_that_was_being_written_is_gone_where_a_start_writes_it_anew(tmp_path: Path) -> None:
    """A start writes leader-epoch-checkpoint through a `.tmp` file, even with the same epochs, if the first one begins
    at the log start offset or below it."""
    write(tmp_path / "t-0", batch(0), batch(1))
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    unfinished = tmp_path / "t-0/leader-epoch-checkpoint.tmp"
    unfinished.write_text("0\n1\n0")
    _, loader = load(tmp_path / "t-0", clean=True)
    assert unfinished.name not in loader.view
    assert [(each.kind, each.file) for each in loader.events] == [(EventKind.LEFTOVER_REMOVED, unfinished.name)]
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n0\n")
    _, loader = load(tmp_path / "t-0", clean=True, recovery_point=2)
    assert unfinished.name in loader.view


def test_offset_beyond_int_in_between_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0), batch(5_000_000_000), batch(2))
    with pytest.raises(StartRefused, match="int32"):
        load(tmp_path / "t-0")


def test_log_that_ends_below_its_start_goes(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0), batch(1))
    offsets, loader = load(tmp_path / "t-0", log_start_offset=100)
    assert kinds(loader) == [EventKind.SEGMENT_REMOVED]
    assert (offsets.log_start_offset, offsets.log_end_offset) == (100, 100)
    assert [name for name in loader.view.names() if name.endswith(".log")] == [f"{100:020}.log"]


def test_log_start_within_a_segment(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0, epoch=1), batch(1, epoch=2), batch(2, epoch=3))
    offsets, loader = load(tmp_path / "t-0", log_start_offset=2)
    assert offsets.log_start_offset == 2
    assert loader.epochs.entries == ((3, 2),)


def test_empty_directory_gets_a_segment(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    offsets, loader = load(tmp_path / "t-0")
    assert (offsets.log_start_offset, offsets.log_end_offset) == (0, 0)
    names = loader.view.names()
    assert names == [f"{0:020}.index", f"{0:020}.log", f"{0:020}.timeindex", "leader-epoch-checkpoint"]


def test_only_segments_from_the_recovery_point_on_are_checked(tmp_path: Path) -> None:
    first = bytearray(batch(0))
    first[100] ^= 1
    write(tmp_path / "t-0", bytes(first))
    write(tmp_path / "t-0", batch(1), base=1)
    assert kinds(load(tmp_path / "t-0")[1]) == [EventKind.CUT, EventKind.SEGMENT_REMOVED]
    assert not load(tmp_path / "t-0", recovery_point=1)[1].events


def test_directory_to_be_deleted_is_not_recovered(tmp_path: Path) -> None:
    directory = tmp_path / "t-0.0123456789abcdef0123456789abcdef-delete"
    write(directory, b"no log at all")
    assert not load(directory, is_deleted=True)[1].events


def test_swap_without_cleaned_replaces(tmp_path: Path) -> None:
    old = write(tmp_path / "t-0", batch(0), batch(1))
    write(tmp_path / "t-0", batch(2), base=2)
    write(tmp_path / "t-0", batch(9), base=9)
    old.with_name(f"{old.name}.swap").write_bytes(batch(1) + batch(2))
    offsets, loader = load(tmp_path / "t-0")
    logs = [name for name in loader.view.names() if name.endswith(".log")]
    assert logs == [f"{0:020}.log", f"{9:020}.log"]
    assert EventKind.SWAP_COMPLETED in kinds(loader)
    assert offsets.log_end_offset == 10


def test_swap_beside_cleaned_goes(tmp_path: Path) -> None:
    old = write(tmp_path / "t-0", batch(0), batch(1))
    old.with_name(f"{old.name}.swap").write_bytes(batch(1))
    old.with_name(f"{old.name}.cleaned").write_bytes(b"half")
    loader = load(tmp_path / "t-0")[1]
    assert kinds(loader) == [EventKind.LEFTOVER_REMOVED] * 2
    assert loader.view.size(old.name) == old.stat().st_size


def entries(loader: LogLoader, offset: int) -> dict[int, producer_snapshot.ProducerEntry]:
    found = producer_snapshot.parse(loader.view.read(f"{offset:020}.snapshot")).entries
    return {entry.producer_id: entry for entry in found}


def test_producers_and_aborted_transactions(tmp_path: Path) -> None:
    log = [
        batch(0, records=2, producer=(7, 1, 10), attributes=TRANSACTIONAL),
        batch(2, records=3, producer=(8, 0, 0), attributes=TRANSACTIONAL),
        marker(5, 7, 1, commit=False),
        batch(6, records=1, producer=(9, 0, 2**31 - 1)),
        batch(7, records=2, producer=(9, 0, 0)),
        marker(9, 8, 0, commit=True),
        batch(10, producer=(7, 2, 0), attributes=TRANSACTIONAL),
    ]
    write(tmp_path / "t-0", *log)
    offsets, loader = load(tmp_path / "t-0")
    assert offsets.log_end_offset == 11
    aborted = txn_index.parse(loader.view.read(f"{0:020}.txnindex"))
    assert list(aborted) == [(0, 7, 0, 5, 2)]
    found = entries(loader, 11)
    assert found[7] == (7, 2, 0, 10, 0, NOW_MS, 3, 10)
    assert found[8] == (8, 0, 2, 4, 2, NOW_MS, 3, -1)
    assert found[9] == (9, 0, 1, 8, 1, NOW_MS, -1, -1)
    assert loader.producers.first_unstable_offset == 10


def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    long_ago = NOW_MS - DAY_MS
    write(tmp_path / "t-0", batch(0, producer=(7, 0, 0), timestamp=long_ago))
    write(tmp_path / "t-0", batch(1, producer=(8, 0, 0), timestamp=long_ago + 1), base=1)
    found = entries(load(tmp_path / "t-0")[1], 2)
    assert set(found) == {8}


def test_write_outside_the_open_transaction_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0, producer=(7, 0, 0), attributes=TRANSACTIONAL), batch(1, producer=(7, 0, 1)))
    with pytest.raises(StartRefused, match="outside its open transaction"):
        load(tmp_path / "t-0")


def test_clean_start_without_snapshots_knows_no_producers(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0, producer=(7, 0, 0)))
    loader = load(tmp_path / "t-0", clean=True)[1]
    assert entries(loader, 1) == {}


def test_large_index_entries_and_time_index(tmp_path: Path) -> None:
    """A batch gets an entry when it begins more than 4,096 bytes behind the last one with an entry; timestamps only
    grow."""
    times = [10, 40, 20, 30, 50, 60]
    write(tmp_path / "t-0", *[batch(each, size=2100, timestamp=NOW_MS + at) for each, at in enumerate(times)])
    view = load(tmp_path / "t-0")[1].view
    index = view.read(f"{0:020}.index")
    assert list(struct.iter_unpack(">ii", index)) == [(2, 4200), (4, 8400)]
    time_index = view.read(f"{0:020}.timeindex")
    assert list(struct.iter_unpack(">qi", time_index)) == [(NOW_MS + 40, 1), (NOW_MS + 50, 4), (NOW_MS + 60, 5)]


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_truncation_at_any_byte(cut: int, tmp_path: Path) -> None:
    path = write(tmp_path / "t-0", batch(0), batch(1))
    with path.open("r+b") as file:
        file.truncate(cut)
    offsets, loader = load(tmp_path / "t-0")
    assert offsets.log_end_offset == cut // 200
    assert loader.view.size(path.name) == cut // 200 * 200


def test_offsets_that_go_back_where_an_index_is_missing_are_refused(tmp_path: Path) -> None:
    """Kafka catches them in step 4 alone; the time index meets them too, at its end."""
    path = write(tmp_path / "t-0", *[batch(each, size=3000) for each in (0, 1, 2, 3, 9, 4, 5, 6)])
    path.with_suffix(".index").unlink()
    with pytest.raises(StartRefused, match="comes behind offset"):
        load(tmp_path / "t-0")


def test_snapshots_need_no_twenty_digits(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0, producer=(7, 0, 0)), batch(1))
    (tmp_path / "t-0/1.snapshot").write_bytes(b"\0\1garbage")
    loader = load(tmp_path / "t-0", clean=True)[1]
    assert kinds(loader) == [EventKind.SNAPSHOT_REMOVED]
    assert set(entries(loader, 2)) == {7}
    (tmp_path / "t-0/abc.snapshot").touch()
    with pytest.raises(StartRefused, match="does not begin with an offset"):
        load(tmp_path / "t-0")
