"""A registry over a broker: requests, the topic, logins, several registries with one leader."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import socket
import ssl
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.network.client import SocketNetwork
from kcli.client.security import security_of
from kcli.errors import KcliError, UnreadableInput
from kcli.protocol.error_code import ErrorCode
from kcli.registry.log import LogConfig, NotAppended, SchemasLog, UnsuitableTopic
from kcli.registry.server import RegistryServer
from kcli.service import fetched
from kcli.service.cluster import Cluster, Refused
from kcli.service.fetched import Record
from kcli.service.outbound import outbound_of
from kcli.service.serving import CannotServe
from kcli.testing.kafka import Kafka
from kcli.tls.certificates import make_authority
from tests.registry.running import V1, Loop, ask, looped, register, served

QUICK = {"kafkagroup.session.timeout.ms": "1000", "kafkagroup.heartbeat.interval.ms": "100"}


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with looped() as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka.started(config={"group.min.session.timeout.ms": "500"}) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def server(loop: Loop, broker: Kafka) -> Iterator[RegistryServer]:
    with served(loop, broker.bootstrap_servers, QUICK) as registry:
        yield registry


@pytest.fixture
def url(server: RegistryServer) -> str:
    return server.urls[0]


def record(name: str, *fields: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": "int"} for each in fields]}


def test_what_is_registered_is_found_at_once(url: str) -> None:
    made = register(url, "first", record("First", "a"))
    assert made.status == 200
    number = made.json["id"]
    found = ask(url, "GET", f"/schemas/ids/{number}")
    assert (found.status, json.loads(found.json["schema"])["name"]) == (200, "First")
    assert found.headers["content-type"] == V1
    assert ask(url, "GET", f"/schemas/ids/{number}").json == found.json, "the second answer is a kept one"
    assert ask(url, "GET", "/subjects/first/versions/1").json["id"] == number
    assert register(url, "first", record("First", "a")).json["id"] == number


def test_kept_answers_end_with_the_next_record(url: str) -> None:
    register(url, "kept", record("Kept", "a"))
    assert ask(url, "GET", "/subjects/kept/versions/latest").json["version"] == 1
    changed = {**record("Kept", "a"), "doc": "again"}
    register(url, "kept", changed)
    assert ask(url, "GET", "/subjects/kept/versions/latest").json["version"] == 2
    ask(url, "DELETE", "/subjects/kept/versions/2")
    assert ask(url, "GET", "/subjects/kept/versions/latest").json["version"] == 1
    assert ask(url, "GET", "/subjects/kept/versions/2").status == 404


def test_an_answer_depends_on_what_the_client_accepts(url: str) -> None:
    number = register(url, "accepts", record("Accepts", "a")).json["id"]
    path = f"/schemas/ids/{number}"
    for accept in ("application/json", V1, "application/json"):
        assert ask(url, "GET", path, headers={"Accept": accept}).headers["content-type"] == accept
    assert ask(url, "GET", path, headers={"Accept": "text/html"}).status == 406


def test_head_and_options(url: str) -> None:
    number = register(url, "head", record("Head", "a")).json["id"]
    head = ask(url, "HEAD", f"/schemas/ids/{number}")
    assert (head.status, head.json) == (200, None)
    assert int(head.headers["content-length"]) > 10
    options = ask(url, "OPTIONS", "/subjects/head/versions")
    assert (options.status, options.headers["allow"]) == (200, "GET,POST,HEAD,OPTIONS")
    assert ask(url, "OPTIONS", "/nothing").status == 404
    assert ask(url, "PATCH", "/subjects").status == 405


def test_a_schema_that_is_none_is_refused_and_changes_nothing(url: str, broker: Kafka) -> None:
    assert register(url, "good", record("Good", "a")).status == 200  # the election's record is there, too
    before = len(broker.records("_schemas"))
    answer = ask(url, "POST", "/subjects/bad/versions", {"schema": "{"})
    assert (answer.status, answer.json["error_code"]) == (422, 42201)
    assert len(broker.records("_schemas")) == before


def test_percent_encoding_that_is_none_gets_an_answer(url: str) -> None:
    for path in (
        "/subjects/%zz/versions",
        "/subjects/%ff%fe/versions/1",
        "/subjects/%00/versions",
        "/%",
        "/schemas/ids/%31",
    ):
        assert ask(url, "GET", path).status in (200, 400, 404, 422)


def test_metadata_has_the_cluster_of_the_broker(url: str) -> None:
    found = ask(url, "GET", "/v1/metadata/id").json
    assert found["scope"]["clusters"]["schema-registry-cluster"] == "schema-registry"
    assert found["scope"]["clusters"]["kafka-cluster"]


def test_a_schema_larger_than_the_broker_takes_is_refused(url: str) -> None:
    large = {**record("Large", "a"), "doc": "x" * (2 << 20)}
    answer = register(url, "large", large)
    assert (answer.status, answer.json["error_code"]) == (422, 42209)
    assert register(url, "after-large", record("AfterLarge", "a")).status == 200


# several registries


def test_a_follower_forwards_and_reads_what_the_leader_wrote(loop: Loop, broker: Kafka, server: RegistryServer) -> None:
    with served(loop, broker.bootstrap_servers, {**QUICK, "leader.eligibility": "false"}) as follower:
        url = follower.urls[0]
        made = register(url, "forwarded", record("Forwarded", "a"))
        assert made.status == 200, made
        assert ask(server.urls[0], "GET", f"/schemas/ids/{made.json['id']}").status == 200
        again = register(url, "forwarded", record("Forwarded", "a"), {"X-Forward": "true"})
        assert (again.status, again.json["error_code"]) == (500, 50004), "a forwarded request is not forwarded again"
        deadline = time.monotonic() + 20
        while ask(url, "GET", f"/schemas/ids/{made.json['id']}").status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert ask(url, "DELETE", "/subjects/forwarded").json == [1]
        assert ask(server.urls[0], "GET", "/subjects/forwarded/versions").status == 404


def test_without_anybody_who_may_lead_reads_are_served_and_writes_refused(
    loop: Loop, broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.registry.service.LEADER_S", 0.3)
    properties = {**QUICK, "leader.eligibility": "false", "schema.registry.group.id": "followers"}
    with served(loop, broker.bootstrap_servers, properties) as follower:
        assert ask(follower.urls[0], "GET", "/subjects").status == 200
        refused = register(follower.urls[0], "s", record("S", "a"))
        assert (refused.status, refused.json) == (500, {"error_code": 50004, "message": "Leader not known."})


# the log


async def _log(bootstrap: str, config: LogConfig, seen: list[Record]) -> tuple[SocketNetwork, SchemasLog, Any]:
    async def replay(records: Any) -> None:
        seen.extend(records)

    network = SocketNetwork(asyncio.get_running_loop())
    host, _, port = bootstrap.rpartition(":")
    log = SchemasLog(Cluster(network, [(host, int(port))]), config, replay, seen.clear)
    await log.open()
    return network, log, asyncio.ensure_future(log.read())


def test_an_older_leader_cannot_append_any_more(loop: Loop, broker: Kafka) -> None:
    config = LogConfig(topic="fenced", replication_factor=1, transactional_id="fenced")

    async def run() -> list[list[Record]]:
        seen: list[list[Record]] = [[], []]
        network, old, reading = await _log(broker.bootstrap_servers, config, seen[0])
        other_network, new, other_reading = await _log(broker.bootstrap_servers, config, seen[1])
        await old.fence()
        await old.append([(b"1", b"old")])
        await new.fence()
        assert [each.value for each in seen[1] if each.key == b"1"] == [b"old"], "what was written before is replayed"
        with pytest.raises(NotAppended, match="INVALID_PRODUCER_EPOCH"):
            await old.append([(b"2", b"old")])
        assert not old.is_owned
        await new.append([(b"2", b"new"), (b"3", None)])
        await old.fence()
        await old.append([(b"4", b"old")])
        with pytest.raises(NotAppended, match="INVALID_PRODUCER_EPOCH"):
            await new.append([(b"5", b"new")])
        await new.replayed(old.next_offset - 1)
        for each in (reading, other_reading):
            each.cancel()
        network.close()
        other_network.close()
        return seen

    first, second = loop.run(run())
    assert first == second
    assert [(each.key, each.value) for each in first if b"NOOP" not in (each.key or b"")] == [
        (b"1", b"old"),
        (b"2", b"new"),
        (b"3", None),
        (b"4", b"old"),
    ]


@pytest.mark.parametrize(
    ("partitions", "policy", "reason"),
    [
        (2, "compact", "The schema topic wrong-0 should have only 1 partition but has 2"),
        (1, "delete", "The retention policy of the schema topic wrong-1 is incorrect. Expected cleanup.policy to be"),
    ],
)
def test_a_topic_that_would_lose_schemas_is_refused(
    loop: Loop, broker: Kafka, partitions: int, policy: str, reason: str
) -> None:
    name = f"wrong-{2 - partitions}"
    broker.create_topic(name, partitions, {"cleanup.policy": policy})
    with (
        pytest.raises(UnsuitableTopic, match=reason),
        served(loop, broker.bootstrap_servers, {**QUICK, "kafkastore.topic": name}),
    ):
        pass


def test_the_topic_is_made_compacted_and_with_its_configurations(loop: Loop, broker: Kafka) -> None:
    config = LogConfig(topic="made", replication_factor=3, topic_config={"min.cleanable.dirty.ratio": "0.1"})

    async def run() -> None:
        network, _, reading = await _log(broker.bootstrap_servers, config, [])
        reading.cancel()
        network.close()

    loop.run(run())
    found = broker.call(
        "DescribeConfigs", resources=[{"resource_type": 2, "resource_name": "made", "configuration_keys": None}]
    )
    configs = {each["name"]: each["value"] for each in found["results"][0]["configs"]}
    assert (configs["cleanup.policy"], configs["min.cleanable.dirty.ratio"]) == ("compact", "0.1")


def test_a_registry_that_cannot_read_on_answers_nothing_else(
    loop: Loop, broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {**QUICK, "schema.registry.group.id": "damaged", "kafkastore.topic": "_damaged"}
    with served(loop, broker.bootstrap_servers, properties) as registry:
        url = registry.urls[0]
        assert register(url, "s", record("S", "a")).status == 200

        def damaged(_: bytes) -> bytes:
            raise UnreadableInput("topic _damaged", "byte 96: a damaged batch")

        monkeypatch.setattr(fetched, "_whole_batches", damaged)
        broker.produce("_damaged", {"key": b"k", "value": b"x"})
        deadline = time.monotonic() + 30
        while (found := ask(url, "GET", "/schemas/ids/1")).status != 503:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        reason = "topic _damaged: byte 96: a damaged batch; on the machine of broker 1: kcli verify LOG_DIR/_damaged-0"
        assert found.json["message"] == f"this registry reads no more: {reason}"
        assert register(url, "t", record("T", "a")).status == 503


def test_a_log_whose_end_is_before_its_records_is_not_read_for_ever(
    loop: Loop, broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LogConfig(topic="short", replication_factor=1, transactional_id="short")

    async def begin() -> None:
        network, log, reading = await _log(broker.bootstrap_servers, config, [])
        try:
            await log.fence()
            await log.append([(b"a", b"1"), (b"b", b"2")])
            whole = SchemasLog._read_on

            async def short(self: SchemasLog) -> None:
                if self.next_offset == 3:
                    raise Refused("Fetch of short", ErrorCode.OFFSET_OUT_OF_RANGE)
                await whole(self)

            monkeypatch.setattr(SchemasLog, "_read_on", short)
            with pytest.raises(KcliError, match="records below offset 3, which it says is beyond the end of its log"):
                await asyncio.wait_for(reading, 30)
        finally:
            network.close()

    loop.run(begin())


def test_a_topic_that_is_made_anew_is_read_anew(loop: Loop, broker: Kafka) -> None:
    properties = {**QUICK, "schema.registry.group.id": "again", "kafkastore.topic": "_again"}
    with served(loop, broker.bootstrap_servers, properties) as registry:
        url = registry.urls[0]
        for number in range(5):
            assert register(url, "again", {**record("Again", "a"), "doc": str(number)}).status == 200
        broker.call("DeleteTopics", topics=[{"name": "_again", "topic_id": None}], timeout=10_000)
        broker.create_topic("_again", config={"cleanup.policy": "compact"})
        deadline = time.monotonic() + 30
        while (found := ask(url, "GET", "/subjects").json) != []:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        while (made := register(url, "new", record("New", "a"))).status != 200:
            assert time.monotonic() < deadline, made
            time.sleep(0.1)
        assert made.json["id"] == 1


def test_writes_go_on_after_a_restart_of_the_broker(loop: Loop) -> None:
    with (
        Kafka.started(config={"group.min.session.timeout.ms": "500"}) as kafka,
        served(loop, kafka.bootstrap_servers, QUICK) as registry,
    ):
        url = registry.urls[0]
        first = register(url, "first", record("First", "a")).json["id"]
        kafka.restart()
        assert ask(url, "GET", f"/schemas/ids/{first}").status == 200, "reads need no broker"
        deadline = time.monotonic() + 30
        while (made := register(url, "second", record("Second", "a"))).status != 200:
            assert made.status == 500, made
            assert time.monotonic() < deadline, made
            time.sleep(0.1)
        assert made.json["id"] == first + 1


def test_a_registry_without_a_broker_says_so(loop: Loop) -> None:
    with pytest.raises(KcliError, match="Connection refused"), served(loop, "127.0.0.1:1"):
        pass


def test_a_port_in_use_is_reported_before_the_topic_is_made(loop: Loop, broker: Kafka) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"http://127.0.0.1:{taken.getsockname()[1]}"
        properties = {"listeners": listener, "kafkastore.topic": "never"}
        with (
            pytest.raises(CannotServe, match="Address already in use"),
            served(loop, broker.bootstrap_servers, properties),
        ):
            pass
    assert "never" not in broker.topics()


# logins, ACLs, TLS


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def test_users_and_what_they_may_do(loop: Loop, broker: Kafka, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("# users\nalice: secret, developers\nadmin: root\n")
    (tmp_path / "acls").write_text("alice READ,WRITE alice-*\n* READ public\n")
    properties = {
        **QUICK,
        "schema.registry.group.id": "secured",
        "kafkastore.topic": "_secured",
        "authentication.method": "BASIC",
        "authentication.users.file": str(tmp_path / "users"),
        "authorization.acl.file": str(tmp_path / "acls"),
        "super.users": "admin",
    }
    alice, admin = basic("alice", "secret"), basic("admin", "root")
    with served(loop, broker.bootstrap_servers, properties) as secured:
        url = secured.urls[0]
        for headers in ({}, basic("alice", "wrong"), basic("bob", "secret"), {"Authorization": "Basic !"}):
            refused = ask(url, "GET", "/schemas/types", headers=headers)
            assert (refused.status, refused.json["error_code"]) == (401, 401)
            assert refused.headers["www-authenticate"] == 'Basic realm="SchemaRegistry"'
        assert ask(url, "GET", "/schemas/types", headers=alice).status == 200
        own = register(url, "alice-a", record("Own", "a"), alice)
        other = register(url, "other", record("Other", "a"), admin)
        assert (own.status, other.status) == (200, 200)
        denied = register(url, "other", record("Other", "a"), alice)
        assert (denied.status, denied.json) == (
            403,
            {"error_code": 40301, "message": "User is denied operation WRITE on Subject: other"},
        )
        assert ask(url, "GET", f"/schemas/ids/{own.json['id']}", headers=alice).status == 200
        for path in ("", "?subject=alice-a", "/schema", "/subjects"):
            assert ask(url, "GET", f"/schemas/ids/{other.json['id']}{path}", headers=alice).status == 403, path
        schema = {"type": "record", "name": "Of", "fields": [{"name": "other", "type": "Other"}]}
        body = {"schema": json.dumps(schema), "references": [{"name": "Other", "subject": "other", "version": 1}]}
        for path in ("/subjects/alice-b/versions", "/subjects/alice-a", "/compatibility/subjects/alice-a/versions"):
            of_other = ask(url, "POST", path, body, alice)
            refusal = {"error_code": 40301, "message": "User is denied operation READ on Subject: other"}
            assert (of_other.status, of_other.json) == (403, refusal)
        assert ask(url, "POST", "/subjects/alice-b/versions", body, admin).status == 200
        assert ask(url, "GET", "/subjects", headers=alice).status == 403
        assert ask(url, "DELETE", "/subjects/alice-a", headers=alice).status == 403
        assert ask(url, "GET", f"/schemas/ids/{other.json['id']}", headers=admin).status == 200
        assert ask(url, "GET", f"/schemas/ids/{other.json['id']}", headers=alice).status == 403, "not the kept answer"


def test_https(loop: Loop, broker: Kafka, tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    authority = make_authority("test", now)
    (tmp_path / "server.pem").write_bytes(authority.server(("127.0.0.1", "localhost"), now).pem)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    properties = {
        **QUICK,
        "listeners": "https://127.0.0.1:0",
        "schema.registry.group.id": "https",
        "kafkastore.topic": "_https",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with (
        served(loop, broker.bootstrap_servers, properties) as leader,
        served(loop, broker.bootstrap_servers, {**properties, "leader.eligibility": "false"}) as follower,
    ):
        for server in (leader, follower):
            request = urllib.request.Request(
                f"{server.urls[0]}/subjects/s/versions",
                json.dumps({"schema": '"string"'}).encode(),
                {"Content-Type": V1},
            )
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                assert json.load(answer)["id"] == 1


def test_a_broker_with_a_login(loop: Loop) -> None:
    with Kafka.started(security="scram") as kafka:
        outbound = outbound_of(security_of(kafka.registry_client()))
        with served(loop, kafka.bootstrap_servers, outbound=outbound) as registry:
            assert register(registry.urls[0], "s", record("S", "a")).status == 200


# an unmodified client


def test_confluent_kafka_registers_and_reads_by_id(server: RegistryServer) -> None:
    pytest.importorskip("httpx", reason="confluent-kafka[schemaregistry] is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # authlib's, about its own imports
        pytest.importorskip("authlib", reason="confluent-kafka[schemaregistry] is not installed")
        from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    schema = json.dumps(record("Order", "a"))
    context = SerializationContext("orders", MessageField.VALUE)
    configuration = {"url": server.urls[0]}
    with SchemaRegistryClient(configuration) as client, SchemaRegistryClient(configuration) as reader:
        data = AvroSerializer(client, schema)({"a": 7}, context)
        assert AvroDeserializer(reader)(data, context) == {"a": 7}
        assert client.get_versions("orders-value") == [1]
        incompatible = Schema(json.dumps(record("Order", "a", "b")), "AVRO")
        assert not client.test_compatibility("orders-value", incompatible)
