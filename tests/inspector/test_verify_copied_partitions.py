"""A partition's directory replaced by a copy of another partition's: all its files fit each other."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.inspector.verify import copied_partitions
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud

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
