"""python -m tests.pipelines.copying MASTER BOOTSTRAP LOGS DISK REGISTRY WORK: a Spark driver that copies topics, to be
killed.

Two streams copy topics exactly once: `t` to `u`, and `h` to `v`, which begins on the copy DISK of the log directory.
Meanwhile exports go to tables in WORK, one after the other: of `t` in the log directory LOGS to an Iceberg and a Delta
table, and of `s` from the brokers, with values by the schema ids of REGISTRY, to another Delta table. A line on stdout
says what has got rows: `u`, `v`, `iceberg`, `delta` or `avro`. A stream or an export that fails begins again. When
stdin ends, all of them copy what is left, and the last line is `done`.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from kcli.errors import KcliError
from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import ExportOptions
from kcli.export.session import QUICK_JAVA, QUICK_START, SparkSettings, cause, spark_session
from kcli.export.table_writer import TableFormat
from kcli.pipelines.source import live_options
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.live import LiveTableJob
from tests.pipelines.tables.places import COLUMNS, Place, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LAYOUT = ("partition",)
PAUSE_S = 0.3
QUICK = {**QUICK_START, "spark.executor.extraJavaOptions": QUICK_JAVA}
OFFSETS_A_BATCH = 800
"""The limit of a micro-batch of the stream that begins on a disk, so that it is there for a while."""


def places(work: Path) -> dict[str, Place]:
    """The tables, by the words of the lines."""
    return {
        "iceberg": Place("directory", work / "iceberg"),
        "delta": Place("delta", work / "delta"),
        "avro": Place("delta", work / "avro"),
    }


class Stream:
    """A stream from a topic to another one, whose name is also the word of the line."""

    def __init__(self, spark: SparkSession, bootstrap: str, work: Path, source: str, word: str, **options: str) -> None:
        self._source, self.word = source, word
        self._spark, self._bootstrap, self._work, self._options = spark, bootstrap, work, options
        self._query = self._start()
        self._batch = -1

    def _start(self) -> StreamingQuery:
        """Start the stream, or go on with it."""
        rows = (
            self._spark.readStream.format("kafka-log")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", self._source)
            .option("startingOffsets", "earliest")
            .options(**self._options)
            .load()
        )
        return (
            rows.select("key", "value")
            .writeStream.format("kafka-log")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("topic", self.word)
            .option("checkpointLocation", str(self._work / f"checkpoint-{self.word}"))
            .start()
        )

    def look(self, *, is_last: bool = False) -> bool:
        """Look after the stream; return whether it has not failed. is_last: wait until it has copied all."""
        try:
            if is_last:
                self._query.processAllAvailable()
            is_well = self._query.isActive
        except PySparkException:
            is_well = False
        if not is_well:
            say(f"again {self.word} {self._query.exception()}")
            self._query = self._start()
        progress = self._query.lastProgress
        if progress is not None and progress.batchId > self._batch and progress.numInputRows:
            self._batch = progress.batchId
            say(self.word)
        return is_well


class Copying:
    """The streams and the exports."""

    def __init__(self, spark: SparkSession, bootstrap: str, logs: Path, disk: str, registry: str, work: Path) -> None:
        self._spark, self._bootstrap, self._logs, self._registry, self._work = spark, bootstrap, logs, registry, work
        limit = {"maxOffsetsPerTrigger": str(OFFSETS_A_BATCH)}
        self._streams = (
            Stream(spark, bootstrap, work, "t", "u", minPartitions="4"),
            Stream(spark, bootstrap, work, "h", "v", bootstrapFrom=disk, **limit),
        )

    def export(self, word: str, place: Place) -> bool:
        """Export what is new to a table; return whether that has not failed."""
        try:
            records = self._job(word, place).run().records
        except Exception as error:
            if not isinstance(error, KcliError) and cause(error) is None:
                raise
            say(f"again {word} {error}")
            return False
        if records:
            say(word)
        return True

    def _job(self, word: str, place: Place) -> TableJob:
        form = TableFormat(LAYOUT, is_whole=place.kind != "delta")
        table, context = place.table(LAYOUT), self._spark.sparkContext
        if word != "avro":
            given = ExportOptions(source(self._logs, subscribe="t"), place.out, form)
            return TableJob(given, table, context, compacts=True)
        live = live_options({"kafka.bootstrap.servers": self._bootstrap, "subscribe": "s", "columns": COLUMNS})
        assert live is not None
        given = ExportOptions(live[0], place.out, form, value=DecoderSpec.parse(f"avro:{self._registry}"))
        return LiveTableJob(given, live[1], table, context)

    def all(self, *, is_last: bool = False) -> bool:
        """Do everything once; return whether nothing has failed."""
        done = [each.look(is_last=is_last) for each in self._streams]
        done += [self.export(word, place) for word, place in places(self._work).items()]
        return all(done)


def say(line: str) -> None:
    """Print the first line of a text."""
    print(line.partition("\n")[0], flush=True)


def main() -> None:
    """Copy until stdin ends, then the rest."""
    master, bootstrap, logs, disk, registry, work = sys.argv[1:]
    waiting = threading.Thread(target=sys.stdin.read, daemon=True)
    waiting.start()
    with spark_session(SparkSettings(master, QUICK)) as spark:
        copying = Copying(spark, bootstrap, Path(logs), disk, registry, Path(work))
        while waiting.is_alive():
            copying.all()
            time.sleep(PAUSE_S)
        while not copying.all(is_last=True):
            pass
    say("done")


if __name__ == "__main__":
    main()
