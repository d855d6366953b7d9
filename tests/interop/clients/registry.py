"""The job of the registry's clients, and the report that each client gives on a registry with Confluent's API. See
README.md beside this file."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
COUNT = 50
"""Values for each of the three schemas of a format: together three times the requests that a client may send."""
AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
NOTE = "none"
"""The default of the field that Avro's second schema adds."""
DRAFT = "http://json-schema.org/draft-07/schema#"
PROTO = 'syntax = "proto3";\npackage shop;\n\n'


def _text(schema: Json) -> str:
    return json.dumps(schema, separators=(",", ":"))


def _record(name: str, *fields: Json) -> str:
    return _text({"type": "record", "name": name, "namespace": "shop", "fields": list(fields)})


def _field(name: str, type_: str, **more: str) -> Json:
    return {"name": name, "type": type_, **more}


def _message(name: str, *fields: str, imports: str = "") -> str:
    return PROTO + imports + f"message {name} {{\n" + "".join(f"  {each};\n" for each in fields) + "}\n"


def _object(**properties: Json) -> str:
    """A closed object, which may gain properties and stay compatible."""
    found = {"$schema": DRAFT, "type": "object", "properties": properties}
    return _text({**found, "required": ["id"] if "id" in properties else [], "additionalProperties": False})


INTEGER, STRING = {"type": "integer"}, {"type": "string"}
SCHEMAS = [
    {
        "type": AVRO,
        "first": _record("Order", _field("id", "int"), _field("item", "string")),
        "evolved": _record(
            "Order", _field("id", "int"), _field("item", "string"), _field("note", "string", default=NOTE)
        ),
        "incompatible": _record("Order", _field("id", "string")),
        "reference": "shop.Customer",
        "customer": _record("Customer", _field("name", "string")),
        "sale": _record("Sale", _field("customer", "Customer"), _field("total", "int")),
    },
    {
        "type": PROTOBUF,
        "first": _message("Order", "int32 id = 1", "string item = 2"),
        "evolved": _message("Order", "int32 id = 1", "string item = 2", "string note = 3"),
        "incompatible": _message("Order", "string id = 1", "string item = 2"),
        "reference": "customer.proto",
        "customer": _message("Customer", "string name = 1"),
        "sale": _message(
            "Sale", ".shop.Customer customer = 1", "int32 total = 2", imports='import "customer.proto";\n\n'
        ),
    },
    {
        "type": JSON,
        "first": _object(id=INTEGER, item=STRING),
        "evolved": _object(id=INTEGER, item=STRING, note=STRING),
        "incompatible": _object(id=STRING, item=STRING),
        "reference": "customer.json",
        "customer": _text({"$schema": DRAFT, "$id": "customer.json", "type": "object", "properties": {"name": STRING}}),
        "sale": _object(customer={"$ref": "customer.json"}, total=INTEGER),
    },
]


def job() -> Json:
    """Return the job: what to register, and the values to write."""
    orders = [{"id": i + 1, "item": f"item {i}"} for i in range(COUNT)]
    return {
        "formats": [{**each, "topic": each["type"].lower()} for each in SCHEMAS],
        "orders": orders,
        "noted": [{**each, "note": f"note of {each['id']}"} for each in orders],
        "sales": [{"customer": {"name": f"customer {i}"}, "total": i + 1} for i in range(COUNT)],
    }


def topics(todo: Json) -> list[str]:
    """The topics that the job writes to."""
    return [each["topic"] + suffix for each in todo["formats"] for suffix in ("", "-sales")]


def report(todo: Json) -> Json:
    """Return what every client reports of a registry that was empty."""
    found = {}
    for number, each in enumerate(todo["formats"]):
        first, evolved, _, sale = ids = [4 * number + i for i in range(1, 5)]
        # Avro's reader fills in what the first schema's values lack; the other formats leave it out
        older = [{**order, "note": NOTE} for order in todo["orders"]] if each["type"] == AVRO else todo["orders"]
        found[each["type"]] = {
            "ids": ids,
            "again": first,
            "refused": 409,
            "by_id": [each["first"], each["evolved"], each["customer"], each["sale"]],
            "by_version": [[first, each["first"]], [evolved, each["evolved"]]],
            "latest": 2,
            "looked_up": first,
            "references": [[each["reference"], each["reference"], 1]],
            "sale": sale,
            "orders": older + todo["noted"],
            "sales": todo["sales"],
        }
    return found
