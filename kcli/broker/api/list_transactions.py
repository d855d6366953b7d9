"""ListTransactions (66): the transactional ids that this broker coordinates, filtered.

v1 a filter for transactions open for longer than a duration (KIP-994). v2 a pattern of transactional ids, in RE2's
syntax (KIP-1152). KIP-664.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.java.linear_regex import LinearRegex, PatternError, compile_linear, matches_at_once
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.txn.requests import ListedTransaction, ListTransactions
from kcli.txn.transaction import BY_LABEL

if TYPE_CHECKING:
    from kcli.broker.wire.types import list_transactions as types


async def list_transactions(broker: Broker, call: types.ListTransactionsCall) -> types.ListTransactionsResponse:
    """Errors: COORDINATOR_LOAD_IN_PROGRESS while a partition of __transaction_state is being loaded,
    INVALID_REGULAR_EXPRESSION."""
    filters = call.request
    pattern = call.get("transactional_id_pattern", None)
    try:
        regex = compile_linear(pattern) if pattern else None
    except PatternError:
        return _answer(call, ErrorCode.INVALID_REGULAR_EXPRESSION)
    request = ListTransactions(
        states=frozenset(filters.state_filters),
        producer_ids=frozenset(filters.producer_id_filters),
        longer_than_ms=call.get("duration_filter", -1),
    )
    transactions = broker.transactions
    found: list[ListedTransaction] = []
    try:
        for number in transactions.led():
            found += await transactions.handle_in(number, request)
    except CoordinatorError as error:
        return _answer(call, error.code)
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    found = [each async for each in broker.turns.over(found) if each.transactional_id in describable]
    unknown = tuple(dict.fromkeys(state for state in filters.state_filters if state not in BY_LABEL))
    return _answer(call, ErrorCode.NONE, unknown, found if regex is None else await _matched(broker, found, regex))


async def _matched(broker: Broker, found: list[ListedTransaction], regex: LinearRegex) -> list[ListedTransaction]:
    """Return the transactions whose transactional id matches. The ids are matched in parts, so that the event loop
    serves other requests meanwhile."""
    listed: list[ListedTransaction] = []
    longest = max((len(each.transactional_id) for each in found), default=0)
    at_once = matches_at_once(regex, longest)
    for first in range(0, len(found), at_once):
        await broker.turns.next()
        listed += (each for each in found[first : first + at_once] if regex.fullmatch(each.transactional_id))
    return listed


def _answer(
    call: types.ListTransactionsCall,
    code: ErrorCode,
    unknown: tuple[str, ...] = (),
    listed: list[ListedTransaction] | None = None,
) -> types.ListTransactionsResponse:
    return call.respond(
        error_code=code,
        unknown_state_filters=unknown,
        transaction_states=tuple(
            call.new(
                "TransactionState",
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state,
            )
            for each in listed or ()
        ),
    )
