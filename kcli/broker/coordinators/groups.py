"""Consumer groups on a broker: the coordinator of __consumer_offsets, and what its handlers share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import lru_cache
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from formats.message import uuid_bytes, uuid_text
from kcli.broker.coordinators.group_metadata import GroupMetadata, topics_changed
from kcli.broker.coordinators.runtime import CoordinatorError, Work
from kcli.broker.network.connection import Later
from kcli.broker.network.messages import ErrorCode
from kcli.group.config import GroupConfig
from kcli.group.consumer.group import CONSUMER
from kcli.group.machine import GroupMachine
from kcli.group.requests import ZERO_ID, CommitOffsets, DeleteGroup, DeleteOffsets, TopicsDeleted
from kcli.log.config import MINUTE_MS

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.messages import Call
    from kcli.metadata.changes import Changes

GROUP_OPERATIONS = 3400
"""Authorized operations of a group where everything is allowed: read, delete, describe, describe and alter configs."""
ONE_MS = timedelta(milliseconds=1)
TOPICS_KEPT = 10_000
FOLLOW_RECORDS = (CommitOffsets, DeleteGroup, DeleteOffsets, TopicsDeleted)
"""What changes a group by its records only."""


def coordinate(broker: Broker) -> Work:
    """What the coordinator of groups does."""
    config, metadata = _config(broker.config), GroupMetadata(broker)
    return Work(
        make=lambda _: GroupMachine(config, lambda: str(uuid4()), metadata, lambda: uuid_text(uuid4().bytes)),
        follow=lambda changes: _follow(broker, changes),
        base_sequence=0,  # as in Kafka's batches
        commit_timeout_ms=broker.config.number("offsets.commit.timeout.ms"),
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
    """The server's assignors that members of consumer groups may ask for, the default first."""
    names = config.get("group.consumer.assignors")
    assert isinstance(names, tuple), "a list"
    return tuple(str(name) for name in names)


def speaks_consumer_protocol(broker: Broker) -> bool:
    """Is the protocol of KIP-848 on, in the configuration and by the cluster's features?"""
    protocols = broker.config.get("group.coordinator.rebalance.protocols")
    return isinstance(protocols, tuple) and CONSUMER in protocols and broker.image.features.get("group.version", 0) >= 1


def _follow(broker: Broker, changes: Changes) -> None:
    """The metadata has changed: consumer groups look at their topics again, offsets go with theirs."""
    groups = broker.groups
    changed = topics_changed(broker, changes)
    if changed is not None:
        groups.tell_all(changed)
    if changes.topics_deleted:
        topics = tuple((topic.name, id_text(topic.id)) for topic in changes.topics_deleted.values())
        groups.tell_all(TopicsDeleted(topics=topics))


async def ask_group(call: Call, group_id: str, request: Any) -> Any:
    """The answer of the group's machine. Raises CoordinatorError, with INVALID_GROUP_ID where there can be no such
    group."""
    _check_id(group_id)
    return await call.broker.groups.ask(group_id, request)


def send_group(call: Call, group_id: str, request: Any) -> asyncio.Future[Any]:
    """As `ask_group`, and done already where the machine has answered at once: see `when_answered`. Raises
    CoordinatorError, here or there."""
    _check_id(group_id)
    return call.broker.groups.send(group_id, request)


def _check_id(group_id: str) -> None:
    if not group_id:
        raise CoordinatorError(ErrorCode.invalid_group_id)


T = TypeVar("T")


def when_answered(answer: asyncio.Future[Any], finish: Callable[[asyncio.Future[Any]], T]) -> T | Awaitable[T]:
    """Finish with a machine's answer: now, if it is there, or once it is."""
    return finish(answer) if answer.done() else Later(answer, finish)


def milliseconds(duration: timedelta) -> int:
    """A field that kio reads as a duration."""
    return duration // ONE_MS


def duration(value_ms: int) -> timedelta:
    """The inverse of `milliseconds`."""
    return value_ms * ONE_MS


@lru_cache(maxsize=TOPICS_KEPT)
def id_text(value: UUID | None) -> str:
    """A topic's id as the group coordinator has it; None: no id."""
    return ZERO_ID if value is None else uuid_text(value.bytes)


def id_value(text: str) -> UUID | None:
    """The inverse of `id_text`."""
    return None if text == ZERO_ID else UUID(bytes=uuid_bytes(text))


def java_host(host: str) -> str:
    """A client's address as Java's InetAddress prints it: members are shown with it, and stored."""
    if ":" not in host:
        return f"/{host}"
    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
