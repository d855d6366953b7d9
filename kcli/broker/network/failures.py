"""The answer to a request that failed as a whole: its error wherever that API's clients look.

Most responses have a place for the error of all. Others have it with each thing that was asked for: those are in
PLACES. What else there is in the response is empty. Source: AbstractRequest.getErrorResponse.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections.abc import Callable, Iterable
from typing import Any

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.network.wire import hints, item_of, without_none

Items = Iterable[dict[str, Any]]


def failed(call: Call, code: ErrorCode, reason: str | None = None) -> Entity:
    """The response that says so."""
    cls = call.messages.response_type
    values = empty(cls, error_code=code, error_message=reason)
    place = PLACES.get(call.messages.request_type.__name__)
    if place is not None:
        name, items = place
        item = item_of(hints(cls)[name])
        values[name] = tuple(
            item(**(empty(item, error_code=code, error_message=reason) | _known(item, each)))
            for each in items(call, code, reason)
        )
    return cls(**values)


def empty(cls: type, **given: Any) -> dict[str, Any]:
    """The fields of a class of kio's that have no default, as nothing; and those given that it has."""
    types = hints(cls)
    required = [each.name for each in dataclasses.fields(cls) if each.default is dataclasses.MISSING]
    return {name: _nothing(types[name]) for name in required} | _known(cls, given)


def _known(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in hints(cls)}


def _nothing(hint: Any) -> Any:
    inner = without_none(hint)
    if inner is not hint and typing.get_origin(inner) is not tuple:
        return None
    if typing.get_origin(inner) is tuple:
        return ()
    if inner is bool:
        return False
    if inner is ErrorCode:
        return ErrorCode.none
    if "Timedelta" in getattr(inner, "__name__", "") or inner is dt.timedelta:
        return dt.timedelta(0)
    if isinstance(inner, type) and issubclass(inner, str | bytes):
        return "" if issubclass(inner, str) else b""  # of kio's own kinds of str, too
    return 0


def _named(field: str) -> Callable[[Call, ErrorCode, str | None], Items]:
    return lambda call, *_: ({"name": each.name} for each in getattr(call.request, field))


def _deleted(call: Call, *_: object) -> Items:
    yield from ({"name": name} for name in call.get("topic_names", ()))
    yield from ({"name": each.name, "topic_id": each.topic_id} for each in call.get("topics", ()))


def _resources(call: Call, *_: object) -> Items:
    return (
        {"resource_type": each.resource_type, "resource_name": each.resource_name} for each in call.request.resources
    )


def _elections(call: Call, code: ErrorCode, reason: str | None) -> Items:
    for topic in call.request.topic_partitions or ():
        results = [
            call.new("PartitionResult", partition_id=each, error_code=code, error_message=reason)
            for each in topic.partitions
        ]
        yield {"topic": topic.topic, "partition_result": tuple(results)}


def _quotas(call: Call, *_: object) -> Items:
    for each in call.request.entries:
        yield {
            "entity": tuple(
                call.new("EntityData", entity_type=part.entity_type, entity_name=part.entity_name)
                for part in each.entity
            )
        }


PLACES: dict[str, tuple[str, Callable[[Call, ErrorCode, str | None], Items]]] = {
    "CreateTopicsRequest": ("topics", _named("topics")),
    "CreatePartitionsRequest": ("results", _named("topics")),
    "DeleteTopicsRequest": ("responses", _deleted),
    "AlterConfigsRequest": ("responses", _resources),
    "IncrementalAlterConfigsRequest": ("responses", _resources),
    "ElectLeadersRequest": ("replica_election_results", _elections),
    "AlterClientQuotasRequest": ("entries", _quotas),
}
"""Request -> the field of its response with one item for each thing asked for, and what names these."""
