"""Kafka's configurations that this broker does not implement: those that it refuses, and those without effect.

    refused    a node with another value than Kafka's default does not start: the node would be open although the
               configuration is meant to secure it, or would ignore a limit or a policy
    harmless   accepted with any value, and never read: the configuration sizes or tunes a part that this broker does
               not have
    others     the code of this broker reads every other configuration; a test checks that REFUSED and HARMLESS are
               complete

A configuration for one of this node's listeners (`listener.name.<listener>.<name>`) is refused unless it is harmless,
limits connections, or secures the listener (security.py). A change of a dynamic configuration that this
broker refuses is itself refused, and so is a dynamic change of a listener's security, except for its key store and
trust store; see dynamic.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.dynamic_names import SECURITY_CONFIGS
from kcli.broker.config.listeners import parse_voter
from kcli.broker.config.names import AUTHORIZER_CONFIGS, base_name, is_known, listener_config
from kcli.broker.config.security import (
    HANDLER,
    JAAS,
    OF_TLS,
    PER_LISTENER,
    PLAINTEXT,
    TO_BROKERS,
    listener_security,
    outgoing_problem,
    problem_of,
)
from kcli.broker.config.tier_keys import tier_problem
from kcli.errors import KcliError
from kcli.log.config import SCHEMA_CONFIGS, InvalidConfig
from kcli.metadata.image import TOPIC_RESOURCE
from kcli.security.authorizer import CLASS_NAME as STANDARD_AUTHORIZER

if TYPE_CHECKING:
    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.metadata.image import MetadataImage

OF_CONNECTIONS: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
"""Configurations, other than those that secure a listener, that can be set for a single listener."""
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only replica.selector.class that this broker implements (replication/selector.py)."""
TIERED: Final = "remote.storage.enable"
NONE: Final = (None, "", ())
"""Values that mean that a configuration is not set."""

_NO_KERBEROS = "GSSAPI is not there"
_NO_LOGIN = "this node logs in to others by PLAIN and SCRAM alone"
_ONLY_PREFIXED = "belongs behind listener.name.<listener>.<mechanism>"
_NO_AUTHORIZER = "says nothing without authorizer.class.name"
_ONLY_AT_THE_START = "is taken over at a start alone, from server.properties"
_NO_CLASS = "that class is not there"
_NO_LIMIT = "that limit is not kept yet"
_NOTHING_UNSTABLE = "nothing that is unstable is there"

REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sasl.kerberos.principal.to.local.rules", "sasl.kerberos.service.name"), _NO_KERBEROS),
    **{
        name: _NO_LOGIN
        for name in BROKER_KEYS
        if name.startswith(("sasl.login.", "sasl.client.", "sasl.oauthbearer.")) and name not in PER_LISTENER
    },
    **dict.fromkeys((JAAS, HANDLER), _ONLY_PREFIXED),
    **dict.fromkeys(
        (
            "alter.config.policy.class.name",
            "authorizer.class.name",
            "client.quota.callback.class",
            "create.topic.policy.class.name",
            "group.share.persister.class.name",
            "kafka.metrics.reporters",
            "metric.reporters",
            "principal.builder.class",
            "replica.selector.class",
            "security.providers",
        ),
        _NO_CLASS,
    ),
    **dict.fromkeys(
        (
            "internal.metadata.delete.delay.millis",
            "internal.metadata.max.batch.size.in.bytes",
            "server.max.startup.time.ms",
        ),
        _NO_LIMIT,
    ),
    "offsets.topic.compression.codec": "offsets are not compressed yet",
    "unstable.api.versions.enable": _NOTHING_UNSTABLE,
    "unstable.feature.versions.enable": _NOTHING_UNSTABLE,
}
"""Configuration -> the reason why this broker refuses it."""

_ALSO_SERVED: Final[Mapping[str, object]] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "replica.selector.class": RACK_AWARE,
}
"""Configuration -> the value that this broker accepts in addition to the default."""

