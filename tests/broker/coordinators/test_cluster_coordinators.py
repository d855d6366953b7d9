"""Coordinators of a cluster: every broker finds them, and groups and transactions survive the kill of a broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kcli.protocol.error_code import ErrorCode
from tests.broker.api.test_transaction_clients import read
from tests.broker.cluster import Cluster, running_cluster, wait_for
from tests.cli.run import kcli

GROUP, TRANSACTION = 0, 1
TOPICS = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
PARTITIONS = 4
WAIT_S = 40.0
Config = dict[str, str | int | float | bool | None]
CLIENT: Config = {
    "log_level": 0,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 500,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its nodes are processes."""
    directory = tmp_path_factory.mktemp("processes")
    with running_cluster(
        directory, processes=True, group_initial_rebalance_delay_ms="0", group_min_session_timeout_ms="500"
    ) as running:
        yield running
        for node_id in list(running.nodes):
            running.kill(node_id)


@pytest.fixture
def processes(started: Cluster) -> Cluster:
    """A cluster whose nodes can be killed; all of them run again before the next test."""
    killed = [each for each in started.ids if each not in started.nodes]
    if killed:
        started.start(*killed)
    return started


def create(cluster: Cluster, name: str, partitions: int) -> None:
    """Create a topic with three replicas and min.insync.replicas=2, and wait until all brokers know it."""
    configs = [{"name": "min.insync.replicas", "value": "2"}]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 3, "assignments": (), "configs": configs}
    with cluster.client(1) as client:
        answer = client.call("create_topics", 7, topics=(topic,), timeout=10_000)
    assert answer["topics"][0]["error_code"] == 0, answer
    wait_for(lambda: all(is_known(cluster, each, name) for each in cluster.nodes), f"{name} on all brokers")


def is_known(cluster: Cluster, node_id: int, topic: str) -> bool:
    with cluster.client(node_id) as client:
        (known,) = client.call("metadata", 12, topics=[{"name": topic, "topic_id": None}])["topics"]
    return known["error_code"] == 0 and all(each["error_code"] == 0 for each in known["partitions"])


def find(cluster: Cluster, node_id: int, key_type: int, key: str) -> tuple[int, int]:
    """Error and node, as a broker says."""
    with cluster.client(node_id) as client:
        (found,) = client.call("find_coordinator", 4, key_type=key_type, coordinator_keys=(key,))["coordinators"]
    return found["error_code"], found["node_id"]


def coordinator(cluster: Cluster, key_type: int, key: str) -> int:
    """Wait until all running brokers name the same coordinator and it has loaded; return its id."""
    found: set[tuple[int, int]] = set()

    def is_there() -> bool:
        nonlocal found
        found = {find(cluster, each, key_type, key) for each in cluster.nodes}
        ((code, node_id), *others) = found
        return not (others or code) and node_id in cluster.nodes and is_loaded(cluster, node_id, key_type, key)

    wait_for(is_there, f"one coordinator of {key}")
    ((_, node_id),) = found
    return node_id


def is_loaded(cluster: Cluster, node_id: int, key_type: int, key: str) -> bool:
    """Does it answer for that key?"""
    with cluster.client(node_id) as client:
        if key_type == GROUP:
            (found,) = client.call("describe_groups", 5, groups=(key,))["groups"]
        else:
            (found,) = client.call("describe_transactions", 0, transactional_ids=(key,))["transaction_states"]
    return found["error_code"] not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def replicas(cluster: Cluster, topic: str) -> list[int]:
    """How many each partition has."""
    with cluster.client(1) as client:
        (known,) = client.call("metadata", 12, topics=[{"name": topic, "topic_id": None}])["topics"]
    return [len(each["replica_nodes"]) for each in known["partitions"]]


def test_any_broker_knows_the_coordinator(cluster: Cluster) -> None:
    for key_type, key in ((GROUP, "g"), (TRANSACTION, "t")):
        assert find(cluster, 1, key_type, key)[0] in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = coordinator(cluster, key_type, key)
        assert replicas(cluster, TOPICS[key_type]) == [3] * PARTITIONS
        other = next(each for each in cluster.nodes if each != leader)
        with cluster.client(other) as client:
            if key_type == GROUP:
                (group,) = client.call("describe_groups", 5, groups=(key,))["groups"]
                assert group["error_code"] == ErrorCode.NOT_COORDINATOR
            else:
                asked = {
                    "transactional_id": key,
                    "transaction_timeout": 60_000,
                    "producer_id": -1,
                    "producer_epoch": -1,
                }
                assert client.call("init_producer_id", 4, **asked)["error_code"] == ErrorCode.NOT_COORDINATOR


