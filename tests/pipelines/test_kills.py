"""A topic is copied to a topic and to tables, once with kills, once by executors; `make soak` has more kills."""

import pytest

from tests.pipelines import kills

pytestmark = pytest.mark.timeout(900)  # s: Spark starts up to three times, beside other tests in a minute each


def test_every_record_once() -> None:
    assert kills.run(3, seed=21) > 0


def test_executors_in_processes_of_their_own() -> None:
    assert kills.run(0, seed=21, master="local-cluster[1,1,1024]") > 0
