"""What the members of a group subscribe to, counted: topics by name, and by regular expressions, of which each counts
once for all of its members. Source: ModernGroup and ConsumerGroup (subscribedTopicNames, subscriptionType)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kcli.group.consumer.member import ConsumerMember


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched, when, and in which version of the metadata."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class Subscriptions:
    """names: members by topic that they name. regexes: members by regular expression. matched: regular expressions by
    topic that they match."""

    names: Counter[str] = field(default_factory=Counter)
    regexes: Counter[str] = field(default_factory=Counter)
    matched: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Subscriptions:
        """The same, to be changed."""
        return Subscriptions(self.names.copy(), self.regexes.copy(), self.matched.copy())

    def add(self, member: ConsumerMember) -> None:
        """One more member."""
        self.names.update(member.topics)
        if member.regex:
            self.regexes[member.regex] += 1

    def remove(self, member: ConsumerMember) -> None:
        """One less."""
        for topic in member.topics:
            subtract(self.names, topic)
        if member.regex:
            subtract(self.regexes, member.regex)

    def match(self, topics: Iterable[str]) -> None:
        """One more regular expression matches these."""
        self.matched.update(topics)

    def unmatch(self, topics: Iterable[str]) -> None:
        """One less."""
        for topic in topics:
            subtract(self.matched, topic)

    def topics(self) -> set[str]:
        """All that anybody subscribes to, in one way or the other."""
        return {*self.names, *self.matched}

    def __contains__(self, topic: str) -> bool:
        return topic in self.names or topic in self.matched

    def is_homogeneous(self, members: int) -> bool:
        """Do all members, so many, subscribe to the same, all by name or all by one regular expression?"""
        if not self.regexes:
            by_name = all(count == members for count in self.names.values())
            return by_name and not self.matched.keys() - self.names.keys()
        if next(iter(self.regexes.values())) != members:
            return False
        return not self.names and all(count == 1 for count in self.matched.values())


def subtract(counter: Counter[str], key: str) -> None:
    """One less; what is counted down to nothing is not in it."""
    if counter[key] > 1:
        counter[key] -= 1
    else:
        counter.pop(key, None)
