"""The records that are read of a topic, from a start to an end."""

import json
import subprocess
import sys
from collections.abc import Iterable

import pytest

from kcli.cli.options import time_ms
from kcli.client.connection import Connection
from kcli.client.consuming import Record, RecordSelection, consume
from kcli.client.ranges import parse_start, parse_times
from kcli.errors import KcliError
from tests.client.clusters import Cluster, numbers_topic


@pytest.fixture(scope="module")
def numbers(cluster: Cluster) -> str:
    """The topic of numbers."""
    return numbers_topic(cluster)


def read(
    cluster: Cluster,
    topic: str,
    *,
    partitions: tuple[int, ...] = (),
    starts: Iterable[str] = (),
    times: str | None = None,
    count: int | None = None,
    to_end: bool = True,
) -> list[Record]:
    """Read a topic between offsets and times as a user types them."""
    selection = RecordSelection(
        topic=topic,
        partitions=partitions,
        starts=dict(parse_start(text) for text in starts),
        times=None if times is None else parse_times(times, lambda text: time_ms(text, "--time")),
        count=count,
        to_end=to_end,
    )
    return [record for chunk in consume(Connection(cluster.address), selection) for record in chunk]


def values(records: list[Record]) -> list[int]:
    """The values, sorted."""
    return sorted(int(record.value or b"") for record in records)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([], range(30)),
        (["beginning"], range(30)),
        (["end"], []),
        (["-3"], [7, 8, 9, 27, 28, 29]),
        (["-15"], [*range(10), *range(15, 30)]),
        (["0:8", "1:-1"], [8, 9, 29]),
        (["end", "1:15"], range(25, 30)),
        (["1:20", "0:10"], []),
    ],
)
def test_starts(cluster: Cluster, numbers: str, starts: list[str], expected: Iterable[int]) -> None:
    assert values(read(cluster, numbers, starts=starts)) == list(expected)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("1700000120000:1700000900000", range(2, 15)),
        ("1700000120001:1700000900001", range(3, 16)),
        (":1700000120000", range(2)),
        (":-1h", range(30)),
        ("-1h:", []),
        ("-1h:1900000000000", []),
        ("1700001680000:", [28, 29]),
        ("1000:1700000000000", []),
    ],
)
def test_times(cluster: Cluster, numbers: str, times: str, expected: Iterable[int]) -> None:
    assert values(read(cluster, numbers, times=times)) == list(expected)


def test_partitions_are_in_order(cluster: Cluster, numbers: str) -> None:
    records = read(cluster, numbers)
    for partition in (0, 1, 2):
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(len(offsets)))
    assert [record.offset for record in read(cluster, numbers, partitions=(1,))] == list(range(20))
    assert values(read(cluster, numbers, partitions=(0, 2))) == list(range(10))


def test_counts(cluster: Cluster, numbers: str) -> None:
    assert read(cluster, numbers, count=0) == []
    assert values(read(cluster, numbers, partitions=(1,), count=4, to_end=False)) == [10, 11, 12, 13]
    assert len(read(cluster, numbers, count=100)) == 30


def test_late_records_are_not_of_a_range(cluster: Cluster) -> None:
    topic = cluster.topic()
    rows = [{"value": str(time_s), "timestamp": time_s * 1000} for time_s in (10, 20, 5, 30, 40, 25)]
    cluster.run("produce", topic, "--format", "jsonl", text="\n".join(map(json.dumps, rows)))
    assert values(read(cluster, topic, times="15000:35000")) == [20, 30]
    assert values(read(cluster, topic, times="15000:")) == [20, 25, 30, 40]


ODD_HEADER = """
import sys
from kafka import KafkaProducer

class OddName(str):
    def encode(self, *_):
        return b"\\xff"

producer = KafkaProducer(bootstrap_servers=sys.argv[1])
good = [("name", b"1")]
for headers in [good] * 100 + [[*good, (OddName("x"), b"2")]]:
    last = producer.send(sys.argv[2], b"7", headers=headers)
last.get(10)
"""


def test_a_header_that_the_library_cannot_tell_ends_behind_the_records_before_it(cluster: Cluster) -> None:
    topic = cluster.topic()
    subprocess.run([sys.executable, "-c", ODD_HEADER, cluster.address, topic], check=True, timeout=60)
    selection = RecordSelection(topic=topic, to_end=True)
    reading = consume(Connection(cluster.address), selection)
    found: list[Record] = []
    with pytest.raises(KcliError, match=f"^{topic}-0 offset 100: the name of a header is not UTF-8"):
        found += (record for chunk in reading for record in chunk)
    assert [record.headers for record in found] == [[("name", b"1")]] * 100
