"""Exports to Iceberg and Delta tables, read back by their own libraries and by DuckDB."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg import expressions

from kcli.errors import KcliError, UsageError
from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import ExportOptions
from kcli.export.job import Job
from kcli.export.outcome import Outcome
from kcli.export.table_writer import TableFormat
from kcli.log.disk import Disk
from kcli.pipelines.tables.iceberg import OFFSETS, IcebergTable
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.staging import Intent
from kcli.pipelines.tables.table import Position
from kcli.protocol.topic_partition import TopicPartition
from kcli.schema_client.errors import SchemaError
from tests.conftest import GOLDEN
from tests.export.in_process import InProcess
from tests.export.logs import TOPIC_IDS, append, make_anew
from tests.pipelines.tables.places import COLUMNS, Place, sorted_rows, source
from tests.pipelines.tables.rest_catalog import rest_catalog

# pyiceberg's own types know only the arguments of the constructors that it does not document.
EQUAL: Any = expressions.EqualTo
AT_LEAST: Any = expressions.GreaterThanOrEqual


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A partition of one batch."""
    directory = tmp_path / "log" / "t-0"
    directory.mkdir(parents=True)
    append(directory, list(range(10)))
    return directory


@pytest.mark.parametrize("name", ["codecs/data", "legacy/data"])
def test_the_rows_are_those_of_the_parquet_export(name: str, place: Place, tmp_path: Path) -> None:
    given = source(GOLDEN / name)
    Job(ExportOptions(given, tmp_path / "parquet"), InProcess()).run()  # type: ignore[arg-type]
    outcome = place.export(given)
    expected = sorted_rows(ds.dataset(tmp_path / "parquet").to_table())
    assert sorted_rows(place.read()) == expected
    with_duckdb = duckdb.sql("select * from read_parquet(?)", params=[place.files()])
    assert with_duckdb is not None
    assert sorted_rows(with_duckdb.to_arrow_table()) == expected
    assert outcome.records == len(expected) > 0
    assert place.export(given).records == 0
    assert len(place.read()) == len(expected)


def test_a_log_that_has_grown(log: Path, place: Place, tmp_path: Path) -> None:
    assert place.export(source(log)).records == 10
    assert place.export(source(log)).records == 0
    append(log, list(range(10, 15)))
    other = log.with_name("t-1")
    other.mkdir()
    append(other, [0, 1])
    assert place.export(source(log.parent)).records == 7
    assert place.offsets() == [*((0, offset) for offset in range(15)), (1, 0), (1, 1)]
    left = {each.name for each in tmp_path.iterdir()} - {"catalog.db", "rest.db", "warehouse"}
    assert left == {"log", "out"}


