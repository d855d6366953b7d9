"""The lock of a log directory: Kafka and kcli keep each other out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.log.disk import Disk
from kcli.log.log_directory import DirectoryLock, DirectoryLocked
from tests.cli.run import kcli
from tests.interop.kit import SCRIPT, kafka

NODE = f"kcli-lock-{os.getpid()}"


@pytest.fixture
def directory(kafka_jars: Path) -> Iterator[Path]:
    """The log directory of a broker that has run and is stopped."""
    kafka("start", NODE)
    kafka("stop", NODE)
    yield Path(kafka("dir", NODE).strip())
    subprocess.run([SCRIPT, "kill", NODE], capture_output=True, check=False)
    kafka("rm", NODE)


def test_kafka_and_kcli_exclude_each_other(directory: Path) -> None:
    with DirectoryLock(Disk(), directory):
        refused = subprocess.run([SCRIPT, "start", NODE], capture_output=True, text=True, timeout=180, check=False)
        assert refused.returncode != 0
        assert "Failed to acquire lock on file .lock" in kafka("log", NODE)
    kafka("start", NODE)
    with pytest.raises(DirectoryLocked):
        DirectoryLock(Disk(), directory)
    for command in ("compact", "recover"):
        ended = kcli(command, "--in-place", directory)
        assert ended.status == 1
        assert "in use by a running Kafka or kcli" in ended.complaint
    kafka("stop", NODE)
    DirectoryLock(Disk(), directory).release()
