"""Offsets of a connector, read, altered and reset: of a source in Connect's own store, of a sink those that its
consumer group has committed. KIP-875. Source: Worker, SinkUtils, ConnectorOffsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kcli.client.connection import Connection, Refused
from kcli.client.groups import Groups
from kcli.connect.data.errors import ConnectError, DataError
from kcli.connect.data.texts import java_text
from kcli.connect.plugins import AltersOffsets, Connector, Offset, Partition
from kcli.connect.worker.errors import BadRequest
from kcli.errors import KcliError
from kcli.java.values import LONG_MAX, LONG_MIN, java_integer
from kcli.metadata import topic_names
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.connect.worker.stores import Stores

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
LONG_BITS: Final = 64
HAS_MEMBERS: Final = ("UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC")
"""Errors of a group that has members: tasks of a worker of Kafka's."""
_UNSUITABLE: Final[Mapping[type, str]] = {list: "ARRAY", dict: "MAP"}
Offsets = Sequence[tuple[Partition, Offset | None]]


def offsets_json(offsets: Offsets) -> dict[str, Any]:
    """Return the JSON object of offsets."""
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in offsets]}


def offsets_of_json(found: object) -> Offsets:
    """Return the offsets of a request's JSON object. Raises BadRequest."""
    entries = found.get("offsets") if isinstance(found, dict) else None
    if not entries:
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(entries, list) or not all(
        isinstance(each, dict)
        and all(each.get(name) is None or isinstance(each[name], dict) for name in ("partition", "offset"))
        for each in entries
    ):
        raise BadRequest("The offsets are no list of objects with a partition and an offset")
    return [(each.get("partition"), each.get("offset")) for each in entries]


def altered(is_done: bool, is_reset: bool) -> dict[str, str]:
    """Return the message of a request that has altered or reset offsets. is_done: whether the connector knows."""
    what = "reset" if is_reset else "altered"
    if is_done:
        return {"message": f"The offsets for this connector have been {what} successfully"}
    return {
        "message": f"The Connect framework-managed offsets for this connector have been {what} successfully. However, "
        f"if this connector manages offsets externally, they will need to be manually {what} in the system that the "
        "connector uses."
    }


def _has_members(name: str, *, is_reset: bool) -> str:
    """Return the reason why the offsets of a group with members are not altered or reset."""
    what = "reset" if is_reset else "alter"
    return (
        f"Failed to {what} consumer group offsets for connector {name} either because its tasks haven't stopped "
        f"completely yet or the connector was resumed before the request to {what} its offsets could be successfully "
        "completed. If the connector is in a stopped state, this operation can be safely retried. If it doesn't "
        "eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink tasks."
    )


def alter_source(stores: Stores, name: str, connector: Connector, offsets: Offsets | None) -> dict[str, str]:
    """Write offsets of a source, or reset all if there are none. Raises KcliError."""
    is_reset = offsets is None
    if offsets is None:
        offsets = [(partition, None) for partition, _ in stores.read_offsets(name)]
    else:
        for each in offsets:
            _check_values(each[0])
            _check_values(each[1])
    is_done = isinstance(connector, AltersOffsets) and connector.alter_offsets(offsets)
    if any(partition is None for partition, _ in offsets):
        raise BadRequest("The partition for a source connector offset cannot be null or missing")
    stores.write_offsets(name, offsets)
    return altered(is_done, is_reset)


def _check_values(found: Partition | Offset | None) -> None:
    """Refuse values that Connect's JSON has no primitive type for. Source: OffsetUtils. Raises DataError."""
    for name, value in (found or {}).items():
        kind = _UNSUITABLE.get(type(value))
        if type(value) is int and not LONG_MIN <= value <= LONG_MAX:
            kind = "class java.math.BigInteger"
        if kind is not None:
            raise DataError(f"Offsets may only contain primitive types as values, but field {name} contains {kind}")


