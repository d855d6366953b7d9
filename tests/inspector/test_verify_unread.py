"""A file that cannot be read is one finding, with the step that fits the error."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from kcli.inspector.verify import Verification, next_steps
from tests.bad_sectors import break_sectors
from tests.conftest import GOLDEN


def test_bad_sectors_ask_for_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "compact/before", directory)
    log = max(directory.glob("*/*.log"), key=lambda each: each.stat().st_size)
    break_sectors(monkeypatch, log, [9])
    verification = Verification([directory])
    (finding,) = [each for each in verification.findings() if each.path == str(log)]
    assert (finding.kind, finding.severity) == ("unread-file", "error")
    assert "byte 4,608: Input/output error" in str(finding.found)
    assert len(verification.unreadable) == 1
    assert finding.command is not None
    *command, copy, partition = shlex.split(finding.command)
    assert command == ["kcli", "recover", "--unclean", "--salvage", "--out"]
    assert (Path(partition), Path(copy).parent) == (log.parent, tmp_path)


def test_a_producer_snapshot_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the partition, and of the log directory, is checked all the same."""
    directory = Path(shutil.copytree(GOLDEN / "txn/data", tmp_path / "logs", copy_function=shutil.copyfile))
    snapshot = min((directory / "t-mix-0").glob("*.snapshot"))
    log = max((directory / "t-mix-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    break_sectors(monkeypatch, snapshot, [0])
    verification = Verification([directory])
    errors = {each.path: each for each in verification.findings() if each.severity == "error"}
    assert errors[str(snapshot)].kind == "unread-file"
    assert errors[str(log)].kind == "truncated"
    assert [each.path for each in verification.unreadable] == [str(snapshot)]


def test_a_snapshot_of_the_metadata_log_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not one without header and footer, to be deleted."""
    directory = Path(shutil.copytree(GOLDEN / "kraft/controller-100", tmp_path / "logs", copy_function=shutil.copyfile))
    snapshot = max(directory.glob("__cluster_metadata-0/*.checkpoint"))
    break_sectors(monkeypatch, snapshot, [0])
    (finding,) = [each for each in Verification([directory]).findings() if each.path == str(snapshot)]
    assert finding.kind == "unread-file"


def test_the_owner_of_a_directory_is_given_to_all_in_it(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "file").touch()
    assert next_steps.give_owner(tmp_path / "t-0").startswith("chown -R --reference=")
    assert next_steps.give_owner(tmp_path / "file").startswith("chown --reference=")
