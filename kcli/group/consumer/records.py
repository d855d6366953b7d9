"""Records of consumer groups: functions that return the records of a group's state, and `replay`, which applies parsed
records to a group.

    type  key              value, version 0
    3     group            the group epoch, the hash of the topics' metadata
    4     group            the topics' metadata; Kafka before 4.1 wrote it, now only its tombstone is written
    5     group, member    the member's subscription, client, timeout and classic protocols
    6     group            the assignment epoch, and when the target assignment was made
    7     group, member    the member's target assignment
    8     group, member    the member's epochs, its state, its partitions with the epoch of each
    16    group, regex     the topics that the regular expression matches

A member is removed by tombstones of its records of types 8, 7 and 5; a group by tombstones of types 8 (of all members),
7 (of all members), 6, 5 (of all members), 16, 4 and 3, in this order. Source: GroupCoordinatorRecordHelpers,
GroupMetadataManager (replay).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from formats.errors import BadValue
from formats.message import uuid_bytes, uuid_text
from formats.message_writer import write
from kcli.coordinator.machine import Pair
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import (
    LEAVING,
    ClassicProtocol,
    ConsumerMember,
    Epochs,
    MemberState,
    Partitions,
)
from kcli.group.consumer.subscriptions import ResolvedRegex
from kcli.group.records import Record, key_bytes

GROUP, PARTITION_METADATA, MEMBER, ASSIGNMENT, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
_NAMES: Final = {
    GROUP: "ConsumerGroupMetadata",
    PARTITION_METADATA: "ConsumerGroupPartitionMetadata",
    MEMBER: "ConsumerGroupMemberMetadata",
    ASSIGNMENT: "ConsumerGroupTargetAssignmentMetadata",
    TARGET: "ConsumerGroupTargetAssignmentMember",
    CURRENT: "ConsumerGroupCurrentMemberAssignment",
    REGEX: "ConsumerGroupRegularExpression",
}
_STATES: Final = {int(state): state for state in MemberState}
_VERSION: Final = (0).to_bytes(2)
NO_EPOCH = -1


def _pair(kind: int, key: dict[str, Any], value: dict[str, Any] | None) -> Pair:
    name = _NAMES[kind]
    return (
        key_bytes(kind, f"{name}Key", key),
        None if value is None else _VERSION + write(f"{name}Value", 0, value),
    )


def _of_member(kind: int, group_id: str, member_id: str, value: dict[str, Any] | None) -> Pair:
    return _pair(kind, {"groupId": group_id, "memberId": member_id}, value)


# functions that return the records of a group's state


def group_record(group_id: str, epoch: int, metadata_hash: int) -> Pair:
    """Return the record of a group's new epoch and metadata hash."""
    return _pair(GROUP, {"groupId": group_id}, {"epoch": epoch, "metadataHash": metadata_hash})


def member_record(group_id: str, member: ConsumerMember) -> Pair:
    """Return the record of a member's subscription, client, timeout and classic protocols."""
    classic = None
    if member.classic is not None:
        protocols = [{"name": name, "metadata": metadata} for name, metadata in member.classic.protocols]
        classic = {"sessionTimeoutMs": member.classic.session_timeout_ms, "supportedProtocols": protocols}
    value = {
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": sorted(member.topics),
        "subscribedTopicRegex": member.regex,
        "rebalanceTimeoutMs": member.rebalance_timeout_ms,
        "serverAssignor": member.assignor,
        "classicMemberMetadata": classic,
    }
    return _of_member(MEMBER, group_id, member.id, value)


def assignment_record(group_id: str, epoch: int, timestamp_ms: int) -> Pair:
    """Return the record that says for which group epoch the target assignment was made, and when (ms since 1970)."""
    value = {"assignmentEpoch": epoch, "assignmentTimestamp": timestamp_ms}
    return _pair(ASSIGNMENT, {"groupId": group_id}, value)


def target_record(group_id: str, member_id: str, target: Mapping[UUID, Iterable[int]]) -> Pair:
    """Return the record of a member's target assignment. target: partitions by topic id."""
    topics = [
        {"topicId": uuid_text(topic_id.bytes), "partitions": sorted(numbers)} for topic_id, numbers in target.items()
    ]
    return _of_member(TARGET, group_id, member_id, {"topicPartitions": topics})


