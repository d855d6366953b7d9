"""A request for many things is answered part by part: others have their turn in between.

Most requests are lists of things that have nothing to do with each other, and so are their answers. A list longer than
a few milliseconds' worth is split, its handler answers each part as if it were a request of its own, and the answers
become one. Handlers know nothing of it.

What is asked for again and again stays in one part, since some handlers have an answer of their own to that: the first
and the last of it, for the last one counts. Where it could only be answered in the same way (`once`), the first will
do: Kafka, and a handler that is given a short request, repeats the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from inspect import isawaitable
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.turns import apart

if TYPE_CHECKING:
    from kcli.broker.network.messages import Call, Entity

    Handler = Callable[[Call], Entity | Awaitable[Entity]]

SIZE_BYTES: Final = 4
AT_ONCE: Final = 200
"""Things that a handler answers in a few milliseconds."""
PRODUCED_AT_ONCE: Final = 1000
"""Batches; one part of them waits until the one before is committed."""
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
"""The fields that say what a thing is."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How a request and its answer are split.

    forms: the lists in the request and those in its answer, from the outermost on; a version has the first form that
    its request has. at_once: so many of the innermost things make a part. once: see above. every: whatever comes
    counts. refusal: why a request that asks for more than is allowed is refused as a whole.
    """

    forms: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    at_once: int = AT_ONCE
    once: bool = False
    every: bool = False
    refusal: Callable[[Call], str | None] | None = None

    def form(self, request: Entity) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The names of the lists in the request, and in its answer; None where it is not split."""
        return next((form for form in self.forms if getattr(request, form[0][0], None)), None)


def _partitions(asked: str = "topics", inner: str = "partitions", answered: str = "topics", **how: Any) -> Parts:
    """A request about partitions, topic by topic."""
    return Parts((((asked, inner), (answered, "partitions")),), **how)


def _list(asked: str, answered: str, **how: Any) -> Parts:
    return Parts((((asked,), (answered,)),), **how)


def _creates_too_many(call: Call) -> str | None:
    """The partitions, and the records, of all topics are counted together; a name that is there twice is refused."""
    from kcli.metadata.topic_control import excess

    topics = call.request.topics
    times = Counter(each.name for each in topics)
    once = [each for each in topics if times[each.name] == 1]
    return excess((max(each.num_partitions, 1, len(each.assignments)), len(each.configs)) for each in once)


def _makes_too_many(call: Call) -> str | None:
    """The topics that Metadata would create on the way are what Kafka's broker asks its controller for at once."""
    from kcli.metadata.topic_control import excess

    known, partitions = call.broker.image.topics, call.broker.config.num_partitions
    return excess((partitions, 0) for name in {each.name for each in call.request.topics} if name not in known)


PARTS: Final = {
    "add_partitions_to_txn": _list("transactions", "results_by_transaction"),
    "alter_client_quotas": _list("entries", "entries"),
    "alter_configs": _list("resources", "responses", at_once=20),
    "alter_partition_reassignments": _partitions(answered="responses"),
    "alter_replica_log_dirs": Parts(((("dirs", "topics", "partitions"), ("results", "partitions")),)),
    "consumer_group_describe": _list("group_ids", "groups", at_once=50, once=True),
    "create_acls": _list("creations", "results"),
    "create_partitions": _list("topics", "results", at_once=50),
    "create_topics": _list("topics", "topics", at_once=50, refusal=_creates_too_many),
    "delete_acls": _list("filters", "filter_results"),
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
    "write_txn_markers": Parts(((("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")),)),
}
"""By the names of handlers."""


def in_parts(handler: Handler, parts: Parts) -> Handler:
    """A handler that has its long requests split."""

    def answer(call: Call) -> Entity | Awaitable[Entity]:
        form = parts.form(call.request)
        if form is None or _count(call.request, form[0], parts.at_once) <= parts.at_once:
            return handler(call)
        return _answer_in_parts(call, handler, parts, form)

    return answer


def _count(item: Any, path: tuple[str, ...], enough: int) -> int:
    """The innermost things; where there are more than enough, at least one more than that."""
    items = getattr(item, path[0]) or ()
    if len(path) == 1 or len(items) > enough:
        return max(1, len(items))
    return sum(_count(each, path[1:], enough) for each in items)


async def _answer_in_parts(call: Call, handler: Handler, parts: Parts, form: tuple[tuple[str, ...], ...]) -> Entity:
    from kcli.broker.network.peers import read_response

    asked, answered = form
    merged: Merged | None = None
    requests = await apart(lambda: list(split(call.request, asked, parts)))
    refusal = None if parts.refusal is None else await apart(parts.refusal, call)
    for request in requests:
        await call.broker.turns.next()
        part = replace(call, request=request, refusal=refusal)
        answer = handler(part)
        response: Any = await answer if isawaitable(answer) else answer
        if isinstance(response, list):  # it has laid it out itself
            response = read_response(call.messages, memoryview(response[0])[SIZE_BYTES:])
        call.throttle_ms = max(call.throttle_ms, part.throttle_ms)
        call.is_exempt, call.records_left = part.is_exempt, part.records_left
        if getattr(response, "error_code", 0):  # of the whole request
            return response
        if response is None:  # batches that nobody wants to hear of
            continue
        if merged is None:
            merged = Merged(response, answered)
        else:
            merged.add(response)
    return None if merged is None else await apart(merged.whole)


# requests


Place = tuple[int, ...]
"""Where one of the innermost things is in each list, the outermost first. Places and names are tuples of what is no
container: the garbage collector does not look at them again and again."""
Names = tuple[Hashable, ...]


def split(request: Entity, path: tuple[str, ...], parts: Parts) -> Iterator[Entity]:
    """Requests for a part each."""
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
    """What is asked for, the first and the last time."""
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
    """What a thing is, whatever is wanted of it."""
    if isinstance(item, str | int):
        return item
    return tuple([getattr(item, name) for name in NAMES if name in item.__slots__])


def _request(item: Any, path: tuple[str, ...], places: list[Place], depth: int = 0) -> Any:
    """The item with those of its innermost things alone."""
    if len(places[0]) == depth:
        return item
    inner = getattr(item, path[depth])
    found = [
        _request(inner[i], path, list(same), depth + 1) for i, same in groupby(places, key=lambda place: place[depth])
    ]
    return replace(item, **{path[depth]: tuple(found)})


# answers


class Merged:
    """Answers to parts that become one. item: what all of it has in common, without what is in its list."""

    def __init__(self, item: Any, path: tuple[str, ...]) -> None:
        self._path = path
        self._item = replace(item, **{path[0]: ()})
        self._items: list[Any] = []
        self.add(item)

    def add(self, item: Any) -> None:
        """The next part. What was cut in two becomes one again."""
        found = getattr(item, self._path[0]) or ()
        if len(self._path) == 1:
            self._items += found
            return
        for each in found:
            if not (self._items and self._items[-1].takes(each)):
                self._items.append(Merged(each, self._path[1:]))

    def takes(self, item: Any) -> bool:
        """Add what belongs to the same thing."""
        is_same: bool = replace(item, **{self._path[0]: ()}) == self._item
        if is_same:
            self.add(item)
        return is_same

    def whole(self) -> Any:
        """All of it."""
        items = self._items if len(self._path) == 1 else [each.whole() for each in self._items]
        return replace(self._item, **{self._path[0]: tuple(items)})
