"""Data-plane threads answer and write as the event loop does, beside it and beside each other."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.network import connection, data_plane
from kcli.broker.partition.partitions import Partition
from kcli.log.config import LogConfig
from kcli.protocol.error_code import ErrorCode
from tests.broker.running import Client, RunningNode, running_node
from tests.broker.test_plain_produce import PARTITIONS, Broker, check_both_ways, frame_of
from tests.conftest import examples
from tests.log.batches import NOW_MS, batch

TOPIC = "lent"
ROUNDS, CLIENTS = 150, 4
PATIENCE_S = 10.0
# no cleaner and no retention, since these use the real time
OPTIONS = dict.fromkeys(("log_initial_task_delay_ms", "log_retention_check_interval_ms"), "100000000") | {
    "log_cleaner_enable": "false"
}


@pytest.fixture(autouse=True, scope="module")
def _lending() -> Iterator[None]:
    """Lend each connection to one of two threads as soon as it has sent a plain request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "PLAIN_TURNS", 1)
        patch.setattr(data_plane, "processors", lambda: 4)
        yield


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(tmp_path / "data", None, **OPTIONS) as running:
        running.node.router.now_ms = lambda: NOW_MS
        yield running
        running.close_clients()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    home = tmp_path_factory.mktemp("brokers")
    with running_node(home / "lent", None, **OPTIONS) as lent, running_node(home / "long", None, **OPTIONS) as long:
        yield [Broker(lent, is_short=True), Broker(long, is_short=False)]
        for each in (lent, long):
            each.close_clients()


@examples(10, soak=1_000)
@given(st.data())
def test_a_thread_answers_and_writes_the_same(brokers: list[Broker], draw: st.DataObject) -> None:
    check_both_ways(brokers, draw, counts_wakes=False)


def states(node: RunningNode) -> list[connection.State]:
    """Return the states of all connections."""
    return node.run(lambda: [each._state for each in node.node.server.connections])


def until(reached: Callable[[], bool]) -> None:
    """Wait until it is reached."""
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, "not reached"
        time.sleep(0.005)


def partitions(node: RunningNode) -> list[Partition]:
    found = [node.node.broker.partitions.get(TOPIC, index) for index in range(PARTITIONS)]
    assert all(found), "created"
    return [each for each in found if each is not None]


def produce(client: Client, records: list[bytes], *, acks: int = -1, version: int = 9) -> bytes:
    """Return a request with one batch for each partition, the first for partition 0."""
    parts = [{"index": index, "records": each} for index, each in enumerate(records)]
    return frame_of(client, {}, version, {TOPIC: parts}, acks)


def codes(client: Client) -> list[tuple[int, int]]:
    """Return the error code and base offset of each partition in the next response."""
    answer = client.answer("produce", 9)
    return [(each["error_code"], each["base_offset"]) for each in answer["responses"][0]["partition_responses"]]


def lent_client(node: RunningNode) -> Client:
    """Return a client of a new topic, whose connection a thread has. Two batches are in partition 0: the first one, for
    which the log is opened, is not plain."""
    client = node.client()
    client.create_topic(TOPIC, PARTITIONS, {"max.message.bytes": str(8 << 20)})
    for offset in range(2):
        client.socket.sendall(produce(client, [bytes(batch(b"a"))]))
        assert codes(client) == [(0, offset)]
    until(lambda: connection.State.LENT in states(node))
    return client


class Sender(threading.Thread):
    """A client that sends batches of its own producer to all partitions, and now and then something else. acknowledged:
    partition and base offset -> the batch's first value."""

    def __init__(self, node: RunningNode, number: int) -> None:
        super().__init__(daemon=True)
        self.client = node.client()
        self.number = number
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        random = Random(self.number)
        try:
            for turn in range(ROUNDS):
                values = [b"%d-%d-%d" % (self.number, turn, index) for index in range(PARTITIONS)]
                data = [
                    bytes(
                        batch(value, value, producer=(self.number, 0), sequence=2 * turn, codec=random.choice((0, 4)))
                    )
                    for value in values
                ]
                frame = produce(self.client, data)
                cut = random.choice((0, 0, 3, 40, len(frame) - 1))
                if cut:
                    self.client.socket.sendall(frame[:cut])
                    time.sleep(0.001)
                self.client.socket.sendall(frame[cut:])
                for index, (code, offset) in enumerate(codes(self.client)):
                    assert not code, (turn, index, code)
                    self.acknowledged[index, offset] = values[index]
                if random.random() < 0.1:
                    self.client.call("metadata", 12, topics=[{"name": TOPIC, "topic_id": None}])
        except BaseException as error:  # noqa: BLE001  (the test raises it)
            self.error = error


def batches_of(partition: Partition) -> dict[int, bytes]:
    """Return base offset -> batch of a whole log, which has no gap."""
    log = partition.log
    assert log.high_watermark == log.log_end_offset
    data, offset = {}, log.log_start_offset
    while offset < log.log_end_offset:
        region = log.read(offset, 1).region
        assert region is not None
        raw = region.path.read_bytes()[region.position : region.position + region.length]
        assert int.from_bytes(raw[:8]) == offset, "no gap"
        data[offset] = raw
        offset += int.from_bytes(raw[23:27]) + 1
    return data


