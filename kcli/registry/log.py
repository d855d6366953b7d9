"""The topic `_schemas`: created or checked, read from its start for ever, and appended to by one registry at a time.

    open      creates the topic with one partition and cleanup.policy=compact; refuses one that is otherwise
    read      gives all records to `replay`, in their order, from the first one on; again from the start if the log
              no longer has the next offset
    fence     makes this registry the only one that can append, and reads to the end
    append    writes records as one batch with acks=all, and returns once `replay` has had them

Fencing: all kcli registries of a group have one transactional id. InitProducerId for it gives the caller a newer
producer epoch, with which it appends a NOOP (an empty record, as Confluent's registry writes to find the end of the
log) and reads up to it. From the NOOP on Kafka refuses a batch with an older epoch (INVALID_PRODUCER_EPOCH), and all
that was appended before it is replayed before this registry writes. So a leader that was paused cannot append a
decision that it has made on an older state, whoever was elected meanwhile, and no id is given twice. The batches are in
no transaction: every consumer sees them at once. After a request whose outcome is not known, a newer epoch is taken,
too, which keeps a batch that is still on its way out of the log. Kafka forgets the epochs of producers that are idle
for producer.id.expiration.ms (a day), and transactional ids after a week: an epoch is used for RENEW_S at most.

Source: KIP-98, KIP-360, ProducerAppendInfo; KafkaStore of Confluent's registry.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from formats.batch_writer import write_batch
from kcli.broker.network.peers import Unanswered, VersionMismatch
from kcli.errors import KcliError, UnreadableInput
from kcli.protocol.error_code import ErrorCode
from kcli.service.cluster import PASSING, RETRY_S, TRANSACTION, Cluster, Refused, clock_s
from kcli.service.fetched import Record, records_in

log = logging.getLogger("kcli.registry")
NOOP: Final = (b'{"keytype":"NOOP","magic":0}', None)
FETCH_BYTES: Final = 1 << 20
FETCH_WAIT_MS: Final = 500
RETRY_MAX_S: Final = 1.0
LOG_AGAIN_S: Final = 30.0
RENEW_S: Final = 6 * 3600.0
TRANSACTION_TIMEOUT_MS: Final = 60_000
EARLIEST, LATEST = -2, -1
TOPIC_RESOURCE: Final = 2
NOT_APPENDED: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)
"""Errors of Produce after which the next batch may have the same sequence number."""


class UnsuitableTopic(KcliError):
    """The topic of schemas has another number of partitions, or another configuration, than a registry needs."""


class NotAppended(KcliError):
    """Records were not appended, or it is not known whether they were. code: Kafka's error; None without a response."""

    def __init__(self, reason: str, code: ErrorCode | None = None) -> None:
        super().__init__(reason)
        self.code = code


Replay = Callable[[Sequence[Record]], Awaitable[None]]
"""A function that applies records. If reading begins again at the log's first record, `restart` is called before."""


class LogConfig(NamedTuple):
    """The topic's name, its number of replicas and its other configurations when it is created, and the transactional
    id that all registries of the group share. timeout_s: for an append and its replay together."""

    topic: str = "_schemas"
    replication_factor: int = 3
    topic_config: Mapping[str, str] = {}
    transactional_id: str = "schema-registry"
    timeout_s: float = 10.0
    checks_topic: bool = True


