"""Calls of handlers without a socket: requests and responses are plain values, which go through the wire format."""

from __future__ import annotations

from inspect import isawaitable
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from kcli.broker.authorization import Authorization
from kcli.broker.dispatch.handlers import handler
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import RequestHeader, entity_reader, entity_writer, messages
from kcli.testing.wire import message, plain
from tests.broker.log_dirs import Node

CORRELATION_ID = 5


def ask(node: Node, api: str, version: int, **request: Any) -> dict[str, Any]:
    """The answer to a request."""
    key = next(each.key for each in APIS.values() if each.name == api)
    kind = messages(key, version)
    body = BytesIO()
    entity_writer(kind.request_type)(body, message(kind.request_type, request))
    read, _ = kind.read(body.getvalue(), 0)
    header = RequestHeader(key, version, CORRELATION_ID, "test", 0)
    broker: Any = SimpleNamespace(
        tier=None,
        partitions=node.logs.partitions,
        logs=node.logs,
        image=node.image,
        clock=node.clock,
        config=node.logs.config,
        authorizer=None,
        access=Authorization(None),
    )
    answer: Any = handler(key)(broker, Call(kind, header, read, node.clock.now_ms()))
    assert not isawaitable(answer)
    frame = kind.encode(CORRELATION_ID, answer)
    begin = 8 + kind.header_is_flexible
    decoded, size = entity_reader(type(answer))(frame, begin)
    assert begin + size == len(frame)
    value: dict[str, Any] = plain(decoded)
    return value
