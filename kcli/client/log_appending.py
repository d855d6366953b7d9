"""Appends whole batches to the logs of partitions, at their leaders: Produce with acks=all.

A request that fails is repeated. Batches without a producer id may then be in the log twice; a leader recognizes
repeated batches of a producer by their sequences. A batch that is too large for its topic is cut: both halves have
the sequences that their records had. Source: ProduceRequest.json; KIP-98, KIP-126 (batches that are too large), KIP-467
(why a batch was refused).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from formats.record_batch import RecordBatch, build_batch, parse_batch
from kcli.client.leaders import PASSING, Leaderless, Leaders, NoLeader
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
MAX_BYTES: Final = (1 << 31) - 1
RETRIED = PASSING | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.NETWORK_EXCEPTION,
}
"""Errors after which a batch is sent again."""
TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class LogAppender(Leaders):
    """Appends batches to partitions; a context manager, which closes the connections.

    refused_bytes: the size of the smallest batch that was too large, and was cut; None if none was.
    """

    def __init__(self, brokers: AnyBroker, transactional_id: str | None = None) -> None:
        """transactional_id: the transactional id of the transaction to which all batches belong; None for batches
        without a transaction."""
        super().__init__(brokers, ())
        self.refused_bytes: int | None = None
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
        """Append one batch to each of these partitions. Return their base offsets when all are committed: of a batch
        that was cut, that of its last part; -1 for a batch that was there already. Raises ErrorAnswer, NobodyAnswers,
        KcliError if a leader does not answer for as long as a failed request is repeated."""
        left = {each: [batch] for each, batch in batches.items()}
        offsets: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self.timeout_s
        while left:
            leaders = self.described().leaders
            by_leader: dict[int, list[TopicPartition]] = {}
            failure: KcliError | None = None
            for each in left:
                leader = leaders.get(each)
                if leader is None:
                    failure = Leaderless(each)
                else:
                    by_leader.setdefault(leader, []).append(each)
            for leader, of_leader in by_leader.items():
                try:
                    answers = self._produce(leader, {each: left[each][0] for each in of_leader})
                except NoLeader as error:
                    failure = error
                    continue
                for each, answer in answers.items():
                    code = ErrorCode(answer.error_code)
                    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        del left[each][0]
                        if not left[each]:
                            del left[each]
                        offsets[each] = answer.base_offset
                        continue
                    if code in TOO_LARGE and (halves := cut(left[each][0])):
                        self.refused_bytes = min(len(left[each][0]), self.refused_bytes or MAX_BYTES)
                        left[each][:1] = halves
                        continue
                    text = answer.error_message
                    if code == ErrorCode.MESSAGE_TOO_LARGE:
                        size = len(left[each][0])
                        step = f"kcli topics alter {each.topic} --config max.message.bytes={size}"
                        text = f"one record makes a batch of {size:,} bytes; after {step} the topic takes it"
                    failure = ErrorAnswer(str(each), code, text)
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


def cut(batch: bytes) -> list[bytes]:
    """Return the two batches with the halves of a batch's records; [] for a batch with fewer than two records. Raises
    FormatError."""
    whole = parse_batch(batch)
    middle = len(whole.records) // 2
    if not middle:
        return []
    return [_part(whole, 0, middle), _part(whole, middle, len(whole.records))]


def _part(whole: RecordBatch, start: int, end: int) -> bytes:
    """Return a batch with the records from number `start` up to `end`, and with their sequences."""
    given = whole.header
    header = given._replace(
        base_offset=0,
        last_offset_delta=end - start - 1,
        base_sequence=given.base_sequence + start if given.base_sequence >= 0 else given.base_sequence,
        max_timestamp=given.base_timestamp + max(each.timestamp_delta for each in whole.records[start:end]),
    )
    records = (replace(each, offset_delta=each.offset_delta - start) for each in whole.records[start:end])
    return build_batch(RecordBatch(header, tuple(records)))


def _topics(partitions: Collection[TopicPartition]) -> list[str]:
    return sorted({each.topic for each in partitions})
