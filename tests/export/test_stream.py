"""The stream reader: offsets, limits, restarts, and logs that grow, roll, appear and disappear."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.errors import UnreadableInput, UsageError
from kcli.export import offsets as whole_log
from kcli.export.corruption import CorruptLog
from kcli.export.discovery import refresh
from kcli.export.live import LiveEnd, LiveRange
from kcli.export.source import KafkaLogDataSource, KafkaLogReader
from kcli.export.splits import DataLoss
from kcli.export.stream import KafkaLogStreamReader, LivePartition, as_json, from_json
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import Source
from kcli.protocol.topic_partition import TopicPartition
from tests.conftest import GOLDEN
from tests.export.logs import TOPIC_IDS, append, make_anew
from tests.export.micro_batches import Crashed, Query
from tests.log.batches import batch, marker

EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log directory with an empty partition t-0."""
    partition = tmp_path / "logs/t-0"
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.log").touch()
    return partition


def test_grows(log: Path) -> None:
    query = Query(log.parent, **EARLIEST)
    assert query.drain() == 0
    for first in range(0, 40, 10):
        append(log, range(first, first + 10))
        assert query.run() == 10
        assert query.run() == 0
    assert query.offsets() == list(range(40))
    assert query.at() == {"t": {"0": 40}}
    assert [row[3] for row in query.rows[:2]] == [b"v0", b"v1"]


def test_rolls(log: Path) -> None:
    query = Query(log.parent, **EARLIEST)
    for first in range(0, 50, 10):
        append(log, range(first, first + 10), segment=first)
        (log / f"{first + 10:020}.log").touch()
        assert query.run() == 10
    assert query.offsets() == list(range(50))


def test_a_batch_that_is_being_written(log: Path) -> None:
    """No part of a torn batch is read, wherever it is torn; later it is read whole, once."""
    append(log, range(5))
    append(log, range(5, 9))
    file = log / "00000000000000000000.log"
    data = file.read_bytes()
    first = 12 + int.from_bytes(data[8:12])
    query = Query(log.parent, **EARLIEST)
    for size in [first, *range(first + 1, len(data), 7), len(data) - 1]:
        file.write_bytes(data[:size])
        query.run()
        assert query.offsets() == [0, 1, 2, 3, 4]
    file.write_bytes(data)
    assert query.run() == 4
    assert query.offsets() == list(range(9))