class SchemasLog:
    """The log of the topic's only partition. replay, restart: see Replay."""

    def __init__(self, cluster: Cluster, config: LogConfig, replay: Replay, restart: Callable[[], None]) -> None:
        self.next_offset = 0
        self._cluster, self._config = cluster, config
        self._replay, self._restart = replay, restart
        self._moved = asyncio.Condition()
        self._leader = -1
        self._producer: tuple[int, int] | None = None  # id and epoch
        self._sequence = 0
        self._fenced_at = 0.0
        self._anew: int | None = None  # where reading has begun again; None once the end of the log was reached
        self._logged: tuple[str, float] = "", 0.0

    @property
    def is_owned(self) -> bool:
        """Whether this registry may append: it has fenced all others, and every append since has succeeded."""
        return self._producer is not None and clock_s() - self._fenced_at < RENEW_S

    def disown(self) -> None:
        """Refuse all appends until the next `fence`."""
        self._producer = None

    # the topic

    async def open(self) -> None:
        """Create the topic, or check it. Raises UnsuitableTopic, Refused, Unanswered."""
        name = self._config.topic
        found = await self._cluster.topic(name)
        if found is None and self._config.checks_topic:
            await self._create()
            found = await self._cluster.topic(name)
        while found is None or not found.leaders or found.leaders[0] < 0:
            await asyncio.sleep(RETRY_S)
            found = await self._cluster.topic(name)
        self._leader = found.leaders[0]
        if not self._config.checks_topic:
            return
        if len(found.leaders) != 1:
            raise UnsuitableTopic(f"The schema topic {name} should have only 1 partition but has {len(found.leaders)}")
        if found.replicas[0] < min(self._config.replication_factor, self._cluster.size):
            log.warning(
                "topic %s has %d replicas, %d are configured", name, found.replicas[0], self._config.replication_factor
            )
        await self._check_policy()

    async def _create(self) -> None:
        name, wanted = self._config.topic, self._config.replication_factor
        factor = max(1, min(wanted, self._cluster.size))
        if factor < wanted:
            log.warning("topic %s is created with %d replicas, as the cluster has no more brokers", name, factor)
        configs = {**self._config.topic_config, "cleanup.policy": "compact"}
        topic = {
            "name": name,
            "num_partitions": 1,
            "replication_factor": factor,
            "assignments": (),
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        answer = await self._cluster.any("create_topics", topics=[topic], timeout=30_000, validate_only=False)
        (made,) = answer.topics
        if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise Refused(f"topic {name} cannot be created", made.error_code, made.error_message)

    async def _check_policy(self) -> None:
        name = self._config.topic
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configuration_keys": ["cleanup.policy"]}
        answer = await self._cluster.any("describe_configs", resources=[resource], include_synonyms=False)
        (found,) = answer.results
        if found.error_code != ErrorCode.NONE:
            raise Refused(f"the configurations of topic {name}", found.error_code, found.error_message)
        policy = next((each.value for each in found.configs if each.name == "cleanup.policy"), None)
        if policy != "compact":
            raise UnsuitableTopic(
                f"The retention policy of the schema topic {name} is incorrect. Expected cleanup.policy to be "
                f"'compact' but it is {policy}"
            )

    # reading

    async def end_offset(self) -> int:
        """Return the offset after the last record. Raises Unanswered, Refused."""
        return await self._list_offset(LATEST)

    async def _list_offset(self, timestamp: int) -> int:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": self._config.topic, "partitions": [partition]}]
        answer = await self._cluster.ask(
            self._leader, "produce", "list_offsets", replica_id=-1, isolation_level=0, topics=topics
        )
        found = answer.topics[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            raise Refused(f"the offsets of {self._config.topic}", found.error_code)
        return int(found.offset)

    async def read(self) -> None:
        """Pass all records to `replay`, until cancelled. A temporary error is logged. Raises KcliError for a damaged
        log, Refused for another error."""
        while True:
            try:
                await self._read_on()
            except VersionMismatch:
                raise
            except UnreadableInput as error:
                raise KcliError(f"{error}; {self._next_step()}") from None
            except Unanswered as error:
                await self._look_again(str(error))
            except Refused as error:
                if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    await self._start_again()
                elif error.code in PASSING:
                    await self._look_again(str(error))
                else:
                    raise

    async def _read_on(self) -> None:
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": self.next_offset,
            "log_start_offset": -1,
            "partition_max_bytes": FETCH_BYTES,
        }
        answer = await self._cluster.ask(
            self._leader,
            "fetch",
            "fetch",
            replica_id=-1,
            max_wait=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": self._config.topic, "partitions": [partition]}],
            forgotten_topics_data=(),
            rack_id="",
        )
        if answer.error_code != ErrorCode.NONE:
            raise Refused(f"Fetch of {self._config.topic}", answer.error_code)
        found = answer.responses[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            raise Refused(f"Fetch of {self._config.topic}", found.error_code)
        if found.records:
            await self._take(found.records)
        else:
            self._anew = None

    async def _take(self, data: bytes) -> None:
        records, end = records_in(data, self.next_offset, f"topic {self._config.topic}")
        if records:
            await self._replay(records)
        await self._moved_to(end)

    async def _moved_to(self, offset: int) -> None:
        async with self._moved:
            self.next_offset = offset
            self._moved.notify_all()

    def _next_step(self) -> str:
        """Return the text of the command that finds damage in the topic's log, as Kafka's protocol does not report
        it."""
        return f"on the machine of broker {self._leader}: kcli verify LOG_DIR/{self._config.topic}-0"

    async def _start_again(self) -> None:
        if self._anew is not None and self._anew < self.next_offset:
            raise KcliError(
                f"topic {self._config.topic}: the broker has sent the records below offset {self.next_offset}, which "
                f"it says is beyond the end of its log: the end is wrong, or records are lost; {self._next_step()}"
            )
        log.warning("topic %s does not have offset %d: it is read anew", self._config.topic, self.next_offset)
        self.disown()
        self._restart()
        self._anew = await self._list_offset(EARLIEST)
        await self._moved_to(self._anew)

    async def _look_again(self, reason: str) -> None:
        """Log an error, wait, and look up the partition's leader."""
        known, logged_at = self._logged
        now = time.monotonic()
        if reason != known or now - logged_at > LOG_AGAIN_S:
            self._logged = reason, now
            log.warning("topic %s cannot be read now: %s", self._config.topic, reason)
        await asyncio.sleep(RETRY_S)
        try:
            found = await self._cluster.topic(self._config.topic)
        except (Unanswered, Refused):
            await asyncio.sleep(RETRY_MAX_S)
            return
        if found is not None and found.leaders and found.leaders[0] >= 0:
            self._leader = found.leaders[0]

    async def replayed(self, offset: int, timeout_s: float | None = None) -> None:
        """Wait until the record at `offset` has been replayed. Raises TimeoutError."""
        async with asyncio.timeout(self._config.timeout_s if timeout_s is None else timeout_s), self._moved:
            await self._moved.wait_for(lambda: self.next_offset > offset)

    # writing

    async def fence(self) -> None:
        """Keep all other registries of the group from appending, and read to the end of the log. Raises NotAppended,
        TimeoutError."""
        self._producer = None
        async with asyncio.timeout(self._config.timeout_s):
            producer = await self._new_epoch()
            started = clock_s()
            await self.replayed(await self._produce([NOOP], producer, 0))
        self._producer, self._sequence, self._fenced_at = producer, 1, started

    async def _new_epoch(self) -> tuple[int, int]:
        """Return the producer id of the transactional id and a new producer epoch. Temporary errors are repeated.
        Raises NotAppended."""
        name = self._config.transactional_id
        while True:
            try:
                node_id = await self._cluster.coordinator(TRANSACTION, name)
                answer = await self._cluster.ask(
                    node_id,
                    "produce",
                    "init_producer_id",
                    transactional_id=name,
                    transaction_timeout=TRANSACTION_TIMEOUT_MS,
                )
                code = ErrorCode(answer.error_code)
            except Unanswered as error:
                raise NotAppended(str(error)) from None
            except Refused as error:
                code = error.code
            if code == ErrorCode.NONE:
                return int(answer.producer_id), int(answer.producer_epoch)
            if code not in PASSING:
                raise NotAppended(f"a producer epoch of transactional id {name}: {code.name}", code)
            await asyncio.sleep(RETRY_S)

    async def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append records, all or none, and return once they are replayed. Only one call at a time.

        Raises NotAppended; unless its code is one of NOT_APPENDED, the registry must `fence` before it appends again.
        Raises TimeoutError.
        """
        producer = self._producer
        if producer is None:
            raise NotAppended("another registry may be writing")
        try:
            base_offset = await self._produce(records, producer, self._sequence)
            self._sequence = (self._sequence + len(records)) & 0x7FFFFFFF
            await self.replayed(base_offset + len(records) - 1)
        except NotAppended as error:
            if error.code not in NOT_APPENDED:
                self._producer = None
            raise
        except BaseException:
            self._producer = None
            raise

    async def _produce(
        self, records: Sequence[tuple[bytes, bytes | None]], producer: tuple[int, int], sequence: int
    ) -> int:
        """Return the offset of the first record. Raises NotAppended."""
        batch = write_batch(
            records,
            int(time.time() * 1000),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
        )
        data: dict[str, Any] = {"index": 0, "records": bytes(batch)}
        timeout_s = self._config.timeout_s
        try:
            answer = await self._cluster.ask(
                self._leader,
                "produce",
                "produce",
                timeout_s,
                transactional_id=None,
                acks=-1,
                timeout=int(timeout_s * 1000),
                topic_data=[{"name": self._config.topic, "partition_data": [data]}],
            )
        except Unanswered as error:
            raise NotAppended(str(error)) from None
        found = answer.responses[0].partition_responses[0]
        if found.error_code != ErrorCode.NONE:
            code = ErrorCode(found.error_code)
            raise NotAppended(f"Produce to {self._config.topic}: {code.name}", code)
        return int(found.base_offset)
