"""Random evolutions of a Protobuf schema.

Where no incompatibility is found, protobuf's Python runtime reads with the new schema what it has written with the old
one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from kcli.schemas.protobuf import ProtobufSchema, parse

VALUES: dict[str, tuple[Any, ...]] = {
    "int32": (0, 1, -1, 2**31 - 1, -(2**31)),
    "int64": (0, 7, -(2**63)),
    "uint32": (0, 2**32 - 1),
    "uint64": (3, 2**64 - 1),
    "bool": (True, False),
    "E": (0, 1, 5),
    "sint32": (0, -5, 2**31 - 1),
    "sint64": (9, -(2**63)),
    "fixed32": (0, 2**32 - 1),
    "sfixed32": (1, -1),
    "fixed64": (0, 2**64 - 1),
    "sfixed64": (2, -2),
    "float": (0.5, -1.0),
    "double": (0.25, 1e300),
    "string": ("", "é", "text"),
    "bytes": (b"", b"\x00text"),
    "N": ("n", ""),
    "map<string, int32>": (3, -4),
}
LABELS = ("", "optional ", "repeated ")


class F(NamedTuple):
    """A field. within: the name of its oneof, or nothing; a map is never in one."""

    number: int
    name: str
    type: str
    label: str
    within: str

    @property
    def oneof(self) -> str:
        return "" if self.type.startswith("map") else self.within

    @property
    def declared(self) -> str:
        label = "" if self.oneof or self.type.startswith("map") else self.label
        return f"{label}{self.type} {self.name} = {self.number};"

    @property
    def is_repeated(self) -> bool:
        return not self.oneof and not self.type.startswith("map") and self.label == "repeated "


def _text(fields: list[F], inner: str) -> str:
    alone = "".join(field.declared for field in fields if not field.oneof)
    oneofs = "".join(
        f"oneof {name} {{ {''.join(field.declared for field in fields if field.oneof == name)} }}"
        for name in sorted({field.oneof for field in fields} - {""})
    )
    return (
        f'syntax = "proto3"; package p; message M {{ {alone} {oneofs} }} message N {{ {inner} v = 1; }}'
        "enum E { Z = 0; Y = 1; }"
    )


def _fields(numbers: list[int]) -> st.SearchStrategy[list[F]]:
    each = [
        st.builds(
            F,
            st.just(number),
            st.sampled_from((f"a{number}", f"b{number}")),
            st.sampled_from(tuple(VALUES)),
            st.sampled_from(LABELS),
            st.sampled_from(("", "", "x", "y")),
        )
        for number in numbers
    ]
    return st.tuples(*each).map(list)


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[list[F], list[F]]:
    """Draw a message's fields before and after some of them have changed."""
    old = draw(_fields(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True))))
    new = draw(_fields([field.number for field in old]))
    changed = draw(
        st.lists(
            st.sampled_from(("type", "label", "within", "name", "gone", "same", "same", "same")),
            min_size=len(old),
            max_size=len(old),
        )
    )
    after = [
        before if how == "same" else before._replace(**{how: getattr(other, how)})
        for before, other, how in zip(old, new, changed, strict=True)
        if how != "gone"
    ]
    return old, after + draw(_fields(draw(st.lists(st.integers(6, 7), max_size=1))))


def _class(schema: ProtobufSchema) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto.FromString(b64decode(schema.formatted("serialized")))
    pool.Add(file)  # type: ignore[no-untyped-call,unused-ignore]
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))


def _put(message: Any, field: F, value: Any) -> None:
    if field.type.startswith("map"):
        getattr(message, field.name)["key"] = value
    elif field.type == "N" and field.is_repeated:
        getattr(message, field.name).add(v=value)
    elif field.type == "N":
        getattr(message, field.name).v = value
        getattr(message, field.name).SetInParent()
    elif field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def _taken(message: Any, field: F) -> Any:
    value = getattr(message, field.name)
    if field.type.startswith("map"):
        return dict(value)
    if field.is_repeated:
        return [each.SerializeToString() if field.type == "N" else each for each in value]
    return value.SerializeToString() if field.type == "N" else value


@given(evolutions(), st.data())
@settings(max_examples=60, deadline=None, derandomize=True, phases=[Phase.generate])
def test_what_is_compatible_is_read(evolution: tuple[list[F], list[F]], data: st.DataObject) -> None:
    old_fields, new_fields = evolution
    old, new = parse(_text(old_fields, "string"), {}), parse(_text(new_fields, "bytes"), {})
    assume(not new.incompatibilities(old))
    written = _class(old)()
    for field in old_fields:
        if data.draw(st.booleans(), field.name):
            _put(written, field, data.draw(st.sampled_from(VALUES[field.type]), field.name))
    payload = written.SerializeToString()
    read = _class(new).FromString(payload)
    by_number = {field.number: field for field in new_fields}
    for field in old_fields:
        after = by_number.get(field.number)
        if after is not None and (after.type, after.label) == (field.type, field.label):
            assert _taken(read, after) == _taken(written, field), (field, after)


@given(evolutions())
@settings(max_examples=20, deadline=None, derandomize=True, phases=[Phase.generate])
def test_a_descriptor_is_the_schema(evolution: tuple[list[F], list[F]]) -> None:
    schema = parse(_text(evolution[0], "string"), {})
    again = parse(schema.formatted("serialized"), {})
    assert again.normalized().canonical == schema.normalized().canonical
    assert not again.incompatibilities(schema)
    assert not schema.incompatibilities(again)


def test_protoc_s_descriptor_is_the_schema() -> None:
    file = descriptor_pb2.FileDescriptorProto()
    descriptor_pb2.DESCRIPTOR.CopyToProto(file)
    schema = parse(b64encode(file.SerializeToString()).decode(), {})
    assert "message FileDescriptorProto {\n  optional string name = 1" in schema.canonical
    assert schema.normalized().canonical.startswith("package google.protobuf;\n")
