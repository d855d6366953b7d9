"""A transaction coordinator without a broker: the records and markers of its machine are written, and the test moves
its clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcli.coordinator.machine import Outcome, Pair
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.machine import TransactionMachine
from kcli.txn.requests import (
    NEEDS_PRODUCER_ID,
    AbortTimedOut,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    Producer,
    WriteMarkers,
)
from kcli.txn.transaction import State, Transaction
from kcli.txn.turn import TransactionConfig

NOW_MS = 1_700_000_000_000
ID = "orders"
PLACE: TopicPartition = TopicPartition("t", 0)


class Driver:
    """A running transaction machine. log: all records; markers: those to be written, which wait while `holds` is
    set."""

    def __init__(self, version: int = 2, config: TransactionConfig | None = None) -> None:
        self.version = version
        self.config = config or TransactionConfig(max_timeout_ms=60_000)
        self.now_ms = NOW_MS
        self.log: list[Pair] = []
        self.markers: list[WriteMarkers] = []
        self.holds = False
        self.producer_ids = iter(range(1000, 2000))
        self.start()

    def start(self) -> None:
        """A new machine, from the log."""
        self.machine = TransactionMachine(self.config, lambda: self.version)
        for offset, record in enumerate(self.log):
            self.machine.replay(record, offset, -1, -1)
        self._do(self.machine.loaded(self.now_ms))

    def ask(self, request: Any) -> Any:
        """Return the answer; give the machine a producer id where it asks for one."""
        answer = self._handle(request)
        if answer is NEEDS_PRODUCER_ID:
            answer = self._handle(replace(request, new_producer_id=next(self.producer_ids)))
        return answer

    def _handle(self, request: Any) -> Any:
        outcome = self.machine.handle(1, request, self.now_ms)
        ((token, answer),) = outcome.answers
        assert token == 1
        self._do(outcome)
        return answer

    def pass_ms(self, delay_ms: int) -> None:
        """Let time pass, with a tick at each deadline."""
        until_ms = self.now_ms + delay_ms
        while (deadline_ms := self.machine.deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._do(self.machine.tick(self.now_ms))
        self.now_ms = until_ms

    def _do(self, outcome: Outcome) -> None:
        for each in outcome.batches:
            assert each.producer_id == -1
            for record in each.records:
                self.machine.replay(record, len(self.log), -1, -1)
                self.log.append(record)
        for message in outcome.messages:
            if isinstance(message, AbortTimedOut):
                self.ask(replace(message, new_producer_id=next(self.producer_ids)))
            else:
                self.markers.append(message)
                if not self.holds:
                    self.write_markers(message)

    def write_markers(self, message: WriteMarkers) -> None:
        """They are in the logs."""
        self.ask(MarkersWritten(message.transactional_id, message.producer_id, message.producer_epoch))

    @property
    def transaction(self) -> Transaction:
        """The one transactional id of most tests."""
        return self.machine.transactions[ID]

    @property
    def state(self) -> State:
        """Its state."""
        return self.transaction.state

    # the producer's requests

    def init(self, producer_id: int = -1, producer_epoch: int = -1, timeout_ms: int = 60_000) -> Producer:
        """InitProducerId."""
        answer: Producer = self.ask(InitProducerId(ID, timeout_ms, producer_id, producer_epoch))
        return answer

    def add(self, producer: Producer, *places: TopicPartition) -> Any:
        """Send AddPartitionsToTxn as clients of the cluster's version do."""
        version = 2 if self.version >= 2 else 0
        places = places or (PLACE,)
        return self.ask(AddPartitions(ID, producer.producer_id, producer.producer_epoch, frozenset(places), version))

    def end(self, producer: Producer, *, commit: bool = True) -> Producer:
        """Send EndTxn as clients of the cluster's version do."""
        version = 2 if self.version >= 2 else 0
        answer: Producer = self.ask(EndTransaction(ID, producer.producer_id, producer.producer_epoch, commit, version))
        return answer
