"""Hostile Protobuf schemas: one clear line, in a bounded time."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping
from time import process_time

import pytest
from google.protobuf import descriptor_pb2

from kcli.schemas.protobuf import parse
from kcli.schemas.protobuf.differences import DIFFERENCES_MAX
from kcli.schemas.protobuf.reader import MESSAGE_MAX, NESTING_MAX
from kcli.schemas.schema import InvalidSchema

PROTO3 = 'syntax = "proto3";'
DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "message A {" * DEEP,
        "message A { " + "optional group G = 1 {" * DEEP,
        PROTO3 + "message A { " + "map<string, " * DEEP,
        "option a = " + "{ a: " * DEEP,
        "option a = " + "[" * DEEP,
        "option (a)" + ".b(c)" * DEEP + " = 1;",
        "option (a)" + ".(b)" * DEEP + " = 1;",
        "{" * DEEP,
        "/ " * DEEP,
        "/*" + "*" * DEEP,
        "a" * DEEP,
        'option a = "' + "\\" * (DEEP + 1),
        PROTO3 + "message A { int32 a = " + "9" * DEEP + "; }",
        PROTO3 + "message A { map<" + "a" * DEEP + ", int32> a = 1; }",
        PROTO3 + "package " + "a." * DEEP + "b; message A { B b = 1; }",
        PROTO3 + "message A { " + "A." * DEEP + "B b = 1; }",
        "message A { optional int32 a = 1 [default = { b: 1 }]; }",
    ],
)
def test_a_hostile_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse(text, {}).validate_new()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < MESSAGE_MAX + 200


def test_as_deep_as_allowed_is_printed() -> None:
    deep = NESTING_MAX - 1
    text = PROTO3 + "message A {" * NESTING_MAX + "}" * NESTING_MAX
    text += "message M { " + "map<string, " * deep + "int32" + ">" * deep + " a = 1; }"
    text += "option a = " + "{ a: " * deep + "1" + "}" * deep + ";"
    schema = parse(text, {})
    assert schema.normalized().canonical.count("message A {") == NESTING_MAX
    assert not schema.incompatibilities(schema)


def _file_within_files(depth: int) -> str:
    file = descriptor_pb2.FileDescriptorProto()
    message = file.message_type.add(name="A")
    for _ in range(depth):
        message = message.nested_type.add(name="A")
    return b64encode(file.SerializeToString()).decode()


def test_base64_that_is_no_descriptor_has_the_error_of_a_text() -> None:
    invalid_text = b64encode(b"\x12\x02\xff\xfe").decode()
    for text in ("AAAA" * DEEP, "AAA", invalid_text, _file_within_files(40)[:-8]):
        with pytest.raises(InvalidSchema, match=r"^Could not parse Protobuf - Syntax error in :1:1: "):
            parse(text, {})
    assert parse(_file_within_files(40), {}).canonical.count("message A {") == 41


def test_a_field_of_a_oneof_that_does_not_exist_is_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto()
    file.message_type.add(name="A").field.add(name="a", number=1, type="TYPE_INT32", oneof_index=3)
    with pytest.raises(InvalidSchema):
        parse(b64encode(file.SerializeToString()).decode(), {})


@pytest.mark.parametrize(
    "text",
    [
        PROTO3 + "message A {" * (NESTING_MAX - 1) + "int32 a = 1;" * 5_000 + "}" * (NESTING_MAX - 1),
        PROTO3 + "message " + "A" * 50_000 + " { message X {} " + "X a = 1;" * 100 + "}",
    ],
)
def test_a_text_that_would_get_far_larger_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.schemas.protobuf.printer.SIZE_MAX", 1_000_000)
    with pytest.raises(InvalidSchema, match="has more than 1,000,000 characters"):
        parse(text, {}).normalized()


def test_time_grows_with_the_size_only() -> None:
    def seconds(count: int) -> float:
        tags = ", ".join(f'(confluent.field_meta).tags = "{i}"' for i in range(count))
        fields = "".join(f"int32 a{i} = {i};" for i in range(count))
        text = f"{PROTO3} message A {{ {fields} }} message B {{ int32 a = 1 [{tags}]; }}"
        start = process_time()
        parse(text, {}).normalized()
        return process_time() - start

    seconds(100)
    assert seconds(4_000) < 16 * min(seconds(1_000) for _ in range(2)) + 0.05


def _chain(count: int, last: str) -> Mapping[str, str]:
    """Return references of which each uses the next one twice."""
    files = {f"r{i}": f"{PROTO3} message R{i} {{ R{i + 1} a = 1; R{i + 1} b = 2; }}" for i in range(count)}
    return {**files, "last": f"{PROTO3} message R{count} {{ {last} a = 1; }}"}


def test_references_that_multiply_are_compared_a_bounded_number_of_times() -> None:
    text = f"{PROTO3} message A {{ R0 r = 1; }}"
    old, same, new = (parse(text, _chain(50, each)) for each in ("int32", "int64", "string"))
    assert not same.incompatibilities(old)
    found = new.incompatibilities(old)
    assert len(found) <= DIFFERENCES_MAX
    assert found[0].kind == "FIELD_SCALAR_KIND_CHANGED"


def test_a_long_chain_of_references_is_followed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2_000
    monkeypatch.setattr("kcli.schemas.protobuf.differences.DIFFERENCES_MAX", count - 1)

    def schema(last: str) -> str:
        chain = "".join(f"message R{i} {{ R{i + 1} a = 1; }}" for i in range(count))
        return f"{PROTO3} {chain} message R{count} {{ {last} a = 1; }}"

    text = f"{PROTO3} message A {{ R0 r = 1; }}"
    found = parse(text, {"r": schema("string")}).incompatibilities(parse(text, {"r": schema("int32")}))
    assert [(each.kind, each.path) for each in found] == [("FIELD_SCALAR_KIND_CHANGED", f"#/R{count}/1")]


def test_files_that_import_each_other_are_read() -> None:
    references = {
        "b": 'import "c"; message B { optional C c = 1; }',
        "c": 'import "b"; message C { optional B b = 1; optional A a = 2; }',
    }
    schema = parse('import "b"; message A { optional B b = 1; }', references)
    schema.validate_new()
    assert not schema.incompatibilities(schema)
    assert schema.formatted("serialized")


def test_a_bad_reference_is_named_by_its_error() -> None:
    with pytest.raises(InvalidSchema, match="Could not parse Protobuf - Syntax error in :1:9"):
        parse(PROTO3, {"r": "message {"})


def test_a_text_needs_no_protobuf_runtime_and_no_arrow() -> None:
    program = (
        "import sys; from kcli.schemas.formats import parse; from kcli.schemas.schema import SchemaType;"
        "schema = parse(SchemaType.PROTOBUF, 'message A { optional google.protobuf.Any a = 1; }', {});"
        "schema.normalized(); schema.incompatibilities(schema);"
        "print(sorted({'google.protobuf', 'pyarrow', 'grpc_tools'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
