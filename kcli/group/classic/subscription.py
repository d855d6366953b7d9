"""The topics that consumers subscribe to, from the ConsumerProtocolSubscription in their JoinGroup metadata.

    metadata   version int16, message of that version; parsed as version 0, since the fields of version 0, the topics
               among them, come first in every version

Source: ConsumerProtocol, ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

from collections.abc import Iterable

from formats.errors import FormatError
from formats.message import reader

VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics that any member subscribes to; None if a member's metadata is not a valid subscription.

    metadata: each member's metadata from its JoinGroup.
    """
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
