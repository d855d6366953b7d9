"""A fixed sample of what `make soak` does with the kernels under bounds checks and under the sanitizers.

The builds lie under build/kernels and are compiled anew only when a kernel has changed.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.sanitize.__main__ import AS_IT_IS, feed
from tests.sanitize.builds import ADDRESS, BOUNDS, BUILDS, Build, NoCompiler, make

SEED = 15
INPUTS = 700
WHOLE = 120


@pytest.fixture(scope="module")
def places() -> dict[str, Path]:
    """The directories of the builds; one process makes them, others wait."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            made = make(BOUNDS, ADDRESS)
        except NoCompiler as error:
            pytest.skip(str(error))
    return {"bounds": made[0], "address": made[1]}


@pytest.mark.parametrize("build", [BOUNDS, ADDRESS], ids=lambda build: build.name)
def test_a_fixed_sample_ends_without_a_report(build: Build, places: dict[str, Path]) -> None:
    whole = feed(build, places[build.name], AS_IT_IS, 0, WHOLE)
    assert not whole.report
    mutated = feed(build, places[build.name], SEED, 0, INPUTS)
    assert not mutated.report
    assert (whole.inputs, mutated.inputs) == (WHOLE, INPUTS)


def test_a_report_is_told_with_the_input_that_runs_again(places: dict[str, Path], tmp_path: Path) -> None:
    """A build without kernels: the run ends before its first input."""
    outcome = feed(BOUNDS, tmp_path, SEED, 0, 1)
    assert "is not of" in outcome.report
    assert f"--build bounds --seed {SEED}" in outcome.report
