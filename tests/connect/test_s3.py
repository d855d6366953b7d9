"""The S3 sink on moto's server: keys and contents of objects, when files are closed, what is uploaded again."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

import fastavro
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from kcli.connect.builtin import built_in
from kcli.connect.connectors.s3 import sink
from kcli.connect.connectors.s3.sink import S3Sink
from kcli.connect.data.builder import array_schema, map_schema, struct_schema
from kcli.connect.data.errors import ConnectError, DataError, RetriableError
from kcli.connect.data.logical import DATE, OPTIONAL_TIMESTAMP, decimal_schema
from kcli.connect.data.records import SinkRecord
from kcli.connect.data.schema import BYTES, INT32, INT64, OPTIONAL_STRING, STRING, Schema
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date
from kcli.connect.engine.tasks import SinkContext
from kcli.connect.worker.validation import Defaults, validate
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.turns import turn
from tests.tier.s3 import Fault, Proxy, client, http, new_bucket, pass_on, s3_server

FORMAT = "io.confluent.connect.s3.format"
PARTITIONER = "io.confluent.connect.storage.partitioner"
HOUR_MS = 3_600_000
PLACE = TopicPartition("orders", 0)
ORDER = struct_schema([("id", INT64), ("what", OPTIONAL_STRING)], name="order")


@pytest.fixture(autouse=True)
def stopping() -> Iterator[None]:
    """Stop a test's tasks."""
    yield
    while Task.made:
        Task.made.pop().stop()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


class Bucket:
    """A bucket, and the configuration of a sink to it."""

    def __init__(self, server: str, endpoint: str | None = None) -> None:
        self._client, self.name = client(server), new_bucket(server)
        self.config = {
            "s3.bucket.name": self.name,
            "s3.region": "us-east-1",
            "store.url": endpoint or server,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": f"{FORMAT}.json.JsonFormat",
            "flush.size": "3",
            "s3.part.retries": "0",
        }

    def objects(self) -> dict[str, bytes]:
        listed = self._client.list_objects_v2(Bucket=self.name).get("Contents", [])
        return {
            each["Key"]: self._client.get_object(Bucket=self.name, Key=each["Key"])["Body"].read() for each in listed
        }


@pytest.fixture
def bucket(server: str) -> Bucket:
    return Bucket(server)


class Task:
    """A task that is given records as the engine gives them, at offsets from `first` on. made: all of a test."""

    made: ClassVar[list[S3Sink.TASK]] = []

    def __init__(self, config: Mapping[str, str], first: int = 0, state: Mapping[Any, Any] | None = None) -> None:
        self.task, self.offset = S3Sink.TASK(), first
        self.made.append(self.task)
        self.context = SinkContext("out", state=state)
        self.task.start(config, self.context)
        self.task.open([PLACE])

    def put(self, *values: Any, schema: Schema | None = None, timestamp: int = 0) -> None:
        records = []
        for value in values:
            own = value.schema if isinstance(value, Struct) else schema
            records.append(
                SinkRecord(
                    topic="orders", partition=0, value_schema=own, value=value, offset=self.offset, timestamp=timestamp
                )
            )
            self.offset += 1
        self.task.put(records)

    def flush(self) -> int:
        return self.task.flush({PLACE: self.offset})[PLACE]


def order(number: int, what: str | None = None) -> Struct:
    return Struct(ORDER).put("id", number).put("what", what)


def key(offset: int, ending: str = ".json", directory: str = "partition=0") -> str:
    return f"topics/orders/{directory}/orders+0+{offset:010}{ending}"


def test_json(bucket: Bucket) -> None:
    """Each three records are an object; what is open is not committed, and closes the same object after a start."""
    task = Task(bucket.config, 7)
    task.put(order(1), order(2, "x"), order(3), order(4))
    assert bucket.objects() == {
        key(7): b'{"id":1,"what":null}\n{"id":2,"what":"x"}\n{"id":3,"what":null}\n',
    }
    assert task.flush() == 10
    rest = task.task.rest({PLACE: 11})
    assert (rest.ends, rest.until_s) == ({PLACE: 12}, None)
    again = Task(bucket.config, 10)
    again.put(order(4), order(5))
    assert again.flush() == 10
    again.put(order(6))
    assert again.flush() == 13
    assert sorted(bucket.objects()) == [key(7), key(10)]
    assert [json.loads(line)["id"] for line in bucket.objects()[key(10)].splitlines()] == [4, 5, 6]


