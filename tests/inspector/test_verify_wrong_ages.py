"""Segments that retention.ms deletes after a start, as their time indexes say that they are older than they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.verification import Verification
from kcli.log.recovery.retention import timestamp_of
from tests.cli.run import kcli
from tests.conftest import GOLDEN

PARTITION = "java-none-0"
SECOND = 108
"""The base offset of its second segment."""
DAY_MS = 86_400_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a log directory of Kafka, with the metadata log of its topics, which do not set their retention."""
    return Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))


@pytest.fixture
def server(directory: Path) -> Mapping[str, str]:
    """Return a configuration with which all records of PARTITION are a day too young for retention."""
    oldest = timestamp_of(directory / PARTITION / f"{0:020}.log")
    return {"log.retention.ms": str(time.time_ns() // 1_000_000 - oldest + DAY_MS)}


def too_old(directory: Path, server: Mapping[str, str]) -> list[Finding]:
    found = Verification([directory], server=server).findings()
    return [each for each in found if each.kind == "timeindex-too-old"]


def recovered(directory: Path, server: Mapping[str, str], *options: str | Path) -> tuple[int, str]:
    config = directory.parent / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in server.items()))
    ended = kcli("recover", "--config", config, *options, directory)
    return ended.status, ended.stdout


def with_last_timestamp(times: Path, timestamp: int) -> None:
    data = bytearray(times.read_bytes())
    data[-12:-4] = timestamp.to_bytes(8, signed=True)
    times.write_bytes(data)


def with_zeros(times: Path) -> None:
    times.write_bytes(bytes(times.stat().st_size))


def with_old_log(times: Path) -> None:
    times.write_bytes(b"")
    os.utime(times.with_suffix(".log"), (1, 1))


def with_earlier_timestamp(times: Path) -> None:
    with_last_timestamp(times, 1)


@pytest.mark.parametrize("damage", [with_earlier_timestamp, with_zeros, with_old_log])
def test_the_offsets_that_retention_deletes_are_named(directory: Path, server: Mapping[str, str], damage) -> None:  # type: ignore[no-untyped-def]
    assert too_old(directory, server) == []
    before, _ = recovered(directory, server)
    times = directory / PARTITION / f"{0:020}.timeindex"
    damage(times)
    (finding,) = too_old(directory, server)
    assert (finding.severity, finding.path) == ("error", str(times))
    assert (finding.lost_first_offset, finding.lost_last_offset) == (0, SECOND - 1)
    assert "30 s later deletes offsets 0..107" in finding.action
    status, text = recovered(directory, server)
    assert (before, status) == (0, 1)
    assert f"expired          {PARTITION}/{times.name}" in text
    assert "deletes 1 segment, offsets 0..107" in text
    status, text = recovered(directory, server, "--salvage", "--out", directory.parent / "new")
    assert "expired" not in text
    assert too_old(directory.parent / "new", server) == []
    subprocess.run(["bash", "-c", str(finding.command)], check=True)
    assert too_old(directory, server) == []
    assert "expired" not in recovered(directory, server)[1]


@pytest.mark.parametrize("days", [1, 100_000])
def test_a_timestamp_in_the_future_keeps_segments(directory: Path, server: Mapping[str, str], days: int) -> None:
    times = directory / PARTITION / f"{0:020}.timeindex"
    future = time.time_ns() // 1_000_000 + days * DAY_MS
    with_last_timestamp(times, future)
    found = [each for each in Verification([directory], server=server).findings() if each.path == str(times)]
    (finding,) = [each for each in found if each.severity == "error"]
    assert (finding.kind, finding.offset) == ("timeindex-too-young", 0)
    assert f"{future:,}" in str(finding.found)
    assert "deletes neither this segment nor those behind it" in finding.action
    subprocess.run(["bash", "-c", str(finding.command)], check=True)
    assert not [each for each in Verification([directory], server=server).findings() if each.kind == finding.kind]


def test_the_first_segment_that_is_young_keeps_those_behind(directory: Path, server: Mapping[str, str]) -> None:
    second = directory / PARTITION / f"{SECOND:020}.timeindex"
    with_zeros(second)
    assert too_old(directory, server) == []
    assert recovered(directory, server)[0] == 0
    with_zeros(directory / PARTITION / f"{0:020}.timeindex")
    assert [each.lost_first_offset for each in too_old(directory, server)] == [0, SECOND]
    assert "deletes 2 segments, offsets 0..201" in recovered(directory, server)[1]


@pytest.mark.parametrize(
    "other", [{"log.cleanup.policy": "compact"}, {"log.retention.ms": "-1"}, {"log.retention.ms": "1"}]
)
def test_retention_does_not_delete_them_by_mistake(directory: Path, other: Mapping[str, str]) -> None:
    """The policy has no `delete`, there is no limit, or they are old indeed."""
    with_zeros(directory / PARTITION / f"{0:020}.timeindex")
    assert too_old(directory, other) == []
    assert "expired" not in recovered(directory, other)[1]


def test_the_configuration_is_not_known(directory: Path, server: Mapping[str, str], tmp_path: Path) -> None:
    with_zeros(directory / PARTITION / f"{0:020}.timeindex")
    alone = Path(shutil.copytree(directory / PARTITION, tmp_path / "alone" / PARTITION))
    assert too_old(alone, server) == []
    assert "expired" not in recovered(alone, server)[1]
