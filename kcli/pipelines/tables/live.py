"""An export of the records of live brokers to a table: a TableJob with other splits.

With bootstrapFrom a part of the splits is on a disk. A split of the brokers is a range of offsets, and its segment the
URL of the topic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.export.export_options import ExportOptions
from kcli.export.options import Bound, SourceOptions
from kcli.export.reading import read
from kcli.export.splits import Split
from kcli.export.steps import JobProgress
from kcli.metadata.partition import from_uuid
from kcli.pipelines import fetching
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.planning import FetchRange, ends, named_topics, plan, present
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.table import Position, Table
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.export.steps import Spark

SCHEME = "kafka://"


class LiveTableJob(TableJob):
    """One run of an export of live brokers. options: its source has the options of a query on them. The other arguments
    are those of TableJob; `run` raises NobodyAnswers, ErrorAnswer, DataLoss besides."""

    def __init__(
        self,
        options: ExportOptions,
        cluster: Cluster,
        table: Table,
        spark: Spark,
        watch: Callable[[JobProgress], None] = lambda _: None,
    ) -> None:
        super().__init__(options, table, spark, watch)
        self._cluster = cluster

    def _unread(self) -> tuple[list[tuple[TopicPartition, int, int]], Sequence[Split]]:
        found: dict[TopicPartition, tuple[int, int]] = {}
        due = self._planned(self._options.source)[1]
        for each in due:
            partition = TopicPartition(each.topic, each.partition)
            start, end = found.get(partition, (each.from_offset, each.to_offset))
            found[partition] = min(start, each.from_offset), max(end, each.to_offset)
        return [(partition, *found[partition]) for partition in sorted(found)], due

    def _plan(self, scratch: Path) -> tuple[Position, list[Split]]:  # noqa: ARG002 (no damage table)
        return self._planned(replace(self._options.source, min_partitions=os.cpu_count() or 1))

    def _planned(self, source: SourceOptions) -> tuple[Position, list[Split]]:
        with self._cluster.reader(named_topics(source)) as reader:
            found = present(reader, source, self._cluster)
            lasts = ends(reader, found, committed=False)
        position = self._start(found, {each.topic: from_uuid(topic_id) for each, topic_id in found.items()})
        for each, due in position.offsets.items():
            self._refuse_shorter(each, due, lasts.get(each, due))
        source = replace(source, start=Bound(source.start.default, {**source.start.offsets, **position.offsets}))
        on_disk, fetched = plan(source, self._cluster)
        self._read = _Reading(source, self._cluster, {each.partition: each.topic_id for each in fetched})
        return position, [*on_disk, *(_split(each, self._cluster.bootstrap) for each in fetched)]


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads splits of a disk and of brokers, in tasks."""

    options: SourceOptions
    cluster: Cluster
    topic_ids: Mapping[TopicPartition, UUID]

    def __call__(self, split: Split, columns: Sequence[str], **more: Any) -> Iterator[pa.RecordBatch]:
        if not split.segment.startswith(SCHEME):
            return read(split, columns, **more)
        partition = TopicPartition(split.topic, split.partition)
        fetch_range = FetchRange(partition, self.topic_ids[partition], split.from_offset, split.to_offset)
        return fetching.read(fetch_range, columns, self.options, self.cluster)


def _split(fetched: FetchRange, bootstrap: str) -> Split:
    """Return a range of offsets of the brokers as a split; its size in bytes is unknown."""
    topic, partition = fetched.partition
    start, end = fetched.start, fetched.end
    return Split(topic, partition, f"{SCHEME}{bootstrap}/{topic}", start, 0, 0, start, end, start, end, 0, 0)
