"""The handler of each API. A handler's module is imported at its first request or by preload.py; a long request is
handled part by part."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import isawaitable
from types import CoroutineType, ModuleType
from typing import TYPE_CHECKING

from kcli.broker.authorization import Denied
from kcli.broker.dispatch.parts import PARTS, in_parts
from kcli.broker.metadata.errors import RecordTooLarge
from kcli.broker.process.turns import LONG_BYTES, apart, apart_if
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.failures import failed
from kcli.protocol.error_code import ErrorCode
from kcli.security.authorizer import AuthorizerNotReady

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from kcli.broker.broker import Broker
    from kcli.broker.dispatch.inputs import Inputs
    from kcli.broker.dispatch.parts import Handler
    from kcli.broker.wire.answers import Answer, Laid, Later
    from kcli.broker.wire.call import Call, Client
    from kcli.broker.wire.messages import Message


@cache
def handler(api_key: int) -> Handler:
    """Return the function that handles an API's requests, long ones in parts. Raises KeyError for an unknown key."""
    name = APIS[api_key].name
    found: Handler = getattr(_module(api_key), name)
    return in_parts(found, PARTS[name]) if name in PARTS else found


@cache
def inputs_of(api_key: int) -> Callable[[Broker, Call], Inputs] | None:
    """Return the function that returns the Inputs of an API's responses; None for an API whose responses are not cached
    (kept.py). Raises KeyError for an unknown key."""
    return getattr(_module(api_key), "inputs", None)


@cache
def state_of(api_key: int) -> Callable[[Broker, str], Hashable] | None:
    """Return the function `kept_state` of an API: given a listener, it returns the state of the node on which the API's
    cached responses depend besides the bytes of the request. None for an API whose responses are not cached, or depend
    on more than that. Raises KeyError for an unknown key."""
    return getattr(_module(api_key), "kept_state", None)


@cache
def plain_of(api_key: int) -> Callable[[Broker, memoryview, Client, int], Laid | Later | None] | None:
    """Return the function `answer_plain` of an API: it returns the response to a plain request, that is, one whose
    bytes it handles without decoding them into kio's objects, and None for any other request. Its last parameter is the
    current time in ms. None for an API without that function. Raises KeyError for an unknown key."""
    return getattr(_module(api_key), "answer_plain", None)


def _module(api_key: int) -> ModuleType:
    return import_module(f"kcli.broker.api.{APIS[api_key].name}")


def answer(broker: Broker, call: Call) -> Answer | Awaitable[Answer]:
    """Return the response of the API's handler, or an awaitable of it. If the handler raises Denied, the response has
    the error of Denied; while the authorizer has not loaded the ACLs, UNKNOWN_SERVER_ERROR; if the records that the
    handler makes are too large for the metadata log, RECORD_LIST_TOO_LARGE."""
    found = handler(call.messages.api_key)
    if broker.authorizer is not None:
        return _unless_denied(found, broker, call)
    response = found(broker, call)
    return _awaited(call, response) if type(response) is CoroutineType else response


def _unless_denied(found: Handler, broker: Broker, call: Call) -> Answer | Awaitable[Answer]:
    try:
        response = found(broker, call)
    except (Denied, AuthorizerNotReady) as denied:
        if call.size_bytes > LONG_BYTES:
            return apart(_refused, call, denied)
        return _refused(call, denied)
    return _awaited(call, response) if isawaitable(response) else response


async def _awaited(call: Call, response: Awaitable[Answer]) -> Answer:
    try:
        return await response
    except (Denied, AuthorizerNotReady) as denied:
        return await apart_if(call.size_bytes > LONG_BYTES, _refused, call, denied)
    except RecordTooLarge as error:
        return failed(call, ErrorCode.RECORD_LIST_TOO_LARGE, str(error))


def _refused(call: Call, denied: Denied | AuthorizerNotReady) -> Message:
    return failed(call, denied.code if isinstance(denied, Denied) else ErrorCode.UNKNOWN_SERVER_ERROR)
