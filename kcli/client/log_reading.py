"""Reads the logs of a cluster's partitions from their leaders, batch by batch: ListOffsets, Fetch.

Batches are returned as they are in the log, aborted and control batches included: up to the high watermark, or with
`committed` up to the last stable offset, together with a list of the aborted transactions among them. Source:
FetchRequest.json, ListOffsetsRequest.json; KIP-74 (the first batch is whole, however large it is), KIP-98 (aborted
transactions).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from kcli.client.leaders import PASSING, Leaders, NoLeader
from kcli.client.wire import ErrorAnswer, NoAnswer
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

# isort: split
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

EARLIEST, LATEST = -2, -1
"""Timestamps of ListOffsets: the log start offset, in the tier, too; the high watermark."""
MAX_WAIT_S = 0.5


class OffsetOutOfRange(ErrorAnswer):
    """The log begins above the offset, or ends below it."""


class Fetched(NamedTuple):
    """A leader's response to a Fetch of one partition. records: batches, from the one that has the offset on; the first
    is whole, the last may be cut off; b"" if the log has no batch there yet. aborted: the producer id and the first
    offset of each aborted transaction that may be among them, () if the Fetch did not ask for them. end: the offset up
    to which this leader lets a consumer read: the high watermark, or the last stable offset."""

    records: bytes
    aborted: tuple[tuple[int, int], ...]
    end: int


class LogReader(Leaders):
    """Reads logs from the leaders of partitions; a context manager, which closes the connections."""

    def offsets(
        self, partitions: Collection[TopicPartition], timestamp: int, *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the log start offset (timestamp EARLIEST) or the high watermark (LATEST; with `committed` the last
        stable offset) of each partition; a partition that is deleted or has no leader is left out. Raises
        NobodyAnswers, ErrorAnswer."""
        return self.offsets_at(dict.fromkeys(partitions, timestamp), committed=committed)

    def offsets_at(
        self, timestamps: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition with this timestamp (epoch ms) or a later one, -1 if
        there is none; or what `offsets` returns for the timestamps EARLIEST and LATEST. A partition that is deleted or
        has no leader is left out. Raises NobodyAnswers, ErrorAnswer."""
        found: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self.timeout_s
        left = set(timestamps)
        while left:
            described = self.described()
            left &= {each for each in left if described.leaders.get(each) is not None}
            by_leader: dict[int, list[TopicPartition]] = {}
            for each in sorted(left):
                leader = described.leaders[each]
                assert leader is not None, "the others are left out"
                by_leader.setdefault(leader, []).append(each)
            failure: KcliError | None = None
            for leader, of_leader in by_leader.items():
                try:
                    answers = self._list(leader, [(each, timestamps[each]) for each in of_leader], committed=committed)
                except NoLeader as error:
                    failure = error
                    continue
                for partition, (code, offset) in answers.items():
                    if code == ErrorCode.NONE:
                        found[partition] = offset
                        left.discard(partition)
                    elif code in PASSING:
                        failure = ErrorAnswer(str(partition), code, None)
                    else:
                        raise ErrorAnswer(str(partition), code, None)
            if left and failure is not None:
                self.look_again(deadline, failure)
        return found

    def fetch(self, partition: TopicPartition, offset: int, max_bytes: int) -> bytes | None:
        """Return the batches that `fetch_from` returns, including aborted ones. Raises as `fetch_from`."""
        fetched = self.fetch_from(partition, offset, max_bytes)
        return None if fetched is None else fetched.records

    def fetch_from(
        self, partition: TopicPartition, offset: int, max_bytes: int, *, committed: bool = False
    ) -> Fetched | None:
        """Return the batches of a partition from the one with `offset` on; None if the partition is deleted or has no
        leader. max_bytes: the approximate size of the batches. committed: return only batches below the last stable
        offset, with a list of their aborted transactions. Raises OffsetOutOfRange, NobodyAnswers, ErrorAnswer."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            described = self.described()
            leader = described.leaders.get(partition)
            if leader is None:
                return None
            failure: KcliError
            try:
                found = self._fetch(leader, partition, offset, max_bytes, committed=committed)
            except NoLeader as error:
                failure = error
            else:
                if found.error_code == ErrorCode.NONE:
                    aborted = tuple((each.producer_id, each.first_offset) for each in found.aborted_transactions or ())
                    end = found.last_stable_offset if committed else found.high_watermark
                    return Fetched(found.records or b"", aborted, end)
                if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise OffsetOutOfRange(f"{partition} at offset {offset:,}", found.error_code, None)
                failure = ErrorAnswer(str(partition), found.error_code, None)
                if found.error_code not in PASSING:
                    raise failure
            self.look_again(deadline, failure)

    def _list(
        self, leader: int, timestamps: Iterable[tuple[TopicPartition, int]], *, committed: bool
    ) -> dict[TopicPartition, tuple[ErrorCode, int]]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for (topic, number), timestamp in timestamps:
            of_topic = topics.setdefault(topic, [])
            of_topic.append(ListOffsetsPartition(partition_index=i32(number), timestamp=i64(timestamp)))
        request = ListOffsetsRequest(
            replica_id=BrokerId(-1),
            isolation_level=i8(committed),
            topics=tuple(
                ListOffsetsTopic(name=TopicName(name), partitions=tuple(each)) for name, each in topics.items()
            ),
        )
        answer = self.call(leader, request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): (ErrorCode(each.error_code), each.offset)
            for topic in answer.topics
            for each in topic.partitions
        }

    def _fetch(self, leader: int, partition: TopicPartition, offset: int, max_bytes: int, *, committed: bool) -> Any:
        asked = FetchPartition(
            partition=i32(partition.partition), fetch_offset=i64(offset), partition_max_bytes=i32(max_bytes)
        )
        request = FetchRequest(
            max_wait=i32Timedelta.parse(timedelta(seconds=MAX_WAIT_S)),
            min_bytes=i32(1),
            max_bytes=i32(max_bytes),
            isolation_level=i8(committed),
            topics=(FetchTopic(topic=TopicName(partition.topic), partitions=(asked,)),),
            forgotten_topics_data=(),
        )
        answer = self.call(leader, request, FetchResponse)
        if answer.error_code != ErrorCode.NONE:
            raise ErrorAnswer(str(partition), answer.error_code, None)
        for topic in answer.responses:
            for each in topic.partitions:
                if (topic.topic, each.partition_index) == partition:
                    return each
        raise NoLeader(str(partition), NoAnswer("the response lacks the partition"))
