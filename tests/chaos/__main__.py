"""python -m tests.chaos [--minutes N] [--seed S] [--cluster kcli|kafka]: clients work while a cluster is broken.

Three nodes, each in a network namespace and on a disk of its own where this machine lets us. One fault after the
other, at times two at once, and time to heal between them; in the end everything heals, the clients finish, and the
verdict says of each promise whether it was kept. What was done goes to chaos-SEED.jsonl below --out, the verdict to
chaos-SEED.json; a seed chooses the same faults again, though not the same moments.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from kcli.protocol.topic_partition import TopicPartition
from tests.chaos import verdict as promises
from tests.chaos.faults import ALONE, FAULTS, KILLING, MAY_DIE, Fault, Victim
from tests.chaos.history import EventLog, History, Outcome
from tests.chaos.machine import machine
from tests.chaos.workload import (
    PARTITIONS,
    Idempotent,
    Member,
    Processor,
    Tail,
    Transactional,
    Worker,
    create_topics,
    not_processed,
    read_all,
)
from tests.interop import kit
from tests.interop.clusters import Cluster, ClusterError, KcliCluster
from tests.interop.real_cluster import RealCluster

OUT = Path(__file__).with_name(".work")
HEALS_S = 120.0
DYING_S = 60.0
CATCHES_UP_S = 120.0
OPTIONS = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "5000",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "leader.imbalance.check.interval.seconds": "10",
    "log.retention.ms": "-1",
}


@dataclass
class Run:
    """A cluster, its clients, and its faults."""

    victim: Victim
    history: History
    processor: Processor
    workers: list[Worker] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    gaps_s: dict[str, float] = field(default_factory=dict)
    dying_until_s: float = 0.0
    """The time until which a node may end by itself because of a full disk."""

    @property
    def cluster(self) -> Cluster:
        """It."""
        return self.victim.cluster

    def start(self) -> None:
        """Nodes, topics, clients."""
        self.cluster.format()
        self.cluster.start()
        self.cluster.wait_ready()
        create_topics(self.cluster.bootstrap)
        self.cluster.wait_in_sync(topics=PARTITIONS)
        bootstrap, history, seed = self.cluster.bootstrap, self.history, self.victim.random.randrange(1 << 30)
        self.workers += [Idempotent(f"i{each}", bootstrap, history, promises.ORDERS, 400) for each in range(2)]
        self.workers += [Transactional(f"t{each}", bootstrap, history, seed + each, 8) for each in range(2)]
        self.workers += [
            Tail(f"tail of {topic}", bootstrap, history, topic) for topic in (promises.ORDERS, promises.LEDGER)
        ]
        for protocol in ("classic", "consumer"):
            self.workers += [
                Member(f"{protocol} member {each}", bootstrap, history, f"{protocol} group", protocol, seed + each)
                for each in range(2)
            ]
        if self.processor.runs_here:
            self.workers.append(Idempotent("feeder", bootstrap, history, promises.INPUT, 30))
        for each in self.workers:
            each.start()
        self.processor.keep_up()
        self.history.acknowledged()

    # faults

    def break_for(self, seconds: float, faults: list[Fault]) -> None:
        """One fault after the other."""
        until = time.monotonic() + seconds
        random = self.victim.random
        upcoming: list[Fault] = []
        while time.monotonic() < until:
            if not upcoming:  # each comes as often as the others
                upcoming = random.sample(faults, len(faults))
            chosen = [upcoming.pop()]
            if upcoming and chosen[0].name not in ALONE and upcoming[-1].name not in ALONE and random.random() < 0.2:
                chosen.append(upcoming.pop())
            self._suffer(chosen)
            if random.random() < 0.8:
                self.heal()
            time.sleep(random.uniform(0.5, 4))

    def _suffer(self, chosen: list[Fault]) -> None:
        random, events = self.victim.random, self.victim.events
        nodes = random.sample(self.cluster.ids, len(chosen))
        self.history.take_gap_s()
        ends: list[Callable[[], None]] = []
        for fault, drawn in zip(chosen, nodes, strict=True):
            node = (self.cluster.controller() if fault.to_controller else None) or drawn
            if not self.cluster.is_running(node):
                self.cluster.start(node)
            events.tell(fault.name, node=node)
            self.done[fault.name] += 1
            ends.append(fault.begin(self.victim, node))
        if random.random() < 0.15:
            events.tell("kill the Java client")
            self.processor.kill()
        time.sleep(random.choice([1.0, 3.0, 8.0, 15.0]))
        for end in ends:
            end()
        names = {fault.name for fault in chosen}
        if names & MAY_DIE:
            self.dying_until_s = time.monotonic() + DYING_S
        self._restart_the_dead(were_killed=bool(names & KILLING))
        self.processor.keep_up()
        both = " + ".join(fault.name for fault in chosen)
        gap = self.history.take_gap_s()
        self.gaps_s[both] = max(gap, self.gaps_s.get(both, 0.0))
        events.tell("over", longest_without_acknowledgement_s=round(gap, 1))

    def _restart_the_dead(self, *, were_killed: bool) -> None:
        for node in self.cluster.ids:
            if not self.cluster.is_running(node):
                if not were_killed and time.monotonic() > self.dying_until_s:
                    status = self.cluster.processes[node].returncode
                    said = self.cluster.log_text(node)[-600:]
                    self._found_wrong(f"node {node} ended by itself, status {status}: {said}")
                self.cluster.start(node)

    def heal(self) -> None:
        """Wait until all nodes run and all replicas are in the ISR. Raises ClusterError."""
        began = time.monotonic()
        self._restart_the_dead(were_killed=False)
        while True:
            try:
                self.cluster.wait_ready(timeout_s=HEALS_S)
                self.cluster.wait_in_sync(HEALS_S)
                break
            except ClusterError:
                if all(map(self.cluster.is_running, self.cluster.ids)):
                    raise
                self._restart_the_dead(were_killed=False)
        self.victim.events.tell("healed", after_s=round(time.monotonic() - began, 1))

    def _found_wrong(self, what: str) -> None:
        self.victim.events.tell("WRONG", why=what)
        self.history.found_wrong(what)

    # the end

    def finish(self) -> promises.Log:
        """Let the clients finish, then stop the cluster. Returns the content of the logs."""
        self.heal()
        readers = [each for each in self.workers if isinstance(each, Tail | Member)]
        for each in self.workers:
            if each not in readers:
                each.finish()
        self.victim.events.tell("producers have finished")
        log = self._settled()
        ends = {place: len(records) for place, records in log.items()}
        deadline = time.monotonic() + CATCHES_UP_S
        while time.monotonic() < deadline and not all(each.has(ends) for each in readers):
            time.sleep(0.2)
        for each in readers:
            each.finishing.set()
        for each in readers:
            each.finish()
        self.processor.kill()
        self.victim.events.tell("consumers have finished")
        return log

    def _settled(self) -> promises.Log:
        """Read the logs once the Java client has processed all of the input."""
        self._drain()
        deadline = time.monotonic() + CATCHES_UP_S
        while True:
            self.processor.keep_up()
            log = read_all(self.cluster.bootstrap, CATCHES_UP_S)
            inputs, outputs = (
                sum(len(records) for (topic, _), records in log.items() if topic == name)
                for name in (promises.INPUT, promises.OUTPUT)
            )
            if outputs >= inputs or time.monotonic() > deadline:
                return log
            time.sleep(1)

    def _drain(self) -> None:
        """Wait for the Java client to process the rest, while it makes progress."""
        least, deadline = None, time.monotonic() + CATCHES_UP_S
        while self.processor.runs_here and time.monotonic() < deadline:
            self.processor.keep_up()
            left = not_processed(self.cluster.bootstrap)
            if not left:
                return
            if least is None or left < least:
                least, deadline = left, time.monotonic() + CATCHES_UP_S
            time.sleep(1)

    def replicas(self) -> dict[TopicPartition, dict[int, Path]]:
        """The directories of each partition."""
        return {
            TopicPartition(topic, number): {
                node: directory
                for node in self.cluster.ids
                if (directory := self.cluster.data(node) / f"{topic}-{number}").is_dir()
            }
            for topic, count in PARTITIONS.items()
            for number in range(count)
        }

    def counts(self) -> dict[str, Any]:
        """How much there was."""
        outcomes = Counter(
            each.outcome.value for all_of_one in self.history.transactions.values() for each in all_of_one.values()
        )
        return {
            "records sent": sum(each.count for each in self.history.sent.values()),
            "records acknowledged": sum(len(each.acked) for each in self.history.sent.values()),
            "transactions": {outcome.value: outcomes[outcome.value] for outcome in Outcome},
            "producers that could not go on": self.history.ended,
            "faults": dict(sorted(self.done.items())),
            "longest time without an acknowledgement, s": {
                name: round(gap, 1) for name, gap in sorted(self.gaps_s.items(), key=lambda item: -item[1])
            },
        }


def main() -> int:
    """Break it, and judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Break a cluster while clients work.")
    parser.add_argument("--minutes", type=float, default=30.0, help="of faults (default: 30)")
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run")
    parser.add_argument("--cluster", choices=["kcli", "kafka"], default="kcli", help="whose nodes (default: kcli)")
    parser.add_argument(
        "--fault", action="append", help="only these; may be repeated: " + ", ".join(f.name for f in FAULTS)
    )
    parser.add_argument("--out", type=Path, default=OUT, help="where the files go")
    parser.add_argument("--keep", action="store_true", help="keep the nodes' logs and directories, also if all is well")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    options.out.mkdir(parents=True, exist_ok=True)
    events = EventLog(options.out / f"chaos-{seed}.jsonl")
    events.tell("seed", seed=seed, minutes=options.minutes, cluster=options.cluster)
    work = Path(tempfile.mkdtemp(prefix="kcli-chaos-"))
    try:
        found = chaos(options, seed, events, work)
    except kit.KafkaUnavailableError as unavailable:
        print(f"chaos: {unavailable}", file=sys.stderr)
        return 1
    finally:
        events.close()
    path = options.out / f"chaos-{seed}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    for name, wrong in found["promises"].items():
        print(f"{'BROKEN' if wrong else 'kept':7} {name}")
        for each in wrong[:5]:
            print(f"          {each[:500]}")
    print(f"seed {seed}: {path}")
    broken = any(found["promises"].values())
    if broken or options.keep:
        print(f"the nodes' logs are in {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)
    return int(broken)


def chaos(options: argparse.Namespace, seed: int, events: EventLog, work: Path) -> dict[str, Any]:
    """A run. Returns the verdict."""
    ids = [1, 2, 3]
    directories = {node: work / f"node-{node}" / "data" for node in ids}
    with machine(ids, directories, work) as (network, disks):
        in_namespaces = {} if isinstance(network, str) else {"places": network.places(), "enter": network.enter}
        kind: Callable[..., Cluster] = RealCluster if options.cluster == "kafka" else partial(KcliCluster, warm=False)
        with kind(work, OPTIONS, **in_namespaces) as cluster:
            victim = Victim(cluster, network, disks, Random(seed), events)
            processor = Processor(cluster.bootstrap, work, events)
            run = Run(victim, History(), processor)
            try:
                found = judge(run, options, seed)
            finally:
                processor.kill()
            if options.keep or any(found["promises"].values()):
                for node in ids:  # the disks go
                    shutil.copytree(cluster.data(node), cluster.place(node) / "data-kept")
            return found


def judge(run: Run, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Run the whole scenario; check the promises wherever it ends."""
    events = run.victim.events
    faults = [each for each in FAULTS if not options.fault or each.name in options.fault]
    for each in faults:
        if (why := each.needs(run.victim)) is not None:
            events.tell("not possible here", fault=each.name, why=why)
    possible = [each for each in faults if each.needs(run.victim) is None]
    log: promises.Log = {}
    replicas: dict[TopicPartition, dict[int, Path]] = {}
    try:
        run.start()
        events.tell("the clients work")
        run.break_for(options.minutes * 60, possible)
        log = run.finish()
        run.cluster.stop()
        replicas = run.replicas()
    except (ClusterError, TimeoutError) as error:
        events.tell("WRONG", why=str(error))
        run.history.found_wrong(str(error))
    found = promises.verdict(run.history, log, replicas) if log else {"it comes to an end": run.history.wrong}
    return {"seed": seed, "cluster": run.cluster.name, "minutes": options.minutes, **run.counts(), "promises": found}


if __name__ == "__main__":
    sys.exit(main())
