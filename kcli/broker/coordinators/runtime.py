"""Runs the machines of a coordinator: one for each partition of its topic that this broker leads.

    load      all records of the partition, read by a thread, replayed in slices; requests are told to come again
    ask       the machine of a key's partition handles the request; whoever waits is answered when the machine says so
    append    what the machine wants written, replayed once it is; else a new machine starts from the log
    answer    once all that the machine has replayed by then is committed: see uncommitted.py
    resign    another broker leads the partition: whoever waits is told so, the machine is dropped

While too few replicas are in sync, what would have to be written is refused with COORDINATOR_NOT_AVAILABLE. A machine
that has gone ahead of its records in memory is made anew after a while, which begins its members' sessions again.

Source: CoordinatorRuntime, GroupCoordinatorService, Utils.abs(String.hashCode()).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from formats.batch_writer import write_batch
from kcli.broker.coordinators.log import LoggedBatch, read_log
from kcli.broker.coordinators.other_brokers import OtherBrokers
from kcli.broker.coordinators.uncommitted import Uncommitted
from kcli.broker.network.messages import ErrorCode
from kcli.broker.unattended import begin, report
from kcli.coordinator import Batch, Machine, Outcome
from kcli.errors import KcliError
from kcli.java import java_hash
from kcli.log.partition_log import LogFailed
from kcli.log.validator import TRANSACTIONAL, AppendRefused, Origin

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.logs.partitions import Partition
    from kcli.metadata.changes import Changes
    from kcli.metadata.partition import Topic

log = logging.getLogger("kcli.broker")
SLICE_BATCHES = 200
FAILURES_MAX = 3
RETRY_S = 0.5
KEYS_KEPT = 10_000
INT_MIN = -(1 << 31)
NOTHING = Outcome()


class CoordinatorError(KcliError):
    """Why a coordinator does not answer: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE; or
    why a log has refused a transaction's batch."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class NotEnoughReplicas(KcliError):
    """Nothing can be appended for now."""


@lru_cache(maxsize=KEYS_KEPT)
def partition_of(key: str, count: int) -> int:
    """The partition, of so many, that a group or a transactional id belongs to."""
    value = java_hash(key)
    return 0 if value == INT_MIN else abs(value) % count


class _Shard:
    """One partition's machine, and who waits for its answers."""

    def __init__(self, number: int, topic_id: UUID, machine: Machine) -> None:
        self.number = number
        self.topic_id = topic_id
        self.machine = machine
        self.uncommitted: Uncommitted | None = None
        self.is_loaded = False
        self.has_failed = False
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.timer_ms: int | None = None
        self.task: asyncio.Task[None] | None = None

    def end(self, code: ErrorCode) -> None:
        """The machine is not used any more."""
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None:
            self.task.cancel()
        if self.uncommitted is not None:
            self.uncommitted.end()
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(CoordinatorError(code))
        self.waiting.clear()

    def refuse(self, outcome: Outcome, code: ErrorCode) -> None:
        """Whom it would answer are refused."""
        for token, _ in outcome.answers:
            future = self.waiting.get(token)
            if future is not None and not future.done():
                future.set_exception(CoordinatorError(code))


class Work(NamedTuple):
    """What a coordinator does. make(number): a new machine. act(message, number): what a machine tells.
    follow(changes): what the metadata's changes mean to machines that there are. base_sequence: of every batch, also of
    those for producers: coordinators do not count. commit_timeout_ms: how long answers wait for their records' commit.
    changes_nothing(request): may the machine go on as it is, if what it wants written for that request is not?"""

    make: Callable[[int], Machine]
    act: Callable[[Any, int], None] = lambda *_: None
    follow: Callable[[Changes], None] = lambda _: None
    base_sequence: int = -1
    commit_timeout_ms: int = 5_000
    changes_nothing: Callable[[Any], bool] = lambda _: False


