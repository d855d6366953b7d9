"""Makes the response with an error to any request, in the request's version.

The error code is where Kafka puts it: at each topic, partition, group, resource... of the request, or at the top of the
response if the request has none of these. The response has an item for each item of the request with the same key
fields (name, partition, group...); its other arrays are empty, and unknown offsets, epochs and ids are -1. Source:
getErrorResponse of Kafka's request classes.

    Produce         each partition                     Metadata       each topic; the brokers are those of the cluster
    Fetch           each partition, those of its       OffsetFetch    the group
                    fetch session too                  LeaveGroup, OffsetDelete, DescribeLogDirs...    the top
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterable, Iterator
from functools import cache
from types import NoneType
from typing import Any, get_args

from kcli.broker.wire.messages import EPOCH, Message, Messages
from kcli.protocol.error_code import ErrorCode
from kcli.testing.wire import hints, item_of, without_none

AT_TOP = {"leave_group", "offset_delete", "describe_log_dirs", "fetch_snapshot"}
AT_TOP_FROM = {"add_partitions_to_txn": 4, "offset_fetch": 2}
AT_TOP_TOO = {"elect_leaders", "alter_partition_reassignments"}
NOT_ANSWERED = {"forgotten_topics_data"}
COPIED = {"entity"}  # key fields that are arrays: the response repeats them
SAME = {
    "topic": "name",
    "topic_name": "name",
    "user": "name",
    "partition": "index",
    "partition_index": "index",
    "partition_id": "index",
}
KNOWN_BY = {"name", "topic_id", "index", "group_id", "transactional_id", "resource_type", "resource_name", "feature"}
KNOWN_BY |= {"key", "producer_id"}
UNKNOWN_NUMBERS = {"node_id", "port", "leader_id", "leader_epoch", "generation_id", "member_epoch", "producer_epoch"}
UNKNOWN_NUMBERS |= {"controller_id"}


def error_code(name: str) -> ErrorCode:
    """Return the error code with that name in Kafka ("NOT_LEADER_OR_FOLLOWER"). Raises ValueError for an unknown
    name."""
    try:
        return ErrorCode[name]
    except KeyError:
        raise ValueError(f"{name}: no error of Kafka 4.3's protocol") from None


def error_answer(kind: Messages, api: str, request: Message | None, error: ErrorCode) -> Message:
    """Return the response with the error code. kind: the message types of the request's version. api: kcli's name of
    the API ("offset_fetch"). request: None if it could not be parsed."""
    at_top = api in AT_TOP or kind.version >= AT_TOP_FROM.get(api, kind.version + 1)
    if api == "offset_fetch" and hasattr(request, "groups"):
        at_top = False
    maker = _Maker(error, with_items=not at_top)
    response: Message = maker.make(kind.response_type, request, is_top=True, too=api in AT_TOP_TOO)
    return response


class _Maker:
    def __init__(self, error: ErrorCode, *, with_items: bool) -> None:
        self.error = error
        self.with_items = with_items
        self.message = f"{error.name}, as a fault rule says"

    def make(self, cls: type, item: Any, *, is_top: bool = False, too: bool = False) -> Any:
        """Return an object of the response class `cls` for an item of the request, or for the request itself
        (`is_top`).

        too: whether the top of the response has the error as well as its items.
        """
        values: dict[str, Any] = {}
        own_error = _error_field(cls)
        known = _identity(item)
        has_items = False
        for field in dataclasses.fields(cls):
            hint = hints(cls)[field.name]
            inner = item_of(hint)
            alias = SAME.get(field.name, field.name)
            if field.name == own_error:
                continue
            if dataclasses.is_dataclass(inner) and field.name in COPIED:
                values[field.name] = tuple(_copied(inner, each) for each in getattr(item, field.name))
            elif inner is not None:
                has_own_items = self.with_items and (is_top or own_error is None)
                items = tuple(self._items(inner, item)) if has_own_items and dataclasses.is_dataclass(inner) else ()
                has_items = has_items or bool(items)
                if items or field.default is dataclasses.MISSING:
                    values[field.name] = items
            elif alias in KNOWN_BY and alias in known:
                values[field.name] = known[alias]
            elif field.name == "error_message":
                values[field.name] = self.message if not is_top or too else _blank(field, hint)
            elif field.default is dataclasses.MISSING:
                values[field.name] = _blank(field, hint)
        if own_error is not None:
            has_error = not is_top or too or not has_items
            values[own_error] = self.error if has_error else ErrorCode.NONE
            if has_error and "error_message" in values:
                values["error_message"] = self.message
        return cls(**values)

    def _items(self, cls: Any, request: Any) -> Iterator[Any]:
        if not _tells_errors(cls):
            return
        names = {SAME.get(field.name, field.name) for field in dataclasses.fields(cls)} & KNOWN_BY
        found = list(_arrays(request))
        fitting = [each for each in found if _fits(each, names)]
        if not fitting:
            fitting = [each for deeper in found for item in deeper for each in _arrays(item) if _fits(each, names)]
        known = set()
        for array in fitting:
            for item in array:
                made = self.make(cls, _named(cls, item))
                if not names or made not in known:
                    known.add(made)
                    yield made


@dataclasses.dataclass(frozen=True)
class _Bare:
    """An item of the request that is not a struct but a name, a number or a topic id."""

    known: dict[str, Any]


def _named(cls: type, item: Any) -> Any:
    if dataclasses.is_dataclass(item):
        return item
    kinds = {str: ("name", "group_id", "key", "transactional_id"), int: ("index",), uuid.UUID: ("topic_id",)}
    names = {SAME.get(field.name, field.name) for field in dataclasses.fields(cls)}
    fitting = next(each for kind, each in kinds.items() if isinstance(item, kind))
    return _Bare({name: item for name in fitting if name in names})


def _arrays(request: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(request, _Bare) or not dataclasses.is_dataclass(request):
        return
    for field in dataclasses.fields(request):
        value = getattr(request, field.name)
        if isinstance(value, tuple) and value and field.name not in NOT_ANSWERED:
            yield value


def _fits(array: tuple[Any, ...], names: set[str]) -> bool:
    """Return whether the items of an array in the request can be matched with the items of the response, whose key
    fields are `names`: a request's item has one of these fields. If `names` is empty, return whether the request's
    items have neither a name nor an index."""
    first = array[0]
    if isinstance(first, str):
        return bool(names & {"name", "group_id", "key", "transactional_id"})
    if isinstance(first, int):
        return "index" in names
    if isinstance(first, uuid.UUID):
        return "topic_id" in names
    if not dataclasses.is_dataclass(first):
        return False
    known = set(_identity(first))
    return bool(known & names) if names else not known & {"name", "index"}


def _identity(item: Any) -> dict[str, Any]:
    """Return the key fields of an item, by name."""
    if isinstance(item, _Bare):
        return item.known
    if not dataclasses.is_dataclass(item):
        return {}
    named = ((SAME.get(field.name, field.name), getattr(item, field.name)) for field in dataclasses.fields(item))
    return {name: value for name, value in named if name in KNOWN_BY and not isinstance(value, tuple)}


def _copied(cls: Any, item: Any) -> Any:
    return cls(**{field.name: getattr(item, field.name) for field in dataclasses.fields(cls)})


@cache
def _error_field(cls: type) -> str | None:
    names = (each.name for each in dataclasses.fields(cls) if each.metadata.get("kafka_type") == "error_code")
    return next(names, None)


@cache
def _tells_errors(cls: type) -> bool:
    """Return whether the class, or a struct at any depth in it, has an error code."""
    inner: list[Any] = [item_of(each) for each in hints(cls).values()]
    return _error_field(cls) is not None or any(dataclasses.is_dataclass(each) and _deeper(each) for each in inner)


def _deeper(cls: Any) -> bool:
    return _tells_errors(cls)


def _blank(field: dataclasses.Field[Any], hint: Any) -> Any:
    """Return the neutral value of a field: null, empty, 0, or -1 for an unknown offset, epoch or id."""
    kind = field.metadata.get("kafka_type", "")
    if kind == "records":
        return b""
    if NoneType in get_args(hint):
        return None
    if kind == "int64" or (kind in ("int32", "int16") and field.name in UNKNOWN_NUMBERS):
        return -1
    if kind == "error_code":
        return ErrorCode.NONE
    inner = without_none(hint)
    if dataclasses.is_dataclass(inner):
        assert isinstance(inner, type), "a class"
        fields: Iterable[dataclasses.Field[Any]] = dataclasses.fields(inner)
        missing = [each for each in fields if each.default is dataclasses.MISSING]
        return inner(**{each.name: _blank(each, hints(inner)[each.name]) for each in missing})
    blanks = {"string": "", "bytes": b"", "bool": False, "float64": 0.0, "uuid": None}
    if kind in blanks:
        return blanks[kind]
    if kind.startswith("datetime"):
        return EPOCH
    return dt.timedelta(0) if kind.startswith("timedelta") else 0
