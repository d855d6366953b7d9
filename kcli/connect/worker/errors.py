"""Errors of the REST API, each with its HTTP status. The texts are Kafka's."""

from __future__ import annotations

from kcli.connect.data.errors import ConnectError


class RestError(ConnectError):
    """A request that cannot be fulfilled. status: the HTTP status, which is the error code, too."""

    status = 500


class BadRequest(RestError):
    """The request is wrong."""

    status = 400


class Forbidden(RestError):
    """The worker's configuration, or a missing signature, forbids the request."""

    status = 403


class NotFound(RestError):
    """What the request names does not exist."""

    status = 404


class Conflict(RestError):
    """The connector exists already, or the group is rebalancing."""

    status = 409


class Unavailable(RestError):
    """The worker cannot do this now."""

    status = 503


def connector_not_found(name: str) -> NotFound:
    """Return the error for a connector that does not exist."""
    return NotFound(f"Connector {name} not found")
