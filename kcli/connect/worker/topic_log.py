"""A compacted topic that a worker replays from its start for ever, and appends to: all partitions, one reader for each
of the brokers that lead them.

    open      creates the topic with cleanup.policy=compact, or checks that it has it
    read      gives the records of each partition to `replay`, in their order, without those of aborted transactions
    refresh   waits until all is replayed that was committed before
    append    writes records with acks=all, each to the partition of its key, and waits until they are replayed; those
              that are too large for one batch in several, as Kafka's producer does

Source: KafkaBasedLog, TopicAdmin.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from formats.batch_writer import write_batch
from kcli.broker.network.peers import Unanswered
from kcli.client.log_appending import TOO_LARGE
from kcli.connect.data.errors import RetriableError
from kcli.connect.topics.json_values import Record as Pair
from kcli.errors import KcliError
from kcli.java.hashing import murmur2
from kcli.protocol.error_code import ErrorCode
from kcli.service.cluster import PASSING, RETRY_S, Cluster, Refused, Topic
from kcli.service.fetched import Record, records_in

log = logging.getLogger("kcli.connect")
T = TypeVar("T")
FETCH_BYTES: Final = 1 << 20
FETCH_WAIT_MS: Final = 500
TIMEOUT_S: Final = 30.0
EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
TOPIC_RESOURCE: Final = 2
POSITIVE: Final = 0x7FFFFFFF
Replay = Callable[[Record], None]


class UnsuitableTopic(KcliError):
    """One of Connect's topics has another number of partitions or another configuration than a worker needs."""


class TopicAway(RetriableError):
    """A topic could not be asked for, written or created in time."""


class NotWritten(RetriableError):
    """Records were not written in time, or it is not known whether they were."""


class TooLarge(KcliError):
    """A record is larger than its topic takes."""

    def __init__(self, record: Pair, reason: str) -> None:
        super().__init__(f"the record {(record[0] or b'').decode('utf-8', 'replace')} is too large: {reason}")


class NotReplayed(RetriableError):
    """What is in a topic was not read in time."""


class TopicConfig(NamedTuple):
    """A topic, as it is created. partitions: -1 for the brokers' default. purpose, option: what it has and the
    worker's property that names it, for errors. partitions_max: None for any number."""

    name: str
    purpose: str
    option: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    partitions_max: int | None = None


