"""The ends of a pipe, by their URIs.

kafka://HOST:PORT[,HOST:PORT...]/TOPIC   a topic of a cluster
log:DIRECTORY/TOPIC                      a topic in a broker's log directory, or a copy of one (source only)
iceberg:DIRECTORY, delta:DIRECTORY       a table
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kcli.errors import UsageError
from kcli.export.files import is_remote

FORMS: Final = "kafka://HOST:PORT/TOPIC, log:DIRECTORY/TOPIC, iceberg:DIRECTORY, delta:DIRECTORY"
TABLES: Final = ("iceberg", "delta")
PORT_MAX: Final = 65535
_TOPIC: Final = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")
_BROKERS: Final = re.compile(r"[^,/\s]+:\d{1,5}(,[^,/\s]+:\d{1,5})*")


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """A topic of a cluster. properties: Kafka's client properties, for TLS and the login."""

    bootstrap: str
    topic: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"kafka://{self.bootstrap}/{self.topic}"

    @property
    def options(self) -> dict[str, str]:
        """The options with which `kafka-log` connects to the brokers."""
        given = {f"kafka.{name}": value for name, value in self.properties.items()}
        return {**given, "kafka.bootstrap.servers": self.bootstrap}


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A topic in a log directory: an absolute path or a URL."""

    directory: str
    topic: str

    def __str__(self) -> str:
        return f"log:{self.directory}/{self.topic}"


@dataclass(frozen=True, slots=True)
class TableEnd:
    """A table in a directory. kind: one of TABLES."""

    kind: str
    directory: Path

    def __str__(self) -> str:
        return f"{self.kind}:{self.directory}"


End = TopicEnd | LogEnd | TableEnd


def parse_end(text: str, properties: Mapping[str, str]) -> End:
    """Return the end that a URI names. properties: client properties for its cluster. Raises UsageError."""
    scheme, colon, place = text.partition(":")
    brokers, _, topic = place.removeprefix("//").rpartition("/")
    if scheme == "kafka" and place.startswith("//") and _BROKERS.fullmatch(brokers):
        if wrong := [each for each in brokers.split(",") if int(each.rpartition(":")[2]) > PORT_MAX]:
            raise UsageError(f"{text}: {wrong[0]} has no port from 0 to {PORT_MAX}")
        return TopicEnd(brokers, _checked(topic, text), properties)
    if properties:
        raise UsageError(f"{text}: client properties are for kafka://HOST:PORT/TOPIC")
    directory, slash, topic = place.rpartition("/")
    if scheme == "log" and slash:
        _checked(topic, text)
        return LogEnd(directory if is_remote(directory) else str(Path(directory or "/").absolute()), topic)
    if scheme in TABLES and place and not is_remote(place):
        return TableEnd(scheme, Path(place).absolute())
    if colon and scheme in TABLES and place:
        raise UsageError(f"{text}: a table is in a directory of this machine")
    raise UsageError(f"{text!r} is no end of a pipe: {FORMS}")


def _checked(topic: str, text: str) -> str:
    if _TOPIC.fullmatch(topic) is None:
        raise UsageError(f"{text!r} names no topic: {FORMS}")
    return topic