def test_names_and_values_without_a_schema(bucket: Bucket) -> None:
    more = {"topics.dir": "", "file.delim": "-", "filename.offset.zero.pad.width": "3", "s3.compression.type": "gzip"}
    task = Task({**bucket.config, **more})
    task.put({"a": [1, None]}, "text", 1.5)
    assert {name: gzip.decompress(data) for name, data in bucket.objects().items()} == {
        "orders/partition=0/orders-0-000.json.gz": b'{"a":[1,null]}\n"text"\n1.5\n'
    }


def test_bytes(bucket: Bucket) -> None:
    more = {"format.class": f"{FORMAT}.bytearray.ByteArrayFormat", "format.bytearray.separator": "|"}
    task = Task({**bucket.config, **more})
    task.put(b"a", b"\0", b"c", schema=BYTES)
    assert bucket.objects() == {key(0, ".bin"): b"a|\0|c|"}
    with pytest.raises(DataError, match="orders-0, offset 3: ByteArrayFormat needs values of bytes"):
        task.put("text", schema=STRING)


WIDE = struct_schema(
    [
        ("id", INT32),
        ("price", decimal_schema(2)),
        ("day", DATE),
        ("at", OPTIONAL_TIMESTAMP),
        ("tags", array_schema(STRING)),
        ("by", map_schema(STRING, INT64, optional=True)),
        ("order", ORDER),
        ("text", Schema(STRING.type, default="d")),
    ],
    name="wide",
)


def wide() -> Struct:
    from decimal import Decimal

    value = Struct(WIDE).put("id", 1).put("price", Decimal("1.50")).put("day", Date(86_400_000)).put("at", Date(5))
    return value.put("tags", ["a", "b"]).put("by", {"k": 2}).put("order", order(3, "y"))


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_files_with_a_schema(bucket: Bucket, kind: str) -> None:
    name = {"avro": "AvroFormat", "parquet": "ParquetFormat"}[kind]
    task = Task({**bucket.config, "format.class": f"{FORMAT}.{kind}.{name}", "avro.codec": "snappy"})
    task.put(wide(), wide(), wide())
    ((found, data),) = bucket.objects().items()
    assert found == key(0, {"avro": ".avro", "parquet": ".snappy.parquet"}[kind])
    if kind == "avro":
        rows = [*fastavro.reader(io.BytesIO(data))]
    else:
        rows = pq.read_table(io.BytesIO(data)).to_pylist()
        rows[0]["by"] = dict(rows[0]["by"])
    assert len(rows) == 3
    assert (rows[0]["id"], str(rows[0]["price"]), rows[0]["day"].isoformat()) == (1, "1.50", "1970-01-02")
    assert rows[0]["at"] == datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)
    assert (rows[0]["tags"], rows[0]["by"], rows[0]["order"]) == (["a", "b"], {"k": 2}, {"id": 3, "what": "y"})
    assert rows[0]["text"] == "d"
    with pytest.raises(DataError, match=r"orders-0, offset 3: \w+Format needs values"):
        task.put({"no": "schema"})


def test_another_schema_closes_files(bucket: Bucket) -> None:
    task = Task(bucket.config)
    other = struct_schema([("id", INT64)])
    task.put(order(1), Struct(other).put("id", 2), Struct(other).put("id", 3))
    assert sorted(bucket.objects()) == [key(0)]
    assert task.flush() == 1


def test_fields_name_directories(bucket: Bucket) -> None:
    """flush.size counts the records of the partition, whose files are closed together."""
    more = {"partitioner.class": f"{PARTITIONER}.FieldPartitioner", "partition.field.name": "what,in.n"}
    task = Task({**bucket.config, **more})
    values = [{"what": what, "in": {"n": 1}} for what in ("a", "b", "a", "b")]
    task.put(*values)
    assert sorted(bucket.objects()) == [key(0, directory="what=a/in.n=1"), key(1, directory="what=b/in.n=1")]
    assert task.flush() == 3
    with pytest.raises(DataError, match=r"orders-0, offset 4: the value has no field in\.n"):
        task.put({"what": "a"})
    for wrong in (1.5, None):
        with pytest.raises(DataError, match="field what of the value is no number, text or boolean"):
            Task({**bucket.config, **more}).put({"what": wrong, "in": {"n": 1}})
    with pytest.raises(ConnectError, match="no object can have this name"):
        Task({**bucket.config, **more}).put(*[{"what": "a//x", "in": {"n": 1}}] * 3)


