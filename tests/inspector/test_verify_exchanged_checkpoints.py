"""Checkpoints of one log directory of a broker in another."""

import shutil
import subprocess
from pathlib import Path

import pytest

from formats.checkpoint import build_leader_epochs, parse_leader_epochs
from kcli.inspector.verify import Verification
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import loud
from tests.inspector.test_verify_misplaced import contents
from tests.two_directories import MOVED, two_directories

KINDS = [f"{each}-offset-checkpoint" for each in ("recovery-point", "replication", "log-start")]


def write(home: Path, kind: str, lines: list[str]) -> None:
    (home / kind).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two log directories and a server.properties; a partition of the second has a log start offset."""
    one, two, server = two_directories(tmp_path)
    write(one, KINDS[2], [])
    write(two, KINDS[2], [f"{MOVED[0].rpartition('-')[0]} 0 1"])
    epochs = two / MOVED[0] / "leader-epoch-checkpoint"
    first, *rest = parse_leader_epochs(epochs.read_bytes())
    epochs.write_bytes(build_leader_epochs([first._replace(start_offset=1), *rest]))  # as DeleteRecords does
    return one, two, server


def exchange(one: Path, two: Path) -> None:
    for kind in KINDS:
        aside = one / "aside"
        (one / kind).rename(aside)
        (two / kind).rename(one / kind)
        aside.rename(two / kind)


def test_exchanged_files_are_put_back(homes: tuple[Path, Path, Path]) -> None:
    """Kafka recovers all logs, and forgets the log start offset."""
    one, two, server = homes
    assert loud(one, two) == []
    before = contents(one), contents(two)
    exchange(one, two)
    found = list(Verification([one, two]).findings())
    (finding,) = (each for each in found if each.severity != "info")
    assert (finding.kind, finding.severity) == ("checkpoint-exchanged", "error")
    assert "forgets log start offsets" in str(finding.found)
    assert not any(each.kind == "checkpoint-absent" for each in found)
    assert finding.consequences["checkpoint-absent"] > 0
    assert "which has those of this directory" in kcli("recover", "--config", server, two).stdout
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert (contents(one), contents(two)) == before


def test_a_copy_of_the_other_files(homes: tuple[Path, Path, Path]) -> None:
    one, two, _ = homes
    for kind in KINDS:
        shutil.copyfile(one / kind, two / kind)
    finding, forgotten = loud(one, two)
    assert (forgotten.kind, forgotten.path) == ("log-start-offset", str(two / KINDS[2]))
    assert (finding.kind, finding.severity) == ("checkpoint-exchanged", "warning")
    assert Path(finding.path).parent == two
    assert "or a copy" in str(finding.found)


def test_a_directory_alone(homes: tuple[Path, Path, Path]) -> None:
    """There is no other directory to exchange the files with."""
    one, two, _ = homes
    exchange(one, two)
    (finding,) = (each for each in loud(two) if each.kind == "checkpoint-exchanged")
    assert finding.severity == "warning"
    assert "mv " not in str(finding.command)
