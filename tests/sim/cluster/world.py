"""The simulation of one seed: nodes, network, disks and clocks, their faults, and the clients.

    begin      three combined nodes, sometimes more or in separate roles, form a cluster; a topic is created
    trouble    nodes are killed, stopped, paused, or lose power; the network is cut, slow, loses and repeats requests
    calm       no more faults: every client must make progress, all replicas must come into the ISR
    end        clients end; the logs are compared with the responses that clients received

The seed decides everything. checks.py has the promises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.coordinators.log import read_log
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.metadata.errors import MetadataLogFailed
from kcli.broker.metadata.format import format_directories
from kcli.broker.network.outgoing import read_region
from kcli.broker.partition.partitions import Partition
from kcli.group.records import TOPIC as GROUPS
from kcli.log.live.partition_log import Isolation
from kcli.metadata.image import MetadataImage
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from tests.log.crash_disk import Crash
from tests.sim.checks import Broken, Commits, must
from tests.sim.cluster import clients
from tests.sim.cluster.batches import Batch, batches
from tests.sim.cluster.checks import Acknowledged, Assignments, Logs, Transactions
from tests.sim.cluster.lanes import Lane, Time
from tests.sim.cluster.network import CLIENT, Asked, SimulatedNetwork
from tests.sim.cluster.node import Process
from tests.sim.cluster.trouble import Trouble
from tests.sim.loop import BEGIN_MS, Stalled

if TYPE_CHECKING:
    from kcli.metadata.partition import Partition as PartitionState

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
BEGIN_S, TROUBLE_S, CALM_S = 30.0, 36.0, 40.0
WORK_PARTITIONS = 2
REFUSED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Errors after which the commit is certainly not in the log; after others it may be."""
OPTIONS = {
    "num.recovery.threads.per.data.dir": "1",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "broker.heartbeat.interval.ms": "1500",
    "broker.session.timeout.ms": "5000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.wait.max.ms": "2500",
    "controller.quorum.retry.backoff.ms": "150",
    "controller.quorum.election.timeout.ms": "800",
    "controller.quorum.fetch.timeout.ms": "2500",
    "controller.quorum.election.backoff.max.ms": "400",
    "metadata.max.idle.interval.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "log.initial.task.delay.ms": "20000",
    "leader.imbalance.check.interval.seconds": "15",
    "group.initial.rebalance.delay.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "auto.create.topics.enable": "false",
    "index.interval.bytes": "256",
}


