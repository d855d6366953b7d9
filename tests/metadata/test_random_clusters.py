"""What must hold whatever happens: brokers that come, go and die, ISR changes, moves, elections, in any order.

leader          a replica that is up, and in sync; of the old ISR or ELR, else the partition is RECOVERING
unclean         only where the topic allows it, a client asks for it, or as the last leader there was (KIP-966)
epochs          a new leader, a new leader epoch; every change, a new partition epoch
ISR             of replicas, none twice; nobody in it is eligible besides; without ELR never empty
moves           end with the replicas that were asked for
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest

from kcli.metadata.election import ElectionType, balance_leaders, elect_leaders, elect_unclean_leaders
from kcli.metadata.heartbeats import Heartbeat, Heartbeats, heartbeat
from kcli.metadata.image import Record
from kcli.metadata.isr_control import IsrChange, alter_partitions
from kcli.metadata.partition import NO_LEADER, RECOVERED, RECOVERING, Partition
from kcli.metadata.reassignment import Reassignment, alter_partition_reassignments
from kcli.metadata.registration import Broker
from kcli.metadata.registration_control import NO_EPOCH, fence_broker, register_broker
from kcli.protocol.error_code import ErrorCode
from tests.metadata.cluster import DIRECTORIES, A, Cluster
from tests.metadata.node import registration

STEPS = 150
PARTITIONS = 3
BROKERS = 5


class World(Cluster):
    """A cluster to which things happen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        super().__init__(BROKERS, elr=self.random.random() < 0.7, min_isr=self.random.randint(1, 3))
        for number in range(1, PARTITIONS):
            self.add_partition(number, replicas=self.random.sample(range(1, BROKERS + 1), self.random.randint(1, 4)))
        self.has_elr = "eligible.leader.replicas.version" in self.image.features
        self.heartbeats = Heartbeats(1000, self.image.brokers.values(), 0)
        self.is_unclean = False
        self.targets: dict[int, tuple[int, ...]] = {}

    def step(self) -> str:
        actions = [
            self.beat, self.beat, self.die, self.come_up, self.alter_isr, self.alter_isr, self.alter_isr, self.move,
            self.take_back, self.elect, self.balance, self.elect_unclean, self.allow_unclean, self.set_min_isr,
        ]  # fmt: skip
        action = self.random.choice(actions)
        action()
        return action.__name__

    def any_broker(self) -> Broker:
        return self.random.choice(list(self.image.brokers.values()))

    def beat(self) -> None:
        broker = self.any_broker()
        beat = Heartbeat(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            metadata_offset=self.offset,
            wants_shutdown=self.random.random() < 0.3,
            wants_fence=self.random.random() < 0.1,
        )
        records, answer = heartbeat(self.image, self.heartbeats, beat, {}, 0)
        self.take(records)
        if answer.is_in_controlled_shutdown:
            self.heartbeats.begin_controlled_shutdown(broker.id, self.offset)

    def die(self) -> None:
        broker = self.any_broker()
        self.heartbeats.end_session(broker.id)
        self.take(fence_broker(self.image, broker.id, {}))
        self.heartbeats.fenced(broker.id)

    def come_up(self) -> None:
        broker = self.any_broker()
        previous = self.random.choice([broker.epoch, NO_EPOCH])
        incarnation = UUID(int=self.random.getrandbits(120))
        new = registration(
            self.offset + 1, broker.id, incarnation_id=incarnation, directories=(DIRECTORIES[broker.id],)
        )
        self.take(register_broker(self.image, new, previous, {}))
        self.heartbeats.registered(broker.id)

    def alter_isr(self) -> None:
        number = self.random.randrange(PARTITIONS)
        known = self.partition(number)
        if known.leader == NO_LEADER:
            return
        others = [each for each in known.replicas if each != known.leader]
        isr = [known.leader, *self.random.sample(others, self.random.randint(0, len(others)))]
        change = IsrChange(
            partition=number,
            leader_epoch=known.leader_epoch,
            partition_epoch=known.partition_epoch,
            isr=[(each, self.image.brokers[each].epoch) for each in isr],
            recovery_state=RECOVERED,
        )
        epoch = self.image.brokers[known.leader].epoch
        result = alter_partitions(self.image, known.leader, epoch, [(A, [change])], {})
        self.take(result.records, added=[*known.isr, *isr])
        ((_, (answer,)),) = result.response
        assert answer.code in (ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NEW_LEADER_ELECTED)

    def move(self) -> None:
        number = self.random.randrange(PARTITIONS)
        target = tuple(self.random.sample(range(1, BROKERS + 1), self.random.randint(1, 4)))
        result = alter_partition_reassignments(self.image, [("a", [Reassignment(number, target)])], {})
        assert [each.error.code for _, answers in result.response for each in answers] == [ErrorCode.NONE]
        if result.records:
            self.targets[number] = target
        self.take(result.records)

    def take_back(self) -> None:
        number = self.random.randrange(PARTITIONS)
        known = self.partition(number)
        result = alter_partition_reassignments(self.image, [("a", [Reassignment(number, None)])], {})
        if result.records:
            self.targets.pop(number, None)
        self.take(result.records, forced=self.is_unclean)
        if result.records:
            assert set(self.partition(number).replicas) == set(known.replicas) - set(known.adding_replicas)

    def elect(self) -> None:
        kind = self.random.choice(list(ElectionType))
        numbers = [self.random.randrange(PARTITIONS)]
        self.take(elect_leaders(self.image, kind, [("a", numbers)], {}).records, forced=kind is ElectionType.UNCLEAN)

    def balance(self) -> None:
        self.take(balance_leaders(self.image, {}))

    def elect_unclean(self) -> None:
        self.take(elect_unclean_leaders(self.image, {}))

    def allow_unclean(self) -> None:
        self.is_unclean = self.random.random() < 0.2
        self.config("unclean.leader.election.enable", str(self.is_unclean).lower())

    def set_min_isr(self) -> None:
        self.config("min.insync.replicas", str(self.random.randint(1, 3)))
        if self.has_elr:
            self.image.apply("ClearElrRecord", {"topicName": "a"}, 0)

    # checks

    def take(self, records: Sequence[Record], *, forced: bool = False, added: Sequence[int] = ()) -> None:
        before = {number: self.partition(number) for number in range(PARTITIONS)}
        self.commit(records)
        for number, old in before.items():
            new = self.partition(number)
            if new is not old:
                self.check_change(old, new, [*old.isr, *old.elr, *added], forced=forced)
            self.check(number, new)

    def check(self, number: int, state: Partition) -> None:
        assert len(set(state.isr)) == len(state.isr)
        assert set(state.isr) <= set(state.replicas)
        assert not set(state.isr) & set(state.elr)
        assert {*state.adding_replicas, *state.removing_replicas} <= set(state.replicas)
        assert len(state.directories) == len(state.replicas) == len(set(state.replicas))
        if state.leader != NO_LEADER:
            assert state.leader in state.isr
            assert self.image.brokers[state.leader].active
        if not self.has_elr:
            assert state.isr
            assert not state.elr
        target = self.targets.get(number)
        if target is not None and not (state.adding_replicas or state.removing_replicas):
            assert state.replicas == target
        if target is not None and state.adding_replicas:
            assert set(state.replicas) - set(state.removing_replicas) == set(target)

    def check_change(self, old: Partition, new: Partition, eligible: Sequence[int], *, forced: bool) -> None:
        assert new.partition_epoch > old.partition_epoch
        assert new.leader_epoch >= old.leader_epoch + (not set(old.replicas) <= set(new.replicas))
        if new.leader == old.leader:
            return
        assert new.leader_epoch > old.leader_epoch
        if new.leader == NO_LEADER or new.leader in eligible:
            return
        assert new.leader_recovery_state == RECOVERING or forced
        is_last = self.has_elr and not old.elr and old.last_known_elr == (new.leader,)
        assert self.is_unclean or forced or is_last


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens(seed: int) -> None:
    world = World(seed)
    trace = []
    for _ in range(STEPS):
        try:
            trace.append(world.step())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, behind {trace[-5:]}: {world.image.topics['a'].partitions}") from error
