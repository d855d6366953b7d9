"""Records of connect-offsets: where each partition of a source goes on.

    key      [CONNECTOR,{partition}]     as JSON; the worker that reads it back compares the bytes
    value    {offset}                    as JSON; a tombstone resets the partition

A worker of Kafka writes a partition's names in the order of its Java map; most connectors have one name, which has one
order. Source: OffsetStorageWriter, OffsetUtils, ConnectorPartitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcli.connect.plugins import Offset, Partition
from kcli.connect.topics.json_values import Record, object_of
from kcli.service.json_text import BadJson, dumps, loads


def offset_record(connector: str, partition: Partition, offset: Offset | None) -> Record:
    """Return the record of a partition's offset; None resets it."""
    return dumps([connector, dict(partition)]), None if offset is None else dumps(dict(offset))


class OffsetState:
    """The offsets of all connectors. Only `replay` changes them."""

    def __init__(self) -> None:
        self._by_connector: dict[str, dict[bytes, tuple[Partition, Offset]]] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record. One that cannot be read is passed over."""
        found = _key_of(key)
        if found is None or key is None:
            return
        connector, partition = found
        offset = object_of(value)
        if offset is not None:
            self._by_connector.setdefault(connector, {})[key] = partition, offset
        elif value is None:
            self._by_connector.get(connector, {}).pop(key, None)

    def of(self, connector: str) -> list[tuple[Partition, Offset]]:
        """Return the offsets of a connector's partitions."""
        return list(self._by_connector.get(connector, {}).values())


def records_of(connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> list[Record]:
    """Return the records of offsets."""
    return [offset_record(connector, partition, offset) for partition, offset in offsets]


def _key_of(key: bytes | None) -> tuple[str, dict[str, Any]] | None:
    try:
        found = loads(key or b"")
    except BadJson:
        return None
    match found:
        case [str(connector), dict(partition)]:
            return connector, partition
        case _:
            return None
