"""A transactional producer as clients implement it: of transaction version 2 (KIP-890), or older.

It repeats requests after retriable errors, as often as clients do, and raises Failed after others. Produce and
TxnOffsetCommit go through their handlers, which ask the coordinator for the transaction first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from formats.batch_writer import write_batch
from kcli.broker.api.produce import produce
from kcli.broker.api.txn_offset_commit import txn_offset_commit
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transactions import ask_producer
from kcli.broker.wire.messages import entity_reader, messages
from kcli.broker.wire.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.group.records import TOPIC as GROUPS
from kcli.group.requests import CommitOffsets
from kcli.log.live.validator import TRANSACTIONAL
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.requests import AddPartitions, EndTransaction, InitProducerId
from tests.sim.checks import Transaction
from tests.sim.network import Lost
from tests.sim.node import INPUT, OUTPUT

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

TIMEOUTS_MS = (8_000, 25_000)
TRIES = 12
BACKOFF_MS = 200
PRODUCE_MS = 2_500
PRODUCE = 0
FRAME_HEAD = 9
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)

UNKNOWN = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""Errors after which the log may have the batch nevertheless."""


class Failed(Exception):
    """An error that is not retriable: the transaction, or the producer, cannot go on."""


class Producer:
    """A transactional producer. name: its transactional id."""

    def __init__(self, world: World, who: str, name: str, *, is_modern: bool) -> None:
        self.world, self.who, self.name, self.is_modern = world, who, name, is_modern
        self.timeout_ms = world.random.choice(TIMEOUTS_MS)
        self.id = self.epoch = -1
        self._sequences: dict[int, int] = {}
        self._added: set[TopicPartition] = set()

    async def _retried(self, what: str, run: Callable[[Node], Awaitable[ErrorCode]], tries: int = TRIES) -> None:
        """Repeat a request until it succeeds. Raises Failed, Lost."""
        is_lost = False
        for _ in range(tries):
            try:
                code = await self.world.network.ask(self.who, what, run, in_order=not self.is_modern)
            except CoordinatorError as error:
                code = error.code
            except Lost:
                is_lost = True
                code = None
            if code == ErrorCode.NONE:
                return
            if code is not None and code not in PASSING:
                raise Failed(f"{what}: {code.name}")
            await self.world.sleep_ms(BACKOFF_MS)
        if is_lost:
            raise Lost
        raise Failed(f"{what}: {code}")

    async def init(self) -> None:
        """Send InitProducerId, sometimes with the former producer id and epoch (KIP-360). Raises Failed, Lost."""
        known = (self.id, self.epoch) if self.world.random.random() < 0.5 else (-1, -1)
        request = InitProducerId(self.name, self.timeout_ms, *known)

        async def run(node: Node) -> ErrorCode:
            code, *producer = await ask_producer(node.broker.transactions, node.broker.producer_ids, self.name, request)
            if code == ErrorCode.NONE and node.is_alive:
                self.world.ledger.initialized(self.name, (producer[0], producer[1]))
                given.append((producer[0], producer[1]))
            return code

        given: list[tuple[int, int]] = []
        self.id = self.epoch = -1
        await self._retried(f"InitProducerId {known}", run, tries=40)
        self.id, self.epoch = given[-1]
        self._sequences.clear()
        self._added.clear()

    def begin(self) -> Transaction:
        """Begin a transaction; the broker learns of it with the first Produce or AddPartitionsToTxn."""
        self._added.clear()
        return self.world.ledger.begin(self.name, (self.id, self.epoch))

    async def _add(self, place: TopicPartition) -> None:
        """Send AddPartitionsToTxn or AddOffsetsToTxn, as clients before KIP-890 do ahead of each new partition."""
        if self.is_modern or place in self._added:
            return
        request = AddPartitions(self.name, self.id, self.epoch, frozenset({place}), 0)

        async def run(node: Node) -> ErrorCode:
            return ErrorCode((await node.broker.transactions.handle(self.name, request)).value)

        await self._retried(f"AddPartitionsToTxn {place}", run)
        self._added.add(place)

    async def send(self, transaction: Transaction, number: int, values: list[bytes]) -> None:
        """Produce to a partition of the output, at times in batches that arrive out of order. Raises Failed, Lost."""
        await self._add(TopicPartition(OUTPUT, number))
        sequence = self._sequences.get(number, 0)
        parts = [values]
        if self.is_modern and len(values) > 1 and self.world.random.random() < 0.5:
            parts = [[value] for value in values]
        self._sequences[number] = sequence + len(values)
        sent = [self._send(number, sequence + i, part) for i, part in enumerate(parts)]
        for failure in await asyncio.gather(*sent, return_exceptions=True):
            if failure is not None:
                raise failure
        transaction.writes += [(number, value) for value in values]

    async def _send(self, number: int, sequence: int, values: list[bytes]) -> None:
        version = 12 if self.is_modern else 9
        data = bytes(
            write_batch(
                [(None, value) for value in values],
                self.world.cluster.clock.now_ms(),
                attributes=TRANSACTIONAL,
                producer_id=self.id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
            )
        )

        async def run(node: Node) -> ErrorCode:
            return await _produce(node, version, self.name, number, data)

        await self._retried(f"Produce {self.id, self.epoch, sequence} {number}: {values}", run)

    async def send_offsets(self, transaction: Transaction, request: CommitOffsets) -> None:
        """Send TxnOffsetCommit. Raises Failed, Lost."""
        partition = self.world.group_partition(request.group_id)
        await self._add(TopicPartition(GROUPS, partition))
        version = 5 if self.is_modern else 3
        asked = _offset_commit(request, self.name, self.id, self.epoch)

        async def run(node: Node) -> ErrorCode:
            call: Any = SimpleNamespace(
                request=asked,
                version=version,
                get=lambda name, default: getattr(asked, name, default),
                new=lambda _, **values: SimpleNamespace(**values),
                respond=SimpleNamespace,
            )
            answer = await txn_offset_commit(node.broker, call)
            codes = [each.error_code for topic in answer.topics for each in topic.partitions]
            return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)

        offsets = {(request.group_id, each.partition): each.offset for each in request.offsets}
        await self._retried(f"TxnOffsetCommit {self.id, self.epoch} {offsets}", run)
        transaction.offsets |= offsets

    async def end(self, transaction: Transaction, *, commit: bool) -> None:
        """Send EndTxn. Raises Failed, Lost."""
        request = EndTransaction(self.name, self.id, self.epoch, commit, 2 if self.is_modern else 0)
        if not (self.is_modern or self._added):
            return  # no request of the transaction was sent
        given: list[tuple[int, int]] = []

        async def run(node: Node) -> ErrorCode:
            had_asked = transaction.asked
            transaction.asked = had_asked or commit
            code = None
            try:
                code, *producer = await ask_producer(
                    node.broker.transactions, node.broker.producer_ids, self.name, request
                )
            finally:
                if node.is_alive and code == ErrorCode.NONE:
                    self.world.ledger.ended(transaction, commit=commit)
                    given.append((producer[0], producer[1]))
                elif node.is_alive and code not in UNKNOWN:
                    transaction.asked = had_asked
            assert code is not None
            return code

        kind = "commit" if commit else "abort"
        await self._retried(f"EndTxn {self.id, self.epoch} {transaction.number}: {kind}", run)
        if self.is_modern:
            self.id, self.epoch = given[-1]
            self._sequences.clear()


