"""A search that finds nothing says so on stderr; it is no failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN

GROUPS, TRANSACTIONS = GOLDEN / "groups/data", GOLDEN / "txn/data"
LOG = GOLDEN / "codecs/data/java-lz4-0"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["groups", "list", "--state", "Dead", "--data-dir", GROUPS], "no group matches"),
        (["groups", "list", "--type", "Streams", "--data-dir", GROUPS], "no group matches"),
        (["transactions", "list", "--producer-id", "999", "--data-dir", TRANSACTIONS], "no transactional id matches"),
        (["transactions", "find-hanging", "--data-dir", TRANSACTIONS], "no transaction hangs"),
        (["dump-segment", "--key", "nope", LOG], "no record is selected"),
        (["dump-segment", "--from-offset", "999999", LOG], "no record is selected"),
        (["compact", "--why", "nope", GOLDEN / "compact/before"], "no record has this key"),
    ],
)
@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_nothing_found(arguments: list[str | Path], words: str, output: str) -> None:
    command, *rest = arguments
    subcommand = [rest.pop(0)] if command in ("groups", "transactions") else []
    ended = kcli(command, *subcommand, "--format", output, *rest)
    assert ended.complaint == f"kcli: {words}"
    assert ended.status == 0


def test_what_is_found_is_not_commented() -> None:
    searches: list[list[str | Path]] = [["groups", "list", "--data-dir", GROUPS], ["dump-segment", "--limit", "1", LOG]]
    for arguments in searches:
        ended = kcli(*arguments)
        assert ended.stdout
        assert not ended.stderr


@pytest.mark.parametrize("producer_id", ["-2", str(2**63)])
def test_a_producer_id_that_no_batch_can_have_is_refused(producer_id: str) -> None:
    ended = kcli("dump-segment", "--producer-id", producer_id, LOG)
    assert ended.status == 2
    assert not ended.stdout
