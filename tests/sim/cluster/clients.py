"""The clients of the simulated cluster. They use the nodes' network, send one request at a time, and write no value
twice.

    Idempotent      produces batches with acks=all; repeats each until it is acknowledged
    Transactional   writes a few batches in a transaction, then commits or aborts; starts anew after an error
    Reader          fetches all partitions with isolation level read_committed
    Member          is a member of a classic group and commits offsets; the group's leader assigns partitions
    Admin           creates topics and reassigns replicas
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kcli.broker.network.peers import Unanswered
from kcli.broker.wire.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.metadata.partition import Partition as PartitionState
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from tests.log.batches import batch
from tests.sim.checks import must
from tests.sim.cluster.batches import batches
from tests.sim.cluster.checks import Transaction
from tests.sim.cluster.network import SimulatedChannel

if TYPE_CHECKING:
    from tests.sim.cluster.world import World

ASK_S, PRODUCE_MS = 4.0, 3_000
NONE = ErrorCode.NONE
WORK, GROUP_PARTITIONS = "work", 3
DONE = (NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
GROUP_KEY, TRANSACTION_KEY = 0, 1


class Again(Exception):
    """A request that the client repeats later: no leader, no response, or a retriable error."""


class Client:
    """A client with connections to all nodes; it looks up leaders and coordinators."""

    def __init__(self, world: World, who: str) -> None:
        self.world, self.who = world, who
        self._channels: dict[int, SimulatedChannel] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    async def ask(self, node: int, api: str, version: int, timeout_s: float = ASK_S, /, **fields: Any) -> Any:
        """Send a request to a node and return the response. Raises Again."""
        channel = self._channels.get(node)
        if channel is None:
            channel = self._channels[node] = self.world.client_host.channel(f"n{node}", 9092, self.who)
        try:
            return await channel.call(api, version, timeout_s=timeout_s, **fields)
        except Unanswered as error:
            raise Again(f"{api} at {node}: {error}") from None

    def any_broker(self) -> int:
        """Return a random broker's id; the broker may be down."""
        return self.world.random.choice(self.world.broker_ids)

    def partition(self, place: TopicPartition) -> PartitionState:
        """Return the partition's state in the metadata image of some node. Raises Again."""
        image = self.world.some_image()
        topic = None if image is None else image.topics.get(place[0])
        if topic is None or place[1] not in topic.partitions:
            raise Again(f"{place} is not known")
        return topic.partitions[place[1]]

    def leader(self, place: TopicPartition) -> int:
        """Return the partition's leader. Raises Again."""
        leader = self.partition(place).leader
        if leader < 0:
            raise Again(f"{place} has no leader")
        return leader

    async def coordinator(self, kind: int, key: str) -> int:
        """Return the node that coordinates a group or a transactional id. Raises Again."""
        known = self._coordinators.get((kind, key))
        if known is None:
            answer = await self.ask(self.any_broker(), "find_coordinator", 6, key_type=kind, coordinator_keys=[key])
            (found,) = answer.coordinators
            if found.error_code != NONE:
                raise Again(f"coordinator of {key}: {ErrorCode(found.error_code).name}")
            known = self._coordinators[kind, key] = found.node_id
        return known

    def forget(self, kind: int, key: str) -> None:
        """Look the coordinator up again at the next request, since it may have moved."""
        self._coordinators.pop((kind, key), None)

    async def produce(
        self, place: TopicPartition, records: bytearray, transactional_id: str | None = None, version: int = 12
    ) -> tuple[ErrorCode, int]:
        """Produce records to the partition's leader with acks=all. Returns error code and base offset. Raises Again."""
        topics = (TopicProduceData(place[0], (PartitionProduceData(place[1], memoryview(bytearray(records))),)),)
        request = ProduceRequest(transactional_id, -1, PRODUCE_MS, topics)
        answer = await self.ask(self.leader(place), "produce", version, request=request)
        found = answer.responses[0].partition_responses[0]
        return found.error_code, found.base_offset

    async def rest(self, most_ms: int) -> None:
        """Sleep for a random time between a quarter of `most_ms` and `most_ms`."""
        await self.world.sleep_ms(self.world.random.randrange(most_ms // 4, most_ms))


class Idempotent(Client):
    """An idempotent producer, which repeats each batch until it is acknowledged."""

    async def live(self) -> None:
        world = self.world
        while not world.is_ending:
            producer = await self._init()
            sequences: dict[TopicPartition, int] = {}
            for _ in range(world.random.randrange(5, 60)):
                place = world.random.choice(world.places)
                await self._send(place, producer, sequences)
                await self.rest(1_600)
                if world.is_ending:
                    return

    async def _init(self) -> tuple[int, int]:
        while True:
            try:
                answer = await self.ask(
                    self.any_broker(),
                    "init_producer_id",
                    5,
                    transactional_id=None,
                    transaction_timeout=timedelta(0),
                    producer_id=-1,
                    producer_epoch=-1,
                )
            except Again as why:
                self.world.note(self.who, f"{why}")
            else:
                if answer.error_code == NONE:
                    return answer.producer_id, answer.producer_epoch
                self.world.note(self.who, f"InitProducerId: {ErrorCode(answer.error_code).name}")
            await self.rest(500)

    async def _send(
        self, place: TopicPartition, producer: tuple[int, int], sequences: dict[TopicPartition, int]
    ) -> None:
        world = self.world
        values = [world.next_value(self.who) for _ in range(world.random.choice((1, 1, 1, 2, 3)))]
        sequence = sequences.get(place, 0)
        records = batch(*values, producer=producer, sequence=sequence, timestamp_ms=world.now_ms)
        while True:
            try:
                code, offset = await self.produce(place, records)
            except Again as why:
                world.note(self.who, f"{place} {values[0]!r}: {why}")
            else:
                world.note(self.who, f"{place} {values[0]!r} seq {sequence}: {code.name} {offset}")
                if code in DONE:
                    world.acknowledged.told(place, offset, values)
                    sequences[place] = sequence + len(values)
                    world.progressed(self.who)
                    return
            await self.rest(1_000)


class Transactional(Client):
    """A transactional producer. With an odd seed it follows the protocol before KIP-890, as librdkafka still does: it
    sends AddPartitionsToTxn, and its sequences continue from one transaction to the next. Its epoch stays the same,
    too, so that a late marker of the previous transaction would end the current one; the network therefore delivers
    WriteTxnMarkers without delay. KIP-890 removes this restriction."""

    def __init__(self, world: World, who: str) -> None:
        super().__init__(world, who)
        self._is_old = world.seed % 2 == 1
        if self._is_old:
            world.network.prompt = frozenset({"write_txn_markers"})
        self._added: set[TopicPartition] = set()

    async def live(self) -> None:
        world = self.world
        while not world.is_ending:
            try:
                await self._init()
                while not world.is_ending:
                    await self.rest(1_500)
                    await self._transaction()
                    world.progressed(self.who)
            except Again as why:
                world.note(self.who, f"begins anew: {why}")
                self.forget(TRANSACTION_KEY, self.who)
                await self.rest(1_000)

    async def _init(self) -> None:
        node = await self.coordinator(TRANSACTION_KEY, self.who)
        answer = await self.ask(
            node,
            "init_producer_id",
            5,
            transactional_id=self.who,
            transaction_timeout=timedelta(seconds=10),
            producer_id=-1,
            producer_epoch=-1,
        )
        if answer.error_code != NONE:
            raise Again(f"InitProducerId: {ErrorCode(answer.error_code).name}")
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences: dict[TopicPartition, int] = {}

    async def _transaction(self) -> None:
        """Run one transaction. After Again its outcome is unknown: it may be committed, aborted or still open."""
        world, random = self.world, self.world.random
        one = world.transactions.begin(f"{self.who} {self._producer}")
        self._added.clear()
        for place in random.sample(world.places, random.choice((1, 2))):
            await self._write(one, place)
        commits = random.random() < 0.7
        one.asked = commits
        for _ in range(20):
            try:
                answer = await self._end(commits)
            except Again as why:
                world.note(self.who, f"EndTxn: {why}")
                self.forget(TRANSACTION_KEY, self.who)
            else:
                code = answer.error_code
                world.note(self.who, f"EndTxn {commits}: {code.name}")
                if code == NONE:
                    one.committed, one.aborted = commits, not commits
                    if not self._is_old and (answer.producer_id, answer.producer_epoch) != self._producer:
                        self._producer = answer.producer_id, answer.producer_epoch
                        self._sequences = {}
                    return
                if code not in PASSING:
                    raise Again(f"EndTxn: {code.name}")
                if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    self.forget(TRANSACTION_KEY, self.who)
            await self.rest(500)
        raise Again("EndTxn: too often")

    async def _end(self, commits: bool) -> Any:
        node = await self.coordinator(TRANSACTION_KEY, self.who)
        producer_id, epoch = self._producer
        return await self.ask(
            node,
            "end_txn",
            4 if self._is_old else 5,
            transactional_id=self.who,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commits,
        )

    async def _add(self, place: TopicPartition) -> ErrorCode:
        """Add the partition to the transaction; return the error code. Raises Again."""
        if place in self._added:
            return NONE
        node = await self.coordinator(TRANSACTION_KEY, self.who)
        producer_id, epoch = self._producer
        answer = await self.ask(
            node,
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=self.who,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[{"name": place[0], "partitions": [place[1]]}],
        )
        code: ErrorCode = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        if code == NONE:
            self._added.add(place)
        else:
            self.forget(TRANSACTION_KEY, self.who)
        return code

    async def _write(self, one: Transaction, place: TopicPartition) -> None:
        world = self.world
        value = world.next_value(self.who)
        world.transactions.tries(one, place, value)
        sequence = self._sequences.get(place, 0)
        records = batch(
            value, producer=self._producer, sequence=sequence, transactional=True, timestamp_ms=world.now_ms
        )
        for _ in range(20):
            try:
                code, offset = (await self._add(place), -1) if self._is_old else (NONE, -1)
                if code == NONE:
                    code, offset = await self.produce(place, records, self.who, 11 if self._is_old else 12)
            except Again as why:
                self.forget(TRANSACTION_KEY, self.who)
                world.note(self.who, f"{place} {value!r}: {why}")
            else:
                world.note(self.who, f"{place} {value!r} seq {sequence} of {self._producer}: {code.name} {offset}")
                if code in DONE:
                    world.acknowledged.told(place, offset, [value])
                    one.writes.append((place, value))
                    self._sequences[place] = sequence + 1
                    return
                must(
                    code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or world.has_former_leader(place),
                    f"{self.who} sends one batch after the other",
                )
                if code not in PASSING:
                    raise Again(f"Produce: {code.name}")
            await self.rest(800)
        raise Again("Produce: too often")


PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NETWORK_EXCEPTION,
)


class Reader(Client):
    """A consumer with isolation level read_committed. positions: the next offset to read, by partition."""

    def __init__(self, world: World, who: str) -> None:
        super().__init__(world, who)
        self.positions: dict[TopicPartition, int] = {}
        self._aborted: dict[TopicPartition, set[int]] = {}

    async def live(self) -> None:
        world = self.world
        while not world.is_ending:
            for place in world.places:
                await self._try(place)
            await self.rest(1_500)

    async def to_the_end(self) -> None:
        """Read on until the position in each partition is the log end offset."""
        for place in self.world.places:
            while self.positions.get(place, 0) < self.world.end_of(place):
                await self._try(place)
                await self.world.sleep_ms(50)

    async def _try(self, place: TopicPartition) -> None:
        try:
            await self._read(place)
            self.world.progressed(self.who)
        except Again as why:
            self.world.note(self.who, f"{place}: {why}")

    async def _read(self, place: TopicPartition) -> None:
        world, begin = self.world, self.positions.get(place, 0)
        asked = {
            "partition": place[1],
            "current_leader_epoch": -1,
            "fetch_offset": begin,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        topic_id = world.topic_id(place[0])
        if topic_id is None:
            raise Again(f"{place[0]} is not known")
        answer = await self.ask(
            self.leader(place),
            "fetch",
            17,
            max_wait=timedelta(0),
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=1,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic_id": topic_id, "partitions": [asked]}],
        )
        if answer.error_code != NONE or not answer.responses:
            raise Again(f"fetch: {ErrorCode(answer.error_code).name}")
        found = answer.responses[0].partitions[0]
        if found.error_code != NONE:
            raise Again(f"fetch: {ErrorCode(found.error_code).name}")
        self._take(place, begin, bytes(found.records or b""), found.aborted_transactions or ())

    def _take(self, place: TopicPartition, begin: int, data: bytes, aborted: Any) -> None:
        """Report the committed records to the checks. As a consumer does, skip the records of an aborted transaction,
        from its first offset to its marker."""
        waiting = sorted((each.first_offset, each.producer_id) for each in aborted)
        over: set[int] = set()
        for one in batches(data):
            while waiting and waiting[0][0] <= one.last_offset:
                over.add(waiting.pop(0)[1])
            if one.is_control:
                over.discard(one.producer_id)
            elif not (one.is_transactional and one.producer_id in over):
                for offset, value in enumerate(one.values(), one.base_offset):
                    if offset >= begin:
                        self.world.transactions.seen(place, offset, value)
            self.positions[place] = max(one.last_offset + 1, self.positions.get(place, 0))


class Member(Client):
    """A member of a classic group. The leader assigns the partitions in turn."""

    def __init__(self, world: World, who: str, group: str) -> None:
        super().__init__(world, who)
        self.group = group
        self._id = ""

    async def live(self) -> None:
        world = self.world
        while not world.is_ending:
            try:
                generation, partitions = await self._join()
                while not world.is_ending:
                    await self.rest(1_600)
                    if partitions and world.random.random() < 0.5:
                        await self._commit(generation, world.random.choice(partitions))
                    else:
                        await self._heartbeat(generation)
                    world.progressed(self.who)
            except Again as why:
                world.note(self.who, f"again: {why}")
                await self.rest(800)

    async def _group(self, api: str, version: int, /, timeout_s: float = ASK_S, **fields: Any) -> Any:
        node = await self.coordinator(GROUP_KEY, self.group)
        try:
            answer = await self.ask(node, api, version, timeout_s, group_id=self.group, **fields)
        except Again:
            self.forget(GROUP_KEY, self.group)
            raise
        code = getattr(answer, "error_code", NONE)
        if code not in (NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self._failed(api, code)
        return answer

    def _failed(self, api: str, code: ErrorCode) -> None:
        self.forget(GROUP_KEY, self.group)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._id = ""
        raise Again(f"{api}: {code.name}")

    async def _join(self) -> tuple[int, list[int]]:
        joined = await self._join_once()
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = joined.member_id
            joined = await self._join_once()
        if joined.error_code != NONE:
            self._failed("JoinGroup", joined.error_code)
        self._id, generation = joined.member_id, joined.generation_id
        assignments = []
        if joined.leader == self._id:
            members = sorted(each.member_id for each in joined.members)
            given: dict[str, list[int]] = {each: [] for each in members}
            for number in range(GROUP_PARTITIONS):
                given[members[number % len(members)]].append(number)
            assignments = [{"member_id": each, "assignment": bytes(numbers)} for each, numbers in given.items()]
        synced = await self._group(
            "sync_group",
            5,
            timeout_s=20.0,
            generation_id=generation,
            member_id=self._id,
            protocol_type="other",
            protocol_name="p",
            assignments=assignments,
        )
        partitions = list(synced.assignment)
        self.world.note(self.who, f"generation {generation}: {partitions}")
        self.world.assignments.told(self.group, self._id, generation, partitions)
        return generation, partitions

    async def _join_once(self) -> Any:
        return await self._group(
            "join_group",
            9,
            timeout_s=20.0,
            session_timeout=timedelta(seconds=6),
            rebalance_timeout=timedelta(seconds=8),
            member_id=self._id,
            protocol_type="other",
            protocols=[{"name": "p", "metadata": b"x"}],
        )

    async def _heartbeat(self, generation: int) -> None:
        await self._group("heartbeat", 4, generation_id=generation, member_id=self._id)

    async def _commit(self, generation: int, number: int) -> None:
        partition = {
            "partition_index": number,
            "committed_offset": self.world.next_offset(),
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = await self._group(
            "offset_commit",
            9,
            generation_id_or_member_epoch=generation,
            member_id=self._id,
            topics=[{"name": WORK, "partitions": [partition]}],
        )
        code = answer.topics[0].partitions[0].error_code
        if code != NONE:
            self._failed("OffsetCommit", code)

    async def committed(self, number: int) -> int | None:
        """Return the offset that the coordinator has committed. Raises Again."""
        group = {"group_id": self.group, "topics": [{"name": WORK, "partition_indexes": [number]}]}
        node = await self.coordinator(GROUP_KEY, self.group)
        try:
            answer = await self.ask(node, "offset_fetch", 9, groups=[group | {"member_epoch": -1}], require_stable=True)
        finally:
            self.forget(GROUP_KEY, self.group)
        (found,) = answer.groups
        if found.error_code != NONE:
            raise Again(f"OffsetFetch: {ErrorCode(found.error_code).name}")
        (partition,) = found.topics[0].partitions
        if partition.error_code != NONE:
            raise Again(f"OffsetFetch: {ErrorCode(partition.error_code).name}")
        offset: int = partition.committed_offset
        return offset


class Admin(Client):
    """An admin client. created: the topics whose creation was acknowledged."""

    def __init__(self, world: World, who: str) -> None:
        super().__init__(world, who)
        self.created: list[str] = []

    async def create(self, name: str, partitions: int) -> None:
        """Until it is there."""
        while True:
            topic = {"name": name, "num_partitions": partitions, "replication_factor": 3}
            try:
                answer = await self.ask(
                    self.any_broker(), "create_topics", 7, 12.0, topics=[topic], timeout=timedelta(seconds=8)
                )
            except Again as why:
                self.world.note(self.who, f"{name}: {why}")
            else:
                (found,) = answer.topics
                self.world.note(self.who, f"{name}: {ErrorCode(found.error_code).name} {found.error_message}")
                if found.error_code in (NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self.created.append(name)
                    return
            await self.rest(1_000)

    async def live(self) -> None:
        world, random = self.world, self.world.random
        while not world.is_ending:
            await self.rest(16_000)
            if world.is_calm:
                continue
            if random.random() < 0.4:
                await self.create(f"t{len(self.created)}", random.choice((1, 2)))
            else:
                await self.move(random.choice(world.places))

    async def move(self, place: TopicPartition) -> None:
        """Reassign a partition to other replicas, or to the same ones in another order."""
        random = self.world.random
        replicas = random.sample(self.world.broker_ids, random.choice((2, 3, 3)))
        try:
            answer = await self.ask(
                self.any_broker(),
                "alter_partition_reassignments",
                1,
                12.0,
                timeout=timedelta(seconds=8),
                allow_replication_factor_change=True,
                topics=[{"name": place[0], "partitions": [{"partition_index": place[1], "replicas": replicas}]}],
            )
        except Again as why:
            self.world.note(self.who, f"move {place}: {why}")
        else:
            self.world.note(self.who, f"move {place} to {replicas}: {ErrorCode(answer.error_code).name}")
