"""In which order, and in how many processes, the tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import LONGEST, TESTS, pytest_xdist_auto_num_workers


def collected(*options: str) -> list[str]:
    """The test files that pytest collects, in its order."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True)
    return list(dict.fromkeys(line.split("::")[0] for line in done.stdout.splitlines() if "::" in line))


def test_the_longest_run_first() -> None:
    assert [name for name in LONGEST if not (TESTS / name).exists()] == []
    first, last = LONGEST[0], LONGEST[-1]
    short = "tests/test_order.py"
    found = collected(short, f"tests/{last}", f"tests/{first}")
    assert [Path(each) for each in found] == [Path("tests") / first, Path("tests") / last, Path(short)]


def test_some_processes_wait_while_others_work() -> None:
    assert pytest_xdist_auto_num_workers() > (os.cpu_count() or 1)
