"""A producer with a transactional id, request by request: against kcli and against real Kafka."""

from __future__ import annotations

import time
from typing import Any

from kcli.protocol.error_code import ErrorCode
from tests.broker.running import Address, Client
from tests.log.batches import NOW_MS, batch

NONE = ErrorCode.NONE
WAIT_S = 30.0
OPEN: list[Client] = []
"""Connections of a test, which a fixture closes."""


class Transactional:
    """A producer with a transactional id. modern: it speaks transaction version 2 (KIP-890). timestamp_ms: that of its
    records."""

    def __init__(
        self,
        address: Address,
        name: str,
        *,
        modern: bool = True,
        timeout_ms: int = 60_000,
        timestamp_ms: int = NOW_MS,
    ) -> None:
        self.client, self.name, self.modern, self.timeout_ms = Client(address), name, modern, timeout_ms
        self.timestamp_ms = timestamp_ms
        OPEN.append(self.client)
        self.id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        find_coordinator(self.client, 1, name)

    def init(self, wait_s: float = WAIT_S) -> ErrorCode:
        """Send InitProducerId, again while the coordinator is not ready, at most for `wait_s` seconds."""
        answer = until_ready(
            lambda: self.client.call(
                "init_producer_id",
                5 if self.modern else 4,
                transactional_id=self.name,
                transaction_timeout=self.timeout_ms,
                producer_id=self.id,
                producer_epoch=self.epoch,
            ),
            wait_s,
        )
        self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        self.sequences.clear()
        return ErrorCode(answer["error_code"])

    def add(self, topic: str, number: int = 0) -> ErrorCode:
        """AddPartitionsToTxn, as clients send it."""
        answer = self.client.call(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[{"name": topic, "partitions": [number]}],
        )
        ((found,),) = (each["results_by_partition"] for each in answer["results_by_topic_v3_and_below"])
        return ErrorCode(found["partition_error_code"])

    def send(self, topic: str, *values: bytes, number: int = 0, version: int | None = None) -> ErrorCode:
        """Produce."""
        sequence = self.sequences.get((topic, number), 0)
        data = batch(
            *values,
            producer=(self.id, self.epoch),
            sequence=sequence,
            transactional=True,
            timestamp_ms=self.timestamp_ms,
        )
        found = produce(self.client, version or (12 if self.modern else 9), self.name, topic, number, data)
        if found["error_code"] == NONE:
            self.sequences[topic, number] = sequence + len(values)
        return ErrorCode(found["error_code"])

    def end(self, *, commit: bool = True) -> ErrorCode:
        """EndTxn."""
        answer = self.client.call(
            "end_txn",
            5 if self.modern else 4,
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        if self.modern and answer["error_code"] == NONE:
            self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]
            self.sequences.clear()
        return ErrorCode(answer["error_code"])


def until_ready(ask: Any, wait_s: float = WAIT_S) -> dict[str, Any]:
    """Repeat a request until the coordinator is loaded and has finished the former transaction; return its response."""
    passing = (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
    deadline = time.monotonic() + wait_s
    while True:
        answer: dict[str, Any] = ask()
        if answer["error_code"] not in passing or time.monotonic() > deadline:
            return answer
        time.sleep(0.02)


def find_coordinator(client: Client, key_type: int, key: str) -> None:
    """Have the coordinator's topic made."""
    until_ready(
        lambda: client.call("find_coordinator", 6, key_type=key_type, coordinator_keys=[key])["coordinators"][0]
    )


def produce(
    client: Client, version: int, transactional_id: str | None, topic: str, number: int, data: bytes | bytearray
) -> dict[str, Any]:
    answer = client.call(
        "produce",
        version,
        transactional_id=transactional_id,
        acks=-1,
        timeout=1000,
        topic_data=[{"name": topic, "partition_data": [{"index": number, "records": bytes(data)}]}],
    )
    found: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
    return found
