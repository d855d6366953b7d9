"""Files that nobody may change, because of an attribute of chattr: Kafka does not start with them."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.log.attributes import attributes_of
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud, nexts, run

__all__ = ["directory"]  # a fixture


@pytest.fixture
def sealable(directory: Path) -> Iterator[Path]:
    """A log directory in which files can get the attributes; they are taken off at the end."""
    try:
        ended = subprocess.run(["chattr", "+i", directory / "meta.properties"], check=False, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no chattr")
    if ended.returncode or attributes_of(directory / "meta.properties") != "i":
        pytest.skip("this user or this file system has no attributes")
    subprocess.run(["chattr", "-i", directory / "meta.properties"], check=True)
    yield directory
    subprocess.run(["chattr", "-R", "-f", "-ia", directory], check=False)


def seal(path: Path, attributes: str = "i") -> Path:
    subprocess.run(["chattr", f"+{attributes}", "--", path], check=True)
    return path


@pytest.mark.parametrize(("attributes", "words"), [("i", "immutable (chattr +i)"), ("a", "append only (chattr +a)")])
def test_a_log_that_nobody_may_change_is_named_first(sealable: Path, attributes: str, words: str) -> None:
    log = seal(logs(sealable)[0], attributes)
    logs(sealable)[1].with_suffix(".index").write_bytes(b"damage")
    ended = run(sealable.name, cwd=sealable.parent)
    assert ended.returncode == 1
    first = loud(sealable)[0]
    assert (first.kind, first.severity, first.path) == ("file-attribute", "error", str(log))
    assert str(first.found).startswith(f"{words}: even root may not change it; Kafka does not start with it")
    command = next(nexts(ended.stdout))
    assert shlex.split(command) == ["chattr", f"-{attributes}", "--", str(log.relative_to(sealable.parent))]
    subprocess.run(["sh", "-c", command], check=True, cwd=sealable.parent)
    assert all(each.kind != "file-attribute" for each in loud(sealable))


def test_an_index_counts_for_the_start_in_the_active_segment(sealable: Path) -> None:
    closed = seal(logs(sealable)[0].with_suffix(".index"))
    (finding,) = loud(sealable)
    assert (finding.path, finding.refuses_start) == (str(closed), False)
    assert "the log directory goes offline when Kafka is to write or replace it" in str(finding.found)
    subprocess.run(["chattr", "-i", closed], check=True)
    seal(logs(sealable)[-1].with_suffix(".index"))
    (finding,) = loud(sealable)
    assert finding.refuses_start


def test_a_file_that_a_start_deletes_or_replaces(sealable: Path) -> None:
    left = logs(sealable)[0].with_name(f"{0:020}.index.deleted")
    left.touch()
    for path in (left, sealable / "recovery-point-offset-checkpoint", sealable / "__cluster_metadata-0/quorum-state"):
        seal(path)
        (finding,) = (each for each in loud(sealable) if each.kind == "file-attribute")
        assert (finding.path, finding.refuses_start) == (str(path), True)
        subprocess.run(["chattr", "-i", path], check=True)


def test_a_file_that_kafka_seldom_writes_is_a_warning(sealable: Path) -> None:
    """Real Kafka starts with it, and serves the partition."""
    path = seal(sealable / PARTITION / "partition.metadata")
    (finding,) = loud(sealable)
    assert (finding.path, finding.severity, finding.refuses_start) == (str(path), "warning", False)
    rows = map(json.loads, kcli("recover", "--format", "jsonl", sealable).stdout.splitlines())
    assert {"refused", "passed-over"}.isdisjoint(each["kind"] for each in rows)


def test_several_are_one_finding(sealable: Path) -> None:
    one, two = seal(logs(sealable)[0]), seal(logs(sealable)[1], "a")
    (finding,) = loud(sealable)
    assert (finding.kind, finding.path) == ("file-attribute", str(sealable))
    assert finding.consequences == {"file-attribute": 2}
    assert shlex.split(str(finding.command)) == ["chattr", "-ia", "--", str(one), str(two)]
    subprocess.run(["chattr", "-R", "+i", "--", sealable / PARTITION], check=True)
    (finding,) = loud(sealable)
    assert shlex.split(str(finding.command)) == ["chattr", "-R", "-ia", "--", str(sealable / PARTITION)]
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert loud(sealable) == []


def test_recover_tells_that_kafka_does_not_start(sealable: Path, tmp_path: Path) -> None:
    log = seal(logs(sealable)[0])
    seal(logs(sealable)[1], "a")
    ended = kcli("recover", "--format", "jsonl", sealable)
    assert ended.status == 1
    (row,) = [each for each in map(json.loads, ended.stdout.splitlines()) if each["kind"] == "refused"]
    assert row["file"] == str(log.relative_to(sealable))
    assert row["reason"].startswith("immutable (chattr +i): even root may not change it, as 1 more")
    copy = tmp_path / "new"
    ended = kcli("recover", "--salvage", "--out", copy, sealable)
    assert "without the attribute in the copy: Kafka would not start with it" in ended.stdout
    assert loud(copy) == []
    assert attributes_of(copy / PARTITION / log.name) == ""


def test_a_file_system_without_attributes_has_none(tmp_path: Path) -> None:
    assert attributes_of(tmp_path) == ""
    assert attributes_of(tmp_path / "missing") == ""
    assert attributes_of(Path("/proc/version")) == ""
