"""One request, as its handler receives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from kcli.broker.wire.messages import Message, Messages, RequestHeader
from kcli.metadata.result import RECORDS_PER_REQUEST_MAX
from kcli.security.principals import ANONYMOUS

OWN: Final = ""
"""The principal of a request that the node sends to itself, for which every operation is allowed. No client has this
principal, as the principals of clients contain a colon."""


class Client(Protocol):
    """The client of a connection. listener: the name of the listener that accepted the connection. principal:
    "TYPE:NAME". client_host: the client's address as Java writes it."""

    listener: str
    principal: str
    client_host: str


@dataclass(slots=True)
class Call:
    """One request, as its handler receives it, with the constructors of its response.

    The type of a handler's argument is the subclass for its API (kcli/broker/wire/types), which exists for mypy alone:
    it has the types of the fields of the request and of the response.

    messages: the classes of the request's API and version. now_ms: when the request was read, in ms since 1970.
    client_host: the client's address as Java writes it. listener: the name of the listener that received the request.
    principal: that of the client, OWN for a request of this node to itself. refusal: why the request may create no
    topics, None if it may; set only by kcli/broker/dispatch/parts.py, for each part of a long request that exceeds the
    limits of CreateTopics as a whole.
    """

    messages: Messages
    header: RequestHeader
    request: Message | None  # None for an ApiVersions request of an unknown version
    now_ms: int
    client_host: str = ""
    listener: str = ""
    throttle_ms: int = 0  # the throttle time, in ms, that a quota has set
    # whether the request quota does not apply: the request is a follower's Fetch, or was counted already
    is_exempt: bool = False
    refusal: str | None = None
    # how many metadata records the request may still write; what one part of a long request writes is taken off for
    # the next parts
    records_left: int = RECORDS_PER_REQUEST_MAX
    principal: str = ANONYMOUS
    with_token: bool = False  # whether the client has logged in with a delegation token
    size_bytes: int = 0  # size of the request's frame without its length
    is_audited: bool = False  # whether the handling of this request has written a line to the audit log
    # the request's bytes, None after the handler has returned: their buffer is used for other requests then
    frame: memoryview | bytearray | None = None

    @property
    def version(self) -> int:
        """The version of the request, and of its response."""
        return self.messages.version

    @property
    def client_id(self) -> str:
        """The client id of the request's header, "" if the header has none."""
        return self.header.client_id

    def get(self, name: str, default: Any) -> Any:
        """Return a field of the request, or `default` if the request's version has no such field."""
        return getattr(self.request, name, default)

    def new(self, name: str, /, **values: Any) -> Message:
        """Return an object of the class `name`, which is the response or a struct in it, made of those values for which
        the request's version has a field.

        Fields without a value get the protocol's default, and throttle_time gets 0. Returns None if the version has no
        such class. Raises TypeError for a class or a field that no version has.
        """
        made: Message = self.messages.new(name, values)
        return made

    def has(self, name: str, field: str) -> bool:
        """Whether the class `name`, which is the response or a struct in it, has that field in the request's
        version."""
        return self.messages.has(name, field)

    def respond(self, **values: Any) -> Message:
        """Return the response, made of those values for which this version has a field; see `new`."""
        made: Message = self.messages.new(self.messages.response_name, values)
        return made
