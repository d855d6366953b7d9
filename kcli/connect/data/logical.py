"""The logical types Decimal, Date, Time and Timestamp.

Decimal     decimal.Decimal   the unscaled value in big-endian bytes; the scale is a parameter of the schema
Date        Date              days since 1970
Time        Date              milliseconds since midnight
Timestamp   Date              milliseconds since 1970

Source: org.apache.kafka.connect.data.Decimal, Date, Time, Timestamp.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

from kcli.connect.data.errors import NULL_POINTER, DataError, JavaError
from kcli.connect.data.schema import Schema, Type
from kcli.connect.data.values import (
    LOGICAL_DATE,
    LOGICAL_DECIMAL,
    LOGICAL_TIME,
    LOGICAL_TIMESTAMP,
    Date,
    wrapped,
)
from kcli.java.values import java_integer

DAY_MS: Final = 24 * 60 * 60 * 1000
SCALE: Final = "scale"
EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)

DATE: Final = Schema(Type.INT32, name=LOGICAL_DATE, version=1)
TIME: Final = Schema(Type.INT32, name=LOGICAL_TIME, version=1)
TIMESTAMP: Final = Schema(Type.INT64, name=LOGICAL_TIMESTAMP, version=1)
OPTIONAL_DATE: Final = DATE.changed(optional=True)
OPTIONAL_TIME: Final = TIME.changed(optional=True)
OPTIONAL_TIMESTAMP: Final = TIMESTAMP.changed(optional=True)


def decimal_schema(scale: int) -> Schema:
    """Return the schema of decimals with this scale."""
    return Schema(Type.BYTES, name=LOGICAL_DECIMAL, version=1, parameters={SCALE: str(scale)})


def scaled(unscaled: int, scale: int) -> Decimal:
    """Return the decimal with an unscaled value and a scale, as BigDecimal has them."""
    return EXACT.scaleb(Decimal(unscaled), -scale) if unscaled else Decimal((0, (0,), -scale))


def scale_of(value: Decimal) -> int:
    """Return the scale of a finite decimal."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return -exponent


def unscaled_of(value: Decimal) -> int:
    """Return the unscaled value of a finite decimal."""
    return int(EXACT.scaleb(value, scale_of(value)))


def decimal_bytes(schema: Schema, value: Decimal) -> bytes:
    """Return the bytes of a decimal. Raises DataError if its scale is not the schema's."""
    scale = _scale(schema)
    if scale_of(value) != scale:
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale}, value has scale {scale_of(value)}."
        )
    unscaled = unscaled_of(value)
    return unscaled.to_bytes(
        (unscaled.bit_length() if unscaled >= 0 else (~unscaled).bit_length()) // 8 + 1, signed=True
    )


def decimal_of(schema: Schema, data: bytes) -> Decimal:
    """Return the decimal of its bytes. Raises DataError for a schema without a scale, or no bytes at all."""
    if not data:
        raise JavaError("java.lang.NumberFormatException", "Zero length BigInteger")
    return scaled(int.from_bytes(data, signed=True), _scale(schema))


def _scale(schema: Schema) -> int:
    if schema.parameters is None:
        raise JavaError(
            NULL_POINTER,
            'Cannot invoke "java.util.Map.get(Object)" because the return value of '
            '"org.apache.kafka.connect.data.Schema.parameters()" is null',
        )
    text = schema.parameters.get(SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    scale = java_integer(text)
    if scale is None:
        raise DataError("Invalid scale parameter found in Decimal schema: ")
    return scale


def date_days(schema: Schema, value: Date) -> int:
    """Return the days of a date. Raises DataError if it is not a midnight."""
    _check_name(schema, LOGICAL_DATE, "Date")
    if value.millis % DAY_MS:
        raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
    return wrapped(value.millis // DAY_MS, 32)


def time_millis(schema: Schema, value: Date) -> int:
    """Return the milliseconds of a time. Raises DataError if it is not on the first day."""
    _check_name(schema, LOGICAL_TIME, "Time")
    if not 0 <= value.millis <= DAY_MS:
        raise DataError("Kafka Connect Time type should not have any date fields set to non-zero values.")
    return value.millis


def timestamp_millis(schema: Schema, value: Date) -> int:
    """Return the milliseconds of a timestamp."""
    _check_name(schema, LOGICAL_TIMESTAMP, "Timestamp")
    return value.millis


def date_of(days: int) -> Date:
    """Return the date of its days."""
    return Date(days * DAY_MS)


def time_of(millis: int) -> Date:
    """Return the time of its milliseconds. Raises DataError if they are more than a day."""
    if not 0 <= millis <= DAY_MS:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    return Date(millis)


def encoded(schema: Schema, value: Any) -> Any:
    """Return the number that a Date, Time or Timestamp stands for; another value as it is. Raises DataError."""
    if schema.name == LOGICAL_DATE:
        return date_days(schema, value)
    if schema.name == LOGICAL_TIME:
        return time_millis(schema, value)
    return timestamp_millis(schema, value) if schema.name == LOGICAL_TIMESTAMP else value


def _check_name(schema: Schema, name: str, kind: str) -> None:
    if schema.name != name:
        raise DataError(f"Requested conversion of {kind} object but the schema does not match.")