def test_nothing_new_needs_no_spark(log: Path, plain_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_place.export(source(log))
    monkeypatch.setattr("kcli.export.steps.Steps._work", None)
    assert plain_place.export(source(log)).records == 0


def test_another_log_of_the_same_name(log: Path, plain_place: Place) -> None:
    plain_place.export(source(log))
    (log / "00000000000000000000.log").unlink()
    append(log, [0, 1, 2])
    with pytest.raises(
        UsageError, match=r"t-0: the .* has the offsets up to 9, and the log ends at 3: it was made anew"
    ):
        plain_place.export(source(log))


@pytest.mark.parametrize("size", [4, 20])
def test_a_topic_that_was_made_anew(size: int, log: Path, plain_place: Place) -> None:
    make_anew(log, TOPIC_IDS[0], range(10))
    plain_place.export(source(log))
    append(log, range(10, 15))
    plain_place.export(source(log))
    make_anew(log, TOPIC_IDS[1], range(size))
    was = (
        f"the topic t was deleted and made anew: its id was {TOPIC_IDS[0]}, and is {TOPIC_IDS[1]}; "
        r"the .* table .* has records of the topic before: export this one to another place"
    )
    with pytest.raises(UsageError, match=was):
        plain_place.export(source(log))
    assert plain_place.offsets() == [(0, offset) for offset in range(15)]


def test_a_table_without_topic_ids(log: Path, plain_place: Place) -> None:
    """Its commits are of an older version, or of a log that tells none; the next commit has the id."""
    plain_place.export(source(log))
    make_anew(log, TOPIC_IDS[0], range(15))
    plain_place.export(source(log))
    assert plain_place.offsets() == [(0, offset) for offset in range(15)]
    make_anew(log, TOPIC_IDS[1], range(20))
    with pytest.raises(UsageError, match="the topic t was deleted and made anew"):
        plain_place.export(source(log))


def test_offsets_are_in_the_commit(log: Path, plain_place: Place) -> None:
    plain_place.export(source(log))
    if plain_place.kind == "delta":
        table = DeltaTable(str(plain_place.out))
        assert table.transaction_version("kcli/t/0") == 10
        assert table.history()[0]["kcli.offsets"] == {"t": {"0": 10}}
    else:
        snapshot = plain_place.iceberg().current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        assert json.loads(str(snapshot.summary[OFFSETS])) == {"t": {"0": 10}}


@pytest.mark.parametrize("layout", [("topic", "partition"), ("day(timestamp)",), ("bucket(4,key)", "hour(timestamp)")])
def test_partition_transforms_of_iceberg(layout: tuple[str, ...], log: Path, tmp_path: Path) -> None:
    place = Place("directory", tmp_path / "out")
    place.export(source(log), layout)
    append(log, list(range(10, 15)))
    place.export(source(log), layout)
    assert place.offsets() == [(0, offset) for offset in range(15)]
    table = place.iceberg()
    assert len(table.spec().fields) == len(layout)
    found = table.scan(row_filter=EQUAL("key", b"k1")).to_arrow()
    assert sorted(found["offset"].to_pylist()) == [1, 5, 9, 13]
    later = datetime(2023, 11, 14, 22, 13, 20, 9000, tzinfo=UTC).isoformat()
    assert len(table.scan(row_filter=AT_LEAST("timestamp", later)).to_arrow()) > 0
    if layout[0].startswith("bucket"):
        assert len(list(table.scan(row_filter=EQUAL("key", b"k1")).plan_files())) < len(place.files())
    with pytest.raises(UsageError, match="is partitioned by"):
        place.export(source(log), ())


def test_partition_columns_of_delta(log: Path, tmp_path: Path) -> None:
    place = Place("delta", tmp_path / "out")
    place.export(source(log), ("topic", "date"))
    assert place.offsets() == [(0, offset) for offset in range(10)]
    table = DeltaTable(str(place.out))
    assert [dict(each) for each in table.partitions()] == [{"topic": "t", "date": "2023-11-14"}]
    with pytest.raises(UsageError, match="is partitioned by topic, date, not by nothing"):
        place.export(source(log))


@pytest.mark.parametrize("time_ms", [1 << 52, -(1 << 52), (1 << 62)])
def test_times_beyond_all_calendars(time_ms: int, plain_place: Place, tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0, 1])
    append(log, [2, 3], time_ms=time_ms)
    plain_place.export(source(log, columns=f"{COLUMNS},timestampMs"))
    assert plain_place.offsets() == [(0, offset) for offset in range(4)]
    times = plain_place.read().sort_by("offset").column("timestampMs").to_pylist()
    assert times[2:] == [time_ms + 2, time_ms + 3]


def test_others_may_compact_and_clean_up(log: Path, tmp_path: Path) -> None:
    place = Place("delta", tmp_path / "out")
    for first in (10, 20, 30):
        place.export(source(log))
        append(log, list(range(first, first + 10)))
    table = DeltaTable(str(place.out))
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert len(place.files()) == 1
    assert place.export(source(log)).records == 10
    assert place.offsets() == [(0, offset) for offset in range(40)]


def compacting(place: Place, log: Path, layout: tuple[str, ...] = (), *, file_bytes: int = 1 << 27) -> Outcome:
    """An export that joins small files."""
    form = TableFormat(layout, is_whole=place.kind != "delta", file_bytes=file_bytes)
    given = ExportOptions(source(log), place.out, form)
    return TableJob(given, place.table(layout), InProcess(), compacts=True).run()  # type: ignore[arg-type]


def test_small_files_are_joined(log: Path, place: Place) -> None:
    for first in (10, 20, 30):
        place.export(source(log))
        append(log, list(range(first, first + 10)))
    rows = sorted_rows(place.read())
    outcome = compacting(place, log)
    assert (outcome.records, outcome.joined, len(place.files())) == (10, 4, 1)
    assert place.offsets() == [(0, offset) for offset in range(40)]
    assert sorted_rows(place.read())[:30] == rows
    assert place.export(source(log)).records == 0
    assert compacting(place, log).joined == 0


