"""Simulations of whole clusters: a fixed number of seeds, more of them in `make soak`.

The message of a failure names its seed; `python -m tests.sim.cluster SEED` prints its events.
"""

from __future__ import annotations

import subprocess
import sys
from operator import attrgetter

import pytest

from tests.conftest import examples
from tests.sim.cluster.mutations import MUTATIONS, OTHERS
from tests.sim.cluster.mutations import SEEDS as MUTATION_SEEDS
from tests.sim.mutation import Mutation
from tests.sim.seeds import ROOT, told_twice

SOAK_SEEDS = 1_000
SEEDS = examples(20, soak=SOAK_SEEDS).max_examples
TOGETHER = 25 if SEEDS == SOAK_SEEDS else 10


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in another process, so that the remains of dead nodes disturb no other test."""
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.hypothesis
@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_promises_are_kept(first: int) -> None:
    seeds = map(str, range(first, first + TOGETHER))
    done = _run("-m", "tests.sim.cluster", "-q", *seeds)
    assert done.returncode == 0, done.stdout


@pytest.mark.hypothesis
@pytest.mark.parametrize("mutation", MUTATIONS, ids=attrgetter("what"))
def test_what_keeps_promises_is_missed(mutation: Mutation) -> None:
    """With the mutation, one of the seeds of `test_promises_are_kept` fails."""
    number = MUTATIONS.index(mutation)
    look = (
        "from tests.sim.cluster.mutations import *; from tests.sim.mutation import found_after; "
        f"print(found_after(MUTATIONS[{number}], range({MUTATION_SEEDS}), simulate))"
    )
    done = _run("-c", look)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("("), done.stdout


def test_every_mutation_is_where_it_was() -> None:
    """Each mutation still finds the text that it replaces, so that `make soak` can apply it."""
    for mutation in [*MUTATIONS, *OTHERS]:
        with mutation.applied():
            pass


def test_a_seed_tells_the_same_story() -> None:
    """Two processes with different hash seeds print the same lines."""
    told_twice("tests.sim.cluster", 3)
