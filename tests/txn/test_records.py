"""Records of __transaction_state against those that Kafka wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from formats.errors import FormatError
from formats.internal_topic import decode
from formats.record_batch import parse_batch
from kcli.coordinator.machine import Pair
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.machine import TransactionMachine
from kcli.txn.records import TOPIC, parse, tombstone, transaction_record
from kcli.txn.transaction import State, Transaction
from kcli.txn.turn import TransactionConfig
from tests.conftest import GOLDEN

LOGS = sorted(GOLDEN.glob("txn/data*/__transaction_state-*/*.log"))
BATCH_HEADER_BYTES = 12


def records(path: Path) -> Iterator[Pair]:
    data = path.read_bytes()
    while data:
        batch = parse_batch(data)
        for record in batch.records:
            yield record.key, record.value
        data = data[BATCH_HEADER_BYTES + int.from_bytes(data[8:12]) :]


def in_any_order(record: Pair) -> object:
    """Sort the partitions, which Kafka writes in the order of a hash table."""
    decoded = decode(TOPIC, *record)
    if decoded.value is None:
        return decoded
    topics = decoded.value["transactionPartitions"]
    if topics is not None:
        decoded.value["transactionPartitions"] = sorted(
            (each["topic"], *sorted(each["partitionIds"])) for each in topics
        )
    return decoded


def test_kafkas_records_are_read_and_written_again_as_they_were() -> None:
    count = 0
    for path in LOGS:
        version = 0 if "data-tv0" in str(path) else 2
        for record in records(path):
            parsed = parse(record)
            assert parsed is not None
            transactional_id, transaction = parsed
            assert transaction is not None
            again = transaction_record(transactional_id, transaction, version)
            assert in_any_order(again) == in_any_order(record)
            assert len(again[1] or b"") == len(record[1] or b"")
            count += 1
    assert count > 50


def test_kafkas_log_leaves_its_transactions_as_kafka_lists_them() -> None:
    for data in ("data", "data-tv0"):
        listed = (GOLDEN / "txn/expected" / data / "transactions-list.txt").read_text().splitlines()[1:]
        expected = {line.split("\t")[0].strip(): line.split("\t")[3].strip() for line in listed}
        found: dict[str, str] = {}
        for path in LOGS:
            if path.parts[-3] == data:
                machine = TransactionMachine(TransactionConfig(), lambda: 2)
                for offset, record in enumerate(records(path)):
                    machine.replay(record, offset, -1, -1)
                found |= {key: each.state.label for key, each in machine.transactions.items()}
        assert found == expected


TRANSACTION = Transaction(
    1, 2, 3, 4, 5, -1, State.ONGOING, frozenset({TopicPartition("t", 0), TopicPartition("u", 7)}), 8, 9, 2
)


@pytest.mark.parametrize("version", [0, 2])
def test_a_record_cut_short_anywhere_is_an_error(version: int) -> None:
    key, value = transaction_record("id", TRANSACTION, version)
    assert key is not None
    assert value is not None
    for size in range(len(key)):
        with pytest.raises(FormatError):
            parse((key[:size], value))
    for size in range(len(value)):
        with pytest.raises(FormatError):
            parse((key, value[:size]))
    with pytest.raises(FormatError):
        parse((None, value))


def test_what_a_later_version_wrote_is_passed_over() -> None:
    key, value = transaction_record("id", TRANSACTION, 2)
    assert parse((b"\x00\x01" + (key or b"")[2:], value)) is None
    assert parse((key, b"\x00\x02" + (value or b"")[2:])) is None


def test_a_state_that_there_is_not_is_an_error() -> None:
    key, value = transaction_record("id", TRANSACTION, 0)
    assert value is not None
    at = 2 + 8 + 2 + 4
    assert value[at] == State.ONGOING
    with pytest.raises(FormatError):
        parse((key, value[:at] + b"\x09" + value[at + 1 :]))


def test_a_tombstone_has_no_transaction() -> None:
    assert parse(tombstone("id")) == ("id", None)
