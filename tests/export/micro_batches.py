"""A stand-in for Spark's micro-batches, for tests of the stream reader: the same calls in the same order, and a
checkpoint.

The checkpoint has what Spark writes: the end of each batch before it runs (`planned`), and the number of batches that
have run (`done`). A restart knows nothing else. Source: MicroBatchExecution.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kcli.export.stream import FIRST_OFFSETS, TOPIC_IDS, OffsetsReader
from kcli.pipelines.source import KafkaDataSource


class Crashed(Exception):
    """The query died where a test told it to."""


class Query:
    """A query on a stream; rows are (topic, partition, offset, value). path: None for a query on live brokers."""

    def __init__(self, path: Path | str | None, **options: str) -> None:
        self.options = options if path is None else {"path": str(path), **options}
        self.planned: list[str] = []
        self.done = 0
        self.rows: list[tuple[str, int, int, bytes | None]] = []
        self.tasks = 0
        self.reader: OffsetsReader[Any]
        self.start()

    def start(self) -> None:
        """Start the query, the first time or again."""
        source = KafkaDataSource(self.options)
        reader = source.streamReader(source.schema())
        assert isinstance(reader, OffsetsReader)
        self.reader = reader
        if self.planned:  # setLatestSeenOffset
            seen = json.loads(self.planned[-1])
            assert self.reader.partitions(seen, seen) == []

    def run(self, *, dies: bool = False) -> int:
        """Run a micro-batch, if there is anything new. Returns its rows. dies: the batch is planned, but not run."""
        if self.done == len(self.planned):
            start = self._begin()
            limit = self.reader.getDefaultReadLimit()
            end = json.dumps(self.reader.latestOffset(json.loads(start), limit))
            if self.planned and end == start:
                return 0
            self.planned.append(end)
        if dies:
            raise Crashed
        rows = self.read(self.plan())
        self.rows += rows
        self.done += 1
        self.reader.commit(json.loads(self.planned[-1]))
        return len(rows)

    def plan(self) -> list[InputPartition]:
        """The tasks of the batch that is planned."""
        return list(self.reader.partitions(json.loads(self._begin()), json.loads(self.planned[self.done])))

    def read(self, tasks: list[InputPartition]) -> list[tuple[str, int, int, bytes | None]]:
        """Run tasks, each with a pickled reader as on a worker."""
        self.tasks = len(tasks)
        rows = []
        for task in tasks:
            read, partition = pickle.loads(pickle.dumps((self._new_reader().read, task)))
            for batch in read(partition):
                columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "value")]
                rows += list(zip(*columns, strict=True))
        return rows

    def _new_reader(self) -> Any:
        source = KafkaDataSource(self.options)
        return source.streamReader(source.schema())

    def _begin(self) -> str:
        return self.planned[self.done - 1] if self.done else json.dumps(self.reader.initialOffset())

    def drain(self) -> int:
        """Run micro-batches until nothing is new. Returns the rows."""
        before = len(self.rows)
        idle = 0
        while idle < 2:
            known = self.done
            self.run()
            idle = idle + 1 if self.done == known else 0
        return len(self.rows) - before

    def available_now(self) -> int:
        """A run with Trigger.AvailableNow. Returns the rows."""
        self.start()
        self.reader.prepareForTriggerAvailableNow()
        return self.drain()

    def at(self) -> dict[str, dict[str, int]]:
        """Where it is."""
        found: dict[str, dict[str, int]] = json.loads(self.planned[-1])
        for beside in (TOPIC_IDS, FIRST_OFFSETS):
            found.pop(beside, None)
        return found

    def latest(self) -> dict[str, Any]:
        """How far the next batch would go."""
        return self.reader.latestOffset(json.loads(self._begin()), ReadAllAvailable())

    def offsets(self, topic: str = "t", partition: int = 0) -> list[int]:
        """The offsets that were read of a partition, in order."""
        return [offset for each, number, offset, _ in self.rows if (each, number) == (topic, partition)]
