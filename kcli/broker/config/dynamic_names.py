"""The names of the dynamic configurations and whether each can be set for one broker or for all brokers; and the
selection of the valid ones among those in the metadata log.

A name that Kafka does not define is accepted, as it may be a plugin's. Source: DynamicBrokerConfig,
DynamicConfig.Broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcli.broker.config.broker_keys import BROKER_KEYS, DYNAMIC_KEYS
from kcli.broker.config.keys import PER_BROKER
from kcli.broker.config.names import listener_config
from kcli.log.config import InvalidConfig

NOT_DYNAMIC = "Cannot update these configs dynamically"
ONLY_PER_LISTENER = "These security configs can be dynamically updated only per-listener using the listener prefix"
ONLY_PER_BROKER = "Cannot update these configs at default cluster level, broker id must be specified"

# Names of SslConfigs, which are dynamic for a single listener only.
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
# Names that, with a listener's prefix, may be set for all brokers.
CLUSTER_LEVEL = frozenset(("max.connections", "max.connection.creation.rate", "num.network.threads"))


def applicable(properties: Mapping[str, str], problems: list[str], *, per_broker: bool) -> dict[str, str]:
    """Return the dynamic configurations, as stored in the metadata log, that are valid; add the errors of the others to
    `problems`. per_broker: whether `properties` are set for a single broker, not for all brokers."""
    left = dict(properties)
    for name, text in properties.items():
        try:
            validate_types({name: text})
        except InvalidConfig as reason:
            problems.append(str(reason))
            del left[name]
    kinds = [(not_dynamic, NOT_DYNAMIC), (without_listener, ONLY_PER_LISTENER)]
    if not per_broker:
        kinds.append((of_one_broker, ONLY_PER_BROKER))
    for wrong_of, why in kinds:
        wrong = wrong_of(left)
        if wrong:
            problems.append(f"{why}: [{', '.join(wrong)}]")
        for name in wrong:
            del left[name]
    return left


def validate_types(properties: Mapping[str, str]) -> None:
    """Check the value of each dynamic configuration that Kafka defines, by its type and its valid values; a
    configuration of one listener is checked as the configuration that it overrides. Other names are not checked. Raises
    InvalidConfig."""
    base = {_base(name): text for name, text in properties.items()}
    for name, key in DYNAMIC_KEYS.items():
        if name in base:
            key.parse(name, base[name])


def _base(name: str) -> str:
    found = listener_config(name)
    return name if found is None else found


def not_dynamic(names: Iterable[str]) -> list[str]:
    """Return those names of Kafka's configurations that cannot be set as dynamic ones."""
    return sorted(name for name in names if name in BROKER_KEYS and name not in DYNAMIC_KEYS)


def without_listener(names: Iterable[str]) -> list[str]:
    """Return those names of security configurations that lack a listener's prefix."""
    return sorted(name for name in names if name in SECURITY_CONFIGS)


def of_one_broker(names: Iterable[str]) -> list[str]:
    """Return those names that can be set for a single broker only, not for all brokers at once."""

    def is_own(name: str) -> bool:
        key = DYNAMIC_KEYS.get(name)
        if key is not None:
            return key.update is PER_BROKER
        return listener_config(name) is not None and _base(name) not in CLUSTER_LEVEL

    return sorted(name for name in names if is_own(name))
