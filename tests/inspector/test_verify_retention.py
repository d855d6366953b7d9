"""Segments below the log's first one that retention can have deleted, though the first leader epoch begins below."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.verification import Verification
from kcli.log.recovery.retention import NEVER, timestamp_of
from tests.cli.run import kcli
from tests.conftest import GOLDEN

PARTITION = "java-none-0"
SECOND = 108
"""The base offset of its second segment, the first one after the removal."""
KEPT_BYTES = 30_581
"""The size of its .log files without the first."""
EPOCHS = "leader-epoch-checkpoint"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a log directory of Kafka, with the metadata log of its topics, which do not set their retention."""
    return Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))


def first_files(directory: Path) -> list[Path]:
    return sorted((directory / PARTITION).glob(f"{0:020}.*"))


def remove_first(directory: Path) -> None:
    for path in first_files(directory):
        path.unlink()


def delete_first(directory: Path) -> None:
    """Rename the files of the first segment as Kafka does before it deletes them."""
    for path in first_files(directory):
        path.rename(path.with_name(f"{path.name}.deleted"))


def loud(directory: Path, server: Mapping[str, str]) -> list[Finding]:
    return [each for each in Verification([directory], server=server).findings() if each.severity != "info"]


def age(directory: Path, base: int) -> int:
    """Return the age of a segment's last record at the last append to the metadata log, in ms."""
    ran_ms = timestamp_of(directory / "__cluster_metadata-0" / f"{0:020}.log")
    return ran_ms - timestamp_of(directory / PARTITION / f"{base:020}.log")


@pytest.mark.parametrize("limit", [0, KEPT_BYTES])
def test_the_size_shows_that_retention_can_have_deleted_them(directory: Path, limit: int) -> None:
    remove_first(directory)
    server = {"log.retention.bytes": str(limit)}
    (finding,) = loud(directory, server)
    path = directory / PARTITION / EPOCHS
    assert (finding.kind, finding.severity, finding.path) == ("checkpoint-offset", "warning", str(path))
    assert f"offsets 0..107: the log has 30,581 bytes, and retention.bytes is {limit:,}" in str(finding.found)
    assert finding.lost_first_offset is None
    subprocess.run(["bash", "-c", str(finding.command)], check=True)
    assert path.read_text() == "0\n2\n0 108\n2 166\n"
    assert loud(directory, server) == []


@pytest.mark.parametrize(
    "server",
    [
        {},
        {"log.retention.bytes": "-1", "log.retention.ms": "-1"},
        {"log.retention.bytes": str(KEPT_BYTES + 1)},
        {"log.retention.bytes": "0", "log.cleanup.policy": ""},
    ],
)
def test_they_are_lost_where_retention_cannot_have_deleted_them(directory: Path, server: Mapping[str, str]) -> None:
    """With Kafka's default all segments are too old: retention would have deleted more than the first."""
    remove_first(directory)
    (finding,) = loud(directory, server)
    assert (finding.kind, finding.severity) == ("log-missing", "error")
    assert (finding.lost_first_offset, finding.lost_last_offset) == (0, SECOND - 1)


@pytest.mark.parametrize("is_kept", [False, True])
def test_the_timestamps_show_that_retention_can_have_deleted_them(directory: Path, is_kept: bool) -> None:
    oldest, following = age(directory, 0), age(directory, SECOND)
    (delete_first if is_kept else remove_first)(directory)
    (finding,) = loud(directory, {"log.retention.ms": str(following)})
    assert (finding.kind, finding.path) == ("checkpoint-offset", str(directory / PARTITION / EPOCHS))
    assert f"ms old, and retention.ms is {following:,}" in str(finding.found)
    (finding,) = loud(directory, {"log.retention.ms": str(oldest + 1)})  # the first segment was too young
    assert finding.kind == ("log-deleted" if is_kept else "log-missing")
    (finding,) = loud(directory, {"log.retention.ms": str(following - 300_001)})  # the second one was too old as well
    assert finding.kind == ("log-deleted" if is_kept else "log-missing")


def test_the_deleted_files_are_not_called_lost(directory: Path) -> None:
    delete_first(directory)
    config, narrow = directory.parent / "server.properties", {"log.retention.bytes": str(KEPT_BYTES)}
    config.write_text(f"log.retention.bytes={KEPT_BYTES}\n")
    (finding,) = loud(directory, narrow)
    assert finding.kind == "checkpoint-offset"
    assert f"{0:020}.log.deleted has offsets below" in finding.action
    ended = kcli("recover", "--config", config, directory)
    assert ended.status == 0
    assert "was to be deleted" in ended.stdout
    assert "lost" not in ended.stdout
    kcli("recover", "--config", config, "--salvage", "--out", directory.parent / "new", directory)
    assert not (directory.parent / "new" / PARTITION / f"{0:020}.log").exists()
    assert (directory.parent / "new" / PARTITION / EPOCHS).read_text() == "0\n2\n0 108\n2 166\n"
    (finding,) = loud(directory, {"log.retention.bytes": str(KEPT_BYTES + 1)})
    assert (finding.kind, finding.severity) == ("log-deleted", "error")
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "lost: offsets 0..107" in ended.stdout


def test_the_configuration_is_not_known(directory: Path, tmp_path: Path) -> None:
    remove_first(directory)
    alone = Path(shutil.copytree(directory / PARTITION, tmp_path / "alone" / PARTITION))
    (finding,) = loud(alone, {})
    assert (finding.kind, finding.severity, finding.path) == ("checkpoint-offset", "warning", str(alone / EPOCHS))
    assert "the topic's configuration is not known" in str(finding.found)


def test_the_first_log_is_there_under_another_name(directory: Path) -> None:
    log = directory / PARTITION / f"{0:020}.log"
    for path in first_files(directory):
        if path != log:
            path.unlink()
    log.rename(log.with_name(f"{log.name}.bak"))
    found = [each for each in loud(directory, {"log.retention.bytes": "0"}) if each.kind == "log-missing"]
    assert [each.severity for each in found] == ["error"]
    assert f"{log.name}.bak" in str(found[0].found)


def test_a_log_without_batches_has_no_timestamp(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    assert timestamp_of(log) == NEVER
    log.write_bytes(b"")
    assert timestamp_of(log) == NEVER
