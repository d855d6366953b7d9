"""A file that cannot be read is one finding, with the step that fits the error."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from kcli.inspector.verify import Verification
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
