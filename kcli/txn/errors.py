"""How a transaction coordinator refuses."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """The codes of Kafka's protocol that a transaction coordinator answers with."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    PRODUCER_FENCED = 90
    TRANSACTIONAL_ID_NOT_FOUND = 105
    TRANSACTION_ABORTABLE = 120


class Refused(Exception):
    """A request changes nothing."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code
