"""Segments that Kafka would not open: larger than 2^31 - 1 bytes. They are sparse, and nothing behind that is read."""

import os
from pathlib import Path

import pytest

from formats.errors import LimitExceeded
from kcli.errors import UnreadableInput
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import SEGMENT_BYTES_MAX, FileSource, open_source
from tests.cli.run import kcli
from tests.conftest import SAMPLES

NAME = "00000000000000000000.log"
TOO_LARGE = "1,099,511,627,776 bytes, and Kafka opens no segment of more than 2,147,483,647"
PATIENCE_S = 200
"""To read all of a terabyte of zeros would take an hour."""


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A log of one sound batch, and zeros up to a terabyte."""
    data = (SAMPLES / "good" / "java-zstd-0" / NAME).read_bytes()
    directory = tmp_path / "sparse-0"
    directory.mkdir()
    with (directory / NAME).open("wb") as log:
        log.write(data[: 12 + int.from_bytes(data[8:12], "big")])
        log.truncate(1 << 40)
    return directory


def test_what_is_behind_is_damage(partition: Path) -> None:
    source = FileSource(partition / NAME)
    window, zeros, behind = read_segment(source)
    source.close()
    assert isinstance(window, Window)
    assert isinstance(zeros, Damage)
    assert zeros.position + zeros.length == SEGMENT_BYTES_MAX
    assert isinstance(behind, Damage)
    assert isinstance(behind.error, LimitExceeded)
    assert (behind.position, behind.position + behind.length) == (SEGMENT_BYTES_MAX, 1 << 40)


@pytest.mark.parametrize("arguments", [[], ["--format", "jsonl"], ["--format", "kafka"]])
def test_dump(partition: Path, arguments: list[str]) -> None:
    ended = kcli("dump-segment", *arguments, partition / NAME, timeout=PATIENCE_S)
    assert ended.status == 1
    assert TOO_LARGE in ended.stdout + ended.stderr


def test_verify(partition: Path) -> None:
    ended = kcli("verify", "--format", "jsonl", partition, timeout=PATIENCE_S)
    assert (ended.status, ended.stderr) == (1, "")


@pytest.mark.parametrize("arguments", [[], ["--clean"]])
def test_kafka_does_not_start_with_it(partition: Path, arguments: list[str]) -> None:
    ended = kcli("recover", *arguments or ["--unclean"], partition)
    assert ended.status == 1
    assert f"Kafka would not start: {TOO_LARGE}" in ended.stdout


def test_an_endless_device(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to("/dev/zero")
    with pytest.raises(UnreadableInput, match="a device, which may be endless"):
        open_source(tmp_path / NAME)
    assert kcli("dump-segment", tmp_path / NAME).status == 2


def test_no_bytes_of_a_device(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(os.devnull)
    source = open_source(tmp_path / NAME)
    assert source.size() == 0
    source.close()
