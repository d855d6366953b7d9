"""A fetcher sends Fetch after Fetch to one leader, over its own channel, for partitions that this broker follows.

    request   one Fetch for all partitions; the leader responds when it has records, or after replica.fetch.wait.max.ms
    response  batches are appended unchanged, all batches of a partition in one write; the high watermark and the log
              start offset follow the leader's
    diverging epoch   the log is truncated at the offset where it diverges from the leader's, and fetched from there on
    out of range      the offset is not within the leader's log: ListOffsets finds the leader's end and start
    moved to tier     the leader has the offset in tiered storage alone: the follower's log begins above the offsets
                      there, with leader epochs and producers that are read from tiered storage (tier_state.py). Other
                      partitions of this fetcher are fetched meanwhile
    errors    a partition is left out of Fetches for a time that grows with each error; after a Fetch without a
              response, all partitions are left out

    error of a partition                       reaction
    FENCED_LEADER_EPOCH                        wait for the metadata: this broker does not know the newer leader epoch
    UNKNOWN_LEADER_EPOCH, NOT_LEADER_...,      delay: the leader does not know the newer leader epoch yet
    UNKNOWN_TOPIC_...
    batches that cannot be appended            delay: the bytes may be sound the next time
    an I/O error of this broker                the log directory goes offline

Source: ReplicaFetcherThread, AbstractFetcherThread, RemoteLeaderEndPoint.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from kcli.broker.network.peers import Channel, Network, Unanswered
from kcli.broker.partition.truncation import truncation
from kcli.broker.process.unattended import begin, report
from kcli.broker.replication.following import UNKNOWN, FetchPlan, Followed, Request, Wish
from kcli.broker.replication.tier_state import NotInTier, Start, find_start
from kcli.broker.wire.fetch_response import EpochEndOffset, FetchResponse, PartitionData
from kcli.errors import KcliError
from kcli.log.live.partition_log import (
    EARLIEST,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LogFailed,
    PartitionLog,
    UnexpectedOffsets,
)
from kcli.log.live.validator import AppendRefused
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.partition.partitions import Partition
    from kcli.broker.replication.tier_state import TierStates
    from kcli.broker.wire.types.list_offsets import ListOffsetsResponse
    from kcli.broker.wire.types.offset_for_leader_epoch import OffsetForLeaderEpochResponse

log = logging.getLogger("kcli.broker")

VERSION = 17
LIST_OFFSETS_VERSION, PENDING_UPLOAD_VERSION, EPOCH_VERSION = 9, 11, 4
EAGER_WAIT_MS, EAGER_FETCHES = 30, 8
FIRST_BACKOFF_S = 0.02


class ListOffsetsFailed(KcliError):
    """ListOffsets or OffsetForLeaderEpoch has failed, so that an offset of the leader's log is unknown. code: the error
    code in the response."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetcherHost(Protocol):
    """The functions of the broker that a fetcher needs."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, -1 before the registration."""

    def now_ms(self) -> int:
        """Return the time in ms since 1970."""

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Return the host and port of that broker's inter-broker listener, None if the metadata has none."""

    def is_held(self, followed: Followed) -> bool:
        """Whether the replication quota forbids fetching the partition now."""

    def received(self, partition: Partition, size: int) -> None:
        """Count `size` bytes of records against the replication quota."""

    @property
    def tier(self) -> TierStates | None:
        """Reads the state of logs from tiered storage; None if this broker has no tiered storage."""


