"""The faults of a cluster. A fault begins, lasts a while, and ends; nodes that died of it are started again then."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.chaos.history import EventLog
from tests.chaos.machine import Disks, Namespaces
from tests.interop.clusters import Cluster

End = Callable[[], None]


@dataclass
class Victim:
    """What faults work on."""

    cluster: Cluster
    network: Namespaces | str
    disks: Disks | str
    random: Random
    events: EventLog


@dataclass(frozen=True)
class Fault:
    """A kind of fault. begin: does it to a node, and returns the function that ends it."""

    name: str
    begin: Callable[[Victim, int], End]
    needs: Callable[[Victim], str | None] = lambda _: None
    """The reason for which the fault is not possible here; None where it is."""
    to_controller: bool = False


def kill(victim: Victim, node: int) -> End:
    """kill -9; the node is started again at the fault's end, or at once."""
    victim.cluster.kill(node)
    if victim.random.random() < 0.3:
        victim.cluster.start(node)
    return lambda: None


def stop(victim: Victim, node: int) -> End:
    """In order."""
    victim.cluster.stop(node)
    return lambda: None


def freeze(victim: Victim, node: int) -> End:
    """SIGSTOP: the node answers nothing, and does not know how much time has passed."""
    victim.cluster.signal(node, signal.SIGSTOP)
    return lambda: victim.cluster.signal(node, signal.SIGCONT)


def stutter(victim: Victim, node: int) -> End:
    """Frozen for moments, again and again."""
    for _ in range(victim.random.randint(3, 8)):
        victim.cluster.signal(node, signal.SIGSTOP)
        time.sleep(victim.random.uniform(0.2, 1.5))
        victim.cluster.signal(node, signal.SIGCONT)
        time.sleep(victim.random.uniform(0.05, 0.5))
    return lambda: None


def unplug(victim: Victim, node: int) -> End:
    """Nobody hears it, it hears nobody."""
    network = the_network(victim)
    network.unplug(node)
    return network.heal


def split(victim: Victim, node: int) -> End:
    """The other nodes and this one are cut off from each other; clients reach all."""
    network = the_network(victim)
    for other in others(victim, node):
        network.lose(node, other)
        network.lose(other, node)
    return network.heal


def one_way(victim: Victim, node: int) -> End:
    """No other node receives what this one sends, or only one of them."""
    network = the_network(victim)
    for other in victim.random.sample(others(victim, node), victim.random.randint(1, 2)):
        network.lose(node, other)
    return network.heal


def pair(victim: Victim, node: int) -> End:
    """Two nodes are cut off from each other; the third reaches both."""
    network = the_network(victim)
    other = victim.random.choice(others(victim, node))
    network.lose(node, other)
    network.lose(other, node)
    return network.heal


def deaf_to_clients(victim: Victim, node: int) -> End:
    """Clients do not reach the node; nodes do."""
    network = the_network(victim)
    network.lose_from_clients(node)
    return network.heal


def slow_disk(victim: Victim, node: int) -> End:
    """The node writes 50 to 500 KB/s, and waits for each write."""
    disks = the_disks(victim)
    disks.slow(node, victim.cluster.processes[node].pid, victim.random.randint(50, 500) * 1000)
    return lambda: disks.fast(node)


def full_disk(victim: Victim, node: int) -> End:
    """The disk has no room; a node may end because of that."""
    disks = the_disks(victim)
    disks.fill(node)
    return lambda: disks.free(node)


def rolling_restart(victim: Victim, node: int) -> End:
    """The nodes are restarted one after the other, beginning with this one, each when the one before is in all ISRs
    again."""
    for each in [node, *others(victim, node)]:
        victim.cluster.restart(each)
        victim.cluster.wait_ready()
        victim.cluster.wait_in_sync()
    return lambda: None


def kill_two(victim: Victim, node: int) -> End:
    """A majority is killed, one node shortly after the other."""
    victim.cluster.kill(node)
    time.sleep(victim.random.choice([0.0, 0.5, 3.0]))
    victim.cluster.kill(victim.random.choice(others(victim, node)))
    return lambda: None


def others(victim: Victim, node: int) -> Sequence[int]:
    return [each for each in victim.cluster.ids if each != node]


def the_network(victim: Victim) -> Namespaces:
    assert isinstance(victim.network, Namespaces)
    return victim.network


def the_disks(victim: Victim) -> Disks:
    assert isinstance(victim.disks, Disks)
    return victim.disks


def no_network(victim: Victim) -> str | None:
    return victim.network if isinstance(victim.network, str) else None


def no_disks(victim: Victim) -> str | None:
    return victim.disks if isinstance(victim.disks, str) else None


def not_slow(victim: Victim) -> str | None:
    return victim.disks if isinstance(victim.disks, str) else victim.disks.why_not_slow()


FAULTS = (
    Fault("kill", kill),
    Fault("kill the controller", kill, to_controller=True),
    Fault("stop", stop),
    Fault("freeze", freeze),
    Fault("freeze the controller", freeze, to_controller=True),
    Fault("stutter", stutter),
    Fault("kill two", kill_two),
    Fault("unplug", unplug, no_network),
    Fault("unplug the controller", unplug, no_network, to_controller=True),
    Fault("split", split, no_network),
    Fault("one way", one_way, no_network),
    Fault("pair", pair, no_network),
    Fault("deaf to clients", deaf_to_clients, no_network),
    Fault("slow disk", slow_disk, not_slow),
    Fault("full disk", full_disk, no_disks),
    Fault("rolling restart", rolling_restart),
)
ALONE = {"rolling restart", "kill two"}
"""Not beside another fault."""
KILLING = {"kill", "kill the controller", "kill two", "stop"}
MAY_DIE = {"full disk", "slow disk"}
