"""Counts of the subscriptions in a consumer group: members by topic and by regular expression, and regular expressions
by topic that they match. Source: ModernGroup and ConsumerGroup (subscribedTopicNames, subscriptionType)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kcli.group.consumer.member import ConsumerMember


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matches. version: the version of the metadata whose topic names were
    matched; timestamp_ms: when they were matched, in ms since 1970."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class Subscriptions:
    """The subscriptions of a group's members. names: number of members by topic that they subscribe to by name.
    regexes: number of members by regular expression. matched: number of regular expressions by topic that they match.
    """

    names: Counter[str] = field(default_factory=Counter)
    regexes: Counter[str] = field(default_factory=Counter)
    matched: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Subscriptions:
        """Return an independent copy."""
        return Subscriptions(self.names.copy(), self.regexes.copy(), self.matched.copy())

    def add(self, member: ConsumerMember) -> None:
        """Count a member's subscription; topics that its regular expression matches are counted by `match`."""
        self.names.update(member.topics)
        if member.regex:
            self.regexes[member.regex] += 1

    def remove(self, member: ConsumerMember) -> None:
        """Remove a member's subscription from the counts."""
        for topic in member.topics:
            subtract(self.names, topic)
        if member.regex:
            subtract(self.regexes, member.regex)

    def match(self, topics: Iterable[str]) -> None:
        """Add one regular expression that matches these topics to the counts in `matched`."""
        self.matched.update(topics)

    def unmatch(self, topics: Iterable[str]) -> None:
        """Remove one regular expression that matched these topics from the counts in `matched`."""
        for topic in topics:
            subtract(self.matched, topic)

    def topics(self) -> set[str]:
        """The topics that any member subscribes to, by name or by regular expression."""
        return {*self.names, *self.matched}

    def __contains__(self, topic: str) -> bool:
        return topic in self.names or topic in self.matched

    def is_homogeneous(self, members: int) -> bool:
        """Whether all members have the same subscription: the same topic names, or one regular expression and no names.

        members: the number of members.
        """
        if not self.regexes:
            by_name = all(count == members for count in self.names.values())
            return by_name and not self.matched.keys() - self.names.keys()
        if next(iter(self.regexes.values())) != members:
            return False
        return not self.names and all(count == 1 for count in self.matched.values())


def subtract(counter: Counter[str], key: str) -> None:
    """Decrement the key's count, and remove the key if its count becomes zero."""
    if counter[key] > 1:
        counter[key] -= 1
    else:
        counter.pop(key, None)
