"""A worker's configuration, by Kafka's names: those of ConnectDistributed if it has a group.id, else of
ConnectStandalone.

Values may have variables of config providers; those of connectors are resolved by the worker's providers only where
they are used, and are stored, shown and logged as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from kcli.connect.config import clients, validators
from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigError, ConfigKey, Importance, Type
from kcli.connect.membership.signing import ALGORITHM
from kcli.connect.plugins import Limits, PluginType, TaskId
from kcli.connect.worker.validation import Defaults
from kcli.errors import KcliError
from kcli.tls.settings import InvalidTlsSetting, read_listener_settings

HIGH, MEDIUM, LOW = Importance
WORKER: Final = ConfigDef(
    ConfigKey("bootstrap.servers", Type.LIST, "localhost:9092", HIGH, "Brokers of the Kafka cluster."),
    ConfigKey("key.converter", Type.CLASS, REQUIRED, HIGH, "The converter of keys, where a connector names none."),
    ConfigKey("value.converter", Type.CLASS, REQUIRED, HIGH, "The converter of values, where a connector names none."),
    ConfigKey(
        "header.converter", Type.CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", LOW,
        "The converter of headers, where a connector names none.",
    ),
    ConfigKey("listeners", Type.LIST, "http://:8083", LOW, "Where the REST API listens; one address."),
    ConfigKey("rest.advertised.host.name", Type.STRING, None, LOW, "The host that other workers connect to."),
    ConfigKey("rest.advertised.port", Type.INT, None, LOW, "The port that other workers connect to."),
    ConfigKey("offset.flush.interval.ms", Type.LONG, "60000", LOW, "How often offsets are committed at least."),
    ConfigKey("topic.creation.enable", Type.BOOLEAN, "true", LOW, "Whether sources create the topics that they lack."),
    ConfigKey("topic.tracking.enable", Type.BOOLEAN, "true", LOW, "Whether topics of connectors are tracked."),
    ConfigKey("topic.tracking.allow.reset", Type.BOOLEAN, "true", LOW, "Whether the tracked topics can be reset."),
    ConfigKey(
        "task.shutdown.graceful.timeout.ms", Type.LONG, "5000", LOW, "How long tasks may take to stop.",
        validators.at_least(0),
    ),
)  # fmt: skip
"""The options of every worker that kcli uses."""
STANDALONE: Final = WORKER + ConfigDef(
    ConfigKey("offset.storage.file.filename", Type.STRING, REQUIRED, HIGH, "The file of the offsets of sources."),
)
"""The options of a standalone worker."""
DISTRIBUTED: Final = WORKER + ConfigDef(
    ConfigKey("group.id", Type.STRING, REQUIRED, HIGH, "The workers of one cluster have one group id."),
    ConfigKey("config.storage.topic", Type.STRING, REQUIRED, HIGH, "The topic of configurations."),
    ConfigKey("offset.storage.topic", Type.STRING, REQUIRED, HIGH, "The topic of offsets of sources."),
    ConfigKey("status.storage.topic", Type.STRING, REQUIRED, HIGH, "The topic of statuses."),
    ConfigKey("config.storage.replication.factor", Type.SHORT, "3", LOW, "Replicas of the topic of configurations."),
    ConfigKey("offset.storage.replication.factor", Type.SHORT, "3", LOW, "Replicas of the topic of offsets."),
    ConfigKey("status.storage.replication.factor", Type.SHORT, "3", LOW, "Replicas of the topic of statuses."),
    ConfigKey("offset.storage.partitions", Type.INT, "25", LOW, "Partitions of the topic of offsets."),
    ConfigKey("status.storage.partitions", Type.INT, "5", LOW, "Partitions of the topic of statuses."),
    ConfigKey("session.timeout.ms", Type.INT, "10000", HIGH, "After which silence a worker counts as dead."),
    ConfigKey("heartbeat.interval.ms", Type.INT, "3000", HIGH, "How often a worker says that it lives."),
    ConfigKey("rebalance.timeout.ms", Type.INT, "60000", HIGH, "How long workers may take to join again."),
    ConfigKey(
        "connect.protocol", Type.STRING, "sessioned", LOW, "How work is assigned.",
        validators.one_of_ignoring_case("eager", "compatible", "sessioned"),
    ),
    ConfigKey(
        "scheduled.rebalance.max.delay.ms", Type.INT, "300000", LOW,
        "How long the work of a worker that has gone waits for it.",
        validators.between(0, (1 << 31) - 1),
    ),
    ConfigKey("inter.worker.key.ttl.ms", Type.INT, "3600000", LOW, "How long a session key is used."),
    ConfigKey(
        "exactly.once.source.support", Type.STRING, "disabled", HIGH, "Whether sources write in transactions.",
        validators.one_of_ignoring_case("disabled", "enabled", "preparing"),
    ),
)  # fmt: skip
"""The options of a distributed worker."""
CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
UNRESTRICTED: Final = {
    "rest.extension.classes": ("",),
    "connector.client.config.override.policy": (
        "All",
        "org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy",
    ),
}
"""Options that restrict clients of the REST API, with the values that restrict nothing. Others are refused: the worker
would be open where its configuration says that it is not."""
FIXED: Final = {
    "inter.worker.key.generation.algorithm": ALGORITHM,
    "inter.worker.signature.algorithm": ALGORITHM,
}
"""Options of which kcli has one value."""
SCHEMES: Final = ("http", "https")
HTTPS_PREFIX: Final = "listeners.https."
UNSERVED: Final = (
    "access.control.allow.methods",
    "access.control.allow.origin",
    "admin.listeners",
    "response.http.headers.config",
)
"""Options of the REST API that are refused wherever they say something: it would answer otherwise than they say."""
PORT_MAX: Final = 65535
CLIENT_PREFIXES: Final = ("security.", "sasl.", "ssl.")


class InvalidWorker(KcliError):
    """A worker's properties cannot be used."""

    exit_status = 2


