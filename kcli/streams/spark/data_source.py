"""The data source that is both ends of the query: it reads the topics of all tasks, and runs the tasks."""

from __future__ import annotations

import copyreg
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from kcli.export.options import SourceOptions
from kcli.streams.spark.inputs import RANGE_ROW, InputsReader, ranges_in
from kcli.streams.spark.stages import Feed
from kcli.streams.spark.worker import Application, run

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "kcli-streams"


def _again(layout: struct.Struct) -> tuple[type[struct.Struct], tuple[str]]:
    return struct.Struct, (layout.format,)


copyreg.pickle(struct.Struct, _again)  # serdes have them, and go to workers with the program


def data_source(application: Application, options: SourceOptions, topics: Mapping[str, Feed]) -> type[DataSource]:
    """Return the data source of an application, for Spark to register under NAME. options: of the reader."""

    class Tasks(DataSource):
        """The tasks of a program."""

        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return RANGE_ROW

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's name)
            return InputsReader(options, application.cluster, topics)

        def streamWriter(  # noqa: N802 (Spark's name)
            self,
            schema: StructType,  # noqa: ARG002
            overwrite: bool,  # noqa: ARG002
        ) -> DataSourceStreamWriter:
            return TasksWriter(application)

    return Tasks


@dataclass
class TasksWriter(DataSourceStreamArrowWriter):
    """Runs a task on the ranges that Spark gives to its worker."""

    application: Application

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Run a task on its ranges. Raises as kcli.streams.spark.worker.run."""
        run(self.application, [each for rows in iterator for each in ranges_in(rows)])
        return WriterCommitMessage()
