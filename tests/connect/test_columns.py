"""A chain on Arrow's columns does what it does to records, one by one."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kcli.connect.builtin import built_in
from kcli.connect.converters.headers import SimpleHeaderConverter
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import ConnectRecord, Header, SourceRecord
from kcli.connect.data.schema import BYTES
from kcli.connect.transforms.chain import Link, chain_of
from kcli.connect.transforms.columns import HEADERS, NeedsRecords, columnar
from kcli.connect.transforms.headers import InsertHeader
from tests.conftest import is_soak

ROOM = "org.apache.kafka.connect.transforms"
TRANSFORMS: list[dict[str, str]] = [
    {"type": "RegexRouter", "regex": "db\\.(.*)", "replacement": "$1"},
    {"type": "RegexRouter", "regex": "o|orders", "replacement": "x"},
    {"type": "TimestampRouter"},
    {"type": "TimestampRouter", "topic.format": "${timestamp}/${topic}", "timestamp.format": "HH:mm"},
    {"type": "TimestampRouter", "timestamp.format": "yyyy-MM-dd'T'HH:mm:ss.SSS"},
    {"type": "InsertHeader", "header": "h", "value.literal": "1"},
    {"type": "InsertHeader", "header": "new", "value.literal": ""},
    {"type": "DropHeaders", "headers": "h,new"},
    {"type": "DropHeaders", "headers": "nothing"},
    {"type": "Filter"},
]
PREDICATES: list[dict[str, str]] = [
    {"type": "HasHeaderKey", "name": "h"},
    {"type": "HasHeaderKey", "name": "new"},
    {"type": "RecordIsTombstone"},
    {"type": "TopicNameMatches", "pattern": ".*orders"},
]
CHAINS = 2000 if is_soak() else 150
Row = dict[str, Any]


def header_bytes(transform: InsertHeader) -> bytes | None:
    key, value, schema = transform.header
    return SimpleHeaderConverter({}).from_connect_header("t", key, schema, value)


def properties(rng: Random) -> dict[str, str]:
    """Return a chain, about half of it with predicates."""
    names = [f"t{number}" for number in range(rng.randrange(5))]
    made = {"transforms": ",".join(names)}
    for name in names:
        given = rng.choice(TRANSFORMS)
        made |= {f"transforms.{name}.{option}": text for option, text in given.items()}
        made[f"transforms.{name}.type"] = f"{ROOM}.{given['type']}"
        if given["type"] == "Filter" or rng.random() < 0.5:
            predicate = rng.choice(PREDICATES)
            made |= {f"predicates.{name}.{option}": text for option, text in predicate.items()}
            made[f"predicates.{name}.type"] = f"{ROOM}.predicates.{predicate['type']}"
            made |= {f"transforms.{name}.predicate": name, f"transforms.{name}.negate": rng.choice(["true", "false"])}
    return made


def rows(rng: Random) -> list[Row]:
    return [
        {
            "topic": rng.choice(["orders", "db.orders", "db.users", "o"]),
            "partition": rng.choice([None, 0, 5]),
            "time": rng.randrange(10**12, 10**12 + 10**9),
            "key": rng.choice([None, b"k"]),
            "value": rng.choice([None, b"", b"v"]),
            "headers": rng.choice(
                [
                    None,
                    [],
                    [{"key": "h", "value": b"1"}],
                    [{"key": "a", "value": None}, {"key": "h", "value": b""}, {"key": "h", "value": b"2"}],
                ]
            ),
        }
        for _ in range(rng.choice([0, 1, 30]))
    ]


def table_of(made: list[Row]) -> pa.Table:
    fields = [("topic", pa.string()), ("partition", pa.int32()), ("time", pa.int64()), ("key", pa.binary())]
    return pa.Table.from_pylist(made, pa.schema([*fields, ("value", pa.binary()), ("headers", HEADERS)]))


def record_of(row: Row) -> SourceRecord:
    headers = tuple(Header(each["key"], each["value"], BYTES) for each in row["headers"] or ())
    about = {name: row[name] for name in ("topic", "partition", "key", "value")}
    return SourceRecord(timestamp=row["time"], headers=headers, **about)


def row_of(record: SourceRecord) -> Row:
    simple = SimpleHeaderConverter({})
    headers = [
        (each.key, each.value if each.schema == BYTES else simple.from_connect_header("t", *_parts(each)))
        for each in record.headers
    ]
    return {
        "topic": record.topic,
        "partition": record.partition,
        "time": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in headers],
    }


def _parts(header: Header) -> tuple[str, Any, Any]:
    return header.key, header.schema, header.value


def apply_all(chain: tuple[Link, ...], record: ConnectRecord) -> ConnectRecord | None:
    found: ConnectRecord | None = record
    for link in chain:
        found = None if found is None else link.apply(found)
    return found


def test_columns_become_what_records_become() -> None:
    rng = Random(1)
    for _ in range(CHAINS):
        given, made = properties(rng), rows(rng)
        chain = chain_of(given, built_in())
        columns = columnar(chain, "time", header_bytes)
        assert columns is not None
        found = [dict(row, headers=row["headers"] or []) for row in columns.apply(table_of(made)).to_pylist()]
        expected = [apply_all(chain, record_of(row)) for row in made]
        assert found == [row_of(each) for each in expected if isinstance(each, SourceRecord)], json.dumps(given)


def test_rows_without_headers_take_part() -> None:
    chain = chain_of(
        {
            "transforms": "a",
            "transforms.a.type": f"{ROOM}.InsertHeader",
            "transforms.a.header": "h",
            "transforms.a.value.literal": "x",
        },
        built_in(),
    )
    columns = columnar(chain, "time", header_bytes)
    assert columns is not None
    table = table_of(rows(Random(3))[:2]).drop_columns(["headers"])
    made = columns.apply(table)
    assert made.column("headers").to_pylist() == [[{"key": "h", "value": b"x"}]] * table.num_rows


@pytest.mark.parametrize(
    "options",
    [
        {"type": "TimestampRouter", "timestamp.format": "b"},
        {"type": "RegexRouter", "regex": ".*", "replacement": "$7"},
    ],
)
def test_an_error_needs_records_which_tell_it(options: dict[str, str]) -> None:
    given = {f"transforms.a.{name}": text for name, text in options.items()}
    chain = chain_of(given | {"transforms": "a", "transforms.a.type": f"{ROOM}.{options['type']}"}, built_in())
    columns = columnar(chain, "time", header_bytes)
    assert columns is not None
    row = {"topic": "t", "partition": None, "time": 1, "key": None, "value": b"v", "headers": None}
    with pytest.raises(NeedsRecords):
        columns.apply(table_of([row]))
    with pytest.raises(ConnectError):
        apply_all(chain, record_of(row))


def test_a_record_without_timestamp_needs_records() -> None:
    chain = chain_of({"transforms": "a", "transforms.a.type": f"{ROOM}.TimestampRouter"}, built_in())
    columns = columnar(chain, "time", header_bytes)
    assert columns is not None
    row = {"topic": "t", "partition": None, "time": None, "key": None, "value": b"v", "headers": None}
    with pytest.raises(NeedsRecords):
        columns.apply(table_of([row]))


def test_a_chain_that_looks_into_values_needs_records() -> None:
    given = {"transforms": "a", "transforms.a.type": f"{ROOM}.HoistField$Value", "transforms.a.field": "f"}
    assert columnar(chain_of(given, built_in()), "time", header_bytes) is None