class TopicLog:
    """The log of a topic."""

    def __init__(self, cluster: Cluster, config: TopicConfig, replay: Replay) -> None:
        self._cluster, self._config, self._replay = cluster, config, replay
        self._leaders: list[int] = []
        self._next: list[int] = []
        self._moved = asyncio.Condition()
        self._appending = asyncio.Lock()

    async def open(self) -> None:
        """Create the topic, or check it. Raises KcliError."""
        found = await self._passing(lambda: self._cluster.topic(self._config.name))
        if found is None:
            await self._passing(self._create)
        await self._look_up(time.monotonic() + TIMEOUT_S)
        self._next = await self._offsets(EARLIEST)
        most = self._config.partitions_max
        if most is not None and len(self._leaders) > most:
            raise UnsuitableTopic(
                f"Topic '{self._config.name}' supplied via the '{self._config.option}' property is required to have a "
                f"single partition in order to guarantee consistency of {self._config.purpose}, but found "
                f"{len(self._leaders)} partitions."
            )
        if found is not None:
            await self._passing(self._check_policy)

    @property
    def _all(self) -> range:
        return range(len(self._leaders))

    async def _passing(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request while its error is temporary. Raises KcliError; TopicAway in the end."""
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return await work()
            except (Unanswered, Refused) as error:
                if isinstance(error, Refused) and error.code not in PASSING:
                    raise
                if time.monotonic() > until:
                    raise TopicAway(str(error)) from None
            await asyncio.sleep(RETRY_S)

    async def _look_up(self, until_s: float) -> None:
        """Find the leaders of all partitions. Raises KcliError; TopicAway if a partition has none until then."""
        while True:
            found: Topic | None = await self._passing(lambda: self._cluster.topic(self._config.name))
            if found is not None and found.leaders and min(found.leaders) >= 0:
                self._leaders = list(found.leaders)
                return
            if time.monotonic() > until_s:
                raise TopicAway(f"topic {self._config.name} has partitions without a leader")
            await asyncio.sleep(RETRY_S)

    async def _create(self) -> None:
        config = self._config
        configs = {**config.configs, "cleanup.policy": "compact"}
        topic = {
            "name": config.name,
            "num_partitions": config.partitions,
            "replication_factor": config.replication_factor,
            "assignments": (),
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        answer = await self._cluster.any("create_topics", topics=[topic], timeout=30_000, validate_only=False)
        (made,) = answer.topics
        if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise Refused(
                f"topic {config.name} of {config.purpose} cannot be created", made.error_code, made.error_message
            )

    async def _setting(self, name: str) -> str | None:
        """Return a configuration of the topic; None if the broker does not tell it. Raises Unanswered, Refused."""
        resource = {
            "resource_type": TOPIC_RESOURCE,
            "resource_name": self._config.name,
            "configuration_keys": [name],
        }
        answer = await self._cluster.any("describe_configs", resources=[resource], include_synonyms=False)
        (found,) = answer.results
        if found.error_code != ErrorCode.NONE:
            log.warning("the configurations of topic %s: %s", self._config.name, ErrorCode(found.error_code).name)
            return None
        return next((each.value for each in found.configs if each.name == name), None)

    async def _check_policy(self) -> None:
        config = self._config
        policy = await self._setting("cleanup.policy")
        if policy not in ("compact", None):
            raise UnsuitableTopic(
                f"Topic '{config.name}' supplied via the '{config.option}' property is required to have "
                f"'cleanup.policy=compact' to guarantee consistency and durability of {config.purpose}, but found the "
                f"topic currently has 'cleanup.policy={policy}'."
            )

    # reading

    async def read(self) -> None:
        """Pass all records to `replay`, until cancelled, however long brokers are away. Raises KcliError for an error
        that is not temporary."""
        while True:
            nodes = sorted(set(self._leaders))
            tasks = [asyncio.create_task(self._read_from(node)) for node in nodes]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in tasks:
                    each.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
            for error in results:
                if isinstance(error, Refused) and error.code not in PASSING:
                    raise error
                if isinstance(error, Exception) and not isinstance(error, Refused | Unanswered):
                    raise error
            await asyncio.sleep(RETRY_S)
            await self._look_up_patiently()

    async def _look_up_patiently(self) -> None:
        while True:
            try:
                await self._look_up(time.monotonic() + TIMEOUT_S)
            except TopicAway as error:
                log.warning("topic %s: %s", self._config.name, error)
            else:
                return

    async def _read_from(self, node: int) -> None:
        while True:
            wanted = [each for each in self._all if self._leaders[each] == node]
            partitions = [
                {
                    "partition": each,
                    "current_leader_epoch": -1,
                    "fetch_offset": self._next[each],
                    "log_start_offset": -1,
                    "partition_max_bytes": FETCH_BYTES,
                }
                for each in wanted
            ]
            answer = await self._cluster.ask(
                node,
                f"fetch {self._config.name}",
                "fetch",
                replica_id=-1,
                max_wait=FETCH_WAIT_MS,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=READ_COMMITTED,
                session_id=0,
                session_epoch=-1,
                topics=[{"topic": self._config.name, "partitions": partitions}],
                forgotten_topics_data=(),
                rack_id="",
            )
            if answer.error_code != ErrorCode.NONE:
                raise Refused(f"Fetch of {self._config.name}", answer.error_code)
            for found in answer.responses[0].partitions if answer.responses else ():
                await self._take(found)

    async def _take(self, found: Any) -> None:
        number = int(found.partition_index)
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            log.warning("topic %s does not have offset %d: it is read anew", self._config.name, self._next[number])
            self._next[number] = await self._offset(number, EARLIEST)
            return
        if found.error_code != ErrorCode.NONE:
            raise Refused(f"Fetch of {self._config.name}", found.error_code)
        if not found.records:
            return
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
        where = f"topic {self._config.name}, partition {number}"
        records, end = records_in(found.records, self._next[number], where, aborted)
        for each in records:
            self._replay(each)
        async with self._moved:
            self._next[number] = end
            self._moved.notify_all()

    async def _offset(self, partition: int, timestamp: int, isolation: int = READ_COMMITTED) -> int:
        wanted = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
        answer = await self._cluster.ask(
            self._leaders[partition],
            "offsets",
            "list_offsets",
            replica_id=-1,
            isolation_level=isolation,
            topics=[{"name": self._config.name, "partitions": [wanted]}],
        )
        found = answer.topics[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            raise Refused(f"the offsets of {self._config.name}", found.error_code)
        return int(found.offset)

    async def _offsets(self, timestamp: int, isolation: int = READ_COMMITTED) -> list[int]:
        return [await self._passing(partial(self._offset, each, timestamp, isolation)) for each in self._all]

    async def refresh(self, *, with_open: bool = False) -> None:
        """Replay all that is committed in the topic. with_open: wait for the ends of transactions that are open, or
        whose commit is not in the topic yet. Raises KcliError."""
        isolation = READ_UNCOMMITTED if with_open else READ_COMMITTED
        await self._replayed(dict(enumerate(await self._offsets(LATEST, isolation))))

    async def _replayed(self, ends: Mapping[int, int]) -> None:
        """Wait until the partitions are replayed up to these offsets, as long as there is progress."""
        async with self._moved:
            while any(self._next[number] < end for number, end in ends.items()):
                try:
                    async with asyncio.timeout(TIMEOUT_S):
                        await self._moved.wait()
                except TimeoutError:
                    raise NotReplayed(f"topic {self._config.name} is not read to its end in {TIMEOUT_S:g} s") from None

    # writing

    async def append(self, records: Sequence[Pair]) -> None:
        """Write records, and return once they are replayed. Raises KcliError."""
        by_partition: dict[int, list[Pair]] = {}
        for each in records:
            by_partition.setdefault((murmur2(each[0]) & POSITIVE) % len(self._leaders), []).append(each)
        async with self._appending:
            ends = {number: await self._produce(number, pairs) for number, pairs in by_partition.items()}
        await self._replayed(ends)

    async def _produce(self, partition: int, records: Sequence[Pair]) -> int:
        """Return the offset behind the records. Raises NotWritten; TooLarge; Refused for another error that is not
        temporary."""
        until = time.monotonic() + TIMEOUT_S
        while True:
            batch = bytes(write_batch(records, int(time.time() * 1000)))
            data = {"index": partition, "records": batch}
            try:
                answer = await self._cluster.ask(
                    self._leaders[partition],
                    "produce",
                    "produce",
                    TIMEOUT_S,
                    transactional_id=None,
                    acks=-1,
                    timeout=int(TIMEOUT_S * 1000),
                    topic_data=[{"name": self._config.name, "partition_data": [data]}],
                )
                found = answer.responses[0].partition_responses[0]
                code = ErrorCode(found.error_code)
                reason = f"Produce to {self._config.name}: {code.name}"
            except Unanswered as error:
                code, reason = ErrorCode.REQUEST_TIMED_OUT, str(error)
            if code is ErrorCode.NONE:
                return int(found.base_offset) + len(records)
            if code in TOO_LARGE and len(records) > 1:
                middle = len(records) // 2
                await self._produce(partition, records[:middle])
                return await self._produce(partition, records[middle:])
            if code in TOO_LARGE:
                raise await self._too_large(records[0], len(batch))
            if code not in PASSING:
                raise Refused(f"Produce to {self._config.name}", code)
            if time.monotonic() > until:
                raise NotWritten(reason)
            await asyncio.sleep(RETRY_S)
            try:
                await self._look_up(until)
            except TopicAway as error:
                raise NotWritten(str(error)) from None

    async def _too_large(self, record: Pair, size: int) -> TooLarge:
        """Return the error of a record that its topic does not take. size: of its batch, in bytes."""
        limit: str | None = None
        with suppress(Unanswered, Refused):
            limit = await self._setting("max.message.bytes")
        topic = self._config.name
        most = "" if limit is None else f", and topic {topic} takes {int(limit):,} (max.message.bytes)"
        return TooLarge(
            record,
            f"it makes a batch of {size:,} bytes{most}; after kcli topics alter {topic} "
            f"--config max.message.bytes={size} the topic takes it",
        )
