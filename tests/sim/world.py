"""The simulation of one seed: a broker that crashes, a network that loses requests, clients that die; then the checks.

    trouble   for a while the faults happen that the seed decides
    calm      no more faults; some clients are gone for ever, each other one runs once. Within a bounded time every
              group must be stable with exactly these members, who own all partitions, and every client make progress
    end       all members leave and all transactions end; the broker is killed once more and must recover everything

A seed always gives the same simulation. `python -m tests.sim SEED` prints its events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.records import TOPIC as GROUPS
from kcli.group.requests import DescribedGroup
from kcli.java.hashing import partition_of
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import TOPIC as TRANSACTIONS
from tests.log.crash_disk import Crash
from tests.sim import actors
from tests.sim.checks import Broken, Commits, Generations, Input, Ledger, Owners, must
from tests.sim.consumer import ConsumerMember
from tests.sim.loop import SimulatedLoop, Stalled
from tests.sim.member import Fenced, Member, fetch_offset, numbers_of
from tests.sim.network import Faults, Lost, Network
from tests.sim.node import INPUT_ID, INPUTS, OTHER, OUTPUT, OUTPUTS, OWN, TOPICS, Cluster, Node
from tests.sim.producer import Failed

TROUBLE_MS, CALM_MS, END_MS = 18_000, 60_000, 60_000
PAUSE_MS = 15_000
PROTOCOLS = (Member, ConsumerMember, None)
"""The protocol of a group's members. None: each member picks one, so that the group is upgraded and downgraded."""
Life = Callable[[], Coroutine[Any, Any, None]]


