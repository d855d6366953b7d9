"""Requests to a broker that only reads: writes are refused; what must read whole segments first does so in a thread.

ApiVersions offers what reads from logs, metadata, groups and transactions, and what would write to them, so that a
client is told why not. Nobody can be a member of a group: clients assign partitions to themselves.

Where a handler would have to survey segments that nobody has looked at yet, that is done before it is called, so that
other clients go on being answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kcli.broker.api import APIS, Api, handler
from kcli.broker.fetch_sessions import topic_key
from kcli.broker.network.messages import HangUp
from kcli.broker.read_only.partitions import ReadOnlyPartition
from kcli.broker.read_only.refusals import REFUSALS, refuse

if TYPE_CHECKING:
    from kcli.broker.network.messages import Call, Entity


class Look(NamedTuple):
    """What a request is about to look at: a partition, by its name or its topic's id, where, from which time on."""

    topic: str | UUID
    number: int
    offset: int | None = None
    timestamp: int | None = None


def answer(api: Api, call: Call) -> Entity | Awaitable[Entity]:
    """The answer to a request. Raises HangUp."""
    if api.name not in OFFERED:
        raise HangUp(f"{api.name} asked of a broker that only reads, which does not offer it")
    if api.name in REFUSALS:
        return refuse(api.name, call)
    if api.name == "api_versions":
        return _api_versions(api, call)
    looks = _LOOKS.get(api.name)
    todo = [] if looks is None else list(_preparations(call, looks(call)))
    return _later(api, call, todo) if todo else handler(api.key)(call)


def _api_versions(api: Api, call: Call) -> Entity:
    found: Any = handler(api.key)(call)
    return replace(found, api_keys=tuple(each for each in found.api_keys if APIS[each.api_key].name in OFFERED))


async def _later(api: Api, call: Call, todo: list[Callable[[], object]]) -> Entity:
    def work() -> None:
        for each in todo:
            each()

    await asyncio.get_running_loop().run_in_executor(None, work)
    found = handler(api.key)(call)
    return await found if isawaitable(found) else found


def _preparations(call: Call, looks: Iterable[Look]) -> Iterator[Callable[[], object]]:
    for look in looks:
        topic = look.topic
        if isinstance(topic, UUID):
            known = call.broker.image.topics_by_id.get(topic)
            topic = "" if known is None else known.name
        partition = call.broker.partitions.get(topic, look.number)
        if isinstance(partition, ReadOnlyPartition):
            log = partition.read_only_log
            if not log.is_ready(look.offset, look.timestamp):
                yield partial(log.prepare, look.offset, look.timestamp)


def _fetch(call: Call) -> Iterator[Look]:
    session = call.broker.sessions.find(call.get("session_id", 0))
    if session is not None:
        yield from (Look(topic, each.index, each.offset) for (topic, _), each in session.partitions.items())
    for topic in call.request.topics:
        name = topic_key(topic)
        yield from (Look(name, each.partition, each.fetch_offset) for each in topic.partitions)


def _list_offsets(call: Call) -> Iterator[Look]:
    for topic in call.request.topics:
        yield from (Look(topic.name, each.partition_index, timestamp=each.timestamp) for each in topic.partitions)


def _offset_for_leader_epoch(call: Call) -> Iterator[Look]:
    for topic in call.request.topics:
        yield from (Look(topic.topic, each.partition) for each in topic.partitions)


def _describe_producers(call: Call) -> Iterator[Look]:
    for topic in call.request.topics:
        yield from (Look(topic.name, each) for each in topic.partition_indexes)


_LOOKS: dict[str, Callable[[Call], Iterator[Look]]] = {
    "fetch": _fetch,
    "list_offsets": _list_offsets,
    "offset_for_leader_epoch": _offset_for_leader_epoch,
    "describe_producers": _describe_producers,
}

OFFERED = frozenset(
    (
        "api_versions",
        "consumer_group_describe",
        "describe_client_quotas",
        "describe_cluster",
        "describe_configs",
        "describe_groups",
        "describe_log_dirs",
        "describe_quorum",
        "describe_topic_partitions",
        "describe_transactions",
        "find_coordinator",
        "list_config_resources",
        "list_groups",
        "list_transactions",
        "metadata",
        "offset_fetch",
        *_LOOKS,
        *REFUSALS,
    )
)
"""The APIs of a broker that only reads."""
