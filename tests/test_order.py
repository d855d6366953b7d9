"""In which order, and in how many processes, the tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import LONGEST, TESTS, TOGETHER, pytest_xdist_auto_num_workers, pytest_xdist_make_scheduler


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


@pytest.mark.parametrize("parameter", ["spark: SparkSession", "cluster: Cluster"])
def test_files_that_share_a_jvm_run_in_one_process(parameter: str) -> None:
    """The session's Spark and the session's real Kafka start once, not in each process."""
    users = {
        path.relative_to(TESTS).as_posix()
        for directory in ("cli", "client", "export", "pipelines")
        for path in (TESTS / directory).glob("test_*.py")
        if parameter in path.read_text()
    }
    assert users in [{first, *names} for first, names in TOGETHER.items()]


def test_their_tests_are_one_unit_of_work() -> None:
    def option(name: str) -> Any:
        return {"dist": "loadfile", "tx": ["popen"]}[name]

    config: Any = SimpleNamespace(option=SimpleNamespace(), getoption=option, getvalue=option)
    unit_of = pytest_xdist_make_scheduler(config, None)._split_scope
    first, (second, *_) = next(iter(TOGETHER.items()))
    units = [unit_of(f"tests/{name}::test[a::b]") for name in (first, second, "test_order.py")]
    assert units == [f"tests/{first}", f"tests/{first}", "tests/test_order.py"]
