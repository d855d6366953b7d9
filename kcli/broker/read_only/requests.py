"""Requests to a read-only broker. Writes are refused; a thread reads whole segments if a request needs that.

ApiVersions offers the APIs that read logs, metadata, groups and transactions, and those that write to them, so that
clients get the reason of the refusal. No client can be a member of a group: clients assign partitions to themselves.

If a handler would have to read whole segments that no request has read yet, a thread reads them before the handler is
called, so that other clients are not delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kcli.broker.dispatch.handlers import handler
from kcli.broker.dispatch.routing import Router
from kcli.broker.fetching.sessions import topic_key
from kcli.broker.process.turns import LONG_ITEMS, Parts
from kcli.broker.read_only.partitions import ReadOnlyPartition
from kcli.broker.read_only.refusals import REFUSALS, refuse
from kcli.broker.wire.answers import HangUp
from kcli.broker.wire.apis import APIS, Api

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.wire.answers import Answer
    from kcli.broker.wire.call import Call
    from kcli.broker.wire.messages import Message
    from kcli.broker.wire.types.describe_producers import DescribeProducersCall
    from kcli.broker.wire.types.fetch import FetchCall
    from kcli.broker.wire.types.list_offsets import ListOffsetsCall
    from kcli.broker.wire.types.offset_for_leader_epoch import OffsetForLeaderEpochCall
    from kcli.protocol.topic_partition import TopicPartition


class Lookup(NamedTuple):
    """The position at which a request reads a partition. offset: the offset from which a Fetch reads. timestamp: the
    timestamp that ListOffsets looks for. Both are None for a request that needs no position in the log."""

    topic: str | UUID
    number: int
    offset: int | None = None
    timestamp: int | None = None


class ReadOnlyRouter(Router):
    """Handles the requests to a read-only broker: requests that read go to their handlers, requests that write are
    refused."""

    def route(self, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        """Return the response to a request. Raises HangUp, which closes the connection."""
        broker = self.broker
        if api.name not in OFFERED:
            raise HangUp(f"{api.name} is not served by a read-only broker")
        if api.name in REFUSALS:
            return refuse(api.name, call)
        if api.name == "api_versions":
            return _api_versions(broker, api, call)
        lookups = _LOOKUPS.get(api.name, lambda *_: ())
        work = _preparations(broker, lookups(broker, call))
        try:
            next(work)
        except StopIteration as done:
            todo: list[Callable[[], object]] = done.value
            return _later(broker, api, call, todo) if todo else handler(api.key)(broker, call)
        return _in_turns(broker, api, call, work)


def _api_versions(broker: Broker, api: Api, call: Call) -> Message:
    found: Any = handler(api.key)(broker, call)
    response: Message = replace(
        found, api_keys=tuple(each for each in found.api_keys if APIS[each.api_key].name in OFFERED)
    )
    return response


async def _in_turns(broker: Broker, api: Api, call: Call, work: Parts[list[Callable[[], object]]]) -> Answer:
    return await _later(broker, api, call, await broker.turns.run(work))


async def _later(broker: Broker, api: Api, call: Call, todo: list[Callable[[], object]]) -> Answer:
    def work() -> None:
        for each in todo:
            each()

    await asyncio.get_running_loop().run_in_executor(None, work)
    found = handler(api.key)(broker, call)
    return await found if isawaitable(found) else found


def _preparations(broker: Broker, lookups: Iterable[Lookup]) -> Parts[list[Callable[[], object]]]:
    """Return the functions that a thread calls before the handler is called: one for each partition and position whose
    segments have to be read first. The list is empty if no segments have to be read."""
    found: dict[tuple[TopicPartition, int | None, int | None], Callable[[], object]] = {}
    for i, lookup in enumerate(lookups, 1):
        if not i % LONG_ITEMS:
            yield
        topic = lookup.topic
        if isinstance(topic, UUID):
            known = broker.image.topics_by_id.get(topic)
            topic = "" if known is None else known.name
        partition = broker.partitions.get(topic, lookup.number)
        if isinstance(partition, ReadOnlyPartition):
            log = partition.read_only_log
            if not log.is_ready(lookup.offset, lookup.timestamp):
                found[partition.key, lookup.offset, lookup.timestamp] = partial(
                    log.prepare, lookup.offset, lookup.timestamp
                )
    return list(found.values())


def _fetch(_: Broker, call: FetchCall) -> Iterator[Lookup]:
    for topic in call.request.topics:
        name = topic_key(topic)
        yield from (Lookup(name, each.partition, each.fetch_offset) for each in topic.partitions)


def _list_offsets(_: Broker, call: ListOffsetsCall) -> Iterator[Lookup]:
    for topic in call.request.topics:
        yield from (Lookup(topic.name, each.partition_index, timestamp=each.timestamp) for each in topic.partitions)


def _offset_for_leader_epoch(_: Broker, call: OffsetForLeaderEpochCall) -> Iterator[Lookup]:
    for topic in call.request.topics:
        yield from (Lookup(topic.topic, each.partition) for each in topic.partitions)


def _describe_producers(_: Broker, call: DescribeProducersCall) -> Iterator[Lookup]:
    for topic in call.request.topics:
        yield from (Lookup(topic.name, each) for each in topic.partition_indexes)


_LOOKUPS: dict[str, Callable[..., Iterator[Lookup]]] = {
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
        *_LOOKUPS,
        *REFUSALS,
    )
)
"""The APIs that a read-only broker offers in ApiVersions."""
