"""The rules that configurations of one broker must satisfy together, in Kafka's order and with its messages.

Source: KafkaConfig's constructor and validateValues, GroupCoordinatorConfig, ShareGroupConfig, QuorumConfig.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.compression import CODEC_NAMES
from kcli.broker.config.listeners import parse_counts, parse_voter
from kcli.broker.config.security import listener_security
from kcli.log.config import InvalidConfig

if TYPE_CHECKING:
    from kcli.broker.config.broker_config import BrokerConfig

MEGABYTE = 1 << 20
ASSIGNORS = {"consumer": ("uniform", "range"), "share": ("simple",)}
NONROUTABLE = "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."

# Pairs of a share group's limits: the first must not be below the second.
_SHARE_LIMITS = (
    ("group.share.max.delivery.count.limit", "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", "group.share.min.delivery.count.limit"),
    ("group.share.max.partition.max.record.locks", "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", "group.share.min.partition.max.record.locks"),
    ("group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms"),
    ("group.share.max.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.max.share.sessions", "group.share.max.size"),
)


def check(config: BrokerConfig) -> None:
    """Check that a configuration satisfies all rules. Raises InvalidConfig for the first broken rule."""
    _codecs_and_assignors(config)
    _groups(config)
    _early_listeners(config)
    if "classic" not in (word.lower() for word in config.words("group.coordinator.rebalance.protocols")):
        raise InvalidConfig("Disabling the 'classic' protocol is not supported.")
    if config.number("node.id") != config.number("broker.id"):
        raise InvalidConfig("You must set `node.id` to the same value as `broker.id`.")
    _logs(config)
    _replication(config)
    _listeners(config)
    _connections(config)


def require(holds: object, reason: str) -> None:
    """Raise InvalidConfig, with the message of Scala's `require`, unless `holds` is true."""
    if not holds:
        raise InvalidConfig(f"requirement failed: {reason}")


def _codecs_and_assignors(config: BrokerConfig) -> None:
    for kind, known in ASSIGNORS.items():
        for name in config.words(f"group.{kind}.assignors"):
            if name not in known:
                raise InvalidConfig(f"Class {name} cannot be found")
    for name in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        if config.number(name) not in range(len(CODEC_NAMES)):
            raise InvalidConfig(f"Unknown compression type id: {config.number(name)}")


def _early_listeners(config: BrokerConfig) -> None:
    known = {*(each.listener for each in config.listeners), *config.controller_listener_names}
    for name in config.words("early.start.listeners"):
        if name not in known:
            raise InvalidConfig(
                f"early.start.listeners contains listener {name}, but this is not contained in listeners or "
                "controller.listener.names"
            )


def _groups(config: BrokerConfig) -> None:
    for kind in ("consumer", "share", "streams"):
        _bounds(config, f"group.{kind}", "heartbeat.interval.ms")
        _bounds(config, f"group.{kind}", "session.timeout.ms")
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if config.number(heartbeat) >= config.number(session):
            raise InvalidConfig(f"{heartbeat} must be less than {session}")
        _bounds(config, f"group.{kind}", "assignment.interval.ms")
    _at_most(config, "group.streams.num.standby.replicas", "group.streams.max.standby.replicas")
    for high, low in _SHARE_LIMITS:
        _at_least(config, high, low)


def _bounds(config: BrokerConfig, group: str, what: str) -> None:
    _at_least(config, f"{group}.max.{what}", f"{group}.min.{what}")
    _at_least(config, f"{group}.{what}", f"{group}.min.{what}")
    _at_most(config, f"{group}.{what}", f"{group}.max.{what}")


def _at_least(config: BrokerConfig, name: str, least: str) -> None:
    if config.number(name) < config.number(least):
        raise InvalidConfig(f"{name} must be greater than or equal to {least}")


def _at_most(config: BrokerConfig, name: str, most: str) -> None:
    if config.number(name) > config.number(most):
        raise InvalidConfig(f"{name} must be less than or equal to {most}")