def test_joined_files_stay_in_their_partition(log: Path, tmp_path: Path) -> None:
    """So the table is read by buckets as before, and a file that is large enough is left alone."""
    place = Place("directory", tmp_path / "out")
    layout = ("bucket(4,key)",)
    for first in (10, 20):
        place.export(source(log), layout)
        append(log, list(range(first, first + 10)))
    before = len(place.files())
    assert compacting(place, log, layout, file_bytes=1_000).joined == 0
    assert compacting(place, log, layout).joined == before + before // 2
    table = place.iceberg()
    tasks = [*table.scan().plan_files()]
    assert len({str(task.file.partition) for task in tasks}) == len(tasks)
    assert place.offsets() == [(0, offset) for offset in range(30)]
    assert len(table.scan(row_filter=EQUAL("key", b"k1")).to_arrow()) == len(range(1, 30, 4))
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert json.loads(str(summary[OFFSETS])) == {"t": {"0": 30}}


def test_joined_files_have_all_columns(tmp_path: Path) -> None:
    """Files of an older schema, too; and numbers that have grown."""
    place = Place("directory", tmp_path / "out")
    log = tmp_path / "t-0"
    log.mkdir()
    spec = registered(tmp_path, {1: [ID], 2: [{"name": "id", "type": "long"}, NOTE]})
    append(log, [0], [b"\0\0\0\0\1\x02"])
    place.export(source(log), value=spec)
    append(log, [1], [b"\0\0\0\0\2\x80\x80\x80\x80\x20\x02\x02x"])
    place.export(source(log), value=spec)
    given = ExportOptions(source(log), place.out, TableFormat((), is_whole=True), value=spec)
    assert TableJob(given, place.table(), InProcess(), compacts=True).run().joined == 2  # type: ignore[arg-type]
    assert [row["value"] for row in sorted_rows(place.read())] == [
        {"id": 1, "note": None},
        {"id": 1 << 32, "note": "x"},
    ]


