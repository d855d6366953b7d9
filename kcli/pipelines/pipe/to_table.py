"""A pipe into a table: one export (kcli.pipelines.tables) of the new records, or one export after the other.

The table's own commits have the offsets, so that a pipe needs no checkpoint: after a kill at any time the next run
begins at the first offset that is not in the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.client.wire import LoginFailed, NobodyAnswers
from kcli.export.session import QUICK_START, SparkSettings, interruptible, spark_context
from kcli.export.steps import JobProgress
from kcli.pipelines.pipe.plan import Part, PipeProgress, Plan
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.table import ChangedMeanwhile

if TYPE_CHECKING:
    from kcli.export.steps import Spark

PATIENCE_S = 30.0
RETRY_S = 0.5
Make = Callable[["Spark", Callable[[JobProgress], None]], TableJob]


class TablePipe:
    """A pipe into a table. source, target: the ends. make: returns the job of one run, given the Spark to use and a
    function that is called with the progress. orders: whether Spark sorts or groups the rows."""

    interval_s = 60.0

    def __init__(self, source: str, target: str, make: Make, *, orders: bool) -> None:
        self._ends = source, target
        self._make = make
        self._orders = orders
        self._has_table = False

    def plan(self) -> Plan:
        """Return what the pipe would read. Raises what TableJob raises."""
        job = self._make(SparkSettings(), lambda _: None)
        parts = tuple(Part(str(partition), start, end, end - start) for partition, start, end in job.unread())
        return Plan(*self._ends, None, job.is_new, parts)

    def run(
        self, settings: SparkSettings, watch: Callable[[PipeProgress], None], follow_s: float | None
    ) -> PipeProgress:
        """Add the new records to the table, and return the progress. follow_s: None to end then; otherwise the time (s)
        to wait before the next export, until Ctrl-C. Raises what TableJob raises, KeyboardInterrupt."""
        quick = QUICK_START if settings.is_local and not self._orders else {}
        done, runs = PipeProgress(0, 0, 0.0, 0), 0
        with spark_context(replace(settings, conf={**quick, **settings.conf})) as spark:
            while True:
                with interruptible(spark):
                    done = self._patiently(spark, done, watch, runs)
                if follow_s is None:
                    return done
                runs += 1
                time.sleep(follow_s)

    def _patiently(
        self, spark: Spark, done: PipeProgress, watch: Callable[[PipeProgress], None], runs: int
    ) -> PipeProgress:
        """Run an export. After the first run repeat it, for PATIENCE_S, if no broker answers, or if another writer has
        committed to the table meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._once(spark, done, watch)
            except (NobodyAnswers, ChangedMeanwhile) as error:
                is_refused = isinstance(error, NobodyAnswers) and isinstance(error.error, LoginFailed)
                if not runs or is_refused or time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_S)

    def _once(self, spark: Spark, done: PipeProgress, watch: Callable[[PipeProgress], None]) -> PipeProgress:
        def show(job: JobProgress) -> None:
            if job.records:
                rate = job.records / (time.monotonic() - began)
                watch(replace(done, records=done.records + job.records, rate=rate, ended=False))

        began = time.monotonic()
        job = self._make(spark, show)
        outcome = job.run(continues=self._has_table)
        read = sum(each.records for each in outcome.topics)
        self._has_table = not job.is_new or read > 0
        if not read:
            return done
        undecoded = done.undecoded + sum(file.records for file in outcome.dead_letters)
        rate = read / (time.monotonic() - began)
        done = PipeProgress(done.batches + 1, done.records + read, rate, 0, undecoded=undecoded)
        watch(done)
        return done
