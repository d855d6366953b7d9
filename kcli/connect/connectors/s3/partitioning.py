"""The directory of an object below that of its topic.

    Default     partition=3
    Field       partition.field.name: region=eu/kind=a
    TimeBased   path.format, of the record's time cut to partition.duration.ms, in the timezone
    Hourly      'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH        Daily   the same without the hour

path.format has the letters of Joda-Time whose text is digits: Y or y, M and MM, d, H, m, s. Source: Confluent's
storage-common: DefaultPartitioner, FieldPartitioner, TimeBasedPartitioner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from kcli.connect.connectors.fields import field_of
from kcli.connect.data.errors import DataError
from kcli.connect.data.records import SinkRecord
from kcli.connect.data.values import Date

TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([a-zA-Z])\2*|[^a-zA-Z']+|'")
PARTS: Final = {"Y": "year", "y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
NAMED_MONTH: Final = 3
HOUR_MS: Final = 3_600_000
DAILY: Final = "'year'=YYYY/'month'=MM/'day'=dd"
FIXED: Final = {"Hourly": (f"{DAILY}/'hour'=HH", HOUR_MS), "Daily": (DAILY, 24 * HOUR_MS)}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Encode = Callable[[SinkRecord, int], str]
"""Returns the directory of a record. Takes the record, and the time that its extractor has for it, in ms."""
Extract = Callable[[SinkRecord], int]
"""Returns the time of a record in ms. Raises DataError."""


class BadFormat(ValueError):
    """A path.format that is none."""


class PathFormat:
    """A path.format. Raises BadFormat."""

    def __init__(self, text: str) -> None:
        self._parts = [_part(found) for found in TOKEN.finditer(text)]

    def of(self, time: datetime) -> str:
        """Return the text of a time."""
        return "".join(
            text if name is None else str(getattr(time, name)).zfill(width) for text, name, width in self._parts
        )


def _part(found: re.Match[str]) -> tuple[str, str | None, int]:
    """Return a text, or the name of a time's part and how many digits it has at least."""
    if found[1] is not None:
        return (found[1].replace("''", "'") or "'", None, 0)
    letter = found[2]
    if letter is None:
        if found[0] == "'":
            raise BadFormat("a quote is not closed")
        return found[0], None, 0
    if letter not in PARTS or (letter == "M" and len(found[0]) >= NAMED_MONTH):
        raise BadFormat(f"kcli has no {found[0]!r} there; it has {', '.join(PARTS)}, and months as digits")
    if letter in "Yy" and len(found[0]) == 2:
        raise BadFormat("kcli has no years of two digits")
    return "", PARTS[letter], len(found[0])


def encoder(kind: str, config: Mapping[str, str]) -> Encode:
    """Return what names directories, for a kind of partitioner."""
    if kind == "Default":
        return lambda record, _: f"partition={record.partition}"
    if kind == "Field":
        names = [each.strip() for each in config["partition.field.name"].split(",")]
        return lambda record, _: "/".join(f"{name}={_text(record, name)}" for name in names)
    text, duration_ms = FIXED.get(kind) or (config["path.format"], int(config["partition.duration.ms"]))
    written, zone = PathFormat(text), ZoneInfo(config["timezone"])

    def encode(_: SinkRecord, time_ms: int) -> str:
        local_ms = (_moment(time_ms).astimezone(zone).replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
        return written.of(_moment(local_ms - local_ms % duration_ms))

    return encode


def extractor(kind: str, field: str) -> Extract | None:
    """Return what finds the time of a record: its own, or that of a field; None for the present time."""
    if kind == "Wallclock":
        return None
    return _time_of if kind == "Record" else lambda record: _field_time(record, field)


def _time_of(record: SinkRecord) -> int:
    if record.timestamp is None:
        raise DataError("the record has no timestamp")
    return record.timestamp


def _field_time(record: SinkRecord, field: str) -> int:
    found = field_of(record.value, field)
    if isinstance(found, Date):
        return found.millis
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    try:
        moment = datetime.fromisoformat(found)
    except (TypeError, ValueError):
        raise DataError(f"field {field} of the value is no time: {found!r}") from None
    return Date.of(moment if moment.tzinfo else moment.replace(tzinfo=UTC)).millis


def _moment(time_ms: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        raise DataError(f"{time_ms} ms is no time of the years 1 to 9999") from None


def _text(record: SinkRecord, name: str) -> str:
    found: Any = field_of(record.value, name)
    if isinstance(found, bool):
        return "true" if found else "false"
    if not isinstance(found, int | str):
        raise DataError(f"field {name} of the value is no number, text or boolean: no directory can be named by it")
    return str(found)
