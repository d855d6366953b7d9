"""Filters of a query that limit the partitions, segments and offsets to read (filter pushdown).

    topic, partition    = and IN        applied exactly
    offset              = < <= > >= IN  applied exactly, except IN: from the lowest to the highest offset
    timestamp           = > >=          reading starts at the first record with that timestamp or a later one

Spark itself applies all other filters, and also those that are not applied exactly here. A row must match all filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from kcli.export.options import Narrowed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def narrow(filters: Iterable[Filter], so_far: Narrowed) -> tuple[Narrowed, list[Filter]]:
    """Return `so_far`, narrowed by the filters that this module applies, and the filters that Spark still has to
    apply."""
    left: list[Filter] = []
    for each in filters:
        column = ".".join(getattr(each, "attribute", ()))
        narrower, is_exact = _narrower(column, each, getattr(each, "value", None), so_far)
        so_far = narrower or so_far
        if narrower is None or not is_exact:
            left.append(each)
    return so_far, left


def _narrower(column: str, given: Filter, value: Any, so_far: Narrowed) -> tuple[Narrowed | None, bool]:
    if column == "topic" and isinstance(given, EqualTo | In):
        values = frozenset([value] if isinstance(given, EqualTo) else value)
        return replace(so_far, topics=values if so_far.topics is None else so_far.topics & values), True
    if column == "partition" and isinstance(given, EqualTo | In):
        numbers = frozenset([value] if isinstance(given, EqualTo) else value)
        return replace(so_far, partitions=numbers if so_far.partitions is None else so_far.partitions & numbers), True
    if column == "offset":
        bounds = _offsets(given, value)
        if bounds is not None:
            low, high, is_exact = bounds
            low, high = max(low, so_far.from_offset), min(high, so_far.to_offset)
            return replace(so_far, from_offset=low, to_offset=high), is_exact
    if column == "timestamp" and isinstance(given, EqualTo | GreaterThan | GreaterThanOrEqual):
        time = int((value.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1))
        return replace(so_far, from_time_ms=max(time, so_far.from_time_ms or 0)), False
    return None, False


def _offsets(given: Filter, value: Any) -> tuple[int, int, bool] | None:
    """Return the first offset and the exclusive end offset that a filter selects, and whether it selects all offsets
    between them; None for a filter that this module does not apply."""
    first, last = 0, (1 << 63) - 1
    if isinstance(given, EqualTo):
        return value, value + 1, True
    if isinstance(given, GreaterThan):
        return value + 1, last, True
    if isinstance(given, GreaterThanOrEqual):
        return value, last, True
    if isinstance(given, LessThan):
        return first, value, True
    if isinstance(given, LessThanOrEqual):
        return first, min(value + 1, last), True
    if isinstance(given, In):
        return min(value), max(value) + 1, False
    return None
