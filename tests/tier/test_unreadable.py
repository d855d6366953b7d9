"""What the system does not let kcli read, of a tier or of the log directory, is not called missing or lost: it is
named, and the exit status is 2.

Permissions do not bind root: for root, the commands run without the capabilities that pass over them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.cli.test_unreadable import loop
from tests.tier.stores import SHORT, Copy

AS_OTHERS = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
WORDS = ("lost", "missing", "tier-gap", "tier-metadata", "no segment in the tier")


def log(copy: Copy) -> list[Path]:
    return [copy.object(172, ".log")]


def epochs(copy: Copy) -> list[Path]:
    return [copy.object(253, ".leader_epoch_checkpoint")]


def partition(copy: Copy) -> list[Path]:
    return [copy.remote / "kafka-tiered-storage" / SHORT]


def metadata_directories(copy: Copy) -> list[Path]:
    return sorted(copy.data.glob("__remote_log_metadata-*"))


def metadata_logs(copy: Copy) -> list[Path]:
    return sorted(copy.data.glob("__remote_log_metadata-*/*.log"))


def cluster_metadata(copy: Copy) -> list[Path]:
    return sorted(copy.data.glob("__cluster_metadata-0/*.log"))


def local_topic_id(copy: Copy) -> list[Path]:
    return [copy.data / "r-short-0/partition.metadata"]


def local_epochs(copy: Copy) -> list[Path]:
    return [copy.data / "r-short-0/leader-epoch-checkpoint"]


def run(copy: Copy, closed: list[Path], mode: int, *arguments: object) -> tuple[int, str]:
    """Return the exit status and the output of kcli tier, with this mode of the paths."""
    whole = {path: path.stat().st_mode for path in closed}
    for path in closed:
        path.chmod(mode)
    words = [*AS_OTHERS, sys.executable, "-m", "kcli", "tier", *arguments, "--tier", copy.remote]
    ended = subprocess.run([str(each) for each in words], capture_output=True, text=True, check=False, timeout=60)
    for path, before in whole.items():
        path.chmod(before)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.skipif(AS_OTHERS != [] and shutil.which("setpriv") is None, reason="root, and no setpriv")
@pytest.mark.parametrize(
    ("which", "mode", "is_alone", "commands"),
    [
        (log, 0, True, "list verify fetch"),
        (log, 0, False, "verify fetch"),
        (epochs, 0, True, "list verify fetch"),
        (partition, 0o444, True, "list verify fetch"),
        (partition, 0o444, False, "list verify orphans fetch"),
        (metadata_directories, 0, False, "list verify orphans fetch"),
        (metadata_logs, 0, False, "list verify orphans fetch"),
        (cluster_metadata, 0, False, "list verify orphans fetch"),
        (local_topic_id, 0, False, "list verify orphans fetch"),
        (local_epochs, 0, False, "list verify orphans fetch"),
    ],
)
def test_what_may_not_be_read(
    tmp_path: Path, which: Callable[[Copy], list[Path]], mode: int, is_alone: bool, commands: str
) -> None:
    copy, new = Copy.of_golden(tmp_path), tmp_path / "new"
    closed = which(copy)
    assert closed
    for command in commands.split():
        words = [command, *([] if is_alone else [copy.data])]
        words += ["--topic", "r-short", "--out", new] if command == "fetch" else []
        status, told = run(copy, closed, mode, *words)
        assert status == 2, told
        assert any(str(closed[0]) in line and "Permission denied" in line for line in told.splitlines()), told
        assert f"{closed[0]}: {closed[0]}" not in told
        assert "Traceback" not in told
        assert not [word for word in WORDS if word in told], told
        assert command != "list" or mode or "  172.." in told
        assert not new.exists()


def test_a_link_to_itself_in_the_metadata_log(tmp_path: Path) -> None:
    copy = Copy.of_golden(tmp_path)
    for path in metadata_logs(copy):
        loop(path)
    for command in ("list", "verify", "orphans"):
        ended = kcli("tier", command, copy.data, "--tier", copy.remote)
        assert ended.status == 2
        assert "Too many levels of symbolic links" in ended.stderr
        assert not [word for word in WORDS if word in ended.stdout], ended.stdout
