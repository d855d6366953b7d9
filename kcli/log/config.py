"""The configuration of a topic's log: Kafka's names, types, defaults, limits and messages.

A value comes from the topic's own configuration, else from the broker's (under another name, see SYNONYMS), else from
TOPIC_CONFIGS. Values are checked as by Kafka's ConfigDef, with the same messages. CleanerConfig has the broker's
configurations that the cleaner uses.

Source: LogConfig, CleanerConfig, ServerTopicConfigSynonyms, ConfigDef, CompressionType, ThrottledReplicaListValidator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kcli.errors import KcliError
from kcli.java.values import comma_list, java_double, java_integer, java_trim

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
AS_RETENTION = -2
"""A local retention that is the same as that of the whole log."""

Value = bool | int | float | str | tuple[str, ...] | None


class InvalidConfig(KcliError):
    """An invalid configuration, with Kafka's message."""

    exit_status = 2


class Type(StrEnum):
    """The type of a configuration; the value is Kafka's name for the type."""

    BOOLEAN = "BOOLEAN"
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    LIST = "LIST"


Validator = Callable[[str, Value], None]


def invalid(name: str, value: object, reason: str) -> InvalidConfig:
    """Return the error for an invalid value, with Kafka's message."""
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, tuple):
        value = f"[{', '.join(value)}]"
    return InvalidConfig(f"Invalid value {'null' if value is None else value} for configuration {name}: {reason}")


def at_least(least: int) -> Validator:
    """Return a validator for numbers not below `least`."""
    return between(least, None)


def between(least: int, most: int | None) -> Validator:
    """Return a validator for numbers from `least` to `most` (None: no limit), both included."""

    def check(name: str, value: Value) -> None:
        if value is None:
            raise invalid(name, value, "Value must be non-null")
        assert isinstance(value, (int, float)), "limits are for numbers"
        if value < least:
            raise invalid(name, value, f"Value must be at least {least}")
        if most is not None and value > most:
            raise invalid(name, value, f"Value must be no more than {most}")

    return check


def one_of(*words: str) -> Validator:
    """Return a validator that accepts only the strings `words`."""

    def check(name: str, value: Value) -> None:
        if value not in words:
            raise invalid(name, value, f"String must be one of: {', '.join(words)}")

    return check


def list_of(*words: str) -> Validator:
    """Return a validator for lists of the strings `words`; an empty list is valid."""
    word = one_of(*words)

    def check(name: str, value: Value) -> None:
        if value is None:
            raise InvalidConfig(f"Configuration '{name}' values must not be null.")
        assert isinstance(value, tuple), "lists are tuples"
        for item in value:
            if not item:
                raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
            word(name, item)

    return check


def gzip_level(name: str, value: Value) -> None:
    """Validate a gzip level: 1 to 9, or -1 for the codec's default."""
    if value is None:
        raise invalid(name, value, "Value must be non-null")
    assert isinstance(value, int), "a level is an int"
    if value > 9 or (value < 1 and value != -1):
        raise invalid(name, value, "Value must be between 1 and 9 or equal to -1")


def throttled_replicas(name: str, value: Value) -> None:
    """Validate a list of throttled replicas: `*`, or partition:broker pairs."""
    assert isinstance(value, tuple), "lists are tuples"
    words = [item.strip() for item in value]
    if not all(not word or _is_replica(word) for word in words) and "".join(words) != "*":
        reason = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise invalid(name, value, reason)


