"""RegexRouter, TimestampRouter, Filter: another topic, or none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from kcli.connect.config.common import valid_regex
from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from kcli.connect.data.errors import ILLEGAL_ARGUMENT, NULL_POINTER, DataError, JavaError
from kcli.connect.data.records import ConnectRecord
from kcli.connect.transforms.transform import PACKAGE, Configured
from kcli.java.dates import BadPattern, DateFormat
from kcli.java.linear_regex import PatternError
from kcli.java.regex import JavaRegex, Template

TOPICS_KEPT: Final = 1000
"""The number of topics, or spans of time, whose results a transform remembers."""


class RegexRouter(Configured):
    """Another topic for those that a regular expression matches as a whole."""

    CLASS = f"{PACKAGE}.RegexRouter"
    CONFIG = ConfigDef(
        ConfigKey("regex", Type.STRING, REQUIRED, Importance.HIGH, "The regular expression.", valid_regex),
        ConfigKey(
            "replacement", Type.STRING, REQUIRED, Importance.HIGH,
            "What the match is replaced by; $1 is what the first group has matched.",
        ),
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._regex = JavaRegex(self.text("regex"))
        self._template: Template | JavaError = _template(self.text("replacement"), self._regex)
        self.topic = lru_cache(TOPICS_KEPT)(self._routed)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with its topic."""
        if record.topic is None:
            raise JavaError(NULL_POINTER, 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null')
        return record.changed(topic=self.topic(record.topic))

    def _routed(self, topic: str) -> str:
        """Return the topic that becomes of one. Raises JavaError for a replacement that cannot be."""
        if not self._regex.matches(topic):
            return topic
        if isinstance(self._template, JavaError):
            raise self._template
        return self._regex.replace_first(topic, self._template)


def _template(replacement: str, regex: JavaRegex) -> Template | JavaError:
    """Return the parsed replacement, or the error that Java has for it at the first match."""
    try:
        return Template.of(replacement, regex)
    except PatternError as error:
        no_group = str(error).startswith("No group ") and str(error)[-1:].isdigit()
        return JavaError("java.lang.IndexOutOfBoundsException" if no_group else ILLEGAL_ARGUMENT, str(error))


class TimestampRouter(Configured):
    """A topic made of the record's topic and timestamp."""

    CLASS = f"{PACKAGE}.TimestampRouter"
    CONFIG = ConfigDef(
        ConfigKey(
            "topic.format", Type.STRING, "${topic}-${timestamp}", Importance.HIGH,
            "The topic, with ${topic} and ${timestamp} in the places of the record's topic and timestamp.",
        ),
        ConfigKey(
            "timestamp.format", Type.STRING, "yyyyMMdd", Importance.HIGH,
            "The timestamp's format, a pattern of Java's SimpleDateFormat; in UTC.",
        ),
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        super().__init__(properties)
        self._topic_format = self.text("topic.format")
        self._timestamp_format: DateFormat | JavaError = _date_format(self.text("timestamp.format"))
        self._formatted = lru_cache(TOPICS_KEPT)(self._span_text)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with its topic."""
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record}")
        if record.topic is None:
            text = self._formatted(record.timestamp // self.span_ms)
            raise JavaError(NULL_POINTER, f'Cannot invoke "String.indexOf(int)" because "{text and "s"}" is null')
        return record.changed(topic=self.topic(record.topic, record.timestamp))

    def topic(self, topic: str, timestamp: int) -> str:
        """Return the topic that becomes of one. Raises JavaError for a pattern that cannot be."""
        text = self._formatted(timestamp // self.span_ms)
        return self._topic_format.replace("${topic}", topic).replace("${timestamp}", text)

    @property
    def span_ms(self) -> int:
        """A length of time, in milliseconds, within which a topic stays the same. Raises JavaError."""
        return self._date_format.span_ms

    @property
    def _date_format(self) -> DateFormat:
        if isinstance(self._timestamp_format, JavaError):
            raise self._timestamp_format
        return self._timestamp_format

    def _span_text(self, span: int) -> str:
        return self._date_format.format(span * self.span_ms)


def _date_format(pattern: str) -> DateFormat | JavaError:
    try:
        return DateFormat(pattern)
    except BadPattern as error:
        return JavaError(ILLEGAL_ARGUMENT, str(error))


class Filter(Configured):
    """Drops records; a predicate says which."""

    CLASS = f"{PACKAGE}.Filter"
    CONFIG = ConfigDef()

    def apply(self, record: ConnectRecord) -> None:
        """Return None."""
        del record
