"""Files that one act has removed from a log directory: verify names the act once."""

from __future__ import annotations

import os
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify import Verification
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import directory, loud

__all__ = ["directory"]  # a fixture


def indexes(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*.index"))


def test_all_empty_files(directory: Path) -> None:
    for path in indexes(directory):
        if path.with_suffix(".log").stat().st_size < 16_384 and path.parent.name != "java-none-0":
            path.write_bytes(b"")
    before = [each.kind for each in loud(directory) if each.kind != "index-too-few-entries"]
    empty = [path for path in directory.glob("*/*") if not path.stat().st_size]
    gone = [path for path in empty if path.suffix == ".index"]
    assert len(gone) > 3
    for path in empty:
        path.unlink()
    (finding,) = [each for each in loud(directory) if each.kind == "files-removed"]
    assert (finding.severity, finding.path) == ("warning", str(directory))
    assert "as after find -size 0 -delete" in str(finding.found)
    assert finding.consequences["index-missing"] == len(gone)
    assert {each.kind for each in loud(directory)} <= {*before, "files-removed"}


def test_an_empty_file_that_is_left_speaks_against_it(directory: Path) -> None:
    for path in indexes(directory)[:4]:
        path.unlink()
    (directory / "java-none-0" / f"{0:020}.txnindex").write_bytes(b"")
    assert "files-removed" not in {each.kind for each in loud(directory)}


def test_all_old_files(directory: Path, tmp_path: Path) -> None:
    """As systemd-tmpfiles does below /tmp."""
    partitions = sorted({path.parent for path in directory.glob("*/*.log") if len([*path.parent.glob("*.log")]) > 1})
    assert len(partitions) >= 2
    for path in [directory / FileKind.META_PROPERTIES, *directory.glob("[a-m]*/partition.metadata")]:
        path.unlink()
    for each in partitions:
        (each / FileKind.LEADER_EPOCHS).write_text("0\n1\n0 0\n")
        log = min(each.glob("*.log"))
        for path in each.glob(f"{log.stem}.*"):
            path.unlink()
    os.utime(max(partitions[0].glob("*.log")), (1_700_000_000, 1_700_000_000))
    first = loud(directory)[0]
    assert (first.kind, first.severity, first.refuses_start) == ("files-removed", "error", True)
    assert str(first.found).startswith("no file from before 2023-11-14 22:13:20 UTC is left")
    assert first.consequences["partition-metadata-missing"] > 1
    assert "meta-properties-missing" not in {each.kind for each in loud(directory)}
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", directory).status in (0, 1)
    new = Verification([tmp_path / "new"]).findings()
    assert not [each for each in new if each.refuses_start]


def test_a_quorum_state_of_another_node(directory: Path) -> None:
    path = directory / "__cluster_metadata-0" / FileKind.QUORUM_STATE
    voters = '"currentVoters":[{"voterId":1}],"data_version":0}'
    path.write_text(f'{{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,{voters}')
    assert not [each for each in loud(directory) if each.path == str(path)]
    path.write_text(f'{{"clusterId":"","leaderId":2,"leaderEpoch":99,"votedId":-1,"appliedOffset":0,{voters}')
    (finding,) = [each for each in loud(directory) if each.path == str(path)]
    assert (finding.kind, finding.severity) == ("quorum-state-voters", "warning")


def test_a_quorum_state_of_another_cluster(directory: Path) -> None:
    """Kafka 4.3 took no leader from it, and was elected in the next epoch."""
    path = directory / "__cluster_metadata-0" / FileKind.QUORUM_STATE
    path.write_text(path.read_text().replace('"leaderId":1', '"leaderId":2').replace('"voterId":1', '"voterId":2'))
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.path) == ("quorum-state-voters", "warning", str(path))
    assert finding.expected == "voters with this node, 1, which is a controller"
    assert str(finding.found).startswith("voters 2: ")