def _is_replica(word: str) -> bool:
    partition, _, broker = word.partition(":")
    return word.isascii() and partition.isdecimal() and broker.isdecimal()


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One configuration: its type, Kafka's default, and the validator of its values.

    internal: not shown to clients; distinct: duplicates are removed from the list.
    """

    type: Type
    default: Value
    validator: Validator | None = None
    internal: bool = False
    distinct: bool = False

    def parse(self, name: str, text: str | None) -> Value:
        """Return the value that `text` stands for, after the validator has checked it. text: None for a configuration
        without a value; the result is then None, if the validator allows that. name: the configuration's, for errors.
        Raises InvalidConfig."""
        value = None if text is None else parse_value(name, text, self.type)
        if self.distinct and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            self.validator(name, value)
        return value


def parse_value(name: str, text: str, kind: Type) -> Value:
    """Return `text`, without the white space around it, as a value of the type `kind`. Raises InvalidConfig."""
    word = java_trim(text)
    match kind:
        case Type.BOOLEAN:
            if word.lower() not in ("true", "false"):
                raise invalid(name, text, "Expected value to be either true or false")
            return word.lower() == "true"
        case Type.STRING:
            return word
        case Type.LIST:
            return tuple(comma_list(word)) if word else ()
        case Type.DOUBLE:
            double = java_double(word)
            if double is None:
                raise invalid(name, text, "Not a number of type DOUBLE")
            return double
    number = java_integer(word, 32 if kind is Type.INT else 64)
    if number is None:
        raise invalid(name, text, f"Not a number of type {kind}")
    return number


KEY_SCHEMAS, VALUE_SCHEMAS = "confluent.key.schema.validation", "confluent.value.schema.validation"
SCHEMA_CONFIGS = (KEY_SCHEMAS, VALUE_SCHEMAS)
"""Configurations of Confluent Server, which only a broker with a schema registry implements. Kafka passes them over in
the metadata log."""

TOPIC_CONFIGS: Mapping[str, ConfigKey] = {
    "cleanup.policy": ConfigKey(Type.LIST, ("delete",), list_of("compact", "delete"), distinct=True),
    "compression.gzip.level": ConfigKey(Type.INT, -1, gzip_level),
    "compression.lz4.level": ConfigKey(Type.INT, 9, between(1, 17)),
    "compression.type": ConfigKey(
        Type.STRING, "producer", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
    ),
    "compression.zstd.level": ConfigKey(Type.INT, 3, between(-131072, 22)),
    KEY_SCHEMAS: ConfigKey(Type.BOOLEAN, default=False, internal=True),
    VALUE_SCHEMAS: ConfigKey(Type.BOOLEAN, default=False, internal=True),
    "delete.retention.ms": ConfigKey(Type.LONG, 86_400_000, at_least(0)),
    "file.delete.delay.ms": ConfigKey(Type.LONG, 60_000, at_least(0)),
    "flush.messages": ConfigKey(Type.LONG, LONG_MAX, at_least(1)),
    "flush.ms": ConfigKey(Type.LONG, LONG_MAX, at_least(0)),
    "follower.replication.throttled.replicas": ConfigKey(Type.LIST, (), throttled_replicas),
    "index.interval.bytes": ConfigKey(Type.INT, 4096, at_least(0)),
    "internal.segment.bytes": ConfigKey(Type.INT, None, internal=True),
    "leader.replication.throttled.replicas": ConfigKey(Type.LIST, (), throttled_replicas),
    "local.retention.bytes": ConfigKey(Type.LONG, -2, at_least(-2)),
    "local.retention.ms": ConfigKey(Type.LONG, -2, at_least(-2)),
    "max.compaction.lag.ms": ConfigKey(Type.LONG, LONG_MAX, at_least(1)),
    "max.message.bytes": ConfigKey(Type.INT, 1_048_588, at_least(0)),
    "message.timestamp.after.max.ms": ConfigKey(Type.LONG, 3_600_000, at_least(0)),
    "message.timestamp.before.max.ms": ConfigKey(Type.LONG, LONG_MAX, at_least(0)),
    "message.timestamp.type": ConfigKey(Type.STRING, "CreateTime", one_of("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": ConfigKey(Type.DOUBLE, 0.5, between(0, 1)),
    "min.compaction.lag.ms": ConfigKey(Type.LONG, 0, at_least(0)),
    "min.insync.replicas": ConfigKey(Type.INT, 1, at_least(1)),
    "preallocate": ConfigKey(Type.BOOLEAN, default=False),
    "remote.log.copy.disable": ConfigKey(Type.BOOLEAN, default=False),
    "remote.log.delete.on.disable": ConfigKey(Type.BOOLEAN, default=False),
    "remote.storage.enable": ConfigKey(Type.BOOLEAN, default=False),
    "retention.bytes": ConfigKey(Type.LONG, -1),
    "retention.ms": ConfigKey(Type.LONG, 604_800_000, at_least(-1)),
    "segment.bytes": ConfigKey(Type.INT, 1 << 30, at_least(1 << 20)),
    "segment.index.bytes": ConfigKey(Type.INT, 10 << 20, at_least(4)),
    "segment.jitter.ms": ConfigKey(Type.LONG, 0, at_least(0)),
    "segment.ms": ConfigKey(Type.LONG, 604_800_000, at_least(1)),
    "unclean.leader.election.enable": ConfigKey(Type.BOOLEAN, default=False),
}

# The names that each topic configuration has in a broker's properties; the first one that is set counts. The factor
# converts the broker's unit to the topic's: log.retention.hours is in hours, retention.ms in ms.
SYNONYMS: Mapping[str, Sequence[tuple[str, int]]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}


def parse_topic_configs(texts: Mapping[str, str]) -> dict[str, Value]:
    """Return the value of every topic configuration: from `texts`, else Kafka's default. Raises InvalidConfig for an
    invalid value or an unknown name."""
    for name in texts:
        if name not in TOPIC_CONFIGS:
            raise _unknown(name)
    return {name: key.parse(name, texts[name]) if name in texts else key.default for name, key in TOPIC_CONFIGS.items()}


def _unknown(name: str) -> InvalidConfig:
    return InvalidConfig(f"Unknown topic config name: {name}")


def broker_defaults(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the values that a broker's properties set for topic configurations, by the topic configurations' names and
    in their units. Raises InvalidConfig."""
    found: dict[str, str] = {}
    for name, synonyms in SYNONYMS.items():
        for synonym, factor in synonyms:
            if synonym not in properties:
                continue
            found[name] = _in_topic_units(name, synonym, properties[synonym], factor)
            break
    return found


