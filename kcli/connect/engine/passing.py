"""Which errors end a turn, and not its task: those that pass by themselves, as when brokers are away or change places.

Kafka's clients try the same again without end. Source: RetriableException of Kafka's clients; WorkerSourceTask, which
polls again after a RetriableException.
"""

from __future__ import annotations

from kcli.client import leaders, log_appending, producing_transaction
from kcli.client.connection import Refused, Unreachable
from kcli.client.leaders import Leaderless, NoLeader
from kcli.client.producing_transaction import SilentCoordinator
from kcli.client.wire import ErrorAnswer, LoginFailed, NobodyAnswers
from kcli.connect.data.errors import RetriableError
from kcli.protocol.error_code import ErrorCode

CODES = (
    leaders.PASSING
    | log_appending.RETRIED
    | producing_transaction.RETRIED
    | {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
)
"""INVALID_PRODUCER_ID_MAPPING: the coordinator has forgotten the transactional id (transactional.id.expiration.ms)."""
NAMES = {code.name for code in CODES} | {"ALL_BROKERS_DOWN", "RESOLVE", "TIMED_OUT", "TRANSPORT", "WAIT_COORD"}
"""Those of librdkafka's own errors are without their underscore."""


def is_passing(error: BaseException) -> bool:
    """Whether an error passes by itself, so that its task goes on later."""
    match error:
        case NobodyAnswers():
            return not isinstance(error.error, LoginFailed)
        case Unreachable():
            return not error.is_of_login
        case ErrorAnswer():
            return error.code in CODES
        case Refused():
            return error.name in NAMES
        case _:
            return isinstance(error, NoLeader | Leaderless | SilentCoordinator | RetriableError)
