"""A log directory with another cluster's metadata log: Kafka 4.3.0 starts, and renames all partitions to -stray."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.inspector.cluster_metadata import read_image
from kcli.inspector.verify import Finding, Verification
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.metadata_damage import copied, partitions, strays


@pytest.fixture(params=[True, False], ids=["unclean", "clean"])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    directory = copied(tmp_path)
    shutil.rmtree(directory / METADATA_DIRECTORY)
    shutil.copytree(GOLDEN / "txn/data" / METADATA_DIRECTORY, directory / METADATA_DIRECTORY)
    if request.param:
        (directory / FileKind.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    else:
        (directory / FileKind.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":3}')
    return directory


def loud(directory: Path) -> list[Finding]:
    return [each for each in Verification([directory]).findings() if each.severity != "info"]


def test_it_is_the_cause_of_all_strays(directory: Path) -> None:
    (finding,) = loud(directory)
    assert (finding.kind, Path(finding.path).name) == ("metadata-log-foreign", METADATA_DIRECTORY)
    own = [name for name in partitions(directory) if name != METADATA_DIRECTORY]
    assert finding.consequences["partition-stray"] == len(own)
    assert finding.command == f"kcli recover --salvage --dry-run {directory}"


def test_recover_says_whose_it_is(directory: Path) -> None:
    rows = [json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()]
    (damaged,) = [row for row in rows if row["kind"] == "metadata-damaged"]
    assert "another cluster's" in damaged["reason"]
    assert not [row for row in rows if row["kind"] in ("passed-over", "partition-missing")]


def test_salvage_makes_one_from_the_partitions(directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kcli("recover", "--salvage", "--out", out, directory).status == 0
    assert (out / FileKind.META_PROPERTIES).read_text() == (directory / FileKind.META_PROPERTIES).read_text()
    assert not strays(out)
    image = read_image(out)
    assert image is not None
    own = {name.rpartition("-")[0] for name in partitions(directory) if name != METADATA_DIRECTORY}
    assert {each.name for each in image.topics.values()} == own
    assert loud(out) == []


def test_a_directory_of_another_cluster_is_not_judged_by_it(tmp_path: Path) -> None:
    """One foreign partition beside those of the node: the metadata log is its own."""
    directory = copied(tmp_path)
    shutil.copytree(GOLDEN / "txn/data/t-hang-0", directory / "t-hang-0")
    assert "metadata-log-foreign" not in [each.kind for each in loud(directory)]
