"""Responses are built by field names: a field of another version is left out, a field of no version is refused."""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from formats.errors import Truncated
from formats.kernels.wire import behind_tags
from formats.varint import uvarint
from kcli.broker import api as api_package
from kcli.broker.wire.apis import APIS, Api
from kcli.broker.wire.messages import BadRequest, Messages, messages, read_body, read_header
from tests.broker.running import api_key

HANDLERS = Path(api_package.__file__).parent


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=200))), st.binary(max_size=3))
def test_the_tagged_fields_of_a_header_are_skipped(tags: list[tuple[int, bytes]], behind: bytes) -> None:
    section = uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(value)) + value for tag, value in tags)
    assert behind_tags(b"before" + section + behind, 6) == 6 + len(section)
    for end in range(len(section)):
        with pytest.raises(Truncated):
            behind_tags(section[:end], 0)


def test_the_loop_does_not_read_the_tagged_fields_of_a_header() -> None:
    """There may be millions of tagged fields. They are read with the body, which a thread decodes where the request is
    long."""
    api_key_, version = api_key("metadata"), 12
    start = struct.pack(">hhih", api_key_, version, 7, 1) + b"c"
    kind, topics = messages(api_key_, version), b"\0\0\0\0"
    frame = memoryview(start + uvarint(2) + b"\5\1x" + b"\6\0" + topics)
    header = read_header(frame)
    assert (header.client_id, header.position) == ("c", len(start))
    assert read_body(kind, frame, header) == read_body(kind, memoryview(start + b"\0" + topics), header)
    for broken in (uvarint(2) + b"\5\1x", b"\1\5\x7f", b"\xff" * 9, b""):
        with pytest.raises(BadRequest):
            read_body(kind, memoryview(start + broken), read_header(memoryview(start + broken)))


def offset_fetch(version: int) -> Messages:
    return messages(api_key("offset_fetch"), version)


def test_a_field_of_other_versions_is_left_out() -> None:
    answer = offset_fetch(1).new("OffsetFetchResponse", {"topics": (), "groups": ()})
    assert answer.topics == ()
    assert not hasattr(answer, "groups")


def test_a_class_of_other_versions_is_none() -> None:
    assert offset_fetch(1).new("OffsetFetchResponseGroup", {"group_id": "g", "topics": ()}) is None


@pytest.mark.parametrize("version", [1, 10])
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("OffsetFetchResponse", "grops"),
        ("OffsetFetchResponse", "group_id"),
        ("OffsetFetchResponseGroup", "error_cod"),
        ("OffsetFetchResponsePartitions", "error"),
    ],
)
def test_a_field_of_no_version_is_refused(version: int, name: str, field: str) -> None:
    for _ in range(2):  # the second time as the first
        with pytest.raises(TypeError, match=f"OffsetFetchResponse: no version has {name}.{field}"):
            offset_fetch(version).new(name, {field: ()})


@pytest.mark.parametrize("version", [1, 10])
def test_a_class_of_no_version_is_refused(version: int) -> None:
    with pytest.raises(TypeError, match="no version has OffsetFetchTopic"):
        offset_fetch(version).new("OffsetFetchTopic", {})


def names_used(module: Path) -> Iterator[tuple[str | None, set[str]]]:
    """Return the classes and fields that a handler names in `call.new` and `call.respond`; None for the response
    itself."""
    for node in ast.walk(ast.parse(module.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        given = {each.arg for each in node.keywords if each.arg is not None}
        if node.func.attr == "respond":
            yield None, given
        elif node.func.attr == "new" and node.args and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value), given


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_handlers_name_what_there_is(api: Api) -> None:
    """A misspelt field in a branch that no test runs would raise a TypeError in production."""
    known: dict[str | None, set[str]] = {}
    for paths in schema_name_map[api_key_map[api.key]].values():
        module, response = paths[EntityType.response].split(":")
        for each, cls in vars(import_module(module)).items():
            if hasattr(cls, "__dataclass_fields__"):
                known.setdefault(None if each == response else each, set()).update(field.name for field in fields(cls))
    for name, values in names_used(HANDLERS / f"{api.name}.py"):
        assert values <= known[name], f"{name}: {values - known[name]}"
