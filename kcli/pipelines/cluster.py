"""The options of a live source that begin with `kafka.`: settings of Kafka's consumer. `Cluster` makes connections by
them.

    bootstrap.servers                            HOST:PORT,...
    security.protocol, sasl.*, ssl.*             TLS and login, as in a file of --command-config (kcli.client)
    client.id                                    sent with each request after the login
    isolation.level                              another name for the option `isolation`
    request.timeout.ms                           how long a task waits for a response, and repeats a failed request
    max.partition.fetch.bytes, fetch.max.bytes   about how many bytes one Fetch asks for: the lower of the two
    group.id and what else concerns groups       accepted; there is no group, so they have nothing to apply to
    fetch.min.bytes, fetch.max.wait.ms           accepted; a task reads what is there, and waits for nothing

Any other setting is refused, so that no setting is silently without effect. Source: ConsumerConfig;
KafkaSourceProvider, which refuses auto.offset.reset, enable.auto.commit, deserializers and interceptors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kcli.client.command_config import librdkafka_properties
from kcli.client.log_reading import LogReader
from kcli.client.security import security_of
from kcli.client.wire import CLIENT_ID, AnyBroker
from kcli.errors import UsageError
from kcli.export.options import shown
from kcli.printable import is_utf8

PREFIX: Final = "kafka."
BOOTSTRAP: Final = "kafka.bootstrap.servers"
ISOLATION: Final = "kafka.isolation.level"
POLL_TIMEOUT: Final = "kafkaConsumer.pollTimeoutMs"
CLIENT_ID_BYTES: Final = (1 << 15) - 1
FETCH_BYTES: Final = 8 << 20
FETCH_BYTES_MAX: Final = 128 << 20
_SECURING: Final = ("security.", "sasl.", "ssl.")
_WITHOUT_EFFECT: Final = frozenset(
    {
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)
_INSTEAD: Final = {
    "auto.offset.reset": "startingOffsets says where a query begins",
    "enable.auto.commit": "no offsets are committed; the checkpoint of a stream has them",
    "interceptor.classes": "there is no consumer to intercept",
    "key.deserializer": "keys are binary: cast them in the query",
    "value.deserializer": "values are binary: cast them in the query",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """How the driver and the tasks reach a cluster. properties: librdkafka's, with keys and certificates as texts, so
    that executors need no files.

    timeout_s: how long to wait for a response, and to repeat a request that failed. poll_timeout_s: how long a task
    waits for a record that the driver has seen. fetch_bytes: about how many bytes one Fetch asks for.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_id: str = CLIENT_ID
    timeout_s: float = 30.0
    poll_timeout_s: float = 120.0
    fetch_bytes: int = FETCH_BYTES

    @staticmethod
    def parse(options: Mapping[str, str]) -> tuple[Cluster, dict[str, str]]:
        """Return the cluster that a query's options name, and the options without those of the connection. options: by
        lower-case name, with kafka.bootstrap.servers. Raises UsageError."""
        settings, others = split(options)
        if (isolation := settings.pop(ISOLATION.removeprefix(PREFIX), None)) is not None:
            others[ISOLATION] = isolation
        cluster = Cluster.taken(settings)
        sizes = [
            number(settings, name, FETCH_BYTES, FETCH_BYTES_MAX)
            for name in ("max.partition.fetch.bytes", "fetch.max.bytes")
        ]
        poll_ms = number(others, POLL_TIMEOUT.lower(), int(cluster.poll_timeout_s * 1000))
        refuse(settings, _WITHOUT_EFFECT, _INSTEAD)
        return replace(cluster, poll_timeout_s=poll_ms / 1000, fetch_bytes=min(sizes)), others

    @staticmethod
    def taken(settings: dict[str, str]) -> Cluster:
        """Remove the settings of the connection from `settings`, and return the cluster that they name. settings: by
        name, without the prefix `kafka.`. Raises UsageError."""
        bootstrap = settings.pop(BOOTSTRAP.removeprefix(PREFIX), "").strip()
        if not bootstrap:
            raise UsageError(f"{BOOTSTRAP} names no broker")
        securing = {name: settings.pop(name) for name in list(settings) if name.startswith(_SECURING)}
        try:
            properties = librdkafka_properties(securing)
        except UsageError as error:
            raise UsageError(f"{PREFIX}{error}") from None
        security_of(properties)  # invalid settings are reported before a broker gets a request
        defaults = Cluster(bootstrap)
        timeout_ms = number(settings, "request.timeout.ms", int(defaults.timeout_s * 1000))
        client_id = settings.pop("client.id", defaults.client_id)
        if not is_utf8(client_id) or len(client_id.encode()) > CLIENT_ID_BYTES:
            raise UsageError(f"{PREFIX}client.id={shown(client_id)}: not UTF-8 of at most {CLIENT_ID_BYTES:,} bytes")
        return Cluster(bootstrap, properties, client_id, timeout_ms / 1000)

    def reader(self, topics: Collection[str] | None = None) -> LogReader:
        """Return a reader of logs, which has no connection yet. topics: the topics that it describes; None for all.
        Raises UsageError, KcliError for TLS or SASL that kcli's connections do not support."""
        return LogReader(self.brokers(), topics)

    def brokers(self) -> AnyBroker:
        """Return the bootstrap servers, to which no connection is open yet. Raises as `reader`."""
        return AnyBroker(self.bootstrap, self.timeout_s, security_of(self.properties), self.client_id)


def split(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options that begin with `kafka.`, without this prefix, and the other options."""
    settings = {name.removeprefix(PREFIX): text for name, text in options.items() if name.startswith(PREFIX)}
    return settings, {name: text for name, text in options.items() if not name.startswith(PREFIX)}


def refuse(settings: Mapping[str, str], accepted: Collection[str], instead: Mapping[str, str]) -> None:
    """Raise UsageError for the first setting that is not in `accepted`. instead: for some settings, the advice that the
    error gives."""
    if refused := sorted(settings.keys() - set(accepted)):
        raise UsageError(f"{PREFIX}{refused[0]}: {instead.get(refused[0], 'not honoured by kafka-log')}")


def number(settings: dict[str, str], name: str, default: int, most: int = (1 << 31) - 1) -> int:
    """Remove a setting and return its value; return `default` if the setting is not given. Raises UsageError."""
    text = settings.pop(name, None)
    if text is None:
        return default
    setting = POLL_TIMEOUT if name == POLL_TIMEOUT.lower() else f"{PREFIX}{name}"
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{setting}={shown(text)}: not a whole number") from None
    if value < 1:
        raise UsageError(f"{setting}={shown(text)}: not above 0")
    return min(value, most)
