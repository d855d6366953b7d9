"""Run one command and measure it as the shell sees it: the whole process, from its start to its end."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes on macOS, else KiB


class Run(NamedTuple):
    """Wall-clock seconds and the largest resident memory of the process or one of its children."""

    seconds: float
    peak_mb: float


class BenchError(Exception):
    """A measured command did not end as it should."""


def run(command: Sequence[str], output: Path) -> Run:
    """Run a command with its output in a file. Raises BenchError unless it exits with 0."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as stdout:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, env=_environment())
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchError(f"exit {process.returncode}: {' '.join(command)}")
    return Run(seconds, usage.ru_maxrss * MAXRSS_UNIT / 1e6)


def first_lines(command: Sequence[str], lines: int = 20) -> Run:
    """Return the seconds until a command has printed its first lines. The command is then ended, as `| head` does."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment())
    assert process.stdout is not None
    for _ in range(lines):
        if not process.stdout.readline():
            raise BenchError(f"printed fewer than {lines} lines: {' '.join(command)}")
    seconds = time.perf_counter() - started
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Run(seconds, usage.ru_maxrss * MAXRSS_UNIT / 1e6)


def _environment() -> dict[str, str]:
    return dict(os.environ) | {"KAFKA_PERF": "1"}
