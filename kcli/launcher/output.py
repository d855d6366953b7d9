"""Copy the nodes' stdout and stderr, line by line and marked with the node id, to the launcher's stderr.

[2] 2026-11-22 02:40:11.118 INFO ...       as text
{"node": 2, "time": ...}                   as JSON; a line of text becomes the "message" of an object
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 64 << 10
LINE_BYTES_MAX = 64 << 10

Put = Callable[[bytes], None]


class NodeOutput:
    """The pipe from which a node's output is read. put: called with whole lines, in which the node id has been
    added."""

    def __init__(self, node: int, put: Put, *, json_lines: bool) -> None:
        """Open the pipe; `writing_end` becomes the node's stdout and stderr. json_lines: write JSON, not text."""
        self._node, self._put, self._json = node, put, json_lines
        self._fd, self.writing_end = os.pipe()
        os.set_blocking(self._fd, False)
        self._partial = b""
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def close(self) -> None:
        """Close the launcher's copy of the writing end. The reading end closes when all writers have ended."""
        os.close(self.writing_end)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            lines = [self._partial] if self._partial else []
        else:
            *lines, self._partial = (self._partial + data).split(b"\n")
            if len(self._partial) > LINE_BYTES_MAX:
                lines.append(self._partial)
                self._partial = b""
        if lines:
            self._put(b"".join(map(self._line, lines)))

    def _line(self, line: bytes) -> bytes:
        if not self._json:
            return b"[%d] %s\n" % (self._node, line)
        if line.startswith(b"{") and line.endswith(b"}"):
            return b'{"node": %d, %s\n' % (self._node, line[1:])
        return json.dumps({"node": self._node, "message": line.decode("utf-8", "replace")}).encode() + b"\n"


def to_stderr(lines: bytes) -> None:
    """Write the lines to stderr; they are lost if stderr is a pipe whose reader has closed it."""
    with suppress(OSError):
        while lines:
            lines = lines[os.write(2, lines) :]
