"""Warnings of Spark's Python processes reach the command that has started Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.export.warnings import VARIABLE, told

PROGRAM = """
from kcli.export.splits import lost
lost("a log\\nthat ends", fails=False)
lost("caf\\udce9", fails=False)
"""


def warn(path: Path) -> str:
    """Warn in another process; return what it prints."""
    environment = {**os.environ, VARIABLE: str(path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stderr


def test_each_line_is_told(tmp_path: Path) -> None:
    lines: list[str] = []
    with told(tmp_path / "warnings", lines.append):
        assert warn(tmp_path / "warnings") == ""
    assert lines == ["a log that ends", "caf\\udce9"]


def test_no_warnings(tmp_path: Path) -> None:
    with told(tmp_path / "warnings", lambda _: pytest.fail("told")):
        pass


def test_a_process_on_another_machine(tmp_path: Path) -> None:
    """There is no such directory; what it warns of goes to its own log."""
    assert "a log\nthat ends" in warn(tmp_path / "gone" / "warnings")
    assert not (tmp_path / "gone").exists()
