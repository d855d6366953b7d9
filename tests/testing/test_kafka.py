"""The broker of the pytest plugin with real clients: records, requests, faults, time, snapshots, start and stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kcli.errors import KcliError, UsageError
from kcli.protocol.error_code import ErrorCode
from kcli.testing.host import Gone
from kcli.testing.kafka import Kafka, Process

TIMEOUT_S = 20.0
LONG_AGO_MS = 1_000_000_000_000


@pytest.fixture(scope="module")
def running() -> Iterator[Kafka]:
    """One broker for the tests that only need a topic of their own."""
    with Kafka.started() as started:
        yield started


@pytest.fixture
def broker(running: Kafka) -> Iterator[Kafka]:
    """Yield the broker without rules and requests of other tests."""
    running.faults.clear()
    running.clear_requests()
    yield running
    running.faults.clear()


def producer(kafka: Kafka, **config: Any) -> Producer:
    """librdkafka's producer; names of configurations with _ for the dots."""
    given = {"bootstrap.servers": kafka.bootstrap_servers, "retry.backoff.ms": 10, "client.id": "maker"}
    return Producer(given | {name.replace("_", "."): value for name, value in config.items()})


def send(kafka: Kafka, topic: str, value: str, **config: Any) -> str | None:
    """Produce a record. Returns the error's name, None for none."""
    told: list[Any] = []
    client = producer(kafka, **config)
    client.produce(topic, value, partition=0, on_delivery=lambda error, _: told.append(error))
    client.flush(TIMEOUT_S)
    assert len(told) == 1, "it is told what became of it"
    return None if told[0] is None else str(told[0].name())


def consume(kafka: Kafka, topic: str, count: int) -> list[bytes | None]:
    """The first values of partition 0, by assignment."""
    client = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "none", "enable.auto.commit": False})
    client.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = client.consume(count, TIMEOUT_S)
        assert all(each.error() is None for each in messages)
        return [each.value() for each in messages]
    finally:
        client.close()


def eventually(is_so: Callable[[], bool]) -> bool:
    """Wait for it."""
    latest = time.monotonic() + TIMEOUT_S
    while not is_so():
        if time.monotonic() > latest:
            return False
        time.sleep(0.01)
    return True


# records


def test_what_is_seeded_is_consumed(broker: Kafka) -> None:
    broker.seed({"seeded": ["a", {"key": "k", "value": {"n": 1}}, {"key": "k", "value": None}]})
    assert consume(broker, "seeded", 3) == [b"a", b'{"n":1}', None]


def test_what_is_produced_is_seen_in_the_log(broker: Kafka) -> None:
    client = producer(broker, compression_type="zstd")
    client.produce("made", b"v", key=b"k", timestamp=LONG_AGO_MS, headers=[("h", b"1"), ("h", None)])
    client.flush(TIMEOUT_S)
    (record,) = broker.records("made")
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == ("made", 0, 0, LONG_AGO_MS)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"1"), ("h", None)))


def test_records_keep_times_and_headers_and_many_fit(broker: Kafka) -> None:
    broker.produce("many", *({"value": i, "timestamp_ms": LONG_AGO_MS + i, "headers": {"n": str(i)}} for i in range(5)))
    broker.produce("many", *(str(i) for i in range(2_500)))
    broker.produce("many", *("x" * 100_000 for _ in range(20)))
    found = broker.records("many")
    assert [each.offset for each in found] == list(range(2_525))
    assert [each.timestamp_ms for each in found[:5]] == [LONG_AGO_MS + i for i in range(5)]
    assert found[4].headers == (("n", b"4"),)


def test_what_the_broker_dates_has_its_time(broker: Kafka) -> None:
    broker.create_topic("dated", config={"message.timestamp.type": "LogAppendTime"})
    broker.clock.advance(hours=1)
    client = producer(broker, compression_type="gzip")
    client.produce("dated", b"v", timestamp=LONG_AGO_MS)
    client.flush(TIMEOUT_S)
    assert abs(broker.records("dated")[0].timestamp_ms - broker.clock.now_ms()) < 10_000


