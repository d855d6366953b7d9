"""Changes of in-sync replicas on their way to the controller: all that wait go in one request, one request at a time.

    AlterPartition v3   topics by id; the ISR with the epoch of each broker, so that a broker that has come back
                        meanwhile, and lost its log, is not taken for what it was (KIP-903)

An answer that does not come is asked for again: the controller knows a change that is already made by its partition
epoch. Source: DefaultAlterPartitionManager; KIP-497, KIP-704.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.network.messages import Entity, ErrorCode
from kcli.broker.network.peers import Unanswered
from kcli.broker.replication.leadership import IsrChange
from kcli.broker.unattended import begin, report

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.logs.partitions import Partition

log = logging.getLogger("kcli.broker")

VERSION = 3
RETRY_S = 0.05
TIMEOUT_S = 30.0
Key = tuple[UUID, int]


class IsrChanges:
    """See above."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: dict[Key, tuple[Partition, IsrChange]] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def submit(self, partition: Partition, change: IsrChange) -> None:
        """Ask for a change, with others that come in the same turn."""
        self._waiting[partition.topic_id, partition.number] = partition, change
        if self._task is None and not self._is_stopped:
            self._task = begin(self._run(), "changes of in-sync replicas")

    def stop(self) -> None:
        """Ask for nothing more."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)
            while self._waiting:
                sent, self._waiting = self._waiting, {}
                try:
                    is_done = await self._send({key: each for key, each in sent.items() if _is_pending(*each)})
                except Exception as error:  # noqa: BLE001  (else nobody would ask for them ever again)
                    report("changes of in-sync replicas are asked for again", error)
                    self._again(sent)
                    is_done = False
                if not is_done:
                    await asyncio.sleep(RETRY_S)
        finally:
            self._task = None

    async def _send(self, sent: dict[Key, tuple[Partition, IsrChange]]) -> bool:
        """Send, and take the answers; what is to be tried again waits again. Returns whether nothing is."""
        if not sent:
            return True
        try:
            response = await self._broker.controller.call(
                "alter_partition",
                VERSION,
                timeout_s=TIMEOUT_S,
                broker_id=self._broker.node_id,
                broker_epoch=self._broker.replicas.broker_epoch,
                topics=_topics(sent),
            )
        except Unanswered as error:
            log.warning("the controller was not told of changes of in-sync replicas: %s", error)
            response = None
        if response is None or response.error_code is not ErrorCode.none:
            if response is not None:
                log.warning("changes of in-sync replicas were refused: %s", response.error_code.name)
            self._again(sent)
            return False
        answered = {
            (topic.topic_id, each.partition_index): each for topic in response.topics for each in topic.partitions
        }
        left = {key: each for key, each in sent.items() if not self._take(*each, answered.get(key))}
        self._again(left)
        return not left

    def _again(self, sent: dict[Key, tuple[Partition, IsrChange]]) -> None:
        """Ask once more, unless something newer waits."""
        for key, each in sent.items():
            self._waiting.setdefault(key, each)

    def _take(self, partition: Partition, change: IsrChange, answer: Entity | None) -> bool:
        """Returns whether that was it."""
        leadership = partition.leadership
        if leadership is None or answer is None:
            return leadership is None
        if answer.error_code is ErrorCode.none:
            log.info("%s: in sync are %s, partition epoch %d", partition, list(answer.isr), answer.partition_epoch)
            partition.isr_altered(change, answer.leader_epoch, answer.partition_epoch, tuple(answer.isr))
            return True
        log.info("%s: in-sync replicas %s: %s", partition, list(change.ids), answer.error_code.name)
        return not leadership.refused(change, answer.error_code)


def _is_pending(partition: Partition, change: IsrChange) -> bool:
    return partition.leadership is not None and partition.leadership.pending is change


def _topics(sent: dict[Key, tuple[Partition, IsrChange]]) -> list[dict[str, Any]]:
    topics: dict[UUID, list[dict[str, Any]]] = {}
    for (topic_id, number), (_, change) in sent.items():
        told = {
            "partition_index": number,
            "leader_epoch": change.leader_epoch,
            "new_isr_with_epochs": [{"broker_id": broker_id, "broker_epoch": epoch} for broker_id, epoch in change.isr],
            "leader_recovery_state": change.leader_recovery_state,
            "partition_epoch": change.partition_epoch,
        }
        topics.setdefault(topic_id, []).append(told)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]
