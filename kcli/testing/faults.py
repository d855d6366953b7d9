"""Fault rules: the broker answers requests that match a rule late, or with an error, or not at all.

The first rule that matches a request and is not used up applies to it. The delay of a rule passes before its error or
drop, and is measured by the broker's clock.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, cast

from kcli.broker.dispatch.routing import Router
from kcli.broker.fetching.sessions import NO_SESSION, FetchSessions, topic_key
from kcli.broker.wire.answers import Answer, HangUp
from kcli.broker.wire.apis import APIS, Api
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import Message
from kcli.testing.answers import error_answer, error_code
from kcli.testing.requests import FETCH, PRODUCE, LoggedRequest, RequestLog, plain_name
from kcli.testing.wire import hints, item_of

if TYPE_CHECKING:
    from kcli.broker.wire.types.fetch import FetchCall

METADATA = 3
NO_ACKS = 0
DROPS = ("request", "answer")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault rule.

    api, topic, client_id: select the requests that match, None for any. skip: the number of matching requests that
    still pass before the rule applies. count: the maximum number of requests to which it applies, None for no limit.
    hits: the number of requests to which it was applied. delay_ms, error, drop: as for `Kafka.faults.add`.
    """

    id: int
    api: str | None
    topic: str | None
    client_id: str | None
    count: int | None
    skip: int
    delay_ms: float
    error: str | None
    drop: Literal["request", "answer"] | None
    hits: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether the rule was applied to `count` requests and applies to no more."""
        return self.count is not None and self.hits >= self.count

    @property
    def effect(self) -> str:
        """What the fault rule does to a request, as text: "500 ms late, answer dropped"."""
        effects = [f"{self.delay_ms:g} ms late"] if self.delay_ms else []
        effects += [self.error] if self.error else []
        effects += [f"{self.drop} dropped"] if self.drop else []
        return ", ".join(effects)

    def __str__(self) -> str:
        fits = [self.api or "any API"]
        fits += [f"topic {self.topic}"] if self.topic is not None else []
        fits += [f"client {self.client_id}"] if self.client_id is not None else []
        of = "" if self.count is None else f" of {self.count:,}"
        skip = f", after {self.skip:,} more" if self.skip else ""
        return f"{' '.join(fits)}: {self.effect}  ({self.hits:,}{of} hit{skip})"

    def check(self) -> None:
        """Check the rule. Raises ValueError for an unknown API or error, and for values that no rule can have."""
        if self.api is not None:
            _known_api(self.api)
        if self.error is not None:
            error_code(self.error)
        if self.drop is not None and self.drop not in DROPS:
            raise ValueError(f"drop={self.drop!r}: True, 'request' or 'answer'")
        for name in ("count", "skip", "delay_ms"):
            value = getattr(self, name)
            if not isinstance(value, int | float) and (name, value) != ("count", None):
                raise ValueError(f"{name}={value!r}: a number")
        if self.count is not None and self.count < 1:
            raise ValueError(f"count={self.count}: a rule is for 1 request or more; None is for all")
        if self.skip < 0:
            raise ValueError(f"skip={self.skip}: 0 or more")
        if not 0 <= self.delay_ms < math.inf:
            raise ValueError(f"delay_ms={self.delay_ms}: 0 or more")
        if not (self.delay_ms or self.error or self.drop):
            raise ValueError("a fault rule that does nothing: it needs delay_ms, error or drop")
        if self.error and self.drop:
            raise ValueError("an error cannot reach a client whose connection is dropped: either error or drop")


class Faults:
    """The fault rules of a broker. The broker's server calls `handle` for each request, instead of the router."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._rules: dict[int, Fault] = {}
        self._ids = itertools.count(1)

    def add(self, fault: Fault) -> Fault:
        """Add a rule; return it with the id assigned to it. Raises ValueError as Fault.check does."""
        fault.check()
        added = replace(fault, id=next(self._ids))
        self._rules[added.id] = added
        return added

    def all(self) -> list[Fault]:
        """Return all rules with their hits, those that are used up too."""
        return list(self._rules.values())

    def remove(self, fault_id: int) -> None:
        """Remove a rule, if it exists."""
        self._rules.pop(fault_id, None)

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def handle(self, router: Router, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        """Log the request and answer it by the rule that applies, or through `router` if no rule does.

        Raises HangUp if the rule closes the connection.
        """
        entry = LoggedRequest.of(router.broker, call)
        self._log.add(entry)
        rule = self._rule_for(entry)
        if rule is None:
            return router.handle(api, call)
        entry.fault = rule.effect
        if rule.delay_ms:
            return _late(rule, router, api, call)
        return _applied(rule, router, api, call)

    def _rule_for(self, entry: LoggedRequest) -> Fault | None:
        for rule in self._rules.values():
            if _fits(rule, entry) and not rule.is_used_up:
                if rule.skip:
                    self._rules[rule.id] = replace(rule, skip=rule.skip - 1)
                    continue
                self._rules[rule.id] = replace(rule, hits=rule.hits + 1)
                return rule
        return None


def _fits(rule: Fault, entry: LoggedRequest) -> bool:
    return (
        (rule.api is None or plain_name(rule.api) == plain_name(entry.api))
        and (rule.client_id is None or rule.client_id == entry.header.client_id)
        and (rule.topic is None or any(rule.topic == name for name, _ in entry.targets))
    )


async def _late(rule: Fault, router: Router, api: Api, call: Call) -> Answer:
    await asyncio.sleep(rule.delay_ms / 1000)
    answer = _applied(rule, router, api, call)
    return await answer if isawaitable(answer) else answer


def _applied(rule: Fault, router: Router, api: Api, call: Call) -> Answer | Awaitable[Answer]:
    if rule.drop == "request":
        raise HangUp("a fault rule drops the request")
    if rule.drop == "answer":
        return _without_answer(router.handle(api, call))
    if rule.error is None:
        return router.handle(api, call)
    return _refused(rule.error, router, api, call)


async def _without_answer(answer: Answer | Awaitable[Answer]) -> Answer:
    if isawaitable(answer):
        await answer
    raise HangUp("a fault rule drops the answer")


def _refused(error: str, router: Router, api: Api, call: Call) -> Answer | Awaitable[Answer]:
    request, code = call.request, error_code(error)
    if api.key == PRODUCE and getattr(request, "acks", None) == NO_ACKS:
        raise HangUp(f"{error}, which with acks=0 only a closed connection can tell")
    if api.key == METADATA:
        return _without_topics(error, router, api, call)
    if api.key == FETCH and call.get("session_id", NO_SESSION):
        request = _whole_fetch(router.broker.sessions, cast("FetchCall", call))
    return error_answer(call.messages, api.name, request, code)


async def _without_topics(error: str, router: Router, api: Api, call: Call) -> Answer:
    """Return the response to Metadata with the cluster's brokers as they are, and with the error at each topic."""
    answer = router.route(api, call)
    response: Any = await answer if isawaitable(answer) else answer
    topics = [replace(each, error_code=error_code(error), partitions=()) for each in response.topics]
    refused: Message = replace(response, topics=tuple(topics))
    return refused


def _whole_fetch(sessions: FetchSessions, call: FetchCall) -> Message:
    """Return an incremental Fetch with all partitions of its fetch session added, so that the response made of it has
    the rule's error at each of them.

    This function also ends the fetch session. The response has no session id, so the client begins a new session.
    """
    request = call.request
    session = sessions.find(request.session_id)
    sessions.end(request.session_id)
    requested = {(topic_key(topic), each.partition) for topic in request.topics for each in topic.partitions}
    request_type: Any = type(request)
    topic_type = item_of(hints(request_type)["topics"])
    partition_type = item_of(hints(topic_type)["partitions"])
    by_id = "topic_id" in topic_type.__slots__
    topics = list(request.topics)
    for each in session.partitions.values() if session is not None else ():
        if (each.topic, each.index) not in requested:
            partition = partition_type(partition=each.index, fetch_offset=0, partition_max_bytes=0)
            topics.append(topic_type(**{"topic_id" if by_id else "topic": each.topic}, partitions=(partition,)))
    return replace(request, topics=tuple(topics))


def _known_api(api: str) -> None:
    from kcli.protocol import kio_serial  # noqa: F401  (before kio's own modules)

    # isort: split
    from kio.schema.index import api_key_map

    known = [plain_name(each) for each in api_key_map.values()]
    known += [plain_name(each.name) for each in APIS.values()]
    if plain_name(api) not in known:
        raise ValueError(f"{api}: no API of Kafka's protocol")
