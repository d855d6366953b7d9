"""Predicates: HasHeaderKey, RecordIsTombstone, TopicNameMatches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.connect.config.common import valid_regex
from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from kcli.connect.config.validators import all_of, non_empty
from kcli.connect.data.records import ConnectRecord
from kcli.connect.transforms.transform import PACKAGE, Configured
from kcli.java.regex import JavaRegex

_PREDICATES: Final = f"{PACKAGE}.predicates"


class HasHeaderKey(Configured):
    """Whether a record has a header of a name."""

    CLASS = f"{_PREDICATES}.HasHeaderKey"
    CONFIG = ConfigDef(ConfigKey("name", Type.STRING, REQUIRED, Importance.MEDIUM, "The header's name.", non_empty))

    def test(self, record: ConnectRecord) -> bool:
        """Return whether it has."""
        name = self.text("name")
        return any(each.key == name for each in record.headers)


class RecordIsTombstone(Configured):
    """Whether a record's value is null."""

    CLASS = f"{_PREDICATES}.RecordIsTombstone"
    CONFIG = ConfigDef()

    def test(self, record: ConnectRecord) -> bool:
        """Return whether it is."""
        return record.value is None


class TopicNameMatches(Configured):
    """Whether a regular expression matches the whole name of the topic."""

    CLASS = f"{_PREDICATES}.TopicNameMatches"
    CONFIG = ConfigDef(
        ConfigKey(
            "pattern", Type.STRING, REQUIRED, Importance.MEDIUM, "The regular expression.",
            all_of(non_empty, valid_regex),
        )
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._regex = JavaRegex(self.text("pattern"))

    def test(self, record: ConnectRecord) -> bool:
        """Return whether it matches."""
        return record.topic is not None and self.matches(record.topic)

    def matches(self, topic: str) -> bool:
        """Return whether it matches a topic."""
        return self._regex.matches(topic)
