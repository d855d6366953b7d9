"""What a transform and a predicate are, and what those of Apache Kafka share.

Source: org.apache.kafka.connect.transforms.Transformation, predicates.Predicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance, Type, Value
from kcli.connect.data.records import ConnectRecord
from kcli.connect.data.schema import Schema

PACKAGE: Final = "org.apache.kafka.connect.transforms"
SCHEMAS_KEPT: Final = 16
"""The number of schemas of which a transform remembers what it made of them."""


class Transform(Protocol):
    """A transform. CLASS: the name of Kafka's class. The constructor takes the options without their prefix
    (`transforms.NAME.`) and raises ConfigError."""

    CLASS: ClassVar[str]

    def __init__(self, properties: Mapping[str, str | None]) -> None: ...

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the transform's options."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return what becomes of a record; None if it is dropped. Raises ConnectError."""


class Predicate(Protocol):
    """A predicate; class and constructor are as those of a Transform."""

    CLASS: ClassVar[str]

    def __init__(self, properties: Mapping[str, str | None]) -> None: ...

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the predicate's options."""

    def test(self, record: ConnectRecord) -> bool:
        """Return whether the predicate holds for a record."""


class Configured:
    """Base of transforms and predicates with options: their values by name."""

    CLASS: ClassVar[str]
    CONFIG: ClassVar[ConfigDef]

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        self.options: dict[str, Value] = self.CONFIG.parse(properties)

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return cls.CONFIG

    def text(self, name: str) -> str:
        """Return the value of an option that is a text; empty if it is not set."""
        value = self.options[name]
        return "" if value is None else str(value)

    def words(self, name: str) -> list[str]:
        """Return the value of an option that is a list."""
        value = self.options[name]
        assert isinstance(value, list), value
        return value

    @property
    def replaces_null(self) -> bool:
        """Whether a null counts as the default of its field's schema."""
        return self.options[REPLACE_NULL.name] is True


class Side(Configured):
    """Base of transforms that come in two classes, for keys ($Key) and for values ($Value)."""

    def schema_of(self, record: ConnectRecord) -> Schema | None:
        """Return the schema of the record's key or value."""
        raise NotImplementedError

    def value_of(self, record: ConnectRecord) -> Any:
        """Return the record's key or value."""
        raise NotImplementedError

    def made(self, record: ConnectRecord, schema: Schema | None, value: Any, **changes: Any) -> ConnectRecord:
        """Return the record with another key or value. changes: other fields that change."""
        raise NotImplementedError


class OfKey:
    """The key of a record."""

    def schema_of(self, record: ConnectRecord) -> Schema | None:
        """Return the key's schema."""
        return record.key_schema

    def value_of(self, record: ConnectRecord) -> Any:
        """Return the key."""
        return record.key

    def made(self, record: ConnectRecord, schema: Schema | None, value: Any, **changes: Any) -> ConnectRecord:
        """Return the record with another key."""
        return record.changed(key_schema=schema, key=value, **changes)


class OfValue:
    """The value of a record."""

    def schema_of(self, record: ConnectRecord) -> Schema | None:
        """Return the value's schema."""
        return record.value_schema

    def value_of(self, record: ConnectRecord) -> Any:
        """Return the value."""
        return record.value

    def made(self, record: ConnectRecord, schema: Schema | None, value: Any, **changes: Any) -> ConnectRecord:
        """Return the record with another value."""
        return record.changed(value_schema=schema, value=value, **changes)


REPLACE_NULL: Final = ConfigKey(
    "replace.null.with.default",
    Type.BOOLEAN,
    "true",
    Importance.MEDIUM,
    "Whether a null counts as the default of its field's schema, if there is one.",
)
