"""The stores of a distributed worker: Connect's three topics. Statuses are written one after another in the background,
as nobody waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kcli.client.log_appending import TOO_LARGE
from kcli.client.wire import ErrorAnswer
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.plugins import Offset, Partition
from kcli.connect.topics.configs import ConfigState
from kcli.connect.topics.json_values import Record
from kcli.connect.topics.offsets import OffsetState, records_of
from kcli.connect.topics.statuses import StatusState
from kcli.connect.worker.leadership import Leadership
from kcli.connect.worker.settings import Settings
from kcli.connect.worker.stores import IsDue, OnConfig
from kcli.connect.worker.topic_log import NotWritten, TooLarge, TopicConfig, TopicLog
from kcli.errors import KcliError
from kcli.service.cluster import Cluster, clock_s
from kcli.service.fetched import Record as Stored

log = logging.getLogger("kcli.connect")
T = TypeVar("T")
WAIT_S: Final = 60.0
FLUSH_S: Final = 5.0
AGAIN_S: Final = 1.0
NOT_BY_LEADER: Final = (
    "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"
)
"""Kafka's words."""


class PendingStatus(NamedTuple):
    """A status to write; see Stores.write_status."""

    record: Record
    is_due: IsDue | None = None
    refreshes: bool = False


class KafkaStores:
    """Configurations, offsets and statuses in topics. ended: gets the reason when a topic can be read no more.
    unclaimed_s: since when this worker may not write what the leader writes, by clock_s; None if it may."""

    def __init__(self, cluster: Cluster, settings: Settings, ended: asyncio.Future[str]) -> None:
        self.configs, self.statuses = ConfigState(), StatusState()
        self._offsets = OffsetState()
        self._ended = ended
        self._on_config: OnConfig = lambda _: None
        self._loop = asyncio.get_running_loop()
        values = settings.values
        self.offsets_topic: str | None = str(values["offset.storage.topic"])
        self._config_topic = str(values["config.storage.topic"])
        self._settings = settings
        self._leadership: Leadership | None = None
        self._term = 0
        self._leading = asyncio.Lock()
        self.unclaimed_s = float("-inf") if settings.has_transactional_leader else None
        self._logs = [
            TopicLog(
                cluster,
                TopicConfig(
                    values[f"{kind}.storage.topic"],
                    purpose,
                    f"{kind}.storage.topic",
                    values.get(f"{kind}.storage.partitions", 1),
                    values[f"{kind}.storage.replication.factor"],
                    settings.topic_settings(f"{kind}.storage."),
                    1 if kind == "config" else None,
                ),
                replay,
            )
            for kind, purpose, replay in (
                ("config", "connector configurations", self._replay_config),
                ("offset", "source connector offsets", lambda each: self._offsets.replay(each.key, each.value)),
                ("status", "connector and task statuses", lambda each: self.statuses.replay(each.key, each.value)),
            )
        ]
        self._config_log, self._offset_log, self._status_log = self._logs
        self._waiting: asyncio.Queue[PendingStatus] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    def _replay_config(self, record: Stored) -> None:
        event = self.configs.replay(record.offset, record.key, record.value)
        if event is not None:
            self._on_config(event)

    async def start(self, on_config: OnConfig) -> None:
        """Open the topics and read them to their ends. Raises KcliError."""
        for each in self._logs:
            await each.open()
        self._tasks = [asyncio.create_task(self._read(each)) for each in self._logs]
        for each in self._logs:
            await each.refresh()
        self._on_config = on_config
        self._tasks.append(asyncio.create_task(self._write_statuses()))

    async def _read(self, topic: TopicLog) -> None:
        try:
            await topic.read()
        except KcliError as error:
            self._end(str(error))
        except Exception as error:
            log.exception("one of Connect's topics")
            self._end(repr(error))

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    async def _write_statuses(self) -> None:
        while True:
            statuses = [await self._waiting.get()]
            while not self._waiting.empty():
                statuses.append(self._waiting.get_nowait())
            await self._write_patiently(statuses)
            for _ in statuses:
                self._waiting.task_done()

    async def _write_patiently(self, statuses: Sequence[PendingStatus]) -> None:
        """Write statuses, however long brokers are away, without those that they refuse."""
        while True:
            try:
                await self._write_due(statuses)
            except RetriableError as error:
                log.warning("statuses are not written yet: %s", error)
                await asyncio.sleep(AGAIN_S)
            except KcliError as error:
                middle = len(statuses) // 2
                if not middle:
                    key = statuses[0].record[0].decode("utf-8", "replace")
                    log.warning("the status %s is not written: %s", key, error)
                    return
                await self._write_patiently(statuses[:middle])
                statuses = statuses[middle:]
            else:
                return

    async def _write_due(self, statuses: Sequence[PendingStatus]) -> None:
        if any(each.refreshes for each in statuses):
            await self._status_log.refresh()
        records = [each.record for each in statuses if each.is_due is None or each.is_due()]
        if records:
            await self._status_log.append(records)

    async def write_configs(self, records: Sequence[Record], *, by_leader: bool = True) -> None:
        """Write records of configurations; returns once they are replayed. by_leader: whether the leader alone writes
        such records, which is in transactions then. Raises KcliError."""
        try:
            if self._settings.has_transactional_leader and by_leader:
                async with self._leading:
                    await self._write_as_leader(records)
                await self.refresh()
            else:
                await self._config_log.append(records)
        except TooLarge as error:
            log.error("Failed to write connector configuration to Kafka: %s", error)  # noqa: TRY400 (no bug of ours)
            raise ConnectError(f"Error writing connector configuration to Kafka: {error}") from None

    async def _write_as_leader(self, records: Sequence[Record]) -> None:
        leadership = self._leadership
        try:
            if leadership is None:
                raise NotWritten("it is not claimed")
            await asyncio.to_thread(leadership.write, records)
        except KcliError as error:
            log.warning("topic %s is not written by this worker as the leader: %s", self._config_topic, error)
            if leadership is not None and leadership is self._leadership:
                self._leadership, self.unclaimed_s = None, clock_s()
            if isinstance(error, ErrorAnswer) and error.code in TOO_LARGE:
                raise TooLarge(max(records, key=_size), str(error)) from None
            raise NotWritten(NOT_BY_LEADER) from None

    async def claim(self) -> None:
        """As the leader, keep earlier ones from writing, and replay what they have written. Raises KcliError."""
        if self.unclaimed_s is None:
            return
        term, settings = self._term, self._settings
        found = await asyncio.to_thread(Leadership, settings.client, settings.group_id or "", self._config_topic)
        await self.refresh()
        if term == self._term:
            self._leadership, self.unclaimed_s = found, None

    def give_up(self) -> None:
        """Write no longer as the leader."""
        if self._settings.has_transactional_leader:
            self._leadership, self.unclaimed_s = None, float("-inf")
            self._term += 1

    def write_status(self, record: Record, is_due: IsDue | None = None, *, refreshes: bool = False) -> None:
        """Write a status, without a wait. is_due: asked before; where it says no, the status is not written. refreshes:
        whether all statuses that others have written are replayed first."""
        self._waiting.put_nowait(PendingStatus(record, is_due, refreshes))

    async def refresh(self, *, with_open: bool = True) -> None:
        """Replay all configurations that were written before. with_open: also those whose transaction has yet to end:
        a leader may have committed it. Raises KcliError."""
        await self._config_log.refresh(with_open=with_open)

    def read_offsets(self, connector: str) -> Sequence[tuple[Partition, Offset]]:
        """Return the offsets of a connector. Called outside of the event loop. Raises KcliError."""
        self._await(self._offset_log.refresh())
        return self._offsets.of(connector)

    def write_offsets(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        """Write offsets. Called outside of the event loop. Raises KcliError."""
        self._await(self._offset_log.append(records_of(connector, offsets)))

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(WAIT_S)
        except TimeoutError:
            future.cancel()  # an offset that is written later could go back behind a newer one
            raise NotWritten(f"topic {self.offsets_topic} does not answer in {WAIT_S:g} s") from None

    async def close(self) -> None:
        """Write the statuses that wait, and end."""
        try:
            async with asyncio.timeout(FLUSH_S):
                await self._waiting.join()
        except TimeoutError:
            log.warning("%d statuses are not written", self._waiting.qsize())
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _size(record: Record) -> int:
    return sum(len(each) for each in record if each is not None)
