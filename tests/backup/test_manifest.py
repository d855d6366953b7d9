"""Manifests that somebody else has written: one line, and nothing outside of the new directory."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN


def forged(store: Path, change: dict[str, Any]) -> None:
    """Replace the manifest by one with other values, whose digest is right."""
    (path,) = (store / "manifests").iterdir()
    value = json.loads(path.read_bytes())
    top = {key: each for key, each in change.items() if key in value}
    value |= top
    value["partitions"][0] |= {key: each for key, each in change.items() if key not in top}
    data = json.dumps(value).encode()
    path.unlink()
    digest = hashlib.sha256(data).hexdigest()[:32]
    (path.parent / f"{path.name.split('-')[0]}-{digest}.json").write_bytes(data)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"version": 3}, "version 3, and kcli knows 2"),
        ({"version": 2}, "no manifest of a backup"),
        ({"directory": 1}, "no manifest of a backup"),
        ({"directory": -1}, "no manifest of a backup"),
        ({"partitions": [{}]}, "no manifest of a backup"),
        ({"topic": "../../evil"}, "Topic name is invalid"),
        ({"topic": 3}, "no manifest of a backup"),
        ({"partition": -1}, "no manifest of a backup"),
        ({"segments": 7}, "no manifest of a backup"),
        ({"snapshots": {"../../evil": ["a/b", 1, "0" * 64]}}, "is no snapshot"),
        ({"segments": [{"base": 0, "last": None, "parts": [["../x", 1, "0" * 64]], "tail": None,
                        "txn_index": None, "snapshot": None}]}, "no object can have this name"),
        ({"settled": [0]}, "no manifest of a backup"),
        ({"at": 2**70}, "no manifest of a backup"),
        ({"meta_properties": "\ud800"}, "characters that are no bytes"),
        ({"files": {"bootstrap.checkpoint": ["x" * 100_000, 1, "0" * 64]}}, "an object's name has 100,000 characters"),
    ],
)  # fmt: skip
def test_a_forged_manifest(change: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    assert kcli("backup", GOLDEN / "txn/data", "--to", tmp_path / "store").status == 0
    forged(tmp_path / "store", change)
    before = sorted(tmp_path.rglob("*"))
    ended = kcli("restore", tmp_path / "store", "--out", tmp_path / "new")
    assert complaint in ended.complaint
    assert ended.status == 2
    assert sorted(tmp_path.rglob("*")) == before
