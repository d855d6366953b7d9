"""Simulations of raft: a fixed number of seeds, more of them in `make soak`.

A seed that fails is named, with what happened; `python -m tests.raft.sim SEED` tells the whole story.
"""

from __future__ import annotations

from operator import attrgetter

import pytest

from tests.conftest import examples
from tests.raft.sim.mutations import MUTATIONS, QUICK, SEEDS
from tests.raft.sim.run import simulate
from tests.sim.mutation import Mutation, found_after
from tests.sim.seeds import told_twice

SOAK_SEEDS = 1_500
COUNT = examples(20, soak=SOAK_SEEDS).max_examples
TRIED = MUTATIONS if COUNT == SOAK_SEEDS else QUICK
TOGETHER = 20


@pytest.mark.hypothesis
@pytest.mark.parametrize("first", range(0, COUNT, TOGETHER))
def test_promises_are_kept(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        error = simulate(seed)
        if error is not None:
            raise error


@pytest.mark.hypothesis
@pytest.mark.parametrize("mutation", TRIED, ids=attrgetter("what"))
def test_what_is_left_out_is_found(mutation: Mutation) -> None:
    """Without a rule of raft the simulation fails at one of the first seeds."""
    assert found_after(mutation, range(SEEDS), simulate) is not None


def test_every_rule_is_where_it_was() -> None:
    """Each mutation still finds the text that it replaces, so that `make soak` can apply it."""
    for mutation in MUTATIONS:
        with mutation.applied():
            pass


def test_a_seed_tells_the_same_story() -> None:
    """In another process, whatever its hashes are."""
    assert any(line.endswith("peace") for line in told_twice("tests.raft.sim", 3))
