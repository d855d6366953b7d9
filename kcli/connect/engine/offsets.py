"""The offsets of sources, as a task reads them from their topic."""

from __future__ import annotations

import json
from collections.abc import Callable

from kcli.client.connection import Connection
from kcli.connect.engine.clients import committed_records
from kcli.connect.plugins import Offset, Partition
from kcli.connect.topics.offsets import OffsetState


def partition_key(partition: Partition) -> str:
    """Return a text that is the same for equal source partitions."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_topic(
    connection: Connection, topic: str, connector: str, check: Callable[[], None] = lambda: None
) -> dict[str, Offset]:
    """Return the offsets of a connector in a topic, by partition_key, without those of open and aborted transactions.
    check: called again and again, may raise an error. Raises Refused, Unreachable, KcliError."""
    state = OffsetState()
    for *_, key, value, _headers in committed_records(connection, topic, check=check):
        state.replay(key, value)
    return {partition_key(partition): offset for partition, offset in state.of(connector)}
