"""The state of a GroupMachine (Shard), and the handling of one request or timer (Turn)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from kcli.coordinator.machine import Outcome, Pair, Token
from kcli.group.classic.group import ClassicGroup
from kcli.group.committed import Committed
from kcli.group.config import GroupConfig
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.errors import GroupError, not_found
from kcli.group.group import Group
from kcli.group.metadata import Metadata
from kcli.group.timers import Timers
from kcli.protocol.error_code import ErrorCode

BATCH_BYTES, RECORD_BYTES = 61, 32
"""In bytes. BATCH_BYTES: the size of a batch's header. RECORD_BYTES: the maximum size of a record without key and
value."""

TimerKey = tuple[str, ...]
"""The key of a timer: its purpose, then the group id and the member id, if the timer is for one group or one
member."""


@dataclass(slots=True)
class Shard:
    """The state of one GroupMachine: the groups, offsets and timers of a partition of __consumer_offsets.

    new_id, new_consumer_id: functions that return a random id for a member of a classic group and of a consumer group;
    arguments, so that a simulation can repeat the ids. topic_hashes: cached metadata hashes
    (kcli.group.consumer.metadata_hash), by topic name. new_topics_version: the version of the metadata in which topics
    were last created.
    """

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
        """The group of that id. Raises GroupError GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of that id; None if there is no group of that id, or if it has another type."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group of that id; None if there is no group of that id, or if it has another type."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def classic_or_new(self, group_id: str, now_ms: int | None) -> Group:
        """Return the group of that id, of any type; if there is none, a new and empty classic group. now_ms: when
        the new group entered its state, None for unknown."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, now_ms)
        return group


@dataclass(slots=True)
class Turn:
    """The handling of one request or timer, and its outcome.

    A function that raises GroupError has changed nothing. State that no record has, such as sessions, is therefore
    changed by functions passed to `then`: they run once `append` has found that the records fit into a batch.
    """

    shard: Shard
    now_ms: int
    outcome: Outcome = field(default_factory=Outcome)
    _following: list[Callable[[], None]] = field(default_factory=list)

    def answer(self, token: Token | None, response: object) -> None:
        """Add the answer to the request of that token. token: None if no request waits for the answer."""
        if token is not None:
            self.outcome.answer(token, response)

    def fits(self, records: Iterable[Pair]) -> bool:
        """Whether the records fit into one batch (message.max.bytes)."""
        return BATCH_BYTES + sum(map(_size, records)) <= self.shard.config.batch_bytes_max

    def then(self, follow: Callable[[], None]) -> None:
        """Call `follow` after the next `append` that succeeds."""
        self._following.append(follow)

    def append(self, records: Sequence[Pair]) -> None:
        """Append the records as one batch, then call the functions that were passed to `then`. Raises GroupError
        UNKNOWN_SERVER_ERROR if the records do not fit into one batch."""
        if not self.fits(records):
            raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.outcome.append(*records)
        for follow in self._following:
            follow()
        self._following.clear()

    def append_all(self, records: Iterable[Pair]) -> None:
        """Append the records in as many batches as their size needs. If appending fails after some of the batches,
        those batches stay in the log."""
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
        """Set a timer that runs the action in `delay_ms`; it replaces the timer that is set under the key, if any."""
        self.shard.timers.schedule(key, self.now_ms + delay_ms, action)

    def after_if_absent(self, key: TimerKey, delay_ms: int, action: Callable[[Turn], None]) -> None:
        """Set a timer, unless one is set under the key."""
        if not self.shard.timers.is_scheduled(key):
            self.after(key, delay_ms, action)

    def cancel(self, key: TimerKey) -> None:
        """Remove the key's timer, if there is one."""
        self.shard.timers.cancel(key)


def _size(record: Pair) -> int:
    key, value = record
    return RECORD_BYTES + (0 if key is None else len(key)) + (0 if value is None else len(value))
