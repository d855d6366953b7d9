"""Kafka's command-line tools print the same against `kcli serve` as against real Kafka.

The commands are in tools/*.txt. Each runs on both brokers, which have the same server.properties; stdout, stderr and
exit status must be equal, apart from what VARIES.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcli.broker.wire.apis import BROKER_APIS as APIS
from tests.broker.running import Client, ServedNode
from tests.interop import kit
from tests.interop.clusters import QUORUM, applied_offset
from tests.interop.kit import SCRIPT, Output, ToolServer

SCRIPTS = sorted(Path(__file__).with_name("tools").glob("*.txt"))
PACKAGE = "org.apache.kafka.tools."
CLASSES = {
    "acls": PACKAGE + "AclCommand",
    "all-groups": PACKAGE + "GroupsCommand",
    "api-versions": PACKAGE + "BrokerApiVersionsCommand",
    "cluster": PACKAGE + "ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "consumer": PACKAGE + "consumer.ConsoleConsumer",
    "delegation-tokens": PACKAGE + "DelegationTokenCommand",
    "delete-records": PACKAGE + "DeleteRecordsCommand",
    "features": PACKAGE + "FeatureCommand",
    "groups": PACKAGE + "consumer.group.ConsumerGroupCommand",
    "get-offsets": PACKAGE + "GetOffsetShell",
    "leader-election": PACKAGE + "LeaderElectionCommand",
    "log-dirs": PACKAGE + "LogDirsCommand",
    "metadata-quorum": PACKAGE + "MetadataQuorumCommand",
    "producer": PACKAGE + "ConsoleProducer",
    "topics": PACKAGE + "TopicCommand",
}
ID = "[A-Za-z0-9_-]{22}"
# what differs in every run: ids, times, the metadata offset, the clients' numbers
VARIES = [
    (rf"(TopicId: |Cluster ID: |ClusterId: +){ID}", r"\1ID"),
    (r"(CreateTime:|LogAppendTime:)\d+", r"\1TIME"),
    (r"Timestamp \d+ of (.* within) \[\d+, \d+\]", r"Timestamp TIME of \1 [TIME, TIME]"),
    (r"(Epoch|HighWatermark): +\d+$", r"\1: OFFSET"),
    (r"^(1 +\t\S+\t)\d+ *\t0 *\t(\d+|\d+ ms ago) *\t(\d+|\d+ ms ago) *\t", r"\1OFFSET\t0\tTIME\tTIME\t"),
    (r"(deadlineMs|tries|nextAllowedTryMs)=\d+", r"\1=N"),
    (r"timed out at \d+ after \d+ attempt", "timed out at TIME after N attempt"),
    # two messages of a client whose time is over: it had sent the metadata request, or not yet
    (
        r"Timed out waiting for a node assignment\. Call: (deleteRecords\(api=METADATA\))$",
        r"Call(callName=\1, deadlineMs=N, tries=N, nextAllowedTryMs=N) timed out at TIME after N attempt(s)",
    ),
    (r"(adminclient|console-consumer)-\d+", r"\1-N"),
    (r"correlation id \d+", "correlation id N"),
    # how ToolServer got there
    (
        r"^\tat (ToolServer|jdk\.compiler|java\.base/(java\.lang|jdk\.internal)\.reflect|jdk\.internal\.reflect)\..*\n",
        "",
    ),
]
NOT_SERVED = ("share.version", "streams.version")
"""Features that Kafka's new clusters have, and kcli's do not."""
READS = re.compile(r"--describe|--list|describe|get-offsets|consumer|log-dirs")
SETTLES_S = 30.0


@dataclass(frozen=True)
class Command:
    """A command line or, without a tool, a file to write. text: its input."""

    line: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)


def commands(script: Path) -> list[Command]:
    """Return the commands. Lines that begin with | are the input of the command below."""
    found: list[list[str]] = []
    for line in script.read_text().splitlines():
        if line.startswith("|"):
            found[-1].append(line[2:])
        elif line and not line.startswith("#"):
            found.append([line])
    return [Command(first, "".join(f"{line}\n" for line in rest)) for first, *rest in found]


@dataclass
class Broker:
    """One of the two brokers, with the names of what differs."""

    address: str
    places: list[tuple[str, str]]
    tools: ToolServer
    cwd: Path

    def run(self, command: Command) -> str:
        """Return what a tool prints, with fixed names for what varies."""
        tool, *arguments = command.words
        server = ["--bootstrap-server", self.address]
        given = [*arguments, *server] if tool == "cluster" else [*server, *arguments]
        return self._report(self.tools.run(CLASSES[tool], given, self.cwd, command.text.encode()))

    def settle(self) -> None:
        """Wait until Kafka's broker has applied what its controller has committed."""
        host, _, port = self.address.rpartition(":")
        until = time.monotonic() + SETTLES_S
        with Client((host, int(port))) as client:
            (quorum,) = client.call("describe_quorum", 2, topics=QUORUM)["topics"]
            committed = quorum["partitions"][0]["high_watermark"] - 1
            while applied_offset(client) < committed:
                assert time.monotonic() < until, "Kafka's broker does not catch up"
                time.sleep(0.01)

    def _report(self, output: Output) -> str:
        text = f"{output.stdout}--- stderr\n{output.stderr}--- exit {output.exit}\n"
        for place, name in self.places:
            text = text.replace(place, name)
        for pattern, name in VARIES:
            text = re.sub(pattern, name, text, flags=re.MULTILINE)
        return sort_quotas(text)


