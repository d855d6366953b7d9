"""Topics are copied to topics and to tables while processes are killed; `make soak` has more kills."""

import pytest

from tests.pipelines import kills

pytestmark = pytest.mark.timeout(900)  # s: Spark starts once, beside other tests in a minute


def test_every_record_once() -> None:
    assert kills.run(3, seed=21, master="local-cluster[1,1,1024]") > 0
