"""Kafka's command-line tools print the same against a cluster of kcli's nodes as against one of real Kafka's.

The situations are in cluster_tools/*.txt: commands as in tools/*.txt, and what happens to the nodes between them,

    ! kill 3                         also stop and start
    ! fill a-0 1000000               as many bytes are written
    ! wait                           until every node is there and every replica in sync
    ! wait a-0 leader 1 isr 1,2      until Metadata says so; also: leader none, replicas 2,3

What real Kafka printed is beside them in cluster_tools/*.expected; `KCLI_UPDATE=1 pytest -m kafka` writes it anew. All
that no two runs have in common has a name of its own in it: VARIES here and of test_tools_kafka. The tools ask node 1,
which stays up.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conftest import examples
from tests.interop.clusters import Cluster, ClusterError, KcliCluster, Partition
from tests.interop.kit import ToolServer
from tests.interop.real_cluster import RealCluster
from tests.interop.test_tools_kafka import CLASSES, READS, VARIES, Command, commands, sort_quotas

SCRIPTS = sorted(Path(__file__).with_name("cluster_tools").glob("*.txt"))
ALL_CLASSES = CLASSES | {"reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"}
OPTIONS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "delete.topic.enable": "true",
}
WAITS_S = 60.0
RECORD_BYTES = 100_000
CLUSTER_VARIES = [
    # the quorum's leader, and the offsets that it has reached
    (r"(LeaderId|LeaderEpoch|MaxFollowerLag|MaxFollowerLagTimeMs): +-?\d+$", r"\1: N"),
    (r"^[123] +\t(\S+)\t-?\d+ *\t\d+ *\t.*\t(Leader|Follower) *\t?$", r"N\t\1\tOFFSET\tLAG\tTIME\tTIME\t\2"),
    (r"^(Finalized.*Epoch: )\d+", r"\1OFFSET"),
    (r"Epoch: \d+$", "Epoch: OFFSET"),
]


def run_script(cluster: Cluster, script: Path, jars: Path, cwd: Path) -> str:
    """Return the output of all commands, each behind its command line."""
    tools = ToolServer(jars)
    printed: list[str] = []
    try:
        for command in commands(script):
            first, *rest = command.words
            if first == "file":
                (cwd / rest[0]).write_text(command.text)
            elif first == "!":
                act(cluster, rest)
            else:
                printed.append(f"$ {command.line}\n{run(cluster, tools, command, cwd)}")
                (cwd / "printed").write_text("".join(printed))  # for who looks into a failure
                if not READS.search(command.line):
                    cluster.wait_heard()
    finally:
        tools.close()
    return "".join(printed)


def act(cluster: Cluster, words: list[str]) -> None:
    """What happens to the nodes."""
    match words:
        case ["kill", node]:
            cluster.kill(int(node))
        case ["stop", node]:
            cluster.stop(int(node))
        case ["start", node]:
            cluster.start(int(node))
        case ["wait"]:
            cluster.wait_ready()
            wait_for(cluster, lambda known: all(set(each.isr) == set(each.replicas) for each in known))
        case ["wait", name, *pairs]:
            topic, _, number = name.rpartition("-")
            wanted = dict(zip(pairs[::2], pairs[1::2], strict=True))
            wait_for(cluster, lambda known: any(is_so(each, wanted) for each in known if same(each, topic, number)))
        case ["fill", name, size]:
            topic, _, number = name.rpartition("-")
            fill(cluster, topic, int(number), int(size))
        case _:
            raise AssertionError(words)


def fill(cluster: Cluster, topic: str, number: int, size: int) -> None:
    """Records that do not compress."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for _ in range(size // RECORD_BYTES):
        producer.produce(topic, os.urandom(RECORD_BYTES), partition=number)
    assert producer.flush(WAITS_S) == 0


def same(partition: Partition, topic: str, number: str) -> bool:
    return (partition.topic, str(partition.index)) == (topic, number)


