"""A run of a connector's query: a micro-batch with one row a task that has work, each in a Spark partition of its own.

    rate-micro-batch (the tasks' numbers) -> mapPartitions (their turns) -> foreachBatch (outcomes, in the driver)

mapInArrow would need pandas. The query ends with its micro-batch (trigger availableNow); its checkpoint is temporary,
as offsets are Connect's.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kcli.connect.engine import sink_turn, source_turn
from kcli.connect.engine.turn import Outcome, Turn, outcome_of
from kcli.connect.plugins import PluginType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start_query(
    spark: SparkSession, name: str, turns: Sequence[Turn], found: Callable[[list[Outcome]], None]
) -> StreamingQuery:
    """Start a query that runs turns at the same time; return it. found: called with the outcomes."""
    work = partial(run_turns, pickle.dumps(list(turns)))

    def take(numbers: DataFrame, _batch: int) -> None:
        rows = numbers.select("value").rdd.mapPartitions(work).collect()
        found([pickle.loads(each) for each in rows])  # noqa: S301 (from our own workers)

    count = str(len(turns))
    source: Any = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", count)
    writer = source.option("numPartitions", count).load().writeStream.queryName(name)
    query: StreamingQuery = writer.foreachBatch(take).trigger(availableNow=True).start()
    return query


def run_turns(turns: bytes, numbers: Iterator[Row]) -> Iterator[bytes]:
    """Run the turns with these numbers, in a Python worker; yield their pickled outcomes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    is_repeated = context is not None and context.attemptNumber() > 0
    for row in numbers:
        turn: Turn = pickle.loads(turns)[row.value]  # noqa: S301 (from the driver of this query)
        module = source_turn if turn.start.type is PluginType.SOURCE else sink_turn
        yield pickle.dumps(outcome_of(turn, partial(module.run, is_repeated=is_repeated)))
