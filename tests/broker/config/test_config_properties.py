"""server.properties are read as Kafka reads them, and changed while the broker runs."""

from typing import cast

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.client_metrics import validate_client_metrics
from kcli.broker.config.dynamic_names import ONLY_PER_LISTENER
from kcli.broker.config.keys import PASSWORD, to_text
from kcli.broker.config.names import is_known
from kcli.log.config import InvalidConfig
from tests.broker.config.server_properties import BASE, VERDICTS, with_base
from tests.conftest import read_jsonl


def judge(changes: dict[str, str]) -> tuple[str, str]:
    """Return what the Java program prints: "ok" and the value of the first configuration, or "no" and the reason."""
    name = next(iter(changes), "")
    try:
        config = BrokerConfig(with_base(changes))
    except InvalidConfig as reason:
        return "no", str(reason)
    value = to_text(config.values.get(name))
    if value is not None and BROKER_KEYS[name].type is PASSWORD:
        value = "[hidden]"
    return "ok", value or ""


def test_every_file_is_judged_as_by_kafka() -> None:
    count = refused = 0
    for line in read_jsonl(VERDICTS):
        changes, verdict, text = cast("tuple[dict[str, str], str, str]", line)
        assert judge(changes) == (verdict, text), changes
        count += 1
        refused += verdict == "no"
    assert count > 6000
    assert refused > 3000


def test_values_have_types_and_names() -> None:
    config = BrokerConfig(
        {**BASE, "num.partitions": "3", "log.retention.minutes": "2", "max.connections.per.ip.overrides": "a:1, b:2"}
    )
    assert (config.node_id, config.number("broker.id"), config.num_partitions) == (1, 1, 3)
    assert config.log_dirs == ("/a", "/b")
    assert config.metadata_log_dir == "/a"
    assert (config.log_retention_time_ms, config.log_roll_time_ms, config.log_roll_jitter_time_ms) == (
        120_000,
        604_800_000,
        0,
    )
    assert config.max_connections_per_ip_overrides == {"a": 1, "b": 2}
    assert [(each.listener, each.host, each.port) for each in config.listeners] == [
        ("PLAINTEXT", "localhost", 9092),
        ("CONTROLLER", "localhost", 9093),
    ]
    assert [each.listener for each in config.advertised_listeners] == ["PLAINTEXT"]
    assert (config.is_broker, config.is_controller) == (True, True)
    assert config.log_config({"segment.ms": "7"}).values["retention.ms"] == 120_000
    with pytest.raises(KeyError):
        config.get("colour")


def test_unknown_names_warn() -> None:
    known = {"listener.name.plaintext.max.connections": "5", "config.providers.file.class": "x", "rsm.config.dir": "/x"}
    config = BrokerConfig({**BASE, **known, "colour": "red", "log.dirz": "/x"})
    assert [warning.partition(":")[0] for warning in config.warnings] == ["colour", "log.dirz"]


def test_names_of_one_mechanism_of_a_listener_warn_only_where_they_are_misspelt() -> None:
    known = ["expected.audience", "expected.issuer", "jwks.endpoint.url", "clock.skew.seconds"]
    names = [f"listener.name.sasl.oauthbearer.sasl.oauthbearer.{each}" for each in known]
    odd = ["listener.name.sasl.oauthbearer.sasl.oauthbearer.expected.audienc", "listener.name.sasl.oauthbearer.node.id"]
    odd.append("listener.name.sasl.oauth.sasl.oauthbearer.expected.audience")
    assert [name for name in names + odd if not is_known(name)] == odd


@pytest.mark.parametrize("pattern", ["(" * 5000, "a{99999999999999999999}", "[", "client_id=x=y", "="])
def test_patterns_that_are_none(pattern: str) -> None:
    for text in (pattern, f"client_id={pattern}"):
        with pytest.raises(InvalidConfig, match=r"^Illegal client matching pattern: "):
            validate_client_metrics("sub", {"match": text})


def test_dynamic_configurations_lie_over_static_ones() -> None:
    config = BrokerConfig({**BASE, "log.retention.hours": "5", "num.io.threads": "4"})
    assert config.update({"log.retention.ms": "7", "num.io.threads": "5"}, {"num.io.threads": "6"}) == []
    assert (config.log_retention_time_ms, config.get("num.io.threads")) == (7, 6)
    assert config.topic_defaults["retention.ms"] == "7"
    assert "log.retention.hours" not in config.properties
    assert config.update({}, {}) == []
    assert (config.log_retention_time_ms, config.get("num.io.threads")) == (18_000_000, 4)


def test_dynamic_configurations_that_cannot_be_are_passed_over() -> None:
    config = BrokerConfig(BASE)
    problems = config.update(
        {
            "num.io.threads": "many",
            "log.preallocate": "true",
            "node.id": "7",
            "ssl.keystore.type": "PEM",
            "listeners": "A://:1",
        },
        {},
    )
    assert problems == [
        "Invalid value many for configuration num.io.threads: Not a number of type INT",
        "Cannot update these configs dynamically: [node.id]",
        f"{ONLY_PER_LISTENER}: [ssl.keystore.type]",
        "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
    ]
    assert config.cluster == {"log.preallocate": "true"}
    assert config.get("log.preallocate") is True


def test_a_contradiction_changes_nothing() -> None:
    config = BrokerConfig(BASE)
    assert config.update({}, {"log.preallocate": "true"}) == []
    before = dict(config.__dict__)
    with pytest.raises(InvalidConfig, match=r"log\.cleaner\.dedupe\.buffer\.size must be at least 1MB"):
        config.update({}, {"log.cleaner.dedupe.buffer.size": "5"})
    assert config.__dict__ == before


def test_a_default_that_no_topic_may_have_is_passed_over() -> None:
    """Kafka answers such a change with success, logs that it "could not be applied", and keeps it over a restart."""
    config = BrokerConfig(BASE)
    before = dict(config.__dict__)
    with pytest.raises(InvalidConfig, match=r"Invalid value -1 for configuration flush\.ms"):
        config.update({"log.flush.interval.ms": "-1"}, {})
    assert config.__dict__ == before
    assert config.log_config({}).flush_ms == 2**63 - 1
