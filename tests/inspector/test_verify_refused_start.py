"""Faults that keep Kafka from starting come before all damage that it would only cut, and say so; as real Kafka 4.3
did."""

import os
import subprocess
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from kcli.inspector.verify.findings import rank
from kcli.log.recovery.run import Recovery
from tests.cli.test_recover_start_files import REFUSED, STARTS, Change, told
from tests.damage import frames
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud
from tests.metadata_damage import copied

__all__ = ["directory"]  # a fixture

BOM = b"\xef\xbb\xbf"
QUORUM_STATE = "__cluster_metadata-0/quorum-state"


def tear(directory: Path) -> None:
    """Leave the directory as a crash does, with an incomplete last batch."""
    (directory / ".kafka_cleanshutdown").unlink()
    log = logs(directory)[-1]
    os.truncate(log, frames(log.read_bytes())[-1][0] + 30)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (f"{PARTITION}/partition.metadata", b"BADSECT BADSECT BADSECT"),
        (f"{PARTITION}/partition.metadata", b""),
        (QUORUM_STATE, b""),
        ("recovery-point-offset-checkpoint", BOM + b"0\n0\n"),
        ("log-start-offset-checkpoint", BOM + b"0\n0\n"),
        (f"{PARTITION}/leader-epoch-checkpoint", BOM + b"0\n0\n"),
    ],
)
def test_a_small_file_that_keeps_kafka_from_starting_comes_first(directory: Path, name: str, content: bytes) -> None:
    tear(directory)
    (directory / name).write_bytes(content)
    first, *others = loud(directory)
    assert (first.path, first.refuses_start) == (str(directory / name), True)
    assert str(first.found).endswith(": Kafka does not start with it")
    assert others
    assert not any(each.refuses_start for each in others)


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_kafka_starts_with_a_checkpoint_with_a_bad_number(directory: Path, name: str) -> None:
    (directory / name).write_text("0\n1\nt 0 many\n")
    finding = next(each for each in loud(directory) if each.path == str(directory / name))
    assert not finding.refuses_start
    assert Recovery(directory, 0).refusals == []


def test_a_directory_that_keeps_kafka_from_starting_comes_first(directory: Path) -> None:
    tear(directory)
    (directory / "old logs").mkdir()
    assert (loud(directory)[0].kind, loud(directory)[0].refuses_start) == ("directory-name", True)


def test_a_log_that_keeps_kafka_from_starting_comes_first(directory: Path) -> None:
    log = logs(directory)[-1]
    os.truncate(logs(directory)[0], 100)
    os.truncate(log, 3 << 30)
    assert (loud(directory)[0].path, loud(directory)[0].refuses_start) == (str(log), True)


def test_a_quorum_state_is_moved_away_as_a_start_writes_it_anew(directory: Path) -> None:
    path = directory / QUORUM_STATE
    path.write_bytes(b"")
    (finding,) = loud(directory)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert not path.exists()
    assert [each.kind for each in loud(directory)] == ["quorum-state-missing"]


def of_change(tmp_path: Path, case: tuple[str, Change]) -> list[Finding]:
    """Return the errors and warnings, the worst first, after a change of one small file."""
    whole, (file, change) = copied(tmp_path), case
    change(whole / file)
    return sorted((each for each in Verification([whole]).findings() if each.severity != "info"), key=rank)


@pytest.mark.parametrize("case", STARTS, ids=told)
def test_no_finding_says_that_kafka_does_not_start_where_it_does(tmp_path: Path, case: tuple[str, Change]) -> None:
    assert not any(each.refuses_start for each in of_change(tmp_path, case))


@pytest.mark.parametrize("case", REFUSED, ids=told)
def test_a_finding_about_what_keeps_kafka_from_starting_says_so(tmp_path: Path, case: tuple[str, Change]) -> None:
    found = of_change(tmp_path, case)
    assert not found or found[0].refuses_start


def test_a_metadata_log_with_the_id_of_another_topic(directory: Path) -> None:
    """Kafka 4.3.0 does not start with it. Of two faults the second one is reported after the first is mended."""
    home = directory / "__cluster_metadata-0"
    (home / "partition.metadata").write_text("version: 0\ntopic_id: HnQNgFKJSqOD6nSqAUPGjQ")
    (home / "leader-epoch-checkpoint").write_bytes(bytes(20))
    found = [each for each in loud(directory) if each.refuses_start]
    assert {Path(each.path).name for each in found} == {"partition.metadata", "leader-epoch-checkpoint"}
    for each in found:
        subprocess.run(["bash", "-c", str(each.command)], check=True)
    assert [each for each in loud(directory) if each.severity == "error"] == []
