"""The REST API of Confluent's Schema Registry: returns the answer to a request, or the change that it makes. No I/O, no
clock."""

from __future__ import annotations

from collections.abc import Callable

from kcli.registry import routing
from kcli.registry.calls import Call
from kcli.registry.errors import RestError, too_large
from kcli.registry.image import Image
from kcli.registry.messages import V1_JSON, Change, Identity, Limits, Operation
from kcli.service.json_text import dumps
from kcli.service.messages import Answer, Request

__all__ = [
    "Answer",
    "Change",
    "Identity",
    "Image",
    "Limits",
    "Operation",
    "Request",
    "handle",
    "is_known",
    "operation_of",
    "refusal",
    "subject_of",
]

_NOBODY = Identity()


def _anybody(subject: str) -> bool:  # noqa: ARG001
    return True


def handle(
    image: Image,
    request: Request,
    limits: Limits,
    identity: Identity = _NOBODY,
    may_read: Callable[[str], bool] = _anybody,
) -> Answer | Change:
    """Return the answer to a request; for a request that changes something, the records to append and the answer. Never
    raises RestError.

    may_read: returns whether the user may read a subject; called for the references of a schema.
    """
    media_type = V1_JSON
    try:
        media_type = routing.media_type(request.headers.get("accept", ""))
        if len(request.body) > limits.body_size_max:
            raise too_large(limits.body_size_max)
        target = routing.find(request, image)
        if request.body:
            routing.check_body_type(request.headers.get("content-type", ""))
        call = Call(image, limits, identity, target.query, request.body, media_type, may_read)
        return target.route.handler(call, *target.parameters)
    except RestError as error:
        return refusal(error, media_type)
    finally:
        image.parsed.let_go()


def is_known(request: Request) -> bool:
    """Whether the API has the request's method and path."""
    try:
        routing.find(request, None)
    except RestError:
        return False
    return True


def refusal(error: RestError, media_type: str = V1_JSON) -> Answer:
    """Return the answer for a refusal: `{"error_code": ..., "message": ...}`."""
    return Answer(error.status, dumps({"error_code": error.code, "message": error.message}), media_type)


def subject_of(request: Request, image: Image | None = None) -> str | None:
    """Return the subject of a request, with its context; None if the request concerns no subject, or all of them.

    image: has the aliases of subjects; if given, an alias is replaced by the subject for which it stands.
    """
    try:
        return routing.find(request, image).subject
    except RestError:
        return None


def operation_of(request: Request) -> Operation:
    """Return the operation that a request needs permission for; DESCRIBE if the API has no such request."""
    try:
        return routing.find(request, None).route.operation
    except RestError:
        return Operation.DESCRIBE
