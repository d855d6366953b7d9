"""The configuration of one broker: server.properties, and the dynamic configurations that override it.

A value comes from the first of these layers that has it:

    dynamic, of this broker     records of the metadata log
    dynamic, of all brokers     records of the metadata log
    static                      server.properties
    default                     Kafka's, see broker_keys.py

A value also overrides the synonyms of its name (log.retention.ms, .minutes, .hours) in the layers below its own.
`values` has the current value of every configuration. Source: KafkaConfig, DynamicBrokerConfig, AbstractKafkaConfig;
KIP-226.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast, overload

from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.checks import check
from kcli.broker.config.dynamic_names import applicable
from kcli.broker.config.keys import REQUIRED
from kcli.broker.config.listeners import Endpoint, listener_name, parse_counts, parse_listeners, parse_protocol_map
from kcli.broker.config.names import LISTENER_PREFIX, MANAGER_PREFIXES, is_known, synonyms
from kcli.broker.config.static_jaas import StaticJaas
from kcli.java.values import java_integer
from kcli.log.config import HOUR_MS, INT_MAX, MINUTE_MS, InvalidConfig, LogConfig, Value, broker_defaults
from kcli.log.config_providers import resolve

T = TypeVar("T")


class Setting(Generic[T]):
    """An attribute of BrokerConfig that returns the value of the configuration of the same name, with dots for
    underscores: `num_partitions` is num.partitions."""

    __slots__ = ("name",)

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.name = attribute.replace("_", ".")
        assert self.name in BROKER_KEYS, f"{self.name} is no configuration"

    @overload
    def __get__(self, config: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, config: BrokerConfig, owner: type) -> T: ...
    def __get__(self, config: BrokerConfig | None, owner: type) -> Setting[T] | T:
        return self if config is None else cast("T", config.values[self.name])


class BrokerConfig:
    """The configuration of one broker. Times are milliseconds, sizes bytes, unless the name says otherwise."""

    # sockets
    connections_max_idle_ms = Setting[int]()
    max_connections = Setting[int]()
    max_connections_per_ip = Setting[int]()
    queued_max_request_bytes = Setting[int]()
    socket_listen_backlog_size = Setting[int]()
    socket_request_max_bytes = Setting[int]()
    socket_send_buffer_bytes = Setting[int]()
    # requests
    fetch_max_bytes = Setting[int]()
    max_incremental_fetch_session_cache_slots = Setting[int]()
    max_request_partition_size_limit = Setting[int]()
    request_timeout_ms = Setting[int]()
    # topics
    auto_create_topics_enable = Setting[bool]()
    default_replication_factor = Setting[int]()
    delete_topic_enable = Setting[bool]()
    min_insync_replicas = Setting[int]()
    num_partitions = Setting[int]()
    # logs
    log_cleaner_backoff_ms = Setting[int]()
    log_cleaner_enable = Setting[bool]()
    log_cleaner_io_max_bytes_per_second = Setting[float]()
    log_cleaner_threads = Setting[int]()
    log_dir_failure_timeout_ms = Setting[int]()
    log_flush_offset_checkpoint_interval_ms = Setting[int]()
    log_flush_scheduler_interval_ms = Setting[int]()
    log_flush_start_offset_checkpoint_interval_ms = Setting[int]()
    log_initial_task_delay_ms = Setting[int]()
    log_retention_check_interval_ms = Setting[int]()
    num_recovery_threads_per_data_dir = Setting[int]()
    replica_high_watermark_checkpoint_interval_ms = Setting[int]()
    # producers and transactions
    producer_id_expiration_check_interval_ms = Setting[int]()
    producer_id_expiration_ms = Setting[int]()
    # groups
    offsets_retention_check_interval_ms = Setting[int]()
    # the metadata log
    metadata_log_max_record_bytes_between_snapshots = Setting[int]()
    metadata_log_max_snapshot_interval_ms = Setting[int]()
    metadata_log_segment_bytes = Setting[int]()
    metadata_log_segment_ms = Setting[int]()
    metadata_max_idle_interval_ms = Setting[int]()
    metadata_max_retention_bytes = Setting[int]()
    metadata_max_retention_ms = Setting[int]()
    # quotas
    controller_quota_window_num = Setting[int]()
    controller_quota_window_size_seconds = Setting[int]()
    quota_window_num = Setting[int]()
    quota_window_size_seconds = Setting[int]()
    # other configurations
    broker_heartbeat_interval_ms = Setting[int]()
    broker_rack = Setting["str | None"]()
    broker_session_timeout_ms = Setting[int]()
    controlled_shutdown_enable = Setting[bool]()
    node_id = Setting[int]()
    remote_log_storage_system_enable = Setting[bool]()

    def __init__(self, properties: Mapping[str, str]) -> None:
        """properties: those of server.properties, whose variables are resolved (kcli/log/config_providers.py). Raises
        InvalidConfig, with Kafka's message, in which the values of variables are hidden."""
        self.resolved = resolve(properties)
        self.static_jaas = StaticJaas(os.environ.get("KAFKA_OPTS", ""))
        self.static = _with_broker_id(self.resolved.properties)
        self.cluster: Mapping[str, str] = {}
        """The dynamic configurations that all brokers have by default (--entity-default)."""
        self.broker: Mapping[str, str] = {}
        """The dynamic configurations of this broker."""
        self.has_registry = False
        """Whether a schema registry runs in this process, so that topics may demand registered schemas."""
        prefixes = tuple(filter(None, (properties.get(name) for name in MANAGER_PREFIXES)))
        self.warnings = [
            f"{name}: no configuration of Kafka 4.3"
            for name in properties
            if not (is_known(name) or name.startswith(prefixes))
        ]
        try:
            self._take(self.static)
            self.warnings += self._unknown_listeners()
        except InvalidConfig as error:
            raise InvalidConfig(self.resolved.hide(str(error))) from None

    def _unknown_listeners(self) -> list[str]:
        """Return a warning for each configuration with the prefix of an unknown listener: one that is neither in
        listeners nor in controller.listener.names nor in listener.security.protocol.map."""
        setting = "listener.security.protocol.map"
        mapped = parse_protocol_map(setting, self.static.get(setting, ""))
        known = {each.listener for each in self.listeners} | {*self.controller_listener_names, *mapped}
        lower = sorted(each.lower() for each in known)
        prefixes = tuple(f"{LISTENER_PREFIX}{each}." for each in lower)
        return [
            f"{name}: no listener has this name: {', '.join(lower)}"
            for name in self.static
            if name.startswith(LISTENER_PREFIX) and is_known(name) and not name.startswith(prefixes)
        ]

    def update(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> list[str]:
        """Apply the dynamic configurations in the metadata log: those of all brokers, and those of this broker.

        Return the problems of the invalid configurations, which are ignored. Raises InvalidConfig, and changes nothing,
        if the valid ones contradict each other or the static configurations, or are invalid as the default of a topic
        configuration (log.flush.interval.ms=-1).
        """
        if cluster == self.cluster and broker == self.broker:
            return []  # unchanged: validating all configurations again would take 2 ms
        problems: list[str] = []
        layers = applicable(cluster, problems, per_broker=False), applicable(broker, problems, per_broker=True)
        self.changed(*layers).log_config({})
        self._layer(*layers)
        return problems

    def changed(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """Return a copy of this configuration with other dynamic configurations: `cluster` for all brokers, `broker`
        for this broker. Raises InvalidConfig."""
        other = BrokerConfig.__new__(BrokerConfig)
        other.resolved, other.static, other.warnings = self.resolved, self.static, self.warnings
        other.static_jaas, other.has_registry = self.static_jaas, self.has_registry
        other._layer(cluster, broker)  # noqa: SLF001  (its own class)
        return other

    def _layer(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        properties = dict(self.static)
        for layer in (cluster, broker):
            for name, text in layer.items():
                for synonym in synonyms(name):
                    properties.pop(synonym, None)
                properties[name] = text
        self._take(properties)
        self.cluster, self.broker = dict(cluster), dict(broker)

    def _take(self, properties: Mapping[str, str]) -> None:
        before = self.__dict__.copy()
        try:
            self.properties = properties
            self.values = _parse(properties)
            self.protocols = _protocols(self)
            self.listeners = parse_listeners(self.words("listeners"), self.protocols)
            self.advertised_listeners = _advertised(self)
            check(self)
            self.topic_defaults = broker_defaults(properties)
        except InvalidConfig:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def get(self, name: str) -> Value:
        """The value of any configuration. Raises KeyError for an unknown name."""
        return self.values[name]

    def number(self, name: str) -> int:
        """The value of a configuration of type INT, SHORT or LONG."""
        value = self.values[name]
        assert isinstance(value, int), f"{name} is a number"
        return value

    def text(self, name: str) -> str:
        """The value of a configuration of type STRING that has a default."""
        value = self.values[name]
        assert isinstance(value, str), f"{name} is a string"
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """Return the value of a configuration of type LIST; empty if it is not set."""
        value = self.values[name]
        assert value is None or isinstance(value, tuple), f"{name} is a list"
        return value or ()

    def log_config(self, topic: Mapping[str, str]) -> LogConfig:
        """The configuration of a topic's logs. topic: the topic's own configurations. Raises InvalidConfig."""
        return LogConfig(topic, self.properties)

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The log directories: log.dirs, else log.dir."""
        return self.words("log.dirs") or self.words("log.dir")

    @property
    def metadata_log_dir(self) -> str:
        """The directory of `__cluster_metadata-0`: metadata.log.dir, else the first log directory."""
        directory = self.values["metadata.log.dir"]
        return directory if isinstance(directory, str) else self.log_dirs[0]

    @property
    def is_broker(self) -> bool:
        """Whether process.roles contains broker."""
        return "broker" in self.words("process.roles")

    @property
    def is_controller(self) -> bool:
        """Whether process.roles contains controller."""
        return "controller" in self.words("process.roles")

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        """The names, in upper case, of the listeners for requests to the controller."""
        return tuple(name.upper() for name in self.words("controller.listener.names"))

    @property
    def early_start_listeners(self) -> tuple[str, ...]:
        """The listeners that open before the authorizer has loaded the ACLs: those of early.start.listeners, by default
        the controller listeners."""
        name = "early.start.listeners"
        return self.controller_listener_names if self.get(name) is None else self.words(name)

    @property
    def advertised_controller_listeners(self) -> tuple[Endpoint, ...]:
        """The advertised controller listeners of this node; empty if the node is not a controller. A listener that
        advertised.listeners leaves out is advertised with its address in listeners, and without a host if that address
        is 0.0.0.0.

        Source: KafkaConfig.effectiveAdvertisedControllerListeners.
        """
        words = self.words("advertised.listeners")
        advertised = {each.listener: each for each in parse_listeners(words, self.protocols, distinct_ports=False)}
        own = [each for each in self.listeners if each.listener in self.controller_listener_names]
        return tuple(advertised.get(each.listener, _without_wildcard(each)) for each in own)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the inter-broker listener."""
        name = self.values["inter.broker.listener.name"]
        return (name if isinstance(name, str) else self.text("security.inter.broker.protocol")).upper()

    @property
    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        """Host -> the greatest number of its connections, which overrides max.connections.per.ip."""
        name = "max.connections.per.ip.overrides"
        return parse_counts(name, self.text(name))

    def max_connections_of(self, listener: str) -> int:
        """Return the greatest number of connections that the listener may have, INT_MAX if no limit is set for it."""
        return self._of_listener(listener, "max.connections")

    def creation_rate_of(self, listener: str) -> int:
        """Return the greatest number of new connections per second that the listener accepts, INT_MAX if no limit is
        set for it."""
        return self._of_listener(listener, "max.connection.creation.rate")

    def network_threads_of(self, listener: str) -> int:
        """Return the number of threads that may answer the listener's requests, by its own num.network.threads or by
        that of all listeners."""
        return self._of_listener(listener, "num.network.threads", self.number("num.network.threads"))

    def _of_listener(self, listener: str, name: str, unset: int = INT_MAX) -> int:
        text = self.properties.get(f"listener.name.{listener.lower()}.{name}")
        found = None if text is None else java_integer(text.strip())
        return unset if found is None else found

    @property
    def log_retention_time_ms(self) -> int:
        """The broker's default of the topic configuration retention.ms, in ms; -1 for no limit."""
        found = self._first_ms(
            ("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)
        )
        return -1 if found < 0 else found

    @property
    def log_roll_time_ms(self) -> int:
        """The broker's default of the topic configuration segment.ms, in ms."""
        return self._first_ms(("log.roll.ms", 1), ("log.roll.hours", HOUR_MS))

    @property
    def log_roll_jitter_time_ms(self) -> int:
        """The broker's default of the topic configuration segment.jitter.ms, in ms."""
        return self._first_ms(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS))

    def _first_ms(self, *names: tuple[str, int]) -> int:
        for name, factor in names:
            value = self.values[name]
            if isinstance(value, int):
                return value * factor
        raise AssertionError("the last one has a default")


def _with_broker_id(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties. If only one of node.id and broker.id is set, the result has that value for both."""
    both = dict(properties)
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in both:
            both.setdefault(other, both[name])
    return both


def _parse(properties: Mapping[str, str]) -> dict[str, Value]:
    """Return the value of every configuration, by name. Raises InvalidConfig for the first invalid value, in the order
    in which Kafka defines the configurations."""
    values = dict(_DEFAULTS)
    for name in sorted(_REQUIRED | (properties.keys() & _DEFAULTS.keys()), key=_ORDER.__getitem__):
        if name not in properties:
            raise InvalidConfig(f'Missing required configuration "{name}" which has no default value.')
        values[name] = BROKER_KEYS[name].parse(name, properties[name])
    return values


_DEFAULTS: dict[str, Value] = {name: cast("Any", key.default) for name, key in BROKER_KEYS.items()}
_REQUIRED = {name for name, key in BROKER_KEYS.items() if key.default is REQUIRED}
_ORDER = {name: i for i, name in enumerate(BROKER_KEYS)}


def _protocols(config: BrokerConfig) -> dict[str, str]:
    """Return listener name -> security protocol, from listener.security.protocol.map. If this configuration is not set,
    controller listeners have PLAINTEXT, unless the name of any listener is that of a secure protocol."""
    name = "listener.security.protocol.map"
    protocols = parse_protocol_map(name, config.text(name))
    if name in config.properties:
        return protocols
    secure = {"SSL", "SASL_SSL", "SASL_PLAINTEXT"}
    controllers = config.controller_listener_names
    if not secure & {*controllers, *map(listener_name, config.words("listeners"))}:
        protocols.update(dict.fromkeys(controllers, "PLAINTEXT"))
    return protocols


def _without_wildcard(listener: Endpoint) -> Endpoint:
    return replace(listener, host=None) if listener.host == "0.0.0.0" else listener  # noqa: S104  (compared)


def _advertised(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """Return the endpoints for clients: advertised.listeners, else listeners without the controller listeners."""
    words = config.words("advertised.listeners")
    found = parse_listeners(words, config.protocols, distinct_ports=False) if words else config.listeners
    return tuple(each for each in found if each.listener not in config.controller_listener_names)