def test_hours_of_records(bucket: Bucket) -> None:
    """A record of another hour closes the files; so does one that is rotate.interval.ms later."""
    more = {
        "partitioner.class": f"{PARTITIONER}.TimeBasedPartitioner",
        "path.format": "'y'=YYYY/MM/dd/HH 'o''clock'",
        "partition.duration.ms": str(HOUR_MS),
        "timezone": "Asia/Kolkata",
        "locale": "en",
        "timestamp.extractor": "Record",
        "rotate.interval.ms": "60000",
        "flush.size": "100",
    }
    task = Task({**bucket.config, **more})
    start_ms = 18 * HOUR_MS + HOUR_MS // 2 - 1  # the last ms of 1970-01-01 in India
    task.put(order(1), timestamp=start_ms)
    task.put(order(2), timestamp=start_ms + 1)
    task.put(order(3), timestamp=start_ms + 60_000)
    task.put(order(4), timestamp=start_ms + 60_001)
    assert sorted(bucket.objects()) == [
        key(0, directory="y=1970/01/01/23 o'clock"),
        key(1, directory="y=1970/01/02/00 o'clock"),
    ]
    assert task.flush() == 3


def test_times_in_fields(bucket: Bucket) -> None:
    more = {
        "partitioner.class": f"{PARTITIONER}.DailyPartitioner",
        "timezone": "UTC",
        "timestamp.extractor": "RecordField",
        "timestamp.field": "at",
    }
    task = Task({**bucket.config, **more})
    task.put({"at": "1999-12-31T23:59:59Z"}, {"at": 86_400_000}, {"at": 86_400_001})
    assert sorted(bucket.objects()) == [
        key(1, directory="year=1970/month=01/day=02"),
        key(0, directory="year=1999/month=12/day=31"),
    ]
    with pytest.raises(DataError, match="offset 3: field at of the value is no time: 'x'"):
        task.put({"at": "x"})
    with pytest.raises(DataError, match="is no time of the years"):
        task.put({"at": 1 << 62})


