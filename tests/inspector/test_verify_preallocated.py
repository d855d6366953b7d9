"""Active segments with their full size from the beginning, zeros behind their last batch (preallocate=true)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kcli.inspector.verify.verification import Verification
from tests.cli.run import kcli
from tests.conftest import GOLDEN

PARTITION = "rdk-none-0"
SEGMENT_BYTES = 1 << 20
SERVER = {"log.preallocate": "true", "log.segment.bytes": str(SEGMENT_BYTES)}


@pytest.fixture
def active(tmp_path: Path) -> Path:
    """Return the .log file of an active segment, in a log directory of Kafka that was not shut down in order."""
    directory = Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    log = max((directory / PARTITION).glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(SEGMENT_BYTES)
    return log


def kinds(log: Path, server: dict[str, str]) -> list[tuple[str, str]]:
    found = Verification([log.parents[1]], server=server).findings()
    return [(each.kind, each.severity) for each in found if each.path == str(log)]


def recovered(log: Path, server: dict[str, str], config: Path) -> set[str]:
    """Return the kinds of the rows of a dry run of recover for the segment."""
    config.write_text("".join(f"{name}={value}\n" for name, value in server.items()))
    options = ["--dry-run", "--unclean", "--format", "jsonl", "--config", str(config)]
    done = kcli("recover", *options, str(log.parents[1]))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["kind"] for row in rows if row.get("partition") == PARTITION and row.get("file") == log.name}


def test_preallocated_zeros_are_no_damage(active: Path, tmp_path: Path) -> None:
    assert kinds(active, SERVER) == [("log-slack", "info")]
    assert recovered(active, SERVER, tmp_path / "server.properties") == {"trimmed"}


@pytest.mark.parametrize(("size", "server"), [(SEGMENT_BYTES, {}), (SEGMENT_BYTES - 1, SERVER)])
def test_other_zeros_are(active: Path, size: int, server: dict[str, str], tmp_path: Path) -> None:
    with active.open("r+b") as file:
        file.truncate(size)
    assert kinds(active, server) == [("batch-length", "error")]
    assert recovered(active, server, tmp_path / "server.properties") == {"cut"}


def test_a_byte_behind_the_last_batch_is(active: Path, tmp_path: Path) -> None:
    with active.open("r+b") as file:
        file.seek(SEGMENT_BYTES - 1)
        file.write(b"x")
    assert kinds(active, SERVER) == [("batch-length", "error")]
    assert recovered(active, SERVER, tmp_path / "server.properties") == {"cut"}