_POOLS = "the event loop is one thread, and no work waits for a pool of that name"
_BUFFERS = "buffers grow and shrink with what they hold"
_SOCKETS = "the system sizes a socket's receive buffer"
_NO_PURGATORY = "a request that waits is woken by what it waits for, there is nothing to purge"
_AT_ONCE = "what is appended is written at once, together with all that waits"
_NO_METRICS = "no metrics are kept, and none are taken from clients"
_NO_SHARE = "there are no share groups yet: share.version tells clients so"
_NO_STREAMS = "there are no streams groups yet: streams.version tells clients so"
_ONLY_KERBEROS = "tunes logins by GSSAPI alone, and where that mechanism is enabled the node does not start"
_OWN_MANAGERS = "the managers of tiered storage are this broker's own, no class is loaded"

_NO_FOLLOWER_TASKS = (
    "what others have copied is known from the replayed metadata, and following a partition needs no thread"
)

HARMLESS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "group.coordinator.background.threads",
            "group.coordinator.threads",
            "num.io.threads",
            "num.replica.alter.log.dirs.threads",
        ),
        _POOLS,
    ),
    "queued.max.requests": "requests are not queued between threads: one that is not answered yet waits in its socket",
    **dict.fromkeys(
        (
            "group.coordinator.cached.buffer.max.bytes",
            "log.cleaner.io.buffer.size",
            "offsets.load.buffer.size",
            "transaction.state.log.load.buffer.size",
        ),
        _BUFFERS,
    ),
    **dict.fromkeys(("replica.socket.receive.buffer.bytes", "socket.receive.buffer.bytes"), _SOCKETS),
    **dict.fromkeys(
        (
            "controller.socket.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
            "socket.connection.setup.timeout.ms",
        ),
        "an attempt to reach another node ends with the request that it is for",
    ),
    **dict.fromkeys(
        (
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
        ),
        _NO_PURGATORY,
    ),
    **dict.fromkeys(("controller.quorum.append.linger.ms", "group.coordinator.append.linger.ms"), _AT_ONCE),
    **dict.fromkeys(
        (
            "controller.performance.always.log.threshold.ms",
            "controller.performance.sample.period.ms",
            "kafka.metrics.polling.interval.secs",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "telemetry.max.bytes",
        ),
        _NO_METRICS,
    ),
    **dict.fromkeys(
        (
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
        ),
        _ONLY_KERBEROS,
    ),
    **dict.fromkeys(("remote.log.storage.manager.class.path", "remote.log.metadata.manager.class.path"), _OWN_MANAGERS),
    **dict.fromkeys(
        ("remote.log.manager.follower.thread.pool.size", "remote.log.manager.thread.pool.size"), _NO_FOLLOWER_TASKS
    ),
    "remote.log.metadata.custom.metadata.max.bytes": "the stores of this broker keep no metadata of their own",
    **{name: _NO_SHARE for name in BROKER_KEYS if name.startswith(("group.share.", "share.")) and name not in REFUSED},
    **{name: _NO_STREAMS for name in BROKER_KEYS if name.startswith("group.streams.")},
}
"""Configuration -> the reason why this broker accepts it although it has no effect."""


class CannotServe(KcliError):
    """The node cannot start or continue. The message has the reason, such as a configuration that requires a feature
    that this broker does not have, or an address that cannot be bound."""


def check_served(config: BrokerConfig) -> None:
    """Raise CannotServe, with the name of the first configuration that this broker does not implement, if there is
    any."""
    reason = unserved(config)
    if reason is not None:
        raise CannotServe(config.resolved.hide(reason))


def check_topics(config: BrokerConfig, image: MetadataImage) -> None:
    """Raise CannotServe if a topic has tiered storage (remote.storage.enable=true), and this broker has none (Kafka's
    LogConfig.validateRemoteStorageOnlyIfSystemEnabled); or if its records need registered schemas, and no registry runs
    in this process."""
    if not config.is_broker:
        return
    for (kind, name), configs in image.configured.items():
        if kind != TOPIC_RESOURCE:
            continue
        schemas = next((each for each in SCHEMA_CONFIGS if _is_true(configs, each)), None)
        if schemas is not None and not config.has_registry:
            raise CannotServe(
                f"topic {name} has {schemas}=true, and only a schema registry in the broker's process can check that: "
                "start with --registry"
            )
        if _is_true(configs, TIERED) and not config.remote_log_storage_system_enable:
            raise CannotServe(
                f"You have to delete all topics with the property {TIERED}=true before disabling tiered storage "
                f"cluster-wide ({name} is one of them)"
            )


