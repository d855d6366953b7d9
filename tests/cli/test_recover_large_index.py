"""An index of more bytes than Java can map: Kafka does not start, after a clean shutdown or a crash."""

import json
import os
import shutil
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.log.partition_view import INT_MAX
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud

__all__ = ["directory"]  # a fixture


@pytest.mark.parametrize("kind", [FileKind.OFFSET_INDEX, FileKind.TIME_INDEX])
@pytest.mark.parametrize("option", ["--clean", "--unclean"])
def test_of_the_active_segment(directory: Path, tmp_path: Path, kind: FileKind, option: str) -> None:
    before = b"".join(path.read_bytes() for path in logs(directory))
    index = logs(directory)[-1].with_suffix(kind)
    os.truncate(index, INT_MAX + 1)  # sparse
    ended = kcli("recover", option, "--format", "jsonl", directory)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    (row,) = (row for row in rows if row["kind"] == "refused")
    assert (row["partition"], row["file"]) == (PARTITION, index.name)
    assert "Integer.MAX_VALUE" in row["reason"]
    assert ended.status == 1
    found = [each for each in loud(directory) if each.path == str(index)]
    assert [(each.kind, each.severity) for each in found][:1] == [(f"{kind.removeprefix('.')}-length", "error")]
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    kcli("recover", "--salvage", option, "--out", tmp_path / "new", directory)
    assert b"".join(path.read_bytes() for path in logs(tmp_path / "new")) == before
    assert (tmp_path / "new" / PARTITION / index.name).stat().st_size < INT_MAX
