"""The topic `__remote_log_metadata`: this broker appends the records about its partitions, and replays them.

    follow    the records about a user partition are read from the topic's start; `ready` waits until all are replayed
    readers   one task for each leader of needed partitions of the topic, which may be this broker; it reads the
              partitions that have records about followed partitions, and all partitions that this broker leads
    append    to partition metadata_partition(partition, count), at its leader with acks=all; `append` returns once this
              broker has replayed the record, so that the caller's next step takes the record into account
    create    by the active controller, when the first broker with tiered storage starts: cleanup.policy=delete,
              remote.storage.enable=false, retention.ms and min.insync.replicas as configured

A topic with another number of partitions than is configured is not used: brokers would look for each record in another
partition than the one that has it. Kafka ends its process in this case, and also if the topic cannot be created within
two minutes; this broker serves on without the topic, and tries again. If the response to an append was lost, the topic
may have the record twice: its second replay changes nothing. Source: TopicBasedRemoteLogMetadataManager,
ConsumerManager, ProducerManager; KIP-405.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.network.peers import Unanswered
from kcli.broker.process.unattended import begin
from kcli.broker.tiering.followed import Deletion, Followed, MetadataFailed, MetadataPartition, NotReady
from kcli.broker.tiering.metadata_leaders import AGAIN, NO_LEADER, LeaderRefused, MetadataLeaders, Read
from kcli.errors import KcliError
from kcli.metadata.partition import to_uuid
from kcli.protocol.error_code import ErrorCode
from kcli.tier.metadata import TOPIC, metadata_partition
from kcli.tier.records import record_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.coordinators.context import CoordinatorContext
    from kcli.broker.network.peers import Peer
    from kcli.broker.partition.partitions import Partition
    from kcli.broker.tiering.config import MetadataConfig
    from kcli.broker.wire.types.create_topics import CreateTopicsResponse
    from kcli.tier.cache import SegmentCache
    from kcli.tier.segment import PartitionDeleteState, RemoteSegment, SegmentState, TieredPartition

__all__ = ["MetadataFailed", "MetadataTopic", "NotReady"]

log = logging.getLogger("kcli.broker")

RETRY_S: Final = 0.1
CREATE_AGAIN_S: Final = 1.0
LOOK_S: Final = 1.0
DELIVERY_S: Final = 120.0
"""How long, in seconds, an append is repeated after errors, like delivery.timeout.ms of Kafka's producer."""


