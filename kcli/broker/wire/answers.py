"""What a handler returns instead of a response object of kio's.

Laid      the encoded frame, in parts of bytes and regions of log files; its throttle time is written later
Encoded   an encoded frame whose throttle time is final
Later     a response that is made of a future's result when the future is done
HangUp    an exception: the broker closes the connection without a response
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from kcli.broker.wire.messages import Message
from kcli.log.live.segments import FileRegion

T = TypeVar("T", bound=Message)
Part = bytes | bytearray | memoryview | FileRegion


REFUSED_WITHOUT_ACKS = "a batch was refused, which with acks=0 only a closed connection can tell"


class HangUp(Exception):
    """A handler raises this exception to close the connection without a response, where Kafka does so too."""


class Laid(list[Part]):
    """The whole frame of a response that a handler has encoded without kio, such as Fetch's. throttle_at: the position
    of the throttle time in the first part, a bytearray."""

    throttle_at = 0

    def set_throttle(self, throttle_ms: int) -> None:
        """Write the throttle time, in ms, into the frame."""
        head = self[0]
        assert isinstance(head, bytearray), "the first part is ours"
        head[self.throttle_at : self.throttle_at + 4] = throttle_ms.to_bytes(4)


class Encoded(Laid):
    """The encoded frame of a response that has its final throttle time, or no field for a throttle time."""

    def set_throttle(self, throttle_ms: int) -> None:
        """Do nothing: the encoded frame has its final throttle time, or no field for one."""


class Later:
    """An awaitable response: `finish` makes the response from `future` when the future is done. No task waits for the
    future."""

    __slots__ = ("finish", "future")

    def __init__(self, future: asyncio.Future[Any], finish: Callable[[asyncio.Future[Any]], Any]) -> None:
        self.future, self.finish = future, finish

    def __await__(self) -> Generator[Any, None, Any]:
        with suppress(Exception):
            yield from self.future
        return self.finish(self.future)


Served = tuple[int, int, bytes]
"""What ProduceLanes.serve has done for a connection: the number of bytes received, how many bytes of the buffer are
answered requests, and the bytes of responses that the socket has not taken."""
Answer = Message | Laid | None
"""A response; None for a Produce request with acks=0, which has no response."""


def with_throttle(response: T, throttle_ms: int) -> T:
    """Return the response with that throttle time; or the unchanged response if the time is 0 or the version has no
    such field."""
    if not throttle_ms or "throttle_time" not in response.__dataclass_fields__:
        return response
    return replace(response, throttle_time=timedelta(milliseconds=throttle_ms))