def test_no_marker_of_a_transaction_is_a_record(broker: Kafka) -> None:
    client = producer(broker, transactional_id="sound")
    client.init_transactions(TIMEOUT_S)
    for i in range(2):
        client.begin_transaction()
        client.produce("transacted", str(i), headers=[("n" * 100, b"x" * 300)])
        client.commit_transaction(TIMEOUT_S)
    found = broker.records("transacted")
    assert [(each.offset, each.value) for each in found] == [(0, b"0"), (2, b"1")]
    assert found[0].headers == (("n" * 100, b"x" * 300),)


def test_a_topic_as_wanted(broker: Kafka) -> None:
    broker.create_topic("wide", 4, {"cleanup.policy": "compact"})
    broker.produce("wide", {"key": "k", "value": "v"}, {"key": "l", "value": "w", "partition": 3})
    assert "wide" in broker.topics()
    assert [(each.partition, each.value) for each in broker.records("wide")][-1] == (3, b"w")
    assert broker.records("wide", 3)[0].value == b"w"
    topics = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=TIMEOUT_S).topics
    assert len(topics["wide"].partitions) == 4


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda kafka: kafka.create_topic("a b"), "topic a b: INVALID_TOPIC_EXCEPTION"),
        (lambda kafka: kafka.create_topic("t", config={"x": 1}), "topic t: INVALID_CONFIG: Unknown topic config"),
        (
            lambda kafka: kafka.seed({"c": {"config": {"cleanup.policy": "compact"}, "records": ["x"]}}),
            "c-0: INVALID_RECORD",
        ),
        (lambda kafka: kafka.records("none"), "no topic none"),
        (lambda kafka: kafka.call("Nonsense"), "no API Nonsense"),
        (lambda kafka: kafka.clock.advance(hours=-26), "time goes forward, not by -93,600,000 ms"),
        (lambda kafka: kafka.clock.advance(ms=float("nan")), "time goes forward"),
        (lambda kafka: kafka.clock.advance(days=1e9), "time ends with the year 9999"),
        (lambda kafka: kafka.clock.advance(days=float("inf")), "time ends with the year 9999"),
        (lambda kafka: kafka.kill(), "only a broker in a child process can be killed"),
    ],
)
def test_what_cannot_be_is_said(broker: Kafka, call: Callable[[Kafka], object], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        call(broker)


# requests


def test_requests_are_noted(broker: Kafka) -> None:
    assert send(broker, "noted", "v", client_id="me") is None
    (request,) = broker.requests(api="Produce", topic="noted", client_id="me")
    assert (request.api, request.client_id, request.client_host) == ("Produce", "me", "127.0.0.1")
    assert (request.topics, request.partitions, request.fault) == (("noted",), (("noted", 0),), "")
    assert request.body["acks"] == -1
    assert str(request) == f"Produce v{request.version}  me  noted-0"
    assert broker.requests(api="produce", topic="other") == broker.requests(client_id="you") == []
    assert {each.api for each in broker.requests()} >= {"ApiVersions", "Metadata", "Produce"}
    broker.clear_requests()
    assert broker.requests(client_id="me") == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fetches_in_a_session_are_of_its_topics(broker: Kafka) -> None:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Partition

    broker.produce("session", "a")
    client = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", client_id="taker")
    try:
        client.assign([Partition("session", 0)])
        assert [each.value for each in client.poll(TIMEOUT_S * 1000)[Partition("session", 0)]] == [b"a"]
        client.poll(300)
        fetches = broker.requests(api="Fetch", topic="session", client_id="taker")
        assert any(each.body["session_epoch"] > 0 for each in fetches)
        assert all(each.partitions == (("session", 0),) for each in fetches)
        rule = broker.faults.add(api="Fetch", topic="session", error="NOT_LEADER_OR_FOLLOWER", count=1)
        assert eventually(lambda: not client.poll(50) and broker.faults.hits(rule) == 1)
        broker.produce("session", "b")
        assert [each.value for each in client.poll(TIMEOUT_S * 1000)[Partition("session", 0)]] == [b"b"]
    finally:
        client.close()


# faults


def test_a_producer_tries_again_after_errors(broker: Kafka) -> None:
    rule = broker.faults.add(api="Produce", topic="retried", error="NOT_LEADER_OR_FOLLOWER", count=2)
    assert send(broker, "retried", "v", acks="all") is None
    assert [each.fault for each in broker.requests(api="Produce", topic="retried")] == [
        "NOT_LEADER_OR_FOLLOWER"
    ] * 2 + [""]
    assert broker.values("retried") == [b"v"]
    assert broker.faults.hits(rule) == 2


def test_an_error_for_good_reaches_the_application(broker: Kafka) -> None:
    rule = broker.faults.add(api="Produce", client_id="unlucky", error="TOPIC_AUTHORIZATION_FAILED")
    assert send(broker, "denied", "v", client_id="unlucky") == "TOPIC_AUTHORIZATION_FAILED"
    assert send(broker, "denied", "w", client_id="lucky") is None
    broker.faults.remove(rule)
    assert send(broker, "denied", "x", client_id="unlucky") is None
    assert broker.values("denied") == [b"w", b"x"]


def test_a_lost_answer_is_made_up_for_by_idempotence(broker: Kafka) -> None:
    for idempotent, values in ((True, [b"v"]), (False, [b"v", b"v"])):
        topic = f"lost-{idempotent}"
        broker.faults.add(api="Produce", topic=topic, drop="answer", count=1)
        assert send(broker, topic, "v", enable_idempotence=idempotent) is None
        assert broker.values(topic) == values


def test_a_lost_request_was_never_there(broker: Kafka) -> None:
    broker.faults.add(api="Produce", topic="dropped", drop=True, skip=1, count=1)
    assert send(broker, "dropped", "a", enable_idempotence=False) is None
    assert send(broker, "dropped", "b", enable_idempotence=False) is None
    assert [each.fault for each in broker.requests(topic="dropped", api="Produce")] == ["", "request dropped", ""]
    assert broker.values("dropped") == [b"a", b"b"]


def test_a_late_answer(broker: Kafka) -> None:
    broker.faults.add(api="Produce", topic="late", delay_ms=300, count=1)
    began = time.monotonic()
    assert send(broker, "late", "v") is None
    assert time.monotonic() - began >= 0.3
    broker.faults.add(api="Produce", topic="late", delay_ms=5_000)
    assert send(broker, "late", "v", message_timeout_ms=300) == "_MSG_TIMED_OUT"


def test_metadata_errors_leave_the_brokers(broker: Kafka) -> None:
    broker.create_topic("hidden")
    broker.faults.add(api="Metadata", topic="hidden", error="UNKNOWN_TOPIC_OR_PARTITION")
    found = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics("hidden", TIMEOUT_S)
    assert found.topics["hidden"].error is not None
    assert list(found.brokers) == [1]


def test_any_api_can_fail(broker: Kafka) -> None:
    broker.faults.add(api="CreateTopics", error="POLICY_VIOLATION")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    from confluent_kafka.admin import NewTopic

    (future,) = admin.create_topics([NewTopic("refused", 1)]).values()
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        future.result(TIMEOUT_S)
    assert "refused" not in broker.topics()


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"api": "Prodcue", "error": "NONE"}, "Prodcue: no API of Kafka's protocol"),
        ({"api": "Produce", "error": "OOPS"}, "OOPS: no error of Kafka 4.3's protocol"),
        ({"api": "Produce"}, "a fault rule that does nothing"),
        ({"error": "NOT_CONTROLLER", "drop": True}, "either error or drop"),
        ({"drop": "maybe"}, "drop='maybe': True, 'request' or 'answer'"),
        ({"drop": ""}, "drop='': True, 'request' or 'answer'"),
        ({"drop": True, "count": 0}, "count=0: a rule is for 1 request or more"),
        ({"drop": True, "count": -1}, "count=-1"),
        ({"drop": True, "skip": -1}, "skip=-1: 0 or more"),
        ({"delay_ms": -5}, "delay_ms=-5: 0 or more"),
        ({"delay_ms": float("nan")}, "delay_ms=nan"),
        ({"delay_ms": float("inf")}, "delay_ms=inf"),
    ],
)
def test_rules_that_make_no_sense(broker: Kafka, rule: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        broker.faults.add(**rule)


# time


def test_retention_follows_the_clock(broker: Kafka) -> None:
    broker.create_topic("short", config={"retention.ms": 3_600_000})
    broker.produce("short", "old")
    broker.clock.advance(minutes=30)
    assert broker.values("short") == [b"old"]
    broker.produce("short", "young")
    broker.clock.advance(hours=2)
    assert broker.values("short") == []
    assert broker.clock.now_ms() > time.time() * 1000 + 9_000_000 - 1_000
    assert send(broker, "short", "new") is None
    assert broker.values("short") == [b"new"]


def test_compaction_follows_the_clock(broker: Kafka) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": 1_000, "min.cleanable.dirty.ratio": 0.01}
    broker.create_topic("compacted", config=config)
    broker.produce("compacted", *({"key": "k", "value": str(i)} for i in range(5)))
    broker.clock.advance(hours=1)
    broker.produce("compacted", {"key": "other", "value": "in the next segment"})
    broker.clock.advance(hours=1)
    assert [each.offset for each in broker.records("compacted")] == [4, 5]


def test_answers_that_are_laid_out_for_the_network_can_be_asked_for(broker: Kafka) -> None:
    broker.create_topic("laid")
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}
    commit = {"group_id": "laid", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}

    def committed() -> int:
        topics = [{"name": "laid", "partitions": [partition]}]
        ((answered,),) = [
            each["partitions"] for each in broker.call("OffsetCommit", 9, **commit, topics=topics)["topics"]
        ]
        assert answered["partition_index"] == 0
        return int(answered["error_code"])

    broker.call("FindCoordinator", key_type=0, coordinator_keys=["laid"])  # which makes their topic
    assert eventually(lambda: committed() == 0)
    beat = broker.call("Heartbeat", group_id="laid", generation_id=0, member_id="?", group_instance_id=None)
    assert beat == {"throttle_time": 0, "error_code": ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_groups_join_although_answers_are_late(broker: Kafka) -> None:
    from kafka import KafkaConsumer

    broker.create_topic("slowly")
    for api in ("JoinGroup", "SyncGroup"):
        broker.faults.add(api=api, delay_ms=50)
    client = KafkaConsumer("slowly", bootstrap_servers=broker.bootstrap_servers, group_id="slow")
    try:
        assert eventually(lambda: not client.poll(50) and client.assignment())
    finally:
        client.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_sessions_of_groups_follow_the_clock(broker: Kafka) -> None:
    from kafka import KafkaConsumer

    def state() -> str:
        told = broker.call("DescribeGroups", groups=["sleepers"], include_authorized_operations=False)
        return str(told["groups"][0]["group_state"])

    broker.create_topic("grouped")
    client = KafkaConsumer("grouped", bootstrap_servers=broker.bootstrap_servers, group_id="sleepers")
    try:
        assert eventually(lambda: not client.poll(50) and state() == "Stable")
        broker.clock.advance(minutes=1)
        assert state() == "Empty"
    finally:
        client.close()


def test_transactions_time_out_by_the_clock(broker: Kafka) -> None:
    broker.create_topic("unfinished")
    client = producer(broker, transactional_id="slow", transaction_timeout_ms=30_000)
    client.init_transactions(TIMEOUT_S)
    client.begin_transaction()
    client.produce("unfinished", "open")
    client.flush(TIMEOUT_S)

    def state() -> str:
        (told,) = broker.call("DescribeTransactions", transactional_ids=["slow"])["transaction_states"]
        return str(told["transaction_state"])

    assert state() == "Ongoing"
    broker.clock.advance(minutes=1)
    assert eventually(lambda: state() == "CompleteAbort")
    with pytest.raises(KafkaException, match="fenced"):
        client.commit_transaction(TIMEOUT_S)


def test_clients_stay_connected_while_time_passes(broker: Kafka) -> None:
    client = producer(broker)
    client.produce("steady", b"a")
    client.flush(TIMEOUT_S)
    before = len(broker.requests(api="ApiVersions"))
    broker.clock.advance(days=1)
    client.produce("steady", b"b")
    client.flush(TIMEOUT_S)
    assert len(broker.requests(api="ApiVersions")) == before


# snapshots


@pytest.mark.parametrize("process", ["thread", "child"])
def test_a_snapshot_brings_back_what_was(process: Process) -> None:
    with Kafka.started(
        process=process, seed={"t": {"partitions": 2, "records": ["a", {"value": "b", "partition": 1}]}}
    ) as kafka:
        assert send(kafka, "t", "c", compression_type="lz4") is None
        taken = kafka.snapshot()
        assert send(kafka, "t", "later") is None
        kafka.create_topic("later")
        kafka.faults.add(api="Produce", drop=True)
        kafka.clock.advance(days=1)
        address = kafka.bootstrap_servers
        for _ in range(2):
            kafka.restore(taken)
            assert kafka.bootstrap_servers == address
            assert kafka.topics() == ["t"]
            assert kafka.values("t") == [b"a", b"c", b"b"]
            assert (kafka.requests(), kafka.faults.all()) == ([], [])
            assert abs(kafka.clock.now_ms() - time.time() * 1000) < 5_000
            assert send(kafka, "t", "d") is None
            assert kafka.values("t") == [b"a", b"c", b"d", b"b"]
        kafka.restore(taken, port=0)
        assert kafka.bootstrap_servers != address
        assert consume(kafka, "t", 2) == [b"a", b"c"]


def test_a_restart_keeps_address_records_and_clients(broker: Kafka) -> None:
    client = producer(broker)
    client.produce("kept", b"a")
    client.flush(TIMEOUT_S)
    address = broker.bootstrap_servers
    broker.restart()
    assert broker.bootstrap_servers == address
    client.produce("kept", b"b")
    assert client.flush(TIMEOUT_S) == 0
    assert broker.values("kept") == [b"a", b"b"]


def test_a_stopped_broker_says_so(broker: Kafka) -> None:
    broker.stop()
    with pytest.raises(Exception, match="the broker is stopped"):
        broker.topics()
    broker.start()
    assert isinstance(broker.topics(), list)


def test_a_killed_broker_comes_back_with_what_it_acknowledged() -> None:
    with Kafka.started(process="child") as kafka:
        client = producer(kafka)
        client.produce("t", b"a")
        assert client.flush(TIMEOUT_S) == 0
        address = kafka.bootstrap_servers
        kafka.kill()
        with pytest.raises(UsageError, match="the broker is not running"):
            kafka.topics()
        kafka.start()
        assert kafka.bootstrap_servers == address
        client.produce("t", b"b")
        assert client.flush(TIMEOUT_S) == 0
        assert kafka.values("t") == [b"a", b"b"]


def test_a_child_that_dies_is_noticed() -> None:
    import os
    import signal

    with Kafka.started(process="child") as kafka:
        assert kafka.pid != os.getpid()
        os.kill(kafka.pid, signal.SIGKILL)
        with pytest.raises(Gone, match="the broker's process has ended"):
            kafka.topics()


def test_a_child_does_what_a_thread_does() -> None:
    with Kafka.started(process="child", config={"num.partitions": "3"}, seed={"t": ["a"]}) as kafka:
        kafka.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", count=1)
        assert send(kafka, "t", "b") is None
        assert [each.fault for each in kafka.requests(api="Produce")] == ["NOT_LEADER_OR_FOLLOWER", ""]
        with pytest.raises(ValueError, match="no API of Kafka's protocol"):
            kafka.faults.add(api="Nothing", drop=True)
        with pytest.raises(Exception, match="INVALID_TOPIC_EXCEPTION"):
            kafka.create_topic("a b")
        kafka.clock.advance(days=8)
        assert kafka.values("t") == []
        assert kafka.call("DescribeCluster", include_cluster_authorized_operations=False)["controller_id"] == 1


def test_what_makes_no_sense_is_refused(broker: Kafka) -> None:
    broker.create_topic("there", 2)
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("None is no snapshot", lambda: broker.restore(None)),  # type: ignore[arg-type]
        ("None is no fault rule", lambda: broker.faults.remove(None)),  # type: ignore[arg-type]
        ("headers are a mapping", lambda: broker.produce("there", {"value": "a", "headers": 5})),
        ("timestamp_ms is a whole number", lambda: broker.produce("there", {"value": "a", "timestamp_ms": 10**30})),
        ("count='2'", lambda: broker.faults.add(api="Fetch", count="2", error="NOT_LEADER_OR_FOLLOWER")),  # type: ignore[arg-type]
        ("delay_ms='5'", lambda: broker.faults.add(api="Fetch", delay_ms="5")),  # type: ignore[arg-type]
        ("days='1' is no number", lambda: broker.clock.advance(days="1")),  # type: ignore[arg-type]
        ("has no foo", lambda: broker.call("Metadata", foo=1)),
        ("has versions", lambda: broker.call("Metadata", 999)),
        ("missing", lambda: broker.call("Heartbeat")),
        ("there: TOPIC_ALREADY_EXISTS", lambda: broker.create_topic("there", 3)),
        ("is running", broker.start),
    ]
    for reason, attempt in wrong:
        with pytest.raises((KcliError, ValueError), match=reason):
            attempt()
    assert broker.topics().count("there") == 1, "it still runs"
