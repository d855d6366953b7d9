"""Appends whole batches to the logs of partitions, at their leaders: Produce with acks=all.

A request that fails is repeated. Batches without a producer id may then be in the log twice; a leader recognizes
repeated batches of a producer by their sequences. Source: ProduceRequest.json; KIP-98, KIP-467 (why a batch was
refused).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from kcli.client.leaders import PASSING, Leaders, NoLeader
from kcli.client.wire import AnyBroker, ErrorAnswer
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

# isort: split
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta

ACKS_ALL = i16(-1)
RETRIED = PASSING | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.NETWORK_EXCEPTION,
}
"""Errors after which a batch is sent again."""


class LogAppender(Leaders):
    """Appends batches to partitions; a context manager, which closes the connections."""

    def __init__(self, brokers: AnyBroker, transactional_id: str | None = None) -> None:
        """transactional_id: the transactional id of the transaction to which all batches belong; None for batches
        without a transaction."""
        super().__init__(brokers, ())
        self._transactional_id = None if transactional_id is None else TransactionalId(transactional_id)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic. Raises UsageError for a topic that does not exist, NobodyAnswers,
        ErrorAnswer."""
        if self._topics is None or topic not in self._topics:
            self._topics = {*(self._topics or ()), topic}
            self.describe_patiently()
        count = sum(each.topic == topic for each in self.described().leaders)
        if not count:
            raise UsageError(f"there is no topic {topic!r} to write to")
        return count

    def append(self, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, int]:
        """Append one batch to each of these partitions. Return their base offsets when all are committed; -1 for a
        batch that was there already. Raises ErrorAnswer, NobodyAnswers, KcliError if a leader does not answer for as
        long as a failed request is repeated."""
        left, offsets = dict(batches), dict[TopicPartition, int]()
        deadline = time.monotonic() + self.timeout_s
        while left:
            leaders = self.described().leaders
            by_leader: dict[int, list[TopicPartition]] = {}
            failure: KcliError | None = None
            for each in left:
                leader = leaders.get(each)
                if leader is None:
                    failure = KcliError(f"{each} has no leader")
                else:
                    by_leader.setdefault(leader, []).append(each)
            for leader, of_leader in by_leader.items():
                try:
                    answers = self._produce(leader, {each: left[each] for each in of_leader})
                except NoLeader as error:
                    failure = error
                    continue
                for each, answer in answers.items():
                    code = ErrorCode(answer.error_code)
                    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        del left[each]
                        offsets[each] = answer.base_offset
                        continue
                    failure = ErrorAnswer(str(each), code, answer.error_message)
                    if code not in RETRIED:
                        raise failure
            if left and failure is not None:
                self.look_again(deadline, failure)
        return offsets

    def _produce(self, leader: int, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, Any]:
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ACKS_ALL,
            timeout=i32Timedelta.parse(timedelta(seconds=self.timeout_s)),
            topic_data=tuple(
                TopicProduceData(
                    name=TopicName(topic),
                    partition_data=tuple(
                        PartitionProduceData(index=i32(each.partition), records=Records(batches[each]))
                        for each in batches
                        if each.topic == topic
                    ),
                )
                for topic in _topics(batches)
            ),
        )
        answer = self.call(leader, request, ProduceResponse)
        return {
            TopicPartition(topic.name, each.index): each
            for topic in answer.responses
            for each in topic.partition_responses
        }


def _topics(partitions: Collection[TopicPartition]) -> list[str]:
    return sorted({each.topic for each in partitions})