def test_room_behind_the_end(log: Path) -> None:
    """Preallocated zeros may have whole batches or parts of them written into them later."""
    file = log / "00000000000000000000.log"
    query = Query(log.parent, **EARLIEST)
    end = 0
    for first in range(0, 30, 3):
        os.truncate(file, end)
        append(log, range(first, first + 3))
        data = file.read_bytes()
        torn = data[: (end + len(data)) // 2]
        file.write_bytes(torn)
        os.truncate(file, 1 << 20)
        assert query.run() == 0
        file.write_bytes(data)
        os.truncate(file, 1 << 20)
        assert query.run() == 3
        assert query.run() == 0
        end = len(data)
    assert query.offsets() == list(range(30))


def test_only_what_is_new_is_looked_at(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, range(1000))
    known = LiveEnd()
    assert known.log_end(refresh(str(log))) == 1000
    starts = []

    def watched(source: Source, *, start: int) -> Iterator[Window | Damage]:
        starts.append(start)
        return read_segment(source, start=start)

    monkeypatch.setattr("kcli.export.live.read_segment", watched)
    assert known.log_end(refresh(str(log))) == 1000
    assert not starts
    behind = (log / "00000000000000000000.log").stat().st_size
    append(log, range(1000, 1010))
    assert known.log_end(refresh(str(log))) == 1010
    assert starts == [behind]


def test_a_log_that_was_cut_and_grew_again(log: Path) -> None:
    """A follower may truncate its log as its leader's; the end is then found anew."""
    append(log, range(50))
    append(log, range(50, 60))
    file = log / "00000000000000000000.log"
    known = LiveEnd()
    assert known.log_end(refresh(str(log))) == 60
    size = 12 + int.from_bytes(file.read_bytes()[8:12])
    os.truncate(file, size)
    for first in range(50, 95, 5):
        append(log, range(first, first + 5))
    assert file.stat().st_size > known.position
    assert known.log_end(refresh(str(log))) == 95


@pytest.mark.parametrize("segments", [1, 2])
def test_damage(log: Path, segments: int) -> None:
    """Damaged bytes with sound ones behind them are not the log end: they give an error, or are skipped."""
    append(log, range(5))
    middle = (log / "00000000000000000000.log").stat().st_size
    append(log, range(5, 10))
    append(log, range(10, 15), segment=0 if segments == 1 else 10)
    with (log / "00000000000000000000.log").open("r+b") as file:
        file.seek(middle + 70)
        file.write(b"\xff\xff\xff")
    query = Query(log.parent, **EARLIEST)
    with pytest.raises(CorruptLog, match=r"00000000000000000000\.log, byte .*CRC"):
        query.run()
    skips = Query(log.parent, **EARLIEST, onCorruption="skip")
    assert skips.run() == 10
    assert skips.offsets() == [*range(5), *range(10, 15)]
    assert skips.at() == {"t": {"0": 15}}


def test_offsets_are_as_sparks_own_source_writes_them() -> None:
    given = {TopicPartition("b", 1): 5, TopicPartition("a", 10): 7, TopicPartition("a", 9): 0}
    assert as_json(given) == {"a": {"9": 0, "10": 7}, "b": {"1": 5}}
    assert list(as_json(given)["a"]) == ["9", "10"]
    assert from_json(as_json(given)) == given


@pytest.mark.parametrize(
    "text", [[], 3, {"t": 3}, {"t": {"x": 3}}, {"t": {"0": -1}}, {"t": {"0": "3"}}, {"t": {"0": True}}]
)
def test_a_checkpoint_of_something_else(log: Path, text: object) -> None:
    reader = Query(log.parent, **EARLIEST).reader
    with pytest.raises(UsageError, match="checkpoint"):
        reader.partitions(text, {"t": {"0": 5}})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"endingOffsets": '{"t": {"0": 5}}'}, "a stream has no end"),
        ({"endingTimestamp": "5"}, "a stream has no end"),
        ({"startingOffsets": "middle"}, "startingOffsets"),
    ],
)
def test_options_that_make_no_sense(log: Path, options: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Query(log.parent, **options)


def test_a_segment_alone_is_no_stream(log: Path) -> None:
    with pytest.raises(UsageError, match="directories"):
        Query(log / "00000000000000000000.log")


def test_begin(log: Path) -> None:
    append(log, range(10))
    given = {
        "earliest": list(range(12)),
        '{"t": {"0": 7}}': [7, 8, 9, 10, 11],
        '{"t": {"0": -2}}': list(range(12)),
        "latest": [10, 11],
        '{"t": {"0": -1}}': [10, 11],
    }
    queries = {text: Query(log.parent, startingOffsets=text) for text in given}
    queries["time"] = Query(log.parent, startingTimestamp="1700000000004")
    given["time"] = list(range(4, 12))
    queries["late"] = Query(log.parent, startingTimestamp="1800000000000", startingOffsetsByTimestampStrategy="latest")
    given["late"] = [10, 11]
    for query in queries.values():
        query.run()
    append(log, range(10, 12))
    for text, query in queries.items():
        query.drain()
        assert query.offsets() == given[text], text


def test_offsets_of_other_partitions(log: Path) -> None:
    """Those at the start of the query; a partition that comes later needs none."""
    append(log, range(3))
    with pytest.raises(UsageError, match="startingOffsets: the query reads no t-1 in "):
        Query(log.parent, startingOffsets='{"t": {"0": 1, "1": 1}}').run()
    query = Query(log.parent, startingOffsets='{"t": {"0": 1}}')
    query.drain()
    (other := log.with_name("t-1")).mkdir()
    append(other, range(2))
    query.drain()
    assert [query.offsets("t", i) for i in range(2)] == [[1, 2], [0, 1]]


def test_tasks_without_number(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, range(10))
    monkeypatch.setattr("kcli.export.splits.TASKS_MAX", 4)
    query = Query(log.parent, **EARLIEST, maxRecordsPerPartition="1")
    with pytest.raises(UsageError, match="maxRecordsPerPartition=1 makes more than 4 tasks"):
        query.run()


def test_no_record_so_late(log: Path) -> None:
    append(log, range(10))
    with pytest.raises(UsageError, match="no record at or after"):
        Query(log.parent, startingTimestamp="1800000000000").run()


@pytest.mark.parametrize("begin", ["earliest", "latest"])
def test_dies_in_its_first_batch(log: Path, begin: str) -> None:
    """The checkpoint has the begin before anything is read, also if that was the log end."""
    append(log, range(10))
    query = Query(log.parent, startingOffsets=begin)
    with pytest.raises(Crashed):
        query.run(dies=True)
    append(log, range(10, 20))
    query.start()
    query.drain()
    assert query.offsets() == list(range(0 if begin == "earliest" else 10, 20))


def test_dies_at_any_batch(log: Path) -> None:
    query = Query(log.parent, **EARLIEST, maxOffsetsPerTrigger="7")
    for first in range(0, 60, 10):
        append(log, range(first, first + 10))
        with pytest.raises(Crashed):
            query.run(dies=True)
        query.start()
        query.run()
    query.drain()
    assert query.offsets() == list(range(60))


def test_limit(log: Path) -> None:
    """Partitions share the limit of a batch in proportion to their unread offsets; the smallest gets at least one."""
    other, third = log.with_name("t-1"), log.with_name("u-0")
    for directory, count in ((log, 100), (other, 200), (third, 3)):
        directory.mkdir(exist_ok=True)
        append(directory, range(count))
    query = Query(log.parent, **EARLIEST, maxOffsetsPerTrigger="30")
    query.run()
    assert query.at() == {"t": {"0": 9, "1": 19}, "u": {"0": 1}}
    while query.run():
        assert len(query.rows) <= 32 * query.done
    assert query.offsets() == list(range(100))
    assert query.offsets("t", 1) == list(range(200))
    assert query.offsets("u") == [0, 1, 2]
    assert query.reader.reportLatestOffset() == {"t": {"0": 100, "1": 200}, "u": {"0": 3}}


def test_available_now(log: Path) -> None:
    """A run reads what was there when it began, and ends."""
    query = Query(log.parent, **EARLIEST, maxOffsetsPerTrigger="4")
    for first in range(0, 30, 10):
        append(log, range(first, first + 10))
        query.start()
        query.reader.prepareForTriggerAvailableNow()
        append(log, range(first + 10, first + 20), segment=0)
        new = log.with_name(f"new{first}-0")
        new.mkdir()
        append(new, range(5))
        assert query.drain() == 10 + (5 if first else 0)
        os.truncate(log / "00000000000000000000.log", size_of(log, first + 10))
    assert query.offsets() == list(range(30))
    assert query.offsets("new0") == query.offsets("new10") == list(range(5))
    assert query.available_now() == 5
    assert query.available_now() == 0


def test_available_now_where_nothing_is_yet(tmp_path: Path) -> None:
    """Later records are not read, and not lost where a partition was missing for a moment."""
    logs = tmp_path / "logs"
    logs.mkdir()
    query = Query(logs, **EARLIEST)
    query.reader.prepareForTriggerAvailableNow()
    (logs / "t-0").mkdir()
    append(logs / "t-0", range(5))
    assert query.drain() == 0
    assert query.available_now() == 5
    (logs / "t-0").rename(tmp_path / "away")
    query.start()
    query.reader.prepareForTriggerAvailableNow()
    (tmp_path / "away").rename(logs / "t-0")
    assert query.drain() == 0
    assert query.at() == {"t": {"0": 5}}


def size_of(log: Path, offset: int) -> int:
    """Where the batch with an offset begins."""
    data = (log / "00000000000000000000.log").read_bytes()
    at = 0
    while at < len(data) and int.from_bytes(data[at : at + 8]) < offset:
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    return at


def test_available_now_from_the_latest_offset(log: Path) -> None:
    append(log, range(10))
    query = Query(log.parent)
    assert query.available_now() == 0
    append(log, range(10, 15))
    assert query.available_now() == 5
    assert query.offsets() == list(range(10, 15))


def test_tasks(log: Path) -> None:
    for first in range(0, 1000, 10):
        append(log, range(first, first + 10))
    other = log.with_name("u-0")
    other.mkdir()
    append(other, range(100))
    for options, tasks in (
        ({}, 2),
        ({"minPartitions": "11"}, 11),
        ({"maxRecordsPerPartition": "100"}, 11),
        ({"maxRecordsPerPartition": "100", "minPartitions": "5"}, 11),
        ({"minPartitions": "550"}, 550),
    ):
        query = Query(log.parent, **EARLIEST, **options)
        assert query.run() == 1100
        assert query.tasks == tasks
        assert query.offsets() == list(range(1000))
        assert query.offsets("u") == list(range(100))


def test_large_segments_are_cut(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are cut as in a batch read: at batches that the sparse index names."""
    source = GOLDEN / "codecs/data/mixed-0"
    monkeypatch.setattr("kcli.export.splits.SPLIT_BYTES", 20_000)
    query = Query(source, **EARLIEST)
    query.run()
    truth = LiveEnd().log_end(refresh(str(source)))
    assert query.tasks > 2
    assert query.offsets("mixed") == list(range(truth))


def test_partitions_and_topics_appear(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    query = Query(logs)
    assert query.drain() == 0
    for number, name in enumerate(("a-0", "a-1", "b-0"), 1):
        (logs / name).mkdir()
        append(logs / name, range(5))
        assert query.drain() == 5, "from its first offset, whatever startingOffsets says"
        assert sum(map(len, query.at().values())) == number
    (logs / "c-0").mkdir()
    assert query.drain() == 0
    append(logs / "c-0", range(3))
    assert query.drain() == 3


def test_a_partition_appears_without_its_first_records(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    append(log, range(5))
    strict, lax = Query(log.parent, **EARLIEST), Query(log.parent, **EARLIEST, failOnDataLoss="false")
    for query in (strict, lax):
        query.drain()
    other = log.with_name("u-0")
    other.mkdir()
    append(other, range(100, 110), segment=100)
    with pytest.raises(DataLoss, match="u-0: offset 0 is gone, the log starts at 100"):
        strict.run()
    assert lax.run() == 10
    assert "u-0: offset 0 is gone" in caplog.text


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no such file"):
        Query(tmp_path / "none", **EARLIEST).run()


def test_subscribes(log: Path) -> None:
    for name in ("t-1", "u-0", "__consumer_offsets-0"):
        log.with_name(name).mkdir()
        append(log.with_name(name), range(5))
    for options, count in (
        ({"subscribe": "t"}, 5),
        ({"subscribePattern": "t|u"}, 10),
        ({"assign": '{"u": [0], "t": [0]}'}, 5),
        ({}, 10),
        ({"includeInternalTopics": "true"}, 15),
    ):
        assert Query(log.parent, **EARLIEST, **options).drain() == count, options


@pytest.mark.parametrize("names", [{"subscribe": "t,nope"}, {"assign": '{"t": [0, 1]}'}])
def test_names_that_are_not_there(log: Path, names: dict[str, str]) -> None:
    append(log, range(5))
    with pytest.raises(UsageError, match=r"no topic 'nope' in|no partition 1 of 't' in"):
        Query(log.parent, **EARLIEST, **names).run()
    for name in ("t-1", "nope-0"):
        log.with_name(name).mkdir()
    assert Query(log.parent, **EARLIEST, **names).run() == 5


def test_a_topic_that_was_named_and_goes(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It counts as lost data, not as a wrong name: with failOnDataLoss=false the query goes on in all later batches."""
    other = log.with_name("u-0")
    other.mkdir()
    for each in (log, other):
        append(each, range(5))
    strict, lax = (Query(log.parent, **EARLIEST, subscribe="t,u", failOnDataLoss=each) for each in ("true", "false"))
    for query in (strict, lax):
        query.drain()
    shutil.rmtree(other)
    with pytest.raises(DataLoss, match="u-0 is not there any more"):
        strict.run()
    for first in (5, 10):
        append(log, range(first, first + 5))
        lax.start()
        assert lax.run() == 5
    assert "u-0 is not there any more" in caplog.text


def test_old_segments_are_deleted(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A deleted segment that was not read is an error; one that was read is not."""
    for first in range(0, 40, 10):
        append(log, range(first, first + 10), segment=first)
    strict, lax = Query(log.parent, **EARLIEST), Query(log.parent, **EARLIEST, failOnDataLoss="false")
    for query in (strict, lax):
        query.reader.initialOffset()
        with pytest.raises(Crashed):
            query.run(dies=True)
    (log / f"{0:020}.log").rename(log / f"{0:020}.log.deleted")
    with pytest.raises(DataLoss, match="t-0: offset 0 is gone, the log starts at 10"):
        strict.run()
    strict.start()
    with pytest.raises(DataLoss, match="t-0: offset 0 is gone, the log starts at 10"):
        strict.run()
    strict = Query(log.parent, **EARLIEST)
    for query in (strict, lax):
        assert query.run() == 30
    for first in range(40, 60, 10):
        append(log, range(first, first + 10), segment=first)
    for first in range(10, 50, 10):
        (log / f"{first:020}.log").unlink()
    with pytest.raises(DataLoss, match="t-0: offset 40 is gone, the log starts at 50; failOnDataLoss=false"):
        strict.run()
    assert lax.run() == 10
    assert "t-0: offset 40 is gone, the log starts at 50" in caplog.text
    assert lax.offsets() == [*range(10, 40), *range(50, 60)]


def test_tasks_stay_where_segments_were_deleted(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of offsets a batch that was interrupted has the same tasks when it runs again: the sink knows by
    their numbers which of them it has written."""
    monkeypatch.setattr("kcli.export.stream.OFFSETS_A_TASK", 15)
    others = [log.with_name(f"t-{i}") for i in (1, 2)]
    for directory in (log, *others):
        directory.mkdir(exist_ok=True)
        for first in range(0, 40, 10):
            append(directory, range(first, first + 10), segment=first)
    more = {"failOnDataLoss": "false", "maxOffsetsPerTrigger": "1000"}
    query = Query(log.parent, **EARLIEST, **more)
    with pytest.raises(Crashed):
        query.run(dies=True)
    before = tasks_of(query)
    (log.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 40\n")
    for directory, last in ((log, 40), (others[0], 20)):
        for first in range(0, last, 10):
            (directory / f"{first:020}.log").unlink()
    after = tasks_of(query)
    assert [(each.directory, each.end) for each in after] == [(each.directory, each.end) for each in before]
    assert query.run() == 60
    assert [query.offsets("t", i) for i in range(3)] == [[], [*range(20, 40)], [*range(40)]]


def tasks_of(query: Query) -> list[LiveRange]:
    return [each.live_range for each in query.plan() if isinstance(each, LivePartition)]


def test_deleted_records_in_front(log: Path) -> None:
    """DeleteRecords moves the log start without touching the file."""
    append(log, range(10))
    query = Query(log.parent, **EARLIEST, failOnDataLoss="false")
    (log.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    assert query.drain() == 6
    assert query.offsets() == [4, 5, 6, 7, 8, 9]


def test_a_partition_goes(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = log.with_name("u-0")
    other.mkdir()
    for directory in (log, other):
        append(directory, range(5))
    strict, lax = Query(log.parent, **EARLIEST), Query(log.parent, **EARLIEST, failOnDataLoss="false")
    for query in (strict, lax):
        assert query.drain() == 10
    log.rename(log.with_name("t-0.0123456789abcdef0123456789abcdef-delete"))
    append(other, range(5, 10))
    with pytest.raises(DataLoss, match="t-0 is not there any more"):
        strict.run()
    assert lax.drain() == 5
    assert "t-0 is not there any more" in caplog.text
    log.mkdir()
    append(log, range(3))
    assert lax.drain() == 3, "made again, it is new"


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "100"}])
@pytest.mark.parametrize("size", [4, 20])
def test_a_topic_that_was_made_anew(
    size: int, limit: dict[str, str], log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_anew(log, TOPIC_IDS[0], range(10))
    strict, lax = (Query(log.parent, **EARLIEST, **limit, failOnDataLoss=each) for each in ("true", "false"))
    for query in (strict, lax):
        assert query.drain() == 10
    make_anew(log, TOPIC_IDS[1], range(size))
    was = f"the topic t was deleted and made anew: its id was {TOPIC_IDS[0]}, and is {TOPIC_IDS[1]}"
    with pytest.raises(DataLoss, match=was):
        strict.run()
    strict.start()
    with pytest.raises(DataLoss, match=was):
        strict.run()
    assert lax.drain() == size
    assert was in caplog.text
    append(log, range(size, size + 5))
    assert lax.drain() == 5
    assert lax.offsets() == [*range(10), *range(size + 5)]


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_made_anew_before_its_batch_is_read(fails: bool, log: Path) -> None:
    make_anew(log, TOPIC_IDS[0], range(10))
    query = Query(log.parent, **EARLIEST, failOnDataLoss=str(fails).lower())
    with pytest.raises(Crashed):
        query.run(dies=True)
    make_anew(log, TOPIC_IDS[1], range(20))
    query.start()
    if fails:
        with pytest.raises(DataLoss, match="the topic t was deleted and made anew"):
            query.run()
    else:
        assert query.drain() == 20
        assert query.offsets() == [*range(20)]


def test_a_checkpoint_without_topic_ids(log: Path) -> None:
    append(log, range(10))
    query = Query(log.parent, **EARLIEST)
    query.drain()
    make_anew(log, TOPIC_IDS[0], range(15))
    query.start()
    assert query.drain() == 5
    make_anew(log, TOPIC_IDS[1], range(20))
    with pytest.raises(DataLoss, match="the topic t was deleted and made anew"):
        query.run()


def test_a_log_is_cut_short(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    append(log, range(5))
    append(log, range(5, 10))
    strict, lax = Query(log.parent, **EARLIEST), Query(log.parent, **EARLIEST, failOnDataLoss="false")
    for query in (strict, lax):
        assert query.drain() == 10
    os.truncate(log / f"{0:020}.log", size_of(log, 5))
    with pytest.raises(DataLoss, match="t-0: the log ends at 5, before 10"):
        strict.run()
    assert lax.drain() == 0
    assert lax.at() == {"t": {"0": 5}}
    append(log, range(5, 12))
    assert lax.drain() == 7
    assert lax.offsets() == [*range(10), *range(5, 12)]


@pytest.mark.parametrize("stale", [0, 6, 50])
def test_the_checkpointed_high_watermark(log: Path, stale: int) -> None:
    """A live broker's checkpoint is old: it is ignored unless an option asks for it."""
    append(log, range(5))
    append(log, range(5, 10))
    (log.parent / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {stale}\n")
    query = Query(log.parent, **EARLIEST)
    assert query.drain() == 10
    bound = Query(log.parent, **EARLIEST, beyondHighWatermark="false")
    bound.drain()
    assert bound.offsets() == list(range(min(stale, 10)))
    (log.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    bound = Query(log.parent, **EARLIEST, beyondHighWatermark="false")
    bound.drain()
    assert bound.offsets() == list(range(8))


def test_committed_records(log: Path) -> None:
    """A batch ends at the last stable offset; aborted records and markers are not delivered."""
    query = Query(log.parent, **EARLIEST, isolation="read_committed")
    uncommitted = Query(log.parent, **EARLIEST, **{"kafka.isolation.level": "read_uncommitted"})
    known = LiveEnd()
    file = log / f"{0:020}.log"
    one, two = (7, 0), (8, 0)
    steps = [
        (batch(b"a", b"b", base_offset=0), [0, 1]),
        (batch(b"c", producer=one, sequence=0, transactional=True, base_offset=2), []),
        (batch(b"d", producer=two, sequence=0, transactional=True, base_offset=3), []),
        (batch(b"e", base_offset=4), []),
        (marker(one, commit=True, base_offset=5), [2]),
        (batch(b"f", producer=one, sequence=1, transactional=True, base_offset=6), []),
        (marker(two, commit=False, base_offset=7), [4]),
        (marker(one, commit=True, base_offset=8), [6]),
        (batch(b"g", base_offset=9), [9]),
    ]
    for data, expected in steps:
        with file.open("ab") as out:
            out.write(data)
        before = query.offsets()
        query.drain()
        uncommitted.drain()
        assert query.offsets()[len(before) :] == expected
        files = refresh(str(log))
        end = known.log_end(files)
        assert known.stable(files, end) == whole_log.last_stable_offset(files, end)
        query.start()
    assert uncommitted.offsets() == [0, 1, 2, 3, 4, 6, 9]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_golden_transactions(tmp_path: Path, isolation: str) -> None:
    """The result is that of a batch read, however small the micro-batches are."""
    source = KafkaLogDataSource(
        {"path": str(GOLDEN / "txn/data"), "isolation": isolation, "beyondHighWatermark": "true"}
    )
    reader = source.reader(source.schema())
    assert isinstance(reader, KafkaLogReader)
    expected = []
    for split in reader.partitions():
        for each in reader.read(split):
            columns = [each.column(name).to_pylist() for name in ("topic", "partition", "offset", "value")]
            expected += list(zip(*columns, strict=True))
    assert expected
    for limit in ("1000000", "170"):
        query = Query(GOLDEN / "txn/data", **EARLIEST, isolation=isolation, maxOffsetsPerTrigger=limit)
        query.drain()
        assert sorted(query.rows) == sorted(expected)


def test_copies_of_a_partition(log: Path) -> None:
    """Each offset is read once, from a copy that has it."""
    other = log.parent.parent / "other/t-0"
    other.mkdir(parents=True)
    append(log, range(10, 20), segment=10)
    (log / f"{0:020}.log").unlink()
    append(other, range(15))
    query = Query(log.parent.parent, **EARLIEST)
    assert query.drain() == 20
    append(other, range(15, 30))
    assert query.drain() == 10
    append(log, range(20, 35), segment=10)
    assert query.drain() == 5
    assert query.offsets() == list(range(35))


def test_columns(log: Path) -> None:
    """The table has the requested columns in that order; columns that are not shown are not read."""
    append(log, range(3))
    source = KafkaLogDataSource({"path": str(log), "columns": "value,segment", "includeHeaders": "true", **EARLIEST})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, KafkaLogStreamReader)
    tasks = reader.partitions({"t": {"0": 1}}, {"t": {"0": 3}})
    (found,) = [each for task in tasks for each in reader.read(task)]
    assert found.to_pydict() == {
        "value": [b"v1", b"v2"],
        "segment": ["00000000000000000000.log"] * 2,
        "headers": [None, None],
    }


def test_no_partition_no_task(log: Path) -> None:
    """For a batch without partitions Spark creates an empty one."""
    from pyspark.sql.datasource import InputPartition

    assert list(Query(log.parent).reader.read(InputPartition(None))) == []


def test_anything_may_happen(log: Path) -> None:
    """Random changes happen between batches, and the query dies at random: each record comes once."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    query = Query(log.parent, **EARLIEST, maxOffsetsPerTrigger="40")
    written: dict[Path, int] = {log: 0}
    active: dict[Path, int] = {log: 0}
    for _ in range(150):
        partition = draw.choice(list(written))
        match draw.randrange(7):
            case 0 | 1 | 2:
                count = draw.randint(1, 30)
                append(partition, range(written[partition], written[partition] + count), segment=active[partition])
                written[partition] += count
            case 3:
                active[partition] = written[partition]
                (partition / f"{written[partition]:020}.log").touch()
            case 4 if len(written) < 4:
                new = log.with_name(f"t-{len(written)}")
                new.mkdir()
                (new / f"{0:020}.log").touch()
                written[new] = active[new] = 0
            case 5:
                query.run()
            case 6:
                try:
                    query.run(dies=True)
                except Crashed:
                    query.start()
    query.drain()
    for number, partition in enumerate(written):
        assert query.offsets("t", number) == list(range(written[partition]))
    shutil.rmtree(log.parent)