class World:
    """The simulation of one seed. notes: its events; kept only where `tells` is set."""

    def __init__(self, seed: int, directory: Path, *, tells: bool = False) -> None:
        self.seed, self.random = seed, Random(seed)
        self.notes: list[str] | None = [] if tells else None
        self.time = Time()
        self.network = SimulatedNetwork(self.time, Random(seed + 1))
        self.network.failed = self._handler_failed
        self.network.asking, self.network.told = self._asking, self._told
        self.outside = self.time.lane(self.random)
        self.client_host = self.network.host(CLIENT, self.outside)
        self.logs, self.acknowledged = Logs(), Acknowledged()
        self.transactions, self.assignments, self.commits = Transactions(), Assignments(), Commits()
        self.is_calm = self.is_ending = False
        self.places: list[TopicPartition] = [TopicPartition(clients.WORK, number) for number in range(WORK_PARTITIONS)]
        self.processes = self._processes(directory)
        self.broker_ids = [each.id for each in self.processes if "broker" in each.properties["process.roles"]]
        self.trouble = Trouble(self)
        self._values = self._offsets = 0
        self._progress: set[str] = set()
        self._failure: Exception | None = None
        self._main: asyncio.Task[None] | None = None
        self.admin = clients.Admin(self, "admin")
        self.reader = clients.Reader(self, "reader")
        self.members = [clients.Member(self, f"member-{number}", "group") for number in (1, 2)]
        self.clients: list[Any] = [
            clients.Idempotent(self, "idempotent-1"),
            clients.Idempotent(self, "idempotent-2"),
            clients.Transactional(self, "transactional"),
            self.reader,
            *self.members,
        ]

    def _processes(self, directory: Path) -> list[Process]:
        random = self.random
        shape = random.random()
        ids, controllers = [1, 2, 3], [1, 2, 3]
        if shape < 0.06:
            controllers = [11, 12, 13]
        elif shape < 0.1:
            controllers = [11]
        elif shape < 0.14:
            ids = [1, 2, 3, 4]
        voters = ",".join(f"{each}@n{each}:9093" for each in controllers)
        options = dict(OPTIONS)
        self.flushes = random.random() < 0.15
        if self.flushes:
            options["log.flush.interval.messages"] = "1"
        if random.random() < 0.3:
            options["internal.segment.bytes"] = random.choice(("2000", "20000"))
        if random.random() < 0.3:
            options["metadata.log.max.record.bytes.between.snapshots"] = random.choice(("2000", "8000"))
        found = []
        for each in sorted({*ids, *controllers}):
            roles = [role for role, those in (("broker", ids), ("controller", controllers)) if each in those]
            listeners = [f"PLAINTEXT://n{each}:9092"] if each in ids else []
            listeners += [f"CONTROLLER://n{each}:9093"] if each in controllers else []
            properties = {
                "process.roles": ",".join(roles),
                "node.id": str(each),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "listeners": ",".join(listeners),
                "log.dirs": str(directory / f"n{each}"),
                **options,
            }
            format_directories([directory / f"n{each}"], now_ms=BEGIN_MS, node_id=each, cluster_id=CLUSTER_ID)
            found.append(Process(self, each, directory / f"n{each}", properties))
        return found

    # what those who live in it need

    @property
    def now_ms(self) -> int:
        """Return the true time, from which the nodes' clocks may differ."""
        return BEGIN_MS + round(self.time.now_s * 1000)

    async def sleep_ms(self, ms: int) -> None:
        """Sleep in true time, for callers outside of the nodes."""
        await asyncio.sleep(ms / 1000)

    def note(self, who: str, what: str) -> None:
        """Add an event to the notes."""
        if self.notes is not None:
            self.notes.append(f"{self.time.now_s:9.3f}  {who}  {what}")

    def next_value(self, who: str) -> bytes:
        """Return a value that no other record has."""
        self._values += 1
        return f"{who} {self._values}".encode()

    def next_offset(self) -> int:
        """Return an offset that no other member commits."""
        self._offsets += 1
        return self._offsets

    def progressed(self, who: str) -> None:
        """Note that a client has made progress."""
        self._progress.add(who)

    def some_image(self) -> MetadataImage | None:
        """Return the metadata image of some broker."""
        known = [
            each.node.broker.image for each in self.processes if each.is_up and each.runs and each.node is not None
        ]
        return self.random.choice(known) if known else None

    def topic_id(self, name: str) -> UUID | None:
        """Return the topic's id in the image of some broker."""
        image = self.some_image()
        topic = None if image is None else image.topics.get(name)
        return None if topic is None else topic.id

    def leader_of(self, place: TopicPartition) -> Partition | None:
        """Return the leader's replica, if its node runs and knows that it leads."""
        for each in self.processes:
            if each.is_up and each.node is not None and each.id in self.broker_ids:
                found = each.node.broker.partitions.get(*place)
                if found is not None and found.is_leader and found.opened_log is not None:
                    return found
        return None

    def has_former_leader(self, place: TopicPartition) -> bool:
        """Return whether a node still leads the partition that has not learnt of the new leader. Its log may lack
        records."""
        own = [
            found.leader_epoch
            for each in self.processes
            if each.node is not None and each.node._broker is not None
            if (found := each.node.broker.partitions.get(*place)) is not None and found.is_leader
        ]
        states = self.states()
        return len(own) > 1 or not states or any(epoch < states[place].leader_epoch for epoch in own)

    def end_of(self, place: TopicPartition) -> int:
        """Return the leader's log end offset."""
        leader = self.leader_of(place)
        return 1 << 62 if leader is None else leader.log.log_end_offset

    def states(self) -> dict[TopicPartition, PartitionState]:
        """Return all partitions in the active controller's image; none without an active controller."""
        for each in self.processes:
            if each.runs and each.node is not None and each.node._broker is not None:
                broker = each.node.broker
                if broker.metadata.is_leader:
                    topics = broker.image.topics.values()
                    return {
                        TopicPartition(topic.name, number): state
                        for topic in topics
                        for number, state in topic.partitions.items()
                    }
        return {}

    def all_in_sync(self) -> bool:
        """Return whether every replica of every partition is in the ISR."""
        states = self.states()
        return bool(states) and all(
            sorted(each.isr) == sorted(each.replicas)
            and each.leader >= 0
            and not (each.adding_replicas or each.removing_replicas)
            for each in states.values()
        )

    # called by nodes and processes

    def fail(self, error: Exception) -> None:
        """End the simulation with an error: a broken promise, or a bug."""
        if self._failure is None:
            self._failure = error
            self.note("world", f"{type(error).__name__}: {error}")

    def _handler_failed(self, node: int, api: str, error: Exception) -> None:
        self.note(f"node {node}", f"{api} fails: {error!r}")
        self.fail(error)

    def stopped(self, process: Process, error: Exception) -> None:
        """Fail the simulation where a node has ended with an error."""
        if process.disk is not None and not process.disk.is_dead:
            self.note(f"node {process.id}", f"{error!r}")
            self.fail(error)

    def ended(self, process: Process, reason: str) -> None:
        """Fail the simulation where a node stops by itself."""
        if process.disk is not None and not process.disk.is_dead:
            self.fail(Broken(f"node {process.id} stops by itself: {reason}"))

    def gone(self, process: Process) -> None:
        """Start a process again that has died."""
        self.restart_later(process)

    def restart_later(self, process: Process) -> None:
        """Start the process again after a while, unless that is planned already."""
        if process.is_restarting or process.is_alive:
            return
        process.is_restarting = True
        delay_s = self.random.uniform(0.1, 1.0 if self.is_calm else 6.0)
        self.outside.call_later(delay_s, self._restart, process)

    def _restart(self, process: Process) -> None:
        process.is_restarting = False
        if not process.is_alive:
            dies = not self.is_calm and self.random.random() < 0.15 and self.trouble.may_end
            process.start(self.random.randrange(1, 200) if dies else 0)

    def _asking(self, asked: Asked) -> None:
        if asked.name == "offset_commit":
            (topic,) = asked.request.topics
            (partition,) = topic.partitions
            asked.begun = self.commits.begins(
                (asked.request.group_id, partition.partition_index), partition.committed_offset
            )

    def _told(self, asked: Asked, response: Any) -> None:
        if asked.name == "offset_commit":
            (topic,) = response.topics
            (partition,) = topic.partitions
            place = (asked.request.group_id, partition.partition_index)
            if partition.error_code == ErrorCode.NONE:
                self.commits.acknowledged(place, asked.begun)
            elif partition.error_code in REFUSED:
                self.commits.refused(place, asked.begun)

    # from beginning to end

    def run(self) -> None:
        """Run the simulation. Raises Broken and any unexpected error."""
        self._main = self.outside.start(self._run())
        try:
            self.time.run(self._is_over)
        except Stalled:
            raise Broken("everybody waits for ever") from None
        finally:
            living = [each.lane for each in self.processes]
            for each in self.processes:
                each.kill()
                each.bury()
        if self._failure is not None:
            raise self._failure
        self._main.result()
        self._check_errors(living)

    def _is_over(self) -> bool:
        return self._failure is not None or (self._main is not None and self._main.done())

    def _check_errors(self, living: Collection[Lane | None]) -> None:
        """Raise the exceptions that no task caught. living: the lanes of the nodes that ran to the end."""
        for lane in [self.outside, *(lane for process in self.processes for _, lane in process.buried)]:
            for each in lane.errors:
                error = each.get("exception")
                if isinstance(error, CoordinatorError) and "future" in each and lane not in living:
                    continue  # the error came when its node was about to die, and no task was left to catch it
                if error is not None and not isinstance(error, Crash | MetadataLogFailed | asyncio.CancelledError):
                    raise error

    async def _run(self) -> None:
        for each in self.processes:
            each.start()
        await self._until(lambda: all(each.is_up for each in self.processes), "the cluster is up", BEGIN_S)
        await asyncio.wait_for(self.admin.create(clients.WORK, WORK_PARTITIONS), BEGIN_S)
        tasks = [asyncio.ensure_future(self._live(each)) for each in [*self.clients, self.admin]]
        await self.trouble.run(TROUBLE_S)
        await self._calm()
        self.is_ending = True
        self.note("world", "ends")
        await asyncio.gather(*tasks)
        await self._end()

    async def _live(self, client: Any) -> None:
        try:
            await client.live()
        except Exception as error:  # noqa: BLE001  (a promise is broken, or the simulation is)
            self.fail(error)

    async def _calm(self) -> None:
        self.note("world", "is calm")
        self.is_calm = True
        self.trouble.end()
        await self._until(lambda: all(each.is_up for each in self.processes), "all nodes are up", CALM_S)
        self._progress.clear()
        names = {each.who for each in self.clients}
        await self._until(lambda: self._progress >= names, "all clients get on", CALM_S, lambda: names - self._progress)
        await self._until(self.all_in_sync, "all replicas are in sync", CALM_S, self._out_of_sync)

    def _out_of_sync(self) -> Any:
        return {place: state for place, state in self.states().items() if len(state.isr) < len(state.replicas)}

    async def _until(
        self, holds: Callable[[], bool], what: str, within_s: float, missing: Callable[[], Any] = lambda: ""
    ) -> None:
        until_s = self.time.now_s + within_s
        while not holds():
            must(self.time.now_s < until_s, f"in vain is waited until {what} {missing()}")
            await self.sleep_ms(200)

    async def _end(self) -> None:
        await self._until(self._is_all_stable, "all transactions have ended", CALM_S)
        await asyncio.wait_for(self.reader.to_the_end(), CALM_S)
        await self._until(self._do_replicas_agree, "all replicas have the same", CALM_S, self._differ)
        for member in self.members[:1]:
            for number in range(clients.GROUP_PARTITIONS):
                await self._check_commit(member, number)
        for place in self.places:
            self.acknowledged.check(place, self._contents(place))
        self.transactions.check()
        for number in range(int(OPTIONS["offsets.topic.num.partitions"])):
            replica = self._replicas(TopicPartition(GROUPS, number))[0]
            assert replica is not None, "all have it"
            self.assignments.check(TopicPartition(GROUPS, number), _generations(replica))
        for topic in self.admin.created:
            for each in self.processes:
                assert each.node is not None, "all are up"
                must(topic in each.node.broker.image.topics, f"{topic} was created, node {each.id} does not know it")

    async def _check_commit(self, member: clients.Member, number: int) -> None:
        offset = None
        begun = self.commits.now()
        for _ in range(60):
            try:
                offset = await member.committed(number)
                break
            except clients.Again as why:
                self.note("world", f"{why}")
                await self.sleep_ms(250)
        must(offset is not None, f"the offset of {number} is not told")
        assert offset is not None
        self.commits.read((member.group, number), offset, begun)

    def _is_all_stable(self) -> bool:
        leaders = [self.leader_of(place) for place in self.places]
        return all(each is not None and each.log.last_stable_offset == each.log.log_end_offset for each in leaders)

    def _replicas(self, place: TopicPartition) -> list[Partition | None]:
        state = self.states().get(place)
        return [
            None if each.node is None else each.node.broker.partitions.get(*place)
            for each in self.processes
            if state is not None and each.id in state.replicas
        ]

    def _differ(self) -> dict[TopicPartition, Any]:
        found = {}
        for place in self.states():
            ends = {
                None if each is None else (each.log.log_end_offset, each.log.high_watermark)
                for each in self._replicas(place)
            }
            if len(ends) != 1:
                found[place] = ends
        return found

    def _do_replicas_agree(self) -> bool:
        return bool(self.states()) and not self._differ()

    def _contents(self, place: TopicPartition) -> list[Batch]:
        """Return the batches of a partition; all replicas must have the same ones. Raises Broken."""
        whole = []
        for replica in self._replicas(place):
            assert replica is not None, "all have it"
            whole.append(_read(replica))
        must(len({bytes(each) for each in whole}) == 1, f"{place}: replicas of the same length are not the same")
        return list(batches(whole[0]))


def _read(replica: Partition) -> bytearray:
    log, found = replica.log, bytearray()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        region = log.read(offset, 1 << 20, Isolation.LOG_END).region
        assert region is not None, "it is below the end"
        data = read_region(region)
        found += data
        for each in batches(data):
            offset = each.last_offset + 1
    return found


def _generations(leader: Partition) -> list[tuple[str, int]]:
    """Return groups with their generations in the order of the log; generation -1 for a tombstone."""
    found = []
    for batch in read_log(leader.log):
        for _, (key, value) in batch.records:
            if key is None or key[:2] != b"\0\2":
                continue
            group = key[4:].decode()
            generation = -1
            if value is not None:
                size = int.from_bytes(value[2:4])
                generation = int.from_bytes(value[4 + size : 8 + size], signed=True)
            found.append((group, generation))
    return found