def _is_true(configs: Mapping[str, str], name: str) -> bool:
    return configs.get(name, "").strip().lower() == "true"


def check_change(config: BrokerConfig, changed: Iterable[str]) -> None:
    """Check a change of a running node's configurations. config: all configurations after the change. changed: the
    names of the changed configurations. Raises InvalidConfig if this broker does not implement one of these."""
    reason = unserved(config, changed)
    if reason is not None:
        raise InvalidConfig(reason)


def unserved(config: BrokerConfig, names: Iterable[str] | None = None) -> str | None:
    """Return the first reason why this broker cannot run with its server.properties, with the name of the property:
    kcli does not implement the property, or the security of a listener or of the connections to other nodes
    (security.py) or tiered storage is configured wrongly. Return None if there is no such reason.

    names: the properties to check, None for all. Security and tiered storage are checked in any case.
    """
    for name in config.properties if names is None else names:
        text = config.properties.get(name, "")
        if text.strip() and (reason := _of_a_listener(config, name)) is not None:
            return _message(name, reason)
        if name in AUTHORIZER_CONFIGS and text.strip() and not config.get("authorizer.class.name"):
            return _message(name, _NO_AUTHORIZER)
        if name == TO_BROKERS and (name in config.cluster or name in config.broker):
            return _message(name, _ONLY_AT_THE_START)
        if name in REFUSED and _is_set(config, name, text):
            given = f"{name}={text.strip()}" if REFUSED[name] is _NO_CLASS else name
            return _message(given, REFUSED[name])
    problems = (problem_of(config, each.listener) for each in config.listeners)
    found = next((problem for problem in problems if problem is not None), None)
    return found or _between_nodes(config) or tier_problem(config)


def _of_a_listener(config: BrokerConfig, name: str) -> str | None:
    """Return the reason why a configuration of one listener is refused. Return None if this broker implements the
    configuration, if it is harmless, or if the name has no prefix of one of this node's listeners."""
    own = base_name(name)
    if own is None or not is_known(own) or own in HARMLESS or own in OF_CONNECTIONS:
        return None
    listener = name.split(".")[2].upper()
    if listener not in config.controller_listener_names and all(each.listener != listener for each in config.listeners):
        return None
    if (name in config.cluster or name in config.broker) and own not in SECURITY_CONFIGS:
        return _ONLY_AT_THE_START
    if own in (JAAS, HANDLER) and listener_config(name) == own:
        return _ONLY_PREFIXED
    if own not in PER_LISTENER:
        return REFUSED.get(own, "a listener does not have this for itself yet")
    security = listener_security(config, listener)
    if not (security.has_tls if own in OF_TLS else security.has_sasl):
        return f"listener {listener} is {security.protocol}"
    return None


def _is_set(config: BrokerConfig, name: str, text: str) -> bool:
    if name not in BROKER_KEYS:
        return bool(text.strip())
    value = config.values[name]
    return value not in NONE and value not in (BROKER_KEYS[name].default, _ALSO_SERVED.get(name))


def _between_nodes(config: BrokerConfig) -> str | None:
    """Return the reason, in one line, why this node cannot connect to the other nodes of its cluster; None if it can,
    or if it is the only node."""
    voters = {parse_voter(word)[0] for word in config.words("controller.quorum.voters")}
    is_whole = voters == {config.node_id} and not config.words("controller.quorum.bootstrap.servers")
    if is_whole and config.is_broker and config.is_controller:
        return None
    return outgoing_problem(config)


def check_open(config: BrokerConfig) -> None:
    """Check the configuration of a read-only node, which serves every client without authentication. Raises CannotServe
    for a listener that is not PLAINTEXT, and for an authorizer."""
    secured = [each for each in config.listeners if each.security_protocol != PLAINTEXT]
    if secured:
        reason = f"listener {secured[0].listener} is {secured[0].security_protocol}"
        raise CannotServe(f"listeners: {reason}, and a read-only node has PLAINTEXT alone yet")
    if config.get("authorizer.class.name"):
        raise CannotServe("authorizer.class.name: a read-only node has no authorizer yet; kcli starts only without it")


def _message(name: str, reason: str) -> str:
    return f"{name}: {reason}; kcli starts only without it"