async def _produce(node: Node, version: int, name: str, number: int, data: bytes) -> ErrorCode:
    kind = messages(PRODUCE, version)
    batches = PartitionProduceData(number, memoryview(data))
    request = ProduceRequest(name, -1, PRODUCE_MS, (TopicProduceData(OUTPUT, (batches,)),))
    call: Any = SimpleNamespace(
        request=request,
        version=version,
        messages=kind,
        client_id="",
        listener="",
        header=SimpleNamespace(correlation_id=0),
        now_ms=node.broker.clock.now_ms(),
    )
    answer: Any = produce(node.broker, call)
    if isawaitable(answer):
        answer = await answer
    response: Any = entity_reader(kind.response_type)(bytes(answer[0]), FRAME_HEAD)[0]
    code: ErrorCode = response.responses[0].partition_responses[0].error_code
    return code


def _offset_commit(request: CommitOffsets, name: str, producer_id: int, epoch: int) -> SimpleNamespace:
    return SimpleNamespace(
        transactional_id=name,
        group_id=request.group_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        member_id=request.member_id,
        group_instance_id=request.instance_id,
        generation_id=request.generation,
        topics=(
            SimpleNamespace(
                name=INPUT,
                partitions=tuple(
                    SimpleNamespace(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                    for each in request.offsets
                ),
            ),
        ),
    )
