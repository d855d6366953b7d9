"""One run: a quorum with faults for a while, then without; at the end all nodes must agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from formats.batch_writer import write_batch
from kcli.raft.config import RaftConfig
from kcli.raft.election import EPOCH_MAX
from kcli.raft.messages import (
    AddRaftVoter,
    Answer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    OffsetAndEpoch,
    RemoveRaftVoter,
    Request,
    Vote,
)
from kcli.raft.voters import Endpoint, ReplicaKey
from tests.raft.memory import Disk, with_voters
from tests.raft.sim.checks import Broken
from tests.raft.sim.world import CLUSTER, LISTENER, Node, Weather, World, directory, endpoint, voter_set

CHAOS_MS: Final = 14_000
PEACE_MS: Final = 10_000


def make(seed: int) -> World:
    """Make a quorum: static or dynamic, of 1 to 5 voters, with some observers."""
    world = World(seed)
    chance = world.random
    voters = list(range(1, chance.choice([1, 2, 3, 3, 3, 3, 5]) + 1))
    others = list(range(len(voters) + 1, len(voters) + 1 + chance.choice([0, 1, 2])))
    is_dynamic = chance.random() < 0.5
    election_timeout_ms, fetch_timeout_ms = chance.choice([50, 300, 1000]), chance.choice([200, 600, 2000])
    for each in voters + others:
        config = RaftConfig(
            node_id=each,
            directory_id=directory(each),
            cluster_id=CLUSTER,
            listener=LISTENER,
            endpoints=(endpoint(each),),
            can_become_voter=is_dynamic or each in voters,
            voters={} if is_dynamic else {voter: ("host", voter) for voter in voters},
            bootstrap_servers=[("host", node) for node in voters + others] if is_dynamic else [],
            auto_join_enable=chance.random() < 0.3,
            election_timeout_ms=election_timeout_ms,
            fetch_timeout_ms=fetch_timeout_ms,
            fetch_max_bytes=chance.choice([200, 1000, 1 << 20]),
            fetch_snapshot_max_bytes=chance.choice([100, 1 << 20]),
        )
        disk = with_voters(1, voter_set(voters)) if is_dynamic and each in voters else Disk()
        world.nodes[each] = Node(config, disk, rate=chance.uniform(0.95, 1.05))
    return world


class Chaos:
    """The faults, and what clients and operators do meanwhile."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_over = False
        self._count = 0
        chance = world.random
        self.kinds = chance.sample(
            [
                *(self.crash, self.blackout, self.cut, self.weather),
                *(self.snapshot, self.voters, self.wipe, self.resign, self.lie),
            ],
            k=5,
        )

    def go(self) -> None:
        """Something, and again later."""
        if not self.is_over:
            self.world.random.choice(self.kinds)()
            self.world.at(self.world.random.expovariate(1 / 400), self.go)

    def client(self) -> None:
        """Append at whoever believes to lead."""
        world, chance = self.world, self.world.random
        leaders = [each for each in world.running if each.raft is not None and each.raft.is_leader]
        if leaders:
            self._count += 1
            batch = write_batch([(None, b"%d" % self._count)] * chance.randint(1, 3), 0)
            world.call(chance.choice(leaders), lambda raft, now_ms: raft.append([batch], now_ms))
        world.at(chance.expovariate(1 / (600 if self.is_over else 60)), self.client)

    def crash(self) -> None:
        world, chance = self.world, self.world.random
        node = chance.choice([world.leader, *world.running])
        if node is not None:
            world.crash(node)
            world.at(chance.expovariate(1 / 1500), partial(self.restart, node))

    def blackout(self) -> None:
        """Several at once, as with the power."""
        world, chance = self.world, self.world.random
        for node in chance.sample(world.running, k=chance.randint(0, len(world.running))):
            world.crash(node)
            world.at(chance.expovariate(1 / 1000), partial(self.restart, node))

    def restart(self, node: Node) -> None:
        if node.raft is None:
            self.world.start(node)

    def cut(self) -> None:
        world, chance = self.world, self.world.random
        ids = list(world.nodes)
        group = set(chance.sample(ids, k=chance.randint(0, len(ids) // 2)))
        one_way = chance.random() < 0.3
        world.weather.cut = {
            (a, b)
            for a in ids
            for b in ids
            if a != b and ((a in group and b not in group) or (not one_way and b in group and a not in group))
        }
        world.say(f"cut off: {sorted(group)}{' one way' if one_way else ''}")

    def weather(self) -> None:
        chance, weather = self.world.random, self.world.weather
        weather.loss = chance.choice([0, 0, 0.02, 0.2])
        weather.duplication = chance.choice([0, 0.05])
        weather.delay_ms = chance.choice([1, 5, 50, 400])
        weather.flush_ms = chance.choice([5, 50, 500, 2000])

    def snapshot(self) -> None:
        chance = self.world.random
        node = chance.choice(self.world.running or [None])
        if node is None or node.raft is None or node.log is None:
            return
        offset = node.raft.committed_offset
        snapshot = node.log.write_snapshot(node.raft.controls.snapshot_header(offset), offset)
        if snapshot is not None:
            node.raft.snapshot_written(snapshot)
            self.world.say(f"{node.id} writes a snapshot of all before {offset}")
            if chance.random() < 0.7:
                node.log.clean()

    def voters(self) -> None:
        """Add or remove a voter, as an operator does."""
        world, chance = self.world, self.world.random
        leader = world.leader
        if leader is None or leader.raft is None or not leader.raft.kraft_version:
            return
        voters = leader.raft.voters
        others = [each for each in world.nodes.values() if each.id not in voters.ids]
        if others and (len(voters.ids) < 3 or chance.random() < 0.5):
            config = chance.choice(others).config
            key = ReplicaKey(config.node_id, config.directory_id)
            world.say(f"add voter {key.id}")
            world.ask(leader, AddRaftVoter(voter=key, endpoints=config.endpoints), self._said)
        elif len(voters.ids) > 2:
            lost = [each for each in voters.keys if each.directory_id != world.nodes[each.id].config.directory_id]
            key = chance.choice(lost or voters.keys)
            world.say(f"remove voter {key.id}")
            world.ask(leader, RemoveRaftVoter(voter=key), self._said)

    def _said(self, answer: Answer) -> None:
        self.world.say(f"  {answer.top_error.name}")

    def wipe(self) -> None:
        """Let a node lose its disk, once, where that is allowed: it comes back with another directory id, and so is no
        voter."""
        world, leader = self.world, self.world.leader
        if world.wiped or leader is None or leader.raft is None or not leader.raft.kraft_version:
            return
        node = world.random.choice(list(world.nodes.values()))
        can_do_without = len(leader.raft.voters.ids) > 2 and not world.is_changing(leader)
        if can_do_without and node.config.can_become_voter:
            world.wiped = True
            if node.raft is not None:
                world.crash(node)
            world.say(f"{node.id} loses its disk")
            config = node.config
            changes = {"directory_id": directory(node.id, 1)}
            node.config = type(config)(**{**{f: getattr(config, f) for f in config.__slots__}, **changes})
            node.disk = Disk()
            world.at(1000, partial(self.restart, node))

    def lie(self) -> None:
        """Send a voter a request that no node would send, with any epoch, log or leader. An observer that believes it
        stays in a future epoch until the quorum reaches it, as Kafka's does."""
        world, chance = self.world, self.world.random
        voters = [each for each in world.running if each.raft is not None and each.raft.is_voter]
        if not voters:
            return
        node = chance.choice(voters)
        assert node.raft is not None, "it is running"
        epoch = max(0, node.raft.epoch + chance.choice([0, 0, 1, 1, 2, 1000, 1 << 24, 1 << 30, EPOCH_MAX]))
        epoch = min(epoch, EPOCH_MAX)
        who = chance.choice([*world.nodes, 99])
        endpoints = chance.choice([(), (endpoint(who),), (Endpoint(LISTENER, "nowhere", 1),)])
        last = OffsetAndEpoch(chance.choice([0, 5, (1 << 63) - 1]), chance.choice([0, max(0, epoch - 1)]))
        key = ReplicaKey(who, chance.choice([None, directory(who)]))
        lies: list[Request] = [
            Vote(voter=None, replica=key, epoch=epoch, last=last, pre_vote=chance.random() < 0.5),
            BeginQuorumEpoch(voter=None, leader_id=who, epoch=epoch, endpoints=endpoints),
            EndQuorumEpoch(leader_id=who, epoch=epoch, preferred_successors=[key] * 3, endpoints=endpoints),
        ]
        request = chance.choice(lies)
        world.say(f"{node.id} is told {type(request).__name__} of {who} in epoch {epoch}")
        world.ask(node, request, lambda _: None)

    def resign(self) -> None:
        leader = self.world.leader
        if leader is not None:
            self.world.call(leader, lambda raft, now_ms: raft.resign(raft.epoch, now_ms))


def simulate(seed: int, *, tell: Callable[[str], object] | None = None) -> Exception | None:
    """Return the error that broke the run, None without one. tell: called with each event's line."""
    world, broken = make(seed), None
    try:
        _run(world)
    except Exception as error:  # noqa: BLE001  (what is broken, whatever it is)
        last = "\n".join(world.trace[-60:])
        error.add_note(f"seed {seed}, after {world.now / 1000:.3f} s\n{last}\n{world.report()}")
        broken = error
    if tell is not None:
        for line in [*world.trace, world.report()]:
            tell(line)
    return broken


def _run(world: World) -> None:
    chaos = Chaos(world)
    for node in world.nodes.values():
        world.at(world.random.uniform(0, 300), partial(chaos.restart, node))
    world.at(1000, chaos.client)
    world.at(2500, chaos.go)
    world.run(CHAOS_MS)
    chaos.is_over = True
    world.say("peace")
    world.weather = Weather()
    for node in world.nodes.values():
        chaos.restart(node)
    before = world.checks.committed_offset
    world.run(CHAOS_MS + PEACE_MS)
    if world.checks.committed_offset <= before:
        raise Broken(f"nothing was committed in {PEACE_MS / 1000:.0f} s of peace")
    leader = world.leader
    if leader is None or leader.raft is None or leader.log is None:
        raise Broken("nobody leads")
    for node in world.running:
        if node.raft is not None and node.raft.committed_offset < leader.raft.committed_offset - 10:
            raise Broken(f"{node.id} does not follow")
