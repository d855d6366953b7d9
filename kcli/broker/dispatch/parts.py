"""Splits a long request into parts, so that the event loop serves other requests in between.

Most requests are lists of independent items (topics, partitions, groups), and their responses are lists of results. A
list that would take longer than a few milliseconds is split. The handler handles each part as if it were a whole
request, and the responses are merged into one.

Items with the same name go into the same part, since some handlers refuse duplicates, or let the last one count. Of
more than two items with the same name only the first and the last are handled; only the first if the API gives the same
result for all of them (`once`). So the response to a long request lacks the results of the other items with that name,
which the response to a short request has, as Kafka's response to any request has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from inspect import isawaitable
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.process.turns import apart

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.wire.answers import Answer
    from kcli.broker.wire.call import Call
    from kcli.broker.wire.messages import Message
    from kcli.broker.wire.types.create_topics import CreateTopicsCall
    from kcli.broker.wire.types.metadata import MetadataCall

    Handler = Callable[[Broker, Call], Answer | Awaitable[Answer]]

SIZE_BYTES: Final = 4
AT_ONCE: Final = 200
"""The default of Parts.at_once: the number of items that a handler handles in a few milliseconds."""
PRODUCED_AT_ONCE: Final = 500
"""The greatest number of batches in a part of a Produce request. A part is appended when the part before it is
committed."""
NAMES: Final = (
    "group_id",
    "name",
    "topic",
    "topic_id",
    "topic_name",
    "partition",
    "partition_index",
    "resource_type",
    "resource_name",
    "transactional_id",
    "producer_id",
    "member_id",
    "group_instance_id",
    "entity",
    "path",
)
"""The names of the fields that identify an item of a request."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How an API's requests are split, and the responses merged.

    forms: pairs of the names of the nested lists in the request and of those in the response, the outermost list first.
    The pair that applies is the first one whose outermost list is not empty in the request.
    at_once: a part is complete when it has this many innermost items.
    once: whether only the first of several items with the same name is handled.
    every: whether all items are handled, and those with the same name may fall into different parts.
    refusal: a function that returns the reason why a request above Kafka's limits is refused as a whole, None if it is
    not refused.
    """

    forms: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    at_once: int = AT_ONCE
    once: bool = False
    every: bool = False
    refusal: Callable[..., str | None] | None = None

    def form(self, request: Message | None) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the names of the nested lists in this request, and in its response; None if the request has none of
        them."""
        for form in self.forms:
            if getattr(request, form[0][0], None):
                return form
        return None


def _partitions(requested: str = "topics", inner: str = "partitions", answered: str = "topics", **how: Any) -> Parts:
    """Return the Parts of an API whose items are partitions, in a list of topics. requested, answered: the name
    of the list of topics in the request and in the response. inner: the name of the list of partitions in the request.
    how: other fields of Parts."""
    return Parts((((requested, inner), (answered, "partitions")),), **how)


def _list(requested: str, answered: str, **how: Any) -> Parts:
    return Parts((((requested,), (answered,)),), **how)


def _creates_too_many(_: Broker, call: CreateTopicsCall) -> str | None:
    """Return the reason why a CreateTopics request with too many partitions or metadata records in total is refused;
    None if it is not refused. Topics that the request names twice do not count, as each of them is refused."""
    from kcli.metadata.topic_control import excess

    topics = call.request.topics
    times = Counter(each.name for each in topics)
    once = [each for each in topics if times[each.name] == 1]
    return excess((max(each.num_partitions, 1, len(each.assignments)), len(each.configs)) for each in once)


def _makes_too_many(broker: Broker, call: MetadataCall) -> str | None:
    """Return the reason why a Metadata request must not create its missing topics; None if it may create them. Kafka's
    broker creates all of them by one CreateTopics request, so that the limits of CreateTopics apply."""
    from kcli.metadata.topic_control import excess

    known, partitions = broker.image.topics, broker.config.num_partitions
    return excess((partitions, 0) for name in {each.name for each in call.request.topics or ()} if name not in known)


