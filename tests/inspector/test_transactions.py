"""Transactions read from files, compared with what Kafka's tool reported just before the shutdown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.inspector.transactions import TransactionFiles
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.transactions import (
    Listing,
    NoSuchTransactionalId,
    Open,
    Producer,
    Transaction,
    TransactionFilter,
    hanging,
    open_for,
)
from tests.conftest import GOLDEN

TXN = GOLDEN / "txn"
NOW_MS = 1_795_300_000_000
DIRECTORIES = ["data", "data-tv0"]
LONG_MS = 15 * 60_000


def files_of(directory: str) -> TransactionFiles:
    return TransactionFiles([TXN / directory], NOW_MS)


def told(path: Path) -> list[list[str]]:
    """Return the cells of the rows of Kafka's table."""
    return [[cell.strip() for cell in line.split("\t")[:-1]] for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_transactional_ids_are_those_of_kafka_transactions(directory: str) -> None:
    files, expected = files_of(directory), TXN / "expected" / directory
    kafkas = sorted([name, producer, state] for name, _, producer, state in told(expected / "transactions-list.txt"))
    assert [
        [each.transactional_id, str(each.producer_id), each.state] for each in files.all(TransactionFilter())
    ] == kafkas
    paths = sorted(expected.glob("transactions-describe-*.txt"))
    assert paths
    for path in paths:
        _, name, producer, epoch, state, timeout_ms, start_ms, _, places = told(path)[0]
        (found,) = files.describe([name])
        assert isinstance(found, Transaction)
        shown = (found.producer_id, found.producer_epoch, found.state, found.timeout_ms, found.start_ms)
        assert [str(each) for each in shown] == [producer, epoch, state, timeout_ms, start_ms]
        assert [f"{topic}-{n}" for topic, n in found.partitions] == sorted(filter(None, places.split(",")))
    assert files.trouble == []


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_producers_are_those_of_kafka_transactions(directory: str) -> None:
    """Expired producers, which Kafka drops, are left out."""
    files = files_of(directory)
    paths = sorted((TXN / "expected" / directory).glob("describe-producers-*.txt"))
    assert paths
    for path in paths:
        topic, _, number = path.stem.removeprefix("describe-producers-").rpartition("-")
        (found,) = files.producers([TopicPartition(topic, int(number))], None)
        assert not isinstance(found, KcliError)
        rows = [["None" if each is None else str(each) for each in producer] for producer in found[1]]
        kafkas = [[*row[:2], *("None" if cell == "-1" else cell for cell in row[2:])] for row in told(path)]
        assert [row for row in rows if row in kafkas] == kafkas, path.name
    assert files.trouble == []


def test_filters() -> None:
    def names(**wanted: object) -> list[str]:
        return [each.transactional_id for each in files_of("data").all(TransactionFilter(**wanted))]  # type: ignore[arg-type]

    assert names(states=frozenset(["Ongoing"])) == ["hang-1", "hang-2"]
    assert names(producer_ids=frozenset([3, 8])) == ["hang-1", "txn-3"]
    began = {each.transactional_id: each.start_ms for each in files_of("data").describe(["hang-1"])}["hang-1"]  # type: ignore[union-attr]
    assert began is not None
    assert "hang-1" not in names(longer_than_ms=NOW_MS - began)
    assert "hang-1" in names(longer_than_ms=NOW_MS - began - 1)


def test_what_is_not_there() -> None:
    files = files_of("data")
    assert isinstance(next(files.describe(["nobody"])), NoSuchTransactionalId)
    (found,) = files.producers([TopicPartition("t-hang", 7)], None)
    assert isinstance(found, UnreadableInput)
    with pytest.raises(UnreadableInput, match="no partition of nowhere in it"):
        files.places("nowhere", None)
    with pytest.raises(UsageError):
        files.places(None, 1)
    with pytest.raises(UnreadableInput):
        list(TransactionFiles([TXN / "data" / "t-hang-0"], NOW_MS).all(TransactionFilter()))


def test_hanging() -> None:
    """A transaction hangs if no coordinator has it, or one in another partition; not if its coordinator has it open."""
    files = files_of("data")
    cases = {
        ("t-hang", 0, 8): False,
        ("t-quiet", 0, 8): True,
        ("t-txn", 1, 9): False,
        ("t-txn", 2, 9): True,
        ("t-txn", 0, 4711): True,
        ("t-txn", 0, 1): True,
    }
    found = [Open(TopicPartition(topic, n), Producer(producer, 0, None, 0, 0, 5)) for topic, n, producer in cases]
    assert list(hanging(files, found)) == [each for each, hangs in zip(found, cases.values(), strict=True) if hangs]


def test_only_what_is_open_for_long_may_hang() -> None:
    producers = [
        Producer(1, 0, None, 0, NOW_MS - LONG_MS - 1, 5),
        Producer(2, 0, None, 0, NOW_MS - LONG_MS, 5),
        Producer(3, 0, None, 0, 0, None),
    ]
    assert [each.producer.producer_id for each in open_for(TopicPartition("t", 0), producers, LONG_MS, NOW_MS)] == [1]


def test_nobody_hangs_where_a_coordinator_does_not_tell() -> None:
    class Silent(TransactionFiles):
        def all(self, _: TransactionFilter) -> Iterator[Listing]:
            raise KcliError("broker 2: no answer")

    with pytest.raises(KcliError, match="broker 2"):
        list(hanging(Silent([TXN / "data"], NOW_MS), [Open(TopicPartition("t", 0), Producer(1, 0, None, 0, 0, 5))]))
