"""The configurations of a client metrics subscription: the metrics, the interval, the clients.

    metrics       prefixes of the metrics' names, `*` for all metrics
    interval.ms   100 ms to one hour
    match         client_id=<pattern>, client_software_name=<pattern>, ...: clients that match all of these;
                  patterns are RE2's: Java's lookarounds, backreferences and possessive quantifiers are refused

Source: ClientMetricsConfigs; KIP-714.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcli.broker.config.keys import INT, LIST, Key, valid_list
from kcli.java.linear_regex import PatternError, compile_linear
from kcli.java.values import java_integer, java_trim
from kcli.log.config import InvalidConfig

CLIENT_METRICS_KEYS: Final[Mapping[str, Key]] = {
    "metrics": Key(LIST, (), valid_list()),
    "interval.ms": Key(INT, 300_000),
    "match": Key(LIST, (), valid_list()),
}

MATCHED: Final = frozenset(
    f"client_{name}"
    for name in ("instance_id", "id", "software_name", "software_version", "source_address", "source_port")
)


class InvalidSubscription(InvalidConfig):
    """Invalid configurations of a subscription for which Kafka's error is INVALID_REQUEST, not INVALID_CONFIG."""


def validate_client_metrics(name: str, texts: Mapping[str, str]) -> None:
    """Check a subscription. name: the subscription's name. texts: its configurations, by name. Raises InvalidConfig,
    InvalidSubscription."""
    if not name:
        raise InvalidSubscription("Subscription name can't be empty")
    for each in texts:
        if each not in CLIENT_METRICS_KEYS:
            raise InvalidSubscription(f"Unknown client metrics configuration: {each}")
    values = {each: key.parse(each, texts[each]) for each, key in CLIENT_METRICS_KEYS.items() if each in texts}
    interval_ms = values.get("interval.ms")
    if isinstance(interval_ms, int) and not 100 <= interval_ms <= 3_600_000:
        raise InvalidSubscription(
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    patterns = values.get("match")
    for pattern in patterns if isinstance(patterns, tuple) else ():
        _validate_pattern(pattern)


def _validate_pattern(pattern: str) -> None:
    name, *value = pattern.split("=")
    try:
        if java_trim(name) in MATCHED and len(value) == 1 and value[0]:
            text = java_trim(value[0])
            compile_linear(text)
            if all(_may_stand(text, i) for i, character in enumerate(text) if character == "{"):
                return
    except PatternError:
        pass
    raise InvalidConfig(f"Illegal client matching pattern: {pattern}")


def _may_stand(pattern: str, at: int) -> bool:
    """Whether the opening brace at index `at` of a pattern is valid in Java, where it must begin a repetition; RE2
    accepts other opening braces, which match themselves."""
    before, body = pattern[:at], pattern[at + 1 :].partition("}")[0]
    if before.endswith(("\\", "\\p", "\\P", "\\x")) or before.rfind("[") > before.rfind("]"):
        return True
    least, comma, most = body.partition(",")
    return java_integer(least) is not None and (not comma or not most or java_integer(most) is not None)
