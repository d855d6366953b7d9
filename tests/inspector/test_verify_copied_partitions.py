"""A partition's directory replaced by a copy of another partition's: all its files fit each other."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from formats.kernels.crc import crc32c
from kcli.cli.options import Format
from kcli.inspector.verify import copied_partitions
from kcli.inspector.verify.copied_partitions import StoredLog
from kcli.inspector.verify.segment_names import headers
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import kcli
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
    assert [each.finding.kind for each in found] == expected


def written(offset: int, *, is_cleaned: bool) -> bytes:
    data = batch(b"x", base_offset=offset, timestamp_ms=NOW_MS + offset, producer=(offset, 0), sequence=0)
    if is_cleaned:
        del data[61:]
        data[8:12], data[57:61] = (49).to_bytes(4), bytes(4)
        data[17:21] = crc32c(data[21:]).to_bytes(4)
    return bytes(data)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a log directory in which g-a-2 is a copy of g-b-1, a partition of another topic."""
    home = Path(shutil.copytree(GOLDEN / "groups/data", tmp_path / "data"))
    shutil.rmtree(home / "g-a-2")
    shutil.copytree(home / "g-b-1", home / "g-a-2")
    return home


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    output = kcli("recover", "--format", Format.JSONL, *arguments).stdout
    found = [json.loads(each) for each in output.splitlines()]
    return [each for each in found if "g-a-2" in (each.get("partition"), each.get("file", "").partition("/")[0])]


@pytest.mark.parametrize("how", ["copy", "in place"])
def test_salvage_serves_no_records_of_another_partition(copied: Path, tmp_path: Path, how: str) -> None:
    """Kafka 4.3 served the 55 records of g-b-1 as those of g-a-2, once partition.metadata had the right id."""
    new = tmp_path / "new" if how == "copy" else copied
    found = rows("--salvage", *(["--out", new] if how == "copy" else ["--in-place"]), copied)
    left_out = [(each["file"], each["reason"]) for each in found if each["kind"] == "left-out"]
    assert left_out == [(f"{0:020}.log", "a copy of g-b-1's")]
    (lost,) = [each for each in found if each["kind"] == "end-missing"]
    assert (lost["log_end_offset"], lost["reached_offset"]) == (0, 32)  # by the checkpoints; the snapshots are of g-b-1
    assert [each["kind"] for each in found if each["kind"] == "topic-id"] == ["topic-id"]
    assert (new / "g-a-2" / f"{0:020}.log").stat().st_size == 0
    assert (new / "g-b-1" / f"{0:020}.log").read_bytes() == (GOLDEN / f"groups/data/g-b-1/{0:020}.log").read_bytes()
    assert loud(new) == []


def test_no_command_alone_makes_a_copy_the_partitions_log(copied: Path) -> None:
    findings = {each.kind: each for each in loud(copied)}
    assert findings.keys() == {"log-foreign", "partition-metadata-topic"}
    command = str(findings["partition-metadata-topic"].command)
    assert command.startswith("kcli recover --salvage --dry-run")


def test_a_copy_whose_topic_id_was_put_right(copied: Path) -> None:
    """The times of the files still tell."""
    own = (GOLDEN / "groups/data/g-a-2/partition.metadata").read_bytes()
    (copied / "g-a-2/partition.metadata").write_bytes(own)
    (finding,) = loud(copied)
    assert (finding.kind, finding.severity) == ("log-foreign", "error")
    assert "one of the two is a copy" in str(finding.found)


def test_a_copy_with_batches_of_its_own(copied: Path, tmp_path: Path) -> None:
    """Salvage leaves them where they are, and says so."""
    log = copied / "g-a-2" / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + batch(b"own", base_offset=55))
    found = rows("--salvage", "--out", tmp_path / "new", copied)
    assert not [each for each in found if each["kind"] == "left-out"]
    (passed,) = [each for each in found if each["kind"] == "passed-over" and each["file"] == f"g-a-2/{log.name}"]
    assert "a copy of g-b-1, another partition's log" in passed["reason"]
    assert "serves another partition's records here" in passed["reason"]
