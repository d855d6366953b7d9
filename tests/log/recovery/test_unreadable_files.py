"""Salvage keeps the readable parts of a partition; without salvage a file that cannot be read ends its plan."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from kcli.errors import UnreadableInput
from kcli.inspector.cluster_metadata import read_image
from kcli.log.disk import Disk
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.apply import write_copy
from kcli.log.recovery.loader import LoadOptions
from kcli.log.recovery.plan import plan
from kcli.log.recovery.readable_part import BLOCK_BYTES, readable_part, unread_bytes
from kcli.log.recovery.run import Recovery
from kcli.metadata_log.recovery import MetadataRecovery
from tests.bad_sectors import SECTOR_BYTES, break_sectors
from tests.conftest import GOLDEN
from tests.log.batches import NOW_MS
from tests.log.live.test_partition_log_crash import batches_of
from tests.log.live.test_partition_log_lifecycle import filled
from tests.log.recovery.test_recover_salvage import reopened

ONE = {"segment.index.bytes": "4096", "index.interval.bytes": "100"}
OPTIONS = LoadOptions(NOW_MS)
INDEXED = LoadOptions(NOW_MS, index_interval_bytes=100, max_index_bytes=4096)


def read(content: Content) -> bytes:
    source = ContentSource("", content)
    data = bytearray(content.size)
    assert source.read_at(0, memoryview(data)) == len(data)
    source.close()
    return bytes(data)


@pytest.mark.parametrize("seed", range(10))
def test_bad_sectors_read_as_zeros(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random, path = Random(seed), tmp_path / "log"
    data = random.randbytes(random.randrange(3 << 20))
    path.write_bytes(data)
    sectors = random.sample(range(len(data) // SECTOR_BYTES + 1), 20)
    break_sectors(monkeypatch, path, sectors)
    expected = bytearray(data)
    for start in {sector * SECTOR_BYTES // BLOCK_BYTES * BLOCK_BYTES for sector in sectors}:
        block = expected[start : start + BLOCK_BYTES]
        expected[start : start + BLOCK_BYTES] = bytes(len(block))
    found = readable_part(path)
    assert read(found) == expected
    assert unread_bytes(found) <= 20 * BLOCK_BYTES


@pytest.mark.parametrize("sector", [0, 3, 9, 11])
def test_the_batches_in_readable_blocks_are_kept(tmp_path: Path, sector: int, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    log = filled(directory, ONE, count=60)
    batches = batches_of(log)
    log.close(0)
    (path,) = directory.glob("*.log")
    ends = [sum(len(data) for _, data in batches[: number + 1]) for number in range(len(batches))]
    start = sector * SECTOR_BYTES // BLOCK_BYTES * BLOCK_BYTES
    expected = [
        each
        for each, end in zip(batches, ends, strict=True)
        if end <= start or end - len(each[1]) >= start + BLOCK_BYTES
    ]
    assert 0 < len(expected) < len(batches)
    with monkeypatch.context() as broken:
        break_sectors(broken, path, [sector])
        with pytest.raises(UnreadableInput) as error:
            plan(directory, OPTIONS, with_salvage=True)
        assert error.value.is_disk_error
        assert error.value.path == str(path)
        planned = plan(directory, OPTIONS, with_salvage=True, rescue=True)
        (unread,) = planned.saved.unread
        assert (unread.file, unread.readable_bytes) == (path.name, path.stat().st_size - BLOCK_BYTES)
        assert not planned.has_losses
        write_copy(planned.view.files, Disk(), tmp_path / "copy")
    assert batches_of(reopened(tmp_path / "copy")) == expected


@pytest.mark.parametrize("name", ["*.index", "*.timeindex", "leader-epoch-checkpoint", "*.snapshot"])
def test_what_a_start_rebuilds_is_left_out(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    log = filled(directory, ONE, count=60, epoch=3)
    batches = batches_of(log)
    log.close(0)
    path = max(directory.glob(name), key=lambda each: each.stat().st_size)
    before = path.read_bytes()
    with monkeypatch.context() as broken:
        break_sectors(broken, path, [0])
        planned = plan(directory, INDEXED, with_salvage=True, rescue=True)
        write_copy(planned.view.files, Disk(), tmp_path / "copy")
    assert {each.file for each in planned.saved.unread} <= {path.name}  # a start that rebuilds a file need not read it
    assert not planned.saved.gaps
    assert (tmp_path / "copy" / path.name).read_bytes() == before
    assert batches_of(reopened(tmp_path / "copy")) == batches


def test_the_metadata_log_is_salvaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its topics are known again, from the records behind the bad sector and from the directories."""
    directory, target = tmp_path / "logs", tmp_path / "new"
    shutil.copytree(GOLDEN / "groups/data", directory)
    log = directory / "__cluster_metadata-0/00000000000000000000.log"
    whole = read_image(directory)
    break_sectors(monkeypatch, log, [log.stat().st_size // SECTOR_BYTES // 2])
    metadata = MetadataRecovery(directory, {}, NOW_MS, wants_salvage=True)
    recovery = Recovery(directory, NOW_MS, salvage=True, metadata=metadata.take, identities=metadata.identities)
    planned = {each.name: each for each in recovery.write_to(target)}["__cluster_metadata-0"]
    assert not recovery.unreadable
    assert [each.file for each in planned.saved.unread] == [log.name]
    assert metadata.is_salvaged
    found = read_image(target)
    assert whole is not None
    assert found is not None
    assert {topic.name for topic in found.topics.values()} == {topic.name for topic in whole.topics.values()}


def test_the_path_of_what_cannot_be_accessed_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.symlink_to(path.name)
    with pytest.raises(UnreadableInput) as error:
        plan(tmp_path, OPTIONS)
    assert error.value.path == str(path)
