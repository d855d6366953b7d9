"""A fixed sample of what `make soak` does with the kernels under bounds checks and under the sanitizers.

One build makes the checks of both builds of `make soak`. It lies under build/kernels and is compiled anew only when a
kernel has changed.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.sanitize.__main__ import AS_IT_IS, feed
from tests.sanitize.builds import BOUNDS, BUILDS, SAMPLE, Build, NoCompiler, make
from tests.sanitize.inputs import FRAMES

SEED = 15
INPUTS = 300
WHOLE = 60
FRAME_INPUTS = 20


def made() -> tuple[Build, Path, str]:
    """The build, its directory, and what it lacks: without a sanitizer it is the one that checks bounds.

    Raises NoCompiler."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return SAMPLE, make(SAMPLE)[0], ""
        except NoCompiler as error:
            return BOUNDS, make(BOUNDS)[0], str(error)


def test_a_fixed_sample_ends_without_a_report() -> None:
    try:
        build, place, lack = made()
    except NoCompiler as error:
        pytest.skip(str(error))
    whole = feed(build, place, AS_IT_IS, 0, WHOLE)
    assert not whole.report
    mutated = feed(build, place, SEED, 0, INPUTS)
    assert not mutated.report
    frames = feed(build, place, SEED, 0, FRAME_INPUTS, kind=FRAMES)
    assert not frames.report
    assert (whole.inputs, mutated.inputs, frames.inputs) == (WHOLE, INPUTS, FRAME_INPUTS)
    if lack:
        pytest.skip(f"bounds are kept; the rest is not known: {lack}")


def test_a_report_is_told_with_the_input_that_runs_again(tmp_path: Path) -> None:
    """A build without kernels: the run ends before its first input."""
    outcome = feed(BOUNDS, tmp_path, SEED, 0, 1)
    assert "is not of" in outcome.report
    assert f"--kind mixed --build bounds --seed {SEED}" in outcome.report