def test_files_that_others_have_changed_stay(log: Path, tmp_path: Path) -> None:
    """Their names of columns are not those of the table any more."""
    place = Place("sql", tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db")
    place.export(source(log))
    append(log, [10])
    place.export(source(log))
    with place.iceberg().update_schema() as update:
        update.rename_column("headers", "more")
    assert place.table().compact(1 << 27, tmp_path, lambda *_: None) == 0


def test_somebody_else_commits_while_files_are_joined(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the same run stay."""
    place = Place("directory", tmp_path / "out")
    place.export(source(log))
    append(log, [10])
    replace_files = IcebergTable._small_files

    def slow(table: IcebergTable, *arguments: Any) -> Any:
        other = place.table()
        other.load()
        other.fit(pa.schema(pq.read_schema(place.files()[0])).remove_metadata())
        yield from replace_files(table, *arguments)
        other.append([], Position({TopicPartition("t", 0): 11}))

    monkeypatch.setattr(IcebergTable, "_small_files", slow)
    with pytest.raises(KcliError, match="has changed meanwhile, and no files were joined"):
        compacting(place, log)
    monkeypatch.undo()
    assert place.offsets() == [(0, offset) for offset in range(11)]
    assert {str(each) for each in place.out.rglob("*.parquet")} == set(place.files())
    assert compacting(place, log).joined == 2


def test_a_rollback_takes_offsets_back_with_rows(log: Path, tmp_path: Path) -> None:
    place = Place("sql", tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db")
    place.export(source(log))
    append(log, list(range(10, 15)))
    place.export(source(log))
    table = place.iceberg()
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    assert len(place.offsets()) == 10
    assert place.export(source(log)).records == 5
    assert place.offsets() == [(0, offset) for offset in range(15)]


def registered(tmp_path: Path, schemas: dict[int, list[dict[str, Any]]]) -> DecoderSpec:
    """Values of Avro, by schemas of a registry's dump."""
    dump = [
        {
            "subject": "t-value",
            "version": number,
            "id": number,
            "schemaType": "AVRO",
            "schema": json.dumps({"type": "record", "name": "Order", "fields": fields}),
        }
        for number, fields in schemas.items()
    ]
    (tmp_path / "dump.json").write_text(json.dumps(dump))
    return DecoderSpec.parse(f"avro:{tmp_path}/dump.json")


ID = {"name": "id", "type": "int"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def test_schemas_add_columns(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    spec = registered(tmp_path, {1: [ID], 2: [ID, NOTE], 3: [NOTE, ID]})
    append(log, [0], [b"\0\0\0\0\1\x02"])
    place.export(source(log), value=spec)
    append(log, [1, 2], [b"\0\0\0\0\2\x04\x02\x02x", b"\0\0\0\0\1\x06"])
    place.export(source(log), value=spec)
    append(log, [3, 4], [b"\0\0\0\0\1\x08", None])
    place.export(source(log), value=spec)
    append(log, [5], [b"\0\0\0\0\3\x02\x02y\x0a"])
    place.export(source(log), value=spec)
    assert [row["value"] for row in sorted_rows(place.read())] == [
        {"id": 1, "note": None},
        {"id": 2, "note": "x"},
        {"id": 3, "note": None},
        {"id": 4, "note": None},
        None,
        {"id": 5, "note": "y"},
    ]


OTHERS = {
    "protobuf": (
        [
            'syntax = "proto3"; message O { int64 id = 1; }',
            'syntax = "proto3"; message O { int64 id = 1; string note = 2; }',
        ],
        [b"\0\0\0\0\1\0\x08\x05", b"\0\0\0\0\2\0\x08\x06\x12\x01x"],
    ),
    "json": (
        [
            '{"type": "object", "properties": {"id": {"type": "integer"}}}',
            '{"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}',
        ],
        [b'\0\0\0\0\1{"id": 5}', b'\0\0\0\0\2{"id": 6, "note": "x"}'],
    ),
}


@pytest.mark.parametrize("language", OTHERS)
def test_schemas_of_other_languages_add_columns(language: str, plain_place: Place, tmp_path: Path) -> None:
    schemas, values = OTHERS[language]
    dump = [
        {"subject": "t-value", "version": number, "id": number, "schemaType": language.upper(), "schema": schema}
        for number, schema in enumerate(schemas, 1)
    ]
    (tmp_path / "dump.json").write_text(json.dumps(dump))
    spec = DecoderSpec.parse(f"{language}:{tmp_path}/dump.json")
    log = tmp_path / "t-0"
    log.mkdir()
    for offset, value in enumerate([*values, values[0]]):
        append(log, [offset], [value])
        plain_place.export(source(log), value=spec)
    found = [row["value"] for row in sorted_rows(plain_place.read())]
    assert found == [{"id": 5, "note": None}, {"id": 6, "note": "x"}, {"id": 5, "note": None}]


def test_fields_are_added_at_any_depth(place: Place, tmp_path: Path) -> None:
    """In the records of a list and of a map, as JSON that is typed by its DDL."""
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0], [b'{"l": [{"a": 1}, null], "m": {"k": {"a": 2}}, "s": {"t": {"a": 3}}}'])
    first = "l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>, s STRUCT<t: STRUCT<a: INT>>"
    place.export(source(log), value=DecoderSpec.parse(f"json:{first}"))
    append(
        log, [1], [b'{"m": {"k": {"b": "x"}, "n": null}, "l": [{"a": 1, "b": "y"}], "s": {"t": {"b": "z"}, "u": 5.5}}']
    )
    second = "l ARRAY<STRUCT<b: STRING, a: INT>>, m MAP<STRING, STRUCT<a: INT, b: STRING>>, d DATE, "
    second += "s STRUCT<u: DOUBLE, t: STRUCT<a: INT, b: STRING>>"
    place.export(source(log), value=DecoderSpec.parse(f"json:{second}"))
    old, new = (row["value"] for row in sorted_rows(place.read()))
    assert old["l"] == [{"a": 1, "b": None}, None]
    assert dict(old["m"]) == {"k": {"a": 2, "b": None}}
    assert (old["s"], old["d"]) == ({"t": {"a": 3, "b": None}, "u": None}, None)
    assert new["l"] == [{"a": 1, "b": "y"}]
    assert dict(new["m"]) == {"k": {"a": None, "b": "x"}, "n": None}
    assert new["s"] == {"t": {"a": None, "b": "z"}, "u": 5.5}


def test_records_that_tell_no_type(place: Place, tmp_path: Path) -> None:
    """Tombstones alone, or values that do not decode, fit into any column."""
    log = tmp_path / "t-0"
    log.mkdir()
    spec = registered(tmp_path, {1: [ID]})
    append(log, [0], [b"\0\0\0\0\1\x02"])
    place.export(source(log), value=spec)
    append(log, [1, 2], [None, None])
    place.export(source(log), value=spec)
    append(log, [3], [b"\0\0\0\0\7\x02"])
    outcome = place.export(source(log), value=spec)
    assert sum(file.records for file in outcome.dead_letters) == 1
    append(log, [4], [b"\0\0\0\0\1\x04"])
    place.export(source(log), value=spec)
    rows = sorted_rows(place.read())
    assert [(row["offset"], row["value"]) for row in rows] == [(0, {"id": 1}), (1, None), (2, None), (4, {"id": 2})]


def test_json_that_tells_no_type(plain_place: Place, tmp_path: Path) -> None:
    """Fields that are null, or lists without an item, in all new records."""
    log = tmp_path / "t-0"
    log.mkdir()
    spec = DecoderSpec.parse("json")
    append(log, [0], [None])
    for offset, value in enumerate([b'{"a": 1, "l": [{"b": 2}], "n": null}', b'{"a": null, "l": []}', None], 1):
        append(log, [offset], [value])
        plain_place.export(source(log), value=spec)
    old, new = (row["value"] for row in sorted_rows(plain_place.read())[1:3])
    assert old == {"a": 1, "l": [{"b": 2}], "n": None}
    assert new == {"a": None, "l": [], "n": None}
    assert plain_place.offsets() == [(0, offset) for offset in range(4)]


def test_numbers_grow_where_the_format_can(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    spec = registered(tmp_path, {1: [ID], 2: [{"name": "id", "type": "long"}]})
    append(log, [0], [b"\0\0\0\0\1\x02"])
    place.export(source(log), value=spec)
    append(log, [1], [b"\0\0\0\0\2\x80\x80\x80\x80\x20"])
    if place.kind == "delta":
        with pytest.raises(SchemaError, match=r"value\.id is int32 in the table and int64 in the records"):
            place.export(source(log), value=spec)
        assert len(place.read()) == 1
    else:
        place.export(source(log), value=spec)
        assert [row["value"]["id"] for row in sorted_rows(place.read())] == [1, 1 << 32]


def test_a_schema_that_cannot_evolve(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    spec = registered(tmp_path, {1: [ID], 2: [{"name": "id", "type": "string"}]})
    append(log, [0], [b"\0\0\0\0\1\x02"])
    place.export(source(log), value=spec)
    before = sorted(place.out.rglob("*"))
    append(log, [1], [b"\0\0\0\0\2\x02x"])
    with pytest.raises(SchemaError, match=r"value\.id is int32 in the table and string in the records"):
        place.export(source(log), value=spec)
    assert sorted(place.out.rglob("*")) == before
    assert place.offsets() == [(0, 0)]


def test_what_is_no_such_table(log: Path, plain_place: Place, tmp_path: Path) -> None:
    plain_place.out.mkdir()
    (plain_place.out / "mine").touch()
    with pytest.raises(UsageError, match=r"not empty, and is not the (Iceberg|Delta) table"):
        plain_place.export(source(log))
    (plain_place.out / "mine").unlink()
    Job(ExportOptions(source(log), plain_place.out), InProcess()).run()  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="holds an export of Parquet files"):
        plain_place.export(source(log))
    shutil.rmtree(plain_place.out)
    plain_place.out.touch()
    with pytest.raises(UsageError, match="no directory"):
        plain_place.export(source(log))


def test_a_table_of_others(log: Path, tmp_path: Path) -> None:
    place = Place("delta", tmp_path / "out")
    write_deltalake(str(place.out), pa.table({"offset": ["not a number"]}))
    with pytest.raises(SchemaError, match="offset is string in the table and int64 in the records"):
        place.export(source(log))
    place = Place("directory", tmp_path / "lake")
    place.export(source(log))
    table = place.table()
    table.load()
    assert isinstance(table, IcebergTable)
    assert table._table is not None
    table._table.delete()
    assert place.export(source(log)).records == 0, "offsets of the snapshot before"


def test_a_table_that_was_dropped(log: Path, tmp_path: Path) -> None:
    place = Place("sql", tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db")
    place.export(source(log))
    place.iceberg().catalog.drop_table("shop.orders")
    with pytest.raises(UsageError, match=r"not empty, and is not the Iceberg table shop\.orders"):
        place.export(source(log))
    shutil.rmtree(place.out)
    assert place.export(source(log)).records == 10
    shutil.rmtree(place.out)
    with pytest.raises(
        UsageError, match=r"shop\.orders is in its catalog, and its metadata is not in .*: drop it there"
    ):
        place.export(source(log))


def test_a_table_elsewhere(log: Path, tmp_path: Path) -> None:
    place = Place("sql", tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db")
    place.export(source(log))
    with pytest.raises(UsageError, match=f"has its files in {tmp_path}/out: --out names that directory"):
        Place("sql", tmp_path / "other", place.catalog).export(source(log))


@pytest.mark.parametrize(
    ("catalog", "reason"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1: no answer: .*Connection refused"),
        ("sqlite:////no/such/directory/catalog.db", "unable to open database file"),
        ("nobody", "no catalog that pyiceberg's configuration names"),
        ("mysterious://host/db", "mysterious"),
    ],
)
def test_a_catalog_that_does_not_answer(catalog: str, reason: str, log: Path, tmp_path: Path) -> None:
    with pytest.raises(KcliError, match=reason) as raised:
        Place("sql", tmp_path / "out", catalog).export(source(log))
    assert "\n" not in str(raised.value)
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_a_catalog_that_is_silent(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.pipelines.tables.iceberg.TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(KcliError, match=f"{url}: no answer within 0.2 s"):
            Place("rest", tmp_path / "out", url).export(source(log))


def test_help_loads_no_library_of_tables() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "kcli", "export-to-parquet", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--table" in done.stdout
    assert " typer\n" in done.stderr
    assert not [name for name in ("deltalake", "pyiceberg", "pyarrow", "pyspark") if f" {name}\n" in done.stderr]


@pytest.mark.parametrize("damage", [b"", b"\xff{", b"{}", b"1234"])
@pytest.mark.parametrize("kind", ["delta", "directory", "sql"])
def test_damaged_metadata(kind: str, damage: bytes, log: Path, tmp_path: Path) -> None:
    place = Place(kind, tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db" if kind == "sql" else None)
    place.export(source(log))
    (damaged,) = place.out.rglob("*.json")
    damaged.write_bytes(damage)
    with pytest.raises(KcliError, match=r"not the metadata of|Kernel error") as raised:
        place.export(source(log))
    assert "\n" not in str(raised.value)
    if kind == "directory":
        (place.out / "metadata" / "version-hint.text").write_bytes(damage)
        with pytest.raises(KcliError, match=r"not the number of|not the metadata of|Failed to open local file"):
            place.export(source(log))


@pytest.mark.parametrize("kind", ["directory", "sql"])
def test_a_clock_that_is_set_back(kind: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers in Java refuse a table whose snapshots are not in the order of their times."""
    place = Place(kind, tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db" if kind == "sql" else None)
    place.export(source(log))
    clock = time.time

    def times_ms() -> list[int]:
        return [each.timestamp_ms for each in place.iceberg().metadata.snapshot_log]

    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: clock() - 86_400)
        append(log, [10])
        place.export(source(log))
        append(log, [11])
        compacting(place, log)
    append(log, [12])
    place.export(source(log))
    assert times_ms() == sorted(times_ms())
    assert len(times_ms()) == 5
    assert place.iceberg().metadata.last_updated_ms == times_ms()[-1]
    assert place.offsets() == [(0, offset) for offset in range(13)]


def changed(place: Place, change: Callable[[dict[str, Any]], None], **protocol: Any) -> None:
    """Commit a change of the schema or the properties to a Delta table, as another writer would, with its protocol."""
    directory = place.out / "_delta_log"
    version = DeltaTable(str(place.out)).version()
    actions = [json.loads(line) for line in (directory / f"{0:020}.json").read_text().splitlines()]
    (metadata,) = (each["metaData"] for each in actions if "metaData" in each)
    metadata["schemaString"] = json.loads(metadata["schemaString"])
    change(metadata)
    metadata["schemaString"] = json.dumps(metadata["schemaString"])
    lines = [{"metaData": metadata}, *([{"protocol": protocol}] if protocol else [])]
    (directory / f"{version + 1:020}.json").write_text("\n".join(map(json.dumps, lines)))


def with_column(**more: Any) -> Callable[[dict[str, Any]], None]:
    column = {"name": "more", "type": "long", "nullable": True, "metadata": {}, **more}
    return lambda metadata: metadata["schemaString"]["fields"].append(column)


@pytest.mark.parametrize(
    ("change", "protocol", "reason"),
    [
        (with_column(nullable=False), {}, "more takes no null, and records may lack it: drop its NOT NULL"),
        (
            with_column(metadata={"delta.generationExpression": "offset + 1"}),
            {"minReaderVersion": 1, "minWriterVersion": 4},
            "has delta.generationExpression of more, a rule that kcli does not check",
        ),
        (
            lambda metadata: metadata["configuration"].update({"delta.constraints.few": "offset < 12"}),
            {"minReaderVersion": 1, "minWriterVersion": 3},
            "has delta.constraints.few, a rule that kcli does not check",
        ),
        (
            lambda _: None,
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]},
            "Unsupported table features required: .*RowTracking.*: nothing was added",
        ),
    ],
    ids=["NOT NULL", "generated", "constraint", "feature"],
)
def test_a_delta_table_with_rules_for_writers(
    change: Any, protocol: Any, reason: str, log: Path, tmp_path: Path
) -> None:
    place = Place("delta", tmp_path / "out")
    place.export(source(log))
    changed(place, change, **protocol)
    append(log, [10])
    with pytest.raises(KcliError, match=f"the Delta table {place.out}:? {reason}") as found:
        place.export(source(log))
    assert "\n" not in str(found.value)
    assert len(list(place.out.rglob("*.parquet"))) == 1


def test_an_iceberg_column_that_takes_no_null(log: Path, tmp_path: Path) -> None:
    place = Place("sql", tmp_path / "out", f"sqlite:///{tmp_path}/catalog.db")
    place.export(source(log))
    with place.iceberg().update_schema(allow_incompatible_changes=True) as update:
        update.update_column("key", required=True)
    append(log, [10])
    with pytest.raises(SchemaError, match="key takes no null, and records may lack it: drop its NOT NULL"):
        place.export(source(log))


def test_an_answer_that_is_lost(log: Path, tmp_path: Path) -> None:
    """The catalog has committed, and the export does not know: the next one finds the rows there."""
    with rest_catalog(tmp_path) as (url, lost):
        place = Place("rest", tmp_path / "out", url)
        lost.append(1)
        with pytest.raises(KcliError, match="the next export finds out whether the rows are in"):
            place.export(source(log))
        outcome = place.export(source(log))
        assert (outcome.records, outcome.finished_earlier) == (0, True)
        assert place.offsets() == [(0, offset) for offset in range(10)]


def test_somebody_else_commits_meanwhile(log: Path, place: Place, tmp_path: Path) -> None:
    place.export(source(log))
    append(log, [10, 11])
    ours, theirs = place.table(), place.table()
    for table in (ours, theirs):
        table.load()
        rows = table.fit(pa.schema(pq.read_schema(place.files()[0])).remove_metadata())
        assert "offset" in rows.names
    theirs.append([], Position({TopicPartition("t", 0): 12}))
    with pytest.raises(KcliError, match="has changed meanwhile, and nothing was added"):
        ours.append([], Position({TopicPartition("t", 0): 12}))
    assert place.export(source(log)).records == 0


def test_a_full_disk(log: Path, plain_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_place.export(source(log))
    before = sorted(plain_place.out.rglob("*.parquet"))
    append(log, [10])
    rename = Disk.rename

    def full(disk: Disk, staged: Path, place: Path) -> None:
        if place.is_relative_to(plain_place.out):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))
        rename(disk, staged, place)

    monkeypatch.setattr(Disk, "rename", full)
    with pytest.raises(KcliError, match="No space left on device"):
        plain_place.export(source(log))
    monkeypatch.undo()
    assert sorted(plain_place.out.rglob("*.parquet")) == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "out"]
    assert plain_place.export(source(log)).records == 1


@pytest.mark.parametrize("step", ["write_table", "write_file"])
def test_a_disk_that_is_full_before_the_commit(
    step: str, log: Path, plain_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a task, where Arrow writes, and when the intent is written: the error names no file of the staging."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    monkeypatch.setattr(pq.ParquetWriter if step == "write_table" else Disk, step, full)
    with pytest.raises(KcliError) as raised:
        plain_place.export(source(log))
    monkeypatch.undo()
    assert str(raised.value) == (
        f"{plain_place.out}: No space left on device: the table has nothing of this run, the same command tries again"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["log"]
    assert plain_place.export(source(log)).records == 10
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "out"]


@pytest.mark.parametrize("kind", ["delta", "directory"])
def test_where_no_table_can_be(kind: str, log: Path, tmp_path: Path) -> None:
    """The error says why, and does not advise to try again; what is known without a try is told by the plan, too."""
    (tmp_path / "file").write_text("")
    for out, reason, is_known in (
        (Path("/proc/kcli"), "no directory can be made in /proc: No such file or directory", False),
        (tmp_path / "file" / "out", f"no directory can be made in {tmp_path}/file: Not a directory", True),
        (tmp_path / ("x" * 256) / "out", f"no directory can be made in {tmp_path}: File name too long", True),
    ):
        job = TableJob(ExportOptions(source(log), out), Place(kind, out).table(), InProcess())  # type: ignore[arg-type]
        for work in (job.unread, job.run) if is_known else (job.run,):
            with pytest.raises(UsageError) as raised:
                work()
            assert str(raised.value) == f"{out}: no table can be written there, as {reason}"


@pytest.mark.parametrize("work", [TableJob.unread, TableJob.run])
def test_the_root_is_no_table(work: Callable[[TableJob], Any], log: Path) -> None:
    root = Path("/")
    options = ExportOptions(source(log), root)
    with pytest.raises(UsageError, match=r"^/ is the top of a file system: give a directory in it"):
        work(TableJob(options, Place("delta", root).table(), InProcess()))  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["write_file", "rename"])
def test_a_disk_that_becomes_read_only(
    step: str, log: Path, plain_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Disk, step, refused)
    with pytest.raises(KcliError) as raised:
        plain_place.export(source(log))
    assert str(raised.value) == f"{plain_place.out}: Read-only file system: the table has nothing of this run"


def test_a_disk_that_is_full_at_deltas_commit(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """deltalake leaves the directory of a log without a version, which the next run would take for somebody else's."""
    place = Place("delta", tmp_path / "out")
    arrow = "\x1b[31m\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}\x1b[0m"

    def full(*_: object, **__: object) -> None:
        (place.out / "_delta_log").mkdir()
        raise OSError(f"Generic LocalFileSystem error\n   {arrow} No space left on device (os error 28)\n")

    with monkeypatch.context() as patched:
        patched.setattr("kcli.pipelines.tables.delta.create_table_with_add_actions", full)
        with pytest.raises(
            KcliError, match=f"^{place.out}: No space left on device: the table has nothing of this run"
        ):
            place.export(source(log))
    assert [each.name for each in tmp_path.iterdir()] == ["log"]
    assert place.export(source(log)).records == 10


@pytest.mark.parametrize(
    ("made", "given", "fits"),
    [
        ("raw", "string", False),
        ("string", "raw", False),
        ("raw", "json", False),
        ("raw", "json:a INT", False),
        ("string", "json", True),
        ("string", "json:a INT", False),
        ("json:a INT", "string", False),
        ("json:a INT", "json:a INT, b INT", True),
        ("json:a INT", "json", True),
    ],
)
def test_another_format(made: str, given: str, fits: bool, log: Path, plain_place: Place) -> None:
    """It is refused though nothing is new, and by the plan."""
    plain_place.export(source(log), value=DecoderSpec.parse(made))
    form = TableFormat(is_whole=plain_place.kind != "delta")
    options = ExportOptions(source(log), plain_place.out, form, value=DecoderSpec.parse(given))
    for act in ("unread", "run"):
        job = TableJob(options, plain_place.table(), InProcess())  # type: ignore[arg-type]
        if fits:
            getattr(job, act)()
            continue
        with pytest.raises(SchemaError, match=r"value is .* in the table and .* in the records"):
            getattr(job, act)()


def test_an_intent_of_nothing(tmp_path: Path) -> None:
    intent = Intent(["/a/b"], {TopicPartition("t", 0): 5}, "run")
    path = tmp_path / "intent.json"
    path.write_bytes(intent.to_json())
    assert Intent.read(path) == intent
    path.write_text("{")
    with pytest.raises(KcliError, match="not the intent of an export"):
        Intent.read(path)
