"""ISR changes on their way to the controller: one AlterPartition has all waiting changes, and one request is sent at a
time.

    AlterPartition v3   topics by id; the ISR with the broker epoch of each replica, so that a broker that has
                        registered again, perhaps without its log, does not join the ISR by its former state (KIP-903)

A request without response is sent again. If the controller has made the change already, the controller recognizes this
by the partition epoch in the repeated request.
Source: DefaultAlterPartitionManager; KIP-497, KIP-704.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.network.peers import Unanswered
from kcli.broker.partition.leadership import IsrChange
from kcli.broker.process.unattended import begin, report
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition

if TYPE_CHECKING:
    from kcli.broker.network.peers import Peer
    from kcli.broker.partition.partitions import Partition
    from kcli.broker.wire.types.alter_partition import AlterPartitionResponse, PartitionData

log = logging.getLogger("kcli.broker")

VERSION = 3
RETRY_S = 0.05
TIMEOUT_S = 30.0


class IsrChanges:
    """The ISR changes of the partitions that this broker leads. controller: the channel to the active controller.
    broker_epoch: returns the epoch of this broker's registration."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], controller: Peer) -> None:
        self._node_id, self._broker_epoch, self._controller = node_id, broker_epoch, controller
        self._waiting: dict[TopicIdPartition, tuple[Partition, IsrChange]] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def submit(self, partition: Partition, change: IsrChange) -> None:
        """Send a change, in one request with the other changes of the same iteration of the event loop."""
        self._waiting[partition.topic_id, partition.number] = partition, change
        if self._task is None and not self._is_stopped:
            self._task = begin(self._run(), "changes of in-sync replicas")

    def stop(self) -> None:
        """Send no more changes."""
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
                except Exception as error:  # noqa: BLE001  (else the changes would never be sent)
                    report("changes of in-sync replicas are sent again", error)
                    self._again(sent)
                    is_done = False
                if not is_done:
                    await asyncio.sleep(RETRY_S)
        finally:
            self._task = None

    async def _send(self, sent: dict[TopicIdPartition, tuple[Partition, IsrChange]]) -> bool:
        """Send the changes, and apply the response to their partitions. Put the changes that must be sent again back
        into the queue. Return True if no change must be sent again."""
        if not sent:
            return True
        try:
            response: AlterPartitionResponse | None = await self._controller.call(
                "alter_partition",
                VERSION,
                timeout_s=TIMEOUT_S,
                broker_id=self._node_id,
                broker_epoch=self._broker_epoch(),
                topics=_topics(sent),
            )
        except Unanswered as error:
            log.warning("changes of in-sync replicas were not sent to the controller: %s", error)
            response = None
        if response is None or response.error_code != ErrorCode.NONE:
            if response is not None:
                log.warning("changes of in-sync replicas were refused: %s", ErrorCode(response.error_code).name)
            self._again(sent)
            return False
        answered = {
            (topic.topic_id, each.partition_index): each for topic in response.topics for each in topic.partitions
        }
        left = {key: each for key, each in sent.items() if not self._take(*each, answered.get(key))}
        self._again(left)
        return not left

    def _again(self, sent: dict[TopicIdPartition, tuple[Partition, IsrChange]]) -> None:
        """Add these changes to the queue again, except those of partitions with a newer waiting change."""
        for key, each in sent.items():
            self._waiting.setdefault(key, each)

    def _take(self, partition: Partition, change: IsrChange, answer: PartitionData | None) -> bool:
        """Apply the controller's answer to a change: set the partition's ISR to the one in `answer` or, if the answer
        is an error, drop the change or keep it pending, as Leadership.refused says. Return False if the change is to be
        sent again. answer: None if the response does not name the partition; the change is then sent again if this
        broker still leads the partition."""
        leadership = partition.leadership
        if leadership is None or answer is None:
            return leadership is None
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            log.info("%s: in sync are %s, partition epoch %d", partition, list(answer.isr), answer.partition_epoch)
            partition.isr_altered(change, answer.leader_epoch, answer.partition_epoch, tuple(answer.isr))
            return True
        log.info("%s: in-sync replicas %s: %s", partition, list(change.ids), code.name)
        return not leadership.refused(change, code)


def _is_pending(partition: Partition, change: IsrChange) -> bool:
    return partition.leadership is not None and partition.leadership.pending is change


def _topics(sent: dict[TopicIdPartition, tuple[Partition, IsrChange]]) -> list[dict[str, Any]]:
    topics: dict[UUID, list[dict[str, Any]]] = {}
    for (topic_id, number), (_, change) in sent.items():
        partition = {
            "partition_index": number,
            "leader_epoch": change.leader_epoch,
            "new_isr_with_epochs": [{"broker_id": broker_id, "broker_epoch": epoch} for broker_id, epoch in change.isr],
            "leader_recovery_state": change.leader_recovery_state,
            "partition_epoch": change.partition_epoch,
        }
        topics.setdefault(topic_id, []).append(partition)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]
