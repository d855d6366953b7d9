"""A sample of the lives that `make soak` runs: see tests/broker/tiering/lives.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.tiering.lives import live

SEED = 1


@pytest.mark.parametrize(("kind", "kills"), [("directory", 3), ("bucket", 2)])
def test_a_broker_that_is_killed_again_and_again(tmp_path: Path, kind: str, kills: int) -> None:
    live(kind, tmp_path, SEED, kills)
