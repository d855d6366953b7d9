"""`kcli format` beside `kafka-storage format`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.interop.formatting import EXPECTED, Printed, report
from tests.interop.kit import ToolServer
from tests.interop.test_handover_kafka import CLUSTER_ID, DYNAMIC, Node
from tests.interop.test_tools_kafka import NOT_SERVED

pytestmark = pytest.mark.kafka
STORAGE_TOOL = "kafka.tools.StorageTool"
WITHOUT = [word for name in NOT_SERVED for word in ("--feature", f"{name}=0")]
VOTERS = {
    "static": ("controller.quorum.voters=1@127.0.0.1:9093", []),
    "dynamic": ("controller.quorum.bootstrap.servers=127.0.0.1:9093", ["--standalone"]),
}


def test_kafka_says_what_is_expected(kafka_jars: Path, tmp_path: Path) -> None:
    """format.expected is what real Kafka says; tests/cli/test_format.py holds kcli to it."""
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
