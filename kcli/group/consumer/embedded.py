"""What consumers put into the classic protocol: their subscription in JoinGroup, their assignment in SyncGroup.

    subscription, assignment   version int16, message of that version; newer ones are read as the newest known

Source: ConsumerProtocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from formats.errors import Truncated, UnknownVersion
from formats.message import reader
from formats.message_writer import write
from kcli.group.metadata import Metadata

VERSION_BYTES = 2
NEWEST = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name; what the member has, by name as well; its rack."""

    topics: frozenset[str]
    owned: Mapping[str, tuple[int, ...]]
    rack_id: str | None


def version_of(data: bytes) -> int:
    """The version of either. Raises FormatError."""
    if len(data) < VERSION_BYTES:
        raise Truncated("no version", 0)
    version = int.from_bytes(data[:VERSION_BYTES], signed=True)
    if version < 0:
        raise UnknownVersion(f"version {version}", 0)
    return min(version, NEWEST)


def read_subscription(data: bytes) -> Subscription:
    """Raises FormatError."""
    value, _ = reader("ConsumerProtocolSubscription", version_of(data))(data, VERSION_BYTES)
    owned = value.get("ownedPartitions") or ()
    return Subscription(
        frozenset(value["topics"]),
        {each["topic"]: tuple(each["partitions"]) for each in owned},
        value.get("rackId") or None,
    )


def read_assignment(data: bytes, metadata: Metadata) -> tuple[dict[UUID, frozenset[int]], bool]:
    """Partitions of the topics that there are; is there user data too? Raises FormatError."""
    if not data:
        return {}, False
    value, _ = reader("ConsumerProtocolAssignment", version_of(data))(data, VERSION_BYTES)
    named = {each["topic"]: each["partitions"] for each in value["assignedPartitions"]}
    return with_ids(named, metadata), bool(value["userData"])


def with_ids(named: Mapping[str, Iterable[int]], metadata: Metadata) -> dict[UUID, frozenset[int]]:
    """Partitions of the topics that there are, by id."""
    found = ((metadata.topic_id(name), numbers) for name, numbers in named.items())
    return {topic_id: frozenset(numbers) for topic_id, numbers in found if topic_id is not None}


def write_assignment(partitions: Mapping[UUID, Iterable[int]], version: int, metadata: Metadata) -> bytes:
    """Of the topics that there are."""
    topics = [
        {"topic": name, "partitions": sorted(numbers)}
        for topic_id, numbers in partitions.items()
        if (name := metadata.topic_name(topic_id)) is not None
    ]
    value = {"assignedPartitions": topics, "userData": None}
    return version.to_bytes(VERSION_BYTES) + write("ConsumerProtocolAssignment", version, value)
