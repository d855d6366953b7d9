"""Kafka's tools on `kcli serve --read-only` print what they printed before the broker of that directory was shut down,
and change nothing in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.read_only_node import ReadOnlyRunning, read_only_node, state_of
from tests.conftest import GOLDEN
from tests.interop.kit import ToolServer, tool_server

GROUPS, TXN = GOLDEN / "groups", GOLDEN / "txn"
PACKAGE = "org.apache.kafka.tools."
GROUPS_TOOL, TRANSACTIONS_TOOL = PACKAGE + "consumer.group.ConsumerGroupCommand", PACKAGE + "TransactionsCommand"
DURATION = "TransactionDurationMs"


@pytest.fixture(scope="module")
def tools(kafka_jars: Path) -> ToolServer:
    return tool_server()


def printed(tools: ToolServer, node: ReadOnlyRunning, tool: str, *arguments: str) -> list[list[str]]:
    """The cells of the lines that the tool prints."""
    output = tools.run(tool, ["--bootstrap-server", node.bootstrap, *arguments])
    assert output.exit == 0, output.stderr
    return cells(output.stdout, node.bootstrap)


def cells(text: str, address: str) -> list[list[str]]:
    """The words of each line, in the order of the lines; the coordinator has one name everywhere."""
    lines = (line.replace(address, "BROKER").replace("127.0.0.1:29092", "BROKER").split() for line in text.splitlines())
    return sorted(line for line in lines if line)


def test_consumer_groups(tools: ToolServer) -> None:
    before = state_of(GROUPS / "data")
    with read_only_node(GROUPS / "data") as node:
        for what, options in (("offsets", []), ("state", []), ("members", ["--verbose"])):
            found = printed(tools, node, GROUPS_TOOL, "--describe", "--all-groups", f"--{what}", *options)
            paths = sorted((GROUPS / "expected" / "describe").glob(f"[cn]g-*.{what}.txt"))
            expected = [line for path in paths for line in cells(path.read_text(), node.bootstrap)]
            rows = [line for line in expected if line[0] not in ("GROUP", "Error:", "Consumer")]
            assert len(rows) >= 16
            assert [line for line in found if line[0] not in ("GROUP", "Consumer")] == sorted(rows)
        listed = printed(tools, node, PACKAGE + "GroupsCommand", "--list")
        assert listed == cells((GROUPS / "expected" / "all-groups-list.txt").read_text(), node.bootstrap)
    assert state_of(GROUPS / "data") == before


@pytest.mark.parametrize("directory", ["data", "data-tv0"])
def test_transactions(tools: ToolServer, directory: str) -> None:
    expected = TXN / "expected" / directory
    before = state_of(TXN / directory)
    with read_only_node(TXN / directory) as node:

        def told(name: str) -> list[list[str]]:
            return without_duration(cells((expected / f"{name}.txt").read_text(), node.bootstrap))

        assert printed(tools, node, TRANSACTIONS_TOOL, "list") == told("transactions-list")
        names = [path.stem.removeprefix("transactions-describe-") for path in expected.glob("transactions-describe-*")]
        assert len(names) == 6
        for name in names:
            found = printed(tools, node, TRANSACTIONS_TOOL, "describe", "--transactional-id", name)
            assert without_duration(found) == told(f"transactions-describe-{name}")
        assert len(printed(tools, node, TRANSACTIONS_TOOL, "find-hanging", "--broker-id", "1")) == 1
        at = ["--topic", "t-hang", "--partition", "0", "--start-offset", "6"]
        refused = tools.run(TRANSACTIONS_TOOL, ["--bootstrap-server", node.bootstrap, "abort", *at])
        assert refused.exit == 1
        assert "Failed to abort transaction" in refused.stderr
    assert state_of(TXN / directory) == before


def without_duration(lines: list[list[str]]) -> list[list[str]]:
    """Remove the duration of a transaction, which is printed behind its begin; sort partitions."""
    if not any(DURATION in line for line in lines):
        return lines
    return [[*line[:7], *(",".join(sorted(each.split(","))) for each in line[8:])] for line in lines]