def current_record(group_id: str, member: ConsumerMember) -> Pair:
    """Return the record of a member's current assignment: its epochs, state and partitions."""
    value = {
        "memberEpoch": member.epoch,
        "previousMemberEpoch": member.previous_epoch,
        "state": int(member.state),
        "assignedPartitions": _topics(member.assigned),
        "partitionsPendingRevocation": _topics(member.revoking),
    }
    return _of_member(CURRENT, group_id, member.id, value)


def _topics(epochs: Epochs) -> list[dict[str, Any]]:
    return [
        {
            "topicId": uuid_text(topic_id.bytes),
            "partitions": sorted(numbers),
            "assignmentEpochs": [numbers[number] for number in sorted(numbers)],
        }
        for topic_id, numbers in epochs.items()
    ]


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Pair:
    """Return the record of the topics that a regular expression matches."""
    value = {"topics": sorted(resolved.topics), "version": resolved.version, "timestamp": resolved.timestamp_ms}
    return _pair(REGEX, {"groupId": group_id, "regularExpression": regex}, value)


def regex_tombstone(group_id: str, regex: str) -> Pair:
    """Return the tombstone of a regular expression that no member subscribes to any more."""
    return _pair(REGEX, {"groupId": group_id, "regularExpression": regex}, None)


def partition_metadata_tombstone(group_id: str) -> Pair:
    """Return the tombstone of the metadata record (type 4) that Kafka before 4.1 wrote."""
    return _pair(PARTITION_METADATA, {"groupId": group_id}, None)


def member_tombstones(group_id: str, member_id: str) -> list[Pair]:
    """Return the tombstones of a member's records."""
    return [_of_member(kind, group_id, member_id, None) for kind in (CURRENT, TARGET, MEMBER)]


def group_tombstones(group: ConsumerGroup, renamed: Mapping[str, str] | None = None) -> list[Pair]:
    """Return the tombstones of all records of the group. renamed: the new ids, by their old ids, of static members
    whose records have already moved to the new id."""
    member_ids = [(renamed or {}).get(member_id, member_id) for member_id in group.members]

    def of_members(kind: int) -> list[Pair]:
        return [_of_member(kind, group.id, member_id, None) for member_id in member_ids]

    key = {"groupId": group.id}
    return [
        *of_members(CURRENT),
        *of_members(TARGET),
        _pair(ASSIGNMENT, key, None),
        *of_members(MEMBER),
        *(regex_tombstone(group.id, regex) for regex in group.resolved),
        partition_metadata_tombstone(group.id),
        _pair(GROUP, key, None),
    ]


# replay: parsed records change a group's state


def replay(group: ConsumerGroup, record: Record) -> bool:
    """Apply a record to the group. Return False if the record removes the group, otherwise True. Raises BadValue for a
    record that contradicts the group's state."""
    _REPLAY[record.type](group, record.key, record.value)
    return record.type != GROUP or record.value is not None


def _replay_group(group: ConsumerGroup, key: dict[str, Any], value: dict[str, Any] | None) -> None:  # noqa: ARG001 (all replay functions have one signature)
    if value is not None:
        group.epoch, group.metadata_hash = value["epoch"], value["metadataHash"]
    elif group.members or group.target or group.assignment_epoch != NO_EPOCH:
        raise BadValue(f"group {group.id} was removed before what is in it")


def _replay_metadata(group: ConsumerGroup, key: dict[str, Any], value: dict[str, Any] | None) -> None:  # noqa: ARG001 (all replay functions have one signature)
    group.has_partition_metadata = value is not None


