"""Runs the state machines of a coordinator, one for each partition of the coordinator's topic that this broker leads.

    load      a thread reads all records of the partition, which the new state machine replays in slices; requests get
              COORDINATOR_LOAD_IN_PROGRESS meanwhile
    handle    the state machine of the key's partition handles a request, and returns records and responses
    append    the records are appended to the log, then replayed by the state machine; if they cannot be appended, the
              request fails, and a state machine whose state already contains them is replaced by a new one, which is
              loaded from the log
    respond   a response is sent once all records that the state machine had replayed are committed: see uncommitted.py
    resign    when another broker leads the partition, waiting requests get NOT_COORDINATOR, and the state machine is
              dropped

While the ISR is smaller than min.insync.replicas, requests that need records get COORDINATOR_NOT_AVAILABLE, and a state
machine is replaced only after RETRY_S. In a new state machine the sessions of all members begin anew.

Source: CoordinatorRuntime, GroupCoordinatorService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import UUID

from formats.batch_writer import write_batch
from formats.errors import FormatError
from formats.kernels.group_requests import Interval, KeptCommits
from formats.kernels.produce import ProduceLanes
from kcli.broker.coordinators.log import LoggedBatch, read_log
from kcli.broker.coordinators.other_brokers import OtherBrokers
from kcli.broker.coordinators.uncommitted import Uncommitted
from kcli.broker.process.turns import apart
from kcli.broker.process.unattended import begin, report
from kcli.coordinator.machine import Batch, Machine, Outcome
from kcli.errors import KcliError, UnreadableInput
from kcli.java.hashing import partition_of
from kcli.log.live.partition_log import LogFailed, PartitionLog
from kcli.log.live.validator import TRANSACTIONAL, AppendRefused, Origin
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.coordinators.context import CoordinatorContext
    from kcli.broker.partition.partitions import Partition
    from kcli.coordinator.machine import AtOnce, Repetition
    from kcli.metadata.changes import Changes
    from kcli.metadata.partition import Topic

log = logging.getLogger("kcli.broker")
SLICE_BATCHES = 200
FAILURES_MAX = 3
RETRY_S = 0.5
NOTHING = Outcome()
KEPT_BYTES = 16 << 20
"""The most bytes that the kept commits of a coordinator take up together."""


Form = tuple[memoryview, bytearray]
"""A request, without the size in front, and the whole frame of its response."""


class CoordinatorError(KcliError):
    """A coordinator refuses a request. code: the error code of the response. The coordinator itself raises
    NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, and the error code with which the log has
    refused a transaction's batch; a function that raises another code names it."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class NotEnoughReplicas(KcliError):
    """The ISR is too small to append records."""


class _Shard:
    """The state machine of one partition. waiting: the number (token) of a request -> the future of its response.
    uncommitted: the responses that wait for the commit of records. interval: lasts until the state machine takes its
    next step, and lets the commits that were accepted meanwhile be repeated; None if none was."""

    machine: Machine
    """The state machine of the partition; set when the replay of the log begins."""

    def __init__(self, number: int, topic_id: UUID) -> None:
        self.number = number
        self.topic_id = topic_id
        self.uncommitted: Uncommitted | None = None
        self.is_loaded = False
        self.has_failed = False
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.timer_ms: int | None = None
        self.task: asyncio.Task[None] | None = None
        self.interval: Interval | None = None

    def end_interval(self) -> None:
        """Let no commit be repeated that was accepted before, as the state machine is about to take a step."""
        if self.interval is not None:
            self.interval.end()
            self.interval = None

    def end(self, code: ErrorCode) -> None:
        """Drop the state machine. Waiting requests fail with `code`."""
        self.end_interval()
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
        """Let those requests whose responses are in `outcome` fail with CoordinatorError(code)."""
        for token, _ in outcome.answers:
            future = self.waiting.get(token)
            if future is not None and not future.done():
                future.set_exception(CoordinatorError(code))


