"""How the leader writes connect-configs with exactly.once.source.support=preparing or enabled: in transactions of
`connect-cluster-GROUP`, so that a worker that has led before writes no more.

    claim   InitProducerId: earlier leaders are fenced, and what they have left open is aborted
    write   a transaction with all records of a call; after an error another claim is needed, as it is not known what is
            written

Source: KafkaConfigBackingStore, DistributedConfig; KIP-618.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from formats.batch_writer import write_batch
from formats.record_batch import TRANSACTIONAL
from kcli.client.log_appending import LogAppender
from kcli.client.producing_transaction import ProducingTransaction
from kcli.connect.engine.clients import cluster_of
from kcli.connect.topics.json_values import Record
from kcli.protocol.topic_partition import TopicPartition

ANSWER_S: Final = 10.0
TRANSACTION_MS: Final = 60_000


class Leadership:
    """The producer of a leader, from its claim on. Called outside of the event loop, one call at a time."""

    def __init__(self, client: Mapping[str, str], group_id: str, topic: str) -> None:
        """Claim the only partition of a topic. client: properties of Kafka's clients. Raises ErrorAnswer,
        NobodyAnswers, KcliError."""
        self._id, self._place = f"connect-cluster-{group_id}", TopicPartition(topic, 0)
        self._brokers = replace(cluster_of(client), timeout_s=ANSWER_S).brokers()
        self._transaction = ProducingTransaction(self._brokers, self._id, "", TRANSACTION_MS)
        self._transaction.begin()
        self._sequence = 0

    def write(self, records: Sequence[Record]) -> None:
        """Write records, all or none. Raises ErrorAnswer, NobodyAnswers, KcliError."""
        transaction = self._transaction
        batch = write_batch(
            records,
            int(time.time() * 1000),
            attributes=TRANSACTIONAL,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            base_sequence=self._sequence,
        )
        transaction.add([self._place])
        with LogAppender(self._brokers, self._id) as appender:
            appender.partitions(self._place.topic)  # finds its leader
            appender.append({self._place: bytes(batch)})
        transaction.commit({})
        self._sequence += len(records)
