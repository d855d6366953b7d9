"""The steps that every client takes (see ../README.md), for Python's clients, whose subclasses implement them."""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Headers: TypeAlias = list[tuple[str, bytes | None]]
Offsets: TypeAlias = dict[str, int | None]
WAIT_MS = 20_000
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Message:
    """A record, to be sent or as it was read. offset: -1 before the record is written."""

    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    offset: int = -1

    @classmethod
    def of_job(cls, record: dict[str, Any]) -> Message:
        """A record of the job."""
        headers = [(name, _bytes(value)) for name, value in record["headers"]]
        place, time_ms = record["partition"], record["timestamp_ms"]
        return cls(place, time_ms, _bytes(record["key"]), _bytes(record["value"]), headers)

    def report(self) -> list[Any]:
        """As the report has it."""
        headers = [[name, _text(value)] for name, value in self.headers]
        return [self.partition, self.offset, self.timestamp_ms, _text(self.key), _text(self.value), headers]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


class Client(ABC):
    """The steps of a client. Methods that return an error code give Kafka's, 0 for no error."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def version(self) -> str:
        """Its name and version."""

    @abstractmethod
    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> int:
        """Create a topic. Returns an error code."""

    @abstractmethod
    def produce(self, topic: str, messages: Sequence[Message], codec: str, *, idempotent: bool) -> list[int]:
        """Send messages with acks=all. Returns their offsets. codec "none": without compression."""

    @abstractmethod
    def produce_error(self, topic: str, message: Message) -> int:
        """Send a message that is refused. Returns the error code."""

    @abstractmethod
    def read(self, topic: str, partitions: int, count: int, *, committed: bool) -> list[Message]:
        """Read `count` messages from the beginning of the partitions."""

    @abstractmethod
    def offsets(self, topic: str, at_ms: int, beyond_ms: int) -> Offsets:
        """Offsets of partition 0."""

    @abstractmethod
    def tail(self, topic: str, message: Message) -> float:
        """Wait at the log end, and send a message. Returns the seconds until it was read."""

    @abstractmethod
    def delete_records(self, topic: str, before: int) -> tuple[int, int]:
        """Delete records of partition 0. Returns the low watermark and an error code."""

    @abstractmethod
    def configs(self, topic: str) -> dict[str, str]:
        """All configurations of a topic."""

    @abstractmethod
    def alter_config(self, topic: str, name: str, value: str) -> None:
        """Change a configuration of a topic."""

    @abstractmethod
    def create_partitions(self, topic: str, count: int) -> int:
        """Grow a topic to `count` partitions. Returns the number that it then has."""

    @abstractmethod
    def delete_topic(self, topic: str) -> int:
        """Delete a topic. Returns an error code."""

    @abstractmethod
    def topics(self) -> list[str]:
        """All topics' names."""

    @abstractmethod
    def cluster(self) -> dict[str, Any]:
        """`id`, `controller` and `nodes`."""

    @abstractmethod
    def more(self) -> dict[str, Any]:
        """Return the report's keys from `producers` on, as far as this client has them, and `max_timestamp` of topic
        none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""


def run(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """Take all steps. Returns the report."""
    report: dict[str, Any] = {"client": client.version()}
    for name, topic in job["topics"].items():
        error = client.create_topic(name, topic["partitions"], topic["configs"])
        assert error == 0, (name, error)
    report["created_again"] = client.create_topic("none", 1, {})
    messages = [Message.of_job(record) for record in job["records"]]
    report["acked"], report["read"] = {}, {}
    for each in job["runs"]:
        topic, partitions, idempotent = each["topic"], each["partitions"], each["idempotent"]
        sent = [message for message in messages if message.partition < partitions]
        report["acked"][topic] = client.produce(topic, sent, each["codec"], idempotent=idempotent)
        read = client.read(topic, partitions, len(sent), committed=each["committed"])
        report["read"][topic] = [message.report() for message in read]
    report["offsets"] = client.offsets("none", job["at_ms"], job["beyond_ms"])
    report["tail_ms"] = client.tail("tail", messages[0]) * 1000
    large = Message(0, messages[0].timestamp_ms, None, bytes(job["large_bytes"]), [])
    client.produce("large", [large], "none", idempotent=False)
    value = client.read("large", 1, 1, committed=False)[0].value
    report["large"] = len(value or b"")
    report["too_large"] = client.produce_error("none", large)
    report |= client.more()
    report["low_watermark"], error = client.delete_records("none", job["delete_before"])
    assert error == 0, error
    report["first_left"] = client.read("none", 1, 1, committed=False)[0].offset
    _, report["deleted_beyond"] = client.delete_records("none", 1 << 40)
    configs = client.configs("doomed")
    report["configs"] = {name: configs[name] for name in job["topics"]["doomed"]["configs"]}
    client.alter_config("doomed", "retention.ms", "4711")
    report["altered"] = client.configs("doomed")["retention.ms"]
    report["partitions"] = client.create_partitions("doomed", job["topics"]["doomed"]["partitions"] + 2)
    error = client.delete_topic("doomed")
    assert error == 0, error
    report["topics"] = sorted(name for name in client.topics() if not name.startswith("__"))
    report["deleted_again"] = client.delete_topic("doomed")
    report["cluster"] = client.cluster()
    client.close()
    return report


def main(kind: type[Client]) -> None:
    """The program: arguments are the address and the job's file."""
    bootstrap, job = sys.argv[1:]
    report = run(kind(bootstrap), json.loads(Path(job).read_text(encoding="utf-8")))
    print(json.dumps(report))


class Deadline:
    """Ends a loop that waits for too long."""

    def __init__(self) -> None:
        self.end = time.monotonic() + TIMEOUT_S

    def check(self) -> None:
        """Raises TimeoutError when it has passed."""
        if time.monotonic() > self.end:
            raise TimeoutError
