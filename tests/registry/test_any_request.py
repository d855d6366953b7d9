"""Whatever a client sends, the registry answers, or changes what it can replay."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.registry.api import operation_of, subject_of
from kcli.registry.routing import ROUTES
from kcli.service.messages import Request
from tests.registry.registry import Registry

SEGMENTS = st.sampled_from(
    [
        *[
            "subjects",
            "versions",
            "schemas",
            "ids",
            "guids",
            "types",
            "config",
            "mode",
            "contexts",
            "compatibility",
            "schema",
            "metadata",
            "v1",
            "id",
        ],
        *[
            "s",
            ":.c:s",
            ":.c:",
            ":.:",
            ":*:s",
            ".c",
            "c",
            "1",
            "latest",
            "-1",
            "0",
            "%",
            "%2F",
            "%ff",
            "__GLOBAL",
            ":.__GLOBAL:",
            ".",
            "..",
            "²",
            "٣",
        ],
        "",
        "9" * 30,
    ]
)
PARAMETERS = st.sampled_from(
    [
        "deleted",
        "permanent",
        "verbose",
        "normalize",
        "format",
        "offset",
        "limit",
        "subject",
        "subjectPrefix",
        "key",
        "value",
        "force",
        "recursive",
        "defaultToGlobal",
        "latestOnly",
        "aliases",
        "fetchMaxId",
        "ruleType",
    ]
)
VALUES = st.sampled_from(
    ["", *["true", "false", "1", "-1", "x", ":.c:", ":.", ":*:", "resolved", "serialized"], "9" * 30]
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just('"int"'))
NAMES = st.sampled_from(
    [
        "schema",
        "schemaType",
        "references",
        "version",
        "id",
        "metadata",
        "ruleSet",
        "properties",
        "tags",
        "sensitive",
        "name",
        "subject",
        "compatibility",
        "mode",
        "alias",
        "normalize",
        "domainRules",
        "type",
        "kind",
        "params",
        "defaultMetadata",
        "overrideRuleSet",
        "compatibilityGroup",
        "compatibilityPolicy",
        "validateFields",
    ]
)
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", ""])
BODIES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
ROUTED = st.tuples(st.sampled_from(ROUTES), st.tuples(SEGMENTS, SEGMENTS)).map(
    lambda drawn: (drawn[0].method, filled(drawn[0].path, drawn[1]))
)
REQUESTS = st.tuples(
    st.one_of(
        ROUTED,
        ROUTED,
        st.tuples(
            st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", ""]), st.lists(SEGMENTS, max_size=7)
        ),
    ),
    st.lists(st.tuples(PARAMETERS, VALUES), max_size=4),
    st.one_of(st.none(), st.just({"schema": '"int"'}), BODIES),
)


def filled(path: tuple[str, ...], values: tuple[str, ...]) -> list[str]:
    """Return a route's segments with values for its parameters."""
    left = iter(values)
    return [next(left) if each.startswith("{") else each for each in path]


@given(st.lists(REQUESTS, max_size=8))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_any_request_is_answered(requests: list[tuple[tuple[str, list[str]], list[tuple[str, str]], object]]) -> None:
    registry = Registry()
    for (method, segments), parameters, body in requests:
        path, query = "/" + "/".join(segments), "&".join(f"{name}={value}" for name, value in parameters)
        data = None if body is None else json.dumps(body).encode()
        answer = registry.ask(f"{method} {path}?{query}", data)
        assert 200 <= answer.status < 500
        assert b"\n" not in answer.body or b"Invalid schema" in answer.body or path.endswith("/schema")
        subject_of(Request(method, path, query, {}, data or b""), registry.image)
        operation_of(Request(method, path, query, {}, data or b""))
    assert list(registry.image.skipped) == []
