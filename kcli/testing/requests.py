"""What clients asked of the broker, in order: to assert on."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from kcli.broker.fetch_sessions import NO_SESSION
from kcli.broker.network.messages import Call, Entity, RequestHeader
from kcli.testing.wire import plain

KEPT = 100_000
TOPIC_FIELDS = ("name", "topic", "topic_name")
PARTITION_FIELDS = ("index", "partition", "partition_index", "partition_id")
TOPIC_RESOURCE = 2
PRODUCE, FETCH = 0, 1


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request that came.

    api: Kafka's name ("Produce"); time_ms: the broker's clock; topics: what it names, of a fetch in a session all of
    the session's; partitions: (topic, partition), likewise; fault: what a fault rule did to it, "" for nothing; body:
    the request's fields as JSON has them, bytes as base64; records of a Produce are left out: see Kafka.records.
    """

    api: str
    version: int
    client_id: str
    client_host: str
    correlation_id: int
    time_ms: int
    topics: tuple[str, ...]
    partitions: tuple[tuple[str, int], ...]
    fault: str
    body: dict[str, Any]

    def __str__(self) -> str:
        named = [f"{topic}-{number}" for topic, number in self.partitions] or list(self.topics)
        fault = f"  fault: {self.fault}" if self.fault else ""
        return f"{self.api} v{self.version}  {self.client_id or '-'}  {' '.join(named)}{fault}".rstrip()


@dataclasses.dataclass(slots=True)
class Seen:
    """A request as it came, looked at only when a test asks."""

    api: str
    header: RequestHeader
    client_host: str
    time_ms: int
    request: Entity | None
    targets: Targets
    fault: str = ""

    @classmethod
    def of(cls, call: Call) -> Seen:
        """Note a request that has come."""
        name: str = call.messages.request_type.__name__
        targets = tuple(_targets(call))
        request = without_records(call.request) if call.header.api_key == PRODUCE else call.request
        return cls(name.removesuffix("Request"), call.header, call.client_host, call.now_ms, request, targets)

    def told(self) -> Request:
        """For a test."""
        header = self.header
        return Request(
            self.api,
            header.version,
            header.client_id,
            self.client_host,
            header.correlation_id,
            self.time_ms,
            tuple(dict.fromkeys(topic for topic, _ in self.targets)),
            tuple((topic, number) for topic, number in self.targets if number is not None),
            self.fault,
            {} if self.request is None else plain(self.request),
        )


def without_records(request: Entity) -> Entity:
    """A Produce request without what makes it large."""
    topics = [
        dataclasses.replace(
            topic, partition_data=tuple(dataclasses.replace(each, records=None) for each in topic.partition_data)
        )
        for topic in request.topic_data
    ]
    return dataclasses.replace(request, topic_data=tuple(topics))


Targets = tuple[tuple[str, int | None], ...]
"""Topics, and their partitions where the request has them."""


class RequestLog:
    """The last requests, 100,000 at most."""

    def __init__(self) -> None:
        self._seen: deque[Seen] = deque(maxlen=KEPT)

    def add(self, seen: Seen) -> None:
        """One more."""
        self._seen.append(seen)

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()

    def find(self, api: str | None, topic: str | None, client_id: str | None) -> list[Request]:
        """Those that fit, in order; None fits any."""
        wanted = None if api is None else plain_name(api)
        return [
            each.told()
            for each in self._seen
            if wanted in (None, plain_name(each.api))
            and (client_id is None or client_id == each.header.client_id)
            and (topic is None or any(topic == name for name, _ in each.targets))
        ]


def plain_name(api: str) -> str:
    """An API's name without what people write differently: "InitProducerId" and "init_producer_id" are one."""
    return api.replace("_", "").lower()


def _targets(call: Call) -> Iterable[tuple[str, int | None]]:
    """The topics that a request names, by name or id, and their partitions."""
    if call.request is None:
        return ()
    found = dict.fromkeys(_walk(call, call.request, ""))
    if call.header.api_key == FETCH and call.get("session_id", NO_SESSION):
        found |= dict.fromkeys(_session_targets(call))
    return found


def _session_targets(call: Call) -> Iterator[tuple[str, int | None]]:
    """The partitions of the session that a fetch belongs to."""
    session = call.broker.sessions.find(call.request.session_id)
    for topic, index in session.partitions if session is not None else ():
        name = _topic_name(call, topic)
        if name is not None:
            yield name, index


def _topic_name(call: Call, topic: str | UUID | None) -> str | None:
    """A topic's name, by its name or id; None where there is none of that id."""
    if not isinstance(topic, UUID):
        return topic
    known = call.broker.image.topic_by_id(topic)
    return None if known is None else known.name


def _walk(call: Call, item: Entity, array: str) -> Iterator[tuple[str, int | None]]:
    """array: the name of the field that the item is in."""
    topic = _own_topic(call, item, array)
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if isinstance(value, tuple):
            for each in value:
                if topic is not None and (number := _partition(each)) is not None:
                    yield topic, number
                elif dataclasses.is_dataclass(each):
                    yield from _walk(call, each, field.name)
                elif isinstance(each, str) and "topic" in field.name:
                    yield each, None
    if topic is not None and not any(_has_partitions(item)):
        yield topic, None


def _has_partitions(item: Entity) -> Iterator[bool]:
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        yield isinstance(value, tuple) and any(_partition(each) is not None for each in value)


def _own_topic(call: Call, item: Entity, array: str) -> str | None:
    names = {field.name for field in dataclasses.fields(item)}
    if "resource_name" in names:
        return item.resource_name if item.resource_type == TOPIC_RESOURCE else None
    found = None
    if "topic" in array or names & {"topic", "topic_name"}:
        found = next((getattr(item, each) for each in TOPIC_FIELDS if each in names), None)
    if found is None and "topic_id" in names:
        found = _topic_name(call, item.topic_id)
    return found if isinstance(found, str) else None


def _partition(item: Any) -> int | None:
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if dataclasses.is_dataclass(item):
        return next((getattr(item, each) for each in PARTITION_FIELDS if hasattr(item, each)), None)
    return None
