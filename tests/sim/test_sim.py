"""Simulations of the coordinators and their logs (world.py): a fixed number of seeds, more of them in `make soak`.

The message of a failure names its seed; `python -m tests.sim SEED` prints its events.
"""

from __future__ import annotations

from operator import attrgetter

import pytest

from tests.conftest import examples
from tests.sim.mutation import Mutation, found_after
from tests.sim.mutations import FENCING, GENERATION, MUTATIONS, UNCOMMITTED
from tests.sim.run import simulate
from tests.sim.seeds import told_twice

SOAK_SEEDS = 1_000
SEEDS = examples(75, soak=SOAK_SEEDS).max_examples
TRIED = MUTATIONS if SEEDS == SOAK_SEEDS else [GENERATION, FENCING, UNCOMMITTED]
TOGETHER = 25


@pytest.mark.hypothesis
@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_promises_are_kept(first: int) -> None:
    errors = {seed: simulate(seed) for seed in range(first, first + TOGETHER)}
    broken = {f"python -m tests.sim {seed}": f"{error!r}" for seed, error in errors.items() if error is not None}
    assert not broken


@pytest.mark.hypothesis
@pytest.mark.parametrize("mutation", TRIED, ids=attrgetter("what"))
def test_what_is_not_checked_is_found(mutation: Mutation) -> None:
    """With the mutation, which removes a check, one of the seeds of `test_promises_are_kept` fails."""
    assert found_after(mutation, range(SEEDS), simulate) is not None


def test_every_check_is_where_it_was() -> None:
    """Each mutation still finds the text that it replaces, so that `make soak` can apply it."""
    for mutation in MUTATIONS:
        with mutation.applied():
            pass


def test_a_seed_tells_the_same_story() -> None:
    """Two processes with different hash seeds print the same lines."""
    told_twice("tests.sim", 7)
