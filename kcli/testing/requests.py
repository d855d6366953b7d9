"""The log of the requests that clients have sent, in the order of their arrival, for assertions of tests."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from kcli.broker.broker import Broker
from kcli.broker.fetching.sessions import NO_SESSION
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import Message, RequestHeader
from kcli.broker.wire.produce_request import ProduceRequest
from kcli.metadata.image import MetadataImage
from kcli.testing.wire import plain

if TYPE_CHECKING:
    from kcli.broker.wire.types.fetch import FetchCall

KEPT = 100_000
TOPIC_FIELDS = ("name", "topic", "topic_name")
PARTITION_FIELDS = ("index", "partition", "partition_index", "partition_id")
TOPIC_RESOURCE = 2
PRODUCE, FETCH = 0, 1


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request of a client.

    api: Kafka's name ("Produce"). time_ms: the broker's time when the request arrived, milliseconds since 1970.
    topics, partitions: the topics and (topic, partition) pairs in the request; for a Fetch of a fetch session also
    those of the session. fault: the effect of the fault rule that applied, "" for none.
    body: the request's fields as JSON values, bytes in base64, without the records of a Produce.
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
class LoggedRequest:
    """A request as RequestLog stores it; `for_tests` makes a Request of it only when a test reads the request log."""

    api: str
    header: RequestHeader
    client_host: str
    time_ms: int
    request: Message | None
    targets: Targets
    fault: str = ""

    @classmethod
    def of(cls, broker: Broker, call: Call) -> LoggedRequest:
        """Return the log entry of a request that has arrived, without the records of a Produce."""
        name: str = call.messages.request_type.__name__
        targets = tuple(_targets(broker, call))
        request = call.request
        if call.header.api_key == PRODUCE:
            request = without_records(cast("ProduceRequest", request))
        return cls(name.removesuffix("Request"), call.header, call.client_host, call.now_ms, request, targets)

    def for_tests(self) -> Request:
        """Return the Request that a test reads."""
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


def without_records(request: ProduceRequest) -> ProduceRequest:
    """Return a Produce request without its records."""
    topics = [
        dataclasses.replace(
            topic, partition_data=tuple(dataclasses.replace(each, records=None) for each in topic.partition_data)
        )
        for topic in request.topic_data
    ]
    return dataclasses.replace(request, topic_data=tuple(topics))


Targets = tuple[tuple[str, int | None], ...]
"""Pairs of topic and partition number; the number is None for a topic of which the request has no partition."""


class RequestLog:
    """The last 100,000 requests of clients."""

    def __init__(self) -> None:
        self._entries: deque[LoggedRequest] = deque(maxlen=KEPT)

    def add(self, entry: LoggedRequest) -> None:
        """Add a request; the oldest is dropped beyond 100,000."""
        self._entries.append(entry)

    def clear(self) -> None:
        """Remove all requests."""
        self._entries.clear()

    def find(self, api: str | None, topic: str | None, client_id: str | None) -> list[Request]:
        """Return the matching requests in the order of their arrival; None matches any."""
        api_name = None if api is None else plain_name(api)
        return [
            each.for_tests()
            for each in self._entries
            if api_name in (None, plain_name(each.api))
            and (client_id is None or client_id == each.header.client_id)
            and (topic is None or any(topic == name for name, _ in each.targets))
        ]


def plain_name(api: str) -> str:
    """Return an API name without case and underscores: "InitProducerId" and "init_producer_id" become equal."""
    return api.replace("_", "").lower()


def _targets(broker: Broker, call: Call) -> Iterable[tuple[str, int | None]]:
    """Return the pairs of topic name and partition number in a request, for a Fetch also those of its fetch session.
    The number is None for a topic of which the request has no partition."""
    if call.request is None:
        return ()
    found = dict.fromkeys(_walk(broker.image, call.request, ""))
    if call.header.api_key == FETCH and call.get("session_id", NO_SESSION):
        found |= dict.fromkeys(_session_targets(broker, cast("FetchCall", call)))
    return found


def _session_targets(broker: Broker, call: FetchCall) -> Iterator[tuple[str, int | None]]:
    """Yield the partitions of the fetch session of a Fetch."""
    session = broker.sessions.find(call.request.session_id)
    for each in session.partitions.values() if session is not None else ():
        name = _topic_name(broker.image, each.topic)
        if name is not None:
            yield name, each.index


def _topic_name(image: MetadataImage, topic: str | UUID | None) -> str | None:
    """Return a topic's name, given its name or id; None for an unknown id."""
    if not isinstance(topic, UUID):
        return topic
    known = image.topic_by_id(topic)
    return None if known is None else known.name


def _walk(image: MetadataImage, item: Any, array: str) -> Iterator[tuple[str, int | None]]:
    """Yield the pairs of topic name and partition number in a struct, at any depth. The number is None for a topic of
    which the struct has no partition. array: the name of the array field that the struct is an item of; "" for the
    request itself."""
    topic = _own_topic(image, item, array)
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if isinstance(value, tuple):
            for each in value:
                if topic is not None and (number := _partition(each)) is not None:
                    yield topic, number
                elif dataclasses.is_dataclass(each):
                    yield from _walk(image, each, field.name)
                elif isinstance(each, str) and "topic" in field.name:
                    yield each, None
    if topic is not None and not any(_has_partitions(item)):
        yield topic, None


def _has_partitions(item: Any) -> Iterator[bool]:
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        yield isinstance(value, tuple) and any(_partition(each) is not None for each in value)


def _own_topic(image: MetadataImage, item: Any, array: str) -> str | None:
    names = {field.name for field in dataclasses.fields(item)}
    if "resource_name" in names:
        return item.resource_name if item.resource_type == TOPIC_RESOURCE else None
    found = None
    if "topic" in array or names & {"topic", "topic_name"}:
        found = next((getattr(item, each) for each in TOPIC_FIELDS if each in names), None)
    if found is None and "topic_id" in names:
        found = _topic_name(image, item.topic_id)
    return found if isinstance(found, str) else None


def _partition(item: Any) -> int | None:
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if dataclasses.is_dataclass(item):
        return next((getattr(item, each) for each in PARTITION_FIELDS if hasattr(item, each)), None)
    return None
