"""What a chain does to Arrow's columns, without a Python object for each record.

    RegexRouter, TimestampRouter     once for each topic and each span of time that the format tells apart
    InsertHeader, DropHeaders, Filter
    HasHeaderKey, RecordIsTombstone, TopicNameMatches

These leave keys and values alone, so columns may have bytes or strings for them, but RecordIsTombstone takes a null for
a tombstone: that holds for strings and bytes, not for JSON. All other transforms look into a key or value that has a
schema, and fail for plain strings and bytes as Kafka's do: they need records.

A table or batch has the columns topic, value, headers and one of timestamps in milliseconds; others are kept. A test
holds this form and that of records equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcli.connect.data.errors import JavaError
from kcli.connect.transforms.chain import Link
from kcli.connect.transforms.headers import DropHeaders, InsertHeader
from kcli.connect.transforms.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from kcli.connect.transforms.routing import Filter, RegexRouter, TimestampRouter
from kcli.connect.transforms.transform import Predicate, Transform

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_COLUMNAR: Final = (RegexRouter, TimestampRouter, InsertHeader, DropHeaders, Filter)


class NeedsRecords(Exception):
    """Columns with a record for which a transform has an error: as records they tell which, and what it costs."""


class ColumnChain(NamedTuple):
    """A chain for columns. timestamp: the name of the timestamps' column. header_bytes: a header's bytes, as the header
    converter of the connector makes them."""

    chain: tuple[Link, ...]
    timestamp: str
    header_bytes: Callable[[InsertHeader], bytes | None]

    def apply(self, table: pa.Table) -> pa.Table:
        """Return what becomes of a table, without the records that are dropped. Raises NeedsRecords."""
        for link in self.chain:
            if link.predicate is None:
                table = self._transformed(link.transform, table)
                continue
            mask = _holds(link.predicate, table)
            chosen = pc.invert(mask) if link.negates else mask
            table = self._where(link.transform, table, chosen)
        return table

    def _where(self, transform: Transform, table: pa.Table, chosen: pa.Array) -> pa.Table:
        """Return a table of which the chosen rows are transformed."""
        if not pc.any(chosen, min_count=0).as_py():
            return table
        rows = pa.array(np.arange(table.num_rows))
        kept = pa.concat_arrays([rows.filter(chosen), rows.filter(pc.invert(chosen))])
        transformed = self._transformed(transform, table.filter(chosen))
        if not transformed.num_rows:
            return table.filter(pc.invert(chosen))
        both = pa.concat_tables([transformed, table.filter(pc.invert(chosen))]).combine_chunks()
        return both.take(pc.sort_indices(kept))

    def _transformed(self, transform: Transform, table: pa.Table) -> pa.Table:
        try:
            match transform:
                case RegexRouter():
                    return _with_topics(table, _routed(transform, table))
                case TimestampRouter():
                    return _with_topics(table, _dated(transform, table, self.timestamp))
                case InsertHeader():
                    return _with_headers(table, _inserted(table, transform.header.key, self.header_bytes(transform)))
                case DropHeaders():
                    return _with_headers(table, _dropped(table, transform.names))
                case _:
                    return table.slice(0, 0)
        except JavaError as error:
            raise NeedsRecords(str(error)) from error


def columnar(
    chain: tuple[Link, ...], timestamp: str, header_bytes: Callable[[InsertHeader], bytes | None]
) -> ColumnChain | None:
    """Return the chain for columns; None if it needs records. Further arguments: those of ColumnChain."""
    if all(isinstance(link.transform, _COLUMNAR) for link in chain):
        return ColumnChain(chain, timestamp, header_bytes)
    return None


def _holds(predicate: Predicate, table: pa.Table) -> pa.Array:
    """Return for which rows a predicate holds."""
    match predicate:
        case RecordIsTombstone():
            return _whole(table, "value").is_null()
        case TopicNameMatches():
            topics = _whole(table, "topic").dictionary_encode()
            known = [topic is not None and predicate.matches(topic) for topic in topics.dictionary.to_pylist()]
            return pc.fill_null(pa.array(known, pa.bool_()).take(topics.indices), fill_value=False)
    assert isinstance(predicate, HasHeaderKey), predicate
    headers = _headers(table)
    found = pc.equal(pc.struct_field(headers.flatten(), "key"), predicate.text("name"))
    return pc.greater(_counts(headers.offsets, found), 0)


def _routed(router: RegexRouter, table: pa.Table) -> pa.Array:
    topics = _topics(table)
    made = [router.topic(topic) for topic in topics.dictionary.to_pylist()]
    return pa.array(made, pa.string()).take(topics.indices)


def _dated(router: TimestampRouter, table: pa.Table, timestamp: str) -> pa.Array:
    times = _whole(table, timestamp)
    if times.null_count or (len(times) and pc.min(times).as_py() < 0):
        raise NeedsRecords("a record without a timestamp")
    spans = pc.divide(times, router.span_ms).dictionary_encode()
    topics = _topics(table)
    count = len(spans.dictionary)
    pairs = pc.add(pc.multiply(topics.indices.cast(pa.int64()), count), spans.indices.cast(pa.int64()))
    pairs = pairs.dictionary_encode()
    names, starts = topics.dictionary.to_pylist(), spans.dictionary.to_pylist()
    made = [
        router.topic(names[pair // count], starts[pair % count] * router.span_ms)
        for pair in pairs.dictionary.to_pylist()
    ]
    return pa.array(made, pa.string()).take(pairs.indices)


def _topics(table: pa.Table) -> pa.DictionaryArray:
    topics = _whole(table, "topic")
    if topics.null_count:
        raise NeedsRecords("a record without a topic")
    return topics.dictionary_encode()


def _inserted(table: pa.Table, key: str, value: bytes | None) -> pa.Array:
    """Return the headers with one more at the end of each."""
    headers, count = _headers(table), table.num_rows
    offsets = headers.offsets
    rows = pa.array(np.arange(count))
    keys, values = (pc.struct_field(headers.flatten(), name) for name in ("key", "value"))
    parents = pc.list_parent_indices(headers).cast(pa.int64())
    order = pc.sort_indices(
        pa.table({"row": pa.concat_arrays([parents, rows]), "new": np.arange(len(parents) + count) >= len(parents)}),
        sort_keys=[("row", "ascending"), ("new", "ascending")],
    )
    made = pa.StructArray.from_arrays(
        [
            pa.concat_arrays([keys, pa.repeat(pa.scalar(key, pa.string()), count)]).take(order),
            pa.concat_arrays([values, pa.repeat(pa.scalar(value, pa.binary()), count)]).take(order),
        ],
        fields=list(HEADERS.value_type),
    )
    return pa.ListArray.from_arrays(pc.add(offsets, pa.array(np.arange(count + 1, dtype=np.int32))), made)


def _dropped(table: pa.Table, names: frozenset[str]) -> pa.Array:
    """Return the headers without those of some names."""
    headers = _headers(table)
    items = headers.flatten()
    stay = pc.invert(pc.is_in(pc.struct_field(items, "key"), pa.array(sorted(names), pa.string())))
    sums = _sums(stay)
    return pa.ListArray.from_arrays(sums.take(headers.offsets), items.filter(stay))


def _counts(offsets: pa.Array, found: pa.Array) -> pa.Array:
    """Return how many headers of each row were found."""
    at = _sums(found).take(offsets)
    return pc.subtract(at.slice(1), at.slice(0, len(at) - 1))


def _sums(found: pa.Array) -> pa.Array:
    """Return how many of the headers before each one, and of all, were found."""
    zero = pa.array([0], pa.int32())
    return pa.concat_arrays([zero, pc.cumulative_sum(found.cast(pa.int32()))]) if len(found) else zero


def _headers(table: pa.Table) -> pa.ListArray:
    """Return the headers of all rows; an empty list for none, and offsets that begin with 0."""
    if "headers" not in table.column_names:
        return pa.ListArray.from_arrays(
            pa.array([0] * (table.num_rows + 1), pa.int32()), pa.array([], HEADERS.value_type)
        )
    headers = _whole(table, "headers").cast(HEADERS)
    lengths = pc.fill_null(pc.list_value_length(headers), 0)
    zero = pa.array([0], pa.int32())
    offsets = pa.concat_arrays([zero, pc.cumulative_sum(lengths)]) if len(lengths) else zero
    return pa.ListArray.from_arrays(offsets, headers.flatten())


def _with_topics(table: pa.Table, topics: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index("topic"), "topic", topics)


def _with_headers(table: pa.Table, headers: pa.Array) -> pa.Table:
    if "headers" in table.column_names:
        return table.set_column(table.column_names.index("headers"), "headers", headers)
    return table.append_column("headers", headers)


def _whole(table: pa.Table, name: str) -> Any:
    """Return a column as one array."""
    column = table.column(name)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
