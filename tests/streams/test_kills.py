"""Instances of an application are killed, beside a run without kills; `make soak` has more kills."""

import pytest

from tests.streams import kills


@pytest.mark.timeout(300)
def test_outputs_and_stores_are_those_of_a_run_without_kills() -> None:
    kills.run(3, seed=23)
