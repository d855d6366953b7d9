"""ListTransactions (66): the transactional ids that this broker coordinates, filtered.

v1 those that are open for longer than a duration (KIP-994). v2 a pattern of transactional ids, in RE2's syntax
(KIP-1152). KIP-664.
"""

from __future__ import annotations

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.linear_regex import LinearRegex, PatternError, compile_linear, matches_at_once
from kcli.txn.requests import ListedTransaction, ListTransactions
from kcli.txn.transaction import BY_LABEL


async def list_transactions(call: Call) -> Entity:
    """Errors: COORDINATOR_LOAD_IN_PROGRESS while some are not known yet, INVALID_REGULAR_EXPRESSION."""
    asked = call.request
    pattern = call.get("transactional_id_pattern", None)
    try:
        regex = compile_linear(pattern) if pattern else None
    except PatternError:
        return _answer(call, ErrorCode.invalid_regular_expression)
    request = ListTransactions(
        states=frozenset(asked.state_filters),
        producer_ids=frozenset(asked.producer_id_filters),
        longer_than_ms=call.get("duration_filter", -1),
    )
    transactions = call.broker.transactions
    found: list[ListedTransaction] = []
    try:
        for number in transactions.led():
            found += await transactions.ask_shard(number, request)
    except CoordinatorError as error:
        return _answer(call, error.code)
    unknown = tuple(dict.fromkeys(state for state in asked.state_filters if state not in BY_LABEL))
    return _answer(call, ErrorCode.none, unknown, found if regex is None else await _matched(call, found, regex))


async def _matched(call: Call, found: list[ListedTransaction], regex: LinearRegex) -> list[ListedTransaction]:
    """Those whose ids match; others have their turns meanwhile."""
    listed: list[ListedTransaction] = []
    longest = max((len(each.transactional_id) for each in found), default=0)
    at_once = matches_at_once(regex, longest)
    for first in range(0, len(found), at_once):
        await call.broker.turns.next()
        listed += (each for each in found[first : first + at_once] if regex.fullmatch(each.transactional_id))
    return listed


def _answer(
    call: Call, code: ErrorCode, unknown: tuple[str, ...] = (), listed: list[ListedTransaction] | None = None
) -> Entity:
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
