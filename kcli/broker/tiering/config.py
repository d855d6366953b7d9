"""The broker's configurations of tiered storage that copies and deletions of segments need, as one value: TierConfig.

`tier_config` makes a new TierConfig after each change of the configuration; only the numbers of threads and the quotas
can change while the broker runs (broker_keys.py). Reads from the tier take all their limits except the quota directly
from BrokerConfig. Source: RemoteLogManagerConfig, TopicBasedRemoteLogMetadataManagerConfig.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.config.tier_keys import LOCAL_TIERED_STORAGE, STORAGE_CLASS, metadata_values, storage_values
from kcli.tier.address import INSIDE, parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.config import BrokerConfig
    from kcli.log.config import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """The store of the tier's objects. address: the path of a directory or the URL of a bucket (kcli.tier.address).
    is_local: whether the store is a directory, which the broker creates. deletes: whether objects are ever deleted
    (delete.enable of LocalTieredStorage, for tests). is_emptied: whether all objects are deleted when the broker stops
    (delete.on.close of LocalTieredStorage)."""

    address: str
    is_local: bool
    deletes: bool = True
    is_emptied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataConfig:
    """The configurations of the topic `__remote_log_metadata` and of its readers. retention_ms: -1 for no limit.
    consume_wait_ms: how long an append waits until this broker has replayed the record. init_retry_interval_ms: the
    time between two attempts to create the topic. init_retry_ms_max: Kafka's limit of these attempts, which kcli does
    not use."""

    partitions: int
    replication_factor: int
    min_isr: int
    retention_ms: int
    consume_wait_ms: int
    init_retry_ms_max: int
    init_retry_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierQuota:
    """A limit of bytes per second, measured over `window_num` samples of `window_s` seconds each."""

    bytes_per_s: int
    window_num: int
    window_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierConfig:
    """The configuration of a broker's tiered storage. retry_jitter: the largest fraction by which a backoff is made
    longer or shorter at random."""

    store: StoreConfig
    metadata: MetadataConfig
    copier_threads: int
    expiration_threads: int
    task_interval_ms: int
    retry_backoff_ms: int
    retry_backoff_ms_max: int
    retry_jitter: float
    copy_quota: TierQuota
    fetch_quota: TierQuota


def tier_config(config: BrokerConfig) -> TierConfig | None:
    """Return the configuration of the broker's tiered storage; None if remote.log.storage.system.enable is false, and
    for a node that is no broker. Raises InvalidConfig; when a node starts, check_served has reported this error
    before."""
    if not (config.remote_log_storage_system_enable and config.is_broker):
        return None
    jitter = config.get("remote.log.manager.task.retry.jitter")
    assert isinstance(jitter, float), "a DOUBLE"
    return TierConfig(
        store=_store(config),
        metadata=_metadata(metadata_values(config)),
        copier_threads=config.number("remote.log.manager.copier.thread.pool.size"),
        expiration_threads=config.number("remote.log.manager.expiration.thread.pool.size"),
        task_interval_ms=config.number("remote.log.manager.task.interval.ms"),
        retry_backoff_ms=config.number("remote.log.manager.task.retry.backoff.ms"),
        retry_backoff_ms_max=config.number("remote.log.manager.task.retry.backoff.max.ms"),
        retry_jitter=jitter,
        copy_quota=TierQuota(
            bytes_per_s=config.number("remote.log.manager.copy.max.bytes.per.second"),
            window_num=config.number("remote.log.manager.copy.quota.window.num"),
            window_s=config.number("remote.log.manager.copy.quota.window.size.seconds"),
        ),
        fetch_quota=TierQuota(
            bytes_per_s=config.number("remote.log.manager.fetch.max.bytes.per.second"),
            window_num=config.number("remote.log.manager.fetch.quota.window.num"),
            window_s=config.number("remote.log.manager.fetch.quota.window.size.seconds"),
        ),
    )


def _store(config: BrokerConfig) -> StoreConfig:
    values = storage_values(config)
    if config.text(STORAGE_CLASS) == LOCAL_TIERED_STORAGE:
        return StoreConfig(
            address=f"{values['dir']}/{INSIDE}",
            is_local=True,
            deletes=values["delete.enable"] is True,
            is_emptied=values["delete.on.close"] is True,
        )
    address = str(values["url"])
    return StoreConfig(address=address, is_local=isinstance(parse_address(address), str))


def _metadata(values: Mapping[str, Value]) -> MetadataConfig:
    def number(name: str) -> int:
        value = values[f"remote.log.metadata.{name}"]
        assert isinstance(value, int), f"{name} is a number"
        return value

    return MetadataConfig(
        partitions=number("topic.num.partitions"),
        replication_factor=number("topic.replication.factor"),
        min_isr=number("topic.min.isr"),
        retention_ms=number("topic.retention.ms"),
        consume_wait_ms=number("consume.wait.ms"),
        init_retry_ms_max=number("initialization.retry.max.timeout.ms"),
        init_retry_interval_ms=number("initialization.retry.interval.ms"),
    )
