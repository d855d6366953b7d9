"""The downgrade of a consumer group whose members all speak the classic protocol: it becomes a classic group if
group.consumer.migration.policy allows this. The group epoch becomes the generation, and the target assignment of each
member becomes the member's assignment. KIP-848.

Source: GroupMetadataManager (validateOnlineDowngrade..., convertToClassicGroup), ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from formats.errors import FormatError
from kcli.coordinator.machine import Pair
from kcli.group.classic.group import CONSUMER, ClassicGroup
from kcli.group.classic.member import Member
from kcli.group.classic.rebalance import extend_session, prepare
from kcli.group.consumer.embedded import version_of, write_assignment
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import NO_PARTITIONS, ConsumerMember
from kcli.group.consumer.records import group_tombstones
from kcli.group.errors import GroupError
from kcli.group.records import classic_group_record
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def can_downgrade(turn: Turn, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> bool:
    """Return whether the group must become a classic group once the members `leaving` have left: at least one member
    remains, all remaining members are classic, group.consumer.migration.policy allows the downgrade, and the remaining
    members are not more than group.max.size."""
    left = len(group.members) - len(leaving)
    return group.are_others_classic(leaving) and left > 0 and _is_allowed(turn, left)


def can_downgrade_with(turn: Turn, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Return whether the group must become a classic group once a classic member replaces `replaced`: `replaced` is the
    only member that does not speak the classic protocol, group.consumer.migration.policy allows the downgrade, and
    group.max.size the number of members."""
    is_last = replaced.classic is None and group.are_others_classic([replaced])
    return is_last and _is_allowed(turn, len(group.members))


def _is_allowed(turn: Turn, members: int) -> bool:
    config = turn.shard.config
    return config.can_downgrade and members <= config.classic_group_max_size


def downgrade(
    turn: Turn,
    group: ConsumerGroup,
    *,
    records: Iterable[Pair] = (),
    leaving: Sequence[ConsumerMember] = (),
    joining: ConsumerMember | None = None,
    must_rebalance: bool,
) -> None:
    """Replace the consumer group by a classic group: append the consumer group's tombstones and the classic group's
    record.

    records: appended first, in the same batch. leaving: members that do not become members of the classic group.
    joining: a classic member that replaces the member with its instance id. must_rebalance: whether the classic group
    rebalances at once. Raises GroupError GROUP_ID_NOT_FOUND if a member's metadata cannot be read, UNKNOWN_SERVER_ERROR
    if the records do not fit into one batch.
    """
    removed = {member.id for member in leaving}
    replaced = None if joining is None else group.static_member(joining.instance_id)
    renamed = {}
    if joining is not None and replaced is not None:
        removed.add(replaced.id)
        renamed[replaced.id] = joining.id
    classic = ClassicGroup(group.id, turn.now_ms)
    classic.generation = group.epoch
    for member in (*group.members.values(), *(() if joining is None else (joining,))):
        if member.id not in removed or member is joining:
            classic.add(_classic_member(member))
    classic.protocol = classic.choose_protocol()
    old_ids = {new: old for old, new in renamed.items()}
    for each in classic.members.values():
        target = group.target.get(old_ids.get(each.id, each.id), NO_PARTITIONS)
        try:
            version = version_of(each.metadata(classic.protocol))
        except FormatError as error:
            message = f"Cannot downgrade the classic group {group.id}: {error.reason}."
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message) from error
        each.assignment = write_assignment(target, version, turn.shard.metadata)
    classic.load()
    assignments = {each.id: each.assignment for each in classic.members.values()}
    turn.append([*records, *group_tombstones(group, renamed), classic_group_record(classic, assignments)])
    turn.shard.groups[group.id] = classic
    for each in classic.members.values():
        extend_session(turn, classic, each)
    if must_rebalance:
        prepare(turn, classic)


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None, "only classic ones are left"
    return Member(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=CONSUMER,
        protocols=member.classic.protocols,
    )
