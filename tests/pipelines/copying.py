"""python -m tests.pipelines.copying MASTER BOOTSTRAP LOGS WORK: a Spark driver that copies a topic, to be killed.

A stream copies the topic `t` to `u`, exactly once; meanwhile exports of the log directory LOGS go to an Iceberg and a
Delta table in WORK, one after the other. A line on stdout says what has got rows: `u`, `iceberg` or `delta`. A stream
or an export that fails begins again. When stdin ends, all of them copy what is left, and the last line is `done`.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from kcli.errors import KcliError
from kcli.export.export_options import ExportOptions
from kcli.export.session import QUICK_START, SparkSettings, cause, spark_session
from kcli.export.table_writer import TableFormat
from kcli.pipelines.tables.job import TableJob
from tests.pipelines.tables.places import Place, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LAYOUT = ("partition",)
PAUSE_S = 0.3


def places(work: Path) -> dict[str, Place]:
    """The tables, by the words of the lines."""
    return {"iceberg": Place("directory", work / "iceberg"), "delta": Place("delta", work / "delta")}


def start(spark: SparkSession, bootstrap: str, work: Path) -> StreamingQuery:
    """Start the stream, or go on with it."""
    rows = (
        spark.readStream.format("kafka-log")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "t")
        .option("startingOffsets", "earliest")
        .option("minPartitions", "4")
        .load()
    )
    return (
        rows.select("key", "value")
        .writeStream.format("kafka-log")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "u")
        .option("checkpointLocation", str(work / "checkpoint"))
        .start()
    )


class Copying:
    """The stream and the exports."""

    def __init__(self, spark: SparkSession, bootstrap: str, logs: Path, work: Path) -> None:
        self._spark, self._bootstrap, self._logs, self._work = spark, bootstrap, logs, work
        self._query = start(spark, bootstrap, work)
        self._batch = -1

    def stream(self, *, is_last: bool = False) -> bool:
        """Look after the stream; return whether it has not failed. is_last: wait until it has copied all."""
        try:
            if is_last:
                self._query.processAllAvailable()
            is_well = self._query.isActive
        except PySparkException:
            is_well = False
        if not is_well:
            say(f"again u {self._query.exception()}")
            self._query = start(self._spark, self._bootstrap, self._work)
        progress = self._query.lastProgress
        if progress is not None and progress.batchId > self._batch and progress.numInputRows:
            self._batch = progress.batchId
            say("u")
        return is_well

    def export(self, word: str, place: Place) -> bool:
        """Export what is new to a table; return whether that has not failed."""
        given = ExportOptions(
            source(self._logs, subscribe="t"), place.out, TableFormat(LAYOUT, is_whole=place.kind != "delta")
        )
        try:
            job = TableJob(given, place.table(LAYOUT), self._spark.sparkContext, compacts=True)
            records = job.run().records
        except Exception as error:
            if not isinstance(error, KcliError) and cause(error) is None:
                raise
            say(f"again {word} {error}")
            return False
        if records:
            say(word)
        return True

    def all(self, *, is_last: bool = False) -> bool:
        """Do everything once; return whether nothing has failed."""
        done = [self.stream(is_last=is_last)]
        done += [self.export(word, place) for word, place in places(self._work).items()]
        return all(done)


def say(line: str) -> None:
    """Print the first line of a text."""
    print(line.partition("\n")[0], flush=True)


def main() -> None:
    """Copy until stdin ends, then the rest."""
    master, bootstrap, logs, work = sys.argv[1:]
    waiting = threading.Thread(target=sys.stdin.read, daemon=True)
    waiting.start()
    with spark_session(SparkSettings(master, QUICK_START)) as spark:
        copying = Copying(spark, bootstrap, Path(logs), Path(work))
        while waiting.is_alive():
            copying.all()
            time.sleep(PAUSE_S)
        while not copying.all(is_last=True):
            pass
    say("done")


if __name__ == "__main__":
    main()
