"""Simulations of whole clusters: a fixed number of seeds, more of them in `make soak`.

A seed that fails is named; `python -m tests.sim.cluster SEED` tells its story.
"""

from __future__ import annotations

import os
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

from tests.conftest import examples
from tests.sim.cluster.mutations import ALTER_PARTITION, IN_SYNC, MUTATIONS, OTHERS, TRUNCATION
from tests.sim.cluster.mutations import SEEDS as MUTATION_SEEDS
from tests.sim.mutations import Mutation

SOAK_SEEDS = 1_000
SEEDS = examples(100, soak=SOAK_SEEDS).max_examples
TRIED = MUTATIONS if SEEDS == SOAK_SEEDS else [ALTER_PARTITION, TRUNCATION, IN_SYNC]
TOGETHER = 25 if SEEDS == SOAK_SEEDS else 10


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, where nobody minds what dead nodes leave behind."""
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)


@pytest.mark.hypothesis
@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_promises_are_kept(first: int) -> None:
    seeds = map(str, range(first, first + TOGETHER))
    done = _run("-m", "tests.sim.cluster", "-q", *seeds)
    assert done.returncode == 0, done.stdout


@pytest.mark.hypothesis
@pytest.mark.parametrize("mutation", TRIED, ids=attrgetter("what"))
def test_what_keeps_promises_is_missed(mutation: Mutation) -> None:
    """Without it the simulation fails, at one of the seeds that hold with it (above)."""
    number = MUTATIONS.index(mutation)
    look = (
        f"from tests.sim.cluster.mutations import *; print(found_after(MUTATIONS[{number}], range({MUTATION_SEEDS})))"
    )
    done = _run("-c", look)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("("), done.stdout


def test_every_mutation_is_where_it_was() -> None:
    """So that `make soak` can try each of them."""
    for mutation in [*MUTATIONS, *OTHERS]:
        with mutation.applied():
            pass


def test_a_seed_tells_the_same_story() -> None:
    """In another process, whatever its hashes are."""
    stories = []
    for hashes in "12":
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim.cluster", "3"],
            cwd=Path(__file__).parents[3],
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        stories.append(done.stdout)
    assert stories[0] == stories[1]
    assert "seed 3: holds" in stories[0].splitlines()[-1]
