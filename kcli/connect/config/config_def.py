"""ConfigDef: the options of a connector, converter or transform, and configurations parsed and validated by them.

    key         name, type, default, validator, importance, group and order for a form that shows it
    parse       the text of each option to its value; the first error is raised
    validate    the same with all errors at once, each with its option: what a worker answers
    dependents  the options that a form shows below this one; they are validated after it

Values are str, bool, int, float, list[str] or Password; a class is its name. Java's texts of values stand in errors.
Source: ConfigDef in Kafka's clients, KIP-26.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from kcli.java.values import comma_list, double_text, java_double, java_integer, java_trim


class Type(StrEnum):
    """The type of an option."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105  (the type's name)


class Importance(StrEnum):
    """How much an option matters."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """How wide a form shows an option."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A secret. Its text is hidden wherever a value is shown."""

    value: str

    def __repr__(self) -> str:
        return "[hidden]"


Value = str | bool | int | float | list[str] | Password | None
"""The value of an option; None if it is not set."""

BITS: Final = {Type.INT: 32, Type.SHORT: 16, Type.LONG: 64}
REQUIRED: Final = object()
"""The default of an option that must be configured."""


class ConfigError(Exception):
    """A configuration that is invalid; the text is Kafka's."""

    @classmethod
    def of(cls, name: str, value: object, reason: str | None = None) -> ConfigError:
        """Return the error for the value of an option."""
        end = "" if reason is None else f": {reason}"
        return cls(f"Invalid value {java_text(value)} for configuration {name}{end}")


