"""Reads and appends at the leaders of `__remote_log_metadata`: in this broker's logs, or as a client of other brokers.

    led here          committed batches are read from the log; an append waits until its record is committed
    led elsewhere     Fetch without a session, and Produce with acks=all, to the leader's inter-broker listener, each on
                      a channel of its own; there the principal of this broker needs READ, WRITE and DESCRIBE for the
                      topic, as the clients of Kafka's metadata manager do
    end of the        led here: the high watermark, once it has reached the start of the leader epoch; elsewhere: the
    partition         answer to ListOffsets

Source: ConsumerTask, ProducerManager; KIP-207 for the end of a new leader.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.batch_writer import write_batch
from kcli.broker.coordinators.other_brokers import OtherBrokers
from kcli.broker.network.peers import Channel, Unanswered
from kcli.errors import KcliError
from kcli.log.live.partition_log import EARLIEST, LATEST, LogFailed, OffsetOutOfRange
from kcli.log.live.validator import AppendRefused
from kcli.protocol.error_code import ErrorCode
from kcli.tier.metadata import TOPIC

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.coordinators.context import CoordinatorContext
    from kcli.broker.partition.partitions import Partition
    from kcli.broker.wire.fetch_response import FetchResponse
    from kcli.broker.wire.types.list_offsets import ListOffsetsResponse
    from kcli.broker.wire.types.produce import ProduceResponse
    from kcli.metadata.partition import Topic

READ_BYTES: Final = 1 << 20
FETCH_BYTES_MAX: Final = 8 << 20
FETCH_WAIT_MS: Final = 500
FETCH_VERSION: Final = 13
LIST_OFFSETS_VERSION: Final = 6
PRODUCE_VERSION: Final = 9
NO_LEADER: Final = -1
AGAIN: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
)
"""Errors after which a request is sent again, to the broker that leads the partition by then."""


class LeaderRefused(KcliError):
    """The leader refuses a read or an append, or the partition has no leader. again: whether a later attempt may
    succeed."""

    def __init__(self, reason: str, *, again: bool = True) -> None:
        super().__init__(reason)
        self.again = again


class Read(NamedTuple):
    """The result of reading a partition of the topic. number: the partition's. code: the leader's error code. records:
    batches from the requested offset on, the last one perhaps incomplete; empty if there are none."""

    number: int
    code: ErrorCode
    records: bytes | memoryview

    @property
    def is_beyond(self) -> bool:
        """Whether the requested offset is not within the leader's log."""
        return self.code == ErrorCode.OFFSET_OUT_OF_RANGE


