"""The group coordinator of a broker, which uses __consumer_offsets, and functions for the handlers of group
requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from formats.message import uuid_bytes, uuid_text
from kcli.broker.coordinators.group_metadata import GroupMetadata, topics_changed
from kcli.broker.coordinators.runtime import Coordinator, CoordinatorError, Work
from kcli.broker.wire.answers import Later
from kcli.group.config import GroupConfig
from kcli.group.consumer.group import CONSUMER
from kcli.group.machine import GroupMachine
from kcli.group.requests import ZERO_ID, CommitOffsets, DeleteGroup, DeleteOffsets, TopicsDeleted
from kcli.log.config import MINUTE_MS
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.metadata.changes import Changes
    from kcli.metadata.image import MetadataImage

ONE_MS = timedelta(milliseconds=1)
TOPICS_KEPT = 10_000
FOLLOW_RECORDS = (CommitOffsets, DeleteGroup, DeleteOffsets, TopicsDeleted)
"""Requests that change a group's state only when their records are replayed: if the records cannot be appended, the
state in memory is still valid."""


def coordinate(config: BrokerConfig, image: MetadataImage) -> Work:
    """Return the Work of the group coordinator: the functions with which it extends the runtime."""
    group_config, metadata = _config(config), GroupMetadata(config, image)
    return Work(
        make=lambda _: GroupMachine(group_config, lambda: str(uuid4()), metadata, lambda: uuid_text(uuid4().bytes)),
        follow=lambda changes: _follow(image, changes),
        base_sequence=0,  # as in the batches of Kafka's group coordinator
        commit_timeout_ms=config.number("offsets.commit.timeout.ms"),
        changes_nothing=lambda request: isinstance(request, FOLLOW_RECORDS),
    )


def _config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        classic_group_max_size=config.number("group.max.size"),
        classic_initial_rebalance_delay_ms=config.number("group.initial.rebalance.delay.ms"),
        batch_bytes_max=config.number("message.max.bytes"),
        consumer_group_max_size=config.number("group.consumer.max.size"),
        consumer_assignors=consumer_assignors(config),
        consumer_migration_policy=str(config.get("group.consumer.migration.policy")),
        consumer_regex_refresh_interval_ms=config.number("group.consumer.regex.refresh.interval.ms"),
        offset_metadata_max_size=config.number("offset.metadata.max.bytes"),
        offsets_retention_ms=config.number("offsets.retention.minutes") * MINUTE_MS,
        offsets_retention_check_interval_ms=config.number("offsets.retention.check.interval.ms"),
    )


def consumer_assignors(config: BrokerConfig) -> tuple[str, ...]:
    """The names of the server-side assignors that members of consumer groups may select, the default first."""
    names = config.get("group.consumer.assignors")
    assert isinstance(names, tuple), "a list"
    return tuple(str(name) for name in names)


def speaks_consumer_protocol(config: BrokerConfig, image: MetadataImage) -> bool:
    """Whether the consumer protocol of KIP-848 is enabled, by the configuration and by the feature group.version."""
    protocols = config.get("group.coordinator.rebalance.protocols")
    return isinstance(protocols, tuple) and CONSUMER in protocols and image.features.get("group.version", 0) >= 1


def _follow(image: MetadataImage, changes: Changes) -> Iterator[Any]:
    """Yield the requests for every state machine that follow from a change of the metadata: one with the changed
    topics, for which consumer groups compute new assignments, and one with the deleted topics, whose committed offsets
    are deleted."""
    changed = topics_changed(image, changes)
    if changed is not None:
        yield changed
    if changes.topics_deleted:
        topics = tuple((topic.name, id_text(topic.id)) for topic in changes.topics_deleted.values())
        yield TopicsDeleted(topics=topics)


async def ask_group(groups: Coordinator, group_id: str, request: Any) -> Any:
    """Return the response of the state machine of the group's partition (runtime.py). Raises CoordinatorError, with
    INVALID_GROUP_ID for an empty group id."""
    _check_id(group_id)
    return await groups.handle(group_id, request)


def send_group(groups: Coordinator, group_id: str, request: Any) -> asyncio.Future[Any]:
    """Return a future with the response of the state machine of the group's partition; the future is done already if
    the state machine has responded at once (see `when_answered`). CoordinatorError is raised here or by the future."""
    _check_id(group_id)
    return groups.send(group_id, request)


def _check_id(group_id: str) -> None:
    if not group_id:
        raise CoordinatorError(ErrorCode.INVALID_GROUP_ID)


T = TypeVar("T")


def when_answered(answer: asyncio.Future[Any], finish: Callable[[asyncio.Future[Any]], T]) -> T | Awaitable[T]:
    """Return `finish(answer)` if the future `answer` is done, else an awaitable that calls `finish` when the future is
    done."""
    return finish(answer) if answer.done() else Later(answer, finish)


def milliseconds(duration: timedelta) -> int:
    """Return a duration in ms, for a field that kio decodes as a timedelta."""
    return duration // ONE_MS


def duration(value_ms: int) -> timedelta:
    """Return a number of ms as a timedelta, for a field that kio encodes from a timedelta."""
    return value_ms * ONE_MS


@lru_cache(maxsize=TOPICS_KEPT)
def id_text(value: UUID | None) -> str:
    """Return the base64 text of a topic id; the group coordinator refers to topics by this text. None has the text of
    the zero id."""
    return ZERO_ID if value is None else uuid_text(value.bytes)


def id_value(text: str) -> UUID | None:
    """Return the topic id with that text; None for the zero id."""
    return None if text == ZERO_ID else UUID(bytes=uuid_bytes(text))
