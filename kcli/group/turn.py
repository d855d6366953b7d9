"""One turn of a machine: what its functions read, and what they leave to be done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from kcli.coordinator import Outcome, Pair, Token
from kcli.group.classic.group import ClassicGroup
from kcli.group.committed import Committed
from kcli.group.config import GroupConfig
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.errors import ErrorCode, GroupError, not_found
from kcli.group.group import Group
from kcli.group.metadata import Metadata
from kcli.group.timers import Timers

BATCH_BYTES, RECORD_BYTES = 61, 32
"""A batch's header, and more than any record takes beside its key and value."""

TimerKey = tuple[str, ...]
"""What a timer is for, its group, its member."""


@dataclass(slots=True)
class Shard:
    """All that a machine knows. new_id, new_consumer_id: random ids for members of classic and of consumer groups, from
    outside so that a simulation can repeat them.
    topic_hashes: of topics that consumer groups read. new_topics_version: the metadata's when there last were new
    topics."""

    config: GroupConfig
    new_id: Callable[[], str]
    new_consumer_id: Callable[[], str]
    metadata: Metadata
    topic_hashes: dict[str, int] = field(default_factory=dict)
    new_topics_version: int = -1
    groups: dict[str, Group] = field(default_factory=dict)
    committed: Committed = field(default_factory=Committed)
    timers: Timers[TimerKey, Callable[[Turn], None]] = field(default_factory=Timers)

    def group(self, group_id: str) -> Group:
        """Raises GroupError."""
        group = self.groups.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of that name."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group of that name."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def classic_or_new(self, group_id: str, now_ms: int | None) -> Group:
        """The group of that name; an empty classic one where there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, now_ms)
        return group


@dataclass(slots=True)
class Turn:
    """A request, or a timer, and what comes of it. Whoever raises GroupError has changed nothing: what is kept in
    memory only follows once it is known that the records can be appended."""

    shard: Shard
    now_ms: int
    outcome: Outcome = field(default_factory=Outcome)
    _following: list[Callable[[], None]] = field(default_factory=list)

    def answer(self, token: Token | None, response: object) -> None:
        """Answer who waits, where somebody does."""
        if token is not None:
            self.outcome.answer(token, response)

    def fits(self, records: Iterable[Pair]) -> bool:
        """Can they be appended at once?"""
        return BATCH_BYTES + sum(map(_size, records)) <= self.shard.config.batch_bytes_max

    def then(self, follow: Callable[[], None]) -> None:
        """Do it with the next records, if they can be appended."""
        self._following.append(follow)

    def append(self, records: Sequence[Pair]) -> None:
        """Append records that go together. Raises GroupError: UNKNOWN_SERVER_ERROR, where they are too much for one
        batch."""
        if not self.fits(records):
            raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.outcome.append(*records)
        for follow in self._following:
            follow()
        self._following.clear()

    def append_all(self, records: Iterable[Pair]) -> None:
        """Append records that need not go together, in as many batches as it takes."""
        left, batch = 0, list[Pair]()
        for record in records:
            if _size(record) > left and batch:
                self.outcome.append(*batch)
                batch = []
            if not batch:
                left = self.shard.config.batch_bytes_max - BATCH_BYTES
            batch.append(record)
            left -= _size(record)
        self.outcome.append(*batch)

    def after(self, key: TimerKey, delay_ms: int, action: Callable[[Turn], None]) -> None:
        """Do it later, and not what was planned under that key."""
        self.shard.timers.schedule(key, self.now_ms + delay_ms, action)

    def after_if_absent(self, key: TimerKey, delay_ms: int, action: Callable[[Turn], None]) -> None:
        """Do it later, unless something is planned under that key."""
        if not self.shard.timers.is_scheduled(key):
            self.after(key, delay_ms, action)

    def cancel(self, key: TimerKey) -> None:
        """Do not do it."""
        self.shard.timers.cancel(key)


def _size(record: Pair) -> int:
    key, value = record
    return RECORD_BYTES + (0 if key is None else len(key)) + (0 if value is None else len(value))