class MetadataLeaders:
    """Reads and appends at the leaders of the partitions of `__remote_log_metadata`."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        prefix = f"{TOPIC}_client_{context.node_id}"
        self._consumer = OtherBrokers(context, f"{prefix}_consumer")
        self._producer = OtherBrokers(context, f"{prefix}_producer")

    @property
    def topic(self) -> Topic | None:
        """The topic `__remote_log_metadata`; None while it does not exist."""
        return self._context.image.topics.get(TOPIC)

    def leader_of(self, number: int) -> int:
        """Return the broker id of a partition's leader; -1 if there is none."""
        topic = self.topic
        state = None if topic is None else topic.partitions.get(number)
        return NO_LEADER if state is None else state.leader

    def here(self, number: int) -> Partition | None:
        """Return that partition of the topic if this broker leads it and can read its log; otherwise None."""
        partition = self._context.partitions.get(TOPIC, number)
        return partition if partition is not None and partition.check_leader_epoch() is None else None

    # reading a partition that this broker leads

    async def read_here(self, partition: Partition, offset: int) -> Read:
        """Read committed batches of a partition that this broker leads. Raises LeaderRefused."""
        number = partition.number
        try:
            opened = await partition.open_in_thread()
            found = opened.read(offset, READ_BYTES).region
            if found is None:
                return Read(number, ErrorCode.NONE, b"")
            data = await asyncio.to_thread(os.pread, found.fd, found.length, found.position)
        except OffsetOutOfRange:
            return Read(number, ErrorCode.OFFSET_OUT_OF_RANGE, b"")
        except LogFailed as error:
            raise LeaderRefused(str(error)) from error
        except OSError as error:
            partition.failed(error)
            raise LeaderRefused(f"{partition}: {error.strerror}") from error
        return Read(number, ErrorCode.NONE, data)

    async def bounds_here(self, partition: Partition) -> tuple[int, int | None]:
        """Return the log start offset and the high watermark; None in place of a high watermark below the start of the
        leader epoch, as records above it may be committed. Raises LeaderRefused."""
        try:
            opened = await partition.open_in_thread()
        except LogFailed as error:
            raise LeaderRefused(str(error)) from error
        begun = partition.epoch_start_offset
        is_known = begun is not None and opened.high_watermark >= begun
        return opened.log_start_offset, opened.high_watermark if is_known else None

    # reading there

    async def read_there(self, node_id: int, offsets: Mapping[int, int]) -> list[Read]:
        """Read partitions by a Fetch to the broker that leads them, which waits for up to FETCH_WAIT_MS if there are no
        records. offsets: partition number -> the offset to read from. Raises Unanswered, LeaderRefused."""
        partitions = [
            {"partition": number, "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1,
             "log_start_offset": -1, "partition_max_bytes": READ_BYTES}
            for number, offset in offsets.items()
        ]  # fmt: skip
        response: FetchResponse = await self._channel(self._consumer, node_id).call(
            "fetch",
            FETCH_VERSION,
            timeout_s=self._timeout_s + FETCH_WAIT_MS / 1000,
            replica_id=-1,
            max_wait=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic_id": self._topic_id, "partitions": partitions}],
            forgotten_topics_data=[],
            rack_id="",
        )
        if response.error_code != ErrorCode.NONE:
            raise LeaderRefused(f"broker {node_id}: Fetch: {response.error_code.name}")
        return [
            Read(each.partition_index, each.error_code, each.records or b"")
            for topic in response.responses
            for each in topic.partitions
        ]

    async def starts_there(self, node_id: int, numbers: Iterable[int]) -> dict[int, int]:
        """Return the log start offsets of partitions by ListOffsets to the broker that leads them; partitions for which
        it returns an error are left out. Raises Unanswered, LeaderRefused."""
        return await self._offsets(node_id, numbers, EARLIEST)

    async def ends_there(self, node_id: int, numbers: Iterable[int]) -> dict[int, int]:
        """Return the high watermarks of partitions by ListOffsets to the broker that leads them; partitions for which
        it returns an error are left out. Raises Unanswered, LeaderRefused."""
        return await self._offsets(node_id, numbers, LATEST)

    async def _offsets(self, node_id: int, numbers: Iterable[int], timestamp: int) -> dict[int, int]:
        partitions = [{"partition_index": each, "current_leader_epoch": -1, "timestamp": timestamp} for each in numbers]
        response: ListOffsetsResponse = await self._channel(self._consumer, node_id).call(
            "list_offsets",
            LIST_OFFSETS_VERSION,
            timeout_s=self._timeout_s,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": TOPIC, "partitions": partitions}],
        )
        return {
            each.partition_index: each.offset
            for topic in response.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }

    # appending

    async def append(self, number: int, value: bytes, until: float) -> int:
        """Append a record at the leader of partition `number`, without a retry, and wait until it is committed. Return
        its offset.

        until: when the wait ends, by the event loop's clock, if this broker is the leader. Raises LeaderRefused,
        Unanswered.
        """
        leader = self.leader_of(number)
        if leader == NO_LEADER:
            raise LeaderRefused(f"{TOPIC}-{number} has no leader")
        if leader == self._context.node_id:
            return await self._append_here(number, value, until)
        now_ms = self._context.clock.now_ms()
        return await self._append_there(leader, number, bytes(write_batch([(None, value)], now_ms)))

    async def _append_here(self, number: int, value: bytes, until: float) -> int:
        partition = self.here(number)
        if partition is None:
            raise LeaderRefused(f"{TOPIC}-{number} is not led here yet")
        now_ms = self._context.clock.now_ms()
        try:
            await partition.open_in_thread()
            if partition.lacks_replicas:
                raise LeaderRefused(f"{partition}: {ErrorCode.NOT_ENOUGH_REPLICAS.name}")
            appended = partition.append_as_leader(write_batch([(None, value)], now_ms), now_ms)
        except AppendRefused as refused:
            raise LeaderRefused(f"{partition}: {refused}", again=refused.error in AGAIN) from refused
        except (OSError, LogFailed) as failure:
            partition.failed(failure)
            raise LeaderRefused(f"{partition}: {failure}") from failure
        offset = appended.last_offset
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            code = await partition.wait_committed(offset + 1, min(self._timeout_s, max(until - loop.time(), 0)))
            if code in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
                return offset
            if code != ErrorCode.REQUEST_TIMED_OUT:
                raise LeaderRefused(f"{partition}: {code.name}")
        raise LeaderRefused(f"{partition}: {ErrorCode.REQUEST_TIMED_OUT.name}")

    async def _append_there(self, node_id: int, number: int, batch: bytes) -> int:
        data: Sequence[Mapping[str, Any]] = [{"index": number, "records": batch}]
        response: ProduceResponse = await self._channel(self._producer, node_id).call(
            "produce",
            PRODUCE_VERSION,
            timeout_s=self._timeout_s + 1,
            transactional_id=None,
            acks=-1,
            timeout=int(self._timeout_s * 1000),
            topic_data=[{"name": TOPIC, "partition_data": data}],
        )
        answer = response.responses[0].partition_responses[0]
        if answer.error_code != ErrorCode.NONE:
            code = ErrorCode(answer.error_code)
            raise LeaderRefused(f"{TOPIC}-{number} on broker {node_id}: {code.name}", again=code in AGAIN)
        return answer.base_offset

    # other brokers

    @property
    def _timeout_s(self) -> float:
        return self._context.config.number("request.timeout.ms") / 1000

    @property
    def _topic_id(self) -> UUID:
        topic = self.topic
        if topic is None:
            raise LeaderRefused(f"{TOPIC} does not exist")
        return topic.id

    def _channel(self, of: OtherBrokers, node_id: int) -> Channel:
        channel = of.channel(node_id)
        if channel is None:
            raise Unanswered(f"the address of broker {node_id} is unknown")
        return channel
