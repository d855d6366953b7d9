"""Automatic creation of topics, and the code that the handlers of CreateTopics, DeleteTopics and CreatePartitions
share.

A Metadata or FindCoordinator request may need a topic that does not exist: this broker creates the topic if it is the
active controller, else it sends CreateTopics to the active controller. The request does not wait for the creation, and
errors are only logged.
Source: AutoTopicCreationManager, ControllerMutationQuota; KIP-599.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.network.peers import Unanswered
from kcli.broker.process.unattended import begin
from kcli.metadata.internal_topics import new_topic
from kcli.metadata.result import Refused
from kcli.metadata.topic_control import NewTopic, TopicContext, create_topics
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from kcli.broker.config import BrokerConfig
    from kcli.broker.metadata.log import MetadataLog
    from kcli.broker.network.peers import Peer
    from kcli.broker.quotas.client import Quotas
    from kcli.broker.wire.call import Call
    from kcli.broker.wire.types.create_topics import CreateTopicsResponse

logger = logging.getLogger("kcli.broker")


@dataclass(slots=True)
class MutationCharge:
    """Counts created and deleted partitions against the client's controller_mutation_rate, and throttles the client's
    request.

    strict: whether partitions beyond the quota are refused (KIP-599).
    """

    quotas: Quotas
    call: Call
    strict: bool

    def __call__(self, partitions: int) -> bool:
        """Count `partitions` created or deleted partitions. Return False if they are refused."""
        throttle_ms = self.quotas.mutation_throttle_ms(self.call, partitions, is_strict=self.strict)
        self.call.throttle_ms = max(self.call.throttle_ms, throttle_ms)
        return not (throttle_ms and self.strict)


class TopicCreation:
    """Creates topics for the clients of one node. controller: the channel to the active controller."""

    def __init__(self, config: BrokerConfig, metadata: MetadataLog, quotas: Quotas, controller: Peer) -> None:
        self._config, self._metadata = config, metadata
        self._quotas, self._controller = quotas, controller
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._last_problem = ""

    def context(self, call: Call, strict_since: int) -> TopicContext:
        """Return the TopicContext for the functions of kcli.metadata that change topics. strict_since: the first
        version of the request for which partitions beyond the client's quota are refused."""
        config = self._config
        return TopicContext(
            num_partitions=config.num_partitions,
            replication_factor=config.default_replication_factor,
            broker_properties=config.properties,
            remote_storage=config.remote_log_storage_system_enable,
            schemas=config.has_registry,
            deletion_enabled=config.delete_topic_enable,
            charge=MutationCharge(self._quotas, call, strict=call.version >= strict_since),
        )

    def create_missing(self, call: Call, names: Iterable[str]) -> None:
        """Begin to create missing topics that a request needs, including Kafka's internal topics. Errors are only
        logged. No topic is created for a request above Kafka's limits (`call.refusal` has the reason)."""
        if call.refusal is not None:
            self._warn(f"no topics created: {call.refusal}")
            return
        if self._metadata.is_leader:
            self._create_here(call, names)
            return
        topics = [new_topic(name, self._config.number) for name in names if name not in self._creating]
        if topics:
            task = begin(self._create_there(topics), "no topics created")
            self._creating.update((topic.name, task) for topic in topics)

    def _create_here(self, call: Call, names: Iterable[str]) -> None:
        draft = self._metadata.draft
        topics = [new_topic(name, self._config.number) for name in names if name not in draft.topics]
        try:
            result = create_topics(draft, topics, self.context(call, strict_since=0))
        except Refused as refused:
            logger.warning("no topics created: %s", refused.error.message)
            return
        for each in result.response:
            if each.error.message is not None:
                self._warn(f"topic {each.name} not created: {each.error.message}")
        if result.records:
            self._metadata.append(result.records).add_done_callback(lambda done: done.exception())

    async def _create_there(self, topics: Sequence[NewTopic]) -> None:
        """Send CreateTopics to the active controller. Until there is a response, `_creating` keeps other requests from
        creating the same topics again."""
        timeout_ms = self._config.number("request.timeout.ms")
        try:
            answer: CreateTopicsResponse = await self._controller.call(
                "create_topics",
                None,
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
                self._creating.pop(each.name, None)
        for result in answer.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                reason = result.error_message or ErrorCode(result.error_code).name
                self._warn(f"topic {result.name} not created: {reason}")

    def _warn(self, problem: str) -> None:
        """Log a problem, but not the same one twice in a row, as clients repeat their requests."""
        if problem != self._last_problem:
            logger.warning("%s", problem)
        self._last_problem = problem
