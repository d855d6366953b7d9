"""Partitions that change, decided as the controllers of three real Kafka nodes decided (record_cluster.py).

What happened is read from the log: a broker came or went, or was unregistered; each change of a partition that came
without a broker's is an ISR change, a move, a move taken back, or an election. One of our decisions on the image before
it must be what is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kcli.metadata.election import balance_leaders
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.isr_control import ANY_EPOCH, IsrChange, alter_partitions
from kcli.metadata.partition import Partition, to_uuid
from kcli.metadata.reassignment import Reassignment, alter_partition_reassignments
from kcli.metadata.registration import Broker
from kcli.metadata.registration_control import NO_EPOCH, register_broker, unregister_broker
from tests.metadata.test_registration import HERE, batches, changes, given, normal, read

LOG = HERE / "three_nodes/__cluster_metadata-0/00000000000000000000.log"
PROPERTIES = {"min.insync.replicas": "2"}
PLACED = {"topicId", "partitionId", "directories"}
NOT_OURS = {
    "RegisterControllerRecord",
    "FeatureLevelRecord",
    "BeginTransactionRecord",
    "EndTransactionRecord",
    "ConfigRecord",
    "TopicRecord",
    "PartitionRecord",
}


def decisions(image: MetadataImage, value: dict[str, Any]) -> Iterator[tuple[str, list[Record]]]:
    """Return the records that kcli would have written for each event that may have happened."""
    topic = image.topics_by_id[to_uuid(value["topicId"])]
    number = value["partitionId"]
    state = topic.partitions[number]
    for isr in asked(state, value):
        change = IsrChange(
            partition=number,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=[(each, ANY_EPOCH) for each in isr],
        )
        broker = image.brokers[state.leader]
        result = alter_partitions(image, broker.id, broker.epoch, [(topic.id, [change])], PROPERTIES)
        yield "isr", result.records
    replicas = state.replicas if value["replicas"] is None else value["replicas"]
    removing = value["removingReplicas"] or ()
    target = [each for each in replicas if each not in removing]
    for name, wanted in (("move", target), ("back", None)):
        moves = [(topic.name, [Reassignment(number, wanted)])]
        yield name, alter_partition_reassignments(image, moves, PROPERTIES).records
    elected = balance_leaders(image, PROPERTIES)
    yield (
        "elected",
        [each for each in elected if (each[2]["topicId"], each[2]["partitionId"]) == (value["topicId"], number)],
    )


def asked(state: Partition, value: dict[str, Any]) -> Iterator[list[int]]:
    """Return the ISRs that the leader may have requested; it requests none for replicas that are removed."""
    if state.leader >= 0 and value["isr"] is not None:
        yield value["isr"]
        yield [*value["isr"], *(each for each in state.isr if each in state.removing_replicas)]


def brokers_decisions(image: MetadataImage, batch: Sequence[Record]) -> list[list[Record]]:
    """Return the records that kcli would have written for the first broker that the batch names."""
    for name, _, value in batch:
        if name == "RegisterBrokerRecord":
            broker = Broker.of(value)
            known = image.brokers.get(broker.id)
            epochs = {NO_EPOCH, NO_EPOCH if known is None else known.epoch}
            return [register_broker(image, broker, epoch, PROPERTIES) for epoch in epochs]
        if name == "UnregisterBrokerRecord":
            return [unregister_broker(image, value["brokerId"], PROPERTIES)]
        if name == "BrokerRegistrationChangeRecord":
            return [changes(image, value, PROPERTIES)]
    return []


def step(image: MetadataImage, batch: Sequence[Record]) -> tuple[str, int]:
    """Return the first event of the batch, and the number of its records. Kafka's controller writes simultaneous events
    in one batch."""
    name, _, value = batch[0]
    if name in NOT_OURS or (name == "PartitionChangeRecord" and set(given(value)) == PLACED):
        return name, 1
    if name == "BrokerRegistrationChangeRecord" and value["fenced"] > 0 and image.brokers[value["brokerId"]].fenced:
        # Kafka's controller does so when the session of a broker ends after its controlled shutdown
        return "fenced again", 1
    for ours in brokers_decisions(image, batch):
        if ours and normal(batch[: len(ours)]) == normal(read(ours)):
            kind = next(each for each, _, _ in ours if each != "PartitionChangeRecord")
            return kind, len(ours)
    assert name == "PartitionChangeRecord", (image.offset, batch, brokers_decisions(image, batch))
    found = dict(decisions(image, value))
    kind = next((key for key, ours in found.items() if normal(read(ours)) == normal([batch[0]])), "")
    assert kind, (image.offset, given(value), found)
    return kind, 1


def test_what_real_controllers_wrote() -> None:
    image, offset, compared = MetadataImage(), 0, Counter[str]()
    for batch in batches(LOG):
        left = batch
        while left:
            kind, size = step(image, left)
            compared[kind] += 1
            for name, _, value in left[:size]:
                image.apply(name, value, offset)
                offset += 1
            left = left[size:]
    for each in NOT_OURS:
        del compared[each]
    assert set(compared) >= {"isr", "move", "back", "elected", "RegisterBrokerRecord", "UnregisterBrokerRecord"}
    assert sum(compared.values()) >= 50, compared
