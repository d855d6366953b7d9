"""Simulations of the coordinators and their logs, see world.py: a fixed number of seeds, more of them in `make soak`.

A seed that fails is named; `python -m tests.sim SEED` tells its story.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import examples
from tests.sim.mutations import FENCING, GENERATION, MUTATIONS, Mutation, found_after
from tests.sim.run import simulate

SEEDS = examples(150, soak=1_000).max_examples
TOGETHER = 25
MUTATION_SEEDS = 100
IS_SOAK = SEEDS > 150


@pytest.mark.hypothesis
@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_promises_are_kept(first: int) -> None:
    errors = {seed: simulate(seed) for seed in range(first, first + TOGETHER)}
    broken = {f"python -m tests.sim {seed}": f"{error!r}" for seed, error in errors.items() if error is not None}
    assert not broken


@pytest.mark.hypothesis
@pytest.mark.parametrize("mutation", MUTATIONS if IS_SOAK else [GENERATION, FENCING], ids=lambda each: each.what)
def test_what_is_not_checked_is_found(mutation: Mutation) -> None:
    """Without a check the simulation fails within so many seeds; with it, these seeds hold (above)."""
    assert MUTATION_SEEDS <= SEEDS
    assert found_after(mutation, range(MUTATION_SEEDS)) is not None


def test_a_seed_tells_the_same_story() -> None:
    """In another process, whatever its hashes are."""
    stories = []
    for hashes in "12":
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim", "7"],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        stories.append(done.stdout)
    assert stories[0] == stories[1]
    assert "seed 7: holds" in stories[0].splitlines()[-1]
