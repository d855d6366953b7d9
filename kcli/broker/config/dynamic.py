"""Which configurations of brokers can be changed while they run, and to what.

    checked at every change       the name is dynamic, not a security one without its listener, of the right type; at
                                  the level of all brokers not one that each broker has its own of
    then with all the others      the rules of checks.py; nothing that this broker does not honour, see served.py
    then against what is now      threads at most doubled or halved, cleaner threads, local retention, reporters

A name that Kafka does not know is taken: it may be a plugin's. Source: DynamicBrokerConfig, DynamicConfig.Broker,
DynamicThreadPool, DynamicLogConfig, DynamicRemoteLogConfig, LogCleaner.validateReconfiguration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.broker.config.broker_keys import BROKER_KEYS, DYNAMIC_KEYS
from kcli.broker.config.keys import PER_BROKER
from kcli.broker.config.names import listener_config
from kcli.broker.config.served import check_change
from kcli.log.config import InvalidConfig, invalid

if TYPE_CHECKING:
    from kcli.broker.config.broker_config import BrokerConfig

NOT_DYNAMIC = "Cannot update these configs dynamically"
ONLY_PER_LISTENER = "These security configs can be dynamically updated only per-listener using the listener prefix"
ONLY_PER_BROKER = "Cannot update these configs at default cluster level, broker id must be specified"

# Of SslConfigs: for one listener only.
SECURITY_CONFIGS = frozenset(
    (
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)
# Set for one listener, still the same for all brokers.
CLUSTER_LEVEL = frozenset(("max.connections", "max.connection.creation.rate", "num.network.threads"))

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
    """Could these be the dynamic configurations of this broker, or of all brokers? Raises InvalidConfig if not."""
    _refuse(_not_dynamic(properties), NOT_DYNAMIC)
    _refuse(_without_listener(properties), ONLY_PER_LISTENER)
    validate_types(properties)
    if not per_broker:
        _refuse(_of_one_broker(properties), ONLY_PER_BROKER)
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


def applicable(properties: Mapping[str, str], problems: list[str], *, per_broker: bool) -> dict[str, str]:
    """Those of the stored configurations that can be used; what is wrong with the others is added to `problems`."""
    left = dict(properties)
    for name, text in properties.items():
        try:
            validate_types({name: text})
        except InvalidConfig as reason:
            problems.append(str(reason))
            del left[name]
    kinds = [(_not_dynamic, NOT_DYNAMIC), (_without_listener, ONLY_PER_LISTENER)]
    if not per_broker:
        kinds.append((_of_one_broker, ONLY_PER_BROKER))
    for wrong_of, why in kinds:
        wrong = wrong_of(left)
        if wrong:
            problems.append(f"{why}: [{', '.join(wrong)}]")
        for name in wrong:
            del left[name]
    return left


def validate_types(properties: Mapping[str, str]) -> None:
    """Is every value of its type? A listener's as that which it overrides. Raises InvalidConfig."""
    base = {_base(name): text for name, text in properties.items()}
    for name, key in DYNAMIC_KEYS.items():
        if name in base:
            key.parse(name, base[name])


def _base(name: str) -> str:
    found = listener_config(name)
    return name if found is None else found


def _not_dynamic(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name in BROKER_KEYS and name not in DYNAMIC_KEYS)


def _without_listener(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name in SECURITY_CONFIGS)


def _of_one_broker(names: Iterable[str]) -> list[str]:
    def is_own(name: str) -> bool:
        key = DYNAMIC_KEYS.get(name)
        if key is not None:
            return key.update is PER_BROKER
        return listener_config(name) is not None and _base(name) not in CLUSTER_LEVEL

    return sorted(name for name in names if is_own(name))


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