def _in_topic_units(name: str, synonym: str, text: str, factor: int) -> str:
    if factor == 1 and name != "retention.ms":
        return text
    number = parse_value(synonym, text, Type.LONG if factor == 1 else Type.INT)
    assert isinstance(number, int), "INT and LONG are numbers"
    return "-1" if name == "retention.ms" and number < 0 else str(number * factor)


def validate_lags(values: Mapping[str, Value]) -> None:
    """Check that min.compaction.lag.ms is not above max.compaction.lag.ms. Raises InvalidConfig."""
    least, most = _int(values, "min.compaction.lag.ms"), _int(values, "max.compaction.lag.ms")
    if least > most:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )


def validate_topic_configs(
    texts: Mapping[str, str],
    *,
    existing: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    remote_storage: bool = False,
    schemas: bool = False,
) -> dict[str, Value]:
    """Validate `texts`, a topic's new configurations by name, as a controller does before it writes them. existing: the
    topic's present configurations; defaults: what the broker's properties set, see `broker_defaults`; remote_storage:
    whether the cluster has tiered storage; schemas: whether brokers check the schema ids of records. Returns the value
    of every topic configuration. Raises InvalidConfig."""
    if not schemas:
        for name in SCHEMA_CONFIGS:
            if name in texts and name not in (existing or {}):
                raise _unknown(name)
    values = parse_topic_configs({**(defaults or {}), **texts})
    validate_lags(values)
    if values["remote.storage.enable"]:
        _validate_remote(values, remote_storage=remote_storage)
    elif (existing or {}).get("remote.storage.enable", "false").lower() == "true" and not values[
        "remote.log.delete.on.disable"
    ]:
        raise InvalidConfig(
            "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data "
            "and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want "
            "to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )
    return values


def _validate_remote(values: Mapping[str, Value], *, remote_storage: bool) -> None:
    if not remote_storage:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if values["cleanup.policy"] not in ((), ("delete",)):
        raise InvalidConfig(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    for unit in ("bytes", "ms"):
        whole, local = f"retention.{unit}", f"local.retention.{unit}"
        limit, local_limit = _int(values, whole), _int(values, local)
        if (limit > -1 if unit == "bytes" else limit != -1) and local_limit != -2:
            if local_limit == -1:
                raise invalid(local, local_limit, f"Value must not be -1 as {whole} value is set as {limit}.")
            if local_limit > limit:
                raise invalid(local, local_limit, f"Value must not be more than {whole} property value: {limit}")
    for unit in ("bytes", "ms"):
        limit, local_limit = _int(values, f"retention.{unit}"), _int(values, f"local.retention.{unit}")
        if values["remote.log.copy.disable"] and local_limit not in (-2, limit):
            raise InvalidConfig(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` "
                "must be set to the identical value because there will be no more logs copied to the remote storage."
            )


def _int(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), f"{name} is a number"
    return value


class LogConfig:
    """The configuration that a log runs with. Times are milliseconds, sizes bytes."""

    def __init__(self, topic: Mapping[str, str] | None = None, broker: Mapping[str, str] | None = None) -> None:
        """topic: the topic's own configuration; broker: properties of the broker. Raises InvalidConfig."""
        self.values = parse_topic_configs({**broker_defaults(broker or {}), **(topic or {})})

    def _int(self, name: str) -> int:
        return _int(self.values, name)

    @property
    def segment_bytes(self) -> int:
        """The largest size of a segment, whether appended to or rewritten by the cleaner."""
        internal = self.values["internal.segment.bytes"]
        return internal if isinstance(internal, int) else self._int("segment.bytes")

    @property
    def segment_ms(self) -> int:
        """The age at which a segment is rolled."""
        return self._int("segment.ms")

    @property
    def segment_jitter_ms(self) -> int:
        """The largest random time by which a segment is rolled before segment.ms."""
        return self._int("segment.jitter.ms")

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled at the latest: segment.ms; on a compacted log max.compaction.lag.ms, if
        that is less."""
        lag = self._int("max.compaction.lag.ms")
        return min(lag, self.segment_ms) if self.compact and lag > 0 else self.segment_ms

    @property
    def max_index_bytes(self) -> int:
        """The largest size of an offset index or a time index."""
        return self._int("segment.index.bytes")

    @property
    def index_interval_bytes(self) -> int:
        """The number of bytes of the log after which an index gets its next entry."""
        return self._int("index.interval.bytes")

    @property
    def max_message_bytes(self) -> int:
        """The largest size of a batch."""
        return self._int("max.message.bytes")

    @property
    def flush_messages(self) -> int:
        """The number of records that are not flushed at which the log is flushed."""
        return self._int("flush.messages")

    @property
    def flush_ms(self) -> int:
        """The time since the last flush after which the log is flushed."""
        return self._int("flush.ms")

    @property
    def retention_bytes(self) -> int:
        """The size above which retention deletes segments; -1: no limit."""
        return self._int("retention.bytes")

    @property
    def retention_ms(self) -> int:
        """The age above which retention deletes segments; -1: no limit."""
        return self._int("retention.ms")

    @property
    def local_retention_bytes(self) -> int:
        """With tiered storage, the size above which retention deletes local segments; -1: no limit."""
        local = self._int("local.retention.bytes")
        return self.retention_bytes if local == AS_RETENTION else local

    @property
    def local_retention_ms(self) -> int:
        """With tiered storage, the age above which retention deletes local segments; -1: no limit."""
        local = self._int("local.retention.ms")
        return self.retention_ms if local == AS_RETENTION else local

    @property
    def file_delete_delay_ms(self) -> int:
        """The time after which `.deleted` files are removed."""
        return self._int("file.delete.delay.ms")

    @property
    def delete_retention_ms(self) -> int:
        """The time for which the cleaner keeps tombstones, and the markers of transactions whose records it has all
        removed."""
        return self._int("delete.retention.ms")

    @property
    def min_compaction_lag_ms(self) -> int:
        """The age below which the cleaner does not clean a record."""
        return self._int("min.compaction.lag.ms")

    @property
    def max_compaction_lag_ms(self) -> int:
        """The age at which a record is cleaned, whatever the dirty ratio."""
        return self._int("max.compaction.lag.ms")

    @property
    def min_cleanable_dirty_ratio(self) -> float:
        """The dirty ratio above which the log is cleaned."""
        value = self.values["min.cleanable.dirty.ratio"]
        assert isinstance(value, float), "a DOUBLE"
        return value

    @property
    def _policy(self) -> tuple[str, ...]:
        value = self.values["cleanup.policy"]
        assert isinstance(value, tuple), "a LIST"
        return value

    @property
    def compact(self) -> bool:
        """Whether cleanup.policy has `compact`."""
        return "compact" in self._policy

    @property
    def delete(self) -> bool:
        """Whether cleanup.policy has `delete`."""
        return "delete" in self._policy

    @property
    def only_compact(self) -> bool:
        """Whether cleanup.policy has `compact` alone: neither retention nor DeleteRecords deletes records."""
        return self.compact and not self.delete

    @property
    def compression_type(self) -> str:
        """`producer` (batches keep the producer's codec), or the codec with which the broker compresses."""
        return str(self.values["compression.type"])

    @property
    def compression_level(self) -> int | None:
        """The compression level for `compression_type`; None if that is a codec without levels, or `producer`."""
        name = f"compression.{self.compression_type}.level"
        return self._int(name) if name in self.values else None

    @property
    def message_timestamp_type(self) -> str:
        """message.timestamp.type: CreateTime or LogAppendTime."""
        return str(self.values["message.timestamp.type"])

    @property
    def message_timestamp_before_max_ms(self) -> int:
        """The largest time by which a record's timestamp may lie before the broker's clock."""
        return self._int("message.timestamp.before.max.ms")

    @property
    def message_timestamp_after_max_ms(self) -> int:
        """The largest time by which a record's timestamp may lie after the broker's clock."""
        return self._int("message.timestamp.after.max.ms")

    @property
    def preallocated_bytes(self) -> int:
        """The size with which new segments are created: segment.bytes with preallocate=true, else 0."""
        return self.segment_bytes if self.values["preallocate"] else 0

    @property
    def min_insync_replicas(self) -> int:
        """The smallest ISR with which a Produce with acks=all succeeds."""
        return self._int("min.insync.replicas")

    @property
    def key_schemas(self) -> bool:
        """Whether a record's key must have the id of a schema that is registered for the topic's keys."""
        return bool(self.values[KEY_SCHEMAS])

    @property
    def value_schemas(self) -> bool:
        """Whether a record's value must have the id of a schema that is registered for the topic's values."""
        return bool(self.values[VALUE_SCHEMAS])

    @property
    def remote_storage(self) -> bool:
        """Whether the topic's tiered storage is on."""
        return bool(self.values["remote.storage.enable"])

    @property
    def remote_copy(self) -> bool:
        """Whether segments are copied to tiered storage: remote.log.copy.disable is false."""
        return not self.values["remote.log.copy.disable"]

    @property
    def remote_delete_on_disable(self) -> bool:
        """Whether the topic's segments in tiered storage are deleted when tiered storage is switched off for it."""
        return bool(self.values["remote.log.delete.on.disable"])


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The broker's configuration of its log cleaner (CLEANER_CONFIGS). dedupe_buffer_bytes: the memory for the offset
    maps of all threads. dedupe_load_factor: the part of a map's slots that may be filled."""

    threads: int = 1
    dedupe_buffer_bytes: int = 128 << 20
    dedupe_load_factor: float = 0.9
    producer_expiration_ms: int = 86_400_000

    @property
    def map_bytes(self) -> int:
        """The size of one cleaner thread's offset map, in bytes."""
        return min(self.dedupe_buffer_bytes // max(self.threads, 1), INT_MAX)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> CleanerConfig:
        """Return the cleaner's configuration from a broker's properties. Raises InvalidConfig."""

        def value(name: str, key: ConfigKey) -> Value:
            return key.parse(name, properties[name]) if name in properties else key.default

        found = [value(name, key) for name, key in CLEANER_CONFIGS.items()]
        threads, buffer_bytes, load_factor, expiration = found
        assert isinstance(threads, int), "an INT"
        assert isinstance(buffer_bytes, int), "a LONG"
        assert isinstance(load_factor, float), "a DOUBLE"
        assert isinstance(expiration, int), "an INT"
        config = cls(threads, buffer_bytes, load_factor, expiration)
        if int(config.map_bytes // 24 * load_factor) < 1:
            raise InvalidConfig(
                f"log.cleaner.dedupe.buffer.size of {buffer_bytes:,} bytes leaves no room for a single key: raise it"
            )
        return config


CLEANER_CONFIGS: Mapping[str, ConfigKey] = {
    "log.cleaner.threads": ConfigKey(Type.INT, 1, at_least(0)),
    "log.cleaner.dedupe.buffer.size": ConfigKey(Type.LONG, 128 << 20),
    "log.cleaner.io.buffer.load.factor": ConfigKey(Type.DOUBLE, 0.9),
    "producer.id.expiration.ms": ConfigKey(Type.INT, 86_400_000, at_least(1)),
}

BROKER_NAMES = frozenset(CLEANER_CONFIGS) | {name for synonyms in SYNONYMS.values() for name, _ in synonyms}
