"""The definition of a configuration: type, default, valid values, and when it can be changed.

The types beyond those of kcli.log.config are SHORT, CLASS (the name of a class, which this broker never loads) and
PASSWORD (never shown). Every list loses its duplicates before it is checked; in Kafka only a list that is checked with
ValidList does. Source: ConfigDef.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from kcli.java.values import double_text, java_integer, java_trim
from kcli.log.config import InvalidConfig, Type, Validator, Value, invalid, parse_value


class ConfigType(IntEnum):
    """The type of a configuration; the values are the numbers in DescribeConfigs."""

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
    """Kafka's update mode of a broker's configuration: only by a restart, dynamically for one broker, or also for
    all."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


PER_BROKER, CLUSTER_WIDE = Update.PER_BROKER, Update.CLUSTER_WIDE


class Required(IntEnum):
    """A placeholder for the default of a configuration that has none, because it must be set."""

    REQUIRED = 0


REQUIRED = Required.REQUIRED


@dataclass(frozen=True, slots=True)
class Key:
    """The definition of one configuration. default: None if the configuration is not set by default, REQUIRED if it
    must be set. internal: whether clients see the configuration only if it is set."""

    type: ConfigType
    default: Value | Required
    validator: Validator | None = None
    update: Update = Update.READ_ONLY
    internal: bool = False

    def parse(self, name: str, text: str) -> Value:
        """Return the value that `text` stands for; a list without its duplicates. Raises InvalidConfig if the text has
        another type, or the value is not valid. name: the configuration's name, for the error message."""
        value = parse(name, text, self.type)
        if isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            self.validator(name, value)
        return value

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a password, which is never shown."""
        return self.type is PASSWORD


def parse(name: str, text: str, kind: ConfigType) -> Value:
    """Return the value of type `kind` that `text` stands for. Raises InvalidConfig."""
    if kind in (CLASS, PASSWORD):
        return java_trim(text)
    if kind is not SHORT:
        return parse_value(name, text, Type[kind.name])
    number = java_integer(java_trim(text), 16)
    if number is None:
        raise invalid(name, text, "Not a number of type SHORT")
    return number


def to_text(value: Value | Required) -> str | None:
    """Return a value's text as Kafka writes it; None for no value."""
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


def valid_list(*words: str, empty: bool = True, null: bool = False) -> Validator:
    """Return a validator of lists: no word may be empty; if `words` are given, no other words are allowed. empty, null:
    whether an empty list, or None, is valid."""

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
    """Return a validator of numbers from `least` to `most`, both included."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, float), "a DOUBLE"
        if value < least:
            raise invalid(name, to_text(value), f"Value must be at least {least:g}")
        if value > most:
            raise invalid(name, to_text(value), f"Value must be no more than {most:g}")

    return check


def one_of_ignoring_case(*words: str) -> Validator:
    """Return a validator of strings that accepts `words`, given in upper case, in whatever case they are written."""

    def check(name: str, value: Value) -> None:
        if str(value).upper() not in words:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(words)}")

    return check


def not_empty(name: str, value: Value) -> None:
    """Raise InvalidConfig for an empty string; None is valid."""
    if value == "":
        raise invalid(name, value, "String must be non-empty")


def each(check: Callable[[str], object]) -> Validator:
    """Return a validator of lists that calls `check`, which may raise InvalidConfig, for every word. None is not
    valid."""

    def all_of(name: str, value: Value) -> None:
        if value is None:
            raise InvalidConfig(f"Invalid value null for configuration {name}")
        assert isinstance(value, tuple), "lists are tuples"
        for word in value:
            check(word)

    return all_of
