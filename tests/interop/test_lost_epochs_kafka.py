"""A transactional producer whose last epochs __transaction_state has lost: real Kafka refuses what it sends, as `kcli
recover` says beforehand, and with the copy that salvage writes the producer goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kcli.protocol.error_code import ErrorCode
from tests.broker.running import Client
from tests.broker.transactional import NONE, OPEN, WAIT_S, Transactional
from tests.cli.run import kcli
from tests.damage import frames
from tests.interop.kit import kafka

NODE = f"kcli-lost-epochs-{os.getpid()}"
OPTIONS = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
TRANSACTIONS = 20
LOST_BYTES = 4096
MARKERS_S = 5.0
"""The time in which Kafka would write the markers."""


@contextmanager
def broker(*arguments: str) -> Iterator[tuple[str, int]]:
    """The address of a broker, which is killed at the end."""
    try:
        host, _, port = kafka(*arguments).strip().rpartition(":")
        yield host, int(port)
    finally:
        while OPEN:
            OPEN.pop().socket.close()
        if re.search(rf"^{NODE} .* running", kafka("ls"), re.MULTILINE):
            kafka("kill", NODE)


def transact(producer: Transactional) -> list[ErrorCode]:
    """Send a record and commit; the send again while the markers of the transaction before are written."""
    deadline = time.monotonic() + WAIT_S
    while (sent := producer.send("pay", b"x")) == ErrorCode.CONCURRENT_TRANSACTIONS and time.monotonic() < deadline:
        time.sleep(0.02)
    return [sent, producer.end()]


def cut(crashed: Path, log: Path, error: ErrorCode) -> dict[str, Any]:
    """Cut the coordinator's log by some KB, behind a record with which the producer gets an error. Returns the row that
    recover then has of the producer."""
    starts = [at for at, _ in frames(log.read_bytes()) if at < log.stat().st_size - LOST_BYTES]
    for at in reversed(starts):
        os.truncate(log, at)
        told = map(json.loads, kcli("recover", "--format", "jsonl", crashed).stdout.splitlines())
        row: dict[str, Any] = next(each for each in told if each["kind"] == "transaction-state-end")
        if row["error"] == error.name:
            return row
    raise AssertionError(f"no end of the log leads to {error.name}")


@pytest.mark.kafka
def test_a_producer_goes_on_with_a_salvaged_copy(kafka_jars: Path, tmp_path: Path) -> None:
    try:
        with broker("start", NODE, *OPTIONS) as address:
            client = Client(address)
            OPEN.append(client)
            client.create_topic("pay", 1)
            producer = Transactional(address, "tx-pay", timestamp_ms=time.time_ns() // 1_000_000)
            assert producer.init() == NONE
            for _ in range(TRANSACTIONS):
                assert transact(producer) == [NONE, NONE]
        crashed = tmp_path / "crashed"
        shutil.copytree(kafka("dir", NODE).strip(), crashed)
        kafka("rm", NODE)
        (log,) = (crashed / "__transaction_state-0").glob("*.log")
        for error in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CONCURRENT_TRANSACTIONS):
            torn = tmp_path / error.name
            shutil.copytree(crashed, torn)
            row = cut(torn, torn / log.relative_to(crashed), error)
            assert (row["transactional_id"], row["producer_id"]) == ("tx-pay", producer.id)
            assert row["producer_epoch"] == producer.epoch
            with broker("open", str(torn), NODE) as address:
                refused = Transactional(address, "tx-pay", timestamp_ms=time.time_ns() // 1_000_000)
                answered = refused.init(MARKERS_S)
                if answered != NONE:
                    assert answered == error == ErrorCode.CONCURRENT_TRANSACTIONS
                else:  # of a prepared transaction, too, if Kafka has skipped the marker
                    assert (refused.id, refused.epoch) == (producer.id, row["coordinator_epoch"] + 1)
                    assert refused.send("pay", b"y") == ErrorCode.INVALID_PRODUCER_EPOCH
            kafka("rm", NODE)
            copy = tmp_path / f"{error.name} mended"
            assert kcli("recover", "--salvage", "--out", copy, torn).status == 0
            with broker("open", str(copy), NODE) as address:
                again = Transactional(address, "tx-pay", timestamp_ms=time.time_ns() // 1_000_000)
                assert again.init() == NONE
                assert (again.id, again.epoch) == (producer.id, producer.epoch + 1)
                assert transact(again) == [NONE, NONE]
            kafka("rm", NODE)
    finally:
        kafka("rm", NODE)