def sort_quotas(text: str) -> str:
    """Sort quotas: Kafka returns them in the order of a hash table, which depends on earlier entries."""
    lines = text.splitlines(keepends=True)
    quotas = sorted(line for line in lines if line.startswith("Quota configs for "))
    return "".join(quotas + [line for line in lines if not line.startswith("Quota configs for ")])


def kafka(*arguments: str) -> str:
    environment = {**os.environ, "KAFKA_FORMAT_ARGS": " ".join(f"--feature {name}=0" for name in NOT_SERVED)}
    done = subprocess.run(
        [SCRIPT, *arguments], capture_output=True, text=True, timeout=180, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def ports_named(own: object, controller: object) -> list[tuple[str, str]]:
    """A table has the port alone."""
    return [(f":{own}", ":9092"), (f":{controller}", ":9093"), (f" {own} ", " 9092 ")]


def ports(properties: str) -> list[str]:
    """Return the ports of the clients' listener and of the controller's."""
    found = re.search(r"^listeners=PLAINTEXT://127.0.0.1:(\d+),CONTROLLER://127.0.0.1:(\d+)$", properties, re.MULTILINE)
    assert found is not None
    return list(found.groups())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def both(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[tuple[Broker, Broker]]:
    """Start real Kafka, and kcli with the same properties in another directory."""
    name = f"kcli-tools-{worker_id}-{os.getpid()}"
    directory = tmp_path_factory.mktemp("tools")
    tools = ToolServer(kafka_jars, "warn")
    try:
        kafka("start", name, *(f"group.consumer.{each}heartbeat.interval.ms=500" for each in ("min.", "")))
        theirs = (kit.kit_dir() / "nodes" / name / "server.properties").read_text()
        own, controller = ports(theirs)
        places = [(kafka("dir", name), "/data"), *ports_named(own, controller)]
        our_places = [(str(directory / "data"), "/data"), *ports_named(free_port(), free_port())]
        ours = theirs
        for (place, _), (our_place, _) in zip(places, our_places, strict=True):
            ours = ours.replace(place, our_place)
        properties = directory / "server.properties"
        properties.write_text(ours)
        address = f"127.0.0.1{our_places[1][0]}"
        advertised = f"advertised.listeners=PLAINTEXT://{address}"
        node = ServedNode(directory / "data", "--config", str(properties), "-o", advertised, listen=address)
        real = Broker(f"127.0.0.1:{own}", places, tools, directory)
        try:
            yield real, Broker(address, our_places, tools, directory)
        finally:
            node.process.kill()
            node.process.communicate()
    finally:
        tools.close()
        if re.search(rf"^{name} .* running", kafka("ls"), re.MULTILINE):
            kafka("kill", name)
        kafka("rm", name)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_tools_print_the_same(both: tuple[Broker, Broker], script: Path) -> None:
    real, ours = both
    differences: list[str] = []
    for command in commands(script):
        if command.words[0] == "file":
            (real.cwd / command.words[1]).write_text(command.text)
            continue
        expected, found = real.run(command), ours.run(command)
        if not READS.search(command.line):
            real.settle()
        if expected != found:
            lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "kafka", "kcli", lineterm="")
            differences.append("\n".join([f"$ {command.line}", *lines]))
    assert not differences, "\n\n".join(differences)


def test_api_versions_are_those_of_kafka(both: tuple[Broker, Broker]) -> None:
    """ApiVersions lists the same versions for each API that kcli has, and no other API."""
    versions = Command("api-versions", "")
    expected, found = (apis(broker.run(versions)) for broker in both)
    assert expected.keys() == found.keys()
    served = {name for name, text in found.items() if text != "UNSUPPORTED"}
    assert len(served) >= len(APIS)
    assert {name: found[name] for name in served} == {name: expected[name] for name in served}


def apis(report: str) -> dict[str, str]:
    """What kafka-broker-api-versions says of each API."""
    return dict(re.findall(r"^\t(\w+\(\d+\)): (.*?),?$", report, re.MULTILINE))