class Fetcher:
    """Fetches from one leader the partitions given to `follow`."""

    def __init__(self, config: BrokerConfig, network: Network, host: FetcherHost, leader_id: int, number: int) -> None:
        """number: the number of this fetcher among the num.replica.fetchers fetchers of that leader, from 0."""
        self._config, self._host = config, host
        self._network = network
        self.leader_id = leader_id
        self._node_id = config.node_id
        self._client_id = f"broker-{config.node_id}-fetcher-{number}"
        self.plan = FetchPlan(config.number("replica.fetch.backoff.ms"), host.is_held)
        self._wait_ms: int = config.number("replica.fetch.wait.max.ms")
        self._timeout_s: float = config.number("replica.socket.timeout.ms") / 1000
        self._max_bytes: int = config.number("replica.fetch.max.bytes")
        self._common = {
            "min_bytes": config.number("replica.fetch.min.bytes"),
            "max_bytes": config.number("replica.fetch.response.max.bytes"),
        }
        self._eager = 0
        # When the last Fetch was sent, in ms, minus the time by which its max_wait was shorter than _wait_ms: so its
        # max_wait is over at _fetched_ms + _wait_ms. `_take` sees by this whether the leader responded long before.
        self._fetched_ms = 0
        self._channel: Channel | None = None
        self._address: tuple[str, int] | None = None
        self._woken: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, followed: Followed) -> None:
        """Fetch a partition from now on, or continue to fetch it in another leader epoch."""
        self.plan.add(followed)
        self._eager = EAGER_FETCHES
        self._wake()

    def forget(self, key: TopicIdPartition) -> None:
        """Stop fetching a partition. After the last partition the fetcher closes."""
        self.plan.remove(key)
        if not self.plan.partitions:
            self.close()

    def close(self) -> None:
        """Stop fetching, and close the channel. A later `follow` starts the fetcher again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self._disconnect()
        self.plan.lost()

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _wake(self) -> None:
        if self._task is None:
            self._task = begin(self._run(), self._client_id, self._ended)
        elif self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _ended(self, _: BaseException) -> None:
        """Note that the task of `_run` has failed, so that the next `follow` starts a new task."""
        self._task = None

    async def _sleep(self, seconds: float | None) -> None:
        """Wait until `_wake` is called, as there is a partition to fetch, but no longer than `seconds`; None for no
        limit."""
        loop = asyncio.get_running_loop()
        woken = self._woken = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, _end, woken)
        try:
            await woken
        finally:
            if self._woken is woken:
                self._woken = None
            if timer is not None:
                timer.cancel()

    async def _run(self) -> None:
        failures = 0
        while True:
            if self._host.broker_epoch < 0:  # without a registration the Fetches would have no broker epoch
                await self._sleep(FIRST_BACKOFF_S)
                continue
            try:
                now_ms = self._host.now_ms()
                request = self.plan.request(now_ms)
                if request is None:
                    due_ms = self.plan.next_due_ms()
                    await self._sleep(None if due_ms is None else max(due_ms - now_ms, 1) / 1000)
                    continue
                await self._take(await self._fetch(request))
            except Unanswered as error:
                log.debug("%s: no answer of broker %d: %s", self._client_id, self.leader_id, error)
                self.plan.lost()
                await self._sleep(min(FIRST_BACKOFF_S * 2**failures, self.plan.delay_max_ms / 1000))
                failures = min(failures + 1, 10)
            except Exception:  # a bug that shows in one request or response must not end replication
                log.exception("%s: an answer of broker %d was not taken", self._client_id, self.leader_id)
                self.plan.lost()
                await self._sleep(self.plan.delay_max_ms / 1000)
            else:
                failures = 0

    # requests

    def _reach(self) -> Channel:
        """Return the channel to the leader's current address; a channel to an earlier address is closed. Raises
        Unanswered if the metadata has no address of the leader."""
        address = self._host.address_of(self.leader_id)
        if address is None:
            raise Unanswered(f"the address of broker {self.leader_id} is unknown")
        if self._channel is None or self._address != address:
            self._disconnect()
            self._channel, self._address = self._network.channel(*address, self._client_id), address
        return self._channel

    async def _fetch(self, request: Request) -> FetchResponse:
        """Send the Fetch, and return the response. Raises Unanswered."""
        channel = self._reach()
        wait_ms = self._wait_ms
        if self._eager:  # wait briefly, as the leader may soon lead more partitions that this broker follows
            self._eager -= 1
            wait_ms = min(wait_ms, EAGER_WAIT_MS)
        self._fetched_ms = self._host.now_ms() - self._wait_ms + wait_ms
        topics = [
            {"topic_id": topic_id, "partitions": [self._fields(*each) for each in wishes]}
            for topic_id, wishes in request.wishes.items()
        ]
        forgotten = [{"topic_id": topic_id, "partitions": each} for topic_id, each in request.forgotten.items()]
        response: FetchResponse = await channel.call(
            "fetch",
            VERSION,
            timeout_s=self._timeout_s,
            replica_state={"replica_id": self._node_id, "replica_epoch": self._host.broker_epoch},
            max_wait=wait_ms,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            **self._common,
        )
        return response

    def _fields(self, number: int, wish: Wish) -> dict[str, Any]:
        return {
            "partition": number,
            "current_leader_epoch": wish.leader_epoch,
            "fetch_offset": wish.offset,
            "last_fetched_epoch": wish.last_epoch,
            "log_start_offset": wish.log_start,
            "partition_max_bytes": self._max_bytes,
        }

    # responses

    async def _take(self, response: FetchResponse) -> None:
        if not self.plan.answered(response.error_code, response.session_id):
            log.debug("%s: %s of broker %d", self._client_id, response.error_code.name, self.leader_id)
            return
        beyond: list[Followed] = []
        now_ms = self._host.now_ms()
        if not response.responses and now_ms < self._fetched_ms + self._wait_ms // 2:
            # the leader responds early and without records when it begins to lead more of this broker's partitions
            self._eager = max(self._eager, EAGER_FETCHES)
        for topic in response.responses:
            if topic.topic_id is None:
                continue
            for data in topic.partitions:
                followed = self.plan.partitions.get((topic.topic_id, data.partition_index))
                if followed is None or not self.plan.is_current(followed):
                    continue
                if data.error_code == ErrorCode.NONE:
                    self._take_partition(followed, data, now_ms)
                elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    beyond.append(followed)
                elif data.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                    self._begin_behind_tier(followed)
                else:
                    self._refused(followed, data.error_code, now_ms)
        for followed in beyond:
            await self._find_place(followed)

    def _take_partition(self, followed: Followed, data: PartitionData, now_ms: int) -> None:
        partition = followed.partition
        self._host.received(partition, len(data.records or b""))
        try:
            if data.diverging_epoch.end_offset != UNKNOWN:
                self._cut(followed, data.diverging_epoch, now_ms)
                return
            self._append(followed, data, now_ms)
        except (AppendRefused, UnexpectedOffsets) as error:
            log.error("%s at offset %d from broker %d: %s", partition, followed.offset, self.leader_id, error)  # noqa: TRY400  (the message names the partition and the reason)
            self.plan.delay(followed, now_ms)
        except (OSError, LogFailed) as error:
            self._failed(followed, error)

    def _failed(self, followed: Followed, error: Exception) -> None:
        """Report a failed write to the log. The partition is fetched no longer if the failure has taken its log
        directory offline; otherwise it is fetched again after a delay."""
        followed.partition.failed(error)
        if followed.partition.is_offline:
            self.plan.remove(followed.key)
        else:
            self.plan.delay(followed, self._host.now_ms())

    def _append(self, followed: Followed, data: PartitionData, now_ms: int) -> None:
        partition = followed.partition
        opened = partition.log
        try:
            partition.append_as_follower(data.records, data.high_watermark, data.log_start_offset, now_ms)
        except UnexpectedOffsets as error:
            if opened.log_start_offset != opened.log_end_offset or error.first_offset >= opened.log_end_offset:
                raise
            # the leader's log start offset lies within a batch, so this log begins at the batch's base offset
            partition.truncate_fully_and_start_at(error.first_offset, now_ms)
            partition.append_as_follower(data.records, data.high_watermark, data.log_start_offset, now_ms)
        self._moved(followed, opened)

    def _moved(self, followed: Followed, opened: PartitionLog) -> None:
        latest = opened.latest_epoch
        self.plan.moved(followed, opened.log_end_offset, UNKNOWN if latest is None else latest, opened.log_start_offset)

    def _cut(self, followed: Followed, diverging: EpochEndOffset, now_ms: int) -> None:
        opened = followed.partition.log
        own = opened.offset_for_leader_epoch(diverging.epoch)
        offset = truncation((diverging.epoch, diverging.end_offset), own, opened.log_end_offset)
        if offset < opened.high_watermark:
            log.warning("%s is cut at %d, below high watermark %d", followed.partition, offset, opened.high_watermark)
        else:
            log.info("%s is cut at %d: its leader %d has another log", followed.partition, offset, self.leader_id)
        followed.partition.truncate_to(offset, now_ms)
        self._moved(followed, opened)

    def _refused(self, followed: Followed, code: ErrorCode, now_ms: int) -> None:
        log.debug("%s at offset %d: %s of broker %d", followed.partition, followed.offset, code.name, self.leader_id)
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            self.plan.remove(followed.key)
        else:
            self.plan.delay(followed, now_ms)

    async def _find_place(self, followed: Followed) -> None:
        """After OFFSET_OUT_OF_RANGE, compare this log with the leader's. If this log ends above the leader's log end
        offset, truncate it at that offset. If this log ends below the leader's log start offset, delete all of it, and
        let it begin at the leader's log start offset. Otherwise fetch from this log's end offset again. An empty log
        begins behind tiered storage instead if `_is_for_last_tiered`."""
        try:
            end, _ = await self._offset(followed, LATEST)
            if self._is_for_last_tiered(followed, end):
                self._begin_behind_tier(followed)
                return
            start, _ = await self._offset(followed, EARLIEST)
        except (Unanswered, ListOffsetsFailed) as error:
            if self.plan.partitions.get(followed.key) is followed:
                code = error.code if isinstance(error, ListOffsetsFailed) else ErrorCode.UNKNOWN_SERVER_ERROR
                self._refused(followed, code, self._host.now_ms())
            return
        if not self.plan.is_current(followed):
            return
        partition, now_ms = followed.partition, self._host.now_ms()
        try:
            opened = partition.log
            if end < opened.log_end_offset:
                log.warning("%s is cut at %d, where the log of its leader %d ends", partition, end, self.leader_id)
                partition.truncate_to(end, now_ms)
            elif start > opened.log_end_offset:
                log.warning("%s begins again at %d, as its leader %d does", partition, start, self.leader_id)
                partition.truncate_fully_and_start_at(start, now_ms)
            followed.sent = None
            self._moved(followed, opened)
        except (OSError, LogFailed) as error:
            self._failed(followed, error)

    def _is_for_last_tiered(self, followed: Followed, leader_end: int) -> bool:
        """Whether the follower's log is to begin above all offsets in tiered storage (KIP-1023): this is enabled, the
        topic is tiered, the follower's log is empty, and the leader's is not. leader_end: the leader's log end
        offset."""
        opened = followed.partition.log
        is_enabled = bool(self._config.get("follower.fetch.last.tiered.offset.enable"))
        return is_enabled and opened.is_tiered and opened.log_end_offset == 0 and leader_end != 0

    # beginning after tiered storage

    def _begin_behind_tier(self, followed: Followed) -> None:
        """Start a task that lets the partition's log begin above the offsets that the leader has in tiered storage
        alone. As the store may take long, the partition is left out of Fetches until the task ends."""
        self.plan.hold(followed)
        _ = begin(self._start_behind_tier(followed), f"{followed.partition}: it does not begin behind tiered storage")

    async def _start_behind_tier(self, followed: Followed) -> None:
        partition, code = followed.partition, ErrorCode.UNKNOWN_SERVER_ERROR
        start: Start | None = None
        try:
            end, _ = await self._offset(followed, LATEST)
            behind_last = self._is_for_last_tiered(followed, end)
            leader = _Leader(self, followed)
            start = await find_start(leader, self._host.tier, partition, behind_last_tiered=behind_last)
        except ListOffsetsFailed as error:
            code = error.code
        except Unanswered as error:
            log.debug("%s: no answer of broker %d: %s", self._client_id, self.leader_id, error)
        except NotInTier as error:
            log.info("%s", error)
        except Exception as error:  # noqa: BLE001  (whatever it is, the follower tries again)
            report(f"{partition} does not begin behind tiered storage yet", error)
        if not self.plan.release(followed):
            return
        if start is None:
            self._refused(followed, code, self._host.now_ms())
        else:
            self._begin_at(followed, start)
        self._wake()

    def _begin_at(self, followed: Followed, start: Start) -> None:
        partition, now_ms = followed.partition, self._host.now_ms()
        try:
            opened = partition.log
            if start.state is None:
                log.warning("%s begins again at %d, as its leader %d does", partition, start.log_start, self.leader_id)
                partition.truncate_fully_and_start_at(start.log_start, now_ms)
            else:
                offset, epochs, snapshot = start.state
                log.info("%s begins at %d, behind what is in tiered storage", partition, offset)
                partition.start_from_tier(offset, start.log_start, epochs, snapshot, now_ms)
            self._moved(followed, opened)
        except (OSError, LogFailed) as error:
            self._failed(followed, error)

    # other requests to the leader

    async def _offset(self, followed: Followed, timestamp: int) -> tuple[int, int]:
        """Ask the leader by ListOffsets for an offset of the partition's log. Return the offset and its leader epoch.
        timestamp: a special timestamp, such as EARLIEST for the log start offset, or LATEST for the log end offset.
        Raises Unanswered, ListOffsetsFailed."""
        partition = {
            "partition_index": followed.partition.number,
            "current_leader_epoch": followed.leader_epoch,
            "timestamp": timestamp,
        }
        version, more = LIST_OFFSETS_VERSION, {}
        if timestamp == EARLIEST_PENDING_UPLOAD:
            version, more = PENDING_UPLOAD_VERSION, {"timeout": round(self._timeout_s * 1000)}
        response: ListOffsetsResponse = await self._reach().call(
            "list_offsets",
            version,
            timeout_s=self._timeout_s,
            replica_id=self._node_id,
            isolation_level=0,
            topics=[{"name": followed.partition.topic, "partitions": [partition]}],
            **more,
        )
        found = response.topics[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            raise ListOffsetsFailed(ErrorCode(found.error_code))
        return found.offset, found.leader_epoch

    async def _end_of_epoch(self, followed: Followed, epoch: int) -> tuple[int, int]:
        """Ask the leader by OffsetForLeaderEpoch for its largest epoch that is not above `epoch`. Return that epoch and
        its end offset. Raises Unanswered, ListOffsetsFailed."""
        partition = {
            "partition": followed.partition.number,
            "current_leader_epoch": followed.leader_epoch,
            "leader_epoch": epoch,
        }
        response: OffsetForLeaderEpochResponse = await self._reach().call(
            "offset_for_leader_epoch",
            EPOCH_VERSION,
            timeout_s=self._timeout_s,
            replica_id=self._node_id,
            topics=[{"topic": followed.partition.topic, "partitions": [partition]}],
        )
        found = response.topics[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            raise ListOffsetsFailed(ErrorCode(found.error_code))
        return found.leader_epoch, found.end_offset


class _Leader:
    """Sends the requests of `find_start` to the leader of one partition."""

    def __init__(self, fetcher: Fetcher, followed: Followed) -> None:
        self._fetcher, self._followed = fetcher, followed

    async def offset(self, timestamp: int) -> tuple[int, int]:
        return await self._fetcher._offset(self._followed, timestamp)  # noqa: SLF001

    async def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        return await self._fetcher._end_of_epoch(self._followed, epoch)  # noqa: SLF001


def _end(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