def _replay_member(group: ConsumerGroup, key: dict[str, Any], value: dict[str, Any] | None) -> None:
    member = group.members.get(key["memberId"])
    if value is None:
        if member is not None:
            if member.epoch != LEAVING or member.id in group.target:
                raise BadValue(f"group {group.id}: member {member.id} was removed before its assignments")
            group.remove_member(member.id)
        return
    classic = value["classicMemberMetadata"]
    group.set_member(
        replace(
            member or ConsumerMember(id=key["memberId"]),
            instance_id=value["instanceId"],
            rack_id=value["rackId"],
            client_id=value["clientId"],
            client_host=value["clientHost"],
            topics=frozenset(value["subscribedTopicNames"]),
            regex=value["subscribedTopicRegex"],
            rebalance_timeout_ms=value["rebalanceTimeoutMs"],
            assignor=value["serverAssignor"],
            classic=None
            if classic is None
            else ClassicProtocol(
                classic["sessionTimeoutMs"],
                tuple((each["name"], each["metadata"]) for each in classic["supportedProtocols"]),
            ),
        )
    )


def _replay_assignment(group: ConsumerGroup, key: dict[str, Any], value: dict[str, Any] | None) -> None:  # noqa: ARG001 (all replay functions have one signature)
    if value is not None:
        group.assignment_epoch = value["assignmentEpoch"]
        group.assignment_timestamp_ms = value["assignmentTimestamp"]
        return
    if group.target:
        raise BadValue(f"group {group.id}: the assignment epoch was removed before the assignment")
    group.assignment_epoch, group.assignment_timestamp_ms = NO_EPOCH, 0


def _replay_target(group: ConsumerGroup, key: dict[str, Any], value: dict[str, Any] | None) -> None:
    if value is None:
        group.target.pop(key["memberId"], None)
    else:
        group.target[key["memberId"]] = _target(value["topicPartitions"])


def _target(topics: Iterable[Mapping[str, Any]]) -> Partitions:
    return {_id(topic): frozenset(topic["partitions"]) for topic in topics}


def _id(topic: Mapping[str, Any]) -> UUID:
    return UUID(bytes=uuid_bytes(topic["topicId"]))


def _replay_current(group: ConsumerGroup, key: dict[str, Any], value: dict[str, Any] | None) -> None:
    member = group.members.get(key["memberId"])
    if value is not None:
        epoch = value["memberEpoch"]
        group.set_member(
            replace(
                member or ConsumerMember(id=key["memberId"]),
                epoch=epoch,
                previous_epoch=value["previousMemberEpoch"],
                state=_state(value["state"]),
                assigned=_epochs(value["assignedPartitions"], epoch),
                revoking=_epochs(value["partitionsPendingRevocation"], epoch),
            )
        )
    elif member is not None:
        group.set_member(replace(member, epoch=LEAVING, previous_epoch=-1, assigned={}, revoking={}))


def _state(value: int) -> MemberState:
    return _STATES.get(value, MemberState.UNKNOWN)


def _epochs(topics: Iterable[Mapping[str, Any]], epoch: int) -> Epochs:
    """Return the partitions of these topics, each with the member epoch at which it was assigned. epoch: the member's
    epoch, used for records of older Kafka versions, which have no epochs of partitions."""
    found: dict[UUID, dict[int, int]] = {}
    for topic in topics:
        numbers, epochs = topic["partitions"], topic["assignmentEpochs"]
        if epochs is None or len(epochs) != len(numbers):
            epochs = [max(epoch, 0)] * len(numbers)
        found[_id(topic)] = dict(zip(numbers, epochs, strict=True))
    return found


def _replay_regex(group: ConsumerGroup, key: dict[str, Any], value: dict[str, Any] | None) -> None:
    if value is None:
        resolved = None
    else:
        resolved = ResolvedRegex(frozenset(value["topics"]), value["version"], value["timestamp"])
    group.set_regex(key["regularExpression"], resolved)


_REPLAY: Final[dict[int, Callable[[ConsumerGroup, dict[str, Any], dict[str, Any] | None], None]]] = {
    GROUP: _replay_group,
    PARTITION_METADATA: _replay_metadata,
    MEMBER: _replay_member,
    ASSIGNMENT: _replay_assignment,
    TARGET: _replay_target,
    CURRENT: _replay_current,
    REGEX: _replay_regex,
}
KEYS: Final = frozenset(_REPLAY)
"""The types of a consumer group's records."""
