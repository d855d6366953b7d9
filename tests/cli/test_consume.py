"""kcli consume, against a cluster."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.cli.run import KCLI, kcli
from tests.client.clusters import WITH_TRANSACTIONS, Cluster, numbers_topic
from tests.client.groups import WAIT_S


@pytest.fixture(scope="module")
def numbers(cluster: Cluster) -> str:
    """Create a topic: partition 0 has the values 0 to 9, partition 1 has 10 to 29, one record a minute; partition 2 has
    none."""
    return numbers_topic(cluster)


def values(cluster: Cluster, topic: str, *options: str) -> list[int]:
    """The values that a command shows, sorted."""
    ended = cluster.run("consume", topic, "-f", "%s\\n", *options)
    assert (ended.stderr, ended.status) == ("", 0)
    return sorted(map(int, ended.stdout.split()))


def test_options(cluster: Cluster, numbers: str) -> None:
    assert values(cluster, numbers, "-e") == list(range(30))
    assert values(cluster, numbers, "-e", "-p", "1", "-p", "2", "-o", "end", "-o", "1:-3") == [27, 28, 29]
    assert values(cluster, numbers, "-p", "0", "-c", "2") == [0, 1]
    # a range of times with an end needs no -e
    assert values(cluster, numbers, "--time", "2023-11-14T22:15:20Z:2023-11-14T22:17:20Z") == [2, 3]


def test_faces(cluster: Cluster, numbers: str) -> None:
    options = ["-e", "-p", "1", "-o", "-1"]
    table = cluster.run("consume", numbers, *options)
    assert table.stdout == f"{numbers}-1  19  2023-11-14T22:42:20.000Z  key null  value 29\n"
    row = json.loads(cluster.run("consume", numbers, *options, "--format", "jsonl").stdout)
    assert row == {
        "topic": numbers,
        "partition": 1,
        "offset": 19,
        "timestamp": 1_700_001_740_000,
        "timestamp_type": "CreateTime",
        "key": None,
        "value": "29",
        "headers": [],
        "leader_epoch": 0,
    }


def test_the_time_of_the_log(cluster: Cluster) -> None:
    topic = cluster.topic("--config", "message.timestamp.type=LogAppendTime")
    cluster.run("produce", topic, "--format", "jsonl", text='{"value":"x","timestamp":1}')
    row = json.loads(cluster.run("consume", topic, "-e", "--format", "jsonl").stdout)
    assert row["timestamp_type"] == "LogAppendTime"
    assert abs(row["timestamp"] / 1000 - time.time()) < 60


@pytest.mark.parametrize("cluster", WITH_TRANSACTIONS, indirect=True)
def test_transactions(cluster: Cluster) -> None:
    """Aborted records are left out; reading ends behind markers, and before records of open transactions."""
    topic = cluster.topic()
    producer = Producer({"bootstrap.servers": cluster.address, "transactional.id": topic})
    producer.init_transactions()
    for value, commit in (("1", True), ("2", False), ("3", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    assert values(cluster, topic, "-e") == [1, 3]
    assert values(cluster, topic, "-e", "-o", "5") == []  # the last marker, and nothing else
    producer.begin_transaction()
    producer.produce(topic, "4")
    producer.flush()
    assert values(cluster, topic, "-e") == [1, 3]
    assert values(cluster, topic, "-e", "--isolation-level", "read_uncommitted") == [1, 2, 3, 4]
    producer.abort_transaction()
    assert values(cluster, topic, "-e") == [1, 3]


@contextmanager
def consuming(cluster: Cluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A consumer that runs."""
    environment = os.environ | {"KCLI_BOOTSTRAP_SERVER": cluster.address}
    command = [*KCLI, "consume", *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = Timer(WAIT_S, process.kill)  # the timeout of a read without records
        deadline.start()
        try:
            yield process
        finally:
            deadline.cancel()
            process.kill()


def test_what_comes_is_shown_until_an_interrupt(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.run("produce", topic, text="old\n")
    with consuming(cluster, topic, "-f", "%s\\n") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"old\n"
        cluster.run("produce", topic, text="new\n")
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == b""


def test_head_ends_it_at_once(cluster: Cluster, numbers: str) -> None:
    """This also holds where no further record comes whose output could fail."""
    with consuming(cluster, numbers) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(30):
            process.stdout.readline()
        process.stdout.close()
        assert process.wait(10) == 0
        assert process.stderr.read() == b""


def test_failures_are_one_line(cluster: Cluster, numbers: str) -> None:
    for arguments, status, reason in (
        (["no-such-topic"], 1, "kcli: no-such-topic: UNKNOWN_TOPIC_OR_PARTITION: "),
        ([numbers, "-p", "3"], 1, f"kcli: {numbers} has no partition 3: it has 3"),
        ([numbers, "-o", "11"], 1, f"kcli: {numbers}-0: no offset 11: it has 0 up to 10"),
        ([numbers, "-p", "0", "-o", "1:5"], 2, "kcli: -o 1:...: that partition is not read"),
    ):
        ended = cluster.run("consume", *arguments, "-e")
        assert (ended.stdout, ended.status) == ("", status)
        assert ended.complaint.startswith(reason)


def test_no_group_is_left_behind(cluster: Cluster, numbers: str) -> None:
    cluster.run("consume", numbers, "-e")
    groups = AdminClient({"bootstrap.servers": cluster.address}).list_consumer_groups().result()
    assert not groups.valid


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-o", "x"], "is no offset"),
        (["--time", "x"], "is no range"),
        (["--time", "-2h:", "-o", "1"], "exclude each other"),
        (["-f", "%x"], "no token '%x'"),
        (["-X", "no.such=1"], "No such configuration property"),
    ],
)
def test_usage(arguments: list[str], reason: str) -> None:
    ended = kcli("consume", "t", *arguments)
    assert ended.status == 2
    assert reason in ended.complaint


def test_a_pattern_that_is_none(cluster: Cluster) -> None:
    ended = cluster.run("consume", "^ord[", "--group", "g-pattern", "-e")
    assert (ended.complaint, ended.status) == ("kcli: '^ord[': no topic, or no regular expression", 2)
