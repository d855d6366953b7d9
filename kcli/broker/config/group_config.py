"""The configurations of a single group.

Each name begins with the group's type. The default of most configurations is the broker's configuration of that name
with the prefix `group.`, and their limits are the broker's configurations with `.min.` and `.max.` in the name. Source:
GroupConfig; KIP-848, KIP-932, KIP-1071.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kcli.broker.config.keys import BOOLEAN, INT, STRING, Key, Required
from kcli.log.config import InvalidConfig, Value, at_least, invalid, one_of

if TYPE_CHECKING:
    from kcli.broker.config.broker_config import BrokerConfig

_NANOSECOND_DIGITS: Final = 9


def _is_duration(text: str) -> bool:
    """Whether a text is an ISO 8601 duration as Java's Duration reads it, without a sign in front of any part:
    `P1DT2H3M4.5S`, `pt1s`."""
    date, t, time = text.upper().partition("T")
    if not text.isascii() or date[:1] != "P" or not (time if t else date[1:]):
        return False
    if date != "P" and not (date.endswith("D") and date[1:-1].isdecimal()):
        return False
    for unit in "HMS":
        number, found, rest = time.partition(unit)
        if found:
            whole, point, fraction = number.partition(".") if unit == "S" else (number, "", "")
            is_fraction = not fraction or (fraction.isdecimal() and len(fraction) <= _NANOSECOND_DIGITS)
            if not whole.isdecimal() or (point and not is_fraction):
                return False
            time = rest
    return not time


def auto_offset_reset(name: str, value: Value) -> None:
    """Check share.auto.offset.reset: earliest, latest or by_duration:<duration>. Raises InvalidConfig."""
    text = str(value)
    kind, colon, duration = text.partition(":")
    if text in ("earliest", "latest") or (kind == "by_duration" and colon and _is_duration(duration)):
        return
    raise invalid(
        name,
        value,
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of the "
        "format 'by_duration:<PnDTnHnMn.nS>'.",
    )


GROUP_KEYS: Final[Mapping[str, Key]] = {
    "consumer.session.timeout.ms": Key(INT, 45_000, at_least(1)),
    "consumer.heartbeat.interval.ms": Key(INT, 5000, at_least(1)),
    "consumer.assignment.interval.ms": Key(INT, 1000, at_least(0)),
    "share.session.timeout.ms": Key(INT, 45_000, at_least(1)),
    "share.heartbeat.interval.ms": Key(INT, 5000, at_least(1)),
    "share.record.lock.duration.ms": Key(INT, 30_000, at_least(1000)),
    "share.delivery.count.limit": Key(INT, 5, at_least(2)),
    "share.partition.max.record.locks": Key(INT, 2000, at_least(100)),
    "share.auto.offset.reset": Key(STRING, "latest", auto_offset_reset),
    "share.isolation.level": Key(STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted")),
    "share.renew.acknowledge.enable": Key(BOOLEAN, default=True),
    "share.assignment.interval.ms": Key(INT, 1000, at_least(0)),
    "streams.session.timeout.ms": Key(INT, 45_000, at_least(1)),
    "streams.heartbeat.interval.ms": Key(INT, 5000, at_least(1)),
    "streams.num.standby.replicas": Key(INT, 0, at_least(0)),
    "streams.initial.rebalance.delay.ms": Key(INT, 3000, at_least(0)),
    "streams.assignment.interval.ms": Key(INT, 1000, at_least(0)),
}

_NO_SYNONYM = frozenset(("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"))


def broker_synonym(name: str) -> str | None:
    """Return the name of the broker's configuration that is the default of a group's configuration; None if there is
    none."""
    return None if name in _NO_SYNONYM else f"group.{name}"


def group_defaults(config: BrokerConfig) -> dict[str, Value]:
    """Return the configurations of a group that sets none of its own: the broker's values, or Kafka's defaults."""
    synonyms = {name: broker_synonym(name) for name in GROUP_KEYS}
    return {
        name: _default(GROUP_KEYS[name]) if synonym is None else config.get(synonym)
        for name, synonym in synonyms.items()
    }


def _default(key: Key) -> Value:
    assert not isinstance(key.default, Required), "all of them have one"
    return key.default


# Pairs of a group's configuration and the broker's configuration of its limit (min or max in place of {}); checked in
# this order.
_LIMITS = (
    ("consumer.heartbeat.interval.ms", "group.consumer.{}.heartbeat.interval.ms"),
    ("consumer.session.timeout.ms", "group.consumer.{}.session.timeout.ms"),
    ("consumer.assignment.interval.ms", "group.consumer.{}.assignment.interval.ms"),
    ("share.heartbeat.interval.ms", "group.share.{}.heartbeat.interval.ms"),
    ("share.session.timeout.ms", "group.share.{}.session.timeout.ms"),
    ("share.record.lock.duration.ms", "group.share.{}.record.lock.duration.ms"),
    ("share.delivery.count.limit", "group.share.{}.delivery.count.limit"),
    ("share.partition.max.record.locks", "group.share.{}.partition.max.record.locks"),
    ("share.assignment.interval.ms", "group.share.{}.assignment.interval.ms"),
    ("streams.heartbeat.interval.ms", "group.streams.{}.heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "group.streams.{}.session.timeout.ms"),
    ("streams.num.standby.replicas", "group.streams.{}.standby.replicas"),
    ("streams.assignment.interval.ms", "group.streams.{}.assignment.interval.ms"),
)


def validate_group_config(config: BrokerConfig, texts: Mapping[str, str]) -> None:
    """Check the configurations of a group. Raises InvalidConfig."""
    for name in texts:
        if name not in GROUP_KEYS:
            raise InvalidConfig(f"Unknown group config name: {name}")
    values = group_defaults(config)
    values.update({name: key.parse(name, texts[name]) for name, key in GROUP_KEYS.items() if name in texts})
    for name, limits in _LIMITS:
        value, least, most = values[name], limits.format("min"), limits.format("max")
        assert isinstance(value, int), "limits are for numbers"
        if "standby" not in name and value < config.number(least):
            raise InvalidConfig(f"{name} must be greater than or equal to {least}")
        if value > config.number(most):
            raise InvalidConfig(f"{name} must be less than or equal to {most}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = values[f"{kind}.session.timeout.ms"], values[f"{kind}.heartbeat.interval.ms"]
        assert isinstance(session, int), "a time"
        assert isinstance(heartbeat, int), "a time"
        if session <= heartbeat:
            raise InvalidConfig(f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms")