def test_a_schedule_holds_from_turn_to_turn(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is closed at the time that its first turn has found, with all records that were read before."""
    now_ms = 1_000 * HOUR_MS + 10_000
    monkeypatch.setattr(sink, "_now_ms", lambda: now_ms)
    config = {**bucket.config, "rotate.schedule.interval.ms": str(HOUR_MS), "flush.size": "100"}
    task = Task(config)
    task.put(order(1), order(2))
    assert task.flush() == 0
    rest = task.task.rest({PLACE: 2})
    assert (rest.until_s, rest.ends) == (1_001 * HOUR_MS / 1000, {PLACE: 2 + 97})
    now_ms = 1_001 * HOUR_MS
    later = Task(config, state=task.context.state)
    later.put(order(1))
    assert later.flush() == 0
    later.put(order(2))
    later.put(order(3))
    assert sorted(bucket.objects()) == [key(0)]
    assert len(bucket.objects()[key(0)].splitlines()) == 2
    assert later.flush() == 2
    now_ms = 1_002 * HOUR_MS
    assert later.flush() == 3
    assert later.task.rest({PLACE: 3}).ends == {PLACE: 3}


def test_records_without_a_value(bucket: Bucket) -> None:
    with pytest.raises(ConnectError, match="orders-0, offset 1: Null valued records are not writeable"):
        Task(bucket.config).put(order(1), None)
    task = Task({**bucket.config, "behavior.on.null.values": "IGNORE"})
    task.put(None)
    assert task.flush() == 1
    task.put(order(1), None, order(2), None)
    assert task.flush() == 1
    task.put(order(3))
    assert list(bucket.objects()) == [key(1)]


def refusing(status: str) -> Fault:
    return lambda _, __: iter([http(status)])


def test_a_bucket_that_is_away(server: str) -> None:
    """The same records come again after the error; each is in the object once."""
    proxy = Proxy(server)
    bucket = Bucket(server, proxy.endpoint)
    task = Task(bucket.config)
    for status in ("503 Slow Down", "429 Too Many Requests"):
        proxy.fault = refusing(status)
        task.offset = 0
        with pytest.raises(RetriableError, match=r"answers HTTP (503|429)"):
            task.put(*map(order, range(5)))
        assert task.flush() == 0
    rest = task.task.rest({PLACE: 5})
    assert rest.until_s is not None
    proxy.fault = pass_on
    task.offset = 0
    task.put(*map(order, range(5)))
    assert task.flush() == 3
    assert [json.loads(line)["id"] for line in bucket.objects()[key(0)].splitlines()] == [0, 1, 2]
    proxy.close()
    with pytest.raises(RetriableError, match="cannot connect"):
        task.put(order(6))
    gone = Task({**bucket.config, "store.url": server, "s3.bucket.name": "no-such-bucket"})
    with pytest.raises(ConnectError, match="no such bucket"):
        gone.put(*map(order, range(3)))


def test_a_turn_lasts_while_much_is_open(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "MIDWAY", 2)
    task = Task(bucket.config)
    task.put(order(1))
    assert not task.task.is_midway()
    task.put(order(2))
    assert task.task.is_midway()
    task.put(order(3), order(4), order(5))
    assert not task.task.is_midway()


def errors(more: Mapping[str, str]) -> dict[str, list[str]]:
    base = {"name": "out", "connector.class": S3Sink.CLASS, "topics": "orders", "s3.bucket.name": "b"}
    base |= {"flush.size": "3", "format.class": f"{FORMAT}.json.JsonFormat"}
    found = validate(built_in(), {**base, **more}, Defaults()).configs
    return {value.name: list(value.errors) for _, value in found if value is not None and value.errors}


@pytest.mark.parametrize(
    ("more", "option", "reason"),
    [
        ({"flush.size": "0"}, "flush.size", "at least 1"),
        ({"format.class": "io.confluent.connect.s3.format.json.XmlFormat"}, "format.class", "could not be found"),
        ({"partitioner.class": f"{PARTITIONER}.FieldPartitioner"}, "partition.field.name", "needs the fields' names"),
        ({"partitioner.class": f"{PARTITIONER}.HourlyPartitioner"}, "timezone", "needs a time zone"),
        (
            {"partitioner.class": f"{PARTITIONER}.TimeBasedPartitioner", "timezone": "UTC"},
            "path.format",
            "needs a format",
        ),
        ({"path.format": "YYYY-MMM"}, "path.format", "kcli has no 'MMM' there"),
        ({"path.format": "'open"}, "path.format", "a quote is not closed"),
        ({"timezone": "Mars/Olympus"}, "timezone", "there is no such time zone"),
        ({"rotate.interval.ms": "1000"}, "rotate.interval.ms", "needs a partitioner by time"),
        ({"schema.compatibility": "BACKWARD"}, "schema.compatibility", "kcli has no other value than the default"),
        ({"behavior.on.null.values": "write"}, "behavior.on.null.values", "FAIL, IGNORE"),
        ({"s3.acl.canned": "private"}, "s3.acl.canned", "kcli has no other value than the default, 'null'"),
        ({"store.kafka.keys": "true"}, "store.kafka.keys", "kcli has no other value than the default, 'false'"),
        ({"aws.access.key.id": "a"}, "aws.secret.access.key", "go together"),
        (
            {"format.class": f"{FORMAT}.avro.AvroFormat", "s3.compression.type": "gzip"},
            "s3.compression.type",
            "gzip is for JSON and bytes",
        ),
    ],
)
def test_what_is_refused(more: dict[str, str], option: str, reason: str) -> None:
    assert errors({}) == {}
    found = errors(more)
    assert reason in found[option][0]


def test_turns(bucket: Bucket, kafka: Kafka) -> None:
    """A turn that is lost, and one that reads on, give the objects that one turn would have given."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def produce(first: int, end: int) -> None:
        for number in range(first, end):
            producer.produce("orders", f"v{number}")
        producer.flush()

    produce(0, 7)
    config = {"name": "out", "connector.class": "S3SinkConnector", "topics": "orders", **bucket.config}
    lost = turn(kafka, config)
    assert (lost.trace, lost.positions) == (None, {PLACE: 6})
    first = turn(kafka, config)
    assert (first.trace, first.positions, first.records) == (None, {PLACE: 6}, 7)
    assert first.rest.ends == {PLACE: 8}
    produce(7, 10)
    second = turn(kafka, config, positions=first.positions, state=first.state)
    assert (second.trace, second.positions) == (None, {PLACE: 9})
    lines = [line for _, data in sorted(bucket.objects().items()) for line in data.splitlines()]
    assert lines == [f'"v{number}"'.encode() for number in range(9)]
    assert sorted(bucket.objects()) == [key(0), key(3), key(6)]
