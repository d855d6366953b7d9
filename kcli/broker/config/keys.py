"""What a configuration is: its type, its default, what a value must be, whether it can be changed while in use.

The types beyond those of kcli.log.config are SHORT, CLASS (a name that this broker never loads) and PASSWORD (never
shown). Lists that Kafka checks with ValidList lose what they have twice before they are checked. Source: ConfigDef.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from kcli.java_values import java_integer, java_trim
from kcli.log.config import InvalidConfig, Type, Validator, Value, invalid, parse_value


class ConfigType(IntEnum):
    """The type of a configuration, as DescribeConfigs numbers it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN, STRING, INT, SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
CLASS, PASSWORD = ConfigType.CLASS, ConfigType.PASSWORD


class Update(IntEnum):
    """When a broker's configuration can be changed."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


PER_BROKER, CLUSTER_WIDE = Update.PER_BROKER, Update.CLUSTER_WIDE


class Required(IntEnum):
    """Has no default: must be given."""

    REQUIRED = 0


REQUIRED = Required.REQUIRED


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration. internal: not shown to clients unless it was set."""

    type: ConfigType
    default: Value | Required
    validator: Validator | None = None
    update: Update = Update.READ_ONLY
    internal: bool = False

    def parse(self, name: str, text: str) -> Value:
        """The value that `text` stands for, checked. Raises InvalidConfig."""
        value = parse(name, text, self.type)
        if isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            self.validator(name, value)
        return value

    @property
    def is_sensitive(self) -> bool:
        """Its value is never shown."""
        return self.type is PASSWORD


def parse(name: str, text: str, kind: ConfigType) -> Value:
    """A value of that type from its text. Raises InvalidConfig."""
    if kind in (CLASS, PASSWORD):
        return java_trim(text)
    if kind is not SHORT:
        return parse_value(name, text, Type[kind.name])
    number = java_integer(java_trim(text), 16)
    if number is None:
        raise invalid(name, text, "Not a number of type SHORT")
    return number


def to_text(value: Value | Required) -> str | None:
    """A value as Kafka writes it; None for none."""
    match value:
        case None | Required():
            return None
        case bool():
            return str(value).lower()
        case float():
            return double_text(value)
        case tuple():
            return ",".join(value)
    return str(value)


def double_text(value: float) -> str:
    """A double as Java prints it: `0.5`, `1.0E-5`, `1.7976931348623157E308`."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal

    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def valid_list(*words: str, empty: bool = True, null: bool = False) -> Validator:
    """A list without empty words, of these words where there are any."""

    def check(name: str, value: Value) -> None:
        if value is None:
            if not null:
                raise InvalidConfig(f"Configuration '{name}' values must not be null.")
            return
        assert isinstance(value, tuple), "lists are tuples"
        if not value and not empty:
            valid = f"[{', '.join(words)}]" if words else "any non-empty value"
            raise InvalidConfig(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
        for word in value:
            if not word:
                raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
            if words and word not in words:
                raise invalid(name, word, f"String must be one of: {', '.join(words)}")

    return check


def within(least: float, most: float) -> Validator:
    """A fraction within limits, both included."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, float), "a DOUBLE"
        if value < least:
            raise invalid(name, to_text(value), f"Value must be at least {least:g}")
        if value > most:
            raise invalid(name, to_text(value), f"Value must be no more than {most:g}")

    return check


def one_of_ignoring_case(*words: str) -> Validator:
    """One of these strings, in any case."""

    def check(name: str, value: Value) -> None:
        if str(value).upper() not in words:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(words)}")

    return check


def not_empty(name: str, value: Value) -> None:
    """A string that is none, or has something in it."""
    if value == "":
        raise invalid(name, value, "String must be non-empty")


def each(check: Callable[[str], object]) -> Validator:
    """A list of which `check` takes every word, or raises InvalidConfig."""

    def all_of(name: str, value: Value) -> None:
        if value is None:
            raise InvalidConfig(f"Invalid value null for configuration {name}")
        assert isinstance(value, tuple), "lists are tuples"
        for word in value:
            check(word)

    return all_of
