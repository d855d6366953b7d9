"""A log as a stream: offsets by topic and partition are the checkpoint, as {"topic": {"0": 123}}.

a batch's end     the high watermark of the checkpoint file, if there is one; else behind the last sound batch, so
                  that a record that is being appended comes with the next; with read_committed not past an open
                  transaction
rolled            new segments are found as they come; so are new partitions, which are read from their beginning
cleaned           offsets that are gone are no loss
deleted           records, partitions that went before they were read: an error, or passed over without failOnDataLoss
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kcli.errors import UnreadableInput
from kcli.export import offsets
from kcli.export.options import LATEST, Isolation, Partition, SourceOptions
from kcli.export.reading import read
from kcli.export.splits import DataLoss, Range, Split, bounds, chosen, log_start, partitions, splits

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.export.discovery import PartitionFiles

Offsets = dict[str, dict[str, int]]


class SplitPartition(InputPartition):
    """A split on its way to a task."""

    def __init__(self, split: Split) -> None:
        super().__init__(None)
        self.split = split


def read_partition(
    partition: InputPartition, options: SourceOptions, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """The records of a split; Spark makes up a partition without one where there are none."""
    if isinstance(partition, SplitPartition):
        yield from read(
            partition.split,
            columns,
            on_corruption=options.on_corruption,
            include_control=options.include_control,
        )


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what has come since the last batch."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._final: dict[Partition, int] | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Where a new query begins."""
        return _nested({key: bounds(copies, self._options)[0] for key, copies in self._partitions().items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is all that the query is to read."""
        self._final = self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Option maxOffsetsPerTrigger."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """Where the next batch ends. Raises DataLoss."""
        begun = _flat(start)
        ends = self._ends()
        if self._final is not None:
            ends = {key: min(end, self._final.get(key, 0)) for key, end in ends.items()}
        lost = sorted(key for key in begun if key not in ends)
        if lost and self._options.fail_on_data_loss:
            raise DataLoss(f"{lost[0][0]}-{lost[0][1]}: the partition is gone; failOnDataLoss=false goes on without it")
        ends = {**begun, **{key: max(end, begun.get(key, 0)) for key, end in ends.items()}}
        return _nested(_limited(begun, ends, limit))

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        """For the query's status."""
        return _nested(self._ends())

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """The splits of a batch. Raises DataLoss, UnreadableInput."""
        begun, ends = _flat(start), _flat(end)
        found: list[Range] = []
        for key, copies in self._partitions().items():
            first = log_start(copies)
            begin, behind = begun.get(key, first), ends.get(key, 0)
            if begin < first and begin < behind and self._options.fail_on_data_loss:
                raise DataLoss(
                    f"{key[0]}-{key[1]}: offsets from {begin:,} are gone, the log starts at {first:,}; "
                    "failOnDataLoss=false goes on there"
                )
            found += chosen(copies, max(begin, first), behind)
        return [SplitPartition(split) for split in splits(found, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one split."""
        return read_partition(partition, self._options, self._columns)

    def _partitions(self) -> dict[Partition, list[PartitionFiles]]:
        """The copies of every partition. None where nothing is left of a directory that may go."""
        try:
            return {(copies[0].topic, copies[0].partition): copies for copies in partitions(self._options)}
        except UnreadableInput:
            if self._options.fail_on_data_loss:
                raise
            return {}

    def _ends(self) -> dict[Partition, int]:
        return {key: _end(copies, self._options) for key, copies in self._partitions().items()}


def _end(copies: list[PartitionFiles], options: SourceOptions) -> int:
    """How far a partition can be read now."""
    end = offsets.log_end(copies[0])
    marks = [each.high_watermark for each in copies if each.high_watermark is not None]
    if marks and not options.beyond_high_watermark:
        end = min(end, max(marks))
    if options.isolation is Isolation.READ_COMMITTED:
        end = offsets.last_stable_offset(copies[0], end)
    asked = options.end.offset_of((copies[0].topic, copies[0].partition))
    return end if asked == LATEST else min(end, asked)


def _limited(begun: dict[Partition, int], ends: dict[Partition, int], limit: ReadLimit) -> dict[Partition, int]:
    """The ends, drawn in so that a batch has about as many offsets as the limit: of each partition its share."""
    new = {key: end - begun.get(key, 0) for key, end in ends.items()}
    total = sum(new.values())
    if not isinstance(limit, ReadMaxRows) or total <= limit.max_rows:
        return ends
    shares = {key: limit.max_rows * size // total for key, size in new.items()}
    if not any(shares.values()):  # fewer than there are partitions
        shares[max(new, key=lambda key: new[key])] = limit.max_rows
    return {key: begun.get(key, 0) + share for key, share in shares.items()}


def _nested(flat: dict[Partition, int]) -> Offsets:
    found: Offsets = {}
    for (topic, partition), offset in sorted(flat.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _flat(nested: Offsets) -> dict[Partition, int]:
    return {(topic, int(number)): offset for topic, numbers in nested.items() for number, offset in numbers.items()}
