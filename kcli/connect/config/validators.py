"""Validators of options, with Kafka's words for what they refuse."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kcli.connect.config.config_def import ConfigError, DistinctWords, Validator, Value, java_text

_CONTROL: Final = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


def _text(value: Value) -> str | None:
    assert value is None or isinstance(value, str), value
    return value


def _words(value: Value) -> list[str]:
    assert isinstance(value, list), value
    return value


def at_least(low: float) -> Validator:
    """Return a validator for numbers from `low`."""
    return between(low, None)


def between(low: float | None, high: float | None) -> Validator:
    """Return a validator for numbers from `low` to `high`, both included; None for no limit."""

    def check(name: str, value: Value) -> None:
        if value is None:
            raise ConfigError.of(name, None, "Value must be non-null")
        assert isinstance(value, int | float), value
        if low is not None and value < low:
            raise ConfigError.of(name, value, f"Value must be at least {java_text(low)}")
        if high is not None and value > high:
            raise ConfigError.of(name, value, f"Value must be no more than {java_text(high)}")

    return check


def if_set(validator: Validator) -> Validator:
    """Return a validator that also takes an option that is not set."""

    def check(name: str, value: Value) -> None:
        if value is not None:
            validator(name, value)

    return check


def one_of(*allowed: str) -> Validator:
    """Return a validator for some texts."""

    def check(name: str, value: Value) -> None:
        if value not in allowed:
            raise ConfigError.of(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def only(allowed: Value) -> Validator:
    """Return a validator for an option of which kcli has one value, the default."""

    def check(name: str, value: Value) -> None:
        if value != allowed:
            raise ConfigError.of(name, value, f"kcli has no other value than the default, {java_text(allowed)!r}")

    return check


def one_of_ignoring_case(*allowed: str) -> Validator:
    """Return a validator for some texts in any case. The error lists them in upper case, in the given order."""
    upper = [each.upper() for each in allowed]

    def check(name: str, value: Value) -> None:
        text = _text(value)
        if text is None or text.upper() not in upper:
            raise ConfigError.of(name, value, f"String must be one of (case insensitive): {', '.join(upper)}")

    return check


def distinct(allowed: Collection[str] = (), *, empty: bool = True, null: bool = False) -> Validator:
    """Return a validator for lists without a duplicate. allowed: the words to choose from, all words if there are
    none. empty, null: whether the list may be empty, or not set."""

    def check(name: str, value: Value) -> None:
        if value is None:
            if null:
                return
            raise ConfigError(f"Configuration '{name}' values must not be null.")
        words = _words(value)
        if not words and not empty:
            choice = f"[{', '.join(allowed)}]" if allowed else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {choice}")
        if len(set(words)) < len(words):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
        for word in words:
            if not allowed and not word:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if allowed:
                one_of(*allowed)(name, word)

    return DistinctWords(check)


def all_of(*validators: Validator) -> Validator:
    """Return a validator for what all of some validators take."""

    def check(name: str, value: Value) -> None:
        for each in validators:
            each(name, value)

    return check


def non_null(name: str, value: Value) -> None:
    """Refuse an option that is not set. Raises ConfigError."""
    if value is None:
        raise ConfigError.of(name, None, "entry must be non null")


def non_empty(name: str, value: Value) -> None:
    """Refuse an empty text. Raises ConfigError."""
    if _text(value) == "":
        raise ConfigError.of(name, value, "String must be non-empty")


def without_control(name: str, value: Value) -> None:
    """Refuse an empty text, and one with control characters. Raises ConfigError."""
    text = _text(value)
    if text is None:
        return
    if not text:
        raise ConfigError.of(name, value, "String may not be empty")
    found = [ord(each) for each in text if each in _CONTROL]
    if found:
        raise ConfigError.of(
            name,
            value,
            f"String may not contain control sequences but had the following ASCII chars: {', '.join(map(str, found))}",
        )


def unique_aliases(name: str, value: Value) -> None:
    """Refuse a list with a duplicate. Raises ConfigError."""
    non_null(name, value)
    words = _words(value)
    if len(set(words)) < len(words):
        raise ConfigError.of(name, value, "Duplicate alias provided.")
