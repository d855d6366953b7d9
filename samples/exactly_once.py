"""Consume, process, produce: each order becomes one invoice, whatever happens to this program.

    exactly_once.py BOOTSTRAP [--die]      until all orders are done; --die: by kill -9, in the middle of a transaction

An order's invoice and its offset are in one transaction. Who is started next has the same transactional id: what its
predecessor has left open is aborted, and it goes on behind what is committed.
"""

from __future__ import annotations

import os
import signal
import sys

from confluent_kafka import Consumer, KafkaError, Producer

WAIT_S = 10.0


def main(bootstrap: str, *, dies: bool) -> None:
    """Three orders a transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "invoices",
            "group.instance.id": "invoices-1",  # its successor need not wait until it is missed
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "invoices-1", "log_level": 0})
    producer.init_transactions(WAIT_S)
    consumer.subscribe(["orders"])
    ended: set[int | None] = set()
    while not ended or len(ended) < len(consumer.assignment()):
        messages = consumer.consume(3, 0.2)
        orders = []
        for message in messages:
            error = message.error()
            if error is None:
                orders.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (so it is documented)
                ended.add(message.partition())
        if not orders:
            continue
        producer.begin_transaction()
        for order in orders:
            producer.produce("invoices", b"invoice for " + (order.value() or b""), order.key())
        keys = ", ".join((order.key() or b"").decode() for order in orders)
        if dies:
            producer.flush(WAIT_S)
            print(f"{keys}: sent, not committed, and dead")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction(WAIT_S)
        print(f"{keys}: committed")
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], dies="--die" in sys.argv)
