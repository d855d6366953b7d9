"""A fixed sample of what `make soak` does with the kernels under bounds checks and under the sanitizers.

The builds lie under build/kernels and are compiled anew only when a kernel has changed.
"""

from __future__ import annotations

import fcntl
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sanitize.__main__ import AS_IT_IS, feed
from tests.sanitize.builds import ADDRESS, BOUNDS, BUILDS, Build, NoCompiler, make

BOTH = (BOUNDS, ADDRESS)
SEED = 15
INPUTS = 700
WHOLE = 120


@pytest.fixture(scope="module")
def places() -> dict[Build, Path | NoCompiler]:
    """The directories of the builds, or why there is none; one process makes them, others wait."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(NoCompiler):
            make(*BOTH)  # at the same time
        return {build: made(build) for build in BOTH}


def made(build: Build) -> Path | NoCompiler:
    """One build by itself."""
    try:
        return make(build)[0]
    except NoCompiler as error:
        return error


@pytest.mark.parametrize("build", BOTH, ids=lambda build: build.name)
def test_a_fixed_sample_ends_without_a_report(build: Build, places: dict[Build, Path | NoCompiler]) -> None:
    place = places[build]
    if isinstance(place, NoCompiler):
        pytest.skip(str(place))
    whole = feed(build, place, AS_IT_IS, 0, WHOLE)
    assert not whole.report
    mutated = feed(build, place, SEED, 0, INPUTS)
    assert not mutated.report
    assert (whole.inputs, mutated.inputs) == (WHOLE, INPUTS)


def test_a_report_is_told_with_the_input_that_runs_again(tmp_path: Path) -> None:
    """A build without kernels: the run ends before its first input."""
    outcome = feed(BOUNDS, tmp_path, SEED, 0, 1)
    assert "is not of" in outcome.report
    assert f"--build bounds --seed {SEED}" in outcome.report