class Settings(NamedTuple):
    """A worker's configuration. values: by WORKER and the options of its mode. properties: as they were given, with
    variables resolved. group_id: None for a standalone worker. scheme, host, port: where the REST API listens."""

    values: Mapping[str, Any]
    properties: Mapping[str, str]
    group_id: str | None
    scheme: str
    host: str
    port: int

    @property
    def bootstrap(self) -> Sequence[tuple[str, int]]:
        """The addresses of brokers."""
        found = []
        for each in self.values["bootstrap.servers"]:
            host, _, port = each.rpartition(":")
            found.append((host.strip("[]"), int(port)))
        return found

    @property
    def security(self) -> dict[str, str]:
        """How to connect to the brokers, as librdkafka's properties. Raises UsageError, KcliError."""
        from kcli.client.command_config import librdkafka_properties

        return librdkafka_properties(
            {key: text for key, text in self.properties.items() if key.startswith(CLIENT_PREFIXES)}
        )

    @property
    def client(self) -> dict[str, str]:
        """How to connect to the brokers, as properties of Kafka's clients."""
        shared = {key: value for key, value in self.properties.items() if key.startswith(CLIENT_PREFIXES)}
        return {"bootstrap.servers": ",".join(self.values["bootstrap.servers"]), **shared}

    @property
    def has_transactional_leader(self) -> bool:
        """Whether the leader writes configurations in transactions, as sources write in transactions, or may do so once
        all workers are configured for it."""
        return str(self.values.get("exactly.once.source.support", "disabled")).lower() != "disabled"

    @property
    def tls(self) -> dict[str, str]:
        """The settings ssl.* of the REST API: those behind `listeners.https.`, or, if there are none, the worker's."""
        own = _behind(HTTPS_PREFIX, self.properties)
        return own or {key: text for key, text in self.properties.items() if key.startswith("ssl.")}

    @property
    def offsets_file(self) -> Path | None:
        """The file of offsets of a standalone worker."""
        name = self.values.get("offset.storage.file.filename")
        return None if name is None else Path(name)

    def topic_settings(self, prefix: str) -> dict[str, str]:
        """Return the configurations of one of the worker's topics: those behind `config.storage.` and so on that are
        none of the worker's own."""
        found = {key.removeprefix(prefix): value for key, value in self.properties.items() if key.startswith(prefix)}
        own = {"topic", "partitions", "replication.factor", "cleanup.policy", "file.filename"}
        return {key: value for key, value in found.items() if key not in own}


def read_settings(properties: Mapping[str, str], where: str) -> Settings:
    """Return a worker's configuration. where: names the file in errors. Raises InvalidWorker."""
    is_distributed = "group.id" in properties
    options = DISTRIBUTED if is_distributed else STANDALONE
    try:
        values = options.parse(properties)
    except ConfigError as error:
        raise InvalidWorker(f"{where}: {error}") from None
    for name, allowed in UNRESTRICTED.items():
        if properties.get(name, allowed[0]).strip() not in allowed:
            raise InvalidWorker(f"{where}: {name}={properties[name]}: kcli's REST API does not restrict its clients")
    for name in UNSERVED:
        if properties.get(name, "").strip():
            raise InvalidWorker(f"{where}: {name}={properties[name]}: kcli's REST API does not honour it")
    for name, value in FIXED.items():
        if properties.get(name, value).strip() != value:
            raise InvalidWorker(f"{where}: {name}={properties[name]}: kcli's workers have {value}")
    _check_clients(properties, where, str(values.get("exactly.once.source.support", "disabled")))
    scheme, host, port = _listener(values["listeners"], where)
    advertised = properties.get("rest.advertised.listener", scheme).strip().lower()
    if advertised != scheme:
        raise InvalidWorker(f"{where}: rest.advertised.listener={advertised}: the REST API listens with {scheme}")
    servers = values["bootstrap.servers"]
    for each in (servers if isinstance(servers, list) else []) or [""]:
        if not _is_address(each):
            raise InvalidWorker(f"{where}: bootstrap.servers={each}: no host:port")
    group_id = values.get("group.id")
    assert group_id is None or isinstance(group_id, str), group_id
    settings = Settings(values, dict(properties), group_id, scheme, host, port)
    if scheme == "https":
        _check_tls(settings, where)
    return settings


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host.strip("[]")) and re.fullmatch(r"[0-9]{1,5}", port) is not None and 0 < int(port) <= PORT_MAX


