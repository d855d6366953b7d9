"""Directories with groups go from Kafka to kcli and back: members and offsets stay as Kafka's tools said."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from tests.broker.api.test_groups import coordinator
from tests.broker.running import Client, ServedNode
from tests.conftest import GOLDEN
from tests.interop.complaints import complaints
from tests.interop.kit import SCRIPT, ToolServer, tool_server

NODE = f"kcli-groups-{os.getpid()}"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
KINDS = {"members": ["--members", "--verbose"], "offsets": ["--offsets"], "state": ["--state"]}
TOPIC, PARTITIONS = "handed", 3
LOADED_S = 30.0
READY_S = 120.0
UNSTABLE = 88
MEMBERS = """
import sys, time
import confluent_kafka
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
_, address, topic = sys.argv
common = {"bootstrap_servers": address, "auto_offset_reset": "earliest", "enable_auto_commit": False,
          "session_timeout_ms": 120_000, "heartbeat_interval_ms": 200}

def member(group, **config):
    made, read = KafkaConsumer(topic, group_id=group, **common, **config), 0
    while read < 3:
        read += sum(map(len, made.poll(timeout_ms=200).values()))
    made.commit()
    return made

kept = [member("dynamic"), member("static", group_instance_id="one")]
member("left").close()
simple = KafkaConsumer(group_id="simple", **common)
simple.assign([TopicPartition(topic, 1)])
simple.commit({TopicPartition(topic, 1): OffsetAndMetadata(1, "of \u00e9\u65e5\u672c", -1)})

def modern(group, **config):
    common = {"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer",
              "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    made, read = confluent_kafka.Consumer({**common, **config}), 0
    made.subscribe(["^" + topic[:-1] + ".*" if group.endswith("regex") else topic])
    while read < 3:
        read += len(made.consume(10, timeout=0.2))
    made.commit(asynchronous=False)
    return made

kept += [modern("consumer"), modern("consumer-regex"), modern("consumer-static", **{"group.instance.id": "one"})]
modern("consumer-left").close()

def both_have_some(first, second, poll_first):
    second.subscribe([topic])
    while not second.assignment():
        poll_first()
        second.poll(0.1)
    return [first, second]

def consumer(group):
    return confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer"})

classic = member("mixed")  # and then the group is upgraded
kept += both_have_some(classic, consumer("mixed"), lambda: classic.poll(timeout_ms=100))
first, second = modern("consumer-moving"), consumer("consumer-moving")
second.subscribe([topic])  # and the first one, which does not poll, gives nothing away
for _ in range(20):
    second.poll(0.1)
kept += [first, second]
pending = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "pending"})
pending.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 1)], asynchronous=False)
producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": "open",
                                     "transaction.timeout.ms": 600_000})
producer.init_transactions()
producer.begin_transaction()
producer.send_offsets_to_transaction(
    [confluent_kafka.TopicPartition(topic, 0, 2)], pending.consumer_group_metadata())
print("ready", flush=True)
time.sleep(600)
"""
Tables = dict[str, list[str]]


def kafka(*arguments: str) -> str:
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture
def tools(kafka_jars: Path) -> Iterator[ToolServer]:
    """Kafka's tools. No node is left at the end."""
    yield tool_server()
    if re.search(rf"^{NODE} .* running", kafka("ls"), re.MULTILINE):
        kafka("kill", NODE)
    kafka("rm", NODE)


def tables(report: str) -> Tables:
    """Return the lines of each group, sorted, without ports and blanks, which vary."""
    found: Tables = {}
    for line in report.splitlines():
        words = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", line).split()
        if words and words[0] != "GROUP":
            found.setdefault(words[0], []).append(" ".join(words))
    return {group: sorted(lines) for group, lines in found.items()}


def describe(tools: ToolServer, address: str, *groups: str) -> dict[str, Tables]:
    """Return what kafka-consumer-groups prints of groups, once their coordinator has loaded: while it loads, it lists
    none."""
    which = [word for group in groups for word in ("--group", group)] or ["--all-groups"]
    until = time.monotonic() + LOADED_S
    while time.monotonic() < until:
        if tools.run(TOOL, ["--bootstrap-server", address, "--list"]).stdout.strip():
            break
    found = {}
    for kind, options in KINDS.items():
        output = tools.run(TOOL, ["--bootstrap-server", address, "--describe", *which, *options])
        assert (output.exit, "Error" in output.stdout) == (0, False), output
        found[kind] = tables(output.stdout)
    return found


def test_kcli_opens_what_kafka_wrote(tools: ToolServer, tmp_path: Path) -> None:
    directory = shutil.copytree(GOLDEN / "groups/data", tmp_path / "d")
    files = (GOLDEN / "groups/expected/describe").glob("[cn]g-*.state.txt")
    groups = sorted({path.name.partition(".")[0] for path in files} - {"cg-deleted"})
    expected: dict[str, Tables] = {kind: {} for kind in KINDS}
    for group in groups:
        for kind in KINDS:
            expected[kind] |= tables((GOLDEN / f"groups/expected/describe/{group}.{kind}.txt").read_text())
    node = ServedNode(directory)
    try:
        members_go_on(node)
        described = describe(tools, node.bootstrap, *groups)
    finally:
        node.signal(signal.SIGTERM)
    for kind in KINDS:
        assert {group: described[kind][group] for group in expected[kind] if group in groups} == {
            group: lines for group, lines in expected[kind].items() if group in groups
        }


