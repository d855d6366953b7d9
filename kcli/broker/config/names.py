"""Names of configurations: synonyms, names for one listener, names for plugins.

    log.retention.ms .minutes .hours, log.roll.ms .hours, ...   one configuration in several units
    listener.name.<listener>.<name>                             <name>, for one listener
    listener.name.<listener>.<mechanism>.sasl.jaas.config       sasl.jaas.config, for one listener and mechanism

Source: DynamicBrokerConfig.brokerConfigSynonyms.
"""

from __future__ import annotations

from kcli.broker.config.broker_keys import BROKER_KEYS, DYNAMIC_KEYS
from kcli.broker.config.keys import ConfigType

LISTENER_PREFIX = "listener.name."
AUTHORIZER_CONFIGS = ("super.users", "allow.everyone.if.no.acl.found")
PLUGIN_PREFIXES = ("config.providers.", "metrics.", "rsm.config.", "rlmm.config.")
MANAGER_PREFIXES = ("remote.log.storage.manager.impl.prefix", "remote.log.metadata.manager.impl.prefix")
"""The configurations of other prefixes than rsm.config. and rlmm.config. (tier_keys.py)."""

_MECHANISM_CONFIGS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS = {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    **{name: family for family in _FAMILIES for name in family},
}


def synonyms(name: str, *, with_base: bool = False) -> tuple[str, ...]:
    """Return `name` and its synonyms, in order of precedence. with_base: whether to include the name that a listener's
    configuration overrides."""
    found = _SYNONYMS.get(name)
    if found is not None:
        return found
    base = base_name(name) if with_base else None
    return (name,) if base is None else (name, base)


def base_name(name: str) -> str | None:
    """Return the configuration that `name`, a configuration of one listener, overrides; None for other names."""
    base = listener_config(name)
    return base and next((each for each in _MECHANISM_CONFIGS if base.endswith(each)), base)


def listener_config(name: str) -> str | None:
    """Return the part of a name after `listener.name.<listener>.`; None for a name without that prefix."""
    _, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    return rest if dot and name.startswith(LISTENER_PREFIX) else None


def type_of(name: str) -> ConfigType:
    """Return the type of a broker's configuration, UNKNOWN for a name that Kafka does not define."""
    for each in (name, *synonyms(name, with_base=True)):
        key = BROKER_KEYS.get(each) or DYNAMIC_KEYS.get(each)
        if key is not None:
            return key.type
    return ConfigType.UNKNOWN


def is_known(name: str) -> bool:
    """Whether Kafka or its authorizer defines the name, with or without the prefix of a listener, or the name has the
    prefix of a plugin's configurations."""
    if type_of(name) is not ConfigType.UNKNOWN or name in AUTHORIZER_CONFIGS or name.startswith(PLUGIN_PREFIXES):
        return True
    of_tokens = (listener_config(name) or "").removeprefix("oauthbearer.")
    return of_tokens.startswith("sasl.oauthbearer.") and of_tokens in BROKER_KEYS
