"""Members of groups with kafka-python, aiokafka and confluent-kafka: python -m ...members LIBRARY BOOTSTRAP

See ../README.md. The tests also use these members as they are.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import warnings
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import aiokafka
import confluent_kafka

with warnings.catch_warnings():  # kafka-python reads its own version in a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.errors

from tests.interop.clients.members import NO_OFFSET, Member, NoOffset, Options


class KafkaPython:
    """A member on kafka-python. A static member does not send LeaveGroup at `close`, so the group keeps its place."""

    def __init__(self, bootstrap: str, options: Options) -> None:
        self.consumer = kafka.KafkaConsumer(
            options.topic,
            bootstrap_servers=bootstrap,
            group_id=options.group,
            group_instance_id=options.instance,
            auto_offset_reset=options.reset,
            enable_auto_commit=False,
            heartbeat_interval_ms=options.heartbeat_ms,
            session_timeout_ms=options.session_ms,
        )
        # a leader without the topic's metadata would assign no partitions
        self.consumer.partitions_for_topic(options.topic)

    def poll(self) -> list[bytes]:
        try:
            polled = self.consumer.poll(timeout_ms=100)
        except kafka.errors.NoOffsetForPartitionError as error:
            raise NoOffset from error
        return [record.value for records in polled.values() for record in records]

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class Aiokafka:
    """A member on aiokafka. Its event loop runs only during a call of this object."""

    def __init__(self, bootstrap: str, options: Options) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._start(bootstrap, options))

    async def _start(self, bootstrap: str, options: Options) -> None:
        self.consumer = aiokafka.AIOKafkaConsumer(
            options.topic,
            bootstrap_servers=bootstrap,
            group_id=options.group,
            group_instance_id=options.instance,
            auto_offset_reset=options.reset,
            enable_auto_commit=False,
            heartbeat_interval_ms=options.heartbeat_ms,
            session_timeout_ms=options.session_ms,
        )
        starting = asyncio.ensure_future(self.consumer.start())
        await asyncio.wait([starting], timeout=0.5)
        self.starting = starting

    def poll(self) -> list[bytes]:
        return self.loop.run_until_complete(self._poll())

    async def _poll(self) -> list[bytes]:
        if not self.starting.done():
            await asyncio.sleep(0.1)
            return []
        await self.starting
        try:
            polled = await self.consumer.getmany(timeout_ms=100)
        except aiokafka.errors.NoOffsetForPartitionError as error:
            raise NoOffset from error
        return [record.value for records in polled.values() for record in records]

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.loop.run_until_complete(self.consumer.commit())

    def close(self) -> None:
        self.loop.run_until_complete(self.consumer.stop())
        self.loop.close()


class Confluent:
    """A member on confluent-kafka, with cooperative rebalances."""

    def __init__(self, bootstrap: str, options: Options) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": options.group,
            "auto.offset.reset": "error" if options.reset == "none" else options.reset,
            "enable.auto.commit": False,
            "group.protocol": options.protocol,
        }
        if options.protocol == "classic":
            config |= {
                "heartbeat.interval.ms": options.heartbeat_ms,
                "session.timeout.ms": options.session_ms,
                "partition.assignment.strategy": "cooperative-sticky",
            }
        if options.instance is not None:
            config["group.instance.id"] = options.instance
        self.consumer = confluent_kafka.Consumer(config)
        self.consumer.subscribe([options.topic])

    def poll(self) -> list[bytes]:
        values = []
        for message in self.consumer.consume(100, timeout=0.1):
            error = message.error()
            if error is None:
                value = message.value()
                assert value is not None
                values.append(value)
            elif error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                raise NoOffset
        return values

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


LIBRARIES: dict[str, Callable[[str, Options], Member]] = {
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "confluent-kafka": Confluent,
}


OUTPUT = threading.Lock()


def tell(name: str, **event: Any) -> None:
    with OUTPUT:
        print(json.dumps({"member": name} | event), flush=True)


def live(name: str, member: Member, asked: SimpleQueue[str]) -> None:
    """Run one member until standard input asks it to stop."""
    assigned: set[int] = set()
    while True:
        try:
            what = asked.get_nowait()
        except Empty:
            what = ""
        if what == "close":
            member.close()
            tell(name, closed=True)
            return
        if what == "commit":
            member.commit()
            tell(name, committed=True)
        try:
            values = member.poll()
        except NoOffset:
            tell(name, error=NO_OFFSET)
            continue
        if member.assignment() != assigned:
            assigned = member.assignment()
            tell(name, assigned=sorted(assigned))
        if values:
            tell(name, values=[value.decode() for value in values])


def main() -> None:
    library, bootstrap = sys.argv[1:]
    members: dict[str, SimpleQueue[str]] = {}
    for line in sys.stdin:
        command = json.loads(line)
        what, name = command.pop("do"), command.pop("member")
        if what != "open":
            members[name].put(what)
            continue
        members[name] = SimpleQueue()
        member = LIBRARIES[library](bootstrap, Options(**command))
        threading.Thread(target=live, args=(name, member, members[name]), daemon=True).start()


if __name__ == "__main__":
    main()
