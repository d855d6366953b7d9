"""The topics that members of consumers' groups say they read: ConsumerProtocolSubscription, in the members' metadata.

    metadata   version int16, message of that version; only its topics are looked at, so version 0 is read

Source: ConsumerProtocol, ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

from collections.abc import Iterable

from formats.errors import FormatError
from formats.message import reader

VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that the members read; None where one of them does not say it as consumers do."""
    topics: set[str] = set()
    for each in metadata:
        if len(each) < VERSION_BYTES:
            return None
        try:
            value, _ = reader("ConsumerProtocolSubscription", 0)(each, VERSION_BYTES)
        except FormatError:
            return None
        topics.update(value["topics"])
    return frozenset(topics)
