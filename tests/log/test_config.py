"""Topic configuration: Kafka's names, defaults, limits and words."""

from __future__ import annotations

import json

import pytest

from kcli.log.config import (
    SYNONYMS,
    TOPIC_CONFIGS,
    CleanerConfig,
    InvalidConfig,
    LogConfig,
    Type,
    parse_value,
    validate_topic_configs,
)
from tests.conftest import GOLDEN

REFUSED = {
    (
        "segment.bytes",
        "1048575",
    ): "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576",
    ("segment.bytes", "1e6"): "Invalid value 1e6 for configuration segment.bytes: Not a number of type INT",
    ("segment.bytes", "2147483648"): (
        "Invalid value 2147483648 for configuration segment.bytes: Not a number of type INT"
    ),
    ("retention.ms", "-2"): "Invalid value -2 for configuration retention.ms: Value must be at least -1",
    ("retention.ms", "soon"): "Invalid value soon for configuration retention.ms: Not a number of type LONG",
    ("min.cleanable.dirty.ratio", "1.5"): (
        "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"
    ),
    ("min.cleanable.dirty.ratio", "half"): (
        "Invalid value half for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"
    ),
    ("preallocate", "yes"): (
        "Invalid value yes for configuration preallocate: Expected value to be either true or false"
    ),
    ("cleanup.policy", "compact,gone"): (
        "Invalid value gone for configuration cleanup.policy: String must be one of: compact, delete"
    ),
    ("cleanup.policy", "delete,"): "Configuration 'cleanup.policy' values must not be empty.",
    ("compression.type", "brotli"): (
        "Invalid value brotli for configuration compression.type: "
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"
    ),
    ("compression.gzip.level", "0"): (
        "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"
    ),
    ("compression.lz4.level", "18"): (
        "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17"
    ),
    ("leader.replication.throttled.replicas", "1:a"): (
        "Invalid value [1:a] for configuration leader.replication.throttled.replicas: "
        "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    ),
    ("colour", "red"): "Unknown topic config name: colour",
}


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_words_are_kafkas(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        validate_topic_configs({name: value})
    assert str(refused.value) == REFUSED[name, value]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Type.INT, " +7 ", 7),
        (Type.LONG, "-9223372036854775808", -(2**63)),
        (Type.DOUBLE, "5e-1f", 0.5),
        (Type.DOUBLE, ".5", 0.5),
        (Type.BOOLEAN, " TRUE", True),
        (Type.LIST, " compact , delete ", ("compact", "delete")),
        (Type.LIST, "  ", ()),
        (Type.STRING, " gzip ", "gzip"),
    ],
)
def test_values_are_read_as_java_reads_them(kind: Type, text: str, value: object) -> None:
    assert parse_value("x", text, kind) == value


def test_lags_must_not_contradict_each_other() -> None:
    with pytest.raises(InvalidConfig, match=r"conflict topic config setting min.compaction.lag.ms \(6\) > max"):
        validate_topic_configs({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


def test_tiered_storage() -> None:
    remote = {"remote.storage.enable": "true"}
    with pytest.raises(InvalidConfig, match="Tiered Storage functionality is disabled"):
        validate_topic_configs(remote)
    with pytest.raises(InvalidConfig, match=r"only supports topics with cleanup.policy=delete"):
        validate_topic_configs({**remote, "cleanup.policy": "compact"}, remote_storage=True)
    with pytest.raises(InvalidConfig, match=r"Value must not be more than retention.ms property value: 5"):
        validate_topic_configs({**remote, "retention.ms": "5", "local.retention.ms": "6"}, remote_storage=True)
    with pytest.raises(InvalidConfig, match=r"Value must not be -1 as retention.bytes value is set as 5"):
        validate_topic_configs({**remote, "retention.bytes": "5", "local.retention.bytes": "-1"}, remote_storage=True)
    copied = {"remote.log.copy.disable": "true", "retention.ms": "9", "local.retention.ms": "6"}
    with pytest.raises(InvalidConfig, match=r"When `remote.log.copy.disable` is set to true, the `local.retention.ms`"):
        validate_topic_configs({**remote, **copied}, remote_storage=True)
    with pytest.raises(InvalidConfig, match="invalid to disable remote storage without deleting"):
        validate_topic_configs({}, existing=remote)
    assert validate_topic_configs({"remote.log.delete.on.disable": "true"}, existing=remote)
    assert validate_topic_configs(remote, remote_storage=True)["remote.storage.enable"] is True


def test_a_topics_own_value_comes_before_the_brokers_and_kafkas() -> None:
    broker = {"log.retention.hours": "2", "log.roll.ms": "3", "log.roll.hours": "4", "log.cleanup.policy": "compact"}
    config = LogConfig({"segment.ms": "5"}, broker)
    assert config.retention_ms == 2 * 3_600_000
    assert config.segment_ms == 5
    assert LogConfig({}, broker).segment_ms == 3
    assert config.compact
    assert not config.delete
    assert config.index_interval_bytes == 4096
    assert LogConfig({}, {"log.retention.minutes": "-7"}).retention_ms == -1


def test_segment_size_and_age() -> None:
    assert LogConfig({"internal.segment.bytes": "9000"}).segment_bytes == 9000
    assert LogConfig().segment_bytes == 1 << 30
    compacted = {"cleanup.policy": "compact", "max.compaction.lag.ms": "7"}
    assert LogConfig(compacted).max_segment_ms == 7
    assert LogConfig({"max.compaction.lag.ms": "7"}).max_segment_ms == LogConfig().segment_ms
    assert LogConfig({"compression.type": "gzip", "compression.gzip.level": "3"}).compression_level == 3
    assert LogConfig({"compression.type": "snappy"}).compression_level is None


def test_every_default_is_valid_and_every_synonym_known() -> None:
    validate_topic_configs({})
    for name, key in TOPIC_CONFIGS.items():
        if key.validator is not None:
            key.validator(name, key.default)
    assert set(SYNONYMS) < set(TOPIC_CONFIGS)


def test_configurations_of_golden_topics_are_valid() -> None:
    params = json.loads((GOLDEN / "compact/expected/params.json").read_text())
    for configs in params["topics"].values():
        validate_topic_configs({name: str(value) for name, value in configs.items()})


def test_the_cleaners_memory_is_shared_by_its_threads() -> None:
    config = CleanerConfig.of({"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "4800"})
    assert config.map_bytes == 2400
    assert CleanerConfig.of({}).map_bytes == 128 << 20
    with pytest.raises(InvalidConfig, match="no room for a single key"):
        CleanerConfig.of({"log.cleaner.dedupe.buffer.size": "20"})
    with pytest.raises(InvalidConfig, match="Value must be at least 1"):
        CleanerConfig.of({"producer.id.expiration.ms": "0"})