class MetadataTopic:
    """The records about the partitions that this broker follows. controller: the channel to the active controller. All
    methods are called on the event loop's thread."""

    def __init__(
        self,
        context: CoordinatorContext,
        controller: Peer,
        settings: MetadataConfig,
        *,
        delivery_s: float = DELIVERY_S,
    ) -> None:
        """settings: the configurations of the topic and of its readers. delivery_s: how long, in seconds, an append is
        repeated after errors."""
        self._context, self._controller, self._settings = context, controller, settings
        self._delivery_s = delivery_s
        self._leaders = MetadataLeaders(context)
        self._partitions: dict[int, MetadataPartition] = {}
        self._known: dict[TieredPartition, Followed] = {}
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._watched: dict[int, Partition] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._changed, self._grown = asyncio.Event(), asyncio.Event()
        self._last_problem = ""

    # starting and stopping

    def start(self) -> None:
        """Begin to read the topic, and create it if it does not exist. Call this once this broker is unfenced."""
        if self._keeper is None:
            self._keeper = begin(self._keep(), f"{TOPIC} is not read any more")

    def stop(self) -> None:
        """Stop reading. Calls that wait raise NotReady or MetadataFailed."""
        for task in (self._keeper, *self._readers.values()):
            if task is not None:
                task.cancel()
        self._keeper = None
        for number in list(self._watched):
            self._unwatch(number)
        for place in self._partitions.values():
            for followed in place.followed:
                place.forget(followed.partition, "this broker stops")
        self._partitions.clear()
        self._known.clear()

    async def _keep(self) -> None:
        """Create the topic if it does not exist, and begin a reader for each leader of needed partitions, after each
        change."""
        while True:
            self._changed.clear()
            wait_s: float | None = None
            try:
                if self._leaders.topic is None:
                    await self._create()
                    wait_s = self._settings.init_retry_interval_ms / 1000
                else:
                    self._keep_deletions()
                    wait_s = LOOK_S if self._read_all() else RETRY_S
            except Exception:  # a bug in one round must not end the loop
                log.exception("%s is looked at again", TOPIC)
                wait_s = CREATE_AGAIN_S
            await _until(self._changed, wait_s)

    def _keep_deletions(self) -> None:
        """Keep the unfinished deletions of those partitions of the topic that this broker leads (MetadataPartition)."""
        if self._problem() is not None:
            return
        for number in range(self._settings.partitions):
            is_leader = self._leaders.leader_of(number) == self._context.node_id
            if is_leader and number not in self._partitions:
                self._partitions[number] = self._partition(number)
            if (place := self._partitions.get(number)) is not None:
                place.keep_deletions(is_leader=is_leader)
                self._drop_unneeded(place)

    def _read_all(self) -> bool:
        """Begin the readers that are missing. Return False if a needed partition has no leader, and so no reader."""
        if self._problem() is not None:
            return True
        leaders = {self._leaders.leader_of(number) for number in self._partitions}
        for node_id in leaders - self._readers.keys() - {NO_LEADER}:
            self._readers[node_id] = begin(self._read_from(node_id), f"{TOPIC} is not read from broker {node_id}")
        return NO_LEADER not in leaders

    def _problem(self) -> str | None:
        """Return why the topic cannot be used; None if it can be used, or does not exist yet."""
        topic = self._leaders.topic
        if topic is None or len(topic.partitions) == self._settings.partitions:
            return None
        problem = (
            f"{TOPIC} has {len(topic.partitions)} partitions, not the {self._settings.partitions} that "
            f"remote.log.metadata.topic.num.partitions says"
        )
        self._warn(problem)
        return problem

    async def _create(self) -> None:
        """Ask the active controller to create the topic."""
        settings, timeout_ms = self._settings, self._context.config.number("request.timeout.ms")
        configs = {
            "retention.ms": str(settings.retention_ms),
            "cleanup.policy": "delete",
            "remote.storage.enable": "false",
            "min.insync.replicas": str(settings.min_isr),
        }
        topic = {
            "name": TOPIC,
            "num_partitions": settings.partitions,
            "replication_factor": settings.replication_factor,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in configs.items()],
        }
        try:
            response: CreateTopicsResponse = await self._controller.call(
                "create_topics",
                None,
                timeout_s=timeout_ms / 1000,
                topics=[topic],
                timeout=timeout_ms,
                validate_only=False,
            )
        except Unanswered as error:
            self._warn(f"{TOPIC} is not created: {error}")
            return
        result = response.topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._warn(f"{TOPIC} is not created: {result.error_message or ErrorCode(result.error_code).name}")

    def _warn(self, problem: str) -> None:
        """Log a problem, but not the same one twice in a row."""
        if problem != self._last_problem:
            log.warning("%s", problem)
        self._last_problem = problem

    # which partitions

    def _partition(self, number: int) -> MetadataPartition:
        return MetadataPartition(number, self._settings.partitions, self._topic_name)

    def _topic_name(self, topic_id: str) -> str | None:
        topic = self._context.image.topic_by_id(to_uuid(topic_id))
        return None if topic is None else topic.name

    def _number_of(self, partition: TieredPartition) -> int:
        return metadata_partition(partition, self._settings.partitions)

    def _followed(self, partition: TieredPartition) -> Followed:
        found = self._known.get(partition)
        if found is None:
            raise NotReady(f"{partition} is not followed in {TOPIC}")
        return found

    def follow(self, partition: TieredPartition) -> None:
        """Begin to replay the records about a partition, from the topic's start on; do nothing if it is followed
        already."""
        number = self._number_of(partition)
        place = self._partitions.get(number)
        if place is None:
            place = self._partitions[number] = self._partition(number)
        elif partition in self._known:  # most calls come from reads, which need no wake-up
            return
        self._known[partition] = place.follow(partition)
        self._changed.set()
        self._grown.set()

    def forget(self, partition: TieredPartition) -> None:
        """Stop replaying the records about a partition. Calls that wait for them raise NotReady or MetadataFailed."""
        number = self._number_of(partition)
        place = self._partitions.get(number)
        self._known.pop(partition, None)
        if place is not None:
            place.forget(partition, "it is not followed any more")
            self._drop_unneeded(place)

    def _drop_unneeded(self, place: MetadataPartition) -> None:
        if not place:
            del self._partitions[place.number]
            self._unwatch(place.number)

    # what is known

    def is_ready(self, partition: TieredPartition) -> bool:
        """Whether the records about a partition are replayed, so that `cache` returns its segments."""
        found = self._known.get(partition)
        return found is not None and found.is_ready

    async def ready(self, partition: TieredPartition) -> None:
        """Wait until all records that were in the topic when the partition was followed are replayed, however long it
        takes. Raises NotReady if the partition is not followed, or is forgotten meanwhile."""
        await self._followed(partition).wait_ready()

    def cache(self, partition: TieredPartition) -> SegmentCache:
        """Return the segments of a partition in the tier, as an object that later records change. If the topic is read
        again from its start, a new object takes its place. Raises NotReady."""
        return self._followed(partition).cache

    def state_of(self, segment: RemoteSegment) -> SegmentState | None:
        """Return the state of a segment; None if it is unknown, because its records were refused or are being replayed
        again."""
        known = self.cache(segment.partition).segment(segment.id) if self.is_ready(segment.partition) else None
        return None if known is None else known.state

    def deletion(self, partition: TieredPartition) -> PartitionDeleteState | None:
        """Return how far the deletion of a partition has come; None if none has begun. Raises NotReady."""
        return self._followed(partition).deletion

    def unfinished_deletions(self) -> list[Deletion]:
        """Return the deletions of partitions that have begun and are not finished, as far as the records about them are
        in partitions of the topic that this broker leads."""
        return [each for place in self._partitions.values() for each in place.unfinished()]

    # appending

    async def append(self, partition: TieredPartition, value: Mapping[str, Any], kind: str) -> None:
        """Append a record about a partition with acks=all, and wait until this broker has replayed it, so that `cache`
        shows its effect.

        kind, value: the kind and the fields of the record, see kcli.tier.records. The partition must be followed, but
        need not be ready. Raises MetadataFailed, and BadValue or BadLength for a value that the record's schema does
        not allow.
        """
        data = record_bytes(kind, value)
        if (followed := self._known.get(partition)) is None:
            raise MetadataFailed(f"{partition} is not followed in {TOPIC}")
        offset = await self._append(partition, data)
        await followed.wait_replayed(offset, self._settings.consume_wait_ms / 1000)

    async def _append(self, partition: TieredPartition, data: bytes) -> int:
        """Append a record; repeat this after errors that may pass, for delivery_s. Return its offset. Raises
        MetadataFailed."""
        number, now = self._number_of(partition), asyncio.get_running_loop().time
        until = now() + self._delivery_s
        while True:
            if (problem := self._problem()) is not None:
                raise MetadataFailed(problem)
            try:
                return await self._leaders.append(number, data, until)
            except (LeaderRefused, Unanswered) as error:
                if (isinstance(error, LeaderRefused) and not error.again) or now() + RETRY_S > until:
                    raise MetadataFailed(f"no record about {partition}: {error}") from error
                log.debug("%s: a record about %s is appended again: %s", TOPIC, partition, error)
            self._changed.set()
            await asyncio.sleep(RETRY_S)

    # reading the topic

    def _led_by(self, node_id: int) -> list[MetadataPartition]:
        topic = self._leaders.topic
        if topic is None or self._problem() is not None:
            return []
        found = [each for each in self._partitions.values() if self._leaders.leader_of(each.number) == node_id]
        for each in found:
            each.is_of(topic.id)
        return found

    async def _read_from(self, node_id: int) -> None:
        """Read the needed partitions that a broker leads, until it leads none of them."""
        read = self._read_here if node_id == self._context.node_id else self._read_there
        try:
            while places := self._led_by(node_id):
                try:
                    await read(node_id, places)
                except (Unanswered, LeaderRefused) as error:
                    log.debug("%s from broker %d: %s", TOPIC, node_id, error)
                    await asyncio.sleep(RETRY_S)
                except KcliError as error:
                    self._warn(f"{TOPIC} from broker {node_id}: {error}")
                    await asyncio.sleep(CREATE_AGAIN_S)
                except Exception:  # a bug with one response must not end the reading
                    log.exception("%s is read from broker %d again", TOPIC, node_id)
                    await asyncio.sleep(CREATE_AGAIN_S)
        finally:
            self._readers.pop(node_id, None)
            self._changed.set()

    async def _read_here(self, _: int, places: list[MetadataPartition]) -> None:
        """Read these partitions, each from its position on, in this broker's logs; wait if none has a new record."""
        self._grown.clear()
        has_moved, is_waiting = False, False
        for place in places:
            partition = self._leaders.here(place.number)
            if partition is None:
                is_waiting = True
                continue
            self._watch(place.number, partition)
            reading = place.round
            start, end = await self._leaders.bounds_here(partition)
            if place.round != reading:
                has_moved = True
                continue
            is_waiting = is_waiting or end is None
            if place.needs_end and end is not None:
                place.ends_at(end)
            if end is None or place.position != end:
                read = await self._leaders.read_here(partition, place.position)
                has_moved = await self._take(place, reading, read, start) or has_moved
        if not has_moved:
            await _until(self._grown, RETRY_S if is_waiting else LOOK_S)

    def _watch(self, number: int, partition: Partition) -> None:
        if self._watched.get(number) is not partition:
            self._unwatch(number)
            self._watched[number] = partition
            partition.watch(self._grown.set)

    def _unwatch(self, number: int) -> None:
        partition = self._watched.pop(number, None)
        if partition is not None:
            partition.unwatch(self._grown.set)

    async def _read_there(self, node_id: int, places: list[MetadataPartition]) -> None:
        """Read these partitions, each from its position on, at another broker, which waits if none has a new record."""
        by_number = {place.number: place for place in places}
        new = {number: place.round for number, place in by_number.items() if place.needs_end}
        if new:
            ends = await self._leaders.ends_there(node_id, new)
            for number, end in ends.items():
                if by_number[number].round == new[number]:
                    by_number[number].ends_at(end)
        rounds = {number: place.round for number, place in by_number.items()}
        reads = await self._leaders.read_there(node_id, {number: each.position for number, each in by_number.items()})
        beyond = [each.number for each in reads if each.is_beyond]
        starts = await self._leaders.starts_there(node_id, beyond) if beyond else {}
        has_failed = False
        for read in reads:
            place = by_number[read.number]
            await self._take(place, rounds[read.number], read, starts.get(read.number))
            has_failed = has_failed or (read.code != ErrorCode.NONE and not read.is_beyond)
        if has_failed:
            self._changed.set()
            await asyncio.sleep(RETRY_S)

    async def _take(self, place: MetadataPartition, reading: int, read: Read, start: int | None) -> bool:
        """Replay the result of a read, unless its round is over. reading: the round in which it was read. start: the
        log start offset; None if it is unknown. Return whether to read on at once."""
        if place.round != reading or not place:
            return True
        if read.is_beyond:
            if start is None:
                return False
            place.is_beyond(start)
            return True
        if read.code != ErrorCode.NONE:
            if read.code not in AGAIN:
                self._warn(f"{place} is not read: {read.code.name}")
            return False
        if not read.records:
            return False
        before = place.position
        await self._context.turns.run(place.replay(read.records, reading))
        if place.round == reading and place.position == before:
            await asyncio.sleep(CREATE_AGAIN_S)  # the bytes are damaged, and may be right later
        return True


async def _until(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait for an event, at most timeout_s seconds; None: without limit."""
    waiting: Coroutine[Any, Any, Any] = event.wait()
    try:
        async with asyncio.timeout(timeout_s):
            await waiting
    except TimeoutError:
        pass
