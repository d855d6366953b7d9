"""The clients of the simulation. Each runs until it is fenced or killed; then the world starts it again.

plain    a member that commits offsets outside of transactions, each offset a different one
loop     a member that consumes, processes and produces, in a transaction for a few inputs of its partitions
fixed    does the same for one partition without joining a group; the next owner of its transactional id continues
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.requests import CommitOffsets
from tests.sim.checks import Input, value_of
from tests.sim.member import Member, Rejoin, until_fetched
from tests.sim.network import Lost
from tests.sim.node import OUTPUTS
from tests.sim.producer import Failed, Producer

if TYPE_CHECKING:
    from tests.sim.world import World

PLAIN, LOOP, FIXED = "plain", "loop", "fixed"


async def plain(world: World, who: str, *, is_static: bool) -> None:
    """Run a member that commits offsets outside of transactions. Raises Fenced."""
    member = world.member(who, PLAIN, is_static=is_static)
    while not world.is_ending:
        try:
            assignment = await member.join()
            while not world.is_ending:
                await world.rest(800)
                if assignment and not world.is_idle(who) and world.random.random() < 0.5:
                    await member.commit(world.random.choice(assignment), world.next_commit())
                else:
                    await member.heartbeat()
                world.progressed(who)
                if not world.is_calm and world.random.random() < 0.03:
                    await member.leave()
                    await world.rest(3000)
                    break
        except (Rejoin, Lost, CoordinatorError) as why:
            world.note(who, f"again: {why!r}")
            await world.rest(300)
    await _gone(member)


async def loop(world: World, who: str, *, is_static: bool, is_modern: bool) -> None:
    """Run a member that consumes, processes and produces in transactions. Raises Fenced, Failed, Lost."""
    member = world.member(who, LOOP, is_static=is_static)
    producer = Producer(world, who, who, is_modern=is_modern)
    await producer.init()
    while not world.is_ending:
        try:
            assignment = await member.join()
            positions: dict[int, int] = {}
            while not world.is_ending:
                if world.random.random() < 0.2 or not positions:
                    positions = {number: await until_fetched(world, who, LOOP, number) for number in assignment}
                await world.rest(600)
                await member.heartbeat()
                if not positions or world.is_idle(who) or await _process(world, producer, member, positions):
                    world.progressed(who)
        except (Rejoin, Lost, CoordinatorError) as why:
            world.note(who, f"again: {why!r}")
            await world.rest(300)
        except Failed as why:
            world.note(who, f"begins anew: {why}")
            await producer.init()
    await _gone(member)


async def fixed(world: World, who: str, *, number: int, is_modern: bool) -> None:
    """Process one partition in transactions, without joining a group. Raises Failed, Lost."""
    member = Member(world, who, FIXED, is_static=False)
    producer = Producer(world, who, who, is_modern=is_modern)
    while not world.is_ending:
        try:
            await producer.init()
            positions: dict[int, int] = {}
            while not world.is_ending:
                if world.random.random() < 0.2 or not positions:
                    positions = {number: await until_fetched(world, who, FIXED, number)}
                await world.rest(600)
                if world.is_idle(who) or await _process(world, producer, member, positions):
                    world.progressed(who)
        except (Failed, Lost) as why:
            world.note(who, f"takes a break: {why!r}")
            await world.rest(6000)


async def _process(world: World, producer: Producer, member: Member, positions: dict[int, int]) -> bool:
    """Process some inputs in one transaction. Returns whether it was committed. Raises Failed where the producer must
    initialize again."""
    random = world.random
    chosen = random.sample(sorted(positions), min(len(positions), random.randint(1, 2)))
    done = {number: positions[number] + random.randint(1, 5) for number in chosen}
    transaction = producer.begin()
    outputs: dict[int, list[bytes]] = defaultdict(list)
    for number, end in done.items():
        place: Input = (member.group, number)
        for offset in range(positions[number], end):
            outputs[offset % OUTPUTS].append(value_of(transaction, place, offset))
    commits = random.random() < 0.85
    request: CommitOffsets = member.commit_request(list(done.items()))
    try:
        for number, values in outputs.items():
            await producer.send(transaction, number, values)
            await world.rest(100)
        await producer.send_offsets(transaction, request)
        await world.before_end(producer.name)
        await producer.end(transaction, commit=commits)
    except (Failed, Lost) as why:
        if isinstance(why, Failed) and random.random() < 0.5:
            with suppress(Failed, Lost):
                await producer.end(transaction, commit=False)
        raise Failed(f"{why!r}") from why
    if commits:
        positions |= done
    return commits


async def _gone(member: Member) -> None:
    """Let the member leave its group, and ignore errors."""
    if member.member_id:
        try:
            await member.leave()
        except (Lost, CoordinatorError):
            return
