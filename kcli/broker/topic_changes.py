"""What handlers share that create, delete and enlarge topics."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.network.messages import ErrorCode
from kcli.broker.network.peers import Unanswered
from kcli.broker.unattended import begin
from kcli.metadata.internal_topics import new_topic
from kcli.metadata.result import Refused
from kcli.metadata.topic_control import NewTopic, TopicContext, create_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.broker.broker import Broker
    from kcli.broker.network.messages import Call

logger = logging.getLogger("kcli.broker")


@dataclass(slots=True)
class MutationCharge:
    """Counts partitions that come and go against the client's controller_mutation_rate, and throttles its call.

    strict: partitions beyond the quota are refused (KIP-599).
    """

    call: Call
    strict: bool

    def __call__(self, partitions: int) -> bool:
        """Count them; False: they are refused."""
        throttle_ms = self.call.broker.quotas.mutation_throttle_ms(self.call, partitions, is_strict=self.strict)
        self.call.throttle_ms = max(self.call.throttle_ms, throttle_ms)
        return not (throttle_ms and self.strict)


def topic_context(call: Call, strict_since: int) -> TopicContext:
    """What the controller knows of this broker. strict_since: the request's first version that is refused beyond its
    quota."""
    config = call.broker.config
    return TopicContext(
        num_partitions=config.num_partitions,
        replication_factor=config.default_replication_factor,
        broker_properties=config.properties,
        remote_storage=config.remote_log_storage_system_enable,
        deletion_enabled=config.delete_topic_enable,
        charge=MutationCharge(call, strict=call.version >= strict_since),
    )


def create_missing(call: Call, names: Iterable[str]) -> None:
    """Create topics that a client asked for by name, Kafka's own among them: they are there soon. What is refused is
    only logged: all of them where they are part of a request for too many."""
    broker = call.broker
    if call.refusal is not None:
        _log_problem(broker, f"no topics created: {call.refusal}")
        return
    if broker.metadata.is_leader:
        _create_here(call, names)
        return
    topics = [new_topic(name, broker.config.number) for name in names if name not in broker.creating]
    if topics:
        task = begin(_create_there(broker, topics), "no topics created")
        broker.creating.update((topic.name, task) for topic in topics)


def _create_here(call: Call, names: Iterable[str]) -> None:
    broker = call.broker
    draft = broker.metadata.draft
    topics = [new_topic(name, broker.config.number) for name in names if name not in draft.topics]
    try:
        result = create_topics(draft, topics, topic_context(call, strict_since=0))
    except Refused as refused:
        logger.warning("no topics created: %s", refused.error.message)
        return
    for each in result.response:
        if each.error.message is not None:
            _log_refusal(broker, each.name, each.error.message)
    if result.records:
        broker.metadata.append(result.records).add_done_callback(lambda done: done.exception())


async def _create_there(broker: Broker, topics: Sequence[NewTopic]) -> None:
    """The active controller does it. Nobody else asks for the same meanwhile."""
    timeout_ms = broker.config.number("request.timeout.ms")
    try:
        answer = await broker.controller.call(
            "create_topics",
            timeout_s=timeout_ms / 1000,
            topics=[
                {
                    "name": each.name,
                    "num_partitions": each.num_partitions,
                    "replication_factor": each.replication_factor,
                    "assignments": [],
                    "configs": [{"name": name, "value": value} for name, value in each.configs],
                }
                for each in topics
            ],
            timeout=timeout_ms,
            validate_only=False,
        )
    except Unanswered as error:
        logger.warning("no topics created: %s", error)
        return
    finally:
        for each in topics:
            broker.creating.pop(each.name, None)
    for each in answer.topics:
        if each.error_code is not ErrorCode.none and each.error_code is not ErrorCode.topic_already_exists:
            _log_refusal(broker, each.name, each.error_message or each.error_code.name)


def _log_refusal(broker: Broker, name: str | None, reason: str) -> None:
    _log_problem(broker, f"topic {name} not created: {reason}")


def _log_problem(broker: Broker, problem: str) -> None:
    """Once, as long as it is the same: clients ask again and again."""
    if problem != broker.topic_problem:
        logger.warning("%s", problem)
    broker.topic_problem = problem