class SinkOffsets:
    """The offsets that groups of sinks have committed."""

    def read(self, consumer: Mapping[str, str]) -> Offsets:
        """Return the offsets of a sink's group. consumer: its properties. Raises KcliError."""
        groups, group = _groups(consumer)
        return [
            ({TOPIC: place.topic, PARTITION: place.partition}, {OFFSET: each.offset})
            for place, each in sorted(groups.committed(group).items())
        ]

    def alter(
        self, name: str, connector: Connector, consumer: Mapping[str, str], offsets: Offsets | None
    ) -> dict[str, str]:
        """Commit offsets for a sink's group, or delete the group if there are none. Raises KcliError."""
        groups, group = _groups(consumer)
        if offsets is None:
            reset: Offsets = [(partition, None) for partition, _ in self.read(consumer)]
            is_done = isinstance(connector, AltersOffsets) and connector.alter_offsets(reset)
            if reset:
                _raise_first(groups.delete([group]), name, is_reset=True)
            return altered(is_done, is_reset=True)
        places = places_of(offsets)
        is_done = isinstance(connector, AltersOffsets) and connector.alter_offsets(offsets)
        _check_places(name, places)
        committed = {place: offset for place, offset in places.items() if offset is not None}
        if committed:
            _raise_first(groups.commit(group, committed), name, is_reset=False)
        removed = [place for place, offset in places.items() if offset is None]
        if removed:
            _raise_first(groups.delete_offsets(group, removed), name, is_reset=False)
        return altered(is_done, is_reset=False)


def _groups(consumer: Mapping[str, str]) -> tuple[Groups, str]:
    properties = {key: value for key, value in consumer.items() if key.startswith(("security.", "sasl.", "ssl."))}
    return Groups(Connection(consumer["bootstrap.servers"], properties)), consumer["group.id"]


def _raise_first(results: Any, name: str, *, is_reset: bool) -> None:
    for each in results:
        if isinstance(each, Refused) and each.name in HAS_MEMBERS:
            raise ConnectError(_has_members(name, is_reset=is_reset))
        if isinstance(each, KcliError):
            what = "reset" if is_reset else "alter"
            raise ConnectError(f"Failed to {what} consumer group offsets for connector {name}: {each}")


def _check_places(name: str, places: Mapping[TopicPartition, int | None]) -> None:
    """Refuse what no group has offsets of, and offsets that are none, before the clients do. Raises ConnectError."""
    for place, offset in places.items():
        if offset is not None and offset < 0:
            raise ConnectError(f"Failed to modify offsets for sink connector {name}: Invalid negative offset")
        reason = topic_names.fault(place.topic) or ("the partition is negative" if place.partition < 0 else None)
        if reason is not None:
            raise ConnectError(f"Failed to alter consumer group offsets for connector {name}: {reason}")


def places_of(offsets: Offsets) -> dict[TopicPartition, int | None]:
    """Return the offsets of a sink by partition; None for a reset. Raises BadRequest."""
    found: dict[TopicPartition, int | None] = {}
    for partition, offset in offsets:
        if partition is None:
            raise BadRequest("The partition for a sink connector offset cannot be null or missing")
        if TOPIC not in partition or PARTITION not in partition:
            raise BadRequest(
                f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
            )
        if partition[TOPIC] is None:
            raise BadRequest("Kafka topic names must be valid strings and may not be null")
        if partition[PARTITION] is None:
            raise BadRequest("Kafka partitions must be valid numbers and may not be null")
        text = java_text(partition[PARTITION])
        number = java_integer(text)
        if number is None:
            raise BadRequest(
                f"Failed to parse the following Kafka partition value in the provided offsets: '{text}'. Partition "
                "values for sink connectors need to be integers."
            )
        found[TopicPartition(java_text(partition[TOPIC]), number)] = None if offset is None else _offset(offset)
    return found


def _offset(offset: Offset) -> int:
    if OFFSET not in offset:
        raise BadRequest(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    text = java_text(offset[OFFSET])
    number = java_integer(text, LONG_BITS)
    if number is None:
        raise BadRequest(
            f"Failed to parse the following Kafka offset value in the provided offsets: '{text}'. Offset values for "
            "sink connectors need to be integers."
        )
    return number
