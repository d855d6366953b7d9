"""The REST API of Confluent's Schema Registry: a request to its answer, or to what it changes. No I/O, no clock."""

from __future__ import annotations

from kcli.registry.messages import Answer, Change, Identity, Limits, Operation, Request

__all__ = [
    "Answer",
    "Change",
    "Identity",
    "Image",
    "Limits",
    "Operation",
    "Request",
    "handle",
    "operation_of",
    "subject_of",
]


class Image:
    """Everything that the records of `_schemas` say. Its owner is kcli.registry.image."""

    def replay(self, key: bytes, value: bytes | None, offset: int, timestamp_ms: int = 0) -> None:
        """Take in one record."""
        raise NotImplementedError


def handle(image: Image, request: Request, limits: Limits, identity: Identity = Identity()) -> Answer | Change:
    """Return the answer to a request, or what it changes."""
    raise NotImplementedError


def subject_of(request: Request) -> str | None:
    """Return the subject that a request touches, with its context; None if it touches none, or all."""
    raise NotImplementedError


def operation_of(request: Request) -> Operation:
    """Return what a request does to it."""
    raise NotImplementedError
