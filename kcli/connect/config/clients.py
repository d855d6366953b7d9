"""Which properties of clients kcli honours: those behind `producer.`, `consumer.` and `admin.` of a worker, behind
`producer.override.` and its like of a connector, and those of Mirror's clients.

    connection  how to reach the brokers: bootstrap.servers, security.*, ssl.*, sasl.*, client.id, request.timeout.ms
    honoured    they do what they do in Kafka's clients, some of them with some values only
    tuning      taken without effect: sizes, waits, tries and metrics, which change no record and no offset
    all others  refused: what they would change is not changed here
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

CONNECTING: Final = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.id", "request.timeout.ms")
"""The properties that say how to reach a cluster; those that end with a dot are all with this beginning."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
RESETS: Final = ("earliest", "latest", "none")
_FOR_ALL: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)


class Client(StrEnum):
    """A kind of client."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


TUNING: Final = {
    Client.PRODUCER: _FOR_ALL
    | {
        "batch.size",
        "buffer.memory",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
    },
    Client.CONSUMER: _FOR_ALL
    | {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "check.crcs",
        "client.rack",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
    },
    Client.ADMIN: _FOR_ALL,
}
"""The properties that are taken without effect."""
_VALUES: Final[Mapping[Client, Mapping[str, tuple[str, ...]]]] = {
    Client.PRODUCER: {"acks": ("all", "-1"), "compression.type": CODECS},
    Client.CONSUMER: {
        "auto.offset.reset": RESETS,
        "enable.auto.commit": ("false",),
        "isolation.level": ("read_committed", "read_uncommitted"),
    },
    Client.ADMIN: {},
}
_NUMBERS: Final = {"max.poll.records": Client.CONSUMER, "transaction.timeout.ms": Client.PRODUCER}
_IDEMPOTENCE: Final = "enable.idempotence"


def is_connecting(name: str) -> bool:
    """Return whether a property says how to reach a cluster."""
    return any(name.startswith(each) if each.endswith(".") else name == each for each in CONNECTING)


def refusal(client: Client, name: str, text: str, *, is_transactional: bool = False) -> str | None:
    """Return why a property of a client is refused; None if it is not. is_transactional: whether the client is a
    producer with a transactional id."""
    if is_connecting(name) or name in TUNING[client] or (client is Client.CONSUMER and name == "group.id"):
        return None
    text = text.strip()
    if name == _IDEMPOTENCE and client is Client.PRODUCER:
        allowed: tuple[str, ...] | None = ("true",) if is_transactional else ("false",)
    else:
        allowed = _VALUES[client].get(name)
    if allowed is not None:
        return None if text.lower() in allowed else f"kcli's {client} has {' or '.join(allowed)}"
    if _NUMBERS.get(name) is client:
        return None if text.isdecimal() and 0 < int(text) < 1 << 31 else "it is no whole number above 0"
    return f"kcli's {client} does not honour it"