def _logs(config: BrokerConfig) -> None:
    require(config.log_roll_time_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    require(config.log_roll_jitter_time_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    retention_ms = config.log_retention_time_ms
    require(
        retention_ms >= 1 or retention_ms == -1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    threads = config.number("log.cleaner.threads")
    if threads == 0:
        raise InvalidConfig("/ by zero")
    require(
        config.number("log.cleaner.dedupe.buffer.size") // threads > MEGABYTE,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _replication(config: BrokerConfig) -> None:
    wait_ms = config.number("replica.fetch.wait.max.ms")
    require(
        wait_ms <= config.number("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    require(
        wait_ms <= config.number("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )


def _listeners(config: BrokerConfig) -> None:
    advertised = [each.listener for each in config.advertised_listeners]
    names = {each.listener for each in config.listeners}
    inter_broker = config.inter_broker_listener
    if config.get("inter.broker.listener.name") is not None and "security.inter.broker.protocol" in config.properties:
        raise InvalidConfig("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    if not inter_broker:
        raise InvalidConfig("The provided listener name is null or empty string")
    if inter_broker not in config.protocols:
        raise InvalidConfig(
            f"Listener with name {inter_broker} defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map."
        )
    _quorum(config)
    if config.is_broker:
        also = " Perhaps all listeners appear in controller.listener.names?"
        require(advertised, f"There must be at least one broker advertised listener.{also}")
        require(
            inter_broker in advertised,
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {','.join(advertised)}",
        )
        require(
            set(advertised) <= names,
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found "
            f"{','.join(advertised)}. The valid options based on the current configuration are {','.join(names)}",
        )
        _cordoned(config)
    told = (*config.advertised_listeners, *config.advertised_controller_listeners)
    require(all(each.host != "0.0.0.0" for each in told), NONROUTABLE)  # noqa: S104  (compared, not listened on)
    if config.protocols[inter_broker].startswith("SASL"):
        require(
            config.text("sasl.mechanism.inter.broker.protocol") in listener_security(config, inter_broker).mechanisms,
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for "
            "inter-broker communication",
        )


def _quorum(config: BrokerConfig) -> None:
    voters = {parse_voter(word)[0] for word in config.words("controller.quorum.voters")}
    if not voters and not config.words("controller.quorum.bootstrap.servers"):
        raise InvalidConfig(
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            "controllers or controller.quorum.voters must contain a parseable set of controllers."
        )
    among = f"be included in the set of voters controller.quorum.voters=Set({', '.join(map(str, sorted(voters)))})"
    names = {name.upper() for name in config.words("controller.listener.names")}
    listening = {each.listener for each in config.listeners}
    if not config.is_controller:
        require(
            config.node_id not in voters,
            f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not {among}",
        )
        require(
            not names & listening,
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
            "running KRaft with just the broker role",
        )
        return
    require(
        config.is_broker or listening <= names,
        "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
        "process.roles=controller",
    )
    require(
        not voters or config.node_id in voters,
        f"If process.roles contains the 'controller' role, the node id {config.node_id} must {among}",
    )
    require(
        names & listening,
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
        "running the KRaft controller role",
    )
    require(
        names <= listening,
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when running "
        "the KRaft controller role",
    )


def _cordoned(config: BrokerConfig) -> None:
    cordoned = config.words("cordoned.log.dirs")
    if "*" in cordoned:
        require(len(cordoned) == 1, "When cordoned.log.dirs is set to *, it must not contain other values")
        return
    unknown = [name for name in cordoned if name not in config.log_dirs]
    require(
        not unknown,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
        + ", ".join(unknown),
    )


def _connections(config: BrokerConfig) -> None:
    queued = config.number("queued.max.request.bytes")
    require(
        queued <= 0 or queued >= config.number("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = parse_counts("max.connections.per.ip.overrides", config.text("max.connections.per.ip.overrides"))
    require(
        config.number("max.connections.per.ip") != 0 or overrides,
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    delay_ms, idle_ms = (
        config.number("connection.failed.authentication.delay.ms"),
        config.number("connections.max.idle.ms"),
    )
    require(
        idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than connections.max.idle.ms="
        f"{idle_ms} to prevent failed authentication responses from timing out",
    )
