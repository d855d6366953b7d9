"""The rows of a table as a stream, without Spark."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kcli.errors import UnreadableInput, UsageError
from kcli.export.decoding import DecoderSpec
from kcli.pipelines.pipe.ends import TableEnd
from kcli.pipelines.pipe.rows import TableOrigin, TableRows
from kcli.pipelines.tables.changes import CommitsGone, RowsChanged
from kcli.pipelines.tables.iceberg import IcebergTable
from tests.export.logs import append
from tests.pipelines.tables.places import NAME, Place, source

START = {"version": -1}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A partition of one batch."""
    directory = tmp_path / "log" / "t-0"
    directory.mkdir(parents=True)
    append(directory, list(range(10)))
    return directory


def origin(place: Place) -> TableOrigin:
    kind = "delta" if place.kind == "delta" else "iceberg"
    return TableOrigin(TableEnd(kind, place.out), place.catalog, None if place.catalog is None else NAME)


def reader(given: TableOrigin) -> Any:
    rows = given.source()
    assert isinstance(rows, TableRows)
    return rows.streamReader(rows.schema())


def read(given: TableOrigin, start: dict[str, int], end: dict[str, int]) -> list[Any]:
    """The rows of a micro-batch, each task with a pickled reader."""
    found = []
    for task in reader(given).partitions(start, end):
        copied, partition = pickle.loads(pickle.dumps((reader(given), task)))
        found += [row for batch in copied.read(partition) for row in batch.to_pylist()]
    return found


def latest(given: TableOrigin, start: dict[str, int] = START) -> dict[str, int]:
    found: dict[str, int] = reader(given).latestOffset(start, ReadAllAvailable())
    return found


def without_headers(rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return sorted((row["key"], row["value"]) for row in rows)


def test_all_rows_then_new_ones(log: Path, place: Place) -> None:
    place.export(source(log))
    given = origin(place)
    assert reader(given).initialOffset() == START
    first = latest(given)
    rows = read(given, START, first)
    assert without_headers(rows) == without_headers(place.read().to_pylist())
    assert read(given, START, first) == rows
    assert read(given, first, first) == []
    assert [part.unread for part in given.parts(START, first)] == [10]
    append(log, list(range(10, 15)))
    place.export(source(log))
    append(log, list(range(15, 17)))
    place.export(source(log))
    second = latest(given, first)
    assert len(read(given, first, second)) == 7
    assert sorted(map(str, rows + read(given, first, second))) == sorted(map(str, read(given, START, second)))
    assert given.parts(first, second)[0].unread == 7
    assert given.parts(second, second)[0].unread == 0


def test_the_end_of_a_run(log: Path, plain_place: Place) -> None:
    """Trigger.AvailableNow ends at what was there when the run began."""
    plain_place.export(source(log))
    one = reader(origin(plain_place))
    one.prepareForTriggerAvailableNow()
    version = one.latestOffset(START, ReadAllAvailable())
    append(log, [10])
    plain_place.export(source(log))
    assert one.latestOffset(version, ReadAllAvailable()) == version
    assert latest(origin(plain_place)) != version


def test_compaction_adds_no_rows(log: Path, tmp_path: Path) -> None:
    place = Place("delta", tmp_path / "out")
    place.export(source(log))
    append(log, list(range(10, 15)))
    place.export(source(log))
    given = origin(place)
    known = latest(given)
    DeltaTable(str(place.out)).optimize.compact()
    assert latest(given) != known
    assert read(given, known, latest(given)) == []


def test_rows_that_were_removed(log: Path, place: Place) -> None:
    place.export(source(log))
    given = origin(place)
    known = latest(given)
    if place.kind == "delta":
        DeltaTable(str(place.out)).delete('"offset" < 3')
    else:
        table = place.table()
        assert isinstance(table, IcebergTable)
        table.opened().delete('"offset" < 3')
    with pytest.raises(RowsChanged, match="a topic takes nothing back: another --checkpoint pipes all rows"):
        read(given, known, latest(given))
    assert len(read(given, START, latest(given))) == 7


def test_commits_that_are_gone(log: Path, place: Place) -> None:
    place.export(source(log))
    given = origin(place)
    end = latest(given)
    with pytest.raises(CommitsGone, match="commits since the last run are gone"):
        read(given, {"version": 12345}, {"version": end["version"] if place.kind != "delta" else 12347})


def test_files_that_are_gone(log: Path, plain_place: Place) -> None:
    plain_place.export(source(log))
    given = origin(plain_place)
    end = latest(given)
    for path in plain_place.files():
        Path(path).unlink()
    with pytest.raises(UnreadableInput, match="no such file: the table has dropped it since"):
        read(given, START, end)


def test_tables_with_other_columns(log: Path, plain_place: Place, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no Delta table|there is no Iceberg table"):
        origin(plain_place).source().schema()
    plain_place.export(source(log), value=DecoderSpec.parse("string"))
    schema: Any = origin(plain_place).source().schema()
    assert {each.name: each.dataType.simpleString() for each in schema.fields} == {
        "key": "binary",
        "value": "string",
        "headers": "array<struct<key:string,value:binary>>",
    }
    for name, table, message in (
        ("no-value", pa.table({"id": [1]}), "has no column value; it has id"),
        ("numbers", pa.table({"value": [1]}), "column value is int64: only bytes and text go into a topic"),
    ):
        write_deltalake(tmp_path / name, table)
        with pytest.raises(UsageError, match=message):
            TableOrigin(TableEnd("delta", tmp_path / name)).source().schema()


def test_a_table_of_others(tmp_path: Path) -> None:
    """Columns that a file lacks are null."""
    out = tmp_path / "out"
    write_deltalake(out, pa.table({"value": ["a"]}))
    write_deltalake(out, pa.table({"value": ["b"], "key": ["k"]}), mode="append", schema_mode="merge")
    given = TableOrigin(TableEnd("delta", out))
    rows = read(given, START, latest(given))
    assert sorted(rows, key=str) == [{"key": "k", "value": "b"}, {"key": None, "value": "a"}]


def test_another_table_in_its_place(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_deltalake(out, pa.table({"value": ["a"]}))
    given = TableOrigin(TableEnd("delta", out))
    known = given.identity()
    assert known == given.identity()
    out.rename(tmp_path / "old")
    write_deltalake(out, pa.table({"value": ["a"]}))
    assert given.identity() != known
    with pytest.raises(UsageError, match="the checkpoint is not of a pipe from a table"):
        read(given, {"t": 3}, START)
