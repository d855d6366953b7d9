"""The consumers' embedded protocol: ConsumerProtocolSubscription in JoinGroup, ConsumerProtocolAssignment in SyncGroup.

    subscription, assignment   version int16, message of that version; a newer version is read as the newest known one

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
    """A member's subscription. topics: the names of the topics. owned: the partitions that the member owns, by topic
    name."""

    topics: frozenset[str]
    owned: Mapping[str, tuple[int, ...]]
    rack_id: str | None


def version_of(data: bytes) -> int:
    """Return the version of a subscription or an assignment; NEWEST for a newer one. Raises FormatError."""
    if len(data) < VERSION_BYTES:
        raise Truncated("no version", 0)
    version = int.from_bytes(data[:VERSION_BYTES], signed=True)
    if version < 0:
        raise UnknownVersion(f"version {version}", 0)
    return min(version, NEWEST)


def read_subscription(data: bytes) -> Subscription:
    """Parse a ConsumerProtocolSubscription. Raises FormatError."""
    value, _ = reader("ConsumerProtocolSubscription", version_of(data))(data, VERSION_BYTES)
    owned = value.get("ownedPartitions") or ()
    return Subscription(
        frozenset(value["topics"]),
        {each["topic"]: tuple(each["partitions"]) for each in owned},
        value.get("rackId") or None,
    )


def read_assignment(data: bytes, metadata: Metadata) -> tuple[dict[UUID, frozenset[int]], bool]:
    """Parse a ConsumerProtocolAssignment: the assigned partitions of existing topics, by topic id, and whether the
    assignment has user data; {} and False for empty `data`. Raises FormatError."""
    if not data:
        return {}, False
    value, _ = reader("ConsumerProtocolAssignment", version_of(data))(data, VERSION_BYTES)
    named = {each["topic"]: each["partitions"] for each in value["assignedPartitions"]}
    return with_ids(named, metadata), bool(value["userData"])


def with_ids(named: Mapping[str, Iterable[int]], metadata: Metadata) -> dict[UUID, frozenset[int]]:
    """Return the partitions by topic id instead of name, without topics that do not exist."""
    found = ((metadata.topic_id(name), numbers) for name, numbers in named.items())
    return {topic_id: frozenset(numbers) for topic_id, numbers in found if topic_id is not None}


def write_assignment(partitions: Mapping[UUID, Iterable[int]], version: int, metadata: Metadata) -> bytes:
    """Return the bytes of a ConsumerProtocolAssignment with these partitions, without topics that do not exist.
    version: that of the message. metadata: has the names of the topics."""
    topics = [
        {"topic": name, "partitions": sorted(numbers)}
        for topic_id, numbers in partitions.items()
        if (name := metadata.topic_name(topic_id)) is not None
    ]
    value = {"assignedPartitions": topics, "userData": None}
    return version.to_bytes(VERSION_BYTES) + write("ConsumerProtocolAssignment", version, value)
