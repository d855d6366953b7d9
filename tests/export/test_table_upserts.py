"""A Delta table of the latest record of each key, kept up with by upserts; on a real Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kcli.errors import UsageError
from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import ExportOptions
from kcli.export.outcome import Outcome
from kcli.export.table_writer import TableFormat
from kcli.pipelines.tables.delta import DeltaLakeTable
from kcli.pipelines.tables.job import TableJob
from tests.export.logs import append
from tests.pipelines.tables.places import Place, source

STRING = DecoderSpec(format="string")


def export(spark: SparkSession, log: Path, out: Path, layout: tuple[str, ...] = (), *, by_key: bool = True) -> Outcome:
    options = ExportOptions(source(log), out, TableFormat(layout), value=STRING, latest_by_key=by_key)
    return TableJob(options, DeltaLakeTable(out, layout, by_key=by_key), spark.sparkContext).run()


def rows(out: Path) -> list[tuple[bytes, str, int]]:
    table = pa.table(DeltaTable(str(out)).to_pyarrow_table())
    return sorted(zip(*(table[name].to_pylist() for name in ("key", "value", "offset")), strict=True))


@pytest.mark.parametrize("layout", [(), ("topic", "partition")], ids=["flat", "by partition"])
def test_rows_are_replaced_and_deleted(layout: tuple[str, ...], spark: SparkSession, tmp_path: Path) -> None:
    log, out = tmp_path / "t-0", tmp_path / "out"
    log.mkdir()
    append(log, list(range(8)))
    append(log, [8], [None], [b"k0"])
    export(spark, log, out, layout)
    assert rows(out) == [(b"k1", "v5", 5), (b"k2", "v6", 6), (b"k3", "v7", 7)]
    append(log, [9, 10, 11, 12], [b"again", None, b"new", None], [b"k1", b"k2", b"k9", b"k10"])
    append(log, [13], [b"keyless"], [None])
    outcome = export(spark, log, out, layout)
    assert rows(out) == [(b"k1", "again", 9), (b"k3", "v7", 7), (b"k9", "new", 11)]
    assert sum(file.records for file in outcome.dead_letters) == 1
    assert export(spark, log, out, layout).records == 0
    append(log, [14], [None], [b"nobody"])
    export(spark, log, out, layout)
    assert DeltaTable(str(out)).transaction_version("kcli/t/0") == 15, "no row has changed, and the offset has"
    assert len(rows(out)) == 3
    with pytest.raises(UsageError, match="was made with --latest-by-key"):
        export(spark, log, out, layout, by_key=False)
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".kcli")] == []


def test_what_has_no_upserts(spark: SparkSession, tmp_path: Path) -> None:
    log, out = tmp_path / "t-0", tmp_path / "out"
    log.mkdir()
    append(log, [0, 1])
    export(spark, log, out, by_key=False)
    with pytest.raises(UsageError, match="was made without --latest-by-key"):
        export(spark, log, out)
    with pytest.raises(UsageError, match="partitioned by topic and partition only"):
        DeltaLakeTable(out, ["date"], by_key=True)
    with pytest.raises(UsageError, match="takes no upserts by key"):
        Place("directory", tmp_path / "lake").table().upsert([], {})
