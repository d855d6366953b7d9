"""Subscriptions by regular expression: the coordinator resolves them to topics, and appends records of the result.

All regular expressions of a group are resolved together, by a timer right after the heartbeat that finds a resolution
due: when a member brings a new expression, when topics were created, and every
group.consumer.regex.refresh.interval.ms, but never twice within ten seconds. Members get partitions of the new topics
with one of their next heartbeats. Topics are left out, for all members of the group, if the client whose heartbeat
started the timer may not describe them.

Source: GroupMetadataManager (maybeUpdateRegularExpressions, handleRegularExpressionsResult), TopicRegexResolver.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum, auto
from functools import partial

from kcli.coordinator.machine import Pair
from kcli.group.consumer.fence import hash_topics
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import ConsumerMember
from kcli.group.consumer.records import group_record, regex_record, regex_tombstone
from kcli.group.consumer.subscriptions import ResolvedRegex, Subscriptions
from kcli.group.consumer.topic_regex import Search, compile_regex
from kcli.group.turn import TimerKey, Turn

REFRESH_INTERVAL_MIN_MS = 10_000


class RegexChange(Enum):
    """How a request has changed a member's regular expression. NONE: the expression is the same. UPDATED: the topics of
    the new expression are not known yet. RESOLVED: the topics of the new expression are known, or the member has no
    expression any more."""

    NONE = auto()
    UPDATED = auto()
    RESOLVED = auto()


def update_regex(
    turn: Turn,
    group: ConsumerGroup,
    old: ConsumerMember,
    member: ConsumerMember,
    records: list[Pair],
    describable: Container[str] | None,
) -> RegexChange:
    """Check the member's regular expression if the request changes it, and schedule a resolution of the group's regular
    expressions if one is due. Return how the request has changed the member's expression.

    old, member: the member before and after the request. describable: the topics that the member's client may describe,
    None for all of them. Adds a tombstone to `records` if no member subscribes to the old expression any more. Raises
    GroupError INVALID_REGULAR_EXPRESSION.
    """
    change, is_unknown = RegexChange.NONE, False
    known = group.subscriptions.regexes
    if old.regex != member.regex:
        change = RegexChange.UPDATED
        if old.regex and known[old.regex] == 1:
            records.append(regex_tombstone(group.id, old.regex))
        if member.regex and not known[member.regex]:
            compile_regex(member.regex)
            is_unknown = True
        elif member.regex in group.resolved or (old.regex and not member.regex):
            change = RegexChange.RESOLVED
    _resolve_later(turn, group, old, member, describable, is_unknown=is_unknown)
    return change


def _key(group_id: str) -> TimerKey:
    return ("regex", group_id)


def _resolve_later(
    turn: Turn,
    group: ConsumerGroup,
    old: ConsumerMember,
    member: ConsumerMember,
    describable: Container[str] | None,
    *,
    is_unknown: bool,
) -> None:
    """Schedule a resolution of the group's regular expressions, if one is due and none is scheduled. old, member:
    the member before and after the request. describable: the topics that the member's client may describe, None for
    all of them. is_unknown: whether the member brings an expression that no member had before."""
    shard, key = turn.shard, _key(group.id)
    if (not is_unknown and not group.subscriptions.regexes) or shard.timers.is_scheduled(key):
        return
    last = next(iter(group.resolved.values()), None)
    if last is not None and turn.now_ms <= last.timestamp_ms + REFRESH_INTERVAL_MIN_MS:
        return
    subscriptions = Subscriptions(regexes=group.subscriptions.regexes.copy())
    subscriptions.remove(ConsumerMember(id="", regex=old.regex))
    subscriptions.add(ConsumerMember(id="", regex=member.regex))
    is_due = (
        is_unknown
        or last is None
        or len(subscriptions.regexes) != len(group.resolved)
        or last.version < shard.new_topics_version
        or turn.now_ms > last.timestamp_ms + shard.config.consumer_regex_refresh_interval_ms
    )
    if is_due and subscriptions.regexes:
        turn.after(key, 0, partial(_begin_resolving, group.id, frozenset(subscriptions.regexes), describable))


def _begin_resolving(group_id: str, regexes: frozenset[str], describable: Container[str] | None, turn: Turn) -> None:
    """Begin to search the names of the cluster's topics for those that each of `regexes`, the group's regular
    expressions, matches. describable: the topics that may be found, None for all of them."""
    metadata = turn.shard.metadata
    search = Search(metadata.topic_names(), sorted(regexes), describable)
    _resolve_slice(group_id, search, metadata.version, turn)


def _resolve_slice(group_id: str, search: Search, version: int, turn: Turn) -> None:
    """Run the next slice of the search, which began with the topics of metadata version `version`. After the last
    slice, append the resolved expressions, and a new group epoch if the group's topics have changed."""
    group = turn.shard.consumer(group_id)
    if group is None:
        return
    search.go_on()
    if not search.is_over:
        turn.after(_key(group_id), 0, partial(_resolve_slice, group_id, search, version))
        return
    records: list[Pair] = []
    subscriptions = group.subscriptions.copy()
    has_changed = False
    for regex, topics in search.matched.items():
        if not group.subscriptions.regexes[regex]:
            continue
        known = group.resolved.get(regex)
        before = frozenset[str]() if known is None else known.topics
        if before != topics:
            has_changed = True
            subscriptions.unmatch(before)
            subscriptions.match(topics)
        records.append(regex_record(group_id, regex, ResolvedRegex(frozenset(topics), version, turn.now_ms)))
    metadata_hash = hash_topics(turn.shard, subscriptions)
    if has_changed or metadata_hash != group.metadata_hash:
        epoch = group.epoch + 1
        records.append(group_record(group_id, epoch, metadata_hash))
        group.refreshed(turn.now_ms, epoch)
    turn.append(records)
