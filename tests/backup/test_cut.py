"""Where a partition ends: markers and batches that the coordinator's records do not have are left out, no others."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kcli.backup.cut import end_of, transactions
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import tombstone, transaction_record
from kcli.txn.transaction import State, Transaction

HERE, ELSEWHERE = TopicPartition("a", 0), TopicPartition("b", 0)
ID, NOW_MS = 7, 1000


class Batch(NamedTuple):
    """A batch of a transaction, or with a time its marker."""

    base_offset: int
    producer_epoch: int = 0
    max_timestamp: int = 0
    is_control: bool = False
    is_transactional: bool = True
    producer_id: int = ID


def marker(offset: int, epoch: int = 0, at_ms: int = NOW_MS) -> Batch:
    return Batch(offset, epoch, at_ms, is_control=True)


def state(kind: State, *, epoch: int = 0, start_ms: int = 0, update_ms: int = 0, version: int = 0) -> Transaction:
    here = frozenset() if kind.is_over else frozenset({HERE})
    return Transaction(
        ID, 1, producer_epoch=epoch, state=kind, partitions=here, start_ms=start_ms, last_update_ms=update_ms,
        client_version=version,
    )  # fmt: skip


ONGOING, PREPARED, COMPLETE = State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT


@pytest.mark.parametrize(
    ("known", "batches", "end"),
    [
        pytest.param(None, [], None, id="nothing"),
        pytest.param(None, [Batch(5, is_transactional=False)], None, id="no transaction"),
        pytest.param(state(ONGOING), [Batch(5), Batch(6)], None, id="open: Kafka aborts it"),
        pytest.param(state(ONGOING, start_ms=10), [Batch(5), marker(6)], 6, id="its marker is later"),
        pytest.param(state(ONGOING, start_ms=2000), [marker(6), Batch(7)], None, id="a marker of the one before"),
        pytest.param(state(PREPARED), [Batch(5), marker(6)], None, id="decided, and the marker is here"),
        pytest.param(state(PREPARED), [Batch(5)], None, id="decided: Kafka writes the marker"),
        pytest.param(state(PREPARED), [Batch(5), marker(6), Batch(7)], 7, id="decided, and the next one is later"),
        pytest.param(state(PREPARED), [marker(6), Batch(7), marker(8)], 7, id="decided, and the next one ends later"),
        pytest.param(
            state(PREPARED, start_ms=NOW_MS), [marker(4), Batch(5), marker(6, 0, 1001)], None, id="and before"
        ),
        pytest.param(state(COMPLETE, update_ms=NOW_MS), [Batch(5), marker(6)], None, id="complete"),
        pytest.param(state(COMPLETE, update_ms=NOW_MS), [marker(6), Batch(7)], 7, id="the next one begins later"),
        pytest.param(state(COMPLETE, update_ms=500), [Batch(5), marker(6)], 5, id="the next one is all later"),
        pytest.param(None, [Batch(5), marker(6)], 5, id="a transactional id of later"),
        pytest.param(None, [Batch(5)], 5, id="a transactional id of later, open"),
        pytest.param(state(ONGOING, epoch=3), [marker(6, epoch=2)], None, id="a marker of an older epoch"),
        pytest.param(state(ONGOING, epoch=3, version=2), [Batch(5, 3), marker(6, epoch=4)], 6, id="version 2: bumped"),
        pytest.param(state(ONGOING, epoch=3, version=2), [marker(4, epoch=3), Batch(5, 3)], None, id="version 2: old"),
        pytest.param(state(COMPLETE, epoch=4, update_ms=NOW_MS), [Batch(5, 3), marker(6, 4)], None, id="2, complete"),
        pytest.param(state(COMPLETE, epoch=4, update_ms=NOW_MS), [Batch(7, 4), marker(8, 5)], 7, id="2, the next one"),
    ],
)
def test_end(known: Transaction | None, batches: list[Batch], end: int | None) -> None:
    assert end_of(HERE, batches, {} if known is None else {ID: known}) == end


def test_a_partition_that_is_added_later() -> None:
    assert end_of(ELSEWHERE, [Batch(5)], {ID: state(ONGOING)}) == 5


def test_the_last_record_of_a_transactional_id_counts() -> None:
    first, second = state(ONGOING), state(COMPLETE)
    records = [(*transaction_record("x", first, 0), 5), (*transaction_record("x", second, 0), 6), (b"\0", b"", 7)]
    assert transactions(records)[ID] == second._replace(last_update_ms=6)
    assert transactions([*records, (*tombstone("x"), 8)]) == {}