def test_producer_ids_of_all_brokers(cluster: Cluster) -> None:
    """Brokers allocate producer ids from blocks that the active controller gives them."""
    found = []
    for node_id in cluster.nodes:
        with cluster.client(node_id) as client:
            asked = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
            answer = client.call("init_producer_id", 4, **asked)
            assert answer["error_code"] == 0
            found.append(answer["producer_id"])
    assert sorted(found) == [0, 1000, 2000]


def rows(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    """Return the rows that a kcli command prints; without rows it says so on stderr."""
    environment = os.environ | {"KCLI_BOOTSTRAP_SERVER": cluster.bootstrap}
    ended = kcli(*arguments, "--format", "jsonl", env=environment)
    said = "" if ended.stdout else "kcli: no transactional id matches\n"
    assert (ended.status, ended.stderr) == (0, said)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_commands_ask_every_coordinator(cluster: Cluster) -> None:
    """Groups and transactions are spread over the brokers, so commands must ask all coordinators."""
    create(cluster, "spread", 6)
    producers = {f"spread-{number}": transactional(cluster, f"spread-{number}") for number in range(6)}
    for partition, producer in enumerate(producers.values()):
        retried(lambda producer=producer: producer.init_transactions(WAIT_S))  # type: ignore[misc]
        producer.begin_transaction()
        producer.produce("spread", b"v", partition=partition)
        assert producer.flush(WAIT_S) == 0
        group = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"group-{partition}", **CLIENT})
        done = [TopicPartition("spread", partition, 1)]
        retried(lambda group=group, done=done: group.commit(offsets=done, asynchronous=False))  # type: ignore[misc]
        group.close()
    assert len({coordinator(cluster, TRANSACTION, name) for name in producers}) > 1
    ongoing = rows(cluster, "transactions", "list", "--state", "Ongoing")
    assert [each["transactional_id"] for each in ongoing] == sorted(producers)
    described = rows(cluster, "transactions", "describe", *producers)
    assert [each["state"] for each in described] == ["Ongoing"] * 6
    groups = [f"group-{number}" for number in range(6)]
    assert {each["group"] for each in rows(cluster, "groups", "list")} >= set(groups)
    offsets = [each["offsets"] for each in rows(cluster, "groups", "describe", *groups)]
    assert [(each["partition"], each["committed_offset"]) for (each,) in offsets] == [
        (number, 1) for number in range(6)
    ]
    for producer in producers.values():
        retried(lambda producer=producer: producer.commit_transaction(WAIT_S))  # type: ignore[misc]
    assert read(cluster.bootstrap, "spread", 6) == [["v"]] * 6
    assert rows(cluster, "transactions", "list", "--state", "Ongoing") == []


class Consuming:
    """A group's member on a thread of its own, which commits every record that it has read."""

    def __init__(self, cluster: Cluster, group: str, topic: str, protocol: str) -> None:
        config: Config = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": protocol}
        config |= {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        if protocol == "classic":
            config |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        self._consumer = Consumer({**config, **CLIENT})
        self._consumer.subscribe([topic])
        self.read: list[bytes] = []
        self.committed = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over:
            message = self._consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            self.read.append(message.value() or b"")
            with suppress(KafkaException):
                self._consumer.commit(message=message, asynchronous=False)
                self.committed = len(self.read)

    def stop(self) -> None:
        self._is_over = True
        self._thread.join()
        self._consumer.close()


def produce(cluster: Cluster, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **CLIENT})
    for value in values:
        producer.produce(topic, str(value).encode())
    assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_outlives_its_coordinator(processes: Cluster, protocol: str) -> None:
    group, topic = f"{protocol}-group", f"{protocol}-in"
    create(processes, topic, 1)
    member = Consuming(processes, group, topic, protocol)
    try:
        produce(processes, topic, range(100))
        wait_for(lambda: member.committed == 100, "100 committed", WAIT_S)
        killed = coordinator(processes, GROUP, group)
        processes.kill(killed)
        produce(processes, topic, range(100, 200))
        wait_for(lambda: member.committed == len(member.read) >= 200, "200 committed", WAIT_S)
        assert sorted(map(int, set(member.read))) == list(range(200))
        assert coordinator(processes, GROUP, group) != killed
        group_offset = Consumer({"bootstrap.servers": processes.bootstrap, "group.id": group, **CLIENT})
        (found,) = group_offset.committed([TopicPartition(topic, 0)], timeout=WAIT_S)
        group_offset.close()
        assert found.offset == 200
    finally:
        member.stop()


