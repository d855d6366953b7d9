"""FileStream's tasks, without Spark: files that grow and are cut, ends of lines, offsets in transactions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.connect.connectors.file import FileStreamSink, FileStreamSource
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.schema import Type
from kcli.connect.engine.offsets import read_topic
from kcli.connect.engine.tasks import Columns, Rest, SourceContext, nothing
from kcli.connect.engine.watching import Watch, mark_of
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.turns import OFFSETS_TOPIC, consumed, turn


def lines_of(path: Path, position: int = 0, *, is_columnar: bool, batch: int = 2000) -> tuple[list[str], int]:
    """All lines that a task reads from a position on, and the position behind them."""
    task = FileStreamSource.TASK()
    key = f'{{"filename":"{path}"}}'
    context = SourceContext({key: {"position": position}}, Type.STRING if is_columnar else None)
    task.start({"file": str(path), "topic": "t", "batch.size": str(batch)}, context)
    found: list[str] = []
    while polled := task.poll():
        if isinstance(polled, Columns):
            found += (each.decode() for each in polled.table.column("value").to_pylist())
            position = polled.offset["position"]
        else:
            assert len(polled) <= batch
            found += (each.value for each in polled)
            last = polled[-1].source_offset
            assert last is not None
            position = last["position"]
    return found, position


@pytest.mark.parametrize("is_columnar", [False, True])
@pytest.mark.parametrize(
    ("data", "lines", "position"),
    [
        (b"", [], 0),
        (b"no end", [], 0),
        (b"one\ntwo\nthr", ["one", "two"], 8),
        (b"dos\r\nunix\nmac\rx\r\n", ["dos", "unix", "mac", "x"], 17),
        (b"undecided\r", [], 0),
        (b"one\nundecided\r", ["one"], 4),
        (b"\n\n\r\n", ["", "", ""], 4),
        ("grün\nß".encode(), ["grün"], 6),
        (b"bad \xff\xfe\nx\n", ["bad ��", "x"], 9),
    ],
)
def test_lines(tmp_path: Path, data: bytes, lines: list[str], position: int, *, is_columnar: bool) -> None:
    path = tmp_path / "in"
    path.write_bytes(data)
    assert lines_of(path, is_columnar=is_columnar, batch=2) == (lines, position)


@pytest.mark.parametrize("is_columnar", [False, True])
def test_a_turn_that_ends_before_the_file_is_followed_by_another(tmp_path: Path, *, is_columnar: bool) -> None:
    """A task rests once it has found nothing more to read, not where its time was over."""
    path = tmp_path / "in"
    path.write_text("a\nb\nhalf")
    task = FileStreamSource.TASK()
    config = {"file": str(path), "topic": "t", "batch.size": "1"}
    task.start(config, SourceContext({}, Type.STRING if is_columnar else None))
    while not nothing(task.poll()):
        assert task.rest() == Rest()
    assert task.rest() == Rest(files={str(path): mark_of(str(path))})


@pytest.mark.parametrize("is_columnar", [False, True])
def test_a_file_grows_and_is_cut(tmp_path: Path, *, is_columnar: bool) -> None:
    """A position behind the end waits, whatever the file has become, until it is longer."""
    path = tmp_path / "in"
    path.write_text("a\nb\nhalf")
    assert lines_of(path, is_columnar=is_columnar) == (["a", "b"], 4)
    path.write_text("a\nb\nhalf a line\n")
    assert lines_of(path, 4, is_columnar=is_columnar) == (["half a line"], 16)
    path.write_text("new\n")
    assert lines_of(path, 16, is_columnar=is_columnar) == ([], 16)
    path.write_text("new\n0123456789abcdef\nx\n")
    assert lines_of(path, 16, is_columnar=is_columnar) == (["cdef", "x"], 23)


def test_a_long_line(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"x" * (9 << 20) + b"\nshort\n")
    lines, position = lines_of(path, is_columnar=True)
    assert [len(each) for each in lines] == [9 << 20, 5]
    assert position == path.stat().st_size


def test_a_line_without_an_end_is_not_read_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.connect.connectors.file.LINE_MAX", 4 << 20)
    path = tmp_path / "in"
    path.write_bytes(b"first\n" + b"x" * (5 << 20))
    with pytest.raises(ConnectError, match="the line at byte 6 has no end within 4,194,304 bytes"):
        lines_of(path, 6, is_columnar=True)


def test_a_rest_ends_when_the_file_changes(tmp_path: Path, kafka: Kafka) -> None:
    path = tmp_path / "in"
    source = {"name": "lines", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines"}
    watch = Watch(None)
    rest = turn(kafka, source, offsets={}).rest
    assert not watch.has_work(rest, committed=False)
    path.write_text("half")
    assert watch.has_work(rest, committed=False)
    rest = turn(kafka, source, offsets={}).rest
    assert not watch.has_work(rest, committed=False)
    path.write_text("half a line\n")
    assert watch.has_work(rest, committed=False)


def test_exactly_once(tmp_path: Path, kafka: Kafka) -> None:
    """Records and offsets are in one transaction; a turn goes on where the topic says; an instance that has been
    fenced fails."""
    kafka.seed({"lines": 1, OFFSETS_TOPIC: 5})
    path = tmp_path / "in"
    path.write_text("one\ntwo\n")
    source = {"name": "lines", "connector.class": "FileStreamSource", "file": str(path), "topic": "lines"}
    first = turn(kafka, source, exactly_once=True, offsets_topic=OFFSETS_TOPIC)
    assert (first.trace, first.records, first.stored, first.topics) == (None, 2, True, {"lines"})
    (stored,) = [each for each in consumed(kafka, OFFSETS_TOPIC, 1, partitions=5) if each.key()]
    assert stored.key() == f'["lines",{{"filename":"{path}"}}]'.encode()
    assert stored.value() == b'{"position":8}'
    key = f'{{"filename":"{path}"}}'
    assert read_topic(Connection(kafka.bootstrap_servers), OFFSETS_TOPIC, "lines") == {key: {"position": 8}}
    with path.open("a") as file:
        file.write("three\n")
    second = turn(kafka, source, exactly_once=True, offsets_topic=OFFSETS_TOPIC)
    assert (second.trace, second.records) == (None, 1)
    third = turn(kafka, source, exactly_once=True, offsets_topic=OFFSETS_TOPIC, offsets={}, producer=first.producer)
    assert third.trace is not None
    assert "PRODUCER_FENCED" in third.trace or "INVALID_PRODUCER_EPOCH" in third.trace
    assert [each.value() for each in consumed(kafka, "lines", 3)] == [b"one", b"two", b"three"]


def test_without_transactions_offsets_come_back(tmp_path: Path, kafka: Kafka) -> None:
    """The topic is created as the configuration has it."""
    path = tmp_path / "in"
    path.write_text("one\n")
    source = {"name": "lines", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines"}
    source |= {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"}
    outcome = turn(kafka, source | {"topic.creation.default.retention.ms": "-1"}, offsets={})
    assert (outcome.trace, outcome.stored) == (None, False)
    assert list(outcome.offsets.values()) == [({"filename": str(path)}, {"position": 4})]
    assert len(consumed(kafka, "lines", 1, partitions=3)) == 1


def test_a_sink_appends(tmp_path: Path, kafka: Kafka) -> None:
    """Each task has its share of the partitions; tombstones are `null`; two tasks fill one file."""
    kafka.seed({"lines": 3})
    kafka.produce("lines", *({"value": f"line {i}", "partition": i % 3} for i in range(300)), {"value": None})
    path = tmp_path / "out"
    sink = {"name": "out", "connector.class": FileStreamSink.CLASS, "file": str(path), "topics": "lines"}
    outcomes = [turn(kafka, sink, number=number, count=2) for number in (0, 1)]
    assert [each.trace for each in outcomes] == [None, None]
    assert [sorted(each.partition for each in found.positions) for found in outcomes] == [[0, 1], [2]]
    assert sum(each.records for each in outcomes) == 301
    assert sorted(path.read_text().splitlines()) == sorted([*(f"line {i}" for i in range(300)), "null"])
    again = turn(kafka, sink, positions={place: end for each in outcomes for place, end in each.positions.items()})
    assert (again.trace, again.records) == (None, 0)


def test_a_sink_that_fails_keeps_its_offsets(tmp_path: Path, kafka: Kafka) -> None:
    kafka.seed({"lines": 1})
    kafka.produce("lines", {"value": "x"})
    sink = {
        "name": "out",
        "connector.class": FileStreamSink.CLASS,
        "file": str(tmp_path / "no" / "out"),
        "topics": "lines",
    }
    outcome = turn(kafka, sink)
    assert outcome.positions == {}
    assert outcome.trace is not None
    path = tmp_path / "no" / "out"
    assert f"ConnectException: Couldn't find or create file '{path}' for FileStreamSinkTask" in outcome.trace
    assert "Caused by: builtins.FileNotFoundError" in outcome.trace


@pytest.mark.parametrize(
    ("partition", "offset", "reason"),
    [
        ({"filename": "a"}, {}, "Offset objects should either be null or contain the key 'position'"),
        ({"filename": "a"}, {"position": "1"}, "The value for the 'position' key in the offset is expected to be a Lo"),
        ({"filename": "a"}, {"position": -1}, "The value for the 'position' key in the offset should be a non-negati"),
        ({"file": "a"}, {"position": 1}, "Partition objects should contain the key 'filename'"),
    ],
)
def test_offsets_that_are_none(partition: dict[str, object], offset: dict[str, object], reason: str) -> None:
    connector = FileStreamSource({"file": "a", "topic": "t"})
    with pytest.raises(ConnectError) as error:
        connector.alter_offsets([(partition, offset)])
    assert str(error.value).startswith(reason)
    assert connector.alter_offsets([(partition, None), ({"filename": "a"}, {"position": 5})])


def test_a_place_in_positions_is_used(tmp_path: Path, kafka: Kafka) -> None:
    """An offset that the log does not have any more is where auto.offset.reset says."""
    kafka.seed({"lines": 1})
    kafka.produce("lines", *({"value": str(i)} for i in range(5)))
    path = tmp_path / "out"
    sink = {"name": "out", "connector.class": FileStreamSink.CLASS, "file": str(path), "topics": "lines"}
    turn(kafka, sink, positions={TopicPartition("lines", 0): 3})
    assert path.read_text() == "3\n4\n"
    turn(kafka, sink, positions={TopicPartition("lines", 0): 9})
    assert path.read_text() == "3\n4\n0\n1\n2\n3\n4\n"


def test_a_task_that_starts_slowly_has_its_turn(tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a turn does not run while its task starts: on a busy machine it would never read a line."""
    monkeypatch.setattr("kcli.connect.engine.turn.TURN_S", 0.2)
    start = FileStreamSource.TASK.start

    def slowly(task: Any, *given: Any) -> None:
        time.sleep(0.3)
        start(task, *given)

    monkeypatch.setattr(FileStreamSource.TASK, "start", slowly)
    path = tmp_path / "in"
    path.write_text("one\n")
    source = {"name": "lines", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines"}
    assert turn(kafka, source, offsets={}).records == 1


@pytest.mark.parametrize("position", [1 << 63, "5", 1.0, None])
def test_a_position_that_is_no_long_fails(tmp_path: Path, position: Any) -> None:
    """The task would wait for a file of that size."""
    with pytest.raises(ConnectError, match="Offset position is the incorrect type"):
        lines_of(tmp_path / "in", position, is_columnar=False)


def test_a_topic_that_a_transform_names_wrongly(kafka: Kafka, tmp_path: Path) -> None:
    """The trace is that of Kafka's worker."""
    (tmp_path / "in").write_text("one\n")
    config = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(tmp_path / "in"), "topic": "lines"}
    router = "org.apache.kafka.connect.transforms.RegexRouter"
    config |= {"transforms": "r", "transforms.r.type": router, "transforms.r.regex": ".*"}
    outcome = turn(kafka, {**config, "transforms.r.replacement": "bad topic"})
    assert outcome.trace is not None
    assert [each for each in outcome.trace.splitlines() if not each.startswith("\tat ")] == [
        "org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from producer send callback",
        "Caused by: org.apache.kafka.common.errors.InvalidTopicException: Invalid topics: [bad topic]",
    ]
