"""Where the cluster is, and what is said where nobody answers.

librdkafka goes on trying for as long as it is let: a broker that is not there is only told to the error callback. Here
it is a failure once no broker could be reached for GRACE_S (a host has several addresses; the second may do) or nobody
has answered for `timeout_s`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata

from kcli.client.security import Security, security_of
from kcli.errors import KcliError, UsageError

GRACE_S = 1.0
SLICE_S = 0.5
QUIET, NOTICE = 0, 6  # levels of syslog
ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 (so librdkafka names its own errors)
PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
NOBODY = {
    ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
}


Client = TypeVar("Client", AdminClient, Consumer, Producer)


class Unreachable(KcliError):
    """No broker answers."""


class Refused(KcliError):
    """The cluster, or the library on the way to it, said no: to what, Kafka's name of the error, the text."""

    def __init__(self, what: str, error: KafkaError) -> None:
        text = error.str().removeprefix("Broker: ").removeprefix("Local: ")
        name = error_name(error)
        super().__init__(": ".join([*([what] if what else []), name, text]))
        self.name = name


def error_name(error: KafkaError) -> str:
    """Kafka's name of an error that a broker has told; the library's of its own."""
    from kio.schema.errors import ErrorCode  # kio is large: only what fails waits for it

    code = error.code()
    if code == KafkaError.UNKNOWN or code > 0:
        with suppress(ValueError):
            return ErrorCode(code).name.upper()
    return error.name().removeprefix("_")


def kafka_error(error: KafkaException) -> KafkaError:
    """What the library's exception holds."""
    found = error.args[0]
    assert isinstance(found, KafkaError), found
    return found


@dataclass
class Trouble:
    """What librdkafka tells of its connections. `down_since`: the clock when the last broker was lost, None before."""

    reason: str | None = None
    down_since: float | None = None

    def __call__(self, error: KafkaError) -> None:
        if error.code() == ALL_BROKERS_DOWN:
            if self.down_since is None:
                self.down_since = time.monotonic()
        else:
            self.reason = error.str()

    def down_for(self, seconds: float) -> bool:
        """No broker could be reached for so long."""
        return self.down_since is not None and time.monotonic() - self.down_since >= seconds


@dataclass(frozen=True)
class Connection:
    """bootstrap: HOST:PORT,...; properties: librdkafka's, over what kcli sets; chatty: its log lines go to stderr."""

    bootstrap: str
    properties: dict[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    chatty: bool = False
    trouble: Trouble = field(default_factory=Trouble)

    def security(self) -> Security:
        """Of connections past the library. Raises UsageError, KcliError."""
        return security_of(self.properties)

    def admin(self) -> AdminClient:
        """A client that asks and orders. Raises UsageError for a property that librdkafka does not take."""
        return self._made(AdminClient, {})

    def producer(self, settings: dict[str, Any]) -> Producer:
        """A producer. Raises UsageError likewise."""
        return self._made(Producer, settings)

    def consumer(self, settings: dict[str, Any]) -> Consumer:
        """A consumer of assigned partitions. Raises UsageError likewise.

        The library takes no consumer without a group; this one joins none and commits nothing.
        """
        return self._made(Consumer, {"group.id": "kcli", "enable.auto.commit": False, **settings})

    def _made(self, client: type[Client], settings: dict[str, Any]) -> Client:
        config = {
            "bootstrap.servers": self.bootstrap,
            "client.id": "kcli",
            "log_level": NOTICE if self.chatty else QUIET,
            "error_cb": self.trouble,
            **settings,
            **self.properties,
        }
        if config.get("group.id") == "":  # the library's consumer aborts the process
            raise UsageError("the group's id is empty")
        try:
            return client(config)
        except KafkaException as error:
            reason = kafka_error(error).str()
            raise UsageError(f"-X: {reason}" if self.properties else reason) from None

    def metadata(self, client: AdminClient | Consumer | Producer, topic: str | None = None) -> ClusterMetadata:
        """The cluster's metadata, of one topic or of all. Raises Unreachable, Refused."""
        began = time.monotonic()
        named = {} if topic is None else {"topic": topic}
        while True:
            try:
                found: ClusterMetadata = client.list_topics(timeout=min(SLICE_S, self.timeout_s), **named)
            except KafkaException as error:
                if kafka_error(error).code() not in NOBODY:
                    raise Refused(topic or "", kafka_error(error)) from None
            else:
                self.trouble.down_since = None
                return found
            client.poll(0)
            if self.trouble.down_for(GRACE_S) or time.monotonic() - began >= self.timeout_s:
                raise self.unreachable()
            time.sleep(0.05)

    def unreachable(self) -> Unreachable:
        """What to say once nobody has answered."""
        return Unreachable(f"{self.bootstrap}: no broker answers ({self.trouble.reason or 'no word from it'})")
