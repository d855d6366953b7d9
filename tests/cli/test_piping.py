"""What kcli pipe tells of a run, without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.cli import piping
from kcli.cli.options import Format
from kcli.export.session import DISK_FULL, JVM_ENDED, WORKER_LATE, SparkFailed, SparkSettings
from kcli.pipelines.pipe.plan import Part, PipeProgress, Plan


class FakePipe:
    """A pipe of two micro-batches, the second one with a single record; with `fails` it fails after both."""

    interval_s = 1.0

    def __init__(self, fails: SparkFailed | None = None, checkpoint: Path | None = Path("/c")) -> None:
        self._fails = fails
        self._checkpoint = checkpoint

    def plan(self) -> Plan:
        """The plan."""
        return Plan("a", "b", self._checkpoint, is_new=True, parts=(Part("t-0", 0, 1_001, 1_001),))

    def run(self, _: SparkSettings, watch: Callable[[PipeProgress], None], follow_s: float | None) -> PipeProgress:
        """Run both."""
        assert follow_s is None
        watch(PipeProgress(1, 1_000, 5_000.0, 1))
        time.sleep(0.2)
        done = PipeProgress(2, 1_001, 2.0, 0)
        watch(done)
        if self._fails is not None:
            raise self._fails
        return done


def run(pipe: FakePipe, *, debug: bool = False) -> None:
    piping.run(pipe, "local-cluster[1,1,1]", {}, None, Format.JSONL, debug=debug)


def test_rates(capfd: pytest.CaptureFixture[str]) -> None:
    """A progress line has its micro-batch's, the summary that of the run."""
    run(FakePipe())
    first, second, summary = map(json.loads, capfd.readouterr().out.splitlines())
    assert (first["records_per_s"], second["records_per_s"]) == (5_000.0, 2.0)
    assert summary["records_per_s"] == pytest.approx(summary["records"] / summary["seconds"], rel=0.02)


FURTHER = "; --debug shows Spark's log"


@pytest.mark.parametrize(
    ("reason", "more"),
    [(JVM_ENDED, ""), (WORKER_LATE, ""), (DISK_FULL, " when there is room"), ("it is broken", FURTHER)],
)
def test_next_steps(reason: str, more: str) -> None:
    """After a failure of Spark's the same command goes on; an error of the pipe's own says what is to be done."""
    for checkpoint, where in ((Path("/c"), "from its checkpoint"), (None, "where the table ends")):
        with pytest.raises(SparkFailed) as raised:
            run(FakePipe(SparkFailed(reason, "the log", is_of_job=False), checkpoint))
        assert str(raised.value) == f"{reason}: the same command goes on {where}{more}"
    with pytest.raises(SparkFailed, match=f"^{reason}$"):
        run(FakePipe(SparkFailed(reason)))


def test_the_log_of_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SparkFailed, match=r"^broken: the same command goes on from its checkpoint$"):
        run(FakePipe(SparkFailed("broken", "one\ntwo\n", is_of_job=False)), debug=True)
    assert capfd.readouterr().err == "one\ntwo\n"
