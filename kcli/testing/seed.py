"""The seed of a test's broker: topics and their records, from a mapping or a YAML, JSON or TOML file.

    topics:
      orders:                            # the name is enough: one partition, no records
        partitions: 3                    # 1 by default
        config: {cleanup.policy: compact}
        records:
          - plain text                   # a value
          - {key: order-1, value: {id: 1, total: 41.90}}       # a mapping or list is written as JSON
          - {key: order-1, value: null, partition: 2, timestamp_ms: 1763700000000, headers: {trace: abc}}

A record without `partition` goes to the one that Kafka's default partitioner chooses for its key (murmur2), or to 0
if it has no key. Short forms: {"orders": ["a", "b"]} has only records, {"orders": 3} only a count of partitions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kcli.errors import UsageError, needing
from kcli.java.hashing import murmur2

TOPIC_WORDS = {"partitions", "config", "records"}
RECORD_WORDS = {"key", "value", "partition", "timestamp_ms", "headers"}


class BadSeed(UsageError):
    """A malformed seed; the message names the topic or record."""


@dataclass(frozen=True, slots=True)
class SeedRecord:
    """A record to append. key, value: None for null. timestamp_ms: None for the time of the append."""

    key: bytes | None
    value: bytes | None
    partition: int
    timestamp_ms: int | None = None
    headers: Mapping[str, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeedTopic:
    """A topic to create, if it does not exist, and the records to append to it."""

    name: str
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    records: tuple[SeedRecord, ...] = ()


def load(path: Path) -> Any:
    """Return the seed in a file, for `parse`. Raises BadSeed; NotInstalled for YAML without PyYAML."""
    try:
        text = path.read_text("utf-8")
        match path.suffix:
            case ".json":
                return json.loads(text)
            case ".toml":
                import tomllib

                return tomllib.loads(text)
            case ".yaml" | ".yml":
                return _load_yaml(path, text)
    except (OSError, ValueError, RecursionError) as error:
        raise BadSeed(f"{path}: {error}") from None
    raise BadSeed(f"{path}: a seed file is .yaml, .yml, .json or .toml")


def _load_yaml(path: Path, text: str) -> Any:
    with needing("testing"):
        import yaml
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadSeed(f"{path}: {error}") from None


def parse(seed: Any) -> list[SeedTopic]:
    """Return the topics of a seed. The seed is a mapping as in the module's docstring, with or without `topics:` around
    it, or a list of topic names; None for no topics. Raises BadSeed."""
    if isinstance(seed, Mapping) and set(seed) == {"topics"}:
        seed = seed["topics"]
    if seed is None:
        return []
    if isinstance(seed, Sequence) and not isinstance(seed, str | bytes):
        return [_topic(each, None) for each in seed]
    if not isinstance(seed, Mapping):
        raise BadSeed(f"a seed is a mapping of topics, not {seed!r}")
    return [_topic(name, value) for name, value in seed.items()]


def _topic(name: Any, value: Any) -> SeedTopic:
    if not isinstance(name, str):
        raise BadSeed(f"a topic's name is a string, not {name!r}")
    if value is None:
        return SeedTopic(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return SeedTopic(name, _count(name, value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = {"records": value}
    if not isinstance(value, Mapping):
        raise BadSeed(f"topic {name}: a mapping of {_words(TOPIC_WORDS)}, a list of records or a count of partitions")
    if unknown := set(value) - TOPIC_WORDS:
        raise BadSeed(f"topic {name}: {_words(unknown)}: it has {_words(TOPIC_WORDS)}")
    partitions = _count(name, value.get("partitions", 1))
    config = {str(key): _config_text(each) for key, each in (value.get("config") or {}).items()}
    given = value.get("records") or []
    records = tuple(_record(f"topic {name}, record {i}", each, partitions) for i, each in enumerate(given))
    return SeedTopic(name, partitions, config, records)


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadSeed(f"topic {name}: partitions is a count from 1 on, not {value!r}")
    return value


def _record(where: str, record: Any, partitions: int) -> SeedRecord:
    if not isinstance(record, Mapping):
        record = {"value": record}
    elif not set(record) <= RECORD_WORDS:
        raise BadSeed(f"{where}: {_words(set(record) - RECORD_WORDS)}: it has {_words(RECORD_WORDS)}")
    key, value = as_bytes(record.get("key")), as_bytes(record.get("value"))
    partition = record.get("partition")
    if partition is None:
        partition = 0 if key is None else partition_of(key, partitions)
    if not isinstance(partition, int) or not 0 <= partition < partitions:
        raise BadSeed(f"{where}: partition {partition!r} of {partitions}")
    timestamp_ms = record.get("timestamp_ms")
    if timestamp_ms is not None and not (isinstance(timestamp_ms, int) and abs(timestamp_ms) < 2**63):
        raise BadSeed(f"{where}: timestamp_ms is a whole number of 64 bits, not {timestamp_ms!r}")
    if not isinstance(record.get("headers") or {}, Mapping):
        raise BadSeed(f"{where}: headers are a mapping of names, not {record['headers']!r}")
    headers = {str(name): as_bytes(each) for name, each in (record.get("headers") or {}).items()}
    return SeedRecord(key, value, partition, timestamp_ms, headers)


def as_bytes(value: Any) -> bytes | None:
    """Return bytes unchanged, a string in UTF-8, None as null, any other value as JSON. Raises BadSeed."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise BadSeed(f"{value!r} is neither bytes nor text nor JSON: {error}") from None


def _config_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(words: set[Any]) -> str:
    return ", ".join(sorted(map(str, words)))


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's clients choose for a key: murmur2, as in Utils.murmur2 and
    BuiltInPartitioner."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
