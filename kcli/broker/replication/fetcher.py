"""One fetcher: it asks one leader for what this broker follows there, again and again, over a channel of its own.

    request   one for all partitions; the leader holds it back until there is something (replica.fetch.wait.max.ms)
    answer    batches are appended as they are, all of a partition in one write; high watermark and log start follow
    diverged  the log is cut where it left the leader's, then fetched on
    out of range   the leader was cut behind this log, or begins behind its end: it is asked where it ends and begins
    errors    a partition waits longer each time; without an answer all of them do

    error of a partition                       then
    FENCED_LEADER_EPOCH                        it waits for the metadata: this broker is behind
    UNKNOWN_LEADER_EPOCH, NOT_LEADER_...,      it waits a moment: the leader is behind
    UNKNOWN_TOPIC_...
    what cannot be appended                    it waits: the bytes may be sound the next time
    an I/O error here                          its log directory is offline

Source: ReplicaFetcherThread, AbstractFetcherThread, RemoteLeaderEndPoint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcli.broker.network.messages import Entity, ErrorCode
from kcli.broker.network.peers import Channel, Network, Unanswered
from kcli.broker.replication.following import UNKNOWN, FetchPlan, Followed, Key, Request, truncation
from kcli.broker.unattended import begin
from kcli.errors import KcliError
from kcli.log.partition_log import EARLIEST, LATEST, LogFailed, PartitionLog, UnexpectedOffsets
from kcli.log.validator import AppendRefused

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

log = logging.getLogger("kcli.broker")

VERSION = 17
LIST_OFFSETS_VERSION = 9
EAGER_WAIT_MS, EAGER_FETCHES = 30, 8
FIRST_BACKOFF_S = 0.02


class NotToldError(KcliError):
    """The leader does not say where its log ends or begins."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Fetcher:
    """See above. address: where the leader is now, None where nobody knows."""

    def __init__(
        self, broker: Broker, network: Network, leader_id: int, number: int, held: Callable[[Followed], bool]
    ) -> None:
        self._broker = broker
        self._network = network
        self.leader_id = leader_id
        self._client_id = f"broker-{broker.node_id}-fetcher-{number}"
        config = broker.config
        self.plan = FetchPlan(config.number("replica.fetch.backoff.ms"), held)
        self._wait_ms: int = config.number("replica.fetch.wait.max.ms")
        self._timeout_s: float = config.number("replica.socket.timeout.ms") / 1000
        self._max_bytes: int = config.number("replica.fetch.max.bytes")
        self._common = {
            "min_bytes": config.number("replica.fetch.min.bytes"),
            "max_bytes": config.number("replica.fetch.response.max.bytes"),
        }
        self._eager = 0
        self._asked_ms = 0  # when an answer that has to wait would come, less what it waits at most
        self._channel: Channel | None = None
        self._address: tuple[str, int] | None = None
        self._woken: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, followed: Followed) -> None:
        """Begin with a partition, or begin again in another epoch."""
        self.plan.add(followed)
        self._eager = EAGER_FETCHES
        self._wake()

    def forget(self, key: Key) -> None:
        """No more of that partition. With the last one the fetcher ends."""
        self.plan.remove(key)
        if not self.plan.partitions:
            self.close()

    @property
    def is_idle(self) -> bool:
        """Is there nothing left to follow?"""
        return not self.plan.partitions

    def close(self) -> None:
        """No more at all."""
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
        """It goes on with the next partition that is to be followed."""
        self._task = None

    async def _sleep(self, seconds: float | None) -> None:
        """Until something is added, or the time is over."""
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
            if (
                self._broker.replicas.broker_epoch < 0
            ):  # not registered: a leader could not tell it from an earlier life
                await self._sleep(FIRST_BACKOFF_S)
                continue
            try:
                now_ms = self._broker.clock.now_ms()
                request = self.plan.request(now_ms)
                if request is None:
                    due_ms = self.plan.next_due_ms()
                    await self._sleep(None if due_ms is None else max(due_ms - now_ms, 1) / 1000)
                    continue
                await self._take(await self._ask(request))
            except Unanswered as error:
                log.debug("%s: no answer of broker %d: %s", self._client_id, self.leader_id, error)
                self.plan.lost()
                await self._sleep(min(FIRST_BACKOFF_S * 2**failures, self.plan.delay_max_ms / 1000))
                failures = min(failures + 1, 10)
            except Exception:  # a bug in one request or answer leaves replication going
                log.exception("%s: an answer of broker %d was not taken", self._client_id, self.leader_id)
                self.plan.lost()
                await self._sleep(self.plan.delay_max_ms / 1000)
            else:
                failures = 0

    # asking

    def _reach(self) -> Channel:
        """The channel to where the leader is now. Raises Unanswered."""
        leader = self._broker.image.brokers.get(self.leader_id)
        endpoint = None if leader is None else leader.endpoints.get(self._broker.config.inter_broker_listener)
        if endpoint is None:
            raise Unanswered(f"nobody knows where broker {self.leader_id} is")
        address = endpoint.host, endpoint.port
        if self._channel is None or self._address != address:
            self._disconnect()
            self._channel, self._address = self._network.channel(*address, self._client_id), address
        return self._channel

    async def _ask(self, request: Request) -> Entity:
        """Raises Unanswered."""
        channel = self._reach()
        wait_ms = self._wait_ms
        if self._eager:  # the leader may be about to lead more that it is to be asked for
            self._eager -= 1
            wait_ms = min(wait_ms, EAGER_WAIT_MS)
        self._asked_ms = self._broker.clock.now_ms() - self._wait_ms + wait_ms
        topics = [
            {"topic_id": topic_id, "partitions": [self._said(*each) for each in wishes]}
            for topic_id, wishes in request.wishes.items()
        ]
        forgotten = [{"topic_id": topic_id, "partitions": each} for topic_id, each in request.forgotten.items()]
        return await channel.call(
            "fetch",
            VERSION,
            timeout_s=self._timeout_s,
            replica_state={"replica_id": self._broker.node_id, "replica_epoch": self._broker.replicas.broker_epoch},
            max_wait=wait_ms,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            **self._common,
        )

    def _said(self, number: int, wish: Any) -> dict[str, Any]:
        return {
            "partition": number,
            "current_leader_epoch": wish.leader_epoch,
            "fetch_offset": wish.offset,
            "last_fetched_epoch": wish.last_epoch,
            "log_start_offset": wish.log_start,
            "partition_max_bytes": self._max_bytes,
        }

    # what comes back

    async def _take(self, response: Entity) -> None:
        if not self.plan.answered(response.error_code, response.session_id):
            log.debug("%s: %s of broker %d", self._client_id, response.error_code.name, self.leader_id)
            return
        beyond: list[Followed] = []
        now_ms = self._broker.clock.now_ms()
        if not response.responses and now_ms < self._asked_ms + self._wait_ms // 2:
            self._eager = max(self._eager, EAGER_FETCHES)  # the leader begins to lead more
        for topic in response.responses:
            for data in topic.partitions:
                followed = self.plan.partitions.get((topic.topic_id, data.partition_index))
                if followed is None or not self.plan.is_current(followed):
                    continue
                if data.error_code is ErrorCode.none:
                    self._take_partition(followed, data, now_ms)
                elif data.error_code is ErrorCode.offset_out_of_range:
                    beyond.append(followed)
                else:
                    self._refused(followed, data.error_code, now_ms)
        for followed in beyond:
            await self._find_place(followed)

    def _take_partition(self, followed: Followed, data: Entity, now_ms: int) -> None:
        partition = followed.partition
        self._broker.replicas.follower_throttle.sent(partition, len(data.records or b""))
        try:
            if data.diverging_epoch.end_offset != UNKNOWN:
                self._cut(followed, data.diverging_epoch, now_ms)
                return
            self._append(followed, data, now_ms)
        except (AppendRefused, UnexpectedOffsets) as error:
            log.error("%s at offset %d from broker %d: %s", partition, followed.offset, self.leader_id, error)  # noqa: TRY400
            self.plan.delay(followed, now_ms)
        except (OSError, LogFailed) as error:
            self._failed(followed, error)

    def _failed(self, followed: Followed, error: Exception) -> None:
        """Its log could not be written; where its directory is in use all the same, it is tried again."""
        followed.partition.failed(error)
        if followed.partition.is_offline:
            self.plan.remove(followed.key)
        else:
            self.plan.delay(followed, self._broker.clock.now_ms())

    def _append(self, followed: Followed, data: Entity, now_ms: int) -> None:
        partition = followed.partition
        opened = partition.log
        try:
            partition.append_as_follower(data.records, data.high_watermark, data.log_start_offset, now_ms)
        except UnexpectedOffsets as error:
            if opened.log_start_offset != opened.log_end_offset or error.first_offset >= opened.log_end_offset:
                raise
            # the leader's log begins within a batch: so must this one, to have the batch
            partition.truncate_fully_and_start_at(error.first_offset, now_ms)
            partition.append_as_follower(data.records, data.high_watermark, data.log_start_offset, now_ms)
        self._moved(followed, opened)

    def _moved(self, followed: Followed, opened: PartitionLog) -> None:
        latest = opened.latest_epoch
        self.plan.moved(followed, opened.log_end_offset, UNKNOWN if latest is None else latest, opened.log_start_offset)

    def _cut(self, followed: Followed, diverging: Any, now_ms: int) -> None:
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
        if code is ErrorCode.fenced_leader_epoch:
            self.plan.remove(followed.key)
        else:
            self.plan.delay(followed, now_ms)

    async def _find_place(self, followed: Followed) -> None:
        """The leader's log does not have the offset: it ends before, or begins behind."""
        try:
            end = await self._offset(followed, LATEST)
            start = await self._offset(followed, EARLIEST)
        except (Unanswered, NotToldError) as error:
            if self.plan.partitions.get(followed.key) is followed:
                code = error.code if isinstance(error, NotToldError) else ErrorCode.unknown_server_error
                self._refused(followed, code, self._broker.clock.now_ms())
            return
        if not self.plan.is_current(followed):
            return
        partition, now_ms = followed.partition, self._broker.clock.now_ms()
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

    async def _offset(self, followed: Followed, timestamp: int) -> int:
        """Raises Unanswered, NotToldError."""
        asked = {
            "partition_index": followed.partition.number,
            "current_leader_epoch": followed.leader_epoch,
            "timestamp": timestamp,
        }
        response = await self._reach().call(
            "list_offsets",
            LIST_OFFSETS_VERSION,
            timeout_s=self._timeout_s,
            replica_id=self._broker.node_id,
            isolation_level=0,
            topics=[{"name": followed.partition.topic, "partitions": [asked]}],
        )
        found = response.topics[0].partitions[0]
        if found.error_code is not ErrorCode.none:
            raise NotToldError(found.error_code)
        offset: int = found.offset
        return offset


def _end(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
