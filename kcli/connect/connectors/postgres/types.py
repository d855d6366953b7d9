"""Types of PostgreSQL as Debezium's connector maps them: a column to its schema, and the text of a value to the value.

    boolean, smallint, integer, bigint, oid, real, double precision, bytea    Connect's types
    numeric(p, s)   Decimal, with connect.decimal.precision; numeric: io.debezium.data.VariableScaleDecimal; with
                    decimal.handling.mode double or string these types. money: as numeric with two digits
    date            io.debezium.time.Date: days
    time            io.debezium.time.MicroTime; up to three digits io.debezium.time.Time, milliseconds
    timestamp       io.debezium.time.MicroTimestamp; up to three digits io.debezium.time.Timestamp, milliseconds
    timestamptz     io.debezium.time.ZonedTimestamp, timetz: io.debezium.time.ZonedTime: ISO's text, UTC
    interval        io.debezium.time.MicroDuration, a month being 30.4375 days
    json, uuid, xml, an enum      io.debezium.data.Json, Uuid, Xml, Enum
    bit, bit(1)     boolean; bit(n), varbit: io.debezium.data.Bits, little endian
    text, varchar, char, citext, inet, cidr, macaddr, ranges      string
    arrays          of the types above, with one dimension

time.precision.mode=adaptive_time_microseconds: time is always MicroTime; connect: Connect's Date, Time, Timestamp.
Source: PostgresValueConverter, JdbcValueConverters of Debezium.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kcli.connect.connectors.postgres.pgoutput import UNCHANGED, Value
from kcli.connect.data.builder import array_schema, struct_schema
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.logical import DATE, EXACT, SCALE, TIME, TIMESTAMP, decimal_schema, scale_of, unscaled_of
from kcli.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    Type,
)
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date

MILLIS_DIGITS_MAX: Final = 3
ISO_DIGITS: Final = 4
DAY_US: Final = 86_400_000_000
DAYS_PER_MONTH: Final = 365.25 / 12
INFINITY_US, MINUS_INFINITY_US = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
INFINITY_DAYS, MINUS_INFINITY_DAYS = 2_147_483_647, -2_147_483_648
_INFINITIES: Final = ("infinity", "-infinity")
PRECISION: Final = "connect.decimal.precision"


def _semantic(schema: Schema, name: str) -> Schema:
    return schema.changed(name=name, version=1)


VARIABLE_SCALE: Final = struct_schema(
    [("scale", INT32), ("value", BYTES)],
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)
_DAYS: Final = _semantic(INT32, "io.debezium.time.Date")
_MILLIS_OF_DAY: Final = _semantic(INT32, "io.debezium.time.Time")
_MICROS_OF_DAY: Final = _semantic(INT64, "io.debezium.time.MicroTime")
_MILLIS: Final = _semantic(INT64, "io.debezium.time.Timestamp")
_MICROS: Final = _semantic(INT64, "io.debezium.time.MicroTimestamp")
_STRINGS: Final = frozenset(
    (
        "char", "bpchar", "varchar", "text", "name", "citext", "inet", "cidr", "macaddr", "macaddr8", "int4range",
        "int8range", "numrange", "tsrange", "tstzrange", "daterange",
    )
)  # fmt: skip
_NAMED: Final = {
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "uuid": "io.debezium.data.Uuid",
    "xml": "io.debezium.data.Xml",
    "tsvector": "io.debezium.data.TsVector",
}


@dataclass(frozen=True)
class PgType:
    """A type: its name in pg_type. element: of an array. labels: of an enum."""

    name: str
    element: PgType | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Modes:
    """How values are shown: decimal.handling.mode, time.precision.mode, unavailable.value.placeholder."""

    decimals: str = "precise"
    times: str = "adaptive"
    placeholder: str = "__debezium_unavailable_value"


@dataclass(frozen=True)
class Codec:
    """How a column's values are given. of: a text to the value. missing: stands
    for a value that is not known, in a column that is required. unchanged: for one that PostgreSQL has not sent; None
    if nothing can."""

    schema: Schema
    of: Callable[[str], Any]
    missing: Any
    unchanged: Any = None

    def fitted(self, *, optional: bool) -> Codec:
        """Return the same for a column that is optional, or required. A struct has the schema of its field."""
        schema = self.schema.changed(optional=optional)
        if schema.type is not Type.STRUCT:
            return replace(self, schema=schema)

        def made(value: Struct) -> Struct:
            found = Struct(schema)
            found.values = value.values
            return found

        return replace(self, schema=schema, of=lambda text: made(self.of(text)), missing=made(self.missing))

    def value(self, text: Value, column: str) -> Any:
        """Return the value of a text. Raises ConnectError."""
        if text is None:
            return None
        if text is UNCHANGED:
            if self.unchanged is None:
                raise ConnectError(
                    f"column {column}: PostgreSQL sends no value of its type that is TOASTed and has not changed: set "
                    "REPLICA IDENTITY FULL for the table"
                )
            return self.unchanged
        try:
            return self.of(text)
        except (ValueError, InvalidOperation, ArithmeticError):
            raise ConnectError(f"column {column}: {text[:100]!r} is no value of its type") from None


def codec_of(kind: PgType, modifier: int, modes: Modes) -> Codec | None:
    """Return how the values of a column are given; None for a type that is left out. modifier: the type's, -1 for
    none."""
    if kind.element is not None:
        element = codec_of(kind.element, modifier, modes)
        return None if element is None else _array(element.fitted(optional=True), modes)
    if kind.labels:
        schema = STRING.changed(name="io.debezium.data.Enum", version=1, parameters={"allowed": ",".join(kind.labels)})
        return Codec(schema, str, "")
    name, placeholder = kind.name, modes.placeholder
    if name in _STRINGS:
        return Codec(STRING, str, "", placeholder)
    if name in _NAMED:
        return Codec(_semantic(STRING, _NAMED[name]), str, "", placeholder)
    if name == "bytea":
        return Codec(BYTES, lambda text: bytes.fromhex(text.removeprefix("\\x")), b"", placeholder.encode())
    if name in ("bit", "varbit"):
        return _bits(name, modifier)
    if name in ("numeric", "money"):
        return _number(name, modifier, modes)
    if name in ("date", "time", "timestamp"):
        return _time(name, modifier, modes.times)
    return _SIMPLE.get(name)


def _array(element: Codec, modes: Modes) -> Codec:
    schema = array_schema(element.schema)

    def of(text: str) -> list[Any]:
        return [None if each is None else element.of(each) for each in array_items(text)]

    unchanged = None if element.unchanged is None else [element.unchanged]
    if element.schema.type in (Type.INT16, Type.INT32, Type.INT64) and element.schema.name is None:
        unchanged = list(modes.placeholder.encode())
    return Codec(schema, of, [], unchanged)


def array_items(text: str) -> list[str | None]:
    """Return the items of an array of one dimension, as PostgreSQL writes it. Raises ValueError."""
    if not re.fullmatch(
        r'\{(?:(?:"(?:[^"\\]|\\.)*"|[^{},"]+)(?:,(?:"(?:[^"\\]|\\.)*"|[^{},"]+))*)?\}', text, re.DOTALL
    ):
        raise ValueError("no array of one dimension")
    found: list[str | None] = []
    for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)', text, re.DOTALL):
        if plain:
            found.append(None if plain == "NULL" else plain)
        else:
            found.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
    return found


def _bits(name: str, modifier: int) -> Codec:
    length = modifier if modifier > 0 else (1 if name == "bit" else 2_147_483_647)
    if length == 1:
        return Codec(BOOLEAN, lambda text: text == "1", missing=False)
    schema = BYTES.changed(name="io.debezium.data.Bits", version=1, parameters={"length": str(length)})
    size = (length + 7) // 8 if name == "bit" else 0

    def of(text: str) -> bytes:
        number = int(text or "0", 2)
        return number.to_bytes(max(size, (number.bit_length() + 7) // 8), "little")

    return Codec(schema, of, b"")


def _number(name: str, modifier: int, modes: Modes) -> Codec:
    def plain(text: str) -> str:
        return re.sub(r"[^-0-9.]", "", text) if name == "money" else text

    if modes.decimals == "string":
        return Codec(STRING, plain, "0", modes.placeholder if name == "numeric" else None)
    if modes.decimals == "double":
        return Codec(FLOAT64, lambda text: float(plain(text)), 0.0)
    if name == "numeric" and modifier < 0:
        return Codec(VARIABLE_SCALE, _variable, _variable("0"))
    precision, scale = ((modifier - 4) >> 16, (modifier - 4) & 0x7FF) if name == "numeric" else (0, 2)
    scale = scale - 0x800 if scale & 0x400 else scale
    schema = decimal_schema(scale)
    if precision:
        schema = schema.changed(parameters={SCALE: str(scale), PRECISION: str(precision)})
    step = Decimal((0, (1,), -scale))

    def of(text: str) -> Decimal:
        return _finite(plain(text)).quantize(step, context=EXACT)

    return Codec(schema, of, of("0"))


def _finite(text: str) -> Decimal:
    found = Decimal(text)
    if not found.is_finite():
        raise ValueError(text)
    return found


def _variable(text: str) -> Struct:
    value = _finite(text)
    unscaled = unscaled_of(value)
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    made = Struct(VARIABLE_SCALE)
    made.values = [scale_of(value), unscaled.to_bytes(size, signed=True)]
    return made


def _time(name: str, modifier: int, mode: str) -> Codec:
    digits = modifier if modifier >= 0 else 6
    is_connect, is_short = mode == "connect", digits <= MILLIS_DIGITS_MAX
    if name == "date":
        return (
            Codec(DATE, lambda text: Date(_days(text) * 86_400_000), Date(0)) if is_connect else Codec(_DAYS, _days, 0)
        )
    if name == "time":
        if is_connect:
            return Codec(TIME, lambda text: Date(_micros_of_day(text) // 1000), Date(0))
        if is_short and mode == "adaptive":
            return Codec(_MILLIS_OF_DAY, lambda text: _micros_of_day(text) // 1000, 0)
        return Codec(_MICROS_OF_DAY, _micros_of_day, 0)
    if is_connect:
        return Codec(TIMESTAMP, lambda text: Date(_micros(text) // 1000), Date(0))
    return Codec(_MILLIS, lambda text: _micros(text) // 1000, 0) if is_short else Codec(_MICROS, _micros, 0)


def _days(text: str) -> int:
    """Return the days since 1970 of a date, in any year."""
    if text in _INFINITIES:
        return MINUS_INFINITY_DAYS if text.startswith("-") else INFINITY_DAYS
    found = re.fullmatch(r"(\d{4,7})-(\d\d)-(\d\d)( BC)?", text)
    if found is None:
        raise ValueError(text)
    year, month, day = (int(each) for each in found.group(1, 2, 3))
    if found[4]:
        year = 1 - year
    year -= month <= 2  # January and February are the last months of a year that begins in March
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719_469


def _micros_of_day(text: str) -> int:
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", text)
    if found is None:
        raise ValueError(text)
    hours, minutes, seconds = (int(each) for each in found.group(1, 2, 3))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((found[4] or "").ljust(6, "0"))


def _micros(text: str) -> int:
    if text in _INFINITIES:
        return MINUS_INFINITY_US if text.startswith("-") else INFINITY_US
    is_before = text.endswith(" BC")
    day, _, rest = text.removesuffix(" BC").partition(" ")
    return _days(day + " BC" * is_before) * DAY_US + _micros_of_day(rest.removesuffix("+00"))


def _zoned(text: str) -> str:
    if text in _INFINITIES:
        return text
    is_before = text.endswith(" BC")
    day, _, rest = text.removesuffix(" BC").partition(" ")
    _micros_of_day(rest.removesuffix("+00"))
    year, _, more = day.partition("-")
    number = 1 - int(year) if is_before else int(year)
    shown = f"{number:05}" if number < 0 else f"{number:04}" if len(year) == ISO_DIGITS else f"+{number}"
    return f"{shown}-{more}T{rest.removesuffix('+00')}Z"


def _zoned_time(text: str) -> str:
    found = re.fullmatch(r"(\d\d:\d\d:\d\d(?:\.\d{1,6})?)([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?", text)
    if found is None:
        raise ValueError(text)
    hours, minutes, seconds = (int(each or 0) for each in found.group(3, 4, 5))
    zone_us = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 * (-1 if found[2] == "-" else 1)
    micros = (_micros_of_day(found[1]) - zone_us) % DAY_US
    whole, part = divmod(micros, 1_000_000)
    fraction = f".{part:06}".rstrip("0") if part else ""
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{fraction}Z"


def _duration(text: str) -> int:
    """Return the microseconds of an interval in ISO's form."""
    number = r"(?:(-?[\d.]+)%s)?"
    found = re.fullmatch(
        f"P{''.join(number % each for each in 'YMD')}(?:T{''.join(number % each for each in 'HMS')})?", text
    )
    if found is None or text == "P":
        raise ValueError(text)
    years, months, days, hours, minutes = (int(each or 0) for each in found.groups()[:5])
    seconds_us = int(Decimal(found[6] or 0) * 1_000_000)
    whole = ((days * 24 + hours) * 60 + minutes) * 60_000_000 + seconds_us
    return whole + int((years * 12 + months) * DAYS_PER_MONTH * DAY_US)


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise ValueError(text)
    return text == "t"


_SIMPLE: Final = {
    "bool": Codec(BOOLEAN, _boolean, missing=False),
    "int2": Codec(INT16, int, 0),
    "int4": Codec(INT32, int, 0),
    "int8": Codec(INT64, int, 0),
    "oid": Codec(INT64, int, 0),
    "float4": Codec(FLOAT32, float, 0.0),
    "float8": Codec(FLOAT64, float, 0.0),
    "timestamptz": Codec(_semantic(STRING, "io.debezium.time.ZonedTimestamp"), _zoned, "1970-01-01T00:00:00Z"),
    "timetz": Codec(_semantic(STRING, "io.debezium.time.ZonedTime"), _zoned_time, "00:00:00Z"),
    "interval": Codec(_semantic(INT64, "io.debezium.time.MicroDuration"), _duration, 0),
}


def unchanged_from(new: Sequence[Value], old: Sequence[Value] | None) -> Sequence[Value]:
    """Return a row in which a value that has not changed is that of the old row, if it has it."""
    if old is None or UNCHANGED not in new:
        return new
    return [before if value is UNCHANGED else value for value, before in zip(new, old, strict=True)]
