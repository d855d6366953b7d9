"""Confluent's wire format: schemas by id from a registry over HTTP, or from a dump of one."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kcli.errors import UsageError
from kcli.export.decoding import DecoderSpec, RegistryError, SchemaError, Survey, make_decoder, survey
from kcli.schema_client import http, registry
from kcli.schema_client.http import Access
from kcli.schema_client.sources import Reference
from tests.export.decoding.orders import encoded

V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "who", "type": "string"}]}
V2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "type": ["null", "double"]},
        {"name": "who", "type": "string"},
    ],
}
MONEY = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
PAID = {"type": "record", "name": "Paid", "fields": [{"name": "sum", "type": "shop.Money"}]}
MONEY_PROTO = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
SALE_PROTO = (
    'syntax = "proto3"; package shop; import "shop/money.proto"; message First { int32 a = 1; }'
    "message Sale { message Line { string what = 1; } Money total = 1; }"
)

# What `curl REGISTRY/schemas` gives.
SCHEMAS: list[dict[str, Any]] = [
    {"subject": "orders-value", "version": 1, "id": 1, "schema": json.dumps(V1)},
    {"subject": "orders-value", "version": 2, "id": 2, "schemaType": "AVRO", "schema": json.dumps(V2)},
    {"subject": "money", "version": 3, "id": 7, "schema": json.dumps(MONEY)},
    {
        "subject": "paid-value",
        "version": 1,
        "id": 8,
        "references": [{"name": "shop.Money", "subject": "money", "version": 3}],
        "schema": json.dumps(PAID),
    },
    {"subject": "shop/money", "version": 1, "id": 20, "schemaType": "PROTOBUF", "schema": MONEY_PROTO},
    {
        "subject": "sales-value",
        "version": 1,
        "id": 21,
        "schemaType": "PROTOBUF",
        "references": [{"name": "shop/money.proto", "subject": "shop/money", "version": 1}],
        "schema": SALE_PROTO,
    },
    {
        "subject": "events-value",
        "version": 1,
        "id": 30,
        "schemaType": "JSON",
        "schema": '{"type": "object", "properties": {"id": {"type": "integer"}}}',
    },
    {
        "subject": "events-value",
        "version": 2,
        "id": 31,
        "schemaType": "JSON",
        "schema": '{"type": "object", "properties": {"id": {"type": "number"}, "tags": {"$ref": "t.json#/of"}}}',
        "references": [{"name": "t.json", "subject": "t", "version": 1}],
    },
    {"subject": "t", "version": 1, "id": 32, "schemaType": "JSON", "schema": '{"of": {"type": "array", "items": {}}}'},
    {"subject": "clash", "version": 1, "id": 40, "schema": '"string"'},
    {"subject": "broken", "version": 1, "id": 41, "schema": "{"},
    {
        "subject": "circle",
        "version": 1,
        "id": 42,
        "schema": '"int"',
        "references": [{"name": "c", "subject": "circle", "version": 1}],
    },
]


class RegistryServer(ThreadingHTTPServer):
    """A schema registry with the requests that decoding needs."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RegistryHandler)
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        self.failures: list[tuple[int, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class RegistryHandler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.logins.append(self.headers.get("Authorization"))
        if self.server.failures:
            self.answer(*self.server.failures.pop(0))
            return
        for schema in SCHEMAS:
            subject = schema["subject"].replace("/", "%2F")
            if self.path == f"/schemas/ids/{schema['id']}":
                known = {key: value for key, value in schema.items() if key in {"schema", "schemaType", "references"}}
                self.answer(200, json.dumps(known).encode())
                return
            if self.path == f"/subjects/{subject}/versions/{schema['version']}":
                self.answer(200, json.dumps(schema).encode())
                return
        self.answer(404, b'{"error_code": 40403, "message": "Schema not found"}')

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the signature in BaseHTTPRequestHandler)
        """Quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    monkeypatch.setattr(http, "PAUSE_S", 0.01)
    with RegistryServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4)


def joined(*columns: pa.BinaryArray) -> pa.BinaryArray:
    return pa.concat_arrays(columns)


def mixed_orders() -> pa.BinaryArray:
    one = encoded(V1, [{"id": 1, "who": "a"}, {"id": 2, "who": "b"}], header(1))
    two = encoded(V2, [{"id": 2**40, "total": 1.5, "who": "c"}], header(2))
    return joined(one.slice(0, 1), two, one.slice(1), pa.array([None], pa.binary()))


def survey_of(spec: DecoderSpec, payloads: pa.BinaryArray) -> Survey:
    known: Survey = pickle.loads(pickle.dumps(survey(spec, payloads.slice(0, 1)))) | survey(spec, payloads.slice(1))
    return known


def dump(folder: Path) -> str:
    """The dump of `curl REGISTRY/schemas`, as a file."""
    path = folder / "schemas.json"
    path.write_text(json.dumps(SCHEMAS, indent=1))
    return str(path)


@pytest.mark.parametrize("place", ["registry", "dump"])
def test_ids_may_change_from_record_to_record(server: RegistryServer, tmp_path: Path, place: str) -> None:
    spec = DecoderSpec.parse(f"avro:{server.url if place == 'registry' else dump(tmp_path)}")
    payloads = mixed_orders()
    decoder = pickle.loads(pickle.dumps(make_decoder(spec, survey_of(spec, payloads))))
    assert decoder.type == pa.struct([("id", pa.int64()), ("who", pa.string()), ("total", pa.float64())])
    server.asked.clear()
    values, reasons = decoder.decode(payloads)
    assert values.to_pylist() == [
        {"id": 1, "who": "a", "total": None},
        {"id": 2**40, "who": "c", "total": 1.5},
        {"id": 2, "who": "b", "total": None},
        None,
    ]
    assert reasons.to_pylist() == [None] * 4
    assert server.asked == []  # workers need no registry for schemas that the driver has seen


@pytest.mark.parametrize("place", ["registry", "dump"])
def test_schemas_that_refer_to_others(server: RegistryServer, tmp_path: Path, place: str) -> None:
    source = server.url if place == "registry" else dump(tmp_path)
    spec = DecoderSpec.parse(f"avro:{source}")
    sum_first = {**PAID, "fields": [{"name": "sum", "type": MONEY}]}
    payloads = encoded(sum_first, [{"sum": {"cents": 5}}], header(8))
    values, reasons = make_decoder(spec, survey(spec, payloads)).decode(payloads)
    assert (values.to_pylist(), reasons.to_pylist()) == ([{"sum": {"cents": 5}}], [None])

    spec = DecoderSpec.parse(f"protobuf:{source}")
    payloads = pa.array(
        [
            header(21) + b"\x02\x02" + b"\x0a\x02\x08\x2a",  # one index: 1, Sale
            header(21) + b"\x00" + b"\x08\x05",  # short for one index 0: First
            header(21) + b"\x04\x02\x00" + b"\x0a\x01x",  # two indexes: 1, 0: Sale.Line
            header(21) + b"\x02\x0a",  # message 5
        ],
        pa.binary(),
    )
    sound = payloads.slice(0, 3)
    decoder = pickle.loads(pickle.dumps(make_decoder(spec, survey(spec, sound))))
    values, reasons = decoder.decode(payloads)
    assert values.to_pylist() == [
        {"a": None, "total": {"cents": 42}, "what": None},
        {"a": 5, "total": None, "what": None},
        {"a": None, "total": None, "what": "x"},
        None,
    ]
    assert reasons.to_pylist()[:3] == [None] * 3
    assert reasons[3].as_py().endswith("the schema has no message 5")

    spec = DecoderSpec.parse(f"json:{source}")
    payloads = pa.array([header(30) + b'{"id": 1}', header(31) + b'{"id": 2.5, "tags": [1, "x"]}'], pa.binary())
    values, reasons = make_decoder(spec, survey(spec, payloads)).decode(payloads)
    assert values.to_pylist() == [{"id": 1.0, "tags": None}, {"id": 2.5, "tags": ["1", "x"]}]
    assert reasons.null_count == 2


def test_a_schema_that_comes_up_later(server: RegistryServer) -> None:
    spec = DecoderSpec.parse(f"avro:{server.url}")
    payloads = mixed_orders()
    newer = make_decoder(spec, survey(spec, payloads.slice(1, 1)))
    values, reasons = newer.decode(payloads)  # the first version fits the second
    assert values.to_pylist()[0] == {"id": 1, "total": None, "who": "a"}
    assert reasons.null_count == 4
    older = make_decoder(spec, survey(spec, payloads.slice(0, 1)))
    values, reasons = older.decode(payloads)  # not the other way round: no value is lost silently
    assert values.to_pylist() == [{"id": 1, "who": "a"}, None, {"id": 2, "who": "b"}, None]
    assert reasons[1].as_py() == f"schema 2 of {server.url} has fields that the table has not: it came up later"


def test_payloads_that_are_of_no_schema(server: RegistryServer) -> None:
    spec = DecoderSpec.parse(f"avro:{server.url}")
    sound = mixed_orders().slice(0, 1)
    payloads = joined(
        sound, pa.array([b"", b"\0\0\0", b"{}", header(99) + b"x", header(20) + b"x", header(1)], pa.binary())
    )
    decoder = make_decoder(spec, survey(spec, payloads))
    for _ in range(2):
        values, reasons = decoder.decode(payloads)
        assert values.to_pylist() == [{"id": 1, "who": "a"}, *[None] * 6]
        assert reasons.to_pylist() == [
            None,
            "no Confluent header (byte 0)",
            "no Confluent header (byte 0)",
            "no Confluent header (byte 0)",
            f"{server.url} has no schema 99",
            f"schema 20 of {server.url} is PROTOBUF, not AVRO",
            "the payload ends inside a value (byte 5)",
        ]
    assert server.asked.count("/schemas/ids/99") == 1


def test_noise_is_not_asked_for_without_end(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.export.decoding.by_schema.UNKNOWN_MAX", 10)
    spec = DecoderSpec.parse(f"avro:{server.url}")
    payloads = pa.array([header(1000 + i) for i in range(100)], pa.binary())
    decoder = make_decoder(spec, survey(spec, payloads))
    _, reasons = decoder.decode(payloads)
    assert reasons.null_count == 0
    assert len(server.asked) <= 10


@pytest.mark.parametrize(
    ("schema_ids", "message"),
    [
        ([1, 40], "schema 40 of .*: the value is struct<.*> in one schema and string in another"),
        ([41], "schema 41 of .*: not an Avro schema"),
        ([42], "refer to each other in a circle: c"),
    ],
)
def test_schemas_that_make_no_table(tmp_path: Path, schema_ids: list[int], message: str) -> None:
    headers = frozenset(header(number) for number in schema_ids)
    with pytest.raises(SchemaError, match=message):
        make_decoder(f"avro:{dump(tmp_path)}", Survey(headers=headers))


def test_a_registry_that_fails_for_a_moment(server: RegistryServer) -> None:
    server.failures = [(500, b"oops"), (503, b'{"message": "leader unknown"}')]
    make_decoder(f"avro:{server.url}", Survey(headers=frozenset([header(1)])))
    assert server.asked == ["/schemas/ids/1"] * 3


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ((500, b'{"message": "leader unknown"}'), "answers 500 leader unknown"),
        ((401, b"<html>"), "answers 401 Unauthorized"),
        ((200, b"<html>"), "does not answer with JSON"),
        ((200, b"[1]"), "does not answer with a schema: no text under 'schema'"),
        ((200, b'{"schema": "x", "references": [{}]}'), "a reference without name, subject and version"),
        ((200, b"[" * 100_000), "does not answer with JSON"),
    ],
)
def test_a_registry_that_answers_badly(server: RegistryServer, failure: tuple[int, bytes], message: str) -> None:
    server.failures = [failure] * 3
    with pytest.raises(RegistryError, match=message):
        make_decoder(f"avro:{server.url}", Survey(headers=frozenset([header(1)])))


def test_a_registry_that_does_not_answer(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as silent:  # listens, and that is all
        url = f"http://127.0.0.1:{silent.server_address[1]}"
        found = registry.HttpRegistry(url, Access(timeout_s=0.05))
        with pytest.raises(RegistryError, match=f"the schema registry {url} does not answer: timed out"):
            found.schema(1)
    with pytest.raises(RegistryError, match=r"does not answer: .*refused"):
        found.schema(1)
    spec = DecoderSpec.parse(f"avro:{server.url}")
    payloads = mixed_orders()
    decoder = make_decoder(spec, survey(spec, payloads.slice(1, 1)))
    server.failures = [(503, b"")] * 3
    with pytest.raises(RegistryError):  # the record is not at fault: the task fails, and may be repeated
        decoder.decode(payloads)
    assert decoder.decode(payloads)[1].null_count == 4


def test_a_login_is_sent_and_never_shown(server: RegistryServer) -> None:
    url = server.url.replace("http://", "http://reader:s%20cret@")
    found = registry.HttpRegistry(url + "/")
    found.schema(1)
    assert server.logins == ["Basic cmVhZGVyOnMgY3JldA=="]
    assert found.name == server.url
    with pytest.raises(SchemaError, match=f"^{server.url} has no schema 5$"):
        found.schema(5)


@pytest.mark.parametrize("url", ["ftp://host", "file:///etc/passwd", "http://", "http://[", "http://host:port"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(UsageError):
        make_decoder(f"avro:{url}")


def test_a_dump_of_many_files(tmp_path: Path) -> None:
    (tmp_path / "ids").mkdir()
    (tmp_path / "ids" / "1.json").write_text(json.dumps({"schema": json.dumps(V1)}))
    (tmp_path / "ids" / "2.avsc").write_text(json.dumps(V2))
    (tmp_path / "subjects").mkdir()
    for number, schema in enumerate(SCHEMAS[2:4]):
        (tmp_path / "subjects" / f"version{number}.json").write_text(json.dumps(schema))
    (tmp_path / "30.json").write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "money.proto").write_text(MONEY_PROTO)
    (tmp_path / "README.md").write_text("not a schema")
    found = registry.open_registry(str(tmp_path))
    assert json.loads(found.schema(2).text) == V2
    assert found.schema(30).language == "JSON"
    assert found.schema(8).references[0].subject == "money"
    reference = Reference("shop/money.proto", "shop/money", 1)
    assert found.referred(reference).text == MONEY_PROTO
    spec = DecoderSpec.parse(f"avro:{tmp_path}")
    payloads = mixed_orders()
    assert make_decoder(spec, survey(spec, payloads)).decode(payloads)[1].null_count == 4


@pytest.mark.parametrize("text", ["[", "[1]", "[{}]", '[{"id": 1}]', '[{"id": "1", "schema": "x"}]', "{}"])
def test_a_dump_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(SchemaError):
        make_decoder(f"avro:{tmp_path}")
