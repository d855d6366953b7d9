"""The validation of dynamic configurations of brokers. The rules are about

    each changed configuration    the name is dynamic; a security configuration has the prefix of a listener; the value
                                  has the right type, and no variable of a provider; a change for all brokers names no
                                  configuration that only a single broker can have
    all configurations together   the rules of checks.py; this broker implements each changed configuration, see
                                  served.py
    the change of current values  a number of threads is at least half and at most double the current one;
                                  log.local.retention.* is at most log.retention.*; metric.reporters can only be
                                  emptied; listeners cannot be changed

A name that Kafka does not define is accepted, as it may be a plugin's. Source: DynamicBrokerConfig,
DynamicConfig.Broker, DynamicThreadPool, DynamicLogConfig, DynamicRemoteLogConfig, LogCleaner.validateReconfiguration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.broker.config.dynamic_names import (
    NOT_DYNAMIC,
    ONLY_PER_BROKER,
    ONLY_PER_LISTENER,
    not_dynamic,
    of_one_broker,
    validate_types,
    without_listener,
)
from kcli.broker.config.served import check_change
from kcli.log.config import InvalidConfig, invalid
from kcli.log.config_providers import has_variable

if TYPE_CHECKING:
    from kcli.broker.config.broker_config import BrokerConfig

NOT_RESOLVED = "Providers are asked for values of server.properties alone, not for those of these configs"
THREADS = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)


def validate_dynamic(config: BrokerConfig, properties: Mapping[str, str], *, per_broker: bool) -> None:
    """Check the new dynamic configurations (properties) of this broker (`per_broker`), or of all brokers. config: the
    broker's current configuration. Raises InvalidConfig."""
    _refuse(not_dynamic(properties), NOT_DYNAMIC)
    _refuse([name for name, text in properties.items() if has_variable(text)], NOT_RESOLVED)
    _refuse(without_listener(properties), ONLY_PER_LISTENER)
    validate_types(properties)
    if not per_broker:
        _refuse(of_one_broker(properties), ONLY_PER_BROKER)
    layers = (config.cluster, properties) if per_broker else (properties, config.broker)
    new = config.changed(*layers)
    if new.properties == config.properties:
        return
    try:
        _validate_change(config, new)
    except InvalidConfig as reason:
        exception = f"org.apache.kafka.common.config.ConfigException: {reason}"
        raise InvalidConfig(f"Invalid value {exception} for configuration Invalid dynamic configuration") from None
    check_change(new, properties)


def _refuse(names: list[str], reason: str) -> None:
    if names:
        raise InvalidConfig(f"{reason}: [{', '.join(names)}]")


def _validate_change(old: BrokerConfig, new: BrokerConfig) -> None:
    if new.words("metric.reporters") not in (old.words("metric.reporters"), ()):
        raise InvalidConfig(
            "Validation of dynamic config update of Set(metric.reporters) failed with class class "
            "kafka.server.DynamicMetricsReporters"
        )
    for name in THREADS:
        _validate_threads(name, old.number(name), new.number(name))
    now, then = old.log_cleaner_threads, new.log_cleaner_threads
    if then < now // 2:
        raise InvalidConfig(f"Log cleaner threads cannot be reduced to less than half the current value {now}")
    if then > now * 2:
        raise InvalidConfig(f"Log cleaner threads cannot be increased to more than double the current value {now}")
    _validate_local_retention("ms", new.log_retention_time_ms, new.number("log.local.retention.ms"))
    _validate_local_retention("bytes", new.number("log.retention.bytes"), new.number("log.local.retention.bytes"))
    if new.listeners != old.listeners:
        raise InvalidConfig("The listeners of this broker cannot be changed while it runs")


def _validate_threads(name: str, now: int, then: int) -> None:
    failed = f"Dynamic thread count update validation failed for {name}={then}"
    if then < now // 2:
        raise InvalidConfig(f"{failed}, value should be at least half the current value {now}")
    if then > now * 2:
        raise InvalidConfig(f"{failed}, value should not be greater than double the current value {now}")


def _validate_local_retention(unit: str, kept: int, kept_here: int) -> None:
    name, whole = f"log.local.retention.{unit}", f"log.retention.{unit}"
    if kept <= -1 or kept_here == -2:
        return
    if kept_here == -1:
        raise invalid(name, kept_here, f"Value must not be -1 as {whole} value is set as {kept}.")
    if kept_here > kept:
        raise invalid(name, kept_here, f"Value must not be more than {whole} property value: {kept}")
