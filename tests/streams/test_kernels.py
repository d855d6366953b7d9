"""The kernels of streams, where programs do not show what they do."""

from __future__ import annotations

import gc
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from formats.kernels.records import RecordTable
from formats.kernels.write import write_batch
from kcli.log.batch_records import decode
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import BytesSource
from kcli.streams import LONG, STRING, StreamsBuilder
from kcli.streams.errors import FailedProcessing
from kcli.streams.kernels.bytes_map import BytesMap
from kcli.streams.kernels.values import logged, raw, value_of
from kcli.streams.records import Change, Headers, Record, ValueAndTimestamp
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.stores.key_value import KeyValueStore
from kcli.streams.topology.task import Task


class Plain(NamedTuple):
    """A record as Python makes it."""

    key: object
    value: object
    timestamp: int
    headers: object = ()


class OfSubclass(Record[Any, Any]):
    """A subclass, which is made as Python makes it."""


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1, 2, 3), {}),
    ((1, 2, 3, 4), {}),
    ((1, 2), {"timestamp": 3}),
    ((), {"key": 1, "value": 2, "timestamp": 3, "headers": 4}),
    ((1, 2), {}),
    ((), {}),
    ((1, 2, 3, 4, 5), {}),
    ((1, 2, 3), {"key": 4}),
    ((1, 2, 3), {"other": 4}),
]


def outcome(call: Callable[[], Any]) -> object:
    try:
        return tuple(call())
    except TypeError as error:
        return str(error).partition(".")[2]


@pytest.mark.parametrize(("given", "named"), CALLS)
def test_a_quick_class_is_called_as_any_named_tuple(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    wanted = outcome(lambda: Plain(*given, **named))
    assert outcome(lambda: Record(*given, **named)) == wanted
    assert outcome(lambda: OfSubclass(*given, **named)) == wanted


def test_a_quick_class_stays_a_named_tuple() -> None:
    record = Record("k", "v", 1)
    assert type(record) is Record
    assert type(OfSubclass("k", "v", 1)) is OfSubclass
    assert pickle.loads(pickle.dumps(record)) == record
    assert record._replace(value="w") == ("k", "w", 1, ())
    assert Change(1) == (1, None, True)


def test_what_a_quick_class_makes_is_freed() -> None:
    kept: list[object] = []
    gc.collect()  # what tests before this one made is none of its own
    before = sys.getrefcount(kept), sys.getrefcount(Record)
    for _ in range(100):
        Record(kept, kept, 1)
    made: Record[list[object], None] = Record([], None, 1)
    made.key.append(made)
    assert gc.is_tracked(made)
    del made
    gc.collect()
    assert (sys.getrefcount(kept), sys.getrefcount(Record)) == before


@pytest.mark.parametrize("timestamp", [0, -1, 2**63 - 1, -(2**63)])
def test_a_timestamped_value_has_eight_bytes_before_it(timestamp: int) -> None:
    data = raw(ValueAndTimestamp(258, timestamp), LONG, timestamped=True)
    assert data == timestamp.to_bytes(8, signed=True) + bytes((0, 0, 0, 0, 0, 0, 1, 2))
    assert value_of(data, LONG, timestamped=True) == ValueAndTimestamp(258, timestamp)
    assert logged(LONG.to_bytes(258), timestamp, timestamped=True) == data


def test_a_value_without_its_timestamp_is_refused() -> None:
    with pytest.raises(ValueError, match="7 bytes have no timestamp"):
        value_of(bytes(7), STRING, timestamped=True)


def test_a_task_goes_on_behind_a_record_that_it_could_not_read() -> None:
    builder = StreamsBuilder(key_serde=STRING, value_serde=LONG)
    builder.stream("a").to("out")
    builder.stream("b").to("out")
    task = Task(builder.build(), "app", 0)
    task.start()
    for offset, (topic, value) in enumerate((("a", 1), ("b", 1), ("a", None), ("b", 2), ("a", 3))):
        data = b"bad" if value is None else LONG.to_bytes(value)
        task.add(RawRecord(topic, 0, offset, offset, b"k", data))
    with pytest.raises(FailedProcessing, match="a, partition 0, offset 2"):
        task.process()
    assert task.process_ready(10) == 0
    while task.process():
        pass
    assert [each.timestamp for each in task.sent] == [1, 3]
    task.add(RawRecord("a", 0, 5, 5, b"k", LONG.to_bytes(4)))
    assert task.process_ready(1) == 0
    assert task.process()


def slices(*batches: bytes) -> Iterator[tuple[RecordTable, memoryview]]:
    """Records of batches, as a restore gets them."""
    records = RecordTable(7)
    for window in read_segment(BytesSource(b"".join(batches), "a changelog")):
        assert isinstance(window, Window)
        for data in decode(window, records):
            yield records, data


@pytest.mark.parametrize("seed", range(20))
def test_a_map_of_bytes_is_as_a_dict(seed: int) -> None:
    """Also with entries that are larger than a block, and where replaced entries are left behind."""
    chance = random.Random(seed)
    found, wanted = BytesMap(), dict[bytes, bytes]()
    keys, largest = chance.choice((5, 50, 2000)), chance.choice((30, 300, 3000))
    for _ in range(6000):
        key = b"%d" % chance.randrange(keys) * chance.choice((1, 1, 7))
        size = 6_000_000 if chance.random() < 0.001 else chance.randrange(largest)
        match chance.choices(("put", "pop", "del"), (60, 25, 5))[0]:
            case "put":
                found[key] = wanted[key] = bytes([chance.randrange(256)]) * size
            case "pop":
                assert found.pop(key) == wanted.pop(key, None)
            case "del" if key in wanted:
                del found[key], wanted[key]
        assert (found.get(key), key in found) == (wanted.get(key), key in wanted)
    assert {key: found[key] for key in found} == wanted
    assert len(found) == len(wanted)
    with pytest.raises(KeyError):
        found[b"none"]
    with pytest.raises(KeyError):
        del found[b"none"]


def new_store(*, timestamped: bool) -> KeyValueStore[str, Any]:
    def log(key: bytes, value: bytes | None, timestamp: int | None, headers: Headers = (), /) -> None:
        raise AssertionError("a restore logs nothing")

    return KeyValueStore("s", STRING, STRING, log, timestamped=timestamped)


@pytest.mark.parametrize("timestamped", [False, True])
def test_a_store_takes_many_records_as_it_takes_each(timestamped: bool) -> None:
    chance = random.Random(7)
    many, single = new_store(timestamped=timestamped), new_store(timestamped=timestamped)
    batches: list[bytes] = []
    for number in range(40):
        rows = [
            (b"%d" % chance.randrange(30), chance.choice((None, b"", b"x" * chance.randrange(40)))) for _ in range(20)
        ]
        batches.append(bytes(write_batch(rows, 1000 + number, base_offset=20 * number)))
        for key, value in rows:
            single.restore(key, value, 1000 + number)
    for records, data in slices(*batches):
        assert many.restore_all(records, data) == len(records)
    assert list(many.all()) == list(single.all())
    assert many.approximate_num_entries() > 5


def test_a_store_takes_the_records_before_one_without_a_key() -> None:
    store = new_store(timestamped=False)
    rows = [(b"a", b"1"), (b"b", b"2"), (None, b"3"), (b"c", b"4")]
    for records, data in slices(bytes(write_batch(rows, 1))):
        assert store.restore_all(records, data) == 2
    assert list(store.all()) == [("a", "1"), ("b", "2")]
