"""The exception of a transaction coordinator that refuses a request."""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode


class Refused(Exception):
    """The coordinator refuses a request with this error code; the request has changed nothing."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code
