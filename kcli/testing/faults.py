"""Rules by which the broker misbehaves: it answers late, with an error, or not at all.

The first rule that fits a request takes it; its count counts down. delay_ms comes before whatever else the rule says.
A delay follows the clock that the test moves.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any, Literal

from kcli.broker.api import APIS, Api
from kcli.broker.fetch_sessions import NO_SESSION, topic_key
from kcli.broker.network.connection import Laid, handle
from kcli.broker.network.messages import Call, Entity, HangUp
from kcli.testing.answers import error_answer, error_code
from kcli.testing.requests import FETCH, PRODUCE, RequestLog, Seen, plain_name
from kcli.testing.wire import hints, item_of

Answer = Entity | Laid | None
METADATA = 3
NO_ACKS = 0
DROPS = ("request", "answer")


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule. api, topic, client_id: which requests, None for any; count: how many of them, None for all; skip: so
    many pass before; hits: to how many it was done."""

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
        """Has it been applied to as many requests as it is for?"""
        return self.count is not None and self.hits >= self.count

    @property
    def effect(self) -> str:
        """What the rule does to a request."""
        done = [f"{self.delay_ms:g} ms late"] if self.delay_ms else []
        done += [self.error] if self.error else []
        done += [f"{self.drop} dropped"] if self.drop else []
        return ", ".join(done)

    def __str__(self) -> str:
        fits = [self.api or "any API"]
        fits += [f"topic {self.topic}"] if self.topic is not None else []
        fits += [f"client {self.client_id}"] if self.client_id is not None else []
        of = "" if self.count is None else f" of {self.count:,}"
        skip = f", after {self.skip:,} more" if self.skip else ""
        return f"{' '.join(fits)}: {self.effect}  ({self.hits:,}{of} hit{skip})"

    def check(self) -> None:
        """Raises ValueError for an API or an error that Kafka does not have, and for values that make no sense."""
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
            raise ValueError("an error cannot be told to a client whose connection is dropped: either error or drop")


class Faults:
    """The rules, and how a request goes through them: `handle` stands where the server's own does."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._rules: dict[int, Fault] = {}
        self._ids = itertools.count(1)

    def add(self, fault: Fault) -> Fault:
        """One more rule; its id is given here. Raises ValueError: see Fault.check."""
        fault.check()
        added = replace(fault, id=next(self._ids))
        self._rules[added.id] = added
        return added

    def all(self) -> list[Fault]:
        """The rules in force and those used up, with their hits."""
        return list(self._rules.values())

    def remove(self, fault_id: int) -> None:
        """Take a rule away. No harm where it is gone."""
        self._rules.pop(fault_id, None)

    def clear(self) -> None:
        """Take all away."""
        self._rules.clear()

    def handle(self, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        """Note the request, and answer it as the rules say. Raises HangUp."""
        seen = Seen.of(call)
        self._log.add(seen)
        rule = self._rule_for(seen)
        if rule is None:
            return handle(api, call)
        seen.fault = rule.effect
        if rule.delay_ms:
            return _late(rule, api, call)
        return _done(rule, api, call)

    def _rule_for(self, seen: Seen) -> Fault | None:
        for rule in self._rules.values():
            if _fits(rule, seen) and not rule.is_used_up:
                if rule.skip:
                    self._rules[rule.id] = replace(rule, skip=rule.skip - 1)
                    continue
                self._rules[rule.id] = replace(rule, hits=rule.hits + 1)
                return rule
        return None


def _fits(rule: Fault, seen: Seen) -> bool:
    return (
        (rule.api is None or plain_name(rule.api) == plain_name(seen.api))
        and (rule.client_id is None or rule.client_id == seen.header.client_id)
        and (rule.topic is None or any(rule.topic == name for name, _ in seen.targets))
    )


async def _late(rule: Fault, api: Api, call: Call) -> Answer:
    await asyncio.sleep(rule.delay_ms / 1000)
    answer = _done(rule, api, call)
    return await answer if isawaitable(answer) else answer


def _done(rule: Fault, api: Api, call: Call) -> Answer | Awaitable[Answer]:
    if rule.drop == "request":
        raise HangUp("a fault rule drops the request")
    if rule.drop == "answer":
        return _unheard(handle(api, call))
    if rule.error is None:
        return handle(api, call)
    return _refused(rule.error, api, call)


async def _unheard(answer: Answer | Awaitable[Answer]) -> Answer:
    if isawaitable(answer):
        await answer
    raise HangUp("a fault rule drops the answer")


def _refused(error: str, api: Api, call: Call) -> Answer | Awaitable[Answer]:
    request, code = call.request, error_code(error)
    if api.key == PRODUCE and request.acks == NO_ACKS:
        raise HangUp(f"{error}, which with acks=0 only a closed connection can tell")
    if api.key == METADATA:
        return _without_topics(error, api, call)
    if api.key == FETCH and call.get("session_id", NO_SESSION):
        request = _whole_fetch(call)
    return error_answer(call.messages, api.name, request, code)


async def _without_topics(error: str, api: Api, call: Call) -> Answer:
    """Metadata: who the brokers are stays true; the topics have the error."""
    answer = handle(api, call)
    response = await answer if isawaitable(answer) else answer
    topics = [replace(each, error_code=error_code(error), partitions=()) for each in response.topics]
    return replace(response, topics=tuple(topics))


def _whole_fetch(call: Call) -> Entity:
    """A fetch within a session as one that names all the session's partitions: each of them is told the error. The
    answer names no session, which ends it: the client begins a new one."""
    request, sessions = call.request, call.broker.sessions
    session = sessions.find(request.session_id)
    sessions.end(request.session_id)
    asked = {(topic_key(topic), each.partition) for topic in request.topics for each in topic.partitions}
    request_type: Any = type(request)
    topic_type = item_of(hints(request_type)["topics"])
    partition_type = item_of(hints(topic_type)["partitions"])
    by_id = "topic_id" in topic_type.__slots__
    topics = list(request.topics)
    for topic, index in session.partitions if session is not None else ():
        if (topic, index) not in asked:
            partition = partition_type(partition=index, fetch_offset=0, partition_max_bytes=0)
            topics.append(topic_type(**{"topic_id" if by_id else "topic": topic}, partitions=(partition,)))
    return replace(request, topics=tuple(topics))


def _known_api(api: str) -> None:
    from kio.schema.index import api_key_map

    known = [plain_name(each) for each in api_key_map.values()]
    known += [plain_name(each.name) for each in APIS.values()]
    if plain_name(api) not in known:
        raise ValueError(f"{api}: no API of Kafka's protocol")
