"""The clients of a connector: properties of Java's clients to the clusters that they name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kcli.client.admin import Admin
from kcli.client.connection import Connection, Refused, Unreachable, error_name
from kcli.client.groups import Groups
from kcli.client.processing import Fetched, PartitionReader
from kcli.client.producing_transaction import ProducingTransaction
from kcli.connect.config.clients import is_connecting
from kcli.errors import KcliError
from kcli.pipelines.cluster import Cluster
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import Committed

POLL_S = 0.1
READ_S = 30.0
CLAIM_S = 5.0
TRANSACTION_TIMEOUT_MS = "60000"
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name


def cluster_of(client: Mapping[str, str]) -> Cluster:
    """Return the cluster that the properties of a client name. Raises UsageError."""
    return Cluster.taken({name: text for name, text in client.items() if is_connecting(name)})


def connection_to(cluster: Cluster) -> Connection:
    """Return how librdkafka's clients reach a cluster."""
    return Connection(cluster.bootstrap, dict(cluster.properties), cluster.timeout_s)


def committed_offsets(groups: Groups, name: str) -> dict[TopicPartition, Committed]:
    """Return the offsets that a group has committed. Raises Refused, Unreachable."""
    groups.group(name)  # finds the coordinator
    return groups.committed(name)


def transaction_timeout_ms(producer: Mapping[str, str]) -> int:
    """Return the time after which the coordinator aborts a producer's transaction."""
    return int(producer.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))


def become_producer(producer: Mapping[str, str]) -> tuple[int, int]:
    """Become the only producer of a transactional id, whose earlier producers are fenced; return producer id and epoch.
    producer: its properties. Raises ErrorAnswer, NobodyAnswers, KcliError."""
    brokers = replace(cluster_of(producer), timeout_s=CLAIM_S).brokers()
    transaction = ProducingTransaction(brokers, producer["transactional.id"], "", transaction_timeout_ms(producer))
    transaction.begin()
    return transaction.producer_id, transaction.producer_epoch


def committed_records(
    connection: Connection, topic: str, partition: int | None = None, check: Callable[[], None] = lambda: None
) -> Iterator[Fetched]:
    """Yield the records of a topic, or of one of its partitions, without those of open and aborted transactions;
    nothing if there is no such topic. check: called again and again, may raise an error. Raises Refused, Unreachable,
    also if the next record does not come in time, KcliError."""
    metadata = connection.metadata(connection.admin(), topic).topics.get(topic)
    if metadata is None or (metadata.error is not None and error_name(metadata.error) == UNKNOWN_TOPIC):
        return
    if metadata.error is not None:
        raise Refused(topic, metadata.error)
    places = [TopicPartition(topic, number) for number in (metadata.partitions if partition is None else [partition])]
    reader = PartitionReader(connection, committed_only=True)
    try:
        reader.add(places)
        moved_s = time.monotonic()
        while not all(map(reader.is_done, places)):
            check()
            found = reader.poll(POLL_S)
            yield from found
            if found:
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > READ_S:
                raise Unreachable(f"{connection.bootstrap}: {topic} is not read to its end: no more for {READ_S:g} s")
    finally:
        reader.close()


def create_topic(cluster: Cluster, topic: str, settings: Mapping[str, str]) -> None:
    """Create a topic unless it is there. settings: partitions and replication.factor, the brokers' by default, and the
    topic's configurations. Raises Refused, Unreachable, KcliError."""
    configs = dict(settings)
    numbers = {name: int(configs.pop(name, -1)) for name in ("partitions", "replication.factor")}
    for each in Admin(connection_to(cluster)).create(
        [topic],
        partitions=numbers["partitions"],
        replication_factor=numbers["replication.factor"],
        assignment=None,
        configs=configs,
        validate_only=False,
        if_not_exists=True,
    ):
        if isinstance(each, KcliError):
            raise each