def test_many_clients_beside_changes_of_the_logs(node: RunningNode) -> None:
    """Every batch is acknowledged once, at the offset where the log has it."""
    node.client().create_topic(TOPIC, PARTITIONS)
    found = partitions(node)
    random = Random(7)
    configs = LogConfig({}), LogConfig({"segment.ms": "1"}), LogConfig({"index.interval.bytes": "1"})

    def change(partition: Partition, kind: str) -> None:
        log = partition.log
        if kind == "roll" and log.log_end_offset:
            log.roll(NOW_MS)
        elif kind == "config":
            log.set_config(random.choice(configs))
        elif kind == "flush":
            log.flush(NOW_MS)
        elif kind == "state":
            partition.update(partition.state)
            partition.open_lane(node.node.broker.lanes)
        elif kind == "append":
            partition.append_as_leader(batch(b"the loop's"), NOW_MS)
        elif kind == "watch":
            partition.watch(lambda: None)

    senders = [Sender(node, number) for number in range(CLIENTS)]
    for each in senders:
        each.start()
    was_lent = False
    while any(each.is_alive() for each in senders):
        node.run(partial(change, random.choice(found), random.choice(("roll", "config", "flush", "state", "append"))))
        was_lent = was_lent or connection.State.LENT in states(node)
    for each in senders:
        assert each.error is None, each.error
    assert was_lent
    acknowledged = [each for sender in senders for each in sender.acknowledged]
    assert len(set(acknowledged)) == len(acknowledged) == ROUNDS * CLIENTS * PARTITIONS
    for index, partition in enumerate(found):
        data = batches_of(partition)
        for sender in senders:
            for (number, offset), value in sender.acknowledged.items():
                assert number != index or data[offset][22] & 7 or value in data[offset]


def test_a_lent_connection_comes_back_and_goes_again(node: RunningNode) -> None:
    client = lent_client(node)
    for turn in range(3):
        client.call("metadata", 12, topics=[])
        until(lambda: states(node) == [connection.State.READING])
        client.socket.sendall(produce(client, [bytes(batch(b"a"))]))
        assert codes(client) == [(0, 2 + turn)]
        until(lambda: states(node) == [connection.State.LENT])


@pytest.mark.parametrize("cut", [0, 2, 30])
def test_a_client_that_goes_is_forgotten(node: RunningNode, cut: int) -> None:
    client = lent_client(node)
    client.socket.sendall(produce(client, [bytes(batch(b"a"))])[:cut])
    client.socket.close()
    until(lambda: not states(node))


def test_the_broker_closes_a_lent_connection(node: RunningNode) -> None:
    client = lent_client(node)
    client.socket.sendall(produce(client, [bytes(batch(b"b"))])[:50])

    def close_all() -> None:
        for each in list(node.node.server.connections):
            each.close()

    node.run(close_all)
    assert client.is_closed()
    other = node.client()
    other.socket.sendall(produce(other, [bytes(batch(b"c"))]))
    assert codes(other) == [(0, 2)]


@pytest.mark.parametrize("length", [-1, 200 << 20, 3 << 20])
def test_a_size_that_is_none_and_a_large_request(node: RunningNode, length: int) -> None:
    client = lent_client(node)
    if length == 3 << 20:
        client.socket.sendall(produce(client, [bytes(batch(bytes(length)))]))
        assert codes(client) == [(0, 2)]
        return
    client.socket.sendall((length & 0xFFFFFFFF).to_bytes(4) + bytes(100))
    assert client.is_closed()


def test_a_waiting_fetch_is_answered_when_a_thread_appends(node: RunningNode) -> None:
    client, consumer = lent_client(node), node.client()
    wanted: dict[str, Any] = {
        "partition": 0,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    for offset in range(2, 40):
        asked = [{"topic": TOPIC, "partitions": [wanted | {"fetch_offset": offset}]}]
        request = {
            "cluster_id": None,
            "replica_id": -1,
            "max_wait": 20_000,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": asked,
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        began = time.monotonic()
        consumer.socket.sendall(consumer.frame("fetch", 12, request))
        client.socket.sendall(produce(client, [bytes(batch(b"a"))]))
        assert codes(client) == [(0, offset)]
        answer = consumer.answer("fetch", 12)
        assert answer["responses"][0]["partitions"][0]["high_watermark"] == offset + 1
        assert time.monotonic() - began < 10


def test_a_failed_write_is_told_and_takes_the_directory_offline(node: RunningNode) -> None:
    client = lent_client(node)
    partition = partitions(node)[0]
    file = partition.log._segments.active.log
    unwritable = os.open(file.path, os.O_RDONLY)
    os.dup2(unwritable, file.fd)
    os.close(unwritable)
    client.socket.sendall(produce(client, [bytes(batch(b"b"))]))
    assert codes(client) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    until(lambda: partition.is_offline)
    assert node.run(node.node.ended.done)


def test_a_log_is_held_by_one_thread(node: RunningNode) -> None:
    node.client().create_topic(TOPIC, PARTITIONS)
    log = partitions(node)[0].log
    log.hold()
    log.hold()
    waited = threading.Event()

    def other() -> None:
        log.hold()
        waited.set()
        log.let_go()

    thread = threading.Thread(target=other)
    thread.start()
    log.let_go()
    assert not waited.wait(0.05)
    log.let_go()
    thread.join()
    assert waited.is_set()
    with pytest.raises(RuntimeError):
        log.let_go()
