"""A broker continues the transactions of a log directory that Kafka wrote: complete ones stay as they are; open ones
hold back the last stable offset until they time out."""

from __future__ import annotations

import json
import shutil
import time
from base64 import b64decode
from collections import defaultdict
from pathlib import Path

import pytest

from tests.broker.api.test_transactions import committed
from tests.broker.running import RunningNode, running_node
from tests.broker.transactional import NONE, OPEN, WAIT_S, Transactional, find_coordinator, until_ready
from tests.conftest import GOLDEN, read_jsonl

HOUR_MS = "3600000"
COLUMNS = (
    "transactional_id",
    "producer_id",
    "producer_epoch",
    "transaction_state",
    "transaction_timeout",
    "transaction_start_time",
)
OPEN_FOR_LONG = ("hang-1", "hang-2")
Values = dict[tuple[str, int], list[bytes]]


def described_by_kafka(path: Path) -> dict[str, list[str]]:
    """Return what kafka-transactions prints of a transactional id, without the duration of its transaction."""
    _, line = path.read_text().splitlines()
    _, *cells = (cell.strip() for cell in line.split("\t"))
    return {cells[0]: [*cells[:6], ",".join(sorted(cells[7].split(",")))]}


def described(node: RunningNode, name: str) -> list[str]:
    with node.client() as client:
        find_coordinator(client, 1, name)
        found = until_ready(
            lambda: client.call("describe_transactions", 0, transactional_ids=[name])["transaction_states"][0]
        )
    topics = [f"{each['topic']}-{number}" for each in found["topics"] for number in each["partitions"]]
    return [*(str(found[column]) for column in COLUMNS), ",".join(sorted(topics))]


def offsets(node: RunningNode, topic: str, number: int) -> tuple[int, int]:
    """The last stable offset, and the end."""
    found = []
    for isolation in (1, 0):
        asked = [{"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}]
        topics = [{"name": topic, "partitions": asked}]
        with node.client() as client:
            answer = client.call("list_offsets", 7, replica_id=-1, isolation_level=isolation, topics=topics)
        found.append(answer["topics"][0]["partitions"][0]["offset"])
    return found[0], found[1]


def values(directory: Path, topic: str) -> Values:
    """Return the values that Kafka's consumer read with read_committed."""
    found: Values = defaultdict(list)
    for each in read_jsonl(directory / f"{topic}.read_committed.jsonl.gz"):
        found[topic, each["partition"]].append(b64decode(each["value"] or ""))
    return found


def all_values(directory: Path) -> Values:
    """Return the committed values after the last open transaction is aborted."""
    found: dict[tuple[str, int], list[tuple[int, bytes]]] = defaultdict(list)
    for each in read_jsonl(directory / "produced.jsonl.gz"):
        if each["outcome"] in ("commit", "not transactional"):
            found[each["topic"], each["partition"]].append((each["offset"], b64decode(each["value"] or "")))
    return {place: [value for _, value in sorted(records)] for place, records in found.items()}


@pytest.mark.parametrize("name", ["data", "data-tv0"])
def test_transactions_go_on(tmp_path: Path, name: str) -> None:
    expected = GOLDEN / "txn/expected" / name
    directory = shutil.copytree(GOLDEN / "txn" / name, tmp_path / "data")
    told = {
        each: cells
        for path in expected.glob("transactions-describe-*")
        for each, cells in described_by_kafka(path).items()
    }
    ends = json.loads((expected / "offsets.json").read_text())
    places = [(topic, number) for topic, found in ends.items() for number in range(len(found["log_start"]))]
    slow = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": HOUR_MS}
    with running_node(directory, None, **slow) as node:
        assert {each: described(node, each) for each in told} == told
        for topic, number in places:
            kafkas = ends[topic]["last_stable_offset"][number], ends[topic]["high_watermark"][number]
            assert offsets(node, topic, number) == kafkas, (topic, number)
            assert committed(node, topic, number) == values(expected, topic)[topic, number]

    quick = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "100"}
    with running_node(directory, None, **quick) as node:
        deadline = time.monotonic() + WAIT_S
        while {described(node, each)[3] for each in OPEN_FOR_LONG} != {"CompleteAbort"}:
            assert time.monotonic() < deadline, "they have timed out"
            time.sleep(0.05)
        done = all_values(expected)
        for topic, number in places:
            stable, end = offsets(node, topic, number)
            assert stable == end, (topic, number)
            assert committed(node, topic, number) == done.get((topic, number), [])
        assert {each: described(node, each) for each in told if each not in OPEN_FOR_LONG} == {
            each: cells for each, cells in told.items() if each not in OPEN_FOR_LONG
        }
        goes_on(node, "hang-1", int(told["hang-1"][1]), modern=name == "data")


def goes_on(node: RunningNode, name: str, producer_id: int, *, modern: bool) -> None:
    """The former producer is fenced; a new one continues with the transactional id, the producer id and a later
    epoch."""
    try:
        producer = Transactional(node.address, name, modern=modern)
        producer.id, producer.epoch, producer.sequences = producer_id, 0, {("t-hang", 0): 3}
        assert producer.send("t-hang", b"late") != NONE
        assert producer.end() != NONE
        producer.id = producer.epoch = -1
        assert producer.init() == NONE
        assert (producer.id, producer.epoch > 1) == (producer_id, True)
        if not modern:
            assert producer.add("t-hang") == NONE
        assert producer.send("t-hang", b"new") == NONE
        assert producer.end() == NONE
        deadline = time.monotonic() + WAIT_S
        while committed(node, "t-hang")[-1] != b"new":
            assert time.monotonic() < deadline, "it is committed"
            time.sleep(0.05)
    finally:
        while OPEN:
            OPEN.pop().socket.close()
