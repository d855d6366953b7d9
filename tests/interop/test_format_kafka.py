"""`kcli format` beside `kafka-storage format`."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.metadata.storage_tool import FormatOptions, format_node
from kcli.log.disk import Disk
from kcli.log.log_directory import read_meta_properties, read_properties
from tests.cli.run import kcli
from tests.interop.formatting import EXPECTED, Printed, report
from tests.interop.kit import ToolServer, kafka, kit_dir, tool_server
from tests.interop.test_handover_kafka import CLUSTER_ID, DYNAMIC, Node
from tests.interop.test_tools_kafka import NOT_SERVED

pytestmark = pytest.mark.kafka
STORAGE_TOOL = "kafka.tools.StorageTool"
SALT = "MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E="
WITHOUT = [word for name in NOT_SERVED for word in ("--feature", f"{name}=0")]
VOTERS = {
    "static": ("controller.quorum.voters=1@127.0.0.1:9093", []),
    "dynamic": ("controller.quorum.bootstrap.servers=127.0.0.1:9093", ["--standalone"]),
}


def test_kafka_says_what_is_expected(kafka_jars: Path, tmp_path: Path) -> None:
    """format.expected has real Kafka's output; tests/cli/test_format.py compares kcli's with it."""
    tools = ToolServer(kafka_jars, "off")

    def run(arguments: list[str]) -> Printed:
        output = tools.run(STORAGE_TOOL, ["format", *arguments, *WITHOUT], tmp_path)
        lines = [line for line in output.stderr.splitlines() if line and not line.startswith(("\t", "Caused by"))]
        complaint = re.sub(r'^Exception in thread "main" [\w.]+: ', "", lines[0]) if lines else ""
        return Printed(output.stdout, complaint, output.exit == 0)

    try:
        said = report(run, tmp_path)
    finally:
        tools.close()
    if os.environ.get("KCLI_UPDATE"):
        EXPECTED.write_text(said)
    assert said == EXPECTED.read_text()


def test_the_bytes_with_scram_users_are_kafkas(kafka_jars: Path, tmp_path: Path) -> None:
    """bootstrap.checkpoint is compared without the times of its batches, and their checksums."""
    arguments = ["-S", f"SCRAM-SHA-256=[name=alice,password=alice-secret,salt={SALT},iterations=8192]"]
    arguments += ["--add-scram", f'SCRAM-SHA-512=[name=bob,password="b=c",salt={SALT}]']
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    tools = ToolServer(kafka_jars, "off")
    try:
        given = ["format", "-t", CLUSTER_ID, "-c", str(properties), *arguments, *WITHOUT]
        assert tools.run(STORAGE_TOOL, given, tmp_path).exit == 0
    finally:
        tools.close()
    theirs = (tmp_path / "data" / "bootstrap.checkpoint").read_bytes()
    options = FormatOptions(CLUSTER_ID, scram_users=arguments[1::2])
    ours = tmp_path / "ours"
    config = BrokerConfig({**read_properties(properties), "log.dirs": str(ours)})
    format_node(config, options, now_ms=1, disk=Disk())
    assert timeless((ours / "bootstrap.checkpoint").read_bytes()) == timeless(theirs)


def test_the_kit_formats_as_the_storage_tool(kafka_jars: Path, tmp_path: Path) -> None:
    """`kafka start` copies a formatted directory, with ids of its own."""
    name = f"formatted-{os.getpid()}"
    kafka("start", name)
    try:
        kafka("kill", name)
        copy = Path(kafka("dir", name).strip())
        properties = (copy.parent / "server.properties").read_text().replace(str(copy), str(tmp_path / "data"))
        (tmp_path / "server.properties").write_text(properties)
        given = ["format", "-t", CLUSTER_ID, "-c", str(tmp_path / "server.properties")]
        assert tool_server("off").run(STORAGE_TOOL, given).exit == 0
        checkpoints = [each / "bootstrap.checkpoint" for each in (copy, tmp_path / "data")]
        assert len({timeless(each.read_bytes()) for each in checkpoints}) == 1
        found, theirs, copied = map(read_meta_properties, (copy, tmp_path / "data", kit_dir() / "formatted"))
        assert found is not None
        assert theirs is not None
        assert replace(found, cluster_id=CLUSTER_ID, directory_id=theirs.directory_id) == theirs
        if copied is not None:
            assert found.cluster_id != copied.cluster_id
            assert found.directory_id != copied.directory_id
    finally:
        kafka("rm", name)


def timeless(data: bytes) -> bytes:
    """Return batches without CRC, base timestamp and maximal timestamp."""
    found, at = bytearray(data), 0
    while at < len(data):
        found[at + 17 : at + 21] = bytes(4)
        found[at + 27 : at + 43] = bytes(16)
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    return bytes(found)


@pytest.mark.parametrize("quorum", VOTERS)
def test_kafka_starts_on_what_kcli_formatted(kafka_jars: Path, tmp_path: Path, quorum: str) -> None:
    voters, arguments = VOTERS[quorum]
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"process.roles=broker,controller\nnode.id=1\n{voters}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\nlog.dirs={tmp_path / 'data'}\n"
    )
    ended = kcli("format", "-t", CLUSTER_ID, "-c", properties, *arguments)
    assert ended.status == 0, ended.stderr
    node = Node(tmp_path / "data", *(DYNAMIC if quorum == "dynamic" else []))
    try:
        node.ask("topics", "--create", "--topic", "made")
        described = node.ask("metadata-quorum", "describe", "--status")
        assert f"ClusterId:              {CLUSTER_ID}" in described
        assert ("directoryId" in described) is (quorum == "dynamic")
        assert not node.complaints()
    finally:
        node.stop(tmp_path / "theirs")
