"""What a start after a crash makes anew from the batches is shown before: a producer snapshot that cannot be read, a
transaction index that was lost.

Kafka 4.3 did both: it wrote a snapshot of 0 bytes anew, and a transaction index of as many entries.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN

PARTITION = "t-mix-0"
KINDS = ("snapshot-removed", "index-rebuilt")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "txn/data", tmp_path / "data", copy_function=shutil.copyfile))


def last(data: Path, suffix: str) -> Path:
    return max((data / PARTITION).glob(f"*{suffix}"))


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    ended = kcli("recover", "--format", "jsonl", *arguments)
    return [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] in KINDS]


@pytest.mark.parametrize("content", [b"", b"\0\1 no snapshot"])
def test_a_snapshot_that_cannot_be_read(data: Path, content: bytes) -> None:
    partition, snapshot = data / PARTITION, last(data, ".snapshot")
    assert rows("--unclean", partition) == []
    whole = snapshot.read_bytes()
    snapshot.write_bytes(content)
    (row,) = rows("--unclean", partition)
    assert (row["kind"], row["file"]) == ("snapshot-removed", snapshot.name)
    assert row["reason"].startswith("producer snapshot is corrupt: ")
    assert row["reason"].endswith(", and made anew from the log")
    (row,) = rows("--unclean", "--in-place", partition)
    assert row["file"] == snapshot.name
    assert snapshot.read_bytes() == whole
    assert rows("--unclean", partition) == []


def test_a_lost_transaction_index(data: Path) -> None:
    partition, index = data / PARTITION, last(data, ".txnindex")
    whole = index.read_bytes()
    assert whole
    for lose in (index.unlink, lambda: index.write_bytes(b"")):
        lose()
        (row,) = rows("--unclean", partition)
        assert (row["kind"], row["file"]) == ("index-rebuilt", index.name)
        assert row["reason"].startswith("the transaction index lacks ")
        rows("--unclean", "--in-place", partition)
        assert index.read_bytes() == whole
    assert rows("--unclean", partition) == []


@pytest.mark.parametrize("name", ["txn/data", "txn/data-tv0", "unclean/crashed", "codecs/data", "groups/data"])
def test_files_that_a_start_writes_with_the_same_content_are_not_named(name: str) -> None:
    assert [row["file"] for row in rows("--unclean", GOLDEN / name) if row["kind"] == "snapshot-removed"] == []
    assert [row["file"] for row in rows("--unclean", GOLDEN / name) if row["file"].endswith(".txnindex")] == []