def transactional(cluster: Cluster, name: str) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, **CLIENT})


def test_a_transaction_outlives_its_coordinator(processes: Cluster) -> None:
    """A transaction that began under one coordinator is committed under the next. Records of an aborted one are not
    visible."""
    create(processes, "transactions", 3)
    producer = transactional(processes, "t")
    producer.init_transactions(WAIT_S)
    for number in range(3):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("transactions", f"{number}".encode(), partition=partition)
        producer.flush(WAIT_S)
        if number == 1:
            processes.kill(coordinator(processes, TRANSACTION, "t"))
        if number == 2:
            retried(lambda: producer.abort_transaction(WAIT_S))
        else:
            retried(lambda: producer.commit_transaction(WAIT_S))
    assert read(processes.bootstrap, "transactions", 3) == [["0", "1"]] * 3


def retried(call: Callable[[], object]) -> None:
    """Repeat a call of librdkafka while its error is retriable."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


INPUTS = 300
STUCK_S = 8.0
PROGRAM = "tests.interop.clients.python.exactly_once"


def test_exactly_once_over_the_kill_of_a_broker(processes: Cluster) -> None:
    """Consume, transform and produce, with offsets in the transaction, while a broker is killed and started again."""
    create(processes, "input", 3)
    create(processes, "output", 3)
    loop = Loop(processes)
    try:
        produce(processes, "input", range(INPUTS // 3))
        loop.run_until(INPUTS // 3)
        killed = coordinator(processes, GROUP, "loop")
        produce(processes, "input", range(INPUTS // 3, 2 * INPUTS // 3))
        processes.kill(killed)
        loop.run_until(2 * INPUTS // 3)
        produce(processes, "input", range(2 * INPUTS // 3, INPUTS))
        processes.start(killed)
        loop.run_until(INPUTS)
    finally:
        loop.end()
    found = [int(value) for values in read(processes.bootstrap, "output", 3) for value in values]
    assert sorted(found) == list(range(INPUTS))


class Loop:
    """A consume-process-produce loop on kafka-python as a child process, which is killed and restarted when it makes no
    progress.

    Both Python clients may wait for ever for a dead broker. kafka-python's sender spins. librdkafka, from 2.10 on,
    drops a broker that has left the metadata, and with it the pending FindCoordinator; send_offsets_to_transaction then
    waits, whatever its timeout, until another connection ends.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._errors = cluster.directory / "loop.log"
        self._watcher = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "loop", **CLIENT})
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._errors.open("a") as errors:
            command = [sys.executable, "-m", PROGRAM, self._cluster.bootstrap]
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)

    def run_until(self, count: int) -> None:
        """Until so many are through."""
        deadline = time.monotonic() + 3 * WAIT_S
        last, moved_s = -1, time.monotonic()
        while (done := self._done()) < count:
            now_s = time.monotonic()
            assert now_s < deadline, f"{done} of {count}: {self._errors.read_text()[-3000:]}"
            if done != last:
                last, moved_s = done, now_s
            elif now_s > moved_s + STUCK_S or self._process.poll() is not None:
                self._kill()
                self._process, moved_s = self._start(), now_s
            time.sleep(0.1)

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _done(self) -> int:
        places = [TopicPartition("input", number) for number in range(3)]
        try:
            return sum(max(each.offset, 0) for each in self._watcher.committed(places, timeout=5))
        except KafkaException:
            return 0

    def end(self) -> None:
        self._kill()
        self._watcher.close()