class Coordinator:
    """The machines of one topic. prepare: tells what they are, when there is the first: a broker without groups and
    transactions starts without the modules of either."""

    def __init__(self, broker: Broker, topic: str, prepare: Callable[[], Work]) -> None:
        self.topic = topic
        self._broker = broker
        self._prepare = prepare
        self._shards: dict[int, _Shard] = {}
        self._is_started = False
        self._next_token = 0

    @cached_property
    def work(self) -> Work:
        """What it does."""
        return self._prepare()

    # which partitions are this broker's

    def start(self) -> None:
        """Load what there is. Then `apply` whatever changes. Not before this life of the broker is registered: the
        controller may not know yet that the one before it has ended, and this one not have all that it had written."""
        self._is_started = True
        self._follow()

    def apply(self, changes: Changes) -> None:
        """The metadata has changed."""
        if not self._is_started:
            return
        if changes.partitions or changes.topics_deleted:
            self._follow()
        if self._shards:
            self.work.follow(changes)

    def _follow(self) -> None:
        """A later epoch of this broker's own does not matter: what it had appended before is still in its log."""
        topic = self._broker.image.topics.get(self.topic)
        led = set() if topic is None else {
            number for number, state in topic.partitions.items() if state.leader == self._broker.node_id
        }  # fmt: skip
        for number in [number for number, shard in self._shards.items() if not _is_same(shard, topic, led)]:
            self._shards.pop(number).end(ErrorCode.not_coordinator)
        if topic is not None:
            for number in led:
                if number not in self._shards:
                    self._load(number, topic.id)

    def stop(self) -> None:
        """End all machines."""
        self._is_started = False
        for shard in self._shards.values():
            shard.end(ErrorCode.not_coordinator)
        self._shards.clear()

    @property
    def partition_count(self) -> int:
        """Partitions of the topic; 0 before there is one."""
        topic = self._broker.image.topics.get(self.topic)
        return 0 if topic is None else len(topic.partitions)

    def partition_of(self, key: str) -> int:
        """The partition that a group or a transactional id belongs to. Raises CoordinatorError."""
        count = self.partition_count
        if not count:
            raise CoordinatorError(ErrorCode.not_coordinator)
        return partition_of(key, count)

    def leader_of(self, key: str) -> int:
        """The broker whose machine it is, -1 for none now. Raises CoordinatorError."""
        number = self.partition_of(key)
        return self._broker.image.topics[self.topic].partitions[number].leader

    @cached_property
    def others(self) -> OtherBrokers:
        """The brokers that lead the topic's other partitions."""
        return OtherBrokers(self._broker, f"broker-{self._broker.node_id}-{self.topic}")

    # loading

    def _load(self, number: int, topic_id: UUID, delay_s: float = 0) -> None:
        shard = self._shards[number] = _Shard(number, topic_id, self.work.make(number))

        def failed(_: BaseException) -> None:
            shard.has_failed = True

        shard.task = begin(self._replay_log(shard, delay_s), f"{self.topic}-{number} cannot be loaded", failed)

    async def _replay_log(self, shard: _Shard, delay_s: float) -> None:
        """Again, with a new machine, where a marker came or the cleaner has been at the log meanwhile."""
        if delay_s:
            await asyncio.sleep(delay_s)
        failures = 0
        while True:
            try:
                if await self._replay_once(shard):
                    break
            except Exception:
                failures += 1
                if failures == FAILURES_MAX:
                    raise
            shard.machine = self.work.make(shard.number)
        shard.task = None
        shard.uncommitted = Uncommitted(
            self._partition(shard.number),
            self.work.commit_timeout_ms,
            partial(self._release, shard),
            lambda outcome: shard.refuse(outcome, ErrorCode.coordinator_not_available),
        )
        shard.is_loaded = True
        self._do(shard, shard.machine.loaded)

    async def _replay_once(self, shard: _Shard) -> bool:
        """Is the log still as it was?"""
        opened = self._partition(shard.number).log
        end_offset = opened.log_end_offset
        if end_offset > opened.log_start_offset:
            batches = await asyncio.get_running_loop().run_in_executor(None, list, read_log(opened))
            await self._replay_slices(shard, batches)
        return opened.log_end_offset == end_offset

    async def _replay_slices(self, shard: _Shard, batches: Sequence[LoggedBatch]) -> None:
        for i, batch in enumerate(batches):
            _replay(shard.machine, batch)
            if i % SLICE_BATCHES == SLICE_BATCHES - 1:
                await asyncio.sleep(0)

    def _partition(self, number: int) -> Partition:
        partition = self._broker.partitions.get(self.topic, number)
        if partition is None:
            raise CoordinatorError(ErrorCode.not_coordinator)
        return partition

    # requests

    def led(self) -> list[int]:
        """The partitions that this broker leads, loaded or not."""
        return list(self._shards)

    def is_loaded(self, number: int) -> bool:
        """Can that partition's machine be asked?"""
        shard = self._shards.get(number)
        return shard is not None and shard.is_loaded

    async def ask(self, key: str, request: Any) -> Any:
        """The answer of the machine that the key belongs to. Raises CoordinatorError."""
        return await self.ask_shard(self.partition_of(key), request)

    async def ask_shard(self, number: int, request: Any) -> Any:
        """The answer of one machine. Raises CoordinatorError."""
        return await self._send(number, request)

    def send(self, key: str, request: Any) -> asyncio.Future[Any]:
        """As `ask`, and done already where the machine has answered at once. Raises CoordinatorError, here or there."""
        return self._send(self.partition_of(key), request)

    def _send(self, number: int, request: Any) -> asyncio.Future[Any]:
        shard = self._shards.get(number)
        if shard is None or shard.has_failed:
            raise CoordinatorError(ErrorCode.not_coordinator)
        if not shard.is_loaded:
            raise CoordinatorError(ErrorCode.coordinator_load_in_progress)
        token = self._token()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        shard.waiting[token] = future
        self._do(shard, partial(shard.machine.handle, token, request), request)
        if future.done():
            shard.waiting.pop(token, None)
        else:
            future.add_done_callback(lambda _: shard.waiting.pop(token, None))
        return future

    def tell_all(self, request: Any) -> None:
        """Have every machine that is loaded handle the request; nobody waits for answers."""
        for shard in list(self._shards.values()):
            if shard.is_loaded:
                self._do(shard, partial(shard.machine.handle, self._token(), request), request)

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def _do(self, shard: _Shard, step: Callable[[int], Outcome], request: Any = None) -> None:
        """Have the machine do something, at a time; then append, replay, answer, act, and wait for its deadline."""
        outcome = NOTHING
        now_ms = self._broker.clock.now_ms()
        try:
            outcome = step(now_ms)
            for batch in outcome.batches:
                self._append(shard, batch, now_ms)
        except NotEnoughReplicas as lacking:
            if self.work.changes_nothing(request):
                self._refuse(shard, outcome, ErrorCode.coordinator_not_available)
            else:
                self._start_again(shard, lacking, RETRY_S)
            return
        except AppendRefused as refused:
            if any(batch.producer_id < 0 for batch in outcome.batches):
                self._start_again(shard, refused)
            else:
                self._refuse(shard, outcome, ErrorCode(refused.error.value))
            return
        except Exception as error:  # noqa: BLE001  (a machine that was interrupted is never asked again)
            self._start_again(shard, error)
            return
        if outcome.answers or outcome.messages:
            uncommitted = shard.uncommitted
            assert uncommitted is not None, "loaded"
            if uncommitted.must_wait:
                uncommitted.hold(outcome)
            else:
                self._release(shard, outcome)
        self._expect(shard)

    def _release(self, shard: _Shard, outcome: Outcome) -> None:
        """It is committed, with all that the machine knew."""
        for token, response in outcome.answers:
            future = shard.waiting.get(token)
            if future is not None and not future.done():
                future.set_result(response)
        for message in outcome.messages:
            self.work.act(message, shard.number)

    def _refuse(self, shard: _Shard, outcome: Outcome, code: ErrorCode) -> None:
        """A batch of a transaction, whose producer the log knows better: what it holds would count from its marker on.
        Or one for which there are not enough replicas. The machine has not begun to go by it."""
        shard.refuse(outcome, code)
        self._expect(shard)

    def _append(self, shard: _Shard, batch: Batch, now_ms: int) -> None:
        partition = self._partition(shard.number)
        if partition.lacks_replicas:
            raise NotEnoughReplicas("too few replicas are in sync")
        is_transactional = batch.producer_id >= 0
        data = write_batch(
            batch.records,
            now_ms,
            attributes=TRANSACTIONAL if is_transactional else 0,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=self.work.base_sequence,
        )
        try:
            appended = partition.append_as_leader(data, now_ms, origin=Origin.COORDINATOR)
        except OSError as error:
            partition.failed(error)
            raise
        for offset, record in enumerate(batch.records, appended.first_offset):
            shard.machine.replay(record, offset, batch.producer_id, batch.producer_epoch)

    def marker_written(self, number: int, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """A transaction's marker is in the partition's log: offsets that it committed count from now on."""
        shard = self._shards.get(number)
        if shard is not None and shard.is_loaded:
            shard.machine.replay_marker(producer_id, producer_epoch, commit=commit)

    def _start_again(self, shard: _Shard, error: Exception, delay_s: float = 0) -> None:
        """What the machine wanted written is not: it may not go on as if it were."""
        report(f"{self.topic}-{shard.number}: not appended", error)
        shard.end(ErrorCode.coordinator_not_available)
        if self._shards.get(shard.number) is shard:
            self._load(shard.number, shard.topic_id, delay_s)

    def _expect(self, shard: _Shard) -> None:
        """A timer that comes too early stays, and is set anew then: deadlines are put off far more often than met."""
        deadline_ms = shard.machine.deadline_ms()
        if deadline_ms is not None and shard.timer_ms is not None and deadline_ms >= shard.timer_ms:
            return
        if shard.timer is not None:
            shard.timer.cancel()
            shard.timer = None
        shard.timer_ms = deadline_ms
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self._broker.clock.now_ms()) / 1000
            shard.timer = asyncio.get_running_loop().call_later(delay_s, self._tick, shard)

    def _tick(self, shard: _Shard) -> None:
        """Time brings more to write, as a rule: it can wait until that can be done."""
        partition = self._broker.partitions.get(self.topic, shard.number)
        if partition is not None and _lacks_replicas(partition):
            shard.timer = asyncio.get_running_loop().call_later(RETRY_S, self._tick, shard)
            return
        shard.timer = shard.timer_ms = None
        self._do(shard, shard.machine.tick)


def _is_same(shard: _Shard, topic: Topic | None, led: Container[int]) -> bool:
    """Is it still this broker's, and of this very topic?"""
    return topic is not None and shard.topic_id == topic.id and shard.number in led


def _lacks_replicas(partition: Partition) -> bool:
    try:
        return partition.lacks_replicas
    except LogFailed:
        return False  # an append says so


def _replay(machine: Machine, batch: LoggedBatch) -> None:
    if batch.commits is not None:
        machine.replay_marker(batch.producer_id, batch.producer_epoch, commit=batch.commits)
        return
    producer_id = batch.producer_id if batch.is_transactional else -1
    for offset, record in batch.records:
        machine.replay(record, offset, producer_id, batch.producer_epoch)
