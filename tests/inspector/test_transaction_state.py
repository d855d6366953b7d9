"""Which open transactions the coordinator ends after a start: those whose partitions take the end marker."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.inspector.transaction_state import CoordinatorCheck, _Read
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.transaction import State, Transaction
from kcli.views.transactions import Producer

ONE, TWO, OTHER = (TopicPartition("pay", 0), TopicPartition("pay", 1), TopicPartition("audit", 0))
NOW_MS = 1_000_000_000_000


def ended(state: State, epochs: Mapping[TopicPartition, int], last_ms: int = NOW_MS) -> set[str]:
    """Return the partitions in which a transaction of ONE and TWO with epoch 5 is ended. epochs: that of the producer,
    by partition."""
    transaction = Transaction(7, 60_000, producer_epoch=5, state=state, partitions=frozenset({ONE, TWO}))
    found = [(place, [Producer(7, epoch, 0, None, last_ms, None)]) for place, epoch in epochs.items()]
    files: Any = SimpleNamespace(trouble=[], state_partitions={"t": 0})
    check = CoordinatorCheck([], now_ms=NOW_MS)
    vars(check)["_read"] = _Read(files, found, {"t": transaction})
    return {partition for _, partition in check.ended()}


@pytest.mark.parametrize(
    ("state", "epochs", "partitions"),
    [
        (State.PREPARE_COMMIT, {ONE: 5, TWO: 5}, {"pay-0", "pay-1"}),
        (
            State.PREPARE_COMMIT,
            {ONE: 6, TWO: 7},
            set(),
        ),  # both refuse the marker, not that with the highest epoch alone
        (State.PREPARE_COMMIT, {ONE: 5, TWO: 5, OTHER: 9}, {"pay-0", "pay-1"}),
        (State.ONGOING, {ONE: 6, TWO: 7}, {"pay-0"}),  # the marker of an ongoing transaction has the next epoch
    ],
)
def test_partitions_that_refuse_the_marker(
    state: State, epochs: Mapping[TopicPartition, int], partitions: set[str]
) -> None:
    assert ended(state, epochs) == partitions


def test_a_partition_that_has_forgotten_the_epochs_takes_the_marker() -> None:
    assert ended(State.PREPARE_COMMIT, {ONE: 6, TWO: 7}, last_ms=0) == {"pay-0", "pay-1"}