PARTS: Final = {
    "add_partitions_to_txn": _list("transactions", "results_by_transaction"),
    "alter_client_quotas": _list("entries", "entries", at_once=50),
    "alter_configs": _list("resources", "responses", at_once=20),
    "alter_partition_reassignments": _partitions(answered="responses"),
    "alter_replica_log_dirs": Parts(((("dirs", "topics", "partitions"), ("results", "partitions")),)),
    "consumer_group_describe": _list("group_ids", "groups", at_once=50, once=True),
    "create_partitions": _list("topics", "results", at_once=50),
    "create_topics": _list("topics", "topics", at_once=50, refusal=_creates_too_many),
    "delete_groups": _list("groups_names", "results", once=True),
    "delete_records": _partitions(),
    "delete_topics": Parts(((("topics",), ("responses",)), (("topic_names",), ("responses",))), at_once=50),
    "describe_configs": _list("resources", "results", at_once=4, once=True),
    "describe_groups": _list("groups", "groups", at_once=50, once=True),
    "describe_producers": _partitions(inner="partition_indexes", once=True),
    "describe_transactions": _list("transactional_ids", "transaction_states", once=True),
    "describe_user_scram_credentials": _list("users", "results"),
    "elect_leaders": Parts(((("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),)),
    "find_coordinator": _list("coordinator_keys", "coordinators", once=True),
    "incremental_alter_configs": _list("resources", "responses", at_once=20),
    "leave_group": _list("members", "members"),
    "list_offsets": _partitions(),
    "list_partition_reassignments": _partitions(inner="partition_indexes", once=True),
    "metadata": _list("topics", "topics", at_once=50, refusal=_makes_too_many),
    "offset_commit": _partitions(),
    "offset_delete": _partitions(),
    "offset_fetch": Parts(
        (
            (("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
            (("topics", "partition_indexes"), ("topics", "partitions")),
        ),
        once=True,
    ),
    "offset_for_leader_epoch": _partitions(once=True),
    "produce": Parts(
        ((("topic_data", "partition_data"), ("responses", "partition_responses")),),
        at_once=PRODUCED_AT_ONCE,
        every=True,
    ),
    "txn_offset_commit": _partitions(),
    "write_txn_markers": Parts(
        ((("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")),),
        at_once=20,  # few, as each marker is appended to a log
    ),
}
"""Name of an API's handler -> how the API's requests are split."""


def in_parts(handler: Handler, parts: Parts) -> Handler:
    """Return a handler that splits long requests, passes one part after the other to `handler`, and merges the
    responses."""

    def answer(broker: Broker, call: Call) -> Answer | Awaitable[Answer]:
        form = parts.form(call.request)
        if form is None or _count(call.request, form[0], parts.at_once) <= parts.at_once:
            return handler(broker, call)
        return _answer_in_parts(broker, call, handler, parts, form)

    return answer


def _count(item: Any, path: tuple[str, ...], enough: int) -> int:
    """Return the number of innermost items, where a list without items counts as one; if there are more than `enough`,
    any number above `enough`. item: the request, or an item of it. path: the names of the nested lists in `item`, the
    outermost first."""
    items = getattr(item, path[0]) or ()
    if len(path) == 1 or len(items) > enough:
        return len(items) or 1
    inner, count = path[1:], 0
    for each in items:  # a loop, since a generator would take twice as long and every request is counted
        count += _count(each, inner, enough)
    return count


async def _answer_in_parts(
    broker: Broker, call: Call, handler: Handler, parts: Parts, form: tuple[tuple[str, ...], ...]
) -> Answer:
    from kcli.broker.network.peers import read_response

    requested, answered = form
    merged: Merged | None = None
    requests = await apart(lambda: list(split(call.request, requested, parts)))
    refusal = None if parts.refusal is None else await apart(parts.refusal, broker, call)
    for request in requests:
        await broker.turns.next()
        part = replace(call, request=request, refusal=refusal)
        answer = handler(broker, part)
        response: Any = await answer if isawaitable(answer) else answer
        if isinstance(response, list):  # the handler has encoded the response: decode it for the merge
            response = read_response(call.messages, memoryview(response[0])[SIZE_BYTES:])
        call.throttle_ms = max(call.throttle_ms, part.throttle_ms)
        call.is_exempt, call.records_left = part.is_exempt, part.records_left
        if getattr(response, "error_code", 0):  # the request failed as a whole
            failed: Answer = response
            return failed
        if response is None:  # Produce with acks=0 has no response
            continue
        if merged is None:
            merged = Merged(response, answered)
        else:
            merged.add(response)
    return None if merged is None else await apart(merged.whole)


# requests


Place = tuple[int, ...]
"""The index of an innermost item in each of the nested lists, the outermost list first. Places and names are tuples
without other containers in them, as the garbage collector stops tracking such tuples."""
Names = tuple[Hashable, ...]


def split(request: Message | None, path: tuple[str, ...], parts: Parts) -> Iterator[Any]:
    """Split a request: yield for each part a request that has only the items of that part. path: the names of the
    nested lists, the outermost first."""
    places = _places(request, path, (), ())
    part: list[Place] = []
    for group in ((place,) for place, _ in places) if parts.every else _by_name(places, once=parts.once):
        part += group
        if len(part) >= parts.at_once:
            yield _request(request, path, part)
            part = []
    if part:
        yield _request(request, path, part)


def _by_name(places: Iterable[tuple[Place, Names]], *, once: bool) -> Iterator[tuple[Place, ...]]:
    """Yield for each name the places of the first and the last item with that name; with `once` only of the first."""
    first: dict[Names, Place] = {}
    last: dict[Names, Place] = {}
    for place, names in places:
        known = first.setdefault(names, place)
        if known is not place and not once:
            last[names] = place
    for names, place in first.items():
        again = last.get(names)
        yield (place,) if again is None else (place, again)


def _places(item: Any, path: tuple[str, ...], place: Place, names: Names) -> Iterator[tuple[Place, Names]]:
    inner = getattr(item, path[0]) if path else None
    if not inner:
        yield place, names
        return
    for i, each in enumerate(inner):
        yield from _places(each, path[1:], (*place, i), (*names, _name(each)))


def _name(item: Any) -> Hashable:
    """Return what identifies an item: a string or number itself, else the item's fields that are in NAMES."""
    if isinstance(item, str | int):
        return item
    return tuple([getattr(item, name) for name in NAMES if name in item.__slots__])


def _request(item: Any, path: tuple[str, ...], places: list[Place], depth: int = 0) -> Any:
    """Return the request, or an item of it at this depth of `path`, with only those of its innermost items whose Place
    is in `places`."""
    if len(places[0]) == depth:
        return item
    inner = getattr(item, path[depth])
    found = [
        _request(inner[i], path, list(same), depth + 1) for i, same in groupby(places, key=lambda place: place[depth])
    ]
    return replace(item, **{path[depth]: tuple(found)})


# responses


class Merged:
    """Merges the responses to the parts of a request into one response.

    item: the response to the first part, or an item of that response. path: the names of the nested lists, the
    outermost first.
    """

    def __init__(self, item: Any, path: tuple[str, ...]) -> None:
        self._path = path
        self._item = replace(item, **{path[0]: ()})
        self._items: list[Any] = []
        self.add(item)

    def add(self, item: Any) -> None:
        """Append the items of `item` (the response to the next part, or an item of it) to those merged so far. A topic,
        or another outer item, whose inner items were split between two parts becomes one item again."""
        found = getattr(item, self._path[0]) or ()
        if len(self._path) == 1:
            self._items += found
            return
        for each in found:
            if not (self._items and self._items[-1].takes(each)):
                self._items.append(Merged(each, self._path[1:]))

    def takes(self, item: Any) -> bool:
        """If all fields of `item` but its inner list equal those of the item given to the constructor, both are parts
        of the same item: append the inner items of `item`, and return True. Else return False."""
        is_same: bool = replace(item, **{self._path[0]: ()}) == self._item
        if is_same:
            self.add(item)
        return is_same

    def whole(self) -> Any:
        """Return the merged response, or the merged item of a response."""
        items = self._items if len(self._path) == 1 else [each.whole() for each in self._items]
        return replace(self._item, **{self._path[0]: tuple(items)})
