"""The promises of the cluster. Each function compares what clients were answered with the final log, and yields the
differences."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from kcli.protocol.topic_partition import TopicPartition
from tests.chaos.history import NO_OFFSET, History, Outcome

Log = Mapping[TopicPartition, Sequence[tuple[int, str]]]
"""By partition: the offsets and values that a read_committed consumer reads at the end of the run."""
ORDERS, LEDGER, INPUT, OUTPUT = "orders", "ledger", "input", "output"
ENOUGH = 20


def verdict(history: History, log: Log, replicas: Mapping[TopicPartition, Mapping[int, Path]]) -> dict[str, list[str]]:
    """Return the broken promises: for each one the first differences."""
    found = {
        "no acknowledged record lost or doubled": [*lost_or_doubled(history, log)],
        "order in each partition": [*out_of_order(log)],
        "transactions all or nothing": [*torn_transactions(history, log)],
        "consumers see every offset, once and in order": [*unseen_by_tails(history, log)],
        "groups see every offset": [*unseen_by_groups(history, log)],
        "each input processed exactly once": [*not_exactly_once(log)],
        "replicas are equal": [*unequal_replicas(replicas)],
        "nothing went wrong on the way": list(history.wrong),
    }
    return {name: not_all(wrong) for name, wrong in found.items()}


def not_all(wrong: list[str]) -> list[str]:
    """The first ones, and how many more."""
    return wrong[:ENOUGH] + ([f"and {len(wrong) - ENOUGH} more"] if len(wrong) > ENOUGH else [])


def lost_or_doubled(history: History, log: Log) -> Iterator[str]:
    """Yield acknowledged records that are lost, doubled or at another offset than the acknowledged one, and records
    that are doubled or that no producer sent."""
    for (producer, place), sent in sorted(history.sent.items()):
        offsets = defaultdict(list)
        for offset, value in log.get(place, ()):
            name, _, number = value.partition(" ")
            if name == producer:
                offsets[int(number)].append(offset)
        for given, said in sent.acked.items():
            there = offsets.get(given, [])
            if not there:
                yield f"{place}: {producer} {given}, acknowledged at {said}, is lost"
            elif said not in (NO_OFFSET, *there):
                yield f"{place}: {producer} {given}, acknowledged at {said}, is at {there}"
        for found, there in offsets.items():
            if len(there) > 1:
                yield f"{place}: {producer} {found} is at {there}"
            if found >= sent.count:
                yield f"{place}: {producer} never sent {found}"


def out_of_order(log: Log) -> Iterator[str]:
    """Yield offsets, and numbers of one producer in one partition, that do not ascend."""
    for place, records in sorted(log.items()):
        for (before, _), (after, _) in pairwise(records):
            if after <= before:
                yield f"{place}: offset {after} behind {before}"
        last: dict[str, list[int]] = {}
        for offset, value in records:
            name, *numbers = value.split()
            number = list(map(int, numbers))
            if name in last and number <= last[name]:
                yield f"{place}: offset {offset} is {value}, behind {last[name]}"
            last[name] = number


def torn_transactions(history: History, log: Log) -> Iterator[str]:
    """Yield transactions that broke atomicity: committed ones must be in the log whole and once, aborted ones not at
    all; one with an unknown outcome must be either."""
    seen: Counter[tuple[str, int, TopicPartition, int]] = Counter()
    for place, records in log.items():
        if place[0] == LEDGER:
            for _, value in records:
                name, *numbers = value.split()
                seen[name, int(numbers[0]), place, int(numbers[1])] += 1
    for producer, transactions in sorted(history.transactions.items()):
        for number, transaction in transactions.items():
            keys = [
                (producer, number, place, index) for place, indexes in transaction.records.items() for index in indexes
            ]
            counts = {seen.pop(key, 0) for key in keys}
            allowed = {
                Outcome.COMMITTED: [{1}],
                Outcome.ABORTED: [{0}],
                Outcome.UNKNOWN: [{0}, {1}],
            }[transaction.outcome]
            if keys and counts not in allowed:
                said = transaction.outcome.value
                yield f"{producer} {number}, {said}: its {len(keys)} records are there {counts} times"
    yield from (f"{place}: nobody sent {producer} {number} {index}" for producer, number, place, index in seen)


def unseen_by_tails(history: History, log: Log) -> Iterator[str]:
    """Yield the differences between the log and what a consumer read that ran from the beginning to the end."""
    for name, partitions in sorted(history.tails.items()):
        for place, seen in sorted(partitions.items()):
            there = list(log.get(place, ()))
            if seen == there:
                continue
            at = next((n for n, (one, other) in enumerate(zip(seen, there, strict=False)) if one != other), None)
            if at is None:
                yield f"{place}: {name} saw {len(seen)} records of {len(there)}"
            else:
                yield f"{place}: {name} saw {seen[at]} where {there[at]} is"


def unseen_by_groups(history: History, log: Log) -> Iterator[str]:
    """Yield the differences between the log and what the members of a group have read together."""
    for group, partitions in sorted(history.groups.items()):
        for place, seen in sorted(partitions.items()):
            there = dict(log.get(place, ()))
            missing = sorted(there.keys() - seen.keys())
            if missing:
                yield f"{place}: {group} never saw {len(missing)} offsets, such as {missing[:5]}"
            other = [offset for offset, value in seen.items() if there.get(offset) != value]
            yield from (
                f"{place}: {group} saw {seen[at]} at {at}, where {there.get(at)} is" for at in sorted(other)[:5]
            )


def not_exactly_once(log: Log) -> Iterator[str]:
    """Yield the differences between the input and the output of the exactly-once application."""
    for (topic, number), records in sorted(log.items()):
        if topic != INPUT:
            continue
        given = [value for _, value in records]
        made = [value for _, value in log.get(TopicPartition(OUTPUT, number), ())]
        if given == made:
            continue
        doubled = [value for value, count in Counter(made).items() if count > 1]
        missing = sorted(set(given) - set(made))
        counts = f"{len(given)} inputs, {len(made)} outputs"
        yield f"partition {number}: {counts}, doubled {doubled[:5]}, missing {missing[:5]}"


def unequal_replicas(replicas: Mapping[TopicPartition, Mapping[int, Path]]) -> Iterator[str]:
    """Yield the partitions whose replicas do not hold the same batches."""
    for place, directories in sorted(replicas.items()):
        sums = {node: _sum(directory) for node, directory in directories.items()}
        if len(set(sums.values())) > 1:
            yield f"{place}: {', '.join(f'node {node} has {size} bytes' for node, (_, size) in sums.items())}"


def _sum(directory: Path) -> tuple[str, int]:
    """Hash the batches of all segments together, since replicas may roll their segments at different offsets."""
    digest, size = hashlib.sha256(), 0
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        digest.update(data)
        size += len(data)
    return digest.hexdigest(), size
