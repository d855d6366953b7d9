"""Subscriptions by regular expression: the coordinator finds the topics, and writes them down.

They are looked for a moment after the request that wants it, for all of a group's expressions at once: when a new one
comes, when there are new topics, and every group.consumer.regex.refresh.interval.ms, but never twice within ten
seconds. Members get new topics with one of their next heartbeats.

Source: GroupMetadataManager (maybeUpdateRegularExpressions, handleRegularExpressionsResult), TopicRegexResolver.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial

from kcli.coordinator import Pair
from kcli.group.consumer.fence import hash_topics
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import ConsumerMember
from kcli.group.consumer.records import group_record, regex_record, regex_tombstone
from kcli.group.consumer.subscriptions import ResolvedRegex, Subscriptions
from kcli.group.consumer.topic_regex import Search, compile_regex
from kcli.group.turn import TimerKey, Turn

REFRESH_INTERVAL_MIN_MS = 10_000


class RegexChange(Enum):
    """What a request has changed. RESOLVED: what topics the member reads now is known already."""

    NONE = auto()
    UPDATED = auto()
    RESOLVED = auto()


def update_regex(
    turn: Turn, group: ConsumerGroup, old: ConsumerMember, member: ConsumerMember, records: list[Pair]
) -> RegexChange:
    """Take note of the member's expression, and see whether it is time to look for topics. Raises GroupError:
    INVALID_REGULAR_EXPRESSION."""
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
    _look_later(turn, group, old, member, is_unknown=is_unknown)
    return change


def _key(group_id: str) -> TimerKey:
    return ("regex", group_id)


def _look_later(
    turn: Turn, group: ConsumerGroup, old: ConsumerMember, member: ConsumerMember, *, is_unknown: bool
) -> None:
    """Where it is time."""
    shard, key = turn.shard, _key(group.id)
    if (not is_unknown and not group.subscriptions.regexes) or shard.timers.is_scheduled(key):
        return
    last = next(iter(group.resolved.values()), None)
    if last is not None and turn.now_ms <= last.timestamp_ms + REFRESH_INTERVAL_MIN_MS:
        return
    wanted = Subscriptions(regexes=group.subscriptions.regexes.copy())
    wanted.remove(ConsumerMember(id="", regex=old.regex))
    wanted.add(ConsumerMember(id="", regex=member.regex))
    is_due = (
        is_unknown
        or last is None
        or len(wanted.regexes) != len(group.resolved)
        or last.version < shard.new_topics_version
        or turn.now_ms > last.timestamp_ms + shard.config.consumer_regex_refresh_interval_ms
    )
    if is_due and wanted.regexes:
        turn.after(key, 0, partial(_look, group.id, frozenset(wanted.regexes)))


def _look(group_id: str, regexes: frozenset[str], turn: Turn) -> None:
    """Begin to find the topics."""
    metadata = turn.shard.metadata
    _look_on(group_id, Search(metadata.topic_names(), sorted(regexes)), metadata.version, turn)


def _look_on(group_id: str, search: Search, version: int, turn: Turn) -> None:
    """Find more of the topics that metadata had at `version`; with the last, write down what the group reads now."""
    group = turn.shard.consumer(group_id)
    if group is None:
        return
    search.go_on()
    if not search.is_over:
        turn.after(_key(group_id), 0, partial(_look_on, group_id, search, version))
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