def is_so(partition: Partition, wanted: dict[str, str]) -> bool:
    """Return whether leader and replicas are as expected, and the ISR has the expected members in any order."""
    leader = "none" if partition.leader < 0 else str(partition.leader)
    isr = set(map(str, partition.isr))
    return (
        wanted.get("leader", leader) == leader
        and set(wanted["isr"].split(",") if "isr" in wanted else isr) == isr
        and wanted.get("replicas", ",".join(map(str, partition.replicas))) == ",".join(map(str, partition.replicas))
    )


def wait_for(cluster: Cluster, found: Callable[[Sequence[Partition]], bool]) -> None:
    """Until all nodes that run say it."""
    deadline = time.monotonic() + WAITS_S
    for node in cluster.ids:
        while cluster.is_running(node):
            try:
                known = cluster.partitions(node)
            except ClusterError:  # it starts
                known = []
            if known and found(known):
                break
            assert time.monotonic() < deadline, f"node {node} says {known}"
            time.sleep(0.1)


def run(cluster: Cluster, tools: ToolServer, command: Command, cwd: Path) -> str:
    """Return what a tool prints, with fixed names for what varies."""
    tool, *arguments = command.words
    host, port = cluster.address(1)
    server = ["--bootstrap-server", f"{host}:{port}"]
    given = [*arguments, *server] if tool == "cluster" else [*server, *arguments]
    output = tools.run(ALL_CLASSES[tool], given, cwd, command.text.encode())
    text = f"{output.stdout}--- stderr\n{output.stderr}--- exit {output.exit}\n"
    for node, place in cluster.places.items():
        text = text.replace(str(cluster.data(node)), f"/node-{node}/data")
        text = text.replace(f"{place.host}:{place.port}", f"node-{node}:9092")
        text = text.replace(f"{place.host}:{place.controller_port}", f"node-{node}:9093")
        text = re.sub(rf"{re.escape(place.host)}( +){place.port}\b", rf"node-{node}\g<1>9092", text)
    for pattern, name in CLUSTER_VARIES + VARIES:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return in_order(sort_quotas(text))


def in_order(text: str) -> str:
    """Sort the rows of a table that depend on the leader, and partitions in the order of a hash table."""
    lines = text.splitlines(keepends=True)
    lines = [sort_partitions(line) if line.startswith('{"brokers"') else line for line in lines]
    rows = sorted(line for line in lines if line.startswith("N\t"))
    first = next((number for number, line in enumerate(lines) if line.startswith("N\t")), 0)
    others = [line for line in lines if not line.startswith("N\t")]
    return "".join([*others[:first], *rows, *others[first:]])


def sort_partitions(line: str) -> str:
    """What kafka-log-dirs prints, in one order."""
    found = json.loads(line)
    for broker in found["brokers"]:
        for each in broker["logDirs"]:
            each["partitions"].sort(key=lambda partition: partition["partition"])
    return json.dumps(found, separators=(",", ":")) + "\n"


def scenario(cluster: Cluster, script: Path, jars: Path, directory: Path) -> str:
    (directory / "cwd").mkdir()
    cluster.format()
    with cluster:
        cluster.start()
        cluster.wait_ready()
        return run_script(cluster, script, jars, directory / "cwd")


def check(found: str, script: Path) -> None:
    expected = script.with_suffix(".expected").read_text()
    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "kafka", "found", lineterm="", n=8)
    difference = "\n".join(lines)
    assert not difference, difference


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_kcli_prints_the_same(kafka_jars: Path, tmp_path: Path, script: Path) -> None:
    check(scenario(KcliCluster(tmp_path / "cluster", OPTIONS), script, kafka_jars, tmp_path), script)


@pytest.mark.hypothesis  # make soak runs all scripts; only one runs here, as each takes a minute
@pytest.mark.parametrize("script", SCRIPTS[-examples(1, soak=9).max_examples :], ids=lambda script: script.stem)
def test_real_kafka_still_prints_it(kafka_jars: Path, tmp_path: Path, script: Path) -> None:
    found = scenario(RealCluster(tmp_path / "cluster", OPTIONS), script, kafka_jars, tmp_path)
    if os.environ.get("KCLI_UPDATE"):
        script.with_suffix(".expected").write_text(found)
    check(found, script)
