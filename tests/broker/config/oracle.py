"""Requests about configurations, in an order in which later ones show what earlier ones changed.

CASES    the requests; Kafka 4.3's responses are in `answers.jsonl.gz`, behind its server.properties
entity   a kio request from plain values
plain    plain values from a kio response
ask      send a request to a broker, wait for its response
"""

# ruff: noqa: E501  (a topic of cases is a line)

import dataclasses
import io
import socket
import struct
import typing
from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from kcli.broker.wire.messages import entity_reader, entity_writer

Plain = dict[str, Any]

ANSWERS = Path(__file__).with_name("answers.jsonl.gz")
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
KEYS = {
    "create_topics": 19,
    "describe_configs": 32,
    "alter_configs": 33,
    "incremental_alter_configs": 44,
    "list_config_resources": 74,
}
TOPICS = ("orders", "other")

# The configuration of the broker under test, besides what it needs to start.
PROPERTIES = {
    "unknown.thing": "abc",
    "log.initial.task.delay.ms": "20000",
    "log.roll.hours": "24",
    "num.partitions": "3",
    "ssl.key.password": "secret",
    "log.cleaner.min.cleanable.ratio": "0.30",
    "compression.type": "zstd",
    "broker.rack": "r1",
    "listener.name.plaintext.max.connections": "1000",
    "log.cleanup.policy": "compact, delete",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A request. One that changes configurations is followed by a description of these."""

    api: str
    request: Plain
    version: int


def create(*names: str) -> Case:
    each = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} for name in names
    ]
    return Case("create_topics", {"topics": each, "timeout": timedelta(seconds=10), "validate_only": False}, 7)


def describe(
    *resources: tuple[int, str] | tuple[int, str, Sequence[str]], version: int = 4, synonyms: bool = True
) -> Case:
    each = [
        {"resource_type": r[0], "resource_name": r[1], "configuration_keys": list(r[2]) if len(r) > 2 else None}
        for r in resources
    ]
    request: Plain = {"resources": each}
    if version >= 1:
        request["include_synonyms"] = synonyms
    if version >= 3:
        request["include_documentation"] = False
    return Case("describe_configs", request, version)


def change(
    *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]], version: int = 1, validate_only: bool = False
) -> Case:
    each = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "config_operation": op, "value": value} for key, op, value in configs],
        }
        for kind, name, configs in resources
    ]
    return Case("incremental_alter_configs", {"resources": each, "validate_only": validate_only}, version)


def one(kind: int, name: str, key: str, op: int, value: str | None, validate_only: bool = False) -> Case:
    return change((kind, name, [(key, op, value)]), validate_only=validate_only)


def replace(*resources: tuple[int, str, dict[str, str | None]], version: int = 2, validate_only: bool = False) -> Case:
    each = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        for kind, name, configs in resources
    ]
    return Case("alter_configs", {"resources": each, "validate_only": validate_only}, version)


def listing(*kinds: int, version: int = 1) -> Case:
    return Case("list_config_resources", {"resource_types": list(kinds)} if version else {}, version)


T, B, ALL = (TOPIC, "orders"), (BROKER, "1"), (BROKER, "")

CASES = [
    describe(T), describe(B), describe(ALL), describe(T, (*B, ["log.dirs", "ssl.key.password", "num.partitions"]), ALL, version=1), describe(T, synonyms=False, version=2),
    describe((TOPIC, "orders", ["retention.ms", "nosuch", "internal.segment.bytes"])),
    describe((BROKER, "1", ["log.dirs", "log.dir", "node.id", "broker.id", "nosuch", "unknown.thing", "log.roll.hours"])),
    describe((TOPIC, "orders", []), version=3),
    describe((TOPIC, "nosuch")), describe((TOPIC, "no/such")), describe((TOPIC, "")), describe((TOPIC, "..")), describe((TOPIC, "a" * 250)),
    describe((BROKER, "2")), describe((BROKER, "x")), describe((BROKER, "+1", ["num.partitions"])), describe((BROKER, "-1")),
    describe((LOGGER, "")), describe((LOGGER, "2")), describe((LOGGER, "x")), describe((LOGGER, "1", ["nosuch"])),
    describe((CLIENT_METRICS, "")), describe((CLIENT_METRICS, "sub")), describe((GROUP, "")), describe((GROUP, "g")),
    describe((0, "x")), describe((1, "x")), describe((77, "x")), describe((-1, "x"), T),
    describe(), describe(T, T, version=4, synonyms=False),
    # topics: one configuration
    one(*T, "retention.ms", SET, "1000"), describe((*T, ["retention.ms"])),
    one(*T, "retention.ms", SET, " +2000 "), describe((*T, ["retention.ms"])),
    one(*T, "preallocate", SET, "TRUE"), describe((*T, ["preallocate"])),
    one(*T, "cleanup.policy", APPEND, "compact"), describe((*T, ["cleanup.policy"])),
    one(*T, "cleanup.policy", SUBTRACT, "delete"), describe((*T, ["cleanup.policy"])),
    one(*T, "cleanup.policy", SUBTRACT, "compact"), describe((*T, ["cleanup.policy"])),
    one(*T, "cleanup.policy", APPEND, "compact,delete"), describe((*T, ["cleanup.policy"])),
    one(*T, "cleanup.policy", SET, "compact,compact"), describe((*T, ["cleanup.policy"])),
    one(*T, "cleanup.policy", SET, ""), describe((*T, ["cleanup.policy"])),
    one(*T, "cleanup.policy", SET, "compact,"), one(*T, "cleanup.policy", SET, "compact , delete"), describe((*T, ["cleanup.policy"])),
    one(*T, "cleanup.policy", DELETE, None), describe((*T, ["cleanup.policy"])),
    one(*T, "cleanup.policy", DELETE, "ignored"), one(*T, "cleanup.policy", APPEND, "nonsense"),
    one(*T, "leader.replication.throttled.replicas", APPEND, "0:1,1:1"), one(*T, "leader.replication.throttled.replicas", APPEND, "x"),
    one(*T, "leader.replication.throttled.replicas", SET, "*"), one(*T, "leader.replication.throttled.replicas", SET, "0:1,0:1"),
    describe((*T, ["leader.replication.throttled.replicas"])),
    one(*T, "retention.ms", APPEND, "1"), one(*T, "retention.ms", SUBTRACT, "1"), one(*T, "nosuch", APPEND, "1"),
    one(*T, "nosuch", SET, "1"), one(*T, "nosuch", DELETE, None), one(*T, "retention.ms", SET, None),
    one(*T, "retention.ms", SET, "x"), one(*T, "retention.ms", SET, ""), one(*T, "retention.ms", SET, "-2"),
    one(*T, "retention.ms", SET, "9223372036854775808"), one(*T, "segment.bytes", SET, "1"),
    one(*T, "internal.segment.bytes", SET, "1000"), describe((*T, ["internal.segment.bytes", "segment.bytes"])),
    one(*T, "internal.segment.bytes", DELETE, None),
    one(*T, "compression.type", SET, "lzma"), one(*T, "compression.gzip.level", SET, "0"),
    one(*T, "compression.zstd.level", SET, "23"), one(*T, "compression.lz4.level", SET, "0"),
    one(*T, "min.cleanable.dirty.ratio", SET, "1.5"), one(*T, "min.cleanable.dirty.ratio", SET, "abc"),
    one(*T, "min.cleanable.dirty.ratio", SET, "0.00001"), describe((*T, ["min.cleanable.dirty.ratio"])),
    one(*T, "min.cleanable.dirty.ratio", SET, "1e-1f"), describe((*T, ["min.cleanable.dirty.ratio"])),
    one(*T, "min.insync.replicas", SET, "0"), one(*T, "min.insync.replicas", SET, "2"), describe((*T, ["min.insync.replicas"])),
    one(*T, "preallocate", SET, "yes"), one(*T, "message.timestamp.type", SET, "createtime"),
    one(*T, "max.compaction.lag.ms", SET, "0"), one(*T, "remote.storage.enable", SET, "true"),
    change((*T, [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")])),
    change((*T, [("retention.bytes", SET, "5"), ("local.retention.bytes", SET, "6")])),
    one(*T, "flush.ms", SET, "5", validate_only=True), describe((*T, ["flush.ms", "flush.messages"])),
    one(*T, "follower.replication.throttled.replicas", SET, "10000:1," * 4000 + "1:1"),
    one(*T, "follower.replication.throttled.replicas", APPEND, ",".join(f"{number}:1" for number in range(20000, 20100))),
    one(*T, "follower.replication.throttled.replicas", SUBTRACT, "10000:1,1:1,7:7"), one(*T, "follower.replication.throttled.replicas", DELETE, None),
    one(*T, "cleanup.policy", APPEND, ",,"), one(*T, "cleanup.policy", SUBTRACT, ""), one(*T, "cleanup.policy", DELETE, None),
    change((*T, [("retention.ms", 4, "1")]), (TOPIC, "other", [("flush.ms", SET, "1")])),
    change((*T, [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)])),
    change((*T, [("retention.ms", SET, None), ("flush.ms", APPEND, None)])),
    change((*T, [("retention.ms", SET, "1")]), (*T, [("flush.ms", SET, "1")]), (TOPIC, "other", [("flush.ms", SET, "1")])),
    change((TOPIC, "nosuch", [("flush.ms", SET, "1")]), (TOPIC, "", [("flush.ms", SET, "1")]), (TOPIC, "a/b", [("flush.ms", SET, "1")])),
    change((TOPIC, "nosuch", [("flush.ms", SET, "x")]), (TOPIC, "nosuch", [])), change((TOPIC, "nosuch", [])), change((*T, [])),
    change((*T, [("flush.ms", SET, "7")]), (TOPIC, "other", [("flush.ms", SET, "x")]), version=0), describe((*T, ["flush.ms"])),
    change(), change((0, "x", [])), change((1, "x", [])), change((77, "x", [("a", SET, "b")])),
    # topics: all configurations at once
    replace((*T, {"retention.ms": "3000", "flush.ms": "8"})), describe(T),
    replace((*T, {"retention.ms": "3000", "flush.ms": "x"})), replace((*T, {"retention.ms": None})), replace((*T, {"nosuch": "1"})),
    replace((*T, {"flush.ms": "9"}), validate_only=True), describe((*T, ["flush.ms"]), version=1),
    replace((*T, {}), (TOPIC, "nosuch", {"flush.ms": "1"}), version=0), describe((*T, ["flush.ms"])),
    replace((0, "x", {})), replace((77, "x", {})), replace((LOGGER, "1", {"root": "INFO"})),
    replace((TOPIC, "", {"flush.ms": "1"})), replace(),
    # brokers
    one(*B, "num.io.threads", SET, "12"), describe((*B, ["num.io.threads"])), one(*B, "num.io.threads", SET, "100"),
    one(*B, "num.io.threads", SET, "2"), one(*B, "num.io.threads", SET, "0"), one(*B, "num.io.threads", SET, "x"),
    one(*ALL, "num.io.threads", SET, "9"), describe((*B, ["num.io.threads"]), (*ALL, ["num.io.threads"])),
    one(*B, "num.io.threads", DELETE, None), describe((*B, ["num.io.threads"]), ALL),
    one(*ALL, "num.io.threads", DELETE, None), describe((*B, ["num.io.threads"]), ALL),
    one(*B, "num.network.threads", SET, "100"), one(*B, "num.network.threads", SET, "4"), one(*B, "background.threads", SET, "1"),
    one(*B, "num.replica.fetchers", SET, "4"), one(*B, "num.recovery.threads.per.data.dir", SET, "5"),
    one(*B, "log.cleaner.threads", SET, "3"), one(*B, "log.cleaner.threads", SET, "0"), one(*B, "log.cleaner.threads", SET, "2"),
    one(*ALL, "log.retention.ms", SET, "5000"), describe((*B, ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]), (*T, ["retention.ms"])),
    one(*B, "log.retention.ms", SET, "6000"), describe((*B, ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]), (*T, ["retention.ms"])),
    one(*ALL, "log.roll.ms", SET, "7000"), describe((*B, ["log.roll.ms", "log.roll.hours"]), (*T, ["segment.ms"])),
    one(*ALL, "log.roll.hours", SET, "7"), one(*ALL, "log.retention.hours", SET, "7"),
    one(*ALL, "log.flush.interval.ms", SET, "123"), describe((*B, ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]), (*T, ["flush.ms"])),
    one(*ALL, "log.cleanup.policy", APPEND, "delete"), one(*ALL, "log.cleanup.policy", SUBTRACT, "delete"),
    describe((*B, ["log.cleanup.policy"]), (*T, ["cleanup.policy"])), one(*ALL, "log.cleanup.policy", APPEND, "nonsense"),
    one(*ALL, "log.cleanup.policy", SET, "delete,delete"), describe((*B, ["log.cleanup.policy"]), (*ALL, ["log.cleanup.policy"])),
    one(*ALL, "log.local.retention.ms", SET, "999999"), one(*ALL, "log.local.retention.bytes", SET, "-1"), one(*ALL, "log.local.retention.ms", SET, "-3"),
    one(*B, "log.cleaner.dedupe.buffer.size", SET, "1000"), one(*B, "message.max.bytes", SET, "-1"),
    one(*ALL, "message.max.bytes", SET, "2000000"), describe((*B, ["message.max.bytes"]), (*T, ["max.message.bytes"])),
    one(*B, "compression.type", SET, "lzma"), one(*B, "log.cleaner.min.cleanable.ratio", SET, "2"), one(*B, "log.cleaner.io.max.bytes.per.second", SET, "1e9"),
    describe((*B, ["log.cleaner.io.max.bytes.per.second", "log.cleaner.min.cleanable.ratio"])),
    one(*B, "node.id", SET, "2"), one(*B, "node.id", DELETE, None), one(*B, "num.partitions", SET, "2"), one(*ALL, "log.dirs", SET, "/x"),
    one(*ALL, "listeners", SET, "PLAINTEXT://:1"), one(*ALL, "sasl.jaas.config", SET, "x"), one(*B, "ssl.keystore.location", SET, "/x"),
    one(*ALL, "listener.name.external.ssl.keystore.location", SET, "/x"), one(*B, "listener.name.external.ssl.keystore.password", SET, "hush"),
    one(*B, "listener.name.external.ssl.keystore.location", SET, "/x"),
    describe((*B, ["listener.name.external.ssl.keystore.password", "ssl.keystore.password", "listener.name.external.ssl.keystore.location"])),
    one(*ALL, "listener.name.plaintext.max.connections", SET, "10"), describe((*B, ["listener.name.plaintext.max.connections", "max.connections"])),
    one(*B, "custom.thing", SET, "1"), one(*ALL, "custom.thing", SET, "2"), describe((*B, ["custom.thing"]), (*ALL, ["custom.thing"])),
    one(*B, "custom.thing", APPEND, "1"), one(*B, "num.io.threads", APPEND, "1"), one(*B, "num.io.threads", SUBTRACT, "1"),
    one(*B, "leader.replication.throttled.rate", SET, "1000"), one(*B, "leader.replication.throttled.rate", SET, "-1"),
    describe((*B, ["leader.replication.throttled.rate", "follower.replication.throttled.rate"])),
    one(*ALL, "follower.replication.throttled.rate", SET, "1000"), describe((*B, ["follower.replication.throttled.rate"])),
    one(*B, "min.insync.replicas", SET, "1"), one(*ALL, "min.insync.replicas", DELETE, None), one(*ALL, "min.insync.replicas", SET, "2"),
    describe((*B, ["min.insync.replicas"]), (*ALL, ["min.insync.replicas"]), (*T, ["min.insync.replicas"])), one(*ALL, "min.insync.replicas", SET, "1"),
    one(*B, "producer.id.expiration.ms", SET, "0"), one(*B, "producer.id.expiration.ms", SET, "1000"), one(*B, "max.connections.per.ip", SET, "0"),
    one(*B, "max.connections.per.ip.overrides", SET, "127.0.0.1:5"), one(*B, "max.connections.per.ip.overrides", SET, "nosuchhost.invalid:5"),
    one(*B, "max.connections.per.ip.overrides", SET, "127.0.0.1"), one(*B, "max.connections.per.ip.overrides", SET, "127.0.0.1:x"),
    one(*B, "cordoned.log.dirs", SET, "/nosuch"), one(*B, "cordoned.log.dirs", SET, "*,x"), one(*ALL, "cordoned.log.dirs", SET, "*"),
    one(*B, "unclean.leader.election.enable", SET, "maybe"), one(*B, "group.consumer.assignment.interval.ms", SET, "99999"),
    describe((*B, ["group.consumer.assignment.interval.ms"])), one(*B, "group.coordinator.cached.buffer.max.bytes", SET, "1"),
    one(*B, "remote.log.reader.threads", SET, "100"), one(*B, "remote.fetch.max.wait.ms", SET, "0"), one(*B, "metric.reporters", SET, "nosuch.Class"),
    one(*B, "transaction.partition.verification.enable", SET, "false"), one(*B, "num.io.threads", 9, "8"), one(*B, "num.io.threads", SET, None),
    change((*B, [("log.segment.bytes", SET, "1048576")]), (*ALL, [("log.segment.bytes", SET, "1")]), (BROKER, "7", [("log.segment.bytes", SET, "1048576")]), (BROKER, "x", [])),
    describe((*B, ["log.segment.bytes"])), one(*B, "log.index.interval.bytes", SET, "5", validate_only=True), describe((*B, ["log.index.interval.bytes"])),
    replace((*ALL, {"log.segment.bytes": "2097152"})), replace((*ALL, {"log.segment.bytes": "2097152", "min.insync.replicas": "1"})), describe(ALL),
    replace((*B, {"num.partitions": "2"})), replace((*B, {"log.preallocate": "true"})), describe((*B, ["log.preallocate", "log.segment.bytes"]), ALL),
    replace((*B, {})), describe(B), replace((BROKER, "2", {})), replace((BROKER, "x", {})),
    # groups
    one(GROUP, "g", "consumer.session.timeout.ms", SET, "50000"), describe((GROUP, "g")), one(GROUP, "g", "consumer.session.timeout.ms", SET, "1"),
    one(GROUP, "g", "consumer.session.timeout.ms", SET, "99999999"), one(GROUP, "g", "consumer.heartbeat.interval.ms", SET, "1"),
    one(GROUP, "g", "consumer.heartbeat.interval.ms", SET, "99999999"), one(GROUP, "g", "consumer.session.timeout.ms", SET, "x"),
    one(GROUP, "g", "nosuch", SET, "x"), one(GROUP, "", "consumer.session.timeout.ms", SET, "50000"), one(GROUP, "g", "share.auto.offset.reset", SET, "earliest"),
    one(GROUP, "g", "share.auto.offset.reset", SET, "never"), one(GROUP, "g", "share.auto.offset.reset", SET, "by_duration:PT1H"),
    one(GROUP, "g", "share.auto.offset.reset", SET, "by_duration:-PT1H"), one(GROUP, "g", "share.auto.offset.reset", SET, "by_duration:P1X"),
    one(GROUP, "g", "share.isolation.level", SET, "serial"), one(GROUP, "g", "share.isolation.level", SET, "read_committed"),
    one(GROUP, "g", "share.session.timeout.ms", SET, "1"), one(GROUP, "g", "share.record.lock.duration.ms", SET, "1000"), one(GROUP, "g", "share.record.lock.duration.ms", SET, "1"),
    one(GROUP, "g", "share.delivery.count.limit", SET, "99"), one(GROUP, "g", "share.partition.max.record.locks", SET, "9999"),
    one(GROUP, "g", "share.heartbeat.interval.ms", SET, "1"), one(GROUP, "g", "share.assignment.interval.ms", SET, "99999"),
    one(GROUP, "g", "consumer.assignment.interval.ms", SET, "99999"),
    one(GROUP, "g", "streams.num.standby.replicas", SET, "9"), one(GROUP, "g", "streams.session.timeout.ms", SET, "9"), one(GROUP, "g", "streams.heartbeat.interval.ms", SET, "999999"),
    one(GROUP, "g", "streams.assignment.interval.ms", SET, "99999"), one(GROUP, "g", "streams.initial.rebalance.delay.ms", SET, "-1"),
    one(GROUP, "g", "consumer.session.timeout.ms", APPEND, "1"), one(GROUP, "g", "consumer.assignor.offload.enable", SET, "true"),
    describe((GROUP, "g"), (GROUP, "h", ["consumer.session.timeout.ms", "nosuch"])), replace((GROUP, "h", {"consumer.heartbeat.interval.ms": "6000"})),
    # client metrics
    one(CLIENT_METRICS, "sub", "interval.ms", SET, "1000"), describe((CLIENT_METRICS, "sub")), one(CLIENT_METRICS, "sub", "interval.ms", SET, "1"),
    one(CLIENT_METRICS, "sub", "interval.ms", SET, "3600001"), one(CLIENT_METRICS, "sub", "interval.ms", SET, "x"),
    one(CLIENT_METRICS, "sub", "nosuch", SET, "x"), one(CLIENT_METRICS, "", "interval.ms", SET, "1000"), one(CLIENT_METRICS, "sub", "metrics", SET, "a,b"),
    one(CLIENT_METRICS, "sub", "metrics", APPEND, "c"), one(CLIENT_METRICS, "sub", "metrics", SUBTRACT, "a"), one(CLIENT_METRICS, "sub", "match", SET, "client_id=x.*"),
    one(CLIENT_METRICS, "sub", "match", SET, "client_id"), one(CLIENT_METRICS, "sub", "match", SET, "nosuch=x"), one(CLIENT_METRICS, "sub", "match", SET, "client_id=("),
    one(CLIENT_METRICS, "sub", "metrics", SET, "a,,b"), describe((CLIENT_METRICS, "sub"), (CLIENT_METRICS, "other", ["match"]), synonyms=False),
    # loggers
    one(LOGGER, "1", "nosuch", SET, "INFO"), one(LOGGER, "2", "root", SET, "INFO"), one(LOGGER, "x", "root", SET, "INFO"),
    one(LOGGER, "1", "root", APPEND, "INFO"), one(LOGGER, "1", "root", SUBTRACT, "INFO"),
    # listing
    listing(), listing(version=0), listing(GROUP), listing(TOPIC), listing(BROKER, LOGGER), listing(0), listing(1), listing(TOPIC, 77),
    # changed back: gone from the listing
    replace((CLIENT_METRICS, "sub", {}), (GROUP, "g", {}), (GROUP, "h", {})), listing(GROUP, CLIENT_METRICS), listing(version=0),
]  # fmt: skip


def entity(kind: type, values: Plain) -> Any:
    """A kio object of those values."""
    hints = typing.get_type_hints(kind)

    def convert(value: Any, hint: Any) -> Any:
        if isinstance(value, list):
            inner = next(each for each in (hint, *typing.get_args(hint)) if typing.get_origin(each) is tuple)
            return tuple(convert(each, typing.get_args(inner)[0]) for each in value)
        return entity(hint, value) if isinstance(value, dict) else value

    return kind(**{name: convert(value, hints[name]) for name, value in values.items()})


def plain(value: Any) -> Any:
    """Return a kio response as JSON values, sorted by name where Kafka has no order."""
    if dataclasses.is_dataclass(value):
        each = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        each.pop("throttle_time", None)
        return each
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if isinstance(value, (bool, str, type(None))) else int(value)


def in_order(case: Case, answer: Plain) -> Plain:
    """Return the response with a fixed order where hash tables decide it."""
    if case.api == "describe_configs":
        for result in answer["results"]:
            result["configs"].sort(key=lambda config: config["name"])
    if case.api == "list_config_resources":
        answer["config_resources"].sort(key=lambda each: (each.get("resource_type", 0), each["resource_name"]))
    return answer


def ask(connection: socket.socket, case: Case) -> Plain:
    """Send one request and read its answer."""
    module = import_module(f"kio.schema.{case.api}.v{case.version}")
    name = "".join(word.capitalize() for word in case.api.split("_"))
    request_type, response_type = getattr(module, f"{name}Request"), getattr(module, f"{name}Response")
    body = io.BytesIO()
    entity_writer(request_type)(body, entity(request_type, case.request))
    header = struct.pack(">hhih", KEYS[case.api], case.version, 1, 0) + (b"\0" if request_type.__flexible__ else b"")
    frame = header + body.getvalue()
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    answer = _read(connection, struct.unpack(">i", _read(connection, 4))[0])
    response, _ = entity_reader(response_type)(memoryview(answer), 5 if request_type.__flexible__ else 4)
    found: Plain = plain(response)
    return in_order(case, found)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, "the broker closed the connection"
        data += more
    return data
