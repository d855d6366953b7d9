"""What a broker's configuration says about tiered storage: values, what is refused, and what is read."""

from __future__ import annotations

import dataclasses

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.config.served import CannotServe, check_served, check_topics, unserved
from kcli.broker.config.tier_keys import LOCAL_TIERED_STORAGE, METADATA_KEYS, OBJECT_STORAGE, STORAGE_KEYS, TOPIC_BASED
from kcli.broker.tiering.config import MetadataConfig, StoreConfig, TierQuota, tier_config
from kcli.metadata.image import MetadataImage
from tests.broker.config.test_served import NODE

CLASS = "remote.log.storage.manager.class.name"
LOCAL = NODE | {"remote.log.storage.system.enable": "true", CLASS: LOCAL_TIERED_STORAGE, "rsm.config.dir": "/tier"}
BUCKET = NODE | {"remote.log.storage.system.enable": "true", CLASS: OBJECT_STORAGE, "rsm.config.url": "s3://b/p"}
LONG_MAX = 2**63 - 1


def test_defaults_are_kafkas() -> None:
    config = tier_config(BrokerConfig(LOCAL))
    assert config is not None
    assert config.store == StoreConfig(address="/tier/kafka-tiered-storage", is_local=True)
    assert config.metadata == MetadataConfig(
        partitions=50,
        replication_factor=3,
        min_isr=2,
        retention_ms=-1,
        consume_wait_ms=120_000,
        init_retry_ms_max=120_000,
        init_retry_interval_ms=100,
    )
    assert config.copy_quota == config.fetch_quota == TierQuota(bytes_per_s=LONG_MAX, window_num=11, window_s=1)
    numbers = {
        "copier_threads": 10,
        "expiration_threads": 10,
        "task_interval_ms": 30_000,
        "retry_backoff_ms": 500,
        "retry_backoff_ms_max": 30_000,
        "retry_jitter": 0.2,
    }
    found = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
    assert {name: value for name, value in found.items() if name in numbers} == numbers
    assert found.keys() - numbers.keys() == {"store", "metadata", "copy_quota", "fetch_quota"}


@pytest.mark.parametrize("config", [NODE, LOCAL | {"process.roles": "controller"}])
def test_a_node_without_tiered_storage(config: dict[str, str]) -> None:
    roles = {"listeners": "CONTROLLER://:9093"} if config["process.roles"] == "controller" else {}
    assert tier_config(BrokerConfig(config | roles)) is None


def changed(name: str) -> str:
    """A value that is not the default."""
    if name == "remote.log.manager.task.retry.jitter":
        return "0.25"
    return "true" if name.endswith(".enable") else "7"


@pytest.mark.parametrize(
    "name",
    [
        *(f"rlmm.config.{name}" for name in METADATA_KEYS),
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.copy.quota.window.num",
        "remote.log.manager.copy.quota.window.size.seconds",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.fetch.quota.window.num",
        "remote.log.manager.fetch.quota.window.size.seconds",
        "remote.log.manager.task.interval.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "rsm.config.delete.enable",
        "rsm.config.delete.on.close",
    ],
)
def test_each_configuration_changes_one_value(name: str) -> None:
    value = "false" if name == "rsm.config.delete.enable" else "true" if name.endswith("close") else changed(name)
    config = BrokerConfig(LOCAL | {name: value})
    assert unserved(config) is None
    before, after = tier_config(BrokerConfig(LOCAL)), tier_config(config)
    assert before is not None
    assert after is not None

    def leaves(value: object) -> list[object]:
        if not dataclasses.is_dataclass(value):
            return [value]
        return [leaf for each in dataclasses.fields(value) for leaf in leaves(getattr(value, each.name))]

    differing = [then for now, then in zip(leaves(before), leaves(after), strict=True) if now != then]
    assert len(differing) == 1
    assert str(differing[0]).lower() == value


@pytest.mark.parametrize(
    ("url", "address", "is_local"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix", False),
        ("gs://bucket", "gs://bucket", False),
        ("abfs://c@account.dfs.core.windows.net/p", "abfs://c@account.dfs.core.windows.net/p", False),
        ("/tier", "/tier", True),
        ("file:///tier", "file:///tier", True),
    ],
)
def test_the_store(url: str, address: str, is_local: bool) -> None:
    config = BrokerConfig(BUCKET | {"rsm.config.url": url})
    assert unserved(config) is None
    found = tier_config(config)
    assert found is not None
    assert found.store == StoreConfig(address=address, is_local=is_local)


