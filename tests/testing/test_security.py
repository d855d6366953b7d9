"""A test's broker with security: clients of each library connect by each of its kinds, and do what ACLs allow."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, Literal, get_args

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kcli.errors import UsageError
from kcli.security.acls import Operation, PatternType, Permission
from kcli.testing.controls import Refused
from kcli.testing.kafka import Kafka
from kcli.testing.security import KINDS, LIBRARIES, Kind, parse_acl

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's way to read its schemas
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError, TopicAuthorizationFailedError

pytest_plugins = ["pytester"]

TIMEOUT_S = 20.0
Library = Literal["kafka-python", "aiokafka", "confluent"]


def produce(library: Library, config: dict[str, Any], topic: str) -> None:
    """Produce a record whose value is the library's name; raise the library's error."""
    if library == "kafka-python":
        producer = KafkaProducer(**config, retries=0, enable_idempotence=False, max_block_ms=5_000)
        try:
            producer.send(topic, library.encode()).get(TIMEOUT_S)
        finally:
            producer.close(1)
    elif library == "aiokafka":
        asyncio.run(_produce(config, topic))
    else:
        told: list[Any] = []
        client = Producer({**config, "enable.idempotence": False, "log_level": 0})
        client.produce(topic, library, on_delivery=lambda error, _: told.append(error))
        client.flush(TIMEOUT_S)
        if told[0] is not None:
            raise KafkaException(told[0])


async def _produce(config: dict[str, Any], topic: str) -> None:
    async with AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait(topic, b"aiokafka")


@pytest.mark.parametrize("kind", KINDS)
def test_each_library_by_each_kind(kind: Kind) -> None:
    user = None if kind == "tls" else "alice"
    who = "ANONYMOUS" if user is None else user
    with Kafka.started(security=kind, acls=[f"{who} write topic:orders"], seed={"orders": 1, "hidden": 1}) as kafka:
        for library in get_args(Library):
            produce(library, kafka.client_config(library, user), "orders")
            with pytest.raises((KafkaError, KafkaException, AioKafkaError)) as refused:
                produce(library, kafka.client_config(library, user), "hidden")
            assert "uthoriz" in f"{refused.type.__name__} {refused.value}", refused
        assert kafka.values("orders") == [each.encode() for each in get_args(Library)]
        assert kafka.values("hidden") == []
        if user is not None:
            with pytest.raises((KafkaError, KafkaException)):
                produce("kafka-python", kafka.client_config("kafka-python", "bob"), "orders")


def test_acls_come_later_and_stay_with_a_snapshot() -> None:
    with Kafka.started(security="scram", acls=[], seed={"orders": ["one"]}) as kafka:
        config = kafka.client_config("kafka-python", user="alice")
        with pytest.raises(TopicAuthorizationFailedError):
            produce("kafka-python", config, "orders")
        kafka.add_acls("alice all topic:or*", "alice read group:*", "deny alice write topic:orders")
        before = kafka.snapshot()
        with pytest.raises(TopicAuthorizationFailedError):
            produce("kafka-python", config, "orders")
        kafka.restore(before)
        kafka.restart()
        consumer = KafkaConsumer("orders", **config, group_id="g", auto_offset_reset="earliest")
        try:
            assert next(consumer).value == b"one"
        finally:
            consumer.close()


def test_a_broker_in_a_child_process() -> None:
    with Kafka.started(process="child", security="mtls", acls=["alice write topic:t"], seed={"t": 1}) as kafka:
        produce("confluent", kafka.client_config("confluent", user="alice"), "t")
        assert kafka.values("t") == [b"confluent"]


def test_without_security() -> None:
    with Kafka.started(seed={"t": 1}) as kafka:
        for library in get_args(Library):
            produce(library, kafka.client_config(library), "t")
        assert len(kafka.values("t")) == len(LIBRARIES)
        with pytest.raises(UsageError, match="has no users"):
            kafka.client_config("confluent", user="alice")
        with pytest.raises(UsageError, match="it is one of kafka-python"):
            kafka.client_config("java")  # type: ignore[arg-type]
        with pytest.raises(Refused, match="SECURITY_DISABLED"):
            kafka.add_acls("alice read topic:t")


def test_users_where_there_are_some() -> None:
    with Kafka.started(security="tls") as kafka:
        with pytest.raises(UsageError, match="has no users"):
            kafka.client_config("confluent", user="alice")
        admin = AdminClient({**kafka.client_config("confluent"), "log_level": 0})
        assert admin.list_topics(timeout=TIMEOUT_S).topics == {}
    with Kafka.started(security="scram") as kafka, pytest.raises(UsageError, match="wants a user"):
        kafka.client_config("confluent")
    with pytest.raises(UsageError, match="security 'kerberos' is none of tls"), Kafka.started(security="kerberos"):  # type: ignore[arg-type]
        pass


def test_acls_in_words() -> None:
    acl = parse_acl("alice read topic:orders")
    assert (acl.principal, acl.operation, acl.resource_name) == ("User:alice", Operation.READ, "orders")
    assert (acl.permission, acl.pattern_type) == (Permission.ALLOW, PatternType.LITERAL)
    acl = parse_acl("deny User:* describe-configs topic:or ders*")
    assert (acl.principal, acl.resource_name, acl.permission) == ("User:*", "or ders", Permission.DENY)
    assert acl.pattern_type is PatternType.PREFIXED
    acl = parse_acl("allow * all group:*")
    assert (acl.principal, acl.resource_name, acl.pattern_type) == ("User:*", "*", PatternType.LITERAL)
    for text in ("", "alice", "alice read", "deny alice read", "alice fly topic:t", "alice read t"):
        with pytest.raises(UsageError):
            parse_acl(text)


def test_the_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kafka import KafkaProducer
        from kafka.errors import TopicAuthorizationFailedError

        ACLS = ["alice write topic:orders"]

        @pytest.mark.kafka_broker(security="scram", acls=ACLS, seed={"orders": 1})
        @pytest.mark.parametrize(("user", "may"), [("alice", True), ("bob", False)])
        def test_produce(kafka, user, may):
            producer = KafkaProducer(**kafka.client_config("kafka-python", user=user), max_block_ms=5000)
            try:
                sent = producer.send("orders", b"x").get(20)
                assert may
            except TopicAuthorizationFailedError:
                assert not may
            finally:
                producer.close(1)
            assert kafka.values("orders") == [b"x"] * may

        @pytest.mark.kafka_broker(acls="alice read topic:t")
        def test_no_list(kafka):
            pass
        """
    )
    found = pytester.runpytest_inprocess("-p", "no:kcli", "-p", "kcli.testing.plugin", "-p", "no:cacheprovider")
    found.assert_outcomes(passed=2, errors=1)
    found.stdout.fnmatch_lines(["*a list of texts*"])