class Work(NamedTuple):
    """The functions and settings by which the group coordinator and the transaction coordinator differ.

    make(number): returns a new state machine for that partition.
    act(message, number): carries out a message of that partition's state machine, an instruction such as WriteMarkers.
    follow(changes): returns the requests that every state machine gets after these changes of the metadata.
    base_sequence: the base sequence of every batch, also of batches with a producer id: coordinators do not count
    sequences.
    commit_timeout_ms: how long a response waits for the commit of its records before the request fails with
    COORDINATOR_NOT_AVAILABLE.
    changes_nothing(request): whether the state machine's state is still valid if the request's records are not
    appended.
    loads_in_part: what follows if a record is damaged or cannot be replayed. True: the partition is served with the
    records before it. False: the partition is not served at all.
    """

    make: Callable[[int], Machine]
    act: Callable[[Any, int], None] = lambda *_: None
    follow: Callable[[Changes], Iterable[Any]] = lambda _: ()
    base_sequence: int = -1
    commit_timeout_ms: int = 5_000
    changes_nothing: Callable[[Any], bool] = lambda _: False
    loads_in_part: bool = False


class Coordinator:
    """One coordinator of a broker: the state machines of its topic's partitions. prepare(coordinator): returns the
    Work, given this object; called only when the first state machine is made, so that a broker without groups and
    transactions does not import their modules."""

    def __init__(self, context: CoordinatorContext, topic: str, prepare: Callable[[Coordinator], Work]) -> None:
        self.topic = topic
        self.context = context
        self._prepare = prepare
        self._shards: dict[int, _Shard] = {}
        self._is_started = False
        self._next_token = 0
        self._kept = KeptCommits(KEPT_BYTES)
        self._lanes: ProduceLanes[Partition] = ProduceLanes(0)  # those of kept commits: no client's batches go to them

    @cached_property
    def work(self) -> Work:
        """The functions and settings of the group or the transaction coordinator, whichever this object is. The first
        access imports the coordinator's modules, which takes 40 ms."""
        return self._prepare(self)

    # the partitions that this broker leads

    def start(self) -> None:
        """Load the coordinator's partitions that this broker leads.

        The caller has to call `apply` for each later change of the metadata. It may call `start` only after this
        process has registered: before that, the metadata may still name this broker as a leader because of its previous
        process, whose unflushed records may be lost.
        """
        self._is_started = True
        self._follow()

    def apply(self, changes: Changes) -> None:
        """Follow a change of the metadata: load and drop partitions, and pass the requests that `Work.follow` returns
        to all state machines."""
        if not self._is_started:
            return
        if changes.partitions or changes.topics_deleted:
            self._follow()
        if "work" in self.__dict__:
            for request in self.work.follow(changes):
                self.pass_to_all(request)

    def _follow(self) -> None:
        """Load partitions that this broker has begun to lead, and drop those that it no longer leads. A partition that
        this broker still leads, in a later leader epoch, keeps its state machine, as the log still has all its
        records."""
        topic = self.context.image.topics.get(self.topic)
        led = set() if topic is None else {
            number for number, state in topic.partitions.items() if state.leader == self.context.node_id
        }  # fmt: skip
        for number in [number for number, shard in self._shards.items() if not _is_same(shard, topic, led)]:
            self._shards.pop(number).end(ErrorCode.NOT_COORDINATOR)
        if topic is not None:
            for number in led:
                if number not in self._shards:
                    self._load(number, topic.id)

    def stop(self) -> None:
        """Drop all state machines."""
        self._is_started = False
        for shard in self._shards.values():
            shard.end(ErrorCode.NOT_COORDINATOR)
        self._shards.clear()

    @property
    def partition_count(self) -> int:
        """The number of partitions of the topic; 0 if the topic does not exist yet."""
        topic = self.context.image.topics.get(self.topic)
        return 0 if topic is None else len(topic.partitions)

    def partition_of(self, key: str) -> int:
        """Return the partition of a group id or transactional id. Raises CoordinatorError if the topic does not
        exist."""
        count = self.partition_count
        if not count:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
        return partition_of(key, count)

    def leader_of(self, key: str) -> int:
        """Return the broker that coordinates the group or transactional id, -1 while there is none. Raises
        CoordinatorError."""
        number = self.partition_of(key)
        return self.context.image.topics[self.topic].partitions[number].leader

    @cached_property
    def others(self) -> OtherBrokers:
        """Channels to the brokers that lead the topic's other partitions."""
        return OtherBrokers(self.context, f"broker-{self.context.node_id}-{self.topic}")

    # loading

    def _load(self, number: int, topic_id: UUID, delay_s: float = 0) -> None:
        shard = self._shards[number] = _Shard(number, topic_id)

        def failed(_: BaseException) -> None:
            shard.has_failed = True

        shard.task = begin(self._replay_log(shard, delay_s), f"{self.topic}-{number} cannot be loaded", failed)

    async def _replay_log(self, shard: _Shard, delay_s: float) -> None:
        """Load a state machine from the partition's log; start again with a new state machine if the log has grown
        meanwhile, or if the loading has failed. Raises the error of the FAILURES_MAXth failure."""
        if delay_s:
            await asyncio.sleep(delay_s)
        work = await apart(lambda: self.work)
        failures = 0
        while True:
            shard.machine = work.make(shard.number)
            try:
                if await self._replay_once(shard):
                    break
            except Exception:
                failures += 1
                if failures == FAILURES_MAX:
                    raise
        shard.task = None
        shard.uncommitted = Uncommitted(
            self._partition(shard.number),
            self.work.commit_timeout_ms,
            partial(self._release, shard),
            lambda outcome: shard.refuse(outcome, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        )
        shard.is_loaded = True
        self._do(shard, shard.machine.loaded)

    async def _replay_once(self, shard: _Shard) -> bool:
        """Replay the partition's log into its state machine. Return whether the log end offset is still the same as at
        the beginning."""
        # let other work run: a new topic has 50 partitions, whose logs may not exist yet
        await self.context.turns.next()
        opened = await self._partition(shard.number).open_in_thread()
        end_offset = opened.log_end_offset
        if end_offset > opened.log_start_offset:
            batches, damage = await asyncio.get_running_loop().run_in_executor(None, _read, opened)
            try:
                await self._replay_slices(shard, batches)
                if damage is not None:
                    raise damage
            except (FormatError, KcliError) as error:
                if not self.work.loads_in_part:
                    raise
                report(f"{self.topic}-{shard.number} is loaded in part, up to a damaged record", error)
        return opened.log_end_offset == end_offset

    async def _replay_slices(self, shard: _Shard, batches: Sequence[LoggedBatch]) -> None:
        for i, batch in enumerate(batches):
            _replay(shard.machine, batch)
            if i % SLICE_BATCHES == SLICE_BATCHES - 1:
                await asyncio.sleep(0)

    def _partition(self, number: int) -> Partition:
        partition = self.context.partitions.get(self.topic, number)
        if partition is None:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
        return partition

    # requests

    def leader_epoch_of(self, number: int) -> int | None:
        """Return the leader epoch of a partition of the coordinator's topic; None if the coordinator has not loaded the
        partition."""
        partition = self.context.partitions.get(self.topic, number)
        return partition.leader_epoch if partition is not None and self.is_loaded(number) else None

    def led(self) -> list[int]:
        """Return the partitions of the topic that this broker leads, whether they are loaded or not."""
        return list(self._shards)

    def is_loaded(self, number: int) -> bool:
        """Whether that partition's state machine is loaded, so that it handles requests."""
        shard = self._shards.get(number)
        return shard is not None and shard.is_loaded

    async def handle(self, key: str, request: Any) -> Any:
        """Return the response of the state machine of the partition to which the key belongs. Raises
        CoordinatorError."""
        return await self.handle_in(self.partition_of(key), request)

    async def handle_in(self, number: int, request: Any) -> Any:
        """Return the response of the state machine of partition `number`. Raises CoordinatorError."""
        return await self._send(number, request)

    def send(self, key: str, request: Any) -> asyncio.Future[Any]:
        """Return a future with the response, which is done already if the state machine has responded at once.
        CoordinatorError is raised here or by the future."""
        return self._send(self.partition_of(key), request)

    def _send(self, number: int, request: Any) -> asyncio.Future[Any]:
        shard = self._shards.get(number)
        if shard is None or shard.has_failed:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
        if not shard.is_loaded:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        token = self._token()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        shard.waiting[token] = future
        self._do(shard, partial(shard.machine.handle, token, request), request)
        if future.done():
            shard.waiting.pop(token, None)
        else:
            future.add_done_callback(lambda _: shard.waiting.pop(token, None))
        return future

    def at_once(self, key: str, request: Any, form: Form | None = None) -> bool:
        """Let the state machine of the key's partition handle a request at once, without a future, if the request
        succeeds and its records are committed as soon as they are appended. Return False for any other request, which
        the caller then passes to `send`: the state has not changed, except that a member's session may have been
        extended. Only state machines of the group coordinator can do this.

        form: the request's bytes and its response, by which compiled code repeats a commit (see kept_commits); None for
        a request that is not repeated.
        """
        count = self.partition_count
        shard = self._shards.get(partition_of(key, count)) if count else None
        if shard is None or not shard.is_loaded:
            return False
        machine = cast("AtOnce", shard.machine)
        partition, uncommitted = self.context.partitions.get(self.topic, shard.number), shard.uncommitted
        if partition is None or uncommitted is None or not partition.commits_at_once or uncommitted.must_wait:
            return False
        now_ms = self.context.clock.now_ms()
        commits = machine.at_once(request, partition.log.log_end_offset, now_ms)
        if commits is None:
            return False
        if commits.records:
            data = write_batch(commits.records, now_ms, base_sequence=self.work.base_sequence)
            try:
                partition.append_as_leader(data, now_ms, origin=Origin.COORDINATOR)
            except OSError as error:
                partition.failed(error)
                return False
            except (AppendRefused, LogFailed):
                return False
            machine.committed(commits)
            if form is not None:
                self._keep(shard, partition, form, data, machine.repetition(request, commits))
        self._expect(shard)
        return True

    def _keep(self, shard: _Shard, partition: Partition, form: Form, batch: bytearray, apply: Repetition) -> None:
        if shard.interval is None or not shard.interval.is_open:
            lane = partition.open_lane(self._lanes)
            if lane is None:
                return
            shard.interval = Interval(lane)
        self.kept_commits().keep(*form, batch, shard.interval, apply)

    def kept_commits(self) -> KeptCommits:
        """Return the commits that compiled code may repeat now: those that `at_once` has accepted since the last step
        of their state machine, with the present version of the metadata. It appends their records, and applies them to
        the state."""
        return self._kept.at(self.context.image.version, self.context.clock.now_ms())

    def pass_to_all(self, request: Any) -> None:
        """Pass a request to every loaded state machine, and drop the responses."""
        for shard in list(self._shards.values()):
            if shard.is_loaded:
                self._do(shard, partial(shard.machine.handle, self._token(), request), request)

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def _do(self, shard: _Shard, step: Callable[[int], Outcome], request: Any = None) -> None:
        """Run one step of the state machine; append and replay the step's records, send its responses, carry out
        its messages (the last two once the records are committed), and set the timer for the next deadline.

        step(now in ms): a method of the state machine, which returns the Outcome. request: the request that the step
        handles, None for a step without one.

        If the records cannot be appended, the requests of the step fail, and the state machine is replaced if its state
        already contains the records (see Work.changes_nothing).
        """
        outcome = NOTHING
        now_ms = self.context.clock.now_ms()
        shard.end_interval()
        try:
            outcome = step(now_ms)
            for batch in outcome.batches:
                self._append(shard, batch, now_ms)
        except NotEnoughReplicas as lacking:
            if self.work.changes_nothing(request):
                self._refuse(shard, outcome, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self._start_again(shard, lacking, RETRY_S)
            return
        except AppendRefused as refused:
            if any(batch.producer_id < 0 for batch in outcome.batches):
                self._start_again(shard, refused)
            else:
                self._refuse(shard, outcome, refused.error)
            return
        except Exception as error:  # noqa: BLE001  (a machine that was interrupted gets no more requests)
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
        """Send the responses of an outcome whose records are committed, and carry out its messages."""
        for token, response in outcome.answers:
            future = shard.waiting.get(token)
            if future is not None and not future.done():
                future.set_result(response)
        for message in outcome.messages:
            self.work.act(message, shard.number)

    def _refuse(self, shard: _Shard, outcome: Outcome, code: ErrorCode) -> None:
        """Let the requests of an outcome fail with `code`, because its records were not appended: the ISR is too small,
        or the log refuses the producer epoch or sequence of their transaction. The state machine stays in use, as its
        state does not contain these records."""
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
        """Replay a transaction marker that was appended to the partition `number`: with `commit`, the offsets that the
        transaction has written become valid; else they are dropped."""
        shard = self._shards.get(number)
        if shard is not None and shard.is_loaded:
            shard.end_interval()
            shard.machine.replay_marker(producer_id, producer_epoch, commit=commit)

    def _start_again(self, shard: _Shard, error: Exception, delay_s: float = 0) -> None:
        """Replace a state machine by a new one, which is loaded from the log: its state contains records that were not
        appended, or an exception (`error`) has interrupted its step. delay_s: the delay before the loading begins."""
        report(f"{self.topic}-{shard.number}: not appended", error)
        shard.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._shards.get(shard.number) is shard:
            self._load(shard.number, shard.topic_id, delay_s)

    def _expect(self, shard: _Shard) -> None:
        """Set the timer for the state machine's deadline. A timer that fires before the deadline is kept, and is set
        again when it fires, as most deadlines are postponed before they are reached."""
        deadline_ms = shard.machine.deadline_ms()
        if deadline_ms is not None and shard.timer_ms is not None and deadline_ms >= shard.timer_ms:
            return
        if shard.timer is not None:
            shard.timer.cancel()
            shard.timer = None
        shard.timer_ms = deadline_ms
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self.context.clock.now_ms()) / 1000
            shard.timer = asyncio.get_running_loop().call_later(delay_s, self._tick, shard)

    def _tick(self, shard: _Shard) -> None:
        """Run the state machine's step for its deadline. If the ISR is too small for the records of that step, run the
        step again after RETRY_S."""
        partition = self.context.partitions.get(self.topic, shard.number)
        if partition is not None and _lacks_replicas(partition):
            shard.timer = asyncio.get_running_loop().call_later(RETRY_S, self._tick, shard)
            return
        shard.timer = shard.timer_ms = None
        self._do(shard, shard.machine.tick)


def _is_same(shard: _Shard, topic: Topic | None, led: Container[int]) -> bool:
    """Whether this broker still leads the partition, and the topic was not deleted and created again."""
    return topic is not None and shard.topic_id == topic.id and shard.number in led


def _lacks_replicas(partition: Partition) -> bool:
    try:
        return partition.lacks_replicas
    except LogFailed:
        return False  # appending the batch raises the same error later


def _read(opened: PartitionLog) -> tuple[list[LoggedBatch], UnreadableInput | None]:
    """Return the batches of a log before its first damaged byte, and the error for that byte; None in place of the
    error if nothing is damaged."""
    found: list[LoggedBatch] = []
    try:
        for each in read_log(opened):
            found.append(each)  # noqa: PERF402  (the batches before the damage are kept)
    except UnreadableInput as error:
        return found, error
    return found, None


def _replay(machine: Machine, batch: LoggedBatch) -> None:
    if batch.commits is not None:
        machine.replay_marker(batch.producer_id, batch.producer_epoch, commit=batch.commits)
        return
    producer_id = batch.producer_id if batch.is_transactional else -1
    for offset, record in batch.records:
        machine.replay(record, offset, producer_id, batch.producer_epoch)