class World:
    """The simulation of one seed. notes: its events, each with time and client; kept only where `tells` is set."""

    def __init__(self, seed: int, directory: Path, *, tells: bool = False) -> None:
        self.random = Random(seed)
        self.loop = SimulatedLoop(self.random)
        self.notes: list[str] | None = [] if tells else None
        self.version = self.random.choice([0, 1, 2, 2, 2])
        self.cluster = Cluster(self.loop, directory, self.random, self.version)
        self.pauses = self.random.choice([0.01, 0.04, 0.12])
        self.network = Network(self, Faults(*(self.random.choice([0.0, 0.02, 0.1]) for _ in range(3))))
        self.commits, self.generations, self.ledger = Commits(), Generations(), Ledger()
        self.node: Node | None = None
        self.is_calm = self.is_ending = False
        self._commits = 0
        self._progress: set[str] = set()
        self._to_double: set[str] = set()
        self._lives: dict[str, Life] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._failure: Exception | None = None
        self._protocols = {group: self.random.choice(PROTOCOLS) for group in (actors.PLAIN, actors.LOOP)}
        self.owners = Owners({group for group, protocol in self._protocols.items() if protocol is None})
        self._make_lives()
        self._main = self.loop.create_task(self._run())

    def _make_lives(self) -> None:
        random = self.random
        for i in range(random.randint(1, 3)):
            name = f"plain-{i}"
            self._lives[name] = partial(actors.plain, self, name, is_static=random.random() < 0.5)
        for i in range(random.randint(1, 3)):
            name, is_static = f"loop-{i}", random.random() < 0.3
            self._lives[name] = partial(actors.loop, self, name, is_static=is_static, is_modern=self._draw_modern())
        for i in range(random.randint(1, 3)):
            name = f"fixed-{i}"
            self._lives[name] = partial(actors.fixed, self, name, number=i, is_modern=self._draw_modern())
        self._mortal = {name for name in self._lives if name[-1] != "0" and random.random() < 0.2}

    def _draw_modern(self) -> bool:
        return self.version == 2 and self.random.random() < 0.8

    def fail(self, error: Exception) -> None:
        """End the simulation with an error."""
        if self._failure is None:
            self._failure = error
            self._main.cancel()

    # what clients use

    def note(self, who: str, what: str) -> None:
        """Add an event to the notes."""
        if self.notes is not None:
            self.notes.append(f"{self.loop.time():9.3f}  {who:8}  {what}")

    async def sleep_ms(self, delay_ms: int) -> None:
        """Sleep in simulated time."""
        await asyncio.sleep(delay_ms / 1000)

    async def rest(self, delay_ms: int) -> None:
        """Sleep, now and then far longer than `delay_ms`."""
        if not self.is_calm and self.random.random() < self.pauses:
            delay_ms = self.random.randrange(PAUSE_MS)
        if self.is_calm:
            delay_ms *= 2
        if delay_ms:
            await self.sleep_ms(delay_ms // 2 + self.random.randrange(delay_ms))

    async def before_end(self, name: str) -> None:
        """Called before a transaction ends, which is when another producer may take over its transactional id."""
        if name in self._to_double and not self.is_calm:
            self._to_double.discard(name)
            self._double(name)
            await self.sleep_ms(self.random.randrange(200, 3000))
        await self.rest(400)

    def member(self, who: str, group: str, *, is_static: bool) -> Member:
        """Return a new member that speaks the group's protocol, or a random one where the group has both."""
        kind = self._protocols[group] or self.random.choice([Member, ConsumerMember])
        return kind(self, who, group, is_static=is_static)

    def is_classic(self, group: str) -> bool:
        """Return whether the group's members speak the classic protocol only."""
        return self._protocols[group] is Member

    def next_commit(self) -> int:
        """Return an offset that no member has committed yet."""
        self._commits += 1
        return self._commits

    def progressed(self, who: str) -> None:
        """Note that a client has made progress."""
        self._progress.add(who)

    def is_idle(self, who: str) -> bool:
        """Return whether the client may be idle: in the calm, a client that has made progress needs no more
        requests."""
        return self.is_calm and who in self._progress

    def group_partition(self, group: str) -> int:
        """Return the group's partition of __consumer_offsets."""
        return partition_of(group, TOPICS[GROUPS])

    def offset_read(self, place: Input, offset: int, begun: int) -> None:
        """Check an offset that OffsetFetch returned. begun: the number of the OffsetFetch."""
        if place[0] == actors.PLAIN:
            self.commits.read(place, offset, begun)
        else:
            self.ledger.read(place, offset)

    # lives

    def _spawn(self, name: str) -> None:
        self._tasks.setdefault(name, []).append(self.loop.create_task(self._live(name)))

    async def _live(self, name: str) -> None:
        """Run the client of that name, and start it again after Fenced, Failed or Lost."""
        while not self.is_ending:
            try:
                await self._lives[name]()
            except (Fenced, Failed, Lost) as why:
                self.note(name, f"ends: {why!r}")
                await self.rest(1500)
            except Exception as error:  # noqa: BLE001  (the simulation's own)
                self.fail(error)

    def _kill(self, name: str, *, but: int = 0) -> None:
        """Kill the clients of that name except for the last `but` ones."""
        tasks = self._tasks.get(name, [])
        for task in tasks[: len(tasks) - but]:
            task.cancel()
        self._tasks[name] = tasks[len(tasks) - but :]

    # the broker

    def _start_node(self) -> None:
        dies_at = 0 if self.is_calm or self.random.random() < 0.7 else self.random.randrange(1, 150)
        self.node = Node(self.cluster, self._died, self.generations.reloaded, dies_at=dies_at)
        try:
            self.node.start()
            self.note("broker", "has started")
        except Crash:
            self.note("broker", "has died as it started")

    def _died(self) -> None:
        self.note("broker", "dies")
        self.generations.reloaded()
        self.loop.call_soon(self._bury)

    def _bury(self) -> None:
        assert self.node is not None, "it died"
        self.node.bury()
        self.loop.call_later(self.random.randrange(50, 3000) / 1000, self._start_node)

    # trouble

    async def _trouble(self) -> None:
        until = self.loop.time() + TROUBLE_MS / 1000
        while self.loop.time() < until:
            await self.sleep_ms(self.random.randrange(200, 2500))
            node, what = self.node, self.random.randrange(14 if self.cluster.is_replicated else 12)
            if what < 5:
                self._kill_or_double(self.random.choice(list(self._lives)))
            elif node is None or not node.is_alive:
                continue
            elif what == 5:
                node.disk.end()
            elif what < 8:
                node.disk.dies_at = node.disk.operations + self.random.randrange(1, 60)
            elif what < 10:
                self._resign(node, self.random.choice([GROUPS, TRANSACTIONS, *self.cluster.others_lead]))
            elif what < 12:
                self._flicker(node)
            else:
                self._fall_behind(node, self.random.choice(list(TOPICS)))

    def _kill_or_double(self, name: str) -> None:
        if self.random.random() < 0.3:
            self.note(name, "is killed")
            self._kill(name)
            self.loop.call_later(self.random.randrange(8000) / 1000, self._revive, name)
        elif not name.startswith(actors.PLAIN) and self.random.random() < 0.5:
            self._to_double.add(name)
        else:
            self._double(name)

    def _double(self, name: str) -> None:
        self.note(name, "lives twice")
        self._spawn(name)

    def _revive(self, name: str) -> None:
        if name in self._lives and not self._tasks[name]:
            self._spawn(name)

    def _resign(self, node: Node, topic: str) -> None:
        number = self.random.randrange(TOPICS[topic])
        if self.cluster.is_replicated and not self.cluster.is_in_sync(TopicPartition(topic, number)):
            return
        self.note("broker", f"does not lead {topic}-{number}")
        self.generations.reloaded()
        self.loop.call_later(self.random.randrange(50, 3000) / 1000, self._lead_again, node, topic, number)
        with suppress(Crash):
            node.lead(topic, number, OTHER)

    def _lead_again(self, node: Node, topic: str, number: int) -> None:
        if node.is_alive:
            self.note("broker", f"leads {topic}-{number}")
            with suppress(Crash):
                node.lead(topic, number, OWN)

    def _fall_behind(self, node: Node, topic: str) -> None:
        number = self.random.randrange(TOPICS[topic])
        if node.broker.partitions.get(topic, number).is_leader and self.cluster.is_in_sync(
            TopicPartition(topic, number)
        ):
            self.note("broker", f"is alone in sync for {topic}-{number}")
            node.sync(topic, number, [OWN])
            self.loop.call_later(self.random.randrange(100, 5000) / 1000, self._catch_up, topic, number)

    def _catch_up(self, topic: str, number: int) -> None:
        node = self.node
        if node is not None and node.is_alive:
            self.note("broker", f"is not alone any more for {topic}-{number}")
            node.sync(topic, number, [OWN, OTHER])
        else:
            self.loop.call_later(1, self._catch_up, topic, number)

    def _flicker(self, node: Node) -> None:
        topic = self.random.choice([OUTPUT, GROUPS])
        number = self.random.randrange(TOPICS[topic])
        partition = node.broker.partitions.get(topic, number)
        self.note("broker", f"{partition} is away")
        partition.away = True
        self.loop.call_later(self.random.randrange(100, 4000) / 1000, partition.come_back)

    # from beginning to end

    def run(self) -> None:
        """Run the simulation. Raises Broken."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            assert self._failure is not None, "nothing else cancels it"
            raise self._failure from None
        except Stalled:
            raise Broken("everybody waits for ever") from None
        finally:
            for tasks in self._tasks.values():
                for task in tasks:
                    task.cancel()
            if self.node is not None:
                self.node.disk.is_dead = True
                self.node.bury()
            asyncio.set_event_loop(None)
            self.loop.close()
        for each in self.loop.errors:
            error = each.get("exception")
            if not isinstance(error, Crash | Lost | CoordinatorError | asyncio.CancelledError):
                raise error or AssertionError(each)

    async def _run(self) -> None:
        self._start_node()
        for name in self._lives:
            self._spawn(name)
        await self._trouble()
        await self._calm()
        await self._end()

    async def _calm(self) -> None:
        self.note("world", "is calm")
        self.is_calm = True
        self.cluster.calm()
        self.network.faults = Faults()
        if self.node is not None:
            self.node.disk.dies_at = 0
        for name in self._mortal:
            self._kill(name)
            del self._lives[name]
        for name in self._lives:
            self._kill(name, but=1)
            self._revive(name)
        await self._until(lambda: self.node is not None and self.node.is_alive, "the broker starts")
        self._progress.clear()
        await self._until(lambda: self._progress >= self._lives.keys() and self._is_stable(), "all get on")

    async def _until(self, holds: Callable[[], bool], what: str, within_ms: int = CALM_MS) -> None:
        until = self.loop.time() + within_ms / 1000
        while not holds():
            must(self.loop.time() < until, f"in vain is waited until {what}")
            await self.sleep_ms(500)

    def _is_stable(self) -> bool:
        return all(self._is_group_stable(group) for group in (actors.PLAIN, actors.LOOP))

    def _is_group_stable(self, group: str) -> bool:
        assert self.node is not None, "it lives"
        try:
            described = self.node.groups.describe(group)
        except CoordinatorError:
            return False
        if isinstance(described, DescribedGroup):
            owned = [numbers_of(each.assignment) for each in described.members]
        else:
            owned = [list(each.assignment.get(INPUT_ID, ())) for each in described.members]
        is_complete = len(owned) == sum(name.startswith(group) for name in self._lives)
        return described.state == "Stable" and is_complete and sorted(chain(*owned)) == list(range(INPUTS))

    async def _end(self) -> None:
        self.note("world", "ends")
        self.is_ending = True
        tasks = [task for each in self._tasks.values() for task in each]
        await asyncio.gather(*tasks)
        await self._until(self._have_transactions_ended, "all transactions have ended", END_MS)
        assert self.node is not None, "it lives"
        before = await self._offsets()
        self.node.disk.end()
        await self._until(lambda: self.node is not None and self.node.is_alive, "the broker starts")
        after = await self._offsets()
        must(before == after, f"offsets were {before}, now they are {after}")
        outputs = {number: self.node.broker.partitions.get(OUTPUT, number).log for number in range(OUTPUTS)}
        logs = outputs.values()
        await self._until(lambda: all(log.high_watermark == log.log_end_offset for log in logs), "all is committed")
        committed = {place: offset for place, offset in after.items() if place[0] != actors.PLAIN}
        self.ledger.check(outputs, committed)

    def _have_transactions_ended(self) -> bool:
        assert self.node is not None, "it lives"
        coordinator = self.node.broker.transactions
        return all(
            coordinator.is_loaded(number)
            and all(each.state.is_over for each in coordinator._shards[number].machine.transactions.values())
            for number in range(TOPICS[TRANSACTIONS])
        )

    async def _offsets(self) -> dict[Input, int]:
        """Return the committed offsets of all groups."""
        places = [(group, number) for group in (actors.PLAIN, actors.LOOP, actors.FIXED) for number in range(INPUTS)]
        found: dict[Input, int] = {}
        for group, number in places:
            offset = None
            for _ in range(40):
                try:
                    offset = await fetch_offset(self, "world", group, number)
                except (CoordinatorError, Lost):
                    await self.sleep_ms(250)
                if offset is not None:
                    break
            must(offset is not None, f"{group} {number} is not stable")
            assert offset is not None
            found[group, number] = offset
        return found
