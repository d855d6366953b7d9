"""Transactions over the wire: responses, what read_committed consumers see, and the state after a crash."""

from __future__ import annotations

import json
import struct
import time
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from formats.record_batch import CONTROL, TRANSACTIONAL, parse_batch
from kcli.broker.coordinators.local_markers import Marker
from kcli.broker.wire.apis import APIS
from kcli.java.hashing import partition_of
from kcli.log.live.partition_log import PartitionLog
from kcli.protocol.error_code import ErrorCode
from tests.broker.api.test_produce_fetch import create
from tests.broker.cluster import wait_for
from tests.broker.metadata_dirs import golden_copy
from tests.broker.running import Client, RunningNode, running_node
from tests.broker.transactional import NONE, OPEN, WAIT_S, Transactional, find_coordinator, produce, until_ready
from tests.conftest import GOLDEN, truth
from tests.log.batches import batch

INIT = APIS[22]
OPTIONS = {
    "auto_create_topics_enable": "false",
    "transaction_state_log_num_partitions": "2",
    "offsets_topic_num_partitions": "2",
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "100",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("data"), None, **OPTIONS) as running:
        yield running


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Connections end with the test."""
    yield
    while OPEN:
        OPEN.pop().socket.close()


def committed(node: RunningNode, topic: str, number: int = 0) -> list[bytes]:
    """Return the values that a read_committed consumer sees: the log without the aborted transactions that Fetch
    lists."""
    data, offset = b"", 0
    aborted: set[tuple[int, int]] = set()
    with node.client() as client:
        while True:
            found = fetched(client, topic, number, offset)
            more = as_bytes(found["records"])
            if not more:
                return list(visible(data, aborted))
            aborted |= {(each["producer_id"], each["first_offset"]) for each in found["aborted_transactions"] or ()}
            data += more
            while more:
                offset = int.from_bytes(more[:8]) + int.from_bytes(more[23:27]) + 1
                more = more[12 + int.from_bytes(more[8:12]) :]


def fetched(client: Client, topic: str, number: int, offset: int) -> dict[str, Any]:
    partition = {
        "partition": number,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    answer = client.call(
        "fetch",
        12,
        max_wait=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    found: dict[str, Any] = answer["responses"][0]["partitions"][0]
    return found


def as_bytes(value: Any) -> bytes:
    return b64decode(value) if isinstance(value, str) else bytes(value or b"")


def visible(data: bytes, aborted: set[tuple[int, int]]) -> Iterator[bytes]:
    """Skip aborted transactions as consumers do: each ends with its marker."""
    while data:
        read = parse_batch(data)
        header = read.header
        dead = {(each, first) for each, first in aborted if each == header.producer_id and first <= header.base_offset}
        if header.attributes & CONTROL:
            aborted = aborted - dead
        elif not (header.attributes & TRANSACTIONAL and dead):
            yield from (record.value or b"" for record in read.records)
        data = data[12 + int.from_bytes(data[8:12]) :]


@pytest.mark.parametrize("modern", [True, False])
def test_only_what_is_committed_is_seen(node: RunningNode, modern: bool) -> None:
    topic = f"seen-{modern}"
    create(node, topic, 2)
    producer = Transactional(node.address, f"seen-{modern}", modern=modern)
    assert producer.init() == NONE
    for round_, commit in enumerate((True, False, True)):
        for number in (0, 1):
            if not modern:
                assert producer.add(topic, number) == NONE
            assert producer.send(topic, b"%d" % round_, number=number) == NONE
            assert producer.send(topic, b"more", number=number) == NONE
        assert committed(node, topic) == ([] if round_ == 0 else [b"0", b"more"])
        assert producer.end(commit=commit) == NONE
    for number in (0, 1):
        assert committed(node, topic, number) == [b"0", b"more", b"2", b"more"]


def test_old_clients_must_name_partitions_first(node: RunningNode) -> None:
    create(node, "named", 2)
    producer = Transactional(node.address, "named", modern=False)
    producer.init()
    assert producer.send("named", b"a") == ErrorCode.INVALID_TXN_STATE
    assert producer.send("named", b"a", version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.add("named", 0) == NONE
    assert producer.send("named", b"a") == NONE
    assert producer.send("named", b"a", number=1) == ErrorCode.INVALID_TXN_STATE
    assert producer.end() == NONE
    assert committed(node, "named") == [b"a"]


def test_a_partition_that_is_not_there_spoils_the_others(node: RunningNode) -> None:
    create(node, "there")
    producer = Transactional(node.address, "there", modern=False)
    producer.init()
    answer = producer.client.call(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id="there",
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[{"name": "there", "partitions": [0, 9]}],
    )
    (topic,) = answer["results_by_topic_v3_and_below"]
    assert {each["partition_index"]: each["partition_error_code"] for each in topic["results_by_partition"]} == {
        0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_brokers_add_and_verify_for_many_transactions_at_once(node: RunningNode) -> None:
    create(node, "batched", 2)
    first, second = (Transactional(node.address, name, modern=False) for name in ("batched-1", "batched-2"))
    assert (first.init(), second.init()) == (NONE, NONE)

    def ask(*each: tuple[Transactional, int, bool]) -> dict[str, int]:
        answer = first.client.call(
            "add_partitions_to_txn",
            5,
            transactions=[
                {
                    "transactional_id": producer.name,
                    "producer_id": producer.id,
                    "producer_epoch": producer.epoch,
                    "verify_only": verify,
                    "topics": [{"name": "batched", "partitions": [number]}],
                }
                for producer, number, verify in each
            ],
        )
        assert answer["error_code"] == NONE
        return {
            each["transactional_id"]: each["topic_results"][0]["results_by_partition"][0]["partition_error_code"]
            for each in answer["results_by_transaction"]
        }

    assert ask((first, 0, False), (second, 1, True)) == {"batched-1": 0, "batched-2": ErrorCode.TRANSACTION_ABORTABLE}
    assert ask((first, 0, True), (second, 1, False)) == {"batched-1": 0, "batched-2": 0}


@pytest.mark.parametrize("modern", [True, False])
def test_a_new_producer_fences_the_old_one(node: RunningNode, modern: bool) -> None:
    topic = f"fence-{modern}"
    create(node, topic)
    old, new = (Transactional(node.address, topic, modern=modern) for _ in range(2))
    old.init()
    if not modern:
        old.add(topic)
    assert old.send(topic, b"old") == NONE
    assert new.init() == NONE
    assert new.id == old.id
    assert new.epoch == old.epoch + 2
    assert old.send(topic, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.end() == ErrorCode.PRODUCER_FENCED
    if not modern:
        assert old.add(topic) == ErrorCode.PRODUCER_FENCED
        new.add(topic)
    assert new.send(topic, b"new") == NONE
    assert new.end() == NONE
    assert committed(node, topic) == [b"new"]


def test_a_transaction_that_takes_too_long_is_aborted(node: RunningNode) -> None:
    create(node, "slow")
    producer = Transactional(node.address, "slow", timeout_ms=300)
    producer.init()
    assert producer.send("slow", b"a") == NONE
    wait_for_state(node, "slow", "CompleteAbort")
    assert producer.end() == ErrorCode.INVALID_TXN_STATE
    assert committed(node, "slow") == []


def described(node: RunningNode, name: str) -> dict[str, Any]:
    with node.client() as client:
        state: dict[str, Any] = client.call("describe_transactions", 0, transactional_ids=[name])["transaction_states"][
            0
        ]
    return state


def wait_for_state(node: RunningNode, name: str, state: str) -> None:
    """Wait for the state, since the coordinator answers EndTxn before the markers are written."""
    wait_for(lambda: described(node, name)["transaction_state"] == state, f"{state} of {name}", WAIT_S)


def listed(node: RunningNode, **filters: Any) -> dict[str, Any]:
    with node.client() as client:
        request = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
        return client.call("list_transactions", 2, **request | {"transactional_id_pattern": None} | filters)


def test_transactions_are_described_and_listed(node: RunningNode) -> None:
    create(node, "shown", 2)
    producer = Transactional(node.address, "shown")
    producer.init()
    producer.client.socket.sendall(producer.client.frame("describe_transactions", 0, {"transactional_ids": ["shown"]}))
    never = struct.pack(">iq", 60_000, -1)  # kio does not read a time before 1970
    assert b"\x06Empty" + never + struct.pack(">qh", producer.id, 0) in producer.client.read_frame()
    producer.send("shown", b"a", number=1)
    open_ = described(node, "shown")
    assert (open_["transaction_state"], open_["producer_id"]) == ("Ongoing", producer.id)
    assert open_["topics"] == [{"topic": "shown", "partitions": [1]}]
    assert described(node, "nobody")["error_code"] == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    def names(**filters: Any) -> set[str]:
        answer = listed(node, **filters)
        assert answer["error_code"] == NONE
        return {each["transactional_id"] for each in answer["transaction_states"]}

    assert "shown" in names()
    assert names(producer_id_filters=[producer.id]) == {"shown"}
    assert "shown" in names(state_filters=["Ongoing"])
    assert "shown" not in names(state_filters=["Empty"])
    assert "shown" not in names(duration_filter=60_000)
    assert names(transactional_id_pattern="sh[o]wn?") == {"shown"}
    assert names(transactional_id_pattern="how") == set()
    assert listed(node, state_filters=["Odd"])["unknown_state_filters"] == ["Odd"]
    assert listed(node, transactional_id_pattern="(")["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION
    producer.end()


def test_offsets_of_a_group_are_part_of_a_transaction(node: RunningNode) -> None:
    with node.client() as client:
        find_coordinator(client, 0, "offsets-group")
    producer = Transactional(node.address, "offsets", modern=False)
    producer.init()
    asked = {"transactional_id": "offsets", "producer_id": producer.id, "group_id": "offsets-group"}
    answer = producer.client.call("add_offsets_to_txn", 4, **asked, producer_epoch=producer.epoch)
    assert answer["error_code"] == NONE
    assert described(node, "offsets")["topics"][0]["topic"] == "__consumer_offsets"
    answer = producer.client.call("add_offsets_to_txn", 4, **asked, producer_epoch=producer.epoch + 1)
    assert answer["error_code"] == ErrorCode.PRODUCER_FENCED
    answer = producer.client.call("add_offsets_to_txn", 1, **asked, producer_epoch=producer.epoch + 1)
    assert answer["error_code"] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end() == NONE
    wait_for_state(node, "offsets", "CompleteCommit")


def test_offsets_join_a_transaction_before_there_is_a_topic_for_them(tmp_path: Path) -> None:
    """A client looks up the group's coordinator, which creates __consumer_offsets, only after AddOffsetsToTxn has
    succeeded."""
    with running_node(tmp_path, None, **OPTIONS) as node:
        producer = Transactional(node.address, "first", modern=False)
        producer.init()
        asked = {"transactional_id": "first", "producer_id": producer.id, "producer_epoch": producer.epoch}
        answer = producer.client.call("add_offsets_to_txn", 3, **asked, group_id="g")
        assert answer["error_code"] == NONE
        (topic,) = described(node, "first")["topics"]
        assert topic == {"topic": "__consumer_offsets", "partitions": [partition_of("g", 2)]}
        with node.client() as client:
            find_coordinator(client, 0, "g")
        assert producer.end() == NONE
        wait_for_state(node, "first", "CompleteCommit")


# what is refused


def test_transactional_batches_need_a_transactional_id(node: RunningNode) -> None:
    create(node, "plain")
    with node.client() as client:
        data = batch(b"a", producer=(5, 0), sequence=0, transactional=True)
        found = produce(client, 12, None, "plain", 0, data)
        assert found["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert produce(client, 12, "nobody", "plain", 0, data)["error_code"] == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert produce(client, 12, "", "plain", 0, data)["error_code"] == ErrorCode.INVALID_REQUEST
        plain = batch(b"a", producer=(5, 0), sequence=0)
        assert produce(client, 12, "nobody", "plain", 0, plain)["error_code"] == NONE


def test_a_producer_that_nobody_knows_begins_at_sequence_0(node: RunningNode) -> None:
    create(node, "sequence")
    producer = Transactional(node.address, "sequence")
    producer.init()
    producer.sequences["sequence", 0] = 3
    assert producer.send("sequence", b"a") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_no_batch_takes_the_place_of_one_that_was_refused(node: RunningNode) -> None:
    create(node, "place")
    producer = Transactional(node.address, "place", modern=False)
    producer.init()
    assert producer.send("place", b"a") == ErrorCode.INVALID_TXN_STATE
    producer.add("place")
    producer.sequences["place", 0] = 1
    assert producer.send("place", b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences["place", 0] = 0
    assert producer.send("place", b"a") == NONE
    assert producer.send("place", b"b") == NONE
    assert producer.end() == NONE
    assert committed(node, "place") == [b"a", b"b"]


@pytest.mark.parametrize("version", range(INIT.least, INIT.most + 1))
def test_each_version_of_init_producer_id(node: RunningNode, version: int) -> None:
    producer = Transactional(node.address, f"init-{version}")
    request: dict[str, Any] = {"transaction_timeout": 60_000}
    request |= {"producer_id": -1, "producer_epoch": -1} if version >= 3 else {}

    def init(transactional_id: str | None, **more: Any) -> tuple[ErrorCode, int, int]:
        answer = until_ready(
            lambda: producer.client.call(
                "init_producer_id", version, **request | {"transactional_id": transactional_id} | more
            )
        )
        return ErrorCode(answer["error_code"]), answer["producer_id"], answer["producer_epoch"]

    code, producer_id, epoch = init(producer.name)
    assert (code, epoch) == (NONE, 0)
    assert init(producer.name) == (NONE, producer_id, 1)
    assert init("")[0] == ErrorCode.INVALID_REQUEST
    assert init(producer.name, transaction_timeout=10**9)[0] == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert init(None)[1] > producer_id
    if version >= 3:
        fenced = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
        assert init(producer.name, producer_id=producer_id, producer_epoch=7)[0] is fenced
        assert init(producer.name, producer_id=producer_id)[0] == ErrorCode.INVALID_REQUEST


def test_markers_of_administrators_end_what_hangs(node: RunningNode) -> None:
    create(node, "hangs")
    producer = Transactional(node.address, "hangs")
    producer.init()
    producer.send("hangs", b"a")

    def mark(epoch: int, number: int = 0) -> ErrorCode:
        answer = producer.client.call(
            "write_txn_markers",
            2,
            markers=[
                {
                    "producer_id": producer.id,
                    "producer_epoch": epoch,
                    "transaction_result": False,
                    "topics": [{"name": "hangs", "partition_indexes": [number]}],
                    "coordinator_epoch": 0,
                    "transaction_version": 0,
                }
            ],
        )
        return ErrorCode(answer["markers"][0]["topics"][0]["partitions"][0]["error_code"])

    assert mark(producer.epoch, 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mark(-1) == ErrorCode.UNKNOWN_SERVER_ERROR
    partition = node.node.broker.partitions.get("hangs", 0)
    assert partition is not None
    assert partition.log.last_stable_offset == 0
    assert mark(producer.epoch) == NONE
    assert partition.log.last_stable_offset == 2


def test_before_there_is_a_coordinator_nobody_is_one(tmp_path: Path) -> None:
    with running_node(tmp_path, None, **OPTIONS) as node:
        create(node, "t")
        assert described(node, "x")["error_code"] == ErrorCode.NOT_COORDINATOR
        assert listed(node)["transaction_states"] == []
        with node.client() as client:
            data = batch(b"a", producer=(5, 0), sequence=0, transactional=True)
            for version in (9, 12):
                found = produce(client, version, "x", "t", 0, data)
                assert found["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS
                assert found["error_message"].endswith("COORDINATOR_NOT_AVAILABLE")


# crashes


@pytest.mark.parametrize("commit", [True, False])
def test_what_was_decided_before_a_crash_is_completed(tmp_path: Path, commit: bool) -> None:
    with running_node(tmp_path, None, **OPTIONS) as node:
        create(node, "t", 2)
        producer = Transactional(node.address, "x")
        producer.init()
        for number in (0, 1):
            producer.send("t", b"a", number=number)
        partition = node.node.broker.partitions.get("t", 1)
        assert partition is not None
        partition.is_offline = True  # no marker can be written there
        assert producer.end(commit=commit) == NONE
        assert described(node, "x")["transaction_state"] == ("PrepareCommit" if commit else "PrepareAbort")
        assert producer.send("t", b"b", number=0) == ErrorCode.CONCURRENT_TRANSACTIONS
        partition.is_offline = False
    with running_node(tmp_path, None, **OPTIONS) as node:
        again = Transactional(node.address, "x")
        assert again.init() == NONE
        for number in (0, 1):
            assert committed(node, "t", number) == ([b"a"] if commit else [])


def test_markers_are_written_when_their_partition_is_back(node: RunningNode) -> None:
    create(node, "back")
    producer = Transactional(node.address, "back")
    producer.init()
    producer.send("back", b"a")
    partition = node.node.broker.partitions.get("back", 0)
    assert partition is not None
    partition.is_offline = True
    assert producer.end() == NONE
    partition.is_offline = False
    wait_for_state(node, "back", "CompleteCommit")
    assert committed(node, "back") == [b"a"]


def test_a_topic_that_is_deleted_needs_no_markers(node: RunningNode) -> None:
    create(node, "deleted")
    producer = Transactional(node.address, "deleted")
    producer.init()
    producer.send("deleted", b"a")
    producer.client.call("delete_topics", 6, topics=[{"name": "deleted", "topic_id": None}], timeout=10_000)
    assert producer.end() == NONE
    assert until_complete(node, "deleted")


def until_complete(node: RunningNode, name: str) -> bool:
    deadline = time.monotonic() + WAIT_S
    while not described(node, name)["transaction_state"].startswith("Complete"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_marker_of_version_2_is_written_again_but_fences_what_is_older(node: RunningNode) -> None:
    create(node, "again")
    producer = Transactional(node.address, "again")
    producer.init()
    producer.send("again", b"a")
    stale = Marker(producer.id, producer.epoch, commit=True, coordinator_epoch=0, transaction_version=2)
    bumped = Marker(producer.id, producer.epoch + 1, commit=True, coordinator_epoch=0, transaction_version=2)
    codes = [node.run(partial(node.node.broker.markers.write, "again", 0, each)) for each in (stale, bumped, bumped)]
    assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH, NONE, NONE]


# what Kafka has left


@pytest.mark.parametrize("data", ["data", "data-tv0"])
def test_kafkas_transactions_go_on(tmp_path: Path, data: str) -> None:
    directory = golden_copy(f"txn/{data}", tmp_path)
    expected = GOLDEN / "txn/expected" / data
    with running_node(directory, None, transaction_abort_timed_out_transaction_cleanup_interval_ms="3600000") as node:
        for topic, offsets in json.loads((expected / "offsets.json").read_text()).items():
            for number, stable in enumerate(offsets["last_stable_offset"]):
                assert log_of(node, topic, number).last_stable_offset == stable
                known = truth(f"txn/expected/{data}/{topic}.read_committed.jsonl.gz")
                values = [each["value"] for each in known if each["partition"] == number]
                assert committed(node, topic, number) == [b64decode(value or "") for value in values]
        lines = (expected / "transactions-list.txt").read_text().splitlines()[1:]
        states = {words[0]: (int(words[2]), words[3]) for words in map(str.split, lines)}
        until_ready(lambda: listed(node))
        assert states == {
            each["transactional_id"]: (each["producer_id"], each["transaction_state"])
            for each in listed(node)["transaction_states"]
        }
        still_open = [name for name, (_, state) in states.items() if state == "Ongoing"]
        assert len(still_open) == 2
        for name in still_open:
            producer = Transactional(node.address, name, modern=data == "data")
            assert producer.init() == NONE
            assert producer.id == states[name][0]
        log = log_of(node, "t-hang", 0)
        assert log.last_stable_offset == log.log_end_offset


def log_of(node: RunningNode, topic: str, number: int) -> PartitionLog:
    partition = node.node.broker.partitions.get(topic, number)
    assert partition is not None
    return partition.log
