"""Records of __consumer_offsets: committed offsets and classic groups as key and value bytes, and the parser of all
records of this topic.

    type  key                       value
    0     LegacyOffsetCommitKey     an offset commit of old brokers; read, never written
    1     group, topic, partition   an offset commit; version 4, or 1 with an expire timestamp (OffsetCommit v2 to v4)
    2     group                     a classic group: generation, members, assignments; version 3
    3..   records of consumer, share and streams groups

A record of an unknown type is ignored; a value of an unknown version is an error. Source: GroupCoordinatorRecordSerde,
GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from formats.errors import BadValue, Truncated
from formats.internal_topic import record_types
from formats.message import MessageSchema, reader
from formats.message_writer import write
from kcli.coordinator.machine import GROUPS_TOPIC, Pair
from kcli.group import offset_value
from kcli.group.classic.group import ClassicGroup
from kcli.group.classic.member import Member
from kcli.group.committed import NONE, CommittedOffset
from kcli.group.requests import ZERO_ID
from kcli.protocol.topic_partition import TopicPartition

TOPIC: Final = GROUPS_TOPIC
LEGACY_OFFSET, OFFSET, CLASSIC_GROUP = 0, 1, 2
OFFSET_VERSION, OFFSET_WITH_EXPIRY_VERSION = offset_value.VERSION, 1
CLASSIC_GROUP_VERSION = 3
TYPE_BYTES = VERSION_BYTES = 2
KEYS_KEPT = 10_000
"""The maximum number of parsed keys, and of written keys, to cache: the same partitions are committed again and
again."""


class Record(NamedTuple):
    """A parsed record. type: the type in its key (the module's docstring lists them). value: None for a tombstone."""

    type: int
    key_name: str
    key: dict[str, Any]
    value: dict[str, Any] | None


def parse(record: Pair) -> Record | None:
    """Parse a record; return None if its type is unknown. Raises FormatError."""
    key, value = record
    if key is None or len(key) < TYPE_BYTES:
        raise Truncated("a record of __consumer_offsets without a key", 0)
    known = _parse_key(key)
    if known is None:
        return None
    kind, schemas, parsed = known
    if value is None:
        return Record(kind, schemas[0].name, parsed, None)
    if len(value) < VERSION_BYTES:
        raise Truncated("a value of __consumer_offsets without a version", 0)
    version = int.from_bytes(value[:VERSION_BYTES], signed=True)
    schemas[1].check(version)
    return Record(kind, schemas[0].name, parsed, reader(schemas[1].name, version)(value, VERSION_BYTES)[0])


@lru_cache(maxsize=KEYS_KEPT)
def _parse_key(key: bytes) -> tuple[int, tuple[MessageSchema, MessageSchema], dict[str, Any]] | None:
    kind = int.from_bytes(key[:TYPE_BYTES], signed=True)
    schemas = record_types(TOPIC).get(kind)
    return None if schemas is None else (kind, schemas, reader(schemas[0].name, 0)(key, TYPE_BYTES)[0])


def key_bytes(kind: int, name: str, value: dict[str, Any]) -> bytes:
    """Return a record's key: its type as int16, and the key message `name` with these fields."""
    return kind.to_bytes(TYPE_BYTES) + write(name, 0, value)


# offsets


def offset_record(group_id: str, topic: str, partition: int, offset: CommittedOffset) -> Pair:
    """Return the record of a committed offset."""
    return _offset_key(group_id, topic, partition), offset_value.write(offset) or _offset_value(offset)


def _offset_value(offset: CommittedOffset) -> bytes:
    value: dict[str, Any] = {
        "offset": offset.offset,
        "metadata": offset.metadata,
        "commitTimestamp": offset.commit_timestamp_ms,
    }
    if offset.expire_timestamp_ms == NONE:
        version = OFFSET_VERSION
        value |= {"leaderEpoch": offset.leader_epoch, "topicId": offset.topic_id}
    else:
        version = OFFSET_WITH_EXPIRY_VERSION
        value["expireTimestamp"] = offset.expire_timestamp_ms
    return version.to_bytes(VERSION_BYTES) + write("OffsetCommitValue", version, value)


def offset_tombstone(group_id: str, partition: TopicPartition) -> Pair:
    """Return the record that deletes a committed offset."""
    return _offset_key(group_id, *partition), None


@lru_cache(maxsize=KEYS_KEPT)
def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return key_bytes(OFFSET, "OffsetCommitKey", {"group": group_id, "topic": topic, "partition": partition})


def read_commit(record: Pair, record_offset: int) -> tuple[str, TopicPartition, CommittedOffset] | None:
    """Return group, partition and offset of an offset commit whose value has the form that `offset_value` reads, as
    most have; None for all other records, which `parse` reads. record_offset: the offset of the record itself."""
    key, value = record
    if key is None or value is None:
        return None
    offset = offset_value.read(value, record_offset)
    names = None if offset is None else _commit_key(key)
    return None if names is None or offset is None else (*names, offset)


@lru_cache(maxsize=KEYS_KEPT)
def _commit_key(key: bytes) -> tuple[str, TopicPartition] | None:
    known = _parse_key(key) if len(key) >= TYPE_BYTES else None
    if known is None or known[0] != OFFSET:
        return None
    parsed = known[2]
    return parsed["group"], TopicPartition(parsed["topic"], parsed["partition"])


def committed_offset(value: Mapping[str, Any], record_offset: int) -> CommittedOffset:
    """Return the committed offset of a parsed value of any version. record_offset: the offset of the record itself."""
    return CommittedOffset(
        offset=value["offset"],
        leader_epoch=value.get("leaderEpoch", NONE),
        metadata=value["metadata"],
        commit_timestamp_ms=value["commitTimestamp"],
        expire_timestamp_ms=value.get("expireTimestamp", NONE),
        topic_id=value.get("topicId", ZERO_ID),
        record_offset=record_offset,
    )


# classic groups


def classic_group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Pair:
    """Return the record of the group in its current generation. assignments: by member id, one for each member."""
    members = []
    for member in group.members.values():
        assert group.protocol is not None, "chosen"
        members.append(
            {
                "memberId": member.id,
                "groupInstanceId": member.instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeout": member.rebalance_timeout_ms,
                "sessionTimeout": member.session_timeout_ms,
                "subscription": member.metadata(group.protocol),
                "assignment": assignments[member.id],
            }
        )
    return _classic_group(
        group,
        {
            "protocolType": group.protocol_type or "",
            "generation": group.generation,
            "protocol": group.protocol,
            "leader": group.leader,
            "members": members,
        },
    )


def new_classic_group_record(group: ClassicGroup) -> Pair:
    """Return the record of a new group, without members."""
    empty = {"protocolType": "", "generation": 0, "protocol": None, "leader": None, "members": []}
    return _classic_group(group, empty)


def _classic_group(group: ClassicGroup, value: dict[str, Any]) -> Pair:
    value["currentStateTimestamp"] = NONE if group.state_timestamp_ms is None else group.state_timestamp_ms
    raw = write("GroupMetadataValue", CLASSIC_GROUP_VERSION, value)
    return _classic_group_key(group.id), CLASSIC_GROUP_VERSION.to_bytes(VERSION_BYTES) + raw


def classic_group_tombstone(group_id: str) -> Pair:
    """Return the record that deletes a classic group."""
    return _classic_group_key(group_id), None


def _classic_group_key(group_id: str) -> bytes:
    return key_bytes(CLASSIC_GROUP, "GroupMetadataKey", {"group": group_id})


def classic_group(group_id: str, value: Mapping[str, Any]) -> ClassicGroup:
    """Return the group of a parsed record's value: Stable with members, else Empty. Raises BadValue if a member id
    or an instance id occurs twice."""
    timestamp_ms = value.get("currentStateTimestamp", NONE)
    group = ClassicGroup(group_id, None if timestamp_ms == NONE else timestamp_ms)
    group.generation = value["generation"]
    group.protocol_type = value["protocolType"] or None
    group.protocol, group.leader = value["protocol"], value["leader"]
    for each in value["members"]:
        instance_id = each.get("groupInstanceId")
        if each["memberId"] in group.members or instance_id in group.static:
            raise BadValue(f"group {group_id} has the member {each['memberId']} twice")
        session_timeout_ms, rebalance_timeout_ms = each["sessionTimeout"], each.get("rebalanceTimeout", NONE)
        group.add(
            Member(
                id=each["memberId"],
                instance_id=instance_id,
                client_id=each["clientId"],
                client_host=each["clientHost"],
                rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms == NONE else rebalance_timeout_ms,
                session_timeout_ms=session_timeout_ms,
                protocol_type=value["protocolType"],
                protocols=((value["protocol"], each["subscription"]),),
                assignment=each["assignment"],
            )
        )
    group.load()
    return group
