"""Consume, process, produce, exactly once, with kafka-python, until the process is killed or ends with an error.

    python -m tests.interop.clients.python.exactly_once BOOTSTRAP

Records of each partition of `input` go to the same partition of `output`. After an error that only ends a transaction
the program aborts it and seeks to the committed offsets, as kafka-python's documentation does.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata


def main() -> None:
    """Until it is killed."""
    bootstrap = sys.argv[1]
    consumer = KafkaConsumer(
        "input",
        bootstrap_servers=bootstrap,
        group_id="loop",
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=2000,
        heartbeat_interval_ms=300,
    )
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", transactional_id="loop")
    producer.init_transactions()
    print("ready", flush=True)
    while True:
        batch = consumer.poll(timeout_ms=500, max_records=random.randint(1, 20))
        if batch:
            process(consumer, producer, batch)


def process(consumer: Any, producer: Any, batch: Any) -> None:
    """One transaction."""
    producer.begin_transaction()
    try:
        for partition, records in batch.items():
            for record in records:
                producer.send("output", record.value, partition=partition.partition)
        producer.send_offsets_to_transaction(
            {partition: OffsetAndMetadata(records[-1].offset + 1, "", -1) for partition, records in batch.items()},
            consumer.group_metadata(),
        )
        producer.commit_transaction()
    except ProducerFencedError:
        raise
    except KafkaError as error:
        print(f"aborted: {error!r}", file=sys.stderr, flush=True)
        producer.abort_transaction()
        for partition in consumer.assignment():
            rewind(consumer, partition)


def rewind(consumer: Any, partition: TopicPartition) -> None:
    """To what is committed."""
    committed = consumer.committed(partition)
    if committed is None:
        consumer.seek_to_beginning(partition)
    else:
        consumer.seek(partition, committed)


if __name__ == "__main__":
    main()
