"""A partition's directory replaced by a copy of another partition's: all its files fit each other."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from formats.kernels.crc import crc32c
from kcli.inspector.verify import copied_partitions
from kcli.inspector.verify.copied_partitions import StoredLog
from kcli.inspector.verify.segment_names import headers
from kcli.protocol.topic_partition import TopicPartition
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud
from tests.log.batches import NOW_MS, batch

__all__ = ["directory"]

OTHER = "java-none-1"


def replaced(directory: Path, name: str, source: str, copy_file: Callable[..., object] = shutil.copy2) -> None:
    shutil.rmtree(directory / name)
    shutil.copytree(directory / source, directory / name, copy_function=copy_file)


@pytest.mark.parametrize(("copy_file", "severity"), [(shutil.copy2, "error"), (shutil.copyfile, "warning")])
def test_a_copy_of_another_partition(
    directory: Path, copy_file: Callable[..., object], severity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made so soon after the original was written that the times of the inodes do not tell which one is the copy."""
    monkeypatch.setattr(copied_partitions, "TIME_SLACK_NS", 600 * 10**9)
    assert not loud(directory)
    replaced(directory, OTHER, PARTITION, copy_file)
    finding = next(each for each in loud(directory) if each.kind == "log-foreign")
    assert (finding.severity, finding.path) == (severity, str(logs(directory, OTHER)[0]))
    assert f"of {PARTITION}, with their timestamps and producers: one of the two is a copy" in str(finding.found)
    assert ("unless a producer wrote the same" in str(finding.found)) == (severity == "warning")


def test_the_times_of_the_inodes_tell_the_copy(directory: Path) -> None:
    time.sleep(copied_partitions.TIME_SLACK_NS / 10**9 + 0.1)
    replaced(directory, OTHER, PARTITION)
    finding = next(each for each in loud(directory) if each.kind == "log-foreign")
    assert (finding.severity, finding.path) == ("error", str(logs(directory, OTHER)[0]))
    assert f"a copy of {PARTITION}, another partition's log" in str(finding.found)


@pytest.mark.parametrize(("name", "other"), [("__consumer_offsets-2", "__consumer_offsets-3")])
@pytest.mark.parametrize("is_exchanged", [False, True])
def test_the_hash_of_a_group_id_tells_the_copy(tmp_path: Path, name: str, other: str, *, is_exchanged: bool) -> None:
    data = Path(shutil.copytree(GOLDEN / "groups/data", tmp_path / "data", copy_function=shutil.copyfile))
    assert not loud(data)
    copy, source = (name, other) if is_exchanged else (other, name)
    replaced(data, copy, source, shutil.copyfile)
    (finding,) = [each for each in loud(data) if each.kind == "log-foreign"]
    assert (finding.severity, finding.path) == ("error", str(logs(data, copy)[0]))
    assert f"a copy of {source}, another partition's log: the records of {copy} are not here" in str(finding.found)


@pytest.mark.parametrize(("is_cleaned", "expected"), [(True, []), (False, ["log-foreign"])])
def test_empty_batches_are_no_evidence(tmp_path: Path, *, is_cleaned: bool, expected: list[str]) -> None:
    """The cleaner keeps the last batch of each producer without records: producers that write to partitions in turn
    have the same ones in each."""
    stored = []
    for number in range(2):
        data = bytearray()
        for offset in range(5):
            data += written(offset, is_cleaned=is_cleaned)
        log = tmp_path / f"t-{number}/{0:020}.log"
        log.parent.mkdir()
        log.write_bytes(data + batch(b"%d" % number, base_offset=5))
        stored.append(StoredLog(TopicPartition("t", number), log.parent, {0: log}, next(headers(log))))
    found = copied_partitions.copied_partitions(stored, lambda _: None, lambda _: 2)
    assert [finding.kind for finding, _ in found] == expected


def written(offset: int, *, is_cleaned: bool) -> bytes:
    data = batch(b"x", base_offset=offset, timestamp_ms=NOW_MS + offset, producer=(offset, 0), sequence=0)
    if is_cleaned:
        del data[61:]
        data[8:12], data[57:61] = (49).to_bytes(4), bytes(4)
        data[17:21] = crc32c(data[21:]).to_bytes(4)
    return bytes(data)