def members_go_on(node: ServedNode) -> None:
    """Members of consumer groups send their heartbeats on the new node, and no epoch grows."""
    groups = json.loads((GOLDEN / "groups/expected/groups.json").read_text())
    with Client(node.address) as client:
        coordinator(client)
    for name, group in groups.items():
        if group.get("type") != "Consumer":
            continue
        for member in group["members"]:
            epoch = member["member_epoch"]
            request = {name: member[name] for name in ("member_id", "member_epoch", "instance_id")}
            with Client(node.address, member["client_id"]) as client:
                answer = client.call("consumer_group_heartbeat", 1, group_id=name, topic_partitions=None, **request)
            assert (answer["error_code"], answer["member_epoch"], answer["assignment"]) == (0, epoch, None), answer
        with Client(node.address) as client:
            asked = {"group_ids": (name,), "include_authorized_operations": False}
            (found,) = client.call("consumer_group_describe", 1, **asked)["groups"]
        epochs = group["group_epoch"], group["target_assignment_epoch"]
        assert (found["group_epoch"], found["assignment_epoch"]) == epochs, name


@contextmanager
def filled(address: str) -> Iterator[None]:
    """Make groups of each kind: with a dynamic member, with a static one, left by it, without members, with members of
    both protocols, during a rebalance, with an offset in an open transaction. Consumers run in a process that is killed
    at the end."""
    with warnings.catch_warnings():  # kafka-python reads its own version in a deprecated way
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address)
    producer.send(TOPIC, b"makes the topic").get(30)
    for partition in range(PARTITIONS):
        producer.send(TOPIC, b"value", partition=partition)
    producer.close()
    process = subprocess.Popen([sys.executable, "-c", MEMBERS, address, TOPIC], stdout=subprocess.PIPE, text=True)
    watch = Timer(READY_S, process.kill)  # kafka-python may wait for ever for its own thread
    watch.start()
    try:
        assert process.stdout is not None, "piped"
        assert process.stdout.readline() == "ready\n"
        watch.cancel()
        yield
    finally:
        watch.cancel()
        process.kill()
        process.communicate()


def pending_offset(address: str) -> int:
    """Return the error of an OffsetFetch that requires stable offsets."""
    host, _, port = address.rpartition(":")
    with Client((host, int(port))) as client:
        topics = [{"name": TOPIC, "partition_indexes": [0]}]
        answer = client.call("offset_fetch", 7, group_id="pending", topics=topics, require_stable=True)
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_groups_go_to_kafka_and_back(tools: ToolServer, tmp_path: Path, how: str) -> None:
    directory = tmp_path / "d"
    quick = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=3", f"num.partitions={PARTITIONS}"]
    quick += [f"group.consumer.{each}heartbeat.interval.ms=500" for each in ("min.", "")]
    options = [word for each in quick for word in ("-o", each)]
    node = ServedNode(directory, *options)
    with filled(node.bootstrap):
        ours = describe(tools, node.bootstrap)
        assert pending_offset(node.bootstrap) == UNSTABLE
        node.signal(signal.SIGTERM if how == "stop" else signal.SIGKILL)
    modern = {f"consumer{kind}" for kind in ("", "-regex", "-static", "-left", "-moving")} | {"mixed"}
    assert ours["offsets"].keys() == {"dynamic", "static", "left", "simple", "pending"} | modern
    kept = {"dynamic", "static"} | modern - {"consumer-left"}
    two = ("consumer-moving", "mixed")
    assert {group: len(ours["members"][group]) for group in kept} == {group: 1 + (group in two) for group in kept}
    assert "Reconciling" in ours["state"]["consumer-moving"][0]

    address = kafka("open", str(directory), NODE, *quick).strip()
    assert describe(tools, address) == ours
    assert pending_offset(address) == UNSTABLE
    reset = ["--reset-offsets", "--group", "left", "--topic", TOPIC, "--to-earliest", "--execute"]
    for arguments in (reset, ["--delete", "--group", "simple"]):
        assert tools.run(TOOL, ["--bootstrap-server", address, *arguments]).exit == 0
    theirs = describe(tools, address)
    assert theirs != ours
    kafka(how, NODE)
    assert not complaints(kafka("log", NODE), also="client-metrics")

    node = ServedNode(Path(kafka("dir", NODE).strip()), *options)
    try:
        assert describe(tools, node.bootstrap) == theirs
        assert pending_offset(node.bootstrap) == UNSTABLE
    finally:
        node.signal(signal.SIGTERM)
