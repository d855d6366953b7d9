"""The interface of all simulations: a seed determines a whole run, and two runs of it print the same lines.

python -m tests.sim SEED...             (likewise tests.sim.cluster and tests.raft.sim)
python -m tests.sim.mutations [SEEDS]   does the simulation fail without a certain check? see mutation.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import print_exception
from typing import Protocol

ROOT = Path(__file__).parents[2]


class Simulate(Protocol):
    """Runs one seed."""

    def __call__(self, seed: int, *, tell: Callable[[str], object] | None = None) -> Exception | None:
        """Return the error that broke the run, None without one. tell: called with each event's line."""


def replay(simulate: Simulate) -> int:
    """Run the seeds of the command line and print their events; with -q only the result of each. Returns the number of
    seeds that failed."""
    broken = 0
    is_quiet = "-q" in sys.argv
    for seed in map(int, [each for each in sys.argv[1:] if each != "-q"]):
        error = simulate(seed, tell=None if is_quiet else print)
        print(f"seed {seed}: {'holds' if error is None else f'{type(error).__name__}: {error}'}")
        if error is not None:
            print_exception(error)
            broken += 1
    return broken


def told_twice(module: str, seed: int) -> list[str]:
    """Return the lines of a seed's run. Asserts that two processes with different hash seeds print the same lines."""
    stories = [
        subprocess.run(
            [sys.executable, "-m", module, str(seed)],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in "12"
    ]
    assert stories[0] == stories[1]
    lines = stories[0].splitlines()
    assert lines[-1] == f"seed {seed}: holds"
    return lines