def _check_tls(settings: Settings, where: str) -> None:
    try:
        read_listener_settings(settings.tls)
    except InvalidTlsSetting as error:
        prefix = HTTPS_PREFIX if _behind(HTTPS_PREFIX, settings.properties) else ""
        raise InvalidWorker(f"{where}: {prefix}{error}") from None


def _check_clients(properties: Mapping[str, str], where: str, support: str) -> None:
    """Refuse what the clients of tasks do not honour. Raises InvalidWorker."""
    for client in clients.Client:
        for name, text in _behind(f"{client}.", properties).items():
            if f"{client}.{name}" in UNSERVED:
                continue
            reason = clients.refusal(client, name, text, is_transactional=support.lower() == "enabled")
            if reason is not None:
                raise InvalidWorker(f"{where}: {client}.{name}={text}: {reason}")


def _listener(listeners: object, where: str) -> tuple[str, str, int]:
    assert isinstance(listeners, list), listeners
    try:
        (text,) = listeners
        found = urlsplit(text)
        port = found.port
    except ValueError:
        raise InvalidWorker(
            f"{where}: listeners={','.join(listeners)}: one address http://HOST:PORT or https://HOST:PORT"
        ) from None
    scheme = found.scheme.lower()
    if scheme not in SCHEMES or port is None:
        raise InvalidWorker(f"{where}: listeners={text}: http://HOST:PORT or https://HOST:PORT are served only")
    return scheme, found.hostname or "", port


class Clients:
    """The properties of the clients of tasks: the worker's, and a connector's overrides."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._shared = settings, settings.client

    @property
    def defaults(self) -> Defaults:
        """What a connector has of the worker where it configures nothing."""
        values = self._settings.values
        converters = {each: str(values[each]) for each in CONVERTERS}
        topic = values.get("offset.storage.topic")
        return Defaults(converters, self._settings.group_id, self.has_exactly_once_sources, topic)

    @property
    def has_exactly_once_sources(self) -> bool:
        """Whether sources write in transactions."""
        return str(self._settings.values.get("exactly.once.source.support", "disabled")).lower() == "enabled"

    @property
    def limits(self) -> Limits:
        """What the worker says of all tasks."""
        values = self._settings.values
        flush_ms, stop_ms = values["offset.flush.interval.ms"], values["task.shutdown.graceful.timeout.ms"]
        return Limits(flush_ms / 1000, stop_ms / 1000, values["topic.creation.enable"])

    def with_converters(self, connector: Mapping[str, str]) -> dict[str, str]:
        """Return a connector's configuration with the worker's converters where it names none."""
        found = dict(connector)
        for name in CONVERTERS:
            if name not in connector:
                found[name] = str(self._settings.values[name])
                found.update(
                    {key: text for key, text in self._settings.properties.items() if key.startswith(f"{name}.")}
                )
        return found

    def of_task(
        self, task: TaskId, kind: PluginType, connector: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """Return the properties of a task's producer, consumer and admin client."""
        producer, consumer, admin = (self._of(each, connector) for each in ("producer", "consumer", "admin"))
        if kind is PluginType.SINK:
            consumer.setdefault("group.id", f"connect-{task.connector}")
        elif self.has_exactly_once_sources:
            producer = self.producer_in_transactions(task, connector)
        return producer, consumer, admin

    def producer_in_transactions(self, task: TaskId, connector: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of a task's producer, with its transactional id."""
        return {"transactional.id": f"{self._settings.group_id}-{task}", **self._of("producer", connector)}

    def _of(self, client: str, connector: Mapping[str, str]) -> dict[str, str]:
        worker = _behind(f"{client}.", self._settings.properties)
        return {**self._shared, **worker, **_behind(f"{client}.override.", connector)}


def _behind(prefix: str, properties: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(prefix): text for key, text in properties.items() if key.startswith(prefix)}
