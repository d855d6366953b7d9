"""The configurations of a resource, for DescribeConfigs: value, source and synonyms.

The synonyms of a configuration are all values that are set for it, in order of precedence: the topic's own value, then
those of the broker's configuration in the layers of BrokerConfig. Passwords, and the values of names that Kafka does
not define, are never shown. Source: ConfigHelper, ConfigHelperUtils; KIP-226, KIP-569.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import dropwhile
from typing import Final

from kcli.broker.config import loggers
from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.broker_keys import BROKER_KEYS, DYNAMIC_KEYS
from kcli.broker.config.client_metrics import CLIENT_METRICS_KEYS
from kcli.broker.config.group_config import GROUP_KEYS, broker_synonym, group_defaults
from kcli.broker.config.keys import ConfigType, Key, to_text
from kcli.broker.config.loggers import BROKER_LOGGER_RESOURCE
from kcli.broker.config.names import synonyms, type_of
from kcli.java.hashing import hash_order, java_hash, map_size
from kcli.java.values import java_integer
from kcli.log.config import SYNONYMS, TOPIC_CONFIGS, Value
from kcli.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from kcli.metadata.result import Refused
from kcli.metadata.topic_names import fault
from kcli.protocol.error_code import ErrorCode

DEFINED_FIRST: Final = (
    "segment.bytes",
    "flush.messages",
    "retention.bytes",
    "retention.ms",
    "index.interval.bytes",
    "max.compaction.lag.ms",
)
"""Topic configurations that DescribeConfigs lists before others that fall into the same bucket of Kafka's HashMap,
because Kafka defines these earlier."""
NAMES_KEPT: Final = 4096
RESOURCES: Final = frozenset(
    (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)
)


class Source(IntEnum):
    """The source of a value, by its number in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """A value that is set for a configuration, under its own name or under that of a synonym."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Entry:
    """One configuration of a resource. value: None if the configuration has no value, or if the value is secret."""

    name: str
    value: str | None
    type: ConfigType
    synonyms: tuple[Synonym, ...] = ()
    is_read_only: bool = False
    is_sensitive: bool = False
    default_source: Source = Source.DEFAULT

    @property
    def source(self) -> Source:
        """The source of the value: that of the first synonym, or `default_source` without synonyms."""
        return self.synonyms[0].source if self.synonyms else self.default_source


def describe(
    config: BrokerConfig, image: MetadataImage, resource_type: int, name: str, keys: Sequence[str] | None = None
) -> list[Entry]:
    """Return the configurations of a resource. keys: the names of the configurations to return; None or empty for all.

    The result is in Kafka's order, that of a HashMap of all configurations of the resource, whatever the order of
    `keys`.
    Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST.
    """
    entries = {each.name: each for each in _DESCRIBE[resource_type](config, image, name)}
    if resource_type == TOPIC_RESOURCE:
        entries = {each: entries[each] for each in DEFINED_FIRST} | entries
    requested = entries.keys() if not keys else set(keys)
    return [entries[each] for each in hash_order(entries, _hash, map_size(len(entries))) if each in requested]


@lru_cache(maxsize=NAMES_KEPT)
def _hash(name: str) -> int:
    return java_hash(name)


def effective_topic_configs(config: BrokerConfig, topic: Mapping[str, str]) -> list[Entry]:
    """Return every configuration of a topic, with the source of its value, for the response to CreateTopics. Kafka's
    internal configurations are left out unless they are set. topic: the configurations that are set for the topic
    itself."""
    entries = []
    for name, key in TOPIC_CONFIGS.items():
        if key.internal and name not in topic:
            continue
        value, source = _effective(config, topic, name)
        entries.append(Entry(name, value, ConfigType[key.type.name], default_source=source))
    return entries


def _effective(config: BrokerConfig, topic: Mapping[str, str], name: str) -> tuple[str | None, Source]:
    if name in topic:
        return topic[name], Source.TOPIC
    layers = ((config.broker, Source.DYNAMIC_BROKER), (config.cluster, Source.DYNAMIC_DEFAULT_BROKER))
    for properties, source in (*layers, (config.static, Source.STATIC_BROKER)):
        for synonym, factor in SYNONYMS.get(name, ()):
            if synonym in properties:
                text = properties[synonym]
                return (text if factor == 1 else str(int(text) * factor)), source
    return to_text(TOPIC_CONFIGS[name].default), Source.DEFAULT


def _topic(config: BrokerConfig, image: MetadataImage, name: str) -> Iterable[Entry]:
    reason = fault(name)
    if reason is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if image.topic(name) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    own = image.configs(TOPIC_RESOURCE, name)
    for key, value in config.log_config(own).values.items():
        if TOPIC_CONFIGS[key].internal and key not in own:
            continue
        text = to_text(value)
        first = SYNONYMS[key][0][0] if key in SYNONYMS else None
        found = [] if first is None else _broker_synonyms(config, first, synonyms(first))
        if key in own:
            found.insert(0, Synonym(key, text, Source.TOPIC))
        yield Entry(key, text, ConfigType[TOPIC_CONFIGS[key].type.name], tuple(found))


def _broker(config: BrokerConfig, _image: MetadataImage, name: str) -> Iterable[Entry]:
    if not name:
        for key in sorted(config.cluster):
            yield _broker_entry(config, key, config.cluster[key], only=Source.DYNAMIC_DEFAULT_BROKER)
        return
    if _node_id(name) != config.node_id:
        raise _invalid(f"Unexpected broker id, expected {config.node_id} or empty string, but received {name}")
    shown = [key for key in BROKER_KEYS if not BROKER_KEYS[key].internal]
    for key in shown:
        yield _broker_entry(config, key, to_text(config.values[key]))
    for key in (each for each in config.properties if each not in BROKER_KEYS or BROKER_KEYS[each].internal):
        yield _broker_entry(config, key, config.properties[key])


def _broker_entry(config: BrokerConfig, name: str, text: str | None, only: Source | None = None) -> Entry:
    kind = type_of(name)
    is_sensitive = kind in (ConfigType.PASSWORD, ConfigType.UNKNOWN)
    found = _broker_synonyms(config, name, synonyms(name, with_base=True), hide=is_sensitive)
    return Entry(
        name,
        None if is_sensitive else text,
        kind,
        tuple(each for each in found if only in (None, each.source)),
        is_read_only=name not in DYNAMIC_KEYS,
        is_sensitive=is_sensitive,
    )


def _broker_synonyms(config: BrokerConfig, first: str, names: Sequence[str], *, hide: bool = False) -> list[Synonym]:
    """Return all values that are set for `names`, a configuration and its synonyms, in order of precedence. The result
    begins at the first value of the name `first`: values of higher precedence are left out. hide: whether each value is
    replaced by None."""
    layers: tuple[tuple[Mapping[str, str | None], Source], ...] = (
        (config.broker, Source.DYNAMIC_BROKER),
        (config.cluster, Source.DYNAMIC_DEFAULT_BROKER),
        (config.static, Source.STATIC_BROKER),
        ({name: to_text(BROKER_KEYS[name].default) for name in names if name in BROKER_KEYS}, Source.DEFAULT),
    )
    found = [
        Synonym(name, None if hide else texts[name], source)
        for texts, source in layers
        for name in names
        if texts.get(name) is not None
    ]
    return list(dropwhile(lambda each: each.name != first, found))


def _logger(config: BrokerConfig, _image: MetadataImage, name: str) -> Iterable[Entry]:
    if not name:
        raise _invalid("Broker id must not be empty")
    if _node_id(name) != config.node_id:
        raise _invalid(f"Unexpected broker id, expected {config.node_id} but received {name}")
    for logger, level in loggers.loggers().items():
        yield Entry(logger, level, ConfigType.UNKNOWN, default_source=Source.DYNAMIC_BROKER_LOGGER)


def _client_metrics(_config: BrokerConfig, image: MetadataImage, name: str) -> Iterable[Entry]:
    if not name:
        raise _invalid("Client metrics subscription name must not be empty")
    own = image.configs(CLIENT_METRICS_RESOURCE, name)
    for key, definition in CLIENT_METRICS_KEYS.items():
        text = to_text(definition.parse(key, own[key]) if key in own else definition.default)
        found = [Synonym(key, text, Source.CLIENT_METRICS)] if key in own else []
        yield Entry(key, text, definition.type, tuple(found))


def _group(config: BrokerConfig, image: MetadataImage, name: str) -> Iterable[Entry]:
    if not name:
        raise _invalid("Group name must not be empty")
    own = image.configs(GROUP_RESOURCE, name)
    defaults = group_defaults(config)
    for key, definition in GROUP_KEYS.items():
        yield _group_entry(config, key, definition, own.get(key), defaults[key])


def _group_entry(config: BrokerConfig, name: str, key: Key, own: str | None, default: Value) -> Entry:
    broker_name = broker_synonym(name)
    if broker_name is None:
        found = [Synonym(name, to_text(default), Source.DEFAULT)]
    else:
        found = _broker_synonyms(config, broker_name, synonyms(broker_name))
    text = to_text(default if own is None else key.parse(name, own))
    if own is not None:
        found.insert(0, Synonym(name, text, Source.GROUP))
    return Entry(name, text, key.type, tuple(found))


def _node_id(name: str) -> int:
    found = java_integer(name)
    if found is None:
        raise _invalid(f"Broker id must be an integer, but it is: {name}")
    return found


def _invalid(reason: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, reason)


_DESCRIBE: Final[Mapping[int, Callable[[BrokerConfig, MetadataImage, str], Iterable[Entry]]]] = {
    TOPIC_RESOURCE: _topic,
    BROKER_RESOURCE: _broker,
    BROKER_LOGGER_RESOURCE: _logger,
    CLIENT_METRICS_RESOURCE: _client_metrics,
    GROUP_RESOURCE: _group,
}
