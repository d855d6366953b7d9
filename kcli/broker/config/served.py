"""Which of Kafka's configurations this broker does not honour: those that it refuses, and those that ask for nothing.

    refused    a node that is told to have it does not start: it would be open where it is meant to be closed, or keep
               a limit or a policy that it does not know. Kafka's default is always taken
    harmless   taken with any value, and read by nobody: it sizes or tunes something that is not here
    the rest   is read; a test holds both lists against the code

A listener's own configuration (`listener.name.<listener>.<name>`) is refused where this node has that listener, unless
it is harmless or max.connections. What arrives while
the node runs is refused as a change of its configuration; see dynamic.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kcli.broker.addresses import PLAINTEXT, CannotServe
from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.names import AUTHORIZER_CONFIGS, base_name, is_known
from kcli.broker.replication.selector import RACK_AWARE
from kcli.log.config import InvalidConfig
from kcli.metadata.image import TOPIC_RESOURCE

if TYPE_CHECKING:
    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.metadata.image import MetadataImage

TIERED: Final = "remote.storage.enable"
NONE: Final = (None, "", ())
"""Values that ask for nothing."""

_NO_AUTHORIZER = "authorizers are not there yet"
_NO_SECURITY = "TLS and SASL are not there yet"
_NO_CLASS = "that class is not there"
_NO_TIER = "tiered storage is not there yet"
_NO_TOKENS = "delegation tokens are not there yet"
_NO_LIMIT = "that limit is not kept yet"
_NOTHING_UNSTABLE = "nothing that is unstable is there"

REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("authorizer.class.name", "early.start.listeners", *AUTHORIZER_CONFIGS),
        _NO_AUTHORIZER,
    ),
    **{name: _NO_SECURITY for name in BROKER_KEYS if name.startswith(("ssl.", "sasl."))},
    "connections.max.reauth.ms": _NO_SECURITY,
    "delegation.token.secret.key": _NO_TOKENS,
    **dict.fromkeys(
        (
            "alter.config.policy.class.name",
            "client.quota.callback.class",
            "config.providers",
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
    "remote.log.storage.system.enable": _NO_TIER,
    **dict.fromkeys(
        (
            "internal.metadata.delete.delay.millis",
            "internal.metadata.max.batch.size.in.bytes",
            "max.connection.creation.rate",
            "queued.max.request.bytes",
            "server.max.startup.time.ms",
        ),
        _NO_LIMIT,
    ),
    "offsets.topic.compression.codec": "offsets are not compressed yet",
    "unstable.api.versions.enable": _NOTHING_UNSTABLE,
    "unstable.feature.versions.enable": _NOTHING_UNSTABLE,
}
"""The configuration, and why it cannot be had."""

_ALSO_SERVED: Final[Mapping[str, object]] = {"replica.selector.class": RACK_AWARE}
"""Beside the default."""

_POOLS = "the event loop is one thread, and no work waits for a pool of that name"
_BUFFERS = "buffers grow and shrink with what they hold"
_SOCKETS = "the system sizes a socket's buffers"
_NO_PURGATORY = "a request that waits is woken by what it waits for, there is nothing to purge"
_AT_ONCE = "what is appended is written at once, together with all that waits"
_NO_METRICS = "no metrics are kept, and none are taken from clients"
_NO_SHARE = "there are no share groups yet: share.version tells clients so"
_NO_STREAMS = "there are no streams groups yet: streams.version tells clients so"
_ONLY_TIERED = "says nothing without remote.log.storage.system.enable"
_ONLY_TOKENS = "says nothing without delegation.token.secret.key"

HARMLESS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "group.coordinator.background.threads",
            "group.coordinator.threads",
            "num.io.threads",
            "num.network.threads",
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
    **dict.fromkeys(
        ("replica.socket.receive.buffer.bytes", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"), _SOCKETS
    ),
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
    "connection.failed.authentication.delay.ms": "nobody is authenticated yet",
    **dict.fromkeys(
        (
            "delegation.token.expiry.check.interval.ms",
            "delegation.token.expiry.time.ms",
            "delegation.token.max.lifetime.ms",
        ),
        _ONLY_TOKENS,
    ),
    "follower.fetch.last.tiered.offset.enable": _ONLY_TIERED,
    "log.local.retention.bytes": _ONLY_TIERED,
    "log.local.retention.ms": _ONLY_TIERED,
    **{
        name: _ONLY_TIERED
        for name in BROKER_KEYS
        if name.startswith(("remote.log.", "remote.fetch.", "remote.list.")) and name not in REFUSED
    },
    **{name: _NO_SHARE for name in BROKER_KEYS if name.startswith(("group.share.", "share.")) and name not in REFUSED},
    **{name: _NO_STREAMS for name in BROKER_KEYS if name.startswith("group.streams.")},
}
"""The configuration, and why nobody need read it."""


def check_served(config: BrokerConfig) -> None:
    """Is all there that the node is told to have? Raises CannotServe, which names the first that is not."""
    reason = unserved(config)
    if reason is not None:
        raise CannotServe(reason)


def check_topics(image: MetadataImage) -> None:
    """The same of topics that are there already. Raises CannotServe."""
    for (kind, name), configs in image.configured.items():
        if kind == TOPIC_RESOURCE and configs.get(TIERED, "").strip().lower() == "true":
            raise CannotServe(f"topic {name} has {TIERED}=true: {_NO_TIER}; delete it or take that back first")


def check_change(config: BrokerConfig, changed: Iterable[str]) -> None:
    """The same of a configuration to which a running node is to change. changed: the names. Raises InvalidConfig."""
    reason = unserved(config, changed)
    if reason is not None:
        raise InvalidConfig(reason)


def unserved(config: BrokerConfig, names: Iterable[str] | None = None) -> str | None:
    """The first configuration that this broker does not honour, and why; None where it honours all. names: of those
    to look at, where that is not all."""
    for name in config.properties if names is None else names:
        text = config.properties.get(name, "")
        if text.strip() and _is_of_a_listener(config, name):
            return _told(name, "a listener does not have this for itself yet")
        if name in REFUSED and _asks_for_something(config, name, text):
            given = f"{name}={text.strip()}" if REFUSED[name] is _NO_CLASS else name
            return _told(given, REFUSED[name])
    return _closed_listener(config)


def _is_of_a_listener(config: BrokerConfig, name: str) -> bool:
    """Does it override for one of this node's listeners what is not read for each?"""
    own = base_name(name)
    if own is None or not is_known(own) or own in HARMLESS or own == "max.connections":
        return False
    listener = name.split(".")[2].upper()
    return listener in config.controller_listener_names or any(each.listener == listener for each in config.listeners)


def _asks_for_something(config: BrokerConfig, name: str, text: str) -> bool:
    if name not in BROKER_KEYS:
        return bool(text.strip())
    value = config.values[name]
    return value not in NONE and value not in (BROKER_KEYS[name].default, _ALSO_SERVED.get(name))


def _closed_listener(config: BrokerConfig) -> str | None:
    listeners = [("listeners", each.listener) for each in config.listeners]
    listeners += [("controller.listener.names", name) for name in config.controller_listener_names]
    listeners += [("inter.broker.listener.name", config.inter_broker_listener)]
    for name, listener in listeners:
        protocol = config.protocols.get(listener, PLAINTEXT)
        if protocol != PLAINTEXT:
            return f"{name}: listener {listener} is {protocol}, and only PLAINTEXT is served yet"
    return None


def _told(name: str, reason: str) -> str:
    return f"{name}: {reason}; kcli starts only without it"
