"""Tables of the latest record of each key, which upserts keep; on a real Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kcli.errors import UsageError
from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import ExportOptions
from kcli.export.outcome import Outcome
from kcli.export.table_writer import TableFormat
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.staging import TableStaging
from kcli.protocol.topic_partition import TopicPartition
from tests.export.logs import append
from tests.pipelines.tables.places import Place, source

STRING = DecoderSpec(format="string")


def export(
    spark: SparkSession, log: Path, place: Place, layout: tuple[str, ...] = (), *, by_key: bool = True
) -> Outcome:
    form = TableFormat(layout, is_whole=place.kind != "delta")
    options = ExportOptions(source(log), place.out, form, value=STRING, latest_by_key=by_key)
    return TableJob(options, place.table(layout, by_key=by_key), spark.sparkContext).run()


def rows(place: Place) -> list[tuple[bytes, str, int]]:
    table = place.read()
    return sorted(zip(*(table[name].to_pylist() for name in ("key", "value", "offset")), strict=True))


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("delta", ()),
        ("delta", ("topic", "partition")),
        ("directory", ()),
        ("sql", ("topic", "partition", "bucket(3,key)")),
    ],
)
def test_rows_are_replaced_and_deleted(kind: str, layout: tuple[str, ...], spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    place = Place(kind, tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db" if kind == "sql" else None)
    log.mkdir()
    append(log, list(range(8)))
    append(log, [8], [None], [b"k0"])
    export(spark, log, place, layout)
    assert rows(place) == [(b"k1", "v5", 5), (b"k2", "v6", 6), (b"k3", "v7", 7)]
    append(log, [9, 10, 11, 12], [b"again", None, b"new", None], [b"k1", b"k2", b"k9", b"k10"])
    append(log, [13], [b"keyless"], [None])
    outcome = export(spark, log, place, layout)
    assert rows(place) == [(b"k1", "again", 9), (b"k3", "v7", 7), (b"k9", "new", 11)]
    assert sum(file.records for file in outcome.dead_letters) == 1
    assert export(spark, log, place, layout).records == 0
    append(log, [14], [None], [b"nobody"])
    export(spark, log, place, layout)
    table = place.table(layout, by_key=True)
    table.load()
    offsets = table.next_offsets([TopicPartition("t", 0)])
    assert offsets == {TopicPartition("t", 0): 15}, "no row has changed, and the offset has"
    assert len(rows(place)) == 3
    with pytest.raises(UsageError, match="was made with --latest-by-key"):
        export(spark, log, place, layout, by_key=False)
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".kcli")] == []


class Killed(BaseException):
    """Where the process would have ended."""


def test_a_kill_before_the_commit_leaves_no_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, place = tmp_path / "t-0", Place("directory", tmp_path / "out")
    log.mkdir()
    append(log, list(range(8)))
    export(spark, log, place)
    append(log, [8], [None], [b"k0"])
    append(log, [9], [b"new"], [b"k1"])

    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr("kcli.pipelines.tables.iceberg.Once.commit_transaction", die)
    monkeypatch.setattr(TableStaging, "_leave", lambda staging: os.close(staging._lock))
    with pytest.raises(Killed):
        export(spark, log, place)
    monkeypatch.undo()
    assert len(list(place.out.rglob("*.parquet"))) > len(place.files())
    assert len(rows(place)) == 4
    export(spark, log, place)
    assert rows(place) == [(b"k1", "new", 9), (b"k2", "v6", 6), (b"k3", "v7", 7)]
    named = {file for snapshot in place.iceberg().snapshots() for file in files_of(place, snapshot.snapshot_id)}
    assert {str(path) for path in place.out.rglob("*.parquet")} == named
    assert not list(tmp_path.glob(".*.kcli"))


def files_of(place: Place, snapshot: int) -> list[str]:
    tasks = place.iceberg().scan(snapshot_id=snapshot).plan_files()
    return [task.file.file_path.removeprefix("file://") for task in tasks]


def test_what_is_no_table_by_key(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0, 1])
    for kind, term in (("delta", "date"), ("directory", "day(timestamp)")):
        place = Place(kind, tmp_path / kind)
        export(spark, log, place, by_key=False)
        with pytest.raises(UsageError, match="was made without --latest-by-key"):
            export(spark, log, place)
        with pytest.raises(UsageError, match="a table of --latest-by-key"):
            place.table([term], by_key=True)