def test_other_prefixes() -> None:
    own = {
        "remote.log.storage.manager.impl.prefix": "our.store.",
        "remote.log.metadata.manager.impl.prefix": "our.topic.",
        "our.store.dir": "/other",
        "our.topic.remote.log.metadata.topic.num.partitions": "3",
    }
    config = BrokerConfig(LOCAL | own)
    found = tier_config(config)
    assert found is not None
    assert (found.store.address, found.metadata.partitions) == ("/other/kafka-tiered-storage", 3)
    assert config.warnings == []
    assert BrokerConfig(LOCAL | {"our.topic.x": "1"}).warnings == ["our.topic.x: no configuration of Kafka 4.3"]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (NODE | {"remote.log.storage.system.enable": "true"}, f"{CLASS}: this broker has "),
        (LOCAL | {CLASS: "acme.Storage"}, f"{CLASS}=acme.Storage: this broker has {LOCAL_TIERED_STORAGE} or "),
        (
            LOCAL | {"remote.log.metadata.manager.class.name": "acme.Metadata"},
            f"remote.log.metadata.manager.class.name=acme.Metadata: this broker has {TOPIC_BASED} alone",
        ),
        (LOCAL | {"rsm.config.transferer.class": "acme.T"}, "rsm.config.transferer.class: the class has no such "),
        (LOCAL | {"rsm.config.url": "s3://b"}, "rsm.config.url: the class has no such configuration here, but "),
        (BUCKET | {"rsm.config.dir": "/tier"}, "rsm.config.dir: the class has no such configuration here, but url"),
        (BUCKET | {"rsm.config.url": "ftp://b"}, "rsm.config.url: 'ftp' is no kind of store"),
        (BUCKET | {"rsm.config.url": "s3://user:secret@b"}, "rsm.config.url: a URL is s3://bucket/prefix"),
        ({k: v for k, v in BUCKET.items() if k != "rsm.config.url"}, "rsm.config.url: is not set"),
        ({k: v for k, v in LOCAL.items() if k != "rsm.config.dir"}, "rsm.config.dir: is not set"),
        (LOCAL | {"rlmm.config.acme": "1"}, "rlmm.config.acme: the class has no such configuration"),
        (
            LOCAL | {"rlmm.config.remote.log.metadata.topic.num.partitions": "0"},
            "Invalid value 0 for configuration rlmm.config.remote.log.metadata.topic.num.partitions: Value must be at",
        ),
        (
            LOCAL | {"rlmm.config.remote.log.metadata.topic.retention.ms": "0"},
            "Invalid value 0 for configuration rlmm.config.remote.log.metadata.topic.retention.ms: Value must be -1 or",
        ),
        (
            LOCAL | {"rlmm.config.remote.log.metadata.common.client.bootstrap.servers": "x:1"},
            "rlmm.config.remote.log.metadata.common.client.bootstrap.servers: the metadata topic is reached by ",
        ),
        (
            LOCAL | {"remote.log.metadata.manager.listener.name": "INTERNAL"},
            "Invalid value INTERNAL for configuration remote.log.metadata.manager.listener.name: Should be set as",
        ),
    ],
)
def test_what_is_refused(config: dict[str, str], reason: str) -> None:
    with pytest.raises(CannotServe) as refused:
        check_served(BrokerConfig(config))
    assert str(refused.value).startswith(reason)
    assert "secret" not in str(refused.value)


def test_kafkas_own_settings_are_served() -> None:
    more = {
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.storage.manager.class.path": "/opt/kafka/storage.jar",
        "remote.log.metadata.manager.class.name": TOPIC_BASED,
    }
    assert unserved(BrokerConfig(LOCAL | more)) is None
    assert set(STORAGE_KEYS) == {LOCAL_TIERED_STORAGE, OBJECT_STORAGE}


def test_tiered_topics_need_the_system() -> None:
    image = MetadataImage()
    tiered = {"resourceType": 2, "resourceName": "t", "name": "remote.storage.enable", "value": "true"}
    image.apply("ConfigRecord", tiered, 1)
    check_topics(BrokerConfig(LOCAL), image)
    check_topics(BrokerConfig(NODE | {"process.roles": "controller", "listeners": "CONTROLLER://:9093"}), image)
    with pytest.raises(CannotServe, match=r"You have to delete all topics with .* remote\.storage\.enable=true"):
        check_topics(BrokerConfig(NODE), image)
