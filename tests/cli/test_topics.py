"""kcli topics, against a cluster."""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.cli.run import kcli
from tests.client.clusters import KAFKA, Cluster
from tests.interop import kit


def described(cluster: Cluster, topic: str) -> dict[str, object]:
    """What describe says of a topic."""
    ended = cluster.run("topics", "describe", topic, "--offsets", "--format", "jsonl")
    assert (ended.stderr, ended.status) == ("", 0)
    (line,) = ended.stdout.splitlines()
    found: dict[str, object] = json.loads(line)
    return found


def until(is_so: Callable[[], bool]) -> None:
    """Wait for the topic, since real Kafka's controller answers before its broker knows it."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline


def test_create_describe_list_alter_delete(cluster: Cluster) -> None:
    topic = cluster.topic("--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=77000")
    cluster.run("produce", topic, "-p", "1", text="a\nb\n")
    found = described(cluster, topic)
    assert (found["topic"], found["partitions"], found["replication_factor"], found["internal"]) == (topic, 2, 1, False)
    assert found["configs"]["retention.ms"] == "77000"  # type: ignore[index]
    broker = {"leader": 1, "replicas": [1], "isr": [1]}
    assert found["partition_list"] == [
        {"partition": 0, **broker, "start_offset": 0, "end_offset": 0},
        {"partition": 1, **broker, "start_offset": 0, "end_offset": 2},
    ]
    assert f"{topic} " in cluster.run("topics", "list").stdout
    listed = [json.loads(line) for line in cluster.run("topics", "list", "--format", "jsonl").stdout.splitlines()]
    assert {name: found[name] for name in listed[0]} in listed

    options = ["--partitions", "5", "--config", "cleanup.policy=compact", "--delete-config", "retention.ms"]
    assert cluster.run("topics", "alter", topic, *options) == ("", "", 0)
    until(lambda: described(cluster, topic)["partitions"] == 5)
    changed = described(cluster, topic)
    assert changed["id"] == found["id"]
    assert changed["configs"]["cleanup.policy"] == "compact"  # type: ignore[index]
    assert changed["configs"].get("retention.ms") != "77000"  # type: ignore[attr-defined]

    assert cluster.run("topics", "delete", topic) == ("", "", 0)
    until(lambda: f"{topic} " not in cluster.run("topics", "list").stdout)


@pytest.mark.parametrize("cluster", [KAFKA], indirect=True)
def test_ids_are_written_as_kafka_writes_them(cluster: Cluster) -> None:
    """Ids are written in base64 for file names; there are enough of them that some have one of its special
    characters."""
    topics = [f"ids-{os.getpid()}-{number}" for number in range(8)]
    assert cluster.run("topics", "create", *topics) == ("", "", 0)
    command = [str(kit.SCRIPT), "topics", "--bootstrap-server", cluster.address, "--describe"]
    kafka = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    printed = cluster.run("topics", "describe", "--format", "jsonl", *topics).stdout
    for line in printed.splitlines():
        row = json.loads(line)
        assert f"Topic: {row['topic']}\tTopicId: {row['id']}\t" in kafka


def test_a_table_for_people(cluster: Cluster) -> None:
    topic = cluster.topic("--partitions", "2")
    cluster.run("produce", topic, "-p", "0", text="a\n")
    lines = cluster.run("topics", "describe", "--topic", topic, "--offsets").stdout.splitlines()
    assert lines[0].startswith(f"{topic}  id ")
    assert lines[0].endswith("  2 partitions  1 replica")
    assert lines[-2:] == [
        "  0  leader 1  replicas 1  in sync 1  offsets 0..0",
        "  1  leader 1  replicas 1  in sync 1  no offsets, next 0",
    ]


def test_what_kafka_refuses_is_one_line_each(cluster: Cluster) -> None:
    topic = cluster.topic()
    ended = cluster.run("topics", "create", topic, "bad/name")
    assert ended.status == 1
    told = sorted(ended.stderr.splitlines())
    assert told[0].startswith("kcli: bad/name: ")
    assert told[1].startswith(f"kcli: {topic}: TOPIC_ALREADY_EXISTS: ")
    assert cluster.run("topics", "create", topic, "--if-not-exists") == ("", "", 0)
    for action in (["describe"], ["delete"], ["alter", "--partitions", "3"], ["alter", "--config", "retention.ms=1"]):
        ended = cluster.run("topics", *action, "no-such-topic")
        assert ended.status == 1, action
        assert ended.complaint.startswith("kcli: no-such-topic: UNKNOWN_TOPIC_OR_PARTITION: ")
    assert cluster.run("topics", "delete", "no-such-topic", "--if-exists") == ("", "", 0)
    assert cluster.run("topics", "alter", "no-such-topic", "--partitions", "3", "--if-exists") == ("", "", 0)
    ended = cluster.run("topics", "create", f"{topic}-x", "--config", "no.such.config=1")
    assert ended.status == 1
    assert "INVALID_CONFIG" in ended.complaint


def test_validate_only_changes_nothing(cluster: Cluster) -> None:
    topic = cluster.topic("--partitions", "1")
    assert cluster.run("topics", "create", f"{topic}-new", "--validate-only") == ("", "", 0)
    assert cluster.run("topics", "alter", topic, "--partitions", "4", "--validate-only") == ("", "", 0)
    assert described(cluster, topic)["partitions"] == 1
    assert f"{topic}-new" not in cluster.run("topics", "list").stdout


def test_replica_assignment(cluster: Cluster) -> None:
    topic = cluster.topic("--replica-assignment", "1,1,1")
    assert described(cluster, topic)["partitions"] == 3
    ended = cluster.run("topics", "alter", topic, "--partitions", "4", "--replica-assignment", "99")
    assert ended.status == 1
    assert ended.complaint.startswith(f"kcli: {topic}: INVALID_REPLICA_ASSIGNMENT")


def test_only_partitions_in_trouble(cluster: Cluster) -> None:
    cluster.topic()
    for option in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert cluster.run("topics", "describe", option) == ("", "", 0)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["create"], "no topic given"),
        (["delete"], "no topic given"),
        (["alter", "t"], "nothing to alter"),
        (["alter", "t", "--replica-assignment", "1"], "needs --partitions"),
        (["create", "t", "--config", "novalue"], "is not NAME=VALUE"),
        (["create", "t", "--replica-assignment", "1:x"], "is not ID:ID"),
        (["create", "t", "--replica-assignment", "1", "--partitions", "2"], "excludes"),
        (["list", "-X", "no.such=1"], "No such configuration property"),
        (["list", "-X", "novalue"], "is not NAME=VALUE"),
    ],
)
def test_usage(arguments: list[str], reason: str) -> None:
    ended = kcli("topics", *arguments)
    assert ended.status == 2
    assert reason in ended.complaint


def test_what_the_client_library_does_not_take(cluster: Cluster) -> None:
    topic = cluster.topic()
    beyond = cluster.run("topics", "alter", topic, "--partitions", "2", "--replica-assignment", str(10**12))
    assert (beyond.complaint, beyond.status) == (
        "kcli: --replica-assignment: no broker's id is as large as 1000000000000",
        2,
    )
    odd = cluster.run("topics", "create", os.fsdecode(b"\xff"), "--partitions", "1")
    assert odd.status == 2
    assert odd.stderr.endswith("is not UTF-8\n")


def test_a_name_that_is_not_utf8(cluster: Cluster) -> None:
    """A broker between kcli and the cluster changes the topic's name."""
    topic = cluster.topic()
    host, _, port = cluster.address.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def changed(data: bytes) -> bytes:
            new, old = (int(each).to_bytes(4) for each in (listener.getsockname()[1], port))
            return data.replace(topic.encode(), b"\xff" * len(topic)).replace(old, new)

        def serve(near: socket.socket) -> None:
            def pass_on(source: socket.socket, target: socket.socket) -> None:
                with suppress(OSError):
                    while data := source.recv(1 << 16):
                        target.sendall(changed(data))

            with near, socket.create_connection((host, int(port))) as far:
                threading.Thread(target=pass_on, args=(near, far), daemon=True).start()
                pass_on(far, near)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        ended = kcli("topics", "list", "-b", f"127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)
    assert (ended.stdout, ended.status) == ("", 1)
    assert len(ended.stderr.splitlines()) == 1
    assert "is not UTF-8" in ended.stderr
