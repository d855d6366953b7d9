"""Connectors of several kinds while processes are killed; `make soak` has more kills, and all kinds."""

import pytest

from tests.connect import kills

pytestmark = pytest.mark.timeout(600)  # s: Spark starts twice, beside other tests in a minute


def test_every_line_is_everywhere() -> None:
    assert kills.run(3, seed=25, kinds=("file", "rows", "iceberg"), master="local[2]") > 0
