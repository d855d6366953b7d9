"""A file that has its length and nothing but zeros is named as one: no older version, no other format."""

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud

__all__ = ["directory"]  # a fixture

ZEROS = "bytes, all zeros, as a crash of the file system or a copy with holes leaves them"
FILES = (
    "meta.properties",
    "bootstrap.checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "__cluster_metadata-0/quorum-state",
    "__cluster_metadata-0/partition.metadata",
    f"{PARTITION}/partition.metadata",
    f"{PARTITION}/leader-epoch-checkpoint",
    f"{PARTITION}/00000000000000000000.log",
    f"{PARTITION}/00000000000000000000.index",
    f"{PARTITION}/00000000000000000000.timeindex",
)


def found(home: Path, path: Path, size: int | None = None) -> str:
    """What the one finding about a file says whose bytes are zeros. size: the bytes; None for those that it has."""
    path.write_bytes(bytes(path.stat().st_size if size is None else size))
    (finding,) = (each for each in loud(home) if each.path == str(path))
    return str(finding.found)


@pytest.mark.parametrize("name", FILES)
def test_each_file(directory: Path, name: str) -> None:
    path = directory / name
    assert found(directory, path).startswith(f"{path.stat().st_size:,} {ZEROS}")


def test_a_snapshot(directory: Path) -> None:
    path = max((directory / PARTITION).glob("*.snapshot"))
    assert found(directory, path) == f"{path.stat().st_size:,} {ZEROS}"


def test_a_transaction_index(tmp_path: Path) -> None:
    home = Path(shutil.copytree(GOLDEN / "txn" / "data", tmp_path / "data", copy_function=shutil.copyfile))
    path = max(home.glob("*/*.txnindex"), key=lambda each: each.stat().st_size)
    assert found(home, path) == f"{path.stat().st_size:,} {ZEROS}"


def test_a_metadata_snapshot(tmp_path: Path) -> None:
    source = GOLDEN / "kraft" / "controller-100"
    home = Path(shutil.copytree(source, tmp_path / "data", copy_function=shutil.copyfile))
    path = max((home / "__cluster_metadata-0").glob("*.checkpoint"))
    path.write_bytes(bytes(path.stat().st_size))
    assert [each for each in loud(home) if each.path == str(path) and ZEROS in str(each.found)]


@pytest.mark.parametrize("size", [30, 511, (2 << 20) + 5])
def test_a_log_of_any_size(directory: Path, size: int) -> None:
    assert found(directory, logs(directory)[1], size).startswith(f"{size:,} {ZEROS}: ")


@pytest.mark.parametrize("size", [10, 4096])
def test_one_beside_the_whole_log_is_no_older_version(directory: Path, size: int) -> None:
    log = logs(directory)[1]
    whole = log.rename(log.with_name(f"{log.name}.bak"))
    log.touch()
    assert found(directory, log, size) == f"{size:,} {ZEROS}; all batches are in {whole}"


def test_a_log_with_another_byte_is_none(directory: Path) -> None:
    log = logs(directory)[1]
    log.write_bytes(bytes(2 << 20) + b"\1")
    assert not [each for each in loud(directory) if ZEROS in str(each.found)]


@pytest.mark.parametrize("size", [5000, 8 << 20])
def test_a_log_that_was_extended(directory: Path, size: int) -> None:
    log = logs(directory)[-1]
    end = log.stat().st_size
    os.truncate(log, end + size)
    (finding,) = [each for each in loud(directory) if each.path == str(log)]
    assert str(finding.found).startswith(f"{size:,} bytes of zeros at byte {end:,}")
