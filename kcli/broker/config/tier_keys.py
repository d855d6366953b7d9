"""The configurations of tiered storage's two managers, the remote storage manager and the metadata manager. The name of
each begins with a prefix, which is a configuration of the broker itself (KIP-405).

    remote.log.storage.manager.class.name     the prefix (rsm.config.) remote.log.storage.manager.impl.prefix
      org...LocalTieredStorage                dir, delete.enable, delete.on.close: a directory, as Kafka's class has it
      kcli.tier.ObjectStorage                 url: s3://, gs://, az:// or abfs:// with bucket and prefix, file:// or a
                                              path; credentials come from the environment (kcli.tier.bucket)
    remote.log.metadata.manager.class.name    the prefix (rlmm.config.) remote.log.metadata.manager.impl.prefix
      org...TopicBasedRemoteLogMetadataManager  remote.log.metadata.topic.* and the waits of Kafka's class

A manager's configuration that is not listed here is refused: Kafka would pass it on, and this broker would ignore it.
Source: LocalTieredStorage, TopicBasedRemoteLogMetadataManagerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kcli.broker.config.keys import BOOLEAN, INT, LONG, REQUIRED, SHORT, STRING, Key, not_empty
from kcli.errors import UsageError
from kcli.log.config import InvalidConfig, Value, at_least, invalid
from kcli.tier.address import parse_address

if TYPE_CHECKING:
    from kcli.broker.config.broker_config import BrokerConfig

ENABLED: Final = "remote.log.storage.system.enable"
STORAGE_CLASS: Final = "remote.log.storage.manager.class.name"
METADATA_CLASS: Final = "remote.log.metadata.manager.class.name"
LISTENER: Final = "remote.log.metadata.manager.listener.name"
LOCAL_TIERED_STORAGE: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
OBJECT_STORAGE: Final = "kcli.tier.ObjectStorage"
TOPIC_BASED: Final = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"


def _address(name: str, value: Value) -> None:
    not_empty(name, value)
    try:
        parse_address(str(value))
    except UsageError as error:
        raise InvalidConfig(f"{name}: {str(error).removeprefix('--tier: ')}") from None


def _retention(name: str, value: Value) -> None:
    assert isinstance(value, int), "a LONG"
    if value != -1 and value <= 0:
        raise invalid(name, value, "Value must be -1 or above 0")


STORAGE_KEYS: Final[Mapping[str, Mapping[str, Key]]] = {
    LOCAL_TIERED_STORAGE: {
        "dir": Key(STRING, REQUIRED, not_empty),
        "delete.enable": Key(BOOLEAN, default=True),
        "delete.on.close": Key(BOOLEAN, default=False),
    },
    OBJECT_STORAGE: {"url": Key(STRING, REQUIRED, _address)},
}
"""Class of the remote storage manager -> its configurations."""

METADATA_KEYS: Final[Mapping[str, Key]] = {
    "remote.log.metadata.topic.num.partitions": Key(INT, 50, at_least(1)),
    "remote.log.metadata.topic.replication.factor": Key(SHORT, 3, at_least(1)),
    "remote.log.metadata.topic.min.isr": Key(SHORT, 2, at_least(1)),
    "remote.log.metadata.topic.retention.ms": Key(LONG, -1, _retention),
    "remote.log.metadata.consume.wait.ms": Key(LONG, 120_000, at_least(0)),
    "remote.log.metadata.initialization.retry.max.timeout.ms": Key(LONG, 120_000, at_least(0)),
    "remote.log.metadata.initialization.retry.interval.ms": Key(LONG, 100, at_least(0)),
}
"""The configurations of TopicBasedRemoteLogMetadataManager."""

_CLIENTS: Final = tuple(f"remote.log.metadata.{whose}." for whose in ("common.client", "producer", "consumer", "admin"))


def storage_values(config: BrokerConfig) -> dict[str, Value]:
    """Return the configurations of the remote storage manager, whose class is one of STORAGE_KEYS. Raises
    InvalidConfig."""
    return _values(
        config, config.text("remote.log.storage.manager.impl.prefix"), STORAGE_KEYS[config.text(STORAGE_CLASS)]
    )


def metadata_values(config: BrokerConfig) -> dict[str, Value]:
    """Return the configurations of the remote log metadata manager. Raises InvalidConfig."""
    return _values(config, config.text("remote.log.metadata.manager.impl.prefix"), METADATA_KEYS)


def _values(config: BrokerConfig, prefix: str, keys: Mapping[str, Key]) -> dict[str, Value]:
    given = {name: text for name, text in config.properties.items() if name.startswith(prefix)}
    for name in given:
        own = name.removeprefix(prefix)
        if own.startswith(_CLIENTS):
            raise InvalidConfig(f"{name}: the metadata topic is reached by this broker's own connections to others")
        if own not in keys:
            raise InvalidConfig(f"{name}: the class has no such configuration here, but {', '.join(sorted(keys))}")
    found: dict[str, Value] = {}
    for own, key in keys.items():
        name = prefix + own
        if name in given:
            found[own] = key.parse(name, given[name])
        elif key.default is REQUIRED:
            raise InvalidConfig(f"{name}: is not set")
        else:
            assert not isinstance(key.default, type(REQUIRED)), "compared"
            found[own] = key.default
    return found


def tier_problem(config: BrokerConfig) -> str | None:
    """Return the reason, with the name of the configuration, why this broker cannot run tiered storage as configured;
    None if there is no such reason, or if tiered storage is not enabled."""
    if not (config.remote_log_storage_system_enable and config.is_broker):
        return None
    storage = config.get(STORAGE_CLASS)
    if storage not in STORAGE_KEYS:
        given = STORAGE_CLASS if storage is None else f"{STORAGE_CLASS}={storage}"
        return f"{given}: this broker has {' or '.join(STORAGE_KEYS)} alone"
    if config.get(METADATA_CLASS) != TOPIC_BASED:
        return f"{METADATA_CLASS}={config.get(METADATA_CLASS)}: this broker has {TOPIC_BASED} alone"
    listener = config.get(LISTENER)
    known = [each.listener for each in config.advertised_listeners]
    if listener is not None and str(listener).upper() not in known:
        return (
            f"Invalid value {listener} for configuration {LISTENER}: Should be set as a listener name within valid "
            f"broker listener name list: {','.join(known)}"
        )
    try:
        storage_values(config)
        metadata_values(config)
    except InvalidConfig as error:
        return str(error)
    return None