def java_text(value: object) -> str:
    """Return the text of a value as Java's String.valueOf gives it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case list():
            return f"[{', '.join(map(java_text, value))}]"
        case _:
            return str(value)


Validator = Callable[[str, Value], None]
"""Checks the value of an option. Raises ConfigError."""


@dataclass(frozen=True, slots=True)
class DistinctWords:
    """A validator for lists without a duplicate. `ConfigDef.parse` takes duplicates out before it asks; `validate`
    does not."""

    check: Validator

    def __call__(self, name: str, value: Value) -> None:
        self.check(name, value)


IsClass = Callable[[str], bool]
"""Returns whether there is a class of this name."""


class Recommender(Protocol):
    """Proposes values of an option, which depend on those of others."""

    def values(self, name: str, parsed: Mapping[str, Value]) -> Sequence[Value]:
        """Return the values to choose from. Raises ConfigError."""

    def is_visible(self, name: str, parsed: Mapping[str, Value]) -> bool:
        """Return whether a form shows the option."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """An option.

    default: its value if it is not configured, as text or as a value; REQUIRED if it must be. group, order, width: its
    place in a form. display: its title there, its name by default.
    """

    name: str
    type: Type
    default: object
    importance: Importance
    documentation: str
    validator: Validator | None = None
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display: str = ""
    dependents: Sequence[str] = ()
    recommender: Recommender | None = None

    @property
    def is_required(self) -> bool:
        """Whether the option must be configured."""
        return self.default is REQUIRED

    @property
    def default_value(self) -> Value:
        """The default as a value; None if the option is required."""
        return None if self.is_required else parse_value(self.name, self.default, self.type)

    @property
    def title(self) -> str:
        """The title of the option in a form."""
        return self.display or self.name


def words(text: str) -> list[str]:
    """Return the words between commas, without the empty ones."""
    return [word for each in text.split(",") if (word := each.strip())]


def option(
    name: str,
    kind: Type,
    default: object,
    documentation: str,
    importance: Importance = Importance.MEDIUM,
    validator: Validator | None = None,
) -> ConfigKey:
    """Return an option that has no place in a form. The parameters are those of ConfigKey."""
    return ConfigKey(name, kind, default, importance, documentation, validator)


@dataclass(slots=True)
class ConfigValue:
    """The value of an option in a configuration, with everything that is wrong with it."""

    name: str
    value: Value = None
    recommended: Sequence[Value] = ()
    errors: list[str] = field(default_factory=list)
    is_visible: bool = True


class ConfigDef:
    """The options of a connector, converter, transform or predicate, in their order."""

    def __init__(self, *keys: ConfigKey) -> None:
        self.keys: dict[str, ConfigKey] = {}
        for key in keys:
            if key.name in self.keys:
                raise ValueError(f"Configuration {key.name} is defined twice.")
            self.keys[key.name] = key

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def __add__(self, other: ConfigDef) -> ConfigDef:
        """Return the options of both. Raises ValueError if both have an option."""
        return ConfigDef(*self, *other)

    @property
    def groups(self) -> list[str]:
        """The groups of the options, in the order of their first option."""
        return list(dict.fromkeys(key.group for key in self if key.group is not None))

    def embedded(self, prefix: str, group: str, order: int) -> ConfigDef:
        """Return the options with a prefix to their names, as a group of its own: the options of a transform inside
        those of its connector."""
        return ConfigDef(
            *(
                replace(
                    key,
                    name=prefix + key.name,
                    group=group if key.group is None else f"{group}: {key.group}",
                    order=order + place,
                    display=key.title,
                    dependents=[prefix + each for each in key.dependents],
                    recommender=None if key.recommender is None else _Embedded(prefix, key.recommender),
                    validator=None if key.validator is None else _embedded_validator(prefix, key.validator),
                )
                for place, key in enumerate(self._sorted())
            )
        )

    def _sorted(self) -> list[ConfigKey]:
        """Return the options as a form shows them: by group and order, then required ones, by importance and name."""
        groups, levels = self.groups, list(Importance)
        return sorted(
            self,
            key=lambda key: (
                -1 if key.group is None else groups.index(key.group),
                key.order,
                not key.is_required,
                levels.index(key.importance),
                key.name,
            ),
        )

    def parse(self, properties: Mapping[str, str | None], is_class: IsClass | None = None) -> dict[str, Value]:
        """Return the value of each option. Raises ConfigError, the first one, if the configuration is invalid.

        is_class: None takes every name of a class.
        """
        values: dict[str, Value] = {}
        for key in self:
            if key.name in properties:
                value = parse_value(key.name, properties[key.name], key.type, is_class)
            elif key.is_required:
                raise ConfigError(_missing(key.name))
            else:
                value = key.default_value
            if isinstance(key.validator, DistinctWords) and isinstance(value, list):
                value = list(dict.fromkeys(value))
            if key.validator is not None:
                key.validator(key.name, value)
            values[key.name] = value
        return values

    def validate(self, properties: Mapping[str, str | None], is_class: IsClass | None = None) -> dict[str, ConfigValue]:
        """Return the value of each option with all errors. is_class: None takes every name of a class."""
        found = {name: ConfigValue(name) for name in self.keys}
        children = {name for key in self for name in key.dependents}
        for name in sorted(children - self.keys.keys()):
            found[name] = ConfigValue(
                name, errors=[f"{name} is referred in the dependents, but not defined."], is_visible=False
            )
        parsed: dict[str, Value] = {}
        roots = [key for key in self if key.name not in children]
        for key in self._with_dependents(roots):
            parsed[key.name] = self._parse_into(found[key.name], key, properties, is_class)
        for key in self._with_dependents(roots):
            if key.recommender is not None:
                each = found[key.name]
                try:
                    each.recommended = key.recommender.values(key.name, parsed)
                    each.is_visible = key.recommender.is_visible(key.name, parsed)
                except ConfigError as error:
                    each.errors.append(str(error))
        return found

    def _with_dependents(self, keys: Sequence[ConfigKey]) -> Iterator[ConfigKey]:
        for key in keys:
            yield key
            yield from self._with_dependents([self.keys[name] for name in key.dependents if name in self.keys])

    def _parse_into(
        self, into: ConfigValue, key: ConfigKey, properties: Mapping[str, str | None], is_class: IsClass | None
    ) -> Value:
        value: Value = None
        if key.name in properties:
            try:
                value = parse_value(key.name, properties[key.name], key.type, is_class)
            except ConfigError as error:
                into.errors.append(str(error))
        elif key.is_required:
            into.errors.append(_missing(key.name))
        else:
            value = key.default_value
        if key.validator is not None:
            try:
                key.validator(key.name, value)
            except ConfigError as error:
                into.errors.append(str(error))
        into.value = value
        return value


class _Embedded(NamedTuple):
    """The recommender of an option whose name has a prefix."""

    prefix: str
    recommender: Recommender

    def values(self, name: str, parsed: Mapping[str, Value]) -> Sequence[Value]:
        return self.recommender.values(name.removeprefix(self.prefix), self._own(parsed))

    def is_visible(self, name: str, parsed: Mapping[str, Value]) -> bool:
        return self.recommender.is_visible(name.removeprefix(self.prefix), self._own(parsed))

    def _own(self, parsed: Mapping[str, Value]) -> Mapping[str, Value]:
        return {name.removeprefix(self.prefix): value for name, value in parsed.items() if name.startswith(self.prefix)}


def _embedded_validator(prefix: str, validator: Validator) -> Validator:
    return lambda name, value: validator(name.removeprefix(prefix), value)


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


def parse_value(name: str, value: object, kind: Type, is_class: IsClass | None = None) -> Value:
    """Return the value of an option from its text; a value is returned as it is. Raises ConfigError."""
    if not isinstance(value, str):
        assert value is None or isinstance(value, bool | int | float | list | Password), value
        return value
    text = java_trim(value)
    match kind:
        case Type.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ConfigError.of(name, value, "Expected value to be either true or false")
            return text.lower() == "true"
        case Type.STRING:
            return text
        case Type.PASSWORD:
            return Password(text)
        case Type.LIST:
            return comma_list(text) if text else []
        case Type.CLASS:
            if is_class is not None and not is_class(text):
                raise ConfigError.of(name, value, f"Class {value} could not be found.")
            return text
        case _:
            number = java_double(text) if kind is Type.DOUBLE else java_integer(text, BITS[kind])
            if number is None:
                raise ConfigError.of(name, value, f"Not a number of type {kind}")
            return number


def value_text(value: Value) -> str | None:
    """Return the text of a value as a worker shows it; None for a value that is not set."""
    if value is None:
        return None
    return ",".join(value) if isinstance(value, list) else java_text(value)
