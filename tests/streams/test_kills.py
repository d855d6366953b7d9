"""Instances of an application are killed, beside a run without kills; `make soak` has more kills."""

import pytest

from tests.streams import kills


@pytest.mark.timeout(300)
def test_outputs_and_stores_are_those_of_a_run_without_kills() -> None:
    kills.run(3, seed=23)


@pytest.mark.timeout(900)
def test_outputs_and_stores_of_spark_are_those_of_a_run_without_kills() -> None:
    kills.run_spark(1, seed=23, master="local[2]")


@pytest.mark.timeout(300)
def test_two_instances_take_the_tasks_of_a_third_that_was_killed() -> None:
    took_s = kills.run_three(seed=23)
    assert took_s < 60, "a session of a second and a transaction of ten, on a busy machine"
